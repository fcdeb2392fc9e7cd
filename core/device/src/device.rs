//! The trait that disks and spaces share.

use crate::{Io, IoBuf, IoSlice};

/// What a device is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes, a multiple of 4 KiB.
    pub size_bytes: u64,
    /// Smallest unit that the device can address.
    pub logical_sector_bytes: u32,
    /// Unit that the device writes whole, even when power fails.
    pub physical_sector_bytes: u32,
    /// Whether far reads cost a seek.
    pub rotational: bool,
    /// Whether a discard reaches the medium.
    pub discard: bool,
}

/// How much of a write is over when it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It may sit in the device's volatile cache until the next flush.
    Cached,
    /// Force unit access: it is on stable storage.
    Durable,
}

/// A range of bytes in 4 KiB blocks. Offsets and lengths are multiples of 4 KiB and lie within the size; anything else
/// is answered with [`IoErrorKind::Invalid`](crate::IoErrorKind::Invalid) and changes nothing.
///
/// Requests in flight at once are not ordered among each other. A flush covers the writes that were answered before it
/// was asked for.
pub trait Device: Send + Sync {
    /// Size, sectors and kind. The size may grow while the device is in use.
    fn geometry(&self) -> Geometry;

    /// Fills `buf` from `offset` and gives it back.
    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf>;

    /// Writes `data` at `offset`.
    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()>;

    /// Makes every write answered so far durable.
    fn flush(&self) -> Io<()>;

    /// Says that the content of the range is no longer needed. What it reads as afterwards is not defined for disks.
    fn discard(&self, offset: u64, len: u64) -> Io<()>;
}
