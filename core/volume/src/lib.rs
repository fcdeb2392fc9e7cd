//! A virtual disk to files. What stands today is the trait that front ends see, and the floor under all metadata: a store
//! of sorted trees.
//!
//! ```text
//!   transaction ──▶ trees in memory ──▶ log ── FUA ──▶ acknowledged
//!                        │
//!                        └── checkpoint: changed nodes to new places ── flush ──▶ root slot
//! ```
//!
//! ```text
//!  store.rs       transactions, lookups, ranges               checkpoint.rs   a cut of all trees made durable
//!  tree.rs        one B+tree in memory, copied on write        cache.rs        nodes as they stand on the device
//!  page.rs        a node: a slotted page of 16 KiB             log.rs          the circular log, and its batches
//!  superblock.rs  where everything is, and the root slots      zones.rs        room for nodes
//!  scan.rs        all trees read and checked against the room
//!  service.rs     files as front ends see them                 error.rs        what goes wrong, and its numbers in protocols
//! ```
//!
//! Invariants:
//! - What a root slot refers to is never written over: nodes go to room that is free in that root and the one before.
//! - After a crash the trees hold all transactions up to one of them, in order, and at least those that were synced.
//! - A node is believed only if it is the one its parent names: by address, generation and CRC.

mod cache;
mod checkpoint;
mod error;
mod log;
pub mod page;
mod scan;
pub mod service;
mod store;
pub mod superblock;
mod tree;
mod zones;

pub use error::{ErrorKind, VolumeError};
pub use scan::Finding;
pub use store::{Format, Settings, Store, Transaction};

/// The trees of a volume: files are spread over 32 shards by their ids; what all share comes after them.
pub const TREES: u8 = 40;
/// The first tree that is not a shard of files.
pub const SHARED_TREES: u8 = 32;
/// The tree of the classes of zones.
pub(crate) const ZONE_TREE: u8 = 32;
/// Bytes of a key, at most.
pub const MAX_KEY_BYTES: usize = 512;
/// Bytes of a value, at most: three entries fit into a node at least.
pub const MAX_VALUE_BYTES: usize = 4096;
