//! Snapshots beside everything else that happens to files: each has what it had, whatever is changed, cut or destroyed
//! afterwards, and its room comes back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_device::{Clock, Device, Durability, Geometry, Io, IoBuf, IoSlice};
use holdfast_volume::service::{Caller, FileKind, FileService, NewFile, OpenMode, Remove, Time};
use holdfast_volume::{DifferencesFrom, ErrorKind, GatherFrom, Settings, Steps, Version, Volume};

use crate::model::{Files, Model, difference, is_full, read_all};
use crate::plain::{NEW, WRITING, new_volume, open};

/// Steps that go on, or end at once.
pub struct Goes(pub bool);

impl Steps for Goes {
    fn step(&self, _: u64) -> Pin<Box<dyn Future<Output = bool> + '_>> {
        Box::pin(async { self.0 })
    }

    fn done(&self, _: u64) {}
}

/// Something that happens to snapshots.
pub async fn step(volume: &Volume, random: &SimRandom, model: &RefCell<Model>) {
    let name = format!("snapshot {}", random.range(0..5u32));
    match random.range(0..8u32) {
        0..3 => create(volume, name, model).await,
        3 => destroy(volume, name, model).await,
        4 => {
            reclaim(volume, random.chance(2, 3)).await;
            gather(volume).await;
        }
        5..7 => compare(volume, random, model).await,
        _ => {
            let expected = model.borrow().snapshots.clone();
            check(volume, &expected).await;
        }
    }
}

async fn create(volume: &Volume, name: String, model: &RefCell<Model>) {
    let files = model.borrow().now().clone();
    let is_known = model.borrow().snapshots.contains_key(&name);
    if !is_known {
        model.borrow_mut().making = Some((name.clone(), files.clone()));
    }
    // Others make changes beside.
    let last = volume.last();
    let made = volume.create_snapshot(&name).await;
    model.borrow_mut().making = None;
    match made {
        Ok(made) => {
            assert!(!is_known, "{name} was there");
            assert_eq!(made.name, name);
            // Those without a name count, too.
            assert!(made.files >= files.nodes.len() as u64);
            let mut model = model.borrow_mut();
            model.snapshots.insert(name, files);
            // It is made of what is durable.
            model.settle(last);
        }
        Err(error) if error.kind == ErrorKind::Exists => assert!(is_known),
        // The size is being changed, or what waits has no room.
        Err(error) => assert!(error.kind == ErrorKind::Busy || is_full(error.kind), "{error}"),
    }
}

async fn destroy(volume: &Volume, name: String, model: &RefCell<Model>) {
    let is_known = model.borrow().snapshots.contains_key(&name);
    model.borrow_mut().ending = Some(name.clone());
    let destroyed = volume.destroy_snapshot(&name).await;
    model.borrow_mut().ending = None;
    match destroyed {
        Ok(()) => {
            assert!(model.borrow_mut().snapshots.remove(&name).is_some());
            assert_eq!(volume.open_snapshot(&name).err().expect("it is gone").kind, ErrorKind::NotFound);
        }
        Err(error) if error.kind == ErrorKind::NotFound => assert!(!is_known),
        Err(error) => panic!("{error}"),
    }
}

async fn reclaim(volume: &Volume, goes_on: bool) {
    match volume.reclaim(&Goes(goes_on)).await {
        Ok(_) => assert!(!volume.is_to_be_reclaimed()),
        Err(error) => assert!(!goes_on && error.kind == ErrorKind::Busy, "{error}"),
    }
}

/// Files that lie scattered are brought together, as far as others let go of what they have.
async fn gather(volume: &Volume) {
    let mut next = Some(GatherFrom::default());
    while let Some(from) = next {
        let done = volume.gather(from, 64 << 10).await.expect("it goes through");
        assert!(done.pieces_after <= done.pieces_before);
        next = done.next;
    }
}

