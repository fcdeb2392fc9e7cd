//! Disks that are to be emptied: nothing of it begins where what they hold finds no room.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{MIB, Rig, eventually, mirror, pool};
use holdfast_api::{ApiError, Code, CreateFileDisk, CreateSpace, DiskRef, ReplaceDisk, RetireDisk, SetPool};
use holdfast_engine::Engine;
use holdfast_model::{DiskState, RetirePolicy, Usage};

fn copies(copies: u8, size_bytes: u64) -> CreateSpace {
    CreateSpace { copies: Some(copies), columns: Some(1), ..mirror("tank/vm", size_bytes) }
}

/// An engine with a pool `tank` of so many disks.
async fn start(rig: &Rig, disks: usize) -> (Arc<Engine>, Vec<String>) {
    let (engine, disks) = rig.with_disks(disks).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    (engine, disks)
}

async fn check_untouched(engine: &Arc<Engine>, disk: &str, members: usize) {
    let shown = engine.disk(&DiskRef::new(disk)).await.unwrap();
    assert_eq!(shown.usage, Some(Usage::Auto), "it is not retired");
    assert_eq!(engine.pool("tank").unwrap().disks.len(), members);
    assert!(engine.jobs(None, None).is_empty(), "no job began");
}

fn check_told(error: &ApiError, parts: &[&str]) {
    assert_eq!(error.code, Code::NoSpace, "{error}");
    for part in parts {
        assert!(format!("{} {}", error.message, error.next_action).contains(part), "{error} does not say {part}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_stays_as_it_is_where_the_others_have_no_room_for_what_it_holds() {
    let rig = Rig::new();
    let (engine, disks) = start(&rig, 3).await;
    engine.create_space(copies(3, 32 * MIB)).await.unwrap();
    let plan = engine.plan_evacuation(&disks[0]).await.unwrap();
    assert!(!plan.fits && plan.stuck > 0, "{plan:?}");
    let stuck = format!("{} slabs", plan.stuck);
    let said = [stuck.as_str(), "tank/vm", "disk replace", "--dry-run", "nothing was changed"];
    let evacuated = engine.evacuate_disk(disks[0].clone(), Default::default()).await;
    check_told(&evacuated.unwrap_err(), &said);
    let retired = engine.retire_disk(disks[0].clone(), RetireDisk { evacuate: true, ..RetireDisk::default() }).await;
    check_told(&retired.unwrap_err(), &said);
    let replaced = engine.replace_disk(disks[0].clone(), ReplaceDisk::default()).await;
    check_told(&replaced.unwrap_err(), &said);
    check_untouched(&engine, &disks[0], 3).await;
    let alone = engine.retire_disk(disks[0].clone(), RetireDisk::default()).await.unwrap_err();
    assert!(
        alone.code == Code::Conflict && alone.message.contains("tank/vm") && alone.next_action.contains("--force"),
        "{alone}"
    );
    let forced = RetireDisk { force: true, ..RetireDisk::default() };
    assert!(engine.retire_disk(disks[0].clone(), forced).await.unwrap().changed, "its data may stay");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_too_small_takes_nobodys_place() {
    let rig = Rig::new();
    let (engine, disks) = start(&rig, 3).await;
    engine.create_space(copies(3, 80 * MIB)).await.unwrap();
    let (small, large) = (rig.disk("small"), rig.disk("large"));
    engine.create_file_disk(CreateFileDisk { path: small.clone(), size_bytes: 64 * MIB }).await.unwrap();
    engine.create_file_disk(CreateFileDisk { path: large.clone(), size_bytes: 128 * MIB }).await.unwrap();
    let by = |new: &str| ReplaceDisk { new: Some(new.into()), ..ReplaceDisk::default() };
    let refused = engine.replace_disk(disks[0].clone(), by(&small)).await.unwrap_err();
    check_told(&refused, &["64 MiB", "tank/vm", "larger disk", "nothing was changed"]);
    check_untouched(&engine, &disks[0], 3).await;
    assert!(engine.disk(&DiskRef::new(&small)).await.unwrap().can_pool, "it is left blank");

    let job = engine.replace_disk(disks[0].clone(), by(&large)).await.unwrap().job;
    eventually(&engine, "the replacement", || engine.job(job.id).unwrap().result.is_some()).await;
    let members: Vec<String> = engine.pool("tank").unwrap().disks.into_iter().map(|disk| disk.path).collect();
    assert_eq!(members, [disks[1].clone(), disks[2].clone(), large]);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_that_fail_together_are_given_up_together_or_not_at_all() {
    let rig = Rig::new();
    let (engine, disks) = start(&rig, 5).await;
    let room = engine.pool("tank").unwrap().free_bytes / 5;
    // Four disks hold three copies of it, three do not.
    engine.create_space(copies(3, (room / 6 * 7).next_multiple_of(MIB))).await.unwrap();
    let request = SetPool { retire_policy: Some(RetirePolicy::Auto), grace_seconds: Some(2), ..SetPool::default() };
    engine.set_pool("tank".into(), request).await.unwrap();
    for (number, disk) in disks[..2].iter().enumerate() {
        fs::rename(disk, rig.path(&format!("away{number}"))).unwrap();
        let count =
            || engine.pool("tank").unwrap().disks.iter().filter(|disk| disk.state == DiskState::Missing).count();
        eventually(&engine, "noticing", || count() == number + 1).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let told = || engine.events().list(0, 1000).iter().any(|event| event.cause.contains("not all of it fits"));
    eventually(&engine, "telling that there is no room", told).await;
    for disk in &disks[..2] {
        assert_eq!(engine.disk(&DiskRef::new(disk)).await.unwrap().usage, Some(Usage::Auto), "{disk} is not retired");
    }
    assert!(engine.jobs(None, None).is_empty(), "nothing is rebuilt by halves");
    engine.shutdown().await;
}
