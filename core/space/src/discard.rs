//! Discards and write-zeroes: blocks leave the block map, no data is written. A thin row that holds nothing goes back to
//! the pool.

use std::sync::Arc;

use holdfast_device::{Durability, IoError};

use crate::column::Blocks;
use crate::row::Row;
use crate::space::Inner;
use crate::stripe::{ChunkPart, chunk_parts, segments};

impl Inner {
    /// Makes a range read as zeros.
    pub async fn zero(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Result<(), IoError> {
        for part in chunk_parts(self.record.chunk_bytes, offset, len) {
            let row = if keep_room { Some(self.row_for_write(part.chunk).await?) } else { self.row_if_any(part.chunk).await? };
            let Some(row) = row else { continue };
            self.zero_part(&row, &part, durability).await?;
            drop(row);
            if !keep_room {
                self.free_if_empty(part.chunk).await?;
            }
        }
        Ok(())
    }

    async fn zero_part(&self, row: &Arc<Row>, part: &ChunkPart, durability: Durability) -> Result<(), IoError> {
        for segment in segments(row.shape(), part.offset, part.len) {
            let blocks = Blocks::of(segment.offset, segment.len);
            let turn = row.turn(segment.column, blocks).await;
            row.columns[segment.column].lock().note_discarded(blocks);
            drop(turn);
        }
        if durability == Durability::Cached {
            self.touch(row);
            return Ok(());
        }
        for column in 0..row.columns.len() {
            row.write_maps(column).await?;
        }
        Ok(())
    }
}
