//! A volume on a device that gives out less than it says that it has: what has a place goes on, and only what needs more
//! room is refused.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_device::{Device, Durability, Geometry, Io, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::Uuid;
use holdfast_volume::service::{Caller, FileId, FileService, Flush, Remove, Time};
use holdfast_volume::{ErrorKind, Format, Settings, Volume, VolumeFormat};

use crate::plain::{NEW, WRITING};

const BLOCK: usize = 4096;

/// A device that gives room out in parts, and has so many of them.
struct Thin {
    disk: Arc<SimDisk>,
    part_bytes: u64,
    given: Mutex<BTreeSet<u64>>,
    most: Mutex<usize>,
}

impl Thin {
    fn new(disk: Arc<SimDisk>, part_bytes: u64) -> Self {
        Self { disk, part_bytes, given: Mutex::default(), most: Mutex::new(usize::MAX) }
    }

    /// Has so many parts more than it gave out.
    fn leave(&self, parts: usize) {
        *self.most.lock().expect("sound") = self.given.lock().expect("sound").len() + parts;
    }
}

impl Device for Thin {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.disk.read(offset, buf)
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        let mut given = self.given.lock().expect("sound");
        let parts = offset / self.part_bytes..(offset + data.len() as u64).div_ceil(self.part_bytes);
        let new: Vec<u64> = parts.filter(|part| !given.contains(part)).collect();
        if given.len() + new.len() > *self.most.lock().expect("sound") && !new.is_empty() {
            return Io::ready(Err(IoError::new(IoErrorKind::NoSpace, "the pool is full")));
        }
        given.extend(new);
        self.disk.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.disk.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        let parts = offset.div_ceil(self.part_bytes)..(offset + len) / self.part_bytes;
        let mut given = self.given.lock().expect("sound");
        parts.for_each(|part| _ = given.remove(&part));
        self.disk.discard(offset, len)
    }
}

async fn open(thin: &Arc<Thin>, settings: Settings) -> Volume {
    Volume::open(thin.clone(), settings, Arc::new(Time::default)).await.expect("it opens, however full")
}

/// Whether a request was done; where it was not, there is no room, and all else goes on.
fn is_done<T>(volume: &Volume, done: Result<T, holdfast_volume::VolumeError>, what: &str) -> bool {
    assert_eq!(volume.failure(), None, "after {what}");
    done.inspect_err(|error| assert_eq!(error.kind, ErrorKind::NoSpace, "{what}: {error}")).is_ok()
}

async fn write(volume: &Volume, id: FileId, at: u64, byte: u8, len: usize) -> bool {
    let handle = volume.open(&Caller::default(), id, WRITING).await.expect("opened");
    let written = volume.write(&handle, at, IoSlice::padded(&vec![byte; len]), len).await;
    let is_written = is_done(volume, written, "a write");
    _ = volume.close(handle).await;
    is_written
}

async fn check(volume: &Volume, id: FileId, expected: &[u8]) {
    let handle = volume.open(&Caller::default(), id, WRITING).await.expect("opened");
    for (block, byte) in expected.iter().enumerate() {
        let read = volume.read(&handle, (block * BLOCK) as u64, BLOCK).await.expect("read").to_vec();
        assert!(read == [*byte; BLOCK], "block {block} is {} instead of {byte}", read[0]);
    }
    volume.close(handle).await.expect("closed");
}

/// Makes files until there is no room, then works on with what there is; answers whether files could be removed.
async fn work(thin: &Arc<Thin>, random: &SimRandom, settings: Settings) {
    let (volume, caller) = (open(thin, settings).await, Caller::default());
    let id = volume.create(&caller, volume.root(), b"data", &NEW).await.expect("created").id;
    let blocks = 400usize;
    let mut held = vec![1u8; blocks];
    assert!(write(&volume, id, 0, 1, blocks * BLOCK).await);
    volume.sync().await.expect("it lasts");
    thin.leave(random.range(0..12usize));
    let mut made = 0;
    for number in 0..4000u32 {
        let name = format!("f{number}").into_bytes();
        let created = volume.create(&caller, volume.root(), &name, &NEW).await;
        let is_created = created.as_ref().is_ok();
        let file = created.as_ref().map(|facts| facts.id).ok();
        if !is_done(&volume, created, "a creation") {
            break;
        }
        made += u32::from(is_created);
        let len = [100, 1500, 3 * BLOCK, 64 * BLOCK][random.range(0..4usize)];
        if !write(&volume, file.expect("it was created"), 0, 9, len).await {
            break;
        }
        if random.chance(1, 30) {
            is_done(&volume, volume.sync().await, "a sync");
        }
    }
    // What has a place takes no room, whatever comes.
    for round in 0..1200u32 {
        let (block, byte) = (random.range(0..blocks), random.range(1..=255u32) as u8);
        assert!(write(&volume, id, (block * BLOCK) as u64, byte, BLOCK).await, "an overwrite in round {round}");
        held[block] = byte;
        volume.flush(id, Flush::All).await.expect("what is overwritten lasts");
        if round.is_multiple_of(100) {
            volume.checkpoint().await.expect("it has room");
            assert_eq!(volume.failure(), None);
        }
    }
    check(&volume, id, &held).await;
    if random.chance(1, 2) {
        drop(volume);
    } else {
        // What waits and finds no room is told, and goes.
        _ = volume.shut_down().await;
        drop(volume);
    }
    let volume = open(thin, settings).await;
    assert_eq!(volume.failure(), None);
    check(&volume, id, &held).await;
    for number in 0..made {
        let name = format!("f{number}").into_bytes();
        let removed = volume.remove(&caller, volume.root(), &name, Remove::File).await;
        let is_gone = removed.as_ref().is_err_and(|error| error.kind == ErrorKind::NotFound);
        assert!(removed.is_ok() || is_gone, "{removed:?}");
    }
    volume.trim().await.expect("room is given back");
    assert_eq!(volume.scan().await, Ok(Vec::new()));
    check(&volume, id, &held).await;
}

fn run(seed: u64) {
    let sim = Sim::new(seed);
    let random = sim.random();
    let size_bytes = [48 << 20, 200 << 20][random.range(0..2usize)];
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes, garbage: false, ..SimDiskSpec::default() });
    let part_bytes = [1 << 20, 4 << 20, 16 << 20][random.range(0..3usize)];
    let delayed_bytes = [0, 200 << 10, 64 << 20][random.range(0..3usize)];
    let ran = sim.run(async move {
        let thin = Arc::new(Thin::new(disk, part_bytes));
        let device: Arc<dyn Device> = thin.clone();
        let store = Format { volume: Uuid::from_u128(7), log_bytes: None };
        let format = VolumeFormat { store, secret: [9; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: false };
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        work(&thin, &random, Settings { delayed_bytes, ..Settings::default() }).await;
    });
    ran.expect("powered");
}

#[test]
fn a_device_without_room_refuses_new_data_only() {
    holdfast_harness::over_seeds(60, run);
}
