//! Two clients on two spaces of one pool: what each of them gets.

use crate::command::run;
use crate::daemon::Daemon;
use crate::fio::{self, Running};
use crate::random::bytes;
use crate::scene::Scene;

const SIZE: usize = 64 << 20;
const DISKS: usize = 4;
/// Requests of 8 KiB at random, which count one I/O each.
const RANDOM: &[&str] = &["--bs=8k", "--time_based", "--output-format=json", "--norandommap"];

/// A daemon with the spaces `tank/polite` and `tank/greedy`, full of data.
pub struct Two {
    /// The daemon.
    pub daemon: Daemon,
    polite: String,
    greedy: String,
    _scene: Scene,
}

impl Default for Two {
    fn default() -> Self {
        let scene = Scene::new();
        let daemon = Daemon::start(&scene);
        daemon.pool(&scene, "tank", DISKS, "256MiB");
        let image = scene.path("image");
        std::fs::write(&image, bytes(7, SIZE)).expect("an image can be written");
        let space = |path: &str| {
            let uri = daemon.space(path, &["--layout", "mirror", "--size", &SIZE.to_string()]);
            run("nbdcopy", &["--flush", &image, &uri]).succeeded();
            uri
        };
        let (polite, greedy) = (space("tank/polite"), space("tank/greedy"));
        Self { daemon, polite, greedy, _scene: scene }
    }
}

fn start(uri: &str, kind: &str, depth: u32, seconds: u32) -> Running {
    let (kind, depth, runtime) = (format!("--rw={kind}"), format!("--iodepth={depth}"), format!("--runtime={seconds}"));
    fio::start(uri, &[&[kind.as_str(), &depth, &runtime], RANDOM].concat())
}

impl Two {
    /// Reads of the polite client at depth 16 while the greedy one reads at depth 128: requests a second of each.
    pub fn capped(&self, seconds: u32) -> (f64, f64) {
        let greedy = start(&self.greedy, "randread", 128, seconds + 2);
        let capped = start(&self.polite, "randread", 16, seconds).finish();
        let free = greedy.finish();
        (fio::rates(&capped).0.iops, fio::rates(&free).0.iops)
    }

    /// The 99th percentile of the polite client at depth 1, alone and beside the greedy one at depth 128, in
    /// microseconds; and what the greedy one did a second.
    pub fn neighbours(&self, kind: &str, seconds: u32) -> (f64, f64, f64) {
        let direction = if kind.contains("write") { "write" } else { "read" };
        let alone = start(&self.polite, kind, 1, seconds).finish();
        let greedy = start(&self.greedy, kind, 128, seconds + 2);
        let beside = start(&self.polite, kind, 1, seconds).finish();
        let (reads, writes) = fio::rates(&greedy.finish());
        (fio::p99(&alone, direction), fio::p99(&beside, direction), reads.iops + writes.iops)
    }
}
