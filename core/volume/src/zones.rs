//! Room for nodes: zones, each with a bitmap of its blocks.
//!
//! ```text
//!   zone   | slot 0, 16 KiB | slot 1, 16 KiB | blocks ...
//!   slot   | head, 4 KiB | bitmap, 8 KiB |
//! ```
//!
//! A checkpoint writes the bitmaps that changed, each to the slot that the root before does not use.
//!
//! Invariants: a block that one of the two newest durable roots uses is not given out, also after it was freed: only once
//! a second root without it is durable. Nor is one of a root that is pinned, until all pins of it are let go of.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_device::{IoBuf, IoSlice};
use holdfast_model::wire::{Reader, Writer};
use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::bitmap::{BITMAP_BYTES, BITS, Bitmap};
use crate::error::{ErrorKind, VolumeError};
use crate::page::{PAGE_BYTES, crc_of};
use crate::superblock::{self, HEAD_BYTES, SLOT_BYTES, Superblock};

const ZONE_MAGIC: u32 = u32::from_le_bytes(*b"HFvZ");
/// Nodes that the largest zone has room for, with its head.
const NODES: usize = BITMAP_BYTES * 8 / NODE_BLOCKS;
/// Blocks of a node.
pub(crate) const NODE_BLOCKS: usize = PAGE_BYTES / BLOCK_BYTES as usize;
/// Blocks in front of a zone that its slots take.
pub(crate) const HEAD_BLOCKS: usize = (HEAD_BYTES / BLOCK_BYTES) as usize;

/// A zone of nodes.
#[derive(Clone)]
struct Zone {
    /// Blocks that are taken: by a durable root, by the one to come, or freed and not given out yet.
    bits: Bitmap,
    free_nodes: usize,
    /// Where the search goes on.
    next: usize,
    /// Blocks that the root to come does not use any more.
    freed: Vec<u32>,
    /// Blocks that the durable root does not use, and the one before it does.
    left: Vec<u32>,
    /// Blocks of each root that is pinned, by the number of its pin, and those of them that no newer root uses any more.
    pinned: BTreeMap<u64, Bitmap>,
    kept: Vec<u32>,
    changed: bool,
    /// The CRC of the bitmap that the durable root has, or the one to come if it was sealed.
    crc: u32,
    /// The slot that the durable root uses.
    slot: u64,
    /// Whether nothing of it is on the device yet.
    is_new: bool,
}

impl Zone {
    fn new(bits: Bitmap, changed: bool, slot: u64) -> Self {
        let crc = crc_of(&bits.to_bytes());
        let mut zone = Self {
            bits,
            free_nodes: 0,
            next: 0,
            freed: Vec::new(),
            left: Vec::new(),
            pinned: BTreeMap::new(),
            kept: Vec::new(),
            changed,
            crc,
            slot,
            is_new: false,
        };
        zone.count();
        zone
    }

    /// Whether no root has anything of it, with room for so many nodes in all. What the root before has is not free yet.
    fn is_clear(&self, all: usize) -> bool {
        self.free_nodes == all && self.freed.is_empty()
    }

    fn is_node_free(&self, node: usize) -> bool {
        self.bits.count((node * NODE_BLOCKS) as u32, NODE_BLOCKS as u32) == 0
    }

    fn count(&mut self) {
        self.free_nodes = (0..NODES).filter(|node| self.is_node_free(*node)).count();
    }

    fn take(&mut self) -> Option<usize> {
        let node = (0..NODES).map(|step| (self.next + step) % NODES).find(|node| self.is_node_free(*node))?;
        self.bits.set((node * NODE_BLOCKS) as u32, NODE_BLOCKS as u32, true);
        (self.next, self.changed) = ((node + 1) % NODES, true);
        self.free_nodes -= 1;
        Some(node * NODE_BLOCKS)
    }

    /// The bitmap as the root to come has it.
    fn bitmap(&self) -> Bitmap {
        let mut coming = self.bits.clone();
        let gone = self.freed.iter().chain(&self.left).chain(&self.kept);
        gone.for_each(|block| coming.set(*block, 1, false));
        coming
    }

    /// Neither of the two newest roots uses these blocks.
    fn release(&mut self, blocks: Vec<u32>) {
        for block in blocks {
            match self.pinned.values().any(|pinned| pinned.count(block, 1) > 0) {
                true => self.kept.push(block),
                false => self.bits.set(block, 1, false),
            }
        }
    }
}

