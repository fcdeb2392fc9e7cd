//! What a block object can do beside reading and writing: one small trait a capability.
//!
//! ```text
//!   Device        geometry, read, write, flush
//!   StableId      the id it keeps                          ┐
//!   BlockLimits   sizes it serves best, what may be done   ├─ BlockObject: what block front ends serve
//!   Zeroes        giving room back, writing zeroes         │
//!   Extents       where it has data                        ┘
//!   CloneRange    copying without moving data: those whose BlockLimits say so
//! ```
//!
//! Invariant: every range is checked where these traits are implemented. One that is misaligned to 4 KiB or beyond the
//! size is [`IoErrorKind::Invalid`](crate::IoErrorKind::Invalid) and changes nothing.

use holdfast_model::Uuid;

use crate::{Device, Durability, Io};

/// Has an identity.
pub trait StableId {
    /// The same for as long as the object exists: after a restart, under another name, on another machine.
    fn id(&self) -> Uuid;
}

/// What discards do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscardLimits {
    /// Only whole units of this size give room back: a power of two, 4 KiB at least.
    pub granularity_bytes: u64,
    /// Whether a discarded range reads as zeros. If not, its content is undefined.
    pub reads_zeros: bool,
}

/// What requests an object takes, and which it serves best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of request that is served best.
    pub optimal_io_bytes: u32,
    /// None where discards do nothing.
    pub discard: Option<DiscardLimits>,
}

/// Says what requests it takes.
pub trait BlockLimits {
    /// Does not change while the object is open.
    fn limits(&self) -> Limits;

    /// Whether it refuses every change for now.
    fn is_read_only(&self) -> bool;

    /// None where data is copied only by reading and writing it.
    fn cloning(&self) -> Option<&dyn CloneRange> {
        None
    }
}

/// Copies ranges without moving data.
pub trait CloneRange {
    /// Objects of one domain can be cloned from each other.
    fn clone_domain(&self) -> Uuid;

    /// Makes `len` bytes at `offset` the same as those that the object of the id `source` has at `from` while this runs.
    /// Durable no sooner than a write of [`Durability::Cached`] is. An object that is not of the domain, or not open, is
    /// [`IoErrorKind::Invalid`](crate::IoErrorKind::Invalid).
    fn clone_range(&self, source: Uuid, from: u64, offset: u64, len: u64) -> Io<()>;
}

/// Gives room back and writes zeroes without a payload.
pub trait Zeroes {
    /// Gives the range back. It reads as [`DiscardLimits`] say afterwards.
    fn unmap(&self, offset: u64, len: u64, durability: Durability) -> Io<()>;

    /// Makes the range read as zeros. With `keep_room` the range takes as much room as data would.
    fn write_zeroes(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Io<()>;
}

/// Whether bytes of an object take room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// Written.
    Data,
    /// Never written or discarded: takes no room and reads as zeros.
    Hole,
    /// Takes room, and reads as zeros.
    Zero,
}

/// A run of bytes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its length.
    pub len: u64,
    /// What it holds.
    pub kind: ExtentKind,
}

/// Knows where it has data.
pub trait Extents {
    /// The kinds of bytes from `offset`, in order, covering at most `len` bytes and at most `max` runs (at least one).
    fn extents(&self, offset: u64, len: u64, max: usize) -> Io<Vec<Extent>>;
}

/// What block front ends serve: a space, a file of a volume.
pub trait BlockObject: Device + StableId + BlockLimits + Zeroes + Extents {}

impl<T: Device + StableId + BlockLimits + Zeroes + Extents> BlockObject for T {}
