//! Spaces made, grown, made smaller and removed.
//!
//! Invariant: a fixed space whose creation or growth was answered has all its rows, and a parity space its journal; one
//! that was cut short is taken back at the next import.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_model::{BLOCK_BYTES, ByteSize, Name, Provisioning, Shape};

use crate::allot::{allot, eligible};
use crate::change::Change;
use crate::committer::Guard;
use crate::geometry::JOURNAL_CHUNK;
use crate::journal_allot::{allot_journal, check_journal};
use crate::pool::Pool;
use crate::record::{RowRecord, SpaceRecord};
use crate::room::{check_room, chunk_of_space};
use crate::rows::FreedRow;
use crate::{PoolError, PoolErrorKind, enclosures};

/// Slabs that are allotted by one change, so that a change stays small.
const SLABS_PER_CHANGE: usize = 2048;
/// The largest space.
const LARGEST_SPACE_BYTES: u64 = 1 << 60;

/// A space to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceSpec {
    /// Its name.
    pub name: Name,
    /// Its shape.
    pub shape: Shape,
    /// Fixed or thin.
    pub provisioning: Provisioning,
    /// Its size, a multiple of 4 KiB.
    pub size_bytes: u64,
    /// The size of its journal, for parity only; `None` leaves it to the pool.
    pub journal_bytes: Option<u64>,
    /// Whether the loss of an enclosure must be survived.
    pub enclosure_aware: bool,
}

impl Pool {
    /// Makes a space.
    ///
    /// # Errors
    /// A name that is taken, a size or shape that cannot be, or, for a fixed space, too little room.
    pub async fn create_space(&self, spec: SpaceSpec) -> Result<SpaceRecord, PoolError> {
        let _admin = self.admin.lock().await;
        let path = format!("{}/{}", self.name(), spec.name);
        let record = {
            let mut state = self.state();
            check_room(&state, 1, &[])?;
            let config = &mut state.config;
            if config.spaces.values().any(|space| space.record.name == spec.name) {
                let taken = format!("space {path} exists already: choose another name");
                return Err(PoolError::new(PoolErrorKind::Exists, taken).about("name"));
            }
            check_space_size(&path, spec.size_bytes)?;
            spec.journal_bytes.map_or(Ok(()), |bytes| check_journal(&path, &spec.shape, bytes))?;
            Shape::choose(spec.shape.layout, Some(spec.shape.columns), Some(spec.shape.interleave), eligible(config))
                .map_err(|error| PoolError::invalid(format!("space {path}: {error}")).about(error.parameter()))?;
            if spec.enclosure_aware {
                enclosures::check(config, &path, &spec.shape)?;
            }
            let chunk_bytes = chunk_of_space(&state, &spec.shape, spec.size_bytes)?;
            let config = &mut state.config;
            let id = config.next_space;
            config.next_space += 1;
            SpaceRecord {
                id,
                uuid: self.draw_uuid(),
                name: spec.name,
                shape: spec.shape,
                provisioning: spec.provisioning,
                size_bytes: spec.size_bytes,
                chunk_bytes,
                enclosure_aware: spec.enclosure_aware,
                read_only: false,
                complete: false,
            }
        };
        if spec.size_bytes.div_ceil(record.chunk_bytes) > u64::from(JOURNAL_CHUNK) {
            return Err(PoolError::invalid(format!(
                "space {path} of {} has too many chunks for disks of this size",
                ByteSize(spec.size_bytes)
            ))
            .about("size_bytes"));
        }
        let fixed = record.provisioning == Provisioning::Fixed;
        let mut rows = self.reserve_journal(&path, &record, spec.journal_bytes, 1)?;
        if fixed {
            let journal = rows.first().map(|(_, row)| (rows.len() as u64, row.shape));
            match self.reserve_rows(&path, &record, 0, journal) {
                Ok(data) => rows.extend(data),
                Err(error) => {
                    self.release_rows(&rows);
                    return Err(error);
                }
            }
        }
        let complete = SpaceRecord { complete: true, ..record.clone() };
        if rows.is_empty() {
            self.commit(vec![Change::Space(complete.clone())], Guard::None).await?;
            return Ok(complete);
        }
        if let Err(error) = self.commit(vec![Change::Space(record.clone())], Guard::None).await {
            self.release_rows(&rows);
            return Err(error);
        }
        self.commit_rows(record.id, rows).await?;
        self.commit(vec![Change::Space(complete.clone())], Guard::None).await?;
        Ok(complete)
    }

