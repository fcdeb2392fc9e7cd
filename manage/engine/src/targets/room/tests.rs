//! The room of LUNs of a real engine: that of a volume for its files, and no more than a pool can give a thin one.

use holdfast_api::{
    AddLun, Code, ConvertSpace, CreateSpace, CreateTarget, CreateVolume, GrowLun, Lun, LunAlert, SetLun, SetPool,
};
use holdfast_harness::Wait;
use holdfast_volume::service::FileService;

use super::*;
use crate::jobs::tests::{Rig, eventually, mirror};
use crate::volumes::NewDisk;

const MIB: u64 = 1 << 20;

/// An engine with the volume `tank/files` of two copies, and a target whose LUN 0 is a sparse file of it.
async fn served(rig: &Rig, size_bytes: u64, thin: bool) -> Arc<Engine> {
    let engine = rig.with_spaces(&[]).await;
    let space = CreateSpace { thin, ..mirror("tank/files", size_bytes) };
    let request = CreateVolume { name: "tank/files".into(), space: Some(space), on: None, case_sensitive: false };
    engine.create_volume(request).await.unwrap();
    engine.create_target(CreateTarget { name: "vm".into(), ..CreateTarget::default() }).await.unwrap();
    engine.add_lun("vm".into(), file(None)).await.unwrap();
    engine
}

