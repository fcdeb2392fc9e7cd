//! Programs of others on volumes that are mounted over a pool: exercisers of files, a data base, archives, two other file
//! systems to compare with; and the daemon is killed under them.
//!
//! `HOLDFAST_SOAK=1` takes the long lengths.

mod bad_input;
mod database;
mod differential;
mod exercisers;
mod kills;
mod support;
