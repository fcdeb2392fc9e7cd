//! Data and parity, or the copies of a mirror, compared while the space is in use.
//!
//! Each step takes the turn of its blocks and gives it back: no write is under way in what is compared, and nobody waits for
//! long, however slow the pace is.

mod bands;
mod copies;
mod found;

use holdfast_device::IoError;
use holdfast_model::{BLOCK_BYTES, Layout};
use holdfast_pool::slab::HEAD_BYTES;
use holdfast_pool::{RowRecord, UNIT_BYTES};

use crate::pace::{Ended, Pace, Unlimited};
use crate::parity::Geometry;
use crate::space::{Inner, Space};

pub use found::{Mismatch, Verified};

/// Bytes that a step reads, about.
const STEP_BYTES: u64 = 1 << 20;

/// A walk over a space.
struct Scrub<'a> {
    inner: &'a Inner,
    pace: &'a dyn Pace,
    found: Verified,
}

impl Space {
    /// Compares data and parity, or copies, throughout. Writes go on meanwhile.
    ///
    /// # Errors
    /// A row that cannot be opened.
    pub async fn verify(&self) -> Result<Verified, IoError> {
        match self.walk(&Unlimited).await {
            Ok(found) => Ok(found),
            Err(Ended::Failed(error)) => Err(error),
            Err(Ended::Stopped) => unreachable!("nobody stops it"),
        }
    }

    /// Compares as [`Space::verify`] does, at a given pace.
    ///
    /// # Errors
    /// The pace says that it is to end, or a row cannot be opened.
    pub async fn scrub(&self, pace: &dyn Pace) -> Result<Verified, Ended> {
        self.walk(pace).await
    }

    /// Bytes that a scrub goes over, and tells its pace as done. Of these it reads those that hold something.
    pub fn scrub_bytes(&self) -> u64 {
        let inner = &self.inner;
        inner.pool.rows(inner.record.id).iter().map(|(_, row)| row_bytes(row, inner.record.chunk_bytes)).sum()
    }

    async fn walk(&self, pace: &dyn Pace) -> Result<Verified, Ended> {
        let inner = &self.inner;
        inner.ready().await?;
        let mut scrub = Scrub { inner, pace, found: Verified::default() };
        let mut next = inner.next_chunk(0);
        while let Some(chunk) = next {
            if let Some(row) = inner.row_if_any(chunk).await? {
                match row.record.shape.layout {
                    Layout::Simple => {}
                    Layout::Mirror { .. } => scrub.copies(&row).await?,
                    Layout::Parity { .. } => scrub.bands(&row).await?,
                }
            }
            next = inner.next_chunk(chunk + 1);
        }
        Ok(scrub.found)
    }
}

/// Bytes of a row that are compared with one another, where all of it holds something.
fn row_bytes(row: &RowRecord, chunk_bytes: u64) -> u64 {
    let slab_bytes = u64::from(row.slab_units) * UNIT_BYTES - HEAD_BYTES;
    match row.shape.layout {
        Layout::Simple => 0,
        Layout::Mirror { .. } => slab_bytes * row.slabs.len() as u64,
        Layout::Parity { .. } => {
            let geometry = Geometry::new(&row.shape, chunk_bytes, slab_bytes);
            u64::from(geometry.bands) * u64::from(geometry.depth) * BLOCK_BYTES * row.slabs.len() as u64
        }
    }
}
