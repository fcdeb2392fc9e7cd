//! Volumes: made, mounted by the kernel, filled by ordinary programs, killed under load, moved, refused.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::losses::{give, pull, put_back};
use holdfast_tests::over_ring::OverRing;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;

fn is_mounted(directory: &str) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("it can be read");
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(directory) && line.contains("fuse.holdfast"))
}

#[test]
fn a_volume_is_made_mounted_filled_and_there_again_after_a_restart() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 3, "512MiB");
    let create = ["volume", "create", "tank/files", "--size", "256MiB", "--layout", "mirror"];
    assert_eq!(daemon.json(&create)["changed"], true);
    assert_eq!(daemon.json(&create)["changed"], false, "a second time");
    let mount = ["volume", "mount", "tank/files", &directory];
    assert_eq!(daemon.json(&mount)["changed"], true);
    assert_eq!(daemon.json(&mount)["changed"], false, "a second time");
    assert!(is_mounted(&directory));
    let shown = &daemon.json(&["volume", "list"])[0];
    assert_eq!(
        (&shown["health"], &shown["files"], &shown["mount"]["mounted"]),
        (&"healthy".into(), &1.into(), &true.into())
    );

    let tree = scene.folder("tree");
    for number in 0..200 {
        let folder = format!("{tree}/d{}", number % 7);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(format!("{folder}/f{number}"), bytes(number, number as usize * 777 % 90_000)).expect("a file");
    }
    std::os::unix::fs::symlink("d1/f1", format!("{tree}/link")).expect("a link");
    std::fs::hard_link(format!("{tree}/d1/f1"), format!("{tree}/d2/again")).expect("a second name");
    run("cp", &["-a", &tree, &format!("{directory}/copy")]).succeeded();
    run("diff", &["-r", &tree, &format!("{directory}/copy")]).succeeded();
    let usage = daemon.json(&["volume", "du", "tank/files", "/copy"]);
    assert_eq!((&usage["files"], &usage["directories"]), (&202.into(), &8.into()), "{usage}");
    assert_eq!(usage["largest"].as_array().map(Vec::len), Some(8), "seven folders and a link");
    let written = daemon.metrics().sum("holdfast_volume_bytes_total", "operation=\"write\"");
    assert!(written > 2e6, "{written}");
    wait_until("its history tells of it", 20, || {
        let history = daemon.json(&["history", "volume", "tank/files", "--last", "1m"]);
        let any = |name: &str| history[name].as_array().expect("values").iter().any(|value| value.as_f64() > Some(0.0));
        any("written_bytes") && any("write_p99_us")
    });
    let two = std::fs::metadata(format!("{directory}/copy/d2/again")).expect("it is there");
    assert_eq!((two.nlink(), two.ino()), {
        let one = std::fs::metadata(format!("{directory}/copy/d1/f1")).expect("it is there");
        (2, one.ino())
    });
    daemon.end();
    assert!(!is_mounted(&directory), "a daemon that ends leaves no mount");
    daemon.start_again();
    assert!(is_mounted(&directory), "and mounts again when it starts");
    run("diff", &["-r", &tree, &format!("{directory}/copy")]).succeeded();

    run("sync", &["-f", &directory]).succeeded();
    daemon.kill();
    assert!(std::fs::read_dir(&directory).is_err(), "nobody answers");
    daemon.start_again();
    run("diff", &["-r", &tree, &format!("{directory}/copy")]).succeeded();
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
    assert_eq!(daemon.json(&["volume", "findings", "tank/files"]), serde_json::json!([]));
    let fixed = daemon.please(&["volume", "spotfix", "tank/files", "--wait"]);
    assert!(fixed.contains("0 findings repaired"), "{fixed}");
    daemon.please(&["volume", "grow", "tank/files", "--size", "384MiB"]);
    assert_eq!(daemon.json(&["volume", "show", "tank/files"])["size_bytes"], 384 << 20);
    daemon.please(&["volume", "unmount", "tank/files"]);
    assert!(!is_mounted(&directory));
    let refusal = daemon.cli(&["volume", "destroy", "tank/files"]).refused();
    assert!(refusal.contains("files would be lost") && refusal.contains("--yes"), "{refusal}");
    daemon.please(&["volume", "destroy", "tank/files", "--yes"]);
    assert_eq!(daemon.json(&["space", "list"]), serde_json::json!([]), "its space went with it");
}

