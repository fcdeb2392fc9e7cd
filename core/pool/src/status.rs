//! How a pool and its disks are.

use std::collections::BTreeSet;

use holdfast_model::{Condition, DiskDetail, DiskState, Health, Name, ObjectRef, PoolState, Reason, Shape, Usage};

use crate::allot::allot;
use crate::area::{Area, UNIT_BYTES};
use crate::config::{Config, SpaceRows};
use crate::frame::Position;
use crate::geometry::slab_units;
use crate::judgement::{DiskCounts, Judgement, judge};
use crate::pool::Pool;
use crate::record::{DiskRecord, SpaceRecord};
use crate::room::check_room;
use crate::state::State;

/// How a pool is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    /// Whether it can be read and changed.
    pub state: PoolState,
    /// How urgent that is.
    pub health: Health,
    /// Why, and what to do.
    pub conditions: Vec<Condition>,
    /// Bytes that slabs may take, over all disks.
    pub data_bytes: u64,
    /// Of these, bytes that are free.
    pub free_bytes: u64,
    /// The last change.
    pub position: Position,
    /// Whether the pool was closed in good order before it was imported.
    pub was_closed: bool,
}

/// Spaces that have not all their rows yet and for which another one finds no room now, be it on the disks or in the
/// pool's map.
fn without_room(state: &mut State) -> Vec<u32> {
    // Many spaces have rows of one kind.
    let mut known: Vec<((Shape, u32, bool), bool)> = Vec::new();
    let growing = |space: &&SpaceRows| (space.data_row_count() as u64) < u64::from(space.record.chunks());
    let records: Vec<SpaceRecord> =
        state.config.spaces.values().filter(growing).map(|space| space.record.clone()).collect();
    let mut lacks_room = |record: &SpaceRecord| {
        let kind = (record.shape, slab_units(&record.shape, record.chunk_bytes), record.enclosure_aware);
        let fits = known.iter().find(|(other, _)| *other == kind).map(|(_, fits)| *fits).unwrap_or_else(|| {
            let fits = check_room(state, 0, &[(1, record.shape)]).is_ok() && fits_a_row(&mut state.config, record);
            known.push((kind, fits));
            fits
        });
        !fits
    };
    records.iter().filter(|record| lacks_room(record)).map(|record| record.id).collect()
}

/// Whether the disks have room for another row of a space: its units are taken, and given back before anybody can look.
fn fits_a_row(config: &mut Config, record: &SpaceRecord) -> bool {
    let next_row = config.next_row;
    let row = allot(config, record);
    config.next_row = next_row;
    row.as_ref().into_iter().for_each(|row| config.release(row));
    row.is_ok()
}

/// What to say of a space that finds no room to grow into.
fn full(config: &Config, pool: &Name, space: u32) -> Option<Condition> {
    let record = &config.spaces.get(&space)?.record;
    let name = &record.name;
    let cause =
        format!("space {name} has no room to grow: writes that need a new slab are refused, everything else goes on");
    let condition = Condition::new(cause, "add disks with 'holdfast pool add', or discard what is not needed");
    Some(condition.because(Reason::NoRoom).about(ObjectRef::space(record.uuid, format!("{pool}/{name}"))))
}

/// How a disk of a pool is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskStatus {
    /// What the pool remembers of it.
    pub record: DiskRecord,
    /// How urgently it wants its owner.
    pub health: Health,
    /// Why, and what to do.
    pub conditions: Vec<Condition>,
    /// Bytes that slabs may take.
    pub data_bytes: u64,
    /// Of these, bytes that are free.
    pub free_bytes: u64,
    /// What the health comes from.
    pub details: Vec<DiskDetail>,
    /// What it did since the import.
    pub counts: DiskCounts,
}

