//! Holders of locks that a close may have let go of already.
//!
//! A program that closes the last descriptor of an open file is answered before the kernel sends RELEASE, and that may be
//! read on another reactor than the next request. So what such an open file has locked may seem locked for an instant
//! longer. FLUSH, which comes before, does not say whether the descriptor is the last one.
//!
//! Invariant: a holder is noted from a FLUSH of its open file until its RELEASE, or until it was waited for in vain.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_opens::LockOwner;

/// Who finds the lock of such a holder in the way, and would not wait for it, waits for so long all the same.
pub(crate) const RELEASE_GRACE: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Leaving(Mutex<HashSet<LockOwner>>);

impl Leaving {
    fn held(&self) -> MutexGuard<'_, HashSet<LockOwner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A descriptor of the holder's open file was closed, perhaps the last one.
    pub(crate) fn note(&self, holder: LockOwner) {
        self.held().insert(holder);
    }

    /// It is known now whether it was.
    pub(crate) fn forget(&self, holder: LockOwner) {
        self.held().remove(&holder);
    }

    /// Whether a holder may be gone already.
    pub(crate) fn has(&self, holder: LockOwner) -> bool {
        self.held().contains(&holder)
    }
}
