//! The configuration of a pool: its disks, its spaces, and where every slab lies. It changes only by [`Change`]s, which
//! are what the metadata log holds; a checkpoint is the list of changes that builds the configuration from nothing.
//!
//! Invariants: no two slabs share a unit; the slabs of a row are on distinct disks; of the slabs that back each other
//! as many as serve them are never stale: one copy of a column, the data columns' number of a parity row.
//! [`Config::apply`] refuses a change that would break one, so a damaged log cannot either.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::wire::{WireError, Writer};
use holdfast_model::{DiskState, Name, Shape};

use crate::area::Area;
use crate::change::{Change, Subject, standing};
use crate::extents::FreeExtents;
use crate::features::Features;
use crate::frame::Position;
use crate::geometry::{JOURNAL_CHUNK, can_hold, slab_units};
use crate::place::{MAX_DISKS, SlabPlace};
use crate::record::{DiskRecord, LossPolicy, RowRecord, SpaceRecord, is_journal_row};

/// A space with its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceRows {
    /// The space.
    pub record: SpaceRecord,
    /// Its rows by chunk; those of its journal are numbered from [`JOURNAL_CHUNK`] on.
    pub rows: BTreeMap<u32, RowRecord>,
}

impl SpaceRows {
    /// The rows of its journal.
    pub fn journal_rows(&self) -> impl Iterator<Item = (&u32, &RowRecord)> {
        self.rows.range(JOURNAL_CHUNK..)
    }

    /// The rows that hold its data, from a chunk on.
    pub fn data_rows(&self, from: u32) -> impl Iterator<Item = (&u32, &RowRecord)> {
        self.rows.range(from.min(JOURNAL_CHUNK)..JOURNAL_CHUNK)
    }

    /// How many rows hold its data.
    pub fn data_row_count(&self) -> usize {
        self.rows.len() - self.journal_rows().count()
    }
}

/// The whole configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The pool's name; `None` before the first change.
    pub name: Option<Name>,
    /// Features that it uses.
    pub features: Features,
    /// Whether it was closed in good order.
    pub closed: bool,
    /// Disks by number.
    pub disks: BTreeMap<u16, DiskRecord>,
    /// Spaces by number.
    pub spaces: BTreeMap<u32, SpaceRows>,
    /// The next row's id.
    pub next_row: u64,
    /// The next space's number.
    pub next_space: u32,
    /// The next disk's number.
    pub next_disk: u16,
    /// Free units of each disk.
    pub free: BTreeMap<u16, FreeExtents>,
    /// Where forced imports left a history that other disks may have continued, and the generations that they began;
    /// the latest of them.
    pub forced: Vec<(Position, u64)>,
    /// What is done about lost disks.
    pub loss_policy: LossPolicy,
    /// Documents by name.
    pub documents: BTreeMap<String, Box<[u8]>>,
    /// Disks that get a slab only where no others have room; no part of the log.
    pub(crate) avoided: BTreeSet<u16>,
    /// Bytes of all rows in a checkpoint, at most; kept up to date since counting them takes long.
    pub(crate) row_bytes: u64,
    /// Bytes of all documents in a checkpoint.
    pub(crate) document_bytes: u64,
}

/// The most bytes of a document.
pub const MOST_DOCUMENT_BYTES: usize = 64 << 10;
/// The most bytes of its name.
pub(crate) const MOST_KEY_BYTES: usize = 200;
/// The most documents.
pub(crate) const MOST_DOCUMENTS: usize = 16 << 10;
/// The most bytes of all documents in a checkpoint.
pub(crate) const MOST_DOCUMENTS_BYTES: u64 = 4 << 20;

/// Bytes of a checkpoint before its disks, at most.
const FIRST_BYTES: u64 = 1024;
/// Bytes of a disk in a checkpoint without its texts, at most.
const DISK_BYTES: usize = 72;
/// Bytes of a space in a checkpoint, at most.
pub(crate) const SPACE_BYTES: u64 = 128;

/// Bytes of a row in a checkpoint, with as many stale slabs as it can have.
pub(crate) fn row_bytes(shape: &Shape) -> u64 {
    let width = shape.width() as u64;
    27 + 6 * width + 12 * (width - shape.least_width() as u64)
}

/// Forced imports that are remembered.
const MOST_FORCED: usize = 16;

