//! Peers that serve one raw file of memory over NBD.

use std::process::{Child, Command, Stdio};

use holdfast_tests::command::wait_until;
use holdfast_tests::scene::Scene;

use crate::settings::Settings;

/// A server of a raw file.
pub struct Peer {
    /// Where its export is.
    pub uri: String,
    child: Child,
}

impl Peer {
    /// Starts the peer `name`.
    pub fn start(scene: &Scene, name: &str, settings: &Settings) -> Self {
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
