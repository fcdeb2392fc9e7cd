//! PostgreSQL on ext4 on a loop device over `nbdfuse` over a space: the daemon is killed, and every committed row is
//! there.

use std::collections::HashSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::losses::take;
use holdfast_tests::postgres::{Server, programs};
use holdfast_tests::scene::Scene;

const WRITERS: u64 = 2;

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

/// The daemon is killed after `seconds` of load, and the first `lost` disks of its pool are gone when it is started
/// again.
fn recovers(disks: (usize, &str), layout: &[&str], seconds: u64, lost: usize) {
    demand();
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", disks.0, disks.1);
    let uri = daemon.space("tank/base", &[layout, &["--size", "512MiB", "--thin"]].concat());
    let mut mount = Mount::new(&scene);
    let device = mount.attach(&uri);
    run("mkfs.ext4", &["-q", &device]).succeeded();
    mount.mount();
    let server = Server::new(&scene, &mount.dir);
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
    let lines = |(_, path): &(Child, String)| std::fs::read_to_string(path).map_or(0, |text| text.lines().count());
    wait_until("rows are committed", 60, || writers.iter().map(lines).sum::<usize>() > 40);
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
