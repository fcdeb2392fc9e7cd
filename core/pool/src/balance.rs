//! Even use of disks: which slabs would have to move so that disks of a medium are filled to the same part, and as few of them as
//! can be.
//!
//! New rows go to the disks with the most free room, which keeps equal disks even by itself. Disks that were added or emptied later
//! stay behind; what is planned here makes that good.
//!
//! Invariants: a slab moves from a disk that is fuller than all of its medium together to one that is less full, and only where both come nearer
//! to each other by it. So the sum of used^2 / size falls with each move: whoever plans again and again comes to an end.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::{DiskState, Media, Usage, Uuid};

use crate::area::{Area, UNIT_BYTES};
use crate::config::{Config, DiskRecord, RowRecord};
use crate::enclosures;
use crate::pool::Pool;

/// Disks that differ by no more than this part of their size are even.
const EVEN: f64 = 0.01;
/// Rows are looked at in so many parts, so that what moves comes from all spaces.
const PARTS: u64 = 16;

/// A slab that is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabMove {
    /// The space.
    pub space: u32,
    /// The chunk.
    pub chunk: u32,
    /// The slab's index in its row.
    pub slab: u16,
    /// The disk that it is on.
    pub from: u16,
    /// The disk that it is to be on.
    pub to: u16,
    /// Its units.
    pub units: u32,
}

/// How full a disk is, and how full it would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskUse {
    /// The disk.
    pub disk: Uuid,
    /// Its medium.
    pub media: Media,
    /// Bytes that slabs may take.
    pub data_bytes: u64,
    /// Bytes that they take.
    pub used_bytes: u64,
    /// Bytes that they would take.
    pub used_bytes_then: u64,
}

/// What would make the use of disks even.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// The moves, in the order in which they were planned.
    pub moves: Vec<SlabMove>,
    /// All disks that data may be moved from or to.
    pub disks: Vec<DiskUse>,
}

impl Balance {
    /// Bytes that the moves write.
    pub fn move_bytes(&self) -> u64 {
        self.moves.iter().map(|planned| u64::from(planned.units) * UNIT_BYTES).sum()
    }
}

/// How full a disk is, in units.
#[derive(Clone, Copy, Debug)]
struct Level {
    media: Media,
    size: f64,
    used: f64,
}

impl Level {
    fn of(config: &Config, disk: &DiskRecord) -> Option<Self> {
        if !disk.usage.takes_slabs() || disk.state != DiskState::Online || config.avoided.contains(&disk.index) {
            return None;
        }
        let units = Area::of_disk("", disk.disk_bytes).ok()?.units();
        let free = config.free.get(&disk.index)?.free();
        Some(Self { media: disk.media, size: units.into(), used: f64::from(units - free) })
    }

    fn part(&self) -> f64 {
        self.used / self.size
    }

    /// Whether both are nearer to each other once so many units went from here to there.
    fn evens_out(&self, to: &Self, units: u32) -> bool {
        let step = f64::from(units) / 2.0 * (1.0 / self.size + 1.0 / to.size);
        self.media == to.media && self.part() - to.part() > step.max(EVEN)
    }
}

/// Levels of disks, those of each medium in order.
struct Levels {
    disks: BTreeMap<u16, Level>,
    order: BTreeMap<u8, BTreeSet<(u64, u16)>>,
    mean: BTreeMap<u8, f64>,
}

impl Levels {
    fn of(config: &Config) -> Self {
        let level = |disk: &DiskRecord| Level::of(config, disk).map(|level| (disk.index, level));
        let disks: BTreeMap<u16, Level> = config.disks.values().filter_map(level).collect();
        let mut levels = Self { disks: BTreeMap::new(), order: BTreeMap::new(), mean: BTreeMap::new() };
        let mut sums: BTreeMap<u8, (f64, f64)> = BTreeMap::new();
        for (disk, level) in disks {
            let sum = sums.entry(level.media as u8).or_default();
            *sum = (sum.0 + level.used, sum.1 + level.size);
            levels.put(disk, level);
        }
        levels.mean = sums.into_iter().map(|(media, (used, size))| (media, used / size)).collect();
        levels
    }

    fn put(&mut self, disk: u16, level: Level) {
        // Parts are from 0 to 1, where bits sort as numbers do.
        let order = self.order.entry(level.media as u8).or_default();
        if let Some(known) = self.disks.insert(disk, level) {
            order.remove(&(known.part().to_bits(), disk));
        }
        order.insert((level.part().to_bits(), disk));
    }

    /// Units that a disk has beyond the mean of its medium.
    fn excess(&self, disk: u16) -> Option<f64> {
        let level = self.disks.get(&disk)?;
        Some(level.used - self.mean[&(level.media as u8)] * level.size)
    }

    fn shift(&mut self, from: u16, to: u16, units: u32) {
        for (disk, units) in [(from, -f64::from(units)), (to, f64::from(units))] {
            let level = self.disks[&disk];
            self.put(disk, Level { used: level.used + units, ..level });
        }
    }

