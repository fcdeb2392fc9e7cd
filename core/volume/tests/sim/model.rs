//! What files a volume may hold: a model of names, attributes and bytes, and of what a crash may leave of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use holdfast_identity::{Domain, Id, IdMap, Node as Sort, SecurityDescriptor, Sid, computed, mode_of, trivial_mode};
use holdfast_volume::service::{Caller, DosAttributes, FileId, FileKind, FileService, OpenMode, ReparsePoint, Stream};
use holdfast_volume::{ErrorKind, Integrity, Volume};

pub const BLOCK: usize = 4096;

/// A file as it is after an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: FileId,
    pub kind: FileKind,
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Its security descriptor, where that says more than owner, group and mode do.
    pub security: Option<Rc<SecurityDescriptor>>,
    /// What Windows knows of it, but for whether its data changed, which a crash may take away.
    pub dos: DosAttributes,
    /// What it keeps to prove its data.
    pub integrity: Integrity,
    pub streams: BTreeMap<Vec<u8>, Vec<u8>>,
    pub reparse: Option<ReparsePoint>,
    pub target: Vec<u8>,
    pub extended: BTreeMap<Vec<u8>, Vec<u8>>,
    pub data: Rc<Vec<u8>>,
}

impl Node {
    /// What its descriptor is of.
    pub fn sort(&self) -> Sort {
        if self.kind == FileKind::Directory { Sort::Directory } else { Sort::File }
    }

    /// Its descriptor, its own or that of its mode.
    pub fn descriptor(&self) -> Rc<SecurityDescriptor> {
        let [owner, group] = [Id::User(self.owner.0), Id::Group(self.owner.1)].map(IdMap::unmapped);
        let computed = || Rc::new(computed(owner, group, self.mode, self.sort()));
        self.security.clone().unwrap_or_else(computed)
    }

    /// It has another descriptor.
    pub fn secure(&mut self, descriptor: SecurityDescriptor) {
        let map = IdMap::new(Domain([0; 3]), 0..0).expect("no ids are few");
        let number = |sid: Option<Sid>| sid.and_then(|sid| map.id_of(&sid));
        let (owner, group) = (number(descriptor.owner), number(descriptor.group));
        let of = |id: Option<Id>| match id {
            Some(Id::User(id) | Id::Group(id)) => id,
            None => 65_534,
        };
        self.owner = (of(owner), of(group));
        self.mode = self.mode & !0o777 | mode_of(&descriptor);
        let is_trivial = owner.is_some() && group.is_some() && trivial_mode(&descriptor, self.sort()).is_some();
        self.security = (!is_trivial).then(|| Rc::new(descriptor));
    }
}

/// All files as they are after an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    pub nodes: BTreeMap<u64, Node>,
    pub entries: BTreeMap<(u64, Vec<u8>), u64>,
}

impl Files {
    pub fn links(&self, number: u64) -> u32 {
        self.entries.values().filter(|child| **child == number).count() as u32
    }

    pub fn directories(&self) -> Vec<FileId> {
        let all = self.nodes.values().filter(|node| node.kind == FileKind::Directory);
        all.map(|node| node.id).collect()
    }

    pub fn names_in(&self, directory: u64) -> Vec<(Vec<u8>, u64)> {
        let from = (directory, Vec::new());
        let all = self.entries.range(from..).take_while(|((parent, _), _)| *parent == directory);
        all.map(|((_, name), child)| (name.clone(), *child)).collect()
    }

    /// Takes out what has no name any more.
    pub fn forget(&mut self, number: u64, root: u64) {
        if number != root && self.links(number) == 0 {
            self.nodes.remove(&number);
        }
    }

    pub fn is_below(&self, directory: u64, above: u64, root: u64) -> bool {
        let mut at = directory;
        while at != above {
            if at == root {
                return false;
            }
            at = self.entries.iter().find(|(_, child)| **child == at).map_or(root, |((parent, _), _)| *parent);
        }
        true
    }
}

