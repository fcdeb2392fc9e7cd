//! Leases by hand: who is granted what, which act breaks what, and what comes of late, wrong and missing answers.

use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use holdfast_opens::*;

use crate::support::*;

const NONE: Caching = Caching::NONE;
const R: Caching = Caching::READ;
const RW: Caching = Caching::READ_WRITE;
const RH: Caching = Caching::READ_HANDLE;
const RWH: Caching = Caching::ALL;
const READ: Access = Access::READ;
const WRITE: Access = Access::WRITE;

fn key(client: u128, key: u128) -> LeaseKey {
    LeaseKey { client: ClientId(client), name: LeaseName::Key(key) }
}

fn of_kind(kind: LeaseKind, wanted: Caching, request: OpenRequest) -> OpenRequest {
    let key = if kind == LeaseKind::Oplock { None } else { Some(1) };
    OpenRequest { lease: Some(LeaseRequest { key, kind, wanted, parent: None }), ..request }
}

/// What another does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Other {
    Stat,
    Open,
    OpenToWrite,
    Overwrite,
    StatOverwrite,
    Excluded,
    Write,
    Lock,
    Rename,
    Delete,
}

/// Has another do it while a lease of a kind is held. Answers with what the holder is told, and whether it waits.
fn deed(kind: LeaseKind, held: Caching, other: Other) -> (Vec<(Caching, Caching, bool)>, bool) {
    let (table, told, others) = (Table::new(Settings::default()), Arc::new(Told::default()), Arc::default());
    // It is there before, with attributes only where it must not keep the holder from caching.
    let acts = [Other::Write, Other::Lock, Other::Rename, Other::Delete].contains(&other);
    let before = acts.then(|| open(&table, &request(2, Access::NONE, &others)).seat);
    let share = if other == Other::Excluded { READ } else { Access::ALL };
    let opened = open(&table, &OpenRequest { share, ..of_kind(kind, held, request(1, READ, &told)) });
    assert_eq!(opened.caching, held, "{kind:?}");
    let asks = |access, overwrites| {
        ask(&table, &OpenRequest { overwrites, ..request(2, access, &others) }, seconds(0)).is_pending()
    };
    let begins = |act| {
        let seat = before.as_ref().expect("it is open");
        table.poll_begin(seat, act, &mut Waiting::new(), seconds(0), Waker::noop()).is_pending()
    };
    let waits = match other {
        Other::Stat => asks(Access::NONE, false),
        Other::Open => asks(READ, false),
        Other::OpenToWrite => asks(WRITE, false),
        Other::Overwrite => asks(WRITE, true),
        Other::StatOverwrite => asks(Access::NONE, true),
        Other::Excluded => asks(WRITE, false),
        Other::Write => begins(Act::Write(None)),
        Other::Rename => begins(Act::Rename),
        Other::Delete => begins(Act::Delete),
        Other::Lock => {
            let lock = LockRequest { by: LockBy::Nt, range: range(0, 1), exclusive: true };
            let seat = before.as_ref().expect("it is open");
            table.poll_lock(seat, &lock, false, &mut Waiting::new(), seconds(0), Waker::noop()).is_pending()
        }
    };
    table.check();
    (told.breaks(), waits)
}

