//! The change journal: what each change is recorded as, how it is read and cut, what damage costs; and a follower that
//! keeps a copy of all files by nothing but records, over crashes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_device::IoSlice;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_model::Uuid;
use holdfast_volume::service::{
    Allocate, Caller, FileId, FileKind, FileService, Flush, NewFile, Remove, Rename, SetAttributes, SetMode, SetTime,
    Time,
};
use holdfast_volume::superblock::{JOURNAL, Root, Superblock};
use holdfast_volume::{ErrorKind, JournalRead, JournalRecord, JournalState, Reasons, SHARED_TREES, Verb, Volume};

use crate::model::{Files, difference, read_all, read_node};
use crate::plain::{NEW, WRITING, new_volume, open};

const BLOCK: usize = 4096;
const SIZE: u64 = 64 << 10;

/// Keeps a copy of all files by what the journal says.
#[derive(Clone, Default)]
pub struct Follower {
    journal: u64,
    at: u64,
    files: Files,
    /// Files that were changed since they were copied.
    touched: BTreeSet<u64>,
    /// How often it had to look at all files.
    pub begun: u64,
}

impl Follower {
    /// Looks at all files once.
    async fn begin(&mut self, volume: &Volume) {
        let Some(JournalState { id, next, .. }) = volume.journal() else { return };
        // What is not durable yet may be gone after a crash.
        volume.sync().await.expect("it lasts");
        let files = read_all(volume).await;
        *self = Self { journal: id, at: next, files, touched: BTreeSet::new(), begun: self.begun + 1 };
    }

    fn apply(&mut self, record: &JournalRecord) {
        assert_eq!(record.usn, self.at, "records follow each other");
        self.at = record.next;
        let (name, number) = ((record.parent.number, record.name.clone()), record.file.number);
        let new = record.new;
        let entries = &mut self.files.entries;
        let is_there = entries.get(&name) == Some(&number);
        let goes =
            new.has(Reasons::FILE_DELETE | Reasons::RENAME_OLD_NAME) || new.has(Reasons::HARD_LINK_CHANGE) && is_there;
        if goes {
            assert!(is_there, "a name goes that is there: {record:?}");
            entries.remove(&name);
        } else if new.has(Reasons::NAMES) {
            let before = entries.insert(name, number);
            assert_eq!(before, None, "a name comes that is free: {record:?}");
        }
        self.touched.insert(number);
    }

    /// Follows the journal to its end.
    async fn follow(&mut self, volume: &Volume, random: &SimRandom) {
        let Some(state) = volume.journal() else { return };
        if self.begun == 0 {
            return self.begin(volume).await;
        }
        loop {
            let most = random.range(1..300usize);
            match volume.read_journal(self.journal, self.at, most, Reasons::ALL).await.expect("it can be read") {
                JournalRead::Records { records, next } => {
                    records.iter().for_each(|record| self.apply(record));
                    assert_eq!(self.at, next);
                    if records.is_empty() {
                        break;
                    }
                }
                JournalRead::Cut { first } => {
                    assert!(first > self.at);
                    return self.begin(volume).await;
                }
                JournalRead::Other { id } => {
                    assert_ne!(id, Some(self.journal));
                    return self.begin(volume).await;
                }
            }
        }
        assert!(self.at >= state.next);
        let root = volume.root().number;
        while let Some(number) = self.touched.first().copied() {
            if number == root || self.files.links(number) > 0 {
                let id = FileId { number, generation: 1 };
                volume.flush(id, Flush::All).await.expect("it lasts");
                let node = read_node(volume, id).await;
                self.files.nodes.insert(number, node);
            } else {
                self.files.nodes.remove(&number);
            }
            self.touched.remove(&number);
        }
    }

    /// Holds the copy against the files. Nobody has any open.
    async fn check(&mut self, volume: &Volume, random: &SimRandom) {
        // What waits is written, and its files are closed for the journal.
        volume.sync().await.expect("it lasts");
        self.follow(volume, random).await;
        if volume.journal().is_some() {
            assert_eq!(difference(&read_all(volume).await, &self.files), Vec::<String>::new(), "the follower's copy");
        }
    }

