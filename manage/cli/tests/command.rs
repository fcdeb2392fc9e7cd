//! The binary as a script uses it: exit codes, JSON, signals, and the demonstration.

use std::io::{BufRead, BufReader, Read};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use holdfast_harness::{folder_for_tests, wait_until};
use serde_json::Value;

struct Daemon {
    folder: tempfile::TempDir,
    process: Child,
}

fn holdfast() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.env_remove("HOLDFAST_SOCKET").env_remove("HOLDFAST_LOG").stdin(Stdio::null());
    command
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(folder_for_tests()).unwrap()
}

fn signal(process: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &process.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

fn ends(process: &mut Child) -> std::process::ExitStatus {
    let mut status = None;
    wait_until("the process ends", || {
        status = process.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

fn spawn(folder: &Path) -> Child {
    let mut command = holdfast();
    command.args(["serve", "--reactors", "1", "--state"]).arg(folder.join("state"));
    command
        .arg("--socket")
        .arg(folder.join("api.sock"))
        .arg("--nbd")
        .arg(format!("unix:{}/nbd.sock", folder.display()));
    let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("serving") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "the daemon ended before it served");
    }
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    process
}

impl Daemon {
    fn start() -> Self {
        let folder = folder();
        let process = spawn(folder.path());
        Self { folder, process }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let socket = self.folder.path().join("api.sock");
        holdfast().current_dir(self.folder.path()).env("HOLDFAST_SOCKET", socket).args(arguments).output().unwrap()
    }

    fn does(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    fn refuses(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?} prints to standard output");
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_daemon_that_does_not_start_says_why_once() {
    let folder = folder();
    let taken = folder.path().join("taken");
    std::fs::write(&taken, "").unwrap();
    let state = folder.path().join("state");
    let serve = |arguments: [&str; 4]| {
        let output =
            holdfast().arg("serve").args(arguments).arg("--socket").arg(folder.path().join("s")).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let nbd = format!("unix:{}", taken.display());
    let refusal = serve(["--state", state.to_str().unwrap(), "--nbd", &nbd]);
    assert_eq!((refusal.matches("NBD").count(), refusal.matches("cannot listen").count()), (1, 1), "{refusal}");
    let refusal = serve(["--state", taken.to_str().unwrap(), "--log-format", "text"]);
    assert!(refusal.contains("state folder") && refusal.matches("os error").count() == 1, "{refusal}");
}

#[test]
fn a_script_makes_uses_and_removes_everything() {
    let mut daemon = Daemon::start();
    for number in 1..=3 {
        let made = daemon.does(&["disk", "create-file", &format!("d{number}"), "--size", "128MiB"]);
        assert_eq!(made["changed"], true);
        assert!(made["disk"]["path"].as_str().unwrap().starts_with('/'), "a relative path is made whole");
    }
    assert_eq!(daemon.does(&["pool", "create", "tank", "--disk", "d1", "./d2"])["changed"], true);
    assert_eq!(daemon.does(&["pool", "create", "tank", "--disk", "d1", "--disk", "d2"])["changed"], false);
    assert_eq!(daemon.does(&["pool", "add", "tank", "--disk", "d3"])["pool"]["disks"].as_array().unwrap().len(), 3);
    let space = daemon.does(&["space", "create", "tank/vm", "--layout", "mirror", "--size", "16MiB"]);
    assert_eq!((&space["space"]["copies"], &space["space"]["size_bytes"]), (&2.into(), &(16 << 20).into()));
    assert_eq!(daemon.does(&["space", "grow", "tank/vm", "--size", "24MiB"])["changed"], true);
    assert_eq!(daemon.does(&["nbd", "export", "tank/vm", "--name", "x"])["export"]["name"], "x");
    let id = daemon.does(&["disk", "show", "d1"])["id"].as_str().unwrap().to_string();
    assert_eq!(daemon.does(&["disk", "set", &id, "--usage", "retired"])["disk"]["usage"], "retired");
    for list in [
        &["disk", "list"][..],
        &["pool", "list"],
        &["space", "list"],
        &["nbd", "list"],
        &["event", "list"],
        &["space", "map", "tank/vm"],
    ] {
        let answer = daemon.does(list);
        assert!(
            answer.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_object)),
            "{list:?}: {answer}"
        );
        let table = daemon.run(list);
        assert!(table.status.success() && !table.stdout.is_empty(), "{list:?}");
    }
    let refusal = daemon.refuses(&["pool", "destroy", "tank", "--yes"]);
    assert!(
        refusal.contains("pool tank") && refusal.contains("next: ") && refusal.contains("nbd unexport x"),
        "{refusal}"
    );
    let refusal = daemon.refuses(&["disk", "create-file", "d9", "--size", "0"]);
    assert!(refusal.contains("d9") && refusal.contains("64 MiB"), "{refusal}");
    assert_eq!(daemon.run(&["disk", "create-file", "d9"]).status.code(), Some(2));
    let answer = daemon.run(&["space", "create", "tank/odd", "--layout", "simple", "--size", "10MB", "--thin"]);
    let answer = String::from_utf8(answer.stdout).unwrap();
    assert!(answer.contains("10,000,000 bytes were rounded up to 10,002,432 bytes, whole blocks of 4 KiB"), "{answer}");
    let answer = String::from_utf8(daemon.run(&["space", "convert", "tank/odd", "--size", "9MB"]).stdout).unwrap();
    assert!(answer.contains("9,000,000 bytes were rounded up to 9,003,008 bytes"), "{answer}");
    let refusal = daemon.refuses(&["space", "convert", "tank/vm"]);
    assert!(refusal.contains("nothing to change") && refusal.contains("next: name what is to change"), "{refusal}");
    daemon.does(&["space", "destroy", "tank/odd", "--yes"]);

    signal(&daemon.process, "TERM");
    assert_eq!(ends(&mut daemon.process).code(), Some(0));
    let gone = daemon.refuses(&["pool", "list"]);
    assert!(gone.contains("api.sock") && gone.contains("holdfast serve"), "{gone}");
    daemon.process = spawn(daemon.folder.path());
    assert_eq!(daemon.does(&["nbd", "list"])[0]["served"], true);

    daemon.process.kill().unwrap();
    daemon.process.wait().unwrap();
    daemon.process = spawn(daemon.folder.path());
    assert_eq!(daemon.does(&["pool", "show", "tank"])["state"], "ok");
    assert_eq!(daemon.does(&["nbd", "unexport", "x"])["changed"], true);
    assert_eq!(daemon.does(&["space", "destroy", "tank/vm", "--yes"])["changed"], true);
    assert_eq!(daemon.does(&["pool", "export", "tank"])["changed"], true);
    assert_eq!(daemon.does(&["pool", "import", "--disk-dir", "."])["pools"][0]["pool"]["name"], "tank");
    assert_eq!(daemon.does(&["pool", "destroy", "tank", "--yes"])["changed"], true);
    assert_eq!(daemon.does(&["pool", "destroy", "tank", "--yes"])["changed"], false);
}

#[test]
fn a_parity_space_is_weighed_made_filled_and_verified() {
    let daemon = Daemon::start();
    let disks = ["d1", "d2", "d3", "d4"];
    for disk in disks {
        daemon.does(&["disk", "create-file", disk, "--size", "128MiB"]);
    }
    daemon.does(&[&["pool", "create", "tank", "--disk"], &disks[..]].concat());
    let create = ["space", "create", "tank/p", "--layout", "parity", "--parity", "2", "--size", "16MiB"];
    let plan = daemon.does(&[&create[..], &["--dry-run"]].concat());
    assert_eq!((&plan["fits"], &plan["options"][0]["columns"]), (&true.into(), &4.into()), "{plan}");
    let shown = daemon.run(&[&create[..], &["--dry-run"]].concat());
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("dual parity") && shown.contains("mirror of 3 copies") && shown.contains("2 disks"),
        "{shown}"
    );
    assert_eq!(daemon.does(&["space", "list"]), serde_json::json!([]));
    let made = daemon.does(&create);
    assert_eq!((&made["space"]["parity"], &made["space"]["layout"]), (&2.into(), &"parity".into()));
    assert_eq!(daemon.does(&create)["changed"], false);
    let grace = |pool: &Value| (pool["grace_seconds"].clone(), pool["default_grace_seconds"].clone());
    let set = daemon.does(&["pool", "set", "tank", "--grace", "2m", "--retire-policy", "never"]);
    assert_eq!((&set["changed"], grace(&set["pool"])), (&true.into(), (120.into(), 300.into())), "{set}");
    let set = daemon.does(&["pool", "set", "tank", "--grace", "default"]);
    assert_eq!((&set["changed"], grace(&set["pool"])), (&true.into(), (Value::Null, 300.into())), "{set}");
    assert_eq!(set["pool"]["retire_policy"], "never", "what is not named stays");
    assert_eq!(daemon.does(&["pool", "set", "tank", "--grace", "default"])["changed"], false);
    daemon.does(&["pool", "set", "tank", "--retire-policy", "auto"]);
    let shown = String::from_utf8(daemon.run(&["pool", "show", "tank"]).stdout).unwrap();
    assert!(shown.contains("auto (default)") && shown.contains("300 s (default)"), "{shown}");
    let evacuate = ["disk", "evacuate", "d1", "--dry-run"];
    let plan = daemon.does(&evacuate);
    assert_eq!(
        (&plan["fits"], &plan["moves"], &plan["spaces"][0]["name"]),
        (&false.into(), &0.into(), &"tank/p".into()),
        "{plan}"
    );
    assert!(
        plan["stuck"].as_u64().is_some_and(|slabs| slabs > 0) && plan["stuck_bytes"] == plan["disks"][0]["used_bytes"],
        "{plan}"
    );
    let shown = String::from_utf8(daemon.run(&evacuate).stdout).unwrap();
    assert!(shown.contains("no room for") && shown.contains("next: add disks") && shown.contains("tank/p"), "{shown}");
    assert_eq!(daemon.does(&["disk", "show", "d1"])["usage"], "auto", "nothing is changed");
    let refusal =
        daemon.refuses(&["space", "create", "tank/m", "--layout", "mirror", "--parity", "1", "--size", "1MiB"]);
    assert!(refusal.contains("no parity columns") && refusal.contains("next: "), "{refusal}");
    assert_eq!(daemon.does(&["space", "verify", "tank/p"])["mismatched_blocks"], 0);
    let export = daemon.does(&["nbd", "export", "tank/p"]);
    let set = daemon.does(&["space", "set", "tank/p", "--journal", "32MiB"]);
    assert_eq!((&set["changed"], &set["space"]["journal"]["size_bytes"]), (&true.into(), &(32 << 20).into()), "{set}");
    assert_eq!(daemon.does(&["space", "set", "tank/p", "--journal", "32MiB"])["changed"], false);
    let refusal = daemon.refuses(&["space", "set", "tank/p", "--journal", "1MiB"]);
    assert!(refusal.contains("from 32 MiB to 100 GiB"), "{refusal}");
    let sample = daemon.folder.path().join("sample");
    std::fs::write(&sample, (0..4u32 << 20).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    let copied = Command::new("nbdcopy")
        .arg("--flush")
        .arg(&sample)
        .arg(export["export"]["uris"][0].as_str().unwrap())
        .status()
        .unwrap();
    assert!(copied.success());
    let whole = daemon.does(&["space", "verify", "tank/p"]);
    assert_eq!((&whole["mismatched_blocks"], &whole["unchecked_bytes"]), (&0.into(), &0.into()), "{whole}");
    assert!(whole["checked_bytes"].as_u64().is_some_and(|bytes| bytes >= 32 << 20), "data and as much parity: {whole}");

    // Something writes past the daemon over all that one disk holds of the first row.
    let map = daemon.does(&["space", "map", "tank/p"]);
    let slab = &map[0]["slabs"][1];
    let (start, len) = (slab["offset_bytes"].as_u64().unwrap() + 65536, slab["length_bytes"].as_u64().unwrap() - 65536);
    let disk = std::fs::File::options().write(true).open(slab["path"].as_str().unwrap()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&disk, &vec![0xa5; len as usize], start).unwrap();
    let found = daemon.run(&["space", "verify", "tank/p", "--json"]);
    assert_eq!(found.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&found.stderr).contains("do not match"));
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert!(found["mismatched_blocks"].as_u64().is_some_and(|blocks| blocks > 0), "{found}");
    assert!(found["mismatches"][0]["path"].as_str().is_some_and(|path| path.starts_with('/')), "{found}");
    let shown = daemon.run(&["space", "verify", "tank/p"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.starts_with("AT ") && shown.contains("blocks do not match"), "{shown}");
}

/// A mirror `tank/vm` of 16 MiB, full of data.
fn with_mirror(daemon: &Daemon) {
    for disk in ["d1", "d2"] {
        daemon.does(&["disk", "create-file", disk, "--size", "128MiB"]);
    }
    daemon.does(&["pool", "create", "tank", "--disk", "d1", "d2"]);
    daemon.does(&["space", "create", "tank/vm", "--layout", "mirror", "--size", "16MiB"]);
    let export = daemon.does(&["nbd", "export", "tank/vm"]);
    let sample = daemon.folder.path().join("sample");
    std::fs::write(&sample, (0..4u32 << 20).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    let uri = export["export"]["uris"][0].as_str().unwrap();
    assert!(Command::new("nbdcopy").arg("--flush").arg(&sample).arg(uri).status().unwrap().success());
}

#[test]
fn a_job_is_begun_watched_steered_and_survives_a_kill() {
    let mut daemon = Daemon::start();
    with_mirror(&daemon);
    let done = daemon.does(&["space", "scrub", "tank/vm", "--wait"]);
    assert_eq!((&done["state"], &done["kind"], &done["id"]), (&"done".into(), &"scrub".into(), &1.into()), "{done}");
    assert_eq!(daemon.does(&["job", "list"]), serde_json::json!([]));
    assert_eq!(daemon.does(&["job", "list", "--all"])[0]["id"], 1);
    let begun = daemon.does(&["space", "scrub", "tank/vm", "--cap", "1MiB", "--priority", "low"]);
    assert_eq!((&begun["changed"], &begun["job"]["id"]), (&true.into(), &2.into()));
    assert_eq!(daemon.does(&["space", "scrub", "tank/vm"])["changed"], false);
    let list = daemon.does(&["job", "list"]);
    for (field, value) in [("kind", "scrub"), ("state", "running"), ("priority", "low")] {
        assert_eq!(list[0][field], value, "{list}");
    }
    assert!(
        list[0]["done_bytes"].is_u64() && list[0]["total_bytes"].as_u64().is_some_and(|bytes| bytes >= 32 << 20),
        "{list}"
    );
    let table = String::from_utf8(daemon.run(&["job", "list"]).stdout).unwrap();
    assert!(table.starts_with("JOB ") && table.contains("tank/vm") && table.contains("1 MiB/s"), "{table}");

    daemon.process.kill().unwrap();
    daemon.process.wait().unwrap();
    daemon.process = spawn(daemon.folder.path());
    wait_until("it goes on", || daemon.does(&["job", "show", "2"])["state"] == "running");
    assert_eq!(daemon.does(&["job", "pause", "2"])["job"]["state"], "paused");
    daemon.process.kill().unwrap();
    daemon.process.wait().unwrap();
    daemon.process = spawn(daemon.folder.path());
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(daemon.does(&["job", "show", "2"])["state"], "paused");

    assert_eq!(daemon.does(&["job", "set", "2", "--cap", "2MiB/s"])["job"]["cap_bytes_per_second"], 2 << 20);
    assert_eq!(daemon.does(&["job", "resume", "2"])["changed"], true);
    let socket = daemon.folder.path().join("api.sock");
    let mut watching = holdfast();
    watching.env("HOLDFAST_SOCKET", socket).args(["job", "watch", "2"]);
    let mut watching = watching.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(watching.try_wait().unwrap().is_none(), "it waits for the end");
    assert_eq!(daemon.does(&["job", "cancel", "2"])["job"]["state"], "cancelled");
    assert_eq!(ends(&mut watching).code(), Some(1));
    let refusal = daemon.refuses(&["job", "pause", "2"]);
    assert!(refusal.contains("job 2") && refusal.contains("cancelled") && refusal.contains("next: "), "{refusal}");
    let refusal = daemon.refuses(&["job", "show", "77"]);
    assert!(refusal.contains("job 77 does not exist"), "{refusal}");
    let shown = daemon.run(&["job", "watch", "1"]);
    assert_eq!(shown.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&shown.stderr).contains("job 1, scrub of tank/vm: done"), "{shown:?}");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("all agree"), "{shown:?}");
}

#[test]
fn a_reader_that_goes_away_and_a_follower_are_no_trouble() {
    let mut daemon = Daemon::start();
    let socket = daemon.folder.path().join("api.sock");
    let mut follower = holdfast()
        .env("HOLDFAST_SOCKET", &socket)
        .args(["event", "list", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["id"], 1);
    daemon.does(&["disk", "create-file", "d1", "--size", "64MiB"]);
    daemon.does(&["pool", "create", "tank", "--disk", "d1"]);
    line.clear();
    lines.read_line(&mut line).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["object"]["name"], "tank");
    drop(lines);
    // A process that another test is just starting may still hold the pipe when the first of these is written.
    for pool in 0..100 {
        let name = format!("pool{pool}");
        daemon.does(&["pool", "destroy", if pool == 0 { "tank" } else { &name }, "--yes"]);
        std::thread::sleep(Duration::from_millis(100));
        if follower.try_wait().unwrap().is_some() {
            break;
        }
        daemon.does(&["pool", "create", &format!("pool{}", pool + 1), "--disk", "d1"]);
    }
    assert_eq!(ends(&mut follower).code(), Some(0), "a closed pipe is no failure");
    signal(&daemon.process, "INT");
    assert_eq!(ends(&mut daemon.process).code(), Some(0));
}

#[test]
fn a_daemon_that_goes_away_before_it_answers_did_nothing_as_far_as_anybody_knows() {
    let folder = folder();
    let socket = folder.path().join("api.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let stream = stream.unwrap();
            // As it looks where a request meets the end of the daemon: its pipe is broken, or it is closed in its face.
            if number % 2 == 0 {
                stream.shutdown(Shutdown::Read).unwrap();
                // One that was sent before is not waited for forever.
                std::thread::sleep(Duration::from_millis(500));
            }
        }
    });
    for _ in 0..10 {
        let asked = ["snapshot", "destroy", "tank/files@monday", "--yes"];
        let output = holdfast().env("HOLDFAST_SOCKET", &socket).args(asked).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), told.contains("it closed the connection")), (Some(1), true), "{told}");
    }
}

