//! PostgreSQL on ext4 on a loop device over `nbdfuse` over a space: the daemon is killed, and every committed row is
//! there.

use std::collections::HashSet;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use holdfast_tests::command::{Finished, run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::losses::take;
use holdfast_tests::scene::Scene;

const WRITERS: u64 = 2;
const ROWS: u64 = 1_000_000;

/// What the test must have to mean anything.
fn demand() {
    assert!(rustix::process::geteuid().is_root(), "this test mounts a file system: run it as root");
    for (path, remedy) in [
        ("/dev/fuse", "load the fuse module, or hand the device to the container"),
        ("/dev/loop-control", "load the loop module, or hand the loop devices to the container"),
        ("/usr/bin/nbdfuse", "install libnbd-bin"),
        ("/usr/sbin/losetup", "install mount"),
        ("/usr/sbin/runuser", "install util-linux"),
        ("/usr/bin/setpriv", "install util-linux"),
    ] {
        let merged = path.replacen("/usr/sbin/", "/sbin/", 1);
        assert!(Path::new(path).exists() || Path::new(&merged).exists(), "this test needs {path}: {remedy}");
    }
    programs();
}

/// The folder of PostgreSQL's programs.
fn programs() -> String {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<_> =
        versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("initdb").exists()).collect();
    folders.sort();
    let last = folders.pop().expect("this test needs PostgreSQL: install postgresql-15");
    last.to_str().expect("text").to_owned()
}

fn as_postgres(program: &str, arguments: &[&str]) -> Finished {
    let path = format!("{}/{program}", programs());
    run("runuser", &[&["-u", "postgres", "--", &path], arguments].concat())
}

/// The space as a mounted file system: `nbdfuse` shows it as a file, a loop device makes a disk of the file.
struct Mount {
    fuse_dir: String,
    dir: String,
    fuse: Option<Child>,
    device: Option<String>,
}

impl Mount {
    fn new(scene: &Scene) -> Self {
        Self { fuse_dir: scene.folder("fuse"), dir: scene.folder("mount"), fuse: None, device: None }
    }

    fn attach(&mut self, uri: &str) -> String {
        let file = format!("{}/disk", self.fuse_dir);
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "nbdfuse", "-C", "4", &file, uri]).stdin(Stdio::null());
        self.fuse = Some(command.spawn().expect("setpriv of util-linux can be run"));
        wait_until("nbdfuse shows the space as a file", 20, || Path::new(&file).exists());
        let device = run("losetup", &["--find", "--show", &file]).succeeded().trim().to_owned();
        self.device = Some(device.clone());
        device
    }

    fn mount(&self) {
        run("mount", &[self.device.as_ref().expect("it is attached"), &self.dir]).succeeded();
    }

    /// Takes everything down, whatever still works.
    fn detach(&mut self) {
        if self.device.is_some() && !run("umount", &[&self.dir]).success() {
            run("umount", &["-l", &self.dir]);
        }
        if let Some(device) = self.device.take() {
            run("losetup", &["-d", &device]);
        }
        if let Some(mut fuse) = self.fuse.take() {
            if !run("umount", &[&self.fuse_dir]).success() {
                run("umount", &["-l", &self.fuse_dir]);
            }
            let _ = fuse.kill();
            let _ = fuse.wait();
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.detach();
    }
}

/// The processes that `parent` started.
fn children(parent: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |process: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // State and parent follow the name in brackets.
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<i32>().ok()) == Some(parent)
    };
    numbers.filter(is_child).collect()
}

/// A PostgreSQL server on a folder.
struct Server {
    data: String,
    sockets: String,
    log: String,
}

impl Server {
    fn new(scene: &Scene, mount: &Mount) -> Self {
        let sockets = scene.folder("sockets");
        run("chown", &["postgres", &sockets]).succeeded();
        Self { data: format!("{}/data", mount.dir), log: format!("{sockets}/log"), sockets }
    }

    fn create(&self) {
        as_postgres("initdb", &["-D", &self.data, "-A", "trust", "-E", "UTF8", "--locale=C"]).succeeded();
    }

    fn start(&self) {
        let options = format!(
            "-k {} -c listen_addresses= -c shared_buffers=32MB -c max_wal_size=96MB -c checkpoint_timeout=30s",
            self.sockets
        );
        let finished =
            as_postgres("pg_ctl", &["-D", &self.data, "-l", &self.log, "-o", &options, "-w", "-t", "120", "start"]);
        assert!(finished.success(), "{finished}\n{}", std::fs::read_to_string(&self.log).unwrap_or_default());
    }

    fn stop(&self, mode: &str) -> bool {
        as_postgres("pg_ctl", &["-D", &self.data, "-m", mode, "-w", "stop"]).success()
    }

