//! Lists of NT as lists of NFSv4, and back.
//!
//! Invariant: no entry is left out.

use super::{List, Nfs4Ace, Nfs4Acl, Nfs4Error, Nfs4Flags, Nfs4ListFlags, Problem, RIGHTS, SPECIAL, Who};
use crate::ace::{Ace, AceBody, AceFlags, AceKind};
use crate::acl::{Acl, AclState};
use crate::descriptor::{Control, SecurityDescriptor};
use crate::id_map::Id;
use crate::sid::Sid;
use crate::well_known::{CREATOR_GROUP, CREATOR_OWNER, EVERYONE, OWNER_RIGHTS};

const FLAGS: [(AceFlags, Nfs4Flags); 7] = [
    (AceFlags::OBJECT_INHERIT, Nfs4Flags::FILE_INHERIT),
    (AceFlags::CONTAINER_INHERIT, Nfs4Flags::DIRECTORY_INHERIT),
    (AceFlags::NO_PROPAGATE, Nfs4Flags::NO_PROPAGATE),
    (AceFlags::INHERIT_ONLY, Nfs4Flags::INHERIT_ONLY),
    (AceFlags::SUCCESSFUL_ACCESS, Nfs4Flags::SUCCESSFUL_ACCESS),
    (AceFlags::FAILED_ACCESS, Nfs4Flags::FAILED_ACCESS),
    (AceFlags::INHERITED, Nfs4Flags::INHERITED),
];

const LIST_FLAGS: [([Control; 2], Nfs4ListFlags); 3] = [
    ([Control::DACL_AUTO_INHERITED, Control::SACL_AUTO_INHERITED], Nfs4ListFlags::AUTO_INHERIT),
    ([Control::DACL_PROTECTED, Control::SACL_PROTECTED], Nfs4ListFlags::PROTECTED),
    ([Control::DACL_DEFAULTED, Control::SACL_DEFAULTED], Nfs4ListFlags::DEFAULTED),
];

impl List {
    fn has(self, kind: AceKind) -> bool {
        match self {
            Self::Dacl => matches!(kind, AceKind::Allow | AceKind::Deny),
            Self::Sacl => matches!(kind, AceKind::Audit | AceKind::Alarm),
        }
    }
}

/// One of a descriptor's lists as NFSv4 has it. `id_of` knows the number of an identifier, if that leads back to it
/// ([`IdMap::exact_id_of`](crate::IdMap::exact_id_of), behind a directory where there is one). A SACL that is absent has
/// no entries.
///
/// # Errors
/// [`Nfs4Error`], which names the entry.
pub fn from_descriptor(
    descriptor: &SecurityDescriptor,
    list: List,
    id_of: impl Fn(&Sid) -> Option<Id>,
) -> Result<Nfs4Acl, Nfs4Error> {
    let (Some(owner), Some(group)) = (descriptor.owner, descriptor.group) else { return Err(Nfs4Error::Nobody) };
    let state = match list {
        List::Dacl => &descriptor.dacl,
        List::Sacl => &descriptor.sacl,
    };
    if list == List::Dacl && state.acl().is_none() {
        return Err(Nfs4Error::NoList);
    }
    let mut acl = Nfs4Acl::default();
    for (bits, flag) in LIST_FLAGS {
        acl.flags.set(flag, descriptor.control.contains(bits[list as usize]));
    }
    for (index, entry) in state.entries().iter().enumerate() {
        let converted = to_nfs4(entry, list, owner, group, &id_of);
        acl.entries.push(converted.map_err(|problem| Nfs4Error::Entry { index, problem })?);
    }
    Ok(acl)
}

