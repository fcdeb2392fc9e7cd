//! How many losses a space bears, counted over its rows as they are.
//!
//! ```text
//!   losses that a row bears = fewest, over its groups, of slabs in step on disks in service  -  slabs that serve the group
//!   losses that a space bears = fewest over its rows, those of its journal among them; never more than its layout wants
//! ```
//!
//! Invariant: whichever so many disks go next, every row is served from those that are left. The layout alone promises
//! nothing: rows of an earlier one, slabs that missed writes and disks that are out all count as they are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use holdfast_model::Shape;
use holdfast_pool::{JOURNAL_CHUNK, Pool, RowRecord, SlabPlace, SpaceRecord};

/// How many losses a space is to bear, and bears now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Disks whose loss its layout is to survive.
    pub wanted_losses: u8,
    /// Disks that may be lost from now on.
    pub held_losses: u8,
    /// Enclosures whose loss it is to survive, where it is spread over them.
    pub wanted_enclosures: Option<u8>,
    /// Enclosures that may be lost from now on, where it is spread over them.
    pub held_enclosures: Option<u8>,
    /// Rows, those of the journal among them.
    pub rows: u64,
    /// Rows that bear fewer losses than wanted.
    pub weak_rows: u64,
    /// Rows that cannot be read now.
    pub unreadable_rows: u64,
    /// Bytes of data in these.
    pub unreadable_bytes: u64,
    /// How many of a hundred data rows have the present layout, columns and all; none where all have.
    pub converted_percent: Option<u8>,
    /// Slabs on disks out of service.
    pub out_slabs: u64,
    /// Slabs that missed writes on disks in service, which are being brought in step.
    pub behind_slabs: u64,
    /// Slabs on disks in service of which nothing tells any more what they hold.
    pub lost_slabs: u64,
}

/// Slabs that do not count though the pool has nothing against them, by chunk: those of the row with that id, as it was
/// opened last.
#[derive(Default)]
pub(crate) struct Lost {
    rows: Mutex<BTreeMap<u32, (u64, BTreeSet<usize>)>>,
    changes: AtomicU64,
}

impl Lost {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<u32, (u64, BTreeSet<usize>)>> {
        self.rows.lock().expect("no panic while held")
    }

