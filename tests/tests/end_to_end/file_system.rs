//! A real ext4 image goes through a three-way mirror that loses two of its eight disks under load, and comes out
//! identical.

use std::path::Path;
use std::time::Duration;

use holdfast_tests::command::run;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::fio;
use holdfast_tests::losses::{away, pull};
use holdfast_tests::random::{Random, bytes};
use holdfast_tests::scene::Scene;

/// A tree of folders and files of many sizes, with links and a name of many letters.
fn tree(scene: &Scene) -> String {
    let root = scene.folder("tree");
    let mut random = Random::new(7);
    for folder in 0..24 {
        let dir = format!("{root}/folder-{}/deeper-{folder}", folder % 5);
        std::fs::create_dir_all(&dir).expect("a folder can be made");
        for file in 0..40 {
            let size = if file % 10 == 0 { random.below(900_000) } else { random.below(20_000) };
            std::fs::write(format!("{dir}/file {file} ümläut.bin"), bytes(random.next_u64(), size as usize))
                .expect("a file can be written");
        }
        std::os::unix::fs::symlink("../../elsewhere", format!("{dir}/link")).expect("a link can be made");
    }
    root
}

#[test]
fn an_ext4_image_survives_the_loss_of_two_of_eight_disks_under_load() {
    let scene = Scene::new();
    let tree = tree(&scene);
    let (image, out) = (scene.path("image"), scene.path("out"));
    run("mkfs.ext4", &["-q", "-F", "-d", &tree, &image, "128M"]).succeeded();
    run("e2fsck", &["-fn", &image]).succeeded();

    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 8, "256MiB");
    let files = daemon.space("tank/files", &["--layout", "mirror", "--copies", "3", "--size", "128MiB", "--thin"]);
    let busy = daemon.space("tank/busy", &["--layout", "mirror", "--copies", "3", "--size", "96MiB"]);
    run("nbdcopy", &["--flush", &image, &files]).succeeded();

    let job = [
        "--rw=randrw",
        "--bs=8k",
        "--iodepth=8",
        "--size=96m",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_backlog=64",
    ];
    let mut load = fio::start(&busy, &[&job[..], &["--time_based", "--runtime=3600", "--rate=30m"]].concat());
    std::thread::sleep(Duration::from_secs(2));
    pull(&daemon, "tank", &disks[2]);
    run("nbdcopy", &["--connections=4", &files, &out]).succeeded();
    run("cmp", &[&image, &out]).succeeded();
    pull(&daemon, "tank", &disks[6]);
    if !load.runs() {
        panic!("the load ended while disks went away: {}", load.finish());
    }
    run("nbdcopy", &["--connections=4", &files, &out]).succeeded();
    run("cmp", &[&image, &out]).succeeded();
    load.stop();
    run("e2fsck", &["-fn", &out]).succeeded();

    let events = daemon.json(&["event", "list"]).to_string();
    for disk in [&disks[2], &disks[6]] {
        assert!(events.contains(disk.as_str()), "no event names {disk}: {events}");
    }
    assert!(Path::new(&away(&disks[2])).exists());
    let space = daemon.json(&["space", "show", "tank/files"]);
    assert_eq!(space["state"], "degraded", "{space}");
    assert!(space["conditions"][0]["next_action"].as_str().is_some_and(|text| !text.is_empty()), "{space}");
}