/// The LUN 0 that it has.
fn file(alert_percent: Option<u8>) -> AddLun {
    AddLun {
        backing: "tank/files:/disk".into(),
        lun: None,
        blocks: None,
        read_only: false,
        size_bytes: Some(16 * MIB),
        full: false,
        alert_percent,
    }
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

/// The same, which is the room of the volume. That changes by itself when it ends what was begun, and the engine looks at
/// it at any moment, too: then it is asked again.
async fn told_of_volume(engine: &Engine) -> Room {
    let mut wait = Wait::new();
    loop {
        let told = told(engine).await;
        if (told.used_bytes, told.available_bytes) == room_of_volume(engine) {
            return told;
        }
        let pause = wait.pause(|| format!("told is {told:?}, and the volume has {:?}", room_of_volume(engine)));
        tokio::time::sleep(pause).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_have_the_room_of_their_volume_whoever_fills_it() {
    let rig = Rig::with_iscsi();
    let engine = served(&rig, 64 * MIB, false).await;
    let before = told_of_volume(&engine).await;
    assert_eq!(before.threshold_percent, 85);
    assert!(!before.is_crossed() && before.available_bytes > 32 * MIB, "{before:?}");
    // Another file takes it, and the pool of a fixed space hears nothing of that.
    let new = NewDisk { size_bytes: (before.available_bytes - 2 * MIB) >> 20 << 20, allocates: true };
    engine.find_file("tank/files:/other", Some(new)).await.unwrap();
    let after = told_of_volume(&engine).await;
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
    let fixed = mirror("tank/other", (before.available_bytes / 2) >> 20 << 20);
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

async fn set(engine: &Arc<Engine>, alert_percent: Option<u8>) -> (bool, Lun) {
    let request = SetLun { alert_percent, default_alert: alert_percent.is_none(), ..SetLun::default() };
    let answer = engine.set_lun("vm".into(), 0, request).await.unwrap();
    (answer.changed, answer.lun)
}

#[tokio::test(flavor = "multi_thread")]
async fn initiators_are_warned_when_that_is_set_and_it_is_kept_with_the_pool() {
    let rig = Rig::with_iscsi();
    let mut engine = served(&rig, 64 * MIB, false).await;
    let now = |engine: &Engine| engine.live().targets["vm"].luns[&0].unit.room().map(|room| room.threshold_percent);
    let usual = LunAlert { percent: 85, default: true, reached: false };
    assert_eq!(engine.lun("vm", 0).unwrap().alert, Some(usual));
    told(&engine).await;
    // It holds at once: no look is waited for.
    let (changed, lun) = set(&engine, Some(1)).await;
    assert_eq!((changed, lun.alert), (true, Some(LunAlert { percent: 1, default: false, reached: true })));
    assert_eq!(now(&engine), Some(1));
    assert!(!set(&engine, Some(1)).await.0);
    let (_, lun) = set(&engine, Some(0)).await;
    assert_eq!((lun.alert, now(&engine)), (Some(LunAlert { percent: 0, default: false, reached: false }), Some(0)));
    let own = engine.add_lun("vm".into(), file(Some(70))).await.unwrap_err();
    assert_eq!((own.code, own.field.as_deref()), (Code::Exists, Some("alert_percent")), "{own}");
    let (_, lun) = set(&engine, None).await;
    assert_eq!((lun.alert, now(&engine)), (Some(usual), Some(85)));
    let alerts = SetPool { alert_percents: Some(vec![60]), ..SetPool::default() };
    engine.set_pool("tank".into(), alerts).await.unwrap();
    assert_eq!((told(&engine).await.threshold_percent, engine.lun("vm", 0).unwrap().alert.unwrap().percent), (60, 60));
    for wrong in [
        SetLun { alert_percent: Some(101), ..SetLun::default() },
        SetLun { alert_percent: Some(50), default_alert: true, ..SetLun::default() },
    ] {
        let refused = engine.set_lun("vm".into(), 0, wrong).await.unwrap_err();
        assert_eq!((refused.code, refused.field.as_deref()), (Code::Invalid, Some("alert_percent")), "{refused}");
    }
    set(&engine, Some(33)).await;
    engine.shutdown().await;
    drop(engine);
    engine = rig.start().await;
    eventually(&engine, "it is served", || engine.lun("vm", 0).unwrap().served).await;
    assert_eq!(engine.lun("vm", 0).unwrap().alert.map(|alert| (alert.percent, alert.default)), Some((33, false)));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_all_of_its_room_warns_of_nothing() {
    let rig = Rig::with_iscsi();
    let engine = rig.with_spaces(&["tank/a"]).await;
    engine.create_target(CreateTarget { name: "vm".into(), ..CreateTarget::default() }).await.unwrap();
    let lun = |alert_percent| AddLun { backing: "tank/a".into(), size_bytes: None, ..file(alert_percent) };
    let refused = engine.add_lun("vm".into(), lun(Some(80))).await.unwrap_err();
    assert_eq!((refused.code, refused.field.as_deref()), (Code::Invalid, Some("alert_percent")), "{refused}");
    assert!(engine.target("vm").unwrap().luns.is_empty());
    let added = engine.add_lun("vm".into(), lun(None)).await.unwrap();
    assert_eq!(added.lun.alert, None);
    let request = SetLun { alert_percent: Some(80), ..SetLun::default() };
    let refused = engine.set_lun("vm".into(), 0, request).await.unwrap_err();
    assert!(refused.message.contains("all of its room"), "{refused}");
    engine.shutdown().await;
}

/// A file with all of its room.
fn full(path: &str, size_bytes: Option<u64>) -> AddLun {
    AddLun { backing: format!("tank/files:{path}"), size_bytes, full: true, ..file(None) }
}

/// What a file has: its size, and its room.
async fn has(engine: &Arc<Engine>, path: &str) -> (u64, u64) {
    let (open, found) = engine.find_file(&format!("tank/files:{path}"), None).await.unwrap();
    let volume = open.volume_of(found.volume).unwrap();
    let facts = engine.on_reactor(move || async move { volume.stat(found.file).await }).await.unwrap().unwrap();
    (facts.size_bytes, facts.allocated_bytes)
}

fn refused<T: std::fmt::Debug>(answer: ApiResult<T>, code: Code, field: &str) {
    let error = answer.unwrap_err();
    assert_eq!((error.code, error.field.as_deref()), (code, Some(field)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_file_has_all_of_its_room_or_is_not_there() {
    let rig = Rig::with_iscsi();
    let mut engine = served(&rig, 96 * MIB, false).await;
    let vm = || "vm".to_owned();
    let (_, free) = room_of_volume(&engine);
    refused(engine.add_lun(vm(), full("/much", Some(free + MIB))).await, Code::NoSpace, "size_bytes");
    assert_eq!(engine.find_file("tank/files:/much", None).await.err().unwrap().code, Code::NotFound);
    for changed in [true, false] {
        let added = engine.add_lun(vm(), full("/full", Some(16 * MIB))).await.unwrap();
        assert_eq!((added.changed, added.lun.lun, added.lun.full, added.lun.alert), (changed, 1, true, None));
    }
    assert_eq!(has(&engine, "/full").await, (16 * MIB, 16 * MIB));
    assert_eq!(has(&engine, "/disk").await.1, 0, "others are sparse");
    let sparse = AddLun { full: false, ..full("/full", None) };
    refused(engine.add_lun(vm(), sparse).await, Code::Exists, "full");
    let alert = AddLun { alert_percent: Some(50), ..full("/other", Some(MIB)) };
    refused(engine.add_lun(vm(), alert).await, Code::Invalid, "alert_percent");
    assert_eq!(engine.find_file("tank/files:/other", None).await.err().unwrap().code, Code::NotFound);
    // It grows with its room, or not at all.
    let grow = |size_bytes| GrowLun { size_bytes };
    assert_eq!(engine.grow_lun(vm(), 1, grow(32 * MIB)).await.unwrap().lun.size_bytes, Some(32 * MIB));
    assert_eq!(has(&engine, "/full").await, (32 * MIB, 32 * MIB));
    refused(engine.grow_lun(vm(), 1, grow(1024 * MIB)).await, Code::NoSpace, "size_bytes");
    assert_eq!(has(&engine, "/full").await, (32 * MIB, 32 * MIB));
    // One that was there gets what it lacks, and stays where it cannot.
    let there = |size_bytes| Some(NewDisk { size_bytes, allocates: false });
    engine.find_file("tank/files:/there", there(8 * MIB)).await.unwrap();
    engine.find_file("tank/files:/large", there(1024 * MIB)).await.unwrap();
    assert!(engine.add_lun(vm(), full("/there", None)).await.unwrap().lun.full);
    assert_eq!(has(&engine, "/there").await, (8 * MIB, 8 * MIB));
    refused(engine.add_lun(vm(), full("/large", None)).await, Code::NoSpace, "size_bytes");
    assert_eq!(has(&engine, "/large").await, (1024 * MIB, 0));
    // The pool keeps what it gave the volume.
    let thin = |thin| engine.convert_space("tank/files".into(), ConvertSpace { thin, ..ConvertSpace::default() });
    refused(thin(Some(true)).await, Code::Conflict, "thin");
    engine.shutdown().await;
    drop(engine);
    engine = rig.start().await;
    eventually(&engine, "all are served", || engine.target("vm").unwrap().luns.iter().all(|lun| lun.served)).await;
    let luns = engine.target("vm").unwrap().luns;
    let kept: Vec<(bool, bool)> = luns.iter().map(|lun| (lun.full, lun.alert.is_some())).collect();
    assert_eq!(kept, [(false, true), (true, false), (true, false)], "{luns:#?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_full_where_the_ground_may_run_out() {
    let rig = Rig::with_iscsi();
    let engine = served(&rig, 64 * MIB, true).await;
    refused(engine.add_lun("vm".into(), full("/full", Some(MIB))).await, Code::Conflict, "full");
    assert_eq!(engine.find_file("tank/files:/full", None).await.err().unwrap().code, Code::NotFound);
    let space = AddLun { backing: "tank/other".into(), ..full("", None) };
    refused(engine.add_lun("vm".into(), space).await, Code::Invalid, "full");
    engine.shutdown().await;
}
