//! Records appended to the journal, and the anchor that says where its log begins.

use std::sync::Arc;

use holdfast_device::{Durability, IoError, IoSlice};
use holdfast_model::BLOCK_BYTES;
use holdfast_model::wire::Crc32c;

use crate::lock_order::join_all;
use crate::stripe::{joined, segments};

use super::journal::{Chain, Journal, Stretch};
use super::log_record::{Draft, Record};
use super::record::{Head, MOST_RECORD_BYTES};
use super::store::ParityStore;

/// Bytes of the log that nobody needs any more and that the next start would read all the same, at most.
const MOST_UNUSED_BYTES: u64 = 64 << 20;
/// Bytes of the log that only commits use.
const RESERVED_BYTES: u64 = 256 << 10;
/// Small blocks of a record up to so many bytes are put together before they are written: a copy is cheaper than a
/// request.
const GATHER_BYTES: usize = 256 << 10;

impl ParityStore {
    /// Appends a record, durably. Answers it, held by the caller; `None` where the log has no room for it, and for what
    /// commits need unless it is one of theirs: what the oldest records tell must be destaged and committed first.
    pub async fn append(&self, draft: &Draft, commits: bool) -> Result<Option<(Arc<Record>, u64)>, IoError> {
        let mut journal = self.opened_journal()?;
        let mut chain = journal.appending.lock().await;
        while chain.replaced {
            drop(chain);
            journal = self.opened_journal()?;
            chain = journal.appending.lock().await;
        }
        let journal = &*journal;
        let len = draft.bytes();
        let brought = draft.brought();
        if !draft.fits_head() || brought > MOST_RECORD_BYTES {
            // A replay would take it for the end of the log.
            return Err(IoError::invalid(format!(
                "a record of {brought} bytes in the journal of space {}",
                self.path()
            )));
        }
        let reserved = if commits { 0 } else { RESERVED_BYTES.min(journal.capacity() / 16) };
        if !self.make_room(journal, &mut chain, len + reserved).await? {
            return Ok(None);
        }
        let (at, tail) = {
            let log = journal.lock();
            (log.head, log.tail)
        };
        let mut crc = Crc32c::new();
        draft.blocks.iter().for_each(|slice| crc.add(slice));
        let head =
            Head { tail, blocks: (brought / BLOCK_BYTES) as u32, crc: crc.value(), entries: draft.entries.clone() };
        let (sealed, own) = journal.place(at, chain.sequence, chain.previous).seal(&head);
        let mut parts = vec![sealed.freeze()];
        parts.extend(draft.blocks.iter().cloned());
        let taken = parts[0].len() as u64 + brought;
        self.write_log(journal, at, parts).await?;
        let record = Arc::new(Record::new(at, chain.sequence, chain.previous, draft.bands.clone()));
        chain.sequence += 1;
        chain.previous = own;
        let mut log = journal.lock();
        log.head = at + taken;
        log.records.push_back(record.clone());
        Ok(Some((record, log.head)))
    }

    /// Sees to it that the next `len` bytes of the log may be written; false where they may not yet.
    async fn make_room(&self, journal: &Journal, chain: &mut Chain, len: u64) -> Result<bool, IoError> {
        let (room, reclaimable) = {
            let mut log = journal.lock();
            log.drop_done();
            (journal.capacity() - (log.head - log.tail), log.begin() - log.tail)
        };
        if (len > room && reclaimable > 0) || reclaimable > (journal.capacity() / 4).min(MOST_UNUSED_BYTES) {
            self.move_anchor(journal, chain).await?;
        }
        Ok(journal.used() + len <= journal.capacity())
    }

    /// Writes down where the log begins now.
    async fn move_anchor(&self, journal: &Journal, chain: &mut Chain) -> Result<(), IoError> {
        let place = {
            let mut log = journal.lock();
            log.drop_done();
            let (at, sequence, previous) = match log.records.front() {
                Some(record) => (record.at, record.sequence, record.previous),
                None => (log.head, chain.sequence, chain.previous),
            };
            journal.place(at, sequence, previous)
        };
        chain.anchor += 1;
        let block = place.seal_anchor(chain.anchor).freeze();
        let Stretch { row, offset, len } = journal.anchor(chain.anchor % 2);
        for segment in segments(row.shape(), offset, len) {
            self.rows.write_segment(row, segment, block.clone(), None, Durability::Durable).await?;
        }
        journal.lock().tail = place.at;
        Ok(())
    }

    /// Writes down where the log begins, so that the next start has less to read.
    pub async fn trim_journal(&self, journal: &Journal) -> Result<(), IoError> {
        let mut chain = journal.appending.lock().await;
        if journal.used() > journal.held() && !chain.replaced {
            self.move_anchor(journal, &mut chain).await?;
        }
        Ok(())
    }

    /// Writes parts of the log one behind the other, durably.
    async fn write_log(&self, journal: &Journal, at: u64, parts: Vec<IoSlice>) -> Result<(), IoError> {
        let mut writes = Vec::new();
        let mut at = at;
        for part in gather(parts) {
            let mut done = 0;
            for Stretch { row, offset, len } in journal.stretches(at, part.len() as u64) {
                let base = done;
                for segment in segments(row.shape(), offset, len) {
                    let data = part.slice(base + segment.at, segment.len);
                    writes.push(self.rows.write_segment(row, segment, data, None, Durability::Durable));
                }
                done += len;
            }
            at += part.len() as u64;
        }
        join_all(writes).await.into_iter().collect()
    }
}

/// Puts small neighbours together; long ones go as they are.
fn gather(parts: Vec<IoSlice>) -> Vec<IoSlice> {
    let total: usize = parts.iter().map(|part| part.len()).sum();
    if total > GATHER_BYTES { parts } else { vec![joined(&parts)] }
}
