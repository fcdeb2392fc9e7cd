//! A flag that is raised once and wakes all who wait for it, on any thread.
//!
//! Invariant: who waits is woken, whether the wait began before or after the flag was raised.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The flag.
#[derive(Debug, Default)]
pub struct Signal {
    raised: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Signal {
    /// Raises it; doing so again changes nothing.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether it is raised.
    pub fn raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Ends when it is raised.
    pub fn wait(self: &Arc<Self>) -> Raised {
        Raised { signal: self.clone(), registered: None }
    }
}

/// See [`Signal::wait`].
pub struct Raised {
    signal: Arc<Signal>,
    registered: Option<Waker>,
}

impl Future for Raised {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // A wait is polled far more often than it ends, by the same task: that costs one load.
        if !self.registered.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.registered = Some(cx.waker().clone());
            self.signal.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(cx.waker().clone());
        }
        if self.signal.raised.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        let Some(waker) = self.registered.take() else { return };
        let mut waiting = self.signal.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = waiting.iter().position(|other| other.will_wake(&waker)) {
            waiting.swap_remove(at);
        }
    }
}
