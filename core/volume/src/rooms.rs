//! Room for data: zones whose blocks hold the bytes of files, each with a bitmap that is in memory while it is needed.
//!
//! ```text
//!   taken   blocks that files have                     what a checkpoint writes
//!   busy    and those that are set aside for writes under way, or were freed and are still used by the durable root
//! ```
//!
//! Of what may be given out, a number of blocks is promised to data that waits in memory for its place.
//!
//! The tree of zones says for each which of its two slots counts, and the CRC of its bitmap.
//!
//! Invariants: a block is given out only if neither the trees in memory nor the newest durable root has it. A bitmap is
//! believed only if it is the one that the tree of zones names. There are as many blocks to give out as are promised.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_device::{IoBuf, IoSlice};
use holdfast_model::wire::{Reader, WireError, Writer};
use holdfast_model::{BLOCK_BYTES, Uuid};

use smallvec::{SmallVec, smallvec};

use crate::bitmap::{BITMAP_BYTES, BITS, Bitmap};
use crate::error::{ErrorKind, VolumeError};
use crate::page::crc_of;
use crate::superblock::{SLOT_BYTES, Superblock};
use crate::trim::{Freed, UNIT_BLOCKS};
use crate::zones::{HEAD_BLOCKS, open_slot, seal_slot};

/// Bitmaps of zones that nothing happens to, at most, that stay in memory.
const IDLE_BITMAPS: usize = 256;

/// What the tree of zones says of a zone of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The slot that counts; 2 while neither was written.
    pub slot: u8,
    /// The checkpoint that wrote it.
    pub generation: u64,
    /// The CRC of the bitmap.
    pub crc: u32,
    /// Blocks that are free in it.
    pub free: u32,
}

impl Stored {
    const NEVER: u8 = 2;

    /// As a value of the tree of zones, behind the class.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(self.slot).u64(self.generation).u32(self.crc).u32(self.free);
        writer.into_bytes()
    }

    /// Reads it from there.
    pub fn decode(value: &[u8]) -> Result<Self, VolumeError> {
        let read = |mut reader: Reader<'_>| -> Result<Self, WireError> {
            Ok(Self { slot: reader.u8()?, generation: reader.u64()?, crc: reader.u32()?, free: reader.u32()? })
        };
        read(Reader::new(value)).map_err(|_| VolumeError::corrupt("the tree of zones has a value that is not whole"))
    }
}

/// The bitmaps of a zone.
struct Bits {
    taken: Bitmap,
    busy: Bitmap,
    /// Runs that were freed since the last cut.
    freed: Vec<(u32, u32)>,
    /// Runs that the root under way does not have any more.
    leaving: Vec<(u32, u32)>,
    /// Blocks that are set aside and not taken yet.
    reserved: u32,
    /// Whether `taken` differs from what the last cut had.
    is_changed: bool,
    /// Whether the last cut had it written, and its root is not durable yet.
    is_sealed: bool,
    /// Where the search goes on.
    next: u32,
}

struct Zone {
    stored: Stored,
    /// Blocks that no file has.
    free: u32,
    /// Blocks that may be given out.
    available: u32,
    bits: Option<Box<Bits>>,
}

impl Zone {
    /// Whether nobody has anything of it, with so many blocks that data may take.
    fn is_clear(&self, usable: u32) -> bool {
        let is_still = |bits: &Bits| bits.reserved == 0 && bits.freed.is_empty() && bits.leaving.is_empty();
        self.free == usable && self.bits.as_deref().is_none_or(is_still)
    }
}

/// A run of blocks that was looked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is set aside: its first block on the device, and how many.
    Run(u64, u32),
    /// The bitmap of this zone is needed first.
    Load(u32),
    /// No zone of data has any room.
    Full,
}

/// A bitmap to be written with a checkpoint.
pub(crate) struct Sealed {
    pub zone: u32,
    pub stored: Stored,
    pub at: u64,
    pub data: IoSlice,
}

