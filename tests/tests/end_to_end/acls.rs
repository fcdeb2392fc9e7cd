//! Permissions of files by the rules of NT: set, checked for programs, explained, handed on, restored.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use holdfast_tests::command::{Finished, run_with};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::janitor::Janitor;

fn as_user(user: u32, directory: &str, command: &[&str]) -> Finished {
    as_member(user, "", directory, command)
}

/// A user who is of supplementary groups.
fn as_member(user: u32, groups: &str, directory: &str, command: &[&str]) -> Finished {
    let user = user.to_string();
    let of_groups: &[&str] = if groups.is_empty() { &["--clear-groups"] } else { &["--groups", groups] };
    let ids = ["--reuid", &user, "--regid", &user];
    run_with("setpriv", &[&ids[..], of_groups, command].concat(), |setpriv| _ = setpriv.current_dir(directory))
}

fn with_project(daemon: &Daemon, scene: &holdfast_tests::scene::Scene, directory: &str) -> String {
    daemon.pool(scene, "tank", 2, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "128MiB", "--layout", "mirror"]);
    daemon.please(&["volume", "mount", "tank/files", directory]);
    let project = format!("{directory}/project");
    std::fs::create_dir(&project).expect("made");
    project
}

#[test]
fn entries_for_supplementary_groups_hold_for_programs() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    let project = with_project(&daemon, &scene, &directory);
    for name in ["denied", "allowed"] {
        std::fs::write(format!("{project}/{name}"), name).expect("written");
    }
    let set = |path: &str, sddl: &str| {
        daemon.please(&["volume", "acl", "set", &format!("tank/files/project{path}"), "--sddl", sddl]);
    };
    let reads = |groups: &str, name: &str| {
        let finished = as_member(4001, groups, &project, &["cat", name]);
        let complaint = finished.complaint();
        assert!(finished.success() || complaint.contains("Permission denied"), "{complaint}");
        finished.success()
    };
    set("/denied", "D:(D;;FR;;;S-1-22-2-77)(A;;FA;;;WD)");
    set("/allowed", "G:S-1-22-2-100D:(A;;FR;;;S-1-22-2-100)");
    for (groups, name, expected) in [
        ("", "denied", true),
        ("78,79", "denied", true),
        ("77", "denied", false),
        ("5,77,100", "denied", false),
        ("", "allowed", false),
        ("99", "allowed", false),
        ("99,100", "allowed", true),
    ] {
        assert_eq!(reads(groups, name), expected, "{name} of groups {groups:?}");
    }
    // Of directories, too.
    set("", "D:(D;;0x6;;;S-1-22-2-77)(A;;FA;;;WD)");
    let made = |groups: &str, name: &str| as_member(4001, groups, &project, &["mkdir", name]).success();
    assert!(!made("77", "one") && made("78", "one"));
}

