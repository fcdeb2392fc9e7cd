//! A volume under simulated disks. Here: trees under random transactions, lookups, checkpoints and power cuts. What is
//! found after a cut is what some transaction left, none before the last that was synced, and a scan finds nothing.

mod beside;
mod cached;
mod callers;
mod clones;
mod damage;
mod descriptors;
mod destroyed;
mod disks;
mod files;
mod full;
mod histories;
mod hostile;
mod journal;
mod model;
mod nt_names;
mod owners;
mod plain;
mod quotas;
mod reasons;
mod resize;
mod rounds;
mod scanned;
mod sizes;
mod snapshots;
mod streams;
mod strict;
mod thin;
mod together;
mod trimmed;
mod twins;
mod watch;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use holdfast_device::Device;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_model::Uuid;
use holdfast_volume::{ErrorKind, Format, SHARED_TREES, Settings, Store, Transaction, Verb};

/// The tree and key that tell how many transactions there were.
const COUNTER: (u8, &[u8]) = (SHARED_TREES + 7, b"counter");

type Entries = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

/// Every state that the trees may be found in, from the last one that is sure to last.
struct Model {
    states: BTreeMap<u64, Entries>,
    applied: u64,
    synced: u64,
}

impl Model {
    fn now(&self) -> &Entries {
        &self.states[&self.applied]
    }
}

struct World {
    sim: Sim,
    disk: Arc<SimDisk>,
    random: SimRandom,
    settings: Settings,
}

impl World {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let random = sim.random();
        let spec = SimDiskSpec { size_bytes: 32 << 20, garbage: random.chance(1, 2), ..SimDiskSpec::default() };
        let disk = SimDisk::new(&sim, spec);
        let settings = Settings {
            cache_bytes: [0, 256 << 10, 64 << 20][random.range(0..3usize)],
            changed_bytes: [1 << 20, 64 << 20][random.range(0..2usize)],
            ..Settings::default()
        };
        Self { sim, disk, random, settings }
    }

    fn device(&self) -> Arc<dyn Device> {
        self.disk.clone()
    }

    fn format(&self) {
        let device = self.device();
        let format = Format { volume: Uuid::from_u128(self.random.next_u64().into()), log_bytes: None };
        self.sim.run(async move { Store::format(&device, format).await }).expect("powered").expect("formatted");
    }
}

/// A transaction, and what it makes of the entries.
fn draw(random: &SimRandom, entries: &mut Entries, number: u64, keys: u64) -> Transaction {
    let mut transaction = Transaction::new();
    for _ in 0..random.range(1..6u32) {
        let tree = [0, 1, 31, SHARED_TREES + 3][random.range(0..4usize)];
        let mut key = random.range(0..keys).to_be_bytes().to_vec();
        if random.chance(1, 4) {
            key.resize(random.range(8..300usize), b'k');
        }
        if random.chance(2, 3) {
            let len = if random.chance(1, 20) { 4096 } else { random.range(0..600usize) };
            let mut value = vec![0; len];
            random.fill(&mut value);
            transaction.put(tree, &key, &value);
            entries.insert((tree, key), value);
        } else {
            transaction.remove(tree, &key);
            entries.remove(&(tree, key));
        }
    }
    transaction.put(COUNTER.0, COUNTER.1, &number.to_le_bytes());
    entries.insert((COUNTER.0, COUNTER.1.to_vec()), number.to_le_bytes().to_vec());
    transaction
}

async fn all(store: &Store) -> Entries {
    let mut found = Entries::new();
    for tree in (0..holdfast_volume::TREES).filter(|tree| *tree != SHARED_TREES) {
        for (key, value) in store.range(tree, b"", usize::MAX).await.expect("every node can be read") {
            found.insert((tree, key), value);
        }
    }
    found
}

