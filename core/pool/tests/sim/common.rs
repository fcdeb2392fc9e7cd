//! A laboratory of simulated disks, a witness in memory and a list of events, shared by all tests of pools.
//!
//! Invariant: everything in it follows from its seed, so that any failure is replayed by the seed that it prints.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_device::{Device, Io, IoError, IoErrorKind};
use holdfast_model::{ByteSize, Layout, Media, Name, Provisioning, Shape, Uuid};
use holdfast_pool::{
    Area, Candidate, DiskInfo, DiskRecord, Env, Event, EventSink, FoundPool, JOURNAL_CHUNK, Pool, PoolError, RowRecord,
    Scan, Severity, SpaceRecord, SpaceSpec, UNIT_BYTES, Witness, WitnessRecord, scan,
};

pub const MIB: u64 = 1 << 20;
pub const SMALL: u64 = 64 * MIB;

/// A witness that forgets nothing, and can be out of reach.
#[derive(Default)]
pub struct MemoryWitness {
    records: Mutex<BTreeMap<Uuid, WitnessRecord>>,
    unreachable: AtomicBool,
}

impl MemoryWitness {
    pub fn record(&self, pool: Uuid) -> Option<WitnessRecord> {
        self.records.lock().expect("no panic while held").get(&pool).copied()
    }

    pub fn set_reachable(&self, reachable: bool) {
        self.unreachable.store(!reachable, Ordering::Relaxed);
    }

    pub fn forget(&self, pool: Uuid) {
        self.records.lock().expect("no panic while held").remove(&pool);
    }

    pub fn remember(&self, pool: Uuid, record: WitnessRecord) {
        self.records.lock().expect("no panic while held").insert(pool, record);
    }
}

impl Witness for MemoryWitness {
    fn load(&self, pool: Uuid) -> Option<WitnessRecord> {
        if self.unreachable.load(Ordering::Relaxed) { None } else { self.record(pool) }
    }

    fn store(&self, pool: Uuid, record: WitnessRecord) -> Io<()> {
        if self.unreachable.load(Ordering::Relaxed) {
            return Io::ready(Err(IoError::new(IoErrorKind::Gone, "the witness")));
        }
        self.remember(pool, record);
        Io::ready(Ok(()))
    }
}

/// Keeps all events.
#[derive(Default)]
pub struct Events(Mutex<Vec<Event>>);

impl EventSink for Events {
    fn emit(&self, event: Event) {
        self.0.lock().expect("no panic while held").push(event);
    }
}

impl Events {
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().expect("no panic while held"))
    }
}

pub struct Lab {
    pub sim: Sim,
    pub disks: Vec<Arc<SimDisk>>,
    pub witness: Arc<MemoryWitness>,
    pub events: Arc<Events>,
    seeds: AtomicU64,
}

pub fn serial(disk: usize) -> String {
    format!("SERIAL{disk:03}")
}

pub fn path(disk: usize) -> String {
    format!("/dev/sim{disk}")
}

impl Lab {
    pub fn new(seed: u64, sizes: &[u64]) -> Self {
        let sim = Sim::new(seed);
        let mut lab = Self {
            sim,
            disks: Vec::new(),
            witness: Arc::default(),
            events: Arc::default(),
            seeds: AtomicU64::new(seed.wrapping_mul(1 << 20)),
        };
        sizes.iter().for_each(|size| {
            lab.add_disk(*size);
        });
        lab
    }

    /// `count` disks of the smallest size.
    pub fn small(seed: u64, count: usize) -> Self {
        Self::new(seed, &vec![SMALL; count])
    }

    pub fn add_disk(&mut self, size_bytes: u64) -> usize {
        let index = self.disks.len();
        let spec = SimDiskSpec { name: path(index), serial: serial(index), size_bytes, ..SimDiskSpec::default() };
        self.disks.push(SimDisk::new(&self.sim, spec));
        index
    }

    pub fn all(&self) -> Vec<usize> {
        (0..self.disks.len()).collect()
    }

