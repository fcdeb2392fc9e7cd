//! What is thought of disks, and what follows for new slabs.

use std::collections::BTreeSet;

use crate::common::*;
use holdfast_device::sim::Disappearance;
use holdfast_device::{Durability, IoBuf};
use holdfast_model::{Condition, DiskDetail, DiskState, Health, Usage};
use holdfast_pool::{DiskChange, Judgement, PoolErrorKind};

fn unhealthy() -> Judgement {
    Judgement {
        health: Health::Unhealthy,
        details: vec![DiskDetail::PredictiveFailure],
        conditions: vec![Condition::new("it says so", "replace it")],
    }
}

#[test]
fn an_unhealthy_disk_gets_slabs_only_where_no_other_has_room() {
    let lab = Lab::small(1, 3);
    let pool = lab.created(&lab.all());
    let space = lab.mirror(&pool, "vm");
    pool.set_judgement(0, unhealthy());
    let status = pool.disks().remove(0);
    assert_eq!((status.health, status.details), (Health::Unhealthy, vec![DiskDetail::PredictiveFailure]));
    let mut avoided = 0;
    for chunk in 0..space.chunks() {
        let Ok(row) = lab.row(&pool, space.id, chunk) else { break };
        let touched = row.slabs.iter().any(|slab| slab.disk() == 0);
        avoided += u32::from(!touched);
        let full = [1, 2].iter().any(|disk| {
            let disk = &pool.disks()[*disk];
            disk.free_bytes < u64::from(row.slab_units) * holdfast_pool::UNIT_BYTES
        });
        assert!(!touched || full, "chunk {chunk} lies on it while others have room: {row:?}");
    }
    assert!(avoided > 10, "{avoided} rows");
    pool.set_judgement(0, Judgement::default());
    assert_eq!(pool.disks()[0].health, Health::Healthy);
}

#[test]
fn spares_count_where_disks_are_lost_and_not_before() {
    let lab = Lab::small(2, 3);
    let pool = lab.created(&lab.all());
    let spare = pool.disks()[2].record.id;
    let set = pool.clone();
    let change = DiskChange { usage: Some(Usage::HotSpare), ..DiskChange::default() };
    lab.run(async move { set.set_disk(spare, change).await }).expect("a quorum is there");
    let space = lab.mirror(&pool, "vm");
    let row = lab.row(&pool, space.id, 0).expect("room");
    assert!(row.slabs.iter().all(|slab| slab.disk() != 2), "{row:?}");
    assert!(pool.has_room_without(&BTreeSet::from([0])) && !pool.has_room_without(&BTreeSet::from([0, 1])));
    let reserve = |without: &'static [u16]| {
        let pool = pool.clone();
        lab.run(async move { pool.reserve_row(space.id, without).await.map(|(row, _)| row) })
    };
    assert_eq!(reserve(&[]).expect("room").slabs.len(), 2);
    assert!(reserve(&[0]).expect("the spare").slabs.iter().any(|slab| slab.disk() == 2));
    assert_eq!(reserve(&[0, 2]).expect_err("one disk is left").kind, PoolErrorKind::NoSpace);
}

#[test]
fn requests_are_counted_and_some_are_timed() {
    let lab = Lab::small(3, 1);
    let pool = lab.created(&lab.all());
    let disk = pool.disk(0).expect("a member");
    lab.run(async move {
        for _ in 0..32 {
            disk.write(8 << 20, IoBuf::new(4096).freeze(), Durability::Durable).await.expect("a good disk");
        }
    });
    let status = pool.disks().remove(0);
    assert_eq!((status.counts.writes, status.counts.timed), (32, 2));
    assert!(status.counts.latency().expect("some were timed").as_nanos() > 0);
    assert_eq!(status.record.state, DiskState::Online);
}

#[test]
fn a_disk_that_is_out_is_never_shown_as_online_also_where_that_cannot_be_recorded() {
    let lab = Lab::small(6, 3);
    let pool = lab.created(&lab.all());
    for disk in [1, 2] {
        lab.disks[disk].disappear(Disappearance::PowerLoss);
    }
    for disk in [1, 2] {
        let out = pool.clone();
        let recorded = lab.run(async move { out.disk_out(disk, DiskState::Missing, "it is gone").await });
        recorded.expect_err("one disk of three is no majority");
    }
    let shown: Vec<_> = pool.disks().into_iter().map(|disk| (disk.record.state, disk.health, disk.details)).collect();
    assert_eq!(shown[0], (DiskState::Online, Health::Healthy, vec![]));
    for disk in &shown[1..] {
        assert_eq!(*disk, (DiskState::Missing, Health::Unhealthy, vec![DiskDetail::LostCommunication]));
    }
}
