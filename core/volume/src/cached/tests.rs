use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_model::Uuid;
use tokio::sync::Semaphore;

use super::*;
use crate::checked::tests::{World, flip, pattern};
use crate::error::ErrorKind;
use crate::integrity::Integrity;
use crate::repair::tests::kinds::Mirror;
use crate::service::{Caller, FileKind, FileService, NewFile, OpenMode, Time};
use crate::store::{Format, Settings};
use crate::volume::{Volume, VolumeFormat};

const BLOCK: usize = BLOCK_BYTES as usize;

fn block(byte: u8) -> IoSlice {
    let mut buf = IoBuf::new(BLOCK);
    buf.fill(byte);
    buf.freeze()
}

/// A device whose writes are answered, and reads delivered, when a test says so. A read has what was there as it was asked
/// for.
struct Held {
    below: Arc<dyn Device>,
    is_reading_held: AtomicBool,
    reads: Arc<Semaphore>,
    is_writing_held: AtomicBool,
    writes: Arc<Semaphore>,
}

impl Held {
    fn over(below: Arc<dyn Device>) -> Arc<Self> {
        let gate = || Arc::new(Semaphore::new(0));
        let no = || AtomicBool::new(false);
        Arc::new(Self { below, is_reading_held: no(), reads: gate(), is_writing_held: no(), writes: gate() })
    }
}

impl Device for Held {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        let reading = self.below.read(offset, buf);
        if !self.is_reading_held.load(Ordering::SeqCst) {
            return reading;
        }
        let gate = self.reads.clone();
        Io::eager(async move {
            let read = reading.await;
            gate.acquire().await.expect("open").forget();
            read
        })
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        if !self.is_writing_held.load(Ordering::SeqCst) {
            return self.below.write(offset, data, durability);
        }
        let (gate, below) = (self.writes.clone(), self.below.clone());
        Io::eager(async move {
            gate.acquire().await.expect("open").forget();
            below.write(offset, data, durability).await
        })
    }

    fn flush(&self) -> Io<()> {
        self.below.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        self.below.discard(offset, len)
    }
}

/// A device in memory that does all at once.
struct Memory(Mutex<Vec<u8>>);

impl Device for Memory {
    fn geometry(&self) -> Geometry {
        let size_bytes = held(&self.0).len() as u64;
        Geometry {
            size_bytes,
            logical_sector_bytes: 4096,
            physical_sector_bytes: 4096,
            rotational: false,
            discard: true,
        }
    }

    fn read(&self, offset: u64, mut buf: IoBuf) -> Io<IoBuf> {
        let len = buf.len();
        buf.copy_from_slice(&held(&self.0)[offset as usize..offset as usize + len]);
        Io::ready(Ok(buf))
    }

    fn write(&self, offset: u64, data: IoSlice, _durability: Durability) -> Io<()> {
        held(&self.0)[offset as usize..offset as usize + data.len()].copy_from_slice(&data);
        Io::ready(Ok(()))
    }

    fn flush(&self) -> Io<()> {
        Io::ready(Ok(()))
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        held(&self.0)[offset as usize..(offset + len) as usize].fill(0);
        Io::ready(Ok(()))
    }
}

