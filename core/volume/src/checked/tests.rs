//! Blocks with checksums: damaged in one copy and in all, put back as they were before, moved, shared, cut and kept by
//! snapshots. What is right in some copy is delivered and put right; what is not fails alone.

use std::pin::Pin;
use std::sync::Arc;

use holdfast_device::sim::{ErrorPersistence, Sim, SimDisk, SimDiskSpec};
use holdfast_device::{Copies, Device, IoSlice};
use holdfast_model::Uuid;

use super::*;
use crate::error::ErrorKind;
use crate::extents::{Ground, Piece};
use crate::integrity::Integrity;
use crate::open_files::Handle;
use crate::repair::tests::kinds::Mirror;
use crate::scrub::{ScrubFrom, Scrubbed};
use crate::service::{
    Allocate, Caller, DosAttributes, FileKind, FileService, Flush, NewFile, OpenMode, Remove, SetAttributes, Time,
};
use crate::shrink::Steps;
use crate::store::{Format, Settings};
use crate::sums::MOST_SUMMED;
use crate::superblock::CHECKSUMS;
use crate::volume::{VolumeFormat, WallClock};

const FILE: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
const DIRECTORY: NewFile<'static> = NewFile { kind: FileKind::Directory, mode: 0o755, target: b"" };
const OPEN: OpenMode = OpenMode { read: true, write: true, truncate: false };

/// Steps that go on.
pub(crate) struct Goes;

impl Steps for Goes {
    fn step(&self, _: u64) -> Pin<Box<dyn Future<Output = bool> + '_>> {
        Box::pin(async { true })
    }

    fn done(&self, _: u64) {}
}

fn clock() -> WallClock {
    Arc::new(|| Time { seconds: 1_700_000_000, nanos: 0 })
}

/// A volume on a disk, or on two that hold the same.
pub(crate) struct World {
    pub(crate) disks: Vec<Arc<SimDisk>>,
    pub(crate) volume: Arc<Volume>,
    pub(crate) caller: Caller,
}

async fn open(disks: &[Arc<SimDisk>]) -> Volume {
    // What is read comes from the device.
    let settings = Settings { cache_bytes: 1 << 20, ..Settings::default() };
    match disks {
        [one, other] => {
            let mirror: Arc<dyn Copies> = Arc::new(Mirror([one.clone(), other.clone()]));
            Volume::open_with_copies(mirror, settings, clock()).await.expect("it opens")
        }
        _ => Volume::open(disks[0].clone(), settings, clock()).await.expect("it opens"),
    }
}

/// Runs a test on a new volume on so many disks.
pub(crate) fn with(disks: usize, test: impl AsyncFnOnce(World) + 'static) {
    let sim = Sim::new(1);
    let disk = |_| SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, garbage: true, ..SimDiskSpec::default() });
    let disks: Vec<Arc<SimDisk>> = (0..disks).map(disk).collect();
    let ran = sim.run(async move {
        let device: Arc<dyn Device> = match &disks[..] {
            [one, other] => Arc::new(Mirror([one.clone(), other.clone()])),
            some => some[0].clone(),
        };
        let store = Format { volume: Uuid::from_u128(5), log_bytes: None };
        let format = VolumeFormat { store, secret: [3; 16], owner: (0, 0), is_case_sensitive: false, mode: 0o777 };
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        let volume = Arc::new(open(&disks).await);
        test(World { disks, volume, caller: Caller::default() }).await;
    });
    ran.expect("powered");
}

/// Blocks that differ from each other, and from those of another seed.
pub(crate) fn pattern(seed: u8, blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK).map(|at| (at / BLOCK) as u8 ^ (at as u8).rotate_left(3) ^ seed).collect()
}

pub(crate) fn flip(disk: &SimDisk, at: u64) {
    let byte = disk.peek(at + 77, 1)[0];
    disk.poke(at + 77, &[byte ^ 4]);
}

impl World {
    pub(crate) async fn create(&self, name: &str, mode: Integrity) -> Handle {
        let facts = self.volume.create(&self.caller, self.volume.root(), name.as_bytes(), &FILE).await.expect("made");
        self.volume.set_integrity(&self.caller, facts.id, mode).await.expect("set");
        self.volume.open(&self.caller, facts.id, OPEN).await.expect("opened")
    }

    /// A file that holds this, on the device.
    pub(crate) async fn file(&self, name: &str, mode: Integrity, bytes: &[u8]) -> Handle {
        let handle = self.create(name, mode).await;
        self.write(&handle, 0, bytes).await.expect("written");
        self.volume.flush(handle.id(), Flush::All).await.expect("durable");
        handle
    }

