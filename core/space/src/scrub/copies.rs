//! The copies of a column, compared: one that is as its checksum says is right, and else what more than half of them
//! say.

use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::{IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::BLOCK_BYTES;
use holdfast_model::wire::crc32c;

use crate::block_map::{REGION_BLOCKS, REGION_BYTES};
use crate::checksums::KnownSum;
use crate::column::Blocks;
use crate::pace::Ended;
use crate::parity::bytes_of;
use crate::row::Row;
use crate::stripe::offset_in_chunk;

use super::found::Mismatch;
use super::{STEP_BYTES, Scrub, halves};

/// What the copies of a run of blocks hold.
struct Copies {
    /// The slabs that could be read, and what they hold.
    read: Vec<(usize, IoSlice)>,
    /// Slabs in step that could not.
    failed: Vec<usize>,
    /// For each block its checksum, where it is known.
    checksums: Vec<Option<KnownSum>>,
    /// Whether they have no checksums at all.
    plain: bool,
}

impl Copies {
    fn block(&self, copy: usize, block: u32) -> &[u8] {
        &self.read[copy].1[bytes_of(block)..bytes_of(block + 1)]
    }

    fn is_uniform(&self, copy: usize, block: u32) -> bool {
        let block = self.block(copy, block);
        block.iter().all(|byte| *byte == block[0])
    }

    /// Which of those read is as its checksum says, or else holds what more than half of `copies` hold. Nothing but a
    /// checksum tells of one alone.
    fn right(&self, block: u32, copies: usize) -> Option<usize> {
        let alike = |copy: &usize| {
            (0..self.read.len()).filter(|other| self.block(*other, block) == self.block(*copy, block)).count()
        };
        let known = self.checksums[block as usize];
        let summed = |copy: &usize| known.is_some_and(|known| known.crc == crc32c(self.block(*copy, block)));
        let proven = known.is_some() || self.plain;
        if known.is_some_and(|known| known.given) {
            return (0..self.read.len()).find(summed);
        }
        let most =
            |copy: &usize| alike(copy) > 1 && alike(copy) * 2 > copies && (proven || !self.is_uniform(*copy, block));
        (0..self.read.len()).find(summed).or_else(|| (0..self.read.len()).find(most))
    }

    fn agree(&self) -> bool {
        let Some((_, first)) = self.read.first() else { return true };
        self.read.iter().all(|(_, data)| data[..] == first[..])
            && self
                .checksums
                .iter()
                .zip(first.chunks(BLOCK_BYTES as usize))
                .all(|(sum, block)| sum.map_or(self.plain, |sum| sum.crc == crc32c(block)))
    }

    /// Whether the checksums of all blocks are known.
    fn summed(&self) -> bool {
        self.checksums.iter().all(Option::is_some)
    }
}

impl Scrub<'_> {
    /// Compares the copies of a row.
    pub(super) async fn copies(&mut self, row: &Arc<Row>) -> Result<(), Ended> {
        let copies = row.copies() as u64;
        let step = (STEP_BYTES / (REGION_BYTES * copies)).max(1) as u32 * REGION_BLOCKS;
        for column in 0..row.columns().len() {
            row.open_column(column).await?;
            let blocks = row.columns()[column].lock().blocks();
            for start in (0..blocks).step_by(step as usize) {
                let end = (start + step).min(blocks);
                let mut left = vec![(start, end)];
                while let Some((start, end)) = left.pop() {
                    let held = row.columns()[column].lock().written.count_in(start, end);
                    if held > 0 {
                        self.pace.step(bytes_of(held) as u64 * copies).await?;
                        self.column(row, column, Blocks { start, end }, &mut left).await?;
                    }
                }
                self.pace.done(bytes_of(end - start) as u64 * copies);
            }
            self.checksums(row, column).await?;
        }
        Ok(())
    }

    /// Compares blocks of a column; those that are to be looked at again in smaller pieces are left.
    async fn column(
        &mut self,
        row: &Arc<Row>,
        column: usize,
        blocks: Blocks,
        left: &mut Vec<(u32, u32)>,
    ) -> Result<(), Ended> {
        let journal = self.journal.clone();
        if let Some(journal) = journal.as_ref().filter(|_| self.mends && self.inner.pool.refusal().is_none()) {
            // What nobody needs any more is not read, so that it may be whatever a copy has of it.
            self.inner.parity.trim_journal(journal).await?;
        }
        let kept = match &journal {
            Some(journal) => journal.hold().await,
            None => None,
        };
        if journal.is_some() && kept.is_none() {
            return Ok(());
        }
        let Some(_used) = self.keep(row).await? else { return Ok(()) };
        row.resync(column, blocks.regions()).await?;
        let _turn = row.turn(column, blocks).await;
        let runs: Vec<(u32, u32)> = row.columns()[column].lock().written.runs(blocks.start, blocks.end).collect();
        for (start, end) in runs {
            let copies = self.read(row, column, Blocks { start, end }).await?;
            if !copies.failed.is_empty() && end - start > 1 {
                left.extend(halves(start, end));
            } else {
                self.compare(row, column, Blocks { start, end }, &copies).await?;
            }
        }
        Ok(())
    }

    async fn read(&self, row: &Row, column: usize, Blocks { start, end }: Blocks) -> Result<Copies, IoError> {
        let (offset, len) = (u64::from(start) * BLOCK_BYTES, bytes_of(end - start));
        let usable: Vec<_> = row.copies_of(column).filter(|(_, slab)| slab.usable()).collect();
        let reads = usable.iter().map(|(_, slab)| slab.disk.read(slab.at(offset), IoBuf::new(len)));
        let checksums = row.known_sums(column, Blocks { start, end }).await?;
        let mut copies = Copies { read: Vec::new(), failed: Vec::new(), checksums, plain: row.checksums.is_none() };
        let reads = join_all(reads).await;
        for ((index, slab), read) in usable.into_iter().zip(reads) {
            match read {
                Ok(data) => copies.read.push((index, data.freeze())),
                Err(error) => {
                    row.read_failed(&slab, &error).await;
                    if error.kind != IoErrorKind::Gone {
                        copies.failed.push(index);
                    }
                }
            }
        }
        Ok(copies)
    }

    /// Compares what was read of blocks of a column. Their turn must be held.
    async fn compare(&mut self, row: &Row, column: usize, blocks: Blocks, copies: &Copies) -> Result<(), Ended> {
        let len = bytes_of(blocks.end - blocks.start) as u64;
        let compared = if copies.read.len() > 1 || copies.summed() { copies.read.len() as u64 } else { 0 };
        self.found.checked_bytes += compared * len;
        self.found.unchecked_bytes += (row.copies() as u64 - compared) * len;
        if !copies.agree() {
            return self.mend_odd(row, column, blocks, copies).await;
        }
        for index in &copies.failed {
            match copies.read.first() {
                Some((_, data)) => self.mend(row, *index, u64::from(blocks.start) * BLOCK_BYTES, data.clone()).await?,
                None => self.found.unrepaired_blocks += 1,
            }
        }
        Ok(())
    }

    /// Rewrites the copies of blocks that are not what more than half of them are.
    async fn mend_odd(&mut self, row: &Row, column: usize, blocks: Blocks, copies: &Copies) -> Result<(), Ended> {
        // Copies to be rewritten, from which one, and the blocks.
        let mut wrong: Vec<(usize, usize, u32, u32)> = Vec::new();
        for block in 0..blocks.end - blocks.start {
            let right = copies.right(block, row.copies()).or_else(|| self.right_of_empty_journal(block, copies));
            let chosen = right.map(|right| copies.block(right, block));
            if let (true, Some(checksums), Some(chosen)) = (self.mends, &row.checksums, chosen) {
                checksums.note_data(column, blocks.start + block, chosen);
            }
            let first_differs = |copy: &usize| copies.block(*copy, block) != copies.block(0, block);
            let sum = copies.checksums[block as usize];
            let odd = |copy: &usize| match (chosen, sum) {
                (Some(chosen), _) => copies.block(*copy, block) != chosen,
                (None, Some(sum)) => crc32c(copies.block(*copy, block)) != sum.crc,
                (None, None) => first_differs(copy) || !copies.plain,
            };
            for copy in (0..copies.read.len()).filter(odd) {
                self.note_copy(row, column, copies.read[copy].0, blocks.start + block);
                match (right, wrong.last_mut()) {
                    (None, _) => self.found.unrepaired_blocks += 1,
                    (Some(right), Some((target, source, _, end)))
                        if (*target, *source, *end) == (copy, right, block) =>
                    {
                        *end += 1
                    }
                    (Some(right), _) => wrong.push((copy, right, block, block + 1)),
                }
            }
        }
        for (target, source, start, end) in wrong {
            let offset = u64::from(blocks.start + start) * BLOCK_BYTES;
            let data = copies.read[source].1.slice(bytes_of(start), bytes_of(end - start));
            self.mend(row, copies.read[target].0, offset, data).await?;
        }
        self.found.unrepaired_blocks += copies.failed.len() as u64;
        Ok(())
    }

    /// Which copy of a block of a journal to go by where nothing tells and the journal holds nothing: one that is not
    /// overwritten with one byte. Old records are read from whichever copy has them, so that none is lost by that. Where
    /// the newest anchor is beyond all records, none of them is read any more: then any copy will do, of an anchor the
    /// newest.
    fn right_of_empty_journal(&self, block: u32, copies: &Copies) -> Option<usize> {
        let journal = self.journal.as_ref().filter(|journal| journal.held() == 0)?;
        let varied: Vec<usize> = (0..copies.read.len()).filter(|copy| !copies.is_uniform(*copy, block)).collect();
        let right = varied.first().copied().unwrap_or(0);
        if varied.iter().all(|other| copies.block(*other, block) == copies.block(right, block)) {
            return Some(right);
        }
        let anchor = |copy: &usize| journal.anchor_number(copies.block(*copy, block)).map(|number| (number, *copy));
        let newest = varied.iter().filter_map(anchor).max_by_key(|(number, _)| *number).map(|(_, copy)| copy);
        (journal.used() == 0).then_some(newest.unwrap_or(right))
    }

    fn note_copy(&mut self, row: &Row, column: usize, index: usize, block: u32) {
        let (slab, at) = (row.slabs.get(index), u64::from(block) * BLOCK_BYTES);
        let copy = index % row.copies();
        let (begin, piece) = match &self.journal {
            Some(journal) => {
                let before = journal.rows().iter().take_while(|other| other.chunk != row.chunk);
                (before.map(|row| row.data_bytes()).sum(), format!("journal copy {copy}"))
            }
            None => (u64::from(row.chunk) * self.inner.record.chunk_bytes, format!("copy {copy}")),
        };
        self.found.add(Mismatch {
            offset_bytes: begin + offset_in_chunk(row.shape(), column, at),
            piece,
            disk: slab.disk.id,
            disk_offset_bytes: slab.at(at),
            len_bytes: BLOCK_BYTES,
        });
    }
}
