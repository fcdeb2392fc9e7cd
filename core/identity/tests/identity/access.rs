//! The check of access: cases of its rules, and a model that looks at one right at a time.

use holdfast_identity::{
    Access, AccessMask, Ace, AceBody, AceFlags, AceKind, Acl, AclState, Cause, Membership, OpaqueAce, Privileges,
    Refused, Removal, SecurityDescriptor, Token, check, check_removal, check_traverse, explain, is_canonical,
    sort_canonical, well_known,
};
use proptest::prelude::*;

use crate::common::{ALICE, BOB, GUESTS, STAFF, caller, descriptor, entries, privileged, rights, ruled, sid, somebody};

/// What a caller gets of everything.
fn maximum(descriptor: &SecurityDescriptor, token: &Token) -> u32 {
    check(descriptor, token, Access::maximum()).unwrap_or_default().bits()
}

#[test]
fn rules_decide_as_documented() {
    let alice = caller(ALICE, &[STAFF]);
    let bob = caller(BOB, &[GUESTS]);
    let cases: &[(&str, &str, &Token, u32)] = &[
        ("no list grants all", "O:BA", &bob, 0x1f_01ff),
        ("a null list grants all", "O:BAD:NO_ACCESS_CONTROL", &bob, 0x1f_01ff),
        ("an empty list grants nothing", "O:BAD:", &bob, 0),
        ("an empty list leaves the owner what owners have", "O:{A}D:", &alice, 0x6_0000),
        ("a group grants", "O:BAD:(A;;FR;;;{S})", &alice, 0x12_0089),
        ("another group does not", "O:BAD:(A;;FR;;;{S})", &bob, 0),
        ("grants add up", "O:BAD:(A;;0x1;;;{S})(A;;0x2;;;{A})(A;;0x4;;;WD)", &alice, 7),
        ("generic rights count as what they stand for", "O:BAD:(A;;GR;;;WD)", &bob, 0x12_0089),
        ("what is denied first stays denied", "O:BAD:(D;;0x2;;;{S})(A;;0x3;;;{A})", &alice, 1),
        ("what is granted first stays granted", "O:BAD:(A;;0x3;;;{A})(D;;0x2;;;{S})", &alice, 3),
        ("an explicit grant is before an inherited denial", "O:BAD:(A;;0x1;;;{A})(D;ID;0x1;;;{A})", &alice, 1),
        ("an inherited denial is before an inherited grant", "O:BAD:(D;ID;0x1;;;{S})(A;ID;0x3;;;{A})", &alice, 2),
        ("the owner is not denied what owners have", "O:{A}D:(D;;0x60001;;;{A})(A;;0x1;;;WD)", &alice, 0x6_0000),
        ("inherit-only entries grant nothing", "O:BAD:(A;OICIIO;FA;;;WD)", &bob, 0),
        ("inherit-only entries deny nothing", "O:BAD:(D;CIIO;FA;;;WD)(A;;0x1;;;WD)", &bob, 1),
        ("an owner's rights stand in place of what owners have", "O:{A}D:(A;;0x20001;;;OW)", &alice, 0x2_0001),
        ("an owner's rights may be none", "O:{A}D:(A;;0x0;;;OW)", &alice, 0),
        ("an owner's rights may be denied", "O:{A}D:(D;;0x1;;;OW)(A;;0x3;;;{A})", &alice, 2),
        ("an owner's rights are the owner's only", "O:{A}D:(A;;FA;;;OW)", &bob, 0),
        ("inherit-only rights of owners change nothing", "O:{A}D:(A;CIIO;0x1;;;OW)", &alice, 0x6_0000),
        ("an owner by a group", "O:{S}D:", &alice, 0x6_0000),
        ("auditing grants nothing", "O:BAD:S:(AU;SA;FA;;;WD)", &bob, 0),
        ("an entry of an alarm in a DACL grants nothing", "O:BAD:(AU;SA;FA;;;WD)", &bob, 0),
        ("the system's right is no entry's", "O:BAD:(A;;0x11f01ff;;;WD)", &bob, 0x1f_01ff),
        ("creators are nobody", "O:{A}G:{S}D:(A;;0x1;;;CO)(A;;0x2;;;CG)", &alice, 0x6_0000),
    ];
    for (what, text, token, expected) in cases {
        let given = descriptor(text);
        assert_eq!(maximum(&given, token), *expected, "{what}: {text}");
        let asked = AccessMask::from_bits_retain(*expected);
        assert_eq!(check(&given, token, Access::to(asked)), Ok(asked), "{what}");
        for bit in (0..21).map(|bit| AccessMask::from_bits_retain(1 << bit)).filter(|bit| !asked.contains(*bit)) {
            let all_but = AccessMask::FILE_ALL.contains(bit);
            let refused = check(&given, token, Access::to(bit | asked));
            assert!(refused == Err(Refused { missing: bit }) || !all_but, "{what}: {bit:?}");
        }
    }
}