    /// Now and then the journal is made, changes its size, or goes.
    async fn switch(&mut self, volume: &Volume, random: &SimRandom) {
        let done = if random.chance(1, 4) {
            volume.remove_journal().await.map(drop)
        } else {
            volume.set_journal([SIZE, 3 * SIZE, 16 * SIZE][random.range(0..3usize)]).await.map(drop)
        };
        if let Err(error) = done {
            assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
        }
    }
}

/// Follows the journal a bit, or has it be another one.
pub async fn follow(follower: &RefCell<Follower>, volume: &Volume, random: &SimRandom) {
    // What a crash cuts short is begun anew with what it had.
    let mut own = follower.borrow().clone();
    if volume.journal().is_none() || random.chance(1, 300) {
        own.switch(volume, random).await;
    }
    if random.chance(1, 20) {
        own.follow(volume, random).await;
        follower.replace(own);
    }
}

/// Holds the copy against the files. Nobody has any open.
pub async fn check(follower: &RefCell<Follower>, volume: &Volume, random: &SimRandom) {
    let mut own = follower.borrow().clone();
    own.check(volume, random).await;
    follower.replace(own);
}

fn with(test: impl AsyncFnOnce(Arc<SimDisk>, Volume) + 'static) {
    let sim = Sim::new(5);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let volume = new_volume(disk.clone()).await;
        test(disk, volume).await;
    });
    ran.expect("powered");
}

/// Reads all that is new.
async fn news(volume: &Volume, at: &mut u64) -> Vec<JournalRecord> {
    let id = volume.journal().expect("there is one").id;
    match volume.read_journal(id, *at, 1000, Reasons::ALL).await.expect("it can be read") {
        JournalRead::Records { records, next } => {
            *at = next;
            records
        }
        other => panic!("{other:?}"),
    }
}

/// The same as name, new reasons and all reasons, for people.
async fn told(volume: &Volume, at: &mut u64) -> Vec<(String, u32, u32)> {
    let short =
        |record: JournalRecord| (String::from_utf8_lossy(&record.name).into_owned(), record.new.0, record.reasons.0);
    news(volume, at).await.into_iter().map(short).collect()
}

fn line(name: &str, new: Reasons, all: Reasons) -> (String, u32, u32) {
    (name.into(), new.0, all.0)
}

async fn write(volume: &Volume, id: FileId, at: usize, len: usize) {
    let handle = volume.open(&Caller::default(), id, WRITING).await.expect("opened");
    volume.write(&handle, at as u64, IoSlice::padded(&vec![at as u8; len]), len).await.expect("written");
    volume.close(handle).await.expect("closed");
    volume.sync().await.expect("it lasts");
}

