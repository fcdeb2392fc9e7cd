//! Sockets that tasks wait for.
//!
//! ```text
//!   idle ── task finds nothing ──▶ hot ── reactor goes to sleep ──▶ armed ── poll completes ──▶ idle, task woken
//!                                   └── reactor spins: task woken, tries again ──▶ idle
//! ```
//!
//! Invariant: a poll is armed at most once for each direction of a socket, and is cancelled before the socket closes,
//! because the kernel keeps a socket open as long as it is polled.

use std::cell::Cell;
use std::os::fd::RawFd;
use std::task::{Context, Waker};

use io_uring::{opcode, types};
use slab::Slab;

use super::core::{Core, with_core};
use super::ring::Token;

struct Wait {
    fd: RawFd,
    events: u32,
    waker: Option<Waker>,
    hot: bool,
    armed: bool,
    gone: bool,
}

#[derive(Default)]
pub(crate) struct Waits {
    entries: Slab<Wait>,
    hot: Vec<u32>,
    spare: Vec<u32>,
}

impl Waits {
    /// Sockets that wait without a poll in the ring.
    pub(crate) fn hot(&self) -> usize {
        self.hot.len()
    }

    pub(crate) fn clear(&mut self) -> Vec<Waker> {
        self.entries.iter_mut().filter_map(|(_, wait)| wait.waker.take()).collect()
    }
}

impl Core {
    /// Wakes the tasks of all hot sockets, so that they try again.
    pub(crate) fn retry_hot(&self) {
        let mut keys = {
            let mut waits = self.waits().borrow_mut();
            let spare = std::mem::take(&mut waits.spare);
            std::mem::replace(&mut waits.hot, spare)
        };
        for key in keys.drain(..) {
            let waker = self.waits().borrow_mut().entries.get_mut(key as usize).and_then(|wait| {
                wait.hot = false;
                wait.waker.take()
            });
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        self.waits().borrow_mut().spare = keys;
    }

    /// Arms polls for all hot sockets.
    pub(crate) fn arm_hot(&self) {
        let mut waits = self.waits().borrow_mut();
        let waits = &mut *waits;
        for key in waits.hot.drain(..) {
            if let Some(wait) = waits.entries.get_mut(key as usize) {
                wait.hot = false;
                self.arm(key, wait);
            }
        }
    }

    fn arm(&self, key: u32, wait: &mut Wait) {
        if !wait.gone && !wait.armed {
            wait.armed = true;
            let poll = opcode::PollAdd::new(types::Fd(wait.fd), wait.events).build().user_data(Token::Poll(key).pack());
            // SAFETY: a poll points to no memory.
            unsafe { self.push(&poll) };
        }
    }

    /// A poll completed: the socket may have something, or was closed.
    pub(crate) fn poll_completed(&self, key: u32) {
        let waker = {
            let mut waits = self.waits().borrow_mut();
            let Some(wait) = waits.entries.get_mut(key as usize) else { return };
            wait.armed = false;
            if wait.gone {
                waits.entries.remove(key as usize);
                return;
            }
            wait.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// One direction of a socket, known to the reactor of the thread that waited for it first.
#[derive(Debug)]
pub(crate) struct Readiness {
    fd: RawFd,
    events: u32,
    /// A listener is armed at once: new connections are too rare to try for them at every turn.
    patient: bool,
    place: Cell<Option<(u64, u32)>>,
}

impl Readiness {
    pub(crate) fn new(fd: RawFd, events: i16, patient: bool) -> Self {
        Self { fd, events: events as u32, patient, place: Cell::new(None) }
    }

    /// Wakes the task of `cx` when the socket may have something.
    pub(crate) fn wait(&self, cx: &Context<'_>) {
        with_core(|core| {
            let mut waits = core.waits().borrow_mut();
            let waits = &mut *waits;
            let key = match self.place.get() {
                Some((serial, key)) => {
                    assert_eq!(serial, core.serial(), "a socket stays on the reactor that waited for it first");
                    key
                }
                None => {
                    let wait =
                        Wait { fd: self.fd, events: self.events, waker: None, hot: false, armed: false, gone: false };
                    let key = waits.entries.insert(wait) as u32;
                    self.place.set(Some((core.serial(), key)));
                    key
                }
            };
            let wait = &mut waits.entries[key as usize];
            match &mut wait.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                empty => *empty = Some(cx.waker().clone()),
            }
            if self.patient {
                core.arm(key, wait);
            } else if !wait.hot && !wait.armed {
                wait.hot = true;
                waits.hot.push(key);
            }
        })
        .expect("sockets are waited for on a reactor's thread");
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        let Some((serial, key)) = self.place.get() else { return };
        with_core(|core| {
            if serial != core.serial() {
                return;
            }
            let mut waits = core.waits().borrow_mut();
            let wait = &mut waits.entries[key as usize];
            wait.gone = true;
            let waker = wait.waker.take();
            if wait.armed {
                let cancel = opcode::AsyncCancel::new(Token::Poll(key).pack()).build().user_data(Token::Nobody.pack());
                // SAFETY: a cancellation points to no memory.
                unsafe { core.push(&cancel) };
            } else {
                waits.entries.remove(key as usize);
            }
            drop(waits);
            drop(waker);
        });
    }
}
