//! Blocks that have checksums: read, held against these, and put right from another copy.
//!
//! ```text
//!   extent read ─▶ each block as its checksum says?  yes ─▶ delivered
//!                    │ no, or it cannot be read
//!                    └─▶ another copy that is ─▶ delivered, all copies written anew
//!                        none                 ─▶ an error for who reads it; the rest can be read
//! ```
//!
//! Who reads holds the file, shared or alone, so its blocks are given to nobody else meanwhile, and blocks with checksums
//! are written over by nobody: what is written anew is what stands there, or should.
//!
//! Invariant: no byte of a block with a checksum is delivered unless the block is as that says.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_device::{IoBuf, IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;
use serde::Serialize;

use crate::error::VolumeError;
use crate::extent::Extent;
use crate::open_files::File;
use crate::page::crc_of;
use crate::service::FileId;
use crate::store::held;
use crate::sums::Sums;
use crate::volume::Volume;

const BLOCK: usize = BLOCK_BYTES as usize;
/// Damaged blocks that wait to be taken, at most.
const MOST_FOUND: usize = 256;

/// How many blocks were held against checksums of their own since the volume was opened, and what came of it. A block
/// counts each time that it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChecksumCounts {
    /// Blocks that were read.
    pub checked: u64,
    /// Those of them that were not as they should be in a copy, or could not be read there.
    pub wrong: u64,
    /// Those of the wrong ones that were written anew from another copy.
    pub healed: u64,
    /// Those of the wrong ones that are right in no copy.
    pub lost: u64,
}

/// What became of a damaged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DamageOutcome {
    /// Another copy was right, and all were written anew.
    Healed,
    /// Another copy was right, and the wrong one could not be written, or may not be: as through a snapshot.
    Served,
    /// No copy is right: reading it is an error.
    Lost,
}

/// A block that was not as its checksum says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedBlock {
    /// The number of the file.
    pub file: u64,
    /// The snapshot that has it, by its checkpoint; `None` where the file has it as it is.
    pub snapshot: Option<u64>,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// What became of it.
    pub outcome: DamageOutcome,
}

/// Counts of a volume and its snapshots.
#[derive(Default)]
pub(crate) struct Checks {
    checked: AtomicU64,
    wrong: AtomicU64,
    healed: AtomicU64,
    lost: AtomicU64,
    found: Mutex<Vec<DamagedBlock>>,
}

impl Checks {
    fn note_checked(&self, blocks: u32) {
        self.checked.fetch_add(blocks.into(), Ordering::Relaxed);
    }

    fn note(&self, damaged: DamagedBlock) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        match damaged.outcome {
            DamageOutcome::Healed => _ = self.healed.fetch_add(1, Ordering::Relaxed),
            DamageOutcome::Served => {}
            DamageOutcome::Lost => _ = self.lost.fetch_add(1, Ordering::Relaxed),
        }
        let mut found = held(&self.found);
        if found.contains(&damaged) {
            return;
        }
        if found.len() == MOST_FOUND {
            // What is lost matters more than what is right again.
            let other = found.iter().position(|known| known.outcome != DamageOutcome::Lost);
            match other.filter(|_| damaged.outcome == DamageOutcome::Lost) {
                Some(other) => _ = found.swap_remove(other),
                None => return,
            }
        }
        found.push(damaged);
    }
}

/// An extent of a file that is held, and where it begins in it.
#[derive(Clone, Copy)]
pub(crate) struct Held<'a> {
    pub file: u64,
    pub snapshot: Option<u64>,
    pub block: u64,
    pub extent: &'a Extent,
}

impl Held<'_> {
    fn offset(&self, index: usize) -> u64 {
        (self.block + index as u64) * BLOCK_BYTES
    }

    fn address(&self, index: usize) -> u64 {
        (self.extent.place + index as u64) * BLOCK_BYTES
    }

    fn damaged(&self, index: usize, outcome: DamageOutcome) -> DamagedBlock {
        DamagedBlock { file: self.file, snapshot: self.snapshot, offset: self.offset(index), outcome }
    }
}

/// Whether an error is about the blocks that were asked for, and not about the device as a whole.
fn is_of_blocks(error: &IoError) -> bool {
    matches!(error.kind, IoErrorKind::Media | IoErrorKind::Stale)
}

/// Why a block cannot be read.
fn lost(file: u64, offset: u64) -> VolumeError {
    VolumeError::corrupt(format!(
        "bytes {offset} to {} of file {file} are in no copy as they were written: write them anew, or restore the file",
        offset + BLOCK_BYTES - 1
    ))
}

impl Volume {
    /// How many blocks were held against checksums of their own since the volume was opened, its snapshots' too.
    pub fn checksum_counts(&self) -> ChecksumCounts {
        let checks = &self.store.checks;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ChecksumCounts {
            checked: of(&checks.checked),
            wrong: of(&checks.wrong),
            healed: of(&checks.healed),
            lost: of(&checks.lost),
        }
    }

    /// The blocks that were found damaged since this was asked last: up to 256 of them, each once, those that are lost before
    /// others.
    pub fn take_damaged(&self) -> Vec<DamagedBlock> {
        std::mem::take(&mut *held(&self.store.checks.found))
    }

