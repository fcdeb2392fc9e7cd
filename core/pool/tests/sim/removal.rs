//! Disks that leave for good: refused while they are needed, never believed afterwards, with power cuts anywhere in
//! between.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::*;
use holdfast_device::sim::Disappearance;
use holdfast_model::{DiskState, RetirePolicy, Uuid};
use holdfast_pool::{LossPolicy, Pool, PoolError, PoolErrorKind};

fn id_of(pool: &Pool, disk: usize) -> Uuid {
    let member = pool.disks().into_iter().find(|member| member.record.serial == serial(disk));
    member.expect("a member").record.id
}

fn remove(lab: &Lab, pool: &Arc<Pool>, disk: usize) -> Result<bool, PoolError> {
    let (pool, id) = (pool.clone(), id_of(pool, disk));
    lab.run(async move { pool.remove_disk(id).await })
}

fn members(pool: &Pool) -> BTreeSet<String> {
    pool.disks().into_iter().map(|disk| disk.record.serial).collect()
}

fn serials(disks: &[usize]) -> BTreeSet<String> {
    disks.iter().map(|disk| serial(*disk)).collect()
}

#[test]
fn a_disk_with_slabs_stays_and_gets_a_next_step() {
    let lab = Lab::small(1, 3);
    let pool = lab.created(&lab.all());
    let space = lab.mirror(&pool, "vm");
    let row = lab.row(&pool, space.id, 0).expect("room");
    let disk = usize::from(row.slabs[0].disk());
    let before = snapshot(&pool);
    let error = remove(&lab, &pool, disk).expect_err("it holds a slab");
    assert_eq!(error.kind, PoolErrorKind::Conflict);
    for part in [&serial(disk), "tank/vm", "disk evacuate"] {
        assert!(error.context.contains(part), "{error} does not say {part}");
    }
    let out = pool.clone();
    lab.run(async move { out.disk_out(disk as u16, DiskState::Missing, "pulled").await }).expect("a quorum is left");
    let error = remove(&lab, &pool, disk).expect_err("it holds a slab");
    assert!(error.context.contains("space repair"), "{error}");
    assert_eq!(snapshot(&pool).spaces.len(), before.spaces.len());
    assert_eq!(members(&pool), serials(&lab.all()));
}

#[test]
fn a_disk_that_left_is_blank_and_its_number_is_not_given_again() {
    let lab = Lab::small(2, 4);
    let pool = lab.created(&lab.all());
    let member = pool.disk(3).expect("a member");
    assert!(remove(&lab, &pool, 3).expect("it is empty"), "its labels are wiped");
    assert!(!member.in_service() && member.device().is_none(), "nobody holds it any more");
    assert_eq!(members(&pool), serials(&[0, 1, 2]));
    assert_eq!(lab.scan(&[3]).blank.len(), 1);
    let (again, candidate) = (pool.clone(), lab.candidate(3));
    lab.run(async move { again.add_disks(vec![candidate]).await }).expect("a blank disk");
    let numbers: Vec<u16> = pool.disks().into_iter().map(|disk| disk.record.index).collect();
    assert_eq!(numbers, [0, 1, 2, 4]);
    let before = snapshot(&pool);
    lab.kill(pool);
    assert_eq!(snapshot(&lab.imported(&lab.all())), before);
}

#[test]
fn the_last_disk_stays() {
    let lab = Lab::small(3, 2);
    let pool = lab.created(&lab.all());
    assert!(remove(&lab, &pool, 0).expect("another one is there"));
    let error = remove(&lab, &pool, 1).expect_err("it is the last");
    assert!(error.kind == PoolErrorKind::Conflict && error.context.contains("destroy the pool"), "{error}");
    lab.kill(pool);
    assert_eq!(members(&lab.imported(&[1])), serials(&[1]));
}

#[test]
fn a_disk_that_left_while_it_was_away_is_a_stranger_when_it_is_back() {
    let lab = Lab::small(4, 4);
    let pool = lab.created(&lab.all());
    lab.disks[2].disappear(Disappearance::Cable);
    let out = pool.clone();
    lab.run(async move { out.disk_out(2, DiskState::Missing, "pulled").await }).expect("a quorum is left");
    assert!(!remove(&lab, &pool, 2).expect("it holds nothing"), "nobody can wipe what is away");
    lab.disks[2].reappear();
    let (back, candidate) = (pool.clone(), lab.candidate(2));
    let error = lab.run(async move { back.disk_back(candidate).await }).expect_err("it is none of this pool");
    assert_eq!(error.kind, PoolErrorKind::Invalid, "{error}");
    lab.kill(pool);
    lab.events.take();
    let pool = lab.imported(&lab.all());
    assert_eq!(members(&pool), serials(&[0, 1, 3]));
    assert!(reported(&lab.events.take(), &path(2), "was removed from pool"));
    lab.kill(pool);
    assert_eq!(lab.import(&[2]).err().expect("it does not decide").kind, PoolErrorKind::NoQuorum);
    let pool = lab.imported(&[0, 1, 3]);
    let (again, candidate) = (pool.clone(), lab.candidate(2));
    lab.run(async move { again.add_disks(vec![candidate]).await }).expect("it can be added anew");
    assert_eq!(members(&pool), serials(&lab.all()));
}

#[test]
fn the_power_may_fail_anywhere_in_a_removal() {
    for (count, witness) in [(2, true), (2, false), (3, false), (4, true), (5, false)] {
        let (mut stayed, mut left, leaving) = (0, 0, count - 1);
        for writes in 0.. {
            let lab = Lab::small(writes, count);
            lab.witness.set_reachable(witness);
            let pool = lab.created(&lab.all());
            let space = lab.mirror(&pool, "vm");
            let id = id_of(&pool, leaving);
            lab.sim.cut_power_after(writes);
            let done = lab.sim.run(async move { pool.remove_disk(id).await });
            let answered = done.is_ok_and(|answer| answer.expect("it holds nothing"));
            lab.sim.cut_power();
            lab.sim.restart();
            let pool = lab.imported(&lab.all());
            let others: Vec<usize> = (0..leaving).collect();
            assert_eq!(pool.spaces(), [space], "{count} disks, power cut after {writes} writes");
            if members(&pool) == serials(&lab.all()) {
                assert!(!answered, "{count} disks: it is back after {writes} writes");
                stayed += 1;
            } else {
                assert_eq!(members(&pool), serials(&others));
                lab.kill(pool);
                assert_eq!(members(&lab.imported(&others)), serials(&others), "the others decide alone");
                left += 1;
            }
            if answered {
                break;
            }
        }
        assert!(stayed > 0 && left > 1, "{count} disks: {stayed} times it stayed, {left} times it left");
    }
}

#[test]
fn what_is_done_about_lost_disks_travels_with_the_pool() {
    let lab = Lab::small(6, 3);
    let pool = lab.created(&lab.all());
    assert_eq!(pool.loss_policy(), LossPolicy::default());
    let policy = LossPolicy { retire: RetirePolicy::Never, grace_seconds: Some(90) };
    for changed in [true, false] {
        let pool = pool.clone();
        assert_eq!(lab.run(async move { pool.set_loss_policy(policy).await }), Ok(changed));
    }
    lab.kill(pool);
    for _ in 0..2 {
        let pool = lab.imported(&lab.all());
        assert_eq!(pool.loss_policy(), policy);
        lab.kill(pool);
    }
}
