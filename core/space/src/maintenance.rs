//! Maintenance: stale slabs rejoin, dirty regions left by a crash are brought in step, idle regions are unmarked, idle
//! rows are closed. One pass is [`Space::maintain_once`]; [`Space::maintain`] repeats it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::select;
use holdfast_device::IoError;
use holdfast_pool::{JOURNAL_CHUNK, Severity};

use crate::block_set::BlockSet;
use crate::lock_order::branch;
use crate::pace::{Ended, Unlimited};
use crate::row::{Row, RowBody};
use crate::space::{Inner, Space};

/// Chunks whose maps are looked at after a crash in one go.
const SWEEP_CHUNKS: usize = 64;
/// While data is written, disks get a record at least so often.
const STAMP_EVERY: Duration = Duration::from_secs(10);

impl Space {
    /// Maintains it until the space is closed.
    pub async fn maintain(self: Arc<Self>) {
        let clock = self.inner.pool.env().clock.clone();
        while !self.inner.is_closed() {
            if let Err(error) = self.maintain_once().await {
                tracing::warn!(space = %self.inner.path(), %error, "maintenance");
            }
            let swept = self.inner.swept.load(Ordering::Acquire) == u64::MAX;
            let pause = if swept {
                self.inner.settings.maintenance_interval
            } else {
                self.inner.settings.maintenance_interval / 50
            };
            select(clock.sleep(pause), pin!(self.inner.closing.notified())).await;
        }
    }

    /// One pass of maintenance. A row that cannot be served does not keep the others from theirs; the last error is
    /// reported.
    pub async fn maintain_once(&self) -> Result<(), IoError> {
        branch(self.inner.maintain_once()).await
    }
}

impl Inner {
    async fn maintain_once(&self) -> Result<(), IoError> {
        let _one = self.maintaining.lock().await;
        if self.is_over() {
            return Ok(());
        }
        let swept = self.sweep().await;
        let placed = self.maintain_bands().await;
        let rejoined = self.rejoin_stale().await;
        let mut resynced = Ok(());
        for row in self.rows.open_rows() {
            if self.is_over() {
                return Ok(());
            }
            resynced = row.unless_gone(self.resync_row(&row).await).and(resynced);
            resynced = row.unless_gone(self.prove(&row).await).and(resynced);
            resynced = row.unless_gone(row.renew_older().await).and(resynced);
        }
        self.report_doubtful();
        self.rows.context.repairs.tell_due(&self.pool, &self.path(), false);
        let unmarked = self.unmark_idle().await;
        let stamped = self.stamp_if_due().await;
        let claimed = self.write_claims(None).await;
        let summed = self.write_clean_sums().await;
        self.evict();
        swept.and(placed).and(rejoined).and(resynced).and(unmarked).and(stamped).and(claimed).and(summed)
    }

    /// Whether there is nothing to maintain for any more.
    pub fn is_over(&self) -> bool {
        self.is_closed() || self.pool.refusal().is_some()
    }

    /// Has every disk record now and then that time went by while data was written: one that is set back is recognised
    /// by that.
    async fn stamp_if_due(&self) -> Result<(), IoError> {
        let changed = self.counters.writes.requests.load(Ordering::Relaxed)
            + self.counters.discards.requests.load(Ordering::Relaxed);
        if self.stamped.swap(changed, Ordering::AcqRel) != changed {
            let since = self.pool.env().clock.now().saturating_sub(STAMP_EVERY);
            self.pool.stamp(since).await?;
        }
        Ok(())
    }

    /// Has slabs of parity rows claim what is durable, as [`Row::write_claims`] does. The pool is looked at before: pages
    /// are written as they were, and another one may have changed them who owns it now.
    pub async fn write_claims(&self, until: Option<Duration>) -> Result<(), IoError> {
        let is_due = |row: &Arc<Row>| row.checksums.as_ref().is_some_and(|checksums| checksums.is_claim_due());
        let rows: Vec<Arc<Row>> = self.rows.open_rows().into_iter().filter(is_due).collect();
        if rows.is_empty() {
            return Ok(());
        }
        self.pool.stamp(self.pool.env().clock.now().saturating_sub(STAMP_EVERY)).await?;
        let mut claimed = Ok(());
        for row in rows {
            claimed = row.unless_gone(row.write_claims(until).await).and(claimed);
        }
        claimed
    }

