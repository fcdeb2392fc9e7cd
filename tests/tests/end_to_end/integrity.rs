//! Silent corruption: what somebody writes over the backing files of disks in use is never served, and is healed where another
//! disk has what counts.

use std::fs::File;
use std::os::unix::fs::FileExt;

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;

/// Bytes of a slab before its data.
const HEAD_BYTES: u64 = 64 << 10;
const IMAGE_BYTES: usize = 48 << 20;

struct Kept {
    image: String,
    out: String,
    uri: String,
}

fn keep(scene: &Scene, daemon: &Daemon, options: &[&str]) -> Kept {
    daemon.pool(scene, "tank", 4, "256MiB");
    let uri = daemon.space("tank/vm", &[options, &["--size", "48MiB"]].concat());
    let kept = Kept { image: scene.path("image"), out: scene.path("out"), uri };
    std::fs::write(&kept.image, bytes(5, IMAGE_BYTES)).expect("an image can be written");
    run("nbdcopy", &["--flush", &kept.image, &kept.uri]).succeeded();
    // What is written to copies is clean once the housekeeping has seen it at rest.
    wait_until("nothing is dirty", 60, || daemon.json(&["space", "show", "tank/vm"])["dirty_bytes"] == 0);
    kept
}

/// Writes over the data of the first slab of every row, as a disk that lost its mind would; tells which disks that hit.
fn spoil(daemon: &Daemon) -> Vec<String> {
    let map = daemon.json(&["space", "map", "tank/vm"]);
    let mut hit = Vec::new();
    for row in map.as_array().expect("rows").iter().filter(|row| row["journal"] == false) {
        let slab = &row["slabs"][0];
        let path = slab["path"].as_str().expect("a path").to_owned();
        let (offset, len) = (slab["offset_bytes"].as_u64().expect("bytes"), slab["length_bytes"].as_u64().expect("bytes"));
        let file = File::options().write(true).open(&path).expect("a disk can be opened");
        let rubbish = bytes(offset, (len - HEAD_BYTES) as usize / 2 / 4096 * 4096);
        file.write_all_at(&rubbish, offset + HEAD_BYTES).expect("a disk can be written to");
        hit.push(path);
    }
    hit.sort();
    hit.dedup();
    hit
}

#[track_caller]
fn whole(kept: &Kept) {
    run("nbdcopy", &[&kept.uri, &kept.out]).succeeded();
    run("cmp", &[&kept.image, &kept.out]).succeeded();
}

#[track_caller]
fn verified(daemon: &Daemon) {
    let found = daemon.json(&["space", "verify", "tank/vm"]);
    assert_eq!((&found["mismatched_blocks"], &found["unchecked_bytes"]), (&0.into(), &0.into()), "{found}");
}

fn events(daemon: &Daemon) -> String {
    daemon.json(&["events", "list"]).to_string()
}

#[test]
fn corruption_under_load_is_healed_from_what_is_left() {
    for options in [&["--layout", "mirror"][..], &["--layout", "parity", "--columns", "4", "--interleave", "64KiB"]] {
        let scene = Scene::new();
        let daemon = Daemon::start(&scene);
        let kept = keep(&scene, &daemon, options);
        assert_eq!(daemon.json(&["space", "show", "tank/vm"])["integrity"], "crc32c");
        assert!(!spoil(&daemon).is_empty());
        whole(&kept);
        assert!(events(&daemon).contains("checksum"), "{options:?}: {}", events(&daemon));
        daemon.please(&["space", "scrub", "tank/vm", "--wait"]);
        verified(&daemon);
        // Nobody read before the scrub came.
        spoil(&daemon);
        daemon.please(&["space", "scrub", "tank/vm", "--wait"]);
        verified(&daemon);
        whole(&kept);
    }
}

#[test]
fn corruption_of_the_only_copy_is_refused_and_told() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let kept = keep(&scene, &daemon, &["--layout", "simple", "--columns", "2"]);
    daemon.kill();
    daemon.start_again();
    wait_until("the space is served", 20, || daemon.json(&["nbd", "list"])[0]["served"] == true);
    whole(&kept);
    wait_until("nothing is dirty", 60, || daemon.json(&["space", "show", "tank/vm"])["dirty_bytes"] == 0);
    spoil(&daemon);
    let complaint = run("nbdcopy", &[&kept.uri, &kept.out]).refused();
    assert!(complaint.contains("Input/output error"), "{complaint}");
    assert!(events(&daemon).contains("checksum"), "{}", events(&daemon));
    assert!(daemon.json(&["space", "verify", "tank/vm"])["mismatched_blocks"].as_u64() > Some(1000));
    // What is written anew counts again.
    run("nbdcopy", &["--flush", &kept.image, &kept.uri]).succeeded();
    whole(&kept);
    verified(&daemon);
}

#[test]
fn checksums_are_turned_off_and_on_while_the_space_is_in_use() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let kept = keep(&scene, &daemon, &["--layout", "mirror", "--integrity", "none"]);
    for integrity in ["crc32c", "none", "crc32c"] {
        daemon.please(&["space", "convert", "tank/vm", "--integrity", integrity, "--wait"]);
        assert_eq!(daemon.json(&["space", "show", "tank/vm"])["integrity"], integrity);
        whole(&kept);
    }
    wait_until("nothing is dirty", 60, || daemon.json(&["space", "show", "tank/vm"])["dirty_bytes"] == 0);
    spoil(&daemon);
    whole(&kept);
    verified(&daemon);
}
