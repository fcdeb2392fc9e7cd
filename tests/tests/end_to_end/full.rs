//! File systems that are full: that of the state folder, and that of the files which serve as disks; and a pool that is
//! full below a thin volume. What cannot be kept is refused, service goes on, and all is as before once there is room.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::nbd::Client;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;
use holdfast_tests::small_fs::SmallFs;

const MIB: usize = 1 << 20;
/// Seconds after which a pool that could not be imported is tried again for certain.
const RETRY_SECONDS: u64 = 40;

/// A small file system, or none where nobody may mount; the summary says so.
fn small(scene: &Scene, name: &str, mib: u32) -> Option<SmallFs> {
    let mounted = SmallFs::mount(scene, name, mib);
    mounted.map_err(|needs| holdfast_harness::note_left_out("tests of full file systems", needs)).ok()
}

/// Asks for what has to be kept in the full state folder: it is refused, and names the folder and the next step.
#[track_caller]
fn refused(daemon: &Daemon, state: &SmallFs, command: &[&str]) {
    let refusal = daemon.cli(command).refused();
    assert!(refusal.contains(state.path()) && refusal.contains("make room"), "{command:?}: {refusal}");
}

fn exports(daemon: &Daemon) -> Vec<(String, bool, Option<u64>)> {
    let list = daemon.json(&["nbd", "list"]);
    let of = |export: &serde_json::Value| {
        let name = export["name"].as_str().expect("a name").to_owned();
        (name, export["served"] == true, export["qos"]["max_iops"].as_u64())
    };
    list.as_array().expect("a list").iter().map(of).collect()
}

fn pools(daemon: &Daemon) -> Vec<String> {
    let list = daemon.json(&["pool", "list"]);
    let of =
        |pool: &serde_json::Value| format!("{} {}", pool["name"].as_str().unwrap(), pool["state"].as_str().unwrap());
    list.as_array().expect("a list").iter().map(of).collect()
}

#[test]
fn a_full_state_folder_refuses_what_it_cannot_keep_and_loses_nothing() {
    let scene = Scene::new();
    let Some(state) = small(&scene, "a/state", 16) else { return };
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.disks(&scene, 5, "256MiB");
    daemon.please(&["pool", "create", "tank", "--disk", &disks[0], &disks[1]]);
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--size", "64MiB"]);
    let image = bytes(3, 4 * MIB);
    let mut client = Client::connect(&daemon.nbd_socket(), "vm").expect("it is exported");
    client.write(0, &image, true).expect("a write");

    state.fill();
    let more = ["pool", "create", "more", "--disk", &disks[2], &disks[3]];
    let fresh = scene.path("disks/fresh.img");
    let scrub = ["space", "scrub", "tank/vm"];
    refused(&daemon, &state, &more);
    refused(&daemon, &state, &["disk", "create-file", &fresh, "--size", "256MiB"]);
    assert!(!Path::new(&fresh).exists(), "what is refused leaves nothing behind");
    refused(&daemon, &state, &["disk", "set", &disks[3], "--media", "hdd"]);
    refused(&daemon, &state, &["settings", "set", "--host-name", "nas"]);
    refused(&daemon, &state, &scrub);
    refused(&daemon, &state, &more);
    assert_eq!(pools(&daemon), ["tank ok"], "a refused pool is not there");
    let health = daemon.json(&["status"]).to_string();
    assert!(health.contains("changes cannot be saved") && health.contains(state.path()), "{health}");

    // What is kept on the pool itself goes on, and so do clients.
    daemon.please(&["space", "create", "tank/two", "--layout", "mirror", "--size", "32MiB"]);
    daemon.please(&["nbd", "export", "tank/two"]);
    daemon.please(&["nbd", "set", "vm", "--max-iops", "50000"]);
    daemon.please(&["pool", "set", "tank", "--alert", "90"]);
    daemon.please(&["pool", "add", "tank", "--disk", &disks[4]]);
    client.write(MIB as u64, &image[MIB..2 * MIB], true).expect("clients go on");
    assert!(client.read(0, image.len()).expect("clients go on") == image);
    drop(client);
    wait_until("the client is gone", 20, || daemon.json(&["nbd", "list"])[1]["connections"] == 0);
    refused(&daemon, &state, &["pool", "export", "tank"]);

    let kept = [("two".to_owned(), true, None), ("vm".to_owned(), true, Some(50_000))];
    let is_whole = |daemon: &Daemon| {
        assert_eq!(exports(daemon), kept);
        let pool = daemon.json(&["pool", "show", "tank"]);
        assert_eq!(pool["disks"].as_array().map(Vec::len), Some(3));
        assert_eq!(pool["alert"]["percents"], serde_json::json!([90]));
    };
    is_whole(&daemon);
    daemon.kill();
    daemon.start_again();
    is_whole(&daemon);
    // An orderly end gives room back, which somebody else takes.
    daemon.end();
    state.fill();
    daemon.start_again();
    is_whole(&daemon);
    state.fill();
    refused(&daemon, &state, &more);

    state.make_room();
    wait_until("the state folder is well", 20, || !daemon.json(&["status"]).to_string().contains("cannot be saved"));
    daemon.please(&more);
    daemon.please(&scrub);
    daemon.please(&["disk", "create-file", &fresh, "--size", "256MiB"]);
    daemon.end();
    daemon.start_again();
    is_whole(&daemon);
    assert_eq!(pools(&daemon), ["more ok", "tank ok"]);
    let out = scene.path("out");
    run("nbdcopy", &[&uri, &out]).succeeded();
    assert!(fs::read(&out).expect("a copy")[..image.len()] == image);
}

