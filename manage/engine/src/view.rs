//! What the floors below know, as the API shows it.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_api::pool::PoolHealth;
use holdfast_api::{
    Condition, Disk, DiskErrors, DiskLatency, DiskReliability, LayoutKind, Pool, PoolAlert, PoolMember, PoolRoom,
    Protection, Slab, Space, SpaceCounters, SpaceJournal, SpaceRow, SpaceScrub,
};
use holdfast_model::{
    ByteSize, DiskDetail, DiskState, Health, Layout, PoolState, Reason, RetirePolicy, SpaceState, counted,
    natural_order,
};
use holdfast_pool::{
    DiskCounters, DiskStatus, Feature, LARGEST_DISK_BYTES, SMALLEST_DISK_BYTES, SlabPlace, UNIT_BYTES,
};
use holdfast_space::SpaceStatus;

use crate::disks::{Carries, Found};
use crate::engine::{Engine, OfflinePool, OpenPool};

/// Names as the API has them.
pub(crate) fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Names in a row that a message has of many at most.
const MOST_NAMED: usize = 5;

/// Names in a row; of many, how many there are besides.
pub(crate) fn row<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    let named = &names[..names.len().min(MOST_NAMED)];
    let more = match names.len() - named.len() {
        0 => String::new(),
        beyond => format!(" and {beyond} more"),
    };
    named.join(", ") + &more
}

/// A part in percent, to one decimal.
pub(crate) fn percent(part: u64, of: u64) -> f64 {
    (part as f64 * 1000.0 / of.max(1) as f64).round() / 10.0
}

impl Engine {
    /// A pool in service.
    pub(crate) fn pool_view(&self, open: &OpenPool) -> Pool {
        let (status, features) = (open.pool.status(), open.pool.features());
        let (used, alerts) = (open.pool.room_use(), self.alerts_of(open));
        let full = crate::alerts::condition(&open.name(), &alerts, &used);
        let health = if full.is_some() { status.health.max(Health::Warning) } else { status.health };
        let mut told = status.conditions;
        for disk in open.pool.disks() {
            if let Some(job) = self.jobs.replacing(disk.record.id) {
                let (own, object) = (disk.conditions.clone(), disk.record.object());
                told.retain(|condition| condition.about.as_ref().is_none_or(|about| !about.is(&object)));
                let replaced = crate::protection::replaced(&disk, &job, own);
                told.extend(replaced.into_iter().map(|condition| condition.about(object.clone())));
            }
        }
        let waiting = self.waiting_exports(open);
        let health = if waiting.is_empty() { health } else { health.max(Health::Warning) };
        told.extend(waiting.iter().map(|(known, other)| {
            let why = crate::kept::waiting(known, other);
            Condition::new(format!("export {} {}", known.name, why.cause), why.next_action)
        }));
        let waiting = self.waiting_targets(open);
        let health = if waiting.is_empty() { health } else { health.max(Health::Warning) };
        told.extend(waiting);
        let failed = failed_spaces(open);
        let health = if failed.is_some() { Health::Unhealthy } else { health };
        told.extend(failed);
        let member = |disk: DiskStatus| PoolMember {
            id: Some(disk.record.id),
            path: disk.record.path,
            serial: disk.record.serial,
            state: disk.record.state,
        };
        let mut disks: Vec<PoolMember> = open.pool.disks().into_iter().map(member).collect();
        disks.sort_by(|a, b| natural_order(&a.path, &b.path));
        let mut spaces: Vec<String> = open.pool.spaces().into_iter().map(|record| record.name.to_string()).collect();
        spaces.sort_by(|a, b| natural_order(a, b));
        Pool {
            name: open.name(),
            id: open.pool.id(),
            state: match status.state {
                PoolState::Ok => PoolHealth::Ok,
                PoolState::Degraded => PoolHealth::Degraded,
                PoolState::ReadOnly => PoolHealth::ReadOnly,
            },
            health,
            conditions: told.into_iter().chain(full).collect(),
            raw_bytes: status.data_bytes,
            free_bytes: status.free_bytes,
            generation: status.position.generation,
            sequence: status.position.sequence,
            disks,
            spaces,
            features: names(&features.names()),
            upgrade_available: names(&features.missing().into_iter().map(Feature::name).collect::<Vec<_>>()),
            room: crate::capacity::room(&used),
            usable: Vec::new(),
            alert: crate::alerts::shown(&alerts),
            retire_policy: open.pool.loss_policy().retire,
            grace_seconds: open.pool.loss_policy().grace_seconds,
            default_grace_seconds: self.default_grace_seconds(),
        }
    }

