//! Blocks that are about to change in place, staged: instead of in the journal they stand in a free place of their row,
//! each on the slab that it is for, and the journal tells where. That is one write of each block instead of one for
//! every copy of the journal, and bears the same losses: whatever slab is lost takes with it only what parity makes
//! good.
//!
//! Invariants:
//! - A record that counts finds its staged blocks on every slab in step: they are durable before it, their place is not
//!   used anew while it counts, and a slab comes in step only once what was staged without it is done with.
//! - Only rows that are whole stage, so that every piece of a change is staged or none.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use holdfast_device::{Durability, IoSlice};

use crate::checksums::sums_of;
use crate::row::Row;
use crate::stripe::joined;

use super::geometry::{Geometry, bytes_of};
use super::plan::{Placing, Planned};
use super::record::{Intent, StagedPiece};
use super::store::ParityStore;

/// Pieces up to so many bytes are put together where they follow one another: a copy is cheaper than a request.
const SMALL_BYTES: usize = 16 << 10;

/// A block run for a slab, as it is staged.
type Staged<'a> = (usize, u64, &'a IoSlice);

impl ParityStore {
    /// Stages what plans intend, where that is worth it. The others go to the journal whole.
    pub(super) async fn stage(&self, placings: &mut [Placing]) {
        let bytes: u64 = placings.iter().map(Placing::intended_bytes).sum();
        if bytes < self.limits.staged_bytes as u64 || self.pool.has_journal_disks(self.record.id) {
            return;
        }
        let mut rows: Vec<Arc<Row>> = Vec::new();
        for placing in placings.iter().filter(|placing| !placing.intents.is_empty()) {
            if !rows.iter().any(|row| Arc::ptr_eq(row, &placing.row)) {
                rows.push(placing.row.clone());
            }
        }
        for row in rows.into_iter().filter(|row| row.may_stage()) {
            let mut own: Vec<&mut Placing> =
                placings.iter_mut().filter(|placing| Arc::ptr_eq(&row, &placing.row)).collect();
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
            let pieces =
                pieces.map(|(first, bytes)| StagedPiece { at: start + first, checksums: sums_of(bytes).collect() });
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
