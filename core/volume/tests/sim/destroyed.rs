//! Snapshots destroyed beside everything else: looking for what only they have holds up no checkpoint, gives away nothing
//! that anybody needs, and leaves nothing behind, on slow disks, full ones and those that lose power.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{Either, join, join4, select};
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_device::{Clock, Device, Durability, Geometry, Io, IoBuf, IoSlice};
use holdfast_volume::service::{Caller, FileId, FileKind, FileService, NewFile, Remove, Time};
use holdfast_volume::{ErrorKind, Settings, Volume};

use crate::clones::check_empty;
use crate::damage::lose_newest_root;
use crate::model::is_full;
use crate::plain::new_volume;
use crate::snapshots::Goes;

/// Directories, each in a tree of its own.
const DIRECTORIES: u32 = 24;
/// Links in each of them. Their targets fill some leaves.
const LINKS: u32 = 12;

/// A disk whose reads take their time.
struct Slow {
    disk: Arc<SimDisk>,
    clock: Arc<dyn Clock>,
    random: SimRandom,
    /// They take up to this long.
    most_micros: AtomicU64,
}

impl Slow {
    fn new(sim: &Sim, disk: &Arc<SimDisk>) -> Arc<Self> {
        let (clock, random) = (sim.clock(), sim.random());
        Arc::new(Self { disk: disk.clone(), clock, random, most_micros: AtomicU64::new(0) })
    }

    fn set(&self, most_micros: u64) {
        self.most_micros.store(most_micros, Ordering::Relaxed);
    }
}

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        let most = self.most_micros.load(Ordering::Relaxed);
        if most == 0 {
            return self.disk.read(offset, buf);
        }
        let wait = self.clock.sleep(Duration::from_micros(self.random.range(most / 2..=most)));
        let disk = self.disk.clone();
        Io::eager(async move {
            wait.await;
            disk.read(offset, buf).await
        })
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        self.disk.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.disk.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        self.disk.discard(offset, len)
    }
}

async fn open(disk: Arc<Slow>, cache_bytes: usize) -> Volume {
    let settings = Settings { cache_bytes, ..Settings::default() };
    Volume::open(disk, settings, Arc::new(Time::default)).await.expect("opened")
}

async fn directory(volume: &Volume, number: u32) -> FileId {
    let (caller, name) = (Caller::default(), format!("directory {number}").into_bytes());
    if let Some(found) = volume.lookup(&caller, volume.root(), &name).await.expect("looked up") {
        return found.id;
    }
    let new = NewFile { kind: FileKind::Directory, mode: 0o755, target: b"" };
    volume.create(&caller, volume.root(), &name, &new).await.expect("there is room").id
}

/// Puts a new link in place of an old one; false where there is no room.
async fn replace(volume: &Volume, dir: FileId, number: u32, target: &[u8]) -> bool {
    let (caller, name) = (Caller::default(), format!("link {number}").into_bytes());
    let removed = volume.remove(&caller, dir, &name, Remove::File).await;
    if let Err(error) = removed.as_ref()
        && error.kind != ErrorKind::NotFound
    {
        assert!(is_full(error.kind), "{error}");
        return false;
    }
    let new = NewFile { kind: FileKind::Symlink, mode: 0o777, target };
    match volume.create(&caller, dir, &name, &new).await {
        // Somebody else was faster.
        Err(error) if error.kind == ErrorKind::Exists => true,
        made => made.inspect_err(|error| assert!(is_full(error.kind), "{error}")).is_ok(),
    }
}

async fn fill(volume: &Volume) {
    for number in 0..DIRECTORIES {
        let dir = directory(volume, number).await;
        for link in 0..LINKS {
            assert!(replace(volume, dir, link, &[b'a'; 3000]).await);
        }
    }
}

