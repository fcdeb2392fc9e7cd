//! Security descriptors of files: read, set, inherited by new files, and kept in step with owner, group and mode.
//!
//! ```text
//!   descriptor says no more than owner, group and mode ──▶ these are all there is: number 0
//!   any other                                          ──▶ its number; owner, group and mode are what it shows
//! ```
//!
//! A user of POSIX who creates a file gives a mode. What is inherited stays as it is, and stands behind what the mode gives
//! its owner, and denies to all others if it gives them nothing. Where the volume refuses changes of modes, the mode that was
//! given is left out.
//!
//! Invariant: the mode, user and group in a record are those that its descriptor shows.

use std::sync::Arc;

use holdfast_identity::well_known::ADMINISTRATORS;
use holdfast_identity::{
    Access, AccessMask, AclState, Control, Creation, DescriptorError, Explanation, Id, IdMap, ModeChange, ModeRefused,
    Privileges, Removal, SecurityDescriptor, Sid, Token, change_mode, check, check_removal, computed, create, explain,
    for_creator, mode_of, trivial_mode,
};

use crate::access::SET_GID;
use crate::change::{Need, Stop, View, refuse};
use crate::descriptors::{NOBODY, intern, node_of};
use crate::error::{ErrorKind, VolumeError};
use crate::keys;
use crate::record::Record;
use crate::scan::judge;
use crate::service::{Attributes, Caller, FileId, FileKind, SecurityParts, SetAttributes};
use crate::volume::{ROOT, Volume, put_record, record_of};

/// Permission bits that a descriptor shows.
const SHOWN: u32 = 0o777;
/// What nobody who knows of the attribute does to a read-only file.
const OF_DATA: AccessMask = AccessMask::WRITE_DATA.union(AccessMask::APPEND_DATA);
/// The sticky bit.
const STICKY: u32 = 0o1000;
/// Control bits of the two lists, in a descriptor that is set.
const OF_DACL: Control = Control::DACL_DEFAULTED
    .union(Control::DACL_AUTO_INHERIT_REQUIRED)
    .union(Control::DACL_AUTO_INHERITED)
    .union(Control::DACL_PROTECTED);
const OF_SACL: Control = Control::SACL_DEFAULTED
    .union(Control::SACL_AUTO_INHERIT_REQUIRED)
    .union(Control::SACL_AUTO_INHERITED)
    .union(Control::SACL_PROTECTED);

fn too_large(error: DescriptorError) -> Stop {
    VolumeError::new(ErrorKind::TooLarge, error.to_string()).into()
}

fn mode_refused(error: ModeRefused) -> Stop {
    let kind = if matches!(error, ModeRefused::TooLarge(_)) { ErrorKind::TooLarge } else { ErrorKind::NotPermitted };
    VolumeError::new(kind, error.to_string()).into()
}

/// The number of a user. Whoever has none is nobody, and quotas count by the identifier.
fn uid_of(ids: &IdMap, sid: &Sid) -> u32 {
    if let Some(Id::User(uid)) = ids.id_of(sid) { uid } else { NOBODY }
}

fn gid_of(ids: &IdMap, caller: Option<&Caller>, sid: &Sid) -> u32 {
    let is_group = |caller: &&Caller| caller.token.as_ref().is_some_and(|token| token.primary_group() == sid);
    match ids.id_of(sid) {
        Some(Id::Group(gid)) => gid,
        _ => caller.filter(is_group).map_or(NOBODY, |caller| caller.gid),
    }
}

/// Has a record name a descriptor, and show what that shows. The record is to be put back.
pub(crate) fn put_descriptor(
    view: &mut View<'_>,
    caller: Option<&Caller>,
    record: &mut Record,
    descriptor: &SecurityDescriptor,
) -> Result<(), Stop> {
    let (Some(owner), Some(group)) = (descriptor.owner, descriptor.group) else {
        return refuse(ErrorKind::Invalid, "a security descriptor of a file names its owner and its group");
    };
    let (ids, before) = (view.known_descriptors().ids(), view.known_descriptors().of(record));
    // Whoever stays the same keeps the number that quotas count by.
    if before.owner != Some(owner) {
        record.uid = uid_of(&ids, &owner);
    }
    if before.group != Some(group) {
        record.gid = gid_of(&ids, caller, &group);
    }
    let are_numbers = ids.sid_of(Id::User(record.uid)) == owner && ids.sid_of(Id::Group(record.gid)) == group;
    let (security, mode) = match trivial_mode(descriptor, node_of(record)).filter(|_| are_numbers) {
        Some(mode) => (0, mode),
        None => (intern(view, descriptor)?, mode_of(descriptor)),
    };
    (record.security, record.mode) = (security, record.mode & !SHOWN | mode);
    Ok(())
}

