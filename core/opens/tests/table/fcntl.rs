//! Byte ranges by hand: what POSIX makes of ranges that meet, what NT does not, how each sees the other, who waits.

use std::task::{Poll, Waker};

use holdfast_opens::*;

use crate::support::*;

const WRITES: bool = true;
const READS: bool = false;

fn table() -> (Table, Vec<Seat>) {
    let (table, told) = (Table::new(Settings::default()), Default::default());
    let seats = (1..=3).map(|client| open(&table, &request(client, Access::READ.and(Access::WRITE), &told)).seat);
    let seats = seats.collect();
    (table, seats)
}

/// First and last bytes and mode of all ranges.
fn held(table: &Table) -> Vec<(u64, u64, bool)> {
    table.check();
    let locks = table.locks_of(FILE, 1000);
    locks.iter().map(|lock| (lock.range.start(), lock.range.start() + lock.range.len() - 1, lock.exclusive)).collect()
}

/// What is done to bytes `first` to `last`: locked in a mode, or unlocked.
type Step = (u64, u64, Option<bool>);
/// What is done, and what is held then.
type Case = (&'static [Step], &'static [(u64, u64, bool)]);

#[test]
fn ranges_of_posix_are_cut_and_joined() {
    const R: Option<bool> = Some(READS);
    const W: Option<bool> = Some(WRITES);
    const FREE: Option<bool> = None;
    const CASES: &[Case] = &[
        (&[(10, 19, W), (20, 29, W)], &[(10, 29, WRITES)]),
        (&[(20, 29, W), (10, 19, W)], &[(10, 29, WRITES)]),
        (&[(10, 19, W), (21, 29, W)], &[(10, 19, WRITES), (21, 29, WRITES)]),
        (&[(10, 19, W), (15, 29, W)], &[(10, 29, WRITES)]),
        (&[(10, 19, W), (12, 14, W)], &[(10, 19, WRITES)]),
        (&[(10, 19, W), (20, 29, R)], &[(10, 19, WRITES), (20, 29, READS)]),
        (&[(10, 29, W), (15, 19, R)], &[(10, 14, WRITES), (15, 19, READS), (20, 29, WRITES)]),
        (&[(10, 29, W), (10, 19, R)], &[(10, 19, READS), (20, 29, WRITES)]),
        (&[(10, 29, W), (20, 29, R)], &[(10, 19, WRITES), (20, 29, READS)]),
        (&[(10, 29, W), (5, 35, R)], &[(5, 35, READS)]),
        (&[(0, 9, R), (10, 19, W), (20, 29, R), (10, 19, R)], &[(0, 29, READS)]),
        (&[(0, 9, R), (20, 29, R), (5, 24, W)], &[(0, 4, READS), (5, 24, WRITES), (25, 29, READS)]),
        (&[(10, 29, W), (15, 19, FREE)], &[(10, 14, WRITES), (20, 29, WRITES)]),
        (&[(10, 29, W), (0, 99, FREE)], &[]),
        (&[(10, 19, W), (30, 39, W), (15, 34, FREE)], &[(10, 14, WRITES), (35, 39, WRITES)]),
        (&[(10, 19, W), (0, 9, FREE), (20, 99, FREE)], &[(10, 19, WRITES)]),
        (&[(0, i64::MAX as u64, R), (100, 100, FREE)], &[(0, 99, READS), (101, i64::MAX as u64, READS)]),
        (&[(1, 1, R), (3, 3, R), (5, 5, R), (7, 7, R), (2, 6, R)], &[(1, 7, READS)]),
        (&[(1, 1, W), (3, 3, W), (5, 5, W), (7, 7, W), (2, 6, R)], &[(1, 1, WRITES), (2, 6, READS), (7, 7, WRITES)]),
        (&[(5, 9, W), (0, 4, W), (10, 14, R), (0, 14, FREE)], &[]),
    ];
    for by in [LockBy::Posix(7), LockBy::Ofd] {
        for (steps, expected) in CASES {
            let (table, seats) = table();
            for (first, last, mode) in *steps {
                let range = ByteRange::inclusive(*first, *last).expect("it fits");
                match mode {
                    Some(exclusive) => lock(&table, &seats[0], by, range, *exclusive).expect("its own"),
                    None => table.unlock(&seats[0], by, range, seconds(0)).expect("its own"),
                }
            }
            assert_eq!(held(&table), *expected, "{by:?} {steps:?}");
            assert_eq!(table.counts().ranges, expected.len());
        }
    }
}

