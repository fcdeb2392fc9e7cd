//! The life of pools, spaces and exports: made twice, grown, filled, given back, moved, ended.

use std::path::Path;
use std::time::Duration;

use holdfast_tests::command::{run, run_with, wait_until};
use holdfast_tests::daemon::{Daemon, binary};
use holdfast_tests::nbd::{Client, NbdError};
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;

const NO_SPACE: u32 = 28;
const NOT_PERMITTED: u32 = 1;
const MIB: u64 = 1 << 20;

fn free(daemon: &Daemon) -> u64 {
    daemon.json(&["pool", "show", "tank"])["free_bytes"].as_u64().expect("a number")
}

#[test]
fn everything_made_twice_is_made_once() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.disks(&scene, 3, "256MiB");
    let pool = ["pool", "create", "tank", "--disk", &disks[0], &disks[1]];
    let space = ["space", "create", "tank/vm", "--layout", "mirror", "--size", "64MiB"];
    let again = ["disk", "create-file", &disks[0], "--size", "256MiB"];
    let commands: &[&[&str]] = &[
        &pool,
        &["pool", "add", "tank", "--disk", &disks[2]],
        &space,
        &["space", "grow", "tank/vm", "--size", "96MiB"],
        &["nbd", "export", "tank/vm", "--name", "disk"],
        &["disk", "set", &disks[0], "--media", "hdd"],
    ];
    assert_eq!(daemon.json(&again)["changed"], false);
    for command in commands {
        assert_eq!(daemon.json(command)["changed"], true, "{command:?}");
        assert_eq!(daemon.json(command)["changed"], false, "{command:?} a second time");
    }
    assert_eq!(daemon.json(&["space", "list"]).as_array().map(Vec::len), Some(1));
    assert_eq!(daemon.json(&["pool", "show", "tank"])["disks"].as_array().map(Vec::len), Some(3));
    let text = daemon.please(&["nbd", "export", "tank/vm", "--name", "disk"]);
    assert!(text.contains("nothing changed"), "{text}");
    daemon.please(&["nbd", "unexport", "disk"]);
    daemon.please(&["space", "destroy", "tank/vm", "--yes"]);
    daemon.please(&["pool", "destroy", "tank", "--yes"]);
    assert_eq!(daemon.json(&["pool", "list"]), serde_json::json!([]));
    daemon.please(&pool);
}

#[test]
fn a_pool_moves_to_another_daemon_under_other_paths() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 4, "256MiB");
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--size", "64MiB", "--thin"]);
    let (image, out) = (scene.path("image"), scene.path("out"));
    std::fs::write(&image, bytes(5, 64 << 20)).expect("an image can be written");
    run("nbdcopy", &["--flush", &image, &uri]).succeeded();
    daemon.please(&["nbd", "set", "vm", "--max-iops", "50000"]);
    daemon.please(&["space", "set", "tank/vm", "--max-iops", "60000"]);
    let client = Client::connect(&daemon.nbd_socket(), "vm").expect("it is exported");
    let refusal = daemon.cli(&["pool", "export", "tank"]).refused();
    assert!(refusal.contains("connected") && refusal.contains("nbd unexport vm"), "{refusal}");
    drop(client);
    wait_until("the client is gone", 20, || daemon.json(&["nbd", "list"])[0]["connections"] == 0);
    daemon.please(&["pool", "export", "tank"]);
    assert_eq!(daemon.json(&["nbd", "list"]), serde_json::json!([]));

    let elsewhere = scene.folder("elsewhere");
    for (number, disk) in disks.iter().enumerate() {
        std::fs::rename(disk, format!("{elsewhere}/{}", ["q", "b", "z", "a"][number])).expect("a disk can be moved");
    }
    let other = Daemon::start_with(&scene, "b", &[]);
    other.please(&["pool", "import", "--disk-dir", &elsewhere]);
    assert_eq!(other.json(&["pool", "show", "tank"])["state"], "ok");
    // What belongs to the pool came along with it, though the daemons share nothing but its disks.
    let export = &other.json(&["nbd", "list"])[0];
    assert!(export["served"] == true && export["qos"]["max_iops"] == 50000, "{export}");
    assert_eq!(other.json(&["space", "show", "tank/vm"])["qos"]["max_iops"], 60000);
    run("nbdcopy", &[&other.uri("vm"), &out]).succeeded();
    run("cmp", &[&image, &out]).succeeded();
    let map = other.json(&["space", "map", "tank/vm"]).to_string();
    assert!(map.contains(&elsewhere) && !map.contains("disk0.img"), "{map}");
}