#[test]
fn what_is_taken_back_above_is_taken_back_from_what_programs_made() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    let project = with_project(&daemon, &scene, &directory);
    let set = |sddl: &str, more: &[&str]| {
        daemon.please(&[&["volume", "acl", "set", "tank/files/project", "--sddl", sddl][..], more].concat())
    };
    let sddl = |path: &str| {
        let shown = daemon.json(&["volume", "acl", "get", &format!("tank/files/project{path}")]);
        shown["sddl"].as_str().expect("text").to_owned()
    };
    set("D:(A;OICI;FA;;;S-1-22-1-4001)(A;OICI;FR;;;S-1-22-1-4002)(A;OICI;FRFX;;;WD)", &[]);
    let script = "umask 022; mkdir d d/e && echo text > d/e/f && echo more >> d/e/f && \
        umask 077 && echo secret > key && umask 022 && echo text > mine && chmod 640 mine";
    let own = |script: &str| as_user(4003, &project, &["sh", "-c", script]);
    assert!(!own(script).success(), "the list gives 4003 nothing");
    let permitted = "D:(A;OICI;FA;;;S-1-22-1-4001)(A;OICI;FR;;;S-1-22-1-4002)(A;CI;FA;;;WD)(A;OIIO;FR;;;WD)";
    set(permitted, &[]);
    let made = own(script);
    assert!(made.success(), "whoever makes files may write to them and go into directories: {}", made.complaint());
    for path in ["/d", "/d/e", "/d/e/f", "/key"] {
        let text = sddl(path);
        let of_4002 = text.split('(').filter(|entry| entry.contains("4002")).collect::<Vec<_>>();
        assert!(of_4002.len() == 1 && of_4002[0].contains("ID;"), "{path}: {text}");
        assert!(text.contains("D:AI"), "{path}: {text}");
    }
    assert!(as_user(4002, &project, &["cat", "d/e/f"]).success());
    assert!(!as_user(4002, &project, &["cat", "key"]).success(), "it is its owner's");
    assert!(own("cat key && echo more >> key").success());
    let told = set("D:(A;OICI;FA;;;S-1-22-1-4001)(A;CI;FA;;;WD)(A;OIIO;FR;;;WD)", &["--below", "--wait"]);
    assert!(told.contains("1 is protected and was left as it is"), "{told}");
    for path in ["/d", "/d/e", "/d/e/f", "/key"] {
        assert!(!sddl(path).contains("4002"), "{path}: {}", sddl(path));
    }
    assert!(sddl("/mine").contains("4002"), "chmod kept it from what comes from above");
    // What is shown and set again says the same.
    let text = sddl("");
    daemon.please(&["volume", "acl", "set", "tank/files/project", "--sddl", &text]);
    assert_eq!(sddl(""), text);
    daemon.please(&["snapshot", "create", "tank/files@then"]);
    set("D:(A;OICI;FA;;;WD)", &[]);
    daemon.please(&["snapshot", "restore", "tank/files@then", "--path", "/project", "--yes", "--wait"]);
    assert_eq!(sddl(""), text, "also where it was restored");
}

