//! Time, handed in: the core never reads a clock of its own.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A monotonic clock and its timers.
pub trait Clock: Send + Sync {
    /// Time since some fixed start.
    fn now(&self) -> Duration;

    /// Ends after `duration`. The future runs on the thread that polls it first.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()>>>;
}
