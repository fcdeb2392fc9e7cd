//! SIGKILL in the middle of load, again and again: what was acknowledged and flushed is there, and reads agree.

use std::time::Duration;

use holdfast_tests::command::wait_until;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::fio;
use holdfast_tests::load::Load;
use holdfast_tests::random::Random;
use holdfast_tests::scene::Scene;

/// What the load is made for.
pub const SPACE_BYTES: u64 = 64 << 20;
/// Clients of the load.
pub const CLIENTS: usize = 6;

/// Rounds of killing: 20, or `HOLDFAST_KILLS`.
pub fn rounds() -> u64 {
    std::env::var("HOLDFAST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

fn kill_under_load(layout: &[&str]) {
    let mut random = Random::announced();
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 4, "256MiB");
    let size = SPACE_BYTES.to_string();
    daemon.space("tank/vm", &[layout, &["--size", &size]].concat());
    let socket = daemon.nbd_socket();
    let load = Load::new(CLIENTS, SPACE_BYTES);
    for round in 0..rounds() {
        let after = 150 + random.below(600);
        let mut seeds = Random::new(random.next_u64());
        let done = std::thread::scope(|scope| {
            let running = scope.spawn(|| load.run(&socket, "vm", &mut seeds));
            load.wait(after);
            daemon.kill();
            running.join().expect("the load finds no fault")
        });
        daemon.start_again();
        let faults = load.check(&socket, "vm", 3);
        assert!(faults.is_empty(), "after kill {round}, {done:?}:\n{}", faults[..faults.len().min(20)].join("\n"));
        assert!(done.answered > 0, "round {round} did nothing");
    }
    wait_until("the copies are in step again", 30, || daemon.json(&["space", "show", "tank/vm"])["state"] == "ok");
}

#[test]
fn kill_under_load_loses_nothing_of_a_simple_space() {
    kill_under_load(&["--layout", "simple", "--interleave", "64KiB"]);
}

#[test]
fn kill_under_load_loses_nothing_of_a_thin_mirror() {
    kill_under_load(&["--layout", "mirror", "--interleave", "64KiB", "--thin"]);
}

#[test]
fn kill_under_load_loses_nothing_of_a_three_way_mirror() {
    kill_under_load(&["--layout", "mirror", "--copies", "3"]);
}

/// A disk goes away under load, the daemon is killed, and the disk comes back before or after the next start: what it
/// missed is never read from it.
#[test]
fn kill_under_load_while_disks_come_and_go() {
    let mut random = Random::announced();
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 4, "256MiB");
    let size = SPACE_BYTES.to_string();
    daemon.space("tank/vm", &["--layout", "mirror", "--interleave", "64KiB", "--thin", "--size", &size]);
    let socket = daemon.nbd_socket();
    let load = Load::new(CLIENTS, SPACE_BYTES);
    let sound = |when: &str| {
        let faults = load.check(&socket, "vm", 2);
        assert!(faults.is_empty(), "{when}:\n{}", faults[..faults.len().min(20)].join("\n"));
    };
    for round in 0..rounds() / 3 {
        let disk = &disks[random.below(disks.len() as u64) as usize];
        let away = format!("{disk}.away");
        let mut loads = 1 + random.below(2);
        let mut gone = false;
        while loads > 0 {
            loads -= 1;
            let (before, after) = (200 + random.below(500), random.below(2000));
            let mut seeds = Random::new(random.next_u64());
            std::thread::scope(|scope| {
                let running = scope.spawn(|| load.run(&socket, "vm", &mut seeds));
                std::thread::sleep(Duration::from_millis(before));
                if !gone {
                    std::fs::rename(disk, &away).expect("a disk can be moved away");
                    gone = true;
                    std::thread::sleep(Duration::from_millis(after));
                }
                daemon.kill();
                running.join().expect("the load finds no fault");
            });
            if loads == 0 && random.below(2) == 0 {
                std::fs::rename(&away, disk).expect("a disk can be moved back");
                gone = false;
            }
            daemon.start_again();
            sound(&format!("round {round}, {disk} {}", if gone { "away" } else { "back" }));
        }
        if gone {
            std::fs::rename(&away, disk).expect("a disk can be moved back");
        }
        wait_until("all is in step", 60, || {
            daemon.json(&["pool", "show", "tank"])["state"] == "ok"
                && daemon.json(&["space", "show", "tank/vm"])["state"] == "ok"
        });
        sound(&format!("round {round}, in step"));
    }
}

/// fio writes one block after the other and flushes; what it wrote long before the kill verifies.
pub fn kill_under_fio(disks: usize, layout: &[&str], rounds: u64) {
    const MIB: u64 = 1 << 20;
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", disks, "256MiB");
    let uri = daemon.space("tank/vm", &[layout, &["--size", "64MiB"]].concat());
    for round in 0..rounds {
        let seed = format!("--randseed={}", round + 1);
        let job = ["--rw=write", "--bs=16k", "--iodepth=1", "--fsync=8", "--verify=crc32c", "--verify_fatal=1", &seed];
        let load = fio::start(&uri, &[&job[..], &["--size=64m", "--do_verify=0", "--rate=16m"]].concat());
        let written =
            |daemon: &Daemon| daemon.json(&["nbd", "list"])[0]["counters"]["written_bytes"].as_u64().unwrap_or(0);
        wait_until("fio wrote for a while", 30, || written(&daemon) > (6 + round) * MIB);
        daemon.kill();
        assert!(!load.end(), "fio was to be cut off");
        daemon.start_again();
        let size = format!("--size={}m", 5 + round);
        fio::fio(&uri, &["--rw=read", "--bs=16k", "--iodepth=8", "--verify=crc32c", "--verify_fatal=1", &seed, &size])
            .succeeded();
    }
}

#[test]
fn kill_under_fio_leaves_what_fio_verifies() {
    kill_under_fio(4, &["--layout", "mirror"], 4);
}

/// An orderly end answers what is under way: nothing that was acknowledged is missing, flushed or not.
#[test]
fn an_orderly_end_under_load_loses_nothing() {
    let mut random = Random::announced();
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 4, "256MiB");
    daemon.space("tank/vm", &["--layout", "mirror", "--size", "64MiB", "--thin"]);
    let socket = daemon.nbd_socket();
    let load = Load::new(CLIENTS, SPACE_BYTES);
    for _ in 0..3 {
        std::thread::scope(|scope| {
            let running = scope.spawn(|| load.run(&socket, "vm", &mut random));
            std::thread::sleep(Duration::from_millis(500));
            daemon.end();
            running.join().expect("the load finds no fault");
        });
        load.settle_answered();
        daemon.start_again();
        let space = daemon.json(&["space", "show", "tank/vm"]);
        assert_eq!(space["state"], "ok", "an orderly end leaves nothing to bring in step: {space}");
        let faults = load.check(&socket, "vm", 2);
        assert!(faults.is_empty(), "{}", faults[..faults.len().min(20)].join("\n"));
    }
}
