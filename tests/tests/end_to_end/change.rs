//! A pool over the years: spaces get other shapes, disks are added, emptied and lost, all under load and with kills
//! between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_tests::command::wait_until;
use holdfast_tests::corruption::corrupt;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::fio::Rounds;
use holdfast_tests::load::Load;
use holdfast_tests::losses::{give, take, wait_in_step, wait_missing};
use holdfast_tests::random::Random;
use holdfast_tests::scene::Scene;

use crate::crash::{CLIENTS, SPACE_BYTES};

/// Half of what fio writes and verifies in a space, beside the load.
const HALF_BYTES: u64 = 8 << 20;

fn sound(load: &Load, daemon: &Daemon, when: &str) {
    let faults = load.check(&daemon.nbd_socket(), "vm", 3);
    assert!(faults.is_empty(), "{when}:\n{}", faults[..faults.len().min(20)].join("\n"));
}

fn no_job_is_open(daemon: &Daemon) -> bool {
    let jobs = daemon.json(&["job", "list", "--all"]);
    let failed = |job: &&serde_json::Value| job["state"] == "failed";
    let jobs = jobs.as_array().expect("an array of jobs");
    assert!(!jobs.iter().any(|job| failed(&job)), "{jobs:?}");
    jobs.iter().all(|job| job["state"] == "done")
}

/// Mirror to dual parity to three copies and so on while clients write, with a kill in each round.
#[test]
fn kill_under_load_while_a_space_changes_its_shape() {
    let mut random = Random::announced();
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 8, "256MiB");
    daemon.space("tank/vm", &["--layout", "mirror", "--thin", "--size", &SPACE_BYTES.to_string()]);
    let load = Load::new(CLIENTS, SPACE_BYTES);
    let shapes: [&[&str]; 5] = [
        &["--layout", "parity", "--parity", "2", "--columns", "6"],
        &["--layout", "mirror", "--copies", "3", "--columns", "2", "--fixed"],
        &["--layout", "parity", "--parity", "1", "--interleave", "64KiB", "--thin"],
        &["--layout", "mirror", "--copies", "2", "--columns", "3"],
        &["--columns", "4", "--interleave", "16KiB"],
    ];
    for (round, shape) in shapes.iter().cycle().take(10).enumerate() {
        let (before, after) = (100 + random.below(300), 100 + random.below(900));
        let mut seeds = Random::new(random.next_u64());
        let socket = daemon.nbd_socket();
        std::thread::scope(|scope| {
            let running = scope.spawn(|| load.run(&socket, "vm", &mut seeds));
            std::thread::sleep(Duration::from_millis(before));
            daemon.please(&[&["space", "convert", "tank/vm"], *shape].concat());
            std::thread::sleep(Duration::from_millis(after));
            daemon.kill();
            running.join().expect("the load finds no fault");
        });
        daemon.start_again();
        sound(&load, &daemon, &format!("round {round}, {shape:?}"));
        wait_until("the conversion goes on to its end", 90, || no_job_is_open(&daemon));
        sound(&load, &daemon, &format!("round {round}, converted"));
    }
    let space = daemon.json(&["space", "show", "tank/vm"]);
    assert_eq!((&space["layout"], &space["columns"]), (&"mirror".into(), &4.into()), "{space}");
    assert_eq!(daemon.json(&["space", "verify", "tank/vm"])["mismatched_blocks"], 0);
}

/// A disk is emptied, another one is lost and what it held is rebuilt by itself, while clients write.
#[test]
fn disks_come_and_go_for_good_under_load() {
    let mut random = Random::announced();
    let scene = Scene::new();
    let mut daemon = Daemon::start_with(&scene, "daemon", &["--repair-after", "500ms"]);
    let disks = daemon.pool(&scene, "tank", 8, "256MiB");
    let size = SPACE_BYTES.to_string();
    daemon.space("tank/vm", &["--layout", "parity", "--parity", "2", "--columns", "5", "--thin", "--size", &size]);
    let load = Load::new(CLIENTS, SPACE_BYTES);
    let socket = daemon.nbd_socket();
    let mut seeds = Random::new(random.next_u64());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| load.run(&socket, "vm", &mut seeds));
        std::thread::sleep(Duration::from_millis(400));
        daemon.please(&["disk", "evacuate", &disks[1], "--wait"]);
        std::fs::rename(&disks[0], format!("{}.away", disks[0])).expect("a disk can be moved away");
        wait_until("what was lost is rebuilt", 90, || {
            let jobs = daemon.json(&["job", "list", "--all"]);
            let repaired = |job: &serde_json::Value| job["kind"] == "repair" && job["state"] == "done";
            jobs.as_array().expect("an array").iter().any(repaired)
                && daemon.json(&["space", "show", "tank/vm"])["stale_slabs"] == 0
        });
        daemon.kill();
        running.join().expect("the load finds no fault");
    });
    daemon.start_again();
    sound(&load, &daemon, "after all");
    for row in daemon.json(&["space", "map", "tank/vm"]).as_array().expect("rows") {
        let slabs = row["slabs"].as_array().expect("slabs");
        assert!(
            slabs.iter().all(|slab| slab["path"] != disks[0].as_str() && slab["path"] != disks[1].as_str()),
            "{row}"
        );
    }
    assert_eq!(daemon.json(&["space", "verify", "tank/vm"])["mismatched_blocks"], 0);
}

