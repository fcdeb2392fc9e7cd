//! Data that waits in memory for its place on the device.
//!
//! ```text
//!   write ─▶ room, metadata and quota promised ─▶ blocks in memory, length and times of the file ─▶ written back
//! ```
//!
//! Many small writes take their room at once, side by side, and what is removed soon takes none. Reads see what waits
//! over what lies on the device.
//!
//! Invariants: what waits has been promised all that it will take, so writing it back is never refused for want of it.
//! It waits until it is written, or nobody can name it any more: a device that fails takes nothing from it. The blocks of
//! a file that wait are whole, with zeros behind its end, and while there are any nothing else changes whether its blocks
//! have room.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use holdfast_device::{IoBuf, IoSlice};
use holdfast_model::BLOCK_BYTES;
use smallvec::SmallVec;

use crate::change::Need;
use crate::error::VolumeError;
use crate::extents::{Ground, Piece, Pieces};
use crate::keys;
use crate::open_files::{File, Left, Use};
use crate::record::Share;
use crate::scan::judge;
use crate::service::FileId;
use crate::store::{Store, held, zones_left};
use crate::volume::Volume;
use crate::write::{Segment, Target};

const BLOCK: usize = BLOCK_BYTES as usize;
/// Bytes of a write from which on it goes to the device at once: it is a run by itself.
const AT_ONCE_BYTES: usize = 256 << 10;
/// Bytes of one file that wait, at most.
const MOST_OF_FILE: usize = 4 << 20;
/// Extents that add less than a node to the tree of their file and to that of owners: leaves that are half full have 160
/// entries of either. Where they do not, what is kept for changes that give room back has nodes for them; more promised
/// would have zones be taken for nodes that mostly do not come.
pub(crate) const EXTENTS_OF_NODE: usize = 64;
/// Blocks beside the data of a write that may come to wait with it: its first and its last one, the one at the end of the
/// file, and the one of what was in the record.
const EDGES: usize = 4;
/// Nodes that a request looks for room for, at most.
const NODES_OF_REQUEST: usize = 256;
/// What the first extent of a file counts beside itself, as it may cut a leaf in two.
const EXTRA_OF_FILE: usize = 2;

/// What waits of a file.
#[derive(Debug, Default)]
pub(crate) struct Delayed {
    blocks: BTreeMap<u64, IoBuf>,
    /// Blocks that room is promised to, and that quotas count.
    pub promised: u64,
    /// Blocks that other room is promised to than what others have of them.
    pub moved: u64,
    /// Extents that nodes are promised to.
    extents: usize,
    /// The length that the record says, and whether the record carries the bytes.
    pub recorded: (u64, bool),
    /// Its number among all files that wait.
    number: Option<u64>,
}

impl Delayed {
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Whether any of these blocks waits.
    pub fn has(&self, blocks: Range<u64>) -> bool {
        self.blocks.range(blocks).next().is_some()
    }

    fn count(&self, blocks: Range<u64>) -> u64 {
        self.blocks.range(blocks).count() as u64
    }

    /// A copy of blocks that all wait.
    pub fn copy(&self, block: u64, blocks: u64) -> IoSlice {
        let mut buf = IoBuf::new(blocks as usize * BLOCK);
        for (part, waiting) in buf.chunks_mut(BLOCK).zip(self.blocks.range(block..block + blocks)) {
            part.copy_from_slice(waiting.1);
        }
        buf.freeze()
    }

    /// Copies of the first blocks before `end`, `most` of them at most, those that follow each other together.
    pub fn first(&self, end: u64, most: usize) -> Vec<Segment> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (block, _) in self.blocks.range(..end).take(most) {
            match runs.last_mut().filter(|run| run.end == *block) {
                Some(run) => run.end += 1,
                None => runs.push(*block..block + 1),
            }
        }
        let copy = |run: Range<u64>| Segment { block: run.start, data: self.copy(run.start, run.end - run.start) };
        runs.into_iter().map(copy).collect()
    }

    /// Lets go of blocks; answers how many.
    fn remove(&mut self, blocks: Range<u64>) -> usize {
        let mut gone = self.blocks.split_off(&blocks.start);
        let mut behind = gone.split_off(&blocks.end);
        self.blocks.append(&mut behind);
        gone.len()
    }

    /// Pieces with what waits over them.
    pub fn over(&self, pieces: Pieces) -> Pieces {
        if self.is_empty() {
            return pieces;
        }
        let mut seen = Pieces::with_capacity(pieces.len() + 2);
        for piece in pieces {
            let (mut at, end) = (piece.block, piece.block + piece.blocks);
            for block in self.blocks.range(at..end).map(|(block, _)| *block) {
                seen.extend(piece.part(at..block));
                match seen.last_mut() {
                    Some(last) if last.ground == Ground::Delayed && last.block + last.blocks == block => {
                        last.blocks += 1
                    }
                    _ => seen.push(Piece { block, blocks: 1, ground: Ground::Delayed }),
                }
                at = block + 1;
            }
            seen.extend(piece.part(at..end));
        }
        seen
    }
}

