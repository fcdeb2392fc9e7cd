//! What waits is destaged in the background, by helpers on other cores than the one that writes: a write that comes
//! finds room, and the core that took it goes on with the next one meanwhile.
//!
//! ```text
//!   enter ── three quarters of the write_buffer, or a whole band ──▶ ring ──▶ a helper destages until half of it is left
//!     └───── all of the write_buffer ──▶ the writer does it, or waits for who is at it
//! ```
//!
//! Invariant: nothing depends on helpers. What they leave undone, or fail at, is done by writes and flushes, which
//! report what fails then, and by maintenance.

use std::sync::atomic::Ordering;

use holdfast_device::IoError;
use holdfast_device::reactor::yield_now;

use crate::lock_order::join_all;

use super::helpers::WHOLE_AT_ONCE;
use super::store::ParityStore;

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

    /// Destages the bands that were written throughout by now.
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

    /// Destages those that wait longest of the bands that were written throughout; false if there are none.
    pub async fn place_some_whole(&self) -> Result<bool, IoError> {
        let taken = self.helpers.next_whole();
        let placed = join_all(taken.iter().map(|(row, band)| self.place_if_whole(row, *band))).await;
        placed.into_iter().collect::<Result<(), _>>().map(|()| !taken.is_empty())
    }
}
