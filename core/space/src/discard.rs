//! Discards and write-zeroes: blocks leave the block map, no data is written. A thin row that holds nothing goes back
//! to the pool.

use std::sync::Arc;

use holdfast_device::{Durability, IoError};

use crate::column::Blocks;
use crate::row::{Row, RowBody};
use crate::space::Inner;
use crate::stripe::{ChunkPart, chunk_parts, segments};

impl Inner {
    /// Makes a range read as zeros.
    pub async fn zero(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Result<(), IoError> {
        self.parity.ready().await?;
        if keep_room {
            for part in chunk_parts(self.record.chunk_bytes, offset, len) {
                let row = self.row_for_write(part.chunk).await?;
                let _changing = row.changing(&part);
                self.zero_part(&row, &part, durability).await?;
            }
            return Ok(());
        }
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let chunk_bytes = self.record.chunk_bytes;
            let Some(chunk) = self.next_chunk((at / chunk_bytes) as u32) else { break };
            at = at.max(u64::from(chunk) * chunk_bytes);
            let Some(part) = chunk_parts(chunk_bytes, at, end.saturating_sub(at)).next() else { break };
            if let Some(row) = self.row_if_any(part.chunk).await? {
                let changing = row.changing(&part);
                self.zero_part(&row, &part, durability).await?;
                drop(changing);
                drop(row);
                self.free_if_empty(part.chunk).await?;
            }
            at += part.len as u64;
        }
        Ok(())
    }

    /// Empties a part of a row.
    pub async fn zero_part(&self, row: &Arc<Row>, part: &ChunkPart, durability: Durability) -> Result<(), IoError> {
        if let RowBody::Bands(_) = row.body {
            row.ensure_headers().await?;
            return self.parity.enter(row, part, None, durability).await;
        }
        for segment in segments(row.shape(), part.offset, part.len) {
            let blocks = Blocks::of(segment.offset, segment.len);
            row.open_column(segment.column).await?;
            let turn = row.turn(segment.column, blocks).await;
            row.columns()[segment.column].lock().note_discarded(blocks);
            drop(turn);
        }
        if durability == Durability::Cached {
            self.rows.touch(row);
            return Ok(());
        }
        for column in 0..row.columns().len() {
            row.write_maps(column).await?;
        }
        Ok(())
    }
}
