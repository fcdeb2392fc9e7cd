//! A volume made smaller and larger over and over while others work on it. What it gave up is spoiled at once, so that
//! whatever is still needed there shows.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;

use holdfast_device::sim::{ErrorPersistence, Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_device::{Device, IoBuf, IoSlice};
use holdfast_volume::service::{Allocate, Caller, FileService, Flush};
use holdfast_volume::{ErrorKind, Handle, ShrinkPlan, Steps, Volume};

use crate::model::is_full;
use crate::plain::{NEW, WRITING, new_volume, open};

const MIB: u64 = 1 << 20;
/// What sizes of volumes are multiples of.
const GRAIN: u64 = 64 << 10;

/// Lets others have their turn.
async fn pause() {
    let mut is_over = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut is_over, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Steps that end the work after some.
struct Few {
    left: Cell<u32>,
    done: Cell<u64>,
}

impl Few {
    fn new(steps: u32) -> Self {
        Self { left: Cell::new(steps), done: Cell::new(0) }
    }
}

impl Steps for Few {
    fn step(&self, _: u64) -> Pin<Box<dyn Future<Output = bool> + '_>> {
        Box::pin(async {
            pause().await;
            self.left.set(self.left.get().saturating_sub(1));
            self.left.get() > 0
        })
    }

    fn done(&self, bytes: u64) {
        self.done.set(self.done.get() + bytes);
    }
}

/// A file without a name that takes room, and what some of its blocks hold.
struct Filler {
    handle: Handle,
    blocks: Vec<(u64, u8)>,
}

impl Filler {
    /// One of so many bytes, where there is room.
    async fn new(volume: &Volume, random: &SimRandom, bytes: u64) -> Option<Self> {
        let created = volume.create_unnamed(&Caller::default(), volume.root(), &NEW).await;
        let Ok((_, handle)) = created.inspect_err(|error| assert!(is_full(error.kind), "{error}")) else {
            return None;
        };
        let mut filler = Self { handle, blocks: Vec::new() };
        let reserved = volume.allocate(&filler.handle, 0, bytes, Allocate::Reserve { keep_size: false }).await;
        if let Err(error) = reserved {
            assert!(is_full(error.kind), "{error}");
        }
        for _ in 0..random.range(0..20u32) {
            filler.write(volume, random, bytes).await;
        }
        Some(filler)
    }

    async fn write(&mut self, volume: &Volume, random: &SimRandom, bytes: u64) {
        let (block, byte) = (random.range(0..bytes / 4096), random.range(1..=255u32) as u8);
        let written = volume.write(&self.handle, block * 4096, IoSlice::padded(&[byte; 4096]), 4096).await;
        match written {
            Ok(_) => {
                self.blocks.retain(|(other, _)| *other != block);
                self.blocks.push((block, byte));
            }
            Err(error) => assert!(is_full(error.kind), "{error}"),
        }
    }

    async fn check(&self, volume: &Volume) {
        for (block, byte) in &self.blocks {
            let found = volume.read(&self.handle, block * 4096, 4096).await.expect("it can be read").to_vec();
            assert!(found == [*byte; 4096], "block {block} of a file without a name");
        }
    }
}

/// Makes a volume larger and smaller until `working` is false, and leaves so many bytes free. Its device must have the
/// size of the disk.
pub async fn resize(volume: &Volume, disk: &SimDisk, random: &SimRandom, working: &Cell<bool>, spare: u64) {
    let all = disk.geometry().size_bytes;
    let wait = async || {
        for _ in 0..random.range(1..60u32) {
            pause().await;
        }
    };
    while working.get() {
        let has = volume.size_bytes();
        let size = if random.chance(1, 2) { all } else { random.range(has / GRAIN..=all / GRAIN) * GRAIN };
        volume.grow(size).await.expect("the device has it");
        assert_eq!(volume.size_bytes(), size);
        // What others write while this is there lies behind it.
        let free = volume.usage(volume.root()).await.expect("known").free_bytes.saturating_sub(spare);
        let bytes = free * random.range(1..20u64) / 20 / MIB * MIB + MIB;
        let mut filler = Filler::new(volume, random, bytes).await;
        wait().await;
        if let Some(filler) = &mut filler {
            filler.write(volume, random, bytes).await;
        }
        if random.chance(2, 3) {
            end(volume, filler.take()).await;
        }
        for _ in 0..random.range(1..3u32) {
            shrink(volume, disk, random, spare).await;
            wait().await;
        }
        end(volume, filler).await;
    }
}

async fn end(volume: &Volume, filler: Option<Filler>) {
    if let Some(filler) = filler {
        filler.check(volume).await;
        volume.close(filler.handle).await.expect("it can be closed");
    }
}

async fn shrink(volume: &Volume, disk: &SimDisk, random: &SimRandom, spare: u64) {
    let before = volume.size_bytes();
    let plan = volume.plan_shrink(before).await.expect("planned");
    assert_eq!(plan.refusal, None);
    let least = (plan.smallest_bytes + spare).min(before);
    let size = if random.chance(1, 2) { least } else { random.range(least..=before) / GRAIN * GRAIN };
    let steps = Few::new([u32::MAX, u32::MAX, random.range(1..9), random.range(1..90)][random.range(0..4usize)]);
    let had_kept = volume.keeps_for_snapshots();
    let shrunk = volume.shrink(size, &steps).await;
    assert_eq!(volume.unfinished_shrink(), None);
    match shrunk {
        Ok(changed) => {
            assert_eq!((changed, volume.size_bytes()), (size < before, size));
            disk.corrupt(size..disk.geometry().size_bytes);
        }
        Err(error) => {
            // The last one may have gone since, or just come.
            let is_kept = had_kept || volume.keeps_for_snapshots();
            let is_stopped = error.kind == ErrorKind::Busy && (steps.left.get() == 0 || is_kept);
            let fine = error.kind == ErrorKind::NoSpace || is_stopped;
            assert!(fine, "{error}");
            assert_eq!(volume.size_bytes(), before);
        }
    }
}

/// A file of so many bytes, all of the same value.
async fn put(volume: &Volume, name: &str, bytes: u64, value: u8) {
    let caller = Caller::default();
    let id = volume.create(&caller, volume.root(), name.as_bytes(), &NEW).await.expect("created").id;
    let handle = volume.open(&caller, id, WRITING).await.expect("opened");
    let mut buf = IoBuf::zeroed(bytes as usize);
    buf.fill(value);
    volume.write(&handle, 0, buf.freeze(), bytes as usize).await.expect("there is room");
    volume.close(handle).await.expect("closed");
}

async fn check(volume: &Volume, name: &str, bytes: u64, value: u8) {
    let caller = Caller::default();
    let facts = volume.lookup(&caller, volume.root(), name.as_bytes()).await.expect("looked up").expect("it is there");
    let handle = volume.open(&caller, facts.id, WRITING).await.expect("opened");
    let found = volume.read(&handle, 0, usize::MAX >> 1).await.expect("it can be read").to_vec();
    assert_eq!((found.len() as u64, found.iter().all(|byte| *byte == value)), (bytes, true), "{name}");
    volume.close(handle).await.expect("closed");
}

/// Files low and high, then the low ones gone: what is left has to be moved.
async fn make_high(disk: &Arc<SimDisk>) -> Volume {
    let volume = new_volume(disk.clone()).await;
    put(&volume, "low", 30 * MIB, 1).await;
    put(&volume, "high", 5 * MIB, 2).await;
    for number in 0..40 {
        put(&volume, &format!("f{number}"), 3000 + number * 100, number as u8 + 3).await;
    }
    let caller = Caller::default();
    volume.remove(&caller, volume.root(), b"low", holdfast_volume::service::Remove::File).await.expect("removed");
    volume.sync().await.expect("it lasts");
    volume
}

async fn check_high(volume: &Volume) {
    check(volume, "high", 5 * MIB, 2).await;
    for number in 0..40 {
        check(volume, &format!("f{number}"), 3000 + number * 100, number as u8 + 3).await;
    }
    assert_eq!(volume.scan().await, Ok(Vec::new()));
}

#[test]
fn a_plan_says_what_is_moved_and_the_smallest_size_holds() {
    let sim = Sim::new(5);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 * MIB, ..SimDiskSpec::default() });
    let used = disk.clone();
    let ran = sim.run(async move {
        let (disk, volume) = (used.clone(), make_high(&used).await);
        let plan = volume.plan_shrink(24 * MIB + 5).await.expect("planned");
        let ShrinkPlan { size_bytes, new_size_bytes, data_bytes, smallest_bytes, refusal, .. } = plan;
        assert_eq!((size_bytes, new_size_bytes, refusal), (64 * MIB, 24 * MIB, None));
        assert!((5 * MIB..6 * MIB).contains(&data_bytes), "{data_bytes}");
        assert!(smallest_bytes < 24 * MIB, "{smallest_bytes}");
        for (size, kind) in
            [(65 * MIB, ErrorKind::Invalid), (smallest_bytes - 1, ErrorKind::NoSpace), (0, ErrorKind::NoSpace)]
        {
            let refused = volume.shrink(size, &Few::new(u32::MAX)).await.expect_err("it cannot be");
            assert_eq!(refused.kind, kind, "{refused}");
        }
        let steps = Few::new(u32::MAX);
        assert_eq!(volume.shrink(smallest_bytes, &steps).await, Ok(true));
        assert!(steps.done.get() >= 5 * MIB, "{} bytes moved", steps.done.get());
        assert_eq!(volume.shrink(smallest_bytes, &steps).await, Ok(false));
        disk.corrupt(smallest_bytes..64 * MIB);
        check_high(&volume).await;
        let usage = volume.usage(volume.root()).await.expect("known");
        assert!(usage.total_bytes < smallest_bytes, "{usage:?}");
        volume.shut_down().await.expect("closed");
        smallest_bytes
    });
    let smallest = ran.expect("powered");
    // On a device of that very size, without its beginning.
    let small = SimDisk::new(&sim, SimDiskSpec { size_bytes: smallest, ..SimDiskSpec::default() });
    small.poke(0, &disk.peek(0, smallest as usize));
    small.poke(0, &[0xa5; 4096]);
    let ran = sim.run(async move {
        let volume = open(small).await.expect("opened by the superblock at its end");
        check_high(&volume).await;
        assert_eq!(volume.size_bytes(), smallest);
    });
    ran.expect("powered");
}

