//! What a new file gets from the directory that it is created in, and what follows a change of that ([MS-DTYP] 2.5.3.4).
//!
//! ```text
//!   entry of the directory    a file gets            a directory gets
//!   OI                        effective              inherit-only (nothing with NP)
//!   CI                        nothing                effective, handed on (with NP: not)
//!   OI CI                     effective              effective, handed on (with NP: not)
//! ```
//!
//! An entry that is effective and says CREATOR OWNER, CREATOR GROUP or generic rights gets what these stand for. If a
//! directory hands it on, what is handed on stays general, in an inherit-only entry of its own.
//!
//! Invariant: explicit entries stand before inherited ones, and a protected list gets none.

use crate::ace::{Ace, AceBody, AceFlags};
use crate::acl::{Acl, AclState};
use crate::descriptor::{Control, SecurityDescriptor};
use crate::error::DescriptorError;
use crate::sid::Sid;
use crate::well_known::{CREATOR_GROUP, CREATOR_OWNER};

/// What a descriptor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// Anything but a directory.
    File,
    /// A directory.
    Directory,
}

/// A file that is to be created.
#[derive(Clone, Copy, Debug)]
pub struct Creation<'a> {
    /// What it is.
    pub node: Node,
    /// The descriptor of the directory that it is created in.
    pub parent: &'a SecurityDescriptor,
    /// What the creator gave.
    pub given: Option<&'a SecurityDescriptor>,
    /// Its owner, unless that was given.
    pub owner: Sid,
    /// Its group, unless that was given.
    pub group: Sid,
    /// The DACL if none is given or inherited.
    pub default: &'a AclState,
    /// Inherited entries are marked, and join those of a list that was given (`DACL_AUTO_INHERIT` and
    /// `SACL_AUTO_INHERIT` of [MS-DTYP] 2.5.3.4.1). NTFS does so below directories whose list is auto-inherited.
    pub auto_inherit: bool,
}

/// Whose the file is: what CREATOR OWNER and CREATOR GROUP stand for.
#[derive(Clone, Copy)]
struct Creators {
    owner: Option<Sid>,
    group: Option<Sid>,
}

/// Control bits of one of the two lists.
struct Bits {
    protected: Control,
    inherited: Control,
    defaulted: Control,
    required: Control,
}

const DACL: Bits = Bits {
    protected: Control::DACL_PROTECTED,
    inherited: Control::DACL_AUTO_INHERITED,
    defaulted: Control::DACL_DEFAULTED,
    required: Control::DACL_AUTO_INHERIT_REQUIRED,
};
const SACL: Bits = Bits {
    protected: Control::SACL_PROTECTED,
    inherited: Control::SACL_AUTO_INHERITED,
    defaulted: Control::SACL_DEFAULTED,
    required: Control::SACL_AUTO_INHERIT_REQUIRED,
};

/// The descriptor of a new file (`CreateSecurityDescriptor` of [MS-DTYP] 2.5.3.4.1).
///
/// # Errors
/// [`DescriptorError::TooLarge`] if what is inherited and what is given do not fit one list.
pub fn create(creation: Creation<'_>) -> Result<SecurityDescriptor, DescriptorError> {
    let given = creation.given;
    let owner = given.and_then(|given| given.owner).unwrap_or(creation.owner);
    let group = given.and_then(|given| given.group).unwrap_or(creation.group);
    let creators = Creators { owner: Some(owner), group: Some(group) };
    let absent = AclState::Absent;
    let dacl_given = given.map_or(&absent, |given| &given.dacl);
    let sacl_given = given.map_or(&absent, |given| &given.sacl);
    let (dacl, dacl_control) = list(&creation, dacl_given, &creation.parent.dacl, creation.default, creators, &DACL)?;
    let (sacl, sacl_control) = list(&creation, sacl_given, &creation.parent.sacl, &absent, creators, &SACL)?;
    let of_sids = Control::OWNER_DEFAULTED | Control::GROUP_DEFAULTED;
    let control = given.map_or(Control::empty(), |given| given.control & of_sids) | dacl_control | sacl_control;
    Ok(SecurityDescriptor { control, owner: Some(owner), group: Some(group), dacl, sacl })
}

