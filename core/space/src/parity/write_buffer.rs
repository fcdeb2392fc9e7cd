//! What waits to be destaged, over all rows of a parity space: how much memory it takes, and in which order its bands
//! are served.
//!
//! A write is answered when it is in memory: like the cache of a disk, that is lost with the power until it is flushed.
//! A band that was written throughout goes to its place at once; all others wait for more, and are destaged, oldest
//! first, where memory or journal get scarce, and by maintenance.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::lock_order::{Lock, Locked, rank};
use crate::row::Row;

use super::bands::BandState;
use super::dirty::Extent;

/// Bands that are destaged together, at most.
pub(super) const BATCH_BANDS: usize = 64;

/// What waits to be destaged.
#[derive(Default)]
pub struct WriteBuffer {
    /// Memory that it takes, over all rows: writers wait where that is too much.
    bytes: AtomicUsize,
    /// The stamp of the last write: the order of all writes to the space, which the journal keeps.
    stamp: AtomicU64,
    /// Bands that wait, the oldest first.
    line: Lock<{ rank::LISTS }, VecDeque<(Arc<Row>, u32)>>,
    /// Bands that wait in the journal alone.
    spilled: Lock<{ rank::LISTS }, Vec<(Arc<Row>, u32)>>,
}

impl WriteBuffer {
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

    pub(super) fn line(&self) -> Locked<'_, { rank::LISTS }, VecDeque<(Arc<Row>, u32)>> {
        self.line.lock()
    }

    /// Takes bands from the front of the line.
    pub(super) fn take_first(&self) -> Vec<(Arc<Row>, u32)> {
        let mut line = self.line();
        let count = line.len().min(BATCH_BANDS);
        line.drain(..count).collect()
    }

    pub(super) fn spilled(&self) -> Locked<'_, { rank::LISTS }, Vec<(Arc<Row>, u32)>> {
        self.spilled.lock()
    }

    /// Puts an extent into a band, and the band into the line if it does not wait there. Answers how many blocks of it
    /// wait.
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
