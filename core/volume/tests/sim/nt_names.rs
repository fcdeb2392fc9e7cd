//! One directory by the names of NT and by those of POSIX: each finds what the other made, and nobody gets what is none.

use std::sync::Arc;

use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_volume::service::{Caller, FileId, FileKind, FileService, NameRules, NewFile, Remove, Rename};
use holdfast_volume::superblock::{NT_RULES, Superblock};
use holdfast_volume::{Browsed, ErrorKind, Volume, VolumeError};

use crate::plain::{NEW, new_volume, open};

fn posix() -> Caller {
    Caller::default()
}

fn nt() -> Caller {
    Caller { names: NameRules::Nt, ignores_case: true, ..Caller::default() }
}

fn kind<T>(result: Result<T, VolumeError>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

fn with(test: impl AsyncFnOnce(&Volume, &Arc<SimDisk>) + 'static) {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let volume = new_volume(disk.clone()).await;
        test(&volume, &disk).await;
        assert_eq!(volume.scan().await, Ok(Vec::new()));
        volume.sync().await.expect("it lasts");
        drop(volume);
        let again = open(disk).await.expect("opened again");
        assert_eq!((again.failure(), again.scan().await), (None, Ok(Vec::new())));
    });
    ran.expect("powered");
}

async fn names(files: &impl FileService, caller: &Caller) -> Vec<String> {
    let entries = files.list(caller, files.root(), 0, 99, false).await.expect("listed");
    let mut names: Vec<_> =
        entries.into_iter().map(|entry| String::from_utf8(entry.name).expect("it is UTF-8")).collect();
    names.sort();
    names
}

async fn make(files: &impl FileService, caller: &Caller, name: &str) -> Result<FileId, VolumeError> {
    files.create(caller, files.root(), name.as_bytes(), &NEW).await.map(|facts| facts.id)
}

async fn found(files: &impl FileService, caller: &Caller, name: &str) -> Result<Option<FileId>, VolumeError> {
    files.lookup(caller, files.root(), name.as_bytes()).await.map(|facts| facts.map(|facts| facts.id))
}

#[test]
fn what_posix_names_as_nt_cannot_is_listed_and_found_by_what_stands_for_it() {
    with(async |volume, _| {
        let root = volume.root();
        let mut files = Vec::new();
        for name in ["a:b", "a\u{f022}b", "A*", "line\nbreak", "plain", "ends."] {
            files.push(make(volume, &posix(), name).await.expect("made"));
        }
        let shown = ["A\u{f021}", "a\u{f022}b", "a\u{f02b}\u{f022}b", "ends.", "line\u{f00a}break", "plain"];
        assert_eq!(names(volume, &nt()).await, shown);
        let by_nt = ["a\u{f022}b", "a\u{f02b}\u{f022}b", "a\u{f021}", "LINE\u{f00a}break", "PLAIN", "ends."];
        for (name, file) in by_nt.iter().zip(&files) {
            assert_eq!(found(volume, &nt(), name).await, Ok(Some(*file)), "{name:?}");
        }
        for name in ["a:b", "A*", "line\nbreak", "plain?"] {
            assert_eq!(kind(found(volume, &nt(), name).await), Some(ErrorKind::BadName), "{name:?}");
            assert_eq!(kind(make(volume, &nt(), name).await), Some(ErrorKind::BadName), "{name:?}");
            let renamed = volume.rename(&nt(), (root, b"plain"), (root, name.as_bytes()), Rename::Replace).await;
            assert_eq!(kind(renamed), Some(ErrorKind::BadName), "{name:?}");
            let linked = volume.link(&nt(), files[4], root, name.as_bytes()).await;
            assert_eq!(kind(linked), Some(ErrorKind::BadName), "{name:?}");
        }
        assert_eq!(kind(make(volume, &nt(), "a\u{f022}B").await), Some(ErrorKind::Exists), "in another case");
        // What clients send for characters that they have, and NT does not, is those.
        let made = make(volume, &nt(), "x\u{f020}\u{f026}").await.expect("made");
        assert_eq!(found(volume, &posix(), "x\"\\").await, Ok(Some(made)));
        let link = "linked\u{f023}".as_bytes();
        volume.link(&nt(), made, root, link).await.expect("linked");
        assert_eq!(found(volume, &posix(), "linked<").await, Ok(Some(made)));
        let from = (root, "a\u{f02b}\u{f022}b".as_bytes());
        volume.rename(&nt(), from, (root, "b\u{f024}".as_bytes()), Rename::NoReplace).await.expect("renamed");
        assert_eq!(found(volume, &posix(), "b>").await, Ok(Some(files[1])));
        volume.remove(&nt(), root, "a\u{f022}b".as_bytes(), Remove::File).await.expect("removed");
        assert_eq!(names(volume, &posix()).await, ["A*", "b>", "ends.", "line\nbreak", "linked<", "plain", "x\"\\"]);
    });
}

