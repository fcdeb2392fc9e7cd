//! The byte-range locks of one file: NT's, POSIX' and `flock`'s in one list.
//!
//! ```text
//!   NT       by open, mandatory, each lock by itself, unlocked as it was locked        (MS-FSA 2.1.5.8, 2.1.5.9)
//!   POSIX    by owner (OFD: by open), advisory, one state a byte: merged and split     (fcntl(2))
//!   flock    by open, the whole file, no matter to POSIX' locks                        (flock(2))
//! ```
//!
//! NT's locks and all others are in each other's way; what is advisory among POSIX programs binds requests of NT.
//!
//! Invariant: a range is in the tree of its mode if and only if it is in its holder's list, empty ranges at 0 apart,
//! which meet nothing; no two locks with bytes are held that are in each other's way. (Ranges of POSIX that become one may
//! have an empty one of NT between them.)

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use smallvec::SmallVec;

use crate::deadlock::{Blockers, MAX_BLOCKERS};
use crate::error::Limit;
use crate::holders::Holders;
use crate::intervals::Intervals;
use crate::key::{OpenId, Owner};
use crate::queue::WaitingLock;
use crate::range::ByteRange;
use crate::settings::{Budget, Settings};

/// Whose rules a lock keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKind {
    /// Mandatory, of an open.
    Nt,
    /// `F_SETLK`: of a process.
    Posix,
    /// `F_OFD_SETLK`: of an open.
    Ofd,
    /// `flock`: of an open.
    Flock,
}

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockOwner {
    /// An open.
    Open(OpenId),
    /// An owner of POSIX.
    Posix(Owner),
}

/// A holder with the kind of its locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    pub kind: LockKind,
    pub owner: LockOwner,
}

impl Holder {
    pub fn posix(self) -> Option<Owner> {
        match self.owner {
            LockOwner::Posix(owner) => Some(owner),
            LockOwner::Open(_) => None,
        }
    }
}

/// A lock that is held, for people and for `F_GETLK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// Its kind.
    pub kind: LockKind,
    /// Its holder.
    pub owner: LockOwner,
    /// What it locks.
    pub range: ByteRange,
    /// Whether it excludes readers too.
    pub exclusive: bool,
    /// When it was taken; of merged ones the first.
    pub since: Duration,
}

/// One range in its holder's list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub range: ByteRange,
    pub exclusive: bool,
    pub id: u64,
    pub since: Duration,
}

/// A lock that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub holder: Holder,
    pub range: ByteRange,
    pub exclusive: bool,
}

/// All locks of a file, and those that wait.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    exclusive: Intervals<Holder>,
    shared: Intervals<Holder>,
    held: Holders,
    flocks: BTreeMap<OpenId, (bool, Duration)>,
    next: u64,
    count: usize,
    pub queue: VecDeque<WaitingLock>,
}

impl Locks {
    /// Locks that are held.
    pub fn count(&self) -> usize {
        self.count
    }

    pub fn is_unused(&self) -> bool {
        self.count == 0 && self.queue.is_empty()
    }

    fn tree(&mut self, exclusive: bool) -> &mut Intervals<Holder> {
        if exclusive { &mut self.exclusive } else { &mut self.shared }
    }

    fn info(&self, found: Option<(ByteRange, u64, Holder)>) -> Option<LockInfo> {
        let (range, id, holder) = found?;
        let held = self
            .held
            .get(&holder)
            .and_then(|list| list.iter().find(|held| held.id == id))
            .expect("what is in a tree is held");
        Some(LockInfo { kind: holder.kind, owner: holder.owner, range, exclusive: held.exclusive, since: held.since })
    }

    /// A lock of the whole file by another open, exclusive ones only or any.
    fn other_flock(&self, open: LockOwner, any: bool) -> Option<LockInfo> {
        let other = |entry: &(&OpenId, &(bool, Duration))| LockOwner::Open(*entry.0) != open && (any || entry.1.0);
        let (id, (exclusive, since)) = self.flocks.iter().find(other)?;
        Some(LockInfo {
            kind: LockKind::Flock,
            owner: LockOwner::Open(*id),
            range: ByteRange::WHOLE,
            exclusive: *exclusive,
            since: *since,
        })
    }