    /// The disks of a pool in service.
    pub(crate) fn member_views(&self, open: &OpenPool) -> Vec<Disk> {
        let (name, stale) = (open.name(), open.pool.stale_disks());
        let view = |status: &DiskStatus| {
            let mut disk = pool_disk(&name, status);
            disk.latency_histogram = open.pool.disk(status.record.index).map(|disk| latency_histogram(&disk.counters));
            if stale.contains(&status.record.index) {
                disk.details.push(DiskDetail::Stale);
            }
            if let Some(job) = self.jobs.replacing(status.record.id) {
                disk.details.push(DiskDetail::Removing);
                disk.conditions = crate::protection::replaced(status, &job, disk.conditions);
            }
            let answers = self.smart.lock().unwrap_or_else(PoisonError::into_inner);
            disk.smart = answers.get(&status.record.id).map(|answered| answered.smart.clone());
            drop(answers);
            if disk.details.is_empty() {
                disk.details.push(DiskDetail::Ok);
            }
            disk
        };
        open.pool.disks().iter().map(view).collect()
    }
}

/// What a pool is told of with whose spaces have rows that cannot be read: their data is not there, however many of its
/// disks are.
fn failed_spaces(open: &OpenPool) -> Option<Condition> {
    let spaces: Vec<_> = open.spaces().values().cloned().collect();
    let failed = spaces.iter().filter(|space| space.status().state == SpaceState::Failed);
    let mut failed: Vec<String> = failed.map(|space| format!("{}/{}", open.name(), space.record().name)).collect();
    failed.sort_by(|a, b| natural_order(a, b));
    let next = format!("'holdfast space show {}' says why, and what to do", failed.first()?);
    let count = counted(failed.len() as u64, "space has", "spaces have");
    let told = Condition::new(format!("{count} rows that cannot be read: {}", failed.join(", ")), next);
    Some(told.because(Reason::MissingSlabs))
}

/// A pool that could not be imported.
pub(crate) fn offline_pool(offline: &OfflinePool, default_grace_seconds: Option<u64>) -> Pool {
    let known = &offline.known;
    let there = |path: &str| if std::path::Path::new(path).exists() { DiskState::Online } else { DiskState::Missing };
    let disks = known.disks.iter().map(|disk| PoolMember {
        id: Some(disk.id),
        path: disk.path.clone(),
        serial: disk.serial.clone(),
        state: there(&disk.path),
    });
    Pool {
        name: known.name.clone(),
        id: known.id,
        state: PoolHealth::Offline,
        health: Health::Unhealthy,
        conditions: vec![Condition::new(
            format!("pool {} is not imported: {}", known.name, offline.reason.message),
            &offline.reason.next_action,
        )],
        raw_bytes: 0,
        free_bytes: 0,
        generation: 0,
        sequence: 0,
        disks: disks.collect(),
        spaces: Vec::new(),
        features: Vec::new(),
        upgrade_available: Vec::new(),
        room: PoolRoom::default(),
        usable: Vec::new(),
        alert: PoolAlert::default(),
        retire_policy: RetirePolicy::default(),
        grace_seconds: None,
        default_grace_seconds,
    }
}

