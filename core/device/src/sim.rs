//! The simulated world: an executor, a clock and disks that fail, all from one seed.
//!
//! ```text
//!   Sim ── tasks (executor)          picked at random among the ready
//!    └──── world ── clock, timers    time stands still while anything is ready, then jumps
//!             └──── disks ── requests carried out in random order, or as the latency model says
//!                    └────── content: durable blocks + changes that a power cut may lose, tear or reorder
//! ```
//!
//! Invariant: everything that happens is a function of the seed and of what the test asks for. No thread, no real time
//! and no address takes part, so a failure is replayed by its seed, which is printed when a run panics.
//!
//! ```
//! use holdfast_device::sim::{PowerCut, Sim, SimDisk, SimDiskSpec};
//! use holdfast_device::{Device, Durability, IoBuf, IoSlice};
//!
//! let sim = Sim::new(7);
//! let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 1 << 40, ..SimDiskSpec::default() });
//!
//! // Two writes are carried out; the power fails before the third.
//! sim.cut_power_after(2);
//! let writer = disk.clone();
//! let cut = sim.run(async move {
//!     writer.write(0, IoSlice::padded(b"kept"), Durability::Durable).await.unwrap();
//!     writer.write(4096, IoSlice::padded(b"perhaps"), Durability::Cached).await.unwrap();
//!     writer.write(8192, IoSlice::padded(b"perhaps in part"), Durability::Durable).await.unwrap();
//! });
//! assert_eq!(cut, Err(PowerCut));
//!
//! sim.restart();
//! let reader = disk.clone();
//! let block = sim.run(async move { reader.read(0, IoBuf::new(4096)).await.unwrap() }).unwrap();
//! assert_eq!(&block[..4], b"kept");
//! ```

mod content;
mod disk;
mod engine;
mod executor;
mod faults;
mod latency;
mod random;
mod request;
#[cfg(test)]
mod tests;
mod world;

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use crate::Clock;
pub use disk::{Disappearance, SimCounters, SimDisk, SimDiskSpec, SimImage};
use executor::Executor;
pub use executor::SimTask;
pub use faults::ErrorPersistence;
pub use latency::{HddModel, INSTANT_MAX, Latency, SsdModel};
pub use random::SimRandom;
use world::{SimClock, World};

/// Steps that one run may take before it counts as hanging, unless [`Sim::limit_steps`] says otherwise.
pub const DEFAULT_STEP_LIMIT: u64 = 100_000_000;

/// The power failed before the future ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut;

impl std::fmt::Display for PowerCut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the simulated power was cut; `Sim::restart` turns it on again")
    }
}

impl std::error::Error for PowerCut {}

/// A simulated world, and the handle on it. It stays on the thread that made it.
///
/// The handle that [`Sim::new`] gives owns the world: when it is dropped, all tasks are. Clones may be moved into
/// tasks without keeping the world alive for ever.
pub struct Sim {
    executor: Rc<Executor>,
    world: Arc<World>,
    running: Rc<std::cell::Cell<bool>>,
    step_limit: Rc<std::cell::Cell<u64>>,
    after_step: Rc<std::cell::RefCell<Box<dyn Fn()>>>,
    owner: bool,
}

impl Clone for Sim {
    fn clone(&self) -> Self {
        Self {
            executor: self.executor.clone(),
            world: self.world.clone(),
            running: self.running.clone(),
            step_limit: self.step_limit.clone(),
            after_step: self.after_step.clone(),
            owner: false,
        }
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        if self.owner {
            self.world.lock().accepting = false;
            self.executor.clear();
            let timers = self.world.lock().settle_disks();
            drop(timers);
        }
    }
}

/// Says the seed where a run panics.
struct SeedOnPanic<'a> {
    seed: u64,
    running: &'a std::cell::Cell<bool>,
}

impl Drop for SeedOnPanic<'_> {
    fn drop(&mut self) {
        self.running.set(false);
        if std::thread::panicking() {
            eprintln!("simulation seed: {}", self.seed);
        }
    }
}

impl Sim {
    /// A world that does the same again for the same seed.
    pub fn new(seed: u64) -> Self {
        Self {
            executor: Rc::default(),
            world: Arc::new(World::new(seed)),
            running: Rc::default(),
            step_limit: Rc::new(std::cell::Cell::new(DEFAULT_STEP_LIMIT)),
            after_step: Rc::new(std::cell::RefCell::new(Box::new(|| ()))),
            owner: true,
        }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.world.lock().seed
    }

    /// Random numbers for the test itself.
    pub fn random(&self) -> SimRandom {
        SimRandom { world: self.world.clone() }
    }

