//! Commands of several nexuses at once, on a device that takes its time.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, select};
use holdfast_device::IoErrorKind;
use holdfast_device::reactor::{self, ReactorSettings, clock, spawn_local};
use holdfast_scsi::{LogicalBlocks, Manage, Nexus, Outcome, Response, Running, Status, lun_field};

use crate::memory::Memory;
use crate::rig::*;

fn on_reactor<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F + Send + 'static) {
    let reactor = reactor::start(ReactorSettings::default()).unwrap();
    reactor.call(test).wait().unwrap();
    reactor.stop();
}

fn slow() -> Rig {
    Rig::with(Memory::new(SIZE).slow(Duration::from_micros(300)), LogicalBlocks::B512e, true)
}

async fn finish(outcome: Outcome) -> Response {
    match outcome {
        Outcome::Answered(response) => response,
        Outcome::Later(running) => running.await,
    }
}

async fn exec(nexus: &Nexus, cdb: &[u8], data: &[u8]) -> Response {
    finish(start(nexus, lun_field(0), cdb, data)).await
}

fn later(nexus: &Nexus, cdb: &[u8], data: &[u8]) -> Running {
    match start(nexus, lun_field(0), cdb, data) {
        Outcome::Later(running) => running,
        Outcome::Answered(response) => panic!("answered at once: {response:?}"),
    }
}

#[test]
fn counters_that_many_compare_and_write_lose_no_count() {
    on_reactor(|| async {
        let rig = slow();
        let nexuses: Vec<_> = (1..=4).map(|number| rig.nexus(number)).collect();
        let turns = RefCell::new(0);
        join_all(nexuses.iter().map(async |nexus| {
            for _ in 0..25 {
                loop {
                    let before = exec(nexus, &rw10(0x28, 0, 3, 1), &[]).await;
                    let before = before.data.bytes().to_vec();
                    let mut after = before.clone();
                    let count = u32::from_le_bytes(after[..4].try_into().unwrap()) + 1;
                    after[..4].copy_from_slice(&count.to_le_bytes());
                    let mut cdb = rw16(0x89, 0, 3, 0);
                    cdb[13] = 1;
                    *turns.borrow_mut() += 1;
                    match exec(nexus, &cdb, &[before, after].concat()).await.status {
                        Status::Good => break,
                        status => assert_eq!(status, Status::CheckCondition),
                    }
                }
                // A neighbour in the same 4 KiB block is written meanwhile.
                exec(nexus, &rw10(0x2a, 0, 2, 1), &[7; 512]).await;
            }
        }))
        .await;
        let last = exec(&nexuses[0], &rw10(0x28, 0, 3, 1), &[]).await;
        assert_eq!(last.data.bytes()[..4], 100_u32.to_le_bytes());
        assert!(*turns.borrow() > 100, "they met");
    });
}

#[test]
fn an_abort_ends_when_what_had_begun_is_over() {
    on_reactor(|| async {
        let rig = Rc::new(slow());
        let nexus = rig.nexus(1);
        for function in [None, Some(Manage::AbortTaskSet), Some(Manage::LogicalUnitReset)] {
            exec(&nexus, &rw10(0x2a, 0, 0, 8), &[1; 4096]).await;
            let whole = spawn_local(later(&nexus, &rw10(0x2a, 0, 0, 8), &[2; 4096]));
            // Part of a block: it has to wait, and to read first.
            let part = later(&nexus, &rw10(0x2a, 0, 16, 1), &[2; 512]);
            let over = part.over();
            let part = spawn_local(part);
            whole.abort();
            part.abort();
            match function {
                Some(function) => _ = nexus.manage(function, lun_field(0)).await,
                None => over.await,
            }
            let clock = clock();
            let look = async || {
                told_later(&nexus).await;
                exec(&nexus, &rw10(0x28, 0, 0, 24), &[]).await.data.bytes().to_vec()
            };
            let first = look().await;
            clock.sleep(Duration::from_millis(5)).await;
            assert!(first == look().await, "something had effect after {function:?}");
        }
        // Whole blocks are written next to each other again: nothing is left behind that keeps them waiting.
        assert_eq!(exec(&nexus, &rw10(0x2a, 0, 0, 8), &[3; 4096]).await.status, Status::Good);
        assert_eq!(exec(&nexus, &rw10(0x2a, 0, 1, 1), &[3; 512]).await.status, Status::Good);
    });
}