/// A slot of a zone: who it belongs to, and its bitmap.
pub(crate) fn seal_slot(volume: Uuid, zone: u32, generation: u64, bitmap: &[u8]) -> IoSlice {
    let mut writer = Writer::new();
    writer.raw(volume.as_bytes()).u32(zone).u64(generation).u32(crc_of(bitmap));
    let head = superblock::seal(ZONE_MAGIC, &writer.into_bytes());
    let mut buf = IoBuf::zeroed(BLOCK_BYTES as usize + BITMAP_BYTES);
    buf[..BLOCK_BYTES as usize].copy_from_slice(&head);
    buf[BLOCK_BYTES as usize..].copy_from_slice(bitmap);
    buf.freeze()
}

/// The volume and the zone that a slot says it belongs to.
pub(crate) fn whose(slot: &[u8]) -> Option<(Uuid, u32)> {
    let mut reader = Reader::new(superblock::open(ZONE_MAGIC, slot)?);
    Some((reader.uuid().ok()?, reader.u32().ok()?))
}

/// The generation and the bitmap of a slot that is whole and this zone's.
pub(crate) fn open_slot(volume: Uuid, zone: u32, slot: &[u8]) -> Option<(u64, Bitmap)> {
    let mut reader = Reader::new(superblock::open(ZONE_MAGIC, slot)?);
    let bitmap = slot.get(BLOCK_BYTES as usize..BLOCK_BYTES as usize + BITMAP_BYTES)?;
    let (found, number, generation, crc) =
        (reader.uuid().ok()?, reader.u32().ok()?, reader.u64().ok()?, reader.u32().ok()?);
    (found == volume && number == zone && crc == crc_of(bitmap)).then(|| (generation, Bitmap::from_bytes(bitmap)))
}

/// The zones of nodes, all in memory: 300 GB of nodes are 2.3 MB of bitmaps.
pub(crate) struct Zones {
    volume: Uuid,
    at: u64,
    zone_bytes: u64,
    /// Blocks of a zone up to where nodes stand.
    end: usize,
    zones: BTreeMap<u32, Zone>,
    /// Nothing is given out of this zone and those above it.
    line: u32,
    /// A zone that is being emptied: nothing is given out of it.
    closed: Option<u32>,
    /// Zones that could not be emptied.
    stuck: BTreeSet<u32>,
    /// The numbers of pins that hold, and of the next one.
    pins: BTreeSet<u64>,
    next_pin: u64,
}

impl Zones {
    pub fn new(superblock: &Superblock) -> Self {
        let Superblock { volume, zone_bytes, .. } = *superblock;
        Self {
            volume,
            at: superblock.zones_at(),
            zone_bytes,
            end: superblock.node_blocks() as usize,
            zones: BTreeMap::new(),
            line: u32::MAX,
            closed: None,
            stuck: BTreeSet::new(),
            pins: BTreeSet::new(),
            next_pin: 0,
        }
    }

    fn start(&self, zone: u32) -> u64 {
        self.at + u64::from(zone) * self.zone_bytes
    }

    fn blocks(&self) -> usize {
        self.end
    }

    fn empty(&self) -> Bitmap {
        Bitmap::zone(self.blocks() as u32)
    }

    /// Takes a zone that held nothing for nodes. It has nothing on the device yet, so both slots may be written.
    pub fn add(&mut self, zone: u32) {
        self.zones.insert(zone, Zone { is_new: true, ..Zone::new(self.empty(), true, 1) });
    }

    /// Whether a zone is one of nodes.
    pub fn has(&self, zone: u32) -> bool {
        self.zones.contains_key(&zone)
    }

    /// Zones of nodes.
    pub fn count(&self) -> usize {
        self.zones.len()
    }

    /// Those of them below a zone.
    pub fn count_below(&self, line: u32) -> usize {
        self.zones.range(..line).count()
    }

    /// Has nothing be given out of a zone and those above it; [`u32::MAX`] takes that back.
    pub fn set_line(&mut self, line: u32) {
        self.line = line;
    }

    /// Nodes that a zone has room for.
    pub fn nodes_of_zone(&self) -> usize {
        (self.end - HEAD_BLOCKS) / NODE_BLOCKS
    }

    /// Each zone of nodes, with the nodes in it and those that there is room for.
    pub fn fill(&self) -> impl Iterator<Item = (u32, usize, usize)> {
        let all = self.nodes_of_zone();
        self.zones.iter().map(move |(number, zone)| (*number, all - zone.free_nodes, zone.free_nodes))
    }

