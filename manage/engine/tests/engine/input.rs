//! What requests ask for: sizes that are rounded, and requests that ask for nothing.

use crate::support::{MIB, Rig, eventually, mirror, pool};
use holdfast_api::{Code, ConvertSpace, CreateFileDisk, GrowSpace, ImportPools, JobPriority, SetPace};

#[tokio::test(flavor = "multi_thread")]
async fn sizes_are_rounded_up_to_whole_blocks() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(2).await;
    let made =
        engine.create_file_disk(CreateFileDisk { path: rig.disk("odd"), size_bytes: 100_000_000 }).await.unwrap();
    assert_eq!(made.disk.size_bytes, 100_003_840);
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let plan = engine.plan_space(&mirror("tank/vm", 16_000_000)).unwrap();
    assert_eq!(plan.size_bytes, 16_003_072);
    for changed in [true, false] {
        let made = engine.create_space(mirror("tank/vm", 16_000_000)).await.unwrap();
        assert_eq!((made.changed, made.space.size_bytes), (changed, 16_003_072));
    }
    let grown = engine.grow_space("tank/vm".into(), GrowSpace { size_bytes: 20_000_000 }).await.unwrap();
    assert_eq!(grown.space.size_bytes, 20_000_768);
    let smaller = ConvertSpace { size_bytes: Some(10_000_000), ..ConvertSpace::default() };
    assert_eq!(engine.plan_conversion("tank/vm", &smaller).await.unwrap().size_bytes_then, 10_002_432);
    engine.convert_space("tank/vm".into(), smaller).await.unwrap();
    assert_eq!(engine.space("tank/vm").unwrap().size_bytes, 10_002_432);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversion_that_changes_nothing_is_refused() {
    let rig = Rig::new();
    let (engine, _) = rig.with_space(3).await;
    let convert = |request| engine.convert_space("tank/vm".into(), request);
    for nothing in [
        ConvertSpace::default(),
        ConvertSpace {
            pace: SetPace { priority: Some(JobPriority::Low), ..SetPace::default() },
            ..ConvertSpace::default()
        },
    ] {
        let error = convert(nothing).await.unwrap_err();
        assert!(error.code == Code::Invalid && error.next_action.contains("--layout"), "{error}");
    }
    for discard_beyond in [false, true] {
        let error =
            convert(ConvertSpace { size_bytes: Some(0), discard_beyond, ..ConvertSpace::default() }).await.unwrap_err();
        assert!(error.code == Code::Invalid && error.field.as_deref() == Some("size_bytes"), "{error}");
        assert!(!error.to_string().contains("--discard-beyond") && error.message.contains("4 KiB"), "{error}");
    }
    assert!(engine.jobs(None, None).is_empty(), "no job was begun");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_served_and_remembered_later_where_the_state_folder_cannot_be_written() {
    let rig = Rig::new();
    let (engine, _) = rig.with_disks(2).await;
    engine.create_pool(pool("tank", &[rig.disk("d1"), rig.disk("d2")])).await.unwrap();
    engine.export_pool("tank".into()).await.unwrap();
    let store = rusqlite::Connection::open(rig.path("state/config.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    let imported = engine.import_pools(ImportPools::default()).await.unwrap();
    assert!(imported.changed && imported.pools.len() == 1, "{imported:?}");
    assert_eq!(engine.pools().len(), 1, "it is there once");
    engine.create_space(mirror("tank/vm", 8 * MIB)).await.unwrap();
    let told = |words: &str| engine.events().list(0, 1000).iter().any(|event| event.cause.contains(words));
    assert!(told("would not be imported again after a restart"));
    store.execute_batch("ROLLBACK").unwrap();
    eventually(&engine, "remembering", || told("can be written again")).await;
    engine.shutdown().await;
    drop(engine);
    let engine = rig.start().await;
    assert_eq!(engine.pools().len(), 1);
    engine.shutdown().await;
}
