//! The journal read when a space is opened: what was intended in place is done again, and what was only written there
//! waits in memory as before.
//!
//! Records are carried out in their order. An intent that was done already does no harm: whatever changed the same
//! blocks later, parity that was computed for a slab included, stands in the log behind it, or voids it. What is for a row
//! that cannot be opened is deferred.

use std::sync::Arc;

use holdfast_device::{Durability, IoError, IoErrorKind, IoSlice};

use crate::boxed_cold::boxed_cold;
use crate::row::Row;

use super::dirty::{Content, Extent, Logged};
use super::geometry::{Geometry, bytes_of};
use super::journal::Journal;
use super::log_record::{FoundRecord, Stamps};
use super::record::{Blocks, Entry, Intent, StagedPiece};
use super::recover::{Found, Recovery};
use super::store::ParityStore;

/// An entry of a record that counts.
pub(super) struct LiveEntry<'a> {
    /// What it tells.
    pub entry: &'a Entry,
    /// The row's chunk.
    pub chunk: u32,
    /// The band.
    pub band: u32,
    /// The blocks that the record brings along for it.
    pub blocks: IoSlice,
    /// Where they are in the log.
    log_at: u64,
}

/// Where the blocks of an intent are.
enum Brought<'a> {
    /// Here, one piece behind the other.
    Blocks(IoSlice),
    /// On the slabs.
    Staged(&'a [StagedPiece]),
}

impl Brought<'_> {
    /// What is found of each piece; `None` where its slab is not in step and has it alone.
    async fn of(&self, row: &Row, intent: &Intent) -> Vec<Option<Found>> {
        let len = bytes_of(intent.len);
        let whole = |data| Some(Found { data, lost: Vec::new() });
        match self {
            Self::Blocks(blocks) => {
                (0..intent.pieces() as usize).map(|at| whole(blocks.slice(at * len, len))).collect()
            }
            Self::Staged(pieces) => row.read_staged(intent, pieces).await,
        }
    }
}

impl ParityStore {
    /// The journal, read and carried out if that was not done yet.
    pub async fn journal(&self) -> Result<Arc<Journal>, IoError> {
        if let Some(journal) = self.journal.load_full() {
            return Ok(journal);
        }
        let _one = self.opening.lock().await;
        if let Some(journal) = self.journal.load_full() {
            return Ok(journal);
        }
        let journal = self.open_journal().await?;
        self.replay(&journal).await?;
        self.journal.store(Some(journal.clone()));
        Ok(journal)
    }

    /// The journal, for work that may hold locks which come after that of opening it. It was open when the work began;
    /// it is missing only where another journal took its place and could not be opened. The next request, flush or
    /// maintenance opens that one before it takes locks.
    pub(super) fn opened_journal(&self) -> Result<Arc<Journal>, IoError> {
        let missing = || IoError::new(IoErrorKind::Gone, format!("the journal of space {} is not open", self.path()));
        self.journal.load_full().ok_or_else(missing)
    }

    /// Whether requests may go on: a parity space serves nothing before its journal is carried out.
    pub async fn ready(&self) -> Result<(), IoError> {
        if !self.journaled() || self.journal.load().is_some() {
            return Ok(());
        }
        match boxed_cold(self.journal()).await {
            // It was given up meanwhile: no row keeps parity any more.
            Err(_) if !self.journaled() => Ok(()),
            opened => opened.map(drop),
        }
    }

    /// As [`ParityStore::ready`], for what came upon rows with parity after it had asked that: a space that gets
    /// another shape has its first journal, and rows with parity, before the request for the shape is answered. Such a
    /// journal holds nothing, so opening it waits for no row.
    pub async fn ready_by_now(&self) -> Result<(), IoError> {
        match self.has_unopened_journal() {
            true => boxed_cold(self.journal()).await.map(drop),
            false => Ok(()),
        }
    }

    /// Whether the pool knows of a journal that was not opened yet.
    pub fn has_unopened_journal(&self) -> bool {
        self.journal.load().is_none() && !self.pool.journal_rows(self.record.id).is_empty()
    }

    /// The journal, where it has one.
    pub async fn journal_if_any(&self) -> Result<Option<Arc<Journal>>, IoError> {
        self.ready().await?;
        Ok(self.journal.load_full())
    }

    pub(super) async fn open_journal(&self) -> Result<Arc<Journal>, IoError> {
        let mut rows = Vec::new();
        for (chunk, _) in self.pool.journal_rows(self.record.id) {
            let one = self.rows.lock_chunk(chunk).await;
            let row = self.rows.load(chunk, async |_| Ok(())).await?.ok_or_else(|| self.no_journal())?;
            drop(one);
            row.ensure_headers().await?;
            rows.push(row);
        }
        if rows.is_empty() {
            return Err(self.no_journal());
        }
        Ok(Arc::new(Journal::new(self.pool.id(), self.record.uuid, rows)))
    }