    /// Whether the durable root and the one to come have nothing of a zone and of those above it.
    pub fn are_clear(&self, line: u32) -> bool {
        let all = self.nodes_of_zone();
        self.zones.range(line..).all(|(_, zone)| zone.is_clear(all))
    }

    /// Whether no root has anything of a zone.
    pub fn is_clear(&self, zone: u32) -> bool {
        self.zones.get(&zone).is_some_and(|zone| zone.is_clear(self.nodes_of_zone()))
    }

    /// A zone that no root has anything of, if so many nodes and some more find room without it.
    pub fn clear_one(&self, margin: usize) -> Option<u32> {
        let (all, free) = (self.nodes_of_zone(), self.free_nodes());
        let found = self.zones.range(..self.line).rev().map(|(zone, _)| *zone).find(|zone| self.is_clear(*zone))?;
        // One that is being emptied is not counted as free.
        let without = if self.closed == Some(found) { free } else { free.saturating_sub(all) };
        (self.zones.len() > 1 && without >= margin + all / 4).then_some(found)
    }

    /// Zones of nodes that could be emptied, with so many nodes and some more finding room in what is left of them.
    pub fn spare(&self, margin: usize) -> u32 {
        let all = self.nodes_of_zone();
        let spare = self.free_nodes().saturating_sub(margin + all / 4) / all;
        spare.min(self.zones.len().saturating_sub(1)) as u32
    }

    /// Has nothing be given out of the zone with the fewest nodes, if these, so many more and some find room elsewhere.
    pub fn close_sparse(&mut self, margin: usize) -> Option<u32> {
        if self.closed.is_some() || self.spare(margin) == 0 {
            return None;
        }
        let candidates = self.zones.range(..self.line).filter(|(zone, _)| !self.stuck.contains(zone));
        let (found, _) = candidates.max_by_key(|(_, zone)| zone.free_nodes)?;
        self.closed = Some(*found);
        self.closed
    }

    /// Zones that are being emptied.
    pub fn closed(&self) -> u32 {
        self.closed.is_some().into()
    }

    /// Gives out of a zone again that could not be emptied.
    pub fn open_again(&mut self, zone: u32) {
        self.closed.take_if(|closed| *closed == zone);
        self.stuck.insert(zone);
    }

    /// Zones of nodes from one on.
    pub fn above(&self, line: u32) -> Vec<u32> {
        self.zones.range(line..).map(|(number, _)| *number).collect()
    }

    /// A zone that no root has anything of is one of nodes no more.
    pub fn retire(&mut self, zone: u32) {
        self.zones.remove(&zone);
        self.closed.take_if(|closed| *closed == zone);
    }

    /// Has all bitmaps written by the next checkpoint.
    pub fn renew(&mut self) {
        self.zones.values_mut().for_each(|zone| zone.changed = true);
    }

    /// Nodes that there is room for now.
    pub fn free_nodes(&self) -> usize {
        self.free_below(self.line)
    }

    /// Nodes that there is room for now below a zone.
    pub fn free_below(&self, line: u32) -> usize {
        let closed = self.closed;
        let open = self.zones.range(..line).filter(|(zone, _)| closed != Some(**zone));
        open.map(|(_, zone)| zone.free_nodes).sum()
    }

    /// Where the slots of a zone are, and how long they are together.
    pub fn slots(&self, zone: u32) -> (u64, usize) {
        (self.start(zone), HEAD_BYTES as usize)
    }

    /// Takes over a zone from its slots as read, as the root of `generation` has it.
    pub fn open(&mut self, zone: u32, slots: &IoBuf, generation: u64) -> bool {
        let readable = (0..2u64).filter_map(|slot| {
            let (written, bits) = open_slot(self.volume, zone, &slots[(slot * SLOT_BYTES) as usize..])?;
            // What is no room for nodes must be taken.
            bits.covers(&self.empty()).then_some((written, slot, bits))
        });
        let readable: Vec<_> = readable.collect();
        let is_whole = readable.len() == 2;
        let mut found: Vec<_> = readable.into_iter().filter(|(written, ..)| *written <= generation).collect();
        found.sort_by_key(|(written, ..)| std::cmp::Reverse(*written));
        let mut found = found.into_iter();
        let Some((_, slot, mut bits)) = found.next() else {
            self.zones.insert(zone, Zone::new(self.empty(), false, 1));
            return false;
        };
        let crc = crc_of(&bits.to_bytes());
        // What the root before uses stands in the other slot.
        let mut left = Vec::new();
        if let Some((.., before)) = found.next() {
            for (block, len) in before.runs_beyond(&bits) {
                bits.set(block, len, true);
                left.extend(block..block + len);
            }
        }
        self.zones.insert(zone, Zone { left, crc, ..Zone::new(bits, false, slot) });
        is_whole
    }