    pub(crate) async fn write(&self, handle: &Handle, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            done += self.volume.write(handle, offset + done as u64, IoSlice::padded(rest), rest.len()).await?;
        }
        Ok(())
    }

    pub(crate) async fn read(&self, handle: &Handle, block: usize, blocks: usize) -> Result<Vec<u8>, ErrorKind> {
        let read = self.volume.read(handle, (block * BLOCK) as u64, blocks * BLOCK).await;
        read.map(|data| data.to_vec()).map_err(|error| error.kind)
    }

    /// Extents, with the block of the file that each begins at.
    pub(crate) async fn extents(&self, handle: &Handle) -> Vec<(u64, Extent)> {
        held(&handle.file.state).mapping = None;
        let pieces = self.volume.pieces(&handle.file, 0, 1 << 20).await.expect("known");
        let written = |piece: &Piece| match &piece.ground {
            Ground::Written(extent) => Some((piece.block, extent.clone())),
            _ => None,
        };
        pieces.iter().filter_map(written).collect()
    }

    /// Where a block of a file is, in bytes.
    pub(crate) async fn at(&self, handle: &Handle, block: u64) -> u64 {
        let pieces = self.volume.pieces(&handle.file, block, block + 1).await.expect("known");
        let Ground::Written(extent) = &pieces[0].ground else { panic!("no data") };
        extent.place * BLOCK_BYTES
    }

    pub(crate) async fn scrub(&self) -> Scrubbed {
        let (mut all, mut from) = (Scrubbed::default(), Some(ScrubFrom::default()));
        while let Some(at) = from {
            let step = self.volume.scrub(at, 5 * BLOCK_BYTES).await.expect("it goes through");
            from = step.next;
            all.checked += step.checked;
            all.healed += step.healed;
            all.lost += step.lost;
            all.unsummed += step.unsummed;
            all.damaged.extend(step.damaged);
        }
        all
    }

    fn counts(&self) -> (u64, u64, u64) {
        let ChecksumCounts { wrong, healed, lost, .. } = self.volume.checksum_counts();
        (wrong, healed, lost)
    }

    /// The volume has no finding, and each block of strict files that has a checksum is as that says.
    pub(crate) async fn is_sound(&self) {
        assert_eq!(self.volume.scan().await, Ok(Vec::new()));
        let scrubbed = self.scrub().await;
        let Scrubbed { checked, unsummed, .. } = scrubbed;
        assert_eq!(scrubbed, Scrubbed { checked, unsummed, ..Scrubbed::default() });
    }
}

#[test]
fn what_is_wrong_in_one_copy_is_delivered_from_the_other_and_put_right() {
    with(2, async |world| {
        let handle = world.file("strict", Integrity::Strict, &pattern(1, 10)).await;
        let at = world.at(&handle, 3).await;
        let right = world.disks[0].peek(at, BLOCK);
        flip(&world.disks[0], at);
        assert!(world.read(&handle, 0, 10).await == Ok(pattern(1, 10)));
        assert_eq!(world.counts(), (1, 1, 0));
        assert!(world.disks.iter().all(|disk| disk.peek(at, BLOCK) == right), "both copies are right again");
        let told = DamagedBlock {
            file: handle.id().number,
            snapshot: None,
            offset: 3 * BLOCK_BYTES,
            outcome: DamageOutcome::Healed,
        };
        assert_eq!(world.volume.take_damaged(), [told]);

        // One that cannot be read, and parts of it are asked for.
        world.disks[0].fail_reads(at..at + BLOCK_BYTES, ErrorPersistence::UntilRewritten);
        let part = world.volume.read(&handle, 3 * BLOCK_BYTES + 100, 50).await.expect("read").to_vec();
        assert!(part == pattern(1, 10)[3 * BLOCK + 100..3 * BLOCK + 150]);
        assert_eq!(world.counts(), (2, 2, 0));
        assert!(world.disks[0].peek(at, BLOCK) == right && world.read(&handle, 3, 1).await.is_ok());

        // The copy that nobody reads is wrong: a scrub sees it.
        flip(&world.disks[1], at);
        assert!(world.read(&handle, 0, 10).await == Ok(pattern(1, 10)));
        assert_eq!(world.counts(), (2, 2, 0));
        let scrubbed = world.scrub().await;
        assert_eq!((scrubbed.checked, scrubbed.healed, scrubbed.lost), (10, 1, 0));
        assert!(world.disks[1].peek(at, BLOCK) == right);
        assert_eq!(world.counts(), (3, 3, 0));
        world.is_sound().await;
    });
}

#[test]
fn a_volume_that_takes_no_changes_writes_nothing_and_delivers() {
    with(2, async |world| {
        let handle = world.file("strict", Integrity::Strict, &pattern(1, 4)).await;
        let at = world.at(&handle, 2).await;
        flip(&world.disks[0], at);
        world.volume.store.fail(VolumeError::new(ErrorKind::Io, "as if the log were gone"));
        let writes = world.disks[0].counters().writes;
        assert!(world.read(&handle, 0, 4).await == Ok(pattern(1, 4)));
        assert_eq!(world.disks[0].counters().writes, writes);
        assert_eq!((world.counts(), world.volume.take_damaged()[0].outcome), ((1, 0, 0), DamageOutcome::Served));
    });
}

