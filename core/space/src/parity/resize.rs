//! The journal of a space in use, and another size for it.
//!
//! Invariant: a journal is replaced while it holds nothing that counts, in one change of the pool, and nobody writes to it
//! meanwhile: a crash finds the one or the other.

use holdfast_device::IoError;

use crate::space::Space;

use super::backlog::MOMENT;

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

impl Space {
    /// How full its journal is; `None` where it has none, or was not used since it was opened.
    pub fn journal_status(&self) -> Option<JournalStatus> {
        let journal = self.inner.backlog.journal.load_full()?;
        Some(JournalStatus {
            size_bytes: journal.size_bytes(),
            used_bytes: journal.held(),
            waiting_bytes: self.inner.backlog.bytes() as u64,
        })
    }

    /// Gives it a journal of another size, in use; false if it has that size.
    ///
    /// # Errors
    /// No parity space, a size that cannot be, too little room.
    pub async fn resize_journal(&self, bytes: u64) -> Result<bool, IoError> {
        let inner = &self.inner;
        if inner.record.shape.layout.parity() == 0 {
            return Err(IoError::invalid(format!("space {} keeps no parity, so it has no journal", inner.path())));
        }
        if inner.pool.has_journal_of(inner.record.id, bytes) {
            return Ok(false);
        }
        let old = inner.journal().await?;
        // Nobody writes down anything new meanwhile, so what the journal holds comes to an end.
        let _one = inner.backlog.logging.lock().await;
        let _turn = inner.backlog.placing.lock().await;
        loop {
            inner.place_waiting().await?;
            inner.commit_all().await?;
            let mut chain = old.appending.lock().await;
            if chain.replaced {
                return Ok(false);
            }
            if old.held() > 0 {
                // Whoever writes meanwhile is about to have it in place too.
                drop(chain);
                inner.pool.env().clock.sleep(MOMENT).await;
                continue;
            }
            let Some(freed) = inner.pool.replace_journal(inner.record.id, bytes).await? else { return Ok(false) };
            chain.replaced = true;
            for row in inner.open_rows().iter().filter(|row| row.parity.is_some()) {
                row.bands().lock().logged.clear();
            }
            let opened = inner.open_journal().await;
            // Where it could not be opened, the next request opens it.
            inner.backlog.journal.store(opened.as_ref().ok().cloned());
            drop(chain);
            inner.forget_rows(&old.chunks());
            drop(freed);
            return opened.map(|_| true);
        }
    }
}
