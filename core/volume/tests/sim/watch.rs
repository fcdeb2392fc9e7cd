//! Watches: what each change is told as, in which order, and to whom; slow watchers; and random changes against a model of
//! what lies below what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_volume::service::{
    Caller, FileId, FileKind, FileService, NewFile, Remove, Rename, SetAttributes, SetMode, SetTime,
};
use holdfast_volume::{ErrorKind, Reasons, Volume, Watch, WatchEvent, WatchKind, WatchSettings};

use crate::plain::{NEW, new_volume};

const DIRECTORY: NewFile<'static> = NewFile { kind: FileKind::Directory, mode: 0o755, target: b"" };

fn with(seed: u64, test: impl AsyncFnOnce(Volume, SimRandom) + 'static) {
    let sim = Sim::new(seed);
    let random = sim.random();
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 32 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move { test(new_volume(disk).await, random).await });
    ran.expect("powered");
}

fn deep() -> WatchSettings {
    WatchSettings { deep: true, ..WatchSettings::default() }
}

/// The next event, if there is one without waiting for a change; `Some(None)` at the end.
async fn next_now(watch: &mut Watch, volume: &Volume) -> Option<Option<WatchEvent>> {
    let mut next = pin!(watch.next(volume));
    // Lookups of what is in memory need no second poll.
    match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => Some(event),
        Poll::Pending => None,
    }
}

pub type Told = (WatchKind, u64, String, u64);

fn short(event: &WatchEvent) -> Told {
    let name = String::from_utf8_lossy(&event.name).into_owned();
    (event.kind, event.directory.number, name, event.file.number)
}

pub async fn all_now(watch: &mut Watch, volume: &Volume) -> Vec<Told> {
    let mut told = Vec::new();
    while let Some(Some(event)) = next_now(watch, volume).await {
        told.push(short(&event));
    }
    told
}

async fn directory(volume: &Volume, dir: FileId, name: &str) -> FileId {
    volume.create(&Caller::default(), dir, name.as_bytes(), &DIRECTORY).await.expect("created").id
}

async fn file(volume: &Volume, dir: FileId, name: &str) -> FileId {
    volume.create(&Caller::default(), dir, name.as_bytes(), &NEW).await.expect("created").id
}

async fn rename(volume: &Volume, from: (FileId, &str), to: (FileId, &str)) {
    let (from, to) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
    volume.rename(&Caller::default(), from, to, Rename::Replace).await.expect("renamed");
}

async fn remove(volume: &Volume, dir: FileId, name: &str, what: Remove) {
    volume.remove(&Caller::default(), dir, name.as_bytes(), what).await.expect("removed");
}

