//! A virtual disk to files.
//!
//! ```text
//!   FileService ──▶ names, attributes ─▶ changes of trees ──▶ log ── FUA ──▶ acknowledged
//!        │                                     │
//!        │                                     └── checkpoint: changed nodes to new places ── flush ──▶ root slot
//!        └───────▶ data, in place
//! ```
//!
//! ```text
//!  service.rs     files as front ends see them                error.rs        what goes wrong, in the words of protocols
//!  files.rs       the volume as such a service                 volume.rs       what is open, ids of files, time
//!  namespace.rs   names given, changed, taken                  listing.rs      names of a directory in order
//!  attributes.rs  facts about a file, who may set them         access.rs       who may do what
//!  caller.rs      who asks, as front ends say it               tokens.rs       and as descriptors see it
//!  extended.rs    extended attributes                          removal.rs      files without a name
//!  read.rs        reading                                      write.rs        writing
//!  delayed.rs     data that waits in memory for its place      write_back.rs   and how it comes there
//!  length.rs      files cut and grown                          room.rs         room set aside, given back, zeroed
//!  extents.rs     the extents of a file                        open_files.rs   files that are open
//!  block_object.rs  a file as a disk                           blocks.rs       whole blocks of files
//!  objects.rs     files that are disks                        overwrite.rs    data written over where it lies
//!  left_handles.rs  handles that nobody closes               remembered.rs   files without a name that somebody knows
//!  paths.rs       all names of a file
//!  mappings.rs    extents that were looked up, kept
//!  record.rs, extent.rs, keys.rs, names.rs                     what stands in the trees of files
//!
//!  change.rs      a change under the locks of trees            transaction.rs  operations that are made together
//!  store.rs       lookups, ranges, zones                       open.rs         a store made, and opened
//!  tree.rs        one B+tree in memory, copied on write        cache.rs        nodes as they stand on the device
//!  page.rs        a node: a slotted page of 16 KiB             checkpoint.rs   a cut of all trees made durable
//!  log.rs         the circular log, and its batches            flush.rs        when data became durable
//!  replay.rs      what the log has behind a root               media.rs        the device, and copies of its blocks
//!  remake.rs      trees and bitmaps without which nothing goes on, made again
//!  unsettled.rs   data that is proven by records of the log    trim.rs         room given back to the device
//!  zones.rs       room for nodes                               rooms.rs        room for data
//!  superblock.rs  where everything is, and the root slots      bitmap.rs       the blocks of a zone
//!  grow.rs        more of the device taken in use              shrink.rs       the end of the device given up in use
//!  line.rs        nothing given out above it                   relocate.rs     data moved below it
//!  turnover.rs    zones that change their use                 ground.rs       room of a thin device, taken before
//!  vacate.rs      nodes written anew below it                  verbs.rs        what can be wrong
//!  scan.rs        all trees read, held against each other      findings.rs     what a scan found, kept
//!  repair.rs      findings repaired in use                    rebuild.rs      trees that lost nodes, offline
//!  graft.rs       a damaged node taken out of its tree        salvage.rs      what can be read of a wreck, copied out
//!  overlay.rs     changes of a wreck, in memory                wreck.rs        roots and zones guessed by what is found
//!  quota.rs       limits, and what is taken of them
//!  snapshots.rs   which there are, and what they keep         capture.rs      snapshots made and removed
//!  past.rs        a snapshot as a volume                      browse.rs       a volume with its snapshots in it
//!  recount.rs     what they keep counted anew in use
//!  reclaim.rs     what no snapshot has any more given back    references.rs   who has blocks that are shared
//!  cloning.rs     ranges of files that get blocks of others   sharing.rs      what follows when files share blocks
//!  cloning_past.rs  the same of blocks that a snapshot has    relocate_shared.rs  blocks that are shared moved for all
//!  cloning_summed.rs  the same of what strict files get
//!  descriptors.rs security descriptors, each kept once        security.rs     read, set and inherited
//!  reinherit.rs   what is below given what is handed on       streams.rs      data beside that of a file, by name
//!  data_cache.rs  data of files kept in memory              cached.rs       the device that it is of, and its writes
//!  sums.rs        checksums of blocks of strict files      integrity.rs    which files have them, and from when on
//!  checked.rs     blocks held against them, and healed    scrub.rs        all of them read, in every copy
//!  name_rules.rs  what names are to callers of NT
//!  reparse.rs     what a file stands for                      differences.rs  what became of files since a snapshot
//!  observe.rs     what a transaction does to files            journal.rs      kept, for those who ask later
//!  watch.rs       told, to those who wait
//!  twins.rs       metadata kept twice where the device has one copy
//! ```
//!
//! Invariants:
//! - What a root slot refers to is never written over: nodes go to room that is free in that root and the one before.
//! - After a crash the trees hold all transactions up to one of them, in order, and at least those that were synced.
//! - A node is believed only if it is the one its parent names: by address, generation and CRC.

