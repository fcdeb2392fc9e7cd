//! Each copy of a range by itself, and all of them brought to what the caller says is right.
//!
//! | layout | copy 0 | copy 1 | copy 2 |
//! | --- | --- | --- | --- |
//! | simple | the block | | |
//! | mirror | of the first slab | of the second | of the third |
//! | parity | the block | computed from the other columns and P | with dual parity: from the other columns and Q |
//!
//! Invariants:
//! - A copy is read while nobody writes its blocks, and compared with its checksum, so that one which is not as that
//!   says is wrong.
//! - Reading a copy repairs nothing but what a crash left open: regions that are dirty since then are brought in step
//!   first, as for any read.
//! - No parity serves two copies, so that copies which agree do so by different bytes. What only memory or the journal
//!   has is in all alike.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdfast_device::{Copies, Durability, Io, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::{BLOCK_BYTES, Layout, Shape};

use crate::boxed_cold::boxed_cold;
use crate::checksums::Check;
use crate::column::Blocks;
use crate::lock_order::branch;
use crate::parity::clear;
use crate::row::Row;
use crate::slab::Slab;
use crate::space::{Inner, Space};
use crate::stripe::{ChunkPart, Segment, chunk_parts, segments};
use crate::write::WriteTurn;

/// How many copies a block of a row of this shape has.
fn copies_of(shape: &Shape) -> usize {
    match shape.layout {
        Layout::Parity { parity } => 1 + usize::from(parity),
        layout => layout.copies().into(),
    }
}

impl Copies for Space {
    fn copies(&self, offset: u64, len: u64) -> usize {
        let inner = &self.inner;
        let of_chunk = |part: ChunkPart| copies_of(&inner.shape_of(part.chunk));
        chunk_parts(inner.record.chunk_bytes, offset, len).map(of_chunk).min().unwrap_or(1)
    }

    fn read_copy(&self, n: usize, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        let in_flight_guard = self.inner.in_flight.enter();
        if let Err(error) = self.inner.check(offset, buf.len() as u64) {
            return Io::ready(Err(error));
        }
        let inner = self.inner.clone();
        Io::eager(branch(async move {
            let _in_flight_guard = in_flight_guard;
            inner.read_copy(n, offset, buf).await
        }))
    }

    fn rewrite(&self, offset: u64, data: IoSlice) -> Io<()> {
        let in_flight_guard = self.inner.in_flight.enter();
        if let Err(error) = self.inner.check(offset, data.len() as u64).and_then(|()| self.inner.check_writable()) {
            return Io::ready(Err(error));
        }
        let inner = self.inner.clone();
        inner.counters.writes.add(data.len());
        Io::eager(branch(async move {
            let _in_flight_guard = in_flight_guard;
            inner.rewrite(offset, data).await
        }))
    }
}

impl Inner {
    /// The shape of a chunk's row, or the one that it would get.
    pub fn shape_of(&self, chunk: u32) -> Shape {
        let row = self.pool.row(self.record.id, chunk).map(|row| row.shape);
        row.or_else(|| self.pool.space(self.record.id).map(|space| space.shape)).unwrap_or(self.record.shape)
    }

    async fn read_copy(&self, n: usize, offset: u64, mut buf: IoBuf) -> Result<IoBuf, IoError> {
        self.parity.ready().await?;
        for part in chunk_parts(self.record.chunk_bytes, offset, buf.len() as u64) {
            let row = self.row(part.chunk).await?;
            let shape = row.as_ref().map_or_else(|| self.shape_of(part.chunk), |row| *row.shape());
            if n >= copies_of(&shape) {
                return Err(IoError::invalid(format!("space {}: chunk {} has no copy {n}", self.path(), part.chunk)));
            }
            let into = &mut buf[part.at..part.at + part.len];
            match row {
                None => into.fill(0),
                Some(row) if row.bands_if_any().is_some() => {
                    boxed_cold(self.parity.read_bands_copy(&row, n, &part, into)).await?
                }
                Some(row) => {
                    for segment in segments(row.shape(), part.offset, part.len) {
                        let into = &mut into[segment.at..segment.at + segment.len];
                        boxed_cold(row.read_segment_copy(n, &segment, into)).await?;
                    }
                }
            }
        }
        Ok(buf)
    }

