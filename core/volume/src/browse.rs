//! A volume with its snapshots in it, as front ends show them.
//!
//! ```text
//!   /                        the files as they are
//!   /.snapshots              found by its name, and in no listing
//!   /.snapshots/NAME/…       the files as they were
//! ```
//!
//! ```text
//!   file number:   0 │ number (62)                           as it is
//!                  1 │ snapshot (16) │ number (46)           as it was; both 0: the directory of snapshots
//! ```
//!
//! The generation of a file as it was is mixed with the checkpoint of its snapshot, so that what is known of a snapshot
//! that was destroyed is not taken for one that got its number.
//!
//! Invariant: nothing below `.snapshots` changes. A file of that name in the root, if there is one, is what is found.

use std::sync::{Arc, Weak};

use holdfast_device::IoSlice;
use holdfast_identity::{
    Access, AccessMask, Explanation, Id, IdMap, Node, SecurityDescriptor, check, computed, explain,
};

use crate::error::{ErrorKind, VolumeError};
use crate::integrity::Integrity;
use crate::open_files::Handle;
use crate::service::{
    Allocate, Attributes, Caller, Data, Entry, FileId, FileKind, FileService, Flush, NewFile, OpenMode, Remembers,
    Remove, Rename, ReparsePoint, SecurityParts, Seek, SetAttributes, SetMode, Stream, Usage,
};
use crate::snapshots::Snapshot;
use crate::volume::Volume;

/// The name that leads to snapshots.
pub const SNAPSHOTS: &[u8] = b".snapshots";
/// What the numbers of files as they were begin with.
const PAST: u64 = 1 << 62;
/// Bits of the number of a file in them.
const NUMBER_BITS: u32 = 46;
/// Permission bits of the directory of snapshots.
const TOP_MODE: u32 = 0o555;
/// Permission bits of to write.
const WRITE: u32 = 2;

/// A volume with its snapshots.
pub struct Browsed {
    volume: Arc<Volume>,
}

/// An open file.
#[derive(Clone)]
pub enum BrowsedHandle {
    /// As it is.
    Now(Handle),
    /// As it was.
    Past(Arc<Volume>, Handle),
}

/// Where a file is.
enum Place {
    Now,
    /// The directory of snapshots.
    Top,
    Past(Past),
}

/// A snapshot that is read.
struct Past {
    view: Arc<Volume>,
    number: u16,
    generation: u64,
}

impl Past {
    /// What the generations of files are mixed with.
    fn salt(&self) -> u32 {
        // Neighbours differ in many bits.
        (self.generation as u32).wrapping_mul(0x9e37_79b1)
    }

    /// A file by the id that the snapshot knows.
    fn inner(&self, id: FileId) -> FileId {
        FileId { number: id.number & ((1 << NUMBER_BITS) - 1), generation: id.generation ^ self.salt() }
    }

    /// The id that it is shown by.
    fn outer(&self, id: FileId) -> Result<FileId, VolumeError> {
        if id.number >> NUMBER_BITS != 0 {
            let text = format!("file {} of a snapshot has a number that is too large to be shown", id.number);
            return Err(VolumeError::new(ErrorKind::NotSupported, text));
        }
        let number = PAST | u64::from(self.number) << NUMBER_BITS | id.number;
        Ok(FileId { number, generation: id.generation ^ self.salt() })
    }

    fn shown(&self, facts: Attributes) -> Result<Attributes, VolumeError> {
        Ok(Attributes { id: self.outer(facts.id)?, ..facts })
    }
}

fn read_only<T>() -> Result<T, VolumeError> {
    Err(VolumeError::new(ErrorKind::ReadOnly, "what a snapshot has does not change: copy it out of there"))
}

impl Browsed {
    /// Shows the snapshots of a volume.
    pub fn new(volume: Arc<Volume>) -> Self {
        Self { volume }
    }

