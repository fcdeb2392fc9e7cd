//! Files of a volume made as a snapshot has them.
//!
//! ```text
//!   directory of the snapshot ── held against ── directory as it is
//!     name that the snapshot has not                     removed, with all below
//!     the same file, changed since                       bytes that differ are written, attributes set
//!     another file, or none                              made apart, whole, and put in its place
//! ```
//!
//! Invariants: what is equal is not touched, so one that was cut short goes on where it was when it is repeated. A file
//! that takes the place of another is whole before it has the name. Memory follows the depth of the tree.

mod attributes;
mod bytes;
mod unreverted;

use std::collections::{HashMap, HashSet};
use std::pin::Pin;

use holdfast_device::IoBuf;
use holdfast_volume::service::{
    Allocate, Attributes, FileId, FileKind, FileService, NewFile, OpenMode, Remove, Rename, Seek, SetAttributes,
};
use holdfast_volume::{ErrorKind, Handle, Steps, Volume, VolumeError};

use super::acl::administrator;
use super::usage::find_any;
use bytes::{found, next};
use unreverted::Left;
pub(crate) use unreverted::{Failed, Unreverted};

/// Names that are read at once.
const AT_ONCE: usize = 64;
/// Bytes that are read, held against each other and written at once.
const PIECE_BYTES: usize = 1 << 20;
/// Files with several names that are known to be restored, at most; a name of one beyond becomes a file of its own.
const MOST_LINKED: usize = 1 << 20;
/// What begins the names of files that are not whole yet.
const APART: &str = ".restoring-";
/// Steps that a name, or an attribute, is worth in bytes.
const NAME_BYTES: u64 = 4096;

/// What changed behind the back of those who keep files in memory.
pub(crate) enum Notice {
    /// The bytes or attributes of a file.
    File(FileId),
    /// A name in a directory.
    Name(FileId, Vec<u8>),
}

/// Tells of changes.
pub(crate) type Tell<'a> = &'a dyn Fn(Vec<Notice>) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reverted {
    /// Files, links and directories that were made anew, or had other bytes or attributes.
    pub(crate) restored: u64,
    /// Files and directories that were removed.
    pub(crate) removed: u64,
    /// Bytes that were written.
    pub(crate) bytes: u64,
}

/// A directory that is being restored.
struct Level {
    was: FileId,
    is: FileId,
    cursor: u64,
    /// Whether names that the snapshot has not are gone.
    is_clean: bool,
}

/// Names of a path from the root on.
fn names(path: &str) -> Vec<&[u8]> {
    path.split('/').filter(|name| !name.is_empty()).map(str::as_bytes).collect()
}

/// A path, from the root on.
fn shown(path: &[Vec<u8>]) -> String {
    format!("/{}", String::from_utf8_lossy(&path.join(&b'/')))
}

/// A restore under way.
pub(crate) struct Revert<'a> {
    snapshot: &'a str,
    was: &'a Volume,
    is: &'a Volume,
    steps: &'a dyn Steps,
    tell: Tell<'a>,
    /// Whether files that moved elsewhere get their names back, rather than that they are made anew.
    moves_back: bool,
    /// By their numbers in the snapshot, files with several names and what they are now.
    linked: HashMap<u64, FileId>,
    /// What files of the snapshot are now, so that no two become one.
    taken: HashSet<FileId>,
    notices: Vec<Notice>,
    path: Vec<Vec<u8>>,
    done: Reverted,
    left: Left,
    /// All below the directory at the path is restored.
    is_below: bool,
}

/// How a file is one of the snapshot.
enum Likeness {
    /// By its id.
    Itself,
    /// It holds the same, as an earlier restore left it.
    Bytes,
    /// By another name of it, which was restored.
    Restored,
}

/// Why a step was not done.
enum Halt {
    Stopped,
    Volume(VolumeError),
}

impl From<VolumeError> for Halt {
    fn from(error: VolumeError) -> Self {
        Self::Volume(error)
    }
}

type Step<T> = Result<T, Halt>;

