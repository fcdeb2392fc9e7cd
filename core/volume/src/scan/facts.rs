//! What the entries of the trees say, one after the other: facts that stand elsewhere, too, and what is wrong by itself.
//!
//! All keys of a file stand together, its record first, so what a record counts is held against what follows it here.
//!
//! Invariant: memory for one file at a time, whatever the volume holds.

use holdfast_model::wire::Reader;

use crate::change::Pair;
use crate::descriptors;
use crate::error::VolumeError;
use crate::extent::Extent;
use crate::extents::MAIN;
use crate::keys::{self, kind};
use crate::names::Names;
use crate::namespace::plain;
use crate::record::{DirectoryEntry, Link, Record};
use crate::references::{Reference, Whose};
use crate::reparse;
use crate::scan::sums::{Fact, Side, Sort, Sums};
use crate::service::{DosAttributes, FileKind};
use crate::snapshots::Span;
use crate::streams::Head;
use crate::volume::ROOT;
use crate::{DEFERRED_TREE, OWNER_TREE, SECURITY_TREE, SECURITY_TWIN, SHARED_TREES};

/// Something that may be wrong, to be looked at under the locks of the trees.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    /// An entry of a directory.
    Entry(u64, u64),
    /// The names of a file.
    Names(u64),
    /// What a record counts.
    Count(u64),
    /// An extent: file, and the block behind it.
    Extent(u64, u64),
    /// An entry of the map of owners.
    Owner(u64),
    /// A reference to blocks that are shared, by its key.
    Reference(Vec<u8>),
    /// A note that a file is to be removed.
    Note(u64),
    /// An extended attribute.
    Attribute(u64, Vec<u8>),
    /// A symbolic link.
    Target(u64),
    /// Whether a file has a record.
    Record(u64),
    /// A stream of a file.
    Stream(u64, u64),
    /// The reparse point of a file.
    Reparse(u64),
    /// Whether the descriptor that a file names is there.
    Security(u64),
    /// A descriptor, in both trees.
    Descriptor(u32),
    /// A key and its value.
    Key(u8, Vec<u8>),
}

/// What an entry of a tree tells.
pub(crate) enum Told {
    /// That it is so, and what is to be looked at if the other side says otherwise.
    Fact(Fact, Side, Item),
    /// That something is wrong.
    Suspect(Item),
    /// A directory, and the one above it.
    Directory(u64, u64),
    /// Blocks of the device that a file says are its own, with what is to be looked at if they cannot be.
    Extent(u64, u32, Item),
    /// The same as the map of owners has it.
    Owner(u64, u32),
    /// A file that names a descriptor.
    Security(u64, u32),
    /// The span in which blocks were a file's that only snapshots have.
    Kept(u64, Span),
    /// Somebody who has blocks that are shared, and the key that says so.
    Reference(Reference, Vec<u8>),
}

/// What the map of owners says of a place.
pub(crate) struct Owner {
    pub file: u64,
    pub stream: u32,
    pub block: u64,
    pub blocks: u32,
    pub is_written: bool,
    /// Where the file has them no more, and snapshots do: in which span it had them.
    pub kept: Option<Span>,
}

impl Owner {
    /// Reads it from a value.
    pub fn decode(value: &[u8]) -> Result<Self, VolumeError> {
        let mut reader = Reader::new(value);
        let mut read = || {
            let (file, stream, block) = (reader.u64().ok()?, reader.u32().ok()?, reader.u64().ok()?);
            let (blocks, flags) = (reader.u32().ok()?, reader.u8().ok()?);
            let kept = match flags & keys::KEPT {
                0 => None,
                _ => Some(Span { birth: reader.u64().ok()?, death: reader.u64().ok()? }),
            };
            let is_known = flags & !(keys::KEPT | 1) == 0;
            is_known.then_some(Self { file, stream, block, blocks, is_written: flags & 1 == 1, kept })
        };
        match read() {
            Some(owner) if owner.blocks > 0 && owner.block.checked_add(owner.blocks.into()).is_some() => Ok(owner),
            _ => Err(VolumeError::corrupt("an entry of the map of owners cannot be read")),
        }
    }
}

