//! Logins that fail are slowed down: by account and address together, by address, and by account.
//!
//! ```text
//!   who                  fails freely   then waits
//!   account + address    5 times        1 s, doubled up to a minute
//!   address              20 times       1 s, doubled up to a minute, but not accounts that logged in there before
//!   account              50 times       1 s, doubled up to two, but not at addresses where it logged in before
//! ```
//!
//! Invariants: nobody is locked out for good, since every wait ends; a try is counted before its password is looked at,
//! so that tries at once count each; the table is bounded, and the entry that failed longest ago makes way.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const ENTRIES: usize = 8192;
const KNOWN: usize = 1024;
/// How long a failure is remembered.
const MEMORY_MS: i64 = 15 * 60 * 1000;

/// How logins that fail are slowed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleSettings {
    /// The longest wait.
    pub longest_wait: Duration,
}

impl Default for ThrottleSettings {
    fn default() -> Self {
        Self { longest_wait: Duration::from_secs(60) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Pair(String, IpAddr),
    Address(IpAddr),
    Account(String),
}

impl Key {
    fn free(&self) -> u32 {
        match self {
            Self::Pair(..) => 5,
            Self::Address(_) => 20,
            Self::Account(_) => 50,
        }
    }

    fn longest_ms(&self, settings: ThrottleSettings) -> i64 {
        let longest = settings.longest_wait.as_millis() as i64;
        if matches!(self, Self::Account(_)) { longest.min(2000) } else { longest }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    failures: u32,
    last_ms: i64,
    until_ms: i64,
}

#[derive(Default)]
struct Tries {
    entries: HashMap<Key, Entry>,
    known: VecDeque<(String, IpAddr)>,
}

pub(crate) struct Throttle {
    settings: ThrottleSettings,
    tries: Mutex<Tries>,
}

impl Throttle {
    pub(crate) fn new(settings: ThrottleSettings) -> Self {
        Self { settings, tries: Mutex::default() }
    }

    fn keys(tries: &Tries, account: &str, address: IpAddr) -> Vec<Key> {
        let mut keys = vec![Key::Pair(account.into(), address)];
        if !tries.known.iter().any(|(name, from)| name == account && *from == address) {
            keys.extend([Key::Address(address), Key::Account(account.into())]);
        }
        keys
    }

    /// Counts a try; refused, it tells how long to wait.
    pub(crate) fn begin(&self, account: &str, address: IpAddr, now_ms: i64) -> Result<(), Duration> {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = Self::keys(&tries, account, address);
        let mut wait = 0;
        for key in &keys {
            let Some(entry) = tries.entries.get_mut(key) else { continue };
            // A clock that was set back lengthens no wait.
            if now_ms < entry.last_ms {
                (entry.until_ms, entry.last_ms) = (entry.until_ms - (entry.last_ms - now_ms), now_ms);
            }
            wait = wait.max((entry.until_ms - now_ms).min(key.longest_ms(self.settings)));
        }
        if wait > 0 {
            return Err(Duration::from_millis(wait as u64));
        }
        for key in keys {
            make_room(&mut tries.entries, now_ms);
            let (free, longest) = (key.free(), key.longest_ms(self.settings));
            let entry = tries.entries.entry(key).or_insert(Entry { failures: 0, last_ms: now_ms, until_ms: now_ms });
            if now_ms - entry.last_ms > MEMORY_MS {
                entry.failures = 0;
            }
            entry.failures = entry.failures.saturating_add(1);
            entry.last_ms = now_ms;
            let beyond = entry.failures.saturating_sub(free);
            entry.until_ms = now_ms + if beyond == 0 { 0 } else { (1000 << (beyond - 1).min(20)).min(longest) };
        }
        Ok(())
    }

    /// Takes a try back: its password was right, or was never looked at.
    pub(crate) fn took_back(&self, account: &str, address: IpAddr) {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        for key in Self::keys(&tries, account, address) {
            if let Some(entry) = tries.entries.get_mut(&key) {
                entry.failures = entry.failures.saturating_sub(1);
                entry.until_ms = entry.last_ms;
            }
        }
    }

    /// The password was right.
    pub(crate) fn succeeded(&self, account: &str, address: IpAddr) {
        self.took_back(account, address);
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        tries.entries.remove(&Key::Pair(account.into(), address));
        tries.known.retain(|(name, from)| name != account || *from != address);
        tries.known.push_back((account.into(), address));
        if tries.known.len() > KNOWN {
            tries.known.pop_front();
        }
    }
}

/// Drops what is forgotten, and if that does not do, an eighth that failed longest ago.
fn make_room(entries: &mut HashMap<Key, Entry>, now_ms: i64) {
    if entries.len() < ENTRIES {
        return;
    }
    entries.retain(|_, entry| now_ms - entry.last_ms <= MEMORY_MS);
    if entries.len() >= ENTRIES {
        let mut times: Vec<i64> = entries.values().map(|entry| entry.last_ms).collect();
        let (_, oldest, _) = times.select_nth_unstable(ENTRIES / 8);
        let (oldest, mut left) = (*oldest, ENTRIES / 8);
        entries.retain(|_, entry| {
            let goes = left > 0 && entry.last_ms <= oldest;
            left -= usize::from(goes);
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn far(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn waits_grow_to_a_minute_and_end() {
        let throttle = Throttle::new(ThrottleSettings::default());
        let mut now = 0;
        for _ in 0..6 {
            throttle.begin("ann", HERE, now).unwrap();
        }
        let mut waits = Vec::new();
        for _ in 0..8 {
            let wait = throttle.begin("ann", HERE, now).unwrap_err();
            waits.push(wait.as_secs());
            now += wait.as_millis() as i64;
            throttle.begin("ann", HERE, now).unwrap();
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(throttle.begin("ann", HERE, -1 << 40).unwrap_err().as_secs(), 60, "a clock that was set back");
        throttle.begin("ann", HERE, (-1 << 40) + 60_000).expect("the wait is over when it has passed by the new clock");
        throttle.begin("bob", HERE, now).unwrap();
    }

    #[test]
    fn a_neighbour_who_guesses_hinders_nobody_who_logged_in_there_before() {
        let throttle = Throttle::new(ThrottleSettings::default());
        throttle.begin("ann", HERE, 0).unwrap();
        throttle.succeeded("ann", HERE);
        let refused = (0..100).filter(|number| throttle.begin(&format!("x{number}"), HERE, 1).is_err()).count();
        assert!(refused > 70, "{refused}");
        throttle.begin("ann", HERE, 1).unwrap();
        throttle.begin("bob", HERE, 1).unwrap_err();
    }

    #[test]
    fn a_right_password_clears_what_was_counted() {
        let throttle = Throttle::new(ThrottleSettings::default());
        for round in 0..40 {
            throttle.begin("ann", HERE, round).unwrap();
            throttle.succeeded("ann", HERE);
        }
    }

    #[test]
    fn guessing_from_everywhere_hinders_nobody_where_they_logged_in_before() {
        let throttle = Throttle::new(ThrottleSettings::default());
        throttle.begin("ann", HERE, 0).unwrap();
        throttle.succeeded("ann", HERE);
        let refused = (1..1000).filter(|number| throttle.begin("ann", far(*number), 1).is_err()).count();
        assert!(refused > 900, "{refused}");
        throttle.begin("ann", HERE, 1).unwrap();
        let wait = throttle.begin("ann", far(5000), 1).unwrap_err();
        assert!(wait <= Duration::from_secs(2), "{wait:?}");
    }

    #[test]
    fn the_table_is_bounded() {
        let throttle = Throttle::new(ThrottleSettings::default());
        for number in 0..50_000 {
            let _ = throttle.begin(&format!("x{number}"), far(number), i64::from(number));
        }
        assert!(throttle.tries.lock().unwrap().entries.len() <= ENTRIES + 2);
    }
}
