//! Volumes of a real engine on file disks in memory: cut short, repeated, unreadable.

use std::sync::Arc;

use holdfast_api::{AdoptVolume, Code, CreateSpace, CreateVolume, LayoutKind, VolumeState};
use holdfast_device::IoBuf;
use holdfast_model::{Health, Uuid};
use holdfast_volume::service::{Caller, FileId, FileKind, FileService, NewFile, OpenMode};
use holdfast_volume::{Volume, VolumeError};

use super::VOLUMES;
use super::known::{KnownVolume, Stage};
use crate::Engine;
use crate::jobs::tests::{Rig, mirror};

const MIB: u64 = 1 << 20;
const NAME: &str = "tank/files";

fn volume() -> CreateVolume {
    CreateVolume { name: NAME.into(), space: Some(mirror(NAME, 64 * MIB)), on: None, case_sensitive: false }
}

fn volume_on(on: &str) -> CreateVolume {
    CreateVolume { space: None, on: Some(on.into()), ..volume() }
}

/// Has the pool keep what a volume that is made or destroyed has come to.
async fn keep(engine: &Arc<Engine>, known: &KnownVolume) {
    let open = engine.pool_named("tank").unwrap();
    engine.keep_volume(&open, known).await.unwrap();
}

fn known(engine: &Engine) -> KnownVolume {
    engine.open_volume_at(NAME).unwrap().1
}

/// What a volume is whose making was only begun.
fn begun(owns_space: bool, space: Uuid, on: &str) -> KnownVolume {
    let (name, id, on) = ("files".into(), Uuid::new_v4(), on.into());
    KnownVolume {
        name,
        id,
        stage: Stage::Making,
        space,
        on,
        owns_space,
        case_sensitive: false,
        mount: None,
        snapshot_rules: Vec::new(),
    }
}

async fn again(rig: &Rig, engine: Arc<Engine>) -> Arc<Engine> {
    engine.shutdown().await;
    drop(engine);
    rig.start().await
}

