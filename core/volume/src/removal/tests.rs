//! Files without a name that are closed while the volume has no room even for removing them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_device::{Clock, Device, IoBuf};
use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::journal::{JournalRead, Reasons};
use crate::keys;
use crate::open_files::Handle;
use crate::service::{Allocate, Caller, FileId, FileKind, FileService, NewFile, OpenMode, Remove, Time};
use crate::store::{Format, Settings, held};
use crate::volume::{Volume, VolumeFormat, put_record, record_of};

const NEW: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
const MODE: OpenMode = OpenMode { read: true, write: true, truncate: false };
/// Blocks of the file, each an extent.
const BLOCKS: u64 = 200;

/// Runs a test on a volume on which all data is written at once.
fn with(test: impl AsyncFnOnce(Arc<Volume>, Arc<dyn Clock>) + 'static) {
    let sim = Sim::new(1);
    let clock: Arc<dyn Clock> = sim.clock();
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 32 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let device: Arc<dyn Device> = disk;
        let store = Format { volume: Uuid::from_u128(6), log_bytes: None };
        let format = VolumeFormat { store, secret: [3; 16], owner: (0, 0), is_case_sensitive: false, mode: 0o755 };
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        let settings = Settings { delayed_bytes: 0, ..Settings::default() };
        let volume = Volume::open(device, settings, Arc::new(Time::default)).await.expect("opened");
        test(Arc::new(volume), clock).await;
    });
    ran.expect("powered");
}

async fn write(volume: &Volume, handle: &Handle, block: u64, blocks: u64) -> Result<usize, VolumeError> {
    let data = IoBuf::zeroed((blocks * BLOCK_BYTES) as usize).freeze();
    let len = data.len();
    volume.write(handle, block * BLOCK_BYTES, data, len).await
}

/// A file of many extents that lost its name while it is open.
async fn unnamed(volume: &Volume) -> Handle {
    let (caller, root) = (Caller::default(), volume.root());
    let id = volume.create(&caller, root, b"gone", &NEW).await.expect("created").id;
    let handle = volume.open(&caller, id, MODE).await.expect("opened");
    for number in 0..BLOCKS {
        write(volume, &handle, 2 * number, 1).await.expect("written");
    }
    volume.remove(&caller, root, b"gone", Remove::File).await.expect("removed");
    handle
}

/// Takes room for nodes until not even a removal finds any; answers what was taken.
async fn take_nodes(volume: &Volume) -> Vec<u64> {
    for _ in 0..2 {
        volume.checkpoint().await.expect("made");
    }
    volume.store.line.store(0, Ordering::Release);
    let mut taken = Vec::new();
    while volume.store.check_room(1, Need::Less).is_ok() {
        taken.push(held(&volume.store.zones).take().expect("there is room"));
    }
    taken
}

/// Gives it back, as a snapshot does that is destroyed.
async fn give_nodes(volume: &Volume, taken: Vec<u64>) {
    taken.into_iter().for_each(|address| held(&volume.store.zones).free(address));
    volume.store.line.store(u32::MAX, Ordering::Release);
    for _ in 0..2 {
        volume.checkpoint().await.expect("made");
    }
}

/// Closes such a file on a volume without room; answers the blocks that are free before.
async fn close_late(volume: &Volume) -> u64 {
    let handle = unnamed(volume).await;
    let taken = take_nodes(volume).await;
    let free = held(&volume.store.rooms).free_blocks();
    let refused = volume.close(handle).await.expect_err("there is no room to remove it");
    assert_eq!(refused.kind, ErrorKind::NoSpace, "{refused}");
    assert_eq!(held(&volume.store.rooms).free_blocks(), free, "the file has its blocks");
    give_nodes(volume, taken).await;
    held(&volume.store.rooms).free_blocks()
}

