//! The entry of a file: its state under a lock, the word about it that needs none, and who waits at it.
//!
//! Invariant: when the lock is let go of, the word says what the state says, all that was released was offered to those
//! who wait, and the state is dead if and only if nobody has the file open and nobody is to delete it.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use crate::access::Shares;
use crate::effects::{Context, held};
use crate::error::{Error, Limit};
use crate::key::FileKey;
use crate::leases::Leases;
use crate::locks::Locks;
use crate::open::{Link, Opens};
use crate::summary::Summary;

/// A file that is open.
pub(crate) struct FileSeat {
    pub key: FileKey,
    summary: AtomicU64,
    pub state: Mutex<FileState>,
}

/// Somebody who waits until something is released.
struct Wait {
    id: u64,
    /// Or until breaks are sent.
    for_sends: bool,
    waker: Waker,
}

/// What is known of it.
#[derive(Default)]
pub(crate) struct FileState {
    pub opens: Opens,
    pub shares: Shares,
    pub leases: Leases,
    pub locks: Option<Box<Locks>>,
    waits: Vec<Wait>,
    /// It goes with its last close, by this name.
    pub pending: Option<Link>,
    /// It was handed out to be deleted.
    pub deleting: bool,
    /// An open of it was closed by somebody else.
    pub evicted: bool,
    /// Breaks that are decided and not all sent, by number.
    unsent: Vec<u64>,
    batches: u64,
    scheduled: Option<Duration>,
    pub dead: bool,
}

impl FileSeat {
    pub fn new(key: FileKey) -> Self {
        Self { key, summary: AtomicU64::new(0), state: Mutex::default() }
    }

    /// The word as it is.
    pub fn summary(&self) -> Summary {
        Summary::from_word(self.summary.load(Ordering::Acquire))
    }

    /// The word as it is after all that the caller did: whoever is granted anything later sees what was done.
    pub fn summary_after(&self) -> Summary {
        fence(Ordering::SeqCst);
        Summary::from_word(self.summary.load(Ordering::SeqCst))
    }

    fn publish(&self, state: &FileState) {
        let ranges = state.locks.as_ref().is_some_and(|locks| locks.count() > 0);
        let word = state.leases.summary();
        let word = word.with(Summary::RANGES, ranges).with(Summary::DELETE_PENDING, state.pending.is_some());
        let word = word.with(Summary::UNSENT, !state.unsent.is_empty()).with(Summary::DEAD, state.dead);
        let mandatory = state.locks.as_ref().is_some_and(|locks| locks.has_mandatory());
        let word = word.with(Summary::EVICTED, state.evicted).with(Summary::MANDATORY, mandatory);
        let word = word.with(Summary::DISK, state.opens.excluding() > 0).word();
        if self.summary.load(Ordering::Relaxed) != word {
            self.summary.store(word, Ordering::SeqCst);
            // Pairs with the fence of `summary_after`: of one who is granted a lease and reads, and one who writes and
            // looks for leases, at least one sees the other.
            fence(Ordering::SeqCst);
        }
    }

    /// Acts on the state, and brings the rest in step with it.
    pub fn act<R>(&self, context: &mut Context, act: impl FnOnce(&mut FileState, &mut Context) -> R) -> R {
        let mut state = held(&self.state);
        let result = act(&mut state, context);
        state.settle(context);
        self.publish(&state);
        result
    }

    /// The breaks of this number are sent.
    pub fn sent(&self, batch: u64) -> Vec<Waker> {
        let mut state = held(&self.state);
        state.unsent.retain(|one| *one != batch);
        self.publish(&state);
        state.waits.extract_if(.., |wait| wait.for_sends).map(|wait| wait.waker).collect()
    }
}

