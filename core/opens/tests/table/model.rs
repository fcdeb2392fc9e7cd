//! What the table should be, written the plain way: flat lists, rules as tables of cases, locks byte by byte.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_opens::*;

pub const BYTES: u64 = 14;
pub const TIMEOUT: Duration = Duration::from_secs(35);
const NONE: Caching = Caching::NONE;
const R: Caching = Caching::READ;
const RW: Caching = Caching::READ_WRITE;
const RH: Caching = Caching::READ_HANDLE;
const RWH: Caching = Caching::ALL;

/// Acts that leases mind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    Open,
    OpenToWrite,
    Overwrite,
    Excluded,
    Read,
    Change,
    Name,
    Entries,
}

/// What a lease has after a deed of another, and whether the deed waits for its answer.
fn after(kind: LeaseKind, held: Caching, deed: Deed) -> Option<(Caching, bool)> {
    use Deed::*;
    use LeaseKind::*;
    Some(match (kind, deed, held) {
        (_, _, NONE) => return None,
        (Delegation, Open | Read, RW) => (NONE, true),
        (Delegation, OpenToWrite | Overwrite | Change | Name, _) => (NONE, true),
        (Delegation, ..) => return None,
        (Oplock, Open | OpenToWrite | Read, RW | RWH) => (R, true),
        (Lease, Open | OpenToWrite | Read, RW) => (R, true),
        (Lease, Open | OpenToWrite | Read, RWH) => (RH, true),
        (_, Open | OpenToWrite | Read, _) => return None,
        (_, Overwrite | Change, RW | RWH) => (NONE, true),
        (_, Overwrite | Change, _) => (NONE, false),
        (Oplock, Excluded | Name, RWH) => (R, true),
        (_, Excluded | Name, RWH) => (RW, true),
        (_, Excluded | Name, RH) => (R, true),
        (_, Excluded | Name, _) => return None,
        (_, Entries, _) => (NONE, false),
    })
}

#[derive(Clone, Debug)]
pub struct MOpen {
    pub id: OpenId,
    pub client: ClientId,
    pub access: Access,
    pub share: Access,
    pub excludes_all: bool,
    pub lease: Option<LeaseKey>,
    pub on_close: Option<Link>,
    pub aside: Option<(u128, Duration, bool)>,
}

#[derive(Clone, Debug)]
pub struct MLease {
    pub key: LeaseKey,
    pub kind: LeaseKind,
    pub held: Caching,
    pub breaking: Option<(Caching, Caching, Duration)>,
}

#[derive(Clone, Debug)]
pub struct MWait {
    pub task: u64,
    pub open: OpenId,
    pub client: ClientId,
    pub lock: LockRequest,
    pub answer: Option<Result<(), &'static str>>,
    /// Owners in its way after the last act.
    pub behind: Vec<LockOwner>,
}

/// A file.
#[derive(Clone, Debug, Default)]
pub struct MFile {
    pub opens: Vec<MOpen>,
    pub leases: Vec<MLease>,
    pub nt: Vec<(OpenId, ByteRange, bool)>,
    /// By owner, the mode of each byte.
    pub posix: BTreeMap<LockOwner, [Option<bool>; BYTES as usize]>,
    pub flocks: Vec<(OpenId, bool)>,
    pub queue: Vec<MWait>,
    pub pending: Option<Link>,
    pub deleting: bool,
    /// Leases that were told: from, to, with an answer.
    pub told: Vec<(LeaseKey, Caching, Caching, bool)>,
    pub evicted: Vec<OpenId>,
}

/// How a try ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Done,
    Wait,
    DeleteFirst,
    Refused(&'static str),
}

/// The name of an error, without what differs.
pub fn name(error: &Error) -> &'static str {
    match error {
        Error::Sharing { .. } => "sharing",
        Error::DeletePending { .. } => "pending",
        Error::NotYet { .. } => "not yet",
        Error::Locked { .. } => "locked",
        Error::Deadlock { .. } => "deadlock",
        Error::Cancelled { .. } => "cancelled",
        Error::NotLocked { .. } => "not locked",
        Error::NoOpen { .. } => "no open",
        Error::Rights { .. } => "rights",
        Error::Answer { .. } => "answer",
        other => panic!("{other} is not expected"),
    }
}

fn holder(open: OpenId, client: ClientId, by: LockBy) -> LockOwner {
    match by {
        LockBy::Posix(key) => LockOwner::Posix(Owner { client, key }),
        _ => LockOwner::Open(open),
    }
}

