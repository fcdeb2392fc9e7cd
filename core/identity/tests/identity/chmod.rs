//! A new mode of a real descriptor: the three classes follow it, others are limited, and what is handed on stays.

use holdfast_identity::{
    Access, AccessMask, AclState, Cause, Control, Creation, ModeChange, ModeRefused, Node, Privileges,
    SecurityDescriptor, Token, change_mode, check, computed, create, explain, is_canonical, mode_of, sddl,
    trivial_mode,
};
use proptest::prelude::*;

use crate::common::{ALICE, BOB, GUESTS, STAFF, descriptor, entries, ruled, sid};

fn masked(given: &SecurityDescriptor, mode: u32) -> SecurityDescriptor {
    change_mode(given, mode, Node::File, ModeChange::Mask).expect("few entries")
}

fn text(descriptor: &SecurityDescriptor) -> String {
    let text = sddl::print(descriptor).expect("plain");
    text.replace(ALICE, "{A}").replace(BOB, "{B}").replace(STAFF, "{S}").replace(GUESTS, "{G}")
}

#[test]
fn named_entries_are_limited_to_the_group() {
    let given = descriptor("O:{A}G:{S}D:(D;;0x1;;;{G})(A;;FA;;;{A})(A;;FR;;;{S})(A;;0x1301bf;;;{B})");
    let changed = masked(&given, 0o640);
    // The owner keeps what no mode speaks of; Bob keeps reading.
    let expected = "O:{A}G:{S}D:(D;;0x1;;;{G})(A;;0x1f019f;;;{A})(A;;FR;;;{S})(A;;0xd0140;;;{A})(A;;FR;;;{B})";
    let got = text(&changed);
    assert_eq!(mode_of(&changed), 0o640);
    assert!(is_canonical(entries(&changed)), "{got}");
    let may = |who: &str| {
        let token = Token::new(sid(who), sid(who), &[], Privileges::empty()).expect("none");
        check(&changed, &token, Access::maximum()).unwrap_or_default().bits()
    };
    assert_eq!(may(BOB), 0x12_0089, "{got} instead of {expected}");
    assert_eq!(may(ALICE) & 0x2f, 0xf, "{got}");
    assert_eq!(may(ALICE) & 0xf_0000, 0xf_0000, "the owner keeps what no mode speaks of: {got}");
    assert_eq!(may(GUESTS), 0, "{got}");
    // Taking the group's bits takes others', and giving them back does not.
    let closed = masked(&changed, 0o700);
    assert!(!text(&closed).contains("FR;;;{B}"), "{}", text(&closed));
    assert_eq!(mode_of(&masked(&closed, 0o777)), 0o777);
}

#[test]
fn who_may_not_write_does_not_keep_the_right_to_change_that() {
    let open = descriptor("O:{A}G:{S}D:(A;OICI;FA;;;WD)");
    let changed = masked(&open, 0o700);
    let token = Token::new(sid(BOB), sid(GUESTS), &[], Privileges::empty()).expect("none");
    let granted = check(&changed, &token, Access::maximum()).unwrap_or_default();
    assert!(
        (AccessMask::READ_ATTRIBUTES | AccessMask::READ_CONTROL | AccessMask::SYNCHRONIZE).contains(granted),
        "{granted:?}"
    );
    assert!(text(&changed).contains("(A;OICIIO;FA;;;WD)"), "what is handed on stays: {}", text(&changed));
}

#[test]
fn everybody_may_still_look_at_it() {
    let changed = masked(&descriptor("O:{A}G:{S}D:(A;;FR;;;WD)(A;;FA;;;{S})"), 0o600);
    let token = Token::new(sid(BOB), sid(BOB), &[], Privileges::empty()).expect("none");
    assert_eq!(check(&changed, &token, Access::maximum()).map(|got| got.bits()), Ok(0x12_0080));
}

