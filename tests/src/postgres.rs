//! PostgreSQL as a load and as a judge: a server of its own on a folder, that loses its disk and comes up again.
//!
//! Invariant: what [`Server::writer`] recorded was committed.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::command::{Finished, run, wait_until};
use crate::scene::Scene;

/// Rows that a writer may commit.
const ROWS: u64 = 1_000_000;

/// The folder of PostgreSQL's programs.
///
/// # Panics
/// If there is none.
pub fn programs() -> String {
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
pub struct Server {
    data: String,
    sockets: String,
    log: String,
}

impl Server {
    /// One whose files lie in the folder `directory`, which is there, and whose sockets lie in `scene`.
    pub fn new(scene: &Scene, directory: &str) -> Self {
        let sockets = scene.folder("sockets");
        std::fs::set_permissions(scene.dir(), Permissions::from_mode(0o755)).expect("a folder of ours");
        run("chown", &["postgres", &sockets, directory]).succeeded();
        Self { data: format!("{directory}/data"), log: format!("{sockets}/log"), sockets }
    }

    /// Makes a data base.
    pub fn create(&self) {
        as_postgres("initdb", &["-D", &self.data, "-A", "trust", "-E", "UTF8", "--locale=C"]).succeeded();
    }

    /// Starts it, on what a crash left too.
    pub fn start(&self) {
        let _ = std::fs::remove_file(format!("{}/postmaster.pid", self.data));
        let options = format!(
            "-k {} -c listen_addresses= -c shared_buffers=32MB -c max_wal_size=96MB -c checkpoint_timeout=30s",
            self.sockets
        );
        let finished =
            as_postgres("pg_ctl", &["-D", &self.data, "-l", &self.log, "-o", &options, "-w", "-t", "120", "start"]);
        assert!(finished.success(), "{finished}\n{}", std::fs::read_to_string(&self.log).unwrap_or_default());
    }

    /// Whether it ended, in a way of `pg_ctl`.
    pub fn stop(&self, mode: &str) -> bool {
        as_postgres("pg_ctl", &["-D", &self.data, "-m", mode, "-w", "stop"]).success()
    }

    /// Ends what the loss of the disk left of it: backends that wait for each other do not go by themselves.
    pub fn bury(&self) {
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

    /// What a statement answers.
    pub fn psql(&self, statement: &str) -> String {
        as_postgres("psql", &["-h", &self.sockets, "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statement, "postgres"])
            .succeeded()
    }

    /// Starts `pgbench`.
    pub fn pgbench(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new("runuser");
        command
            .args(["-u", "postgres", "--", &format!("{}/pgbench", programs()), "-h", &self.sockets])
            .args(arguments)
            .arg("postgres");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pgbench can be run")
    }

    /// Commits one row after the other, and prints the id of each that is committed.
    pub fn writer(&self, scene: &Scene, number: u64) -> (Child, String) {
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
