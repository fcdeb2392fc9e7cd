//! How an open parity row learns from its disks where its bands are.
//!
//! Every slab in step has the maps. After a crash they may differ by the last map written; the newest counts, and is
//! written to all slabs before the row is used.

use holdfast_device::{IoError, IoErrorKind};

use crate::row::Row;

use super::band_map::BandMap;

impl Row {
    /// Loads the maps of a parity row. Answers whether every slab has its header.
    pub async fn load_bands(&self) -> Result<bool, IoError> {
        self.settle_group(0).await?;
        let bands = self.bands();
        let mut maps = bands.maps.lock().await;
        let mut heads = self.read_heads(0..self.slabs.len(), maps.len()).await;
        if self.begun() {
            let open = |map: usize, block: &[u8], disk, offset| {
                BandMap::open(block, &self.band_map_owner(map as u32), disk, offset).is_some()
            };
            let damaged = heads.damaged(maps.len(), open);
            self.distrust(&damaged).await?;
            if self.pool.was_closed() {
                let number =
                    |map: usize, block: &[u8], disk, offset| self.band_map_number(map as u32, block, disk, offset);
                self.distrust_older(&heads.older(maps.len(), number)).await?;
            }
            heads.retain(self);
            self.settle_group(0).await?;
        }
        // One head that cannot be read may be the one that a commit reached; with as many as parity makes good, none
        // is.
        if heads.len() < self.shape().needed() {
            return Err(heads.error.unwrap_or_else(|| self.too_few()));
        }
        for (map, place) in maps.iter_mut().enumerate() {
            let owner = self.band_map_owner(map as u32);
            let (first, end) = bands.bands_in(map as u32);
            let open = |block: &[u8], disk, offset| BandMap::open(block, &owner, disk, offset);
            let lost = || {
                let object = format!("map {map} of the bands cannot be read: {}", self.part());
                IoError::new(IoErrorKind::Media, object)
            };
            let Some((content, agreed)) = heads.newest(map, place, open) else {
                if self.begun() {
                    return Err(lost());
                }
                continue;
            };
            self.set_mapped();
            if !bands.lock().load_map(first, end, &bands.geometry, &content) {
                return Err(lost());
            }
            if !agreed {
                self.write_band_map(map as u32, &content, place).await?;
            }
        }
        Ok(heads.owned)
    }
}
