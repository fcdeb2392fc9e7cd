//! Names: made, found, changed and taken away.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

use holdfast_harness::wait_until;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::support::{Scene, names, stat, try_stat};

#[test]
fn every_kind_of_file_is_made_and_removed() {
    let Some(scene) = Scene::new() else { return };
    fs::write(scene.path("file"), b"content").expect("written");
    fs::create_dir(scene.path("directory")).expect("made");
    symlink("to/nowhere", scene.path("link")).expect("made");
    for (name, kind) in [("fifo", FileType::Fifo), ("socket", FileType::Socket)] {
        rustix::fs::mknodat(CWD, scene.path(name), kind, Mode::from(0o640), 0).expect("made");
    }
    let device = rustix::fs::makedev(1, 3);
    rustix::fs::mknodat(CWD, scene.path("null"), FileType::CharacterDevice, Mode::from(0o666), device).expect("made");
    let wide = rustix::fs::makedev(0x7ab, 0x4cdef);
    rustix::fs::mknodat(CWD, scene.path("disk"), FileType::BlockDevice, Mode::from(0o600), wide).expect("made");

    let kind = |name: &str| fs::symlink_metadata(scene.path(name)).expect("facts").file_type();
    assert!(kind("file").is_file() && kind("directory").is_dir() && kind("link").is_symlink());
    assert!(kind("fifo").is_fifo() && kind("socket").is_socket());
    assert!(kind("null").is_char_device() && kind("disk").is_block_device());
    assert_eq!(fs::symlink_metadata(scene.path("disk")).expect("facts").rdev(), wide);
    assert_eq!((stat(&scene.path("disk")).stx_rdev_major, stat(&scene.path("disk")).stx_rdev_minor), (0x7ab, 0x4cdef));
    assert_eq!(fs::read_link(scene.path("link")).expect("a path").to_str(), Some("to/nowhere"));
    assert_eq!(fs::read(scene.path("null")).expect("the device opens"), b"");
    assert_eq!(fs::metadata(scene.path("fifo")).expect("facts").permissions().mode() & 0o777, 0o640 & !umask());

    assert_eq!(fs::remove_dir(scene.path("file")).expect_err("a file").raw_os_error(), Some(20));
    assert_eq!(fs::remove_file(scene.path("directory")).expect_err("a directory").raw_os_error(), Some(21));
    fs::write(scene.path("directory/inner"), b"").expect("written");
    assert_eq!(fs::remove_dir(scene.path("directory")).expect_err("not empty").raw_os_error(), Some(39));
    fs::remove_file(scene.path("directory/inner")).expect("removed");
    fs::remove_dir(scene.path("directory")).expect("removed");
    for name in ["file", "link", "fifo", "socket", "null", "disk"] {
        fs::remove_file(scene.path(name)).expect("removed");
    }
    assert_eq!(names(&scene.directory()), Vec::<Vec<u8>>::new());
    // The kernel tells that a file was closed when it comes to it.
    wait_until("the root is left", || scene.service.counts().0 == 1);
}

#[test]
fn a_directory_that_is_open_is_known_when_it_is_gone() {
    let Some(scene) = Scene::new() else { return };
    for name in ["removed", "replaced", "other"] {
        fs::create_dir(scene.path(name)).expect("made");
    }
    let open = |name: &str| fs::File::open(scene.path(name)).expect("opened");
    let (removed, replaced) = (open("removed"), open("replaced"));
    let before = [&removed, &replaced].map(|dir| dir.metadata().expect("facts"));
    fs::remove_dir(scene.path("removed")).expect("removed");
    fs::rename(scene.path("other"), scene.path("replaced")).expect("renamed");
    for (dir, before) in [&removed, &replaced].into_iter().zip(before) {
        let after = dir.metadata().expect("facts");
        assert_eq!((after.nlink(), after.ino(), after.mode()), (0, before.ino(), before.mode()));
        let inside = rustix::fs::openat(dir, "name", rustix::fs::OFlags::RDONLY, Mode::empty());
        assert_eq!(inside.map(drop), Err(Errno::NOENT), "nothing is in it");
        let made = rustix::fs::mkdirat(dir, "name", Mode::from(0o755));
        assert_eq!(made, Err(Errno::NOENT), "and nothing can be put there");
    }
    assert_eq!(names(&scene.directory()), [b"replaced"]);
}

/// Without setting it, which would be seen by other tests.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").expect("the kernel tells it");
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:")).expect("a line");
    u32::from_str_radix(line.trim(), 8).expect("octal")
}