    pub(super) fn no_journal(&self) -> IoError {
        IoError::new(IoErrorKind::Media, format!("space {} has lost its journal", self.path()))
    }

    async fn replay(&self, journal: &Arc<Journal>) -> Result<(), IoError> {
        let unit = |blocks: &Blocks| {
            let row = self.pool.row(self.record.id, blocks.chunk).filter(|row| row.id == blocks.row);
            row.filter(|row| row.shape.layout.parity() > 0).map_or((blocks.chunk, 0), |row| {
                let geometry = Geometry::new(&row.shape, self.record.chunk_bytes, u64::MAX >> 8);
                (blocks.chunk, geometry.band_of(blocks.start))
            })
        };
        let band_of = |entry: &Entry| match entry {
            Entry::Written(blocks) | Entry::Emptied(blocks) => unit(blocks),
            Entry::Intent(intent) | Entry::Staged(intent, _) => (intent.chunk, intent.band),
            Entry::Void { chunk, band, .. } => (*chunk, *band),
        };
        // Whatever an attempt that failed deferred is found again.
        self.forget_all_deferred();
        let records = self.read_journal(journal, band_of).await?;
        let mut voids = Stamps::new();
        for entry in records.iter().flat_map(|record| &record.entries) {
            if let Entry::Void { row, stamp, band, .. } = entry {
                let known = voids.entry((*row, *band)).or_default();
                *known = (*known).max(*stamp);
            }
        }
        let voids = Arc::new(voids);
        let mut recovery = Recovery::default();
        for record in &records {
            let brought = self.blocks_of(journal, record).await?;
            for live in self.live_entries(record, &brought, &voids) {
                if let Some(row) = self.row_to_replay(live.chunk, record, &voids).await? {
                    self.replay_entry(&row, &live, record, &mut recovery).await?;
                }
            }
        }
        recovery.finish().await?;
        self.report_deferred();
        Ok(())
    }

