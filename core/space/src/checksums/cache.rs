//! How many pages of checksums a space holds in memory. Beyond the limit those that were not used lately go; those that
//! the disks do not have stay, and are written once they are half of what the limit allows.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::Checksums;

/// Memory of a page, about.
const PAGE_MEMORY_BYTES: usize = 2560;
/// Pages that are looked at for each one that comes.
const LOOKS: usize = 8;

/// The pages of all open rows of a space.
pub struct ChecksumCache {
    limit: usize,
    held: AtomicUsize,
    behind: AtomicUsize,
    line: Mutex<VecDeque<(Weak<Checksums>, usize, u32)>>,
}

impl ChecksumCache {
    /// One that takes so many bytes of memory.
    pub fn new(bytes: usize) -> Arc<Self> {
        let limit = (bytes / PAGE_MEMORY_BYTES).max(2);
        Arc::new(Self { limit, held: AtomicUsize::new(0), behind: AtomicUsize::new(0), line: Mutex::default() })
    }

    /// Whether pages should be written so that they can go.
    pub fn is_pressed(&self) -> bool {
        self.behind.load(Ordering::Relaxed) > self.limit / 2
    }

    /// Counts the pages of a set, and those that the disks do not have. The set is locked.
    pub(super) fn changed(&self, before: (usize, usize), after: (usize, usize)) {
        for (count, before, after) in [(&self.held, before.0, after.0), (&self.behind, before.1, after.1)] {
            // Wraps where fewer are left, as a subtraction would.
            count.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// A page came; others go where there are too many.
    pub(super) fn admit(&self, checksums: &Arc<Checksums>, set: usize, page: u32) {
        let mut held = self.held.load(Ordering::Relaxed);
        let mut next = Some((Arc::downgrade(checksums), set, page));
        // Each page is looked at once at most, so that the one that came stays for who waited for it.
        let mut looks = None;
        loop {
            let oldest = {
                let mut line = self.line.lock().expect("no panic while held");
                line.extend(next.take());
                let looks = looks.get_or_insert(LOOKS.min(line.len()));
                // Rows that were closed leave their places in the line.
                if (held <= self.limit && line.len() <= 2 * self.limit) || *looks == 0 {
                    return;
                }
                *looks -= 1;
                line.pop_front()
            };
            let Some((checksums, set, page)) = oldest else { return };
            if let Some(known) = checksums.upgrade()
                && !known.evict(set, page)
            {
                next = Some((checksums, set, page));
            }
            held = self.held.load(Ordering::Relaxed);
        }
    }
}
