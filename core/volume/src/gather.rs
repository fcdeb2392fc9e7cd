//! Files whose blocks lie scattered brought together again, while they are in use.
//!
//! ```text
//!   extents by trees and files ─▶ a stretch of up to 4 MiB in more pieces than one for each MiB ─▶ file locked alone
//!       ─▶ room in one run ─▶ copied ─▶ extents changed
//! ```
//!
//! Data that is written over after a snapshot or a clone goes to new places, and stays there when the snapshot is gone. What
//! others still have, snapshots or clones, stays where it is: moved, it would take its room twice. Nor is there anything to
//! be gained where the free room lies in pieces as well.
//!
//! Invariants: those of `relocate.rs`. A stretch lies in fewer pieces afterwards, or where it was.

use std::ops::{ControlFlow, Range};

use futures_util::future::join_all;
use holdfast_device::Durability;
use holdfast_model::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

use crate::SHARED_TREES;
use crate::change::{Need, Stop, View};
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::{self, EXTENTS_AT_ONCE, MAIN};
use crate::keys;
use crate::open_files::{File, Use};
use crate::relocate::STEP_BLOCKS;
use crate::scan::judge;
use crate::scrub::place;
use crate::service::FileId;
use crate::store::held;
use crate::volume::{Volume, record_of};

/// Blocks of a stretch that a piece of their own is worth: a disk that turns reads 1 MiB in the time of a seek.
const PIECE_BLOCKS: u64 = 256;
/// Where gathering goes on. The default is where it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatherFrom {
    /// The tree of files.
    pub tree: u8,
    /// The number of the file.
    pub file: u64,
    /// Its block.
    pub block: u64,
}

/// What a step of gathering did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Where the next step begins; `None` at the end.
    pub next: Option<GatherFrom>,
    /// Blocks that were moved.
    pub moved: u64,
    /// Pieces that these lay in.
    pub pieces_before: u64,
    /// Pieces that they lie in now.
    pub pieces_after: u64,
    /// Stretches that stay scattered, as no room in one run was left for them.
    pub left: u64,
    /// Parts of trees that were left out because nodes are damaged, and stretches that cannot be read.
    pub unreadable: u64,
}

/// Blocks of a file that follow each other in it and are its own.
#[derive(Clone, Debug)]
struct Stretch {
    file: u64,
    blocks: Range<u64>,
    extents: usize,
    /// Runs on the device that it lies in.
    pieces: u64,
    /// Where the last of them ends.
    end: u64,
}

impl Stretch {
    fn of(file: u64, start: u64, extent: &Extent) -> Self {
        let blocks = start..start + u64::from(extent.blocks);
        Self { file, blocks, extents: 1, pieces: 1, end: extent.end() }
    }

    /// Takes a further extent in; false if it does not belong to it.
    fn extend(&mut self, file: u64, start: u64, extent: &Extent) -> bool {
        let len = self.blocks.end - self.blocks.start + u64::from(extent.blocks);
        if (file, start) != (self.file, self.blocks.end) || len > STEP_BLOCKS.into() {
            return false;
        }
        self.blocks.end += u64::from(extent.blocks);
        self.pieces += u64::from(extent.place != self.end);
        (self.extents, self.end) = (self.extents + 1, extent.end());
        true
    }

    fn is_scattered(&self) -> bool {
        self.pieces > (self.blocks.end - self.blocks.start).div_ceil(PIECE_BLOCKS)
    }
}

impl Volume {
    /// Brings together what lies scattered of files, from a place on: looks at one leaf of a tree, and moves about
    /// `most_bytes` at most.
    ///
    /// # Errors
    /// The volume takes no changes, the device failed, or the volume is not in use any more.
    pub async fn gather(&self, from: GatherFrom, most_bytes: u64) -> Result<Gathered, VolumeError> {
        let mut done = Gathered::default();
        self.store.check_failed()?;
        self.store.check_interrupted()?;
        if from.tree >= SHARED_TREES {
            return Ok(done);
        }
        let most = most_bytes / BLOCK_BYTES;
        let first = keys::extent(from.file, MAIN, from.block.saturating_add(1));
        let look = self.store.look([from.tree], |view| self.stretches_from(view, from.tree, &first, most));
        let (stretches, next) = match look.await {
            Ok(found) => found,
            Err(error) if error.kind == ErrorKind::Corrupt => {
                done.unreadable += 1;
                (Vec::new(), None)
            }
            Err(error) => return Err(error),
        };
        for stretch in stretches {
            match self.gather_stretch(&stretch, &mut done).await {
                Err(error) if error.kind == ErrorKind::NoSpace => done.left += 1,
                // It cannot be read, or what belongs to it cannot.
                Err(_) if self.store.check_failed().is_ok() && self.store.check_interrupted().is_ok() => {
                    done.unreadable += 1;
                }
                gathered => gathered?,
            }
        }
        done.next = match next {
            Some((file, block)) => Some(GatherFrom { file, block, ..from }),
            None => Some(from.tree + 1)
                .filter(|tree| *tree < SHARED_TREES)
                .map(|tree| GatherFrom { tree, ..GatherFrom::default() }),
        };
        Ok(done)
    }

