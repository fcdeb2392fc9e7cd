//! How an open parity row learns from its disks where its bands are.
//!
//! Every slab in step has the maps. After a crash they may differ by the last map written; the newest counts, and is written
//! to all slabs before the row is used.

use holdfast_device::{IoError, IoErrorKind};

use crate::row::Row;

use super::band_map::BandMap;

impl Row {
    /// Loads the maps of a parity row. Answers whether every slab has its header.
    pub async fn load_bands(&self) -> Result<bool, IoError> {
        self.settle_group(0).await?;
        let bands = self.bands();
        let mut maps = bands.maps.lock().await;
        let heads = self.read_heads(0..self.slabs.len(), maps.len()).await;
        // One head that cannot be read may be the one that a commit reached; with as many as parity makes good, none is.
        if heads.len() < self.shape().needed() {
            return Err(heads.error.unwrap_or_else(|| self.too_few()));
        }
        for (map, place) in maps.iter_mut().enumerate() {
            let owner = self.band_map_owner(map as u32);
            let (first, end) = bands.bands_in(map as u32);
            let open = |block: &[u8], disk, offset| BandMap::open(block, &owner, disk, offset);
            let Some((content, agreed)) = heads.newest(map, place, open) else { continue };
            if !bands.lock().load_map(first, end, &bands.geometry, &content) {
                let object = format!("chunk {} of space {}: map {map} of its bands", self.chunk, self.space);
                return Err(IoError::new(IoErrorKind::Media, object));
            }
            if !agreed {
                self.write_band_map(map as u32, &content, place).await?;
            }
        }
        Ok(heads.owned)
    }
}
