//! Open files: their bytes, their holes and the room that they take.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::atomic::Ordering;

use holdfast_device::file::{FileDevice, FileOptions};
use holdfast_device::{Device, Durability, IoBuf};
use holdfast_fuse::MountSettings;
use holdfast_harness::wait_until;
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, SeekFrom as Place};
use rustix::io::{Errno, ReadWriteFlags};

use crate::support::{Memory, Scene, names, pattern, start_reactor, stat};

const PAGE: usize = 4096;

fn both(scene: &Scene, name: &str) -> File {
    let path = scene.path(name);
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).expect("opened")
}

#[test]
fn what_is_written_is_read_at_any_place_and_size() {
    let Some(scene) = Scene::new() else { return };
    let file = both(&scene, "file");
    let mut model = vec![0; 5 << 20];
    for (number, (at, len)) in
        [(0, 1), (4095, 2), (1 << 20, 3 << 20), (77, 100_000), ((4 << 20) - 5, 700_001)].into_iter().enumerate()
    {
        let bytes = pattern(len, number as u64);
        file.write_all_at(&bytes, at as u64).expect("written");
        model[at..at + len].copy_from_slice(&bytes);
    }
    model.truncate((4 << 20) - 5 + 700_001);
    assert_eq!(file.metadata().expect("facts").len(), model.len() as u64);
    assert!(fs::read(scene.path("file")).expect("read") == model);
    // Also without what the kernel keeps.
    let direct = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(scene.path("file"));
    let mut read = vec![0; model.len()];
    direct.expect("opened").read_exact_at(&mut read, 0).expect("read");
    assert!(read == model);
    let stats = scene.mounted().stats();
    assert!(stats.written_bytes >= 3_800_000 && stats.read_bytes >= model.len() as u64, "{stats:?}");
}

/// The kernel drops what it keeps before it sends a direct write, not after one that is asynchronous.
#[test]
fn what_is_read_while_a_direct_write_is_under_way_is_not_kept() {
    let Some(scene) = Scene::with(Memory::with_held_writes(), MountSettings::default()) else { return };
    let path = scene.path("file");
    File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("made");
    let first = |file: &File| {
        let mut byte = [9];
        file.read_exact_at(&mut byte, 0).expect("read");
        byte[0]
    };
    assert_eq!(first(&File::open(&path).expect("opened")), 0, "the kernel keeps that");
    let device = FileDevice::open(&path, FileOptions::default()).expect("opened");
    let during = File::open(&path).expect("opened");
    let writer = start_reactor("direct");
    let writing = writer.call({
        let device = device.clone();
        move || async move {
            let mut data = IoBuf::zeroed(64 << 10);
            data.fill(7);
            device.write(0, data.freeze(), Durability::Cached).await
        }
    });
    wait_until("it is written", || scene.mounted().stats().count("write") > 0);
    assert_eq!(first(&during), 0, "nothing is written yet");
    scene.service.writes.raise();
    writing.wait().expect("the reactor runs").expect("written");
    assert_eq!(first(&during), 7);
    assert_eq!(first(&File::open(&path).expect("opened")), 7, "while it is open for direct writes");
    drop(device);
    assert_eq!(first(&File::open(&path).expect("opened")), 7, "and once it is not");
}

/// The kernel asks for a durable file after a write that goes through its cache only.
#[test]
fn synchronous_writes_are_durable_also_past_the_cache() {
    let Some(scene) = Scene::new() else { return };
    let path = scene.path("file");
    let flushed = || [0, 1].map(|kind: usize| scene.service.flushed[kind].load(Ordering::Relaxed));
    let write = |flags: OFlags, at: u64| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::DIRECT | flags;
        let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).expect("opened");
        let data = IoBuf::zeroed(PAGE);
        assert_eq!(rustix::io::pwrite(&file, &data, at), Ok(PAGE));
    };
    write(OFlags::empty(), 0);
    assert_eq!(flushed(), [0, 0]);
    // rustix calls `O_SYNC` so.
    write(OFlags::from_bits_retain(0o10000), 0);
    assert_eq!(flushed(), [0, 1]);
    write(OFlags::SYNC, 1 << 20);
    assert_eq!(flushed(), [1, 1]);
    let file = OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(&path).expect("opened");
    let data = IoBuf::zeroed(PAGE);
    let written = rustix::io::pwritev2(&file, &[std::io::IoSlice::new(&data)], 0, ReadWriteFlags::DSYNC);
    assert_eq!((written, flushed()), (Ok(PAGE), [1, 2]), "also if the one call asks for it");
}