/// What no copy has fails alone, and can be written anew.
async fn fails_alone(world: World) {
    let handle = world.file("strict", Integrity::Strict, &pattern(1, 10)).await;
    let at = world.at(&handle, 6).await;
    world.disks.iter().for_each(|disk| flip(disk, at));
    assert_eq!(world.read(&handle, 6, 1).await, Err(ErrorKind::Corrupt));
    assert_eq!(world.read(&handle, 0, 10).await, Err(ErrorKind::Corrupt), "a read is all or nothing");
    assert!(world.read(&handle, 0, 6).await.as_deref() == Ok(&pattern(1, 10)[..6 * BLOCK]));
    assert!(world.read(&handle, 7, 3).await.as_deref() == Ok(&pattern(1, 10)[7 * BLOCK..]));
    let error = world.volume.read(&handle, 6 * BLOCK_BYTES, 9).await.expect_err("it is lost");
    assert!(error.to_string().contains("bytes 24576 to 28671"), "{error}");
    let lost = DamagedBlock {
        file: handle.id().number,
        snapshot: None,
        offset: 6 * BLOCK_BYTES,
        outcome: DamageOutcome::Lost,
    };
    let scrubbed = world.scrub().await;
    assert_eq!((scrubbed.checked, scrubbed.healed, scrubbed.lost, scrubbed.damaged), (10, 0, 1, vec![lost]));
    assert_eq!(world.volume.take_damaged(), [lost], "told once");
    assert_eq!(world.volume.take_damaged(), [], "and taken");

    // What is merged with it would be blessed.
    assert_eq!(world.write(&handle, 6 * BLOCK_BYTES + 5, b"part").await.expect_err("lost").kind, ErrorKind::Corrupt);
    let zero = Allocate::Zero { keep_size: true };
    let zeroed = world.volume.allocate(&handle, 6 * BLOCK_BYTES + 5, 100, zero).await;
    assert_eq!(zeroed.expect_err("lost").kind, ErrorKind::Corrupt);
    // Nor does it come back as zeros when the file is cut within it, and grows.
    let cut = SetAttributes { size_bytes: Some(6 * BLOCK_BYTES + 9), ..SetAttributes::default() };
    world.volume.set(&world.caller, handle.id(), &cut).await.expect("cut");
    let grown = SetAttributes { size_bytes: Some(9 * BLOCK_BYTES), ..SetAttributes::default() };
    let grown = world.volume.set(&world.caller, handle.id(), &grown).await;
    assert_eq!(grown.expect_err("lost").kind, ErrorKind::Corrupt);

    world.write(&handle, 6 * BLOCK_BYTES, &pattern(2, 1)).await.expect("written");
    assert!(world.read(&handle, 6, 1).await == Ok(pattern(2, 1)));
    world.is_sound().await;
}

#[test]
fn what_no_copy_has_fails_alone() {
    with(2, fails_alone);
}

#[test]
fn what_scrubs_leave_alone_is_lost_still() {
    with(1, async |world| {
        let handle = world.file("strict", Integrity::Strict, &pattern(1, 10)).await;
        flip(&world.disks[0], world.at(&handle, 6).await);
        let (id, at) = (handle.id(), 6 * BLOCK_BYTES);
        let is_lost = async |snapshot| world.volume.is_lost(snapshot, id.number, at).await.expect("looked up");
        assert!(is_lost(None).await);
        let snapshot = world.volume.create_snapshot("kept").await.expect("made").generation;
        world.volume.set_integrity(&world.caller, id, Integrity::None).await.expect("set");
        assert_eq!((world.scrub().await.lost, is_lost(None).await), (1, true), "only the snapshot is scrubbed");
        world.write(&handle, at, &pattern(2, 1)).await.expect("written");
        assert_eq!((is_lost(None).await, is_lost(Some(snapshot)).await), (false, true));
        assert!(!world.volume.is_lost(None, id.number, 0).await.expect("looked up"), "another block");
        assert!(!is_lost(Some(snapshot + 1)).await, "there is no such snapshot");
        world.volume.close(handle).await.expect("closed");
        world.volume.remove(&world.caller, world.volume.root(), b"strict", Remove::File).await.expect("removed");
        assert!(!is_lost(None).await, "the file is gone");
    });
}