    /// A lock that is in the way of this one.
    pub fn conflict(&self, wanted: &Wanted) -> Option<LockInfo> {
        let Wanted { holder, range, exclusive } = *wanted;
        if holder.kind == LockKind::Flock {
            let of_nt = |one: &Holder| one.kind == LockKind::Nt;
            return self
                .other_flock(holder.owner, exclusive)
                .or_else(|| self.info(self.exclusive.find_any(of_nt)))
                .or_else(|| self.info(self.shared.find_any(|one| exclusive && of_nt(one))));
        }
        // NT: an exclusive lock meets no other, a shared one may lie over its open's exclusive one.
        let own_is_in_the_way = holder.kind == LockKind::Nt && exclusive;
        let mut in_the_way = |one: &Holder| *one != holder || own_is_in_the_way;
        let mut found = self.info(self.exclusive.find(range, &mut in_the_way));
        if found.is_none() && exclusive {
            found = self.info(self.shared.find(range, &mut in_the_way));
        }
        if found.is_none() && holder.kind == LockKind::Nt && !range.is_nowhere() {
            found = self.other_flock(holder.owner, exclusive);
        }
        found
    }

    /// The owners of POSIX locks that are in the way of this one.
    pub fn blockers(&self, wanted: &Wanted) -> Blockers {
        let mut blockers = Blockers::new();
        let mut note = |one: &Holder| {
            if *one != wanted.holder
                && let Some(owner) = one.posix()
                && !blockers.contains(&owner)
            {
                blockers.push(owner);
            }
            blockers.len() >= MAX_BLOCKERS
        };
        if self.exclusive.find(wanted.range, &mut note).is_none() && wanted.exclusive {
            self.shared.find(wanted.range, &mut note);
        }
        blockers
    }

    /// A lock that keeps a read or write out (MS-FSA 2.1.4.10). Nobody writes where there is a shared lock, not even who
    /// holds it. To a program of POSIX only those of NT are more than advice.
    pub fn bars(&self, open: OpenId, range: ByteRange, write: bool, is_posix: bool) -> Option<LockInfo> {
        if range.is_empty() {
            return None;
        }
        let owner = LockOwner::Open(open);
        let binds = |one: &Holder| !is_posix || one.kind == LockKind::Nt;
        let found = self.info(self.exclusive.find(range, |one| binds(one) && one.owner != owner));
        let found = found.or_else(|| if write { self.info(self.shared.find(range, binds)) } else { None });
        found.or_else(|| if is_posix { None } else { self.other_flock(owner, write) })
    }

    /// Whether one of NT is held.
    pub fn has_mandatory(&self) -> bool {
        // They come first in the order of holders.
        self.held.iter().next().is_some_and(|(holder, _)| holder.kind == LockKind::Nt)
    }

    /// Takes a lock that nothing is in the way of.
    pub fn take(&mut self, wanted: &Wanted, now: Duration, settings: &Settings, budget: &Budget) -> Result<(), Limit> {
        let Wanted { holder, range, exclusive } = *wanted;
        match (holder.kind, holder.owner) {
            (LockKind::Flock, LockOwner::Open(open)) => {
                if !self.flocks.contains_key(&open) {
                    budget.take(1)?;
                    self.count += 1;
                }
                self.flocks.insert(open, (exclusive, now));
                Ok(())
            }
            (LockKind::Nt, _) => {
                let list = self.held.get(&holder).map_or(0, SmallVec::len);
                if list >= settings.ranges_of_owner {
                    return Err(Limit::RangesOfOwner);
                }
                budget.take(1)?;
                self.add(holder, range, exclusive, now);
                Ok(())
            }
            _ => self.replace(holder, range, Some(exclusive), now, settings, budget),
        }
    }

