//! What clients asked of a target or an object, and how long it took.
//!
//! Invariant: counting a request costs a few relaxed additions, and never waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_model::{Histogram, Latencies};

/// Requests of one kind and their bytes.
#[derive(Debug, Default)]
struct Count {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    fn add(&self, bytes: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        (self.requests.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum RequestKind {
    /// Carries data to the client.
    Read,
    /// Carries data from it.
    Write,
    /// Gives a range back or makes it zeros.
    Discard,
    /// Makes writes durable.
    Flush,
}

impl RequestKind {
    /// The one of this number.
    pub fn of(number: u64) -> Self {
        [Self::Read, Self::Write, Self::Discard, Self::Flush][(number & 3) as usize]
    }
}

/// Reads and writes so far, with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Reads.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: u64,
}

/// All requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads and writes.
    pub totals: Totals,
    /// Flushes.
    pub flushes: u64,
    /// Discards and write-zeroes.
    pub discards: u64,
    /// Bytes of them.
    pub discarded_bytes: u64,
}

/// Counters of requests, and of how long reads and writes took.
#[derive(Debug, Default)]
pub struct Traffic {
    reads: Count,
    writes: Count,
    discards: Count,
    flushes: AtomicU64,
    read_latency: Histogram,
    write_latency: Histogram,
}

impl Traffic {
    /// A request was asked for.
    pub fn ask(&self, kind: RequestKind, bytes: u64) {
        match kind {
            RequestKind::Read => self.reads.add(bytes),
            RequestKind::Write => self.writes.add(bytes),
            RequestKind::Discard => self.discards.add(bytes),
            RequestKind::Flush => _ = self.flushes.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A request was answered after so long.
    pub fn answer(&self, kind: RequestKind, took: Duration) {
        match kind {
            RequestKind::Read => self.read_latency.add(took),
            RequestKind::Write => self.write_latency.add(took),
            RequestKind::Discard | RequestKind::Flush => {}
        }
    }

    /// What was asked for so far.
    pub fn totals(&self) -> Totals {
        let ((reads, read_bytes), (writes, written_bytes)) = (self.reads.get(), self.writes.get());
        Totals { reads, read_bytes, writes, written_bytes }
    }

    /// How long reads and writes took so far.
    pub fn latencies(&self) -> (Latencies, Latencies) {
        (self.read_latency.counts(), self.write_latency.counts())
    }

    /// All that was asked for so far.
    pub fn counters(&self) -> Counters {
        let (discards, discarded_bytes) = self.discards.get();
        Counters { totals: self.totals(), flushes: self.flushes.load(Ordering::Relaxed), discards, discarded_bytes }
    }
}
