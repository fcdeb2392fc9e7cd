//! Files and block devices against the real kernel: tmpfs, the file system of the temporary directory, a loop device.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::{join_all, poll_immediate};

use super::*;
use crate::reactor::{ReactorSettings, block_on, start};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// A file that is removed at the end of its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(directory: impl AsRef<Path>, size: u64) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = directory.as_ref().join(format!("holdfast-file-{}-{number}", std::process::id()));
        create(&path, size).expect("created");
        Self(path)
    }

    fn open(&self) -> Arc<FileDevice> {
        FileDevice::open(&self.0, FileOptions::default()).expect("opened")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn directories() -> [PathBuf; 2] {
    [std::env::temp_dir(), PathBuf::from("/dev/shm")]
}

fn run<F: Future>(future: F) -> F::Output {
    block_on(ReactorSettings::default(), future).expect("a reactor")
}

fn pattern(seed: u64, len: u64) -> IoBuf {
    let mut buf = IoBuf::new(len as usize);
    for (at, chunk) in buf.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at as u64).to_le_bytes());
    }
    buf
}

async fn write(device: &FileDevice, offset: u64, data: IoBuf, durability: Durability) {
    device.write(offset, data.freeze(), durability).await.expect("written");
}

async fn read(device: &FileDevice, offset: u64, len: u64) -> IoBuf {
    device.read(offset, IoBuf::new(len as usize)).await.expect("read")
}

/// What every device must do, whatever lies below.
async fn exercise(device: Arc<FileDevice>) {
    write(&device, 0, pattern(1, 64 * KIB), Durability::Cached).await;
    write(&device, 64 * KIB, pattern(2, 4 * KIB), Durability::Durable).await;
    device.flush().await.expect("flushed");
    assert!(*read(&device, 0, 64 * KIB).await == *pattern(1, 64 * KIB));
    assert!(*read(&device, 64 * KIB, 4 * KIB).await == *pattern(2, 4 * KIB));
    let tasks = (0..200u64).map(|number| {
        let device = device.clone();
        crate::reactor::spawn_local(async move {
            let offset = MIB + number * 4 * KIB;
            write(&device, offset, pattern(number, 4 * KIB), Durability::Cached).await;
            assert!(*read(&device, offset, 4 * KIB).await == *pattern(number, 4 * KIB));
        })
    });
    join_all(tasks).await;
    assert_eq!(read(&device, MIB, 0).await.len(), 0);
    let mut odd = IoBuf::new(12 * KIB as usize);
    drop(odd.split_to(512));
    odd.truncate(4 * KIB as usize);
    odd.copy_from_slice(&pattern(9, 4 * KIB));
    write(&device, 0, odd, Durability::Cached).await;
    let mut odd = IoBuf::new(12 * KIB as usize);
    drop(odd.split_to(512));
    odd.truncate(4 * KIB as usize);
    assert!(*device.read(0, odd).await.expect("read") == *pattern(9, 4 * KIB));

    let size = device.geometry().size_bytes;
    for (offset, len) in [(512, 4096), (0, 512), (size, 4096), (size - 4096, 8192), (u64::MAX - 4095, 4096)] {
        let before = device.counters();
        let failed = device.read(offset, IoBuf::new(len)).await.expect_err("out of range");
        assert_eq!(failed.kind, IoErrorKind::Invalid, "{failed}");
        let failed =
            device.write(offset, IoBuf::new(len).freeze(), Durability::Cached).await.expect_err("out of range");
        assert_eq!(failed.kind, IoErrorKind::Invalid, "{failed}");
        let failed = device.discard(offset, len as u64).await.expect_err("out of range");
        assert_eq!(failed.kind, IoErrorKind::Invalid, "{failed}");
        assert_eq!(device.counters(), before);
    }
    device.discard(0, MIB).await.expect("discarded");
    device.discard(0, 0).await.expect("nothing to do");
    if !device.inner.is_block_device && device.geometry().discard {
        assert!(read(&device, 0, 64 * KIB).await.iter().all(|byte| *byte == 0));
    }
    assert!(*read(&device, MIB, 4 * KIB).await == *pattern(0, 4 * KIB));
    let counters = device.counters();
    assert_eq!((counters.writes, counters.flushes, counters.errors), (203, 1, 0));
    assert_eq!(counters.written_bytes, 203 * 4 * KIB + 60 * KIB);
    assert!(device.still_there());
}

