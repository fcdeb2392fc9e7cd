//! Restores that are cut short, taken up again, and fail half-way.

use holdfast_api::{CreateSnapshot, LunBlocks, Qos, RestoreSnapshot};
use holdfast_volume::service::{Caller, FileId, FileKind, FileService, NewFile, OpenMode};
use holdfast_volume::{ErrorKind, VolumeError};

use super::*;
use crate::targets::{Backing, KnownLun, KnownTarget, LiveTarget};

/// Has files `f0` … of the root be of so many bytes of one value each.
async fn fill(engine: &Arc<Engine>, files: u8, len: usize, value: u8) {
    let volume = volume(engine);
    let filled = engine.on_reactor(move || async move {
        for number in 0..files {
            let name = format!("f{number}").into_bytes();
            let new = NewFile { kind: FileKind::Regular, mode: 0o600, target: b"" };
            let id = match volume.create(&Caller::default(), volume.root(), &name, &new).await {
                Err(error) if error.kind == ErrorKind::Exists => id_of(&volume, &name).await?,
                made => made?.id,
            };
            let mode = OpenMode { read: false, write: true, truncate: false };
            let handle = volume.open(&Caller::default(), id, mode).await?;
            let mut data = IoBuf::new(len);
            data.fill(value + number);
            volume.write(&handle, 0, data.freeze(), len).await?;
            volume.close(handle).await?;
        }
        volume.sync().await
    });
    filled.await.unwrap().unwrap();
}

async fn id_of(volume: &Volume, name: &[u8]) -> Result<FileId, VolumeError> {
    let found = volume.lookup(&Caller::default(), volume.root(), name).await?;
    Ok(found.expect("it is there").id)
}

/// The bytes that files of the volume, or of a snapshot, have; each at one place in each of its pieces.
async fn held(engine: &Arc<Engine>, snapshot: Option<String>, files: u8) -> Vec<Vec<u8>> {
    let volume = volume(engine);
    let read = engine.on_reactor(move || async move {
        let view = snapshot.map(|name| volume.open_snapshot(&name)).transpose()?.unwrap_or(volume);
        let mut held = Vec::new();
        for number in 0..files {
            let id = id_of(&view, format!("f{number}").as_bytes()).await?;
            let mode = OpenMode { read: true, write: false, truncate: false };
            let handle = view.open(&Caller::default(), id, mode).await?;
            let mut values = Vec::new();
            for at in 0.. {
                let Some(first) = view.read(&handle, at * MIB / 4, 1).await?.to_vec().first().copied() else { break };
                values.push(first);
            }
            values.dedup();
            view.close(handle).await?;
            held.push(values);
        }
        Ok::<_, VolumeError>(held)
    });
    read.await.unwrap().unwrap()
}

fn values(files: u8, value: u8) -> Vec<Vec<u8>> {
    (0..files).map(|number| vec![value + number]).collect()
}

async fn restore(engine: &Arc<Engine>, pace: SetPace) -> u64 {
    let request = RestoreSnapshot { path: "/".into(), to: None, keep: true, pace };
    engine.restore_snapshot(VOLUME.into(), "s".into(), request, true).await.unwrap().job.id
}

fn kept(engine: &Engine) -> Vec<String> {
    let names = engine.snapshots(VOLUME).unwrap().into_iter().map(|one| one.name);
    names.filter(|name| name.starts_with("before-restore-")).collect()
}

