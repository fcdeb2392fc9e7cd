//! Locks that wait, in the order in which they were asked for.
//!
//! Whatever lets go of a range looks through them from the first on and takes each that nothing is in the way of any
//! more. Those that wait are in nobody's way: a lock that could be had at once is not kept from who asks, as both NT and
//! POSIX have it.
//!
//! Invariant: a lock that waits is one that something is in the way of, each time the file's lock is let go of; its
//! edges in the graph of waits are those in its way then.

use std::sync::Arc;
use std::task::Waker;

use crate::deadlock::WaitGraph;
use crate::effects::Context;
use crate::error::{Error, Limit};
use crate::key::OpenId;
use crate::locks::{LockKind, Locks, Wanted};

/// A lock that waits, or waited and has its answer.
#[derive(Debug)]
pub(crate) struct WaitingLock {
    /// The number of the wait.
    pub id: u64,
    /// The open that it was asked through.
    pub open: OpenId,
    pub wanted: Wanted,
    pub waker: Waker,
    pub graph: Arc<WaitGraph>,
    /// What became of it, until somebody asks.
    pub answer: Option<Result<(), Error>>,
}

impl WaitingLock {
    /// Has it be answered; what to wake then.
    fn finish(&mut self, answer: Result<(), Error>) -> Waker {
        self.leave_graph();
        self.answer = Some(answer);
        self.waker.clone()
    }

    fn leave_graph(&self) {
        if let Some(owner) = self.wanted.holder.posix() {
            self.graph.end(owner, self.id);
        }
    }
}

impl Locks {
    /// Has a lock wait.
    pub fn enqueue(&mut self, waiting: WaitingLock, context: &Context) -> Result<(), Error> {
        let file = context.file;
        if self.queue.len() >= context.common.settings.waits_of_file {
            return Err(Error::Limit { file, limit: Limit::Waits });
        }
        if let Some(owner) = waiting.wanted.holder.posix()
            && !waiting.graph.begin(owner, waiting.id, self.blockers(&waiting.wanted))
        {
            return Err(Error::Deadlock { file });
        }
        self.queue.push_back(waiting);
        Ok(())
    }

    /// What became of a wait, once anything did; meanwhile whom to wake. `None` where there is no such wait.
    pub fn poll_wait(&mut self, id: u64, waker: &Waker) -> Option<Option<Result<(), Error>>> {
        let at = self.queue.iter().position(|waiting| waiting.id == id)?;
        let waiting = &mut self.queue[at];
        if waiting.answer.is_none() {
            waiting.waker.clone_from(waker);
            return Some(None);
        }
        Some(self.queue.remove(at).and_then(|waiting| waiting.answer))
    }

    /// Forgets a wait. A lock that it was already answered with stays its holder's.
    /// What is handed back is let go of without the file's lock.
    #[must_use]
    pub fn forget_wait(&mut self, id: u64) -> Option<WaitingLock> {
        let at = self.queue.iter().position(|waiting| waiting.id == id)?;
        let gone = self.queue.remove(at)?;
        gone.leave_graph();
        Some(gone)
    }

    /// Takes what can be had now, in order.
    pub fn advance(&mut self, context: &mut Context) {
        let (common, file) = (context.common, context.file);
        let mut queue = std::mem::take(&mut self.queue);
        loop {
            let mut has_changed = false;
            for waiting in queue.iter_mut().filter(|waiting| waiting.answer.is_none()) {
                if self.conflict(&waiting.wanted).is_none() {
                    let taken = self.take(&waiting.wanted, context.now, &common.settings, &common.budgets.ranges);
                    // It may have been exclusive before, which an earlier one waits for; or its holder's range falls into
                    // two of different modes, which an empty one of NT fits between.
                    has_changed |= waiting.wanted.holder.kind != LockKind::Nt;
                    context.wake.push(waiting.finish(taken.map_err(|limit| Error::Limit { file, limit })));
                }
            }
            if !has_changed {
                break;
            }
        }
        // Only after all that could be had was taken is it known who is in the way of the rest.
        let mut closing = Vec::new();
        for (at, waiting) in queue.iter().enumerate().filter(|(_, waiting)| waiting.answer.is_none()) {
            if let Some(owner) = waiting.wanted.holder.posix()
                && waiting.graph.renew(owner, waiting.id, self.blockers(&waiting.wanted))
            {
                closing.push((at, owner));
            }
        }
        // Whoever took the lock may wait for one of these by another thread. Each that is ended opens its circle.
        for (at, owner) in closing {
            let waiting = &mut queue[at];
            if waiting.graph.is_in_circle(owner, waiting.id) {
                context.wake.push(waiting.finish(Err(Error::Deadlock { file })));
            }
        }
        self.queue = queue;
    }

    /// Ends all waits that were asked for through an open.
    pub fn cancel_open(&mut self, open: OpenId, context: &mut Context) {
        let file = context.file;
        let of_open = self.queue.iter_mut().filter(|waiting| waiting.open == open && waiting.answer.is_none());
        context.wake.extend(of_open.map(|waiting| waiting.finish(Err(Error::Cancelled { file }))));
    }

    /// Whether a lock is held or waited for.
    pub fn is_asked_for(&self) -> bool {
        self.count() > 0 || self.queue.iter().any(|waiting| waiting.answer.is_none())
    }

    /// Waits that the graph knows of.
    pub fn posix_waits(&self) -> usize {
        self.queue.iter().filter(|waiting| waiting.answer.is_none() && waiting.wanted.holder.posix().is_some()).count()
    }

    /// Asserts the invariant.
    pub fn check_waits(&self) {
        for waiting in self.queue.iter().filter(|waiting| waiting.answer.is_none()) {
            assert!(self.conflict(&waiting.wanted).is_some(), "{:?} waits for nothing", waiting.wanted);
        }
    }
}
