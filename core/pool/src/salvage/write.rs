//! A new configuration of what was chosen, and its way onto the disks.
//!
//! Slabs that were not found are given to disks that the pool misses, one for each slab that a row lacks at most: they
//! are what a repair makes anew. The disks get their logs and labels only; until those are on a majority, the disks are
//! no pool and the salvage can be done again.

use futures_util::future::join_all;
use holdfast_model::wire::WireError;
use holdfast_model::{DiskState, Media, Name, Provisioning, Usage, Uuid};

use crate::PoolError;
use crate::area::{SMALLEST_DISK_BYTES, UNIT_BYTES};
use crate::candidate::new_record;
use crate::change::Change;
use crate::config::Config;
use crate::event::{Env, WitnessRecord};
use crate::features::Features;
use crate::frame::Position;
use crate::journal_allot::allot_journal;
use crate::label::Label;
use crate::log::{Checkpoint, DiskLog, LogPlace};
use crate::place::{MAX_DISKS, SlabPlace};
use crate::pool::draw_uuid;
use crate::promise::label_disk;
use crate::record::{DiskRecord, SpaceRecord};

use super::choose::{ChosenRow, ChosenSpace};
use super::{JournalFound, Salvage};

/// Ids that are passed over: rows and spaces that left nothing on these disks may have had them.
const ROWS_APART: u64 = 1 << 32;
const SPACES_APART: u32 = 1 << 16;
/// Generations that are passed over: imports that left nothing on these disks may have had them.
const GENERATIONS_APART: u64 = 1 << 40;

