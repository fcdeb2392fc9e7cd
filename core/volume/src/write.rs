//! Writing files.
//!
//! ```text
//!   whole blocks that hold data, within the file,
//!   which nobody else has                           shared lock    in place, no change of metadata
//!   small, and not within a record                  alone          waits in memory (delayed.rs)
//!   anything else                                   alone          room set aside ─▶ data written ─▶ extents changed
//! ```
//!
//! Invariants: an extent says that it holds data only once the device has it, and no such record of the log counts
//! without the data: it is durable before, or its checksums are in the record. What lies between the end of a file and the end of its last block is never shown.

use std::ops::Range;

use holdfast_device::{Durability, IoBuf, IoSlice};
use holdfast_model::BLOCK_BYTES;

use crate::OWNER_TREE;
use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::{self, EXTENTS_AT_ONCE, Ground, Piece, Pieces};
use crate::integrity::sum_targets;
use crate::keys;
use crate::open_files::{File, Handle, State};
use crate::overwrite::all;
use crate::page::crc_of;
use crate::record::INLINE_BYTES;
use crate::rooms::{self, Found};
use crate::runs::{Placed, data_of, runs};
use crate::service::Flush;
use crate::store::held;
use crate::sums::MOST_SUMMED;
use crate::superblock::CHECKSUMS;
use crate::transaction::{BlockSum, MOST_SUMS};
use crate::volume::{Volume, put_record, record_of};

/// Bytes of a file, at most.
pub(crate) const MAX_FILE_BYTES: u64 = i64::MAX as u64 & !(BLOCK_BYTES - 1);
/// Bytes that are written in one step.
const STEP_BYTES: usize = 4 << 20;
/// Blocks that are set aside behind a file that grows, at most.
const MOST_WINDOW: u64 = 2048;
/// How often a write that a quota refuses asks again what is left of it.
const QUOTA_REFUSALS: u32 = 8;
/// Blocks of an extent that is set aside at once, at most.
const MOST_EXTENT: u32 = 1 << 16;
const BLOCK: usize = BLOCK_BYTES as usize;

/// Data for blocks of a file that follow each other.
pub(crate) struct Segment {
    pub block: u64,
    pub data: IoSlice,
}

impl Segment {
    /// The block behind the last one.
    fn end(&self) -> u64 {
        self.block + (self.data.len() / BLOCK) as u64
    }
}

/// Where room for blocks comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// What nobody has, within quotas.
    Free,
    /// What was promised.
    Promised,
}

/// Where blocks of a file are to be written.
pub(crate) struct Target {
    pub block: u64,
    pub extent: Extent,
    /// Whether its room is set aside for it, and nobody's yet.
    is_new: bool,
    /// Blocks of that room that were promised.
    promised: u32,
    /// Whether the file has other room for it already, which it lets go of.
    is_moved: bool,
    /// Whether the file has data there already.
    pub is_written: bool,
}

impl Target {
    pub fn old(block: u64, extent: Extent, is_written: bool) -> Self {
        Self { block, extent, is_new: false, promised: 0, is_moved: false, is_written }
    }

    /// The blocks of the file.
    pub fn blocks(&self) -> Range<u64> {
        self.block..self.block + u64::from(self.extent.blocks)
    }

    /// The blocks of the volume.
    pub fn places(&self) -> Range<u64> {
        self.extent.place..self.extent.end()
    }

    /// Blocks that were promised.
    pub fn promised(&self) -> u64 {
        self.promised.into()
    }

    /// Whether the file has other room for them already, which it lets go of.
    pub fn is_moved(&self) -> bool {
        self.is_moved
    }
}