/// Whether the caller may have a file belong to somebody ([MS-FSA] 2.1.5.17).
fn check_owner(caller: &Caller, token: &Token, owner: &Sid, before: Option<&Sid>) -> Result<(), Stop> {
    let is_own = token.user() == owner || *owner == ADMINISTRATORS && token.is_granted_as(owner);
    if is_own || before == Some(owner) || caller.is_root() || token.privileges().contains(Privileges::RESTORE) {
        return Ok(());
    }
    refuse(ErrorKind::NotPermitted, "only who may restore files may give them to somebody else")
}

impl Volume {
    /// Gives a file that is to be created what it inherits, or what its creator gave. Its record says whose it is.
    pub(crate) fn secure_new(
        &self,
        view: &mut View<'_>,
        caller: &Caller,
        directory: &Record,
        record: &mut Record,
        given: Option<&SecurityDescriptor>,
    ) -> Result<(), Stop> {
        let is_plain = directory.security == 0 && caller.token.is_none() || record.kind == FileKind::Symlink;
        if is_plain && given.is_none() {
            if let Some(token) = &caller.token {
                record.uid = uid_of(&view.known_descriptors().ids(), token.user());
            }
            return Ok(());
        }
        let (parent, ids) = (view.known_descriptors().of(directory), view.known_descriptors().ids());
        let token = caller.as_token(&ids, &[])?;
        if let Some(owner) = given.and_then(|given| given.owner.as_ref()) {
            check_owner(caller, &token, owner, None)?;
        }
        let may_audit = token.privileges().contains(Privileges::SECURITY);
        if given.is_some_and(|given| given.sacl != AclState::Absent) && !may_audit {
            return refuse(ErrorKind::NotPermitted, "only who may manage auditing may say what is audited");
        }
        let (owner, mut group) = match &caller.token {
            Some(token) => (*token.user(), *token.primary_group()),
            None => (ids.sid_of(Id::User(record.uid)), ids.sid_of(Id::Group(record.gid))),
        };
        if directory.mode & SET_GID != 0 {
            group = parent.group.unwrap_or(group);
        }
        let node = node_of(record);
        let default = computed(owner, group, record.mode, node).dacl;
        let made = create(Creation {
            node,
            parent: &parent,
            given,
            owner,
            group,
            default: &default,
            auto_inherit: parent.control.contains(Control::DACL_AUTO_INHERITED),
        });
        let mut made = made.map_err(too_large)?;
        let gives_mode = caller.token.is_none() && given.is_none() && made.dacl != default;
        if gives_mode && view.known_descriptors().mode_change() != ModeChange::Refuse {
            let creator = caller.as_token(&ids, &[&made])?;
            made = for_creator(made, &creator, record.mode, node).map_err(too_large)?;
        }
        put_descriptor(view, Some(caller), record, &made)
    }

    /// Gives a file another owner, group and mode, of which those count that are set.
    pub(crate) fn set_owner_and_mode(
        &self,
        view: &mut View<'_>,
        record: &mut Record,
        set: &SetAttributes,
    ) -> Result<(), Stop> {
        let (uid, gid) = (set.uid.unwrap_or(record.uid), set.gid.unwrap_or(record.gid));
        let mode = set.mode.map_or(record.mode, |mode| mode & 0o7777);
        if record.security == 0 {
            (record.uid, record.gid, record.mode) = (uid, gid, mode);
            return Ok(());
        }
        let is_same = (uid, gid, mode & SHOWN) == (record.uid, record.gid, record.mode & SHOWN);
        record.mode = mode & !SHOWN | record.mode & SHOWN;
        if is_same {
            return Ok(());
        }
        let known = view.known_descriptors();
        let (mut descriptor, ids) = ((*known.of(record)).clone(), known.ids());
        if uid != record.uid {
            descriptor.owner = Some(ids.sid_of(Id::User(uid)));
        }
        if gid != record.gid {
            descriptor.group = Some(ids.sid_of(Id::Group(gid)));
        }
        if set.mode.is_some() && mode & SHOWN != mode_of(&descriptor) {
            descriptor = change_mode(&descriptor, mode, node_of(record), known.mode_change()).map_err(mode_refused)?;
        }
        put_descriptor(view, None, record, &descriptor)
    }

