//! Flush: first the data on all disks, then the block maps that tell of it, and only then the answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use holdfast_device::{IoError, IoErrorKind};
use holdfast_model::DiskState;
use holdfast_pool::Severity;

use crate::lock_order::{Held, rank};
use crate::row::Row;
use crate::row_table::RowTable;
use crate::space::Inner;

/// How long the slabs of parity rows claim versions of one another while a space is closed.
const CLAIMS_AT_CLOSE: Duration = Duration::from_secs(5);

impl Inner {
    /// Makes every write answered so far durable.
    pub async fn flush(&self) -> Result<(), IoError> {
        let _one = self.lock_flushing().await;
        let rows: Vec<Arc<Row>> = self.rows.take_touched();
        let result = self.flush_all(&rows).await;
        if result.is_err() {
            rows.iter().for_each(|row| self.rows.touch(row));
        }
        result
    }

    /// Takes the lock of flushes, with the journal open: opening it waits for chunks, whose moves wait for flushes.
    /// Where it cannot be opened, rows with parity fail, and all others are flushed.
    async fn lock_flushing(&self) -> Held<'_, { rank::FLUSHING }> {
        let mut tried = Ok(());
        loop {
            let one = self.flushing.lock().await;
            if tried.is_err() || !self.parity.has_unopened_journal() {
                return one;
            }
            drop(one);
            tried = self.parity.ready_by_now().await;
        }
    }

    async fn flush_all(&self, rows: &[Arc<Row>]) -> Result<(), IoError> {
        let (banded, plain): (Vec<Arc<Row>>, Vec<Arc<Row>>) =
            rows.iter().cloned().partition(|row| row.bands_if_any().is_some());
        let mut made = Ok(());
        if !banded.is_empty() {
            banded.iter().for_each(|row| row.in_use.end_touch());
            made = self.parity.make_durable(&banded, None).await;
        }
        self.flush_rows(&plain, true).await.and(made)
    }

    /// Makes what was written to a row without parity durable.
    pub async fn flush_row(&self, row: &Arc<Row>) -> Result<(), IoError> {
        let _one = self.flushing.lock().await;
        self.flush_rows(std::slice::from_ref(row), false).await
    }

    /// With `tells`, the caller hears of writes that are lost, and nobody after that.
    async fn flush_rows(&self, rows: &[Arc<Row>], tells: bool) -> Result<(), IoError> {
        for row in rows {
            row.in_use.end_touch();
            row.columns().iter().for_each(|column| column.lock().begin_settling());
        }
        let mut result = self.rows.settle_disks().await;
        for row in rows {
            for (index, column) in row.columns().iter().enumerate() {
                // A column that is not served keeps what is pending; the others are durable all the same.
                let settled = match row.settle_column(index).await {
                    Ok(()) => {
                        let lost = {
                            let mut state = column.lock();
                            state.end_settling();
                            if tells { state.take_lost() } else { state.has_lost() }
                        };
                        let written = row.write_maps(index).await;
                        if lost { written.and(Err(row.lost_cached(index))) } else { written }
                    }
                    Err(_) if column.lock().is_flushed() => Ok(()),
                    Err(error) => Err(error),
                };
                result = row.unless_gone(settled).and(result);
            }
        }
        result
    }

    /// Makes everything durable that can be, and unmarks every region whose copies are all in step. Answers whether
    /// nothing is left to do when the space is opened next; a row that cannot be settled keeps no other from it.
    ///
    /// # Errors
    /// Something that was answered could not be made durable.
    pub async fn close(&self) -> Result<bool, IoError> {
        self.rows.context.repairs.tell_due(&self.pool, &self.path(), true);
        let flushed = self.flush().await;
        let placed = self.maintain_bands().await;
        let mut settled = self.write_all_sums().await.is_ok() && !self.unsettled.load(Ordering::Acquire);
        settled &= self.rows.settle_disks().await.is_ok();
        settled &= self.swept.load(Ordering::Acquire) == u64::MAX;
        let now = self.pool.env().clock.now();
        settled &= self.pool.stamp(now).await.is_ok();
        if self.write_claims(Some(now + CLAIMS_AT_CLOSE)).await.is_ok() {
            // Whether they last or not, what they are of does.
            let _ = self.rows.settle_disks().await;
        }
        for row in self.rows.open_rows() {
            settled &= row.served();
            for column in 0..row.columns().len() {
                settled &= row.unmark(column, |_, _| true).await.is_ok();
                settled &= row.columns()[column].is_open() && row.columns()[column].lock().unsynced.is_empty();
            }
        }
        flushed.and(placed).map(|()| settled)
    }
}

impl RowTable {
    /// Flushes every disk that was written. A disk that cannot flush is out; that is an error only where it held the
    /// last copy.
    pub async fn settle_disks(&self) -> Result<(), IoError> {
        let disks: Vec<_> = self.context.pool.pool_disks().into_iter().filter(|disk| disk.in_service()).collect();
        let results = join_all(disks.iter().map(|disk| disk.settle())).await;
        let (mut failed, mut noted) = (None, Ok(()));
        for (disk, result) in disks.iter().zip(results) {
            if let Err(error) = result {
                disk.counters.write_errors.fetch_add(1, Ordering::Relaxed);
                noted = self.context.pool.disk_out(disk.index, DiskState::Failed, &error.to_string()).await.and(noted);
                failed = Some(error);
            }
        }
        noted?;
        let Some(error) = failed else { return Ok(()) };
        for row in self.open_rows() {
            row.refresh();
            if !row.served() && row.unless_gone(Err(error.clone())).is_err() {
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Row {
    /// Tells that writes which were answered are lost.
    fn lost_cached(&self, column: usize) -> IoError {
        let disks: Vec<String> =
            self.copies_of(column).map(|(_, slab)| self.pool.disk_label(slab.disk.index)).collect();
        let cause = format!(
            "answered writes to {} that were not flushed may be lost: the only disk with them, of {}, went away and came back",
            self.part(),
            disks.join(", ")
        );
        let next = "check what was written last, or restore that data from a backup";
        self.pool.emit(Severity::Error, self.object(), cause.clone(), next);
        IoError::new(IoErrorKind::Media, cause)
    }

    /// Unmarks regions of a column that `may` be: no write is under way in them, all copies are in step, and everything
    /// written to them is durable, as are their checksums.
    pub async fn unmark(
        &self,
        column: usize,
        may: impl Fn(&crate::column::ColumnState, u32) -> bool,
    ) -> Result<(), IoError> {
        let mut maps = self.columns()[column].maps.lock().await;
        if !self.whole() {
            return Ok(());
        }
        let cleared: Vec<u32> = {
            let mut state = self.columns()[column].lock();
            let clear: Vec<u32> = state
                .marked
                .runs(0, state.marked.limit())
                .flat_map(|(start, end)| start..end)
                .filter(|region| {
                    !state.is_running(*region) && !state.unsynced.contains(*region) && may(&state, *region)
                })
                .filter(|region| {
                    self.checksums.as_ref().is_none_or(|checksums| !checksums.is_region_behind(column, *region))
                })
                .collect();
            clear.iter().for_each(|region| state.marked.remove(*region, *region + 1));
            clear
        };
        let mut touched: Vec<usize> =
            cleared.iter().map(|region| (region / crate::block_map::MAP_REGIONS) as usize).collect();
        touched.dedup();
        for map in touched {
            self.write_map(column, map, &mut maps[map]).await?;
        }
        Ok(())
    }
}
