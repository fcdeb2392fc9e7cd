//! Checksums on disk: a sector of 512 bytes for each region of 64 blocks of a slab, eight of them to a page of 4 KiB.
//!
//! Each sector proves itself, for disks write sectors whole: a page that a power cut tears leaves every sector old or
//! new, and those of regions that did not change are the same either way. So a page has one place.
//!
//! ```text
//!  | crc u32 | "HSUM" | row u64 | region u32 | zeros | known bits u64 at 24 | given bits u64 |
//!  | version u64 at 40 | for each slab of a parity row its version, 6 bytes, at 48 | zeros | 64 checksums u32 at 256 |
//! ```
//!
//! That a sector proves itself says that it was written once, not that it is what was written last. So each has a
//! *version*, which goes up with every other content that is written of it; 0 is none, of a sector that an earlier
//! program wrote. Those of a parity row also *claim* of the other slabs which versions these have durably.
//!
//! The CRC is that of pool, disk and offset, as if they stood before it, and of all that follows it.

use holdfast_device::IoBuf;
use holdfast_model::Uuid;
use holdfast_model::wire::{Crc32c, crc32c};
use holdfast_pool::slab::SUMS_SECTOR_BYTES;

use crate::block_map::REGION_BLOCKS;

/// Regions of a page.
pub const PAGE_REGIONS: u32 = 8;
/// Blocks that a page covers.
pub const PAGE_BLOCKS: u32 = PAGE_REGIONS * REGION_BLOCKS;
/// Bytes of a page.
pub const PAGE_BYTES: usize = PAGE_REGIONS as usize * SECTOR;

const SECTOR: usize = SUMS_SECTOR_BYTES as usize;
const MAGIC: [u8; 4] = *b"HSUM";
const VERSION_AT: usize = 40;
const CLAIMS_AT: usize = 48;
/// Bytes of a claim.
const CLAIM_BYTES: usize = 6;
const SUMS_AT: usize = 256;
/// The highest version: nobody writes a sector so often.
const MOST_VERSION: u64 = (1 << (8 * CLAIM_BYTES)) - 1;
/// The most slabs that are claimed of.
const MOST_CLAIMS: usize = (SUMS_AT - CLAIMS_AT) / CLAIM_BYTES;

/// The version of what is written next of a sector that had this one.
pub fn next_version(version: u64) -> u64 {
    (version + 1).min(MOST_VERSION)
}

/// Where a page belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOwner {
    /// The pool.
    pub pool: Uuid,
    /// The disk.
    pub disk: Uuid,
    /// The row's id.
    pub row: u64,
    /// Where on the disk.
    pub offset: u64,
    /// Which page of its slab.
    pub page: u32,
}

/// The checksums of a region, and which of them are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSums {
    /// How often other ones were written; 0 where nobody knows.
    pub version: u64,
    /// A bit for each block.
    pub known: u64,
    /// Of these, a bit for each that came with its block and was not compared with it.
    pub given: u64,
    /// For each block, its CRC-32C.
    pub checksums: [u32; REGION_BLOCKS as usize],
}

impl RegionSums {
    /// Whether it has every checksum that another has.
    pub fn has(&self, other: &Self) -> bool {
        let differs = |bit: usize| other.known >> bit & 1 == 1 && self.checksums[bit] != other.checksums[bit];
        let same_given = (self.given ^ other.given) & other.known == 0;
        other.known & !self.known == 0 && same_given && !(0..self.checksums.len()).any(differs)
    }
}

impl PageOwner {
    fn crc(&self, region: usize, sector: &[u8]) -> u32 {
        let mut crc = Crc32c::new();
        crc.add(self.pool.as_bytes());
        crc.add(self.disk.as_bytes());
        crc.add(&(self.offset + (region * SECTOR) as u64).to_le_bytes());
        crc.add(&sector[4..]);
        crc.value()
    }

    /// The page to write. The `claims` are the versions of all slabs of the row, those of a region one behind the other;
    /// there are none where the row has no parity.
    pub fn seal(&self, regions: &[RegionSums], claims: &[u64]) -> IoBuf {
        let slabs = claims.len() / regions.len().max(1);
        debug_assert!(slabs <= MOST_CLAIMS, "{slabs} slabs");
        let mut page = IoBuf::zeroed(PAGE_BYTES);
        for (index, (checksums, sector)) in regions.iter().zip(page.chunks_exact_mut(SECTOR)).enumerate() {
            sector[4..8].copy_from_slice(&MAGIC);
            sector[8..16].copy_from_slice(&self.row.to_le_bytes());
            sector[16..20].copy_from_slice(&(self.page * PAGE_REGIONS + index as u32).to_le_bytes());
            sector[24..32].copy_from_slice(&checksums.known.to_le_bytes());
            sector[32..40].copy_from_slice(&checksums.given.to_le_bytes());
            sector[VERSION_AT..CLAIMS_AT].copy_from_slice(&checksums.version.to_le_bytes());
            let own = claims[index * slabs..(index + 1) * slabs].iter();
            for (claim, bytes) in own.zip(sector[CLAIMS_AT..SUMS_AT].chunks_exact_mut(CLAIM_BYTES)) {
                bytes.copy_from_slice(&claim.to_le_bytes()[..CLAIM_BYTES]);
            }
            for (sum, bytes) in checksums.checksums.iter().zip(sector[SUMS_AT..].chunks_exact_mut(4)) {
                bytes.copy_from_slice(&sum.to_le_bytes());
            }
            let crc = self.crc(index, sector);
            sector[..4].copy_from_slice(&crc.to_le_bytes());
        }
        page
    }

