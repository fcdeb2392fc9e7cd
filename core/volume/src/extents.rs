//! The extents of a file: looked up, and replaced in a range.
//!
//! Invariant: extents of a file do not overlap, and neighbours that can be one are one.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::change::{Stop, View};
use crate::error::VolumeError;
use crate::extent::Extent;
use crate::keys;
use crate::open_files::File;
use crate::record::Record;
use crate::store::held;
use crate::sums::Sums;

use crate::superblock::CHECKSUMS;
use crate::volume::Volume;

/// Extents that one change takes out or puts in, at most.
pub(crate) const EXTENTS_AT_ONCE: usize = 20;
/// The same where they come to be shared: each may be cut in three.
pub(crate) const SHARED_AT_ONCE: usize = 10;
/// Why a range of a file cannot be read.
pub(crate) const LOST: &str = "the bytes of this range were lost: write it anew";
/// The one stream of data that files have.
pub(crate) const MAIN: u32 = 0;

/// What lies under a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// Data that waits in memory for its place. Only readers are told.
    Delayed,
    /// Nothing: it reads as zeros.
    Hole,
    /// Data that is lost: it cannot be read.
    Lost,
    /// Room that holds no data yet: it reads as zeros.
    Unwritten(Extent),
    /// Data.
    Written(Extent),
}

/// A part of a file with one ground.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub block: u64,
    pub blocks: u64,
    pub ground: Ground,
}

impl Piece {
    /// What of it lies in a range of blocks that is within it, if that has any.
    pub fn part(&self, range: std::ops::Range<u64>) -> Option<Self> {
        let blocks = range.end.saturating_sub(range.start);
        let part = |extent: &Extent| extent.part((range.start - self.block) as u32, blocks as u32);
        let ground = match &self.ground {
            _ if blocks == 0 => return None,
            Ground::Written(extent) => Ground::Written(part(extent)),
            Ground::Unwritten(extent) => Ground::Unwritten(part(extent)),
            ground => ground.clone(),
        };
        Some(Self { block: range.start, blocks, ground })
    }
}

/// An extent of a file, with the block that it begins at.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<(u64, Extent), VolumeError> {
    placed(key, Extent::decode(value)?)
}

fn placed(key: &[u8], extent: Extent) -> Result<(u64, Extent), VolumeError> {
    let end = keys::number(key, 13).unwrap_or_default();
    let start = end.checked_sub(extent.blocks.into());
    Ok((start.ok_or_else(|| VolumeError::corrupt("an extent begins before its file"))?, extent))
}

/// Extents of a file that end behind `from` or at it, and begin before `to` or at it; `most` at most.
fn touching(view: &View<'_>, file: u64, from: u64, to: u64, most: usize) -> Result<Vec<(u64, Extent)>, Stop> {
    touching_with(view, file, (from, to, most), Extent::decode)
}

fn touching_with(
    view: &View<'_>,
    file: u64,
    (from, to, most): (u64, u64, usize),
    read: impl Fn(&[u8]) -> Result<Extent, VolumeError>,
) -> Result<Vec<(u64, Extent)>, Stop> {
    let first = keys::extent(file, MAIN, from.max(1));
    let mut found = Vec::new();
    view.each(keys::shard(file), &first, &keys::extents(file, MAIN), most, |key, value| {
        found.push(placed(key, read(value)?)?);
        Ok(())
    })?;
    found.retain(|(start, _)| *start <= to);
    Ok(found)
}

/// Where a range ends of which one change can replace all extents.
pub(crate) fn reach(view: &View<'_>, file: u64, from: u64, to: u64, most: usize) -> Result<u64, Stop> {
    let most = most.min(EXTENTS_AT_ONCE);
    let some = touching_with(view, file, (from, to, most + 2), Extent::decode_bare)?;
    // The first may only touch the range.
    let beyond = some.get(most + 1).map_or(to, |(start, _)| *start).min(to);
    if beyond <= from && from < to {
        return Err(VolumeError::corrupt(format!("extents of file {file} overlap")).into());
    }
    Ok(beyond)
}

