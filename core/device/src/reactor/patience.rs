//! When to spin, and when to sleep.
//!
//! Spinning pays where waits are short and the core is free. Both are learnt from the waits that were:
//!
//! ```text
//!   wait ended within the limit       spin more readily
//!   wait was longer                   half as readily; five long waits in a row end the spinning
//!   core was away for the limit       others need the core: sleep in as many waits as spinning must have shortened to make good for
//!                                     that; in twice as many each time, unless good waits lie between
//! ```
//!
//! Invariant: waits that are longer than the limit are slept through, but for a few.

use std::time::Duration;

const LIKELY_STEP: u32 = 4;
const LIKELY_AT_MOST: u32 = 16;
/// What a wait that was spun through saves, about: a thread that need not be woken.
const SAVED: Duration = Duration::from_micros(25);
/// So many short waits in a row are load, not the parts of one request.
const PRESSED: u32 = 16;
const SKIP_AT_MOST: u32 = 8192;
const CAUTION_AT_MOST: u32 = 128;
/// So many waits that were spun through in peace, or as many as the last crowd cost, make the next one count half.
const PEACEFUL: u32 = 64;

pub(crate) struct Patience {
    limit: Duration,
    /// How sure it is that a wait will be short; zero means not at all.
    likely: u32,
    /// Waits within the limit since the last longer one.
    short_in_a_row: u32,
    /// Start of the wait.
    since: Option<Duration>,
    /// Begin of the last spin, or its end; none where the reactor sleeps.
    spun_at: Option<Duration>,
    /// Waits to be slept through because others need the core.
    skip: u32,
    /// How many times over the next crowd counts.
    caution: u32,
    /// Waits to be spun through in peace before it counts less.
    until_calm: u32,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            likely: 0,
            short_in_a_row: 0,
            since: None,
            spun_at: None,
            skip: 0,
            caution: 1,
            until_calm: PEACEFUL,
        }
    }

    /// Whether requests follow each other closely: the last waits were short, all of them.
    pub(crate) fn is_pressed(&self) -> bool {
        self.short_in_a_row >= PRESSED
    }

    /// There is nothing to do at `now`. True: spin once and ask again. False: sleep.
    pub(crate) fn spin(&mut self, now: Duration) -> bool {
        let since = *self.since.get_or_insert(now);
        let spin = self.skip == 0 && self.likely > 0 && now.saturating_sub(since) < self.limit;
        self.spun_at = spin.then_some(now);
        spin
    }

    /// A spin is over at `now`. It takes a microsecond, unless somebody else had the core.
    pub(crate) fn spun(&mut self, now: Duration) {
        let away = self.spun_at.replace(now).map_or(Duration::ZERO, |begun| now.saturating_sub(begun));
        if away > self.limit {
            let lost = (away.as_nanos() / SAVED.as_nanos()).min(u128::from(SKIP_AT_MOST)) as u32;
            self.skip = (lost * self.caution).min(SKIP_AT_MOST);
            self.caution = (self.caution * 2).min(CAUTION_AT_MOST);
            self.until_calm = lost.max(PEACEFUL);
        }
    }

    /// The wait has ended at `now`, or with the last spin: since then the reactor worked on what that found.
    pub(crate) fn end(&mut self, now: Duration) {
        let Some(since) = self.since.take() else { return };
        let spun_at = self.spun_at.take();
        if spun_at.unwrap_or(now).saturating_sub(since) <= self.limit {
            self.likely = (self.likely + LIKELY_STEP).min(LIKELY_AT_MOST);
            self.short_in_a_row = self.short_in_a_row.saturating_add(1);
            if spun_at.is_some() {
                self.note_peace();
            }
        } else {
            self.likely /= 2;
            self.short_in_a_row = 0;
        }
        if spun_at.is_none() {
            self.skip = self.skip.saturating_sub(1);
        }
    }

    fn note_peace(&mut self) {
        self.until_calm -= 1;
        if self.until_calm == 0 {
            self.caution = (self.caution / 2).max(1);
            self.until_calm = PEACEFUL;
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
                    self.patience.spun(self.now);
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
    fn a_core_that_is_seldom_away_is_spun_on() {
        let mut reactor = Reactor::new();
        let mut spun = 0;
        for _ in 0..100 {
            spun += (0..200).filter(|_| reactor.wait(50, 1) > 0).count();
            reactor.wait(50, 300);
        }
        assert!(spun > 18_000, "{spun} of 20,000");
    }

    #[test]
    fn work_on_what_a_spin_found_is_no_crowd() {
        let mut reactor = Reactor::new();
        for _ in 0..10 {
            reactor.wait(50, 1);
        }
        for _ in 0..100 {
            assert!(reactor.patience.spin(reactor.now));
            reactor.now += Duration::from_micros(1);
            reactor.patience.spun(reactor.now);
            reactor.now += Duration::from_millis(1);
            reactor.patience.end(reactor.now);
        }
    }

    #[test]
    fn single_requests_that_come_in_parts_are_no_load() {
        let mut reactor = Reactor::new();
        for _ in 0..50 {
            reactor.wait(50, 1);
        }
        assert!(reactor.patience.is_pressed());
        reactor.wait(1000, 1);
        assert!(!reactor.patience.is_pressed());
        for _ in 0..1000 {
            for _ in 0..4 {
                reactor.wait(50, 1);
            }
            reactor.wait(1000, 1);
            assert!(!reactor.patience.is_pressed());
        }
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
