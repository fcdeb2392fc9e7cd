//! The map of owners held against the bitmaps of zones of data, one zone at a time.
//!
//! Invariant: a bitmap is read as the durable root names it, so that it belongs to the owners that are read beside it. One
//! that was written anew meanwhile is suspect: what it leaves to nobody is found by a later scan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use holdfast_device::IoBuf;
use holdfast_model::BLOCK_BYTES;

use crate::bitmap::{BITMAP_BYTES, Bitmap};
use crate::error::VolumeError;
use crate::page::crc_of;
use crate::rooms::Stored;
use crate::store::{CLASS_DATA, Store};
use crate::superblock::SLOT_BYTES;
use crate::zones::open_slot;

/// A check under way.
pub(crate) struct ZoneCheck<'a> {
    store: &'a Store,
    most: usize,
    /// Zones of data that were not held against owners yet.
    waiting: BTreeMap<u32, Stored>,
    /// What references and owners have of the zone that is being read, and what of it references have.
    current: Option<(u32, Bitmap, Bitmap)>,
    /// The owner before: its place, and the block behind it.
    before: (u64, u64),
    /// Runs that are taken, and not in the map of owners.
    pub leaks: BTreeMap<u64, u64>,
    /// Zones whose bitmaps do not agree with owners, or cannot be read.
    pub suspects: BTreeSet<u32>,
    /// Zones whose bitmaps one of the copies did not have.
    pub worn: BTreeSet<u32>,
    /// Whether there is more than is told.
    pub is_cut: bool,
}

impl<'a> ZoneCheck<'a> {
    pub fn new(store: &'a Store, most: usize) -> Self {
        Self {
            store,
            most,
            waiting: BTreeMap::new(),
            current: None,
            before: (0, 0),
            leaks: BTreeMap::new(),
            suspects: BTreeSet::new(),
            worn: BTreeSet::new(),
            is_cut: false,
        }
    }

    /// A zone, as the tree of zones has it.
    pub fn zone(&mut self, key: &[u8], value: &[u8]) {
        if let (Ok(zone), Some((&CLASS_DATA, stored))) = (key.try_into().map(u32::from_be_bytes), value.split_first())
            && let Ok(stored) = Stored::decode(stored)
        {
            self.waiting.insert(zone, stored);
        }
    }

    /// The next owner; answers the place of the one before if it has blocks of this one.
    pub async fn owner(&mut self, place: u64, blocks: u32) -> Result<Option<u64>, VolumeError> {
        let (start, end) = self.before;
        self.before = (place, end.max(place.saturating_add(blocks.into())));
        if let Some((block, len)) = self.enter(place, blocks).await?
            && let Some((_, bits, _)) = &mut self.current
        {
            bits.set(block, len, true);
        }
        Ok((place < end).then_some(start))
    }

    /// A reference, which stands before the owners of its zone.
    pub async fn reference(&mut self, place: u64, blocks: u32) -> Result<(), VolumeError> {
        if let Some((block, len)) = self.enter(place, blocks).await?
            && let Some((_, bits, shared)) = &mut self.current
        {
            bits.set(block, len, true);
            shared.set(block, len, true);
        }
        Ok(())
    }

    /// Whether references are over blocks of the owner that was told last.
    pub fn is_shared(&self, place: u64, blocks: u32) -> bool {
        let at = place.checked_mul(BLOCK_BYTES).and_then(|at| self.store.zone_of(at));
        let (Some((zone, block)), Some((current, _, shared))) = (at, &self.current) else { return false };
        zone == *current && shared.count(block, blocks.min(self.of_zone() - block)) > 0
    }

    /// Goes on to the zone of some blocks; answers where they lie in it.
    async fn enter(&mut self, place: u64, blocks: u32) -> Result<Option<(u32, u32)>, VolumeError> {
        let at = place.checked_mul(BLOCK_BYTES).and_then(|at| self.store.zone_of(at));
        let Some((zone, block)) = at else { return Ok(None) };
        if self.current.as_ref().is_none_or(|(current, ..)| *current != zone) {
            self.finish(zone).await?;
            self.current = Some((zone, self.store.empty_data_zone(), self.store.empty_data_zone()));
        }
        Ok(Some((block, blocks.min(self.of_zone() - block))))
    }

