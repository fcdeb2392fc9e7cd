//! Real clients read and write real data, the space grows, and what is discarded is given back.

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::fio;
use holdfast_tests::scene::Scene;
use serde_json::Value;

use super::{DUAL, SINGLE, agrees};
use crate::clients;

const MIB: u64 = 1 << 20;

fn every_client(disks: usize, options: &[&str]) {
    let scene = Scene::new();
    let daemon = Daemon::start_tcp(&scene, &[]);
    daemon.pool(&scene, "tank", disks, "256MiB");
    let size = clients::SPACE_BYTES.to_string();
    let uri = daemon.space("tank/vm", &[options, &["--size", &size]].concat());
    let info: Value = serde_json::from_str(&run("nbdinfo", &["--json", &uri]).succeeded()).expect("JSON");
    let export = &info["exports"][0];
    assert_eq!(export["export-size"], clients::SPACE_BYTES, "{export}");
    for flag in ["can_multi_conn", "can_fua", "can_flush", "can_trim", "can_zero"] {
        assert_eq!(export[flag], true, "{flag}: {export}");
    }
    clients::reads_and_writes(&uri);
    clients::copies(&daemon, &scene, &uri);
    agrees(&daemon, "tank/vm");
    clients::converts(&daemon, &scene, &uri);
    agrees(&daemon, "tank/vm");
    let space = daemon.json(&["space", "show", "tank/vm"]);
    assert_eq!((&space["layout"], &space["state"]), (&"parity".into(), &"ok".into()), "{space}");
}

#[test]
fn every_client_agrees_on_a_fixed_space_of_single_parity() {
    every_client(5, &[SINGLE, &["--columns", "5", "--interleave", "64KiB"]].concat());
}

#[test]
fn every_client_agrees_on_a_thin_space_of_dual_parity() {
    every_client(7, &[DUAL, &["--thin"]].concat());
}

#[test]
fn fio_verifies_spaces_of_parity_over_several_connections() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 8, "256MiB");
    let spaces = [
        ("single", [SINGLE, &["--columns", "8"]].concat()),
        ("dual", [DUAL, &["--columns", "5", "--interleave", "16KiB", "--thin"]].concat()),
    ];
    for (name, options) in spaces {
        let path = format!("tank/{name}");
        let uri = daemon.space(&path, &[&options[..], &["--size", "64MiB"]].concat());
        let four = ["--numjobs=4", "--size=16m", "--offset_increment=16m"];
        fio::verify(&uri, &[&four[..], &["--bs=4k", "--fsync=64"]].concat());
        fio::verify(&uri, &[&four[..], &["--bsrange=4k-512k", "--fsync=16"]].concat());
        fio::verify(&uri, &[&four[..], &["--bsrange=512-24k", "--bs_unaligned"]].concat());
        fio::verify(&uri, &["--rw=write", "--size=64m", "--bs=2m", "--iodepth=4"]);
        agrees(&daemon, &path);
    }
    let states = daemon.json(&["space", "list"]);
    assert!(states.as_array().is_some_and(|spaces| spaces.iter().all(|space| space["state"] == "ok")), "{states}");
}

/// Small durable writes, then others that nobody flushes: the journal fills, and must empty again.
#[test]
fn a_full_journal_of_dual_parity_empties_again() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 8, "256MiB");
    let options = [DUAL, &["--columns", "5", "--interleave", "16KiB", "--thin", "--size", "64MiB"]].concat();
    let uri = daemon.space("tank/vm", &options);
    let four = ["--numjobs=4", "--size=16m", "--offset_increment=16m"];
    for _ in 0..4 {
        fio::verify(&uri, &[&four[..], &["--bs=4k", "--fsync=64"]].concat());
        fio::verify(&uri, &[&four[..], &["--bs=16k"]].concat());
    }
    agrees(&daemon, "tank/vm");
}