impl Pool {
    /// How it is now.
    pub fn status(&self) -> PoolStatus {
        let (disks, next_action) = (self.disks(), self.next_action());
        let mut state = self.state();
        let position = *self.position.lock().expect("no panic while held");
        let of_disk = |disk: &DiskStatus| {
            let object = disk.record.object();
            disk.conditions.clone().into_iter().map(move |condition| condition.about(object.clone()))
        };
        let mut conditions: Vec<Condition> = disks.iter().flat_map(of_disk).collect();
        let out = disks.iter().filter(|disk| disk.record.state != DiskState::Online).count();
        let refusal = self.refusal();
        let (pool_state, health) = match (&refusal, out) {
            (Some(_), _) => (PoolState::ReadOnly, Health::Unhealthy),
            (None, 0) => (PoolState::Ok, Health::Healthy),
            (None, _) => (PoolState::Degraded, Health::Warning),
        };
        if let Some(why) = refusal {
            conditions.insert(0, Condition::new(why, next_action).because(Reason::ReadOnly));
        }
        let without_room = without_room(&mut state);
        let full: Vec<Condition> =
            without_room.into_iter().filter_map(|space| full(&state.config, self.name(), space)).collect();
        let warned = !full.is_empty() || disks.iter().any(|disk| disk.health != Health::Healthy);
        conditions.extend(full);
        let free_units: u64 = state.config.free.values().map(|free| u64::from(free.free())).sum();
        PoolStatus {
            state: pool_state,
            health: if warned { health.max(Health::Warning) } else { health },
            conditions,
            data_bytes: disks.iter().map(|disk| disk.data_bytes).sum(),
            free_bytes: free_units * UNIT_BYTES,
            position,
            was_closed: self.was_closed(),
        }
    }

    /// Whether a space has not all its rows yet and another one finds no room now: what needs one is refused.
    pub fn has_no_room_for_row(&self, space: u32) -> bool {
        let mut state = self.state();
        let Some(known) = state.config.spaces.get(&space) else { return false };
        let record = known.record.clone();
        (known.data_row_count() as u64) < u64::from(record.chunks())
            && !(check_room(&state, 0, &[(1, record.shape)]).is_ok() && fits_a_row(&mut state.config, &record))
    }

    /// How its disks are now. One that is out of service is missing, also before that is committed and where too few
    /// disks are left to commit it.
    pub fn disks(&self) -> Vec<DiskStatus> {
        let state = self.state();
        let status = |record: &DiskRecord| {
            let disk = state.disks.get(&record.index);
            let mut record = record.clone();
            if record.state == DiskState::Online && disk.is_some_and(|disk| !disk.in_service()) {
                record.state = DiskState::Missing;
            }
            let counts = disk.map_or_else(DiskCounts::default, |disk| (&disk.counters).into());
            let units = Area::of_disk("", record.disk_bytes).map_or(0, |area| area.units());
            let Judgement { health, mut details, conditions } =
                judge(&record, &counts, state.judgements.get(&record.index), &|| slabs_on(&state.config, record.index));
            if record.usage == Usage::Retired {
                details.push(DiskDetail::Retired);
            }
            DiskStatus {
                health,
                conditions,
                data_bytes: u64::from(units) * UNIT_BYTES,
                free_bytes: state.config.free.get(&record.index).map_or(0, |free| u64::from(free.free())) * UNIT_BYTES,
                details,
                counts,
                record,
            }
        };
        state.config.disks.values().map(status).collect()
    }

    /// Takes over what somebody thinks who watches a disk.
    pub fn set_judgement(&self, index: u16, judgement: Judgement) {
        let mut state = self.state();
        match judgement.health {
            Health::Unhealthy => state.config.avoided.insert(index),
            _ => state.config.avoided.remove(&index),
        };
        state.judgements.insert(index, judgement);
    }

    /// The disks in service that have stale slabs.
    pub fn stale_disks(&self) -> BTreeSet<u16> {
        let state = self.state();
        let slabs = state.config.spaces.values().flat_map(|space| space.rows.values()).flat_map(|row| &row.slabs);
        let online = |disk: &u16| state.config.disks.get(disk).is_some_and(|record| record.state == DiskState::Online);
        slabs.filter(|slab| slab.stale()).map(|slab| slab.disk()).filter(online).collect()
    }
}

/// Slabs that a disk holds.
fn slabs_on(config: &Config, disk: u16) -> usize {
    let rows = config.spaces.values().flat_map(|space| space.rows.values());
    rows.map(|row| row.slabs.iter().filter(|slab| slab.disk() == disk).count()).sum()
}
