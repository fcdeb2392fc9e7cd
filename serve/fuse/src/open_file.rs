//! An open file of the mount: the service's handle of it, its place in the table of opens, and who locked through it.
//!
//! The kernel names owners of locks by numbers: of a table of descriptors for those of a process, of the open file itself
//! for those that belong to it (`F_OFD_SETLK`). It does not say which of the two a number is. A process says FLUSH when it
//! closes a descriptor, and has no locks of the file then. So an owner that locked through an open file, and did not say so
//! before its RELEASE, is the open file.
//!
//! Invariant: the owners are those who may hold locks that they asked for through this open file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_opens::Seat;
use smallvec::SmallVec;

/// Owners by the kernel's numbers.
pub(crate) type Owners = SmallVec<[u64; 1]>;

/// See the module.
#[derive(Debug)]
pub(crate) struct OpenFile<H> {
    pub(crate) handle: H,
    pub(crate) seat: Seat,
    owners: Mutex<Owners>,
    has_flock: AtomicBool,
    /// Whether programs may have the kernel keep what the service does not have, through it.
    pub(crate) may_hide: bool,
}

impl<H: Clone> OpenFile<H> {
    pub(crate) fn new(handle: H, seat: Seat, may_hide: bool) -> Self {
        Self { handle, seat, owners: Mutex::default(), has_flock: AtomicBool::new(false), may_hide }
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An owner asks for a lock.
    pub(crate) fn note_owner(&self, owner: u64) {
        let mut owners = self.owners();
        if !owners.contains(&owner) {
            owners.push(owner);
        }
    }

    /// An owner asks for none any more. Answers whether it did.
    pub(crate) fn forget_owner(&self, owner: u64) -> bool {
        let mut owners = self.owners();
        let at = owners.iter().position(|other| *other == owner);
        at.map(|at| owners.swap_remove(at)).is_some()
    }

    /// Those that are left.
    pub(crate) fn left(&self) -> Owners {
        self.owners().clone()
    }

    /// The whole file is locked through it with `flock`, or is not any more.
    pub(crate) fn set_flock(&self, is_locked: bool) {
        self.has_flock.store(is_locked, Ordering::Relaxed);
    }

    pub(crate) fn has_flock(&self) -> bool {
        self.has_flock.load(Ordering::Relaxed)
    }

    /// The service's handle, from its last user.
    pub(crate) fn into_handle(file: Arc<Self>) -> H {
        Arc::try_unwrap(file).map_or_else(|shared| shared.handle.clone(), |file| file.handle)
    }
}
