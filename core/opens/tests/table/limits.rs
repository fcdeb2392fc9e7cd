//! Each limit says which it is, and nothing is kept of what it refused.

use std::task::{Poll, Waker};

use holdfast_opens::*;

use crate::support::*;

const READ: Access = Access::READ;

#[track_caller]
fn limited(answer: Poll<Result<Opening, Error>>, expected: Limit) {
    match answer {
        Poll::Ready(Err(Error::Limit { limit, .. })) => assert_eq!(limit, expected),
        other => panic!("{other:?}"),
    }
}

fn on(number: u64, request: OpenRequest) -> OpenRequest {
    OpenRequest { file: FileKey { number, ..FILE }, ..request }
}

#[test]
fn files_and_opens() {
    let settings = Settings { files: 2, opens: 4, opens_of_file: 2, ..Settings::default() };
    let (table, told) = (Table::new(settings), Default::default());
    let asks = |number| ask(&table, &on(number, request(1, READ, &told)), seconds(0));
    let seats: Vec<Seat> = [1, 1, 2].map(|number| open(&table, &on(number, request(1, READ, &told))).seat).into();
    limited(asks(1), Limit::OpensOfFile);
    limited(asks(3), Limit::Files);
    table.check();
    let last = open(&table, &on(2, request(1, READ, &told))).seat;
    drop(table.close(&seats[0], seconds(0)));
    drop(table.close(&seats[1], seconds(0)));
    assert_eq!((table.counts().files, table.counts().opens), (1, 2));
    [3, 3].iter().for_each(|number| drop(open(&table, &on(*number, request(1, READ, &told)))));
    drop(table.close(&last, seconds(0)));
    table.check();
    let table = Table::new(Settings { opens: 1, ..Settings::default() });
    open(&table, &request(1, READ, &told));
    limited(ask(&table, &on(9, request(1, READ, &told)), seconds(0)), Limit::Opens);
    assert_eq!(table.counts().files, 1, "the entry that was made for it is gone");
    table.check();
}

#[test]
fn ranges() {
    let (table, told) =
        (Table::new(Settings { ranges: 5, ranges_of_owner: 3, ..Settings::default() }), Default::default());
    let seats = [1, 2].map(|client| open(&table, &request(client, READ, &told)).seat);
    let limit = |answer: Result<(), Error>| match answer {
        Err(Error::Limit { limit, .. }) => limit,
        other => panic!("{other:?}"),
    };
    (0..3).for_each(|at| lock(&table, &seats[0], LockBy::Nt, range(at * 10, 5), true).expect("free"));
    assert_eq!(limit(lock(&table, &seats[0], LockBy::Nt, range(50, 5), true)), Limit::RangesOfOwner);
    lock(&table, &seats[1], LockBy::Posix(1), range(100, 100), true).expect("free");
    // Unlocking its middle makes two of one, and so does another mode there three.
    table.unlock(&seats[1], LockBy::Posix(1), range(150, 10), seconds(0)).expect("there is room for one more");
    assert_eq!(limit(lock(&table, &seats[1], LockBy::Posix(1), range(110, 10), false)), Limit::RangesOfOwner);
    assert_eq!(table.locks_of(FILE, 10).len(), 5, "nothing changed");
    assert_eq!(limit(lock(&table, &seats[1], LockBy::Ofd, range(1000, 1), false)), Limit::Ranges);
    table.check();
}

#[test]
fn a_range_more_than_there_may_be_is_refused_before_anything_is_cut() {
    let (table, told) = (Table::new(Settings { ranges: 2, ..Settings::default() }), Default::default());
    let seat = open(&table, &request(1, READ, &told)).seat;
    lock(&table, &seat, LockBy::Posix(1), range(0, 100), true).expect("free");
    lock(&table, &seat, LockBy::Posix(2), range(200, 100), true).expect("free");
    let cut = table.unlock(&seat, LockBy::Posix(1), range(50, 1), seconds(0));
    assert!(matches!(cut, Err(Error::Limit { limit: Limit::Ranges, .. })));
    let whole: Vec<_> = table.locks_of(FILE, 9).iter().map(|lock| lock.range).collect();
    assert_eq!(whole, [range(0, 100), range(200, 100)]);
    table.unlock(&seat, LockBy::Posix(1), range(0, 50), seconds(0)).expect("it stays one");
    lock(&table, &seat, LockBy::Posix(1), range(0, 100), false).expect("it stays one");
    table.check();
}

#[test]
fn where_there_are_as_many_leases_as_there_may_be_more_are_not_granted() {
    let (table, told) = (Table::new(Settings { leases: 1, ..Settings::default() }), Default::default());
    let one = open(&table, &with_lease(1, Caching::READ, request(1, READ, &told)));
    let other = open(&table, &with_lease(2, Caching::READ, request(1, READ, &told)));
    assert_eq!((one.caching, other.caching), (Caching::READ, Caching::NONE));
    let again = open(&table, &with_lease(1, Caching::READ, request(1, READ, &told)));
    assert_eq!(again.caching, Caching::READ);
    [one, again].iter().for_each(|opened| drop(table.close(&opened.seat, seconds(0))));
    assert_eq!(open(&table, &with_lease(3, Caching::READ, request(1, READ, &told))).caching, Caching::READ);
    table.check();
}

#[test]
fn waits_and_names() {
    let (table, told) = (Table::new(Settings { waits_of_file: 1, ..Settings::default() }), Default::default());
    let holder = open(&table, &with_lease(1, Caching::ALL, request(1, READ.and(Access::DELETE), &told)));
    let mut waiting = Waiting::new();
    let asks = request(2, READ, &told);
    assert!(table.poll_open(&asks, &mut waiting, seconds(0), Waker::noop()).is_pending());
    assert!(table.poll_open(&asks, &mut waiting, seconds(0), Waker::noop()).is_pending(), "it is the same wait");
    limited(ask(&table, &asks, seconds(0)), Limit::Waits);
    drop(waiting);
    assert!(ask(&table, &asks, seconds(0)).is_pending());
    let long: Link = vec![0; 5000].into();
    let set = table.set_delete(&holder.seat, Some(long.clone()), seconds(0));
    assert!(matches!(set, Err(Error::Limit { limit: Limit::Link, .. })));
    let closing = OpenRequest { delete_on_close: Some(long), ..request(2, Access::DELETE, &told) };
    limited(ask(&table, &on(2, closing), seconds(0)), Limit::Link);
    let lock = |waiting: &mut Waiting| {
        let request = LockRequest { by: LockBy::Nt, range: range(0, 1), exclusive: true };
        table.poll_lock(&holder.seat, &request, true, waiting, seconds(0), Waker::noop())
    };
    assert_eq!(lock(&mut Waiting::new()), Poll::Ready(Ok(())));
    let mut waiting = Waiting::new();
    assert!(lock(&mut waiting).is_pending());
    assert!(matches!(lock(&mut Waiting::new()), Poll::Ready(Err(Error::Limit { limit: Limit::Waits, .. }))));
    table.check();
}
