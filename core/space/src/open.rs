//! How an open row learns from its disks what it holds.
//!
//! Every copy in step has the block maps. After a crash they may differ by the last map written; the newest counts, and
//! is written to all copies before the column is used, so that whichever copy remains tells the same.
//!
//! Invariants: each column is opened by itself, when it is needed, so that one whose disks are away keeps no other from
//! being served. A row that was written to has all its maps on every slab in step: one that is missing was overwritten,
//! and tells of no hole.

use std::sync::Arc;

use holdfast_device::{IoError, IoErrorKind};
use holdfast_pool::{RowRecord, Severity};

use crate::block_map::{MAP_REGIONS, MapBits};
use crate::boxed_cold::boxed_cold;
use crate::column::MapOnDisk;
use crate::row::{Row, RowBody, RowContext};

impl Row {
    /// A row that was allotted just now: none of its blocks was written.
    pub fn fresh(context: &RowContext, chunk: u32, record: RowRecord) -> Result<Arc<Self>, IoError> {
        Ok(Arc::new(Self::new(context, chunk, record, true)?))
    }

    /// A row that was allotted earlier. Columns that cannot be read now are opened when somebody asks for them.
    pub async fn load(context: &RowContext, chunk: u32, record: RowRecord) -> Result<Arc<Self>, IoError> {
        let row = Self::new(context, chunk, record, false)?;
        let bands = match &row.body {
            RowBody::Columns(_) => Ok(true),
            RowBody::Bands(_) => row.load_bands().await,
        };
        row.note_lost();
        let mut headers = bands?;
        for column in 0..row.columns().len() {
            headers &= row.try_column(column).await.unwrap_or(false);
        }
        if headers {
            row.set_headers_whole();
        }
        Ok(Arc::new(row))
    }

    /// Sees to it that the state of a column is what its disks tell.
    pub async fn open_column(&self, column: usize) -> Result<(), IoError> {
        if self.columns()[column].is_open() {
            return Ok(());
        }
        boxed_cold(self.try_column(column)).await.map(drop)
    }

    /// The same of all columns.
    pub async fn open_columns(&self) -> Result<(), IoError> {
        for column in 0..self.columns().len() {
            self.open_column(column).await?;
        }
        Ok(())
    }

    /// As [`Row::load_column`]; notes whether what its disks have can be read.
    async fn try_column(&self, column: usize) -> Result<bool, IoError> {
        let loaded = self.load_column(column).await;
        let damaged = matches!(&loaded, Err(error) if error.kind == IoErrorKind::Media);
        self.columns()[column].set_damaged(damaged);
        self.note_lost();
        loaded
    }

    /// Loads the maps of a column. Answers whether every copy has its header.
    async fn load_column(&self, column: usize) -> Result<bool, IoError> {
        self.settle_column(column).await?;
        let mut maps = self.columns()[column].maps.lock().await;
        if self.columns()[column].is_open() {
            return Ok(true);
        }
        let mut heads = self.read_heads(self.shape().group(column * self.copies()), maps.len()).await;
        let open =
            |map: usize, block: &[u8], disk, offset| MapBits::open(block, &self.owner(column, map), disk, offset);
        if self.begun() {
            let damaged =
                heads.damaged(maps.len(), |map, block, disk, offset| open(map, block, disk, offset).is_some());
            self.distrust(&damaged).await?;
            if self.pool.was_closed() {
                let number =
                    |map: usize, block: &[u8], disk, offset| open(map, block, disk, offset).map(|(number, _)| number);
                self.distrust_older(&heads.older(maps.len(), number)).await?;
            }
            heads.retain(self);
        }
        self.settle_column(column).await?;
        if heads.len() == 0 {
            return Err(heads.error.unwrap_or_else(|| IoError::invalid("a column without copies")));
        }
        for (map, place) in maps.iter_mut().enumerate() {
            let Some((bits, agreed)) = heads.newest(map, place, |block, disk, offset| open(map, block, disk, offset))
            else {
                if self.begun() {
                    self.lose_map(column, map, place).await?;
                }
                continue;
            };
            self.set_mapped();
            {
                let mut state = self.columns()[column].lock();
                state.load_map(map, &bits);
                // A row that was degraded when the pool was closed is marked still, and all of it is durable.
                if self.marks() && !self.pool.was_closed() {
                    state.unsynced = state.marked.clone();
                }
            }
            if !agreed {
                self.write_map(column, map, place).await?;
            }
        }
        self.columns()[column].set_open();
        Ok(heads.owned)
    }

    /// No slab tells any more which blocks of a map were written. Each counts as written, and has no checksum until it
    /// is written again: reads of it fail.
    async fn lose_map(&self, column: usize, map: usize, place: &mut MapOnDisk) -> Result<(), IoError> {
        let cause = format!(
            "map {map} of column {column} was overwritten, and which of its blocks hold data is lost: {}",
            self.part()
        );
        let lost = IoError::new(IoErrorKind::Media, cause.clone());
        let Some(checksums) = &self.checksums else { return Err(lost) };
        let blocks = self.columns()[column].lock().lose_map(map);
        checksums.forget(column, blocks);
        self.pool.emit(Severity::Error, self.object(), cause, "restore that data from a backup");
        if self.pool.refusal().is_some() {
            return Ok(());
        }
        let regions = map as u32 * MAP_REGIONS..(map as u32 + 1) * MAP_REGIONS;
        let written = self.write_sums(&|set, region| set == column && regions.contains(&region)).await?;
        for (_, slab) in self.copies_of(column).filter(|(_, slab)| slab.usable()) {
            slab.disk.flush().await?;
        }
        self.end_sums(written);
        self.write_map(column, map, place).await
    }
}