fn to_nfs4(
    entry: &Ace,
    list: List,
    owner: Sid,
    group: Sid,
    id_of: impl Fn(&Sid) -> Option<Id>,
) -> Result<Nfs4Ace, Problem> {
    let (kind, mask, sid) = match &entry.body {
        AceBody::Plain { kind, mask, sid } if list.has(*kind) => (*kind, mask.mapped(), *sid),
        AceBody::Plain { kind, .. } => return Err(Problem::Type(kind.type_code().into())),
        AceBody::Opaque(opaque) => return Err(Problem::Type(opaque.type_code().into())),
    };
    if !RIGHTS.contains(mask) {
        return Err(Problem::Rights((mask - RIGHTS).bits()));
    }
    let mut flags = Nfs4Flags::empty();
    for (nt, nfs) in FLAGS {
        flags.set(nfs, entry.flags.contains(nt));
    }
    let known = FLAGS.iter().fold(AceFlags::empty(), |all, (flag, _)| all | *flag);
    if !known.contains(entry.flags) {
        return Err(Problem::Flags((entry.flags - known).bits().into()));
    }
    let is_for_this_only = !entry.flags.intersects(AceFlags::INHERITANCE);
    let is_for_below = entry.flags.intersects(AceFlags::INHERIT | AceFlags::INHERIT_ONLY);
    let who = match sid {
        EVERYONE => Who::Everyone,
        // Without the flag it is effective for nobody, as with it.
        CREATOR_OWNER | CREATOR_GROUP if is_for_below => {
            flags |= Nfs4Flags::INHERIT_ONLY;
            if sid == CREATOR_OWNER { Who::Owner } else { Who::Group }
        }
        CREATOR_OWNER | CREATOR_GROUP | OWNER_RIGHTS => return Err(Problem::Unmapped(sid)),
        _ if sid == owner && is_for_this_only => Who::Owner,
        _ if sid == group && is_for_this_only => Who::Group,
        _ => match SPECIAL.iter().find(|(.., known)| *known == sid) {
            Some((special, ..)) => Who::Special(*special),
            None => Who::Id(id_of(&sid).ok_or(Problem::Unmapped(sid))?),
        },
    };
    Ok(Nfs4Ace { kind, flags, mask, who })
}

/// The list of NT that a list of NFSv4 stands for on a file of this owner and group, with the control bits that belong
/// to it. `sid_of` knows the identifier of a number.
///
/// # Errors
/// [`Nfs4Error`], which names the entry.
pub fn into_list(
    acl: &Nfs4Acl,
    list: List,
    owner: Sid,
    group: Sid,
    sid_of: impl Fn(Id) -> Sid,
) -> Result<(AclState, Control), Nfs4Error> {
    let mut control = Control::empty();
    for (bits, flag) in LIST_FLAGS {
        control.set(bits[list as usize], acl.flags.contains(flag));
    }
    let mut entries = Vec::with_capacity(acl.entries.len());
    for (index, entry) in acl.entries.iter().enumerate() {
        if !list.has(entry.kind) {
            return Err(Nfs4Error::Entry { index, problem: Problem::Type(entry.wire_type()) });
        }
        if !RIGHTS.contains(entry.mask) {
            let problem = Problem::Rights((entry.mask - RIGHTS).bits());
            return Err(Nfs4Error::Entry { index, problem });
        }
        let flags = FLAGS.iter().filter(|(_, nfs)| entry.flags.contains(*nfs));
        let flags = flags.fold(AceFlags::empty(), |all, (nt, _)| all | *nt);
        let mut push = |sid, flags| entries.push(Ace::plain(entry.kind, sid, entry.mask).with_flags(flags));
        match entry.who {
            Who::Owner => of_class(flags, owner, CREATOR_OWNER, push),
            Who::Group => of_class(flags, group, CREATOR_GROUP, push),
            Who::Everyone => push(EVERYONE, flags),
            Who::Special(special) => {
                let known = SPECIAL.iter().find(|(known, ..)| *known == special);
                push(known.map(|(.., sid)| *sid).expect("every special identifier is in the table"), flags);
            }
            Who::Id(id) => push(sid_of(id), flags),
        }
    }
    Ok((AclState::Present(Acl::new(entries)?), control))
}

/// An entry for the owner or group: for the file's own, where it is effective, and for that of each file below, where it
/// is handed on.
fn of_class(flags: AceFlags, own: Sid, creator: Sid, mut push: impl FnMut(Sid, AceFlags)) {
    if !flags.contains(AceFlags::INHERIT_ONLY) {
        push(own, flags - AceFlags::INHERITANCE);
    }
    if flags.intersects(AceFlags::INHERIT | AceFlags::INHERIT_ONLY) {
        push(creator, flags | AceFlags::INHERIT_ONLY);
    }
}