/// Files that have data that waits, by the order in which they began to.
#[derive(Default)]
pub(crate) struct Waiting {
    list: Mutex<List>,
    bytes: AtomicUsize,
    /// Told when less waits, or is about to.
    changed: tokio::sync::Notify,
    /// Whether nothing is written back for now.
    pub is_held_back: AtomicBool,
    /// Whether nothing comes to wait for now.
    pub is_closed: AtomicBool,
    /// Files that could not be written, and why not.
    failing: Mutex<BTreeMap<u64, VolumeError>>,
}

/// Memory that is kept for a write; what of the write comes to wait counts by itself.
pub(crate) struct Kept<'a> {
    waiting: &'a Waiting,
    bytes: usize,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.waiting.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        // Nobody waits for it at other times.
        if self.waiting.is_closed.load(Ordering::SeqCst) {
            self.waiting.changed.notify_waiters();
        }
    }
}

#[derive(Default)]
struct List {
    files: BTreeMap<u64, u64>,
    next: u64,
    /// Those before this one waited at the last turn.
    aged: u64,
    /// Those that a program closed that wrote them, and does not come back to soon.
    closed: BTreeSet<u64>,
}

impl Waiting {
    fn add(&self, file: u64) -> u64 {
        let mut list = held(&self.list);
        let number = list.next;
        list.next += 1;
        list.files.insert(number, file);
        number
    }

    fn remove(&self, number: u64) {
        let mut list = held(&self.list);
        list.files.remove(&number);
        list.closed.remove(&number);
    }

    /// What waits of a file is to wait no longer than until the next turn.
    pub fn note_closed(&self, delayed: &Delayed) {
        if let Some(number) = delayed.number {
            held(&self.list).closed.insert(number);
        }
    }

    pub fn all(&self) -> Vec<u64> {
        held(&self.list).files.values().copied().collect()
    }

    /// Those that waited at the last turn, too, or were closed, and did not fail since.
    pub fn turn(&self) -> Vec<u64> {
        let mut list = held(&self.list);
        let next = list.next;
        let aged = std::mem::replace(&mut list.aged, next);
        let closed = std::mem::take(&mut list.closed);
        let failing = held(&self.failing);
        let is_due = |number: &u64| *number < aged || closed.contains(number);
        let due = list.files.iter().filter(|(number, _)| is_due(number)).map(|(_, file)| *file);
        due.filter(|file| !failing.contains_key(file)).collect()
    }

    /// A file could not be written.
    pub fn note_failure(&self, file: u64, error: VolumeError) {
        held(&self.failing).insert(file, error);
    }

    /// Waits until nothing waits, or something does that could be written back. Nothing comes to wait meanwhile.
    pub async fn emptied(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_empty() || !held(&self.list).files.is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// Whether nothing waits, and nothing is about to.
    pub fn is_empty(&self) -> bool {
        self.bytes.load(Ordering::SeqCst) == 0
    }

    /// Files that could not be written, and why the first of them could not.
    pub fn failing(&self) -> Option<(usize, VolumeError)> {
        let failing = held(&self.failing);
        failing.first_key_value().map(|(_, error)| (failing.len(), error.clone()))
    }

    /// Keeps memory for so many bytes, if there is as much.
    fn keep(&self, bytes: usize, most: usize) -> Option<Kept<'_>> {
        let kept = Kept { waiting: self, bytes };
        (self.bytes.fetch_add(bytes, Ordering::SeqCst) + bytes <= most).then_some(kept)
    }
}

impl Store {
    /// Promises nodes to so many more extents; false, and nothing is promised, where there is no room for them.
    fn promise_nodes(&self, extents: usize) -> bool {
        self.promised.fetch_add(extents, Ordering::AcqRel);
        // Zones that data may take as well are none to rely on.
        let is_kept = self.has_nodes(0, self.kept_zones());
        if !is_kept {
            self.take_back_nodes(extents);
        }
        is_kept
    }