/// Opens the store and compares it with the model: it is in a state that is possible, which alone counts from then on.
async fn open(device: Arc<dyn Device>, settings: Settings, model: &mut Model) -> Store {
    let store = Store::open(device, settings).await.expect("what was not cut short opens");
    let found = all(&store).await;
    let counter = found.get(&(COUNTER.0, COUNTER.1.to_vec()));
    let number = counter.map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().expect("eight bytes")));
    assert!(number >= model.synced, "transaction {} was durable, and {number} is found", model.synced);
    let expected = model.states.get(&number).expect("a transaction that was asked for");
    assert!(found == *expected, "not what transaction {number} left");
    assert_eq!(store.scan().await, Ok(Vec::new()));
    (model.applied, model.synced) = (number, number);
    let state = expected.clone();
    model.states = BTreeMap::from([(number, state)]);
    store
}

async fn live(store: &Store, random: &SimRandom, model: &std::cell::RefCell<Model>) {
    let keys = if random.chance(1, 2) { 100 } else { 5000 };
    for _ in 0..random.range(1..400u32) {
        match random.range(0..100u32) {
            0..80 => {
                let (mut entries, number) = {
                    let model = model.borrow();
                    (model.now().clone(), model.applied + 1)
                };
                let transaction = draw(random, &mut entries, number, keys);
                {
                    let mut model = model.borrow_mut();
                    let synced = model.synced;
                    model.states.insert(number, entries);
                    model.states.retain(|state, _| *state >= synced);
                }
                store.apply(&transaction).await.expect("there is room");
                model.borrow_mut().applied = number;
            }
            80..92 => {
                let number = model.borrow().applied;
                // The store counts what it does by itself, too.
                store.sync(store.last()).await.expect("it lasts");
                model.borrow_mut().synced = number;
            }
            92..95 => {
                let number = model.borrow().applied;
                store.checkpoint().await.expect("it lasts");
                model.borrow_mut().synced = number;
            }
            _ => {
                let model = model.borrow().now().clone();
                let tree = [0, 1, 31, SHARED_TREES + 3][random.range(0..4usize)];
                let key = random.range(0..keys).to_be_bytes().to_vec();
                let found = store.get(tree, &key).await.expect("it can be read");
                assert_eq!(found.as_ref(), model.get(&(tree, key.clone())));
                let most = random.range(1..20usize);
                let found = store.range(tree, &key, most).await.expect("it can be read");
                let range = model.range((tree, key)..).take_while(|((other, _), _)| *other == tree).take(most);
                let expected: Vec<_> = range.map(|((_, key), value)| (key.clone(), value.clone())).collect();
                assert_eq!(found, expected);
            }
        }
    }
}

fn run(seed: u64) {
    let world = World::new(seed);
    world.format();
    let start = Model { states: BTreeMap::from([(0, Entries::new())]), applied: 0, synced: 0 };
    let model = Rc::new(std::cell::RefCell::new(start));
    let opened = Rc::new(std::cell::Cell::new(false));
    for _ in 0..5 {
        // What the newest root had is in the one before and in the log, as soon as an opening wrote both.
        if opened.take() && world.random.chance(1, 3) {
            damage::lose_newest_root(&world.disk);
        }
        if world.random.chance(3, 4) {
            let most = if world.random.chance(1, 3) { 20 } else { 600 };
            world.sim.cut_power_after(world.random.range(0..most));
        }
        let (device, settings, random, model) = (world.device(), world.settings, world.sim.random(), model.clone());
        let opened = opened.clone();
        // A cut is as good an end as any.
        let _ = world.sim.run(async move {
            let mut recovered = Model { states: model.borrow().states.clone(), ..*model.borrow() };
            let store = open(device, settings, &mut recovered).await;
            opened.set(true);
            *model.borrow_mut() = recovered;
            live(&store, &random, &model).await;
        });
        world.sim.restart();
    }
    let (device, settings) = (world.device(), world.settings);
    world
        .sim
        .run(async move {
            let mut last = Rc::try_unwrap(model).ok().expect("nobody else has it").into_inner();
            open(device, settings, &mut last).await;
        })
        .expect("powered");
}

#[test]
fn what_a_crash_leaves_is_what_a_transaction_left() {
    holdfast_harness::over_seeds(400, run);
}

