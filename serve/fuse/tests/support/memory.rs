//! Files in memory: a service with the semantics of POSIX, for tests, and to measure what the way to a service costs.
//!
//! Numbers of files that are gone are given out again, with a new generation, as soon as may be.
//!
//! Invariant: a file is there as long as it has a name or is open, and not longer.

#[path = "memory/content.rs"]
mod content;
#[path = "memory/state.rs"]
mod state;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use content::PAGE_BYTES;
use holdfast_device::{IoSlice, Signal};
use holdfast_volume::service::*;
use holdfast_volume::{ErrorKind, VolumeError};
use state::{Node, State, error, now};

/// What the volume holds at most.
const TOTAL_BYTES: u64 = 8 << 30;
const NAME_BYTES: usize = 255;

/// The service.
pub struct Memory {
    state: Mutex<State>,
    /// As long as they are not raised, reads and writes wait.
    pub reads: Arc<Signal>,
    pub writes: Arc<Signal>,
    /// How often files were made durable, with all that is known of them and without.
    #[allow(dead_code, reason = "not all who include this file look at it")]
    pub flushed: [AtomicU64; 2],
}

/// An open file.
#[derive(Clone, Debug)]
pub struct Open {
    number: u64,
    _uses: Arc<()>,
}

type Result<T> = std::result::Result<T, VolumeError>;

impl Memory {
    pub fn new() -> Self {
        let (reads, writes) = (Arc::<Signal>::default(), Arc::<Signal>::default());
        let memory = Self { state: Mutex::new(State::new()), reads, writes, flushed: Default::default() };
        memory.reads.raise();
        memory.writes.raise();
        memory
    }

    /// One whose reads wait for its signal.
    #[allow(dead_code, reason = "not all who include this file hold reads back")]
    pub fn with_held_reads() -> Self {
        Self { reads: Arc::default(), ..Self::new() }
    }

    /// One whose writes wait for its signal.
    #[allow(dead_code, reason = "not all who include this file hold writes back")]
    pub fn with_held_writes() -> Self {
        Self { writes: Arc::default(), ..Self::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no request panicked")
    }

    /// Files that exist, and those that are open.
    #[allow(dead_code, reason = "not all who include this file count")]
    pub fn counts(&self) -> (usize, u64) {
        let state = self.state();
        (state.files.len(), state.files.values().map(|file| file.opens).sum())
    }
}

fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_BYTES { Err(error(ErrorKind::NameTooLong)) } else { Ok(()) }
}

impl FileService for Memory {
    type Handle = Open;

    fn root(&self) -> FileId {
        FileId { number: 2, generation: 0 }
    }

    async fn lookup(&self, _: &Caller, dir: FileId, name: &[u8]) -> Result<Option<Attributes>> {
        check_name(name)?;
        let state = self.state();
        let found = state.directory(dir)?.names.get(name).map(|entry| entry.number);
        Ok(found.map(|number| state.attributes(number)))
    }

    async fn parent(&self, dir: FileId) -> Result<Attributes> {
        let state = self.state();
        let parent = state.directory(dir)?.parent;
        state.files.contains_key(&parent).then(|| state.attributes(parent)).ok_or(error(ErrorKind::NotFound))
    }

    async fn find(&self, number: u64) -> Result<Attributes> {
        let state = self.state();
        let found = state.files.get(&number).filter(|file| file.links > 0);
        found.map(|_| state.attributes(number)).ok_or(error(ErrorKind::Stale))
    }

    async fn stat(&self, id: FileId) -> Result<Attributes> {
        let state = self.state();
        state.file(id).map(|_| state.attributes(id.number))
    }

