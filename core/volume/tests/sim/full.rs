//! Volumes without a zone that is nobody's, whose free room is in small pieces.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all, join3};
use holdfast_device::IoSlice;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_harness::over_seeds;
use holdfast_volume::ErrorKind;
use holdfast_volume::service::{Caller, FileService, Flush, Remove};

use crate::model::is_full;
use crate::plain::{NEW, WRITING, new_volume};

const MIB: usize = 1 << 20;

/// Small files until the volume is full; every second of them is removed. Answers how many bytes are free then.
async fn fill_in_pieces(volume: &holdfast_volume::Volume) -> u64 {
    let caller = Caller::default();
    let name = |number: u32| format!("s{number}").into_bytes();
    let mut made = 0;
    loop {
        let created = volume.create(&caller, volume.root(), &name(made), &NEW).await;
        let Ok(created) = created.inspect_err(|error| assert_eq!(error.kind, ErrorKind::NoSpace)) else { break };
        let handle = volume.open(&caller, created.id, WRITING).await.expect("opened");
        let len = 4096 * (1 + made as usize % 3);
        let written = volume.write(&handle, 0, IoSlice::padded(&vec![made as u8; len]), len).await;
        volume.close(handle).await.expect("closed");
        made += 1;
        if let Err(error) = written {
            assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
            break;
        }
    }
    // All of them have their place.
    volume.sync().await.expect("it lasts");
    for number in (0..made).step_by(2) {
        volume.remove(&caller, volume.root(), &name(number), Remove::File).await.expect("removed");
    }
    volume.sync().await.expect("it lasts");
    volume.usage(volume.root()).await.expect("known").free_bytes
}

#[test]
fn large_writes_find_room_in_small_pieces() {
    let sim = Sim::new(4);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 48 << 20, garbage: false, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let (volume, caller) = (new_volume(disk).await, Caller::default());
        let free = fill_in_pieces(&volume).await;
        assert!(free > 8 << 20, "{free} bytes are free");
        let id = volume.create(&caller, volume.root(), b"large", &NEW).await.expect("created").id;
        let handle = volume.open(&caller, id, WRITING).await.expect("opened");
        let data = IoSlice::padded(&vec![7; MIB]);
        let mut at = 0;
        let refused = loop {
            match volume.write(&handle, at, data.clone(), MIB).await {
                Ok(done) => at += done as u64,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind, ErrorKind::NoSpace, "{refused}");
        assert!(at > free / 2, "{at} bytes were written, {free} were free");
        let read = volume.read(&handle, 0, at as usize).await.expect("read").to_vec();
        assert!(read.len() as u64 == at && read.iter().all(|byte| *byte == 7));
        volume.close(handle).await.expect("closed");
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
    ran.expect("powered");
}

/// Small files until there is no room; answers how many.
async fn make_small(volume: &holdfast_volume::Volume) -> u32 {
    let caller = Caller::default();
    for number in 0.. {
        let name = format!("s{number}").into_bytes();
        let created = volume.create(&caller, volume.root(), &name, &NEW).await;
        let Ok(created) = created.inspect_err(|error| assert_eq!(error.kind, ErrorKind::NoSpace)) else {
            return number;
        };
        let handle = volume.open(&caller, created.id, WRITING).await.expect("opened");
        let written = volume.write(&handle, 0, IoSlice::padded(&[7; 1500]), 1500).await;
        volume.close(handle).await.expect("closed");
        if let Err(error) = written {
            assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
            return number + 1;
        }
    }
    unreachable!("a volume is full some day")
}

/// One file until there is no room; answers how many bytes it has, and removes it.
async fn make_large(volume: &holdfast_volume::Volume) -> u64 {
    let caller = Caller::default();
    let id = volume.create(&caller, volume.root(), b"large", &NEW).await.expect("created").id;
    let handle = volume.open(&caller, id, WRITING).await.expect("opened");
    let (data, mut at) = (IoSlice::padded(&vec![7; MIB]), 0);
    while let Ok(done) = volume.write(&handle, at, data.clone(), MIB).await {
        at += done as u64;
    }
    volume.close(handle).await.expect("closed");
    volume.remove(&caller, volume.root(), b"large", Remove::File).await.expect("removed");
    at
}

#[test]
fn room_that_one_kind_of_use_had_is_there_for_another() {
    let sim = Sim::new(4);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 128 << 20, garbage: false, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let (volume, caller) = (new_volume(disk.clone()).await, Caller::default());
        let (large, mut small) = (make_large(&volume).await, 0);
        assert!(large > 100 << 20, "{large} bytes");
        for round in 0..2 {
            let made = make_small(&volume).await;
            assert!(made > 30_000 && made + made / 10 > small, "round {round}: {made} files, {small} before");
            small = made;
            assert_eq!(volume.scan().await, Ok(Vec::new()), "full of small files");
            for number in 0..made {
                let name = format!("s{number}").into_bytes();
                volume.remove(&caller, volume.root(), &name, Remove::File).await.expect("removed");
            }
            volume.checkpoint().await.expect("it lasts");
            volume.checkpoint().await.expect("it lasts");
            let free = volume.usage(volume.root()).await.expect("known").free_bytes;
            assert!(free > large / 10 * 8, "round {round}: {free} bytes are free, a file had {large} before");
            let again = make_large(&volume).await;
            assert!(again > large / 10 * 9 && again + (4 << 20) > free, "round {round}: {again} bytes, {large} before");
            assert_eq!(volume.scan().await, Ok(Vec::new()), "after a large file");
        }
        drop(volume);
        let volume = crate::plain::open(disk).await.expect("it opens");
        assert_eq!(volume.scan().await, Ok(Vec::new()), "as opened again");
    });
    ran.expect("powered");
}

