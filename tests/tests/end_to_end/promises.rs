//! What `docs/operations.md` says of losing disks, row by row of its table, with real processes. A row without a test
//! fails, and so does a test without a row.

use std::path::Path;

use holdfast_tests::command::wait_until;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::faulty::FaultyDisk;
use holdfast_tests::losses::{give, missing, pull, put_back, wait_in_step, wait_missing};
use holdfast_tests::nbd::{Client, NbdError};
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;
use serde_json::Value;

const MIB: usize = 1 << 20;
const NO_SPACE: u32 = 28;
const DISK: &str = "128MiB";
/// Longest until maintenance and the judges of disks have come round.
const ROUND_SECONDS: u64 = 40;

/// The first column of the table, and the test of each row.
const ROWS: &[(&str, fn())] = &[
    ("a disk vanishes", a_disk_vanishes),
    ("a read fails", a_read_fails),
    ("a write fails", a_write_fails),
    ("the last copy of some data is out, or one disk more than parity covers", the_last_copy_is_out),
    ("half of the disks are gone at once", half_of_the_disks_are_gone_at_once),
    ("they are gone for good", disks_are_gone_for_good),
    ("the pool is full", the_pool_is_full),
];

#[test]
fn every_row_of_the_table_of_losses_has_its_test() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    let text = std::fs::read_to_string(&path).expect("the documentation is there");
    let section = text.split("\n## Losing disks\n").nth(1).expect("it has a section on losing disks");
    let table = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let first = |line: &str| line.split('|').nth(1).unwrap_or_default().trim().to_owned();
    let rows: Vec<String> = table.skip(2).map(first).collect();
    let tested: Vec<&str> = ROWS.iter().map(|(row, _)| *row).collect();
    assert_eq!(rows, tested, "the table of {} and the tests here", path.display());
}

/// A client that knows what its space holds.
struct Held {
    client: Client,
    data: Vec<u8>,
}

impl Held {
    /// Makes `tank/NAME`, and fills it.
    fn new(daemon: &Daemon, name: &str, options: &[&str], len: usize) -> Self {
        daemon.space(&format!("tank/{name}"), &[options, &["--size", &len.to_string()]].concat());
        let client = Client::connect(&daemon.nbd_socket(), name).expect("it is exported");
        let mut held = Self { client, data: vec![0; len] };
        held.write(0, bytes(len as u64, len));
        held.client.flush().expect("a flush");
        held
    }

    /// Connects anew, after a restart.
    fn again(&mut self, daemon: &Daemon, name: &str) {
        wait_until("the space is served", 30, || daemon.json(&["nbd", "list"]).to_string().contains("\"served\":true"));
        self.client = Client::connect(&daemon.nbd_socket(), name).expect("it is exported");
    }

    #[track_caller]
    fn write(&mut self, at: usize, data: Vec<u8>) {
        for (number, piece) in data.chunks(MIB).enumerate() {
            self.client.write((at + number * MIB) as u64, piece, false).expect("writes go on");
        }
        self.data[at..at + data.len()].copy_from_slice(&data);
    }

    #[track_caller]
    fn is_whole(&mut self) {
        for at in (0..self.data.len()).step_by(MIB) {
            let found = self.client.read(at as u64, MIB).unwrap_or_else(|error| panic!("at {at}: {error:?}"));
            assert!(found == self.data[at..at + MIB], "wrong data in the MiB at {at}");
        }
    }

    /// Reads in pieces: what can be read is right. Answers how many pieces can be read and how many cannot.
    #[track_caller]
    fn is_never_wrong(&mut self) -> (usize, usize) {
        const PIECE: usize = 64 << 10;
        let (mut read, mut refused) = (0, 0);
        for at in (0..self.data.len()).step_by(PIECE) {
            match self.client.read(at as u64, PIECE) {
                Ok(found) => {
                    assert!(found == self.data[at..at + PIECE], "wrong data at {at}");
                    read += 1;
                }
                Err(NbdError::Refused(_)) => refused += 1,
                Err(NbdError::Lost(error)) => panic!("the connection is lost at {at}: {error}"),
            }
        }
        (read, refused)
    }
}

fn name(disk: &str) -> &str {
    disk.rsplit('/').next().unwrap_or(disk)
}

/// Whether an event that is no mere information names `object` and says what to do, and has `word`.
fn told(daemon: &Daemon, object: &str, word: &str) -> bool {
    let events = daemon.json(&["event", "list"]);
    events.as_array().into_iter().flatten().any(|event| {
        let text = event.to_string();
        event["severity"] != "info"
            && text.contains(object)
            && text.contains(word)
            && event["next_action"].as_str().is_some_and(|next| !next.is_empty())
    })
}