#[test]
fn groups_that_only_deny_do_not_grant() {
    let groups = [(sid(STAFF), Membership::DenyOnly)];
    let token = Token::new(sid(ALICE), sid(ALICE), &groups, Privileges::empty()).expect("few");
    assert_eq!(maximum(&descriptor("O:BAD:(A;;FA;;;{S})"), &token), 0);
    assert_eq!(maximum(&descriptor("O:BAD:(D;;0x1;;;{S})(A;;0x3;;;WD)"), &token), 2);
    assert_eq!(maximum(&descriptor("O:{S}D:"), &token), 0, "no owner by such a group");
    assert_eq!(maximum(&descriptor("O:{S}D:(D;;0x1;;;OW)(A;;0x3;;;WD)"), &token), 2, "denied as the owner");
}

#[test]
fn privileges_grant_their_own_rights() {
    let closed = descriptor("O:BAD:");
    let asked = |privileges, desired: u32, backup_intent| {
        let token = privileged(BOB, &[], privileges);
        let access = Access { desired: AccessMask::from_bits_retain(desired), backup_intent };
        check(&closed, &token, access).map(|granted| granted.bits()).map_err(|refused| refused.missing.bits())
    };
    let none = Privileges::empty();
    assert_eq!(asked(none, 0x0100_0000, true), Err(0x0100_0000));
    assert_eq!(asked(Privileges::SECURITY, 0x0100_0000, false), Ok(0x0100_0000));
    assert_eq!(asked(Privileges::SECURITY, 0x0300_0000, false), Ok(0x0100_0000), "with the most");
    assert_eq!(asked(Privileges::SECURITY, 0x0200_0000, false), Err(0x0200_0000), "the most has it only if named");
    assert_eq!(asked(Privileges::TAKE_OWNERSHIP, 0x000c_0000, false), Err(0x0004_0000));
    assert_eq!(asked(Privileges::TAKE_OWNERSHIP, 0x0008_0000, false), Ok(0x0008_0000));
    assert_eq!(asked(Privileges::TAKE_OWNERSHIP, 0x0200_0000, false), Err(0x0200_0000), "likewise");
    assert_eq!(asked(Privileges::BACKUP, 0x0012_0089, false), Err(0x0012_0089), "only for backup");
    assert_eq!(asked(Privileges::BACKUP, 0x0012_00a9, true), Ok(0x0012_00a9));
    assert_eq!(asked(Privileges::BACKUP, 0x0002_0002, true), Err(2));
    assert_eq!(asked(Privileges::BACKUP, 0x0200_0000, true), Ok(0x0012_00a9));
    assert_eq!(asked(Privileges::RESTORE, 0x010d_0116, true), Ok(0x010d_0116));
    assert_eq!(asked(Privileges::RESTORE, 1, true), Err(1));
    assert_eq!(
        asked(Privileges::BACKUP | Privileges::RESTORE, 0x1000_0000, true),
        Err(0x40),
        "not to empty directories"
    );
}

#[test]
fn no_entry_grants_the_right_to_audit() {
    let right = AccessMask::ACCESS_SYSTEM_SECURITY;
    for text in ["O:BAD:(A;;0x11f01ff;;;WD)", "O:BAD:NO_ACCESS_CONTROL"] {
        let asked = check(&descriptor(text), &caller(BOB, &[]), Access::to(right));
        assert_eq!(asked, Err(Refused { missing: right }), "{text}");
    }
}

#[test]
fn entries_that_are_not_understood_never_grant_and_may_deny() {
    let mut body = 3u32.to_le_bytes().to_vec();
    body.extend(sid(STAFF).to_bytes());
    let opaque =
        |code| Ace { flags: AceFlags::empty(), body: AceBody::Opaque(OpaqueAce::new(code, &body).expect("one")) };
    let given = |code| {
        let entries = vec![opaque(code), Ace::allow(sid(ALICE), AccessMask::from_bits_retain(5))];
        SecurityDescriptor { dacl: AclState::Present(Acl::new(entries).expect("two")), ..descriptor("O:BA") }
    };
    let alice = caller(ALICE, &[STAFF]);
    assert_eq!(maximum(&given(0x09), &alice), 5, "what is granted under a condition is not granted");
    assert_eq!(maximum(&given(0x0a), &alice), 4, "what is denied under a condition is denied");
    assert_eq!(maximum(&given(0x0a), &caller(ALICE, &[])), 5, "to those whom it concerns");
    assert_eq!(maximum(&given(0x7f), &alice), 5);
}

