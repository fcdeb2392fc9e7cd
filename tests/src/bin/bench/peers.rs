//! Peers that serve one disk over NBD, with their cache off.

use std::process::{Child, Command, Stdio};

use holdfast_tests::command::wait_until;
use holdfast_tests::scene::Scene;

/// A server of a disk.
pub struct Peer {
    /// Where its export is.
    pub uri: String,
    child: Child,
}

impl Peer {
    /// Starts the peer `name` on a block device.
    pub fn start(scene: &Scene, name: &str, disk: &str) -> Self {
        let socket = scene.path(&format!("{name}.sock"));
        let arguments: Vec<&str> = match name {
            "nbdkit" => vec!["nbdkit", "--foreground", "--unix", &socket, "file", disk, "cache=none"],
            _ => vec![
                "qemu-nbd",
                "--persistent",
                "--shared=16",
                "--format=raw",
                "--cache=none",
                "--aio=io_uring",
                "--discard=unmap",
                "--socket",
                &socket,
                disk,
            ],
        };
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().expect("setpriv of util-linux can be run");
        wait_until(name, 20, || std::path::Path::new(&socket).exists());
        Self { uri: format!("nbd+unix:///?socket={socket}"), child }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
