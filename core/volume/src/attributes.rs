//! Attributes of files: read, and set by those who may.
//!
//! Invariant: of attributes that are set together, all are, or none.

use crate::access::{self, READ, WRITE};
use crate::change::{Need, Stop, refuse};
use crate::error::{ErrorKind, VolumeError};
use crate::journal::Reasons;
use crate::keys;
use crate::open_files::{File, Use};
use crate::record::Record;
use crate::service::{Attributes, Caller, FileId, FileKind, SetAttributes, SetTime, Time};
use crate::store::held;
use crate::volume::{Volume, directory_of, put_record, record_of};

/// Set-user-id, set-group-id: of a file that others may not take over by a change of its owner.
const SET_IDS: u32 = 0o6000;

impl Volume {
    pub(crate) async fn facts(&self, id: FileId) -> Result<Attributes, VolumeError> {
        let shard = [keys::shard(id.number)];
        self.store.look(&shard, |view| Ok(self.with_open(record_of(view, id)?.facts(id.number)))).await
    }

    pub(crate) async fn facts_of_number(&self, number: u64) -> Result<Attributes, VolumeError> {
        let shard = keys::shard(number);
        let facts = self.store.look([shard], |view| {
            let found = view.get(shard, &keys::record(number))?;
            let record = found.map(|value| Record::decode(number, &value)).transpose()?;
            match record.filter(|record| record.links > 0) {
                Some(record) => Ok(self.with_open(record.facts(number))),
                None => refuse(ErrorKind::Stale, "no file has that number"),
            }
        });
        facts.await
    }

    pub(crate) async fn parent_of(&self, dir: FileId) -> Result<Attributes, VolumeError> {
        let shard = [keys::shard(dir.number)];
        let facts = self.store.look(&shard, |view| {
            let link = directory_of(view, dir)?.link;
            let parent = FileId { number: link.parent, generation: link.parent_generation };
            Ok(directory_of(view, parent)?.facts(parent.number))
        });
        facts.await
    }

    pub(crate) async fn may(&self, caller: &Caller, id: FileId, mask: u32) -> Result<(), VolumeError> {
        let shard = [keys::shard(id.number)];
        let allowed = self.store.look(&shard, |view| Ok(access::is_allowed(caller, &record_of(view, id)?, mask)));
        if allowed.await? {
            Ok(())
        } else {
            Err(VolumeError::new(ErrorKind::AccessDenied, "permissions do not allow it"))
        }
    }

    pub(crate) async fn link_target(&self, id: FileId) -> Result<Vec<u8>, VolumeError> {
        let shard = keys::shard(id.number);
        self.store
            .look([shard], |view| {
                if record_of(view, id)?.kind != FileKind::Symlink {
                    return refuse(ErrorKind::Invalid, "it is no symbolic link");
                }
                let target = view.get(shard, &keys::reparse(id.number))?;
                target.ok_or_else(|| VolumeError::corrupt("a symbolic link leads nowhere").into())
            })
            .await
    }

    /// Sets all but the length.
    pub(crate) async fn set_attributes(
        &self,
        caller: &Caller,
        id: FileId,
        set: &SetAttributes,
    ) -> Result<Attributes, VolumeError> {
        let Some(file) = self.open.enter_known(id.number) else {
            return self.set_known(None, caller, id, set).await;
        };
        let set = {
            // Times that are noted meanwhile, or taken along by data that is written back, would get lost.
            let _alone = file.data.write().await;
            self.set_known(Some(&file), caller, id, set).await
        };
        let left = self.leave(&file, Use::Own).await;
        set.and_then(|facts| left.map(|()| facts))
    }

