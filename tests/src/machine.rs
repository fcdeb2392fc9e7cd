//! An emulated machine with Debian's kernel, its iSCSI initiator and its multipath tools: what a host does with a target, the
//! kernel of this machine left alone. It reaches ports of this machine at [`HOST`], and runs commands that come over a serial
//! line. `scripts/machine.sh` makes what it starts from.
//!
//! Invariant: it ends with the test; nothing waits for it longer than it said, and a test that fails prints what its kernel
//! said at last.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use holdfast_harness::LIMIT;

use crate::command::wait_until;
use crate::scene::Scene;

/// This machine, seen from the emulated one.
pub const HOST: &str = "10.0.2.2";
/// The name of its initiator.
pub const INITIATOR: &str = "iqn.2025-01.org.example:machine";
/// Seconds that it may take to start.
const START_SECONDS: u64 = 600;
/// Seconds that a command may take.
const COMMAND_SECONDS: u64 = 400;
/// Lines of its kernel that a failing test prints.
const LAST_LINES: usize = 40;

/// Disks with more than one path, as most hosts are set up. Paths are looked at often, so that tests need not wait.
const MULTIPATH: &[&str] = &[
    "defaults {",
    "find_multipaths no",
    "user_friendly_names yes",
    "polling_interval 1",
    "max_polling_interval 2",
    "no_path_retry 60",
    "fast_io_fail_tmo 2",
    "path_grouping_policy group_by_prio",
    "detect_prio yes",
    "failback immediate",
    "}",
];

/// A running machine.
pub struct Machine {
    child: Child,
    console: PathBuf,
    line: UnixStream,
    unread: Vec<u8>,
}

/// Where `scripts/machine.sh` put what a machine starts from; none where it could not.
pub fn ingredients() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(target, PathBuf::from);
    Some(target.join("tools/machine")).filter(|folder| folder.join("stamp").exists())
}

