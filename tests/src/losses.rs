//! Disks that are pulled and put back: files of file disks that are moved away.

use crate::command::wait_until;
use crate::daemon::Daemon;

/// Seconds until the pool knows that a disk is gone.
const NOTICE_SECONDS: u64 = 20;
/// Seconds until a disk that came back is in step.
const STEP_SECONDS: u64 = 60;

/// Where a disk is that was moved away.
pub fn away(disk: &str) -> String {
    format!("{disk}.away")
}

/// Moves a disk away, whoever notices.
#[track_caller]
pub fn take(disk: &str) {
    std::fs::rename(disk, away(disk)).expect("a disk can be moved away");
}

/// Moves a disk back, whoever notices.
#[track_caller]
pub fn give(disk: &str) {
    std::fs::rename(away(disk), disk).expect("a disk can be moved back");
}

/// Disks of `pool` that are not in service.
pub fn missing(daemon: &Daemon, pool: &str) -> usize {
    let pool = daemon.json(&["pool", "show", pool]);
    pool["disks"].as_array().map_or(0, |disks| disks.iter().filter(|disk| disk["state"] != "online").count())
}

/// Waits until `count` disks of `pool` are out of service.
#[track_caller]
pub fn wait_missing(daemon: &Daemon, pool: &str, count: usize) {
    wait_until("the pool misses its disks", NOTICE_SECONDS, || {
        missing(daemon, pool) == count && daemon.json(&["pool", "show", pool])["state"] == "degraded"
    });
}

/// Moves a disk of `pool` away, and waits until it is out of service.
#[track_caller]
pub fn pull(daemon: &Daemon, pool: &str, disk: &str) {
    let before = missing(daemon, pool);
    take(disk);
    wait_missing(daemon, pool, before + 1);
}

/// Waits until `pool` has all its disks and its space `space` (`POOL/SPACE`) is in step.
#[track_caller]
pub fn wait_in_step(daemon: &Daemon, space: &str) {
    let pool = space.split('/').next().unwrap_or(space);
    wait_until("all is in step", STEP_SECONDS, || {
        let (pool, space) = (daemon.json(&["pool", "show", pool]), daemon.json(&["space", "show", space]));
        pool["state"] == "ok" && space["state"] == "ok" && space["stale_slabs"] == 0
    });
}

/// Moves disks back, and waits until `space` is in step.
#[track_caller]
pub fn put_back(daemon: &Daemon, space: &str, disks: &[&str]) {
    disks.iter().for_each(|disk| give(disk));
    wait_in_step(daemon, space);
}
