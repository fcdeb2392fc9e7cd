//! An open row: its slabs, which of them are in step, and its columns.
//!
//! A *provisional* row is not the pool's yet: it takes the place of its chunk's row once it holds all of that. A write
//! that one of its slabs misses ends that attempt, so nothing of it is ever written down as stale.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use holdfast_device::{Durability, IoError, IoErrorKind, IoSlice};
use holdfast_model::{BLOCK_BYTES, DiskState, Layout, Shape};
use holdfast_pool::slab::{self, SlabHeader, map_at};
use holdfast_pool::{FreedRow, Pool, RowRecord, SlabPlace, frame};

use arc_swap::Guard;

use crate::block_set::BlockSet;
use crate::boxed_cold::boxed_cold;
use crate::checksums::{ChecksumCache, Checksums};
use crate::column::{Blocks, Column, MapOnDisk};
use crate::lagging::Lagging;
use crate::lock_order::{TaskLock, rank};
use crate::map_owner::{MapOwner, block_map_number};
use crate::parity::{Bands, Geometry};
use crate::protection::Lost;
use crate::repairs::Repairs;
use crate::row_use::RowUse;
use crate::slab::{Slab, Slabs};

/// A disk that fails so many writes is taken out as a whole, but for the last copy: its other blocks can still be read.
const WRITE_ERRORS_ALLOWED: u64 = 16;
/// What the rows of a space share.
pub struct RowContext {
    /// The pool.
    pub pool: Arc<Pool>,
    /// The space's number.
    pub space: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// The checksums of all rows.
    pub checksums: Arc<ChecksumCache>,
    /// Blocks without a copy that is as its checksum says, which were taken as they are and are not reported yet.
    pub doubtful: Arc<AtomicU64>,
    /// Slabs that do not count though the pool has nothing against them.
    pub lost: Arc<Lost>,
    /// Blocks that were rewritten, and are told by sums.
    pub repairs: Arc<Repairs>,
    /// Disks that were found to lack what they had acknowledged.
    pub lagging: Arc<Lagging>,
}

/// What the slabs of a row are made of. Requests are distinguished by it once, where they come to the row.
pub enum RowBody {
    /// Columns, each on as many slabs as there are copies.
    Columns(Box<[Column]>),
    /// Bands of stripes with parity, over all slabs.
    Bands(Box<Bands>),
}

/// An open row.
pub struct Row {
    /// The pool.
    pub pool: Arc<Pool>,
    /// The space's number.
    pub space: u32,
    /// The chunk.
    pub chunk: u32,
    /// Its id and slabs.
    pub record: RowRecord,
    /// Its slabs: `column * copies + copy`.
    pub slabs: Slabs,
    /// What its slabs are made of, and what is known of that.
    pub body: RowBody,
    /// Its checksums, where it keeps them.
    pub checksums: Option<Arc<Checksums>>,
    /// Who uses it.
    pub in_use: RowUse,
    /// Whether every slab has its header: a write looks before it writes any.
    headers_whole: AtomicBool,
    /// Whether the pool has it written down that the row was written to.
    begun: AtomicBool,
    /// Whether no slab has any of its maps.
    mapless: AtomicBool,
    /// The row that it is to replace, while it is provisional; else 0.
    replaces: AtomicU64,
    /// Held while headers are written.
    headers: TaskLock<{ rank::HEADERS }>,
    /// Blocks of the chunk that were changed since somebody began to copy it.
    changed: Mutex<Option<BlockSet>>,
    /// Units that stay taken as long as anybody knows the row, who may have a request on its way to them.
    freed: Mutex<Vec<FreedRow>>,
    /// See [`RowContext`].
    pub doubtful: Arc<AtomicU64>,
    /// See [`RowContext`].
    lost: Arc<Lost>,
    /// See [`RowContext`].
    pub repairs: Arc<Repairs>,
    /// See [`RowContext`].
    pub lagging: Arc<Lagging>,
}

