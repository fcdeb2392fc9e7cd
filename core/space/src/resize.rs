//! A space becomes larger or smaller while it is in use.
//!
//! ```text
//!   smaller:  requests beyond the new end are refused ─▶ those that began before end ─▶ is there data beyond? ─▶ one change of the pool
//!             ─▶ rows beyond the end are closed ─▶ what the last row holds beyond it is emptied
//!   larger:   what the last row holds beyond the old end is emptied ─▶ rows of a fixed space ─▶ one change of the pool
//! ```
//!
//! Invariants: a space has the old size or the new one, at any moment and after any crash. Nobody reads or writes
//! beyond the end, and no row is given up while a client's request may be under way in it. Whatever lay beyond an
//! earlier end reads as zeros when the space has grown again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_device::{Durability, IoError};
use holdfast_model::{BLOCK_BYTES, ByteSize};
use holdfast_pool::{PoolError, PoolErrorKind};

use crate::claims::Still;
use crate::space::{Inner, Space};

/// How often a row that is being moved is waited for.
const STILL_TRIES: u32 = 40;
const STILL_PAUSE: Duration = Duration::from_millis(50);

impl Space {
    /// Makes it larger; false if it has that size already.
    ///
    /// # Errors
    /// A smaller size, a salvage that nobody has accepted, or, for a fixed space, too little room.
    pub async fn grow(&self, size_bytes: u64) -> Result<bool, PoolError> {
        let inner = &self.inner;
        let _one = inner.in_flight.resizing.lock().await;
        inner.check_accepted()?;
        if size_bytes > inner.size_bytes() {
            inner.empty_tail().await?;
        }
        let grown = inner.pool.grow_space(inner.record.id, size_bytes).await?;
        inner.size_bytes.fetch_max(size_bytes, Ordering::SeqCst);
        Ok(grown)
    }

    /// The smallest size that it can have without loss: where its last block that holds data ends.
    ///
    /// # Errors
    /// A row that cannot be opened.
    pub async fn least_size(&self) -> Result<u64, IoError> {
        self.inner.parity.ready().await?;
        Ok(self.inner.end_of_data(0).await?.max(BLOCK_BYTES))
    }

    /// Makes it smaller; false if it has that size already. Requests beyond the new end are refused from now on.
    ///
    /// # Errors
    /// A larger size; a salvage that nobody has accepted; data beyond the new end, unless `discard_beyond` gives that
    /// up; a row that is being moved, perhaps by a job that is paused; no quorum. It has its old size then.
    pub async fn shrink(&self, size_bytes: u64, discard_beyond: bool) -> Result<bool, PoolError> {
        let inner = &self.inner;
        let _one = inner.in_flight.resizing.lock().await;
        inner.check_accepted()?;
        let _still = inner.keep_rows_still().await?;
        let before = inner.size_bytes();
        if size_bytes >= before {
            let larger = PoolError::new(
                PoolErrorKind::Invalid,
                format!(
                    "space {} has {} and does not shrink to {}",
                    inner.path(),
                    ByteSize(before),
                    ByteSize(size_bytes)
                ),
            );
            return if size_bytes == before { Ok(false) } else { Err(larger) };
        }
        inner.parity.ready().await?;
        inner.size_bytes.store(size_bytes, Ordering::SeqCst);
        let shrunk = inner.shrink(size_bytes, discard_beyond).await;
        if shrunk.is_err() && inner.pool.space(inner.record.id).is_some_and(|record| record.size_bytes == before) {
            inner.size_bytes.store(before, Ordering::SeqCst);
        }
        shrunk?;
        // After a crash before this, making the space larger empties the tail.
        inner.empty_tail().await?;
        Ok(true)
    }
}

impl Inner {
    async fn shrink(&self, size_bytes: u64, discard_beyond: bool) -> Result<(), PoolError> {
        self.in_flight.earlier_ended(&*self.pool.env().clock).await;
        let end = if discard_beyond { 0 } else { self.end_of_data(size_bytes).await? };
        if end > size_bytes {
            return Err(PoolError::new(
                PoolErrorKind::Invalid,
                format!(
                    "space {} cannot have {}: it holds data up to {end} bytes ({}), the smallest size that loses no data; shrink its file system first and discard the free blocks, or discard the data beyond the new end with --discard-beyond",
                    self.path(),
                    ByteSize(size_bytes),
                    ByteSize(end)
                ),
            ));
        }
        let chunks = self.rows.lock_chunks().await;
        let freed = self.pool.shrink_space(self.record.id, size_bytes).await?;
        for (chunk, freed) in freed.into_iter().flatten() {
            self.let_go(chunk, freed);
        }
        drop(chunks);
        Ok(())
    }

    /// Refuses another size, shape or place while nobody has accepted what a salvage made of the space.
    pub fn check_accepted(&self) -> Result<(), PoolError> {
        self.pool.space(self.record.id).map_or(Ok(()), |record| self.pool.check_accepted(&record))
    }

    /// Keeps rows from being moved. One that is being moved is waited for, but not long: its mover may be
    /// paused.
    async fn keep_rows_still(&self) -> Result<Still<'_>, PoolError> {
        for _ in 0..STILL_TRIES {
            if let Some(still) = self.movement.try_hold_still() {
                return Ok(still);
            }
            self.pool.env().clock.sleep(STILL_PAUSE).await;
        }
        Err(PoolError::new(
            PoolErrorKind::Conflict,
            format!(
                "a row of space {} is being moved by a job: wait for it, or cancel it, then try again",
                self.path()
            ),
        ))
    }

    /// Where the last block at or behind `from` that holds data ends; 0 where none does.
    async fn end_of_data(&self, from: u64) -> Result<u64, IoError> {
        let chunk_bytes = self.record.chunk_bytes;
        let first = (from / chunk_bytes) as u32;
        let chunks: Vec<u32> = self.pool.rows(self.record.id).into_iter().map(|(chunk, _)| chunk).collect();
        for chunk in chunks.into_iter().rev().take_while(|chunk| *chunk >= first) {
            let Some(row) = self.row(chunk).await? else { continue };
            row.open_columns().await?;
            let held = row.data_runs(0, (chunk_bytes / BLOCK_BYTES) as u32);
            let end = held.runs(0, held.limit()).last().map(|(_, end)| end);
            if let Some(end) = end {
                return Ok(u64::from(chunk) * chunk_bytes + u64::from(end) * BLOCK_BYTES);
            }
        }
        Ok(0)
    }

    /// Empties what the last row has room for beyond the end of the space.
    async fn empty_tail(&self) -> Result<(), IoError> {
        let (end, chunk_bytes) = (self.size_bytes(), self.record.chunk_bytes);
        let tail = end.next_multiple_of(chunk_bytes) - end;
        if tail > 0 && self.end_of_data(end).await? > end {
            self.zero(end, tail, Durability::Durable, false).await?;
        }
        Ok(())
    }
}