#[test]
fn what_is_lost_pushes_out_what_was_put_right() {
    let checks = Checks::default();
    let found = |block: u64, outcome| DamagedBlock { file: 1, snapshot: None, offset: block * BLOCK_BYTES, outcome };
    for block in 0..MOST_FOUND as u64 {
        checks.note(found(block, if block == 7 { DamageOutcome::Healed } else { DamageOutcome::Lost }));
    }
    checks.note(found(1000, DamageOutcome::Healed));
    checks.note(found(1001, DamageOutcome::Lost));
    checks.note(found(1002, DamageOutcome::Lost));
    let kept = held(&checks.found);
    assert_eq!(kept.len(), MOST_FOUND);
    assert!(
        kept.iter().all(|one| one.outcome == DamageOutcome::Lost) && kept.contains(&found(1001, DamageOutcome::Lost))
    );
}

#[test]
fn without_copies_what_is_wrong_fails_alone() {
    with(1, fails_alone);
}

#[test]
fn a_write_that_was_lost_is_seen() {
    with(1, async |world| {
        let disk = &world.disks[0];
        for (name, mode, is_seen) in [("strict", Integrity::Strict, true), ("other", Integrity::PassThrough, false)] {
            let handle = world.file(name, mode, &pattern(1, 8)).await;
            let before = disk.image();
            world.write(&handle, 2 * BLOCK_BYTES, &pattern(2, 1)).await.expect("written");
            world.volume.flush(handle.id(), Flush::All).await.expect("durable");
            let at = world.at(&handle, 2).await;
            // What stood there before is back.
            let now = disk.image();
            disk.set_back(&before);
            let old = disk.peek(at, BLOCK);
            disk.set_back(&now);
            disk.poke(at, &old);
            let read = world.read(&handle, 2, 1).await;
            assert_eq!(read == Err(ErrorKind::Corrupt), is_seen, "{name}");
        }
    });
}

#[test]
fn a_block_that_is_written_over_moves_and_leaves_the_old_one_alone() {
    with(1, async |world| {
        let handle = world.file("strict", Integrity::Strict, &pattern(1, 200)).await;
        let all = world.extents(&handle).await;
        assert!(all.iter().all(|(_, one)| one.sums.is_some() && one.blocks <= MOST_SUMMED), "{all:?}");
        assert!(all.len() <= 5, "{} extents", all.len());
        // Small and in memory first, whole blocks, large enough to go at once, and parts of blocks.
        for (seed, block, blocks) in [(2u8, 70u64, 1usize), (3, 5, 20), (4, 60, 100)] {
            let places: Vec<u64> = {
                let mut places = Vec::new();
                for at in block..block + blocks as u64 {
                    places.push(world.at(&handle, at).await);
                }
                places
            };
            let old: Vec<Vec<u8>> = places.iter().map(|at| world.disks[0].peek(*at, BLOCK)).collect();
            world.write(&handle, block * BLOCK_BYTES, &pattern(seed, blocks)).await.expect("written");
            world.volume.flush(handle.id(), Flush::All).await.expect("durable");
            let kept = places.iter().zip(&old).all(|(at, old)| world.disks[0].peek(*at, BLOCK) == *old);
            assert!(kept, "nothing is written over before a checkpoint lets go of it");
            assert!(world.read(&handle, block as usize, blocks).await == Ok(pattern(seed, blocks)));
            world.is_sound().await;
        }
        world.write(&handle, 199 * BLOCK_BYTES + 4000, &pattern(9, 1)).await.expect("written");
        world.volume.allocate(&handle, 10 * BLOCK_BYTES + 9, 20 * BLOCK_BYTES, Allocate::Punch).await.expect("punched");
        let zero = Allocate::Zero { keep_size: true };
        world.volume.allocate(&handle, 90 * BLOCK_BYTES + 9, 20 * BLOCK_BYTES, zero).await.expect("zeroed");
        world.volume.flush(handle.id(), Flush::All).await.expect("durable");
        assert!(world.extents(&handle).await.iter().all(|(_, one)| one.sums.is_some()));
        world.is_sound().await;
    });
}

#[test]
fn room_that_was_set_aside_and_small_files_get_checksums_with_their_data() {
    with(1, async |world| {
        let handle = world.create("strict", Integrity::Strict).await;
        world.write(&handle, 0, b"within the record").await.expect("written");
        assert!(!world.volume.store.has_feature(CHECKSUMS), "nothing has any so far");
        let reserve = Allocate::Reserve { keep_size: false };
        world.volume.allocate(&handle, 0, 300 * BLOCK_BYTES, reserve).await.expect("set aside");
        world.write(&handle, 40 * BLOCK_BYTES, &pattern(3, 200)).await.expect("written");
        world.write(&handle, 3 * BLOCK_BYTES, &pattern(4, 1)).await.expect("written");
        world.volume.flush(handle.id(), Flush::All).await.expect("durable");
        assert!(world.volume.store.has_feature(CHECKSUMS));
        let all = world.extents(&handle).await;
        assert!(all.iter().all(|(_, one)| one.sums.is_some() && one.blocks <= MOST_SUMMED), "{all:?}");
        let blocks: u32 = all.iter().map(|(_, one)| one.blocks).sum();
        assert_eq!(blocks, 1 + 1 + 200);
        world.is_sound().await;
        let again = open(&world.disks).await;
        let handle = again.open(&world.caller, handle.id(), OPEN).await.expect("opened");
        let read = again.read(&handle, 40 * BLOCK_BYTES, 200 * BLOCK).await.expect("read").to_vec();
        assert!(read == pattern(3, 200) && again.checksum_counts().checked >= 200);
    });
}

