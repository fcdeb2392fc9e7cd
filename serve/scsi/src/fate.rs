//! What becomes of a command under way: whether anybody still wants it, whether it is over, and whether its memory is free.
//!
//! ```text
//!   answered            over, gone
//!   aborted, reading    over at once; gone when what it had begun to read has come
//!   aborted, changing   over and gone when what it had begun is carried to its end
//! ```
//!
//! Invariant: what is over has no effect any more, and what is gone holds no buffer; who waits for that is woken by it.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Something that comes true once. One waits at a time.
#[derive(Default)]
struct Mark {
    set: Cell<bool>,
    waiting: Cell<Option<Waker>>,
}

impl Mark {
    fn set(&self) {
        self.set.set(true);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Fate {
    given_up: Cell<bool>,
    over: Mark,
    gone: Mark,
}

impl Fate {
    /// Set when nobody waits for the answer any more, and no change may begin.
    pub(crate) fn given_up(&self) -> &Cell<bool> {
        &self.given_up
    }

    /// It has no effect any more.
    pub(crate) fn end(&self) {
        self.over.set();
    }

    /// It has none, and holds no buffer.
    pub(crate) fn leave(&self) {
        self.over.set();
        self.gone.set();
    }
}

/// Ends when a command has come so far; one waits at a time. See [`Running::over`](crate::Running::over) and
/// [`Running::gone`](crate::Running::gone).
#[must_use = "it says when a command is over"]
pub struct Over {
    fate: Rc<Fate>,
    mark: fn(&Fate) -> &Mark,
}

impl Over {
    pub(crate) fn of_effects(fate: &Rc<Fate>) -> Self {
        Self { fate: fate.clone(), mark: |fate| &fate.over }
    }

    pub(crate) fn of_buffers(fate: &Rc<Fate>) -> Self {
        Self { fate: fate.clone(), mark: |fate| &fate.gone }
    }
}

impl Future for Over {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mark = (self.mark)(&self.fate);
        if mark.set.get() {
            return Poll::Ready(());
        }
        mark.waiting.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}