#[test]
fn appended_and_truncated_files_have_their_length() {
    let Some(scene) = Scene::new() else { return };
    let mut first = OpenOptions::new().append(true).create(true).open(scene.path("log")).expect("opened");
    let mut second = OpenOptions::new().append(true).open(scene.path("log")).expect("opened");
    for number in 0..50 {
        writeln!(first, "first {number}").expect("written");
        writeln!(second, "second {number}").expect("written");
    }
    let text = fs::read_to_string(scene.path("log")).expect("read");
    let expected: String = (0..50).map(|number| format!("first {number}\nsecond {number}\n")).collect();
    assert_eq!(text, expected);
    first.set_len(5).expect("cut");
    first.set_len(9).expect("grown");
    assert_eq!(fs::read(scene.path("log")).expect("read"), b"first\0\0\0\0");
    let cut = OpenOptions::new().write(true).truncate(true).open(scene.path("log")).expect("opened");
    assert_eq!(cut.metadata().expect("facts").len(), 0);
}

#[test]
fn holes_are_found_made_and_filled() {
    let Some(scene) = Scene::new() else { return };
    let file = both(&scene, "sparse");
    file.write_all_at(&pattern(PAGE, 1), 10 * PAGE as u64).expect("written");
    file.set_len(20 * PAGE as u64).expect("grown");
    let seek = |place: Place| rustix::fs::seek(&file, place);
    let at = |page: u64| page * PAGE as u64;
    assert_eq!((seek(Place::Data(0)), seek(Place::Hole(0))), (Ok(at(10)), Ok(0)));
    assert_eq!((seek(Place::Hole(at(10))), seek(Place::Data(at(11)))), (Ok(at(11)), Err(Errno::NXIO)));
    assert_eq!(seek(Place::Hole(at(20))), Err(Errno::NXIO));

    let allocate = |mode: FallocateFlags, from: u64, len: u64| rustix::fs::fallocate(&file, mode, from, len);
    let blocks = || file.metadata().expect("facts").blocks();
    let (keep, punch, zero) = (FallocateFlags::KEEP_SIZE, FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE);
    assert_eq!(blocks(), 8);
    allocate(FallocateFlags::empty(), at(19), at(2)).expect("allocated");
    assert_eq!((file.metadata().expect("facts").len(), blocks()), (at(21), 24));
    allocate(keep, at(30), at(1)).expect("allocated");
    assert_eq!((file.metadata().expect("facts").len(), blocks()), (at(21), 32));
    allocate(punch | keep, at(10) + 100, 1000).expect("punched");
    let mut expected = pattern(PAGE, 1);
    expected[100..1100].fill(0);
    let mut read = vec![1; PAGE];
    file.read_exact_at(&mut read, at(10)).expect("read");
    assert!(read == expected, "a part of a page");
    allocate(punch | keep, 0, at(40)).expect("punched");
    // Who has it open for writing may have data for it in mapped memory: it is never told as empty then.
    assert_eq!((file.metadata().expect("facts").len(), blocks(), seek(Place::Data(0))), (at(21), 1, Err(Errno::NXIO)));
    file.write_all_at(&pattern(3 * PAGE, 2), 0).expect("written");
    allocate(zero, at(2), at(30)).expect("zeroed");
    assert_eq!(file.metadata().expect("facts").len(), at(32));
    file.read_exact_at(&mut read, at(2)).expect("read");
    assert!(read.iter().all(|byte| *byte == 0));
    assert_eq!(allocate(FallocateFlags::COLLAPSE_RANGE, 0, at(1)), Err(Errno::OPNOTSUPP));
    assert_eq!(allocate(FallocateFlags::empty(), 0, 1 << 50), Err(Errno::NOSPC));
}