#[test]
fn a_watch_of_one_directory_tells_of_its_names_and_their_files() {
    with(1, async |volume, _| {
        let (caller, root) = (Caller::default(), volume.root());
        let dir = directory(&volume, root, "dir").await;
        let mut watch = volume.watch(dir, WatchSettings::default()).await.expect("watched");
        let names = WatchSettings { filter: Reasons::NAMES, ..WatchSettings::default() };
        let mut only_names = volume.watch(dir, names).await.expect("watched");
        assert_eq!(watch.directory(), dir);
        let made = file(&volume, dir, "file").await;
        let below = directory(&volume, dir, "below").await;
        file(&volume, below, "too deep").await;
        file(&volume, root, "elsewhere").await;
        let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        volume.set(&caller, made, &mode).await.expect("set");
        let times = SetAttributes { modified: Some(SetTime::Now), ..SetAttributes::default() };
        volume.set(&caller, made, &times).await.expect("set");
        volume.set_extended(&caller, made, b"user.a", b"b", SetMode::Any).await.expect("set");
        let size = SetAttributes { size_bytes: Some(7), ..SetAttributes::default() };
        volume.set(&caller, made, &size).await.expect("set");
        rename(&volume, (dir, "file"), (dir, "new")).await;
        rename(&volume, (dir, "new"), (root, "gone")).await;
        rename(&volume, (root, "gone"), (dir, "back")).await;
        volume.link(&caller, made, dir, b"second").await.expect("linked");
        volume.set(&caller, made, &mode).await.expect("set");
        let other = SetAttributes { mode: Some(0o644), ..SetAttributes::default() };
        volume.set(&caller, made, &other).await.expect("set");
        remove(&volume, dir, "back", Remove::File).await;
        remove(&volume, dir, "second", Remove::File).await;
        let (dir_number, file_number) = (dir.number, made.number);
        let of = |kind, name: &str| (kind, dir_number, name.to_owned(), file_number);
        let expected = [
            of(WatchKind::Created, "file"),
            (WatchKind::Created, dir_number, "below".into(), below.number),
            of(WatchKind::Security, "file"),
            of(WatchKind::Attributes, "file"),
            of(WatchKind::Attributes, "file"),
            of(WatchKind::Modified, "file"),
            of(WatchKind::RenamedFrom, "file"),
            of(WatchKind::RenamedTo, "new"),
            of(WatchKind::Removed, "new"),
            of(WatchKind::Created, "back"),
            of(WatchKind::Created, "second"),
            of(WatchKind::Security, "second"),
            of(WatchKind::Security, "back"),
            of(WatchKind::Removed, "back"),
            of(WatchKind::Removed, "second"),
        ];
        assert_eq!(all_now(&mut watch, &volume).await, expected);
        let is_name =
            |told: &&Told| !matches!(told.0, WatchKind::Security | WatchKind::Attributes | WatchKind::Modified);
        let expected: Vec<Told> = expected.iter().filter(is_name).cloned().collect();
        assert_eq!(all_now(&mut only_names, &volume).await, expected);

        // It ends with its directory, behind what happened before.
        remove(&volume, below, "too deep", Remove::File).await;
        remove(&volume, dir, "below", Remove::Directory).await;
        remove(&volume, root, "dir", Remove::Directory).await;
        let last = next_now(&mut watch, &volume).await.flatten().expect("it was told before");
        assert_eq!((last.kind, last.is_directory), (WatchKind::Removed, true));
        assert_eq!(next_now(&mut watch, &volume).await, Some(None));
        assert_eq!(next_now(&mut watch, &volume).await, Some(None), "for ever");
        let refused = |kind: Result<Watch, holdfast_volume::VolumeError>| kind.err().map(|error| error.kind);
        assert_eq!(refused(volume.watch(dir, deep()).await), Some(ErrorKind::Stale));
        let elsewhere = volume.lookup(&caller, root, b"elsewhere").await.expect("looked up").expect("there");
        assert_eq!(refused(volume.watch(elsewhere.id, deep()).await), Some(ErrorKind::NotDirectory));
    });
}

#[test]
fn a_deep_watch_knows_what_lay_below_when_it_happened() {
    with(2, async |volume, _| {
        let root = volume.root();
        let top = directory(&volume, root, "top").await;
        let one = directory(&volume, top, "one").await;
        let two = directory(&volume, one, "two").await;
        let outside = directory(&volume, root, "outside").await;
        let mut watch = volume.watch(top, deep()).await.expect("watched");
        // Nothing of this is looked at before all of it happened.
        let first = file(&volume, two, "first").await;
        rename(&volume, (top, "one"), (outside, "one")).await;
        file(&volume, two, "unseen").await;
        rename(&volume, (outside, "one"), (top, "again")).await;
        let third = file(&volume, two, "third").await;
        rename(&volume, (one, "two"), (outside, "two")).await;
        file(&volume, two, "unseen too").await;
        rename(&volume, (root, "top"), (outside, "top")).await;
        let fourth = file(&volume, one, "fourth").await;
        rename(&volume, (outside, "two"), (one, "two")).await;
        remove(&volume, two, "third", Remove::File).await;
        let expected = [
            (WatchKind::Created, two.number, "first".to_owned(), first.number),
            (WatchKind::Removed, top.number, "one".into(), one.number),
            (WatchKind::Created, top.number, "again".into(), one.number),
            (WatchKind::Created, two.number, "third".into(), third.number),
            (WatchKind::Removed, one.number, "two".into(), two.number),
            (WatchKind::Created, one.number, "fourth".into(), fourth.number),
            (WatchKind::Created, one.number, "two".into(), two.number),
            (WatchKind::Removed, two.number, "third".into(), third.number),
        ];
        assert_eq!(all_now(&mut watch, &volume).await, expected);
        // Of the whole volume all is told.
        let mut whole = volume.watch(root, deep()).await.expect("watched");
        let last = file(&volume, two, "last").await;
        let told = [(WatchKind::Created, two.number, "last".to_owned(), last.number)];
        assert_eq!(all_now(&mut whole, &volume).await, told);
        assert_eq!(all_now(&mut watch, &volume).await, told);
    });
}

