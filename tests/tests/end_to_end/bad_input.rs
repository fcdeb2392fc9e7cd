//! What cannot be done is refused: with the object, the reason and the next step, and with nothing changed.

use std::os::unix::fs::FileTypeExt;

use holdfast_tests::command::run;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::nbd::{Client, NbdError};
use holdfast_tests::scene::Scene;
use serde_json::Value;

fn state(daemon: &Daemon) -> [Value; 4] {
    let mut lists =
        [["disk", "list"], ["pool", "list"], ["space", "list"], ["nbd", "list"]].map(|words| daemon.json(&words));
    // What else is done with the block devices of this machine changes them.
    let own = |disk: &Value| {
        !std::fs::metadata(disk["path"].as_str().unwrap_or_default()).is_ok_and(|it| it.file_type().is_block_device())
    };
    lists[0].as_array_mut().into_iter().for_each(|disks| disks.retain(own));
    // The daemon reads its own metadata now and then, which disks count.
    for disk in lists[0].as_array_mut().into_iter().flatten() {
        for counted in ["reads", "read_bytes", "latency_microseconds"] {
            disk["reliability"][counted] = Value::Null;
        }
        disk["latency_histogram"] = Value::Null;
    }
    // Counters of I/O errors and the like belong to the objects. The next scrub is planned in the daemon's own time, and
    // the pool keeps that, which moves its commit counter.
    lists[1].as_array_mut().into_iter().flatten().for_each(|pool| pool["sequence"] = Value::Null);
    lists[2].as_array_mut().into_iter().flatten().for_each(|space| space["scrub"] = Value::Null);
    lists[3].as_array_mut().into_iter().flatten().for_each(|export| export["counters"] = Value::Null);
    lists
}

/// Holds that `arguments` are refused, that the message has `words`, and that nothing changed.
#[track_caller]
fn refuses(daemon: &Daemon, arguments: &[&str], words: &[&str]) {
    let before = state(daemon);
    let message = daemon.cli(arguments).refused();
    for word in words {
        assert!(message.contains(word), "{arguments:?}: the message lacks '{word}': {message}");
    }
    assert!(message.trim().len() > 20, "{arguments:?}: a message of {message:?}");
    assert!(!message.contains("panicked"), "{message}");
    assert_eq!(before, state(daemon), "{arguments:?} changed something");
}

fn path(disks: &[String], number: usize) -> &str {
    &disks[number]
}

#[test]
fn wrong_disks_are_refused() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.disks(&scene, 4, "128MiB");
    let disk = |number| path(&disks, number);
    let absent = scene.path("absent");
    daemon.please(&["pool", "create", "tank", "--disk", disk(0), disk(1)]);

    refuses(&daemon, &["pool", "create", "other", "--disk", disk(0)], &["tank", disk(0)]);
    refuses(&daemon, &["pool", "create", "other", "--disk", disk(2), disk(0)], &["tank"]);
    refuses(&daemon, &["pool", "add", "tank", "--disk", &absent], &[&absent]);
    refuses(&daemon, &["pool", "create", "other", "--disk", &absent], &[&absent]);
    refuses(&daemon, &["pool", "create", "other", "--disk", disk(2), disk(2)], &[disk(2)]);
    refuses(&daemon, &["pool", "create", "tank", "--disk", disk(2)], &["tank"]);
    refuses(&daemon, &["pool", "create", "other", "--disk", scene.dir().to_str().expect("text")], &[]);
    refuses(&daemon, &["disk", "wipe", disk(0), "--force"], &["tank"]);
    run("mkfs.ext4", &["-q", "-F", disk(3)]).succeeded();
    refuses(&daemon, &["disk", "wipe", disk(3)], &["--force"]);
    refuses(&daemon, &["disk", "show", &absent], &[&absent]);

    let small = scene.path("small");
    std::fs::write(&small, vec![0; 1 << 20]).expect("a file can be written");
    refuses(&daemon, &["pool", "create", "other", "--disk", &small], &[&small]);
    refuses(&daemon, &["disk", "set", disk(2), "--enclosure", "A", "--slot", "99999999"], &["slot", "9999"]);
    for size in ["0", "1", "4095", "1MiB", "257TiB", "300TiB", "17EiB", "-5", "many"] {
        let target = scene.path("never");
        refuses(&daemon, &["disk", "create-file", &target, "--size", size], &[]);
        assert!(!std::path::Path::new(&target).exists(), "a file of {size} was made");
    }
    refuses(&daemon, &["disk", "create-file", disk(0), "--size", "64MiB"], &[disk(0)]);
}

#[test]
fn a_disk_that_carries_something_else_is_refused_unless_forced() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.disks(&scene, 2, "128MiB");
    run("mkfs.ext4", &["-q", "-F", path(&disks, 0)]).succeeded();
    let before = std::fs::read(path(&disks, 0)).expect("a disk can be read");
    refuses(
        &daemon,
        &["pool", "create", "tank", "--disk", path(&disks, 0), path(&disks, 1)],
        &["ext4", path(&disks, 0), "--force"],
    );
    assert!(before == std::fs::read(path(&disks, 0)).expect("a disk can be read"), "the refused disk was written to");
    run("e2fsck", &["-fn", path(&disks, 0)]).succeeded();
    daemon.please(&["pool", "create", "tank", "--force", "--disk", path(&disks, 0), path(&disks, 1)]);
    assert_eq!(daemon.json(&["pool", "show", "tank"])["disks"].as_array().map(Vec::len), Some(2));
}

