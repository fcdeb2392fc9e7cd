//! A chunk gets another row: of another shape, or on other disks. Requests go on meanwhile.
//!
//! The new row is filled as [`crate::movement`] has it, and takes the old one's place with one change of the pool.
//!
//! Invariants: until that one change the old row alone counts, and it gets every write; the new one is in nobody's map,
//! so a crash or an error leaves nothing behind. With the change everything that was answered before is durable in the
//! new row. The units of either stay taken as long as a request may still be on its way to them.

use std::sync::Arc;

use holdfast_device::{Durability, IoBuf, IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;
use holdfast_pool::{FreedRow, RowRecord};

use crate::block_set::BlockSet;
use crate::lock_order::join_all;
use crate::movement::{Copying, PIECES, cut};
use crate::pace::{Ended, Pace};
use crate::row::{Row, RowBody};
use crate::row_table::UsedRow;
use crate::space::Inner;
use crate::stripe::{ChunkPart, segments};

/// How often a row is begun anew because one of its disks went out.
const TRIES: u32 = 5;

/// The blocks of a request to a row, which notes them as changed when the request is over, whatever became of it.
pub struct Changing<'a> {
    row: &'a Row,
    start: u32,
    end: u32,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if let Some(changed) = self.row.changed().as_mut() {
            changed.insert(self.start, self.end);
        }
    }
}

impl Row {
    /// To be held during a request that changes a part of the row's chunk.
    pub fn changing(&self, part: &ChunkPart) -> Changing<'_> {
        let start = (part.offset / BLOCK_BYTES) as u32;
        Changing { row: self, start, end: start + (part.len as u64 / BLOCK_BYTES) as u32 }
    }

    /// Of the chunk's blocks in a range, the runs that hold data.
    pub fn data_runs(&self, start: u32, end: u32) -> BlockSet {
        let mut held = BlockSet::new(end);
        if let RowBody::Bands(_) = self.body {
            for (from, to, holds) in self.held_runs(start, end) {
                if holds {
                    held.insert(from, to);
                }
            }
            return held;
        }
        for segment in
            segments(self.shape(), u64::from(start) * BLOCK_BYTES, ((end - start) as usize) * BLOCK_BYTES as usize)
        {
            let first = start + (segment.at as u64 / BLOCK_BYTES) as u32;
            let from = (segment.offset / BLOCK_BYTES) as u32;
            let len = (segment.len as u64 / BLOCK_BYTES) as u32;
            let state = self.columns()[segment.column].lock();
            for (run, run_end) in state.written.runs(from, from + len) {
                held.insert(first + run - from, first + run_end - from);
            }
        }
        held
    }
}

/// A row that is being copied, and the provisional one that is to take its place.
struct Move<'a> {
    space: &'a Inner,
    old: &'a UsedRow,
    new: Arc<Row>,
    placed: bool,
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        *self.old.changed() = None;
        self.space.rows.provisional().retain(|row| !Arc::ptr_eq(row, &self.new));
        if !self.placed {
            self.space.parity.forget_waiting(&self.new);
            self.space.rows.forget_touched(&self.new);
        }
    }
}

impl Inner {
    /// Moves a chunk to a row of the space's present shape that has no slab on the disks of `without`.
    pub async fn relocate(&self, chunk: u32, without: &[u16], pace: &dyn Pace) -> Result<(), Ended> {
        let _claim = self.claim(chunk, pace).await?;
        for _ in 0..TRIES {
            let Some(old) = self.row_if_any(chunk).await? else { return Ok(()) };
            if self.relocate_row(&old, without, pace).await? {
                return Ok(());
            }
        }
        let why = format!("chunk {chunk} of space {}: disks went out while it was moved", self.path());
        Err(IoError::new(IoErrorKind::Gone, why).into())
    }

