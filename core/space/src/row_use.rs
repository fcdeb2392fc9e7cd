//! Who uses an open row, and whether it is on the list of the next flush.
//!
//! Invariant: users are counted in, and the row is closed to new ones, only under the row's shard of the
//! [`crate::row_table`]; so if nobody uses it while the shard is held, nobody comes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The use of a row.
#[derive(Default)]
pub struct RowUse {
    /// Requests that may change the row: it is neither given back nor replaced under them.
    users: AtomicU32,
    /// Set while a gate is shut, so that nobody begins to change a row that is about to make way for another.
    closing: AtomicBool,
    /// Spares writes to a row that is on the list of the next flush already the lock of that list.
    touched: AtomicBool,
}

impl RowUse {
    /// Counts a request in; false where the gate is shut. The shard must be held.
    pub fn enter(&self) -> bool {
        let is_open = !self.closing.load(Ordering::Acquire);
        if is_open {
            self.users.fetch_add(1, Ordering::AcqRel);
        }
        is_open
    }

    /// A request is over.
    pub fn leave(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    /// Requests under way.
    pub fn users(&self) -> u32 {
        self.users.load(Ordering::Acquire)
    }

    /// Shuts or opens the gate. The shard must be held, for changes.
    pub fn set_closing(&self, closing: bool) {
        self.closing.store(closing, Ordering::Release);
    }

    /// Notes that the next flush is to settle the row; false where that is known.
    pub fn touch(&self) -> bool {
        !self.touched.swap(true, Ordering::AcqRel)
    }

    /// What is written from now on is for the flush after this one.
    pub fn end_touch(&self) {
        self.touched.store(false, Ordering::Release);
    }
}