    async fn set(&self, _: &Caller, id: FileId, set: &SetAttributes) -> Result<Attributes> {
        let mut state = self.state();
        let now = now();
        let file = state.file_mut(id)?;
        if let Some(size) = set.size_bytes {
            file.data_mut()?.resize(size);
            file.modified = now;
        }
        file.mode = set.mode.unwrap_or(file.mode);
        file.uid = set.uid.unwrap_or(file.uid);
        file.gid = set.gid.unwrap_or(file.gid);
        let time = |set: Option<SetTime>, old: Time| match set {
            None => old,
            Some(SetTime::Now) => now,
            Some(SetTime::At(time)) => time,
        };
        file.accessed = time(set.accessed, file.accessed);
        file.modified = time(set.modified, file.modified);
        file.created = time(set.created, file.created);
        file.touch(now);
        Ok(state.attributes(id.number))
    }

    async fn access(&self, caller: &Caller, id: FileId, mask: u32) -> Result<()> {
        let state = self.state();
        let file = state.file(id)?;
        let class = if caller.uid == file.uid {
            file.mode >> 6
        } else if caller.gid == file.gid || caller.groups.known().contains(&file.gid) {
            file.mode >> 3
        } else {
            file.mode
        };
        let may = caller.is_checked || caller.uid == 0 || class & mask == mask;
        if may { Ok(()) } else { Err(error(ErrorKind::AccessDenied)) }
    }

    async fn create(&self, caller: &Caller, dir: FileId, name: &[u8], new: &NewFile<'_>) -> Result<Attributes> {
        check_name(name)?;
        let mut state = self.state();
        if state.directory(dir)?.names.contains_key(name) {
            return Err(error(ErrorKind::Exists));
        }
        let number = state.add_file(caller, dir, new)?;
        state.enter(dir.number, name, number);
        Ok(state.attributes(number))
    }

    async fn create_unnamed(&self, caller: &Caller, dir: FileId, new: &NewFile<'_>) -> Result<(Attributes, Open)> {
        let mut state = self.state();
        let number = state.add_file(caller, dir, new)?;
        state.known_mut(number).opens += 1;
        Ok((state.attributes(number), Open { number, _uses: Arc::default() }))
    }

    async fn read_link(&self, id: FileId) -> Result<Vec<u8>> {
        match &self.state().file(id)?.node {
            Node::Symlink(target) => Ok(target.clone()),
            _ => Err(error(ErrorKind::Invalid)),
        }
    }

    async fn link(&self, _: &Caller, id: FileId, dir: FileId, name: &[u8]) -> Result<Attributes> {
        check_name(name)?;
        let mut state = self.state();
        if matches!(state.file(id)?.node, Node::Directory(_)) {
            return Err(error(ErrorKind::NotPermitted));
        }
        if state.directory(dir)?.names.contains_key(name) {
            return Err(error(ErrorKind::Exists));
        }
        state.enter(dir.number, name, id.number);
        Ok(state.attributes(id.number))
    }

    async fn remove(&self, _: &Caller, dir: FileId, name: &[u8], what: Remove) -> Result<()> {
        let mut state = self.state();
        let number = state.find(dir, name)?;
        match (&state.known(number).node, what) {
            (Node::Directory(_), Remove::File) => return Err(error(ErrorKind::IsDirectory)),
            (Node::Directory(directory), Remove::Directory) if !directory.names.is_empty() => {
                return Err(error(ErrorKind::NotEmpty));
            }
            (Node::Directory(_), Remove::Directory) | (_, Remove::File) => {}
            (_, Remove::Directory) => return Err(error(ErrorKind::NotDirectory)),
        }
        state.leave(dir.number, name);
        Ok(())
    }