    /// Whether the slot that counts of a zone is among these, as they were read.
    pub fn is_among(&self, zone: u32, slots: &IoBuf) -> bool {
        let Some(known) = self.zones.get(&zone) else { return false };
        let found = open_slot(self.volume, zone, &slots[(known.slot * SLOT_BYTES) as usize..]);
        found.is_some_and(|(_, bits)| crc_of(&bits.to_bytes()) == known.crc)
    }

    /// Has nothing be taken in a zone: what is, is told next.
    pub fn clear(&mut self, zone: u32) {
        let empty = self.empty();
        if let Some(zone) = self.zones.get_mut(&zone) {
            zone.bits = empty;
            zone.left.clear();
            zone.kept.clear();
            zone.changed = true;
            zone.count();
        }
    }

    /// Gives nothing out of a zone of which nobody can say what is free in it.
    pub fn shut(&mut self, zone: u32) {
        if let Some(zone) = self.zones.get_mut(&zone) {
            zone.bits.set(0, BITS, true);
            zone.left.clear();
            zone.kept.clear();
            zone.changed = true;
            zone.count();
        }
    }

    /// Room for a node.
    pub fn take(&mut self) -> Result<u64, VolumeError> {
        let full = || VolumeError::new(ErrorKind::NoSpace, format!("volume {} has no room for nodes", self.volume));
        let has_room = |(number, zone): &(&u32, &Zone)| zone.free_nodes > 0 && self.closed != Some(**number);
        let found = self.zones.range(..self.line).find(has_room).map(|(number, _)| *number);
        let number = found.ok_or_else(full)?;
        let block = self.zones.get_mut(&number).and_then(Zone::take).expect("a zone with room for a node");
        Ok(self.start(number) + block as u64 * BLOCK_BYTES)
    }

    fn place(&self, address: u64) -> (u32, usize) {
        let inside = address.saturating_sub(self.at);
        let zone = u32::try_from(inside / self.zone_bytes).unwrap_or(u32::MAX);
        (zone, (inside % self.zone_bytes / BLOCK_BYTES) as usize)
    }

    /// Whether the durable root has a node at `address`.
    pub fn has_node(&self, address: u64) -> bool {
        let (number, block) = self.place(address);
        let Some(zone) = self.zones.get(&number) else { return false };
        let nodes = block..block + NODE_BLOCKS;
        let is_inside = nodes.start >= HEAD_BLOCKS && nodes.end <= self.blocks();
        let gone = |blocks: &[u32]| blocks.iter().any(|gone| nodes.contains(&(*gone as usize)));
        is_inside
            && zone.bits.count(block as u32, NODE_BLOCKS as u32) == NODE_BLOCKS as u32
            && ![&zone.freed, &zone.left, &zone.kept].into_iter().any(|blocks| gone(blocks))
    }

    /// The root to come does not use the node at `address` any more. Where no node can
    /// stand, or none is taken, there is nothing to free.
    pub fn free(&mut self, address: u64) {
        let blocks = self.blocks();
        let (number, block) = self.place(address);
        let Some(zone) = self.zones.get_mut(&number) else { return };
        if block < HEAD_BLOCKS || block + NODE_BLOCKS > blocks {
            return;
        }
        if zone.bits.count(block as u32, NODE_BLOCKS as u32) != NODE_BLOCKS as u32 {
            return;
        }
        zone.freed.extend((block..block + NODE_BLOCKS).map(|block| block as u32));
        zone.changed = true;
    }

    /// The bitmaps that the root to come needs, with where to write them, and what proves all of them.
    pub fn seal(&mut self, generation: u64) -> (Vec<(u64, IoSlice)>, u32) {
        let mut sealed = Vec::new();
        let (at, zone_bytes) = (self.at, self.zone_bytes);
        for (number, zone) in self.zones.iter_mut().filter(|(_, zone)| zone.changed) {
            let bitmap = zone.bitmap().to_bytes();
            zone.crc = crc_of(&bitmap);
            let data = seal_slot(self.volume, *number, generation, &bitmap);
            // Of a new zone both are written, so that one that cannot be read is one that was damaged.
            let slots = [Some(1 - zone.slot), zone.is_new.then_some(zone.slot)];
            let start = at + u64::from(*number) * zone_bytes;
            sealed.extend(slots.into_iter().flatten().map(|slot| (start + slot * SLOT_BYTES, data.clone())));
        }
        (sealed, self.proof())
    }