/// What may be found after a crash.
#[derive(Clone)]
pub struct Model {
    /// Openings since the files were last compared: one that was cut short may have made changes of its own.
    pub openings: u32,
    /// After each operation, by the number of the last change in the log then, in order.
    pub states: Vec<(u64, Files)>,
    /// What the disk writes whole.
    pub unit: usize,
    /// Whether data waits in memory before it is written.
    pub delays: bool,
    /// Changes up to this one are durable.
    pub durable: u64,
    /// For each file the contents that it had since the last one that is durable.
    pub versions: BTreeMap<u64, Vec<Rc<Vec<u8>>>>,
    /// What files held whose names took others' places, with the last change then: nothing older is under those names.
    pub placed: Vec<(u64, u64, Rc<Vec<u8>>)>,
    /// Ranges of files that were written durably, with what the files held then: nothing older is there.
    pub fixed: Vec<(u64, Range<usize>, Rc<Vec<u8>>)>,
    /// What snapshots have, by their names.
    pub snapshots: BTreeMap<String, Files>,
    /// One that was about to be made, and one that was about to be destroyed.
    pub making: Option<(String, Files)>,
    pub ending: Option<String>,
}

impl Model {
    pub fn new(root: Node, last: u64, unit: usize, delays: bool) -> Self {
        let files = Files { nodes: BTreeMap::from([(root.id.number, root)]), entries: BTreeMap::new() };
        Self {
            openings: 0,
            unit,
            delays,
            states: vec![(last, files)],
            durable: last,
            versions: BTreeMap::new(),
            placed: Vec::new(),
            fixed: Vec::new(),
            snapshots: BTreeMap::new(),
            making: None,
            ending: None,
        }
    }

    pub fn now(&self) -> &Files {
        &self.states.last().expect("there is one").1
    }

    /// An operation is about to be made, with what it makes of the files. A crash may fall into it.
    pub fn begin(&mut self, files: Files) {
        for (number, node) in &files.nodes {
            let versions = self.versions.entry(*number).or_default();
            if versions.last().is_none_or(|last| *last != node.data) {
                versions.push(node.data.clone());
            }
        }
        self.states.push((u64::MAX, files));
    }

    /// It was made.
    pub fn end(&mut self, last: u64) {
        self.states.last_mut().expect("it began").0 = last;
        let durable = self.durable;
        let first = self.states.iter().rposition(|(number, _)| *number <= durable).unwrap_or_default();
        self.states.drain(..first);
    }

    /// The name of a file took another's place.
    pub fn place(&mut self, number: u64, last: u64) {
        let data = self.now().nodes[&number].data.clone();
        self.placed.push((number, last, data));
    }

    /// A range of a file was written durably just now.
    pub fn fix(&mut self, number: u64, range: Range<usize>) {
        let data = self.now().nodes[&number].data.clone();
        self.fixed.push((number, range, data));
    }

    /// It was refused.
    pub fn undo(&mut self) {
        self.states.pop();
    }

    /// All that was done is durable.
    pub fn settle(&mut self, last: u64) {
        self.durable = last;
        let state = self.states.pop().expect("there is one");
        self.versions = state.1.nodes.iter().map(|(number, node)| (*number, vec![node.data.clone()])).collect();
        self.states = vec![state];
        self.placed.clear();
        self.fixed.clear();
    }

    /// The names are durable, and the data of one file.
    pub fn settle_file(&mut self, number: u64, last: u64) {
        self.durable = self.durable.max(last);
        if let Some(versions) = self.versions.get_mut(&number) {
            versions.drain(..versions.len() - 1);
        }
    }
}

