//! Volumes whose blocks were damaged on their disks: what is lost fails by itself, is repaired, and the rest is copied out.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use holdfast_device::reactor::{self, ReactorSettings};
use holdfast_tests::command::run;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::random::bytes;
use holdfast_tests::wounded::Victims;

const BLOCK: usize = 4096;
/// Bytes of a node of a volume.
const NODE: usize = 16 << 10;

/// Writes over blocks of disks that begin with `magic` and have `needle` within `len` bytes; answers how many.
fn damage(disks: &[String], magic: &[u8], len: usize, needle: &[u8]) -> usize {
    let mut count = 0;
    for path in disks {
        let disk = File::options().read(true).write(true).open(path).expect("a disk can be opened");
        let all = std::fs::read(path).expect("a disk can be read");
        for (index, block) in all.chunks(BLOCK).enumerate() {
            let at = index * BLOCK;
            let part = &all[at..all.len().min(at + len)];
            if block.starts_with(magic)
                && (needle.is_empty() || part.windows(needle.len()).any(|found| found == needle))
            {
                disk.write_all_at(&[0x5a; 512], (at + len / 2) as u64).expect("a disk can be written to");
                count += 1;
            }
        }
    }
    count
}

#[test]
fn a_damaged_node_fails_only_itself_and_is_repaired_offline() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 2, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "128MiB", "--layout", "simple"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    // Directories stand in different trees, with their files.
    for name in ["sound", "victim"] {
        std::fs::create_dir(format!("{directory}/{name}")).expect("made");
        std::fs::write(format!("{directory}/{name}/file of {name}"), bytes(7, 100_000)).expect("written");
    }
    daemon.end();
    assert!(damage(&disks, b"HFvN", NODE, b"file of victim") > 0, "its nodes are on the disks");
    daemon.start_again();
    let sound = std::fs::read(format!("{directory}/sound/file of sound")).expect("all else is served");
    assert!(sound == bytes(7, 100_000));
    let error = std::fs::read_dir(format!("{directory}/victim")).map(Iterator::count).expect_err("its node is lost");
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
    std::fs::write(format!("{directory}/sound/more"), b"more").expect("and goes on being written");
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("1 finding; 0 can be repaired in use, 1 cannot"), "{scanned}");
    let found = daemon.please(&["volume", "findings", "tank/files"]);
    assert!(found.contains("cannot be read"), "{found}");
    assert_eq!(daemon.json(&["volume", "show", "tank/files"])["mount"]["mounted"], true, "it stays mounted");

    let repaired = daemon.please(&["volume", "spotfix", "tank/files", "--offline", "--wait"]);
    assert!(repaired.contains("all metadata agrees"), "{repaired}");
    assert_eq!(daemon.json(&["volume", "findings", "tank/files"]), serde_json::json!([]));
    assert!(std::fs::read_dir(format!("{directory}/victim")).is_ok(), "made again by its name in the root");
    let found: Vec<Vec<u8>> = std::fs::read_dir(format!("{directory}/lost+found"))
        .expect("what nobody names is there")
        .map(|entry| std::fs::read(entry.expect("an entry").path()).expect("read"))
        .collect();
    let is_it = |found: &Vec<u8>| found.len() >= 100_000 && found[..100_000] == bytes(7, 100_000);
    assert!(found.iter().any(is_it), "its bytes are found by the map of owners");
    assert_eq!(std::fs::read(format!("{directory}/sound/more")).expect("read"), b"more");
}

#[test]
fn what_a_scan_found_is_repaired_while_the_volume_is_away_for_a_moment() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 2, "512MiB");
    // A volume that was damaged elsewhere comes to the pool by its space.
    let uri = daemon.space("tank/wounded", &["--layout", "simple", "--size", "128MiB"]);
    let image = scene.path("image");
    File::create(&image).and_then(|file| file.set_len(128 << 20)).expect("an image can be made");
    let path = image.clone();
    let made = reactor::block_on(ReactorSettings { name: "image".into(), ..ReactorSettings::default() }, async move {
        let victims = Victims::fill(&path, 2000, 3000).await;
        victims.damage(&path).await;
    });
    made.expect("the kernel gives a ring");
    run("nbdcopy", &["--flush", &image, &uri]).succeeded();
    daemon.please(&["nbd", "unexport", "wounded"]);
    daemon.please(&["volume", "adopt", "tank/files", "--on", "tank/wounded"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    assert_eq!(std::fs::read_dir(format!("{directory}/o1")).expect("listed").count(), 0, "its names are lost");

    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("7 findings in 3006 places; 4 can be repaired in use, 3 cannot"), "{scanned}");
    let found = daemon.json(&["volume", "findings", "tank/files"]);
    let found = found.as_array().expect("a list");
    let counts: Vec<u64> = found.iter().map(|one| one["count"].as_u64().expect("a number")).collect();
    assert_eq!((found.len(), counts.iter().max()), (7, Some(&3000)), "{found:?}");
    let told = daemon.please(&["volume", "findings", "tank/files"]);
    assert!(told.contains("3000") && told.contains("no name leads to 3000 files"), "{told}");
    let health = daemon.json(&["volume", "show", "tank/files"])["conditions"][0]["cause"].clone();
    assert_eq!(health, "7 findings in 3006 places, 3 need about 0.1 s offline");

    let repaired = daemon.please(&["volume", "spotfix", "tank/files", "--offline", "--wait"]);
    assert!(repaired.contains("all metadata agrees; the volume was away for"), "{repaired}");
    assert_eq!(daemon.json(&["volume", "findings", "tank/files"]), serde_json::json!([]));
    for name in ["d0", "d1", "o0", "o1", "o2"] {
        let names = std::fs::read_dir(format!("{directory}/{name}")).expect("listed").count();
        assert_eq!(names, 1000, "names in {name}");
    }
    assert!(!std::path::Path::new(&format!("{directory}/lost+found")).exists(), "each went where it was");
    let shown = daemon.json(&["volume", "show", "tank/files"]);
    assert_eq!((&shown["health"], &shown["mount"]["mounted"]), (&"healthy".into(), &true.into()), "{shown}");
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
}