#[test]
fn what_the_old_end_said_is_not_believed_when_the_beginning_is_lost() {
    for is_old_there in [true, false] {
        let sim = Sim::new(5);
        let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 * MIB, ..SimDiskSpec::default() });
        let ran = sim.run(async move {
            let volume = make_high(&disk).await;
            volume.checkpoint().await.expect("it lasts");
            let old = disk.peek(64 * MIB - GRAIN, GRAIN as usize);
            assert_eq!(volume.shrink(32 * MIB, &Few::new(u32::MAX)).await, Ok(true));
            volume.shut_down().await.expect("closed");
            assert_eq!(disk.peek(64 * MIB - GRAIN, GRAIN as usize), vec![0; GRAIN as usize], "it is wiped");
            if is_old_there {
                // As a crash right before that would have left it.
                disk.poke(64 * MIB - GRAIN, &old);
            }
            disk.poke(0, &[0xa5; 4096]);
            let opened = open(disk.clone()).await;
            assert_eq!(opened.expect("by the second superblock").size_bytes(), 32 * MIB);
        });
        ran.expect("powered");
    }
}

#[test]
fn a_shrink_that_power_cuts_short_leaves_the_old_or_the_new_size() {
    let mut sizes = std::collections::BTreeSet::new();
    for cut in (0..400).step_by(7) {
        let sim = Sim::new(7);
        let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 * MIB, ..SimDiskSpec::default() });
        let made = disk.clone();
        sim.run(async move { drop(make_high(&made).await) }).expect("powered");
        sim.cut_power_after(cut);
        let used = disk.clone();
        let is_done = sim.run(async move {
            let volume = open(used).await.expect("opened");
            assert_eq!(volume.shrink(24 * MIB, &Few::new(u32::MAX)).await, Ok(true));
        });
        sim.restart();
        let found = sim.run(async move {
            let volume = open(disk.clone()).await.expect("opened");
            let size = volume.size_bytes();
            assert!([24 * MIB, 64 * MIB].contains(&size), "{size}");
            assert!(is_done.is_err() || size == 24 * MIB);
            let unfinished = volume.unfinished_shrink();
            assert!(unfinished.is_none() || size == 64 * MIB);
            if size == 24 * MIB {
                disk.corrupt(size..64 * MIB - GRAIN);
                assert_eq!(disk.peek(64 * MIB - GRAIN, 4096), [0; 4096], "the old end is wiped");
            }
            check_high(&volume).await;
            if unfinished.is_some() {
                let refused = volume.shrink(MIB, &Few::new(u32::MAX)).await.expect_err("it is too small");
                assert!(!refused.to_string().contains(&volume.id().to_string()), "{refused}");
                assert_eq!(volume.unfinished_shrink(), None, "nothing goes on after a refusal");
                assert_eq!(volume.shrink(24 * MIB, &Few::new(u32::MAX)).await, Ok(true), "it goes on");
                disk.corrupt(24 * MIB..64 * MIB);
                check_high(&volume).await;
                assert_eq!(volume.unfinished_shrink(), None);
            }
            (size, unfinished.is_some())
        });
        sizes.insert(found.expect("powered"));
    }
    let expected = [(24 * MIB, false), (64 * MIB, false), (64 * MIB, true)];
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), expected, "cuts fell before, into and behind it");
}