#[test]
fn a_full_volume_can_be_emptied() {
    let world = World::new(4);
    world.format();
    let (device, settings) = (world.device(), world.settings);
    let emptied = async move {
        let store = Store::open(device, settings).await.expect("it opens");
        let (mut written, value) = (0u64, vec![7; 4000]);
        let full = loop {
            let mut transaction = Transaction::new();
            transaction.put(0, &written.to_be_bytes(), &value);
            match store.apply(&transaction).await {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind, ErrorKind::NoSpace, "{full}");
        assert!(written > 1000, "{written} entries");
        for number in 0..written {
            let mut transaction = Transaction::new();
            transaction.remove(0, &number.to_be_bytes());
            store.apply(&transaction).await.expect("what gives room back needs none");
        }
        store.checkpoint().await.expect("it lasts");
        assert_eq!(store.scan().await, Ok(Vec::new()));
        let mut transaction = Transaction::new();
        transaction.put(0, b"again", &value);
        store.apply(&transaction).await.expect("there is room again");
    };
    world.sim.run(emptied).expect("powered");
}

#[test]
fn a_damaged_node_is_found_and_fails_only_what_is_below_it() {
    let world = World::new(6);
    world.format();
    let (device, disk) = (world.device(), world.disk.clone());
    let settings = Settings { cache_bytes: 0, ..Settings::default() };
    let damaged = async move {
        let store = Store::open(device.clone(), settings).await.expect("it opens");
        for number in 0..2000u64 {
            let mut transaction = Transaction::new();
            transaction.put(0, &number.to_be_bytes(), &[3; 200]).put(1, &number.to_be_bytes(), &[4; 200]);
            store.apply(&transaction).await.expect("there is room");
        }
        store.checkpoint().await.expect("it lasts");
        let place = store.place_of(0, &700u64.to_be_bytes()).await.expect("it can be read").expect("it is there");
        disk.corrupt(place..place + 4096);
        let found = store.scan().await.expect("it goes through");
        assert!(matches!(&found[..], [Verb::NodeLost { tree: 0, address, .. }] if *address == place), "{found:?}");
        drop(store);
        let store = Store::open(device, settings).await.expect("it opens all the same");
        let error = store.get(0, &700u64.to_be_bytes()).await.expect_err("its node is damaged");
        assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
        assert_eq!(store.get(0, &1u64.to_be_bytes()).await, Ok(Some(vec![3; 200])));
        assert_eq!(store.get(1, &700u64.to_be_bytes()).await, Ok(Some(vec![4; 200])));
    };
    world.sim.run(damaged).expect("powered");
}

#[test]
fn devices_without_a_volume_and_those_that_were_cut_are_refused() {
    let world = World::new(1);
    let device = world.device();
    let empty = world.sim.run(async move { Store::open(device, Settings::default()).await.err() });
    assert_eq!(empty.expect("powered").expect("no volume").kind, ErrorKind::Format);
    world.format();
    let small = SimDisk::new(&world.sim, SimDiskSpec { size_bytes: 16 << 20, ..SimDiskSpec::default() });
    small.poke(0, &world.disk.peek(0, 64 << 10));
    let cut = world.sim.run(async move { Store::open(small, Settings::default()).await.err() });
    let error = cut.expect("powered").expect("half of it is away");
    assert_eq!(error.kind, ErrorKind::Format, "{error}");
    // One of three superblocks is enough.
    world.disk.poke(0, &[0xff; 4096]);
    let device = world.device();
    let opened = world.sim.run(async move { Store::open(device, Settings::default()).await.err() });
    assert_eq!(opened.expect("powered"), None);
}

#[test]
fn a_failed_flush_ends_all_changes() {
    let world = World::new(2);
    world.format();
    let (device, disk, settings) = (world.device(), world.disk.clone(), world.settings);
    let failed = async move {
        let store = Store::open(device, settings).await.expect("it opens");
        let mut transaction = Transaction::new();
        transaction.put(0, b"a", b"b");
        store.apply(&transaction).await.expect("there is room");
        disk.fail_next_flushes(1);
        assert_eq!(store.checkpoint().await.expect_err("the flush failed").kind, ErrorKind::Io);
        assert_eq!(store.apply(&transaction).await.expect_err("it ended").kind, ErrorKind::ReadOnly);
        assert_eq!(store.get(0, b"a").await, Ok(Some(b"b".to_vec())), "reads go on");
    };
    world.sim.run(failed).expect("powered");
}
