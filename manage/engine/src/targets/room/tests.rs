//! The room of LUNs of a real engine: that of a volume for its files, and no more than a pool can give a thin one.

use holdfast_api::{AddLun, CreateSpace, CreateTarget, CreateVolume, LayoutKind};

use super::*;
use crate::jobs::tests::Rig;
use crate::volumes::NewDisk;

const MIB: u64 = 1 << 20;

/// An engine with the volume `tank/files` of two copies, and a target whose LUN 0 is a sparse file of it.
async fn served(rig: &Rig, size_bytes: u64, thin: bool) -> Arc<Engine> {
    let engine = rig.with_spaces(&[]).await;
    let space = CreateSpace {
        name: "tank/files".into(),
        layout: LayoutKind::Mirror,
        copies: None,
        parity: None,
        columns: None,
        interleave_bytes: None,
        size_bytes,
        thin,
        journal_bytes: None,
        integrity: None,
        enclosure_aware: false,
    };
    let request = CreateVolume { name: "tank/files".into(), space: Some(space), on: None, case_sensitive: false };
    engine.create_volume(request).await.unwrap();
    engine.create_target(CreateTarget { name: "vm".into(), ..CreateTarget::default() }).await.unwrap();
    let lun = AddLun {
        backing: "tank/files:/disk".into(),
        lun: None,
        blocks: None,
        read_only: false,
        size_bytes: Some(16 * MIB),
    };
    engine.add_lun("vm".into(), lun).await.unwrap();
    engine
}

/// What initiators of LUN 0 are told now, as if the last time were long ago.
async fn told(engine: &Engine) -> Room {
    if let Some(lun) = engine.live_mut().targets.get_mut("vm").and_then(|target| target.luns.get_mut(&0)) {
        lun.room = RoomTold::default();
    }
    engine.look_at_luns().await.unwrap();
    engine.live().targets["vm"].luns[&0].unit.room().expect("it is told")
}

fn room_of_volume(engine: &Engine) -> (u64, u64) {
    let (open, known) = engine.open_volume_at("tank/files").unwrap();
    let room = open.volume_of(known.id).unwrap().room();
    (room.total_bytes - room.free_bytes, room.free_bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_have_the_room_of_their_volume_whoever_fills_it() {
    let rig = Rig::with_iscsi();
    let engine = served(&rig, 64 * MIB, false).await;
    let before = told(&engine).await;
    assert_eq!((before.used_bytes, before.available_bytes), room_of_volume(&engine));
    assert_eq!(before.threshold_percent, 85);
    assert!(!before.is_crossed() && before.available_bytes > 32 * MIB, "{before:?}");
    // Another file takes it, and the pool of a fixed space hears nothing of that.
    let new = NewDisk { size_bytes: (before.available_bytes - 2 * MIB) >> 20 << 20, allocates: true };
    engine.find_file("tank/files:/other", Some(new)).await.unwrap();
    let after = told(&engine).await;
    assert_eq!((after.used_bytes, after.available_bytes), room_of_volume(&engine));
    assert!(after.is_crossed() && after.available_bytes < 4 * MIB, "{after:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_on_thin_ground_have_no_more_than_the_pool_can_give() {
    let rig = Rig::with_iscsi();
    // The pool has 384 MiB for two copies of each.
    let engine = served(&rig, 1024 * MIB, true).await;
    let (_, free) = room_of_volume(&engine);
    let before = told(&engine).await;
    assert!(free > 512 * MIB && before.available_bytes < 192 * MIB, "{free} free, {before:?}");
    assert!(!before.is_crossed() && before.available_bytes > 32 * MIB, "{before:?}");
    let fixed = CreateSpace {
        name: "tank/other".into(),
        layout: LayoutKind::Mirror,
        copies: None,
        parity: None,
        columns: None,
        interleave_bytes: None,
        size_bytes: before.available_bytes / 2 >> 20 << 20,
        thin: false,
        journal_bytes: None,
        integrity: None,
        enclosure_aware: false,
    };
    engine.create_space(fixed).await.unwrap();
    let after = told(&engine).await;
    assert!(after.available_bytes < before.available_bytes * 3 / 4, "{before:?}, then {after:?}");
    engine.shutdown().await;
}

#[test]
fn what_a_thin_space_has_taken_is_there_for_its_volume_also_where_the_pool_has_nothing_more() {
    let of = |used_bytes, available_bytes| Use { used_bytes, available_bytes };
    assert_eq!(of(30, 70).on(of(100, 0)), of(30, 70));
    assert_eq!(of(30, 70).on(of(40, 0)), of(30, 10));
    assert_eq!(of(30, 70).on(of(40, 5)), of(30, 15));
    assert_eq!(of(30, 70).on(of(20, 5)), of(30, 5));
}
