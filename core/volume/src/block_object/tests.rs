//! What a disk that is a file keeps, refuses, and leaves to whoever has the file.

use std::cell::RefCell;

use futures_util::FutureExt;
use holdfast_device::ExtentKind;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};

use super::*;
use crate::integrity::Integrity;
use crate::quota::{self, Subject};
use crate::service::{FileKind, FileService, NewFile, Remove, SetAttributes, Time};
use crate::store::{Format, Settings};
use crate::volume::{VolumeFormat, WallClock};

const BLOCK: u64 = BLOCK_BYTES;
const NEW: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
const READING: OpenMode = OpenMode { read: true, write: false, truncate: false };

thread_local! {
    /// What was given up on its way.
    static LEFT: RefCell<Vec<Pin<Box<dyn Future<Output = ()>>>>> = const { RefCell::new(Vec::new()) };
}

struct World {
    disk: Arc<SimDisk>,
    volume: Arc<Volume>,
    caller: Caller,
}

async fn open(disk: &Arc<SimDisk>) -> Arc<Volume> {
    let clock: WallClock = Arc::new(Time::default);
    Arc::new(Volume::open(disk.clone(), Settings::default(), clock).await.expect("it opens"))
}

/// Runs a test on a new volume.
fn with(test: impl AsyncFnOnce(World) + 'static) {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, garbage: true, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let device: Arc<dyn Device> = disk.clone();
        let store = Format { volume: Uuid::from_u128(5), log_bytes: None };
        let format = VolumeFormat { store, secret: [3; 16], owner: (0, 0), is_case_sensitive: false, mode: 0o755 };
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        let volume = open(&disk).await;
        test(World { disk, volume, caller: Caller::default() }).await;
    });
    ran.expect("powered");
}

fn finish() -> Finish {
    Arc::new(|left| LEFT.with_borrow_mut(|all| all.push(left)))
}

/// Blocks that differ from each other, and from those of another seed.
fn pattern(seed: u8, len: u64) -> IoSlice {
    let bytes: Vec<u8> = (0..len).map(|at| (at / BLOCK) as u8 ^ (at as u8).rotate_left(3) ^ seed).collect();
    IoSlice::padded(&bytes)
}

impl World {
    async fn sparse(&self, name: &str, size: u64) -> FileId {
        let created = self.volume.create(&self.caller, self.volume.root(), name.as_bytes(), &NEW).await;
        let id = created.expect("created").id;
        self.resize(id, size).await;
        id
    }

    async fn resize(&self, id: FileId, size: u64) {
        let set = SetAttributes { size_bytes: Some(size), ..SetAttributes::default() };
        self.volume.set(&self.caller, id, &set).await.expect("it has that length");
    }

    async fn attach(&self, id: FileId) -> Result<FileObject, VolumeError> {
        FileObject::open(self.volume.clone(), &self.caller, id, finish()).await
    }

    async fn object(&self, name: &str, size: u64) -> FileObject {
        let id = self.sparse(name, size).await;
        self.attach(id).await.expect("it is a disk")
    }

    async fn bytes(&self, id: FileId) -> Vec<u8> {
        let handle = self.volume.open(&self.caller, id, READING).await.expect("it can be opened");
        let bytes = self.volume.read(&handle, 0, 1 << 30).await.expect("it can be read").to_vec();
        self.volume.close(handle).await.expect("it can be closed");
        bytes
    }
}

async fn read(object: &FileObject, offset: u64, len: u64) -> Vec<u8> {
    let mut buf = IoBuf::new(len as usize);
    buf.fill(0xee);
    object.read(offset, buf).await.expect("it can be read").to_vec()
}

fn runs(found: &[Extent]) -> Vec<(u64, ExtentKind)> {
    found.iter().map(|run| (run.len / BLOCK, run.kind)).collect()
}

