//! What callers may do whom nobody checked before, and names as they give them.

use std::sync::Arc;

use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_device::{Device, IoSlice};
use holdfast_model::Uuid;
use holdfast_volume::service::{
    Attributes, Caller, FileId, FileKind, FileService, Flush, NewFile, OpenMode, Remove, Rename, SetAttributes,
    SetTime, Time,
};
use holdfast_volume::{ErrorKind, Format, Settings, Volume, VolumeError, VolumeFormat, WallClock};

/// Runs a test on an empty volume.
fn on_a_volume<F: Future<Output = ()> + 'static>(test: impl FnOnce(Arc<Volume>) -> F + 'static) {
    let sim = Sim::new(1);
    let disk: Arc<dyn Device> = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let store = Format { volume: Uuid::from_u128(3), log_bytes: None };
        let format = VolumeFormat { store, secret: [4; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: false };
        Volume::format(&disk, format, Time::default()).await.expect("formatted");
        let clock: WallClock = Arc::new(|| Time { seconds: 1000, nanos: 0 });
        test(Arc::new(Volume::open(disk, Settings::default(), clock).await.expect("opened"))).await;
    });
    ran.expect("powered");
}

fn user(uid: u32) -> Caller {
    Caller { uid, gid: uid, ..Caller::default() }
}