/// The zones of data.
pub(crate) struct Rooms {
    volume: Uuid,
    /// The first block of zone 0.
    first: u64,
    /// Blocks of a zone.
    blocks: u32,
    /// Those of them up to where data lies.
    end: u32,
    zones: BTreeMap<u32, Zone>,
    /// Zones that have blocks to give out, with how many.
    open: BTreeMap<u32, u32>,
    /// The blocks of all of those.
    available: u64,
    /// As many of them as are promised to data that has no place yet.
    promised: u64,
    /// Zones whose bitmaps are in memory.
    loaded: BTreeSet<u32>,
    changed: usize,
    hand: u32,
    /// The checkpoint that the next cut is for.
    coming: u64,
    /// Where room was freed that may be given back to the device.
    pub freed: Freed,
    /// Nothing is given out of this zone and those above it.
    line: u32,
    /// Nor of this one, which is being given up.
    leaving: Option<u32>,
}

impl Rooms {
    pub fn new(superblock: &Superblock) -> Self {
        Self {
            volume: superblock.volume,
            first: superblock.zones_at() / BLOCK_BYTES,
            blocks: (superblock.zone_bytes / BLOCK_BYTES) as u32,
            end: superblock.data_blocks(),
            zones: BTreeMap::new(),
            open: BTreeMap::new(),
            available: 0,
            promised: 0,
            loaded: BTreeSet::new(),
            changed: 0,
            hand: 0,
            coming: 0,
            freed: Freed::default(),
            line: u32::MAX,
            leaving: None,
        }
    }

    /// Blocks of a zone that data may take.
    pub fn usable(&self) -> u32 {
        self.end - HEAD_BLOCKS as u32
    }

    fn start(&self, zone: u32) -> u64 {
        self.first + u64::from(zone) * u64::from(self.blocks)
    }

    fn place(&self, block: u64) -> (u32, u32) {
        let inside = block.saturating_sub(self.first);
        let zone = u32::try_from(inside / u64::from(self.blocks)).unwrap_or(u32::MAX);
        (zone, (inside % u64::from(self.blocks)) as u32)
    }

    /// What a zone is that was never written to.
    pub fn empty(&self) -> Stored {
        Stored { slot: Stored::NEVER, generation: 0, crc: 0, free: self.usable() }
    }

    /// Takes over a zone as the tree of zones has it.
    pub fn add(&mut self, zone: u32, stored: Stored) -> Result<(), VolumeError> {
        if stored.slot > Stored::NEVER || stored.free > self.usable() {
            return Err(VolumeError::corrupt(format!("the tree of zones says what cannot be of zone {zone}")));
        }
        self.zones.insert(zone, Zone { stored, free: stored.free, available: stored.free, bits: None });
        self.note_open(zone);
        if stored.slot == Stored::NEVER {
            self.install(zone, Bitmap::zone(self.end));
        }
        Ok(())
    }

    fn install(&mut self, zone: u32, taken: Bitmap) {
        let known = self.zones.get_mut(&zone).expect("a zone of data");
        let busy = taken.clone();
        known.free = taken.free();
        known.available = known.free;
        known.bits = Some(Box::new(Bits {
            taken,
            busy,
            freed: Vec::new(),
            leaving: Vec::new(),
            reserved: 0,
            is_changed: false,
            is_sealed: false,
            next: 0,
        }));
        self.loaded.insert(zone);
        self.note_open(zone);
        self.evict(zone);
    }

    fn note_open(&mut self, zone: u32) {
        self.shut(zone);
        let available = self.zones[&zone].available;
        if available > 0 && zone < self.line && self.leaving != Some(zone) {
            self.open.insert(zone, available);
            self.available += u64::from(available);
        }
    }

    /// Gives bitmaps up that nothing happens to, but for that of `kept`.
    fn evict(&mut self, kept: u32) {
        if self.loaded.len() <= IDLE_BITMAPS + self.changed {
            return;
        }
        let idle = |zone: &&u32| {
            let Some(Zone { bits: Some(bits), .. }) = self.zones.get(zone) else { return false };
            let is_idle = bits.freed.is_empty() && bits.leaving.is_empty() && bits.reserved == 0;
            let is_idle = is_idle && !bits.is_changed && !bits.is_sealed;
            is_idle && **zone != kept && self.zones[zone].stored.slot != Stored::NEVER
        };
        let Some(zone) = self.loaded.iter().find(idle).copied() else { return };
        self.loaded.remove(&zone);
        self.zones.get_mut(&zone).expect("a zone of data").bits = None;
    }

    /// Whether a zone is one of data.
    pub fn has(&self, zone: u32) -> bool {
        self.zones.contains_key(&zone)
    }

