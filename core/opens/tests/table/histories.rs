//! Random histories on the table and on the model at once: clients that open, read, write, lock, answer late or never,
//! go away and come back, while time passes. After each act both hold the same, whatever could go on was woken, and what
//! was not woken could not.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use holdfast_opens::*;
use rand::Rng;

use crate::model::{Deed, name};
use crate::support::seconds;
use crate::world::{Job, Theme, World, key, outcome_of};

const ACTS: usize = 120;

impl World {
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
                let acts = [Act::Read(range), Act::Write(range), Act::Write(range), Act::Rename, Act::Delete];
                let act = match range.filter(|_| self.chance(30)) {
                    Some(range) => self.pick(&[Act::PosixRead(range), Act::PosixWrite(range)]),
                    None => self.pick(&acts),
                };
                let act = act.expect("some");
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

    /// All ends, and nothing is left in the table.
    fn end(mut self) -> BTreeSet<&'static str> {
        self.tasks.clear();
        self.now += seconds(1000);
        self.deletions.extend(self.table.expire(self.now).deletions);
        for client in 0..3 {
            self.deletions.extend(self.table.close_client(ClientId(client), self.now));
        }
        self.table.check();
        std::mem::take(&mut self.deletions).into_iter().for_each(|deletion| self.table.deleted(deletion, self.now));
        assert_eq!((self.table.counts(), self.table.next_deadline()), (Counts::default(), None));
        self.seen
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
