//! btrfs with parity on eight disks: the peer of parity spaces.
//!
//! It has every advantage that can be given to it: no network between client and storage, no copy on write and no
//! checksums for the data, direct I/O, and for each profile the faster of fio's two engines.

use holdfast_tests::command::run;
use holdfast_tests::fio::direct_line;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::loops::{attach, tried};
use holdfast_tests::scene::Scene;

use crate::profiles::Profile;
use crate::settings::Settings;
use crate::spaces::{DISK_BYTES, DISKS};

/// A mounted file system with one file.
pub struct Btrfs {
    file: String,
}

fn demand(program: &str) -> Result<(), String> {
    let found = run("sh", &["-c", &format!("command -v {program}")]).success();
    if found { Ok(()) } else { Err(format!("{program} is not installed: run scripts/packages.sh as root")) }
}

impl Btrfs {
    /// Makes and mounts the file system `name`.
    ///
    /// # Errors
    /// If this machine cannot have it.
    pub fn start(scene: &Scene, janitor: &mut Janitor, name: &str, settings: &Settings) -> Result<Self, String> {
        ["mkfs.btrfs", "losetup", "chattr"].into_iter().try_for_each(demand)?;
        let (data, metadata) = if name == "btrfs-raid5" { ("raid5", "raid1") } else { ("raid6", "raid1c3") };
        let mount = scene.folder(&format!("{name}-mount"));
        let loops = attach(scene, janitor, name, DISKS, DISK_BYTES)?;
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
        direct_line(engine, &self.file)
    }
}