#[test]
fn each_change_of_a_file_that_is_not_open_is_one_record() {
    with(async |_, volume| {
        let (caller, root) = (Caller::default(), volume.root());
        assert_eq!(volume.journal(), None);
        volume.create(&caller, root, b"before", &NEW).await.expect("created");
        let state = volume.set_journal(SIZE).await.expect("made");
        assert_eq!((state.first, state.max_bytes), (state.next, SIZE));
        let mut at = state.next;
        let close = Reasons::CLOSE;
        let one = |name, reasons: Reasons| line(name, reasons | close, reasons | close);

        let file = volume.create(&caller, root, b"file", &NEW).await.expect("created").id;
        let dir = NewFile { kind: FileKind::Directory, ..NEW };
        let dir = volume.create(&caller, root, b"dir", &dir).await.expect("created").id;
        let records = news(&volume, &mut at).await;
        assert_eq!((records[0].file, records[0].parent, records[0].is_directory), (file, root, false));
        assert_eq!((records[1].file, records[1].parent, records[1].is_directory), (dir, root, true));
        assert!(records.iter().all(|record| record.reasons == Reasons::FILE_CREATE | close && record.source == 0));

        let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        volume.set(&caller, file, &mode).await.expect("set");
        let time = SetTime::At(Time { seconds: 77, nanos: 0 });
        let times = SetAttributes { modified: Some(time), ..SetAttributes::default() };
        volume.set(&caller, file, &times).await.expect("set");
        volume.set_extended(&caller, file, b"user.a", b"value", SetMode::Any).await.expect("set");
        let size = SetAttributes { size_bytes: Some(100), ..SetAttributes::default() };
        volume.set(&caller, file, &size).await.expect("set");
        let size = SetAttributes { size_bytes: Some(10), ..SetAttributes::default() };
        volume.set(&caller, file, &size).await.expect("set");
        let cut = |reasons| [line("file", reasons, reasons), line("file", close, reasons | close)];
        let mut expected = vec![
            one("file", Reasons::SECURITY_CHANGE),
            one("file", Reasons::BASIC_INFO_CHANGE),
            one("file", Reasons::EA_CHANGE),
        ];
        expected.extend(cut(Reasons::DATA_EXTEND).into_iter().chain(cut(Reasons::DATA_TRUNCATION)));
        assert_eq!(told(&volume, &mut at).await, expected);

        volume.link(&caller, file, dir, b"other").await.expect("linked");
        volume.rename(&caller, (root, b"file"), (dir, b"moved"), Rename::Replace).await.expect("renamed");
        let old = Reasons::RENAME_OLD_NAME;
        let expected =
            [one("other", Reasons::HARD_LINK_CHANGE), line("file", old, old), one("moved", Reasons::RENAME_NEW_NAME)];
        assert_eq!(told(&volume, &mut at).await, expected);
        volume.rename(&caller, (dir, b"moved"), (root, b"before"), Rename::Exchange).await.expect("exchanged");
        let expected = [
            line("before", old, old),
            line("moved", old, old),
            one("moved", Reasons::RENAME_NEW_NAME),
            one("before", Reasons::RENAME_NEW_NAME),
        ];
        let mut found = told(&volume, &mut at).await;
        found[..2].sort();
        found[2..].sort_by(|one, other| other.cmp(one));
        assert_eq!(found, expected);
        volume.rename(&caller, (dir, b"moved"), (root, b"before"), Rename::Replace).await.expect("replaced");
        volume.remove(&caller, dir, b"other", Remove::File).await.expect("removed");
        let deleted = Reasons::FILE_DELETE;
        let found = told(&volume, &mut at).await;
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.contains(&one("before", Reasons::HARD_LINK_CHANGE)), "it has another name: {found:?}");
        assert_eq!(found[2..], [one("before", Reasons::RENAME_NEW_NAME), one("other", deleted)]);
        volume.remove(&caller, dir, b"no", Remove::File).await.expect_err("there is none");
        volume.remove(&caller, root, b"dir", Remove::Directory).await.expect("removed");
        let link = NewFile { kind: FileKind::Symlink, mode: 0o777, target: b"there" };
        volume.create(&caller, root, b"link", &link).await.expect("created");
        assert_eq!(told(&volume, &mut at).await, [one("dir", deleted), one("link", Reasons::FILE_CREATE)]);
        assert_eq!(volume.scan().await, Ok(Vec::new()));
        assert_eq!(told(&volume, &mut at).await, [], "nothing happens by itself");
    });
}