/// What lists and health say of a volume that is not there as it should be; answers the next step.
fn is_told(engine: &Engine, state: VolumeState) -> String {
    let listed = engine.volumes();
    let [volume] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((volume.state, volume.health, volume.conditions.len()), (state, Health::Unhealthy, 1), "{volume:?}");
    assert_eq!(engine.status().health, Health::Unhealthy);
    assert!(engine.status().causes.iter().any(|cause| cause.cause.contains(&volume.conditions[0].cause)));
    volume.conditions[0].next_action.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_was_cut_short_is_told_and_ended_by_a_repeat() {
    for step in 0..3 {
        let rig = Rig::new();
        let mut engine = rig.with_spaces(&[]).await;
        let mut cut = begun(true, Uuid::nil(), "files");
        match step {
            0 => {}
            1 => drop(engine.make_space(mirror(NAME, 64 * MIB)).await.unwrap()),
            _ => {
                engine.create_volume(volume()).await.unwrap();
                cut.id = known(&engine).id;
            }
        }
        keep(&engine, &cut).await;
        engine = again(&rig, engine).await;
        let next = is_told(&engine, VolumeState::Creating);
        assert!(next.contains("volume create tank/files") && next.contains("volume destroy"), "{next}");
        let refused = engine.create_space(mirror(NAME, 64 * MIB)).await.unwrap_err();
        assert!(refused.message.contains("not created to the end"), "{refused}");
        if step > 0 {
            let other = CreateVolume { space: Some(mirror(NAME, 80 * MIB)), ..volume() };
            let refused = engine.create_volume(other).await.unwrap_err();
            assert!(refused.message.contains("another size"), "{refused}");
            let refused = engine.destroy_space(NAME.into(), true).await.unwrap_err();
            assert!(refused.message.contains("volume tank/files lies on it"), "{refused}");
        }
        assert!(engine.create_volume(volume()).await.unwrap().changed, "step {step}");
        let made = engine.volume(NAME).unwrap();
        assert_eq!((made.state, made.health, made.files), (VolumeState::Open, Health::Healthy, Some(1)), "{made:?}");
        assert!(!engine.create_volume(volume()).await.unwrap().changed, "once more");
        engine = again(&rig, engine).await;
        assert_eq!(engine.volume(NAME).unwrap().state, VolumeState::Open);
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_was_cut_short_can_be_given_up() {
    for has_space in [false, true] {
        let rig = Rig::new();
        let mut engine = rig.with_spaces(&[]).await;
        if has_space {
            engine.make_space(mirror(NAME, 64 * MIB)).await.unwrap();
        }
        keep(&engine, &begun(true, Uuid::nil(), "files")).await;
        engine = again(&rig, engine).await;
        assert!(engine.destroy_volume(NAME.into(), true, false).await.unwrap().changed);
        assert_eq!((engine.volumes().len(), engine.spaces().len()), (0, 0), "nothing is left");
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destruction_that_was_cut_short_is_told_and_ended_by_a_repeat() {
    for is_space_gone in [false, true] {
        let rig = Rig::new();
        let mut engine = rig.with_spaces(&[]).await;
        engine.create_volume(volume()).await.unwrap();
        let going = KnownVolume { stage: Stage::Going, ..known(&engine) };
        keep(&engine, &going).await;
        engine = again(&rig, engine).await;
        if is_space_gone {
            let (open, _, space) = engine.space_at(&NAME.parse().unwrap()).unwrap();
            engine.remove_space(&open, &space.record()).await.unwrap();
        }
        let next = is_told(&engine, VolumeState::Destroying);
        assert!(next.contains("'holdfast volume destroy tank/files --yes'"), "{next}");
        let refused = engine.create_volume(volume()).await.unwrap_err();
        assert!(refused.message.contains("not destroyed to the end"), "{refused}");
        assert!(engine.destroy_volume(NAME.into(), true, false).await.unwrap().changed);
        assert_eq!((engine.volumes().len(), engine.spaces().len()), (0, 0), "nothing is left");
        assert!(!engine.destroy_volume(NAME.into(), true, false).await.unwrap().changed, "once more");
        assert!(engine.create_volume(volume()).await.unwrap().changed, "its name is free");
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_on_a_space_that_stays_is_cut_short_and_ended_as_well() {
    let rig = Rig::new();
    let mut engine = rig.with_spaces(&[]).await;
    let on = engine.create_space(mirror("tank/on", 64 * MIB)).await.unwrap().space.id;
    engine.create_volume(volume_on("tank/on")).await.unwrap();
    // As if formatting had been cut short: the space is not blank any more.
    keep(&engine, &KnownVolume { stage: Stage::Making, ..known(&engine) }).await;
    engine = again(&rig, engine).await;
    is_told(&engine, VolumeState::Creating);
    assert!(engine.create_volume(volume_on("tank/on")).await.unwrap().changed);
    keep(&engine, &KnownVolume { stage: Stage::Going, ..known(&engine) }).await;
    engine = again(&rig, engine).await;
    is_told(&engine, VolumeState::Destroying);
    assert!(engine.destroy_volume(NAME.into(), true, false).await.unwrap().changed);
    assert_eq!(engine.space("tank/on").unwrap().id, on, "the space stays");
    assert!(engine.create_volume(volume_on("tank/on")).await.unwrap().changed, "and is empty");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_that_asks_for_another_volume_is_refused_with_the_reason() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&[]).await;
    engine.create_volume(volume()).await.unwrap();
    let with = |change: &dyn Fn(&mut CreateSpace)| {
        let mut asked = mirror(NAME, 64 * MIB);
        change(&mut asked);
        CreateVolume { space: Some(asked), ..volume() }
    };
    let others = [
        (with(&|space| space.size_bytes = 65 * MIB), "another size"),
        (with(&|space| space.layout = LayoutKind::Simple), "another layout"),
        (with(&|space| space.thin = true), "another provisioning"),
        (with(&|space| space.name = "tank/other".into()), "another space"),
        (volume_on(NAME), "another space"),
        (CreateVolume { case_sensitive: true, ..volume() }, "another case of names"),
    ];
    for (other, why) in others {
        let refused = engine.create_volume(other).await.unwrap_err();
        assert_eq!(refused.code, Code::Exists, "{refused}");
        assert!(refused.message.contains(why) && !refused.next_action.is_empty(), "{why}: {refused}");
    }
    assert!(!engine.create_volume(volume()).await.unwrap().changed);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_whose_document_cannot_be_read_is_told_and_keeps_its_space() {
    let rig = Rig::new();
    let mut engine = rig.with_spaces(&[]).await;
    engine.create_volume(volume()).await.unwrap();
    let id = known(&engine).id;
    let open = engine.pool_named("tank").unwrap();
    let mut document: serde_json::Value =
        serde_json::from_slice(&open.pool.document(&format!("{VOLUMES}files")).unwrap()).unwrap();
    document["stage"] = "later".into();
    engine.keep(&open.pool, format!("{VOLUMES}files"), Some(&document)).await.unwrap();
    drop(open);
    engine = again(&rig, engine).await;
    let next = is_told(&engine, VolumeState::Unreadable);
    assert!(next.contains("run the version that wrote it"), "{next}");
    let refused = engine.destroy_space(NAME.into(), true).await.unwrap_err();
    assert!(refused.message.contains("volume tank/files lies on it"), "{refused}");
    let refused = engine.create_volume(volume()).await.unwrap_err();
    assert!(refused.message.contains("cannot be read"), "{refused}");
    assert!(engine.destroy_volume(NAME.into(), true, false).await.unwrap().changed);
    assert_eq!((engine.volumes().len(), engine.spaces().len()), (0, 1), "the space stays");
    // And what is on it can be taken up again.
    engine.create_space(mirror("tank/empty", 64 * MIB)).await.unwrap();
    let refused = engine.adopt_volume(NAME.into(), AdoptVolume { on: "tank/empty".into() }).await.unwrap_err();
    assert!(!refused.next_action.is_empty(), "{refused}");
    assert_eq!(engine.volumes().len(), 0, "nothing was changed");
    let adopt = AdoptVolume { on: NAME.into() };
    let adopted = engine.adopt_volume(NAME.into(), adopt.clone()).await.unwrap();
    assert!(adopted.changed && adopted.volume.id == id && adopted.volume.state == VolumeState::Open, "{adopted:?}");
    assert!(!engine.adopt_volume(NAME.into(), adopt.clone()).await.unwrap().changed, "once more");
    let refused = engine.adopt_volume("tank/other".into(), adopt).await.unwrap_err();
    assert!(refused.message.contains("volume tank/files lies on space"), "{refused}");
    engine.shutdown().await;
}

async fn file(volume: &Volume, dir: FileId, name: &str, len: usize) -> Result<FileId, VolumeError> {
    let new = NewFile { kind: FileKind::Regular, mode: 0o600, target: b"" };
    let made = volume.create(&Caller::default(), dir, name.as_bytes(), &new).await?;
    let handle =
        volume.open(&Caller::default(), made.id, OpenMode { read: false, write: true, truncate: false }).await?;
    volume.write(&handle, 0, IoBuf::zeroed(len).freeze(), len).await?;
    volume.close(handle).await?;
    Ok(made.id)
}

async fn directory(volume: &Volume, dir: FileId, name: &str) -> Result<FileId, VolumeError> {
    let new = NewFile { kind: FileKind::Directory, mode: 0o700, target: b"" };
    Ok(volume.create(&Caller::default(), dir, name.as_bytes(), &new).await?.id)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_files_take_is_told_of_wide_and_deep_trees() {
    const DEEP: u64 = 300;
    const WIDE: u64 = 200;
    let rig = Rig::new();
    let engine = rig.with_spaces(&[]).await;
    engine.create_volume(volume()).await.unwrap();
    let (open, known) = engine.open_volume_at(NAME).unwrap();
    let files = open.volume_of(known.id).unwrap();
    let filled = engine.on_reactor(move || async move {
        let mut deep = directory(&files, files.root(), "deep").await?;
        for level in 1..DEEP {
            file(&files, deep, "file", 8192).await?;
            file(&files, deep, "later", 8192).await?;
            deep = directory(&files, deep, &format!("level{level}")).await?;
        }
        let wide = directory(&files, files.root(), "wide").await?;
        for number in 0..WIDE {
            file(&files, wide, &format!("file{number}"), 4096).await?;
        }
        let twice = file(&files, files.root(), "twice", 65536).await?;
        files.link(&Caller::default(), twice, wide, b"again").await.map(drop)
    });
    filled.await.unwrap().unwrap();
    let all = engine.volume_usage(NAME, "/").await.unwrap();
    let deep = (DEEP - 1) * 2;
    // A file of two names is told at both, and taken once.
    let size = deep * 8192 + WIDE * 4096 + 65536;
    assert_eq!((all.files, all.directories, all.unreadable), (deep + WIDE + 2, DEEP + 2, 0), "{all:?}");
    assert_eq!((all.size_bytes, all.allocated_bytes), (size, size), "{all:?}");
    let told: Vec<_> = all.largest.iter().map(|part| (part.name.as_str(), part.directory, part.size_bytes)).collect();
    let wide = WIDE * 4096 + 32768;
    assert_eq!(told, [("deep", true, deep * 8192), ("wide", true, wide), ("twice", false, 32768)]);
    let below = engine.volume_usage(NAME, "/wide").await.unwrap();
    assert_eq!((below.files, below.size_bytes, below.largest.len()), (WIDE + 1, wide, 100));
    assert_eq!((below.path.as_str(), below.largest[0].name.as_str()), ("/wide", "again"));
    let one = engine.volume_usage(NAME, "wide/file7").await.unwrap();
    assert_eq!((one.files, one.directories, one.size_bytes), (1, 0, 4096));
    for missing in ["/none", "/twice/below"] {
        let refused = engine.volume_usage(NAME, missing).await.unwrap_err();
        assert_eq!(refused.code, Code::NotFound, "{refused}");
    }
    engine.shutdown().await;
}
