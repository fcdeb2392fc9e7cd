//! What a mount did so far.
//!
//! Invariant: a count is added to by one reactor alone, so counting costs no traffic between cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_device::Clock;
use holdfast_device::reactor::clock;
use holdfast_model::{Histogram, Latencies};

use crate::protocol::constants::NAMES;

const KINDS: usize = 64;

/// Counts of one reactor.
pub(crate) struct Counters {
    requests: [AtomicU64; KINDS],
    pub(crate) read_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) read_latency: Histogram,
    pub(crate) write_latency: Histogram,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            requests: std::array::from_fn(|_| AtomicU64::new(0)),
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            read_latency: Histogram::default(),
            write_latency: Histogram::default(),
            clock: clock(),
        }
    }
}

impl Counters {
    /// Counts a request; those of unknown kinds count as kind 0.
    pub(crate) fn count(&self, opcode: u32) {
        let kind = self.requests.get(opcode as usize).unwrap_or(&self.requests[0]);
        kind.fetch_add(1, Ordering::Relaxed);
    }
}

/// How long reads and writes took in the service.
pub(crate) fn latencies<'a>(counters: impl Iterator<Item = &'a Counters>) -> (Latencies, Latencies) {
    let (mut reads, mut writes) = (Latencies::default(), Latencies::default());
    for one in counters {
        reads.merge(&one.read_latency.counts());
        writes.merge(&one.write_latency.counts());
    }
    (reads, writes)
}

/// Counts of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountStats {
    /// Requests by kind, those that came at all.
    pub requests: Vec<(&'static str, u64)>,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Requests that were answered with an error, such as a name that is not there.
    pub errors: u64,
    /// Files that the kernel knows at present.
    pub nodes: u64,
}

impl MountStats {
    pub(crate) fn of<'a>(counters: impl Iterator<Item = &'a Counters>, nodes: usize) -> Self {
        let (mut sums, mut stats) = ([0; KINDS], Self { nodes: nodes as u64, ..Self::default() });
        for one in counters {
            for (sum, count) in sums.iter_mut().zip(&one.requests) {
                *sum += count.load(Ordering::Relaxed);
            }
            stats.read_bytes += one.read_bytes.load(Ordering::Relaxed);
            stats.written_bytes += one.written_bytes.load(Ordering::Relaxed);
            stats.errors += one.errors.load(Ordering::Relaxed);
        }
        let named = std::iter::once((0, "unknown")).chain(NAMES.iter().copied());
        stats.requests =
            named.map(|(kind, name)| (name, sums[kind as usize])).filter(|(_, count)| *count > 0).collect();
        stats
    }

    /// Requests of a kind.
    pub fn count(&self, kind: &str) -> u64 {
        self.requests.iter().find(|(name, _)| *name == kind).map_or(0, |(_, count)| *count)
    }
}
