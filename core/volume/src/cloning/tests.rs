//! What files that share blocks see of each other, what they count, and when their blocks are free.

use std::pin::Pin;
use std::sync::Arc;

use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_device::{Device, IoBuf};
use holdfast_model::Uuid;

use super::*;
use crate::quota::{Limits, Subject};
use crate::service::{Allocate, Caller, FileId, FileKind, FileService, NewFile, OpenMode, Remove, SetAttributes, Time};
use crate::shrink::Steps;
use crate::store::{Format, Settings};
use crate::volume::{VolumeFormat, WallClock};

const BLOCK: u64 = BLOCK_BYTES;
const NEW: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
const MODE: OpenMode = OpenMode { read: true, write: true, truncate: false };

/// Steps that go on.
struct Goes;

impl Steps for Goes {
    fn step(&self, _: u64) -> Pin<Box<dyn Future<Output = bool> + '_>> {
        Box::pin(async { true })
    }

    fn done(&self, _: u64) {}
}

struct World {
    disk: Arc<SimDisk>,
    volume: Volume,
    caller: Caller,
}

async fn open(disk: &Arc<SimDisk>) -> Volume {
    let clock: WallClock = Arc::new(Time::default);
    Volume::open(disk.clone(), Settings::default(), clock).await.expect("it opens")
}