#[test]
fn no_change_waits_for_a_slow_watcher_which_is_told_to_list_anew() {
    with(3, async |volume, _| {
        let root = volume.root();
        let dir = directory(&volume, root, "dir").await;
        let few = |deep| WatchSettings { deep, most_waiting: 16, ..WatchSettings::default() };
        let mut shallow = volume.watch(dir, few(false)).await.expect("watched");
        let mut below = volume.watch(dir, few(true)).await.expect("watched");
        for number in 0..1000 {
            file(&volume, dir, &format!("file {number}")).await;
        }
        for watch in [&mut shallow, &mut below] {
            let told = all_now(watch, &volume).await;
            assert_eq!(told[0].0, WatchKind::Overflow);
            assert!(told.len() <= 17 && told[1..].iter().all(|told| told.0 == WatchKind::Created), "{told:?}");
        }
        let last = file(&volume, dir, "last").await;
        for watch in [&mut shallow, &mut below] {
            let expected = [(WatchKind::Created, dir.number, "last".to_owned(), last.number)];
            assert_eq!(all_now(watch, &volume).await, expected);
        }
        // Whoever waits is woken.
        let waiting = async { shallow.next(&volume).await.map(|event| short(&event).2) };
        let changing = file(&volume, dir, "woken");
        let (told, _) = futures_util::future::join(waiting, changing).await;
        assert_eq!(told.as_deref(), Some("woken"));
    });
}

/// Directories and files, and what a watch of one directory is to be told.
struct Model {
    top: u64,
    is_deep: bool,
    names: BTreeMap<(u64, String), u64>,
    directories: BTreeSet<u64>,
}

impl Model {
    fn parent(&self, number: u64) -> Option<u64> {
        self.names.iter().find(|(_, child)| **child == number).map(|((parent, _), _)| *parent)
    }

    fn is_watched(&self, directory: u64) -> bool {
        let mut at = Some(directory);
        while let Some(number) = at {
            if number == self.top {
                return true;
            }
            at = if self.is_deep { self.parent(number) } else { None };
        }
        false
    }

    fn is_below(&self, directory: u64, above: u64) -> bool {
        let mut at = Some(directory);
        while let Some(number) = at {
            if number == above {
                return true;
            }
            at = self.parent(number);
        }
        false
    }

    /// What a name that goes and one that comes is told as.
    fn told(&self, file: u64, from: Option<&(u64, String)>, to: Option<&(u64, String)>) -> Vec<Told> {
        let of = |kind, place: &(u64, String)| (kind, place.0, place.1.clone(), file);
        let watched = |place: Option<&(u64, String)>| place.filter(|place| self.is_watched(place.0)).cloned();
        match (watched(from), watched(to)) {
            (Some(from), Some(to)) => vec![of(WatchKind::RenamedFrom, &from), of(WatchKind::RenamedTo, &to)],
            (Some(from), None) => vec![of(WatchKind::Removed, &from)],
            (None, Some(to)) => vec![of(WatchKind::Created, &to)],
            (None, None) => Vec::new(),
        }
    }

    /// What something that happens to a file is told as, by all its names.
    fn stays(&self, kind: WatchKind, file: u64) -> Vec<Told> {
        let names = self.names.iter().filter(|((parent, _), child)| **child == file && self.is_watched(*parent));
        names.map(|((parent, name), child)| (kind, *parent, name.clone(), *child)).collect()
    }

    fn links(&self, file: u64) -> usize {
        self.names.values().filter(|child| **child == file).count()
    }
}

fn id(number: u64) -> FileId {
    FileId { number, generation: 1 }
}

