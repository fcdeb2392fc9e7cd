//! Writes taken into memory, and room made there: what waits longest goes to the journal or to its place.

use std::sync::Arc;

use futures_util::future::poll_immediate;
use holdfast_device::reactor::yield_now;
use holdfast_device::{Durability, IoError, IoErrorKind, IoSlice};
use holdfast_model::BLOCK_BYTES;

use crate::boxed_cold::boxed_cold;
use crate::lock_order::{branch, join_all};
use crate::row::Row;
use crate::stripe::ChunkPart;

use super::dirty::{Content, Extent};
use super::durable::LOG_SHARE;
use super::geometry::bytes_of;
use super::plan::{Goal, ParityFrom, Placing};
use super::record::MOST_RECORD_BYTES;
use super::store::ParityStore;
use super::write_buffer::BATCH_BANDS;

/// The share of the journal that may be held before anything else is destaged: the rest is for what that intends.
const HELD_SHARE: u64 = 3;
/// Bands that are destaged together where their disks answer at once: with parity and what was there before, small
/// changes of so many fit a processor's own cache.
const HOT_BANDS: usize = 8;
/// Bands that may wait, whatever little memory they take.
const MOST_BANDS: usize = 8192;

impl ParityStore {
    /// Bytes that the journal can take.
    fn journal_bytes(&self) -> u64 {
        self.journal.load().as_ref().map_or(0, |journal| journal.capacity())
    }

    /// Bytes of a band that may change in place: with its parity, up to three times as much, more would not fit a
    /// record, or the journal with what it holds and what else must.
    pub fn most_in_place(&self) -> u64 {
        let (capacity, held) =
            self.journal.load().as_ref().map_or((0, 0), |journal| (journal.capacity(), journal.held()));
        (capacity / 8).min(capacity.saturating_sub(held) / 4).min(MOST_RECORD_BYTES / 4)
    }

    /// Bytes of blocks that a record of several bands may bring along.
    pub fn most_recorded(&self) -> u64 {
        (self.journal_bytes() / 4).min(MOST_RECORD_BYTES)
    }

    /// Takes `data`, or nothing, for blocks of a row; durable when answered if asked for.
    pub async fn enter(
        &self,
        row: &Arc<Row>,
        part: &ChunkPart,
        data: Option<IoSlice>,
        durability: Durability,
    ) -> Result<(), IoError> {
        // What cannot be destaged would wait in memory, and keep others out.
        row.settle_group(0).await?;
        if self.is_crowded() {
            boxed_cold(self.wait_for_room()).await?;
        }
        let geometry = row.bands().geometry;
        let start = (part.offset / BLOCK_BYTES) as u32;
        let end = start + (part.len as u64 / BLOCK_BYTES) as u32;
        let (first, last) = (geometry.band_of(start), geometry.band_of(end - 1));
        let mut whole = Vec::new();
        {
            let mut guard = row.bands().lock();
            let state = &mut *guard;
            let stamp = self.write_buffer.draw_stamp();
            for band in first..=last {
                let from = start.max(band * geometry.band_blocks());
                let to = end.min((band + 1) * geometry.band_blocks());
                let content = match &data {
                    Some(data) => Content::Bytes(data.slice(bytes_of(from - start), bytes_of(to - from))),
                    None => Content::Nothing,
                };
                let extent = Extent { len: to - from, content, stamp, logged: false, held: Vec::new() };
                state.unlogged.insert(band);
                if self.write_buffer.put(row, state, band, from, extent) == geometry.band_blocks() {
                    whole.push(band);
                }
            }
        }
        self.rows.touch(row);
        for band in whole {
            // What only empties a band writes nothing but its map: a helper would not be faster.
            let left = durability == Durability::Cached && data.is_some() && self.helpers.take_over(row, band);
            if !left {
                boxed_cold(self.place_if_whole(row, band)).await?;
            }
        }
        self.ring_if_behind();
        match durability {
            Durability::Cached => Ok(()),
            Durability::Durable => boxed_cold(self.make_durable(std::slice::from_ref(row), Some((first, last)))).await,
        }
    }

