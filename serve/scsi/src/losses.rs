//! How often answered writes of a unit were lost, and of which of that each nexus knows.
//!
//! ```text
//!   flush of the object that failed ──────────────────────────┐
//!   unit taken out of service with what could not be flushed ─┴▶ count ─▶ a nexus that knows of fewer: its flush fails
//!   nexus ends ─▶ what it knew when a flush of its own was good last ─▶ who follows it: same port, or same initiator
//! ```
//!
//! Invariant: a nexus that follows another knows of no loss of which the other may not have heard. Where there is no room to
//! remember who knew what, who comes then is told once too often, never too rarely.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_block::LossCount;

use crate::ports::NexusId;

/// Nexuses that ended and are remembered, of one unit.
const MOST_ENDED: usize = 256;

/// See the module. It outlives the unit where that is only away.
#[derive(Default)]
pub(crate) struct Losses(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Those of objects of before, and those that no flush told of.
    past: u64,
    /// Those of the object of now, and how many there were of when it came.
    now: Option<(LossCount, u64)>,
    /// Of how many each knew that has ended.
    ended: BTreeMap<NexusId, u64>,
    /// The fewest that anybody knew of who is remembered no more.
    forgotten: Option<u64>,
}

impl Inner {
    fn count(&self) -> u64 {
        self.past + self.now.as_ref().map_or(0, |(count, base)| count.get() - base)
    }
}

impl Losses {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.inner().count()
    }

    /// The unit stands on an object with this count from now on.
    pub(crate) fn follow(&self, object: LossCount) {
        let mut inner = self.inner();
        inner.past = inner.count();
        let base = object.get();
        inner.now = Some((object, base));
    }

    /// There was one of which no flush told.
    pub(crate) fn add(&self) {
        self.inner().past += 1;
    }

    /// A nexus has ended that knew of so many.
    pub(crate) fn ended(&self, nexus: &NexusId, known: u64) {
        let mut inner = self.inner();
        let kept = inner.ended.entry(nexus.clone()).or_insert(known);
        *kept = known.min(*kept);
        if inner.ended.len() > MOST_ENDED {
            // Whoever knows most has least to be told.
            let most = inner.ended.iter().max_by_key(|(_, known)| **known).map(|(nexus, _)| nexus.clone());
            let gone = most.and_then(|nexus| inner.ended.remove(&nexus));
            inner.forgotten = [inner.forgotten, gone].into_iter().flatten().min();
        }
    }

    /// Of how many a nexus knows that begins, where others of its initiator that are here know of these.
    ///
    /// It follows the one of its own ports that ended, else the one of its initiator that knew least: initiators choose
    /// another part of their port's name at each login, or come by another port of ours. One that follows nobody has
    /// written nothing that could be lost.
    pub(crate) fn begins(&self, nexus: &NexusId, here: impl Iterator<Item = u64>) -> u64 {
        let mut inner = self.inner();
        if let Some(known) = inner.ended.remove(nexus) {
            return known;
        }
        let of_same = inner.ended.iter().filter(|(one, _)| one.initiator.name == nexus.initiator.name);
        if let Some(one) = of_same.min_by_key(|(_, known)| **known).map(|(one, _)| one.clone()) {
            return inner.ended.remove(&one).unwrap_or_default();
        }
        let others = here.min().or(inner.forgotten);
        others.unwrap_or(u64::MAX).min(inner.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{InitiatorPort, TargetPort};

    fn nexus(name: &str, isid: u32) -> NexusId {
        let [a, b, c, d] = isid.to_be_bytes();
        let initiator = InitiatorPort { name: name.into(), isid: [0x80, 0, a, b, c, d] };
        NexusId { initiator, target: TargetPort { device: "iqn.2026-01.test:a".into(), relative_id: 1 } }
    }

    fn alone(losses: &Losses, nexus: &NexusId) -> u64 {
        losses.begins(nexus, std::iter::empty())
    }

    #[test]
    fn as_many_follow_as_ended_and_each_by_its_own_port_first() {
        let losses = Losses::default();
        losses.ended(&nexus("a", 1), 0);
        losses.ended(&nexus("a", 2), 0);
        losses.add();
        assert_eq!(alone(&losses, &nexus("b", 1)), 1, "it wrote nothing before");
        assert_eq!(alone(&losses, &nexus("a", 2)), 0);
        assert_eq!(alone(&losses, &nexus("a", 7)), 0, "in place of the other");
        assert_eq!(alone(&losses, &nexus("a", 8)), 1);
        assert_eq!(losses.begins(&nexus("a", 9), [1, 0].into_iter()), 0, "another of it has yet to hear");
        losses.ended(&nexus("a", 7), 1);
        losses.ended(&nexus("a", 7), 0);
        assert_eq!(alone(&losses, &nexus("a", 7)), 0, "of two with one name the one that knew less");
    }

    #[test]
    fn what_is_forgotten_is_told_once_too_often() {
        let losses = Losses::default();
        losses.ended(&nexus("untold", 0), 0);
        losses.add();
        for isid in 0..MOST_ENDED as u32 {
            losses.ended(&nexus("told", isid), 1);
        }
        assert_eq!(losses.inner().ended.len(), MOST_ENDED);
        assert_eq!(alone(&losses, &nexus("new", 1)), 1, "who was forgotten knew as much");
        assert_eq!(alone(&losses, &nexus("untold", 5)), 0);
        for isid in 0..=MOST_ENDED as u32 {
            losses.ended(&nexus("flood", isid), 0);
        }
        assert_eq!(losses.inner().ended.len(), MOST_ENDED);
        losses.add();
        assert_eq!(alone(&losses, &nexus("new", 1)), 0);
    }
}
