//! Room of a thin device, taken before metadata is written to it.
//!
//! A thin space refuses a write that it has no room for, and a checkpoint that is refused ends all changes. So all of the
//! log is written when a volume is made, and a block of each part of a zone before that is taken for nodes or for the
//! bitmap of data: what is written there later is written over.
//!
//! Invariant: nothing but data of files is ever written for the first time to a part of the device that may have no room
//! for it; and that is refused to whoever writes it.

use futures_util::future::join_all;
use holdfast_device::{Device, Durability, IoBuf, IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;

use crate::error::VolumeError;
use crate::store::Store;
use crate::superblock::HEAD_BYTES;

/// A thin device gives room out, and takes it back, in parts of so many bytes or more.
const PART_BYTES: u64 = 1 << 20;
/// Writes at once: of a block, and of a part.
const BLOCKS_AT_ONCE: usize = 64;
const PARTS_AT_ONCE: usize = 8;

/// Writes zeros to the first `len_of_part` bytes of each part of a range.
async fn zero(device: &dyn Device, at: u64, len: u64, len_of_part: u64, at_once: usize) -> Result<(), IoError> {
    let zeros = IoBuf::zeroed(len_of_part as usize).freeze();
    let parts: Vec<u64> = (0..len).step_by(PART_BYTES as usize).collect();
    for some in parts.chunks(at_once) {
        let write = |from: &u64| {
            let part = zeros.slice(0, (len - from).min(len_of_part) as usize);
            device.write(at + from, part, Durability::Cached)
        };
        for done in join_all(some.iter().map(write)).await {
            done?;
        }
    }
    Ok(())
}

/// Writes zeros to all of a range, so that nothing of what it held is believed.
pub(crate) async fn clear(device: &dyn Device, at: u64, len: u64) -> Result<(), IoError> {
    zero(device, at, len, PART_BYTES, PARTS_AT_ONCE).await
}

impl Store {
    /// Has the device have room for a zone that is nobody's: all of it, or the part that its bitmap lies in; false where
    /// it has none.
    pub(crate) async fn take_ground(&self, zone: u32, is_whole: bool) -> Result<bool, VolumeError> {
        let at = self.address_in(zone, 0);
        let len = if is_whole { self.superblock().zone_bytes } else { HEAD_BYTES };
        let twin = self.format.twin_of(at).filter(|_| !is_whole);
        for at in [Some(at), twin].into_iter().flatten() {
            match zero(&*self.device, at, len, BLOCK_BYTES, BLOCKS_AT_ONCE).await {
                Ok(()) => {}
                Err(error) if error.kind == IoErrorKind::NoSpace => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}