#[test]
fn a_shrink_that_is_stopped_gives_everything_back() {
    let sim = Sim::new(5);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 * MIB, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let volume = make_high(&disk).await;
        let before = volume.usage(volume.root()).await.expect("known");
        for steps in [1, 2, 4, 8, 30] {
            let stopped = volume.shrink(24 * MIB, &Few::new(steps)).await.expect_err("it was stopped");
            assert_eq!(stopped.kind, ErrorKind::Busy, "{stopped}");
        }
        volume.interrupt(true);
        let stopped = volume.shrink(24 * MIB, &Few::new(u32::MAX)).await.expect_err("it was stopped");
        assert_eq!(stopped.kind, ErrorKind::Busy, "{stopped}");
        volume.interrupt(false);
        volume.checkpoint().await.expect("it lasts");
        let after = volume.usage(volume.root()).await.expect("known");
        assert_eq!(after.total_bytes, before.total_bytes);
        assert!(after.free_bytes + MIB > before.free_bytes, "{after:?}, before {before:?}");
        assert_eq!(volume.unfinished_shrink(), None);
        put(&volume, "again", after.free_bytes - 4 * MIB, 9).await;
        check_high(&volume).await;
    });
    ran.expect("powered");
}

#[test]
fn what_is_damaged_above_the_new_end_is_not_cut_off() {
    let sim = Sim::new(5);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 * MIB, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let volume = make_high(&disk).await;
        volume.checkpoint().await.expect("it lasts");
        disk.fail_reads(24 * MIB..64 * MIB, ErrorPersistence::UntilCleared);
        let failed = volume.shrink(24 * MIB, &Few::new(u32::MAX)).await.expect_err("its data cannot be read");
        assert_eq!(failed.kind, ErrorKind::Io, "{failed}");
        disk.clear_faults();
        assert_eq!(volume.size_bytes(), 64 * MIB);
        assert_eq!(volume.failure(), None, "the volume goes on");
        check_high(&volume).await;
        volume.flush(volume.root(), Flush::All).await.expect("it lasts");
    });
    ran.expect("powered");
}
