//! Many at once, and what programs do besides reading and writing.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;

use crate::support::{Scene, names, pattern};

const THREADS: usize = 8;
const FILES: usize = 60;

#[test]
fn eight_threads_change_one_tree() {
    let Some(scene) = Scene::new() else { return };
    let scene = &scene;
    fs::create_dir(scene.path("shared")).expect("made");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let own = scene.path(&format!("own {thread}"));
                fs::create_dir(&own).expect("made");
                for number in 0..FILES {
                    let bytes = pattern(1 + number * 997, (thread * FILES + number) as u64);
                    let (first, last) = (own.join(format!("{number}")), own.join(format!("renamed {number}")));
                    fs::write(&first, &bytes).expect("written");
                    fs::hard_link(&first, scene.path(&format!("shared/{thread} {number}"))).expect("linked");
                    fs::rename(&first, &last).expect("renamed");
                    assert!(fs::read(&last).expect("read") == bytes);
                    if number % 3 == 0 {
                        fs::remove_file(&last).expect("removed");
                    }
                    assert!(names(&scene.path("shared")).len() > number);
                }
            });
        }
    });
    assert_eq!(names(&scene.path("shared")).len(), THREADS * FILES);
    for thread in 0..THREADS {
        assert_eq!(names(&scene.path(&format!("own {thread}"))).len(), FILES - FILES / 3);
        for number in 0..FILES {
            let read = fs::read(scene.path(&format!("shared/{thread} {number}"))).expect("read");
            assert!(read == pattern(1 + number * 997, (thread * FILES + number) as u64));
        }
    }
}

#[test]
fn threads_write_to_one_file_side_by_side() {
    const PART: usize = 1 << 16;
    let Some(scene) = Scene::new() else { return };
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    for flags in [0, direct] {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        let file = std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags).open(scene.path("file"));
        let file = &file.expect("opened");
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    for round in 0..16 {
                        let place = round * THREADS + thread;
                        let bytes = pattern(PART, place as u64);
                        file.write_all_at(&bytes, (place * PART) as u64).expect("written");
                        let mut read = vec![0; PART];
                        file.read_exact_at(&mut read, (place * PART) as u64).expect("read");
                        assert!(read == bytes);
                    }
                });
            }
        });
        for place in 0..16 * THREADS {
            let mut read = vec![0; PART];
            file.read_exact_at(&mut read, (place * PART) as u64).expect("read");
            assert!(read == pattern(PART, place as u64));
        }
    }
}

#[test]
fn programs_run_from_a_mount_and_lock_files_on_it() {
    let Some(scene) = Scene::new() else { return };
    fs::copy("/bin/true", scene.path("program")).expect("copied");
    assert!(Command::new(scene.path("program")).status().expect("it runs").success());
    fs::copy("/bin/sleep", scene.path("running")).expect("copied");
    let before = fs::read(scene.path("running")).expect("read");
    let mut running = Command::new(scene.path("running")).arg("60").spawn().expect("it runs");
    // Without the right to write, which only C programs ask for.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::TRUNC;
    let cut = rustix::fs::open(scene.path("running"), flags, rustix::fs::Mode::empty());
    assert_eq!(cut.err(), Some(rustix::io::Errno::TXTBSY));
    assert!(fs::read(scene.path("running")).expect("read") == before);
    running.kill().expect("killed");
    running.wait().expect("ended");
    let (first, second) = (File::create(scene.path("lock")).expect("created"), File::open(scene.path("lock")));
    let second = second.expect("opened");
    first.lock().expect("locked");
    assert!(second.try_lock().is_err());
    first.unlock().expect("unlocked");
    second.try_lock().expect("locked");
}