impl Row {
    /// A row of the pool with nothing known of its blocks yet; `blank` where the disks have nothing of them either.
    pub fn new(context: &RowContext, chunk: u32, record: RowRecord, blank: bool) -> Result<Self, IoError> {
        let RowContext { pool, space, chunk_bytes, checksums, doubtful, lost, repairs, lagging } = context;
        let (copies, has_parity) = (usize::from(record.shape.layout.copies()), record.shape.layout.parity() > 0);
        let slab_bytes = record.slab_data_bytes();
        let slabs = Slabs::new(pool, &record)?;
        let blocks = (slab_bytes / BLOCK_BYTES) as u32;
        let checksums = record
            .shape
            .has_checksums()
            .then(|| Checksums::new(slabs.len() / copies, blocks, blank, has_parity, checksums.clone()));
        let body = if has_parity {
            RowBody::Bands(Box::new(Bands::new(Geometry::new(&record.shape, *chunk_bytes, slab_bytes), slabs.len())))
        } else {
            let columns: Box<[Column]> = (0..record.shape.columns).map(|_| Column::new(slab_bytes, copies)).collect();
            if blank {
                columns.iter().for_each(Column::set_open);
            }
            RowBody::Columns(columns)
        };
        let begun = record.begun;
        let row = Self {
            pool: pool.clone(),
            space: *space,
            chunk,
            record,
            slabs,
            body,
            checksums,
            in_use: RowUse::default(),
            headers_whole: AtomicBool::new(false),
            begun: AtomicBool::new(begun),
            mapless: AtomicBool::new(true),
            replaces: AtomicU64::new(0),
            headers: TaskLock::default(),
            changed: Mutex::default(),
            freed: Mutex::default(),
            doubtful: doubtful.clone(),
            lost: lost.clone(),
            repairs: repairs.clone(),
            lagging: lagging.clone(),
        };
        row.refresh();
        Ok(row)
    }

    /// Its shape.
    pub fn shape(&self) -> &Shape {
        &self.record.shape
    }

    /// Whether its columns have several copies.
    pub fn mirrored(&self) -> bool {
        matches!(self.record.shape.layout, Layout::Mirror { .. })
    }

    /// Whether regions are marked dirty before they are written: their copies, or a block and its checksum, may differ
    /// after a crash.
    pub fn marks(&self) -> bool {
        self.mirrored() || (matches!(self.body, RowBody::Columns(_)) && self.checksums.is_some())
    }

    /// How many copies a column has.
    pub fn copies(&self) -> usize {
        self.record.shape.layout.copies().into()
    }

    /// The slabs of a column, with their index in the row.
    pub fn copies_of(&self, column: usize) -> impl Iterator<Item = (usize, Guard<Arc<Slab>>)> {
        let first = column * self.copies();
        (first..first + self.copies()).map(|index| (index, self.slabs.get(index)))
    }

    /// Asks the pool anew which slabs are in step.
    pub fn refresh(&self) {
        let outages: Vec<u32> = self.slabs.iter().map(|slab| slab.disk.outages()).collect();
        let Some(record) = self.pool.row(self.space, self.chunk) else { return };
        if record.id != self.record.id {
            return;
        }
        let online = |slab: &Slab| self.pool.disk_state(slab.disk.index) == Some(DiskState::Online);
        let known = || self.slabs.iter().zip(&record.slabs).zip(outages.iter().copied()).enumerate();
        let own = known().filter(|(_, ((slab, place), _))| slab.disk.index == place.disk());
        let own: Vec<_> =
            own.map(|(index, ((slab, place), outages))| (index, online(&slab), slab, place, outages)).collect();
        let returned = own.iter().filter(|(_, online, slab, place, outages)| slab.returns(place, *online, *outages));
        let returned: Vec<usize> = returned.map(|(index, ..)| *index).collect();
        if !returned.is_empty() {
            // Before anybody finds them to count.
            self.doubt_returned(&returned);
        }
        let begins = own.iter().filter(|(_, online, slab, place, outages)| slab.begins(place, *online, *outages));
        let begun: BTreeSet<usize> = begins.map(|(index, ..)| self.sums_set(*index)).collect();
        // Before, so that nothing old is served or copied once they count, and after, for what was read meanwhile.
        self.doubt_sums(&begun);
        let in_doubt = self.in_doubt();
        let settled = own.into_iter().filter(|(index, _, _, place, _)| place.stale() || !in_doubt.contains(index));
        settled.for_each(|(_, online, slab, place, outages)| slab.refresh(place, online, outages));
        self.doubt_sums(&begun);
    }