    /// What counts of a record: neither done with, nor of a row that was given back since.
    pub(super) fn live_entries<'a>(
        &self,
        record: &'a FoundRecord,
        brought: &IoSlice,
        voids: &Stamps,
    ) -> Vec<LiveEntry<'a>> {
        let mut live = Vec::with_capacity(record.entries.len());
        let mut at = 0;
        for (entry, (_, band)) in record.entries.iter().zip(&record.record.bands) {
            let len = bytes_of(entry.blocks());
            let (blocks, log_at) = (brought.slice(at, len), record.blocks_at + at as u64);
            at += len;
            let (chunk, row, stamp) = match entry {
                Entry::Written(blocks) | Entry::Emptied(blocks) => (blocks.chunk, blocks.row, blocks.stamp),
                Entry::Intent(intent) | Entry::Staged(intent, _) => (intent.chunk, intent.row, intent.stamp),
                Entry::Void { chunk, row, stamp, .. } => (*chunk, *row, *stamp),
            };
            self.write_buffer.pass_stamp(stamp);
            let done =
                matches!(entry, Entry::Void { .. }) || voids.get(&(row, *band)).is_some_and(|void| stamp <= *void);
            if !done && self.pool.row(self.record.id, chunk).is_some_and(|known| known.id == row) {
                live.push(LiveEntry { entry, chunk, band: *band, blocks, log_at });
            }
        }
        live
    }

    pub(super) async fn replay_entry(
        &self,
        row: &Arc<Row>,
        live: &LiveEntry<'_>,
        record: &FoundRecord,
        recovery: &mut Recovery,
    ) -> Result<(), IoError> {
        if row.bands_if_any().is_none() {
            return Err(self.bad_record(record));
        }
        let LiveEntry { band, blocks, log_at, .. } = live;
        match live.entry {
            Entry::Written(found) => {
                self.replay_blocks(row, found, *band, Content::Bytes(blocks.clone()), *log_at, record)
            }
            Entry::Emptied(found) => self.replay_blocks(row, found, *band, Content::Nothing, *log_at, record),
            Entry::Intent(intent) => {
                self.replay_intent(row, intent, &Brought::Blocks(blocks.clone()), record, recovery).await
            }
            Entry::Staged(intent, pieces) if recovery.keep(row, intent, pieces) => {
                self.replay_intent(row, intent, &Brought::Staged(pieces), record, recovery).await
            }
            Entry::Staged(..) => Err(self.bad_record(record)),
            Entry::Void { .. } => Ok(()),
        }
    }

    /// Blocks that wait again to be destaged.
    fn replay_blocks(
        &self,
        row: &Arc<Row>,
        found: &Blocks,
        band: u32,
        content: Content,
        at: u64,
        record: &FoundRecord,
    ) -> Result<(), IoError> {
        let geometry = row.bands().geometry;
        let end = found.start + found.len;
        if end > geometry.blocks() || geometry.band_of(end - 1) != band {
            return Err(self.bad_record(record));
        }
        let content = match content {
            Content::Bytes(bytes) if self.write_buffer.bytes() > self.limits.write_buffer_bytes => {
                Content::Logged(Logged::new(at, &bytes))
            }
            content => content,
        };
        let held = vec![(found.stamp, record.record.clone())];
        let extent = Extent { len: found.len, content, stamp: found.stamp, logged: true, held };
        let mut guard = row.bands().lock();
        let state = &mut *guard;
        state.note_logged(band, record.end, found.stamp);
        self.write_buffer.put(row, state, band, found.start, extent);
        drop(guard);
        self.rows.touch(row);
        Ok(())
    }

    /// What was about to change in place, done once more.
    async fn replay_intent(
        &self,
        row: &Arc<Row>,
        intent: &Intent,
        brought: &Brought<'_>,
        record: &FoundRecord,
        recovery: &mut Recovery,
    ) -> Result<(), IoError> {
        let geometry = row.bands().geometry;
        let data_mask = (1u64 << geometry.data) - 1;
        let fits = intent.band < geometry.bands
            && intent.stripe / geometry.stripes() == intent.band
            && u32::from(intent.place) < geometry.places
            && intent.within + intent.len <= geometry.unit
            && u64::from(intent.filled | intent.emptied) & !data_mask == 0
            && u32::from(intent.parity) < 1 << geometry.parity;
        if !fits {
            return Err(self.bad_record(record));
        }
        let _turn = row.band_turn(intent.band).await;
        if row.bands().lock().places[intent.band as usize] != intent.place {
            // The band moved since, with all that was written to it until then. The commit that moved it may not have
            // said so in the journal: until that is done nothing may be put in the place that the intent is for.
            let mut guard = row.bands().lock();
            let state = &mut *guard;
            self.write_buffer.take_until(state, intent.band, intent.stamp);
            state.note_logged(intent.band, record.end, intent.stamp);
            state.keep_void(intent.band, intent.stamp, intent.place);
            drop(guard);
            self.rows.touch(row);
            return Ok(());
        }
        let (mut writes, mut away) = (Vec::new(), Vec::new());
        for (piece, found) in geometry.pieces_of(intent).zip(brought.of(row, intent).await) {
            let column = geometry.column(intent.stripe, piece);
            let Some(Found { data, lost }) = found else {
                away.push(column);
                continue;
            };
            let mut from = 0;
            for to in lost.iter().copied().chain([intent.len]) {
                if from < to {
                    let offset = geometry.offset(intent.stripe, intent.within + from, intent.place);
                    writes.push((column, offset, data.slice(bytes_of(from), bytes_of(to - from))));
                }
                from = to + 1;
            }
            recovery.note(row, intent, piece, &lost);
        }
        row.write_pieces(&writes, Durability::Cached).await?;
        row.confirm_missed(&away).await?;
        let mut guard = row.bands().lock();
        let state = &mut *guard;
        for piece in 0..geometry.data {
            let first = geometry.block(intent.stripe, piece, intent.within);
            let (filled, emptied) = (intent.filled >> piece & 1 == 1, intent.emptied >> piece & 1 == 1);
            if filled {
                state.written.insert(first, first + intent.len);
            }
            if emptied {
                state.written.remove(first, first + intent.len);
            }
            if (filled || emptied)
                && let Some(dirty) = state.dirty.get_mut(&intent.band)
            {
                // What was written after the plan was made stands.
                for (at, extent) in dirty.take(first, first + intent.len) {
                    self.write_buffer.take(extent.bytes());
                    if extent.stamp > intent.stamp {
                        self.write_buffer.add(extent.bytes());
                        dirty.insert(at, extent);
                    }
                }
                if dirty.is_empty() {
                    state.dirty.remove(&intent.band);
                }
            }
        }
        state.note_logged(intent.band, record.end, intent.stamp);
        state.in_place.insert(intent.band, intent.stamp);
        state.uncommitted.changed.insert(intent.band, intent.band + 1);
        state.uncommitted.behind.insert(row.bands().map_of(intent.band));
        state.hold(&record.record);
        drop(guard);
        self.rows.touch(row);
        Ok(())
    }

    fn bad_record(&self, record: &FoundRecord) -> IoError {
        let at = record.record.at;
        IoError::new(
            IoErrorKind::Media,
            format!("the journal of space {} has an impossible record at {at}", self.path()),
        )
    }
}