#[test]
fn a_file_that_is_open_collects_reasons_until_it_is_closed() {
    with(async |disk, volume| {
        let (caller, root) = (Caller::default(), volume.root());
        let mut at = volume.set_journal(SIZE).await.expect("made").next;
        let file = volume.create(&caller, root, b"file", &NEW).await.expect("created").id;
        write(&volume, file, 0, 8 * BLOCK).await;
        let (extend, over) = (Reasons::DATA_EXTEND, Reasons::DATA_OVERWRITE);
        let close = Reasons::CLOSE;
        let made = Reasons::FILE_CREATE | close;
        let expected = [line("file", made, made), line("file", extend, extend), line("file", close, extend | close)];
        assert_eq!(told(&volume, &mut at).await, expected);

        // The record of a small file is written over, and longer.
        let small = volume.create(&caller, root, b"small", &NEW).await.expect("created").id;
        write(&volume, small, 0, 100).await;
        write(&volume, small, 50, 100).await;
        let both = extend | over;
        let expected = [
            line("small", made, made),
            line("small", extend, extend),
            line("small", close, extend | close),
            line("small", both, both),
            line("small", close, both | close),
        ];
        assert_eq!(told(&volume, &mut at).await, expected);

        let handle = volume.open(&caller, file, WRITING).await.expect("opened");
        volume.set_journal_source(&handle, 4);
        for block in 0..8 {
            let data = IoSlice::padded(&[block as u8; BLOCK]);
            volume.write(&handle, (block * BLOCK) as u64, data, BLOCK).await.expect("written");
        }
        volume.sync().await.expect("it lasts");
        let records = news(&volume, &mut at).await;
        assert_eq!(records.iter().map(|record| (record.new, record.source)).collect::<Vec<_>>(), [(over, 4)]);
        volume.rename(&caller, (root, b"file"), (root, b"new"), Rename::Replace).await.expect("renamed");
        volume.allocate(&handle, 0, 100, Allocate::Zero { keep_size: true }).await.expect("zeroed");
        let (old, new) = (Reasons::RENAME_OLD_NAME, Reasons::RENAME_NEW_NAME);
        let expected = [line("file", old, over | old), line("new", new, over | new)];
        assert_eq!(told(&volume, &mut at).await, expected);
        let second = volume.open(&caller, file, WRITING).await.expect("opened");
        volume.close(handle).await.expect("closed");
        assert_eq!(told(&volume, &mut at).await, [], "somebody has it open");
        // What is open when power fails is closed at the next opening.
        drop((second, volume));
        let volume = open(disk).await.expect("opened");
        assert_eq!(told(&volume, &mut at).await, [line("new", close, over | new | close)]);

        let handle = volume.open(&caller, file, WRITING).await.expect("opened");
        volume.remove(&caller, root, b"new", Remove::File).await.expect("removed");
        volume.write(&handle, 0, IoSlice::padded(&[9; BLOCK]), BLOCK).await.expect("written");
        volume.close(handle).await.expect("closed");
        let gone = Reasons::FILE_DELETE | close;
        assert_eq!(told(&volume, &mut at).await, [line("new", gone, gone)], "what has no name is nobody's business");
        let (temporary, handle) = volume.create_unnamed(&caller, root, &NEW).await.expect("created");
        volume.write(&handle, 0, IoSlice::padded(&[9; BLOCK]), BLOCK).await.expect("written");
        assert_eq!(told(&volume, &mut at).await, []);
        volume.link(&caller, temporary.id, root, b"named").await.expect("linked");
        volume.close(handle).await.expect("closed");
        volume.sync().await.expect("it lasts");
        let found = told(&volume, &mut at).await;
        assert_eq!(found[0], line("named", Reasons::FILE_CREATE, Reasons::FILE_CREATE));
        assert!(found.last().is_some_and(|(.., all)| Reasons(*all).has(close)), "{found:?}");
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn a_journal_is_cut_by_its_size_and_whoever_is_late_is_told() {
    with(async |disk, volume| {
        let (caller, root) = (Caller::default(), volume.root());
        for size in [0, SIZE - 1, 9 << 20, u64::MAX] {
            assert_eq!(volume.set_journal(size).await.expect_err("no size").kind, ErrorKind::Invalid);
        }
        let flag = |disk: &SimDisk| {
            let superblock = Superblock::open(&disk.peek(0, BLOCK)).expect("this version's").expect("whole");
            superblock.groups().map(|at| {
                let block = Superblock::open(&disk.peek(at, BLOCK)).expect("this version's").expect("whole");
                block.features[1] & JOURNAL != 0
            })
        };
        volume.create(&caller, root, b"before", &NEW).await.expect("created");
        assert_eq!(volume.remove_journal().await, Ok(false));
        volume.checkpoint().await.expect("it lasts");
        let roots = [BLOCK as u64, 2 * BLOCK as u64].map(|at| Root::open(Uuid::from_u128(7), &disk.peek(at, BLOCK)));
        let is_plain = |root: &Root| root.trees.iter().all(|(tree, _)| *tree != SHARED_TREES + 11);
        assert!(
            roots.iter().flatten().count() > 0 && roots.iter().flatten().all(is_plain),
            "no journal, no trace of it"
        );
        assert_eq!(flag(&disk), [false; 3]);
        let first = volume.set_journal(SIZE).await.expect("made");
        assert_eq!(flag(&disk), [true; 3]);
        let mut most = 0;
        for number in 0..3000 {
            volume.create(&caller, root, format!("file {number}").as_bytes(), &NEW).await.expect("created");
            let state = volume.journal().expect("on");
            most = most.max(state.next - state.first);
        }
        let state = volume.journal().expect("on");
        assert!(state.first > first.first && most > SIZE && most < SIZE + state.slack_bytes + SIZE / 8, "{most}");
        let cut = volume.read_journal(state.id, first.first, 10, Reasons::ALL).await;
        assert_eq!(cut, Ok(JournalRead::Cut { first: state.first }));
        let within = volume.read_journal(state.id, state.first + 8, 10, Reasons::ALL).await;
        assert_eq!(within.expect_err("no record begins there").kind, ErrorKind::Invalid);
        assert_eq!(volume.journal().expect("on").first, state.first, "nothing is cut for it");
        let beyond = volume.read_journal(state.id, state.next + 8, 10, Reasons::ALL).await;
        assert_eq!(beyond.expect_err("nothing is there").kind, ErrorKind::Invalid);
        let end = JournalRead::Records { records: Vec::new(), next: state.next };
        assert_eq!(volume.read_journal(state.id, state.next, 10, Reasons::ALL).await, Ok(end.clone()));
        let none = volume.read_journal(state.id, state.first, 10, Reasons::EA_CHANGE).await;
        assert_eq!(none, Ok(end), "none has such a reason");
        let Ok(JournalRead::Records { records, next }) =
            volume.read_journal(state.id, 0, 7, Reasons::FILE_CREATE).await
        else {
            panic!("they can be read");
        };
        assert_eq!((records.len(), records[0].usn, records[6].next), (7, state.first, next));

        // Another journal goes on with the positions, under another id.
        assert_eq!(volume.remove_journal().await, Ok(true));
        assert_eq!((volume.journal(), flag(&disk)), (None, [false; 3]));
        let other = volume.read_journal(state.id, state.next, 10, Reasons::ALL).await;
        assert_eq!(other, Ok(JournalRead::Other { id: None }));
        volume.create(&caller, root, b"unseen", &NEW).await.expect("created");
        let second = volume.set_journal(2 * SIZE).await.expect("made");
        assert!(second.id > first.id && second.first == second.next && second.first >= state.next);
        let other = volume.read_journal(state.id, state.next, 10, Reasons::ALL).await;
        assert_eq!(other, Ok(JournalRead::Other { id: Some(second.id) }));
        let resized = volume.set_journal(SIZE).await.expect("resized");
        assert_eq!(resized, JournalState { max_bytes: SIZE, slack_bytes: SIZE / 8, ..second });
        volume.create(&caller, root, b"seen", &NEW).await.expect("created");
        volume.settle_journal().await.expect("cut");
        volume.shut_down().await.expect("closed");
        drop(volume);
        let volume = open(disk.clone()).await.expect("opened");
        assert_eq!(flag(&disk), [true; 3]);
        let mut at = second.next;
        let made = Reasons::FILE_CREATE | Reasons::CLOSE;
        assert_eq!(told(&volume, &mut at).await, [line("seen", made, made)]);
        assert_eq!(volume.remove_journal().await, Ok(true));
        volume.settle_journal().await.expect("emptied");
        volume.checkpoint().await.expect("it lasts");
        assert_eq!(volume.scan().await, Ok(Vec::new()));
        drop(volume);
        let volume = open(disk.clone()).await.expect("opened");
        assert_eq!((volume.journal(), flag(&disk)), (None, [false; 3]));
    });
}

/// Where leaves of the journal stand that have a record at the ends and in the middle.
async fn leaves(volume: &Volume, state: &JournalState) -> Vec<(u64, u64)> {
    let mut at = state.first;
    let records = news(volume, &mut at).await;
    let mut found = Vec::new();
    for record in [&records[0], &records[records.len() / 2], &records[records.len() - 1]] {
        let place = volume.journal_place(record.usn).await.expect("it can be read").expect("it is written");
        found.push((record.usn, place));
    }
    found
}

#[test]
fn a_lost_part_is_told_as_cut_and_stops_no_change() {
    for which in 0..3 {
        for is_scanned in [false, true] {
            with(async move |disk, volume| {
                let (caller, root) = (Caller::default(), volume.root());
                let state = volume.set_journal(2 * SIZE).await.expect("made");
                for number in 0..900 {
                    volume.create(&caller, root, format!("file {number}").as_bytes(), &NEW).await.expect("created");
                }
                volume.shut_down().await.expect("closed");
                drop(volume);
                let volume = open(disk.clone()).await.expect("opened");
                let (_, place) = leaves(&volume, &state).await[which];
                let next = volume.journal().expect("on").next;
                volume.shut_down().await.expect("closed");
                drop(volume);
                disk.corrupt(place..place + 16384);
                let volume = open(disk.clone()).await.expect("opened");
                if is_scanned {
                    let found = volume.scan().await.expect("scanned");
                    assert!(found.iter().any(|verb| matches!(verb, Verb::NodeLost { tree: 43, .. })), "{found:?}");
                    let done = volume.spotfix().await.expect("repaired");
                    assert_eq!(done.left, [], "it needs nobody offline");
                }
                // Changes go on, and are all there.
                let file = volume.create(&caller, root, b"new", &NEW).await.expect("created").id;
                write(&volume, file, 0, BLOCK).await;
                let mut at = state.first;
                let mut is_cut = false;
                let mut records = Vec::new();
                while at < volume.journal().expect("on").next {
                    match volume.read_journal(state.id, at, 100, Reasons::ALL).await.expect("it can be read") {
                        JournalRead::Records { records: some, next } => {
                            records.extend(some);
                            at = next;
                        }
                        JournalRead::Cut { first } => {
                            assert!(first > at && !is_cut);
                            records.clear();
                            (at, is_cut) = (first, true);
                        }
                        other => panic!("{other:?}"),
                    }
                }
                assert!(is_cut, "leaf {which} is lost");
                assert!(records.iter().any(|record| record.usn >= next && record.name == b"new"));
                assert!(records.iter().zip(&records[1..]).all(|(one, other)| one.next == other.usn));
                let done = volume.spotfix().await.expect("repaired");
                assert_eq!((done.left, volume.scan().await), (Vec::new(), Ok(Vec::new())));
            });
        }
    }
}

#[test]
fn the_room_of_a_journal_is_set_aside() {
    with(async |_, volume| {
        let (caller, root) = (Caller::default(), volume.root());
        let state = volume.set_journal(8 << 20).await.expect("made");
        let name = [b'n'; 255];
        let file = volume.create(&caller, root, &name, &NEW).await.expect("created").id;
        let mut number = 0;
        let full = loop {
            let attribute = format!("user.{number}");
            match volume.set_extended(&caller, file, attribute.as_bytes(), &[7; 60_000], SetMode::Any).await {
                Ok(()) => number += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind, ErrorKind::NoSpace);
        // What needs no room of its own has it for its records, all that the journal may take.
        let mut mode = 0;
        while volume.journal().expect("on").first == state.first {
            mode = (mode + 1) % 0o777;
            let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
            volume.set(&caller, file, &set).await.expect("a full volume takes it");
        }
        let state = volume.journal().expect("on");
        assert!(state.next - state.first >= state.max_bytes, "it had as much as it was promised");
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
}