/// Writes pieces of some files of its own until it is told to end.
async fn write_pieces(volume: &holdfast_volume::Volume, random: &SimRandom, own: u32, is_over: &Cell<bool>) {
    let caller = Caller::default();
    while !is_over.get() {
        let name = format!("f{own} {}", random.range(0..5u32)).into_bytes();
        let made = match volume.create(&caller, volume.root(), &name, &NEW).await {
            Err(error) if error.kind == ErrorKind::Exists => {
                volume.lookup(&caller, volume.root(), &name).await.map(|found| found.expect("it is there"))
            }
            made => made,
        };
        let Ok(facts) = made.inspect_err(|error| assert!(is_full(error.kind), "{error}")) else { continue };
        let handle = volume.open(&caller, facts.id, WRITING).await.expect("opened");
        let (at, len) = (random.range(0..700_000u64), random.range(1..150_000usize));
        let written = volume.write(&handle, at, IoSlice::padded(&vec![7; len]), len).await;
        assert!(written.as_ref().is_ok_and(|done| *done > 0) || is_full(written.expect_err("refused").kind));
        if random.chance(1, 5)
            && let Err(error) = volume.flush(facts.id, Flush::All).await
        {
            assert!(is_full(error.kind), "{error}");
        }
        volume.close(handle).await.expect("closed");
    }
}

#[test]
fn writers_of_a_full_volume_and_snapshots_do_not_wait_for_each_other_for_good() {
    over_seeds(20, |seed| {
        let sim = Sim::new(seed);
        let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 16 << 20, garbage: false, ..SimDiskSpec::default() });
        let (random, clock) = (sim.random(), sim.clock());
        let ran = sim.run(async move {
            let (volume, is_over) = (Arc::new(new_volume(disk).await), Cell::new(false));
            let writers = join_all((0..3).map(|own| write_pieces(&volume, &random, own, &is_over)));
            let kept = async {
                for number in 0..40 {
                    let name = format!("s{number}");
                    let made = volume.create_snapshot(&name).await;
                    if let Err(error) = &made {
                        assert!(is_full(error.kind) || error.kind == ErrorKind::Busy, "{error}");
                    }
                    if made.is_ok() && random.chance(2, 3) {
                        volume.destroy_snapshot(&name).await.expect("destroyed");
                    }
                    clock.sleep(Duration::from_millis(50)).await;
                }
                is_over.set(true);
            };
            let used = async {
                join(writers, kept).await;
                volume.shut_down().await.expect("closed");
            };
            let watched = async {
                for _ in 0..60 {
                    clock.sleep(Duration::from_secs(10)).await;
                    if is_over.get() {
                        return;
                    }
                }
                panic!("they wait for each other");
            };
            join3(volume.clone().maintain(clock.clone()), used, watched).await;
        });
        ran.expect("it comes to its end");
    });
}