/// What befalls a pool in one round of [`ten_years_of_a_pool`].
enum Fate {
    /// A disk that has slabs answers something else than was written, from a moment of rest on.
    Corrupt,
    /// A command, under load.
    Do(Vec<String>),
    /// A disk is away for a while, under load.
    Away(usize),
    /// A disk is gone, and what it held goes to another one.
    Gone(usize, String),
}

/// Disks are pulled, returned, corrupted, replaced, added and lost, the space is a mirror, dual parity and a mirror
/// again, and the daemon is killed ten times: all that under load, of fio that verifies what it wrote among others, and
/// nothing that was written is ever other than it was.
#[test]
fn ten_years_of_a_pool() {
    let mut random = Random::announced();
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 8, "256MiB");
    let size = SPACE_BYTES + 2 * HALF_BYTES;
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--thin", "--size", &size.to_string()]);
    let mut judge = Rounds::new(SPACE_BYTES, HALF_BYTES);
    let fresh: Vec<String> = (0..4).map(|number| scene.path(&format!("fresh{number}"))).collect();
    for disk in &fresh {
        daemon.please(&["disk", "create-file", disk, "--size", "256MiB"]);
    }
    let words = |line: &[&str]| Fate::Do(line.iter().map(ToString::to_string).collect());
    let fates = [
        Fate::Away(1),
        Fate::Corrupt,
        words(&["space", "convert", "tank/vm", "--layout", "parity", "--parity", "2", "--columns", "6"]),
        Fate::Corrupt,
        words(&["pool", "add", "tank", "--disk", &fresh[0]]),
        words(&["disk", "replace", &disks[3], &fresh[1]]),
        words(&["space", "convert", "tank/vm", "--layout", "mirror"]),
        Fate::Corrupt,
        words(&["pool", "add", "tank", "--disk", &fresh[2]]),
        Fate::Gone(5, fresh[3].clone()),
    ];
    let load = Load::new(CLIENTS, SPACE_BYTES);
    for (round, fate) in fates.into_iter().enumerate() {
        if let Fate::Corrupt = fate {
            wait_until("all is at rest", 90, || daemon.json(&["space", "show", "tank/vm"])["dirty_bytes"] == 0);
            let disk = daemon.json(&["space", "map", "tank/vm"])[0]["slabs"][round % 3]["path"].clone();
            assert!(corrupt(&daemon, "tank/vm", |slabs| slabs.iter().position(|slab| slab["path"] == disk)) > 0);
        }
        let (before, after) = (100 + random.below(300), 200 + random.below(800));
        let mut seeds = Random::new(random.next_u64());
        let (socket, over) = (daemon.nbd_socket(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let running = scope.spawn(|| load.run(&socket, "vm", &mut seeds));
            let judging = scope.spawn(|| judge.run(&uri, &over));
            std::thread::sleep(Duration::from_millis(before));
            match &fate {
                Fate::Corrupt => {}
                Fate::Do(words) => drop(daemon.please(&words.iter().map(String::as_str).collect::<Vec<_>>())),
                Fate::Away(disk) => {
                    take(&disks[*disk]);
                    wait_missing(&daemon, "tank", 1);
                    std::thread::sleep(Duration::from_millis(after));
                    give(&disks[*disk]);
                }
                Fate::Gone(disk, by) => {
                    take(&disks[*disk]);
                    wait_missing(&daemon, "tank", 1);
                    daemon.please(&["disk", "replace", &disks[*disk], by]);
                }
            }
            std::thread::sleep(Duration::from_millis(after));
            over.store(true, Ordering::SeqCst);
            daemon.kill();
            running.join().expect("the load finds no fault");
            judging.join().expect("fio finds no fault");
        });
        daemon.start_again();
        judge.check(&uri);
        sound(&load, &daemon, &format!("round {round}"));
        wait_until("what was begun goes on to its end", 120, || no_job_is_open(&daemon));
        wait_in_step(&daemon, "tank/vm");
        // What was corrupted is not left for the next misfortune.
        daemon.please(&["space", "scrub", "tank/vm", "--wait"]);
        judge.check(&uri);
        sound(&load, &daemon, &format!("round {round}, at rest"));
    }
    daemon.please(&["pool", "rebalance", "tank", "--wait"]);
    assert_eq!(daemon.json(&["space", "verify", "tank/vm"])["mismatched_blocks"], 0);
    let last = daemon.json(&["space", "scrub", "tank/vm", "--wait"]);
    assert!(last["result"].as_str().is_some_and(|result| result.ends_with("all agree")), "{last}");
    let pool = daemon.json(&["pool", "show", "tank"]);
    assert_eq!((pool["state"].as_str(), pool["disks"].as_array().map(Vec::len)), (Some("ok"), Some(10)), "{pool}");
    judge.check(&uri);
    assert!(judge.done() > 0, "no round of fio came to its end");
    sound(&load, &daemon, "after ten years");
}