impl<'a> Revert<'a> {
    /// From a snapshot, by its name and as a volume, to its volume.
    pub(crate) fn new(
        (snapshot, was): (&'a str, &'a Volume),
        is: &'a Volume,
        steps: &'a dyn Steps,
        tell: Tell<'a>,
    ) -> Self {
        let (linked, taken, done) = (HashMap::new(), HashSet::new(), Reverted::default());
        Self {
            snapshot,
            was,
            is,
            steps,
            tell,
            moves_back: false,
            linked,
            taken,
            notices: Vec::new(),
            path: Vec::new(),
            done,
            left: Left::default(),
            is_below: false,
        }
    }

    /// Has what is at `path` be as it was; or, with `to`, makes it there, where nothing may be.
    ///
    /// # Errors
    /// See [`Unreverted`]. What was done by then stays.
    pub(crate) async fn run(mut self, path: &str, to: Option<&str>) -> Result<Reverted, Unreverted> {
        let done = match to {
            None => self.put_back(path).await,
            Some(to) => self.put_elsewhere(path, to).await,
        };
        let notices = std::mem::take(&mut self.notices);
        (self.tell)(notices).await;
        // What is done stays so, whatever happens next.
        let synced = self.is.sync().await;
        done?;
        synced.map_err(|error| self.failed(error))?;
        Ok(self.done)
    }

    /// Where it is.
    fn place(&self) -> String {
        shown(&self.path)
    }

    fn failed(&mut self, why: impl Into<Halt>) -> Unreverted {
        match why.into() {
            Halt::Stopped => Unreverted::Stopped,
            Halt::Volume(error) => {
                let left = std::mem::take(&mut self.left);
                Unreverted::Failed(Box::new(Failed {
                    at: self.place(),
                    is_below: self.is_below,
                    error,
                    done: self.done,
                    left,
                }))
            }
        }
    }

    async fn put_back(&mut self, path: &str) -> Result<(), Unreverted> {
        let names = names(path);
        let (mut was, mut is) = (self.was.root(), self.is.root());
        let Some((last, above)) = names.split_last() else {
            self.moves_back = true;
            let walked = self.walk(was, is).await;
            return walked.map_err(|error| self.failed(error));
        };
        for name in above {
            let directory = self.past(was, name).await?;
            if directory.kind != FileKind::Directory {
                return Err(Unreverted::NoFile);
            }
            let found = self.is.lookup(&administrator(), is, name).await.map_err(|error| self.failed(error))?;
            self.path.push(name.to_vec());
            is = match found {
                Some(found) if found.kind == FileKind::Directory => found.id,
                Some(_) => {
                    return Err(Unreverted::InTheWay(self.place()));
                }
                None => {
                    let made = self.make_above(is, name, &directory).await;
                    made.map_err(|error| self.failed(error))?
                }
            };
            was = directory.id;
        }
        let file = self.past(was, last).await?;
        let done = self.one(is, last, &file).await;
        done.map_err(|error| self.failed(error))
    }

    async fn put_elsewhere(&mut self, path: &str, to: &str) -> Result<(), Unreverted> {
        let file = find_any(self.was, path).await.map_err(|error| self.failed(error))?.ok_or(Unreverted::NoFile)?;
        let names = names(to);
        let Some((last, above)) = names.split_last() else { return Err(Unreverted::InTheWay("/".into())) };
        self.path.extend(above.iter().map(|name| name.to_vec()));
        let found = find_any(self.is, &self.place()).await.map_err(|error| self.failed(error))?;
        let none = || VolumeError::new(ErrorKind::NotFound, "there is no such directory");
        let directory = found.filter(|found| found.kind == FileKind::Directory);
        let is = directory.ok_or_else(|| self.failed(none()))?.id;
        let found = self.is.lookup(&administrator(), is, last).await.map_err(|error| self.failed(error))?;
        if found.is_some() {
            return Err(Unreverted::InTheWay(to.to_owned()));
        }
        let done = self.one_apart(is, last, &file).await;
        done.map_err(|error| self.failed(error))
    }

    /// Makes one file with all below under a name of its own, where one that was cut short goes on, and names it then.
    async fn one_apart(&mut self, dir: FileId, name: &[u8], was: &Attributes) -> Step<()> {
        let apart = format!("{APART}{}", was.id.number).into_bytes();
        self.one(dir, &apart, was).await?;
        // Whole before it has the name.
        self.is.sync().await?;
        self.is.rename(&administrator(), (dir, &apart), (dir, name), Rename::NoReplace).await?;
        self.notices.extend([Notice::Name(dir, apart), Notice::Name(dir, name.to_vec())]);
        Ok(())
    }

