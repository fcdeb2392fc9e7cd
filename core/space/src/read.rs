//! Reads: from the copy that serves soonest, and from another where one fails; what failed is rewritten from a good
//! copy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::Guard;
use holdfast_device::{Durability, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::{BLOCK_BYTES, DiskState};

use crate::block_map::REGION_BYTES;
use crate::boxed_cold::boxed_cold;
use crate::checksums::Check;
use crate::column::Blocks;
use crate::lock_order::join_all;
use crate::parity::clear;
use crate::row::{Row, RowBody};
use crate::slab::Slab;
use crate::space::Inner;
use crate::stripe::{ChunkPart, Segment, chunk_parts, segments};

/// A rotating disk keeps a sequential stream until so many more requests wait there than elsewhere.
const STREAM_PATIENCE: u32 = 32;

/// A copy of a column: its index in the row, and its slab.
type Copy = (usize, Guard<Arc<Slab>>);

impl Row {
    /// The copy of a column to read from: the one with the fewest requests under way; among equals, on rotating media,
    /// the one whose head is nearest; else neighbouring regions go to different copies.
    pub fn choose_copy(&self, column: usize, offset: u64, without: &[usize]) -> Option<Copy> {
        let mut best: Option<(Copy, (u32, u64))> = None;
        for (index, slab) in self.copies_of(column) {
            if !slab.usable() || without.contains(&index) {
                continue;
            }
            let at = slab.at(offset);
            let waiting = slab.disk.in_flight();
            let rotational = slab.rotates();
            let distance = if rotational {
                slab.disk.head().abs_diff(at)
            } else {
                (index as u64 + offset / REGION_BYTES) % self.copies() as u64
            };
            let stream = rotational && distance == 0;
            let cost = (if stream { waiting.saturating_sub(STREAM_PATIENCE) } else { waiting }, distance);
            if best.as_ref().is_none_or(|(_, known)| cost < *known) {
                best = Some(((index, slab), cost));
            }
        }
        best.map(|(copy, _)| copy)
    }

    /// Reads a range of a column that holds data throughout or in part.
    pub async fn read_column(&self, column: usize, offset: u64, mut buf: IoBuf) -> Result<IoBuf, IoError> {
        let len = buf.len();
        let mut failed: Vec<usize> = Vec::new();
        let mut first_error = None;
        loop {
            let Some((index, slab)) = self.choose_copy(column, offset, &failed) else {
                match first_error {
                    Some(error) => return Err(error),
                    None => boxed_cold(self.settle_column(column)).await?,
                }
                continue;
            };
            let under_way = slab.disk.enter();
            let result = slab.disk.read(slab.at(offset), buf).await;
            drop(under_way);
            match result {
                Ok(buf) => {
                    if !failed.is_empty() {
                        boxed_cold(self.repair(column, offset, len, &failed)).await;
                    }
                    return Ok(buf);
                }
                Err(error) => {
                    boxed_cold(self.read_failed(&slab, &error)).await;
                    failed.push(index);
                    first_error.get_or_insert(error);
                    buf = IoBuf::new(len);
                }
            }
        }
    }

    /// Takes a disk that is away out. Where the pool cannot write that down it takes no changes any more, and reads go
    /// on.
    pub async fn read_failed(&self, slab: &Slab, error: &IoError) {
        let disk = &slab.disk;
        disk.counters.read_errors.fetch_add(1, Ordering::Relaxed);
        if error.kind == IoErrorKind::Gone {
            let _ = self.pool.disk_out(disk.index, DiskState::Missing, &error.to_string()).await;
            self.refresh();
        }
    }

    /// Rewrites a range that could not be read on some copies from one that could.
    async fn repair(&self, column: usize, offset: u64, len: usize, failed: &[usize]) {
        let turn = self.turn(column, Blocks::of(offset, len)).await;
        if self.checksums.is_some() {
            let _ = self.right_blocks(column, Blocks::of(offset, len)).await;
            return;
        }
        for index in failed.iter().copied().filter(|index| self.slabs.get(*index).usable()) {
            let Some((_, good)) = self.choose_copy(column, offset, failed) else { break };
            let Ok(data) = good.disk.read(good.at(offset), IoBuf::new(len)).await else { break };
            self.rewrite_failed(index, offset, data.freeze()).await;
        }
        drop(turn);
    }

    /// Rewrites what a slab could not read or held wrong, and tells so.
    pub async fn rewrite_failed(&self, index: usize, offset: u64, data: IoSlice) {
        let blocks = data.len() as u64 / BLOCK_BYTES;
        if let Ok(true) = self.rewrite(index, offset, data).await {
            self.repairs.note(&self.pool, &self.path(), self.slabs.get(index).disk.index, blocks);
        }
    }

    /// Writes what a slab should hold already, and counts that. Answers whether it took it.
    pub async fn rewrite(&self, index: usize, offset: u64, data: IoSlice) -> Result<bool, IoError> {
        let took = self.write_durably(index, offset, data).await?;
        if took {
            self.slabs.get(index).disk.counters.repaired.fetch_add(1, Ordering::Relaxed);
        }
        Ok(took)
    }

    /// Writes to one slab, durably. Answers whether it took it; one that does not is dealt with as after any write.
    pub async fn write_durably(&self, index: usize, offset: u64, data: IoSlice) -> Result<bool, IoError> {
        let slab = self.slabs.get(index);
        match slab.disk.write(slab.at(offset), data, Durability::Durable).await {
            Ok(()) => Ok(true),
            Err(error) => self.write_failed(index, &slab, &error).await.map(|()| false),
        }
    }
}

/// Puts the pieces of a read together: by joining, or by a copy where one was read anew after an error.
pub fn gather(pieces: Vec<IoBuf>, len: usize) -> IoBuf {
    let mut pieces = pieces.into_iter();
    let mut whole = pieces.next().expect("a read has a piece");
    while let Some(piece) = pieces.next() {
        if let Err(piece) = whole.try_join(piece) {
            let mut copy = IoBuf::new(len);
            let mut at = 0;
            for piece in [whole, piece].into_iter().chain(pieces) {
                copy[at..at + piece.len()].copy_from_slice(&piece);
                at += piece.len();
            }
            return copy;
        }
    }
    whole
}

impl Inner {
    /// Fills `buf` from `offset`.
    pub async fn read(&self, offset: u64, mut buf: IoBuf) -> Result<IoBuf, IoError> {
        self.parity.ready().await?;
        let mut parts = chunk_parts(self.record.chunk_bytes, offset, buf.len() as u64);
        let first = parts.next().expect("a request is not empty");
        if first.len == buf.len() {
            return self.read_part(&first, buf).await;
        }
        let len = buf.len();
        let mut pieces = Vec::new();
        for part in std::iter::once(first).chain(parts) {
            pieces.push(boxed_cold(self.read_part(&part, buf.split_to(part.len))).await?);
        }
        Ok(gather(pieces, len))
    }

    async fn read_part(&self, part: &ChunkPart, mut buf: IoBuf) -> Result<IoBuf, IoError> {
        let Some(row) = self.row(part.chunk).await? else {
            buf.fill(0);
            return Ok(buf);
        };
        self.read_row(&row, part, buf).await
    }

    /// Fills `buf` from a part of a row.
    pub async fn read_row(&self, row: &Arc<Row>, part: &ChunkPart, mut buf: IoBuf) -> Result<IoBuf, IoError> {
        if let RowBody::Bands(_) = row.body {
            return boxed_cold(self.parity.read_bands(row, part, buf)).await;
        }
        let mut cut = segments(row.shape(), part.offset, part.len);
        let first = cut.next().expect("a part is not empty");
        if first.len == part.len {
            return row.read_segment(&first, buf).await;
        }
        let pieces: Vec<(Segment, IoBuf)> =
            std::iter::once(first).chain(cut).map(|segment| (segment, buf.split_to(segment.len))).collect();
        let reads = pieces.into_iter().map(|(segment, piece)| async move { row.read_segment(&segment, piece).await });
        let pieces = boxed_cold(join_all(reads)).await.into_iter().collect::<Result<Vec<IoBuf>, IoError>>()?;
        Ok(gather(pieces, part.len))
    }
}

impl Row {
    /// Fills `buf` from a segment of a row without parity.
    pub async fn read_segment(&self, segment: &Segment, mut buf: IoBuf) -> Result<IoBuf, IoError> {
        let blocks = Blocks::of(segment.offset, segment.len);
        let Blocks { start, end } = blocks;
        self.open_column(segment.column).await?;
        let (held, unsynced) = {
            let state = self.columns()[segment.column].lock();
            let regions = blocks.regions();
            (state.written.count_in(start, end), state.unsynced.contains_any(regions.start, regions.end))
        };
        if held == 0 {
            buf.fill(0);
            return Ok(buf);
        }
        if unsynced {
            boxed_cold(self.resync(segment.column, blocks.regions())).await?;
        }
        let holes: Vec<(u32, u32)> = if held == end - start {
            Vec::new()
        } else {
            let state = self.columns()[segment.column].lock();
            state.written.gaps(start, end).map(|(from, to)| (from - start, to - start)).collect()
        };
        let mut buf = self.read_column(segment.column, segment.offset, buf).await?;
        let slab = segment.column * self.copies();
        if self.check_sums(slab, start, &buf, &holes).await? != Check::Right {
            return boxed_cold(self.read_right(segment.column, blocks)).await;
        }
        clear(&mut buf, &holes);
        Ok(buf)
    }
}
