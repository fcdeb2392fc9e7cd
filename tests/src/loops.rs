//! Disks as users have them, for benchmarks: loop devices that pass the page cache by, over files in memory.
//!
//! Invariant: a device that was attached is detached however the run ends, once whoever holds it lets go.

use std::path::Path;

use crate::command::run;
use crate::janitor::Janitor;
use crate::scene::Scene;

/// What `program` printed, or the last line of why it failed.
///
/// # Errors
/// If it failed.
pub fn tried(program: &str, arguments: &[&str]) -> Result<String, String> {
    let finished = run(program, arguments);
    if finished.success() {
        return Ok(finished.printed());
    }
    let complaint = finished.complaint();
    let last = complaint.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
    Err(format!("{program} fails: {}", last.trim()))
}

/// Attaches loop devices of `bytes` over new files in a folder of `scene` that is named after their user.
///
/// # Errors
/// In words, if this machine gives none, or none with direct I/O.
pub fn attach(
    scene: &Scene,
    janitor: &mut Janitor,
    user: &str,
    count: usize,
    bytes: u64,
) -> Result<Vec<String>, String> {
    let folder = scene.folder(&format!("{user}-disks"));
    (0..count).map(|number| attach_one(janitor, &format!("{folder}/disk{number}"), bytes)).collect()
}

fn attach_one(janitor: &mut Janitor, file: &str, bytes: u64) -> Result<String, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root may attach loop devices".into());
    }
    let made = std::fs::File::create(file).and_then(|file| file.set_len(bytes));
    made.map_err(|error| format!("{file} cannot be made: {error}"))?;
    janitor.later(&format!(
        "for loop in $(losetup --noheadings --output NAME --associated '{file}'); do \
         losetup --detach $loop; btrfs device scan --forget $loop; done"
    ));
    let device = tried("losetup", &["--find", "--show", "--direct-io=on", file])?.trim().to_owned();
    let name = device.rsplit('/').next().unwrap_or_default();
    let direct = std::fs::read_to_string(format!("/sys/block/{name}/loop/dio")).unwrap_or_default();
    if direct.trim() == "1" { Ok(device) } else { Err(format!("{file} lies where there is no direct I/O")) }
}

/// Detaches a device that nobody holds. Its memory is free again.
///
/// # Errors
/// If it could not be detached.
pub fn detach(device: &str) -> Result<(), String> {
    let file = tried("losetup", &["--noheadings", "--output", "BACK-FILE", device])?;
    tried("losetup", &["--detach", device])?;
    std::fs::remove_file(Path::new(file.trim())).map_err(|error| format!("{} cannot be removed: {error}", file.trim()))
}
