//! Many requests at once on one volume: each all or nothing to the others, and no file sees another's bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::{join, join_all, join3};
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_device::{Device, IoBuf};
use holdfast_model::Uuid;
use holdfast_volume::service::{
    Allocate, Caller, FileId, FileKind, FileService, Flush, NewFile, OpenMode, Remove, Rename, SetAttributes, Time,
};
use holdfast_volume::{
    ErrorKind, Format, Limits, ScanProgress, ScanSettings, Settings, Volume, VolumeFormat, WallClock,
};

use crate::cached;
use crate::model::read_all;
use crate::quotas;

use crate::resize::resize;

const NEW: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o600, target: b"" };
const WRITING: OpenMode = OpenMode { read: true, write: true, truncate: false };

/// One of those who work at once: files of its own in a directory of its own, and names that all use.
async fn work(volume: &Volume, random: &SimRandom, own: FileId, shared: FileId) {
    let caller = Caller::default();
    let mut files: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for _ in 0..random.range(20..120u32) {
        let name = format!("f{}", random.range(0..6u32)).into_bytes();
        match random.range(0..10u32) {
            0..5 => {
                let id = match volume.create(&caller, own, &name, &NEW).await {
                    Ok(facts) => facts.id,
                    Err(error) if error.kind == ErrorKind::Exists => {
                        volume.lookup(&caller, own, &name).await.expect("looked up").expect("it is there").id
                    }
                    Err(error) => panic!("{error}"),
                };
                let content = files.entry(name).or_default();
                let (from, len) = (random.range(0..=content.len()), random.range(1..30_000usize));
                let mut bytes = IoBuf::zeroed(len.next_multiple_of(4096));
                random.fill(&mut bytes[..len]);
                content.resize(content.len().max(from + len), 0);
                content[from..from + len].copy_from_slice(&bytes[..len]);
                let handle = volume.open(&caller, id, WRITING).await.expect("opened");
                volume.write(&handle, from as u64, bytes.freeze(), len).await.expect("there is room");
                if random.chance(1, 4) {
                    volume.flush(id, Flush::Data).await.expect("it lasts");
                }
                if random.chance(1, 4) {
                    let at = random.range(0..content.len());
                    volume.allocate(&handle, at as u64, 5000, Allocate::Punch).await.expect("punched");
                    let end = content.len().min(at + 5000);
                    content[at..end].fill(0);
                }
                let found = volume.read(&handle, 0, content.len()).await.expect("read").to_vec();
                assert!(found == *content, "as it was written");
                volume.close(handle).await.expect("closed");
            }
            5 if files.contains_key(&name) => {
                volume.remove(&caller, own, &name, Remove::File).await.expect("it is there");
                files.remove(&name);
            }
            6 if files.contains_key(&name) => {
                let content = files.get_mut(&name).expect("it is there");
                content.resize(random.range(0..=content.len() + 9000), 0);
                let id = volume.lookup(&caller, own, &name).await.expect("looked up").expect("it is there").id;
                let set = SetAttributes { size_bytes: Some(content.len() as u64), ..SetAttributes::default() };
                volume.set(&caller, id, &set).await.expect("there is room");
            }
            7 => volume.checkpoint().await.expect("it lasts"),
            _ => quarrel(volume, random, shared).await,
        }
    }
    for (name, content) in &files {
        let facts = volume.lookup(&caller, own, name).await.expect("looked up").expect("it is there");
        let handle = volume.open(&caller, facts.id, WRITING).await.expect("opened");
        let found = volume.read(&handle, 0, usize::MAX >> 1).await.expect("read").to_vec();
        assert!(found == *content, "{} bytes, {} found", content.len(), found.len());
        volume.close(handle).await.expect("closed");
    }
}

/// Something that others do in the same directory at the same time: any outcome of a race is fine, but a whole one.
async fn quarrel(volume: &Volume, random: &SimRandom, shared: FileId) {
    let caller = Caller::default();
    let name = || format!("s{}", random.range(0..5u32)).into_bytes();
    let (one, other) = (name(), name());
    let kind = if random.chance(1, 2) { FileKind::Directory } else { FileKind::Regular };
    let done = match random.range(0..5u32) {
        0 | 1 => volume.create(&caller, shared, &one, &NewFile { kind, ..NEW }).await.map(drop),
        2 => volume.rename(&caller, (shared, &one), (shared, &other), Rename::Replace).await,
        3 => volume.rename(&caller, (shared, &one), (shared, &other), Rename::Exchange).await,
        _ => {
            let what = if random.chance(1, 2) { Remove::Directory } else { Remove::File };
            volume.remove(&caller, shared, &one, what).await
        }
    };
    let fine = [ErrorKind::Exists, ErrorKind::NotFound, ErrorKind::IsDirectory, ErrorKind::NotDirectory];
    if let Err(error) = done {
        assert!(fine.contains(&error.kind), "{error}");
    }
}

