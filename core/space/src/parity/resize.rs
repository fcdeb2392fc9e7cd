//! The journal of a space in use, and another one for it: of another size, on other disks, or none.
//!
//! Invariant: a journal is replaced while it holds nothing that counts, in one change of the pool, and nobody writes to
//! it meanwhile: a crash finds the one or the other.

use holdfast_device::IoError;
use holdfast_pool::RowRecord;

use crate::lock_order::{Held, rank};

use super::durable::MOMENT;
use super::journal::{Chain, Journal};
use super::store::ParityStore;

/// How full a journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalStatus {
    /// Bytes of all its rows, without copies.
    pub size_bytes: u64,
    /// Bytes of records that a crash would need.
    pub used_bytes: u64,
    /// Bytes written to the space that are in memory and not in place yet.
    pub waiting_bytes: u64,
}

impl ParityStore {
    /// Gives it a journal that is as its shape asks for, of this size or as large as it is; false if it has that.
    pub async fn renew_journal(&self, bytes: Option<u64>) -> Result<bool, IoError> {
        if self.pool.has_journal_of(self.record.id, bytes) {
            return Ok(false);
        }
        let old = self.journal().await?;
        self.check_none_deferred()?;
        // Nobody writes down anything new meanwhile, so what the journal holds comes to an end.
        let _one = self.logging.lock().await;
        let _turn = self.placing.lock().await;
        let mut chain = self.emptied(&old).await?;
        if chain.replaced {
            return Ok(false);
        }
        let Some(freed) = self.pool.replace_journal(self.record.id, bytes).await? else { return Ok(false) };
        chain.replaced = true;
        for row in self.rows.open_rows().iter().filter(|row| row.bands_if_any().is_some()) {
            row.bands().lock().logged.clear();
        }
        let opened = self.open_journal().await;
        // Where it could not be opened, the next request opens it.
        self.journal.store(opened.as_ref().ok().cloned());
        drop(chain);
        self.close_rows(&old.chunks());
        drop(freed);
        opened.map(|_| true)
    }

    /// Waits until a journal holds nothing that counts, or is replaced, and keeps it so. Logging and placing must be
    /// held.
    async fn emptied<'a>(&self, journal: &'a Journal) -> Result<Held<'a, { rank::APPENDING }, Chain>, IoError> {
        loop {
            self.place_waiting().await?;
            self.commit_all().await?;
            let chain = journal.appending.lock().await;
            if chain.replaced || journal.held() == 0 {
                return Ok(chain);
            }
            // Writers are about to destage what they write meanwhile, and reads of a row that went are about to end.
            drop(chain);
            self.pool.env().clock.sleep(MOMENT).await;
        }
    }

    /// Sees to it that the space has the journal that its shape asks for, on disks that are neither lost nor retired.
    /// False where no row keeps parity, so that it needs none.
    pub async fn suit_journal(&self) -> Result<bool, IoError> {
        let keeps_parity = |row: &RowRecord| row.shape.layout.parity() > 0;
        let wanted = self.pool.space(self.record.id).is_some_and(|record| record.shape.layout.parity() > 0);
        if wanted || self.pool.rows(self.record.id).iter().any(|(_, row)| keeps_parity(row)) {
            self.renew_journal(None).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Gives the journal up, once it holds nothing that counts.
    pub async fn drop_journal(&self) -> Result<(), IoError> {
        // It is not opened under the locks.
        self.journal().await?;
        let _one = self.logging.lock().await;
        let _turn = self.placing.lock().await;
        // None takes its place while these are held.
        let journal = self.opened_journal()?;
        let mut chain = self.emptied(&journal).await?;
        let freed = self.pool.drop_journal(self.record.id).await?;
        chain.replaced = true;
        self.refresh_journaled();
        self.journal.store(None);
        drop(chain);
        self.close_rows(&journal.chunks());
        drop(freed);
        Ok(())
    }

    /// Closes rows that the space has no more.
    fn close_rows(&self, chunks: &[u32]) {
        for chunk in chunks {
            drop(self.rows.close(*chunk));
        }
    }
}