#[test]
fn entries_that_were_removed_do_not_come_back_for_nothing() {
    let given = descriptor("O:{A}G:{S}D:P(A;;FA;;;{A})(A;;FA;;;{B})");
    let changed = masked(&given, 0o700);
    assert!(!text(&changed).contains("WD)") && !text(&changed).contains("{S})"), "{}", text(&changed));
}

#[test]
fn an_inherited_entry_that_changed_does_not_come_back() {
    let given = descriptor("O:{A}G:{S}D:AI(A;;FR;;;{A})(A;ID;FA;;;{B})(A;ID;FR;;;BU)");
    let changed = masked(&given, 0o600);
    assert!(changed.control.contains(Control::DACL_PROTECTED | Control::DACL_AUTO_INHERITED));
    assert!(!entries(&changed).iter().any(|entry| entry.is_inherited()));
    let same = masked(&descriptor("O:{A}G:{S}D:AI(A;;FR;;;{A})(A;ID;FR;;;{B})"), 0o640);
    assert!(!same.control.contains(Control::DACL_PROTECTED) && text(&same).contains("(A;ID;FR;;;{B})"));
}

#[test]
fn what_is_denied_above_still_holds() {
    let given = descriptor("O:{A}G:{S}D:AI(D;ID;FR;;;{B})(A;ID;FR;;;{G})");
    let changed = masked(&given, 0o644);
    let token = Token::new(sid(BOB), sid(BOB), &[], Privileges::empty()).expect("none");
    assert!(check(&changed, &token, Access::to(AccessMask::READ_DATA)).is_err(), "{}", text(&changed));
    assert!(changed.control.contains(Control::DACL_PROTECTED), "and will hold: {}", text(&changed));
    assert!(!entries(&changed).iter().any(|entry| entry.is_inherited()));
}

#[test]
fn what_was_denied_to_everybody_is_given_to_nobody_by_name() {
    let given = descriptor("O:{A}G:{S}D:(D;;0x1;;;WD)(A;;FR;;;{B})");
    let changed = masked(&given, 0o640);
    let token = Token::new(sid(BOB), sid(BOB), &[], Privileges::empty()).expect("none");
    assert!(check(&changed, &token, Access::to(AccessMask::READ_DATA)).is_err(), "{}", text(&changed));
    assert_eq!(mode_of(&changed), 0o640);
}

#[test]
fn classes_that_are_one_have_the_same_bits() {
    for (text, mode, expected) in [
        ("O:{A}G:{A}D:(A;;FR;;;WD)", 0o640, 0o660),
        ("O:{A}G:WDD:(A;;FR;;;WD)", 0o704, 0o744),
        ("O:WDG:{A}D:(A;;FR;;;WD)", 0o751, 0o111),
        ("O:{A}G:OWD:(A;;FR;;;WD)", 0o640, 0o660),
    ] {
        assert_eq!(mode_of(&masked(&descriptor(text), mode)), expected, "{text}");
    }
}

#[test]
fn rights_of_owners_stay_restricted() {
    let given = descriptor("O:{A}G:{S}D:(A;;FR;;;OW)");
    let changed = masked(&given, 0o666);
    let owner = Token::new(sid(ALICE), sid(BOB), &[], Privileges::empty()).expect("none");
    assert!(check(&changed, &owner, Access::to(AccessMask::WRITE_DAC)).is_err(), "{}", text(&changed));
    assert_eq!(mode_of(&changed), 0o666);
}

#[test]
fn a_list_that_holds_nothing_back_becomes_the_mode() {
    for text in ["O:{A}G:{S}", "O:{A}G:{S}D:NO_ACCESS_CONTROL"] {
        assert_eq!(trivial_mode(&masked(&descriptor(text), 0o640), Node::File), Some(0o640));
    }
}

