//! A disk is pulled and comes back: it is never believed until it is in step, and then carries the data alone.

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::fio;
use holdfast_tests::losses::{give, pull, put_back, take, wait_in_step};
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;
use serde_json::Value;

#[test]
fn a_disk_that_was_away_is_brought_in_step_before_it_is_believed() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 3, "256MiB");
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--size", "64MiB"]);
    let (first, second, out) = (scene.path("first"), scene.path("second"), scene.path("out"));
    std::fs::write(&first, bytes(1, 64 << 20)).expect("an image can be written");
    std::fs::write(&second, bytes(2, 64 << 20)).expect("an image can be written");
    run("nbdcopy", &["--flush", &first, &uri]).succeeded();

    for disk in &disks {
        pull(&daemon, "tank", disk);
        let space = daemon.json(&["space", "show", "tank/vm"]);
        run("nbdcopy", &["--flush", &second, &uri]).succeeded();
        run("nbdcopy", &[&uri, &out]).succeeded();
        run("cmp", &[&second, &out]).succeeded();
        assert!(space["state"] == "degraded" || space["state"] == "ok", "{space}");
        put_back(&daemon, "tank/vm", &[disk]);
        std::fs::copy(&second, &first).expect("a file can be copied");
        std::fs::write(&second, bytes(disk.len() as u64 + u64::from(disk.as_bytes()[disk.len() - 5]), 64 << 20))
            .expect("an image can be written");
    }
    // Each disk in turn carries its share alone.
    for disk in &disks {
        pull(&daemon, "tank", disk);
        run("nbdcopy", &[&uri, &out]).succeeded();
        run("cmp", &[&first, &out]).succeeded();
        put_back(&daemon, "tank/vm", &[disk]);
    }
    let events = daemon.json(&["event", "list"]);
    let lost = events
        .as_array()
        .into_iter()
        .flatten()
        .find(|event| event["severity"] != "info" && event.to_string().contains(&disks[0]));
    let lost = lost.unwrap_or_else(|| panic!("no event tells of the loss of {}: {events}", disks[0]));
    assert!(lost["next_action"].as_str().is_some_and(|text| !text.is_empty()), "{lost}");
}

#[test]
fn the_job_that_mends_a_loss_stands_in_its_cause() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 6, "256MiB");
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--size", "64MiB", "--columns", "2"]);
    let image = scene.path("image");
    std::fs::write(&image, bytes(3, 64 << 20)).expect("an image can be written");
    run("nbdcopy", &["--flush", &image, &uri]).succeeded();
    let map = daemon.json(&["space", "map", "tank/vm"]).to_string();
    let used = disks.iter().find(|disk| map.contains(disk.as_str())).expect("a disk in use");
    pull(&daemon, "tank", used);
    let replaced = daemon.json(&["disk", "replace", used, "--cap", "1MiB"]);
    let status = daemon.json(&["status"]);
    // What the rebuild still has to write is a cause of its own.
    let causes = status["causes"].as_array().expect("a list");
    let lost = causes
        .iter()
        .find(|cause| cause["kind"] == "disk-lost")
        .unwrap_or_else(|| panic!("it is lost still: {status}"));
    assert_eq!(lost["jobs"], serde_json::json!([replaced["job"]["id"]]), "{lost}");
    assert!(lost["repair_at"].is_null() && lost["no_repair"].is_null(), "what is under way is not announced: {lost}");
}

#[test]
fn a_disk_that_comes_back_under_load_disturbs_nobody() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 3, "256MiB");
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--size", "64MiB", "--thin"]);
    let job = [
        "--rw=randrw",
        "--bsrange=4k-64k",
        "--iodepth=8",
        "--size=64m",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_backlog=32",
    ];
    let load = fio::start(&uri, &[&job[..], &["--time_based", "--runtime=3600", "--rate=30m"]].concat());
    for disk in &disks[..2] {
        pull(&daemon, "tank", disk);
        std::thread::sleep(std::time::Duration::from_secs(1));
        put_back(&daemon, "tank/vm", &[disk]);
    }
    load.stop();
    fio::verify(&uri, &["--size=64m"]);
}