#[test]
fn a_pool_and_its_exports_are_back_after_a_restart() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 3, "256MiB");
    let uri = daemon.space("tank/vm", &["--layout", "simple", "--size", "64MiB"]);
    let (image, out) = (scene.path("image"), scene.path("out"));
    std::fs::write(&image, bytes(6, 64 << 20)).expect("an image can be written");
    run("nbdcopy", &["--flush", &image, &uri]).succeeded();
    let map = daemon.json(&["space", "map", "tank/vm"]);
    daemon.end();
    daemon.start_again();
    run("nbdcopy", &[&uri, &out]).succeeded();
    run("cmp", &[&image, &out]).succeeded();
    assert_eq!(map, daemon.json(&["space", "map", "tank/vm"]));
    daemon.kill();
    daemon.start_again();
    run("nbdcopy", &[&uri, &out]).succeeded();
    run("cmp", &[&image, &out]).succeeded();
}

#[test]
fn a_grown_space_shows_to_new_connections() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 3, "256MiB");
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--size", "64MiB"]);
    let mut old = Client::connect(&daemon.nbd_socket(), "vm").expect("it is exported");
    old.write(0, &[9; 4096], false).expect("a write");
    daemon.please(&["space", "grow", "tank/vm", "--size", "100MiB"]);
    assert_eq!(run("nbdinfo", &["--size", &uri]).succeeded().trim(), (100 * MIB).to_string());
    assert_eq!(old.read(0, 4096).expect("the old connection goes on"), [9; 4096]);
    run(
        "qemu-io",
        &[
            "-f",
            "raw",
            "-c",
            "read -P 0 64M 36M",
            "-c",
            "write -P 3 99M 1M",
            "-c",
            "read -P 3 99M 1M",
            "-c",
            "read -P 9 0 4k",
            &uri,
        ],
    )
    .succeeded();
}

#[test]
fn a_thin_space_takes_room_as_it_is_written_and_gives_it_back() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 4, "512MiB");
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--size", "8GiB", "--thin"]);
    let empty = free(&daemon);
    run("qemu-io", &["-f", "raw", "-c", "write -P 1 0 256M", "-c", "write -P 2 4G 1M", "-c", "flush", &uri])
        .succeeded();
    let used = free(&daemon);
    assert!(empty - used >= 2 * 256 * MIB, "{empty} free before, {used} after");
    run("qemu-io", &["-f", "raw", "-c", "write -z -u 6G 512M", "-c", "flush", &uri]).succeeded();
    assert_eq!(free(&daemon), used, "zeroes that may be a hole take no room");
    run("qemu-io", &["-f", "raw", "-c", "discard 0 256M", "-c", "discard 4G 512M", "-c", "flush", &uri]).succeeded();
    wait_until("the room is given back", 20, || free(&daemon) == empty);
    run("qemu-io", &["-f", "raw", "-c", "read -P 0 0 256M", "-c", "read -P 0 4G 1M", &uri]).succeeded();
    assert_eq!(daemon.json(&["space", "map", "tank/vm"]), serde_json::json!([]));
}

