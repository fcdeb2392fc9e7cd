//! What waits to be destaged, over all rows of a parity space: how much memory it takes, in which order its bands are
//! served, and what makes it durable before that.
//!
//! A write is answered when it is in memory: like the cache of a disk, that is lost with the power until it is flushed. A
//! band that was written throughout goes to its place at once; all others wait for more, and are destaged, oldest
//! first, where memory or journal get scarce, and by maintenance. A flush puts into the journal what is only in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use futures_util::future::poll_immediate;
use holdfast_device::reactor::yield_now;
use holdfast_device::{Durability, IoError, IoErrorKind, IoSlice};
use holdfast_model::BLOCK_BYTES;

use crate::boxed_cold::boxed_cold;
use crate::lock_order::{Lock, Locked, TaskLock, branch, join_all, rank};
use crate::row::Row;
use crate::space::Inner;
use crate::stripe::ChunkPart;

use super::background_destage::Helpers;
use super::bands::BandState;
use super::deferred_replay::DeferredReplay;
use super::dirty::{Content, Extent};
use super::geometry::bytes_of;
use super::journal::{Draft, Journal, Record};
use super::plan::{Goal, Placing};
use super::record::{Blocks, Entry, MOST_ENTRIES, MOST_RECORD_BYTES};

/// The share of the journal that holds what is only written, at most: putting it in place takes up to three times as much.
const LOG_SHARE: u64 = 6;
/// The share of the journal that may be held before anything else is destaged: the rest is for what that intends.
const HELD_SHARE: u64 = 3;
/// How often the oldest record is looked at again before it counts as stuck, and how long each time at first.
const TRIES: u32 = 300;
/// After so many, again and again, all that the log holds is looked at.
const PATIENT_TRIES: u32 = 16;
pub(super) const MOMENT: std::time::Duration = std::time::Duration::from_micros(200);
/// Bands that are destaged together, at most.
const BATCH_BANDS: usize = 64;
/// Bands that are destaged together where their disks answer at once: with parity and what was there before, small changes of so
/// many fit a processor's own cache.
const HOT_BANDS: usize = 8;
/// Bands that may wait, whatever little memory they take.
const MOST_BANDS: usize = 8192;

/// What waits to be destaged.
#[derive(Default)]
pub struct WriteBuffer {
    bytes: AtomicUsize,
    stamp: AtomicU64,
    line: Lock<{ rank::LISTS }, VecDeque<(Arc<Row>, u32)>>,
    /// Bands that wait in the journal alone.
    spilled: Lock<{ rank::LISTS }, Vec<(Arc<Row>, u32)>>,
    /// Held by whoever works on the line.
    pub(super) placing: TaskLock<{ rank::PLACING }>,
    /// Held while bands are destaged by way of the journal: several at once might leave one another no room there, each with bands
    /// in hand that the oldest record waits for.
    intending: TaskLock<{ rank::INTENDING }>,
    /// Held while a record of what is only in memory is put together and written.
    pub(super) logging: TaskLock<{ rank::LOGGING }>,
    /// Held while maps are written.
    pub committing: TaskLock<{ rank::COMMITTING }>,
    /// Held while the journal is opened or replaced.
    pub(super) opening: TaskLock<{ rank::OPENING }>,
    /// The journal, once it was read and carried out.
    pub(super) journal: ArcSwapOption<Journal>,
    /// By chunk, what the journal has for rows that could not be opened.
    pub(super) deferred: Lock<{ rank::DEFERRED }, BTreeMap<u32, DeferredReplay>>,
    /// Who destages in the background.
    pub helpers: Helpers,
}

