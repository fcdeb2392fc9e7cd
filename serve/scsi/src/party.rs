//! One nexus's standing with one unit: what it has yet to be told, and the work that it has under way.
//!
//! ```text
//!   task ─▶ holds Work ─▶ Session of the block service
//!   abort: a new Work takes its place ─▶ the old one begins nothing more ─▶ its last task ends ─▶ it is over
//! ```
//!
//! Invariant: a party knows no unit, so that a unit can know its parties. Work is over when nothing of it is under way,
//! in the block service neither.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_block::{Session, Target};
use holdfast_device::{Raised, Signal};
use tokio::sync::Notify;

use crate::attention::{Attention, Pending};
use crate::copy::Operations;
use crate::ports::NexusId;

/// The tasks of a nexus with a unit since it was reset last.
pub(crate) struct Work {
    pub(crate) session: Session,
    over: Arc<Signal>,
}

impl Work {
    fn new(target: &Arc<Target>) -> Arc<Self> {
        Arc::new(Self { session: Session::new(target.clone()), over: Arc::default() })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.over.raise();
    }
}

/// See the module.
pub(crate) struct Party {
    id: NexusId,
    target: Arc<Target>,
    pending: Pending,
    standing: AtomicU64,
    work: Mutex<Arc<Work>>,
    copies: Operations,
    bell: Arc<Notify>,
}

impl Party {
    pub(crate) fn new(id: NexusId, target: Arc<Target>, bell: Arc<Notify>) -> Arc<Self> {
        let work = Mutex::new(Work::new(&target));
        Arc::new(Self {
            id,
            target,
            pending: Pending::default(),
            standing: AtomicU64::new(0),
            work,
            copies: Operations::default(),
            bell,
        })
    }

    /// The nexus that it is of.
    pub(crate) fn id(&self) -> &NexusId {
        &self.id
    }

    /// Lets the nexus know.
    pub(crate) fn tell(&self, attention: Attention) {
        self.pending.add(attention);
        if attention.is_urgent() {
            self.bell.notify_one();
        }
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    /// The copies that it has begun.
    pub(crate) fn copies(&self) -> &Operations {
        &self.copies
    }

    /// What a task that begins now belongs to.
    pub(crate) fn work(&self) -> Arc<Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins anew: ends when nothing that was under way is. With `abort`, what waits for its turn gives up.
    pub(crate) fn renew(&self, abort: bool) -> Raised {
        let fresh = Work::new(&self.target);
        let old = std::mem::replace(&mut *self.work.lock().unwrap_or_else(PoisonError::into_inner), fresh);
        if abort {
            self.copies.reset();
            old.session.end();
        }
        old.over.wait()
    }

    /// What reservations say of it and as of which version of them, in one word of theirs.
    pub(crate) fn standing(&self) -> u64 {
        self.standing.load(Ordering::Acquire)
    }

    pub(crate) fn set_standing(&self, known: u64) {
        self.standing.store(known, Ordering::Release);
    }
}
