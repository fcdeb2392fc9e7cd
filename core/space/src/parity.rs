//! Parity rows: bands of stripes, of which any one or two columns can be computed from the others.
//!
//! ```text
//!  store.rs         what all these rows of a space share           write_buffer.rs       what waits, over all bands
//!  geometry.rs      which block is in which column                 band_map.rs           where the bands are, on disk
//!  bands.rs         the same in memory; bands/turns.rs: whose turn open.rs               how it is found on disk
//!  dirty.rs         what was written to a band                     enter.rs              writes, and room for them
//!  plan.rs          how it gets into its place                     destage.rs            and gets there
//!  commit.rs        maps brought up to what is in place            read.rs               reads
//!  durable.rs       a flush                                        background_destage.rs other cores destage
//!  journal.rs       the log that goes round                        append.rs             and grows
//!  log_record.rs    its records in memory; record.rs: as bytes     spill.rs              it takes what memory does not
//!  found.rs         the log as its copies on the disks have it     replay.rs             what a crash left in it
//!  deferred_replay.rs  what waits for rows that cannot be opened   resize.rs             another journal
//!  stage.rs         blocks kept beside their place                 bands/loans.rs        where
//!  recover.rs       what a crash left of these                     stripe.rs             pieces, read or computed
//!  rejoin.rs        a slab that was away                           prove.rs              checksums taken anew
//!  copies.rs        each copy of a block by itself                 helpers.rs            who they are
//!  maintenance.rs   what is done unasked
//! ```
//!
//! Invariant: whatever a crash cuts short, together with the loss of as many disks as there is parity, each block is
//! afterwards old or new. A whole band goes to a fresh place and is switched over; anything less is in the journal or
//! in a place that the journal names, parity included, before a byte of its place changes.

mod append;
mod background_destage;
mod band_map;
pub mod bands;
mod commit;
mod copies;
mod deferred_replay;
mod destage;
mod dirty;
mod durable;
mod enter;
mod found;
mod geometry;
mod helpers;
mod journal;
mod log_record;
mod maintenance;
mod open;
mod plan;
mod prove;
mod read;
pub mod record;
mod recover;
mod rejoin;
mod replay;
mod resize;
mod spill;
mod stage;
mod store;
mod stripe;
mod write_buffer;

#[cfg(test)]
mod tests;

pub use band_map::NOWHERE;
pub use bands::Bands;
pub use geometry::{Geometry, Rows, bytes_of, clear};
pub use journal::Journal;
pub use resize::JournalStatus;
pub use store::{ParityStore, StoreLimits};
pub use stripe::{Pieces, index_of, piece_of};
