//! Hints of whoever uses the space: ranges that stay marked dirty while it is open, since they are written all the
//! time.
//!
//! Invariant: a kept region is treated as one that is written again and again. So its mark is right after a crash, and
//! costs no more than that it is compared then; a space that is closed in good order has none.

use std::ops::Range;
use std::sync::Mutex;

use holdfast_device::{Hints, Io, IoError};

use crate::block_map::REGION_BLOCKS;
use crate::block_set::BlockSet;
use crate::column::Blocks;
use crate::lock_order::branch;
use crate::row::Row;
use crate::space::{Inner, Space};
use crate::stripe::{chunk_parts, segments};

/// Ranges of a space whose regions stay marked.
#[derive(Default)]
pub struct KeptMarked(Mutex<Vec<Range<u64>>>);

impl KeptMarked {
    /// Adds or takes out a range.
    fn set(&self, range: Range<u64>, keep: bool) {
        let mut kept = self.0.lock().expect("no panic while held");
        let around =
            |known: &Range<u64>| [known.start..known.end.min(range.start), known.start.max(range.end)..known.end];
        *kept = kept.iter().flat_map(around).filter(|part| part.start < part.end).collect();
        if keep {
            kept.push(range);
        }
    }

    /// The parts of a range that are kept.
    fn within(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let kept = self.0.lock().expect("no panic while held");
        let parts = kept.iter().map(|known| known.start.max(range.start)..known.end.min(range.end));
        parts.filter(|part| part.start < part.end).collect()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_and_joined() {
        let kept = KeptMarked::default();
        kept.set(0..100, true);
        kept.set(40..60, false);
        assert_eq!(kept.within(&(10..90)), [10..40, 60..90]);
        kept.set(30..70, true);
        assert_eq!(kept.within(&(0..200)), [0..30, 70..100, 30..70]);
        kept.set(0..200, false);
        assert!(kept.within(&(0..200)).is_empty());
    }
}
