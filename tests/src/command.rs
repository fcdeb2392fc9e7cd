//! Programs that run to their end. Each has a time limit, and says all that it printed when it does not do as it
//! should.

use std::fmt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use holdfast_harness::{LIMIT, Wait};

/// Seconds that a program may take.
pub const LIMIT_SECONDS: u64 = 180;

/// A program that ran.
pub struct Finished {
    line: String,
    output: Output,
}

/// Runs `program` with `arguments` to its end.
pub fn run(program: &str, arguments: &[&str]) -> Finished {
    run_with(program, arguments, |_| ())
}

/// Runs `program` after `prepare` set it up.
pub fn run_with(program: &str, arguments: &[&str], prepare: impl FnOnce(&mut Command)) -> Finished {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", &LIMIT_SECONDS.to_string(), program]).args(arguments).stdin(Stdio::null());
    prepare(&mut command);
    let line = format!("{program} {}", arguments.join(" "));
    let output = command.output().unwrap_or_else(|error| panic!("{line}: timeout of coreutils cannot be run: {error}"));
    match output.status.code() {
        Some(124 | 137) => panic!("not over within {LIMIT_SECONDS} s: {}", Finished { line, output }),
        Some(127) => panic!("{program} is not installed: run scripts/packages.sh as root"),
        _ => Finished { line, output },
    }
}

impl Finished {
    /// What it printed, if it succeeded.
    ///
    /// # Panics
    /// If it failed.
    #[track_caller]
    pub fn succeeded(self) -> String {
        assert!(self.output.status.success(), "failed: {self}");
        self.printed()
    }

    /// What it printed as an error, if it failed.
    ///
    /// # Panics
    /// If it succeeded, or died of a signal.
    #[track_caller]
    pub fn refused(self) -> String {
        assert!(self.output.status.code().is_some_and(|code| code != 0 && code != 101), "not refused: {self}");
        self.complaint()
    }

    /// Whether it succeeded.
    pub fn success(&self) -> bool {
        self.output.status.success()
    }

    /// What it printed.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// What it printed as an error.
    pub fn complaint(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\n{}{}", self.line, self.output.status, self.printed(), self.complaint())
    }
}

/// Waits until `condition` holds: for `seconds`, or the limit of all tests if that is longer.
///
/// # Panics
/// If it does not.
#[track_caller]
pub fn wait_until(what: &str, seconds: u64, mut condition: impl FnMut() -> bool) {
    let mut wait = Wait::within(LIMIT.max(Duration::from_secs(seconds)));
    while !condition() {
        std::thread::sleep(wait.pause(|| what));
    }
}
