//! Opening a file or block device, and finding out how it is best accessed.
//!
//! Invariant: [`AccessMode::Direct`] is said only of a file on which a direct transfer of 4 KiB is known to work.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use super::sysfs::BlockDirectory;
use crate::IoBuf;

const TMPFS_MAGIC: libc::__fsword_t = 0x0102_1994;
const RAMFS_MAGIC: libc::__fsword_t = 0x8584_58f6;

const BUSY_PATIENCE: Duration = Duration::from_millis(100);

/// How requests reach the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// Past the page cache.
    Direct,
    /// Through the page cache.
    Buffered,
    /// The medium is the machine's memory.
    Memory,
}

impl std::fmt::Display for AccessMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Buffered => "buffered",
            Self::Memory => "memory",
        })
    }
}

/// What the medium is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traits {
    pub(super) logical_sector_bytes: u32,
    pub(super) physical_sector_bytes: u32,
    pub(super) rotational: Option<bool>,
    pub(super) discard: bool,
}

pub(super) struct Opened {
    pub(super) file: File,
    pub(super) mode: AccessMode,
    pub(super) is_block_device: bool,
    pub(super) size_bytes: u64,
    pub(super) traits: Traits,
}

/// Opens `path`; for writing only if nobody else does. A process that was killed may hold its disks for a moment
/// longer, until the kernel has ended its requests: a disk in use is tried again for [`BUSY_PATIENCE`].
pub(super) fn open(path: &Path, read_only: bool, force_buffered: bool) -> io::Result<Opened> {
    let deadline = Instant::now() + BUSY_PATIENCE;
    loop {
        match open_now(path, read_only, force_buffered) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            outcome => return outcome,
        }
    }
}

fn open_now(path: &Path, read_only: bool, force_buffered: bool) -> io::Result<Opened> {
    let explain = |error: io::Error| io::Error::new(error.kind(), format!("cannot open {}: {error}", path.display()));
    let named = std::fs::metadata(path).map_err(explain)?;
    let is_block_device = named.file_type().is_block_device();
    if !is_block_device && !named.is_file() {
        let text = format!("cannot open {}: it is neither a regular file nor a block device", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let claim = if is_block_device && !read_only { libc::O_EXCL } else { 0 };
    let open_with = |flags: i32| OpenOptions::new().read(true).write(!read_only).custom_flags(flags).open(path);
    let direct = if force_buffered { None } else { open_with(libc::O_DIRECT | claim).ok() };
    let (file, takes_direct) = match direct {
        Some(file) => (file, true),
        None => (open_with(claim).map_err(|error| explain(busy(error)))?, false),
    };
    if !is_block_device && !read_only {
        lock(&file).map_err(explain)?;
    }
    let metadata = file.metadata().map_err(explain)?;
    let size_bytes = size_of(&file, &metadata).map_err(explain)?;
    let mode = if !is_block_device && is_memory(&file).map_err(explain)? && !force_buffered {
        AccessMode::Memory
    } else if takes_direct && transfers_directly(&file) {
        AccessMode::Direct
    } else {
        AccessMode::Buffered
    };
    let file = if takes_direct && mode != AccessMode::Direct { without_direct(file).map_err(explain)? } else { file };
    let traits = traits(&metadata, mode);
    Ok(Opened { file, mode, is_block_device, size_bytes, traits })
}

fn busy(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EBUSY) {
        return error;
    }
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "it is in use: mounted, part of another array, or open elsewhere; release it there first",
    )
}

fn lock(file: &File) -> io::Result<()> {
    // SAFETY: a system call without pointers.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.kind() != io::ErrorKind::WouldBlock {
        return Err(error);
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        "another program, or another pool, uses it; release it there first",
    ))
}

/// Direct access is switched off on the open file, so that its lock or claim is never let go.
fn without_direct(file: File) -> io::Result<File> {
    // SAFETY: system calls without pointers.
    let result = unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_DIRECT)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(file) }
}

pub(super) fn is_memory(file: &File) -> io::Result<bool> {
    // SAFETY: zeros are a valid value, and the pointer is to a value of this frame.
    let found = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        if libc::fstatfs(file.as_raw_fd(), &raw mut found) != 0 {
            return Err(io::Error::last_os_error());
        }
        found
    };
    Ok(matches!(found.f_type, TMPFS_MAGIC | RAMFS_MAGIC))
}

/// Asks the kernel how direct transfers must be aligned, and tries one where it does not say.
pub(super) fn transfers_directly(file: &File) -> bool {
    const STATX_DIOALIGN: u32 = 0x2000;
    // SAFETY: zeros are a valid value, the path is an empty string, and the pointer is to a value of this frame.
    let found = unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let result = libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, STATX_DIOALIGN, &raw mut found);
        (result == 0 && found.stx_mask & STATX_DIOALIGN != 0).then_some(found)
    };
    if let Some(found) = found {
        let aligns = 1..=4096;
        return aligns.contains(&found.stx_dio_mem_align) && aligns.contains(&found.stx_dio_offset_align);
    }
    let mut buf = IoBuf::new(4096);
    // SAFETY: pointer and length are of a buffer of this frame.
    unsafe { libc::pread(file.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), 0) >= 0 }
}

/// Size in bytes of an open file or block device.
pub(super) fn size_of(file: &File, metadata: &Metadata) -> io::Result<u64> {
    if !metadata.file_type().is_block_device() {
        return Ok(metadata.len());
    }
    // SAFETY: a system call without pointers.
    let end = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_END) };
    if end < 0 { Err(io::Error::last_os_error()) } else { Ok(end as u64) }
}

/// What the medium under an open file is like: the block device itself, or the one that the file system lies on.
pub(super) fn traits(metadata: &Metadata, mode: AccessMode) -> Traits {
    let is_block_device = metadata.file_type().is_block_device();
    if mode == AccessMode::Memory {
        return Traits {
            logical_sector_bytes: 4096,
            physical_sector_bytes: 4096,
            rotational: Some(false),
            discard: true,
        };
    }
    let device = if is_block_device { metadata.rdev() } else { metadata.dev() };
    let directory = BlockDirectory::of_number(device);
    let number = |name: &str| directory.as_ref().and_then(|directory| directory.queue(name)?.parse::<u64>().ok());
    let sector = |name: &str| number(name).and_then(|bytes| u32::try_from(bytes).ok()).filter(|bytes| *bytes >= 512);
    let logical_sector_bytes = sector("logical_block_size").unwrap_or(512);
    Traits {
        logical_sector_bytes,
        physical_sector_bytes: sector("physical_block_size").unwrap_or(logical_sector_bytes),
        rotational: number("rotational").map(|value| value != 0),
        discard: !is_block_device || number("discard_max_bytes").is_some_and(|bytes| bytes > 0),
    }
}
