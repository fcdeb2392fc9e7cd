//! Requests that wait for others: for a lock, or for a client that gives back what it caches.
//!
//! ```text
//!   asked ── pending ──▶ stands aside ──▶ asked again when woken ──▶ answered
//!                             ├── a signal to the program          EINTR
//!                             └── the mount ends
//! ```
//!
//! What is waited for may be let go of by a request that comes later, so one that waits keeps no other out: it is none of
//! those that are under way, and the slot of io_uring of one that waits for a lock is made up for. Time limits of the table are seen to by whoever
//! waits, so none waits for ever because nobody looked.
//!
//! Invariant: each wait ends when the mount does.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Poll, Waker};
use std::time::Duration;

use holdfast_opens::Waiting;
use holdfast_volume::service::FileService;

use crate::answer::{Errno, Way};
use crate::connection::Channel;
use crate::protocol::constants::*;

/// Requests that wait for locks on one reactor.
const MOST_WAITS: u32 = 1 << 14;

/// When it ends, and its end.
type Timer = (Duration, Pin<Box<dyn Future<Output = ()>>>);

/// Why a wait ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By a signal.
    Interrupted,
    /// With its mount.
    Mount,
    /// There is no room for it.
    Refused,
}

impl From<Ended> for Errno {
    fn from(ended: Ended) -> Self {
        Self(match ended {
            Ended::Interrupted => EINTR,
            Ended::Mount => ENOTCONN,
            Ended::Refused => ENOLCK,
        })
    }
}

/// A request that stands aside. With its way its slot is made up for.
struct Aside<'a, S: FileService> {
    channel: &'a Channel<S>,
    way: Option<&'a Way>,
}

impl<S: FileService> Drop for Aside<'_, S> {
    fn drop(&mut self) {
        if let Some(Way::Ring(ring, slot)) = self.way {
            ring.resume(*slot);
        }
        self.channel.come_back();
    }
}

impl<S: FileService> Channel<S> {
    fn stand_aside<'a>(&'a self, way: Option<&'a Way>) -> Aside<'a, S> {
        self.go_aside();
        Aside { channel: self, way }
    }

    /// Whether a request that came so may wait for as long as it takes.
    fn has_room_for(&self, way: &Way) -> bool {
        let has_room = self.standing_aside() < MOST_WAITS;
        has_room
            && match way {
                Way::Ring(ring, slot) => ring.suspend(*slot),
                Way::Device => true,
            }
    }

    /// Asks `poll` until it is ready. A signal to the program ends the wait where the number of its request is given.
    pub(crate) async fn wait<T>(
        &self,
        unique: Option<u64>,
        poll: impl FnMut(Duration, &Waker) -> Poll<T>,
    ) -> Result<T, Ended> {
        let _aside = self.stand_aside(None);
        self.wait_here(unique, poll).await
    }

    /// Does what needs requests to be served meanwhile.
    pub(crate) async fn outside<T>(&self, way: &Way, work: impl Future<Output = T>) -> Result<T, Ended> {
        if !self.has_room_for(way) {
            return Err(Ended::Refused);
        }
        let _aside = self.stand_aside(Some(way));
        Ok(work.await)
    }

    /// The same for a lock, which may be waited for longer than anything else.
    pub(crate) async fn wait_for_lock<T>(
        &self,
        unique: u64,
        way: &Way,
        poll: impl FnMut(Duration, &Waker) -> Poll<T>,
    ) -> Result<T, Ended> {
        if !self.has_room_for(way) {
            return Err(Ended::Refused);
        }
        let _aside = self.stand_aside(Some(way));
        self.wait_here(Some(unique), poll).await
    }

    async fn wait_here<T>(
        &self,
        unique: Option<u64>,
        mut poll: impl FnMut(Duration, &Waker) -> Poll<T>,
    ) -> Result<T, Ended> {
        let (table, clock) = (self.table(), &self.counters.clock);
        let listening = unique.map(|unique| self.connection.interrupts.listen(unique));
        let mut interrupted = listening.as_ref().map(|listening| listening.signal.wait());
        let mut stop = pin!(self.connection.life.stop.wait());
        let mut timer: Option<Timer> = None;
        loop {
            let step = poll_fn(|cx| {
                let now = clock.now();
                if let Poll::Ready(value) = poll(now, cx.waker()) {
                    return Poll::Ready(Some(Ok(value)));
                }
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Some(Err(Ended::Mount)));
                }
                if interrupted.as_mut().is_some_and(|signal| Pin::new(signal).poll(cx).is_ready()) {
                    return Poll::Ready(Some(Err(Ended::Interrupted)));
                }
                let due = table.next_deadline();
                if timer.as_ref().map(|(at, _)| *at) != due {
                    timer = due.map(|at| (at, clock.sleep(at.saturating_sub(now))));
                }
                match &mut timer {
                    Some((_, sleep)) => sleep.as_mut().poll(cx).map(|()| None),
                    None => Poll::Pending,
                }
            });
            if let Some(ended) = step.await {
                return ended;
            }
            timer = None;
            for deletion in table.expire(clock.now()).deletions {
                self.connection.carry_out(deletion).await;
            }
        }
    }
}

/// What a task waits with that is asked for the first time: nobody is to be woken yet.
pub(crate) fn first() -> (Waiting, &'static Waker) {
    (Waiting::new(), Waker::noop())
}