#[test]
fn what_is_killed_while_it_is_created_or_destroyed_is_ended_by_a_repeat() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 3, "512MiB");
    let create = ["volume", "create", "tank/files", "--size", "64MiB", "--layout", "mirror"];
    let destroy = ["volume", "destroy", "tank/files", "--yes"];
    for round in 0..12 {
        for command in [&create[..], &destroy[..]] {
            std::thread::scope(|scope| {
                let asked = scope.spawn(|| daemon.cli(command));
                std::thread::sleep(Duration::from_millis(4 + 7 * round));
                daemon.strike();
                let _ = asked.join();
            });
            daemon.kill();
            daemon.start_again();
            for volume in daemon.json(&["volume", "list"]).as_array().expect("a list") {
                let is_open = volume["state"] == "open" && volume["conditions"] == serde_json::json!([]);
                let next = volume["conditions"][0]["next_action"].as_str().unwrap_or_default();
                assert!(is_open || next.contains("'holdfast volume"), "{volume}");
            }
            // A creation that was cut short in its destruction is destroyed first.
            if command == create && daemon.json(&["volume", "list"])[0]["state"] == "destroying" {
                daemon.please(&destroy);
            }
            daemon.please(command);
        }
        assert_eq!(daemon.json(&["volume", "list"]), serde_json::json!([]), "round {round}");
        assert_eq!(daemon.json(&["space", "list"]), serde_json::json!([]), "round {round}");
    }
}

#[test]
fn what_was_synced_is_there_after_a_kill_under_load() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    kill_under_load(&scene, &directory, false);
}

#[test]
fn what_was_synced_over_io_uring_is_there_after_a_kill_under_load() {
    let (scene, mut janitor, directory) = Janitor::with_mount_point();
    let Some(_switch) = OverRing::switch_on(&mut janitor) else {
        return holdfast_harness::note_left_out("volumes over io_uring", "root and Linux 6.14 with FUSE over io_uring");
    };
    kill_under_load(&scene, &directory, true);
}

/// Three writers of files that are synced before they get their names, while the daemon is killed again and again.
fn kill_under_load(scene: &Scene, directory: &str, over_io_uring: bool) {
    let mut daemon = Daemon::start(scene);
    daemon.pool(scene, "tank", 3, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "400MiB", "--layout", "mirror"]);
    daemon.please(&["volume", "mount", "tank/files", directory]);
    let synced: Mutex<BTreeMap<String, (u64, usize)>> = Mutex::default();
    let next = AtomicU64::new(0);
    for round in 0..4 {
        let shown = daemon.json(&["volume", "show", "tank/files"]);
        if over_io_uring {
            assert_eq!(shown["mount"]["over_io_uring"], true, "round {round}: {shown}");
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (synced, next, over, directory) = (&synced, &next, &over, directory);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let name = format!("{directory}/t{thread}-{}", number % 120);
                        let len = (number as usize * 3571) % 40_000 + 1;
                        // Under another name first, as careful programs do.
                        let part = format!("{name}.part");
                        let written = File::create(&part).and_then(|mut file| {
                            file.write_all(&bytes(number, len))?;
                            file.sync_all()
                        });
                        if written.and_then(|()| std::fs::rename(&part, &name)).is_err() {
                            continue;
                        }
                        let folder = File::open(directory).and_then(|folder| folder.sync_all());
                        if folder.is_ok() {
                            synced.lock().expect("whole").insert(name, (number, len));
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(900 + 300 * round));
            holdfast_harness::wait_until("files are synced", || synced.lock().expect("whole").len() > 20);
            daemon.kill();
            over.store(true, Ordering::Relaxed);
        });
        daemon.start_again();
        let synced = synced.lock().expect("whole");
        assert!(synced.len() > 20, "{} files", synced.len());
        for (name, (number, len)) in &*synced {
            let found = std::fs::read(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            // A later one may have taken its name before the kill, without an answer.
            let is_it = found == bytes(*number, *len);
            let is_later = (number + 1..next.load(Ordering::Relaxed)).any(|later| {
                later % 120 == number % 120 && found == bytes(later, (later as usize * 3571) % 40_000 + 1)
            });
            assert!(is_it || is_later, "round {round}: {name} has {} bytes of neither", found.len());
        }
    }
    daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert_eq!(daemon.json(&["volume", "show", "tank/files"])["health"], "healthy", "also after the scan");
}

