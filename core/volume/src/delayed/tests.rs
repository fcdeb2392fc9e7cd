use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all};
use holdfast_device::sim::{ErrorPersistence, Sim, SimDisk, SimDiskSpec};
use holdfast_device::{Clock, Device};
use holdfast_model::Uuid;

use super::*;
use crate::error::ErrorKind;
use crate::open_files::Handle;
use crate::quota::{Limits, Subject};
use crate::service::{
    Allocate, Caller, FileKind, FileService, Flush, NewFile, OpenMode, Remove, Rename, Seek, SetAttributes, SetTime,
    Time,
};
use crate::store::{Format, Settings};
use crate::volume::{VolumeFormat, WallClock};

const FILE: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
const OPEN: OpenMode = OpenMode { read: true, write: true, truncate: false };

fn clock() -> WallClock {
    let seconds = AtomicI64::new(1000);
    Arc::new(move || Time { seconds: seconds.fetch_add(1, Ordering::Relaxed), nanos: 0 })
}

async fn open(disk: &Arc<SimDisk>) -> Volume {
    Volume::open(disk.clone(), Settings::default(), clock()).await.expect("opened")
}

struct World {
    disk: Arc<SimDisk>,
    clock: Arc<dyn Clock>,
    volume: Arc<Volume>,
}

/// Runs a test on an empty volume.
fn with<T: 'static>(size_bytes: u64, settings: Settings, test: impl AsyncFnOnce(World) -> T + 'static) -> T {
    let sim = Sim::new(1);
    let clock_of_sim: Arc<dyn Clock> = sim.clock();
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let device: Arc<dyn Device> = disk.clone();
        let store = Format { volume: Uuid::from_u128(3), log_bytes: None };
        let format = VolumeFormat { store, secret: [4; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: false };
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        let volume = Volume::open(device, settings, clock()).await.expect("opened");
        test(World { disk, clock: clock_of_sim, volume: Arc::new(volume) }).await
    });
    ran.expect("powered")
}

impl World {
    async fn create(&self, name: &str) -> Handle {
        let (caller, root) = (Caller::default(), self.volume.root());
        let facts = self.volume.create(&caller, root, name.as_bytes(), &FILE).await.expect("created");
        self.volume.open(&caller, facts.id, OPEN).await.expect("opened")
    }

    async fn write(&self, handle: &Handle, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            done += self.volume.write(handle, offset + done as u64, IoSlice::padded(rest), rest.len()).await?;
        }
        Ok(())
    }

    async fn read(&self, handle: &Handle) -> Vec<u8> {
        self.volume.read(handle, 0, 1 << 30).await.expect("read").to_vec()
    }

    async fn free(&self) -> u64 {
        self.volume.usage(self.volume.root()).await.expect("known").free_bytes
    }

    fn waits(&self) -> usize {
        self.volume.waiting.bytes.load(Ordering::Relaxed) / BLOCK
    }

    async fn check(&self) {
        assert_eq!(self.waits(), 0);
        assert!(self.volume.waiting.all().is_empty());
        assert_eq!(self.volume.store.promised.load(Ordering::Relaxed), 0, "nodes that are promised to nobody");
        assert!(held(&self.volume.store.rooms).promise(0));
        let before = held(&self.volume.store.rooms).free_blocks();
        held(&self.volume.store.rooms).take_back(u64::MAX);
        assert_eq!(held(&self.volume.store.rooms).free_blocks(), before, "room that is promised to nobody");
        assert_eq!(self.volume.scan().await, Ok(Vec::new()));
        assert_eq!(self.volume.recount().await, Ok(false));
    }
}

async fn extents(volume: &Volume, handle: &Handle) -> Vec<Piece> {
    let size = held(&handle.file.state).size;
    let pieces = volume.pieces(&handle.file, 0, size.div_ceil(BLOCK_BYTES)).await;
    pieces.expect("known").into_iter().filter(|piece| piece.ground != Ground::Hole).collect()
}

