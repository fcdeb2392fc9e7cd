//! The machine's monotonic clock, and the timers of one reactor.
//!
//! Invariant: a timer that is dropped leaves nothing behind.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::core::with_core;
use crate::Clock;

/// Time since the machine started, without the time it was suspended.
pub(crate) fn monotonic() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of this frame.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The machine's clock. Its sleeps run on the reactor of the thread that polls them first, and panic off a reactor.
pub fn clock() -> Arc<dyn Clock> {
    Arc::new(Monotonic)
}

struct Monotonic;

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        monotonic()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(Sleep { deadline: monotonic().saturating_add(duration), timer: None })
    }
}

type TimerKey = (Duration, u64);

#[derive(Default)]
pub(crate) struct Timers {
    pending: BTreeMap<TimerKey, Waker>,
    next: u64,
}

impl Timers {
    fn add(&mut self, deadline: Duration, waker: Waker) -> TimerKey {
        self.next += 1;
        let key = (deadline, self.next);
        self.pending.insert(key, waker);
        key
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.pending.first_key_value().map(|(key, _)| key.0)
    }

    /// Takes one timer that is over at `now`.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<Waker> {
        let entry = self.pending.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    pub(crate) fn clear(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.pending).into_values().collect()
    }
}

struct Sleep {
    deadline: Duration,
    timer: Option<(u64, TimerKey)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if monotonic() >= self.deadline {
            return Poll::Ready(());
        }
        with_core(|core| {
            let mut timers = core.timers().borrow_mut();
            match self.timer {
                Some((serial, key)) => {
                    assert_eq!(serial, core.serial(), "a sleep stays on the reactor that polled it first");
                    timers.pending.insert(key, cx.waker().clone());
                }
                None => self.timer = Some((core.serial(), timers.add(self.deadline, cx.waker().clone()))),
            }
        })
        .expect("the reactor's clock sleeps only on a reactor's thread");
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some((serial, key)) = self.timer {
            let waker = with_core(|core| {
                let own = serial == core.serial();
                if own { core.timers().borrow_mut().pending.remove(&key) } else { None }
            });
            drop(waker);
        }
    }
}
