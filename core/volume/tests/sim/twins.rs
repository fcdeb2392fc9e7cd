//! Volumes on a ground that has each block once, and keep their metadata twice for that: any one block of it may be bad.

use std::sync::Arc;

use holdfast_device::sim::{ErrorPersistence, Sim, SimDisk, SimDiskSpec, SimImage, SimRandom};
use holdfast_device::{Copies, Device, Durability, Geometry, Io, IoBuf, IoSlice};
use holdfast_model::Uuid;
use holdfast_volume::page::{PAGE_BYTES, Page};
use holdfast_volume::service::{Caller, FileKind, FileService, NewFile, Remove, Time};
use holdfast_volume::superblock::{JOURNAL, Superblock};
use holdfast_volume::{Format, Volume, VolumeFormat};

use crate::model::{difference, read_all};
use crate::plain::{NEW, WRITING, open};

const BLOCK: u64 = 4096;
const PAGE: u64 = PAGE_BYTES as u64;
/// Bytes of the slots of a zone.
const HEAD: u64 = 32 << 10;

/// A device that has one copy of each block, and can say so.
pub struct Single(pub Arc<dyn Device>);

impl Device for Single {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.0.read(offset, buf)
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        self.0.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        self.0.discard(offset, len)
    }
}

impl Copies for Single {
    fn copies(&self, _offset: u64, _len: u64) -> usize {
        1
    }

    fn read_copy(&self, _n: usize, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.0.read(offset, buf)
    }

    fn rewrite(&self, offset: u64, data: IoSlice) -> Io<()> {
        self.0.write(offset, data, Durability::Durable)
    }
}

fn superblock(disk: &SimDisk) -> Superblock {
    Superblock::open(&disk.peek(0, BLOCK as usize)).expect("this version's").expect("it is whole")
}

/// Where nodes stand, or stood: the first of both places.
fn nodes(disk: &SimDisk, of: &Superblock) -> Vec<u64> {
    let zones = (0..u64::from(of.zones())).map(|zone| of.zones_at() + zone * of.zone_bytes);
    let places = zones.flat_map(|zone| (zone + HEAD..zone + of.zone_bytes / 2).step_by(PAGE_BYTES));
    let is_node = |at: &u64| {
        let mut buf = IoBuf::zeroed(PAGE_BYTES);
        buf.copy_from_slice(&disk.peek(*at, PAGE_BYTES));
        Page::open(of.volume, *at, &buf).is_ok()
    };
    places.filter(is_node).collect()
}

/// Where slots of zones are: the first of both places.
fn slots(of: &Superblock) -> impl Iterator<Item = u64> + use<> {
    let (at, zone_bytes) = (of.zones_at(), of.zone_bytes);
    (0..u64::from(of.zones())).flat_map(move |zone| [0, HEAD / 2].map(|slot| at + zone * zone_bytes + slot))
}

/// One block of metadata, or one node, is bad from here on: it cannot be read, is something else, or is as it was before.
pub fn damage_one(disk: &SimDisk, random: &SimRandom, before: &SimImage) {
    let of = Superblock::open(&disk.peek(0, BLOCK as usize)).ok().flatten();
    let Some(of) = of.or_else(|| {
        // It was being written when the power failed.
        Superblock::open(&disk.peek(disk.spec().size_bytes - (64 << 10), BLOCK as usize)).ok().flatten()
    }) else {
        return;
    };
    assert!(of.has_twins());
    let twin = |at: u64| if random.chance(1, 2) { at } else { of.twin_of(at).expect("it has one") };
    let (at, len) = match random.range(0..5u32) {
        0 => (of.groups()[random.range(0..3usize)] + random.range(0..3u64) * BLOCK, BLOCK),
        1 => (twin(of.log_at() + random.range(0..of.log_frames()) * BLOCK), BLOCK),
        2 => {
            let slot = *random.pick(&slots(&of).collect::<Vec<_>>()).expect("there are zones");
            (twin(slot) + random.range(0..3u64) * BLOCK, BLOCK)
        }
        _ => match random.pick(&nodes(disk, &of)) {
            Some(node) => (twin(*node), PAGE),
            None => return,
        },
    };
    let inside = random.range(0..len / BLOCK) * BLOCK;
    match random.range(0..4u32) {
        0 => disk.fail_reads(at + inside..at + inside + BLOCK, ErrorPersistence::UntilRewritten),
        1 => disk.poke(at + inside, &[0; BLOCK as usize]),
        2 => disk.poke(at, &before.peek(at, len as usize)),
        _ => disk.corrupt(at + inside..at + inside + BLOCK),
    }
}

