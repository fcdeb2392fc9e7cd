//! Parity rows: bands of stripes, of which any one or two columns can be computed from the others.
//!
//! ```text
//!  geometry.rs  which block is in which column                 band_map.rs  where the bands are, on disk
//!  bands.rs     the same in memory, and whose turn it is       open.rs      how it is found on disk
//!  dirty.rs     what was written to a band                     write_buffer.rs   what waits, over all bands
//!  plan.rs      how it gets into its place                     place.rs     and gets there
//!  commit.rs    maps brought up to what is in place            read.rs      reads
//!  journal.rs   the log that goes round                        record.rs    its records as bytes
//!  found.rs     the log as its copies on the disks have it     replay.rs    what a crash left in it
//!  stripe.rs    pieces, read or computed                       rejoin.rs    a slab that was away
//!  deferred_replay.rs     what waits for rows that cannot be opened
//!  stage.rs     blocks kept beside their place                 recover.rs   what a crash left of these
//!  spill.rs     a fast journal takes what memory does not      resize.rs    another journal
//!  maintenance.rs     what is done unasked                           background_destage.rs     and in the background
//! ```
//!
//! Invariant: whatever a crash cuts short, together with the loss of as many disks as there is parity, each block is
//! afterwards old or new. A whole band goes to a fresh place and is switched over; anything less is in the journal or in a place
//! that the journal tells of, parity included, before a byte of its place changes.

mod append;
mod background_destage;
mod band_map;
pub mod bands;
mod commit;
mod deferred_replay;
mod destage;
mod dirty;
mod durable;
mod enter;
mod found;
mod geometry;
mod journal;
mod loans;
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

pub use band_map::NOWHERE;
pub use bands::Bands;
pub use geometry::{Geometry, Rows, bytes_of, clear};
pub use journal::Journal;
pub use resize::JournalStatus;
pub use store::{ParityStore, StoreLimits};
pub use stripe::{Pieces, index_of, piece_of};
