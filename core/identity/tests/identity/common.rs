//! Short ways to write identifiers, descriptors and callers, and arbitrary ones.

use holdfast_identity::{
    AccessMask, Ace, AceBody, AceFlags, AceKind, Acl, AclState, Control, Membership, OpaqueAce, Privileges,
    SecurityDescriptor, Sid, Token, sddl, well_known,
};
use proptest::prelude::*;

/// Alice of the domain that tests are in.
pub const ALICE: &str = "S-1-5-21-1-2-3-1000";
/// Bob.
pub const BOB: &str = "S-1-5-21-1-2-3-1002";
/// A group.
pub const STAFF: &str = "S-1-5-21-1-2-3-1001";
/// Another one.
pub const GUESTS: &str = "S-1-5-21-1-2-3-1003";

/// The identifier of a text.
pub fn sid(text: &str) -> Sid {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// The descriptor of a text, in which {A}, {B}, {S} and {G} are Alice, Bob, staff and guests.
pub fn descriptor(text: &str) -> SecurityDescriptor {
    let text = text.replace("{A}", ALICE).replace("{B}", BOB).replace("{S}", STAFF).replace("{G}", GUESTS);
    sddl::parse(&text, None).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The entries of a descriptor's DACL.
pub fn entries(descriptor: &SecurityDescriptor) -> &[Ace] {
    descriptor.dacl.acl().map_or(&[], Acl::entries)
}

/// A caller with groups that grant.
pub fn caller(user: &str, groups: &[&str]) -> Token {
    privileged(user, groups, Privileges::empty())
}

/// A caller with groups that grant, and privileges.
pub fn privileged(user: &str, groups: &[&str], privileges: Privileges) -> Token {
    let groups: Vec<_> = groups.iter().map(|group| (sid(group), Membership::Enabled)).collect();
    Token::new(sid(user), sid("S-1-5-21-1-2-3-513"), &groups, privileges).expect("few groups")
}

/// Somebody out of few, so that entries and callers meet.
pub fn somebody() -> impl Strategy<Value = Sid> {
    prop::sample::select(vec![
        sid(ALICE),
        sid(BOB),
        sid(STAFF),
        sid(GUESTS),
        well_known::EVERYONE,
        well_known::OWNER_RIGHTS,
        well_known::CREATOR_OWNER,
        well_known::CREATOR_GROUP,
        well_known::AUTHENTICATED_USERS,
    ])
}

/// Any identifier at all.
pub fn anybody() -> impl Strategy<Value = Sid> {
    let any_sid = (0..1u64 << 48, prop::collection::vec(any::<u32>(), 0..=15))
        .prop_map(|(authority, numbers)| Sid::new(authority, &numbers).expect("it is short"));
    prop_oneof![somebody(), any_sid]
}

/// Rights of files, mostly a few; also generic and unknown ones.
pub fn rights() -> impl Strategy<Value = AccessMask> {
    let few = prop::collection::vec(0..21u32, 0..6).prop_map(|bits| bits.iter().fold(0, |all, bit| all | 1 << bit));
    let named =
        prop::sample::select(vec![0x001f_01ff, 0x0012_0089, 0x0012_0116, 0x0012_00a0, 0x1000_0000, 0x8000_0000]);
    prop_oneof![4 => few, 4 => named, 1 => any::<u32>()].prop_map(AccessMask::from_bits_retain)
}

/// Flags of entries that exist.
pub fn flags() -> impl Strategy<Value = AceFlags> {
    prop_oneof![Just(0), 0..=0x1fu8].prop_map(AceFlags::from_bits_retain)
}

/// An entry that allows or denies, of somebody.
pub fn rule() -> impl Strategy<Value = Ace> {
    let kind = prop::sample::select(vec![AceKind::Allow, AceKind::Allow, AceKind::Deny]);
    (kind, somebody(), rights(), flags())
        .prop_map(|(kind, sid, mask, flags)| Ace::plain(kind, sid, mask).with_flags(flags))
}

/// A descriptor with rules only, of an owner and group of these.
pub fn ruled() -> impl Strategy<Value = SecurityDescriptor> {
    let owner = prop::sample::select(vec![sid(ALICE), sid(BOB), sid(STAFF)]);
    let control = prop::sample::select(vec![Control::empty(), Control::DACL_AUTO_INHERITED, Control::DACL_PROTECTED]);
    (owner, prop::collection::vec(rule(), 0..8), control).prop_map(|(owner, entries, control)| SecurityDescriptor {
        control,
        owner: Some(owner),
        group: Some(sid(GUESTS)),
        dacl: AclState::Present(Acl::new(entries).expect("few entries")),
        sacl: AclState::Absent,
    })
}

fn any_ace() -> impl Strategy<Value = Ace> {
    let kinds = vec![AceKind::Allow, AceKind::Deny, AceKind::Audit, AceKind::Alarm, AceKind::Label];
    let plain = (prop::sample::select(kinds), anybody(), any::<u32>())
        .prop_map(|(kind, sid, mask)| Ace::plain(kind, sid, AccessMask::from_bits_retain(mask)));
    let opaque = (any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)).prop_filter_map(
        "a type of its own",
        |(code, bytes)| {
            let bytes = &bytes[..bytes.len() / 4 * 4];
            let opaque = OpaqueAce::new(code, bytes).ok()?;
            Some(Ace { flags: AceFlags::empty(), body: AceBody::Opaque(opaque) })
        },
    );
    (prop_oneof![4 => plain, 1 => opaque], any::<u8>())
        .prop_map(|(ace, flags)| ace.with_flags(AceFlags::from_bits_retain(flags)))
}

fn any_state() -> impl Strategy<Value = AclState> {
    let present = prop::collection::vec(any_ace(), 0..8)
        .prop_map(|entries| AclState::Present(Acl::new(entries).expect("few entries")));
    prop_oneof![1 => Just(AclState::Absent), 1 => Just(AclState::Null), 4 => present]
}

/// Any descriptor at all.
pub fn any_descriptor() -> impl Strategy<Value = SecurityDescriptor> {
    let sids = (prop::option::of(anybody()), prop::option::of(anybody()));
    (any::<u16>(), sids, any_state(), any_state()).prop_map(|(control, (owner, group), dacl, sacl)| {
        SecurityDescriptor { control: Control::from_bits_truncate(control), owner, group, dacl, sacl }
    })
}