#[test]
fn a_data_base_in_a_file_survives_kills() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 3, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "256MiB", "--layout", "simple"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    let path = format!("{directory}/table");
    std::fs::write(&path, vec![0; 8 << 20]).expect("written");
    let mut expected: Vec<u64> = vec![0; 1024];
    for round in 1..4u64 {
        let done = Mutex::new(expected.clone());
        std::thread::scope(|scope| {
            let (done, path) = (&done, &path);
            scope.spawn(move || {
                let Ok(file) = File::options().write(true).open(path) else { return };
                for step in 0.. {
                    let row = (step * 389 % 1024) as usize;
                    let page = [(round << 32 | step).to_le_bytes(); 1024].concat();
                    if file.write_all_at(&page, row as u64 * 8192).and_then(|()| file.sync_data()).is_err() {
                        return;
                    }
                    done.lock().expect("whole")[row] = round << 32 | step;
                }
            });
            std::thread::sleep(Duration::from_millis(700));
            holdfast_harness::wait_until("a row is synced", || *done.lock().expect("whole") != expected);
            daemon.kill();
        });
        let before = std::mem::replace(&mut expected, done.into_inner().expect("whole"));
        assert!(expected != before, "round {round}: no write was answered");
        daemon.start_again();
        let found = std::fs::read(&path).expect("it can be read");
        for (row, value) in expected.iter_mut().enumerate() {
            for half in found[row * 8192..(row + 1) * 8192].chunks(4096) {
                let words: Vec<u64> =
                    half.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight"))).collect();
                assert!(words.iter().all(|word| *word == words[0]), "row {row} is torn within a block");
                assert!(words[0] >= *value, "row {row}: {value:#x} was synced, {:#x} is found", words[0]);
            }
        }
        // Rows that were not answered may be old or new, also by halves: write them whole.
        let file = File::options().write(true).open(&path).expect("opened");
        for (row, value) in expected.iter().enumerate() {
            file.write_all_at(&[value.to_le_bytes(); 1024].concat(), row as u64 * 8192).expect("written");
        }
        file.sync_all().expect("synced");
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_next_step_and_changes_nothing() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 3, "512MiB");
    let uri = daemon.space("tank/disk", &["--layout", "simple", "--size", "64MiB"]);
    let refused = |arguments: &[&str], words: &[&str]| {
        let refusal = daemon.cli(arguments).refused();
        for word in words {
            assert!(refusal.contains(word), "{arguments:?}: {refusal}");
        }
    };
    refused(&["volume", "create", "tank/files", "--on", "tank/disk"], &["exported", "disk"]);
    run("qemu-io", &["-f", "raw", "-c", "write -P 7 0 1M", &uri]).succeeded();
    daemon.please(&["nbd", "unexport", "disk"]);
    refused(&["volume", "create", "tank/files", "--on", "tank/disk"], &["holds data", "empty space"]);
    daemon.please(&["space", "create", "tank/empty", "--layout", "simple", "--size", "64MiB"]);
    daemon.please(&["volume", "create", "tank/files", "--on", "tank/empty", "--case-sensitive"]);
    refused(&["space", "destroy", "tank/empty", "--yes"], &["volume tank/files lies on it", "volume destroy"]);
    refused(&["nbd", "export", "tank/empty"], &["volume tank/files lies on"]);
    refused(&["volume", "create", "tank/files", "--on", "tank/disk"], &["already exists"]);
    refused(&["volume", "create", "tank/two", "--size", "1MiB"], &["too few for a volume"]);
    assert_eq!(daemon.json(&["space", "list"]).as_array().map(Vec::len), Some(2), "no space is left of it");
    refused(&["volume", "mount", "tank/files", "/does/not/exist"], &["/does/not/exist"]);
    refused(&["volume", "mount", "tank/none", &directory], &["volume tank/none does not exist", "volume list"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    refused(&["volume", "mount", "tank/files", "/tmp"], &["mounted on", "volume unmount"]);
    refused(&["pool", "destroy", "tank", "--yes"], &["volume tank/files is mounted", "volume unmount"]);
    refused(&["volume", "grow", "tank/files", "--size", "32MiB"], &["cannot grow to 32", "volume shrink tank/files"]);
    refused(&["volume", "grow", "tank/files", "--size", "1GiB"], &["its space has 64 MiB", "space grow"]);
    refused(&["volume", "destroy", "tank/files", "--yes"], &["it is mounted", "volume unmount"]);
    let name = "x".repeat(256);
    let error = File::create(Path::new(&directory).join(&name)).expect_err("the name is too long");
    assert_eq!(error.raw_os_error(), Some(36), "{error}");
    use std::os::unix::ffi::OsStrExt;
    let error =
        File::create(Path::new(&directory).join(std::ffi::OsStr::from_bytes(b"\xff\xfe"))).expect_err("no UTF-8");
    assert_eq!(error.raw_os_error(), Some(84), "{error}");
    run("umount", &[&directory]).succeeded();
    wait_until("it is seen", 20, || daemon.json(&["volume", "show", "tank/files"])["mount"]["mounted"] == false);
    let shown = daemon.json(&["volume", "show", "tank/files"]);
    assert!(shown["conditions"][0]["cause"].as_str().is_some_and(|cause| cause.contains("unmounted")), "{shown}");
    assert!(daemon.please(&["status"]).contains("was unmounted from"));
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    assert_eq!(daemon.json(&["volume", "show", "tank/files"])["health"], "healthy");
}

#[test]
fn what_programs_use_is_not_taken_from_them_unless_asked_for() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 3, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "64MiB", "--layout", "simple"]);
    std::fs::write(format!("{directory}/hidden"), b"below").expect("written");
    let mount = ["volume", "mount", "tank/files", &directory];
    let refusal = daemon.cli(&mount).refused();
    assert!(refusal.contains("not empty") && refusal.contains("hidden") && refusal.contains("--over"), "{refusal}");
    assert_eq!(daemon.json(&["volume", "show", "tank/files"])["mount"], serde_json::Value::Null);
    daemon.please(&[&mount[..], &["--over"]].concat());
    let link = scene.path("link");
    std::os::unix::fs::symlink(&directory, &link).expect("a link");
    assert_eq!(daemon.json(&["volume", "mount", "tank/files", &link])["changed"], false, "it is the same directory");

    let file = File::create(format!("{directory}/open")).expect("created");
    let pid = format!("(pid {}: {directory}/open)", std::process::id());
    let refusal = daemon.cli(&["volume", "unmount", "tank/files"]).refused();
    assert!(refusal.contains("in use by") && refusal.contains(&pid) && refusal.contains("--force"), "{refusal}");
    let refusal = daemon.cli(&["volume", "destroy", "tank/files", "--yes"]).refused();
    assert!(refusal.contains("mounted on") && refusal.contains("--force"), "{refusal}");
    let shown = daemon.json(&["volume", "show", "tank/files"]);
    assert_eq!((&shown["health"], &shown["mount"]["mounted"]), (&"healthy".into(), &true.into()), "as before");
    let repair = ["volume", "spotfix", "tank/files", "--offline", "--wait"];
    let refusal = daemon.cli(&repair).refused();
    assert!(refusal.contains("in use by") && refusal.contains(&pid), "{refusal}");
    let second = scene.folder("second");
    daemon.please(&["volume", "create", "tank/others", "--size", "64MiB", "--layout", "simple"]);
    daemon.please(&["volume", "mount", "tank/others", &second]);
    let refusal = daemon.cli(&["pool", "export", "tank"]).refused();
    assert!(refusal.contains("in use by") && refusal.contains(&pid) && refusal.contains("--force"), "{refusal}");
    assert!(is_mounted(&directory) && is_mounted(&second), "as before");
    daemon.please(&["volume", "destroy", "tank/others", "--yes", "--force"]);
    file.write_all_at(b"kept", 0).expect("it is served on");
    daemon.please(&["volume", "unmount", "tank/files", "--force"]);
    assert!(!is_mounted(&directory) && file.write_all_at(b"more", 4).is_err());
    assert_eq!(std::fs::read(format!("{directory}/hidden")).expect("it is seen again"), b"below");
    drop(file);
    daemon.please(&[&mount[..], &["--over"]].concat());
    assert_eq!(std::fs::read(format!("{directory}/open")).expect("read"), b"kept");
    let repaired = daemon.please(&repair);
    assert!(repaired.contains("all metadata agrees; the volume was away for"), "{repaired}");
    assert!(is_mounted(&directory), "it is given back");
    assert_eq!(std::fs::read(format!("{directory}/open")).expect("read"), b"kept");
    assert_eq!(daemon.json(&["volume", "show", "tank/files"])["health"], "healthy");
    daemon.please(&["volume", "destroy", "tank/files", "--yes", "--force"]);
    assert!(!is_mounted(&directory));
    assert_eq!(daemon.json(&["volume", "list"]), serde_json::json!([]));
}