#[test]
fn files_work_wherever_they_lie() {
    for directory in directories() {
        let scratch = Scratch::new(&directory, 8 * MIB);
        let device = scratch.open();
        if directory.starts_with("/dev/shm") {
            assert_eq!(device.mode(), AccessMode::Memory);
        }
        run(exercise(device));
    }
}

#[test]
fn files_work_through_the_page_cache() {
    for directory in directories() {
        let scratch = Scratch::new(&directory, 8 * MIB);
        let options = FileOptions { force_buffered: true, queue_depth: 3, ..FileOptions::default() };
        let device = FileDevice::open(&scratch.0, options).expect("opened");
        assert_eq!(device.mode(), AccessMode::Buffered);
        run(exercise(device));
    }
}

#[test]
fn files_work_without_a_reactor() {
    for directory in directories() {
        let scratch = Scratch::new(&directory, 8 * MIB);
        let device = scratch.open();
        let mut written = device.write(0, pattern(1, 8 * KIB).freeze(), Durability::Durable);
        assert!(matches!(&mut written, Io::Ready(Some(Ok(())))));
        assert!(matches!(device.flush(), Io::Ready(Some(Ok(())))));
        let Io::Ready(Some(Ok(buf))) = device.read(0, IoBuf::new(8192)) else { panic!("answered at once") };
        assert!(*buf == *pattern(1, 8 * KIB));
        assert!(matches!(device.discard(0, 4096), Io::Ready(Some(Ok(())))));
    }
}

#[test]
fn memory_is_answered_at_once() {
    let scratch = Scratch::new("/dev/shm", MIB);
    let device = scratch.open();
    run(async {
        assert!(matches!(device.write(0, pattern(1, 4096).freeze(), Durability::Durable), Io::Ready(Some(Ok(())))));
        assert!(matches!(device.read(0, IoBuf::new(4096)), Io::Ready(Some(Ok(_)))));
        assert!(matches!(device.flush(), Io::Ready(Some(Ok(())))));
    });
}

#[test]
fn dropped_requests_run_to_their_end() {
    for ring_entries in [2, 256] {
        let scratch = Scratch::new(std::env::temp_dir(), 8 * MIB);
        let options = FileOptions { queue_depth: 5, ..FileOptions::default() };
        let device = FileDevice::open(&scratch.0, options).expect("opened");
        let settings = ReactorSettings { ring_entries, ..ReactorSettings::default() };
        let used = device.clone();
        block_on(settings, async move {
            for number in 0..100 {
                let mut write = used.write(number * 4096, pattern(number, 4096).freeze(), Durability::Cached);
                if number % 2 == 0 {
                    let _ = poll_immediate(&mut write).await;
                }
                drop(write);
                drop(used.read(number * 4096, IoBuf::new(4096)));
            }
        })
        .expect("a reactor");
        assert_eq!((device.counters().writes, device.counters().reads), (100, 100));
        for number in 0..100 {
            let Io::Ready(Some(Ok(buf))) = device.read(number * 4096, IoBuf::new(4096)) else {
                panic!("answered at once")
            };
            assert!(*buf == *pattern(number, 4096), "write {number}");
        }
    }
}