#[test]
fn the_directory_may_let_remove() {
    let (alice, bob) = (caller(ALICE, &[]), caller(BOB, &[]));
    let removes = |file: &str, directory: &str, is_sticky, token: &Token| {
        let (file, directory) = (descriptor(file), descriptor(directory));
        let removal = Removal { file: &file, directory: &directory, is_sticky, backup_intent: false };
        check_removal(removal, token).is_ok()
    };
    let (open, closed) = ("O:BAD:(A;;DT;;;WD)", "O:BAD:(A;;FR;;;WD)");
    assert!(removes("O:BAD:(A;;SD;;;{B})", closed, true, &bob), "by the file");
    assert!(removes("O:BAD:(D;;SD;;;{B})", open, false, &bob), "by the directory, whatever the file says");
    assert!(!removes("O:{B}D:", closed, false, &bob), "owners as such may not");
    assert!(!removes("O:{A}D:", open, true, &bob), "sticky: not another's");
    assert!(removes("O:{A}D:", open, true, &alice), "sticky: one's own");
    assert!(removes("O:{A}D:", "O:{B}D:(A;;DT;;;WD)", true, &bob), "sticky: in one's own directory");
    let restorer = privileged(BOB, &[], Privileges::RESTORE);
    let (file, directory) = (descriptor("O:{A}D:"), descriptor(closed));
    let removal = Removal { file: &file, directory: &directory, is_sticky: true, backup_intent: true };
    assert_eq!(check_removal(removal, &restorer), Ok(()));
    let refused = check_removal(Removal { backup_intent: false, ..removal }, &restorer);
    assert_eq!(refused, Err(Refused { missing: AccessMask::DELETE }));
}

#[test]
fn a_privilege_lets_pass_through() {
    let closed = descriptor("O:BAD:(A;;FR;;;{B})");
    assert_eq!(check_traverse(&closed, &privileged(BOB, &[], Privileges::CHANGE_NOTIFY)), Ok(()));
    let refused = Err(Refused { missing: AccessMask::EXECUTE });
    assert_eq!(check_traverse(&closed, &privileged(BOB, &[], !Privileges::CHANGE_NOTIFY)), refused);
    assert_eq!(check_traverse(&descriptor("O:BAD:(A;;FX;;;{B})"), &caller(BOB, &[])), Ok(()));
}

#[test]
fn explanations_name_what_decided() {
    let given = descriptor("O:{A}D:(D;;0x2;;;{S})(A;;0x3;;;{A})(A;ID;0x24;;;WD)");
    let explained = explain(&given, &caller(ALICE, &[STAFF]), Access::maximum());
    let lines: Vec<String> = explained.reasons.iter().map(ToString::to_string).collect();
    let expected = [
        "read permissions, change permissions granted: the caller owns the file",
        "write data refused: entry 1",
        "read data granted: entry 2",
        "append data, execute or pass through granted: entry 3, inherited",
    ];
    assert_eq!(lines[..4], expected);
    assert!(lines[4].ends_with("refused: no entry for the caller grants it") && lines.len() == 5);
    let cause = explained.of(AccessMask::WRITE_DATA).map(|reason| (reason.is_granted, reason.cause));
    assert_eq!(cause, Some((false, Cause::Entry { index: 0, is_inherited: false })));
    let backup = privileged(BOB, &[], Privileges::BACKUP | Privileges::TAKE_OWNERSHIP | Privileges::SECURITY);
    let asked = Access { desired: AccessMask::from_bits_retain(0x0108_0001), backup_intent: true };
    let lines: Vec<String> = explain(&given, &backup, asked).reasons.iter().map(ToString::to_string).collect();
    let expected = [
        "audit granted: privilege of auditing",
        "take ownership granted: privilege of taking ownership",
        "read data granted: privilege of backup",
    ];
    assert_eq!(lines, expected);
    let open = explain(&descriptor("O:BA"), &backup, Access::to(AccessMask::READ_DATA));
    assert_eq!(open.reasons[0].to_string(), "read data granted: the file has no list of permissions");
}

#[test]
fn the_canonical_order_is_the_one_of_windows() {
    let canonical = "D:(D;;0x1;;;{A})(A;;0x1;;;{B})(A;;0x2;;;WD)(A;ID;0x1;;;{S})(D;ID;0x1;;;{G})";
    let given = descriptor(canonical);
    assert!(is_canonical(entries(&given)), "generations of inherited entries follow each other");
    for wrong in
        ["D:(A;;0x1;;;{B})(D;;0x1;;;{A})", "D:(A;ID;0x1;;;{B})(A;;0x1;;;{A})", "D:(D;ID;0x1;;;{B})(D;;0x1;;;{A})"]
    {
        let given = descriptor(wrong);
        assert!(!is_canonical(entries(&given)), "{wrong}");
        let mut sorted = entries(&given).to_vec();
        sort_canonical(&mut sorted);
        assert!(is_canonical(&sorted), "{wrong}");
    }
    let mut mixed =
        entries(&descriptor("D:(A;ID;0x1;;;{S})(A;;0x1;;;{B})(D;ID;0x1;;;{G})(A;;0x2;;;WD)(D;;0x1;;;{A})")).to_vec();
    sort_canonical(&mut mixed);
    assert_eq!(mixed, entries(&given));
}