/// Makes a random change; answers what is to be told of it.
async fn change(volume: &Volume, random: &SimRandom, model: &mut Model) -> Vec<Told> {
    let caller = Caller::default();
    let name = format!("name {}", random.range(0..6u32));
    let directories: Vec<u64> = model.directories.iter().copied().collect();
    let to = (*random.pick(&directories).expect("the root"), name);
    let taken = model.names.get(&to).copied();
    let all: Vec<((u64, String), u64)> = model.names.iter().map(|(place, child)| (place.clone(), *child)).collect();
    let picked = random.pick(&all).cloned();
    match (random.range(0..10u32), picked) {
        (0..3, _) | (_, None) => {
            if taken.is_some() {
                return Vec::new();
            }
            let is_directory = random.chance(1, 2);
            let new = if is_directory { DIRECTORY } else { NEW };
            let made = volume.create(&caller, id(to.0), to.1.as_bytes(), &new).await.expect("created").id.number;
            let told = model.told(made, None, Some(&to));
            model.names.insert(to, made);
            if is_directory {
                model.directories.insert(made);
            }
            told
        }
        (3, Some((place, child))) => {
            let is_directory = model.directories.contains(&child);
            if child == model.top || is_directory && model.names.keys().any(|(parent, _)| *parent == child) {
                return Vec::new();
            }
            let what = if is_directory { Remove::Directory } else { Remove::File };
            volume.remove(&caller, id(place.0), place.1.as_bytes(), what).await.expect("removed");
            let told = model.told(child, Some(&place), None);
            model.names.remove(&place);
            model.directories.remove(&child);
            told
        }
        (4..8, Some((from, child))) => {
            let is_directory = |number: u64| model.directories.contains(&number);
            let mode = if random.chance(1, 4) { Rename::Exchange } else { Rename::Replace };
            let fits = match (taken, mode) {
                (Some(there), _) if there == child => false,
                (Some(there), Rename::Exchange) => {
                    !(is_directory(child) && model.is_below(to.0, child)
                        || is_directory(there) && model.is_below(from.0, there))
                }
                (None, Rename::Exchange) => false,
                (Some(there), _) => {
                    there != model.top
                        && is_directory(there) == is_directory(child)
                        && !model.names.keys().any(|(parent, _)| *parent == there)
                        && !(is_directory(child) && model.is_below(to.0, child))
                }
                (None, _) => !(is_directory(child) && model.is_below(to.0, child)),
            };
            if !fits {
                return Vec::new();
            }
            let (old, new) = ((id(from.0), from.1.as_bytes()), (id(to.0), to.1.as_bytes()));
            volume.rename(&caller, old, new, mode).await.expect("renamed");
            let mut told = Vec::new();
            if let Some(there) = taken {
                if mode == Rename::Exchange {
                    told.extend(model.told(there, Some(&to), Some(&from)));
                } else {
                    told.extend(model.told(there, Some(&to), None));
                    model.directories.remove(&there);
                }
            }
            told.extend(model.told(child, Some(&from), Some(&to)));
            model.names.remove(&from);
            if let Some(there) = taken.filter(|_| mode == Rename::Exchange) {
                model.names.insert(from, there);
            }
            model.names.insert(to, child);
            told
        }
        (8, Some((_, child))) => {
            if taken.is_some() || model.directories.contains(&child) || model.links(child) > 4 {
                return Vec::new();
            }
            volume.link(&caller, id(child), id(to.0), to.1.as_bytes()).await.expect("linked");
            let told = model.told(child, None, Some(&to));
            model.names.insert(to, child);
            told
        }
        (_, Some((_, child))) => {
            if child == model.top {
                return Vec::new();
            }
            let value = [random.range(0..200u32) as u8; 9];
            volume.set_extended(&caller, id(child), b"user.a", &value, SetMode::Any).await.expect("set");
            model.stays(WatchKind::Attributes, child)
        }
    }
}

/// A random history, watched by somebody who looks now and then.
fn run(seed: u64) {
    with(seed, async |volume, random| {
        let root = volume.root();
        let top = directory(&volume, root, "top").await.number;
        let is_deep = random.chance(3, 4);
        let mut model = Model {
            top,
            is_deep,
            names: BTreeMap::from([((root.number, "top".into()), top)]),
            directories: BTreeSet::from([root.number, top]),
        };
        for _ in 0..random.range(0..60u32) {
            change(&volume, &random, &mut model).await;
        }
        let settings = WatchSettings { deep: is_deep, most_waiting: 1 << 16, ..WatchSettings::default() };
        let mut watch = volume.watch(id(top), settings).await.expect("watched");
        let patience = random.range(1..40u32);
        let mut expected: VecDeque<Vec<Told>> = VecDeque::new();
        for step in 0..300 {
            let told = change(&volume, &random, &mut model).await;
            if !told.is_empty() {
                expected.push_back(told);
            }
            if !random.chance(1, patience) && step < 299 {
                continue;
            }
            while let Some(mut wanted) = expected.pop_front() {
                let mut found = Vec::new();
                while found.len() < wanted.len() {
                    let event = next_now(&mut watch, &volume).await.flatten();
                    found.push(short(&event.unwrap_or_else(|| panic!("{wanted:?} is to come, {found:?} came"))));
                }
                // Names of one file in one change have no order.
                let key = |told: &Told| (told.3, told.1, told.2.clone());
                wanted.sort_by_key(key);
                found.sort_by_key(key);
                assert_eq!(found, wanted);
            }
            assert_eq!(next_now(&mut watch, &volume).await, None, "nothing else is told");
        }
    });
}

#[test]
fn random_changes_are_told_as_a_model_has_them() {
    holdfast_harness::over_seeds(500, run);
}