    pub(crate) async fn security_of(&self, caller: &Caller, id: FileId) -> Result<SecurityDescriptor, VolumeError> {
        let look = self.store.look([keys::shard(id.number)], |view| {
            let descriptor = view.known_descriptors().of(&record_of(view, id)?);
            let may = |desired| -> Result<bool, Stop> {
                let access = Access { desired, backup_intent: caller.is_root() };
                let ids = view.known_descriptors().ids();
                Ok(caller.is_let(&ids, &[&descriptor], |token| check(&descriptor, token, access).is_ok())?)
            };
            let is_known = caller.token.is_some() && caller.is_checked;
            if !is_known && !may(AccessMask::READ_CONTROL)? {
                return refuse(ErrorKind::AccessDenied, "permissions do not allow it");
            }
            let mut shown = (*descriptor).clone();
            if !may(AccessMask::ACCESS_SYSTEM_SECURITY)? {
                shown.sacl = AclState::Absent;
                shown.control -= OF_SACL;
            }
            Ok(shown)
        });
        look.await
    }

    pub(crate) async fn set_security_of(
        &self,
        caller: &Caller,
        id: FileId,
        parts: SecurityParts,
        given: &SecurityDescriptor,
    ) -> Result<Attributes, VolumeError> {
        let now = self.now();
        let change = self.store.change([keys::shard(id.number)], Need::More, |view| {
            let mut record = record_of(view, id)?;
            let known = view.known_descriptors();
            let before = known.of(&record);
            let token = caller.as_token(&known.ids(), &[&before])?;
            check_set(caller, &token, &before, parts, given)?;
            view.enforce(caller.limits());
            put_descriptor(view, Some(caller), &mut record, &merged(&before, parts, given))?;
            (record.changed, record.change) = (now, self.next_change());
            put_record(view, id.number, &record)?;
            Ok(self.with_open(record.facts(id.number)))
        });
        Ok(change.await?.0)
    }

    pub(crate) async fn granted_of(
        &self,
        caller: &Caller,
        id: FileId,
        desired: AccessMask,
    ) -> Result<AccessMask, VolumeError> {
        let look = self.store.look([keys::shard(id.number)], |view| {
            let record = record_of(view, id)?;
            if caller.is_root() {
                return Ok((desired.mapped() - AccessMask::MAXIMUM_ALLOWED) | AccessMask::FILE_ALL);
            }
            let descriptor = view.known_descriptors().of(&record);
            let token = caller.as_token(&view.known_descriptors().ids(), &[&descriptor])?;
            let above = granted_above(view, (id, &record), &descriptor, caller)?;
            let asked = desired.mapped();
            let is_read_only = record.is_read_only() && !record.is_directory();
            if is_read_only && asked.intersects(OF_DATA) {
                return refuse(ErrorKind::AccessDenied, "the file is read-only: take that attribute away first");
            }
            // Whoever asks for the most gets what is left.
            let withheld = if is_read_only { OF_DATA } else { AccessMask::empty() };
            let is_maximum = asked.contains(AccessMask::MAXIMUM_ALLOWED);
            let above = if is_maximum { above } else { above & asked };
            match check(&descriptor, &token, Access::to(asked - above)) {
                Ok(granted) => Ok((granted | above) - withheld),
                Err(refused) if refused.missing == AccessMask::MAXIMUM_ALLOWED && !above.is_empty() => Ok(above),
                Err(refused) => refuse(ErrorKind::AccessDenied, refused.to_string()),
            }
        });
        look.await
    }

    pub(crate) async fn explain_of(
        &self,
        caller: &Caller,
        id: FileId,
        desired: AccessMask,
    ) -> Result<Explanation, VolumeError> {
        let look = self.store.look([keys::shard(id.number)], |view| {
            let descriptor = view.known_descriptors().of(&record_of(view, id)?);
            let token = caller.as_token(&view.known_descriptors().ids(), &[&descriptor])?;
            Ok(explain(&descriptor, &token, Access { desired, backup_intent: caller.is_root() }))
        });
        look.await
    }
}