#[test]
fn a_pool_that_could_not_be_imported_for_want_of_room_comes_back_by_itself() {
    let scene = Scene::new();
    let (Some(state), Some(room)) = (small(&scene, "a/state", 16), small(&scene, "m", 48)) else { return };
    let mut daemon = Daemon::start(&scene);
    let tank = daemon.pool(&scene, "tank", 2, "256MiB");
    daemon.please(&["space", "create", "tank/vm", "--layout", "mirror", "--size", "64MiB"]);
    let files: Vec<String> = (0..3).map(|number| format!("{}/{number}", room.path())).collect();
    for file in &files {
        daemon.please(&["disk", "create-file", file, "--size", "256MiB"]);
    }
    daemon.please(&["pool", "create", "shelf", "--disk", &files[0], &files[1], &files[2]]);
    let uri = daemon.space("shelf/vm", &["--layout", "mirror", "--size", "64MiB", "--thin"]);
    let (image, out) = (bytes(4, MIB), scene.path("out"));
    let mut client = Client::connect(&daemon.nbd_socket(), "vm").expect("it is exported");
    client.write(0, &image, true).expect("a write");
    drop(client);
    daemon.end();

    // The other pool was carried to other paths: that it is imported there cannot be written down either.
    let elsewhere = scene.folder("elsewhere");
    for (number, disk) in tank.iter().enumerate() {
        fs::rename(disk, format!("{elsewhere}/{number}")).expect("a disk can be moved");
    }
    room.fill();
    daemon.start_again();
    state.fill();
    assert_eq!(pools(&daemon), ["shelf offline", "tank offline"]);
    let reason = daemon.json(&["pool", "show", "shelf"])["conditions"][0].clone();
    let (cause, next) = (reason["cause"].to_string(), reason["next_action"].to_string());
    assert!(cause.contains("not imported") && cause.contains("No space left"), "{reason}");
    assert!(next.contains("the room on the file system") && !next.contains("--force"), "no disk is lost: {reason}");
    assert_eq!(exports(&daemon), [("vm".to_owned(), false, None)]);
    daemon.please(&["pool", "import", "--disk-dir", &elsewhere]);
    assert_eq!(pools(&daemon), ["shelf offline", "tank ok"]);

    room.make_room();
    wait_until("the pool is back", RETRY_SECONDS, || pools(&daemon) == ["shelf ok", "tank ok"]);
    assert_eq!(exports(&daemon), [("vm".to_owned(), true, None)]);
    run("nbdcopy", &[&uri, &out]).succeeded();
    assert!(fs::read(&out).expect("a copy")[..image.len()] == image);

    state.make_room();
    wait_until("where the disks are is written down", 20, || {
        daemon.json(&["event", "list"]).to_string().contains("can be written again")
    });
    daemon.end();
    daemon.start_again();
    assert_eq!(pools(&daemon), ["shelf ok", "tank ok"]);
}

