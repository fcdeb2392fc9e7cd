//! The volume as front ends see it.

use std::sync::Weak;

use futures_util::future::join;
use holdfast_device::{Durability, IoSlice};
use holdfast_identity::{AccessMask, Explanation, SecurityDescriptor};
use holdfast_model::BLOCK_BYTES;

use crate::access;
use crate::change::{Need, View};
use crate::cloning::CloneRange;
use crate::error::{ErrorKind, VolumeError};
use crate::integrity::Integrity;
use crate::keys;
use crate::open_files::{File, Handle, Left, Stamped, Use};
use crate::record::Record;
use crate::removal;
use crate::service::{
    Allocate, Attributes, Caller, Data, Entry, FileId, FileKind, FileService, Flush, NewFile, OpenMode, Remembers,
    Remove, Rename, ReparsePoint, SecurityParts, Seek, SetAttributes, SetMode, Stream, Usage,
};
use crate::store::{held, zones_left};
use crate::volume::{ROOT, Volume, directory_of, put_record, record_of};
use crate::{DEFERRED_TREE, change};

/// Bytes that a copy within the volume reads at once.
const COPY_BYTES: u64 = 1 << 20;

impl Volume {
    pub(crate) async fn open_file(&self, caller: &Caller, id: FileId, mode: OpenMode) -> Result<Handle, VolumeError> {
        let file = self.open.enter(id, Use::Handle);
        let check = |view: &View<'_>, record: &Record| Self::check_open(view, caller, record, mode);
        if let Err(error) = self.load_state(&file, Use::Handle, check).await {
            self.leave(&file, Use::Handle).await?;
            return Err(error);
        }
        let handle = Handle { file, mode, is_unbuffered: false };
        if mode.truncate && mode.write {
            let cut = {
                let _alone = handle.file.data.write().await;
                Box::pin(self.set_length_locked(&handle.file, 0)).await
            };
            if let Err(error) = cut {
                Box::pin(self.close_file(handle)).await?;
                return Err(error);
            }
        }
        Ok(handle)
    }

    pub(crate) async fn close_file(&self, handle: Handle) -> Result<(), VolumeError> {
        let ended = self.end_writes(&handle).await;
        let left = self.leave(&handle.file, Use::Handle).await;
        ended.and(left)
    }

    /// Has what was written through a handle be written as it is when the handle is closed.
    pub(crate) async fn end_writes(&self, handle: &Handle) -> Result<(), VolumeError> {
        let file = &handle.file;
        let is_replaced = {
            let mut state = held(&file.state);
            handle.mode.write && !state.delayed.is_empty() && std::mem::take(&mut state.is_replaced)
        };
        // Programs that write a file anew mean to have the old or the new one.
        let written = if is_replaced { Box::pin(self.write_back(file.id.number)).await } else { Ok(()) };
        // What waits takes the times along.
        let is_waiting = !held(&file.state).delayed.is_empty();
        if is_waiting && handle.mode.write {
            self.waiting.note_closed(&held(&file.state).delayed);
        }
        let logged = if is_waiting { Ok(()) } else { self.log_times(file).await };
        written.and(logged)
    }

    /// Ends one use of a file; with its last one what it had beside its record, and the file itself if it has no name.
    pub(crate) async fn leave(&self, file: &File, whose: Use) -> Result<(), VolumeError> {
        match self.open.leave(file, whose) {
            Left::InUse => Ok(()),
            Left::Kept => Box::pin(self.discard_unnamed(file.id.number)).await,
            Left::Gone => self.forget(file).await,
        }
    }

    /// Ends what is left to do for a file that nobody uses.
    pub(crate) async fn forget(&self, file: &File) -> Result<(), VolumeError> {
        self.release_window(file);
        if self.store.check_failed().is_err() {
            return Ok(());
        }
        // As `end_unused`, without the memory that a call takes in each request.
        let failed = self.finish_note(file.id.number, false).await.err();
        if let Some(closing) = failed.map(|error| Box::pin(self.close_unended(file.id.number, error))) {
            return closing.await;
        }
        self.note_closed(file.id.number).await
    }