#[test]
fn ids_differ_by_volume_number_and_generation_and_keep_what_says_which_ids_they_are() {
    let volume = holdfast_model::uuid_from_random([0x5a; 16]);
    let other = holdfast_model::uuid_from_random([0x5b; 16]);
    let mut seen = std::collections::HashSet::from([volume, other]);
    let numbers = (0..62).map(|bit| 1u64 << bit).chain([3, (1 << 62) - 1]);
    for number in numbers {
        for generation in [1, 2, u32::MAX] {
            for of in [volume, other] {
                let id = object_id(of, FileId { number, generation });
                assert!(seen.insert(id), "{number}.{generation}");
                assert_eq!((id.get_version_num(), id.get_variant()), (4, of.get_variant()));
            }
        }
    }
}

#[test]
fn a_disk_is_as_its_file_is_and_the_file_as_the_disk_was_written() {
    with(async |world| {
        let object = world.object("disk", 64 * BLOCK).await;
        let id = object.file();
        assert_eq!((object.geometry().size_bytes, object.geometry().physical_sector_bytes), (64 * BLOCK, 4096));
        assert_eq!(runs(&object.extents(0, 64 * BLOCK, 9).await.expect("known")), [(64, ExtentKind::Hole)]);
        object.write(4 * BLOCK, pattern(1, 2 * BLOCK), Durability::Cached).await.expect("written");
        object.write(8 * BLOCK, pattern(2, BLOCK), Durability::Durable).await.expect("written");
        object.write_zeroes(10 * BLOCK, 2 * BLOCK, Durability::Cached, true).await.expect("zeroed");
        // Holes, blocks that wait, data and room without data in one read.
        let mut expected = vec![0; 64 * BLOCK as usize];
        expected[4 * 4096..6 * 4096].copy_from_slice(&pattern(1, 2 * BLOCK));
        expected[8 * 4096..9 * 4096].copy_from_slice(&pattern(2, BLOCK));
        assert!(read(&object, 0, 64 * BLOCK).await == expected);
        assert!(world.bytes(id).await == expected, "files are read with what was written to disks");
        let found = object.extents(3 * BLOCK, 10 * BLOCK, 9).await.expect("known");
        let (data, hole) = (ExtentKind::Data, ExtentKind::Hole);
        let whole = [(1, hole), (2, data), (2, hole), (1, data), (1, hole), (2, ExtentKind::Zero), (1, hole)];
        assert_eq!(runs(&found), whole);
        assert_eq!(runs(&object.extents(3 * BLOCK, 10 * BLOCK, 2).await.expect("known")), whole[..2]);
        object.unmap(5 * BLOCK, BLOCK, Durability::Durable).await.expect("given back");
        expected[5 * 4096..6 * 4096].fill(0);
        assert!(read(&object, 0, 64 * BLOCK).await == expected);
        object.close().await.expect("closed");
        assert!(world.bytes(id).await == expected);
        assert_eq!(world.volume.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn only_files_of_whole_blocks_are_disks_and_each_once() {
    with(async |world| {
        for size in [0, 1, BLOCK - 1, BLOCK + 1] {
            let id = world.sparse(&format!("of {size}"), size).await;
            assert_eq!(world.attach(id).await.err().expect("no whole blocks").kind, ErrorKind::Invalid, "{size}");
        }
        let object = world.object("disk", BLOCK).await;
        let id = object.file();
        assert_eq!(world.volume.block_objects(), [id]);
        assert_eq!(world.attach(id).await.err().expect("it is one").kind, ErrorKind::Busy);
        assert_eq!(world.volume.keep_off_objects(id).err().expect("it is one").kind, ErrorKind::Busy);
        object.close().await.expect("closed");
        let kept = [world.volume.keep_off_objects(id), world.volume.keep_off_objects(id)].map(Result::unwrap);
        for one in kept {
            assert_eq!(world.attach(id).await.err().expect("it is kept off").kind, ErrorKind::Busy);
            drop(one);
        }
        assert_eq!(world.volume.block_objects(), []);
        world.attach(id).await.expect("nobody minds").close().await.expect("closed");
    });
}

#[test]
fn what_is_durable_is_there_after_power_was_lost_and_the_rest_is_old_or_new() {
    let sim = Sim::new(7);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let on = disk.clone();
    let id = sim.run(async move {
        let device: Arc<dyn Device> = on.clone();
        let store = Format { volume: Uuid::from_u128(5), log_bytes: None };
        let format = VolumeFormat { store, secret: [3; 16], owner: (0, 0), is_case_sensitive: false, mode: 0o755 };
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        let world = World { volume: open(&on).await, disk: on, caller: Caller::default() };
        let object = world.object("disk", 8 * BLOCK).await;
        object.write(0, pattern(1, 4 * BLOCK), Durability::Durable).await.expect("written");
        // In place, and a flush that covers only what came before.
        object.write(0, pattern(2, BLOCK), Durability::Durable).await.expect("written");
        object.write(BLOCK, pattern(3, BLOCK), Durability::Cached).await.expect("written");
        object.flush().await.expect("it lasts");
        object.write(2 * BLOCK, pattern(4, BLOCK), Durability::Cached).await.expect("written");
        object.unmap(3 * BLOCK, BLOCK, Durability::Durable).await.expect("given back");
        object.grow(16 * BLOCK).await.expect("grown");
        object.file()
    });
    let id = id.expect("powered");
    sim.cut_power();
    sim.restart();
    let found = sim.run(async move {
        let volume = open(&disk).await;
        let object = FileObject::open(volume, &Caller::default(), id, finish()).await.expect("it is a disk");
        assert_eq!(object.geometry().size_bytes, 16 * BLOCK);
        read(&object, 0, 16 * BLOCK).await
    });
    let found = found.expect("powered");
    let block = |at: usize| &found[at * 4096..(at + 1) * 4096];
    assert!(block(0) == &pattern(2, BLOCK)[..] && block(1) == &pattern(3, BLOCK)[..]);
    let [old, new] = [&pattern(1, 4 * BLOCK)[2 * 4096..3 * 4096], &pattern(4, BLOCK)[..]];
    assert!(block(2) == old || block(2) == new);
    assert!(found[3 * 4096..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_clone_takes_no_room_and_follows_neither_its_source_nor_a_snapshot() {
    with(async |world| {
        let (source, target) = (world.object("one", 16 * BLOCK).await, world.object("other", 16 * BLOCK).await);
        source.write(0, pattern(1, 8 * BLOCK), Durability::Durable).await.expect("written");
        let clones = target.cloning().expect("files clone");
        assert_eq!(clones.clone_domain(), world.volume.id());
        clones.clone_range(source.id(), 0, 4 * BLOCK, 8 * BLOCK).await.expect("cloned");
        source.write(BLOCK, pattern(9, BLOCK), Durability::Cached).await.expect("written");
        assert!(read(&target, 4 * BLOCK, 8 * BLOCK).await == pattern(1, 8 * BLOCK)[..]);
        world.volume.create_snapshot("then").await.expect("made");
        target.write(4 * BLOCK, pattern(5, BLOCK), Durability::Durable).await.expect("written");
        let past = world.volume.open_snapshot("then").expect("it is there");
        let handle = past.open(&world.caller, target.file(), READING).await.expect("it can be opened");
        let kept = past.read(&handle, 4 * BLOCK, BLOCK as usize).await.expect("it can be read").to_vec();
        past.close(handle).await.expect("closed");
        assert!(kept == pattern(1, 8 * BLOCK)[..4096], "a snapshot has what the disk held");
        let unknown = clones.clone_range(Uuid::from_u128(99), 0, 0, BLOCK).await;
        assert_eq!(unknown.expect_err("no such disk").kind, IoErrorKind::Invalid);
        let source_id = source.id();
        source.close().await.expect("closed");
        let closed = clones.clone_range(source_id, 0, 0, BLOCK).await;
        assert_eq!(closed.expect_err("it is no disk any more").kind, IoErrorKind::Invalid);
        target.close().await.expect("closed");
        drop(past);
        assert_eq!(world.volume.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn strict_files_keep_checksums_of_what_their_disks_are_written() {
    with(async |world| {
        let id = world.sparse("disk", 16 * BLOCK).await;
        world.volume.set_integrity(&world.caller, id, Integrity::Strict).await.expect("strict");
        let object = world.attach(id).await.expect("it is a disk");
        for durability in [Durability::Cached, Durability::Durable] {
            object.write(2 * BLOCK, pattern(1, 3 * BLOCK), durability).await.expect("written");
        }
        let mut expected = vec![0; 16 * BLOCK as usize];
        expected[2 * 4096..5 * 4096].copy_from_slice(&pattern(1, 3 * BLOCK));
        assert!(read(&object, 0, 16 * BLOCK).await == expected);
        assert!(world.volume.checksum_counts().checked >= 3, "{:?}", world.volume.checksum_counts());
        object.close().await.expect("closed");
    });
}

#[test]
fn quotas_and_full_volumes_refuse_for_want_of_room() {
    with(async |world| {
        let object = world.object("disk", 32 * BLOCK).await;
        let limits = quota::Limits { hard_bytes: Some(4 * BLOCK), ..quota::Limits::default() };
        let id = object.file();
        let set = SetAttributes { uid: Some(7), ..SetAttributes::default() };
        world.volume.set(&world.caller, id, &set).await.expect("given away");
        world.volume.set_quota(Subject::User(7), limits).await.expect("limited");
        object.write(0, pattern(1, 2 * BLOCK), Durability::Durable).await.expect("there is room");
        for durability in [Durability::Cached, Durability::Durable] {
            let refused = object.write(8 * BLOCK, pattern(2, 16 * BLOCK), durability).await;
            assert_eq!(refused.expect_err("the quota is used up").kind, IoErrorKind::NoSpace);
        }
        object.write(0, pattern(3, 2 * BLOCK), Durability::Durable).await.expect("it has that room");
        assert!(read(&object, 0, 2 * BLOCK).await == pattern(3, 2 * BLOCK)[..]);
        object.close().await.expect("closed");
    });
}

#[test]
fn a_request_that_is_given_up_is_brought_to_its_end_and_a_close_waits_for_it() {
    with(async |world| {
        let object = world.object("disk", 8 * BLOCK).await;
        let id = object.file();
        let writing = object.write(0, pattern(1, 2 * BLOCK), Durability::Durable);
        assert!(matches!(writing, Io::Pending(_)), "the device takes its time");
        drop(writing);
        let left = LEFT.with_borrow_mut(std::mem::take);
        assert_eq!(left.len(), 1);
        let order = RefCell::new(Vec::new());
        let closing = async {
            object.close().await.expect("closed");
            order.borrow_mut().push("closed");
        };
        let ending = async {
            for one in left {
                one.await;
            }
            order.borrow_mut().push("written");
        };
        futures_util::future::join(closing, ending).await;
        assert_eq!(order.into_inner(), ["written", "closed"]);
        assert!(world.bytes(id).await[..2 * 4096] == pattern(1, 2 * BLOCK)[..]);
        let gone = object.read(0, IoBuf::new(4096)).await;
        assert_eq!(gone.expect_err("it is closed").kind, IoErrorKind::Gone);
        assert_eq!(world.disk.peek(0, 1).len(), 1);
    });
}

impl World {
    async fn unlink(&self, name: &str) {
        let removed = self.volume.remove(&self.caller, self.volume.root(), name.as_bytes(), Remove::File).await;
        removed.expect("removed");
    }

    async fn is_there(&self, id: FileId) -> bool {
        self.volume.stat(id).await.is_ok()
    }
}

#[test]
fn the_volume_closes_a_disk_that_is_dropped() {
    with(async |world| {
        let object = world.object("disk", 8 * BLOCK).await;
        let id = object.file();
        object.write(0, pattern(1, 8 * BLOCK), Durability::Durable).await.expect("written");
        world.unlink("disk").await;
        drop(object);
        assert!(world.is_there(id).await && world.volume.open.handles(id.number) == 1, "nothing is closed by a drop");
        world.volume.sync().await.expect("it lasts");
        assert!(!world.is_there(id).await, "it had no name");
        assert_eq!(world.volume.open.handles(id.number), 0);

        // Who makes a file a disk closes it first, too.
        let object = world.object("other", 8 * BLOCK).await;
        let id = object.file();
        world.unlink("other").await;
        drop(object);
        let third = world.object("third", 8 * BLOCK).await;
        assert!(!world.is_there(id).await);
        drop(third);
        world.volume.shut_down().await.expect("closed");
        assert!(!world.volume.open.are_used());
    });
}

#[test]
fn a_close_that_is_given_up_is_ended_by_another_one_or_by_the_volume() {
    for closes_again in [true, false] {
        with(async move |world| {
            let object = world.object("disk", 8 * BLOCK).await;
            let id = object.file();
            world.unlink("disk").await;
            let writing = object.write(0, pattern(1, 2 * BLOCK), Durability::Durable);
            assert!(object.close().now_or_never().is_none(), "a write is under way");
            drop(writing);
            let left = LEFT.with_borrow_mut(std::mem::take);
            assert_eq!(left.len(), 1);
            if closes_again {
                futures_util::future::join(object.close(), left.into_iter().next().expect("one"))
                    .await
                    .0
                    .expect("closed");
                assert!(!world.is_there(id).await && world.volume.block_objects().is_empty());
                object.close().await.expect("closed twice is closed");
                drop(object);
            } else {
                drop(object);
                world.volume.sync().await.expect("it lasts");
                assert!(world.is_there(id).await, "the write goes on");
                assert_eq!(world.volume.block_objects(), [id], "so does the disk");
                for one in left {
                    one.await;
                }
                assert!(world.volume.block_objects().is_empty());
                world.volume.sync().await.expect("it lasts");
            }
            assert!(!world.is_there(id).await && !world.volume.open.are_used());
            assert_eq!(world.volume.scan().await, Ok(Vec::new()));
        });
    }
}

#[test]
fn a_disk_that_is_dropped_late_leaves_the_next_one_of_its_file_alone() {
    with(async |world| {
        let object = world.object("disk", 8 * BLOCK).await;
        let id = object.file();
        object.close().await.expect("closed");
        let next = world.attach(id).await.expect("it is a disk again");
        drop(object);
        assert_eq!(world.volume.block_objects(), [id]);
        assert_eq!(world.attach(id).await.err().expect("it is one").kind, ErrorKind::Busy);
        next.close().await.expect("closed");
        assert!(!world.volume.open.are_used());
    });
}

#[test]
fn what_a_flush_of_the_volume_lost_is_lost_to_its_disks() {
    with(async |world| {
        let object = world.object("disk", 64 * BLOCK).await;
        object.flush().await.expect("durable");
        object.write(0, pattern(1, BLOCK), Durability::Cached).await.expect("written");
        world.disk.fail_next_flushes(1);
        // As the volume does by itself every few seconds, or a program in a mount.
        world.volume.sync().await.expect_err("it is told once");
        for _ in 0..2 {
            assert_eq!(object.flush().await.expect_err("it is lost").kind, IoErrorKind::Media);
        }
        let refused = object.write(0, pattern(2, BLOCK), Durability::Cached).await.expect_err("no more changes");
        assert_eq!(refused.kind, IoErrorKind::ReadOnly);
        drop(object);
    });
}
