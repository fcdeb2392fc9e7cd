//! The block map on disk: for 64 MiB of a slab, which 4 KiB blocks were written and which 256 KiB regions are dirty.
//!
//! It stands in two slots, written in turn, so that a torn write leaves the one before. The frame's position carries
//! the row's id and the map's own sequence: a map of an earlier row in this place is not this row's map.
//!
//! ```text
//!  | chunk u32 | column u16 | map u16 | dirty regions, 256 bits | written blocks, 16,384 bits |
//! ```

use holdfast_device::IoBuf;
use holdfast_model::{BLOCK_BYTES, Uuid};
use holdfast_pool::frame::Kind;
use holdfast_pool::slab::MAP_COVERS_BYTES;

use crate::map_owner::MapOwner;

/// Bytes of a dirty region.
pub const REGION_BYTES: u64 = 256 << 10;
/// Blocks of a region.
pub const REGION_BLOCKS: u32 = (REGION_BYTES / BLOCK_BYTES) as u32;
/// Blocks that a map covers.
pub const MAP_BLOCKS: u32 = (MAP_COVERS_BYTES / BLOCK_BYTES) as u32;
/// Regions that a map covers.
pub const MAP_REGIONS: u32 = (MAP_COVERS_BYTES / REGION_BYTES) as u32;

/// Words of the dirty bits.
pub const DIRTY_WORDS: usize = MAP_REGIONS as usize / 64;
/// Words of the written bits.
pub const WRITTEN_WORDS: usize = MAP_BLOCKS as usize / 64;

/// The content of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapBits {
    /// Dirty regions.
    pub dirty: [u64; DIRTY_WORDS],
    /// Written blocks.
    pub written: [u64; WRITTEN_WORDS],
}

impl MapBits {
    /// The block to write at `offset` of `disk`.
    pub fn seal(&self, owner: &MapOwner, disk: Uuid, offset: u64, sequence: u64) -> IoBuf {
        owner.seal(Kind::BlockMap, disk, offset, sequence, |writer| {
            for word in self.dirty.iter().chain(&self.written) {
                writer.u64(*word);
            }
        })
    }

    /// Reads a block that was written for this owner, disk and offset; `None` if it is anything else.
    pub fn open(block: &[u8], owner: &MapOwner, disk: Uuid, offset: u64) -> Option<(u64, Self)> {
        let (sequence, mut reader) = owner.open(Kind::BlockMap, block, disk, offset)?;
        let mut bits = Self { dirty: [0; DIRTY_WORDS], written: [0; WRITTEN_WORDS] };
        for word in bits.dirty.iter_mut().chain(&mut bits.written) {
            *word = reader.u64().ok()?;
        }
        Some((sequence, bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map_owner::block_map_number;

    #[test]
    fn a_map_fits_a_block_and_only_its_owner() {
        let owner = MapOwner { pool: Uuid::from_u128(1), row: 2, chunk: 3, map: block_map_number(4, 0) };
        let mut bits = MapBits { dirty: [5; DIRTY_WORDS], written: [6; WRITTEN_WORDS] };
        bits.written[WRITTEN_WORDS - 1] = 7;
        let disk = Uuid::from_u128(8);
        let block = bits.seal(&owner, disk, 4096, 9);
        assert_eq!(block.len() as u64, BLOCK_BYTES);
        assert_eq!(MapBits::open(&block, &owner, disk, 4096), Some((9, bits)));
        assert_eq!(MapBits::open(&block, &MapOwner { row: 3, ..owner }, disk, 4096), None);
        assert_eq!(MapBits::open(&block, &owner, disk, 8192), None);
        assert_eq!(MapBits::open(&block, &owner, Uuid::nil(), 4096), None);
    }
}
