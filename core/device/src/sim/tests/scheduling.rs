//! Tasks, time and determinism.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;

use super::super::{Disappearance, ErrorPersistence, Latency, PowerCut, Sim};
use super::{disk_of, filled};
use crate::{Device, Durability, IoBuf};

/// A busy world with faults and power cuts; gives its trace and what the disks hold in the end.
fn busy_world(seed: u64) -> (u64, Vec<u8>) {
    let sim = Sim::new(seed);
    let disks: Vec<_> = [Latency::None, Latency::Hdd10k, Latency::Ssd]
        .into_iter()
        .map(|latency| disk_of(&sim, |spec| spec.latency = latency))
        .collect();
    for round in 0..4 {
        sim.cut_power_after(sim.random().range(1..60));
        disks[0].fail_reads(8192..12288, ErrorPersistence::UntilRewritten);
        for disk in &disks {
            let (disk, random, clock) = (disk.clone(), sim.random(), sim.clock());
            sim.spawn(async move {
                for step in 0..40_u8 {
                    let writes = (0..4).map(|_| {
                        let durability = if random.chance(1, 3) { Durability::Durable } else { Durability::Cached };
                        disk.write(random.range(0..254_u64) * 4096, filled(step, 8192), durability)
                    });
                    join_all(writes).await;
                    let _ = disk.read(random.range(0..255_u64) * 4096, IoBuf::new(4096)).await;
                    clock.sleep(Duration::from_micros(random.range(0..500))).await;
                    if random.chance(1, 5) {
                        let _ = disk.flush().await;
                    }
                }
            });
        }
        if round == 2 {
            disks[1].disappear(Disappearance::Cable);
        }
        sim.run_until_idle();
        disks[1].reappear();
        sim.restart();
    }
    (sim.trace_hash(), disks.iter().flat_map(|disk| disk.peek(0, 1 << 20)).collect())
}

#[test]
fn one_seed_does_the_same_twice_and_others_do_not() {
    let mut traces = HashSet::new();
    for seed in 0..20 {
        let (trace, content) = busy_world(seed);
        let again = busy_world(seed);
        assert_eq!(trace, again.0, "seed {seed}: the schedule differs");
        assert!(content == again.1, "seed {seed}: the content differs");
        traces.insert(trace);
    }
    assert_eq!(traces.len(), 20);
}

#[test]
fn tasks_run_in_every_order() {
    let orders: HashSet<Vec<u8>> = (0..200)
        .map(|seed| {
            let sim = Sim::new(seed);
            let order = Rc::new(RefCell::new(Vec::new()));
            for name in 0..4 {
                let order = order.clone();
                sim.spawn(async move { order.borrow_mut().push(name) });
            }
            sim.run_until_idle();
            order.take()
        })
        .collect();
    assert_eq!(orders.len(), 24);
}

#[test]
fn requests_end_in_every_order() {
    let orders: HashSet<Vec<u64>> = (0..200)
        .map(|seed| {
            let sim = Sim::new(seed);
            let disk = disk_of(&sim, |_| {});
            let order = Rc::new(RefCell::new(Vec::new()));
            let requests: Vec<_> =
                (0..3).map(|block| disk.write(block * 4096, filled(1, 4096), Durability::Cached)).collect();
            for (block, request) in (0..).zip(requests) {
                let order = order.clone();
                sim.spawn(async move {
                    request.await.unwrap();
                    order.borrow_mut().push(block);
                });
            }
            sim.run_until_idle();
            order.take()
        })
        .collect();
    assert_eq!(orders.len(), 6);
}

#[test]
fn time_jumps_to_the_next_timer() {
    let sim = Sim::new(1);
    let clock = sim.clock();
    let day = Duration::from_secs(86_400);
    let (first, second) = (clock.sleep(day), clock.sleep(2 * day));
    let at = sim.run({
        let clock = clock.clone();
        async move {
            second.await;
            first.await;
            clock.now()
        }
    });
    assert_eq!(at, Ok(2 * day));
    drop(clock.sleep(day));
    sim.run_until_idle();
    assert_eq!(clock.now(), 2 * day);
}

#[test]
fn timers_run_out_under_load() {
    let sim = Sim::new(1);
    let disk = disk_of(&sim, |_| {});
    let clock = sim.clock();
    sim.spawn(async move {
        loop {
            disk.write(0, filled(1, 4096), Durability::Cached).await.unwrap();
        }
    });
    assert_eq!(sim.run(async move { clock.sleep(Duration::from_millis(5)).await }), Ok(()));
}

