//! What it takes to empty disks: which rows would get other disks, which find none, and how full the others would be
//! then.
//!
//! Rows are tried one after another on a copy of the free room, by the rule that gives a row that moves its disks, and
//! in the order in which spaces leave a disk; slabs of disks that are lost by the rule that rebuilds them.
//!
//! Invariant: nothing is changed, and where nothing else happens meanwhile the plan comes true.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::{DiskState, Media, Name, Place, Usage, Uuid};

use crate::allot::allot_on;
use crate::area::{Area, UNIT_BYTES};
use crate::balance::DiskUse;
use crate::config::Config;
use crate::enclosures::{enclosure, most_of_row};
use crate::extents::FreeExtents;
use crate::frame::Position;
use crate::geometry::slab_units;
use crate::journal_allot::renewed_journal;
use crate::moves::{emptiest_for, rank_for_move};
use crate::place::SlabPlace;
use crate::pool::Pool;
use crate::record::{DiskRecord, RowRecord, SpaceRecord};
use crate::room::rows_with_room;
use crate::{PoolError, PoolErrorKind};

/// What a space has on a disk that is to be emptied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceLeaving {
    /// The space's name.
    pub name: Name,
    /// Its slabs there that find room, those of its journal among them.
    pub slabs: u64,
    /// Bytes that these take there.
    pub slab_bytes: u64,
    /// Bytes of data in the rows that these slabs are of, which move as a whole.
    pub move_bytes: u64,
    /// Its slabs there that find no room elsewhere.
    pub stuck_slabs: u64,
    /// Bytes that these take there.
    pub stuck_bytes: u64,
    /// Its rows that have a slab there and cannot be read now: what is in them is lost for good without the disk.
    pub lost_rows: u64,
    /// Bytes of data in these.
    pub lost_bytes: u64,
}

/// What it takes to empty disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evacuation {
    /// The spaces that have slabs there.
    pub spaces: Vec<SpaceLeaving>,
    /// The disks themselves, and every other one that would be filled otherwise than now.
    pub disks: Vec<DiskUse>,
}

impl Evacuation {
    /// Whether every slab finds room that can be read or made anew.
    pub fn fits(&self) -> bool {
        self.spaces.iter().all(|space| space.stuck_slabs == 0)
    }
}

/// A disk that may come into the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDisk {
    /// Its size.
    pub disk_bytes: u64,
    /// Its medium.
    pub media: Media,
    /// Enclosure and slot.
    pub place: Option<Place>,
}

/// Rows of a space on the disks.
struct Leaving {
    record: SpaceRecord,
    rows: Vec<RowRecord>,
    /// All rows of its journal, where one of them is there too.
    journal: Vec<RowRecord>,
    /// Copies that its journal is to have.
    journal_copies: u8,
    /// Rows that the map of the pool has room for.
    in_map: u64,
}

impl Pool {
    /// What it takes to empty a disk, which gets no more slabs. Nothing is changed.
    ///
    /// # Errors
    /// No such disk.
    pub fn evacuation(&self, disk: Uuid) -> Result<Evacuation, PoolError> {
        self.evacuation_with(disk, None)
    }

    /// The same once another disk is in the pool.
    ///
    /// # Errors
    /// No such disk; a new one of a size that no pool takes.
    pub fn evacuation_with(&self, disk: Uuid, new: Option<&NewDisk>) -> Result<Evacuation, PoolError> {
        let absent = || PoolError::new(PoolErrorKind::NotFound, format!("disk {disk} is not in pool {}", self.name()));
        let record = self.disk_record(disk).ok_or_else(absent)?;
        self.plan_without(&BTreeSet::from([record.index]), new)
    }

    /// Spaces that get no new rows once a disk takes none any more, and another one may be in the pool, although they
    /// do now: too few disks are left for their layout.
    ///
    /// # Errors
    /// A new disk of a size that no pool takes.
    pub fn spaces_without_new_rows(&self, disk: Uuid, new: Option<&NewDisk>) -> Result<Vec<Name>, PoolError> {
        let state = self.state();
        let takes = |disk: &&DiskRecord| disk.usage.takes_slabs() && disk.state == DiskState::Online;
        let now: Vec<&DiskRecord> = state.config.disks.values().filter(takes).collect();
        let mut trial =
            Config { disks: state.config.disks.clone(), next_disk: state.config.next_disk, ..Config::default() };
        new.map_or(Ok(()), |new| trial.add(new))?;
        trial.disks.retain(|_, record| record.id != disk);
        let then: Vec<&DiskRecord> = trial.disks.values().filter(takes).collect();
        let bear = |disks: &[&DiskRecord], space: &SpaceRecord| match space.enclosure_aware {
            true => most_of_row(&space.shape, disks.iter().map(|disk| enclosure(disk))).is_some(),
            false => space.shape.width() <= disks.len(),
        };
        let records = state.config.spaces.values().map(|space| &space.record);
        Ok(records.filter(|space| bear(&now, space) && !bear(&then, space)).map(|space| space.name.clone()).collect())
    }

