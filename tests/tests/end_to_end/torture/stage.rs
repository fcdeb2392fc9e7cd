//! A daemon with a pool, a space of one layout, and a load that knows what each block may hold.
//!
//! Invariant: between rounds all disks are there, all is in step, and every block holds what it may.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use holdfast_harness::Wait;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::load::{Done, Load, Refusals};
use holdfast_tests::losses::{give, take};
use holdfast_tests::random::Random;
use holdfast_tests::scene::Scene;
use serde_json::Value;

const SPACE: &str = "tank/vm";
const SPACE_BYTES: u64 = 24 << 20;
const CLIENTS: usize = 4;
pub const DISK_BYTES: u64 = 128 << 20;
/// Faults that a failure shows.
const SHOWN: usize = 12;

/// A layout, and how many disks its pool has: enough for a quorum when one more is gone than it bears.
pub struct Layout {
    pub options: &'static [&'static str],
    pub disks: usize,
    /// Disks that may be lost.
    pub tolerance: usize,
    /// Whether what was not flushed is lost with the process.
    pub parity: bool,
}

/// See the module.
pub struct Stage {
    pub layout: &'static Layout,
    pub daemon: Daemon,
    pub disks: Vec<String>,
    pub random: Random,
    pub scene: Scene,
    load: Load,
    away: Vec<String>,
    story: Vec<String>,
}

impl Stage {
    pub fn new(layout: &'static Layout, random: Random) -> Self {
        let scene = Scene::new();
        let daemon = Daemon::start(&scene);
        let disks = daemon.pool(&scene, "tank", layout.disks, &DISK_BYTES.to_string());
        let load = Load::new(CLIENTS, SPACE_BYTES);
        let mut stage = Self { layout, daemon, disks, random, scene, load, away: Vec::new(), story: Vec::new() };
        stage.make_space();
        stage
    }

    /// A space that reads as zeros, and a load that knows it as such.
    pub fn make_space(&mut self) {
        self.daemon.space(SPACE, &[self.layout.options, &["--size", &SPACE_BYTES.to_string()]].concat());
        self.load = Load::new(CLIENTS, SPACE_BYTES);
    }

    /// Gives up the space and makes another.
    pub fn make_anew(&mut self) {
        self.daemon.please(&["nbd", "unexport", "vm"]);
        self.daemon.please(&["space", "destroy", SPACE, "--yes"]);
        self.make_space();
    }

    pub fn begin(&mut self, round: usize, name: &str) {
        self.story.clear();
        self.tell(format!("round {round}, {name}"));
    }

    /// Adds to what a failure tells.
    pub fn tell(&mut self, what: impl Into<String>) {
        let what = what.into();
        println!("{what}");
        self.story.push(what);
    }

    fn told(&self) -> String {
        self.story.join("\n  ")
    }

    /// All is back and in step at the end of a round, and compares well.
    pub fn end(&mut self) {
        assert!(self.away.is_empty(), "all disks are back");
        self.wait_in_step();
        self.whole("in step");
        let verified = self.daemon.cli(&["--json", "space", "verify", SPACE]);
        let found: Value = serde_json::from_str(&verified.printed()).unwrap_or_default();
        assert!(found["mismatched_blocks"] == 0, "{}\n  {verified}", self.told());
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.random.below(one_in) == 0
    }

