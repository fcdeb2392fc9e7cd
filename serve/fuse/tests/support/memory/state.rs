//! The files, and the names that they have.
//!
//! Invariant: the links of a file are the names that it has, of a directory two and one for each directory in it.

use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_volume::service::*;
use holdfast_volume::{ErrorKind, VolumeError};

use super::content::Content;

/// The first cursor of a directory.
const FIRST_CURSOR: u64 = 16;

pub struct State {
    pub files: HashMap<u64, File>,
    /// Numbers that are free, with the generations that they had.
    free: Vec<(u64, u32)>,
    next: u64,
    used_bytes: u64,
}

pub struct File {
    generation: u32,
    pub node: Node,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub accessed: Time,
    pub modified: Time,
    changed: Time,
    pub created: Time,
    change: u64,
    pub opens: u64,
    pub extended: BTreeMap<Vec<u8>, Vec<u8>>,
}

pub enum Node {
    Regular(Content),
    Directory(Directory),
    Symlink(Vec<u8>),
    Other(FileKind),
}

pub struct Directory {
    pub parent: u64,
    pub names: BTreeMap<Vec<u8>, Named>,
    pub cursors: BTreeMap<u64, (Vec<u8>, u64)>,
    next: u64,
}

pub struct Named {
    pub number: u64,
    cursor: u64,
}

pub fn error(kind: ErrorKind) -> VolumeError {
    VolumeError::new(kind, "files in memory do not do that")
}

pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set");
    Time { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() }
}

impl File {
    pub fn touch(&mut self, now: Time) {
        self.changed = now;
        self.change += 1;
    }

    /// Notes a read, at most once a change or a day (`relatime`).
    pub fn read_at(&mut self, now: Time) {
        let old = self.accessed <= self.modified.max(self.changed) || self.accessed.seconds + 86_400 < now.seconds;
        if old {
            self.accessed = now;
        }
    }

    pub fn data_mut(&mut self) -> Result<&mut Content, VolumeError> {
        match &mut self.node {
            Node::Regular(content) => Ok(content),
            Node::Directory(_) => Err(error(ErrorKind::IsDirectory)),
            _ => Err(error(ErrorKind::Invalid)),
        }
    }

    fn kind(&self) -> FileKind {
        match &self.node {
            Node::Regular(_) => FileKind::Regular,
            Node::Directory(_) => FileKind::Directory,
            Node::Symlink(_) => FileKind::Symlink,
            Node::Other(kind) => *kind,
        }
    }
}

impl State {
    pub fn new() -> Self {
        let mut state = Self { files: HashMap::new(), free: Vec::new(), next: 3, used_bytes: 0 };
        let directory = Directory { parent: 2, names: BTreeMap::new(), cursors: BTreeMap::new(), next: FIRST_CURSOR };
        let mut root = File {
            generation: 0,
            node: Node::Directory(directory),
            mode: 0o755,
            uid: 0,
            gid: 0,
            links: 2,
            accessed: now(),
            modified: now(),
            changed: now(),
            created: now(),
            change: 0,
            opens: 0,
            extended: BTreeMap::new(),
        };
        root.touch(now());
        state.files.insert(2, root);
        state
    }

    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub fn account(&mut self, before: u64, after: u64) {
        self.used_bytes = (self.used_bytes + after).saturating_sub(before);
    }

    /// A file that is there.
    pub fn file(&self, id: FileId) -> Result<&File, VolumeError> {
        self.files.get(&id.number).filter(|file| file.generation == id.generation).ok_or(error(ErrorKind::Stale))
    }

    pub fn file_mut(&mut self, id: FileId) -> Result<&mut File, VolumeError> {
        let found = self.files.get_mut(&id.number).filter(|file| file.generation == id.generation);
        found.ok_or(error(ErrorKind::Stale))
    }

    pub fn known(&self, number: u64) -> &File {
        &self.files[&number]
    }

    pub fn known_mut(&mut self, number: u64) -> &mut File {
        self.files.get_mut(&number).expect("it has a name or is open")
    }

    pub fn directory(&self, id: FileId) -> Result<&Directory, VolumeError> {
        match &self.file(id)?.node {
            Node::Directory(directory) => Ok(directory),
            _ => Err(error(ErrorKind::NotDirectory)),
        }
    }

    fn directory_mut(&mut self, number: u64) -> &mut Directory {
        match &mut self.known_mut(number).node {
            Node::Directory(directory) => directory,
            _ => unreachable!("names stand in directories"),
        }
    }

    pub fn find(&self, dir: FileId, name: &[u8]) -> Result<u64, VolumeError> {
        self.directory(dir)?.names.get(name).map(|entry| entry.number).ok_or(error(ErrorKind::NotFound))
    }