    /// The simulated clock, which starts at zero and goes on over restarts.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SimClock(self.world.clone()))
    }

    /// Starts a task. Without power it is dropped at once.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        if self.world.lock().accepting {
            self.executor.spawn(Box::pin(future));
        }
    }

    /// Starts a task whose result can be awaited or taken. Without power it is dropped at once and never ends.
    pub fn spawn_handle<R: 'static>(&self, future: impl Future<Output = R> + 'static) -> SimTask<R> {
        let accepting = self.world.lock().accepting;
        SimTask::spawn(&self.executor, accepting, future)
    }

    /// Runs the world until `future` ends.
    ///
    /// # Errors
    /// [`PowerCut`] when the power was cut meanwhile, or is off already; nothing is polled after that.
    ///
    /// # Panics
    /// If nothing is ready, nothing is in flight and no timer is set while the future has not ended, or if it takes
    /// more steps than the limit.
    pub fn run<R: 'static>(&self, future: impl Future<Output = R> + 'static) -> Result<R, PowerCut> {
        let root = self.spawn_handle(future);
        self.drive(|| root.is_finished(), true)?;
        Ok(root.try_take().expect("a root task that ended has a result"))
    }

    /// Runs the world until no task is ready and no request is in flight, or the power is cut. Timers run out only
    /// while there are requests to wait for.
    pub fn run_until_idle(&self) {
        let idle = || self.executor.ready_tasks() == 0 && self.world.lock().in_flight == 0;
        // Without power the world is idle too.
        let _ = self.drive(idle, false);
    }

    fn drive(&self, is_done: impl Fn() -> bool, must_end: bool) -> Result<(), PowerCut> {
        let seed = self.seed();
        assert!(!self.running.replace(true), "seed {seed}: a simulation is not run from inside one of its tasks");
        let _guard = SeedOnPanic { seed, running: &self.running };
        for _ in 0..self.step_limit.get() {
            if !self.world.lock().powered {
                return Err(PowerCut);
            }
            if is_done() {
                return Ok(());
            }
            if !self.step() {
                assert!(
                    !must_end,
                    "seed {seed}: deadlock: no task is ready, no request is in flight and no timer is set"
                );
                return Ok(());
            }
            (self.after_step.borrow())();
        }
        panic!("seed {seed}: the run did not end within {} steps", self.step_limit.get());
    }

    /// Polls one task or goes on with one request; where there is neither, moves the clock. False where nothing is
    /// left.
    fn step(&self) -> bool {
        let mut wakers = Vec::new();
        let ready = self.executor.ready_tasks();
        let mut state = self.world.lock();
        let requests = state.runnable_requests();
        let share = state.request_share;
        if ready == 0 && requests == 0 {
            let moved = state.jump();
            state.take_due(&mut wakers);
            drop(state);
            wakers.into_iter().for_each(std::task::Waker::wake);
            return moved;
        }
        if requests > 0 && (ready == 0 || state.schedule.chance(1, share)) {
            let index = state.schedule.below(requests);
            wakers.extend(state.carry_out(index));
            state.take_due(&mut wakers);
            drop(state);
            wakers.into_iter().for_each(std::task::Waker::wake);
            return true;
        }
        let index = state.schedule.below(ready);
        drop(state);
        let task = self.executor.poll_ready(index);
        self.world.lock().trace(u64::from(task.slot) << 32 | u64::from(task.generation));
        true
    }

    /// Cuts the power now: nothing more is polled, carried out or answered until [`Sim::restart`].
    pub fn cut_power(&self) {
        self.world.lock().cut_power();
    }

    /// Cuts the power after `device_writes` more writes, flushes and discards of any disks were carried out, when
    /// the next one is about to be. That one is in flight then, and may be found done, torn or not done.
    ///
    /// Over a run that makes `n` of them, `0..n` are all the points between two.
    pub fn cut_power_after(&self, device_writes: u64) {
        let mut state = self.world.lock();
        state.cut_at = Some(state.device_writes + device_writes);
    }

    /// Drops all tasks and timers, settles the cache of every disk, and turns the power on. Where it was on, this is
    /// a power cut too. Disks that are away stay away.
    ///
    /// # Panics
    /// If called by a task.
    pub fn restart(&self) {
        self.end_tasks();
        let timers = self.world.lock().settle_disks();
        drop(timers);
        let mut state = self.world.lock();
        (state.powered, state.accepting) = (true, true);
    }

    /// Drops all tasks and timers as if the process were killed: the disks keep their power, their caches and the
    /// requests under way, which go on unanswered.
    ///
    /// # Panics
    /// If called by a task.
    pub fn kill(&self) {
        self.end_tasks();
        let timers = self.world.lock().take_timers();
        drop(timers);
        let mut state = self.world.lock();
        state.accepting = state.powered;
    }

    fn end_tasks(&self) {
        assert!(!self.running.get(), "seed {}: a simulation is not restarted by one of its tasks", self.seed());
        let mut state = self.world.lock();
        (state.accepting, state.cut_at) = (false, None);
        drop(state);
        self.executor.clear();
    }

    /// Writes, flushes and discards of all disks that were carried out so far.
    pub fn device_writes(&self) -> u64 {
        self.world.lock().device_writes
    }

    /// Whether the power is on.
    pub fn is_powered(&self) -> bool {
        self.world.lock().powered
    }

    /// A hash of everything that happened so far. Two runs of one seed that differ here are not deterministic.
    pub fn trace_hash(&self) -> u64 {
        let state = self.world.lock();
        random::mix(state.trace, state.now)
    }

    /// Has `check` called after every step: what must hold between any two is asserted there. It does not keep the
    /// world running.
    pub fn after_every_step(&self, check: impl Fn() + 'static) {
        *self.after_step.borrow_mut() = Box::new(check);
    }

    /// Sets how many steps one run may take before it panics as hanging.
    pub fn limit_steps(&self, steps: u64) {
        self.step_limit.set(steps);
    }

    pub(in crate::sim) fn world(&self) -> &Arc<World> {
        &self.world
    }
}