    /// Reads an extent of a file that is held, shared or alone.
    pub(crate) async fn read_extent(&self, file: &File, block: u64, extent: &Extent) -> Result<IoBuf, VolumeError> {
        let (buf, wrong) = Box::pin(self.read_checked(self.held(file.id, block, extent))).await?;
        match wrong.first() {
            None => Ok(buf),
            Some(index) => Err(lost(file.id.number, (block + *index as u64) * BLOCK_BYTES)),
        }
    }

    /// An extent of a file of this volume, or of the snapshot that it is.
    pub(crate) fn held<'a>(&self, file: FileId, block: u64, extent: &'a Extent) -> Held<'a> {
        Held { file: file.number, snapshot: self.store.snapshot, block, extent }
    }

    /// Reads an extent whose file is held; answers also which of its blocks are right in no copy. Those are as they can be
    /// read, or zeros.
    pub(crate) async fn read_checked(&self, held: Held<'_>) -> Result<(IoBuf, Vec<usize>), VolumeError> {
        let extent = held.extent;
        let read = self.store.device.read(held.address(0), IoBuf::new(extent.blocks as usize * BLOCK)).await;
        let Some(sums) = &extent.sums else { return Ok((read?, Vec::new())) };
        self.store.checks.note_checked(extent.blocks);
        let (mut buf, wrong) = match read {
            Ok(buf) => {
                let wrong: Vec<usize> = sums.wrong(&buf).collect();
                (buf, wrong)
            }
            Err(error) if is_of_blocks(&error) => {
                let buf = self.store.media.read_what_can_be(held.address(0), extent.blocks as usize * BLOCK).await;
                let wrong = sums.wrong(&buf).collect();
                (buf, wrong)
            }
            Err(error) => return Err(error.into()),
        };
        let mut lost = Vec::new();
        for index in wrong {
            match self.heal(held, index, sums).await.1 {
                Some(right) => buf[index * BLOCK..(index + 1) * BLOCK].copy_from_slice(&right),
                None => lost.push(index),
            }
        }
        Ok((buf, lost))
    }

    /// Finds the right content of a block that is wrong, if a copy has it, and brings all copies to it.
    async fn heal(&self, held: Held<'_>, index: usize, sums: &Sums) -> (DamagedBlock, Option<Vec<u8>>) {
        let (at, media) = (held.address(index), &self.store.media);
        let right = media.other(at, BLOCK, |buf| (crc_of(buf) == sums.get(index)).then(|| buf.to_vec())).await;
        let Some((right, buf)) = right else {
            let damaged = held.damaged(index, DamageOutcome::Lost);
            self.store.checks.note(damaged);
            return (damaged, None);
        };
        let is_healed = match &media.copies {
            // What is read only, as a snapshot, writes nothing.
            Some(copies) if self.store.check_failed().is_ok() => copies.rewrite(at, buf.freeze()).await.is_ok(),
            _ => false,
        };
        let outcome = if is_healed { DamageOutcome::Healed } else { DamageOutcome::Served };
        let damaged = held.damaged(index, outcome);
        self.store.checks.note(damaged);
        (damaged, Some(right))
    }

    /// Reads all copies of an extent with checksums whose file is held, and puts right what can be; answers what was wrong.
    pub(crate) async fn check_copies(&self, held: Held<'_>) -> Result<Vec<DamagedBlock>, VolumeError> {
        let (extent, len) = (held.extent, held.extent.blocks as usize * BLOCK);
        let Some(sums) = &extent.sums else { return Ok(Vec::new()) };
        let mut wrong = BTreeSet::new();
        match &self.store.media.copies {
            None => match self.store.device.read(held.address(0), IoBuf::new(len)).await {
                Ok(buf) => wrong.extend(sums.wrong(&buf)),
                Err(error) if is_of_blocks(&error) => {
                    wrong.extend(sums.wrong(&self.store.media.read_what_can_be(held.address(0), len).await));
                }
                Err(error) => return Err(error.into()),
            },
            Some(copies) => {
                let mut away = None;
                let mut is_answered = false;
                for number in 0..copies.copies(held.address(0), len as u64) {
                    match copies.read_copy(number, held.address(0), IoBuf::new(len)).await {
                        Ok(buf) => {
                            is_answered = true;
                            wrong.extend(sums.wrong(&buf));
                        }
                        // Which of the blocks it is, is found block by block.
                        Err(error) if is_of_blocks(&error) => {
                            is_answered = true;
                            for index in 0..extent.blocks as usize {
                                let read = copies.read_copy(number, held.address(index), IoBuf::new(BLOCK)).await;
                                if !read.is_ok_and(|buf| crc_of(&buf) == sums.get(index)) {
                                    wrong.insert(index);
                                }
                            }
                        }
                        // A copy that is away as a whole is for who has the device to say.
                        Err(error) => away = Some(error),
                    }
                }
                if let Some(error) = away.filter(|_| !is_answered) {
                    return Err(error.into());
                }
            }
        }
        self.store.checks.note_checked(extent.blocks);
        let mut damaged = Vec::with_capacity(wrong.len());
        for index in wrong {
            damaged.push(self.heal(held, index, sums).await.0);
        }
        Ok(damaged)
    }
}

#[cfg(test)]
pub(crate) mod tests;