#[test]
fn disks_of_a_volume_go_and_return_and_its_files_stay() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 3, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "128MiB", "--layout", "mirror"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    let content = |round: u64| bytes(round, 5_000_000);
    let path = |round: u64| format!("{directory}/file{round}");
    for (round, disk) in (0..).zip(&disks) {
        pull(&daemon, "tank", disk);
        let mut file = File::create(path(round)).expect("created without the disk");
        file.write_all(&content(round)).and_then(|()| file.sync_all()).expect("written without the disk");
        let shown = daemon.json(&["volume", "show", "tank/files"]);
        assert_eq!((&shown["state"], &shown["health"]), (&"open".into(), &"warning".into()), "{shown}");
        let told = &shown["conditions"][0];
        assert!(told["about"].to_string().contains("tank/files") && !told["next_action"].is_null(), "{shown}");
        assert!(daemon.please(&["volume", "list"]).contains("warning"), "the list says so too");
        let status = daemon.json(&["status"]);
        let causes = status["causes"].as_array().expect("causes");
        assert_eq!(causes.len(), 1, "one disk, one cause: {status}");
        let affected = causes[0]["affects"].as_array().expect("what it affects");
        assert!(affected.iter().any(|one| one["effect"] == "lies on space tank/files"), "{status}");
        put_back(&daemon, "tank/files", &[disk]);
        let shown = daemon.json(&["volume", "show", "tank/files"]);
        assert_eq!((&shown["health"], &shown["conditions"]), (&"healthy".into(), &serde_json::json!([])), "{shown}");
        for written in 0..=round {
            assert!(std::fs::read(path(written)).expect("read") == content(written), "file {written}");
        }
    }
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
    // Each disk was away once while something was written: what they hold together is read after a new start.
    daemon.please(&["pool", "export", "tank"]);
    daemon.please(&["pool", "import", "--disk-dir", &scene.folder("disks")]);
    for written in 0..3 {
        assert!(std::fs::read(path(written)).expect("read again") == content(written), "file {written}");
    }
}