    pub fn candidate(&self, disk: usize) -> Candidate {
        self.candidate_at(disk, &path(disk))
    }

    pub fn candidate_at(&self, disk: usize, path: &str) -> Candidate {
        let info = DiskInfo {
            path: path.into(),
            serial: serial(disk),
            model: "Simulated".into(),
            media: Media::Ssd,
            place: None,
        };
        Candidate { device: self.disks[disk].clone(), info }
    }

    pub fn candidates(&self, disks: &[usize]) -> Vec<Candidate> {
        disks.iter().map(|disk| self.candidate(*disk)).collect()
    }

    /// What the next import is handed; each has a seed of its own.
    pub fn env(&self) -> Env {
        Env {
            clock: self.sim.clock(),
            seed: self.seeds.fetch_add(1, Ordering::Relaxed),
            witness: self.witness.clone(),
            events: self.events.clone(),
        }
    }

    pub fn run<R: 'static>(&self, future: impl Future<Output = R> + 'static) -> R {
        self.sim.run(future).expect("the power stays on")
    }

    pub fn create(&self, name: &str, disks: &[usize]) -> Result<Arc<Pool>, PoolError> {
        self.run(Pool::create(self.env(), named(name), self.candidates(disks)))
    }

    pub fn created(&self, disks: &[usize]) -> Arc<Pool> {
        self.create("tank", disks).expect("a pool of good disks")
    }

    pub fn scan(&self, disks: &[usize]) -> Scan {
        self.run(scan(self.candidates(disks)))
    }

    /// The one pool on these disks.
    pub fn found(&self, disks: &[usize]) -> FoundPool {
        let mut scan = self.scan(disks);
        assert_eq!(scan.pools.len(), 1, "one pool on disks {disks:?}");
        scan.pools.remove(0)
    }

    pub fn import(&self, disks: &[usize]) -> Result<Arc<Pool>, PoolError> {
        let found = self.found(disks);
        self.run(Pool::import(self.env(), found, false))
    }

    pub fn imported(&self, disks: &[usize]) -> Arc<Pool> {
        self.import(disks).unwrap_or_else(|error| panic!("disks {disks:?}: {error}"))
    }

    pub fn force(&self, disks: &[usize]) -> Result<Arc<Pool>, PoolError> {
        let found = self.found(disks);
        self.run(Pool::import(self.env(), found, true))
    }

    /// A thin two-way mirror of one column.
    pub fn mirror(&self, pool: &Arc<Pool>, name: &str) -> SpaceRecord {
        self.space(pool, spec(name, mirror_of(2), 1, Provisioning::Thin, 64 * MIB)).expect("a mirror fits")
    }

    pub fn space(&self, pool: &Arc<Pool>, spec: SpaceSpec) -> Result<SpaceRecord, PoolError> {
        let pool = pool.clone();
        self.run(async move { pool.create_space(spec).await })
    }

    pub fn row(&self, pool: &Arc<Pool>, space: u32, chunk: u32) -> Result<RowRecord, PoolError> {
        let pool = pool.clone();
        self.run(async move { pool.allot_row(space, chunk).await })
    }

    /// Lets the daemon die: tasks end, the disks keep their power.
    pub fn kill(&self, pool: Arc<Pool>) {
        drop(pool);
        self.sim.kill();
        self.sim.run_until_idle();
    }
}

pub fn named(name: &str) -> Name {
    name.parse().expect("a good name")
}

pub fn mirror_of(copies: u8) -> Layout {
    Layout::Mirror { copies }
}

pub fn parity_of(parity: u8) -> Layout {
    Layout::Parity { parity }
}

pub fn spec(name: &str, layout: Layout, columns: u16, provisioning: Provisioning, size_bytes: u64) -> SpaceSpec {
    let shape = Shape::plain(layout, columns, ByteSize::kib(64));
    SpaceSpec { name: named(name), shape, provisioning, size_bytes, journal_bytes: None, enclosure_aware: false }
}

