//! Bands destaged: what a plan says is written, and then known.

use std::borrow::Cow;
use std::sync::Arc;

use holdfast_device::{Durability, IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;

use crate::checksums::sums_of;
use crate::lock_order::join_all;
use crate::row::{Row, RowBody};

use super::band_map::NOWHERE;
use super::bands::{Torn, Write};
use super::log_record::{Draft, Record};
use super::plan::{Goal, ParityFrom, Placing};
use super::record::MOST_ENTRIES;
use super::store::ParityStore;

/// How often room for what is intended is looked for: without it bands move to other places instead.
const INTENT_TRIES: u32 = 20;
/// A row is destaged in so many passes, in each of which what was written during the one before it comes.
const PLACE_PASSES: u32 = 6;
/// A write that fails for want of slabs in step is tried so often: the failed ones are recorded in between.
const TRIES: u32 = 3;

/// What is in place of a band now.
struct Placed<'a> {
    band: u32,
    /// Everything written until then.
    stamp: u64,
    /// Where, if it moved.
    place: Option<u16>,
    /// Blocks that hold data now.
    filled: &'a [(u32, u32)],
    /// Blocks that hold nothing now.
    emptied: &'a [(u32, u32)],
    /// Places that it was staged in.
    loans: &'a [u16],
}

impl ParityStore {
    /// Destages what waits of a parity row.
    pub async fn place_row(&self, row: &Arc<Row>) -> Result<(), IoError> {
        let RowBody::Bands(bands) = &row.body else { return Ok(()) };
        for _ in 0..PLACE_PASSES {
            let waiting: Vec<_> = bands.lock().dirty.keys().map(|band| (row.clone(), *band)).collect();
            if waiting.is_empty() {
                break;
            }
            self.place_bands(waiting).await?;
        }
        Ok(())
    }

    /// What waits of a row does not count any more.
    pub fn forget_waiting(&self, row: &Arc<Row>) {
        let RowBody::Bands(bands) = &row.body else { return };
        bands.forget();
        let mut guard = bands.lock();
        let waiting: Vec<u32> = guard.dirty.keys().copied().collect();
        for band in waiting {
            self.write_buffer.take_until(&mut guard, band, u64::MAX);
        }
    }