/// Whether a lock of NT and any other meet, by the arithmetic of the standard in numbers that cannot wrap.
fn meet(one: ByteRange, other: ByteRange) -> bool {
    let nowhere = |range: ByteRange| range.start() == 0 && range.is_empty();
    let ends = |range: ByteRange| (range.start() as i128, range.start() as i128 + range.len() as i128 - 1);
    let ((a, b), (c, d)) = (ends(one), ends(other));
    !nowhere(one) && !nowhere(other) && a <= d && b >= c
}

impl MFile {
    pub fn open_mut(&mut self, id: OpenId) -> Option<&mut MOpen> {
        self.opens.iter_mut().find(|open| open.id == id)
    }

    pub fn has(&self, id: OpenId) -> bool {
        self.opens.iter().any(|open| open.id == id)
    }

    fn users(&self, key: LeaseKey) -> Vec<&MOpen> {
        self.opens.iter().filter(|open| open.lease == Some(key)).collect()
    }

    /// Takes what a deed takes; answers whether it has to wait, and whether any open was ended for it.
    pub fn contend(&mut self, deed: Deed, by: Option<LeaseKey>, now: Duration) -> (bool, bool, bool) {
        let (mut waits, mut kept, mut ended) = (false, false, Vec::new());
        for at in 0..self.leases.len() {
            let lease = self.leases[at].clone();
            let level_two = lease.kind == LeaseKind::Oplock && lease.held == R && deed == Deed::Change;
            if Some(lease.key) == by && !level_two {
                continue;
            }
            let Some((to, must_wait)) = after(lease.kind, lease.held, deed) else { continue };
            let users = self.users(lease.key);
            if users.iter().all(|open| open.aside.is_some()) {
                let sticky = users.iter().any(|open| open.aside.is_some_and(|aside| aside.2));
                match (must_wait, sticky) {
                    (true, true) => kept = true,
                    (true, false) => ended.push(lease.key),
                    (false, _) => (self.leases[at].held, self.leases[at].breaking) = (to, None),
                }
                continue;
            }
            waits |= must_wait;
            match &mut self.leases[at].breaking {
                Some((_, wanted, _)) => *wanted = after(lease.kind, *wanted, deed).map_or(*wanted, |(to, _)| to),
                None => self.lower(at, to, now),
            }
        }
        let gone: Vec<OpenId> = self
            .opens
            .iter()
            .filter(|open| open.lease.is_some_and(|key| ended.contains(&key)))
            .map(|open| open.id)
            .collect();
        gone.iter().for_each(|id| self.evict(*id));
        (waits, kept, !gone.is_empty())
    }

    fn lower(&mut self, at: usize, to: Caching, now: Duration) {
        let lease = &mut self.leases[at];
        let answer = lease.kind == LeaseKind::Delegation || lease.held != R;
        self.told.push((lease.key, lease.held, to, answer));
        match answer {
            true => lease.breaking = Some((to, to, now + TIMEOUT)),
            false => lease.held = to,
        }
    }

    pub fn evict(&mut self, id: OpenId) {
        self.evicted.push(id);
        self.remove(id);
    }

    /// Takes an open out.
    pub fn remove(&mut self, id: OpenId) {
        let at = self.opens.iter().position(|open| open.id == id).expect("it is open");
        let open = self.opens.remove(at);
        let named: Vec<LeaseKey> = self.opens.iter().filter_map(|open| open.lease).collect();
        self.leases.retain(|lease| named.contains(&lease.key));
        self.nt.retain(|(owner, ..)| *owner != id);
        self.flocks.retain(|(owner, _)| *owner != id);
        let client_left = self.opens.iter().any(|other| other.client == open.client);
        self.posix.retain(|owner, _| match owner {
            LockOwner::Open(owner) => *owner != id,
            LockOwner::Posix(owner) => client_left || owner.client != open.client,
        });
        for wait in self.queue.iter_mut().filter(|wait| wait.open == id && wait.answer.is_none()) {
            wait.answer = Some(Err("cancelled"));
        }
        if let Some(link) = open.on_close {
            self.pending.get_or_insert(link);
        }
    }

    /// Whether the file is to be deleted now.
    pub fn last_close(&mut self) -> bool {
        let now = self.opens.is_empty() && self.pending.is_some() && !self.deleting;
        self.deleting |= now;
        now
    }

    pub fn expire(&mut self, now: Duration) {
        for lease in &mut self.leases {
            if lease.breaking.is_some_and(|(.., deadline)| deadline <= now) {
                self.told.push((lease.key, lease.held, NONE, false));
                (lease.held, lease.breaking) = (NONE, None);
            }
        }
    }