#[test]
fn a_file_that_becomes_strict_has_checksums_of_all_that_it_holds() {
    with(1, async |world| {
        let handle = world.file("file", Integrity::PassThrough, &pattern(1, 1500)).await;
        // Others have some of it, a snapshot all of it, and some waits.
        let clone = world.create("clone", Integrity::PassThrough).await;
        world.volume.clone_range((&handle, 30 * BLOCK_BYTES), (&clone, 0), 100 * BLOCK_BYTES).await.expect("cloned");
        world.volume.create_snapshot("before").await.expect("made");
        world.write(&handle, 1500 * BLOCK_BYTES, &pattern(2, 3)).await.expect("written");
        assert_eq!(world.scrub().await, Scrubbed::default(), "nothing has any");
        let facts = world.volume.set_integrity(&world.caller, handle.id(), Integrity::Strict).await.expect("set");
        assert_eq!(facts.dos.integrity(), Integrity::Strict);
        let scrubbed = world.scrub().await;
        assert_eq!((scrubbed.checked, scrubbed.unsummed), (1503, 0));
        assert!(world.extents(&clone).await.iter().all(|(_, one)| one.sums.is_none()));
        world.is_sound().await;

        // It keeps them until it is written to.
        world.volume.set_integrity(&world.caller, handle.id(), Integrity::None).await.expect("set");
        assert_eq!(world.scrub().await.checked, 0, "scrubs leave it alone");
        world.volume.set_integrity(&world.caller, handle.id(), Integrity::PassThrough).await.expect("set");
        assert_eq!(world.scrub().await.checked, 1503);
        world.write(&handle, 7 * BLOCK_BYTES, &pattern(5, 2)).await.expect("written");
        world.write(&handle, 50 * BLOCK_BYTES + 7, &pattern(6, 1)).await.expect("written");
        world.volume.flush(handle.id(), Flush::All).await.expect("durable");
        assert_eq!(world.scrub().await.checked, 1503 - 4);
        // What has none and is nobody else's is written where it lies, as before.
        world.volume.destroy_snapshot("before").await.expect("gone");
        let at = world.at(&handle, 7).await;
        world.write(&handle, 7 * BLOCK_BYTES, &pattern(8, 2)).await.expect("written");
        assert_eq!(world.at(&handle, 7).await, at);
        assert!(world.read(&handle, 7, 2).await == Ok(pattern(8, 2)));
        world.is_sound().await;
    });
}

#[test]
fn what_has_no_checksum_in_a_strict_file_gets_one_elsewhere() {
    with(1, async |world| {
        let handle = world.file("file", Integrity::PassThrough, &pattern(1, 8)).await;
        // As where the file became strict, and power failed before it had checksums.
        handle.file.strict.store(true, Ordering::Relaxed);
        let at = world.at(&handle, 2).await;
        let old = world.disks[0].peek(at, BLOCK);
        world.write(&handle, 2 * BLOCK_BYTES, &pattern(2, 1)).await.expect("written");
        world.write(&handle, 7 * BLOCK_BYTES + 9, &pattern(3, 2)).await.expect("written");
        world.volume.flush(handle.id(), Flush::All).await.expect("durable");
        assert!(world.at(&handle, 2).await != at && world.disks[0].peek(at, BLOCK) == old);
        let all = world.extents(&handle).await;
        let summed: u32 = all.iter().filter(|(_, one)| one.sums.is_some()).map(|(_, one)| one.blocks).sum();
        assert_eq!(summed, 1 + 3);
        world.is_sound().await;
    });
}

