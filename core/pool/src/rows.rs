//! Rows that are allotted and given back, and slabs that miss writes.

use std::sync::Arc;

use crate::allot::allot;
use crate::change::Change;
use crate::committer::{Guard, OutageMark};
use crate::disk::PoolDisk;
use crate::geometry::JOURNAL_CHUNK;
use crate::place::SlabPlace;
use crate::pool::Pool;
use crate::record::RowRecord;
use crate::room::check_room;
use crate::{PoolError, PoolErrorKind};

/// The units of a row that was given back. They are free for others when this is dropped: when the last request that
/// could touch them is over.
pub struct FreedRow {
    pool: Arc<Pool>,
    row: RowRecord,
}

impl FreedRow {
    pub(crate) fn new(pool: Arc<Pool>, row: RowRecord) -> Self {
        Self { pool, row }
    }

    /// Lets them stay taken: the row has its place now.
    pub fn keep(mut self) {
        self.row.slabs = Box::default();
    }
}

impl Drop for FreedRow {
    fn drop(&mut self) {
        self.pool.state().config.release(&self.row);
    }
}

impl Pool {
    /// Writes down that a slab missed a write. Does nothing to one that is needed: the last copy of its column, or one
    /// of the last slabs that a parity row can be computed from.
    pub async fn mark_stale(&self, space: u32, chunk: u32, slab: usize) -> Result<(), PoolError> {
        let change = Change::Stale { space, chunk, slab: slab as u16, stale: true };
        self.commit(vec![change], Guard::None).await.map(drop)
    }

    /// Writes down that a slab is in step again, unless its disk went out since its outage count was `outages`.
    pub async fn mark_in_step(
        &self,
        space: u32,
        chunk: u32,
        slab: usize,
        disk: &Arc<PoolDisk>,
        outages: u32,
    ) -> Result<bool, PoolError> {
        let change = Change::Stale { space, chunk, slab: slab as u16, stale: false };
        let mark = OutageMark { disk: disk.clone(), outages };
        self.commit(vec![change], Guard::SlabInService(Arc::new(mark), space, chunk, slab)).await
    }

    /// The row of a chunk, where it has one.
    pub fn row(&self, space: u32, chunk: u32) -> Option<RowRecord> {
        self.state().config.spaces.get(&space)?.rows.get(&chunk).cloned()
    }

    /// All rows of a space but those of its journal.
    pub fn rows(&self, space: u32) -> Vec<(u32, RowRecord)> {
        let state = self.state();
        let rows = state.config.spaces.get(&space).map(|space| space.data_rows(0));
        rows.into_iter().flatten().map(|(chunk, row)| (*chunk, row.clone())).collect()
    }

    /// The chunks of a space that have a row, from `from`, at most `most`, without those of its journal.
    pub fn chunks_from(&self, space: u32, from: u32, most: usize) -> Vec<u32> {
        let state = self.state();
        let rows = state.config.spaces.get(&space).map(|space| space.data_rows(from));
        rows.into_iter().flatten().take(most).map(|(chunk, _)| *chunk).collect()
    }

    /// The chunks of a space that have a stale slab on a disk that is in service, those of its journal among them. A
    /// space that a salvage made has none before it is accepted.
    pub fn stale_chunks(&self, space: u32) -> Vec<u32> {
        let state = self.state();
        let back =
            |slab: &SlabPlace| slab.stale() && state.disks.get(&slab.disk()).is_some_and(|disk| disk.in_service());
        let accepted = state.config.spaces.get(&space).filter(|space| !space.record.read_only);
        let rows = accepted.map(|space| space.rows.iter());
        rows.into_iter().flatten().filter(|(_, row)| row.slabs.iter().any(back)).map(|(chunk, _)| *chunk).collect()
    }

    /// How many rows a space has, without those of its journal.
    pub fn row_count(&self, space: u32) -> usize {
        self.state().config.spaces.get(&space).map_or(0, |space| space.data_row_count())
    }

    /// The row of a chunk, allotted now if it has none. Callers see to it that a chunk is asked for once at a time.
    ///
    /// # Errors
    /// No room on enough disks, no quorum, or a chunk beyond the end of the space.
    pub async fn allot_row(&self, space: u32, chunk: u32) -> Result<RowRecord, PoolError> {
        let gone = || PoolError::new(PoolErrorKind::NotFound, format!("space {space} is gone"));
        if let Some(row) = self.row(space, chunk) {
            return Ok(row);
        }
        self.check_open()?;
        let row = {
            let mut state = self.state();
            let record = state.config.spaces.get(&space).map(|space| space.record.clone());
            let record = record.ok_or_else(gone)?;
            if chunk >= record.chunks() {
                return Err(PoolError::invalid(format!(
                    "space {}/{} has {} chunks, there is no chunk {chunk}",
                    self.name(),
                    record.name,
                    record.chunks()
                )));
            }
            check_room(&state, 0, &[(1, record.shape)])?;
            allot(&mut state.config, &record)?
        };
        let change = Change::Row { space, chunk, row: row.clone() };
        let made = self.commit(vec![change], Guard::None).await;
        if made != Ok(true) {
            self.state().config.release(&row);
        }
        made?;
        // A slab may be stale from the start, or another task may have been faster.
        self.row(space, chunk).ok_or_else(gone)
    }

    /// Gives the row of a chunk back. Its units stay taken until the answer is dropped.
    ///
    /// # Errors
    /// No quorum, or a row of a journal: that is replaced as a whole.
    pub async fn free_row(self: &Arc<Self>, space: u32, chunk: u32) -> Result<Option<FreedRow>, PoolError> {
        if chunk >= JOURNAL_CHUNK {
            return Err(PoolError::invalid(format!(
                "chunk {chunk} of space {space} is its journal: replace that as a whole"
            )));
        }
        let Some(row) = self.row(space, chunk) else { return Ok(None) };
        let freed = self.commit(vec![Change::RowGone { space, chunk }], Guard::None).await?;
        Ok(freed.then(|| FreedRow::new(self.clone(), row)))
    }
}