#[test]
fn settings_are_shown_set_and_reset() {
    let daemon = Daemon::start();
    let text = |arguments: &[&str]| String::from_utf8(daemon.run(arguments).stdout).unwrap();
    let shown = text(&["settings"]);
    assert!(shown.contains("every 7 days (default)") && shown.contains("after 5 minutes (default)"), "{shown}");
    let set =
        ["settings", "set", "--host-name", "nas", "--scrub-every", "30d", "--repair-after", "never", "--alert", "80"];
    assert_eq!(daemon.does(&set)["changed"], true);
    assert_eq!(daemon.does(&set)["changed"], false);
    let shown = text(&["settings", "show"]);
    for part in ["nas\n", "every 30 days\n", "never\n", "at 80 %\n"] {
        assert!(shown.contains(part), "{part:?}: {shown}");
    }
    let refusal = daemon.refuses(&["settings", "set", "--scrub-every", "5m"]);
    assert!(refusal.contains("time between scrubs") && refusal.contains("next: "), "{refusal}");
    let back = ["settings", "set", "--host-name", "", "--scrub-every", "default", "--alert", "default"];
    assert_eq!(daemon.does(&back)["settings"]["preferences"]["scrub_every"]["origin"], "default");
    assert!(text(&["settings"]).contains("at 70 %, 85 %, 95 % (default)"));
}

