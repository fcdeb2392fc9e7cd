//! A block device for a mount, without data: the kernel passes `sync` and `syncfs` on for mounts of block devices only, from
//! Linux 6.18 on.
//!
//! Its name is what `mount` shows as the source of the mount.
//!
//! Invariant: the name goes when the mount is given up.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use holdfast_device::loop_device::LoopDevice;
use rustix::fs::MemfdFlags;

/// The first kernel that passes them on.
const SYNCS_FROM: (u32, u32) = (6, 18);
/// Bytes of the device.
const DEVICE_BYTES: u64 = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct NamedDevice {
    name: PathBuf,
    /// Where the name leads.
    target: PathBuf,
    /// Until the kernel has mounted it.
    device: Option<LoopDevice>,
}

/// Whether the kernel that runs passes `sync` on.
fn kernel_syncs() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_str().unwrap_or_default();
    let mut numbers = release.split(|one: char| !one.is_ascii_digit()).map(|digits| digits.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= SYNCS_FROM
}

impl NamedDevice {
    /// A device of a name below a directory; `None` where the kernel makes no use of it.
    ///
    /// # Errors
    /// There is no loop driver, or the name cannot be given.
    pub(crate) fn new(directory: &Path, source: &str) -> io::Result<Option<Self>> {
        if !kernel_syncs() {
            return Ok(None);
        }
        let backing: File = rustix::fs::memfd_create("holdfast mount", MemfdFlags::CLOEXEC)?.into();
        backing.set_len(DEVICE_BYTES)?;
        let device = LoopDevice::attach(&backing)?;
        let name = directory.join(source.trim_start_matches('/'));
        if let Some(parent) = name.parent() {
            fs::create_dir_all(parent)?;
        }
        // One of a server that died may be there.
        match fs::symlink_metadata(&name) {
            Ok(facts) if facts.is_symlink() => fs::remove_file(&name)?,
            Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => {}
        }
        let target = device.path().to_owned();
        std::os::unix::fs::symlink(&target, &name)?;
        Ok(Some(Self { name, target, device: Some(device) }))
    }

    /// What is mounted.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// The kernel has mounted it: it goes with the mount.
    pub(crate) fn let_go(&mut self) {
        self.device = None;
    }
}

impl Drop for NamedDevice {
    fn drop(&mut self) {
        // Another server may have given the name to a device of its own.
        if fs::read_link(&self.name).is_ok_and(|target| target == self.target) {
            let _ = fs::remove_file(&self.name);
        }
        // That of a pool goes with the name of its last volume.
        if let Some(parent) = self.name.parent() {
            let _ = fs::remove_dir(parent);
        }
    }
}