    async fn set_known(
        &self,
        known: Option<&File>,
        caller: &Caller,
        id: FileId,
        set: &SetAttributes,
    ) -> Result<Attributes, VolumeError> {
        let now = self.now();
        let lazy = known.map(|file| {
            let state = held(&file.state);
            (state.accessed, state.modified)
        });
        let (mut facts, logged) = self
            .store
            .change([keys::shard(id.number)], Need::Less, |view| {
                let mut record = record_of(view, id)?;
                check(caller, &record, set)?;
                view.enforce(caller.limits());
                let (accessed, modified) = lazy.unwrap_or_default();
                record.accessed = accessed.map_or(record.accessed, |time| time.max(record.accessed));
                record.modified = modified.map_or(record.modified, |time| time.max(record.modified));
                apply(caller, &mut record, set, now);
                record.change = self.next_change();
                put_record(view, id.number, &record)?;
                if set.accessed.is_some() || set.modified.is_some() || set.created.is_some() {
                    view.tell(id.number, Reasons::BASIC_INFO_CHANGE);
                }
                Ok(record.facts(id.number))
            })
            .await?;
        if let Some(file) = known {
            let mut state = held(&file.state);
            (state.accessed, state.modified) = (None, None);
            state.recorded = (facts.accessed, facts.modified);
            state.logged = state.logged.max(logged);
            drop(state);
            file.refresh(&mut facts);
        }
        Ok(facts)
    }
}

/// Refuses what the caller may not set.
pub(crate) fn check(caller: &Caller, record: &Record, set: &SetAttributes) -> Result<(), Stop> {
    let refused = || refuse(ErrorKind::NotPermitted, "only the owner or an administrator may do it");
    if set.size_bytes.is_some() {
        access::allow(caller, record, WRITE)?;
    }
    if caller.is_checked || caller.uid == 0 {
        return Ok(());
    }
    let is_owner = caller.uid == record.uid;
    if set.mode.is_some() && !is_owner {
        return refused();
    }
    let keeps_owner = set.uid.is_none_or(|uid| uid == record.uid);
    let keeps_group = set.gid.is_none_or(|gid| is_owner && (gid == record.gid || caller.is_in(gid)));
    if (set.uid.is_some() || set.gid.is_some()) && !(is_owner && keeps_owner && keeps_group) {
        return refused();
    }
    let given = |time: Option<SetTime>| matches!(time, Some(SetTime::At(_)));
    if (given(set.accessed) || given(set.modified) || given(set.created)) && !is_owner {
        return refused();
    }
    if (set.accessed.is_some() || set.modified.is_some()) && !is_owner && !access::is_allowed(caller, record, WRITE) {
        return refuse(ErrorKind::AccessDenied, "permissions do not allow it");
    }
    Ok(())
}

fn apply(caller: &Caller, record: &mut Record, set: &SetAttributes, now: Time) {
    let time = |set: SetTime| match set {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    if let Some(mode) = set.mode {
        record.mode = mode & 0o7777;
        let loses_group = !caller.is_checked && caller.uid != 0 && !caller.is_in(record.gid);
        if loses_group && !record.is_directory() {
            record.mode &= !access::SET_GID;
        }
    }
    if set.uid.is_some() || set.gid.is_some() {
        (record.uid, record.gid) = (set.uid.unwrap_or(record.uid), set.gid.unwrap_or(record.gid));
        if !caller.is_checked && caller.uid != 0 && record.kind == FileKind::Regular && set.mode.is_none() {
            record.mode &= !SET_IDS;
        }
    }
    record.accessed = set.accessed.map_or(record.accessed, time);
    record.modified = set.modified.map_or(record.modified, time);
    record.created = set.created.map_or(record.created, time);
    record.changed = now;
}

impl Volume {
    /// Refuses to open a file for what the caller may not do.
    pub(crate) fn check_open(caller: &Caller, record: &Record, read: bool, write: bool) -> Result<(), Stop> {
        match record.kind {
            FileKind::Regular => {}
            FileKind::Directory => return refuse(ErrorKind::IsDirectory, "it is a directory"),
            _ => return refuse(ErrorKind::Invalid, "it holds no data"),
        }
        let mask = if read { READ } else { 0 } | if write { WRITE } else { 0 };
        access::allow(caller, record, mask)
    }
}