    /// Grows a space; false if it has that size already.
    ///
    /// # Errors
    /// A smaller size, or, for a fixed space, too little room.
    pub async fn grow_space(&self, id: u32, size_bytes: u64) -> Result<bool, PoolError> {
        let _admin = self.admin.lock().await;
        let record =
            self.space(id).ok_or_else(|| PoolError::new(PoolErrorKind::NotFound, format!("space {id} is gone")))?;
        let path = format!("{}/{}", self.name(), record.name);
        check_space_size(&path, size_bytes)?;
        if size_bytes == record.size_bytes {
            return Ok(false);
        }
        if size_bytes < record.size_bytes {
            return Err(PoolError::invalid(format!(
                "space {path} has {} and cannot grow to {}: 'holdfast space convert {path} --size' makes it smaller",
                ByteSize(record.size_bytes).beside(ByteSize(size_bytes)),
                ByteSize(size_bytes).beside(ByteSize(record.size_bytes))
            ))
            .about("size_bytes"));
        }
        if size_bytes.div_ceil(record.chunk_bytes) > u64::from(JOURNAL_CHUNK) {
            let message = format!("space {path} cannot have {}: too many chunks", ByteSize(size_bytes));
            return Err(PoolError::invalid(message).about("size_bytes"));
        }
        let grown = SpaceRecord { size_bytes, ..record.clone() };
        let fixed = record.provisioning == Provisioning::Fixed;
        let rows = if fixed { self.reserve_rows(&path, &grown, record.chunks(), None)? } else { Vec::new() };
        // The rows come first: what is cut short between is rows beyond the end, which the next import removes.
        self.commit_rows(id, rows).await?;
        self.commit(vec![Change::Space(grown)], Guard::None).await?;
        Ok(true)
    }

    /// Makes a space smaller and gives up its rows beyond the new end, whatever they hold; `None` if it has that size
    /// or less. Nobody may use these rows. Their units stay taken until the answer is dropped.
    ///
    /// # Errors
    /// A size that cannot be, no quorum.
    pub async fn shrink_space(
        self: &Arc<Self>,
        id: u32,
        size_bytes: u64,
    ) -> Result<Option<Vec<(u32, FreedRow)>>, PoolError> {
        let _admin = self.admin.lock().await;
        let gone = || PoolError::new(PoolErrorKind::NotFound, format!("space {id} is gone"));
        let record = self.space(id).ok_or_else(gone)?;
        check_space_size(&format!("{}/{}", self.name(), record.name), size_bytes)?;
        if size_bytes >= record.size_bytes {
            return Ok(None);
        }
        let smaller = SpaceRecord { size_bytes, ..record };
        let beyond: Vec<(u32, RowRecord)> =
            self.rows(id).into_iter().filter(|(chunk, _)| *chunk >= smaller.chunks()).collect();
        // The first change makes it smaller; an import after that removes what rows are left beyond the end.
        let mut changes = vec![Change::Space(smaller)];
        let mut freed = Vec::new();
        let mut parts = beyond.chunks(SLABS_PER_CHANGE).peekable();
        loop {
            let part = parts.next().unwrap_or_default();
            changes.extend(part.iter().map(|(chunk, _)| Change::RowGone { space: id, chunk: *chunk }));
            if !self.commit(std::mem::take(&mut changes), Guard::None).await? {
                return Err(gone());
            }
            freed.extend(part.iter().map(|(chunk, row)| (*chunk, FreedRow::new(self.clone(), row.clone()))));
            if parts.peek().is_none() {
                return Ok(Some(freed));
            }
        }
    }

    /// Refuses to change a space while nobody has accepted what a salvage made of it.
    ///
    /// # Errors
    /// It is such a space.
    pub fn check_accepted(&self, space: &SpaceRecord) -> Result<(), PoolError> {
        if !space.read_only {
            return Ok(());
        }
        let path = format!("{}/{}", self.name(), space.name);
        let why =
            format!("space {path} is read-only until you accept its salvaged data: 'holdfast space accept {path}'");
        Err(PoolError::new(PoolErrorKind::ReadOnly, why))
    }

    /// Lets clients write to a space that a salvage put together; false if they may already.
    ///
    /// # Errors
    /// No such space, no quorum.
    pub async fn accept_space(&self, id: u32) -> Result<bool, PoolError> {
        let _admin = self.admin.lock().await;
        let record =
            self.space(id).ok_or_else(|| PoolError::new(PoolErrorKind::NotFound, format!("space {id} is gone")))?;
        if !record.read_only {
            return Ok(false);
        }
        self.commit(vec![Change::Space(SpaceRecord { read_only: false, ..record })], Guard::None).await
    }