    /// Reports, once all rows were looked at, how many blocks were taken as they are.
    fn report_doubtful(&self) {
        if self.swept.load(Ordering::Acquire) != u64::MAX {
            return;
        }
        let blocks = self.rows.context.doubtful.swap(0, Ordering::Relaxed);
        if blocks > 0 {
            let (were, s) = if blocks == 1 { ("was", "") } else { ("were", "s") };
            let cause = format!(
                "{blocks} block{s} that {were} being written when the power failed did not match the checksum{s} and {were} kept as found"
            );
            self.pool.emit(Severity::Info, self.object(), cause, "");
        }
    }

    /// After a crash: opens the next rows, which tells what is dirty in them.
    async fn sweep(&self) -> Result<(), IoError> {
        let from = self.swept.load(Ordering::Acquire);
        let Ok(from) = u32::try_from(from) else { return Ok(()) };
        let chunks = self.pool.chunks_from(self.record.id, from, SWEEP_CHUNKS);
        let mut result = Ok(());
        for chunk in &chunks {
            if self.is_over() {
                return Ok(());
            }
            result = match self.row(*chunk).await {
                Ok(Some(row)) => row.unless_gone(self.resync_row(&row).await).and(result),
                Ok(None) => result,
                Err(error) => Err(error),
            };
        }
        if result.is_err() {
            self.unsettled.store(true, Ordering::Release);
        }
        let next = chunks.last().filter(|_| chunks.len() == SWEEP_CHUNKS).map_or(u64::MAX, |last| u64::from(*last) + 1);
        self.swept.store(next, Ordering::Release);
        result
    }

    /// Makes the copies of a row agree where they may differ since a crash. Those of a journal are read first: a record
    /// that one of them has whole counts, whichever that is.
    pub async fn resync_row(&self, row: &Arc<Row>) -> Result<(), IoError> {
        if row.chunk >= JOURNAL_CHUNK {
            self.parity.ready().await?;
        }
        let mut result = Ok(());
        for (index, column) in row.columns().iter().enumerate() {
            let unsynced: Vec<(u32, u32)> = {
                let state = column.lock();
                state.unsynced.runs(0, state.unsynced.limit()).collect()
            };
            for (start, end) in unsynced {
                result = row.resync(index, crate::column::Blocks { start, end }).await.and(result);
            }
        }
        result
    }

    /// Brings stale slabs in step whose disks are in service again.
    async fn rejoin_stale(&self) -> Result<(), IoError> {
        let mut result = Ok(());
        for chunk in self.pool.stale_chunks(self.record.id) {
            if self.is_over() {
                return Ok(());
            }
            let row = match self.row_if_any(chunk).await {
                Ok(Some(row)) => row,
                Ok(None) => continue,
                Err(error) => {
                    result = Err(error);
                    continue;
                }
            };
            row.refresh();
            for index in row.stale_slabs() {
                let joined = match row.rejoin(self, index, &Unlimited).await {
                    Ok(_) | Err(Ended::Stopped) => Ok(()),
                    Err(Ended::Failed(error)) => Err(error),
                };
                result = joined.and(result);
            }
        }
        result
    }

    /// Sees to it that pages of checksums which were found to lack something lack it no longer: read again, or proven
    /// by parity.
    pub async fn prove(&self, row: &Arc<Row>) -> Result<(), IoError> {
        let Some(checksums) = &row.checksums else { return Ok(()) };
        let mut proven = Ok(());
        for (set, page) in checksums.take_lacking() {
            row.complete_sums_page(checksums, set, page).await;
            let RowBody::Bands(_) = row.body else { continue };
            // A page that made way for others is read, and noted, once more.
            let whole = self.prove_bands(row, set, page).await;
            match whole {
                Ok(true) => checksums.forget_lacking(set, page),
                _ => checksums.note_lacking(set, page),
            }
            proven = whole.map(drop).and(proven);
        }
        proven
    }

    /// Has what waits of rows with parity destaged and committed, and gives those back that hold nothing.
    pub async fn maintain_bands(&self) -> Result<(), IoError> {
        if !self.parity.journaled() {
            return Ok(());
        }
        self.parity.maintain().await?;
        for row in self.rows.open_rows() {
            if let RowBody::Bands(_) = row.body {
                self.free_if_empty(row.chunk).await?;
            }
        }
        Ok(())
    }

