//! Data that waited in memory, written to its place.
//!
//! ```text
//!   file locked alone ─▶ 4 MiB of blocks ─▶ those over data that is the file's alone, in place
//!                                           others, in room beside what lies before them ─▶ extents and length changed
//! ```
//!
//! Who writes back: whoever makes a file durable, or looks at where it lies, or gives its name another's place; who
//! needs the memory; time.
//!
//! Invariant: a file reaches in the log only as far as its data does: blocks that are new to it are written in their order,
//! and the length follows.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use holdfast_model::BLOCK_BYTES;

use crate::OWNER_TREE;
use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::{self, EXTENTS_AT_ONCE, Ground, Piece};
use crate::integrity::sum_targets;
use crate::keys;
use crate::open_files::{File, Use};
use crate::quota::Enforce;
use crate::store::held;
use crate::transaction::BlockSum;
use crate::volume::{Volume, put_record, record_of};
use crate::write::{Room, Segment, Target};

/// Blocks that are written in one step, at most.
const STEP_BLOCKS: usize = 1024;
/// Places that one change has a file know, at most: each may cut an extent in three.
const TARGETS_AT_ONCE: usize = EXTENTS_AT_ONCE / 2;
/// Files that are written at once.
const AT_ONCE: usize = 16;

impl Volume {
    /// Writes back what waits of a file, if anything does.
    ///
    /// # Errors
    /// The device failed, or a node is damaged. What was not written waits on.
    pub(crate) async fn write_back(&self, number: u64) -> Result<(), VolumeError> {
        let Some(file) = self.open.enter_known(number) else { return Ok(()) };
        let written = {
            let _alone = file.data.write().await;
            // It may have lost its last name before this began to use it, and others its blocks since.
            held(&file.state).mapping = None;
            self.write_back_locked(&file).await
        };
        let is_waiting = !held(&file.state).delayed.is_empty();
        let logged = if is_waiting { Ok(()) } else { self.log_times(&file).await };
        let left = Box::pin(self.leave(&file, Use::Own)).await;
        written.and(logged).and(left)
    }

    /// Writes back what waits of some files; answers the first failure.
    pub(crate) async fn write_back_all(&self, files: &[u64]) -> Result<(), VolumeError> {
        if self.waiting.is_held_back.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut done = Ok(());
        for some in files.chunks(AT_ONCE) {
            let written = join_all(some.iter().map(|number| self.write_back(*number))).await;
            done = done.and(written.into_iter().collect());
        }
        done
    }

    /// Writes back what waited long enough.
    pub(crate) async fn write_back_aged(&self) {
        // Whoever makes a file durable is told of failures.
        _ = self.write_back_all(&self.waiting.turn()).await;
    }

    /// Writes back what waits of a file that is locked alone. What cannot be written waits on.
    pub(crate) async fn write_back_locked(&self, file: &File) -> Result<(), VolumeError> {
        self.write_back_below(file, u64::MAX).await
    }

    /// The same for what lies in the blocks before one.
    pub(crate) async fn write_back_below(&self, file: &File, end: u64) -> Result<(), VolumeError> {
        if held(&file.state).delayed.is_empty() {
            return Ok(());
        }
        match self.write_delayed(file, end).await {
            Ok(()) => {
                if held(&file.state).delayed.is_empty() {
                    self.end_delay(file);
                }
                Ok(())
            }
            // It was removed meanwhile: who did that lets go of what waits.
            Err(error) if error.kind == ErrorKind::Stale => Ok(()),
            Err(error) => {
                self.waiting.note_failure(file.id.number, error.clone());
                Err(error)
            }
        }
    }

    async fn write_delayed(&self, file: &File, end: u64) -> Result<(), VolumeError> {
        self.store.check_failed()?;
        loop {
            let segments = held(&file.state).delayed.first(end, STEP_BLOCKS);
            if segments.is_empty() {
                return Ok(());
            }
            let mut pieces = Vec::with_capacity(segments.len());
            for Segment { block, data } in &segments {
                pieces.extend(self.pieces(file, *block, block + data.len() as u64 / BLOCK_BYTES).await?);
            }
            if !self.overwrite(file, &segments, &pieces).await? {
                self.write_new(file, &segments, &pieces).await?;
            }
        }
    }

