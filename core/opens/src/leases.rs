//! The leases of one file: what each holds, what is being taken from it, and by which acts.
//!
//! ```text
//!   held RWH ── conflicting act ─▶ breaking to RH ── answer RH, R, none ─▶ held
//!                                       │
//!                                       └── no answer in time ─▶ none
//! ```
//!
//! Invariant: what a lease holds goes down only by an answer, by a break that needs none, or by time; a lease that is
//! breaking is granted nothing. The counts are those of the leases.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::access::Access;
use crate::caching::{Caching, LeaseKind};
use crate::effects::{Context, Message, Notice, Recall};
use crate::error::Error;
use crate::key::{ClientId, FileKey, OpenId};
use crate::open::Open;
use crate::summary::Summary;

/// Which lease of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseName {
    /// The oplock of an open.
    Open(OpenId),
    /// What all opens of the client under this key share.
    Key(u128),
}

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    /// The client.
    pub client: ClientId,
    /// Which of its leases.
    pub name: LeaseName,
}

/// What an act takes from the leases of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Toll {
    /// What oplocks and leases lose.
    pub take: Caching,
    /// The act waits for those that hold this.
    pub wait: Caching,
    /// What delegations must not have; they are waited for (RFC 8881 10.4).
    pub recall: Caching,
    /// Whether an oplock of level II loses it by its own open's act too (MS-FSA 2.1.4.12).
    pub own_level_two: bool,
}

impl Toll {
    const fn new(take: Caching, wait: Caching, recall: Caching) -> Self {
        Self { take, wait, recall, own_level_two: false }
    }

    /// Reading through what has no open of its own.
    pub const READ: Self = Self::new(Caching::WRITE, Caching::WRITE, Caching::WRITE);
    /// Data or its length change, or a range is locked.
    pub const CHANGE: Self =
        Self { own_level_two: true, ..Self::new(Caching::ALL, Caching::WRITE, Caching::READ_WRITE) };
    /// The name changes or goes.
    pub const NAME: Self = Self::new(Caching::HANDLE, Caching::HANDLE, Caching::READ_WRITE);
    /// Opening to read.
    pub const OPEN: Self = Self::new(Caching::WRITE, Caching::WRITE, Caching::WRITE);
    /// Opening to write.
    pub const OPEN_TO_WRITE: Self = Self::new(Caching::WRITE, Caching::WRITE, Caching::READ_WRITE);
    /// Opening and cutting to nothing.
    pub const OVERWRITE: Self = Self::new(Caching::ALL, Caching::WRITE, Caching::READ_WRITE);
    /// Opening what others exclude: they may close what they keep open for themselves only.
    pub const EXCLUDED: Self = Self::new(Caching::HANDLE, Caching::HANDLE, Caching::NONE);
    /// A directory's entries change; nobody waits (MS-SMB2 3.3.1.4).
    pub const ENTRIES: Self = Self::new(Caching::READ_HANDLE, Caching::NONE, Caching::NONE);

    fn of(&self, kind: LeaseKind) -> Caching {
        if kind == LeaseKind::Delegation { self.recall } else { self.take }
    }
}

/// A break that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Breaking {
    /// What the client was told that it may keep.
    pub told: Caching,
    /// What it may keep by now, as more was asked since.
    pub wanted: Caching,
    pub deadline: Duration,
}

/// How many opens name a lease, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Users {
    pub opens: u32,
    pub data: u32,
    pub writing: u32,
    /// Those that outlive their connection, and how many of these are sticky.
    pub aside: u32,
    pub sticky: u32,
}

impl Users {
    /// Counts an open in, or out.
    pub fn step(&mut self, open: &Open, step: impl Fn(&mut u32)) {
        step(&mut self.opens);
        let is = [
            (&mut self.data, !open.access.is_none()),
            (&mut self.writing, open.access.has(Access::WRITE)),
            (&mut self.aside, open.aside.is_some()),
            (&mut self.sticky, open.aside.is_some_and(|aside| aside.sticky)),
        ];
        is.into_iter().filter(|(_, is)| *is).for_each(|(count, _)| step(count));
    }
}

/// A lease of the file.
pub(crate) struct Lease {
    pub key: LeaseKey,
    /// Not 0, and no other's in the life of the file's seat, as long as 32 bits last.
    pub number: u32,
    pub kind: LeaseKind,
    pub held: Caching,
    pub breaking: Option<Breaking>,
    pub epoch: u16,
    pub parent: Option<u128>,
    pub recall: Arc<dyn Recall>,
    /// When it was granted last.
    pub since: Duration,
    pub users: Users,
}

impl Lease {
    /// What goes into the summary, so that its own opens know themselves; not that of level II, which they break too.
    fn own_number(&self) -> u32 {
        if self.kind == LeaseKind::Oplock && self.held == Caching::READ { 0 } else { self.number }
    }