#[test]
fn other_settings_discard_or_refuse() {
    let given = descriptor("O:{A}G:{S}D:AI(A;;FA;;;{B})S:(AU;SA;FA;;;WD)");
    let discarded = change_mode(&given, 0o640, Node::File, ModeChange::Discard).expect("always");
    assert_eq!(discarded.dacl, computed(sid(ALICE), sid(STAFF), 0o640, Node::File).dacl);
    assert_eq!((discarded.sacl, discarded.control), (given.sacl.clone(), Control::empty()));
    assert_eq!(change_mode(&given, 0o640, Node::File, ModeChange::Refuse), Err(ModeRefused::BySetting));
    let nobodys = descriptor("O:{A}D:");
    assert_eq!(change_mode(&nobodys, 0, Node::File, ModeChange::Mask), Err(ModeRefused::Nobody));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_mode_is_the_one_that_was_set(given in ruled(), mode in 0..0o1000u32, is_file in any::<bool>()) {
        let node = if is_file { Node::File } else { Node::Directory };
        let changed = change_mode(&given, mode, node, ModeChange::Mask).expect("few");
        prop_assert_eq!(mode_of(&changed), mode, "{}", text(&changed));
    }

    #[test]
    fn what_is_handed_on_does_not_change(given in ruled(), mode in 0..0o1000u32, is_file in any::<bool>()) {
        let changed = change_mode(&given, mode, Node::Directory, ModeChange::Mask).expect("few");
        let below = |parent| {
            let node = if is_file { Node::File } else { Node::Directory };
            let default = AclState::Null;
            let creation =
                Creation { node, parent, given: None, owner: sid(BOB), group: sid(STAFF), default: &default, auto_inherit: true };
            create(creation).expect("few")
        };
        prop_assert_eq!(below(&changed), below(&given), "{} {}", text(&given), text(&changed));
    }

    #[test]
    fn nobody_else_gets_more(mut given in ruled(), mode in 0..0o1000u32, is_member in any::<bool>()) {
        // A user who is neither the owner nor of the group, perhaps named, perhaps of a named group.
        given.owner = Some(sid(ALICE));
        let groups = [(sid(STAFF), holdfast_identity::Membership::Enabled)];
        let groups = if is_member { &groups[..] } else { &[] };
        let token = Token::new(sid(BOB), sid(BOB), groups, Privileges::empty()).expect("few");
        let changed = change_mode(&given, mode, Node::File, ModeChange::Mask).expect("few");
        let may = |one: &SecurityDescriptor| check(one, &token, Access::maximum()).unwrap_or_default();
        let everybody = computed(sid(ALICE), sid(GUESTS), mode, Node::File);
        let (before, after, others) = (may(&given), may(&changed), may(&everybody));
        prop_assert!((before | others).contains(after), "{} {}", text(&given), text(&changed));
        // What was denied to somebody by name still is.
        for reason in explain(&given, &token, Access::maximum()).reasons {
            let Cause::Entry { index, .. } = reason.cause else { continue };
            let is_named = entries(&given)[index].sid() != Some(&holdfast_identity::well_known::EVERYONE);
            prop_assert!(reason.is_granted || !is_named || !after.intersects(reason.rights), "{} {}", text(&given), text(&changed));
        }
        // Nor more than the group has of what modes speak of.
        let group = computed(sid(ALICE), sid(GUESTS), mode >> 3 & 7 | (mode & 0o7), Node::File);
        let spoken = AccessMask::from_bits_retain(0x27);
        prop_assert!((may(&group) | others).contains(after & spoken), "{} {}", text(&given), text(&changed));
    }

    #[test]
    fn many_changes_do_not_make_the_list_longer_and_longer(given in ruled(), modes in prop::collection::vec(0..0o1000u32, 20)) {
        let mut changed = given.clone();
        for mode in modes {
            changed = masked(&changed, mode);
        }
        prop_assert!(entries(&changed).len() <= 2 * entries(&given).len() + 5, "{}", text(&changed));
    }
}
