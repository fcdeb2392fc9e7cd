//! Holdfast's spaces: a daemon for each, with eight disks.

use holdfast_tests::daemon::{Daemon, binary};
use holdfast_tests::janitor::Janitor;
use holdfast_tests::loops;
use holdfast_tests::losses::wait_missing;
use holdfast_tests::scene::Scene;

use crate::settings::Settings;

/// Disks of each pool.
pub const DISKS: usize = 8;
/// Their size.
pub const DISK_BYTES: u64 = 1 << 30;

/// How names of subjects end that are served by the older build.
pub const BEFORE: &str = "-before";

/// A space as it is asked for, and what writing to it must cost.
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    options: &'static [&'static str],
    /// Stripe units side by side, and how many of them hold data.
    columns: (u32, u32),
    /// Disks that a block takes: its copies, or itself and parity.
    block_disks: u32,
    /// Disks that are taken out once it is filled.
    pub lost: usize,
}

const PARITY1: &[&str] = &["--layout", "parity", "--parity", "1", "--columns", "8"];
const PARITY2: &[&str] = &["--layout", "parity", "--parity", "2", "--columns", "8"];
const SIMPLE_PLAIN: &[&str] = &["--layout", "simple", "--columns", "8", "--integrity", "none"];
const TWO_WAY_PLAIN: &[&str] = &["--layout", "mirror", "--integrity", "none"];
const PARITY2_PLAIN: &[&str] = &["--layout", "parity", "--parity", "2", "--columns", "8", "--integrity", "none"];

/// All of them.
const SHAPES: &[Shape] = &[
    Shape {
        name: "simple",
        options: &["--layout", "simple", "--columns", "8"],
        columns: (8, 8),
        block_disks: 1,
        lost: 0,
    },
    Shape { name: "two-way", options: &["--layout", "mirror"], columns: (8, 4), block_disks: 2, lost: 0 },
    Shape {
        name: "three-way",
        options: &["--layout", "mirror", "--copies", "3"],
        columns: (6, 2),
        block_disks: 3,
        lost: 0,
    },
    Shape { name: "parity1", options: PARITY1, columns: (8, 7), block_disks: 2, lost: 0 },
    Shape { name: "parity2", options: PARITY2, columns: (8, 6), block_disks: 3, lost: 0 },
    Shape { name: "simple-plain", options: SIMPLE_PLAIN, columns: (8, 8), block_disks: 1, lost: 0 },
    Shape { name: "two-way-plain", options: TWO_WAY_PLAIN, columns: (8, 4), block_disks: 2, lost: 0 },
    Shape { name: "parity2-plain", options: PARITY2_PLAIN, columns: (8, 6), block_disks: 3, lost: 0 },
    Shape { name: "parity1-degraded", options: PARITY1, columns: (8, 7), block_disks: 2, lost: 1 },
    Shape { name: "parity2-degraded", options: PARITY2, columns: (8, 6), block_disks: 3, lost: 2 },
];

impl Shape {
    /// The shape of this name, if it is a space's.
    pub fn named(name: &str) -> Option<&'static Self> {
        let name = name.strip_suffix(BEFORE).unwrap_or(name);
        SHAPES.iter().find(|shape| shape.name == name)
    }

    /// Bytes written to disks, at the least, for each byte of whole stripes.
    pub fn full_write(&self) -> f64 {
        f64::from(self.columns.0) / f64::from(self.columns.1)
    }

    /// Bytes written to disks, at the least, for each byte of a small write on its own.
    pub fn small_write(&self) -> f64 {
        self.block_disks.into()
    }

    /// Whether it has parity.
    pub fn has_parity(&self) -> bool {
        self.columns.1 > 1 && self.full_write() < f64::from(self.block_disks)
    }
}

/// A daemon that serves one space.
pub struct Space {
    /// What it is.
    pub shape: &'static Shape,
    /// Its daemon.
    pub daemon: Daemon,
    /// Where its export is.
    pub uri: String,
    disks: Vec<String>,
}

impl Space {
    /// Makes and exports it, by the older build where the name says so.
    ///
    /// # Errors
    /// If this machine gives no disks, or there is no older build.
    pub fn start(
        scene: &Scene,
        janitor: &mut Janitor,
        name: &str,
        shape: &'static Shape,
        settings: &Settings,
    ) -> Result<Self, String> {
        let binary = match (name.ends_with(BEFORE), &settings.before) {
            (true, None) => return Err("HOLDFAST_BEFORE names no older build".into()),
            (true, Some(before)) => before.clone(),
            (false, _) => binary(),
        };
        let disks = loops::attach(scene, janitor, name, DISKS, DISK_BYTES)?;
        let daemon = Daemon::start_build(scene, name, &binary);
        let paths: Vec<&str> = disks.iter().map(String::as_str).collect();
        daemon.please(&[&["pool", "create", "tank", "--disk"], &paths[..]].concat());
        let uri = daemon.space("tank/space", &[shape.options, &["--size", &settings.size_bytes.to_string()]].concat());
        Ok(Self { shape, daemon, uri, disks })
    }

    /// Takes the disks out that it is to do without, while its daemon is down.
    pub fn lose_disks(&mut self) {
        if self.shape.lost == 0 {
            return;
        }
        self.daemon.end();
        let lost = self.disks.drain(..self.shape.lost);
        lost.for_each(|disk| {
            loops::detach(&disk).unwrap_or_else(|error| panic!("{disk} cannot be taken out: {error}"))
        });
        self.daemon.start_again();
        wait_missing(&self.daemon, "tank", self.shape.lost);
    }
}