    fn notice(&self, file: FileKey, to: Caching) -> Notice {
        Notice {
            file,
            client: self.key.client,
            lease: self.key.name,
            kind: self.kind,
            from: self.held,
            to,
            epoch: self.epoch,
            answer: false,
            revoked: false,
        }
    }

    /// Begins to take what `to` has not.
    fn lower(&mut self, to: Caching, context: &mut Context) {
        self.epoch = self.epoch.wrapping_add(1);
        let answer = self.kind.answers(self.held);
        let notice = Notice { answer, ..self.notice(context.file, to) };
        context.messages.push((self.recall.clone(), Message::Broken(notice)));
        if answer {
            self.breaking = Some(Breaking { told: to, wanted: to, deadline: context.break_ends() });
            context.timed = true;
        } else {
            self.held = to;
        }
    }
}

/// How many leases hold what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    readers: u32,
    writers: u32,
    handles: u32,
    delegations: u32,
    breaking: u32,
    /// The sum of the numbers of the readers: of a single one, its number.
    numbers: u32,
}

impl Tally {
    fn count(&mut self, lease: &Lease, step: impl Fn(u32, u32) -> u32) {
        let add = |count: &mut u32, holds: bool| *count = if holds { step(*count, 1) } else { *count };
        add(&mut self.readers, lease.held.has(Caching::READ));
        add(&mut self.writers, lease.held.has(Caching::WRITE));
        add(&mut self.handles, lease.held.has(Caching::HANDLE));
        add(&mut self.delegations, lease.kind == LeaseKind::Delegation && !lease.held.is_none());
        add(&mut self.breaking, lease.breaking.is_some());
        if lease.held.has(Caching::READ) {
            self.numbers = step(self.numbers, lease.own_number());
        }
    }
}

/// What an act met.
#[derive(Default)]
pub(crate) struct Contended {
    /// Whether it must wait for an answer.
    pub must_wait: bool,
    /// A lease that is kept for opens that may come back, so that the act has to.
    pub kept: Option<LeaseKey>,
    /// Leases all of whose opens were put aside and cannot answer: these opens go.
    pub purge: SmallVec<[LeaseKey; 1]>,
}

/// The leases of a file.
#[derive(Default)]
pub(crate) struct Leases {
    /// In the order of their keys.
    list: SmallVec<[Box<Lease>; 1]>,
    tally: Tally,
    next: u32,
}

impl Leases {
    fn place(&self, key: LeaseKey) -> Result<usize, usize> {
        self.list.binary_search_by_key(&key, |lease| lease.key)
    }

    pub fn get(&self, key: LeaseKey) -> Option<&Lease> {
        self.place(key).ok().map(|at| &*self.list[at])
    }

