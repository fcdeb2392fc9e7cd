//! The loop of one reactor and what it holds.
//!
//! A turn runs the tasks that are ready, submits what they asked for in one batch, and takes what is finished. A turn
//! in which nothing came from outside is idle. Idle turns spin as long as [`Patience`] lets them: each retries the
//! waiting sockets and yields the core, so that a client on the same core gets to run.
//!
//! Invariant: a reactor sleeps only when nothing is ready, nothing was injected, and each socket that a task waits for
//! is armed in the ring.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use async_task::Runnable;
use io_uring::{opcode, squeue, types};

use super::ReactorSettings;
use super::clock::{Timers, monotonic};
use super::cpu_latency::CpuLatency;
use super::operation::Operations;
use super::patience::Patience;
use super::ring::{Ring, Token};
use super::shared::{Injected, Shared};
use super::waits::Waits;

/// Socket calls that a task may make before it lets others run.
const BUDGET: u32 = 128;
/// So many waiting sockets are retried directly at each spin; more are armed in the ring.
const RETRIED_SOCKETS: usize = 8;
/// While busy, waiting sockets are looked after once in so many turns.
const BUSY_TURNS: u64 = 4;

thread_local! {
    static CURRENT: Cell<*const Core> = const { Cell::new(std::ptr::null()) };
}

/// Calls `act` with the reactor of this thread, if it runs one.
pub(crate) fn with_core<R>(act: impl FnOnce(&Core) -> R) -> Option<R> {
    let core = CURRENT.with(Cell::get);
    // SAFETY: the pointer is set by Entered, which borrows the core and resets the pointer before that borrow ends.
    unsafe { core.as_ref() }.map(act)
}

pub(crate) struct Core {
    serial: u64,
    shared: Arc<Shared>,
    ring: Ring,
    ready: RefCell<VecDeque<Runnable>>,
    incoming: RefCell<VecDeque<Injected>>,
    completions: RefCell<Vec<(Token, i32)>>,
    operations: Operations,
    waits: RefCell<Waits>,
    timers: RefCell<Timers>,
    budget: Cell<u32>,
    main_woken: Cell<bool>,
    /// What came from outside in this turn: completions, socket calls that moved something, timers, other threads'
    /// wishes.
    progress: Cell<u32>,
    spin: Duration,
    cpu_latency: Option<Arc<CpuLatency>>,
}

impl Core {
    pub(crate) fn new(settings: &ReactorSettings) -> io::Result<Self> {
        static SERIALS: AtomicU64 = AtomicU64::new(1);
        if let Some(core) = settings.core {
            bind_to(core)?;
        }
        Ok(Self {
            serial: SERIALS.fetch_add(1, Ordering::Relaxed),
            shared: Arc::new(Shared::new(&settings.name)?),
            ring: Ring::new(settings.ring_entries)?,
            ready: RefCell::default(),
            incoming: RefCell::default(),
            completions: RefCell::default(),
            operations: Operations::new(settings.ring_entries.max(1)),
            waits: RefCell::default(),
            timers: RefCell::default(),
            budget: Cell::new(BUDGET),
            main_woken: Cell::new(true),
            progress: Cell::new(0),
            spin: settings.spin,
            cpu_latency: settings.cpu_latency.clone(),
        })
    }

    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn operations(&self) -> &Operations {
        &self.operations
    }

    pub(crate) fn waits(&self) -> &RefCell<Waits> {
        &self.waits
    }

    pub(crate) fn timers(&self) -> &RefCell<Timers> {
        &self.timers
    }

    pub(crate) fn push_ready(&self, runnable: Runnable) {
        self.ready.borrow_mut().push_back(runnable);
    }

    pub(crate) fn wake_main(&self) {
        self.main_woken.set(true);
    }

    /// Something came from outside.
    pub(crate) fn note_progress(&self) {
        self.progress.set(self.progress.get().saturating_add(1));
    }

    pub(crate) fn refill_budget(&self) {
        self.budget.set(BUDGET);
    }

    /// Whether the running task may make one more socket call before others get their turn.
    pub(crate) fn spend_budget(&self) -> bool {
        let left = self.budget.get();
        self.budget.set(left.saturating_sub(1));
        left > 0
    }

    /// # Safety
    /// Whatever `entry` points to stays valid until its completion is reaped.
    pub(crate) unsafe fn push(&self, entry: &squeue::Entry) {
        // SAFETY: the caller keeps what the entry points to.
        unsafe { self.ring.push(entry, &self.shared.counters) };
    }

    /// Turns until `finished`, which is asked at each turn, says so.
    pub(crate) fn run(&self, mut finished: impl FnMut() -> bool) {
        self.arm_bell();
        let counters = &self.shared.counters;
        let mut patience = Patience::new(self.spin);
        let mut turns = 0u64;
        loop {
            counters.loops.add(1);
            turns += 1;
            self.run_ready();
            self.main_woken.set(false);
            if finished() {
                return;
            }
            self.take_incoming();
            if self.ring.wants_enter() {
                self.ring.enter(0, None).expect("the ring takes entries");
            }
            self.reap();
            self.fire_timers();

            let moved = self.progress.replace(0) > 0;
            if moved {
                let now = monotonic();
                patience.end(now);
                if let Some(latency) = self.cpu_latency.as_ref().filter(|_| patience.is_pressed()) {
                    latency.renew(now);
                }
            }
            if self.has_ready() {
                if turns.is_multiple_of(BUSY_TURNS) {
                    self.look_after_sockets();
                }
                continue;
            }
            if moved {
                continue;
            }
            if patience.spin(monotonic()) {
                counters.spins.add(1);
                // SAFETY: a system call without arguments.
                unsafe { libc::sched_yield() };
                patience.spun(monotonic());
                self.look_after_sockets();
            } else {
                self.sleep();
            }
        }
    }

