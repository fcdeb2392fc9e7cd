//! Ranges of files that get the blocks that a file of a snapshot has: what is restored is not copied.
//!
//! ```text
//!   an extent of the snapshot ─▶ its blocks in the map of owners
//!                                the file's still: it knows that they are shared
//!                                kept: by a reference from now on
//!                            ─▶ the target has references to them
//! ```
//!
//! Invariant: no file that has blocks of a snapshot as its own writes over them once another has them, too.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::BLOCK_BYTES;

use crate::change::{Need, Stop, View};
use crate::cloning::{CloneRange, lock_both};
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::{self, Ground, LOST, Piece};
use crate::open_files::{File, Handle, Use};
use crate::scan::runs;
use crate::service::{Caller, FileId, FileService, OpenMode};
use crate::store::held;
use crate::sums::MOST_SUMMED;
use crate::volume::Volume;

/// Parts of an extent that the map of owners has by themselves, of which one change makes references.
const OWNERS_AT_ONCE: usize = 8;
/// Blocks of the source that are looked up at once.
const LOOK_BLOCKS: u64 = 1 << 16;

/// Why the blocks of a snapshot cannot be shared, in words.
fn unclear(why: &str) -> VolumeError {
    VolumeError::corrupt(format!("{why}: scan and repair the volume first"))
}

/// What stands between blocks of a snapshot and another file that is to have them.
enum Way {
    /// Nothing, for so many blocks.
    Free(u32),
    /// A file has them as its own: these of its blocks.
    Own(u64, std::ops::Range<u64>),
}

impl Volume {
    /// Has a range of a file be what a range of a file of a snapshot is, by the same blocks: offsets in bytes, in both. The
    /// snapshot is not destroyed meanwhile.
    ///
    /// # Errors
    /// There is no such snapshot or file, the caller may not read it, what [`FileService::clone_range`] refuses, no room
    /// or quota, or a node is damaged. A part of the range may be done then, from its beginning.
    pub async fn clone_from_snapshot(
        &self,
        caller: &Caller,
        (snapshot, id, offset): (&str, FileId, u64),
        to: (&Handle, u64),
        len: u64,
    ) -> Result<(), VolumeError> {
        let view = self.open_snapshot(snapshot)?;
        let mode = OpenMode { read: true, write: false, truncate: false };
        let from = view.open_file(caller, id, mode).await?;
        let cloned = self.clone_past(&view, (&from, offset), to, len).await;
        view.close(from).await?;
        cloned
    }

    /// The same of a file of a snapshot that is open.
    pub(crate) async fn clone_past(
        &self,
        view: &Volume,
        from: (&Handle, u64),
        to: (&Handle, u64),
        len: u64,
    ) -> Result<(), VolumeError> {
        Self::check_mode(from.0, false)?;
        Self::check_mode(to.0, true)?;
        let range = CloneRange { from: from.1, to: to.1, len };
        self.clone_past_range(view, from.0, to.0, range).await.map_err(|(_, error)| error)
    }

    /// The same; a failure says how many bytes are done.
    pub(crate) async fn clone_past_range(
        &self,
        view: &Volume,
        from: &Handle,
        to: &Handle,
        range: CloneRange,
    ) -> Result<(), (u64, VolumeError)> {
        let none = |error| (0, error);
        self.store.check_failed().map_err(none)?;
        self.make_room().await;
        let _shared = self.cloning.read().await;
        // The file as it is now may have some of the blocks as its own.
        let heir = self.open.enter(from.id(), Use::Own);
        let cloned = async {
            match self.load_state(&heir, Use::Own, |_, _| Ok(())).await {
                // It is gone, or goes, and nobody writes to it.
                Err(error) if error.kind == ErrorKind::Stale => {}
                loaded => loaded.map_err(none)?,
            }
            let _both = lock_both(&heir, &to.file).await;
            self.write_back_locked(&heir).await.map_err(none)?;
            let cloned = self.clone_past_locked(view, from, (&heir, &to.file), range).await;
            held(&heir.state).mapping = None;
            cloned
        };
        let cloned = cloned.await;
        let left = self.leave(&heir, Use::Own).await;
        cloned.and(left.map_err(|error| (range.len, error)))
    }

