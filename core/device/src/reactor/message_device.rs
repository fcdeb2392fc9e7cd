//! Descriptors that hand out one message a read and take one a write, such as `/dev/fuse`.
//!
//! As with sockets, every call goes to the kernel at once and nonblocking, and a task waits only when nothing is there.
//! A message may be read into several buffers, so that a payload behind a header of known length lands aligned.
//!
//! Invariant: a message is read whole or not at all, and dropping a future of this module loses none.

use std::fs::{File, OpenOptions};
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::net::{attempt, poll_call};
use super::waits::Readiness;

/// `FUSE_DEV_IOC_CLONE` of `linux/fuse.h`: `_IOR(229, 0, uint32_t)`.
const FUSE_CLONE: u32 = 2 << 30 | 4 << 16 | 229 << 8;

/// Opens a character device for reading and writing, nonblocking.
///
/// # Errors
/// When it is not there, or may not be opened.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)?.into())
}

/// Opens `/dev/fuse` at `path` once more, for the connection that `session` is of: requests go to whoever reads first,
/// and are answered where they were read.
///
/// # Errors
/// When the device cannot be opened, or `session` is not of a mount.
pub fn open_fuse_clone(path: &Path, session: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let clone = open(path)?;
    let number = session.as_raw_fd() as u32;
    // SAFETY: the call reads one integer, which is of this frame.
    let outcome = unsafe { libc::ioctl(clone.as_raw_fd(), FUSE_CLONE as _, &raw const number) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(clone) }
}

/// An open descriptor of messages. It belongs to the reactor that waits for it first.
#[derive(Debug)]
pub struct MessageDevice {
    // Dropped before the descriptor, as a poll in the ring would keep it open.
    readable: Readiness,
    file: File,
}

impl MessageDevice {
    /// Takes over a descriptor, which must be nonblocking.
    pub fn new(fd: OwnedFd) -> Self {
        Self { readable: Readiness::new(fd.as_raw_fd(), libc::POLLIN, false), file: fd.into() }
    }

    /// Reads one message into buffers in order, and answers its length. One task at a time.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        poll_fn(|cx| poll_call(&self.readable, cx, || (&self.file).read_vectored(bufs))).await
    }

    /// Writes one message of several parts, 1,024 at most, at once.
    ///
    /// # Errors
    /// Those of the device; `WouldBlock` when it has no room.
    pub fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        attempt(|| (&self.file).write_vectored(parts))
    }
}