    pub fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.list.iter().map(|lease| &**lease)
    }

    /// Changes a lease and keeps the counts.
    pub fn change<R>(&mut self, key: LeaseKey, act: impl FnOnce(&mut Lease) -> R) -> Option<R> {
        let at = self.place(key).ok()?;
        Some(self.change_at(at, act))
    }

    fn change_at<R>(&mut self, at: usize, act: impl FnOnce(&mut Lease) -> R) -> R {
        let lease = &mut *self.list[at];
        self.tally.count(lease, u32::wrapping_sub);
        let result = act(lease);
        self.tally.count(lease, u32::wrapping_add);
        result
    }

    /// Adds a lease that holds nothing yet; its key must be new.
    pub fn add(
        &mut self,
        key: LeaseKey,
        kind: LeaseKind,
        parent: Option<u128>,
        recall: Arc<dyn Recall>,
        now: Duration,
    ) {
        let Err(at) = self.place(key) else { return };
        // 0 is nobody's number: after 2^32 leases of one seat they have none, and their opens take the slow way.
        self.next = self.next.saturating_add(1);
        let number = if self.next == u32::MAX { 0 } else { self.next };
        let (held, users) = (Caching::NONE, Users::default());
        let lease = Lease { key, number, kind, held, breaking: None, epoch: 0, parent, recall, since: now, users };
        self.list.insert(at, Box::new(lease));
    }

    /// Forgets a lease.
    pub fn remove(&mut self, key: LeaseKey) {
        if let Ok(at) = self.place(key) {
            let lease = self.list.remove(at);
            self.tally.count(&lease, u32::wrapping_sub);
        }
    }

    /// Leases that are held beside this one.
    pub fn held_by_others(&self, key: LeaseKey) -> u32 {
        let own = self.get(key).is_some_and(|lease| lease.held.has(Caching::READ));
        self.tally.readers - u32::from(own)
    }

    /// Whether another lease than this one may write behind.
    pub fn written_by_others(&self, key: LeaseKey) -> bool {
        let own = self.get(key).is_some_and(|lease| lease.held.has(Caching::WRITE));
        self.tally.writers > u32::from(own)
    }

    /// Takes the toll of an act by one under the key `by` from all others.
    pub fn contend(&mut self, toll: &Toll, by: Option<LeaseKey>, context: &mut Context) -> Contended {
        let mut contended = Contended::default();
        let tally = self.tally;
        let counts =
            [(Caching::READ, tally.readers), (Caching::WRITE, tally.writers), (Caching::HANDLE, tally.handles)];
        let met = counts.iter().any(|(one, count)| *count > 0 && toll.take.has(*one));
        if !met && (toll.recall.is_none() || tally.delegations == 0) {
            return contended;
        }
        for at in 0..self.list.len() {
            let lease = &*self.list[at];
            let own_level_two = toll.own_level_two && lease.kind == LeaseKind::Oplock && lease.held == Caching::READ;
            if Some(lease.key) == by && !own_level_two {
                continue;
            }
            let taken = toll.of(lease.kind);
            let left = lease.kind.left(lease.held, taken);
            if left == lease.held {
                continue;
            }
            let waits = match lease.kind {
                LeaseKind::Delegation => true,
                _ => !lease.held.common(toll.wait).is_none(),
            };
            let users = lease.users;
            if users.opens > 0 && users.aside == users.opens {
                match (waits, users.sticky > 0) {
                    (true, true) => contended.kept = Some(lease.key),
                    (true, false) => contended.purge.push(lease.key),
                    // Its client learns what it has left when it comes back.
                    (false, _) => {
                        (context.released, context.timed) = (true, true);
                        self.change_at(at, |lease| {
                            lease.held = left;
                            lease.breaking = None;
                            lease.epoch = lease.epoch.wrapping_add(1);
                        });
                    }
                }
                continue;
            }
            contended.must_wait |= waits;
            self.change_at(at, |lease| match &mut lease.breaking {
                Some(breaking) => breaking.wanted = lease.kind.left(breaking.wanted, taken),
                None => lease.lower(left, context),
            });
        }
        contended
    }

    /// The client keeps `state` of what was being taken. Answers with what it has then.
    pub fn answer(&mut self, key: LeaseKey, state: Caching, context: &mut Context) -> Result<Caching, Error> {
        let lease = self.get(key).ok_or(Error::Answer { file: context.file })?;
        let breaking = lease.breaking.ok_or(Error::Answer { file: context.file })?;
        if !breaking.told.has(state) || lease.kind.most(state) != state {
            return Err(Error::Answer { file: context.file });
        }
        context.released = true;
        context.timed = true;
        let held = self.change(key, |lease| {
            lease.held = state;
            lease.breaking = None;
            let left = lease.kind.left(state, state.without(breaking.wanted));
            if left != state {
                lease.lower(left, context);
            }
            lease.held
        });
        held.ok_or(Error::Answer { file: context.file })
    }

    /// Takes all from those who did not answer in time. Answers with how many there were.
    pub fn expire(&mut self, context: &mut Context) -> usize {
        if self.tally.breaking == 0 {
            return 0;
        }
        let mut revoked = 0;
        for at in 0..self.list.len() {
            if self.list[at].breaking.is_none_or(|breaking| breaking.deadline > context.now) {
                continue;
            }
            revoked += 1;
            context.released = true;
            context.timed = true;
            self.change_at(at, |lease| {
                lease.epoch = lease.epoch.wrapping_add(1);
                let notice = Notice { revoked: true, ..lease.notice(context.file, Caching::NONE) };
                context.messages.push((lease.recall.clone(), Message::Broken(notice)));
                lease.held = Caching::NONE;
                lease.breaking = None;
            });
        }
        revoked
    }

    /// When the first break runs out of time.
    pub fn deadline(&self) -> Option<Duration> {
        if self.tally.breaking == 0 {
            return None;
        }
        self.iter().filter_map(|lease| lease.breaking).map(|breaking| breaking.deadline).min()
    }

    /// What reads and writes have to know.
    pub fn summary(&self) -> Summary {
        let tally = &self.tally;
        let number = if tally.readers == 1 { tally.numbers } else { 0 };
        Summary::of_leases([tally.readers, tally.writers, tally.handles, tally.breaking].map(|count| count > 0), number)
    }

    /// Asserts the invariant.
    pub fn check(&self) {
        let mut tally = Tally::default();
        for lease in self.iter() {
            tally.count(lease, u32::wrapping_add);
            assert_eq!(lease.kind.most(lease.held), lease.held, "a state that the kind can be in");
            assert!(lease.users.opens > 0, "somebody names it");
            assert!(lease.users.aside <= lease.users.opens && lease.users.sticky <= lease.users.aside);
            if let Some(breaking) = lease.breaking {
                assert!(lease.held.has(breaking.told) && breaking.told.has(breaking.wanted), "a break goes down");
                assert_ne!(lease.held, breaking.told, "a break takes something");
            }
        }
        assert_eq!(tally, self.tally);
        assert!(self.list.is_sorted_by_key(|lease| lease.key));
        assert!(tally.writers == 0 || tally.readers == 1, "who writes behind is alone");
    }
}
