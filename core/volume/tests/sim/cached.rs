//! Data kept in memory: reads and writes of the same blocks at once, while blocks move, are shared and are given back.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use futures_util::future::{join, join_all};
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_device::{Device, IoBuf};
use holdfast_model::Uuid;
use holdfast_volume::service::{Allocate, Caller, FileService, Time};
use holdfast_volume::{
    CachedDevice, DataCache, ErrorKind, Format, Handle, Settings, Volume, VolumeError, VolumeFormat, WallClock,
};

use crate::plain::{NEW, WRITING};
use crate::resize::resize;

const BLOCK: usize = 4096;
/// Blocks that all read and write.
const BLOCKS: usize = 24;

/// Bytes of memory for data, in histories that are to meet its limits.
pub fn some_bytes(random: &SimRandom) -> usize {
    [0, 40 << 10, 200 << 10, 8 << 20][random.range(0..4usize)]
}

/// Opens a volume with so many bytes of memory for data; without any if 0.
pub async fn open(
    device: Arc<dyn Device>,
    settings: Settings,
    clock: WallClock,
    bytes: usize,
) -> Result<Volume, VolumeError> {
    if bytes == 0 {
        return Volume::open(device, settings, clock).await;
    }
    Volume::open_cached(CachedDevice::new(device, &Arc::new(DataCache::new(bytes))), settings, clock).await
}

/// What is known of a file whose blocks say by which write they were written.
struct Written {
    handle: Handle,
    /// For each block the last write that began, and the last that was answered.
    begun: [Cell<u64>; BLOCKS],
    answered: [Cell<u64>; BLOCKS],
    /// One write of a block at a time: which of two would be the last is not known.
    is_taken: [Cell<bool>; BLOCKS],
}

fn stamp(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight"))
}

impl Written {
    async fn write(&self, volume: &Volume, random: &SimRandom, number: &Cell<u64>) {
        let (from, blocks) = (random.range(0..BLOCKS), random.range(1..4usize));
        let range = from..(from + blocks).min(BLOCKS);
        if range.clone().any(|block| self.is_taken[block].get()) {
            return;
        }
        range.clone().for_each(|block| self.is_taken[block].set(true));
        number.set(number.get() + 1);
        let mine = number.get();
        let len = range.len() * BLOCK;
        let mut buf = IoBuf::zeroed(len);
        buf.chunks_mut(8).for_each(|part| part.copy_from_slice(&mine.to_le_bytes()));
        range.clone().for_each(|block| self.begun[block].set(mine));
        let written = volume.write(&self.handle, (range.start * BLOCK) as u64, buf.freeze(), len).await;
        assert_eq!(written, Ok(len), "there is room");
        for block in range {
            self.answered[block].set(mine);
            self.is_taken[block].set(false);
        }
    }

    async fn read(&self, volume: &Volume, random: &SimRandom) {
        let (from, blocks) = (random.range(0..BLOCKS), random.range(1..6usize));
        let range = from..(from + blocks).min(BLOCKS);
        // A read that meets a write finds any part of it.
        let still = |block: usize| !self.is_taken[block].get();
        let before: Vec<_> = range.clone().map(|block| (still(block), self.begun[block].get())).collect();
        let len = range.len() * BLOCK;
        let read = volume.read(&self.handle, (range.start * BLOCK) as u64, len).await.expect("read").to_vec();
        assert_eq!(read.len(), len);
        for ((block, bytes), before) in range.zip(read.chunks(BLOCK)).zip(before) {
            if before == (true, self.begun[block].get()) {
                let found = stamp(bytes);
                assert!(bytes.chunks(8).all(|part| stamp(part) == found), "block {block} is torn");
                assert_eq!(found, before.1, "block {block} is as the last write left it");
            }
        }
    }
}

