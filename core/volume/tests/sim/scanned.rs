//! Scans beside checkpoints: they hold up none, and find nothing that those explain, also where snapshots come and go and
//! where there is no room for what a scan reads.

use std::cell::Cell;

use futures_util::future::{join, join3};
use holdfast_device::IoSlice;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_volume::service::{Caller, FileService, Remove};
use holdfast_volume::{ErrorKind, ScanSettings, Volume, VolumeError};

use crate::plain::{NEW, WRITING, new_volume};
use crate::snapshots::Goes;

/// Whether it is only that there is no room.
fn is_full(error: &VolumeError) -> bool {
    assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
    true
}

/// A file of this name with so many blocks; false where there is no room.
async fn write(volume: &Volume, name: &str, from: u64, blocks: u64) -> bool {
    let caller = Caller::default();
    let id = match volume.create(&caller, volume.root(), name.as_bytes(), &NEW).await {
        Ok(facts) => facts.id,
        Err(error) if error.kind == ErrorKind::Exists => {
            volume.lookup(&caller, volume.root(), name.as_bytes()).await.expect("looked up").expect("it is there").id
        }
        Err(error) => return !is_full(&error),
    };
    let file = volume.open(&caller, id, WRITING).await.expect("opened");
    let bytes = vec![name.len() as u8; blocks as usize * 4096];
    let written = volume.write(&file, from * 4096, IoSlice::padded(&bytes), bytes.len()).await;
    volume.close(file).await.expect("closed");
    match written {
        Ok(_) => true,
        Err(error) => !is_full(&error),
    }
}

#[test]
fn a_checkpoint_does_not_wait_for_a_scan() {
    let sim = Sim::new(11);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 256 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let volume = new_volume(disk).await;
        for number in 0..2000 {
            assert!(write(&volume, &format!("file {number}"), 0, 1).await);
        }
        let (is_scanning, beside) = (Cell::new(false), Cell::new(0));
        let scan = async {
            let mut begun = |_| is_scanning.set(true);
            let scanned = volume.scan_with(&ScanSettings::default(), &mut begun).await.expect("scanned");
            is_scanning.set(false);
            scanned
        };
        let changes = async {
            volume.sync().await.expect("it lasts");
            for number in 0..6 {
                assert!(write(&volume, &format!("file {number}"), number, 1).await);
                volume.checkpoint().await.expect("it lasts");
                beside.set(beside.get() + u32::from(is_scanning.get()));
            }
        };
        let (scanned, ()) = join(scan, changes).await;
        assert_eq!(scanned.verbs, Vec::new());
        assert!(beside.get() >= 3, "{} checkpoints while {} nodes were read", beside.get(), scanned.nodes);
    });
    ran.expect("powered");
}

/// Changes files, and makes and destroys snapshots of them, until `most` was done.
async fn churn(volume: &Volume, random: &SimRandom, most: u32) {
    let caller = Caller::default();
    for _ in 0..most {
        let name = format!("f{}", random.range(0..12u32));
        match random.range(0..12u32) {
            0..6 => _ = write(volume, &name, random.range(0..400u64), random.range(1..200u64)).await,
            6..8 => {
                let removed = volume.remove(&caller, volume.root(), name.as_bytes(), Remove::File).await;
                assert!(removed.is_ok() || removed.is_err_and(|error| error.kind == ErrorKind::NotFound));
            }
            8 => {
                let made = volume.create_snapshot(&format!("s{}", random.range(0..4u32))).await.map(drop);
                let fine = [ErrorKind::Exists, ErrorKind::NoSpace, ErrorKind::Busy];
                assert!(made.is_ok() || made.is_err_and(|error| fine.contains(&error.kind)));
            }
            9 => {
                let name = format!("s{}", random.range(0..4u32));
                match volume.destroy_snapshot(&name).await {
                    Ok(()) => drop(volume.reclaim(&Goes(true)).await.expect("given back")),
                    Err(error) => assert_eq!(error.kind, ErrorKind::NotFound, "{error}"),
                }
            }
            _ => volume.checkpoint().await.expect("it lasts"),
        }
    }
}

fn run(seed: u64) {
    let sim = Sim::new(seed);
    let random = sim.random();
    // Some with so little room that what a scan reads is given away.
    let size_bytes = [16 << 20, 18 << 20, 64 << 20][seed as usize % 3];
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let volume = new_volume(disk).await;
        churn(&volume, &random, 20).await;
        let working = Cell::new(true);
        let changes = async {
            churn(&volume, &random, 120).await;
            working.set(false);
        };
        let scans = async {
            while working.get() {
                let buckets = [1, 16, 1 << 20][random.range(0..3usize)];
                let settings = ScanSettings { buckets, ..ScanSettings::default() };
                let scanned = volume.scan_with(&settings, &mut |_| ()).await.expect("scanned");
                assert_eq!((scanned.verbs, scanned.is_cut), (Vec::new(), false), "while files change");
            }
        };
        // One is read at a time; the other one waits.
        let other = async {
            while working.get() {
                assert_eq!(volume.spotfix().await.map(|fixed| fixed.left), Ok(Vec::new()));
                assert_eq!(volume.scan().await, Ok(Vec::new()), "while files change");
            }
        };
        join3(changes, scans, other).await;
        assert_eq!(volume.scan().await, Ok(Vec::new()), "after all changes");
    });
    ran.expect("powered");
}

#[test]
fn scans_beside_checkpoints_and_snapshots_find_nothing() {
    holdfast_harness::over_seeds(300, run);
}