#[test]
fn small_appends_to_files_side_by_side_become_one_extent_each() {
    with(64 << 20, Settings::default(), async |world| {
        let handles = [world.create("one").await, world.create("two").await];
        let mut expected = Vec::new();
        for number in 0..1000u32 {
            let bytes = [number as u8; 300];
            for handle in &handles {
                world.write(handle, expected.len() as u64, &bytes).await.expect("written");
            }
            expected.extend_from_slice(&bytes);
        }
        let last = world.volume.last();
        for handle in &handles {
            let facts = world.volume.stat(handle.id()).await.expect("known");
            assert_eq!((facts.size_bytes, facts.allocated_bytes), (300_000, 300_000u64.next_multiple_of(4096)));
            assert_eq!(world.read(handle).await, expected);
            assert_eq!(extents(&world.volume, handle).await, Vec::new(), "nothing has a place yet");
        }
        world.volume.sync().await.expect("durable");
        assert!(world.volume.last() <= last + 4, "few changes");
        for handle in handles {
            assert_eq!(extents(&world.volume, &handle).await.len(), 1);
            assert_eq!(world.read(&handle).await, expected);
            let facts = world.volume.stat(handle.id()).await.expect("known");
            assert_eq!(facts.allocated_bytes, 300_000u64.next_multiple_of(4096));
            world.volume.close(handle).await.expect("closed");
        }
        world.check().await;
    });
}

#[test]
fn a_file_that_is_removed_soon_takes_no_room_on_the_device() {
    with(64 << 20, Settings::default(), async |world| {
        let (caller, root) = (Caller::default(), world.volume.root());
        let free = world.free().await;
        // Closed first, and closed last.
        for is_closed in [true, false] {
            let handle = world.create("temporary").await;
            world.write(&handle, 0, &[7; 100_000]).await.expect("written");
            assert_eq!(world.free().await, free - 25 * 4096, "room is promised");
            let kept = if is_closed { world.volume.close(handle).await.map(|()| None) } else { Ok(Some(handle)) };
            let kept = kept.expect("closed");
            assert_eq!(world.waits(), 25);
            world.volume.remove(&caller, root, b"temporary", Remove::File).await.expect("removed");
            if let Some(handle) = kept {
                assert_eq!(world.read(&handle).await, [7; 100_000]);
                world.volume.close(handle).await.expect("closed");
            }
            assert_eq!((world.waits(), world.free().await), (0, free));
        }
        assert_eq!(held(&world.volume.store.rooms).changed(), 0, "no block was given out");
        world.check().await;
    });
}

#[test]
fn a_full_volume_refuses_writes_and_what_waits_finds_its_room() {
    with(18 << 20, Settings::default(), async |world| {
        let (mut files, mut most) = (Vec::new(), 0);
        let refused = 'full: loop {
            let name = format!("file {}", files.len());
            let (caller, root) = (Caller::default(), world.volume.root());
            match world.volume.create(&caller, root, name.as_bytes(), &FILE).await {
                Ok(facts) => {
                    files.push((world.volume.open(&caller, facts.id, OPEN).await.expect("opened"), Vec::new()));
                }
                Err(error) => break error,
            }
            let (handle, content) = files.last_mut().expect("just made");
            for number in 0..40u8 {
                // Every other block, so that each is an extent.
                let bytes = [number + 1; 4000];
                let mut next = content.clone();
                next.resize(usize::from(number) * 8192, 0);
                next.extend_from_slice(&bytes);
                match world.write(handle, u64::from(number) * 8192, &bytes).await {
                    Ok(()) => *content = next,
                    Err(error) => break 'full error,
                }
                most = most.max(world.waits());
            }
        };
        assert_eq!(refused.kind, ErrorKind::NoSpace, "{refused}");
        assert!(most > 100, "{most} blocks waited at once");
        assert_eq!(world.volume.sync().await, Ok(()), "all that was accepted has its room");
        for (handle, content) in files {
            assert!(world.read(&handle).await.starts_with(&content));
            world.volume.close(handle).await.expect("nothing went wrong");
        }
        world.check().await;
    });
}