#[test]
fn a_clone_has_the_checksums_of_what_it_is_of() {
    with(1, async |world| {
        let strict = world.file("strict", Integrity::Strict, &pattern(1, 100)).await;
        let plain = world.file("plain", Integrity::PassThrough, &pattern(2, 20)).await;
        world.volume.clone_range((&strict, 10 * BLOCK_BYTES), (&plain, 0), 80 * BLOCK_BYTES).await.expect("cloned");
        world.volume.clone_range((&plain, 0), (&strict, 95 * BLOCK_BYTES), 5 * BLOCK_BYTES).await.expect("cloned");
        let summed = world.extents(&plain).await.iter().filter(|(_, one)| one.sums.is_some()).count();
        assert!(summed > 0 && world.scrub().await.checked == 100 + 80);
        let at = world.at(&plain, 40).await;
        flip(&world.disks[0], at);
        assert_eq!(world.read(&plain, 40, 1).await, Err(ErrorKind::Corrupt), "also where the file is not strict");
        assert_eq!(world.read(&strict, 50, 1).await, Err(ErrorKind::Corrupt));
        assert_eq!(world.scrub().await.lost, 2);
        world.write(&plain, 40 * BLOCK_BYTES, &pattern(3, 1)).await.expect("written");
        world.write(&strict, 50 * BLOCK_BYTES, &pattern(3, 1)).await.expect("written");
        world.is_sound().await;
    });
}

#[test]
fn what_a_strict_file_gets_of_one_that_is_not_is_summed_first() {
    with(1, async |world| {
        let plain = world.file("plain", Integrity::PassThrough, &pattern(4, 1500)).await;
        world.write(&plain, 1600 * BLOCK_BYTES, &pattern(5, 3)).await.expect("written");
        let strict = world.file("strict", Integrity::Strict, &pattern(1, 10)).await;
        let past = world.create("past", Integrity::Strict).await;
        world.volume.clone_range((&plain, 0), (&strict, 5 * BLOCK_BYTES), 1603 * BLOCK_BYTES).await.expect("cloned");
        world.volume.create_snapshot("s").await.expect("made");
        let from = ("s", plain.id(), 0);
        let cloned = world.volume.clone_from_snapshot(&world.caller, from, (&past, 0), 1603 * BLOCK_BYTES).await;
        cloned.expect("cloned");
        for (handle, at, more) in [(&strict, 5, 5), (&past, 0, 0)] {
            let extents = world.extents(handle).await;
            assert!(extents.iter().all(|(_, one)| one.sums.is_some()), "{extents:?}");
            assert_eq!(extents.iter().map(|(_, one)| one.blocks).sum::<u32>(), 1503 + more);
            assert!(world.read(handle, at, 1500).await == Ok(pattern(4, 1500)));
            assert!(world.read(handle, at + 1600, 3).await == Ok(pattern(5, 3)));
        }
        assert!(world.extents(&plain).await.iter().all(|(_, one)| one.sums.is_none()), "the other is as it was");
        assert_eq!(world.at(&plain, 70).await, world.at(&past, 70).await, "nothing is copied");
        let scrubbed = world.scrub().await;
        assert_eq!((scrubbed.unsummed, scrubbed.lost), (0, 0), "{scrubbed:?}");
        world.is_sound().await;
        let at = world.at(&plain, 70).await;
        flip(&world.disks[0], at);
        assert_eq!(world.read(&strict, 75, 1).await, Err(ErrorKind::Corrupt));
        assert_eq!(world.read(&past, 70, 1).await, Err(ErrorKind::Corrupt));
        assert!(world.read(&plain, 70, 1).await.is_ok(), "nothing proves it there");
    });
}

#[test]
fn what_a_snapshot_has_is_checked_and_put_right_by_a_scrub() {
    with(2, async |world| {
        let handle = world.file("strict", Integrity::Strict, &pattern(1, 20)).await;
        world.volume.create_snapshot("old").await.expect("made");
        world.write(&handle, 0, &pattern(2, 20)).await.expect("written");
        world.volume.flush(handle.id(), Flush::All).await.expect("durable");
        let view = world.volume.open_snapshot("old").expect("it is there");
        let past = view.open(&world.caller, handle.id(), OpenMode { write: false, ..OPEN }).await.expect("opened");
        let pieces = view.pieces(&past.file, 4, 5).await.expect("known");
        let Ground::Written(extent) = &pieces[0].ground else { panic!("no data") };
        let at = extent.place * BLOCK_BYTES;
        let right = world.disks[1].peek(at, BLOCK);
        flip(&world.disks[0], at);
        assert!(view.read(&past, 0, 20 * BLOCK).await.expect("read").to_vec() == pattern(1, 20));
        assert_eq!(world.counts(), (1, 0, 0), "by the other copy");
        assert!(world.disks[0].peek(at, BLOCK) != right, "one who only reads writes nothing");
        let scrubbed = world.scrub().await;
        assert_eq!((scrubbed.checked, scrubbed.healed, scrubbed.lost), (40, 1, 0));
        assert!(world.disks[0].peek(at, BLOCK) == right);
        world.disks.iter().for_each(|disk| flip(disk, at));
        assert_eq!(view.read(&past, 4 * BLOCK_BYTES, BLOCK).await.expect_err("lost").kind, ErrorKind::Corrupt);
        assert!(world.read(&handle, 0, 20).await == Ok(pattern(2, 20)), "the file has other blocks");
        let scrubbed = world.scrub().await;
        assert_eq!((scrubbed.lost, scrubbed.damaged[0].snapshot), (1, view.store.snapshot));
        view.close(past).await.expect("closed");
        world.volume.destroy_snapshot("old").await.expect("nobody reads it");
        assert_eq!(world.scrub().await.checked, 20);
    });
}

