//! Labels and logs that are overwritten while the pool is in use: after a look everything is whole again on the disks,
//! and a restart finds all of them.
//!
//! `HOLDFAST_SEEDS=N` runs N seeds, `HOLDFAST_FROM=F` begins with another one, `HOLDFAST_SEED=S` runs exactly one.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use holdfast_device::Device;
use holdfast_device::sim::{ErrorPersistence, SimRandom};
use holdfast_harness::over_seeds;
use holdfast_model::{DiskState, Layout, PoolState, Provisioning, Uuid};
use holdfast_pool::frame::{Frame, Kind};
use holdfast_pool::{Area, Audit, Pool, PoolErrorKind, Position};

async fn make(pool: &Arc<Pool>, name: &str) {
    pool.create_space(spec(name, Layout::Simple, 1, Provisioning::Thin, MIB)).await.expect("all disks are here");
}

fn audit(lab: &Lab, pool: &Arc<Pool>) -> Audit {
    let pool = pool.clone();
    lab.run(async move { pool.audit().await }).expect("a quorum is there")
}

/// Each disk alone tells the whole story.
fn check_whole(lab: &Lab, spaces: usize) {
    let found = lab.found(&lab.all());
    assert!(found.missing().is_empty() && found.stale().is_empty(), "every log is at {}", found.position);
    assert!(found.members.iter().all(|member| member.labels_whole == [true; 2]), "every label is whole");
    for disk in lab.all() {
        let alone = lab.found(&[disk]);
        assert_eq!((alone.position, alone.config.spaces.len()), (found.position, spaces), "disk {disk}");
    }
}

fn area() -> Area {
    Area::of_disk("", SMALL).expect("a member's size")
}

#[test]
fn what_is_wiped_from_all_disks_is_written_anew_and_reported() {
    let lab = Lab::small(1, 3);
    let pool = lab.created(&lab.all());
    for space in 0..10 {
        let pool = pool.clone();
        lab.run(async move { make(&pool, &format!("vm{space}")).await });
    }
    assert_eq!(audit(&lab, &pool), Audit::default());
    for disk in &lab.disks {
        disk.poke(0, &vec![0; area().reserved_bytes as usize]);
        disk.poke(SMALL - 4096, &[0; 4096]);
    }
    lab.events.take();
    assert_eq!(audit(&lab, &pool), Audit { labels: 6, logs: 3 });
    let events = lab.events.take();
    for disk in lab.all() {
        assert!(reported(&events, &serial(disk), "both labels were damaged"), "{events:?}");
        assert!(reported(&events, &serial(disk), "metadata log was damaged and was written anew"), "{events:?}");
    }
    assert!(pool.disks().iter().all(|disk| disk.counts.repaired == 3 && disk.record.state == DiskState::Online));
    assert_eq!(audit(&lab, &pool), Audit::default());
    check_whole(&lab, 10);
    lab.kill(pool);
    assert_eq!(lab.imported(&lab.all()).spaces().len(), 10);
}

#[test]
fn any_one_block_is_seen() {
    for unreadable in [false, true] {
        let lab = Lab::small(2, 1);
        let pool = lab.created(&[0]);
        for what in 0..5usize {
            let changed = pool.clone();
            lab.run(async move { make(&changed, &format!("vm{what}")).await });
            let disk = &lab.disks[0];
            let half = (0..2).find(|half| disk.peek(area().log_half(*half), 8) == *b"HOLDFAST").expect("one is in use");
            // Both labels, then the header of the checkpoint, its payload, and the record behind it.
            let at =
                [0, SMALL - 4096, area().log_half(half), area().log_half(half) + 4096, area().log_half(half) + 8192]
                    [what];
            match unreadable {
                true => disk.fail_reads(at..at + 4096, ErrorPersistence::UntilRewritten),
                false => disk.corrupt(at..at + 96),
            }
            assert_eq!(audit(&lab, &pool).damaged(), 1, "{what}");
            assert_eq!(audit(&lab, &pool).damaged(), 0, "{what}");
            check_whole(&lab, what + 1);
        }
    }
}

#[test]
fn one_disk_is_looked_at_in_turn() {
    let lab = Lab::small(3, 3);
    let pool = lab.created(&lab.all());
    lab.disks.iter().for_each(|disk| disk.poke(0, &[0; 4096]));
    for round in 0..6 {
        let next = pool.clone();
        let found = lab.run(async move { next.audit_next().await }).expect("a quorum is there");
        assert_eq!(found.labels, u64::from(round < 3), "round {round}");
    }
    check_whole(&lab, 0);
}

#[test]
fn a_disk_that_takes_no_rewrite_goes_out() {
    let lab = Lab::small(4, 3);
    let pool = lab.created(&lab.all());
    lab.disks[1].poke(0, &[0; 4096]);
    lab.disks[1].fail_writes(0..4096, ErrorPersistence::UntilCleared);
    audit(&lab, &pool);
    let events = lab.events.take();
    assert!(reported(&events, &serial(1), "damaged metadata could not be rewritten"), "{events:?}");
    let out: Vec<DiskState> = pool.disks().iter().map(|disk| disk.record.state).collect();
    assert_eq!(out, [DiskState::Online, DiskState::Failed, DiskState::Online]);
}