    /// Destages a band at once if it was written throughout, or if all of it is to hold nothing.
    pub async fn place_if_whole(&self, row: &Arc<Row>, band: u32) -> Result<(), IoError> {
        let turn = row.band_turn(band).await;
        {
            let state = row.bands().lock();
            if state.dirty.get(&band).is_none_or(|dirty| dirty.blocks() < row.bands().geometry.band_blocks()) {
                return Ok(());
            }
        }
        match row.plan(self, band, turn, self.most_in_place(), ParityFrom::Cheapest).await {
            Ok(Some(placing)) => self.carry_out(vec![placing]).await,
            Ok(None) => Ok(()),
            Err(_) if row.is_gone() => {
                self.forget_waiting(row);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Carries plans out, as many at a time as one record may tell of. One that fails keeps no other from being done.
    pub async fn carry_out(&self, placings: Vec<Placing>) -> Result<(), IoError> {
        let most = self.most_recorded();
        let (mut result, mut group, mut entries, mut bytes) = (Ok(()), Vec::new(), 0, 0);
        for placing in placings {
            let (more, more_bytes) = (placing.intents.len(), placing.intended_bytes());
            if !group.is_empty() && (entries + more > MOST_ENTRIES || bytes + more_bytes > most) {
                result = self.carry_out_together(std::mem::take(&mut group)).await.and(result);
                (entries, bytes) = (0, 0);
            }
            (entries, bytes) = (entries + more, bytes + more_bytes);
            group.push(placing);
        }
        self.carry_out_together(group).await.and(result)
    }

    /// Carries plans out: first what is intended in place goes to the journal, then everything to the slabs.
    async fn carry_out_together(&self, mut placings: Vec<Placing>) -> Result<(), IoError> {
        match self.note_intents(&mut placings).await {
            Ok(record) => {
                // Each holds the record until it is done, and none longer.
                let each: Vec<_> =
                    placings.into_iter().map(|placing| self.carry_out_one(placing, record.clone())).collect();
                drop(record);
                join_all(each).await.into_iter().collect()
            }
            Err(error) => {
                for placing in &placings {
                    let mut state = placing.row.bands().lock();
                    state.placing.remove(&placing.band);
                    // What was begun of the record stands behind the log until the next one takes its place.
                    let until = self.journal.load().as_ref().map(|journal| journal.end());
                    placing.loans().into_iter().for_each(|place| state.doubt_loan(place, until));
                }
                Err(error)
            }
        }
    }

    /// Writes down what is about to change in place. What is written down of a band counts for its place on disk, so
    /// that must be known there.
    async fn note_intents(&self, placings: &mut [Placing]) -> Result<Option<(Arc<Record>, u64)>, IoError> {
        for placing in placings.iter().filter(|placing| !placing.intents.is_empty()) {
            if placing.row.bands().lock().moved.contains(placing.band) {
                self.commit_row(&placing.row).await?;
            }
        }
        self.stage(placings).await;
        let mut draft = Draft::default();
        placings.iter().for_each(|placing| placing.note(&mut draft));
        if draft.entries.is_empty() { Ok(None) } else { self.append_or_commit(draft, INTENT_TRIES).await.map(Some) }
    }

    async fn carry_out_one(&self, mut placing: Placing, record: Option<(Arc<Record>, u64)>) -> Result<(), IoError> {
        let (row, loans) = (placing.row.clone(), placing.loans());
        match self.write_placing(&mut placing).await {
            Ok(place) => {
                let Placing { band, stamp, ref filled, ref emptied, .. } = placing;
                let record = record.as_ref().filter(|_| !placing.intents.is_empty());
                self.note_placed(&row, &Placed { band, stamp, place, filled, emptied, loans: &loans }, record);
                self.rows.touch(&row);
                Ok(())
            }
            Err(error) => {
                let Placing { band, stamp, goal, writes, filled, emptied, _turn, .. } = placing;
                let mut state = row.bands().lock();
                state.placing.remove(&band);
                if let Some(record) = record.filter(|_| goal == Goal::Same) {
                    state.note_logged(band, record.1, stamp);
                    state.torn.insert(band, Torn { stamp, writes, filled, emptied, loans, record });
                }
                drop(state);
                if row.is_gone() {
                    // The mover of a provisional row finds that it is not durable.
                    self.forget_waiting(&row);
                    return Ok(());
                }
                Err(error)
            }
        }
    }

    /// Does a change in place again that was cut short. The turn of the band must be held alone.
    pub async fn finish_torn(&self, row: &Arc<Row>, band: u32) -> Result<(), IoError> {
        let Some(torn) = row.bands().lock().torn.get(&band).cloned() else { return Ok(()) };
        row.write_pieces(&torn.writes, Durability::Cached).await?;
        let Torn { stamp, filled, emptied, loans, record, .. } = torn;
        let placed = Placed { band, stamp, place: None, filled: &filled, emptied: &emptied, loans: &loans };
        self.note_placed(row, &placed, Some(&record));
        row.bands().lock().torn.remove(&band);
        self.rows.touch(row);
        Ok(())
    }

    /// Writes what is planned. Answers the band's place, if it moved.
    async fn write_placing(&self, placing: &mut Placing) -> Result<Option<u16>, IoError> {
        let row = &placing.row;
        match placing.goal {
            Goal::Nowhere => Ok(Some(NOWHERE)),
            Goal::Same => self.write_planned(row, &placing.writes, &placing.staged_sums()).await.map(|()| None),
            Goal::Fresh => {
                let place = self.free_place(row).await?;
                let shift = u64::from(place) * u64::from(row.bands().geometry.depth) * holdfast_model::BLOCK_BYTES;
                placing.writes.iter_mut().for_each(|(_, offset, _)| *offset += shift);
                let written = self.write_planned(row, &placing.writes, &[]).await;
                if written.is_err() {
                    row.bands().lock().give_places([place]);
                }
                written.map(|()| Some(place))
            }
        }
    }

    async fn write_planned(&self, row: &Row, writes: &[Write], checksums: &[&[u32]]) -> Result<(), IoError> {
        let mut tries = 0;
        while let Err(error) = row.write_pieces_of(writes, checksums, Durability::Cached).await {
            tries += 1;
            if error.kind != IoErrorKind::Media || tries == TRIES || row.settle_group(0).await.is_err() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// A free place of a row, by a commit if need be: that frees those that bands left.
    async fn free_place(&self, row: &Arc<Row>) -> Result<u16, IoError> {
        loop {
            if let Some(place) = row.bands().lock().take_place() {
                return Ok(place);
            }
            self.commit_row(row).await?;
            if let Some(place) = row.bands().lock().take_place() {
                return Ok(place);
            }
            // Reads of one of the places are about to end.
            self.pool.env().clock.sleep(std::time::Duration::from_micros(50)).await;
        }
    }

    /// What was planned is in place.
    fn note_placed(&self, row: &Arc<Row>, placed: &Placed<'_>, record: Option<&(Arc<Record>, u64)>) {
        let geometry = row.bands().geometry;
        let Placed { band, stamp, place, filled, emptied, loans } = *placed;
        let (start, end) = (band * geometry.band_blocks(), (band + 1) * geometry.band_blocks());
        let mut guard = row.bands().lock();
        let state = &mut *guard;
        state.placing.remove(&band);
        if let Some(place) = place {
            let left = std::mem::replace(&mut state.places[band as usize], place);
            if left != NOWHERE {
                state.uncommitted.left.push(left);
            }
            state.written.remove(start, end);
            let logged = state.logged.contains_key(&band);
            if logged {
                state.void_until(band, stamp);
            }
            if logged || left != NOWHERE || place != NOWHERE {
                state.uncommitted.direct.insert(band, band + 1);
                state.moved.insert(band, band + 1);
            }
        }
        let mut differs = place.is_some();
        for (from, to) in emptied {
            differs |= state.written.contains_any(*from, *to);
            state.written.remove(*from, *to);
        }
        for (from, to) in filled {
            differs |= !state.written.contains_all(*from, *to);
            state.written.insert(*from, *to);
        }
        state.uncommitted.changed.insert(band, band + 1);
        if let Some(changed) = &mut state.changed {
            changed.insert(band, band + 1);
        }
        state.uncommitted.placed.insert(band, stamp);
        state.in_place.insert(band, stamp);
        if differs {
            state.uncommitted.behind.insert(row.bands().map_of(band));
        }
        if let Some((record, end)) = record {
            state.hold(record);
            state.note_logged(band, *end, stamp);
        }
        for place in loans {
            state.void_until(band, stamp);
            state.end_loan(*place);
        }
        let done = self.write_buffer.take_until(state, band, stamp);
        for (_, record) in done.into_iter().flat_map(|extent| extent.held) {
            state.hold(&record);
        }
    }
}

impl Row {
    /// Writes to every slab that takes writes, and sees to it that those which missed one are recorded as stale.
    ///
    /// # Errors
    /// `Media` where too few slabs took it.
    pub async fn write_pieces(&self, writes: &[Write], durability: Durability) -> Result<(), IoError> {
        self.write_pieces_of(writes, &[], durability).await
    }

    /// As [`Row::write_pieces`], of writes whose checksums are known, those of the first ones at least; empty where
    /// they are not.
    async fn write_pieces_of(&self, writes: &[Write], known: &[&[u32]], durability: Durability) -> Result<(), IoError> {
        self.settle_group(0).await?;
        let takes = |index: usize| self.slabs.get(index).takes_writes();
        let writes = writes.iter().zip(known.iter().copied().chain(std::iter::repeat(&[][..])));
        let (given, passed): (Vec<_>, Vec<_>) = writes.partition(|((index, ..), _)| takes(*index));
        let started: Vec<_> = given
            .iter()
            .map(|((index, offset, data), _)| {
                let slab = self.slabs.get(*index);
                let write = slab.disk.write(slab.at(*offset), data.clone(), durability);
                async move { (*index, slab, write.await) }
            })
            .collect();
        let checksums: Vec<(u32, Cow<'_, [u32]>)> = match &self.checksums {
            Some(_) => {
                given.iter().map(|((_, at, data), known)| ((at / BLOCK_BYTES) as u32, sums_from(known, data))).collect()
            }
            None => Vec::new(),
        };
        let results = join_all(started).await;
        let mut missed: Vec<usize> = passed.iter().map(|((index, ..), _)| *index).collect();
        for (at, (index, slab, result)) in results.into_iter().enumerate() {
            match result {
                Ok(()) => {
                    if durability == Durability::Cached {
                        slab.disk.note_written();
                    }
                    if let (Some(all), Some((first, checksums))) = (&self.checksums, checksums.get(at)) {
                        all.note(index, *first, checksums);
                    }
                }
                Err(error) => {
                    if !missed.contains(&index) {
                        self.write_failed(index, &slab, &error).await?;
                    }
                    missed.push(index);
                }
            }
        }
        missed.sort_unstable();
        missed.dedup();
        self.confirm_missed(&missed).await
    }
}

/// The checksums of blocks: those that are known, or else computed.
fn sums_from<'a>(known: &'a [u32], data: &[u8]) -> Cow<'a, [u32]> {
    debug_assert!(known.is_empty() || sums_of(data).eq(known.iter().copied()));
    if known.is_empty() { sums_of(data).collect() } else { Cow::Borrowed(known) }
}
