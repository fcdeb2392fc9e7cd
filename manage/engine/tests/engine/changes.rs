//! Every change does what it says, says so, and changes nothing when it is repeated or refused.

use crate::support::{MIB, Rig, export, mirror, pool};
use holdfast_api::pool::PoolHealth;
use holdfast_api::{
    AddDisks, Code, CreateExport, CreateFileDisk, CreateSpace, DiskRef, GrowSpace, LayoutKind, SetDisk,
};
use holdfast_model::{Media, Usage};

#[tokio::test(flavor = "multi_thread")]
async fn repeating_a_change_changes_nothing() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(5).await;
    let file = CreateFileDisk { path: disks[0].clone(), size_bytes: 128 * MIB };
    assert!(!engine.create_file_disk(file).await.unwrap().changed);

    let made = engine.create_pool(pool("tank", &disks[..3])).await.unwrap();
    assert!(made.changed && made.pool.state == PoolHealth::Ok && made.pool.disks.len() == 3);
    let mut reversed = disks[..3].to_vec();
    reversed.reverse();
    let again = engine.create_pool(pool("tank", &reversed)).await.unwrap();
    assert!(!again.changed && again.pool == made.pool);

    let add = AddDisks { disks: vec![disks[3].clone()], force: false };
    assert!(engine.add_disks("tank".into(), add.clone()).await.unwrap().changed);
    assert!(!engine.add_disks("tank".into(), add).await.unwrap().changed);

    assert!(engine.create_space(mirror("tank/vm", 64 * MIB)).await.unwrap().changed);
    assert!(!engine.create_space(mirror("tank/vm", 64 * MIB)).await.unwrap().changed);
    let grow = GrowSpace { size_bytes: 80 * MIB };
    assert!(engine.grow_space("tank/vm".into(), grow.clone()).await.unwrap().changed);
    assert!(!engine.grow_space("tank/vm".into(), grow).await.unwrap().changed);

    assert!(engine.create_export(export("tank/vm")).await.unwrap().changed);
    assert!(!engine.create_export(export("tank/vm")).await.unwrap().changed);

    let set = SetDisk {
        media: Some(Media::Hdd),
        usage: Some(Usage::Manual),
        enclosure: Some("shelf".into()),
        slot: Some(7),
        force: false,
    };
    let changed = engine.set_disk(disks[0].clone(), set.clone()).await.unwrap();
    assert!(changed.changed && changed.disk.slot == Some(7) && changed.disk.usage == Some(Usage::Manual));
    assert!(!engine.set_disk(disks[0].clone(), set).await.unwrap().changed);
    let hint = SetDisk { media: Some(Media::Hdd), ..SetDisk::default() };
    assert!(engine.set_disk(disks[4].clone(), hint.clone()).await.unwrap().changed);
    let again = engine.set_disk(disks[4].clone(), hint).await.unwrap();
    assert!(!again.changed && again.disk.media == Media::Hdd);

    assert!(engine.remove_export("vm".into(), None).await.unwrap().changed);
    assert!(!engine.remove_export("vm".into(), None).await.unwrap().changed);
    assert!(engine.destroy_space("tank/vm".into(), true).await.unwrap().changed);
    assert!(!engine.destroy_space("tank/vm".into(), true).await.unwrap().changed);
    assert!(engine.export_pool("tank".into()).await.unwrap().changed);
    assert!(!engine.export_pool("tank".into()).await.unwrap().changed);
    let imported = engine.import_pools(Default::default()).await.unwrap();
    assert!(imported.changed && imported.pools[0].pool.name == "tank", "{imported:?}");
    assert!(!engine.import_pools(Default::default()).await.unwrap().changed);
    assert!(engine.destroy_pool("tank".into(), true).await.unwrap().changed);
    assert!(!engine.destroy_pool("tank".into(), true).await.unwrap().changed);
    assert!(engine.disks().await.unwrap().iter().all(|disk| disk.can_pool), "a destroyed pool leaves blank disks");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_name_with_other_parameters_is_refused_and_says_which_differs() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_space(4).await;
    let differs = |error: holdfast_api::ApiError, word: &str| {
        assert_eq!(error.code, Code::Exists, "{error}");
        assert!(error.message.contains(word), "{error} does not say {word}");
        assert!(!error.next_action.is_empty());
    };
    differs(engine.create_pool(pool("tank", &disks[..3])).await.unwrap_err(), &disks[3]);
    let space = |change: fn(&mut CreateSpace)| {
        let mut request = mirror("tank/vm", 64 * MIB);
        change(&mut request);
        engine.create_space(request)
    };
    differs(space(|request| request.size_bytes *= 2).await.unwrap_err(), "size");
    differs(space(|request| request.copies = Some(3)).await.unwrap_err(), "layout");
    differs(space(|request| request.layout = LayoutKind::Simple).await.unwrap_err(), "layout");
    differs(space(|request| request.columns = Some(2)).await.unwrap_err(), "columns");
    differs(space(|request| request.interleave_bytes = Some(64 << 10)).await.unwrap_err(), "interleave");
    differs(space(|request| request.thin = true).await.unwrap_err(), "provisioning");
    let read_only = CreateExport { read_only: true, ..export("tank/vm") };
    differs(engine.create_export(read_only).await.unwrap_err(), "access");
    let file = CreateFileDisk { path: disks[0].clone(), size_bytes: 256 * MIB };
    differs(engine.create_file_disk(file).await.unwrap_err(), "size");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_use_is_not_destroyed() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_space(2).await;
    let error = engine.destroy_space("tank/vm".into(), true).await.unwrap_err();
    assert!(error.code == Code::Conflict && error.next_action.contains("nbd unexport vm"), "{error}");
    assert_eq!(engine.destroy_pool("tank".into(), true).await.unwrap_err().code, Code::Conflict);
    assert_eq!(engine.wipe_disk(disks[0].clone(), true).await.unwrap_err().code, Code::Conflict);
    engine.remove_export("vm".into(), None).await.unwrap();
    assert_eq!(engine.destroy_space("tank/vm".into(), false).await.unwrap_err().code, Code::NotConfirmed);
    assert_eq!(engine.destroy_pool("tank".into(), false).await.unwrap_err().code, Code::NotConfirmed);
    assert_eq!(engine.spaces().len(), 1);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_with_a_reason_and_changes_nothing() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(3).await;
    let long = "x".repeat(64);
    for name in ["", "a b", "../x", "-x", "käse", "a/b", "\u{202e}x", &long] {
        let error = engine.create_pool(pool(name, &disks)).await.unwrap_err();
        assert!(error.code == Code::Invalid && !error.message.is_empty(), "{name:?}: {error}");
    }
    for size_bytes in [0, 1, 4095, 64 * MIB - 4096, (256 << 40) + 1, 300 << 40, u64::MAX, !4095] {
        let path = rig.disk("new");
        let error = engine.create_file_disk(CreateFileDisk { path, size_bytes }).await.unwrap_err();
        assert_eq!(error.code, Code::Invalid, "{size_bytes}: {error}");
        assert!(
            error.next_action.contains("from 64 MiB to 256 TiB") && !rig.path("new").exists(),
            "{size_bytes}: {error}"
        );
    }
    let relative = CreateFileDisk { path: "d9".into(), size_bytes: 128 * MIB };
    assert_eq!(engine.create_file_disk(relative).await.unwrap_err().code, Code::Invalid);
    assert_eq!(engine.create_pool(pool("tank", &[])).await.unwrap_err().code, Code::Invalid);
    let twice = [
        disks[0].clone(),
        format!(
            "{}/../{}",
            rig.folder.path().display(),
            &disks[0][rig.folder.path().parent().unwrap().to_str().unwrap().len() + 1..]
        ),
    ];
    assert_eq!(engine.create_pool(pool("tank", &twice)).await.unwrap_err().code, Code::Invalid);
    assert_eq!(engine.create_pool(pool("tank", &[rig.disk("none")])).await.unwrap_err().code, Code::NotFound);
    assert_eq!(engine.create_pool(pool("tank", &["no-such-serial".into()])).await.unwrap_err().code, Code::NotFound);
    assert_eq!(
        engine.create_pool(pool("tank", &[rig.folder.path().display().to_string()])).await.unwrap_err().code,
        Code::Invalid
    );
    std::fs::File::create(rig.path("tiny")).and_then(|file| file.set_len(64 * MIB - 1)).unwrap();
    let error = engine.create_pool(pool("tank", &[rig.disk("tiny")])).await.unwrap_err();
    assert!(error.code == Code::Invalid && error.message.contains("has 67,104,768 bytes"), "{error}");
    assert!(engine.pools().is_empty() && engine.disks().await.unwrap().iter().all(|disk| disk.can_pool));

    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let before = engine.pool("tank").unwrap();
    for size_bytes in [0, (1 << 60) + 1, u64::MAX, !4095] {
        let error = engine.create_space(mirror("tank/vm", size_bytes)).await.unwrap_err();
        assert!(matches!(error.code, Code::Invalid | Code::NoSpace), "{size_bytes}: {error}");
    }
    assert_eq!(engine.create_space(mirror("tank/vm", 1 << 40)).await.unwrap_err().code, Code::NoSpace);
    let with = |copies, columns, interleave_bytes| {
        engine.create_space(CreateSpace { copies, columns, interleave_bytes, ..mirror("tank/vm", 8 * MIB) })
    };
    for refused in [with(Some(4), None, None).await, with(Some(0), None, None).await, with(Some(1), None, None).await] {
        assert_eq!(refused.unwrap_err().code, Code::Invalid);
    }
    let error = with(Some(3), Some(2), None).await.unwrap_err();
    assert!(error.code == Code::Invalid && error.message.contains("needs 6 disks"), "{error}");
    assert_eq!(with(None, Some(0), None).await.unwrap_err().code, Code::Invalid);
    for interleave in [0, 1, 4097, 1 << 40] {
        assert_eq!(with(None, None, Some(interleave)).await.unwrap_err().code, Code::Invalid);
    }
    for path in ["tank", "tank/", "/vm", "tank/a/b", "tank/a b"] {
        assert_eq!(engine.create_space(mirror(path, 8 * MIB)).await.unwrap_err().code, Code::Invalid, "{path}");
    }
    assert_eq!(engine.create_space(mirror("none/vm", 8 * MIB)).await.unwrap_err().code, Code::NotFound);
    assert_eq!(engine.create_export(export("tank/none")).await.unwrap_err().code, Code::NotFound);
    let slot = SetDisk { slot: Some(1), ..SetDisk::default() };
    assert_eq!(engine.set_disk(disks[0].clone(), slot).await.unwrap_err().code, Code::Invalid);
    let slot = SetDisk { enclosure: Some("A".into()), slot: Some(99_999_999), ..SetDisk::default() };
    let error = engine.set_disk(disks[0].clone(), slot).await.unwrap_err();
    assert!(error.code == Code::Invalid && error.next_action.contains("9999"), "{error}");
    assert_eq!(engine.pool("tank").unwrap(), before);

    engine.create_space(mirror("tank/vm", 8 * MIB)).await.unwrap();
    let odd = CreateExport { name: Some("a b".into()), ..export("tank/vm") };
    assert_eq!(engine.create_export(odd).await.unwrap_err().code, Code::Invalid);
    for size_bytes in [0, 4 * MIB] {
        assert_eq!(
            engine.grow_space("tank/vm".into(), GrowSpace { size_bytes }).await.unwrap_err().code,
            Code::Invalid
        );
    }
    assert_eq!(
        engine.grow_space("tank/vm".into(), GrowSpace { size_bytes: 1 << 40 }).await.unwrap_err().code,
        Code::NoSpace
    );
    assert_eq!(engine.space("tank/vm").unwrap().size_bytes, 8 * MIB);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_serves_one_pool_and_what_it_carries_is_not_overwritten_unasked() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(4).await;
    engine.create_pool(pool("tank", &disks[..2])).await.unwrap();
    let error = engine.create_pool(pool("other", &disks[1..3])).await.unwrap_err();
    assert!(error.code == Code::Conflict && error.message.contains("pool tank"), "{error}");

    let mut table = std::fs::read(&disks[2]).unwrap();
    table[446 + 4] = 0x83;
    table[446 + 8..446 + 12].copy_from_slice(&64u32.to_le_bytes());
    table[446 + 12..446 + 16].copy_from_slice(&512u32.to_le_bytes());
    table[510..512].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(&disks[2], &table).unwrap();
    let error = engine.create_pool(pool("other", &disks[2..])).await.unwrap_err();
    assert!(error.code == Code::NotConfirmed && error.message.contains("partition table"), "{error}");
    let shown = engine.disk(&DiskRef::new(&disks[2])).await.unwrap();
    assert!(!shown.can_pool && shown.conditions[0].cause.contains("partition table"));
    assert_eq!(std::fs::read(&disks[2]).unwrap(), table, "a refusal changes nothing");

    engine.export_pool("tank".into()).await.unwrap();
    let error = engine.create_pool(pool("other", &disks[1..2])).await.unwrap_err();
    assert!(error.code == Code::NotConfirmed && error.message.contains("belongs to pool tank"), "{error}");
    assert_eq!(engine.wipe_disk(disks[2].clone(), false).await.unwrap_err().code, Code::NotConfirmed);
    assert!(engine.wipe_disk(disks[2].clone(), true).await.unwrap().changed);
    assert!(!engine.wipe_disk(disks[2].clone(), true).await.unwrap().changed);
    let forced = holdfast_api::CreatePool { force: true, ..pool("other", &disks) };
    assert!(engine.create_pool(forced).await.unwrap().changed);
    assert_eq!(engine.pools().len(), 1);
    engine.shutdown().await;
}
