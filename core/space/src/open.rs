//! How an open row learns from its disks what it holds.
//!
//! Every copy in step has the block maps. After a crash they may differ by the last map written; the newest counts, and is
//! written to all copies before the row is used, so that whichever copy remains tells the same.

use std::sync::Arc;

use holdfast_device::IoError;
use holdfast_pool::RowRecord;

use crate::block_map::MapBits;
use crate::row::{Home, Row};

impl Row {
    /// A row that was allotted just now: none of its blocks was written.
    pub fn fresh(home: &Home, chunk: u32, record: RowRecord) -> Result<Arc<Self>, IoError> {
        Ok(Arc::new(Self::new(home, chunk, record, true)?))
    }

    /// A row that was allotted earlier.
    pub async fn load(home: &Home, chunk: u32, record: RowRecord) -> Result<Arc<Self>, IoError> {
        let row = Self::new(home, chunk, record, false)?;
        let mut headers = row.parity.is_none() || row.load_bands().await?;
        for column in 0..row.columns.len() {
            headers &= row.load_column(column).await?;
        }
        if headers {
            row.set_headers_whole();
        }
        Ok(Arc::new(row))
    }

    /// Loads the maps of a column. Answers whether every copy has its header.
    async fn load_column(&self, column: usize) -> Result<bool, IoError> {
        self.settle_column(column).await?;
        let mut maps = self.columns[column].maps.lock().await;
        let heads = self.read_heads(self.shape().group(column * self.copies()), maps.len()).await;
        if heads.len() == 0 {
            return Err(heads.error.unwrap_or_else(|| IoError::invalid("a column without copies")));
        }
        for (map, place) in maps.iter_mut().enumerate() {
            let owner = self.owner(column, map);
            let open = |block: &[u8], disk, offset| MapBits::open(block, &owner, disk, offset);
            let Some((bits, agreed)) = heads.newest(map, place, open) else { continue };
            {
                let mut state = self.columns[column].lock();
                state.load_map(map, &bits);
                // A row that was degraded when the pool was closed is marked still, and all of it is durable.
                if self.marks() && !self.pool.was_closed() {
                    state.unsynced = state.marked.clone();
                }
            }
            if !agreed {
                self.write_map(column, map, place).await?;
            }
        }
        Ok(heads.owned)
    }
}