/// What is told to differ between two of them, or one and now, is what differs.
async fn compare(volume: &Volume, random: &SimRandom, model: &RefCell<Model>) {
    let known = model.borrow().snapshots.clone();
    let mut names: Vec<&String> = known.keys().collect();
    if names.is_empty() {
        return;
    }
    let from = names.swap_remove(random.range(0..names.len()));
    let to = if names.is_empty() || random.chance(1, 2) { None } else { Some(names[random.range(0..names.len())]) };
    let most = random.range(1..20);
    let (mut found, mut next) = (Vec::new(), Some(DifferencesFrom::default()));
    while let Some(at) = next {
        let (some, then) = volume.differences(from, to.map(String::as_str), at, most).await.expect("both are there");
        found.extend(some);
        next = then;
    }
    let (was, is) = (&known[from], to.map_or_else(|| model.borrow().now().clone(), |name| known[name].clone()));
    let root = volume.root().number;
    let mut told = BTreeMap::new();
    for one in &found {
        let number = |version: &Option<Version>| version.as_ref().map(|version| version.attributes.id);
        let id = number(&one.before).or(number(&one.after)).expect("one of both");
        assert!(told.insert((id, one.before.is_some()), one).is_none(), "{id:?} is told twice");
        for (version, files) in [(&one.before, was), (&one.after, &is)] {
            let Some(path) = version.as_ref().and_then(|version| version.path.as_ref()) else { continue };
            let found = at_path(files, path, root);
            assert_eq!(found, version.as_ref().map(|version| version.attributes.id.number), "{one:?}");
        }
    }
    let names = |files: &Files, number: u64| -> Vec<(u64, Vec<u8>)> {
        let all = files.entries.iter().filter(|(_, child)| **child == number);
        all.map(|(name, _)| name.clone()).collect()
    };
    let all: BTreeMap<_, _> =
        was.nodes.iter().chain(&is.nodes).map(|(number, node)| ((*number, node.id), ())).collect();
    for (number, id) in all.into_keys() {
        let of = |files: &Files| files.nodes.get(&number).filter(|node| node.id == id).cloned();
        let expected = match (of(was), of(&is)) {
            (Some(one), Some(other)) => {
                let data = (&one.data, &one.target) != (&other.data, &other.target);
                let renamed = names(was, number) != names(&is, number);
                let set = (one.mode, one.owner, &one.extended) != (other.mode, other.owner, &other.extended);
                (true, true, data, renamed, set)
            }
            (one, other) => (one.is_some(), other.is_some(), true, true, true),
        };
        let one = told.remove(&(id, expected.0));
        let Some(one) = one else {
            assert_eq!(expected, (true, true, false, false, false), "file {number} differs, and is not told");
            continue;
        };
        assert_eq!((one.before.is_some(), one.after.is_some()), (expected.0, expected.1), "{one:?}");
        // Bytes written as they were, names taken and given back, and times count as differences, too.
        let is_told = |told: bool, differs: bool| told || !differs;
        assert!(is_told(one.data, expected.2) && is_told(one.names, expected.3), "{one:?}: {expected:?}");
        assert!(is_told(one.attributes, expected.4), "{one:?}: {expected:?}");
    }
    assert!(told.is_empty(), "files that are in neither: {told:?}");
}

/// The file at a path.
fn at_path(files: &Files, path: &[u8], root: u64) -> Option<u64> {
    let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    names.try_fold(root, |at, name| files.entries.get(&(at, name.to_vec())).copied())
}

/// Reads all that snapshots have.
pub async fn check(volume: &Volume, expected: &BTreeMap<String, Files>) {
    let names: Vec<String> = expected.keys().cloned().collect();
    let mut found: Vec<String> = volume.snapshots().into_iter().map(|one| one.name).collect();
    found.sort();
    assert_eq!(found, names);
    for (name, files) in expected {
        let view = volume.open_snapshot(name).expect("it is there");
        let found = read_all(&view).await;
        assert_eq!(difference(files, &found), Vec::<String>::new(), "{name}");
        let usage = view.usage(view.root()).await.expect("known");
        assert!(usage.files >= files.nodes.len() as u64);
    }
}

/// After a crash: what was sure is there, and what was not is whole or not there.
pub async fn recover(volume: &Volume, model: &RefCell<Model>) {
    let found: Vec<String> = volume.snapshots().into_iter().map(|one| one.name).collect();
    {
        let mut model = model.borrow_mut();
        if let Some((name, files)) = model.making.take().filter(|(name, _)| found.contains(name)) {
            model.snapshots.insert(name, files);
        }
        if let Some(name) = model.ending.take().filter(|name| !found.contains(name)) {
            model.snapshots.remove(&name);
        }
    }
    let expected = model.borrow().snapshots.clone();
    check(volume, &expected).await;
}