impl Config {
    /// Whether each of its disks keeps its log twice.
    pub(crate) fn keeps_logs_twice(&self) -> bool {
        let online = self.disks.values().filter(|disk| disk.state == DiskState::Online);
        self.features.keep_logs_twice(online.count())
    }

    /// Carries out a change.
    ///
    /// # Errors
    /// A change that breaks an invariant; the configuration is then to be thrown away.
    pub fn apply(&mut self, change: &Change) -> Result<(), WireError> {
        match change {
            Change::Pool(name) => self.name = Some(name.clone()),
            Change::Features(features) if features.unknown_incompatible() != 0 => {
                return Err(WireError::Value("features"));
            }
            Change::Features(features) => self.features = *features,
            Change::Opened => self.closed = false,
            Change::Closed => self.closed = true,
            Change::Counters { row, space, disk } => {
                if *row == u64::MAX || *space == u32::MAX || *disk > MAX_DISKS {
                    return Err(WireError::Value("counter"));
                }
                self.next_row = self.next_row.max(*row);
                self.next_space = self.next_space.max(*space);
                self.next_disk = self.next_disk.max(*disk);
            }
            Change::Disk(record) => self.apply_disk(record)?,
            Change::DiskOut { disk, state, holds } => self.apply_disk_out(*disk, *state, *holds)?,
            Change::DiskOutdated(disk) => self.apply_disk_outdated(*disk)?,
            Change::DiskGone(disk) => self.apply_disk_gone(*disk)?,
            Change::LossPolicy(policy) => self.loss_policy = *policy,
            Change::Document { key, content } => self.apply_document(key, content.as_deref())?,
            Change::Space(record) => self.apply_space(record)?,
            Change::SpaceGone(id) => {
                let gone = self.spaces.remove(id).ok_or(WireError::Value("space"))?;
                for row in gone.rows.values() {
                    self.release(row);
                    self.row_bytes -= row_bytes(&row.shape);
                }
            }
            Change::Row { space, chunk, row } => self.apply_row(*space, *chunk, row)?,
            Change::RowGone { space, chunk } => {
                let rows = &mut self.spaces.get_mut(space).ok_or(WireError::Value("space"))?.rows;
                let gone = rows.remove(chunk).ok_or(WireError::Value("row"))?;
                self.release(&gone);
                self.row_bytes -= row_bytes(&gone.shape);
            }
            Change::Stale { space, chunk, slab, stale } => {
                // The row may have been given back while the change waited for the log.
                let Some(row) = self.row_mut(*space, *chunk) else { return Ok(()) };
                let index = usize::from(*slab);
                if index >= row.slabs.len() {
                    return Err(WireError::Value("slab"));
                }
                if !*stale || !row.is_needed(index) {
                    row.slabs[index].set_stale(*stale);
                }
            }
            Change::Outdated { space, chunk, slab, outdated } => {
                let Some(row) = self.row_mut(*space, *chunk) else { return Ok(()) };
                let index = usize::from(*slab);
                if index >= row.slabs.len() {
                    return Err(WireError::Value("slab"));
                }
                if row.slabs[index].stale() || !row.is_needed(index) {
                    row.slabs[index].set_outdated(*outdated);
                }
            }
            Change::RowBegun { space, chunk } => {
                if let Some(row) = self.row_mut(*space, *chunk) {
                    row.begun = true;
                }
            }
            Change::Forced { from, generation } => {
                self.forced.push((*from, *generation));
                if self.forced.len() > MOST_FORCED {
                    self.forced.remove(0);
                }
            }
        }
        Ok(())
    }

    /// Whether a change at `position` is no part of this history, since a forced import left it before.
    pub fn departed_before(&self, position: Position) -> bool {
        self.forced.iter().any(|(from, generation)| *from < position && position.generation < *generation)
    }

    /// Whether [`Config::apply`] would carry out a change that the pool itself made. A row's units are taken
    /// beforehand.
    pub(crate) fn takes(&self, change: &Change) -> bool {
        let row = |space, chunk| self.spaces.get(space).and_then(|space| space.rows.get(chunk));
        match change {
            Change::Row { space, chunk, row: new } => {
                self.spaces.contains_key(space) && row(space, chunk).is_none() && self.has_disks_of(new)
            }
            Change::RowGone { space, chunk } | Change::RowBegun { space, chunk } => row(space, chunk).is_some(),
            Change::Stale { space, chunk, slab, .. } | Change::Outdated { space, chunk, slab, .. } => {
                row(space, chunk).is_some_and(|row| usize::from(*slab) < row.slabs.len())
            }
            Change::SpaceGone(id) => self.spaces.contains_key(id),
            Change::Space(record) => self.spaces.get(&record.id).is_none_or(|space| space.record.uuid == record.uuid),
            Change::DiskOut { disk, .. } | Change::DiskOutdated(disk) => self.disks.contains_key(disk),
            Change::DiskGone(disk) => self.may_go(*disk),
            Change::Disk(record) => self.disks.get(&record.index).is_none_or(|known| known.id == record.id),
            Change::Document { key, content } => self.takes_document(key, content.as_deref()),
            other => other.subject() == Subject::Pool,
        }
    }

