//! A mounted volume made smaller: under load, killed on the way, stopped, refused.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use holdfast_tests::command::wait_until;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::random::{Random, bytes};
use holdfast_tests::scene::Scene;
use rustix::fs::{FallocateFlags, fallocate};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A mounted volume of 512 MiB whose first half was given back: what it holds lies behind that.
fn made() -> (Scene, Janitor, Daemon, String) {
    let (scene, janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 2, "768MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "512MiB", "--layout", "simple"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    let ballast = format!("{directory}/ballast");
    let file = File::create(&ballast).expect("created");
    fallocate(&file, FallocateFlags::empty(), 0, 300 * MIB).expect("there is room");
    drop(file);
    for number in 0..60 {
        std::fs::write(format!("{directory}/f{number}"), content(number)).expect("written");
    }
    std::fs::remove_file(ballast).expect("removed");
    (scene, janitor, daemon, directory)
}

fn content(number: u64) -> Vec<u8> {
    bytes(number, (number * 54_321 % 2_000_000) as usize)
}

fn check(directory: &str) {
    for number in 0..60 {
        let found = std::fs::read(format!("{directory}/f{number}")).expect("it can be read");
        assert!(found == content(number), "file {number}");
    }
}

/// Writes, cuts, punches and reads a file at random until it is over, against a model of it.
fn exercise(path: &Path, seed: u64, over: &AtomicBool) -> u64 {
    let mut random = Random::new(seed);
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).expect("created");
    let (mut model, mut steps) = (Vec::<u8>::new(), 0);
    while !over.load(Ordering::Relaxed) || steps <= 20 {
        let (at, len) = (random.below(6 * MIB) as usize, random.below(200_000) as usize + 1);
        match random.below(10) {
            0..5 => {
                let data = bytes(random.next_u64(), len);
                file.write_all_at(&data, at as u64).expect("there is room");
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].copy_from_slice(&data);
            }
            5 => {
                file.set_len(at as u64).expect("cut or grown");
                model.resize(at, 0);
            }
            6 => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&file, flags, at as u64, len as u64).expect("punched");
                let inside = at.min(model.len())..(at + len).min(model.len());
                model[inside].fill(0);
            }
            7 => file.sync_data().expect("it lasts"),
            _ => {
                let mut found = vec![0; len];
                let count = file.read_at(&mut found, at as u64).expect("read");
                let expected = &model[at.min(model.len())..(at + len).min(model.len())];
                assert!(found[..count] == expected[..count] && count <= expected.len(), "{path:?} at {at}");
            }
        }
        steps += 1;
    }
    assert!(std::fs::read(path).expect("read") == model, "{path:?} after {steps} steps");
    steps
}

fn size_of(daemon: &Daemon, what: &str) -> u64 {
    daemon.json(&[what, "show", "tank/files"])["size_bytes"].as_u64().expect("a size")
}

#[test]
fn a_mounted_volume_shrinks_under_load_with_its_space_and_grows_again() {
    let (_scene, _janitor, daemon, directory) = made();
    let plan = daemon.json(&["volume", "shrink", "tank/files", "--size", "256MiB", "--dry-run"]);
    assert_eq!((&plan["refusal"], &plan["size_bytes_then"]), (&Value::Null, &(256 * MIB).into()), "{plan}");
    assert!(plan["move_bytes"].as_u64() > Some(30 * MIB), "{plan}");
    let shown = daemon.please(&["volume", "shrink", "tank/files", "--size", "256MiB", "--dry-run"]);
    assert!(shown.contains("its space with it") && shown.contains("the smallest size now is"), "{shown}");
    let refused = daemon.cli(&["volume", "shrink", "tank/files", "--size", "20MiB"]).refused();
    assert!(refused.contains("the smallest size that it can have now is"), "{refused}");
    assert!(refused.contains("choose at least --size"), "{refused}");
    let too_small = ["volume", "shrink", "tank/files", "--size", "20MiB", "--dry-run"];
    let planned = daemon.cli(&too_small);
    assert!(planned.printed().contains("the smallest size now is"), "{}", planned.printed());
    assert_eq!(planned.refused(), refused, "the plan fails as the shrink does");
    let planned = daemon.cli(&[&["--json"], &too_small[..]].concat());
    let plan: Value = serde_json::from_str(&planned.printed()).expect("JSON");
    assert_eq!((&plan["refusal"]["code"], planned.refused()), (&"no-space".into(), refused.clone()));
    let id = daemon.json(&["volume", "show", "tank/files"])["id"].as_str().expect("an id").to_owned();
    assert!(!refused.contains(&id), "{refused}");
    let refused = daemon.cli(&["volume", "shrink", "tank/files", "--size", "15EiB"]).refused();
    assert!(refused.contains("does not shrink to 15 EiB") && refused.contains("volume grow tank/files"), "{refused}");

    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load: Vec<_> = (0..3)
            .map(|number| {
                let (path, over) = (format!("{directory}/load{number}"), &over);
                scope.spawn(move || exercise(Path::new(&path), number, over))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        let shrunk = daemon.please(&["volume", "shrink", "tank/files", "--size", "256MiB", "--wait"]);
        assert!(shrunk.contains("its space tank/files has as much"), "{shrunk}");
        let jobs = daemon.json(&["job", "list", "--all"]);
        let again = daemon.please(&["volume", "shrink", "tank/files", "--size", "256MiB", "--wait"]);
        assert_eq!(again.trim(), "nothing changed: volume tank/files has 256 MiB");
        assert_eq!(daemon.json(&["job", "list", "--all"]), jobs, "nothing is to be done, by no job");
        std::thread::sleep(Duration::from_millis(300));
        over.store(true, Ordering::Relaxed);
        for worker in load {
            assert!(worker.join().expect("it held") > 20);
        }
    });
    assert_eq!((size_of(&daemon, "volume"), size_of(&daemon, "space")), (256 * MIB, 256 * MIB));
    check(&directory);
    let room = rustix::fs::statvfs(&*directory).expect("it is mounted");
    assert!(room.f_blocks * room.f_frsize < 256 * MIB, "{} blocks", room.f_blocks);
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
    daemon.please(&["volume", "grow", "tank/files", "--size", "400MiB"]);
    assert_eq!((size_of(&daemon, "volume"), size_of(&daemon, "space")), (400 * MIB, 400 * MIB));
    check(&directory);
}