#[test]
fn each_act_breaks_what_it_must() {
    use LeaseKind::*;
    use Other::*;
    let names = [Rename, Delete];
    let changes = [Write, Lock, Overwrite, StatOverwrite];
    let mut cases: Vec<(LeaseKind, Caching, Other, Option<Caching>, bool)> = Vec::new();
    for kind in [Oplock, Lease] {
        let handle = if kind == Lease { RH } else { R };
        cases.extend([(kind, RWH, Stat, None, false), (kind, RW, Stat, None, false), (kind, R, Open, None, false)]);
        cases.extend([(kind, RWH, Open, Some(handle), true), (kind, RW, Open, Some(R), true)]);
        cases.extend([(kind, RWH, OpenToWrite, Some(handle), true), (kind, R, OpenToWrite, None, false)]);
        cases.extend([(kind, RW, Excluded, None, false), (kind, R, Excluded, None, false)]);
        cases.push((kind, RWH, Excluded, Some(if kind == Lease { RW } else { R }), true));
        for act in changes {
            cases.extend([(kind, RWH, act, Some(NONE), true), (kind, RW, act, Some(NONE), true)]);
            cases.push((kind, R, act, Some(NONE), false));
        }
        for act in names {
            cases.push((kind, RWH, act, Some(if kind == Lease { RW } else { R }), true));
            cases.extend([(kind, RW, act, None, false), (kind, R, act, None, false)]);
        }
    }
    cases.extend([
        (Lease, RH, Open, None, false),
        (Lease, RH, Excluded, Some(R), true),
        (Lease, RH, Write, Some(NONE), false),
    ]);
    cases.extend(names.map(|act| (Lease, RH, act, Some(R), true)));
    // What is delegated comes back whole, and is waited for.
    cases.extend([(Delegation, R, Open, None, false), (Delegation, R, OpenToWrite, Some(NONE), true)]);
    cases.extend([(Delegation, RW, Stat, None, false), (Delegation, RW, Open, Some(NONE), true)]);
    for act in [Write, Lock, Overwrite, Rename, Delete] {
        cases.extend([(Delegation, R, act, Some(NONE), true), (Delegation, RW, act, Some(NONE), true)]);
    }
    for (kind, held, other, left, waits) in cases {
        let answers = kind == Delegation || held != R;
        let expected: Vec<_> = left.into_iter().map(|to| (held, to, answers)).collect();
        assert_eq!(deed(kind, held, other), (expected, waits), "{kind:?} {held} {other:?}");
    }
}

#[test]
fn opens_under_one_key_share_a_lease_that_only_grows() {
    let (table, told) = (Table::new(Settings::default()), Arc::new(Told::default()));
    let ask_for = |wanted, access| open(&table, &with_lease(5, wanted, request(1, access, &told)));
    let first = ask_for(R, READ);
    let second = ask_for(RWH, WRITE);
    assert_eq!((first.caching, first.epoch, second.caching, second.epoch), (R, 1, RWH, 2));
    let third = ask_for(R, READ);
    assert_eq!((third.caching, third.epoch), (RWH, 2), "nothing is taken back by asking for less");
    for act in [Act::Write(None), Act::Rename] {
        let begun = table.poll_begin(&first.seat, act, &mut Waiting::new(), seconds(0), Waker::noop());
        assert_eq!((begun, told.breaks()), (Poll::Ready(Ok(())), vec![]), "its own");
    }
    let leases = table.leases_of(FILE, 10);
    assert_eq!((leases.len(), leases[0].opens, leases[0].held), (1, 3, RWH));
    // The same key of another client is another lease.
    assert!(ask(&table, &with_lease(5, RWH, request(2, READ, &told)), seconds(0)).is_pending());
    assert_eq!(table.leases_of(FILE, 10)[0].breaking.map(|(to, _)| to), Some(RH));
    [first, second, third].iter().for_each(|opened| drop(table.close(&opened.seat, seconds(0))));
    let other = open(&table, &with_lease(5, RWH, request(2, READ, &told)));
    assert_eq!(other.caching, RWH);
    table.check();
}

