//! Three shelves of disks, of which one is lost with all its disks: what is spread over them goes on.

use holdfast_tests::command::wait_until;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::fio;
use holdfast_tests::losses::{give, missing, take, wait_in_step, wait_missing};
use holdfast_tests::scene::Scene;

const ENCLOSURES: usize = 3;
const DISKS: usize = 3 * ENCLOSURES;
const LOST: usize = 1;

fn enclosure(disk: usize) -> usize {
    disk % ENCLOSURES
}

#[test]
fn mirrors_and_parity_go_on_without_one_of_three_enclosures() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", DISKS, "256MiB");
    for (at, disk) in disks.iter().enumerate() {
        let (shelf, slot) = (format!("shelf{}", enclosure(at)), (at / ENCLOSURES).to_string());
        daemon.please(&["disk", "set", disk, "--enclosure", &shelf, "--slot", &slot]);
    }
    let refused = daemon
        .cli(&[
            "space",
            "create",
            "tank/no",
            "--layout",
            "parity",
            "--columns",
            "4",
            "--size",
            "32MiB",
            "--enclosure-aware",
        ])
        .refused();
    assert!(refused.contains("enclosure"), "{refused}");
    let spaces: [(&str, &[&str]); 4] = [
        ("two", &["--layout", "mirror", "--columns", "3"]),
        ("three", &["--layout", "mirror", "--copies", "3", "--columns", "2"]),
        ("single", &["--layout", "parity", "--columns", "3"]),
        ("dual", &["--layout", "parity", "--parity", "2", "--columns", "6", "--thin"]),
    ];
    let uris = spaces.map(|(name, options)| {
        let uri =
            daemon.space(&format!("tank/{name}"), &[options, &["--size", "32MiB", "--enclosure-aware"][..]].concat());
        fio::verify(&uri, &["--size=32m"]);
        uri
    });
    let judge = ["--rw=randrw", "--bsrange=4k-64k", "--iodepth=8", "--size=32m", "--verify=crc32c", "--verify_fatal=1"];
    let options = [&judge[..], &["--verify_backlog=64", "--time_based", "--runtime=45", "--rate=4m"]].concat();
    let mut loads: Vec<fio::Running> = uris.iter().map(|uri| fio::start(uri, &options)).collect();
    let lost: Vec<&String> =
        disks.iter().enumerate().filter(|(at, _)| enclosure(*at) == LOST).map(|(_, disk)| disk).collect();
    lost.iter().for_each(|disk| take(disk));
    wait_missing(&daemon, "tank", lost.len());
    for (name, _) in spaces {
        let space = daemon.json(&["space", "show", &format!("tank/{name}")]);
        assert_eq!(space["state"], "degraded", "{space}");
    }
    assert!(loads.iter_mut().all(fio::Running::runs), "a load ended with the enclosure");
    // A load with a rate does not end when it is told to.
    loads.into_iter().for_each(|load| drop(load.finish()));
    for uri in &uris {
        fio::verify(uri, &["--size=32m"]);
    }
    lost.iter().for_each(|disk| give(disk));
    wait_until("the disks are back", 30, || missing(&daemon, "tank") == 0);
    for (name, _) in spaces {
        let space = format!("tank/{name}");
        wait_in_step(&daemon, &space);
        let verified = daemon.json(&["space", "verify", &space]);
        assert_eq!(verified["mismatched_blocks"], 0, "{verified}");
    }
}