    /// Ends what the loss of the disk left of it: backends that wait for each other do not go by themselves.
    fn bury(&self) {
        let lock = std::fs::read_to_string(format!("{}/.s.PGSQL.5432.lock", self.sockets)).unwrap_or_default();
        let postmaster =
            lock.lines().next().and_then(|line| line.parse::<i32>().ok()).expect("PostgreSQL left its lock");
        let mut processes = children(postmaster);
        processes.push(postmaster);
        // Without the postmaster no new backend comes up.
        processes.reverse();
        for process in processes.into_iter().filter_map(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
        wait_until("PostgreSQL is gone", 30, || {
            children(postmaster).is_empty() && !Path::new(&format!("/proc/{postmaster}")).exists()
        });
    }

    fn psql(&self, statement: &str) -> String {
        as_postgres("psql", &["-h", &self.sockets, "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statement, "postgres"])
            .succeeded()
    }

    fn pgbench(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new("runuser");
        command
            .args(["-u", "postgres", "--", &format!("{}/pgbench", programs()), "-h", &self.sockets])
            .args(arguments)
            .arg("postgres");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pgbench can be run")
    }

    /// Commits one row after the other, and prints the id of each that is committed.
    fn writer(&self, scene: &Scene, number: u64) -> (Child, String) {
        let (script, record) = (scene.path(&format!("script{number}")), scene.path(&format!("record{number}")));
        let lines: String = (0..20_000)
            .map(|row| format!("INSERT INTO committed VALUES ({}) RETURNING id;\n", number * ROWS + row))
            .collect();
        std::fs::write(&script, lines).expect("a script can be written");
        let mut command = Command::new("runuser");
        command.args([
            "-u",
            "postgres",
            "--",
            &format!("{}/psql", programs()),
            "-h",
            &self.sockets,
            "-qAt",
            "-f",
            &script,
            "postgres",
        ]);
        command
            .stdin(Stdio::null())
            .stdout(File::create(&record).expect("a record can be written"))
            .stderr(Stdio::null());
        (command.spawn().expect("psql can be run"), record)
    }
}

/// The daemon is killed after `seconds` of load, and the first `lost` disks of its pool are gone when it is started
/// again.
fn recovers(disks: (usize, &str), layout: &[&str], seconds: u64, lost: usize) {
    demand();
    let scene = Scene::new();
    std::fs::set_permissions(scene.dir(), Permissions::from_mode(0o755)).expect("a folder of ours");
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", disks.0, disks.1);
    let uri = daemon.space("tank/base", &[layout, &["--size", "512MiB", "--thin"]].concat());
    let mut mount = Mount::new(&scene);
    let device = mount.attach(&uri);
    run("mkfs.ext4", &["-q", &device]).succeeded();
    mount.mount();
    run("chown", &["postgres", &mount.dir]).succeeded();
    let server = Server::new(&scene, &mount);
    server.create();
    server.start();
    server.psql("CREATE TABLE committed (id bigint PRIMARY KEY)");
    assert!(
        server.pgbench(&["-i", "-q", "-s", "2"]).wait().is_ok_and(|status| status.success()),
        "pgbench fills its tables"
    );

    let mut load = server.pgbench(&["-c", "4", "-j", "2", "-T", "120"]);
    let mut writers: Vec<_> = (0..WRITERS).map(|number| server.writer(&scene, number)).collect();
    let recorded = |writers: &[(Child, String)]| {
        writers.iter().map(|(_, path)| std::fs::metadata(path).map_or(0, |file| file.len())).collect::<Vec<_>>()
    };
    std::thread::sleep(Duration::from_secs(seconds));
    daemon.kill();
    println!("recorded at the kill: {:?} bytes", recorded(&writers));
    let _ = load.kill();
    let _ = load.wait();
    server.bury();
    let mut committed = HashSet::new();
    for (writer, record) in &mut writers {
        let _ = writer.wait();
        let text = std::fs::read_to_string(&*record).expect("a record can be read");
        committed.extend(text.lines().filter_map(|line| line.parse::<u64>().ok()));
    }
    assert!(committed.len() > 20, "only {} rows were committed before the kill", committed.len());
    mount.detach();

    disks[..lost].iter().for_each(|disk| take(disk));
    daemon.start_again();
    let device = mount.attach(&uri);
    // The journal is replayed; what e2fsck corrects beyond that would be a loss.
    run("e2fsck", &["-p", &device]).succeeded();
    run("e2fsck", &["-fn", &device]).succeeded();
    mount.mount();
    let _ = std::fs::remove_file(format!("{}/postmaster.pid", server.data));
    server.start();
    let found: HashSet<u64> =
        server.psql("SELECT id FROM committed").lines().filter_map(|line| line.parse().ok()).collect();
    let lost: Vec<_> = committed.difference(&found).collect();
    assert!(
        lost.is_empty(),
        "{} of {} committed rows are lost: {:?}",
        lost.len(),
        committed.len(),
        &lost[..lost.len().min(10)]
    );
    println!("{} committed rows recorded, {} found", committed.len(), found.len());
    let sums = server.psql(
        "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history) \
         AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches)",
    );
    assert_eq!(sums.trim(), "t", "the books of pgbench balance");
    assert!(server.stop("fast"), "PostgreSQL ends");
    mount.detach();
    daemon.end();
}

#[test]
fn postgresql_recovers_with_every_committed_row_after_the_daemon_is_killed() {
    recovers((4, "512MiB"), &["--layout", "mirror"], 6, 0);
}

#[test]
fn postgresql_on_dual_parity_recovers_with_every_committed_row_though_two_disks_are_gone_as_well() {
    recovers((7, "256MiB"), &["--layout", "parity", "--parity", "2"], 5, 2);
}