#[test]
fn quotas_hold_when_data_is_accepted() {
    with(64 << 20, Settings::default(), async |world| {
        let limits = Limits { hard_bytes: Some(10 * 4096), ..Limits::default() };
        for uid in [5, 6] {
            world.volume.set_quota(Subject::User(uid), limits).await.expect("set");
        }
        let used = |uid| {
            let quotas = world.volume.quotas().into_iter();
            quotas.filter(|quota| quota.subject == Subject::User(uid)).map(|quota| quota.used_bytes / 4096).sum::<u64>()
        };
        let give = async |handle: &Handle, uid| {
            let set = SetAttributes { uid: Some(uid), ..SetAttributes::default() };
            world.volume.set(&Caller::default(), handle.id(), &set).await.map(drop)
        };
        let (one, two) = (world.create("one").await, world.create("two").await);
        give(&one, 5).await.expect("given");
        give(&two, 5).await.expect("given");
        world.write(&one, 0, &[1; 7 * 4096]).await.expect("it fits");
        assert_eq!(used(5), 7);
        assert_eq!(world.write(&two, 0, &[2; 4 * 4096]).await.expect_err("11 of 10").kind, ErrorKind::Quota);
        let cut = SetAttributes { size_bytes: Some(0), ..SetAttributes::default() };
        world.volume.set(&Caller::default(), two.id(), &cut).await.expect("cut");
        assert_eq!((used(5), world.waits()), (7, 7));
        // What waits counts for whom it is given to.
        world.write(&two, 0, &[2; 3 * 4096]).await.expect("it fits");
        give(&two, 6).await.expect("given");
        assert_eq!((used(5), used(6)), (7, 3));
        give(&two, 5).await.expect("given");
        assert_eq!((used(5), used(6)), (10, 0));
        give(&two, 6).await.expect("given");
        world.write(&one, 7 * 4096, &[1; 3 * 4096]).await.expect("it fits");
        give(&two, 5).await.expect("an administrator gives past limits");
        assert_eq!((used(5), used(6)), (13, 0));
        give(&two, 6).await.expect("given");
        world.volume.sync().await.expect("what was accepted is never refused");
        assert_eq!((used(5), used(6)), (10, 3));
        for handle in [one, two] {
            world.volume.close(handle).await.expect("closed");
        }
        world.check().await;
    });
}

#[test]
fn what_cannot_be_written_is_told_and_waits_on() {
    with(64 << 20, Settings::default(), async |world| {
        let (handle, caller) = (world.create("file").await, Caller::default());
        world.write(&handle, 0, &[3; 50_000]).await.expect("it waits");
        let zones = world.volume.store.superblock().zones_at();
        world.disk.fail_writes(zones..64 << 20, ErrorPersistence::UntilCleared);
        world.volume.close(handle.clone()).await.expect("nothing was tried yet");
        for _ in 0..2 {
            let error = world.volume.flush(handle.id(), Flush::All).await.expect_err("the device fails");
            assert_eq!(error.kind, ErrorKind::Io, "{error}");
        }
        assert!(world.volume.unwritten().is_some_and(|(files, error)| files == 1 && error.kind == ErrorKind::Io));
        let again = world.volume.open(&caller, handle.id(), OPEN).await.expect("opened");
        assert_eq!(world.read(&again).await, [3; 50_000]);
        // Others are told at once.
        let other = world.create("other").await;
        assert_eq!(world.write(&other, 0, &[4; 50_000]).await.expect_err("told").kind, ErrorKind::Io);
        world.disk.clear_faults();
        world.volume.flush(handle.id(), Flush::All).await.expect("durable");
        assert_eq!(world.volume.unwritten(), None);
        assert_eq!(world.read(&again).await, [3; 50_000]);
        world.write(&other, 0, &[4; 50_000]).await.expect("it waits");
        assert_eq!(world.waits(), 13);
        world.volume.sync().await.expect("durable");
        for handle in [again, other] {
            world.volume.close(handle).await.expect("closed");
        }
        world.check().await;
    });
}