/// Reads all that a volume holds.
pub async fn read_all(volume: &Volume) -> Files {
    let caller = Caller::default();
    let mut files = Files::default();
    let root = volume.root();
    let mut waiting = vec![root];
    files.nodes.insert(root.number, read_node(volume, root).await);
    while let Some(directory) = waiting.pop() {
        let (mut cursor, mut names) = (0, BTreeSet::new());
        loop {
            let some = volume.list(&caller, directory, cursor, 7, true).await.expect("a directory can be listed");
            let Some(last) = some.last() else { break };
            cursor = last.cursor;
            for entry in some {
                assert!(names.insert(entry.name.clone()), "a name is listed once");
                let facts = entry.attributes.expect("they were asked for");
                assert_eq!(facts.id, entry.id);
                let is_new = !files.nodes.contains_key(&entry.id.number);
                if is_new {
                    files.nodes.insert(entry.id.number, read_node(volume, entry.id).await);
                }
                assert!(is_new || facts.kind != FileKind::Directory, "a directory has one name");
                if facts.kind == FileKind::Directory {
                    waiting.push(entry.id);
                }
                files.entries.insert((directory.number, entry.name), entry.id.number);
            }
        }
    }
    files
}

pub async fn read_node(volume: &Volume, id: FileId) -> Node {
    let caller = Caller::default();
    let facts = volume.stat(id).await.expect("a file that is listed exists");
    let mut extended = BTreeMap::new();
    for name in volume.list_extended(&caller, id).await.expect("they can be listed") {
        let value = volume.extended(&caller, id, &name).await.expect("it can be read").expect("it is listed");
        extended.insert(name, value);
    }
    let mut data = Vec::new();
    let mut target = Vec::new();
    match facts.kind {
        FileKind::Regular => {
            let mode = OpenMode { read: true, write: false, truncate: false };
            let handle = volume.open(&caller, id, mode).await.expect("it can be opened");
            data = volume.read(&handle, 0, usize::MAX >> 1).await.expect("it can be read").to_vec();
            assert_eq!(data.len() as u64, facts.size_bytes);
            volume.close(handle).await.expect("it can be closed");
        }
        FileKind::Symlink => target = volume.read_link(id).await.expect("it leads somewhere"),
        _ => {}
    }
    let mut streams = BTreeMap::new();
    for Stream { name, size_bytes, .. } in volume.streams(&caller, id).await.expect("they can be listed") {
        let bytes = volume.read_stream(&caller, id, &name, 0, usize::MAX).await.expect("it can be read");
        assert_eq!(bytes.len() as u64, size_bytes);
        streams.insert(name, bytes);
    }
    let is_reparse = facts.kind != FileKind::Symlink && facts.dos.contains(DosAttributes::REPARSE_POINT);
    let reparse = match volume.reparse(&caller, id).await {
        Ok(point) => Some(point).filter(|_| is_reparse),
        Err(error) => {
            assert!(error.kind == ErrorKind::NoReparse && !is_reparse, "{error}");
            None
        }
    };
    let integrity = facts.dos.integrity();
    let dos = facts.dos & (DosAttributes::SETTABLE - DosAttributes::ARCHIVE);
    let owner = (facts.uid, facts.gid);
    let (kind, mode, data) = (facts.kind, facts.mode, Rc::new(data));
    let mut node =
        Node { id, kind, mode, owner, security: None, dos, integrity, streams, reparse, target, extended, data };
    let shown = node.clone();
    node.secure(volume.security(&caller, id).await.expect("user 0 may read it"));
    assert_eq!((node.mode, node.owner), (shown.mode, shown.owner), "file {} shows what its descriptor says", id.number);
    node
}

/// The same without bytes.
fn bare(files: &Files) -> Files {
    let mut files = files.clone();
    files.nodes.values_mut().for_each(|node| node.data = Rc::default());
    files
}

