//! Checksums of the blocks of an extent: the volume's own, of files that are strict.
//!
//! ```text
//!   extent   │ place, blocks, birth, flags │ CRC of block 0 │ CRC of block 1 │ …
//! ```
//!
//! Invariant: an extent has a checksum for each of its blocks, or none at all. A block that has one is written over
//! nowhere but by the same content, so that block and checksum agree whenever power fails.

use std::sync::Arc;

use holdfast_model::BLOCK_BYTES;
use holdfast_model::wire::{Reader, WireError, Writer};

use crate::page::crc_of;

/// Blocks of an extent with checksums, at most: its value is small enough for many of them to stand in a node, and a block
/// that is written over costs little more than itself.
pub(crate) const MOST_SUMMED: u32 = 64;

/// Checksums of blocks that follow each other: CRC-32C of their 4096 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sums(Arc<Vec<u32>>);

impl Sums {
    /// Those of whole blocks.
    pub fn of(blocks: &[u8]) -> Self {
        Self(Arc::new(blocks.chunks(BLOCK_BYTES as usize).map(crc_of).collect()))
    }

    /// Puts parts that follow each other together.
    pub fn join(parts: impl IntoIterator<Item = Self>) -> Option<Self> {
        parts.into_iter().reduce(|mut all, next| {
            Arc::make_mut(&mut all.0).extend_from_slice(&next.0);
            all
        })
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// That of a block.
    pub fn get(&self, block: usize) -> u32 {
        self.0[block]
    }

    /// Those of some of the blocks.
    pub fn part(&self, skip: u32, blocks: u32) -> Self {
        if skip == 0 && blocks == self.len() {
            return self.clone();
        }
        Self(Arc::new(self.0[skip as usize..(skip + blocks) as usize].to_vec()))
    }

    /// Adds them to the value of an extent.
    pub fn encode(&self, writer: &mut Writer) {
        self.0.iter().for_each(|crc| _ = writer.u32(*crc));
    }

    /// Reads them from there.
    pub fn decode(reader: &mut Reader<'_>, blocks: u32) -> Result<Self, WireError> {
        if !(1..=MOST_SUMMED).contains(&blocks) {
            return Err(WireError::Value("checksums"));
        }
        Ok(Self(Arc::new((0..blocks).map(|_| reader.u32()).collect::<Result<_, _>>()?)))
    }

    /// Reads past them.
    pub fn skip(reader: &mut Reader<'_>, blocks: u32) -> Result<(), WireError> {
        if !(1..=MOST_SUMMED).contains(&blocks) {
            return Err(WireError::Value("checksums"));
        }
        reader.take(blocks as usize * size_of::<u32>()).map(drop)
    }

    /// The blocks that are not as they should be, of those that these are the checksums of.
    pub fn wrong<'a>(&'a self, blocks: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let each = blocks.chunks(BLOCK_BYTES as usize).zip(self.0.iter()).enumerate();
        each.filter(|(_, (block, crc))| crc_of(block) != **crc).map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_joins_are_those_of_the_blocks() {
        let bytes: Vec<u8> = (0..5 * BLOCK_BYTES).map(|at| (at / 7) as u8).collect();
        let block = BLOCK_BYTES as usize;
        let all = Sums::of(&bytes);
        assert_eq!(all.len(), 5);
        assert_eq!(all.part(1, 3), Sums::of(&bytes[block..4 * block]));
        assert_eq!(Sums::join([all.part(0, 2), all.part(2, 3)]), Some(all.clone()));
        assert_eq!(Sums::join([]), None);
        let mut wrong = bytes;
        wrong[3 * block] ^= 1;
        wrong[4 * block + 9] ^= 0x80;
        assert_eq!(all.wrong(&wrong).collect::<Vec<_>>(), [3, 4]);
    }
}