#[test]
fn a_cut_that_fails_takes_nothing() {
    with(64 << 20, Settings::default(), async |world| {
        let (handle, caller) = (world.create("file").await, Caller::default());
        for part in 0..10u8 {
            world.write(&handle, u64::from(part) * 100_000, &[part + 1; 100_000]).await.expect("it waits");
        }
        let content = world.read(&handle).await;
        let zones = world.volume.store.superblock().zones_at();
        world.disk.fail_writes(zones..64 << 20, ErrorPersistence::UntilCleared);
        let cut = SetAttributes { size_bytes: Some(300_000), ..SetAttributes::default() };
        assert_eq!(world.volume.set(&caller, handle.id(), &cut).await.expect_err("told").kind, ErrorKind::Io);
        assert_eq!(world.read(&handle).await, content);
        world.disk.clear_faults();
        world.volume.set(&caller, handle.id(), &cut).await.expect("cut");
        assert_eq!(world.waits(), 0);
        assert_eq!(world.read(&handle).await, content[..300_000]);
        // Sparse, with nothing but what is cut off, and longer again.
        world.write(&handle, 2_000_000, &[7; 10]).await.expect("it waits");
        let longer = SetAttributes { size_bytes: Some(1_000_000), ..SetAttributes::default() };
        world.volume.set(&caller, handle.id(), &longer).await.expect("cut");
        let found = world.read(&handle).await;
        assert!(found.len() == 1_000_000 && found[300_000..].iter().all(|byte| *byte == 0));
        world.volume.close(handle).await.expect("closed");
        world.check().await;
    });
}

#[test]
fn repairs_leave_what_waits_alone() {
    with(64 << 20, Settings::default(), async |world| {
        let handle = world.create("file").await;
        world.write(&handle, 0, &[3; 50_000]).await.expect("it waits");
        let zones = world.volume.store.superblock().zones_at();
        world.disk.fail_writes(zones..64 << 20, ErrorPersistence::UntilCleared);
        world.volume.sync().await.expect_err("the device fails");
        let held_back = world.volume.hold_back().await;
        world.disk.clear_faults();
        world.volume.sync().await.expect("nothing is tried");
        assert_eq!(world.waits(), 13);
        drop(held_back);
        assert_eq!(world.volume.spotfix_offline().await.expect_err("it is open").kind, ErrorKind::Busy);
        world.disk.fail_writes(zones..64 << 20, ErrorPersistence::UntilCleared);
        world.volume.close(handle.clone()).await.expect("it waits on");
        world.disk.clear_faults();
        world.volume.spotfix_offline().await.expect("repaired");
        let again = world.volume.open(&Caller::default(), handle.id(), OPEN).await.expect("opened");
        assert_eq!(world.read(&again).await, [3; 50_000]);
        world.volume.close(again).await.expect("closed");
        world.check().await;
    });
}

#[test]
fn a_file_without_names_and_handles_is_opened_by_nobody() {
    with(64 << 20, Settings::default(), async |world| {
        let (caller, root) = (Caller::default(), world.volume.root());
        let (_, handle) = world.volume.create_unnamed(&caller, root, &FILE).await.expect("created");
        let id = handle.id();
        world.write(&handle, 0, &[3; 50_000]).await.expect("it waits");
        let second = world.volume.open(&caller, id, OPEN).await.expect("it is open");
        world.volume.close(handle).await.expect("closed");
        assert_eq!(world.read(&second).await, [3; 50_000]);
        // The volume's own use of it is none to open or to name it by.
        let own = world.volume.open.enter_known(id.number).expect("known");
        world.volume.close(second).await.expect("closed");
        assert_eq!(world.volume.open(&caller, id, OPEN).await.expect_err("gone").kind, ErrorKind::Stale);
        assert_eq!(world.volume.link(&caller, id, root, b"name").await.expect_err("gone").kind, ErrorKind::Stale);
        world.volume.leave(&own, Use::Own).await.expect("gone");
        assert_eq!(world.volume.stat(id).await.expect_err("gone").kind, ErrorKind::Stale);
        world.check().await;
    });
}

