//! How a pool and its disks are.

use std::collections::BTreeMap;

use holdfast_model::{ByteSize, Condition, DiskState, Health, PoolState};

use crate::allot::slab_units;
use crate::area::{Area, UNIT_BYTES};
use crate::config::{Config, DiskRecord};
use crate::frame::Position;
use crate::pool::Pool;

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

/// Thin spaces that are not written to everywhere yet and for which there is no room for another row.
fn full(config: &Config) -> Vec<Condition> {
    let mut conditions = Vec::new();
    let takes = |disk: &u16| config.disks.get(disk).is_some_and(|disk| disk.usage.takes_slabs());
    // Many spaces have slabs of one size.
    let mut fitting: BTreeMap<u32, usize> = BTreeMap::new();
    for space in config.spaces.values() {
        let record = &space.record;
        if space.data_row_count() as u64 >= u64::from(record.chunks()) {
            continue;
        }
        let slab_units = slab_units(&record.shape, record.chunk_bytes);
        let count = || config.free.iter().filter(|(disk, free)| takes(disk) && free.fits(slab_units)).count();
        if *fitting.entry(slab_units).or_insert_with(count) < record.shape.width() {
            let cause =
                format!("space {} finds no room to grow into: what needs new room is refused, all else goes on", record.name);
            conditions.push(Condition::new(cause, "add disks with 'holdfast pool add', or discard what is not needed"));
        }
    }
    conditions
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
    /// Failed reads and writes since the import.
    pub errors: u64,
    /// Bad ranges rewritten from another copy since the import.
    pub repaired: u64,
}

impl Pool {
    /// How it is now.
    pub fn status(&self) -> PoolStatus {
        let (disks, way_out) = (self.disks(), self.way_out());
        let state = self.state();
        let position = *self.position.lock().expect("no panic while held");
        let mut conditions: Vec<Condition> = disks.iter().flat_map(|disk| disk.conditions.clone()).collect();
        let out = disks.iter().filter(|disk| disk.record.state != DiskState::Online).count();
        let refusal = self.refusal();
        let (pool_state, health) = match (&refusal, out) {
            (Some(_), _) => (PoolState::ReadOnly, Health::Unhealthy),
            (None, 0) => (PoolState::Ok, Health::Healthy),
            (None, _) => (PoolState::Degraded, Health::Warning),
        };
        if let Some(why) = refusal {
            conditions.insert(0, Condition::new(why, way_out));
        }
        let full = full(&state.config);
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

    /// How its disks are now.
    pub fn disks(&self) -> Vec<DiskStatus> {
        use std::sync::atomic::Ordering::Relaxed;
        let state = self.state();
        let status = |record: &DiskRecord| {
            let counters = state.disks.get(&record.index).map(|disk| &disk.counters);
            let read = |pick: fn(&crate::DiskCounters) -> &std::sync::atomic::AtomicU64| {
                counters.map_or(0, |counters| pick(counters).load(Relaxed))
            };
            let errors = read(|counters| &counters.read_errors) + read(|counters| &counters.write_errors);
            let units = Area::of_disk("", record.disk_bytes).map_or(0, |area| area.units());
            let (health, conditions) = judge(record, errors);
            DiskStatus {
                record: record.clone(),
                health,
                conditions,
                data_bytes: u64::from(units) * UNIT_BYTES,
                free_bytes: state.config.free.get(&record.index).map_or(0, |free| u64::from(free.free())) * UNIT_BYTES,
                errors,
                repaired: read(|counters| &counters.repaired),
            }
        };
        state.config.disks.values().map(status).collect()
    }
}

fn judge(record: &DiskRecord, errors: u64) -> (Health, Vec<Condition>) {
    let name = record.label();
    let size = ByteSize(record.disk_bytes);
    match record.state {
        DiskState::Missing => {
            let cause = format!("disk {name} ({size}) is missing, last seen at {}", record.path);
            (Health::Unhealthy, vec![Condition::new(cause, "attach it again or replace it")])
        }
        DiskState::Failed => {
            let cause = format!("disk {name} ({size}) at {} failed", record.path);
            (Health::Unhealthy, vec![Condition::new(cause, "replace it, or check cable and power and attach it again")])
        }
        DiskState::Online if errors > 0 => {
            let cause = format!("disk {name} at {} answered {errors} requests with errors", record.path);
            (Health::Warning, vec![Condition::new(cause, "watch it; replace it if errors go on")])
        }
        DiskState::Online => (Health::Healthy, Vec::new()),
    }
}

impl DiskRecord {
    /// How people call the disk: its serial, or else its path.
    pub fn label(&self) -> &str {
        if self.serial.is_empty() { &self.path } else { &self.serial }
    }
}
