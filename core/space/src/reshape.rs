//! A space gets another shape or other disks, row by row, while it is in use.
//!
//! What is asked for stands in the pool at once: rows are allotted in the new shape from then on. The rows that are
//! left over tell what is still to be done, so a crash or a stop loses none of what was done before.
//!
//! Invariant: a row is never less protected than the weaker of the two shapes promises, and the journal has as many
//! copies as the old or the new one asks for.

use holdfast_device::{IoError, IoErrorKind};
use holdfast_model::{Provisioning, Shape};
use holdfast_pool::PoolError;

use crate::lock_order::branch;
use crate::pace::{Ended, Pace};
use crate::space::{Inner, Space};

impl Space {
    /// Asks for another shape, thin or fixed, which [`Space::convert`] then brings about. False if that is what it was
    /// asked before. To fixed it becomes only at the end, when it has all its rows.
    ///
    /// # Errors
    /// A shape that the disks cannot bear, no room for a journal, no quorum.
    pub async fn reshape(
        &self,
        shape: Shape,
        provisioning: Provisioning,
        journal_bytes: Option<u64>,
    ) -> Result<bool, PoolError> {
        let inner = &self.inner;
        let now = if inner.thin() { Provisioning::Thin } else { Provisioning::Fixed };
        let first = if provisioning == Provisioning::Thin { provisioning } else { now };
        let changed = inner.pool.set_shape(inner.record.id, shape, first, journal_bytes).await?;
        inner.refresh_record();
        Ok(changed || provisioning != now)
    }

    /// Bytes of data that [`Space::convert`] will move at most.
    pub fn bytes_to_convert(&self) -> u64 {
        let inner = &self.inner;
        inner.pool.chunks_of_other_shape(inner.record.id).len() as u64 * inner.record.chunk_bytes
    }

    /// Moves every row to the space's present shape. As a fixed space it has all its rows at the end, as a thin one
    /// none that holds nothing.
    ///
    /// # Errors
    /// Too little room, or a row that cannot be read; what was moved before stays so.
    pub async fn convert(&self, provisioning: Provisioning, pace: &dyn Pace) -> Result<(), Ended> {
        let inner = &self.inner;
        inner.check_accepted().map_err(IoError::from)?;
        inner.parity.ready().await?;
        for chunk in inner.pool.chunks_of_other_shape(inner.record.id) {
            branch(inner.relocate(chunk, &[], pace)).await?;
        }
        inner.suit_journal().await?;
        match provisioning {
            Provisioning::Fixed => inner.pool.fill_space(inner.record.id).await.map_err(IoError::from)?,
            Provisioning::Thin => inner.free_empty_rows().await?,
        }
        inner.refresh_record();
        Ok(())
    }

    /// Gives it a journal of another size, in use; false if it has that size.
    ///
    /// # Errors
    /// No parity space, a size that cannot be, too little room.
    pub async fn resize_journal(&self, bytes: u64) -> Result<bool, IoError> {
        let inner = &self.inner;
        if !inner.parity.journaled() {
            return Err(IoError::invalid(format!("space {} keeps no parity, so it has no journal", inner.path())));
        }
        inner.parity.renew_journal(Some(bytes)).await
    }

    /// Bytes of data that [`Space::leave`] will move at most.
    pub fn bytes_on(&self, disk: u16) -> u64 {
        let inner = &self.inner;
        inner.pool.chunks_on(inner.record.id, disk).len() as u64 * inner.record.chunk_bytes
    }

    /// Moves every row off a disk, and the journal too if the disk is retired.
    ///
    /// # Errors
    /// As [`Space::convert`].
    pub async fn leave(&self, disk: u16, pace: &dyn Pace) -> Result<(), Ended> {
        let inner = &self.inner;
        if self.bytes_on(disk) > 0 {
            inner.check_accepted().map_err(IoError::from)?;
        }
        inner.parity.ready().await?;
        for chunk in inner.pool.chunks_on(inner.record.id, disk) {
            match branch(inner.relocate(chunk, &[disk], pace)).await {
                Err(Ended::Failed(full)) if full.kind == IoErrorKind::NoSpace => {
                    // There may be room for the one slab yet, as on a disk that is to take the place of this one.
                    let moved = match inner.pool.slab_off(inner.record.id, chunk, disk) {
                        Some(wanted) => self.move_slab(&wanted, pace).await?,
                        None => false,
                    };
                    if !moved {
                        return Err(full.into());
                    }
                }
                relocated => relocated?,
            }
        }
        Ok(inner.suit_journal().await?)
    }
}

impl Inner {
    /// Sees to it that the space has the journal that its shape asks for, on disks that are neither lost nor retired;
    /// none where no row keeps parity.
    pub async fn suit_journal(&self) -> Result<(), IoError> {
        if !self.parity.journaled() || self.parity.suit_journal().await? {
            return Ok(());
        }
        let _maintaining = self.maintaining.lock().await;
        self.parity.drop_journal().await
    }

    async fn free_empty_rows(&self) -> Result<(), IoError> {
        let mut next = self.next_chunk(0);
        while let Some(chunk) = next {
            drop(self.row_if_any(chunk).await?);
            self.free_if_empty(chunk).await?;
            next = self.next_chunk(chunk + 1);
        }
        Ok(())
    }
}