/// What the directory of a file grants: to delete it, and to look at its attributes.
fn granted_above(
    view: &View<'_>,
    (id, record): (FileId, &Record),
    descriptor: &Arc<SecurityDescriptor>,
    caller: &Caller,
) -> Result<AccessMask, Stop> {
    let mut granted = AccessMask::empty();
    if id.number == ROOT || record.link.name.is_empty() {
        return Ok(granted);
    }
    let Some(above) = judge::living(view, record.link.parent)? else { return Ok(granted) };
    let directory = view.known_descriptors().of(&above);
    let token = &*caller.as_token(&view.known_descriptors().ids(), &[descriptor, &directory])?;
    let is_sticky = above.mode & STICKY != 0;
    let removal = Removal { file: descriptor, directory: &directory, is_sticky, backup_intent: false };
    granted.set(AccessMask::DELETE, check_removal(removal, token).is_ok());
    let lists = check(&directory, token, Access::to(AccessMask::READ_DATA)).is_ok();
    granted.set(AccessMask::READ_ATTRIBUTES, lists);
    Ok(granted)
}

/// Refuses parts that the caller may not set.
fn check_set(
    caller: &Caller,
    token: &Token,
    before: &SecurityDescriptor,
    parts: SecurityParts,
    given: &SecurityDescriptor,
) -> Result<(), Stop> {
    if parts.is_empty() || !SecurityParts::all().contains(parts) {
        return refuse(ErrorKind::Invalid, "a security descriptor is set in one of its four parts at least");
    }
    let of_parts = [
        (SecurityParts::OWNER | SecurityParts::GROUP, AccessMask::WRITE_OWNER),
        (SecurityParts::DACL, AccessMask::WRITE_DAC),
        (SecurityParts::SACL, AccessMask::ACCESS_SYSTEM_SECURITY),
    ];
    let needed = of_parts.iter().filter(|(of, _)| parts.intersects(*of));
    let mut desired = needed.fold(AccessMask::empty(), |all, (_, right)| all | *right);
    if caller.token.is_some() && caller.is_checked {
        // Who opened the file with these rights; auditing is a matter of privilege.
        desired &= AccessMask::ACCESS_SYSTEM_SECURITY;
    }
    if let Err(refused) = check(before, token, Access { desired, backup_intent: caller.is_root() }) {
        return refuse(ErrorKind::AccessDenied, refused.to_string());
    }
    let lacks = |part, sid: &Option<Sid>| parts.contains(part) && sid.is_none();
    if lacks(SecurityParts::OWNER, &given.owner) || lacks(SecurityParts::GROUP, &given.group) {
        return refuse(ErrorKind::Invalid, "the owner or group that is to be set is not given");
    }
    match &given.owner {
        Some(owner) if parts.contains(SecurityParts::OWNER) => check_owner(caller, token, owner, before.owner.as_ref()),
        _ => Ok(()),
    }
}

/// A descriptor with parts of another one. Where a DACL is to be set and none is given, nothing is held back.
fn merged(before: &SecurityDescriptor, parts: SecurityParts, given: &SecurityDescriptor) -> SecurityDescriptor {
    let mut new = before.clone();
    if parts.contains(SecurityParts::OWNER) {
        new.owner = given.owner;
        new.control.set(Control::OWNER_DEFAULTED, given.control.contains(Control::OWNER_DEFAULTED));
    }
    if parts.contains(SecurityParts::GROUP) {
        new.group = given.group;
        new.control.set(Control::GROUP_DEFAULTED, given.control.contains(Control::GROUP_DEFAULTED));
    }
    if parts.contains(SecurityParts::DACL) {
        new.dacl = if given.dacl == AclState::Absent { AclState::Null } else { given.dacl.clone() };
        new.control = (new.control - OF_DACL) | (given.control & OF_DACL);
    }
    if parts.contains(SecurityParts::SACL) {
        new.sacl = given.sacl.clone();
        new.control = (new.control - OF_SACL) | (given.control & OF_SACL);
    }
    // What was there keeps the marks that it has.
    let kept = before.control & (Control::DACL_AUTO_INHERITED | Control::SACL_AUTO_INHERITED);
    let mut settled = new.settled();
    for (part, bit) in
        [(SecurityParts::DACL, Control::DACL_AUTO_INHERITED), (SecurityParts::SACL, Control::SACL_AUTO_INHERITED)]
    {
        if !parts.contains(part) {
            settled.control.set(bit, kept.contains(bit));
        }
    }
    settled
}