#[test]
fn owners_exclude_each_other_and_are_told_who_it_is() {
    let (table, seats) = table();
    lock(&table, &seats[0], LockBy::Posix(1), range(0, 100), READS).expect("free");
    lock(&table, &seats[1], LockBy::Posix(1), range(50, 100), READS).expect("shared");
    let asks = LockRequest { by: LockBy::Posix(2), range: range(120, 10), exclusive: WRITES };
    let met = table.test_lock(&seats[0], &asks).expect("open").expect("in the way");
    let owner = LockOwner::Posix(Owner { client: ClientId(2), key: 1 });
    assert_eq!((met.owner, met.range, met.exclusive), (owner, range(50, 100), READS));
    assert_eq!(table.test_lock(&seats[1], &LockRequest { by: LockBy::Posix(1), ..asks }), Ok(None));
    assert!(matches!(lock(&table, &seats[0], LockBy::Posix(1), range(50, 1), WRITES), Err(Error::Locked { .. })));
    // A process closes one of its handles.
    table.unlock_owner(&seats[1], 1, seconds(0)).expect("open");
    lock(&table, &seats[0], LockBy::Posix(1), range(50, 1), WRITES).expect("free");
    assert_eq!(held(&table), [(0, 49, READS), (50, 50, WRITES), (51, 99, READS)]);
    // The last open of a client takes what its owners hold along.
    table.close(&seats[0], seconds(0)).expect("open");
    assert_eq!(held(&table), []);
}

#[test]
fn locks_of_nt_lie_one_over_the_other_and_go_as_they_came() {
    let (table, seats) = table();
    let (a, b) = (&seats[0], &seats[1]);
    lock(&table, a, LockBy::Nt, range(10, 10), WRITES).expect("free");
    lock(&table, a, LockBy::Nt, range(10, 10), READS).expect("over its own exclusive one");
    assert!(lock(&table, a, LockBy::Nt, range(15, 1), WRITES).is_err(), "not even its own");
    assert!(lock(&table, b, LockBy::Nt, range(19, 1), READS).is_err());
    let not_locked = |range: ByteRange| table.unlock(a, LockBy::Nt, range, seconds(0));
    assert!(matches!(not_locked(range(10, 5)), Err(Error::NotLocked { .. })));
    table.unlock(a, LockBy::Nt, range(10, 10), seconds(0)).expect("the exclusive one first");
    assert_eq!(held(&table), [(10, 19, READS)]);
    lock(&table, b, LockBy::Nt, range(19, 1), READS).expect("shared");
    table.unlock(a, LockBy::Nt, range(10, 10), seconds(0)).expect("the shared one");
    assert!(matches!(not_locked(range(10, 10)), Err(Error::NotLocked { .. })));
    // Empty ranges: within another they are in the way, at its ends and by themselves not.
    table.unlock(b, LockBy::Nt, range(19, 1), seconds(0)).expect("locked");
    lock(&table, a, LockBy::Nt, range(10, 0), WRITES).expect("free");
    lock(&table, b, LockBy::Nt, range(10, 0), WRITES).expect("empty ranges do not meet");
    lock(&table, b, LockBy::Nt, range(10, 0), READS).expect("not even those of one open");
    table.unlock(b, LockBy::Nt, range(10, 0), seconds(0)).expect("the exclusive one first, however old");
    let left = table.locks_of(FILE, 9).into_iter().filter(|lock| lock.owner == LockOwner::Open(b.open()));
    assert!(left.filter(|lock| lock.range == range(10, 0)).all(|lock| !lock.exclusive));
    table.unlock(b, LockBy::Nt, range(10, 0), seconds(0)).expect("the shared one");
    lock(&table, b, LockBy::Nt, range(10, 5), WRITES).expect("it begins there");
    assert!(lock(&table, b, LockBy::Nt, range(8, 5), WRITES).is_err());
    lock(&table, a, LockBy::Nt, range(0, 0), WRITES).expect("meets nothing");
    assert!(ByteRange::new(u64::MAX - 3, 5).is_err(), "it would wrap");
    lock(&table, a, LockBy::Nt, range(u64::MAX, 1), WRITES).expect("the last byte");
    assert!(lock(&table, b, LockBy::Nt, range(1 << 63, 1 << 63), READS).is_err());
}

