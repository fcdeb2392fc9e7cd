//! A new mode for a file that has a real descriptor (RFC 8881 6.4.1.1).
//!
//! Invariant: the mode of the result is the one that was set, what is handed on to files below does not change, and nobody
//! but owner, group and Everyone gets more than before or than the group's bits say.

use crate::ace::{Ace, AceBody, AceFlags, AceKind};
use crate::acl::{Acl, AclState};
use crate::descriptor::{Control, SecurityDescriptor};
use crate::error::DescriptorError;
use crate::inherit::Node;
use crate::mask::AccessMask;
use crate::mode::{ALWAYS, Classes, computed, rights};
use crate::sid::Sid;
use crate::well_known::{EVERYONE, OWNER_RIGHTS};

/// What a change of the mode does to a real descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModeChange {
    /// Entries of owner, group and Everyone follow the mode; those of others stay, limited to the bits of the group.
    #[default]
    Mask,
    /// All entries go; the mode is all that is left.
    Discard,
    /// It is refused.
    Refuse,
}

/// Why a mode was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeRefused {
    /// The volume is set to refuse it.
    #[error(
        "the file has an access control list, and the volume refuses to change the mode of such files: \
         change the list, or set mode_change of the volume to mask or discard"
    )]
    BySetting,
    /// A mode has nobody to be of.
    #[error("the security descriptor names no owner or no group: set both first")]
    Nobody,
    /// The entries do not fit.
    #[error(transparent)]
    TooLarge(#[from] DescriptorError),
}

/// The bits of a mode that can be set: where two classes are one identifier, they have the same.
fn possible(mode: u32, owner: Sid, group: Sid) -> u32 {
    let [of_owner, of_group, others] = [6, 3, 0].map(|shift| mode >> shift & 7);
    let (of_owner, of_group) = match (owner, group) {
        (EVERYONE, _) => (others, others),
        (_, EVERYONE) => (of_owner, others),
        (owner, group) if owner == group || group == OWNER_RIGHTS => (of_owner, of_owner),
        _ => (of_owner, of_group),
    };
    of_owner << 6 | of_group << 3 | others
}

/// The descriptor of a file after its mode was set; nine bits of it count. NT knows files whose owner and group are one:
/// their group gets the bits of the owner.
///
/// # Errors
/// [`ModeRefused`].
pub fn change_mode(
    descriptor: &SecurityDescriptor,
    mode: u32,
    node: Node,
    change: ModeChange,
) -> Result<SecurityDescriptor, ModeRefused> {
    let (Some(owner), Some(group)) = (descriptor.owner, descriptor.group) else { return Err(ModeRefused::Nobody) };
    let mode = possible(mode, owner, group);
    match change {
        ModeChange::Refuse => Err(ModeRefused::BySetting),
        ModeChange::Discard => Ok(SecurityDescriptor {
            control: descriptor.control - Control::DACL_AUTO_INHERITED - Control::DACL_DEFAULTED,
            sacl: descriptor.sacl.clone(),
            ..computed(owner, group, mode, node)
        }),
        ModeChange::Mask => mask(descriptor, owner, group, mode, node),
    }
}

/// Whose an entry is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Owner,
    Group,
    Everyone,
    Other,
}

/// Rights that nobody but the owner keeps without the bit of writing, with which the bit could be had again.
pub(crate) const GOVERNED_BY_WRITE: AccessMask =
    AccessMask::DELETE.union(AccessMask::DELETE_CHILD).union(AccessMask::WRITE_DAC).union(AccessMask::WRITE_OWNER);
/// What the entry has that the mode makes for the owner, beside the owner's bits. Permissions are left to the owner's
/// implicit right, which an entry for OWNER RIGHTS may have taken away.
const OWNERS: AccessMask = ALWAYS.union(AccessMask::WRITE_ATTRIBUTES);

/// A change of a list's entries.
struct Masking {
    owner: Sid,
    group: Sid,
    mode: u32,
    node: Node,
    classes: Classes,
    /// What entries denied to Everyone that are changed already.
    no_longer_denied: AccessMask,
}

impl Masking {
    fn whose(&self, sid: &Sid) -> Whose {
        match sid {
            sid if *sid == self.owner || *sid == OWNER_RIGHTS => Whose::Owner,
            sid if *sid == self.group => Whose::Group,
            sid if *sid == EVERYONE => Whose::Everyone,
            _ => Whose::Other,
        }
    }

    fn bits(&self, whose: Whose) -> u32 {
        let shift = match whose {
            Whose::Owner => 6,
            Whose::Group | Whose::Other => 3,
            Whose::Everyone => 0,
        };
        self.mode >> shift & 7
    }

    /// Whether the mode makes an entry that allows something to the class.
    fn makes_entry(&self, whose: Whose) -> bool {
        self.bits(whose) != 0 || whose == Whose::Owner && self.classes.owner_stands_ahead()
    }

