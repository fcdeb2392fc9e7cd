//! Debian's target (`tgt`), with one target and its logical units, on ports of this machine.
//!
//! Invariant: it ends with the test.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::command::{run_with, wait_until};
use crate::ports::free_address;
use crate::scene::Scene;

/// The name of its target.
pub const TARGET: &str = "iqn.2025-01.org.example:peer";

/// A running target.
pub struct Tgt {
    child: Child,
    socket: String,
    addresses: Vec<SocketAddr>,
    luns: u32,
}

impl Tgt {
    /// Starts one that listens at `portals` ports.
    pub fn start(scene: &Scene, portals: usize) -> Self {
        Self::start_in(scene, "tgt", portals)
    }

    /// Starts one whose files in `scene` begin with `name`.
    pub fn start_in(scene: &Scene, name: &str, portals: usize) -> Self {
        let socket = scene.path(&format!("{name}.socket"));
        let addresses: Vec<SocketAddr> = (0..portals).map(|_| free_address()).collect();
        let log = File::create(scene.path(&format!("{name}.log"))).expect("a log can be written");
        let errors = log.try_clone().expect("a file can be shared");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "tgtd", "--foreground", "--iscsi", &format!("portal={}", addresses[0])]);
        command.env("TGT_IPC_SOCKET", &socket).stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command.spawn().expect("setpriv of util-linux can be run");
        let mut tgt = Self { child, socket, addresses, luns: 0 };
        wait_until("tgt answers", 20, || {
            assert!(tgt.child.try_wait().is_ok_and(|status| status.is_none()), "tgtd ended at its start");
            run_with("tgtadm", &["--op", "show", "--mode", "sys"], |command| {
                command.env("TGT_IPC_SOCKET", &tgt.socket);
            })
            .success()
        });
        for address in &tgt.addresses[1..] {
            tgt.admin("--op new --mode portal --param", &[&format!("portal={address}")]);
        }
        tgt.admin("--op new --mode target --tid 1 --targetname", &[TARGET]);
        tgt.admin("--op bind --mode target --tid 1 --initiator-address ALL", &[]);
        tgt
    }

    /// Adds a logical unit over the file or device `path`; `options` such as `--bstype aio`.
    #[track_caller]
    pub fn add(&mut self, path: &str, options: &[&str]) -> u16 {
        self.luns += 1;
        let lun = self.luns.to_string();
        let fixed = "--op new --mode logicalunit --tid 1 --lun";
        self.admin(fixed, &[&[lun.as_str(), "--backing-store", path], options].concat());
        self.luns as u16
    }

    /// Has initiators prove that they are `user`; with `outgoing` it proves that to them.
    #[track_caller]
    pub fn account(&self, user: &str, secret: &str, outgoing: bool) {
        self.admin("--op new --mode account --user", &[user, "--password", secret]);
        let outgoing: &[&str] = if outgoing { &["--outgoing"] } else { &[] };
        self.admin("--op bind --mode account --tid 1 --user", &[&[user], outgoing].concat());
    }

    /// Runs `tgtadm --lld iscsi`.
    #[track_caller]
    pub fn admin(&self, words: &str, more: &[&str]) -> String {
        let words: Vec<&str> =
            ["--lld", "iscsi"].into_iter().chain(words.split(' ')).chain(more.iter().copied()).collect();
        run_with("tgtadm", &words, |command| {
            command.env("TGT_IPC_SOCKET", &self.socket);
        })
        .succeeded()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Everywhere that it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Tgt {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
