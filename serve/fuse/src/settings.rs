//! How a volume is mounted: limits and habits.
//!
//! Memory that a mount takes is at most, for each reactor, `requests` × 2 MiB of payloads that are being written, plus
//! what answers of the service hold; over io_uring for each processor `slots` × 1 MiB; and about 100 bytes for each
//! file that the kernel keeps.

use std::path::PathBuf;
use std::time::Duration;

/// Limits and habits of a mount.
#[derive(Clone, Debug)]
pub struct MountSettings {
    /// What is mounted, as `mount` shows it.
    pub source: String,
    /// Where names of block devices go, so that `sync` and `syncfs` reach the volume where the kernel passes them on: what is
    /// mounted then is a device of the name of the source in there.
    pub names: Option<PathBuf>,
    /// Nothing may be changed through the mount.
    pub read_only: bool,
    /// The directory may hold files, which the mount hides.
    pub over_files: bool,
    /// Set-user-id and set-group-id bits mean nothing on it.
    pub no_suid: bool,
    /// Device nodes on it open nothing.
    pub no_devices: bool,
    /// Requests under way on each reactor; then no more are taken.
    pub requests: u32,
    /// The kernel keeps writes and writes them back by itself: faster for many small ones, and lost with the machine
    /// until `fsync`, as on any local file system.
    pub writeback_cache: bool,
    /// The kernel drops what it keeps of a file whose times changed. Needed where files change by another way than the
    /// mount.
    pub invalidate_on_change: bool,
    /// Locks of programs are kept in the table of opens, where those of other protocols meet them. Otherwise the kernel
    /// keeps them, nobody else sees them, and closing a file asks nothing.
    pub shared_locks: bool,
    /// Programs are kept out of files that clients of other protocols opened for themselves (`EBUSY`). Otherwise they are
    /// let in, as they expect it.
    pub honours_denials: bool,
    /// Requests come over io_uring where the kernel has that and it is switched on.
    pub over_io_uring: bool,
    /// Requests under way over io_uring for each processor of the machine, each with 1 MiB of address space.
    pub slots: usize,
    /// For how long the kernel may keep names, also of files that are not there.
    pub entry_timeout: Duration,
    /// For how long it may keep attributes.
    pub attribute_timeout: Duration,
    /// The kernel's device.
    pub device: PathBuf,
}

impl Default for MountSettings {
    fn default() -> Self {
        // As long as the kernel is the only one that changes files, what it keeps is true.
        let long = Duration::from_secs(24 * 3600);
        Self {
            source: "holdfast".into(),
            names: None,
            read_only: false,
            over_files: false,
            no_suid: false,
            no_devices: false,
            requests: 128,
            writeback_cache: false,
            invalidate_on_change: false,
            shared_locks: true,
            honours_denials: false,
            over_io_uring: true,
            slots: 32,
            entry_timeout: long,
            attribute_timeout: long,
            device: "/dev/fuse".into(),
        }
    }
}
