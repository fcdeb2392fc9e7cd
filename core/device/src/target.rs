//! What a block front end sees: a named device with an allocation map, and nothing of pools.

use std::sync::Arc;

use crate::{Durability, Exclusion, Geometry, Io, IoBuf, IoSlice};

/// What a front end tells its clients about a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetInfo {
    /// Name that clients ask for.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Size and sectors.
    pub geometry: Geometry,
    /// The size of request that the target serves best.
    pub optimal_io_bytes: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// Whether bytes of a target take room.
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

/// A block target. Identity, access and quality of service are settled where this trait is implemented, once.
///
/// Every range is checked there: misaligned to 4 KiB or beyond the size is
/// [`IoErrorKind::Invalid`](crate::IoErrorKind::Invalid), a write to a read-only target
/// [`IoErrorKind::ReadOnly`](crate::IoErrorKind::ReadOnly).
pub trait Target: Send + Sync {
    /// What it is like now; a grown size shows here.
    fn info(&self) -> TargetInfo;

    /// What keeps writes of parts of a block apart from others: the same for all targets of the same bytes, for as long
    /// as any of them is used.
    fn exclusion(&self) -> &Arc<Exclusion>;

    /// Fills `buf` from `offset` and gives it back.
    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf>;

    /// Writes `data` at `offset`.
    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()>;

    /// Makes every write answered so far, on any connection, durable.
    fn flush(&self) -> Io<()>;

    /// Gives the range back; it reads as zeros afterwards.
    fn discard(&self, offset: u64, len: u64, durability: Durability) -> Io<()>;

    /// Makes the range read as zeros. With `keep_room` the range takes as much room as data would.
    fn write_zeroes(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Io<()>;

    /// Brings the range near, where there is something to bring; a hint.
    fn cache(&self, offset: u64, len: u64) -> Io<()>;

    /// The kinds of bytes from `offset`, in order, covering at most `len` bytes and at most `max` runs (at least one).
    fn extents(&self, offset: u64, len: u64, max: usize) -> Io<Vec<Extent>>;
}