    fn is_crowded(&self) -> bool {
        self.write_buffer.bytes() > self.limits.write_buffer_bytes || self.write_buffer.line().len() > MOST_BANDS
    }

    /// Waits where too much is in memory; the first to come destages the oldest.
    async fn wait_for_room(&self) -> Result<(), IoError> {
        self.ready_by_now().await?;
        let soft = self.limits.write_buffer_bytes;
        loop {
            let (bytes, bands) = (self.write_buffer.bytes(), self.write_buffer.line().len());
            if bytes <= soft && bands <= MOST_BANDS {
                return Ok(());
            }
            let turn = if bytes <= 2 * soft && bands <= 2 * MOST_BANDS {
                match self.placing.try_lock() {
                    Some(turn) => turn,
                    None => return Ok(()),
                }
            } else {
                self.placing.lock().await
            };
            if !self.is_crowded() {
                return Ok(());
            }
            let worked = match self.place_or_relieve().await {
                Ok(worked) => worked,
                // It is another row's; the next flush reports it.
                Err(_) if bytes <= 2 * soft => return Ok(()),
                Err(_) => {
                    let placed = self.place_waiting().await;
                    return if self.write_buffer.bytes() <= 2 * soft { Ok(()) } else { placed };
                }
            };
            drop(turn);
            if !worked || (bytes <= 2 * soft && bands <= 2 * MOST_BANDS) {
                return Ok(());
            }
        }
    }

    async fn place_or_relieve(&self) -> Result<bool, IoError> {
        Ok(self.place_some_whole().await? || self.relieve().await?)
    }

    /// Makes room: what waits longest goes to the journal or to its place. False if nothing waits. The turn of placing
    /// must be held.
    pub async fn relieve(&self) -> Result<bool, IoError> {
        Ok(self.spill_oldest().await? || self.place_oldest().await?)
    }

    /// Moves what waits at the front of the line to the journal, where that is faster and has room.
    async fn spill_oldest(&self) -> Result<bool, IoError> {
        let journal = self.opened_journal()?;
        let fits = journal.held() + 2 * journal.record_share() <= journal.capacity() / LOG_SHARE;
        let spills = self.write_buffer.line().front().is_some_and(|(row, _)| self.spills(&journal, row));
        // Its holder may wait for the line, which is held here.
        let Some(_one) = self.logging.try_lock() else { return Ok(false) };
        if !fits || !spills {
            return Ok(false);
        }
        let taken = self.write_buffer.take_first();
        self.write_buffer.spilled().extend(taken.iter().cloned());
        self.spill(&journal, &taken).await?;
        Ok(true)
    }

    /// Destages the bands at the front of the line; false if there are none.
    async fn place_oldest(&self) -> Result<bool, IoError> {
        let mut taken = self.write_buffer.take_first();
        if taken.is_empty() {
            let mut spilled = self.write_buffer.spilled();
            let count = spilled.len().min(BATCH_BANDS);
            taken.extend(spilled.drain(..count));
        }
        if taken.is_empty() {
            return Ok(false);
        }
        self.place_taken(taken).await?;
        Ok(true)
    }

    async fn place_taken(&self, taken: Vec<(Arc<Row>, u32)>) -> Result<(), IoError> {
        for (row, band) in &taken {
            if let Some(dirty) = row.bands().lock().dirty.get_mut(band) {
                dirty.queued = false;
            }
        }
        self.place_bands(taken).await
    }

    /// Destages bands, some at a time so that the journal has room for what is intended.
    pub async fn place_bands(&self, bands: Vec<(Arc<Row>, u32)>) -> Result<(), IoError> {
        let _one = self.intending.lock().await;
        self.place_batches(bands, true).await
    }