    /// The volume.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    fn top() -> FileId {
        FileId { number: PAST, generation: 1 }
    }

    fn past(&self, snapshot: &Snapshot) -> Result<Past, VolumeError> {
        let view = self.volume.view(snapshot)?;
        Ok(Past { view, number: snapshot.number, generation: snapshot.generation })
    }

    fn place(&self, id: FileId) -> Result<Place, VolumeError> {
        if id.number & PAST == 0 {
            return Ok(Place::Now);
        }
        let number = (id.number >> NUMBER_BITS) as u16;
        if number == 0 {
            return Ok(Place::Top);
        }
        let snapshot = self.volume.store.snapshots.of_number(number);
        let gone = || VolumeError::new(ErrorKind::Stale, "the snapshot was destroyed");
        Ok(Place::Past(self.past(&snapshot.ok_or_else(gone)?)?))
    }

    /// Refuses to change anything but files as they are.
    pub(crate) fn check_now(&self, ids: &[FileId]) -> Result<(), VolumeError> {
        if ids.iter().any(|id| id.number & PAST != 0) { read_only() } else { Ok(()) }
    }

    /// Refuses to give away, or to take, the name that leads to snapshots.
    async fn check_name(&self, caller: &Caller, dir: FileId, name: &[u8]) -> Result<(), VolumeError> {
        if self.leads_to_snapshots(caller, dir, name).await? {
            let text = "this name leads to the snapshots of the volume: choose another one";
            return Err(VolumeError::new(ErrorKind::Exists, text));
        }
        Ok(())
    }

    async fn leads_to_snapshots(&self, caller: &Caller, dir: FileId, name: &[u8]) -> Result<bool, VolumeError> {
        let is_it = name == SNAPSHOTS && dir == self.volume.root();
        Ok(is_it && self.volume.lookup(caller, dir, name).await?.is_none())
    }

    async fn top_facts(&self) -> Result<Attributes, VolumeError> {
        let root = self.volume.stat(self.volume.root()).await?;
        let snapshots = self.volume.snapshots();
        let newest = snapshots.iter().map(|one| one.created).max().unwrap_or(root.created);
        Ok(Attributes {
            id: Self::top(),
            kind: FileKind::Directory,
            mode: TOP_MODE,
            links: 2 + snapshots.len() as u32,
            size_bytes: snapshots.len() as u64,
            allocated_bytes: 0,
            accessed: newest,
            modified: newest,
            changed: newest,
            created: root.created,
            change: self.volume.store.snapshots.changes(),
            ..root
        })
    }

    fn ids(&self) -> Arc<IdMap> {
        self.volume.store.descriptors.ids()
    }

    /// The directory of snapshots is user 0's, and everybody may look at it.
    fn top_security(&self) -> SecurityDescriptor {
        let ids = self.ids();
        computed(ids.sid_of(Id::User(0)), ids.sid_of(Id::Group(0)), TOP_MODE, Node::Directory)
    }

    fn list_top(&self, cursor: u64, most: usize) -> Vec<Snapshot> {
        self.volume.snapshots().into_iter().filter(|one| one.generation > cursor).take(most).collect()
    }

    async fn root_of(&self, snapshot: &Snapshot) -> Result<Attributes, VolumeError> {
        let past = self.past(snapshot)?;
        past.shown(past.view.stat(past.view.root()).await?)
    }
}

impl FileService for Browsed {
    type Handle = BrowsedHandle;

    fn root(&self) -> FileId {
        self.volume.root()
    }

    async fn lookup(&self, caller: &Caller, dir: FileId, name: &[u8]) -> Result<Option<Attributes>, VolumeError> {
        match self.place(dir)? {
            Place::Now => match self.volume.lookup(caller, dir, name).await? {
                None if name == SNAPSHOTS && dir == self.volume.root() => Ok(Some(self.top_facts().await?)),
                found => Ok(found),
            },
            Place::Top => {
                let found = self.volume.snapshots().into_iter().find(|one| one.name.as_bytes() == name);
                match found {
                    Some(snapshot) => Ok(Some(self.root_of(&snapshot).await?)),
                    None => Ok(None),
                }
            }
            Place::Past(past) => {
                let found = past.view.lookup(caller, past.inner(dir), name).await?;
                found.map(|facts| past.shown(facts)).transpose()
            }
        }
    }

