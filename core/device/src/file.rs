//! Files and block devices of this machine as devices.
//!
//! ```text
//!   Direct    block devices, and files whose file system has O_DIRECT: io_uring, no page cache
//!   Buffered  other files: io_uring through the page cache
//!   Memory    files on tmpfs and ramfs: a plain system call, answered at once
//! ```
//!
//! How a file is accessed is found out when it is opened ([`FileDevice::mode`]). On tmpfs io_uring would hand each
//! request to a worker thread.
//!
//! A device serves every reactor: a request is done by the ring of the thread that makes it. A thread that runs no
//! reactor makes its requests by blocking system calls, and has its answer at once; tools that look at disks do that.
//!
//! Invariant: a file is opened for writing once. Block devices are claimed (`O_EXCL`), files are locked (`flock`), so
//! two pools, or two daemons, never write to the same disk.

mod access;
mod blocking;
mod disk_queue;
mod helper;
mod probe;
mod started;
mod sysfs;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use access::AccessMode;
use access::Opened;
use disk_queue::DiskQueue;
pub use probe::{Probe, create, list_block_devices, probe};
use started::Answer;
pub use started::Started;
pub use sysfs::EnclosureSlot;

use crate::reactor::{Action, Owner, with_core};
use crate::{Device, Durability, Geometry, Io, IoBuf, IoError, IoErrorKind, IoSlice};

/// Offsets and lengths are multiples of this.
const BLOCK_BYTES: u64 = 4096;
const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// How a file or block device is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Refuse writes and discards; the disk may be in use by somebody else then.
    pub read_only: bool,
    /// Requests in flight at once, at most, over all reactors; more wait in order.
    pub queue_depth: usize,
    /// Go through the page cache and io_uring wherever the file lies.
    pub force_buffered: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { read_only: false, queue_depth: 256, force_buffered: false }
    }
}

/// What was asked of a device since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounters {
    /// Finished reads.
    pub reads: u64,
    /// Bytes that they brought.
    pub read_bytes: u64,
    /// Finished writes.
    pub writes: u64,
    /// Bytes that they took.
    pub written_bytes: u64,
    /// Finished flushes.
    pub flushes: u64,
    /// Finished discards.
    pub discards: u64,
    /// Requests that failed in the kernel.
    pub errors: u64,
}

/// A file or block device.
#[derive(Debug)]
pub struct FileDevice {
    inner: Arc<Inner>,
}

#[derive(Default, Debug)]
struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
    errors: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    file: File,
    path: PathBuf,
    mode: AccessMode,
    read_only: bool,
    is_block_device: bool,
    size_bytes: AtomicU64,
    logical_sector_bytes: u32,
    physical_sector_bytes: u32,
    rotational: bool,
    discard: AtomicBool,
    queue: DiskQueue,
    counters: Counters,
}