/// Extents within a range, cut to it.
pub(crate) fn within(view: &View<'_>, file: u64, from: u64, to: u64) -> Result<Vec<(u64, Extent)>, Stop> {
    let touching = touching(view, file, from, to, EXTENTS_AT_ONCE + 2)?;
    let cut = |(start, extent): (u64, Extent)| {
        let (first, last) = (start.max(from), (start + u64::from(extent.blocks)).min(to));
        (first < last).then(|| (first, extent.part((first - start) as u32, (last - first) as u32)))
    };
    Ok(touching.into_iter().filter_map(cut).collect())
}

/// Puts extents in place of all that a range of a file had.
pub(crate) fn replace(
    view: &mut View<'_>,
    file: u64,
    record: &mut Record,
    range: std::ops::Range<u64>,
    new: &[(u64, Extent)],
) -> Result<(), Stop> {
    let old = touching(view, file, range.start, range.end, 2 * EXTENTS_AT_ONCE)?;
    let mut pieces: Vec<(u64, Extent)> = Vec::with_capacity(old.len() + new.len() + 1);
    for (start, extent) in &old {
        let end = start + u64::from(extent.blocks);
        if *start < range.start {
            pieces.push((*start, extent.part(0, (end.min(range.start) - start) as u32)));
        }
        if end > range.end {
            let from = (*start).max(range.end);
            pieces.push((from, extent.part((from - start) as u32, (end - from) as u32)));
        }
    }
    pieces.extend_from_slice(new);
    exchange(view, file, &old, pieces)?.count(record);
    Ok(())
}

/// Puts extents, in the order of their blocks, over what a file has there and keeps what it has between them; as many of
/// the first of them as one change can. Answers how many.
pub(crate) fn put_over(
    view: &mut View<'_>,
    file: u64,
    record: &mut Record,
    new: &[(u64, Extent)],
) -> Result<usize, Stop> {
    let end = |(start, extent): &(u64, Extent)| start + u64::from(extent.blocks);
    let (Some((from, _)), Some(to)) = (new.first(), new.last().map(end)) else { return Ok(0) };
    let reached = reach(view, file, *from, to, EXTENTS_AT_ONCE)?;
    let new = &new[..new.partition_point(|one| end(one) <= reached)];
    let Some(to) = new.last().map(end) else {
        return Err(VolumeError::corrupt(format!("extents of file {file} overlap")).into());
    };
    let old = touching(view, file, *from, to, 2 * EXTENTS_AT_ONCE)?;
    let mut pieces = new.to_vec();
    for (start, extent) in &old {
        let (mut at, end) = (*start, start + u64::from(extent.blocks));
        let part = |from: u64, to: u64| (from, extent.part((from - start) as u32, (to - from) as u32));
        for (first, over) in new {
            let behind = first + u64::from(over.blocks);
            if at < end && behind > at && *first < end {
                pieces.extend((at < *first).then(|| part(at, *first)));
                at = behind;
            }
        }
        pieces.extend((at < end).then(|| part(at, end)));
    }
    exchange(view, file, &old, pieces)?.count(record);
    Ok(new.len())
}

/// Has a file know that others may have the data of a range; answers where what is done of it ends.
pub(crate) fn share(view: &mut View<'_>, file: u64, range: std::ops::Range<u64>) -> Result<u64, Stop> {
    let reached = reach(view, file, range.start, range.end, SHARED_AT_ONCE)?;
    let old = touching(view, file, range.start, reached, 2 * EXTENTS_AT_ONCE)?;
    let mut pieces = Vec::with_capacity(old.len() + 2);
    for (start, extent) in &old {
        let end = start + u64::from(extent.blocks);
        let (first, last) = ((*start).max(range.start), end.min(reached));
        if first >= last || !extent.is_own() {
            pieces.push((*start, extent.clone()));
            continue;
        }
        let part = |from: u64, to: u64| (from, extent.part((from - start) as u32, (to - from) as u32));
        pieces.extend((*start < first).then(|| part(*start, first)));
        let (from, shared) = part(first, last);
        pieces.push((from, Extent { is_shared: true, ..shared }));
        pieces.extend((last < end).then(|| part(last, end)));
    }
    exchange(view, file, &old, pieces)?;
    Ok(reached)
}