#[track_caller]
fn tells(daemon: &Daemon, object: &str, word: &str) {
    assert!(told(daemon, object, word), "no event on {object} with '{word}': {}", daemon.json(&["event", "list"]));
}

/// The health of an object in the status, and whether each that is not healthy says what to do.
#[track_caller]
fn health(daemon: &Daemon, object: &str) -> String {
    let status = daemon.json(&["status"]);
    let of = |wanted: &str| {
        let mut objects = status["objects"].as_array().expect("objects").iter();
        let named = |entry: &Value| {
            let object = &entry["object"];
            format!("{} {}", object["kind"].as_str().unwrap_or_default(), object["name"].as_str().unwrap_or_default())
        };
        objects.find(|entry| named(entry).ends_with(wanted)).cloned()
    };
    let entry = of(object).unwrap_or_else(|| panic!("no {object} in {status}"));
    if entry["health"] != "healthy" {
        let conditions = entry["conditions"].as_array().expect("conditions");
        let says = |condition: &Value| condition["next_action"].as_str().is_some_and(|next| !next.is_empty());
        assert!(
            !conditions.is_empty() && conditions.iter().all(says),
            "{object} does not say why, or what to do: {entry}"
        );
        assert!(status["health"] != "healthy", "{status}");
    }
    entry["health"].as_str().expect("a health").to_owned()
}

#[track_caller]
fn space(daemon: &Daemon, name: &str) -> Value {
    daemon.json(&["space", "show", &format!("tank/{name}")])
}

/// Disks that hold slabs of one group of a row of data: all copies of its first column, or all slabs of parity.
fn group(daemon: &Daemon, name: &str, parity: bool) -> Vec<String> {
    let map = daemon.json(&["space", "map", &format!("tank/{name}")]);
    let row = map.as_array().expect("rows").iter().find(|row| row["journal"] == false).expect("a row of data");
    let slabs = row["slabs"].as_array().expect("slabs").iter();
    let of_group = slabs.filter(|slab| parity || slab["column"] == 0);
    of_group.map(|slab| slab["path"].as_str().expect("a path").to_owned()).collect()
}

#[test]
fn a_disk_vanishes() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 5, DISK);
    let mut mirror = Held::new(&daemon, "mirror", &["--layout", "mirror", "--columns", "2"], 16 * MIB);
    let mut parity =
        Held::new(&daemon, "parity", &["--layout", "parity", "--columns", "4", "--interleave", "64KiB"], 12 * MIB);
    let pair = group(&daemon, "mirror", false);
    let (lost, other) = (&pair[0], &pair[1]);
    pull(&daemon, "tank", lost);
    assert_eq!(health(&daemon, name(lost)), "unhealthy");
    assert_ne!(health(&daemon, "pool tank"), "healthy");
    tells(&daemon, name(lost), "attach");
    for held in [&mut mirror, &mut parity] {
        held.is_whole();
        held.write(3 * MIB, bytes(1, 4 * MIB));
        held.client.flush().expect("a flush");
        held.is_whole();
    }
    // What it misses is marked, for the parity space where it has a slab of it.
    assert!(space(&daemon, "mirror")["stale_slabs"].as_u64() > Some(0), "{}", space(&daemon, "mirror"));
    assert_eq!(space(&daemon, "mirror")["state"], "degraded");
    assert_ne!(health(&daemon, "space tank/mirror"), "healthy");

    put_back(&daemon, "tank/mirror", &[lost]);
    wait_in_step(&daemon, "tank/parity");
    // The other copies are taken away: it carries all that was written meanwhile.
    pull(&daemon, "tank", other);
    mirror.is_whole();
    parity.is_whole();
    put_back(&daemon, "tank/parity", &[other]);
    wait_in_step(&daemon, "tank/mirror");
    wait_until("all is healthy", ROUND_SECONDS, || daemon.json(&["status"])["health"] == "healthy");
    for name in ["tank/mirror", "tank/parity"] {
        assert_eq!(daemon.json(&["space", "verify", name])["mismatched_blocks"], 0);
    }
}

/// A pool of three disks and one that can fail, which holds slabs of `vm`.
fn pool_with_a_faulty_disk(scene: &Scene, daemon: &Daemon, options: &[&str]) -> (FaultyDisk, Held) {
    let faulty = FaultyDisk::new(scene, "faulty", 128 << 20);
    let disks = daemon.disks(scene, 3, DISK);
    let (disk, mut all) = (faulty.path(), disks.iter().map(String::as_str).collect::<Vec<_>>());
    all.push(&disk);
    daemon.please(&[&["pool", "create", "tank", "--disk"], &all[..]].concat());
    let held = Held::new(daemon, "vm", options, 12 * MIB);
    wait_until("nothing is dirty", ROUND_SECONDS, || space(daemon, "vm")["dirty_bytes"] == 0);
    let map = daemon.json(&["space", "map", "tank/vm"]).to_string();
    assert!(map.contains(&disk), "the faulty disk holds nothing: {map}");
    (faulty, held)
}