    /// Bands that cannot be destaged stay in the line, and keep no others from it.
    pub(super) async fn place_batches(&self, mut bands: Vec<(Arc<Row>, u32)>, drains: bool) -> Result<(), IoError> {
        bands.sort_by_key(|(row, band)| (row.chunk, row.record.id, *band));
        bands.dedup_by_key(|(row, band)| (row.record.id, *band));
        let (most, mut result) = (self.most_in_place(), Ok(()));
        let mut bands = bands.into_iter().peekable();
        while bands.peek().is_some() {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            while let Some((row, band)) = bands.next_if(|_| batch.is_empty() || bytes < most / 2) {
                let waiting = row.bands().lock().dirty.get(&band).map_or(0, super::dirty::Dirty::blocks);
                bytes += u64::from(waiting) * BLOCK_BYTES;
                batch.push((row, band));
            }
            // What the journal has no room for moves to other places, and leaves the log.
            let is_full = drains && self.drain_for_intents().await.is_err();
            let placed = match self.place_batch(&batch, if is_full { 0 } else { most }).await {
                Err(error) if error.kind == IoErrorKind::NoSpace && !is_full => self.place_batch(&batch, 0).await,
                placed => placed,
            };
            if placed.is_err() {
                self.queue_again(batch);
                result = result.and(placed);
                if self.pool.refusal().is_some() {
                    self.queue_again(bands.collect());
                    break;
                }
            }
        }
        result
    }

    fn queue_again(&self, bands: Vec<(Arc<Row>, u32)>) {
        for (row, band) in bands {
            let queued = {
                let mut state = row.bands().lock();
                state.dirty.get_mut(&band).is_none_or(|dirty| std::mem::replace(&mut dirty.queued, true))
            };
            if !queued {
                self.write_buffer.queue(&row, band);
            }
        }
    }

    /// Sees to it that the journal has room for what is intended.
    pub(super) async fn drain_for_intents(&self) -> Result<(), IoError> {
        let journal = self.opened_journal()?;
        Box::pin(self.drain_log(&journal, journal.capacity() / HELD_SHARE)).await
    }

    /// Plans bands side by side, and carries the plans out together. Where disks answer at once, a few changes in place
    /// at a time, for which something was read, are carried out as soon as they are planned: what was read for them is
    /// still in the processor's caches. A band with more than `most` bytes to write does not change in place.
    async fn place_batch(&self, batch: &[(Arc<Row>, u32)], most: u64) -> Result<(), IoError> {
        // In order, and before anything is begun: the holder of a turn may wait for what a plan holds that nobody goes
        // on with.
        let mut turns = Vec::with_capacity(batch.len());
        for (row, band) in batch {
            turns.push(row.band_turn(*band).await);
        }
        let (mut planned, mut waiting, mut result) = (Vec::new(), Vec::new(), Ok(()));
        for ((row, band), turn) in batch.iter().zip(turns) {
            let mut plan = Box::pin(branch(async move {
                let planned = row.plan(self, *band, turn, most, ParityFrom::Cheapest).await;
                if planned.is_err() && row.is_gone() {
                    self.forget_waiting(row);
                    return Ok(None);
                }
                planned
            }));
            match poll_immediate(&mut plan).await {
                None => waiting.push(plan),
                Some(Ok(placing)) => planned.extend(placing),
                Some(Err(error)) => result = Err(error),
            }
            let hot = planned.iter().filter(|placing: &&Placing| placing.goal == Goal::Same).count() >= HOT_BANDS;
            if waiting.is_empty() && hot {
                result = self.carry_out(std::mem::take(&mut planned)).await.and(result);
                yield_now().await;
            }
        }
        for plan in join_all(waiting).await {
            match plan {
                Ok(placing) => planned.extend(placing),
                Err(error) => result = Err(error),
            }
        }
        self.carry_out(planned).await.and(result)
    }

    /// Destages everything that waits.
    pub async fn place_all(&self) -> Result<(), IoError> {
        let _turn = self.placing.lock().await;
        self.place_waiting().await
    }

    /// Destages everything that waits by now, for the holder of the turn.
    pub async fn place_waiting(&self) -> Result<(), IoError> {
        let mut result = self.place_all_whole().await;
        let spilled = std::mem::take(&mut *self.write_buffer.spilled());
        result = self.place_taken(spilled).await.and(result);
        let mut left = self.write_buffer.line().len();
        while left > 0 {
            match self.place_oldest().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => result = Err(error),
            }
            left = left.saturating_sub(BATCH_BANDS);
        }
        result
    }
}