    fn of_zone(&self) -> u32 {
        (self.store.superblock().zone_bytes / BLOCK_BYTES) as u32
    }

    /// No owner comes any more.
    pub async fn end(&mut self) -> Result<(), VolumeError> {
        self.finish(u32::MAX).await
    }

    /// All zones before one are read.
    async fn finish(&mut self, until: u32) -> Result<(), VolumeError> {
        let later = self.waiting.split_off(&until);
        for (zone, stored) in std::mem::replace(&mut self.waiting, later) {
            let owned = match &self.current {
                Some((current, bits, _)) if *current == zone => bits.clone(),
                _ => self.store.empty_data_zone(),
            };
            self.compare(zone, stored, &owned).await?;
        }
        self.current = None;
        Ok(())
    }

    async fn compare(&mut self, zone: u32, stored: Stored, owned: &Bitmap) -> Result<(), VolumeError> {
        let Some((taken, is_worn)) = self.store.look_at_bitmap(zone, stored).await else {
            self.suspects.insert(zone);
            return Ok(());
        };
        if is_worn {
            self.worn.insert(zone);
        }
        if taken == *owned {
            return Ok(());
        }
        self.suspects.insert(zone);
        let start = self.store.address_in(zone, 0) / BLOCK_BYTES;
        for (block, len) in taken.runs_beyond(owned) {
            if self.leaks.len() >= self.most {
                self.is_cut = true;
                break;
            }
            self.leaks.insert(start + u64::from(block), len.into());
        }
        Ok(())
    }
}

impl Store {
    fn slot_of(&self, zone: u32, stored: Stored) -> (u64, usize) {
        (self.address_in(zone, 0) + u64::from(stored.slot) * SLOT_BYTES, BLOCK_BYTES as usize + BITMAP_BYTES)
    }

    /// The bitmap in a slot, if it is the one that the tree of zones names.
    fn bitmap_in(&self, slot: &IoBuf, zone: u32, stored: Stored) -> Option<Bitmap> {
        let (generation, bits) = open_slot(self.volume(), zone, slot)?;
        let is_it = generation == stored.generation && crc_of(&bits.to_bytes()) == stored.crc;
        (is_it && bits.covers(&self.empty_data_zone())).then_some(bits)
    }

    /// The bitmap of a zone as it is on the device, and whether a copy did not have it; `None` where it is not the one that
    /// the tree of zones names.
    async fn look_at_bitmap(&self, zone: u32, stored: Stored) -> Option<(Bitmap, bool)> {
        if stored.slot > 1 {
            return Some((self.empty_data_zone(), false));
        }
        let (at, len) = self.slot_of(zone, stored);
        let accept = |slot: &IoBuf| self.bitmap_in(slot, zone, stored).ok_or("it is damaged");
        let (bits, is_worn) = self.metadata.read(at, len, accept).await.ok()?;
        Some((bits, is_worn || self.is_twin_wrong(at, len, |slot| accept(slot).is_ok()).await))
    }

    /// The same, in all copies from then on. Whoever asks lets no checkpoint write meanwhile.
    pub(crate) async fn read_bitmap(&self, zone: u32, stored: Stored) -> Option<Bitmap> {
        let (bits, is_worn) = self.look_at_bitmap(zone, stored).await?;
        let (at, len) = self.slot_of(zone, stored);
        let accept = |slot: &IoBuf| self.bitmap_in(slot, zone, stored).map(drop);
        if is_worn && self.check_failed().is_ok() && self.metadata.mend(at, len, accept).await {
            self.mended.fetch_add(1, Ordering::Relaxed);
        }
        Some(bits)
    }
}
