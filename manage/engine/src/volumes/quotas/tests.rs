use holdfast_api::{Code, CreateSpace, CreateVolume, LayoutKind};
use holdfast_device::IoBuf;
use holdfast_model::Health;
use holdfast_volume::service::{Caller, FileKind, FileService, NewFile, OpenMode};

use super::*;
use crate::jobs::tests::Rig;

const MIB: u64 = 1 << 20;
const NAME: &str = "tank/files";

fn quota(subject: Subject, limits: Limits, crossed: u64, refused: u64) -> Quota {
    Quota {
        subject,
        limits: Some(limits),
        directory: None,
        state: holdfast_volume::QuotaState::Settled,
        used_bytes: 6 * MIB,
        used_files: 1,
        refused,
        crossed,
    }
}

#[test]
fn crossings_are_told_each_and_refusals_once_in_a_while() {
    let limits = Limits { soft_bytes: Some(5 * MIB), hard_bytes: Some(6 * MIB), ..Limits::default() };
    let mut watch = QuotaWatch { paths: BTreeMap::from([(3, "/projects".into())]), ..QuotaWatch::default() };
    let mut now = Instant::now();
    let mut told = |crossed, refused, later: Duration| {
        now += later;
        let news = watch.news(&[quota(Subject::Tree(3), limits, crossed, refused)], now);
        news.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
    };
    let none = Duration::ZERO;
    assert_eq!(told(0, 0, none), Vec::<String>::new());
    let crossed = "directory tree /projects went beyond its soft limit of 5 MiB: it takes 6 MiB and 1 file";
    assert_eq!(told(1, 0, none), [crossed]);
    assert_eq!(told(1, 7, none), ["directory tree /projects uses up its quota of 6 MiB: 7 requests refused"]);
    assert_eq!(told(2, 9, none), [crossed], "the next refusals are told later");
    assert_eq!(told(2, 9, QUIET), ["directory tree /projects uses up its quota of 6 MiB: 2 requests refused"]);
    assert_eq!(told(2, 9, QUIET), Vec::<String>::new());
    watch.news(&[], Instant::now());
    assert!(watch.told.is_empty(), "what has no quota any more is forgotten");
}

fn of(path: Option<&str>, user: Option<&str>, hard_bytes: u64) -> SetVolumeQuota {
    SetVolumeQuota {
        path: path.map(Into::into),
        user: user.map(Into::into),
        hard_bytes: Some(hard_bytes),
        ..SetVolumeQuota::default()
    }
}

async fn settled(engine: &Engine) -> Vec<VolumeQuota> {
    for _ in 0..500 {
        let quotas = engine.volume_quotas(NAME, false).await.unwrap();
        if quotas.iter().all(|quota| quota.state == QuotaState::Settled) {
            return quotas;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("directory trees are not counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_set_counted_held_told_and_removed() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&[]).await;
    let space = CreateSpace {
        name: NAME.into(),
        layout: LayoutKind::Mirror,
        copies: None,
        parity: None,
        columns: None,
        interleave_bytes: None,
        size_bytes: 64 * MIB,
        thin: false,
        journal_bytes: None,
        integrity: None,
        enclosure_aware: false,
    };
    let request = CreateVolume { name: NAME.into(), space: Some(space), on: None, case_sensitive: false };
    engine.create_volume(request).await.unwrap();
    let (open, known) = engine.open_volume_at(NAME).unwrap();
    let volume = open.volume_of(known.id).unwrap();
    let files = volume.clone();
    let filled = engine.on_reactor(move || async move {
        let new = NewFile { kind: FileKind::Directory, mode: 0o777, target: b"" };
        let dir = files.create(&Caller::default(), files.root(), b"dir", &new).await?.id;
        let caller = Caller { uid: 7, gid: 7, ..Caller::default() };
        let new = NewFile { kind: FileKind::Regular, mode: 0o600, target: b"" };
        let file = files.create(&caller, dir, b"file", &new).await?.id;
        let mode = OpenMode { read: true, write: true, truncate: false };
        let handle = files.open(&caller, file, mode).await?;
        let len = 6 * MIB as usize;
        files.write(&handle, 0, IoBuf::zeroed(len).freeze(), len).await?;
        files.close(handle).await
    });
    filled.await.unwrap().unwrap();

    let answer = engine.set_volume_quota(NAME.into(), of(Some("/dir/"), None, 6 * MIB)).await.unwrap();
    assert!(answer.changed && answer.job.is_some(), "{answer:?}");
    assert_eq!(answer.quota.map(|quota| (quota.kind, quota.name)), Some((QuotaKind::Tree, "/dir".into())));
    let quotas = settled(&engine).await;
    assert_eq!((quotas.len(), quotas[0].used_bytes, quotas[0].used_files), (1, 6 * MIB, 2));
    let answer = engine.set_volume_quota(NAME.into(), of(None, Some("7"), 100 * MIB)).await.unwrap();
    assert_eq!(answer.quota.map(|quota| (quota.id, quota.used_bytes)), Some((Some(7), 6 * MIB)));
    assert_eq!(engine.volume_quotas(NAME, true).await.unwrap().len(), 5, "with users and groups that have none");
    let view = engine.volume(NAME).unwrap();
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
        let refused = engine.set_volume_quota(NAME.into(), request).await.unwrap_err();
        assert_eq!((refused.code, refused.field.as_deref()), (code, field), "{refused}");
    }
    for (request, was_there) in [(of(Some("/dir"), None, 0), true), (of(Some("/dir"), None, 0), false)] {
        let removed = engine.remove_volume_quota(NAME.into(), request).await.unwrap();
        assert_eq!((removed.changed, removed.quota), (was_there, None));
    }
    settled(&engine).await;
    let removed = engine.remove_volume_quota(NAME.into(), of(None, Some("7"), 0)).await.unwrap();
    assert!(removed.changed);
    assert_eq!(engine.volume_quotas(NAME, false).await.unwrap(), []);
    assert_eq!(engine.volume(NAME).unwrap().health, Health::Healthy);
    drop((open, volume));
    engine.shutdown().await;
}