#[test]
fn lists_are_in_the_order_in_which_people_count() {
    let daemon = Daemon::start();
    for number in [10, 2, 1] {
        daemon.does(&["disk", "create-file", &format!("disk{number}"), "--size", "64MiB"]);
    }
    let names = |list: &Value| {
        let path = |disk: &Value| disk["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        list.as_array().unwrap().iter().map(path).filter(|name| name.starts_with("disk")).collect::<Vec<_>>()
    };
    assert_eq!(names(&daemon.does(&["disk", "list"])), ["disk1", "disk2", "disk10"]);
    let pool = daemon.does(&["pool", "create", "tank", "--disk", "disk10", "disk2", "disk1"]);
    assert_eq!(names(&pool["pool"]["disks"]), ["disk1", "disk2", "disk10"]);
    for name in ["vm10", "vm9"] {
        let space = format!("tank/{name}");
        daemon.does(&["space", "create", &space, "--layout", "simple", "--size", "4MiB"]);
        daemon.does(&["nbd", "export", &space]);
    }
    let of = |list: Value| list.as_array().unwrap().iter().map(|one| one["name"].clone()).collect::<Vec<_>>();
    assert_eq!(of(daemon.does(&["space", "list"])), ["tank/vm9", "tank/vm10"]);
    assert_eq!(of(daemon.does(&["nbd", "list"])), ["vm9", "vm10"]);
    let scrub = String::from_utf8(daemon.run(&["space", "show", "tank/vm9"]).stdout).unwrap();
    assert!(scrub.contains("last scrub    none yet") && scrub.contains("next scrub"), "{scrub}");
}

#[test]
fn a_second_daemon_says_who_has_what() {
    let daemon = Daemon::start();
    let folder = daemon.folder.path();
    let second = |state: PathBuf, socket: PathBuf| {
        let output = holdfast().args(["serve", "--state"]).arg(state).arg("--socket").arg(socket).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let text = second(folder.join("state"), folder.join("other.sock"));
    assert!(text.contains("in use by another daemon") && text.contains("--state"), "{text}");
    let text = second(folder.join("state2"), folder.join("api.sock"));
    assert!(text.contains("in use by another daemon") && text.contains("--socket"), "{text}");
}

#[test]
fn completion_and_the_document_come_without_a_daemon() {
    for shell in ["bash", "zsh", "fish"] {
        let output = holdfast().args(["completion", shell]).output().unwrap();
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("holdfast"), "{shell}");
    }
    let output = holdfast().arg("openapi").output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["info"]["title"], "Holdfast");
}

#[test]
fn the_demonstration_shows_what_it_says() {
    let folder = folder();
    let foreign = folder.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("thesis"), "mine").unwrap();
    let output = holdfast().args(["demo", "--once", "--dir"]).arg(&foreign).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(foreign.join("thesis").exists(), "what is no demonstration is left alone");
    let dir = folder.path().join("demo");
    for round in 1..=2 {
        let mut process = holdfast()
            .args(["demo", "--once", "--dir"])
            .arg(&dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut text = String::new();
        process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let mut errors = String::new();
        process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!(ends(&mut process).code(), Some(0), "round {round}: {text}\n{errors}");
        for part in
            ["identical", "is pulled", "missing", "next: ", "put back", "healthy", "nbdinfo 'nbd+unix:///vm?socket="]
        {
            assert!(text.contains(part), "round {round}: '{part}' is not in {text}");
        }
    }
}
