//! Helpers of a parity store: tasks on the reactors that serve it, which destage in the background, and the bands left
//! to them.
//!
//! Invariant: a helper that is at work looks again before it rests, so who finds one at work need not ring.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use holdfast_device::reactor;
use tokio::sync::Notify;

use crate::lock_order::{Lock, Locked, TaskLock, rank};
use crate::row::Row;

use super::dirty::Dirty;

/// Bands that were written throughout and are destaged together, at most.
pub(super) const WHOLE_AT_ONCE: usize = 8;

/// Who destages in the background, and the bands that were written throughout and wait for that.
#[derive(Default)]
pub struct Helpers {
    all: Lock<{ rank::LISTS }, Vec<Arc<Helper>>>,
    /// Set when they are to end.
    closed: AtomicBool,
    /// One is at work, and looks again before it rests.
    pub(super) working: AtomicBool,
    /// Who is rung next.
    next: AtomicUsize,
    whole: Lock<{ rank::LISTS }, VecDeque<(Arc<Row>, u32)>>,
    /// Held by the one at work: while it is held no helper touches a disk.
    pub busy: TaskLock<{ rank::HELPING }>,
}

/// A task that destages in the background.
pub(super) struct Helper {
    /// The reactor that runs it.
    reactor: Option<u64>,
    /// Rung when there is work, and at the end.
    pub(super) bell: Notify,
}

/// A helper's presence.
pub(super) struct Present<'a> {
    helpers: &'a Helpers,
    /// The helper.
    pub(super) helper: Arc<Helper>,
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.helpers.all().retain(|other| !Arc::ptr_eq(other, &self.helper));
        // It may have been rung, or be at work.
        self.helpers.working.store(false, Ordering::Release);
    }
}

impl Helpers {
    fn all(&self) -> Locked<'_, { rank::LISTS }, Vec<Arc<Helper>>> {
        self.all.lock()
    }

    /// Bands that were written throughout and wait for a helper.
    pub(super) fn whole(&self) -> Locked<'_, { rank::LISTS }, VecDeque<(Arc<Row>, u32)>> {
        self.whole.lock()
    }

    /// Enters this task as a helper.
    pub(super) fn join(&self) -> Present<'_> {
        let helper = Arc::new(Helper { reactor: reactor::current(), bell: Notify::new() });
        self.all().push(helper.clone());
        Present { helpers: self, helper }
    }

    /// Calls a helper, of another reactor if there is one.
    pub(super) fn ring(&self) {
        if self.working.load(Ordering::Acquire) {
            return;
        }
        let all = self.all();
        if all.is_empty() || self.working.swap(true, Ordering::AcqRel) {
            return;
        }
        let (here, first) = (reactor::current(), self.next.fetch_add(1, Ordering::Relaxed));
        let turn = |at: usize| &all[(first + at) % all.len()];
        let other = (0..all.len()).map(turn).find(|helper| helper.reactor != here);
        other.unwrap_or(turn(0)).bell.notify_one();
    }

    /// Whether helpers are to end.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The space is closed: none of them goes on after what it does now.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.all().iter().for_each(|helper| helper.bell.notify_one());
    }

    /// Leaves a band that was written throughout to a helper, who is to be rung; false where there is none.
    pub fn take_over(&self, row: &Arc<Row>, band: u32) -> bool {
        if self.all().is_empty() {
            return false;
        }
        let handed = |dirty: &mut Dirty| std::mem::replace(&mut dirty.handed, true);
        if !row.bands().lock().dirty.get_mut(&band).is_none_or(handed) {
            self.whole().push_back((row.clone(), band));
        }
        true
    }

    /// Takes the whole bands that wait longest.
    pub(super) fn next_whole(&self) -> Vec<(Arc<Row>, u32)> {
        let taken: Vec<(Arc<Row>, u32)> = {
            let mut whole = self.whole();
            let count = whole.len().min(WHOLE_AT_ONCE);
            whole.drain(..count).collect()
        };
        for (row, band) in &taken {
            if let Some(dirty) = row.bands().lock().dirty.get_mut(band) {
                dirty.handed = false;
            }
        }
        taken
    }
}
