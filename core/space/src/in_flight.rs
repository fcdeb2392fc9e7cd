//! Requests that are under way in a space. A resize waits for those that began before it.
//!
//! Invariant: each request is counted on the side of the epoch that it began in, so that requests that begin later do
//! not prolong the wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use holdfast_device::Clock;

use crate::lock_order::{TaskLock, rank};

const PAUSE: Duration = Duration::from_micros(500);

/// Counts requests under way, so that it can be waited for those that began before some moment.
#[derive(Default)]
pub struct InFlight {
    epoch: AtomicUsize,
    under_way: Arc<[AtomicU64; 2]>,
    /// Held while the size changes.
    pub resizing: TaskLock<{ rank::RESIZING }>,
}

/// A request under way.
pub struct InFlightGuard {
    under_way: Arc<[AtomicU64; 2]>,
    side: usize,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.under_way[self.side].fetch_sub(1, Ordering::SeqCst);
    }
}

impl InFlight {
    /// To be held during a request, from before it looks at the size.
    pub fn enter(&self) -> InFlightGuard {
        loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            let side = epoch % 2;
            self.under_way[side].fetch_add(1, Ordering::SeqCst);
            let in_flight_guard = InFlightGuard { under_way: self.under_way.clone(), side };
            if self.epoch.load(Ordering::SeqCst) == epoch {
                return in_flight_guard;
            }
        }
    }

    /// Waits until all requests that began before now have ended.
    pub async fn earlier_ended(&self, clock: &dyn Clock) {
        let side = self.epoch.fetch_add(1, Ordering::SeqCst) % 2;
        while self.under_way[side].load(Ordering::SeqCst) > 0 {
            clock.sleep(PAUSE).await;
        }
    }
}