    async fn rename(&self, _: &Caller, from: (FileId, &[u8]), to: (FileId, &[u8]), mode: Rename) -> Result<()> {
        check_name(to.1)?;
        let mut state = self.state();
        let moved = state.find(from.0, from.1)?;
        let known = state.directory(to.0)?.names.get(to.1).map(|entry| entry.number);
        let is_directory = |state: &State, number: u64| matches!(state.known(number).node, Node::Directory(_));
        if is_directory(&state, moved) && state.is_within(to.0.number, moved) {
            return Err(error(ErrorKind::Invalid));
        }
        match (known, mode) {
            (Some(_), mode) if mode.needs_free() => return Err(error(ErrorKind::Exists)),
            (None, Rename::Exchange) => return Err(error(ErrorKind::NotFound)),
            (Some(known), _) if known == moved => return Ok(()),
            (Some(known), Rename::Exchange) => {
                if is_directory(&state, known) && state.is_within(from.0.number, known) {
                    return Err(error(ErrorKind::Invalid));
                }
                state.take(from.0.number, from.1);
                state.take(to.0.number, to.1);
                state.enter(from.0.number, from.1, known);
                state.enter(to.0.number, to.1, moved);
                return Ok(());
            }
            (Some(known), _) => {
                match (is_directory(&state, moved), &state.known(known).node) {
                    (true, Node::Directory(directory)) if !directory.names.is_empty() => {
                        return Err(error(ErrorKind::NotEmpty));
                    }
                    (true, Node::Directory(_)) => {}
                    (true, _) => return Err(error(ErrorKind::NotDirectory)),
                    (false, Node::Directory(_)) => return Err(error(ErrorKind::IsDirectory)),
                    (false, _) => {}
                }
                state.leave(to.0.number, to.1);
            }
            (None, _) => {}
        }
        state.take(from.0.number, from.1);
        state.enter(to.0.number, to.1, moved);
        if matches!(mode, Rename::Whiteout { .. }) {
            let new = NewFile { kind: FileKind::CharDevice(0), mode: 0, target: &[] };
            let number = state.add_file(&Caller::default(), from.0, &new)?;
            state.enter(from.0.number, from.1, number);
        }
        Ok(())
    }

    async fn list(&self, _: &Caller, dir: FileId, cursor: u64, most: usize, attributes: bool) -> Result<Vec<Entry>> {
        let mut state = self.state();
        let file = state.file_mut(dir)?;
        if cursor == 0 {
            file.read_at(now());
        }
        let listed = state.directory(dir)?.cursors.range(cursor + 1..).take(most);
        let entry = |(cursor, (name, number)): (&u64, &(Vec<u8>, u64))| {
            let found = state.attributes(*number);
            let attributes = attributes.then_some(found);
            Entry { name: name.clone(), id: found.id, kind: found.kind, cursor: *cursor, attributes }
        };
        Ok(listed.map(entry).collect())
    }

    async fn open(&self, _: &Caller, id: FileId, mode: OpenMode) -> Result<Open> {
        let mut state = self.state();
        let now = now();
        let file = state.file_mut(id)?;
        let data = file.data_mut()?;
        if mode.truncate {
            data.resize(0);
            file.modified = now;
            file.touch(now);
        }
        file.opens += 1;
        Ok(Open { number: id.number, _uses: Arc::default() })
    }

    async fn close(&self, handle: Open) -> Result<()> {
        assert_eq!(Arc::strong_count(&handle._uses), 1, "the last use of an open file closes it");
        let mut state = self.state();
        state.known_mut(handle.number).opens -= 1;
        state.drop_if_unused(handle.number);
        Ok(())
    }

    async fn read(&self, handle: &Open, offset: u64, len: usize) -> Result<Data> {
        if !self.reads.raised() {
            self.reads.wait().await;
        }
        let mut state = self.state();
        let file = state.known_mut(handle.number);
        file.read_at(now());
        Ok(file.data_mut()?.read(offset, len))
    }

    async fn write(&self, handle: &Open, offset: u64, data: IoSlice, len: usize) -> Result<usize> {
        self.writes.wait().await;
        let mut state = self.state();
        let now = now();
        let free = TOTAL_BYTES.saturating_sub(state.used_bytes());
        let file = state.known_mut(handle.number);
        if free < len as u64 + PAGE_BYTES {
            return Err(error(ErrorKind::NoSpace));
        }
        let before = file.data_mut()?.allocated_bytes();
        file.data_mut()?.write(offset, &data[..len]);
        let after = file.data_mut()?.allocated_bytes();
        file.modified = now;
        file.touch(now);
        state.account(before, after);
        Ok(len)
    }

