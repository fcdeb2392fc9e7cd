//! Disks are lost, one after the other or at once, under load and while the daemon is down: nothing that is read is
//! ever wrong.

use std::fs::File;
use std::os::unix::fs::FileExt;

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::fio;
use holdfast_tests::losses::{give, pull, put_back, take, wait_in_step, wait_missing};
use holdfast_tests::nbd::{Client, NbdError};
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;

use super::{DUAL, SINGLE, agrees};

const MIB: usize = 1 << 20;

/// A file of random data.
fn image(scene: &Scene, name: &str, seed: u64, len: usize) -> String {
    let path = scene.path(name);
    std::fs::write(&path, bytes(seed, len)).expect("an image can be written");
    path
}

#[track_caller]
fn holds(scene: &Scene, uri: &str, image: &str) {
    let out = scene.path("out");
    run("nbdcopy", &["--connections=4", uri, &out]).succeeded();
    run("cmp", &[image, &out]).succeeded();
}

/// Loses as many disks under load as there is parity, brings them back, and finds everything healthy.
fn losses_under_load(disk_count: usize, options: &[&str], lost: &[usize]) {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", disk_count, "256MiB");
    let kept = daemon.space("tank/kept", &[options, &["--size", "96MiB", "--thin"]].concat());
    let busy = daemon.space("tank/busy", &[options, &["--size", "64MiB"]].concat());
    let image = image(&scene, "image", 3, 96 * MIB);
    run("nbdcopy", &["--flush", &image, &kept]).succeeded();
    let job = ["--rw=randrw", "--bsrange=4k-128k", "--iodepth=8", "--size=64m", "--verify=crc32c", "--verify_fatal=1"];
    let mut load = fio::start(
        &busy,
        &[&job[..], &["--verify_backlog=64", "--time_based", "--runtime=3600", "--rate=20m"]].concat(),
    );
    std::thread::sleep(std::time::Duration::from_secs(1));
    for &disk in lost {
        pull(&daemon, "tank", &disks[disk]);
        holds(&scene, &kept, &image);
    }
    for path in ["tank/kept", "tank/busy"] {
        let space = daemon.json(&["space", "show", path]);
        assert_eq!(space["state"], "degraded", "{space}");
        assert!(space["conditions"][0]["next_action"].as_str().is_some_and(|text| !text.is_empty()), "{space}");
    }
    assert!(load.runs(), "the load ended while disks went away");
    let away: Vec<&str> = lost.iter().map(|&disk| disks[disk].as_str()).collect();
    put_back(&daemon, "tank/busy", &away);
    load.stop();
    wait_in_step(&daemon, "tank/kept");
    wait_in_step(&daemon, "tank/busy");
    holds(&scene, &kept, &image);
    for path in ["tank/kept", "tank/busy"] {
        let space = daemon.json(&["space", "show", path]);
        assert_eq!((&space["state"], &space["health"]), (&"ok".into(), &"healthy".into()), "{space}");
        agrees(&daemon, path);
    }
    let events = daemon.json(&["event", "list"]).to_string();
    assert!(away.iter().all(|disk| events.contains(disk)), "not every lost disk is named: {events}");
    fio::verify(&busy, &["--size=64m", "--numjobs=1", "--bsrange=4k-64k"]);
}

#[test]
fn single_parity_survives_a_disk_lost_under_load() {
    losses_under_load(6, &[SINGLE, &["--columns", "5"]].concat(), &[1]);
}

#[test]
fn dual_parity_survives_two_disks_lost_under_load() {
    losses_under_load(8, &[DUAL, &["--columns", "7", "--interleave", "64KiB"]].concat(), &[5, 2]);
}

/// Groups of disks take turns in being away; what is written meanwhile is whole when they are back, and when others are
/// away.
fn groups_take_turns(disk_count: usize, options: &[&str], groups: &[&[usize]]) {
    const LEN: usize = 48 * MIB;
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", disk_count, "256MiB");
    let uri = daemon.space("tank/vm", &[options, &["--size", &LEN.to_string()]].concat());
    let mut kept = image(&scene, "image", 0, LEN);
    run("nbdcopy", &["--flush", &kept, &uri]).succeeded();
    for (round, group) in groups.iter().enumerate() {
        for &disk in *group {
            pull(&daemon, "tank", &disks[disk]);
        }
        holds(&scene, &uri, &kept);
        // Half anew in whole stripes, a part in pieces, the rest as it was.
        let mut data = std::fs::read(&kept).expect("an image can be read");
        data[..LEN / 2].copy_from_slice(&bytes(round as u64 + 100, LEN / 2));
        let (first, path) = (scene.path("first"), scene.path(&format!("image{round}")));
        std::fs::write(&first, &data[..LEN / 2]).expect("an image can be written");
        run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &first, &uri]).succeeded();
        let mut client = Client::connect(&daemon.nbd_socket(), "vm").expect("it is exported");
        for piece in 0..64usize {
            let at = LEN / 2 + piece * 260_000 / 4096 * 4096;
            let change = bytes(piece as u64 + round as u64 * 1000, 4096 * (1 + piece % 5));
            client.write(at as u64, &change, piece % 9 == 0).expect("a write");
            data[at..at + change.len()].copy_from_slice(&change);
        }
        client.flush().expect("a flush");
        std::fs::write(&path, &data).expect("an image can be written");
        kept = path;
        holds(&scene, &uri, &kept);
        let away: Vec<&str> = group.iter().map(|&disk| disks[disk].as_str()).collect();
        put_back(&daemon, "tank/vm", &away);
        holds(&scene, &uri, &kept);
    }
    agrees(&daemon, "tank/vm");
}