    async fn parent(&self, dir: FileId) -> Result<Attributes, VolumeError> {
        match self.place(dir)? {
            Place::Now => self.volume.parent(dir).await,
            Place::Top => self.volume.stat(self.volume.root()).await,
            Place::Past(past) if past.inner(dir) == past.view.root() => self.top_facts().await,
            Place::Past(past) => past.shown(past.view.parent(past.inner(dir)).await?),
        }
    }

    async fn find(&self, number: u64) -> Result<Attributes, VolumeError> {
        match self.place(FileId { number, generation: 0 })? {
            Place::Now => FileService::find(&*self.volume, number).await,
            Place::Top => self.top_facts().await,
            Place::Past(past) => {
                let id = past.inner(FileId { number, generation: 0 });
                past.shown(FileService::find(&*past.view, id.number).await?)
            }
        }
    }

    async fn stat(&self, id: FileId) -> Result<Attributes, VolumeError> {
        match self.place(id)? {
            Place::Now => self.volume.stat(id).await,
            Place::Top => self.top_facts().await,
            Place::Past(past) => past.shown(past.view.stat(past.inner(id)).await?),
        }
    }

    async fn set(&self, caller: &Caller, id: FileId, set: &SetAttributes) -> Result<Attributes, VolumeError> {
        self.check_now(&[id])?;
        self.volume.set(caller, id, set).await
    }

    async fn access(&self, caller: &Caller, id: FileId, mask: u32) -> Result<(), VolumeError> {
        match self.place(id)? {
            Place::Now => self.volume.access(caller, id, mask).await,
            _ if mask & WRITE != 0 => read_only(),
            Place::Top => Ok(()),
            Place::Past(past) => past.view.access(caller, past.inner(id), mask).await,
        }
    }

    async fn create(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        new: &NewFile<'_>,
    ) -> Result<Attributes, VolumeError> {
        self.check_now(&[dir])?;
        self.check_name(caller, dir, name).await?;
        self.volume.create(caller, dir, name, new).await
    }

    async fn create_unnamed(
        &self,
        caller: &Caller,
        dir: FileId,
        new: &NewFile<'_>,
    ) -> Result<(Attributes, BrowsedHandle), VolumeError> {
        self.check_now(&[dir])?;
        let (facts, handle) = self.volume.create_unnamed(caller, dir, new).await?;
        Ok((facts, BrowsedHandle::Now(handle)))
    }

    async fn read_link(&self, id: FileId) -> Result<Vec<u8>, VolumeError> {
        match self.place(id)? {
            Place::Now => self.volume.read_link(id).await,
            Place::Top => Err(VolumeError::new(ErrorKind::Invalid, "it is no symbolic link")),
            Place::Past(past) => past.view.read_link(past.inner(id)).await,
        }
    }

    async fn link(&self, caller: &Caller, id: FileId, dir: FileId, name: &[u8]) -> Result<Attributes, VolumeError> {
        self.check_now(&[id, dir])?;
        self.check_name(caller, dir, name).await?;
        self.volume.link(caller, id, dir, name).await
    }

    async fn remove(&self, caller: &Caller, dir: FileId, name: &[u8], what: Remove) -> Result<(), VolumeError> {
        self.check_now(&[dir])?;
        if self.leads_to_snapshots(caller, dir, name).await? {
            return read_only();
        }
        self.volume.remove(caller, dir, name, what).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (FileId, &[u8]),
        to: (FileId, &[u8]),
        mode: Rename,
    ) -> Result<(), VolumeError> {
        self.check_now(&[from.0, to.0])?;
        if self.leads_to_snapshots(caller, from.0, from.1).await? {
            return read_only();
        }
        self.check_name(caller, to.0, to.1).await?;
        self.volume.rename(caller, from, to, mode).await
    }