impl Model {
    /// Compares what is found after a crash with what may be; that alone counts from then on.
    pub async fn recover(&mut self, volume: &Volume) {
        let recovered = volume.recovered();
        assert!(recovered >= self.durable, "change {} was durable, and {recovered} is found", self.durable);
        let found = read_all(volume).await;
        let before = self.states.iter().rposition(|(last, _)| *last <= recovered).expect("what is durable");
        let possible = match self.openings {
            1 => before..(before + 2).min(self.states.len()),
            _ => 0..self.states.len(),
        };
        let fits = |state: usize| {
            let files = &self.states[state].1;
            bare(files) == bare(&found)
                && self.data_fits(if self.openings == 1 { before } else { state }, state, &found)
        };
        let fitting = possible.into_iter().find(|state| fits(*state));
        if fitting.is_none() {
            let states: Vec<_> = self.states.iter().map(|(last, _)| *last).collect();
            let differences: Vec<_> =
                self.states[before..].iter().take(2).map(|(_, files)| difference(files, &found)).collect();
            panic!("no state fits change {recovered} of {states:?}: {differences:#?}");
        }
        for (number, last, data) in &self.placed {
            let node = found.nodes.get(number).filter(|_| *last <= recovered);
            assert!(
                node.is_none_or(|node| self.data_since(data, node)),
                "file {number} has less than with its old name"
            );
        }
        for (number, range, data) in &self.fixed {
            let node = found.nodes.get(number);
            assert!(node.is_none_or(|node| self.range_since(range, data, node)), "{range:?} of file {number} is older");
        }
        self.openings = 0;
        self.states = vec![(recovered, found)];
        self.settle(recovered);
    }

    /// Whether all that is found of a range is from a content or a later one.
    fn range_since(&self, range: &Range<usize>, content: &Rc<Vec<u8>>, node: &Node) -> bool {
        let versions = self.versions.get(&node.id.number).map_or(&[][..], Vec::as_slice);
        let first = versions.iter().rposition(|version| Rc::ptr_eq(version, content)).unwrap_or_default();
        let chunks = node.data.chunks(self.unit).enumerate().map(|(at, found)| (at * self.unit, found));
        let mut within = chunks.filter(|(at, _)| range.contains(at));
        within.all(|(at, found)| versions[first..].iter().any(|version| is_from(version, at, found)))
    }

    /// Whether all that is found of a file is from a content or a later one.
    fn data_since(&self, content: &Rc<Vec<u8>>, node: &Node) -> bool {
        let versions = self.versions.get(&node.id.number).map_or(&[][..], Vec::as_slice);
        let first = versions.iter().rposition(|version| Rc::ptr_eq(version, content)).unwrap_or_default();
        let later = &versions[first..];
        self.delayed_len_fits(node.data.len(), later)
            && node
                .data
                .chunks(self.unit)
                .enumerate()
                .all(|(block, found)| later.iter().any(|version| is_from(version, block * self.unit, found)))
    }

    /// Whether a file may have a length after a crash. Of data that waited any may be lost, so it is one that the file
    /// had since it was durable. What is written back in several changes reaches further with each of them, by blocks.
    fn delayed_len_fits(&self, len: usize, versions: &[Rc<Vec<u8>>]) -> bool {
        let lens = || versions.iter().map(|version| version.len());
        let (least, most) = (lens().min().unwrap_or_default(), lens().max().unwrap_or_default());
        lens().any(|known| known == len) || len.is_multiple_of(BLOCK) && (least..=most).contains(&len)
    }