#[test]
fn names_of_nt_may_be_longer_than_those_of_posix() {
    with(async |volume, disk| {
        let root = volume.root();
        let says = || {
            let superblock = Superblock::open(&disk.peek(0, 4096)).expect("it is known").expect("there is one");
            superblock.features[1] & NT_RULES != 0
        };
        let (short, long, longer) = ("ü".repeat(127), "€".repeat(255), "€".repeat(256));
        make(volume, &nt(), &short).await.expect("made");
        assert!(!says(), "any version can have that");
        assert_eq!(kind(make(volume, &posix(), &long).await), Some(ErrorKind::NameTooLong));
        assert_eq!(kind(found(volume, &posix(), &long).await), Some(ErrorKind::NameTooLong));
        assert_eq!(found(volume, &nt(), &long).await, Ok(None));
        assert_eq!(kind(make(volume, &nt(), &longer).await), Some(ErrorKind::NameTooLong));
        let file = make(volume, &nt(), &long).await.expect("made");
        assert!(says());
        for caller in [posix(), nt()] {
            assert_eq!(names(volume, &caller).await, [short.clone(), long.clone()]);
            assert_eq!(found(volume, &caller, &long).await, Ok(Some(file)));
        }
        let rename = async |caller: &Caller, from: &str, to: &str| {
            let to = (root, to.as_bytes());
            volume.rename(caller, (root, from.as_bytes()), to, Rename::NoReplace).await
        };
        assert_eq!(kind(rename(&posix(), &short, &"ü".repeat(128)).await), Some(ErrorKind::NameTooLong));
        assert_eq!(rename(&posix(), &long, "short").await, Ok(()), "it gets one that it can have");
        assert_eq!(rename(&Caller { names: NameRules::Stored, ..posix() }, "short", &long).await, Ok(()));
        volume.link(&nt(), file, root, format!("{}x", &long[3..]).as_bytes()).await.expect("linked");
        volume.sync().await.expect("it lasts");
        volume.remove(&posix(), root, long.as_bytes(), Remove::File).await.expect("removed");
        assert_eq!(volume.stat(file).await.map(|facts| facts.links), Ok(1));
    });
}

#[test]
fn what_snapshots_have_is_found_by_the_same_names() {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let volume = Arc::new(new_volume(disk).await);
        make(&*volume, &posix(), "a:b").await.expect("made");
        volume.create_snapshot("one").await.expect("made");
        let files = Browsed::new(volume.clone());
        let directory = NewFile { kind: FileKind::Directory, ..NEW };
        let refused = files.create(&nt(), files.root(), b"a:", &directory).await;
        assert_eq!(kind(refused), Some(ErrorKind::BadName));
        let top = found(&files, &nt(), ".snapshots").await.expect("looked up").expect("it is there");
        let one = files.lookup(&nt(), top, b"one").await.expect("looked up").expect("it is there").id;
        let listed = files.list(&nt(), one, 0, 9, false).await.expect("listed");
        assert_eq!(listed.iter().map(|entry| &entry.name[..]).collect::<Vec<_>>(), ["a\u{f022}b".as_bytes()]);
        let past = files.lookup(&nt(), one, "a\u{f022}B".as_bytes()).await.expect("looked up").expect("it is there");
        assert_eq!(past.id, listed[0].id);
    });
    ran.expect("powered");
}