fn kind<T>(result: Result<T, VolumeError>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

async fn create(volume: &Volume, caller: &Caller, dir: FileId, name: &str, kind: FileKind, mode: u32) -> Attributes {
    let new = NewFile { kind, mode, target: b"" };
    volume.create(caller, dir, name.as_bytes(), &new).await.expect("created")
}

const READING: OpenMode = OpenMode { read: true, write: false, truncate: false };
const WRITING: OpenMode = OpenMode { read: true, write: true, truncate: false };

#[test]
fn permissions_are_those_of_the_class_that_the_caller_is_in() {
    on_a_volume(|volume| async move {
        let (one, other) = (user(1), user(2));
        let root = volume.root();
        let file = create(&volume, &one, root, "file", FileKind::Regular, 0o640).await;
        assert_eq!((file.uid, file.gid, file.mode), (1, 1, 0o640));
        assert_eq!(kind(volume.open(&other, file.id, READING).await), Some(ErrorKind::AccessDenied));
        let member = Caller { groups: [1].into_iter().collect(), ..user(2) };
        assert_eq!(kind(volume.open(&member, file.id, WRITING).await), Some(ErrorKind::AccessDenied));
        volume.close(volume.open(&member, file.id, READING).await.expect("the group reads")).await.expect("closed");
        assert_eq!(kind(volume.access(&other, file.id, 4).await), Some(ErrorKind::AccessDenied));
        assert_eq!(kind(volume.access(&user(0), file.id, 1).await), Some(ErrorKind::AccessDenied), "nobody executes");
        assert_eq!(kind(volume.access(&user(0), file.id, 6).await), None);

        let handle = volume.open(&one, file.id, READING).await.expect("opened");
        let written = volume.write(&handle, 0, IoSlice::padded(b"x"), 1).await;
        assert_eq!(kind(written), Some(ErrorKind::BadHandle), "it was opened for reading");
        volume.close(handle).await.expect("closed");

        let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        assert_eq!(kind(volume.set(&other, file.id, &mode).await), Some(ErrorKind::NotPermitted));
        let owner = SetAttributes { uid: Some(2), ..SetAttributes::default() };
        assert_eq!(kind(volume.set(&one, file.id, &owner).await), Some(ErrorKind::NotPermitted));
        let set_id = SetAttributes { mode: Some(0o6755), ..SetAttributes::default() };
        assert_eq!(volume.set(&one, file.id, &set_id).await.map(|facts| facts.mode), Ok(0o6755));
        let group = SetAttributes { gid: Some(1), ..SetAttributes::default() };
        let facts = volume.set(&one, file.id, &group).await.expect("a group of the owner");
        assert_eq!(facts.mode, 0o755, "what changes its owner or group runs as nobody else");
        let now = SetAttributes { modified: Some(SetTime::Now), ..SetAttributes::default() };
        assert_eq!(kind(volume.set(&other, file.id, &now).await), Some(ErrorKind::AccessDenied));
        let given = SetAttributes { modified: Some(SetTime::At(Time::default())), ..SetAttributes::default() };
        assert_eq!(kind(volume.set(&other, file.id, &given).await), Some(ErrorKind::NotPermitted));
        assert_eq!(volume.set(&one, file.id, &given).await.map(|facts| facts.modified), Ok(Time::default()));
        let length = SetAttributes { size_bytes: Some(5), ..SetAttributes::default() };
        assert_eq!(kind(volume.set(&other, file.id, &length).await), Some(ErrorKind::AccessDenied));

        let shut = create(&volume, &one, root, "shut", FileKind::Directory, 0o700).await;
        assert_eq!(kind(volume.lookup(&other, shut.id, b"a").await), Some(ErrorKind::AccessDenied));
        assert_eq!(kind(volume.list(&other, shut.id, 0, 9, false).await), Some(ErrorKind::AccessDenied));
        let new = NewFile { kind: FileKind::Regular, mode: 0o600, target: b"" };
        assert_eq!(kind(volume.create(&other, shut.id, b"a", &new).await), Some(ErrorKind::AccessDenied));
    });
}

#[test]
fn a_sticky_directory_keeps_names_of_others() {
    on_a_volume(|volume| async move {
        let (one, other) = (user(1), user(2));
        let sticky = create(&volume, &user(0), volume.root(), "sticky", FileKind::Directory, 0o1777).await;
        create(&volume, &one, sticky.id, "mine", FileKind::Regular, 0o666).await;
        create(&volume, &other, sticky.id, "other's", FileKind::Regular, 0o666).await;
        let removed = volume.remove(&other, sticky.id, b"mine", Remove::File).await;
        assert_eq!(kind(removed), Some(ErrorKind::NotPermitted));
        let renamed = volume.rename(&other, (sticky.id, b"other's"), (sticky.id, b"mine"), Rename::Replace).await;
        assert_eq!(kind(renamed), Some(ErrorKind::NotPermitted), "it would take the other's name away");
        volume.remove(&one, sticky.id, b"mine", Remove::File).await.expect("it is one's own");
    });
}

#[test]
fn a_caller_who_ignores_case_finds_and_changes_names_by_any_case() {
    on_a_volume(|volume| async move {
        let (root, exact) = (volume.root(), user(0));
        let alike = Caller { ignores_case: true, ..user(0) };
        let file = create(&volume, &exact, root, "Über.TXT", FileKind::Regular, 0o644).await;
        let found = |name: &'static str, caller: Caller| {
            let volume = volume.clone();
            async move { volume.lookup(&caller, root, name.as_bytes()).await.expect("looked up").map(|facts| facts.id) }
        };
        assert_eq!(found("über.txt", exact.clone()).await, None);
        assert_eq!(found("über.txt", alike.clone()).await, Some(file.id));
        let new = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
        assert_eq!(kind(volume.create(&alike, root, "ÜBER.txt".as_bytes(), &new).await), Some(ErrorKind::Exists));
        let second = create(&volume, &exact, root, "ÜBER.txt", FileKind::Regular, 0o644).await;
        assert_eq!(found("ÜBER.txt", alike.clone()).await, Some(second.id), "the exact name wins");
        let from = (root, "ÜBER.txt".as_bytes());
        volume.rename(&exact, from, (root, "other".as_bytes()), Rename::Replace).await.expect("renamed");
        let from = (root, "Über.TXT".as_bytes());
        volume.rename(&alike, from, (root, "über.txt".as_bytes()), Rename::NoReplace).await.expect("only its case");
        let names: Vec<_> = volume.list(&exact, root, 0, 9, false).await.expect("listed");
        let names: Vec<_> = names.into_iter().map(|entry| String::from_utf8(entry.name).expect("UTF-8")).collect();
        assert!(names.contains(&"über.txt".to_owned()) && names.len() == 2, "{names:?}");
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn files_that_are_gone_are_stale_and_those_without_names_live_while_they_are_open() {
    on_a_volume(|volume| async move {
        let (root, caller) = (volume.root(), user(0));
        let new = NewFile { kind: FileKind::Regular, mode: 0o600, target: b"" };
        let (facts, handle) = volume.create_unnamed(&caller, root, &new).await.expect("created");
        assert_eq!(facts.links, 0);
        volume.write(&handle, 0, IoSlice::padded(b"bytes"), 5).await.expect("written");
        assert_eq!(volume.scan().await, Ok(Vec::new()), "it is noted");
        volume.link(&caller, facts.id, root, b"named").await.expect("it gets a name");
        volume.close(handle).await.expect("closed");
        let handle = volume.open(&caller, facts.id, READING).await.expect("it stayed");
        volume.remove(&caller, root, b"named", Remove::File).await.expect("removed");
        let stat = volume.stat(facts.id).await.expect("it is open");
        assert_eq!((stat.links, stat.size_bytes), (0, 5));
        assert_eq!(volume.read(&handle, 0, 9).await.expect("read").to_vec(), b"bytes");
        volume.flush(facts.id, Flush::All).await.expect("flushed");
        volume.close(handle).await.expect("closed");
        assert_eq!(kind(volume.stat(facts.id).await), Some(ErrorKind::Stale));
        assert_eq!(kind(volume.open(&caller, facts.id, READING).await), Some(ErrorKind::Stale));
        let other = FileId { generation: 2, ..root };
        assert_eq!(kind(volume.stat(other).await), Some(ErrorKind::Stale), "another generation");
        assert_eq!(volume.usage(volume.root()).await.map(|usage| usage.files), Ok(1));
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn a_volume_grows_while_files_are_in_use_and_is_found_whole_wherever_power_fails() {
    for cut in 0..40 {
        let sim = Sim::new(7);
        let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 24 << 20, ..SimDiskSpec::default() });
        let clock: WallClock = Arc::new(|| Time { seconds: 1000, nanos: 0 });
        let (device, clocked): (Arc<dyn Device>, _) = (disk.clone(), clock.clone());
        let prepared = sim.run(async move {
            let store = Format { volume: Uuid::from_u128(3), log_bytes: None };
            let format = VolumeFormat { store, secret: [4; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: true };
            Volume::format(&device, format, Time::default()).await.expect("formatted");
            let volume = Volume::open(device, Settings::default(), clocked).await.expect("opened");
            create(&volume, &user(0), volume.root(), "file", FileKind::Regular, 0o644).await;
            assert_eq!(kind(volume.grow(32 << 20).await), Some(ErrorKind::Invalid), "the device has no more");
            assert_eq!(volume.grow(24 << 20).await, Ok(false));
            volume.sync().await.expect("it lasts");
        });
        prepared.expect("powered");
        disk.grow(48 << 20);
        sim.cut_power_after(cut);
        let (device, clocked): (Arc<dyn Device>, _) = (disk.clone(), clock.clone());
        let _ = sim.run(async move {
            let volume = Volume::open(device, Settings::default(), clocked).await.expect("opened");
            assert_eq!(volume.grow(48 << 20).await, Ok(true));
            assert!(volume.usage(volume.root()).await.expect("known").total_bytes > 40 << 20);
            let file = volume.lookup(&user(0), volume.root(), b"file").await.expect("looked up").expect("it is there");
            let handle = volume.open(&user(0), file.id, WRITING).await.expect("opened");
            for at in 0..30 {
                let data = IoSlice::padded(&vec![7; 1 << 20]);
                volume.write(&handle, at << 20, data, 1 << 20).await.expect("there is room now");
            }
            volume.close(handle).await.expect("closed");
            assert_eq!(volume.scan().await, Ok(Vec::new()));
        });
        sim.restart();
        let (device, clocked): (Arc<dyn Device>, _) = (disk.clone(), clock.clone());
        let found = sim.run(async move {
            let volume = Volume::open(device, Settings::default(), clocked).await.expect("opened");
            let alike = Caller { ignores_case: true, ..user(0) };
            assert_eq!(volume.lookup(&alike, volume.root(), b"FILE").await, Ok(None), "cases differ on this volume");
            assert_eq!(volume.scan().await, Ok(Vec::new()));
            assert!([24 << 20, 48 << 20].contains(&volume.size_bytes()));
        });
        found.expect("powered");
    }
}

#[test]
fn a_scan_that_is_to_end_early_ends_and_a_volume_that_is_closed_writes_nothing_more() {
    on_a_volume(|volume| async move {
        let (root, caller) = (volume.root(), user(0));
        create(&volume, &caller, root, "file", FileKind::Regular, 0o644).await;
        volume.interrupt(true);
        assert_eq!(kind(volume.scan().await), Some(ErrorKind::Busy));
        assert_eq!(kind(volume.spotfix().await), Some(ErrorKind::Busy));
        volume.interrupt(false);
        assert_eq!(volume.scan().await, Ok(Vec::new()), "what was cut short left nothing behind");
        volume.shut_down().await.expect("closed");
        let new = NewFile { kind: FileKind::Regular, mode: 0o600, target: b"" };
        assert_eq!(kind(volume.create(&caller, root, b"late", &new).await), Some(ErrorKind::ReadOnly));
        assert_eq!(kind(volume.checkpoint().await), Some(ErrorKind::ReadOnly));
    });
}

#[test]
fn a_full_volume_gives_up_files_in_many_pieces_and_opens_again() {
    for size in [16 << 20, 24 << 20, 64 << 20] {
        let sim = Sim::new(3);
        let disk: Arc<dyn Device> = SimDisk::new(&sim, SimDiskSpec { size_bytes: size, ..SimDiskSpec::default() });
        let ran = sim.run(async move {
            let store = Format { volume: Uuid::from_u128(3), log_bytes: None };
            let format = VolumeFormat { store, secret: [4; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: false };
            Volume::format(&disk, format, Time::default()).await.expect("formatted");
            let clock: WallClock = Arc::new(|| Time { seconds: 1000, nanos: 0 });
            let volume = Volume::open(disk.clone(), Settings::default(), clock.clone()).await.expect("opened");
            let (root, caller) = (volume.root(), user(0));
            for (name, pieces) in [("few", 20), ("some", 23), ("many", 300)] {
                let id = create(&volume, &caller, root, name, FileKind::Regular, 0o644).await.id;
                let handle = volume.open(&caller, id, WRITING).await.expect("opened");
                for piece in 0..pieces {
                    let data = IoSlice::padded(&[9; 4096]);
                    volume.write(&handle, piece * 12_288, data, 4096).await.expect("there is room");
                }
                volume.close(handle).await.expect("closed");
            }
            // Whatever takes nodes only, then whatever takes blocks.
            let mut number = 0;
            let full = loop {
                let new = NewFile { kind: FileKind::Symlink, mode: 0o777, target: &[b't'; 4000] };
                match volume.create(&caller, root, format!("link {number}").as_bytes(), &new).await {
                    Ok(_) => number += 1,
                    Err(error) => break error,
                }
            };
            assert_eq!(full.kind, ErrorKind::NoSpace);
            let id = volume.lookup(&caller, root, b"many").await.expect("looked up").expect("it is there").id;
            let cut = SetAttributes { size_bytes: Some(0), ..SetAttributes::default() };
            volume.set(&caller, id, &cut).await.expect("cut");
            for name in ["some", "few", "many"] {
                volume.remove(&caller, root, name.as_bytes(), Remove::File).await.expect("removal needs no room");
            }
            assert_eq!(volume.scan().await, Ok(Vec::new()));
            drop(volume);
            let volume = Volume::open(disk, Settings::default(), clock).await.expect("opened again");
            for number in 0..number {
                let name = format!("link {number}");
                volume.remove(&caller, root, name.as_bytes(), Remove::File).await.expect("removal needs no room");
            }
            assert_eq!(volume.usage(volume.root()).await.map(|usage| usage.files), Ok(1));
            assert_eq!(volume.scan().await, Ok(Vec::new()));
        });
        ran.expect("powered");
    }
}

#[test]
fn a_damaged_bitmap_of_nodes_lets_no_node_be_overwritten() {
    for slot in 0..2u64 {
        let sim = Sim::new(3);
        let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
        let device: Arc<dyn Device> = disk.clone();
        let ran = sim.run(async move {
            let store = Format { volume: Uuid::from_u128(3), log_bytes: None };
            let format = VolumeFormat { store, secret: [4; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: false };
            Volume::format(&device, format, Time::default()).await.expect("formatted");
            let clock: WallClock = Arc::new(|| Time { seconds: 1000, nanos: 0 });
            let caller = user(0);
            let fill = async |volume: &Volume, from: u32, to: u32| {
                for number in from..to {
                    create(volume, &caller, volume.root(), &format!("f{number}"), FileKind::Regular, 0o644).await;
                    if number % 100 == 0 {
                        volume.checkpoint().await.expect("it lasts");
                    }
                }
            };
            let volume = Volume::open(device.clone(), Settings::default(), clock.clone()).await.expect("opened");
            fill(&volume, 0, 1000).await;
            volume.checkpoint().await.expect("it lasts");
            drop(volume);
            // The first zone is one of nodes: its slots lie behind the log.
            let first = (2 << 16) + (1 << 20) + slot * (16 << 10);
            disk.poke(first, &[0x5a; 16 << 10]);
            let volume = Volume::open(device, Settings::default(), clock).await.expect("opened");
            fill(&volume, 1000, 3000).await;
            volume.checkpoint().await.expect("it lasts");
            let left = volume.spotfix().await.expect("it goes through").left;
            assert_eq!(left, Vec::new(), "no node is lost");
            assert_eq!(volume.list(&caller, volume.root(), 0, 9999, true).await.expect("listed").len(), 3000);
        });
        ran.expect("powered");
    }
}

#[test]
fn room_that_was_set_aside_shows_in_attributes_and_reads_as_zeros() {
    on_a_volume(|volume| async move {
        let file = create(&volume, &user(0), volume.root(), "file", FileKind::Regular, 0o644).await.id;
        let handle = volume.open(&user(0), file, WRITING).await.expect("opened");
        let sizes = async || {
            let facts = volume.stat(file).await.expect("it is there");
            (facts.size_bytes, facts.allocated_bytes)
        };
        let reserve = |keep_size| holdfast_volume::service::Allocate::Reserve { keep_size };
        volume.allocate(&handle, 0, 40_000, reserve(true)).await.expect("there is room");
        assert_eq!(sizes().await, (0, 40_960), "whole blocks, whatever its length");
        assert!(volume.read(&handle, 0, 9999).await.expect("read").is_empty(), "it ends where it did");
        volume.write(&handle, 8190, IoSlice::padded(b"data"), 4).await.expect("written");
        assert_eq!(sizes().await, (8194, 40_960), "data goes to the room that it has");
        let read = volume.read(&handle, 0, 9999).await.expect("read").to_vec();
        assert!(read.len() == 8194 && read[..8190].iter().all(|byte| *byte == 0) && read[8190..] == *b"data");
        let grown = SetAttributes { size_bytes: Some(30_000), ..SetAttributes::default() };
        volume.set(&user(0), file, &grown).await.expect("grown");
        assert_eq!(sizes().await, (30_000, 40_960));
        let read = volume.read(&handle, 8194, 99_999).await.expect("read").to_vec();
        assert!(read.len() == 30_000 - 8194 && read.iter().all(|byte| *byte == 0), "behind what was written");
        volume.allocate(&handle, 40_960, 100_000, reserve(false)).await.expect("there is room");
        assert_eq!(sizes().await, (140_960, 143_360));
        let cut = SetAttributes { size_bytes: Some(5000), ..SetAttributes::default() };
        volume.set(&user(0), file, &cut).await.expect("cut");
        assert_eq!(sizes().await, (5000, 8192), "what was set aside behind its end is given back");
        volume.close(handle).await.expect("closed");
    });
}