    /// Whether there is room for so many nodes beside those that are promised, with so many zones that are nobody's yet.
    fn has_nodes(&self, nodes: usize, most: u32) -> bool {
        let needed = self.needed(nodes, Need::More);
        let in_use = self.zones_in_use();
        let (zones, rooms) = (held(&self.zones), held(&self.rooms));
        let free = zones_left(in_use, &zones, &rooms).min(most) as usize;
        zones.free_nodes() + free * zones.nodes_of_zone() >= needed
    }

    fn take_back_nodes(&self, extents: usize) {
        self.promised.fetch_sub(extents, Ordering::AcqRel);
    }

    /// Promises a file room for more blocks, within its quotas, and for some that it has already; false, and nothing is
    /// promised, where there is none.
    async fn promise_blocks(&self, file: FileId, blocks: u64, moved: u64) -> Result<bool, VolumeError> {
        if blocks + moved == 0 {
            return Ok(true);
        }
        let is_kept = held(&self.rooms).promise(blocks + moved);
        if !(is_kept || self.add_data_zone().await? && held(&self.rooms).promise(blocks + moved)) {
            return Ok(false);
        }
        if blocks == 0 {
            return Ok(true);
        }
        let shard = keys::shard(file.number);
        let is_held = self.look([shard], |view| {
            let share = view.get(shard, &keys::record(file.number))?.as_deref().and_then(Share::of);
            Ok(share.is_some_and(|share| self.ledger.hold(file.number, share, blocks)))
        });
        let is_held = is_held.await;
        if !matches!(is_held, Ok(true)) {
            held(&self.rooms).take_back(blocks + moved);
        }
        is_held
    }
}