#[test]
fn names_have_255_bytes_and_not_256() {
    let Some(scene) = Scene::new() else { return };
    let (long, longer) = ("n".repeat(255), "n".repeat(256));
    fs::write(scene.path(&long), b"long").expect("written");
    assert_eq!(names(&scene.directory()), [long.as_bytes()]);
    assert_eq!(fs::read(scene.path(&long)).expect("read"), b"long");
    let refused = |outcome: std::io::Result<()>| outcome.expect_err("too long").raw_os_error();
    assert_eq!(refused(fs::write(scene.path(&longer), b"")), Some(36));
    assert_eq!(refused(fs::create_dir(scene.path(&longer))), Some(36));
    assert_eq!(refused(fs::rename(scene.path(&long), scene.path(&longer))), Some(36));
    assert_eq!(refused(fs::hard_link(scene.path(&long), scene.path(&longer))), Some(36));
    assert_eq!(refused(fs::metadata(scene.path(&longer)).map(drop)), Some(36));
}

#[test]
fn a_file_has_as_many_links_as_names() {
    let Some(scene) = Scene::new() else { return };
    fs::write(scene.path("first"), b"shared").expect("written");
    fs::hard_link(scene.path("first"), scene.path("second")).expect("linked");
    let (first, second) = (stat(&scene.path("first")), stat(&scene.path("second")));
    assert_eq!((first.stx_ino, first.stx_nlink), (second.stx_ino, 2));
    fs::write(scene.path("second"), b"changed").expect("written");
    assert_eq!(fs::read(scene.path("first")).expect("read"), b"changed");
    fs::remove_file(scene.path("first")).expect("removed");
    assert_eq!(stat(&scene.path("second")).stx_nlink, 1);
    fs::create_dir_all(scene.path("a/b")).expect("made");
    assert_eq!((stat(&scene.path("a")).stx_nlink, stat(&scene.directory()).stx_nlink), (3, 3));
    fs::remove_dir(scene.path("a/b")).expect("removed");
    assert_eq!(stat(&scene.path("a")).stx_nlink, 2);
    let linked = fs::hard_link(scene.path("a"), scene.path("b"));
    assert_eq!(linked.expect_err("directories have one name").raw_os_error(), Some(1));
}

#[test]
fn renames_replace_exchange_and_refuse() {
    let Some(scene) = Scene::new() else { return };
    let rename =
        |from: &str, to: &str, flags: RenameFlags| renameat_with(CWD, scene.path(from), CWD, scene.path(to), flags);
    let (plain, none, exchange) = (RenameFlags::empty(), RenameFlags::NOREPLACE, RenameFlags::EXCHANGE);
    let read = |name: &str| fs::read(scene.path(name)).expect("read");
    fs::write(scene.path("a"), b"a").expect("written");
    fs::write(scene.path("b"), b"b").expect("written");
    assert_eq!(rename("a", "b", none), Err(Errno::EXIST));
    rename("a", "b", exchange).expect("exchanged");
    assert_eq!((read("a"), read("b")), (b"b".to_vec(), b"a".to_vec()));
    rename("a", "b", plain).expect("replaced");
    assert_eq!((read("b"), try_stat(&scene.path("a")).err()), (b"b".to_vec(), Some(Errno::NOENT)));
    assert_eq!(rename("a", "c", exchange), Err(Errno::NOENT));
    fs::write(scene.path("gone"), b"gone").expect("written");
    rename("gone", "moved", RenameFlags::WHITEOUT).expect("moved, with a whiteout");
    let whiteout = fs::symlink_metadata(scene.path("gone")).expect("a whiteout");
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0 && read("moved") == b"gone");

    fs::create_dir_all(scene.path("d/e/f")).expect("made");
    fs::create_dir(scene.path("g")).expect("made");
    assert_eq!(rename("d", "d/e/f/d", plain), Err(Errno::INVAL), "into itself");
    assert_eq!(rename("b", "g", plain), Err(Errno::ISDIR));
    assert_eq!(rename("g", "b", plain), Err(Errno::NOTDIR));
    assert_eq!(rename("g", "d", plain), Err(Errno::NOTEMPTY));
    rename("d/e", "g", plain).expect("moved");
    assert_eq!((stat(&scene.path("d")).stx_nlink, stat(&scene.path("g")).stx_nlink), (2, 3));
    rename("b", "g", exchange).expect("a file and a directory change places");
    assert!(stat(&scene.path("b/f")).stx_nlink == 2 && read("g") == b"b");
    let parent = fs::canonicalize(scene.path("b/f/..")).expect("resolved");
    assert_eq!(parent, scene.path("b"));
}

#[test]
fn what_is_not_there_is_not_asked_for_again() {
    let Some(scene) = Scene::new() else { return };
    assert_eq!(try_stat(&scene.path("absent")).err(), Some(Errno::NOENT));
    let asked = scene.mounted().stats().count("lookup");
    for _ in 0..10 {
        assert_eq!(try_stat(&scene.path("absent")).err(), Some(Errno::NOENT));
    }
    assert_eq!(scene.mounted().stats().count("lookup"), asked, "the kernel knows");
    fs::write(scene.path("absent"), b"there").expect("written");
    assert_eq!(fs::read(scene.path("absent")).expect("read"), b"there");
}