impl Volume {
    pub(crate) async fn write_file(
        &self,
        handle: &Handle,
        offset: u64,
        data: IoSlice,
        len: usize,
        durability: Durability,
    ) -> Result<usize, VolumeError> {
        if offset.checked_add(len as u64).is_none_or(|end| end > MAX_FILE_BYTES) {
            return Err(VolumeError::new(ErrorKind::TooLarge, "a file ends below 2^63 bytes"));
        }
        if len == 0 {
            return Ok(0);
        }
        self.store.check_failed()?;
        let file = &*handle.file;
        let is_whole = offset.is_multiple_of(BLOCK_BYTES) && len.is_multiple_of(BLOCK);
        // Nothing of a strict file is written over.
        if is_whole && !file.is_strict() {
            let _shared = file.data.read().await;
            if self.write_in_place(file, offset, &data, len, durability).await? {
                if durability == Durability::Durable {
                    // The data is; what leads to it has been for long, mostly.
                    let logged = held(&file.state).logged;
                    Box::pin(self.store.sync(logged)).await?;
                }
                return Ok(len);
            }
        }
        Box::pin(self.write_alone(handle, offset, data, len, durability)).await
    }

    /// Has data wait in memory, or writes it, while the file is locked alone; answers how many bytes, fewer where the rest
    /// is refused.
    async fn write_alone(
        &self,
        handle: &Handle,
        offset: u64,
        data: IoSlice,
        len: usize,
        durability: Durability,
    ) -> Result<usize, VolumeError> {
        let done = self.write_steps(handle, offset, data, len, durability).await?;
        if durability == Durability::Durable {
            self.flush_open(&handle.file, Flush::Data).await?;
        }
        Ok(done)
    }