    /// The same of changes that are made together: a row may come where one is given up before.
    pub(crate) fn takes_all(&self, changes: &[Change]) -> bool {
        let comes_after = |at: usize, space: u32, chunk: u32| changes[..at].contains(&Change::RowGone { space, chunk });
        changes.iter().enumerate().all(|(at, change)| match change {
            Change::Row { space, chunk, row } if comes_after(at, *space, *chunk) => self.has_disks_of(row),
            change => self.takes(change),
        })
    }

    fn has_disks_of(&self, row: &RowRecord) -> bool {
        row.slabs.iter().all(|slab| self.disks.contains_key(&slab.disk()))
    }

    /// Takes the units of a row; false, and nothing taken, where one is not free.
    pub fn reserve(&mut self, row: &RowRecord) -> bool {
        for (taken, slab) in row.slabs.iter().enumerate() {
            let free = self.free.get_mut(&slab.disk());
            if !free.is_some_and(|free| free.take_at(slab.unit(), row.slab_units)) {
                for slab in &row.slabs[..taken] {
                    self.free.get_mut(&slab.disk()).expect("taken from").give(slab.unit(), row.slab_units);
                }
                return false;
            }
        }
        true
    }

    /// Gives the units of a row back.
    pub fn release(&mut self, row: &RowRecord) {
        for slab in &row.slabs {
            if let Some(free) = self.free.get_mut(&slab.disk()) {
                free.give(slab.unit(), row.slab_units);
            }
        }
    }

    /// The changes that build this configuration from nothing, in order, one at a time.
    pub fn changes(&self) -> impl Iterator<Item = Change> {
        let features = (self.features != Features::NONE).then_some(Change::Features(self.features));
        let head = self
            .name
            .clone()
            .map(Change::Pool)
            .into_iter()
            .chain(features)
            .chain(self.closed.then_some(Change::Closed));
        let disks = self.disks.values().cloned().map(Change::Disk);
        let spaces = self.spaces.iter().flat_map(|(id, space)| {
            let rows = space.rows.iter().flat_map(move |(chunk, row)| {
                let stale = row.slabs.iter().enumerate().filter(|(_, slab)| slab.stale());
                let stale = stale.map(move |(slab, place)| standing(*place, *id, *chunk, slab));
                std::iter::once(Change::Row { space: *id, chunk: *chunk, row: row.clone() }).chain(stale)
            });
            std::iter::once(Change::Space(space.record.clone())).chain(rows)
        });
        let forced =
            self.forced.iter().map(|(from, generation)| Change::Forced { from: *from, generation: *generation });
        let policy = (self.loss_policy != LossPolicy::default()).then_some(Change::LossPolicy(self.loss_policy));
        let documents = self.documents.iter();
        let documents =
            documents.map(|(key, content)| Change::Document { key: (&**key).into(), content: Some(content.clone()) });
        let first = head.chain(std::iter::once(self.counters())).chain(policy).chain(forced);
        first.chain(documents).chain(disks).chain(spaces)
    }

    /// The numbers that were used already, as a change that changes nothing here.
    pub(crate) fn counters(&self) -> Change {
        Change::Counters { row: self.next_row, space: self.next_space, disk: self.next_disk }
    }

    /// How large a checkpoint without its documents may become with the spaces and rows that there are, whatever
    /// happens to their slabs.
    pub(crate) fn map_bytes(&self) -> u64 {
        self.disks_bytes() + self.spaces.len() as u64 * SPACE_BYTES + self.row_bytes
    }

    /// Of these, bytes before its spaces.
    pub(crate) fn disks_bytes(&self) -> u64 {
        let texts = |disk: &DiskRecord| disk.serial.len() + disk.model.len() + disk.path.len();
        let places = |disk: &DiskRecord| disk.place.as_ref().map_or(0, |place| place.enclosure.len());
        let disks: usize = self.disks.values().map(|disk| DISK_BYTES + texts(disk) + places(disk)).sum();
        FIRST_BYTES + disks as u64
    }

