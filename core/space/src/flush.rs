//! Flush: first the data on all disks, then the block maps that tell of it, and only then the answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use holdfast_device::IoError;
use holdfast_model::DiskState;

use crate::row::Row;
use crate::space::Inner;

impl Inner {
    /// Makes every write answered so far durable.
    pub async fn flush(&self) -> Result<(), IoError> {
        let _one = self.flushing.lock().await;
        let rows: Vec<Arc<Row>> = std::mem::take(&mut *self.touched.lock().expect("no panic while held")).into_values().collect();
        let result = self.flush_all(&rows).await;
        if result.is_err() {
            rows.iter().for_each(|row| self.touch(row));
        }
        result
    }

    async fn flush_all(&self, rows: &[Arc<Row>]) -> Result<(), IoError> {
        let (banded, plain): (Vec<Arc<Row>>, Vec<Arc<Row>>) = rows.iter().cloned().partition(|row| row.parity.is_some());
        if !banded.is_empty() {
            banded.iter().for_each(|row| row.touched.store(false, Ordering::Release));
            self.make_durable(&banded, None).await?;
        }
        self.flush_rows(&plain).await
    }

    /// Makes what was written to a row without parity durable.
    pub async fn flush_row(&self, row: &Arc<Row>) -> Result<(), IoError> {
        let _one = self.flushing.lock().await;
        self.flush_rows(std::slice::from_ref(row)).await
    }

    async fn flush_rows(&self, rows: &[Arc<Row>]) -> Result<(), IoError> {
        for row in rows {
            row.touched.store(false, Ordering::Release);
            row.columns.iter().for_each(|column| column.lock().begin_settling());
        }
        self.settle_disks().await?;
        for row in rows {
            for (index, column) in row.columns.iter().enumerate() {
                column.lock().end_settling();
                let written = row.write_maps(index).await;
                row.unless_gone(written)?;
            }
        }
        Ok(())
    }

    /// Flushes every disk that was written. A disk that cannot flush is out; that is an error only where it held the last copy.
    pub async fn settle_disks(&self) -> Result<(), IoError> {
        let disks: Vec<_> = self.pool.pool_disks().into_iter().filter(|disk| disk.in_service()).collect();
        let results = join_all(disks.iter().map(|disk| disk.settle())).await;
        let mut failed = None;
        for (disk, result) in disks.iter().zip(results) {
            if let Err(error) = result {
                disk.counters.write_errors.fetch_add(1, Ordering::Relaxed);
                self.pool.disk_out(disk.index, DiskState::Failed, &error.to_string()).await?;
                failed = Some(error);
            }
        }
        let Some(error) = failed else { return Ok(()) };
        for row in self.open_rows() {
            row.refresh();
            if !row.served() && row.unless_gone(Err(error.clone())).is_err() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes everything durable and unmarks every region whose copies are all in step.
    pub async fn close(&self) -> Result<(), IoError> {
        self.flush().await?;
        self.tidy_bands().await?;
        self.write_all_sums().await?;
        for row in self.open_rows() {
            for column in 0..row.columns.len() {
                row.unmark(column, |_, _| true).await?;
            }
        }
        Ok(())
    }
}

impl Row {
    /// Unmarks regions of a column that `may` be: no write is under way in them, all copies are in step, and everything written
    /// to them is durable, as are their checksums.
    pub async fn unmark(&self, column: usize, may: impl Fn(&crate::column::ColumnState, u32) -> bool) -> Result<(), IoError> {
        let mut maps = self.columns[column].maps.lock().await;
        if !self.whole() {
            return Ok(());
        }
        let cleared: Vec<u32> = {
            let mut state = self.columns[column].lock();
            let clear: Vec<u32> = state
                .marked
                .runs(0, state.marked.limit())
                .flat_map(|(start, end)| start..end)
                .filter(|region| !state.is_running(*region) && !state.unsynced.contains(*region) && may(&state, *region))
                .filter(|region| self.sums.as_ref().is_none_or(|sums| !sums.is_region_behind(column, *region)))
                .collect();
            clear.iter().for_each(|region| state.marked.remove(*region, *region + 1));
            clear
        };
        let mut touched: Vec<usize> = cleared.iter().map(|region| (region / crate::block_map::MAP_REGIONS) as usize).collect();
        touched.dedup();
        for map in touched {
            self.write_map(column, map, &mut maps[map]).await?;
        }
        Ok(())
    }
}
