//! How a pool and its disks are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_model::{ByteSize, Condition, DiskDetail, DiskState, Health, PoolState, Usage};

use crate::allot::slab_units;
use crate::area::{Area, UNIT_BYTES};
use crate::config::{Config, DiskRecord};
use crate::disk::DiskCounters;
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
    /// What the health comes from.
    pub details: Vec<DiskDetail>,
    /// What it did since the import.
    pub counts: DiskCounts,
}

/// What a disk did since the pool was imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Reads.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Blocks that were not as their checksums say.
    pub checksum_errors: u64,
    /// Bad ranges rewritten from another copy.
    pub repaired: u64,
    /// Requests that were timed.
    pub timed: u64,
    /// How long these took together.
    pub timed_for: Duration,
}

impl DiskCounts {
    /// Reads and writes that failed, and blocks that were not as their checksums say.
    pub fn errors(&self) -> u64 {
        self.read_errors + self.write_errors + self.checksum_errors
    }

    /// How long a request took on average, where any was timed.
    pub fn latency(&self) -> Option<Duration> {
        (self.timed > 0).then(|| self.timed_for / self.timed.min(u64::from(u32::MAX)) as u32)
    }
}

impl From<&DiskCounters> for DiskCounts {
    fn from(counters: &DiskCounters) -> Self {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            reads: get(&counters.reads),
            read_bytes: get(&counters.read_bytes),
            read_errors: get(&counters.read_errors),
            writes: get(&counters.writes),
            written_bytes: get(&counters.written_bytes),
            write_errors: get(&counters.write_errors),
            checksum_errors: get(&counters.checksum_errors),
            repaired: get(&counters.repaired),
            timed: get(&counters.timed),
            timed_for: Duration::from_nanos(get(&counters.timed_nanos)),
        }
    }
}

/// What somebody who watches a disk in service thinks of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// How urgently it wants its owner; an unhealthy one gets a slab only where no other has room.
    pub health: Health,
    /// What that comes from.
    pub details: Vec<DiskDetail>,
    /// Why, and what to do.
    pub conditions: Vec<Condition>,
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
        let state = self.state();
        let status = |record: &DiskRecord| {
            let counts = state.disks.get(&record.index).map_or_else(DiskCounts::default, |disk| (&disk.counters).into());
            let units = Area::of_disk("", record.disk_bytes).map_or(0, |area| area.units());
            let Judgement { health, mut details, conditions } = judge(record, &counts, state.judgements.get(&record.index));
            if record.usage == Usage::Retired {
                details.push(DiskDetail::Retired);
            }
            DiskStatus {
                record: record.clone(),
                health,
                conditions,
                data_bytes: u64::from(units) * UNIT_BYTES,
                free_bytes: state.config.free.get(&record.index).map_or(0, |free| u64::from(free.free())) * UNIT_BYTES,
                details,
                counts,
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

fn judge(record: &DiskRecord, counts: &DiskCounts, judgement: Option<&Judgement>) -> Judgement {
    let name = record.label();
    let size = ByteSize(record.disk_bytes);
    let told = |health, detail, cause, next: &str| Judgement {
        health,
        details: vec![detail],
        conditions: vec![Condition::new(cause, next)],
    };
    match record.state {
        DiskState::Missing => {
            let cause = format!("disk {name} ({size}) is missing, last seen at {}", record.path);
            told(Health::Unhealthy, DiskDetail::LostCommunication, cause, "attach it again or replace it")
        }
        DiskState::Failed => {
            let cause = format!("disk {name} ({size}) at {} failed", record.path);
            let next = "replace it, or check cable and power and take it back with 'holdfast pool import'";
            told(Health::Unhealthy, DiskDetail::IoError, cause, next)
        }
        DiskState::Online => match judgement {
            Some(judgement) => judgement.clone(),
            None if counts.errors() > 0 => {
                let cause = format!("disk {name} at {} answered {} requests with errors", record.path, counts.errors());
                told(Health::Warning, DiskDetail::IoError, cause, "watch it; replace it if errors go on")
            }
            None => Judgement::default(),
        },
    }
}

impl DiskRecord {
    /// How people call the disk: its serial, or else its path.
    pub fn label(&self) -> &str {
        if self.serial.is_empty() { &self.path } else { &self.serial }
    }
}
