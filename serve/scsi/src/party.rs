//! One nexus's standing with one unit: what it has yet to be told, and the work that it has under way.
//!
//! ```text
//!   task ─▶ holds Work ─▶ Session of the block service
//!   abort: a new Work takes its place ─▶ the old ones begin nothing more ─▶ their last tasks end ─▶ they are over
//! ```
//!
//! Invariant: a party holds no unit, so that a unit can hold its parties. Work is over when nothing of it is under way,
//! in the block service neither.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use holdfast_block::{Session, Target};
use holdfast_device::{Raised, Signal};
use tokio::sync::Notify;

use crate::attention::{Attention, Pending};
use crate::copy::Operations;
use crate::losses::Losses;
use crate::ports::NexusId;
use crate::unit::Unit;

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

/// The work of now, and that of before which may not be over yet.
struct Works {
    now: Arc<Work>,
    older: Vec<Weak<Work>>,
    /// How often all that was under way was aborted.
    aborts: u64,
}

/// See the module.
pub(crate) struct Party {
    id: NexusId,
    /// The number that no other nexus of its device has.
    serial: u64,
    target: Arc<Target>,
    pending: Pending,
    standing: AtomicU64,
    losses: Arc<Losses>,
    /// Of so many of them it was told.
    told_losses: AtomicU64,
    /// Of so many it knew when it asked for a flush that was good: it has heard of those for sure.
    known_losses: AtomicU64,
    works: Mutex<Works>,
    copies: Operations,
    bell: Arc<Notify>,
}

impl Party {
    /// That of a nexus with `unit`.
    pub(crate) fn new(id: NexusId, serial: u64, unit: &Unit, bell: Arc<Notify>) -> Arc<Self> {
        let (target, known) = (unit.target().clone(), unit.losses_known_to(&id));
        let works = Mutex::new(Works { now: Work::new(&target), older: Vec::new(), aborts: 0 });
        Arc::new(Self {
            id,
            serial,
            losses: unit.losses().clone(),
            told_losses: AtomicU64::new(known),
            known_losses: AtomicU64::new(known),
            target,
            pending: Pending::default(),
            standing: AtomicU64::new(0),
            works,
            copies: Operations::default(),
            bell,
        })
    }

    /// The nexus that it is of.
    pub(crate) fn id(&self) -> &NexusId {
        &self.id
    }

    /// The number that no other nexus of its device has.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
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

    fn works(&self) -> MutexGuard<'_, Works> {
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a task that begins now belongs to.
    pub(crate) fn work(&self) -> Arc<Work> {
        self.works().now.clone()
    }

    /// How often all that was under way was aborted. A command whose data were still on their way at the last time must
    /// not begin.
    pub(crate) fn aborts(&self) -> u64 {
        self.works().aborts
    }

    /// Begins anew. What is answered ends when nothing that was under way is, whatever number of times it began anew
    /// before. What waits for its turn gives up.
    pub(crate) fn renew(&self) -> Vec<Raised> {
        let fresh = Work::new(&self.target);
        self.copies.reset();
        // Let go of outside the lock.
        let all: Vec<Arc<Work>> = {
            let mut works = self.works();
            works.aborts += 1;
            let old = std::mem::replace(&mut works.now, fresh);
            works.older.retain(|work| work.strong_count() > 0);
            works.older.push(Arc::downgrade(&old));
            works.older.iter().filter_map(Weak::upgrade).collect()
        };
        all.iter().for_each(|work| work.session.end());
        all.iter().map(|work| work.over.wait()).collect()
    }

    /// Of how many losses of answered writes it was told.
    pub(crate) fn told_losses(&self) -> u64 {
        self.told_losses.load(Ordering::SeqCst)
    }

    /// Whether answered writes were lost of which it was not told before. It is from then on.
    pub(crate) fn hears_of_losses(&self) -> bool {
        let losses = self.losses.count();
        self.told_losses.fetch_max(losses, Ordering::SeqCst) < losses
    }

    /// A flush is good that it asked for when it was told of so many.
    pub(crate) fn note_flushed(&self, told: u64) {
        self.known_losses.fetch_max(told, Ordering::SeqCst);
    }

    /// Of how many it has heard for sure.
    pub(crate) fn knew_of_losses(&self) -> u64 {
        self.known_losses.load(Ordering::SeqCst)
    }

    /// What reservations say of it and as of which version of them, in one word of theirs.
    pub(crate) fn standing(&self) -> u64 {
        self.standing.load(Ordering::Acquire)
    }

    pub(crate) fn set_standing(&self, known: u64) {
        self.standing.store(known, Ordering::Release);
    }
}
