//! Steps of work on a volume at the pace of a job.

use std::cell::Cell;
use std::pin::Pin;

use holdfast_space::Pace;
use holdfast_volume::Steps;

use super::control::Control;

/// Asks the job before each step, and tells it what is done.
pub(super) struct Steered<'a> {
    control: &'a Control,
    is_stopped: Cell<bool>,
    done_bytes: Cell<u64>,
}

impl<'a> Steered<'a> {
    /// For the work of one job.
    pub(super) fn new(control: &'a Control) -> Self {
        Self { control, is_stopped: Cell::new(false), done_bytes: Cell::new(0) }
    }

    /// Whether a step was not to be done any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.get()
    }

    /// Bytes that were done.
    pub(super) fn done_bytes(&self) -> u64 {
        self.done_bytes.get()
    }
}

impl Steps for Steered<'_> {
    fn step(&self, bytes: u64) -> Pin<Box<dyn Future<Output = bool> + '_>> {
        Box::pin(async move {
            let goes_on = self.control.step(bytes).await.is_ok();
            self.is_stopped.set(!goes_on);
            goes_on
        })
    }

    fn done(&self, bytes: u64) {
        self.done_bytes.set(self.done_bytes.get() + bytes);
        self.control.done(bytes);
    }
}
