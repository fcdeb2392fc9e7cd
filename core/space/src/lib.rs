//! Slabs to virtual disks.
//!
//! A [`Space`] is a list of chunks of equal size. A chunk that holds data has a *row*: slabs on distinct disks, as
//! columns and copies. Each slab carries a block map in its head: which 4 KiB blocks were ever written, and which
//! regions may differ between copies.
//!
//! ```text
//!  space.rs        the virtual disk: open, close, requests        extents.rs   what is written and what is not
//!  resize.rs       larger and smaller                             status.rs    how it is; counters.rs: what it did
//!  in_flight.rs    requests under way
//!  chunks.rs       the row of a chunk: opened, allotted, given back
//!  row_table.rs    the open rows: locks, gates; row_use.rs: who uses one
//!  row.rs          an open row; slab.rs: its slabs and which are in step; open.rs, heads.rs: how it is found on disk
//!  stripe.rs       offset -> chunk, column, offset in column
//!  column.rs       the state of a column in memory: written blocks, dirty regions, running writes
//!  block_map.rs    the same on disk
//!  read.rs  write.rs  discard.rs  flush.rs                        one file per kind of request
//!  parity.rs       rows that keep parity instead of copies, and their store
//!  resync.rs       copies brought back in step                    maintenance.rs   what a space does by itself
//!  protection.rs   how many losses its rows bear now
//!  movement.rs     what moves while it is in use: relocate.rs a chunk to another row, slab_move.rs a slab to another disk
//!  claims.rs       who moves which chunk
//!  reshape.rs      another shape, other disks                     rebuild.rs       lost slabs made anew on other disks
//!  copies.rs      each copy by itself                            integrity.rs    checksums that come with a write
//!  hints.rs       what stays marked; kept_marked.rs: the ranges
//!  scrub.rs        copies, or data and parity, compared           pace.rs          how fast long work may go
//!  lock_order.rs   which lock is taken under which                check.rs         what must hold between any two steps
//! ```
//!
//! Invariants:
//! - A block is served from disk only if its block map says that it was written; so a fresh row needs no zeroing, and
//!   what an earlier owner left is never seen.
//! - A block's bit reaches the disk only after its data is durable there.
//! - A region is marked dirty on every copy before a write to it begins, and unmarked only when all copies hold the
//!   same, durably. After a crash a marked region is brought in step before any of its blocks is served.
//! - A copy that missed a write is recorded as stale in the pool before that write is answered.

mod block_map;
mod block_set;
mod boxed_cold;
mod capability;
mod check;
mod checksums;
mod chunks;
mod claims;
mod column;
mod copies;
mod counters;
mod discard;
mod extents;
mod flush;
mod heads;
mod hints;
mod in_flight;
mod integrity;
mod kept_marked;
mod lagging;
mod lock_order;
mod lost_writes;
mod maintenance;
mod map_owner;
mod movement;
mod open;
mod pace;
mod parity;
mod protection;
mod range_queue;
mod read;
mod rebuild;
mod relocate;
mod repair;
mod repairs;
mod reshape;
mod resize;
mod resync;
mod row;
mod row_table;
mod row_use;
mod scrub;
mod slab;
mod slab_move;
mod space;
mod status;
mod stripe;
mod write;

pub use counters::SpaceCounters;
pub use pace::{Ended, Pace, Stopped, Unlimited};
pub use parity::JournalStatus;
pub use parity::record as journal_record;
pub use protection::Protection;
pub use scrub::{Mismatch, Verified};
pub use space::{Space, SpaceSettings};
pub use status::{RowMap, SlabMap, SpaceStatus};
