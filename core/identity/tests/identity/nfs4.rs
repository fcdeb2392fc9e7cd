//! Lists of NFSv4: NT leads there and back.

use holdfast_identity::nfs4::{
    List, Nfs4Ace, Nfs4Acl, Nfs4Error, Nfs4ListFlags, Problem, Who, from_descriptor, into_list,
};
use holdfast_identity::{
    AccessMask, Ace, AceBody, AceFlags, Acl, AclState, Control, Domain, Id, IdMap, Node, SecurityDescriptor, Sid,
    computed, well_known,
};
use proptest::prelude::*;

use crate::common::{ALICE, STAFF, descriptor, entries, ruled, sid};

/// Alice is user 1000 and staff group 1000, by the domain of the tests.
fn map() -> IdMap {
    IdMap::new(Domain([1, 2, 3]), 1000..2000).expect("few ids")
}

fn converted(given: &SecurityDescriptor, list: List) -> Result<Nfs4Acl, Nfs4Error> {
    from_descriptor(given, list, |sid| map().exact_id_of(sid))
}

/// Type, flags, rights and whom, as on the wire.
fn wire(acl: &Nfs4Acl) -> Vec<(u32, u32, u32, String)> {
    let one = |ace: &Nfs4Ace| (ace.wire_type(), ace.wire_flags(), ace.mask.bits(), ace.who.to_string());
    acl.entries.iter().map(one).collect()
}

#[test]
fn entries_are_those_of_the_standard() {
    let given = descriptor(
        "O:{A}G:{S}D:PAI(D;;0x2;;;{B})(A;;FA;;;{A})(A;;FR;;;{S})(A;OICI;FR;;;{A})(A;OICIIO;GA;;;CO)(A;CINPIO;FX;;;CG)\
         (A;ID;FR;;;WD)(A;OI;0x1;;;{G})(A;;0x1;;;AU)(A;;0x1;;;S-1-22-1-7)",
    );
    let acl = converted(&given, List::Dacl).expect("all of it can be said");
    let expected = [
        (1, 0, 0x2, "1001"),
        (0, 0, 0x1f_01ff, "OWNER@"),
        (0, 0, 0x12_0089, "GROUP@"),
        (0, 3, 0x12_0089, "1000"),
        (0, 0xb, 0x1f_01ff, "OWNER@"),
        (0, 0xe, 0x12_00a0, "GROUP@"),
        (0, 0x80, 0x12_0089, "EVERYONE@"),
        (0, 0x41, 0x1, "1001"),
        (0, 0, 0x1, "AUTHENTICATED@"),
        (0, 0, 0x1, "7"),
    ];
    assert_eq!(wire(&acl), expected.map(|(kind, flags, mask, who)| (kind, flags, mask, who.to_owned())));
    assert_eq!(acl.flags, Nfs4ListFlags::AUTO_INHERIT | Nfs4ListFlags::PROTECTED);
    let given = descriptor("O:{A}G:{S}S:(AU;OISA;FA;;;WD)(AL;FA;FA;;;{B})");
    let acl = converted(&given, List::Sacl).expect("all of it can be said");
    let expected = [(2, 0x11, 0x1f_01ff, "EVERYONE@"), (3, 0x20, 0x1f_01ff, "1001")];
    assert_eq!(wire(&acl), expected.map(|(kind, flags, mask, who)| (kind, flags, mask, who.to_owned())));
    assert_eq!(converted(&descriptor("O:{A}G:{S}"), List::Sacl), Ok(Nfs4Acl::default()));
}

