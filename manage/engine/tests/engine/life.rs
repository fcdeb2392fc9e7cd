//! Engines that stop and start, and disks that go and come.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{MIB, Rig, eventually, mirror, pool};
use holdfast_api::pool::PoolHealth;
use holdfast_api::{Code, ImportPools};
use holdfast_engine::{Engine, Settings, StartError, StateError};
use holdfast_harness::LIMIT;
use holdfast_model::{DiskState, Health, SpaceState};

/// Settings of an engine that does not wait long for what another one uses.
fn impatient(rig: &Rig) -> Settings {
    Settings { patience: Duration::from_secs(1), ..rig.settings() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_brings_everything_back() {
    let rig = Rig::new();
    let (engine, _) = rig.with_space(3).await;
    let (pool, exports) = (engine.pool("tank").unwrap(), engine.exports());
    engine.shutdown().await;
    drop(engine);
    let engine = rig.start().await;
    let again = engine.pool("tank").unwrap();
    assert_eq!((again.id, again.disks, again.spaces), (pool.id, pool.disks, pool.spaces));
    assert_eq!(engine.exports(), exports);
    assert_eq!(engine.space("tank/vm").unwrap().state, SpaceState::Ok);
    assert_eq!(engine.status().health, Health::Healthy);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_engines_do_not_share_a_state_folder_or_a_disk() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_space(2).await;
    let second = Engine::start(impatient(&rig)).await.err().expect("the folder is locked");
    assert!(matches!(second, StartError::State(StateError::InUse(..))), "{second}");
    let mut settings = impatient(&rig);
    settings.state_dir = rig.path("state2");
    settings.nbd_addresses.clear();
    let other = Engine::start(settings).await.unwrap();
    let error = other.create_pool(pool("thief", &disks)).await.unwrap_err();
    assert!(error.code == Code::Conflict, "{error}");
    let forced = holdfast_api::CreatePool { force: true, ..pool("thief", &disks) };
    assert_eq!(other.create_pool(forced).await.unwrap_err().code, Code::Conflict, "force does not take a disk in use");
    let found = other.import_pools(ImportPools { disk_dirs: vec![rig.disk("")], ..Default::default() }).await.unwrap();
    assert!(found.pools.is_empty() && found.refused.len() == 2, "{found:?}");
    assert_eq!(engine.status().health, Health::Healthy);
    other.shutdown().await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pulled_disk_is_noticed_and_brought_in_step_when_it_is_back() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_space(3).await;
    fs::rename(&disks[1], rig.path("away")).unwrap();
    eventually(&engine, "noticing", || engine.pool("tank").unwrap().state == PoolHealth::Degraded).await;
    let shown = engine.pool("tank").unwrap();
    assert_eq!(shown.disks.iter().filter(|disk| disk.state == DiskState::Missing).count(), 1);
    assert!(shown.conditions.iter().all(|condition| !condition.next_action.is_empty()) && !shown.conditions.is_empty());
    let status = engine.status();
    assert!(
        status.health > Health::Healthy
            && status
                .objects
                .iter()
                .any(|object| object.object.to_string() == "space tank/vm" && object.health == Health::Warning)
    );
    assert!(
        engine
            .events()
            .list(0, 1000)
            .iter()
            .any(|event| event.object.name.contains("d2") && !event.next_action.is_empty())
    );
    fs::rename(rig.path("away"), &disks[1]).unwrap();
    eventually(&engine, "healing", || engine.status().health == Health::Healthy).await;
    eventually(&engine, "resyncing", || engine.space("tank/vm").unwrap().stale_slabs == 0).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_lost_too_many_disks_is_imported_anew_when_they_are_back() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_space(4).await;
    for (number, disk) in disks.iter().enumerate() {
        fs::rename(disk, rig.path(&format!("away{number}"))).unwrap();
    }
    eventually(&engine, "noticing", || {
        engine.pool("tank").unwrap().disks.iter().all(|disk| disk.state == DiskState::Missing)
    })
    .await;
    for (number, disk) in disks.iter().enumerate() {
        fs::rename(rig.path(&format!("away{number}")), disk).unwrap();
    }
    eventually(&engine, "healing", || engine.status().health == Health::Healthy).await;
    assert!(engine.exports()[0].served, "{:?}", engine.events().list(0, 100));
    assert!(engine.create_space(mirror("tank/second", 8 * MIB)).await.unwrap().changed);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_disks_are_away_is_offline_until_they_are_back() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_space(3).await;
    engine.shutdown().await;
    drop(engine);
    for disk in &disks[..2] {
        fs::rename(disk, format!("{disk}.away")).unwrap();
    }
    let engine = rig.start().await;
    let shown = engine.pool("tank").unwrap();
    assert_eq!((shown.state, shown.health), (PoolHealth::Offline, Health::Unhealthy));
    for disk in &disks[..2] {
        assert!(shown.conditions[0].cause.contains(disk.as_str()), "{} is not named: {:?}", disk, shown.conditions);
    }
    assert!(!engine.exports()[0].served);
    assert_eq!(engine.create_space(mirror("tank/x", 8 * MIB)).await.unwrap_err().code, Code::Conflict);
    assert_eq!(engine.create_pool(pool("tank", &disks[2..])).await.unwrap_err().code, Code::Conflict);
    for disk in &disks[..2] {
        fs::rename(format!("{disk}.away"), disk).unwrap();
    }
    eventually(&engine, "importing", || engine.pool("tank").unwrap().state == PoolHealth::Ok).await;
    eventually(&engine, "exporting", || engine.exports()[0].served).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_disks_somebody_else_uses_says_so_until_they_are_let_go() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_space(3).await;
    engine.shutdown().await;
    drop(engine);
    let taken: Vec<fs::File> = disks.iter().map(|disk| fs::File::open(disk).unwrap()).collect();
    for file in &taken {
        file.lock().unwrap();
    }
    let engine = Engine::start(impatient(&rig)).await.unwrap();
    let shown = engine.pool("tank").unwrap();
    assert_eq!(shown.state, PoolHealth::Offline);
    let cause = &shown.conditions[0].cause;
    assert!(disks.iter().any(|disk| cause.contains(disk)) && cause.contains("another program"), "{cause}");
    // Whoever asks finds it, at whatever moment.
    let asking = {
        let engine = engine.clone();
        std::thread::spawn(move || while engine.pool("tank").unwrap().state != PoolHealth::Ok {})
    };
    drop(taken);
    eventually(&engine, "importing", || engine.pool("tank").unwrap().state == PoolHealth::Ok).await;
    asking.join().unwrap();
    engine.shutdown().await;
}

/// The pools that a daemon would open if it started now.
fn remembered(store: &rusqlite::Connection) -> Vec<String> {
    let text: String =
        store.query_row("SELECT content FROM documents WHERE name = 'configuration'", [], |row| row.get(0)).unwrap();
    let state: serde_json::Value = serde_json::from_str(&text).unwrap();
    state["pools"].as_array().unwrap().iter().map(|pool| pool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_cut_short_forgets_no_pool() {
    const POOLS: usize = 6;
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(POOLS).await;
    for (number, disk) in disks.iter().enumerate() {
        engine.create_pool(pool(&format!("tank{number}"), std::slice::from_ref(disk))).await.unwrap();
    }
    engine.shutdown().await;
    drop(engine);
    let ended = Arc::new(AtomicBool::new(false));
    let looking = {
        let (path, ended) = (rig.path("state/config.db"), ended.clone());
        std::thread::spawn(move || {
            let store = rusqlite::Connection::open(path).unwrap();
            store.busy_timeout(LIMIT).unwrap();
            while !ended.load(Ordering::Relaxed) {
                let known = remembered(&store);
                assert_eq!(known.len(), POOLS, "a daemon that is killed now forgets all but {known:?}");
            }
        })
    };
    let engine = rig.start().await;
    assert_eq!(engine.pools().len(), POOLS);
    ended.store(true, Ordering::Relaxed);
    looking.join().unwrap();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_pool_is_found_under_other_names_and_by_another_engine() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_space(3).await;
    let id = engine.pool("tank").unwrap().id;
    engine.export_pool("tank".into()).await.unwrap();
    fs::create_dir(rig.path("shelf")).unwrap();
    for (disk, name) in disks.iter().zip(["z", "a", "m"]) {
        fs::rename(disk, rig.path("shelf").join(name)).unwrap();
    }
    fs::write(rig.path("shelf/README"), "not a disk").unwrap();
    let mut settings = rig.settings();
    settings.state_dir = rig.path("state2");
    settings.nbd_addresses.clear();
    let other = Engine::start(settings).await.unwrap();
    let shelf = || vec![rig.disk("shelf")];
    let error = other
        .import_pools(ImportPools { pool: Some("none".into()), disk_dirs: shelf(), force: false })
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::NotFound);
    let imported =
        other.import_pools(ImportPools { pool: Some(id.to_string()), disk_dirs: shelf(), force: false }).await.unwrap();
    assert!(imported.changed && imported.pools[0].pool.id == id);
    assert_eq!(other.space("tank/vm").unwrap().size_bytes, 64 * MIB);

    // A second pool of the name stays out, and is told apart by its id.
    for number in 4..=5 {
        let request = holdfast_api::CreateFileDisk { path: rig.disk(&format!("d{number}")), size_bytes: 128 * MIB };
        engine.create_file_disk(request).await.unwrap();
    }
    engine.create_pool(pool("tank", &[rig.disk("d4"), rig.disk("d5")])).await.unwrap();
    let second = engine.pool("tank").unwrap().id;
    engine.export_pool("tank".into()).await.unwrap();
    let disk_dirs = vec![rig.disk("")];
    let error =
        other.import_pools(ImportPools { pool: Some(second.to_string()), disk_dirs, force: false }).await.unwrap_err();
    assert!(error.code == Code::Conflict && error.message.contains(&id.to_string()), "{error}");
    other.shutdown().await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_show_every_object_and_idle_memory_is_small() {
    let rig = Rig::new();
    let (engine, _) = rig.with_space(3).await;
    engine.create_space(holdfast_api::CreateSpace { thin: true, ..mirror("tank/thin", 1 << 40) }).await.unwrap();
    let metrics = engine.metrics();
    for part in [
        "holdfast_health{kind=\"space\",object=\"tank/vm\"} 0",
        "holdfast_disk_operations_total{pool=\"tank\"",
        "holdfast_space_size_bytes{space=\"tank/thin\"} 1099511627776",
        "holdfast_export_connections{export=\"vm\",space=\"tank/vm\"} 0",
        "holdfast_reactor_loops_total{reactor=\"1\"}",
        "process_resident_memory_bytes ",
    ] {
        assert!(metrics.contains(part), "{part} is not in\n{metrics}");
    }
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.rsplit_once(' ').is_some_and(|(_, value)| value.parse::<u64>().is_ok()), "{line}");
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    engine.shutdown().await;
}
