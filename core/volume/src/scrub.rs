//! All blocks that have checksums read, in every copy, some at a time: those of files, then those that snapshots have.
//!
//! ```text
//!   files by their trees and numbers ─▶ the newest snapshot ─▶ … ─▶ the oldest one
//! ```
//!
//! Whoever scrubs asks for one step after the other and waits between them as long as it likes; what a step answers says
//! where the next one begins, also after the volume was closed meanwhile.
//!
//! Invariant: while a block is read and put right its file is held, and a snapshot that has it is not destroyed.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdfast_model::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

use crate::SHARED_TREES;
use crate::change::{Stop, View};
use crate::checked::{DamageOutcome, DamagedBlock, Held};
use crate::error::{ErrorKind, VolumeError};
use crate::extents::{self, Ground, MAIN};
use crate::keys;
use crate::open_files::{File, Use};
use crate::record::Record;
use crate::scan::judge;
use crate::service::{DosAttributes, FileId};
use crate::superblock::CHECKSUMS;
use crate::volume::Volume;

/// Extents that are looked up before any of them is read, at most.
const MOST_EXTENTS: usize = 1024;
/// Blocks that are lost and told by one step, at most.
const MOST_TOLD: usize = 1000;

/// Where a scrub goes on. The default is where it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubFrom {
    /// The checkpoint of a snapshot; `None` for files as they are.
    pub snapshot: Option<u64>,
    /// The tree of files.
    pub tree: u8,
    /// The number of the file.
    pub file: u64,
    /// Its block.
    pub block: u64,
}

/// What a step of a scrub did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Where the next step begins; `None` at the end.
    pub next: Option<ScrubFrom>,
    /// Blocks with checksums that were read.
    pub checked: u64,
    /// Those of them that were wrong in a copy and are right in all now.
    pub healed: u64,
    /// Those of them that are right in no copy, and blocks of strict files that a repair gave up.
    pub lost: u64,
    /// Blocks of strict files that have no checksums, and were not read: what was there before the file became strict if
    /// that was cut short, what came from another file that is not strict, and what a repair made again. Setting the file
    /// strict again gives them those of what they hold now.
    pub unsummed: u64,
    /// Parts of trees that were left out because nodes are damaged: a scan tells which.
    pub unreadable: u64,
    /// The first of the blocks that are lost or could not be put right.
    pub damaged: Vec<DamagedBlock>,
}

/// A run of blocks of a file, to be looked at under its lock.
struct Run {
    file: u64,
    blocks: Range<u64>,
    is_summed: bool,
}

/// Runs that were found, and the file and block that those behind them begin at.
type Found = (Vec<Run>, Option<(u64, u64)>);

impl Volume {
    /// Reads blocks that have checksums, in all copies, and puts right what it can: about `most_bytes` of them from a place
    /// on, at least one extent. Files that scrubs are to leave alone are left out.
    ///
    /// # Errors
    /// The device failed, or the volume is not in use any more.
    pub async fn scrub(&self, from: ScrubFrom, most_bytes: u64) -> Result<Scrubbed, VolumeError> {
        let mut done = Scrubbed::default();
        // Without the feature nothing has any.
        if !self.store.has_feature(CHECKSUMS) {
            return Ok(done);
        }
        self.store.check_interrupted()?;
        if from.snapshot.is_none() {
            done.next = self.scrub_trees(self, from, most_bytes, &mut done).await?;
        } else {
            // None is destroyed meanwhile.
            let _no_change = self.snapshotting.lock().await;
            if let Some(view) = self.view_at(from.snapshot)? {
                done.next = self.scrub_trees(&view, from, most_bytes, &mut done).await?;
            }
        }
        if done.next.is_none() {
            let before = from.snapshot.unwrap_or(u64::MAX);
            let older = self.snapshots().into_iter().map(|one| one.generation).filter(|one| *one < before).max();
            done.next = older.map(|snapshot| ScrubFrom { snapshot: Some(snapshot), ..ScrubFrom::default() });
        }
        Ok(done)
    }