#[test]
fn the_queue_depth_bounds_all_reactors_together() {
    let scratch = Scratch::new(std::env::temp_dir(), 8 * MIB);
    let options = FileOptions { queue_depth: 2, ..FileOptions::default() };
    let device = FileDevice::open(&scratch.0, options).expect("opened");
    let reactors: Vec<_> = (0..3).map(|_| start(ReactorSettings::default()).expect("a reactor")).collect();
    let calls: Vec<_> = (0..3u64)
        .map(|part| {
            let device = device.clone();
            reactors[part as usize].call(move || async move {
                let tasks = (0..300u64).map(|number| {
                    let device = device.clone();
                    crate::reactor::spawn_local(async move {
                        let offset = part * 2 * MIB + number * 4096;
                        write(&device, offset, pattern(part + number, 4096), Durability::Cached).await;
                        read(&device, offset, 4096).await
                    })
                });
                let answers = join_all(tasks).await;
                answers.iter().enumerate().all(|(number, buf)| **buf == *pattern(part + number as u64, 4096))
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.wait(), Ok(true));
    }
    for reactor in reactors {
        reactor.stop();
    }
    assert_eq!(device.counters().writes, 900);
}

#[test]
fn waiting_requests_outlive_a_reactor_that_stops() {
    let scratch = Scratch::new(std::env::temp_dir(), 8 * MIB);
    let options = FileOptions { queue_depth: 1, ..FileOptions::default() };
    let device = FileDevice::open(&scratch.0, options).expect("opened");
    let (stopping, staying) =
        (start(ReactorSettings::default()).expect("a"), start(ReactorSettings::default()).expect("b"));
    for reactor in [&stopping, &staying] {
        let device = device.clone();
        reactor.spawn(move || async move {
            for number in 0..100 {
                drop(device.write(number * 4096, pattern(number, 4096).freeze(), Durability::Durable));
            }
        });
    }
    stopping.stop();
    staying.stop();
    assert_eq!(device.counters().writes, 200);
}

#[test]
fn read_only_devices_refuse_changes() {
    let scratch = Scratch::new(std::env::temp_dir(), MIB);
    let device =
        FileDevice::open(&scratch.0, FileOptions { read_only: true, ..FileOptions::default() }).expect("opened");
    run(async {
        read(&device, 0, 4096).await;
        device.flush().await.expect("nothing to flush");
        let failed = device.write(0, IoBuf::new(4096).freeze(), Durability::Cached).await.expect_err("refused");
        assert_eq!(failed.kind, IoErrorKind::ReadOnly, "{failed}");
        assert_eq!(device.discard(0, 4096).await.expect_err("refused").kind, IoErrorKind::ReadOnly);
    });
}

#[test]
fn a_disk_is_opened_for_writing_once() {
    for directory in directories() {
        let scratch = Scratch::new(&directory, MIB);
        assert_eq!(probe(&scratch.0).expect("probed").in_use_by, None);
        let device = scratch.open();
        let refused = FileDevice::open(&scratch.0, FileOptions::default()).expect_err("in use");
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy, "{refused}");
        FileDevice::open(&scratch.0, FileOptions { read_only: true, ..FileOptions::default() }).expect("readers may");
        assert_eq!(probe(&scratch.0).expect("probed").in_use_by.as_deref(), Some("open for exclusive use"));
        drop(device);
        scratch.open();
    }
}

#[test]
fn files_that_change_underneath_are_noticed() {
    for directory in directories() {
        let scratch = Scratch::new(&directory, MIB);
        let device = scratch.open();
        assert!(device.still_there());
        let file = std::fs::OpenOptions::new().write(true).open(&scratch.0).expect("opened");
        file.set_len(2 * MIB).expect("grown");
        assert!(device.still_there());
        assert_eq!(device.geometry().size_bytes, 2 * MIB);
        file.set_len(MIB / 2).expect("cut");
        assert!(!device.still_there());
        run(async {
            let failed = device.read(MIB / 2 - 4096, IoBuf::new(8192)).await.expect_err("it ends before");
            assert_eq!(failed.kind, IoErrorKind::Media);
            assert!(failed.context.contains("ends before"), "{failed}");
        });
        assert_eq!(device.counters().errors, 1);
        drop(device);

        let device = scratch.open();
        let aside = scratch.0.with_extension("aside");
        std::fs::rename(&scratch.0, &aside).expect("renamed");
        assert!(!device.still_there());
        create(&scratch.0, MIB).expect("replaced");
        assert!(!device.still_there());
        std::fs::rename(&aside, &scratch.0).expect("back");
        assert!(device.still_there());
        std::fs::remove_file(&scratch.0).expect("deleted");
        assert!(!device.still_there());
    }
}

#[test]
fn errors_of_the_kernel_keep_their_kind() {
    let scratch = Scratch::new(std::env::temp_dir(), MIB);
    let device = scratch.open();
    let kinds = [
        (libc::ENOSPC, IoErrorKind::NoSpace),
        (libc::ENODEV, IoErrorKind::Gone),
        (libc::ENXIO, IoErrorKind::Gone),
        (libc::EIO, IoErrorKind::Media),
        (libc::EBADF, IoErrorKind::Gone),
        (libc::EROFS, IoErrorKind::ReadOnly),
        (libc::EINVAL, IoErrorKind::Invalid),
    ];
    for (number, kind) in kinds {
        assert_eq!(device.inner.error("read", 0, 4096, number).kind, kind);
    }
}

#[test]
fn a_full_file_system_is_said_so() {
    demand_root("mounts a file system");
    let place = std::env::temp_dir().join(format!("holdfast-full-{}", std::process::id()));
    std::fs::create_dir(&place).expect("a directory");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&place).status();
    assert!(mounted.is_ok_and(|status| status.success()), "no tmpfs can be mounted");
    for force_buffered in [false, true] {
        let scratch = Scratch::new(&place, 8 * MIB);
        let options = FileOptions { force_buffered, ..FileOptions::default() };
        let device = FileDevice::open(&scratch.0, options).expect("opened");
        run(async {
            let failed = device.write(0, IoBuf::zeroed(2 << 20).freeze(), Durability::Cached).await.expect_err("full");
            assert_eq!(failed.kind, IoErrorKind::NoSpace, "{failed}");
        });
    }
    assert!(Command::new("umount").arg(&place).status().expect("umount runs").success());
    std::fs::remove_dir(&place).expect("removed");
}

