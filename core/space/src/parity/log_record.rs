//! Records of the journal in memory: of the log, as they were found in it, and as they are put together for it.
//!
//! Invariant: a record stays in the log while anybody but the log itself holds it.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_device::IoSlice;
use holdfast_model::BLOCK_BYTES;

use super::record::{Entry, MOST_ENTRIES, MOST_ENTRIES_BYTES};

/// A record of the log. It stays there while anybody but the log itself holds it.
#[derive(Debug)]
pub struct Record {
    /// Where it begins.
    pub at: u64,
    pub(super) sequence: u64,
    pub(super) previous: u32,
    /// Bands that it tells of: chunk and band.
    pub bands: Vec<(u32, u32)>,
}

impl Record {
    /// A record that stands at `at`.
    pub(super) fn new(at: u64, sequence: u64, previous: u32, bands: Vec<(u32, u32)>) -> Self {
        Self { at, sequence, previous, bands }
    }
}

/// By row and band, up to which stamp something is done with.
pub type Stamps = HashMap<(u64, u32), u64>;

/// A record that was found on disk.
#[derive(Clone)]
pub struct FoundRecord {
    /// It; in the log while somebody holds it.
    pub record: Arc<Record>,
    /// What it tells.
    pub entries: Vec<Entry>,
    /// The blocks that it brings along; those of a long log are read again when they are needed.
    pub blocks: Option<IoSlice>,
    /// Where they begin in the log.
    pub blocks_at: u64,
    /// Where it ends.
    pub end: u64,
    pub(super) crc: u32,
}

/// A record to be written: entries, and what they bring along.
#[derive(Default)]
pub struct Draft {
    /// What it tells.
    pub entries: Vec<Entry>,
    /// The blocks, in the order of the entries.
    pub blocks: Vec<IoSlice>,
    /// Bands that it tells of: chunk and band.
    pub bands: Vec<(u32, u32)>,
}

impl Draft {
    /// Adds an entry with its blocks.
    pub fn add(&mut self, chunk: u32, band: u32, entry: Entry, blocks: impl IntoIterator<Item = IoSlice>) {
        self.entries.push(entry);
        self.blocks.extend(blocks);
        if self.bands.last() != Some(&(chunk, band)) {
            self.bands.push((chunk, band));
        }
    }

    /// Bytes that it takes in the log.
    pub fn bytes(&self) -> u64 {
        let head = (128 + self.entries.iter().map(Entry::bytes).sum::<u64>()).next_multiple_of(BLOCK_BYTES);
        head + self.brought()
    }

    /// Whether a replay takes its head for one.
    pub fn fits_head(&self) -> bool {
        let bytes: u64 = self.entries.iter().map(Entry::bytes).sum();
        self.entries.len() <= MOST_ENTRIES && bytes <= MOST_ENTRIES_BYTES as u64
    }

    /// Bytes of the blocks that it brings along.
    pub(super) fn brought(&self) -> u64 {
        self.blocks.iter().map(|slice| slice.len() as u64).sum()
    }
}