async fn make(disk: Arc<SimDisk>) -> Volume {
    let store = Format { volume: Uuid::from_u128(7), log_bytes: None };
    let format = VolumeFormat { store, secret: [9; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: false };
    let ground: Arc<dyn Device> = disk.clone();
    Volume::format_with_copies(Arc::new(Single(ground)), format, Time::default()).await.expect("formatted");
    open(disk).await.expect("opened")
}

/// Some directories with files, strict ones among them, a snapshot, and files that share blocks.
async fn fill(volume: &Volume) {
    let caller = Caller::default();
    let directory = NewFile { kind: FileKind::Directory, mode: 0o755, target: b"" };
    for number in 0..6u8 {
        let dir = volume.create(&caller, volume.root(), &[b'a' + number], &directory).await.expect("created").id;
        for inner in 0..40u8 {
            let name = format!("a file with a rather long name, so that leaves are filled: {inner:0>80}");
            let file = volume.create(&caller, dir, name.as_bytes(), &NEW).await.expect("created").id;
            let handle = volume.open(&caller, file, WRITING).await.expect("opened");
            let data = IoSlice::padded(&[number * 40 + inner; 8192]);
            volume.write(&handle, 0, data, 8192).await.expect("written");
            volume.close(handle).await.expect("closed");
        }
        if number == 3 {
            volume.create_snapshot("before").await.expect("made");
        }
        volume.checkpoint().await.expect("it lasts");
    }
}

#[test]
fn a_superblock_that_lost_a_write_takes_no_feature_back() {
    for group in 0..3 {
        let sim = Sim::new(3);
        let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 18 << 20, ..SimDiskSpec::default() });
        let made = disk.clone();
        let before = sim.run(async move {
            let volume = make(made.clone()).await;
            let before = made.image();
            volume.set_journal(64 << 10).await.expect("made");
            volume.shut_down().await.expect("closed");
            before
        });
        let before = before.expect("powered");
        sim.restart();
        let of = superblock(&disk);
        assert_eq!(of.features[1] & JOURNAL, JOURNAL);
        let at = of.groups()[group];
        disk.poke(at, &before.peek(at, BLOCK as usize));
        let ground = disk.clone();
        let opened = sim.run(async move {
            let volume = open(ground).await.expect("it opens");
            assert!(volume.journal().is_some(), "group {group}");
            assert_eq!(volume.scan().await, Ok(Vec::new()), "group {group}");
            volume.shut_down().await.expect("closed");
        });
        opened.expect("powered");
        for at in of.groups() {
            let found = Superblock::open(&disk.peek(at, BLOCK as usize)).expect("this version's");
            assert_eq!(found, Some(of), "group {group}");
        }
    }
}

#[test]
fn each_block_of_metadata_may_be_bad_and_is_mended() {
    let sim = Sim::new(3);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 18 << 20, ..SimDiskSpec::default() });
    let made = disk.clone();
    let found = sim.run(async move {
        let volume = make(made).await;
        fill(&volume).await;
        volume.shut_down().await.expect("closed");
        read_all(&volume).await
    });
    let files = found.expect("powered");
    sim.restart();
    let of = superblock(&disk);
    let (image, all) = (disk.image(), nodes(&disk, &of));
    let inside = |places: Vec<u64>, len: u64| -> Vec<u64> {
        places.into_iter().flat_map(|at| (at..at + len).step_by(BLOCK as usize)).collect()
    };
    let is_written = |at: &u64| disk.peek(*at, BLOCK as usize).iter().any(|byte| *byte != 0);
    let frames: Vec<u64> = inside(vec![of.log_at()], of.log_frames() * BLOCK);
    let firsts: Vec<u64> = [inside(all, PAGE), inside(slots(&of).collect(), 3 * BLOCK), frames].concat();
    let firsts: Vec<u64> = firsts.into_iter().filter(is_written).collect();
    assert!(firsts.len() > 150, "{} blocks", firsts.len());
    let (mut told, mut nodes_told) = (0, 0);
    for (number, first) in firsts.into_iter().enumerate() {
        let twin = of.twin_of(first).expect("it has one");
        let is_first = number % 3 > 0;
        let (bad, other) = if is_first { (first, twin) } else { (twin, first) };
        disk.clear_faults();
        disk.set_back(&image);
        match number % 2 {
            0 => disk.corrupt(bad..bad + BLOCK),
            _ => disk.fail_reads(bad..bad + BLOCK, ErrorPersistence::UntilRewritten),
        }
        // Once the first is mended the other one may be bad.
        for next in [other, bad] {
            let (ground, files) = (disk.clone(), files.clone());
            let mended = sim.run(async move {
                let volume = open(ground).await.expect("it opens");
                assert_eq!(volume.failure(), None, "block at {bad}");
                assert_eq!(difference(&files, &read_all(&volume).await), Vec::<String>::new(), "block at {bad}");
                assert_eq!(volume.scan().await, Ok(Vec::new()), "block at {bad}");
                // What does not count is written anew by the checkpoints that come.
                for name in [b"one", b"two"] {
                    volume.create(&Caller::default(), volume.root(), name, &NEW).await.expect("created");
                    let gone = volume.remove(&Caller::default(), volume.root(), name, Remove::File).await;
                    gone.expect("removed");
                    volume.checkpoint().await.expect("it lasts");
                }
                assert_eq!(volume.scan().await, Ok(Vec::new()), "block at {bad}");
                volume.shut_down().await.expect("closed");
                volume.mended()
            });
            let mended = mended.expect("powered");
            told += u64::from(mended > 0);
            nodes_told += u64::from(mended > 0 && first >= of.zones_at());
            sim.restart();
            disk.corrupt(next..next + BLOCK);
        }
    }
    assert!(told > 50 && nodes_told > 50, "{told} {nodes_told}");
}