impl Machine {
    /// Starts a machine from `ingredients`.
    ///
    /// # Panics
    /// If it does not come up in time.
    #[track_caller]
    pub fn start(scene: &Scene, ingredients: &Path) -> Self {
        let (console, socket) = (scene.dir().join("machine.console"), scene.dir().join("machine.line"));
        let device = |kind: &str, path: &Path, more: &str| format!("{kind},id={kind},path={}{more}", path.display());
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "384"]);
        command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
        command.arg("-kernel").arg(ingredients.join("kernel")).arg("-initrd").arg(ingredients.join("initramfs"));
        command.args(["-append", "console=ttyS0 loglevel=7 panic=-1 mitigations=off no_timer_check"]);
        command.args(["-chardev", &device("file", &console, ""), "-serial", "chardev:file"]);
        command.args(["-chardev", &device("socket", &socket, ",server=on,wait=off"), "-serial", "chardev:socket"]);
        command.args(["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let child = command.spawn().expect("setpriv of util-linux can be run");
        let mut line = None;
        wait_until("the emulator listens", 30, || {
            line = UnixStream::connect(&socket).ok();
            line.is_some()
        });
        let mut machine = Self { child, console, line: line.expect("it was just made"), unread: Vec::new() };
        let started = machine.until("@@ready@@", START_SECONDS);
        assert!(started.is_some(), "the machine does not start");
        machine.run(&format!(
            "echo InitiatorName={INITIATOR} > /etc/iscsi/initiatorname.iscsi; touch /etc/iscsi/iscsid.conf"
        ));
        machine.run(&format!("printf '%s\\n' '{}' > /etc/multipath.conf", MULTIPATH.join("' '")));
        machine.run("udevadm trigger --action=add; udevadm settle; (iscsid -f -d 3 >/tmp/iscsid 2>&1 &) ; sleep 1");
        machine
    }

    /// Runs a line of shell, which must succeed, and gives what it printed.
    ///
    /// # Panics
    /// If it fails, or is not over in time.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> String {
        let (printed, status) = self.try_run(line);
        assert_eq!(status, 0, "{line}\n{printed}");
        printed
    }

    /// Runs a line of shell, and gives what it printed and how it ended.
    ///
    /// # Panics
    /// If it is not over in time.
    #[track_caller]
    pub fn try_run(&mut self, line: &str) -> (String, i32) {
        assert!(!line.contains('\n'), "one line at a time");
        self.line.write_all(format!("{line}\n").as_bytes()).expect("the machine runs");
        let printed = self.until("@@ended ", COMMAND_SECONDS);
        let printed = printed.unwrap_or_else(|| panic!("not over in {COMMAND_SECONDS} s: {line}"));
        let status = self.until("@@\n", COMMAND_SECONDS).and_then(|status| status.parse().ok());
        (printed, status.unwrap_or_else(|| panic!("no status of: {line}")))
    }

    /// Runs a line of shell until it succeeds.
    ///
    /// # Panics
    /// If it does not within `seconds`.
    #[track_caller]
    pub fn wait_for(&mut self, line: &str, seconds: u64) {
        let end = Instant::now() + LIMIT.max(Duration::from_secs(seconds));
        loop {
            let (printed, status) = self.try_run(line);
            if status == 0 {
                return;
            }
            assert!(Instant::now() < end, "not so within {seconds} s: {line}\n{printed}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Logs in to `target` at each of these ports of this machine, by CHAP where `settings` say so, and waits for its disks.
    #[track_caller]
    pub fn log_in(&mut self, target: &str, portals: &[SocketAddr], settings: &[(&str, &str)]) {
        let usual = [
            ("node.session.timeo.replacement_timeout", "2"),
            ("node.conn[0].timeo.noop_out_interval", "1"),
            ("node.conn[0].timeo.noop_out_timeout", "2"),
            ("node.conn[0].timeo.login_timeout", "3"),
            ("node.session.initial_login_retry_max", "20"),
        ];
        for portal in portals {
            self.run(&format!("iscsiadm -m node -o new -T {target} -p {HOST}:{} -I default", portal.port()));
        }
        for (name, value) in usual.iter().chain(settings) {
            self.run(&format!("iscsiadm -m node -T {target} -o update -n '{name}' -v '{value}'"));
        }
        self.run(&format!("iscsiadm -m node -T {target} --login"));
        self.run("udevadm settle");
    }

    /// Starts multipath, and waits until the disk `/dev/mapper/mpatha` has as many paths in use.
    #[track_caller]
    pub fn multipath(&mut self, paths: usize) {
        self.run("(multipathd -d -s >/tmp/multipathd 2>&1 &)");
        self.wait_for_paths(paths, 60);
        self.run("udevadm settle; [ -e /dev/mapper/mpatha ]");
    }

    /// Waits until as many paths of all disks are in use.
    #[track_caller]
    pub fn wait_for_paths(&mut self, paths: usize, seconds: u64) {
        self.wait_for(&format!("tail -n 25 /tmp/iscsid; iscsiadm -m session -P 1 | grep State; multipath -ll; [ $(multipath -ll | grep -c ' active ready ') = {paths} ]"), seconds);
    }

    /// What comes before `mark`.
    fn until(&mut self, mark: &str, seconds: u64) -> Option<String> {
        let end = Instant::now() + Duration::from_secs(seconds);
        let mark = mark.as_bytes();
        loop {
            if let Some(at) = self.unread.windows(mark.len()).position(|bytes| bytes == mark) {
                let text = String::from_utf8_lossy(&self.unread[..at]).replace('\r', "");
                self.unread.drain(..at + mark.len());
                return Some(text);
            }
            let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            self.line.set_read_timeout(Some(left)).expect("a time can be set");
            let mut bytes = [0; 4096];
            let count = self.line.read(&mut bytes).ok().filter(|&count| count > 0)?;
            self.unread.extend(&bytes[..count]);
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let said = String::from_utf8_lossy(&std::fs::read(&self.console).unwrap_or_default()).into_owned();
            let lines: Vec<&str> = said.lines().collect();
            let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
            eprintln!("--- the machine printed ---\n{}", String::from_utf8_lossy(&self.unread));
            eprintln!("--- its kernel said ---\n{}\n---", last.join("\n"));
        }
    }
}