    /// Whether each file has a length between that before and after, and each block a content that it had.
    fn data_fits(&self, before: usize, state: usize, found: &Files) -> bool {
        found.nodes.values().filter(|node| node.kind == FileKind::Regular).all(|node| {
            let number = node.id.number;
            let len_in = |state: usize| {
                self.states.get(state).and_then(|(_, files)| files.nodes.get(&number)).map(|node| node.data.len())
            };
            let (one, other) = (len_in(state), len_in(before + 1).or(len_in(before)));
            let lens = [one, other, len_in(before)];
            let (least, most) = (lens.iter().flatten().min(), lens.iter().flatten().max());
            let versions = self.versions.get(&number).map_or(&[][..], Vec::as_slice);
            let len = node.data.len();
            let fits_len = if self.delays {
                self.delayed_len_fits(len, versions)
            } else {
                least.is_some_and(|least| len >= *least) && most.is_some_and(|most| len <= *most)
            };
            if !fits_len {
                eprintln!("file {number}: {len} bytes, not one of {lens:?}");
                return false;
            }
            node.data.chunks(self.unit).enumerate().all(|(block, found)| {
                let is_found = versions.iter().any(|version| is_from(version, block * self.unit, found));
                if !is_found {
                    let differs = |version: &Rc<Vec<u8>>| {
                        let from = (block * self.unit).min(version.len());
                        let at = version[from..].iter().zip(found).position(|(one, other)| one != other);
                        (version.len(), at)
                    };
                    let all: Vec<_> = versions.iter().map(differs).collect();
                    eprintln!("file {number}: block {block} is none of the versions: length, differs at {all:?}");
                }
                is_found
            })
        })
    }
}

/// Whether bytes that are found may be a content's. Only what reached so far says what is there, as a file is never
/// longer than its data: but for the block that it ended in, whose rest becomes zeros before it grows over it.
fn is_from(content: &[u8], at: usize, found: &[u8]) -> bool {
    let (from, end) = (at.min(content.len()), at + found.len());
    let old = &content[from..end.min(content.len())];
    end <= content.len().next_multiple_of(BLOCK)
        && found.starts_with(old)
        && found[old.len()..].iter().all(|byte| *byte == 0)
}

/// In what two lots of files differ, for people.
pub fn difference(expected: &Files, found: &Files) -> Vec<String> {
    let mut differences = Vec::new();
    for key in expected.entries.keys().chain(found.entries.keys()).collect::<BTreeSet<_>>() {
        let (one, other) = (expected.entries.get(key), found.entries.get(key));
        if one != other {
            differences.push(format!("{}/{:?}: {one:?}, {other:?} found", key.0, String::from_utf8_lossy(&key.1)));
        }
    }
    for number in expected.nodes.keys().chain(found.nodes.keys()).collect::<BTreeSet<_>>() {
        let facts = |files: &Files| {
            let node = files.nodes.get(number)?;
            let extended: Vec<_> = node.extended.iter().map(|(name, value)| (name.clone(), value.len())).collect();
            let entries = node.security.as_ref().map(|own| own.dacl.acl().map(|acl| acl.entries().len()));
            Some((node.id, node.kind, node.mode, node.owner, entries, node.target.len(), extended, node.data.len()))
        };
        let (one, other) = (facts(expected), facts(found));
        if one != other {
            differences.push(format!("file {number}: {one:?}, {other:?} found"));
        } else if expected.nodes[number].data != found.nodes[number].data {
            let (one, other) = (&expected.nodes[number].data, &found.nodes[number].data);
            let at = one.iter().zip(other.iter()).position(|(one, other)| one != other);
            differences.push(format!("file {number} of {} bytes differs from {at:?}", one.len()));
        } else if expected.nodes[number].security != found.nodes[number].security {
            differences.push(format!("file {number} has another security descriptor"));
        } else if expected.nodes[number].streams != found.nodes[number].streams {
            let lens = |files: &Files| -> Vec<_> {
                files.nodes[number].streams.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect()
            };
            differences.push(format!("streams of file {number}: {:?}, {:?}", lens(expected), lens(found)));
        } else if expected.nodes[number].reparse != found.nodes[number].reparse {
            differences.push(format!("file {number} has another reparse point"));
        } else if expected.nodes[number].dos != found.nodes[number].dos {
            differences.push(format!("file {number} has other attributes"));
        } else if expected.nodes[number].integrity != found.nodes[number].integrity {
            differences.push(format!("file {number} keeps something else to prove its data"));
        } else if expected.nodes[number].extended != found.nodes[number].extended {
            differences.push(format!("file {number} has other extended attributes"));
        }
    }
    differences
}

/// Whether an error is one that a full volume or quota may give.
pub fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NoSpace | ErrorKind::Quota)
}