    async fn list(
        &self,
        caller: &Caller,
        dir: FileId,
        cursor: u64,
        most: usize,
        attributes: bool,
    ) -> Result<Vec<Entry>, VolumeError> {
        match self.place(dir)? {
            Place::Now => self.volume.list(caller, dir, cursor, most, attributes).await,
            Place::Top => {
                let mut entries = Vec::new();
                for snapshot in self.list_top(cursor, most) {
                    // One that was destroyed just now, or whose root is damaged, hides no other.
                    let Ok(facts) = self.root_of(&snapshot).await else { continue };
                    entries.push(Entry {
                        name: snapshot.name.into_bytes(),
                        id: facts.id,
                        kind: facts.kind,
                        cursor: snapshot.generation,
                        attributes: attributes.then_some(facts),
                    });
                }
                Ok(entries)
            }
            Place::Past(past) => {
                let found = past.view.list(caller, past.inner(dir), cursor, most, attributes).await?;
                let shown = |entry: Entry| {
                    let attributes = entry.attributes.map(|facts| past.shown(facts)).transpose()?;
                    Ok(Entry { id: past.outer(entry.id)?, attributes, ..entry })
                };
                found.into_iter().map(shown).collect()
            }
        }
    }

    async fn open(&self, caller: &Caller, id: FileId, mode: OpenMode) -> Result<BrowsedHandle, VolumeError> {
        match self.place(id)? {
            Place::Now => Ok(BrowsedHandle::Now(self.volume.open(caller, id, mode).await?)),
            _ if mode.write || mode.truncate => read_only(),
            Place::Top => Err(VolumeError::new(ErrorKind::IsDirectory, "it is a directory")),
            Place::Past(past) => {
                let handle = past.view.open(caller, past.inner(id), mode).await?;
                Ok(BrowsedHandle::Past(past.view, handle))
            }
        }
    }

    async fn hold_directory(&self, id: FileId) -> Result<Option<BrowsedHandle>, VolumeError> {
        match self.place(id)? {
            Place::Now | Place::Top => Ok(None),
            Place::Past(past) => {
                let handle = past.view.hold(past.inner(id))?;
                Ok(Some(BrowsedHandle::Past(past.view, handle)))
            }
        }
    }

    fn remember(&self, who: Weak<dyn Remembers>) {
        self.volume.remember(who);
    }

    fn removals(&self) -> u64 {
        self.volume.removals()
    }

    fn is_left(&self, id: FileId) -> bool {
        id.number & PAST == 0 && self.volume.is_left(id)
    }

    async fn forgotten(&self, id: FileId) -> Result<(), VolumeError> {
        if id.number & PAST == 0 { self.volume.forgotten(id).await } else { Ok(()) }
    }

    fn unbuffered(&self, handle: BrowsedHandle) -> BrowsedHandle {
        match handle {
            BrowsedHandle::Now(handle) => BrowsedHandle::Now(self.volume.unbuffered(handle)),
            BrowsedHandle::Past(view, handle) => {
                let handle = view.unbuffered(handle);
                BrowsedHandle::Past(view, handle)
            }
        }
    }

    async fn close(&self, handle: BrowsedHandle) -> Result<(), VolumeError> {
        match handle {
            BrowsedHandle::Now(handle) => self.volume.close(handle).await,
            BrowsedHandle::Past(view, handle) => view.close(handle).await,
        }
    }

    async fn read(&self, handle: &BrowsedHandle, offset: u64, len: usize) -> Result<Data, VolumeError> {
        match handle {
            BrowsedHandle::Now(handle) => self.volume.read(handle, offset, len).await,
            BrowsedHandle::Past(view, handle) => view.read(handle, offset, len).await,
        }
    }

    async fn write(
        &self,
        handle: &BrowsedHandle,
        offset: u64,
        data: IoSlice,
        len: usize,
    ) -> Result<usize, VolumeError> {
        match handle {
            BrowsedHandle::Now(handle) => self.volume.write(handle, offset, data, len).await,
            BrowsedHandle::Past(..) => read_only(),
        }
    }

    async fn allocate(&self, handle: &BrowsedHandle, offset: u64, len: u64, how: Allocate) -> Result<(), VolumeError> {
        match handle {
            BrowsedHandle::Now(handle) => self.volume.allocate(handle, offset, len, how).await,
            BrowsedHandle::Past(..) => read_only(),
        }
    }

