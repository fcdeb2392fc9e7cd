//! btrfs with parity on eight loop devices over files of memory: the peer of parity spaces.
//!
//! It has every advantage that can be given to it: no network between client and storage, no copy on write and no checksums
//! for the data, direct I/O, and for each profile the faster of fio's two engines.

use holdfast_tests::command::run;
use holdfast_tests::scene::Scene;

use crate::janitor::Janitor;
use crate::profiles::Profile;
use crate::settings::Settings;
use crate::spaces::{DISK_BYTES, DISKS};

/// A mounted file system with one file.
pub struct Btrfs {
    file: String,
}

fn tried(program: &str, arguments: &[&str]) -> Result<String, String> {
    let finished = run(program, arguments);
    if finished.success() {
        return Ok(finished.printed());
    }
    let complaint = finished.complaint();
    let last = complaint.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
    Err(format!("{program} fails: {}", last.trim()))
}

fn demand(program: &str) -> Result<(), String> {
    let found = run("sh", &["-c", &format!("command -v {program}")]).success();
    if found { Ok(()) } else { Err(format!("{program} is not installed: run scripts/packages.sh as root")) }
}

/// Attaches a new file of memory.
fn disk(janitor: &mut Janitor, file: &str) -> Result<String, String> {
    let made = std::fs::File::create(file).and_then(|file| file.set_len(DISK_BYTES));
    made.map_err(|error| format!("{file} cannot be made: {error}"))?;
    janitor.later(&format!(
        "for loop in $(losetup --noheadings --output NAME --associated '{file}'); do \
         losetup --detach $loop; btrfs device scan --forget $loop; done"
    ));
    Ok(tried("losetup", &["--find", "--show", file])?.trim().to_owned())
}

impl Btrfs {
    /// Makes and mounts the file system `name`.
    ///
    /// # Errors
    /// If this machine cannot have it.
    pub fn start(scene: &Scene, janitor: &mut Janitor, name: &str, settings: &Settings) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root may attach loop devices and mount file systems".into());
        }
        ["mkfs.btrfs", "losetup", "chattr"].into_iter().try_for_each(demand)?;
        let (data, metadata) = if name == "btrfs-raid5" { ("raid5", "raid1") } else { ("raid6", "raid1c3") };
        let (folder, mount) = (scene.folder(&format!("{name}-disks")), scene.folder(&format!("{name}-mount")));
        let loops = (0..DISKS).map(|number| disk(janitor, &format!("{folder}/disk{number}")));
        let loops = loops.collect::<Result<Vec<_>, _>>()?;
        let loops: Vec<&str> = loops.iter().map(String::as_str).collect();
        tried("mkfs.btrfs", &[&["-q", "-f", "-d", data, "-m", metadata], &loops[..]].concat())?;
        tried("btrfs", &[&["device", "scan"], &loops[..]].concat())?;
        // A turn of fio that still runs ends soon.
        janitor.later(&format!(
            "for try in $(seq 50); do umount '{mount}' && break; mountpoint -q '{mount}' || break; sleep 0.2; done; \
             mountpoint -q '{mount}' && umount --lazy '{mount}'"
        ));
        tried("mount", &["-t", "btrfs", "-o", "nodatacow,noatime", loops[0], &mount])?;
        let file = format!("{mount}/file");
        std::fs::File::create(&file).map_err(|error| format!("{file} cannot be made: {error}"))?;
        tried("chattr", &["+C", &file])?;
        std::fs::OpenOptions::new()
            .write(true)
            .open(&file)
            .and_then(|open| open.set_len(settings.size_bytes))
            .map_err(|error| format!("{file} cannot be grown: {error}"))?;
        Ok(Self { file })
    }

    /// Copies `image` into its file.
    pub fn fill(&self, image: &str) -> String {
        let (from, into) = (format!("if={image}"), format!("of={}", self.file));
        run("dd", &[&from, &into, "bs=4M", "oflag=direct", "conv=notrunc,fsync", "status=none"]).succeeded()
    }

    /// Arguments of fio that reach it.
    pub fn fio_line(&self, profile: &Profile) -> Vec<String> {
        let engine = if profile.key == "restore" { "libaio" } else { "io_uring" };
        let fixed = ["--name=job", "--direct=1", "--thread=1", "--group_reporting=1"].map(str::to_owned);
        let mut arguments = Vec::from(fixed);
        arguments.extend([format!("--ioengine={engine}"), format!("--filename={}", self.file)]);
        arguments
    }
}