/// A disk of a pool.
fn pool_disk(pool: &str, disk: &DiskStatus) -> Disk {
    let (record, counts) = (disk.record.clone(), disk.counts);
    Disk {
        id: Some(record.id),
        path: record.path,
        serial: record.serial,
        model: record.model,
        media: record.media,
        enclosure: record.place.as_ref().map(|place| place.enclosure.clone()),
        slot: record.place.as_ref().map(|place| place.slot),
        size_bytes: record.disk_bytes,
        usable_bytes: Some(disk.data_bytes),
        free_bytes: Some(disk.free_bytes),
        pool: Some(pool.into()),
        usage: Some(record.usage),
        state: record.state,
        health: disk.health,
        conditions: disk.conditions.clone(),
        can_pool: false,
        details: disk.details.clone(),
        errors: DiskErrors { failed: counts.errors(), checksum: counts.checksum_errors, repaired: counts.repaired },
        reliability: Some(DiskReliability {
            reads: counts.reads,
            read_bytes: counts.read_bytes,
            read_errors: counts.read_errors,
            writes: counts.writes,
            written_bytes: counts.written_bytes,
            write_errors: counts.write_errors,
            repaired: counts.repaired,
            latency_microseconds: counts.latency().map(|latency| latency.as_micros() as u64),
        }),
        latency_histogram: None,
        smart: None,
    }
}

/// How long requests took, up to the longest.
fn latency_histogram(counters: &DiskCounters) -> Vec<DiskLatency> {
    let (reads, writes) = (counters.read_latency.counts(), counters.write_latency.counts());
    let octaves = reads.octaves().zip(writes.octaves());
    let limit = |end: u64| (end != u64::MAX).then_some(end);
    let mut entries: Vec<DiskLatency> =
        octaves.map(|((end, reads), (_, writes))| DiskLatency { up_to_us: limit(end), reads, writes }).collect();
    let used = entries.iter().rposition(|entry| entry.reads + entry.writes > 0).map_or(0, |last| last + 1);
    entries.truncate(used);
    entries
}

/// A disk of no pool.
pub(crate) fn free_disk(found: Found) -> Disk {
    let path = found.info.path.clone();
    let condition = |cause: String, next_action: &str| Some(Condition::new(cause, next_action));
    let condition = match &found.carries {
        Carries::Nothing if found.size_bytes < SMALLEST_DISK_BYTES => condition(
            format!(
                "disk {path} has {}, and a pool takes disks of at least {}",
                ByteSize(found.size_bytes).beside(ByteSize(SMALLEST_DISK_BYTES)),
                ByteSize(SMALLEST_DISK_BYTES).beside(ByteSize(found.size_bytes))
            ),
            "use a larger one",
        ),
        Carries::Nothing if found.size_bytes > LARGEST_DISK_BYTES => condition(
            format!(
                "disk {path} has {}, and a pool takes disks of at most {}",
                ByteSize(found.size_bytes),
                ByteSize(LARGEST_DISK_BYTES)
            ),
            "use a smaller one, or a partition of it",
        ),
        Carries::Nothing => None,
        Carries::InUse(how) => {
            let told = condition(format!("disk {path} is in use: {how}"), "end that use before you add it to a pool");
            told.map(|told| told.because(Reason::InUse))
        }
        Carries::Pool(name, id) => condition(
            format!("disk {path} belongs to pool {name} ({id}), which is not imported"),
            "import that pool with 'holdfast pool import'",
        ),
        Carries::Former(pool) => condition(
            format!("disk {path} was removed from pool {pool} and still has its labels"),
            "wipe it, or add it to a pool with --force",
        ),
        Carries::Something(what) => {
            condition(format!("disk {path} holds {what}"), "see what that is before you use the disk for a pool")
        }
        Carries::Unknown(why) => {
            condition(format!("the content of disk {path} is unknown: {why}"), "remove the reason")
        }
    };
    Disk {
        id: None,
        path,
        serial: found.info.serial,
        model: found.info.model,
        media: found.info.media,
        enclosure: found.info.place.as_ref().map(|place| place.enclosure.clone()),
        slot: found.info.place.as_ref().map(|place| place.slot),
        size_bytes: found.size_bytes,
        usable_bytes: None,
        free_bytes: None,
        pool: None,
        usage: None,
        state: DiskState::Online,
        health: Health::Healthy,
        can_pool: condition.is_none(),
        conditions: condition.into_iter().collect(),
        details: vec![if found.size_bytes < SMALLEST_DISK_BYTES { DiskDetail::TooSmall } else { DiskDetail::Ok }],
        errors: DiskErrors::default(),
        reliability: None,
        latency_histogram: None,
        smart: None,
    }
}