impl FileDevice {
    /// Opens a regular file or a block device. Its size is rounded down to whole 4 KiB.
    ///
    /// # Errors
    /// When it does not exist or is neither, is smaller than 4 KiB, may not be used, or is in use for writing already
    /// (`ResourceBusy`, after a tenth of a second in which it was tried again).
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> io::Result<Arc<Self>> {
        let path = path.as_ref();
        let Opened { file, mode, is_block_device, size_bytes, traits } =
            access::open(path, options.read_only, options.force_buffered)?;
        let size_bytes = size_bytes & !(BLOCK_BYTES - 1);
        if size_bytes == 0 {
            let text = format!("{} is smaller than 4 KiB and holds no block", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let inner = Inner {
            file,
            path: path.into(),
            mode,
            read_only: options.read_only,
            is_block_device,
            size_bytes: AtomicU64::new(size_bytes),
            logical_sector_bytes: traits.logical_sector_bytes,
            physical_sector_bytes: traits.physical_sector_bytes,
            rotational: traits.rotational.unwrap_or(false),
            discard: AtomicBool::new(traits.discard),
            queue: DiskQueue::new(options.queue_depth),
            counters: Counters::default(),
        };
        Ok(Arc::new(Self { inner: Arc::new(inner) }))
    }

    /// How it is accessed.
    pub fn mode(&self) -> AccessMode {
        self.inner.mode
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// What was asked of it so far.
    pub fn counters(&self) -> FileCounters {
        let counters = &self.inner.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FileCounters {
            reads: get(&counters.reads),
            read_bytes: get(&counters.read_bytes),
            writes: get(&counters.writes),
            written_bytes: get(&counters.written_bytes),
            flushes: get(&counters.flushes),
            discards: get(&counters.discards),
            errors: get(&counters.errors),
        }
    }

    /// Whether the disk is still what was opened: not deleted, not cut short, and not replaced at its path. A disk that
    /// grew shows its new size from now on. Makes a few system calls; meant to be asked every second or so.
    pub fn still_there(&self) -> bool {
        let inner = &self.inner;
        let (Ok(open), Ok(named)) = (inner.file.metadata(), std::fs::metadata(&inner.path)) else { return false };
        let same = if inner.is_block_device {
            named.file_type().is_block_device() && named.rdev() == open.rdev()
        } else {
            open.nlink() > 0 && named.dev() == open.dev() && named.ino() == open.ino()
        };
        let Ok(size) = access::size_of(&inner.file, &open) else { return false };
        let size = size & !(BLOCK_BYTES - 1);
        let known = inner.size_bytes.load(Ordering::Relaxed);
        if same && size > known {
            inner.size_bytes.store(size, Ordering::Relaxed);
        }
        same && size >= known
    }
}

impl Inner {
    fn describe(&self, what: &str, offset: u64, len: u64) -> String {
        format!("{what} of {len} bytes at {offset} of {}", self.path.display())
    }

    fn check(&self, what: &str, offset: u64, len: u64) -> Result<(), IoError> {
        let size = self.size_bytes.load(Ordering::Relaxed);
        if (offset | len) & (BLOCK_BYTES - 1) != 0 {
            return Err(IoError::invalid(format!("{}, which is not in whole 4 KiB", self.describe(what, offset, len))));
        }
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(IoError::invalid(format!("{}, which has {size} bytes", self.describe(what, offset, len))));
        }
        Ok(())
    }

    fn check_change(&self, what: &str, offset: u64, len: u64) -> Result<(), IoError> {
        self.check(what, offset, len)?;
        if self.read_only {
            return Err(IoError::new(IoErrorKind::ReadOnly, self.describe(what, offset, len)));
        }
        Ok(())
    }

    /// An error number of the kernel, as callers act on it.
    fn error(&self, what: &str, offset: u64, len: u64, number: i32) -> IoError {
        let kind = match number {
            libc::ENOSPC | libc::EDQUOT => IoErrorKind::NoSpace,
            libc::ENODEV | libc::ENXIO | libc::EBADF | libc::ENOENT | libc::ESTALE | libc::ENOMEDIUM => {
                IoErrorKind::Gone
            }
            libc::EROFS | libc::EPERM | libc::EACCES => IoErrorKind::ReadOnly,
            libc::EINVAL | libc::EFBIG | libc::EOPNOTSUPP => IoErrorKind::Invalid,
            _ => IoErrorKind::Media,
        };
        let cause = if number == blocking::ENDS_EARLY {
            "the file ends before".into()
        } else {
            io::Error::from_raw_os_error(number).to_string()
        };
        IoError::new(kind, format!("{}: {cause}", self.describe(what, offset, len)))
    }

    /// Counts what has left the kernel.
    fn note(&self, action: &Action, outcome: Result<(), i32>) {
        let counters = &self.counters;
        let add = |counter: &AtomicU64, more: u64| counter.fetch_add(more, Ordering::Relaxed);
        if outcome.is_err() {
            add(&counters.errors, 1);
            return;
        }
        match action {
            Action::Read(buf) => {
                add(&counters.reads, 1);
                add(&counters.read_bytes, buf.len() as u64);
            }
            Action::Write(data, _) => {
                add(&counters.writes, 1);
                add(&counters.written_bytes, data.len() as u64);
            }
            Action::Sync => {
                add(&counters.flushes, 1);
            }
            Action::Allocate(..) => {
                add(&counters.discards, 1);
            }
        }
    }

    /// Does `action` by this thread's ring, or now where that is better or where there is no ring.
    fn perform<T>(self: &Arc<Self>, range: (u64, u64), action: Action, answer: Answer<T>) -> Io<T> {
        let (offset, _) = range;
        let mut action = Some(action);
        if self.mode != AccessMode::Memory {
            let started = with_core(|core| {
                let action = action.take().expect("done once");
                let enter = self.queue.enter();
                let operation = core.start_operation(self.clone(), offset, action, !enter);
                if !enter && self.queue.wait(core.shared(), operation.key()) {
                    core.submit_operation(operation.key());
                }
                operation
            });
            if let Some(operation) = started {
                return Io::Started(Started::new(operation, self.clone(), range, answer));
            }
        }
        let mut action = action.expect("not started yet");
        let outcome = blocking::perform(&self.file, offset, &mut action);
        self.note(&action, outcome);
        Io::ready(answer(self, range, action, outcome))
    }
}

impl Owner for Inner {
    fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    fn count(&self, action: &Action, outcome: Result<(), i32>) {
        self.note(action, outcome);
    }

    fn finished(&self) {
        self.queue.leave();
    }
}

impl Device for FileDevice {
    fn geometry(&self) -> Geometry {
        let inner = &self.inner;
        Geometry {
            size_bytes: inner.size_bytes.load(Ordering::Relaxed),
            logical_sector_bytes: inner.logical_sector_bytes,
            physical_sector_bytes: inner.physical_sector_bytes,
            rotational: inner.rotational,
            discard: inner.discard.load(Ordering::Relaxed),
        }
    }

    fn read(&self, offset: u64, mut buf: IoBuf) -> Io<IoBuf> {
        let inner = &self.inner;
        let len = buf.len() as u64;
        if let Err(error) = inner.check("read", offset, len) {
            return Io::ready(Err(error));
        }
        if len == 0 {
            return Io::ready(Ok(buf));
        }
        if inner.mode == AccessMode::Direct && !is_aligned(&buf) {
            let aligned = self.read(offset, IoBuf::new(buf.len()));
            return Io::pending(async move {
                buf.copy_from_slice(&aligned.await?);
                Ok(buf)
            });
        }
        inner.perform((offset, len), Action::Read(buf), |inner, (offset, len), action, outcome| {
            match (action, outcome) {
                (Action::Read(buf), Ok(())) => Ok(buf),
                (_, outcome) => Err(inner.error("read", offset, len, outcome.err().unwrap_or(libc::EIO))),
            }
        })
    }

    fn write(&self, offset: u64, mut data: IoSlice, durability: Durability) -> Io<()> {
        let inner = &self.inner;
        let len = data.len() as u64;
        if let Err(error) = inner.check_change("write", offset, len) {
            return Io::ready(Err(error));
        }
        if len == 0 {
            return if durability == Durability::Durable { self.flush() } else { Io::ready(Ok(())) };
        }
        if inner.mode == AccessMode::Direct && !is_aligned(&data) {
            data = IoSlice::padded(&data);
        }
        let flags = if durability == Durability::Durable { libc::RWF_DSYNC } else { 0 };
        inner.perform((offset, len), Action::Write(data, flags), |inner, (offset, len), _, outcome| {
            outcome.map_err(|number| inner.error("write", offset, len, number))
        })
    }

    fn flush(&self) -> Io<()> {
        let inner = &self.inner;
        if inner.mode == AccessMode::Memory || inner.read_only {
            inner.note(&Action::Sync, Ok(()));
            return Io::ready(Ok(()));
        }
        let whole = (0, inner.size_bytes.load(Ordering::Relaxed));
        inner.perform(whole, Action::Sync, |inner, (offset, len), _, outcome| {
            outcome.map_err(|number| inner.error("flush", offset, len, number))
        })
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        let inner = &self.inner;
        if let Err(error) = inner.check_change("discard", offset, len) {
            return Io::ready(Err(error));
        }
        if len == 0 || !inner.discard.load(Ordering::Relaxed) {
            return Io::ready(Ok(()));
        }
        if !inner.is_block_device {
            return inner.perform((offset, len), Action::Allocate(PUNCH_HOLE, len), |inner, range, _, outcome| {
                discarded(inner, range, outcome)
            });
        }
        let worker = inner.clone();
        let discarding = move || {
            let outcome = blocking::discard_blocks(&worker.file, offset, len);
            worker.note(&Action::Allocate(PUNCH_HOLE, len), outcome);
            discarded(&worker, (offset, len), outcome)
        };
        if with_core(|_| ()).is_none() {
            return Io::ready(discarding());
        }
        let answer = helper::run(discarding);
        let path = inner.path.display().to_string();
        Io::pending(async move {
            answer
                .await
                .unwrap_or_else(|| Err(IoError::new(IoErrorKind::Media, format!("discard on {path} was not run"))))
        })
    }
}

fn is_aligned(bytes: &[u8]) -> bool {
    (bytes.as_ptr() as u64).is_multiple_of(BLOCK_BYTES)
}

/// A disk that cannot discard says so once, and is not asked again: a discard is a hint.
fn discarded(inner: &Inner, (offset, len): (u64, u64), outcome: Result<(), i32>) -> Result<(), IoError> {
    match outcome {
        Err(libc::EOPNOTSUPP) => {
            inner.discard.store(false, Ordering::Relaxed);
            Ok(())
        }
        Err(number) => Err(inner.error("discard", offset, len, number)),
        Ok(()) => Ok(()),
    }
}