#[test]
fn a_full_pool_refuses_what_needs_room_and_nothing_else() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 2, "256MiB");
    daemon.space("tank/vm", &["--layout", "mirror", "--size", "2GiB", "--thin"]);
    let mut client = Client::connect(&daemon.nbd_socket(), "vm").expect("it is exported");
    let data = vec![1; MIB as usize];
    let mut written = Vec::new();
    let mut refused = None;
    for number in 0..2048 {
        match client.write(number * MIB, &data, false) {
            Ok(()) => written.push(number),
            Err(NbdError::Refused(error)) => {
                assert_eq!(error, NO_SPACE, "at {number} MiB");
                refused = Some(number);
                break;
            }
            Err(NbdError::Lost(error)) => panic!("the connection is lost at {number} MiB: {error}"),
        }
    }
    let refused = refused.expect("2 GiB do not fit on two disks of 256 MiB");
    assert!(refused > 64, "full after {refused} MiB");
    for &number in &written {
        client.write(number * MIB, &vec![2; MIB as usize], number % 7 == 0).expect("overwrites go on");
    }
    client.flush().expect("a flush");
    for &number in &written {
        assert!(
            client.read(number * MIB, MIB as usize).expect("reads go on").iter().all(|&byte| byte == 2),
            "at {number} MiB"
        );
    }
    assert!(client.read(refused * MIB, MIB as usize).expect("reads go on").iter().all(|&byte| byte == 0));
    let told = format!("{}{}", daemon.json(&["status"]), daemon.json(&["event", "list"]));
    assert!(
        told.contains("pool add") || told.contains("add disk") || told.contains("add a disk"),
        "nobody says what to do: {told}"
    );
    let more = scene.path("disks/more0");
    let another = scene.path("disks/more1");
    for path in [&more, &another] {
        daemon.please(&["disk", "create-file", path, "--size", "256MiB"]);
    }
    daemon.please(&["pool", "add", "tank", "--disk", &more, &another]);
    client.write(refused * MIB, &data, true).expect("there is room again");
}

#[test]
fn a_read_only_export_refuses_writes() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 2, "256MiB");
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--size", "64MiB"]);
    run("qemu-io", &["-f", "raw", "-c", "write -P 4 0 64k", "-c", "flush", &uri]).succeeded();
    daemon.please(&["nbd", "export", "tank/vm", "--name", "look", "--read-only"]);
    let mut client = Client::connect(&daemon.nbd_socket(), "look").expect("it is exported");
    assert_ne!(client.flags() & 2, 0, "it says that it is read-only");
    assert!(matches!(client.write(0, &[1; 4096], false), Err(NbdError::Refused(NOT_PERMITTED))));
    assert!(matches!(client.trim(0, 4096), Err(NbdError::Refused(NOT_PERMITTED))));
    assert!(matches!(client.write_zeroes(0, 4096), Err(NbdError::Refused(NOT_PERMITTED))));
    assert_eq!(client.read(0, 4096).expect("a read"), [4; 4096]);
    run("qemu-io", &["-f", "raw", "-c", "write 0 64k", &daemon.uri("look")]).refused();
}

#[test]
fn the_map_tells_where_every_slab_lies() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 6, "256MiB");
    daemon.space("tank/vm", &["--layout", "mirror", "--copies", "3", "--columns", "2", "--size", "128MiB"]);
    let map = daemon.json(&["space", "map", "tank/vm"]);
    let rows = map.as_array().expect("rows");
    let covered: u64 = rows.iter().filter_map(|row| row["length_bytes"].as_u64()).sum();
    assert_eq!(covered, 128 * MIB, "{map}");
    for row in rows {
        let slabs = row["slabs"].as_array().expect("slabs");
        let mut disks: Vec<_> = slabs.iter().filter_map(|slab| slab["disk"].as_str()).collect();
        disks.sort_unstable();
        disks.dedup();
        assert_eq!((slabs.len(), disks.len()), (6, 6), "the slabs of a row lie on distinct disks: {row}");
    }
    let text = daemon.please(&["space", "map", "tank/vm"]);
    assert!(text.contains("disk5.img"), "{text}");
}

#[test]
fn the_demonstration_shows_what_it_says() {
    let scene = Scene::new();
    let binary = binary();
    let dir = scene.path("demo");
    let finished = run_with(binary.to_str().expect("text"), &["demo", "--once", "--dir", &dir], |command| {
        command.current_dir(scene.dir());
    });
    let printed = finished.succeeded();
    assert!(printed.contains("nbd"), "{printed}");
    assert!(Path::new(&dir).is_dir());
}

#[test]
fn two_daemons_do_not_share_a_state_folder() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 2, "256MiB");
    let state = scene.path("a/state");
    let binary = binary();
    let arguments = ["serve", "--state", &state, "--socket", &scene.path("other")];
    run_with(binary.to_str().expect("text"), &arguments, |_| ()).refused();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(daemon.json(&["pool", "show", "tank"])["state"], "ok");
    daemon.end();
}
