//! What a pool says that it could still hold, and when it says that it fills up.

use std::time::Duration;

use holdfast_api::{
    AddDisks, CapacityLimit, CreateFileDisk, CreateSpace, LayoutKind, SetDisk, SetPool, SetSettings, Severity,
};
use holdfast_engine::Engine;
use holdfast_model::{Health, Usage};

use crate::support::{MIB, Rig, eventually, mirror, parity, pool};

fn set(percents: &[u8]) -> SetPool {
    SetPool { alert_percents: Some(percents.to_vec()), ..SetPool::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_is_what_fits() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(3).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let told = engine.pool("tank").unwrap();
    assert!(engine.pools().iter().all(|pool| pool.usable.is_empty()), "only where one pool is asked for");
    let layouts: Vec<_> = told.usable.iter().map(|layout| (layout.layout, layout.copies, layout.parity)).collect();
    let (simple, two, three) = ((LayoutKind::Simple, 1, 0), (LayoutKind::Mirror, 2, 0), (LayoutKind::Mirror, 3, 0));
    assert_eq!(layouts, [simple, two, three, (LayoutKind::Parity, 1, 1), (LayoutKind::Parity, 1, 2)]);
    let dual = &told.usable[4];
    assert_eq!((dual.limited_by, dual.usable_bytes), (CapacityLimit::Disks, 0));
    for layout in &told.usable[..4] {
        assert!(layout.usable_bytes > 0 && !layout.reason.is_empty(), "{layout:?}");
        let wanted = |size_bytes| CreateSpace {
            layout: layout.layout,
            copies: (layout.layout == LayoutKind::Mirror).then_some(layout.copies),
            ..if layout.parity > 0 {
                parity("tank/all", layout.parity, size_bytes)
            } else {
                mirror("tank/all", size_bytes)
            }
        };
        assert!(
            engine.create_space(wanted(layout.usable_bytes + 4096)).await.is_err(),
            "{layout:?}: no more than told"
        );
        engine.create_space(wanted(layout.usable_bytes)).await.unwrap_or_else(|error| panic!("{layout:?}: {error}"));
        let full = engine.pool("tank").unwrap();
        let same = full.usable.iter().find(|now| (now.layout, now.copies) == (layout.layout, layout.copies)).unwrap();
        assert_eq!(same.usable_bytes, 0, "{same:?}");
        engine.destroy_space("tank/all".into(), true).await.unwrap();
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn single_and_dual_parity_are_compared_at_the_same_columns() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(6).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let told = engine.pool("tank").unwrap();
    let of = |parity| told.usable.iter().filter(move |layout| layout.parity == parity);
    assert_eq!(of(1).map(|layout| (layout.columns, layout.default)).collect::<Vec<_>>(), [(3, true), (4, false)]);
    assert_eq!(of(2).map(|layout| (layout.columns, layout.default)).collect::<Vec<_>>(), [(4, true)]);
    let (single, dual) = (of(1).next_back().unwrap(), of(2).next_back().unwrap());
    assert!(single.usable_bytes > dual.usable_bytes, "{single:?} {dual:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_without_thresholds_of_their_own_have_those_of_the_server() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(3).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let alert = |engine: &holdfast_engine::Engine| engine.pools()[0].alert.clone();
    let change = SetSettings { alert_percents: Some(vec![80, 60]), ..SetSettings::default() };
    assert!(engine.set_preferences(change.clone()).await.unwrap());
    assert!(!engine.set_preferences(change).await.unwrap());
    assert_eq!((alert(&engine).percents, alert(&engine).default), (vec![60, 80], true));
    engine.set_pool("tank".into(), set(&[50])).await.unwrap();
    assert_eq!((alert(&engine).percents, alert(&engine).default), (vec![50], false));
    let back = SetPool { default_alerts: true, ..SetPool::default() };
    assert!(engine.set_pool("tank".into(), back.clone()).await.unwrap().changed);
    assert!(!engine.set_pool("tank".into(), back.clone()).await.unwrap().changed);
    assert_eq!((alert(&engine).percents, alert(&engine).default), (vec![60, 80], true));
    let both = SetPool { alert_percents: Some(vec![1]), ..back };
    assert!(engine.set_pool("tank".into(), both).await.is_err());
    engine.create_space(mirror("tank/a", engine.pool("tank").unwrap().usable[1].usable_bytes)).await.unwrap();
    eventually(&engine, "the alert", || alert(&engine).reached_percent == Some(80)).await;
    let never = SetSettings { alert_percents: Some(vec![]), ..SetSettings::default() };
    engine.set_preferences(never).await.unwrap();
    assert_eq!(alert(&engine).reached_percent, None);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_limits_is_named() {
    let rig = Rig::new();
    let (engine, mut disks) = rig.with_disks(3).await;
    let large = rig.disk("large");
    engine.create_file_disk(CreateFileDisk { path: large.clone(), size_bytes: 1024 * MIB }).await.unwrap();
    disks.push(large);
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let of =
        |told: &holdfast_api::Pool, copies| told.usable.iter().find(|layout| layout.copies == copies).unwrap().clone();
    let told = engine.pool("tank").unwrap();
    assert_eq!(of(&told, 3).limited_by, CapacityLimit::LargeDisk, "{:?}", told.usable);
    assert!(of(&told, 3).unused_bytes > 800 * MIB, "{:?}", told.usable);
    assert_eq!(of(&told, 1).layout, LayoutKind::Simple);
    assert_eq!(of(&told, 1).limited_by, CapacityLimit::Columns, "{:?}", told.usable);
    assert_eq!(of(&told, 2).enclosure_aware_bytes, None, "all disks are in one enclosure");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spares_are_kept_free() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(4).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let before = engine.pool("tank").unwrap().room.data_bytes;
    engine.set_disk(disks[3].clone(), SetDisk { usage: Some(Usage::HotSpare), ..SetDisk::default() }).await.unwrap();
    let told = engine.pool("tank").unwrap();
    assert_eq!(told.room.data_bytes, before / 4 * 3);
    assert_eq!(told.usable[0].limited_by, CapacityLimit::Spares, "{:?}", told.usable[0]);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_fills_up_says_so_once_for_each_threshold() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(3).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let told = engine.pool("tank").unwrap();
    assert_eq!((told.alert.percents, told.alert.reached_percent), (vec![70, 85, 95], None));
    let wrong = engine.set_pool("tank".into(), set(&[50, 101])).await.unwrap_err();
    assert!(wrong.message.contains("101") && wrong.next_action.contains("--alert"), "{wrong}");
    assert!(engine.set_pool("tank".into(), set(&[90, 40])).await.unwrap().changed);
    assert!(!engine.set_pool("tank".into(), set(&[40, 90])).await.unwrap().changed);

    let half = engine.pool("tank").unwrap().usable[1].usable_bytes / 2 / MIB * MIB;
    engine.create_space(mirror("tank/a", half)).await.unwrap();
    let thin = CreateSpace { thin: true, ..mirror("tank/thin", 16 * half) };
    engine.create_space(thin).await.unwrap();
    let reached = || engine.pools()[0].alert.reached_percent;
    eventually(&engine, "the alert", || reached() == Some(40)).await;
    let told = engine.pool("tank").unwrap();
    assert!(
        told.health == Health::Warning
            && told.conditions.iter().any(|it| it.cause.contains("its alert threshold of 40 %")),
        "{told:?}"
    );
    assert!(told.room.ratio > 4.0 && told.room.provisioned_bytes > told.room.data_bytes, "{:?}", told.room);
    let metrics = engine.metrics();
    assert!(metrics.contains("holdfast_pool_alert_percent{pool=\"tank\"} 40\n"), "{metrics}");
    assert!(metrics.contains("holdfast_pool_provisioned_bytes{pool=\"tank\"} "), "{metrics}");
    let alerts = |engine: &holdfast_engine::Engine| {
        let told = engine.events().list(0, 1000).into_iter().filter(|event| event.cause.contains("alert threshold"));
        told.map(|event| event.severity).collect::<Vec<_>>()
    };
    eventually(&engine, "the event of the alert", || alerts(&engine) == [Severity::Warning]).await;
    engine.shutdown().await;
    drop(engine);

    let engine = rig.start().await;
    let reached = || engine.pools().first().and_then(|pool| pool.alert.reached_percent);
    assert_eq!(reached(), Some(40), "it is remembered");
    engine.create_file_disk(CreateFileDisk { path: rig.disk("d4"), size_bytes: 128 * MIB }).await.unwrap();
    engine.add_disks("tank".into(), AddDisks { disks: vec![rig.disk("d4")], force: false }).await.unwrap();
    engine.destroy_space("tank/a".into(), true).await.unwrap();
    eventually(&engine, "the end of the alert", || reached().is_none()).await;
    let told = || alerts(&engine) == [Severity::Warning, Severity::Info];
    eventually(&engine, "each is told once", told).await;
    assert_eq!(engine.pool("tank").unwrap().health, Health::Healthy);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thresholds_that_are_set_while_the_room_is_looked_at_stay_and_are_told_once() {
    const ROUNDS: u8 = 40;
    let rig = Rig::new();
    let mut settings = rig.settings();
    settings.watch_interval = Duration::from_millis(1);
    let engine = Engine::start(settings).await.unwrap();
    let disks = [rig.disk("d1"), rig.disk("d2")];
    for path in &disks {
        engine.create_file_disk(CreateFileDisk { path: path.clone(), size_bytes: 128 * MIB }).await.unwrap();
    }
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    engine.create_space(mirror("tank/a", engine.pool("tank").unwrap().usable[1].usable_bytes)).await.unwrap();
    engine.set_pool("tank".into(), set(&[])).await.unwrap();
    let told = || engine.events().list(0, 1000).iter().filter(|event| event.cause.contains("alert threshold")).count();
    let before = told();
    for round in 1..=ROUNDS {
        engine.set_pool("tank".into(), set(&[round])).await.unwrap();
        assert_eq!(engine.pools()[0].alert.percents, [round]);
    }
    // Who looked before the last change has ended by then.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let alert = engine.pools()[0].alert.clone();
    assert_eq!((alert.percents, alert.reached_percent), (vec![ROUNDS], Some(ROUNDS)));
    assert_eq!(told() - before, usize::from(ROUNDS), "each is told once: {:#?}", engine.events().list(0, 1000));
    engine.shutdown().await;
}
