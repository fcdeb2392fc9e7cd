//! A simulated machine: disks that stay, and a pool with a space on them that come and go with the power.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use holdfast_device::Io;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_model::{BLOCK_BYTES, Name, Uuid};
use holdfast_pool::slab::HEAD_BYTES;
use holdfast_pool::{Candidate, DiskInfo, Env, Event, EventSink, Pool, Severity, Witness, WitnessRecord, scan};
use holdfast_space::{SlabMap, Space, SpaceSettings};

/// Remembers like a file that is synced: what was answered survives.
#[derive(Default)]
pub struct TestWitness(Mutex<BTreeMap<Uuid, WitnessRecord>>);

impl Witness for TestWitness {
    fn load(&self, pool: Uuid) -> Option<WitnessRecord> {
        self.0.lock().expect("one thread").get(&pool).copied()
    }

    fn store(&self, pool: Uuid, record: WitnessRecord) -> Io<()> {
        self.0.lock().expect("one thread").insert(pool, record);
        Io::ready(Ok(()))
    }
}

/// Keeps events.
#[derive(Default)]
pub struct TestEvents(pub Mutex<Vec<Event>>);

impl EventSink for TestEvents {
    fn emit(&self, event: Event) {
        self.0.lock().expect("one thread").push(event);
    }
}

/// The machine.
pub struct World {
    pub sim: Sim,
    disks: RefCell<Vec<Arc<SimDisk>>>,
    pub witness: Arc<TestWitness>,
    /// What another machine knows, which had the pool once.
    known_elsewhere: RefCell<BTreeMap<Uuid, WitnessRecord>>,
    pub events: Arc<TestEvents>,
    seeds: RefCell<u64>,
}

impl World {
    /// A machine with these disks.
    pub fn new(sim: Sim, specs: Vec<SimDiskSpec>) -> Self {
        let disks = RefCell::new(specs.into_iter().map(|spec| SimDisk::new(&sim, spec)).collect());
        let seeds = RefCell::new(sim.seed());
        Self { sim, disks, witness: Arc::default(), known_elsewhere: RefCell::default(), events: Arc::default(), seeds }
    }

    /// What a pool is handed.
    pub fn env(&self) -> Env {
        let mut seeds = self.seeds.borrow_mut();
        *seeds = seeds.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Env { clock: self.sim.clock(), seed: *seeds, witness: self.witness.clone(), events: self.events.clone() }
    }

    /// Whether an event says so.
    pub fn was_told(&self, what: &str) -> bool {
        let events = self.events.0.lock().expect("one thread");
        events.iter().any(|event| event.severity != Severity::Info && event.cause.contains(what))
    }

    /// Another machine remembers what this one does now.
    pub fn note_machine(&self) {
        *self.known_elsewhere.borrow_mut() = self.witness.0.lock().expect("one thread").clone();
    }

    /// The disks are in another machine from here on: one that had the pool at some time, or one that never did.
    pub fn change_machine(&self, had_it: bool) {
        let known = if had_it { self.known_elsewhere.take() } else { BTreeMap::new() };
        *self.witness.0.lock().expect("one thread") = known;
    }

    /// One of its disks.
    pub fn disk(&self, index: usize) -> Arc<SimDisk> {
        self.disks.borrow()[index].clone()
    }

    /// All its disks.
    pub fn disks(&self) -> Vec<Arc<SimDisk>> {
        self.disks.borrow().clone()
    }

    /// Puts a new disk in, and tells its number.
    pub fn insert(&self, spec: SimDiskSpec) -> usize {
        let mut disks = self.disks.borrow_mut();
        disks.push(SimDisk::new(&self.sim, spec));
        disks.len() - 1
    }

    /// A disk as the prober finds it.
    pub fn candidate(&self, index: usize) -> Candidate {
        let disk = self.disk(index);
        let (serial, media) = (disk.spec().serial.clone(), disk.spec().media);
        let info = DiskInfo { path: format!("/sim/{index}"), serial, media, ..DiskInfo::default() };
        Candidate { device: disk.clone(), info }
    }

    /// All disks that are there, as the prober finds them.
    pub fn candidates(&self) -> Vec<Candidate> {
        let present = self.disks().into_iter().enumerate().filter(|(_, disk)| disk.is_present());
        present.map(|(index, _)| self.candidate(index)).collect()
    }

    /// A future that makes a pool of all disks.
    pub fn create(&self, name: &str) -> impl Future<Output = Arc<Pool>> + use<> {
        let (env, candidates, name) = (self.env(), self.candidates(), name.parse::<Name>().expect("a name"));
        async move { Pool::create(env, name, candidates).await.expect("blank disks make a pool") }
    }

    /// A future that imports the pool from the disks that are there.
    pub fn import(&self) -> impl Future<Output = Result<Arc<Pool>, String>> + use<> {
        let (env, candidates) = (self.env(), self.candidates());
        async move {
            let mut found = scan(candidates).await;
            let pool = found.pools.pop().ok_or_else(|| "no pool is found".to_string())?;
            Pool::import(env, pool, false).await.map_err(|error| error.to_string())
        }
    }

    /// Imports the pool from the disks that are there, and opens its first space.
    pub fn reopen(&self) -> (Arc<Pool>, Arc<Space>) {
        let import = self.import();
        let up = self.sim.run(async move {
            let pool = import.await.expect("enough disks are there");
            let space = Space::open(pool.clone(), pool.spaces()[0].id, SpaceSettings::default()).expect("it is there");
            (pool, space)
        });
        up.expect("no power cut is planned")
    }

    /// Compares all copies of all blocks that a space holds; nothing may be under way.
    pub async fn compare_copies(&self, space: &Space) {
        for row in space.map() {
            let shape = space.pool().row(space.record().id, row.chunk).expect("a row of the map").shape;
            if shape.layout.parity() > 0 {
                continue;
            }
            let copies = usize::from(shape.layout.copies());
            let written = space.written_blocks(row.chunk).await.expect("maps can be read");
            for (column, slabs) in row.slabs.chunks(copies).enumerate() {
                for (start, end) in &written[column] {
                    let (at, len) = (u64::from(*start) * BLOCK_BYTES, ((end - start) as u64 * BLOCK_BYTES) as usize);
                    let read = |slab: &SlabMap| {
                        let index: usize = slab.path.trim_start_matches("/sim/").parse().expect("a number");
                        self.disk(index).peek(slab.offset_bytes + HEAD_BYTES + at, len)
                    };
                    let first = read(&slabs[0]);
                    let alike = slabs[1..].iter().all(|slab| read(slab) == first);
                    assert!(alike, "copies of chunk {} column {column} differ", row.chunk);
                }
            }
        }
    }
}
