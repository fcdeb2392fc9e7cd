//! Snapshots of a mounted volume: browsed, held against now, restored, made by the clock, and killed in all of that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Permissions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::random::{Random, bytes};
use holdfast_tests::scene::Scene;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use serde_json::Value;

const MIB: u64 = 1 << 20;

fn mounted() -> (Scene, Janitor, Daemon, String) {
    let (scene, janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 3, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "384MiB", "--layout", "mirror"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    (scene, janitor, daemon, directory)
}

/// All that ordinary programs see below a directory: kind, mode, owner, length, what it holds or where it leads to.
fn manifest(directory: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![String::new()];
    while let Some(below) = waiting.pop() {
        let here = format!("{directory}{below}");
        let names = std::fs::read_dir(&here).unwrap_or_else(|error| panic!("{here}: {error}"));
        for entry in names {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            let (path, full) = (format!("{below}/{name}"), format!("{here}/{name}"));
            let facts = std::fs::symlink_metadata(&full).expect("it is there");
            let holds = match facts.file_type() {
                kind if kind.is_dir() => {
                    waiting.push(path.clone());
                    "directory".to_owned()
                }
                kind if kind.is_symlink() => std::fs::read_link(&full).expect("a link").display().to_string(),
                _ => {
                    let mut hasher = DefaultHasher::new();
                    hasher.write(&std::fs::read(&full).expect("it can be read"));
                    format!("{:016x}", hasher.finish())
                }
            };
            let modified = (facts.mtime(), facts.mtime_nsec());
            let about = format!("{:o} {} {} {holds} {modified:?}", facts.mode(), facts.uid(), facts.gid());
            let size = if facts.is_dir() { 0 } else { facts.len() };
            found.insert(path, format!("{about} {size}"));
        }
    }
    found
}

fn wait_for_jobs(daemon: &Daemon) {
    wait_until("all jobs are over", 60, || daemon.json(&["job", "list"]).as_array().is_some_and(Vec::is_empty));
}

fn clean(daemon: &Daemon) {
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
}

/// Differences, as `change path`.
fn differences(daemon: &Daemon, arguments: &[&str]) -> Vec<String> {
    let answer = daemon.json(&[&["snapshot", "diff"], arguments].concat());
    assert_eq!(answer["next"], Value::Null);
    let told = answer["differences"].as_array().expect("a list").iter().map(|one| {
        let path = one["path"].as_str().or(one["path_before"].as_str()).expect("a path");
        format!("{} {path}", one["change"].as_str().expect("a word"))
    });
    told.collect()
}

#[test]
fn what_a_snapshot_scattered_is_gathered_when_that_is_gone() {
    let (_scene, _janitor, mut daemon, directory) = mounted();
    let path = format!("{directory}/data");
    let mut held = bytes(1, 8 * MIB as usize);
    std::fs::write(&path, &held).expect("written");
    daemon.please(&["snapshot", "create", "tank/files@kept"]);
    let file = File::options().write(true).open(&path).expect("opened");
    for at in (0..held.len()).step_by(32 << 10) {
        let page = bytes(at as u64, 8 << 10);
        file.write_all_at(&page, at as u64).expect("written");
        held[at..at + page.len()].copy_from_slice(&page);
    }
    file.sync_all().expect("durable");
    drop(file);
    let gather = |daemon: &Daemon| daemon.please(&["volume", "gather", "tank/files", "--wait"]);
    let nothing = "nothing lies scattered that could be moved";
    assert!(gather(&daemon).contains(nothing), "the snapshot has what lies between");
    daemon.please(&["snapshot", "destroy", "tank/files@kept", "--yes"]);
    wait_for_jobs(&daemon);
    let told = gather(&daemon);
    assert!(told.contains("8 MiB that lay in 5") && told.contains("pieces lie in "), "{told}");
    assert!(gather(&daemon).contains(nothing));
    assert!(std::fs::read(&path).expect("read") == held);
    clean(&daemon);
    daemon.kill();
    daemon.start_again();
    wait_until("it is mounted", 20, || Path::new(&path).exists());
    assert!(std::fs::read(&path).expect("read") == held);
    let refused = daemon.cli(&["volume", "gather", "tank/none"]).refused();
    assert!(refused.contains("does not exist"), "{refused}");
}

#[test]
fn a_snapshot_is_browsed_compared_restored_and_destroyed() {
    let (_scene, _janitor, mut daemon, directory) = mounted();
    let at = |name: &str| format!("{directory}/{name}");
    std::fs::create_dir_all(at("docs/old/deep")).expect("made");
    std::fs::write(at("docs/report"), bytes(1, 3 * MIB as usize)).expect("written");
    std::fs::write(at("docs/small"), "as it was").expect("written");
    std::fs::write(at("docs/old/deep/file"), bytes(2, 70_000)).expect("written");
    std::fs::hard_link(at("docs/small"), at("docs/twin")).expect("linked");
    symlink("small", at("docs/link")).expect("linked");
    let holes = File::create(at("docs/holes")).expect("made");
    holes.write_all_at(&bytes(3, 8192), 5 * MIB).expect("written");
    drop(holes);
    std::fs::set_permissions(at("docs/small"), Permissions::from_mode(0o640)).expect("set");
    run("chown", &["1234:5678", &at("docs/report")]).succeeded();
    let note = |value: &[u8]| setxattr(at("docs/report"), "user.note", value, XattrFlags::empty()).expect("set");
    note(b"first");
    let first = manifest(&directory);

    let made = daemon.json(&["snapshot", "create", "tank/files@monday"]);
    assert_eq!((&made["changed"], &made["snapshot"]["name"]), (&true.into(), &"monday".into()));
    assert_eq!(manifest(&at(".snapshots/monday")), first);
    assert!(!manifest(&directory).contains_key("/.snapshots"), "it is in no listing");
    let refused = daemon.cli(&["snapshot", "create", "tank/files@monday"]).refused();
    assert!(refused.contains("there is a snapshot \"monday\" already"), "{refused}");
    let refused = daemon.cli(&["snapshot", "create", "tank/files@a/b"]).refused();
    assert!(refused.contains("is no name for a snapshot"), "{refused}");
    let refused = daemon.cli(&["snapshot", "create", "tank/files@auto-1h-mine"]).refused();
    assert!(refused.contains("are those of the schedule"), "{refused}");
    let refused = std::fs::write(at(".snapshots/monday/docs/small"), "x").expect_err("it does not change");
    assert_eq!(refused.raw_os_error(), Some(30), "EROFS");
    assert_eq!(differences(&daemon, &["tank/files@monday"]), Vec::<String>::new());

    // All that may happen to files.
    let report = File::options().write(true).open(at("docs/report")).expect("there");
    report.write_all_at(b"changed", MIB).expect("written");
    report.sync_all().expect("durable");
    drop(report);
    note(b"second");
    std::fs::remove_file(at("docs/small")).expect("removed");
    std::fs::write(at("docs/small"), "another file").expect("written");
    std::fs::rename(at("docs/old"), at("docs/older")).expect("renamed");
    std::fs::create_dir(at("new")).expect("made");
    std::fs::write(at("new/file"), "new").expect("written");
    std::fs::write(at("docs/holes"), bytes(9, 6 * MIB as usize)).expect("written");
    std::fs::remove_file(at("docs/link")).expect("removed");
    let second = manifest(&directory);
    assert_eq!(manifest(&at(".snapshots/monday")), first, "as it was");
    daemon.please(&["snapshot", "create", "tank/files@tuesday"]);
    let mut told = differences(&daemon, &["tank/files@monday"]);
    assert_eq!(told, differences(&daemon, &["tank/files@monday", "@tuesday"]));
    told.sort();
    let expected = [
        "changed /docs/holes",
        "changed /docs/older",
        "changed /docs/report",
        "changed /docs/twin",
        "created /docs/small",
        "created /new",
        "created /new/file",
        "removed /docs/link",
    ];
    assert_eq!(told, expected, "the twin has one name less");
    let below = differences(&daemon, &["tank/files@monday", "--path", "/new"]);
    assert_eq!(below, ["created /new", "created /new/file"]);
    let backwards = differences(&daemon, &["tank/files@tuesday", "@monday", "--path", "/new"]);
    assert_eq!(backwards, ["removed /new", "removed /new/file"]);
    let shown = daemon.please(&["snapshot", "diff", "tank/files@monday"]);
    assert!(shown.contains("/docs/older (was /docs/old)"), "{shown}");
    let listed = daemon.please(&["snapshot", "list", "tank/files"]);
    assert!(listed.contains("monday") && listed.contains("tuesday") && listed.contains("hand"), "{listed}");

    // One file, beside, and back.
    daemon.please(&["snapshot", "restore", "tank/files@monday", "--path", "/docs", "--to", "/monday", "--wait"]);
    let beside: BTreeMap<String, String> = manifest(&at("monday"));
    let whole: BTreeMap<String, String> = first
        .iter()
        .filter_map(|(path, about)| Some((path.strip_prefix("/docs")?.to_owned(), about.clone())))
        .collect();
    let whole: BTreeMap<String, String> = whole.into_iter().filter(|(path, _)| !path.is_empty()).collect();
    assert_eq!(beside, whole);
    let links = |path: &str| std::fs::metadata(at(path)).expect("there").nlink();
    assert_eq!(links("monday/small"), 2, "names of one file stay so");
    let sparse = std::fs::metadata(at("monday/holes")).expect("there");
    assert!(sparse.blocks() * 512 <= 16384, "{} blocks", sparse.blocks());
    let again =
        daemon.cli(&["snapshot", "restore", "tank/files@monday", "--path", "/docs", "--to", "/monday", "--wait"]);
    let refused = again.refused();
    assert!(refused.contains("/monday is there already"), "{refused}");
    run("rm", &["-r", &at("monday")]).succeeded();
    let refused = daemon.cli(&["snapshot", "restore", "tank/files@monday", "--path", "/docs/none", "--yes"]).refused();
    assert!(refused.contains("path /docs/none of snapshot tank/files@monday does not exist"), "{refused}");
    let refused = daemon.cli(&["snapshot", "restore", "tank/files@monday", "--path", "/docs/small"]).refused();
    assert!(refused.contains("repeat with --yes"), "{refused}");
    let open = File::open(at("docs/report")).expect("it stays open meanwhile");
    daemon.please(&["snapshot", "restore", "tank/files@monday", "--path", "/docs/report", "--yes", "--wait"]);
    let mut found = vec![0; 7];
    open.read_exact_at(&mut found, MIB).expect("read");
    assert!(found == bytes(1, 3 * MIB as usize)[MIB as usize..][..7], "who has it open sees it");
    drop(open);
    let mut value = [0; 16];
    let len = getxattr(at("docs/report"), "user.note", &mut value).expect("there");
    assert_eq!(&value[..len], b"first");
    let mut expected = second.clone();
    expected.insert("/docs/report".into(), first["/docs/report"].clone());
    assert_eq!(manifest(&directory), expected);

    // All of it, over a kill.
    daemon.please(&["snapshot", "restore", "tank/files@monday", "--yes", "--wait"]);
    assert_eq!(manifest(&directory), first);
    assert_eq!(links("docs/small"), 2);
    let told = differences(&daemon, &["tank/files@monday"]);
    let paths = |change: &str| -> BTreeSet<String> {
        told.iter().filter_map(|one| one.strip_prefix(change).map(str::to_owned)).collect()
    };
    assert_eq!(paths("created "), paths("removed "), "files that were made anew, and nothing else: {told:?}");
    daemon.kill();
    daemon.start_again();
    wait_until("it is mounted", 20, || Path::new(&at("docs")).exists());
    assert_eq!(manifest(&directory), first);
    assert_eq!(manifest(&at(".snapshots/tuesday")), second);
    let listed = daemon.json(&["snapshot", "list", "tank/files"]);
    let names: Vec<&str> = listed.as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names.len(), 4, "two of them were made before files were restored: {names:?}");
    let before = names.iter().find(|name| name.starts_with("before-restore-")).expect("one of them");
    assert_eq!(manifest(&at(&format!(".snapshots/{before}"))), second);

    // Gone.
    let open = File::open(at(".snapshots/monday/docs/report")).expect("there");
    let refused = daemon.cli(&["snapshot", "destroy", "tank/files@monday", "--yes"]).refused();
    assert!(refused.contains("of the snapshot are open"), "{refused}");
    drop(open);
    let refused = daemon.cli(&["snapshot", "destroy", "tank/files@monday"]).refused();
    assert!(refused.contains("repeat with --yes"), "{refused}");
    let keeps = daemon.json(&["volume", "show", "tank/files"])["snapshot_bytes"].as_u64().expect("known");
    assert!(keeps > 6 * MIB, "{keeps}");
    assert_eq!(daemon.metrics().sum("holdfast_volume_snapshots", "volume=\"tank/files\""), 4.0);
    for name in &names {
        wait_until("it can be destroyed", 20, || {
            daemon.cli(&["snapshot", "destroy", &format!("tank/files@{name}"), "--yes"]).success()
        });
    }
    assert_eq!(daemon.json(&["snapshot", "destroy", "tank/files@monday", "--yes"])["changed"], false);
    wait_for_jobs(&daemon);
    let shown = daemon.json(&["volume", "show", "tank/files"]);
    assert_eq!((&shown["snapshots"], &shown["snapshot_bytes"]), (&0.into(), &0.into()));
    assert!(!Path::new(&at(".snapshots/monday")).exists());
    assert_eq!(manifest(&directory), first);
    clean(&daemon);
}