#[test]
fn memory_is_bounded_and_nothing_that_waits_gives_way() {
    let settings = Settings { delayed_bytes: 256 << 10, ..Settings::default() };
    with(64 << 20, settings, async |world| {
        let bounded = || assert!(world.waits() <= 64, "{} blocks wait", world.waits());
        let mut handles = Vec::new();
        for number in 0..20u8 {
            handles.push(world.create(&format!("file {number}")).await);
        }
        // At once, and one after the other.
        let writes = handles.iter().enumerate().map(|(number, handle)| {
            let world = &world;
            async move { world.write(handle, 0, &vec![number as u8; 60_000]).await }
        });
        assert!(join_all(writes).await.into_iter().all(|written| written.is_ok()));
        bounded();
        let zones = world.volume.store.superblock().zones_at();
        world.disk.fail_writes(zones..64 << 20, ErrorPersistence::UntilCleared);
        let mut refused = 0;
        for handle in &handles {
            let written = world.write(handle, 60_000, &[99; 60_000]).await;
            refused += u32::from(written.is_err());
            bounded();
        }
        assert!(refused > 10, "{refused} refused");
        world.disk.clear_faults();
        world.volume.sync().await.expect("durable");
        for (number, handle) in handles.into_iter().enumerate() {
            let found = world.read(&handle).await;
            assert!(found.starts_with(&[number as u8; 60_000]));
            assert!(found[60_000..] == [99; 60_000] || found[60_000..].is_empty());
            world.volume.close(handle).await.expect("closed");
        }
        world.check().await;
    });
}

#[test]
fn data_of_a_removed_file_goes_nowhere() {
    with(64 << 20, Settings::default(), async |world| {
        let (caller, root) = (Caller::default(), world.volume.root());
        for _ in 0..20 {
            let one = world.create("one").await;
            world.write(&one, 0, &[1; 40_000]).await.expect("written");
            world.volume.sync().await.expect("durable");
            // Known places, and data that waits for one of them.
            assert_eq!(world.read(&one).await, [1; 40_000]);
            world.write(&one, 100, &[2; 5000]).await.expect("it waits");
            world.volume.close(one.clone()).await.expect("closed");
            let others = async {
                world.volume.remove(&caller, root, b"one", Remove::File).await.expect("removed");
                world.volume.checkpoint().await.expect("written");
                let other = world.create("other").await;
                world.write(&other, 0, &[5; 300_000]).await.expect("written");
                other
            };
            let (_, other) = join(world.volume.write_back(one.id().number), others).await;
            assert_eq!(world.read(&other).await, [5; 300_000]);
            world.volume.close(other).await.expect("closed");
            world.volume.remove(&caller, root, b"other", Remove::File).await.expect("removed");
        }
        world.check().await;
    });
}

#[test]
fn room_that_is_kept_for_a_file_is_written_in_pieces() {
    with(64 << 20, Settings::default(), async |world| {
        let handle = world.create("file").await;
        world.volume.allocate(&handle, 0, 2 << 20, Allocate::Reserve { keep_size: false }).await.expect("kept");
        let mut expected = vec![0; 2 << 20];
        for block in (0..400).step_by(3) {
            world.write(&handle, block * 4096 + 7, &[9; 50]).await.expect("it waits");
            expected[block as usize * 4096 + 7..][..50].fill(9);
        }
        assert!(world.volume.store.promised.load(Ordering::Relaxed) >= 2 * 134, "each may cut an extent");
        world.volume.sync().await.expect("durable");
        assert_eq!(world.read(&handle).await[..400 * 4096], expected[..400 * 4096]);
        world.volume.close(handle).await.expect("closed");
        world.check().await;
    });
}

#[test]
fn times_that_are_set_stay_whatever_is_written_back() {
    with(64 << 20, Settings::default(), async |world| {
        let (caller, handle) = (Caller::default(), world.create("file").await);
        for seconds in 1..50 {
            let at = Time { seconds, nanos: 0 };
            world.write(&handle, 5000, &[seconds as u8; 5000]).await.expect("it waits");
            let set = SetAttributes { modified: Some(SetTime::At(at)), ..SetAttributes::default() };
            let both = join(world.volume.set(&caller, handle.id(), &set), world.volume.write_back(handle.id().number));
            let (set, written) = both.await;
            set.expect("set");
            written.expect("written");
            world.volume.flush(handle.id(), Flush::All).await.expect("durable");
            assert_eq!(world.volume.stat(handle.id()).await.expect("known").modified, at);
        }
        world.volume.close(handle).await.expect("closed");
        world.check().await;
    });
}