    /// Has a record say when its file was read and written.
    pub(crate) fn stamp(&self, file: &File, record: &mut Record) -> Stamped {
        let (accessed, modified) = {
            let state = held(&file.state);
            (state.accessed, state.modified)
        };
        record.accessed = accessed.map_or(record.accessed, |time| time.max(record.accessed));
        if let Some(modified) = modified {
            record.modified = modified.max(record.modified);
            record.note_data();
            record.changed = modified.max(record.changed);
            record.change = self.next_change();
        }
        (accessed, modified, (record.accessed, record.modified))
    }

    /// Has the record of a file in the log say when it was read and written.
    pub(crate) async fn log_times(&self, file: &File) -> Result<(), VolumeError> {
        let is_noted = {
            let state = held(&file.state);
            state.accessed.is_some() || state.modified.is_some()
        };
        if !is_noted || self.store.check_failed().is_err() {
            return Ok(());
        }
        let id = file.id;
        let change = self.store.change([keys::shard(id.number)], Need::Less, |view| {
            let Some(value) = view.get(keys::shard(id.number), &keys::record(id.number))? else { return Ok(None) };
            let mut record = Record::decode(id.number, &value)?;
            let stamped = self.stamp(file, &mut record);
            put_record(view, id.number, &record)?;
            Ok(Some(stamped))
        });
        let (stamped, logged) = change.await?;
        let mut state = held(&file.state);
        state.logged = state.logged.max(logged);
        if let Some(stamped) = stamped {
            state.note_stamped(stamped);
        }
        Ok(())
    }

