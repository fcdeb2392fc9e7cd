//! How often flushes told that answered writes are lost.
//!
//! Invariant: what an object tells once is counted before it is answered, also where nobody waits for the answer any more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use holdfast_device::reactor::{current, spawn_local};
use holdfast_device::{Io, IoError, IoErrorKind};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses(Arc<AtomicU64>);

impl Losses {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn note(&self, outcome: &Result<(), IoError>) {
        if outcome.as_ref().is_err_and(|error| error.kind == IoErrorKind::Media) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A flush under way.
struct Counted {
    io: Option<Io<()>>,
    losses: Losses,
}

impl Future for Counted {
    type Output = Result<(), IoError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(io) = &mut self.io else { return Poll::Pending };
        let outcome = ready!(Pin::new(io).poll(cx));
        self.io = None;
        self.losses.note(&outcome);
        Poll::Ready(outcome)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // It goes on without the one who asked.
        if let Some(io) = self.io.take().filter(|_| current().is_some()) {
            let losses = self.losses.clone();
            drop(spawn_local(async move { losses.note(&io.await) }));
        }
    }
}

/// A flush whose outcome is counted.
pub(crate) fn counted(losses: &Losses, io: Io<()>) -> Io<()> {
    match io {
        Io::Ready(outcome) => {
            outcome.iter().for_each(|outcome| losses.note(outcome));
            Io::Ready(outcome)
        }
        io => Io::pending(Counted { io: Some(io), losses: losses.clone() }),
    }
}