    /// Adds one range of a holder, which was paid for.
    fn add(&mut self, holder: Holder, range: ByteRange, exclusive: bool, since: Duration) {
        let id = self.next;
        self.next += 1;
        self.count += 1;
        if !range.is_nowhere() {
            self.tree(exclusive).insert(range, id, holder);
        }
        let list = self.held.entry(holder);
        let at = list.partition_point(|held| (held.range, held.id) < (range, id));
        list.insert(at, Held { range, exclusive, id, since });
    }

    fn take_out(&mut self, held: &Held) {
        self.count -= 1;
        if !held.range.is_nowhere() {
            self.tree(held.exclusive).remove(held.range.start(), held.id);
        }
    }

    /// Makes a range of a POSIX holder exclusive, shared or free: what meets it is cut, and neighbours of its mode become
    /// one with it.
    pub fn replace(
        &mut self,
        holder: Holder,
        range: ByteRange,
        mode: Option<bool>,
        now: Duration,
        settings: &Settings,
        budget: &Budget,
    ) -> Result<(), Limit> {
        let list = self.held.get(&holder).map_or(&[][..], SmallVec::as_slice);
        let (start, last) = (range.start(), range.last());
        // The list has no two ranges that meet, so it is in the order of last bytes too.
        let touching = list.partition_point(|held| held.range.last().saturating_add(1) < start);
        let end = list.partition_point(|held| held.range.start() <= last.saturating_add(1));
        let mut new: Vec<(ByteRange, bool, Duration)> = Vec::with_capacity(3);
        let (mut first, mut until, mut since) = (start, last, now);
        let piece = |start: u64, last: u64| ByteRange::inclusive(start, last).expect("a part of a range");
        let mut cut = Vec::new();
        for held in &list[touching.min(end)..end] {
            let meets = held.range.overlaps(range);
            if mode == Some(held.exclusive) {
                first = first.min(held.range.start());
                until = until.max(held.range.last());
                since = since.min(held.since);
            } else if meets {
                if held.range.start() < start {
                    new.push((piece(held.range.start(), start - 1), held.exclusive, held.since));
                }
                if held.range.last() > last {
                    new.push((piece(last + 1, held.range.last()), held.exclusive, held.since));
                }
            } else {
                continue;
            }
            cut.push(*held);
        }
        if let Some(exclusive) = mode {
            new.push((piece(first, until), exclusive, since));
        }
        let more = new.len().saturating_sub(cut.len());
        if more > 0 {
            if list.len() + more > settings.ranges_of_owner {
                return Err(Limit::RangesOfOwner);
            }
            budget.take(more)?;
        }
        budget.give(cut.len().saturating_sub(new.len()));
        cut.iter().for_each(|held| self.take_out(held));
        if let Some(list) = self.held.get_mut(&holder) {
            list.retain(|held| !cut.iter().any(|gone| gone.id == held.id));
        }
        new.into_iter().for_each(|(range, exclusive, since)| self.add(holder, range, exclusive, since));
        if self.held.get(&holder).is_some_and(SmallVec::is_empty) {
            self.held.remove(&holder);
        }
        Ok(())
    }

    /// Unlocks one range of NT's as it was locked. Of several an exclusive one goes first, then the oldest. Answers
    /// whether there was any.
    pub fn unlock_exact(&mut self, holder: Holder, range: ByteRange, budget: &Budget) -> bool {
        let Some(list) = self.held.get_mut(&holder) else { return false };
        let first = list.partition_point(|held| held.range < range);
        let same = list[first..].iter().take_while(|held| held.range == range);
        let Some((at, _)) = same.enumerate().min_by_key(|(at, held)| (!held.exclusive, *at)) else { return false };
        let gone = list.remove(first + at);
        if list.is_empty() {
            self.held.remove(&holder);
        }
        self.take_out(&gone);
        budget.give(1);
        true
    }

    /// Lets go of the lock that an open has on the whole file.
    pub fn unlock_whole(&mut self, open: OpenId, budget: &Budget) -> bool {
        let gone = self.flocks.remove(&open).is_some();
        if gone {
            self.count -= 1;
            budget.give(1);
        }
        gone
    }

