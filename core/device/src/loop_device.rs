//! A block device that stands for an open file, by the kernel's loop driver.
//!
//! Invariant: the device is let go of with its last user, of whatever process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

/// Of `linux/loop.h`.
const LOOP_CTL_GET_FREE: u32 = 0x4c82;
const LOOP_CONFIGURE: u32 = 0x4c0a;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// How often a device is asked for that somebody else took first.
const TRIES: u32 = 16;

/// `struct loop_config`, with the `struct loop_info64` within it.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    /// Device, inode, number of the device, offset, limit.
    places: [u64; 5],
    /// Number, kind of encryption, size of its key.
    numbers: [u32; 3],
    flags: u32,
    names: [u8; 160],
    init: [u64; 2],
    reserved: [u64; 8],
}

/// A loop device. It stays as long as this, or anybody who opened or mounted it.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    _open: File,
}

impl LoopDevice {
    /// Makes a file a block device.
    ///
    /// # Errors
    /// There is no loop driver, or this process may not use it.
    pub fn attach(backing: impl AsFd) -> io::Result<Self> {
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
        let fd = backing.as_fd().as_raw_fd() as u32;
        let mut refused = io::Error::from(io::ErrorKind::ResourceBusy);
        for _ in 0..TRIES {
            // SAFETY: the call takes no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let open = OpenOptions::new().read(true).write(true).open(&path)?;
            let config = Config {
                fd,
                block_size: 0,
                places: [0; 5],
                numbers: [0; 3],
                flags: LO_FLAGS_AUTOCLEAR,
                names: [0; 160],
                init: [0; 2],
                reserved: [0; 8],
            };
            // SAFETY: the call reads a structure of the kernel's layout, which is of this frame.
            if unsafe { libc::ioctl(open.as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) } == 0 {
                return Ok(Self { path, _open: open });
            }
            refused = io::Error::last_os_error();
            if refused.raw_os_error() != Some(libc::EBUSY) {
                break;
            }
        }
        Err(refused)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_the_kernels() {
        assert_eq!(size_of::<Config>(), 304);
        assert_eq!(std::mem::offset_of!(Config, flags), 8 + 40 + 12);
    }
}
