//! The same requests over io_uring.
//!
//! Whether the kernel offers that is a switch of the whole machine: here it is on for as long as one of these tests needs
//! it. Other mounts that begin meanwhile use it too, and hold all the same.

use std::fs;
use std::sync::Mutex;

use holdfast_fuse::MountSettings;

use crate::support::{Memory, Scene, names, pattern, stat};

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

static SWITCHED: Mutex<()> = Mutex::new(());

/// A mount over io_uring. `None`: the kernel has no such thing.
fn scene() -> Option<Scene> {
    scene_with(MountSettings::default())
}

fn scene_with(settings: MountSettings) -> Option<Scene> {
    let _alone = SWITCHED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = fs::read_to_string(SWITCH).ok().filter(|_| fs::write(SWITCH, "Y").is_ok());
    let Some(before) = before else {
        holdfast_harness::note_left_out("mounts over io_uring", "root and Linux 6.14 with FUSE over io_uring");
        return None;
    };
    let scene = Scene::with(Memory::new(), settings);
    fs::write(SWITCH, before).expect("switched back");
    let scene = scene?;
    assert!(scene.mounted().is_over_io_uring());
    Some(scene)
}

#[test]
fn files_are_made_written_listed_and_removed() {
    let Some(scene) = scene() else { return };
    let bytes = pattern(3 << 20, 5);
    fs::create_dir(scene.path("directory")).expect("made");
    fs::write(scene.path("directory/file"), &bytes).expect("written");
    fs::hard_link(scene.path("directory/file"), scene.path("second")).expect("linked");
    assert!(fs::read(scene.path("second")).expect("read") == bytes);
    assert_eq!(stat(&scene.path("second")).stx_nlink, 2);
    rustix::fs::setxattr(scene.path("second"), "user.long", &[7; 60_000], rustix::fs::XattrFlags::empty())
        .expect("set");
    let mut value = vec![0; 65_536];
    assert_eq!(rustix::fs::getxattr(scene.path("second"), "user.long", &mut value[..]), Ok(60_000));
    let missing = fs::read(scene.path("missing")).expect_err("nothing is there");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    for number in 0..2000 {
        fs::write(scene.path(&format!("directory/{number}")), number.to_string()).expect("written");
    }
    assert_eq!(names(&scene.path("directory")).len(), 2001);
    fs::remove_dir_all(scene.path("directory")).expect("removed");
    assert_eq!(names(&scene.directory()), [b"second"]);
}

#[test]
fn threads_read_and_write_side_by_side() {
    const PART: usize = 8192;
    let Some(scene) = scene() else { return };
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(true);
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = std::os::unix::fs::OpenOptionsExt::custom_flags(options, direct).open(scene.path("file"));
    let file = &file.expect("opened");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                use std::os::unix::fs::FileExt;
                for round in 0..200 {
                    let place = round * 8 + thread;
                    let bytes = pattern(PART, place as u64);
                    file.write_all_at(&bytes, (place * PART) as u64).expect("written");
                    let mut read = vec![0; PART];
                    file.read_exact_at(&mut read, (place * PART) as u64).expect("read");
                    assert!(read == bytes);
                }
            });
        }
    });
}

#[test]
fn a_mount_ends_also_in_use_and_begins_again() {
    let Some(mut scene) = scene() else { return };
    fs::write(scene.path("file"), b"kept").expect("written");
    let open = fs::File::open(scene.path("file")).expect("opened");
    let mounted = scene.take();
    scene.stop(mounted).expect("stopped");
    assert_eq!((names(&scene.directory()).len(), scene.service.counts().1), (0, 0));
    assert!(open.sync_all().is_err());
    scene.mount_with(MountSettings::default()).expect("mounted again");
    assert_eq!(fs::read(scene.path("file")).expect("read"), b"kept");
}

#[test]
fn programs_that_wait_for_locks_keep_no_request_out() {
    let Some(scene) = scene_with(MountSettings { slots: 2, ..MountSettings::default() }) else { return };
    fs::write(scene.path("file"), b"").expect("written");
    crate::locks::hold_many(&scene);
}
