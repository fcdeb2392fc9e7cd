//! The bands of an open parity row in memory: where they are, what they hold, and what waits to be put there.
//!
//! Invariants:
//! - `places` and `written` tell of what is in place; what a map on disk tells is what they were when a commit began,
//!   and was durable by then.
//! - A place is used anew only when no map on disk names it, no journal record is for it, and nobody reads it.
//! - Who changes what is in the place of a band has its turn alone; who puts lost pieces together shares it.

mod loans;
pub mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Waker;

use holdfast_device::IoSlice;

use crate::block_set::{BlockSet, runs_of_word};
use crate::column::MapOnDisk;
use crate::lock_order::{Lock, Locked, TaskLock, rank};
use crate::range_queue::RangeQueue;

use super::band_map::{BandMap, NOWHERE, bands_of_map};
use super::dirty::Dirty;
use super::geometry::Geometry;
use super::log_record::Record;

use loans::Staging;

/// The bands of an open row.
pub struct Bands {
    /// Their measures.
    pub geometry: Geometry,
    /// What changes with every write.
    state: Lock<{ rank::STATE }, BandState>,
    /// The maps on disk; held while they are written.
    pub maps: TaskLock<{ rank::MAPS }, Vec<MapOnDisk>>,
}

/// What is known of a row's bands.
pub struct BandState {
    /// The place of each band.
    pub places: Vec<u16>,
    /// Blocks that hold data in place.
    pub written: BlockSet,
    /// By band, what is not in place yet.
    pub dirty: BTreeMap<u32, Dirty>,
    /// Bands with extents that are only in memory, and perhaps others.
    pub unlogged: BTreeSet<u32>,
    /// By band, up to which stamp the extents are being destaged.
    pub placing: BTreeMap<u32, u64>,
    /// Bands that a slab which is not in step missed; on disk as well.
    pub missed: BlockSet,
    /// Bands of which something is on its way into the journal: what is destaged must come after it there.
    pub logging: BTreeSet<u32>,
    /// Bands that moved, and no map on disk says so yet.
    pub moved: BlockSet,
    /// What the next commit makes last.
    pub uncommitted: Uncommitted,
    /// Whether a commit works on what it found uncommitted.
    pub committing: bool,
    /// Slabs that count again after an outage: what was destaged there since the last commit may be lost.
    pub returned: BTreeSet<usize>,
    /// By band, the last of what the journal has for it and has not said to count no more.
    pub logged: BTreeMap<u32, LastRecord>,
    /// By band, up to which stamp what was written is in place, as far as that happened since the row was opened.
    pub in_place: BTreeMap<u32, u64>,
    /// Changes in place that were cut short: stripes may be half written, and nothing may be computed from them.
    pub torn: BTreeMap<u32, Torn>,
    /// Bands that were changed in place or moved since somebody began to copy a slab.
    pub changed: Option<BlockSet>,
    /// Places that what is about to change in place is staged in.
    pub staging: Staging,
    /// What the journal has for the row is being carried out: nothing is destaged until all of it is.
    pub recovering: bool,
    given_back: bool,
    log_waiters: Vec<Waker>,
    lines: RangeQueue,
    free: BTreeSet<u16>,
    readers: Vec<u32>,
}

/// The last of the records that tell of a band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastRecord {
    /// Where it ends.
    pub end: u64,
    /// Up to which stamp they tell what was written.
    pub stamp: u64,
}

/// What is to be written: slab, offset within it, bytes.
pub type Write = (usize, u64, IoSlice);

/// A change in place that was cut short. It is done again before anything else happens to the band.
#[derive(Clone)]
pub struct Torn {
    /// Everything written until then is in it.
    pub stamp: u64,
    /// What to write.
    pub writes: Vec<Write>,
    /// Blocks that hold data then.
    pub filled: Vec<(u32, u32)>,
    /// Blocks that hold nothing then.
    pub emptied: Vec<(u32, u32)>,
    /// Places that it is staged in.
    pub loans: Vec<u16>,
    /// The record that tells of it, for a crash before that, and where it ends.
    pub record: (Arc<Record>, u64),
}

/// What happened since the last commit.
pub struct Uncommitted {
    /// Bands that changed in place or moved.
    pub changed: BlockSet,
    /// Of these, bands whose change is nowhere in the journal.
    pub direct: BlockSet,
    /// Maps that are not on disk as they should be.
    pub behind: BTreeSet<u32>,
    /// Places that bands left.
    pub left: Vec<u16>,
    /// Journal records that must stay until then.
    pub held: Vec<Arc<Record>>,
    /// By band, up to which stamp the journal's records do not count any more.
    pub voids: BTreeMap<u32, u64>,
    /// By band, up to which stamp what was written is in place.
    pub placed: BTreeMap<u32, u64>,
}

impl Uncommitted {
    /// Nothing.
    pub fn new(bands: u32) -> Self {
        Self {
            changed: BlockSet::new(bands),
            direct: BlockSet::new(bands),
            behind: BTreeSet::new(),
            left: Vec::new(),
            held: Vec::new(),
            voids: BTreeMap::new(),
            placed: BTreeMap::new(),
        }
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty()
            && self.left.is_empty()
            && self.held.is_empty()
            && self.voids.is_empty()
            && self.behind.is_empty()
    }