#[test]
fn reads_and_writes_of_nt_mind_locks_and_those_of_posix_do_not() {
    let (table, seats) = table();
    let begins =
        |seat: &Seat, act: Act| match table.poll_begin(seat, act, &mut Waiting::new(), seconds(0), Waker::noop()) {
            Poll::Ready(answer) => answer.is_ok(),
            Poll::Pending => panic!("nothing is cached"),
        };
    let (a, b, c) = (&seats[0], &seats[1], &seats[2]);
    lock(&table, a, LockBy::Nt, range(0, 10), WRITES).expect("free");
    lock(&table, a, LockBy::Nt, range(10, 10), READS).expect("free");
    lock(&table, b, LockBy::Posix(1), range(20, 10), WRITES).expect("free");
    lock(&table, b, LockBy::Posix(1), range(30, 10), READS).expect("free");
    // Reads and writes of the holder and of another, in each of the four ranges.
    let cases = [
        (5, [true, true, false, false]),
        (15, [true, false, true, false]),
        (25, [false, false, false, false]),
        (35, [true, false, true, false]),
    ];
    for (at, expected) in cases {
        let bytes = Some(range(at, 1));
        let found = [
            begins(a, Act::Read(bytes)),
            begins(a, Act::Write(bytes)),
            begins(c, Act::Read(bytes)),
            begins(c, Act::Write(bytes)),
        ];
        assert_eq!(found, expected, "at {at}");
    }
    let cases = [
        (range(5, 1), [true, true, false, false]),
        (range(5, 10), [true, false, false, false]),
        (range(15, 10), [true, false, true, false]),
        (range(20, 20), [true; 4]),
    ];
    for (bytes, expected) in cases {
        let found = [
            begins(a, Act::PosixRead(bytes)),
            begins(a, Act::PosixWrite(bytes)),
            begins(c, Act::PosixRead(bytes)),
            begins(c, Act::PosixWrite(bytes)),
        ];
        assert_eq!(found, expected, "programs of POSIX, {bytes:?}");
    }
    assert!(begins(c, Act::PosixRead(range(0, 0))) && begins(c, Act::PosixWrite(range(5, 0))), "of no bytes");
    assert!(begins(c, Act::Write(None)), "advice");
    assert!(begins(c, Act::Read(Some(range(5, 0)))), "nothing is read");
    assert!(begins(c, Act::Write(Some(range(40, 100)))), "behind all");
    lock(&table, b, LockBy::Flock, ByteRange::WHOLE, READS).expect_err("NT has an exclusive one");
    table.unlock(a, LockBy::Nt, range(0, 10), seconds(0)).expect("locked");
    lock(&table, b, LockBy::Flock, ByteRange::WHOLE, READS).expect("only shared ones are left");
    assert!(begins(c, Act::Read(Some(range(100, 1)))) && !begins(c, Act::Write(Some(range(100, 1)))));
    assert!(lock(&table, c, LockBy::Nt, range(100, 1), WRITES).is_err());
    lock(&table, c, LockBy::Posix(1), range(100, 1), WRITES).expect("flock and fcntl do not mind each other");
}

struct Asked {
    request: LockRequest,
    waiting: Waiting,
    flag: std::sync::Arc<Flag>,
}

impl Asked {
    fn new(by: LockBy, range: ByteRange, exclusive: bool) -> Self {
        Self { request: LockRequest { by, range, exclusive }, waiting: Waiting::new(), flag: Flag::new() }
    }

    fn poll(&mut self, table: &Table, seat: &Seat) -> Poll<Result<(), Error>> {
        table.poll_lock(seat, &self.request, true, &mut self.waiting, seconds(0), &waker(&self.flag))
    }
}

