//! The life of a mount: its beginning, its ends, and what comes after.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};

use holdfast_fuse::{FuseError, Holder, MountSettings};
use holdfast_harness::wait_until;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::support::{Memory, Scene, names, try_stat};

/// What was asked just before the end is aborted.
fn not_connected<T>(outcome: std::io::Result<T>) -> bool {
    outcome.is_err_and(|error| matches!(Errno::from_io_error(&error), Some(Errno::NOTCONN | Errno::CONNABORTED)))
}

#[test]
fn a_mount_that_its_user_unmounts_has_ended() {
    let Some(mut scene) = Scene::new() else { return };
    fs::write(scene.path("file"), b"kept").expect("written");
    let mounted = scene.take();
    rustix::mount::unmount(scene.directory(), UnmountFlags::empty()).expect("unmounted");
    scene.wait_for_end(&mounted);
    assert_eq!((names(&scene.directory()).len(), scene.service.counts()), (0, (2, 0)));
    scene.stop(mounted).expect("there is nothing to do");
    scene.mount_with(MountSettings::default()).expect("mounted again");
    assert_eq!(fs::read(scene.path("file")).expect("read"), b"kept");
}

#[test]
fn a_mount_in_use_is_taken_away_with_what_was_written() {
    let Some(mut scene) = Scene::new() else { return };
    let mut file = File::create(scene.path("file")).expect("created");
    file.write_all(b"written").expect("written");
    let inside = File::open(scene.directory()).expect("opened");
    let mounted = scene.take();
    scene.stop(mounted).expect("stopped");
    assert_eq!(names(&scene.directory()), Vec::<Vec<u8>>::new(), "nothing is mounted");
    assert!(file.write_all(b"more").is_err() && rustix::fs::fstatvfs(&inside).is_err());
    assert_eq!(scene.service.counts(), (2, 0), "its files are closed");
    drop((file, inside));
    scene.mount_with(MountSettings::default()).expect("mounted again");
    assert_eq!(fs::read(scene.path("file")).expect("read"), b"written");
}

#[test]
fn a_mount_in_use_stays_and_its_users_are_named() {
    let Some(mut scene) = Scene::new() else { return };
    let file = File::create(scene.path("file")).expect("created");
    let refused = scene.unmount().expect_err("a file is open");
    let FuseError::InUse { holders, .. } = &refused else { panic!("{refused}") };
    let own = |holder: &Holder| matches!(holder, Holder::Process { pid, path, .. } if *pid == std::process::id() && *path == scene.path("file"));
    assert!(holders.iter().any(own), "{refused}");
    drop(file);
    let mut stands =
        std::process::Command::new("sleep").arg("100").current_dir(scene.directory()).spawn().expect("begun");
    let refused = scene.unmount().expect_err("a program stands in it").to_string();
    assert!(refused.contains(&format!("sleep (pid {}", stands.id())), "{refused}");
    fs::write(scene.path("more"), b"written").expect("it is served on");
    stands.kill().and_then(|()| stands.wait()).expect("ended");
    scene.unmount().expect("nobody uses it");
    assert_eq!(names(&scene.directory()), Vec::<Vec<u8>>::new(), "nothing is mounted");
    scene.unmount().expect("once more");
}

/// What a server does when its process ends.
fn die(scene: &mut Scene) {
    let mounted = scene.take();
    let ended = mounted.ended();
    drop(mounted);
    wait_until("it has ended", || ended.raised());
}

#[test]
fn a_mount_whose_server_died_is_cleared_away_by_the_next() {
    let Some(mut scene) = Scene::new() else { return };
    fs::write(scene.path("file"), b"kept").expect("written");
    let open = File::open(scene.path("file")).expect("opened");
    die(&mut scene);
    assert!(not_connected(fs::read(scene.path("file"))) && not_connected(open.sync_all()));
    for _ in 0..2 {
        scene.mount_with(MountSettings::default()).expect("mounted over it");
        assert_eq!(fs::read(scene.path("file")).expect("read"), b"kept");
        die(&mut scene);
    }
    scene.mount_with(MountSettings::default()).expect("mounted over it");
}

#[test]
fn a_directory_is_mounted_once() {
    let Some(scene) = Scene::new() else { return };
    let again = scene.try_mount(&scene.directory(), MountSettings::default()).expect_err("it is taken");
    assert!(matches!(&again, FuseError::AlreadyMounted { source_name, .. } if source_name == "holdfast"), "{again}");
    assert_eq!(names(&scene.directory()), Vec::<Vec<u8>>::new(), "the first goes on");
    let absent = scene.try_mount(&scene.path("absent"), MountSettings::default()).expect_err("it is not there");
    assert!(matches!(absent, FuseError::NoDirectory(_)), "{absent}");
}