    /// What a page that was read says of each region; `None` where a sector is not what was written there for this row.
    pub fn open(&self, page: &[u8]) -> Vec<Option<RegionSums>> {
        let sector = |(index, sector): (usize, &[u8])| self.open_sector(index, sector);
        page.chunks_exact(SECTOR).enumerate().map(sector).collect()
    }

    /// What a page that was read claims of so many slabs, as [`PageOwner::seal`] takes it; `opened` is what it says.
    pub fn claims(page: &[u8], opened: &[Option<RegionSums>], slabs: usize) -> Vec<u64> {
        let claim = |bytes: &[u8]| {
            let mut whole = [0; 8];
            whole[..CLAIM_BYTES].copy_from_slice(bytes);
            u64::from_le_bytes(whole)
        };
        let mut claims = vec![0; opened.len() * slabs];
        for (index, sector) in page.chunks_exact(SECTOR).enumerate().filter(|(index, _)| opened[*index].is_some()) {
            let own = claims[index * slabs..(index + 1) * slabs].iter_mut();
            own.zip(sector[CLAIMS_AT..SUMS_AT].chunks_exact(CLAIM_BYTES)).for_each(|(into, from)| *into = claim(from));
        }
        claims
    }

    fn open_sector(&self, index: usize, sector: &[u8]) -> Option<RegionSums> {
        let region = self.page * PAGE_REGIONS + index as u32;
        let own = sector[4..8] == MAGIC
            && sector[8..16] == self.row.to_le_bytes()
            && sector[16..20] == region.to_le_bytes()
            && sector[..4] == self.crc(index, sector).to_le_bytes();
        if !own {
            return None;
        }
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let mut checksums = [0; REGION_BLOCKS as usize];
        checksums.iter_mut().zip(sector[SUMS_AT..].chunks_exact(4)).for_each(|(sum, bytes)| *sum = number(bytes));
        let bits = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        // Beyond the highest there is none.
        let version = Some(bits(&sector[VERSION_AT..CLAIMS_AT])).filter(|version| *version <= MOST_VERSION);
        let (known, given) = (bits(&sector[24..32]), bits(&sector[32..40]));
        Some(RegionSums { version: version.unwrap_or(0), known, given, checksums })
    }
}

/// The checksum of each block of `data`.
pub fn sums_of(data: &[u8]) -> impl Iterator<Item = u32> {
    data.chunks_exact(holdfast_model::BLOCK_BYTES as usize).map(crc32c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_is_taken_only_where_it_was_written_and_whole() {
        let owner = PageOwner { pool: Uuid::from_u128(1), disk: Uuid::from_u128(2), row: 3, offset: 1 << 20, page: 2 };
        let region = |seed: u32| RegionSums {
            version: u64::from(seed) * 5,
            known: u64::from(seed) << 3,
            given: u64::from(seed),
            checksums: std::array::from_fn(|at| at as u32 * seed),
        };
        let regions: Vec<RegionSums> = (0..PAGE_REGIONS).map(region).collect();
        let claims: Vec<u64> = (0..8 * 32).map(|at| MOST_VERSION - at).collect();
        let page = owner.seal(&regions, &claims);
        assert_eq!(page.len(), PAGE_BYTES);
        let opened = owner.open(&page);
        assert_eq!(PageOwner::claims(&page, &opened, 32), claims);
        assert!(PageOwner::claims(&page, &[None; 8], 32).iter().all(|claim| *claim == 0));
        assert_eq!(owner.open(&page), regions.iter().copied().map(Some).collect::<Vec<_>>());
        let others = [
            PageOwner { pool: Uuid::nil(), ..owner },
            PageOwner { disk: Uuid::nil(), ..owner },
            PageOwner { row: 4, ..owner },
            PageOwner { offset: 2 << 20, ..owner },
            PageOwner { page: 3, ..owner },
        ];
        for other in others {
            assert!(other.open(&page).iter().all(Option::is_none), "{other:?}");
        }
        for at in SECTOR..2 * SECTOR {
            let mut bad = page.to_vec();
            bad[at] ^= 0x10;
            let opened = owner.open(&bad);
            assert!(opened[1].is_none() && opened[0].is_some() && opened[2].is_some(), "byte {at}");
        }
    }

    #[test]
    fn a_torn_page_is_old_or_new_sector_by_sector() {
        let owner = PageOwner { pool: Uuid::from_u128(1), disk: Uuid::from_u128(2), row: 3, offset: 0, page: 0 };
        let old = vec![RegionSums { version: 0, known: 1, given: 0, checksums: [1; 64] }; 8];
        let new = vec![RegionSums { version: 1, known: 3, given: 0, checksums: [2; 64] }; 8];
        let (before, after) = (owner.seal(&old, &[]), owner.seal(&new, &[]));
        let torn = [&after[..3 * SECTOR], &before[3 * SECTOR..]].concat();
        let opened = owner.open(&torn);
        assert_eq!(opened[..3], vec![Some(new[0]); 3]);
        assert_eq!(opened[3..], vec![Some(old[0]); 5]);
    }
}