#[test]
fn disks_of_single_parity_that_were_away_are_brought_in_step_before_they_are_believed() {
    groups_take_turns(4, &[SINGLE, &["--columns", "4", "--interleave", "64KiB"]].concat(), &[&[0], &[1], &[2], &[3]]);
}

#[test]
fn disks_of_dual_parity_that_were_away_are_brought_in_step_before_they_are_believed() {
    groups_take_turns(7, DUAL, &[&[0, 1], &[2, 3], &[4, 5], &[6, 0]]);
}

#[test]
fn disks_that_were_away_while_the_daemon_was_down_are_not_believed() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 7, "256MiB");
    let uri = daemon.space("tank/vm", &[DUAL, &["--size", "48MiB"]].concat());
    let (old, new) = (image(&scene, "old", 1, 48 * MIB), image(&scene, "new", 2, 48 * MIB));
    run("nbdcopy", &["--flush", &old, &uri]).succeeded();
    daemon.end();
    [&disks[1], &disks[4]].into_iter().for_each(|disk| take(disk));
    daemon.start_again();
    run("nbdcopy", &["--flush", &new, &uri]).succeeded();
    daemon.end();
    [&disks[1], &disks[4]].into_iter().for_each(|disk| give(disk));
    daemon.start_again();
    holds(&scene, &uri, &new);
    wait_in_step(&daemon, "tank/vm");
    for disk in [&disks[0], &disks[6]] {
        pull(&daemon, "tank", disk);
    }
    holds(&scene, &uri, &new);
}

/// More disks are gone than there is parity: requests fail or bring what was written, and nothing is lost when the
/// disks return.
#[test]
fn more_losses_than_parity_withhold_data_but_never_make_it_wrong() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 7, "256MiB");
    for (name, options, parity) in [("single", [SINGLE, &["--columns", "7"]].concat(), 1), ("dual", DUAL.to_vec(), 2)] {
        let path = format!("tank/{name}");
        let uri = daemon.space(&path, &[&options[..], &["--size", "32MiB"]].concat());
        let image = image(&scene, name, 8 + parity as u64, 32 * MIB);
        let data = std::fs::read(&image).expect("an image can be read");
        run("nbdcopy", &["--flush", &image, &uri]).succeeded();
        let away: Vec<&str> = disks[..=parity].iter().map(String::as_str).collect();
        away.iter().for_each(|disk| take(disk));
        wait_missing(&daemon, "tank", parity + 1);
        let mut client = Client::connect(&daemon.nbd_socket(), name).expect("it is exported");
        let mut refused = 0;
        for (number, piece) in data.chunks_exact(64 << 10).enumerate() {
            match client.read((number * piece.len()) as u64, piece.len()) {
                Ok(found) => assert!(found == piece, "wrong data at piece {number} of {path}"),
                Err(NbdError::Refused(_)) => refused += 1,
                Err(NbdError::Lost(error)) => panic!("the connection is lost at piece {number}: {error}"),
            }
        }
        assert!(refused > 0, "a disk more is gone than there is parity, yet everything can be read");
        let space = daemon.json(&["space", "show", &path]);
        assert_ne!(space["state"], "ok", "{space}");
        put_back(&daemon, &path, &away);
        holds(&scene, &uri, &image);
        agrees(&daemon, &path);
    }
}

/// What `space verify` is worth: it finds what was changed on a disk behind the daemon's back, and names the disk.
#[test]
fn a_comparison_finds_what_was_changed_on_a_disk() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 4, "256MiB");
    let uri = daemon.space("tank/vm", &[SINGLE, &["--columns", "4", "--size", "48MiB"]].concat());
    let image = image(&scene, "image", 4, 48 * MIB);
    run("nbdcopy", &["--flush", &image, &uri]).succeeded();
    agrees(&daemon, "tank/vm");
    let map = daemon.json(&["space", "map", "tank/vm"]);
    let row = map.as_array().into_iter().flatten().find(|row| row["journal"] == false).expect("a row of data");
    let slab = &row["slabs"][2];
    let number = |name: &str| slab[name].as_u64().expect("a number");
    let (path, middle) = (slab["path"].as_str().expect("a path"), number("offset_bytes") + number("length_bytes") / 2);
    daemon.end();
    let file = File::options().write(true).open(path).expect("a disk can be opened");
    file.write_all_at(&bytes(77, MIB / 2), middle / 4096 * 4096).expect("a disk can be written to");
    daemon.start_again();
    wait_until("the space is served", 20, || daemon.json(&["nbd", "list"])[0]["served"] == true);
    let finished = daemon.cli(&["--json", "space", "verify", "tank/vm"]);
    assert!(!finished.success(), "nothing is found: {finished}");
    let found: serde_json::Value = serde_json::from_str(&finished.printed()).expect("JSON");
    let blocks = found["mismatched_blocks"].as_u64().unwrap_or(0);
    assert!((1..=MIB as u64 / 2 / 4096).contains(&blocks), "{found}");
    assert!(found["mismatches"].as_array().is_some_and(|told| !told.is_empty()), "{found}");
}
