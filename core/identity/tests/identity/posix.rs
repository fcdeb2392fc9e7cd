//! Modes as descriptors: the check of a computed one grants what POSIX grants, to everybody, in every mode.

use holdfast_identity::{
    Access, AccessMask, AclState, Control, Domain, Id, IdMap, Node, Privileges, SecurityDescriptor, Token, check,
    computed, is_canonical, mode_of, sddl, trivial_mode,
};
use proptest::prelude::*;

use crate::common::{any_descriptor, descriptor, entries};

fn map() -> IdMap {
    IdMap::new(Domain([1, 2, 3]), 1000..2000).expect("few ids")
}

/// What a class of POSIX may do (POSIX.1-2017 4.5).
fn posix(mode: u32, is_owner: bool, is_member: bool) -> u32 {
    let shift = if is_owner {
        6
    } else if is_member {
        3
    } else {
        0
    };
    mode >> shift & 7
}

/// The three bits that the check of NT amounts to, each by itself.
fn nt(descriptor: &SecurityDescriptor, token: &Token) -> u32 {
    let may = |rights: u32| check(descriptor, token, Access::to(AccessMask::from_bits_retain(rights))).is_ok();
    u32::from(may(0x9)) << 2 | u32::from(may(0x116)) << 1 | u32::from(may(0x20))
}

#[test]
fn every_mode_grants_everybody_what_posix_does() {
    let map = map();
    for (uid, gid) in [(1000, 1000), (5, 7), (1000, 7)] {
        let (owner, group) = (map.sid_of(Id::User(uid)), map.sid_of(Id::Group(gid)));
        for mode in 0..0o1000 {
            for node in [Node::File, Node::Directory] {
                let given = computed(owner, group, mode, node);
                for (is_owner, is_member) in [(false, false), (false, true), (true, false), (true, true)] {
                    let (caller, primary) = (if is_owner { uid } else { 1234 }, if is_member { gid } else { 1235 });
                    let token = map.token(caller, primary, &[], Privileges::empty()).expect("few");
                    assert_eq!(nt(&given, &token), posix(mode, is_owner, is_member), "{mode:o} {is_owner} {is_member}");
                    let stat = AccessMask::READ_ATTRIBUTES | AccessMask::READ_CONTROL | AccessMask::SYNCHRONIZE;
                    assert!(check(&given, &token, Access::to(stat)).is_ok(), "everybody may look at it");
                    let change = AccessMask::WRITE_DAC;
                    assert_eq!(check(&given, &token, Access::to(change)).is_ok(), is_owner, "only owners change it");
                    let remove = check(&given, &token, Access::to(AccessMask::DELETE_CHILD)).is_ok();
                    let may_write = posix(mode, is_owner, is_member) & 2 != 0;
                    assert_eq!(remove, may_write && node == Node::Directory, "{mode:o}");
                    assert!(check(&given, &token, Access::to(AccessMask::DELETE)).is_err(), "the directory decides");
                }
                assert_eq!((mode_of(&given), trivial_mode(&given, node)), (mode, Some(mode)), "{mode:o}");
            }
        }
    }
}

#[test]
fn usual_modes_are_three_entries_in_canonical_order() {
    let map = map();
    let (owner, group) = (map.sid_of(Id::User(5)), map.sid_of(Id::Group(7)));
    let text = |mode, node| {
        let given = computed(owner, group, mode, node);
        assert!(is_canonical(entries(&given)) || mode == 0o604, "{mode:o}");
        sddl::print(&given).expect("plain").replace("S-1-22-1-5", "{u}").replace("S-1-22-2-7", "{g}")
    };
    assert_eq!(text(0o644, Node::File), "O:{u}G:{g}D:(A;;0x16019f;;;{u})(A;;FR;;;{g})(A;;FR;;;WD)");
    assert_eq!(text(0o750, Node::Directory), "O:{u}G:{g}D:(A;;0x1601ff;;;{u})(A;;0x1200a9;;;{g})(A;;0x120080;;;WD)");
    assert_eq!(text(0o077, Node::File).matches("(D;").count(), 1);
    assert_eq!(text(0o604, Node::File), "O:{u}G:{g}D:(A;;0x16019f;;;{u})(D;;0x9;;;{g})(A;;0x120080;;;{g})(A;;FR;;;WD)");
}

#[test]
fn modes_of_real_descriptors_count_the_three_classes() {
    let cases = [
        ("O:{A}G:{S}", 0o777),
        ("O:{A}G:{S}D:NO_ACCESS_CONTROL", 0o777),
        ("O:{A}G:{S}D:", 0),
        ("O:{A}G:{S}D:(A;;FA;;;{B})", 0),
        ("O:{A}G:{S}D:(A;;FR;;;WD)", 0o444),
        ("O:{A}G:{S}D:(A;;FA;;;OW)(A;;0x1200a9;;;{S})", 0o750),
        ("O:{A}G:{S}D:(D;;FW;;;{S})(A;;GA;;;WD)", 0o757),
        ("O:{A}G:{S}D:(A;;FW;;;{S})(D;;FW;;;WD)(A;;FA;;;WD)", 0o575),
        ("O:{A}G:{S}D:(A;;0x2;;;WD)", 0),
        ("O:{A}G:{S}D:(A;;0x6;;;WD)", 0o222),
        ("O:{A}G:{S}D:(A;OICIIO;FA;;;WD)(A;;FX;;;CO)", 0),
        ("D:(A;;FR;;;WD)(A;;FA;;;{A})", 0o444),
    ];
    for (text, mode) in cases {
        assert_eq!(mode_of(&descriptor(text)), mode, "{text}");
    }
}

