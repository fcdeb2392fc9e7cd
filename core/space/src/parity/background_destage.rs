//! What waits is destaged in the background, by helpers on other cores than the one that writes: a write that comes
//! finds room, and the core that took it goes on with the next one meanwhile.
//!
//! ```text
//!   enter ── three quarters of the write_buffer, or a whole band ──▶ ring ──▶ a helper destages until half of it is left
//!     └───── all of the write_buffer ──▶ whoever writes does it, or waits for who is at it
//! ```
//!
//! Invariant: nothing depends on helpers. What they leave undone, or fail at, is done by those who write or flush, who
//! are told of what fails then, and by maintenance.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use holdfast_device::IoError;
use holdfast_device::reactor::{self, yield_now};
use tokio::sync::Notify;

use crate::lock_order::{Lock, Locked, TaskLock, join_all, rank};
use crate::row::Row;

use super::dirty::Dirty;
use super::store::ParityStore;

/// Bands that were written throughout and are destaged together, at most.
const WHOLE_AT_ONCE: usize = 8;

/// Who destages in the background, and the bands that were written throughout and wait for that.
#[derive(Default)]
pub struct Helpers {
    all: Lock<{ rank::LISTS }, Vec<Arc<Helper>>>,
    /// Set when they are to end.
    closed: AtomicBool,
    /// One is at work, and looks again before it rests.
    working: AtomicBool,
    /// Who is rung next.
    next: AtomicUsize,
    whole: Lock<{ rank::LISTS }, VecDeque<(Arc<Row>, u32)>>,
    /// Held by who is at work: whoever has it knows that no helper touches a disk.
    pub busy: TaskLock<{ rank::HELPING }>,
}

struct Helper {
    /// The reactor that runs it.
    reactor: Option<u64>,
    bell: Notify,
}

/// A helper's presence.
struct Present<'a> {
    helpers: &'a Helpers,
    helper: Arc<Helper>,
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

    fn whole(&self) -> Locked<'_, { rank::LISTS }, VecDeque<(Arc<Row>, u32)>> {
        self.whole.lock()
    }

    fn join(&self) -> Present<'_> {
        let helper = Arc::new(Helper { reactor: reactor::current(), bell: Notify::new() });
        self.all().push(helper.clone());
        Present { helpers: self, helper }
    }

    /// Calls a helper, of another reactor if there is one.
    fn ring(&self) {
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

    fn is_closed(&self) -> bool {
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

    fn next_whole(&self) -> Vec<(Arc<Row>, u32)> {
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

impl ParityStore {
    /// Destages in the background, until the space is closed.
    pub async fn background_destage(&self) {
        let helpers = &self.helpers;
        let present = helpers.join();
        while !helpers.is_closed() {
            present.helper.bell.notified().await;
            loop {
                let done = self.place_half().await;
                helpers.working.store(false, Ordering::Release);
                if let Err(error) = &done {
                    tracing::debug!(space = %self.path(), %error, "written data cannot be destaged yet");
                }
                yield_now().await;
                // Who came meanwhile took it for granted that this one looks again.
                if !matches!(done, Ok(true)) || !self.is_behind() || helpers.working.swap(true, Ordering::AcqRel) {
                    break;
                }
            }
        }
    }

    /// Destages until half of the write_buffer is left; false where nothing more can be done now.
    async fn place_half(&self) -> Result<bool, IoError> {
        let _busy = self.helpers.busy.lock().await;
        while !self.helpers.is_closed() && self.pool.refusal().is_none() {
            if !self.place_some_whole().await? {
                if self.write_buffer.bytes() <= self.limits.write_buffer_bytes / 2 {
                    return Ok(true);
                }
                let _turn = self.placing.lock().await;
                if !self.relieve().await? {
                    return Ok(false);
                }
            }
            yield_now().await;
        }
        Ok(false)
    }

    fn is_behind(&self) -> bool {
        self.write_buffer.bytes() > self.limits.write_buffer_bytes / 4 * 3 || !self.helpers.whole().is_empty()
    }

    /// Calls a helper if much waits.
    pub fn ring_if_behind(&self) {
        if self.is_behind() {
            self.helpers.ring();
        }
    }

    /// Puts the bands in place that were written throughout by now.
    pub async fn place_all_whole(&self) -> Result<(), IoError> {
        let (mut left, mut result) = (self.helpers.whole().len(), Ok(()));
        while left > 0 {
            match self.place_some_whole().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => result = Err(error),
            }
            left = left.saturating_sub(WHOLE_AT_ONCE);
        }
        result
    }

    /// Puts the bands in place that wait longest of those that were written throughout; false if there are none.
    pub async fn place_some_whole(&self) -> Result<bool, IoError> {
        let taken = self.helpers.next_whole();
        let placed = join_all(taken.iter().map(|(row, band)| self.place_if_whole(row, *band))).await;
        placed.into_iter().collect::<Result<(), _>>().map(|()| !taken.is_empty())
    }
}