    /// Takes anew the checksums of a slab that one of its pages was found to lack. Answers false where a part must wait
    /// for the end of a change that was cut short.
    async fn prove_bands(&self, row: &Arc<Row>, slab: usize, page: u32) -> Result<bool, IoError> {
        let mut whole = true;
        for band in row.bands_on_page(page) {
            let used = self.row_if_any(row.chunk).await?.filter(|used| Arc::ptr_eq(used, row));
            if used.is_none() || self.is_over() {
                return Ok(true);
            }
            whole &= row.prove_band(band, slab, page).await?;
        }
        Ok(whole)
    }

    /// Writes all checksums that the disks do not have, where they take too much memory.
    pub async fn relieve_sums(&self) -> Result<(), IoError> {
        let _one = self.relieving.lock().await;
        if self.rows.context.checksums.is_pressed() { self.write_all_sums().await } else { Ok(()) }
    }

    /// Writes all checksums that the disks do not have, durably.
    pub async fn write_all_sums(&self) -> Result<(), IoError> {
        for row in self.rows.open_rows() {
            let settled = self.settle_sums(&row, &|_, _| true).await;
            row.unless_gone(settled)?;
        }
        Ok(())
    }

    /// Writes those of a row that are on pages with a region which `wanted` names, of a set.
    pub async fn settle_sums(&self, row: &Row, wanted: &dyn Fn(usize, u32) -> bool) -> Result<(), IoError> {
        let written = row.write_sums(wanted).await?;
        if !written.is_empty() {
            self.rows.settle_disks().await?;
            row.end_sums(written);
        }
        Ok(())
    }

    /// Writes the checksums of all rows that were repaired while nothing was written.
    async fn write_clean_sums(&self) -> Result<(), IoError> {
        for row in self.rows.open_rows() {
            self.settle_clean_sums(&row).await?;
        }
        Ok(())
    }

    /// Writes checksums of a row that were repaired while nothing was written: no mark and no commit waits for them.
    pub async fn settle_clean_sums(&self, row: &Row) -> Result<(), IoError> {
        if row.checksums.as_ref().is_none_or(|checksums| checksums.is_settled()) {
            return Ok(());
        }
        let marked: Vec<BlockSet> = row.columns().iter().map(|column| column.lock().marked.clone()).collect();
        let committed = row.bands_if_any().is_some_and(|bands| bands.lock().uncommitted.is_empty());
        let clean = |set: usize, region: u32| match marked.get(set) {
            Some(marked) => region < marked.limit() && !marked.contains(region),
            None => committed,
        };
        let settled = self.settle_sums(row, &clean).await;
        row.unless_gone(settled)
    }

    /// Unmarks regions that were idle since the last pass.
    async fn unmark_idle(&self) -> Result<(), IoError> {
        let rows: Vec<Arc<Row>> = self.rows.open_rows().into_iter().filter(|row| row.marks()).collect();
        let now = self.pool.env().clock.now();
        let last_look = std::mem::replace(&mut *self.looked.lock().expect("no panic while held"), now);
        let mut idle = Vec::new();
        for row in &rows {
            let kept = self.kept_regions(row);
            for (index, column) in row.columns().iter().enumerate() {
                let is_kept = |region: u32| kept.get(index).is_some_and(|kept| kept.contains(region));
                let mut state = column.lock();
                let quiet: Vec<u32> = state
                    .marked
                    .runs(0, state.marked.limit())
                    .flat_map(|(start, end)| start..end)
                    .filter(|region| !state.recent.contains(*region) && !state.is_running(*region) && !is_kept(*region))
                    .collect();
                let limit = state.recent.limit();
                state.recent.remove(0, limit);
                if !quiet.is_empty() {
                    idle.push((row.clone(), index, quiet));
                }
            }
        }
        if idle.is_empty() {
            return Ok(());
        }
        let mut written = Vec::new();
        for (row, column, quiet) in &idle {
            let quiet = |set: usize, region: u32| set == *column && quiet.binary_search(&region).is_ok();
            written.push((row, row.write_sums(&quiet).await?));
        }
        self.rows.settle_disks().await?;
        written.into_iter().for_each(|(row, written)| row.end_sums(written));
        // These regions were written before the last look; a disk without a younger record was set back to before that.
        self.pool.stamp(last_look).await?;
        for (row, column, quiet) in idle {
            let unmarked =
                row.unmark(column, |state, region| quiet.contains(&region) && !state.recent.contains(region)).await;
            row.unless_gone(unmarked)?;
        }
        Ok(())
    }
}