/// Destroys all of them while a file of one is open, then all files: all room is there again.
pub async fn end(volume: &Volume, model: &RefCell<Model>) {
    let caller = Caller::default();
    let names: Vec<String> = model.borrow().snapshots.keys().cloned().collect();
    for name in names {
        let view = volume.open_snapshot(&name).expect("it is there");
        let files = model.borrow().snapshots[&name].clone();
        let file = files.nodes.values().find(|node| node.data.len() > 1);
        if let Some(node) = file {
            let mode = OpenMode { read: true, write: false, truncate: false };
            let handle = view.open(&caller, node.id, mode).await.expect("it can be opened");
            assert_eq!(volume.destroy_snapshot(&name).await.expect_err("it is read").kind, ErrorKind::Busy);
            let found = view.read(&handle, 0, usize::MAX >> 1).await.expect("it can be read").to_vec();
            assert!(found == **node.data);
            view.close(handle).await.expect("it can be closed");
        }
        destroy(volume, name, model).await;
        assert_eq!(view.stat(view.root()).await.expect_err("it is gone").kind, ErrorKind::Stale);
        assert_eq!(volume.scan().await, Ok(Vec::new()), "with room that is to be given back");
    }
    reclaim(volume, true).await;
    assert_eq!((volume.kept_bytes(), volume.is_to_be_reclaimed()), (0, false));
    assert_eq!(volume.scan().await, Ok(Vec::new()), "after all were destroyed");
    let files = model.borrow().now().clone();
    for ((parent, name), child) in files.entries.iter().rev() {
        let is_directory = files.names_in(*child).is_empty();
        let what = if files.nodes[child].kind == holdfast_volume::service::FileKind::Directory {
            Remove::Directory
        } else {
            Remove::File
        };
        let removed = volume.remove(&caller, files.nodes[parent].id, name, what).await;
        assert!(removed.is_ok() || !is_directory, "{removed:?}");
    }
}

/// A disk on which writes of some content arrive later than others, each by a time of its own.
struct Straggling {
    disk: Arc<SimDisk>,
    clock: Arc<dyn Clock>,
    random: SimRandom,
    late: u8,
}

impl Device for Straggling {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.disk.read(offset, buf)
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        if data.iter().any(|byte| *byte != self.late) {
            return self.disk.write(offset, data, durability);
        }
        let (disk, waits) = (self.disk.clone(), self.clock.sleep(Duration::from_micros(self.random.range(0..2000))));
        Io::eager(async move {
            waits.await;
            disk.write(offset, data, durability).await
        })
    }

    fn flush(&self) -> Io<()> {
        self.disk.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        self.disk.discard(offset, len)
    }
}

/// Pages of a file are written over in place while a snapshot is made of it; whatever of them it has when it is answered
/// is what it has after a power cut.
fn made_beside_writes(seed: u64) {
    const PAGES: u64 = 4;
    let sim = Sim::new(seed);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 32 << 20, ..SimDiskSpec::default() });
    let late = Straggling { disk: disk.clone(), clock: sim.clock(), random: sim.random(), late: 2 };
    let run = async move {
        let caller = Caller::default();
        drop(new_volume(late.disk.clone()).await);
        let opened = Volume::open(Arc::new(late), Settings::default(), Arc::new(Time::default)).await;
        let volume = opened.expect("opened");
        let id = volume.create(&caller, volume.root(), b"file", &NEW).await.expect("created").id;
        let file = volume.open(&caller, id, WRITING).await.expect("opened");
        let old = IoSlice::padded(&vec![1; PAGES as usize * 4096]);
        volume.write(&file, 0, old, PAGES as usize * 4096).await.expect("written");
        volume.checkpoint().await.expect("it lasts");
        let write = |page: u64| volume.write(&file, page * 4096, IoSlice::padded(&[2; 4096]), 4096);
        let (written, made) = join(join_all((0..PAGES).map(write)), volume.create_snapshot("now")).await;
        written.into_iter().for_each(|written| assert_eq!(written.expect("there is room"), 4096));
        made.expect("there is room");
        contents_of(&volume, "now").await
    };
    let before = sim.run(run).expect("powered");
    sim.restart();
    let after = sim.run(async move { contents_of(&open(disk).await.expect("opened"), "now").await }).expect("powered");
    assert!(before == after, "the snapshot changed after it was made");
}

