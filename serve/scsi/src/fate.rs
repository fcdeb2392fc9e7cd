//! What becomes of a command under way: whether anybody still wants it, and whether it is over.
//!
//! Invariant: what is over has no effect any more, and who waits for that is woken by it.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// See the module.
#[derive(Default)]
pub(crate) struct Fate {
    given_up: Cell<bool>,
    over: Cell<bool>,
    waiting: Cell<Option<Waker>>,
}

impl Fate {
    /// Set when nobody waits for the answer any more, and no change may begin.
    pub(crate) fn given_up(&self) -> &Cell<bool> {
        &self.given_up
    }

    /// It has no effect any more.
    pub(crate) fn end(&self) {
        self.over.set(true);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }
}

/// Ends when a command has no effect any more: it is answered, or was aborted and what had begun of it is carried to its
/// end. One waits at a time.
#[must_use = "it says when a command is over"]
pub struct Over(Rc<Fate>);

impl Over {
    pub(crate) fn new(fate: &Rc<Fate>) -> Self {
        Self(fate.clone())
    }
}

impl Future for Over {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.over.get() {
            return Poll::Ready(());
        }
        self.0.waiting.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}