fn poll<T>(io: &mut Io<T>) -> bool
where
    T: Unpin,
{
    std::pin::Pin::new(io).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn memory() -> Arc<Memory> {
    Arc::new(Memory(Mutex::new(vec![0; 64 * BLOCK])))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    BeginRead,
    Read,
    Keep,
    BeginWrite,
    Write,
    EndWrite,
}

/// All orders of two requests that each do their steps in order.
fn orders(one: &[Step], other: &[Step]) -> Vec<Vec<Step>> {
    let then = |first: Step, rest: Vec<Vec<Step>>| rest.into_iter().map(move |rest| [vec![first], rest].concat());
    match (one.split_first(), other.split_first()) {
        (Some((a, more)), Some((b, further))) => {
            then(*a, orders(more, other)).chain(then(*b, orders(one, further))).collect()
        }
        _ => vec![[one, other].concat()],
    }
}

#[test]
fn no_read_that_met_a_write_keeps_what_was_before_in_any_order_of_their_steps() {
    use Step::{BeginRead, BeginWrite, EndWrite, Keep, Read, Write};
    // The ranges are the same, or meet in one block; over the edge of a lane, too.
    let edge = LANE_BLOCKS;
    let ranges = [(8..10, 8..10), (8..10, 9..12), (9..10, 2..30), (edge - 1..edge + 1, edge..edge + 3)];
    for (read, written) in ranges {
        let all = orders(&[BeginRead, Read, Keep], &[BeginWrite, Write, EndWrite]);
        assert_eq!(all.len(), 20);
        let mut kept = 0;
        for order in all {
            let cached = CachedDevice::new(memory(), &Arc::new(DataCache::new(1 << 20)));
            let (mut ticket, mut write, mut content, mut found, mut ended) = (None, None, 1u8, 0u8, false);
            let (place, blocks) = (read.start, read.end - read.start);
            for step in &order {
                match step {
                    BeginRead => ticket = cached.begin_read(place, blocks),
                    Read => found = content,
                    Keep => {
                        let mut buf = IoBuf::new(blocks as usize * BLOCK);
                        buf.fill(found);
                        if let Some(ticket) = ticket.take() {
                            ticket.keep(&buf.freeze(), false);
                        }
                    }
                    BeginWrite => write = Some(super::Write::begin(&cached.watched, written.clone())),
                    Write => content = 2,
                    EndWrite => {
                        write.take().expect("begun").end();
                        ended = true;
                    }
                }
                let known = cached.find(place, blocks, false).map(|runs| runs[0][0]);
                assert!(known.is_none_or(|known| !ended || known == 2), "stale after {order:?}");
            }
            let is_kept = cached.find(place, blocks, false).is_some();
            let apart = order[0] == BeginWrite && order[2] == EndWrite;
            assert_eq!(is_kept, apart, "what is read after a write is kept, and nothing else: {order:?}");
            kept += usize::from(is_kept);
        }
        assert_eq!(kept, 1);
    }
}

#[test]
fn every_change_of_a_device_takes_out_what_is_kept_of_it() {
    let changes: [fn(&CachedDevice) -> Io<()>; 4] = [
        |cached| cached.write(5 * BLOCK_BYTES, block(9), Durability::Cached),
        |cached| cached.rewrite(5 * BLOCK_BYTES, block(9)),
        |cached| cached.discard(5 * BLOCK_BYTES, BLOCK_BYTES),
        |cached| cached.discard(0, 64 * BLOCK_BYTES),
    ];
    for change in changes {
        let cached = CachedDevice::new(memory(), &Arc::new(DataCache::new(1 << 20)));
        cached.begin_read(5, 1).expect("nothing is written").keep(&block(1), false);
        assert!(cached.find(5, 1, false).is_some());
        assert!(poll(&mut change(&cached)));
        assert!(cached.find(5, 1, false).is_none());
        cached.begin_read(5, 1).expect("it is over").keep(&block(9), false);
        assert!(cached.find(5, 1, false).is_some());
    }
}

#[test]
fn a_write_that_nobody_waits_for_has_nothing_kept_any_more() {
    let below = Held::over(memory());
    below.is_writing_held.store(true, Ordering::SeqCst);
    let cached = CachedDevice::new(below, &Arc::new(DataCache::new(1 << 20)));
    drop(cached.write(5 * BLOCK_BYTES, block(9), Durability::Cached));
    assert!(cached.begin_read(5, 1).is_none() && cached.begin_read(4, 2).is_none());
    assert!(cached.begin_read(6, 1).is_some());
    for _ in 0..=MOST_LEFT {
        drop(cached.write(7 * BLOCK_BYTES, block(9), Durability::Cached));
    }
    assert!(cached.begin_read(7, 1).is_none());
    assert!(cached.begin_read(6, 1).is_some() && cached.begin_read(8, 1).is_some(), "all that was not written");
}

#[test]
fn many_writes_that_nobody_waits_for_close_no_more_than_what_lies_between_them() {
    let mut lane = Lane::default();
    let mut lost = Vec::new();
    let mut state = 1u64;
    for _ in 0..4000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (block, blocks) = ((state >> 33) % 2000, 1 + (state >> 50) % 3);
        lost.push(block..block + blocks);
        lane.leave(block..block + blocks);
        assert!(lane.left.len() <= MOST_LEFT);
        assert!(lane.left.windows(2).all(|two| two[0].end < two[1].start), "{:?}", lane.left);
        assert!(lost.iter().all(|lost| (lost.start..lost.end).all(|block| lane.is_written(&(block..block + 1)))));
        assert!(!lane.is_written(&(2003..2004)), "behind all of them");
    }

    // Below the limit it is exact.
    let mut lane = Lane::default();
    for block in [9, 3, 5, 4, 20, 9] {
        lane.leave(block..block + 1);
    }
    assert_eq!(lane.left, [3..6, 9..10, 20..21]);
}

