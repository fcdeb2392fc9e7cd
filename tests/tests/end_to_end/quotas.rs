//! Quotas of a mounted volume, as ordinary programs meet them.

use std::fs::{File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};

use holdfast_tests::command::{Finished, run, run_with, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::scene::Scene;
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A daemon with the volume `tank/files`, and the directory that it is mounted on.
fn mounted() -> (Scene, Janitor, Daemon, String) {
    let (scene, janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 3, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "256MiB", "--layout", "mirror"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    (scene, janitor, daemon, directory)
}

fn folder(directory: &str, name: &str) -> String {
    let folder = format!("{directory}/{name}");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("open to all");
    folder
}

/// Runs a program as a user, in a directory that the user need not find by its path.
fn as_user(user: u32, directory: &str, command: &[&str]) -> Finished {
    let user = user.to_string();
    let ids = ["--reuid", &user, "--regid", &user, "--clear-groups"];
    run_with("setpriv", &[&ids[..], command].concat(), |setpriv| _ = setpriv.current_dir(directory))
}

/// `dd` as a user writes so many MiB.
fn dd(user: u32, (directory, name): (&str, &str), mebibytes: u64) -> Finished {
    let (of, count) = (format!("of={name}"), format!("count={mebibytes}"));
    as_user(user, directory, &["dd", "if=/dev/zero", &of, "bs=1M", &count, "conv=fsync"])
}

fn is_refused(finished: &Finished) -> bool {
    !finished.success() && finished.complaint().contains("Disk quota exceeded")
}

/// The quota of this name, as the command line lists it.
fn quota(daemon: &Daemon, kind: &str, name: &str) -> Option<Value> {
    let listed = daemon.json(&["volume", "quota", "list", "tank/files", "--all"]);
    let quotas = listed.as_array().expect("a list");
    quotas.iter().find(|quota| quota["kind"] == kind && quota["name"] == name).cloned()
}

fn used(daemon: &Daemon, kind: &str, name: &str) -> (u64, u64) {
    let quota = quota(daemon, kind, name).unwrap_or_default();
    (quota["used_bytes"].as_u64().unwrap_or(0), quota["used_files"].as_u64().unwrap_or(0))
}

fn settled(daemon: &Daemon, name: &str) {
    wait_until("its files are counted", 20, || {
        quota(daemon, "tree", name).is_some_and(|quota| quota["state"] == "settled")
    });
}

#[test]
fn users_and_directories_get_no_more_than_their_limits_over_restarts_and_kills() {
    let (_scene, _janitor, mut daemon, directory) = mounted();
    let (home, project) = (folder(&directory, "home"), folder(&directory, "project"));
    let set = ["volume", "quota", "set", "tank/files", "--user", "4001", "--size", "10MiB", "--files", "20"];
    assert_eq!(daemon.json(&set)["changed"], true);
    assert_eq!(daemon.json(&set)["changed"], false, "a second time");
    let full = format!("{home}/full");
    assert!(is_refused(&dd(4001, (&home, "full"), 20)));
    assert_eq!(std::fs::metadata(&full).expect("there").len(), 10 * MIB, "what the limit leaves was written");
    assert_eq!(used(&daemon, "user", "4001"), (10 * MIB, 1));
    assert!(dd(4002, (&home, "other"), 20).success(), "nobody limits others");
    std::fs::remove_file(&full).expect("removed");
    wait_until("its room is free", 5, || used(&daemon, "user", "4001") == (0, 0));
    assert!(dd(4001, (&home, "full"), 9).success());

    // A file changes its owner, and what it takes with it.
    run("chown", &["4003:4003", &full]).succeeded();
    assert_eq!((used(&daemon, "user", "4001"), used(&daemon, "user", "4003")), ((0, 0), (9 * MIB, 1)));
    assert_eq!(used(&daemon, "group", "4003"), (9 * MIB, 1));
    let many = "for n in $(seq 30); do : > many.$n || exit 1; done";
    let finished = as_user(4001, &home, &["sh", "-c", many]);
    assert!(is_refused(&finished), "{}", finished.complaint());
    assert_eq!(used(&daemon, "user", "4001"), (0, 20));

    // A directory with files in it.
    std::fs::create_dir_all(format!("{project}/a/b")).expect("folders");
    assert!(dd(0, (&project, "a/old"), 3).success());
    let answer = daemon.json(&["volume", "quota", "set", "tank/files", "--path", "/project", "--size", "8MiB"]);
    assert_eq!((&answer["changed"], &answer["quota"]["name"]), (&true.into(), &"/project".into()), "{answer}");
    settled(&daemon, "/project");
    assert_eq!(used(&daemon, "tree", "/project"), (3 * MIB, 4));
    assert!(is_refused(&dd(0, (&project, "a/b/new"), 6)), "also for root");
    let df = run("df", &["--output=size,avail", "-B1", &format!("{project}/a")]).succeeded();
    let figures: Vec<u64> = df.lines().nth(1).expect("figures").split_whitespace().flat_map(str::parse).collect();
    assert_eq!(figures, [8 * MIB, 0], "the limit is the size");
    let shown = daemon.json(&["volume", "show", "tank/files"]);
    wait_until("health tells of it", 10, || {
        let shown = daemon.json(&["volume", "show", "tank/files"]);
        shown["conditions"].to_string().contains("directory tree /project at 100 %")
    });
    assert_eq!(shown["state"], "open");
    let metrics = daemon.metrics();
    let label = "kind=\"tree\",name=\"/project\"";
    assert_eq!(metrics.sum("holdfast_volume_quota_used_bytes", label), (8 * MIB) as f64);
    assert_eq!(metrics.sum("holdfast_volume_quota_limit_bytes", label), (8 * MIB) as f64);
    wait_until("an event tells of it", 20, || {
        let events = daemon.json(&["event", "list"]).to_string();
        events.contains("directory tree /project uses up its quota of 8 MiB")
    });
    let moved = std::fs::rename(format!("{project}/a/old"), format!("{home}/old"));
    assert_eq!(moved.expect_err("another tree").kind(), ErrorKind::CrossesDevices);
    run("mv", &[&format!("{project}/a/old"), &format!("{home}/old")]).succeeded();
    assert_eq!(used(&daemon, "tree", "/project"), (5 * MIB, 4));

    // It holds over a restart, and over a kill.
    daemon.end();
    daemon.start_again();
    assert_eq!((used(&daemon, "tree", "/project"), used(&daemon, "user", "4001")), ((5 * MIB, 4), (0, 20)));
    let soft = ["volume", "quota", "set", "tank/files", "--path", "/project", "--size", "8MiB", "--soft-size", "1MiB"];
    let set = daemon.json(&soft);
    assert_eq!((&set["changed"], &set["job"]), (&true.into(), &Value::Null), "nothing is to be counted");
    let told = "directory tree /project is beyond its soft limit of 1 MiB: it takes 5 MiB and 4 files";
    assert!(daemon.json(&["event", "list"]).to_string().contains(told), "it is told at once");
    let shown = daemon.json(&["volume", "show", "tank/files"])["conditions"].to_string();
    assert!(shown.contains("directory tree /project beyond its soft limit of 1 MiB"), "{shown}");
    assert!(is_refused(&dd(4002, (&project, "more"), 4)));
    run("sync", &["-f", &directory]).succeeded();
    let before = used(&daemon, "tree", "/project");
    daemon.kill();
    daemon.start_again();
    assert_eq!(used(&daemon, "tree", "/project"), before);
    assert!(is_refused(&dd(4002, (&project, "more"), 4)));
    let finished = as_user(4001, &home, &["touch", "one more"]);
    assert!(is_refused(&finished), "{}", finished.complaint());
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");

    let removed = daemon.json(&["volume", "quota", "remove", "tank/files", "--path", "/project"]);
    assert_eq!(removed["changed"], true);
    assert!(dd(4002, (&project, "more"), 20).success());
    wait_until("nothing is left of it", 20, || quota(&daemon, "tree", "/project").is_none());
    daemon.please(&["volume", "quota", "remove", "tank/files", "--user", "4001"]);
    let removed = daemon.json(&["volume", "quota", "remove", "tank/files", "--user", "4001"]);
    assert_eq!(removed["changed"], false);
    assert_eq!(daemon.json(&["volume", "quota", "list", "tank/files"]), serde_json::json!([]));
    let refusal =
        daemon.cli(&["volume", "quota", "set", "tank/files", "--path", "/nowhere", "--size", "1GiB"]).refused();
    assert!(refusal.contains("/nowhere"), "{refusal}");
    let refusal = daemon.cli(&["volume", "quota", "set", "tank/files", "--user", "nobody knows", "--size", "1GiB"]);
    assert!(refusal.refused().contains("knows no user"));
    for (option, name, part) in [
        ("--user", "4294967297", "knows no user"),
        ("--group", "4294967295", "knows no group"),
        ("--path", "", "does not begin at the volume's root"),
        ("--path", "project", "does not begin at the volume's root"),
        ("--path", "/project/more", "no directory"),
    ] {
        let refusal = daemon.cli(&["volume", "quota", "set", "tank/files", option, name, "--size", "1GiB"]).refused();
        assert!(refusal.contains(part), "{option} {name:?}: {refusal}");
        let refusal = daemon.cli(&["volume", "quota", "remove", "tank/files", option, name]).refused();
        assert!(refusal.contains(part), "{option} {name:?}: {refusal}");
    }
    for path in ["/nowhere", &format!("/{}", "x".repeat(300))] {
        let refusal = daemon.cli(&["volume", "quota", "remove", "tank/files", "--path", path]).refused();
        assert!(refusal.contains(&format!("path {path} of volume tank/files does not exist")), "{refusal}");
    }
    let unset = daemon.please(&["volume", "quota", "remove", "tank/files", "--path", "/project"]);
    assert_eq!(unset.trim(), "nothing changed: directory tree /project has no quota on volume tank/files");
    let root = daemon.cli(&["volume", "quota", "set", "tank/files", "--user", "root", "--size", "1GiB"]).refused();
    assert!(root.contains("user 0") && root.contains("next: 'holdfast volume quota list tank/files'"), "{root}");
}

#[test]
fn names_of_directories_break_no_lines() {
    let (_scene, _janitor, daemon, directory) = mounted();
    folder(&directory, "one\ntwo\u{1b}[2J");
    let path = "/one\ntwo\u{1b}[2J";
    let set = daemon.please(&["volume", "quota", "set", "tank/files", "--path", path, "--files", "1"]);
    settled(&daemon, path);
    wait_until("it is told", 20, || daemon.please(&["volume", "show", "tank/files"]).contains("100 %"));
    for told in [
        set,
        daemon.please(&["volume", "quota", "list", "tank/files"]),
        daemon.please(&["volume", "show", "tank/files"]),
        daemon.please(&["event", "list"]),
        daemon.please(&["status"]),
    ] {
        assert!(told.contains("/one\u{fffd}two\u{fffd}[2J"), "{told:?}");
        assert!(!told.contains('\u{1b}') && told.lines().all(|line| !line.starts_with("two")), "{told:?}");
    }
}

#[test]
fn a_kill_while_a_directory_is_counted_leaves_nothing_uncounted() {
    let (_scene, _janitor, mut daemon, directory) = mounted();
    let project = folder(&directory, "project");
    for number in 0..40 {
        let below = format!("{project}/d{number}");
        std::fs::create_dir(&below).expect("a folder");
        for number in 0..50 {
            let mut file = File::create(format!("{below}/f{number}")).expect("a file");
            file.write_all(&[7; 3000]).expect("written");
        }
    }
    let all = 1 + 40 + 40 * 50;
    for round in 0..3 {
        daemon.please(&["volume", "quota", "set", "tank/files", "--path", "/project", "--files", "5000"]);
        let file = File::create(format!("{project}/d{round}/new")).expect("a file");
        file.write_all_at(&[9; 5000], 0).expect("written");
        file.sync_all().expect("durable");
        daemon.kill();
        daemon.start_again();
        settled(&daemon, "/project");
        assert_eq!(used(&daemon, "tree", "/project").1, all + round + 1, "round {round}");
        daemon.please(&["volume", "quota", "remove", "tank/files", "--path", "/project"]);
        if round == 1 {
            daemon.kill();
            daemon.start_again();
        }
        wait_until("it is gone", 20, || quota(&daemon, "tree", "/project").is_none());
    }
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
}
