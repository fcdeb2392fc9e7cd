//! The journal of a parity space: a log that goes round in mirrored rows of its own, of as many copies as the layout
//! bears losses and one more.
//!
//! A record stays in the log until nobody holds it: what it tells is durable in place, or in a later record. The log
//! begins where its oldest held record does; an anchor says so, and is written before the space in front of it is used
//! again.
//!
//! ```text
//!  | anchor A | anchor B | ... free ... | oldest held record | ... | newest record | ... free ... |
//! ```
//!
//! Invariant: every record from the place in the newest anchor to the head is whole on disk, and nothing behind the
//! head is taken for a record: each refers to the one before it.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::lock_order::{Held, Lock, Locked, TaskLock, rank};
use crate::row::Row;

use super::log_record::Record;
use super::record::{MOST_RECORD_BYTES, RecordPlace};

/// Bytes before the log: two anchors.
const ANCHOR_BYTES: u64 = 2 * BLOCK_BYTES;

/// An open journal.
pub struct Journal {
    pub(super) pool: Uuid,
    pub(super) space: Uuid,
    pub(super) id: u64,
    rows: Vec<Arc<Row>>,
    row_bytes: u64,
    state: Lock<{ rank::LOG }, Log>,
    /// The checksum of the last record; held while one is written.
    pub(super) appending: TaskLock<{ rank::APPENDING }, Chain>,
}

/// The log as it stands.
pub struct Log {
    pub(super) head: u64,
    /// Where the newest anchor says that it begins.
    pub(super) tail: u64,
    pub(super) records: VecDeque<Arc<Record>>,
}

/// What the next record refers to.
pub struct Chain {
    pub(super) sequence: u64,
    pub(super) previous: u32,
    pub(super) anchor: u64,
    /// Another journal took its place.
    pub(super) replaced: bool,
}

/// A stretch of the log in one of its rows.
pub struct Stretch<'a> {
    /// The row.
    pub row: &'a Arc<Row>,
    /// Where it begins in the row's data.
    pub offset: u64,
    /// Its length.
    pub len: usize,
}

impl Journal {
    /// A journal on its rows, with the log as it was found.
    pub fn new(pool: Uuid, space: Uuid, rows: Vec<Arc<Row>>) -> Self {
        let row_bytes = rows.iter().map(|row| row.data_bytes()).min().unwrap_or(0);
        let id = rows.first().map_or(0, |row| row.record.id);
        let log = Log { head: 0, tail: 0, records: VecDeque::new() };
        let chain = Chain { sequence: 1, previous: 0, anchor: 0, replaced: false };
        Self { pool, space, id, rows, row_bytes, state: Lock::new(log), appending: TaskLock::new(chain) }
    }

    pub(super) fn lock(&self) -> Locked<'_, { rank::LOG }, Log> {
        self.state.lock()
    }

    /// Bytes that the log can take.
    pub fn capacity(&self) -> u64 {
        self.row_bytes * self.rows.len() as u64 - ANCHOR_BYTES
    }

    /// Which journal it is, and where its log ends.
    pub fn end(&self) -> (u64, u64) {
        (self.id, self.lock().head)
    }

    /// Its rows, in order.
    pub fn rows(&self) -> &[Arc<Row>] {
        &self.rows
    }

    /// Keeps it from being written to, and from being replaced; `None` where another took its place.
    pub async fn hold(&self) -> Option<Held<'_, { rank::APPENDING }, Chain>> {
        let chain = self.appending.lock().await;
        (!chain.replaced).then_some(chain)
    }

    /// The chunks of its rows.
    pub fn chunks(&self) -> Vec<u32> {
        self.rows.iter().map(|row| row.chunk).collect()
    }

    /// Bytes that a band may take in a record of what is only written; such a record takes twice that at most.
    pub fn record_share(&self) -> u64 {
        (self.capacity() / 64).min(MOST_RECORD_BYTES / 4)
    }

    /// Whether it is on faster disks than the data may be: none of its disks rotates.
    pub fn is_solid(&self) -> bool {
        let rotates = |row: &Arc<Row>| row.slabs.iter().any(|slab| slab.rotates());
        !self.rows.iter().any(rotates)
    }

    /// Bytes of all its rows.
    pub fn size_bytes(&self) -> u64 {
        self.row_bytes * self.rows.len() as u64
    }

    /// Bytes between the place in the newest anchor and the head.
    pub fn used(&self) -> u64 {
        let log = self.lock();
        log.head - log.tail
    }

    /// Bytes between the oldest held record and the head.
    pub fn held(&self) -> u64 {
        let mut log = self.lock();
        log.drop_done();
        log.head - log.begin()
    }

    /// Whether a record that ends at `end` is still in the log.
    pub fn reaches(&self, end: u64) -> bool {
        end > self.lock().tail
    }

    /// The records that somebody holds, the oldest first.
    pub fn records(&self) -> Vec<Arc<Record>> {
        let mut log = self.lock();
        log.drop_done();
        log.records.iter().filter(|record| Arc::strong_count(record) > 1).cloned().collect()
    }

    /// The oldest record that somebody holds.
    pub fn oldest(&self) -> Option<Arc<Record>> {
        let mut log = self.lock();
        log.drop_done();
        log.records.front().cloned()
    }

    /// Asserts what must hold between any two steps.
    pub fn check(&self) {
        let log = self.lock();
        let begin = log.begin();
        assert!(
            log.tail <= begin && begin <= log.head,
            "the log is from {} to {}, its records from {begin}",
            log.tail,
            log.head
        );
        assert!(log.head - log.tail <= self.capacity(), "the log does not overtake itself");
        assert!(log.records.iter().is_sorted_by_key(|record| record.at), "records stand in order");
    }

    /// The number of an anchor of this journal, where a block is one.
    pub fn anchor_number(&self, block: &[u8]) -> Option<u64> {
        RecordPlace::open_anchor(self.pool, self.space, self.id, block).map(|(number, _)| number)
    }

    /// The place of a record.
    pub(super) fn place(&self, at: u64, sequence: u64, previous: u32) -> RecordPlace {
        RecordPlace { pool: self.pool, space: self.space, journal: self.id, at, sequence, previous }
    }

    /// Where a part of the log is.
    pub(super) fn stretches(&self, at: u64, len: u64) -> Vec<Stretch<'_>> {
        let mut found = Vec::new();
        let (mut at, mut left) = (at, len);
        while left > 0 {
            let offset = ANCHOR_BYTES + at % self.capacity();
            let (row, within) = (offset / self.row_bytes, offset % self.row_bytes);
            let part = left.min(self.row_bytes - within).min(self.capacity() - at % self.capacity());
            found.push(Stretch { row: &self.rows[row as usize], offset: within, len: part as usize });
            at += part;
            left -= part;
        }
        found
    }

    /// Where an anchor is, the first or the second.
    pub(super) fn anchor(&self, slot: u64) -> Stretch<'_> {
        Stretch { row: &self.rows[0], offset: slot * BLOCK_BYTES, len: BLOCK_BYTES as usize }
    }
}

impl Log {
    /// Forgets records at the front that nobody holds.
    pub(super) fn drop_done(&mut self) {
        while self.records.front().is_some_and(|record| Arc::strong_count(record) == 1) {
            self.records.pop_front();
        }
    }

    pub(super) fn begin(&self) -> u64 {
        self.records.front().map_or(self.head, |record| record.at)
    }
}
