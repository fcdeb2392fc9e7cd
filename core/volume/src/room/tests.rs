//! Room that was set aside, and ranges that are zeroed, on volumes that are full.

use std::sync::Arc;

use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_device::{Device, IoSlice};
use holdfast_harness::over_seeds;
use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::error::ErrorKind;
use crate::open_files::Handle;
use crate::service::{Allocate, Caller, FileKind, FileService, NewFile, OpenMode, Remove, Seek, Time};
use crate::store::{Format, Settings};
use crate::volume::{Volume, VolumeFormat};

const NEW: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
const MODE: OpenMode = OpenMode { read: true, write: true, truncate: false };
const MIB: u64 = 1 << 20;

/// Runs a test on an empty volume.
fn with(seed: u64, size_bytes: u64, settings: Settings, test: impl AsyncFnOnce(Volume, SimRandom) + 'static) {
    let sim = Sim::new(seed);
    let random = sim.random();
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes, garbage: false, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let device: Arc<dyn Device> = disk;
        let store = Format { volume: Uuid::from_u128(8), log_bytes: None };
        let format = VolumeFormat { store, secret: [3; 16], owner: (0, 0), is_case_sensitive: false, mode: 0o755 };
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        let volume = Volume::open(device, settings, Arc::new(Time::default)).await.expect("opened");
        test(volume, random).await;
    });
    ran.expect("powered");
}

async fn create(volume: &Volume, name: &str) -> Handle {
    let facts = volume.create(&Caller::default(), volume.root(), name.as_bytes(), &NEW).await.expect("created");
    volume.open(&Caller::default(), facts.id, MODE).await.expect("opened")
}

/// Writes until all is written, or the volume refuses more.
async fn write(volume: &Volume, handle: &Handle, offset: u64, bytes: &[u8]) -> Result<(), ErrorKind> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let written = volume.write(handle, offset + done as u64, IoSlice::padded(rest), rest.len()).await;
        done += written.map_err(|error| error.kind)?;
    }
    Ok(())
}

/// Files until there is room for no more, not for the smallest.
async fn fill(volume: &Volume) {
    for (round, len) in [256 << 10, 16 << 10, 4 << 10, 2000, 100].into_iter().enumerate() {
        for number in 0.. {
            let name = format!("full {round} {number}");
            let made = volume.create(&Caller::default(), volume.root(), name.as_bytes(), &NEW).await;
            let Ok(made) = made.inspect_err(|error| assert_eq!(error.kind, ErrorKind::NoSpace)) else { break };
            let handle = volume.open(&Caller::default(), made.id, MODE).await.expect("opened");
            let written = write(volume, &handle, 0, &vec![number as u8; len]).await;
            volume.close(handle).await.expect("closed");
            if let Err(kind) = written {
                assert_eq!(kind, ErrorKind::NoSpace);
                break;
            }
        }
        volume.sync().await.expect("it lasts");
    }
}

async fn content(volume: &Volume, handle: &Handle) -> Vec<u8> {
    volume.read(handle, 0, 64 * MIB as usize).await.expect("read").to_vec()
}

#[test]
fn room_that_was_set_aside_takes_writes_of_any_size_on_a_full_volume() {
    for delayed_bytes in [0, Settings::default().delayed_bytes] {
        let settings = Settings { delayed_bytes, ..Settings::default() };
        with(1, 64 * MIB, settings, async move |volume, _| {
            let (kept, log) = (create(&volume, "kept").await, create(&volume, "log").await);
            let how = Allocate::Reserve { keep_size: false };
            volume.allocate(&kept, 0, 10 * MIB, how).await.expect("there is room");
            volume.allocate(&log, 0, 4 * MIB, Allocate::Reserve { keep_size: true }).await.expect("there is room");
            fill(&volume).await;
            let mut model = vec![0; 10 * MIB as usize];
            let writes = [
                (0, 128 << 10),
                (MIB, MIB),
                (3 * MIB + 77, MIB),
                (5 * MIB, 3 * MIB),
                (512 << 10, 300_001),
                (8 * MIB + 4096, 2 * MIB - 4096),
            ];
            for (number, (at, len)) in writes.into_iter().enumerate() {
                let bytes = vec![number as u8 + 1; len as usize];
                let written = write(&volume, &kept, at, &bytes).await;
                assert_eq!(written, Ok(()), "{len} bytes at {at}, {delayed_bytes} bytes wait at most");
                model[at as usize..(at + len) as usize].copy_from_slice(&bytes);
            }
            assert!(content(&volume, &kept).await == model);
            let (mut end, mut model) = (0, Vec::new());
            for (number, len) in [300_001, 5, 1 << 20, 700_000, 4096, 400_000].into_iter().enumerate() {
                let bytes = vec![number as u8 + 1; len];
                assert_eq!(write(&volume, &log, end, &bytes).await, Ok(()), "{len} bytes behind {end}");
                model.extend_from_slice(&bytes);
                end += len as u64;
            }
            assert!(content(&volume, &log).await == model);
            volume.remove(&Caller::default(), volume.root(), b"full 0 0", Remove::File).await.expect("removed");
            for handle in [kept, log] {
                volume.close(handle).await.expect("closed");
            }
            assert_eq!(volume.scan().await, Ok(Vec::new()));
        });
    }
}

