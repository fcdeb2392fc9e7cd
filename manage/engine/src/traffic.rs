//! What clients asked of an export or a space, and how long it took.
//!
//! Invariant: counting a request costs a few relaxed additions, and never waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_api::ExportCounters;
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
pub(crate) enum Kind {
    Read,
    Write,
    Discard,
    Flush,
}

impl Kind {
    /// The one of this number.
    pub(crate) fn of(number: u64) -> Self {
        [Self::Read, Self::Write, Self::Discard, Self::Flush][(number & 3) as usize]
    }
}

/// Reads and writes so far, with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
}

/// Counters of requests, and of how long reads and writes took.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    reads: Count,
    writes: Count,
    discards: Count,
    flushes: AtomicU64,
    read_latency: Histogram,
    write_latency: Histogram,
}

impl Traffic {
    /// A request was asked for.
    pub(crate) fn ask(&self, kind: Kind, bytes: u64) {
        match kind {
            Kind::Read => self.reads.add(bytes),
            Kind::Write => self.writes.add(bytes),
            Kind::Discard => self.discards.add(bytes),
            Kind::Flush => _ = self.flushes.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A request was answered after so long.
    pub(crate) fn answer(&self, kind: Kind, took: Duration) {
        match kind {
            Kind::Read => self.read_latency.add(took),
            Kind::Write => self.write_latency.add(took),
            Kind::Discard | Kind::Flush => {}
        }
    }

    /// What was asked for so far.
    pub(crate) fn totals(&self) -> Totals {
        let ((reads, read_bytes), (writes, written_bytes)) = (self.reads.get(), self.writes.get());
        Totals { reads, read_bytes, writes, written_bytes }
    }

    /// How long reads and writes took so far.
    pub(crate) fn latencies(&self) -> (Latencies, Latencies) {
        (self.read_latency.counts(), self.write_latency.counts())
    }

    /// The same as the API shows it.
    pub(crate) fn counters(&self) -> ExportCounters {
        let Totals { reads, read_bytes, writes, written_bytes } = self.totals();
        let (discards, discarded_bytes) = self.discards.get();
        let flushes = self.flushes.load(Ordering::Relaxed);
        ExportCounters { reads, read_bytes, writes, written_bytes, flushes, discards, discarded_bytes }
    }
}