    /// Lets go of all that a holder has. Answers whether that was anything.
    pub fn release(&mut self, holder: Holder, budget: &Budget) -> bool {
        let Some(list) = self.held.remove(&holder) else { return false };
        list.iter().for_each(|held| self.take_out(held));
        budget.give(list.len());
        true
    }

    /// The POSIX owners of a client that hold locks.
    pub fn owners_of(&self, client: crate::key::ClientId) -> Vec<Holder> {
        let at = |key| Holder { kind: LockKind::Posix, owner: LockOwner::Posix(Owner { client, key }) };
        self.held.within(at(0)..=at(u128::MAX)).copied().collect()
    }

    /// The first `most` locks.
    pub fn list(&self, most: usize) -> Vec<LockInfo> {
        let of_ranges = self.held.iter().flat_map(|(holder, list)| {
            list.iter().map(|held| LockInfo {
                kind: holder.kind,
                owner: holder.owner,
                range: held.range,
                exclusive: held.exclusive,
                since: held.since,
            })
        });
        let whole = self.flocks.iter().map(|(open, (exclusive, since))| LockInfo {
            kind: LockKind::Flock,
            owner: LockOwner::Open(*open),
            range: ByteRange::WHOLE,
            exclusive: *exclusive,
            since: *since,
        });
        of_ranges.chain(whole).take(most).collect()
    }

    /// Asserts the invariant.
    pub fn check(&self) {
        self.exclusive.check();
        self.shared.check();
        let mut counted = self.flocks.len();
        let (mut exclusive, mut shared) = (0, 0);
        self.held.check();
        for (holder, list) in self.held.iter() {
            assert!(!list.is_empty() && list.is_sorted_by_key(|held| (held.range, held.id)));
            counted += list.len();
            for held in list.iter().filter(|held| !held.range.is_nowhere()) {
                *if held.exclusive { &mut exclusive } else { &mut shared } += 1;
            }
            if holder.kind != LockKind::Nt {
                for pair in list.windows(2) {
                    let (one, other) = (pair[0].range, pair[1].range);
                    assert!(one.last() < other.start(), "POSIX ranges apart: {one:?} {other:?}");
                    let joined = pair[0].exclusive == pair[1].exclusive && one.last() + 1 == other.start();
                    assert!(!joined, "POSIX ranges of a mode merged: {one:?} {other:?}");
                }
            }
        }
        self.check_apart();
        assert_eq!((exclusive, shared), (self.exclusive.len(), self.shared.len()), "ranges in the trees");
        assert_eq!(counted, self.count, "locks that are held");
        assert!(self.flocks.len() <= 1 || self.flocks.values().all(|(exclusive, _)| !exclusive));
    }

    /// Asserts that no two ranges with bytes are in each other's way: looks at them in the order of starts, and keeps of
    /// those before the ones that reach furthest, of two holders each.
    fn check_apart(&self) {
        let all = self.held.iter().flat_map(|(holder, list)| list.iter().map(move |held| (*holder, *held)));
        let mut all: Vec<(Holder, Held)> = all.filter(|(_, held)| !held.range.is_empty()).collect();
        all.sort_by_key(|(_, held)| held.range.start());
        let mut furthest: [Vec<(Holder, u64)>; 2] = [Vec::new(), Vec::new()];
        for (holder, held) in all {
            for (mode, reached) in furthest.iter().enumerate().filter(|(mode, _)| held.exclusive || *mode == 1) {
                let met = reached.iter().find(|(other, last)| *other != holder && *last >= held.range.start());
                assert!(met.is_none(), "{held:?} of {holder:?} and {met:?}, exclusive: {}", mode == 1);
            }
            let reached = &mut furthest[usize::from(held.exclusive)];
            let known = reached.iter().find(|(one, _)| *one == holder).map_or(0, |(_, last)| *last);
            reached.retain(|(one, _)| *one != holder);
            reached.push((holder, known.max(held.range.last())));
            reached.sort_by_key(|(_, last)| std::cmp::Reverse(*last));
            reached.truncate(2);
        }
    }
}
