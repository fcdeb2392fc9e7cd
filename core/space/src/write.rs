//! Writes: every copy that takes writes gets the same bytes from the same memory, and the answer comes when all have
//! them, or when those that failed are recorded as stale.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use arc_swap::Guard;
use holdfast_device::{Durability, Io, IoError, IoErrorKind, IoSlice};
use smallvec::SmallVec;

use crate::boxed_cold::boxed_cold;
use crate::checksums::sums_of;
use crate::column::Blocks;
use crate::integrity::sums_within;
use crate::lock_order::join_all;
use crate::row::{Row, RowBody};
use crate::row_table::RowTable;
use crate::slab::Slab;
use crate::space::Inner;
use crate::stripe::{ChunkPart, Segment, chunk_parts, only_segment, segments};

/// The slabs of one column, by their index in the row, that took a write.
type Took = SmallVec<[usize; 3]>;
/// A write to a slab.
type Begun = (usize, Guard<Arc<Slab>>, Io<()>);
/// The writes of all copies.
type Copies = SmallVec<[Begun; 3]>;

/// The right to change blocks of a column: nobody else writes them, and their regions count as being written.
pub struct WriteTurn<'a> {
    row: &'a Row,
    column: usize,
    id: u64,
    blocks: Blocks,
    regions: Option<Blocks>,
    /// Whether a write of the blocks began and nobody knows yet how it ended.
    unsure: bool,
}

impl WriteTurn<'_> {
    /// A write of the blocks begins: if nobody waits for its end, their regions are looked at as after a crash.
    fn begin(&mut self) {
        self.unsure = true;
    }

    /// It is over, and what failed is dealt with.
    fn end(&mut self) {
        self.unsure = false;
    }
}

impl Drop for WriteTurn<'_> {
    fn drop(&mut self) {
        if let (true, Some(checksums)) = (self.unsure, &self.row.checksums) {
            checksums.forget(self.column, self.blocks);
        }
        let mut state = self.row.columns()[self.column].lock();
        if let Some(regions) = self.regions {
            if self.unsure && self.row.marks() {
                state.tear(regions);
            }
            state.end(regions);
        }
        state.queue.leave(self.id);
    }
}

impl Row {
    /// Waits for the right to change blocks of a column.
    pub async fn turn(&self, column: usize, blocks: Blocks) -> WriteTurn<'_> {
        let (id, granted) = self.columns()[column].lock().queue.enter(blocks.start, blocks.end);
        let turn = WriteTurn { row: self, column, id, blocks, regions: None, unsure: false };
        if !granted {
            self.columns()[column].granted(id).await;
        }
        turn
    }

    /// As [`Row::turn`], with the regions marked dirty on every copy.
    pub async fn write_turn(&self, column: usize, blocks: Blocks) -> Result<WriteTurn<'_>, IoError> {
        self.open_column(column).await?;
        let mut turn = self.turn(column, blocks).await;
        let regions = blocks.regions();
        loop {
            {
                let mut state = self.columns()[column].lock();
                if !self.marks() || state.marked.contains_all(regions.start, regions.end) {
                    state.begin(regions);
                    turn.regions = Some(regions);
                    return Ok(turn);
                }
            }
            boxed_cold(self.mark_dirty(column, regions)).await?;
        }
    }

    /// Writes `data` to every copy of a column that takes writes. The column must be settled.
    async fn write_copies(
        &self,
        column: usize,
        offset: u64,
        data: &IoSlice,
        durability: Durability,
    ) -> Result<(), IoError> {
        let took = match self.begin_copies(column, offset, data, durability) {
            Ok(took) => took,
            Err(waiting) => waiting.await?,
        };
        self.confirm(column, &took).await
    }

    /// Begins the writes of all copies. Answers which slabs took it if all did so at once, or else who waits for those
    /// under way.
    fn begin_copies(
        &self,
        column: usize,
        offset: u64,
        data: &IoSlice,
        durability: Durability,
    ) -> Result<Took, Pin<Box<impl Future<Output = Result<Took, IoError>>>>> {
        let targets = self.copies_of(column).filter(|(_, slab)| slab.takes_writes());
        let begun: Copies = targets
            .map(|(index, slab)| {
                let write = slab.disk.write(slab.at(offset), data.clone(), durability);
                (index, slab, write)
            })
            .collect();
        if !begun.iter().all(|(_, _, write)| matches!(write, Io::Ready(Some(Ok(()))))) {
            return Err(boxed_cold(self.await_copies(begun, durability)));
        }
        if durability == Durability::Cached {
            begun.iter().for_each(|(_, slab, _)| slab.disk.note_written());
        }
        Ok(begun.iter().map(|(index, ..)| *index).collect())
    }

    /// Waits for the writes of copies, and records those that failed. Answers which slabs took it.
    async fn await_copies(&self, mut begun: Copies, durability: Durability) -> Result<Took, IoError> {
        answered(&mut begun).await;
        let mut took = Took::new();
        for (index, slab, write) in begun {
            match write.await {
                Ok(()) => {
                    if durability == Durability::Cached {
                        slab.disk.note_written();
                    }
                    took.push(index);
                }
                Err(error) => self.write_failed(index, &slab, &error).await?,
            }
        }
        Ok(took)
    }
}

