//! What a space did since it was opened: requests and bytes, for status and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests of one kind and their bytes.
#[derive(Debug, Default)]
pub struct Count {
    /// Requests.
    pub requests: AtomicU64,
    /// Bytes.
    pub bytes: AtomicU64,
}

impl Count {
    pub(crate) fn add(&self, bytes: usize) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// What a space did since it was opened.
#[derive(Debug, Default)]
pub struct SpaceCounters {
    /// Reads.
    pub reads: Count,
    /// Writes.
    pub writes: Count,
    /// Discards and write-zeroes.
    pub discards: Count,
    /// Requests answered with an error.
    pub errors: AtomicU64,
}