    /// Writes the blocks that lie where the file has data already, below the length in the log; false if there are none.
    async fn overwrite(&self, file: &File, segments: &[Segment], pieces: &[Piece]) -> Result<bool, VolumeError> {
        let (size, recorded) = {
            let state = held(&file.state);
            (state.size, state.delayed.recorded)
        };
        let target = |piece: &Piece| match &piece.ground {
            // Neither snapshots nor clones are made while anything waits: what is nobody else's stays so.
            Ground::Written(extent)
                if !self.is_others(file, piece)
                    && ((piece.block + piece.blocks) * BLOCK_BYTES).min(size) <= recorded.0 =>
            {
                Some(Target::old(piece.block, extent.clone(), true))
            }
            _ => None,
        };
        let targets: Vec<Target> = pieces.iter().filter_map(target).collect();
        if targets.is_empty() {
            return Ok(false);
        }
        self.note_overwrite(file).await?;
        self.write_targets(segments, &targets, |_| true, false).await?;
        held(&file.state).written = self.store.data.note();
        self.note_placed(file, &targets, recorded);
        Ok(true)
    }

    /// Writes blocks to room of their own, and has the file know them.
    async fn write_new(&self, file: &File, segments: &[Segment], pieces: &[Piece]) -> Result<(), VolumeError> {
        let (recorded, _) = held(&file.state).delayed.recorded;
        let mut targets = self.targets(file, pieces, recorded, Room::Promised, usize::MAX).await?;
        if targets.iter().any(|target| target.is_written)
            && let Err(error) = self.note_overwrite(file).await
        {
            self.give_up(&targets);
            return Err(error);
        }
        sum_targets(file, segments, &mut targets);
        let (mut left, mut most) = (&targets[..], TARGETS_AT_ONCE);
        let written = self.write_targets(segments, &targets, |_| true, self.store.log.may_prove()).await;
        let number = self.store.data.note();
        let mut done = written.as_ref().map(drop).map_err(VolumeError::clone);
        let sums = written.unwrap_or_default();
        while done.is_ok() && !left.is_empty() {
            let some = &left[..most.min(left.len())];
            match self.take_over(file, some, &sums, number).await {
                Ok(count) => left = &left[count..],
                // A change of fewer extents needs less room for nodes.
                Err(error) if error.kind == ErrorKind::NoSpace && some.len() > 1 => most = some.len() / 2,
                Err(error) => done = Err(error),
            }
        }
        self.give_up(left);
        done
    }

    /// Has a file know blocks that are written, as many of the first of them as one change can name; answers how many.
    async fn take_over(
        &self,
        file: &File,
        targets: &[Target],
        sums: &[BlockSum],
        written: u64,
    ) -> Result<usize, VolumeError> {
        let id = file.id;
        let all: Vec<(u64, Extent)> = targets.iter().map(|target| (target.block, target.extent.clone())).collect();
        let change = self.store.change([keys::shard(id.number), OWNER_TREE], Need::Less, |view| {
            let mut record = record_of(view, id)?;
            let count = extents::put_over(view, id.number, &mut record, &all)?;
            let some = &targets[..count];
            let end = some.last().map_or(0, |last| last.blocks().end * BLOCK_BYTES);
            record.inline = None;
            record.size = record.size.max(end.min(held(&file.state).size));
            view.follow_data();
            let is_own = |sum: &BlockSum| some.iter().any(|target| target.places().contains(&sum.place));
            view.prove_data(&sums.iter().copied().filter(is_own).collect::<Vec<_>>());
            view.redeem(some.iter().filter(|target| !target.is_moved()).map(Target::promised).sum());
            // It was counted when it was accepted.
            view.enforce(Enforce::Nothing);
            let stamped = self.stamp(file, &mut record);
            put_record(view, id.number, &record)?;
            Ok((count, record.size, stamped))
        });
        let ((count, size, stamped), logged) = change.await?;
        {
            let mut state = held(&file.state);
            (state.logged, state.written, state.mapping) = (logged, written, None);
            state.note_stamped(stamped);
        }
        let some = &targets[..count];
        self.note_placed(file, some, (size, false));
        Ok(count)
    }
}
