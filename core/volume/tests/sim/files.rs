//! Files against a model of them: every operation, power cuts between any two writes, and a scan at each end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::future::join;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_device::{Device, IoBuf};
use holdfast_model::Uuid;
use holdfast_volume::service::{
    Allocate, Caller, DosAttributes, FileId, FileKind, FileService, Flush, NameRules, NewFile, OpenMode, Remove,
    Rename, SecurityParts, Seek, SetAttributes, SetMode, Time,
};
use holdfast_volume::{
    ErrorKind, Format, Handle, Limits, Settings, Subject, Volume, VolumeError, VolumeFormat, WallClock,
};

use crate::cached;
use crate::clones::check_empty;
use crate::damage::lose_newest_root;
use crate::descriptors;
use crate::journal::{self, Follower};
use crate::model::{BLOCK, Files, Model, Node, difference, is_full, read_all, read_node};
use crate::quotas;
use crate::resize::resize;
use crate::snapshots;
use crate::strict;
use crate::twins::{self, Single};

/// What the operations of a history are. Each has those of the one before, so that its own seeds stay what they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Plain,
    Clones,
    Strict,
    Disks,
}

impl Sort {
    /// Numbers that operations are drawn by.
    fn operations(self) -> u32 {
        match self {
            Self::Plain => 104,
            Self::Clones => 125,
            Self::Strict => 145,
            Self::Disks => 185,
        }
    }
}

struct World {
    sim: Sim,
    disk: Arc<SimDisk>,
    random: SimRandom,
    settings: Settings,
    /// Bytes of memory for data.
    data_bytes: usize,
    /// Whether metadata is kept twice, and one block of it is bad at each opening.
    has_twins: bool,
}

fn clock() -> WallClock {
    let seconds = AtomicI64::new(1_700_000_000);
    Arc::new(move || Time { seconds: seconds.fetch_add(1, Ordering::Relaxed), nanos: 5 })
}

impl World {
    fn new(seed: u64, delayed_bytes: usize) -> Self {
        let sim = Sim::new(seed);
        let random = sim.random();
        let size_bytes = [18 << 20, 64 << 20][random.range(0..2usize)];
        let tear_bytes = [512, 4096][random.range(0..2usize)];
        let garbage = random.chance(1, 2);
        let spec = SimDiskSpec { size_bytes, garbage, tear_bytes, ..SimDiskSpec::default() };
        let disk = SimDisk::new(&sim, spec);
        let settings = Settings {
            cache_bytes: [0, 256 << 10, 64 << 20][random.range(0..3usize)],
            changed_bytes: [1 << 20, 64 << 20][random.range(0..2usize)],
            delayed_bytes,
        };
        let data_bytes = cached::some_bytes(&random);
        Self { sim, disk, random, settings, data_bytes, has_twins: false }
    }

    fn format(&self) {
        let device: Arc<dyn Device> = self.disk.clone();
        let store = Format { volume: Uuid::from_u128(self.random.next_u64().into()), log_bytes: None };
        let format = VolumeFormat { store, secret: [9; 16], owner: (0, 0), mode: 0o755, is_case_sensitive: false };
        let has_twins = self.has_twins;
        let formatted = self.sim.run(async move {
            match has_twins {
                true => Volume::format_with_copies(Arc::new(Single(device)), format, Time::default()).await,
                false => Volume::format(&device, format, Time::default()).await,
            }
        });
        formatted.expect("powered").expect("formatted");
    }
}

/// A life of a volume between two openings.
pub struct Life<'a> {
    pub volume: &'a Arc<Volume>,
    pub random: &'a SimRandom,
    pub model: &'a RefCell<Model>,
    pub caller: Caller,
    handles: Vec<Handle>,
    /// What its operations are.
    sort: Sort,
    /// Who follows the journal, if anybody does.
    follower: Option<&'a RefCell<Follower>>,
}

const WRITING: OpenMode = OpenMode { read: true, write: true, truncate: false };