    /// Zones of data below one.
    pub fn count_below(&self, line: u32) -> usize {
        self.zones.range(..line).count()
    }

    /// Has nothing be given out of a zone and those above it; [`u32::MAX`] takes that back.
    pub fn set_line(&mut self, line: u32) {
        let above = self.line.min(line);
        self.line = line;
        for zone in self.zones.range(above..).map(|(zone, _)| *zone).collect::<Vec<_>>() {
            self.note_open(zone);
        }
    }

    /// Each zone of data, with the blocks of it that files have and those that they have not.
    pub fn fill(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        self.zones.iter().map(|(zone, known)| (*zone, self.usable() - known.free, known.free))
    }

    /// Whether nobody has anything of a zone and of those above it: neither files, nor the durable root, nor writes
    /// under way. What is given out to nobody because its bitmap was lost may be clear, too.
    pub fn are_clear(&self, line: u32) -> bool {
        self.zones.range(line..).all(|(_, zone)| zone.is_clear(self.usable()))
    }

    /// A zone that nobody has anything of, if what is promised finds room without it. Nothing is given out of it until it
    /// is retired, or stays.
    pub fn leave_clear_one(&mut self) -> Option<u32> {
        let is_spare = |zone: u32| {
            let own = self.open.get(&zone).copied().unwrap_or_default();
            self.available - u64::from(own) >= self.promised
        };
        let clear =
            self.zones.range(..self.line).rev().find(|(zone, known)| known.is_clear(self.usable()) && is_spare(**zone));
        let zone = clear.map(|(zone, _)| *zone)?;
        self.leaving = Some(zone);
        self.note_open(zone);
        Some(zone)
    }

    /// The zone that was being given up is so no more.
    pub fn end_leaving(&mut self) {
        let stays = self.leaving.take().filter(|zone| self.zones.contains_key(zone));
        if let Some(zone) = stays {
            self.note_open(zone);
        }
    }

    /// Zones of data from one on.
    pub fn above(&self, line: u32) -> Vec<u32> {
        self.zones.range(line..).map(|(zone, _)| *zone).collect()
    }

    /// A zone that nobody has anything of is one of data no more.
    pub fn retire(&mut self, zone: u32) {
        let Some(known) = self.zones.remove(&zone) else { return };
        self.changed -= usize::from(known.bits.is_some_and(|bits| bits.is_changed));
        self.shut(zone);
        self.loaded.remove(&zone);
    }

    /// Zones whose bitmaps the next checkpoint writes.
    pub fn changed(&self) -> usize {
        self.changed
    }

    /// The checkpoint that will be the first to have what is taken now.
    pub fn coming(&self) -> u64 {
        self.coming
    }

    /// Blocks that no file has, and that are promised to none, of zones of data that are given out of.
    pub fn free_blocks(&self) -> u64 {
        let free: u64 = self.zones.range(..self.line).map(|(_, zone)| u64::from(zone.free)).sum();
        free.saturating_sub(self.promised)
    }

    /// Promises so many blocks to data that waits for its place; false, and nothing is promised, if there are not as
    /// many.
    pub fn promise(&mut self, blocks: u64) -> bool {
        let is_kept = self.available.saturating_sub(self.promised) >= blocks;
        self.promised += if is_kept { blocks } else { 0 };
        is_kept
    }

    /// Takes back what was promised and is not needed any more.
    pub fn take_back(&mut self, blocks: u64) {
        self.promised = self.promised.saturating_sub(blocks);
    }

    /// Whether all that is promised can be given out below a zone.
    pub fn are_kept_below(&self, line: u32) -> bool {
        self.open.range(..line).map(|(_, available)| u64::from(*available)).sum::<u64>() >= self.promised
    }

    /// The zone whose bitmap is needed to change the block and is not in memory, as an error.
    pub fn require(&self, block: u64) -> Result<(), u32> {
        let (zone, _) = self.place(block);
        match self.zones.get(&zone) {
            Some(Zone { bits: None, .. }) => Err(zone),
            _ => Ok(()),
        }
    }

    /// Where the bitmap of a zone is to be read; `None` if it is in memory.
    pub fn slot(&self, zone: u32) -> Option<(u64, usize)> {
        let known = self.zones.get(&zone).filter(|known| known.bits.is_none())?;
        let at = self.start(zone) * BLOCK_BYTES + u64::from(known.stored.slot) * SLOT_BYTES;
        Some((at, BLOCK_BYTES as usize + BITMAP_BYTES))
    }