#[test]
fn rules_make_and_destroy_snapshots_by_the_clock() {
    let (_scene, _janitor, mut daemon, directory) = mounted();
    std::fs::write(format!("{directory}/file"), "something").expect("written");
    daemon.please(&["snapshot", "create", "tank/files@by hand"]);
    for (arguments, why) in [
        (["--every", "90s", "--keep", "3"], "whole minutes"),
        (["--every", "1m", "--keep", "0"], "at least one"),
        (["--every", "1m", "--keep", "1001"], "1000 snapshots at most"),
    ] {
        let refused = daemon.cli(&[&["snapshot", "schedule", "set", "tank/files"], &arguments[..]].concat()).refused();
        assert!(refused.contains(why), "{refused}");
    }
    let daily = ["snapshot", "schedule", "set", "tank/files", "--every", "1d", "--keep", "7"];
    let each_minute = |keep| ["snapshot", "schedule", "set", "tank/files", "--every", "1m", "--keep", keep];
    assert_eq!(daemon.json(&daily)["changed"], true);
    assert_eq!(daemon.json(&daily)["changed"], false);
    daemon.please(&each_minute("2"));
    let made = |daemon: &Daemon, every: u64| -> Vec<String> {
        let listed = daemon.json(&["snapshot", "list", "tank/files"]);
        let own = listed.as_array().expect("a list").iter().filter(|one| one["every_seconds"] == every);
        own.filter_map(|one| Some(one["name"].as_str()?.to_owned())).collect()
    };
    wait_until("both have made one", 20, || made(&daemon, 60).len() == 1 && made(&daemon, 86_400).len() == 1);
    let first = made(&daemon, 60);
    daemon.kill();
    daemon.start_again();
    wait_until("the next minute has its own", 90, || made(&daemon, 60).len() == 2);
    let refused = daemon.cli(&each_minute("1")).refused();
    assert!(
        refused.contains("1 snapshot of that interval would be destroyed") && refused.contains("--yes"),
        "{refused}"
    );
    assert_eq!(made(&daemon, 60).len(), 2, "nothing is changed");
    daemon.please(&[&each_minute("1")[..], &["--yes"]].concat());
    wait_until("the newest has taken its place", 20, || {
        let now = made(&daemon, 60);
        now.len() == 1 && now != first
    });
    // A rule that is removed and comes again knows those of before.
    daemon.please(&each_minute("1"));
    assert_eq!(made(&daemon, 86_400).len(), 1);
    let shown = daemon.please(&["snapshot", "schedule", "show", "tank/files"]);
    assert!(shown.contains("1m") && shown.contains("1d"), "{shown}");
    daemon.please(&["snapshot", "schedule", "remove", "tank/files", "--every", "1m"]);
    daemon.please(&["snapshot", "schedule", "remove", "tank/files"]);
    assert_eq!(daemon.json(&["snapshot", "schedule", "remove", "tank/files"])["changed"], false);
    let names = daemon.json(&["snapshot", "list", "tank/files"]);
    assert_eq!(names.as_array().map(Vec::len), Some(3), "those that are there stay: {names}");
    wait_for_jobs(&daemon);
    clean(&daemon);
}