#[test]
fn a_task_gives_its_result_or_is_cancelled() {
    let sim = Sim::new(3);
    let clock = sim.clock();
    let value = sim.spawn_handle(async { 7 });
    let late = sim.spawn_handle(async move { clock.sleep(Duration::from_secs(1)).await });
    assert_eq!(value.try_take(), None);
    sim.run_until_idle();
    assert!(value.is_finished() && !late.is_finished());
    assert_eq!((value.try_take(), value.try_take()), (Some(7), None));
    let witness = Rc::new(());
    let held = witness.clone();
    let endless = sim.spawn_handle(async move {
        std::future::pending::<()>().await;
        drop(held);
    });
    sim.run_until_idle();
    endless.cancel();
    assert_eq!(Rc::strong_count(&witness), 1);
    assert_eq!(sim.run(late), Ok(()));
}

#[test]
fn a_slot_of_an_ended_task_does_not_answer_to_its_old_waker() {
    let sim = Sim::new(3);
    let waker = sim.run(std::future::poll_fn(|cx| std::task::Poll::Ready(cx.waker().clone()))).unwrap();
    let polls = Rc::new(Cell::new(0));
    let counted = polls.clone();
    sim.spawn(std::future::poll_fn(move |_| {
        counted.set(counted.get() + 1);
        std::task::Poll::<()>::Pending
    }));
    sim.run_until_idle();
    waker.wake();
    sim.run_until_idle();
    assert_eq!(polls.get(), 1);
}

#[test]
#[should_panic(expected = "seed 11: deadlock")]
fn waiting_for_nothing_is_a_deadlock() {
    let _ = Sim::new(11).run(std::future::pending::<()>());
}

#[test]
#[should_panic(expected = "seed 12: the run did not end within 1000 steps")]
fn spinning_is_noticed() {
    let sim = Sim::new(12);
    sim.limit_steps(1000);
    let _ = sim.run(std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        std::task::Poll::<()>::Pending
    }));
}

#[test]
fn nothing_runs_without_power() {
    let sim = Sim::new(4);
    let polled = Rc::new(Cell::new(0));
    for _ in 0..10 {
        let (sim, polled) = (sim.clone(), polled.clone());
        sim.clone().spawn(async move {
            polled.set(polled.get() + 1);
            sim.cut_power();
        });
    }
    assert_eq!(sim.run(async {}).and(sim.run(async {})), Err(PowerCut));
    assert!(polled.get() <= 1);
    assert!(!sim.is_powered());
    let before = polled.get();
    sim.spawn(async { unreachable!("dropped at once") });
    sim.restart();
    assert_eq!(sim.run(async { 1 }), Ok(1));
    assert_eq!(polled.get(), before);
}

#[test]
fn dropping_the_owner_frees_tasks_that_hold_the_world() {
    let witness = Rc::new(());
    let sim = Sim::new(5);
    let disk = disk_of(&sim, |_| {});
    let (held, inner) = (witness.clone(), sim.clone());
    sim.spawn(async move {
        let _ = disk.read(0, IoBuf::new(4096)).await;
        std::future::pending::<()>().await;
        drop((held, inner));
    });
    sim.run_until_idle();
    drop(sim);
    assert_eq!(Rc::strong_count(&witness), 1);
}

#[test]
fn destructors_of_tasks_may_use_the_world() {
    struct Restless(Sim);
    impl Drop for Restless {
        fn drop(&mut self) {
            let inner = Restless(self.0.clone());
            let clock = self.0.clock();
            drop(clock.sleep(Duration::from_secs(1)));
            if self.0.is_powered() {
                self.0.spawn(async move {
                    std::future::pending::<()>().await;
                    drop(inner);
                });
            } else {
                std::mem::forget(inner);
            }
        }
    }
    let sim = Sim::new(6);
    let restless = Restless(sim.clone());
    sim.spawn(async move {
        std::future::pending::<()>().await;
        drop(restless);
    });
    sim.run_until_idle();
    sim.cut_power();
    sim.restart();
    assert_eq!(sim.run(async { 2 }), Ok(2));
}

#[test]
fn a_killed_process_leaves_its_requests_to_the_disk() {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let disk = disk_of(&sim, |spec| spec.latency = Latency::Ssd);
        let writer = disk.clone();
        sim.spawn(async move { writer.write(0, filled(9, 4096), Durability::Cached).await.unwrap() });
        let clock = sim.clock();
        sim.run(async move { clock.sleep(Duration::from_micros(5)).await }).unwrap();
        sim.kill();
        sim.run_until_idle();
        assert_eq!(disk.peek(0, 4096), vec![9; 4096]);
    }
}
