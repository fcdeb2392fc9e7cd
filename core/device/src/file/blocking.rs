//! Requests done by blocking system calls.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::reactor::Action;

/// Stands for a file that ends where content should be. The kernel itself reports bad sectors by this number too; both
/// mean that these blocks cannot be read.
pub(super) const ENDS_EARLY: i32 = libc::ENODATA;

/// `_IO(0x12, 119)` of `linux/fs.h`.
const BLKDISCARD: libc::c_ulong = 0x1277;

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Does `call` until it is not interrupted.
fn retry(mut call: impl FnMut() -> isize) -> Result<usize, i32> {
    loop {
        let result = call();
        if result >= 0 {
            return Ok(result as usize);
        }
        let error = last_error();
        if error != libc::EINTR {
            return Err(error);
        }
    }
}

/// Does all of `action` before it returns.
pub(super) fn perform(file: &File, offset: u64, action: &mut Action) -> Result<(), i32> {
    let fd = file.as_raw_fd();
    match action {
        Action::Read(buf) => {
            let mut done = 0;
            while done < buf.len() {
                let part = &mut buf[done..];
                let at = (offset + done as u64) as libc::off_t;
                // SAFETY: pointer and length are of a slice that is borrowed for the call.
                done += match retry(|| unsafe { libc::pread(fd, part.as_mut_ptr().cast(), part.len(), at) })? {
                    0 => return Err(ENDS_EARLY),
                    moved => moved,
                };
            }
            Ok(())
        }
        Action::Write(data, flags) => {
            let mut done = 0;
            while done < data.len() {
                let part = &data[done..];
                let vector = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
                let at = (offset + done as u64) as libc::off_t;
                // SAFETY: the vector names one slice that is borrowed for the call, which only reads it.
                done += match retry(|| unsafe { libc::pwritev2(fd, &raw const vector, 1, at, *flags) })? {
                    0 => return Err(libc::ENOSPC),
                    moved => moved,
                };
            }
            Ok(())
        }
        // SAFETY: a system call without pointers.
        Action::Sync => retry(|| unsafe { libc::fdatasync(fd) } as isize).map(drop),
        Action::Allocate(mode, len) => {
            let (at, len) = (offset as libc::off_t, *len as libc::off_t);
            // SAFETY: a system call without pointers.
            retry(|| unsafe { libc::fallocate(fd, *mode, at, len) } as isize).map(drop)
        }
    }
}

/// Discards a range of a block device.
pub(super) fn discard_blocks(file: &File, offset: u64, len: u64) -> Result<(), i32> {
    let range = [offset, len];
    // SAFETY: the call reads two 64-bit numbers, which live on this frame.
    retry(|| unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) } as isize).map(drop)
}
