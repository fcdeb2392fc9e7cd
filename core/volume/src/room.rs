//! The room of ranges of a file: set aside, given back, zeroed.
//!
//! Each step is a change of its own: a request that fails on its way has done a part, from the beginning of the range.
//!
//! Invariant: a range that is given back or zeroed reads as zeros from the first step over it on.

use holdfast_model::BLOCK_BYTES;

use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::{self, EXTENTS_AT_ONCE, Ground, Piece};
use crate::keys;
use crate::open_files::{File, Handle};
use crate::record::INLINE_BYTES;
use crate::rooms;
use crate::service::Allocate;
use crate::store::held;
use crate::volume::{Volume, put_record, record_of};
use crate::write::MAX_FILE_BYTES;

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
            Allocate::Reserve { .. } => self.fill_holes(file, offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES)).await?,
            Allocate::Punch | Allocate::Zero { .. } => {
                let (from, to) = (offset.div_ceil(BLOCK_BYTES), end / BLOCK_BYTES);
                // What is beyond the end is zeroed when the file grows over it.
                self.zero_edges(file, offset, end.min(size)).await?;
                if from < to {
                    self.clear(file, from, to, how == Allocate::Punch).await?;
                }
                if how != Allocate::Punch {
                    self.fill_holes(file, offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES)).await?;
                }
            }
        }
        if grows && end > size {
            return self.set_length_locked(file, end).await;
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

    /// Sets room aside for what has none.
    async fn fill_holes(&self, file: &File, from: u64, to: u64) -> Result<(), VolumeError> {
        let mut at = from;
        while at < to {
            let some = to.min(at + (1 << 16));
            for piece in self.pieces(file, at, some).await? {
                let Piece { block, blocks, ground: Ground::Hole } = piece else { continue };
                let (mut block, end, mut goal) = (block, block + blocks, None);
                while block < end {
                    let (place, len) = self.reserve(goal, (end - block).min(1 << 16) as u32, 0).await?;
                    goal = Some(place + u64::from(len));
                    let birth = held(&self.store.rooms).coming();
                    let extent = Extent { place, blocks: len, birth, is_written: false, is_shared: false, sums: None };
                    if let Err(error) = self.put_extent(file, block, extent).await {
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

    async fn put_extent(&self, file: &File, block: u64, extent: Extent) -> Result<(), VolumeError> {
        let (id, now) = (file.id, self.now());
        let range = block..block + u64::from(extent.blocks);
        let change = self.store.change([keys::shard(id.number)], Need::More, |view| {
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
        if offset >= end {
            return Ok(());
        }
        let (head, tail) = (offset / BLOCK_BYTES, end / BLOCK_BYTES);
        let inside = |block: u64| {
            let start = block * BLOCK_BYTES;
            (offset.max(start) - start, end.min(start + BLOCK_BYTES) - start)
        };
        let mut edges = vec![head];
        if tail != head {
            edges.push(tail);
        }
        for block in edges {
            let (from, to) = inside(block);
            if from >= to || (from, to) == (0, BLOCK_BYTES) {
                continue;
            }
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
                .store
                .change([keys::shard(id.number)], Need::Less, |view| {
                    let mut record = record_of(view, id)?;
                    let reached = extents::reach(view, id.number, at, to, EXTENTS_AT_ONCE)?;
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