    /// Puts back what an earlier commit took and did not carry through.
    pub fn take_back(&mut self, earlier: Self) {
        self.changed.insert_all(&earlier.changed);
        self.direct.insert_all(&earlier.direct);
        self.behind.extend(earlier.behind);
        self.left.extend(earlier.left);
        self.held.extend(earlier.held);
        for (into, from) in [(&mut self.voids, earlier.voids), (&mut self.placed, earlier.placed)] {
            for (band, stamp) in from {
                let known = into.entry(band).or_default();
                *known = (*known).max(stamp);
            }
        }
    }
}

impl Bands {
    /// The bands of a row that holds nothing.
    pub fn new(geometry: Geometry, slabs: usize) -> Self {
        let maps = geometry.bands.div_ceil(bands_of_map(&geometry)) as usize;
        let state = BandState {
            places: vec![NOWHERE; geometry.bands as usize],
            written: BlockSet::new(geometry.blocks()),
            dirty: BTreeMap::new(),
            unlogged: BTreeSet::new(),
            logging: BTreeSet::new(),
            log_waiters: Vec::new(),
            placing: BTreeMap::new(),
            missed: BlockSet::new(geometry.bands),
            moved: BlockSet::new(geometry.bands),
            uncommitted: Uncommitted::new(geometry.bands),
            committing: false,
            returned: BTreeSet::new(),
            logged: BTreeMap::new(),
            in_place: BTreeMap::new(),
            torn: BTreeMap::new(),
            changed: None,
            staging: Staging::default(),
            recovering: false,
            given_back: false,
            lines: RangeQueue::default(),
            free: (0..geometry.places as u16).collect(),
            readers: vec![0; geometry.places as usize],
        };
        let maps = vec![MapOnDisk { sequence: 0, slots: vec![1; slabs] }; maps];
        Self { geometry, state: Lock::new(state), maps: TaskLock::new(maps) }
    }

    /// Their state.
    pub fn lock(&self) -> Locked<'_, { rank::STATE }, BandState> {
        self.state.lock()
    }

    /// The row is given back: what the journal has for it does not count any more.
    pub fn forget(&self) {
        let mut state = self.lock();
        state.given_back = true;
        state.torn.clear();
        state.uncommitted = Uncommitted::new(self.geometry.bands);
    }

    /// The map that tells of a band.
    pub fn map_of(&self, band: u32) -> u32 {
        band / bands_of_map(&self.geometry)
    }

    /// The bands that a map tells of.
    pub fn bands_in(&self, map: u32) -> (u32, u32) {
        let each = bands_of_map(&self.geometry);
        (map * each, ((map + 1) * each).min(self.geometry.bands))
    }
}

impl BandState {
    /// Bands that somebody works on or waits for.
    pub fn busy_bands(&self) -> Vec<u32> {
        self.lines.ranges().flat_map(|(start, end)| start..end).collect()
    }

    /// Nothing of these bands is on its way into the journal any more.
    pub fn end_logging(&mut self, band: u32) {
        self.logging.remove(&band);
        self.log_waiters.drain(..).for_each(Waker::wake);
    }

    /// Keeps a record of the journal until the next commit.
    pub fn hold(&mut self, record: &Arc<Record>) {
        let known = self.uncommitted.held.last().is_some_and(|held| Arc::ptr_eq(held, record));
        if !known && !self.given_back {
            self.uncommitted.held.push(record.clone());
        }
    }

    /// Whether something of a band is only in memory.
    pub fn is_unlogged(&self, band: u32) -> bool {
        self.dirty.get(&band).is_some_and(|dirty| dirty.extents().any(|(_, extent)| !extent.logged))
    }

    /// Takes a free place.
    pub fn take_place(&mut self) -> Option<u16> {
        let place = *self.free.iter().find(|place| self.readers[usize::from(**place)] == 0)?;
        self.free.remove(&place);
        Some(place)
    }

    /// Takes this place; false if it is not free.
    pub fn take_free(&mut self, place: u16) -> bool {
        self.free.remove(&place)
    }

    /// Gives places back that nothing on disk names any more.
    pub fn give_places(&mut self, places: impl IntoIterator<Item = u16>) {
        for place in places {
            self.staging.forget(place);
            self.free.insert(place);
        }
    }

    /// Whether all that was destaged is durable, and nothing is on its way there.
    pub fn is_all_durable(&self) -> bool {
        let idle = self.placing.is_empty() && self.torn.is_empty() && !self.recovering;
        idle && !self.committing && self.uncommitted.is_empty()
    }

    /// A record that ends there tells of a band, up to a stamp. What is destaged while another record is on its way is
    /// noted after that one, though its own comes before it in the log.
    pub fn note_logged(&mut self, band: u32, end: u64, stamp: u64) {
        let known = self.logged.entry(band).or_default();
        *known = LastRecord { end: known.end.max(end), stamp: known.stamp.max(stamp) };
    }