/// Changes files at random until it is over.
fn exercise(directory: &str, seed: u64, over: &AtomicBool) {
    let mut random = Random::new(seed);
    while !over.load(Ordering::Relaxed) {
        let path = format!("{directory}/load{}", random.below(20));
        let data = bytes(random.next_u64(), random.below(300_000) as usize);
        // Between a kill and the next start nothing answers.
        let done = match random.below(5) {
            0 => std::fs::remove_file(&path),
            1 => std::fs::rename(&path, format!("{directory}/load{}", random.below(20))),
            2 => {
                File::options().write(true).open(&path).and_then(|file| file.write_all_at(&data, random.below(100_000)))
            }
            _ => std::fs::write(&path, &data),
        };
        if done.is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn snapshots_are_whole_or_not_there_after_kills() {
    let (_scene, _janitor, mut daemon, directory) = mounted();
    let rounds: u64 =
        std::env::var("HOLDFAST_KILLS").ok().and_then(|text| text.parse().ok()).map_or(6, |all: u64| all.min(90));
    let kept = format!("{directory}/kept");
    std::fs::create_dir(&kept).expect("made");
    std::fs::create_dir(format!("{directory}/load")).expect("made");
    let mut random = Random::new(7);
    let mut known: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for round in 0..rounds {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (load, over) = (format!("{directory}/load"), &over);
            scope.spawn(move || exercise(&load, round, over));
            for number in 0..4 {
                std::fs::write(format!("{kept}/f{number}"), bytes(round * 10 + number, 200_000)).expect("written");
            }
            File::open(&kept).and_then(|open| open.sync_all()).expect("durable");
            let (name, has) = (format!("s{round}"), manifest(&kept));
            daemon.please(&["snapshot", "create", &format!("tank/files@{name}")]);
            known.insert(name, has);
            // One of the three is under way when it dies.
            let path = known.keys().next().cloned().expect("one");
            let going = match round % 3 {
                0 => vec!["snapshot".to_owned(), "create".into(), format!("tank/files@cut{round}")],
                1 => vec!["snapshot".to_owned(), "destroy".into(), format!("tank/files@{path}"), "--yes".into()],
                _ => {
                    let from = format!("tank/files@{path}");
                    let words = ["snapshot", "restore", &from, "--path", "/load", "--discard", "--yes"];
                    words.map(str::to_owned).to_vec()
                }
            };
            let arguments: Vec<&str> = going.iter().map(String::as_str).collect();
            std::thread::scope(|scope| {
                let asked = scope.spawn(|| daemon.cli(&arguments).success());
                std::thread::sleep(Duration::from_micros(random.below(60_000)));
                daemon.strike();
                let was_done = asked.join().expect("it answers or fails");
                if round % 3 == 1 {
                    let has = known.remove(&path).expect("it was known");
                    if !was_done {
                        known.insert(path.clone(), has);
                    }
                }
            });
            over.store(true, Ordering::Relaxed);
        });
        daemon.kill();
        daemon.start_again();
        wait_until("it is mounted", 30, || Path::new(&kept).exists());
        let listed = daemon.json(&["snapshot", "list", "tank/files"]);
        let names: Vec<String> = listed
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|one| Some(one["name"].as_str()?.to_owned()))
            .collect();
        if round % 3 == 1 {
            // The one that was being destroyed is there, or it is not.
            known.retain(|name, _| names.contains(name) || *name != format!("s{}", round - 1));
        }
        for (name, has) in &known {
            assert!(names.contains(name) || round % 3 == 1, "{name} of {names:?}");
            if names.contains(name) {
                assert_eq!(
                    &manifest(&format!("{directory}/.snapshots/{name}/kept")),
                    has,
                    "{name} after round {round}"
                );
            }
        }
        known.retain(|name, _| names.contains(name));
        wait_for_jobs(&daemon);
        clean(&daemon);
    }
}

