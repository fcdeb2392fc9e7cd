//! SIGKILL under load, with disks lost before it and while the daemon is down: what was acknowledged and flushed is
//! there.

use std::time::Duration;

use holdfast_tests::daemon::Daemon;
use holdfast_tests::load::{Done, Load};
use holdfast_tests::losses::{give, put_back, take, wait_in_step};
use holdfast_tests::random::Random;
use holdfast_tests::scene::Scene;

use super::{DUAL, SINGLE, agrees};
use crate::crash::{CLIENTS, SPACE_BYTES, kill_under_fio, rounds};

/// When disks of a round are lost.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    Never,
    UnderLoad,
    WhileDown,
}

struct Scenery<'a> {
    daemon: &'a mut Daemon,
    load: &'a Load,
}

impl Scenery<'_> {
    /// Loads until the daemon is killed after a while, of which `lost` are gone for the last part.
    fn load_and_kill(&mut self, random: &mut Random, lost: &[&str]) -> Done {
        let socket = self.daemon.nbd_socket();
        let (before, after) = (150 + random.below(600), random.below(1500));
        let mut seeds = Random::new(random.next_u64());
        std::thread::scope(|scope| {
            let running = scope.spawn(|| self.load.run(&socket, "vm", &mut seeds));
            self.load.wait(before);
            if !lost.is_empty() {
                lost.iter().for_each(|disk| take(disk));
                std::thread::sleep(Duration::from_millis(after));
            }
            self.daemon.kill();
            running.join().expect("the load finds no fault")
        })
    }

    #[track_caller]
    fn sound(&self, times: usize, when: &str) {
        let faults = self.load.check(&self.daemon.nbd_socket(), "vm", times);
        assert!(faults.is_empty(), "{when}:\n{}", faults[..faults.len().min(20)].join("\n"));
    }
}

fn kill_under_load(disk_count: usize, parity: u64, options: &[&str]) {
    let mut random = Random::announced();
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", disk_count, "256MiB");
    daemon.space("tank/vm", &[options, &["--size", &SPACE_BYTES.to_string()]].concat());
    let load = Load::new(CLIENTS, SPACE_BYTES);
    let mut scenery = Scenery { daemon: &mut daemon, load: &load };
    for round in 0..rounds().div_ceil(2) {
        let when = [When::Never, When::UnderLoad, When::WhileDown][(round % 3) as usize];
        let first = random.below(disk_count as u64);
        let step = 1 + random.below(disk_count as u64 - 1);
        let count = if when == When::Never { 0 } else { 1 + random.below(parity) };
        let lost: Vec<&str> =
            (0..count).map(|number| disks[((first + number * step) % disk_count as u64) as usize].as_str()).collect();
        let story = format!("round {round}, {lost:?} lost: {when:?}");

        let done = scenery.load_and_kill(&mut random, if when == When::UnderLoad { &lost } else { &[] });
        assert!(done.answered > 0, "{story}: nothing was done");
        if when == When::WhileDown {
            lost.iter().for_each(|disk| take(disk));
        }
        scenery.daemon.start_again();
        scenery.sound(2, &format!("{story}, after the kill"));
        if !lost.is_empty() {
            if random.below(2) == 0 {
                scenery.load_and_kill(&mut random, &[]);
                if random.below(2) == 0 {
                    lost.iter().for_each(|disk| give(disk));
                    scenery.daemon.start_again();
                    scenery.sound(2, &format!("{story}, killed again, disks back at the start"));
                    wait_in_step(scenery.daemon, "tank/vm");
                } else {
                    scenery.daemon.start_again();
                    scenery.sound(2, &format!("{story}, killed again without them"));
                    put_back(scenery.daemon, "tank/vm", &lost);
                }
            } else {
                put_back(scenery.daemon, "tank/vm", &lost);
            }
            scenery.sound(1, &format!("{story}, in step"));
        }
    }
    wait_in_step(scenery.daemon, "tank/vm");
    agrees(scenery.daemon, "tank/vm");
}

#[test]
fn kill_under_load_loses_nothing_of_a_space_of_single_parity() {
    kill_under_load(5, 1, &[SINGLE, &["--columns", "4", "--interleave", "64KiB", "--thin"]].concat());
}

#[test]
fn kill_under_load_loses_nothing_of_a_space_of_dual_parity() {
    kill_under_load(8, 2, &[DUAL, &["--columns", "7"]].concat());
}

#[test]
fn kill_under_fio_leaves_what_fio_verifies_on_parity() {
    kill_under_fio(4, SINGLE, 2);
    kill_under_fio(7, DUAL, 2);
}

/// The journal is replaced by one of another size under load, and the daemon killed before, while or after that
/// happens.
#[test]
fn kill_while_the_journal_is_resized_loses_nothing() {
    let mut random = Random::announced();
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 5, "512MiB");
    let options = [DUAL, &["--columns", "5", "--thin", "--journal", "32MiB"]].concat();
    daemon.space("tank/vm", &[&options[..], &["--size", &SPACE_BYTES.to_string()]].concat());
    let (load, socket) = (Load::new(CLIENTS, SPACE_BYTES), daemon.nbd_socket());
    let free = |daemon: &Daemon| daemon.json(&["pool", "show", "tank"])["free_bytes"].as_u64().expect("a number");
    for round in 0..rounds().div_ceil(3) {
        let size = ["64MiB", "32MiB", "48MiB"][(round % 3) as usize];
        let (before, after) = (100 + random.below(400), random.below(120));
        let mut seeds = Random::new(random.next_u64());
        std::thread::scope(|scope| {
            let running = scope.spawn(|| load.run(&socket, "vm", &mut seeds));
            std::thread::sleep(Duration::from_millis(before));
            let resize = scope.spawn(|| {
                // It may be cut off by the kill.
                daemon.cli(&["space", "set", "tank/vm", "--journal", size]);
            });
            std::thread::sleep(Duration::from_millis(after));
            daemon.strike();
            running.join().expect("the load finds no fault");
            resize.join().expect("the command ends");
        });
        daemon.start_again();
        let faults = load.check(&socket, "vm", 2);
        assert!(faults.is_empty(), "round {round}, {size}:\n{}", faults[..faults.len().min(20)].join("\n"));
        // What a resize that was cut off had allotted is not lost to the pool.
        daemon.please(&["space", "set", "tank/vm", "--journal", size]);
        assert_eq!(daemon.json(&["space", "set", "tank/vm", "--journal", size])["changed"], false);
        let (room, raw) =
            (free(&daemon), daemon.json(&["space", "show", "tank/vm"])["raw_bytes"].as_u64().expect("a number"));
        let all = daemon.json(&["pool", "show", "tank"])["raw_bytes"].as_u64().expect("a number");
        assert_eq!(room + raw, all, "round {round}: room is lost");
    }
    wait_in_step(&daemon, "tank/vm");
    agrees(&daemon, "tank/vm");
}