/// Where the slabs of a space's journal lie.
pub(crate) fn journal_map(open: &OpenPool, space: u32) -> Vec<SpaceRow> {
    let paths: BTreeMap<u16, String> =
        open.pool.disks().into_iter().map(|disk| (disk.record.index, disk.record.path)).collect();
    let mut offset_bytes = 0;
    let rows = open.pool.journal_rows(space).into_iter().map(|(chunk, row)| {
        let copies = usize::from(row.shape.layout.copies());
        let slab = |(index, place): (usize, &SlabPlace)| {
            let disk = open.pool.disk(place.disk());
            Slab {
                column: (index / copies) as u16,
                copy: (index % copies) as u8,
                disk: disk.as_ref().map(|disk| disk.id).unwrap_or_default(),
                path: paths.get(&place.disk()).cloned().unwrap_or_default(),
                offset_bytes: disk.map_or(0, |disk| disk.area.unit_at(place.unit())),
                length_bytes: u64::from(row.slab_units) * UNIT_BYTES,
                stale: place.stale(),
            }
        };
        let length_bytes = row.slab_data_bytes() * u64::from(row.shape.columns);
        let slabs = row.slabs.iter().enumerate().map(slab).collect();
        let shown = SpaceRow { chunk: chunk.into(), journal: true, offset_bytes, length_bytes, slabs };
        offset_bytes += length_bytes;
        shown
    });
    rows.collect()
}

/// The API's word for a layout.
pub(crate) fn layout_kind(layout: Layout) -> LayoutKind {
    match layout {
        Layout::Simple => LayoutKind::Simple,
        Layout::Mirror { .. } => LayoutKind::Mirror,
        Layout::Parity { .. } => LayoutKind::Parity,
    }
}

/// A space, but for what its protection and its scrubs tell.
pub(crate) fn space(open: &OpenPool, space: &holdfast_space::Space, status: &SpaceStatus) -> Space {
    let record = space.record();
    let (journal_bytes, journal) = (open.pool.journal_bytes(record.id), space.journal_status());
    let counters = space.counters();
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Space {
        name: format!("{}/{}", open.name(), record.name),
        id: record.uuid,
        layout: layout_kind(record.shape.layout),
        copies: record.shape.layout.copies(),
        parity: record.shape.layout.parity(),
        columns: record.shape.columns,
        interleave_bytes: record.shape.interleave.bytes(),
        integrity: record.shape.integrity,
        provisioning: record.provisioning,
        size_bytes: record.size_bytes,
        chunk_bytes: record.chunk_bytes,
        enclosure_aware: record.enclosure_aware,
        allocated_bytes: status.allocated_bytes,
        raw_bytes: status.raw_bytes,
        journal: (journal_bytes > 0).then_some(SpaceJournal {
            size_bytes: journal_bytes,
            used_bytes: journal.map(|journal| journal.used_bytes),
            dirty_bytes: journal.map_or(0, |journal| journal.waiting_bytes),
        }),
        dirty_bytes: status.dirty_bytes,
        stale_slabs: status.stale_slabs,
        protection: Protection::default(),
        state: status.state,
        health: status.health,
        conditions: status.conditions.clone(),
        notes: Vec::new(),
        counters: SpaceCounters {
            reads: get(&counters.reads.requests),
            read_bytes: get(&counters.reads.bytes),
            writes: get(&counters.writes.requests),
            written_bytes: get(&counters.writes.bytes),
            discards: get(&counters.discards.requests),
            discarded_bytes: get(&counters.discards.bytes),
            errors: get(&counters.errors),
        },
        qos: open.services().get(&record.uuid).map(|service| service.qos()).unwrap_or_default(),
        scrub: SpaceScrub::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_some_are_named() {
        let names = |count: usize| (0..count).map(|number| format!("i{number}"));
        assert_eq!(row(names(2)), "i0, i1");
        assert_eq!(row(names(5)), "i0, i1, i2, i3, i4");
        assert_eq!(row(names(7)), "i0, i1, i2, i3, i4 and 2 more");
    }
}