    pub fn expire_kept(&mut self, now: Duration) {
        let over = |open: &&MOpen| open.aside.is_some_and(|aside| aside.1 <= now);
        let over: Vec<OpenId> = self.opens.iter().filter(over).map(|open| open.id).collect();
        over.into_iter().for_each(|id| self.evict(id));
    }

    /// Tries to open; what is granted goes in under `id`.
    pub fn open(&mut self, request: &OpenRequest, id: OpenId, now: Duration) -> Outcome {
        if request.delete_on_close.is_some() && !request.access.has(Access::DELETE) {
            return Outcome::Refused("rights");
        }
        self.expire(now);
        let key = request.lease.map(|lease| LeaseKey {
            client: request.client,
            name: lease.key.map_or(LeaseName::Open(id), LeaseName::Key),
        });
        loop {
            if self.last_close() {
                return Outcome::DeleteFirst;
            }
            if self.pending.is_some() {
                return Outcome::Refused("pending");
            }
            let denies = |access: Access, share: Access| {
                [Access::READ, Access::WRITE, Access::DELETE].iter().any(|one| access.has(*one) && !share.has(*one))
            };
            let is_rival = |open: &&MOpen| {
                request.access != Access::NONE
                    && open.access != Access::NONE
                    && (denies(request.access, open.share) || denies(open.access, request.share))
            };
            let is_minded = |open: &&MOpen| !request.ignores_denials || open.excludes_all;
            let rivals: Vec<MOpen> = self.opens.iter().filter(is_rival).filter(is_minded).cloned().collect();
            let not_yet = if request.waits_for_kept { Outcome::Wait } else { Outcome::Refused("not yet") };
            if !rivals.is_empty() {
                let ended: Vec<&MOpen> =
                    rivals.iter().filter(|open| open.aside.is_some_and(|aside| !aside.2)).collect();
                if !ended.is_empty() {
                    ended.iter().for_each(|open| self.evict(open.id));
                    continue;
                }
                if rivals.iter().any(|open| open.aside.is_some()) {
                    return not_yet;
                }
                match self.contend(Deed::Excluded, key, now) {
                    (.., true) => continue,
                    (true, ..) => return Outcome::Wait,
                    _ => return Outcome::Refused("sharing"),
                }
            }
            let deed = match (request.overwrites, request.access) {
                (true, _) => Deed::Overwrite,
                (_, Access::NONE) => break,
                (_, access) if access.has(Access::WRITE) => Deed::OpenToWrite,
                _ => Deed::Open,
            };
            match self.contend(deed, key, now) {
                (.., true) => continue,
                (_, true, _) => return not_yet,
                (true, ..) => return Outcome::Wait,
                _ => break,
            }
        }
        self.opens.push(MOpen {
            id,
            client: request.client,
            access: request.access,
            share: request.share,
            excludes_all: request.excludes_all,
            lease: key,
            on_close: request.delete_on_close.clone(),
            aside: None,
        });
        if let (Some(key), Some(wanted)) = (key, request.lease) {
            self.grant(key, &wanted);
        }
        Outcome::Done
    }

    fn grant(&mut self, key: LeaseKey, request: &LeaseRequest) {
        if !self.leases.iter().any(|lease| lease.key == key) {
            self.leases.push(MLease { key, kind: request.kind, held: NONE, breaking: None });
            self.leases.sort_by_key(|lease| lease.key);
        }
        let others_hold = self.leases.iter().any(|lease| lease.key != key && lease.held != NONE);
        let others_write_behind = self.leases.iter().any(|lease| lease.key != key && lease.held.has(Caching::WRITE));
        let others: Vec<&MOpen> = self.opens.iter().filter(|open| open.lease != Some(key)).collect();
        let alone = !others_hold && others.iter().all(|open| open.access == Access::NONE);
        let others_write = others.iter().any(|open| open.access.has(Access::WRITE));
        let locks = !self.nt.is_empty()
            || !self.posix.is_empty()
            || !self.flocks.is_empty()
            || self.queue.iter().any(|wait| wait.answer.is_none());
        let lease = self.leases.iter_mut().find(|lease| lease.key == key).expect("just added");
        let wanted = request.wanted;
        let read = wanted.has(Caching::READ);
        let mut granted = match lease.kind {
            _ if !read => NONE,
            LeaseKind::Oplock if alone && (wanted == RW || wanted == RWH) => wanted,
            LeaseKind::Oplock => R,
            LeaseKind::Lease if alone => wanted,
            LeaseKind::Lease | LeaseKind::DirectoryLease => {
                if wanted.has(Caching::HANDLE) {
                    RH
                } else {
                    R
                }
            }
            LeaseKind::Delegation if alone && wanted.has(Caching::WRITE) => RW,
            LeaseKind::Delegation if others_write => NONE,
            LeaseKind::Delegation => R,
        };
        if others_write_behind || (locks && !granted.has(Caching::WRITE)) {
            granted = NONE;
        }
        if lease.breaking.is_none() && granted.has(lease.held) {
            lease.held = granted;
        }
    }

