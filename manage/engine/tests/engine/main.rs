//! A real engine on file disks in memory: its changes, and its life.

mod capacity;
mod causes;
mod changes;
mod disks;
mod enclosures;
mod input;
mod leaving;
mod life;
mod luns_away;
mod metadata;
mod moving;
mod parity;
mod preferences;
mod reservations;
mod support;
mod targets;
