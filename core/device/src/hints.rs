//! What the user of a device knows of its ranges and the device cannot know.
//!
//! Invariant: a hint changes what requests cost, never what they answer or what survives.

use crate::{Device, Io};

/// A device that takes hints.
pub trait Hints: Device {
    /// From now on (`keep`), or no more, the range is written so often that it is to stay marked as being written: no
    /// write pays for the mark, and after a crash all of the range is compared. It holds until the device is closed.
    fn keep_marked(&self, offset: u64, len: u64, keep: bool) -> Io<()>;
}
