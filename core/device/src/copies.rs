//! A device that keeps its blocks more than once, and lets each copy be read by itself.
//!
//! Who stands on it has checks of its own (a magic number, the checksum that a parent keeps) and can tell a right copy
//! from a wrong one where the device cannot: it reads them one by one, and has the right one written over the others.
//!
//! Invariant: a copy is the current content of its blocks, as that copy would serve it alone, or an error.

use crate::{Device, Io, IoBuf, IoSlice};

/// A device with copies of its blocks: mirrors, or what parity computes.
pub trait Copies: Device {
    /// How many copies every block of the range has, readable or not: at least one. Copies are numbered from 0.
    fn copies(&self, offset: u64, len: u64) -> usize;

    /// Fills `buf` from copy `n` of the range. Nothing is repaired, and no other copy takes its place.
    ///
    /// Blocks that hold nothing are zeros in every copy; what is in memory and not on the disks yet is the same in all.
    /// A range fails as a whole: read block by block what is in doubt.
    ///
    /// # Errors
    /// The copy cannot be read, is not up to date, or is not as the device's own checksums say.
    fn read_copy(&self, n: usize, offset: u64, buf: IoBuf) -> Io<IoBuf>;

    /// The caller says that `data` is the right content of the range: every copy is brought to it, durably when
    /// answered, whatever the device's own checksums say of what was there. Else it is as a durable write.
    fn rewrite(&self, offset: u64, data: IoSlice) -> Io<()>;
}
