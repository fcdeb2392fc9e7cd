//! Opens that outlive their connection: who gets them back, what ends them, and what waits for them.

use std::sync::Arc;
use std::task::{Poll, Waker};

use holdfast_opens::*;

use crate::support::*;

const READ: Access = Access::READ;
const WRITE: Access = Access::WRITE;

fn keep(sticky: bool) -> Keep {
    Keep { key: 77, deadline: seconds(60), sticky }
}

fn table() -> (Table, Arc<Told>) {
    (Table::new(Settings { first_open: 1 << 40, ..Settings::default() }), Arc::default())
}

#[test]
fn only_who_knows_the_key_gets_an_open_back() {
    let (table, told) = table();
    let opened = open(&table, &with_lease(1, Caching::ALL, request(1, WRITE, &told)));
    let id = opened.seat.open();
    let take = |client, key, now| table.take_back(id, ClientId(client), key, told.clone(), seconds(now));
    assert!(take(1, 77, 0).is_err(), "it was not put aside");
    lock(&table, &opened.seat, LockBy::Nt, range(5, 5), true).expect("free");
    table.put_aside(&opened.seat, keep(false), seconds(0)).expect("open");
    for (client, key) in [(2, 77), (1, 78), (2, 78)] {
        assert_eq!(take(client, key, 1).err(), Some(Error::NoOpen { open: id }));
        assert_eq!(table.opens_of(FILE, 1)[0].kept, Some((seconds(60), false)), "nothing changed");
        table.check();
    }
    let back = take(1, 77, 59).expect("it is its");
    assert_eq!((back.caching, back.seat.open()), (Caching::ALL, id));
    assert_eq!(table.locks_of(FILE, 10).len(), 1);
    assert!(take(1, 77, 59).is_err(), "twice");
    table.check();
    let mut waiting = Waiting::new();
    let begun = table.poll_begin(&back.seat, Act::Write(Some(range(5, 5))), &mut waiting, seconds(59), Waker::noop());
    assert_eq!(begun, Poll::Ready(Ok(())));
}

#[test]
fn time_ends_what_nobody_came_for_and_reports_what_is_to_be_deleted() {
    let (table, told) = table();
    let link: Link = b"name".as_slice().into();
    let opened = open(&table, &OpenRequest { delete_on_close: Some(link), ..request(1, Access::DELETE, &told) });
    table.put_aside(&opened.seat, keep(true), seconds(0)).expect("open");
    assert_eq!(table.next_deadline(), Some(seconds(60)));
    assert!(table.expire(seconds(59)).closed.is_empty());
    let late = table.take_back(opened.seat.open(), ClientId(1), 77, told.clone(), seconds(60));
    assert!(late.is_err(), "the time is over, whether somebody looked or not");
    let expired = table.expire(seconds(60));
    assert_eq!(expired.closed, [(FILE, opened.seat.open())]);
    assert_eq!(*told.closed.lock().unwrap(), [opened.seat.open()]);
    let [deletion] = <[Deletion; 1]>::try_from(expired.deletions).expect("one file goes");
    table.deleted(deletion, seconds(60));
    assert_eq!((table.counts(), table.next_deadline()), (Counts::default(), None));
}

#[test]
fn a_durable_open_gives_way_and_a_persistent_one_is_waited_for() {
    for (sticky, with) in [(false, Caching::NONE), (true, Caching::NONE), (false, Caching::ALL), (true, Caching::ALL)] {
        let (table, told) = table();
        // It is in the way by its share mode, or by what its client may have to write back.
        let share = if with.is_none() { Access::NONE } else { Access::ALL };
        let opened = open(&table, &OpenRequest { share, ..with_lease(1, with, request(1, WRITE, &told)) });
        table.put_aside(&opened.seat, keep(sticky), seconds(0)).expect("open");
        let asks = request(2, READ, &told);
        let answer = ask(&table, &asks, seconds(1));
        if !sticky {
            assert!(matches!(answer, Poll::Ready(Ok(Opening::Opened(_)))), "{answer:?}");
            assert_eq!(*told.closed.lock().unwrap(), [opened.seat.open()]);
            let taken = table.take_back(opened.seat.open(), ClientId(1), 77, told.clone(), seconds(1));
            assert!(taken.is_err());
            table.check();
            continue;
        }
        assert_eq!(
            answer.map(|answer| answer.err()),
            Poll::Ready(Some(Error::NotYet { file: FILE, by: opened.seat.open() }))
        );
        assert!(told.breaks().is_empty(), "there is nobody to tell");
        let waits = OpenRequest { waits_for_kept: true, ..asks };
        let (flag, mut waiting) = (Flag::new(), Waiting::new());
        assert!(table.poll_open(&waits, &mut waiting, seconds(1), &waker(&flag)).is_pending());
        assert_eq!(table.expire(seconds(60)).closed.len(), 1);
        assert!(flag.take());
        assert!(table.poll_open(&waits, &mut waiting, seconds(60), &waker(&flag)).is_ready());
        table.check();
    }
}

#[test]
fn what_a_client_lost_while_it_was_away_it_learns_when_it_comes_back() {
    let (table, told) = table();
    let opened = open(&table, &with_lease(1, Caching::READ_HANDLE, request(1, READ, &told)));
    table.put_aside(&opened.seat, keep(false), seconds(0)).expect("open");
    let writer = open(&table, &request(2, WRITE, &told)).seat;
    let begun = table.poll_begin(&writer, Act::Write(None), &mut Waiting::new(), seconds(0), Waker::noop());
    assert_eq!((begun, told.breaks()), (Poll::Ready(Ok(())), vec![]));
    let back = table.take_back(opened.seat.open(), ClientId(1), 77, told.clone(), seconds(1)).expect("it is its");
    assert_eq!((back.caching, back.epoch), (Caching::NONE, opened.epoch + 1));
}