#[test]
fn a_read_that_ends_early_is_forgotten() {
    let cached = CachedDevice::new(memory(), &Arc::new(DataCache::new(1 << 20)));
    drop(cached.begin_read(5, 1));
    assert!(cached.watched.lanes.iter().all(|lane| held(lane).reads.is_empty()));
    assert!(poll(&mut cached.write(5 * BLOCK_BYTES, block(9), Durability::Cached)));
    assert!(cached.watched.lanes.iter().all(|lane| held(lane).writes.is_empty()));
}

const NEW: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
const MODE: OpenMode = OpenMode { read: true, write: true, truncate: false };

/// Runs a test on a new volume on a device that can be held up, with a cache.
fn with(test: impl AsyncFnOnce(Volume, Arc<Held>, Arc<DataCache>, Sim) + 'static) {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let below = Held::over(disk);
    let running = sim.clone();
    sim.run(async move {
        let device: Arc<dyn Device> = below.clone();
        let store = Format { volume: Uuid::from_u128(5), log_bytes: None };
        let format = VolumeFormat { store, secret: [3; 16], owner: (0, 0), is_case_sensitive: false, mode: 0o755 };
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        let cache = Arc::new(DataCache::new(1 << 20));
        let settings = Settings { delayed_bytes: 0, ..Settings::default() };
        let cached = CachedDevice::new(device, &cache);
        let volume = Volume::open_cached(cached, settings, Arc::new(Time::default)).await.expect("it opens");
        test(volume, below, cache, running).await;
    })
    .expect("powered");
}

