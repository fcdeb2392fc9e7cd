//! Connections without a login, by where they come from.
//!
//! ```text
//!   192.0.2.7   ▮▮▮▮▮▮▮▮▮   the oldest of these leaves first
//!   192.0.2.9   ▮
//! ```
//!
//! Invariant: whoever leaves to make room is the oldest one of the source that has most of them, so that a source takes
//! room from no other that has less.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use holdfast_device::reactor::net::Peer;

/// So many of one source that have been there for a while are told.
const MANY: usize = 32;
/// A login takes no longer, unless something is wrong.
const A_WHILE: Duration = Duration::from_secs(2);
/// How long a source is told after it last had many, as who is silent is dropped and comes again.
const TOLD_FOR: Duration = Duration::from_secs(60);

/// Where connections come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An address; of IPv6 a network, whose owner chooses from all its addresses.
    Address(IpAddr),
    /// A user of this machine, over a unix socket.
    User(u32),
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(six) => IpAddr::V6((u128::from(six) & !u128::from(u64::MAX)).into()),
            four => four,
        })
    }
}

impl From<&Peer> for Source {
    fn from(peer: &Peer) -> Self {
        match peer {
            Peer::Unix { uid, .. } => Self::User(*uid),
            Peer::Tcp(address) => address.ip().into(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address @ IpAddr::V6(_)) => write!(f, "{address}/64"),
            Self::Address(address) => address.fmt(f),
            Self::User(uid) => write!(f, "user {uid} of this server"),
        }
    }
}

/// A source with many connections without a login, as administrators are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// Where they come from.
    pub source: Source,
    /// How many there are, or were a moment ago.
    pub connections: usize,
    /// How many were dropped since it is told, to make room for others.
    pub dropped: u64,
}

struct Guests<L> {
    /// By number, which rises with time: since when each is there, and how it is told to leave.
    by_number: BTreeMap<u64, (Instant, L)>,
    dropped: u64,
    /// How many were dropped when somebody looked last.
    seen_dropped: u64,
    /// How many there were when it was last too many, and when that was.
    crowd: Option<(usize, Instant)>,
}

/// All of them; `L` is how one is told to leave.
pub struct Waiting<L> {
    next: u64,
    count: usize,
    dropped: u64,
    by_source: BTreeMap<Source, Guests<L>>,
}

impl<L> Default for Waiting<L> {
    fn default() -> Self {
        Self { next: 0, count: 0, dropped: 0, by_source: BTreeMap::new() }
    }
}

impl<L> Waiting<L> {
    /// Adds one, and says its number.
    pub fn enter(&mut self, source: Source, now: Instant, leave: L) -> u64 {
        let number = self.next;
        self.next += 1;
        self.count += 1;
        let none = || Guests { by_number: BTreeMap::new(), dropped: 0, seen_dropped: 0, crowd: None };
        self.by_source.entry(source).or_insert_with(none).by_number.insert(number, (now, leave));
        number
    }

    /// Takes one off that logged in or left. False if it is off already.
    pub fn leave(&mut self, source: Source, number: u64) -> bool {
        let Some(guests) = self.by_source.get_mut(&source) else { return false };
        let was = guests.by_number.remove(&number).is_some();
        self.count -= usize::from(was);
        if guests.by_number.is_empty() && guests.crowd.is_none() {
            self.by_source.remove(&source);
        }
        was
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many of a source there are.
    pub fn of(&self, source: Source) -> usize {
        self.by_source.get(&source).map_or(0, |guests| guests.by_number.len())
    }

    /// How many were taken off to make room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes off the oldest one of a source, to be told to leave.
    pub fn drop_oldest_of(&mut self, source: Source) -> Option<L> {
        let guests = self.by_source.get_mut(&source)?;
        let (_, (_, leave)) = guests.by_number.pop_first()?;
        guests.dropped += 1;
        self.count -= 1;
        self.dropped += 1;
        Some(leave)
    }

    /// Takes off the oldest one of the source that has most, to be told to leave; of several such sources, of the one
    /// whose oldest came first.
    pub fn drop_one(&mut self) -> Option<L> {
        let most = self.by_source.iter().max_by_key(|(_, guests)| {
            let oldest = guests.by_number.first_key_value().map(|(number, _)| *number);
            (guests.by_number.len(), Reverse(oldest))
        });
        let source = *most?.0;
        self.drop_oldest_of(source)
    }

    /// The sources that have many, or had a moment ago.
    pub fn crowds(&mut self, now: Instant) -> Vec<Crowd> {
        let mut crowds = Vec::new();
        self.by_source.retain(|source, guests| {
            let silent = |(since, _): &&(Instant, L)| now.saturating_duration_since(*since) >= A_WHILE;
            let count = guests.by_number.values().filter(silent).count();
            let dropped = guests.dropped > guests.seen_dropped;
            guests.seen_dropped = guests.dropped;
            if count >= MANY || dropped {
                guests.crowd = Some((guests.by_number.len(), now));
            }
            match guests.crowd {
                Some((_, at)) if now.saturating_duration_since(at) >= TOLD_FOR => {
                    (guests.crowd, guests.dropped, guests.seen_dropped) = (None, 0, 0);
                }
                Some((connections, _)) => {
                    crowds.push(Crowd { source: *source, connections, dropped: guests.dropped });
                }
                None => {}
            }
            !guests.by_number.is_empty() || guests.crowd.is_some()
        });
        crowds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn the_oldest_of_the_source_with_most_leaves() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        let (few, many) = (source("192.0.2.1"), source("192.0.2.2"));
        waiting.enter(few, now, "few");
        let numbers = ["first", "second", "third"].map(|leave| waiting.enter(many, now, leave));
        assert_eq!((waiting.len(), waiting.of(few), waiting.of(many)), (4, 1, 3));
        assert!(waiting.leave(many, numbers[1]) && !waiting.leave(many, numbers[1]));
        assert_eq!([waiting.drop_one(), waiting.drop_oldest_of(few)], [Some("first"), Some("few")]);
        assert!(!waiting.leave(many, numbers[0]), "it was told to leave");
        assert_eq!((waiting.drop_one(), waiting.drop_one(), waiting.dropped()), (Some("third"), None, 3));
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_source_and_an_address_of_ipv4_is_one_however_it_is_written() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("2001:db8::1").to_string(), "2001:db8::/64");
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
    }

    #[test]
    fn many_are_told_once_they_are_silent_and_for_a_while_after() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        let from = source("192.0.2.1");
        let numbers: Vec<u64> = (0..MANY).map(|_| waiting.enter(from, now, ())).collect();
        assert_eq!(waiting.crowds(now), [], "a host that logs in by many ways at once is none");
        let crowd = Crowd { source: from, connections: MANY, dropped: 0 };
        assert_eq!(waiting.crowds(now + A_WHILE), std::slice::from_ref(&crowd));
        numbers.iter().for_each(|number| assert!(waiting.leave(from, *number)));
        assert_eq!(waiting.crowds(now + TOLD_FOR), [crowd], "it comes again");
        assert_eq!(waiting.crowds(now + A_WHILE + TOLD_FOR), []);
        waiting.enter(from, now, ());
        waiting.drop_one();
        let crowd = Crowd { source: from, connections: 0, dropped: 1 };
        assert_eq!(waiting.crowds(now), [crowd], "one that had to make room");
    }
}
