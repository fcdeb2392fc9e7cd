//! A pool whose metadata is wiped off every disk, put together again and read by its clients.

use std::fs::File;
use std::os::unix::fs::FileExt;

use holdfast_tests::command::run;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;
use serde_json::Value;

const DISK_BYTES: u64 = 256 << 20;
/// What a disk of this size keeps before its first slab.
const RESERVED_BYTES: usize = 4 << 20;

/// Both labels and the metadata log of a disk become zeros.
fn lose_metadata(disk: &str) {
    let file = File::options().write(true).open(disk).expect("a disk can be opened");
    file.write_all_at(&vec![0; RESERVED_BYTES], 0).expect("a disk can be written to");
    file.write_all_at(&[0; 4096], DISK_BYTES - 4096).expect("a disk can be written to");
}

fn chunks(report: &Value, space: &str, kind: &str) -> u64 {
    let spaces = report["spaces"].as_array().expect("an array of spaces");
    let space = spaces.iter().find(|found| found["name"] == space).unwrap_or_else(|| panic!("{space} in {report}"));
    space["chunks"][kind].as_u64().expect("a number")
}

#[test]
fn a_pool_without_any_metadata_is_read_again() {
    let scene = Scene::new();
    let mut before = Daemon::start_with(&scene, "a", &[]);
    let disks = before.pool(&scene, "tank", 5, "256MiB");
    let kinds: [(&str, &[&str]); 3] = [
        ("mirror", &["--layout", "mirror", "--thin"]),
        ("parity", &["--layout", "parity", "--columns", "4"]),
        ("dual", &["--layout", "parity", "--parity", "2", "--columns", "5", "--thin"]),
    ];
    for (at, (name, options)) in kinds.iter().enumerate() {
        let uri = before.space(&format!("tank/{name}"), &[options, &["--size", "48MiB"][..]].concat());
        let image = scene.path(name);
        std::fs::write(&image, bytes(at as u64 + 1, 48 << 20)).expect("an image can be written");
        run("nbdcopy", &["--flush", &image, &uri]).succeeded();
    }
    before.kill();
    disks.iter().for_each(|disk| lose_metadata(disk));

    let after = Daemon::start_with(&scene, "b", &[]);
    let named: Vec<&str> = disks.iter().map(String::as_str).collect();
    let look = [&["pool", "salvage"], &named[..]].concat();
    let report = after.json(&look);
    assert_eq!((&report["changed"], &report["name"]), (&false.into(), &"tank".into()), "{report}");
    for (name, _) in kinds {
        let space = format!("tank/{name}");
        let total = chunks(&report, &space, "total");
        assert!(total > 0 && chunks(&report, &space, "complete") == total, "{report}");
    }
    let one_lost = after.json(&[&["pool", "salvage"], &named[1..]].concat());
    assert!(
        chunks(&one_lost, "tank/mirror", "degraded") > 0 && chunks(&one_lost, "tank/dual", "missing") == 0,
        "{one_lost}"
    );
    let shown = after.please(&look);
    assert!(shown.contains("tank/dual") && shown.contains("repeat with --write"), "{shown}");

    let written = after.json(&[&look[..], &["--write", "--name", "saved"]].concat());
    assert_eq!(written["changed"], true, "{written}");
    after.please(&["pool", "import", "saved"]);
    for (name, _) in kinds {
        let space = format!("saved/{name}");
        after.please(&["nbd", "export", &space]);
        let (uri, out) = (after.uri(name), scene.path("out"));
        run("nbdcopy", &[&uri, &out]).succeeded();
        run("cmp", &[&scene.path(name), &out]).succeeded();
        let refused = run("nbdcopy", &["--flush", &scene.path(name), &uri]);
        assert!(!refused.success(), "a salvaged space took a write before it was accepted");
        let view = after.json(&["space", "show", &space]);
        assert!(view["conditions"].to_string().contains("space accept"), "{view}");
        after.please(&["space", "accept", &space]);
        run("nbdcopy", &["--flush", &scene.path(name), &uri]).succeeded();
        assert_eq!(after.json(&["space", "verify", &space])["mismatched_blocks"], 0);
    }
    let refused = after.cli(&look).refused();
    assert!(refused.contains("imported pool saved"), "{refused}");
}
