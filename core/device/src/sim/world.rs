//! The state that all of one simulation shares: clock, timers, power, and the disks with their requests.
//!
//! Invariant: wakers and futures are called and dropped outside the lock, so that whatever they do may ask the world
//! for more; while the power is off nothing is carried out and nothing is answered.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::engine::{Engine, Progress};
use super::latency::{INSTANT_MAX, Served, nanos};
use super::random::{Stream, mix};
use super::request::{Operation, ReplySlot, Request};
use crate::Clock;

/// A request that may be carried out at any moment.
struct Runnable {
    disk: u32,
    request: u64,
}

pub(super) struct WorldState {
    pub(super) seed: u64,
    pub(super) tests: Stream,
    pub(super) schedule: Stream,
    /// One in so many picks is a request where tasks are ready too; each seed has its own tempo.
    pub(super) request_share: u32,
    pub(super) now: u64,
    pub(super) powered: bool,
    /// Whether tasks and requests may start: not without power, nor while tasks are being dropped.
    pub(super) accepting: bool,
    pub(super) cut_at: Option<u64>,
    pub(super) device_writes: u64,
    pub(super) trace: u64,
    pub(super) disks: Vec<Engine>,
    pub(super) in_flight: usize,
    timers: BTreeMap<(u64, u64), Waker>,
    due: BTreeMap<(u64, u64), Runnable>,
    runnable: Vec<Runnable>,
    sequence: u64,
}

pub(super) struct World(Mutex<WorldState>);

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut schedule = Stream::new(seed, 1);
        let request_share = [2, 3, 8, 24][schedule.below(4)];
        Self(Mutex::new(WorldState {
            seed,
            tests: Stream::new(seed, 2),
            schedule,
            request_share,
            now: 0,
            powered: true,
            accepting: true,
            cut_at: None,
            device_writes: 0,
            trace: mix(seed, 0),
            disks: Vec::new(),
            in_flight: 0,
            timers: BTreeMap::new(),
            due: BTreeMap::new(),
            runnable: Vec::new(),
            sequence: 0,
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, WorldState> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl WorldState {
    pub(super) fn trace(&mut self, event: u64) {
        self.trace = mix(self.trace, event);
    }

    pub(super) fn runnable_requests(&self) -> usize {
        self.runnable.len()
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(super) fn submit(&mut self, disk: u32, operation: Operation) -> ReplySlot {
        let request = Request::new(operation);
        let answer = request.answer.clone();
        if !self.accepting {
            return answer;
        }
        let number = self.next_sequence();
        self.in_flight += 1;
        let engine = &mut self.disks[disk as usize];
        match engine.accept(number, request, self.now, &mut self.schedule) {
            Served::Anytime => self.runnable.push(Runnable { disk, request: number }),
            Served::At(time) => self.schedule_end(time, disk, number),
            Served::Queued => {}
        }
        answer
    }

    fn schedule_end(&mut self, time: u64, disk: u32, request: u64) {
        let sequence = self.next_sequence();
        self.due.insert((time, sequence), Runnable { disk, request });
    }

    /// Goes on with the runnable request at `index`; gives whom to wake for its answer.
    pub(super) fn carry_out(&mut self, index: usize) -> Option<Waker> {
        let Runnable { disk, request: number } = self.runnable.swap_remove(index);
        let engine = &mut self.disks[disk as usize];
        let request = engine.request_mut(number)?;
        let counts = request.operation.is_change() && !request.counted && !request.gone;
        if counts {
            if self.cut_at == Some(self.device_writes) {
                self.cut_power();
                return None;
            }
            self.device_writes += 1;
            request.counted = true;
        }
        let fingerprint = request.operation.fingerprint();
        let progress = engine.go_on(number, &mut self.schedule);
        let timed = engine.is_timed();
        self.trace(mix(u64::from(disk), fingerprint));
        if !timed {
            self.now += self.schedule.below_u64(nanos(INSTANT_MAX));
        }
        let Progress::Answered(answer, reply) = progress else {
            self.runnable.push(Runnable { disk, request: number });
            return None;
        };
        self.in_flight -= 1;
        if let Some((next, time)) = self.disks[disk as usize].finished(number, self.now, &mut self.schedule) {
            self.schedule_end(time, disk, next);
        }
        answer.give(reply)
    }

    /// Lets every request of a disk that went away be answered at any moment.
    pub(super) fn release(&mut self, disk: u32, requests: Vec<u64>) {
        self.due.retain(|_, due| due.disk != disk);
        self.runnable.retain(|runnable| runnable.disk != disk);
        self.runnable.extend(requests.into_iter().map(|request| Runnable { disk, request }));
    }

    pub(super) fn cut_power(&mut self) {
        (self.powered, self.accepting, self.cut_at) = (false, false, None);
    }

    /// Settles every disk and forgets all requests; the timers come back for dropping.
    pub(super) fn settle_disks(&mut self) -> Vec<Waker> {
        for engine in &mut self.disks {
            engine.lose_power(&mut self.schedule);
            engine.forget_requests();
        }
        self.due.clear();
        self.runnable.clear();
        self.in_flight = 0;
        self.take_timers()
    }

    pub(super) fn take_timers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.timers).into_values().collect()
    }

    /// Moves the clock to the next thing that is due; false where nothing is.
    pub(super) fn jump(&mut self) -> bool {
        let timer = self.timers.keys().next().map(|(time, _)| *time);
        let end = self.due.keys().next().map(|(time, _)| *time);
        let Some(next) = timer.into_iter().chain(end).min() else { return false };
        self.now = self.now.max(next);
        true
    }

    /// Takes what is due by now: requests become runnable, wakers come back for waking.
    pub(super) fn take_due(&mut self, wakers: &mut Vec<Waker>) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= self.now) {
            self.runnable.push(entry.remove());
        }
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= self.now) {
            wakers.push(entry.remove());
        }
    }
}

/// The simulated clock.
pub(super) struct SimClock(pub(super) Arc<World>);

impl Clock for SimClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.lock().now)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        let deadline = self.0.lock().now.saturating_add(nanos(duration));
        Box::pin(Sleep { world: self.0.clone(), deadline, timer: None })
    }
}

struct Sleep {
    world: Arc<World>,
    deadline: u64,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let world = self.world.clone();
        let mut state = world.lock();
        if state.now >= self.deadline {
            return Poll::Ready(());
        }
        let timer = *self.timer.get_or_insert_with(|| state.next_sequence());
        let replaced = state.timers.insert((self.deadline, timer), cx.waker().clone());
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            let removed = self.world.lock().timers.remove(&(self.deadline, timer));
            drop(removed);
        }
    }
}
