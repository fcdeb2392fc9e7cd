//! Pools that another engine takes over: what belongs to them comes along.

use std::sync::Arc;

use crate::support::{MIB, Rig, eventually, export, mirror, pool};
use holdfast_api::pool::PoolHealth;
use holdfast_api::{Code, CreateExport, CreateFileDisk, ImportPools, Qos, SetExport, SetPool, SetQos, SetSpace};
use holdfast_engine::{Address, Engine};

/// A second engine beside that of a rig, with its own state folder and address.
async fn other(rig: &Rig) -> Arc<Engine> {
    let mut settings = rig.settings();
    settings.state_dir = rig.path("state2");
    settings.nbd_addresses = vec![Address::Unix(rig.path("nbd2.sock"))];
    Engine::start(settings).await.expect("the engine starts")
}

async fn import(engine: &Arc<Engine>, rig: &Rig) {
    let request = ImportPools { pool: Some("tank".into()), disk_dirs: vec![rig.disk("")], force: false };
    assert!(engine.import_pools(request).await.expect("its disks are here").changed);
}

fn limits(max_iops: u64) -> SetQos {
    SetQos { max_iops: Some(max_iops), ..SetQos::default() }
}

/// What an engine says of the limits of the export and the space `vm`.
fn qos(engine: &Engine) -> (Qos, Qos) {
    (engine.export("vm").unwrap().qos, engine.space("tank/vm").unwrap().qos)
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_and_limits_go_where_the_pool_goes() {
    let rig = Rig::new();
    let (engine, _) = rig.with_space(3).await;
    engine
        .create_export(CreateExport { read_only: true, name: Some("look".into()), ..export("tank/vm") })
        .await
        .unwrap();
    engine.set_export("vm".into(), SetExport { qos: Some(limits(700)), ..SetExport::default() }).await.unwrap();
    engine.set_space("tank/vm".into(), SetSpace { qos: Some(limits(900)), ..SetSpace::default() }).await.unwrap();
    let thresholds = |percents: &[u8]| SetPool { alert_percents: Some(percents.to_vec()), ..SetPool::default() };
    engine.set_pool("tank".into(), thresholds(&[20, 90])).await.unwrap();
    let reached = |engine: &Engine| engine.pool("tank").unwrap().alert.reached_percent;
    let told = |engine: &Engine| {
        engine.events().list(0, 1000).iter().filter(|event| event.cause.contains("alert threshold")).count()
    };
    assert_eq!((reached(&engine), told(&engine)), (Some(20), 1), "a third of it is used");
    let before = qos(&engine);
    assert_eq!((before.0.max_iops, before.1.max_iops), (Some(700), Some(900)));
    engine.export_pool("tank".into()).await.unwrap();
    assert!(engine.exports().is_empty(), "they are the pool's");

    let second = other(&rig).await;
    assert!(second.exports().is_empty());
    import(&second, &rig).await;
    assert_eq!(qos(&second), before);
    let alert = second.pool("tank").unwrap().alert;
    assert_eq!((alert.percents, alert.default, alert.reached_percent), (vec![20, 90], false, Some(20)));
    assert_eq!(told(&second), 0, "it was told before it moved");
    let shown: Vec<(String, bool, bool)> =
        second.exports().into_iter().map(|export| (export.name, export.read_only, export.served)).collect();
    assert_eq!(shown, [("look".into(), true, true), ("vm".into(), false, true)]);
    second.remove_export("look".into(), None).await.unwrap();
    second.set_pool("tank".into(), thresholds(&[95])).await.unwrap();
    second.set_space("tank/vm".into(), SetSpace { qos: Some(limits(800)), ..SetSpace::default() }).await.unwrap();
    second.export_pool("tank".into()).await.unwrap();
    second.shutdown().await;

    // What was changed there is not known here from before.
    import(&engine, &rig).await;
    assert_eq!(engine.exports().len(), 1);
    assert_eq!((engine.pool("tank").unwrap().alert.percents, reached(&engine)), (vec![95], None));
    assert_eq!(engine.space("tank/vm").unwrap().qos.max_iops, Some(800));
    engine.remove_export("vm".into(), None).await.unwrap();
    engine.destroy_space("tank/vm".into(), true).await.unwrap();
    engine.create_space(mirror("tank/vm", 8 * MIB)).await.unwrap();
    assert_eq!(engine.space("tank/vm").unwrap().qos, Qos::default());
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_whose_name_is_taken_waits_on_its_pool() {
    let rig = Rig::new();
    let (engine, _) = rig.with_space(2).await;
    engine.export_pool("tank".into()).await.unwrap();
    let second = other(&rig).await;
    let disks = [rig.disk("e1"), rig.disk("e2")];
    for path in disks.clone() {
        second.create_file_disk(CreateFileDisk { path, size_bytes: 128 * MIB }).await.unwrap();
    }
    second.create_pool(pool("shelf", &disks)).await.unwrap();
    second.create_space(mirror("shelf/vm", 8 * MIB)).await.unwrap();
    second.create_export(export("shelf/vm")).await.unwrap();
    import(&second, &rig).await;
    assert_eq!(second.export("vm").unwrap().space, "shelf/vm");
    let events = second.events().list(0, 100);
    let told = events
        .iter()
        .find(|event| event.object.to_string() == "export vm" && event.cause.contains("not served"))
        .expect("an event");
    assert!(told.cause.contains("tank/vm") && told.cause.contains("shelf/vm"), "{told:?}");
    assert!(told.next_action.contains("--name") && told.next_action.contains("nbd unexport vm"), "{told:?}");

    // It shows with its pool, and can be removed there without a change of the other one.
    let waits = |engine: &Engine| {
        let tank = engine.pool("tank").unwrap();
        tank.conditions.iter().any(|it| it.cause.contains("export vm is not served for space tank/vm"))
    };
    assert!(waits(&second) && second.status().causes.iter().any(|cause| cause.next_action.contains("--space tank/vm")));
    let of = |space: &str| Some(space.to_owned());
    assert!(!second.remove_export("vm".into(), of("tank/other")).await.unwrap().changed);
    assert!(second.remove_export("vm".into(), of("tank/vm")).await.unwrap().changed);
    assert!(!second.remove_export("vm".into(), of("tank/vm")).await.unwrap().changed);
    assert!(!waits(&second) && second.export("vm").unwrap().served);
    second.export_pool("tank".into()).await.unwrap();
    import(&engine, &rig).await;
    assert!(engine.exports().is_empty(), "it is gone from its pool");
    engine.create_export(export("tank/vm")).await.unwrap();
    engine.export_pool("tank".into()).await.unwrap();
    import(&second, &rig).await;
    assert!(waits(&second));

    // As soon as the name is free it is served, and nothing of it was lost.
    second.remove_export("vm".into(), None).await.unwrap();
    eventually(&second, "serving the other one", || second.export("vm").is_ok_and(|export| export.served)).await;
    assert_eq!(second.export("vm").unwrap().space, "tank/vm");
    let error = second.create_export(export("shelf/vm")).await.unwrap_err();
    assert_eq!(error.code, Code::Exists);
    second.shutdown().await;
    engine.shutdown().await;
}

/// A pool that takes no changes keeps its exports; the refusal says what ends their service all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_of_a_pool_that_takes_no_changes_says_how_it_ends() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_space(4).await;
    let away = |disk: &str| format!("{disk}.away");
    disks.iter().for_each(|disk| std::fs::rename(disk, away(disk)).unwrap());
    eventually(&engine, "the loss", || engine.pool("tank").unwrap().state == PoolHealth::ReadOnly).await;
    // One that is made now is on no disk, and can go again.
    let look = CreateExport { read_only: true, name: Some("look".into()), ..export("tank/vm") };
    engine.create_export(look).await.unwrap();
    assert!(engine.remove_export("look".into(), None).await.unwrap().changed);
    let refused = engine.remove_export("vm".into(), None).await.unwrap_err();
    assert_eq!(refused.code, Code::ReadOnly);
    assert!(refused.object == "export vm" && refused.message.contains("pool tank"), "{refused}");
    assert!(refused.next_action.contains("attach the missing disks"), "{refused}");
    assert!(refused.next_action.contains("'holdfast pool export tank'"), "{refused}");
    assert!(engine.export("vm").is_ok(), "nothing was changed");

    engine.export_pool("tank".into()).await.unwrap();
    assert!(engine.exports().is_empty());
    disks.iter().for_each(|disk| std::fs::rename(away(disk), disk).unwrap());
    import(&engine, &rig).await;
    assert!(engine.remove_export("vm".into(), None).await.unwrap().changed);
    engine.shutdown().await;
}