/// The inode of a file.
fn inode(path: &str) -> u64 {
    std::fs::symlink_metadata(path).expect("it is there").ino()
}

#[test]
fn a_restore_lasts_and_repeated_finds_nothing_to_do() {
    let (_scene, _janitor, mut daemon, directory) = mounted();
    let at = |name: &str| format!("{directory}/{name}");
    std::fs::create_dir_all(at("d/e")).expect("made");
    for number in 0..200u64 {
        std::fs::write(at(&format!("d/f{number}")), bytes(number, 5000)).expect("written");
    }
    std::fs::write(at("d/large"), bytes(1, 9 * MIB as usize)).expect("written");
    std::fs::write(at("d/one"), "linked").expect("written");
    std::fs::hard_link(at("d/one"), at("d/e/two")).expect("linked");
    let whole = manifest(&directory);
    daemon.please(&["snapshot", "create", "tank/files@s"]);
    run("rm", &["-r", &at("d")]).succeeded();
    let restore = ["snapshot", "restore", "tank/files@s", "--path", "/d", "--yes", "--wait"];
    daemon.please(&restore);
    // Nothing is lost of what was answered as done.
    daemon.kill();
    daemon.start_again();
    wait_until("it is mounted", 20, || Path::new(&at("d")).exists());
    assert_eq!(manifest(&directory), whole);
    assert_eq!(inode(&at("d/one")), inode(&at("d/e/two")));
    let before = (inode(&at("d/large")), inode(&at("d/f7")), inode(&at("d/one")));
    let again = daemon.please(&restore);
    assert!(again.contains("0 files and directories restored, 0 B written, 0 removed"), "{again}");
    assert_eq!((inode(&at("d/large")), inode(&at("d/f7")), inode(&at("d/one"))), before);

    // Names of one file, one of which is gone; by a path, whichever is come by first.
    for gone in ["d/one", "d/e/two"] {
        std::fs::remove_file(at(gone)).expect("removed");
        daemon.please(&restore);
        assert_eq!(inode(&at("d/one")), inode(&at("d/e/two")), "{gone} came back");
        assert_eq!(manifest(&directory), whole);
    }
    std::fs::write(at("d/e/two"), "other").expect("written");
    let told = differences(&daemon, &["tank/files@s", "--path", "/d/e"]);
    assert!(told.iter().any(|one| one.ends_with(" /d/e/two")), "by the name that is there: {told:?}");
    daemon.please(&restore);

    // A quota came between: the file cannot be the same one any more.
    std::fs::create_dir(at("limited")).expect("made");
    for number in 0..20 {
        std::fs::rename(at(&format!("d/f{number}")), at(&format!("limited/f{number}"))).expect("moved");
    }
    daemon.please(&["volume", "quota", "set", "tank/files", "--path", "/limited", "--size", "100MiB"]);
    wait_for_jobs(&daemon);
    daemon.please(&["snapshot", "restore", "tank/files@s", "--yes", "--wait"]);
    assert_eq!(manifest(&directory), whole);

    // What is written to mapped memory is in the next snapshot, and does not come over what is restored.
    std::fs::write(at("d/large"), vec![b'a'; 2 * MIB as usize]).expect("written");
    let program = "import mmap, sys\n\
                   file = open(sys.argv[1], 'r+b')\n\
                   memory = mmap.mmap(file.fileno(), 0)\n\
                   memory[0:4] = b'YYYY'\n\
                   print('written', flush=True)\n\
                   sys.stdin.readline()\n\
                   memory[4:8] = b'ZZZZ'\n\
                   print('written', flush=True)\n\
                   sys.stdin.readline()\n";
    let mut mapping = std::process::Command::new("python3")
        .args(["-c", program, &at("d/large")])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let mut output = BufReader::new(mapping.stdout.take().expect("piped"));
    output.read_line(&mut String::new()).expect("it says so");
    daemon.please(&["snapshot", "create", "tank/files@mapped"]);
    let kept = std::fs::read(at(".snapshots/mapped/d/large")).expect("read");
    assert_eq!(&kept[..6], b"YYYYaa");
    mapping.stdin.as_mut().expect("piped").write_all(b"\n").expect("it listens");
    output.read_line(&mut String::new()).expect("it says so");
    let told = daemon.please(&restore);
    let (_, keep) = told.split_once("; snapshot ").expect("it names one");
    let keep = keep.split_whitespace().next().expect("a name");
    let kept = std::fs::read(at(&format!(".snapshots/{keep}/d/large"))).expect("read");
    assert_eq!(&kept[..10], b"YYYYZZZZaa", "what is restored over is kept");
    drop(mapping.stdin.take());
    mapping.wait().expect("it ends");
    assert_eq!(manifest(&directory), whole);

    for (to, why) in [
        ("/.snapshots/x", "leads to the snapshots"),
        ("/d/..", "\"..\" is no name"),
        ("/none/x", "is in no directory that is there"),
        ("/", "the root is there already"),
    ] {
        let refused = daemon.cli(&["snapshot", "restore", "tank/files@s", "--path", "/d", "--to", to]).refused();
        assert!(refused.contains(why), "{to}: {refused}");
    }
    clean(&daemon);
}

