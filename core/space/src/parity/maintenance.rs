//! What a parity space does by itself: destages what waits, commits, and lets the journal start anew.

use holdfast_device::IoError;

use super::bands::{Bands, LastRecord};
use super::store::ParityStore;

impl ParityStore {
    /// Whether a row with these bands may be closed. What the log still has for them must be void when one moves, so
    /// they stay known until the log has gone past it.
    pub fn may_forget(&self, bands: &Bands) -> bool {
        let state = bands.lock();
        let journal = self.journal.load();
        let gone = |last: &LastRecord| journal.as_ref().is_some_and(|journal| !journal.reaches(last.end));
        state.is_settled() && state.staging.is_idle() && state.logged.values().all(gone)
    }

    /// One pass of maintenance.
    pub async fn maintain(&self) -> Result<(), IoError> {
        let journal = match self.journal().await {
            Ok(journal) => journal,
            Err(error) => {
                // Nothing is committed before the journal is carried out, and so nothing else would tell what these
                // lost.
                let rows = self.rows.open_rows();
                rows.iter().filter(|row| !row.in_doubt().is_empty()).for_each(|row| row.ask_to_reopen());
                return Err(error);
            }
        };
        let placed = self.place_all().await;
        // What is in place is made to last, and what a disk lost of it is reported, whatever else has to wait.
        self.commit_all().await?;
        placed?;
        self.trim_journal(&journal).await
    }
}
