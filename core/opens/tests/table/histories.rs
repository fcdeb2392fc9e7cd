//! Random histories on the table and on the model at once: clients that open, read, write, lock, answer late or never,
//! go away and come back, while time passes. After each act both hold the same, whatever could go on was woken, and what
//! was not woken could not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use holdfast_opens::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::model::{BYTES, Deed, MFile, MWait, Outcome, name};
use crate::support::{Flag, Told, seconds, waker};

const ACTS: usize = 120;
const NOBODY: OpenId = OpenId(u64::MAX);

#[derive(Clone)]
enum Job {
    Open(OpenRequest),
    Lock { seat: Seat, client: ClientId, request: LockRequest, is_queued: bool },
    Act { seat: Seat, act: Act },
}

struct Task {
    id: u64,
    flag: Arc<Flag>,
    waiting: Waiting,
    job: Job,
}

/// What a history is mostly about.
#[derive(Clone, Copy, PartialEq)]
enum Theme {
    All,
    Locks,
    Comings,
}

struct World {
    theme: Theme,
    random: SmallRng,
    table: Table,
    files: BTreeMap<FileKey, MFile>,
    seats: Vec<(Seat, ClientId)>,
    /// Opens that were put aside, with client and key.
    kept: Vec<(OpenId, ClientId, u128)>,
    tasks: Vec<Task>,
    deletions: Vec<Deletion>,
    told: Arc<Told>,
    now: Duration,
    next: u64,
    seen: BTreeSet<&'static str>,
}

fn key(number: u64) -> FileKey {
    FileKey { volume: 1, number, generation: 0, stream: 0 }
}

fn deed(act: Act) -> Deed {
    match act {
        Act::Read(_) => Deed::Read,
        Act::Write(_) => Deed::Change,
        Act::Rename | Act::Delete => Deed::Name,
    }
}

impl World {
    fn new(seed: u64) -> Self {
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

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_ratio(percent, 100)
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        if list.is_empty() { None } else { Some(list[self.random.random_range(0..list.len())].clone()) }
    }

    fn file(&mut self, key: FileKey) -> &mut MFile {
        self.files.get_mut(&key).expect("one of three")
    }

    fn access(&mut self) -> Access {
        let all = [Access::NONE, Access::READ, Access::WRITE, Access::DELETE];
        let one = self.pick(&all).expect("some");
        let other = self.pick(&all).expect("some");
        one.and(other)
    }