    /// The payload of a checkpoint.
    pub fn checkpoint(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        for change in self.changes() {
            change.write(&mut writer);
        }
        writer.into_bytes()
    }

    /// Whether a document can be named so.
    pub(crate) fn is_document_key(key: &str) -> bool {
        (1..=MOST_KEY_BYTES).contains(&key.len())
    }

    /// Bytes of a document in a checkpoint.
    pub(crate) fn document_bytes(key: &str, bytes: usize) -> u64 {
        (8 + key.len() + bytes) as u64
    }

    /// Bytes of all documents in a checkpoint.
    pub(crate) fn documents_bytes(&self) -> u64 {
        self.document_bytes
    }

    /// Bytes of a document that is there.
    fn bytes_of_document(&self, key: &str) -> u64 {
        self.documents.get(key).map_or(0, |content| Self::document_bytes(key, content.len()))
    }

    fn takes_document(&self, key: &str, content: Option<&[u8]>) -> bool {
        let Some(content) = content else { return Self::is_document_key(key) };
        let bytes = self.document_bytes - self.bytes_of_document(key) + Self::document_bytes(key, content.len());
        let count = self.documents.len() + usize::from(!self.documents.contains_key(key));
        Self::is_document_key(key)
            && content.len() <= MOST_DOCUMENT_BYTES
            && count <= MOST_DOCUMENTS
            && bytes <= MOST_DOCUMENTS_BYTES
    }

    fn apply_document(&mut self, key: &str, content: Option<&[u8]>) -> Result<(), WireError> {
        if !self.takes_document(key, content) {
            return Err(WireError::Value("document"));
        }
        self.document_bytes -= self.bytes_of_document(key);
        match content {
            Some(content) => {
                self.document_bytes += Self::document_bytes(key, content.len());
                self.documents.insert(key.into(), content.into());
            }
            None => drop(self.documents.remove(key)),
        }
        Ok(())
    }

    fn row_mut(&mut self, space: u32, chunk: u32) -> Option<&mut RowRecord> {
        self.spaces.get_mut(&space)?.rows.get_mut(&chunk)
    }

    fn apply_disk(&mut self, record: &DiskRecord) -> Result<(), WireError> {
        let area = Area::of_disk("", record.disk_bytes).map_err(|_| WireError::Value("disk size"))?;
        if record.index >= MAX_DISKS {
            return Err(WireError::Value("disk"));
        }
        match self.disks.get(&record.index) {
            Some(known) if known.id != record.id || known.disk_bytes != record.disk_bytes => {
                return Err(WireError::Value("disk"));
            }
            Some(_) => {}
            None => {
                self.free.insert(record.index, FreeExtents::new(area.units()));
            }
        }
        self.next_disk = self.next_disk.max(record.index + 1);
        self.disks.insert(record.index, record.clone());
        Ok(())
    }

    fn apply_disk_out(&mut self, disk: u16, state: DiskState, holds: Position) -> Result<(), WireError> {
        let voters = self.disks.values().filter(|record| record.voting).count();
        let record = self.disks.get_mut(&disk).ok_or(WireError::Value("disk"))?;
        if state == DiskState::Online {
            return Err(WireError::Value("state"));
        }
        if record.state == DiskState::Online {
            record.holds = holds;
        }
        record.state = state;
        record.voting &= voters == 1;
        for space in self.spaces.values_mut() {
            for row in space.rows.values_mut() {
                if let Some(index) = row.slabs.iter().position(|slab| slab.disk() == disk)
                    && !row.is_needed(index)
                {
                    row.slabs[index].set_stale(true);
                }
            }
        }
        Ok(())
    }

    fn apply_disk_outdated(&mut self, disk: u16) -> Result<(), WireError> {
        if !self.disks.contains_key(&disk) {
            return Err(WireError::Value("disk"));
        }
        for row in self.spaces.values_mut().flat_map(|space| space.rows.values_mut()) {
            row.slabs
                .iter_mut()
                .filter(|slab| slab.disk() == disk && slab.stale())
                .for_each(|slab| slab.set_outdated(true));
        }
        Ok(())
    }

