//! The room of ranges of a file: set aside, given back, zeroed.
//!
//! Each step is a change of its own: a request that fails on its way has done a part, from the beginning of the range.
//!
//! What a range that is zeroed needs of room is set aside before any of it changes, so that a full volume refuses it as a
//! whole.
//!
//! Invariant: a range that is given back or zeroed reads as zeros from the first step over it on.

use std::ops::Range;

use holdfast_model::BLOCK_BYTES;

use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::{self, Ground, Piece};
use crate::keys;
use crate::open_files::{File, Handle};
use crate::record::INLINE_BYTES;
use crate::rooms;
use crate::service::Allocate;
use crate::store::held;
use crate::volume::{Volume, put_record, record_of};
use crate::write::MAX_FILE_BYTES;

/// Blocks of a file that are looked at together.
const PIECES_OF_BLOCKS: u64 = 1 << 16;

/// Room that is kept for a request as long as this is there.
struct Aside<'a> {
    volume: &'a Volume,
    blocks: u64,
}

impl<'a> Aside<'a> {
    fn none(volume: &'a Volume) -> Self {
        Self { volume, blocks: 0 }
    }

    /// Gives some of it up.
    fn give_back(&mut self, blocks: u64) {
        let blocks = blocks.min(self.blocks);
        held(&self.volume.store.rooms).take_back(blocks);
        self.blocks -= blocks;
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        self.give_back(self.blocks);
    }
}

/// The blocks that a range touches.
fn blocks_around(range: &Range<u64>) -> Range<u64> {
    range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES)
}

/// Blocks of which a range has a part only: each with the bytes within it.
fn edges_of(offset: u64, end: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let (head, tail) = (offset / BLOCK_BYTES, end / BLOCK_BYTES);
    let inside = move |block: u64| {
        let start = block * BLOCK_BYTES;
        (block, offset.max(start) - start, end.min(start + BLOCK_BYTES).saturating_sub(start))
    };
    let blocks = [Some(head), Some(tail).filter(|tail| *tail != head)];
    let is_edge = |(_, from, to): &(u64, u64, u64)| from < to && (*from, *to) != (0, BLOCK_BYTES);
    blocks.into_iter().flatten().filter(move |_| offset < end).map(inside).filter(is_edge)
}

