//! Hints from above: ranges that stay marked dirty while it is open, since they are written all the
//! time.
//!
//! Invariant: a kept region is treated as one that is written again and again. So its mark is right after a crash, and
//! costs no more than that it is compared then; a space that is closed in good order has none.

use holdfast_device::{Hints, Io, IoError};

use crate::block_map::REGION_BLOCKS;
use crate::block_set::BlockSet;
use crate::column::Blocks;
use crate::lock_order::branch;
use crate::row::Row;
use crate::space::{Inner, Space};
use crate::stripe::{chunk_parts, segments};

impl Hints for Space {
    fn keep_marked(&self, offset: u64, len: u64, keep: bool) -> Io<()> {
        let in_flight_guard = self.inner.in_flight.enter();
        if let Err(error) = self.inner.check(offset, len).and_then(|()| self.inner.check_writable()) {
            return Io::ready(Err(error));
        }
        let inner = self.inner.clone();
        Io::eager(branch(async move {
            let _in_flight_guard = in_flight_guard;
            inner.kept_marked.set(offset..offset + len, keep);
            if keep { inner.mark(offset, len).await } else { Ok(()) }
        }))
    }
}

impl Inner {
    /// Marks the regions of a range dirty, in rows that are there and mark anything at all.
    async fn mark(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.parity.ready().await?;
        for part in chunk_parts(self.record.chunk_bytes, offset, len) {
            let Some(row) = self.row_if_any(part.chunk).await?.filter(|row| row.marks()) else { continue };
            row.ensure_headers().await?;
            for segment in segments(row.shape(), part.offset, part.len) {
                let blocks = Blocks::of(segment.offset, segment.len);
                drop(row.write_turn(segment.column, blocks).await?);
            }
        }
        Ok(())
    }

    /// For each column of a row, the regions that stay marked; none at all where nothing of the row does.
    pub fn kept_regions(&self, row: &Row) -> Vec<BlockSet> {
        let chunk_bytes = self.record.chunk_bytes;
        let first = u64::from(row.chunk) * chunk_bytes;
        let kept = self.kept_marked.within(&(first..first + chunk_bytes));
        if kept.is_empty() {
            return Vec::new();
        }
        let regions = |column: &crate::column::Column| BlockSet::new(column.lock().blocks().div_ceil(REGION_BLOCKS));
        let mut found: Vec<BlockSet> = row.columns().iter().map(regions).collect();
        for part in kept {
            for segment in segments(row.shape(), part.start - first, (part.end - part.start) as usize) {
                if let Some(found) = found.get_mut(segment.column) {
                    let regions = Blocks::of(segment.offset, segment.len).regions();
                    found.insert(regions.start, regions.end);
                }
            }
        }
        found
    }
}