#[test]
fn a_mount_shows_its_source_and_may_be_read_only() {
    let settings = MountSettings { source: "tank/files".into(), read_only: true, ..MountSettings::default() };
    let Some(scene) = Scene::with(Memory::new(), settings) else { return };
    assert_eq!(fs::write(scene.path("file"), b"").expect_err("refused").kind(), ErrorKind::ReadOnlyFilesystem);
    let table = fs::read_to_string("/proc/self/mountinfo").expect("the table of mounts");
    let line = table.lines().find(|line| line.contains(scene.directory().to_str().expect("text")));
    assert!(line.expect("a line").contains(" - fuse.holdfast tank/files ro,"), "{line:?}");
}

#[test]
fn a_slow_request_holds_no_other_and_may_be_given_up() {
    let Some(scene) = Scene::with(Memory::with_held_reads(), MountSettings::default()) else { return };
    fs::write(scene.path("slow"), b"content").expect("written");
    let path = scene.path("slow");
    let reading = std::thread::spawn(move || fs::read(path).expect("read"));
    wait_until("it is read", || scene.mounted().stats().count("read") > 0);
    // It waits for what is being read already: who asked for that waits for the answer, as for a disk.
    let mut child = std::process::Command::new("cat");
    let mut child = child.arg(scene.path("slow")).stdout(std::process::Stdio::null()).spawn().expect("cat runs");
    for number in 0..300 {
        fs::write(scene.path(&format!("{number}")), b"quick").expect("written");
    }
    assert!(!reading.is_finished());
    child.kill().expect("killed");
    child.wait().expect("it ended while the read is under way");
    scene.service.reads.raise();
    assert_eq!(reading.join().expect("it read"), b"content");
}

#[test]
fn what_changes_by_another_way_is_told() {
    use holdfast_volume::service::{Caller, FileService, OpenMode};
    let Some(scene) = Scene::new() else { return };
    fs::write(scene.path("file"), b"before").expect("written");
    assert_eq!(fs::read(scene.path("file")).expect("read"), b"before");
    assert_eq!(try_stat(&scene.path("other")).err(), Some(Errno::NOENT));
    let (service, root) = (scene.service.clone(), scene.service.root());
    let changing = crate::support::start_reactor("other way");
    let changed = changing.call(move || async move {
        let caller = Caller { is_checked: true, ..Caller::default() };
        let file = service.lookup(&caller, root, b"file").await.expect("looked up").expect("it is there");
        let mode = OpenMode { read: true, write: true, truncate: false };
        let handle = service.open(&caller, file.id, mode).await.expect("opened");
        let data = holdfast_device::IoSlice::padded(b"after!");
        service.write(&handle, 0, data, 6).await.expect("written");
        service.close(handle).await.expect("closed");
        service.link(&caller, file.id, root, b"other").await.expect("linked");
        file.id
    });
    let changed = changed.wait().expect("it ran");
    changing.stop();
    assert_eq!(fs::read(scene.path("file")).expect("read"), b"before", "the kernel keeps what it knows");
    assert_eq!(try_stat(&scene.path("other")).err(), Some(Errno::NOENT));
    let notifier = scene.mounted().notifier();
    notifier.file_changed(changed);
    notifier.name_changed(root, b"other");
    assert_eq!(fs::read(scene.path("file")).expect("read"), b"after!");
    assert_eq!(fs::read(scene.path("other")).expect("read"), b"after!");
}

#[test]
fn the_kernel_may_keep_writes_where_that_is_wished() {
    let settings = MountSettings { writeback_cache: true, ..MountSettings::default() };
    let Some(scene) = Scene::with(Memory::new(), settings) else { return };
    let mut file = File::create(scene.path("file")).expect("created");
    for number in 0..1000 {
        writeln!(file, "line {number}").expect("written");
    }
    assert!(scene.mounted().stats().count("write") < 20, "small writes are gathered");
    file.sync_all().expect("synced");
    let mut text = String::new();
    File::open(scene.path("file")).expect("opened").read_to_string(&mut text).expect("read");
    assert_eq!(text.lines().count(), 1000);
    let written = scene.mounted().stats().written_bytes;
    assert!(written >= text.len() as u64, "{written}");
}