    async fn rewrite(&self, offset: u64, data: IoSlice) -> Result<(), IoError> {
        self.parity.ready().await?;
        for part in chunk_parts(self.record.chunk_bytes, offset, data.len() as u64) {
            let row = self.row_for_write(part.chunk).await?;
            let _changing = row.changing(&part);
            if row.bands_if_any().is_none() {
                // A write goes to every copy, whatever that holds.
                self.write_row(&row, &part, &data, None, Durability::Durable).await?;
                continue;
            }
            row.ensure_headers().await?;
            boxed_cold(self.parity.rewrite_bands(&row, &part, data.slice(part.at, part.len))).await?;
        }
        Ok(())
    }
}

impl Row {
    /// Waits until nobody writes blocks of a column whose copies agree.
    async fn settled_turn(&self, column: usize, blocks: Blocks) -> Result<WriteTurn<'_>, IoError> {
        let regions = blocks.regions();
        loop {
            let turn = self.turn(column, blocks).await;
            if !self.columns()[column].lock().unsynced.contains_any(regions.start, regions.end) {
                return Ok(turn);
            }
            drop(turn);
            self.resync(column, regions).await?;
        }
    }

    async fn read_segment_copy(&self, n: usize, segment: &Segment, into: &mut [u8]) -> Result<(), IoError> {
        let blocks = Blocks::of(segment.offset, segment.len);
        self.open_column(segment.column).await?;
        let _turn = self.settled_turn(segment.column, blocks).await?;
        let holes: Vec<(u32, u32)> = {
            let state = self.columns()[segment.column].lock();
            let gaps = state.written.gaps(blocks.start, blocks.end);
            gaps.map(|(from, to)| (from - blocks.start, to - blocks.start)).collect()
        };
        if holes.first() == Some(&(0, blocks.end - blocks.start)) {
            into.fill(0);
            return Ok(());
        }
        let index = segment.column * self.copies() + n;
        let data = self.read_from(index, segment.offset, blocks.start, segment.len, &holes).await?;
        into.copy_from_slice(&data);
        Ok(())
    }

    /// Reads blocks of one slab in step, `first` the first of them, that are as their checksums say. The turn of the
    /// blocks must be held.
    pub async fn read_from(
        &self,
        index: usize,
        offset: u64,
        first: u32,
        len: usize,
        holes: &[(u32, u32)],
    ) -> Result<IoBuf, IoError> {
        let slab = self.slabs.get(index);
        if !slab.usable() {
            return Err(self.out_of_step(&slab));
        }
        let read = {
            let _under_way = slab.disk.enter();
            slab.disk.read(slab.at(offset), IoBuf::new(len)).await
        };
        let mut data = match read {
            Ok(data) => data,
            Err(error) => {
                self.read_failed(&slab, &error).await;
                return Err(error);
            }
        };
        if self.check_sums(index, first, &data, holes).await? != Check::Right {
            slab.disk.counters.checksum_errors.fetch_add(1, Ordering::Relaxed);
            return Err(self.copy_not_as_summed(offset, &slab));
        }
        if !slab.usable() {
            return Err(self.out_of_step(&slab));
        }
        clear(&mut data, holes);
        Ok(data)
    }

    fn out_of_step(&self, slab: &Arc<Slab>) -> IoError {
        let kind = if slab.disk.in_service() { IoErrorKind::Stale } else { IoErrorKind::Gone };
        IoError::new(
            kind,
            format!("the copy on disk {} is out of step: {}", self.pool.disk_label(slab.disk.index), self.part()),
        )
    }

    fn copy_not_as_summed(&self, offset: u64, slab: &Arc<Slab>) -> IoError {
        let block = offset / BLOCK_BYTES;
        let disk = self.pool.disk_label(slab.disk.index);
        let what = format!("the copy on disk {disk} of blocks from {block} of its slab is not as their checksums say");
        IoError::new(IoErrorKind::Media, format!("{what}: {}", self.part()))
    }
}