impl Life<'_> {
    pub fn files(&self) -> Files {
        self.model.borrow().now().clone()
    }

    fn directory(&self, files: &Files) -> FileId {
        *self.random.pick(&files.directories()).expect("the root")
    }

    fn name(&self) -> Vec<u8> {
        let number = self.random.range(0..12u32);
        let most = if self.sort != Sort::Plain { 765 } else { 255 };
        if self.random.chance(1, 20) { vec![b'n'; most] } else { format!("name {number}").into_bytes() }
    }

    /// Somebody who creates files.
    fn someone(&self) -> Caller {
        let number = self.random.range(0..3u32);
        Caller { uid: number, gid: number, is_checked: true, ..self.caller.clone() }
    }

    /// A directory that a file has a name in.
    fn parent(&self, files: &Files, number: u64) -> u64 {
        let found = files.entries.iter().find(|(_, child)| **child == number);
        found.map_or(self.volume.root().number, |((parent, _), _)| *parent)
    }

    /// Whether two directories count for different quotas.
    fn is_apart(&self, files: &Files, one: u64, other: u64) -> bool {
        let roots = quotas::roots(self.volume);
        let root = self.volume.root().number;
        let tree = |directory| quotas::tree_of(files, &roots, directory, root);
        tree(one) != tree(other)
    }

    /// Somebody whom files may count for.
    fn owner(&self) -> Subject {
        match self.random.range(1..3u32) {
            2 if self.sort != Sort::Plain => Subject::Sid(descriptors::stranger(self.volume.last())),
            uid => Subject::User(uid),
        }
    }

    /// Limits, set and taken away.
    async fn limit(&self) {
        let pages = [20, 200, 100_000][self.random.range(0..3usize)] * BLOCK as u64;
        let limits = Limits {
            hard_bytes: self.random.chance(3, 4).then_some(pages),
            soft_files: Some(10),
            hard_files: self.random.chance(1, 4).then_some(30),
            ..Limits::default()
        };
        let files = self.files();
        let done = match self.random.range(0..6u32) {
            0 => self.volume.set_quota(self.owner(), limits).await.map(drop),
            1 => self.volume.set_quota(Subject::Group(self.random.range(0..3u32)), limits).await.map(drop),
            2 => self.volume.remove_quota(self.owner()).await.map(drop),
            3 => self.volume.remove_tree_quota(self.directory(&files)).await.map(drop),
            _ => {
                let dir = self.directory(&files);
                // A file that has names on both sides may count for either.
                if quotas::is_split(&files, dir.number) {
                    return;
                }
                self.volume.set_tree_quota(dir, limits).await.map(drop)
            }
        };
        // Files do not change by it.
        if let Err(error) = done {
            assert!(is_full(error.kind), "{error}");
        }
        self.volume.settle_quotas().await.expect("it needs no room");
    }

    pub fn file(&self, files: &Files) -> Option<FileId> {
        let all: Vec<FileId> =
            files.nodes.values().filter(|node| node.kind == FileKind::Regular).map(|node| node.id).collect();
        self.random.pick(&all).copied()
    }

    /// Makes an operation that changes the files, and keeps the model in step. A full volume may refuse it.
    pub async fn change<T>(
        &self,
        next: Files,
        operation: impl Future<Output = Result<T, holdfast_volume::VolumeError>>,
    ) -> Option<T> {
        let done = self.try_change(next, operation).await;
        if done.is_none() {
            self.model.borrow_mut().undo();
        }
        done
    }

    /// The same, of an operation that may have come a part of its way where it is refused.
    pub async fn change_in_part(
        &self,
        id: FileId,
        next: Files,
        operation: impl Future<Output = Result<(), holdfast_volume::VolumeError>>,
    ) {
        if self.try_change(next, operation).await.is_none() {
            let node = read_node(self.volume, id).await;
            self.model.borrow_mut().undo();
            let mut next = self.files();
            next.nodes.insert(id.number, node);
            self.model.borrow_mut().begin(next);
            self.model.borrow_mut().end(self.volume.last());
        }
    }

    async fn try_change<T>(
        &self,
        next: Files,
        operation: impl Future<Output = Result<T, holdfast_volume::VolumeError>>,
    ) -> Option<T> {
        self.model.borrow_mut().begin(next);
        let done = operation.await.inspect_err(|error| assert!(is_full(error.kind), "{error}")).ok()?;
        self.model.borrow_mut().end(self.volume.last());
        Some(done)
    }

    async fn create(&self) {
        let files = self.files();
        let (dir, name) = (self.directory(&files), self.name());
        let kind = [FileKind::Regular, FileKind::Regular, FileKind::Directory, FileKind::Symlink, FileKind::Fifo]
            [self.random.range(0..5usize)];
        let target = vec![b't'; self.random.range(1..4096usize)];
        let target = if kind == FileKind::Symlink { target } else { Vec::new() };
        let new = NewFile { kind, mode: 0o640, target: &target };
        let caller = self.someone();
        let above = &files.nodes[&dir.number];
        let operation = self.volume.create(&caller, dir, &name, &new);
        if files.entries.contains_key(&(dir.number, name.clone())) {
            assert_eq!(operation.await.expect_err("the name is taken").kind, ErrorKind::Exists);
            return;
        }
        if !descriptors::may_create(above, &caller, kind) {
            assert_eq!(operation.await.expect_err("it is not allowed").kind, ErrorKind::AccessDenied);
            return;
        }
        // The id is known only afterwards: a crash in between finds the state before, or one more file.
        let before = self.volume.last();
        match operation.await {
            Ok(facts) => {
                // A directory in a set-group-id one is one, too.
                let inherited = if kind == FileKind::Directory { above.mode & 0o2000 } else { 0 };
                let gid = if above.mode & 0o2000 != 0 { above.owner.1 } else { caller.gid };
                let mut node = Node {
                    id: facts.id,
                    kind,
                    mode: 0o640 | inherited,
                    owner: (caller.uid, gid),
                    security: None,
                    dos: DosAttributes::empty(),
                    integrity: strict::inherited(above, kind),
                    streams: Default::default(),
                    reparse: None,
                    target: target.clone(),
                    extended: Default::default(),
                    data: Rc::default(),
                };
                descriptors::inherit(above, &caller, &mut node);
                let mut next = files.clone();
                next.nodes.insert(facts.id.number, node);
                next.entries.insert((dir.number, name), facts.id.number);
                self.model.borrow_mut().begin(next);
                self.model.borrow_mut().end(self.volume.last());
                assert!(self.volume.last() > before);
            }
            Err(error) => assert!(is_full(error.kind), "{error}"),
        }
    }

    async fn remove(&self) {
        let files = self.files();
        let Some(((parent, name), child)) = self.random.pick(&files.entries.iter().collect::<Vec<_>>()).copied() else {
            return;
        };
        let dir = files.nodes[parent].id;
        let node = &files.nodes[child];
        let is_directory = node.kind == FileKind::Directory;
        let what = if is_directory { Remove::Directory } else { Remove::File };
        let operation = self.volume.remove(&self.caller, dir, name, what);
        if is_directory && !files.names_in(*child).is_empty() {
            assert_eq!(operation.await.expect_err("it is not empty").kind, ErrorKind::NotEmpty);
            return;
        }
        let mut next = files.clone();
        next.entries.remove(&(*parent, name.clone()));
        next.forget(*child, self.volume.root().number);
        let is_removed = self.change(next, operation).await.is_some();
        // Where snapshots have all nodes that a removal changes, it needs others.
        assert!(is_removed || !self.volume.snapshots().is_empty(), "removal needs no room");
    }

    async fn link(&self) {
        let files = self.files();
        let (Some(id), dir, name) = (self.file(&files), self.directory(&files), self.name()) else { return };
        let operation = self.volume.link(&self.caller, id, dir, &name);
        if files.entries.contains_key(&(dir.number, name.clone())) {
            assert_eq!(operation.await.expect_err("the name is taken").kind, ErrorKind::Exists);
            return;
        }
        if self.is_apart(&files, self.parent(&files, id.number), dir.number) {
            let refused = operation.await.expect_err("it counts for another tree");
            assert!(is_full(refused.kind) || refused.kind == ErrorKind::OtherTree, "{refused}");
            return;
        }
        let mut next = files;
        next.entries.insert((dir.number, name.clone()), id.number);
        let operation = self.volume.link(&self.caller, id, dir, &name);
        if let Some(facts) = self.change(next, operation).await {
            assert_eq!(facts.links, self.files().links(id.number));
        }
    }

    async fn rename(&self) {
        let files = self.files();
        let Some(((parent, name), child)) = self.random.pick(&files.entries.iter().collect::<Vec<_>>()).copied() else {
            return;
        };
        let root = self.volume.root().number;
        let from = files.nodes[parent].id;
        let (to, new_name) = (self.directory(&files), self.name());
        let mode =
            [Rename::Replace, Rename::Replace, Rename::NoReplace, Rename::Exchange][self.random.range(0..4usize)];
        let operation = self.volume.rename(&self.caller, (from, name), (to, &new_name), mode);
        let there = files.entries.get(&(to.number, new_name.clone())).copied();
        let is_directory = |number: u64| files.nodes[&number].kind == FileKind::Directory;
        let is_apart = self.is_apart(&files, *parent, to.number);
        let expected = match there {
            Some(_) if mode == Rename::NoReplace => Some(ErrorKind::Exists),
            Some(there) if there == *child => None,
            Some(there) if mode == Rename::Exchange => {
                let one = is_directory(*child) && files.is_below(to.number, *child, root);
                let other = is_directory(there) && files.is_below(*parent, there, root);
                if one || other { Some(ErrorKind::Invalid) } else { is_apart.then_some(ErrorKind::OtherTree) }
            }
            None if mode == Rename::Exchange => Some(ErrorKind::NotFound),
            Some(there) if is_directory(*child) && !is_directory(there) => Some(ErrorKind::NotDirectory),
            Some(there) if !is_directory(*child) && is_directory(there) => Some(ErrorKind::IsDirectory),
            _ if is_directory(*child) && files.is_below(to.number, *child, root) => Some(ErrorKind::Invalid),
            _ if is_apart => Some(ErrorKind::OtherTree),
            Some(there) if is_directory(there) && !files.names_in(there).is_empty() => Some(ErrorKind::NotEmpty),
            _ => None,
        };
        if let Some(kind) = expected {
            assert_eq!(operation.await.expect_err("it is refused").kind, kind);
            return;
        }
        let mut next = files.clone();
        if there != Some(*child) {
            next.entries.remove(&(*parent, name.clone()));
            if let Some(there) = there {
                next.entries.remove(&(to.number, new_name.clone()));
                if mode == Rename::Exchange {
                    next.entries.insert((*parent, name.clone()), there);
                } else {
                    next.forget(there, root);
                }
            }
            next.entries.insert((to.number, new_name.clone()), *child);
        }
        let takes_place = mode == Rename::Replace && there.is_some() && there != Some(*child) && !is_directory(*child);
        if self.change(next, operation).await.is_some() && takes_place {
            let last = self.volume.last();
            self.model.borrow_mut().place(*child, last);
        }
    }

    pub async fn open(&self, id: FileId) -> Handle {
        self.volume.open(&self.caller, id, WRITING).await.expect("it can be opened")
    }

    async fn write(&self) {
        let files = self.files();
        let Some(id) = self.file(&files) else { return };
        let old = files.nodes[&id.number].data.clone();
        let most = [100, 3000, 5 * BLOCK, 40 * BLOCK][self.random.range(0..4usize)];
        let mut len = self.random.range(1..most);
        let mut offset = match self.random.range(0..3u32) {
            0 => old.len(),
            1 => self.random.range(0..=old.len()),
            _ => self.random.range(0..old.len() + 10 * BLOCK),
        };
        if self.random.chance(1, 2) {
            (offset, len) = (offset / BLOCK * BLOCK, len.next_multiple_of(BLOCK));
        }
        let mut bytes = IoBuf::zeroed(len.next_multiple_of(BLOCK));
        self.random.fill(&mut bytes[..len]);
        let mut new = (*old).clone();
        new.resize(new.len().max(offset + len), 0);
        new[offset..offset + len].copy_from_slice(&bytes[..len]);
        let mut next = files;
        next.nodes.get_mut(&id.number).expect("it is there").data = Rc::new(new);
        let handle = self.open(id).await;
        let data = bytes.freeze();
        let written = Cell::new(0);
        let writing = async {
            written.set(self.volume.write(&handle, offset as u64, data.clone(), len).await?);
            // Whoever asks for the rest is told why not.
            if written.get() == len { Ok(()) } else { Err(VolumeError::new(ErrorKind::NoSpace, "the rest")) }
        };
        self.change_in_part(id, next, writing).await;
        let mut expected = (*old).clone();
        let end = offset + written.get();
        if written.get() > 0 {
            expected.resize(expected.len().max(end), 0);
            expected[offset..end].copy_from_slice(&data[..written.get()]);
        }
        let found = self.files().nodes[&id.number].data.clone();
        let differs = found.iter().zip(&expected).position(|(one, other)| one != other);
        let lens = (old.len(), found.len(), expected.len());
        assert!(*found == expected, "{} of {len} bytes were written at {offset}, {lens:?}, {differs:?}", written.get());
        self.volume.close(handle).await.expect("it can be closed");
    }

    async fn cut(&self) {
        let files = self.files();
        let Some(id) = self.file(&files) else { return };
        let mut new = (*files.nodes[&id.number].data).clone();
        let size = match self.random.range(0..4u32) {
            0 => 0,
            1 => self.random.range(0..new.len() + 5000),
            _ => self.random.range(0..=new.len()),
        };
        new.resize(size, 0);
        let mut next = files;
        next.nodes.get_mut(&id.number).expect("it is there").data = Rc::new(new);
        let set = SetAttributes { size_bytes: Some(size as u64), ..SetAttributes::default() };
        self.change(next, self.volume.set(&self.caller, id, &set)).await;
    }

    async fn allocate(&self) {
        let files = self.files();
        let Some(id) = self.file(&files) else { return };
        let mut new = (*files.nodes[&id.number].data).clone();
        let (from, len) = (self.random.range(0..new.len() + 3000), self.random.range(1..6 * BLOCK));
        let keep_size = self.random.chance(1, 2);
        let how = [Allocate::Punch, Allocate::Zero { keep_size }, Allocate::Reserve { keep_size }]
            [self.random.range(0..3usize)];
        let inside = from.min(new.len())..(from + len).min(new.len());
        if !matches!(how, Allocate::Reserve { .. }) {
            new[inside].fill(0);
        }
        if !keep_size && how != Allocate::Punch {
            new.resize(new.len().max(from + len), 0);
        }
        let mut next = files;
        next.nodes.get_mut(&id.number).expect("it is there").data = Rc::new(new);
        let handle = self.open(id).await;
        self.change_in_part(id, next, self.volume.allocate(&handle, from as u64, len as u64, how)).await;
        self.volume.close(handle).await.expect("it can be closed");
    }

    async fn attributes(&self) {
        let files = self.files();
        let all: Vec<FileId> = files.nodes.values().map(|node| node.id).collect();
        let id = *self.random.pick(&all).expect("the root");
        let mut next = files;
        let node = next.nodes.get_mut(&id.number).expect("it is there");
        if self.random.chance(1, 3) {
            let new = descriptors::draw(self.random, node, self.sort != Sort::Plain);
            node.secure(new.clone());
            let parts = SecurityParts::OWNER | SecurityParts::GROUP | SecurityParts::DACL;
            self.change(next, self.volume.set_security(&self.caller, id, parts, &new)).await;
            return;
        }
        if self.random.chance(1, 2) && matches!(node.kind, FileKind::Regular | FileKind::Directory) {
            return self.beside(id, next).await;
        }
        if self.random.chance(1, 4) {
            let (uid, gid) = (self.random.range(0..3u32), self.random.range(0..3u32));
            descriptors::give(node, uid, gid);
            let set = SetAttributes { uid: Some(uid), gid: Some(gid), ..SetAttributes::default() };
            self.change(next, self.volume.set(&self.caller, id, &set)).await;
            return;
        }
        if self.random.chance(1, 3) {
            let mode = self.random.range(0..0o10000u32);
            descriptors::change(node, mode);
            let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
            self.change(next, self.volume.set(&self.caller, id, &set)).await;
            return;
        }
        let name = format!("user.{}", self.random.range(0..4u32)).into_bytes();
        if self.random.chance(1, 4) {
            let was_there = node.extended.remove(&name).is_some();
            let operation = self.volume.remove_extended(&self.caller, id, &name);
            if was_there {
                self.change(next, operation).await;
            } else {
                assert_eq!(operation.await.expect_err("it is not there").kind, ErrorKind::NoData);
            }
            return;
        }
        let mut value = vec![0; self.random.range(0..if self.random.chance(1, 10) { 60_000 } else { 500 })];
        self.random.fill(&mut value);
        node.extended.insert(name.clone(), value.clone());
        self.change(next, self.volume.set_extended(&self.caller, id, &name, &value, SetMode::Any)).await;
    }

    async fn read(&self) {
        let files = self.files();
        let Some(id) = self.file(&files) else { return };
        let data = &files.nodes[&id.number].data;
        let handle = self.open(id).await;
        let (from, len) = (self.random.range(0..=data.len() + 10), self.random.range(0..10 * BLOCK));
        let found = self.volume.read(&handle, from as u64, len).await.expect("it can be read").to_vec();
        let expected = &data[from.min(data.len())..(from + len).min(data.len())];
        assert!(found == expected, "{} of {} bytes from {from}", found.len(), data.len());
        match self.volume.seek(&handle, from as u64, Seek::Data).await {
            Ok(at) => assert!(data[from..at as usize].iter().all(|byte| *byte == 0)),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::NoData);
                assert!(data[from.min(data.len())..].iter().all(|byte| *byte == 0));
            }
        }
        self.volume.close(handle).await.expect("it can be closed");
    }

    /// One file after the other is read whole, so that what becomes of it later meets what is kept of it in memory.
    async fn look(&self, step: usize) {
        let files = self.files();
        let regular: Vec<_> = files.nodes.values().filter(|node| node.kind == FileKind::Regular).collect();
        let Some(node) = regular.get(step % regular.len().max(1)) else { return };
        let handle = self.open(node.id).await;
        let found = self.volume.read(&handle, 0, node.data.len() + 1).await.expect("it can be read").to_vec();
        assert!(found == **node.data, "file {} as it is read again", node.id.number);
        self.volume.close(handle).await.expect("it can be closed");
    }

    /// A file is held open, loses its names perhaps, and is as it was until it is closed.
    async fn hold(&mut self) {
        if self.handles.len() < 4
            && let Some(id) = self.file(&self.files())
        {
            self.handles.push(self.open(id).await);
        } else if !self.handles.is_empty() {
            let at = self.random.range(0..self.handles.len());
            let handle = self.handles.swap_remove(at);
            let number = handle.id().number;
            let found = self.volume.read(&handle, 0, usize::MAX >> 1).await.expect("it can be read").to_vec();
            if let Some(node) = self.files().nodes.get(&number) {
                assert!(found == **node.data, "file {number} as it is open");
            }
            self.volume.close(handle).await.expect("it can be closed");
        }
    }

    async fn settle(&self) {
        // The volume makes changes of its own beside.
        let last = self.volume.last();
        match self.random.range(0..5u32) {
            0 => {
                self.volume.sync().await.expect("it lasts");
                self.model.borrow_mut().settle(last);
            }
            1 => {
                self.volume.checkpoint().await.expect("it lasts");
                self.model.borrow_mut().settle(last);
            }
            2 => {
                self.volume.trim().await.expect("free room is given back");
            }
            _ => {
                let Some(id) = self.file(&self.files()) else { return };
                self.volume.flush(id, Flush::All).await.expect("it lasts");
                self.model.borrow_mut().settle_file(id.number, last);
            }
        }
    }

    async fn live(&mut self) {
        for step in 0..self.random.range(1..250usize) {
            self.look(step).await;
            if let Some(follower) = self.follower {
                journal::follow(follower, self.volume, self.random).await;
            }
            // Histories without clones stay what they were.
            match self.random.range(0..self.sort.operations()) {
                145.. => self.use_disk().await,
                125..145 => self.prove().await,
                104..125 => self.clone_something().await,
                100..104 => snapshots::step(self.volume, self.random, self.model).await,
                0..22 => self.create().await,
                22..30 => self.remove().await,
                30..35 => self.link().await,
                35..44 => self.rename().await,
                44..66 => self.write().await,
                66..72 => self.cut().await,
                72..78 => self.allocate().await,
                78..84 => self.attributes().await,
                84..90 => self.read().await,
                90..94 => self.hold().await,
                94..96 => self.limit().await,
                _ => self.settle().await,
            }
        }
        let found = read_all(self.volume).await;
        assert_eq!(difference(&self.files(), &found), Vec::<String>::new());
        let snapshots = self.model.borrow().snapshots.clone();
        snapshots::check(self.volume, &snapshots).await;
        for handle in self.handles.drain(..) {
            self.volume.close(handle).await.expect("it can be closed");
        }
        self.volume.settle_quotas().await.expect("it needs no room");
    }

    /// Looks at all of it once more, while nobody uses any file: a move of data for a smaller size uses some, too.
    async fn check(&self) {
        if let Some(follower) = self.follower {
            journal::check(follower, self.volume, self.random).await;
        }
        strict::check(self.volume).await;
        quotas::check(self.volume, &self.files()).await;
        assert_eq!(
            self.volume.usage(self.volume.root()).await.map(|usage| usage.files),
            Ok(self.files().nodes.len() as u64)
        );
    }
}

