//! Disks that lack what they had acknowledged: a cache that lies, a controller that loses writes, an older image of some
//! of its blocks.
//!
//! What a slab holds proves itself by its checksums, and these by one another: an older sector beside a newer one is what
//! a disk without the last writes shows. It is not believed, what it told is repaired from the other slabs, and the disk
//! is told of once.

use std::sync::atomic::Ordering;

use holdfast_device::{IoBuf, IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;
use holdfast_model::wire::crc32c;
use holdfast_pool::Severity;

use crate::block_map::REGION_BLOCKS;
use crate::checksums::RegionSums;
use crate::column::Blocks;
use crate::parity::{NOWHERE, bytes_of};
use crate::row::{Row, RowBody};

impl Row {
    /// Tells that a slab lacks what its disk had acknowledged.
    pub fn tell_lagging(&self, index: usize) {
        let disk = self.slabs.get(index).disk.clone();
        disk.counters.checksum_errors.fetch_add(1, Ordering::Relaxed);
        if !self.lagging.note(disk.index) {
            return;
        }
        let cause = format!(
            "the disk lost writes to space {} that it had acknowledged: some of what it holds is older than what the other disks have",
            self.path()
        );
        let next = "replace the disk; what is old on it is not served, and is repaired from the others";
        self.pool.emit(Severity::Error, self.pool.disk_object(disk.index), cause, next);
    }

    /// Whether a copy holds a block of a region of its column as an older version of its checksums says: then its disk
    /// lost what was written last. Blocks that hold nothing may be older.
    pub async fn is_stale(&self, index: usize, region: u32, own: &RegionSums, newest: &RegionSums) -> bool {
        let slab = self.slabs.get(index);
        let column = &self.columns()[index / self.copies()];
        if !column.is_open() {
            return false;
        }
        let both = own.known & newest.known & column.lock().written.word(region as usize);
        let differs =
            |bit: &u32| both >> bit & 1 == 1 && own.checksums[*bit as usize] != newest.checksums[*bit as usize];
        for bit in (0..REGION_BLOCKS).filter(differs) {
            let at = slab.at(bytes_of(region * REGION_BLOCKS + bit) as u64);
            match slab.disk.read(at, IoBuf::new(BLOCK_BYTES as usize)).await {
                Ok(block) if crc32c(&block) == own.checksums[bit as usize] => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Whether a region of a slab of a row with parity has blocks that count.
    pub fn holds_in_region(&self, slab: usize, region: u32) -> bool {
        let geometry = self.bands().geometry;
        let places = self.bands().lock().places.clone();
        let (start, end) = (region * REGION_BLOCKS, (region + 1) * REGION_BLOCKS);
        let first_of = |place: u16| u32::from(place) * geometry.depth;
        let touches =
            |place: u16| place != NOWHERE && first_of(place) < end && start < first_of(place) + geometry.depth;
        let mut bands = (0u32..).zip(places).filter(|(_, place)| touches(*place)).map(|(band, _)| band);
        bands.any(|band| {
            self.pieces_of(slab, band).into_iter().any(|(rows, _)| {
                let first = geometry.first_block(&rows);
                first < end && start < first + rows.len
            })
        })
    }

    /// Compares blocks of which a copy had older checksums with the newest, and repairs what is old.
    pub async fn renew_older(&self) -> Result<(), IoError> {
        let (Some(checksums), RowBody::Columns(columns)) = (&self.checksums, &self.body) else { return Ok(()) };
        let mut renewed = Ok(());
        let mut older = checksums.take_older();
        while let Some((column, region)) = older.pop_first() {
            let blocks = Blocks::of_region(region, columns[column].lock().blocks());
            if let Err(error) = self.resync(column, blocks.regions()).await {
                older.insert((column, region));
                checksums.return_older(older);
                return Err(error);
            }
            match self.read_right(column, blocks).await {
                // Blocks that no copy has are told of where they are read.
                Ok(_) => {}
                Err(error) if error.kind == IoErrorKind::Media => {}
                Err(error) => {
                    checksums.return_older([(column, region)]);
                    renewed = Err(error);
                }
            }
        }
        renewed
    }
}