#[test]
fn wrong_names_are_refused() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 2, "256MiB");
    let spare = scene.path("disks/spare");
    daemon.please(&["disk", "create-file", &spare, "--size", "128MiB"]);
    let long = "n".repeat(64);
    for name in
        ["", " ", "a b", "a/b", "../up", "-dash", "tank\n", "naïve", "\u{1F4BE}", "a\tb", "quo\"te", ".", "..", &long]
    {
        refuses(&daemon, &["pool", "create", name, "--disk", &spare], &[]);
        refuses(&daemon, &["space", "create", &format!("tank/{name}"), "--layout", "simple", "--size", "64MiB"], &[]);
        refuses(&daemon, &["pool", "show", name], &[]);
    }
    daemon.please(&["space", "create", "tank/vm", "--layout", "mirror", "--size", "64MiB"]);
    refuses(&daemon, &["nbd", "export", "tank/vm", "--name", &"e".repeat(5000)], &[]);
    refuses(&daemon, &["nbd", "export", "tank/nothing"], &["tank/nothing"]);
    refuses(&daemon, &["space", "show", "nowhere/vm"], &["nowhere"]);
    refuses(&daemon, &["pool", "destroy", "tank"], &["--yes"]);
    refuses(&daemon, &["space", "destroy", "tank/vm"], &["--yes"]);
    daemon.please(&["nbd", "export", "tank/vm"]);
    refuses(&daemon, &["space", "destroy", "tank/vm", "--yes"], &["tank/vm", "unexport"]);
    assert_eq!(disks.len(), 2);
}

#[test]
fn wrong_spaces_are_refused() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 4, "256MiB");
    let create = |options: &[&'static str]| [&["space", "create", "tank/new", "--layout"], options].concat();
    let wrong: &[(&[&str], &[&str])] = &[
        (&["mirror", "--copies", "3", "--columns", "2", "--size", "64MiB"], &["disk"]),
        (&["mirror", "--copies", "4", "--size", "64MiB"], &["cop"]),
        (&["mirror", "--copies", "1", "--size", "64MiB"], &["cop"]),
        (&["mirror", "--copies", "0", "--size", "64MiB"], &["cop"]),
        (&["simple", "--copies", "2", "--size", "64MiB"], &["cop"]),
        (&["simple", "--columns", "5", "--size", "64MiB"], &["disk"]),
        (&["simple", "--columns", "0", "--size", "64MiB"], &["column"]),
        (&["simple", "--columns", "60000", "--size", "64MiB"], &["column"]),
        (&["simple", "--interleave", "3000", "--size", "64MiB"], &["interleave"]),
        (&["simple", "--interleave", "0", "--size", "64MiB"], &["interleave"]),
        (&["simple", "--interleave", "1GiB", "--size", "64MiB"], &["interleave"]),
        (&["simple", "--size", "0"], &["size", "4 KiB"]),
        (&["simple", "--size", "15EiB"], &[]),
        (&["simple", "--size", "99999999999999999999"], &[]),
        (&["simple", "--size", "16383PiB", "--thin"], &[]),
        (&["simple", "--size", "1TiB"], &["tank"]),
        (&["striped", "--size", "64MiB"], &["simple"]),
    ];
    for (options, words) in wrong {
        refuses(&daemon, &create(options), words);
    }
    daemon.please(&["space", "create", "tank/vm", "--layout", "mirror", "--size", "64MiB"]);
    refuses(&daemon, &["space", "create", "tank/vm", "--layout", "mirror", "--size", "128MiB"], &["tank/vm"]);
    refuses(&daemon, &["space", "create", "tank/vm", "--layout", "simple", "--size", "64MiB"], &["tank/vm"]);
    refuses(&daemon, &["space", "grow", "tank/vm", "--size", "32MiB"], &["tank/vm"]);
    refuses(&daemon, &["space", "grow", "tank/vm", "--size", "64MiB1"], &[]);
    refuses(&daemon, &["space", "grow", "tank/vm", "--size", "0"], &["4 KiB"]);
    refuses(&daemon, &["space", "convert", "tank/vm", "--size", "0"], &["4 KiB"]);
    refuses(&daemon, &["space", "convert", "tank/vm"], &["nothing to change", "--layout"]);
    refuses(&daemon, &["space", "set", "tank/vm", "--burst-iops", "5"], &["tank/vm", "needs a maximum"]);
    refuses(&daemon, &["space", "grow", "tank/vm", "--size", "1TiB"], &["tank"]);
    refuses(&daemon, &["space", "grow", "tank/nothing", "--size", "128MiB"], &["tank/nothing"]);
}

#[test]
fn wrong_requests_of_clients_are_refused_and_the_rest_goes_on() {
    const INVALID: u32 = 22;
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 2, "256MiB");
    daemon.space("tank/vm", &["--layout", "mirror", "--size", "64MiB"]);
    let size = 64u64 << 20;
    assert!(matches!(Client::connect(&daemon.nbd_socket(), "nothing"), Err(NbdError::Refused(_))));
    let mut client = Client::connect(&daemon.nbd_socket(), "vm").expect("it is exported");
    assert_eq!(client.size_bytes(), size);
    client.write(0, &[5; 4096], false).expect("a write");
    for offset in [size, size - 2048, u64::MAX - 4095, u64::MAX] {
        assert!(matches!(client.read(offset, 4096), Err(NbdError::Refused(INVALID))), "a read at {offset}");
        assert!(matches!(client.write(offset, &[1; 4096], false), Err(NbdError::Refused(_))), "a write at {offset}");
        assert!(matches!(client.trim(offset, 4096), Err(NbdError::Refused(_))), "a trim at {offset}");
        assert!(matches!(client.write_zeroes(offset, 4096), Err(NbdError::Refused(_))), "zeroes at {offset}");
    }
    assert_eq!(client.read(0, 4096).expect("a read"), [5; 4096]);
}