/// Whether a value is what its key says.
pub(crate) fn is_readable(tree: u8, key: &[u8], value: &[u8]) -> bool {
    if tree == OWNER_TREE {
        return match Reference::is_key(key) {
            true => value.is_empty() && Reference::decode(key).is_some(),
            false => key.len() == 8 && Owner::decode(value).is_ok(),
        };
    }
    if tree == DEFERRED_TREE {
        return key.len() == 8 && matches!(value, [1 | 2]);
    }
    if tree == SECURITY_TREE || tree == SECURITY_TWIN {
        return descriptors::number_of(key).is_some_and(|number| number > 0);
    }
    let (Some(file), Some(what)) = (keys::number(key, 0), key.get(8)) else { return false };
    if keys::shard(file) != tree {
        return false;
    }
    match *what {
        kind::RECORD => key.len() == 9 && Record::decode(file, value).is_ok(),
        kind::LINK => key.len() == 25 && Link::decode(file, 0, value).is_ok_and(|link| !link.name.is_empty()),
        kind::ENTRY => key.len() == 17 && DirectoryEntry::decode(file, value).is_ok(),
        kind::EXTENDED => key.len() > 11 && key[key.len() - 2] == 0,
        kind::REPARSE => key.len() == 9 || key.len() == 10,
        kind::STREAM => match keys::read_stream(key) {
            Some((_, 0)) => Head::decode(value).is_some(),
            found => found.is_some(),
        },
        kind::EXTENT => {
            // Files have one stream yet.
            let end = keys::read_extent(tree, key).filter(|(_, stream, _)| *stream == MAIN).map(|(.., end)| end);
            let extent = Extent::decode(value).ok();
            end.zip(extent).is_some_and(|(end, extent)| end >= u64::from(extent.blocks))
        }
        _ => false,
    }
}

/// The numbers of a fact about a name: directory and file with their generations, and what the file is.
pub(crate) fn name_fact(sums: &Sums, directory: (u64, u32), child: (u64, u32), kind: FileKind, name: &[u8]) -> Fact {
    let kind = crate::record::kind_number(kind).0;
    let numbers = [directory.0, directory.1.into(), child.0, child.1.into(), kind.into()];
    sums.fact(Sort::Name, &numbers, name)
}

/// What the file is about that is being read.
#[derive(Default)]
struct Current {
    file: u64,
    record: Option<Record>,
    further: u32,
    entries: u64,
    directories: u32,
    blocks: u64,
    has_target: bool,
    reparse: Vec<Pair>,
    /// The stream that was met last: its slot, what it is, and its next part.
    stream: Option<(u64, Option<Head>, u64)>,
    /// The extended attribute that was met last: name, its next part, and bytes of the last one.
    attribute: Option<(Vec<u8>, u32, usize)>,
    /// Names of the bucket that was met last.
    bucket: (u64, Vec<Vec<u8>>),
}

/// Reads entries in the order of their keys.
pub(crate) struct Facts<'a> {
    names: &'a Names,
    current: Option<Current>,
}

impl<'a> Facts<'a> {
    pub fn new(names: &'a Names) -> Self {
        Self { names, current: None }
    }

    /// The next entry.
    pub fn entry(&mut self, sums: &Sums, tree: u8, key: &[u8], value: &[u8], told: &mut Vec<Told>) {
        if !is_readable(tree, key, value) {
            return told.push(Told::Suspect(Item::Key(tree, key.to_vec())));
        }
        let number = keys::number(key, 0).unwrap_or_default();
        match tree {
            OWNER_TREE if Reference::is_key(key) => {
                let Some(reference) = Reference::decode(key) else { return };
                if let Whose::File { file, stream, block } = reference.whose {
                    let numbers = [file, stream.into(), block, reference.place, reference.blocks.into()];
                    let fact = sums.fact(Sort::Reference, &numbers, &[]);
                    told.push(Told::Fact(fact, Side::Other, Item::Reference(key.to_vec())));
                }
                told.push(Told::Reference(reference, key.to_vec()));
            }
            OWNER_TREE => {
                let Ok(owner) = Owner::decode(value) else { return };
                told.push(Told::Owner(number, owner.blocks));
                if let Some(span) = owner.kept {
                    return told.push(Told::Kept(number, span));
                }
                let written = owner.is_written.into();
                let numbers = [owner.file, owner.stream.into(), owner.block, number, owner.blocks.into(), written];
                let fact = sums.fact(Sort::Extent, &numbers, &[]);
                told.push(Told::Fact(fact, Side::Other, Item::Owner(number)));
            }
            DEFERRED_TREE if value == [1] => {
                told.push(Told::Fact(sums.fact(Sort::Note, &[number], &[]), Side::Other, Item::Note(number)));
            }
            DEFERRED_TREE => told.push(Told::Suspect(Item::Note(number))),
            _ => self.part(sums, number, key, value, told),
        }
    }

