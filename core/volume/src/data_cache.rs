//! Data of files that was read, kept in memory for all volumes of a process.
//!
//! ```text
//!   key: volume, block of its device     a run: up to 64 KiB that were read at once, in the buffer they were read into
//!
//!   new ─▶ small (a tenth) ── used twice meanwhile ─▶ main ── used since its last turn ─▶ main again
//!              └─ else out, and remembered ─ read again soon ─▶ main       └─ else out
//! ```
//!
//! Invariants: no block is in two runs. What is kept counts no more bytes than may be, all that its memory takes included.
//! Whoever puts runs in says that they are what the device has, and takes them out before that changes
//! ([`CachedDevice`](crate::CachedDevice)).

mod queues;

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_device::IoSlice;
use holdfast_model::BLOCK_BYTES;
use serde::Serialize;
use smallvec::SmallVec;

use queues::{Key, Queues, Run};

/// Bytes that are kept where nothing else is set.
pub const DATA_CACHE_BYTES: usize = 256 << 20;
/// Blocks of a stripe, which one shard has.
const STRIPE_BLOCKS: u64 = 256;
/// Stripes from which on all shards are looked through as a whole.
const MANY_STRIPES: u64 = 1024;
/// Shards at most, and bytes of each at least.
const MOST_SHARDS: usize = 16;
const LEAST_OF_SHARD: usize = 4 << 20;

/// Takes a lock, also of somebody who panicked.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs that follow each other.
pub(crate) type Runs = SmallVec<[IoSlice; 1]>;

/// What became of reads, and what is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DataCacheCounts {
    /// Reads that were answered from memory: one for each run of blocks of a device.
    pub hits: u64,
    /// Reads that went to a device and might have been answered from memory.
    pub misses: u64,
    /// Runs that were given up for others.
    pub evictions: u64,
    /// Runs that were taken out because what they held was written over.
    pub invalidations: u64,
    /// Bytes of memory that it takes.
    pub bytes: u64,
    /// Bytes of memory that it may take.
    pub most_bytes: u64,
}

/// The cache.
pub struct DataCache {
    shards: Box<[Mutex<Queues>]>,
    most_bytes: usize,
    /// The number of the next device.
    next: AtomicU32,
}

impl std::fmt::Debug for DataCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.counts())
    }
}

impl DataCache {
    /// For so many bytes of memory.
    pub fn new(bytes: usize) -> Self {
        let shards = (bytes / LEAST_OF_SHARD).clamp(1, MOST_SHARDS);
        let shards = if shards.is_power_of_two() { shards } else { shards.next_power_of_two() / 2 };
        let queues = || Mutex::new(Queues::new(bytes / shards));
        Self { shards: (0..shards).map(|_| queues()).collect(), most_bytes: bytes, next: AtomicU32::new(0) }
    }

    /// What it did so far.
    pub fn counts(&self) -> DataCacheCounts {
        let mut all = DataCacheCounts { most_bytes: self.most_bytes as u64, ..DataCacheCounts::default() };
        for shard in &self.shards {
            let shard = held(shard);
            all.hits += shard.hits;
            all.misses += shard.misses;
            all.evictions += shard.evictions;
            all.invalidations += shard.invalidations;
            all.bytes += shard.bytes() as u64;
        }
        all
    }

    /// A number for a device that nothing is kept of.
    pub(crate) fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn shard(&self, device: u32, block: u64) -> &Mutex<Queues> {
        let stripe = (block / STRIPE_BLOCKS) ^ u64::from(device) << 40;
        let mixed = stripe.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        &self.shards[mixed as usize & (self.shards.len() - 1)]
    }

    /// What is kept of these blocks if all of them are, each in a run that was held against its checksums if that is
    /// asked for.
    pub(crate) fn find(&self, device: u32, blocks: Range<u64>, is_checked: bool) -> Option<Runs> {
        let (mut found, mut at) = (Runs::new(), blocks.start);
        while at < blocks.end {
            let mut shard = held(self.shard(device, at));
            let Some((run, skip)) = shard.find(Key { device, block: at }, is_checked) else {
                shard.misses += 1;
                return None;
            };
            let some = (run.blocks() - skip).min(blocks.end - at);
            let part = match (skip, some == run.blocks()) {
                (0, true) => run.data.clone(),
                _ => run.data.slice((skip * BLOCK_BYTES) as usize, (some * BLOCK_BYTES) as usize),
            };
            at += some;
            if at == blocks.end {
                shard.hits += 1;
            }
            found.push(part);
        }
        Some(found)
    }

    /// Keeps what was read from a block on into a buffer of its own, in place of all that is kept of these blocks.
    pub(crate) fn put(&self, device: u32, block: u64, data: &IoSlice, is_checked: bool) {
        let blocks = data.len() as u64 / BLOCK_BYTES;
        for part in stripes(block..block + blocks) {
            let data = match part == (block..block + blocks) {
                true => data.clone(),
                // Two that share memory would keep all of it as long as one of them is kept.
                false => {
                    let (at, len) = ((part.start - block) * BLOCK_BYTES, (part.end - part.start) * BLOCK_BYTES);
                    IoSlice::padded(&data[at as usize..(at + len) as usize])
                }
            };
            let run = Run { key: Key { device, block: part.start }, data, is_checked };
            held(self.shard(device, part.start)).put(run);
        }
    }

    /// Keeps nothing of these blocks any more.
    pub(crate) fn remove(&self, device: u32, blocks: Range<u64>) {
        if (blocks.end - blocks.start) / STRIPE_BLOCKS > MANY_STRIPES {
            return self.shards.iter().for_each(|shard| held(shard).remove(device, blocks.clone()));
        }
        for part in stripes(blocks) {
            held(self.shard(device, part.start)).remove(device, part);
        }
    }

    /// Keeps nothing of a device any more.
    pub(crate) fn forget(&self, device: u32) {
        self.shards.iter().for_each(|shard| held(shard).remove(device, 0..u64::MAX));
    }
}

/// The parts of a range that each lie in one stripe.
fn stripes(blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = blocks.start;
    std::iter::from_fn(move || {
        let from = at;
        at = ((from / STRIPE_BLOCKS + 1) * STRIPE_BLOCKS).min(blocks.end);
        (from < blocks.end).then_some(from..at)
    })
}

#[cfg(test)]
mod tests;
