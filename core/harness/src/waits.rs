//! Waits of tests for what should happen.
//!
//! Invariant: a wait ends as soon as its condition holds. Its limit says nothing about the product: it only ends a test
//! that waits in vain, and is long enough for a machine whose cores are all busy with other tests.

use std::time::{Duration, Instant};

/// How long a test waits for what should happen.
pub const LIMIT: Duration = Duration::from_secs(180);

/// The time between two looks, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// A wait for something, by whatever sleeps: a thread or a task.
#[derive(Debug)]
pub struct Wait {
    begun: Instant,
    limit: Duration,
    pause: Duration,
}

impl Default for Wait {
    fn default() -> Self {
        Self::new()
    }
}

impl Wait {
    /// Begins a wait of [`LIMIT`].
    pub fn new() -> Self {
        Self::within(LIMIT)
    }

    /// Begins a wait of `limit`.
    pub fn within(limit: Duration) -> Self {
        Self { begun: Instant::now(), limit, pause: PAUSES.0 }
    }

    /// Returns how long to sleep before the next look.
    ///
    /// # Panics
    /// If the limit is over; the message is made by `what`.
    #[track_caller]
    pub fn pause<M: std::fmt::Display>(&mut self, what: impl FnOnce() -> M) -> Duration {
        assert!(self.begun.elapsed() < self.limit, "not so within {} s: {}", self.limit.as_secs(), what());
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSES.1);
        pause
    }
}

/// Waits until `condition` holds.
///
/// # Panics
/// If it does not within [`LIMIT`].
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let mut wait = Wait::new();
    while !condition() {
        std::thread::sleep(wait.pause(|| what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_condition_or_its_limit() {
        let mut looks = 0;
        wait_until("the tenth look", || {
            looks += 1;
            looks == 10
        });
        assert_eq!(looks, 10);
        let mut wait = Wait::within(Duration::ZERO);
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait.pause(|| "nothing comes")));
        let message = *failed.expect_err("the limit is over").downcast::<String>().expect("a text");
        assert_eq!(message, "not so within 0 s: nothing comes");
    }

    #[test]
    fn looks_follow_each_other_quickly_at_first() {
        let mut wait = Wait::new();
        let pauses: Vec<u128> = (0..9).map(|_| wait.pause(|| "").as_millis()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 50, 50, 50]);
    }
}