#[test]
fn a_volume_without_its_only_copy_says_so_and_is_back_with_its_disk() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 3, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "128MiB", "--layout", "simple", "--columns", "1"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    let kept = format!("{directory}/kept");
    let mut file = File::create(&kept).expect("created");
    file.write_all(&bytes(1, 3_000_000)).and_then(|()| file.sync_all()).expect("written and synced");
    drop(file);
    std::fs::create_dir(format!("{directory}/full")).expect("a folder");
    daemon.please(&["volume", "quota", "set", "tank/files", "--path", "/full", "--files", "1"]);
    let map = daemon.json(&["space", "map", "tank/files"]).to_string();
    let used = disks.iter().find(|disk| map.contains(disk.as_str())).expect("a disk in use");
    pull(&daemon, "tank", used);
    let lost = File::create(format!("{directory}/lost")).and_then(|mut file| {
        file.write_all(&bytes(2, 3_000_000))?;
        file.sync_all()
    });
    assert!(lost.is_err(), "nothing is acknowledged without the disk");
    wait_until("the volume says so", 20, || {
        let shown = daemon.json(&["volume", "show", "tank/files"]);
        let told = shown["conditions"].as_array().expect("conditions");
        let tells = |part: &str| told.iter().any(|one| one.to_string().contains(part));
        shown["health"] == "unhealthy" && tells("disks of its pool") && tells("space tank/files")
    });
    let status = daemon.json(&["status"]);
    let causes = status["causes"].as_array().expect("causes");
    let health = |part: &str| {
        let of = causes.iter().find(|cause| cause["cause"].as_str().is_some_and(|cause| cause.contains(part)));
        of.map(|cause| cause["health"].clone())
    };
    assert_eq!(health("directory tree /full at 100 %"), Some("warning".into()), "that is no worse for it: {status}");
    assert_eq!(health("takes no changes since"), Some("unhealthy".into()), "{status}");
    give(used);
    wait_until("the disk is back", 60, || daemon.json(&["pool", "show", "tank"])["state"] == "ok");
    daemon.please(&["pool", "export", "tank"]);
    daemon.please(&["pool", "import", "--disk-dir", &scene.folder("disks")]);
    wait_until("it is mounted again", 20, || is_mounted(&directory));
    assert!(std::fs::read(&kept).expect("read") == bytes(1, 3_000_000));
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
}