#[test]
fn who_caches_what_beside_others() {
    let (table, told) = (Table::new(Settings::default()), Arc::new(Told::default()));
    let granted = |client, kind, wanted, access| {
        let opened = open(&table, &of_kind(kind, wanted, request(client, access, &told)));
        table.close(&opened.seat, seconds(0)).expect("open");
        opened.caching
    };
    open(&table, &request(9, Access::NONE, &told));
    assert_eq!(granted(1, LeaseKind::Lease, RWH, WRITE), RWH, "attributes are in nobody's way");
    let reader = open(&table, &request(9, READ, &told));
    assert_eq!(granted(1, LeaseKind::Lease, RWH, WRITE), RH);
    assert_eq!(granted(1, LeaseKind::Lease, RW, WRITE), R);
    assert_eq!(granted(1, LeaseKind::Oplock, RWH, WRITE), R);
    assert_eq!(granted(1, LeaseKind::Delegation, RW, READ), R);
    assert_eq!(granted(1, LeaseKind::DirectoryLease, RWH, READ), RH);
    let writer = open(&table, &request(9, WRITE, &told));
    assert_eq!(granted(1, LeaseKind::Delegation, RW, READ), NONE, "somebody writes");
    assert_eq!(granted(1, LeaseKind::Lease, RH, READ), RH, "that is told when it happens");
    lock(&table, &writer.seat, LockBy::Nt, range(0, 1), true).expect("free");
    assert_eq!(granted(1, LeaseKind::Lease, RH, READ), NONE, "whoever reads from a cache does not see locks");
    table.close(&writer.seat, seconds(0)).expect("open");
    table.close(&reader.seat, seconds(0)).expect("open");
    assert_eq!(granted(1, LeaseKind::Oplock, RWH, WRITE), RWH);
}

#[test]
fn answers_late_wrong_and_twice() {
    let (table, told) = (Table::new(Settings::default()), Arc::new(Told::default()));
    let holder = open(&table, &with_lease(5, RWH, request(1, WRITE, &told)));
    let answer = |state, now| table.answer(FILE, key(1, 5), state, seconds(now));
    assert!(answer(NONE, 0).is_err(), "nothing is broken");
    let (flag, mut waiting) = (Flag::new(), Waiting::new());
    let reads = request(2, READ, &told);
    let mut poll = |request: &OpenRequest, now| table.poll_open(request, &mut waiting, seconds(now), &waker(&flag));
    assert!(poll(&reads, 0).is_pending());
    assert_eq!(told.breaks(), [(RWH, RH, true)]);
    assert!(poll(&reads, 1).is_pending());
    assert_eq!(told.breaks(), [], "it is told once");
    // While it is being broken, more is asked for, and it is granted nothing.
    assert!(ask(&table, &OpenRequest { overwrites: true, ..request(3, WRITE, &told) }, seconds(2)).is_pending());
    let own = open(&table, &with_lease(5, RWH, request(1, READ, &told)));
    assert!(own.is_breaking && own.caching == RWH);
    assert!(answer(RW, 3).is_err() && answer(RWH, 3).is_err() && answer(Caching::HANDLE, 3).is_err());
    assert!(!flag.take());
    assert_eq!(answer(RH, 3), Ok(RH));
    assert_eq!(told.breaks(), [(RH, NONE, true)], "what was asked meanwhile");
    assert!(flag.take());
    assert!(matches!(poll(&reads, 3), Poll::Ready(Ok(Opening::Opened(_)))));
    assert_eq!(answer(NONE, 4), Ok(NONE));
    assert!(answer(NONE, 4).is_err(), "twice");
    assert_eq!(table.leases_of(FILE, 1)[0].epoch, 3);
    [holder, own].iter().for_each(|opened| drop(table.close(&opened.seat, seconds(4))));
    table.check();
}

#[test]
fn who_does_not_answer_loses_all_and_is_told() {
    let (table, told) = (Table::new(Settings::default()), Arc::new(Told::default()));
    let holder = open(&table, &with_lease(5, RWH, request(1, WRITE, &told)));
    let (flag, mut waiting) = (Flag::new(), Waiting::new());
    let mut poll = |now| table.poll_open(&request(2, READ, &told), &mut waiting, seconds(now), &waker(&flag));
    assert!(poll(10).is_pending());
    assert_eq!(table.next_deadline(), Some(seconds(45)));
    assert_eq!(table.expire(seconds(44)).revoked, 0);
    assert!(!flag.take());
    assert_eq!(table.expire(seconds(45)).revoked, 1);
    assert!(flag.take());
    assert_eq!(told.breaks(), [(RWH, RH, true), (RWH, NONE, false)]);
    assert!(poll(45).is_ready());
    assert!(table.answer(FILE, key(1, 5), RH, seconds(46)).is_err(), "too late");
    assert_eq!((table.next_deadline(), table.leases_of(FILE, 1)[0].held), (None, NONE));
    // An open that asks after the time does not need the timer.
    table.close(&holder.seat, seconds(46)).expect("open");
    let file = FileKey { number: 99, ..FILE };
    open(&table, &OpenRequest { file, ..with_lease(5, RWH, request(1, WRITE, &told)) });
    let asks = OpenRequest { file, ..request(2, READ, &told) };
    assert!(ask(&table, &asks, seconds(50)).is_pending());
    assert!(ask(&table, &asks, seconds(84)).is_pending());
    assert!(ask(&table, &asks, seconds(85)).is_ready());
    table.check();
}