/// Runs a test on a new volume.
fn with(size_bytes: u64, test: impl AsyncFnOnce(World) + 'static) {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes, garbage: true, ..SimDiskSpec::default() });
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

/// Blocks that differ from each other, and from those of another seed.
fn pattern(seed: u8, len: u64) -> Vec<u8> {
    (0..len).map(|at| (at / BLOCK) as u8 ^ (at as u8).rotate_left(3) ^ seed).collect()
}

impl World {
    async fn file(&self, name: &str, bytes: &[u8]) -> Handle {
        let created = self.volume.create(&self.caller, self.volume.root(), name.as_bytes(), &NEW).await;
        let handle = self.volume.open(&self.caller, created.expect("created").id, MODE).await.expect("opened");
        self.write(&handle, 0, bytes).await.expect("written");
        handle
    }

    async fn write(&self, handle: &Handle, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        let mut buf = IoBuf::zeroed(bytes.len().next_multiple_of(BLOCK as usize));
        buf[..bytes.len()].copy_from_slice(bytes);
        match self.volume.write(handle, offset, buf.freeze(), bytes.len()).await? {
            all if all == bytes.len() => Ok(()),
            some => panic!("{some} of {} bytes", bytes.len()),
        }
    }

    async fn read(&self, handle: &Handle) -> Vec<u8> {
        self.volume.read(handle, 0, 1 << 30).await.expect("read").to_vec()
    }

    async fn clone(&self, from: (&Handle, u64), to: (&Handle, u64), len: u64) -> Result<(), VolumeError> {
        self.volume.clone_range(from, to, len).await
    }

    async fn remove(&self, name: &str) {
        let root = self.volume.root();
        self.volume.remove(&self.caller, root, name.as_bytes(), Remove::File).await.expect("removed");
    }

    async fn allocated(&self, id: FileId) -> u64 {
        self.volume.stat(id).await.expect("known").allocated_bytes / BLOCK
    }

    /// Blocks of the device that somebody has.
    async fn taken(&self) -> u64 {
        self.volume.checkpoint().await.expect("it lasts");
        held(&self.volume.store.rooms).fill().map(|(_, taken, _)| u64::from(taken)).sum()
    }

    async fn extents(&self, handle: &Handle) -> Vec<(u64, Extent)> {
        let number = handle.id().number;
        let look = self.volume.store.look([keys::shard(number)], |view| extents::within(view, number, 0, 1 << 30));
        look.await.expect("looked up")
    }

    /// A scan finds nothing, also in what another opening finds.
    async fn is_sound(&self) {
        assert_eq!(self.volume.scan().await, Ok(Vec::new()));
        let image = self.disk.image();
        assert_eq!(open(&self.disk).await.scan().await, Ok(Vec::new()), "as opened again");
        self.disk.set_back(&image);
    }
}

#[test]
fn a_clone_takes_no_room_and_neither_sees_what_is_written_to_the_other() {
    with(64 << 20, async |world| {
        let (one, other) = (world.file("one", &pattern(1, 64 * BLOCK)).await, world.file("other", &[]).await);
        world.volume.sync().await.expect("it lasts");
        let before = world.taken().await;
        world.clone((&one, 0), (&other, 0), 64 * BLOCK).await.expect("cloned");
        assert_eq!(world.taken().await, before, "no data is copied");
        let place = |list: Vec<(u64, Extent)>| list.into_iter().map(|(at, one)| (at, one.place)).collect::<Vec<_>>();
        assert_eq!(place(world.extents(&one).await), place(world.extents(&other).await));
        for handle in [&one, &other] {
            assert!(world.read(handle).await == pattern(1, 64 * BLOCK));
            assert_eq!(world.allocated(handle.id()).await, 64, "it counts for both");
        }
        // Whole blocks, parts of one, and what waits.
        world.write(&one, 8 * BLOCK, &pattern(2, 4 * BLOCK)).await.expect("written");
        world.write(&other, 20 * BLOCK + 5, b"parts").await.expect("written");
        let (mut first, mut second) = (pattern(1, 64 * BLOCK), pattern(1, 64 * BLOCK));
        first[8 * BLOCK as usize..12 * BLOCK as usize].copy_from_slice(&pattern(2, 4 * BLOCK));
        second[20 * BLOCK as usize + 5..][..5].copy_from_slice(b"parts");
        assert!(world.read(&one).await == first && world.read(&other).await == second);
        assert_eq!(world.taken().await, before + 5, "what was written over lies elsewhere");
        // What has been written over is the file's own again, and is written where it lies.
        let at = world.extents(&one).await;
        world.write(&one, 8 * BLOCK, &pattern(3, 4 * BLOCK)).await.expect("written");
        assert_eq!(world.extents(&one).await, at);
        assert!(world.read(&other).await == second);
        world.is_sound().await;
        let again = open(&world.disk).await;
        let handle = again.open(&world.caller, one.id(), MODE).await.expect("opened");
        let data = IoBuf::zeroed(BLOCK as usize).freeze();
        again.write(&handle, 0, data, BLOCK as usize).await.expect("written");
        let handle = again.open(&world.caller, other.id(), MODE).await.expect("opened");
        assert!(again.read(&handle, 0, 1 << 30).await.expect("read").to_vec() == second, "also after another opening");
    });
}

#[test]
fn ranges_that_are_none_are_refused_with_the_reason() {
    with(64 << 20, async |world| {
        let one = world.file("one", &pattern(1, 10 * BLOCK + 100)).await;
        let other = world.file("other", &pattern(2, 20 * BLOCK)).await;
        let size = 10 * BLOCK + 100;
        for (from, to, len, why) in [
            (5, 0, BLOCK, "multiples of 4096"),
            (0, 7, BLOCK, "multiples of 4096"),
            (0, 0, 11 * BLOCK, "behind the end of the file that it is cloned from"),
            (!4095, 0, BLOCK, "behind the end"),
            (0, 0, 100, "no multiple of 4096"),
            (0, 0, size, "no multiple of 4096"),
            (0, MAX_FILE_BYTES, BLOCK, "2^63"),
        ] {
            let error = world.clone((&one, from), (&other, to), len).await.expect_err("it is no such range");
            assert!(error.to_string().contains(why), "{from} {to} {len}: {error}");
        }
        let error = world.clone((&one, 0), (&one, 2 * BLOCK), 3 * BLOCK).await.expect_err("it meets itself");
        assert!(error.to_string().contains("over itself"), "{error}");
        let reading = OpenMode { read: true, write: false, truncate: false };
        let reader = world.volume.open(&world.caller, other.id(), reading).await.expect("opened");
        let error = world.clone((&one, 0), (&reader, 0), BLOCK).await.expect_err("it is only read");
        assert_eq!(error.kind, ErrorKind::BadHandle);
        assert!(world.read(&other).await == pattern(2, 20 * BLOCK));
        assert!(!world.volume.store.has_clones(), "nothing was shared");
        // Where the target ends within the range, the range may end within a block.
        world.clone((&one, 0), (&other, 12 * BLOCK), size).await.expect("cloned");
        let mut expected = pattern(2, 20 * BLOCK);
        expected.truncate(12 * BLOCK as usize);
        expected.extend_from_slice(&pattern(1, size));
        assert!(world.read(&other).await == expected);
        world.clone((&one, 0), (&one, 3 * BLOCK), 0).await.expect("nothing is no matter");
        world.is_sound().await;
    });
}

#[test]
fn what_lies_behind_the_end_of_a_file_shows_in_no_clone() {
    with(64 << 20, async |world| {
        let one = world.file("one", &pattern(1, 4 * BLOCK)).await;
        world.volume.sync().await.expect("it lasts");
        let cut = SetAttributes { size_bytes: Some(2 * BLOCK + 10), ..SetAttributes::default() };
        world.volume.set(&world.caller, one.id(), &cut).await.expect("cut");
        let other = world.file("other", b"").await;
        world.clone((&one, 0), (&other, 5 * BLOCK), 2 * BLOCK + 10).await.expect("cloned");
        let grown = SetAttributes { size_bytes: Some(9 * BLOCK), ..SetAttributes::default() };
        world.volume.set(&world.caller, other.id(), &grown).await.expect("grown");
        let mut expected = vec![0; 5 * BLOCK as usize];
        expected.extend_from_slice(&pattern(1, 2 * BLOCK + 10));
        expected.resize(9 * BLOCK as usize, 0);
        assert!(world.read(&other).await == expected);
        world.write(&one, 2 * BLOCK + 5, b"end of it").await.expect("written");
        assert!(world.read(&other).await == expected);
        assert_eq!(&world.read(&one).await[2 * BLOCK as usize + 5..], b"end of it");
        // A target that ended within a block before the range.
        let third = world.file("third", &pattern(2, 3 * BLOCK)).await;
        world.volume.sync().await.expect("it lasts");
        let cut = SetAttributes { size_bytes: Some(BLOCK + 10), ..SetAttributes::default() };
        world.volume.set(&world.caller, third.id(), &cut).await.expect("cut");
        world.clone((&one, 0), (&third, 4 * BLOCK), BLOCK).await.expect("cloned");
        let mut expected = pattern(2, BLOCK + 10);
        expected.resize(4 * BLOCK as usize, 0);
        expected.extend_from_slice(&pattern(1, BLOCK));
        assert!(world.read(&third).await == expected);
        world.is_sound().await;
    });
}

#[test]
fn data_that_waits_is_seen_by_a_clone_and_room_without_data_is_not_shared() {
    with(64 << 20, async |world| {
        let one = world.file("one", &pattern(1, 10 * BLOCK)).await;
        let set_aside = Allocate::Reserve { keep_size: false };
        world.volume.allocate(&one, 20 * BLOCK, 10 * BLOCK, set_aside).await.expect("set aside");
        world.write(&one, 12 * BLOCK, &pattern(2, 2 * BLOCK)).await.expect("written");
        assert!(world.volume.waiting_files() > 0, "it waits");
        let other = world.file("other", &pattern(3, 30 * BLOCK)).await;
        world.clone((&one, 0), (&other, 0), 30 * BLOCK).await.expect("cloned");
        assert!(world.read(&other).await == world.read(&one).await);
        assert_eq!((world.allocated(one.id()).await, world.allocated(other.id()).await), (22, 12));
        assert_eq!(world.taken().await, 22);
        // Nothing waits over what is shared, and what waits over the rest finds its place.
        world.write(&one, 12 * BLOCK, b"more").await.expect("written");
        world.write(&one, 25 * BLOCK, b"more").await.expect("written");
        world.volume.sync().await.expect("it lasts");
        assert_eq!(world.taken().await, 23);
        world.is_sound().await;
    });
}

#[test]
fn a_file_within_its_record_is_copied() {
    with(64 << 20, async |world| {
        let (one, other) = (world.file("one", b"small").await, world.file("other", b"little").await);
        world.clone((&one, 0), (&other, 0), 5).await.expect_err("it would not end there");
        world.clone((&one, 0), (&other, BLOCK), 5).await.expect("cloned");
        let found = world.read(&other).await;
        assert_eq!((&found[..6], &found[BLOCK as usize..]), (&b"little"[..], &b"small"[..]));
        let third = world.file("third", b"").await;
        world.clone((&one, 0), (&third, 0), 5).await.expect("cloned");
        assert_eq!(world.read(&third).await, b"small");
        // One that is grown into blocks, from one in its record.
        let large = world.file("large", &pattern(4, 3 * BLOCK)).await;
        world.clone((&large, 0), (&third, 0), 3 * BLOCK).await.expect("cloned");
        assert!(world.read(&third).await == pattern(4, 3 * BLOCK));
        world.is_sound().await;
    });
}

#[test]
fn blocks_are_free_when_the_last_who_has_them_lets_go_and_not_before() {
    with(64 << 20, async |world| {
        let one = world.file("one", &pattern(1, 40 * BLOCK)).await;
        let (two, three) = (world.file("two", b"").await, world.file("three", b"").await);
        world.clone((&one, 10 * BLOCK), (&two, 0), 20 * BLOCK).await.expect("cloned");
        world.clone((&one, 25 * BLOCK), (&three, 3 * BLOCK), 15 * BLOCK).await.expect("cloned");
        world.clone((&two, 0), (&three, 30 * BLOCK), 5 * BLOCK).await.expect("cloned");
        assert_eq!(world.taken().await, 40);
        world.volume.close(one).await.expect("closed");
        world.remove("one").await;
        // Ten in front of what the second has are nobody's.
        assert_eq!(world.taken().await, 30);
        world.volume.allocate(&two, 0, 10 * BLOCK, Allocate::Punch).await.expect("punched");
        // Five of them are the third one's.
        assert_eq!(world.taken().await, 25);
        world.volume.allocate(&two, 10 * BLOCK, 10 * BLOCK, Allocate::Zero { keep_size: true }).await.expect("zeroed");
        // Five are the third one's, and ten are set aside.
        assert_eq!(world.taken().await, 30);
        assert!(world.read(&two).await.iter().all(|byte| *byte == 0));
        let all = pattern(1, 40 * BLOCK);
        let found = world.read(&three).await;
        assert!(found[3 * BLOCK as usize..18 * BLOCK as usize] == all[25 * BLOCK as usize..]);
        assert!(found[30 * BLOCK as usize..] == all[10 * BLOCK as usize..15 * BLOCK as usize]);
        world.volume.trim().await.expect("trimmed");
        assert!(world.read(&three).await == found, "what is shared is not given back");
        let cut = SetAttributes { size_bytes: Some(8 * BLOCK), ..SetAttributes::default() };
        world.volume.set(&world.caller, three.id(), &cut).await.expect("cut");
        assert_eq!(world.taken().await, 15);
        world.is_sound().await;
        world.volume.close(two).await.expect("closed");
        world.volume.close(three).await.expect("closed");
        world.remove("two").await;
        world.remove("three").await;
        assert_eq!(world.taken().await, 0);
        assert_eq!(world.volume.store.range(crate::OWNER_TREE, b"", 10).await, Ok(Vec::new()));
        world.is_sound().await;
    });
}

#[test]
fn a_file_may_have_its_own_blocks_more_than_once() {
    with(64 << 20, async |world| {
        let one = world.file("one", &pattern(1, 8 * BLOCK)).await;
        world.volume.create_snapshot("first").await.expect("made");
        world.clone((&one, 0), (&one, 8 * BLOCK), 8 * BLOCK).await.expect("cloned");
        world.clone((&one, 4 * BLOCK), (&one, 0), 4 * BLOCK).await.expect("cloned");
        let mut expected = pattern(1, 8 * BLOCK)[4 * BLOCK as usize..].repeat(2);
        expected.extend_from_slice(&pattern(1, 8 * BLOCK));
        assert!(world.read(&one).await == expected);
        assert_eq!(world.taken().await, 8);
        world.is_sound().await;
        // The same once more: nothing changes.
        world.clone((&one, 4 * BLOCK), (&one, 0), 4 * BLOCK).await.expect("cloned");
        world.volume.create_snapshot("second").await.expect("made");
        let cut = SetAttributes { size_bytes: Some(0), ..SetAttributes::default() };
        world.volume.set(&world.caller, one.id(), &cut).await.expect("cut");
        assert_eq!(world.taken().await, 8, "snapshots have them");
        world.is_sound().await;
        for name in ["first", "second"] {
            world.volume.destroy_snapshot(name).await.expect("destroyed");
            world.volume.reclaim(&Goes).await.expect("given back");
            world.is_sound().await;
        }
        assert_eq!((world.taken().await, world.volume.kept_bytes()), (0, 0));
    });
}

#[test]
fn quotas_count_a_clone_as_data_of_its_owner() {
    with(64 << 20, async |world| {
        let one = world.file("one", &pattern(1, 30 * BLOCK)).await;
        let other = world.file("other", b"").await;
        let owner = SetAttributes { uid: Some(7), ..SetAttributes::default() };
        world.volume.set(&world.caller, other.id(), &owner).await.expect("given");
        let limits = Limits { hard_bytes: Some(20 * BLOCK), ..Limits::default() };
        world.volume.set_quota(Subject::User(7), limits).await.expect("set");
        let error = world.clone((&one, 0), (&other, 0), 30 * BLOCK).await.expect_err("it is more than may be");
        assert_eq!(error.kind, ErrorKind::Quota, "{error}");
        world.clone((&one, 0), (&other, 0), 20 * BLOCK).await.expect("cloned");
        let used = || {
            let quotas = world.volume.quotas();
            quotas.iter().find(|one| one.subject == Subject::User(7)).expect("it is there").used_bytes
        };
        assert_eq!(used(), 20 * BLOCK);
        // What is written over counts as before.
        world.write(&other, 0, &pattern(2, 20 * BLOCK)).await.expect("written");
        assert_eq!(used(), 20 * BLOCK);
        world.is_sound().await;
    });
}

#[test]
fn snapshots_before_and_after_a_clone_keep_what_they_have() {
    with(64 << 20, async |world| {
        let one = world.file("one", &pattern(1, 20 * BLOCK)).await;
        world.volume.create_snapshot("before").await.expect("made");
        let other = world.file("other", b"").await;
        world.clone((&one, 0), (&other, 0), 20 * BLOCK).await.expect("cloned");
        world.volume.create_snapshot("after").await.expect("made");
        let past = async |snapshot: &str, id: FileId| {
            let view = world.volume.open_snapshot(snapshot).expect("it is there");
            let mode = OpenMode { write: false, ..MODE };
            let handle = view.open(&world.caller, id, mode).await.expect("opened");
            let data = view.read(&handle, 0, 1 << 30).await.expect("read").to_vec();
            view.close(handle).await.expect("closed");
            data
        };
        world.write(&one, 0, &pattern(2, 20 * BLOCK)).await.expect("written");
        world.write(&other, 5 * BLOCK, &pattern(3, 5 * BLOCK)).await.expect("written");
        let (first, second) = (one.id(), other.id());
        world.is_sound().await;
        for handle in [one, other] {
            world.volume.close(handle).await.expect("closed");
        }
        world.remove("one").await;
        world.remove("other").await;
        assert!(past("before", first).await == pattern(1, 20 * BLOCK));
        assert!(past("after", first).await == pattern(1, 20 * BLOCK));
        assert!(past("after", second).await == pattern(1, 20 * BLOCK));
        assert_eq!(world.taken().await, 20);
        world.is_sound().await;
        world.volume.destroy_snapshot("before").await.expect("destroyed");
        assert_eq!(world.volume.reclaim(&Goes).await, Ok(0), "the other one has them");
        assert!(past("after", second).await == pattern(1, 20 * BLOCK));
        world.is_sound().await;
        world.volume.destroy_snapshot("after").await.expect("destroyed");
        assert_eq!(world.volume.reclaim(&Goes).await, Ok(20 * BLOCK));
        assert_eq!((world.taken().await, world.volume.kept_bytes()), (0, 0));
        world.is_sound().await;
    });
}

#[test]
fn a_file_of_a_snapshot_is_restored_without_a_copy() {
    with(64 << 20, async |world| {
        let one = world.file("one", &pattern(1, 30 * BLOCK + 7)).await;
        world.volume.create_snapshot("past").await.expect("made");
        let (id, len) = (one.id(), 30 * BLOCK + 7);
        let before = world.taken().await;
        let restore = async |to: &Handle, offset: u64, at: u64, len: u64| {
            world.volume.clone_from_snapshot(&world.caller, ("past", id, offset), (to, at), len).await
        };
        // As it still is.
        let copy = world.file("copy", b"").await;
        restore(&copy, 0, 0, len).await.expect("restored");
        assert!(world.read(&copy).await == pattern(1, len));
        assert_eq!(world.taken().await, before);
        world.is_sound().await;
        // Written over here and there, from there into itself and elsewhere.
        for block in [0, 3, 4, 9, 20, 30] {
            world.write(&one, block * BLOCK, b"changed").await.expect("written");
            world.volume.sync().await.expect("it lasts");
        }
        let second = world.file("second", b"").await;
        restore(&second, 3 * BLOCK, BLOCK, 10 * BLOCK).await.expect("restored");
        assert!(
            world.read(&second).await[BLOCK as usize..] == pattern(1, len)[3 * BLOCK as usize..13 * BLOCK as usize]
        );
        world.is_sound().await;
        restore(&one, 0, 0, len).await.expect("restored");
        assert!(world.read(&one).await == pattern(1, len));
        assert_eq!(world.taken().await, before, "all have the blocks of the snapshot");
        world.is_sound().await;
        // Of a file that is gone.
        world.volume.close(one).await.expect("closed");
        world.remove("one").await;
        world.write(&copy, 0, b"other").await.expect("written");
        let third = world.file("third", b"").await;
        restore(&third, 0, 0, len).await.expect("restored");
        world.volume.destroy_snapshot("past").await.expect("destroyed");
        assert_eq!(world.volume.reclaim(&Goes).await, Ok(0), "the file has all of it");
        assert!(world.read(&third).await == pattern(1, len));
        assert_eq!(world.taken().await, before + 1);
        world.is_sound().await;
        let missing = world.volume.clone_from_snapshot(&world.caller, ("past", id, 0), (&third, 0), len).await;
        assert_eq!(missing.expect_err("it is gone").kind, ErrorKind::NotFound);
    });
}

#[test]
fn a_volume_that_shrinks_moves_what_is_shared_for_all_who_have_it() {
    with(64 << 20, async |world| {
        let filler = world.file("filler", &[]).await;
        let free = world.volume.room().free_bytes;
        let set_aside = Allocate::Reserve { keep_size: false };
        world.volume.allocate(&filler, 0, free - (6 << 20), set_aside).await.expect("set aside");
        let one = world.file("one", &pattern(1, 400 * BLOCK)).await;
        let (two, three) = (world.file("two", b"").await, world.file("three", b"").await);
        world.clone((&one, 0), (&two, 0), 400 * BLOCK).await.expect("cloned");
        world.clone((&one, 100 * BLOCK), (&three, 7 * BLOCK), 150 * BLOCK).await.expect("cloned");
        world.clone((&two, 200 * BLOCK), (&three, 300 * BLOCK), 200 * BLOCK).await.expect("cloned");
        world.write(&two, 250 * BLOCK, &pattern(2, 10 * BLOCK)).await.expect("written");
        let expected = [world.read(&one).await, world.read(&two).await, world.read(&three).await];
        world.volume.close(filler).await.expect("closed");
        world.remove("filler").await;
        let before = world.taken().await;
        let size = 24 << 20;
        assert!(world.volume.plan_shrink(size).await.expect("planned").data_bytes > 0, "something is to be moved");
        assert_eq!(world.volume.shrink(size, &Goes).await, Ok(true));
        assert_eq!(world.volume.size_bytes(), size);
        for (handle, expected) in [&one, &two, &three].into_iter().zip(&expected) {
            assert!(world.read(handle).await == *expected);
        }
        assert_eq!(world.taken().await, before, "they share as much as before");
        world.is_sound().await;
        world.write(&one, 0, &pattern(3, 400 * BLOCK)).await.expect("written");
        assert!(world.read(&three).await == expected[2]);
    });
}

#[test]
fn a_write_over_shared_blocks_that_finds_no_room_loses_nothing() {
    with(16 << 20, async |world| {
        let one = world.file("one", &pattern(1, 200 * BLOCK)).await;
        let other = world.file("other", b"").await;
        world.clone((&one, 0), (&other, 0), 200 * BLOCK).await.expect("cloned");
        let filler = world.file("filler", b"").await;
        let data = IoBuf::zeroed(64 * BLOCK as usize).freeze();
        let mut at = 0;
        while let Ok(some) = world.volume.write(&filler, at, data.clone(), data.len()).await {
            at += some as u64;
        }
        world.volume.sync().await.expect("it lasts");
        let error = world.write(&other, 10 * BLOCK, &pattern(2, 100 * BLOCK)).await.expect_err("no room is left");
        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
        assert!(world.read(&one).await == pattern(1, 200 * BLOCK));
        assert!(world.read(&other).await == pattern(1, 200 * BLOCK));
        world.is_sound().await;
        // What is removed gives no room back that is shared.
        world.volume.close(one).await.expect("closed");
        world.remove("one").await;
        assert!(world.read(&other).await == pattern(1, 200 * BLOCK));
        world.volume.close(filler).await.expect("closed");
        world.remove("filler").await;
        world.write(&other, 10 * BLOCK, &pattern(2, 100 * BLOCK)).await.expect("there is room");
        world.is_sound().await;
    });
}

#[test]
fn the_first_clone_tells_earlier_versions_to_read_only() {
    with(64 << 20, async |world| {
        let of_disk = || {
            let block = world.disk.peek(0, 4096);
            crate::superblock::Superblock::open(&block).expect("known").expect("there").features[1]
        };
        let (one, other) = (world.file("one", &pattern(1, BLOCK)).await, world.file("other", b"").await);
        assert_eq!(of_disk() & crate::superblock::CLONES, 0);
        world.clone((&one, 0), (&other, 0), BLOCK).await.expect("cloned");
        assert_ne!(of_disk() & crate::superblock::CLONES, 0);
        for at in world.volume.store.superblock().groups() {
            let block = world.disk.peek(at, 4096);
            let found = crate::superblock::Superblock::open(&block).expect("known").expect("there");
            assert_eq!(found, world.volume.store.superblock());
        }
        world.volume.shut_down().await.expect("closed");
        let again = open(&world.disk).await;
        assert!(again.store.has_clones() && again.failure().is_none());
        assert_eq!(again.mended(), 0);
        assert_ne!(of_disk() & crate::superblock::CLONES, 0);
    });
}

#[test]
fn a_copy_shares_what_lies_alike_and_copies_the_rest() {
    with(64 << 20, async |world| {
        let one = world.file("one", &pattern(1, 20 * BLOCK + 50)).await;
        let other = world.file("other", b"").await;
        world.volume.sync().await.expect("it lasts");
        let (from, to) = ((&one, BLOCK + 100), (&other, 3 * BLOCK + 100));
        assert_eq!(world.volume.copy(from, to, 1 << 30).await, Ok(19 * BLOCK - 50));
        let found = world.read(&other).await;
        assert!(found[3 * BLOCK as usize + 100..] == pattern(1, 20 * BLOCK + 50)[BLOCK as usize + 100..]);
        world.volume.sync().await.expect("it lasts");
        assert_eq!(world.taken().await, 22, "but for the first block, which is copied");
        // Up to within a block that goes on in the target.
        let third = world.file("third", &pattern(2, 20 * BLOCK)).await;
        assert_eq!(world.volume.copy((&one, 0), (&third, BLOCK), 5 * BLOCK + 9).await, Ok(5 * BLOCK + 9));
        let mut expected = pattern(2, 20 * BLOCK);
        expected[BLOCK as usize..][..5 * BLOCK as usize + 9].copy_from_slice(&pattern(1, 5 * BLOCK + 9));
        assert!(world.read(&third).await == expected);
        // Not alike.
        assert_eq!(world.volume.copy((&one, 1), (&third, 0), 3 * BLOCK).await, Ok(3 * BLOCK));
        expected[..3 * BLOCK as usize].copy_from_slice(&pattern(1, 4 * BLOCK)[1..=3 * BLOCK as usize]);
        assert!(world.read(&third).await == expected);
        world.is_sound().await;
    });
}

#[test]
fn files_without_clones_have_extents_as_ever() {
    with(64 << 20, async |world| {
        let one = world.file("one", &pattern(1, 8 * BLOCK)).await;
        world.volume.sync().await.expect("it lasts");
        let other = world.file("other", &pattern(2, 8 * BLOCK)).await;
        let third = world.file("third", b"").await;
        world.clone((&other, 2 * BLOCK), (&third, 0), 3 * BLOCK).await.expect("cloned");
        let extents = world.extents(&one).await;
        assert!(extents.iter().all(|(_, extent)| !extent.is_shared));
        // Of the one that was cloned, only that part.
        let shared: Vec<_> = world.extents(&other).await.into_iter().map(|(at, one)| (at, one.is_shared)).collect();
        assert_eq!(shared, [(0, false), (2, true), (5, false)]);
        world.write(&one, 0, &pattern(3, 8 * BLOCK)).await.expect("written");
        world.write(&other, 5 * BLOCK, &pattern(3, BLOCK)).await.expect("written");
        assert_eq!(world.extents(&one).await, extents, "in place");
        assert_eq!(world.extents(&other).await.len(), 3);
        world.is_sound().await;
    });
}