#[test]
fn a_label_of_somebody_else_is_not_written_over() {
    let lab = Lab::small(5, 3);
    let pool = lab.created(&lab.all());
    let strange = |offset: u64| {
        let position = Position { generation: 1, sequence: 0 };
        let (pool, disk) = (Uuid::from_u128(7), Uuid::from_u128(8));
        let frame = Frame { kind: Kind::Label, pool, disk, offset, position, previous: 0 };
        let payload: Vec<u8> = [SMALL, 1, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        frame.seal(&payload).to_vec()
    };
    for offset in area().labels() {
        lab.disks[2].poke(offset, &strange(offset));
    }
    audit(&lab, &pool);
    assert!(reported(&lab.events.take(), &serial(2), "its label names disk"));
    assert_eq!(pool.status().state, PoolState::Degraded);
    assert!(area().labels().iter().all(|offset| lab.disks[2].peek(*offset, 4096) == strange(*offset)));
}

#[test]
fn a_change_mends_labels_that_it_finds_gone() {
    let lab = Lab::small(6, 1);
    let pool = lab.created(&[0]);
    area().labels().iter().for_each(|offset| lab.disks[0].poke(*offset, &[0; 4096]));
    let changed = pool.clone();
    lab.run(async move { make(&changed, "vm").await });
    assert!(reported(&lab.events.take(), &serial(0), "a damaged label was rewritten"));
    check_whole(&lab, 1);
}

/// Overwrites labels and logs of any number of disks, and has them looked at.
async fn harm(disks: Vec<Arc<holdfast_device::sim::SimDisk>>, random: SimRandom, pool: Arc<Pool>) {
    for _ in 0..random.range(1..5u32) {
        pool.env().clock.sleep(Duration::from_micros(random.range(0..150))).await;
        for disk in disks.iter().filter(|_| random.chance(1, 2)) {
            let size = disk.geometry().size_bytes;
            for _ in 0..random.range(1..6u32) {
                let at = match random.range(0..4u32) {
                    0 => 0,
                    1 => size - 4096,
                    half => area().log_half(half as usize % 2) + random.range(0..20u64) * 4096,
                };
                match random.range(0..4u32) {
                    0 => disk.poke(at, &[0; 4096]),
                    1 => disk.corrupt(at..at + 512),
                    2 => disk.corrupt(at..(at + 16384).min(size)),
                    _ => disk.fail_reads(at..at + 4096, ErrorPersistence::UntilRewritten),
                }
            }
        }
        pool.audit().await.expect("every disk takes what is rewritten");
    }
}

fn live(seed: u64) {
    let count = 1 + seed as usize % 5;
    let lab = Lab::small(seed, count);
    let random = lab.sim.random();
    let mut pool = lab.created(&lab.all());
    let made: Rc<RefCell<BTreeSet<String>>> = Rc::default();
    for life in 0..random.range(1..4u32) {
        let mut tasks = vec![lab.sim.spawn_handle(harm(lab.disks.clone(), random.clone(), pool.clone()))];
        for worker in 0..2 {
            let (pool, random, made) = (pool.clone(), random.clone(), made.clone());
            tasks.push(lab.sim.spawn_handle(async move {
                for space in 0..random.range(0..40u32) {
                    let name = format!("s{life}-{worker}-{space}");
                    make(&pool, &name).await;
                    made.borrow_mut().insert(name);
                }
            }));
        }
        lab.run(async move {
            for task in tasks {
                task.await;
            }
        });
        assert!(pool.disks().iter().all(|disk| disk.record.state == DiskState::Online), "seed {seed}: a disk went out");
        assert_eq!(audit(&lab, &pool), Audit::default(), "seed {seed}: something was left damaged");
        check_whole(&lab, made.borrow().len());
        drop(pool);
        lab.sim.cut_power();
        lab.sim.restart();
        let at_start = lab.found(&lab.all());
        assert!(
            at_start.missing().is_empty() && at_start.stale().is_empty(),
            "seed {seed}: a restart does not find all disks"
        );
        pool = lab.imported(&lab.all());
        let found: BTreeSet<String> = pool.spaces().into_iter().map(|space| space.name.to_string()).collect();
        assert_eq!(found, *made.borrow(), "seed {seed}");
        check_allotment(&pool);
    }
}

#[test]
fn a_restart_finds_all_disks_whatever_was_overwritten_in_use() {
    over_seeds(2000, live);
}

#[test]
fn nothing_is_looked_at_where_no_change_is_taken() {
    let lab = Lab::small(9, 1);
    let pool = lab.created(&[0]);
    let exported = pool.clone();
    lab.run(async move { exported.export().await }).expect("a quorum is there");
    lab.disks[0].poke(0, &[0; 4096]);
    assert_eq!(audit(&lab, &pool), Audit::default());
    let error = lab.space(&pool, spec("late", Layout::Simple, 1, Provisioning::Thin, MIB)).expect_err("it is exported");
    assert_eq!(error.kind, PoolErrorKind::ReadOnly);
}
