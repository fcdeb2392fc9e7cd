//! Data that waited in memory, written to its place.
//!
//! ```text
//!   file locked alone ─▶ run of blocks ─▶ place beside what lies before it ─▶ written ─▶ extents and length changed
//!                              ▲                                                               │
//!                              └───────────────────── the next one ◀───────────────────────────┘
//! ```
//!
//! Who writes back: whoever makes a file durable, or looks at where it lies, or gives its name another's place; who
//! needs the memory; time.
//!
//! Invariant: a file reaches in the log only as far as its data does: blocks are written in their order, and the length
//! follows.

use futures_util::future::join_all;
use holdfast_device::IoSlice;
use holdfast_model::BLOCK_BYTES;

use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::{self, EXTENTS_AT_ONCE};
use crate::keys;
use crate::open_files::File;
use crate::store::held;
use crate::volume::{Volume, put_record, record_of};
use crate::write::{Room, Segment, Target};

/// Blocks that are written in one step, at most.
const STEP_BLOCKS: u64 = 1024;
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
            self.write_back_locked(&file).await
        };
        let logged = if self.open.is_last(number) { self.log_times(&file).await } else { Ok(()) };
        let left = Box::pin(self.leave(&file)).await;
        written.and(logged).and(left)
    }

    /// Writes back what waits of some files; answers the first failure.
    pub(crate) async fn write_back_all(&self, files: &[u64]) -> Result<(), VolumeError> {
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

    /// Writes back what waits of a file that is locked alone. A failure is told to whoever makes it durable, too.
    pub(crate) async fn write_back_locked(&self, file: &File) -> Result<(), VolumeError> {
        if held(&file.state).delayed.is_empty() {
            return Ok(());
        }
        match self.write_delayed(file).await {
            Ok(()) => {
                self.end_delay(file);
                Ok(())
            }
            // It was removed meanwhile.
            Err(error) if error.kind == ErrorKind::Stale => {
                self.drop_delayed(file);
                Ok(())
            }
            Err(error) => {
                held(&file.state).failures.note(error.clone());
                Err(error)
            }
        }
    }

    async fn write_delayed(&self, file: &File) -> Result<(), VolumeError> {
        self.store.check_failed()?;
        loop {
            let run = held(&file.state).delayed.first_run(STEP_BLOCKS);
            let Some((block, data)) = run else { return Ok(()) };
            self.write_run(file, block, data).await?;
        }
    }

    /// Writes blocks that follow each other, or the first ones of them.
    async fn write_run(&self, file: &File, block: u64, data: IoSlice) -> Result<(), VolumeError> {
        let to = block + data.len() as u64 / BLOCK_BYTES;
        let segments = [Segment { block, data }];
        let mut most = EXTENTS_AT_ONCE;
        loop {
            let (recorded, _) = held(&file.state).delayed.recorded;
            let pieces = self.pieces(file, block, to).await?;
            let targets = self.targets(file, &pieces, recorded, Room::Promised, most).await?;
            match self.place(file, &segments, &targets).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    self.give_up(&targets);
                    if error.kind != ErrorKind::NoSpace || targets.len() <= 1 {
                        return Err(error);
                    }
                    // A change of fewer extents needs less room for nodes.
                    most = targets.len() / 2;
                }
            }
        }
    }

    /// Writes blocks to their places, and has the file know them.
    async fn place(&self, file: &File, segments: &[Segment], targets: &[Target]) -> Result<(), VolumeError> {
        let (Some(first), Some(last)) = (targets.first(), targets.last()) else { return Ok(()) };
        let blocks = first.block..last.block + u64::from(last.extent.blocks);
        let sums = self.write_targets(segments, targets, self.store.log.may_prove()).await?;
        let written = self.store.data.note();
        let (end, recorded) = {
            let state = held(&file.state);
            (state.size.min(blocks.end * BLOCK_BYTES), state.delayed.recorded)
        };
        if end <= recorded.0 && targets.iter().all(|target| target.is_written) {
            held(&file.state).written = written;
            self.note_placed(file, blocks, 0, recorded);
            return Ok(());
        }
        let new: Vec<(u64, Extent)> = targets.iter().map(|target| (target.block, target.extent)).collect();
        let promised = targets.iter().map(Target::promised).sum();
        let id = file.id;
        let change = self.store.change([keys::shard(id.number)], Need::Less, |view| {
            let mut record = record_of(view, id)?;
            extents::replace(view, id.number, &mut record, blocks.clone(), &new)?;
            record.inline = None;
            record.size = record.size.max(end);
            view.follow_data();
            view.prove_data(&sums);
            view.redeem(promised);
            let stamped = self.stamp(file, &mut record);
            put_record(view, id.number, &record)?;
            Ok((record.size, stamped))
        });
        let ((size, stamped), logged) = change.await?;
        {
            let mut state = held(&file.state);
            (state.logged, state.written, state.mapping) = (logged, written, None);
            state.note_stamped(stamped);
        }
        self.note_placed(file, blocks, promised, (size, false));
        Ok(())
    }
}