impl Salvage {
    /// Writes new metadata under which the pool can be imported, with the spaces read-only.
    ///
    /// # Errors
    /// An obstacle that the report names, too small disks, or a disk that cannot be written: then it can be done again.
    pub async fn write(&self, env: &Env, name: Name) -> Result<(), PoolError> {
        if let Some(why) = &self.obstacle {
            return Err(PoolError::invalid(why.clone()));
        }
        let witness = env.witness.load(self.id);
        let highest = self.promised.max(witness.map_or(0, |witness| witness.promised));
        let step = GENERATIONS_APART + (draw_uuid(env.seed, highest).as_u128() as u64 & 0xffff_ffff);
        // What is written is to be imported, which takes further ones.
        let generation = highest.checked_add(step).filter(|one| *one <= u64::MAX - GENERATIONS_APART);
        let generation = generation.ok_or_else(|| {
            PoolError::damaged(format!(
                "a label of pool {} has the impossible generation {highest}: wipe its disk",
                self.id
            ))
        })?;
        let position = Position { generation, sequence: 1 };
        let config = self.config(env.seed, name, position)?;
        let checkpoint = Checkpoint::of(&config);
        for member in &self.members {
            if !DiskLog::fits(&member.area, checkpoint.payload_len()) {
                let path = &member.candidate.info.path;
                return Err(PoolError::invalid(format!(
                    "disk {path} is too small for the configuration found: leave it out"
                )));
            }
        }
        let record = WitnessRecord { promised: position.generation, tip: position };
        env.witness.store(self.id, record).await?;
        let writes = self.members.iter().map(|member| async {
            let device = member.candidate.device.clone();
            let place = LogPlace { device: device.clone(), area: member.area, pool: self.id, disk: member.id };
            DiskLog::new(place, None).checkpoint(position, &checkpoint, 0).await?;
            let label = Label {
                pool: self.id,
                disk: member.id,
                disk_bytes: member.area.disk_bytes,
                promised: position.generation,
                features: Features::known(),
            };
            label_disk(&device, &member.area, &label).await
        });
        for (member, written) in self.members.iter().zip(join_all(writes).await) {
            if let Err(error) = written {
                return Err(PoolError::new(
                    crate::PoolErrorKind::Io,
                    format!(
                        "disk {}: {error}; check it, or leave it out, and salvage again",
                        member.candidate.info.path
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The configuration of what was chosen.
    fn config(&self, seed: u64, name: Name, position: Position) -> Result<Config, PoolError> {
        let impossible = |error: WireError| {
            PoolError::damaged(format!("the data found of pool {} is contradictory: {error}", self.id))
        };
        let mut config = Config::default();
        let counters = Change::Counters {
            row: self.chosen.last_row + ROWS_APART,
            space: self.chosen.last_space + SPACES_APART,
            disk: 0,
        };
        let forced = Change::Forced { from: Position::default(), generation: position.generation };
        for change in [Change::Pool(name), Change::Features(Features::known()), counters, forced] {
            config.apply(&change).map_err(impossible)?;
        }
        for (index, member) in self.members.iter().enumerate() {
            let record = new_record(index as u16, member.id, &member.candidate, &member.area);
            config.apply(&Change::Disk(record)).map_err(impossible)?;
        }
        let rows = || self.chosen.spaces.iter().flat_map(|space| space.rows.values());
        let missed = Missed::of(rows(), self.members.len() as u16)?;
        for change in missed.disks(seed ^ self.id.as_u128() as u64) {
            config.apply(&change).map_err(impossible)?;
        }
        let mut missed = missed;
        for space in &self.chosen.spaces {
            for change in self.space_changes(space, &mut missed) {
                config.apply(&change).map_err(impossible)?;
            }
        }
        for space in self.chosen.spaces.iter().filter(|space| space.journal == Some(JournalFound::Lost)) {
            self.new_journal(&mut config, space)?;
        }
        Ok(config)
    }

    fn space_changes(&self, space: &ChosenSpace, missed: &mut Missed) -> Vec<Change> {
        let id = space.facts.space;
        let report = space.report();
        let record = SpaceRecord {
            id,
            uuid: space.facts.space_uuid,
            name: space.name.clone(),
            shape: space.shape,
            // Where chunks have no row, they get one as they are written to.
            provisioning: if report.chunks.absent > 0 { Provisioning::Thin } else { report.provisioning },
            size_bytes: space.size_bytes,
            chunk_bytes: space.facts.chunk_bytes,
            enclosure_aware: false,
            read_only: true,
            complete: true,
        };
        let mut changes = vec![Change::Space(record)];
        for (chunk, row) in &space.rows {
            let record = row.record(|index| self.place(row, index, missed));
            missed.next_row();
            changes.push(Change::Row { space: id, chunk: *chunk, row: record });
            let stale =
                |(slab, _): (usize, _)| Change::Stale { space: id, chunk: *chunk, slab: slab as u16, stale: true };
            let of = |wanted: fn(Option<bool>) -> bool| {
                let slabs = row.slabs.iter().map(move |slab| wanted(slab.as_ref().map(|slab| slab.stale)));
                slabs.enumerate().filter(|(_, wanted)| *wanted)
            };
            // Those that are not there first: of the last that a group needs, rather one that is there is believed.
            changes.extend(of(|found| found.is_none()).map(stale));
            changes.extend(of(|found| found == Some(true)).map(stale));
        }
        changes
    }

    fn place(&self, row: &ChosenRow, index: usize, missed: &mut Missed) -> SlabPlace {
        match &row.slabs[index] {
            Some(slab) => {
                let area = &self.members[usize::from(slab.disk)].area;
                SlabPlace::new(slab.disk, ((slab.offset - area.reserved_bytes) / UNIT_BYTES) as u32)
            }
            None => missed.place(row.units),
        }
    }

    /// Gives a space whose journal is lost an empty one, as every space with parity has.
    fn new_journal(&self, config: &mut Config, space: &ChosenSpace) -> Result<(), PoolError> {
        let rows = space.rows.values().map(|row| row.shape.layout.parity());
        let copies = rows.chain([space.shape.layout.parity()]).max().unwrap_or(0) + 1;
        let rows = allot_journal(config, space.name.as_str(), copies, false, None, space.size_bytes)?;
        for (chunk, row) in (crate::geometry::JOURNAL_CHUNK..).zip(rows) {
            config.release(&row);
            let change = Change::Row { space: space.facts.space, chunk, row };
            config
                .apply(&change)
                .map_err(|error| PoolError::damaged(format!("the new journal of {}: {error}", space.name)))?;
        }
        Ok(())
    }
}

/// Disks that the pool misses, and how far they are given away.
struct Missed {
    first: u16,
    units: Vec<u64>,
    used: Vec<u32>,
    next: usize,
}

impl Missed {
    /// As many, and as large, as rows lack slabs.
    fn of<'a>(rows: impl Iterator<Item = &'a ChosenRow>, first: u16) -> Result<Self, PoolError> {
        let mut units: Vec<u64> = Vec::new();
        for row in rows {
            let lacking = row.slabs.iter().filter(|slab| slab.is_none()).count();
            units.resize(units.len().max(lacking), 0);
            units.iter_mut().take(lacking).for_each(|units| *units += u64::from(row.units));
        }
        let fits = units.len() < usize::from(MAX_DISKS - first) && units.iter().all(|units| *units < 1 << 31);
        if !fits {
            return Err(PoolError::invalid(
                "more slabs are missing than a pool could have: name all disks that the pool had",
            ));
        }
        Ok(Self { first, used: vec![0; units.len()], units, next: 0 })
    }

    fn disks(&self, seed: u64) -> Vec<Change> {
        let record = |(at, units): (usize, &u64)| DiskRecord {
            index: self.first + at as u16,
            id: id_of(seed, at),
            serial: format!("not-found-{}", at + 1),
            model: String::new(),
            path: "nowhere: the salvage did not find it".into(),
            media: Media::Unknown,
            usage: Usage::Auto,
            place: None,
            // A reserved area of 1/256, and room for rounding.
            disk_bytes: ((units + 2) * UNIT_BYTES * 256 / 255 + (8 << 20))
                .max(SMALLEST_DISK_BYTES)
                .next_multiple_of(4096),
            state: DiskState::Missing,
            voting: false,
            holds: Position::default(),
        };
        self.units.iter().enumerate().map(record).map(Change::Disk).collect()
    }

    fn place(&mut self, units: u32) -> SlabPlace {
        let unit = self.used[self.next];
        self.used[self.next] += units;
        let place = SlabPlace::new(self.first + self.next as u16, unit);
        self.next += 1;
        place
    }

    fn next_row(&mut self) {
        self.next = 0;
    }
}

fn id_of(seed: u64, at: usize) -> Uuid {
    draw_uuid(seed, at as u64 + (1 << 20))
}
