//! What a parity space does by itself: puts in place what waits, commits, and lets the journal start anew.

use holdfast_device::IoError;

use crate::space::Inner;

impl Inner {
    /// One pass of the housekeeping.
    pub async fn tidy_bands(&self) -> Result<(), IoError> {
        if self.record.shape.layout.parity() == 0 {
            return Ok(());
        }
        let journal = self.journal().await?;
        self.place_all().await?;
        self.commit_all().await?;
        self.trim_journal(&journal).await?;
        for row in self.open_rows() {
            if row.parity.is_some() {
                self.free_if_empty(row.chunk).await?;
            }
        }
        Ok(())
    }
}