#[test]
fn bad_paths_and_sizes_are_refused() {
    let scratch = Scratch::new(std::env::temp_dir(), MIB);
    assert_eq!(create(&scratch.0, MIB).expect_err("it is there").kind(), io::ErrorKind::AlreadyExists);
    let other = scratch.0.with_extension("other");
    for size in [0, 512, MIB + 1, !4095] {
        assert!(create(&other, size).is_err());
        assert!(!other.exists(), "nothing is left of size {size}");
    }
    for path in ["/", "/dev/null", "/nonexistent"] {
        let refused = FileDevice::open(path, FileOptions::default()).expect_err("no disk");
        assert!(refused.to_string().contains(path), "{refused}");
        assert!(probe(path).is_err());
    }
    std::fs::write(&other, [0; 100]).expect("written");
    let refused = FileDevice::open(&other, FileOptions::default()).expect_err("too small");
    assert!(refused.to_string().contains("smaller than 4 KiB"), "{refused}");
    std::fs::write(&other, [0; 5000]).expect("written");
    assert_eq!(FileDevice::open(&other, FileOptions::default()).expect("opened").geometry().size_bytes, 4096);
    std::fs::remove_file(&other).expect("removed");
}

#[test]
fn probes_say_what_a_file_is() {
    for directory in directories() {
        let scratch = Scratch::new(&directory, MIB);
        let link = scratch.0.with_extension("link");
        std::os::unix::fs::symlink(&scratch.0, &link).expect("linked");
        let found = probe(&link).expect("probed");
        assert_eq!((&found.path, &found.real_path), (&link, &std::fs::canonicalize(&scratch.0).expect("a path")));
        assert_eq!((found.size_bytes, found.is_block_device), (MIB, false));
        assert_eq!(found.mode, scratch.open().mode());
        std::fs::remove_file(&link).expect("removed");
    }
}

#[test]
fn every_listed_disk_is_a_block_device() {
    for disk in list_block_devices().expect("listed") {
        assert!(disk.is_block_device && disk.size_bytes > 0 && disk.logical_sector_bytes >= 512, "{disk:?}");
    }
}

#[track_caller]
fn demand_root(why: &str) {
    // SAFETY: a system call without arguments.
    assert!(unsafe { libc::geteuid() == 0 }, "this test {why}: run it as root");
}

/// A loop device over a file, for as long as this lives.
struct Loop(String);

impl Loop {
    fn over(scratch: &Scratch) -> Self {
        demand_root("attaches a loop device");
        let losetup = Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(&scratch.0).output();
        let output = losetup.expect("losetup of util-linux can be run");
        assert!(output.status.success(), "no loop device: {}", String::from_utf8_lossy(&output.stderr));
        Self(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn block_devices_work() {
    let scratch = Scratch::new(std::env::temp_dir(), 8 * MIB);
    let disk = Loop::over(&scratch);
    let found = probe(&disk.0).expect("probed");
    assert_eq!((found.size_bytes, found.is_block_device, found.in_use_by.as_deref()), (8 * MIB, true, None));
    assert_eq!(found.mode, AccessMode::Direct);
    let below = probe(&scratch.0).expect("probed").in_use_by.expect("in use");
    assert!(below.starts_with("part of loop"), "{below}");
    assert!(list_block_devices().expect("listed").iter().any(|listed| listed.path == Path::new(&disk.0)));

    let device = FileDevice::open(&disk.0, FileOptions::default()).expect("opened");
    assert_eq!((device.mode(), device.geometry().discard), (AccessMode::Direct, found.discard));
    let refused = FileDevice::open(&disk.0, FileOptions::default()).expect_err("in use");
    assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy, "{refused}");
    assert!(probe(&disk.0).expect("probed").in_use_by.is_some());
    run(exercise(device));
}