#[test]
fn spaces_of_parity_grow_in_use() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 7, "256MiB");
    for (name, options) in [("single", SINGLE.to_vec()), ("dual", [DUAL, &["--thin"]].concat())] {
        let path = format!("tank/{name}");
        let uri = daemon.space(&path, &[&options[..], &["--size", "40MiB"]].concat());
        run("qemu-io", &["-f", "raw", "-c", "write -P 9 0 40M", "-c", "flush", &uri]).succeeded();
        let job =
            ["--rw=randrw", "--bsrange=4k-64k", "--iodepth=8", "--size=40m", "--verify=crc32c", "--verify_fatal=1"];
        let load = fio::start(
            &uri,
            &[&job[..], &["--verify_backlog=32", "--time_based", "--runtime=3", "--rate=20m"]].concat(),
        );
        assert_eq!(daemon.json(&["space", "grow", &path, "--size", "100MiB"])["changed"], true);
        load.finish();
        assert_eq!(run("nbdinfo", &["--size", &uri]).succeeded().trim(), (100 * MIB).to_string());
        let steps = ["read -P 0 40M 60M", "write -P 3 39M 61M", "flush", "read -P 3 39M 61M", "write -P 4 100M 4k"];
        let commands: Vec<&str> = steps[..4].iter().flat_map(|step| ["-c", step]).collect();
        run("qemu-io", &[&["-f", "raw"], &commands[..], &[&uri]].concat()).succeeded();
        run("qemu-io", &["-f", "raw", "-c", steps[4], &uri]).refused();
        agrees(&daemon, &path);
    }
}

#[test]
fn thin_spaces_of_parity_take_room_as_they_are_written_and_give_it_back() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 8, "512MiB");
    for (name, options, factor) in [("single", SINGLE, 1.5), ("dual", DUAL, 1.4)] {
        let path = format!("tank/{name}");
        let uri = daemon.space(&path, &[options, &["--size", "8GiB", "--thin"]].concat());
        let raw = || daemon.json(&["space", "show", &path])["raw_bytes"].as_u64().expect("a number");
        let free = || daemon.json(&["pool", "show", "tank"])["free_bytes"].as_u64().expect("a number");
        let (empty, room) = (raw(), free());
        run("qemu-io", &["-f", "raw", "-c", "write -P 1 0 256M", "-c", "write -P 2 4G 1M", "-c", "flush", &uri])
            .succeeded();
        let full = raw();
        assert!((full - empty) as f64 >= factor * (256 * MIB) as f64, "{empty} bytes before, {full} after");
        assert_eq!(room - free(), full - empty, "what the space takes, the pool lacks");
        run("qemu-io", &["-f", "raw", "-c", "write -z -u 6G 512M", "-c", "flush", &uri]).succeeded();
        assert_eq!(raw(), full, "zeroes that may be a hole take no room");
        // What is left of a discarded range stays as it was.
        let steps = [
            "discard 0 100M",
            "read -P 0 0 100M",
            "read -P 1 100M 156M",
            "write -z 200M 1M",
            "write -z -u 210M 12k",
            "flush",
            "read -P 1 100M 100M",
            "read -P 0 200M 1M",
            "read -P 1 201M 9M",
            "read -P 0 210M 12k",
            "read -P 1 220213248 1M",
        ];
        let commands: Vec<&str> = steps.iter().flat_map(|step| ["-c", step]).collect();
        run("qemu-io", &[&["-f", "raw"], &commands[..], &[&uri]].concat()).succeeded();
        agrees(&daemon, &path);
        wait_until("some room is given back", 20, || raw() < full);
        run("qemu-io", &["-f", "raw", "-c", "discard 0 256M", "-c", "discard 4G 512M", "-c", "flush", &uri])
            .succeeded();
        wait_until("all room is given back", 20, || raw() == empty && free() == room);
        run("qemu-io", &["-f", "raw", "-c", "read -P 0 0 256M", "-c", "read -P 0 4G 1M", &uri]).succeeded();
        let map = daemon.json(&["space", "map", &path]);
        assert!(map.as_array().is_some_and(|rows| rows.iter().all(|row| row["journal"] == true)), "{map}");
        daemon.please(&["nbd", "unexport", name]);
        daemon.please(&["space", "destroy", &path, "--yes"]);
    }
}
