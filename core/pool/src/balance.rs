//! Even use of disks: which slabs would have to move so that disks of a medium are filled to the same part, and as few
//! of them as can be.
//!
//! New rows go to the disks with the most free room, which keeps equal disks even by itself. Disks that were added or
//! emptied later stay behind; what is planned here makes that good.
//!
//! Invariants: a slab moves from a disk that is fuller than all of its medium together to one that is less full, and
//! only where both come nearer to each other by it. So the sum of used^2 / size falls with each move, and planning
//! again and again comes to an end.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::{DiskState, Media, Usage, Uuid};

use crate::area::{Area, UNIT_BYTES};
use crate::config::Config;
use crate::enclosures;
use crate::pool::Pool;
use crate::record::{DiskRecord, RowRecord};

/// Disks that differ by no more than a part of their size are even: by one in so many.
const EVEN: i128 = 100;
/// Rows are looked at in so many parts, so that what moves comes from all spaces.
const PARTS: u64 = 16;
/// Rows that are looked at while requests wait.
const ROWS_AT_ONCE: usize = 1024;

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
    size: u32,
    used: u32,
}

impl Level {
    fn of(config: &Config, disk: &DiskRecord) -> Option<Self> {
        if !disk.usage.takes_slabs() || disk.state != DiskState::Online || config.avoided.contains(&disk.index) {
            return None;
        }
        let units = Area::of_disk("", disk.disk_bytes).ok()?.units();
        let free = config.free.get(&disk.index)?.free();
        Some(Self { media: disk.media, size: units, used: units - free })
    }

    fn part(&self) -> f64 {
        f64::from(self.used) / f64::from(self.size)
    }

    /// Whether both are nearer to each other once so many units went from here to there. Computed in whole numbers:
    /// were it rounded, a slab might go back and forth for ever.
    fn evens_out(&self, to: &Self, units: u32) -> bool {
        let [size, used, to_size, to_used] = [self.size, self.used, to.size, to.used].map(i128::from);
        let differ = used * to_size - to_used * size;
        self.media == to.media && 2 * differ > i128::from(units) * (size + to_size) && EVEN * differ > size * to_size
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
            *sum = (sum.0 + f64::from(level.used), sum.1 + f64::from(level.size));
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
        Some(f64::from(level.used) - self.mean[&(level.media as u8)] * f64::from(level.size))
    }

    fn shift(&mut self, from: u16, to: u16, units: u32) {
        let (source, target) = (self.disks[&from], self.disks[&to]);
        self.put(from, Level { used: source.used - units, ..source });
        self.put(to, Level { used: target.used + units, ..target });
    }

    /// The slab of a row that is to move, and where: from the fullest disk that has too much to the emptiest that may
    /// take it.
    fn choose(&self, config: &Config, row: &RowRecord, enclosure_aware: bool) -> Option<(usize, u16)> {
        let half = f64::from(row.slab_units) / 2.0;
        let over = |(_, disk): &(usize, u16)| self.excess(*disk).is_some_and(|excess| excess >= half);
        let mut sources: Vec<(usize, u16)> =
            row.slabs.iter().map(crate::SlabPlace::disk).enumerate().filter(over).collect();
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

/// Whether a slab may move to a disk in its enclosure: no more of those that back it are there than where it is now,
/// and fewer than may be lost.
fn bears(config: &Config, row: &RowRecord, slab: usize, to: u16) -> bool {
    let beside = |disk| enclosures::others_beside(config, row, slab, disk);
    beside(to) < row.shape.layout.tolerates().into() && beside(to) <= beside(row.slabs[slab].disk())
}

/// Whether a move is allowed as the pool is now, and is good for something: it is off a disk that is retired, or makes
/// the use of both disks more even.
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

/// Some rows of a space.
struct Rows {
    /// Whether it is spread over enclosures.
    aware: bool,
    /// Those that may give up a slab, by their chunks.
    rows: Vec<(u32, RowRecord)>,
    /// The chunk from which there may be more.
    next: Option<u32>,
}

impl Pool {
    /// What would make the use of its disks even. Nothing is changed. Rows of journals stay where they are, and so do
    /// those of spaces that a salvage made until they are accepted. In a large pool this takes seconds.
    pub fn balance(&self) -> Balance {
        let (known, spaces) = {
            let state = self.state();
            let config = &state.config;
            let (disks, free, avoided) = (config.disks.clone(), config.free.clone(), config.avoided.clone());
            (Config { disks, free, avoided, ..Config::default() }, config.spaces.keys().copied().collect::<Vec<u32>>())
        };
        let before = Levels::of(&known);
        let mut levels = Levels { disks: before.disks.clone(), order: before.order.clone(), mean: before.mean.clone() };
        let mut moves = Vec::new();
        for part in 0..PARTS {
            if levels.disks.keys().all(|disk| levels.excess(*disk).is_none_or(|excess| excess <= 0.0)) {
                break;
            }
            for space in &spaces {
                let mut from = Some(0);
                while let Some(found) = from.and_then(|from| self.rows_of_part(*space, part, from)) {
                    for (chunk, mut row) in found.rows {
                        while let Some((slab, to)) = levels.choose(&known, &row, found.aware) {
                            let from = row.slabs[slab].disk();
                            levels.shift(from, to, row.slab_units);
                            row.slabs[slab] = crate::SlabPlace::new(to, 0);
                            moves.push(SlabMove {
                                space: *space,
                                chunk,
                                slab: slab as u16,
                                from,
                                to,
                                units: row.slab_units,
                            });
                        }
                    }
                    from = found.next;
                }
            }
        }
        let bytes = |units: u32| u64::from(units) * UNIT_BYTES;
        let used = |(disk, level): (&u16, &Level)| {
            Some(DiskUse {
                disk: known.disks.get(disk)?.id,
                media: level.media,
                data_bytes: bytes(level.size),
                used_bytes: bytes(level.used),
                used_bytes_then: bytes(levels.disks[disk].used),
            })
        };
        Balance { disks: before.disks.iter().filter_map(used).collect(), moves }
    }

    /// Rows of a part of a space, from a chunk on. Requests are let in between two calls.
    fn rows_of_part(&self, space: u32, part: u64, from: u32) -> Option<Rows> {
        let state = self.state();
        let known = state.config.spaces.get(&space).filter(|space| !space.record.read_only)?;
        let mut found = Rows { aware: known.record.enclosure_aware, rows: Vec::new(), next: None };
        for (looked, (chunk, row)) in known.data_rows(from).enumerate() {
            if looked == ROWS_AT_ONCE {
                found.next = Some(*chunk);
                break;
            }
            if row.id % PARTS == part && may_move(row) {
                found.rows.push((*chunk, row.clone()));
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_slab_goes_back_to_where_it_came_from() {
        let level = |size, used| Level { media: Media::Ssd, size, used };
        for (size, to_size, units) in (20..44).flat_map(|size| (20..44).map(move |to| (size, to, 1 + (size + to) % 4)))
        {
            for (used, to_used) in (units..=size).flat_map(|used| (0..=to_size - units).map(move |to| (used, to))) {
                if level(size, used).evens_out(&level(to_size, to_used), units) {
                    let back = level(to_size, to_used + units).evens_out(&level(size, used - units), units);
                    assert!(!back, "{used} of {size}, {to_used} of {to_size}, {units} moved");
                }
            }
        }
    }
}
