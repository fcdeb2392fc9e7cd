//! Sectors of a parity row written once more, as they are, with what became durable since: so that more slabs than parity
//! makes good claim of each slab what it has to have.
//!
//! Pages that are written all the time claim by the way. What is left are those that were not written again after the
//! last flush: they are idle, or the space is closed. Claims tell more than there is without them, and nothing waits
//! for them: where fewer slabs can take one, these have to do.

use std::sync::Arc;
use std::time::Duration;

use holdfast_device::{Durability, IoError};

use crate::column::Blocks;
use crate::lock_order::join_all;
use crate::row::Row;

use super::Checksums;
use super::sector::PAGE_BLOCKS;
use super::slabs::PAGES_AT_ONCE;

impl Row {
    /// Has slabs claim what is durable, of pages that are idle, or `until` a time, of all. It lasts once the disks are
    /// flushed.
    pub async fn write_claims(&self, until: Option<Duration>) -> Result<(), IoError> {
        let Some(checksums) = &self.checksums else { return Ok(()) };
        let due = checksums.claims().map_or_else(Vec::new, |mut claims| claims.unclaimed(until.is_some()));
        let is_late = || until.is_some_and(|until| self.pool.env().clock.now() >= until);
        for batch in due.chunks(PAGES_AT_ONCE) {
            if self.pool.refusal().is_some() || is_late() {
                return Ok(());
            }
            let _one = checksums.writing.lock().await;
            for claimed in join_all(batch.iter().map(|page| self.claim_page(checksums, *page))).await {
                claimed?;
            }
        }
        Ok(())
    }

    async fn claim_page(&self, checksums: &Arc<Checksums>, page: u32) -> Result<(), IoError> {
        let slabs = self.slabs.len();
        let mut wanted = self.shape().layout.tolerates() as usize + 1;
        // Not always the same ones, but rather such as need not be read.
        let mut indexes: Vec<usize> = (0..slabs).map(|at| (page as usize + at) % slabs).collect();
        indexes.sort_by_key(|index| checksums.set(*index).is_unread(page));
        for index in indexes {
            let first = page * PAGE_BLOCKS;
            let slab = self.slabs.get(index);
            let is_there = slab.usable() && !checksums.set(index).is_blank(page);
            if !is_there || self.read_sums(index, Blocks { start: first, end: first + 1 }).await.is_err() {
                continue;
            }
            self.read_claims(checksums, page).await;
            // One that is about to be written anyway claims then.
            let Some(sealed) = checksums.seal_whole(index, page, &self.sums_page_of(&slab, page)) else { continue };
            let (offset, page) = sealed;
            match slab.disk.write(offset, page.freeze(), Durability::Cached).await {
                Ok(()) => slab.disk.note_written(),
                Err(error) => {
                    self.write_failed(index, &slab, &error).await?;
                    continue;
                }
            }
            wanted -= 1;
            if wanted == 0 {
                break;
            }
        }
        checksums.end_claim(page);
        Ok(())
    }
}
