//! Limits, and how much of them is taken.
//!
//! Invariant: no count passes its limit: what is taken is given back by whoever took it, once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::Limit;

/// Bytes of a name that is to be deleted.
pub(crate) const MAX_LINK_BYTES: usize = 4096;

/// What a table may hold, and how long it waits. A file that is open takes about 0.6 KiB with its first open, each
/// further open and each lease 0.2 KiB, a locked range 0.2 KiB, and the first one of a file 1.5 KiB more.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Files that are open.
    pub files: usize,
    /// Opens in all.
    pub opens: usize,
    /// Opens of one file.
    pub opens_of_file: usize,
    /// Locked ranges in all.
    pub ranges: usize,
    /// Locked ranges of one open, or of one owner in a file.
    pub ranges_of_owner: usize,
    /// Leases in all. Where there are as many, more are not granted.
    pub leases: usize,
    /// Requests that wait at one file.
    pub waits_of_file: usize,
    /// How long a client may take to answer a break before it loses what it held (MS-SMB2 3.3.2.1).
    pub break_timeout: Duration,
    /// Where the numbers of opens begin: above all that an earlier table gave out, so that kept opens can be restored.
    pub first_open: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            files: 1 << 20,
            opens: 1 << 20,
            opens_of_file: 1 << 16,
            ranges: 1 << 20,
            ranges_of_owner: 4096,
            leases: 1 << 20,
            waits_of_file: 4096,
            break_timeout: Duration::from_secs(35),
            first_open: 0,
        }
    }
}

/// One count with a limit, apart from its neighbours in the caches of processors: all of them change all the time.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Budget {
    taken: AtomicUsize,
    most: usize,
    limit: Limit,
}

impl Budget {
    pub fn new(most: usize, limit: Limit) -> Self {
        Self { taken: AtomicUsize::new(0), most, limit }
    }

    pub fn take(&self, count: usize) -> Result<(), Limit> {
        let before = self.taken.fetch_add(count, Ordering::Relaxed);
        if before.saturating_add(count) <= self.most {
            return Ok(());
        }
        self.give(count);
        Err(self.limit)
    }

    pub fn give(&self, count: usize) {
        let before = self.taken.fetch_sub(count, Ordering::Relaxed);
        debug_assert!(before >= count, "{:?}: given back more than was taken", self.limit);
    }

    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// All that a table counts.
#[derive(Debug)]
pub(crate) struct Budgets {
    pub files: Budget,
    pub opens: Budget,
    pub ranges: Budget,
    pub leases: Budget,
}

impl Budgets {
    pub fn new(settings: &Settings) -> Self {
        Self {
            files: Budget::new(settings.files, Limit::Files),
            opens: Budget::new(settings.opens, Limit::Opens),
            ranges: Budget::new(settings.ranges, Limit::Ranges),
            leases: Budget::new(settings.leases, Limit::Leases),
        }
    }
}
