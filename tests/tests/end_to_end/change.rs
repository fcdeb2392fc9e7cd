//! A pool over the years: spaces get other shapes, disks are added, emptied and lost, all under load and with kills between.

use std::time::Duration;

use holdfast_tests::command::wait_until;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::load::Load;
use holdfast_tests::random::Random;
use holdfast_tests::scene::Scene;

use crate::crash::{CLIENTS, SPACE_BYTES};

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
        assert!(slabs.iter().all(|slab| slab["path"] != disks[0].as_str() && slab["path"] != disks[1].as_str()), "{row}");
    }
    assert_eq!(daemon.json(&["space", "verify", "tank/vm"])["mismatched_blocks"], 0);
}