#[test]
fn descriptors_that_say_more_than_a_mode_are_kept() {
    let trivial = "O:{A}G:{S}D:(A;;0x16019f;;;{A})(A;;FR;;;{S})(A;;FR;;;WD)";
    assert_eq!(trivial_mode(&descriptor(trivial), Node::File), Some(0o644));
    let reordered = "O:{A}G:{S}D:(A;;FR;;;WD)(A;;0x40116;;;{A})(A;;0x0;;;{S})";
    assert_eq!(trivial_mode(&descriptor(reordered), Node::File), Some(0o644), "what counts is what is granted");
    let more = [
        "D:(A;;0x16019f;;;{A})(A;;FR;;;{S})(A;;FR;;;WD)",
        "O:{A}G:{A}D:(A;;0x16019f;;;{A})(A;;FR;;;WD)",
        "O:{A}G:{S}",
        "O:{A}G:{S}D:NO_ACCESS_CONTROL",
        "O:{A}G:{S}D:P(A;;0x16019f;;;{A})(A;;FR;;;{S})(A;;FR;;;WD)",
        "O:{A}G:{S}D:AI(A;;0x16019f;;;{A})(A;;FR;;;{S})(A;;FR;;;WD)",
        "O:{A}G:{S}D:(A;;0x16019f;;;{A})(A;;FR;;;{S})(A;;FR;;;WD)S:(AU;SA;FA;;;WD)",
        "O:{A}G:{S}D:(A;ID;0x16019f;;;{A})(A;;FR;;;{S})(A;;FR;;;WD)",
        "O:{A}G:{S}D:(A;OICI;0x16019f;;;{A})(A;;FR;;;{S})(A;;FR;;;WD)",
        "O:{A}G:{S}D:(A;;0x17019f;;;{A})(A;;FR;;;{S})(A;;FR;;;WD)",
        "O:{A}G:{S}D:(A;;0x16019f;;;{A})(A;;FR;;;{S})(A;;FR;;;WD)(A;;FR;;;{B})",
        "O:{A}G:{S}D:(A;;0x16019f;;;{A})(A;;FR;;;{S})(A;;FR;;;WD)(D;;FR;;;OW)",
        "O:{A}G:{S}D:(A;;0x16019f;;;{A})(A;;FR;;;{S})(A;;0x120008;;;WD)",
    ];
    for text in more {
        assert_eq!(trivial_mode(&descriptor(text), Node::File), None, "{text}");
    }
}

proptest! {
    #[test]
    fn callers_of_many_groups_get_what_posix_gives(
        mode in 0..0o1000u32,
        file in (995..1005u32, 995..1005u32),
        uid in 995..1005u32,
        groups in prop::collection::vec(995..1005u32, 1..5),
    ) {
        let map = map();
        let given = computed(map.sid_of(Id::User(file.0)), map.sid_of(Id::Group(file.1)), mode, Node::File);
        let token = map.token(uid, groups[0], &groups, Privileges::empty()).expect("few");
        prop_assert_eq!(nt(&given, &token), posix(mode, uid == file.0, groups.contains(&file.1)));
    }

    #[test]
    fn what_is_stored_as_a_mode_grants_nobody_anything_else(given in any_descriptor(), mode in 0..0o1000u32, order in any::<u64>()) {
        // Entries of a computed descriptor in any order are stored as a mode only if that changes nothing.
        let map = map();
        let (owner, group) = (map.sid_of(Id::User(1)), map.sid_of(Id::Group(2)));
        let whole = computed(owner, group, mode, Node::File);
        let mut list = entries(&whole).to_vec();
        let len = list.len();
        list.swap((order % len as u64) as usize, (order / 7 % len as u64) as usize);
        let shuffled = SecurityDescriptor {
            dacl: AclState::Present(holdfast_identity::Acl::new(list).expect("few")),
            ..whole
        };
        for one in [given, shuffled] {
            let Some(mode) = trivial_mode(&one, Node::File) else { continue };
            prop_assert_eq!(one.control, Control::empty());
            let (owner, group) = (one.owner.expect("stored"), one.group.expect("stored"));
            let again = computed(owner, group, mode, Node::File);
            for (user, member) in [(owner, false), (owner, true), (map.sid_of(Id::User(9)), true), (map.sid_of(Id::User(9)), false)] {
                let primary = if member { group } else { map.sid_of(Id::Group(9)) };
                let token = Token::new(user, primary, &[], Privileges::empty()).expect("few");
                prop_assert_eq!(check(&one, &token, Access::maximum()), check(&again, &token, Access::maximum()));
            }
        }
    }
}
