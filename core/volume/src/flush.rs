//! When data that was written became durable.
//!
//! Data goes to the device without waiting for stable storage; a record of the log that names it must not count longer
//! than the data itself lasts. Each write takes a number when it is answered, and a flush covers all numbers before it
//! began.
//!
//! A flush that fails ends them all: a device tells once of data that it lost, and the next flush would cover that too.
//!
//! Invariant: what is told to be flushed was answered before a flush began that the device answered, and no flush failed
//! before. All flushes of an open volume go through here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

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
    /// What the first that failed met.
    failed: OnceLock<VolumeError>,
}

impl DataFlush {
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self {
            device,
            written: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            lane: tokio::sync::Mutex::new(()),
            failed: OnceLock::new(),
        }
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
        self.flush_alone().await
    }

    /// Makes all durable that the device answered, also what has no number.
    pub async fn flush_device(&self) -> Result<(), VolumeError> {
        let _alone = self.lane.lock().await;
        self.flush_alone().await
    }

    /// A flush, by the one who holds the lane.
    async fn flush_alone(&self) -> Result<(), VolumeError> {
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        let covered = self.written();
        if let Err(error) = self.device.flush().await {
            return Err(self.failed.get_or_init(|| error.into()).clone());
        }
        self.flushed.fetch_max(covered, Ordering::AcqRel);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
