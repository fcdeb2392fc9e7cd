//! The daemon as users run it: a state folder, a management socket, NBD addresses, and the command line against it.
//!
//! Invariant: it ends with the test, however that ends; a test that fails prints the end of its log.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::command::{Finished, run_with, wait_until};
use crate::metrics::Metrics;
use crate::ports::free_address;
use crate::scene::Scene;

/// Lines of the log that a failing test prints.
const LOG_LINES: usize = 60;
/// Seconds that an orderly end may take.
const END_SECONDS: u64 = 30;

/// A daemon.
pub struct Daemon {
    name: String,
    binary: PathBuf,
    dir: PathBuf,
    port: Option<u16>,
    options: Vec<String>,
    child: Option<Child>,
}

/// The binary: `HOLDFAST_BIN`, else what was built beside this test.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("HOLDFAST_BIN") {
        return path.into();
    }
    let this = std::env::current_exe().expect("a process has a path");
    let beside = this.ancestors().skip(1).map(|dir| dir.join("holdfast")).find(|path| path.is_file());
    beside.unwrap_or_else(|| panic!("no holdfast beside {}: run `make test`, or set HOLDFAST_BIN", this.display()))
}

impl Daemon {
    /// Starts a daemon that serves NBD on a unix socket.
    pub fn start(scene: &Scene) -> Self {
        Self::start_with(scene, "a", &[])
    }

    /// Starts a daemon that serves NBD on a unix socket and on TCP.
    pub fn start_tcp(scene: &Scene, options: &[&str]) -> Self {
        let mut daemon = Self::new(scene, "a", options);
        daemon.port = Some(free_address().port());
        daemon.launch();
        daemon
    }

    /// Starts a daemon whose state and sockets lie in the folder `name` of `scene`.
    pub fn start_with(scene: &Scene, name: &str, options: &[&str]) -> Self {
        let mut daemon = Self::new(scene, name, options);
        daemon.launch();
        daemon
    }

    /// Starts a daemon of another build, with its own command line.
    pub fn start_build(scene: &Scene, name: &str, binary: &Path) -> Self {
        let mut daemon = Self::new(scene, name, &[]);
        daemon.binary = binary.into();
        daemon.launch();
        daemon
    }

    fn new(scene: &Scene, name: &str, options: &[&str]) -> Self {
        let dir = PathBuf::from(scene.folder(name));
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Self { name: name.to_owned(), binary: binary(), dir, port: None, options, child: None }
    }

    fn launch(&mut self) {
        let log = File::options().create(true).append(true).open(self.log()).expect("a log can be written");
        let errors = log.try_clone().expect("a file can be shared");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(&self.binary).arg("serve").arg("--state").arg(self.dir.join("state"));
        command.arg("--socket").arg(self.socket()).arg("--nbd").arg(format!("unix:{}", self.nbd_socket().display()));
        if let Some(port) = self.port {
            command.arg("--nbd").arg(format!("tcp:127.0.0.1:{port}"));
        }
        command.args(&self.options).stdin(Stdio::null()).stdout(log).stderr(errors);
        self.child = Some(command.spawn().expect("setpriv of util-linux can be run"));
        wait_until("the daemon answers", 20, || {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
                panic!("the daemon ended at its start: {status}\n{}", self.log_end());
            }
            self.nbd_socket().exists() && self.cli(&["pool", "list"]).success()
        });
    }

    /// Kills it as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Kills it while others here still ask it for something; it is cleared away by the next start.
    pub fn strike(&self) {
        if let Some(child) = &self.child {
            let _ =
                rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::KILL);
        }
    }

    /// Asks it to end, and waits until it did.
    ///
    /// # Panics
    /// If it takes too long or reports a failure.
    #[track_caller]
    pub fn end(&mut self) {
        assert!(self.try_end(), "it ended with a failure\n{}", self.log_end());
    }

    /// Asks it to end, waits until it did, and answers whether it reports success.
    ///
    /// # Panics
    /// If it takes too long.
    #[track_caller]
    pub fn try_end(&mut self) -> bool {
        let mut child = self.child.take().expect("it runs");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a child can be signalled");
        let mut status = None;
        wait_until("the daemon ends in order", END_SECONDS, || {
            status = child.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        status.is_some_and(|status| status.success())
    }

    /// Stops it where it stands, until [`thaw`](Self::thaw).
    pub fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let child = self.child.as_ref().expect("it runs");
        rustix::process::kill_process(rustix::process::Pid::from_child(child), signal)
            .expect("a child can be signalled");
    }

    /// Starts it again on the state that it left.
    pub fn start_again(&mut self) {
        self.kill();
        self.launch();
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Runs `holdfast` against it.
    pub fn cli(&self, arguments: &[&str]) -> Finished {
        run_with(self.binary.to_str().expect("paths of tests are text"), arguments, |command| {
            command.env("HOLDFAST_SOCKET", self.socket());
        })
    }

    /// Runs `holdfast --json` against it, and reads the answer.
    ///
    /// # Panics
    /// If it is refused, or prints no JSON.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let printed = self.cli(&[&["--json"], arguments].concat()).succeeded();
        serde_json::from_str(&printed)
            .unwrap_or_else(|error| panic!("{arguments:?} printed no JSON: {error}\n{printed}"))
    }

    /// Runs `holdfast` against it, which must succeed.
    #[track_caller]
    pub fn please(&self, arguments: &[&str]) -> String {
        self.cli(arguments).succeeded()
    }

    /// Makes `count` file disks of `size` in the folder `disks` of `scene`, and gives their paths.
    #[track_caller]
    pub fn disks(&self, scene: &Scene, count: usize, size: &str) -> Vec<String> {
        let folder = scene.folder("disks");
        let paths: Vec<_> = (0..count).map(|number| format!("{folder}/disk{number}.img")).collect();
        for path in &paths {
            self.please(&["disk", "create-file", path, "--size", size]);
        }
        paths
    }

    /// Makes a pool of `count` new file disks, and gives their paths.
    #[track_caller]
    pub fn pool(&self, scene: &Scene, name: &str, count: usize, size: &str) -> Vec<String> {
        let disks = self.disks(scene, count, size);
        let paths: Vec<&str> = disks.iter().map(String::as_str).collect();
        self.please(&[&["pool", "create", name, "--disk"], &paths[..]].concat());
        disks
    }

    /// Makes the space `path` (`POOL/SPACE`), exports it by the name of the space, and gives its URI on the unix
    /// socket.
    #[track_caller]
    pub fn space(&self, path: &str, options: &[&str]) -> String {
        self.please(&[&["space", "create", path], options].concat());
        self.please(&["nbd", "export", path]);
        self.uri(path.rsplit('/').next().unwrap_or(path))
    }

    /// What it has counted so far.
    #[track_caller]
    pub fn metrics(&self) -> Metrics {
        Metrics::read(&self.socket())
    }

    /// The URI of an export on the unix socket.
    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.nbd_socket().display())
    }

    /// The URI of an export on TCP.
    pub fn tcp_uri(&self, export: &str) -> String {
        format!("nbd://127.0.0.1:{}/{export}", self.port.expect("it serves TCP"))
    }

    /// The port on which it serves TCP.
    pub fn port(&self) -> u16 {
        self.port.expect("it serves TCP")
    }

    /// The unix socket of NBD.
    pub fn nbd_socket(&self) -> PathBuf {
        self.dir.join("nbd")
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("api")
    }

    fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// The last lines that it logged.
    pub fn log_end(&self) -> String {
        tail(&self.log())
    }
}

fn tail(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- log of daemon {} ---\n{}\n---", self.name, self.log_end());
        }
    }
}
