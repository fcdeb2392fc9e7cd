use holdfast_api::Code;
use holdfast_device::IoBuf;
use holdfast_harness::Wait;
use holdfast_model::Health;
use holdfast_volume::service::{Caller, FileKind, FileService, NewFile, OpenMode};

use super::*;
use crate::jobs::tests::{Rig, VOLUME, volume};

const MIB: u64 = 1 << 20;

fn of(path: Option<&str>, user: Option<&str>, hard_bytes: u64) -> SetVolumeQuota {
    SetVolumeQuota {
        path: path.map(Into::into),
        user: user.map(Into::into),
        hard_bytes: Some(hard_bytes),
        ..SetVolumeQuota::default()
    }
}

async fn settled(engine: &Engine) -> Vec<VolumeQuota> {
    let mut wait = Wait::new();
    loop {
        let quotas = engine.volume_quotas(VOLUME, false).await.unwrap();
        if quotas.iter().all(|quota| quota.state == QuotaState::Settled) {
            return quotas;
        }
        tokio::time::sleep(wait.pause(|| "directory trees are counted")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_set_counted_held_told_and_removed() {
    let rig = Rig::new();
    let engine = rig.with_volume().await;
    let files = volume(&engine);
    let filled = engine.on_reactor(move || async move {
        let new = NewFile { kind: FileKind::Directory, mode: 0o777, target: b"" };
        let dir = files.create(&Caller::default(), files.root(), b"dir", &new).await?.id;
        let caller = Caller { uid: 7, gid: 7, ..Caller::default() };
        let new = NewFile { kind: FileKind::Regular, mode: 0o600, target: b"" };
        let file = files.create(&caller, dir, b"file", &new).await?.id;
        let mode = OpenMode { read: true, write: true, truncate: false };
        let handle = files.open(&caller, file, mode).await?;
        let len = 6 * MIB as usize;
        let done = files.write(&handle, 0, IoBuf::zeroed(len).freeze(), len).await?;
        if done < len {
            files.write(&handle, done as u64, IoBuf::zeroed(len - done).freeze(), len - done).await?;
        }
        files.close(handle).await
    });
    filled.await.unwrap().unwrap();

    let answer = engine.set_volume_quota(VOLUME.into(), of(Some("/dir/"), None, 6 * MIB)).await.unwrap();
    assert!(answer.changed && answer.job.is_some(), "{answer:?}");
    assert_eq!(answer.quota.map(|quota| (quota.kind, quota.name)), Some((QuotaKind::Tree, "/dir".into())));
    let other = engine.set_volume_quota(VOLUME.into(), of(None, Some("8"), MIB)).await.unwrap();
    assert_eq!((other.changed, other.job), (true, None), "the job counts a directory tree, not the user");
    let other = engine.remove_volume_quota(VOLUME.into(), of(None, Some("8"), MIB)).await.unwrap();
    assert_eq!((other.changed, other.job), (true, None));
    let quotas = settled(&engine).await;
    assert_eq!((quotas.len(), quotas[0].used_bytes, quotas[0].used_files), (1, 6 * MIB, 2));
    let answer = engine.set_volume_quota(VOLUME.into(), of(None, Some("7"), 100 * MIB)).await.unwrap();
    assert_eq!(answer.quota.map(|quota| (quota.id, quota.used_bytes)), Some((Some(7), 6 * MIB)));
    assert_eq!(engine.volume_quotas(VOLUME, true).await.unwrap().len(), 5, "with users and groups that have none");
    let view = engine.volume(VOLUME).unwrap();
    assert_eq!(view.health, Health::Warning);
    assert!(view.conditions[0].cause.contains("directory tree /dir at 100 %"), "{:?}", view.conditions);

    for (request, code, field) in [
        (of(None, None, MIB), Code::Invalid, Some("path")),
        (of(Some("/dir"), Some("7"), MIB), Code::Invalid, Some("path")),
        (of(Some("/none"), None, MIB), Code::NotFound, Some("path")),
        (of(Some("/dir/file"), None, MIB), Code::Invalid, Some("path")),
        (of(None, Some("no such user"), MIB), Code::Invalid, Some("user")),
        (of(None, Some("0"), MIB), Code::Invalid, None),
        (of(None, Some("7"), 0), Code::Invalid, None),
    ] {
        let refused = engine.set_volume_quota(VOLUME.into(), request).await.unwrap_err();
        assert_eq!((refused.code, refused.field.as_deref()), (code, field), "{refused}");
    }
    // After a start, too, it is known where trees are.
    engine.shutdown().await;
    drop(engine);
    let engine = rig.start().await;
    let view = engine.volume(VOLUME).unwrap();
    assert!(view.conditions[0].cause.contains("directory tree /dir at 100 %"), "{:?}", view.conditions);
    let refused = engine.remove_volume_quota(VOLUME.into(), of(Some("/none"), None, 0)).await.unwrap_err();
    assert_eq!((refused.code, refused.field.as_deref()), (Code::NotFound, Some("path")), "{refused}");
    for (request, was_there) in [(of(Some("/dir"), None, 0), true), (of(Some("/dir"), None, 0), false)] {
        let removed = engine.remove_volume_quota(VOLUME.into(), request).await.unwrap();
        assert_eq!((removed.changed, removed.quota), (was_there, None));
    }
    settled(&engine).await;
    let removed = engine.remove_volume_quota(VOLUME.into(), of(None, Some("7"), 0)).await.unwrap();
    assert!(removed.changed);
    assert_eq!(engine.volume_quotas(VOLUME, false).await.unwrap(), []);
    assert_eq!(engine.volume(VOLUME).unwrap().health, Health::Healthy);
    engine.shutdown().await;
}