#[test]
fn who_writes_beyond_a_quota_to_mapped_memory_keeps_nobody_from_having_snapshots() {
    let (_scene, _janitor, daemon, directory) = mounted();
    let at = |name: &str| format!("{directory}/{name}");
    std::fs::write(at("file"), "something").expect("written");
    std::fs::create_dir(at("limited")).expect("made");
    daemon.please(&["volume", "quota", "set", "tank/files", "--path", "/limited", "--size", "1MiB"]);
    wait_for_jobs(&daemon);
    File::create(at("limited/large")).and_then(|file| file.set_len(8 * MIB)).expect("a file with a hole");
    let program = "import mmap, sys\n\
                   file = open(sys.argv[1], 'r+b')\n\
                   memory = mmap.mmap(file.fileno(), 0)\n\
                   for line in sys.stdin:\n    \
                       memory[:] = b'x' * len(memory)\n    \
                       print('written', flush=True)\n";
    let mut mapping = std::process::Command::new("python3")
        .args(["-c", program, &at("limited/large")])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let mut output = BufReader::new(mapping.stdout.take().expect("piped"));
    let mut input = mapping.stdin.take().expect("piped");
    let mut write = || {
        input.write_all(b"\n").expect("it listens");
        output.read_line(&mut String::new()).expect("it says so");
    };
    let lacks = "not all that programs wrote to mapped memory is in it";
    let told = |daemon: &Daemon, what: &str| {
        let events = daemon.json(&["event", "list"]);
        let is_it = |event: &&Value| {
            let cause = event["cause"].as_str().unwrap_or_default();
            cause.contains(what) && cause.contains(lacks)
        };
        events.as_array().expect("a list").iter().filter(is_it).count()
    };
    write();
    let made = daemon.please(&["snapshot", "create", "tank/files@hand"]);
    assert!(made.contains(lacks), "{made}");
    assert_eq!(told(&daemon, "snapshot hand"), 1);
    assert_eq!(std::fs::read(at(".snapshots/hand/file")).expect("read"), b"something");
    write();
    daemon.please(&["snapshot", "schedule", "set", "tank/files", "--every", "1d", "--keep", "7"]);
    wait_until("the rule has made one", 20, || told(&daemon, "its snapshots of each 1d") == 1);
    let listed = daemon.please(&["snapshot", "list", "tank/files"]);
    assert!(listed.contains("auto-1d-"), "{listed}");
    assert!(daemon.json(&["volume", "show", "tank/files"]).to_string().contains(lacks), "its health says so");
    std::fs::write(at("file"), "other").expect("written");
    write();
    daemon.please(&["snapshot", "restore", "tank/files@hand", "--path", "/file", "--yes", "--wait"]);
    assert_eq!(std::fs::read(at("file")).expect("read"), b"something");
    assert_eq!(told(&daemon, "which keeps what was there before a restore"), 1);
    drop(input);
    mapping.wait().expect("it ends");
    daemon.please(&["snapshot", "schedule", "remove", "tank/files"]);
    clean(&daemon);
}

