//! What of a space was written and what is a hole, from the block maps.

use holdfast_device::{Extent, ExtentKind, Io, IoError};
use holdfast_model::BLOCK_BYTES;

use crate::block_map::REGION_BLOCKS;
use crate::column::Blocks;
use crate::row::RowBody;
use crate::space::{Inner, Space};
use crate::stripe::{chunk_parts, segments};

impl Space {
    /// The kinds of bytes from `offset`, covering at most `len` bytes and at most `max` runs.
    pub fn extents(&self, offset: u64, len: u64, max: usize) -> Io<Vec<Extent>> {
        if let Err(error) = self.inner.check(offset, len) {
            return Io::ready(Err(error));
        }
        let inner = self.inner.clone();
        Io::eager(async move { inner.extents(offset, len, max).await })
    }

    /// For each column of a chunk's row the runs of blocks that hold data: what a check of its copies compares.
    pub async fn written_blocks(&self, chunk: u32) -> Result<Vec<Vec<(u32, u32)>>, IoError> {
        let row = self.inner.row(chunk).await?;
        let runs = |column: &crate::column::Column| {
            let state = column.lock();
            state.written.runs(0, state.blocks()).collect()
        };
        Ok(row.map(|row| row.columns().iter().map(runs).collect()).unwrap_or_default())
    }

    /// The same, but for regions that are marked dirty: corruption of these blocks is found by their checksums whenever
    /// it happens.
    pub async fn settled_blocks(&self, chunk: u32) -> Result<Vec<Vec<(u32, u32)>>, IoError> {
        let row = self.inner.row(chunk).await?;
        let runs = |column: &crate::column::Column| {
            let state = column.lock();
            let clean = state
                .marked
                .gaps(0, state.marked.limit())
                .map(|(start, end)| (start * REGION_BLOCKS, end * REGION_BLOCKS));
            clean.flat_map(|(start, end)| state.written.runs(start, end.min(state.blocks()))).collect()
        };
        Ok(row.map(|row| row.columns().iter().map(runs).collect()).unwrap_or_default())
    }
}

impl Inner {
    async fn extents(&self, offset: u64, len: u64, max: usize) -> Result<Vec<Extent>, IoError> {
        self.parity.ready().await?;
        let mut runs = Runs { found: Vec::new(), max: max.max(1) };
        let gap = if self.thin() { ExtentKind::Hole } else { ExtentKind::Zero };
        let chunk_bytes = self.record.chunk_bytes;
        let (mut at, end) = (offset, offset + len);
        'parts: while let Some(part) = chunk_parts(chunk_bytes, at, end - at).next() {
            let Some(row) = self.row(part.chunk).await? else {
                let next = self.next_chunk(part.chunk + 1).map_or(end, |chunk| end.min(u64::from(chunk) * chunk_bytes));
                if !runs.add(next - at, gap) {
                    break;
                }
                at = next;
                continue;
            };
            at += part.len as u64;
            if let RowBody::Bands(_) = row.body {
                let start = (part.offset / BLOCK_BYTES) as u32;
                let end = start + (part.len as u64 / BLOCK_BYTES) as u32;
                for (from, to, held) in row.held_runs(start, end) {
                    let kind = if held { ExtentKind::Data } else { gap };
                    if !runs.add(u64::from(to - from) * BLOCK_BYTES, kind) {
                        break 'parts;
                    }
                }
                continue;
            }
            for segment in segments(row.shape(), part.offset, part.len) {
                let Blocks { start, end } = Blocks::of(segment.offset, segment.len);
                row.open_column(segment.column).await?;
                let state = row.columns()[segment.column].lock();
                let mut at = start;
                while at < end {
                    let inside = state.written.contains(at);
                    let next = state.written.next(at, end, !inside).unwrap_or(end);
                    let kind = if inside { ExtentKind::Data } else { gap };
                    if !runs.add(u64::from(next - at) * BLOCK_BYTES, kind) {
                        break 'parts;
                    }
                    at = next;
                }
            }
        }
        Ok(runs.found)
    }
}

struct Runs {
    found: Vec<Extent>,
    max: usize,
}

impl Runs {
    /// Adds a run; false if there is no room for another.
    fn add(&mut self, len: u64, kind: ExtentKind) -> bool {
        if let Some(last) = self.found.last_mut()
            && last.kind == kind
        {
            last.len += len;
            return true;
        }
        let room = self.found.len() < self.max;
        if room {
            self.found.push(Extent { len, kind });
        }
        room
    }
}
