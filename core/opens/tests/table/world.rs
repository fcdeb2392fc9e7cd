//! A table and its model side by side: requests drawn at random, asked of both, tasks that wait, and what must be the same
//! after each act.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use holdfast_opens::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::model::{BYTES, Deed, MFile, MWait, Outcome, name};
use crate::support::{Flag, Told, seconds, waker};

const NOBODY: OpenId = OpenId(u64::MAX);

#[derive(Clone)]
pub enum Job {
    Open(OpenRequest),
    Lock { seat: Seat, client: ClientId, request: LockRequest, is_queued: bool },
    Act { seat: Seat, act: Act },
}

pub struct Task {
    pub id: u64,
    pub flag: Arc<Flag>,
    pub waiting: Waiting,
    pub job: Job,
}

/// What a history is mostly about.
#[derive(Clone, Copy, PartialEq)]
pub enum Theme {
    All,
    Locks,
    Comings,
}

pub struct World {
    pub theme: Theme,
    pub random: SmallRng,
    pub table: Table,
    pub files: BTreeMap<FileKey, MFile>,
    pub seats: Vec<(Seat, ClientId)>,
    /// Opens that were put aside, with client and key.
    pub kept: Vec<(OpenId, ClientId, u128)>,
    pub tasks: Vec<Task>,
    pub deletions: Vec<Deletion>,
    pub told: Arc<Told>,
    pub now: Duration,
    pub next: u64,
    pub seen: BTreeSet<&'static str>,
}

pub fn key(number: u64) -> FileKey {
    FileKey { volume: 1, number, generation: 0, stream: 0 }
}

