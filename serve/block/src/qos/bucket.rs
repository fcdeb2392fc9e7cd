//! A token bucket.
//!
//! ```text
//!   tokens come at the rate ─▶ [ up to the capacity ] ─▶ a request takes as many as it costs
//! ```
//!
//! A request begins when as many tokens are there as it costs, or the bucket is full; it may leave the bucket in debt
//! then.
//!
//! Invariant: in any time, requests take at most rate x time + capacity + what a single one costs.

use std::time::Duration;

/// For so long the rate is saved whatever the burst, so that a request that comes late loses nothing.
const SAVED_SECONDS: f64 = 0.05;

/// The bucket.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: f64,
    capacity: f64,
    tokens: f64,
    at: Duration,
    /// What the one costs that waits: it may be saved beside the capacity, so that it loses nothing by coming late.
    awaited: f64,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(rate: u64, burst: u64, now: Duration) -> Self {
        let rate = rate.max(1) as f64;
        let capacity = (rate * SAVED_SECONDS).max(1.0) + burst as f64;
        Self { rate, capacity, tokens: capacity, at: now, awaited: 0.0 }
    }

    /// With another rate and burst from now on; what was saved stays, as far as there is room.
    pub(super) fn changed(mut self, rate: u64, burst: u64, now: Duration) -> Self {
        self.refill(now);
        let other = Self::new(rate, burst, now);
        Self { tokens: self.tokens.min(other.capacity), ..other }
    }

    fn refill(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        self.tokens = (self.tokens + elapsed * self.rate).min(self.capacity + self.awaited);
        self.at = self.at.max(now);
    }

    /// How long a request of this cost has to wait.
    pub(super) fn wait(&mut self, now: Duration, cost: u64) -> Duration {
        self.refill(now);
        let missing = (cost as f64).min(self.capacity) - self.tokens;
        self.awaited = if missing > 1e-6 { cost as f64 } else { 0.0 };
        // A little more than computed, so that rounding does not make it wait twice.
        if missing > 1e-6 {
            Duration::from_secs_f64(missing / self.rate) + Duration::from_nanos(100)
        } else {
            Duration::ZERO
        }
    }

    /// Takes what a request costs that need not wait.
    pub(super) fn take(&mut self, cost: u64) {
        self.tokens -= cost as f64;
    }

    /// Takes what a request costs, if it need not wait.
    pub(super) fn try_take(&mut self, now: Duration, cost: u64) -> bool {
        let at_once = self.wait(now, cost).is_zero();
        if at_once {
            self.take(cost);
        }
        at_once
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rest_saves_a_burst_and_no_more() {
        let mut bucket = Bucket::new(1000, 500, Duration::ZERO);
        let mut at_once = |at: u64| (0..10_000).take_while(|_| bucket.try_take(Duration::from_secs(at), 1)).count();
        assert_eq!((at_once(0), at_once(0), at_once(100)), (550, 0, 551), "and one that waited");
    }

    #[test]
    fn a_large_request_waits_for_a_full_bucket_and_leaves_a_debt() {
        let mut bucket = Bucket::new(100, 0, Duration::ZERO);
        assert!(bucket.try_take(Duration::ZERO, 1000), "the bucket was full");
        assert_eq!(bucket.wait(Duration::ZERO, 1).as_secs(), 9);
        assert!(bucket.try_take(Duration::from_secs(11), 1000));
    }

    proptest! {
        #[test]
        fn never_more_than_rate_and_capacity(
            rate in 1u64..100_000,
            burst in 0u64..10_000,
            requests in prop::collection::vec((0u64..20_000, 1u64..200), 1..300),
        ) {
            let mut bucket = Bucket::new(rate, burst, Duration::ZERO);
            let capacity = bucket.capacity;
            let (mut now, mut taken) = (Duration::ZERO, Vec::new());
            for (pause, cost) in requests {
                now += Duration::from_micros(pause);
                let wait = bucket.wait(now, cost);
                now += wait;
                prop_assert!(bucket.try_take(now, cost), "it need not wait twice");
                taken.push((now, cost));
            }
            for (first, (from, _)) in taken.iter().enumerate() {
                let mut sum = 0;
                for (until, cost) in &taken[first..] {
                    sum += cost;
                    let most = rate as f64 * (*until - *from).as_secs_f64() + capacity + 200.0 + 1.0;
                    prop_assert!(sum as f64 <= most, "{sum} of {most}");
                }
            }
        }

        #[test]
        fn whoever_always_waits_gets_the_whole_rate(rate in 1u64..100_000, cost in 1u64..100, late in 0u64..10_000) {
            let mut bucket = Bucket::new(rate, 0, Duration::ZERO);
            let (mut now, mut sum) = (Duration::ZERO, 0u64);
            while now < Duration::from_secs(100) {
                let wait = bucket.wait(now, cost);
                if !wait.is_zero() {
                    now += wait + Duration::from_micros(late);
                }
                prop_assert!(bucket.try_take(now, cost));
                sum += cost;
            }
            let got = sum as f64 / now.as_secs_f64();
            prop_assert!(got >= rate as f64 * 0.97 - 1.0, "{got} of {rate}");
        }
    }
}
