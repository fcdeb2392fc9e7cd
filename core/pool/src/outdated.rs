//! What a disk or a slab may have missed, and how that is found.
//!
//! Invariant: a disk that was set back to an older state than it is known to have had counts for nothing until all of
//! it is copied anew; its log tells, which gets a record at least as often as [`Pool::stamp`] is asked for one.

use std::time::Duration;

use crate::PoolError;
use crate::change::Change;
use crate::committer::Guard;
use crate::frame::Position;
use crate::log::{LogPlace, Tip};
use crate::place::SlabPlace;
use crate::pool::Pool;
use crate::promise::promised;
use crate::record::DiskRecord;

impl Pool {
    /// Writes down that a slab may have missed any write at all. Answers whether it is so: not for one that is needed.
    pub async fn mark_outdated(&self, space: u32, chunk: u32, slab: usize) -> Result<bool, PoolError> {
        self.commit(vec![Change::Outdated { space, chunk, slab: slab as u16, outdated: true }], Guard::None).await?;
        Ok(self.is_slab_outdated(space, chunk, slab))
    }

    fn is_slab_outdated(&self, space: u32, chunk: u32, slab: usize) -> bool {
        self.row(space, chunk).is_some_and(|row| row.slabs.get(slab).is_some_and(SlabPlace::outdated))
    }

    /// Writes down that an outdated slab missed no other writes than those that the others of its row have marked by
    /// now.
    pub async fn end_outdated(&self, space: u32, chunk: u32, slab: usize) -> Result<(), PoolError> {
        if self.is_slab_outdated(space, chunk, slab) {
            self.commit(vec![Change::Outdated { space, chunk, slab: slab as u16, outdated: false }], Guard::None)
                .await?;
        }
        Ok(())
    }

    /// Writes down that a row is about to be written to: its slabs in step have their headers and maps.
    pub async fn begin_row(&self, space: u32, chunk: u32) -> Result<(), PoolError> {
        if self.row(space, chunk).is_some_and(|row| !row.begun) {
            self.commit(vec![Change::RowBegun { space, chunk }], Guard::None).await?;
        }
        Ok(())
    }

    /// Sees to it that every disk in service has a record in its log that is younger than `since`. So a disk that is
    /// set back to what it was before then is recognised by its log; where all of them were, by the witness.
    pub async fn stamp(&self, since: Duration) -> Result<(), PoolError> {
        if *self.recorded.lock().expect("no panic while held") > since {
            return Ok(());
        }
        let counters = self.state().config.counters();
        self.commit(vec![counters], Guard::None).await?;
        self.inform_witness().await;
        Ok(())
    }

    /// Whether any row of a space was written to.
    pub fn has_begun_rows(&self, space: u32) -> bool {
        self.state().config.spaces.get(&space).is_some_and(|space| space.rows.values().any(|row| row.begun))
    }

    /// Whether a disk that comes back holds less than it is known to have held.
    pub(crate) async fn is_outdated(&self, known: &DiskRecord, place: &LogPlace, tip: Option<Tip>) -> bool {
        let mut shown = tip.map(|tip| tip.position);
        let promised = promised(place).await;
        let is_old = |shown: Option<Position>| {
            let generation = promised.max(shown.map(|shown| shown.generation));
            generation.is_some() && generation < Some(known.holds.generation)
        };
        let is_enough = |shown: Option<Position>| shown.is_some_and(|shown| shown.sequence >= known.holds.sequence);
        if is_old(shown) || !is_enough(shown) {
            // All of the log is read only where its end does not tell.
            shown = shown.max(place.furthest().await);
        }
        if is_old(shown) {
            return true;
        }
        if is_enough(shown) {
            return false;
        }
        // One that nothing is missed without is copied anew rather than believed.
        let needed = self.state().config.rows_that_need(known.index).next().is_some();
        let damaged = match tip {
            Some(tip) => !place.ends_in_order(&tip).await,
            None => true,
        };
        !(needed && damaged)
    }

    /// Refuses a disk that was set back to an older state where something can be read from nowhere else.
    pub(crate) fn refuse_needed(&self, known: &DiskRecord, path: &str) -> Result<(), PoolError> {
        let state = self.state();
        let mut spaces: Vec<String> = (state.config.rows_that_need(known.index))
            .filter_map(|(space, _)| state.config.spaces.get(&space).map(|space| space.record.name.to_string()))
            .collect();
        spaces.dedup();
        if spaces.is_empty() {
            return Ok(());
        }
        Err(PoolError::damaged(format!(
            "disk {path} holds an older state than it had in pool {}, and what it held of {} is on no other disk: attach the disk as it was last",
            self.name(),
            spaces.join(", ")
        )))
    }
}