    /// Slabs of these sets count again, of which checksums may have been read without them.
    fn doubt_sums(&self, sets: &BTreeSet<usize>) {
        if let Some(checksums) = &self.checksums {
            sets.iter().for_each(|set| checksums.doubt(*set));
        }
    }

    /// Slabs that do not count until a commit has settled what they lost: nothing else would show a block that is not
    /// there.
    pub fn in_doubt(&self) -> BTreeSet<usize> {
        let bands = self.bands_if_any().filter(|_| self.checksums.is_none());
        bands.map(|bands| bands.lock().returned.clone()).unwrap_or_default()
    }

    /// Notes which slabs do not count though the pool has nothing against them: nothing proves what they hold, or which
    /// of their blocks hold anything.
    pub fn note_lost(&self) {
        let damaged = |index: usize| self.columns().get(index / self.copies()).is_some_and(Column::is_damaged);
        let is_lost = |index: &usize| self.slabs.get(*index).is_distrusted() || damaged(*index);
        self.lost.note(self.chunk, self.record.id, || (0..self.slabs.len()).filter(is_lost).collect());
    }

    /// Slabs count again that their disks may have lost something of, which was not durable.
    fn doubt_returned(&self, returned: &[usize]) {
        let columns = match &self.body {
            RowBody::Columns(columns) => columns,
            RowBody::Bands(bands) => {
                let mut state = bands.lock();
                match state.is_all_durable() {
                    true => state.returned.clear(),
                    false => state.returned.extend(returned),
                }
                return;
            }
        };
        for (index, column) in columns.iter().enumerate() {
            let mut state = column.lock();
            if self.marks() {
                // Its regions are looked at as after a crash.
                let marked = state.marked.clone();
                state.unsynced.insert_all(&marked);
                let limit = state.torn.limit();
                state.torn.remove(0, limit);
            }
            if self.copies_of(index).all(|(copy, slab)| returned.contains(&copy) || !slab.usable()) {
                state.lose_cached();
            }
            if self.checksums.is_none() {
                // Nothing tells whether a block that was not durable is there: it reads as it did before it was
                // written.
                state.forget_pending();
            }
        }
    }

    /// Notes that a provisional row, which nobody wrote to yet, is in step on every disk in service. Its headers say
    /// which row it is to replace.
    pub fn begin_provisional(&self, replaces: u64) {
        self.replaces.store(replaces, Ordering::Release);
        for (slab, place) in self.slabs.iter().zip(&self.record.slabs) {
            slab.refresh(&SlabPlace::new(place.disk(), place.unit()), true, slab.disk.outages());
        }
    }

    /// Its columns; none where it has parity.
    pub fn columns(&self) -> &[Column] {
        match &self.body {
            RowBody::Columns(columns) => columns,
            RowBody::Bands(_) => &[],
        }
    }

    /// Its bands, where it has parity.
    pub fn bands_if_any(&self) -> Option<&Bands> {
        match &self.body {
            RowBody::Columns(_) => None,
            RowBody::Bands(bands) => Some(bands),
        }
    }

    /// The bands of a row that was found to have parity.
    pub fn bands(&self) -> &Bands {
        self.bands_if_any().expect("only rows with parity have bands")
    }

    /// Whether none of its blocks holds data, and none is about to.
    pub fn is_empty(&self) -> bool {
        match &self.body {
            RowBody::Columns(columns) => {
                columns.iter().all(|column| column.is_open() && column.lock().written.is_empty())
            }
            RowBody::Bands(bands) => bands.lock().is_empty(),
        }
    }

    /// Whether the disks hold what was written, in place, and tell of it.
    pub fn is_durable(&self) -> bool {
        match &self.body {
            RowBody::Columns(columns) => columns.iter().all(|column| column.lock().is_durable()),
            RowBody::Bands(bands) => bands.lock().is_durable(),
        }
    }

    /// Bytes of data that it has room for.
    pub fn data_bytes(&self) -> u64 {
        self.record.slab_data_bytes() * u64::from(self.record.shape.columns)
    }

