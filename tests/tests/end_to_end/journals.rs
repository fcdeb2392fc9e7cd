//! The change journal of a mounted volume, as a program that follows it meets it.

use holdfast_tests::daemon::Daemon;
use holdfast_tests::janitor::Janitor;
use serde_json::Value;

fn entries(answer: &Value) -> &Vec<Value> {
    answer["entries"].as_array().expect("a list")
}

/// What an answer tells of a name: all reasons, in order.
fn reasons(answer: &Value, name: &str) -> Vec<String> {
    let of = entries(answer).iter().filter(|entry| entry["name"] == name);
    let new = of.flat_map(|entry| entry["new"].as_array().expect("a list"));
    new.map(|reason| reason.as_str().expect("a word").to_owned()).collect()
}

fn refuse(daemon: &Daemon, arguments: &[&str], why: &str) {
    let refused = daemon.cli(arguments).refused();
    assert!(refused.contains(why), "{refused}");
}

fn read(daemon: &Daemon, from: &Value) -> Value {
    daemon.json(&["volume", "journal", "read", "tank/files", "--from", &from.to_string()])
}

#[test]
fn a_reader_sees_each_change_once_over_kills_and_is_told_of_gaps() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 2, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "128MiB", "--layout", "mirror"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    refuse(&daemon, &["volume", "journal", "show", "tank/files"], "it has no change journal");
    refuse(&daemon, &["volume", "journal", "set", "tank/files", "--size", "1GiB"], "takes 64 KiB to 16 MiB");
    std::fs::write(format!("{directory}/before"), "not in it").expect("written");
    let set = daemon.json(&["volume", "journal", "set", "tank/files", "--size", "64KiB"]);
    assert_eq!((&set["changed"], &set["journal"]["max_bytes"]), (&true.into(), &(64 << 10).into()), "{set}");
    assert_eq!(daemon.json(&["volume", "journal", "set", "tank/files"])["changed"], false);

    std::fs::create_dir(format!("{directory}/sub")).expect("made");
    std::fs::write(format!("{directory}/sub/one"), "some").expect("written");
    std::fs::rename(format!("{directory}/sub/one"), format!("{directory}/sub/two")).expect("renamed");
    std::fs::remove_file(format!("{directory}/before")).expect("removed");
    let told = daemon.json(&["volume", "journal", "read", "tank/files"]);
    assert_eq!(told["gap"], false, "{told}");
    assert!(reasons(&told, "sub").contains(&"file-create".into()), "{told}");
    let one = reasons(&told, "one");
    for reason in ["file-create", "data-extend", "rename-old-name"] {
        assert!(one.contains(&reason.into()), "{reason}: {told}");
    }
    assert!(reasons(&told, "two").contains(&"rename-new-name".into()), "{told}");
    assert!(reasons(&told, "before").contains(&"file-delete".into()), "{told}");
    let two = entries(&told).iter().find(|entry| entry["name"] == "two").expect("told");
    assert_eq!((&two["directory"], &two["is_directory"]), (&"/sub".into(), &false.into()));
    let shown = daemon.please(&["volume", "journal", "read", "tank/files"]);
    assert!(shown.contains("rename-new-name, close  /sub/two"), "{shown}");

    // What was answered stays, whatever happens to the daemon.
    daemon.kill();
    daemon.start_again();
    holdfast_tests::command::wait_until("it is mounted", 20, || {
        std::path::Path::new(&format!("{directory}/sub/two")).exists()
    });
    let again = daemon.json(&["volume", "journal", "read", "tank/files"]);
    assert_eq!(entries(&again)[..entries(&told).len()], entries(&told)[..], "a prefix");
    let nothing = read(&daemon, &again["next"]);
    assert_eq!((entries(&nothing).len(), &nothing["gap"]), (0, &false.into()), "{nothing}");

    // It keeps the newest, and says that others are gone.
    for number in 0..3000 {
        std::fs::write(format!("{directory}/sub/{number}"), "").expect("written");
    }
    holdfast_tests::command::wait_until("old records are cut", 60, || {
        read(&daemon, &told["next"])["gap"].as_bool().expect("said")
    });
    refuse(&daemon, &["volume", "journal", "read", "tank/files", "--from", "99999999999"], "beyond the end");
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");

    refuse(&daemon, &["volume", "journal", "remove", "tank/files"], "--yes");
    assert_eq!(daemon.json(&["volume", "journal", "remove", "tank/files", "--yes"])["changed"], true);
    assert_eq!(daemon.json(&["volume", "journal", "remove", "tank/files", "--yes"])["changed"], false);
    refuse(&daemon, &["volume", "journal", "read", "tank/files"], "journal set tank/files");
}