#[test]
fn what_nfs_cannot_say_is_named() {
    let problem = |text: &str| match converted(&descriptor(text), List::Dacl) {
        Err(Nfs4Error::Entry { index, problem }) => (index, problem),
        other => panic!("{text}: {other:?}"),
    };
    let unmapped = sid("S-1-5-21-7-7-7-1000");
    assert_eq!(problem("O:{A}G:{S}D:(A;;FA;;;{B})(A;;FA;;;S-1-5-21-7-7-7-1000)"), (1, Problem::Unmapped(unmapped)));
    assert_eq!(problem("O:{A}G:{S}D:(A;;FA;;;OW)"), (0, Problem::Unmapped(well_known::OWNER_RIGHTS)));
    assert_eq!(problem("O:{A}G:{S}D:(A;;FA;;;CO)"), (0, Problem::Unmapped(well_known::CREATOR_OWNER)));
    assert_eq!(problem("O:{A}G:{S}D:(A;;0x200;;;WD)"), (0, Problem::Rights(0x200)));
    assert_eq!(problem("O:{A}G:{S}D:(A;;0x1000000;;;WD)"), (0, Problem::Rights(0x0100_0000)));
    assert_eq!(problem("O:{A}G:{S}D:(AU;SA;0x1;;;WD)"), (0, Problem::Type(2)));
    assert_eq!(problem("O:{A}G:{S}D:(A;;0x1;;;S-1-22-1-1000)"), (0, Problem::Unmapped(sid("S-1-22-1-1000"))));
    assert_eq!(converted(&descriptor("O:{A}G:{S}D:NO_ACCESS_CONTROL"), List::Dacl), Err(Nfs4Error::NoList));
    assert_eq!(converted(&descriptor("O:{A}G:{S}"), List::Dacl), Err(Nfs4Error::NoList));
    assert_eq!(converted(&descriptor("O:{A}D:"), List::Dacl), Err(Nfs4Error::Nobody));
    let odd = Ace::allow(well_known::EVERYONE, AccessMask::FILE_READ).with_flags(AceFlags::from_bits_retain(0x20));
    let odd =
        SecurityDescriptor { dacl: AclState::Present(Acl::new(vec![odd]).expect("one")), ..descriptor("O:{A}G:{S}") };
    assert_eq!(converted(&odd, List::Dacl), Err(Nfs4Error::Entry { index: 0, problem: Problem::Flags(0x20) }));
    let error = converted(&descriptor("O:{A}G:{S}D:(A;;FA;;;OW)"), List::Dacl).expect_err("cannot be said").to_string();
    assert_eq!(error, "entry 1 cannot be converted between NT and NFSv4: S-1-3-4 has no user or group number");
}

#[test]
fn what_comes_from_the_wire_is_checked() {
    let directory = |name: &str, is_group: bool| match (name, is_group) {
        ("alice@example.com", false) => Some(Id::User(1000)),
        ("staff@example.com", true) => Some(Id::Group(1000)),
        _ => None,
    };
    let read = |kind, flags, mask, who| Nfs4Ace::from_wire(kind, flags, mask, who, directory);
    assert_eq!(read(0, 0x40, 1, "staff@example.com").map(|ace| ace.who), Ok(Who::Id(Id::Group(1000))));
    assert_eq!(read(0, 0, 1, "alice@example.com").map(|ace| ace.who), Ok(Who::Id(Id::User(1000))));
    assert_eq!(read(0, 0x40, 1, "7").map(|ace| ace.who), Ok(Who::Id(Id::Group(7))));
    assert_eq!(read(0, 0x40, 1, "GROUP@").map(|ace| (ace.who, ace.wire_flags())), Ok((Who::Group, 0)));
    for who in ["BATCH@", "INTERACTIVE@", "NETWORK@", "DIALUP@", "ANONYMOUS@", "AUTHENTICATED@", "SERVICE@"] {
        assert_eq!(read(0, 0, 1, who).map(|ace| ace.who.to_string()).as_deref(), Ok(who));
    }
    for who in ["", "07", "+7", "4294967295", "4294967296", "owner@", "alice", "staff@example.com"] {
        assert_eq!(read(0, 0, 1, who), Err(Problem::Unknown(who.to_owned())));
    }
    assert_eq!(read(4, 0, 1, "OWNER@"), Err(Problem::Type(4)));
    assert_eq!(read(u32::MAX, 0, 1, "OWNER@"), Err(Problem::Type(u32::MAX)));
    assert_eq!(read(0, 0x100, 1, "OWNER@"), Err(Problem::Flags(0x100)));
    assert_eq!(read(0, 0, 0x601, "OWNER@"), Err(Problem::Rights(0x600)));
}

