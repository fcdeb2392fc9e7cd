//! Data that records of the log prove by its checksums.
//!
//! ```text
//!   data written ─▶ record with its checksums ─▶ frames and flush at once ─▶ a later frame says that it is settled
//! ```
//!
//! Where a record counts only together with its data, both become durable in one round of the device. The checksums of a
//! record count until a frame says that its data is durable.
//!
//! Invariant: a block that a record in the log proves holds what it says until that record is settled. Whoever writes
//! over one has it settled first.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::transaction::BlockSum;

/// Blocks that are proven at once, at most.
const MOST_BLOCKS: usize = 1 << 16;

/// Blocks that may not be written over yet, each with the transaction that proves it.
#[derive(Default)]
pub(crate) struct Unsettled {
    blocks: Mutex<BTreeMap<u64, u64>>,
    count: AtomicUsize,
}

impl Unsettled {
    fn blocks(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more transaction may carry checksums.
    pub fn has_room(&self) -> bool {
        self.count.load(Ordering::Relaxed) < MOST_BLOCKS
    }

    /// A transaction proves these blocks.
    pub fn note(&self, sums: &[BlockSum], transaction: u64) {
        if sums.is_empty() {
            return;
        }
        let mut blocks = self.blocks();
        blocks.extend(sums.iter().map(|sum| (sum.place, transaction)));
        self.count.store(blocks.len(), Ordering::Release);
    }

    /// Whether one of the blocks from `place` on is proven.
    pub fn has(&self, place: u64, blocks: u64) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.blocks().range(place..place + blocks).next().is_some()
    }

    /// The log says that transactions up to this one are settled.
    pub fn settle(&self, until: u64) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut blocks = self.blocks();
        blocks.retain(|_, transaction| *transaction > until);
        self.count.store(blocks.len(), Ordering::Release);
    }
}
