//! What a comparison found.

use holdfast_model::{BLOCK_BYTES, Uuid};

/// Mismatches that are reported one by one.
const MOST_TOLD: usize = 1000;

/// A block that does not agree with the others that it goes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Where the data that it protects begins in the space, or in its journal.
    pub offset_bytes: u64,
    /// What is wrong, or else does not agree with the others: `data`, `P`, `Q`, a copy, or a copy of the journal.
    pub piece: String,
    /// The disk that holds it.
    pub disk: Uuid,
    /// Where on that disk.
    pub disk_offset_bytes: u64,
    /// How long.
    pub len_bytes: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Bytes read and compared.
    pub checked_bytes: u64,
    /// Bytes that could not be compared, since their slab or what it is compared with is not in step or cannot be read.
    pub unchecked_bytes: u64,
    /// Blocks that do not agree.
    pub mismatched_blocks: u64,
    /// The first thousand of them.
    pub mismatches: Vec<Mismatch>,
    /// Blocks that were wrong or could not be read, and were repaired.
    pub repaired_blocks: u64,
    /// Blocks that are wrong or cannot be read, and stay so.
    pub unrepaired_blocks: u64,
}

impl Verified {
    pub(super) fn add(&mut self, mismatch: Mismatch) {
        self.mismatched_blocks += mismatch.len_bytes / BLOCK_BYTES;
        if self.mismatches.len() < MOST_TOLD {
            self.mismatches.push(mismatch);
        }
    }
}