    async fn seek(&self, handle: &BrowsedHandle, offset: u64, what: Seek) -> Result<u64, VolumeError> {
        match handle {
            BrowsedHandle::Now(handle) => self.volume.seek(handle, offset, what).await,
            BrowsedHandle::Past(view, handle) => view.seek(handle, offset, what).await,
        }
    }

    async fn clone_range(
        &self,
        from: (&BrowsedHandle, u64),
        to: (&BrowsedHandle, u64),
        len: u64,
    ) -> Result<(), VolumeError> {
        match (from.0, to.0) {
            (_, BrowsedHandle::Past(..)) => read_only(),
            (BrowsedHandle::Now(one), BrowsedHandle::Now(other)) => {
                self.volume.clone_range((one, from.1), (other, to.1), len).await
            }
            (BrowsedHandle::Past(view, old), BrowsedHandle::Now(new)) => {
                self.volume.clone_past(view, (old, from.1), (new, to.1), len).await
            }
        }
    }

    async fn copy(&self, from: (&BrowsedHandle, u64), to: (&BrowsedHandle, u64), len: u64) -> Result<u64, VolumeError> {
        match (from.0, to.0) {
            (_, BrowsedHandle::Past(..)) => read_only(),
            (BrowsedHandle::Now(one), BrowsedHandle::Now(other)) => {
                self.volume.copy((one, from.1), (other, to.1), len).await
            }
            (BrowsedHandle::Past(view, old), BrowsedHandle::Now(new)) => {
                Volume::check_mode(old, false)?;
                Volume::check_mode(new, true)?;
                self.volume.copy_or_clone(view, (old, from.1), (new, to.1), len).await
            }
        }
    }

    async fn flush(&self, id: FileId, how: Flush) -> Result<(), VolumeError> {
        match self.place(id)? {
            Place::Now => self.volume.flush(id, how).await,
            Place::Top | Place::Past(_) => Ok(()),
        }
    }

    async fn extended(&self, caller: &Caller, id: FileId, name: &[u8]) -> Result<Option<Vec<u8>>, VolumeError> {
        match self.place(id)? {
            Place::Now => self.volume.extended(caller, id, name).await,
            Place::Top => Ok(None),
            Place::Past(past) => past.view.extended(caller, past.inner(id), name).await,
        }
    }

