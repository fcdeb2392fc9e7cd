//! Who has blocks that are shared: one reference for each file, and for what snapshots keep of each.
//!
//! ```text
//!   map of owners, of a zone:   zone │ class │ place │ blocks │ file, stream, block      a file's reference
//!                               zone │ class │ place │ blocks │ birth, death             one that is kept
//!                               place ─▶ owner                                           blocks that one file has
//! ```
//!
//! References may overlap in any way, so those over some blocks are looked for among the ones of each class of lengths:
//! they begin at most the longest length of the class before. How many have a block is how many references are over it.
//!
//! Invariants: the blocks of references are in no owner of their zone, and all of them are taken. What is read here are the
//! trees without what a change did so far.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};

use holdfast_model::BLOCK_BYTES;

use crate::OWNER_TREE;
use crate::bitmap::{BITS, Bitmap};
use crate::change::{Need, Stop, View};
use crate::extent::Extent;
use crate::keys;
use crate::scan::{Owner, runs};
use crate::snapshots::Span;
use crate::store::Store;

/// Bytes of the key of an owner, and of what stands before the class in that of a reference.
const PLACE_BYTES: usize = 8;
const FILE: u8 = 1;
const SNAPSHOTS: u8 = 2;
/// The class of the longest references.
const MOST_CLASS: u8 = 16;

/// Whose a reference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A file's, from this block of a stream on.
    File { file: u64, stream: u32, block: u64 },
    /// That of snapshots in this span.
    Snapshots(Span),
}

/// Blocks that are shared, and one who has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub place: u64,
    pub blocks: u32,
    pub whose: Whose,
}

/// The class of references so long: twice as long at most as the shortest of it.
fn class_of(blocks: u32) -> u8 {
    (u32::BITS - blocks.saturating_sub(1).leading_zeros()) as u8
}

/// Where references of a class are looked for that begin at a place and have so many blocks at least.
fn seek(zone: u64, class: u8, place: u64, blocks: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(42);
    key.extend_from_slice(&zone.to_be_bytes());
    key.push(class);
    key.extend_from_slice(&place.to_be_bytes());
    key.extend_from_slice(&blocks.to_be_bytes());
    key
}

impl Reference {
    /// That of a file to an extent of its data.
    pub fn of_file(file: u64, stream: u32, block: u64, extent: &Extent) -> Self {
        Self { place: extent.place, blocks: extent.blocks, whose: Whose::File { file, stream, block } }
    }

    /// The block behind it on the device.
    pub fn end(&self) -> u64 {
        self.place + u64::from(self.blocks)
    }

    /// Its key, for a zone that begins at this block.
    fn key(&self, zone: u64) -> Vec<u8> {
        let mut key = seek(zone, class_of(self.blocks), self.place, self.blocks);
        match self.whose {
            Whose::File { file, stream, block } => {
                key.push(FILE);
                key.extend_from_slice(&file.to_be_bytes());
                key.extend_from_slice(&stream.to_be_bytes());
                key.extend_from_slice(&block.to_be_bytes());
            }
            Whose::Snapshots(span) => {
                key.push(SNAPSHOTS);
                key.extend_from_slice(&span.birth.to_be_bytes());
                key.extend_from_slice(&span.death.to_be_bytes());
            }
        }
        key
    }

    /// Reads it from a key of the map of owners, if that is one.
    pub fn decode(key: &[u8]) -> Option<Self> {
        let short = |at: usize| Some(u32::from_be_bytes(key.get(at..at + 4)?.try_into().ok()?));
        let (zone, class, place, blocks) = (keys::number(key, 0)?, *key.get(8)?, keys::number(key, 9)?, short(17)?);
        let whose = match (key.get(21)?, key.len()) {
            (&FILE, 42) => {
                Whose::File { file: keys::number(key, 22)?, stream: short(30)?, block: keys::number(key, 34)? }
            }
            (&SNAPSHOTS, 38) => Whose::Snapshots(Span { birth: keys::number(key, 22)?, death: keys::number(key, 30)? }),
            _ => return None,
        };
        let is_within = place > zone && place - zone < BITS.into() && place < 1 << 51;
        let is_sound = blocks > 0 && blocks <= BITS && class == class_of(blocks) && is_within;
        let ends = match whose {
            Whose::File { block, .. } => block.checked_add(blocks.into()).is_some(),
            Whose::Snapshots(_) => true,
        };
        (is_sound && ends).then_some(Self { place, blocks, whose })
    }

