//! Data and parity, or the copies of a mirror, compared while the space is in use; what is found wrong is repaired.
//!
//! | layout | what is wrong is found | else |
//! | --- | --- | --- |
//! | with checksums | by those; one copy or as many pieces as there is parity may be wrong or unreadable | left, and not served |
//! | two copies | where one of them cannot be read | they are left as they are |
//! | three copies | by the two that agree | the same |
//! | one parity | where one piece cannot be read | the same |
//! | two parities | by both, where one piece is wrong; where up to two cannot be read | the same |
//!
//! Invariants:
//! - Each step takes the turn of its blocks and gives it back: no write is under way in what is compared, and nobody
//!   waits for long, however slow the pace is. A row is kept in its place only during a step, and may make way for
//!   another between two.
//! - Only slabs in step say what is right, and only such are written. Nothing is reported of a region that is dirty
//!   since a crash, or of a band whose change was cut short.
//! - A block is rewritten only with what all the others of its row say, and then they all agree.

mod bands;
mod copies;
mod found;
mod metadata;

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_device::{IoError, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, Layout, counted};
use holdfast_pool::{RowRecord, Severity};

use crate::checksums::Odd;
use crate::column::Column;
use crate::heads::OddHead;
use crate::pace::{Ended, Pace, Unlimited};
use crate::parity::{Geometry, Journal};
use crate::row::{Row, RowBody};
use crate::row_table::UsedRow;
use crate::space::{Inner, Space};

pub use found::{Mismatch, Verified};

/// Bytes that a step reads, about.
const STEP_BYTES: u64 = 1 << 20;

/// A walk over a space.
struct Scrub<'a> {
    inner: &'a Inner,
    pace: &'a dyn Pace,
    /// Whether it makes good what it can.
    mends: bool,
    found: Verified,
    /// By disk, blocks of the row at hand that were repaired.
    mended: BTreeMap<u16, u64>,
    /// The journal that the row at hand belongs to.
    journal: Option<Arc<Journal>>,
}

impl Space {
    /// Compares data and parity, or copies, throughout, its journal's among them, and changes nothing. Writes go on
    /// meanwhile.
    ///
    /// # Errors
    /// A row that cannot be opened.
    pub async fn verify(&self) -> Result<Verified, IoError> {
        match self.walk(0, &Unlimited, false, &|_, _| ()).await {
            Ok(found) => Ok(found),
            Err(Ended::Failed(error)) => Err(error),
            Err(Ended::Stopped) => unreachable!("nobody stops it"),
        }
    }

    /// Compares as [`Space::verify`] does, at a given pace, and repairs what is found wrong or cannot be read. In a
    /// space that a salvage made nothing is repaired before it is accepted.
    ///
    /// # Errors
    /// The pace says that it is to end, a row cannot be opened, or the pool cannot write down that a slab failed.
    pub async fn scrub(&self, pace: &dyn Pace) -> Result<Verified, Ended> {
        self.scrub_from(0, pace, &|_, _| ()).await
    }

    /// Scrubs from a chunk on. After each it tells `passed` where a scrub that is begun anew may go on, and what was
    /// found so far.
    ///
    /// # Errors
    /// As [`Space::scrub`].
    pub async fn scrub_from(
        &self,
        chunk: u32,
        pace: &dyn Pace,
        passed: &dyn Fn(u32, &Verified),
    ) -> Result<Verified, Ended> {
        self.walk(chunk, pace, !self.is_read_only(), passed).await
    }

    /// Bytes that a scrub goes over from a chunk on, and tells its pace as done. Of these it reads those that hold
    /// something.
    pub fn scrub_bytes(&self, from: u32) -> u64 {
        let inner = &self.inner;
        let (rows, journal) = (inner.pool.rows(inner.record.id), inner.pool.journal_rows(inner.record.id));
        let left = rows.iter().filter(|(chunk, _)| *chunk >= from).chain(&journal);
        left.map(|(_, row)| row_bytes(row, inner.record.chunk_bytes)).sum()
    }

    async fn walk(
        &self,
        from: u32,
        pace: &dyn Pace,
        mends: bool,
        passed: &dyn Fn(u32, &Verified),
    ) -> Result<Verified, Ended> {
        let inner = &self.inner;
        inner.parity.ready().await?;
        let mut scrub = Scrub::new(inner, pace, mends);
        let mut next = inner.next_chunk(from);
        while let Some(chunk) = next {
            let row = inner.row_if_any(chunk).await?.map(|used| used.clone());
            if let Some(row) = row {
                scrub.row(&row).await?;
            }
            passed(chunk + 1, &scrub.found);
            next = inner.next_chunk(chunk + 1);
        }
        if let Some(journal) = inner.parity.journal_if_any().await? {
            scrub.journal = Some(journal.clone());
            for row in journal.rows() {
                scrub.row(row).await?;
            }
        }
        Ok(scrub.found)
    }
}

impl<'a> Scrub<'a> {
    fn new(inner: &'a Inner, pace: &'a dyn Pace, mends: bool) -> Self {
        Self { inner, pace, mends, found: Verified::default(), mended: BTreeMap::new(), journal: None }
    }

    async fn row(&mut self, row: &Arc<Row>) -> Result<(), Ended> {
        let known = self.found.unrepaired_blocks;
        self.heads(row).await?;
        let looked = match row.shape().layout {
            Layout::Simple if row.checksums.is_none() => Ok(()),
            Layout::Simple | Layout::Mirror { .. } => self.copies(row).await,
            Layout::Parity { .. } => self.bands(row).await,
        };
        self.report(row, known);
        if self.mends && looked.is_ok() {
            // A page may have made way for others after blocks were compared with it, and be damaged on its disk.
            row.unless_gone(self.inner.prove(row).await)?;
            // What is reported as repaired stays so.
            self.inner.settle_clean_sums(row).await?;
        }
        looked
    }