    /// Whether all slabs of these disks have room on others in service, spares among them.
    pub fn has_room_without(&self, disks: &BTreeSet<u16>) -> bool {
        self.plan_without(disks, None).is_ok_and(|planned| planned.fits())
    }

    fn plan_without(&self, leaving: &BTreeSet<u16>, new: Option<&NewDisk>) -> Result<Evacuation, PoolError> {
        let (mut trial, spaces) = {
            let state = self.state();
            let config = &state.config;
            let trial = Config {
                name: config.name.clone(),
                disks: config.disks.clone(),
                free: config.free.clone(),
                next_disk: config.next_disk,
                next_row: config.next_row,
                avoided: config.avoided.clone(),
                ..Config::default()
            };
            (trial, config.spaces.keys().copied().collect::<Vec<u32>>())
        };
        new.map_or(Ok(()), |new| trial.add(new))?;
        trial
            .disks
            .values_mut()
            .filter(|disk| leaving.contains(&disk.index))
            .for_each(|disk| disk.usage = Usage::Retired);
        let before = trial.free.clone();
        // Requests are let in between two spaces.
        let planned = spaces
            .into_iter()
            .filter_map(|space| self.leaving(space, leaving).map(|found| trial.empty(leaving, &found)));
        let spaces = planned.collect();
        let changed = |disk: &&DiskRecord| {
            leaving.contains(&disk.index) || before.get(&disk.index) != trial.free.get(&disk.index)
        };
        let disks =
            trial.disks.values().filter(changed).filter_map(|disk| disk_use(disk, &before, &trial.free)).collect();
        Ok(Evacuation { spaces, disks })
    }

    /// What a space has on disks.
    fn leaving(&self, space: u32, disks: &BTreeSet<u16>) -> Option<Leaving> {
        let state = self.state();
        let known = state.config.spaces.get(&space)?;
        let is_there = |row: &RowRecord| row.slabs.iter().any(|slab| disks.contains(&slab.disk()));
        let rows: Vec<RowRecord> =
            known.data_rows(0).map(|(_, row)| row).filter(|row| is_there(row)).cloned().collect();
        let renewed = known.journal_rows().any(|(_, row)| is_there(row));
        let journal: Vec<RowRecord> = known.journal_rows().filter(|_| renewed).map(|(_, row)| row.clone()).collect();
        if rows.is_empty() && journal.is_empty() {
            return None;
        }
        let in_map = rows_with_room(&state, 0, &[], &known.record.shape);
        Some(Leaving { record: known.record.clone(), rows, journal, journal_copies: known.journal_copies(), in_map })
    }
}

impl Config {
    /// Puts a disk in that takes data.
    fn add(&mut self, new: &NewDisk) -> Result<(), PoolError> {
        let (area, index) = (Area::of_disk("", new.disk_bytes)?, self.next_disk);
        let record = DiskRecord {
            index,
            id: Uuid::nil(),
            serial: String::new(),
            model: String::new(),
            path: String::new(),
            media: new.media,
            usage: Usage::Auto,
            place: new.place.clone(),
            disk_bytes: area.disk_bytes,
            state: DiskState::Online,
            voting: true,
            holds: Position::default(),
        };
        self.disks.insert(index, record);
        self.free.insert(index, FreeExtents::new(area.units()));
        Ok(())
    }