/// All that a pool remembers, but for where its disks were seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub name: Name,
    pub disks: Vec<DiskRecord>,
    pub spaces: Vec<(SpaceRecord, Vec<(u32, RowRecord)>)>,
}

pub fn snapshot(pool: &Pool) -> Snapshot {
    let disks = pool.disks().into_iter().map(|disk| DiskRecord { path: String::new(), ..disk.record }).collect();
    let spaces = pool.spaces().into_iter().map(|space| (space.clone(), all_rows(pool, space.id))).collect();
    Snapshot { name: pool.name().clone(), disks, spaces }
}

/// The rows of a space, those of its journal behind the others.
pub fn all_rows(pool: &Pool, space: u32) -> Vec<(u32, RowRecord)> {
    let mut rows = pool.rows(space);
    rows.extend(pool.journal_rows(space));
    rows
}

/// No unit in two rows, all within the disk, rows on distinct disks, of slabs that back each other enough in step, a
/// journal wherever there is parity, and free units what the rows leave.
pub fn check_allotment(pool: &Pool) {
    let mut runs: BTreeMap<u16, Vec<(u32, u32)>> = BTreeMap::new();
    for space in pool.spaces() {
        if space.complete {
            let journal = pool.journal_bytes(space.id);
            assert_eq!(journal > 0, space.shape.layout.parity() > 0, "{} has a journal of {journal}", space.name);
        }
        for (chunk, row) in all_rows(pool, space.id) {
            let lasting = chunk < space.chunks() || chunk >= JOURNAL_CHUNK;
            assert!(lasting, "row {chunk} of {} lies beyond its end", space.name);
            let disks: std::collections::BTreeSet<u16> = row.slabs.iter().map(|slab| slab.disk()).collect();
            assert_eq!(disks.len(), row.shape.width(), "a row has a disk twice: {row:?}");
            for slab in 0..row.slabs.len() {
                let in_step = row.shape.group(slab).filter(|slab| !row.slabs[*slab].stale()).count();
                assert!(in_step >= row.shape.needed(), "too few slabs are in step: {row:?}");
            }
            row.slabs.iter().for_each(|slab| runs.entry(slab.disk()).or_default().push((slab.unit(), row.slab_units)));
        }
    }
    for disk in pool.disks() {
        let area = Area::of_disk("", disk.record.disk_bytes).expect("a member's size");
        let mut runs = runs.remove(&disk.record.index).unwrap_or_default();
        runs.sort_unstable();
        for pair in runs.windows(2) {
            assert!(
                pair[0].0 + pair[0].1 <= pair[1].0,
                "disk {}: units of two slabs overlap: {pair:?}",
                disk.record.index
            );
        }
        assert!(runs.last().is_none_or(|(unit, len)| unit + len <= area.units()), "a slab beyond the end of the disk");
        let used: u64 = runs.iter().map(|(_, len)| u64::from(*len) * UNIT_BYTES).sum();
        assert_eq!(disk.free_bytes + used, disk.data_bytes, "disk {}: units were lost", disk.record.index);
    }
    assert!(runs.is_empty(), "slabs on unknown disks: {runs:?}");
}

/// Whether something was reported of an object that says `cause`.
pub fn reported(events: &[Event], object: &str, cause: &str) -> bool {
    events.iter().any(|event| event.object.to_string().contains(object) && event.cause.contains(cause))
}

pub fn at_least(events: &[Event], severity: Severity) -> Vec<&Event> {
    events.iter().filter(|event| event.severity >= severity).collect()
}

/// Where the metadata blocks of a disk are that are in use: labels, then the first `records` blocks of both copies of both log
/// halves.
pub fn metadata_blocks(disk: &SimDisk, records: u64) -> Vec<u64> {
    let area = Area::of_disk("", disk.geometry().size_bytes).expect("a member's size");
    let logs = area.log_heads().into_iter().flat_map(|head| (0..records).map(move |block| head + block * 4096));
    area.labels().into_iter().chain(logs).collect()
}
