//! A journal on faster disks than the data takes what memory has no room for: what waits is written down and forgotten,
//! and read from there when it is asked for or destaged.

use std::sync::Arc;

use holdfast_device::IoError;
use holdfast_model::BLOCK_BYTES;

use crate::row::Row;

use super::dirty::{Content, Extent, Logged};
use super::durable::Logging;
use super::geometry::bytes_of;
use super::journal::Journal;
use super::store::ParityStore;

impl ParityStore {
    /// Whether what waits is better off in the journal than in its place: it is on solid disks, the row is not.
    pub fn spills(&self, journal: &Journal, row: &Arc<Row>) -> bool {
        row.slabs.iter().any(|slab| slab.rotates()) && journal.is_solid()
    }

    /// Puts what waits of some bands into the journal and forgets it. The caller sees to it that there is room, and
    /// that nobody else puts a record together.
    pub async fn spill(&self, journal: &Journal, bands: &[(Arc<Row>, u32)]) -> Result<(), IoError> {
        let mut logging = Logging::default();
        for (row, band) in bands {
            logging.collect(row, *band, journal.record_share());
        }
        let (draft, extents) = (&logging.draft, logging.extents.clone());
        let lengths: Vec<u64> = draft.entries.iter().map(|entry| u64::from(entry.blocks()) * BLOCK_BYTES).collect();
        let Some(end) = self.log(logging).await? else { return Ok(()) };
        let mut at = end - lengths.iter().sum::<u64>();
        for ((row, band, start, len, stamp), length) in extents.iter().zip(lengths) {
            let mut state = row.bands().lock();
            let waiting = state.dirty.get_mut(band).into_iter().flat_map(super::dirty::Dirty::extents_mut);
            for (first, extent) in waiting {
                let within = first >= *start && first + extent.len <= start + len && extent.stamp == *stamp;
                if within && let Content::Bytes(bytes) = &extent.content {
                    self.write_buffer.take(bytes.len());
                    extent.content = Content::Logged(Logged::new(at + u64::from(first - start) * BLOCK_BYTES, bytes));
                }
            }
            drop(state);
            at += length;
        }
        Ok(())
    }

    /// Reads what the journal has of extents.
    pub async fn fetch(&self, extents: &mut [(u32, Extent)]) -> Result<(), IoError> {
        for (_, extent) in extents {
            if let Content::Logged(logged) = &extent.content {
                let journal = self.opened_journal()?;
                let bytes = self.read_log(&journal, logged.at, bytes_of(extent.len), |bytes| logged.are(bytes)).await?;
                extent.content = Content::Bytes(bytes.ok_or_else(|| self.lost_log(logged.at))?.freeze());
            }
        }
        Ok(())
    }
}