    /// Whether a key of the map of owners is not that of an owner.
    pub fn is_key(key: &[u8]) -> bool {
        key.len() > PLACE_BYTES
    }
}

impl Store {
    /// The first block of the zone that a block lies in.
    pub(crate) fn zone_start(&self, place: u64) -> Option<u64> {
        let (_, block) = self.zone_of(place.checked_mul(BLOCK_BYTES)?)?;
        Some(place - u64::from(block))
    }

    /// The key of a reference; none where its blocks lie in no zone.
    pub(crate) fn reference_key(&self, reference: &Reference) -> Option<Vec<u8>> {
        Some(reference.key(self.zone_start(reference.place)?))
    }

    /// Hands out the references over some blocks of one zone, until one is enough.
    pub(crate) fn each_over(
        &self,
        view: &View<'_>,
        range: Range<u64>,
        mut each: impl FnMut(&[u8], &Reference) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        let Some(zone) = self.zone_start(range.start) else { return Ok(()) };
        let first_of = |class: u8| range.start.saturating_sub((1u64 << class) - 1);
        let mut from = Some(seek(zone, 0, range.start, 1));
        while let Some(at) = from.take() {
            let (mut next, mut is_over) = (None, false);
            let behind = view.visit(OWNER_TREE, &at, |key, _| {
                if !Reference::is_key(key) || keys::number(key, 0) != Some(zone) {
                    is_over = true;
                    return ControlFlow::Break(());
                }
                let Some(found) = Reference::decode(key) else { return ControlFlow::Continue(()) };
                let (class, first) = (key[PLACE_BYTES], first_of(key[PLACE_BYTES]));
                if found.place >= range.end {
                    is_over = class >= MOST_CLASS;
                    next = Some(seek(zone, class + 1, first_of(class + 1), 1));
                } else if found.place < first {
                    next = Some(seek(zone, class, first, 1));
                } else if found.end() <= range.start {
                    next = Some(seek(zone, class, found.place, (range.start - found.place) as u32 + 1));
                } else {
                    let goes_on = each(key, &found);
                    is_over = goes_on.is_break();
                    return goes_on;
                }
                ControlFlow::Break(())
            })?;
            if !is_over {
                from = next.or(behind);
            }
        }
        Ok(())
    }

