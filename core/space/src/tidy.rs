//! Housekeeping: stale slabs rejoin, dirty regions left by a crash are brought in step, idle regions are unmarked, idle rows
//! are closed. One pass is [`Space::tidy`]; [`Space::maintain`] repeats it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdfast_device::IoError;

use crate::row::Row;
use crate::space::{Inner, Space};

/// Chunks whose maps are looked at after a crash in one go.
const SWEEP_CHUNKS: usize = 64;

impl Space {
    /// Keeps house until the space is closed.
    pub async fn maintain(self: Arc<Self>) {
        let clock = self.inner.pool.env().clock.clone();
        while !self.inner.closed.load(Ordering::Acquire) {
            if let Err(error) = self.tidy().await {
                tracing::warn!(space = %self.inner.path(), %error, "housekeeping");
            }
            let swept = self.inner.swept.load(Ordering::Acquire) == u64::MAX;
            let pause = if swept { self.inner.settings.tidy_every } else { self.inner.settings.tidy_every / 50 };
            clock.sleep(pause).await;
        }
    }

    /// One pass of the housekeeping.
    pub async fn tidy(&self) -> Result<(), IoError> {
        let inner = &self.inner;
        if inner.closed.load(Ordering::Acquire) || inner.pool.refusal().is_some() {
            return Ok(());
        }
        inner.sweep().await?;
        inner.rejoin_stale().await?;
        for row in inner.open_rows() {
            let resynced = inner.resync_row(&row).await;
            row.unless_gone(resynced)?;
        }
        inner.unmark_idle().await?;
        inner.evict();
        Ok(())
    }
}

impl Inner {
    /// After a crash: opens the next rows, which tells what is dirty in them.
    async fn sweep(&self) -> Result<(), IoError> {
        let from = self.swept.load(Ordering::Acquire);
        let Ok(from) = u32::try_from(from) else { return Ok(()) };
        let chunks = self.pool.chunks_from(self.record.id, from, SWEEP_CHUNKS);
        for chunk in &chunks {
            if let Some(row) = self.row(*chunk).await? {
                let resynced = self.resync_row(&row).await;
                row.unless_gone(resynced)?;
            }
        }
        let next = chunks.last().filter(|_| chunks.len() == SWEEP_CHUNKS).map_or(u64::MAX, |last| u64::from(*last) + 1);
        self.swept.store(next, Ordering::Release);
        Ok(())
    }

    async fn resync_row(&self, row: &Arc<Row>) -> Result<(), IoError> {
        for (index, column) in row.columns.iter().enumerate() {
            let unsynced: Vec<(u32, u32)> = {
                let state = column.lock();
                state.unsynced.runs(0, state.unsynced.limit()).collect()
            };
            for (start, end) in unsynced {
                row.resync(index, crate::column::Blocks { start, end }).await?;
            }
        }
        Ok(())
    }

    /// Brings stale slabs in step whose disks are in service again.
    async fn rejoin_stale(&self) -> Result<(), IoError> {
        for chunk in self.pool.stale_chunks(self.record.id) {
            let Some(row) = self.row_if_any(chunk).await? else { continue };
            row.refresh();
            for index in row.stale_slabs() {
                row.rejoin(index).await?;
            }
        }
        Ok(())
    }

    /// Unmarks regions that were idle since the last pass.
    async fn unmark_idle(&self) -> Result<(), IoError> {
        let rows: Vec<Arc<Row>> = self.open_rows().into_iter().filter(|row| row.mirrored()).collect();
        let mut idle = Vec::new();
        for row in &rows {
            for (index, column) in row.columns.iter().enumerate() {
                let mut state = column.lock();
                let quiet: Vec<u32> = state
                    .marked
                    .runs(0, state.marked.limit())
                    .flat_map(|(start, end)| start..end)
                    .filter(|region| !state.recent.contains(*region) && !state.is_running(*region))
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
        self.settle_disks().await?;
        for (row, column, quiet) in idle {
            let unmarked = row.unmark(column, |state, region| quiet.contains(&region) && !state.recent.contains(region)).await;
            row.unless_gone(unmarked)?;
        }
        Ok(())
    }
}
