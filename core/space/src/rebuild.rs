//! Slabs whose disks are lost get other disks, and there what their row's other slabs tell.
//!
//! Invariant: before a slab gets its new disk, every surviving slab has it written down that all of the lost one's data
//! is to be copied; so a crash at any point leaves a slab that is stale and known to be so.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::stream::{StreamExt, iter};
use holdfast_device::IoError;
use holdfast_pool::UNIT_BYTES;

use crate::column::Blocks;
use crate::lock_order::branch;
use crate::pace::{Ended, Pace, Stopped};
use crate::row::{Row, RowBody};
use crate::slab::Slab;
use crate::space::{Inner, Space};

/// Slabs that are rebuilt at a time, at least and at most.
const LEAST_AT_ONCE: usize = 4;
const MOST_AT_ONCE: usize = 64;
/// How often a slab is brought in step; then maintenance goes on with it.
const TRIES: u32 = 50;
/// While another task brings the slab in step.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

impl Space {
    /// Bytes of slabs that [`Space::rebuild`] will write at most.
    pub fn bytes_to_rebuild(&self) -> u64 {
        let inner = &self.inner;
        let units = |(chunk, _)| inner.pool.row(inner.record.id, chunk).map_or(0, |row| u64::from(row.slab_units));
        inner.pool.lost_slabs(inner.record.id).into_iter().map(units).sum::<u64>() * UNIT_BYTES
    }

    /// Rebuilds every slab that missed writes on a disk out of service on another disk, those of the most endangered
    /// rows first.
    ///
    /// # Errors
    /// Too little room, or rows that cannot be served; what was rebuilt before stays so.
    pub async fn rebuild(&self, pace: &dyn Pace) -> Result<(), Ended> {
        let inner = &self.inner;
        inner.parity.ready().await?;
        let lost = inner.pool.lost_slabs(inner.record.id);
        // One that fails keeps no other from its turn; an end that was asked for does.
        let ended: RefCell<Result<(), Ended>> = RefCell::new(Ok(()));
        let rebuild = async |(chunk, slab)| {
            if !matches!(*ended.borrow(), Err(Ended::Stopped))
                && let Err(error) = branch(inner.rebuild_slab(chunk, slab, pace)).await
            {
                *ended.borrow_mut() = Err(error);
            }
        };
        iter(lost).for_each_concurrent(inner.rebuilt_at_once(), rebuild).await;
        ended.into_inner()?;
        Ok(inner.suit_journal().await?)
    }
}

impl Inner {
    /// How many slabs are rebuilt at a time: from many disks to many, so that each has about one to read or write for.
    fn rebuilt_at_once(&self) -> usize {
        let disks = self.pool.pool_disks().iter().filter(|disk| disk.in_service()).count();
        let shape = self.pool.space(self.record.id).map_or(self.record.shape, |record| record.shape);
        (disks / (shape.needed() + 1)).clamp(LEAST_AT_ONCE, MOST_AT_ONCE)
    }

    async fn rebuild_slab(&self, chunk: u32, index: usize, pace: &dyn Pace) -> Result<(), Ended> {
        let Some(row) = self.row_if_any(chunk).await? else { return Ok(()) };
        // What was lost may have been given back since, and the chunk have a row of another shape.
        if index >= row.slabs.len() {
            return Ok(());
        }
        let slab = PartPace { pace, left: AtomicU64::new(u64::from(row.record.slab_units) * UNIT_BYTES) };
        pace.step(0).await?;
        row.refresh();
        if !row.slabs.get(index).usable() && !row.slabs.get(index).disk.in_service() {
            match row.body {
                RowBody::Columns(_) => row.mark_written(index / row.copies()).await?,
                RowBody::Bands(_) => self.parity.miss_all(&row).await?,
            }
            let replaced = self.pool.replace_slab(self.record.id, chunk, index).await.map_err(IoError::from)?;
            let Some((record, freed)) = replaced else { return Ok(()) };
            let new = Slab::new(&self.pool, &record, &record.slabs[index])?;
            // Taken as long as a request knows the old place, and no longer: the row itself stays open.
            row.slabs.get(index).hold(freed);
            row.slabs.replace(index, new);
            if let (Some(checksums), RowBody::Bands(_)) = (&row.checksums, &row.body) {
                checksums.clear(index);
            }
            row.refresh();
        }
        for _ in 0..TRIES {
            if !row.slabs.get(index).disk.in_service() || row.rejoin(self, index, &slab).await? {
                break;
            }
            self.pool.env().clock.sleep(PAUSE).await;
            pace.step(0).await?;
        }
        slab.done(u64::MAX);
        Ok(())
    }
}

/// The pace of a part of the work, which counts as so many bytes however many its steps move.
struct PartPace<'a> {
    pace: &'a dyn Pace,
    left: AtomicU64,
}

impl Pace for PartPace<'_> {
    fn step(&self, bytes: u64) -> Pin<Box<dyn Future<Output = Result<(), Stopped>> + '_>> {
        self.pace.step(bytes)
    }

    fn done(&self, bytes: u64) {
        let left = self.left.load(Ordering::Relaxed);
        self.left.fetch_sub(bytes.min(left), Ordering::Relaxed);
        self.pace.done(bytes.min(left));
    }
}

impl Row {
    /// Marks every region of a column that holds data as dirty.
    pub async fn mark_written(&self, column: usize) -> Result<(), IoError> {
        self.open_column(column).await?;
        let runs: Vec<(u32, u32)> = {
            let state = self.columns()[column].lock();
            state.written.runs(0, state.blocks()).collect()
        };
        for (start, end) in runs {
            let regions = Blocks { start, end }.regions();
            self.mark_dirty(column, regions).await?;
        }
        Ok(())
    }
}