#[test]
fn ranges_are_copied_by_the_service() {
    let Some(scene) = Scene::new() else { return };
    let bytes = pattern(300_000, 3);
    fs::write(scene.path("from"), &bytes).expect("written");
    let (from, to) = (File::open(scene.path("from")).expect("opened"), both(&scene, "to"));
    let (mut at, mut written, mut left) = (1000, 50, bytes.len() - 1000);
    while left > 0 {
        let copied = rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut written), left).expect("copied");
        assert!(copied > 0);
        left -= copied;
    }
    let read = fs::read(scene.path("to")).expect("read");
    assert!(read.len() == 50 + bytes.len() - 1000 && read[50..] == bytes[1000..]);
    let stats = scene.mounted().stats();
    let asked = stats.count("copy_file_range") + stats.count("copy_file_range_64");
    assert!(asked > 0 && stats.written_bytes == bytes.len() as u64, "{stats:?}");
    let beyond = rustix::fs::copy_file_range(&from, Some(&mut 300_000), &to, Some(&mut 0), 10);
    assert_eq!(beyond, Ok(0));
}

#[test]
fn a_file_without_a_name_lives_as_long_as_it_is_open() {
    let Some(scene) = Scene::new() else { return };
    let mut file = both(&scene, "gone");
    file.write_all(b"still here").expect("written");
    fs::remove_file(scene.path("gone")).expect("removed");
    assert_eq!(names(&scene.directory()), Vec::<Vec<u8>>::new());
    file.seek(SeekFrom::Start(0)).expect("sought");
    let mut text = String::new();
    file.read_to_string(&mut text).expect("read");
    assert_eq!(text, "still here");
    file.write_all(b", and grows").expect("written");
    let found = file.metadata().expect("facts");
    assert_eq!((found.nlink(), found.len()), (0, 21));
    // Its number may be another's meanwhile.
    for number in 0..20 {
        fs::write(scene.path(&format!("new {number}")), b"new").expect("written");
    }
    let mut bytes = [0; 5];
    file.read_exact_at(&mut bytes, 0).expect("read");
    assert_eq!((&bytes, scene.service.counts().0), (b"still", 22));
}

#[test]
fn a_file_that_begins_without_a_name_may_get_one() {
    let Some(scene) = Scene::new() else { return };
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let file = rustix::fs::open(scene.directory(), flags, Mode::from(0o600)).expect("opened");
    rustix::io::write(&file, b"made whole").expect("written");
    assert_eq!(names(&scene.directory()), Vec::<Vec<u8>>::new());
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, &own, CWD, scene.path("named"), AtFlags::SYMLINK_FOLLOW).expect("linked");
    assert_eq!(fs::read(scene.path("named")).expect("read"), b"made whole");
    assert_eq!(stat(&scene.path("named")).stx_nlink, 1);
    let never = rustix::fs::open(scene.directory(), flags, Mode::from(0o600)).expect("opened");
    rustix::io::write(&never, b"never seen").expect("written");
    drop(never);
    assert_eq!(names(&scene.directory()), [b"named"]);
}

#[test]
fn direct_writes_go_by_what_the_kernel_keeps() {
    let Some(scene) = Scene::new() else { return };
    fs::write(scene.path("file"), vec![1; 4 * PAGE]).expect("written");
    assert_eq!(fs::read(scene.path("file")).expect("read"), vec![1; 4 * PAGE]);
    let direct = OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(scene.path("file"));
    direct.expect("opened").write_all_at(&vec![2; PAGE], PAGE as u64).expect("written");
    let read = fs::read(scene.path("file")).expect("read");
    assert!(read[..PAGE] == [1; PAGE] && read[PAGE..2 * PAGE] == [2; PAGE] && read[2 * PAGE..] == [1; 2 * PAGE]);
}

#[test]
fn files_are_made_durable() {
    let Some(scene) = Scene::new() else { return };
    let file = both(&scene, "file");
    file.write_all_at(b"kept", 0).expect("written");
    file.sync_all().expect("synced");
    file.sync_data().expect("synced");
    File::open(scene.directory()).expect("opened").sync_all().expect("synced");
    let stats = scene.mounted().stats();
    assert_eq!((stats.count("fsync"), stats.count("fsyncdir")), (2, 1));
}
