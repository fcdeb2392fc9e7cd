//! Right and wrong copies of a column, distinguished by their checksums.
//!
//! A checksum that no copy agrees with may itself be what is wrong: another slab may have a newer one, or several
//! copies hold the same. Only where neither tells is a block given up, and then reads of it fail. So they do at once
//! where the checksum came with the block: it is what its writer had in mind.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use holdfast_device::{IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::wire::crc32c;
use holdfast_model::{BLOCK_BYTES, ByteSize, ObjectRef};
use holdfast_pool::{JOURNAL_CHUNK, Severity};

use crate::checksums::{KnownSum, PAGE_BLOCKS, PAGE_REGIONS};
use crate::column::Blocks;
use crate::parity::bytes_of;
use crate::row::Row;
use crate::stripe::joined;

/// What a copy holds of some blocks; `None` where it could not be read.
struct Held {
    index: usize,
    blocks: Vec<Option<IoSlice>>,
}

/// A run of blocks that a copy is to get.
struct Mend {
    index: usize,
    first: u32,
    blocks: Vec<IoSlice>,
}

impl Held {
    fn block(&self, at: u32) -> Option<&IoSlice> {
        self.blocks[at as usize].as_ref()
    }
}

/// Notes that a copy is to get a block, after those that it is to get already.
fn add_mend(mends: &mut Vec<Mend>, index: usize, block: u32, data: &IoSlice) {
    let follows = |mend: &&mut Mend| mend.index == index && mend.first + mend.blocks.len() as u32 == block;
    match mends.iter_mut().find(follows) {
        Some(mend) => mend.blocks.push(data.clone()),
        None => mends.push(Mend { index, first: block, blocks: vec![data.clone()] }),
    }
}

impl Row {
    /// Reads blocks of a column of which one was not as its checksum says.
    pub async fn read_right(&self, column: usize, blocks: Blocks) -> Result<IoBuf, IoError> {
        let _turn = self.turn(column, blocks).await;
        self.right_blocks(column, blocks).await
    }

    /// Reads blocks of a column from whichever copies have them right, and rewrites those that have not. The turn of
    /// the blocks must be held, and their regions must be in step.
    pub async fn right_blocks(&self, column: usize, blocks: Blocks) -> Result<IoBuf, IoError> {
        let mut whole = IoBuf::zeroed(bytes_of(blocks.end - blocks.start));
        let runs: Vec<(u32, u32)> = self.columns()[column].lock().written.runs(blocks.start, blocks.end).collect();
        for (start, end) in runs {
            let into = &mut whole[bytes_of(start - blocks.start)..bytes_of(end - blocks.start)];
            self.right_run(column, Blocks { start, end }, into).await?;
        }
        Ok(whole)
    }