    /// A part of a file.
    fn part(&mut self, sums: &Sums, file: u64, key: &[u8], value: &[u8], told: &mut Vec<Told>) {
        if self.current.as_ref().is_none_or(|current| current.file != file) {
            self.end(told);
            self.current = Some(Current { file, ..Current::default() });
        }
        let current = self.current.as_mut().expect("it was begun");
        match key[8] {
            kind::RECORD => {
                let Ok(record) = Record::decode(file, value) else { return };
                current.begin(sums, record, told);
            }
            kind::LINK => {
                let parent = keys::number(key, 9).unwrap_or_default();
                let (Ok(link), Some(record)) = (Link::decode(file, parent, value), &current.record) else { return };
                current.further += 1;
                let (above, child) = ((parent, link.parent_generation), (file, record.generation));
                let fact = name_fact(sums, above, child, plain(record.kind), &link.name);
                told.push(Told::Fact(fact, Side::File, Item::Names(file)));
            }
            kind::ENTRY => current.entry(sums, self.names, key, value, told),
            kind::EXTENDED => current.attribute(key, value, told),
            kind::REPARSE if key.len() == 9 => current.has_target = !value.is_empty(),
            kind::REPARSE => current.reparse.push((key.to_vec(), value.to_vec())),
            kind::STREAM => current.stream(key, value, told),
            _ => {
                let (Ok(extent), Some((_, stream, end))) =
                    (Extent::decode(value), keys::read_extent(keys::shard(file), key))
                else {
                    return;
                };
                current.blocks += u64::from(extent.blocks);
                if extent.is_lost() {
                    return;
                }
                let start = end - u64::from(extent.blocks);
                let numbers =
                    [file, stream.into(), start, extent.place, extent.blocks.into(), extent.is_written.into()];
                let item = Item::Extent(file, end);
                let fact = match extent.is_shared {
                    true => sums.fact(Sort::Reference, &numbers[..5], &[]),
                    false => sums.fact(Sort::Extent, &numbers, &[]),
                };
                told.push(Told::Fact(fact, Side::File, item));
                told.push(Told::Extent(extent.place, extent.blocks, Item::Extent(file, end)));
            }
        }
    }

    /// A tree ended, or another file begins.
    pub fn end(&mut self, told: &mut Vec<Told>) {
        let Some(mut current) = self.current.take() else { return };
        let file = current.file;
        current.end_attribute(None, told);
        current.end_stream(told);
        let Some(record) = &current.record else {
            return told.push(Told::Suspect(Item::Record(file)));
        };
        if (record.kind == FileKind::Symlink) != current.has_target {
            told.push(Told::Suspect(Item::Target(file)));
        }
        let is_reparse = record.attributes & DosAttributes::REPARSE_POINT.bits() != 0;
        if !reparse::agrees(is_reparse, &current.reparse) {
            told.push(Told::Suspect(Item::Reparse(file)));
        }
        if !counts_agree(record, current.further, (current.entries, current.directories), current.blocks) {
            told.push(Told::Suspect(Item::Count(file)));
        }
    }
}

/// Whether a record counts what is there: further names, entries and how many of them are directories, blocks.
pub(crate) fn counts_agree(record: &Record, further: u32, entries: (u64, u32), blocks: u64) -> bool {
    let named = u32::from(!record.link.name.is_empty()) + further;
    let is_sound = match record.kind {
        FileKind::Directory => (record.links, record.size) == (2 + entries.1, entries.0),
        _ => record.links == named && entries.0 == 0,
    };
    // What is being removed is counted no more.
    record.links == 0 || is_sound && record.blocks == blocks
}

