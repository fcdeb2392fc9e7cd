//! Orders to a session from anywhere: to end.
//!
//! Invariant: an order that was given is taken, or the session has ended.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// An order.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// Ask the initiator to log out, and end after a while in any case.
    Leave(&'static str),
    /// End now.
    End(&'static str),
}

#[derive(Default)]
struct Waiting {
    orders: VecDeque<Order>,
    waker: Option<Waker>,
    closed: bool,
}

/// The orders of one session.
#[derive(Default)]
pub(crate) struct Orders(Mutex<Waiting>);

impl Orders {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives one.
    pub(crate) fn give(&self, order: Order) {
        let waker = {
            let mut waiting = self.waiting();
            if waiting.closed {
                return;
            }
            waiting.orders.push_back(order);
            waiting.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next. One task waits at a time.
    pub(crate) fn next(&self) -> impl Future<Output = Order> {
        poll_fn(|cx| {
            let mut waiting = self.waiting();
            match waiting.orders.pop_front() {
                Some(order) => Poll::Ready(order),
                None => {
                    waiting.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    /// Nobody takes any more.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.closed = true;
        waiting.orders.clear();
    }
}