#[test]
fn what_waited_a_second_is_written() {
    with(64 << 20, Settings::default(), async |world| {
        let work = async {
            let handle = world.create("file").await;
            world.write(&handle, 0, &[3; 50_000]).await.expect("it waits");
            world.clock.sleep(Duration::from_millis(300)).await;
            assert_eq!(world.waits(), 13);
            world.clock.sleep(Duration::from_millis(700)).await;
            assert_eq!(world.waits(), 0);
            // What is closed waits no longer than until the next look.
            world.write(&handle, 60_000, &[3; 50_000]).await.expect("it waits");
            assert!(world.waits() > 0);
            world.volume.close(handle).await.expect("closed");
            world.clock.sleep(Duration::from_millis(500)).await;
            assert_eq!(world.waits(), 0);
            world.volume.shut_down().await.expect("closed");
        };
        join(world.volume.clone().maintain(world.clock.clone()), work).await;
    });
}

#[test]
fn a_closed_volume_has_what_waited_with_its_times() {
    with(64 << 20, Settings::default(), async |world| {
        let (caller, at) = (Caller::default(), Time { seconds: 77, nanos: 0 });
        let old = world.create("old").await;
        world.write(&old, 0, &[3; 50_000]).await.expect("it waits");
        let set = SetAttributes { modified: Some(SetTime::At(at)), ..SetAttributes::default() };
        let facts = world.volume.set(&caller, old.id(), &set).await.expect("set");
        assert_eq!((facts.size_bytes, facts.modified), (50_000, at));
        world.volume.close(old).await.expect("closed");
        let new = world.create("new").await;
        world.write(&new, 0, &[4; 3000]).await.expect("it waits");
        world.volume.close(new).await.expect("closed");
        let before = world.volume.lookup(&caller, world.volume.root(), b"new").await.expect("found").expect("there");
        world.volume.shut_down().await.expect("closed");
        let volume = open(&world.disk).await;
        let old = volume.lookup(&caller, volume.root(), b"old").await.expect("found").expect("there");
        assert_eq!((old.size_bytes, old.modified), (50_000, at), "times that were set stay");
        let new = volume.lookup(&caller, volume.root(), b"new").await.expect("found").expect("there");
        assert_eq!((new.size_bytes, new.modified), (3000, before.modified));
    });
}

#[test]
fn others_see_what_waits() {
    with(64 << 20, Settings::default(), async |world| {
        let handle = world.create("file").await;
        let mut expected = vec![0; 100_000];
        for (at, len) in [(10_000, 9000), (50_000, 1), (99_000, 1000), (70_000, 8192)] {
            world.write(&handle, at as u64, &vec![9; len]).await.expect("it waits");
            expected[at..at + len].fill(9);
        }
        assert_eq!(world.read(&handle).await, expected);
        let seek = async |at, what| world.volume.seek(&handle, at, what).await.expect("found");
        assert_eq!((seek(0, Seek::Data).await, seek(10_000, Seek::Hole).await), (8192, 20_480));
        assert_eq!((seek(20_480, Seek::Data).await, seek(82_000, Seek::Data).await), (49_152, 98_304));
        let copy = world.create("copy").await;
        assert_eq!(world.volume.copy((&handle, 0), (&copy, 0), 1 << 20).await, Ok(100_000));
        assert_eq!(world.read(&copy).await, expected);
        world.volume.allocate(&handle, 12_000, 3000, Allocate::Punch).await.expect("punched");
        expected[12_000..15_000].fill(0);
        assert_eq!(world.read(&handle).await, expected);
        for handle in [handle, copy] {
            world.volume.close(handle).await.expect("closed");
        }
        world.volume.sync().await.expect("durable");
        world.check().await;
    });
}