    /// Whether blocks are a file's alone, so that their old places are free once they are moved.
    fn is_own(&self, extent: &Extent) -> bool {
        !extent.is_lost() && !extent.is_shared && !self.store.snapshots.keep(extent)
    }

    /// Scattered stretches of one leaf from a key on, of so many blocks, and the file and block that those behind them begin
    /// at.
    fn stretches_from(&self, view: &View<'_>, tree: u8, from: &[u8], most: u64) -> Result<Found, Stop> {
        let (mut found, mut blocks, mut behind) = (Vec::new(), 0, None);
        let mut current: Option<Stretch> = None;
        let next = view.visit(tree, from, |key, value| {
            let Some((file, MAIN, _)) = keys::read_extent(tree, key) else { return ControlFlow::Continue(()) };
            let extent = extents::decode(key, value).ok().filter(|(_, extent)| self.is_own(extent));
            let joins = |current: &mut Stretch| {
                extent.as_ref().is_some_and(|(start, extent)| current.extend(file, *start, extent))
            };
            if current.as_mut().is_some_and(joins) {
                return ControlFlow::Continue(());
            }
            if let Some(stretch) = current.take().filter(Stretch::is_scattered) {
                blocks += stretch.blocks.end - stretch.blocks.start;
                behind = Some((stretch.file, stretch.blocks.end));
                found.push(stretch);
                if blocks >= most {
                    return ControlFlow::Break(());
                }
                behind = None;
            }
            current = extent.map(|(start, extent)| Stretch::of(file, start, &extent));
            ControlFlow::Continue(())
        })?;
        found.extend(current.filter(|current| behind.is_none() && current.is_scattered()));
        Ok((found, behind.or_else(|| next.as_deref().map(place))))
    }

    async fn gather_stretch(&self, stretch: &Stretch, done: &mut Gathered) -> Result<(), VolumeError> {
        let number = stretch.file;
        let look = self.store.look([keys::shard(number)], |view| judge::record(view, number));
        // It went meanwhile, or a scan tells of it.
        let Some(record) = look.await? else { return Ok(()) };
        let file = self.open.enter(FileId { number, generation: record.generation }, Use::Own);
        let gathered = async {
            match self.load_state(&file, Use::Own, |_, _| Ok(())).await {
                Err(error) if error.kind == ErrorKind::Stale => return Ok(()),
                loaded => loaded?,
            }
            let _alone = file.data.write().await;
            let mut at = stretch.blocks.start;
            while let Some(behind) = self.gather_locked(&file, at..stretch.blocks.end, done).await? {
                at = behind;
            }
            Ok(())
        };
        let gathered = gathered.await;
        // With the last use of a file without a name the file goes.
        let left = self.leave(&file, Use::Own).await;
        gathered.and(left)
    }

    /// Moves what lies scattered of a range by now to one run, as far as that is long; answers where the rest begins. The
    /// file is locked alone.
    async fn gather_locked(
        &self,
        file: &File,
        range: Range<u64>,
        done: &mut Gathered,
    ) -> Result<Option<u64>, VolumeError> {
        let mut old = self.extents_of(file, range.clone()).await?;
        let Some(mut now) = joined(file, &old).filter(Stretch::is_scattered) else { return Ok(None) };
        old.truncate(now.extents);
        let want = (now.blocks.end - now.blocks.start) as u32;
        let (place, blocks) = self.reserve(None, want, 0).await?;
        if blocks < want {
            let end = now.blocks.start + u64::from(blocks);
            old.retain(|(start, _)| *start < end);
            if let Some((start, last)) = old.last_mut() {
                *last = last.part(0, u64::from(last.blocks).min(end - *start) as u32);
            }
            match joined(file, &old).filter(Stretch::is_scattered) {
                Some(shorter) => now = shorter,
                None => {
                    held(&self.store.rooms).release(place, blocks);
                    done.left += 1;
                    return Ok(None);
                }
            }
        }
        let mut moved = 0;
        let result = self.move_stretch(file, &old, (place, blocks), &mut moved).await;
        if moved < blocks {
            held(&self.store.rooms).release(place + u64::from(moved), blocks - moved);
        }
        done.moved += u64::from(moved);
        if result.is_ok() {
            done.pieces_before += now.pieces;
            done.pieces_after += 1;
        }
        result.map(|()| (now.blocks.end < range.end).then_some(now.blocks.end))
    }