/// Scans and repairs while others work: nothing is found that their changes explain, and nothing is taken from them.
async fn look_on(volume: &Volume, random: &SimRandom, working: &std::cell::Cell<bool>) {
    while working.get() {
        let settings = ScanSettings { buckets: [1, 16, 1 << 20][random.range(0..3usize)], ..ScanSettings::default() };
        let mut last = ScanProgress::default();
        let scanned = volume.scan_with(&settings, &mut |progress| last = progress).await.expect("scanned");
        assert_eq!((scanned.verbs, scanned.is_cut), (Vec::new(), false), "while files change");
        assert!(last.nodes > 0 && last.nodes == scanned.nodes);
        let fixed = volume.spotfix().await.expect("scanned");
        assert_eq!((fixed.fixed, fixed.left), (0, Vec::new()));
    }
}

/// Sets quotas and takes them away while others work: what is counted is right at any time.
async fn count(volume: &Volume, random: &SimRandom, ids: &[FileId], working: &std::cell::Cell<bool>) {
    let limits = Limits { hard_bytes: Some(1 << 40), soft_bytes: Some(1 << 16), ..Limits::default() };
    while working.get() {
        let dir = if random.chance(1, 3) { volume.root() } else { *random.pick(ids).expect("some") };
        match random.range(0..4u32) {
            0 => drop(volume.remove_tree_quota(dir).await.expect("it needs no room")),
            1 => assert_eq!(volume.recount().await, Ok(false), "while files change"),
            _ => drop(volume.set_tree_quota(dir, limits).await.expect("there is room")),
        }
        volume.settle_quotas().await.expect("walked");
    }
}

fn run(seed: u64) {
    let sim = Sim::new(seed);
    let random = sim.random();
    let simulated = SimDisk::new(&sim, SimDiskSpec { size_bytes: 128 << 20, ..SimDiskSpec::default() });
    let disk: Arc<dyn Device> = simulated.clone();
    let cache_bytes = [0, 1 << 20, 64 << 20][random.range(0..3usize)];
    // Some with hardly any memory for data that waits, and some without.
    let delayed_bytes = [64 << 20, 40 << 10, 200 << 10, 0][seed as usize % 4];
    let changed_bytes = [2 << 20, 64 << 20][random.range(0..2usize)];
    let settings = Settings { cache_bytes, changed_bytes, delayed_bytes };
    let data_bytes = cached::some_bytes(&random);
    let ran = sim.run(async move {
        let store = Format { volume: Uuid::from_u128(3), log_bytes: None };
        let format = VolumeFormat { store, secret: [4; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: false };
        Volume::format(&disk, format, Time::default()).await.expect("formatted");
        let clock: WallClock = Arc::new(|| Time { seconds: 1000, nanos: 0 });
        let volume = cached::open(disk.clone(), settings, clock.clone(), data_bytes).await.expect("opened");
        let caller = Caller::default();
        let directory = NewFile { kind: FileKind::Directory, ..NEW };
        let mut ids = Vec::new();
        for name in ["one", "two", "three", "four", "shared"] {
            let facts = volume.create(&caller, volume.root(), name.as_bytes(), &directory).await;
            ids.push(facts.expect("created").id);
        }
        let shared = ids.pop().expect("five");
        let working = std::cell::Cell::new(true);
        let all = async {
            join_all(ids.iter().map(|own| work(&volume, &random, *own, shared))).await;
            working.set(false);
        };
        let counting = count(&volume, &random, &ids, &working);
        let all = join(all, counting);
        if random.chance(1, 2) {
            join3(all, look_on(&volume, &random, &working), resize(&volume, &simulated, &random, &working, 40 << 20))
                .await;
        } else {
            join(all, look_on(&volume, &random, &working)).await;
        }
        assert_eq!(volume.scan().await, Ok(Vec::new()));
        quotas::check(&volume, &read_all(&volume).await).await;
        volume.sync().await.expect("it lasts");
        drop(volume);
        let volume = cached::open(disk, settings, clock, data_bytes).await.expect("opened");
        assert_eq!(volume.scan().await, Ok(Vec::new()), "as opened again");
    });
    ran.expect("powered");
}

#[test]
fn requests_at_once_are_whole_and_apart() {
    holdfast_harness::over_seeds(400, run);
}
