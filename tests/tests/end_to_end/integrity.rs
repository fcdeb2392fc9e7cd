//! Silent corruption: what somebody writes over the backing files of disks in use is never served, and is healed where
//! another disk has what counts.

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::corruption::corrupt;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;

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
    // What is written to copies is clean once maintenance has seen it at rest.
    wait_until("nothing is dirty", 60, || daemon.json(&["space", "show", "tank/vm"])["dirty_bytes"] == 0);
    kept
}

fn spoil(daemon: &Daemon) {
    assert!(corrupt(daemon, "tank/vm", |_| Some(0)) > 0);
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
    daemon.json(&["event", "list"]).to_string()
}

#[test]
fn corruption_under_load_is_healed_from_what_is_left() {
    for options in [&["--layout", "mirror"][..], &["--layout", "parity", "--columns", "4", "--interleave", "64KiB"]] {
        let scene = Scene::new();
        let daemon = Daemon::start(&scene);
        let kept = keep(&scene, &daemon, options);
        assert_eq!(daemon.json(&["space", "show", "tank/vm"])["integrity"], "crc32c");
        spoil(&daemon);
        whole(&kept);
        assert!(events(&daemon).contains("were wrong or could not be read"), "{options:?}: {}", events(&daemon));
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
    assert!(!daemon.cli(&["space", "verify", "tank/vm"]).success(), "what is wrong is found");
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
    daemon.please(&["space", "scrub", "tank/vm", "--wait"]);
    verified(&daemon);
}
