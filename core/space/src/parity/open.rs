//! How an open parity row learns from its disks where its bands are.
//!
//! Every slab in step has the maps. After a crash they may differ by the last map written; the newest counts, and is written
//! to all slabs before the row is used.

use std::sync::atomic::Ordering;

use holdfast_device::{IoBuf, IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;
use holdfast_pool::slab::map_at;

use crate::row::Row;

use super::band_map::BandMap;

impl Row {
    /// Loads the maps of a parity row. Answers whether every slab has its header.
    pub async fn load_bands(&self) -> Result<bool, IoError> {
        self.settle_group(0).await?;
        let bands = self.bands();
        let mut maps = bands.maps.lock().await;
        let head_bytes = map_at(maps.len(), 0) as usize;
        let (mut headers, mut heads, mut last_error) = (true, Vec::new(), None);
        for (index, slab) in self.slabs.iter().enumerate().filter(|(_, slab)| slab.usable()) {
            match slab.disk.read(slab.start, IoBuf::new(head_bytes)).await {
                Ok(head) => {
                    headers &= self.owns_header(index, &head);
                    heads.push((index, head));
                }
                Err(error) => {
                    slab.disk.counters.read_errors.fetch_add(1, Ordering::Relaxed);
                    headers = false;
                    last_error = Some(error);
                }
            }
        }
        // One head that cannot be read may be the one that a commit reached; with as many as parity makes good, none is.
        if heads.len() < self.shape().needed() {
            return Err(last_error.unwrap_or_else(|| self.too_few()));
        }
        for (map, place) in maps.iter_mut().enumerate() {
            let owner = self.band_map_owner(map as u32);
            let (first, end) = bands.bands_in(map as u32);
            let mut newest: Option<(u64, BandMap)> = None;
            let mut known = Vec::new();
            for (index, head) in &heads {
                let slab = &self.slabs[*index];
                let slots = (0..2u8).filter_map(|slot| {
                    let at = map_at(map, slot.into());
                    let block = &head[at as usize..(at + BLOCK_BYTES) as usize];
                    BandMap::open(block, &owner, slab.disk.id, slab.start + at).map(|(sequence, map)| (sequence, slot, map))
                });
                let best = slots.max_by_key(|(sequence, ..)| *sequence);
                known.push(best.as_ref().map(|(sequence, ..)| *sequence));
                if let Some((sequence, slot, map)) = best {
                    place.slots[*index] = slot;
                    if newest.as_ref().is_none_or(|(newest, _)| sequence > *newest) {
                        newest = Some((sequence, map));
                    }
                }
            }
            // A slab that is away may hold one map more, of a commit that a crash cut short: its number is passed over.
            place.sequence = newest.as_ref().map_or(0, |(sequence, _)| *sequence) + 1;
            let Some((sequence, content)) = newest else { continue };
            if !bands.lock().load_map(first, end, &bands.geometry, &content) {
                let object = format!("chunk {} of space {}: map {map} of its bands", self.chunk, self.space);
                return Err(IoError::new(IoErrorKind::Media, object));
            }
            let agreed = last_error.is_none() && known.iter().all(|known| *known == Some(sequence));
            if !agreed {
                self.write_band_map(map as u32, &content, place).await?;
            }
        }
        Ok(headers)
    }
}
