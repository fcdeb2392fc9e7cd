//! Strict files on a space without checksums: what somebody writes over the backing files of disks is healed from the other
//! copy, or refused, told, and shown until it is put right.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use holdfast_tests::command::wait_until;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::janitor::Janitor;

const BLOCK: usize = 4096;
const BLOCKS: usize = 64;

/// A block that is like no other.
fn block(number: usize) -> Vec<u8> {
    format!("block {number:08} of a strict file;").into_bytes().into_iter().cycle().take(BLOCK).collect()
}

/// Writes over a block in the first so many disks that have it.
fn spoil(disks: &[String], number: usize, copies: usize) {
    let wanted = block(number);
    let mut spoiled = 0;
    for disk in disks {
        let file = File::options().read(true).write(true).open(disk).expect("opened");
        let mut chunk = vec![0; 1 << 20];
        for at in (0..file.metadata().expect("known").len()).step_by(chunk.len()) {
            let len = file.read_at(&mut chunk, at).expect("read");
            let found = chunk[..len].chunks(BLOCK).position(|block| block == wanted);
            if let Some(index) = found.filter(|_| spoiled < copies) {
                file.write_all_at(&[0x55; 100], at + (index * BLOCK) as u64 + 7).expect("written");
                file.sync_all().expect("durable");
                spoiled += 1;
            }
        }
    }
    assert_eq!(spoiled, copies, "block {number}");
}

/// Reads a block past what the kernel keeps.
fn read(daemon: &Daemon, directory: &str, number: usize) -> std::io::Result<Vec<u8>> {
    daemon.please(&["volume", "unmount", "tank/files"]);
    daemon.please(&["volume", "mount", "tank/files", directory]);
    let mut found = vec![0; BLOCK];
    let file = File::open(format!("{directory}/safe/data")).expect("opened");
    file.read_exact_at(&mut found, (number * BLOCK) as u64).map(|()| found)
}

#[test]
fn damage_is_healed_or_told_until_it_is_put_right() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 2, "256MiB");
    let shape = ["--size", "96MiB", "--layout", "mirror", "--integrity", "none"];
    daemon.please(&[&["volume", "create", "tank/files"], &shape[..]].concat());
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    let (safe, data) = (format!("{directory}/safe"), format!("{directory}/safe/data"));
    std::fs::create_dir(&safe).expect("made");
    std::fs::write(format!("{safe}/before"), block(1000).repeat(3)).expect("written");
    let set = daemon.json(&["volume", "integrity", "set", "tank/files/safe", "strict"]);
    assert_eq!((&set["changed"], &set["integrity"]["mode"]), (&true.into(), &"strict".into()), "{set}");
    std::fs::write(&data, (0..BLOCKS).flat_map(block).collect::<Vec<u8>>()).expect("written");
    let mode = |path: &str| daemon.json(&["volume", "integrity", "get", path])["mode"].clone();
    assert_eq!((mode(&data), mode("tank/files/safe/before")), ("strict".into(), "pass-through".into()));
    daemon.please(&["volume", "integrity", "set", "tank/files/safe", "strict", "--below", "--wait"]);
    assert_eq!(mode("tank/files/safe/before"), "strict");
    let scrub = |daemon: &Daemon| daemon.please(&["volume", "scrub", "tank/files", "--wait"]);
    let told = scrub(&daemon);
    assert!(told.contains("all of it is right"), "{told}");

    // One copy.
    daemon.please(&["volume", "unmount", "tank/files"]);
    spoil(&disks, 5, 1);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    let told = scrub(&daemon);
    assert!(told.contains("1 block written anew from another copy"), "{told}");
    wait_until("it is told", 20, || daemon.json(&["event", "list"]).to_string().contains("wrong in a copy"));
    assert_eq!(read(&daemon, &directory, 5).expect("read"), block(5));

    // All copies: that block fails, and nothing else.
    daemon.please(&["volume", "unmount", "tank/files"]);
    spoil(&disks, 9, 2);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    assert_eq!(read(&daemon, &directory, 9).expect_err("it is damaged").raw_os_error(), Some(5));
    for number in (0..BLOCKS).filter(|number| *number != 9) {
        let mut found = vec![0; BLOCK];
        let file = File::open(&data).expect("opened");
        file.read_exact_at(&mut found, (number * BLOCK) as u64).expect("read");
        assert_eq!(found, block(number), "block {number}");
    }
    let health = |daemon: &Daemon| daemon.json(&["volume", "show", "tank/files"]);
    wait_until("it is shown", 20, || health(&daemon)["health"] == "unhealthy");
    assert!(health(&daemon).to_string().contains("lost 1 block of strict files"), "{}", health(&daemon));
    daemon.kill();
    daemon.start_again();
    wait_until("it is mounted", 20, || Path::new(&data).exists());
    assert_eq!(health(&daemon)["health"], "unhealthy", "after a restart, too");
    let listed = daemon.json(&["volume", "damage", "tank/files"]);
    assert_eq!((&listed[0]["offset"], &listed[0]["snapshot"]), (&(9 * BLOCK).into(), &false.into()), "{listed}");
    let job = daemon.cli(&["volume", "scrub", "tank/files", "--wait"]);
    assert!(job.printed().contains("1 block is right in no copy"), "{}", job.printed());

    // Left alone by scrubs, it is lost still.
    daemon.please(&["volume", "integrity", "set", "tank/files/safe/data", "none"]);
    let told = scrub(&daemon);
    assert!(told.contains("1 known before, which it left out, may still be lost"), "{told}");
    assert_eq!(health(&daemon)["health"], "unhealthy");
    daemon.please(&["volume", "integrity", "set", "tank/files/safe/data", "strict"]);

    // Written anew, it is whole again, and stays so.
    let file = File::options().write(true).open(&data).expect("opened");
    file.write_all_at(&block(9), (9 * BLOCK) as u64).expect("written");
    file.sync_all().expect("durable");
    drop(file);
    let told = scrub(&daemon);
    assert!(told.contains("all of it is right"), "{told}");
    assert_eq!(health(&daemon)["health"], "healthy", "{}", health(&daemon));
    // What reads found before is looked at every few seconds.
    std::thread::sleep(std::time::Duration::from_secs(6));
    assert_eq!(health(&daemon)["health"], "healthy", "{}", health(&daemon));
    assert_eq!(read(&daemon, &directory, 9).expect("read"), block(9));
    assert_eq!(daemon.json(&["volume", "damage", "tank/files"]).as_array().map(Vec::len), Some(0));

    let refused = daemon.cli(&["volume", "integrity", "set", "tank/files/none", "strict"]).refused();
    assert!(refused.contains("does not exist"), "{refused}");
}