#[test]
fn a_restore_elsewhere_goes_on_and_its_snapshot_stays_meanwhile() {
    let (_scene, _janitor, mut daemon, directory) = mounted();
    let at = |name: &str| format!("{directory}/{name}");
    std::fs::create_dir(at("d")).expect("made");
    for number in 0..300u64 {
        std::fs::write(at(&format!("d/f{number}")), bytes(number, 60_000)).expect("written");
    }
    let whole = manifest(&at("d"));
    daemon.please(&["snapshot", "create", "tank/files@s"]);
    let restore = ["snapshot", "restore", "tank/files@s", "--path", "/d", "--to", "/copy", "--cap", "2MiB/s"];
    let job = daemon.json(&restore)["job"]["id"].to_string();
    wait_until("it has begun", 20, || {
        std::fs::read_dir(&directory)
            .expect("read")
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with(".restoring-"))
    });
    daemon.please(&["job", "pause", &job]);
    assert!(!Path::new(&at("copy")).exists(), "it has its name when it is whole");
    let refused = daemon.cli(&["snapshot", "destroy", "tank/files@s", "--yes"]).refused();
    assert!(refused.contains(&format!("job {job} restores files from it")), "{refused}");
    daemon.kill();
    daemon.start_again();
    wait_until("it is mounted", 20, || Path::new(&at("d")).exists());
    let refused = daemon.cli(&["snapshot", "destroy", "tank/files@s", "--yes"]).refused();
    assert!(refused.contains("restores files from it"), "after a restart, too: {refused}");
    daemon.please(&["job", "set", &job, "--cap", "none"]);
    daemon.please(&["job", "resume", &job]);
    wait_for_jobs(&daemon);
    assert_eq!(manifest(&at("copy")), whole);
    let names = std::fs::read_dir(&directory).expect("read").count();
    assert_eq!(names, 2, "d and copy, and nothing half done");
    daemon.please(&["snapshot", "destroy", "tank/files@s", "--yes"]);
    wait_for_jobs(&daemon);
    clean(&daemon);
}