    /// Whether the slabs in step suffice for what the slab's group holds.
    fn serves(&self, slab: usize) -> bool {
        let group = self.record.shape.group(slab);
        group.filter(|other| self.slabs.get(*other).usable()).count() >= self.record.shape.needed()
    }

    /// Whether all that it holds can be read.
    pub fn served(&self) -> bool {
        (0..self.slabs.len()).step_by(self.record.shape.group(0).len()).all(|slab| self.serves(slab))
    }

    /// Sees to it that a column can be read; asks the pool where it seems that it cannot.
    pub async fn settle_column(&self, column: usize) -> Result<(), IoError> {
        self.settle_group(column * self.copies()).await
    }

    /// Sees to it that what a slab's group holds can be read; asks the pool where it seems that it cannot.
    pub async fn settle_group(&self, slab: usize) -> Result<(), IoError> {
        if self.serves(slab) {
            return Ok(());
        }
        boxed_cold(self.pool.settled()).await;
        self.refresh();
        if self.serves(slab) { Ok(()) } else { Err(self.unserved(slab)) }
    }

    /// That too few slabs of a parity row are in step.
    pub fn too_few(&self) -> IoError {
        self.unserved(0)
    }

    fn unserved(&self, slab: usize) -> IoError {
        let group = self.record.shape.group(slab).map(|index| self.slabs.get(index));
        let lost: Vec<_> = group.filter(|slab| !slab.usable()).collect();
        let kind = if lost.iter().any(|slab| slab.disk.in_service()) { IoErrorKind::Stale } else { IoErrorKind::Gone };
        let disks: Vec<String> = lost.iter().map(|slab| self.pool.disk_label(slab.disk.index)).collect();
        let what = if kind == IoErrorKind::Gone { "is on disks out of service" } else { "is not in step on disks" };
        IoError::new(kind, format!("{} {what}: {}", self.part(), disks.join(", ")))
    }

    /// Deals with a slab that failed a write: records that it is stale, or takes its disk out. Durable when answered.
    pub async fn write_failed(&self, index: usize, slab: &Slab, error: &IoError) -> Result<(), IoError> {
        let replaced = !std::ptr::eq(slab, &**self.slabs.get(index));
        if replaced || self.is_gone() {
            slab.set_behind();
            return Ok(());
        }
        let errors = slab.disk.counters.write_errors.fetch_add(1, Ordering::Relaxed) + 1;
        let group = self.record.shape.group(index);
        let others = group.filter(|other| *other != index && self.slabs.get(*other).usable()).count();
        let alone = others < self.record.shape.needed();
        let failing = errors >= WRITE_ERRORS_ALLOWED && !alone;
        let whole = error.kind == IoErrorKind::Gone || failing || slab.joining();
        if whole {
            let state = if error.kind == IoErrorKind::Gone { DiskState::Missing } else { DiskState::Failed };
            self.pool.disk_out(slab.disk.index, state, &error.to_string()).await?;
        } else {
            slab.set_behind();
            self.pool.mark_stale(self.space, self.chunk, index).await?;
        }
        self.refresh();
        Ok(())
    }

    /// Makes sure that the copies which a write passed over are recorded as stale, and that one that took it is in
    /// step.
    pub async fn confirm(&self, column: usize, took: &[usize]) -> Result<(), IoError> {
        let recorded = |index: usize, slab: &Slab| took.contains(&index) || slab.stale_recorded();
        if !self.copies_of(column).all(|(index, slab)| recorded(index, &slab)) {
            boxed_cold(self.pool.settled()).await;
            self.refresh();
        }
        let passed = self.copies_of(column).find(|(index, slab)| !recorded(*index, slab));
        let lasting = took.iter().any(|index| self.slabs.get(*index).usable());
        match passed {
            None if lasting => Ok(()),
            _ => {
                Err(IoError::new(IoErrorKind::Media, format!("{}: no up-to-date copy accepted the write", self.part())))
            }
        }
    }

    /// Makes sure that slabs which missed a write are recorded as stale, and that the others suffice.
    pub async fn confirm_missed(&self, missed: &[usize]) -> Result<(), IoError> {
        let recorded = |index: &usize| self.slabs.get(*index).stale_recorded();
        if !missed.iter().all(recorded) || !self.serves(0) {
            self.pool.settled().await;
            self.refresh();
        }
        if missed.iter().all(recorded) && self.serves(0) {
            return Ok(());
        }
        let object = format!("{}: too few up-to-date slabs accepted the write", self.part());
        Err(IoError::new(IoErrorKind::Media, object))
    }

