//! One slab of a row gets another disk while the row is in use.
//!
//! The slab is copied as [`crate::movement`] has it; behind the gate the new place gets maps and header, and the slab
//! moves with one change of the pool.
//!
//! Invariants: until that one change the slab's old place counts, and gets every write; a crash or an error before it
//! leaves nothing behind that anybody takes for a slab. With it the new place holds, durably, all that the old one
//! held, so the row is at no time less protected. The row keeps its id: what the journal has for it still counts. The
//! old units stay taken as long as a request may still be on its way to them.

use std::sync::Arc;

use holdfast_device::{Durability, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::BLOCK_BYTES;
use holdfast_pool::slab::{self, map_at};
use holdfast_pool::{SlabMove, UNIT_BYTES};

use crate::block_set::BlockSet;
use crate::column::MapOnDisk;
use crate::lock_order::{TaskLock, branch, join_all, rank};
use crate::movement::{Copying, PIECES, cut};
use crate::pace::{Ended, Pace};
use crate::row::RowBody;
use crate::row_table::UsedRow;
use crate::slab::Slab;
use crate::space::{Inner, Space};
use crate::stripe::{Segment, segments};

impl Space {
    /// Moves a slab as planned. Answers false, and nothing is changed, where it cannot be moved now or makes disks no
    /// more even.
    ///
    /// # Errors
    /// The pace says that it is to end, or the pool takes no changes.
    pub async fn move_slab(&self, wanted: &SlabMove, pace: &dyn Pace) -> Result<bool, Ended> {
        let moved = branch(self.inner.move_slab(wanted, pace)).await;
        match (moved, self.inner.pool.refusal()) {
            (Err(Ended::Failed(_)), Some(why)) => Err(IoError::new(IoErrorKind::ReadOnly, why).into()),
            // What cannot be read or written stays where it is.
            (Err(Ended::Failed(_)), None) => Ok(false),
            (moved, _) => moved,
        }
    }
}

/// A slab that is being copied to another place.
struct SlabCopy<'a> {
    space: &'a Inner,
    row: &'a UsedRow,
    index: usize,
    to: Slab,
}

impl Drop for SlabCopy<'_> {
    fn drop(&mut self) {
        *self.row.changed() = None;
        if let RowBody::Bands(bands) = &self.row.body {
            bands.lock().changed = None;
        }
    }
}

impl Inner {
    async fn move_slab(&self, wanted: &SlabMove, pace: &dyn Pace) -> Result<bool, Ended> {
        self.parity.ready().await?;
        let _claim = self.claim(wanted.chunk, pace).await?;
        let Some(row) = self.row_if_any(wanted.chunk).await? else { return Ok(false) };
        row.refresh();
        row.open_columns().await?;
        self.resync_row(&row).await?;
        let Some((known, place, units)) = self.pool.reserve_slab(wanted) else { return Ok(false) };
        let to = Slab::new(&self.pool, &known, &place)?;
        let outages = to.disk.outages();
        if known.id != row.record.id || !row.whole() || !outages.is_multiple_of(2) {
            return Ok(false);
        }
        let copy = SlabCopy::begin(self, &row, wanted.slab.into(), to);
        if copy.write_head(0, IoSlice::padded(&vec![0; known.slab_head_bytes() as usize])).await.is_err() {
            return Ok(false);
        }
        let Some(gate) = self.copy_behind_gate(&row, &copy, pace).await? else { return Ok(false) };
        // Nobody writes maps from here on until the row has its new slab: it would miss them.
        let _committing = self.parity.committing.lock().await;
        let mut maps = copy.maps().lock().await;
        copy.level_maps(&mut maps).await?;
        // Nor checksums, whose versions would go up where the slab is now alone.
        let writing = match &row.checksums {
            Some(checksums) => Some(checksums.hold_writes().await),
            None => None,
        };
        let is_durable = copy.write_sums().await.is_ok() && copy.to.disk.flush().await.is_ok();
        if !copy.is_whole() || !is_durable || copy.write_maps(&maps).await.is_err() {
            return Ok(false);
        }
        let moved = self.pool.move_slab(wanted, &known, place, &copy.to.disk, outages).await.map_err(IoError::from)?;
        let Some(left) = moved else { return Ok(false) };
        units.keep();
        for place in maps.iter_mut() {
            place.slots[copy.slot()] = 0;
        }
        let from = row.slabs.get(copy.index);
        from.hold(left);
        let to = Slab::new(&self.pool, &known, &place)?;
        to.set_in_step(outages);
        row.slabs.replace(copy.index, to);
        row.refresh();
        drop(writing);
        drop(maps);
        row.renew_headers();
        if row.ensure_headers().await.is_ok() {
            let nothing = IoSlice::padded(&[0; BLOCK_BYTES as usize]);
            let _ = from.disk.write(from.start, nothing, Durability::Durable).await;
        }
        drop(gate);
        pace.done(u64::from(known.slab_units) * UNIT_BYTES);
        Ok(true)
    }
}