    /// The extents that a range has by now, up to where it is not the file's own any more.
    async fn extents_of(&self, file: &File, range: Range<u64>) -> Result<Vec<(u64, Extent)>, VolumeError> {
        let (number, mut at, mut all) = (file.id.number, range.start, Vec::new());
        while at < range.end {
            let look = self.store.look([keys::shard(number)], |view| {
                let reached = extents::reach(view, number, at, range.end, EXTENTS_AT_ONCE)?;
                Ok((reached, extents::within(view, number, at, reached)?))
            });
            let (reached, found) = look.await?;
            for (start, extent) in found {
                if start != at || !self.is_own(&extent) {
                    return Ok(all);
                }
                at += u64::from(extent.blocks);
                all.push((start, extent));
            }
            if at < reached {
                return Ok(all);
            }
        }
        Ok(all)
    }

    /// Copies extents that follow each other to a place, and has the file know the copy; says how many blocks it knows.
    async fn move_stretch(
        &self,
        file: &File,
        old: &[(u64, Extent)],
        (place, room): (u64, u32),
        moved: &mut u32,
    ) -> Result<(), VolumeError> {
        let (Some((first, _)), id) = (old.first(), file.id) else { return Ok(()) };
        let behind = old.last().map_or(*first, |(start, extent)| start + u64::from(extent.blocks));
        if behind - first > room.into() {
            let text = format!("{room} blocks were set aside for {} of file {}", behind - first, id.number);
            return Err(VolumeError::new(ErrorKind::Invalid, text));
        }
        let at = |start: u64| place + (start - first);
        let copies = old.iter().filter(|(_, extent)| extent.is_written).map(|(start, extent)| async move {
            // What is lost moves as it is: its checksum tells that at the new place, too.
            let (data, _) = Box::pin(self.read_checked(self.held(id, *start, extent))).await?;
            let written = self.store.device.write(at(*start) * BLOCK_BYTES, data.freeze(), Durability::Cached);
            written.await.map_err(VolumeError::from)
        });
        // All have ended before room is given back.
        join_all(copies).await.into_iter().collect::<Result<(), VolumeError>>()?;
        self.store.data.note();
        for some in old.chunks(EXTENTS_AT_ONCE / 2) {
            let from = some[0].0;
            let end = some.last().map_or(from, |(start, extent)| start + u64::from(extent.blocks));
            let change = self.store.change([keys::shard(id.number)], Need::More, |view| {
                if extents::within(view, id.number, from, end)? != some {
                    return Err(VolumeError::corrupt("an extent changed although its file is locked").into());
                }
                let birth = held(&self.store.rooms).coming();
                let new =
                    some.iter().map(|(start, extent)| (*start, Extent { place: at(*start), birth, ..extent.clone() }));
                let new: Vec<(u64, Extent)> = new.collect();
                // It has as many blocks as before: the record stays as it is.
                let mut record = record_of(view, id)?;
                extents::replace(view, id.number, &mut record, from..end, &new)
            });
            let ((), logged) = change.await?;
            *moved = (end - first) as u32;
            let mut state = held(&file.state);
            // Whoever has the file made durable has it made durable at its new place.
            (state.logged, state.mapping) = (state.logged.max(logged), None);
        }
        Ok(())
    }
}

/// Stretches, and the file and block that those behind them begin at.
type Found = (Vec<Stretch>, Option<(u64, u64)>);

/// Extents of a file that follow each other, as a stretch.
fn joined(file: &File, extents: &[(u64, Extent)]) -> Option<Stretch> {
    let (number, mut all) = (file.id.number, extents.iter());
    let (start, extent) = all.next()?;
    let mut stretch = Stretch::of(number, *start, extent);
    all.for_each(|(start, extent)| _ = stretch.extend(number, *start, extent));
    Some(stretch)
}

#[cfg(test)]
mod tests;