#[test]
fn a_read_fails() {
    let layouts: [&[&str]; 2] =
        [&["--layout", "mirror", "--columns", "2"], &["--layout", "parity", "--columns", "4", "--interleave", "64KiB"]];
    for options in layouts {
        let scene = Scene::new();
        let daemon = Daemon::start(&scene);
        let (faulty, mut held) = pool_with_a_faulty_disk(&scene, &daemon, options);
        let errors = || daemon.json(&["disk", "show", &faulty.path()])["errors"].clone();
        assert_eq!(errors()["failed"], 0, "{}", errors());
        faulty.fail_reads(true);
        held.is_whole();
        assert!(errors()["failed"].as_u64() > Some(0), "nothing was read from the faulty disk: {}", errors());
        assert!(errors()["repaired"].as_u64() > Some(0), "nothing is written back: {}", errors());
        wait_until("the disk is judged", ROUND_SECONDS, || health(&daemon, &faulty.path()) != "healthy");
        wait_until("an event tells of it", ROUND_SECONDS, || told(&daemon, &faulty.path(), "errors"));
        faulty.fail_reads(false);
        held.is_whole();
        assert_eq!(missing(&daemon, "tank"), 0, "a disk is not out for reads that fail");
        let found = daemon.json(&["space", "verify", "tank/vm"]);
        assert_eq!((&found["mismatched_blocks"], &found["unchecked_bytes"]), (&0.into(), &0.into()), "{found}");
    }
}

#[test]
fn a_write_fails() {
    let layouts: [&[&str]; 2] =
        [&["--layout", "mirror", "--columns", "2"], &["--layout", "parity", "--columns", "4", "--interleave", "64KiB"]];
    for options in layouts {
        let scene = Scene::new();
        let mut daemon = Daemon::start(&scene);
        let (faulty, mut held) = pool_with_a_faulty_disk(&scene, &daemon, options);
        let disk = faulty.path();
        faulty.fail_writes(true);
        held.write(2 * MIB, bytes(7, 8 * MIB));
        held.client.flush().expect("a flush goes on");
        // Recorded before it was answered: a crash changes nothing, whether the disk writes again or not.
        daemon.kill();
        faulty.fail_writes(false);
        daemon.start_again();
        held.again(&daemon, "vm");
        held.is_whole();
        daemon.cli(&["pool", "import", "tank"]);
        wait_in_step(&daemon, "tank/vm");
        held.is_whole();

        // It fails on: it is taken out, and replaced.
        faulty.fail_writes(true);
        let mut round = 0;
        wait_until("the disk is taken out", ROUND_SECONDS, || {
            round += 1;
            held.write((round % 12) * MIB, bytes(round as u64, MIB));
            held.client.flush().expect("a flush goes on");
            missing(&daemon, "tank") == 1
        });
        held.is_whole();
        assert_eq!(health(&daemon, &disk), "unhealthy");
        tells(&daemon, &disk, "replace");
        assert_ne!(health(&daemon, "space tank/vm"), "healthy");
        let new = scene.path("disks/new");
        daemon.please(&["disk", "create-file", &new, "--size", DISK]);
        daemon.please(&["disk", "replace", &disk, &new, "--wait"]);
        wait_in_step(&daemon, "tank/vm");
        held.is_whole();
        let found = daemon.json(&["space", "verify", "tank/vm"]);
        assert_eq!((&found["mismatched_blocks"], &found["unchecked_bytes"]), (&0.into(), &0.into()), "{found}");
    }
}