    /// What proves all bitmaps to be those of one root: one that was not written shows.
    pub fn proof(&self) -> u32 {
        let mut writer = Writer::new();
        self.zones.iter().for_each(|(number, zone)| _ = writer.u32(*number).u32(zone.crc));
        crc_of(&writer.into_bytes())
    }

    /// The root that was to come is durable: what the one before did not use either is free.
    pub fn settle(&mut self) {
        for zone in self.zones.values_mut().filter(|zone| zone.changed || !zone.left.is_empty()) {
            let freed = std::mem::take(&mut zone.freed);
            let gone = std::mem::replace(&mut zone.left, freed);
            zone.release(gone);
            if zone.changed {
                (zone.slot, zone.changed, zone.is_new) = (1 - zone.slot, false, false);
            }
            zone.count();
        }
    }

    /// Has blocks of nodes be taken, or free as soon as the root to come is durable, whatever the bitmap said.
    pub fn correct(&mut self, address: u64, blocks: u32, is_used: bool) {
        let of_zone = self.blocks() as u32;
        let (number, block) = self.place(address);
        let Some(zone) = self.zones.get_mut(&number) else { return };
        let block = block as u32;
        let run = block..block + blocks.min(of_zone.saturating_sub(block));
        if is_used {
            zone.bits.set(block, run.len() as u32, true);
            zone.freed.retain(|freed| !run.contains(freed));
            zone.left.retain(|freed| !run.contains(freed));
            zone.kept.retain(|freed| !run.contains(freed));
            zone.pinned.values_mut().for_each(|pinned| pinned.set(block, run.len() as u32, true));
            zone.count();
        } else {
            zone.freed.extend(run);
        }
        zone.changed = true;
    }

    /// Has nothing be given out that the durable root has (`taken`), whatever newer ones have; answers the number of the
    /// pin.
    pub fn pin(&mut self, taken: &BTreeMap<u32, Bitmap>) -> u64 {
        let pin = self.next_pin;
        self.next_pin += 1;
        self.pins.insert(pin);
        for (number, zone) in &mut self.zones {
            zone.pinned.extend(taken.get(number).map(|taken| (pin, taken.clone())));
        }
        pin
    }

    /// Whether what was pinned is as it was.
    pub fn is_pinned(&self, pin: u64) -> bool {
        self.pins.contains(&pin)
    }

    /// Whether anything is pinned.
    #[cfg(test)]
    pub fn has_pins(&self) -> bool {
        !self.pins.is_empty()
    }

    /// Ends a pin, if it holds still.
    pub fn unpin(&mut self, pin: u64) {
        if self.pins.contains(&pin) {
            self.end_pins(|known| known == pin);
        }
    }

    /// Pins nothing any more; answers whether there is more room for that.
    pub fn unpin_all(&mut self) -> bool {
        self.end_pins(|_| true)
    }

    fn end_pins(&mut self, is_over: impl Fn(u64) -> bool) -> bool {
        self.pins.retain(|pin| !is_over(*pin));
        let mut is_more = false;
        for zone in self.zones.values_mut() {
            zone.pinned.retain(|pin, _| !is_over(*pin));
            let kept = std::mem::take(&mut zone.kept);
            let before = kept.len();
            zone.release(kept);
            if zone.kept.len() < before {
                zone.count();
                is_more = true;
            }
        }
        is_more
    }

    /// The blocks of each zone that the durable root has.
    pub fn taken(&self) -> BTreeMap<u32, Bitmap> {
        self.zones.iter().map(|(number, zone)| (*number, zone.bitmap())).collect()
    }

