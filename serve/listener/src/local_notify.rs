//! A wake-up between tasks of one reactor. Invariant: a ring is never lost; it is kept for the next that waits.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::task::{Poll, Waker};

/// The bell. One task waits at a time.
#[derive(Default)]
pub struct LocalNotify {
    rung: Cell<bool>,
    waiting: Cell<Option<Waker>>,
}

impl LocalNotify {
    /// Wakes the task that waits, or the next that does.
    #[inline]
    pub fn ring(&self) {
        self.rung.set(true);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }

    /// Ends when the bell was rung since the last wait ended.
    #[inline]
    pub fn wait(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| {
            if self.rung.replace(false) {
                return Poll::Ready(());
            }
            self.waiting.set(Some(cx.waker().clone()));
            Poll::Pending
        })
    }
}