async fn snapshot(engine: &Arc<Engine>) {
    engine.create_snapshot(VOLUME.into(), CreateSnapshot { name: "s".into() }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_there_before_is_kept_over_restarts_until_the_restore_has_ended() {
    let rig = Rig::new();
    let mut engine = rig.with_volume().await;
    fill(&engine, 6, 2 * MIB as usize, 10).await;
    snapshot(&engine).await;
    fill(&engine, 6, 2 * MIB as usize, 90).await;
    let id = restore(&engine, capped(2 * MIB)).await;
    until(&engine, id, "it does not begin", |job| job.done_bytes > 3 * MIB).await;
    let names = kept(&engine);
    let [keep] = &names[..] else { panic!("{names:?}") };
    for round in 0..2 {
        for (name, why) in [("s", "restores files from it"), (&**keep, "keeps in it what was there before")] {
            let refused = engine.destroy_snapshot(VOLUME.into(), name.into(), true).await.unwrap_err();
            assert!(refused.code == Code::Conflict && refused.message.contains(why), "round {round}: {refused}");
        }
        engine.shutdown().await;
        drop(engine);
        engine = rig.start().await;
    }
    engine.set_job(id, capped(0)).unwrap();
    let done = until_in(&engine, id, JobState::Done).await;
    assert!(done.result.as_deref().is_some_and(|result| result.contains(&**keep)), "{done:?}");
    assert_eq!(held(&engine, None, 6).await, values(6, 10));
    assert_eq!(held(&engine, Some(keep.clone()), 6).await, values(6, 90), "nothing of what was restored is in it");
    assert_eq!(&kept(&engine), &names, "one, however often it was taken up again");
    assert!(engine.destroy_snapshot(VOLUME.into(), keep.clone(), true).await.unwrap().changed);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_half_restored_is_not_kept_as_what_was_there_before() {
    let rig = Rig::new();
    let mut engine = rig.with_volume().await;
    fill(&engine, 6, 2 * MIB as usize, 10).await;
    snapshot(&engine).await;
    let taken = CreateSnapshot { name: "before-restore-mine".into() };
    let refused = engine.create_snapshot(VOLUME.into(), taken).await.unwrap_err();
    assert!(refused.message.contains("are those of what restores keep"), "{refused}");
    fill(&engine, 6, 2 * MIB as usize, 90).await;
    let id = restore(&engine, capped(2 * MIB)).await;
    until(&engine, id, "it does not begin", |job| job.done_bytes > 3 * MIB).await;
    engine.pause_job(id).unwrap();
    engine.shutdown().await;
    drop(engine);
    engine = rig.start().await;
    // No request does this; a volume that was elsewhere meanwhile may be so.
    let (volume, keep) = (volume(&engine), kept(&engine).remove(0));
    engine.on_reactor(move || async move { volume.destroy_snapshot(&keep).await }).await.unwrap().unwrap();
    engine.resume_job(id).unwrap();
    let failed = until_in(&engine, id, JobState::Failed).await.error.unwrap();
    assert!(failed.message.contains("is gone") && failed.next_action.contains("--discard"), "{failed}");
    assert!(kept(&engine).is_empty(), "what it changed is not taken for what was there before");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_fails_says_what_is_restored_and_what_is_not() {
    const FILES: u8 = 7;
    let rig = Rig::new();
    let engine = rig.with_volume().await;
    fill(&engine, FILES, 2 * MIB as usize, 10).await;
    snapshot(&engine).await;
    fill(&engine, FILES, 2 * MIB as usize, 90).await;
    // What is left does not do for all of it.
    let asked = volume(&engine);
    let usage = engine.on_reactor(move || async move { asked.usage(asked.root()).await }).await.unwrap().unwrap();
    let free = usage.free_bytes;
    assert!(free > 7 * MIB, "{usage:?}");
    let volume = volume(&engine);
    let filled = engine.on_reactor(move || async move {
        let new = NewFile { kind: FileKind::Regular, mode: 0o600, target: b"" };
        let made = volume.create(&Caller::default(), volume.root(), b"filler", &new).await?;
        let mode = OpenMode { read: false, write: true, truncate: false };
        let handle = volume.open(&Caller::default(), made.id, mode).await?;
        for at in 0..(free - 7 * MIB) / MIB {
            volume.write(&handle, at * MIB, IoBuf::zeroed(MIB as usize).freeze(), MIB as usize).await?;
        }
        volume.close(handle).await?;
        Ok::<_, VolumeError>(())
    });
    filled.await.unwrap().unwrap();
    let id = restore(&engine, capped(0)).await;
    let failed = until_in(&engine, id, JobState::Failed).await.error.unwrap();
    assert_eq!(failed.code, Code::NoSpace, "{failed}");
    let names = kept(&engine);
    let [keep] = &names[..] else { panic!("{names:?}") };
    let next = &failed.next_action;
    assert!(next.contains("repeat the restore, which goes on where it was") && next.contains(&**keep), "{failed}");
    let (_, left) = failed.message.split_once("not restored are ").unwrap();
    let (left, _) = left.split_once(", each with all below").unwrap();
    let left: Vec<&str> = left.split(", ").collect();
    assert!(left.len() > 1 && left.len() < usize::from(FILES), "{failed}");
    for (number, values) in held(&engine, None, FILES).await.into_iter().enumerate() {
        let (path, is_restored) = (format!("/f{number}"), values == [10 + number as u8]);
        assert_eq!(is_restored, !left.contains(&&*path), "{path} has {values:?}: {failed}");
    }
    assert_eq!(held(&engine, Some(keep.clone()), FILES).await, values(FILES, 90));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_is_taken_up_again_leaves_files_alone_that_became_luns() {
    let rig = Rig::new();
    let mut engine = rig.with_volume().await;
    fill(&engine, 6, 2 * MIB as usize, 10).await;
    snapshot(&engine).await;
    fill(&engine, 6, 2 * MIB as usize, 90).await;
    let id = restore(&engine, capped(2 * MIB)).await;
    until(&engine, id, "it does not begin", |job| job.done_bytes > 3 * MIB).await;
    engine.pause_job(id).unwrap();
    engine.shutdown().await;
    drop(engine);
    engine = rig.start().await;
    let volume = volume(&engine);
    let (on, pool) = (volume.id(), engine.open_volume_at(VOLUME).unwrap().0.pool.id());
    let asked = volume.clone();
    let file = engine.on_reactor(move || async move { id_of(&asked, b"f5").await }).await.unwrap().unwrap();
    // One that is not served, as one of which something is amiss; its file is no disk now.
    let lun = KnownLun {
        id: on,
        pool,
        on: Backing::File { volume: on, number: file.number, generation: file.generation },
        path: "tank/files:/f5".into(),
        blocks: LunBlocks::default(),
        read_only: false,
        qos: Qos::default(),
        alert_percent: None,
        full: false,
    };
    let mut target = KnownTarget::new("hosts", "iqn.2025-01.org.example:hosts".into());
    target.luns.insert(0, lun);
    let target = LiveTarget::new(&engine, target);
    engine.live_mut().targets.insert("hosts".into(), target);
    assert!(volume.block_objects().is_empty());
    let before = held(&engine, None, 6).await;
    engine.resume_job(id).unwrap();
    let failed = until_in(&engine, id, JobState::Failed).await.error.unwrap();
    assert!(failed.code == Code::Conflict && failed.message.contains("clients use /f5 as a disk"), "{failed}");
    assert_eq!(held(&engine, None, 6).await, before);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_destroyed_while_room_is_given_back_is_given_back_too() {
    let rig = Rig::new();
    let engine = rig.with_volume().await;
    for name in ["a", "b"] {
        fill(&engine, 8, MIB as usize / 4, 10).await;
        engine.create_snapshot(VOLUME.into(), CreateSnapshot { name: name.into() }).await.unwrap();
    }
    fill(&engine, 8, MIB as usize / 4, 90).await;
    let mut jobs = Vec::new();
    for name in ["a", "b"] {
        jobs.extend(engine.destroy_snapshot(VOLUME.into(), name.into(), true).await.unwrap().job);
        if name == "a" {
            // It may have ended by now.
            _ = engine.pause_job(jobs[0]);
        } else {
            _ = engine.resume_job(jobs[0]);
        }
    }
    assert_eq!(jobs.len(), 2, "each says who gives its room back");
    for id in jobs {
        until_in(&engine, id, JobState::Done).await;
    }
    let volume = volume(&engine);
    assert_eq!((volume.kept_bytes(), volume.is_to_be_reclaimed()), (0, false));
    engine.shutdown().await;
}
