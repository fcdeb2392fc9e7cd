//! Going ahead of other work on the machine: servers, client, and the kernel's threads that serve loop devices are
//! scheduled round robin in real time. Else a request waits milliseconds for its turn, whoever serves it.

use holdfast_tests::command::run;

const PRIORITY: &str = "10";

fn promote(pid: &str) {
    // A thread may have ended meanwhile.
    let _ = run("chrt", &["--all-tasks", "--rr", "--pid", PRIORITY, pid]);
}

/// Puts a server, and whatever threads the kernel has for disks now, ahead.
pub fn put(server: Option<u32>) {
    if let Some(pid) = server {
        promote(&pid.to_string());
    }
    let found = run("pgrep", &["^(kworker/u|ksoftirqd)"]).printed();
    found.lines().for_each(promote);
}

/// What a program is started with, to go ahead as well.
pub const STARTER: [&str; 3] = ["chrt", "--rr", PRIORITY];