    /// Which map of which column.
    pub fn owner(&self, column: usize, map: usize) -> MapOwner {
        MapOwner { pool: self.pool.id(), row: self.record.id, chunk: self.chunk, map: block_map_number(column, map) }
    }

    /// Notes that all slab headers are on disk.
    pub fn set_headers_whole(&self) {
        self.headers_whole.store(true, Ordering::Release);
    }

    /// Notes that a slab has one of its maps.
    pub fn set_mapped(&self) {
        self.mapless.store(false, Ordering::Release);
    }

    /// Whether the pool has it written down that the row was written to, so that a slab without header or map is
    /// damaged.
    pub fn begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Writes the slab headers, and before the first write to the row its maps and the word of the pool that it begins.
    pub async fn ensure_headers(&self) -> Result<(), IoError> {
        match self.headers_whole.load(Ordering::Acquire) && self.begun() {
            true => Ok(()),
            false => boxed_cold(self.write_headers()).await,
        }
    }

    async fn write_headers(&self) -> Result<(), IoError> {
        let _one = self.headers.lock().await;
        if self.headers_whole.load(Ordering::Acquire) && self.begun() {
            return Ok(());
        }
        let usable: Vec<usize> = (0..self.slabs.len()).filter(|index| self.slabs.get(*index).usable()).collect();
        if !self.begun() && self.mapless.load(Ordering::Acquire) {
            self.write_first_heads(&usable).await?;
        } else {
            for index in &usable {
                self.write_header(*index).await?;
            }
            if !self.begun() {
                self.write_every_map().await?;
            }
        }
        self.set_headers_whole();
        if !self.begun() {
            if self.replaces.load(Ordering::Acquire) == 0 {
                self.pool.begin_row(self.space, self.chunk).await?;
            }
            self.begun.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The row, with all its slabs, is the pool's now: its headers are to say so before it is written to again.
    pub fn renew_headers(&self) {
        self.replaces.store(0, Ordering::Release);
        self.headers_whole.store(false, Ordering::Release);
    }

    /// Writes on the slabs of a row that goes that it does, so that nobody takes what is left there for a row. A hint:
    /// where it cannot be written, it is left out. Should the row stay, its headers come back with the next write.
    pub async fn write_off(&self) {
        self.headers_whole.store(false, Ordering::Release);
        let writes = (0..self.slabs.len()).map(|index| async move {
            let slab = self.slabs.get(index);
            if slab.usable()
                && let Ok(block) = self.header(index, &slab, slab::WRITTEN_OFF)
            {
                let _ = slab.disk.write(slab.start, block, Durability::Durable).await;
            }
        });
        join_all(writes).await;
    }

    /// The header of a slab, to be written where that begins. `replaces` says how the row stands.
    pub fn header(&self, index: usize, slab: &Slab, replaces: u64) -> Result<IoSlice, IoError> {
        let Some(space) = self.pool.space(self.space) else {
            return Err(IoError::new(IoErrorKind::Gone, format!("space {}", self.space)));
        };
        let journal = self.pool.journal_span(self.space, self.chunk);
        let header = SlabHeader::new(self.pool.name().clone(), &space, self.chunk, &self.record, index, journal);
        let frame = frame::Frame {
            kind: frame::Kind::SlabHeader,
            pool: self.pool.id(),
            disk: slab.disk.id,
            offset: slab.start,
            position: frame::Position { generation: self.record.id, sequence: replaces },
            previous: 0,
        };
        Ok(frame.seal(&header.write()).freeze())
    }

    /// The header of a slab as the row stands now.
    pub fn header_now(&self, index: usize, slab: &Slab) -> Result<IoSlice, IoError> {
        self.header(index, slab, self.replaces.load(Ordering::Acquire))
    }

    /// Writes the header of a slab; a failure makes it stale.
    pub async fn write_header(&self, index: usize) -> Result<(), IoError> {
        let slab = self.slabs.get(index);
        let block = self.header_now(index, &slab)?;
        match slab.disk.write(slab.start, block, Durability::Durable).await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.write_failed(index, &slab, &error).await?;
                self.settle_group(index).await
            }
        }
    }