    async fn set_extended(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<(), VolumeError> {
        self.check_now(&[id])?;
        self.volume.set_extended(caller, id, name, value, mode).await
    }

    async fn remove_extended(&self, caller: &Caller, id: FileId, name: &[u8]) -> Result<(), VolumeError> {
        self.check_now(&[id])?;
        self.volume.remove_extended(caller, id, name).await
    }

    async fn list_extended(&self, caller: &Caller, id: FileId) -> Result<Vec<Vec<u8>>, VolumeError> {
        match self.place(id)? {
            Place::Now => self.volume.list_extended(caller, id).await,
            Place::Top => Ok(Vec::new()),
            Place::Past(past) => past.view.list_extended(caller, past.inner(id)).await,
        }
    }

    async fn create_secured(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        new: &NewFile<'_>,
        given: &SecurityDescriptor,
    ) -> Result<Attributes, VolumeError> {
        self.check_now(&[dir])?;
        self.check_name(caller, dir, name).await?;
        self.volume.create_secured(caller, dir, name, new, given).await
    }

    async fn security(&self, caller: &Caller, id: FileId) -> Result<SecurityDescriptor, VolumeError> {
        match self.place(id)? {
            Place::Now => self.volume.security(caller, id).await,
            Place::Top => Ok(self.top_security()),
            Place::Past(past) => past.view.security(caller, past.inner(id)).await,
        }
    }

    async fn set_security(
        &self,
        caller: &Caller,
        id: FileId,
        parts: SecurityParts,
        given: &SecurityDescriptor,
    ) -> Result<Attributes, VolumeError> {
        self.check_now(&[id])?;
        self.volume.set_security(caller, id, parts, given).await
    }

    async fn granted(&self, caller: &Caller, id: FileId, desired: AccessMask) -> Result<AccessMask, VolumeError> {
        match self.place(id)? {
            Place::Now => self.volume.granted(caller, id, desired).await,
            Place::Top => {
                let top = self.top_security();
                let token = caller.as_token(&self.ids(), &[&top])?;
                let granted = check(&top, &token, Access::to(desired));
                granted.map_err(|refused| VolumeError::new(ErrorKind::AccessDenied, refused.to_string()))
            }
            Place::Past(past) => past.view.granted(caller, past.inner(id), desired).await,
        }
    }

    async fn explain(&self, caller: &Caller, id: FileId, desired: AccessMask) -> Result<Explanation, VolumeError> {
        match self.place(id)? {
            Place::Now => self.volume.explain(caller, id, desired).await,
            Place::Top => {
                let top = self.top_security();
                let token = caller.as_token(&self.ids(), &[&top])?;
                Ok(explain(&top, &token, Access::to(desired)))
            }
            Place::Past(past) => past.view.explain(caller, past.inner(id), desired).await,
        }
    }

    async fn streams(&self, caller: &Caller, id: FileId) -> Result<Vec<Stream>, VolumeError> {
        match self.place(id)? {
            Place::Now => self.volume.streams(caller, id).await,
            Place::Top => Ok(Vec::new()),
            Place::Past(past) => past.view.streams(caller, past.inner(id)).await,
        }
    }

    async fn create_stream(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        mode: SetMode,
    ) -> Result<Stream, VolumeError> {
        self.check_now(&[id])?;
        self.volume.create_stream(caller, id, name, mode).await
    }

    async fn read_stream(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, VolumeError> {
        match self.place(id)? {
            Place::Now => self.volume.read_stream(caller, id, name, offset, len).await,
            Place::Top => Err(VolumeError::new(ErrorKind::NotFound, "the file has no such stream")),
            Place::Past(past) => past.view.read_stream(caller, past.inner(id), name, offset, len).await,
        }
    }

    async fn write_stream(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), VolumeError> {
        self.check_now(&[id])?;
        self.volume.write_stream(caller, id, name, offset, bytes).await
    }

    async fn set_stream_length(&self, caller: &Caller, id: FileId, name: &[u8], len: u64) -> Result<(), VolumeError> {
        self.check_now(&[id])?;
        self.volume.set_stream_length(caller, id, name, len).await
    }

    async fn remove_stream(&self, caller: &Caller, id: FileId, name: &[u8]) -> Result<(), VolumeError> {
        self.check_now(&[id])?;
        self.volume.remove_stream(caller, id, name).await
    }

    async fn rename_stream(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        to: &[u8],
        replaces: bool,
    ) -> Result<(), VolumeError> {
        self.check_now(&[id])?;
        self.volume.rename_stream(caller, id, name, to, replaces).await
    }

    async fn reparse(&self, caller: &Caller, id: FileId) -> Result<ReparsePoint, VolumeError> {
        match self.place(id)? {
            Place::Now => self.volume.reparse(caller, id).await,
            Place::Top => Err(VolumeError::new(ErrorKind::NoReparse, "the file has no reparse point")),
            Place::Past(past) => past.view.reparse(caller, past.inner(id)).await,
        }
    }

    async fn set_reparse(&self, caller: &Caller, id: FileId, point: &ReparsePoint) -> Result<(), VolumeError> {
        self.check_now(&[id])?;
        self.volume.set_reparse(caller, id, point).await
    }

    async fn remove_reparse(
        &self,
        caller: &Caller,
        id: FileId,
        tag: u32,
        guid: Option<[u8; 16]>,
    ) -> Result<(), VolumeError> {
        self.check_now(&[id])?;
        self.volume.remove_reparse(caller, id, tag, guid).await
    }

    async fn set_integrity(&self, caller: &Caller, id: FileId, to: Integrity) -> Result<Attributes, VolumeError> {
        self.check_now(&[id])?;
        self.volume.set_integrity(caller, id, to).await
    }

    async fn usage(&self, at: FileId) -> Result<Usage, VolumeError> {
        let at = if at.number & PAST == 0 { at } else { self.volume.root() };
        self.volume.usage(at).await
    }

    async fn sync(&self) -> Result<(), VolumeError> {
        self.volume.sync().await
    }
}
