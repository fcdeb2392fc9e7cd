//! What a parity store does at moments that no request can be timed for: while a lock is held, or a journal is missing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_device::{Durability, Io, IoBuf, IoErrorKind, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, Layout, Provisioning, Shape, Uuid};
use holdfast_pool::{Candidate, DiskInfo, Env, Event, EventSink, Pool, SpaceSpec, Witness, WitnessRecord};

use crate::lock_order::branch;
use crate::space::{Space, SpaceSettings};

use super::log_record::{Draft, Record};
use super::record::{Blocks, Entry};
use super::store::ParityStore;

/// The least that may be asked for.
const JOURNAL_BYTES: u64 = 32 << 20;

#[derive(Default)]
struct Memory(Mutex<BTreeMap<Uuid, WitnessRecord>>);

impl Witness for Memory {
    fn load(&self, pool: Uuid) -> Option<WitnessRecord> {
        self.0.lock().expect("one thread").get(&pool).copied()
    }

    fn store(&self, pool: Uuid, record: WitnessRecord) -> Io<()> {
        self.0.lock().expect("one thread").insert(pool, record);
        Io::ready(Ok(()))
    }
}

impl EventSink for Memory {
    fn emit(&self, _event: Event) {}
}

/// Runs a story on a space with single parity over three of some disks.
fn run<F: Future<Output = ()> + 'static>(disks: usize, story: impl FnOnce(Sim, Arc<Space>) -> F + 'static) {
    let sim = Sim::new(1);
    let spec = |index: usize| SimDiskSpec {
        name: format!("disk{index}"),
        serial: format!("S{index}"),
        size_bytes: 128 << 20,
        ..SimDiskSpec::default()
    };
    let candidate = |index| {
        let info = DiskInfo { path: format!("/sim/{index}"), serial: format!("S{index}"), ..DiskInfo::default() };
        Candidate { device: SimDisk::new(&sim, spec(index)), info }
    };
    let candidates: Vec<Candidate> = (0..disks).map(candidate).collect();
    let memory = Arc::new(Memory::default());
    let env = Env { clock: sim.clock(), seed: 1, witness: memory.clone(), events: memory };
    let world = sim.clone();
    let run = sim.run(branch(async move {
        let pool = Pool::create(env, "tank".parse().expect("a name"), candidates).await.expect("blank disks");
        let spec = SpaceSpec {
            name: "vol".parse().expect("a name"),
            shape: Shape::plain(Layout::Parity { parity: 1 }, 3, ByteSize::kib(64)),
            provisioning: Provisioning::Thin,
            size_bytes: 48 << 20,
            journal_bytes: None,
            enclosure_aware: false,
        };
        let record = pool.create_space(spec).await.expect("room is there");
        let space = Space::open(pool, record.id, SpaceSettings::default()).expect("just made");
        story(world, space).await;
    }));
    run.expect("no power cut is planned");
}

async fn write(space: &Space, offset: u64, byte: u8, blocks: usize) {
    let data = IoSlice::padded(&vec![byte; blocks * BLOCK_BYTES as usize]);
    space.write(offset, data, Durability::Cached).await.expect("room is there");
}

async fn byte_at(space: &Space, offset: u64) -> u8 {
    space.read(offset, IoBuf::new(BLOCK_BYTES as usize)).await.expect("it can be read")[0]
}

/// Destages and commits all that waits.
async fn settle(store: &ParityStore) {
    store.place_all().await.expect("the disks are there");
    store.commit_all().await.expect("the disks are there");
}

/// The journal goes while a flush waits for its turn to write there, and what it was to write is in place.
#[test]
fn a_flush_that_meets_the_end_of_a_journal_with_nothing_left_to_log_succeeds() {
    run(5, async |sim, space| {
        let store = &space.inner.parity;
        write(&space, 0, 1, 1).await;
        let logging = store.logging.lock().await;
        let flushing = space.clone();
        let flush = sim.spawn_handle(async move { flushing.flush().await });
        sim.clock().sleep(std::time::Duration::from_millis(1)).await;
        settle(store).await;
        store.journal.store(None);
        drop(logging);
        assert_eq!(flush.await, Ok(()));
        assert_eq!(byte_at(&space, 0).await, 1);
    });
}