/// Waits until all of them are answered. They are polled side by side, so that each disk is timed on its own.
async fn answered(begun: &mut Copies) {
    poll_fn(|cx| {
        let mut all = Poll::Ready(());
        for (.., write) in begun.iter_mut().filter(|(.., write)| !matches!(write, Io::Ready(_))) {
            match Pin::new(&mut *write).poll(cx) {
                Poll::Ready(result) => *write = Io::ready(result),
                Poll::Pending => all = Poll::Pending,
            }
        }
        all
    })
    .await;
}

impl Inner {
    /// Writes `data` at `offset`, part by part. The checksums of its blocks may be `given`.
    // An `async fn` would keep its arguments twice, and a request is to be small.
    pub fn write(
        &self,
        offset: u64,
        data: IoSlice,
        given: Option<&[u32]>,
        durability: Durability,
    ) -> impl Future<Output = Result<(), IoError>> {
        let parts = chunk_parts(self.record.chunk_bytes, offset, data.len() as u64);
        async move {
            self.parity.ready().await?;
            for part in parts {
                let row = self.row_for_write(part.chunk).await?;
                let _changing = row.changing(&part);
                self.write_row(&row, &part, &data, given, durability).await?;
            }
            if self.rows.context.checksums.is_pressed()
                && let Err(error) = boxed_cold(self.relieve_sums()).await
            {
                // It is another row's; its flush or maintenance reports it.
                tracing::warn!(space = %self.path(), %error, "checksums cannot be written");
            }
            Ok(())
        }
    }

    /// Writes the part of `data` that a part of a row is to hold.
    pub async fn write_row(
        &self,
        row: &Arc<Row>,
        part: &ChunkPart,
        data: &IoSlice,
        given: Option<&[u32]>,
        durability: Durability,
    ) -> Result<(), IoError> {
        row.ensure_headers().await?;
        if let RowBody::Bands(_) = row.body {
            let data = data.slice(part.at, part.len);
            given.map_or(Ok(()), |given| self.compare_given(&data, sums_within(given, part.at, part.len)))?;
            return boxed_cold(self.parity.enter(row, part, Some(data), durability)).await;
        }
        let write = |segment: &Segment| {
            let (at, len) = (part.at + segment.at, segment.len);
            self.rows.write_segment(
                row,
                *segment,
                data.slice(at, len),
                given.map(|given| sums_within(given, at, len)),
                durability,
            )
        };
        if let Some(segment) = only_segment(row.shape(), part) {
            return write(&segment).await;
        }
        let cut: Vec<Segment> = segments(row.shape(), part.offset, part.len).collect();
        boxed_cold(join_all(cut.iter().map(write))).await.into_iter().collect()
    }
}

impl RowTable {
    /// Writes `data` to a segment of a row without parity. The checksums of its blocks may be `given`.
    // See `write`.
    pub fn write_segment(
        &self,
        row: &Arc<Row>,
        segment: Segment,
        data: IoSlice,
        given: Option<&[u32]>,
        durability: Durability,
    ) -> impl Future<Output = Result<(), IoError>> {
        let (Segment { column, offset, .. }, durable) = (segment, durability == Durability::Durable);
        let blocks = Blocks::of(segment.offset, segment.len);
        async move {
            let mut turn = row.write_turn(column, blocks).await?;
            let computed = || sums_of(&data).collect::<SmallVec<[u32; 4]>>();
            let checksums = row.checksums.as_ref().map(|all| (all, given.map_or_else(computed, SmallVec::from_slice)));
            let mut tries = 0;
            // What no disk is there to take leaves everything as it is.
            row.settle_column(column).await?;
            turn.begin();
            while let Err(error) = row.write_copies(column, offset, &data, durability).await {
                tries += 1;
                let hopeless = error.kind != IoErrorKind::Media || tries > 2;
                if hopeless || boxed_cold(row.settle_column(column)).await.is_err() {
                    return Err(error);
                }
            }
            if let Some((checksums, known)) = &checksums {
                checksums.note_from(column, blocks.start, known, given.is_some());
            }
            turn.end();
            let maps_behind = row.columns()[column].lock().note_written(blocks, durable);
            if !durable {
                self.touch(row);
            }
            drop(turn);
            if maps_behind {
                boxed_cold(row.write_maps(column)).await?;
            }
            Ok(())
        }
    }
}