impl Volume {
    /// Memory for a write of so many bytes to wait in, for which others are written back; none where the write is to go to
    /// the device at once: it is a run by itself, or what waits cannot be written, which its own error shall tell. No
    /// file may be locked.
    pub(crate) async fn memory(&self, len: usize) -> Option<Kept<'_>> {
        let most = self.store.settings.delayed_bytes;
        let bytes = len.next_multiple_of(BLOCK) + EDGES * BLOCK;
        if len >= AT_ONCE_BYTES || bytes > most {
            return None;
        }
        let mut others = None;
        loop {
            if !held(&self.waiting.failing).is_empty() {
                return None;
            }
            if let Some(kept) = self.waiting.keep(bytes, most) {
                // Looked at behind that: whoever closed it waits for what is kept.
                return (!self.waiting.is_closed.load(Ordering::SeqCst)).then_some(kept);
            }
            let number = others.get_or_insert_with(|| self.waiting.all().into_iter()).next()?;
            self.write_back(number).await.ok()?;
        }
    }

    /// Has data wait in memory until it is written back; false, and nothing was done, where it must be written at once.
    /// The file is locked alone.
    pub(crate) async fn delay(&self, file: &Arc<File>, offset: u64, data: &[u8]) -> Result<bool, VolumeError> {
        let end = offset + data.len() as u64;
        let (from, to) = (offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        let (size, is_inline, is_first) = {
            let state = held(&file.state);
            (state.size, state.is_inline, state.delayed.is_empty())
        };
        // What an earlier cut left behind the end must not show, nor go while this waits.
        if is_first && self.finish_note(file.id.number, true).await.is_err() {
            return Ok(false);
        }
        let pieces = self.pieces(file, from, to).await?;
        if pieces.iter().any(|piece| piece.ground == Ground::Lost) {
            return Ok(false);
        }
        let end_block = size / BLOCK_BYTES;
        if end_block < from && !is_inline && self.may_be_kept(file) {
            let last = self.pieces(file, end_block, end_block + 1).await?;
            if last.iter().any(|piece| self.is_others(file, piece)) {
                return Ok(false);
            }
        }
        let edges = self.edges(file, offset..end, size, is_inline).await?;
        let is_others: SmallVec<[bool; 4]> = pieces.iter().map(|piece| self.is_others(file, piece)).collect();
        let (blocks, moved, extents) = {
            let delayed = &held(&file.state).delayed;
            let new = |piece: &Piece| piece.blocks - delayed.count(piece.block..piece.block + piece.blocks);
            let (mut blocks, mut cut, mut moved) = (u64::from(is_inline && size > 0 && from > 0), 0, 0);
            for (piece, is_others) in pieces.iter().zip(is_others) {
                match piece.ground {
                    Ground::Hole => blocks += new(piece),
                    Ground::Unwritten(_) => cut += new(piece),
                    // What others have is written to another place.
                    _ if is_others => moved += new(piece),
                    _ => {}
                }
            }
            // A block in the middle of an extent makes three of it, and what others have of it is noted.
            let mut extents = blocks + 2 * cut + 4 * moved;
            // What snapshots have of nodes they keep, too: the first change of a leaf takes a node for good.
            if moved > 0 && self.store.snapshots.newest() != 0 && !delayed.has(from.saturating_sub(1)..from) {
                extents += EXTENTS_OF_NODE as u64;
            }
            (blocks, moved, extents as usize + if is_first { EXTRA_OF_FILE } else { 0 })
        };
        if extents > 0 && !self.store.promise_nodes(extents) {
            return Ok(false);
        }
        let is_promised = self.store.promise_blocks(file.id, blocks, moved).await;
        if !matches!(is_promised, Ok(true)) {
            self.store.take_back_nodes(extents);
            return is_promised;
        }
        let number = if is_first { Some(self.waiting.add(file.id.number)) } else { None };
        if is_first {
            self.open.keep(file.id.number);
        }
        let (now, change) = (self.now(), self.next_change());
        let bytes = {
            let mut state = held(&file.state);
            let delayed = &mut state.delayed;
            let before = delayed.blocks.len();
            delayed.promised += blocks;
            delayed.moved += moved;
            delayed.extents += extents;
            if number.is_some() {
                (delayed.number, delayed.recorded) = (number, (size, is_inline));
            }
            delayed.blocks.extend(edges);
            for block in from..to {
                let start = block * BLOCK_BYTES;
                let (first, last) = (offset.max(start), end.min(start + BLOCK_BYTES));
                let part = &data[(first - offset) as usize..(last - offset) as usize];
                // One that does not wait yet is written as a whole: what is written in part is an edge.
                let buf = delayed.blocks.entry(block).or_insert_with(|| IoBuf::new(BLOCK));
                buf[(first - start) as usize..(last - start) as usize].copy_from_slice(part);
            }
            let bytes = (delayed.blocks.len() - before) * BLOCK;
            let waiting = delayed.blocks.len() * BLOCK;
            (state.size, state.is_inline) = (size.max(end), false);
            (state.modified, state.change) = (Some(now), change);
            self.waiting.bytes.fetch_add(bytes, Ordering::AcqRel);
            waiting
        };
        if bytes >= MOST_OF_FILE {
            // Whoever makes the file durable is told what goes wrong.
            _ = self.write_back_locked(file).await;
        }
        Ok(true)
    }

    /// Blocks that do not wait yet, and of which something stays when a range is written: as they are, with zeros behind
    /// the end of the file.
    async fn edges(
        &self,
        file: &File,
        range: Range<u64>,
        size: u64,
        is_inline: bool,
    ) -> Result<Vec<(u64, IoBuf)>, VolumeError> {
        let is_whole = |block: u64| range.start <= block * BLOCK_BYTES && (block + 1) * BLOCK_BYTES <= range.end;
        let (from, last) = (range.start / BLOCK_BYTES, (range.end - 1) / BLOCK_BYTES);
        let mut blocks = vec![from, last];
        let end = size / BLOCK_BYTES;
        // The file grows over what lies behind its end.
        let grows_over =
            !size.is_multiple_of(BLOCK_BYTES) && end < from && (is_inline || self.is_written(file, end).await?);
        if grows_over {
            blocks.insert(0, end);
        }
        if is_inline && size > 0 {
            blocks.insert(0, 0);
        }
        blocks.dedup();
        blocks.retain(|block| !is_whole(*block) && !held(&file.state).delayed.has(*block..*block + 1));
        let mut edges = Vec::with_capacity(blocks.len());
        for block in blocks {
            let old = if is_inline {
                let bytes = if block == 0 { self.inline_bytes(file).await? } else { Vec::new() };
                let mut buf = IoBuf::zeroed(BLOCK);
                buf[..bytes.len()].copy_from_slice(&bytes);
                buf
            } else if range.start <= block * BLOCK_BYTES && block == last && size <= range.end {
                // All of it that counts is written, whether or not it can be read.
                IoBuf::zeroed(BLOCK)
            } else {
                self.old_block(file, block, size).await?
            };
            edges.push((block, old));
        }
        Ok(edges)
    }

    async fn is_written(&self, file: &File, block: u64) -> Result<bool, VolumeError> {
        let pieces = self.pieces(file, block, block + 1).await?;
        Ok(matches!(pieces.first(), Some(Piece { ground: Ground::Written(_), .. })))
    }

    /// Blocks of a file found their places, and have what was promised to them.
    pub(crate) fn note_placed(&self, file: &File, targets: &[Target], recorded: (u64, bool)) {
        let promised = |is_moved: bool| -> u64 {
            targets.iter().filter(|target| target.is_moved() == is_moved).map(Target::promised).sum()
        };
        let mut state = held(&file.state);
        let gone: usize = targets.iter().map(|target| state.delayed.remove(target.blocks())).sum();
        state.delayed.promised = state.delayed.promised.saturating_sub(promised(false));
        state.delayed.moved = state.delayed.moved.saturating_sub(promised(true));
        state.delayed.recorded = recorded;
        self.waiting.bytes.fetch_sub(gone * BLOCK, Ordering::AcqRel);
    }

    /// Has data written back before a request that may want room for metadata, where there seems to be none: more is
    /// promised to what waits than it mostly needs. What could not be removed for want of room is tried again, too. No file
    /// may be locked.
    pub(crate) async fn make_room(&self) {
        let may_help = self.store.promised.load(Ordering::Acquire) > 0 || !held(&self.late).is_empty();
        if may_help && !self.store.has_nodes(NODES_OF_REQUEST, u32::MAX) {
            Box::pin(self.free_nodes()).await;
        }
    }

    /// Tries again what could not be removed for want of room, and writes back what waits.
    async fn free_nodes(&self) {
        self.finish_late().await;
        if self.store.promised.load(Ordering::Acquire) > 0 {
            // What stays promised is not there for the request, which is refused then.
            _ = self.write_back_all(&self.waiting.all()).await;
        }
    }

    /// Lets go of all that waits of a file: it is as its record says. The file is locked alone.
    pub(crate) fn drop_delayed(&self, file: &File) {
        {
            let mut state = held(&file.state);
            if state.delayed.number.is_none() {
                return;
            }
            (state.size, state.is_inline) = state.delayed.recorded;
            state.mapping = None;
        }
        self.end_delay(file);
    }

    /// Nothing of a file waits any more.
    pub(crate) fn end_delay(&self, file: &File) {
        let delayed = std::mem::take(&mut held(&file.state).delayed);
        self.waiting.bytes.fetch_sub(delayed.blocks.len() * BLOCK, Ordering::AcqRel);
        if let Some(number) = delayed.number {
            self.waiting.remove(number);
        }
        held(&self.waiting.failing).remove(&file.id.number);
        held(&self.store.rooms).take_back(delayed.promised + delayed.moved);
        self.store.take_back_nodes(delayed.extents);
        self.store.ledger.let_go(file.id.number);
        self.open.let_go(file.id.number);
    }

    /// Lets go of what waits of a file that lost its last name while nobody used it.
    pub(crate) async fn discard(&self, number: u64) {
        let Some(file) = self.open.enter_known(number) else { return };
        {
            let _alone = file.data.write().await;
            self.drop_delayed(&file);
        }
        // What is left of a file without a name goes at the next opening at the latest.
        _ = Box::pin(self.leave(&file, Use::Own)).await;
    }

    /// The same where a file has no name, and nobody has it open any more.
    pub(crate) async fn discard_unnamed(&self, number: u64) -> Result<(), VolumeError> {
        let Some(file) = self.open.enter_known(number) else { return Ok(()) };
        let looked = {
            let _alone = file.data.write().await;
            // Whoever opens it looks at the record afterwards.
            let look = self.store.look([keys::shard(number)], |view| {
                let is_unnamed = judge::record(view, number)?.is_some_and(|record| record.links == 0);
                let is_used = self.open.handles(number) > 0 || self.remembered.has_left(number);
                if is_unnamed && !is_used {
                    self.drop_delayed(&file);
                }
                Ok(())
            });
            look.await
        };
        let left = match self.open.leave(&file, Use::Own) {
            Left::Gone => Box::pin(self.forget(&file)).await,
            Left::InUse | Left::Kept => Ok(()),
        };
        looked.and(left)
    }

    /// Has nothing be written back until this is dropped: what lies where is not known meanwhile.
    pub(crate) async fn hold_back(&self) -> HeldBack<'_> {
        let writing = self.maintaining.lock().await;
        _ = self.write_back_all(&self.waiting.all()).await;
        self.waiting.is_held_back.store(true, Ordering::Release);
        HeldBack { waiting: &self.waiting, _writing: writing }
    }
}

/// While this is there nothing is written back.
pub(crate) struct HeldBack<'a> {
    waiting: &'a Waiting,
    _writing: tokio::sync::MutexGuard<'a, ()>,
}

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        self.waiting.is_held_back.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