/// The snapshot of this name is destroyed while others change files and make checkpoints; answers how many.
fn checkpoints_beside(destroyed: &'static str) -> u32 {
    let sim = Sim::new(12);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let (slow, clock) = (Slow::new(&sim, &disk), sim.clock());
    let ran = sim.run(async move {
        let volume = new_volume(disk).await;
        for name in ["oldest", "middle", "newest"] {
            fill(&volume).await;
            volume.create_snapshot(name).await.expect("made");
        }
        for number in 0..DIRECTORIES {
            assert!(replace(&volume, directory(&volume, number).await, 0, b"short").await);
        }
        volume.shut_down().await.expect("closed");
        drop(volume);
        let volume = open(slow.clone(), 64 << 20).await;
        let dir = directory(&volume, 0).await;
        assert!(replace(&volume, dir, 1, b"what changes is in memory").await);
        volume.checkpoint().await.expect("it lasts");
        slow.set(10_000);
        let (is_over, beside, longest) = (Cell::new(false), Cell::new(0), Cell::new(Duration::ZERO));
        let destroy = async {
            let from = clock.now();
            volume.destroy_snapshot(destroyed).await.expect("destroyed");
            is_over.set(true);
            clock.now() - from
        };
        let changes = async {
            while !is_over.get() {
                let from = clock.now();
                assert!(replace(&volume, dir, 1, format!("{from:?}").as_bytes()).await);
                volume.checkpoint().await.expect("it lasts");
                longest.set(longest.get().max(clock.now() - from));
                beside.set(beside.get() + 1);
            }
        };
        let (took, ()) = join(destroy, changes).await;
        slow.set(0);
        assert_eq!(volume.scan().await, Ok(Vec::new()));
        println!("{destroyed}: {took:?}, {} checkpoints, the longest took {:?}", beside.get(), longest.get());
        assert!(took > Duration::from_millis(100), "it took {took:?}");
        assert!(longest.get() < took / 4, "a checkpoint took {:?} of {took:?}", longest.get());
        beside.get()
    });
    ran.expect("powered")
}

#[test]
fn a_checkpoint_does_not_wait_for_a_snapshot_to_be_destroyed() {
    for destroyed in ["oldest", "middle", "newest"] {
        let beside = checkpoints_beside(destroyed);
        assert!(beside >= 10, "{destroyed}: {beside} checkpoints beside it");
    }
}

/// What all links of a volume say.
type Links = BTreeMap<(u32, u32), Vec<u8>>;

async fn read_links(volume: &Volume) -> Links {
    let (caller, mut found) = (Caller::default(), Links::new());
    for number in 0..DIRECTORIES {
        let dir = directory(volume, number).await;
        for link in 0..LINKS {
            let name = format!("link {link}").into_bytes();
            if let Some(there) = volume.lookup(&caller, dir, &name).await.expect("looked up") {
                found.insert((number, link), volume.read_link(there.id).await.expect("read"));
            }
        }
    }
    found
}

/// What is known of snapshots: what each has, which may be there, and which may be gone.
#[derive(Default)]
struct Known {
    links: BTreeMap<String, Links>,
    making: Option<String>,
    ending: Option<String>,
}

async fn check(volume: &Volume, known: &RefCell<Known>) {
    let mut found: Vec<String> = volume.snapshots().into_iter().map(|one| one.name).collect();
    found.sort();
    let (making, ending) = {
        let mut known = known.borrow_mut();
        (known.making.take(), known.ending.take())
    };
    // Whoever made it did not come to look at it.
    if let Some(name) = making.filter(|name| found.contains(name)) {
        let links = read_links(&volume.open_snapshot(&name).expect("it is there")).await;
        known.borrow_mut().links.insert(name, links);
    }
    if let Some(name) = ending.filter(|name| !found.contains(name)) {
        known.borrow_mut().links.remove(&name);
    }
    let all = known.borrow().links.clone();
    let expected: Vec<String> = all.keys().cloned().collect();
    assert_eq!(found, expected);
    for (name, links) in all {
        let view = volume.open_snapshot(&name).expect("it is there");
        assert!(read_links(&view).await == links, "{name} has what it had");
    }
}

