//! What is measured: each serves the same number of bytes of its own disks, and is filled before the first turn.
//!
//! Invariant: every subject ends with this process.

use std::fs::File;
use std::io::Write;

use holdfast_harness::free_bytes;
use holdfast_tests::command::run;
use holdfast_tests::fio::{direct_line, fio_line};
use holdfast_tests::janitor::Janitor;
use holdfast_tests::loops;
use holdfast_tests::process::processor_ticks;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;

use crate::btrfs::Btrfs;
use crate::peers::Peer;
use crate::profiles::Profile;
use crate::settings::Settings;
use crate::spaces::{BEFORE, Shape, Space};

/// The disk itself and the peers, then the spaces; those without checksums are measured where they are named.
pub const SUBJECTS: &[&str] = &[
    "disk",
    "nbdkit",
    "qemu-nbd",
    "btrfs-raid5",
    "btrfs-raid6",
    "simple",
    "simple-before",
    "two-way",
    "two-way-before",
    "three-way",
    "parity1",
    "parity2",
    "parity1-degraded",
    "parity2-degraded",
    "simple-plain",
    "two-way-plain",
    "parity2-plain",
];

/// Something that is measured.
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// What does the work.
    pub server: Server,
}

/// What does the work.
pub enum Server {
    /// Nobody: a disk that fio goes to itself.
    Disk(String),
    /// A server of a disk.
    Peer(Peer),
    /// A file system of the kernel.
    Btrfs(Btrfs),
    /// A daemon with one space.
    Space(Space),
}

impl Subject {
    /// The process that serves; none if the kernel does.
    pub fn pid(&self) -> Option<u32> {
        match &self.server {
            Server::Peer(peer) => Some(peer.pid()),
            Server::Space(space) => Some(space.daemon.pid()),
            Server::Disk(_) | Server::Btrfs(_) => None,
        }
    }

    /// Processor seconds that it has taken so far; none if nobody knows.
    pub fn processor_seconds(&self) -> f64 {
        self.pid().map_or(f64::NAN, |pid| processor_ticks(pid) as f64 / 100.0)
    }

    /// The space that it is, if a daemon of this build serves it whole.
    pub fn whole_space(&self) -> Option<&Space> {
        match &self.server {
            Server::Space(space) if space.shape.lost == 0 && !self.name.ends_with(BEFORE) => Some(space),
            _ => None,
        }
    }

    /// Whether it takes a turn at `profile`.
    pub fn takes_part(&self, profile: &Profile) -> bool {
        match &self.server {
            Server::Space(space) => space.shape.lost == 0 || profile.key == "streaming",
            _ => true,
        }
    }

    /// Arguments of fio that reach it.
    pub fn fio_line(&self, profile: &Profile) -> Vec<String> {
        match &self.server {
            Server::Disk(disk) => direct_line("io_uring", disk),
            Server::Peer(peer) => fio_line(&peer.uri),
            Server::Space(space) => fio_line(&space.uri),
            Server::Btrfs(btrfs) => btrfs.fio_line(profile),
        }
    }

    fn fill(&self, image: &str) {
        match &self.server {
            Server::Disk(disk) => fill_disk(image, disk),
            Server::Peer(peer) => run("nbdcopy", &["--flush", image, &peer.uri]).succeeded(),
            Server::Space(space) => run("nbdcopy", &["--flush", image, &space.uri]).succeeded(),
            Server::Btrfs(btrfs) => btrfs.fill(image),
        };
    }
}

fn fill_disk(image: &str, disk: &str) -> String {
    let (from, into) = (format!("if={image}"), format!("of={disk}"));
    run("dd", &[&from, &into, "bs=4M", "oflag=direct", "status=none"]).succeeded()
}

/// Bytes of memory that a subject takes for each byte that it serves.
fn memory_ratio(name: &str) -> f64 {
    match name {
        "btrfs-raid5" => 8.0 / 7.0,
        "btrfs-raid6" => 8.0 / 6.0,
        _ => Shape::named(name).map_or(1.0, Shape::full_write),
    }
}

fn image(scene: &Scene, size_bytes: u64) -> String {
    let path = scene.path("fill");
    let chunk = bytes(1, 64 << 20);
    let mut file = File::create(&path).expect("a file can be made");
    let mut left = size_bytes as usize;
    while left > 0 {
        let len = left.min(chunk.len());
        file.write_all(&chunk[..len]).expect("a file can be written");
        left -= len;
    }
    path
}

fn start_one(scene: &Scene, janitor: &mut Janitor, name: &str, settings: &Settings) -> Result<Server, String> {
    if let Some(shape) = Shape::named(name) {
        return Space::start(scene, janitor, name, shape, settings).map(Server::Space);
    }
    if name.starts_with("btrfs") {
        return Btrfs::start(scene, janitor, name, settings).map(Server::Btrfs);
    }
    let disks = loops::attach(scene, janitor, name, 1, settings.size_bytes)?;
    let disk = disks.into_iter().next().expect("one was asked for");
    Ok(if name == "disk" { Server::Disk(disk) } else { Server::Peer(Peer::start(scene, name, &disk)) })
}

/// Starts and fills every subject that the settings name; says which are left out, and why.
pub fn start(scene: &Scene, janitor: &mut Janitor, settings: &Settings) -> (Vec<Subject>, Vec<String>) {
    // The client's file is one more; journals, metadata and what waits take a little.
    let ratio: f64 = 1.25 + settings.subjects.iter().map(|name| memory_ratio(name) * 1.05).sum::<f64>();
    let room = (ratio * settings.size_bytes as f64) as u64;
    assert!(
        free_bytes(scene.dir()) > room,
        "{} has too little room: {} MiB are wanted; set SIZE_MIB lower, or SUBJECTS to fewer",
        scene.dir().display(),
        room >> 20
    );
    let image = image(scene, settings.size_bytes);
    let (mut subjects, mut left_out) = (Vec::new(), Vec::new());
    for &name in &settings.subjects {
        let server = match start_one(scene, janitor, name, settings) {
            Ok(server) => server,
            Err(reason) => {
                left_out.push(format!("{name} is left out: {reason}"));
                continue;
            }
        };
        let mut subject = Subject { name, server };
        subject.fill(&image);
        if let (true, Some(pid)) = (settings.pin, subject.pid()) {
            run("taskset", &["--all-tasks", "--cpu-list", "--pid", "0", &pid.to_string()]).succeeded();
        }
        if let Server::Space(space) = &mut subject.server {
            space.lose_disks();
        }
        subjects.push(subject);
    }
    let _ = std::fs::remove_file(image);
    (subjects, left_out)
}