impl WriteBuffer {
    /// The journal, once it was read and carried out.
    pub fn journal(&self) -> arc_swap::Guard<Option<Arc<Journal>>> {
        self.journal.load()
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Notes memory that is free again.
    pub fn take(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Notes memory that is taken.
    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The number of the next write. Rows draw it while their state is locked, so that it tells the order there.
    pub fn draw_stamp(&self) -> u64 {
        self.stamp.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Goes on after a stamp that was found in the journal.
    pub fn pass_stamp(&self, stamp: u64) {
        self.stamp.fetch_max(stamp, Ordering::Relaxed);
    }

    fn line(&self) -> Locked<'_, { rank::LISTS }, VecDeque<(Arc<Row>, u32)>> {
        self.line.lock()
    }

    /// Takes bands from the front of the line.
    fn take_first(&self) -> Vec<(Arc<Row>, u32)> {
        let mut line = self.line();
        let count = line.len().min(BATCH_BANDS);
        line.drain(..count).collect()
    }

    fn spilled(&self) -> Locked<'_, { rank::LISTS }, Vec<(Arc<Row>, u32)>> {
        self.spilled.lock()
    }

    /// Puts an extent into a band, and the band into the line if it does not wait there. Answers how many blocks of it wait.
    pub fn put(&self, row: &Arc<Row>, state: &mut BandState, band: u32, start: u32, extent: Extent) -> u32 {
        self.add(extent.bytes());
        let dirty = state.dirty.entry(band).or_default();
        self.take(dirty.insert(start, extent));
        if !std::mem::replace(&mut dirty.queued, true) {
            self.queue(row, band);
        }
        dirty.blocks()
    }

    /// Takes out what was written to a band up to a stamp: it is in place, or does not count any more.
    pub fn take_until(&self, state: &mut BandState, band: u32, stamp: u64) -> Vec<Extent> {
        let Some(dirty) = state.dirty.get_mut(&band) else { return Vec::new() };
        let done = dirty.take_until(stamp);
        if dirty.is_empty() {
            state.dirty.remove(&band);
        }
        self.take(done.iter().map(Extent::bytes).sum());
        done
    }

    /// Puts a band at the end of the line.
    pub fn queue(&self, row: &Arc<Row>, band: u32) {
        self.line().push_back((row.clone(), band));
    }
}

impl Inner {
    /// Bytes that the journal can take.
    fn journal_bytes(&self) -> u64 {
        self.write_buffer.journal.load().as_ref().map_or(0, |journal| journal.capacity())
    }

    /// Bytes of a band that may change in place: with its parity, up to three times as much, more would not fit a record, or the
    /// journal with what it holds and what else must.
    pub fn most_in_place(&self) -> u64 {
        let (capacity, held) =
            self.write_buffer.journal.load().as_ref().map_or((0, 0), |journal| (journal.capacity(), journal.held()));
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
            let left = durability == Durability::Cached && data.is_some() && self.write_buffer.helpers.take_over(row, band);
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
        self.write_buffer.bytes() > self.settings.write_buffer_bytes || self.write_buffer.line().len() > MOST_BANDS
    }

