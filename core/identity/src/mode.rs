//! The nine permission bits of POSIX as a descriptor, and those of a descriptor (RFC 8881 6.3.2).
//!
//! ```text
//!   deny   owner     what group or others may and the owner may not
//!   deny   group     what others may and the group may not          (behind the owner's, if that speaks of the same)
//!   allow  owner     its bits
//!   allow  group     its bits
//!   allow  Everyone  the bits of others
//! ```
//!
//! A class of POSIX gets its own bits only, while entries of all classes that a caller is in add up: entries that deny
//! take away what a later class has and an earlier one has not. Most modes need none.
//!
//! Invariant: for every caller, the check of a computed descriptor grants what POSIX grants (POSIX.1-2017 4.5).

use crate::ace::{Ace, AceBody, AceFlags, AceKind};
use crate::acl::{Acl, AclState};
use crate::descriptor::{Control, SecurityDescriptor};
use crate::inherit::Node;
use crate::mask::AccessMask;
use crate::sid::Sid;
use crate::well_known::{EVERYONE, OWNER_RIGHTS};

/// What everybody may do who reaches a file: look at it (`stat`).
pub(crate) const ALWAYS: AccessMask =
    AccessMask::READ_ATTRIBUTES.union(AccessMask::READ_CONTROL).union(AccessMask::SYNCHRONIZE);
/// What the owner may do in any mode: change times and permissions.
const OWNERS: AccessMask = AccessMask::WRITE_ATTRIBUTES.union(AccessMask::WRITE_DAC);
/// The bit of reading.
const READ: AccessMask = AccessMask::READ_DATA.union(AccessMask::READ_EA);
/// The bit of writing; without attributes, programs on Windows could not save.
const WRITE: AccessMask = AccessMask::WRITE_DATA
    .union(AccessMask::APPEND_DATA)
    .union(AccessMask::WRITE_EA)
    .union(AccessMask::WRITE_ATTRIBUTES);

/// The rights that three bits of a mode stand for.
pub(crate) fn rights(bits: u32, node: Node) -> AccessMask {
    let write = if node == Node::Directory { WRITE | AccessMask::DELETE_CHILD } else { WRITE };
    let pairs = [(4, READ), (2, write), (1, AccessMask::EXECUTE)];
    pairs.iter().filter(|(bit, _)| bits & bit != 0).fold(AccessMask::empty(), |all, (_, rights)| all | *rights)
}

/// The three bits that rights amount to (RFC 8881 6.3.2, rules 1 to 3).
fn bits(mask: AccessMask) -> u32 {
    let write = AccessMask::WRITE_DATA | AccessMask::APPEND_DATA;
    let pairs = [(4, AccessMask::READ_DATA), (2, write), (1, AccessMask::EXECUTE)];
    pairs.iter().filter(|(_, rights)| mask.contains(*rights)).fold(0, |all, (bit, _)| all | bit)
}

/// The rights of a mode's classes, and those that must be denied.
pub(crate) struct Classes {
    /// Allowed to the owner.
    pub(crate) owner: AccessMask,
    /// Allowed to the group.
    pub(crate) group: AccessMask,
    /// Allowed to everybody.
    pub(crate) everyone: AccessMask,
    /// Denied to the owner.
    pub(crate) not_owner: AccessMask,
    /// Denied to the group.
    pub(crate) not_group: AccessMask,
}

impl Classes {
    /// Those of the nine low bits of a mode.
    pub(crate) fn of(mode: u32, node: Node) -> Self {
        let [owner, group, everyone] = [6, 3, 0].map(|shift| rights(mode >> shift & 7, node) | ALWAYS);
        let owner = owner | OWNERS;
        Self { owner, group, everyone, not_owner: (group | everyone) - owner, not_group: everyone - group }
    }

    /// The entries in front: those that deny, and the owner's where it must stand before the group is denied something.
    pub(crate) fn first(&self, owner: Sid, group: Sid) -> Vec<Ace> {
        let ahead = if self.owner_stands_ahead() { self.owner } else { AccessMask::empty() };
        let entries = [Ace::deny(owner, self.not_owner), Ace::allow(owner, ahead), Ace::deny(group, self.not_group)];
        entries.into_iter().filter(is_about_something).collect()
    }

