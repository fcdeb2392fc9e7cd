//! Whether a configuration keeps its invariants. Simulations ask after every step; a damaged log never gets that far,
//! as [`Config::apply`] refuses it.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::DiskState;

use crate::area::Area;
use crate::config::{Config, row_bytes};
use crate::frame::Position;
use crate::pool::Pool;
use crate::record::{DiskRecord, RowRecord};

impl Config {
    /// Holds everything against everything else.
    ///
    /// # Errors
    /// What does not fit together.
    pub fn check(&self) -> Result<(), String> {
        self.check_disks()?;
        let mut names = BTreeSet::new();
        let mut units: Vec<(u16, u32, u32)> = Vec::new();
        let (mut rows, mut bytes) = (BTreeSet::new(), 0);
        for (id, space) in &self.spaces {
            let name = &space.record.name;
            hold(*id == space.record.id && *id < self.next_space, || format!("space {name} has the number {id}"))?;
            hold(names.insert(name), || format!("two spaces are called {name}"))?;
            for (chunk, row) in &space.rows {
                let of = || format!("row {} of chunk {chunk} of space {name}: {row:?}", row.id);
                hold(row.id < self.next_row && rows.insert(row.id), || format!("the id is used twice: {}", of()))?;
                self.check_row(row).map_err(|why| format!("{why}: {}", of()))?;
                units.extend(row.slabs.iter().map(|slab| (slab.disk(), slab.unit(), row.slab_units)));
                bytes += row_bytes(&row.shape);
            }
        }
        hold(bytes == self.row_bytes, || format!("rows have {bytes} bytes and {} are counted", self.row_bytes))?;
        let documents: u64 = self.documents.iter().map(|(key, content)| Self::document_bytes(key, content.len())).sum();
        hold(documents == self.documents_bytes(), || {
            format!("documents have {documents} bytes and others are counted")
        })?;
        units.sort_unstable();
        let overlap = units.windows(2).find(|pair| pair[0].0 == pair[1].0 && pair[0].1 + pair[0].2 > pair[1].1);
        hold(overlap.is_none(), || format!("two slabs share a unit: {overlap:?}"))
    }

    fn check_disks(&self) -> Result<(), String> {
        hold(self.free.keys().eq(self.disks.keys()), || "free units are not those of the disks".into())?;
        let mut ids = BTreeSet::new();
        for (index, disk) in &self.disks {
            let of = || format!("disk {index}: {disk:?}");
            hold(*index == disk.index && *index < self.next_disk && ids.insert(disk.id), || {
                format!("its number: {}", of())
            })?;
            let holds_nothing = disk.holds == Position::default();
            hold(disk.state != DiskState::Online || holds_nothing, || format!("in service, and out: {}", of()))?;
            let area = Area::of_disk("", disk.disk_bytes).map_err(|error| error.context)?;
            hold(self.free[index].is_sound(area.units()), || format!("its free units: {:?}", self.free[index]))?;
        }
        Ok(())
    }

    fn check_row(&self, row: &RowRecord) -> Result<(), String> {
        let disks: BTreeSet<u16> = row.slabs.iter().map(|slab| slab.disk()).collect();
        hold(disks.len() == row.shape.width() && disks.len() == row.slabs.len(), || "not a disk for each slab".into())?;
        for (index, slab) in row.slabs.iter().enumerate() {
            let free = self.free.get(&slab.disk()).ok_or("a slab on no disk")?;
            hold(free.is_taken(slab.unit(), row.slab_units), || format!("units of slab {index} are free"))?;
            hold(slab.stale() || !slab.outdated(), || format!("slab {index} is outdated, and in step"))?;
            let in_step = row.shape.group(index).filter(|other| !row.slabs[*other].stale()).count();
            hold(in_step >= row.shape.needed(), || format!("too few slabs beside slab {index} are in step"))?;
        }
        Ok(())
    }
}

impl Pool {
    /// Whether its configuration keeps its invariants, and its disks are those of the configuration.
    ///
    /// # Errors
    /// What does not fit together.
    pub fn check(&self) -> Result<(), String> {
        let state = self.state();
        state.config.check()?;
        // A disk that was just added is in use before the record that says so.
        let unknown = state.config.disks.keys().find(|index| !state.disks.contains_key(index));
        hold(unknown.is_none(), || format!("disk {unknown:?} is in the configuration alone"))
    }
}

impl Pool {
    /// Whether every unit that no row has is free. That holds where nothing is under way: rows that are being moved,
    /// and requests to places that rows left, keep units besides.
    ///
    /// # Errors
    /// The disks, and how many units of each are taken by nothing.
    pub fn check_units(&self) -> Result<(), String> {
        let state = self.state();
        let mut taken: BTreeMap<u16, u64> = BTreeMap::new();
        for row in state.config.spaces.values().flat_map(|space| space.rows.values()) {
            for slab in &row.slabs {
                *taken.entry(slab.disk()).or_default() += u64::from(row.slab_units);
            }
        }
        let leaked = |(index, disk): (&u16, &DiskRecord)| {
            let units = Area::of_disk("", disk.disk_bytes).map_or(0, |area| u64::from(area.units()));
            let free = state.config.free.get(index).map_or(0, |free| u64::from(free.free()));
            let used = taken.get(index).copied().unwrap_or(0);
            (free + used != units)
                .then(|| format!("disk {index}: {} of {units} units", i128::from(units) - i128::from(free + used)))
        };
        let leaked: Vec<String> = state.config.disks.iter().filter_map(leaked).collect();
        hold(leaked.is_empty(), || format!("taken by no row: {}", leaked.join(", ")))
    }
}

fn hold(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}