fn deed(act: Act) -> Deed {
    match act {
        Act::Read(_) | Act::PosixRead(_) => Deed::Read,
        Act::Write(_) | Act::PosixWrite(_) => Deed::Change,
        Act::Rename | Act::Delete => Deed::Name,
    }
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            theme: [Theme::All, Theme::Locks, Theme::Comings][(seed % 3) as usize],
            random: SmallRng::seed_from_u64(seed),
            table: Table::new(Settings::default()),
            files: (0..3).map(|number| (key(number), MFile::default())).collect(),
            seats: Vec::new(),
            kept: Vec::new(),
            tasks: Vec::new(),
            deletions: Vec::new(),
            told: Arc::default(),
            now: seconds(1),
            next: 0,
            seen: BTreeSet::new(),
        }
    }

    pub fn chance(&mut self, percent: u32) -> bool {
        self.random.random_ratio(percent, 100)
    }

    pub fn pick<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        if list.is_empty() { None } else { Some(list[self.random.random_range(0..list.len())].clone()) }
    }

    pub fn file(&mut self, key: FileKey) -> &mut MFile {
        self.files.get_mut(&key).expect("one of three")
    }

    pub fn access(&mut self) -> Access {
        let all = [Access::NONE, Access::READ, Access::WRITE, Access::DELETE];
        let one = self.pick(&all).expect("some");
        let other = self.pick(&all).expect("some");
        one.and(other)
    }

    pub fn request(&mut self) -> OpenRequest {
        let is_posix = self.chance(40);
        let access = self.access();
        let access = if self.theme == Theme::Comings { access.and(Access::DELETE) } else { access };
        let lease = self.chance(if self.theme == Theme::Locks { 20 } else { 60 }).then(|| {
            let wanted = [Caching::NONE, Caching::READ, Caching::READ_WRITE, Caching::READ_HANDLE, Caching::ALL];
            let wanted = self.pick(&wanted).expect("some");
            let number = self.random.random_range(0..6u128);
            let kind = match number {
                0 => LeaseKind::Oplock,
                1..4 => LeaseKind::Lease,
                4 => LeaseKind::Delegation,
                _ => LeaseKind::DirectoryLease,
            };
            LeaseRequest { key: (number > 0).then_some(number), kind, wanted, parent: None }
        });
        let share = match is_posix || self.chance(50) || self.theme == Theme::Locks {
            true => Access::ALL,
            false => self.access().and(Access::READ),
        };
        OpenRequest {
            file: key(self.random.random_range(0..3)),
            client: ClientId(self.random.random_range(0..3)),
            protocol: if is_posix { "fuse" } else { "smb" },
            access,
            share,
            ignores_denials: is_posix && self.chance(30),
            excludes_all: !is_posix && self.chance(15),
            overwrites: self.chance(15),
            delete_on_close: self
                .chance(if self.theme == Theme::Comings { 40 } else { 6 })
                .then(|| b"name".as_slice().into()),
            lease,
            waits_for_kept: self.chance(50),
            recall: self.told.clone(),
        }
    }

    pub fn range(&mut self, is_posix: bool) -> ByteRange {
        let start = self.random.random_range(0..BYTES - 1);
        if is_posix {
            return ByteRange::inclusive(start, self.random.random_range(start..BYTES)).expect("it fits");
        }
        ByteRange::new(start, self.random.random_range(0..=(BYTES - start).min(6))).expect("it fits")
    }

    pub fn lock_request(&mut self) -> LockRequest {
        let posix = LockBy::Posix(self.random.random_range(0..2));
        let posix_only = self.theme == Theme::Locks && self.chance(70);
        let by = if posix_only {
            posix
        } else {
            self.pick(&[LockBy::Nt, LockBy::Nt, posix, posix, LockBy::Ofd, LockBy::Flock]).expect("some")
        };
        let range = self.range(matches!(by, LockBy::Posix(_) | LockBy::Ofd));
        LockRequest { by, range, exclusive: self.chance(50) }
    }

    /// Does a task's job once. Answers whether it is over.
    pub fn poll(&mut self, task: &mut Task) -> bool {
        let waker = waker(&task.flag);
        let (outcome, expected) = match &mut task.job {
            Job::Open(request) => self.poll_open(request, &mut task.waiting, &waker),
            Job::Lock { seat, client, request, is_queued } => {
                let polled = self.table.poll_lock(seat, request, true, &mut task.waiting, self.now, &waker);
                let expected = match is_queued {
                    false => self.try_lock(seat, *client, request, true, task.id, is_queued),
                    true => self.queue_answer(seat.file(), task.id),
                };
                (outcome_of(polled), expected)
            }
            Job::Act { seat, act } => {
                let polled = self.table.poll_begin(seat, *act, &mut task.waiting, self.now, &waker);
                let expected = self.try_act(seat, *act);
                let outcome = outcome_of(polled);
                if outcome == Outcome::Done {
                    let mut ending = Waiting::new();
                    assert!(self.table.poll_end(seat, *act, &mut ending, self.now, &waker).is_ready());
                }
                (outcome, expected)
            }
        };
        self.advance();
        assert_eq!(outcome, expected, "{}", self.describe(&task.job));
        self.seen.insert(match &outcome {
            Outcome::Done => "done",
            Outcome::Wait => "wait",
            Outcome::DeleteFirst => "delete first",
            Outcome::Refused(name) => name,
        });
        outcome != Outcome::Wait
    }

    pub fn describe(&self, job: &Job) -> String {
        match job {
            Job::Open(request) => format!(
                "open {} {:?} {:?} {:?} overwrites {} at {:?}: {:#?}",
                request.file,
                request.access,
                request.share,
                request.lease,
                request.overwrites,
                self.now,
                self.files[&request.file]
            ),
            Job::Lock { seat, request, .. } => {
                format!("{request:?} by {}: {:#?}", seat.open(), self.files[&seat.file()])
            }
            Job::Act { seat, act } => format!("{act:?} by {}: {:#?}", seat.open(), self.files[&seat.file()]),
        }
    }

    pub fn poll_open(&mut self, request: &OpenRequest, waiting: &mut Waiting, waker: &Waker) -> (Outcome, Outcome) {
        let polled = self.table.poll_open(request, waiting, self.now, waker);
        let now = self.now;
        let id = match &polled {
            Poll::Ready(Ok(Opening::Opened(opened))) => opened.seat.open(),
            _ => NOBODY,
        };
        let expected = self.file(request.file).open(request, id, now);
        let outcome = match polled {
            Poll::Pending => Outcome::Wait,
            Poll::Ready(Err(error)) => Outcome::Refused(name(&error)),
            Poll::Ready(Ok(Opening::DeleteFirst(deletion))) => {
                self.deletions.push(deletion);
                Outcome::DeleteFirst
            }
            Poll::Ready(Ok(Opening::Opened(opened))) => {
                if let Some(lease) = self.file(request.file).opens.last().and_then(|open| open.lease) {
                    let model = self.file(request.file).leases.iter().find(|model| model.key == lease);
                    let model = model.expect("a lease is listed");
                    assert_eq!((opened.caching, opened.is_breaking), (model.held, model.breaking.is_some()));
                }
                self.seats.push((opened.seat, request.client));
                Outcome::Done
            }
        };
        (outcome, expected)
    }

    pub fn try_lock(
        &mut self,
        seat: &Seat,
        client: ClientId,
        request: &LockRequest,
        blocking: bool,
        task: u64,
        is_queued: &mut bool,
    ) -> Outcome {
        let (now, open) = (self.now, seat.open());
        let file = self.file(seat.file());
        let Some(lease) = file.opens.iter().find(|one| one.id == open).map(|one| one.lease) else {
            return Outcome::Refused("no open");
        };
        let (waits, kept, _) = file.contend(Deed::Change, lease, now);
        if waits || kept {
            return Outcome::Wait;
        }
        let rivals = file.rivals(open, client, request);
        if rivals.is_empty() {
            file.take(open, client, request);
            return Outcome::Done;
        }
        if !blocking {
            return Outcome::Refused("locked");
        }
        if let LockBy::Posix(key) = request.by
            && self.is_circle(Owner { client, key }, rivals)
        {
            return Outcome::Refused("deadlock");
        }
        let file = self.file(seat.file());
        let behind = file.rivals(open, client, request);
        file.queue.push(MWait { task, open, client, lock: *request, answer: None, behind });
        if request.by == LockBy::Flock {
            file.flocks.retain(|(owner, _)| *owner != open);
        }
        *is_queued = true;
        Outcome::Wait
    }

    /// Whether any of these waits for an owner, by way of others.
    pub fn is_circle(&self, owner: Owner, from: Vec<LockOwner>) -> bool {
        let (mut next, mut seen) = (from, BTreeSet::new());
        while let Some(one) = next.pop() {
            if one == LockOwner::Posix(owner) {
                return true;
            }
            if !seen.insert(one) {
                continue;
            }
            for file in self.files.values() {
                for wait in file.queue.iter().filter(|wait| wait.answer.is_none()) {
                    if matches!(wait.lock.by, LockBy::Posix(key) if LockOwner::Posix(Owner { client: wait.client, key }) == one)
                    {
                        let rivals = file.rivals(wait.open, wait.client, &wait.lock);
                        next.extend(rivals.into_iter().filter(|rival| matches!(rival, LockOwner::Posix(_))));
                    }
                }
            }
        }
        false
    }

    pub fn queue_answer(&mut self, file: FileKey, task: u64) -> Outcome {
        let queue = &mut self.file(file).queue;
        let at = queue.iter().position(|wait| wait.task == task).expect("it waits");
        match queue[at].answer {
            None => Outcome::Wait,
            Some(answer) => {
                queue.remove(at);
                answer.map_or_else(Outcome::Refused, |()| Outcome::Done)
            }
        }
    }

    pub fn try_act(&mut self, seat: &Seat, act: Act) -> Outcome {
        let now = self.now;
        let file = self.file(seat.file());
        let Some(lease) = file.opens.iter().find(|one| one.id == seat.open()).map(|one| one.lease) else {
            return Outcome::Refused("no open");
        };
        let barred = match act {
            Act::Read(Some(range)) => file.bars(seat.open(), range, false),
            Act::Write(Some(range)) => file.bars(seat.open(), range, true),
            Act::PosixRead(range) => file.bars_posix(seat.open(), range, false),
            Act::PosixWrite(range) => file.bars_posix(seat.open(), range, true),
            _ => false,
        };
        if barred {
            return Outcome::Refused("locked");
        }
        let (waits, kept, _) = file.contend(deed(act), lease, now);
        if waits || kept { Outcome::Wait } else { Outcome::Done }
    }

    pub fn spawn(&mut self, job: Job) {
        self.next += 1;
        let mut task = Task { id: self.next, flag: Flag::new(), waiting: Waiting::new(), job };
        if !self.poll(&mut task) {
            self.tasks.push(task);
        }
    }

    /// Gives a task up.
    pub fn drop_task(&mut self, at: usize) {
        let mut task = self.tasks.swap_remove(at);
        if let Job::Lock { seat, is_queued: true, .. } = &task.job {
            let queue = &mut self.files.get_mut(&seat.file()).expect("one of three").queue;
            let place = queue.iter().position(|wait| wait.task == task.id).expect("it waits");
            let gone = queue.remove(place);
            if self.random.random_bool(0.5) {
                let answer = self.table.cancel(seat, &mut task.waiting, self.now);
                assert_eq!(answer.is_some(), gone.answer.is_some());
            }
        }
    }

    pub fn drop_tasks_of(&mut self, open: OpenId, acts_only: bool) {
        while let Some(at) = self.tasks.iter().position(|task| match &task.job {
            Job::Open(_) => false,
            Job::Lock { seat, .. } => !acts_only && seat.open() == open,
            Job::Act { seat, .. } => seat.open() == open,
        }) {
            self.drop_task(at);
        }
    }

    pub fn collect(&mut self, file: FileKey, deletion: Option<Deletion>) {
        let expected = self.file(file).last_close();
        assert_eq!(deletion.is_some(), expected, "{file} is to be deleted");
        self.deletions.extend(deletion);
    }

    pub fn advance(&mut self) {
        self.files.values_mut().for_each(MFile::advance);
        // A wait of a POSIX owner that has others in its way than before may close a circle.
        for key in self.files.keys().copied().collect::<Vec<_>>() {
            let mut closing = Vec::new();
            for at in 0..self.files[&key].queue.len() {
                let file = &self.files[&key];
                let wait = &file.queue[at];
                let now = file.rivals(wait.open, wait.client, &wait.lock);
                let owner = match wait.lock.by {
                    LockBy::Posix(key) if wait.answer.is_none() => Some(Owner { client: wait.client, key }),
                    _ => None,
                };
                let is_new = |rival: &LockOwner| matches!(rival, LockOwner::Posix(_)) && !wait.behind.contains(rival);
                closing.extend(owner.filter(|_| now.iter().any(is_new)).map(|owner| (at, owner)));
                self.file(key).queue[at].behind = now;
            }
            for (at, owner) in closing {
                let rivals = self.files[&key].queue[at].behind.clone();
                if self.is_circle(owner, rivals) {
                    self.file(key).queue[at].answer = Some(Err("deadlock"));
                }
            }
        }
    }

    /// Runs all tasks that were woken.
    pub fn run(&mut self) {
        while let Some(at) = self.tasks.iter().position(|task| task.flag.take()) {
            let mut task = self.tasks.swap_remove(at);
            if !self.poll(&mut task) {
                self.tasks.push(task);
            }
        }
        // Who was not woken could not go on.
        let tasks = std::mem::take(&mut self.tasks);
        let files = self.files.clone();
        for task in &tasks {
            let outcome = match &task.job {
                Job::Open(request) => {
                    let now = self.now;
                    self.file(request.file).open(request, NOBODY, now)
                }
                Job::Lock { seat, is_queued: true, .. } => self.queue_answer(seat.file(), task.id),
                Job::Lock { seat, client, request, .. } => {
                    let outcome = self.try_lock(seat, *client, request, true, 0, &mut false);
                    let queued = self.file(seat.file()).queue.iter().any(|wait| wait.task == 0);
                    if queued { Outcome::Done } else { outcome }
                }
                Job::Act { seat, act } => self.try_act(seat, *act),
            };
            // It may be that it would be refused by now; that it is told when what it waits for is over.
            let goes_on = matches!(outcome, Outcome::Done | Outcome::DeleteFirst);
            assert!(!goes_on, "not woken: {}", self.describe(&task.job));
            self.files = files.clone();
        }
        self.tasks = tasks;
    }

    pub fn compare(&mut self) {
        self.table.check();
        let mut told: Vec<_> = std::mem::take(&mut *self.told.notices.lock().unwrap());
        let mut closed = std::mem::take(&mut *self.told.closed.lock().unwrap());
        for (key, file) in &mut self.files {
            let mut opens = self.table.opens_of(*key, 100);
            opens.sort_by_key(|open| open.open);
            file.opens.sort_by_key(|open| open.id);
            let listed: Vec<_> =
                opens.iter().map(|open| (open.open, open.access, open.share, open.lease, open.kept)).collect();
            let model = file.opens.iter().map(|open| {
                let kept = open.aside.map(|(_, deadline, sticky)| (deadline, sticky));
                (open.id, open.access, open.share, open.lease, kept)
            });
            assert_eq!(listed, model.collect::<Vec<_>>(), "opens of {key}");
            let leases = self.table.leases_of(*key, 100);
            let listed: Vec<_> =
                leases.iter().map(|lease| (lease.lease, lease.kind, lease.held, lease.breaking)).collect();
            let model = file.leases.iter().map(|lease| {
                (lease.key, lease.kind, lease.held, lease.breaking.map(|(told, _, deadline)| (told, deadline)))
            });
            assert_eq!(listed, model.collect::<Vec<_>>(), "leases of {key}");
            let locks = self.table.locks_of(*key, 1000);
            let mut locks: Vec<_> =
                locks.into_iter().map(|lock| (lock.kind, lock.owner, lock.range, lock.exclusive)).collect();
            locks.sort();
            assert_eq!(locks, file.locks(), "locks of {key}");
            assert_eq!(self.table.is_delete_pending(*key), file.pending.is_some());
            let mut expected = std::mem::take(&mut file.told);
            let mut found: Vec<_> = told
                .extract_if(.., |notice| notice.file == *key)
                .map(|notice| {
                    (LeaseKey { client: notice.client, name: notice.lease }, notice.from, notice.to, notice.answer)
                })
                .collect();
            let order = |one: &(LeaseKey, Caching, Caching, bool)| (one.0, format!("{:?}", (one.1, one.2, one.3)));
            expected.sort_by_key(order);
            found.sort_by_key(order);
            assert_eq!(found, expected, "breaks of {key}");
            let mut expected = std::mem::take(&mut file.evicted);
            expected.sort();
            let mut found: Vec<OpenId> = closed.extract_if(.., |open| expected.contains(open)).collect();
            found.sort();
            assert_eq!(found, expected, "opens that were closed by others");
        }
        assert!(told.is_empty() && closed.is_empty());
    }
}

pub fn outcome_of(polled: Poll<Result<(), Error>>) -> Outcome {
    match polled {
        Poll::Pending => Outcome::Wait,
        Poll::Ready(Ok(())) => Outcome::Done,
        Poll::Ready(Err(error)) => Outcome::Refused(name(&error)),
    }
}