/// What small writes were answered for waits in memory until the pool has room; meanwhile that is told.
#[test]
fn what_a_thin_volume_accepted_is_kept_while_its_pool_is_full() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    let disks = daemon.disks(&scene, 4, "256MiB");
    daemon.please(&["pool", "create", "tank", "--disk", &disks[0], &disks[1]]);
    daemon.please(&["volume", "create", "tank/files", "--size", "2GiB", "--thin", "--layout", "simple"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    let mut large = File::create(format!("{directory}/large")).expect("a file");
    let refused = std::iter::repeat_with(|| large.write_all(&[7; MIB])).take(1024).find_map(Result::err);
    assert!(refused.is_some(), "512 MiB of disks hold no GiB");
    let content = |number: u64| bytes(number, 60_000);
    let path = |number: u64| format!("{directory}/small {number}");
    // Those that wait, and those that are refused once it is known that they could not be written.
    let kept: Vec<u64> = (0..20).filter(|number| fs::write(path(*number), content(*number)).is_ok()).collect();
    assert!(!kept.is_empty());
    wait_until("health tells", 30, || {
        let shown = daemon.json(&["volume", "show", "tank/files"]);
        let told = shown["conditions"].as_array().expect("a list").iter().any(|told| told["reason"] == "unwritten");
        told && shown["health"] == "unhealthy"
    });
    File::open(path(kept[0])).expect("it is there").sync_all().expect_err("it is told that there is no room");
    for number in &kept {
        assert!(fs::read(path(*number)).expect("it is there") == content(*number));
    }
    daemon.please(&["pool", "add", "tank", "--disk", &disks[2], &disks[3]]);
    wait_until("it is written", 60, || daemon.json(&["volume", "show", "tank/files"])["health"] == "healthy");
    for number in &kept {
        File::open(path(*number)).expect("it is there").sync_all().expect("it lasts");
    }
    drop(large);
    daemon.please(&["volume", "unmount", "tank/files"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    for number in &kept {
        assert!(fs::read(path(*number)).expect("it is there") == content(*number));
    }
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
}

/// A neighbour fills the pool. What has a place is overwritten and removed, also after a restart, and made durable.
#[test]
fn a_thin_volume_on_a_full_pool_goes_on_with_what_it_has() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.disks(&scene, 2, "256MiB");
    daemon.please(&["pool", "create", "tank", "--disk", &disks[0], &disks[1]]);
    daemon.please(&["volume", "create", "tank/files", "--size", "1GiB", "--thin", "--layout", "simple"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    let data = format!("{directory}/data");
    let mut held = bytes(1, MIB);
    fs::write(&data, &held).expect("there is room");
    File::open(&data).expect("it is there").sync_all().expect("it lasts");
    daemon.space("tank/fill", &["--layout", "simple", "--size", "1GiB", "--thin"]);
    let mut client = Client::connect(&daemon.nbd_socket(), "fill").expect("it is exported");
    let block = bytes(9, MIB);
    let refused = (0..1024u64).find(|number| client.write(number * MIB as u64, &block, false).is_err());
    assert!(refused.is_some(), "512 MiB of disks hold no GiB");
    drop(client);

    let overwrite = |file: &File, held: &mut Vec<u8>, from: u64, rounds: u64| {
        for round in from..from + rounds {
            let at = (round * 37 % 256) as usize * 4096;
            let new = bytes(round, 4096);
            std::os::unix::fs::FileExt::write_all_at(file, &new, at as u64).expect("an overwrite needs no room");
            held[at..at + 4096].copy_from_slice(&new);
            file.sync_data().expect("it lasts");
        }
    };
    let well = |daemon: &Daemon| {
        let shown = daemon.json(&["volume", "show", "tank/files"]).to_string();
        assert!(!shown.contains("takes no changes") && !shown.contains("is not open"), "{shown}");
    };
    let open = || File::options().write(true).open(&data).expect("it is there");
    overwrite(&open(), &mut held, 0, 1500);
    well(&daemon);
    let small = |number: u32| format!("{directory}/small {number}");
    let made = (0..3000).take_while(|number| fs::write(small(*number), bytes(1, 1500)).is_ok()).count() as u32;
    overwrite(&open(), &mut held, 5000, 100);
    well(&daemon);
    assert!(fs::read(&data).expect("it is there") == held);

    daemon.kill();
    daemon.start_again();
    wait_until("the volume is mounted again", 30, || fs::read(&data).is_ok_and(|found| found == held));
    well(&daemon);
    overwrite(&open(), &mut held, 9000, 100);
    for number in 0..made {
        // Those that nothing had made durable may be gone.
        match fs::remove_file(small(number)) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
        }
    }
    daemon.please(&["volume", "trim", "tank/files", "--wait"]);
    well(&daemon);
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
    assert!(fs::read(&data).expect("it is there") == held);
}