    /// Notes which slabs of a row these are, as they are found to be while nobody else notes any.
    pub(crate) fn note(&self, chunk: u32, row: u64, slabs: impl FnOnce() -> BTreeSet<usize>) {
        let mut rows = self.rows();
        let slabs = slabs();
        let before = match slabs.is_empty() {
            true => rows.remove(&chunk),
            false => rows.insert(chunk, (row, slabs.clone())),
        };
        if before.map(|(_, slabs)| slabs).unwrap_or_default() != slabs {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often they changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Those of a row.
    pub(crate) fn of(&self, chunk: u32, row: u64) -> BTreeSet<usize> {
        let rows = self.rows();
        rows.get(&chunk).filter(|(id, _)| *id == row).map(|(_, slabs)| slabs.clone()).unwrap_or_default()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows().is_empty()
    }
}

/// What counts of a disk.
struct Disk {
    in_service: bool,
    enclosure: String,
}

/// Counts row by row.
pub(crate) struct Tally {
    disks: HashMap<u16, Disk>,
    wanted: Shape,
    enclosure_aware: bool,
    chunk_bytes: u64,
    held: u8,
    enclosures: u8,
    data_rows: u64,
    other_rows: u64,
    found: Protection,
}

impl Tally {
    /// Begins to count for a space.
    pub(crate) fn new(pool: &Pool, space: &SpaceRecord) -> Self {
        let mut disks: HashMap<u16, Disk> = (pool.pool_disks().iter())
            .map(|disk| (disk.index, Disk { in_service: disk.in_service(), enclosure: String::new() }))
            .collect();
        if space.enclosure_aware {
            for status in pool.disks() {
                let place = status.record.place.map(|place| place.enclosure).unwrap_or_default();
                disks.entry(status.record.index).and_modify(|disk| disk.enclosure = place);
            }
        }
        Self {
            disks,
            wanted: space.shape,
            enclosure_aware: space.enclosure_aware,
            chunk_bytes: space.chunk_bytes,
            held: space.shape.layout.tolerates(),
            enclosures: 1,
            data_rows: 0,
            other_rows: 0,
            found: Protection::default(),
        }
    }

    fn is_in_service(&self, slab: &SlabPlace) -> bool {
        self.disks.get(&slab.disk()).is_some_and(|disk| disk.in_service)
    }

    /// Counts a row, some of whose slabs are lost; answers how many are not sound: they do not hold what was written,
    /// or their disks are not in service.
    pub(crate) fn add(&mut self, chunk: u32, row: &RowRecord, lost: &BTreeSet<usize>) -> u64 {
        let found = &mut self.found;
        found.rows += 1;
        if chunk < JOURNAL_CHUNK {
            self.data_rows += 1;
            self.other_rows += u64::from(row.shape != self.wanted);
        }
        let (mut bad, mut spare, mut enclosures) = (0, usize::MAX, usize::MAX);
        let sound: Vec<bool> = (row.slabs.iter().enumerate())
            .map(|(index, slab)| {
                let (in_service, is_lost) = (self.is_in_service(slab), lost.contains(&index));
                self.found.out_slabs += u64::from(!in_service);
                self.found.behind_slabs += u64::from(in_service && slab.stale());
                self.found.lost_slabs += u64::from(in_service && is_lost && !slab.stale());
                let is_sound = in_service && !slab.stale() && !is_lost;
                bad += u64::from(!is_sound);
                is_sound
            })
            .collect();
        let mut is_readable = true;
        let group = row.shape.group(0).len();
        for (slabs, sound) in row.slabs.chunks(group).zip(sound.chunks(group)) {
            let sound: Vec<&SlabPlace> =
                slabs.iter().zip(sound).filter(|(_, sound)| **sound).map(|(slab, _)| slab).collect();
            let Some(more) = sound.len().checked_sub(row.shape.needed()) else {
                is_readable = false;
                break;
            };
            spare = spare.min(more);
            if self.enclosure_aware {
                enclosures = enclosures.min(self.enclosures_borne(&sound, more));
            }
        }
        if !is_readable {
            (spare, enclosures) = (0, 0);
            self.found.unreadable_rows += 1;
            self.found.unreadable_bytes += if chunk < JOURNAL_CHUNK { self.chunk_bytes } else { 0 };
        }
        let wanted = usize::from(self.wanted.layout.tolerates());
        self.found.weak_rows += u64::from(spare < wanted);
        self.held = self.held.min(spare.min(wanted) as u8);
        self.enclosures = self.enclosures.min(enclosures.min(1) as u8);
        bad
    }

    /// How many enclosures may go, whichever they are, where so many slabs may.
    fn enclosures_borne(&self, sound: &[&SlabPlace], spare: usize) -> usize {
        let mut by_enclosure: BTreeMap<&str, usize> = BTreeMap::new();
        for slab in sound {
            let enclosure = self.disks.get(&slab.disk()).map_or("", |disk| &disk.enclosure);
            *by_enclosure.entry(enclosure).or_default() += 1;
        }
        let mut slabs: Vec<usize> = by_enclosure.into_values().collect();
        slabs.sort_unstable_by(|a, b| b.cmp(a));
        let lost = slabs.iter().scan(0, |lost, slabs| {
            *lost += slabs;
            Some(*lost)
        });
        lost.take_while(|lost| *lost <= spare).count()
    }

    /// What was counted.
    pub(crate) fn end(self) -> Protection {
        let converted = (self.data_rows - self.other_rows) * 100 / self.data_rows.max(1);
        Protection {
            wanted_losses: self.wanted.layout.tolerates(),
            held_losses: self.held,
            wanted_enclosures: self.enclosure_aware.then_some(1),
            held_enclosures: self.enclosure_aware.then_some(self.enclosures),
            converted_percent: (self.other_rows > 0).then_some(converted as u8),
            ..self.found
        }
    }
}