#[test]
fn a_change_breaks_what_appeared_while_it_was_made() {
    let (table, told, others) = (Table::new(Settings::default()), Arc::new(Told::default()), Arc::default());
    let writer = open(&table, &request(1, WRITE, &told)).seat;
    let begin = |act| table.poll_begin(&writer, act, &mut Waiting::new(), seconds(0), Waker::noop());
    let end = |act| table.poll_end(&writer, act, &mut Waiting::new(), seconds(0), Waker::noop());
    assert_eq!(begin(Act::Write(None)), Poll::Ready(Ok(())));
    let reader = open(&table, &with_lease(1, RH, request(2, READ, &others)));
    assert_eq!((reader.caching, others.breaks()), (RH, vec![]));
    assert_eq!(end(Act::Write(None)), Poll::Ready(()));
    assert_eq!(others.breaks(), [(RH, NONE, true)]);
    assert_eq!(end(Act::Write(None)), Poll::Ready(()));
    assert_eq!(others.breaks(), [], "once");
    table.answer(FILE, key(2, 1), NONE, seconds(0)).expect("it is asked");
    assert_eq!((begin(Act::Read(None)), end(Act::Read(None))), (Poll::Ready(Ok(())), Poll::Ready(())));
}

#[test]
fn an_oplock_of_level_two_is_lost_by_its_own_write_too() {
    let (table, told) = (Table::new(Settings::default()), Arc::new(Told::default()));
    let opened = open(&table, &with_oplock(R, request(1, WRITE, &told)));
    let begun = table.poll_begin(&opened.seat, Act::Write(None), &mut Waiting::new(), seconds(0), Waker::noop());
    assert_eq!((begun, told.breaks()), (Poll::Ready(Ok(())), vec![(R, NONE, false)]));
    let opened = open(
        &table,
        &OpenRequest { file: FileKey { number: 3, ..FILE }, ..with_oplock(RWH, request(1, WRITE, &told)) },
    );
    let begun = table.poll_begin(&opened.seat, Act::Write(None), &mut Waiting::new(), seconds(0), Waker::noop());
    assert_eq!((begun, told.breaks()), (Poll::Ready(Ok(())), vec![]));
}

#[test]
fn changes_of_a_directory_spare_the_client_that_makes_them() {
    let (table, told) = (Table::new(Settings::default()), Arc::new(Told::default()));
    for client in [1, 2] {
        let opened = open(&table, &of_kind(LeaseKind::DirectoryLease, RH, request(client, READ, &told)));
        assert_eq!(opened.caching, RH);
    }
    let change = |by| table.poll_changed(FILE, by, &mut Waiting::new(), seconds(0), Waker::noop());
    assert!(change(Some(key(1, 1))).is_ready());
    let broken: Vec<_> = told.notices.lock().unwrap().drain(..).map(|notice| (notice.client, notice.to)).collect();
    assert_eq!(broken, [(ClientId(2), NONE)]);
    assert!(
        table
            .poll_changed(FileKey { number: 1000, ..FILE }, None, &mut Waiting::new(), seconds(0), Waker::noop())
            .is_ready()
    );
    assert!(change(None).is_ready());
    assert_eq!(told.breaks(), [(RH, NONE, true)]);
    table.check();
}

