//! A disk is pulled: mail and webhooks tell of it, whatever happens to the daemon or to the servers that they go to.

use std::os::unix::fs::PermissionsExt;

use holdfast_tests::command::{run_with, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::losses::{give, pull, take, wait_in_step};
use holdfast_tests::ports::free_address;
use holdfast_tests::receivers::{Request, mail, web};
use holdfast_tests::scene::Scene;
use serde_json::Value;

const SECRET: &str = "the key of the receiver";
const TOKEN: &str = "secret-part-of-the-url";

/// A file with a secret.
fn file(scene: &Scene, name: &str, text: &str) -> String {
    let path = scene.path(name);
    std::fs::write(&path, format!("{text}\n")).expect("a file can be written");
    path
}

/// Adds a webhook to a server on this machine, and a rule of the same name for all warnings and errors.
fn add_webhook(daemon: &Daemon, scene: &Scene, name: &str, port: u16, options: &[&str]) {
    let url = file(scene, "url", &format!("http://127.0.0.1:{port}/{TOKEN}"));
    let secret = file(scene, "secret", SECRET);
    let add = ["notify", "channel", "add", "webhook", name, "--url-file", &url, "--secret-file", &secret];
    daemon.please(&add);
    daemon.please(&[&["notify", "rule", "add", name, "--channel", name, "--severity", "warning"], options].concat());
}

fn add_mail(daemon: &Daemon, port: u16) {
    let port = port.to_string();
    let add = ["notify", "channel", "add", "mail", "ops", "--host", "127.0.0.1", "--port", &port, "--security", "none"];
    daemon.please(&[&add[..], &["--from", "nas@example.com", "--to", "admin@example.com"]].concat());
    daemon.please(&[
        "notify",
        "rule",
        "add",
        "ops",
        "--channel",
        "ops",
        "--object",
        "disk",
        "--object",
        "space tank/*",
    ]);
}

/// Checks a signature as the documentation says, by `openssl`.
fn is_signed(scene: &Scene, request: &Request) -> bool {
    let signed = file(scene, "signed", "");
    std::fs::write(&signed, format!("{}.{}", request.header("x-holdfast-timestamp"), request.body))
        .expect("a file can be written");
    let digest = run_with("openssl", &["dgst", "-sha256", "-hmac", SECRET, &signed], |_| ()).succeeded();
    let digest = digest.trim().rsplit(' ').next().unwrap_or_default().to_owned();
    request.header("x-holdfast-signature") == format!("sha256={digest}")
}

/// Objects of the events in a request.
fn objects(request: &Request) -> Vec<String> {
    let body: Value = serde_json::from_str(&request.body).expect("a body is JSON");
    let events = body["events"].as_array().expect("events").iter();
    let named = |object: &Value| Some(format!("{} {}", object["kind"].as_str()?, object["name"].as_str()?));
    events.filter_map(|event| named(&event["object"])).collect()
}

fn states(daemon: &Daemon) -> Vec<String> {
    let deliveries = daemon.json(&["notify", "deliveries"]);
    let all = deliveries.as_array().expect("a list").iter();
    all.filter_map(|delivery| delivery["state"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_pulled_disk_is_told_by_mail_and_webhook_and_no_secret_shows() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 3, "256MiB");
    daemon.please(&["space", "create", "tank/vm", "--layout", "mirror", "--size", "64MiB"]);
    let (mails, hooks) = (mail(0), web(0));
    add_mail(&daemon, mails.port());
    add_webhook(&daemon, &scene, "hook", hooks.port(), &[]);
    assert!(daemon.please(&["notify", "test", "hook"]).contains("204"));
    daemon.please(&["notify", "test", "ops"]);
    assert!(mails.taken()[0].contains("this is a test") && is_signed(&scene, &hooks.taken()[0]));
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a machine has a name");
    let subject =
        |mail: &str| mail.lines().find(|line| line.starts_with("Subject: ")).expect("a mail has a subject").to_owned();
    assert!(subject(&mails.taken()[0]).contains(machine.trim()), "{:?}", mails.taken());
    daemon.please(&["settings", "set", "--host-name", "nas-in-the-cellar"]);

    pull(&daemon, "tank", &disks[0]);
    wait_until("mail and webhook tell of it", 60, || mails.taken().len() > 1 && hooks.taken().len() > 1);
    let told = hooks.taken()[1].clone();
    assert!(is_signed(&scene, &told), "{told:?}");
    assert!(objects(&told).iter().any(|object| object.starts_with("disk ")), "{told:?}");
    // Long lines are folded.
    let mail = mails.taken()[1].replace("=\r\n", "").replace("\r\n ", " ");
    let subject = subject(&mail);
    assert!(subject.contains("nas-in-the-cellar") && subject.contains("disk "), "{subject}");
    assert!(mail.contains("Next: ") && mail.contains("disk0.img"), "{mail}");
    // What follows from it is a few messages, not one for each event.
    give(&disks[0]);
    wait_in_step(&daemon, "tank/vm");
    assert!(hooks.taken().len() <= 6, "{:?}", hooks.taken());

    // Who may see channels sees no secret; they are in the store alone, which belongs to the daemon's user.
    let audit = daemon.json(&["audit", "--kind", "channel", "--object", "hook"]);
    assert!(
        audit.to_string().contains("notification_deliver") && audit.to_string().contains("notify_channel_create"),
        "{audit}"
    );
    let shown: String =
        [&["notify", "channel", "list"][..], &["notify", "channel", "show", "hook"], &["audit"], &["event", "list"]]
            .iter()
            .map(|command| daemon.json(command).to_string())
            .collect();
    let log = std::fs::read_to_string(format!("{}/log", scene.folder("a"))).expect("the daemon has a log");
    for secret in [SECRET, TOKEN] {
        assert!(!shown.contains(secret) && !log.contains(secret), "a secret shows");
    }
    assert!(shown.contains("\"secret_set\":true"));
    let store = format!("{}/state/config.db", scene.folder("a"));
    let mode = std::fs::metadata(&store).expect("a store is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // A backup brings channels back with their secrets, which is why it is as secret.
    let backup = scene.path("backup");
    daemon.please(&["backup", &backup]);
    let bytes = std::fs::read(&backup).expect("it was made");
    assert!(bytes.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes()));
}

#[test]
fn what_could_not_be_sent_is_sent_by_the_next_daemon() {
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 5, "128MiB");
    let port = free_address().port();
    add_webhook(&daemon, &scene, "hook", port, &["--object", "disk *"]);
    pull(&daemon, "tank", &disks[0]);
    let tried = || daemon.json(&["notify", "deliveries"])[0]["attempts"].as_u64().unwrap_or(0) > 0;
    wait_until("it is tried", 60, tried);
    assert_eq!(daemon.json(&["notify", "deliveries"])[0]["state"], "queued");
    daemon.kill();
    // Another disk goes while no daemon runs.
    take(&disks[1]);
    daemon.start_again();
    let hooks = web(port);
    wait_until("both are told", 120, || hooks.taken().iter().flat_map(objects).any(|object| object.contains("disk1")));
    let first = hooks.taken()[0].clone();
    assert!(is_signed(&scene, &first) && objects(&first).iter().any(|object| object.contains("disk0")), "{first:?}");
    wait_until("nothing waits", 60, || states(&daemon).iter().all(|state| state == "delivered"));
}

#[test]
fn quiet_hours_hold_what_happens_and_one_message_tells_of_it() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", 5, "128MiB");
    let hooks = web(0);
    // Quiet all day but for a minute, which is not this one in any zone.
    let minute =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs() / 60 % 60;
    let loud = (minute + 15) % 60;
    let quiet = format!("12:{:02}-12:{loud:02}", (loud + 1) % 60);
    let quiet = if loud == 59 { "13:00-12:59".to_owned() } else { quiet };
    add_webhook(&daemon, &scene, "hook", hooks.port(), &["--quiet", &quiet, "--errors-pass-quiet", "false"]);
    for disk in &disks[..2] {
        pull(&daemon, "tank", disk);
    }
    let collected = || daemon.json(&["notify", "rule", "show", "hook"])["collected"].as_u64().unwrap_or(0);
    wait_until("both are collected", 60, || collected() >= 2);
    // Quiet hours end: here, because an administrator says so.
    assert!(hooks.taken().is_empty() && states(&daemon).is_empty(), "{:?}", hooks.taken());
    daemon.please(&["notify", "rule", "set", "hook", "--quiet", "none"]);
    wait_until("it is told", 60, || !hooks.taken().is_empty());
    let told = objects(&hooks.taken()[0]);
    for disk in ["disk0", "disk1"] {
        assert!(told.iter().any(|object| object.contains(disk)), "{told:?}");
    }
    assert_eq!(collected(), 0);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let url = file(&scene, "url", &format!("ftp://127.0.0.1/{TOKEN}"));
    let refused = daemon.cli(&["notify", "channel", "add", "webhook", "hook", "--url-file", &url]).refused();
    assert!(refused.contains("channel hook") && refused.contains("http://") && !refused.contains(TOKEN), "{refused}");
    let refused = daemon.cli(&["notify", "rule", "add", "r", "--channel", "none"]).refused();
    assert!(refused.contains("rule r") && refused.contains("no channel 'none'"), "{refused}");
    assert_eq!(daemon.json(&["notify", "channel", "list"]), serde_json::json!([]));

    let down = free_address().port();
    add_webhook(&daemon, &scene, "hook", down, &[]);
    let refused = daemon.cli(&["notify", "test", "hook"]).refused();
    assert!(
        refused.contains("channel hook") && refused.contains("cannot be reached") && !refused.contains(TOKEN),
        "{refused}"
    );
    let refused = daemon.cli(&["notify", "channel", "remove", "hook"]).refused();
    assert!(refused.contains("rule hook"), "{refused}");
    let refused = daemon.cli(&["notify", "channel", "set", "hook", "--host", "mail.example.com"]).refused();
    assert!(refused.contains("it is a webhook"), "{refused}");
    daemon.please(&["notify", "rule", "remove", "hook"]);
    daemon.please(&["notify", "channel", "remove", "hook"]);
    assert!(daemon.please(&["notify", "channel", "remove", "hook"]).contains("nothing changed"));
}