/// What is zeroed, given back or set aside is so as a whole, or the file is as it was.
#[test]
fn a_full_volume_refuses_ranges_as_a_whole() {
    const SIZE: u64 = 2 * MIB;
    over_seeds(60, |seed| {
        with(seed, 24 * MIB, Settings::default(), async |volume, random| {
            let handle = create(&volume, "file").await;
            let mut model = vec![0; SIZE as usize];
            random.fill(&mut model);
            write(&volume, &handle, 0, &model).await.expect("there is room");
            volume.allocate(&handle, SIZE / 2, SIZE / 4, Allocate::Punch).await.expect("given back");
            model[SIZE as usize / 2..][..SIZE as usize / 4].fill(0);
            if random.chance(2, 3) {
                volume.create_snapshot("before").await.expect("made");
            }
            fill(&volume).await;
            let (mut done, mut refused) = (0, 0);
            for number in 0..60 {
                if random.chance(1, 3) {
                    let name = format!("full {} {}", random.range(0..3u32), random.range(0..40u32));
                    let gone = volume.remove(&Caller::default(), volume.root(), name.as_bytes(), Remove::File).await;
                    assert!(gone.is_ok() || gone.is_err_and(|error| error.kind == ErrorKind::NotFound));
                }
                let (at, len) = (random.range(0..SIZE), random.range(1..SIZE / 4));
                let (at, len) = if random.chance(1, 2) { (at, len) } else { (at & !4095, len.next_multiple_of(4096)) };
                let keep_size = random.chance(1, 2);
                let how = match random.range(0..4u32) {
                    0 => Allocate::Punch,
                    1 => Allocate::Reserve { keep_size },
                    _ => Allocate::Zero { keep_size },
                };
                let asked = volume.allocate(&handle, at, len, how).await;
                match &asked {
                    Ok(()) => {
                        let end = (at + len) as usize;
                        if end > model.len() && !matches!(how, Allocate::Punch) && !keep_size {
                            model.resize(end, 0);
                        }
                        let zeros = at as usize..end.min(model.len());
                        if !matches!(how, Allocate::Reserve { .. }) && zeros.start < zeros.end {
                            model[zeros].fill(0);
                        }
                        done += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                        refused += 1;
                    }
                }
                let is_same = content(&volume, &handle).await == model;
                assert!(is_same, "request {number}, {how:?} of {len} bytes at {at}: {asked:?}");
            }
            assert!(done > 0 && done + refused == 60);
            volume.close(handle).await.expect("closed");
            assert_eq!(volume.scan().await, Ok(Vec::new()));
        });
    });
}

#[test]
fn a_file_with_data_always_takes_some_room() {
    with(1, 32 * MIB, Settings::default(), async |volume, _| {
        for len in [1, 511, 512, 2048, 2049, 4096, 100_000] {
            let handle = create(&volume, &format!("file {len}")).await;
            let taken = async |when: &str| {
                let facts = volume.stat(handle.id()).await.expect("known");
                assert_eq!(facts.size_bytes, len as u64);
                let least = facts.size_bytes.next_multiple_of(512);
                let taken = facts.allocated_bytes.next_multiple_of(512);
                assert!(taken >= least, "{taken} bytes for {len}, {when}");
                assert!(taken <= facts.size_bytes.next_multiple_of(BLOCK_BYTES), "{taken} bytes for {len}, {when}");
            };
            write(&volume, &handle, 0, &vec![7; len]).await.expect("there is room");
            taken("as it waits").await;
            volume.sync().await.expect("it lasts");
            taken("in its place").await;
            assert_eq!(volume.seek(&handle, 0, Seek::Data).await, Ok(0));
            volume.close(handle).await.expect("closed");
        }
        let handle = create(&volume, "grows").await;
        write(&volume, &handle, 0, &[7; 2000]).await.expect("there is room");
        write(&volume, &handle, 2000, &[7; 2000]).await.expect("there is room");
        assert_eq!(volume.stat(handle.id()).await.expect("known").allocated_bytes, BLOCK_BYTES);
        volume.close(handle).await.expect("closed");
    });
}
