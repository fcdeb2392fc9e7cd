//! Attributes of files: read, and set by those who may.
//!
//! Invariant: of attributes that are set together, all are, or none.

use holdfast_identity::{AccessMask, Privileges};

use crate::access::{self, READ, WRITE};
use crate::change::{Need, Stop, View, refuse};
use crate::error::{ErrorKind, VolumeError};
use crate::journal::Reasons;
use crate::keys;
use crate::open_files::{File, Use};
use crate::record::Record;
use crate::service::{Attributes, Caller, DosAttributes, FileId, FileKind, OpenMode, SetAttributes, SetTime, Time};
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
        let allowed = self.store.look(&shard, |view| access::is_allowed(view, caller, &record_of(view, id)?, mask));
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
                check(view, caller, &record, set)?;
                view.enforce(caller.limits());
                let (accessed, modified) = lazy.unwrap_or_default();
                record.accessed = accessed.map_or(record.accessed, |time| time.max(record.accessed));
                if let Some(modified) = modified {
                    record.modified = modified.max(record.modified);
                    record.note_data();
                }
                self.set_owner_and_mode(view, &mut record, set)?;
                apply(caller, &mut record, set, now);
                record.change = self.next_change();
                put_record(view, id.number, &record)?;
                let times = [set.accessed, set.modified, set.created];
                if set.dos.is_some() || times.iter().any(Option::is_some) {
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
pub(crate) fn check(view: &View<'_>, caller: &Caller, record: &Record, set: &SetAttributes) -> Result<(), Stop> {
    let refused = || refuse(ErrorKind::NotPermitted, "only the owner or an administrator may do it");
    if set.size_bytes.is_some() {
        access::allow(view, caller, record, WRITE)?;
    }
    if caller.token.is_some() {
        return check_token(view, caller, record, set);
    }
    if set.mode.is_some_and(|mode| (mode ^ record.mode) & 0o777 != 0) {
        // Who checked knows only the mode, and not who may change it.
        access::allow_rights(view, caller, record, AccessMask::WRITE_DAC)?;
    }
    if caller.is_checked || caller.uid == 0 {
        return Ok(());
    }
    let is_owner = caller.is_owner(record);
    if set.mode.is_some() && !is_owner {
        return refused();
    }
    let keeps_owner = set.uid.is_none_or(|uid| uid == record.uid);
    let keeps_group = set.gid.is_none_or(|gid| is_owner && (gid == record.gid || caller.is_in(gid)));
    if (set.uid.is_some() || set.gid.is_some()) && !(is_owner && keeps_owner && keeps_group) {
        return refused();
    }
    let given = |time: Option<SetTime>| matches!(time, Some(SetTime::At(_)));
    if (given(set.accessed) || given(set.modified) || given(set.created) || set.dos.is_some()) && !is_owner {
        return refused();
    }
    if (set.accessed.is_some() || set.modified.is_some())
        && !is_owner
        && !access::is_allowed(view, caller, record, WRITE)?
    {
        return refuse(ErrorKind::AccessDenied, "permissions do not allow it");
    }
    Ok(())
}

/// The same of a caller with a token, by the rights that the descriptor grants.
fn check_token(view: &View<'_>, caller: &Caller, record: &Record, set: &SetAttributes) -> Result<(), Stop> {
    let is_chown = set.uid.is_some() || set.gid.is_some();
    let is_timed = set.accessed.is_some() || set.modified.is_some() || set.created.is_some() || set.dos.is_some();
    let of_parts = [
        (set.mode.is_some(), AccessMask::WRITE_DAC),
        (is_chown, AccessMask::WRITE_OWNER),
        (is_timed, AccessMask::WRITE_ATTRIBUTES),
    ];
    let needed = of_parts.iter().filter(|(is_set, _)| *is_set);
    access::allow_rights(view, caller, record, needed.fold(AccessMask::empty(), |all, (_, right)| all | *right))?;
    let is_own = set.uid.is_none_or(|uid| uid == record.uid || uid == caller.uid);
    let may_restore = caller.token.as_ref().is_some_and(|token| token.privileges().contains(Privileges::RESTORE));
    if is_own || may_restore {
        return Ok(());
    }
    refuse(ErrorKind::NotPermitted, "only who may restore files may give them to somebody else")
}

fn apply(caller: &Caller, record: &mut Record, set: &SetAttributes, now: Time) {
    let time = |set: SetTime| match set {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    if set.mode.is_some() {
        let loses_group = !caller.is_checked && !caller.is_root() && !caller.is_in(record.gid);
        if loses_group && !record.is_directory() {
            record.mode &= !access::SET_GID;
        }
    }
    let is_given_away = (set.uid.is_some() || set.gid.is_some()) && set.mode.is_none();
    if is_given_away && !caller.is_checked && !caller.is_root() && record.kind == FileKind::Regular {
        record.mode &= !SET_IDS;
    }
    if let Some(dos) = set.dos {
        let kept = record.attributes & !DosAttributes::SETTABLE.bits();
        record.attributes = kept | (dos & DosAttributes::SETTABLE).bits();
    }
    record.accessed = set.accessed.map_or(record.accessed, time);
    record.modified = set.modified.map_or(record.modified, time);
    record.created = set.created.map_or(record.created, time);
    record.changed = now;
}

impl Volume {
    /// Refuses to open a file for what the caller may not do.
    pub(crate) fn check_open(view: &View<'_>, caller: &Caller, record: &Record, mode: OpenMode) -> Result<(), Stop> {
        match record.kind {
            FileKind::Regular => {}
            FileKind::Directory => return refuse(ErrorKind::IsDirectory, "it is a directory"),
            _ => return refuse(ErrorKind::Invalid, "it holds no data"),
        }
        let mask = if mode.read { READ } else { 0 } | if mode.write { WRITE } else { 0 };
        if mode.write && !record.is_directory() {
            access::allow_change(caller, record)?;
        }
        access::allow(view, caller, record, mask)
    }
}