    /// Whether a block at a byte of a file, as it is or as the snapshot of a checkpoint has it, is right in no copy, or may be
    /// because metadata cannot be read: also of files that scrubs leave alone.
    ///
    /// # Errors
    /// The device failed, or the volume is not in use any more.
    pub async fn is_lost(&self, snapshot: Option<u64>, file: u64, offset: u64) -> Result<bool, VolumeError> {
        self.store.check_interrupted()?;
        let block = offset / BLOCK_BYTES;
        let run = [Run { file, blocks: block..block + 1, is_summed: true }];
        let mut done = Scrubbed::default();
        if snapshot.is_none() {
            self.scrub_file(self, file, &run, |_| true, &mut done).await?;
        } else {
            // None is destroyed meanwhile.
            let _no_change = self.snapshotting.lock().await;
            if let Some(view) = self.view_at(snapshot)? {
                self.scrub_file(&view, file, &run, |_| true, &mut done).await?;
            }
        }
        Ok(done.lost > 0 || done.unreadable > 0)
    }

    /// The snapshot of a checkpoint, if it is still there.
    fn view_at(&self, generation: Option<u64>) -> Result<Option<Arc<Volume>>, VolumeError> {
        let known = self.snapshots().into_iter().find(|one| Some(one.generation) == generation);
        match known.map(|snapshot| self.view(&snapshot)).transpose() {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            view => view,
        }
    }

    /// Scrubs files of this volume, or of a snapshot of it; answers where to go on in the same.
    async fn scrub_trees(
        &self,
        of: &Volume,
        from: ScrubFrom,
        most_bytes: u64,
        done: &mut Scrubbed,
    ) -> Result<Option<ScrubFrom>, VolumeError> {
        if from.tree >= SHARED_TREES {
            return Ok(None);
        }
        let most = (most_bytes / BLOCK_BYTES).max(1);
        let first = keys::extent(from.file, MAIN, from.block.saturating_add(1));
        let look = of.store.look([from.tree], |view| runs_from(view, from.tree, &first, most));
        let (runs, next) = match look.await {
            Ok(found) => found,
            Err(error) if error.kind == ErrorKind::Corrupt => {
                done.unreadable += 1;
                (Vec::new(), None)
            }
            Err(error) => return Err(error),
        };
        let mut files: BTreeMap<u64, Vec<Run>> = BTreeMap::new();
        runs.into_iter().for_each(|run| files.entry(run.file).or_default().push(run));
        let is_wanted = |record: &Record| !record.dos().contains(DosAttributes::NO_SCRUB_DATA);
        for (number, runs) in files {
            self.scrub_file(of, number, &runs, is_wanted, done).await?;
        }
        Ok(Some(match next {
            Some((file, block)) => ScrubFrom { file, block, ..from },
            None => ScrubFrom { snapshot: from.snapshot, tree: from.tree + 1, file: 0, block: 0 },
        }))
    }

