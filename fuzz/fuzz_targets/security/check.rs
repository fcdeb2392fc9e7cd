//! What must hold for any bytes that come as a security descriptor, in its binary form or as text.
//!
//! Held up: no panic; what is read is written and read again as the same; the check and its explanation agree; a view of
//! it leads back.

use holdfast_identity::nfs4::{self, List};
use holdfast_identity::{
    Access, AccessMask, AclState, Control, Creation, Domain, Id, IdMap, ModeChange, Node, Privileges,
    SecurityDescriptor, Token, change_mode, check as check_access, create, describe, explain, is_canonical, mode_of,
    reinherit, sddl, sort_canonical, trivial_mode, well_known,
};

/// Control bits that text has.
const OF_TEXT: Control = Control::DACL_PROTECTED
    .union(Control::SACL_PROTECTED)
    .union(Control::DACL_AUTO_INHERITED)
    .union(Control::SACL_AUTO_INHERITED)
    .union(Control::DACL_AUTO_INHERIT_REQUIRED)
    .union(Control::SACL_AUTO_INHERIT_REQUIRED);

/// Panics where something does not hold.
pub fn check(bytes: &[u8]) {
    if let Ok(descriptor) = SecurityDescriptor::from_bytes(bytes) {
        let written = descriptor.to_bytes().expect("what was read is not too large");
        assert!(written.len() <= bytes.len(), "nothing was made up");
        holds(&descriptor);
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(descriptor) = sddl::parse(text, Some(&Domain([1, 2, 3]).sid()))
    {
        assert_eq!(sddl::parse(&sddl::print(&descriptor).expect("it had a text"), None), Ok(descriptor.clone()));
        holds(&descriptor);
    }
}

fn holds(descriptor: &SecurityDescriptor) {
    if let Ok(bytes) = descriptor.to_bytes() {
        assert_eq!(bytes.len(), descriptor.len_bytes());
        assert_eq!(SecurityDescriptor::from_bytes(&bytes).as_ref(), Ok(descriptor));
        if let Ok(text) = sddl::print(descriptor) {
            let mut expected = descriptor.clone();
            expected.control &= OF_TEXT;
            // Flags of a list that is not there have no text.
            for (state, bits) in [(&descriptor.dacl, "DACL"), (&descriptor.sacl, "SACL")] {
                if *state == AclState::Absent {
                    expected.control = expected
                        .control
                        .iter_names()
                        .filter(|(name, _)| !name.starts_with(bits))
                        .fold(Control::empty(), |all, (_, bit)| all | bit);
                }
            }
            assert_eq!(sddl::parse(&text, None), Ok(expected), "{text}");
        }
    }
    let count = |state: &AclState| state.acl().map_or(0, |acl| acl.entries().len());
    assert!(describe(descriptor, |_| None).len() >= 2 + count(&descriptor.dacl) + count(&descriptor.sacl));
    if let AclState::Present(acl) = &descriptor.dacl {
        let mut entries = acl.entries().to_vec();
        sort_canonical(&mut entries);
        assert!(is_canonical(&entries) && entries.len() == acl.entries().len());
    }
    access(descriptor);
    views(descriptor);
    inheritance(descriptor);
}

fn access(descriptor: &SecurityDescriptor) {
    let user = descriptor.owner.unwrap_or(well_known::USERS);
    let privileges = Privileges::BACKUP | Privileges::TAKE_OWNERSHIP;
    let token = Token::new(user, well_known::USERS, &[], privileges).expect("no groups");
    for backup_intent in [false, true] {
        let asked = Access { desired: AccessMask::MAXIMUM_ALLOWED, backup_intent };
        let explained = explain(descriptor, &token, asked);
        let granted = check_access(descriptor, &token, asked).unwrap_or_default();
        assert_eq!(granted, explained.granted);
        let together = explained.reasons.iter().fold(AccessMask::empty(), |all, reason| {
            assert!(!all.intersects(reason.rights), "each right is decided once");
            all | reason.rights
        });
        assert!(together.contains(AccessMask::FILE_ALL), "each right is decided");
        assert!(
            granted.is_empty()
                || check_access(descriptor, &token, Access { desired: granted, backup_intent }) == Ok(granted)
        );
    }
}

fn views(descriptor: &SecurityDescriptor) {
    let map = IdMap::new(Domain([1, 2, 3]), 1000..2000).expect("few ids");
    let are_apart = descriptor.owner != descriptor.group
        && ![descriptor.owner, descriptor.group].contains(&Some(well_known::EVERYONE))
        && descriptor.group != Some(well_known::OWNER_RIGHTS);
    for mode in [0, 0o604, 0o750, 0o777] {
        let Ok(changed) = change_mode(descriptor, mode, Node::Directory, ModeChange::Mask) else { continue };
        let got = mode_of(&changed);
        assert!(got == mode || !are_apart, "{got:o} for {mode:o}");
        assert_eq!(change_mode(&changed, got, Node::Directory, ModeChange::Mask).map(|again| mode_of(&again)), Ok(got));
    }
    if let Some(mode) = trivial_mode(descriptor, Node::File) {
        assert_eq!(mode, mode_of(descriptor));
    }
    for list in [List::Dacl, List::Sacl] {
        let Ok(acl) = nfs4::from_descriptor(descriptor, list, |sid| map.exact_id_of(sid)) else { continue };
        let (owner, group) = (descriptor.owner.expect("converted"), descriptor.group.expect("converted"));
        let (state, control) = nfs4::into_list(&acl, list, owner, group, |id: Id| map.sid_of(id)).expect("it fits");
        let again = match list {
            List::Dacl => SecurityDescriptor { dacl: state, control, ..descriptor.clone() },
            List::Sacl => SecurityDescriptor { sacl: state, control, ..descriptor.clone() },
        };
        assert_eq!(nfs4::from_descriptor(&again, list, |sid| map.exact_id_of(sid)), Ok(acl));
    }
}

fn inheritance(parent: &SecurityDescriptor) {
    let default = AclState::Null;
    for node in [Node::File, Node::Directory] {
        let creation = Creation {
            node,
            parent,
            given: None,
            owner: well_known::USERS,
            group: well_known::USERS,
            default: &default,
            auto_inherit: true,
        };
        let Ok(child) = create(creation) else { continue };
        // What was just inherited is what would be inherited now.
        assert_eq!(reinherit(&child, parent, node), Ok(child));
    }
}