    /// What an effective entry may say still; `None` if nothing is left of it. What was denied to everybody before it,
    /// and is so no longer, was nothing that it gave.
    fn limited(&mut self, kind: AceKind, given: AccessMask, sid: &Sid) -> Option<AccessMask> {
        let whose = self.whose(sid);
        let bits = self.bits(whose);
        let mut governed = rights(7, self.node);
        if whose == Whose::Owner {
            // Owners change times in any mode.
            governed -= AccessMask::WRITE_ATTRIBUTES;
        } else if bits & 2 == 0 && kind == AceKind::Allow {
            governed |= GOVERNED_BY_WRITE;
        }
        if whose == Whose::Other {
            let taken = (governed - rights(bits, self.node)) | self.no_longer_denied;
            let left = if kind == AceKind::Allow { given - taken } else { given };
            return (!left.is_empty() || given.is_empty()).then_some(left);
        }
        let left = given - governed;
        if kind == AceKind::Deny && whose == Whose::Everyone {
            self.no_longer_denied |= given & governed;
        }
        let made = if whose == Whose::Owner { OWNERS } else { ALWAYS };
        let is_repeated = kind == AceKind::Allow && made.contains(left) && self.makes_entry(whose);
        // An entry for the owner's rights counts also when it grants nothing.
        (*sid == OWNER_RIGHTS || !left.is_empty() && !is_repeated).then_some(left)
    }

    /// What becomes of an entry: itself, or what is handed on of it and what is still effective.
    fn change(&mut self, entry: &Ace) -> Vec<Ace> {
        let AceBody::Plain { kind: kind @ (AceKind::Allow | AceKind::Deny), mask, sid } = entry.body else {
            return vec![entry.clone()];
        };
        if entry.is_inherit_only() {
            return vec![entry.clone()];
        }
        let given = mask.mapped();
        let left = self.limited(kind, given, &sid);
        if left == Some(given) {
            return vec![entry.clone()];
        }
        let is_handed_on = entry.flags.intersects(AceFlags::INHERIT);
        let effective = left.map(|left| Ace {
            flags: entry.flags - AceFlags::INHERITANCE,
            body: AceBody::Plain { kind, mask: left, sid },
        });
        let handed_on = is_handed_on.then(|| entry.clone().with_flags(entry.flags | AceFlags::INHERIT_ONLY));
        effective.into_iter().chain(handed_on).collect()
    }
}

/// One entry that says what two neighbours do, if they are of one kind and identifier and nothing is handed on.
fn joined(first: &Ace, second: &Ace) -> Option<Ace> {
    match (&first.body, &second.body) {
        (&AceBody::Plain { kind, mask, sid }, &AceBody::Plain { kind: other_kind, mask: more, sid: other_sid })
            if (kind, sid, first.flags) == (other_kind, other_sid, second.flags)
                && !first.flags.intersects(AceFlags::INHERITANCE) =>
        {
            Some(Ace { flags: first.flags, body: AceBody::Plain { kind, mask: mask | more, sid } })
        }
        _ => None,
    }
}

fn mask(
    descriptor: &SecurityDescriptor,
    owner: Sid,
    group: Sid,
    mode: u32,
    node: Node,
) -> Result<SecurityDescriptor, ModeRefused> {
    let AclState::Present(old) = &descriptor.dacl else {
        // Nobody is named whose entries could stay.
        let dacl = computed(owner, group, mode, node).dacl;
        return Ok(SecurityDescriptor { dacl, ..descriptor.clone() });
    };
    let mut classes = Classes::of(mode, node);
    classes.owner = rights(mode >> 6 & 7, node) | OWNERS;
    let mut masking = Masking { owner, group, mode, node, classes, no_longer_denied: AccessMask::empty() };

    let mut entries = masking.classes.first(owner, group);
    // What the mode allows stands behind all that is denied, so that this still holds.
    let (mut at, mut is_inheritance_cut) = (entries.len(), false);
    for entry in old.entries() {
        let changed = masking.change(entry);
        is_inheritance_cut |= entry.is_inherited() && changed != [entry.clone()];
        entries.extend(changed);
        if entry.is_denying() && !entry.is_inherit_only() {
            at = entries.len();
            is_inheritance_cut |= entry.is_inherited();
        }
    }
    let classes = &masking.classes;
    let of_classes = [
        (Whose::Owner, Ace::allow(owner, classes.owner)),
        (Whose::Group, Ace::allow(group, classes.group)),
        (Whose::Everyone, Ace::allow(EVERYONE, classes.everyone)),
    ];
    let is_wanted = |whose: Whose| masking.bits(whose) != 0 && !(whose == Whose::Owner && classes.owner_stands_ahead());
    let allowing: Vec<Ace> =
        of_classes.into_iter().filter(|(whose, _)| is_wanted(*whose)).map(|(_, ace)| ace).collect();
    entries.splice(at..at, allowing);

    let mut control = descriptor.control - Control::DACL_DEFAULTED;
    if is_inheritance_cut {
        // What the directory above hands on would come back with its next change, in its old place.
        control |= Control::DACL_PROTECTED;
        entries.iter_mut().for_each(|entry| entry.flags.remove(AceFlags::INHERITED));
    }
    let mut merged: Vec<Ace> = Vec::with_capacity(entries.len());
    for entry in entries {
        match merged.last().and_then(|last| joined(last, &entry)) {
            Some(both) => *merged.last_mut().expect("it was looked at") = both,
            None => merged.push(entry),
        }
    }
    let dacl = AclState::Present(Acl::new(merged)?);
    Ok(SecurityDescriptor { control, dacl, ..descriptor.clone() })
}