    async fn clone_past_locked(
        &self,
        view: &Volume,
        from: &Handle,
        (heir, target): (&File, &File),
        range: CloneRange,
    ) -> Result<(), (u64, VolumeError)> {
        let none = |error| (0, error);
        let _read = from.file.data.read().await;
        let (size, is_inline) = {
            let state = held(&from.file.state);
            (state.size, state.is_inline)
        };
        if is_inline {
            let bytes = view.inline_bytes(&from.file).await.map_err(none)?;
            return self.clone_inline(&bytes, target, range).await.map_err(none);
        }
        if !self.begin_clone(target, range, size).await.map_err(none)? {
            return Ok(());
        }
        let (mut at, first) = (range.from / BLOCK_BYTES, range.from / BLOCK_BYTES);
        let end = first + range.blocks();
        while at < end {
            let wrong = |at: u64| move |error| ((at - first) * BLOCK_BYTES, error);
            let pieces = view.pieces(&from.file, at, end.min(at + LOOK_BLOCKS)).await.map_err(wrong(at))?;
            for piece in pieces {
                while at < piece.block + piece.blocks {
                    let left = piece.part(at..piece.block + piece.blocks).expect("some of it is left");
                    at += self.clone_piece(view, from, (heir, target), range, left).await.map_err(wrong(at))?;
                }
            }
        }
        Ok(())
    }

    /// Clones the first blocks of a piece of a file of a snapshot; answers how many.
    async fn clone_piece(
        &self,
        view: &Volume,
        from: &Handle,
        (heir, target): (&File, &File),
        range: CloneRange,
        piece: Piece,
    ) -> Result<u64, VolumeError> {
        let done = piece.block - range.from / BLOCK_BYTES;
        let extent = match piece.ground {
            Ground::Written(extent) => extent,
            Ground::Lost => return Err(VolumeError::corrupt(LOST)),
            _ => {
                return Ok(
                    self.give_blocks(target, range, done, |_| Ok((done + piece.blocks, Vec::new()))).await? - done
                );
            }
        };
        let mut before = None;
        let blocks = loop {
            let way = self.store.look([crate::OWNER_TREE], |view| self.way_to(view, &extent)).await?;
            match way {
                Way::Free(blocks) => break blocks,
                Way::Own(file, blocks) if file == heir.id.number && before.as_ref() != Some(&blocks) => {
                    before = Some(blocks.clone());
                    let share = |view: &mut View<'_>| extents::share(view, file, blocks.clone());
                    self.store.change([crate::keys::shard(file)], Need::More, share).await?;
                }
                Way::Own(file, _) => return Err(unclear(&format!("file {file} has blocks of another one's snapshot"))),
            }
        };
        let blocks = if target.is_strict() { blocks.min(MOST_SUMMED) } else { blocks };
        let mut part = extent.part(0, blocks);
        if target.is_strict() {
            part = view.with_sums(&from.file, piece.block, part).await?;
        }
        let given =
            self.give_blocks(target, range, done, |_| Ok((done + u64::from(blocks), vec![(done, part.clone())])));
        Ok(given.await? - done)
    }

    /// Whether the first blocks of an extent of a snapshot may be shared.
    fn way_to(&self, view: &View<'_>, extent: &Extent) -> Result<Way, Stop> {
        let owners = self.store.owners_over(view, extent.place..extent.end(), OWNERS_AT_ONCE + 1)?;
        let (mut free, mut left) = (extent.blocks, BTreeMap::from([(extent.place, extent.blocks.into())]));
        for (index, (place, owner)) in owners.iter().enumerate() {
            let from = (*place).max(extent.place);
            if index == OWNERS_AT_ONCE {
                free = (from - extent.place) as u32;
            } else if owner.kept.is_none() {
                let to = (place + u64::from(owner.blocks)).min(extent.end());
                let block = |at: u64| owner.block + (at - place);
                return Ok(Way::Own(owner.file, block(from)..block(to)));
            }
            runs::cut(&mut left, *place, owner.blocks.into());
        }
        self.store.uncovered(view, &mut left, &BTreeSet::new())?;
        if left.range(..extent.place + u64::from(free)).next().is_some() {
            return Err(unclear("blocks of the snapshot are not kept for it").into());
        }
        Ok(Way::Free(free))
    }
}
