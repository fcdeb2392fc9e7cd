//! One cause, once: what follows from a lost disk or enclosure is told with it, and goes with it.

use std::fs;

use holdfast_api::pool::PoolHealth;
use holdfast_api::{Cause, CauseKind, SetDisk, SetPool};
use holdfast_engine::Engine;
use holdfast_model::{Health, RetirePolicy};

use crate::support::{MIB, Rig, eventually, export, mirror, pool};

fn only(engine: &Engine) -> Cause {
    let mut causes = engine.status().causes;
    assert_eq!(causes.len(), 1, "{causes:#?}");
    causes.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_disk_is_one_cause_with_all_that_it_affects() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(3).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    for name in ["tank/a", "tank/b", "tank/c"] {
        engine.create_space(mirror(name, 32 * MIB)).await.unwrap();
        engine.create_export(export(name)).await.unwrap();
    }
    assert_eq!(engine.status().causes, []);
    fs::rename(&disks[1], rig.path("away")).unwrap();
    eventually(&engine, "noticing", || engine.status().causes.first().is_some_and(|cause| cause.repair_at.is_some()))
        .await;
    let lost = only(&engine);
    assert_eq!((lost.kind, lost.health), (CauseKind::DiskLost, Health::Unhealthy));
    assert!(
        lost.object.name.contains("d2") && lost.cause.contains("is missing") && !lost.next_action.is_empty(),
        "{lost:?}"
    );
    assert_eq!(lost.disks.iter().map(|disk| disk.path.as_str()).collect::<Vec<_>>(), [disks[1].as_str()]);
    let affected: Vec<&str> = lost.affects.iter().map(|one| one.object.name.as_str()).collect();
    assert_eq!(affected, ["tank/a", "tank/b", "tank/c"]);
    assert!(lost.affects.iter().all(|one| one.effect.contains("survives no more lost disk now")), "{lost:?}");
    let left = lost.repair_in_seconds.unwrap();
    assert!(left <= 300 && lost.no_repair.is_none() && lost.jobs.is_empty(), "{lost:?}");
    let policy = SetPool { retire_policy: Some(RetirePolicy::Never), ..SetPool::default() };
    engine.set_pool("tank".into(), policy).await.unwrap();
    let lost = only(&engine);
    assert!(lost.repair_at.is_none() && lost.no_repair.is_some_and(|why| why.contains("never")));
    fs::rename(rig.path("away"), &disks[1]).unwrap();
    eventually(&engine, "healing", || engine.status().causes.is_empty()).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_of_one_enclosure_that_go_together_are_one_cause() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(6).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    for (index, disk) in disks.iter().enumerate() {
        let (enclosure, slot) = (Some(format!("shelf{}", index / 2)), Some(index as u32 % 2));
        engine.set_disk(disk.clone(), SetDisk { enclosure, slot, ..SetDisk::default() }).await.unwrap();
    }
    engine
        .create_space(holdfast_api::CreateSpace { enclosure_aware: true, ..mirror("tank/vm", 32 * MIB) })
        .await
        .unwrap();
    for disk in &disks[2..4] {
        fs::rename(disk, format!("{disk}.away")).unwrap();
    }
    eventually(&engine, "noticing", || engine.status().causes.iter().any(|cause| cause.disks.len() == 2)).await;
    let lost = only(&engine);
    assert_eq!((lost.kind, lost.object.to_string().as_str()), (CauseKind::EnclosureLost, "enclosure shelf1"));
    assert!(lost.cause.contains("2 of 2 disks") && lost.cause.contains("slots 0, 1"), "{}", lost.cause);
    assert_eq!(lost.affects.len(), 1, "a space is named once: {lost:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_without_enough_disks_is_one_cause() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_space(4).await;
    for disk in &disks {
        fs::rename(disk, format!("{disk}.away")).unwrap();
    }
    let is_read_only = |cause: &Cause| cause.kind == CauseKind::PoolReadOnly && cause.disks.len() == 4;
    eventually(&engine, "noticing", || engine.status().causes.first().is_some_and(is_read_only)).await;
    let told = only(&engine);
    assert_eq!((told.object.to_string().as_str(), told.health), ("pool tank", Health::Unhealthy));
    assert!(told.affects.iter().any(|one| one.effect.contains("cannot be read")), "{told:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_spaces_cannot_be_read_is_unhealthy_with_them() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_space(5).await;
    assert_eq!(engine.pool("tank").unwrap().health, Health::Healthy);
    for disk in &disks[..2] {
        fs::rename(disk, format!("{disk}.away")).unwrap();
    }
    eventually(&engine, "noticing", || engine.spaces()[0].health == Health::Unhealthy).await;
    let pool = engine.pool("tank").unwrap();
    assert_eq!((pool.state, pool.health), (PoolHealth::Degraded, Health::Unhealthy), "{pool:?}");
    assert!(pool.conditions.iter().any(|told| told.cause.contains("cannot be read: tank/vm")), "{pool:?}");
    for disk in &disks[..2] {
        fs::rename(format!("{disk}.away"), disk).unwrap();
    }
    eventually(&engine, "its end", || engine.pool("tank").unwrap().health == Health::Healthy).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_back_is_no_cause_any_more() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_space(3).await;
    fs::rename(&disks[1], rig.path("away")).unwrap();
    eventually(&engine, "noticing", || !engine.status().causes.is_empty()).await;
    fs::rename(rig.path("away"), &disks[1]).unwrap();
    eventually(&engine, "its end", || engine.status().causes.is_empty()).await;
    engine.shutdown().await;
}