    fn has_ready(&self) -> bool {
        self.main_woken.get() || !self.ready.borrow().is_empty()
    }

    /// Runs the tasks that are ready now; those that they wake run at the next turn.
    fn run_ready(&self) {
        let count = self.ready.borrow().len();
        for _ in 0..count {
            let Some(runnable) = self.ready.borrow_mut().pop_front() else { break };
            self.refill_budget();
            runnable.run();
        }
    }

    fn take_incoming(&self) {
        if !self.shared.is_pending() {
            return;
        }
        self.note_progress();
        // The future of block_on may have been woken by another thread.
        self.main_woken.set(true);
        let mut incoming = self.incoming.take();
        self.shared.take_pending(&mut incoming);
        for item in incoming.drain(..) {
            match item {
                Injected::Run(runnable) => self.push_ready(runnable),
                Injected::Start(start) => start(),
                Injected::Submit(key) => self.submit_operation(key),
            }
        }
        self.incoming.replace(incoming);
    }

    fn reap(&self) {
        let mut completions = self.completions.take();
        self.ring.reap(&mut completions);
        if !completions.is_empty() {
            self.shared.counters.completed.add(completions.len() as u64);
            for (token, result) in completions.drain(..) {
                match token {
                    Token::Operation(key) => {
                        self.note_progress();
                        self.operation_completed(key, result);
                    }
                    Token::Poll(key) => {
                        self.note_progress();
                        self.poll_completed(key);
                    }
                    Token::Bell => {
                        self.shared.silence_bell();
                        self.arm_bell();
                    }
                    Token::Nobody => {}
                }
            }
        }
        self.completions.replace(completions);
    }

    fn fire_timers(&self) {
        if self.timers.borrow().next_deadline().is_none() {
            return;
        }
        let now = monotonic();
        loop {
            let due = self.timers.borrow_mut().pop_due(now);
            let Some(waker) = due else { return };
            self.note_progress();
            waker.wake();
        }
    }

    fn look_after_sockets(&self) {
        let hot = self.waits.borrow().hot();
        if hot > RETRIED_SOCKETS {
            self.arm_hot();
        } else if hot > 0 {
            self.retry_hot();
        }
    }

    fn sleep(&self) {
        self.arm_hot();
        if !self.shared.begin_sleep() {
            return;
        }
        let deadline = self.timers.borrow().next_deadline();
        let timer = deadline.map(|deadline| deadline.saturating_sub(monotonic()));
        let latency = self.cpu_latency.as_ref().and_then(|latency| latency.remaining(monotonic()));
        let timeout = timer.into_iter().chain(latency).min();
        self.shared.counters.sleeps.add(1);
        self.ring.enter(1, timeout).expect("the ring waits");
        self.shared.end_sleep();
    }

    fn arm_bell(&self) {
        let poll = opcode::PollAdd::new(types::Fd(self.shared.bell()), libc::POLLIN as u32).build();
        // SAFETY: a poll points to no memory.
        unsafe { self.push(&poll.user_data(Token::Bell.pack())) };
    }

    /// Ends every task: runs those that are ready, waits for the storage operations in flight, drops what waits then.
    fn wind_down(&self) {
        if !std::thread::panicking() {
            self.take_incoming();
            self.run_ready();
        }
        loop {
            for item in self.shared.close() {
                match item {
                    Injected::Run(runnable) => self.push_ready(runnable),
                    Injected::Start(start) => drop(start),
                    Injected::Submit(key) => self.submit_operation(key),
                }
            }
            if !self.operations.any_unfinished() {
                break;
            }
            self.ring.enter(1, Some(Duration::from_millis(10))).expect("the ring waits");
            self.reap();
        }
        loop {
            let mut wakers: Vec<Waker> = self.timers.borrow_mut().clear();
            wakers.extend(self.waits.borrow_mut().clear());
            wakers.extend(self.operations.clear());
            let ready = self.ready.take();
            if wakers.is_empty() && ready.is_empty() {
                return;
            }
            drop(wakers);
            drop(ready);
        }
    }
}

/// A core that is this thread's reactor as long as this lives.
pub(crate) struct Entered<'a> {
    core: &'a Core,
}

impl<'a> Entered<'a> {
    /// # Panics
    /// If this thread runs a reactor already.
    pub(crate) fn new(core: &'a Core) -> Self {
        assert!(CURRENT.with(Cell::get).is_null(), "this thread runs a reactor already");
        CURRENT.with(|current| current.set(core));
        Self { core }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // Tasks that are dropped may use this thread's reactor to the end.
        self.core.wind_down();
        CURRENT.with(|current| current.set(std::ptr::null()));
    }
}

fn bind_to(core: usize) -> io::Result<()> {
    // SAFETY: a set of cores is plain data for which zeros are valid; the macro checks the range; the pointer is to it.
    let outcome = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if core >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("core {core} is beyond the largest core number"),
            ));
        }
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if outcome == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(io::Error::new(
        error.kind(),
        format!("this thread cannot be bound to core {core}: {error}; choose one that is online"),
    ))
}