#[test]
fn a_disk_that_was_away_while_the_daemon_was_down_is_not_believed() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 3, "256MiB");
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--size", "64MiB"]);
    let (old, new, out) = (scene.path("old"), scene.path("new"), scene.path("out"));
    std::fs::write(&old, bytes(1, 64 << 20)).expect("an image can be written");
    std::fs::write(&new, bytes(2, 64 << 20)).expect("an image can be written");
    run("nbdcopy", &["--flush", &old, &uri]).succeeded();
    daemon.end();
    take(&disks[1]);
    daemon.start_again();
    run("nbdcopy", &["--flush", &new, &uri]).succeeded();
    daemon.end();
    give(&disks[1]);
    daemon.start_again();
    run("nbdcopy", &[&uri, &out]).succeeded();
    run("cmp", &[&new, &out]).succeeded();
    wait_until("all is in step", 60, || daemon.json(&["space", "show", "tank/vm"])["state"] == "ok");
    pull(&daemon, "tank", &disks[0]);
    run("nbdcopy", &[&uri, &out]).succeeded();
    run("cmp", &[&new, &out]).succeeded();
}

/// Slabs of the map whose other copy lies on one of `partners`, of those on `disk`.
fn beside(maps: &[Value], disk: &str, partners: &[&String]) -> usize {
    let rows = maps.iter().flat_map(|map| map.as_array().into_iter().flatten());
    let paths = rows.map(|row| {
        let slabs = row["slabs"].as_array().into_iter().flatten();
        slabs.filter_map(|slab| slab["path"].as_str()).collect::<Vec<_>>()
    });
    paths.filter(|paths| paths.contains(&disk) && partners.iter().any(|other| paths.contains(&other.as_str()))).count()
}

/// Of a disk that is back only those slabs are brought in step whose other copies are there, so that its progress can
/// be held at a known place.
#[test]
fn a_disk_that_resyncs_says_how_far_it_is() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 7, "256MiB");
    let spaces: Vec<String> = (0..12).map(|number| format!("tank/s{number}")).collect();
    let mirror = ["--layout", "mirror", "--columns", "1", "--size", "16MiB"];
    let uris: Vec<String> = spaces.iter().map(|space| daemon.space(space, &mirror)).collect();
    let write = |seed: u64| {
        let image = scene.path("image");
        std::fs::write(&image, bytes(seed, 16 << 20)).expect("an image can be written");
        uris.iter().for_each(|uri| drop(run("nbdcopy", &["--flush", &image, uri]).succeeded()));
    };
    write(1);
    let maps: Vec<Value> = spaces.iter().map(|space| daemon.json(&["space", "map", space])).collect();
    let partners_of = |disk: &String| -> Vec<&String> {
        disks.iter().filter(|other| *other != disk && beside(&maps, disk, &[other]) > 0).collect()
    };
    let back = disks.iter().max_by_key(|disk| partners_of(disk).len()).expect("there are disks");
    let partners = partners_of(back);
    assert!(partners.len() >= 2, "{partners:?}");
    let (first, second) = (partners[0], partners[1]);

    pull(&daemon, "tank", back);
    write(2);
    pull(&daemon, "tank", first);
    pull(&daemon, "tank", second);
    give(back);
    // The slabs that are behind, and the part that is done; none where it is not told of.
    let told = || {
        let status = daemon.json(&["status"]);
        let of_disk = |cause: &&Value| cause["kind"] == "disk-resyncing" && cause["disks"][0]["path"] == back.as_str();
        let cause = status["causes"].as_array().expect("a list").iter().find(of_disk);
        cause.cloned().map(|cause| (cause["resync_slabs"].as_u64().expect("a number") as usize, cause))
    };
    let mut percents = Vec::new();
    for (missing, returning) in [(vec![first, second], first), (vec![second], second)] {
        let left = beside(&maps, back, &missing);
        wait_until("all else is in step", 60, || told().is_some_and(|(slabs, _)| slabs == left));
        let (_, cause) = told().expect("it goes no further");
        assert!(cause["cause"].as_str().is_some_and(|text| text.contains("resynced")), "{cause}");
        assert!(!cause["next_action"].as_str().unwrap_or_default().is_empty(), "{cause}");
        percents.push(cause["resync_percent"].as_f64().expect("a number"));
        give(returning);
    }
    assert!(0.0 <= percents[0] && percents[0] < percents[1] && percents[1] < 100.0, "{percents:?}");
    wait_until("it is told of no more", 60, || told().is_none());
    spaces.iter().for_each(|space| wait_in_step(&daemon, space));
    assert_eq!(daemon.json(&["status"])["health"], "healthy");
}
