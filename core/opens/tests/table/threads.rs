//! Real threads on one file: nobody is told of a write before those who cache what it replaced were told.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Poll, Waker};
use std::time::Duration;

use holdfast_opens::*;

use crate::support::*;

/// A client that caches one number, until it is told that it may not.
#[derive(Default)]
struct Cache {
    may: AtomicBool,
    told: AtomicU64,
}

impl Recall for Cache {
    fn broken(&self, _: &Notice) {
        // A moment in which the break is decided and not sent.
        std::thread::yield_now();
        self.may.store(false, Ordering::SeqCst);
        self.told.fetch_add(1, Ordering::SeqCst);
    }

    fn closed(&self, _: FileKey, _: OpenId) {}
}

fn until_ready<T>(mut poll: impl FnMut() -> Poll<T>) -> T {
    loop {
        match poll() {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

#[test]
fn no_write_is_answered_before_its_breaks_are_sent() {
    const ROUNDS: u64 = 8000;
    let table = Table::new(Settings::default());
    // What was written, and what its writers were told of.
    let (data, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    let writers_left = AtomicU64::new(2);
    let (hits, breaks) = (AtomicU64::new(0), AtomicU64::new(0));
    let begin = Barrier::new(5);
    std::thread::scope(|scope| {
        for client in 0..2u128 {
            let (table, data, answered, writers_left, begin) = (&table, &data, &answered, &writers_left, &begin);
            scope.spawn(move || {
                let told = Arc::default();
                begin.wait();
                for _ in 0..ROUNDS {
                    let opened = until_ready(|| ask(table, &request(client, Access::WRITE, &told), seconds(0)));
                    let Ok(Opening::Opened(opened)) = opened else { panic!("all is shared") };
                    let (act, seat) = (Act::Write(None), &opened.seat);
                    let mut waiting = Waiting::new();
                    until_ready(|| table.poll_begin(seat, act, &mut waiting, seconds(0), Waker::noop())).expect("open");
                    let written = data.fetch_add(1, Ordering::Relaxed) + 1;
                    // Where there are more threads than processors, they meet only if they let each other run.
                    std::thread::yield_now();
                    let mut waiting = Waiting::new();
                    until_ready(|| table.poll_end(seat, act, &mut waiting, seconds(0), Waker::noop()));
                    answered.fetch_max(written, Ordering::SeqCst);
                    table.close(seat, seconds(0)).expect("open");
                }
                writers_left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for client in 10..13u128 {
            let (table, data, answered, writers_left, begin) = (&table, &data, &answered, &writers_left, &begin);
            let (hits, breaks) = (&hits, &breaks);
            scope.spawn(move || {
                begin.wait();
                while writers_left.load(Ordering::SeqCst) > 0 {
                    let cache = Arc::new(Cache::default());
                    let lease =
                        LeaseRequest { key: Some(1), kind: LeaseKind::Lease, wanted: Caching::READ, parent: None };
                    let told: Arc<Told> = Arc::default();
                    let asks = OpenRequest {
                        lease: Some(lease),
                        recall: cache.clone(),
                        ..request(client, Access::READ, &told)
                    };
                    // Set before the grant: a break may come before the grant is looked at.
                    cache.may.store(true, Ordering::SeqCst);
                    let Ok(Opening::Opened(opened)) = until_ready(|| ask(table, &asks, seconds(0))) else {
                        panic!("all is shared")
                    };
                    if !opened.caching.is_none() {
                        let cached = data.load(Ordering::Relaxed);
                        for _ in 0..5 {
                            // Whoever sees an answer, and then that it was not told, must have what was answered.
                            let known = answered.load(Ordering::SeqCst);
                            if !cache.may.load(Ordering::SeqCst) {
                                break;
                            }
                            assert!(cached >= known, "cached {cached}, answered {known}");
                            hits.fetch_add(1, Ordering::Relaxed);
                            std::thread::yield_now();
                        }
                    }
                    table.close(&opened.seat, seconds(0)).expect("open");
                    breaks.fetch_add(cache.told.load(Ordering::SeqCst), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(data.load(Ordering::SeqCst), 2 * ROUNDS);
    let (hits, breaks) = (hits.into_inner(), breaks.into_inner());
    assert!(hits > 100 && breaks > 100, "they met: {hits} reads from caches, {breaks} breaks");
    assert_eq!(table.counts(), Counts::default());
    table.check();
}

#[test]
fn files_that_are_opened_and_closed_by_many_are_never_lost_or_left() {
    let table = Table::new(Settings::default());
    let (inside, most) = ([const { AtomicU64::new(0) }; 4], AtomicU64::new(0));
    std::thread::scope(|scope| {
        for client in 0..4u128 {
            let (table, inside, most) = (&table, &inside, &most);
            scope.spawn(move || {
                let told = Arc::default();
                for round in 0..20_000u64 {
                    let number = (round * 7 + client as u64) % 4;
                    let alone = OpenRequest {
                        file: FileKey { number, ..FILE },
                        share: Access::NONE,
                        ..request(client, Access::WRITE, &told)
                    };
                    let opened = match ask(table, &alone, Duration::ZERO) {
                        Poll::Ready(Ok(Opening::Opened(opened))) => opened,
                        Poll::Ready(Err(Error::Sharing { .. })) => continue,
                        other => panic!("{other:?}"),
                    };
                    let before = inside[number as usize].fetch_add(1, Ordering::SeqCst);
                    most.fetch_max(before + 1, Ordering::SeqCst);
                    lock(table, &opened.seat, LockBy::Nt, range(0, 10), true).expect("alone");
                    inside[number as usize].fetch_sub(1, Ordering::SeqCst);
                    table.close(&opened.seat, Duration::ZERO).expect("open");
                }
            });
        }
    });
    assert_eq!(most.into_inner(), 1, "nobody shared");
    assert_eq!(table.counts(), Counts::default());
    table.check();
}