impl Copying for SlabCopy<'_> {
    const GATE_TRIES: u32 = 50;

    fn everything(&self) -> BlockSet {
        let limit = match &self.row.body {
            RowBody::Bands(bands) => bands.geometry.bands,
            RowBody::Columns(columns) => columns[self.column()].lock().blocks(),
        };
        let mut all = BlockSet::new(limit);
        all.insert(0, limit);
        all
    }

    fn take_changed(&self) -> BlockSet {
        if let RowBody::Bands(bands) = &self.row.body {
            let limit = bands.geometry.bands;
            return bands.lock().changed.replace(BlockSet::new(limit)).unwrap_or_else(|| BlockSet::new(limit));
        }
        let changed = self.row.take_changed((self.space.record.chunk_bytes / BLOCK_BYTES) as u32);
        let mut blocks = BlockSet::new(self.row.columns()[self.column()].lock().blocks());
        for (start, end) in changed.runs(0, changed.limit()) {
            let range = segments(
                self.row.shape(),
                u64::from(start) * BLOCK_BYTES,
                (end - start) as usize * BLOCK_BYTES as usize,
            );
            for segment in range.filter(|segment| segment.column == self.column()) {
                let first = (segment.offset / BLOCK_BYTES) as u32;
                blocks.insert(first, first + (segment.len as u64 / BLOCK_BYTES) as u32);
            }
        }
        blocks
    }

    fn bytes(&self, todo: &BlockSet) -> u64 {
        let each = match &self.row.body {
            RowBody::Columns(_) => 1,
            RowBody::Bands(bands) => u64::from(bands.geometry.depth),
        };
        u64::from(todo.count()) * each * BLOCK_BYTES
    }

    async fn copy(&self, todo: &BlockSet, _again: bool, pace: &dyn Pace) -> Result<bool, Ended> {
        if let RowBody::Bands(bands) = &self.row.body {
            for band in todo.runs(0, todo.limit()).flat_map(|(start, end)| start..end) {
                if bands.lock().places[band as usize] == crate::parity::NOWHERE {
                    continue;
                }
                pace.step(u64::from(bands.geometry.depth) * BLOCK_BYTES).await?;
                if !self.row.copy_band(self.index, band, &self.to).await? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let pieces = {
            let state = self.row.columns()[self.column()].lock();
            cut(todo.runs(0, todo.limit()).flat_map(|(start, end)| state.written.runs(start, end)))
        };
        for pieces in pieces.chunks(PIECES) {
            pace.step(pieces.iter().map(|(start, end)| u64::from(end - start) * BLOCK_BYTES).sum()).await?;
            for copied in join_all(pieces.iter().map(|(start, end)| self.copy_piece(*start, *end))).await {
                copied?;
            }
        }
        Ok(true)
    }

    async fn settle(&self) -> Result<bool, IoError> {
        self.space.parity.place_row(self.row).await.map(|()| true)
    }

    // All is written into the maps as well.
    async fn settle_source(&self) -> Result<bool, IoError> {
        self.space.parity.place_row(self.row).await?;
        match self.row.body {
            RowBody::Columns(_) => {
                self.space.flush_row(self.row).await?;
                self.space.settle_sums(self.row, &|_, _| true).await?;
                self.space.pool.stamp(self.space.pool.env().clock.now()).await?;
                self.row.unmark(self.column(), |_, _| true).await?;
            }
            RowBody::Bands(_) => self.space.parity.commit_row(self.row).await?,
        }
        Ok(self.is_whole())
    }

    async fn settle_copy(&self) -> Result<bool, IoError> {
        Ok(self.to.disk.flush().await.is_ok())
    }
}

impl<'a> SlabCopy<'a> {
    /// From now on it is noted what changes.
    fn begin(space: &'a Inner, row: &'a UsedRow, index: usize, to: Slab) -> Self {
        match &row.body {
            RowBody::Bands(bands) => bands.lock().changed = Some(BlockSet::new(bands.geometry.bands)),
            RowBody::Columns(_) => {
                *row.changed() = Some(BlockSet::new((space.record.chunk_bytes / BLOCK_BYTES) as u32))
            }
        }
        Self { space, row, index, to }
    }

    fn column(&self) -> usize {
        self.index / self.row.copies()
    }

    /// Which of a map's slots is the slab's.
    fn slot(&self) -> usize {
        match self.row.body {
            RowBody::Columns(_) => self.index % self.row.copies(),
            RowBody::Bands(_) => self.index,
        }
    }

    fn maps(&self) -> &TaskLock<{ rank::MAPS }, Vec<MapOnDisk>> {
        match &self.row.body {
            RowBody::Bands(bands) => &bands.maps,
            RowBody::Columns(columns) => &columns[self.column()].maps,
        }
    }

    /// Copies blocks as their checksums say. Without these, from the slab itself, and only if they cannot be read from
    /// one that backs it: what is wrong on another copy stays there.
    async fn copy_piece(&self, start: u32, end: u32) -> Result<(), IoError> {
        let (offset, len) = (u64::from(start) * BLOCK_BYTES, (end - start) as usize * BLOCK_BYTES as usize);
        let data = if self.row.checksums.is_some() {
            let segment = Segment { at: 0, len, column: self.column(), offset };
            self.row.read_segment(&segment, IoBuf::new(len)).await?
        } else {
            self.row.read_source(self.column(), offset, len, Some(self.index)).await?.1
        };
        self.to.disk.write(self.to.at(offset), data.freeze(), Durability::Cached).await
    }

    fn is_whole(&self) -> bool {
        let durable = match &self.row.body {
            RowBody::Bands(bands) => bands.lock().is_durable(),
            RowBody::Columns(columns) => columns[self.column()].lock().is_durable(),
        };
        durable && self.row.whole()
    }

    async fn write_head(&self, at: u64, block: IoSlice) -> Result<(), IoError> {
        self.to.disk.write(self.to.start + at, block, Durability::Durable).await
    }

    /// Writes the checksums of all that was copied.
    async fn write_sums(&self) -> Result<(), IoError> {
        let set = self.row.sums_set(self.index);
        let pages = self.row.checksums.as_ref().map_or(0, |checksums| checksums.pages(set));
        for page in 0..pages {
            if let Some((offset, sealed)) = self.row.sums_page_for(set, page, &self.to).await? {
                self.to.disk.write(offset, sealed.freeze(), Durability::Cached).await?;
            }
        }
        Ok(())
    }

    /// Gives the other copies of the column maps of the numbers that those of the new place will have: by them a
    /// salvage tells which copy missed writes.
    async fn level_maps(&self, maps: &mut [MapOnDisk]) -> Result<(), IoError> {
        if let RowBody::Columns(_) = self.row.body {
            for (map, place) in maps.iter_mut().enumerate() {
                self.row.write_map(self.column(), map, place).await?;
            }
        }
        Ok(())
    }

    /// Writes the maps as they are on the row's other slabs, and then the header.
    async fn write_maps(&self, maps: &[MapOnDisk]) -> Result<(), IoError> {
        for (map, place) in maps.iter().enumerate() {
            let (at, disk) = (map_at(map, 0), self.to.disk.id);
            let block = match &self.row.body {
                RowBody::Bands(_) => self.row.seal_band_map(map as u32, disk, self.to.start + at, place.sequence),
                RowBody::Columns(columns) => {
                    let bits = columns[self.column()].lock().map_bits(map);
                    bits.seal(&self.row.owner(self.column(), map), disk, self.to.start + at, place.sequence)
                }
            };
            self.write_head(at, block.freeze()).await?;
        }
        self.write_head(0, self.row.header(self.index, &self.to, slab::ARRIVING)?).await
    }
}

impl UsedRow {
    /// Copies what a slab is to hold of a band to another place. Answers false where the band's change was cut short.
    async fn copy_band(&self, index: usize, band: u32, to: &Slab) -> Result<bool, IoError> {
        let row: &Arc<crate::row::Row> = self;
        let _turn = row.shared_turn(band).await;
        if row.bands().lock().torn.contains_key(&band) {
            return Ok(false);
        }
        for (rows, piece) in row.pieces_of(index, band) {
            let bytes = row.load_pieces(rows, 1 << piece).await?.take(piece).freeze();
            let offset = row.bands().geometry.offset(rows.stripe, rows.within, rows.place);
            to.disk.write(to.at(offset), bytes, Durability::Cached).await?;
        }
        Ok(true)
    }
}