    /// Answers false where a disk of the new row went out, or took no writes.
    async fn relocate_row(&self, old: &UsedRow, without: &[u16], pace: &dyn Pace) -> Result<bool, Ended> {
        let (record, units) = self.reserve(without, pace).await?;
        old.open_columns().await?;
        let new = Row::fresh(&self.rows.context, old.chunk, record)?;
        new.hold_freed([units]);
        let outages: Vec<_> = new.slabs.iter().map(|slab| (slab.disk.clone(), slab.disk.outages())).collect();
        new.begin_provisional(old.record.id);
        let blocks = (self.record.chunk_bytes / BLOCK_BYTES) as u32;
        *old.changed() = Some(BlockSet::new(blocks));
        self.rows.provisional().push(new.clone());
        let mut under_way = Move { space: self, old, new: new.clone(), placed: false };
        if new.ensure_headers().await.is_err() {
            return Ok(false);
        }
        let Some(gate) = self.copy_behind_gate(old, &under_way, pace).await? else { return Ok(false) };
        // It has its headers and maps since before the first copy.
        let record = RowRecord { begun: true, ..new.record.clone() };
        let moved = self.pool.move_row(self.record.id, old.chunk, &record, outages).await.map_err(IoError::from)?;
        let Some(freed) = moved else { return Ok(false) };
        under_way.placed = true;
        new.take_freed().into_iter().for_each(FreedRow::keep);
        new.refresh();
        new.renew_headers();
        self.rows.take_place(gate, old, &new);
        if let RowBody::Bands(bands) = &old.body {
            bands.forget();
        }
        // In this order: at any time the headers of one of the two say that it counts. Where they cannot be written,
        // the next write does.
        if new.ensure_headers().await.is_ok() {
            old.write_off().await;
        }
        old.hold_freed([freed]);
        Ok(true)
    }

    /// Makes everything that a provisional row was given durable. Answers whether all its slabs have it.
    async fn settle_row(&self, row: &Arc<Row>) -> bool {
        let settled = async {
            if let RowBody::Bands(_) = row.body {
                self.parity.place_row(row).await?;
                return self.parity.commit_row(row).await;
            }
            self.flush_row(row).await
        };
        let done = settled.await.is_ok() && row.whole();
        done && row.is_durable()
    }
}

impl Copying for Move<'_> {
    // Until the one who uses the row is done, be it paused.
    const GATE_TRIES: u32 = u32::MAX;

    fn everything(&self) -> BlockSet {
        self.old.data_runs(0, self.blocks())
    }

    fn take_changed(&self) -> BlockSet {
        self.old.take_changed(self.blocks())
    }

    fn bytes(&self, todo: &BlockSet) -> u64 {
        u64::from(todo.count()) * BLOCK_BYTES
    }

    async fn copy(&self, todo: &BlockSet, again: bool, pace: &dyn Pace) -> Result<bool, Ended> {
        let pieces = cut(todo.runs(0, todo.limit()));
        for pieces in pieces.chunks(PIECES) {
            let bytes = pieces.iter().map(|(start, end)| u64::from(end - start) * BLOCK_BYTES).sum();
            pace.step(bytes).await?;
            for copied in join_all(pieces.iter().map(|(start, end)| self.copy_piece(*start, *end, again))).await {
                if !copied? {
                    return Ok(false);
                }
            }
            if !again {
                pace.done(bytes);
            }
        }
        Ok(true)
    }

    async fn settle(&self) -> Result<bool, IoError> {
        self.space.parity.place_row(self.old).await?;
        Ok(self.space.settle_row(&self.new).await)
    }

    async fn settle_source(&self) -> Result<bool, IoError> {
        self.space.parity.place_row(self.old).await?;
        Ok(self.old.bands_if_any().is_none_or(|bands| bands.lock().dirty.is_empty()))
    }

    async fn settle_copy(&self) -> Result<bool, IoError> {
        Ok(self.space.settle_row(&self.new).await)
    }
}

impl Move<'_> {
    /// Blocks of the chunk.
    fn blocks(&self) -> u32 {
        (self.space.record.chunk_bytes / BLOCK_BYTES) as u32
    }

    /// Copies a piece. With `again` what holds nothing any more is emptied. Answers false where the new row took no
    /// write.
    async fn copy_piece(&self, start: u32, end: u32, again: bool) -> Result<bool, IoError> {
        let part = |(from, to): (u32, u32)| ChunkPart {
            chunk: self.old.chunk,
            offset: u64::from(from) * BLOCK_BYTES,
            at: 0,
            len: ((to - from) as u64 * BLOCK_BYTES) as usize,
        };
        let held = self.old.data_runs(start, end);
        for run in held.runs(start, end) {
            let part = part(run);
            let data = self.space.read_row(self.old, &part, IoBuf::new(part.len)).await?;
            if self.space.write_row(&self.new, &part, &data.freeze(), None, Durability::Cached).await.is_err() {
                return Ok(false);
            }
        }
        if again {
            for gap in held.gaps(start, end) {
                if self.space.zero_part(&self.new, &part(gap), Durability::Cached).await.is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