#[test]
fn a_task_that_is_aborted_waits_for_no_other() {
    on_reactor(|| async {
        let rig = Rig::with(Memory::new(SIZE).slow(Duration::from_millis(100)), LogicalBlocks::B512e, true);
        let nexus = rig.nexus(1);
        let slow = later(&nexus, &rw10(0x2a, 0, 0, 8), &[2; 4096]);
        let ended = slow.over();
        let slow = spawn_local(slow);
        // One waits for the first to leave its blocks, one reads, one had begun: only that lasts.
        for cdb in [rw10(0x2a, 0, 3, 1), rw10(0x28, 0, 0, 8)] {
            let task = later(&nexus, &cdb, &[3; 512]);
            let over = task.over();
            spawn_local(task).abort();
            over.await;
            assert!(!slow.is_finished(), "{cdb:02x?}");
        }
        let begun = later(&nexus, &rw10(0x2a, 0, 64, 8), &[4; 4096]);
        let over = begun.over();
        spawn_local(begun).abort();
        over.await;
        ended.await;
        assert_eq!(slow.await.status, Status::Good);
        let found = exec(&nexus, &rw10(0x28, 0, 0, 72), &[]).await.data.bytes().to_vec();
        assert!(found[..4096].iter().all(|byte| *byte == 2) && found[64 * 512..].iter().all(|byte| *byte == 4));
    });
}

#[test]
fn a_write_cache_that_is_turned_off_is_emptied_before_the_answer() {
    on_reactor(|| async {
        let rig = slow();
        let nexus = rig.nexus(1);
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        let page = |caches: bool| {
            let mut list = vec![0; 24];
            list[4..7].copy_from_slice(&[0x08, 0x12, if caches { 4 } else { 0 }]);
            list
        };
        let select = [0x15, 0x10, 0, 0, 24, 0];
        exec(&nexus, &rw10(0x2a, 0, 0, 8), &[1; 4096]).await;
        // This one is under way meanwhile, and durable when it is answered.
        let cached = spawn_local(later(&nexus, &rw10(0x2a, 0, 8, 8), &[1; 4096]));
        clock().sleep(Duration::from_micros(150)).await;
        let off = spawn_local(later(&nexus, &select, &page(false)));
        assert_eq!(count(&rig.memory.flushes), 1, "it has begun");
        assert_eq!(cached.await.status, Status::Good);
        assert_eq!(count(&rig.memory.flushes), 2, "the write began with the cache on");
        assert_eq!(off.await.status, Status::Good);
        exec(&nexus, &rw10(0x2a, 0, 0, 8), &[1; 4096]).await;
        assert_eq!((count(&rig.memory.flushes), count(&rig.memory.durable)), (2, 1));
        assert_eq!(exec(&nexus, &select, &page(true)).await.status, Status::Good);
        assert_eq!(count(&rig.memory.flushes), 2);
        // What cannot be made durable is told, and the cache stays on.
        *rig.memory.broken.lock().unwrap() = Some(IoErrorKind::Media);
        assert_eq!(exec(&nexus, &select, &page(false)).await.status, Status::CheckCondition);
        *rig.memory.broken.lock().unwrap() = None;
        let sense = exec(&nexus, &[0x1a, 0x08, 0x08, 0, 255, 0], &[]).await.data.bytes().to_vec();
        assert_eq!(sense[6] & 4, 4);
        assert_eq!(exec(&nexus, &select, &page(false)).await.status, Status::Good);
        assert_eq!(count(&rig.memory.flushes), 4);
    });
}

async fn told_later(nexus: &Nexus) {
    while exec(nexus, &[0; 6], &[]).await.status != Status::Good {}
}

#[test]
fn whoever_is_preempted_and_aborted_has_no_effect_after_the_answer() {
    on_reactor(|| async {
        let rig = slow();
        let (fenced, fencing) = (rig.nexus(1), rig.nexus(2));
        for (nexus, key) in [(&fenced, 1), (&fencing, 2)] {
            let (cdb, list) = pr_out(0, 0, 0, key, 0);
            exec(nexus, &cdb, &list).await;
        }
        let (cdb, list) = pr_out(1, 5, 1, 0, 0);
        exec(&fenced, &cdb, &list).await;
        let writes: Vec<_> =
            (0..8).map(|at| spawn_local(later(&fenced, &rw10(0x2a, 0, 8 * at, 8), &[9; 4096]))).collect();
        let (cdb, list) = pr_out(5, 5, 2, 1, 0);
        assert_eq!(exec(&fencing, &cdb, &list).await.status, Status::Good);
        let found = exec(&fencing, &rw10(0x28, 0, 0, 64), &[]).await.data.bytes().to_vec();
        for write in writes {
            write.await;
        }
        assert!(found == exec(&fencing, &rw10(0x28, 0, 0, 64), &[]).await.data.bytes());
        assert_eq!(exec(&fenced, &rw10(0x2a, 0, 0, 8), &[9; 4096]).await.status, Status::ReservationConflict);
    });
}

#[test]
fn a_removal_waits_for_what_is_under_way() {
    on_reactor(|| async {
        let rig = slow();
        let nexus = rig.nexus(1);
        let write = spawn_local(later(&nexus, &rw10(0x2a, 0, 0, 8), &[9; 4096]));
        let gone = rig.device.remove_unit(0);
        match select(Box::pin(write), gone).await {
            futures_util::future::Either::Left((response, gone)) => {
                assert_eq!(response.status, Status::Good);
                gone.await;
            }
            futures_util::future::Either::Right(_) => panic!("the unit was removed under a write"),
        }
    });
}