    /// Gives all rows that leave disks other units, and takes those back that they had.
    fn empty(&mut self, disks: &BTreeSet<u16>, leaving: &Leaving) -> SpaceLeaving {
        let Leaving { record, rows, journal, journal_copies, in_map } = leaving;
        let units = slab_units(&record.shape, record.chunk_bytes);
        let mut leaving = SpaceLeaving {
            name: record.name.clone(),
            slabs: 0,
            slab_bytes: 0,
            move_bytes: 0,
            stuck_slabs: 0,
            stuck_bytes: 0,
            lost_rows: 0,
            lost_bytes: 0,
        };
        let (avoided, without) = (self.avoided.clone(), disks.iter().copied().collect::<Vec<u16>>());
        let is_leaving = |slab: &SlabPlace| disks.contains(&slab.disk());
        for row in rows {
            if !self.can_read(row) {
                leaving.lost_rows += 1;
                leaving.lost_bytes += record.chunk_bytes;
                continue;
            }
            let there: Vec<usize> = (0..row.slabs.len()).filter(|slab| is_leaving(&row.slabs[*slab])).collect();
            let lost = there.iter().any(|slab| self.disks[&row.slabs[*slab].disk()].state != DiskState::Online);
            let takes = |other: &DiskRecord| rank_for_move(other, &without, &avoided);
            let whole =
                !lost && *in_map > 0 && allot_on(self, record.shape, units, record.enclosure_aware, &takes).is_ok();
            let moved = if whole {
                self.give_back(row);
                there.len()
            } else {
                self.move_slabs(row, &there, record.enclosure_aware)
            };
            leaving.move_bytes += if moved > 0 { record.chunk_bytes } else { 0 };
            leaving.count(row, moved, there.len() - moved);
        }
        let lost = journal.iter().filter(|row| !self.can_read(row)).count() as u64;
        leaving.lost_rows += lost;
        if !journal.is_empty() && lost == 0 {
            let moved = renewed_journal(self, record, *journal_copies, journal, None).is_ok();
            for row in journal {
                let there = row.slabs.iter().filter(|slab| is_leaving(slab)).count();
                leaving.count(row, if moved { there } else { 0 }, if moved { 0 } else { there });
            }
            if moved {
                journal.iter().for_each(|row| self.give_back(row));
            }
        }
        leaving
    }

    /// Whether enough slabs of a row are in step on disks in service.
    pub(crate) fn can_read(&self, row: &RowRecord) -> bool {
        let is_online = |disk: u16| self.disks.get(&disk).is_some_and(|disk| disk.state == DiskState::Online);
        let sound = |slabs: &[SlabPlace]| slabs.iter().filter(|slab| !slab.stale() && is_online(slab.disk())).count();
        row.slabs.chunks(row.shape.group(0).len()).all(|group| sound(group) >= row.shape.needed())
    }

    /// Gives slabs of a row other units, where any disk has them, and takes those back that they had. Answers how many.
    fn move_slabs(&mut self, row: &RowRecord, slabs: &[usize], enclosure_aware: bool) -> usize {
        let mut row = row.clone();
        let mut moved = 0;
        for slab in slabs {
            let to = emptiest_for(self, &row, *slab, enclosure_aware);
            let taken = to.and_then(|to| Some(SlabPlace::new(to, self.free.get_mut(&to)?.take(row.slab_units)?)));
            if let Some(place) = taken {
                let left = std::mem::replace(&mut row.slabs[*slab], place);
                self.give_back_slab(&left, row.slab_units);
                moved += 1;
            }
        }
        moved
    }

    /// Takes back the units of a row, but for those that were free already when the copy of the free room was made.
    fn give_back(&mut self, row: &RowRecord) {
        row.slabs.iter().for_each(|slab| self.give_back_slab(slab, row.slab_units));
    }

    fn give_back_slab(&mut self, slab: &SlabPlace, units: u32) {
        let free = self.free.get_mut(&slab.disk()).filter(|free| free.is_taken(slab.unit(), units));
        free.into_iter().for_each(|free| free.give(slab.unit(), units));
    }
}

impl SpaceLeaving {
    fn count(&mut self, row: &RowRecord, moved: usize, stuck: usize) {
        let bytes = |slabs: usize| slabs as u64 * u64::from(row.slab_units) * UNIT_BYTES;
        self.slabs += moved as u64;
        self.slab_bytes += bytes(moved);
        self.stuck_slabs += stuck as u64;
        self.stuck_bytes += bytes(stuck);
    }
}

fn disk_use(
    disk: &DiskRecord,
    before: &BTreeMap<u16, FreeExtents>,
    then: &BTreeMap<u16, FreeExtents>,
) -> Option<DiskUse> {
    let units = Area::of_disk("", disk.disk_bytes).ok()?.units();
    let used = |free: &BTreeMap<u16, FreeExtents>| Some(u64::from(units - free.get(&disk.index)?.free()) * UNIT_BYTES);
    Some(DiskUse {
        disk: disk.id,
        media: disk.media,
        data_bytes: u64::from(units) * UNIT_BYTES,
        used_bytes: used(before)?,
        used_bytes_then: used(then)?,
    })
}
