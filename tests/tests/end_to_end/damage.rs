//! Labels and logs that are damaged while the daemon is down: outvoted and repaired, or refused by name, never
//! believed.

use std::fs::File;
use std::os::unix::fs::FileExt;

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;

const DISK_BYTES: u64 = 256 << 20;
/// The label and the first blocks of the log, at either end.
const EDGE_BYTES: usize = 64 << 10;
/// More than all that a disk of this size keeps of its pool, at either end.
const RESERVED_BYTES: usize = 8 << 20;

struct Kept {
    image: String,
    out: String,
    disks: Vec<String>,
    uri: String,
}

fn keep(scene: &Scene, daemon: &Daemon) -> Kept {
    let disks = daemon.pool(scene, "tank", 5, "256MiB");
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--copies", "3", "--size", "64MiB"]);
    let kept = Kept { image: scene.path("image"), out: scene.path("out"), disks, uri };
    std::fs::write(&kept.image, bytes(4, 64 << 20)).expect("an image can be written");
    run("nbdcopy", &["--flush", &kept.image, &kept.uri]).succeeded();
    kept
}

#[track_caller]
fn whole(daemon: &Daemon, kept: &Kept) {
    wait_until("the space is served", 20, || daemon.json(&["nbd", "list"])[0]["served"] == true);
    run("nbdcopy", &[&kept.uri, &kept.out]).succeeded();
    run("cmp", &[&kept.image, &kept.out]).succeeded();
}

fn overwrite(path: &str, at: u64, data: &[u8]) {
    let file = File::options().write(true).open(path).expect("a disk can be opened");
    file.write_all_at(data, at).expect("a disk can be written to");
}

fn read(path: &str, at: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    File::open(path).and_then(|file| file.read_exact_at(&mut data, at)).expect("a disk can be read");
    data
}

#[test]
fn a_damaged_label_is_repaired_from_the_one_at_the_other_end() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let kept = keep(&scene, &daemon);
    for round in 0..2 {
        daemon.end();
        // First the front labels of three disks, then the back labels of the others.
        for (number, disk) in kept.disks.iter().enumerate() {
            if round == 0 && number < 3 {
                overwrite(disk, 0, &bytes(number as u64, 4096));
            }
            if round == 1 && number >= 3 {
                overwrite(disk, DISK_BYTES - 4096, &vec![0xff; 4096]);
            }
        }
        daemon.start_again();
        wait_until("all disks are in service", 60, || daemon.json(&["pool", "show", "tank"])["state"] == "ok");
        whole(&daemon, &kept);
    }
}

#[test]
fn disks_with_both_ends_destroyed_are_out_and_the_rest_carries_on() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let kept = keep(&scene, &daemon);
    daemon.kill();
    for (number, disk) in kept.disks[..2].iter().enumerate() {
        overwrite(disk, 0, &bytes(number as u64, RESERVED_BYTES));
        overwrite(disk, DISK_BYTES - RESERVED_BYTES as u64, &bytes(number as u64 + 9, RESERVED_BYTES));
    }
    daemon.start_again();
    whole(&daemon, &kept);
    let pool = daemon.json(&["pool", "show", "tank"]);
    assert_eq!(pool["state"], "degraded", "{pool}");
    let out = pool["disks"].as_array().map_or(0, |disks| disks.iter().filter(|disk| disk["state"] != "online").count());
    assert_eq!(out, 2, "{pool}");
}

#[test]
fn labels_of_two_disks_swapped_are_not_believed() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let kept = keep(&scene, &daemon);
    daemon.end();
    let (one, other) = (&kept.disks[0], &kept.disks[3]);
    for at in [0, DISK_BYTES - EDGE_BYTES as u64] {
        let (first, second) = (read(one, at, EDGE_BYTES), read(other, at, EDGE_BYTES));
        overwrite(one, at, &second);
        overwrite(other, at, &first);
    }
    daemon.start_again();
    // Whatever the daemon makes of the two disks, the data is whole or withheld: three copies lie on five disks.
    let served = daemon.json(&["nbd", "list"])[0]["served"] == true;
    if served {
        whole(&daemon, &kept);
    } else {
        let pools = daemon.json(&["pool", "list"]).to_string();
        assert!(pools.contains("next_action"), "{pools}");
    }
}

#[test]
fn truncated_disks_are_out_and_named() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let kept = keep(&scene, &daemon);
    daemon.end();
    let cut = File::options().write(true).open(&kept.disks[1]).expect("a disk can be opened");
    cut.set_len(DISK_BYTES / 3).expect("a file can be cut");
    std::fs::write(&kept.disks[4], b"").expect("a file can be emptied");
    daemon.start_again();
    whole(&daemon, &kept);
    let pool = daemon.json(&["pool", "show", "tank"]);
    assert_eq!(pool["state"], "degraded", "{pool}");
    let said = format!("{}{}", pool, daemon.json(&["event", "list"]));
    assert!(said.contains("disk1.img") && said.contains("disk4.img"), "{said}");
}

#[test]
fn a_pool_with_most_disks_gone_is_not_brought_in_and_says_which() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let kept = keep(&scene, &daemon);
    daemon.end();
    for disk in &kept.disks[..3] {
        std::fs::rename(disk, format!("{disk}.away")).expect("a disk can be moved away");
    }
    daemon.start_again();
    let message = daemon.cli(&["pool", "import", "tank"]).refused();
    let said = format!("{message}{}", daemon.json(&["pool", "list"]));
    for number in 0..3 {
        assert!(said.contains(&format!("disk{number}.img")), "disk{number} is not named: {said}");
    }
    for disk in &kept.disks[..3] {
        std::fs::rename(format!("{disk}.away"), disk).expect("a disk can be moved back");
    }
    daemon.cli(&["pool", "import", "tank"]);
    whole(&daemon, &kept);
}

#[test]
fn random_damage_of_the_reserved_areas_of_one_disk_changes_no_data() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let kept = keep(&scene, &daemon);
    for round in 0..6u64 {
        daemon.kill();
        let disk = &kept.disks[round as usize % kept.disks.len()];
        let mut random = holdfast_tests::random::Random::new(round);
        for _ in 0..40 {
            let at = random.below(4 << 20);
            let at = if random.below(2) == 0 { at } else { DISK_BYTES - 1 - at };
            let byte = read(disk, at, 1)[0];
            overwrite(disk, at, &[byte ^ (1 << random.below(8))]);
        }
        daemon.start_again();
        wait_until("all is in step", 60, || daemon.json(&["space", "show", "tank/vm"])["state"] == "ok");
    }
    assert_eq!(kept.disks.len(), 5);
}
