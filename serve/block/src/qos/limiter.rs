//! The limit of one object: two buckets and a queue before them.
//!
//! Invariant: requests begin in the order in which they came. One that is given up while it waits takes nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::select;
use holdfast_device::Clock;
use tokio::sync::Notify;

use super::bucket::Bucket;
use super::{Cost, Qos};

#[derive(Default)]
struct Buckets {
    ios: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl Buckets {
    /// How long a request has to wait; if not at all, it has taken what it costs.
    fn take(&mut self, now: Duration, cost: Cost) -> Duration {
        let wait = |bucket: &mut Option<Bucket>, cost: u64| {
            bucket.as_mut().map_or(Duration::ZERO, |bucket| bucket.wait(now, cost))
        };
        let longest = wait(&mut self.ios, cost.ios).max(wait(&mut self.bytes, cost.bytes));
        if longest.is_zero() {
            self.ios.iter_mut().for_each(|bucket| bucket.take(cost.ios));
            self.bytes.iter_mut().for_each(|bucket| bucket.take(cost.bytes));
        }
        longest
    }
}

/// The limit.
#[derive(Default)]
pub struct Limiter {
    limited: AtomicBool,
    queue: tokio::sync::Mutex<()>,
    buckets: Mutex<Buckets>,
    changed: Notify,
    throttled: AtomicU64,
    waited_nanos: AtomicU64,
}

impl Limiter {
    fn buckets(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes other settings from now on, also for what waits.
    pub fn set(&self, qos: &Qos, now: Duration) {
        let bucket = |is: Option<Bucket>, max: Option<u64>, burst: Option<u64>| {
            let (max, burst) = (max?, burst.unwrap_or(0));
            Some(is.map_or_else(|| Bucket::new(max, burst, now), |is| is.changed(max, burst, now)))
        };
        {
            let mut buckets = self.buckets();
            buckets.ios = bucket(buckets.ios.take(), qos.max_iops, qos.burst_iops);
            buckets.bytes = bucket(buckets.bytes.take(), qos.max_bytes_per_second, qos.burst_bytes_per_second);
            self.limited.store(buckets.ios.is_some() || buckets.bytes.is_some(), Ordering::Relaxed);
        }
        self.changed.notify_waiters();
    }

    /// Whether a request may begin at once; it has taken what it costs then.
    pub fn try_enter(&self, now: Duration, cost: Cost) -> bool {
        if !self.limited.load(Ordering::Relaxed) {
            return true;
        }
        let Ok(_first_in_line) = self.queue.try_lock() else { return false };
        self.buckets().take(now, cost).is_zero()
    }

    /// Waits until a request may begin.
    pub async fn enter(&self, clock: &dyn Clock, cost: Cost) {
        let came = clock.now();
        let _first_in_line = self.queue.lock().await;
        loop {
            let changed = self.changed.notified();
            let wait = self.buckets().take(clock.now(), cost);
            if wait.is_zero() {
                break;
            }
            select(std::pin::pin!(changed), clock.sleep(wait)).await;
        }
        self.throttled.fetch_add(1, Ordering::Relaxed);
        let waited = clock.now().saturating_sub(came).as_nanos() as u64;
        self.waited_nanos.fetch_add(waited, Ordering::Relaxed);
    }

    /// Requests that waited, and for how long together.
    pub fn throttled(&self) -> (u64, Duration) {
        (self.throttled.load(Ordering::Relaxed), Duration::from_nanos(self.waited_nanos.load(Ordering::Relaxed)))
    }
}