    /// Copies bytes of a file of this volume, or of a snapshot of it; answers how many, fewer at the end of `from` or where
    /// there is no room for more.
    pub(crate) async fn copy_from(
        &self,
        source: &Volume,
        from: (&Handle, u64),
        to: (&Handle, u64),
        len: u64,
    ) -> Result<u64, VolumeError> {
        let mut done = 0;
        while done < len {
            let some = (len - done).min(COPY_BYTES);
            let data = source.read_file(from.0, from.1 + done, some as usize).await?;
            let count = data.len();
            if count == 0 {
                break;
            }
            let copied =
                self.write_file(to.0, to.1 + done, IoSlice::padded(&data.to_vec()), count, Durability::Cached).await;
            match copied {
                Ok(some) => {
                    done += some as u64;
                    if some < count {
                        break;
                    }
                }
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    pub(crate) fn check_mode(handle: &Handle, write: bool) -> Result<(), VolumeError> {
        let allowed = if write { handle.mode.write } else { handle.mode.read };
        let why = if write { "the file was not opened for writing" } else { "the file was not opened for reading" };
        if allowed { Ok(()) } else { Err(VolumeError::new(ErrorKind::BadHandle, why)) }
    }
}

impl FileService for Volume {
    type Handle = Handle;

    fn root(&self) -> FileId {
        FileId { number: ROOT, generation: 1 }
    }

    async fn lookup(&self, caller: &Caller, dir: FileId, name: &[u8]) -> Result<Option<Attributes>, VolumeError> {
        self.lookup_name(caller, dir, &caller.meant(name)?).await
    }

    async fn parent(&self, dir: FileId) -> Result<Attributes, VolumeError> {
        self.parent_of(dir).await
    }

    async fn find(&self, number: u64) -> Result<Attributes, VolumeError> {
        self.facts_of_number(number).await
    }

    async fn stat(&self, id: FileId) -> Result<Attributes, VolumeError> {
        self.facts(id).await
    }

    async fn set(&self, caller: &Caller, id: FileId, set: &SetAttributes) -> Result<Attributes, VolumeError> {
        if let Some(size) = set.size_bytes {
            // What else is refused is refused before anything is cut.
            let rest = SetAttributes { size_bytes: None, ..*set };
            self.check_set(caller, id, &rest).await?;
            self.make_room().await;
            self.set_length(caller, id, size).await?;
            if rest == SetAttributes::default() {
                return self.facts(id).await;
            }
            return self.set_attributes(caller, id, &rest).await;
        }
        self.set_attributes(caller, id, set).await
    }

    async fn access(&self, caller: &Caller, id: FileId, mask: u32) -> Result<(), VolumeError> {
        self.may(caller, id, mask).await
    }

    async fn create(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        new: &NewFile<'_>,
    ) -> Result<Attributes, VolumeError> {
        self.create_name(caller, dir, &caller.new_name(name)?, new, None, caller.limits()).await
    }

    async fn create_unnamed(
        &self,
        caller: &Caller,
        dir: FileId,
        new: &NewFile<'_>,
    ) -> Result<(Attributes, Handle), VolumeError> {
        if new.kind != FileKind::Regular {
            return Err(VolumeError::new(ErrorKind::Invalid, "only a regular file can be without a name"));
        }
        self.make_room().await;
        let id = self.draw_id(dir.number, false).await?;
        let file = self.open.enter(id, Use::Handle);
        let created = self.store.change([keys::shard(dir.number), DEFERRED_TREE], Need::More, |view| {
            let directory = directory_of(view, dir)?;
            access::allow_adding(view, caller, &directory, false)?;
            view.enforce(caller.limits());
            let mut record = Record { links: 0, ..self.new_record(caller, &directory, new, id) };
            self.secure_new(view, caller, &directory, &mut record, None)?;
            put_record(view, id.number, &record)?;
            removal::defer(view, id.number)?;
            Ok(record)
        });
        match created.await {
            Ok((record, logged)) => {
                let mut state = held(&file.state);
                (state.is_loaded, state.is_inline, state.logged) = (true, true, logged);
                state.recorded = (record.accessed, record.modified);
                drop(state);
                file.strict.store(record.is_strict(), std::sync::atomic::Ordering::Relaxed);
                let mode = OpenMode { read: true, write: true, truncate: false };
                Ok((record.facts(id.number), Handle { file, mode, is_unbuffered: false }))
            }
            Err(error) => {
                self.leave(&file, Use::Handle).await?;
                Err(error)
            }
        }
    }

    async fn read_link(&self, id: FileId) -> Result<Vec<u8>, VolumeError> {
        self.link_target(id).await
    }

    async fn link(&self, caller: &Caller, id: FileId, dir: FileId, name: &[u8]) -> Result<Attributes, VolumeError> {
        let name = caller.new_name(name)?;
        self.make_room().await;
        self.link_name(caller, id, dir, &name).await
    }

    async fn remove(&self, caller: &Caller, dir: FileId, name: &[u8], what: Remove) -> Result<(), VolumeError> {
        self.remove_name(caller, dir, &caller.meant(name)?, what).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (FileId, &[u8]),
        to: (FileId, &[u8]),
        mode: Rename,
    ) -> Result<(), VolumeError> {
        let (name, new_name) = (caller.meant(from.1)?, caller.new_name(to.1)?);
        self.make_room().await;
        self.rename_name(caller, (from.0, &name), (to.0, &new_name), mode).await
    }

    async fn list(
        &self,
        caller: &Caller,
        dir: FileId,
        cursor: u64,
        most: usize,
        attributes: bool,
    ) -> Result<Vec<Entry>, VolumeError> {
        self.list_names(caller, dir, cursor, most, attributes).await
    }

    async fn open(&self, caller: &Caller, id: FileId, mode: OpenMode) -> Result<Handle, VolumeError> {
        self.open_file(caller, id, mode).await
    }

    fn remember(&self, who: Weak<dyn Remembers>) {
        self.note_who_remembers(who);
    }

    fn removals(&self) -> u64 {
        self.count_removals()
    }

    fn is_left(&self, id: FileId) -> bool {
        self.remembered.has_left(id.number)
    }

    async fn forgotten(&self, id: FileId) -> Result<(), VolumeError> {
        self.end_left(id).await
    }

    fn unbuffered(&self, handle: Handle) -> Handle {
        Handle { is_unbuffered: true, ..handle }
    }

    async fn close(&self, handle: Handle) -> Result<(), VolumeError> {
        self.close_file(handle).await
    }

    async fn read(&self, handle: &Handle, offset: u64, len: usize) -> Result<Data, VolumeError> {
        Self::check_mode(handle, false)?;
        self.read_file(handle, offset, len).await
    }

    async fn write(&self, handle: &Handle, offset: u64, data: IoSlice, len: usize) -> Result<usize, VolumeError> {
        Self::check_mode(handle, true)?;
        assert!(len <= data.len(), "{len} bytes of {}", data.len());
        self.write_file(handle, offset, data, len, Durability::Cached).await
    }

    async fn allocate(&self, handle: &Handle, offset: u64, len: u64, how: Allocate) -> Result<(), VolumeError> {
        Self::check_mode(handle, true)?;
        self.make_room().await;
        self.allocate_range(handle, offset, len, how).await
    }

    async fn seek(&self, handle: &Handle, offset: u64, what: Seek) -> Result<u64, VolumeError> {
        self.seek_file(handle, offset, what).await
    }

    async fn clone_range(&self, from: (&Handle, u64), to: (&Handle, u64), len: u64) -> Result<(), VolumeError> {
        Self::check_mode(from.0, false)?;
        Self::check_mode(to.0, true)?;
        let range = CloneRange { from: from.1, to: to.1, len };
        self.clone_file_range(from.0, to.0, range).await.map_err(|(_, error)| error)
    }

    async fn copy(&self, from: (&Handle, u64), to: (&Handle, u64), len: u64) -> Result<u64, VolumeError> {
        Self::check_mode(from.0, false)?;
        Self::check_mode(to.0, true)?;
        let overlap = from.1.abs_diff(to.1) < len;
        if from.0.id() == to.0.id() && overlap {
            return Err(VolumeError::new(ErrorKind::Invalid, "a range cannot be copied over itself"));
        }
        self.copy_or_clone(self, from, to, len).await
    }

    async fn flush(&self, id: FileId, how: Flush) -> Result<(), VolumeError> {
        let Some(file) = self.open.get(id.number).filter(|file| held(&file.state).is_loaded) else {
            // It was written to through handles that are closed, perhaps.
            return self.sync_until(self.store.last(), self.store.data.written()).await;
        };
        self.flush_open(&file, how).await
    }

    async fn extended(&self, caller: &Caller, id: FileId, name: &[u8]) -> Result<Option<Vec<u8>>, VolumeError> {
        let _ = caller;
        self.extended_value(id, name).await
    }

    async fn set_extended(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<(), VolumeError> {
        self.make_room().await;
        self.set_extended_value(caller, id, name, Some(value), mode).await
    }

    async fn remove_extended(&self, caller: &Caller, id: FileId, name: &[u8]) -> Result<(), VolumeError> {
        self.set_extended_value(caller, id, name, None, SetMode::Replace).await
    }

    async fn list_extended(&self, caller: &Caller, id: FileId) -> Result<Vec<Vec<u8>>, VolumeError> {
        let _ = caller;
        self.extended_names(id).await
    }

    async fn create_secured(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        new: &NewFile<'_>,
        given: &SecurityDescriptor,
    ) -> Result<Attributes, VolumeError> {
        self.create_name(caller, dir, &caller.new_name(name)?, new, Some(given), caller.limits()).await
    }

    async fn security(&self, caller: &Caller, id: FileId) -> Result<SecurityDescriptor, VolumeError> {
        self.security_of(caller, id).await
    }

    async fn set_security(
        &self,
        caller: &Caller,
        id: FileId,
        parts: SecurityParts,
        given: &SecurityDescriptor,
    ) -> Result<Attributes, VolumeError> {
        self.set_security_of(caller, id, parts, given).await
    }

    async fn granted(&self, caller: &Caller, id: FileId, desired: AccessMask) -> Result<AccessMask, VolumeError> {
        self.granted_of(caller, id, desired).await
    }

    async fn explain(&self, caller: &Caller, id: FileId, desired: AccessMask) -> Result<Explanation, VolumeError> {
        self.explain_of(caller, id, desired).await
    }

    async fn streams(&self, caller: &Caller, id: FileId) -> Result<Vec<Stream>, VolumeError> {
        self.streams_of(caller, id).await
    }

    async fn create_stream(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        mode: SetMode,
    ) -> Result<Stream, VolumeError> {
        self.create_stream_of(caller, id, name, mode).await
    }

    async fn read_stream(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, VolumeError> {
        self.read_stream_of(caller, id, name, offset, len).await
    }

    async fn write_stream(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), VolumeError> {
        self.make_room().await;
        self.write_stream_of(caller, id, name, offset, bytes).await
    }

    async fn set_stream_length(&self, caller: &Caller, id: FileId, name: &[u8], len: u64) -> Result<(), VolumeError> {
        self.set_stream_length_of(caller, id, name, len).await
    }

    async fn remove_stream(&self, caller: &Caller, id: FileId, name: &[u8]) -> Result<(), VolumeError> {
        self.remove_stream_of(caller, id, name).await
    }

    async fn rename_stream(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        to: &[u8],
        replaces: bool,
    ) -> Result<(), VolumeError> {
        self.rename_stream_of(caller, id, name, to, replaces).await
    }

    async fn reparse(&self, caller: &Caller, id: FileId) -> Result<ReparsePoint, VolumeError> {
        self.reparse_of(caller, id).await
    }

    async fn set_reparse(&self, caller: &Caller, id: FileId, point: &ReparsePoint) -> Result<(), VolumeError> {
        self.set_reparse_of(caller, id, point).await
    }

    async fn remove_reparse(
        &self,
        caller: &Caller,
        id: FileId,
        tag: u32,
        guid: Option<[u8; 16]>,
    ) -> Result<(), VolumeError> {
        self.remove_reparse_of(caller, id, (tag, guid)).await
    }

    async fn set_integrity(&self, caller: &Caller, id: FileId, to: Integrity) -> Result<Attributes, VolumeError> {
        self.make_room().await;
        self.set_integrity_of(caller, id, to).await
    }

    async fn usage(&self, at: FileId) -> Result<Usage, VolumeError> {
        self.usage_at(at).await
    }

    async fn sync(&self) -> Result<(), VolumeError> {
        // Data or times of one file that cannot be written keep nothing else from becoming durable.
        let mut done = self.write_back_all(&self.waiting.all()).await;
        for file in self.open.all() {
            done = done.and(self.log_times(&file).await);
        }
        if !self.left.is_empty() {
            Box::pin(self.close_left()).await;
        }
        let written = self.store.data.written();
        self.sync_until(self.store.last(), written).await?;
        done
    }
}

impl Volume {
    /// How full the volume is.
    pub fn room(&self) -> Usage {
        let in_use = self.store.zones_in_use();
        let margin = self.store.needed(0, Need::More);
        let has_snapshots = self.store.snapshots.are_any();
        let (nodes, rooms) = (held(&self.store.zones), held(&self.store.rooms));
        let left = zones_left(in_use, &nodes, &rooms);
        let (zones, usable) = (u64::from(self.store.superblock().zones()), u64::from(rooms.usable()));
        // Zones of nodes that few are in are given to data when it needs them.
        let spare = if has_snapshots { 0 } else { nodes.spare(margin) };
        let free = rooms.free_blocks() + u64::from((left + spare).saturating_sub(self.store.kept_zones())) * usable;
        Usage {
            total_bytes: zones * usable * BLOCK_BYTES,
            free_bytes: free * BLOCK_BYTES,
            files: self.store.files.load(std::sync::atomic::Ordering::Relaxed).max(0) as u64,
            free_files: None,
        }
    }

    /// Makes an open file durable as it is now.
    pub(crate) async fn flush_open(&self, file: &File, how: Flush) -> Result<(), VolumeError> {
        if !held(&file.state).delayed.is_empty() {
            Box::pin(self.write_back(file.id.number)).await?;
        }
        if how == Flush::All {
            self.log_times(file).await?;
        }
        let (logged, written) = {
            let state = held(&file.state);
            (state.logged, state.written)
        };
        let until = if how == Flush::All { self.store.last() } else { logged };
        self.sync_until(until, written).await
    }

    /// Makes all durable that was answered and does not wait in memory.
    pub(crate) async fn sync_answered(&self) -> Result<(), VolumeError> {
        let written = self.store.data.written();
        self.sync_until(self.store.last(), written).await
    }

    /// Makes changes and data writes durable, both at once.
    async fn sync_until(&self, change: u64, written: u64) -> Result<(), VolumeError> {
        let (changes, data) = join(self.store.sync(change), self.store.data.flush(written)).await;
        changes.and(data.map_err(|error| self.store.fail(error)))
    }

    /// Refuses attributes that the caller may not set.
    async fn check_set(&self, caller: &Caller, id: FileId, set: &SetAttributes) -> Result<(), VolumeError> {
        let shard = [keys::shard(id.number)];
        self.store
            .look(&shard, |view| {
                let record = record_of(view, id)?;
                if record.is_directory() {
                    return change::refuse(ErrorKind::IsDirectory, "it is a directory");
                }
                crate::attributes::check(view, caller, &record, set)
            })
            .await
    }
}
