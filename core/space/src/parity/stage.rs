//! Blocks that are about to change in place, staged: instead of in the journal they stand in a free place of their row, each on
//! the slab that it is for, and the journal tells where. That is one write of each block instead of one for every copy of the
//! journal, and bears the same losses: whatever slab is lost takes with it only what parity makes good.
//!
//! A place is lent to several changes, one behind the other in each column. It is free again once all of them are in place and
//! committed, and the journal says that they are done with.
//!
//! Invariants:
//! - A record that counts finds its staged blocks on every slab in step: they are durable before it, their place is not used anew
//!   while it counts, and a slab comes in step only once what was staged without it is done with.
//! - Only rows that are whole stage, so that every piece of a change is staged or none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use holdfast_device::{Durability, IoSlice};

use crate::checksums::sums_of;
use crate::row::Row;
use crate::space::Inner;
use crate::stripe::joined;

use super::bands::BandState;
use super::geometry::{Geometry, bytes_of};
use super::journal::Journal;
use super::plan::{Placing, Planned};
use super::record::{Intent, StagedPiece};

/// Pieces up to so many bytes are put together where they follow one another: a copy is cheaper than a request.
const SMALL_BYTES: usize = 16 << 10;

/// The places of a row that are lent.
#[derive(Default)]
pub struct Staging {
    /// How many changes that are not in place yet each serves.
    lent: BTreeMap<u16, u32>,
    /// The one that is being filled, and how many blocks of each column are taken.
    open: Option<(u16, Vec<u32>)>,
    /// Loans of which a record that could not be appended may tell all the same, as long as the log of a journal ends there.
    doubts: Vec<(u16, Option<(u64, u64)>)>,
}

impl Staging {
    /// Whether nothing is lent.
    pub fn is_idle(&self) -> bool {
        self.lent.is_empty()
    }

    /// Whether a commit would free a place.
    fn waits_for_commit(&self) -> bool {
        self.lent.values().any(|users| *users == 0)
    }

    /// A place is lent no more; false if it was not.
    pub fn forget(&mut self, place: u16) -> bool {
        self.lent.remove(&place).is_some()
    }

    /// A place has what a crash left there: it serves one change, until all of them are carried out.
    pub fn keep(&mut self, place: u16) {
        self.lent.insert(place, 1);
    }
}

impl BandState {
    /// Lends room for `len` blocks in each of some columns: the place, and the first block of each within it. `None` where enough
    /// places are lent: the others are for bands that move.
    fn lend(&mut self, geometry: &Geometry, columns: &[usize], len: u32) -> Option<(u16, Vec<u32>)> {
        let fits = |used: &[u32]| columns.iter().all(|column| used[*column] + len <= geometry.depth);
        if !self.staging.open.as_ref().is_some_and(|(_, used)| fits(used)) {
            self.close_stage();
            let most = ((geometry.places - geometry.bands) * 3 / 4).max(1);
            if self.staging.lent.len() >= most as usize {
                return None;
            }
            let place = self.take_place()?;
            self.staging.lent.insert(place, 0);
            self.staging.open = Some((place, vec![0; geometry.columns]));
        }
        let (place, used) = self.staging.open.as_mut()?;
        let firsts = columns.iter().map(|column| used[*column]).collect();
        columns.iter().for_each(|column| used[*column] += len);
        *self.staging.lent.entry(*place).or_default() += 1;
        Some((*place, firsts))
    }

    /// Lets nothing more into the place that is being filled; it is given back when all that it serves is in place.
    pub fn close_stage(&mut self) {
        if let Some((place, _)) = self.staging.open.take()
            && self.staging.lent.get(&place) == Some(&0)
        {
            self.uncommitted.left.push(place);
        }
    }

    /// A record that tells of a loan could not be appended: it ends when the log has gone on.
    pub fn doubt_loan(&mut self, place: u16, until: Option<(u64, u64)>) {
        self.staging.doubts.push((place, until));
    }

    /// Ends the loans that no record can tell of any more.
    pub fn end_doubts(&mut self, journal: Option<&Journal>) {
        let end = journal.map(|journal| (journal.id, journal.lock().head));
        let doubtful = |(_, until): &(u16, Option<(u64, u64)>)| *until == end;
        let (kept, over): (Vec<_>, Vec<_>) = self.staging.doubts.drain(..).partition(doubtful);
        self.staging.doubts = kept;
        over.into_iter().for_each(|(place, _)| self.end_loan(place));
    }

    /// A change that a place served is in place, or no record will tell of it.
    pub fn end_loan(&mut self, place: u16) {
        let Some(users) = self.staging.lent.get_mut(&place) else { return };
        *users -= 1;
        let open = self.staging.open.as_ref().is_some_and(|(open, _)| *open == place);
        if *users == 0 && !open {
            self.uncommitted.left.push(place);
        }
    }
}

/// A block run for a slab, as it is staged.
type Staged<'a> = (usize, u64, &'a IoSlice);

