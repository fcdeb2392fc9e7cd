//! Whether a caller gets the access that was asked for ([MS-DTYP] 2.5.3.2; backup intent by [MS-FSA] 2.1.5.1).
//!
//! ```text
//!   privileges ─▶ what owners may do ─▶ entries of the DACL in order ─▶ the rest is refused
//! ```
//!
//! It is on the path of every open: it takes no memory, and one look at each entry at most.
//!
//! Invariant: each right is decided once, by the first that speaks of it.

use crate::ace::Rule;
use crate::acl::AclState;
use crate::descriptor::SecurityDescriptor;
use crate::mask::AccessMask;
use crate::sid::Sid;
use crate::token::{Privileges, Token};
use crate::well_known::OWNER_RIGHTS;

/// What the privilege of backup grants.
const BACKUP: AccessMask = AccessMask::FILE_READ.union(AccessMask::EXECUTE).union(AccessMask::ACCESS_SYSTEM_SECURITY);
/// What the privilege of restoring grants.
const RESTORE: AccessMask = AccessMask::FILE_WRITE
    .union(AccessMask::DELETE)
    .union(AccessMask::WRITE_DAC)
    .union(AccessMask::WRITE_OWNER)
    .union(AccessMask::ACCESS_SYSTEM_SECURITY);
/// What owners may do without an entry.
const OWNER: AccessMask = AccessMask::READ_CONTROL.union(AccessMask::WRITE_DAC);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Rights, also generic ones and [`AccessMask::MAXIMUM_ALLOWED`].
    pub desired: AccessMask,
    /// The caller opens for backup (`FILE_OPEN_FOR_BACKUP_INTENT`): the privileges of backup and restoring count.
    pub backup_intent: bool,
}

impl Access {
    /// Rights for ordinary use.
    pub fn to(desired: AccessMask) -> Self {
        Self { desired, backup_intent: false }
    }

    /// All that the caller may do.
    pub fn maximum() -> Self {
        Self::to(AccessMask::MAXIMUM_ALLOWED)
    }

    /// The rights to decide on: those that were named, and every one of files if the most is asked for.
    pub(crate) fn wanted(self) -> AccessMask {
        let named = self.named();
        if self.is_maximum() { named | AccessMask::FILE_ALL } else { named }
    }

    /// The rights that were named, generic ones mapped.
    fn named(self) -> AccessMask {
        self.desired.mapped() - AccessMask::MAXIMUM_ALLOWED
    }

    fn is_maximum(self) -> bool {
        self.desired.contains(AccessMask::MAXIMUM_ALLOWED)
    }
}

/// What decided on a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A privilege of the caller granted it.
    Privilege(Privileges),
    /// The caller is the owner.
    Owner,
    /// The file has no list, so everybody may do everything.
    NoList,
    /// An entry of the list.
    Entry {
        /// Its place in the DACL, from 0.
        index: usize,
        /// It came from a directory above.
        is_inherited: bool,
    },
    /// No entry concerns the caller and grants it, so it is refused.
    Nothing,
}

/// Some of what was asked for is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("permissions do not allow {}: ask the owner or an administrator for them", crate::readable::rights(*missing))]
pub struct Refused {
    /// What is not granted.
    pub missing: AccessMask,
}

/// Answers what is granted: the rights that were named, and all there are if the most was asked for. To ask for nothing
/// is granted; protocols that refuse that do so themselves.
///
/// # Errors
/// [`Refused`] if a right that was named is not granted, or if the most is nothing.
pub fn check(descriptor: &SecurityDescriptor, token: &Token, access: Access) -> Result<AccessMask, Refused> {
    let mut granted = AccessMask::empty();
    decide(descriptor, token, access, |rights, is_granted, _| {
        if is_granted {
            granted |= rights;
        }
    });
    let missing = access.named() - granted;
    if !missing.is_empty() {
        return Err(Refused { missing });
    }
    if granted.is_empty() && access.is_maximum() {
        return Err(Refused { missing: AccessMask::MAXIMUM_ALLOWED });
    }
    Ok(granted)
}

/// Lets those pass through a directory who have the right, or the privilege to need none.
///
/// # Errors
/// [`Refused`] for others.
pub fn check_traverse(directory: &SecurityDescriptor, token: &Token) -> Result<(), Refused> {
    if token.privileges().contains(Privileges::CHANGE_NOTIFY) {
        return Ok(());
    }
    check(directory, token, Access::to(AccessMask::EXECUTE)).map(|_| ())
}

/// Whether the caller is the owner: by an identifier that grants.
pub(crate) fn is_owner(descriptor: &SecurityDescriptor, token: &Token) -> bool {
    descriptor.owner.is_some_and(|owner| token.is_granted_as(&owner))
}

/// Decides on every right that is wanted. `on` hears of rights, whether they are granted, and why; of each right once.
pub(crate) fn decide(
    descriptor: &SecurityDescriptor,
    token: &Token,
    access: Access,
    mut on: impl FnMut(AccessMask, bool, Cause),
) {
    let mut open = access.wanted();
    let mut settle = |rights: AccessMask, is_granted, cause| {
        let rights = rights & open;
        if !rights.is_empty() {
            open -= rights;
            on(rights, is_granted, cause);
        }
        open.is_empty()
    };
    let has = |privilege| token.privileges().contains(privilege);
    let named = access.named();
    if has(Privileges::SECURITY) {
        settle(named & AccessMask::ACCESS_SYSTEM_SECURITY, true, Cause::Privilege(Privileges::SECURITY));
    }
    if has(Privileges::TAKE_OWNERSHIP) {
        settle(named & AccessMask::WRITE_OWNER, true, Cause::Privilege(Privileges::TAKE_OWNERSHIP));
    }
    for (privilege, rights) in [(Privileges::BACKUP, BACKUP), (Privileges::RESTORE, RESTORE)] {
        if access.backup_intent && has(privilege) {
            settle(rights, true, Cause::Privilege(privilege));
        }
    }
    // No entry grants it, not even to everybody.
    settle(AccessMask::ACCESS_SYSTEM_SECURITY, false, Cause::Nothing);
    let AclState::Present(acl) = &descriptor.dacl else {
        settle(AccessMask::FILE_ALL, true, Cause::NoList);
        settle(AccessMask::all(), false, Cause::Nothing);
        return;
    };
    let is_owner = is_owner(descriptor, token);
    let speaks_of_owner = |sid: Option<&Sid>| sid == Some(&OWNER_RIGHTS);
    if is_owner && !acl.entries().iter().any(|entry| !entry.is_inherit_only() && speaks_of_owner(entry.sid())) {
        settle(OWNER, true, Cause::Owner);
    }
    let is_denied_as_owner = || descriptor.owner.is_some_and(|owner| token.is_denied_as(&owner));
    for (index, entry) in acl.entries().iter().enumerate() {
        let cause = Cause::Entry { index, is_inherited: entry.is_inherited() };
        let is_done = match entry.rule() {
            Some(Rule::Allow(mask, sid)) if token.is_granted_as(sid) || *sid == OWNER_RIGHTS && is_owner => {
                settle(mask, true, cause)
            }
            Some(Rule::Deny(mask, sid)) if token.is_denied_as(sid) || *sid == OWNER_RIGHTS && is_denied_as_owner() => {
                settle(mask, false, cause)
            }
            _ => false,
        };
        if is_done {
            return;
        }
    }
    settle(AccessMask::all(), false, Cause::Nothing);
}