#[test]
fn a_descriptor_says_who_may_and_why_and_outlives_kills_and_restores() {
    let (scene, _janitor, directory) = Janitor::with_mount_point();
    let mut daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 2, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "128MiB", "--layout", "mirror"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    let project = format!("{directory}/project");
    std::fs::create_dir(&project).expect("made");
    std::fs::write(format!("{project}/plan"), "secret").expect("written");
    std::fs::set_permissions(format!("{project}/plan"), Permissions::from_mode(0o644)).expect("set");
    let plain = daemon.json(&["volume", "acl", "get", "tank/files/project/plan"]);
    assert_eq!((&plain["own"], &plain["mode"]), (&false.into(), &"0644".into()), "{plain}");
    assert_eq!(plain["owner"]["name"], "user root");
    assert!(as_user(4001, &project, &["cat", "plan"]).success());

    // Everybody, but for one.
    let text = "D:(D;;FR;;;S-1-22-1-4001)(A;;FA;;;WD)";
    let set = daemon.json(&["volume", "acl", "set", "tank/files/project/plan", "--sddl", text]);
    assert_eq!(
        (&set["changed"], &set["acl"]["own"], &set["acl"]["mode"]),
        (&true.into(), &true.into(), &"0777".into())
    );
    let again = daemon.json(&["volume", "acl", "set", &format!("{project}/plan"), "--sddl", text]);
    assert_eq!(again["changed"], false, "by its path on the server, a second time");
    let mode = std::fs::metadata(format!("{project}/plan")).expect("there").mode();
    assert_eq!(mode & 0o777, 0o777, "programs see what it amounts to");
    let refused = as_user(4001, &project, &["cat", "plan"]);
    assert!(!refused.success() && refused.complaint().contains("Permission denied"), "{}", refused.complaint());
    assert_eq!(as_user(4002, &project, &["cat", "plan"]).printed(), "secret");
    let why = |user: &str| daemon.json(&["volume", "acl", "access", "tank/files/project/plan", "--user", user]);
    let (one, other) = (why("4001"), why("4002"));
    assert_eq!((&one["reads"], &other["reads"]), (&false.into(), &true.into()), "{one} {other}");
    assert!(one["reasons"].to_string().contains("refused: entry 1"), "{one}");
    let shown = daemon.please(&["volume", "acl", "get", "tank/files/project/plan"]);
    assert!(shown.contains("1. deny") && shown.contains("2. allow  Everyone"), "{shown}");

    // What chmod does to it.
    let chmod = || std::fs::set_permissions(format!("{project}/plan"), Permissions::from_mode(0o600));
    assert_eq!(daemon.json(&["volume", "set", "tank/files", "--mode-change", "refuse"])["changed"], true);
    assert_eq!(daemon.json(&["volume", "set", "tank/files", "--mode-change", "refuse"])["changed"], false);
    chmod().expect_err("refused");
    let own = |daemon: &Daemon| daemon.json(&["volume", "acl", "get", "tank/files/project/plan"])["own"].clone();
    assert_eq!(own(&daemon), true);
    daemon.please(&["volume", "set", "tank/files", "--mode-change", "discard"]);
    chmod().expect("taken away");
    assert_eq!(own(&daemon), false);
    daemon.please(&["volume", "acl", "set", "tank/files/project/plan", "--sddl", text]);
    daemon.please(&["volume", "set", "tank/files", "--mode-change", "mask"]);

    // Its owner need not be a user.
    let sid = "S-1-5-21-1-2-3-1000";
    std::fs::write(format!("{project}/theirs"), vec![1; 1 << 20]).expect("written");
    daemon.please(&["volume", "acl", "set", "tank/files/project/theirs", "--sddl", &format!("O:{sid}")]);
    daemon.please(&["volume", "quota", "set", "tank/files", "--owner", sid, "--size", "8MiB"]);
    let listed = daemon.json(&["volume", "quota", "list", "tank/files"]);
    assert_eq!((&listed[0]["kind"], &listed[0]["name"]), (&"owner".into(), &sid.into()), "{listed}");
    assert!(listed[0]["used_bytes"].as_u64() >= Some(1 << 20) && listed[0]["used_files"] == 1, "{listed}");
    daemon.please(&["volume", "quota", "remove", "tank/files", "--owner", sid]);

    // Handed on, after it was set, and to new files.
    daemon.please(&["snapshot", "create", "tank/files@before"]);
    let text = "D:(A;OICI;FA;;;WD)(A;OICI;FR;;;S-1-22-2-77)";
    let path = "tank/files/project";
    daemon.please(&["volume", "acl", "set", path, "--sddl", text, "--below", "--wait"]);
    let sddl = |path: &str| daemon.json(&["volume", "acl", "get", path])["sddl"].as_str().expect("text").to_owned();
    let plan = sddl("tank/files/project/plan");
    assert!(plan.contains("(D;;FR;;;S-1-22-1-4001)") && plan.contains("ID;"), "its own, and what is inherited: {plan}");
    std::fs::write(format!("{project}/new"), "new").expect("written");
    assert!(sddl("tank/files/project/new").contains("S-1-22-2-77"), "inherited");
    let after = sddl(path);

    daemon.kill();
    daemon.start_again();
    holdfast_tests::command::wait_until("it is mounted", 20, || std::path::Path::new(&project).exists());
    let sddl = |path: &str| daemon.json(&["volume", "acl", "get", path])["sddl"].as_str().expect("text").to_owned();
    assert_eq!((sddl(path), sddl("tank/files/project/plan")), (after, plan));
    daemon.please(&["snapshot", "restore", "tank/files@before", "--path", "/project", "--yes", "--wait"]);
    assert!(!sddl("tank/files/project/plan").contains("S-1-22-2-77"), "as it was");
    assert_eq!(daemon.json(&["volume", "acl", "get", path])["own"], false);
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");

    for (arguments, why) in [
        (["set", "tank/files/project", "--sddl", "X:"], "next: write parts as"),
        (["set", "tank/files/project", "--sddl", ""], "no part of a descriptor"),
        (["access", "tank/files/project", "--user", "no such user"], "knows no user"),
        (["access", "tank/files/none", "--user", "0"], "path /none of volume tank/files does not exist"),
        (["access", "/nowhere/at/all", "--user", "0"], "no volume is mounted there"),
    ] {
        let refused = daemon.cli(&[&["volume", "acl"], &arguments[..]].concat()).refused();
        assert!(refused.contains(why), "{refused}");
    }
}
