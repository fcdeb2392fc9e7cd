//! All that can be read of a wreck, handed out: directories, files with their data, links, special files, attributes,
//! security descriptors, named streams, reparse points.
//!
//! ```text
//!   device ── only read ──▶ overlay in memory ── opened and repaired offline ──▶ walked from the root ──▶ Rescue
//! ```
//!
//! The repair of a volume is also how a wreck is read: what it makes again of the other side is there, what is under
//! nobody's name is in `lost+found`, and what cannot be made again is an error to read. It is made in memory.
//!
//! Invariants: nothing is written to the device. No name that is handed out leads out of its directory. What could not be
//! read is told, with its range.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use holdfast_device::{Copies, Device};
use holdfast_identity::{Node, SecurityDescriptor, trivial_mode};
use holdfast_model::BLOCK_BYTES;
use serde::Serialize;

use crate::error::VolumeError;
use crate::extents::{Ground, Piece};
use crate::media::Media;
use crate::open_files::Handle;
use crate::overlay::Overlay;
use crate::service::{
    Attributes, Caller, Data, DosAttributes, FileId, FileKind, FileService, OpenMode, ReparsePoint, Stream,
};
use crate::store::{Settings, held};
use crate::verbs::Verb;
use crate::volume::{Volume, WallClock};

/// Bytes that are read at once.
const RUN: u64 = 1 << 20;
/// Pieces of what was lost that are told, at most.
const MOST_TOLD: usize = 10_000;
/// Directories below each other, at most.
const MOST_DEPTH: usize = 1024;
/// Bytes of memory that repairs may take, at most.
const ROOM_BYTES: u64 = 4 << 30;

/// A file that is handed out.
pub struct Found<'a> {
    /// The names that lead to it: valid ones, none of which leads out of its directory.
    pub path: &'a [Vec<u8>],
    /// Facts about it.
    pub facts: &'a Attributes,
    /// Where a symbolic link leads.
    pub target: &'a [u8],
    /// Extended attributes.
    pub extended: &'a [(Vec<u8>, Vec<u8>)],
    /// What only Windows knows of it.
    pub beside: &'a Beside,
}

/// What Windows knows of a file beside its DOS attributes and named streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Its security descriptor, where that is more than owner, group and mode.
    pub descriptor: Option<SecurityDescriptor>,
    /// What it stands for, where that is no symbolic link of POSIX.
    pub reparse: Option<ReparsePoint>,
}

/// Takes what is found. An answer that says why something was not taken is told, and the rest goes on.
#[expect(async_fn_in_trait, reason = "a salvage stays on the reactor that it began at")]
pub trait Rescue {
    /// A file, directory or other object is to be made. Nothing in a directory is handed out unless it was made.
    async fn make(&mut self, found: &Found<'_>) -> Result<(), String>;
    /// Another name of a file that was made.
    async fn link(&mut self, first: &[Vec<u8>], path: &[Vec<u8>]) -> Result<(), String>;
    /// Bytes of the file that was made last.
    async fn data(&mut self, found: &Found<'_>, offset: u64, data: &Data) -> Result<(), String>;
    /// A named stream of the object that was made last, or of a directory of which nothing was handed out yet.
    async fn stream(&mut self, found: &Found<'_>, name: &[u8], bytes: &[u8]) -> Result<(), String>;
    /// All that can be read of an object was handed out: of a directory, all in it, too.
    async fn finish(&mut self, found: &Found<'_>) -> Result<(), String>;
    /// So many bytes of data were handed out; false ends the salvage.
    async fn go_on(&mut self, bytes: u64) -> bool;
}

/// Something that is not in what was handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The path, or empty where it is about the volume.
    pub path: String,
    /// What is missing, and why.
    pub what: String,
}

/// What came of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Directories.
    pub directories: u64,
    /// Files with data.
    pub files: u64,
    /// Symbolic links, pipes, sockets, devices.
    pub others: u64,
    /// Further names of files.
    pub links: u64,
    /// Named streams.
    pub streams: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// Bytes of data that could not be read.
    pub lost_bytes: u64,
    /// What was found wrong with the volume.
    pub findings: Vec<Verb>,
    /// What is missing; the first of it.
    pub missing: Vec<Missing>,
    /// How much is.
    pub missing_count: u64,
    /// Whether it was ended early.
    pub is_cut: bool,
}

impl Salvaged {
    fn note(&mut self, path: &[Vec<u8>], what: impl Into<String>) {
        self.missing_count += 1;
        if self.missing.len() < MOST_TOLD {
            self.missing.push(Missing { path: shown(path), what: what.into() });
        }
    }
}

/// A path for people.
fn shown(path: &[Vec<u8>]) -> String {
    path.iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>().join("/")
}

/// A name that can be given to a file of any system of Linux, and leads nowhere else.
fn safe(name: &[u8]) -> Vec<u8> {
    let is_special = matches!(name, b"" | b"." | b"..");
    let mut safe = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            0 | b'/' => safe.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            b'.' if is_special => safe.extend_from_slice(b"%2E"),
            _ => safe.push(*byte),
        }
    }
    safe.truncate(255);
    if safe.is_empty() { b"%".to_vec() } else { safe }
}