    pub fn sleep(&mut self, most_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.random.below(most_ms)));
    }

    /// Loads while `act` goes on, which ends the daemon.
    pub fn under_load<T>(&mut self, refusals: Refusals, act: impl FnOnce(&mut Self) -> T) -> T {
        let socket = self.daemon.nbd_socket();
        let mut seeds = Random::new(self.random.next_u64());
        // The load goes back when all have ended.
        let load = std::mem::replace(&mut self.load, Load::new(1, 0));
        let (done, acted) = std::thread::scope(|scope| {
            let running = scope.spawn(|| load.run_with(&socket, "vm", &mut seeds, refusals));
            let before = 100 + self.random.below(250);
            std::thread::sleep(Duration::from_millis(before));
            let acted = catch_unwind(AssertUnwindSafe(|| act(self)));
            self.daemon.kill();
            (running.join(), acted)
        });
        self.load = load;
        let acted = acted.unwrap_or_else(|panic| resume_unwind(panic));
        let done: Done = done.unwrap_or_else(|_| panic!("{}\n  the load found a fault, see above", self.told()));
        self.tell(format!("{done:?}"));
        acted
    }

    /// Ends the daemon in order, which must succeed: all that was answered is durable then.
    pub fn end_in_order(&mut self) {
        self.tell("SIGTERM");
        let success = self.daemon.try_end();
        assert!(success, "{}\n  the end reports a failure\n{}", self.told(), self.daemon.log_end());
    }

    /// Ends the daemon in order where it may lack disks. If it reports success, all that was answered is durable.
    pub fn end_without_disks(&mut self) -> bool {
        let success = self.daemon.try_end();
        self.tell(format!("SIGTERM, exit status {}", if success { "0" } else { "not 0" }));
        success
    }

    pub fn kill(&mut self) {
        self.tell("SIGKILL");
        self.daemon.kill();
    }

    /// All that was answered counts from now on.
    pub fn settle(&self) {
        self.load.settle_answered();
    }

    pub fn start(&mut self) {
        self.tell("start");
        self.daemon.start_again();
    }

    pub fn take(&mut self, disk: &str) {
        self.tell(format!("{} goes", name(disk)));
        take(disk);
        self.away.push(disk.to_owned());
    }

    pub fn give(&mut self, disk: &str) {
        self.tell(format!("{} comes back", name(disk)));
        give(disk);
        self.away.retain(|away| away != disk);
    }

    /// `count` disks, in any order.
    pub fn any(&mut self, count: usize) -> Vec<String> {
        let mut disks = self.disks.clone();
        self.shuffle(&mut disks);
        disks.truncate(count);
        disks
    }

    pub fn shuffle(&mut self, disks: &mut [String]) {
        for last in (1..disks.len()).rev() {
            disks.swap(last, self.random.below(last as u64 + 1) as usize);
        }
    }

    /// Slabs of the space: those of data, by row, and those of its journal.
    pub fn rows(&self, journal: bool) -> Vec<Vec<Value>> {
        let map = self.daemon.json(&["space", "map", SPACE]);
        let rows = map.as_array().expect("rows").iter().filter(|row| row["journal"] == journal);
        rows.map(|row| row["slabs"].as_array().expect("slabs").clone()).collect()
    }

    /// Disks of which one more is gone than the space bears: all copies of a column, or slabs of one row.
    pub fn group(&mut self) -> Vec<String> {
        let rows = self.rows(false);
        let row = &rows[self.random.below(rows.len() as u64) as usize];
        let column = row[self.random.below(row.len() as u64) as usize]["column"].clone();
        let of_group = |slab: &&Value| self.layout.parity || slab["column"] == column;
        let mut disks: Vec<String> = row.iter().filter(of_group).map(path).collect();
        self.shuffle(&mut disks);
        disks.truncate(self.layout.tolerance + 1);
        disks
    }

    /// Every block can be read and holds what it may.
    #[track_caller]
    pub fn whole(&mut self, when: &str) {
        self.tell(format!("read, {when}"));
        self.wait_for("the export is served", |stage| stage.served());
        let checked = self.load.look(&self.daemon.nbd_socket(), "vm", 2);
        self.no_faults(&checked.faults);
        let (count, first) = (checked.unreadable.len(), &checked.unreadable[..checked.unreadable.len().min(SHOWN)]);
        assert!(count == 0, "{}\n  {count} blocks cannot be read: {first:?}...\n{}", self.told(), self.state());
    }

    /// Every block that can be read holds what it may, and health tells of the others. Answers how many there are.
    #[track_caller]
    pub fn never_wrong(&mut self, when: &str) -> usize {
        if !self.served() {
            self.tell(format!("{when}: not served"));
            self.tells_of_loss();
            return (SPACE_BYTES / 4096) as usize;
        }
        let mut was_healthy = self.is_healthy();
        loop {
            let checked = self.load.look(&self.daemon.nbd_socket(), "vm", 2);
            self.tell(format!("read, {when}: {} blocks cannot be", checked.unreadable.len()));
            self.no_faults(&checked.faults);
            // A disk may go or come back while it is read.
            match (checked.unreadable.is_empty() || !self.is_healthy(), was_healthy) {
                (true, _) => return checked.unreadable.len(),
                (false, true) => panic!("{}\n  what cannot be read is called healthy\n{}", self.told(), self.state()),
                (false, false) => was_healthy = true,
            }
        }
    }

    fn is_healthy(&self) -> bool {
        self.daemon.json(&["status"])["health"] == "healthy"
    }

    #[track_caller]
    fn no_faults(&self, faults: &[String]) {
        let shown = faults[..faults.len().min(SHOWN)].join("\n  ");
        assert!(
            faults.is_empty(),
            "{}\n  {} blocks are wrong:\n  {shown}\n{}",
            self.told(),
            faults.len(),
            self.state()
        );
    }

    #[track_caller]
    fn tells_of_loss(&self) {
        let status = self.daemon.json(&["status"]);
        assert!(status["health"] != "healthy", "{}\n  what cannot be read is called healthy: {status}", self.told());
    }

    fn served(&self) -> bool {
        self.daemon.json(&["nbd", "list"])[0]["served"] == true
    }

    #[track_caller]
    fn wait_in_step(&mut self) {
        self.wait_for("all is in step", |stage| {
            let (pool, space) =
                (stage.daemon.json(&["pool", "list"]), stage.daemon.cli(&["--json", "space", "show", SPACE]));
            let space: Value = serde_json::from_str(&space.printed()).unwrap_or_default();
            pool[0]["state"] == "ok" && space["state"] == "ok" && space["stale_slabs"] == 0
        });
    }

    #[track_caller]
    fn wait_for(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        let mut wait = Wait::new();
        while !condition(self) {
            std::thread::sleep(wait.pause(|| format!("{what}\n{}\n{}", self.told(), self.state())));
        }
    }

    fn state(&self) -> String {
        [&["status"][..], &["pool", "list"], &["space", "show", SPACE], &["event", "list"]]
            .map(|asked| self.daemon.cli(asked).to_string())
            .join("\n")
    }

    pub fn scrub(&mut self) {
        self.tell("scrub");
        let scrubbed = self.daemon.cli(&["space", "scrub", SPACE, "--wait"]);
        assert!(scrubbed.success(), "{}\n  {scrubbed}", self.told());
    }
}

/// The path of the disk of a slab.
pub fn path(slab: &Value) -> String {
    slab["path"].as_str().expect("a path").to_owned()
}

fn name(disk: &str) -> &str {
    disk.rsplit('/').next().unwrap_or(disk)
}