    /// The numbers of all zones of nodes.
    pub fn numbers(&self) -> Vec<u32> {
        self.zones.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones() -> Zones {
        let superblock = Superblock {
            volume: Uuid::from_u128(5),
            size_bytes: 64 << 20,
            log_bytes: 1 << 20,
            zone_bytes: 1 << 20,
            features: [0; 3],
        };
        Zones::new(&superblock)
    }

    #[test]
    fn what_a_pinned_root_has_is_given_out_only_when_it_is_let_go_of() {
        let mut zones = zones();
        zones.add(2);
        let old = [(); 2].map(|()| zones.take().expect("room"));
        zones.settle();
        let taken = zones.taken();
        let pin = zones.pin(&taken);
        let all = zones.free_nodes();
        let young = zones.take().expect("room");
        [old[0], young].into_iter().for_each(|address| zones.free(address));
        for generation in 7..10 {
            zones.seal(generation);
            zones.settle();
        }
        assert_eq!(zones.free_nodes(), all, "what is younger is free, what is older is not");
        // The newest root is without it all the same, and pins only what it has.
        let blocks = |zones: &Zones| zones.taken()[&2].count(0, BITS);
        assert_eq!(blocks(&zones), taken[&2].count(0, BITS) - NODE_BLOCKS as u32);
        assert!(!zones.has_node(old[0]) && zones.has_node(old[1]) && !zones.has_node(young));
        assert!(zones.is_pinned(pin) && !zones.is_clear(2) && zones.unpin_all());
        assert_eq!((zones.free_nodes(), zones.is_pinned(pin), zones.unpin_all()), (all + 1, false, false));
        zones.free(old[1]);
        zones.pin(&zones.taken());
        [7, 8].into_iter().for_each(|_| zones.settle());
        assert!(zones.is_clear(2), "it was let go of before");
    }

    #[test]
    fn each_pin_keeps_what_its_own_root_has() {
        let mut zones = zones();
        zones.add(2);
        let [old, both, young] = [(); 3].map(|()| zones.take().expect("room"));
        zones.free(young);
        zones.settle();
        let settle = |zones: &mut Zones| (0..2).for_each(|_| zones.settle());
        let first = zones.pin(&zones.taken());
        zones.free(old);
        zones.settle();
        let young = zones.take().expect("room");
        let second = zones.pin(&zones.taken());
        let all = zones.free_nodes();
        [both, young].into_iter().for_each(|address| zones.free(address));
        settle(&mut zones);
        assert_eq!(zones.free_nodes(), all);
        // One that began later does not end the first, nor the other way round, and none ends twice.
        for (pin, free) in [(first, all + 1), (first, all + 1), (second, all + 3), (second, all + 3)] {
            assert!(zones.is_pinned(second) || pin == second);
            zones.unpin(pin);
            assert_eq!((zones.free_nodes(), zones.is_pinned(pin)), (free, false));
        }
        assert!(zones.is_clear(2));
    }

    #[test]
    fn what_is_freed_is_given_out_only_after_the_root_is_durable() {
        let mut zones = zones();
        zones.add(2);
        let all = zones.free_nodes();
        let nodes: Vec<u64> = (0..all).map(|_| zones.take().expect("room")).collect();
        assert_eq!(zones.take().expect_err("full").kind, ErrorKind::NoSpace);
        zones.settle();
        zones.free(nodes[3]);
        assert!(zones.take().is_err(), "the durable root still uses it");
        let (sealed, _) = zones.seal(7);
        zones.settle();
        assert!(zones.take().is_err(), "the root before still uses it");
        zones.settle();
        assert_eq!(zones.take().expect("room"), nodes[3]);

        let mut read = self::zones();
        let (at, len) = read.slots(2);
        let mut slots = IoBuf::zeroed(len);
        let inside = (sealed[0].0 - at) as usize;
        slots[inside..inside + sealed[0].1.len()].copy_from_slice(&sealed[0].1);
        assert!(!read.open(2, &slots, 7), "the other slot cannot be read");
        assert_eq!(read.free_nodes(), 1);
        let mut other = self::zones();
        assert!(!other.open(3, &slots, 7) && !other.open(2, &slots, 6), "another zone, a later root");
        assert_eq!(other.free_nodes(), 2 * all, "nothing is known of them");
        other.shut(2);
        assert_eq!(other.free_nodes(), all, "nothing is given out of it");
        let later = seal_slot(Uuid::from_u128(5), 2, 8, &other.empty().to_bytes());
        let beside = SLOT_BYTES as usize - inside;
        slots[beside..beside + later.len()].copy_from_slice(&later);
        assert!(!other.open(2, &slots, 6), "both slots are of later roots");
        let mut new = self::zones();
        new.add(2);
        assert_eq!(new.seal(3).0.len(), 2, "both slots of a new zone");
        new.settle();
        new.take().expect("room");
        assert_eq!(new.seal(4).0.len(), 1);
    }
}