    async fn right_run(&self, column: usize, blocks: Blocks, into: &mut [u8]) -> Result<(), IoError> {
        // A copy that counts has its checksums read, too.
        let copies = self.read_copies(column, blocks).await?;
        let known = self.known_sums(column, blocks).await?;
        let (mut mends, mut lost) = (Vec::new(), None);
        for (at, known) in (0u32..).zip(known) {
            let block = blocks.start + at;
            let Some((right, proven)) = self.right_copy(column, block, at, known, &copies).await else {
                lost.get_or_insert(block);
                continue;
            };
            into[bytes_of(at)..bytes_of(at + 1)].copy_from_slice(&right);
            let other = |copy: &&Held| copy.block(at).is_none_or(|data| data[..] != right[..]);
            for copy in copies.iter().filter(|_| proven).filter(other) {
                add_mend(&mut mends, copy.index, block, &right);
                if copy.block(at).is_some() {
                    self.slabs.get(copy.index).disk.counters.checksum_errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.mend_copies(mends).await;
        match lost {
            None => Ok(()),
            Some(block) => Err(self.lost_block(column, block, &copies)),
        }
    }

    /// The content of a block that counts, and whether it is certain; `None` where no copy has what can be believed.
    async fn right_copy(
        &self,
        column: usize,
        block: u32,
        at: u32,
        known: Option<KnownSum>,
        copies: &[Held],
    ) -> Option<(IoSlice, bool)> {
        let mut readable = copies.iter().filter_map(|copy| copy.block(at));
        let first = readable.clone().next()?;
        let Some(known) = known else {
            // What overwrites a disk together with its checksums leaves one byte throughout, on several disks the same.
            let proven = readable.clone().count() > 1 && first.iter().any(|byte| *byte != first[0]);
            let right = first.clone();
            if !proven || !readable.all(|data| data[..] == first[..]) {
                return None;
            }
            if let Some(checksums) = &self.checksums {
                checksums.note(column, block, &[crc32c(&right)]);
            }
            return Some((right, true));
        };
        if let Some(right) = readable.clone().find(|data| crc32c(data) == known.crc) {
            return Some((right.clone(), true));
        }
        let agree = !known.given && readable.clone().count() > 1 && readable.all(|data| data[..] == first[..]);
        let right = match agree {
            true => first.clone(),
            false => self.proven_by_another(column, block, at, copies).await?,
        };
        if let Some(checksums) = &self.checksums {
            checksums.note(column, block, &[crc32c(&right)]);
        }
        Some((right, true))
    }

    /// The copy of a block that is as the checksum says which one of the slabs has on disk.
    async fn proven_by_another(&self, column: usize, block: u32, at: u32, copies: &[Held]) -> Option<IoSlice> {
        let (page, in_page) = (block / PAGE_BLOCKS, block % PAGE_BLOCKS);
        let region_blocks = PAGE_BLOCKS / PAGE_REGIONS;
        let newest = self.checksums.as_ref().map_or(0, |checksums| checksums.version(column, block / region_blocks));
        for (index, _) in self.copies_of(column).filter(|(_, slab)| slab.usable()) {
            let Ok(regions) = self.read_slab_regions(index, page).await else { continue };
            let Some(region) = regions[(in_page / region_blocks) as usize] else { continue };
            if region.version < newest {
                continue;
            }
            let bit = in_page % region_blocks;
            let proven =
                |data: &&IoSlice| region.known >> bit & 1 == 1 && crc32c(data) == region.checksums[bit as usize];
            if let Some(right) = copies.iter().filter_map(|copy| copy.block(at)).find(proven) {
                return Some(right.clone());
            }
        }
        None
    }

    fn lost_block(&self, column: usize, block: u32, copies: &[Held]) -> IoError {
        let disks: Vec<String> =
            copies.iter().map(|copy| self.pool.disk_label(self.slabs.get(copy.index).disk.index)).collect();
        for copy in copies {
            self.slabs.get(copy.index).disk.counters.checksum_errors.fetch_add(1, Ordering::Relaxed);
        }
        let at = crate::stripe::offset_in_chunk(self.shape(), column, u64::from(block) * BLOCK_BYTES);
        let cause = format!(
            "no disk holds the block at byte {at} of this part as a checksum proves that it was written ({}): {}",
            disks.join(", "),
            self.part()
        );
        self.pool.emit(Severity::Error, self.object(), cause.clone(), "restore that data from a backup");
        IoError::new(IoErrorKind::Media, cause)
    }

    /// Makes the copies of a region agree, and takes their checksums. Where copies differ, the one counts that is as
    /// the checksum says. After a crash a checksum may be older than its block, so that without such a copy the first
    /// one counts; where no more than a write of this process was `torn`, a block without such a copy stays lost. The
    /// turn of the blocks must be held.
    pub async fn agree(&self, column: usize, blocks: Blocks, torn: bool) -> Result<(), IoError> {
        let mut doubtful = 0;
        let Some(checksums) = &self.checksums else { return Ok(()) };
        let runs: Vec<(u32, u32)> = self.columns()[column].lock().written.runs(blocks.start, blocks.end).collect();
        for (start, end) in runs {
            let copies = self.read_copies(column, Blocks { start, end }).await?;
            let hints =
                self.known_sums(column, Blocks { start, end }).await?.into_iter().map(|hint| hint.map(|hint| hint.crc));
            let mut mends = Vec::new();
            for (at, hint) in (0u32..).zip(hints) {
                let readable = || copies.iter().filter_map(|copy| copy.block(at));
                let hinted = readable().find(|data| Some(crc32c(data)) == hint);
                if hinted.is_none() && torn && hint.is_some() {
                    continue;
                }
                if hinted.is_none() && hint.is_some() && self.give_up_pending(column, start + at) {
                    continue;
                }
                doubtful += u64::from(hinted.is_none() && hint.is_some() && readable().count() == 1);
                let Some(right) = hinted.or_else(|| readable().next()) else {
                    if !torn {
                        checksums.forget(column, Blocks { start: start + at, end: start + at + 1 });
                    }
                    continue;
                };
                checksums.note(column, start + at, &[crc32c(right)]);
                let other = |copy: &&Held| copy.block(at).is_none_or(|data| data[..] != right[..]);
                copies.iter().filter(other).for_each(|copy| add_mend(&mut mends, copy.index, start + at, right));
            }
            self.write_mends(mends).await?;
        }
        self.doubtful.fetch_add(doubtful, Ordering::Relaxed);
        self.settle_column(column).await
    }

    /// Lets a block hold nothing again that was not durable when it was written first, and that its disk lost since.
    /// Answers whether it is such a one.
    fn give_up_pending(&self, column: usize, block: u32) -> bool {
        let mut state = self.columns()[column].lock();
        let pending = state.pending.contains(block);
        if pending {
            state.note_discarded(Blocks { start: block, end: block + 1 });
        }
        pending
    }

    /// Reads blocks of a column from every copy in step; one that fails as a whole is read block by block. It is an
    /// error where none is there to be read: that tells nothing of what they hold.
    async fn read_copies(&self, column: usize, blocks: Blocks) -> Result<Vec<Held>, IoError> {
        loop {
            self.settle_column(column).await?;
            let copies = self.read_usable(column, blocks).await;
            if copies.iter().any(|copy| self.slabs.get(copy.index).usable()) {
                return Ok(copies);
            }
        }
    }

    async fn read_usable(&self, column: usize, Blocks { start, end }: Blocks) -> Vec<Held> {
        let usable: Vec<usize> =
            self.copies_of(column).filter(|(_, slab)| slab.usable()).map(|(index, _)| index).collect();
        join_all(usable.into_iter().map(|index| async move {
            let read = async |first: u32, count: u32| {
                let slab = self.slabs.get(index);
                let offset = slab.at(u64::from(first) * BLOCK_BYTES);
                match slab.disk.read(offset, IoBuf::new(bytes_of(count))).await {
                    Ok(data) => Some(data.freeze()),
                    Err(error) => {
                        self.read_failed(&slab, &error).await;
                        None
                    }
                }
            };
            let mut blocks = Vec::with_capacity((end - start) as usize);
            match read(start, end - start).await {
                Some(data) => blocks.extend((0..end - start).map(|at| Some(data.slice(bytes_of(at), bytes_of(1))))),
                None => {
                    for block in start..end {
                        blocks.push(if self.slabs.get(index).usable() { read(block, 1).await } else { None });
                    }
                }
            }
            Held { index, blocks }
        }))
        .await
    }

    /// Rewrites what copies should hold, and tells so.
    async fn mend_copies(&self, mends: Vec<Mend>) {
        if self.pool.refusal().is_some() {
            return;
        }
        for mend in mends.into_iter().filter(|mend| self.slabs.get(mend.index).usable()) {
            let count = mend.blocks.len();
            if let Ok(true) = self.rewrite(mend.index, u64::from(mend.first) * BLOCK_BYTES, joined(&mend.blocks)).await
            {
                self.repairs.note(&self.pool, &self.path(), self.slabs.get(mend.index).disk.index, count as u64);
            }
        }
    }

    async fn write_mends(&self, mends: Vec<Mend>) -> Result<(), IoError> {
        for mend in mends.into_iter().filter(|mend| self.slabs.get(mend.index).usable()) {
            self.write_durably(mend.index, u64::from(mend.first) * BLOCK_BYTES, joined(&mend.blocks)).await?;
        }
        Ok(())
    }

    /// Its space, as events name it.
    pub fn object(&self) -> ObjectRef {
        self.pool.space_object(self.space)
    }

    /// How messages call the part of its space that it holds: `space tank/vm, 64 MiB from 128 MiB on`.
    pub fn part(&self) -> String {
        let path = self.path();
        if self.chunk >= JOURNAL_CHUNK {
            return format!("the journal of space {path}");
        }
        let chunk_bytes = self.pool.space(self.space).map_or(0, |space| space.chunk_bytes);
        let begin = u64::from(self.chunk) * chunk_bytes;
        format!("space {path}, {} from {} on", ByteSize(chunk_bytes), ByteSize(begin))
    }

    /// How messages call its space.
    pub fn path(&self) -> String {
        let name = self.pool.space(self.space).map_or_else(|| self.space.to_string(), |space| space.name.to_string());
        format!("{}/{name}", self.pool.name())
    }
}