    fn request(&mut self) -> OpenRequest {
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
            overwrites: self.chance(15),
            delete_on_close: self
                .chance(if self.theme == Theme::Comings { 40 } else { 6 })
                .then(|| b"name".as_slice().into()),
            lease,
            waits_for_kept: self.chance(50),
            recall: self.told.clone(),
        }
    }

    fn range(&mut self, is_posix: bool) -> ByteRange {
        let start = self.random.random_range(0..BYTES - 1);
        if is_posix {
            return ByteRange::inclusive(start, self.random.random_range(start..BYTES)).expect("it fits");
        }
        ByteRange::new(start, self.random.random_range(0..=(BYTES - start).min(6))).expect("it fits")
    }

    fn lock_request(&mut self) -> LockRequest {
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
    fn poll(&mut self, task: &mut Task) -> bool {
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

    fn describe(&self, job: &Job) -> String {
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

    fn poll_open(&mut self, request: &OpenRequest, waiting: &mut Waiting, waker: &Waker) -> (Outcome, Outcome) {
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

    fn try_lock(
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
        file.queue.push(MWait { task, open, client, lock: *request, answer: None });
        if request.by == LockBy::Flock {
            file.flocks.retain(|(owner, _)| *owner != open);
        }
        *is_queued = true;
        Outcome::Wait
    }

    /// Whether any of these waits for an owner, by way of others.
    fn is_circle(&self, owner: Owner, from: Vec<LockOwner>) -> bool {
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

    fn queue_answer(&mut self, file: FileKey, task: u64) -> Outcome {
        let queue = &mut self.file(file).queue;
        let at = queue.iter().position(|wait| wait.task == task).expect("it waits");
        match queue[at].answer.clone() {
            None => Outcome::Wait,
            Some(answer) => {
                queue.remove(at);
                answer.map_or(Outcome::Refused("cancelled"), |()| Outcome::Done)
            }
        }
    }

    fn try_act(&mut self, seat: &Seat, act: Act) -> Outcome {
        let now = self.now;
        let file = self.file(seat.file());
        let Some(lease) = file.opens.iter().find(|one| one.id == seat.open()).map(|one| one.lease) else {
            return Outcome::Refused("no open");
        };
        let barred = match act {
            Act::Read(Some(range)) => file.bars(seat.open(), range, false),
            Act::Write(Some(range)) => file.bars(seat.open(), range, true),
            _ => false,
        };
        if barred {
            return Outcome::Refused("locked");
        }
        let (waits, kept, _) = file.contend(deed(act), lease, now);
        if waits || kept { Outcome::Wait } else { Outcome::Done }
    }

    fn spawn(&mut self, job: Job) {
        self.next += 1;
        let mut task = Task { id: self.next, flag: Flag::new(), waiting: Waiting::new(), job };
        if !self.poll(&mut task) {
            self.tasks.push(task);
        }
    }

    /// Gives a task up.
    fn drop_task(&mut self, at: usize) {
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

    fn drop_tasks_of(&mut self, open: OpenId, acts_only: bool) {
        while let Some(at) = self.tasks.iter().position(|task| match &task.job {
            Job::Open(_) => false,
            Job::Lock { seat, .. } => !acts_only && seat.open() == open,
            Job::Act { seat, .. } => seat.open() == open,
        }) {
            self.drop_task(at);
        }
    }

    fn collect(&mut self, file: FileKey, deletion: Option<Deletion>) {
        let expected = self.file(file).last_close();
        assert_eq!(deletion.is_some(), expected, "{file} is to be deleted");
        self.deletions.extend(deletion);
    }

    fn step(&mut self) {
        let now = self.now;
        let seat = self.pick(&self.seats.clone());
        let theme = self.theme;
        let dice = match theme {
            Theme::Locks if self.chance(40) => 48,
            Theme::Comings if self.chance(15) => 87,
            _ => self.random.random_range(0..100),
        };
        match (dice, seat) {
            (0..24, _) => {
                let request = self.request();
                self.spawn(Job::Open(request));
            }
            (24..34, Some((seat, _))) => {
                self.seats.retain(|(one, _)| one.open() != seat.open());
                self.drop_tasks_of(seat.open(), true);
                let closed = self.table.close(&seat, now);
                let is_open = self.file(seat.file()).has(seat.open());
                assert_eq!(closed.is_ok(), is_open);
                if let Ok(deletion) = closed {
                    self.file(seat.file()).remove(seat.open());
                    self.collect(seat.file(), deletion);
                }
            }
            (34..48, Some((seat, _))) => {
                let range = self.chance(60).then(|| self.range(false));
                let act = [Act::Read(range), Act::Write(range), Act::Write(range), Act::Rename, Act::Delete];
                let act = self.pick(&act).expect("some");
                self.spawn(Job::Act { seat, act });
            }
            (48..60, Some((seat, client))) => {
                let request = self.lock_request();
                self.spawn(Job::Lock { seat, client, request, is_queued: false });
            }
            (60..66, Some((seat, client))) => {
                let request = self.lock_request();
                let polled = self.table.poll_lock(&seat, &request, false, &mut Waiting::new(), now, Waker::noop());
                let expected = self.try_lock(&seat, client, &request, false, 0, &mut false);
                assert_eq!(outcome_of(polled), expected);
            }
            (66..73, Some((seat, client))) => self.unlock(&seat, client),
            (73..85, _) => self.answer(),
            (85..87, _) => {
                self.now += seconds(self.random.random_range(1..40));
                self.expire();
            }
            (87..90, Some((seat, client))) => self.put_aside(&seat, client),
            (90..93, _) => self.take_back(),
            (93..95, Some((seat, _))) => {
                let link: Option<Link> = self.chance(70).then(|| b"name".as_slice().into());
                let set = self.table.set_delete(&seat, link.clone(), now);
                let file = self.file(seat.file());
                let expected = match file.opens.iter().find(|open| open.id == seat.open()) {
                    None => Err("no open"),
                    Some(open) if !open.access.has(Access::DELETE) => Err("rights"),
                    Some(_) => {
                        file.pending = link;
                        Ok(())
                    }
                };
                assert_eq!(set.map_err(|error| name(&error)), expected);
            }
            (95, Some((seat, _))) => {
                let closed = self.table.force_close(seat.file(), seat.open(), now);
                assert_eq!(closed.is_ok(), self.file(seat.file()).has(seat.open()));
                if let Ok(deletion) = closed {
                    self.file(seat.file()).evict(seat.open());
                    self.collect(seat.file(), deletion);
                }
            }
            (96, _) => self.close_client(),
            (97, _) if !self.tasks.is_empty() => {
                let at = self.random.random_range(0..self.tasks.len());
                self.drop_task(at);
            }
            (98, _) => {
                let (directory, mut waiting) = (key(self.random.random_range(0..3)), Waiting::new());
                assert!(self.table.poll_changed(directory, None, &mut waiting, now, Waker::noop()).is_ready());
                self.file(directory).contend(Deed::Entries, None, now);
            }
            _ => {
                for deletion in std::mem::take(&mut self.deletions) {
                    let file = self.file(deletion.file());
                    assert!(std::mem::take(&mut file.deleting));
                    file.pending = None;
                    self.table.deleted(deletion, now);
                }
            }
        }
        self.advance();
        self.run();
        self.compare();
    }

    fn advance(&mut self) {
        self.files.values_mut().for_each(MFile::advance);
    }

    fn unlock(&mut self, seat: &Seat, client: ClientId) {
        let now = self.now;
        let mut request = self.lock_request();
        // What is held, mostly: a range drawn at random is seldom one that NT has locked.
        let nt: Vec<ByteRange> = self
            .file(seat.file())
            .nt
            .iter()
            .filter(|(open, ..)| *open == seat.open())
            .map(|(_, range, _)| *range)
            .collect();
        if request.by == LockBy::Nt
            && self.chance(80)
            && let Some(range) = self.pick(&nt)
        {
            request.range = range;
        }
        let is_open = self.file(seat.file()).has(seat.open());
        if let LockBy::Posix(key) = request.by
            && self.chance(30)
        {
            assert_eq!(self.table.unlock_owner(seat, key, now).is_ok(), is_open);
            let file = self.file(seat.file());
            if is_open {
                file.posix.remove(&LockOwner::Posix(Owner { client, key }));
            }
            return;
        }
        let rivals = self.file(seat.file()).rivals(seat.open(), client, &request);
        let tested = self.table.test_lock(seat, &request);
        assert_eq!(tested.is_ok(), is_open);
        if let Ok(tested) = tested {
            assert_eq!(tested.is_some(), !rivals.is_empty());
            assert!(tested.is_none_or(|held| rivals.contains(&held.owner)));
        }
        let unlocked = self.table.unlock(seat, request.by, request.range, now);
        let expected = match is_open {
            true => self.file(seat.file()).unlock(seat.open(), client, request.by, request.range),
            false => Err("no open"),
        };
        assert_eq!(unlocked.map_err(|error| name(&error)), expected);
    }

    fn answer(&mut self) {
        let now = self.now;
        let breaking = self.files.iter().flat_map(|(file, model)| {
            let some = model.leases.iter().filter(|lease| lease.breaking.is_some());
            some.map(|lease| (*file, lease.key, lease.breaking.expect("it is").0))
        });
        let breaking: Vec<_> = breaking.collect();
        let Some((file, lease, told)) = self.pick(&breaking) else { return };
        if self.chance(5) {
            self.table.give_up(file, lease, now).expect("it is there");
            let lease = self.file(file).leases.iter_mut().find(|one| one.key == lease).expect("it is there");
            (lease.held, lease.breaking) = (Caching::NONE, None);
            return;
        }
        let any = [Caching::NONE, Caching::READ, Caching::READ_WRITE, Caching::READ_HANDLE, Caching::ALL];
        let state = if self.chance(70) { told } else { self.pick(&any).expect("some") };
        let answered = self.table.answer(file, lease, state, now).map_err(|error| name(&error));
        assert_eq!(answered, self.file(file).answer(lease, state, now), "{lease:?} keeps {state}");
    }

    fn expire(&mut self) {
        let now = self.now;
        let expired = self.table.expire(now);
        assert!(self.table.next_deadline().is_none_or(|next| next > now));
        let mut deleted: Vec<FileKey> = expired.deletions.iter().map(Deletion::file).collect();
        deleted.sort();
        let mut expected = Vec::new();
        for (key, file) in &mut self.files {
            file.expire(now);
            file.expire_kept(now);
            expected.extend(file.last_close().then_some(*key));
        }
        assert_eq!(deleted, expected);
        self.deletions.extend(expired.deletions);
        self.kept.retain(|(open, ..)| self.files.values().any(|file| file.has(*open)));
    }

    fn put_aside(&mut self, seat: &Seat, client: ClientId) {
        let keep = Keep {
            key: self.random.random_range(0..2),
            deadline: self.now + seconds(self.random.random_range(1..100)),
            sticky: self.chance(50),
        };
        self.seats.retain(|(one, _)| one.open() != seat.open());
        self.drop_tasks_of(seat.open(), false);
        let kept = self.table.put_aside(seat, keep, self.now);
        let Some(open) = self.file(seat.file()).open_mut(seat.open()) else {
            return assert!(kept.is_err());
        };
        assert_eq!(kept, Ok(()));
        open.aside = Some((keep.key, keep.deadline, keep.sticky));
        self.kept.push((seat.open(), client, keep.key));
    }

    fn take_back(&mut self) {
        let Some((open, client, key)) = self.pick(&self.kept.clone()) else { return };
        let (client_given, key_given) = (ClientId(self.random.random_range(0..3)), self.random.random_range(0..2));
        let taken = self.table.take_back(open, client_given, key_given, self.told.clone(), self.now);
        let place = self.files.values_mut().find(|file| file.has(open));
        let model = place.and_then(|file| {
            let found = file.open_mut(open).expect("it has it");
            let fits = client_given == client && key_given == key;
            fits.then(|| found.aside = None)
        });
        assert_eq!(taken.is_ok(), model.is_some());
        if let Ok(opened) = taken {
            self.kept.retain(|(one, ..)| *one != open);
            self.seats.push((opened.seat, client));
        }
    }

    fn close_client(&mut self) {
        let client = ClientId(self.random.random_range(0..3));
        let deletions = self.table.close_client(client, self.now);
        let mut deleted: Vec<FileKey> = deletions.iter().map(Deletion::file).collect();
        deleted.sort();
        let mut expected = Vec::new();
        for (key, file) in &mut self.files {
            let its = file.opens.iter().filter(|open| open.client == client && open.aside.is_none());
            let its: Vec<OpenId> = its.map(|open| open.id).collect();
            its.into_iter().for_each(|open| file.remove(open));
            expected.extend(file.last_close().then_some(*key));
        }
        assert_eq!(deleted, expected);
        self.deletions.extend(deletions);
    }

    /// Runs all tasks that were woken.
    fn run(&mut self) {
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

    fn compare(&mut self) {
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

    /// All ends: nothing is left in the table.
    fn end(mut self) -> BTreeSet<&'static str> {
        self.tasks.clear();
        self.now += seconds(1000);
        drop(self.table.expire(self.now));
        (0..3).for_each(|client| drop(self.table.close_client(ClientId(client), self.now)));
        for deletion in std::mem::take(&mut self.deletions) {
            self.table.deleted(deletion, self.now);
        }
        self.seen
    }
}

fn outcome_of(polled: Poll<Result<(), Error>>) -> Outcome {
    match polled {
        Poll::Pending => Outcome::Wait,
        Poll::Ready(Ok(())) => Outcome::Done,
        Poll::Ready(Err(error)) => Outcome::Refused(name(&error)),
    }
}

#[test]
fn random_histories_are_as_the_model_says() {
    let seen = std::sync::Mutex::new(BTreeMap::<&'static str, u32>::new());
    holdfast_harness::over_seeds(3000, |seed| {
        let mut world = World::new(seed);
        (0..ACTS).for_each(|_| world.step());
        let mut seen = seen.lock().unwrap();
        world.end().into_iter().for_each(|one| *seen.entry(one).or_default() += 1);
    });
    let seen = seen.into_inner().unwrap();
    println!("histories that met each end: {seen:?}");
    if std::env::var_os("HOLDFAST_SEED").is_none() && std::env::var_os("HOLDFAST_SEEDS").is_none() {
        let all = ["done", "wait", "delete first", "sharing", "pending", "not yet", "locked", "deadlock", "cancelled"];
        all.iter().for_each(|one| assert!(seen.get(one).is_some_and(|count| *count > 20), "{one} is met: {seen:?}"));
    }
}