#[test]
fn the_maintenance_removes_what_there_was_no_room_to_remove() {
    with(async |volume, clock| {
        let free = close_late(&volume).await;
        let rest = async {
            clock.sleep(Duration::from_secs(30)).await;
            volume.closing.raise();
        };
        join(volume.clone().maintain(clock.clone()), rest).await;
        volume.checkpoint().await.expect("made");
        assert!(held(&volume.store.rooms).free_blocks() >= free + BLOCKS, "its blocks are free");
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn a_write_that_finds_no_room_removes_what_there_was_no_room_to_remove() {
    with(async |volume, _| {
        close_late(&volume).await;
        let room = volume.room().free_bytes / BLOCK_BYTES;
        let id = volume.create(&Caller::default(), volume.root(), b"large", &NEW).await.expect("created").id;
        let handle = volume.open(&Caller::default(), id, MODE).await.expect("opened");
        let mut blocks = 0;
        let refused = loop {
            match write(&volume, &handle, blocks, 16).await {
                Ok(bytes) => blocks += bytes as u64 / BLOCK_BYTES,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind, ErrorKind::NoSpace, "{refused}");
        let notes = volume.store.range(crate::DEFERRED_TREE, b"", usize::MAX).await.expect("read");
        assert_eq!(notes, Vec::new(), "nothing is left to be removed");
        assert!(blocks > room + BLOCKS / 2, "{blocks} blocks were written, {room} were free, and {BLOCKS} late");
        volume.close(handle).await.expect("closed");
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn the_maintenance_closes_in_the_journal_what_there_was_no_room_to_close() {
    with(async |volume, clock| {
        volume.set_journal(1 << 20).await.expect("switched on");
        let (caller, root) = (Caller::default(), volume.root());
        let id = volume.create(&caller, root, b"changed", &NEW).await.expect("created").id;
        let handle = volume.open(&caller, id, MODE).await.expect("opened");
        write(&volume, &handle, 0, 1).await.expect("written");
        volume.sync().await.expect("it lasts");
        let notes = async || volume.store.range(crate::JOURNAL_TREE, &[0xff], usize::MAX).await.expect("read").len();
        assert_eq!(notes().await, 1, "it is open and was changed");
        let taken = take_nodes(&volume).await;
        volume.close(handle).await.expect("closed, whatever the journal says");
        assert_eq!(notes().await, 1, "there is no room to say that it is closed");
        give_nodes(&volume, taken).await;
        let rest = async {
            clock.sleep(Duration::from_secs(12)).await;
            volume.closing.raise();
        };
        join(volume.clone().maintain(clock.clone()), rest).await;
        assert_eq!(notes().await, 0);
        let journal = volume.journal().expect("it is on").id;
        let read = volume.read_journal(journal, 0, usize::MAX, Reasons::ALL).await.expect("read");
        let JournalRead::Records { records, .. } = read else { panic!("{read:?}") };
        let last = records.last().expect("there are records");
        assert!(last.file == id && last.reasons.has(Reasons::CLOSE), "{last:?}");
    });
}

/// A closed file of one block, of which a cut that found no room left all that lies behind.
async fn left_by_a_cut(volume: &Volume) -> FileId {
    let caller = Caller::default();
    let id = volume.create(&caller, volume.root(), b"cut", &NEW).await.expect("created").id;
    let handle = volume.open(&caller, id, MODE).await.expect("opened");
    for number in 0..BLOCKS {
        write(volume, &handle, 2 * number, 1).await.expect("written");
    }
    volume.close(handle).await.expect("closed");
    let cut = volume.store.change([keys::shard(id.number), crate::DEFERRED_TREE], Need::Less, |view| {
        let mut record = record_of(view, id)?;
        record.size = BLOCK_BYTES;
        super::defer_cut(view, id.number)?;
        put_record(view, id.number, &record)
    });
    cut.await.expect("cut");
    id
}

async fn notes(volume: &Volume) -> usize {
    volume.store.range(crate::DEFERRED_TREE, b"", usize::MAX).await.expect("read").len()
}

#[test]
fn what_lies_behind_the_end_of_a_file_is_not_cut_under_those_who_opened_it_meanwhile() {
    with(async |volume, _| {
        let id = left_by_a_cut(&volume).await;
        // The maintenance found that nobody had it open, just before.
        let handle = volume.open(&Caller::default(), id, MODE).await.expect("opened");
        let had = volume.stat(id).await.expect("read").allocated_bytes;
        volume.end_unused(id.number).await.expect("it waits for the close");
        assert_eq!((notes(&volume).await, volume.stat(id).await.expect("read").allocated_bytes), (1, had));
        write(&volume, &handle, 1, 64).await.expect("written, partly where it lies");
        volume.end_unused(id.number).await.expect("it waits for the close");
        assert_eq!(volume.stat(id).await.expect("read").size_bytes, 65 * BLOCK_BYTES);
        volume.close(handle).await.expect("closed, and cut");
        assert_eq!(notes(&volume).await, 0);
        assert_eq!(volume.stat(id).await.expect("read").allocated_bytes, 65 * BLOCK_BYTES);
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn room_that_is_set_aside_behind_the_end_outlives_an_earlier_cut() {
    with(async |volume, _| {
        for how in [Allocate::Reserve { keep_size: true }, Allocate::Zero { keep_size: true }] {
            let id = left_by_a_cut(&volume).await;
            let handle = volume.open(&Caller::default(), id, MODE).await.expect("opened");
            volume.allocate(&handle, BLOCK_BYTES, 100 * BLOCK_BYTES, how).await.expect("set aside");
            volume.close(handle).await.expect("closed");
            let facts = volume.stat(id).await.expect("read");
            assert_eq!((facts.size_bytes, facts.allocated_bytes), (BLOCK_BYTES, 101 * BLOCK_BYTES), "{how:?}");
            assert_eq!(notes(&volume).await, 0);
            volume.remove(&Caller::default(), volume.root(), b"cut", Remove::File).await.expect("removed");
        }
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn what_is_written_over_once_a_file_has_a_name_again_is_told_though_it_had_none_before() {
    with(async |volume, _| {
        let journal = volume.set_journal(1 << 20).await.expect("switched on").id;
        let caller = Caller::default();
        let (facts, handle) = volume.create_unnamed(&caller, volume.root(), &NEW).await.expect("created");
        for _ in 0..2 {
            // The second time it is written over, of which nothing is told.
            write(&volume, &handle, 0, 4).await.expect("written");
        }
        volume.link(&caller, facts.id, volume.root(), b"named").await.expect("linked");
        let next = volume.journal().expect("it is on").next;
        write(&volume, &handle, 0, 4).await.expect("written");
        let read = volume.read_journal(journal, next, usize::MAX, Reasons::ALL).await.expect("read");
        let JournalRead::Records { records, .. } = read else { panic!("{read:?}") };
        assert!(records.iter().any(|one| one.reasons.has(Reasons::DATA_OVERWRITE)), "{records:?}");
        volume.close(handle).await.expect("closed");
    });
}
