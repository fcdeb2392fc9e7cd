//! Disks to slabs.
//!
//! A pool is a set of disks with one configuration, which stands whole on every one of them. It gives spaces *rows*:
//! for each chunk of a space a slab on each of several distinct disks.
//!
//! Each line stands on those below it; [`Pool`] is one type with its methods in the files above `pool.rs`.
//!
//! ```text
//!  import.rs     created, or found and imported             removal.rs, ending.rs   disks that leave; exported, destroyed
//!  spaces.rs     spaces made and resized                    salvage.rs     put together again from the heads of its slabs
//!  moves.rs      rows and slabs that move                   evacuation.rs, balance.rs   what would empty or even out disks
//!  rows.rs       rows allotted and given back               disks.rs       disks that join, go out and come back
//!  journal.rs    journals of parity spaces                  status.rs      how a pool and its disks are
//!  audit.rs      labels and logs repaired in use            outdated.rs    disks that were set back
//!  upgrade.rs    a pool that gets further features          capacity.rs    what it could hold
//!  commit.rs     one change at a time, on a majority of the disks before it counts
//!  ownership.rs  whether another owner has it               reading.rs     pools that may only be read
//!  in_use.rs     whether somebody has it
//!
//!  pool.rs       the pool in use                            state.rs, committer.rs, refusal.rs, judgement.rs   its parts
//!
//!  scan.rs       finding pools on disks                     admission.rs   who may import
//!  promise.rs    whose a disk is                            quorum.rs      who is a majority
//!  allot.rs, enclosures.rs, journal_allot.rs   which disks a row gets      room.rs    how large a configuration may become
//!  config.rs     the configuration                          extents.rs     free units
//!  codec.rs      changes as bytes                           change.rs, record.rs, place.rs   what they are about
//!  geometry.rs   how slabs are laid out, chunk.rs: rows     slab.rs        the head of a slab
//!  log.rs        the metadata log of a disk                 label.rs, frame.rs, area.rs   blocks, and where they are
//!  features.rs   what not every version knows               life.rs        signs of life of an owner
//! ```
//!
//! Invariant: a change that was answered is found again by every import that assembles a quorum, and a disk that missed
//! one is never believed by its own word.

mod admission;
mod allot;
mod area;
mod audit;
mod balance;
mod batch;
mod candidate;
mod capacity;
mod change;
mod check;
mod chunk;
mod codec;
mod commit;
mod committer;
mod config;
mod disk;
mod disks;
mod documents;
mod enclosures;
mod ending;
mod error;
mod evacuation;
mod event;
mod extents;
mod features;
pub mod frame;
mod geometry;
mod import;
mod in_use;
mod journal;
mod journal_allot;
mod judgement;
mod label;
mod life;
mod log;
mod moves;
mod outdated;
mod ownership;
mod place;
mod pool;
mod promise;
mod quorum;
mod reading;
mod record;
mod refusal;
mod removal;
mod room;
mod rows;
mod salvage;
mod scan;
pub mod slab;
mod spaces;
mod state;
mod status;
mod upgrade;

pub use area::{Area, LARGEST_DISK_BYTES, SMALLEST_DISK_BYTES, UNIT_BYTES};
pub use audit::Audit;
pub use balance::{Balance, DiskUse, SlabMove};
pub use candidate::{Candidate, DiskInfo};
pub use capacity::{Capacity, Limit, RoomUse};
pub use change::Change;
pub use config::{Config, SpaceRows};
pub use disk::{DiskCounters, InFlight, PoolDisk};
pub use disks::DiskChange;
pub use documents::MOST_DOCUMENT_BYTES;
pub use ending::wipe;
pub use error::{PoolError, PoolErrorKind};
pub use evacuation::{Evacuation, NewDisk, SpaceLeaving};
pub use event::{Env, Event, EventSink, Severity, Witness, WitnessRecord};
pub use features::{Feature, Features};
pub use frame::Position;
pub use geometry::{JOURNAL_CHUNK, row_raw_bytes};
pub use journal::JournalPlan;
pub use journal_allot::{LEAST_JOURNAL, MOST_JOURNAL};
pub use judgement::{DiskCounts, Judgement};
pub use life::SignOfLife;
pub use place::SlabPlace;
pub use pool::Pool;
pub use record::{DiskRecord, LossPolicy, RowRecord, SpaceRecord};
pub use rows::FreedRow;
pub use salvage::{ChunkCounts, JournalFound, Salvage, SalvagedDisk, SalvagedSpace};
pub use scan::{FoundPool, Member, Scan, scan};
pub use spaces::{SpaceSpec, check_space_size};
pub use status::{DiskStatus, PoolStatus};