/// Copies out what can be read of the volume on a device, which is only read.
///
/// # Errors
/// There is nothing of a volume, it is one of a later version, or memory does not suffice for its repair.
pub async fn salvage(
    device: Arc<dyn Device>,
    clock: WallClock,
    rescue: &mut impl Rescue,
) -> Result<Salvaged, VolumeError> {
    salvage_on(device, None, clock, rescue).await
}

/// The same where copies can be told apart.
///
/// # Errors
/// As [`salvage`].
pub async fn salvage_with_copies(
    device: Arc<dyn Copies>,
    clock: WallClock,
    rescue: &mut impl Rescue,
) -> Result<Salvaged, VolumeError> {
    salvage_on(device.clone(), Some(device), clock, rescue).await
}

async fn salvage_on(
    device: Arc<dyn Device>,
    copies: Option<Arc<dyn Copies>>,
    clock: WallClock,
    rescue: &mut impl Rescue,
) -> Result<Salvaged, VolumeError> {
    let size = device.geometry().size_bytes;
    let overlay = Arc::new(Overlay::new(device, copies, ROOM_BYTES));
    let (volume, gap) = Volume::open_wreck(Media::with_copies(overlay), size, Settings::default(), clock).await?;
    let mut done = Salvaged::default();
    if let Some(gap) = gap {
        done.note(&[], gap);
    }
    match volume.scan().await {
        Ok(found) => done.findings = found,
        Err(error) => done.note(&[], format!("it cannot be scanned: {error}")),
    }
    // What is free matters to nobody here.
    let is_read = |verb: &Verb| !matches!(verb.number(), 30..=33 | 43 | 44);
    done.findings.retain(is_read);
    if !done.findings.is_empty() {
        let repaired = async {
            volume.rebuild_all().await?;
            volume.spotfix_some(is_read).await
        };
        if let Err(error) = repaired.await {
            done.note(&[], format!("not all of it was made whole: {error}"));
        }
    }
    let walk = Walk { volume: &volume, rescue, done: &mut done, seen: BTreeSet::new(), made: HashMap::new() };
    walk.run().await;
    Ok(done)
}

/// A salvage under way.
struct Walk<'a, R> {
    volume: &'a Volume,
    rescue: &'a mut R,
    done: &'a mut Salvaged,
    /// Directories that were made.
    seen: BTreeSet<u64>,
    /// Files of several names, and the first of them.
    made: HashMap<u64, Vec<Vec<u8>>>,
}

/// A directory that is being walked.
struct Open {
    path: Vec<Vec<u8>>,
    facts: Attributes,
    extended: Vec<(Vec<u8>, Vec<u8>)>,
    beside: Beside,
    entries: std::vec::IntoIter<(Vec<u8>, FileId)>,
}

