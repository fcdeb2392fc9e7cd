//! A file of a FUSE mount, opened by its node, and what the kernel keeps of it written back.
//!
//! Both calls wait for the server of the mount: they are made on threads that serve none.
//!
//! Invariant: nothing is dropped of what the kernel keeps.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

/// `FILEID_INO64_GEN` of `linux/exportfs.h`: how FUSE names a file.
const NODE_AND_GENERATION: i32 = 0x81;
/// Bytes of such a name.
const NAME_BYTES: u32 = 12;

/// `struct file_handle` with room for a name.
#[repr(C)]
struct Name {
    bytes: u32,
    kind: i32,
    name: [u32; 3],
}

/// Opens the file of a node on the mount that a directory is on, for reading.
///
/// # Errors
/// When the kernel does not know the file, or the process may not open files by handles.
pub fn open(directory: BorrowedFd<'_>, node: u64, generation: u32) -> io::Result<File> {
    let name = [(node >> 32) as u32, node as u32, generation];
    let mut name = Name { bytes: NAME_BYTES, kind: NODE_AND_GENERATION, name };
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    // SAFETY: the name begins as a `file_handle`, and has as many bytes behind that as it says; it is of this frame.
    let opened = unsafe { libc::open_by_handle_at(directory.as_raw_fd(), (&raw mut name).cast(), flags) };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call gave a descriptor that is nobody else's.
    Ok(unsafe { File::from_raw_fd(opened) })
}

/// Has the kernel write back all that it keeps of a file, and waits for that.
///
/// # Errors
/// When some of it was not taken.
pub fn write_back(file: &File) -> io::Result<()> {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the call touches no memory of this process.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, all) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
