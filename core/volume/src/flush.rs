//! When data that was written became durable.
//!
//! Data goes to the device without waiting for stable storage; a record of the log that names it must not count longer
//! than the data itself lasts. Each write takes a number when it is answered, and a flush covers all numbers before it
//! began.
//!
//! Invariant: what is told to be flushed was answered before a flush began that the device answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_device::Device;

use crate::error::VolumeError;

/// The order of data writes and flushes.
pub(crate) struct DataFlush {
    device: Arc<dyn Device>,
    /// The number of the last write that was answered.
    written: AtomicU64,
    /// Writes up to this one are durable.
    flushed: AtomicU64,
    /// Held by the one who flushes, for all who wait.
    lane: tokio::sync::Mutex<()>,
}

impl DataFlush {
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self { device, written: AtomicU64::new(0), flushed: AtomicU64::new(0), lane: tokio::sync::Mutex::new(()) }
    }

    /// A data write was answered.
    pub fn note(&self) -> u64 {
        self.written.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The number of the last write that was answered.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Whether all writes up to this one are durable.
    pub fn is_flushed(&self, until: u64) -> bool {
        self.flushed.load(Ordering::Acquire) >= until
    }

    /// Makes all writes up to this one durable.
    pub async fn flush(&self, until: u64) -> Result<(), VolumeError> {
        if self.is_flushed(until) {
            return Ok(());
        }
        let _alone = self.lane.lock().await;
        if self.is_flushed(until) {
            return Ok(());
        }
        let covered = self.written();
        self.device.flush().await?;
        self.flushed.fetch_max(covered, Ordering::AcqRel);
        Ok(())
    }
}