impl Inner {
    /// Stages what plans intend, where that is worth it. The others go to the journal whole.
    pub(super) async fn stage(&self, placings: &mut [Placing]) {
        let bytes: u64 = placings.iter().map(Placing::intended_bytes).sum();
        if bytes < self.settings.staged_bytes as u64 || self.pool.has_journal_disks(self.record.id) {
            return;
        }
        let mut rows: Vec<Arc<Row>> = Vec::new();
        for placing in placings.iter().filter(|placing| !placing.intents.is_empty()) {
            if !rows.iter().any(|row| Arc::ptr_eq(row, &placing.row)) {
                rows.push(placing.row.clone());
            }
        }
        for row in rows.into_iter().filter(|row| row.may_stage()) {
            let mut own: Vec<&mut Placing> = placings.iter_mut().filter(|placing| Arc::ptr_eq(&row, &placing.row)).collect();
            let commits = || row.bands().lock().staging.waits_for_commit();
            if !row.lend_all(&mut own) && commits() && self.commit_row(&row).await.is_ok() {
                row.lend_all(&mut own);
            }
            if !row.write_staged(&own).await {
                let mut state = row.bands().lock();
                for planned in own.iter_mut().flat_map(|placing| &mut placing.intents) {
                    if let Some((place, _)) = planned.staged.take() {
                        state.end_loan(place);
                    }
                }
            }
        }
    }
}

impl Row {
    /// Whether a second seek for what changes in place costs less than another copy of it, and every slab takes it.
    fn may_stage(&self) -> bool {
        self.whole() && !self.slabs.iter().any(|slab| slab.rotates())
    }

    /// Finds room for what is not staged yet; false where some of it found none.
    fn lend_all(&self, placings: &mut [&mut Placing]) -> bool {
        let geometry = self.bands().geometry;
        let mut state = self.bands().lock();
        for planned in placings.iter_mut().flat_map(|placing| &mut placing.intents) {
            if planned.staged.is_some() || planned.blocks.is_empty() {
                continue;
            }
            let columns = geometry.columns_of(&planned.intent);
            let Some((place, firsts)) = state.lend(&geometry, &columns, planned.intent.len) else { return false };
            let start = u32::from(place) * geometry.depth;
            let pieces = firsts.iter().zip(&planned.blocks);
            let pieces = pieces.map(|(first, bytes)| StagedPiece { at: start + first, checksums: sums_of(bytes).collect() });
            planned.staged = Some((place, pieces.collect()));
        }
        true
    }

    /// Writes what found room to the slabs, durably. Answers whether all of them took it.
    async fn write_staged(&self, placings: &[&mut Placing]) -> bool {
        let geometry = self.bands().geometry;
        let mut staged: Vec<Staged<'_>> = Vec::new();
        for Planned { intent, blocks, staged: found } in placings.iter().flat_map(|placing| &placing.intents) {
            let Some((_, pieces)) = found else { continue };
            let places = geometry.columns_of(intent).into_iter().zip(pieces);
            staged.extend(places.zip(blocks).map(|((column, piece), data)| (column, bytes_of(piece.at) as u64, data)));
        }
        staged.sort_by_key(|(column, at, _)| (*column, *at));
        let writes = staged.chunk_by(|(column, at, data), (next_column, next_at, next)| {
            let small = data.len() <= SMALL_BYTES && next.len() <= SMALL_BYTES;
            small && column == next_column && at + data.len() as u64 == *next_at
        });
        let started: Vec<_> = writes
            .map(|run| {
                let (column, at, _) = run[0];
                let slab = self.slabs.get(column);
                let pieces: Vec<IoSlice> = run.iter().map(|(.., data)| (*data).clone()).collect();
                let write = slab.disk.write(slab.at(at), joined(&pieces), Durability::Durable);
                async move { (slab, write.await) }
            })
            .collect();
        let results = join_all(started).await;
        for (slab, _) in results.iter().filter(|(_, result)| result.is_err()) {
            slab.disk.counters.write_errors.fetch_add(1, Ordering::Relaxed);
        }
        results.iter().all(|(slab, result)| result.is_ok() && slab.usable())
    }
}

impl Geometry {
    /// The pieces that an intent writes: data, then parity.
    pub fn pieces_of(&self, intent: &Intent) -> impl Iterator<Item = usize> {
        let Intent { filled, parity, .. } = *intent;
        let data = (0..self.data).filter(move |piece| filled >> piece & 1 == 1);
        let first = self.data;
        data.chain((0..self.parity).filter(move |index| parity >> index & 1 == 1).map(move |index| first + index))
    }

    fn columns_of(&self, intent: &Intent) -> Vec<usize> {
        self.pieces_of(intent).map(|piece| self.column(intent.stripe, piece)).collect()
    }

    /// The place in which staged blocks lie; `None` where they cannot be so.
    pub fn place_of_staged(&self, piece: &StagedPiece, len: u32) -> Option<u16> {
        let place = piece.at / self.depth;
        let last = piece.at.checked_add(len - 1)? / self.depth;
        (place == last && place < self.places).then_some(place as u16)
    }
}