/// Files with data at the end of a volume that is to shrink: one strict, and two that share strict blocks.
async fn spread(world: &World) -> (Handle, Handle, Handle) {
    let first = world.file("first", Integrity::PassThrough, &pattern(9, 6000)).await;
    let own = world.file("own", Integrity::Strict, &pattern(1, 100)).await;
    let shared = world.file("shared", Integrity::Strict, &pattern(2, 100)).await;
    let clone = world.create("clone", Integrity::PassThrough).await;
    world.volume.clone_range((&shared, 0), (&clone, 0), 100 * BLOCK_BYTES).await.expect("cloned");
    let cut = SetAttributes { size_bytes: Some(0), ..SetAttributes::default() };
    world.volume.set(&world.caller, first.id(), &cut).await.expect("cut");
    world.volume.close(first).await.expect("closed");
    world.volume.checkpoint().await.expect("it lasts");
    (own, shared, clone)
}

#[test]
fn what_moves_is_read_from_the_copy_that_is_right() {
    with(2, async |world| {
        let (own, shared, clone) = spread(&world).await;
        let (one, other) = (world.at(&own, 30).await, world.at(&shared, 40).await);
        flip(&world.disks[0], one);
        flip(&world.disks[0], other);
        let size = world.volume.plan_shrink(20 << 20).await.expect("planned").smallest_bytes.max(20 << 20);
        assert_eq!(world.volume.shrink(size, &Goes).await, Ok(true));
        assert!(world.at(&own, 30).await != one && world.at(&shared, 40).await != other, "they moved");
        assert_eq!(world.at(&shared, 40).await, world.at(&clone, 40).await, "and are shared still");
        assert!(world.read(&own, 0, 100).await == Ok(pattern(1, 100)));
        assert!(world.read(&shared, 0, 100).await == Ok(pattern(2, 100)));
        assert!(world.read(&clone, 0, 100).await == Ok(pattern(2, 100)));
        assert_eq!(world.counts(), (2, 2, 0));
        assert_eq!(world.scrub().await.checked, 300);
        world.is_sound().await;
    });
}