/// What moves, shares and gives back blocks meanwhile.
async fn stir(volume: &Volume, random: &SimRandom, written: &Written, working: &Cell<bool>) {
    let caller = Caller::default();
    let other = volume.create(&caller, volume.root(), b"other", &NEW).await.expect("created").id;
    let other = volume.open(&caller, other, WRITING).await.expect("opened");
    let mut snapshots = 0;
    while working.get() {
        match random.range(0..6u32) {
            0 => {
                let len = (BLOCKS * BLOCK) as u64;
                volume.clone_range((&written.handle, 0), (&other, 0), len).await.expect("there is room");
                let read = volume.read(&other, 0, BLOCKS * BLOCK / 2).await.expect("read");
                assert_eq!(read.len(), BLOCKS * BLOCK / 2);
            }
            1 => {
                let len = (random.range(1..BLOCKS) * BLOCK) as u64;
                match volume.allocate(&other, 0, len, Allocate::Punch).await {
                    Ok(()) => {}
                    Err(error) => assert_eq!(error.kind, ErrorKind::NoSpace),
                }
            }
            2 if snapshots < 6 => {
                snapshots += 1;
                if let Err(error) = volume.create_snapshot(&format!("s{snapshots}")).await {
                    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
                }
            }
            3 => volume.checkpoint().await.expect("it lasts"),
            4 => {
                volume.trim().await.expect("given back");
            }
            _ => {
                let len = (random.range(1..20usize)) * BLOCK;
                let mut bytes = IoBuf::zeroed(len);
                random.fill(&mut bytes);
                let bytes = bytes.freeze();
                let done = volume.write(&other, 0, bytes.clone(), len).await.expect("there is room");
                let read = volume.read(&other, 0, done).await.expect("read").to_vec();
                assert!(read == bytes[..done]);
            }
        }
    }
    volume.close(other).await.expect("closed");
}

fn run(seed: u64) {
    let sim = Sim::new(seed);
    let random = sim.random();
    let simulated = SimDisk::new(&sim, SimDiskSpec { size_bytes: 128 << 20, ..SimDiskSpec::default() });
    let disk: Arc<dyn Device> = simulated.clone();
    let bytes = some_bytes(&random).max(20 << 10);
    let delayed_bytes = [0, 64 << 20][random.range(0..2usize)];
    let is_stirred = random.chance(2, 3);
    let ran = sim.run(async move {
        let store = Format { volume: Uuid::from_u128(3), log_bytes: None };
        let format = VolumeFormat { store, secret: [4; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: false };
        Volume::format(&disk, format, Time::default()).await.expect("formatted");
        let settings = Settings { delayed_bytes, ..Settings::default() };
        let volume = open(disk, settings, Arc::new(Time::default), bytes).await.expect("opened");
        let caller = Caller::default();
        let id = volume.create(&caller, volume.root(), b"file", &NEW).await.expect("created").id;
        let handle = volume.open(&caller, id, WRITING).await.expect("opened");
        let zeros = IoBuf::zeroed(BLOCKS * BLOCK).freeze();
        volume.write(&handle, 0, zeros, BLOCKS * BLOCK).await.expect("written");
        let none = || std::array::from_fn(|_| Cell::new(0));
        let is_taken = std::array::from_fn(|_| Cell::new(false));
        let written = Written { handle, begun: none(), answered: none(), is_taken };
        let (number, working, left) = (Cell::new(0), Cell::new(true), RefCell::new(6));
        let works = async |is_writer: bool| {
            for _ in 0..random.range(20..150u32) {
                match is_writer {
                    true => written.write(&volume, &random, &number).await,
                    false => written.read(&volume, &random).await,
                }
            }
            *left.borrow_mut() -= 1;
            working.set(*left.borrow() > 0);
        };
        let all = join_all([true, true, false, false, false, false].map(works));
        match is_stirred {
            true => {
                let stirring = stir(&volume, &random, &written, &working);
                join(all, join(stirring, resize(&volume, &simulated, &random, &working, 40 << 20))).await;
            }
            false => _ = all.await,
        }
        for block in 0..BLOCKS {
            for _ in 0..2 {
                let read = volume.read(&written.handle, (block * BLOCK) as u64, BLOCK).await.expect("read").to_vec();
                assert_eq!(stamp(&read), written.answered[block].get(), "block {block} in the end");
            }
        }
        volume.close(written.handle).await.expect("closed");
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
    ran.expect("powered");
}

#[test]
fn reads_see_the_last_write_however_they_meet() {
    holdfast_harness::over_seeds(300, run);
}