#[test]
fn what_was_put_aside_and_is_to_be_deleted_is_deleted_before_another_comes_in() {
    let (table, told) = table();
    let link: Link = b"name".as_slice().into();
    let gone = OpenRequest { share: Access::NONE, delete_on_close: Some(link), ..request(1, Access::DELETE, &told) };
    let gone = open(&table, &gone);
    table.put_aside(&gone.seat, keep(false), seconds(0)).expect("open");
    let Poll::Ready(Ok(Opening::DeleteFirst(deletion))) = ask(&table, &request(2, READ, &told), seconds(1)) else {
        panic!("the file is to go first");
    };
    let (flag, mut waiting) = (Flag::new(), Waiting::new());
    let again = table.poll_open(&request(2, READ, &told), &mut waiting, seconds(1), &waker(&flag));
    assert!(matches!(again, Poll::Ready(Err(Error::DeletePending { .. }))));
    table.deleted(deletion, seconds(1));
    open(&table, &request(2, READ, &told));
    table.check();
}

#[test]
fn opens_are_restored_before_the_first_request() {
    let (table, told) = table();
    let record = |open, caching| Restored {
        request: OpenRequest { share: READ.and(Access::DELETE), ..with_lease(4, caching, request(1, WRITE, &told)) },
        open: OpenId(open),
        caching,
        epoch: 9,
        locks: vec![(range(0, 10), true), (range(20, 10), false)],
        keep: keep(true),
    };
    table.restore(&record(5, Caching::ALL), seconds(0)).expect("it is the first");
    assert!(matches!(table.restore(&record(5, Caching::ALL), seconds(0)), Err(Error::Sharing { .. })), "twice");
    assert!(matches!(table.restore(&record(6, Caching::ALL), seconds(0)), Err(Error::Sharing { .. })));
    table.check();
    let before = table.counts();
    assert_eq!((before.opens, before.kept, before.ranges, before.leases), (1, 1, 2, 1));
    assert!(matches!(ask(&table, &request(2, READ, &told), seconds(1)), Poll::Ready(Err(Error::NotYet { .. }))));
    let back = table.take_back(OpenId(5), ClientId(1), 77, told.clone(), seconds(1)).expect("it is its");
    assert_eq!((back.caching, back.epoch), (Caching::ALL, 9));
    assert!(ask(&table, &request(2, READ, &told), seconds(1)).is_pending(), "broken like any other");
    assert_eq!(told.breaks(), [(Caching::ALL, Caching::READ_HANDLE, true)]);
    // Locks of a record that meet those of another: the record is refused whole.
    let mut wrong = record(7, Caching::NONE);
    wrong.request.share = Access::ALL;
    wrong.request.access = READ.and(Access::DELETE);
    wrong.request.delete_on_close = Some(b"name".as_slice().into());
    wrong.locks = vec![(range(100, 1), true), (range(5, 1), true)];
    let (before, _) = (table.counts(), told.breaks());
    assert!(matches!(table.restore(&wrong, seconds(1)), Err(Error::Locked { .. })));
    assert_eq!(table.counts(), before);
    assert!(!table.is_delete_pending(FILE), "a record that is refused deletes nothing");
    assert!(
        open(&table, &OpenRequest { file: FileKey { number: 8, ..FILE }, ..request(1, READ, &told) }).seat.open().0
            >= 1 << 40
    );
    table.check();
}

#[test]
fn an_open_that_came_back_is_told_on_its_new_way() {
    let ((table, before), after) = (table(), Arc::new(Told::default()));
    let opened = open(&table, &with_lease(1, Caching::ALL, request(1, WRITE, &before)));
    table.put_aside(&opened.seat, keep(true), seconds(0)).expect("open");
    let back = table.take_back(opened.seat.open(), ClientId(1), 77, after.clone(), seconds(1)).expect("it is its");
    assert!(ask(&table, &request(2, READ, &before), seconds(1)).is_pending());
    assert!(table.force_close(FILE, back.seat.open(), seconds(1)).expect("open").is_none());
    assert_eq!((before.breaks().len(), after.breaks().len()), (0, 1));
    assert!(before.closed.lock().unwrap().is_empty());
    assert_eq!(*after.closed.lock().unwrap(), [back.seat.open()]);
}

#[test]
fn a_file_whose_last_open_ended_under_an_act_goes_before_another_comes_in() {
    let (table, told) = table();
    let writer = open(&table, &request(1, WRITE, &told)).seat;
    let (act, mut waiting) = (Act::Write(None), Waiting::new());
    assert_eq!(table.poll_begin(&writer, act, &mut waiting, seconds(0), Waker::noop()), Poll::Ready(Ok(())));
    assert!(table.force_close(FILE, writer.open(), seconds(0)).expect("open").is_none());
    let link: Link = b"name".as_slice().into();
    let gone = OpenRequest { delete_on_close: Some(link), ..request(2, Access::DELETE, &told) };
    let gone = open(&table, &with_lease(1, Caching::ALL, gone));
    table.put_aside(&gone.seat, keep(false), seconds(0)).expect("open");
    // What it may have cached is not what the file holds any more, and its client cannot be told.
    assert!(table.poll_end(&writer, act, &mut waiting, seconds(0), Waker::noop()).is_ready());
    assert!(told.closed.lock().unwrap().contains(&gone.seat.open()));
    table.check();
    let Poll::Ready(Ok(Opening::DeleteFirst(deletion))) = ask(&table, &request(3, READ, &told), seconds(0)) else {
        panic!("the file is to go first");
    };
    table.deleted(deletion, seconds(0));
    assert_eq!(table.counts(), Counts::default());
}