    /// The journal says that what it has for a band up to a stamp does not count any more, and it had no more than
    /// `last`.
    pub fn note_void(&mut self, band: u32, stamp: u64, last: LastRecord) {
        if last.stamp <= stamp && self.logged.get(&band) == Some(&last) {
            self.logged.remove(&band);
        }
    }

    /// What the journal has for a band up to a stamp does not count any more.
    pub fn void_until(&mut self, band: u32, stamp: u64) {
        let known = self.uncommitted.voids.entry(band).or_default();
        *known = (*known).max(stamp);
    }

    /// What the journal has for a band does not count any more as far as it is in place.
    pub fn void_placed(&mut self, band: u32) {
        if self.logged.contains_key(&band)
            && let Some(stamp) = self.in_place.get(&band).copied()
        {
            self.void_until(band, stamp);
        }
    }

    /// What the journal has for a band in a place that it left does not count; the place is free once the journal says
    /// so.
    pub fn keep_void(&mut self, band: u32, stamp: u64, place: u16) {
        self.void_until(band, stamp);
        if self.take_free(place) {
            self.uncommitted.left.push(place);
        }
    }

    /// Of so many blocks from `first` on, those that hold nothing in place, counted from there.
    pub fn holes(&self, first: u32, len: u32) -> Vec<(u32, u32)> {
        self.written.gaps(first, first + len).map(|(start, end)| (start - first, end - first)).collect()
    }

    /// Whether no block holds data and none is about to.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.dirty.is_empty() && self.lines.is_empty()
    }

    /// Whether all that was written is in place, and the maps on disk tell of it.
    pub fn is_durable(&self) -> bool {
        !self.given_back && self.dirty.is_empty() && self.uncommitted.is_empty() && self.torn.is_empty()
    }

    /// Whether the disks hold all that is known here.
    pub fn is_settled(&self) -> bool {
        self.dirty.is_empty() && self.lines.is_empty() && self.uncommitted.is_empty() && self.missed.is_empty()
    }

    /// Asserts what must hold between any two steps.
    pub fn check(&self, geometry: &Geometry) {
        if self.given_back {
            return;
        }
        let mut taken = BTreeSet::new();
        let named = self.places.iter().copied().filter(|place| *place != NOWHERE);
        for place in named.chain(self.uncommitted.left.iter().copied()).chain(self.free.iter().copied()) {
            assert!(u32::from(place) < geometry.places, "place {place} is one of the row's");
            assert!(taken.insert(place), "place {place} has one band, waits for a commit, or is free");
        }
        for (start, end) in self.written.runs(0, self.written.limit()) {
            let mut bands = geometry.band_of(start)..=geometry.band_of(end - 1);
            assert!(
                bands.all(|band| self.places[band as usize] != NOWHERE),
                "blocks {start}..{end} hold data in a place"
            );
        }
        for (band, dirty) in &self.dirty {
            dirty.check(band * geometry.band_blocks(), (band + 1) * geometry.band_blocks());
            let unlogged = dirty.extents().any(|(_, extent)| !extent.logged);
            assert!(!unlogged || self.unlogged.contains(band), "a flush finds what is only in memory of band {band}");
        }
        assert!(self.uncommitted.direct.is_within(&self.uncommitted.changed), "what no record tells was changed");
        assert!(self.uncommitted.direct.is_within(&self.moved), "what no record tells moved");
    }

    /// Takes over what a map on disk tells; false where it cannot be so.
    pub fn load_map(&mut self, first: u32, end: u32, geometry: &Geometry, map: &BandMap) -> bool {
        for band in first..end {
            let index = (band - first) as usize;
            let place = map.places[index];
            if place != NOWHERE {
                if !self.free.remove(&place) {
                    return false;
                }
                self.places[band as usize] = place;
            }
            if map.missed[index / 64] >> (index % 64) & 1 == 1 {
                self.missed.insert(band, band + 1);
            }
        }
        let (start, limit) = (first * geometry.band_blocks(), end * geometry.band_blocks());
        for (index, word) in map.written.iter().enumerate() {
            for (from, to) in runs_of_word(start + index as u32 * 64, *word) {
                if to > limit {
                    return false;
                }
                self.written.insert(from, to);
            }
        }
        true
    }
}

/// What a map is to tell of places and blocks.
pub fn map_of_state(
    places: &[u16],
    written: &BlockSet,
    missed: &BlockSet,
    geometry: &Geometry,
    first: u32,
    end: u32,
) -> BandMap {
    let mut map = BandMap::new();
    for band in first..end {
        let index = (band - first) as usize;
        map.places[index] = places[band as usize];
        map.missed[index / 64] |= u64::from(missed.contains(band)) << (index % 64);
    }
    let start = first * geometry.band_blocks();
    for (from, to) in written.runs(start, end * geometry.band_blocks()) {
        for block in from - start..to - start {
            map.written[block as usize / 64] |= 1 << (block % 64);
        }
    }
    map
}