#[test]
fn a_shrink_goes_on_after_kills_and_loses_nothing() {
    let (_scene, _janitor, mut daemon, directory) = made();
    let path = format!("{directory}/pages");
    std::fs::write(&path, vec![0; 4 << 20]).expect("written");
    File::open(&path).and_then(|file| file.sync_all()).expect("it lasts");
    std::process::Command::new("sync").args(["-f", &directory]).status().expect("synced");
    daemon.please(&["volume", "shrink", "tank/files", "--size", "200MiB", "--cap", "25MiB"]);
    let answered: Vec<AtomicU64> = (0..1024).map(|_| AtomicU64::new(0)).collect();
    for round in 1..5u64 {
        std::thread::scope(|scope| {
            let (path, answered) = (&path, &answered);
            scope.spawn(move || {
                let Ok(file) = File::options().write(true).open(path) else { return };
                for step in 0.. {
                    let (page, value) = ((step * 389 % 1024) as usize, round << 32 | step);
                    let data = value.to_le_bytes().repeat(512);
                    if file.write_all_at(&data, page as u64 * 4096).and_then(|()| file.sync_data()).is_err() {
                        return;
                    }
                    answered[page].store(value, Ordering::Relaxed);
                }
            });
            std::thread::sleep(Duration::from_millis(250 * round));
            daemon.kill();
        });
        daemon.start_again();
        let shown = daemon.json(&["volume", "show", "tank/files"]);
        let goes_on = shown["shrink"]["size_bytes"] == 200 * MIB && shown["conditions"] == serde_json::json!([]);
        assert!(goes_on || shown["size_bytes"] == 200 * MIB, "round {round}: {shown}");
        check(&directory);
        let found = std::fs::read(&path).expect("it can be read");
        for (page, answered) in found.chunks(4096).zip(&answered) {
            let value = u64::from_le_bytes(page[..8].try_into().expect("eight bytes"));
            assert!(page == value.to_le_bytes().repeat(512), "a page is whole");
            assert!(value >= answered.load(Ordering::Relaxed), "round {round}: what was answered is there");
            answered.store(value, Ordering::Relaxed);
        }
        assert!([200 * MIB, 512 * MIB].contains(&size_of(&daemon, "volume")));
    }
    let jobs = daemon.json(&["job", "list"]);
    if let Some(job) = jobs.as_array().and_then(|jobs| jobs.iter().find(|job| job["kind"] == "shrink")) {
        daemon.please(&["job", "set", &job["id"].to_string(), "--cap", "none"]);
    }
    wait_until("the shrink goes on by itself", 120, || size_of(&daemon, "space") == 200 * MIB);
    assert_eq!(size_of(&daemon, "volume"), 200 * MIB);
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
    check(&directory);
    assert_eq!(daemon.json(&["volume", "show", "tank/files"])["health"], "healthy");
}

#[test]
fn a_shrink_is_cancelled_and_the_volume_has_all_its_room() {
    let (_scene, _janitor, daemon, directory) = made();
    let answer = daemon.json(&["volume", "shrink", "tank/files", "--size", "200MiB", "--cap", "5MiB"]);
    let job = answer["job"]["id"].to_string();
    wait_until("something was moved", 30, || {
        daemon.json(&["job", "show", &job])["done_bytes"].as_u64() > Some(2 * MIB)
    });
    let shown = daemon.json(&["volume", "show", "tank/files"]);
    let shrink = &shown["shrink"];
    assert_eq!((shrink["job"].to_string(), &shrink["state"]), (job.clone(), &"running".into()), "{shown}");
    assert!(shrink["done_bytes"].as_u64() > Some(2 * MIB) && shrink["size_bytes"] == 200 * MIB, "{shown}");
    let text = daemon.please(&["volume", "show", "tank/files"]);
    assert!(text.contains(&format!("to 200 MiB, job {job} is running")), "{text}");
    for other in [&["volume", "scan", "tank/files"][..], &["volume", "grow", "tank/files", "--size", "600MiB"]] {
        let refused = daemon.cli(other).refused();
        assert!(refused.contains("job"), "{refused}");
    }
    let refused = daemon.cli(&["volume", "shrink", "tank/files", "--size", "300MiB"]).refused();
    assert!(refused.contains("shrinks it to another size"), "{refused}");
    daemon.please(&["job", "cancel", &job]);
    assert_eq!((size_of(&daemon, "volume"), size_of(&daemon, "space")), (512 * MIB, 512 * MIB));
    std::fs::write(format!("{directory}/large"), vec![7; 350 << 20]).expect("all of its room is in use");
    check(&directory);
    let shown = daemon.json(&["volume", "show", "tank/files"]);
    assert_eq!((&shown["conditions"], &shown["shrink"]), (&serde_json::json!([]), &Value::Null));
    let refused = daemon.cli(&["volume", "shrink", "tank/files", "--size", "200MiB"]).refused();
    assert!(refused.contains("the smallest size"), "{refused}");
}