/// Makes and destroys snapshots, in whatever order.
async fn keep(volume: &Volume, random: &SimRandom, known: &RefCell<Known>, most: u32) {
    for _ in 0..most {
        let name = format!("s{}", random.range(0..4u32));
        if random.chance(1, 2) {
            let is_known = known.borrow().links.contains_key(&name);
            if is_known {
                continue;
            }
            known.borrow_mut().making = Some(name.clone());
            match volume.create_snapshot(&name).await {
                Ok(_) => {
                    let view = volume.open_snapshot(&name).expect("it is there");
                    let links = read_links(&view).await;
                    known.borrow_mut().links.insert(name, links);
                }
                Err(error) => assert!(is_full(error.kind) || error.kind == ErrorKind::Busy, "{error}"),
            }
            known.borrow_mut().making = None;
            continue;
        }
        if !known.borrow().links.contains_key(&name) {
            continue;
        }
        known.borrow_mut().ending = Some(name.clone());
        volume.destroy_snapshot(&name).await.expect("destroyed");
        known.borrow_mut().ending = None;
        known.borrow_mut().links.remove(&name);
        volume.reclaim(&Goes(true)).await.expect("given back");
    }
}

async fn change(volume: &Volume, random: &SimRandom, clock: &Arc<dyn Clock>, is_over: &Cell<bool>) {
    while !is_over.get() {
        let dir = directory(volume, random.range(0..DIRECTORIES)).await;
        let target = vec![b'b'; [10, 1000, 4000][random.range(0..3usize)]];
        // Where a tree loses most of what it has, nodes are joined.
        let few = if random.chance(1, 6) { random.range(1..LINKS) } else { 1 };
        for _ in 0..few {
            _ = replace(volume, dir, random.range(0..LINKS), &target).await;
        }
        if random.chance(1, 3) {
            volume.checkpoint().await.expect("it lasts");
        }
        clock.sleep(Duration::from_micros(random.range(0..300))).await;
    }
}

fn beside_everything(seed: u64) {
    let sim = Sim::new(seed);
    let random = sim.random();
    let size_bytes = [16 << 20, 18 << 20, 64 << 20][random.range(0..3usize)];
    let cache_bytes = [0, 256 << 10, 64 << 20][random.range(0..3usize)];
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes, ..SimDiskSpec::default() });
    let made = disk.clone();
    let filled = async move {
        let volume = new_volume(made).await;
        fill(&volume).await;
        volume.shut_down().await.expect("closed");
    };
    sim.run(filled).expect("powered");
    let known = Rc::new(RefCell::new(Known::default()));
    let is_opened = Rc::new(Cell::new(false));
    for life in 0..3 {
        sim.restart();
        if is_opened.take() && random.chance(1, 3) {
            lose_newest_root(&disk);
        }
        let is_last = life == 2;
        if !is_last && random.chance(2, 3) {
            sim.cut_power_after(random.range(0..1500));
        }
        let (slow, random, clock) = (Slow::new(&sim, &disk), sim.random(), sim.clock());
        let (known, is_opened) = (known.clone(), is_opened.clone());
        let has_scans = random.chance(1, 2);
        // A cut is as good an end as any.
        let ended = sim.run(async move {
            let volume = open(slow.clone(), cache_bytes).await;
            is_opened.set(true);
            assert_eq!(volume.scan().await, Ok(Vec::new()), "as opened");
            check(&volume, &known).await;
            slow.set([0, 200, 2000][random.range(0..3usize)]);
            let is_over = Cell::new(false);
            let keeps = async {
                keep(&volume, &random, &known, 12).await;
                is_over.set(true);
            };
            let scans = async {
                while has_scans && !is_over.get() {
                    assert_eq!(volume.scan().await, Ok(Vec::new()), "beside");
                }
            };
            let changes = || change(&volume, &random, &clock, &is_over);
            join4(keeps, scans, changes(), changes()).await;
            slow.set(0);
            assert_eq!(volume.scan().await, Ok(Vec::new()), "after a life");
            check(&volume, &known).await;
            if is_last {
                end(&volume).await;
            } else {
                volume.checkpoint().await.expect("it lasts");
            }
        });
        assert!(ended.is_ok() || !is_last, "powered");
    }
}