/// Blocks of a file, before and after a change.
struct Exchanged {
    before: u64,
    after: u64,
}

impl Exchanged {
    fn count(&self, record: &mut Record) {
        record.blocks = record.blocks.saturating_add(self.after).saturating_sub(self.before);
    }
}

/// Puts pieces in place of extents.
fn exchange(
    view: &mut View<'_>,
    file: u64,
    old: &[(u64, Extent)],
    mut pieces: Vec<(u64, Extent)>,
) -> Result<Exchanged, Stop> {
    pieces.sort_unstable_by_key(|(start, _)| *start);
    let mut joined: Vec<(u64, Extent)> = Vec::with_capacity(pieces.len());
    for (start, extent) in pieces {
        if let Some((before, last)) = joined.last_mut()
            && *before + u64::from(last.blocks) == start
            && last.end() == extent.place
            && (last.is_written, last.is_shared) == (extent.is_written, extent.is_shared)
            && last.joins_sums(&extent)
            && view.are_alike(last.birth, extent.birth)
            && let Some(blocks) = last.blocks.checked_add(extent.blocks)
        {
            last.blocks = blocks;
            last.birth = last.birth.max(extent.birth);
            last.sums = Sums::join(last.sums.take().into_iter().chain(extent.sums));
            continue;
        }
        joined.push((start, extent));
    }
    let by_end = |list: &[(u64, Extent)]| -> BTreeMap<u64, Extent> {
        list.iter().map(|(start, extent)| (start + u64::from(extent.blocks), extent.clone())).collect()
    };
    let (before, after) = (by_end(old), by_end(&joined));
    let shard = keys::shard(file);
    if after.values().any(|extent| extent.sums.is_some()) {
        view.need_feature(CHECKSUMS)?;
    }
    for end in before.keys().filter(|end| !after.contains_key(end)) {
        view.remove(shard, keys::extent(file, MAIN, *end))?;
    }
    for (end, extent) in after.iter().filter(|(end, extent)| before.get(end) != Some(extent)) {
        view.put(shard, keys::extent(file, MAIN, *end), extent.encode())?;
    }
    let blocks = |list: &BTreeMap<u64, Extent>| list.values().map(|extent| u64::from(extent.blocks)).sum::<u64>();
    Ok(Exchanged { before: blocks(&before), after: blocks(&after) })
}

/// Parts that follow each other: most ranges have one.
pub(crate) type Pieces = SmallVec<[Piece; 1]>;

impl Volume {
    /// What readers see of a range of blocks: what waits in memory, and what lies under the rest.
    pub(crate) async fn seen(&self, file: &File, from: u64, to: u64) -> Result<Pieces, VolumeError> {
        let pieces = self.pieces(file, from, to).await?;
        Ok(held(&file.state).delayed.over(pieces))
    }

    /// What lies under a range of blocks, in order, without a gap. The data must be locked.
    pub(crate) async fn pieces(&self, file: &File, from: u64, to: u64) -> Result<Pieces, VolumeError> {
        let (mut pieces, mut at) = (Pieces::new(), from);
        while at < to {
            let mapping = self.mapping_until(file, at, to).await?;
            let known = to.min(mapping.to);
            let first = mapping.extents.partition_point(|(start, extent)| start + u64::from(extent.blocks) <= at);
            for (start, extent) in &mapping.extents[first..] {
                if *start >= known {
                    break;
                }
                if at < *start {
                    pieces.push(Piece { block: at, blocks: start - at, ground: Ground::Hole });
                    at = *start;
                }
                let end = (start + u64::from(extent.blocks)).min(known);
                let part = extent.part((at - start) as u32, (end - at) as u32);
                let ground = match part {
                    part if part.is_lost() => Ground::Lost,
                    part if part.is_written => Ground::Written(part),
                    part => Ground::Unwritten(part),
                };
                pieces.push(Piece { block: at, blocks: end - at, ground });
                at = end;
            }
            if at < known {
                pieces.push(Piece { block: at, blocks: known - at, ground: Ground::Hole });
                at = known;
            }
        }
        Ok(pieces)
    }
}