#[test]
fn those_who_wait_come_in_order_and_may_give_up() {
    let (table, seats) = table();
    lock(&table, &seats[0], LockBy::Nt, range(0, 10), WRITES).expect("free");
    let mut asked: Vec<Asked> = (0..4).map(|at| Asked::new(LockBy::Nt, range(0, 10), at != 2)).collect();
    for (at, one) in asked.iter_mut().enumerate() {
        assert!(one.poll(&table, &seats[1 + at % 2]).is_pending());
    }
    assert!(asked.iter().all(|one| !one.flag.take()));
    let gone = asked.remove(0);
    drop(gone);
    table.unlock(&seats[0], LockBy::Nt, range(0, 10), seconds(0)).expect("locked");
    assert_eq!(asked.iter().map(|one| one.flag.take()).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(asked[0].poll(&table, &seats[2]), Poll::Ready(Ok(())));
    table.check();
    // What was granted is told to who gives up.
    table.unlock(&seats[2], LockBy::Nt, range(0, 10), seconds(0)).expect("locked");
    assert_eq!(table.cancel(&seats[1], &mut asked[1].waiting, seconds(0)), Some(Ok(())));
    assert_eq!(table.cancel(&seats[1], &mut asked[1].waiting, seconds(0)), None);
    assert_eq!(held(&table), [(0, 9, READS)]);
    // Closing what it was asked through ends a wait.
    table.close(&seats[2], seconds(0)).expect("open");
    assert!(asked[2].flag.take());
    assert_eq!(asked[2].poll(&table, &seats[2]), Poll::Ready(Err(Error::Cancelled { file: FILE })));
    table.check();
}

#[test]
fn owners_that_would_wait_for_each_other_are_told() {
    let (table, seats) = table();
    let other = FileKey { number: 8, ..FILE };
    let told = Default::default();
    let far = open(&table, &OpenRequest { file: other, ..request(1, Access::WRITE, &told) }).seat;
    let (near, third) = (&seats[0], &seats[2]);
    lock(&table, near, LockBy::Posix(1), range(0, 10), WRITES).expect("free");
    lock(&table, &far, LockBy::Posix(2), range(0, 10), WRITES).expect("free");
    lock(&table, third, LockBy::Posix(3), range(50, 10), WRITES).expect("free");
    let mut third_waits = Asked::new(LockBy::Posix(3), range(5, 1), WRITES);
    assert!(third_waits.poll(&table, third).is_pending());
    let mut second_waits = Asked::new(LockBy::Posix(2), range(50, 1), READS);
    assert!(second_waits.poll(&table, near).is_pending());
    // 2 waits for 3, and 3 for 1: that 1 waits for 2, in another file, would close the circle.
    let mut first_waits = Asked::new(LockBy::Posix(1), range(3, 1), READS);
    assert_eq!(first_waits.poll(&table, &far), Poll::Ready(Err(Error::Deadlock { file: other })));
    assert!(Asked::new(LockBy::Ofd, range(3, 1), READS).poll(&table, &far).is_pending(), "only owners are told");
    drop(second_waits);
    let mut first_waits = Asked::new(LockBy::Posix(1), range(3, 1), READS);
    assert!(first_waits.poll(&table, &far).is_pending());
    table.unlock(near, LockBy::Posix(1), range(0, 10), seconds(0)).expect("locked");
    assert!(third_waits.flag.take());
    assert_eq!(third_waits.poll(&table, third), Poll::Ready(Ok(())));
    // Who is in the way changed while it waited.
    let mut second_waits = Asked::new(LockBy::Posix(3), range(3, 1), WRITES);
    assert!(
        second_waits
            .poll(&table, &open(&table, &OpenRequest { file: other, ..request(3, Access::READ, &told) }).seat)
            .is_pending()
    );
    table.check();
}

#[test]
fn a_circle_that_a_lock_closes_which_another_let_go_of_ends_the_wait_that_closes_it() {
    let (table, seats) = table();
    let (r, s) = (range(0, 10), range(50, 10));
    let [a, b, c] = [1, 2, 3].map(LockBy::Posix);
    // One client's owners, as of processes of one machine.
    let seat = &seats[0];
    lock(&table, seat, b, r, WRITES).expect("free");
    lock(&table, seat, c, s, WRITES).expect("free");
    let (mut a_for_r, mut c_for_r, mut a_for_s) =
        (Asked::new(a, r, WRITES), Asked::new(c, r, WRITES), Asked::new(a, s, WRITES));
    assert!(a_for_r.poll(&table, seat).is_pending());
    assert!(c_for_r.poll(&table, seat).is_pending());
    assert!(a_for_s.poll(&table, seat).is_pending(), "another thread of the owner; B is in nobody's way to C");
    table.unlock(seat, b, r, seconds(0)).expect("locked");
    assert!(a_for_r.flag.take() && c_for_r.flag.take() && !a_for_s.flag.take());
    assert_eq!(a_for_r.poll(&table, seat), Poll::Ready(Ok(())));
    assert_eq!(c_for_r.poll(&table, seat), Poll::Ready(Err(Error::Deadlock { file: FILE })));
    table.check();
    // What C is told lets it give back what it has.
    table.unlock(seat, c, s, seconds(0)).expect("locked");
    assert_eq!(a_for_s.poll(&table, seat), Poll::Ready(Ok(())));
    table.check();
}

#[test]
fn a_lock_of_the_whole_file_is_lost_while_it_waits_to_become_another() {
    let (table, seats) = table();
    let (mut one, mut other) =
        (Asked::new(LockBy::Flock, ByteRange::WHOLE, WRITES), Asked::new(LockBy::Flock, ByteRange::WHOLE, WRITES));
    for seat in &seats[..2] {
        lock(&table, seat, LockBy::Flock, ByteRange::WHOLE, READS).expect("shared");
    }
    assert!(one.poll(&table, &seats[0]).is_pending());
    assert_eq!(other.poll(&table, &seats[1]), Poll::Ready(Ok(())), "the one let go of its shared one to wait");
    assert!(!one.flag.take());
    table.unlock(&seats[1], LockBy::Flock, ByteRange::WHOLE, seconds(0)).expect("locked");
    assert!(one.flag.take());
    assert_eq!(one.poll(&table, &seats[0]), Poll::Ready(Ok(())));
    assert_eq!(table.counts().ranges, 1);
}

#[test]
fn an_empty_range_of_nt_is_had_once_the_one_around_it_falls_in_two() {
    let (table, seats) = table();
    lock(&table, &seats[0], LockBy::Posix(1), range(0, 20), READS).expect("free");
    lock(&table, &seats[2], LockBy::Posix(3), range(12, 2), READS).expect("shared");
    let (mut empty, mut half) =
        (Asked::new(LockBy::Nt, range(12, 0), WRITES), Asked::new(LockBy::Posix(1), range(12, 8), WRITES));
    assert!(empty.poll(&table, &seats[1]).is_pending() && half.poll(&table, &seats[0]).is_pending());
    table.unlock(&seats[2], LockBy::Posix(3), range(12, 2), seconds(0)).expect("locked");
    assert!(half.flag.take() && empty.flag.take());
    assert_eq!(
        (half.poll(&table, &seats[0]), empty.poll(&table, &seats[1])),
        (Poll::Ready(Ok(())), Poll::Ready(Ok(())))
    );
    table.check();
}

#[test]
fn a_hundred_thousand_ranges_of_one_file_are_looked_through_at_once() {
    let table = Table::new(Settings { ranges_of_owner: 25_000, ..Settings::default() });
    let told = Default::default();
    let seats: Vec<Seat> = (0..4).map(|client| open(&table, &request(client, Access::WRITE, &told)).seat).collect();
    for at in 0..100_000u64 {
        let exclusive = at % 2 == 0;
        lock(&table, &seats[(at % 4) as usize], LockBy::Nt, range(at * 10, 5), exclusive).expect("apart");
    }
    table.check();
    // That takes hours if each looks at all others.
    for at in 0..100_000u64 {
        assert!(lock(&table, &seats[0], LockBy::Nt, range(at * 10 + 4, 3), true).is_err());
        assert!(lock(&table, &seats[0], LockBy::Posix(1), range(at * 10 + 3, 5), false).is_err() == (at % 2 == 0));
        table.unlock_owner(&seats[0], 1, seconds(0)).expect("open");
    }
    assert_eq!(table.counts().ranges, 100_000);
}

#[test]
fn ranges_that_become_one_are_as_old_as_the_first() {
    let (table, seats) = table();
    for (at, now) in [(10, 7), (0, 3), (5, 9)] {
        let request = LockRequest { by: LockBy::Posix(1), range: range(at, 5), exclusive: WRITES };
        let locked = table.poll_lock(&seats[0], &request, false, &mut Waiting::new(), seconds(now), Waker::noop());
        assert_eq!(locked, Poll::Ready(Ok(())));
    }
    let locks = table.locks_of(FILE, 9);
    assert_eq!((locks.len(), locks[0].range, locks[0].since), (1, range(0, 15), seconds(3)));
}
