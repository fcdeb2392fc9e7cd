//! Who may do what, by owner, group and mode (POSIX.1-2017 4.5).
//!
//! Invariant: user 0 may do everything, but execute what nobody may.

use crate::change::{Stop, refuse};
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

impl Caller {
    /// Whether the caller is of a group.
    pub(crate) fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Which quotas hold for what the caller asks for.
    pub(crate) fn limits(&self) -> Enforce {
        if self.uid == 0 { Enforce::Trees } else { Enforce::All }
    }

    pub(crate) fn is_owner(&self, record: &Record) -> bool {
        self.uid == 0 || self.uid == record.uid
    }
}

/// Whether the caller may do all of `mask`.
pub(crate) fn is_allowed(caller: &Caller, record: &Record, mask: u32) -> bool {
    if caller.uid == 0 {
        let may_execute = record.kind == FileKind::Directory || record.mode & 0o111 != 0;
        return mask & EXECUTE == 0 || may_execute;
    }
    let class = if caller.uid == record.uid {
        6
    } else if caller.is_in(record.gid) {
        3
    } else {
        0
    };
    record.mode >> class & mask == mask
}

/// Refuses what the caller may not do, unless that was checked.
pub(crate) fn allow(caller: &Caller, record: &Record, mask: u32) -> Result<(), Stop> {
    if caller.is_checked || is_allowed(caller, record, mask) {
        return Ok(());
    }
    refuse(ErrorKind::AccessDenied, "permissions do not allow it")
}

/// Refuses to take a name out of a directory that is not the caller's to take.
pub(crate) fn allow_removal(caller: &Caller, directory: &Record, child: &Record) -> Result<(), Stop> {
    allow(caller, directory, WRITE | EXECUTE)?;
    let is_free = directory.mode & STICKY == 0 || caller.is_owner(child) || caller.is_owner(directory);
    if caller.is_checked || is_free {
        return Ok(());
    }
    refuse(ErrorKind::NotPermitted, "only its owner may remove or rename it in a sticky directory")
}