    /// Takes out of runs of blocks what references are over, but for those of these keys.
    pub(crate) fn uncovered(
        &self,
        view: &View<'_>,
        left: &mut BTreeMap<u64, u64>,
        but: &BTreeSet<Vec<u8>>,
    ) -> Result<(), Stop> {
        for (place, blocks) in left.clone() {
            if runs::within(left, place, blocks).is_empty() {
                continue;
            }
            let range = place..place + blocks;
            self.each_over(view, range.clone(), |key, found| {
                if !but.contains(key) {
                    runs::cut(left, found.place, found.blocks.into());
                }
                let is_left = left.range(..range.end).next_back().is_some_and(|(at, len)| at + len > range.start);
                if is_left { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        Ok(())
    }

    /// The owners that have some of these blocks, which lie in one zone: not more than `most`, in order.
    pub(crate) fn owners_over(
        &self,
        view: &View<'_>,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<(u64, Owner)>, Stop> {
        let Some(zone) = self.zone_start(range.start) else { return Ok(Vec::new()) };
        let from = last_before(view, zone, range.start)?.unwrap_or(range.start);
        let (mut found, mut next) = (Vec::new(), Some(keys::owner(from)));
        while let Some(at) = next.take().filter(|_| found.len() < most) {
            let mut is_over = false;
            let behind = view.visit(OWNER_TREE, &at, |key, value| {
                let place = keys::number(key, 0).unwrap_or(u64::MAX);
                is_over = place >= range.end || found.len() >= most;
                if is_over {
                    return ControlFlow::Break(());
                }
                let owner = Owner::decode(value).ok().filter(|_| !Reference::is_key(key));
                found.extend(
                    owner.filter(|owner| place + u64::from(owner.blocks) > range.start).map(|one| (place, one)),
                );
                ControlFlow::Continue(())
            })?;
            next = behind.filter(|_| !is_over);
        }
        Ok(found)
    }

    /// All blocks of a zone that somebody has, as the map of owners says: owners, references, or either.
    pub(crate) fn owned_blocks(&self, view: &View<'_>, zone: u32) -> Result<Bitmap, Stop> {
        let of_zone = (self.superblock().zone_bytes / BLOCK_BYTES) as u32;
        let start = self.address_in(zone, 0) / BLOCK_BYTES;
        let end = start + u64::from(of_zone);
        let (mut bits, mut next) = (self.empty_data_zone(), Some(keys::owner(start)));
        while let Some(at) = next.take() {
            let mut is_over = false;
            let behind = view.visit(OWNER_TREE, &at, |key, value| {
                // The references of a zone stand before its owners.
                is_over = keys::number(key, 0).is_none_or(|at| at >= end);
                if is_over {
                    return ControlFlow::Break(());
                }
                let (place, blocks) = match Reference::decode(key) {
                    Some(found) => (found.place, found.blocks),
                    None if Reference::is_key(key) => return ControlFlow::Continue(()),
                    None => (keys::number(key, 0).unwrap_or(end), Owner::decode(value).map_or(0, |owner| owner.blocks)),
                };
                if place >= end {
                    return ControlFlow::Continue(());
                }
                let block = place.saturating_sub(start) as u32;
                bits.set(block, blocks.min(of_zone - block), true);
                ControlFlow::Continue(())
            })?;
            next = behind.filter(|_| !is_over);
        }
        Ok(bits)
    }
}

/// Where the last owner begins that begins at a place or before it in its zone.
fn last_before(view: &View<'_>, zone: u64, place: u64) -> Result<Option<u64>, Stop> {
    let mut probe = keys::owner(place);
    loop {
        let look = view.leaf(OWNER_TREE, &probe, |leaf| {
            let behind = leaf.find(&probe).map_or_else(|next| next, |at| at + 1);
            match behind.checked_sub(1).map(|last| leaf.key(last)) {
                Some(last) => ControlFlow::Break(keys::number(last, 0).filter(|_| !Reference::is_key(last))),
                None => ControlFlow::Continue(leaf.low().to_vec()),
            }
        })?;
        match look {
            None => return Ok(None),
            Some(ControlFlow::Break(found)) => return Ok(found.filter(|found| *found > zone)),
            Some(ControlFlow::Continue(low)) if low.as_slice() <= &zone.to_be_bytes()[..] => return Ok(None),
            Some(ControlFlow::Continue(low)) => probe = before(&low),
        }
    }
}

/// A key that no key of the map of owners lies between and this one.
fn before(key: &[u8]) -> Vec<u8> {
    let mut key = key.to_vec();
    if let Some(last) = key.pop().filter(|last| *last > 0) {
        key.push(last - 1);
        key.resize(64, 0xff);
    }
    key
}

/// What was looked up; nothing where that stands in a node that is lost, and what is done is replayed.
pub(crate) fn unless_lost<T>(store: &Store, need: Need, looked: Result<T, Stop>) -> Result<Option<T>, Stop> {
    match looked {
        Err(Stop::Node(node)) if need == Need::Replayed && store.cache.is_lost(node) => Ok(None),
        Err(Stop::Refused(_)) if need == Need::Replayed => Ok(None),
        looked => looked.map(Some),
    }
}

#[cfg(test)]
mod tests;