    /// Reports what was repaired of a row on each disk, and what could not be beyond the `known` blocks.
    fn report(&mut self, row: &Row, known: u64) {
        let (pool, path) = (&self.inner.pool, self.inner.path());
        for (disk, blocks) in std::mem::take(&mut self.mended) {
            self.inner.rows.context.repairs.note(pool, &path, disk, blocks);
        }
        let unrepaired = self.found.unrepaired_blocks - known;
        if self.mends && unrepaired > 0 {
            let part = match self.journal {
                Some(_) => "in its journal".to_string(),
                None => {
                    let begin = u64::from(row.chunk) * self.inner.record.chunk_bytes;
                    format!("within {} from {}", ByteSize(self.inner.record.chunk_bytes), ByteSize(begin))
                }
            };
            let cause = counted(
                unrepaired,
                &format!(
                    "block of space {path} {part} does not match or cannot be read, and it is unknown what is right"
                ),
                &format!(
                    "blocks of space {path} {part} do not match or cannot be read, and it is unknown what is right"
                ),
            );
            let next = format!("'holdfast space verify {path}' shows where; compare that data with a backup");
            pool.emit(Severity::Error, self.inner.object(), cause, &next);
        }
    }

    /// Looks at the headers and maps of a row's slabs, which tell at the next start what they hold.
    async fn heads(&mut self, row: &Arc<Row>) -> Result<(), Ended> {
        for set in 0..row.columns().len().max(1) {
            self.pace.step(0).await?;
            let Some(_used) = self.keep(row).await? else { return Ok(()) };
            let may = self.mends && self.inner.pool.refusal().is_none();
            let opened = row.columns().get(set).is_none_or(Column::is_open);
            if !row.begun() || !opened {
                continue;
            }
            let odd = row.odd_heads(set).await;
            for head in &odd {
                self.found.mismatched_blocks += head.blocks();
                match may {
                    true => *self.mended.entry(row.slabs.get(head.index).disk.index).or_default() += head.blocks(),
                    false => self.found.unrepaired_blocks += head.blocks(),
                }
            }
            if !may || odd.is_empty() {
                continue;
            }
            self.found.repaired_blocks += odd.iter().map(OddHead::blocks).sum::<u64>();
            let staying = row.distrust_odd(odd).await?;
            match row.body {
                _ if staying.is_empty() => {}
                RowBody::Columns(_) => row.rewrite_heads(Some(set), &staying).await?,
                RowBody::Bands(_) => {
                    row.rewrite_heads(None, &staying).await?;
                    self.inner.parity.commit_whole(row).await?;
                }
            }
        }
        Ok(())
    }

    /// Compares what the slabs of a set have of its checksums with one another, and rewrites what differs.
    async fn checksums(&mut self, row: &Arc<Row>, set: usize) -> Result<(), Ended> {
        let pages = row.checksums.as_ref().map_or(0, |checksums| checksums.pages(set));
        for page in 0..pages {
            self.pace.step(0).await?;
            let Some(_used) = self.keep(row).await? else { return Ok(()) };
            if self.mends {
                row.renew_sums(set, page).await?;
            }
            for (slab, odd) in row.odd_sums(set, page).await? {
                self.found.mismatched_blocks += u64::from(odd == Odd::Otherwise);
                if self.mends && row.rewrite_sums(set, page, slab).await? {
                    self.found.repaired_blocks += 1;
                    *self.mended.entry(row.slabs.get(slab).disk.index).or_default() += 1;
                } else {
                    self.found.unrepaired_blocks += 1;
                }
            }
        }
        Ok(())
    }

    /// Keeps a row from being given up, or from making way for another, during a step; `None` where it did already.
    async fn keep(&self, row: &Arc<Row>) -> Result<Option<UsedRow>, IoError> {
        Ok(self.inner.row_if_any(row.chunk).await?.filter(|used| Arc::ptr_eq(used, row)))
    }

    /// Writes what a slab should hold, in blocks that it holds otherwise or cannot read. The turn of the blocks must be
    /// held, alone.
    async fn mend(&mut self, row: &Row, index: usize, offset: u64, data: IoSlice) -> Result<(), Ended> {
        let blocks = data.len() as u64 / BLOCK_BYTES;
        let may = self.mends && row.slabs.get(index).usable() && self.inner.pool.refusal().is_none();
        if may && row.rewrite(index, offset, data).await? {
            self.found.repaired_blocks += blocks;
            *self.mended.entry(row.slabs.get(index).disk.index).or_default() += blocks;
        } else {
            self.found.unrepaired_blocks += blocks;
        }
        Ok(())
    }
}

/// Bytes of a row that are compared with one another, where all of it holds something.
fn row_bytes(row: &RowRecord, chunk_bytes: u64) -> u64 {
    let slab_bytes = row.slab_data_bytes();
    match row.shape.layout {
        Layout::Simple if !row.shape.has_checksums() => 0,
        Layout::Simple | Layout::Mirror { .. } => slab_bytes * row.slabs.len() as u64,
        Layout::Parity { .. } => {
            let geometry = Geometry::new(&row.shape, chunk_bytes, slab_bytes);
            u64::from(geometry.bands) * u64::from(geometry.depth) * BLOCK_BYTES * row.slabs.len() as u64
        }
    }
}

/// Two parts of a run of blocks, the first to be taken first.
fn halves(start: u32, end: u32) -> [(u32, u32); 2] {
    let middle = start + (end - start) / 2;
    [(middle, end), (start, middle)]
}