/// Another journal took the place of one, and could not be opened.
#[test]
fn a_journal_that_is_missing_is_opened_by_the_next_request_and_under_no_locks() {
    run(5, async |_, space| {
        let store = &space.inner.parity;
        write(&space, 0, 1, 1).await;
        space.flush().await.expect("flushes");
        settle(store).await;
        assert_eq!(store.renew_journal(Some(JOURNAL_BYTES)).await, Ok(true));
        write(&space, BLOCK_BYTES, 2, 1).await;
        store.journal.store(None);
        let row = space.inner.rows.open_row(0).expect("it was written to");
        {
            let _turn = store.placing.lock().await;
            store.relieve().await.expect_err("the journal is not open");
        }
        {
            let _one = store.intending.lock().await;
            store.drain_for_intents().await.expect_err("the journal is not open");
        }
        {
            let _one = store.logging.lock().await;
            let blocks = Blocks { chunk: 0, row: row.record.id, stamp: 1, start: 0, len: 1 };
            let mut draft = Draft::default();
            draft.add(0, 0, Entry::Emptied(blocks), []);
            store.append_or_commit(draft, 2).await.expect_err("the journal is not open");
        }
        row.bands().lock().void_until(0, 1);
        store.commit_row(&row).await.expect_err("what does not count any more is said in the journal");
        space.flush().await.expect("a flush opens it");
        assert_eq!(store.journal().await.expect("it is open").size_bytes(), JOURNAL_BYTES);
        settle(store).await;
        assert_eq!((byte_at(&space, 0).await, byte_at(&space, BLOCK_BYTES).await), (1, 2));
    });
}

/// Others fill the log between the look whether there is room and the record.
#[test]
fn a_flush_whose_record_finds_no_room_puts_what_it_is_about_in_place() {
    run(5, async |sim, space| {
        let store = &space.inner.parity;
        write(&space, 0, 1, 1).await;
        let journal = store.journal().await.expect("it is open");
        let appending = journal.appending.lock().await;
        let flushing = space.clone();
        let flush = sim.spawn_handle(async move { flushing.flush().await });
        sim.clock().sleep(std::time::Duration::from_millis(1)).await;
        let held = {
            let mut log = journal.lock();
            let held = Arc::new(Record::new(log.head, appending.sequence, appending.previous, Vec::new()));
            log.head = log.tail + journal.capacity();
            log.records.push_back(held.clone());
            held
        };
        drop(appending);
        assert_eq!(flush.await, Ok(()));
        let row = space.inner.rows.open_row(0).expect("it was written to");
        assert!(row.is_durable(), "it is in place, and the maps tell of it");
        drop(held);
        assert_eq!(byte_at(&space, 0).await, 1);
    });
}

/// A flush of two rows: of one, too many disks are away, and more waits than fits a record.
#[test]
fn a_row_that_cannot_be_destaged_keeps_no_other_from_the_journal() {
    run(10, async |_, space| {
        let (inner, pool) = (&space.inner, space.pool());
        let (id, chunk_bytes) = (space.record().id, space.record().chunk_bytes);
        let chunks = (48 << 20) / chunk_bytes;
        for chunk in 0..chunks {
            write(&space, chunk * chunk_bytes, 1, 1).await;
        }
        space.flush().await.expect("flushes");
        settle(&inner.parity).await;
        let disks = |row: &holdfast_pool::RowRecord| row.slabs.iter().map(|slab| slab.disk()).collect::<Vec<u16>>();
        let rows: Vec<Vec<u16>> = pool.rows(id).iter().map(|(_, row)| disks(row)).collect();
        let journal: Vec<Vec<u16>> = pool.journal_rows(id).iter().map(|(_, row)| disks(row)).collect();
        let held = |row: &Vec<u16>, gone: &[u16]| gone.iter().filter(|disk| row.contains(disk)).count();
        // The row that is away comes first in the flush, which takes them by their ids.
        let found = (0..rows.len()).find_map(|away| {
            let gone = rows[away][..2].to_vec();
            let other = (away + 1..rows.len()).find(|other| held(&rows[*other], &gone) < 2)?;
            journal.iter().all(|row| held(row, &gone) < row.len()).then_some((away as u64, other as u64, gone))
        });
        let (away, other, gone) = found.expect("ten disks are enough");
        let share = inner.parity.journal().await.expect("it is open").record_share();
        let row_away = inner.rows.open_row(away as u32).expect("it was written to");
        let band_blocks = u64::from(row_away.bands().geometry.band_blocks());
        let blocks = share / BLOCK_BYTES + 1;
        assert!(blocks < band_blocks, "a part of a band is more than fits a record");
        write(&space, away * chunk_bytes, 2, blocks as usize).await;
        // These are more than fits a record, too.
        for band in 0..4 {
            let at = other * chunk_bytes + band * band_blocks * BLOCK_BYTES;
            write(&space, at, 2, (share / BLOCK_BYTES) as usize).await;
        }
        for disk in gone {
            pool.disk_out(disk, DiskState::Missing, "pulled").await.expect("a quorum is there");
        }
        space.flush().await.expect_err("too many disks are away");
        let row = inner.rows.open_row(other as u32).expect("it was written to");
        let state = row.bands().lock();
        let extents = || state.dirty.values().flat_map(super::dirty::Dirty::extents);
        assert!(extents().count() > 0 && extents().all(|(_, extent)| extent.logged), "the other row is durable");
        drop(state);
        let full = space.write(away * chunk_bytes, IoSlice::padded(&[3; 4096]), Durability::Durable).await;
        assert_eq!(full.map_err(|error| error.kind), Err(IoErrorKind::Gone));
    });
}
