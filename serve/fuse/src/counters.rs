//! What a mount did so far.
//!
//! Invariant: a count is added to by one reactor alone, so counting costs no traffic between cores.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::protocol::constants::NAMES;

const KINDS: usize = 64;

/// Counts of one reactor.
#[derive(Debug)]
pub(crate) struct Counters {
    requests: [AtomicU64; KINDS],
    pub(crate) read_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) errors: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            requests: std::array::from_fn(|_| AtomicU64::new(0)),
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
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