impl Current {
    fn begin(&mut self, sums: &Sums, record: Record, told: &mut Vec<Told>) {
        let file = self.file;
        if record.links == 0 {
            told.push(Told::Fact(sums.fact(Sort::Note, &[file], &[]), Side::File, Item::Names(file)));
        } else if file != ROOT {
            let (above, child) = ((record.link.parent, record.link.parent_generation), (file, record.generation));
            let fact = name_fact(sums, above, child, plain(record.kind), &record.link.name);
            told.push(Told::Fact(fact, Side::File, Item::Names(file)));
        }
        if record.is_directory() && record.links > 0 {
            told.push(Told::Directory(file, record.link.parent));
        }
        if record.security != 0 {
            told.push(Told::Security(file, record.security));
        }
        self.record = Some(Record { inline: None, ..record });
    }

    fn entry(&mut self, sums: &Sums, names: &Names, key: &[u8], value: &[u8], told: &mut Vec<Told>) {
        let (Ok(entry), Some(slot)) = (DirectoryEntry::decode(self.file, value), keys::number(key, 9)) else { return };
        self.entries += 1;
        self.directories += u32::from(entry.kind == FileKind::Directory);
        let item = Item::Entry(self.file, slot);
        if self.bucket.0 != slot >> 8 {
            self.bucket = (slot >> 8, Vec::new());
        }
        let is_double = self.bucket.1.contains(&entry.name);
        let is_placed = names.bucket(&entry.name).contains(&slot) && Names::check(&entry.name).is_ok();
        if is_double || !is_placed {
            told.push(Told::Suspect(item.clone()));
        }
        if let Some(record) = &self.record {
            let child = (entry.child.number, entry.child.generation);
            let fact = name_fact(sums, (self.file, record.generation), child, entry.kind, &entry.name);
            told.push(Told::Fact(fact, Side::Other, item));
        }
        self.bucket.1.push(entry.name);
    }

    fn stream(&mut self, key: &[u8], value: &[u8], told: &mut Vec<Told>) {
        let Some((slot, part)) = keys::read_stream(key) else { return };
        self.blocks += 1;
        if self.stream.as_ref().is_none_or(|(last, ..)| *last != slot) {
            self.end_stream(told);
            self.stream = Some((slot, None, 0));
        }
        let Some((_, head, next)) = &mut self.stream else { return };
        if part == 0 {
            *head = Head::decode(value);
        }
        let fits = part == 0 || head.as_ref().is_some_and(|head| head.part_bytes(part) == value.len() as u64);
        if u64::from(part) != *next || !fits {
            told.push(Told::Suspect(Item::Stream(self.file, slot)));
        }
        *next += 1;
    }

    fn end_stream(&mut self, told: &mut Vec<Told>) {
        if let Some((slot, head, next)) = self.stream.take()
            && head.is_none_or(|head| head.parts() + 1 != next)
        {
            told.push(Told::Suspect(Item::Stream(self.file, slot)));
        }
    }

    fn attribute(&mut self, key: &[u8], value: &[u8], told: &mut Vec<Told>) {
        let (name, part) = (&key[9..key.len() - 2], u32::from(key[key.len() - 1]));
        if self.attribute.as_ref().is_none_or(|(last, ..)| last != name) {
            self.end_attribute(Some(name.to_vec()), told);
        }
        let Some((name, next, last)) = &mut self.attribute else { return };
        let follows =
            part == *next && (part == 0 || *last == crate::extended::PART) && value.len() <= crate::extended::PART;
        if !follows {
            told.push(Told::Suspect(Item::Attribute(self.file, name.clone())));
        }
        (*next, *last) = (part + 1, value.len());
    }

    fn end_attribute(&mut self, next: Option<Vec<u8>>, told: &mut Vec<Told>) {
        if let Some((name, parts, last)) = self.attribute.take()
            && parts > 1
            && last == 0
        {
            told.push(Told::Suspect(Item::Attribute(self.file, name)));
        }
        self.attribute = next.map(|name| (name, 0, 0));
    }
}

/// Trees that are read.
pub(crate) fn is_read(tree: u8) -> bool {
    tree < SHARED_TREES || tree == OWNER_TREE || tree == DEFERRED_TREE
}