#[test]
fn classes_become_what_nt_has_for_them() {
    let read = |flags, who| Nfs4Ace::from_wire(0, flags, 1, who, |_, _| None).expect("an entry");
    let acl = Nfs4Acl {
        flags: Nfs4ListFlags::PROTECTED,
        entries: vec![read(0x3, "OWNER@"), read(0x8b, "GROUP@"), read(0, "OWNER@"), read(0x3, "EVERYONE@")],
    };
    let (owner, group) = (sid(ALICE), sid(STAFF));
    let (state, control) = into_list(&acl, List::Dacl, owner, group, |id| map().sid_of(id)).expect("few");
    let expected =
        descriptor("D:P(A;;0x1;;;{A})(A;OICIIO;0x1;;;CO)(A;OICIIOID;0x1;;;CG)(A;;0x1;;;{A})(A;OICI;0x1;;;WD)");
    assert_eq!((state, control), (expected.dacl, Control::DACL_PROTECTED));
    let audit = Nfs4Ace::from_wire(2, 0x10, 1, "OWNER@", |_, _| None).expect("an entry");
    let acl = Nfs4Acl { entries: vec![read(0, "OWNER@"), audit], ..Nfs4Acl::default() };
    let error = into_list(&acl, List::Dacl, owner, group, |id| map().sid_of(id));
    assert_eq!(error, Err(Nfs4Error::Entry { index: 1, problem: Problem::Type(2) }));
    let many = Nfs4Acl { entries: vec![read(0x3, "OWNER@"); 4000], ..Nfs4Acl::default() };
    assert!(matches!(into_list(&many, List::Dacl, owner, group, |id| map().sid_of(id)), Err(Nfs4Error::TooLarge(_))));
}

#[test]
fn every_mode_can_be_said() {
    let (owner, group) = (IdMap::unmapped(Id::User(5)), IdMap::unmapped(Id::Group(7)));
    for mode in 0..0o1000 {
        let given = computed(owner, group, mode, Node::Directory);
        let acl = converted(&given, List::Dacl).expect("all of it can be said");
        assert!(acl.entries.iter().all(|ace| matches!(ace.who, Who::Owner | Who::Group | Who::Everyone)));
        let (dacl, _) = into_list(&acl, List::Dacl, owner, group, |id| map().sid_of(id)).expect("few");
        assert_eq!(dacl, given.dacl);
    }
}

/// Entries whose meaning NFSv4 has in another form: generic rights as what they stand for, creators as inherit-only.
fn normal(given: &SecurityDescriptor) -> Vec<Ace> {
    let one = |entry: &Ace| {
        let AceBody::Plain { kind, mask, sid } = entry.body else { panic!("rules only") };
        let creators: [Sid; 2] = [well_known::CREATOR_OWNER, well_known::CREATOR_GROUP];
        let io = if creators.contains(&sid) { AceFlags::INHERIT_ONLY } else { AceFlags::empty() };
        Ace { flags: entry.flags | io, body: AceBody::Plain { kind, mask: mask.mapped(), sid } }
    };
    entries(given).iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn there_and_back_is_the_same(given in ruled()) {
        match converted(&given, List::Dacl) {
            Ok(acl) => {
                let (owner, group) = (given.owner.expect("one"), given.group.expect("one"));
                let (state, control) = into_list(&acl, List::Dacl, owner, group, |id| map().sid_of(id)).expect("few");
                prop_assert_eq!(acl.entries.len(), entries(&given).len());
                prop_assert_eq!(state.acl().expect("a list").entries(), normal(&given));
                prop_assert_eq!(control, given.control);
                // And over the wire.
                for ace in acl.entries {
                    let who = ace.who.to_string();
                    let again = Nfs4Ace::from_wire(ace.wire_type(), ace.wire_flags(), ace.mask.bits(), &who, |_, _| None);
                    prop_assert_eq!(again, Ok(ace));
                }
            }
            Err(Nfs4Error::Entry { index, .. }) => {
                let entry = &entries(&given)[index];
                let AceBody::Plain { mask, sid, .. } = entry.body else { panic!("rules only") };
                let is_strange = !AccessMask::FILE_ALL.contains(mask.mapped());
                let creators = [well_known::CREATOR_OWNER, well_known::CREATOR_GROUP, well_known::OWNER_RIGHTS];
                prop_assert!(is_strange || creators.contains(&sid), "{entry:?}");
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