async fn open(device: Arc<dyn Device>, settings: Settings, data_bytes: usize) -> Volume {
    cached::open(device, settings, clock(), data_bytes).await.expect("what was not cut short opens")
}

/// A history of a seed.
pub fn run(seed: u64, delayed_bytes: usize, sort: Sort) {
    run_followed(seed, delayed_bytes, sort, None);
}

/// The same while somebody follows the journal.
pub fn run_followed(seed: u64, delayed_bytes: usize, sort: Sort, follower: Option<Rc<RefCell<Follower>>>) {
    run_in(World::new(seed, delayed_bytes), sort, follower);
}

/// The same where metadata is kept twice, and one block of it is bad at each opening.
pub fn run_twinned(seed: u64, delayed_bytes: usize, sort: Sort) {
    run_in(World { has_twins: true, ..World::new(seed, delayed_bytes) }, sort, None);
}

fn run_in(world: World, sort: Sort, follower: Option<Rc<RefCell<Follower>>>) {
    let delayed_bytes = world.settings.delayed_bytes;
    world.format();
    let (device, settings, data_bytes) = (world.disk.clone(), world.settings, world.data_bytes);
    let first = world.sim.run(async move {
        let volume = open(device, settings, data_bytes).await;
        (read_node(&volume, volume.root()).await, volume.last())
    });
    let (root, last) = first.expect("powered");
    world.sim.restart();
    let model = Rc::new(RefCell::new(Model::new(root, last, world.disk.spec().tear_bytes as usize, delayed_bytes > 0)));
    let opened = Rc::new(Cell::new(false));
    // Whether an opening came so far that all is right in both copies.
    let mended = Rc::new(Cell::new(true));
    let mut image = world.disk.image();
    for life in 0..5 {
        if world.has_twins {
            let now = world.disk.image();
            opened.set(false);
            if mended.take() {
                twins::damage_one(&world.disk, &world.random, &image);
            }
            image = now;
        }
        // What the newest root had is in the one before and in the log, as soon as an opening wrote both.
        if opened.take() && world.random.chance(1, 3) {
            lose_newest_root(&world.disk);
        }
        if life < 4 && world.random.chance(4, 5) {
            let most = if world.random.chance(1, 3) { 40 } else { 800 };
            world.sim.cut_power_after(world.random.range(0..most));
        }
        let (disk, settings, random, model) = (world.disk.clone(), world.settings, world.sim.random(), model.clone());
        let (opened, mended, resizes, is_last) = (opened.clone(), mended.clone(), world.random.chance(1, 2), life == 4);
        let follower = follower.clone();
        let ended = world.sim.run(async move {
            model.borrow_mut().openings += 1;
            let volume = Arc::new(open(disk.clone(), settings, data_bytes).await);
            opened.set(true);
            let mut recovered = model.borrow().clone();
            recovered.recover(&volume).await;
            *model.borrow_mut() = recovered;
            snapshots::recover(&volume, &model).await;
            strict::check(&volume).await;
            assert_eq!(volume.scan().await, Ok(Vec::new()));
            mended.set(true);
            volume.settle_quotas().await.expect("it needs no room");
            let files = model.borrow().now().clone();
            quotas::check(&volume, &files).await;
            if let Some(follower) = &follower {
                journal::check(follower, &volume, &random).await;
            }
            let mut life = Life {
                volume: &volume,
                random: &random,
                model: &model,
                caller: Caller {
                    names: if sort != Sort::Plain { NameRules::Stored } else { NameRules::Posix },
                    ..Caller::default()
                },
                handles: Vec::new(),
                sort,
                follower: follower.as_deref(),
            };
            let working = Cell::new(true);
            let living = async {
                life.live().await;
                working.set(false);
            };
            if resizes {
                join(living, resize(&volume, &disk, &random, &working, 0)).await;
            } else {
                living.await;
            }
            life.check().await;
            assert_eq!(volume.scan().await, Ok(Vec::new()), "after a life");
            volume.checkpoint().await.expect("it lasts");
            model.borrow_mut().settle(volume.last());
            if is_last {
                snapshots::end(&volume, &model).await;
                check_empty(&volume).await;
            }
        });
        // A cut is as good an end as any.
        let _ = ended;
        world.sim.restart();
    }
}