/// A file written anew in place of another, by its name or by itself, while power fails.
#[test]
fn what_takes_the_place_of_a_file_is_whole() {
    for is_renamed in [true, false] {
        let mut found = std::collections::BTreeSet::new();
        for cut in 0..60 {
            let sim = Sim::new(cut);
            let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
            let (made, clock_of_sim) = (disk.clone(), sim.clock());
            let begun = async move {
                let device: Arc<dyn Device> = made.clone();
                let store = Format { volume: Uuid::from_u128(3), log_bytes: None };
                let (secret, owner) = ([4; 16], (0, 0));
                let format = VolumeFormat { store, secret, owner, mode: 0o777, is_case_sensitive: false };
                Volume::format(&device, format, Time::default()).await.expect("formatted");
                let volume = Arc::new(Volume::open(device, Settings::default(), clock()).await.expect("opened"));
                let world = World { disk: made, clock: clock_of_sim, volume };
                let old = world.create("file").await;
                world.write(&old, 0, &[1; 20_000]).await.expect("written");
                world.volume.close(old).await.expect("closed");
                world.volume.sync().await.expect("durable");
                world
            };
            let world = sim.run(begun).expect("powered");
            sim.cut_power_after(cut);
            _ = sim.run(async move {
                let (volume, caller, root) = (&world.volume, Caller::default(), world.volume.root());
                if is_renamed {
                    let new = world.create("new").await;
                    world.write(&new, 0, &[2; 30_000]).await.expect("written");
                    volume.close(new).await.expect("closed");
                    volume.rename(&caller, (root, b"new"), (root, b"file"), Rename::Replace).await.expect("renamed");
                } else {
                    let file = volume.lookup(&caller, root, b"file").await.expect("found").expect("there").id;
                    let new = volume.open(&caller, file, OpenMode { truncate: true, ..OPEN }).await.expect("opened");
                    world.write(&new, 0, &[2; 30_000]).await.expect("written");
                    volume.close(new).await.expect("closed");
                }
                assert_eq!(world.waits(), 0, "it is on its way");
                volume.sync().await.expect("durable");
            });
            sim.restart();
            let read = async move {
                let volume = open(&disk).await;
                let (caller, root) = (Caller::default(), volume.root());
                let file = volume.lookup(&caller, root, b"file").await.expect("found").expect("there").id;
                let handle = volume.open(&caller, file, OPEN).await.expect("opened");
                volume.read(&handle, 0, 1 << 20).await.expect("read").to_vec()
            };
            let read = sim.run(read).expect("powered");
            assert!(read.is_empty() || [20_000, 30_000].contains(&read.len()), "{} bytes", read.len());
            assert!(read.iter().all(|byte| *byte == if read.len() == 20_000 { 1 } else { 2 }));
            found.insert(read.len());
        }
        assert!(found.contains(&20_000) && found.contains(&30_000), "{found:?}");
        assert!(!is_renamed || !found.contains(&0), "{found:?}");
    }
}

#[test]
fn what_is_written_lasts_within_a_second_although_nobody_asks() {
    with(64 << 20, Settings::default(), async |world| {
        let rest = async {
            for round in 0..6u64 {
                let handle = world.create(&format!("file {round}")).await;
                world.write(&handle, 0, &vec![round as u8; 30_000 << (round % 3)]).await.expect("written");
                if round % 2 == 0 {
                    world.volume.close(handle.clone()).await.expect("closed");
                }
                world.clock.sleep(Duration::from_millis(137 * round)).await;
                let handle = world.volume.open(&Caller::default(), handle.id(), OPEN).await.expect("opened");
                world.write(&handle, 5, &[9; 7]).await.expect("written");
                let (last, written) = (world.volume.store.last(), world.volume.store.data.written());
                world.clock.sleep(Duration::from_secs(1)).await;
                assert_eq!(world.waits(), 0, "round {round}: all has its place");
                let is_there = world.volume.store.data.is_flushed(written) && world.volume.store.log.is_synced(last);
                assert!(is_there, "round {round}: it is durable");
            }
            world.volume.closing.raise();
        };
        join(world.volume.clone().maintain(world.clock.clone()), rest).await;
    });
}