    /// Waits where too much is in memory; whoever comes first puts the oldest in place.
    async fn wait_for_room(&self) -> Result<(), IoError> {
        let soft = self.settings.write_buffer_bytes;
        loop {
            let (bytes, bands) = (self.write_buffer.bytes(), self.write_buffer.line().len());
            if bytes <= soft && bands <= MOST_BANDS {
                return Ok(());
            }
            let turn = if bytes <= 2 * soft && bands <= 2 * MOST_BANDS {
                match self.write_buffer.placing.try_lock() {
                    Some(turn) => turn,
                    None => return Ok(()),
                }
            } else {
                self.write_buffer.placing.lock().await
            };
            if !self.is_crowded() {
                return Ok(());
            }
            let worked = match self.place_or_relieve().await {
                Ok(worked) => worked,
                // It is another row's, and told to whoever flushes.
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

    /// Makes room: what waits longest goes to the journal or to its place. False if nothing waits. The turn of placing must be held.
    pub async fn relieve(&self) -> Result<bool, IoError> {
        Ok(self.spill_oldest().await? || self.place_oldest().await?)
    }

    /// Moves what waits at the front of the line to the journal, where that is faster and has room.
    async fn spill_oldest(&self) -> Result<bool, IoError> {
        let journal = self.journal().await?;
        let fits = journal.held() + 2 * journal.record_share() <= journal.capacity() / LOG_SHARE;
        let spills = self.write_buffer.line().front().is_some_and(|(row, _)| self.spills(&journal, row));
        // Whoever holds this may wait for the line, which is held here.
        let Some(_one) = self.write_buffer.logging.try_lock() else { return Ok(false) };
        if !fits || !spills {
            return Ok(false);
        }
        let taken = self.write_buffer.take_first();
        self.write_buffer.spilled().extend(taken.iter().cloned());
        self.spill(&journal, &taken).await?;
        Ok(true)
    }

    /// Puts the bands at the front of the line in place; false if there are none.
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

    /// Puts bands in place, some at a time so that the journal has room for what is intended.
    pub async fn place_bands(&self, bands: Vec<(Arc<Row>, u32)>) -> Result<(), IoError> {
        let _one = self.write_buffer.intending.lock().await;
        self.place_batches(bands, true).await
    }

    /// Bands that cannot be destaged stay in the line, and keep no others from it.
    async fn place_batches(&self, mut bands: Vec<(Arc<Row>, u32)>, drains: bool) -> Result<(), IoError> {
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
    async fn drain_for_intents(&self) -> Result<(), IoError> {
        let journal = self.journal().await?;
        Box::pin(self.drain_log(&journal, journal.capacity() / HELD_SHARE)).await
    }

    /// Plans bands side by side, and carries the plans out together. Where disks answer at once, a few changes in place at a time, for
    /// which something was read, are carried out as soon as they are planned: what was read for them is still in the processor's caches.
    /// A band with more than `most` bytes to write does not change in place.
    async fn place_batch(&self, batch: &[(Arc<Row>, u32)], most: u64) -> Result<(), IoError> {
        // In order, and before anything is begun: whoever has a turn may wait for what a plan holds that nobody goes on with.
        let mut turns = Vec::with_capacity(batch.len());
        for (row, band) in batch {
            turns.push(row.band_turn(*band).await);
        }
        let (mut planned, mut waiting, mut result) = (Vec::new(), Vec::new(), Ok(()));
        for ((row, band), turn) in batch.iter().zip(turns) {
            let mut plan = Box::pin(branch(async move {
                let planned = row.plan(self, *band, turn, most).await;
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

    /// Puts everything in place that waits.
    pub async fn place_all(&self) -> Result<(), IoError> {
        let _turn = self.write_buffer.placing.lock().await;
        self.place_waiting().await
    }

    /// Puts everything in place that waits by now, for whoever has the turn.
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

    /// Makes what was written to rows durable: in the journal, or in place with its maps. With `only`, of bands in a range.
    pub async fn make_durable(&self, rows: &[Arc<Row>], only: Option<(u32, u32)>) -> Result<(), IoError> {
        if only.is_none()
            && let Err(error) = self.place_all_whole().await
        {
            tracing::debug!(space = %self.path(), %error, "whole bands go to the journal, as they cannot be destaged");
        }
        // What is written meanwhile is not waited for: under load that would have no end.
        let mut left: Vec<(Arc<Row>, u32)> = rows.iter().flat_map(|row| row.unlogged_bands(only)).collect();
        let mut result = Ok(());
        while !left.is_empty() {
            let one = self.write_buffer.logging.lock().await;
            // None takes its place while this is held.
            let journal = self.journal().await?;
            if let Err(error) = self.reserve_log(&journal).await {
                tracing::debug!(space = %self.path(), %error, "what is only in memory goes to its place, as the journal has no room");
                drop(one);
                result = self.place_bands(left).await;
                break;
            }
            let (mut logging, mut later, mut waits, mut full) = (Logging::default(), Vec::new(), Vec::new(), None);
            for (row, band) in left {
                match logging.collect(&row, band, journal.record_share()) {
                    Collected::Done => {}
                    Collected::Placing(stamp) => waits.push((row, band, stamp)),
                    Collected::TooMuch if full.is_none() => full = Some((row, band)),
                    Collected::TooMuch | Collected::NoRoom => later.push((row, band)),
                }
            }
            self.log(logging).await?;
            drop(one);
            for (row, band, stamp) in waits {
                drop(row.shared_turn(band).await);
                if row.bands().lock().in_place.get(&band).is_none_or(|placed| *placed < stamp) {
                    later.push((row, band));
                }
            }
            if let Some(band) = full {
                self.place_bands(vec![band]).await?;
            }
            left = later;
        }
        self.commit_direct(rows, only).await.and(result)
    }

    /// Writes what was collected to the journal. Answers where the record ends, if there was anything.
    pub(super) async fn log(&self, logging: Logging) -> Result<Option<u64>, IoError> {
        let Logging { draft, extents } = logging;
        if draft.entries.is_empty() {
            return Ok(None);
        }
        let appended = self.append_or_commit(draft, TRIES).await;
        note_logged(&extents, appended.as_ref().ok());
        appended.map(|(_, end)| Some(end))
    }

    /// Sees to it that a record of what is only in memory may go to the journal, and that there is room for all that is intended
    /// when what it holds goes to its place: what the journal holds longest is destaged first.
    async fn reserve_log(&self, journal: &Arc<Journal>) -> Result<(), IoError> {
        let (bytes, most) = (2 * journal.record_share(), journal.capacity() / LOG_SHARE);
        if journal.held() + bytes <= most {
            return Ok(());
        }
        let _turn = self.write_buffer.placing.lock().await;
        let _one = self.write_buffer.intending.lock().await;
        self.drain_log(journal, most - bytes).await
    }

    /// Destages what the log holds longest, until it holds no more than `most` bytes. What that intends takes up to three times
    /// as much of the log before the first of it is done with.
    async fn drain_log(&self, journal: &Arc<Journal>, most: u64) -> Result<(), IoError> {
        let mut tries = 0;
        while journal.held() > most {
            let oldest = journal.oldest();
            let before = oldest.as_ref().map(|record| record.at);
            boxed_cold(self.copy_deferred_forward(journal)).await?;
            let bands = oldest.iter().flat_map(|record| &record.bands);
            let bands = bands.flat_map(|(chunk, band)| self.rows_with(*chunk, *band)).collect();
            drop(oldest);
            let placed = self.place_batches(bands, false).await;
            let committed = self.commit_all().await;
            // Whoever works on the same bands may hold the record until the next commit.
            let moved = before.is_none() || journal.oldest().map(|record| record.at) != before;
            if !moved {
                placed.and(committed)?;
            }
            tries = if moved { 0 } else { tries + 1 };
            self.check_stuck(journal, tries).await?;
            if tries > 0 {
                self.pool.env().clock.sleep(MOMENT * tries).await;
            }
            if tries == TRIES {
                return Err(IoError::new(IoErrorKind::NoSpace, format!("the journal of space {} does not empty", self.path())));
            }
        }
        Ok(())
    }

    /// Refuses to wait for room in the journal where what it holds longest is of a row that cannot be read now. Where nothing moves
    /// for some time, anything that it holds counts: it may leave too little for what is to be destaged before that.
    async fn check_stuck(&self, journal: &Journal, tries: u32) -> Result<(), IoError> {
        let held = match tries {
            0..=1 => return Ok(()),
            _ if tries.is_multiple_of(PATIENT_TRIES) => journal.records(),
            _ => Vec::from_iter(journal.oldest()),
        };
        let bands: BTreeSet<(u32, u32)> = held.iter().flat_map(|record| record.bands.iter().copied()).collect();
        for (chunk, band) in bands {
            let mut is_stuck = self.is_deferred(chunk);
            for (row, _) in self.rows_with(chunk, band) {
                is_stuck |= row.settle_group(0).await.is_err();
            }
            if is_stuck {
                let path = self.path();
                let why =
                    format!("the journal of space {path} is full of writes to chunk {chunk}, of which too many disks are away");
                return Err(IoError::new(IoErrorKind::NoSpace, why));
            }
        }
        Ok(())
    }

    /// The rows of a chunk that have such a band: the open one, and one that is to take its place.
    fn rows_with(&self, chunk: u32, band: u32) -> Vec<(Arc<Row>, u32)> {
        let moving = self.movement.provisional().iter().find(|row| row.chunk == chunk).cloned();
        let rows = self.rows.open_row(chunk).into_iter().chain(moving);
        let has_band = |row: &Arc<Row>| row.bands_if_any().is_some_and(|bands| band < bands.geometry.bands);
        rows.filter(has_band).map(|row| (row, band)).collect()
    }

    /// Appends a record; where the log is full, after a commit, which lets go of what is in place. So often that is tried.
    pub async fn append_or_commit(&self, draft: Draft, most_tries: u32) -> Result<(Arc<Record>, u64), IoError> {
        for tries in 0..most_tries {
            if let Some(appended) = self.append(&draft, false).await? {
                return Ok(appended);
            }
            if tries > 0 {
                // Whoever is about to destaged what it intends holds the room until the next commit.
                self.pool.env().clock.sleep(MOMENT * tries).await;
            }
            // A row that cannot be committed keeps the room that its own records take, and no other from being looked for.
            if let Err(error) = self.commit_all().await
                && self.pool.refusal().is_some()
            {
                return Err(error);
            }
            let journal = self.journal().await?;
            self.check_stuck(&journal, tries).await?;
        }
        Err(IoError::new(IoErrorKind::NoSpace, format!("{} bytes in the journal of space {}", draft.bytes(), self.path())))
    }
}

/// What a flush is about to put into the journal.
#[derive(Default)]
pub(super) struct Logging {
    pub draft: Draft,
    /// Row, band, first block, length, stamp.
    pub extents: Vec<(Arc<Row>, u32, u32, u32, u64)>,
}

/// What becomes of what is only in memory of a band.
pub(super) enum Collected {
    /// It goes into the record, or there is none.
    Done,
    /// So it does, but for what is being destaged, up to a stamp.
    Placing(u64),
    /// It is more than fits a record.
    TooMuch,
    /// It does not fit this record.
    NoRoom,
}

impl Row {
    /// Bands of a row with something that is only in memory, of those in a range.
    fn unlogged_bands(self: &Arc<Self>, only: Option<(u32, u32)>) -> Vec<(Arc<Self>, u32)> {
        let (first, last) = only.unwrap_or((0, u32::MAX));
        let mut guard = self.bands().lock();
        let state = &mut *guard;
        let open = |band: &u32| state.dirty.get(band).is_some_and(|dirty| dirty.extents().any(|(_, extent)| !extent.logged));
        let (found, done): (Vec<u32>, Vec<u32>) = state.unlogged.range(first..=last).copied().partition(open);
        state.unlogged.retain(|band| done.binary_search(band).is_err());
        found.into_iter().map(|band| (self.clone(), band)).collect()
    }
}

impl Logging {
    /// Collects what is only in memory of a band. Where it is being destaged, that counts as well once it is there.
    pub fn collect(&mut self, row: &Arc<Row>, band: u32, limit: u64) -> Collected {
        let mut guard = row.bands().lock();
        let state = &mut *guard;
        let Some(dirty) = state.dirty.get(&band) else { return Collected::Done };
        let placing = state.placing.get(&band).copied().unwrap_or(0);
        let (placed, open): (Vec<_>, Vec<_>) =
            dirty.extents().filter(|(_, extent)| !extent.logged).partition(|(_, extent)| extent.stamp <= placing);
        let done = if placed.is_empty() { Collected::Done } else { Collected::Placing(placing) };
        if open.is_empty() {
            return done;
        }
        let bytes: u64 = open.iter().map(|(_, extent)| extent.bytes() as u64).sum();
        if bytes > limit || open.len() > MOST_ENTRIES / 2 {
            return Collected::TooMuch;
        }
        if self.draft.bytes() + bytes > 2 * limit || self.draft.entries.len() + open.len() > MOST_ENTRIES {
            return Collected::NoRoom;
        }
        state.logging.insert(band);
        for (start, extent) in open {
            let blocks = Blocks { chunk: row.chunk, row: row.record.id, stamp: extent.stamp, start, len: extent.len };
            match &extent.content {
                Content::Logged(_) => unreachable!("what is in the journal is logged"),
                Content::Bytes(bytes) => self.draft.add(row.chunk, band, Entry::Written(blocks), [bytes.clone()]),
                Content::Nothing => self.draft.add(row.chunk, band, Entry::Emptied(blocks), []),
            }
            self.extents.push((row.clone(), band, start, extent.len, extent.stamp));
        }
        done
    }
}

/// What was collected is in the journal, durably, if it got a record. Whatever replaced some of it meanwhile holds that too.
fn note_logged(extents: &[(Arc<Row>, u32, u32, u32, u64)], record: Option<&(Arc<Record>, u64)>) {
    for (row, band, start, len, stamp) in extents {
        let mut guard = row.bands().lock();
        let state = &mut *guard;
        debug_assert!(
            !state.logging.contains(band) || state.placing.get(band).is_none_or(|placing| placing < stamp),
            "band {band} of row {} was planned while a write of it was on its way into the journal",
            row.record.id
        );
        state.end_logging(*band);
        let Some((record, end)) = record else { continue };
        state.note_logged(*band, *end, *stamp);
        state.hold(record);
        let Some(dirty) = state.dirty.get_mut(band) else { continue };
        for (at, extent) in dirty.extents_mut() {
            if at >= start + len || at + extent.len <= *start {
                continue;
            }
            if extent.stamp == *stamp {
                extent.logged = true;
                extent.held = vec![(*stamp, record.clone())];
            } else if extent.stamp > *stamp {
                extent.hold(*stamp, record);
            }
        }
    }
}
