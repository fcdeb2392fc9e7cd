//! iSCSI targets: made, kept, moved with their pools, refused. Who logs in is a matter of other tests.

use std::sync::Arc;

use crate::support::{MIB, Rig, eventually, export, mirror, pool};
use holdfast_api::{
    AddLun, AddPortal, AllowInitiator, ApiError, ChapAccount, Code, CreateExport, CreateFileDisk, CreateSnapshot,
    CreateTarget, CreateVolume, GrowSpace, HistoryKind, ImportPools, LunBlocks, PortalState, RestoreSnapshot, SetLun,
    SetPortal, SetQos, SetTarget, Target,
};
use holdfast_engine::{Engine, Settings};
use holdfast_model::Health;

const HOST: &str = "iqn.2000-01.org.example:host";
const SECRET: &str = "a secret of CHAP";

pub fn settings(rig: &Rig, state: &str) -> Settings {
    let mut settings = rig.settings();
    settings.state_dir = rig.path(state);
    settings.nbd_addresses = Vec::new();
    settings.iscsi_addresses = vec!["127.0.0.1:0".parse().expect("an address")];
    settings
}

pub async fn start(rig: &Rig, state: &str) -> Arc<Engine> {
    Engine::start(settings(rig, state)).await.expect("the engine starts")
}

/// An engine with a pool of this name on two disks of its own, and a space `vm` on it.
pub async fn with_pool(engine: &Arc<Engine>, rig: &Rig, name: &str) {
    let disks = [rig.disk(&format!("{name}1")), rig.disk(&format!("{name}2"))];
    for path in disks.clone() {
        engine.create_file_disk(CreateFileDisk { path, size_bytes: 128 * MIB }).await.expect("a disk");
    }
    engine.create_pool(pool(name, &disks)).await.expect("a pool");
    engine.create_space(mirror(&format!("{name}/vm"), 32 * MIB)).await.expect("a space");
}

pub async fn import(engine: &Arc<Engine>, rig: &Rig, name: &str) {
    let request = ImportPools { pool: Some(name.into()), disk_dirs: vec![rig.disk("")], force: false };
    assert!(engine.import_pools(request).await.expect("its disks are here").changed);
}

fn named(name: &str) -> CreateTarget {
    CreateTarget { name: name.into(), ..CreateTarget::default() }
}

pub fn lun(backing: &str) -> AddLun {
    AddLun {
        backing: backing.into(),
        lun: None,
        blocks: None,
        read_only: false,
        size_bytes: None,
        full: false,
        alert_percent: None,
    }
}

fn chap(user: &str, secret: &str) -> ChapAccount {
    ChapAccount { user: user.into(), secret: secret.into() }
}

fn allow(iqn: &str, chap: Option<ChapAccount>) -> AllowInitiator {
    AllowInitiator { iqn: iqn.into(), chap, no_chap: false }
}

pub async fn made(engine: &Arc<Engine>, name: &str, backings: &[&str]) -> Target {
    engine.create_target(named(name)).await.expect("a target");
    for backing in backings {
        engine.add_lun(name.into(), lun(backing)).await.expect("a LUN");
    }
    engine.target(name).expect("it is there")
}

