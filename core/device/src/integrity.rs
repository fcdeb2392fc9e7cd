//! A device that keeps a checksum of each block, and takes those that its user computed already.
//!
//! Invariant: a checksum that was handed down never makes a read return other bytes than it is the checksum of, as
//! long as the device has it durably; a block that is not as it says cannot be read.

use crate::{Device, Durability, Io, IoSlice};

/// A device that checks its blocks.
pub trait Integrity: Device {
    /// Whether every block of the range has, or would get, a checksum below: then its user needs none of its own.
    fn is_summed(&self, offset: u64, len: u64) -> bool;

    /// As [`Device::write`], with the CRC-32C of each 4 KiB block of `data`, so that it need not be computed again. It
    /// is ignored where the device keeps none.
    ///
    /// # Errors
    /// [`IoErrorKind::Invalid`](crate::IoErrorKind::Invalid) where their number is not that of the blocks, or the
    /// device compared them and one is wrong.
    fn write_summed(&self, offset: u64, data: IoSlice, crcs: &[u32], durability: Durability) -> Io<()>;
}