    /// Writes the block maps of a column that are behind to every copy that takes writes, durably.
    pub async fn write_maps(&self, column: usize) -> Result<(), IoError> {
        let mut maps = self.columns()[column].maps.lock().await;
        for (map, place) in maps.iter_mut().enumerate() {
            if self.columns()[column].lock().is_behind(map) {
                self.write_map(column, map, place).await?;
            }
        }
        Ok(())
    }

    /// Writes a block map to every copy that takes writes, durably. The maps are held by the caller.
    pub async fn write_map(&self, column: usize, map: usize, place: &mut MapOnDisk) -> Result<(), IoError> {
        let write = self.columns()[column].lock().begin_map(map);
        let owner = self.owner(column, map);
        place.sequence += 1;
        let targets: Vec<usize> =
            self.copies_of(column).filter(|(_, slab)| slab.takes_writes()).map(|(index, _)| index).collect();
        let writes = targets.iter().map(|index| {
            let slab = self.slabs.get(*index);
            let slot = &mut place.slots[*index % self.copies()];
            *slot = 1 - *slot;
            let offset = slab.start + map_at(map, (*slot).into());
            let block = write.bits.seal(&owner, slab.disk.id, offset, place.sequence);
            let write = slab.disk.write(offset, block.freeze(), Durability::Durable);
            async move { (slab, write.await) }
        });
        let writes: Vec<_> = writes.collect();
        let results = futures_util::future::join_all(writes).await;
        let mut took = Vec::new();
        for (index, (slab, result)) in targets.iter().zip(results) {
            match result {
                Ok(()) => took.push(*index),
                Err(error) => self.write_failed(*index, &slab, &error).await?,
            }
        }
        self.confirm(column, &took).await?;
        self.columns()[column].lock().end_map(&write);
        Ok(())
    }

    /// Marks regions of a column dirty on every copy, durably.
    pub async fn mark_dirty(&self, column: usize, regions: Blocks) -> Result<(), IoError> {
        self.open_column(column).await?;
        self.columns()[column].lock().wanted.insert(regions.start, regions.end);
        let mut maps = self.columns()[column].maps.lock().await;
        for (map, place) in maps.iter_mut().enumerate() {
            let first = map as u32 * crate::block_map::MAP_REGIONS;
            let (start, end) = (regions.start.max(first), regions.end.min(first + crate::block_map::MAP_REGIONS));
            let missing = start < end && {
                let mut state = self.columns()[column].lock();
                let missing = !state.marked.contains_all(start, end);
                if missing {
                    state.want_around(Blocks { start, end });
                } else {
                    state.wanted.remove(start, end);
                }
                missing
            };
            if missing {
                self.write_map(column, map, place).await?;
            }
        }
        Ok(())
    }

    /// Blocks of the chunk that were changed since somebody began to copy it.
    pub fn changed(&self) -> std::sync::MutexGuard<'_, Option<BlockSet>> {
        self.changed.lock().expect("no panic while held")
    }

    /// Keeps units of the row taken until the last request that knows it is over.
    pub fn hold_freed(&self, freed: impl IntoIterator<Item = FreedRow>) {
        self.freed.lock().expect("no panic while held").extend(freed);
    }

    /// What it keeps taken.
    pub fn take_freed(&self) -> Vec<FreedRow> {
        std::mem::take(&mut *self.freed.lock().expect("no panic while held"))
    }

    /// The result of maintenance on the row, where a failure does not matter if the row was given back meanwhile.
    pub fn unless_gone(&self, result: Result<(), IoError>) -> Result<(), IoError> {
        if result.is_err() && self.is_gone() { Ok(()) } else { result }
    }

    /// Whether its chunk has no row or another one: it was given back, or is provisional.
    pub fn is_gone(&self) -> bool {
        self.pool.row(self.space, self.chunk).is_none_or(|record| record.id != self.record.id)
    }

    /// Whether all its slabs are in step.
    pub fn whole(&self) -> bool {
        self.slabs.iter().all(|slab| slab.usable())
    }
}
