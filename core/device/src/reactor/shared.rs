//! The part of a reactor that other threads see: its queue, its bell and its counters.
//!
//! ```text
//!   another thread            the reactor
//!   push to the queue         sleeping = true
//!   pending = true            pending?  ── yes ─▶ do not sleep
//!   sleeping? ── yes ─▶ ring  sleep until the bell or a completion
//! ```
//!
//! Invariant: whatever is pushed is seen before the reactor sleeps, or the bell rings. The bell is an eventfd, written
//! only while the reactor sleeps.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Wake;

use async_task::Runnable;

use super::ReactorStats;
use super::core::with_core;

/// What comes in from another thread.
pub(crate) enum Injected {
    /// A task that was woken.
    Run(Runnable),
    /// A task to be made.
    Start(Box<dyn FnOnce() + Send>),
    /// A storage operation of this reactor whose turn at its device has come.
    Submit(u32),
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Injected>,
    closed: bool,
}

/// Counters that only the reactor's thread writes.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) loops: Counter,
    pub(crate) sleeps: Counter,
    pub(crate) spins: Counter,
    pub(crate) submitted: Counter,
    pub(crate) completed: Counter,
}

#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds without a locked instruction: there is one writer.
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct Shared {
    name: String,
    queue: Mutex<Queue>,
    pending: AtomicBool,
    sleeping: AtomicBool,
    stopping: AtomicBool,
    bell: OwnedFd,
    pub(crate) counters: Counters,
}

impl Shared {
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        // SAFETY: a plain system call without pointers.
        let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if bell < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            name: name.into(),
            queue: Mutex::default(),
            pending: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            // SAFETY: the descriptor was just made and belongs to nobody else.
            bell: unsafe { OwnedFd::from_raw_fd(bell) },
            counters: Counters::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn bell(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    pub(crate) fn silence_bell(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the eight bytes live for the call, which does not block.
        unsafe { libc::read(self.bell(), count.as_mut_ptr().cast(), count.len()) };
    }

    pub(crate) fn is_current(&self) -> bool {
        with_core(|core| std::ptr::eq(&**core.shared(), self)).unwrap_or(false)
    }

    /// Puts a woken task where its reactor finds it.
    pub(crate) fn schedule(&self, runnable: Runnable) {
        let mut runnable = Some(runnable);
        with_core(|core| {
            if std::ptr::eq(&**core.shared(), self) {
                core.push_ready(runnable.take().expect("scheduled once"));
            }
        });
        if let Some(Injected::Run(late)) = runnable.and_then(|runnable| self.inject(Injected::Run(runnable))) {
            // The task belongs to a thread that has ended; no other thread may drop it.
            std::mem::forget(late);
        }
    }

    /// Hands `item` to the reactor, or back when the reactor has stopped.
    pub(crate) fn inject(&self, item: Injected) -> Option<Injected> {
        {
            let mut queue = self.lock();
            if queue.closed && !matches!(item, Injected::Submit(_)) {
                return Some(item);
            }
            queue.items.push_back(item);
        }
        self.notify();
        None
    }

    fn notify(&self) {
        self.pending.store(true, Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst) && self.sleeping.swap(false, Ordering::SeqCst) {
            let one = 1u64.to_ne_bytes();
            // SAFETY: the eight bytes live for the call. A full counter would mean that the bell rings already.
            unsafe { libc::write(self.bell(), one.as_ptr().cast(), one.len()) };
        }
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.notify();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// Takes what came in, into the empty `into`.
    pub(crate) fn take_pending(&self, into: &mut VecDeque<Injected>) {
        if self.pending.swap(false, Ordering::SeqCst) {
            std::mem::swap(&mut self.lock().items, into);
        }
    }

    /// Says that the bell is needed from now on. False: something came in meanwhile, and the reactor must look at it.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        if self.pending.load(Ordering::SeqCst) {
            self.sleeping.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    pub(crate) fn end_sleep(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    /// Takes what is left, and lets nothing more in but turns of operations that were started before.
    pub(crate) fn close(&self) -> VecDeque<Injected> {
        let mut queue = self.lock();
        queue.closed = true;
        std::mem::take(&mut queue.items)
    }

    pub(crate) fn stats(&self) -> ReactorStats {
        let counters = &self.counters;
        ReactorStats {
            loops: counters.loops.get(),
            sleeps: counters.sleeps.get(),
            spins: counters.spins.get(),
            submitted: counters.submitted.get(),
            completed: counters.completed.get(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Wakes the future of `block_on`.
pub(crate) struct MainWaker {
    shared: Arc<Shared>,
    woken: AtomicBool,
}

impl MainWaker {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, woken: AtomicBool::new(true) }
    }

    pub(crate) fn take(&self) -> bool {
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::SeqCst)
    }
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if self.shared.is_current() {
            with_core(|core| core.wake_main());
        } else {
            self.shared.notify();
        }
    }
}