    async fn allocate(&self, handle: &Open, offset: u64, len: u64, how: Allocate) -> Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64).ok_or(error(ErrorKind::TooLarge))?;
        let mut state = self.state();
        let now = now();
        if matches!(how, Allocate::Reserve { .. } | Allocate::Zero { .. })
            && len > TOTAL_BYTES.saturating_sub(state.used_bytes())
        {
            return Err(error(ErrorKind::NoSpace));
        }
        let file = state.known_mut(handle.number);
        let before = file.data_mut()?.allocated_bytes();
        let data = file.data_mut()?;
        let keep_size = match how {
            Allocate::Reserve { keep_size } => {
                data.reserve(offset, end);
                keep_size
            }
            Allocate::Punch => {
                data.clear(offset, end);
                true
            }
            Allocate::Zero { keep_size } => {
                data.clear(offset, end);
                data.reserve(offset, end);
                keep_size
            }
        };
        if !keep_size && end > data.size {
            data.resize(end);
        }
        let after = data.allocated_bytes();
        file.modified = now;
        file.touch(now);
        state.account(before, after);
        Ok(())
    }

    async fn seek(&self, handle: &Open, offset: u64, what: Seek) -> Result<u64> {
        let mut state = self.state();
        let data = state.known_mut(handle.number).data_mut()?;
        data.seek(offset, what).ok_or(error(ErrorKind::NoData))
    }

    async fn copy(&self, from: (&Open, u64), to: (&Open, u64), len: u64) -> Result<u64> {
        let mut state = self.state();
        let now = now();
        let source = state.known_mut(from.0.number).data_mut()?;
        let len = len.min(source.size.saturating_sub(from.1));
        let bytes = source.read(from.1, len as usize).to_vec();
        let file = state.known_mut(to.0.number);
        let before = file.data_mut()?.allocated_bytes();
        file.data_mut()?.write(to.1, &bytes);
        let after = file.data_mut()?.allocated_bytes();
        file.modified = now;
        file.touch(now);
        state.account(before, after);
        Ok(len)
    }

    async fn flush(&self, id: FileId, how: Flush) -> Result<()> {
        self.state().file(id)?;
        self.flushed[usize::from(how == Flush::Data)].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn extended(&self, _: &Caller, id: FileId, name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.state().file(id)?.extended.get(name).cloned())
    }

    async fn set_extended(&self, _: &Caller, id: FileId, name: &[u8], value: &[u8], mode: SetMode) -> Result<()> {
        check_name(name)?;
        let mut state = self.state();
        let file = state.file_mut(id)?;
        match (file.extended.contains_key(name), mode) {
            (true, SetMode::Create) => return Err(error(ErrorKind::Exists)),
            (false, SetMode::Replace) => return Err(error(ErrorKind::NoData)),
            _ => {}
        }
        file.extended.insert(name.to_vec(), value.to_vec());
        file.touch(now());
        Ok(())
    }

    async fn remove_extended(&self, _: &Caller, id: FileId, name: &[u8]) -> Result<()> {
        let mut state = self.state();
        let file = state.file_mut(id)?;
        file.extended.remove(name).ok_or(error(ErrorKind::NoData))?;
        file.touch(now());
        Ok(())
    }

    async fn list_extended(&self, _: &Caller, id: FileId) -> Result<Vec<Vec<u8>>> {
        Ok(self.state().file(id)?.extended.keys().cloned().collect())
    }

    async fn usage(&self, _: FileId) -> Result<Usage> {
        let state = self.state();
        let free_bytes = TOTAL_BYTES.saturating_sub(state.used_bytes());
        Ok(Usage { total_bytes: TOTAL_BYTES, free_bytes, files: state.files.len() as u64, free_files: None })
    }

    async fn sync(&self) -> Result<()> {
        Ok(())
    }
}