    /// A file of the snapshot.
    async fn past(&mut self, dir: FileId, name: &[u8]) -> Result<Attributes, Unreverted> {
        match self.was.lookup(&administrator(), dir, name).await {
            Ok(found) => found.ok_or(Unreverted::NoFile),
            Err(error) if matches!(error.kind, ErrorKind::NotDirectory | ErrorKind::NameTooLong) => {
                Err(Unreverted::NoFile)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// A directory above what is restored, which is there no more.
    async fn make_above(&mut self, dir: FileId, name: &[u8], was: &Attributes) -> Step<FileId> {
        let made = self.make_directory(dir, name, was).await?;
        self.set_attributes(made, was).await?;
        Ok(made)
    }

    /// Restores one name, with all below.
    async fn one(&mut self, dir: FileId, name: &[u8], was: &Attributes) -> Step<()> {
        self.path.push(name.to_vec());
        match self.entry(dir, name, was).await? {
            Some(is) => self.walk(was.id, is).await,
            None => Ok(()),
        }
    }

    /// Restores a directory with all below.
    async fn walk(&mut self, was: FileId, is: FileId) -> Step<()> {
        let above = self.path.len();
        let mut levels = vec![Level { was, is, cursor: 0, is_clean: false }];
        let walked = self.walk_levels(above, &mut levels).await;
        if matches!(walked, Err(Halt::Volume(_))) {
            self.note_left(above, &levels).await;
        }
        walked
    }

    async fn walk_levels(&mut self, above: usize, levels: &mut Vec<Level>) -> Step<()> {
        while let Some(level) = levels.last_mut() {
            self.pace(NAME_BYTES).await?;
            let (was, is) = (level.was, level.is);
            if !level.is_clean {
                self.remove_others(was, is).await?;
                level.is_clean = true;
            }
            let entries = self.was.list(&administrator(), was, level.cursor, AT_ONCE, true).await?;
            if entries.is_empty() {
                let facts = self.was.stat(was).await?;
                self.is_below = true;
                self.restored(is, &facts).await?;
                self.is_below = false;
                levels.pop();
                if self.path.len() > above {
                    self.path.pop();
                }
                continue;
            }
            let mut below = None;
            for entry in entries {
                level.cursor = entry.cursor;
                let facts = match entry.attributes {
                    Some(facts) => facts,
                    None => self.was.stat(entry.id).await?,
                };
                self.path.push(entry.name.clone());
                if let Some(directory) = self.entry(is, &entry.name, &facts).await? {
                    below = Some(Level { was: entry.id, is: directory, cursor: 0, is_clean: false });
                    break;
                }
                self.path.pop();
            }
            levels.extend(below);
            if self.notices.len() >= AT_ONCE {
                let notices = std::mem::take(&mut self.notices);
                (self.tell)(notices).await;
            }
        }
        Ok(())
    }

    async fn pace(&self, bytes: u64) -> Step<()> {
        if self.steps.step(bytes).await {
            self.steps.done(bytes);
            return Ok(());
        }
        Err(Halt::Stopped)
    }

    /// Removes names of a directory that the snapshot has not.
    async fn remove_others(&mut self, was: FileId, is: FileId) -> Step<()> {
        let mut cursor = 0;
        loop {
            let entries = self.is.list(&administrator(), is, cursor, AT_ONCE, false).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            cursor = last.cursor;
            for entry in entries {
                if self.was.lookup(&administrator(), was, &entry.name).await?.is_none() {
                    self.path.push(entry.name.clone());
                    self.remove(is, &entry.name, entry.kind == FileKind::Directory).await?;
                    self.notices.push(Notice::File(entry.id));
                    self.path.pop();
                }
            }
            self.pace(NAME_BYTES).await?;
        }
    }

    /// Removes a name with all below.
    async fn remove(&mut self, dir: FileId, name: &[u8], is_directory: bool) -> Step<()> {
        let gone = |removed: Result<(), VolumeError>| match removed {
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Stale) => Ok(()),
            removed => removed,
        };
        self.notices.push(Notice::Name(dir, name.to_vec()));
        if !is_directory {
            let _kept = self.keep_off(dir, name).await?;
            self.done.removed += 1;
            return Ok(gone(self.is.remove(&administrator(), dir, name, Remove::File).await)?);
        }
        let mut levels = vec![(dir, name.to_vec())];
        while let Some((dir, name)) = levels.last().cloned() {
            self.pace(NAME_BYTES).await?;
            let Some(directory) = self.is.lookup(&administrator(), dir, &name).await? else {
                levels.pop();
                continue;
            };
            let entries = self.is.list(&administrator(), directory.id, 0, AT_ONCE, false).await?;
            if entries.is_empty() {
                match self.is.remove(&administrator(), dir, &name, Remove::Directory).await {
                    // Somebody made a file there just now.
                    Err(error) if error.kind == ErrorKind::NotEmpty => continue,
                    removed => gone(removed)?,
                }
                self.done.removed += 1;
                levels.pop();
                continue;
            }
            for entry in entries {
                if entry.kind == FileKind::Directory {
                    levels.push((directory.id, entry.name));
                    break;
                }
                let _kept = self.is.keep_off_objects(entry.id)?;
                gone(self.is.remove(&administrator(), directory.id, &entry.name, Remove::File).await)?;
                self.done.removed += 1;
            }
        }
        Ok(())
    }

    /// Has a name lead to the file that it led to, as it was; answers the directory whose names are to be restored.
    async fn entry(&mut self, dir: FileId, name: &[u8], was: &Attributes) -> Step<Option<FileId>> {
        let found = self.is.lookup(&administrator(), dir, name).await?;
        let is_directory = |kind: FileKind| kind == FileKind::Directory;
        if is_directory(was.kind) {
            return match found {
                Some(found) if is_directory(found.kind) => Ok(Some(found.id)),
                found => {
                    if let Some(found) = found {
                        self.remove(dir, name, is_directory(found.kind)).await?;
                    }
                    Ok(Some(self.make_directory(dir, name, was).await?))
                }
            };
        }
        if let Some(found) = &found {
            if is_directory(found.kind) {
                self.remove(dir, name, true).await?;
            } else if let Some(likeness) = self.likeness(found, was).await? {
                match likeness {
                    Likeness::Itself => self.same(found, was).await?,
                    Likeness::Bytes => self.restored(found.id, was).await?,
                    Likeness::Restored => {}
                }
                self.note(was, found.id);
                return Ok(None);
            }
        }
        let is_restored = self.linked.contains_key(&was.id.number);
        if let Some(own) = self.own(was).await? {
            match self.name(own, dir, name).await {
                // Its quota is that of another directory tree: it cannot be the same file.
                Err(Halt::Volume(error)) if error.kind == ErrorKind::OtherTree => {}
                named => {
                    named?;
                    if !is_restored {
                        let facts = self.is.stat(own).await?;
                        self.same(&facts, was).await?;
                    }
                    self.note(was, own);
                    return Ok(None);
                }
            }
        }
        let made = self.make(dir, name, was).await?;
        self.note(was, made);
        self.done.restored += 1;
        Ok(None)
    }

    /// Notes what a file of the snapshot is now.
    fn note(&mut self, was: &Attributes, is: FileId) {
        if was.links > 1 && self.linked.len() < MOST_LINKED {
            self.linked.insert(was.id.number, is);
            self.taken.insert(is);
        }
    }

    /// How what has the name is this file of the snapshot, if it is.
    async fn likeness(&self, found: &Attributes, was: &Attributes) -> Step<Option<Likeness>> {
        if let Some(known) = self.linked.get(&was.id.number) {
            return Ok((*known == found.id).then_some(Likeness::Restored));
        }
        if found.id == was.id {
            return Ok(Some(Likeness::Itself));
        }
        let is_alike = found.kind == was.kind && found.size_bytes == was.size_bytes;
        let is_single = was.links == 1 && found.links == 1;
        if !is_alike || !(is_single || was.links > 1) || self.taken.contains(&found.id) {
            return Ok(None);
        }
        // It may be another file of the snapshot that got this name.
        match self.was.stat(found.id).await {
            Err(error) if matches!(error.kind, ErrorKind::Stale | ErrorKind::NotFound) => {}
            other => return Ok(other.map(|_| None)?),
        }
        let is_equal = match was.kind {
            FileKind::Regular => self.has_the_bytes(found.id, was).await?,
            FileKind::Symlink => self.was.read_link(was.id).await? == self.is.read_link(found.id).await?,
            _ => true,
        };
        Ok(is_equal.then_some(Likeness::Bytes))
    }

    /// Whether a file holds what another one held.
    async fn has_the_bytes(&self, is: FileId, was: &Attributes) -> Step<bool> {
        // What programs wrote to mapped memory counts.
        (self.tell)(vec![Notice::File(is)]).await;
        let mode = OpenMode { read: true, write: false, truncate: false };
        let from = self.was.open(&administrator(), was.id, mode).await?;
        let to = self.is.open(&administrator(), is, mode).await;
        let compared = match &to {
            Ok(to) => self.compare(&from, to, was.size_bytes).await,
            Err(error) => Err(error.clone().into()),
        };
        let closed = self.was.close(from).await;
        if let Ok(to) = to {
            self.is.close(to).await?;
        }
        closed?;
        compared
    }

    async fn compare(&self, from: &Handle, to: &Handle, size: u64) -> Step<bool> {
        let mut at = 0;
        while at < size {
            let data = next(self.was, from, at, Seek::Data).await?.unwrap_or(size).min(size);
            if next(self.is, to, at, Seek::Data).await?.unwrap_or(size).min(size) != data {
                return Ok(false);
            }
            at = data;
            let hole = next(self.was, from, at, Seek::Hole).await?.unwrap_or(size).min(size);
            while at < hole {
                let len = (hole - at).min(PIECE_BYTES as u64);
                self.pace(len).await?;
                let wanted = self.was.read(from, at, len as usize).await?;
                if found(self.is, to, at, len as usize).await? != Some(wanted.to_vec()) {
                    return Ok(false);
                }
                at += len;
            }
        }
        Ok(true)
    }

    /// The file of the volume that is this one of the snapshot, if there is one, or was made.
    async fn own(&self, was: &Attributes) -> Step<Option<FileId>> {
        if let Some(made) = self.linked.get(&was.id.number) {
            return Ok(Some(*made));
        }
        if !self.moves_back {
            return Ok(None);
        }
        match self.is.stat(was.id).await {
            Ok(facts) => Ok((facts.links > 0).then_some(was.id)),
            Err(error) if matches!(error.kind, ErrorKind::Stale | ErrorKind::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a file a name, in place of what has it.
    async fn name(&mut self, id: FileId, dir: FileId, name: &[u8]) -> Step<()> {
        self.notices.extend([Notice::Name(dir, name.to_vec()), Notice::File(id)]);
        let apart = format!("{APART}{}-{}", id.number, self.done.restored).into_bytes();
        match self.is.link(&administrator(), id, dir, name).await {
            Err(error) if error.kind == ErrorKind::Exists => {}
            named => return Ok(named.map(drop)?),
        }
        let _kept = self.keep_off(dir, name).await?;
        self.is.link(&administrator(), id, dir, &apart).await?;
        let named = self.is.rename(&administrator(), (dir, &apart), (dir, name), Rename::Replace).await;
        if named.is_err() {
            self.is.remove(&administrator(), dir, &apart, Remove::File).await?;
        }
        Ok(named?)
    }

    async fn make_directory(&mut self, dir: FileId, name: &[u8], was: &Attributes) -> Step<FileId> {
        let new = NewFile { kind: FileKind::Directory, mode: was.mode, target: b"" };
        let made = self.is.create(&administrator(), dir, name, &new).await?;
        self.notices.push(Notice::Name(dir, name.to_vec()));
        Ok(made.id)
    }

    /// Makes a file as it was, in place of what has its name.
    async fn make(&mut self, dir: FileId, name: &[u8], was: &Attributes) -> Step<FileId> {
        if was.kind == FileKind::Regular {
            let new = NewFile { kind: was.kind, mode: was.mode, target: b"" };
            let (made, handle) = self.is.create_unnamed(&administrator(), dir, &new).await?;
            let filled = self.fill(was, &handle, made.id).await;
            let named = match filled {
                Ok(()) => self.name(made.id, dir, name).await,
                failed => failed,
            };
            self.is.close(handle).await?;
            named?;
            return Ok(made.id);
        }
        let target = if was.kind == FileKind::Symlink { self.was.read_link(was.id).await? } else { Vec::new() };
        let new = NewFile { kind: was.kind, mode: was.mode, target: &target };
        if self.is.lookup(&administrator(), dir, name).await?.is_some() {
            self.remove(dir, name, false).await?;
        }
        let made = self.is.create(&administrator(), dir, name, &new).await?.id;
        self.notices.push(Notice::Name(dir, name.to_vec()));
        self.set_attributes(made, was).await?;
        Ok(made)
    }

    async fn fill(&mut self, was: &Attributes, handle: &Handle, id: FileId) -> Step<()> {
        self.pace(NAME_BYTES).await?;
        // Before it has data, which gets the checksums that it is to have on its way.
        self.set_integrity(id, was).await?;
        let from = (self.snapshot, was.id, 0);
        let cloned = self.is.clone_from_snapshot(&administrator(), from, (handle, 0), was.size_bytes).await;
        // What could not be had as it lies is copied.
        if was.size_bytes == 0 || cloned.is_err() {
            self.copy(was, handle).await?;
        }
        self.set_attributes(id, was).await.map(drop)
    }

    /// Has a file be as it was that is there.
    async fn same(&mut self, is: &Attributes, was: &Attributes) -> Step<()> {
        if is.change == was.change {
            return Ok(());
        }
        let _kept = self.is.keep_off_objects(is.id)?;
        let mut differs = false;
        if was.kind == FileKind::Regular {
            // What programs wrote to mapped memory comes before, and not over what is restored.
            (self.tell)(vec![Notice::File(is.id)]).await;
            let mode = OpenMode { read: true, write: true, truncate: false };
            let handle = self.is.open(&administrator(), is.id, mode).await?;
            let copied = self.copy(was, &handle).await;
            self.is.close(handle).await?;
            differs = copied?;
        }
        differs |= self.set_attributes(is.id, was).await?;
        if differs {
            self.done.restored += 1;
            self.notices.push(Notice::File(is.id));
        }
        Ok(())
    }

    /// Has what holds what it held be as it was beside that.
    async fn restored(&mut self, is: FileId, was: &Attributes) -> Step<()> {
        let _kept = self.is.keep_off_objects(is)?;
        if self.set_attributes(is, was).await? {
            self.done.restored += 1;
            self.notices.push(Notice::File(is));
        }
        Ok(())
    }

    /// Has a file hold what it held; answers whether anything differed.
    async fn copy(&mut self, was: &Attributes, to: &Handle) -> Step<bool> {
        let mode = OpenMode { read: true, write: false, truncate: false };
        let from = self.was.open(&administrator(), was.id, mode).await?;
        let copied = self.copy_from(&from, was.size_bytes, to).await;
        self.was.close(from).await?;
        copied
    }

    async fn copy_from(&mut self, from: &Handle, size: u64, to: &Handle) -> Step<bool> {
        let id = to.id();
        let had = self.is.stat(id).await?.size_bytes;
        let mut differs = had != size;
        let set = SetAttributes { size_bytes: Some(size), ..SetAttributes::default() };
        if had > size {
            self.is.set(&administrator(), id, &set).await?;
        }
        let mut at = 0;
        while at < size {
            let data = next(self.was, from, at, Seek::Data).await?.unwrap_or(size).min(size);
            if data > at {
                let taken = next(self.is, to, at, Seek::Data).await?.filter(|taken| *taken < data);
                if taken.is_some() {
                    self.is.allocate(to, at, data - at, Allocate::Punch).await?;
                    differs = true;
                }
                at = data;
                continue;
            }
            let hole = next(self.was, from, at, Seek::Hole).await?.unwrap_or(size).min(size);
            let len = (hole - at).min(PIECE_BYTES as u64) as usize;
            self.pace(len as u64).await?;
            let wanted = self.was.read(from, at, len).await?.to_vec();
            if found(self.is, to, at, len).await?.as_ref() != Some(&wanted) {
                let mut buf = IoBuf::zeroed(len);
                buf[..wanted.len()].copy_from_slice(&wanted);
                let written = self.is.write(to, at, buf.freeze(), wanted.len()).await?;
                if written < wanted.len() {
                    return Err(VolumeError::new(ErrorKind::NoSpace, "the volume is full").into());
                }
                self.done.bytes += wanted.len() as u64;
                differs = true;
            }
            at += len as u64;
        }
        if self.is.stat(id).await?.size_bytes != size {
            self.is.set(&administrator(), id, &set).await?;
        }
        Ok(differs)
    }
}