mod access;
mod attributes;
mod bitmap;
mod block_object;
mod blocks;
mod browse;
mod cache;
mod cached;
mod caller;
mod capture;
mod change;
mod checked;
mod checkpoint;
mod cloning;
mod cloning_past;
mod cloning_summed;
mod data_cache;
mod delayed;
mod descriptors;
mod differences;
mod error;
mod extended;
mod extent;
mod extents;
mod files;
mod findings;
mod flush;
mod gather;
mod graft;
mod ground;
mod grow;
mod integrity;
mod journal;
mod keys;
mod left_handles;
mod length;
mod line;
mod listing;
mod log;
mod mappings;
mod media;
mod name_rules;
mod names;
mod namespace;
mod objects;
mod observe;
mod open;
mod open_files;
mod overlay;
mod overwrite;
mod own_nodes;
pub mod page;
mod past;
mod paths;
mod quota;
mod read;
mod rebuild;
mod reclaim;
mod record;
mod recount;
mod references;
mod reinherit;
mod relocate;
mod relocate_shared;
mod remake;
mod remembered;
mod removal;
mod renaming;
mod repair;
mod reparse;
mod replay;
mod room;
mod rooms;
mod runs;
pub mod salvage;
mod scan;
mod scrub;
mod security;
pub mod service;
mod sharing;
mod shrink;
mod snapshots;
mod store;
mod streams;
mod sums;
pub mod superblock;
mod tokens;
mod transaction;
mod tree;
mod trim;
mod turnover;
mod twins;
mod unsettled;
mod vacate;
mod verbs;
mod volume;
mod watch;
mod wreck;
mod write;
mod write_back;
mod zones;

pub use block_object::{FileObject, Finish, object_id};
pub use browse::{Browsed, BrowsedHandle, SNAPSHOTS};
pub use cached::CachedDevice;
pub use checked::{ChecksumCounts, DamageOutcome, DamagedBlock};
pub use data_cache::{DATA_CACHE_BYTES, DataCache, DataCacheCounts};
pub use differences::{Difference, DifferencesFrom, Version};
pub use error::{ErrorKind, VolumeError};
pub use gather::{GatherFrom, Gathered};
pub use integrity::Integrity;
pub use journal::{JournalRead, JournalRecord, JournalState, Reasons};
pub use names::MAX_NAME_BYTES;
pub use objects::KeptOff;
pub use open_files::Handle;
pub use quota::{Limits, Quota, QuotaState, Subject};
pub use reinherit::Reinheriting;
pub use repair::{Repaired, Spotfixed};
pub use scan::{ScanProgress, ScanSettings, Scanned};
pub use scrub::{ScrubFrom, Scrubbed};
pub use shrink::{ShrinkPlan, Steps};
pub use snapshots::{MOST_SNAPSHOTS, Snapshot};
pub use store::{Format, Settings, Store};
pub use transaction::Transaction;
pub use verbs::{Severity, Verb};
pub use volume::{Volume, VolumeFormat, WallClock};
pub use watch::{Watch, WatchEvent, WatchKind, WatchSettings};

/// The trees of a volume: files are spread over 32 shards by their ids; what all share comes after them.
pub const TREES: u8 = 44;
/// The first tree that is not a shard of files.
pub const SHARED_TREES: u8 = 32;
/// The tree of the classes of zones.
pub(crate) const ZONE_TREE: u8 = 32;
/// The tree of whose each extent is.
pub(crate) const OWNER_TREE: u8 = 33;
/// The tree of files that are to be removed, or cut.
pub(crate) const DEFERRED_TREE: u8 = 34;
/// The tree of what the volume is set to.
pub(crate) const SETTINGS_TREE: u8 = 35;
/// The tree of what a scan found.
pub(crate) const VERB_TREE: u8 = 36;
/// The tree of what users, groups and directory trees take, and may take.
pub(crate) const QUOTA_TREE: u8 = 37;
/// The tree of snapshots, and of how much they keep.
pub(crate) const SNAPSHOT_TREE: u8 = 38;
/// The tree that has once more what names of the volume depend on, and its snapshots.
pub(crate) const SETTINGS_TWIN: u8 = 39;
/// The tree of security descriptors, and the one that has them once more.
pub(crate) const SECURITY_TREE: u8 = 41;
pub(crate) const SECURITY_TWIN: u8 = 42;
/// The tree of the change journal.
pub(crate) const JOURNAL_TREE: u8 = 43;
/// How many files there are, in the tree of settings: as of the checkpoint, and counted on by replay.
pub(crate) const KEY_FILES: &[u8] = b"files";
/// Bytes of a key, at most.
pub const MAX_KEY_BYTES: usize = 512;
/// Bytes of a value, at most: three entries fit into a node at least.
pub const MAX_VALUE_BYTES: usize = 4096;