    pub fn attributes(&self, number: u64) -> Attributes {
        let file = self.known(number);
        let (size_bytes, allocated_bytes) = match &file.node {
            Node::Regular(content) => (content.size, content.allocated_bytes()),
            Node::Directory(directory) => (directory.names.len() as u64 * 32, 4096),
            Node::Symlink(target) => (target.len() as u64, 0),
            Node::Other(_) => (0, 0),
        };
        Attributes {
            id: FileId { number, generation: file.generation },
            kind: file.kind(),
            mode: file.mode,
            dos: Default::default(),
            uid: file.uid,
            gid: file.gid,
            links: file.links,
            size_bytes,
            allocated_bytes,
            accessed: file.accessed,
            modified: file.modified,
            changed: file.changed,
            created: file.created,
            change: file.change,
        }
    }

    /// Whether a directory is another one or below it.
    pub fn is_within(&self, mut number: u64, ancestor: u64) -> bool {
        loop {
            if number == ancestor {
                return true;
            }
            match &self.known(number).node {
                Node::Directory(directory) if directory.parent != number => number = directory.parent,
                _ => return false,
            }
        }
    }

    /// A new file, without a name.
    pub fn add_file(&mut self, caller: &Caller, dir: FileId, new: &NewFile<'_>) -> Result<u64, VolumeError> {
        let parent = self.file(dir)?;
        let Node::Directory(_) = parent.node else { return Err(error(ErrorKind::NotDirectory)) };
        if parent.links == 0 {
            return Err(error(ErrorKind::NotFound));
        }
        let inherits = parent.mode & 0o2000 != 0;
        let (gid, is_directory) = (if inherits { parent.gid } else { caller.gid }, new.kind == FileKind::Directory);
        let node = match new.kind {
            FileKind::Regular => Node::Regular(Content::default()),
            FileKind::Symlink => Node::Symlink(new.target.to_vec()),
            FileKind::Directory => Node::Directory(Directory {
                parent: dir.number,
                names: BTreeMap::new(),
                cursors: BTreeMap::new(),
                next: FIRST_CURSOR,
            }),
            other => Node::Other(other),
        };
        let (number, generation) = match self.free.pop() {
            Some((number, generation)) => (number, generation + 1),
            None => {
                self.next += 1;
                (self.next - 1, 0)
            }
        };
        let now = now();
        let file = File {
            generation,
            node,
            mode: if inherits && is_directory { new.mode | 0o2000 } else { new.mode },
            uid: caller.uid,
            gid,
            links: if is_directory { 1 } else { 0 },
            accessed: now,
            modified: now,
            changed: now,
            created: now,
            change: 1,
            opens: 0,
            extended: BTreeMap::new(),
        };
        self.files.insert(number, file);
        Ok(number)
    }

    /// Gives a file a name.
    pub fn enter(&mut self, dir: u64, name: &[u8], number: u64) {
        let is_directory = matches!(self.known(number).node, Node::Directory(_));
        let directory = self.directory_mut(dir);
        let cursor = directory.next;
        directory.next += 1;
        directory.cursors.insert(cursor, (name.to_vec(), number));
        let old = directory.names.insert(name.to_vec(), Named { number, cursor });
        assert!(old.is_none(), "a name is free before it is taken");
        let now = now();
        let parent = self.known_mut(dir);
        parent.modified = now;
        parent.touch(now);
        if is_directory {
            parent.links += 1;
            self.directory_mut(number).parent = dir;
        }
        let file = self.known_mut(number);
        file.links += 1;
        file.touch(now);
    }

    /// Takes a name away, and nothing else.
    pub fn take(&mut self, dir: u64, name: &[u8]) -> u64 {
        let directory = self.directory_mut(dir);
        let named = directory.names.remove(name).expect("the name is there");
        directory.cursors.remove(&named.cursor);
        let is_directory = matches!(self.known(named.number).node, Node::Directory(_));
        let now = now();
        let parent = self.known_mut(dir);
        parent.modified = now;
        parent.touch(now);
        if is_directory {
            parent.links -= 1;
        }
        let file = self.known_mut(named.number);
        file.links -= 1;
        file.touch(now);
        named.number
    }

    /// Takes a name away, and the file with its last one.
    pub fn leave(&mut self, dir: u64, name: &[u8]) {
        let number = self.take(dir, name);
        let file = self.known_mut(number);
        if matches!(file.node, Node::Directory(_)) {
            file.links = 0;
        }
        self.drop_if_unused(number);
    }

    pub fn drop_if_unused(&mut self, number: u64) {
        let file = self.known(number);
        if file.links == 0 && file.opens == 0 {
            let file = self.files.remove(&number).expect("it is there");
            if let Node::Regular(content) = &file.node {
                self.account(content.allocated_bytes(), 0);
            }
            self.free.push((number, file.generation));
        }
    }
}