impl FileState {
    fn settle(&mut self, context: &mut Context) {
        let (common, file) = (context.common, context.file);
        if let Some(locks) = self.locks.as_mut() {
            if context.relocked {
                locks.advance(context);
            }
            if locks.is_unused() {
                self.locks = None;
            }
        }
        // A file that is to go is kept until somebody took it over to delete it: at the latest who asks for it next.
        if self.opens.is_empty() && !self.deleting && self.pending.is_none() && !self.dead {
            self.dead = true;
            context.released = true;
            common.budgets.files.give(1);
            common.schedule(file, self.scheduled.take(), None);
        }
        if context.released {
            context.wake.extend(self.waits.drain(..).map(|wait| wait.waker));
        }
        if !context.messages.is_empty() {
            self.batches += 1;
            context.batch = self.batches;
            self.unsent.push(self.batches);
        }
        if context.timed && !self.dead {
            let kept = self.opens.iter().filter_map(|(_, open)| open.aside).map(|aside| aside.deadline).min();
            let next = self.leases.deadline().into_iter().chain(kept).min();
            common.schedule(file, self.scheduled, next);
            self.scheduled = next;
        }
    }

    /// The last breaks that are not all sent, by number, if there are any.
    pub fn last_unsent(&self) -> Option<u64> {
        self.unsent.iter().max().copied()
    }

    /// Whether all breaks up to this number are sent.
    pub fn is_sent(&self, mark: u64) -> bool {
        self.unsent.iter().all(|batch| *batch > mark)
    }

    /// When it is looked at next.
    pub fn scheduled(&self) -> Option<Duration> {
        self.scheduled
    }

    pub fn waits(&self) -> usize {
        self.waits.len()
    }
}

/// A request that waits at a file. It begins empty and belongs to one request; dropping it gives the wait up. A lock that
/// was granted meanwhile stays its owner's: who gives up a wait for a lock unlocks what it may have got.
#[derive(Default)]
pub struct Waiting {
    at: Option<Arc<FileSeat>>,
    id: u64,
    /// The breaks that are waited for to be sent.
    pub(crate) mark: Option<u64>,
    pub(crate) is_queued: bool,
}

impl Waiting {
    /// Nothing is waited for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of the wait, at this file.
    pub(crate) fn begin(&mut self, seat: &Arc<FileSeat>, context: &Context) -> u64 {
        if self.id == 0 {
            self.id = context.common.next_wait();
        }
        if self.at.as_ref().is_none_or(|at| !Arc::ptr_eq(at, seat)) {
            self.at = Some(seat.clone());
        }
        self.id
    }

    /// The number of the wait.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Has the task be woken when anything is released, or also when breaks are sent. The state is the seat's, and held.
    pub(crate) fn register(
        &mut self,
        seat: &Arc<FileSeat>,
        state: &mut FileState,
        context: &Context,
        waker: &Waker,
        for_sends: bool,
    ) -> Result<(), Error> {
        let is_known = self.id != 0 && state.waits.iter().any(|wait| wait.id == self.id);
        if !is_known && state.waits.len() >= context.common.settings.waits_of_file {
            return Err(Error::Limit { file: seat.key, limit: Limit::Waits });
        }
        self.register_always(seat, state, context, waker, for_sends);
        Ok(())
    }

    /// The same for one that may not be refused.
    pub(crate) fn register_always(
        &mut self,
        seat: &Arc<FileSeat>,
        state: &mut FileState,
        context: &Context,
        waker: &Waker,
        for_sends: bool,
    ) {
        let id = self.begin(seat, context);
        match state.waits.iter_mut().find(|wait| wait.id == id) {
            Some(wait) => {
                wait.waker.clone_from(waker);
                wait.for_sends = for_sends;
            }
            None => state.waits.push(Wait { id, for_sends, waker: waker.clone() }),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(seat) = &self.at else { return };
        let mut state = held(&seat.state);
        let at = state.waits.iter().position(|wait| wait.id == self.id);
        // The task is let go of without the lock, as its end may ask for it.
        let waker = at.map(|at| state.waits.swap_remove(at));
        let queued = state.locks.as_mut().filter(|_| self.is_queued);
        let gone = queued.and_then(|locks| locks.forget_wait(self.id));
        drop(state);
        drop((waker, gone));
    }
}