#[test]
fn the_last_copy_is_out() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 7, DISK);
    let mirror = ["--layout", "mirror", "--columns", "2", "--interleave", "64KiB"];
    let parity = ["--layout", "parity", "--columns", "4", "--interleave", "64KiB"];
    for (name, options, is_parity) in [("mirror", &mirror[..], false), ("parity", &parity[..], true)] {
        let mut held = Held::new(&daemon, name, options, 12 * MIB);
        let mut gone = group(&daemon, name, is_parity);
        gone.truncate(2);
        pull(&daemon, "tank", &gone[0]);
        held.write(MIB, bytes(2, 2 * MIB));
        held.client.flush().expect("a flush");
        pull(&daemon, "tank", &gone[1]);
        let (read, refused) = held.is_never_wrong();
        assert!(refused > 0, "the last copy is out, and everything can be read");
        assert!(read > 0, "nothing goes on: {read} pieces of {name} can be read");
        assert_eq!(space(&daemon, name)["state"], "failed");
        assert_eq!(health(&daemon, &format!("space tank/{name}")), "unhealthy");
        assert_eq!(health(&daemon, "export mirror"), "unhealthy", "it is served, and reads of it fail");
        let listed = daemon.cli(&["nbd", "list"]).succeeded();
        assert!(listed.contains("reads fail"), "{listed}");
        // What can be written is; the rest is refused, and holds the old or the new afterwards.
        let mut unsure = Vec::new();
        for at in (0..12 * MIB).step_by(64 << 10) {
            let data = bytes(at as u64 + 5, 4096);
            match held.client.write(at as u64, &data, true) {
                Ok(()) => held.data[at..at + 4096].copy_from_slice(&data),
                Err(NbdError::Refused(_)) => unsure.push((at, data)),
                Err(NbdError::Lost(error)) => panic!("the connection is lost: {error}"),
            }
        }
        assert!(is_parity || unsure.len() < 12 * MIB / (64 << 10), "everything else goes on");
        // The one that went last is what is needed.
        give(&gone[1]);
        wait_until("it is back", ROUND_SECONDS, || missing(&daemon, "tank") == 1);
        wait_until("all can be read", ROUND_SECONDS, || {
            (0..12 * MIB).step_by(MIB).all(|at| held.client.read(at as u64, MIB).is_ok())
        });
        for (at, new) in unsure {
            let found = held.client.read(at as u64, 4096).expect("it can be read");
            assert!(found == new || found == held.data[at..at + 4096], "neither old nor new at {at}");
            held.data[at..at + 4096].copy_from_slice(&found);
        }
        held.is_whole();
        put_back(&daemon, &format!("tank/{name}"), &[&gone[0]]);
        held.is_whole();
        assert_eq!(daemon.json(&["space", "verify", &format!("tank/{name}")])["mismatched_blocks"], 0);
    }
}

/// A pool of five disks of which three answer nothing any more, all at once, while its space is written to.
fn most_disks_gone(scene: &Scene, daemon: &Daemon) -> (Held, Vec<FaultyDisk>) {
    let gone: Vec<FaultyDisk> =
        (0..3).map(|number| FaultyDisk::new(scene, &format!("gone{number}"), 128 << 20)).collect();
    let disks: Vec<String> =
        daemon.disks(scene, 2, DISK).into_iter().chain(gone.iter().map(FaultyDisk::path)).collect();
    daemon.please(
        &[&["pool", "create", "tank", "--disk"], &disks.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat(),
    );
    let mut held = Held::new(daemon, "vm", &["--layout", "mirror", "--copies", "3"], 12 * MIB);
    answer(&gone, false);
    wait_until("the pool says that it is read-only", ROUND_SECONDS, || {
        let refused = held.client.write(0, &held.data[..4096], true);
        assert!(!matches!(refused, Err(NbdError::Lost(_))), "{refused:?}");
        daemon.json(&["pool", "show", "tank"])["state"] == "read-only"
    });
    assert_eq!(health(daemon, "pool tank"), "unhealthy");
    let refused = held.client.write(0, &held.data[..4096], true);
    assert!(matches!(refused, Err(NbdError::Refused(_))), "{refused:?}");
    (held, gone)
}

/// Lets disks answer again, or no more.
fn answer(disks: &[FaultyDisk], answer: bool) {
    disks.iter().for_each(|disk| {
        disk.fail_writes(!answer);
        disk.fail_reads(!answer);
    });
}

#[test]
fn half_of_the_disks_are_gone_at_once() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let (mut held, gone) = most_disks_gone(&scene, &daemon);
    held.is_never_wrong();
    answer(&gone, true);
    let refused = daemon.cli(&["nbd", "unexport", "vm"]).refused();
    assert!(refused.contains("read-only"), "an export is kept on its pool: {refused}");
    assert!(refused.contains("attach") && refused.contains("'holdfast pool export tank'"), "what helps: {refused}");
    let rescue = daemon.json(&["nbd", "export", "tank/vm", "--name", "rescue", "--read-only"]);
    assert!(rescue["changed"] == true && rescue["export"]["served"] == true, "what is left can be read: {rescue}");
    daemon.please(&["pool", "export", "tank"]);
    daemon.please(&["pool", "import", "tank"]);
    assert_eq!(daemon.json(&["nbd", "export", "tank/vm"])["changed"], false, "it came back with the pool");
    assert_eq!(daemon.json(&["nbd", "list"]).as_array().map(Vec::len), Some(1), "the other was never on it");
    wait_in_step(&daemon, "tank/vm");
    held.again(&daemon, "vm");
    held.is_whole();
    held.write(0, bytes(3, MIB));
    held.client.flush().expect("it can be written to again");
    assert_eq!(daemon.json(&["space", "verify", "tank/vm"])["mismatched_blocks"], 0);
}