#[test]
fn a_delegation_is_given_back_unasked() {
    let (table, told) = (Table::new(Settings::default()), Arc::new(Told::default()));
    let opened = open(&table, &of_kind(LeaseKind::Delegation, RW, request(1, READ, &told)));
    assert_eq!(opened.caching, RW);
    table.give_up(FILE, key(1, 1), seconds(0)).expect("it has one");
    assert!(ask(&table, &request(2, WRITE, &told), seconds(0)).is_ready());
    assert_eq!(told.breaks(), []);
    assert!(table.give_up(FILE, key(2, 1), seconds(0)).is_err());
    table.check();
}

#[test]
fn a_lease_that_is_being_broken_is_granted_nothing() {
    let (table, told) = (Table::new(Settings::default()), Arc::new(Told::default()));
    let other = open(&table, &request(2, Access::NONE, &told)).seat;
    let ask_for = |wanted| open(&table, &with_lease(5, wanted, request(1, WRITE, &told)));
    assert_eq!(ask_for(RH).caching, RH);
    let begin = || table.poll_begin(&other, Act::Rename, &mut Waiting::new(), seconds(0), Waker::noop());
    assert!(begin().is_pending());
    let more = ask_for(RWH);
    assert_eq!((more.caching, more.is_breaking), (RH, true));
    assert_eq!(table.answer(FILE, key(1, 5), R, seconds(0)), Ok(R));
    assert_eq!(begin(), Poll::Ready(Ok(())));
    assert_eq!(ask_for(RWH).caching, RWH, "as nobody else uses the data");
}

/// What somebody does, with whether they have to wait.
type Deed = Box<dyn FnMut(&Table) -> bool + Send>;

/// In the middle of being told of a break, sees what becomes of what others do.
struct Amid {
    table: Arc<Table>,
    acts: Mutex<Vec<Deed>>,
    waits: Mutex<Vec<bool>>,
}

impl Recall for Amid {
    fn broken(&self, _: &Notice) {
        let waits = self.acts.lock().unwrap().iter_mut().map(|act| act(&self.table)).collect();
        *self.waits.lock().unwrap() = waits;
    }

    fn closed(&self, _: FileKey, _: OpenId) {}
}

#[test]
fn nobody_is_answered_while_a_break_that_another_decided_on_is_not_sent() {
    let (table, told) = (Arc::new(Table::new(Settings::default())), Arc::default());
    let amid = Arc::new(Amid { table: table.clone(), acts: Mutex::default(), waits: Mutex::default() });
    let [first, second] = [1, 2].map(|client| open(&table, &request(client, WRITE, &told)).seat);
    let holder = OpenRequest { recall: amid.clone(), ..with_lease(1, R, request(3, READ, &told)) };
    assert_eq!(open(&table, &holder).caching, R);
    let flags: Vec<Arc<Flag>> = (0..3).map(|_| Flag::new()).collect();
    let wakers: Vec<Waker> = flags.iter().map(waker).collect();
    let waiting: Vec<Arc<Mutex<Waiting>>> = (0..3).map(|_| Arc::default()).collect();
    let lock = LockRequest { by: LockBy::Nt, range: range(0, 1), exclusive: true };
    let act = |at: usize| {
        let (waiting, waker, seat) = (waiting[at].clone(), wakers[at].clone(), second.clone());
        move |table: &Table| {
            let waiting = &mut waiting.lock().unwrap();
            match at {
                0 => table.poll_end(&seat, Act::Write(None), waiting, seconds(0), &waker).is_pending(),
                1 => table.poll_lock(&seat, &lock, false, waiting, seconds(0), &waker).is_pending(),
                _ => table.poll_changed(FILE, None, waiting, seconds(0), &waker).is_pending(),
            }
        }
    };
    amid.acts.lock().unwrap().extend((0..3).map(|at| Box::new(act(at)) as Deed));
    let begun = table.poll_begin(&first, Act::Write(None), &mut Waiting::new(), seconds(0), Waker::noop());
    assert_eq!(begun, Poll::Ready(Ok(())), "its own break is sent when it returns");
    assert_eq!(*amid.waits.lock().unwrap(), [true; 3]);
    for (at, flag) in flags.iter().enumerate() {
        assert!(flag.take(), "{at} was woken");
        assert!(!act(at)(&table), "{at} is answered");
    }
    amid.acts.lock().unwrap().clear();
    table.check();
}
