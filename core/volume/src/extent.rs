//! Where a part of a file lies.
//!
//! Invariant: an extent lies within one zone, and no block is in two that are not shared.

use holdfast_model::wire::{Reader, WireError, Writer};

use crate::error::VolumeError;
use crate::sums::{MOST_SUMMED, Sums};

/// Blocks of a file that lie side by side on the device. Those at place 0, where no data can be, are lost: reading them is
/// an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first block, counted from the beginning of the device.
    pub place: u64,
    /// How many there are.
    pub blocks: u32,
    /// The checkpoint to come when they became the file's.
    pub birth: u64,
    /// Whether they hold data; what does not reads as zeros.
    pub is_written: bool,
    /// Whether others may have the same blocks, which are not written over then. They hold data.
    pub is_shared: bool,
    /// Checksums of the blocks, if the volume keeps them. Such blocks hold data, and are not written over.
    pub sums: Option<Sums>,
}

/// Flags of a value.
const WRITTEN: u8 = 1;
const SHARED: u8 = 2;
const SUMMED: u8 = 4;

impl Extent {
    /// As a value of a tree.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        let sums = self.sums.as_ref().filter(|_| self.is_written);
        debug_assert!(sums.is_none_or(|sums| sums.len() == self.blocks), "one for each block");
        let flags = if self.is_written { WRITTEN } else { 0 } | if self.is_shared { SHARED } else { 0 };
        let flags = flags | if sums.is_some() { SUMMED } else { 0 };
        writer.u64(self.place).u32(self.blocks).u64(self.birth).u8(flags);
        if let Some(sums) = sums {
            sums.encode(&mut writer);
        }
        writer.into_bytes()
    }

    /// Reads it from a value.
    pub fn decode(value: &[u8]) -> Result<Self, VolumeError> {
        Self::read(value, true)
    }

    /// The same for those who ask where it lies: without checksums, whether it has any or not.
    pub fn decode_bare(value: &[u8]) -> Result<Self, VolumeError> {
        Self::read(value, false)
    }

    fn read(value: &[u8], with_sums: bool) -> Result<Self, VolumeError> {
        let read = |mut reader: Reader<'_>| -> Result<Self, WireError> {
            let (place, blocks, birth, flags) = (reader.u64()?, reader.u32()?, reader.u64()?, reader.u8()?);
            // What is shared holds data: nothing else is cloned.
            let is_shared = flags & SHARED != 0;
            let is_written = is_shared || flags & WRITTEN != 0;
            let is_summed = is_written && flags & SUMMED != 0;
            let sums = match is_summed {
                true if with_sums => Some(Sums::decode(&mut reader, blocks)?),
                true => Sums::skip(&mut reader, blocks).map(|()| None)?,
                false => None,
            };
            Ok(Self { place, blocks, birth, is_written, is_shared, sums })
        };
        let extent = read(Reader::new(value)).map_err(|_| VolumeError::corrupt("an extent is not whole"))?;
        if extent.blocks == 0 || extent.place.checked_add(extent.blocks.into()).is_none_or(|end| end >= 1 << 51) {
            return Err(VolumeError::corrupt("an extent lies beyond any device"));
        }
        Ok(extent)
    }

    /// The same blocks of the file, of which nobody knows any more where their bytes are.
    pub fn lost(&self) -> Self {
        Self { place: 0, is_written: true, is_shared: false, sums: None, ..*self }
    }

    /// Whether its bytes are lost.
    pub fn is_lost(&self) -> bool {
        self.place == 0
    }

    /// Whether it is data that no other file has.
    pub fn is_own(&self) -> bool {
        self.is_written && !self.is_shared && !self.is_lost()
    }

    /// The part from `skip` blocks on, `blocks` long.
    pub fn part(&self, skip: u32, blocks: u32) -> Self {
        debug_assert!(skip + blocks <= self.blocks);
        let place = if self.is_lost() { 0 } else { self.place + u64::from(skip) };
        let sums = self.sums.as_ref().map(|sums| sums.part(skip, blocks));
        Self { place, blocks, sums, ..*self }
    }

    /// Whether one behind it, in the file and on the device, may be one with it as far as checksums go.
    pub fn joins_sums(&self, next: &Self) -> bool {
        match (&self.sums, &next.sums) {
            (None, None) => true,
            (Some(_), Some(_)) => self.blocks.saturating_add(next.blocks) <= MOST_SUMMED,
            _ => false,
        }
    }

    /// The block behind it on the device.
    pub fn end(&self) -> u64 {
        self.place + u64::from(self.blocks)
    }
}

/// What of some extents lies in none of others.
pub(crate) fn without(extents: Vec<Extent>, others: &[Extent]) -> Vec<Extent> {
    let mut left = extents;
    for other in others {
        let (from, to) = (other.place, other.place + u64::from(other.blocks));
        let meets = |extent: &Extent| extent.place < to && from < extent.place + u64::from(extent.blocks);
        if !left.iter().any(meets) {
            continue;
        }
        left = left
            .into_iter()
            .flat_map(|extent| {
                let end = extent.place + u64::from(extent.blocks);
                let part = |from: u64, to: u64| {
                    (from < to).then(|| extent.part((from - extent.place) as u32, (to - from) as u32))
                };
                [part(extent.place, end.min(from)), part(extent.place.max(to), end)]
            })
            .flatten()
            .collect();
    }
    left
}