/// Adds a file of a new volume `tank/files`, on a space of its own, to a target.
async fn add_file(engine: &Arc<Engine>, target: &str) {
    let ground = "tank/ground";
    engine.create_space(mirror(ground, 48 * MIB)).await.expect("a space");
    let on = CreateVolume { name: "tank/files".into(), on: Some(ground.into()), space: None, case_sensitive: true };
    engine.create_volume(on).await.expect("a volume");
    let file = AddLun { size_bytes: Some(MIB), ..lun("tank/files:/disk") };
    engine.add_lun(target.into(), file).await.expect("a LUN");
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, ApiError>, code: Code, field: Option<&str>) -> ApiError {
    let error = answer.unwrap_err();
    assert_eq!((error.code, error.field.as_deref()), (code, field), "{error}");
    assert!(!error.next_action.is_empty(), "{error}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_changes_nothing_and_another_request_is_refused() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    with_pool(&engine, &rig, "tank").await;
    let request = CreateTarget { iqn: Some("iqn.2026-11.org.example:Disk".into()), ..named("vm") };
    for changed in [true, false] {
        let answer = engine.create_target(request.clone()).await.unwrap();
        assert_eq!((answer.changed, answer.target.iqn.as_str()), (changed, "iqn.2026-11.org.example:disk"));
    }
    assert!(!engine.create_target(named("vm")).await.unwrap().changed, "the name is left to us");
    let other = CreateTarget { iqn: Some("iqn.2026-11.org.example:other".into()), ..named("vm") };
    refused(engine.create_target(other).await, Code::Exists, Some("iqn"));
    refused(engine.create_target(CreateTarget { open: true, ..named("vm") }).await, Code::Exists, Some("open"));
    let portals = CreateTarget { portals: vec!["127.0.0.1".into()], ..named("vm") };
    refused(engine.create_target(portals).await, Code::Exists, Some("portals"));
    refused(
        engine.create_target(CreateTarget { iqn: request.iqn, ..named("other") }).await,
        Code::Conflict,
        Some("iqn"),
    );

    for changed in [true, false] {
        let answer = engine.add_lun("vm".into(), AddLun { lun: Some(7), ..lun("tank/vm") }).await.unwrap();
        assert_eq!((answer.changed, answer.lun.lun, answer.lun.served), (changed, 7, true));
        assert_eq!(answer.lun.id, engine.space("tank/vm").unwrap().id, "it is known by its space");
    }
    assert!(!engine.add_lun("vm".into(), lun("tank/vm")).await.unwrap().changed);
    refused(engine.add_lun("vm".into(), AddLun { lun: Some(8), ..lun("tank/vm") }).await, Code::Exists, Some("lun"));
    let blocks = AddLun { blocks: Some(LunBlocks::B4096), ..lun("tank/vm") };
    refused(engine.add_lun("vm".into(), blocks).await, Code::Exists, Some("blocks"));
    refused(
        engine.add_lun("vm".into(), AddLun { read_only: true, ..lun("tank/vm") }).await,
        Code::Exists,
        Some("read_only"),
    );
    engine.create_space(mirror("tank/more", 8 * MIB)).await.unwrap();
    refused(engine.add_lun("vm".into(), AddLun { lun: Some(7), ..lun("tank/more") }).await, Code::Exists, Some("lun"));
    assert_eq!(engine.add_lun("vm".into(), lun("tank/more")).await.unwrap().lun.lun, 0, "the lowest that is free");
    engine.create_target(named("second")).await.unwrap();
    refused(engine.add_lun("second".into(), lun("tank/vm")).await, Code::Conflict, Some("backing"));

    for changed in [true, false] {
        let account = Some(chap("ann", SECRET));
        assert_eq!(engine.allow_initiator("vm".into(), allow(HOST, account)).await.unwrap().changed, changed);
    }
    refused(engine.allow_initiator("vm".into(), allow(HOST, None)).await, Code::Conflict, Some("chap"));
    assert!(
        engine
            .allow_initiator("vm".into(), AllowInitiator { no_chap: true, ..allow(HOST, None) })
            .await
            .unwrap()
            .changed
    );
    for changed in [true, false] {
        assert_eq!(engine.deny_initiator("vm".into(), HOST.into()).await.unwrap().changed, changed);
        assert_eq!(engine.remove_lun("vm".into(), 0, false).await.unwrap().changed, changed);
        assert_eq!(engine.destroy_target("second".into(), false).await.unwrap().changed, changed);
        let qos = Some(SetQos { max_iops: Some(500), ..SetQos::default() });
        let limits = SetLun { qos, ..SetLun::default() };
        assert_eq!(engine.set_lun("vm".into(), 7, limits).await.unwrap().changed, changed);
        assert_eq!(engine.set_discovery(Some(chap("who", SECRET))).await.unwrap().changed, changed);
    }
    assert_eq!(engine.discovery().chap_user.as_deref(), Some("who"));
    assert_eq!(engine.history(HistoryKind::Lun, "vm/7", 60, None).await.unwrap().name, "vm/7");
    let text = format!("{:?}{:?}{}", engine.targets(), engine.events().list(0, 1000), engine.metrics());
    assert!(
        !text.contains(SECRET) && text.contains("holdfast_lun_size_bytes{lun=\"vm/7\",backing=\"tank/vm\"} 33554432")
    );
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_refused_at_the_field_and_change_nothing() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    with_pool(&engine, &rig, "tank").await;
    made(&engine, "vm", &["tank/vm"]).await;
    let before = engine.targets();
    refused(engine.create_target(named("a b")).await, Code::Invalid, Some("name"));
    refused(
        engine.create_target(CreateTarget { iqn: Some("disk".into()), ..named("x") }).await,
        Code::Invalid,
        Some("iqn"),
    );
    for portal in ["0.0.0.0:3260", "", "nowhere.invalid", "127.0.0.1:x"] {
        let request = CreateTarget { portals: vec![portal.into()], ..named("x") };
        refused(engine.create_target(request).await, Code::Invalid, Some("portals"));
    }
    let target = || "vm".to_owned();
    for (backing, code) in
        [("tank", Code::Invalid), ("tank/none", Code::NotFound), ("none/vm", Code::NotFound), ("", Code::Invalid)]
    {
        refused(engine.add_lun(target(), lun(backing)).await, code, Some("backing"));
    }
    refused(engine.add_lun(target(), AddLun { lun: Some(256), ..lun("tank/vm") }).await, Code::Invalid, Some("lun"));
    refused(
        engine.add_lun(target(), AddLun { size_bytes: Some(MIB), ..lun("tank/vm") }).await,
        Code::Invalid,
        Some("size_bytes"),
    );
    refused(engine.add_lun("none".into(), lun("tank/vm")).await, Code::NotFound, None);
    refused(engine.allow_initiator(target(), allow("host", None)).await, Code::Invalid, Some("iqn"));
    let short = allow(HOST, Some(chap("ann", "short")));
    refused(engine.allow_initiator(target(), short).await, Code::Invalid, Some("chap.secret"));
    let both = AllowInitiator { no_chap: true, ..allow(HOST, Some(chap("ann", SECRET))) };
    refused(engine.allow_initiator(target(), both).await, Code::Invalid, Some("no_chap"));
    refused(engine.set_discovery(Some(chap("", SECRET))).await, Code::Invalid, Some("user"));
    let group = AddPortal { address: "127.0.0.1".into(), group: Some(0), state: None };
    refused(engine.add_portal(target(), group).await, Code::Invalid, Some("group"));
    refused(
        engine.set_portal(target(), "127.0.0.9".into(), SetPortal { group: Some(2), state: None }).await,
        Code::NotFound,
        None,
    );
    let qos = Some(SetQos { burst_iops: Some(5), ..SetQos::default() });
    let limits = SetLun { qos, ..SetLun::default() };
    refused(engine.set_lun(target(), 0, limits).await, Code::Invalid, Some("qos.burst_iops"));
    refused(engine.set_lun(target(), 9, SetLun::default()).await, Code::NotFound, None);
    refused(engine.reservation("vm", 9), Code::NotFound, None);
    assert!(!engine.clear_reservation(target(), 0, false).await.unwrap().changed);
    assert!(!engine.drop_session(7).await.unwrap().changed);
    // An initiator with the target's own secret could pass for the target.
    let mutual = SetTarget { mutual: Some(chap("me", SECRET)), ..SetTarget::default() };
    assert!(engine.set_target(target(), mutual.clone()).await.unwrap().changed);
    refused(engine.allow_initiator(target(), allow(HOST, Some(chap("ann", SECRET)))).await, Code::Invalid, None);
    assert!(engine.set_target(target(), SetTarget { no_mutual: true, ..SetTarget::default() }).await.unwrap().changed);
    assert_eq!(engine.targets(), before);
    engine.shutdown().await;
    drop(engine);

    let mut silent = settings(&rig, "state");
    silent.iscsi_addresses = Vec::new();
    let engine = Engine::start(silent).await.unwrap();
    let error = refused(engine.create_target(named("x")).await, Code::Conflict, None);
    assert!(error.next_action.contains("--iscsi"), "{error}");
    let target = engine.target("vm").unwrap();
    assert!(!target.served && target.conditions[0].next_action.contains("--iscsi"), "{target:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_a_lun_is_not_destroyed_nor_made_a_volume_and_grows_in_use() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    with_pool(&engine, &rig, "tank").await;
    let target = made(&engine, "vm", &["tank/vm"]).await;
    let nobody = target.conditions.iter().any(|told| told.cause.contains("lets nobody in"));
    assert!(nobody && target.served && !target.connect.is_empty(), "{target:?}");
    let error = refused(engine.destroy_space("tank/vm".into(), true).await, Code::Conflict, None);
    assert!(error.message.contains("LUN vm/0") && error.next_action.contains("lun remove vm 0"), "{error}");
    refused(engine.destroy_pool("tank".into(), true).await, Code::Conflict, None);
    let on_it =
        CreateVolume { name: "tank/files".into(), on: Some("tank/vm".into()), space: None, case_sensitive: true };
    refused(engine.create_volume(on_it.clone()).await, Code::Conflict, Some("on"));
    engine.grow_space("tank/vm".into(), GrowSpace { size_bytes: 48 * MIB }).await.unwrap();
    assert_eq!(engine.lun("vm", 0).unwrap().size_bytes, Some(48 * MIB));
    engine.remove_lun("vm".into(), 0, false).await.unwrap();
    engine.create_volume(on_it).await.unwrap();
    let error = refused(engine.add_lun("vm".into(), lun("tank/vm")).await, Code::Conflict, Some("backing"));
    assert!(error.message.contains("volume tank/files"), "{error}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_have_groups_and_groups_have_states() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    let port = engine.iscsi_addresses()[0].port();
    let (here, away) = (format!("127.0.0.1:{port}"), format!("127.0.0.2:{port}"));
    let target = engine.create_target(named("vm")).await.unwrap().target;
    assert!(!target.portals_set && target.portals[0].address == here && target.served);
    let add = |address: &str, group: Option<u16>| AddPortal { address: address.into(), group, state: None };
    let standby = SetPortal { group: Some(2), state: Some(PortalState::Standby) };
    for changed in [true, false] {
        assert_eq!(engine.add_portal("vm".into(), add(&here, None)).await.unwrap().changed, changed);
        assert_eq!(engine.add_portal("vm".into(), add(&away, Some(2))).await.unwrap().changed, changed);
        assert_eq!(engine.set_portal("vm".into(), away.clone(), standby.clone()).await.unwrap().changed, changed);
    }
    refused(engine.add_portal("vm".into(), add(&away, Some(3))).await, Code::Exists, Some("group"));
    let shown = engine.target("vm").unwrap();
    let portals: Vec<_> =
        shown.portals.iter().map(|one| (one.address.as_str(), one.group, one.state, one.listening)).collect();
    let (active, standby) = (PortalState::Active, PortalState::Standby);
    assert_eq!(portals, [(here.as_str(), 1, active, true), (away.as_str(), 2, standby, false)]);
    assert!(
        shown.conditions.iter().any(|told| told.cause.contains(&away) && told.next_action.contains("portal remove"))
    );
    for changed in [true, false] {
        assert_eq!(engine.remove_portal("vm".into(), away.clone()).await.unwrap().changed, changed);
    }
    refused(engine.remove_portal("vm".into(), here.clone()).await, Code::Conflict, None);
    engine.shutdown().await;
    drop(engine);
    let engine = start(&rig, "state").await;
    let target = engine.target("vm").unwrap();
    assert!(
        target.portals_set && target.portals[0].address == here,
        "a target without a LUN is remembered: {target:?}"
    );
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_cannot_be_kept_changes_nothing() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    with_pool(&engine, &rig, "tank").await;
    with_pool(&engine, &rig, "lake").await;
    made(&engine, "vm", &["tank/vm"]).await;
    let before = engine.targets();
    let store = rusqlite::Connection::open(rig.path("state/config.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    let target = || "vm".to_owned();
    assert!(engine.create_target(named("other")).await.is_err());
    assert!(engine.add_lun(target(), lun("lake/vm")).await.is_err());
    assert!(engine.remove_lun(target(), 0, false).await.is_err());
    assert!(engine.allow_initiator(target(), allow(HOST, None)).await.is_err());
    assert!(engine.destroy_target(target(), false).await.is_err());
    assert_eq!(engine.targets(), before);
    store.execute_batch("ROLLBACK").unwrap();
    drop(store);
    engine.destroy_space("lake/vm".into(), true).await.expect("it is no LUN");
    engine.shutdown().await;
    drop(engine);
    let engine = start(&rig, "state").await;
    let shown = |targets: Vec<Target>| {
        targets.into_iter().map(|one| (one.name, one.luns.len(), one.initiators.len())).collect::<Vec<_>>()
    };
    assert_eq!(shown(engine.targets()), [("vm".into(), 1, 0)], "the pool does not know of it either");
    engine.add_lun(target(), AddLun { lun: Some(3), ..lun("tank/vm") }).await.unwrap_err();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_go_where_their_pools_go_and_what_was_changed_there_holds() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    with_pool(&engine, &rig, "tank").await;
    with_pool(&engine, &rig, "lake").await;
    made(&engine, "vm", &["tank/vm", "lake/vm"]).await;
    made(&engine, "gone", &[]).await;
    engine.create_space(mirror("tank/second", 8 * MIB)).await.unwrap();
    engine.add_lun("gone".into(), lun("tank/second")).await.unwrap();
    engine.allow_initiator("vm".into(), allow(HOST, Some(chap("ann", SECRET)))).await.unwrap();
    let before = engine.target("vm").unwrap();
    engine.export_pool("tank".into()).await.unwrap();
    let away = engine.target("vm").unwrap();
    assert_eq!([&away.luns[0], &away.luns[1]].map(|lun| lun.served), [false, true]);
    assert!(away.luns[0].conditions[0].cause.contains("pool tank"), "{away:?}");
    let causes = engine.status().causes;
    assert!(causes.iter().any(|cause| cause.object.name == "vm/0"), "{causes:#?}");

    let second = start(&rig, "state2").await;
    import(&second, &rig, "tank").await;
    let there = second.target("vm").unwrap();
    assert_eq!((there.id, &there.iqn, &there.initiators), (before.id, &before.iqn, &before.initiators));
    assert_eq!(
        [&there.luns[0], &there.luns[1]].map(|lun| (lun.served, lun.id)),
        [(true, before.luns[0].id), (false, before.luns[1].id)]
    );
    second.deny_initiator("vm".into(), HOST.into()).await.unwrap();
    second.set_target("vm".into(), SetTarget { open: Some(true), ..SetTarget::default() }).await.unwrap();
    assert!(second.destroy_target("gone".into(), false).await.unwrap().changed);
    second.export_pool("tank".into()).await.unwrap();
    second.shutdown().await;

    import(&engine, &rig, "tank").await;
    let back = engine.target("vm").unwrap();
    assert!(back.open && back.initiators.is_empty() && back.luns.iter().all(|lun| lun.served), "{back:?}");
    assert!(engine.target("gone").is_err(), "it was destroyed there");
    // The other pool was told as well.
    engine.export_pool("lake".into()).await.unwrap();
    let third = start(&rig, "state3").await;
    import(&third, &rig, "lake").await;
    assert!(third.target("vm").unwrap().open);

    // Destroyed here while the other pool is away: it does not come back with it.
    assert!(engine.destroy_target("vm".into(), false).await.unwrap().changed);
    third.export_pool("lake".into()).await.unwrap();
    third.shutdown().await;
    import(&engine, &rig, "lake").await;
    assert!(engine.targets().is_empty(), "{:?}", engine.targets());
    engine.destroy_space("lake/vm".into(), true).await.expect("nothing holds it");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_finds_all_as_it_was() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    with_pool(&engine, &rig, "tank").await;
    made(&engine, "vm", &["tank/vm"]).await;
    engine.allow_initiator("vm".into(), allow(HOST, Some(chap("ann", SECRET)))).await.unwrap();
    engine.set_discovery(Some(chap("who", SECRET))).await.unwrap();
    let mut before = engine.target("vm").unwrap();
    engine.shutdown().await;
    drop(engine);
    let engine = start(&rig, "state").await;
    eventually(&engine, "the pool", || engine.target("vm").is_ok_and(|target| target.luns[0].served)).await;
    let after = engine.target("vm").unwrap();
    (before.portals, before.connect) = (after.portals.clone(), after.connect.clone());
    assert_eq!((after, engine.discovery().chap_user.as_deref()), (before, Some("who")));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_a_lun_of_a_target_whose_name_is_taken_is_neither_destroyed_nor_restored() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    with_pool(&engine, &rig, "tank").await;
    made(&engine, "vm", &["tank/vm"]).await;
    add_file(&engine, "vm").await;
    engine.create_snapshot("tank/files".into(), CreateSnapshot { name: "one".into() }).await.unwrap();
    engine.export_pool("tank".into()).await.unwrap();
    engine.shutdown().await;

    let second = start(&rig, "state2").await;
    let mine = second.create_target(named("vm")).await.unwrap().target;
    import(&second, &rig, "tank").await;
    assert_eq!(second.target("vm").unwrap().id, mine.id);
    let error = refused(second.destroy_space("tank/vm".into(), true).await, Code::Conflict, None);
    assert!(error.message.contains("vm/0"), "{error}");
    let error = refused(second.destroy_volume("tank/files".into(), true, false).await, Code::Conflict, None);
    assert!(error.message.contains("vm/1"), "{error}");
    let error = refused(second.destroy_pool("tank".into(), true).await, Code::Conflict, None);
    assert!(error.message.contains("tank/vm is LUN vm/0"), "{error}");
    let request = RestoreSnapshot { path: "/disk".into(), to: None, keep: false, pace: Default::default() };
    refused(second.restore_snapshot("tank/files".into(), "one".into(), request, true).await, Code::Conflict, None);

    // With the name it is a target like any.
    second.destroy_target("vm".into(), false).await.unwrap();
    assert!(second.target("vm").unwrap().luns.iter().all(|lun| lun.served));
    second.destroy_target("vm".into(), false).await.unwrap();
    second.destroy_volume("tank/files".into(), true, false).await.unwrap();
    second.destroy_space("tank/vm".into(), true).await.unwrap();
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lun_on_a_volume_that_cannot_be_read_is_not_called_healthy() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    with_pool(&engine, &rig, "tank").await;
    made(&engine, "vm", &[]).await;
    add_file(&engine, "vm").await;
    assert_eq!(engine.lun("vm", 0).unwrap().health, Health::Healthy);
    for disk in ["tank1", "tank2"] {
        std::fs::rename(rig.disk(disk), rig.disk(&format!("{disk}.away"))).unwrap();
    }
    let is_told = || engine.lun("vm", 0).unwrap().health == Health::Unhealthy;
    eventually(&engine, "noticing that nothing can be read", is_told).await;
    let told = engine.lun("vm", 0).unwrap().conditions;
    assert!(told[0].cause.contains("cannot be read") && !told[0].next_action.is_empty(), "{told:?}");
    let causes = engine.status().causes;
    let affected = |cause: &holdfast_api::Cause| cause.affects.iter().any(|one| one.object.to_string() == "lun vm/0");
    assert!(causes.iter().any(affected), "{causes:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_space_that_is_written_as_a_lun_and_by_an_export_is_warned_of() {
    let rig = Rig::new();
    let engine = Engine::start(Settings { nbd_addresses: rig.settings().nbd_addresses, ..settings(&rig, "state") });
    let engine = engine.await.expect("the engine starts");
    with_pool(&engine, &rig, "tank").await;
    made(&engine, "vm", &["tank/vm"]).await;
    let told = || engine.events().list(0, 1000).iter().filter(|event| event.cause.contains("as LUN vm/0 too")).count();
    engine.create_export(CreateExport { read_only: true, ..export("tank/vm") }).await.unwrap();
    assert_eq!(told(), 0, "it is only read");
    engine.remove_export("vm".into(), None).await.unwrap();
    engine.create_export(export("tank/vm")).await.unwrap();
    assert_eq!(told(), 1);
    engine.remove_lun("vm".into(), 0, false).await.unwrap();
    engine.add_lun("vm".into(), lun("tank/vm")).await.unwrap();
    assert_eq!(told(), 2);
    engine.shutdown().await;
}
