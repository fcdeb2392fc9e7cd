//! The row of a chunk: opened or allotted when it is asked for, closed when it is idle, given back when it is empty.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdfast_device::IoError;

use crate::boxed_cold::boxed_cold;
use crate::column::Column;
use crate::row::{Row, RowBody};
use crate::row_table::UsedRow;
use crate::space::Inner;

impl Inner {
    /// The row of a chunk for reading; `None` where it has none.
    pub async fn row(&self, chunk: u32) -> Result<Option<Arc<Row>>, IoError> {
        if let Some(row) = self.rows.open_row(chunk) {
            return Ok(Some(row));
        }
        if self.rows.is_freeing(chunk) || self.pool.row(self.record.id, chunk).is_none() {
            return Ok(None);
        }
        boxed_cold(async {
            let _one = self.rows.lock_chunk(chunk).await;
            self.parity.load_row(chunk).await
        })
        .await
    }

    /// The row of a chunk for changing, where it has one.
    pub async fn row_if_any(&self, chunk: u32) -> Result<Option<UsedRow>, IoError> {
        loop {
            if let Some(row) = self.rows.used_row(chunk) {
                return Ok(Some(row));
            }
            let _one = self.rows.lock_chunk(chunk).await;
            if self.parity.load_row(chunk).await?.is_none() {
                return Ok(None);
            }
        }
    }

    /// The row of a chunk for changing, allotted now if it has none.
    pub async fn row_for_write(&self, chunk: u32) -> Result<UsedRow, IoError> {
        loop {
            if let Some(row) = self.rows.used_row(chunk) {
                return Ok(row);
            }
            boxed_cold(self.load_or_allot_row(chunk)).await?;
        }
    }

    async fn load_or_allot_row(&self, chunk: u32) -> Result<(), IoError> {
        let _one = self.rows.lock_chunk(chunk).await;
        if self.parity.load_row(chunk).await?.is_none() {
            let record = self.pool.allot_row(self.record.id, chunk).await?;
            self.rows.keep(Row::fresh(&self.rows.context, chunk, record)?);
        }
        Ok(())
    }

    /// The first chunk from `chunk` on that has a row.
    pub fn next_chunk(&self, chunk: u32) -> Option<u32> {
        self.pool.chunks_from(self.record.id, chunk, 1).first().copied()
    }

    /// Closes a row that the space gave up, with what waits of it. Its units stay taken as long as anybody knows it.
    pub fn let_go(&self, chunk: u32, freed: holdfast_pool::FreedRow) {
        let row = self.rows.close(chunk);
        self.parity.forget_deferred(chunk);
        if let Some(row) = row {
            self.parity.forget_waiting(&row);
            row.hold_freed([freed]);
        }
    }

    /// Gives the row of a chunk back to the pool if it holds nothing and nobody is about to change that.
    pub async fn free_if_empty(&self, chunk: u32) -> Result<(), IoError> {
        if !self.thin() || !self.rows.open_row(chunk).is_some_and(|row| row.is_empty()) {
            return Ok(());
        }
        let _one = self.rows.lock_chunk(chunk).await;
        let Some(row) = self.rows.begin_freeing(chunk) else { return Ok(()) };
        // It holds nothing, so this may be on the disks before the pool knows.
        row.write_off().await;
        let freed = self.pool.free_row(self.record.id, chunk).await;
        self.rows.end_freeing(chunk);
        match freed {
            Ok(freed) => {
                // Until now a flush had to see to it that what was discarded stays so.
                self.rows.forget_touched(&row);
                if let RowBody::Bands(bands) = &row.body {
                    bands.forget();
                }
                row.hold_freed(freed);
            }
            Err(error) => {
                row.in_use.end_touch();
                self.rows.touch(&row);
                self.rows.keep(row);
                return Err(error.into());
            }
        }
        // A read that began before may still be on its way to the disk.
        if Arc::strong_count(&row) == 1 {
            self.discard_slabs(&row).await;
        }
        Ok(())
    }

    /// Tells the disks that the slabs of a row hold nothing any more; a hint, so failures do not matter.
    async fn discard_slabs(&self, row: &Row) {
        let bytes = u64::from(row.record.slab_units) * holdfast_pool::UNIT_BYTES;
        for slab in row.slabs.iter().filter(|slab| slab.disk.geometry().is_some_and(|geometry| geometry.discard)) {
            let _ = slab.disk.discard(slab.start, bytes).await;
        }
    }

    /// Closes idle rows beyond the limit.
    pub fn evict(&self) {
        let excess = self.rows.open_rows().len().saturating_sub(self.settings.open_rows);
        let is_settled = |row: &Arc<Row>| {
            let known = match &row.body {
                RowBody::Columns(columns) => columns.iter().all(|column| column.lock().is_settled()),
                RowBody::Bands(bands) => self.parity.may_forget(bands),
            };
            known && row.checksums.as_ref().is_none_or(|checksums| checksums.is_settled())
        };
        let closed = self.rows.close_idle(excess, is_settled);
        if !closed.iter().all(|row| row.columns().iter().all(Column::is_open)) {
            self.unsettled.store(true, Ordering::Release);
        }
    }
}