#[test]
fn what_is_wrong_in_one_copy_is_put_right_before_rows_move() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 4, "256MiB");
    let shape = ["--size", "64MiB", "--layout", "mirror", "--columns", "1", "--integrity", "none"];
    daemon.please(&[&["volume", "create", "tank/files"], &shape[..]].concat());
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    std::fs::create_dir(format!("{directory}/safe")).expect("made");
    daemon.please(&["volume", "integrity", "set", "tank/files/safe", "strict"]);
    std::fs::write(format!("{directory}/safe/data"), (0..BLOCKS).flat_map(block).collect::<Vec<u8>>())
        .expect("written");
    daemon.please(&["volume", "unmount", "tank/files"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    // Each copy once, whichever the rows are moved from.
    for (number, disks) in [(7, disks.clone()), (8, disks.iter().rev().cloned().collect())] {
        spoil(&disks, number, 1);
    }
    let holder = daemon.json(&["disk", "list"]);
    // The machine may have disks that are in no pool.
    let members = holder.as_array().expect("a list").iter().filter(|disk| disk["free_bytes"].is_u64());
    let holder = members.min_by_key(|disk| disk["free_bytes"].as_u64());
    let holder = holder.expect("there are disks")["id"].as_str().expect("an id").to_owned();
    daemon.please(&["disk", "evacuate", &holder, "--wait"]);
    assert_eq!(read(&daemon, &directory, 7).expect("read"), block(7));
    assert_eq!(read(&daemon, &directory, 8).expect("read"), block(8));
    for (number, disks) in [(9, disks.clone()), (10, disks.iter().rev().cloned().collect())] {
        spoil(&disks, number, 1);
    }
    daemon.please(&["space", "convert", "tank/files", "--layout", "parity", "--columns", "3", "--wait"]);
    for number in 0..BLOCKS {
        assert_eq!(read(&daemon, &directory, number).expect("read"), block(number), "block {number}");
    }
    let damage = daemon.json(&["volume", "damage", "tank/files"]);
    assert_eq!(damage.as_array().map(Vec::len), Some(0), "{damage}");
}