    /// Takes over the bitmap of a zone as it was read from `at`.
    pub fn load(&mut self, zone: u32, at: u64, slot: &IoBuf) -> Result<(), &'static str> {
        // Somebody else may have read it, too, and changed and written it since.
        if self.slot(zone).is_none_or(|(now, _)| now != at) {
            return Ok(());
        }
        let stored = self.zones[&zone].stored;
        let found = open_slot(self.volume, zone, slot).filter(|(generation, bitmap)| {
            *generation == stored.generation && crc_of(&bitmap.to_bytes()) == stored.crc
        });
        let Some((_, bitmap)) = found.filter(|(_, bitmap)| bitmap.covers(&Bitmap::zone(self.end))) else {
            return Err("it is damaged");
        };
        self.install(zone, bitmap);
        Ok(())
    }

    /// Sets up to `want` blocks aside: those behind `goal` where they are free, else a run that is long enough, else
    /// the longest of some zone. The first `promised` of them keep a promise; what is promised to others is left.
    pub fn reserve(&mut self, goal: Option<u64>, want: u32, promised: u32) -> Found {
        let promised = u64::from(promised).min(self.promised);
        let most = self.available.saturating_sub(self.promised) + promised;
        let want = u64::from(want).min(most) as u32;
        if want == 0 {
            return Found::Full;
        }
        let goal = goal.map(|block| self.place(block)).filter(|(zone, _)| self.open.contains_key(zone));
        let next =
            || self.open.range(self.hand..).next().or_else(|| self.open.first_key_value()).map(|(zone, _)| *zone);
        let Some(zone) = goal.map(|(zone, _)| zone).or_else(next) else { return Found::Full };
        let start = self.start(zone);
        let known = self.zones.get_mut(&zone).expect("a zone of data");
        let Some(bits) = known.bits.as_mut() else { return Found::Load(zone) };
        let from = goal.map_or(bits.next, |(_, block)| block);
        let Some((block, len)) = bits.busy.find(from, goal.is_some(), want) else {
            unreachable!("an open zone has a free block")
        };
        bits.busy.set(block, len, true);
        bits.reserved += len;
        bits.next = (block + len) % self.blocks;
        known.available -= len;
        if goal.is_none() {
            self.hand = zone;
        }
        self.promised -= promised.min(len.into());
        self.note_open(zone);
        Found::Run(start + u64::from(block), len)
    }

    /// Sets those units of a zone aside that are free as a whole, in runs; nothing if its bitmap is not in memory, or
    /// nothing is given out of it.
    pub fn set_units_aside(&mut self, zone: u32, units: &[u32]) -> Vec<(u64, u32)> {
        let start = self.start(zone);
        let Some(known) = self.zones.get_mut(&zone).filter(|_| zone < self.line && self.leaving != Some(zone)) else {
            return Vec::new();
        };
        let Some(bits) = known.bits.as_mut() else { return Vec::new() };
        let mut runs: Vec<(u64, u32)> = Vec::new();
        let mut spare = self.available.saturating_sub(self.promised);
        for unit in units {
            // The first unit of a zone begins behind its head, and the last may end before that of the zone.
            let (block, end) = ((unit * UNIT_BLOCKS).max(HEAD_BLOCKS as u32), ((unit + 1) * UNIT_BLOCKS).min(self.end));
            if block >= end || bits.busy.count(block, end - block) > 0 || spare < u64::from(end - block) {
                continue;
            }
            let (place, count) = (start + u64::from(block), end - block);
            spare -= u64::from(count);
            bits.busy.set(block, count, true);
            bits.reserved += count;
            known.available -= count;
            match runs.last_mut() {
                Some((before, len)) if *before + u64::from(*len) == place => *len += count,
                _ => runs.push((place, count)),
            }
        }
        self.note_open(zone);
        runs
    }

    /// The zones of data.
    pub fn numbers(&self) -> Vec<u32> {
        self.zones.keys().copied().collect()
    }

    /// Gives nothing out of a zone any more, whose bitmap is damaged.
    pub fn shut(&mut self, zone: u32) {
        let before = self.open.remove(&zone).unwrap_or_default();
        self.available -= u64::from(before);
    }

    /// Gives back what was set aside and perhaps written, but not taken; promises so many blocks of it again.
    pub fn put_back(&mut self, place: u64, len: u32, promised: u32) {
        self.release(place, len);
        self.promised += u64::from(promised);
        let (zone, block) = self.place(place);
        self.freed.note(zone, block, len);
    }

    /// Gives back what was set aside and not taken.
    pub fn release(&mut self, place: u64, len: u32) {
        if len == 0 {
            return;
        }
        let (zone, block) = self.place(place);
        let known = self.zones.get_mut(&zone).expect("a zone of data");
        let bits = known.bits.as_mut().expect("what is set aside keeps its bitmap in memory");
        bits.busy.set(block, len, false);
        bits.reserved -= len;
        known.available += len;
        self.note_open(zone);
    }

    /// Whether these blocks lie in one zone, behind its head.
    fn is_within(&self, place: u64, len: u32) -> bool {
        let (_, block) = self.place(place);
        place >= self.first && block >= HEAD_BLOCKS as u32 && u64::from(block) + u64::from(len) <= self.end.into()
    }

    /// A file has these blocks now. Its bitmap is in memory.
    pub fn take(&mut self, place: u64, len: u32) {
        let (zone, block) = self.place(place);
        if !self.is_within(place, len) {
            return;
        }
        let Some(known) = self.zones.get_mut(&zone) else { return };
        let Some(bits) = known.bits.as_mut() else { return };
        let (was_busy, was_taken) = (bits.busy.count(block, len), bits.taken.count(block, len));
        if bits.reserved < was_busy - was_taken {
            // Replay from an older root: it was freed, and given out again after a later one.
            for gone in [&mut bits.freed, &mut bits.leaving] {
                *gone = gone.iter().flat_map(|run| beyond(*run, (block, len))).collect();
            }
        }
        bits.taken.set(block, len, true);
        bits.busy.set(block, len, true);
        bits.reserved = bits.reserved.saturating_sub(was_busy - was_taken);
        known.available -= len - was_busy;
        known.free -= len - was_taken;
        if !std::mem::replace(&mut bits.is_changed, true) {
            self.changed += 1;
        }
        self.note_open(zone);
    }

    /// No file has these blocks any more. Its bitmap is in memory.
    pub fn free(&mut self, place: u64, len: u32) {
        let (zone, block) = self.place(place);
        if !self.is_within(place, len) {
            return;
        }
        let Some(known) = self.zones.get_mut(&zone) else { return };
        let Some(bits) = known.bits.as_mut() else { return };
        let is_whole = bits.taken.count(block, len) == len;
        // Where two files had the same blocks, some may be free already.
        let runs: SmallVec<[(u32, u32); 1]> =
            if is_whole { smallvec![(block, len)] } else { bits.taken.runs_within(block, len).into() };
        for (block, len) in runs {
            known.free += len;
            bits.taken.set(block, len, false);
            bits.freed.push((block, len));
        }
        if !std::mem::replace(&mut bits.is_changed, true) {
            self.changed += 1;
        }
    }

    /// Zones whose bitmaps changed since the last cut.
    pub fn changed_zones(&self) -> Vec<u32> {
        let changed = |zone: &&u32| self.zones[*zone].bits.as_ref().is_some_and(|bits| bits.is_changed);
        self.loaded.iter().filter(changed).copied().collect()
    }

    /// The bitmaps that changed, as they are now, for the checkpoint of `generation`.
    pub fn cut(&mut self, generation: u64) -> Vec<Sealed> {
        self.coming = generation + 1;
        let mut sealed = Vec::new();
        for zone in self.changed_zones() {
            let start = self.start(zone);
            let known = self.zones.get_mut(&zone).expect("a zone of data");
            let bits = known.bits.as_mut().expect("it changed");
            (bits.is_changed, bits.is_sealed) = (false, true);
            debug_assert!(bits.leaving.is_empty(), "one checkpoint at a time");
            bits.leaving = std::mem::take(&mut bits.freed);
            let slot = if known.stored.slot == 0 { 1 } else { 0 };
            let bitmap = bits.taken.to_bytes();
            known.stored = Stored { slot, generation, crc: crc_of(&bitmap), free: known.free };
            let at = start * BLOCK_BYTES + u64::from(slot) * SLOT_BYTES;
            sealed.push(Sealed {
                zone,
                stored: known.stored,
                at,
                data: seal_slot(self.volume, zone, generation, &bitmap),
            });
        }
        self.changed = 0;
        sealed
    }

    /// The root of the last cut is durable: what it does not have may be given out.
    pub fn settle(&mut self) {
        let zones: Vec<u32> = self.loaded.iter().copied().collect();
        for zone in zones {
            let known = self.zones.get_mut(&zone).expect("a zone of data");
            let bits = known.bits.as_mut().expect("it is in memory");
            bits.is_sealed = false;
            for (block, len) in std::mem::take(&mut bits.leaving) {
                bits.busy.set(block, len, false);
                known.available += len;
                self.freed.note(zone, block, len);
            }
            self.note_open(zone);
        }
    }

    /// Has blocks be taken that a file has although their bitmap says that they are free; false, and nothing is done, if
    /// they are set aside for somebody. The bitmap is in memory.
    pub fn claim(&mut self, place: u64, len: u32) -> bool {
        let (zone, block) = self.place(place);
        let Some(known) = self.zones.get_mut(&zone) else { return false };
        let Some(bits) = known.bits.as_mut().filter(|bits| bits.busy.count(block, len) == 0) else { return false };
        bits.taken.set(block, len, true);
        bits.busy.set(block, len, true);
        known.available -= len;
        known.free -= len;
        self.note_changed(zone);
        self.note_open(zone);
        true
    }

    /// Has the next checkpoint write the bitmap of a zone, this one if none could be read.
    pub fn restore(&mut self, zone: u32, bits: Bitmap) {
        match self.zones.get(&zone) {
            None => return,
            Some(known) if known.bits.is_none() => self.install(zone, bits),
            Some(_) => {}
        }
        self.note_changed(zone);
    }

    /// Takes over a bitmap that was made again, of a zone whose own could not be read. What is free in it is not given out
    /// before the volume is opened again, or that is repaired.
    pub fn restore_shut(&mut self, zone: u32, bits: Bitmap) {
        match self.zones.get(&zone) {
            Some(known) if known.bits.is_none() => self.install(zone, bits),
            _ => return,
        }
        let known = self.zones.get_mut(&zone).expect("a zone of data");
        if let Some(bits) = known.bits.as_mut() {
            bits.busy.set(0, BITS, true);
        }
        known.available = 0;
        self.note_changed(zone);
        self.note_open(zone);
    }

    /// What the next root will say of all zones if nothing changes.
    pub fn all_stored(&self) -> Vec<(u32, Stored)> {
        self.zones.iter().map(|(number, zone)| (*number, zone.stored)).collect()
    }

    fn note_changed(&mut self, zone: u32) {
        let bits = self.zones.get_mut(&zone).and_then(|known| known.bits.as_mut());
        if bits.is_some_and(|bits| !std::mem::replace(&mut bits.is_changed, true)) {
            self.changed += 1;
        }
    }

    /// What the next root will say of a zone if nothing changes.
    pub fn stored(&self, zone: u32) -> Option<Stored> {
        self.zones.get(&zone).map(|known| known.stored)
    }

    /// The blocks of a zone that files have; `None` for one that is not of data. The error is the zone whose bitmap is
    /// needed first.
    pub fn taken(&self, zone: u32) -> Result<Option<&Bitmap>, u32> {
        match self.zones.get(&zone) {
            None => Ok(None),
            Some(Zone { bits: None, .. }) => Err(zone),
            Some(Zone { bits: Some(bits), .. }) => Ok(Some(&bits.taken)),
        }
    }
}

/// What of a run lies before and behind another one.
fn beyond((at, len): (u32, u32), (from, count): (u32, u32)) -> SmallVec<[(u32, u32); 2]> {
    let (end, to) = (at + len, from + count);
    let parts = [(at, end.min(from)), (at.max(to), end)];
    parts.into_iter().filter(|(first, last)| first < last).map(|(first, last)| (first, last - first)).collect()
}

/// A refusal for want of room for data.
pub(crate) fn full(volume: Uuid) -> VolumeError {
    VolumeError::new(ErrorKind::NoSpace, format!("volume {volume} is full: remove files, or let it grow"))
}
