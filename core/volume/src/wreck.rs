//! Where a volume has its trees when what should say so is gone: by what nodes, zones and marks of the log say of
//! themselves.
//!
//! ```text
//!   superblock  ◀── heads of two zones: where zones begin, and how far they are apart; twins of heads: that it has some
//!   root        ◀── of each tree the newest node that covers all keys
//!   log         ◀── the mark of that generation
//! ```
//!
//! Invariant: what is answered is a guess that fits what was found; whoever uses it writes nothing to the device.

use std::collections::BTreeMap;

use holdfast_device::IoBuf;
use holdfast_model::Uuid;

use crate::error::VolumeError;
use crate::log;
use crate::media::Media;
use crate::page::{NodeRef, PAGE_BYTES, Page};
use crate::superblock::{GROUP_BYTES, HEAD_BYTES, LogStart, Root, SLOT_BYTES, Superblock, TWINS};
use crate::zones;

/// Bytes that are read at once.
const RUN: usize = 1 << 20;

/// Hands out what can be read of a device in runs, and the rest as zeros.
async fn each_run(media: &Media, from: u64, to: u64, mut each: impl FnMut(u64, &[u8])) {
    let mut at = from;
    while at < to {
        let len = (to - at).min(RUN as u64) as usize;
        each(at, &media.read_what_can_be(at, len).await);
        at += len as u64;
        crate::scan::give_way().await;
    }
}

/// What the format fixed, by the heads of zones.
pub(crate) async fn guess_superblock(media: &Media, size_bytes: u64) -> Option<Superblock> {
    let size = size_bytes / GROUP_BYTES * GROUP_BYTES;
    // Of each volume where the first head of each zone is, and the last.
    let mut heads: BTreeMap<u128, BTreeMap<u32, (u64, u64)>> = BTreeMap::new();
    each_run(media, 0, size, |at, run| {
        for (index, head) in run.chunks(SLOT_BYTES as usize).enumerate() {
            if let Some((volume, zone)) = zones::whose(head) {
                let place = at + index as u64 * SLOT_BYTES;
                heads.entry(volume.as_u128()).or_default().entry(zone).or_insert((place, place)).1 = place;
            }
        }
    })
    .await;
    let (volume, zones) = heads.into_iter().max_by_key(|(_, zones)| zones.len())?;
    let (first, last) = (zones.first_key_value()?, zones.last_key_value()?);
    let apart = u64::from(last.0 - first.0);
    let zone_bytes = match last.1.0.checked_sub(first.1.0)?.checked_div(apart) {
        Some(zone_bytes) => zone_bytes,
        None => crate::open::zone_bytes_for(size),
    };
    let begin = first.1.0.checked_sub(u64::from(*first.0) * zone_bytes)?;
    let log_bytes = begin.checked_sub(2 * GROUP_BYTES)?;
    let has_twins = zones.values().any(|(first, last)| last - first > HEAD_BYTES);
    let features = [0, 0, if has_twins { TWINS } else { 0 }];
    let guess = Superblock { volume: Uuid::from_u128(volume), size_bytes: size, log_bytes, zone_bytes, features };
    Superblock::open(&guess.seal()).ok().flatten()
}

/// A root of the newest nodes that cover all keys of their trees.
pub(crate) async fn guess_root(media: &Media, superblock: &Superblock) -> Result<Root, VolumeError> {
    let mut tops: BTreeMap<u8, (u8, NodeRef)> = BTreeMap::new();
    let end = superblock.zones_at() + u64::from(superblock.zones()) * superblock.zone_bytes;
    each_run(media, superblock.zones_at(), end, |at, run| {
        for (index, bytes) in run.chunks(PAGE_BYTES).enumerate() {
            let address = at + (index * PAGE_BYTES) as u64;
            if !Page::is_one(bytes) {
                continue;
            }
            let mut buf = IoBuf::zeroed(PAGE_BYTES);
            buf[..bytes.len()].copy_from_slice(bytes);
            let mut places = [Some(address), superblock.node_of_twin(address)].into_iter().flatten();
            let open = |place| Some((place, Page::open(superblock.volume, place, &buf).ok()?));
            let Some((address, (page, crc))) = places.find_map(open) else { continue };
            if !page.low().is_empty() || page.high().is_some() || page.tree() >= crate::TREES {
                continue;
            }
            let node = NodeRef { address, generation: page.generation(), crc };
            let best = tops.entry(page.tree()).or_insert((page.level(), node));
            if (best.1.generation, best.0) < (node.generation, page.level()) {
                *best = (page.level(), node);
            }
        }
    })
    .await;
    let newest = tops.values().map(|(_, node)| node.generation).max();
    let Some(generation) = newest else {
        return Err(VolumeError::corrupt(format!("volume {}: no root and no node can be read", superblock.volume)));
    };
    let log_end = superblock.log_at() + superblock.log_bytes;
    let mut mark: Option<(u64, LogStart, u64)> = None;
    each_run(media, superblock.log_at(), log_end, |_, run| {
        for bytes in run.chunks(log::FRAME) {
            let Some(frame) = log::open(bytes, superblock.volume) else { continue };
            let Some((first, of)) = log::read_mark(&frame) else { continue };
            let log::Numbers { epoch, sequence, previous } = frame.numbers;
            if of == generation && mark.as_ref().is_none_or(|(best, ..)| *best < sequence) {
                mark = Some((sequence, LogStart { sequence, previous, applied: first.saturating_sub(1) }, epoch));
            }
        }
    })
    .await;
    let none = (0, LogStart { sequence: 0, previous: 0, applied: 0 }, 1);
    let (_, log, epoch) = mark.unwrap_or(none);
    let trees = tops.into_iter().map(|(tree, (_, node))| (tree, node)).collect();
    Ok(Root { generation, epoch, log, is_marked: false, bitmaps: None, trees })
}
