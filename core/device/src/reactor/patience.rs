//! When to spin, and when to sleep.
//!
//! Spinning pays where waits are short and the core is free. Both are learnt from the waits that were:
//!
//! ```text
//!   wait ended within the limit       spin more readily
//!   wait was longer                   half as readily; five long waits in a row end the spinning
//!   core was away for the limit       others need the core: sleep in the next waits, in twice as many each time
//! ```
//!
//! Invariant: waits that are longer than the limit are slept through, but for a few.

use std::time::Duration;

const LIKELY_STEP: u32 = 4;
const LIKELY_AT_MOST: u32 = 16;
const SKIP_AT_LEAST: u32 = 64;
const SKIP_AT_MOST: u32 = 8192;

pub(crate) struct Patience {
    limit: Duration,
    /// How sure it is that a wait will be short; zero means not at all.
    likely: u32,
    /// Start of the wait.
    since: Option<Duration>,
    /// The last turn that span.
    span_at: Option<Duration>,
    /// Waits to be slept through because others need the core.
    skip: u32,
    next_skip: u32,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, likely: 0, since: None, span_at: None, skip: 0, next_skip: SKIP_AT_LEAST }
    }

    /// Whether a wait is on.
    pub(crate) fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// There is nothing to do at `now`. True: spin once and ask again. False: sleep.
    pub(crate) fn spin(&mut self, now: Duration) -> bool {
        let since = *self.since.get_or_insert(now);
        self.note_crowd(now);
        let spin = self.skip == 0 && self.likely > 0 && now.saturating_sub(since) < self.limit;
        self.span_at = spin.then_some(now);
        spin
    }

    /// The wait has ended at `now`.
    pub(crate) fn end(&mut self, now: Duration) {
        let Some(since) = self.since.take() else { return };
        self.note_crowd(now);
        if now.saturating_sub(since) <= self.limit {
            self.likely = (self.likely + LIKELY_STEP).min(LIKELY_AT_MOST);
            if self.span_at.is_some() {
                self.next_skip = (self.next_skip - 1).max(SKIP_AT_LEAST);
            }
        } else {
            self.likely /= 2;
        }
        if self.span_at.take().is_none() {
            self.skip = self.skip.saturating_sub(1);
        }
    }

    /// A spin takes a microsecond, unless somebody else had the core.
    fn note_crowd(&mut self, now: Duration) {
        if self.span_at.is_some_and(|span_at| now.saturating_sub(span_at) > self.limit) {
            self.span_at = None;
            self.skip = self.next_skip + 1;
            self.next_skip = (self.next_skip * 2).min(SKIP_AT_MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(100);

    /// Waits of a reactor whose turns take one microsecond.
    struct Reactor {
        patience: Patience,
        now: Duration,
    }

    impl Reactor {
        fn new() -> Self {
            Self { patience: Patience::new(LIMIT), now: Duration::from_secs(1) }
        }

        /// A wait of `micros`, of which those that were spun through are counted. Each spin is away for `away` in all.
        fn wait(&mut self, micros: u64, away: u64) -> u32 {
            let end = self.now + Duration::from_micros(micros);
            let mut spins = 0;
            while self.now < end {
                if self.patience.spin(self.now) {
                    spins += 1;
                    self.now += Duration::from_micros(away);
                } else {
                    self.now = end;
                }
            }
            self.patience.end(self.now);
            spins
        }
    }

    #[test]
    fn spinning_begins_with_a_short_wait_and_ends_with_long_ones() {
        let mut reactor = Reactor::new();
        assert_eq!(reactor.wait(50, 1), 0);
        for _ in 0..10 {
            assert_eq!(reactor.wait(50, 1), 50);
        }
        let spins: u32 = (0..100).map(|_| reactor.wait(5000, 1)).sum();
        assert_eq!(spins, 5 * 100);
        assert_eq!(reactor.wait(50, 1), 0);
        assert_eq!(reactor.wait(50, 1), 50);
    }

    #[test]
    fn a_crowded_core_is_left_to_others() {
        let mut reactor = Reactor::new();
        let spins: u32 = (0..10_000).map(|_| reactor.wait(50, 3000)).sum();
        assert!((3..20).contains(&spins), "{spins}");
        let waits_until_it_spins_again = (0..20_000).take_while(|_| reactor.wait(50, 1) == 0).count();
        assert!(waits_until_it_spins_again < 8200, "{waits_until_it_spins_again}");
    }

    #[test]
    fn no_limit_means_no_spin() {
        let mut patience = Patience::new(Duration::ZERO);
        for micros in 0..100 {
            assert!(!patience.spin(Duration::from_micros(micros)));
            patience.end(Duration::from_micros(micros));
        }
    }
}
