//! How far a job is, and how fast it goes.
//!
//! ```text
//!   rate = bytes done since the oldest sample / time since then        a sample a second, the last SAMPLES of them
//! ```
//!
//! Invariant: what is done never exceeds the total that is shown with it, where one is known; none is shown where none is.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const SAMPLES: usize = 10;
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Bytes done of a total, and when.
pub(super) struct Progress {
    total_bytes: AtomicU64,
    done_bytes: AtomicU64,
    samples: Mutex<VecDeque<(Duration, u64)>>,
}

impl Progress {
    /// Nothing done of `total_bytes`, which are 0 where nobody knows yet.
    pub(super) fn new(total_bytes: u64) -> Self {
        Self { total_bytes: AtomicU64::new(total_bytes), done_bytes: AtomicU64::new(0), samples: Mutex::default() }
    }

    fn samples(&self) -> MutexGuard<'_, VecDeque<(Duration, u64)>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many bytes are to be done besides those that are, as is known only now.
    pub(super) fn expect(&self, bytes: u64) {
        self.total_bytes.store(self.done_bytes() + bytes, Ordering::Relaxed);
    }

    /// So many bytes were done before, by work that was cut short.
    pub(super) fn skip(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The rate is told from `now` on, and from nothing before.
    pub(super) fn begin(&self, now: Duration) {
        *self.samples() = VecDeque::from([(now, self.done_bytes())]);
    }

    /// So many bytes more are done.
    pub(super) fn add(&self, bytes: u64, now: Duration) {
        let done = self.done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let mut samples = self.samples();
        if samples.back().is_none_or(|last| now.saturating_sub(last.0) >= SAMPLE_EVERY) {
            samples.push_back((now, done));
            let excess = samples.len().saturating_sub(SAMPLES);
            samples.drain(..excess);
        }
    }

    /// Bytes done.
    pub(super) fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that are to be done, 0 as long as nobody knows. What clients added meanwhile may be done as well, and counts
    /// then.
    pub(super) fn total_bytes(&self) -> u64 {
        match self.total_bytes.load(Ordering::Relaxed) {
            0 => 0,
            total => total.max(self.done_bytes()),
        }
    }

    /// Bytes a second, of late.
    pub(super) fn rate(&self, now: Duration) -> u64 {
        let Some((since, before)) = self.samples().front().copied() else { return 0 };
        let elapsed = now.saturating_sub(since).as_secs_f64();
        if elapsed > 0.0 { ((self.done_bytes() - before) as f64 / elapsed) as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_late() {
        let progress = Progress::new(10_000);
        assert_eq!(progress.rate(Duration::from_secs(1)), 0);
        progress.begin(Duration::ZERO);
        for second in 1..=20 {
            progress.add(100, Duration::from_secs(second));
        }
        for second in 21..=40 {
            progress.add(300, Duration::from_secs(second));
        }
        assert_eq!(progress.rate(Duration::from_secs(40)), 300);
        assert_eq!((progress.done_bytes(), progress.total_bytes()), (8000, 10_000));
        progress.add(4000, Duration::from_secs(41));
        assert_eq!((progress.done_bytes(), progress.total_bytes()), (12_000, 12_000));
        assert!(progress.samples().len() <= SAMPLES);
    }

    #[test]
    fn a_total_that_nobody_knows_is_not_what_is_done() {
        let progress = Progress::new(0);
        progress.add(100, Duration::ZERO);
        assert_eq!((progress.done_bytes(), progress.total_bytes()), (100, 0));
        progress.expect(50);
        assert_eq!((progress.done_bytes(), progress.total_bytes()), (100, 150));
    }
}
