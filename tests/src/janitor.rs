//! Takes away what outlives a process: mounts, loop devices, and folders of memory.
//!
//! Invariant: it is a process of its own, in a session of its own, that is told in advance what to do, and does it when its
//! input ends: so it works also when the run panics, is interrupted or is killed.

use std::io::Write;
use std::process::{Child, Command, Stdio};

/// Lines of shell that are run at the end, the last one first.
const SCRIPT: &str = r#"
trap "" INT TERM HUP PIPE
todo=
while IFS= read -r line; do
    todo="$line
$todo"
done
eval "$todo"
"#;

/// A process that cleans up.
pub struct Janitor {
    child: Child,
}

impl Janitor {
    /// One that has nothing to do yet.
    pub fn new() -> Self {
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().expect("setsid of util-linux can be run") }
    }

    /// Has `line` of shell run at the end, before all that was asked for earlier.
    pub fn later(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("its input is open until the end");
        writeln!(input, "{line}").expect("the janitor listens");
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
