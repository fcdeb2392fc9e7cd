//! How an open row learns from its disks what it holds.
//!
//! Every copy in step has the block maps. After a crash they may differ by the last map written; the newest counts, and is
//! written to all copies before the row is used, so that whichever copy remains tells the same.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdfast_device::{IoBuf, IoError};
use holdfast_model::BLOCK_BYTES;
use holdfast_pool::frame::{Frame, Kind};
use holdfast_pool::slab::map_at;
use holdfast_pool::{Pool, RowRecord};

use crate::block_map::MapBits;
use crate::row::Row;

impl Row {
    /// A row that was allotted just now: none of its blocks was written.
    pub fn fresh(pool: Arc<Pool>, space: u32, chunk: u32, record: RowRecord, chunk_bytes: u64) -> Result<Arc<Self>, IoError> {
        Ok(Arc::new(Self::new(pool, space, chunk, record, chunk_bytes)?))
    }

    /// A row that was allotted earlier.
    pub async fn load(
        pool: Arc<Pool>,
        space: u32,
        chunk: u32,
        record: RowRecord,
        chunk_bytes: u64,
    ) -> Result<Arc<Self>, IoError> {
        let row = Self::new(pool, space, chunk, record, chunk_bytes)?;
        let mut headers = row.parity.is_none() || row.load_bands().await?;
        for column in 0..row.columns.len() {
            headers &= row.load_column(column).await?;
        }
        if headers {
            row.set_headers_whole();
        }
        Ok(Arc::new(row))
    }

    /// Loads the maps of a column. Answers whether every copy has its header.
    async fn load_column(&self, column: usize) -> Result<bool, IoError> {
        self.settle_column(column).await?;
        let mut maps = self.columns[column].maps.lock().await;
        let head_bytes = map_at(maps.len(), 0) as usize;
        let (mut headers, mut heads, mut last_error) = (true, Vec::new(), None);
        for (index, slab) in self.copies_of(column).filter(|(_, slab)| slab.usable()) {
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
        if heads.is_empty() {
            return Err(last_error.unwrap_or_else(|| IoError::invalid("a column without copies")));
        }
        for (map, place) in maps.iter_mut().enumerate() {
            let owner = self.owner(column, map);
            let mut newest: Option<(u64, MapBits)> = None;
            let mut known = Vec::new();
            for (index, head) in &heads {
                let slab = &self.slabs[*index];
                let slots = (0..2u8).filter_map(|slot| {
                    let at = map_at(map, slot.into());
                    let block = &head[at as usize..(at + BLOCK_BYTES) as usize];
                    MapBits::open(block, &owner, slab.disk.id, slab.start + at).map(|(sequence, bits)| (sequence, slot, bits))
                });
                let best = slots.max_by_key(|(sequence, ..)| *sequence);
                known.push(best.as_ref().map(|(sequence, ..)| *sequence));
                if let Some((sequence, slot, bits)) = best {
                    place.slots[*index % self.copies()] = slot;
                    if newest.as_ref().is_none_or(|(newest, _)| sequence > *newest) {
                        newest = Some((sequence, bits));
                    }
                }
            }
            // A copy that is away may hold one map more, of a write that a crash cut short: its number is passed over.
            place.sequence = newest.as_ref().map_or(0, |(sequence, _)| *sequence) + 1;
            let Some((sequence, bits)) = newest else { continue };
            {
                let mut state = self.columns[column].lock();
                state.load_map(map, &bits);
                if self.mirrored() {
                    state.unsynced = state.marked.clone();
                }
            }
            let agreed = last_error.is_none() && known.iter().all(|known| *known == Some(sequence));
            if !agreed {
                self.write_map(column, map, place).await?;
            }
        }
        Ok(headers)
    }

    pub fn owns_header(&self, index: usize, head: &[u8]) -> bool {
        let slab = &self.slabs[index];
        Frame::open_inline(&head[..BLOCK_BYTES as usize]).is_ok_and(|(header, _)| {
            let frame = header.frame;
            (frame.kind, frame.pool, frame.disk, frame.offset, frame.position.generation)
                == (Kind::SlabHeader, self.pool.id(), slab.disk.id, slab.start, self.record.id)
        })
    }
}
