//! Copies brought back in step: regions that were dirty when the power went, and slabs whose disk was away.
//!
//! While a slab joins it takes every new write; the regions that are marked by then are copied one by one under the
//! write turn of their blocks. So when the last one is done it holds what the others hold, and only then the pool is
//! reported.

use std::sync::Arc;

use holdfast_device::{Durability, IoBuf, IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;

use crate::block_map::REGION_BYTES;
use crate::column::Blocks;
use crate::lock_order::join_all;
use crate::pace::{Ended, Pace};
use crate::parity::bytes_of;
use crate::row::{Row, RowBody};
use crate::space::Inner;

/// Regions of a joining slab that are copied at a time.
const JOINED_AT_ONCE: usize = 4;

impl Row {
    /// Makes the copies of these regions of a column agree, durably.
    pub async fn resync(&self, column: usize, regions: Blocks) -> Result<(), IoError> {
        for region in regions.start..regions.end {
            let blocks = Blocks::of_region(region, self.columns()[column].lock().blocks());
            let turn = self.turn(column, blocks).await;
            if self.columns()[column].lock().unsynced.contains(region) {
                if self.checksums.is_some() {
                    let torn = self.columns()[column].lock().torn.contains(region);
                    self.agree(column, blocks, torn).await?;
                    self.columns()[column].lock().end_unsynced(region);
                    continue;
                }
                let targets: Vec<usize> =
                    self.copies_of(column).filter(|(_, slab)| slab.usable()).map(|(index, _)| index).collect();
                self.copy_region(column, blocks, &targets).await?;
                self.columns()[column].lock().end_unsynced(region);
            }
            drop(turn);
        }
        Ok(())
    }

    /// What blocks that hold data should be on every copy, and which copy has it. The turn of the blocks must be held.
    async fn source(
        &self,
        column: usize,
        blocks: Blocks,
        preferred: Option<usize>,
    ) -> Result<(Option<usize>, IoBuf), IoError> {
        if self.checksums.is_some() {
            return Ok((None, self.right_blocks(column, blocks).await?));
        }
        let offset = u64::from(blocks.start) * BLOCK_BYTES;
        let (source, data) = self.read_source(column, offset, bytes_of(blocks.end - blocks.start), preferred).await?;
        Ok((Some(source), data))
    }

    /// Copies what the blocks hold to `targets` from a copy in step. The write turn of the blocks must be held.
    async fn copy_region(&self, column: usize, blocks: Blocks, targets: &[usize]) -> Result<(), IoError> {
        let runs: Vec<(u32, u32)> = self.columns()[column].lock().written.runs(blocks.start, blocks.end).collect();
        let stable = targets.first().copied();
        for (start, end) in runs {
            let offset = u64::from(start) * BLOCK_BYTES;
            let (source, data) = self.source(column, Blocks { start, end }, stable).await?;
            let data = data.freeze();
            let writes: Vec<_> = targets
                .iter()
                .filter(|index| Some(**index) != source)
                .map(|index| {
                    let slab = self.slabs.get(*index);
                    let write = slab.disk.write(slab.at(offset), data.clone(), Durability::Durable);
                    async move { (*index, slab, write.await) }
                })
                .collect();
            for (index, slab, result) in join_all(writes).await {
                if let Err(error) = result {
                    self.write_failed(index, &slab, &error).await?;
                }
            }
        }
        self.settle_column(column).await
    }

    /// Copies blocks one by one. One that is right nowhere is left as the target has it: its checksum is known, so that
    /// it is not served, unless the target is the one that has it right.
    async fn copy_blocks(&self, column: usize, Blocks { start, end }: Blocks, target: usize) -> Result<(), IoError> {
        for block in start..end {
            match self.copy_region(column, Blocks { start: block, end: block + 1 }, &[target]).await {
                Err(error) if error.kind == IoErrorKind::Media => {}
                copied => copied?,
            }
        }
        Ok(())
    }

    /// Reads from a copy in step, the preferred one first, and tells which it was.
    pub async fn read_source(
        &self,
        column: usize,
        offset: u64,
        len: usize,
        preferred: Option<usize>,
    ) -> Result<(usize, IoBuf), IoError> {
        let mut last = None;
        let mut order: Vec<_> = self.copies_of(column).filter(|(_, slab)| slab.usable()).collect();
        order.sort_by_key(|(index, _)| Some(*index) != preferred);
        for (index, slab) in order {
            match slab.disk.read(slab.at(offset), IoBuf::new(len)).await {
                Ok(data) => return Ok((index, data)),
                Err(error) => {
                    slab.disk.counters.read_errors.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    last = Some(error);
                }
            }
        }
        self.settle_column(column).await?;
        Err(last.unwrap_or_else(|| {
            IoError::new(holdfast_device::IoErrorKind::Stale, format!("column {column} has no copy in step"))
        }))
    }

    /// Slabs that are stale though their disk is in service.
    pub fn stale_slabs(&self) -> Vec<usize> {
        let stale = |index: &usize| !self.slabs.get(*index).usable() && self.slabs.get(*index).disk.in_service();
        (0..self.slabs.len()).filter(stale).collect()
    }

    /// Brings a stale slab in step. Answers whether it is; false where its disk went out meanwhile, or another task
    /// does so.
    pub async fn rejoin(self: &Arc<Self>, space: &Inner, index: usize, pace: &dyn Pace) -> Result<bool, Ended> {
        if let RowBody::Bands(_) = self.body {
            // What the journal intends must be in place before anything is computed from it.
            space.parity.ready().await?;
        }
        self.refresh();
        let slab = self.slabs.get(index);
        if slab.usable() {
            return Ok(true);
        }
        if slab.outdated() {
            self.mark_all(space, index).await?;
        }
        let outages = slab.disk.outages();
        if !outages.is_multiple_of(2) {
            return Ok(false);
        }
        if !slab.begin_joining() {
            return Ok(false);
        }
        let joined = match self.body {
            RowBody::Columns(_) => self.join_slab(index, outages, pace).await,
            RowBody::Bands(_) => space.parity.join_bands(self, index, outages, pace).await,
        };
        if let Ok(true) = joined {
            slab.set_in_step(outages);
        }
        slab.end_joining();
        joined
    }

    /// Has it written down that a slab missed all that its row holds, so that all of it is copied.
    async fn mark_all(self: &Arc<Self>, space: &Inner, index: usize) -> Result<(), IoError> {
        match self.body {
            RowBody::Columns(_) => self.mark_written(index / self.copies()).await?,
            RowBody::Bands(_) => {
                if let Some(checksums) = &self.checksums {
                    checksums.clear(index);
                }
                space.parity.miss_all(self).await?;
            }
        }
        self.pool.end_outdated(self.space, self.chunk, index).await?;
        self.refresh();
        Ok(())
    }

    async fn join_slab(&self, index: usize, outages: u32, pace: &dyn Pace) -> Result<bool, Ended> {
        let column = index / self.copies();
        let slab = self.slabs.get(index);
        self.settle_column(column).await?;
        self.open_column(column).await?;
        self.write_header(index).await?;
        let (marked, blocks) = {
            let state = self.columns()[column].lock();
            (state.marked.clone(), state.blocks())
        };
        let regions: Vec<u32> = marked.runs(0, marked.limit()).flat_map(|(start, end)| start..end).collect();
        // One region is read while another is written; those with checksums look at what they copy one by one.
        let at_once = if self.checksums.is_some() { 1 } else { JOINED_AT_ONCE };
        for regions in regions.chunks(at_once) {
            if slab.disk.outages() != outages {
                return Ok(false);
            }
            let bytes = regions.len() as u64 * REGION_BYTES;
            pace.step(bytes).await?;
            let joins =
                regions.iter().map(|region| self.join_region(column, Blocks::of_region(*region, blocks), index));
            join_all(joins).await.into_iter().collect::<Result<(), IoError>>()?;
            pace.done(bytes);
        }
        if let Err(error) = slab.disk.flush().await {
            self.write_failed(index, &slab, &error).await?;
            return Ok(false);
        }
        let mut maps = self.columns()[column].maps.lock().await;
        for (map, place) in maps.iter_mut().enumerate() {
            self.write_map(column, map, place).await?;
        }
        drop(maps);
        if slab.disk.outages() != outages {
            return Ok(false);
        }
        let marked = self.pool.mark_in_step(self.space, self.chunk, index, &slab.disk, outages).await;
        Ok(marked.map_err(IoError::from)?)
    }

    /// Copies a region to a joining slab.
    async fn join_region(&self, column: usize, blocks: Blocks, index: usize) -> Result<(), IoError> {
        if self.checksums.is_some() {
            self.resync(column, blocks.regions()).await?;
        }
        let turn = self.turn(column, blocks).await;
        match self.copy_region(column, blocks, &[index]).await {
            Err(error) if error.kind == IoErrorKind::Media && self.checksums.is_some() => {
                self.copy_blocks(column, blocks, index).await?;
            }
            copied => copied?,
        }
        drop(turn);
        self.touch_sums(column, blocks.regions()).await
    }
}