    async fn scrub_file(
        &self,
        of: &Volume,
        number: u64,
        runs: &[Run],
        is_wanted: impl Fn(&Record) -> bool,
        done: &mut Scrubbed,
    ) -> Result<(), VolumeError> {
        // What waits for its place is right, whatever it is to be written over.
        if !of.waiting.is_held_back.load(Ordering::Acquire) {
            _ = of.write_back(number).await;
        }
        let record = match of.store.look([keys::shard(number)], |view| judge::record(view, number)).await {
            Ok(Some(record)) => record,
            // It went meanwhile, or a scan tells of it.
            Ok(None) => return Ok(()),
            Err(error) if error.kind == ErrorKind::Corrupt => {
                done.unreadable += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if !is_wanted(&record) {
            return Ok(());
        }
        let id = FileId { number, generation: record.generation };
        let file = of.open.enter(id, Use::Own);
        let scrubbed = async {
            match of.load_state(&file, Use::Own, |_, _| Ok(())).await {
                Err(error) if error.kind == ErrorKind::Stale => return Ok(()),
                loaded => loaded?,
            }
            for run in runs.iter().filter(|run| run.is_summed || record.is_strict()) {
                self.scrub_run(of, &file, &record, run, done).await?;
            }
            Ok(())
        };
        let scrubbed = scrubbed.await;
        let left = of.leave(&file, Use::Own).await;
        scrubbed.and(left)
    }

    /// Scrubs what lies under blocks of a file now.
    async fn scrub_run(
        &self,
        of: &Volume,
        file: &File,
        record: &Record,
        run: &Run,
        done: &mut Scrubbed,
    ) -> Result<(), VolumeError> {
        let _held = file.data.read().await;
        let pieces = match of.pieces(file, run.blocks.start, run.blocks.end).await {
            Err(error) if error.kind == ErrorKind::Corrupt => {
                done.unreadable += 1;
                return Ok(());
            }
            pieces => pieces?,
        };
        for piece in &pieces {
            let extent = match &piece.ground {
                Ground::Written(extent) => extent,
                // A repair gave them up.
                Ground::Lost => {
                    let told = (piece.block..piece.block + piece.blocks).map(|block| DamagedBlock {
                        file: file.id.number,
                        snapshot: of.store.snapshot,
                        offset: block * BLOCK_BYTES,
                        outcome: DamageOutcome::Lost,
                    });
                    done.lost += piece.blocks;
                    done.damaged.extend(told.take(MOST_TOLD.saturating_sub(done.damaged.len())));
                    continue;
                }
                _ => continue,
            };
            if extent.sums.is_none() {
                done.unsummed += if record.is_strict() { piece.blocks } else { 0 };
                continue;
            }
            let held = Held { file: file.id.number, snapshot: of.store.snapshot, block: piece.block, extent };
            done.checked += piece.blocks;
            for damaged in self.check_copies(held).await? {
                match damaged.outcome {
                    DamageOutcome::Healed => done.healed += 1,
                    DamageOutcome::Served => {}
                    DamageOutcome::Lost => done.lost += 1,
                }
                if damaged.outcome != DamageOutcome::Healed && done.damaged.len() < MOST_TOLD {
                    done.damaged.push(damaged);
                }
            }
        }
        Ok(())
    }
}

/// Extents that hold data from a key on: of one leaf, of so many blocks. Answers where those behind them begin, by file and
/// block.
fn runs_from(view: &View<'_>, tree: u8, from: &[u8], most: u64) -> Result<Found, Stop> {
    let (mut runs, mut blocks, mut behind) = (Vec::new(), 0, None);
    let next = view.visit(tree, from, |key, value| {
        let Some((file, MAIN, end)) = keys::read_extent(tree, key) else { return ControlFlow::Continue(()) };
        if blocks >= most || runs.len() >= MOST_EXTENTS {
            behind = Some((file, end - 1));
            return ControlFlow::Break(());
        }
        if let Ok((start, extent)) = extents::decode(key, value)
            && extent.is_written
        {
            let is_summed = extent.sums.is_some();
            blocks += if is_summed { u64::from(extent.blocks) } else { 0 };
            runs.push(Run { file, blocks: start..end, is_summed });
        }
        ControlFlow::Continue(())
    })?;
    Ok((runs, behind.or_else(|| next.as_deref().map(place))))
}

/// The file and block that extents from a key on begin at, whatever stands at that key.
pub(crate) fn place(key: &[u8]) -> (u64, u64) {
    let mut whole = key.to_vec();
    whole.resize(keys::extent(0, MAIN, 0).len(), 0);
    let file = keys::number(&whole, 0).unwrap_or_default();
    let (of_file, beyond) = (keys::extents(file, MAIN), (file.saturating_add(1), 0));
    match whole[..of_file.len()].cmp(&of_file) {
        std::cmp::Ordering::Less => (file, 0),
        std::cmp::Ordering::Equal => (file, keys::number(&whole, 13).unwrap_or_default().saturating_sub(1)),
        std::cmp::Ordering::Greater => beyond,
    }
}

#[cfg(test)]
mod tests;
