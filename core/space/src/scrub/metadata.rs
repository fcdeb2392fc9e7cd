//! Headers, maps and checksum pages of one row after another, without its data: the slow look between two scrubs.
//!
//! Invariant: a look reads and repairs what a scrub would, by the same steps, so that damage in use is gone before the
//! next start.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::pace::{Ended, Unlimited};
use crate::row::{Row, RowBody};
use crate::space::Space;

use super::{Scrub, Verified};

impl Space {
    /// Looks at the slab metadata of the next row, after the last one at those of the journal, and repairs what is
    /// damaged.
    ///
    /// # Errors
    /// As [`Space::scrub`].
    pub async fn audit_next(&self) -> Result<Verified, Ended> {
        let inner = &self.inner;
        inner.parity.ready().await?;
        let mut scrub = Scrub::new(inner, &Unlimited, !self.is_read_only());
        match inner.next_chunk(inner.audited.load(Ordering::Relaxed)) {
            Some(chunk) => {
                inner.audited.store(chunk + 1, Ordering::Relaxed);
                let row = inner.row_if_any(chunk).await?.map(|used| used.clone());
                if let Some(row) = row {
                    scrub.metadata(&row).await?;
                }
            }
            None => {
                inner.audited.store(0, Ordering::Relaxed);
                if let Some(journal) = inner.parity.journal_if_any().await? {
                    for row in journal.rows() {
                        scrub.metadata(row).await?;
                    }
                }
            }
        }
        Ok(scrub.found)
    }
}

impl Scrub<'_> {
    async fn metadata(&mut self, row: &Arc<Row>) -> Result<(), Ended> {
        let known = self.found.unrepaired_blocks;
        self.heads(row).await?;
        let sets = match &row.body {
            RowBody::Bands(_) => (0..row.slabs.len()).collect(),
            // The map of a column that nobody opened says nothing yet of what its pages prove.
            RowBody::Columns(columns) => (0..columns.len()).filter(|set| columns[*set].is_open()).collect::<Vec<_>>(),
        };
        for set in sets {
            self.checksums(row, set).await?;
        }
        self.report(row, known);
        Ok(())
    }
}