    /// Takes the units of a space's first journal, where its layout has one; so many spaces are not written down yet.
    pub(crate) fn reserve_journal(
        &self,
        path: &str,
        record: &SpaceRecord,
        bytes: Option<u64>,
        new_spaces: u64,
    ) -> Result<Vec<(u32, RowRecord)>, PoolError> {
        if record.shape.layout.parity() == 0 {
            return Ok(Vec::new());
        }
        let mut state = self.state();
        let copies = record.shape.layout.parity() + 1;
        let rows = allot_journal(&mut state.config, path, copies, record.enclosure_aware, bytes, record.size_bytes)?;
        if let Err(error) = check_room(&state, new_spaces, &[(rows.len() as u64, rows[0].shape)]) {
            rows.iter().for_each(|row| state.config.release(row));
            return Err(error);
        }
        Ok((JOURNAL_CHUNK..).zip(rows).collect())
    }

    /// Takes the units of a space's rows from a chunk on. Those of its journal, if any, are not written down yet
    /// either.
    pub(crate) fn reserve_rows(
        &self,
        path: &str,
        record: &SpaceRecord,
        from: u32,
        journal: Option<(u64, Shape)>,
    ) -> Result<Vec<(u32, RowRecord)>, PoolError> {
        let mut state = self.state();
        let wanted: Vec<_> = journal.into_iter().chain([(u64::from(record.chunks() - from), record.shape)]).collect();
        check_room(&state, 1, &wanted)?;
        let mut rows: Vec<(u32, RowRecord)> = Vec::new();
        let rows_now = state.config.spaces.get(&record.id).map(|space| space.data_rows(from));
        let held: BTreeSet<u32> = rows_now.into_iter().flatten().map(|(chunk, _)| *chunk).collect();
        for chunk in (from..record.chunks()).filter(|chunk| !held.contains(chunk)) {
            match allot(&mut state.config, record) {
                Ok(row) => rows.push((chunk, row)),
                Err(_) => {
                    let fits = ByteSize((rows.len() as u64 + u64::from(from)) * record.chunk_bytes);
                    rows.iter().for_each(|(_, row)| state.config.release(row));
                    return Err(PoolError::new(
                        PoolErrorKind::NoSpace,
                        format!(
                            "space {path} of {} does not fit: as {} the pool has room for {fits}; add disks, choose a smaller size, or make it thin",
                            ByteSize(record.size_bytes),
                            record.shape
                        ),
                    )
                    .about("size_bytes"));
                }
            }
        }
        Ok(rows)
    }

    pub(crate) fn release_rows(&self, rows: &[(u32, RowRecord)]) {
        let mut state = self.state();
        rows.iter().for_each(|(_, row)| state.config.release(row));
    }

    pub(crate) async fn commit_rows(&self, space: u32, rows: Vec<(u32, RowRecord)>) -> Result<(), PoolError> {
        let width = rows.iter().map(|(_, row)| row.slabs.len()).max().unwrap_or(1);
        let mut parts = rows.chunks((SLABS_PER_CHANGE / width).max(1));
        while let Some(part) = parts.next() {
            let changes =
                part.iter().map(|(chunk, row)| Change::Row { space, chunk: *chunk, row: row.clone() }).collect();
            let made = self.commit(changes, Guard::None).await;
            if made != Ok(true) {
                self.release_rows(part);
                parts.for_each(|part| self.release_rows(part));
                made?;
                return Err(PoolError::new(PoolErrorKind::NotFound, format!("space {space} is gone")));
            }
        }
        Ok(())
    }

    /// Removes a space and gives its slabs back. It must not be in use.
    pub async fn destroy_space(&self, id: u32) -> Result<(), PoolError> {
        let _admin = self.admin.lock().await;
        self.space(id).ok_or_else(|| PoolError::new(PoolErrorKind::NotFound, format!("space {id} is gone")))?;
        match self.commit(vec![Change::SpaceGone(id)], Guard::None).await? {
            true => Ok(()),
            false => Err(PoolError::new(PoolErrorKind::NotFound, format!("space {id} is gone"))),
        }
    }
}

/// Refuses a size that no space can have.
///
/// # Errors
/// 0, more than the largest space, or a part of a block.
pub fn check_space_size(path: &str, size_bytes: u64) -> Result<(), PoolError> {
    if size_bytes == 0 || !size_bytes.is_multiple_of(BLOCK_BYTES) || size_bytes > LARGEST_SPACE_BYTES {
        return Err(PoolError::invalid(format!(
            "space {path} cannot have {}: choose a size in whole blocks of 4 KiB, from {} to {}",
            ByteSize(size_bytes).exact(),
            ByteSize(BLOCK_BYTES),
            ByteSize(LARGEST_SPACE_BYTES)
        ))
        .about("size_bytes"));
    }
    Ok(())
}