    /// Whether the owner, who may be of the group, has rights that are denied to the group.
    pub(crate) fn owner_stands_ahead(&self) -> bool {
        self.not_group.intersects(self.owner)
    }
}

fn is_about_something(entry: &Ace) -> bool {
    !matches!(entry.body, AceBody::Plain { mask, .. } if mask.is_empty())
}

/// The descriptor of a file that has only an owner, a group and a mode, of which the nine low bits count.
pub fn computed(owner: Sid, group: Sid, mode: u32, node: Node) -> SecurityDescriptor {
    let classes = Classes::of(mode, node);
    let mut entries = classes.first(owner, group);
    if !classes.owner_stands_ahead() {
        entries.push(Ace::allow(owner, classes.owner));
    }
    entries.extend([Ace::allow(group, classes.group), Ace::allow(EVERYONE, classes.everyone)]);
    let dacl = AclState::Present(Acl::new(entries).expect("five entries fit a list"));
    SecurityDescriptor { owner: Some(owner), group: Some(group), dacl, ..SecurityDescriptor::default() }
}

/// What the entries grant to a caller who is nothing but what `is` says.
pub(crate) fn granted(entries: &[Ace], is: impl Fn(&Sid) -> bool) -> AccessMask {
    let (mut granted, mut denied) = (AccessMask::empty(), AccessMask::empty());
    for entry in entries.iter().filter(|entry| !entry.is_inherit_only()) {
        match entry.body {
            AceBody::Plain { kind: AceKind::Allow, mask, sid } if is(&sid) => granted |= mask.mapped() - denied,
            AceBody::Plain { kind: AceKind::Deny, mask, sid } if is(&sid) => denied |= mask.mapped() - granted,
            _ => (),
        }
    }
    granted
}

/// The nine permission bits of a descriptor: for owner, group and everybody, what entries for it and for everybody grant
/// (RFC 8881 6.3.2). Named users and groups do not count.
pub fn mode_of(descriptor: &SecurityDescriptor) -> u32 {
    let AclState::Present(acl) = &descriptor.dacl else { return 0o777 };
    let entries = acl.entries();
    let is = |sid: &Sid, class: Option<Sid>| *sid == EVERYONE || class == Some(*sid);
    let owner = granted(entries, |sid| is(sid, descriptor.owner) || *sid == OWNER_RIGHTS);
    let group = granted(entries, |sid| is(sid, descriptor.group));
    let everyone = granted(entries, |sid| is(sid, None));
    bits(owner) << 6 | bits(group) << 3 | bits(everyone)
}

/// The mode of a descriptor that says no more than owner, group and mode do, so that these can be stored in its place.
/// It need not be written as [`computed`] has it; what counts is that nobody gets more or less.
pub fn trivial_mode(descriptor: &SecurityDescriptor, node: Node) -> Option<u32> {
    let (owner, group) = (descriptor.owner?, descriptor.group?);
    let AclState::Present(acl) = &descriptor.dacl else { return None };
    let is_plain = |entry: &Ace| match entry.body {
        AceBody::Plain { kind: AceKind::Allow | AceKind::Deny, sid, .. } => {
            entry.flags == AceFlags::empty() && [owner, group, EVERYONE].contains(&sid)
        }
        _ => false,
    };
    let are_classes = owner != group && owner != EVERYONE && group != EVERYONE;
    let says_no_more = descriptor.control == Control::empty() && descriptor.sacl == AclState::Absent;
    if !are_classes || !says_no_more || !acl.entries().iter().all(is_plain) {
        return None;
    }
    let mode = mode_of(descriptor);
    let as_stored = computed(owner, group, mode, node);
    let callers = [(false, false), (false, true), (true, false), (true, true)];
    let is_same = |(is_owner, is_member): &(bool, bool)| {
        let is = |sid: &Sid| *sid == EVERYONE || *is_owner && *sid == owner || *is_member && *sid == group;
        granted(acl.entries(), is) == granted(as_stored.dacl.entries(), is)
    };
    callers.iter().all(is_same).then_some(mode)
}