impl Volume {
    pub(crate) async fn allocate_range(
        &self,
        handle: &Handle,
        offset: u64,
        len: u64,
        how: Allocate,
    ) -> Result<(), VolumeError> {
        let Some(end) = offset.checked_add(len).filter(|end| *end <= MAX_FILE_BYTES) else {
            return Err(VolumeError::new(ErrorKind::TooLarge, "a file ends below 2^63 bytes"));
        };
        if len == 0 {
            return Err(VolumeError::new(ErrorKind::Invalid, "the range is empty"));
        }
        self.store.check_failed()?;
        let file = &*handle.file;
        let _alone = file.data.write().await;
        self.write_back_locked(file).await?;
        let size = held(&file.state).size;
        if end > size && how != Allocate::Punch {
            // What an earlier cut left behind the end is no room of the file, and would go when the cut ends.
            self.finish_note(file.id.number, true).await?;
        }
        let grows = !matches!(
            how,
            Allocate::Punch | Allocate::Reserve { keep_size: true } | Allocate::Zero { keep_size: true }
        );
        if held(&file.state).is_inline {
            let fits = grows && end <= INLINE_BYTES as u64 || how == Allocate::Punch;
            if fits {
                return self.allocate_inline(file, offset, end, how, grows).await;
            }
            if size > 0 {
                self.spill(file).await?;
            }
        }
        if how != Allocate::Punch {
            self.check_holes(file, offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES)).await?;
        }
        if grows && end > size {
            self.zero_tail(file, size).await?;
        }
        match how {
            Allocate::Reserve { .. } => {
                let range = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
                self.fill_holes(file, range, Need::More, &mut Aside::none(self)).await?;
            }
            Allocate::Punch => self.zero_within(file, offset..end, size, true).await?,
            Allocate::Zero { .. } => self.zero_within(file, offset..end, size, false).await?,
        }
        if grows && end > size {
            return self.set_length_for(file, end, Need::Own).await;
        }
        // It counts as written to, as on other file systems, also where no byte changes.
        self.note_written(file);
        Ok(())
    }

    async fn allocate_inline(
        &self,
        file: &File,
        offset: u64,
        end: u64,
        how: Allocate,
        grows: bool,
    ) -> Result<(), VolumeError> {
        let size = held(&file.state).size;
        let end_of_zeros = end.min(size);
        if !matches!(how, Allocate::Reserve { .. }) && offset < end_of_zeros {
            let (id, now) = (file.id, self.now());
            let change = self.store.change([keys::shard(id.number)], Need::Less, |view| {
                let mut record = record_of(view, id)?;
                if let Some(bytes) = &mut record.inline {
                    bytes[offset as usize..end_of_zeros as usize].fill(0);
                }
                self.touch(&mut record, now);
                put_record(view, id.number, &record)
            });
            let ((), logged) = change.await?;
            held(&file.state).logged = logged;
        }
        if grows && end > size {
            return self.set_length_locked(file, end).await;
        }
        self.note_written(file);
        Ok(())
    }

    /// Refuses to set room aside that quotas or the volume do not leave, before any of it is.
    async fn check_holes(&self, file: &File, from: u64, to: u64) -> Result<(), VolumeError> {
        let free = self.room().free_bytes / BLOCK_BYTES;
        if !self.store.ledger.is_limited() && to - from <= free {
            return Ok(());
        }
        let (mut at, mut holes) = (from, 0);
        while at < to {
            let some = to.min(at + (1 << 16));
            let pieces = self.pieces(file, at, some).await?;
            holes += pieces.iter().filter(|piece| piece.ground == Ground::Hole).map(|piece| piece.blocks).sum::<u64>();
            at = some;
        }
        self.fit(file, holes).await?.1.map_or(Ok(()), Err)?;
        // What others free or take meanwhile changes it: this is for what cannot be.
        if holes > free { Err(rooms::full(self.id())) } else { Ok(()) }
    }

    /// Has a range of a file read as zeros, without room or with it.
    async fn zero_within(&self, file: &File, range: Range<u64>, size: u64, punch: bool) -> Result<(), VolumeError> {
        let (outer, inner) = (blocks_around(&range), range.start.div_ceil(BLOCK_BYTES)..range.end / BLOCK_BYTES);
        // What is beyond the end is zeroed when the file grows over it.
        let end = range.end.min(size);
        let edges = self.edges_elsewhere(file, range.start, end).await?;
        let within = if punch { 0 } else { self.blocks_elsewhere(file, inner.clone()).await? };
        let mut aside = self.set_room_aside(edges + within).await?;
        if !punch {
            self.fill_holes(file, outer, Need::More, &mut Aside::none(self)).await?;
        }
        aside.give_back(edges);
        self.zero_edges(file, range.start, end).await?;
        if inner.start < inner.end {
            self.clear(file, inner.start, inner.end, punch).await?;
        }
        if !punch { self.fill_holes(file, inner, Need::Own, &mut aside).await } else { Ok(()) }
    }

    /// Blocks at both ends of a range that are written to another place if they are written to.
    async fn edges_elsewhere(&self, file: &File, offset: u64, end: u64) -> Result<u64, VolumeError> {
        let mut count = 0;
        for (block, ..) in edges_of(offset, end) {
            let pieces = self.pieces(file, block, block + 1).await?;
            count += u64::from(pieces.iter().any(|piece| self.is_others(file, piece)));
        }
        Ok(count)
    }

    /// Blocks of a range whose room is not to be used for zeros.
    async fn blocks_elsewhere(&self, file: &File, range: Range<u64>) -> Result<u64, VolumeError> {
        let (mut at, mut count) = (range.start, 0);
        while at < range.end {
            let some = range.end.min(at + PIECES_OF_BLOCKS);
            for piece in self.pieces(file, at, some).await? {
                count += match &piece.ground {
                    Ground::Lost => piece.blocks,
                    Ground::Written(extent) | Ground::Unwritten(extent) if self.is_kept(extent) => piece.blocks,
                    _ => 0,
                };
            }
            at = some;
        }
        Ok(count)
    }

    /// Keeps room for a request.
    async fn set_room_aside(&self, blocks: u64) -> Result<Aside<'_>, VolumeError> {
        let promise = || held(&self.store.rooms).promise(blocks);
        if promise() {
            return Ok(Aside { volume: self, blocks });
        }
        // What was freed may be given out after a checkpoint.
        while self.store.add_data_zone().await? {
            if promise() {
                return Ok(Aside { volume: self, blocks });
            }
        }
        self.store.checkpoint().await?;
        if promise() { Ok(Aside { volume: self, blocks }) } else { Err(rooms::full(self.id())) }
    }

    /// Sets room aside for what has none, of what is kept for the request first.
    async fn fill_holes(
        &self,
        file: &File,
        range: Range<u64>,
        need: Need,
        aside: &mut Aside<'_>,
    ) -> Result<(), VolumeError> {
        let (mut at, to) = (range.start, range.end);
        while at < to {
            let some = to.min(at + PIECES_OF_BLOCKS);
            for piece in self.pieces(file, at, some).await? {
                let Piece { block, blocks, ground: Ground::Hole } = piece else { continue };
                let (mut block, end, mut goal) = (block, block + blocks, None);
                while block < end {
                    let want = (end - block).min(1 << 16) as u32;
                    let own = aside.blocks.min(want.into()) as u32;
                    let (place, len) = self.reserve(goal, want, own).await?;
                    aside.blocks -= u64::from(own.min(len));
                    goal = Some(place + u64::from(len));
                    let birth = held(&self.store.rooms).coming();
                    let extent = Extent { place, blocks: len, birth, is_written: false, is_shared: false, sums: None };
                    if let Err(error) = self.put_extent(file, block, extent, need).await {
                        held(&self.store.rooms).release(place, len);
                        return Err(error);
                    }
                    block += u64::from(len);
                }
            }
            at = some;
        }
        Ok(())
    }

    async fn put_extent(&self, file: &File, block: u64, extent: Extent, need: Need) -> Result<(), VolumeError> {
        let (id, now) = (file.id, self.now());
        let range = block..block + u64::from(extent.blocks);
        let change = self.store.change([keys::shard(id.number)], need, |view| {
            let mut record = record_of(view, id)?;
            extents::replace(view, id.number, &mut record, range.clone(), &[(block, extent.clone())])?;
            record.inline = None;
            (record.changed, record.change) = (now, self.next_change());
            put_record(view, id.number, &record)
        });
        let ((), logged) = change.await?;
        let mut state = held(&file.state);
        (state.logged, state.is_inline, state.mapping) = (logged, false, None);
        Ok(())
    }

    /// Writes zeros to the parts of blocks at both ends of a range.
    async fn zero_edges(&self, file: &File, offset: u64, end: u64) -> Result<(), VolumeError> {
        for (block, from, to) in edges_of(offset, end) {
            let pieces = self.pieces(file, block, block + 1).await?;
            let Some(piece @ Piece { ground: Ground::Written(_), .. }) = pieces.first() else { continue };
            let size = held(&file.state).size;
            let mut buf = self.old_block(file, block, size).await?;
            buf[from as usize..to as usize].fill(0);
            self.rewrite_block(file, piece, buf.freeze(), size).await?;
            self.note_written(file);
        }
        Ok(())
    }

    /// Makes whole blocks read as zeros: holes, or room without data.
    async fn clear(&self, file: &File, from: u64, to: u64, punch: bool) -> Result<(), VolumeError> {
        let (id, now) = (file.id, self.now());
        let mut at = from;
        while at < to {
            let (reached, logged) = self
                .give_back(&[keys::shard(id.number)], |view, most| {
                    let mut record = record_of(view, id)?;
                    let reached = extents::reach(view, id.number, at, to, most)?;
                    let mut left = if punch { Vec::new() } else { extents::within(view, id.number, at, reached)? };
                    // What others have must not be written to, as room without data may be.
                    left.retain(|(_, extent)| !extent.is_lost() && !self.is_kept(extent));
                    left.iter_mut().for_each(|(_, extent)| extent.is_written = false);
                    extents::replace(view, id.number, &mut record, at..reached, &left)?;
                    self.touch(&mut record, now);
                    put_record(view, id.number, &record)?;
                    Ok(reached)
                })
                .await?;
            let mut state = held(&file.state);
            (state.logged, state.mapping) = (logged, None);
            at = reached;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