    pub fn answer(&mut self, key: LeaseKey, state: Caching, now: Duration) -> Result<Caching, &'static str> {
        let at = self.leases.iter().position(|lease| lease.key == key).ok_or("answer")?;
        let lease = &mut self.leases[at];
        let (told, wanted, _) = lease.breaking.ok_or("answer")?;
        let states: &[Caching] = match lease.kind {
            LeaseKind::Lease => &[NONE, R, RW, RH, RWH],
            LeaseKind::DirectoryLease => &[NONE, R, RH],
            LeaseKind::Oplock => &[NONE, R, RW, RWH],
            LeaseKind::Delegation => &[NONE, R, RW],
        };
        if !told.has(state) || !states.contains(&state) {
            return Err("answer");
        }
        (lease.held, lease.breaking) = (state, None);
        let more = state.without(wanted);
        if !more.is_none() {
            let left = state.without(more);
            let left =
                if states.contains(&left) && left.has(R) && lease.kind != LeaseKind::Delegation { left } else { NONE };
            self.lower(at, left, now);
        }
        Ok(self.leases[at].held)
    }

    fn bytes(range: ByteRange) -> impl Iterator<Item = usize> {
        (range.start()..range.start() + range.len()).map(|byte| byte as usize)
    }

    /// Owners in the way of a lock; by POSIX ones, who they are.
    pub fn rivals(&self, open: OpenId, client: ClientId, lock: &LockRequest) -> Vec<LockOwner> {
        let me = holder(open, client, lock.by);
        let conflict = |exclusive: bool| exclusive || lock.exclusive;
        let mut found = Vec::new();
        for (owner, range, exclusive) in &self.nt {
            let met = match lock.by {
                LockBy::Nt if *owner == open => lock.exclusive && meet(*range, lock.range),
                LockBy::Nt | LockBy::Posix(_) | LockBy::Ofd => conflict(*exclusive) && meet(*range, lock.range),
                LockBy::Flock => conflict(*exclusive) && !(range.start() == 0 && range.is_empty()),
            };
            if met {
                found.push(LockOwner::Open(*owner));
            }
        }
        for (owner, modes) in &self.posix {
            let same = *owner == me && matches!(lock.by, LockBy::Posix(_) | LockBy::Ofd);
            let met = |modes: &[Option<bool>; BYTES as usize]| {
                runs(modes).into_iter().any(|(range, exclusive)| conflict(exclusive) && meet(range, lock.range))
            };
            if !same && lock.by != LockBy::Flock && met(modes) {
                found.push(*owner);
            }
        }
        for (owner, exclusive) in &self.flocks {
            let minds = match lock.by {
                LockBy::Flock => true,
                LockBy::Nt => !(lock.range.start() == 0 && lock.range.is_empty()),
                _ => false,
            };
            if minds && *owner != open && conflict(*exclusive) {
                found.push(LockOwner::Open(*owner));
            }
        }
        found
    }

    /// Takes a lock that nothing is in the way of.
    pub fn take(&mut self, open: OpenId, client: ClientId, lock: &LockRequest) {
        match lock.by {
            LockBy::Nt => self.nt.push((open, lock.range, lock.exclusive)),
            LockBy::Flock => {
                self.flocks.retain(|(owner, _)| *owner != open);
                self.flocks.push((open, lock.exclusive));
            }
            LockBy::Posix(_) | LockBy::Ofd => {
                let modes = self.posix.entry(holder(open, client, lock.by)).or_insert([None; BYTES as usize]);
                Self::bytes(lock.range).for_each(|byte| modes[byte] = Some(lock.exclusive));
            }
        }
    }

    pub fn unlock(&mut self, open: OpenId, client: ClientId, by: LockBy, range: ByteRange) -> Result<(), &'static str> {
        match by {
            LockBy::Nt => {
                let same = |exclusive: bool| {
                    self.nt.iter().position(|(owner, held, mode)| (*owner, *held, *mode) == (open, range, exclusive))
                };
                let at = same(true).or_else(|| same(false)).ok_or("not locked")?;
                self.nt.remove(at);
            }
            LockBy::Flock => self.flocks.retain(|(owner, _)| *owner != open),
            LockBy::Posix(_) | LockBy::Ofd => {
                let owner = holder(open, client, by);
                if let Some(modes) = self.posix.get_mut(&owner) {
                    Self::bytes(range).for_each(|byte| modes[byte] = None);
                    if modes.iter().all(Option::is_none) {
                        self.posix.remove(&owner);
                    }
                }
            }
        }
        Ok(())
    }

    /// Those who wait and can have their locks now get them, in order. This comes at the end of each act.
    pub fn advance(&mut self) {
        let mut granted = false;
        for at in 0..self.queue.len() {
            let wait = self.queue[at].clone();
            if wait.answer.is_none() && self.rivals(wait.open, wait.client, &wait.lock).is_empty() {
                self.queue[at].answer = Some(Ok(()));
                granted = true;
                match wait.lock.by {
                    LockBy::Nt => self.nt.push((wait.open, wait.lock.range, wait.lock.exclusive)),
                    LockBy::Flock => {
                        self.flocks.retain(|(owner, _)| *owner != wait.open);
                        self.flocks.push((wait.open, wait.lock.exclusive));
                    }
                    by => {
                        let owner = holder(wait.open, wait.client, by);
                        let modes = self.posix.entry(owner).or_insert([None; BYTES as usize]);
                        Self::bytes(wait.lock.range).for_each(|byte| modes[byte] = Some(wait.lock.exclusive));
                    }
                }
            }
        }
        if granted {
            self.advance();
        }
    }

    /// Whether NT's read or write is kept out.
    pub fn bars(&self, open: OpenId, range: ByteRange, write: bool) -> bool {
        let me = LockOwner::Open(open);
        let nt = self
            .nt
            .iter()
            .any(|(owner, held, exclusive)| meet(*held, range) && if *exclusive { *owner != open } else { write });
        let posix = self.posix.iter().any(|(owner, modes)| {
            Self::bytes(range).filter_map(|byte| modes[byte]).any(|mode| if mode { *owner != me } else { write })
        });
        let whole = self.flocks.iter().any(|(owner, exclusive)| *owner != open && (*exclusive || write));
        !range.is_empty() && (nt || posix || whole)
    }

    /// Whether a read or write of POSIX is kept out.
    pub fn bars_posix(&self, open: OpenId, range: ByteRange, write: bool) -> bool {
        let is_in_the_way = |held: ByteRange, owner: OpenId, exclusive: bool| {
            meet(held, range) && (write && !exclusive || exclusive && owner != open)
        };
        !range.is_empty() && self.nt.iter().any(|(owner, held, exclusive)| is_in_the_way(*held, *owner, *exclusive))
    }

    /// All locks, in one order: kind, owner, range, mode.
    pub fn locks(&self) -> Vec<(LockKind, LockOwner, ByteRange, bool)> {
        let nt = self.nt.iter().map(|(open, range, mode)| (LockKind::Nt, LockOwner::Open(*open), *range, *mode));
        let posix = self.posix.iter().flat_map(|(owner, modes)| {
            let kind = if matches!(owner, LockOwner::Open(_)) { LockKind::Ofd } else { LockKind::Posix };
            runs(modes).into_iter().map(move |(range, mode)| (kind, *owner, range, mode))
        });
        let whole = |(open, mode): &(OpenId, bool)| (LockKind::Flock, LockOwner::Open(*open), ByteRange::WHOLE, *mode);
        let mut all: Vec<_> = nt.chain(posix).chain(self.flocks.iter().map(whole)).collect();
        all.sort();
        all
    }
}

/// Runs of bytes of one mode.
fn runs(modes: &[Option<bool>; BYTES as usize]) -> Vec<(ByteRange, bool)> {
    let mut runs: Vec<(u64, u64, bool)> = Vec::new();
    for (byte, mode) in modes.iter().enumerate().filter_map(|(byte, mode)| Some((byte as u64, (*mode)?))) {
        match runs.last_mut() {
            Some((start, len, last)) if *last == mode && *start + *len == byte => *len += 1,
            _ => runs.push((byte, 1, mode)),
        }
    }
    runs.into_iter().map(|(start, len, mode)| (ByteRange::new(start, len).expect("it fits"), mode)).collect()
}