#[test]
fn removed_files_give_a_thin_space_its_room_back_when_that_is_asked_for() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 3, "768MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "16GiB", "--layout", "simple", "--thin"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    let taken = || daemon.json(&["space", "show", "tank/files"])["allocated_bytes"].as_u64().expect("a size");
    std::fs::write(format!("{directory}/kept"), bytes(1, 3_000_000)).expect("written");
    let large = format!("{directory}/large");
    std::fs::write(&large, vec![7; 400 << 20]).expect("written");
    File::open(&large).and_then(|file| file.sync_all()).expect("it lasts");
    let full = taken();
    assert!(full >= 400 << 20, "{full}");
    std::fs::remove_file(&large).expect("removed");
    let trimmed = daemon.please(&["volume", "trim", "tank/files", "--wait"]);
    assert!(taken() + (200 << 20) <= full, "{full}, then {}", taken());
    assert!(trimmed.contains("MiB given back; space tank/files takes"), "{trimmed}");
    let events = daemon.json(&["event", "list"]).to_string();
    assert!(events.contains("trim of tank/files done: "), "{events}");
    assert!(std::fs::read(format!("{directory}/kept")).expect("read") == bytes(1, 3_000_000));
    std::fs::write(&large, vec![8; 100 << 20]).expect("the room is there to be used again");
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
    daemon.please(&["volume", "create", "tank/fixed", "--size", "64MiB", "--layout", "simple"]);
    let refused = daemon.cli(&["volume", "trim", "tank/fixed"]).refused();
    assert!(refused.contains("space tank/fixed is fixed") && refused.contains("--thin"), "{refused}");
}

#[test]
fn a_volume_moves_with_its_pool() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 3, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "128MiB", "--layout", "parity"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    std::fs::write(format!("{directory}/file"), bytes(3, 3_000_000)).expect("written");
    daemon.please(&["pool", "export", "tank"]);
    assert!(!is_mounted(&directory));
    let elsewhere = scene.folder("elsewhere");
    for (number, disk) in disks.iter().enumerate() {
        std::fs::rename(disk, format!("{elsewhere}/{number}")).expect("a disk can be moved");
    }
    let other = Daemon::start_with(&scene, "b", &[]);
    other.please(&["pool", "import", "--disk-dir", &elsewhere]);
    assert!(is_mounted(&directory), "it is mounted where it was");
    assert!(std::fs::read(format!("{directory}/file")).expect("read") == bytes(3, 3_000_000));
    other.please(&["pool", "export", "tank"]);
}
