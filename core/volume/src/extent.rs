//! Where a part of a file lies.
//!
//! Invariant: an extent lies within one zone, and no block is in two.

use holdfast_model::wire::{Reader, WireError, Writer};

use crate::error::VolumeError;

/// Blocks of a file that lie side by side on the device. Those at place 0, where no data can be, are lost: reading them is
/// an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first block, counted from the beginning of the device.
    pub place: u64,
    /// How many there are.
    pub blocks: u32,
    /// The checkpoint to come when they became the file's.
    pub birth: u64,
    /// Whether they hold data; what does not reads as zeros.
    pub is_written: bool,
}

impl Extent {
    /// As a value of a tree.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u64(self.place).u32(self.blocks).u64(self.birth).u8(self.is_written.into());
        writer.into_bytes()
    }

    /// Reads it from a value.
    pub fn decode(value: &[u8]) -> Result<Self, VolumeError> {
        let read = |mut reader: Reader<'_>| -> Result<Self, WireError> {
            Ok(Self {
                place: reader.u64()?,
                blocks: reader.u32()?,
                birth: reader.u64()?,
                is_written: reader.u8()? & 1 != 0,
            })
        };
        let extent = read(Reader::new(value)).map_err(|_| VolumeError::corrupt("an extent is not whole"))?;
        if extent.blocks == 0 || extent.place.checked_add(extent.blocks.into()).is_none_or(|end| end >= 1 << 51) {
            return Err(VolumeError::corrupt("an extent lies beyond any device"));
        }
        Ok(extent)
    }

    /// The same blocks of the file, of which nobody knows any more where their bytes are.
    pub fn lost(&self) -> Self {
        Self { place: 0, is_written: true, ..*self }
    }

    /// Whether its bytes are lost.
    pub fn is_lost(&self) -> bool {
        self.place == 0
    }

    /// The part from `skip` blocks on, `blocks` long.
    pub fn part(&self, skip: u32, blocks: u32) -> Self {
        debug_assert!(skip + blocks <= self.blocks);
        let place = if self.is_lost() { 0 } else { self.place + u64::from(skip) };
        Self { place, blocks, ..*self }
    }

    /// The block behind it on the device.
    pub fn end(&self) -> u64 {
        self.place + u64::from(self.blocks)
    }
}
