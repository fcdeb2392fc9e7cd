//! What flushes of an object told: how often answered writes were lost, and what is durable.
//!
//! Invariants: what an object tells once is counted before it is answered, also where nobody waits for the answer any more.
//! A change is durable only by a flush that began after it was answered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use holdfast_device::reactor::{current, spawn_local};
use holdfast_device::{Io, IoError, IoErrorKind};

/// How often flushes of an object told of a loss, whoever asked for them. It goes on where the object is let go of.
#[derive(Clone, Debug, Default)]
pub struct LossCount(Arc<AtomicU64>);

impl LossCount {
    /// As of now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    losses: LossCount,
    /// Changes that were answered.
    changed: AtomicU64,
    /// Of these, the first so many are durable.
    covered: AtomicU64,
}

impl Flushes {
    pub(crate) fn losses(&self) -> &LossCount {
        &self.losses
    }

    /// A change is about to be answered.
    pub(crate) fn note_change(&self) {
        self.changed.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether changes were answered that no flush made durable.
    pub(crate) fn has_unflushed(&self) -> bool {
        self.changed.load(Ordering::SeqCst) > self.covered.load(Ordering::SeqCst)
    }

    /// A flush has ended that began when so many changes were answered.
    fn note(&self, outcome: &Result<(), IoError>, changed: u64) {
        match outcome {
            Ok(()) => _ = self.covered.fetch_max(changed, Ordering::SeqCst),
            Err(error) if error.kind == IoErrorKind::Media => _ = self.losses.0.fetch_add(1, Ordering::SeqCst),
            Err(_) => {}
        }
    }
}

/// A flush under way.
struct Counted {
    io: Option<Io<()>>,
    changed: u64,
    flushes: Arc<Flushes>,
}

impl Future for Counted {
    type Output = Result<(), IoError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(io) = &mut self.io else { return Poll::Pending };
        let outcome = ready!(Pin::new(io).poll(cx));
        self.io = None;
        self.flushes.note(&outcome, self.changed);
        Poll::Ready(outcome)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // It goes on without the one who asked.
        if let Some(io) = self.io.take().filter(|_| current().is_some()) {
            let (flushes, changed) = (self.flushes.clone(), self.changed);
            drop(spawn_local(async move { flushes.note(&io.await, changed) }));
        }
    }
}

/// A flush, begun, whose outcome is counted.
pub(crate) fn counted(flushes: &Arc<Flushes>, begin: impl FnOnce() -> Io<()>) -> Io<()> {
    let changed = flushes.changed.load(Ordering::SeqCst);
    match begin() {
        Io::Ready(outcome) => {
            outcome.iter().for_each(|outcome| flushes.note(outcome, changed));
            Io::Ready(outcome)
        }
        io => Io::pending(Counted { io: Some(io), changed, flushes: flushes.clone() }),
    }
}
