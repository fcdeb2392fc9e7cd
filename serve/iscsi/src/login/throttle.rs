//! Failed logins make the next of the same account from the same address wait.
//!
//! ```text
//!   (account, address) ─▶ failures, when the next may be tried       the wait doubles with each failure
//! ```
//!
//! An attempt takes its turn before it is known to fail, so many at once gain nothing.
//!
//! Invariant: the table is bounded, and no attempt of one pair makes one of another wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Failures that cost nothing: people mistype.
const FREE_FAILURES: u32 = 3;
/// The wait after the next.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// The longest.
const LONGEST_WAIT: Duration = Duration::from_secs(8);
/// Attempts that would wait longer are refused at once.
const PATIENCE: Duration = Duration::from_secs(8);
/// What is not tried for so long is forgotten.
const MEMORY: Duration = Duration::from_secs(600);
/// Pairs that are remembered.
const PAIRS: usize = 4096;
/// Bytes of an account's name that count.
const NAME_BYTES: usize = 255;

/// Who tries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    account: String,
    address: Option<IpAddr>,
}

impl Attempt {
    /// Of an account from an address. Of an IPv6 address only the network counts: a host has all the rest of it.
    pub fn new(account: &str, address: Option<IpAddr>) -> Self {
        let account = account[..account.floor_char_boundary(NAME_BYTES)].to_owned();
        let address = address.map(|address| match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
            address => address,
        });
        Self { account, address }
    }
}

#[derive(Clone, Copy, Default)]
struct Record {
    failures: u32,
    next: Duration,
}

impl Record {
    fn wait(self) -> Duration {
        let Some(doubled) = self.failures.checked_sub(FREE_FAILURES) else { return Duration::ZERO };
        (FIRST_WAIT * (1 << doubled.min(16))).min(LONGEST_WAIT)
    }
}

/// The table.
#[derive(Default)]
pub struct Throttle {
    records: HashMap<Attempt, Record>,
}

impl Throttle {
    /// How long an attempt waits; none if it is refused.
    pub fn begin(&mut self, attempt: &Attempt, now: Duration) -> Option<Duration> {
        let Some(record) = self.records.get_mut(attempt) else { return Some(Duration::ZERO) };
        let start = record.next.max(now);
        let wait = start - now;
        if wait > PATIENCE {
            return None;
        }
        record.next = start + record.wait();
        Some(wait)
    }

    /// An attempt failed.
    pub fn failed(&mut self, attempt: &Attempt, now: Duration) {
        if self.records.len() >= PAIRS && !self.records.contains_key(attempt) {
            self.make_room(now);
        }
        let record = self.records.entry(attempt.clone()).or_default();
        record.failures = record.failures.saturating_add(1);
        record.next = record.next.max(now + record.wait());
    }

    /// An attempt was right.
    pub fn succeeded(&mut self, attempt: &Attempt) {
        self.records.remove(attempt);
    }

    fn make_room(&mut self, now: Duration) {
        self.records.retain(|_, record| record.next + MEMORY > now);
        if self.records.len() < PAIRS {
            return;
        }
        let oldest = self.records.iter().min_by_key(|(_, record)| record.next).map(|(attempt, _)| attempt.clone());
        if let Some(attempt) = oldest {
            self.records.remove(&attempt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Duration = Duration::ZERO;

    fn attempt(account: &str, address: &str) -> Attempt {
        Attempt::new(account, Some(address.parse().unwrap()))
    }

    #[test]
    fn the_wait_grows_and_is_of_one_pair_only() {
        let mut throttle = Throttle::default();
        let anna = attempt("anna", "10.0.0.1");
        let (mut now, mut waits) = (ZERO, Vec::new());
        for _ in 0..12 {
            let wait = throttle.begin(&anna, now).unwrap();
            waits.push(wait);
            now += wait;
            throttle.failed(&anna, now);
        }
        assert_eq!(waits[..3], [ZERO; 3]);
        assert!(waits[4..].windows(2).all(|pair| pair[0] < pair[1] || pair[1] == LONGEST_WAIT), "{waits:?}");
        for other in [attempt("bert", "10.0.0.1"), attempt("anna", "10.0.0.2")] {
            assert_eq!(throttle.begin(&other, now), Some(ZERO));
        }
        throttle.succeeded(&attempt("bert", "10.0.0.1"));
        assert!(throttle.begin(&anna, now).is_some_and(|wait| wait > ZERO));
        throttle.succeeded(&anna);
        assert_eq!(throttle.begin(&anna, now), Some(ZERO));
    }

    #[test]
    fn many_at_once_gain_nothing() {
        let mut throttle = Throttle::default();
        let anna = attempt("anna", "10.0.0.1");
        (0..6).for_each(|_| throttle.failed(&anna, ZERO));
        let waits: Vec<_> = (0..20).filter_map(|_| throttle.begin(&anna, ZERO)).collect();
        assert!(waits.len() < 8 && waits.windows(2).all(|pair| pair[0] < pair[1]), "{waits:?}");
    }

    #[test]
    fn the_table_is_bounded_and_a_network_is_one_address() {
        let mut throttle = Throttle::default();
        for number in 0..3 * PAIRS {
            throttle.failed(&attempt(&number.to_string(), "10.0.0.1"), ZERO);
        }
        assert!(throttle.records.len() <= PAIRS);
        assert_eq!(attempt("a", "2001:db8::1"), attempt("a", "2001:db8::ffff:1"));
        assert_ne!(attempt("a", "2001:db8::1"), attempt("a", "2001:db8:0:1::1"));
        assert_eq!(attempt("a", "::ffff:10.0.0.1"), attempt("a", "10.0.0.1"));
    }
}