#[test]
fn disks_are_gone_for_good() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let (mut held, gone) = most_disks_gone(&scene, &daemon);
    daemon.please(&["pool", "export", "tank"]);
    let refused = daemon.cli(&["pool", "import", "tank"]).refused();
    assert!(refused.contains("--force") && refused.contains(&gone[0].path()), "{refused}");
    daemon.please(&["pool", "import", "tank", "--force"]);
    held.again(&daemon, "vm");
    let (read, _) = held.is_never_wrong();
    assert!(read > 0, "three copies on five disks, of which two are left: something can be read");
    assert_ne!(daemon.json(&["status"])["health"], "healthy");
    assert_eq!(missing(&daemon, "tank"), 3);
    // Those that come back nevertheless are taken for older than what is written now.
    for at in (0..held.data.len()).step_by(64 << 10) {
        let data = bytes(at as u64, 64 << 10);
        if held.client.write(at as u64, &data, true).is_ok() {
            held.data[at..at + data.len()].copy_from_slice(&data);
        }
    }
    answer(&gone, true);
    daemon.please(&["pool", "import", "tank"]);
    wait_until("the disks are back", ROUND_SECONDS, || missing(&daemon, "tank") == 0);
    wait_in_step(&daemon, "tank/vm");
    held.is_whole();
    assert_eq!(daemon.json(&["space", "verify", "tank/vm"])["mismatched_blocks"], 0);
}

#[test]
fn the_pool_is_full() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 2, DISK);
    daemon.space("tank/vm", &["--layout", "mirror", "--size", "1GiB", "--thin"]);
    let mut client = Client::connect(&daemon.nbd_socket(), "vm").expect("it is exported");
    let mut full = 0;
    let refused = loop {
        match client.write(full * MIB as u64, &bytes(full, MIB), false) {
            Ok(()) => full += 1,
            Err(NbdError::Refused(number)) => break number,
            Err(NbdError::Lost(error)) => panic!("the connection is lost: {error}"),
        }
    };
    assert_eq!(refused, NO_SPACE, "after {full} MiB");
    assert!(full > 16, "full after {full} MiB");
    for at in 0..full {
        assert!(client.read(at * MIB as u64, MIB).expect("reads go on") == bytes(at, MIB), "at {at} MiB");
        client.write(at * MIB as u64, &bytes(at + 1, MIB), false).expect("overwrites go on");
    }
    client.flush().expect("a flush");
    wait_until("health says so", ROUND_SECONDS, || health(&daemon, "pool tank") != "healthy");
    wait_until("an event says so", ROUND_SECONDS, || told(&daemon, "tank", "add"));
    // Room that is given back can be used, and so can another disk.
    client.trim(0, (full * MIB as u64) as u32).expect("discards go on");
    wait_until("there is room again", ROUND_SECONDS, || client.write(full * MIB as u64, &bytes(9, MIB), true).is_ok());
    let more = ["disks/more0", "disks/more1"].map(|name| scene.path(name));
    more.iter().for_each(|path| drop(daemon.please(&["disk", "create-file", path, "--size", DISK])));
    daemon.please(&["pool", "add", "tank", "--disk", &more[0], &more[1]]);
    for at in 0..full + 32 {
        client.write(at * MIB as u64, &bytes(at, MIB), false).expect("there is room");
    }
    client.flush().expect("a flush");
    assert!(client.read((full + 31) * MIB as u64, MIB).expect("a read") == bytes(full + 31, MIB));
}

/// Keeps the helpers above honest: with all disks there, nothing is refused and nothing is told.
#[test]
fn a_pool_that_lost_nothing_is_healthy() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 3, DISK);
    let mut held = Held::new(&daemon, "vm", &["--layout", "mirror"], 4 * MIB);
    assert_eq!(held.is_never_wrong().1, 0);
    assert!(disks.iter().all(|disk| health(&daemon, name(disk)) == "healthy"));
    assert!(!told(&daemon, "tank", "") && missing(&daemon, "tank") == 0);
    pull(&daemon, "tank", &disks[0]);
    wait_missing(&daemon, "tank", 1);
    assert!(told(&daemon, name(&disks[0]), ""));
}