impl<R: Rescue> Walk<'_, R> {
    async fn run(mut self) {
        let root = match self.volume.stat(self.volume.root()).await {
            Ok(facts) => facts,
            Err(error) => return self.done.note(&[], format!("the root directory: {error}")),
        };
        let mut open: Vec<Open> = self.enter(Vec::new(), root).await.into_iter().collect();
        while let Some(directory) = open.last_mut() {
            if self.done.is_cut {
                return;
            }
            let Some((name, id)) = directory.entries.next() else {
                let Some(Open { path, facts, extended, beside, .. }) = open.pop() else { return };
                let found = Found { path: &path, facts: &facts, target: &[], extended: &extended, beside: &beside };
                self.finish(&found).await;
                continue;
            };
            let mut path = directory.path.clone();
            path.push(name);
            let is_deep = path.len() > MOST_DEPTH;
            let facts = match self.volume.stat(id).await {
                Ok(facts) => facts,
                Err(error) => {
                    self.done.note(&path, error.to_string());
                    continue;
                }
            };
            if facts.kind == FileKind::Directory {
                if is_deep || self.seen.contains(&id.number) {
                    self.done.note(&path, "it stands too deep, or in itself");
                } else {
                    open.extend(self.enter(path, facts).await);
                }
            } else {
                self.file(&path, &facts).await;
            }
        }
    }

    /// Makes a directory, and lists what is in it.
    async fn enter(&mut self, path: Vec<Vec<u8>>, facts: Attributes) -> Option<Open> {
        self.seen.insert(facts.id.number);
        let extended = self.extended(&path, facts.id).await;
        let beside = self.beside(&path, &facts).await;
        let found = Found { path: &path, facts: &facts, target: &[], extended: &extended, beside: &beside };
        if let Err(why) = self.rescue.make(&found).await {
            self.done.note(&path, why);
            return None;
        }
        self.done.directories += 1;
        self.streams(&found).await;
        let (caller, mut cursor, mut entries, mut names) = (Caller::default(), 0, Vec::new(), BTreeSet::new());
        loop {
            let some = match self.volume.list(&caller, facts.id, cursor, 256, false).await {
                Ok(some) => some,
                Err(error) => {
                    self.done.note(&path, format!("names in it: {error}"));
                    break;
                }
            };
            let Some(last) = some.last() else { break };
            cursor = last.cursor;
            for entry in some {
                let mut name = safe(&entry.name);
                if !names.insert(name.clone()) {
                    name = format!("file {}", entry.id.number).into_bytes();
                    names.insert(name.clone());
                }
                entries.push((name, entry.id));
            }
        }
        Some(Open { path, facts, extended, beside, entries: entries.into_iter() })
    }

    async fn extended(&mut self, path: &[Vec<u8>], id: FileId) -> Vec<(Vec<u8>, Vec<u8>)> {
        let caller = Caller::default();
        let names = match self.volume.list_extended(&caller, id).await {
            Ok(names) => names,
            Err(error) => {
                self.done.note(path, format!("extended attributes: {error}"));
                return Vec::new();
            }
        };
        let mut extended = Vec::new();
        for name in names {
            match self.volume.extended(&caller, id, &name).await {
                Ok(value) => extended.extend(value.map(|value| (name, value))),
                Err(error) => {
                    let text = format!("extended attribute {:?}: {error}", String::from_utf8_lossy(&name));
                    self.done.note(path, text);
                }
            }
        }
        extended
    }

    /// What only Windows knows of a file; what of it cannot be read is told.
    async fn beside(&mut self, path: &[Vec<u8>], facts: &Attributes) -> Beside {
        let (caller, mut beside) = (Caller::default(), Beside::default());
        if facts.kind == FileKind::Symlink {
            return beside;
        }
        let node = if facts.kind == FileKind::Directory { Node::Directory } else { Node::File };
        match self.volume.security(&caller, facts.id).await {
            // What follows from owner, group and mode is no more than these.
            Ok(own) if trivial_mode(&own, node).is_none() => beside.descriptor = Some(own),
            Ok(_) => {}
            Err(error) => self.done.note(path, format!("security descriptor: {error}")),
        }
        if facts.dos.contains(DosAttributes::REPARSE_POINT) {
            match self.volume.reparse(&caller, facts.id).await {
                Ok(point) => beside.reparse = Some(point),
                Err(error) => self.done.note(path, format!("reparse point: {error}")),
            }
        }
        beside
    }

    /// Hands out the named streams of a file or directory.
    async fn streams(&mut self, found: &Found<'_>) {
        let (caller, id) = (Caller::default(), found.facts.id);
        let streams = match self.volume.streams(&caller, id).await {
            Ok(streams) => streams,
            Err(error) => return self.done.note(found.path, format!("named streams: {error}")),
        };
        for Stream { name, size_bytes, .. } in streams {
            let handed = match self.volume.read_stream(&caller, id, &name, 0, size_bytes as usize).await {
                Ok(bytes) => {
                    self.done.streams += 1;
                    self.rescue.stream(found, &name, &bytes).await
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(why) = handed {
                self.done.note(found.path, format!("stream {:?}: {why}", String::from_utf8_lossy(&name)));
            }
        }
    }

    async fn file(&mut self, path: &[Vec<u8>], facts: &Attributes) {
        if let Some(first) = self.made.get(&facts.id.number) {
            match self.rescue.link(first, path).await {
                Ok(()) => self.done.links += 1,
                Err(why) => self.done.note(path, why),
            }
            return;
        }
        let target = match facts.kind {
            FileKind::Symlink => match self.volume.read_link(facts.id).await {
                Ok(target) => target,
                Err(error) => return self.done.note(path, format!("where it leads: {error}")),
            },
            _ => Vec::new(),
        };
        let extended = self.extended(path, facts.id).await;
        let beside = self.beside(path, facts).await;
        let found = Found { path, facts, target: &target, extended: &extended, beside: &beside };
        if let Err(why) = self.rescue.make(&found).await {
            return self.done.note(path, why);
        }
        if facts.links > 1 {
            self.made.insert(facts.id.number, path.to_vec());
        }
        if facts.kind == FileKind::Regular {
            self.done.files += 1;
            self.copy(&found).await;
            self.streams(&found).await;
        } else {
            self.done.others += 1;
        }
        self.finish(&found).await;
    }

    async fn finish(&mut self, found: &Found<'_>) {
        if let Err(why) = self.rescue.finish(found).await {
            self.done.note(found.path, why);
        }
    }

    /// Hands out the data of a file; holes are left out.
    async fn copy(&mut self, found: &Found<'_>) {
        let mode = OpenMode { read: true, write: false, truncate: false };
        let handle = match self.volume.open(&Caller::default(), found.facts.id, mode).await {
            Ok(handle) => handle,
            Err(error) => return self.done.note(found.path, error.to_string()),
        };
        let mut lost = Lost::default();
        if let Err(why) = self.copy_data(&handle, found, &mut lost).await {
            self.done.note(found.path, why);
        }
        for (from, to) in lost.ranges {
            self.done.lost_bytes += to - from;
            self.done.note(found.path, format!("bytes {from} to {} cannot be read", to - 1));
        }
        let _ = self.volume.close(handle).await;
    }

    async fn copy_data(&mut self, handle: &Handle, found: &Found<'_>, lost: &mut Lost) -> Result<(), String> {
        let (size, is_inline) = {
            let state = held(&handle.file.state);
            (state.size, state.is_inline)
        };
        if is_inline {
            return self.copy_range(handle, found, (0, size), lost).await;
        }
        let (mut at, end) = (0, size.div_ceil(BLOCK_BYTES));
        while at < end && !self.done.is_cut {
            let wrong = |error: VolumeError| format!("behind byte {}: {error}", at * BLOCK_BYTES);
            // A part at a time: a file may have any number of extents.
            let to = end.min(self.volume.mapping(&handle.file, at).await.map_err(wrong)?.to);
            for Piece { block, blocks, ground } in self.volume.seen(&handle.file, at, to).await.map_err(wrong)? {
                let range = (block * BLOCK_BYTES, ((block + blocks) * BLOCK_BYTES).min(size));
                match ground {
                    Ground::Hole | Ground::Unwritten(_) => {}
                    Ground::Lost => lost.add(range.0, range.1 - range.0),
                    Ground::Written(_) | Ground::Delayed => self.copy_range(handle, found, range, lost).await?,
                }
            }
            at = to;
        }
        Ok(())
    }

    /// Hands out a range that has data, block by block where it cannot be read as a whole.
    async fn copy_range(
        &mut self,
        handle: &Handle,
        found: &Found<'_>,
        (mut at, end): (u64, u64),
        lost: &mut Lost,
    ) -> Result<(), String> {
        while at < end && !self.done.is_cut {
            let len = (RUN - at % RUN).min(end - at);
            if !self.hand_out(handle, found, at, len).await? {
                let mut part = at;
                while part < at + len {
                    let some = (BLOCK_BYTES - part % BLOCK_BYTES).min(at + len - part);
                    if !self.hand_out(handle, found, part, some).await? {
                        lost.add(part, some);
                    }
                    part += some;
                }
            }
            at += len;
            self.done.is_cut |= !self.rescue.go_on(self.done.bytes).await;
        }
        Ok(())
    }

    /// Reads a range and hands it out; false where it cannot be read, an error where it is not taken.
    async fn hand_out(&mut self, handle: &Handle, found: &Found<'_>, at: u64, len: u64) -> Result<bool, String> {
        let Ok(data) = self.volume.read(handle, at, len as usize).await else { return Ok(false) };
        if !data.is_empty() {
            self.rescue.data(found, at, &data).await?;
            self.done.bytes += data.len() as u64;
        }
        Ok(true)
    }
}

/// Ranges that could not be read.
#[derive(Default)]
struct Lost {
    ranges: Vec<(u64, u64)>,
}

impl Lost {
    fn add(&mut self, from: u64, len: u64) {
        match self.ranges.last_mut() {
            Some((_, to)) if *to == from => *to += len,
            _ => self.ranges.push((from, from + len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_its_directory() {
        for (name, expected) in [
            (&b"plain"[..], &b"plain"[..]),
            (b"..", b"%2E%2E"),
            (b".", b"%2E"),
            (b"", b"%"),
            (b"../../etc/passwd", b"..%2F..%2Fetc%2Fpasswd"),
            (b"a\0b", b"a%00b"),
            (b".hidden", b".hidden"),
        ] {
            assert_eq!(safe(name), expected);
        }
        assert_eq!(safe(&[b'/'; 255]).len(), 255);
    }
}