    /// The slab of a row that is to move, and where: from the fullest disk that has too much to the emptiest that may take it.
    fn choose(&self, config: &Config, row: &RowRecord, enclosure_aware: bool) -> Option<(usize, u16)> {
        let half = f64::from(row.slab_units) / 2.0;
        let over = |(_, disk): &(usize, u16)| self.excess(*disk).is_some_and(|excess| excess >= half);
        let mut sources: Vec<(usize, u16)> = row.slabs.iter().map(crate::SlabPlace::disk).enumerate().filter(over).collect();
        sources.sort_by(|a, b| self.disks[&b.1].part().total_cmp(&self.disks[&a.1].part()));
        sources.into_iter().find_map(|(slab, from)| {
            let source = self.disks[&from];
            let order = self.order.get(&(source.media as u8))?;
            let emptier = order.iter().map(|(_, disk)| *disk);
            let emptier = emptier.take_while(|to| self.excess(*to).is_some_and(|excess| excess + half <= 0.0));
            let mut fitting = emptier.filter(|to| {
                source.evens_out(&self.disks[to], row.slab_units)
                    && may_lie_on(row, *to)
                    && config.free.get(to).is_some_and(|free| free.fits(row.slab_units))
                    && (!enclosure_aware || bears(config, row, slab, *to))
            });
            fitting.next().map(|to| (slab, to))
        })
    }
}

/// Whether a slab of a row may move by itself: all are in step.
fn may_move(row: &RowRecord) -> bool {
    row.slabs.iter().all(|slab| !slab.stale())
}

/// Whether no slab of a row is on a disk.
fn may_lie_on(row: &RowRecord, disk: u16) -> bool {
    row.slabs.iter().all(|slab| slab.disk() != disk)
}

/// Whether a slab may move to a disk in its enclosure: no more of those that back it are there than where it is now, and fewer than may be lost.
fn bears(config: &Config, row: &RowRecord, slab: usize, to: u16) -> bool {
    let beside = |disk| enclosures::others_beside(config, row, slab, disk);
    beside(to) < row.shape.layout.tolerates().into() && beside(to) <= beside(row.slabs[slab].disk())
}

/// Whether a move is allowed as the pool is now, and is good for something: it is off a disk that is retired, or makes the use of both
/// disks more even.
pub(crate) fn is_sound(config: &Config, row: &RowRecord, wanted: &SlabMove, enclosure_aware: bool) -> bool {
    let slab = usize::from(wanted.slab);
    let (Some(from), Some(to)) = (config.disks.get(&wanted.from), config.disks.get(&wanted.to)) else { return false };
    let is_good = || match from.usage {
        Usage::Retired => takes_what_leaves(to),
        _ => {
            let levels = Level::of(config, from).zip(Level::of(config, to));
            levels.is_some_and(|(from, to)| from.evens_out(&to, row.slab_units))
        }
    };
    row.slabs.get(slab).is_some_and(|place| place.disk() == wanted.from)
        && may_move(row)
        && may_lie_on(row, wanted.to)
        && is_good()
        && (!enclosure_aware || bears(config, row, slab, wanted.to))
}

/// Whether a disk takes what others lose or give up: so do spares.
pub(crate) fn takes_what_leaves(disk: &DiskRecord) -> bool {
    disk.state == DiskState::Online && (disk.usage.takes_slabs() || disk.usage == Usage::HotSpare)
}

impl Pool {
    /// What would make the use of its disks even. Nothing is changed. Rows of journals stay where they are, and so do those of spaces
    /// that a salvage made until they are accepted.
    pub fn balance(&self) -> Balance {
        let (before, spaces) = {
            let state = self.state();
            (Levels::of(&state.config), state.config.spaces.keys().copied().collect::<Vec<u32>>())
        };
        let mut levels = Levels { disks: before.disks.clone(), order: before.order.clone(), mean: before.mean.clone() };
        let mut moves = Vec::new();
        for part in 0..PARTS {
            if levels.disks.keys().all(|disk| levels.excess(*disk).is_none_or(|excess| excess <= 0.0)) {
                break;
            }
            for space in &spaces {
                // Requests are let in between two spaces.
                let state = self.state();
                let Some(rows) = state.config.spaces.get(space).filter(|space| !space.record.read_only) else { continue };
                let aware = rows.record.enclosure_aware;
                for (chunk, row) in rows.data_rows(0).filter(|(_, row)| row.id % PARTS == part && may_move(row)) {
                    let mut row = row.clone();
                    while let Some((slab, to)) = levels.choose(&state.config, &row, aware) {
                        let from = row.slabs[slab].disk();
                        levels.shift(from, to, row.slab_units);
                        row.slabs[slab] = crate::SlabPlace::new(to, 0);
                        moves.push(SlabMove { space: *space, chunk: *chunk, slab: slab as u16, from, to, units: row.slab_units });
                    }
                }
            }
        }
        let state = self.state();
        let bytes = |units: f64| units as u64 * UNIT_BYTES;
        let used = |(disk, level): (&u16, &Level)| {
            Some(DiskUse {
                disk: state.config.disks.get(disk)?.id,
                media: level.media,
                data_bytes: bytes(level.size),
                used_bytes: bytes(level.used),
                used_bytes_then: bytes(levels.disks[disk].used),
            })
        };
        Balance { disks: before.disks.iter().filter_map(used).collect(), moves }
    }
}
