//! Damage that a volume must survive or name: the newest root lost in all its copies, and frames of the log.

use std::sync::Arc;

use holdfast_device::Device;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_model::Uuid;
use holdfast_volume::service::{Caller, FileKind, FileService, NewFile, Time};
use holdfast_volume::superblock::{Root, Superblock};
use holdfast_volume::{ErrorKind, Format, Settings, Volume, VolumeFormat, WallClock};

const BLOCK: u64 = 4096;

fn superblock(disk: &SimDisk) -> Superblock {
    Superblock::open(&disk.peek(0, BLOCK as usize)).expect("this version's").expect("it is whole")
}

/// The roots that can be read, each with where it stands.
fn roots(disk: &SimDisk) -> Vec<(u64, Root)> {
    let superblock = superblock(disk);
    let places = superblock.groups().into_iter().flat_map(|at| [at + BLOCK, at + 2 * BLOCK]);
    places.filter_map(|at| Some((at, Root::open(superblock.volume, &disk.peek(at, BLOCK as usize))?))).collect()
}

/// Loses the newest root in all its copies.
pub fn lose_newest_root(disk: &SimDisk) {
    let all = roots(disk);
    let newest = all.iter().map(|(_, root)| root.generation).max().expect("there is one");
    for (at, _) in all.iter().filter(|(_, root)| root.generation == newest) {
        disk.poke(*at, &[0x5a; BLOCK as usize]);
    }
}

fn clock() -> WallClock {
    Arc::new(|| Time { seconds: 1000, nanos: 0 })
}

async fn open(disk: &Arc<SimDisk>) -> Volume {
    Volume::open(disk.clone(), Settings::default(), clock()).await.expect("it opens")
}

async fn create(volume: &Volume, name: &str) {
    let new = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
    volume.create(&Caller::default(), volume.root(), name.as_bytes(), &new).await.expect("created");
}

async fn has(volume: &Volume, name: &str) -> bool {
    volume.lookup(&Caller::default(), volume.root(), name.as_bytes()).await.expect("looked up").is_some()
}

/// Runs on a disk with an empty volume.
fn with(test: impl AsyncFnOnce(Arc<SimDisk>) + 'static) {
    let sim = Sim::new(11);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let device: Arc<dyn Device> = disk.clone();
        let store = Format { volume: Uuid::from_u128(9), log_bytes: None };
        let format = VolumeFormat { store, secret: [4; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: true };
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        test(disk).await;
    });
    ran.expect("powered");
}

#[test]
fn what_only_a_lost_root_had_is_found_by_the_log() {
    with(async |disk| {
        let volume = open(&disk).await;
        create(&volume, "logged").await;
        volume.sync().await.expect("it lasts");
        create(&volume, "only in the root").await;
        volume.checkpoint().await.expect("it lasts");
        drop(volume);
        lose_newest_root(&disk);
        let volume = open(&disk).await;
        assert_eq!(volume.failure(), None);
        assert!(has(&volume, "logged").await && has(&volume, "only in the root").await);
        assert_eq!(volume.scan().await, Ok(Vec::new()));
        create(&volume, "behind").await;
        volume.sync().await.expect("it lasts");
        drop(volume);
        lose_newest_root(&disk);
        let volume = open(&disk).await;
        assert!(has(&volume, "only in the root").await && has(&volume, "behind").await);
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn roots_that_are_older_than_the_log_can_tell_are_not_gone_on_from() {
    with(async |disk| {
        let volume = open(&disk).await;
        create(&volume, "early").await;
        volume.checkpoint().await.expect("it lasts");
        let early: Vec<(u64, Vec<u8>)> =
            roots(&disk).iter().map(|(at, _)| (*at, disk.peek(*at, BLOCK as usize))).collect();
        // The ring of the log goes round.
        for round in 0..12 {
            for number in 0..200 {
                create(&volume, &format!("{round} {number}")).await;
            }
            volume.checkpoint().await.expect("it lasts");
        }
        create(&volume, "last").await;
        volume.sync().await.expect("it lasts");
        drop(volume);
        for (at, slot) in early {
            disk.poke(at, &slot);
        }
        let volume = Volume::open(disk.clone(), Settings::default(), clock()).await;
        let Ok(volume) = volume else { return };
        let why = volume.failure().expect("it takes no changes").to_owned();
        assert!(why.contains("log"), "{why}");
        let new = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
        let refused = volume.create(&Caller::default(), volume.root(), b"new", &new).await;
        assert_eq!(refused.expect_err("read-only").kind, ErrorKind::ReadOnly);
    });
}

#[test]
fn a_damaged_frame_before_others_makes_the_volume_read_only_and_says_so() {
    with(async |disk| {
        let volume = open(&disk).await;
        volume.checkpoint().await.expect("it lasts");
        let start = roots(&disk).into_iter().map(|(_, root)| root).max_by_key(|root| root.generation).expect("one").log;
        for name in ["one", "two", "three"] {
            create(&volume, name).await;
            volume.sync().await.expect("it lasts");
        }
        drop(volume);
        let image = disk.image();
        let log = superblock(&disk);
        let frame = |number: u64| log.log_at() + (start.sequence + number) % (log.log_bytes / BLOCK) * BLOCK;
        // The mark, and the frame of the second file.
        for (number, kept) in [(0, 0), (2, 1)] {
            disk.set_back(&image);
            disk.corrupt(frame(number)..frame(number) + BLOCK);
            let volume = open(&disk).await;
            let why = volume.failure().expect("it takes no changes").to_owned();
            assert!(why.contains("frame"), "{why}");
            for (index, name) in ["one", "two", "three"].into_iter().enumerate() {
                assert_eq!(has(&volume, name).await, index < kept, "{name} with frame {number} damaged");
            }
            let before = disk.image();
            drop(volume);
            disk.set_back(&before);
        }
        // Another volume's frames are no frames of this one.
        disk.set_back(&image);
        let strange: Vec<u8> = disk.peek(frame(0), 8 * BLOCK as usize).iter().map(|byte| byte ^ 1).collect();
        disk.poke(frame(0), &strange);
        assert!(open(&disk).await.failure().is_some());
        // Without damage all is there.
        disk.set_back(&image);
        let volume = open(&disk).await;
        assert_eq!(volume.failure(), None);
        assert!(has(&volume, "three").await);
    });
}

#[test]
fn any_one_superblock_is_enough_and_the_others_are_written_anew() {
    with(async |disk| {
        drop(open(&disk).await);
        let groups = superblock(&disk).groups();
        let image = disk.image();
        for kept in groups {
            disk.set_back(&image);
            for lost in groups.iter().filter(|at| **at != kept) {
                disk.poke(*lost, &[0; 3 * BLOCK as usize]);
            }
            let volume = open(&disk).await;
            assert_eq!((volume.mended(), volume.failure()), (2, None));
            for at in groups {
                assert_eq!(disk.peek(at, BLOCK as usize), disk.peek(kept, BLOCK as usize));
            }
        }
    });
}

#[test]
fn features_that_this_version_only_reads_make_the_volume_read_only() {
    with(async |disk| {
        let volume = open(&disk).await;
        create(&volume, "file").await;
        volume.shut_down().await.expect("closed");
        let later = Superblock { features: [0, 1 << 40, 0], ..superblock(&disk) };
        later.groups().iter().for_each(|at| disk.poke(*at, &later.seal()));
        let writes = disk.counters().writes;
        let volume = open(&disk).await;
        assert!(volume.failure().is_some_and(|why| why.contains("newer release")));
        assert!(has(&volume, "file").await);
        assert_eq!(disk.counters().writes, writes, "nothing was written");
    });
}
