//! Mounts over io_uring, where the kernel offers them.
//!
//! Whether it does is a switch of the whole machine. It is on for as long as somebody here needs it; other mounts that
//! begin meanwhile use io_uring, too.
//!
//! Invariant: the switch is put back, however the run ends.

use std::fs;

use crate::janitor::Janitor;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The switch is on until this is dropped.
#[derive(Debug)]
pub struct OverRing {
    before: String,
}

impl OverRing {
    /// Switches it on. `None`: the kernel has no FUSE over io_uring (Linux 6.14), or this is not root.
    pub fn switch_on(janitor: &mut Janitor) -> Option<Self> {
        let before = fs::read_to_string(SWITCH).ok()?.trim().to_owned();
        janitor.later(&format!("echo '{before}' > {SWITCH}"));
        fs::write(SWITCH, "Y").ok()?;
        Some(Self { before })
    }
}

impl Drop for OverRing {
    fn drop(&mut self) {
        if let Err(error) = fs::write(SWITCH, &self.before) {
            eprintln!("{SWITCH} was not put back: {error}");
        }
    }
}
