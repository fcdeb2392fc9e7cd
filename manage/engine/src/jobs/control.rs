//! What steers a job while it works: whether it may go on, how much it makes way, and how fast it may be.
//!
//! Before each step the work asks here, and the step begins when all of these let it:
//!
//! ```text
//!   gate       open; held: waits until it is opened; shut: the work ends before the step
//!   share      if clients' requests came to the pool since the work asked last:
//!                  pause = factor x the time the last step took        low 4, normal 1, high 0; PAUSE at most
//!              so that low takes a fifth and normal half of the time while clients work; without clients no pause
//!   cap        a step leaves a debt of its bytes, which is paid off at the cap; the next begins when it is paid
//! ```
//!
//! Invariant: a change of gate, priority or cap takes hold at once, also for a step that waits already; over any time,
//! no more than the cap allows and one step is done.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::select;
use holdfast_api::{JobPace, JobPriority};
use holdfast_device::Clock;
use holdfast_space::{Pace, Stopped};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::progress::Progress;

/// The longest pause between two steps for the sake of clients.
const PAUSE: Duration = Duration::from_secs(5);

/// Whether the work may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobGate {
    Open,
    Held,
    Shut,
}

#[derive(Clone, Copy)]
struct Orders {
    gate: JobGate,
    pace: JobPace,
}

/// Bytes done ahead of what the cap allows.
#[derive(Default)]
struct Debt {
    bytes: f64,
    at: Duration,
}

impl Debt {
    /// How long it takes from `now` until it is paid off.
    fn left(&mut self, cap: Option<u64>, now: Duration) -> Duration {
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        self.at = now;
        self.bytes = cap.map_or(0.0, |cap| (self.bytes - elapsed * cap as f64).max(0.0));
        let seconds = cap.map_or(0.0, |cap| self.bytes / cap as f64);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[derive(Default)]
struct Step {
    begun: Option<Duration>,
    requests: u64,
    debt: Debt,
}

/// Steers one job; the work holds it as its [`Pace`].
pub(super) struct Control {
    orders: watch::Sender<Orders>,
    clock: Arc<dyn Clock>,
    requests: Box<dyn Fn() -> u64 + Send + Sync>,
    turn: Mutex<Step>,
    pub(super) progress: Progress,
    resume: Mutex<Option<ResumePoint>>,
    waits: AtomicBool,
    /// Whether it was asked for once more, by who changed what it goes by, since it began.
    anew: AtomicBool,
}

/// How far work came that goes over a space once, and what it had found there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ResumePoint {
    /// The chunk that comes next.
    pub(super) chunk: u32,
    pub(super) checked_bytes: u64,
    pub(super) unchecked_bytes: u64,
    pub(super) repaired_blocks: u64,
    pub(super) unrepaired_blocks: u64,
    /// Of a restore, the checkpoint of the snapshot that keeps what was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<u64>,
}

fn factor(priority: JobPriority) -> u32 {
    match priority {
        JobPriority::Low => 4,
        JobPriority::Normal => 1,
        JobPriority::High => 0,
    }
}

impl Control {
    /// An open gate before `total_bytes` of work. `requests` counts those that clients sent to the pool so far.
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        requests: impl Fn() -> u64 + Send + Sync + 'static,
        total_bytes: u64,
        pace: JobPace,
    ) -> Self {
        let progress = Progress::new(total_bytes);
        progress.begin(clock.now());
        let turn = Step { requests: requests(), ..Step::default() };
        Self {
            orders: watch::channel(Orders { gate: JobGate::Open, pace }).0,
            clock,
            requests: Box::new(requests),
            turn: Mutex::new(turn),
            progress,
            resume: Mutex::default(),
            waits: AtomicBool::new(false),
            anew: AtomicBool::new(false),
        }
    }

    /// What the work goes by has changed: it is to begin again.
    pub(super) fn ask_anew(&self) {
        self.anew.store(true, Ordering::SeqCst);
    }

    /// Whether it is to begin again; who asks does so now.
    pub(super) fn takes_anew(&self) -> bool {
        self.anew.swap(false, Ordering::SeqCst)
    }

    /// Whether it waits for what another job moves.
    pub(super) fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Where the work may go on if it is begun anew.
    pub(super) fn resume_point(&self) -> Option<ResumePoint> {
        *self.resume.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where the work may go on if it is begun anew.
    pub(super) fn set_resume_point(&self, point: Option<ResumePoint>) {
        *self.resume.lock().unwrap_or_else(PoisonError::into_inner) = point;
    }

    fn turn(&self) -> MutexGuard<'_, Step> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens, holds or shuts the gate. A gate that is shut stays so.
    pub(super) fn set_gate(&self, gate: JobGate) {
        if gate == JobGate::Open {
            self.progress.begin(self.clock.now());
        }
        self.orders.send_modify(|orders| {
            if orders.gate != JobGate::Shut {
                orders.gate = gate;
            }
        });
    }

    /// Sets how much it makes way and how fast it may be.
    pub(super) fn set_pace(&self, pace: JobPace) {
        self.orders.send_modify(|orders| orders.pace = pace);
    }

    /// Bytes a second, of late.
    pub(super) fn rate(&self) -> u64 {
        self.progress.rate(self.clock.now())
    }

    /// How long the last step took, if clients' requests came since the last call.
    fn disturbed(&self, now: Duration) -> Duration {
        let requests = (self.requests)();
        let mut turn = self.turn();
        let before = std::mem::replace(&mut turn.requests, requests);
        match turn.begun.take() {
            Some(begun) if requests != before => now.saturating_sub(begun),
            _ => Duration::ZERO,
        }
    }

    async fn next(&self, bytes: u64) -> Result<(), Stopped> {
        let mut orders = self.orders.subscribe();
        let asked = self.clock.now();
        let took = self.disturbed(asked);
        loop {
            let Orders { gate, pace: JobPace { priority, cap_bytes_per_second: cap } } = *orders.borrow_and_update();
            let now = self.clock.now();
            let left = match gate {
                JobGate::Shut => return Err(Stopped),
                JobGate::Held => None,
                JobGate::Open => {
                    let pause = (took * factor(priority)).min(PAUSE);
                    Some((asked + pause).saturating_sub(now).max(self.turn().debt.left(cap, now)))
                }
            };
            match left {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    select(self.clock.sleep(left), pin!(orders.changed())).await;
                }
                None => {
                    let _ = orders.changed().await;
                }
            }
        }
        let mut turn = self.turn();
        turn.begun = Some(self.clock.now());
        turn.debt.bytes += bytes as f64;
        Ok(())
    }
}

impl Pace for Control {
    fn step(&self, bytes: u64) -> Pin<Box<dyn Future<Output = Result<(), Stopped>> + '_>> {
        Box::pin(self.next(bytes))
    }

    fn done(&self, bytes: u64) {
        self.progress.add(bytes, self.clock.now());
    }

    fn waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
