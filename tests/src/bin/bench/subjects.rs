//! What is measured: servers that each hold the same number of bytes in memory, filled before the first turn.
//!
//! Invariant: every server ends with this process.

use std::process::{Child, Command, Stdio};

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::process::processor_ticks;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::{Scene, free_bytes};

use crate::settings::Settings;

/// The peers, then the spaces.
pub const SUBJECTS: &[&str] = &["nbdkit", "qemu-nbd", "simple", "two-way", "three-way"];
/// Those that the ratios are against.
pub const PEERS: &[&str] = &["nbdkit", "qemu-nbd"];
const DISKS: usize = 8;

/// A server of one export.
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// Where its export is.
    pub uri: String,
    server: Server,
}

enum Server {
    Peer(Child),
    Holdfast(Daemon),
}

impl Subject {
    /// The process that serves.
    pub fn pid(&self) -> u32 {
        match &self.server {
            Server::Peer(child) => child.id(),
            Server::Holdfast(daemon) => daemon.pid(),
        }
    }

    /// Processor seconds that it has taken so far.
    pub fn processor_seconds(&self) -> f64 {
        processor_ticks(self.pid()) as f64 / 100.0
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let Server::Peer(child) = &mut self.server {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn peer(scene: &Scene, name: &'static str, settings: &Settings) -> Subject {
    let (file, socket) = (scene.path(&format!("{name}.raw")), scene.path(&format!("{name}.sock")));
    std::fs::File::create(&file).and_then(|file| file.set_len(settings.size_bytes)).expect("a raw file can be made");
    let arguments: Vec<&str> = match name {
        "nbdkit" => vec!["nbdkit", "--foreground", "--unix", &socket, "file", &file],
        _ => vec![
            "qemu-nbd",
            "--persistent",
            "--shared=16",
            "--format=raw",
            "--cache=writeback",
            "--aio=io_uring",
            "--discard=unmap",
            "--socket",
            &socket,
            &file,
        ],
    };
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn().expect("setpriv of util-linux can be run");
    wait_until(name, 20, || std::path::Path::new(&socket).exists());
    Subject { name, uri: format!("nbd+unix:///?socket={socket}"), server: Server::Peer(child) }
}

fn holdfast(scene: &Scene, name: &'static str, settings: &Settings) -> Subject {
    let daemon = Daemon::start_with(scene, name, &[]);
    let folder = scene.folder(&format!("{name}-disks"));
    let disks: Vec<_> = (0..DISKS).map(|number| format!("{folder}/disk{number}")).collect();
    for disk in &disks {
        daemon.please(&["disk", "create-file", disk, "--size", "1GiB"]);
    }
    let paths: Vec<&str> = disks.iter().map(String::as_str).collect();
    daemon.please(&[&["pool", "create", "tank", "--disk"], &paths[..]].concat());
    let layout: &[&str] = match name {
        "simple" => &["--layout", "simple", "--columns", "8"],
        "two-way" => &["--layout", "mirror"],
        _ => &["--layout", "mirror", "--copies", "3"],
    };
    let uri = daemon.space("tank/space", &[layout, &["--size", &settings.size_bytes.to_string()]].concat());
    Subject { name, uri, server: Server::Holdfast(daemon) }
}

/// Starts and fills every subject that the settings name.
pub fn start(scene: &Scene, settings: &Settings) -> Vec<Subject> {
    // Peers and a simple space hold each byte once, mirrors two and three times; the client's file is one more.
    let copies: u64 = 9;
    assert!(
        free_bytes(scene.dir()) > copies * settings.size_bytes,
        "{} has too little room: {} MiB are wanted; set SIZE_MIB lower",
        scene.dir().display(),
        (copies * settings.size_bytes) >> 20
    );
    let fill = scene.path("fill");
    let chunk = bytes(1, 64 << 20);
    let copies = (settings.size_bytes as usize).div_ceil(chunk.len());
    let mut data = Vec::with_capacity(copies * chunk.len());
    (0..copies).for_each(|_| data.extend_from_slice(&chunk));
    data.truncate(settings.size_bytes as usize);
    std::fs::write(&fill, data).expect("a file can be written");
    let subjects: Vec<_> = settings
        .subjects
        .iter()
        .map(|&name| if PEERS.contains(&name) { peer(scene, name, settings) } else { holdfast(scene, name, settings) })
        .collect();
    for subject in &subjects {
        run("nbdcopy", &["--flush", &fill, &subject.uri]).succeeded();
        if settings.pin {
            run("taskset", &["--all-tasks", "--cpu-list", "--pid", "0", &subject.pid().to_string()]).succeeded();
        }
    }
    let _ = std::fs::remove_file(fill);
    subjects
}