async fn contents_of(volume: &Volume, snapshot: &str) -> Vec<u8> {
    let (view, caller) = (volume.open_snapshot(snapshot).expect("it is there"), Caller::default());
    let found = view.lookup(&caller, view.root(), b"file").await.expect("it can be read");
    let mode = OpenMode { read: true, write: false, truncate: false };
    let handle = view.open(&caller, found.expect("it has the file").id, mode).await.expect("opened");
    let data = view.read(&handle, 0, 1 << 20).await.expect("read").to_vec();
    view.close(handle).await.expect("closed");
    data
}

#[test]
fn what_was_being_written_when_a_snapshot_was_made_stays_as_it_was_seen() {
    holdfast_harness::over_seeds(300, made_beside_writes);
}

/// Snapshots are destroyed one after the other while their room is given back again and again; in the end all of it is, and
/// a scan finds nothing on the way, nor after a power cut.
fn destroyed_beside_reclaims(seed: u64) {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let sim = Sim::new(seed);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 32 << 20, ..SimDiskSpec::default() });
    let (clock, random, own) = (sim.clock(), sim.random(), disk.clone());
    let run = async move {
        let caller = Caller::default();
        let volume = new_volume(own).await;
        let id = volume.create(&caller, volume.root(), b"file", &NEW).await.expect("created").id;
        let file = volume.open(&caller, id, WRITING).await.expect("opened");
        for (value, name) in NAMES.iter().enumerate() {
            for block in 0..40 {
                let data = IoSlice::padded(&[value as u8; 4096]);
                volume.write(&file, block * 8192, data, 4096).await.expect("written");
            }
            volume.create_snapshot(name).await.expect("there is room");
        }
        volume.write(&file, 0, IoSlice::padded(&vec![9; 640 << 10]), 640 << 10).await.expect("written");
        volume.close(file).await.expect("closed");
        volume.sync().await.expect("it lasts");
        let pause = |most: u64| clock.sleep(Duration::from_micros(random.range(0..most)));
        let destroys = async {
            for name in NAMES {
                volume.destroy_snapshot(name).await.expect("destroyed");
                pause(500).await;
            }
        };
        let reclaims = async {
            for _ in 0..20 {
                volume.reclaim(&Goes(true)).await.expect("it goes through");
                pause(1000).await;
            }
        };
        join(destroys, reclaims).await;
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    };
    sim.run(run).expect("powered");
    sim.restart();
    let run = async move {
        let volume = open(disk).await.expect("opened");
        assert_eq!(volume.scan().await, Ok(Vec::new()), "what is kept is known to be left");
        while volume.is_to_be_reclaimed() {
            volume.reclaim(&Goes(true)).await.expect("it goes through");
        }
        assert_eq!(volume.kept_bytes(), 0);
    };
    sim.run(run).expect("powered");
}

#[test]
fn what_is_destroyed_while_room_is_given_back_is_given_back_in_the_end() {
    holdfast_harness::over_seeds(100, destroyed_beside_reclaims);
}

#[test]
fn differences_tell_directories_however_deep_they_are_in_each_other() {
    const DEPTH: usize = 4300;
    let sim = Sim::new(5);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let run = async move {
        let (volume, caller) = (new_volume(disk).await, Caller::default());
        let directory = NewFile { kind: FileKind::Directory, mode: 0o755, target: b"" };
        volume.create_snapshot("before").await.expect("there is room");
        let mut at = volume.root();
        for _ in 0..DEPTH {
            at = volume.create(&caller, at, b"d", &directory).await.expect("created").id;
        }
        assert_eq!(volume.path_of(at).await.map(|path| path.len()), Ok(2 * DEPTH));
        volume.create_snapshot("after").await.expect("there is room");
        for to in [Some("after"), None] {
            let (mut lens, mut next) = (Vec::new(), Some(DifferencesFrom::default()));
            while let Some(from) = next {
                let (some, then) = volume.differences("before", to, from, 1000).await.expect("both are there");
                lens.extend(some.into_iter().map(|one| one.after.and_then(|after| after.path).expect("a path").len()));
                next = then;
            }
            lens.sort_unstable();
            assert_eq!(lens, (1..=DEPTH).map(|depth| 2 * depth).collect::<Vec<_>>());
        }
    };
    sim.run(run).expect("powered");
}
