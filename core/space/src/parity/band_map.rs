//! The band map on disk: for a run of bands, where each of them is, which of its blocks hold data, and which bands a
//! slab that was away has missed.
//!
//! Invariant: all that is known of a band stands in one block of 4 KiB, so it changes as a whole. The block stands in
//! two slots of each slab's head, written in turn.
//!
//! ```text
//!  | chunk u32 | map u32 | missed, 512 bits | places, 512 x u16 | written blocks, 16,384 bits |
//! ```

use holdfast_device::IoBuf;
use holdfast_model::Uuid;
use holdfast_pool::frame::Kind;
use holdfast_pool::slab::BAND_MAP_BLOCKS;

use super::geometry::Geometry;
use crate::map_owner::MapOwner;

/// The place of a band that has none: it reads as zeros.
pub const NOWHERE: u16 = u16::MAX;
/// Data blocks that a map covers, at most.
const MAP_BLOCKS: u32 = BAND_MAP_BLOCKS as u32;
const MAP_BANDS: usize = 512;
const MISSED_WORDS: usize = MAP_BANDS / 64;
const WRITTEN_WORDS: usize = MAP_BLOCKS as usize / 64;

/// Bands that each map of a row covers.
pub fn bands_of_map(geometry: &Geometry) -> u32 {
    (MAP_BLOCKS / geometry.band_blocks()).max(1)
}

/// The content of a map. Bits and places are counted from the map's first band.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandMap {
    /// Bands that changed while a slab was not in step.
    pub missed: [u64; MISSED_WORDS],
    /// Places of the bands.
    pub places: [u16; MAP_BANDS],
    /// Blocks that hold data.
    pub written: [u64; WRITTEN_WORDS],
}

impl BandMap {
    /// A map of nothing.
    pub fn new() -> Self {
        Self { missed: [0; MISSED_WORDS], places: [NOWHERE; MAP_BANDS], written: [0; WRITTEN_WORDS] }
    }

    /// The block to write at `offset` of `disk`.
    pub fn seal(&self, owner: &MapOwner, disk: Uuid, offset: u64, sequence: u64) -> IoBuf {
        owner.seal(Kind::BandMap, disk, offset, sequence, |writer| {
            for word in &self.missed {
                writer.u64(*word);
            }
            for place in &self.places {
                writer.u16(*place);
            }
            for word in &self.written {
                writer.u64(*word);
            }
        })
    }

    /// Reads a block that was written for this owner, disk and offset; `None` if it is anything else.
    pub fn open(block: &[u8], owner: &MapOwner, disk: Uuid, offset: u64) -> Option<(u64, Self)> {
        let (sequence, mut reader) = owner.open(Kind::BandMap, block, disk, offset)?;
        let mut map = Self::new();
        for word in &mut map.missed {
            *word = reader.u64().ok()?;
        }
        for place in &mut map.places {
            *place = reader.u16().ok()?;
        }
        for word in &mut map.written {
            *word = reader.u64().ok()?;
        }
        Some((sequence, map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_model::BLOCK_BYTES;

    #[test]
    fn a_map_fits_a_block_and_only_its_owner() {
        let owner = MapOwner { pool: Uuid::from_u128(1), row: 2, chunk: 3, map: 4 };
        let mut map = BandMap::new();
        (map.missed[7], map.places[511], map.written[WRITTEN_WORDS - 1]) = (5, 6, 7);
        let disk = Uuid::from_u128(8);
        let block = map.seal(&owner, disk, 4096, 9);
        assert_eq!(block.len() as u64, BLOCK_BYTES);
        assert_eq!(BandMap::open(&block, &owner, disk, 4096), Some((9, map)));
        assert_eq!(BandMap::open(&block, &MapOwner { row: 3, ..owner }, disk, 4096), None);
        assert_eq!(BandMap::open(&block, &MapOwner { map: 3, ..owner }, disk, 4096), None);
        assert_eq!(BandMap::open(&block, &owner, disk, 8192), None);
        assert_eq!(BandMap::open(&block, &owner, Uuid::nil(), 4096), None);
    }
}
