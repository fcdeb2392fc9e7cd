//! The copies of a parity row: the block in its column, and the same block computed from the others.

use std::sync::Arc;

use holdfast_device::{IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::BLOCK_BYTES;

use crate::boxed_cold::boxed_cold;
use crate::checksums::Check;
use crate::row::Row;
use crate::stripe::ChunkPart;

use super::band_map::NOWHERE;
use super::bands::turns::BandTurn;
use super::dirty::{Content, Extent};
use super::geometry::{Rows, Run, bytes_of};
use super::plan::ParityFrom;
use super::store::ParityStore;

impl ParityStore {
    /// Fills `into` from copy `n` of a part of a chunk that has a parity row.
    pub async fn read_bands_copy(
        &self,
        row: &Arc<Row>,
        n: usize,
        part: &ChunkPart,
        into: &mut [u8],
    ) -> Result<(), IoError> {
        let geometry = row.bands().geometry;
        let start = (part.offset / BLOCK_BYTES) as u32;
        let end = start + (part.len as u64 / BLOCK_BYTES) as u32;
        for band in geometry.band_of(start)..=geometry.band_of(end - 1) {
            let from = start.max(band * geometry.band_blocks());
            let to = end.min((band + 1) * geometry.band_blocks());
            let into = &mut into[bytes_of(from - start)..bytes_of(to - start)];
            let _turn = self.whole_turn(row, band).await?;
            let (place, mut waiting) = {
                let state = row.bands().lock();
                let parts = state.dirty.get(&band).map(|dirty| dirty.parts(from, to).collect::<Vec<(u32, Extent)>>());
                (state.places[band as usize], parts.unwrap_or_default())
            };
            for run in geometry.runs(from, to) {
                let into = &mut into[bytes_of(run.at)..bytes_of(run.at + run.len)];
                let first = from + run.at;
                let covered: u32 =
                    waiting.iter().map(|(at, extent)| overlap((*at, extent.len), (first, run.len))).sum();
                if place == NOWHERE || covered == run.len {
                    into.fill(0);
                } else {
                    into.copy_from_slice(&row.read_run_copy(n, &run, place).await?);
                }
            }
            if !waiting.is_empty() {
                boxed_cold(self.fetch(&mut waiting)).await?;
            }
            for (at, extent) in waiting {
                let into = &mut into[bytes_of(at - from)..bytes_of(at - from + extent.len)];
                match &extent.content {
                    Content::Bytes(bytes) => into.copy_from_slice(bytes),
                    Content::Logged(_) | Content::Nothing => into.fill(0),
                }
            }
        }
        Ok(())
    }

    /// Waits until what is in the place of a band does not change, and parity agrees with it.
    async fn whole_turn(&self, row: &Arc<Row>, band: u32) -> Result<BandTurn, IoError> {
        loop {
            let turn = row.shared_turn(band).await;
            if !row.bands().lock().torn.contains_key(&band) {
                return Ok(turn);
            }
            drop(turn);
            let _alone = row.band_turn(band).await;
            self.finish_torn(row, band).await?;
        }
    }

    /// Puts `data` in place of a part of a row with parity computed from nothing that was there before in these
    /// blocks: parity may agree with what they held before, or with something else. Durable when answered.
    pub async fn rewrite_bands(&self, row: &Arc<Row>, part: &ChunkPart, data: IoSlice) -> Result<(), IoError> {
        row.settle_group(0).await?;
        let geometry = row.bands().geometry;
        let start = (part.offset / BLOCK_BYTES) as u32;
        let end = start + (part.len as u64 / BLOCK_BYTES) as u32;
        let (first, last) = (geometry.band_of(start), geometry.band_of(end - 1));
        for band in first..=last {
            let from = start.max(band * geometry.band_blocks());
            let to = end.min((band + 1) * geometry.band_blocks());
            let data = data.slice(bytes_of(from - start), bytes_of(to - from));
            self.rewrite_band(row, band, from, data).await?;
        }
        self.make_durable(std::slice::from_ref(row), Some((first, last))).await
    }

    async fn rewrite_band(&self, row: &Arc<Row>, band: u32, from: u32, data: IoSlice) -> Result<(), IoError> {
        let _one = self.intending.lock().await;
        let most = if self.drain_for_intents().await.is_err() { 0 } else { self.most_in_place() };
        let turn = row.band_turn(band).await;
        {
            let mut guard = row.bands().lock();
            let state = &mut *guard;
            let (len, stamp) = ((data.len() as u64 / BLOCK_BYTES) as u32, self.write_buffer.draw_stamp());
            state.unlogged.insert(band);
            let extent = Extent { len, content: Content::Bytes(data), stamp, logged: false, held: Vec::new() };
            self.write_buffer.put(row, state, band, from, extent);
        }
        self.rows.touch(row);
        let planned = row.plan(self, band, turn, most, ParityFrom::Data).await?;
        let placing = planned.ok_or_else(|| {
            let what = format!("chunk {} of space {} is being recovered", row.chunk, self.path());
            IoError::new(IoErrorKind::Media, what)
        })?;
        self.carry_out(vec![placing]).await
    }
}

impl Row {
    /// Copy `n` of a run whose band is at `place`. The turn of the band must be held, shared at least.
    async fn read_run_copy(&self, n: usize, run: &Run, place: u16) -> Result<IoBuf, IoError> {
        let geometry = self.bands().geometry;
        let rows = Rows { stripe: run.stripe, place, within: run.within, len: run.len };
        let holes = self.bands().lock().holes(geometry.block(run.stripe, run.piece, run.within), run.len);
        if holes.first() == Some(&(0, run.len)) {
            return Ok(IoBuf::zeroed(bytes_of(run.len)));
        }
        let (index, first) = (geometry.column(run.stripe, run.piece), geometry.first_block(&rows));
        let Some(parity) = n.checked_sub(1).map(|parity| geometry.data + parity) else {
            let offset = geometry.offset(run.stripe, run.within, place);
            return self.read_from(index, offset, first, bytes_of(run.len), &holes).await;
        };
        // The parities before this one are other copies'.
        let passed = (geometry.data..parity).fold(0, |mask, piece| mask | 1u64 << piece);
        let mut pieces = self.read_pieces_without(rows, 1 << run.piece | passed).await?;
        if !pieces.is_read(parity) {
            return Err(pieces.error().cloned().unwrap_or_else(|| self.too_few()));
        }
        self.compute(&mut pieces, 1 << run.piece)?;
        let computed = pieces.take(run.piece);
        // What it is computed from is proven. A slab that is behind or away has no checksum that counts.
        let counts = self.slabs.get(index).usable();
        if counts && self.check_sums(index, first, &computed, &holes).await? == Check::Wrong {
            return Err(self.not_as_summed(&rows));
        }
        Ok(computed)
    }
}

/// How many blocks two runs share.
fn overlap((at, len): (u32, u32), (other, other_len): (u32, u32)) -> u32 {
    (at + len).min(other + other_len).saturating_sub(at.max(other))
}