    /// Rows that were written to and cannot be read without a disk: of each, the space and the chunk.
    pub(crate) fn rows_that_need(&self, disk: u16) -> impl Iterator<Item = (u32, u32)> + '_ {
        let rows =
            self.spaces.iter().flat_map(|(id, space)| space.rows.iter().map(move |(chunk, row)| (*id, *chunk, row)));
        let needs =
            move |row: &RowRecord| row.begun && row.slabs.iter().any(|slab| slab.disk() == disk && !slab.stale());
        rows.filter(move |(_, _, row)| needs(row)).map(|(id, chunk, _)| (id, chunk))
    }

    /// Whether something that was written is on a disk, and all of it can be copied there anew, where others are away.
    pub(crate) fn can_copy_anew(&self, disk: u16, away: &BTreeSet<u16>) -> bool {
        let is_here = |slab: &SlabPlace| !slab.stale() && slab.disk() != disk && !away.contains(&slab.disk());
        let rows = self.spaces.values().flat_map(|space| space.rows.values()).filter(|row| row.begun);
        let own = |row: &RowRecord| row.slabs.iter().position(|slab| slab.disk() == disk && !slab.stale());
        let others = rows.filter_map(|row| {
            let group = row.shape.group(own(row)?);
            Some(group.filter(|other| is_here(&row.slabs[*other])).count() >= row.shape.needed())
        });
        let mut others = others.peekable();
        others.peek().is_some() && others.all(|suffice| suffice)
    }

    /// Whether a disk can leave: no slab is on it, and another one votes.
    fn may_go(&self, disk: u16) -> bool {
        let mut rows = self.spaces.values().flat_map(|space| space.rows.values());
        let empty = rows.all(|row| row.slabs.iter().all(|slab| slab.disk() != disk));
        empty && self.disks.contains_key(&disk) && self.disks.values().any(|other| other.voting && other.index != disk)
    }

    fn apply_disk_gone(&mut self, disk: u16) -> Result<(), WireError> {
        if !self.may_go(disk) {
            return Err(WireError::Value("disk"));
        }
        self.disks.remove(&disk);
        self.free.remove(&disk);
        self.avoided.remove(&disk);
        Ok(())
    }

    fn apply_space(&mut self, record: &SpaceRecord) -> Result<(), WireError> {
        record.shape.check().map_err(|_| WireError::Value("shape"))?;
        let sizes = [record.size_bytes, record.chunk_bytes];
        if sizes.iter().any(|size| *size == 0 || size % holdfast_model::BLOCK_BYTES != 0)
            || !can_hold(&record.shape, record.chunk_bytes)
            || record.size_bytes.div_ceil(record.chunk_bytes) > u64::from(JOURNAL_CHUNK)
        {
            return Err(WireError::Value("size"));
        }
        self.next_space = self.next_space.max(record.id.checked_add(1).ok_or(WireError::Value("space"))?);
        match self.spaces.get_mut(&record.id) {
            Some(space) if space.record.uuid != record.uuid => return Err(WireError::Value("space")),
            Some(space) => space.record = record.clone(),
            None => {
                self.spaces.insert(record.id, SpaceRows { record: record.clone(), rows: BTreeMap::new() });
            }
        }
        Ok(())
    }

    fn apply_row(&mut self, space: u32, chunk: u32, row: &RowRecord) -> Result<(), WireError> {
        row.shape.check().map_err(|_| WireError::Value("shape"))?;
        let mut disks: Vec<u16> = row.slabs.iter().map(SlabPlace::disk).collect();
        disks.sort_unstable();
        disks.dedup();
        if disks.len() != row.shape.width() || row.slabs.len() != row.shape.width() {
            return Err(WireError::Value("slabs"));
        }
        let known = self.spaces.get(&space).ok_or(WireError::Value("space"))?;
        if known.rows.contains_key(&chunk) {
            return Err(WireError::Value("chunk"));
        }
        let fits = match chunk < JOURNAL_CHUNK {
            true => row.slab_units == slab_units(&row.shape, known.record.chunk_bytes),
            false => is_journal_row(row),
        };
        if !fits {
            return Err(WireError::Value("slab size"));
        }
        self.next_row = self.next_row.max(row.id.checked_add(1).ok_or(WireError::Value("row"))?);
        if !self.reserve(row) {
            return Err(WireError::Value("unit"));
        }
        if let Some(space) = self.spaces.get_mut(&space) {
            space.rows.insert(chunk, row.clone());
        }
        self.row_bytes += row_bytes(&row.shape);
        Ok(())
    }
}
