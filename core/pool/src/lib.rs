//! Disks to slabs.
//!
//! A pool is a set of disks with one configuration, which stands whole on every one of them. It gives spaces *rows*: for
//! each chunk of a space a slab on each of several distinct disks.
//!
//! ```text
//!  pool.rs      what an owner does: disks and rows                                     spaces.rs: making and resizing spaces
//!  import.rs    how a pool comes into being: created, or found and imported             promise.rs: whose its disks are
//!  commit.rs    one change at a time, on a majority of the disks before it counts      quorum.rs: who is a majority
//!  log.rs       the metadata log of one disk: checkpoints and records                   codec.rs: changes as bytes
//!  config.rs    the configuration itself, and the changes it knows                      extents.rs: free units
//!  admission.rs who may import, reading.rs: and who may only read                       room.rs: how large it may become
//!  scan.rs      finding pools on disks                                                  label.rs, frame.rs: blocks
//!  slab.rs      the head of a slab                                                      area.rs: how a disk is divided
//!  allot.rs     which disks a row gets, enclosures.rs: in which enclosures              journal.rs: journals of parity spaces
//!  moves.rs     rows and slabs that move, another shape                                 capacity.rs: what it could hold
//!  balance.rs   which slabs would make the use of disks even                            evacuation.rs: what would empty a disk
//!  status.rs    how a pool is                                                         features.rs: what not every version knows
//!  removal.rs   disks that leave for good                                             audit.rs: labels and logs mended in use
//!  refusal.rs   why it takes no changes                                                salvage.rs: a pool put together again from the heads of its slabs
//! ```
//!
//! Invariant: a change that was answered is found again by every import that assembles a quorum, and a disk that missed
//! one is never believed by its own word.

mod admission;
mod allot;
mod area;
mod audit;
mod balance;
mod capacity;
mod codec;
mod commit;
mod config;
mod disk;
mod enclosures;
mod error;
mod evacuation;
mod event;
mod extents;
mod features;
pub mod frame;
mod import;
mod journal;
mod label;
mod log;
mod moves;
mod outdated;
mod place;
mod pool;
mod promise;
mod quorum;
mod reading;
mod refusal;
mod removal;
mod room;
mod salvage;
mod scan;
pub mod slab;
mod spaces;
mod status;

pub use allot::row_raw_bytes;
pub use area::{Area, LARGEST_DISK_BYTES, SMALLEST_DISK_BYTES, UNIT_BYTES};
pub use audit::Audit;
pub use balance::{Balance, DiskUse, SlabMove};
pub use capacity::{Capacity, Limit, RoomUse};
pub use config::{Change, Config, DiskRecord, LossPolicy, RowRecord, SlabPlace, SpaceRecord, SpaceRows};
pub use disk::{DiskCounters, InFlight, PoolDisk};
pub use error::{PoolError, PoolErrorKind};
pub use evacuation::{Evacuation, NewDisk, SpaceLeaving};
pub use event::{Env, Event, EventSink, Severity, Witness, WitnessRecord};
pub use features::{Feature, Features};
pub use frame::Position;
pub use import::wipe;
pub use journal::{JOURNAL_CHUNK, JournalPlan, LEAST_JOURNAL, MOST_JOURNAL};
pub use pool::{DiskChange, FreedRow, Pool, SpaceSpec};
pub use salvage::{ChunkCounts, JournalFound, Salvage, SalvagedDisk, SalvagedSpace};
pub use scan::{Candidate, DiskInfo, FoundPool, Member, Scan, scan};
pub use spaces::check_space_size;
pub use status::{DiskCounts, DiskStatus, Judgement, PoolStatus};