/// One of the lists of a new file (`ComputeACL` of [MS-DTYP] 2.5.3.4.2), with its control bits.
fn list(
    creation: &Creation<'_>,
    given: &AclState,
    parent: &AclState,
    default: &AclState,
    creators: Creators,
    bits: &Bits,
) -> Result<(AclState, Control), DescriptorError> {
    let said = creation.given.map_or(Control::empty(), |given| given.control);
    let is_protected = said.contains(bits.protected);
    let from_above = || inherited(parent.entries(), creation.node, creators, creation.auto_inherit);
    let mut control = said & (bits.protected | bits.defaulted);
    let entries = match given {
        AclState::Null => return Ok((AclState::Null, control)),
        AclState::Present(acl) if creation.auto_inherit && !is_protected => {
            let own = acl.entries().iter().filter(|entry| !entry.is_inherited());
            own.flat_map(|entry| settled(entry, creators)).chain(from_above()).collect()
        }
        AclState::Present(acl) => acl.entries().iter().flat_map(|entry| settled(entry, creators)).collect(),
        AclState::Absent => {
            control = Control::empty();
            let above = from_above();
            if above.is_empty() {
                return Ok((by_default(default, creators)?, control));
            }
            above
        }
    };
    if creation.auto_inherit || said.contains(bits.required | bits.inherited) {
        control |= bits.inherited;
    }
    Ok((AclState::Present(Acl::new(entries)?), control))
}

/// The list of a file that neither gets nor inherits one.
fn by_default(default: &AclState, creators: Creators) -> Result<AclState, DescriptorError> {
    let AclState::Present(acl) = default else { return Ok(default.clone()) };
    let entries = acl.entries().iter().flat_map(|entry| settled(entry, creators)).collect();
    Ok(AclState::Present(Acl::new(entries)?))
}

/// The descriptor of a file whose directory has this one now: explicit entries stay, inherited ones are those of the
/// directory. A list that is protected, or that holds nothing back, stays as it is.
///
/// # Errors
/// [`DescriptorError::TooLarge`] if the entries do not fit one list.
pub fn reinherit(
    child: &SecurityDescriptor,
    parent: &SecurityDescriptor,
    node: Node,
) -> Result<SecurityDescriptor, DescriptorError> {
    let creators = Creators { owner: child.owner, group: child.group };
    let mut new = child.clone();
    for (bits, from, into) in [(DACL, &parent.dacl, &mut new.dacl), (SACL, &parent.sacl, &mut new.sacl)] {
        let may_be_made = bits.inherited == SACL.inherited && *into == AclState::Absent;
        if child.control.contains(bits.protected) || (into.acl().is_none() && !may_be_made) {
            continue;
        }
        let above = inherited(from.entries(), node, creators, true);
        if above.is_empty() && !into.entries().iter().any(Ace::is_inherited) {
            continue;
        }
        let own = into.entries().iter().filter(|entry| !entry.is_inherited()).cloned();
        *into = AclState::Present(Acl::new(own.chain(above).collect())?);
        new.control |= bits.inherited;
    }
    Ok(new)
}

/// What is inherited of a directory's entries.
fn inherited(parent: &[Ace], node: Node, creators: Creators, is_marked: bool) -> Vec<Ace> {
    let mut entries = Vec::new();
    for entry in parent {
        let has = |flag| entry.flags.contains(flag);
        let (objects, containers) = (has(AceFlags::OBJECT_INHERIT), has(AceFlags::CONTAINER_INHERIT));
        let is_handed_on = node == Node::Directory && !has(AceFlags::NO_PROPAGATE);
        let is_effective = if node == Node::File { objects } else { containers };
        let mut flags = entry.flags - AceFlags::INHERITANCE;
        flags.set(AceFlags::INHERITED, is_marked);
        if is_handed_on {
            flags |= entry.flags & AceFlags::INHERIT;
        }
        if is_effective {
            entries.extend(settled(&entry.clone().with_flags(flags), creators));
        } else if objects && is_handed_on {
            entries.push(entry.clone().with_flags(flags | AceFlags::INHERIT_ONLY));
        }
    }
    entries
}

/// An entry with what it says in general replaced where it is effective; where it is handed on as well, the general one
/// stands behind it.
fn settled(entry: &Ace, creators: Creators) -> impl Iterator<Item = Ace> {
    let effective = if entry.is_inherit_only() { entry.clone() } else { specific(entry, creators) };
    let is_handed_on = entry.flags.intersects(AceFlags::INHERIT);
    let (first, second) = if is_handed_on && effective != *entry {
        let general = entry.clone().with_flags(entry.flags | AceFlags::INHERIT_ONLY);
        (effective.with_flags(entry.flags - AceFlags::INHERITANCE), Some(general))
    } else {
        (effective, None)
    };
    std::iter::once(first).chain(second)
}

/// An entry with creators and generic rights replaced by what they stand for.
fn specific(entry: &Ace, creators: Creators) -> Ace {
    let AceBody::Plain { kind, mask, sid } = entry.body else { return entry.clone() };
    let named = match sid {
        CREATOR_OWNER => creators.owner,
        CREATOR_GROUP => creators.group,
        _ => None,
    };
    let body = AceBody::Plain { kind, mask: mask.mapped(), sid: named.unwrap_or(sid) };
    Ace { flags: entry.flags, body }
}