    async fn write_steps(
        &self,
        handle: &Handle,
        offset: u64,
        data: IoSlice,
        len: usize,
        durability: Durability,
    ) -> Result<usize, VolumeError> {
        let file = &*handle.file;
        self.make_room().await;
        let memory = if durability == Durability::Durable { None } else { self.memory(len).await };
        let _alone = file.data.write().await;
        let is_within_record = held(&file.state).is_inline && offset + len as u64 <= INLINE_BYTES as u64;
        if memory.is_some() && !is_within_record && self.delay(&handle.file, offset, &data[..len]).await? {
            return Ok(len);
        }
        drop(memory);
        self.write_back_locked(file).await?;
        let mut done = 0;
        while done < len {
            let some = (len - done).min(STEP_BYTES);
            match self.write_step(file, offset + done as u64, &data, done, some).await {
                Ok(some) => done += some,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes some of the data while the file is locked alone; answers how many bytes.
    pub(crate) async fn write_step(
        &self,
        file: &File,
        offset: u64,
        data: &IoSlice,
        at: usize,
        len: usize,
    ) -> Result<usize, VolumeError> {
        let end = offset + len as u64;
        let (size, is_inline) = {
            let state = held(&file.state);
            (state.size, state.is_inline)
        };
        if is_inline && end <= INLINE_BYTES as u64 {
            self.write_inline(file, offset as usize, &data[at..at + len]).await?;
            return Ok(len);
        }
        if is_inline && size > 0 {
            self.spill(file).await?;
        }
        let mut may_prove = self.store.log.may_prove();
        if offset > size {
            self.finish_note(file.id.number, true).await?;
            // The zeros must be there before the file reaches beyond them.
            may_prove &= !self.zero_tail(file, size).await?;
        }
        let segments = self.segments(file, offset, data, at, len, size).await?;
        let (from, to) = (offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        let mut pieces = self.pieces(file, from, to).await?;
        let mut is_apart = offset < size && size < end && !size.is_multiple_of(BLOCK_BYTES);
        if is_apart {
            set_apart(&mut pieces, size / BLOCK_BYTES);
        }
        let (mut most, mut refusals) = (EXTENTS_AT_ONCE, 0);
        loop {
            let mut targets = match self.targets(file, &pieces, size, Room::Free, most).await {
                // Where there is room for no more than the file has, that is what it is written to.
                Err(error) if error.kind == ErrorKind::NoSpace && is_apart => {
                    is_apart = false;
                    pieces = self.pieces(file, from, to).await?;
                    continue;
                }
                targets => targets?,
            };
            let reached = targets.last().map_or(from, |target| target.block + u64::from(target.extent.blocks));
            let done = (reached * BLOCK_BYTES).min(end) - offset;
            let stored = self.store_targets(file, &segments, &mut targets, offset + done, may_prove).await;
            match stored {
                // A change of fewer extents needs less room for nodes.
                Err(error) if error.kind == ErrorKind::NoSpace && targets.len() > 1 => most = targets.len() / 2,
                // Others took some of what the quota left: it is asked again what it leaves now.
                Err(error) if error.kind == ErrorKind::Quota && refusals < QUOTA_REFUSALS => refusals += 1,
                stored => return stored.map(|()| done as usize),
            }
        }
    }

    /// Gives back what is set aside for blocks that do not come there.
    pub(crate) fn give_up(&self, targets: &[Target]) {
        let mut rooms = held(&self.store.rooms);
        for Target { extent, promised, .. } in targets.iter().filter(|target| target.is_new) {
            rooms.put_back(extent.place, extent.blocks, *promised);
        }
    }

    /// Puts bytes into the record of a small file.
    async fn write_inline(&self, file: &File, offset: usize, data: &[u8]) -> Result<(), VolumeError> {
        let (id, now, end) = (file.id, self.now(), offset + data.len());
        let (size, logged) = self
            .store
            .change([keys::shard(id.number)], Need::More, |view| {
                let mut record = record_of(view, id)?;
                let mut bytes = record.inline.take().unwrap_or_default();
                bytes.resize(bytes.len().max(end), 0);
                bytes[offset..end].copy_from_slice(data);
                record.size = bytes.len() as u64;
                record.inline = Some(bytes);
                self.touch(&mut record, now);
                put_record(view, id.number, &record)?;
                Ok(record.size)
            })
            .await?;
        let mut state = held(&file.state);
        (state.size, state.logged) = (size, logged);
        (state.modified, state.recorded.1) = (None, now);
        Ok(())
    }

    /// Moves the bytes of a small file from its record to a block.
    pub(crate) async fn spill(&self, file: &File) -> Result<(), VolumeError> {
        let bytes = self.inline_bytes(file).await?;
        let segment = Segment { block: 0, data: IoSlice::padded(&bytes) };
        let hole = Piece { block: 0, blocks: 1, ground: Ground::Hole };
        let mut targets = self.targets(file, &[hole], 0, Room::Free, 1).await?;
        let may_prove = self.store.log.may_prove();
        self.store_targets(file, &[segment], &mut targets, bytes.len() as u64, may_prove).await
    }

    /// Makes zeros of what lies behind the end of a file in its last block, before the file grows over it; false if
    /// there was nothing to do.
    pub(crate) async fn zero_tail(&self, file: &File, size: u64) -> Result<bool, VolumeError> {
        let used = (size % BLOCK_BYTES) as usize;
        if used == 0 {
            return Ok(false);
        }
        let pieces = self.pieces(file, size / BLOCK_BYTES, size / BLOCK_BYTES + 1).await?;
        let Some(piece @ Piece { ground: Ground::Written(extent), .. }) = pieces.first() else { return Ok(false) };
        let mut block = self.read_extent(file, piece.block, extent).await?;
        block[used..].fill(0);
        self.rewrite_block(file, piece, block.freeze(), size).await?;
        held(&file.state).written = self.store.data.note();
        Ok(true)
    }

    /// Whether an extent is not to be written over: a snapshot or another file may have it, or it has checksums.
    pub(crate) fn is_kept(&self, extent: &Extent) -> bool {
        extent.is_shared || extent.sums.is_some() || self.store.snapshots.keep(extent)
    }

    /// Whether there may be any such extents in a file.
    pub(crate) fn may_be_kept(&self, file: &File) -> bool {
        let store = &self.store;
        file.is_strict() || store.snapshots.newest() != 0 || store.has_clones() || store.has_feature(CHECKSUMS)
    }

    /// Whether that is so of what lies under a piece of a file; nothing of a strict one is written over.
    pub(crate) fn is_others(&self, file: &File, piece: &Piece) -> bool {
        matches!(&piece.ground, Ground::Written(extent) if file.is_strict() || self.is_kept(extent))
    }

    /// Writes a block of a file that has data: where it lies, or where it is to lie from now on, if others have that.
    /// The file is locked alone.
    pub(crate) async fn rewrite_block(
        &self,
        file: &File,
        piece: &Piece,
        data: IoSlice,
        size: u64,
    ) -> Result<(), VolumeError> {
        let mut targets = self.targets(file, std::slice::from_ref(piece), size, Room::Free, 1).await?;
        let segment = Segment { block: piece.block, data };
        let may_prove = self.store.log.may_prove();
        Box::pin(self.store_targets(file, &[segment], &mut targets, size, may_prove)).await
    }

    /// The old content of a block, zeros where it has none; what lies beyond the end of the file counts as zeros.
    pub(crate) async fn old_block(&self, file: &File, block: u64, size: u64) -> Result<IoBuf, VolumeError> {
        let inside = size.saturating_sub(block * BLOCK_BYTES).min(BLOCK_BYTES) as usize;
        let pieces = if inside == 0 { Pieces::new() } else { self.pieces(file, block, block + 1).await? };
        let extent = match pieces.first().map(|piece| &piece.ground) {
            Some(Ground::Written(extent)) => extent,
            Some(Ground::Lost) => return Err(VolumeError::corrupt(extents::LOST)),
            _ => return Ok(IoBuf::zeroed(BLOCK)),
        };
        let mut old = self.read_extent(file, block, extent).await?;
        old[inside..].fill(0);
        Ok(old)
    }

    /// The data as whole blocks: as it came where it can be, with what was there around it where not.
    async fn segments(
        &self,
        file: &File,
        offset: u64,
        data: &IoSlice,
        at: usize,
        len: usize,
        size: u64,
    ) -> Result<Vec<Segment>, VolumeError> {
        let (block, head) = (offset / BLOCK_BYTES, (offset % BLOCK_BYTES) as usize);
        let tail = (head + len) % BLOCK;
        // A last block of which all that counts is written needs nothing of what it was, which may not be read any more.
        let reaches_end = offset + len as u64 >= size;
        if head == 0 && at.is_multiple_of(BLOCK) {
            let mut segments = Vec::with_capacity(2);
            if len >= BLOCK {
                segments.push(Segment { block, data: data.slice(at, len - tail) });
            }
            if tail > 0 {
                let last = block + (len / BLOCK) as u64;
                let mut buf = if reaches_end { IoBuf::zeroed(BLOCK) } else { self.old_block(file, last, size).await? };
                buf[..tail].copy_from_slice(&data[at + len - tail..at + len]);
                segments.push(Segment { block: last, data: buf.freeze() });
            }
            return Ok(segments);
        }
        let blocks = (head + len).div_ceil(BLOCK);
        let mut buf = IoBuf::zeroed(blocks * BLOCK);
        if head > 0 {
            buf[..BLOCK].copy_from_slice(&self.old_block(file, block, size).await?);
        }
        if tail > 0 && (blocks > 1 || head == 0) && !reaches_end {
            let last = self.old_block(file, block + blocks as u64 - 1, size).await?;
            buf[(blocks - 1) * BLOCK..].copy_from_slice(&last);
        }
        buf[head..head + len].copy_from_slice(&data[at..at + len]);
        Ok(vec![Segment { block, data: buf.freeze() }])
    }

    /// Where pieces of a file are to be written: where they lie, or in room that is set aside; as many as one change
    /// can name, and `most` at most.
    pub(crate) async fn targets(
        &self,
        file: &File,
        pieces: &[Piece],
        size: u64,
        room: Room,
        most: usize,
    ) -> Result<Vec<Target>, VolumeError> {
        let mut targets = Vec::with_capacity(pieces.len());
        let longest = if file.is_strict() { MOST_SUMMED } else { MOST_EXTENT };
        let holes = pieces.iter().filter(|piece| piece.ground == Ground::Hole).map(|piece| piece.blocks).sum();
        let (mut left, mut refused) = match room {
            Room::Free => self.fit(file, holes).await?,
            Room::Promised => (holes, None),
        };
        // No more than the file's own: others rely on theirs.
        let promised = |state: &State| (state.delayed.promised, state.delayed.moved);
        let (mut promised, mut moved) = if room == Room::Promised { promised(&held(&file.state)) } else { (0, 0) };
        for piece in pieces {
            if targets.len() >= most {
                break;
            }
            match &piece.ground {
                Ground::Written(extent) if !self.is_others(file, piece) => {
                    targets.push(Target::old(piece.block, extent.clone(), true));
                }
                Ground::Unwritten(extent) => {
                    let extent = Extent { is_written: true, ..extent.clone() };
                    let mut skip = 0;
                    while skip < extent.blocks && targets.len() < most {
                        let part = extent.part(skip, (extent.blocks - skip).min(longest));
                        let block = piece.block + u64::from(skip);
                        skip += part.blocks;
                        targets.push(Target::old(block, part, false));
                    }
                }
                Ground::Delayed => unreachable!("only readers are told"),
                Ground::Hole | Ground::Lost | Ground::Written(_) => {
                    let mut at = piece.block;
                    let end = piece.block + piece.blocks;
                    // What was lost, and what others have as well, counts already.
                    let is_more = piece.ground == Ground::Hole;
                    while at < end && targets.len() < most {
                        let goal = targets.last().map(|target: &Target| target.extent.end());
                        let fitting = if is_more { left } else { u64::MAX };
                        if let Some(error) = refused.take_if(|_| fitting == 0) {
                            // What quotas leave is written.
                            return if targets.is_empty() { Err(error) } else { Ok(targets) };
                        }
                        let want = (end - at).min(fitting).min(longest.into()) as u32;
                        let is_appended = at * BLOCK_BYTES >= size;
                        let kept = if is_more { &mut promised } else { &mut moved };
                        let own = (*kept).min(want.into()) as u32;
                        let found = self.set_aside(file, at, goal, want, is_appended, own).await;
                        let (place, blocks) = match found {
                            Ok(found) => found,
                            // What there is room for is written.
                            Err(error) if targets.is_empty() => return Err(error),
                            Err(_) => return Ok(targets),
                        };
                        let birth = held(&self.store.rooms).coming();
                        let extent = Extent { place, blocks, birth, is_written: true, is_shared: false, sums: None };
                        let own = own.min(blocks);
                        *kept -= u64::from(own);
                        let target = Target::old(at, extent, false);
                        targets.push(Target { is_new: true, promised: own, is_moved: !is_more, ..target });
                        at += u64::from(blocks);
                        left -= if is_more { u64::from(blocks) } else { 0 };
                    }
                }
            }
        }
        Ok(targets)
    }

    /// Sets room aside for blocks of a file: behind `goal`, or behind what lies before them in the file. The first
    /// `promised` of them keep a promise.
    async fn set_aside(
        &self,
        file: &File,
        block: u64,
        goal: Option<u64>,
        want: u32,
        is_appended: bool,
        promised: u32,
    ) -> Result<(u64, u32), VolumeError> {
        let goal = match goal {
            Some(goal) => Some(goal),
            None if block > 0 => match self.pieces(file, block - 1, block).await?.first().map(|piece| &piece.ground) {
                Some(Ground::Written(extent) | Ground::Unwritten(extent)) => Some(extent.end()),
                _ => None,
            },
            None => None,
        };
        let window = held(&file.state).window.take();
        if let Some((place, blocks)) = window {
            if goal == Some(place) && is_appended {
                let some = want.min(blocks);
                if blocks > some {
                    held(&file.state).window = Some((place + u64::from(some), blocks - some));
                }
                held(&self.store.rooms).take_back(promised.min(some).into());
                return Ok((place, some));
            }
            held(&self.store.rooms).release(place, blocks);
        }
        // A file that grows is likely to go on growing.
        let spare = if is_appended && goal.is_some() { block.min(MOST_WINDOW) as u32 } else { 0 };
        let (place, blocks) = self.reserve(goal, want + spare, promised).await?;
        if blocks > want {
            held(&file.state).window = Some((place + u64::from(want), blocks - want));
        }
        Ok((place, blocks.min(want)))
    }

    /// Sets room aside, in a further zone or after a checkpoint where there is none; so many blocks of it were promised.
    pub(crate) async fn reserve(&self, goal: Option<u64>, want: u32, promised: u32) -> Result<(u64, u32), VolumeError> {
        let mut tries = 0;
        loop {
            let found = held(&self.store.rooms).reserve(goal, want, promised);
            match found {
                Found::Run(place, blocks) => return Ok((place, blocks)),
                Found::Load(zone) => match self.store.load_zone(zone).await {
                    Err(error) if error.kind == ErrorKind::Corrupt => held(&self.store.rooms).shut(zone),
                    loaded => loaded?,
                },
                Found::Full => {
                    if self.store.add_data_zone().await? {
                        continue;
                    }
                    tries += 1;
                    match tries {
                        1 => {
                            self.open.all().iter().for_each(|file| self.release_window(file));
                            Box::pin(self.finish_late()).await;
                        }
                        2 => self.store.checkpoint().await?,
                        // What is being given back is free in a moment.
                        3 => drop(self.trimming.lock().await),
                        _ => return Err(rooms::full(self.id())),
                    }
                }
            }
        }
    }

    /// Gives back what is set aside behind a file.
    pub(crate) fn release_window(&self, file: &File) {
        let window = held(&file.state).window.take();
        if let Some((place, blocks)) = window {
            held(&self.store.rooms).release(place, blocks);
        }
    }

    /// Writes data to where some of it is to lie; answers its checksums, if they may prove that it is there.
    pub(crate) async fn write_targets(
        &self,
        segments: &[Segment],
        targets: &[Target],
        is_wanted: impl Fn(&Target) -> bool,
        may_prove: bool,
    ) -> Result<Vec<BlockSum>, VolumeError> {
        let targets = || targets.iter().filter(|target| is_wanted(target));
        for target in targets().filter(|target| !target.is_new) {
            self.store.settle_blocks(target.extent.place, target.extent.blocks.into()).await?;
        }
        let mut parts: Vec<Placed> = Vec::with_capacity(segments.len() + 1);
        let count: usize = segments.iter().map(|segment| segment.data.len() / BLOCK).sum();
        let mut sums = Vec::with_capacity(if may_prove && count <= MOST_SUMS { count } else { 0 });
        for target in targets() {
            let Range { start: from, end: to } = target.blocks();
            let reach_it = segments.partition_point(|segment| segment.end() <= from);
            for segment in segments[reach_it..].iter().take_while(|segment| segment.block < to) {
                let (first, behind) = (from.max(segment.block), to.min(segment.end()));
                if first < behind {
                    let part =
                        segment.data.slice((first - segment.block) as usize * BLOCK, (behind - first) as usize * BLOCK);
                    let place = target.extent.place + (first - from);
                    if sums.capacity() > 0 {
                        let known = |place: u64| {
                            let sums = target.extent.sums.as_ref()?;
                            Some(sums.get((place - target.extent.place) as usize))
                        };
                        let blocks = part.chunks(BLOCK).zip(place..);
                        sums.extend(blocks.map(|(block, place)| BlockSum {
                            place,
                            crc: known(place).unwrap_or_else(|| crc_of(block)),
                        }));
                    }
                    parts.push((place, part));
                }
            }
        }
        let write = |run: &[Placed]| self.store.device.write(run[0].0 * BLOCK_BYTES, data_of(run), Durability::Cached);
        all(runs(&parts).map(write)).await?;
        Ok(sums)
    }

    /// Writes data to where it is to lie, and has the file know it. `end` is where the file reaches at least then. Room that
    /// was set aside for it is nobody's again where that fails, and what the file had is as it was: that is written over
    /// last.
    async fn store_targets(
        &self,
        file: &File,
        segments: &[Segment],
        targets: &mut [Target],
        end: u64,
        may_prove: bool,
    ) -> Result<(), VolumeError> {
        if targets.iter().any(|target| target.is_written)
            && let Err(error) = self.note_overwrite(file).await
        {
            self.give_up(targets);
            return Err(error);
        }
        sum_targets(file, segments, targets);
        let targets = &*targets;
        let size = held(&file.state).size;
        // Where the file grows, the block that it ended in has nothing new before that end.
        let is_within = |target: &Target| end <= size || target.blocks().end * BLOCK_BYTES <= size;
        let is_over = |target: &Target| target.is_written && is_within(target);
        let written = self.write_targets(segments, targets, |target| !is_over(target), may_prove).await;
        let stored = match written {
            Ok(sums) => self.know_targets(file, targets, end, &sums).await,
            Err(error) => Err(error),
        };
        if stored.is_err() {
            self.give_up(targets);
            return stored;
        }
        if targets.iter().any(is_over) {
            self.write_targets(segments, targets, is_over, false).await?;
            self.note_written(file);
        }
        Ok(())
    }

    /// Has a file know data that was written.
    async fn know_targets(
        &self,
        file: &File,
        targets: &[Target],
        end: u64,
        sums: &[BlockSum],
    ) -> Result<(), VolumeError> {
        let (from, to) = match (targets.first(), targets.last()) {
            (Some(first), Some(last)) => (first.block, last.block + u64::from(last.extent.blocks)),
            _ => return Ok(()),
        };
        if end <= held(&file.state).size && targets.iter().all(|target| target.is_written) {
            self.note_written(file);
            return Ok(());
        }
        let written = self.store.data.note();
        let new: Vec<(u64, Extent)> = targets.iter().map(|target| (target.block, target.extent.clone())).collect();
        let (id, now) = (file.id, self.now());
        // Room that was set aside for a file is there for it, also on a full volume.
        let need = if targets.iter().any(|target| target.is_new) { Need::More } else { Need::Own };
        let (size, logged) = self
            .store
            .change([keys::shard(id.number), OWNER_TREE], need, |view| {
                let mut record = record_of(view, id)?;
                extents::replace(view, id.number, &mut record, from..to, &new)?;
                record.inline = None;
                record.size = record.size.max(end);
                view.follow_data();
                view.prove_data(sums);
                self.touch(&mut record, now);
                put_record(view, id.number, &record)?;
                Ok(record.size)
            })
            .await?;
        let mut state = held(&file.state);
        (state.size, state.is_inline, state.mapping) = (size, false, None);
        (state.logged, state.written) = (logged, written);
        (state.modified, state.recorded.1) = (None, now);
        Ok(())
    }
}

/// Has a block take new room that has bytes of the file written over and others that it grows by: in its place it would
/// not be as it was where the growth is refused.
fn set_apart(pieces: &mut Pieces, block: u64) {
    let is_it = |piece: &Piece| (piece.block..piece.block + piece.blocks).contains(&block);
    let Some(at) = pieces.iter().position(|piece| is_it(piece) && matches!(piece.ground, Ground::Written(_))) else {
        return;
    };
    let piece = pieces.remove(at);
    let own = Piece { block, blocks: 1, ground: Ground::Lost };
    let parts = [piece.part(piece.block..block), Some(own), piece.part(block + 1..piece.block + piece.blocks)];
    parts.into_iter().flatten().rev().for_each(|part| pieces.insert(at, part));
}