#[test]
fn what_can_be_read_of_a_wreck_is_copied_out_and_the_rest_is_told() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 2, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "128MiB", "--layout", "mirror"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    let tree = format!("{directory}/tree");
    for number in 0..120u64 {
        let folder = format!("{tree}/d{}", number % 5);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(format!("{folder}/f{number}"), bytes(number, number as usize * 777 % 50_000)).expect("a file");
    }
    std::os::unix::fs::symlink("d1/f1", format!("{tree}/link")).expect("a link");
    std::fs::hard_link(format!("{tree}/d1/f1"), format!("{tree}/d2/again")).expect("a second name");
    std::fs::set_permissions(format!("{tree}/d3/f3"), std::fs::Permissions::from_mode(0o4710)).expect("set");
    std::os::unix::fs::chown(format!("{tree}/d3/f3"), Some(77), Some(88)).expect("given away");
    run("mkfifo", &[&format!("{tree}/pipe")]).succeeded();
    let saved = scene.path("saved");
    run("cp", &["-a", &tree, &saved]).succeeded();

    let busy = File::open(format!("{tree}/d1/f1")).expect("opened");
    let rescue = |name: &str| scene.path(name);
    let salvage = |to: &str| {
        vec!["volume".to_owned(), "salvage".into(), "tank/files".into(), "--to".into(), to.into(), "--wait".into()]
    };
    let run_with = |daemon: &Daemon, to: &str| {
        let arguments = salvage(to);
        daemon.cli(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let refusal = run_with(&daemon, &rescue("first")).refused();
    assert!(refusal.contains("in use by"), "{refusal}");
    drop(busy);
    let refusal = run_with(&daemon, &saved).refused();
    assert!(refusal.contains("is not empty"), "{refusal}");
    let copied = run_with(&daemon, &rescue("first")).succeeded();
    assert!(copied.contains("nothing is missing"), "{copied}");
    let first = format!("{}/files/tree", rescue("first"));
    run("diff", &["-r", "--no-dereference", "--exclude=pipe", &saved, &first]).succeeded();
    let facts = |path: &str| {
        let facts = std::fs::symlink_metadata(path).expect("it is there");
        (facts.mode(), facts.uid(), facts.gid(), facts.mtime(), facts.nlink())
    };
    for name in ["d3/f3", "link", "pipe", "d1/f1", "d2/again", "d4"] {
        assert_eq!(facts(&format!("{saved}/{name}")), facts(&format!("{first}/{name}")), "{name}");
    }
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(format!("{}/report.json", rescue("first"))).expect("a report"))
            .expect("JSON");
    assert_eq!((&report["complete"], &report["files"], &report["links"]), (&true.into(), &120.into(), &1.into()));
    run("diff", &["-r", "--no-dereference", "--exclude=pipe", &saved, &tree]).succeeded();

    // Neither superblocks nor roots are left, nor the nodes of one directory.
    daemon.end();
    assert!(damage(&disks, b"HFvS", BLOCK, b"") + damage(&disks, b"HFvR", BLOCK, b"") >= 6 * 2, "on two disks");
    daemon.start_again();
    let shown = daemon.json(&["volume", "show", "tank/files"]);
    assert_eq!((&shown["state"], &shown["health"]), (&"closed".into(), &"unhealthy".into()), "{shown}");
    let copied = run_with(&daemon, &rescue("second")).succeeded();
    assert!(copied.contains("copied to"), "{copied}");
    run("diff", &["-r", "--no-dereference", "--exclude=pipe", &saved, &format!("{}/files/tree", rescue("second"))])
        .succeeded();
}
