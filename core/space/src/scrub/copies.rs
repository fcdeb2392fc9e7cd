//! The copies of a mirror, compared.

use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::IoBuf;
use holdfast_model::BLOCK_BYTES;

use crate::block_map::{REGION_BLOCKS, REGION_BYTES};
use crate::column::Blocks;
use crate::pace::Ended;
use crate::row::Row;
use crate::stripe::offset_in_chunk;

use super::found::Mismatch;
use super::{STEP_BYTES, Scrub};

impl Scrub<'_> {
    /// Compares the copies of a row.
    pub(super) async fn copies(&mut self, row: &Arc<Row>) -> Result<(), Ended> {
        let copies = row.copies() as u64;
        let regions = (STEP_BYTES / (REGION_BYTES * copies)).max(1) as u32;
        for column in 0..row.columns.len() {
            let blocks = row.columns[column].lock().blocks();
            let mut start = 0;
            while start < blocks {
                let range = Blocks { start, end: (start + regions * REGION_BLOCKS).min(blocks) };
                let held = row.columns[column].lock().written.count_in(range.start, range.end);
                if held > 0 {
                    self.pace.step(u64::from(held) * BLOCK_BYTES * copies).await?;
                    row.resync(column, range.regions()).await?;
                    let turn = row.turn(column, range).await;
                    let runs: Vec<(u32, u32)> = row.columns[column].lock().written.runs(range.start, range.end).collect();
                    for (start, end) in runs {
                        self.run(row, column, Blocks { start, end }).await;
                    }
                    drop(turn);
                }
                self.pace.done(u64::from(range.end - range.start) * BLOCK_BYTES * copies);
                start = range.end;
            }
        }
        Ok(())
    }

    async fn run(&mut self, row: &Arc<Row>, column: usize, Blocks { start, end }: Blocks) {
        let (offset, len) = (u64::from(start) * BLOCK_BYTES, ((end - start) as u64 * BLOCK_BYTES) as usize);
        let usable: Vec<usize> = row.copies_of(column).filter(|(_, slab)| slab.usable()).map(|(index, _)| index).collect();
        let reads = usable.iter().map(|index| row.slabs[*index].disk.read(row.slabs[*index].at(offset), IoBuf::new(len)));
        let copies: Vec<(usize, IoBuf)> = usable
            .iter()
            .copied()
            .zip(join_all(reads).await)
            .filter_map(|(index, read)| read.ok().map(|buf| (index, buf)))
            .collect();
        self.found.unchecked_bytes += ((row.copies() - copies.len()) * len) as u64;
        let Some(((_, first), others)) = copies.split_first() else { return };
        self.found.checked_bytes += (copies.len() * len) as u64;
        for (index, other) in others {
            for block in 0..(end - start) as usize {
                let range = block * BLOCK_BYTES as usize..(block + 1) * BLOCK_BYTES as usize;
                if first[range.clone()] != other[range.clone()] {
                    let slab = &row.slabs[*index];
                    let at = offset + range.start as u64;
                    self.found.add(Mismatch {
                        offset_bytes: u64::from(row.chunk) * self.inner.record.chunk_bytes
                            + offset_in_chunk(row.shape(), column, at),
                        piece: format!("copy {}", index % row.copies()),
                        disk: slab.disk.id,
                        disk_offset_bytes: slab.at(at),
                        len_bytes: BLOCK_BYTES,
                    });
                }
            }
        }
    }
}