#[test]
fn what_is_lost_is_so_where_it_moves_to() {
    with(1, async |world| {
        let (own, shared, clone) = spread(&world).await;
        let (one, other) = (world.at(&own, 30).await, world.at(&shared, 40).await);
        flip(&world.disks[0], one);
        world.disks[0].fail_reads(other..other + BLOCK_BYTES, ErrorPersistence::UntilRewritten);
        let size = world.volume.plan_shrink(20 << 20).await.expect("planned").smallest_bytes.max(20 << 20);
        assert_eq!(world.volume.shrink(size, &Goes).await, Ok(true));
        assert!(world.at(&own, 30).await != one && world.at(&shared, 40).await != other, "they moved");
        for (handle, seed, lost) in [(&own, 1, 30), (&shared, 2, 40), (&clone, 2, 40)] {
            assert_eq!(world.read(handle, lost, 1).await, Err(ErrorKind::Corrupt));
            assert!(world.read(handle, 0, lost).await.as_deref() == Ok(&pattern(seed, 100)[..lost * BLOCK]));
            let rest = &pattern(seed, 100)[(lost + 1) * BLOCK..];
            assert!(world.read(handle, lost + 1, 100).await.as_deref() == Ok(rest));
        }
        assert_eq!(world.scrub().await.lost, 3);
        assert_eq!(world.volume.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn what_is_made_has_the_mode_of_its_directory_and_those_may_change_it_who_may_set_attributes() {
    with(1, async |world| {
        let (volume, root) = (&world.volume, world.volume.root());
        let owner = Caller { uid: 7, gid: 7, ..Caller::default() };
        let other = Caller { uid: 8, gid: 8, ..Caller::default() };
        let dir = volume.create(&owner, root, b"dir", &DIRECTORY).await.expect("made").id;
        let before = volume.create(&owner, dir, b"before", &FILE).await.expect("made");
        assert_eq!(before.dos.integrity(), Integrity::PassThrough);
        let refused = volume.set_integrity(&other, dir, Integrity::Strict).await;
        assert_eq!(refused.expect_err("not his").kind, ErrorKind::NotPermitted);
        volume.set_integrity(&owner, dir, Integrity::Strict).await.expect("set");
        let below = volume.create(&owner, dir, b"below", &DIRECTORY).await.expect("made").id;
        let file = volume.create(&owner, below, b"file", &FILE).await.expect("made");
        assert_eq!(file.dos.integrity(), Integrity::Strict);
        let fifo = NewFile { kind: FileKind::Fifo, ..FILE };
        let fifo = volume.create(&owner, below, b"fifo", &fifo).await.expect("made");
        assert_eq!(fifo.dos.integrity(), Integrity::PassThrough);
        let refused = volume.set_integrity(&owner, fifo.id, Integrity::Strict).await;
        assert_eq!(refused.expect_err("it holds nothing").kind, ErrorKind::Invalid);
        let (unnamed, handle) = volume.create_unnamed(&owner, below, &FILE).await.expect("made");
        assert_eq!(unnamed.dos.integrity(), Integrity::Strict);
        world.write(&handle, 0, &pattern(1, 2)).await.expect("written");
        volume.flush(unnamed.id, Flush::All).await.expect("durable");
        assert!(world.extents(&handle).await.iter().all(|(_, one)| one.sums.is_some()));
        volume.close(handle).await.expect("closed");
        // Attributes that are set leave it as it is.
        let hidden = SetAttributes { dos: Some(DosAttributes::HIDDEN), ..SetAttributes::default() };
        let facts = volume.set(&owner, file.id, &hidden).await.expect("set");
        assert_eq!(facts.dos - DosAttributes::ARCHIVE, DosAttributes::HIDDEN | DosAttributes::INTEGRITY_STREAM);
        let stat = volume.stat(before.id).await.expect("known");
        assert_eq!(stat.dos.integrity(), Integrity::PassThrough, "what is there stays as it is");
        let facts = volume.set_integrity(&owner, file.id, Integrity::None).await.expect("set");
        assert_eq!(facts.dos - DosAttributes::ARCHIVE, DosAttributes::HIDDEN | DosAttributes::NO_SCRUB_DATA);
        let browsed = crate::Browsed::new(volume.clone());
        volume.create_snapshot("old").await.expect("made");
        let top = browsed.lookup(&owner, root, crate::SNAPSHOTS).await.expect("found").expect("it is there").id;
        let refused = browsed.set_integrity(&owner, top, Integrity::Strict).await;
        assert_eq!(refused.expect_err("what was stays").kind, ErrorKind::ReadOnly);
        browsed.set_integrity(&owner, file.id, Integrity::Strict).await.expect("set");
    });
}

#[test]
fn a_mode_that_is_set_lasts_and_open_files_follow_it() {
    with(1, async |world| {
        let handle = world.file("file", Integrity::PassThrough, &pattern(1, 4)).await;
        let at = world.at(&handle, 0).await;
        world.volume.set_integrity(&world.caller, handle.id(), Integrity::Strict).await.expect("set");
        world.write(&handle, 0, &pattern(2, 1)).await.expect("written");
        world.volume.flush(handle.id(), Flush::All).await.expect("durable");
        assert_ne!(world.at(&handle, 0).await, at, "the handle was open before");
        world.volume.shut_down().await.expect("closed");
        let again = open(&world.disks).await;
        let stat = again.stat(handle.id()).await.expect("known");
        assert_eq!(stat.dos.integrity(), Integrity::Strict);
        let again_open = again.open(&world.caller, handle.id(), OPEN).await.expect("opened");
        assert!(again_open.file.is_strict());
        assert_eq!(again.scrub(ScrubFrom::default(), 1 << 20).await.expect("goes").next.map(|next| next.tree), Some(1));
    });
}

#[test]
fn a_last_block_that_no_copy_has_is_written_anew_as_far_as_the_file_goes() {
    with(1, async |world| {
        let tail = 1000;
        for unbuffered in [false, true] {
            let name = format!("strict{unbuffered}");
            let bytes = &pattern(1, 3)[..2 * BLOCK + tail];
            let handle = world.file(&name, Integrity::Strict, bytes).await;
            flip(&world.disks[0], world.at(&handle, 2).await);
            let handle = if unbuffered { world.volume.unbuffered(handle) } else { handle };
            let at = 2 * BLOCK as u64;
            let fails =
                world.volume.read(&handle, at, tail).await.map(|data| data.to_vec().len()).map_err(|error| error.kind);
            assert_eq!(fails, Err(ErrorKind::Corrupt));
            let refused = world.write(&handle, at, &bytes[..tail - 1]).await.map_err(|error| error.kind);
            assert_eq!(refused, Err(ErrorKind::Corrupt), "a byte of it would stay");
            world.write(&handle, at, &pattern(9, 1)[..tail]).await.expect("all of it that counts");
            world.volume.flush(handle.id(), Flush::All).await.expect("it lasts");
            let read = world.volume.read(&handle, at, BLOCK).await.expect("read").to_vec();
            assert!(read == pattern(9, 1)[..tail]);
            world.volume.close(handle).await.expect("closed");
        }
        world.is_sound().await;
    });
}