/// Whether one right is granted, by the words of [MS-DTYP] 2.5.3.2.
fn model(descriptor: &SecurityDescriptor, user: usize, deny_only: &[bool], bit: u32) -> bool {
    let sids = callers_sids();
    let holds = |one: holdfast_identity::Sid, denies: bool| {
        one == well_known::EVERYONE
            || sids
                .iter()
                .position(|known| *known == one)
                .is_some_and(|at| at == user || (2..4).contains(&at) && (denies || !deny_only[at - 2]))
    };
    let owner = descriptor.owner.expect("an owner");
    let list = entries(descriptor);
    let of_owner = |one: &&Ace| one.sid() == Some(&well_known::OWNER_RIGHTS) && one.flags.bits() & 8 == 0;
    if [17, 18].contains(&bit) && holds(owner, false) && !list.iter().any(|one| of_owner(&one)) {
        return true;
    }
    for one in list {
        let AceBody::Plain { kind, mask, sid } = one.body else { panic!("rules only") };
        let mut bits = mask.bits();
        let generic = [(31, 0x12_0089), (30, 0x12_0116), (29, 0x12_00a0), (28, 0x1f_01ff)];
        for (at, stands_for) in generic {
            if mask.bits() & 1 << at != 0 {
                bits |= stands_for;
            }
        }
        if one.flags.bits() & 8 != 0 || bits & 1 << bit == 0 {
            continue;
        }
        let denies = kind == AceKind::Deny;
        let of_owner = sid == well_known::OWNER_RIGHTS && holds(owner, denies);
        if of_owner || sid != well_known::OWNER_RIGHTS && holds(sid, denies) {
            return !denies;
        }
    }
    false
}

/// Users, then groups.
fn callers_sids() -> [holdfast_identity::Sid; 4] {
    [ALICE, BOB, STAFF, GUESTS].map(sid)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_check_is_the_model_for_every_right(given in ruled(), user in 0..2usize, deny_only in any::<[bool; 2]>(), asked in rights()) {
        let sids = callers_sids();
        let groups: Vec<_> = (0..2)
            .map(|at| (sids[at + 2], if deny_only[at] { Membership::DenyOnly } else { Membership::Enabled }))
            .collect();
        let token = Token::new(sids[user], well_known::EVERYONE, &groups, Privileges::empty()).expect("two");
        let rights = (0..21).filter(|bit| 0x1f_01ff & 1 << bit != 0);
        let expected = rights.filter(|bit| model(&given, user, &deny_only, *bit)).fold(0, |all, bit| all | 1 << bit);
        prop_assert_eq!(maximum(&given, &token), expected);
        let wanted = asked.mapped() & AccessMask::FILE_ALL;
        let missing = wanted - AccessMask::from_bits_retain(expected);
        let answer = check(&given, &token, Access::to(wanted));
        prop_assert_eq!(answer, if missing.is_empty() { Ok(wanted) } else { Err(Refused { missing }) });
        prop_assert_eq!(explain(&given, &token, Access::maximum()).granted.bits(), expected);
    }

    #[test]
    fn explanations_are_right_without_the_rest(given in ruled(), user in somebody()) {
        // An entry that is said to have decided decides the same alone.
        let token = Token::new(user, user, &[], Privileges::empty()).expect("none");
        for reason in explain(&given, &token, Access::maximum()).reasons {
            let Cause::Entry { index, is_inherited } = reason.cause else { continue };
            let entry = entries(&given)[index].clone();
            prop_assert_eq!(entry.is_inherited(), is_inherited);
            let allow_rest = Ace::allow(well_known::EVERYONE, AccessMask::FILE_ALL);
            let silenced = Ace::plain(AceKind::Allow, well_known::OWNER_RIGHTS, AccessMask::empty());
            let alone = SecurityDescriptor {
                dacl: AclState::Present(Acl::new(vec![silenced, entry, allow_rest]).expect("three")),
                ..given.clone()
            };
            let got = maximum(&alone, &token) & reason.rights.bits();
            prop_assert_eq!(got, if reason.is_granted { reason.rights.bits() } else { 0 });
        }
    }
}
