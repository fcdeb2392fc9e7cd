//! Who may do what: by owner, group and mode (POSIX.1-2017 4.5), and by security descriptors ([MS-DTYP] 2.5.3) where a
//! file has one of its own, or the caller comes with a token.
//!
//! ```text
//!                          file without a descriptor    file with one
//!   POSIX, unchecked       mode                         descriptor
//!   POSIX, checked         nothing                      descriptor: who checked knows only the mode that it amounts to
//!   user 0                 everything                   everything
//!   token, unchecked       descriptor of the mode       descriptor
//!   token, checked         nothing                      nothing
//! ```
//!
//! Invariant: user 0 may do everything, but execute what nobody may.

use std::sync::Arc;

use holdfast_identity::{
    Access, AccessMask, Privileges, Removal, SecurityDescriptor, Token, check, check_removal, check_traverse,
};

use crate::change::{Stop, View, refuse};
use crate::descriptors::NOBODY;
use crate::error::ErrorKind;
use crate::quota::Enforce;
use crate::record::Record;
use crate::service::{Caller, FileKind};

/// To read, write, execute or pass through.
pub(crate) const READ: u32 = 4;
pub(crate) const WRITE: u32 = 2;
pub(crate) const EXECUTE: u32 = 1;
/// Only the owner of a name may take it out of such a directory.
const STICKY: u32 = 0o1000;
/// Files in such a directory are of its group.
pub(crate) const SET_GID: u32 = 0o2000;
const DENIED: &str = "permissions do not allow it";

impl Caller {
    /// Whether the caller is of a group.
    pub(crate) fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.known().contains(&gid)
    }

    /// Which quotas hold for what the caller asks for.
    pub(crate) fn limits(&self) -> Enforce {
        if self.is_root() { Enforce::Trees } else { Enforce::All }
    }

    /// Whether it is user 0 of POSIX.
    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0 && self.token.is_none()
    }

    pub(crate) fn is_owner(&self, record: &Record) -> bool {
        // That number stands for all owners without one.
        let is_somebody = record.security == 0 || record.uid != NOBODY;
        self.is_root() || self.uid == record.uid && is_somebody
    }
}

/// The descriptor by which it is decided what a caller may do with a file, if it is decided by one.
fn deciding(view: &View<'_>, caller: &Caller, record: &Record) -> Option<Arc<SecurityDescriptor>> {
    let is_deciding = match caller.token {
        Some(_) => !caller.is_checked,
        None => record.security != 0 && !caller.is_root(),
    };
    is_deciding.then(|| view.known_descriptors().of(record))
}

/// The rights that bits of POSIX stand for (RFC 8881 6.3.2).
fn rights(mask: u32) -> AccessMask {
    let pairs = [
        (READ, AccessMask::READ_DATA),
        (WRITE, AccessMask::WRITE_DATA | AccessMask::APPEND_DATA),
        (EXECUTE, AccessMask::EXECUTE),
    ];
    pairs.iter().filter(|(bit, _)| mask & bit != 0).fold(AccessMask::empty(), |all, (_, rights)| all | *rights)
}

/// Whether the caller may do all of `mask`.
pub(crate) fn is_allowed(view: &View<'_>, caller: &Caller, record: &Record, mask: u32) -> Result<bool, Stop> {
    if let Some(descriptor) = deciding(view, caller, record) {
        return has_rights(view, caller, record, &descriptor, rights(mask));
    }
    if caller.token.is_some() {
        return Ok(true);
    }
    if caller.uid == 0 {
        let may_execute = record.kind == FileKind::Directory || record.mode & 0o111 != 0;
        return Ok(mask & EXECUTE == 0 || may_execute);
    }
    let class = if caller.uid == record.uid {
        6
    } else if caller.is_in(record.gid) {
        3
    } else {
        0
    };
    Ok(record.mode >> class & mask == mask)
}

fn has_rights(
    view: &View<'_>,
    caller: &Caller,
    record: &Record,
    descriptor: &SecurityDescriptor,
    rights: AccessMask,
) -> Result<bool, Stop> {
    let may = |token: &Token| {
        // Directories are passed through by privilege.
        let passes = record.is_directory() && token.privileges().contains(Privileges::CHANGE_NOTIFY);
        let needed = if passes { rights - AccessMask::EXECUTE } else { rights };
        check(descriptor, token, Access::to(needed)).is_ok()
    };
    Ok(caller.is_let(&view.known_descriptors().ids(), &[descriptor], may)?)
}

/// Refuses what the caller may not do, unless that was checked.
pub(crate) fn allow(view: &View<'_>, caller: &Caller, record: &Record, mask: u32) -> Result<(), Stop> {
    let is_known = caller.is_checked && deciding(view, caller, record).is_none();
    if is_known || is_allowed(view, caller, record, mask)? {
        return Ok(());
    }
    refuse(ErrorKind::AccessDenied, DENIED)
}

/// Refuses what a descriptor does not grant, where one decides; says whether one does.
pub(crate) fn allow_rights(
    view: &View<'_>,
    caller: &Caller,
    record: &Record,
    rights: AccessMask,
) -> Result<bool, Stop> {
    match deciding(view, caller, record) {
        None => Ok(false),
        Some(descriptor) if has_rights(view, caller, record, &descriptor, rights)? => Ok(true),
        Some(_) => refuse(ErrorKind::AccessDenied, DENIED),
    }
}

/// Refuses to change the data of a file that is read-only, or to remove it, to those who know of that ([MS-FSA] 2.1.5.1.2.1).
/// Users of POSIX do not.
pub(crate) fn allow_change(caller: &Caller, record: &Record) -> Result<(), Stop> {
    if caller.token.is_some() && record.is_read_only() {
        return refuse(ErrorKind::AccessDenied, "the file is read-only: take that attribute away first");
    }
    Ok(())
}

/// Refuses to put a name into a directory that is not the caller's to fill.
pub(crate) fn allow_adding(
    view: &View<'_>,
    caller: &Caller,
    directory: &Record,
    is_directory: bool,
) -> Result<(), Stop> {
    let right = if is_directory { AccessMask::APPEND_DATA } else { AccessMask::WRITE_DATA };
    if allow_rights(view, caller, directory, right | AccessMask::EXECUTE)? {
        return Ok(());
    }
    allow(view, caller, directory, WRITE | EXECUTE)
}

/// Refuses to take a name out of a directory that is not the caller's to take.
pub(crate) fn allow_removal(view: &View<'_>, caller: &Caller, directory: &Record, child: &Record) -> Result<(), Stop> {
    let by_descriptors =
        deciding(view, caller, directory).is_some() || deciding(view, caller, child).is_some() && !caller.is_checked;
    if by_descriptors {
        let known = view.known_descriptors();
        let (of_file, of_directory) = (known.of(child), known.of(directory));
        let removal = Removal {
            file: &of_file,
            directory: &of_directory,
            is_sticky: directory.mode & STICKY != 0,
            backup_intent: false,
        };
        let may =
            |token: &Token| check_traverse(&of_directory, token).and_then(|()| check_removal(removal, token)).is_ok();
        let is_let = caller.is_let(&known.ids(), &[&of_file, &of_directory], may)?;
        return if is_let { Ok(()) } else { refuse(ErrorKind::AccessDenied, DENIED) };
    }
    allow(view, caller, directory, WRITE | EXECUTE)?;
    let is_free = directory.mode & STICKY == 0 || caller.is_owner(child) || caller.is_owner(directory);
    if caller.is_checked || is_free {
        return Ok(());
    }
    refuse(ErrorKind::NotPermitted, "only its owner may remove or rename it in a sticky directory")
}
