//! Rows that cannot be opened when the journal is read: what it has for them stays there until they can, and all others
//! are served.
//!
//! The log goes round meanwhile: what is deferred in its oldest record is copied to its end, all that is of a row in
//! one record, so that a crash finds what it tells in its order.
//!
//! Invariant: a row of which something was deferred is served only once that is carried out, and the records that tell
//! of it stay in the log until then.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_device::{IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;
use holdfast_model::wire::Crc32c;
use holdfast_pool::Severity;

use crate::boxed_cold::boxed_cold;
use crate::lock_order::{Locked, rank};
use crate::row::{Row, RowBody};
use crate::row_table::UsedRow;

use super::journal::Journal;
use super::log_record::{Draft, FoundRecord, Stamps};
use super::recover::Recovery;
use super::replay::LiveEntry;
use super::store::{DeferredReplay, ParityStore};

/// The share of the journal that is copied to its end again and again, at most.
const COPIED_SHARE: u64 = 16;

impl ParityStore {
    fn deferred(&self) -> Locked<'_, { rank::DEFERRED }, BTreeMap<u32, DeferredReplay>> {
        self.deferred.lock()
    }

    /// Opens the row of a chunk, with what was deferred of it. The chunk's lock must be held.
    pub async fn load_row(&self, chunk: u32) -> Result<Option<Arc<Row>>, IoError> {
        let admit = async |row: &Arc<Row>| match row.body {
            RowBody::Columns(_) => Ok(()),
            RowBody::Bands(_) => boxed_cold(self.replay_deferred(row)).await,
        };
        self.rows.load(chunk, admit).await
    }

    /// Whether something of a chunk is deferred.
    pub(super) fn is_deferred(&self, chunk: u32) -> bool {
        self.deferred().contains_key(&chunk)
    }

    /// The row of a chunk for what a record tells of it; `None` where it has none. One that cannot be opened gets the
    /// record deferred.
    pub(super) async fn row_to_replay(
        &self,
        chunk: u32,
        record: &FoundRecord,
        voids: &Arc<Stamps>,
    ) -> Result<Option<UsedRow>, IoError> {
        loop {
            if let Some(row) = self.rows.used_row(chunk) {
                return Ok(Some(row));
            }
            let _one = self.rows.lock_chunk(chunk).await;
            // What comes later in the log is carried out later.
            let known = self.deferred().get(&chunk).map(|deferred| deferred.why.clone());
            let why = match known {
                Some(why) => why,
                None => match self.load_row(chunk).await {
                    Ok(Some(_)) => continue,
                    Ok(None) => return Ok(None),
                    Err(error) => error.to_string(),
                },
            };
            self.defer_replay(chunk, record, voids, why);
            return Ok(None);
        }
    }

    fn defer_replay(&self, chunk: u32, record: &FoundRecord, voids: &Arc<Stamps>, why: String) {
        let mut deferred = self.deferred();
        let kept =
            deferred.entry(chunk).or_insert_with(|| DeferredReplay { records: Vec::new(), voids: voids.clone(), why });
        if kept.records.last().is_none_or(|last| last.end != record.end) {
            // Its blocks are read again: there may be more of them than memory takes.
            kept.records.push(FoundRecord { blocks: None, ..record.clone() });
        }
    }

    /// Carries out what was deferred of a row that was opened just now, and is not served yet.
    async fn replay_deferred(&self, row: &Arc<Row>) -> Result<(), IoError> {
        let Some(DeferredReplay { records, voids, .. }) = self.deferred().get(&row.chunk).cloned() else {
            return Ok(());
        };
        let Some(journal) = self.journal.load_full() else {
            return Err(IoError::new(IoErrorKind::Gone, format!("the journal of space {} is being read", self.path())));
        };
        row.bands().lock().recovering = true;
        let carried_out = async {
            let mut recovery = Recovery::default();
            for record in &records {
                let brought = self.blocks_of(&journal, record).await?;
                for live in
                    self.live_entries(record, &brought, &voids).into_iter().filter(|live| live.chunk == row.chunk)
                {
                    self.replay_entry(row, &live, record, &mut recovery).await?;
                }
            }
            recovery.finish().await
        };
        let carried_out = carried_out.await;
        match carried_out {
            Ok(()) => {
                self.deferred().remove(&row.chunk);
                self.queue_recovered(row);
            }
            Err(_) => {
                self.rows.forget_touched(row);
                self.forget_waiting(row);
            }
        }
        carried_out
    }

    /// Lets what waits of a row be destaged: all that the journal has for it is carried out.
    fn queue_recovered(&self, row: &Arc<Row>) {
        let mut state = row.bands().lock();
        state.recovering = false;
        for (band, dirty) in &mut state.dirty {
            if !std::mem::replace(&mut dirty.queued, true) {
                self.write_buffer.queue(row, *band);
            }
        }
    }

    /// Copies what is deferred in the log's oldest record to its end, where that is little.
    pub(super) async fn copy_deferred_forward(&self, journal: &Journal) -> Result<(), IoError> {
        let Some((chunk, DeferredReplay { records, voids, why })) = self.oldest_deferred(journal) else {
            return Ok(());
        };
        // Opening the row carries out what is deferred, and writes to it what comes after that.
        let Some(_one) = self.rows.try_lock_chunk(chunk) else { return Ok(()) };
        let is_last = |deferred: &DeferredReplay| {
            deferred.records.last().map(|record| record.end) == records.last().map(|record| record.end)
        };
        if !self.deferred().get(&chunk).is_some_and(is_last) {
            return Ok(());
        }
        let mut draft = Draft::default();
        let mut crc = Crc32c::new();
        for record in &records {
            let brought = self.blocks_of(journal, record).await?;
            let live = self.live_entries(record, &brought, &voids);
            for LiveEntry { entry, band, blocks, .. } in live.into_iter().filter(|live| live.chunk == chunk) {
                crc.add(&blocks);
                draft.entries.push(entry.clone());
                draft.blocks.push(blocks);
                draft.bands.push((chunk, band));
            }
        }
        let fits = draft.fits_head() && draft.bytes() <= journal.capacity() / COPIED_SHARE;
        if draft.entries.is_empty() || !fits {
            return Ok(());
        }
        let Some((record, end)) = self.append(&draft, true).await? else { return Ok(()) };
        let bytes: u64 = draft.blocks.iter().map(|blocks| blocks.len() as u64).sum();
        let copied =
            FoundRecord { record, entries: draft.entries, blocks: None, blocks_at: end - bytes, end, crc: crc.value() };
        self.deferred().insert(chunk, DeferredReplay { records: vec![copied], voids, why });
        Ok(())
    }

    /// What is deferred in the oldest record, where all that is deferred takes so little of the log that it can be
    /// copied.
    fn oldest_deferred(&self, journal: &Journal) -> Option<(u32, DeferredReplay)> {
        let deferred = self.deferred();
        if deferred.is_empty() {
            return None;
        }
        let oldest = journal.oldest()?;
        let brought = |record: &FoundRecord, chunk: u32| -> u64 {
            let own = record.entries.iter().zip(&record.record.bands).filter(|(_, (of, _))| *of == chunk);
            own.map(|(entry, _)| u64::from(entry.blocks()) * BLOCK_BYTES + entry.bytes()).sum()
        };
        let of_chunk = |(chunk, deferred): (&u32, &DeferredReplay)| {
            deferred.records.iter().map(|record| brought(record, *chunk)).sum::<u64>()
        };
        let bytes: u64 = deferred.iter().map(|of| of_chunk(of) + BLOCK_BYTES).sum();
        let is_oldest = |(_, deferred): &(&u32, &DeferredReplay)| {
            deferred.records.iter().any(|record| Arc::ptr_eq(&record.record, &oldest))
        };
        let found = deferred.iter().filter(|_| bytes <= journal.capacity() / COPIED_SHARE).find(is_oldest);
        found.map(|(chunk, deferred)| (*chunk, deferred.clone()))
    }

    /// The row of a chunk is gone, and what was deferred of it.
    pub fn forget_deferred(&self, chunk: u32) {
        self.deferred().remove(&chunk);
    }

    /// The journal is read anew.
    pub(super) fn forget_all_deferred(&self) {
        self.deferred().clear();
    }

    /// Refuses to empty the journal while it keeps something for rows that cannot be opened.
    pub(super) fn check_none_deferred(&self) -> Result<(), IoError> {
        let Some(chunks) = self.deferred_chunks() else { return Ok(()) };
        let path = self.path();
        let why = format!("the journal of space {path} stays as it is while it keeps writes to {chunks}");
        Err(IoError::new(IoErrorKind::Gone, why))
    }

    /// Says that something was deferred.
    pub(super) fn report_deferred(&self) {
        let Some(chunks) = self.deferred_chunks() else { return };
        let cause = format!("its journal keeps writes to {chunks}");
        let next =
            "attach the missing disks; everything else is served, small writes more slowly once the journal is full";
        self.pool.emit(Severity::Error, self.object(), cause, next);
    }

    fn deferred_chunks(&self) -> Option<String> {
        let deferred = self.deferred();
        let (first, DeferredReplay { why, .. }) = deferred.first_key_value()?;
        let others = match deferred.len() {
            1 => String::new(),
            count => format!(" and {} others", count - 1),
        };
        Some(format!("chunk {first}{others}, which cannot be opened: {why}"))
    }
}