/// All snapshots and files go, and all room is there again.
async fn end(volume: &Volume) {
    for one in volume.snapshots() {
        volume.destroy_snapshot(&one.name).await.expect("destroyed");
    }
    volume.reclaim(&Goes(true)).await.expect("given back");
    assert_eq!((volume.kept_bytes(), volume.is_to_be_reclaimed()), (0, false));
    assert_eq!(volume.scan().await, Ok(Vec::new()), "after all were destroyed");
    let caller = Caller::default();
    for number in 0..DIRECTORIES {
        let dir = directory(volume, number).await;
        for link in 0..LINKS {
            let name = format!("link {link}").into_bytes();
            let removed = volume.remove(&caller, dir, &name, Remove::File).await;
            assert!(removed.is_ok() || removed.is_err_and(|error| error.kind == ErrorKind::NotFound));
        }
        let name = format!("directory {number}").into_bytes();
        volume.remove(&caller, volume.root(), &name, Remove::Directory).await.expect("it is empty");
    }
    check_empty(volume).await;
}

#[test]
fn destroyed_snapshots_leave_nothing_and_take_nothing_along() {
    holdfast_harness::over_seeds(100, beside_everything);
}

/// A volume on a slow disk, with nothing of it in memory, whose newest snapshot is "one", and what that has.
async fn with_one(disk: Arc<SimDisk>, slow: Arc<Slow>) -> (Volume, Links) {
    let volume = new_volume(disk).await;
    fill(&volume).await;
    volume.create_snapshot("one").await.expect("made");
    let links = read_links(&volume).await;
    for number in 0..DIRECTORIES {
        assert!(replace(&volume, directory(&volume, number).await, 0, b"short").await);
    }
    volume.shut_down().await.expect("closed");
    drop(volume);
    let volume = open(slow.clone(), 64 << 20).await;
    slow.set(10_000);
    (volume, links)
}

#[test]
fn a_destruction_that_is_given_up_on_the_way_leaves_the_snapshot_as_it_was() {
    let sim = Sim::new(3);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let (slow, clock) = (Slow::new(&sim, &disk), sim.clock());
    let ran = sim.run(async move {
        let (volume, links) = with_one(disk, slow.clone()).await;
        let destroy = Box::pin(volume.destroy_snapshot("one"));
        let Either::Right(((), destroy)) = select(destroy, clock.sleep(Duration::from_millis(100))).await else {
            panic!("it ended before it was given up");
        };
        drop(destroy);
        slow.set(0);
        let view = volume.open_snapshot("one").expect("it is there");
        assert!(read_links(&view).await == links);
        for round in 0..4 {
            assert!(replace(&volume, directory(&volume, 3).await, round, b"another").await);
            volume.checkpoint().await.expect("it lasts");
        }
        assert_eq!(volume.scan().await, Ok(Vec::new()));
        volume.destroy_snapshot("one").await.expect("destroyed");
        assert_eq!(view.stat(view.root()).await.expect_err("it is gone").kind, ErrorKind::Stale);
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
    ran.expect("powered");
}

#[test]
fn a_destruction_ends_with_a_volume_that_fails_and_the_snapshot_is_there() {
    let sim = Sim::new(3);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let (slow, clock) = (Slow::new(&sim, &disk), sim.clock());
    let ran = sim.run(async move {
        let (volume, links) = with_one(disk.clone(), slow.clone()).await;
        let fails = async {
            clock.sleep(Duration::from_millis(50)).await;
            disk.fail_next_flushes(1);
            volume.checkpoint().await.expect_err("the flush failed");
            clock.now()
        };
        let destroys = async {
            let ended = volume.destroy_snapshot("one").await.expect_err("it takes no changes");
            (ended.kind, clock.now())
        };
        let (failed, (kind, ended)) = join(fails, destroys).await;
        assert_eq!(kind, ErrorKind::ReadOnly);
        assert!(ended < failed + Duration::from_millis(30), "it read on for {:?}", ended - failed);
        drop(volume);
        slow.set(0);
        let volume = open(slow, 64 << 20).await;
        assert!(read_links(&volume.open_snapshot("one").expect("it is there")).await == links);
        assert_eq!(volume.scan().await, Ok(Vec::new()));
        volume.destroy_snapshot("one").await.expect("destroyed");
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
    ran.expect("powered");
}