#[test]
fn a_read_that_was_overtaken_by_a_write_in_place_leaves_nothing_behind() {
    with(async |volume, below, cache, _| {
        let caller = Caller::default();
        let id = volume.create(&caller, volume.root(), b"file", &NEW).await.expect("created").id;
        let handle = volume.open(&caller, id, MODE).await.expect("opened");
        volume.write(&handle, 0, block(1), BLOCK).await.expect("written");

        // Both hold the file shared: the read has the old bytes, and is delivered after the write was answered.
        below.is_reading_held.store(true, Ordering::SeqCst);
        let mut reading = Box::pin(volume.read(&handle, 0, BLOCK));
        assert!(reading.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let before = cache.counts().misses;
        let delivered: Rc<RefCell<Option<u8>>> = Rc::default();
        let keep = delivered.clone();
        let read = async move {
            *keep.borrow_mut() = Some(reading.await.expect("read").to_vec()[0]);
        };
        let write = async {
            volume.write(&handle, 0, block(2), BLOCK).await.expect("written");
            below.is_reading_held.store(false, Ordering::SeqCst);
            below.reads.add_permits(1);
        };
        futures_util::future::join(read, write).await;
        assert!(delivered.borrow().is_some());
        assert_eq!(cache.counts().misses, before, "one read, and one miss");

        let again = volume.read(&handle, 0, BLOCK).await.expect("read");
        assert_eq!(again.to_vec()[0], 2, "what was written is what is read");
        let hits = cache.counts().hits;
        assert_eq!(volume.read(&handle, 0, BLOCK).await.expect("read").to_vec()[0], 2);
        assert_eq!(cache.counts().hits, hits + 1, "from memory then");
        volume.close(handle).await.expect("closed");
    });
}

#[test]
fn large_reads_and_handles_that_ask_for_it_go_past_the_cache() {
    with(async |volume, _, cache, _| {
        let caller = Caller::default();
        let id = volume.create(&caller, volume.root(), b"file", &NEW).await.expect("created").id;
        let handle = volume.open(&caller, id, MODE).await.expect("opened");
        volume.write(&handle, 0, IoBuf::zeroed(1 << 20).freeze(), 1 << 20).await.expect("written");
        let unbuffered = volume.unbuffered(volume.open(&caller, id, MODE).await.expect("opened"));
        volume.read(&handle, 0, 64 << 10).await.expect("read");
        volume.read(&unbuffered, 0, BLOCK).await.expect("read");
        let counts = cache.counts();
        assert_eq!((counts.hits, counts.misses, counts.bytes), (0, 0, 0));
        volume.read(&handle, 100, 40 << 10).await.expect("read");
        volume.read(&handle, 5000, 9000).await.expect("read");
        let counts = cache.counts();
        assert_eq!((counts.hits, counts.misses), (1, 1));
        volume.read(&unbuffered, 0, BLOCK).await.expect("read");
        assert_eq!(cache.counts().hits, 1);
        volume.close(handle).await.expect("closed");
        volume.close(unbuffered).await.expect("closed");
        drop(volume);
        assert_eq!(cache.counts().bytes, 0, "nothing is kept of a volume that is closed");
    });
}

#[test]
fn memory_hides_no_damage_from_who_looks_for_it_and_has_only_what_was_checked() {
    crate::checked::tests::with(2, async |world| {
        let handle = world.file("strict", Integrity::Strict, &pattern(1, 4)).await;
        let id = handle.id();
        world.volume.close(handle).await.expect("closed");
        world.volume.shut_down().await.expect("shut");
        let cache = Arc::new(DataCache::new(1 << 20));
        let mirror = Arc::new(Mirror([world.disks[0].clone(), world.disks[1].clone()]));
        let device = CachedDevice::with_copies(mirror, &cache);
        let opened = Volume::open_cached(device, Settings::default(), Arc::new(Time::default)).await;
        let world = World { volume: Arc::new(opened.expect("it opens")), ..world };
        let handle = world.volume.open(&world.caller, id, MODE).await.expect("opened");
        let unbuffered = world.volume.unbuffered(handle.clone());
        let at = world.at(&handle, 2).await;
        let hits = || cache.counts().hits;

        // What comes from the other copy is put right, and is kept by the next read.
        flip(&world.disks[0], at);
        assert!(world.read(&handle, 0, 4).await == Ok(pattern(1, 4)));
        assert_eq!((world.volume.checksum_counts().healed, hits()), (1, 0));
        assert!(world.read(&handle, 0, 4).await == Ok(pattern(1, 4)));
        assert!(world.read(&handle, 1, 3).await == Ok(pattern(1, 4)[BLOCK..].to_vec()));
        assert_eq!(hits(), 1);

        flip(&world.disks[0], at);
        assert!(world.read(&handle, 0, 4).await == Ok(pattern(1, 4)));
        assert_eq!(hits(), 2, "from memory");
        let scrubbed = world.scrub().await;
        assert_eq!((scrubbed.healed, scrubbed.lost), (1, 0), "the disk is what a scrub reads");
        assert!(world.read(&handle, 0, 4).await == Ok(pattern(1, 4)));
        assert_eq!(hits(), 2, "what was written anew is read anew");

        world.disks.iter().for_each(|disk| flip(disk, at));
        assert!(world.read(&handle, 0, 4).await == Ok(pattern(1, 4)));
        assert_eq!(world.read(&unbuffered, 0, 4).await, Err(ErrorKind::Corrupt));
        assert_eq!(world.scrub().await.lost, 1);
        world.volume.close(handle).await.expect("closed");
    });
}
