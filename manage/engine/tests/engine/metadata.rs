//! Labels and logs of disks in service that others write to.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::ImportPools;
use holdfast_engine::{Engine, Settings};
use holdfast_model::Health;
use holdfast_pool::Area;

use crate::support::{MIB, Rig, eventually, mirror};

fn told(engine: &Engine, what: &str) -> bool {
    engine.events().list(0, 1000).iter().any(|event| event.cause.contains(what))
}

fn copy_all(disks: &[String], copies: &[String]) {
    for (disk, copy) in disks.iter().zip(copies) {
        std::fs::copy(disk, copy).expect("a copy");
    }
}

fn labels(disk: &str) -> [u64; 2] {
    Area::of_disk(disk, 128 * MIB).expect("a disk for pools").labels()
}

async fn looking_often(rig: &Rig) -> (Arc<Engine>, Vec<String>) {
    let (engine, disks) = rig.with_space(3).await;
    engine.shutdown().await;
    drop(engine);
    let settings = Settings { metadata_interval: Duration::from_millis(50), ..rig.settings() };
    (Engine::start(settings).await.expect("the engine starts"), disks)
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_and_logs_that_are_overwritten_in_use_are_written_anew() {
    let rig = Rig::new();
    let (engine, disks) = looking_often(&rig).await;
    for disk in &disks {
        let file = std::fs::OpenOptions::new().write(true).open(disk).expect("the disk");
        labels(disk).into_iter().for_each(|at| file.write_all_at(&[0; 4096], at).expect("written"));
        let area = Area::of_disk(disk, 128 * MIB).expect("a disk for pools");
        (0..2).for_each(|half| {
            file.write_all_at(&vec![0xff; area.log_half_bytes() as usize], area.log_half(half)).expect("written");
        });
    }
    // A look may fall between two of the writes above, and then finds one label only.
    let labels = ["a damaged label was rewritten", "both labels were damaged and were rewritten"];
    let log = ["its metadata log was damaged and was written anew"];
    let told_of = |what: &[&str]| {
        let events = engine.events().list(0, 1000);
        let of_it = events.iter().filter(|event| what.contains(&event.cause.as_str()));
        of_it.map(|event| event.object.clone()).collect::<std::collections::BTreeSet<_>>().len() == disks.len()
    };
    eventually(&engine, "new labels of all disks", || told_of(&labels)).await;
    eventually(&engine, "new logs of all disks", || told_of(&log)).await;
    // What a killed daemon leaves behind is what stands on the disks now.
    let copies = Rig::new();
    let copied: Vec<String> = (1..=3).map(|number| copies.disk(&format!("d{number}"))).collect();
    copy_all(&disks, &copied);
    let other = copies.start().await;
    let folder = copies.folder.path().display().to_string();
    let imported =
        other.import_pools(ImportPools { disk_dirs: vec![folder], ..ImportPools::default() }).await.expect("a pool");
    assert_eq!(imported.pools.len(), 1, "{imported:?}");
    assert!(imported.refused.is_empty(), "{imported:?}");
    other.shutdown().await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_another_machine_imports_is_given_up_and_not_taken_back_unasked() {
    let (rig, elsewhere) = (Rig::new(), Rig::new());
    let (engine, disks) = rig.with_space(3).await;
    let copies: Vec<String> = (1..=3).map(|number| elsewhere.disk(&format!("d{number}"))).collect();
    copy_all(&disks, &copies);
    let other = elsewhere.start().await;
    let folder = elsewhere.folder.path().display().to_string();
    other.import_pools(ImportPools { disk_dirs: vec![folder], ..ImportPools::default() }).await.expect("a pool");
    other.shutdown().await;
    // What the other machine wrote arrives on the disks that both can reach.
    for (disk, copy) in disks.iter().zip(&copies) {
        let (disk, at) = (std::fs::OpenOptions::new().write(true).open(disk).expect("the disk"), labels(disk));
        let copy = std::fs::File::open(copy).expect("the copy");
        for at in at {
            let mut label = [0; 4096];
            copy.read_exact_at(&mut label, at).expect("read");
            disk.write_all_at(&label, at).expect("written");
        }
    }
    eventually(&engine, "a word of the other owner", || told(&engine, "was imported by another owner")).await;
    let pool = engine.pool("tank").expect("it is shown");
    assert_eq!(pool.health, Health::Unhealthy, "{pool:#?}");
    let refused = engine.create_space(mirror("tank/more", 16 * MIB)).await.expect_err("it has another owner");
    assert!(refused.message.contains("another owner"), "{refused:?}");
    // Disks that go and come bring nothing back.
    let aside = rig.disk("aside");
    for disk in &disks[..2] {
        std::fs::rename(disk, &aside).expect("moved away");
        tokio::time::sleep(Duration::from_millis(200)).await;
        std::fs::rename(&aside, disk).expect("moved back");
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!told(&engine, "it is imported again"), "{:#?}", engine.events().list(0, 100));
    assert_eq!(engine.pool("tank").expect("it is shown").health, Health::Unhealthy);
    engine.shutdown().await;
}
