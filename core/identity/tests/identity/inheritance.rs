//! What new files get of their directory, and what follows a change of that.

use holdfast_identity::{
    AclState, Control, Creation, Node, SecurityDescriptor, create, is_canonical, reinherit, sddl, well_known,
};
use proptest::prelude::*;

use crate::common::{ALICE, BOB, GUESTS, STAFF, descriptor, entries, ruled, sid};

/// A file that Bob of the group guests creates.
fn creation<'a>(parent: &'a SecurityDescriptor, node: Node, default: &'a AclState) -> Creation<'a> {
    Creation { node, parent, given: None, owner: sid(BOB), group: sid(GUESTS), default, auto_inherit: true }
}

fn created(parent: &SecurityDescriptor, node: Node) -> SecurityDescriptor {
    create(creation(parent, node, &AclState::Present(holdfast_identity::Acl::default()))).expect("few entries")
}

/// The entries of a descriptor as text, with names for people.
fn text(descriptor: &SecurityDescriptor) -> String {
    let dacl = SecurityDescriptor { dacl: descriptor.dacl.clone(), ..SecurityDescriptor::default() };
    let text = sddl::print(&dacl).expect("plain entries");
    let text = text.replace(ALICE, "{A}").replace(BOB, "{B}").replace(STAFF, "{S}").replace(GUESTS, "{G}");
    text.trim_start_matches("D:").to_owned()
}

/// Flags of what is inherited, if anything is.
type Got = Option<&'static str>;

/// Flags of the directory's entry; what a file, a directory, and a file and a directory in that directory get.
const FLAGS: &[(&str, Got, Got, Got, Got)] = &[
    ("", None, None, None, None),
    ("OI", Some("ID"), Some("OIIOID"), Some("ID"), Some("OIIOID")),
    ("CI", None, Some("CIID"), None, Some("CIID")),
    ("OICI", Some("ID"), Some("OICIID"), Some("ID"), Some("OICIID")),
    ("OINP", Some("ID"), None, None, None),
    ("CINP", None, Some("ID"), None, None),
    ("OICINP", Some("ID"), Some("ID"), None, None),
    ("OIIO", Some("ID"), Some("OIIOID"), Some("ID"), Some("OIIOID")),
    ("CIIO", None, Some("CIID"), None, Some("CIID")),
    ("OICIIO", Some("ID"), Some("OICIID"), Some("ID"), Some("OICIID")),
    ("OINPIO", Some("ID"), None, None, None),
    ("CINPIO", None, Some("ID"), None, None),
    ("OICINPIO", Some("ID"), Some("ID"), None, None),
    ("IO", None, None, None, None),
    ("NP", None, None, None, None),
    ("OICIID", Some("ID"), Some("OICIID"), Some("ID"), Some("OICIID")),
];

#[test]
fn every_set_of_flags_is_inherited_as_documented() {
    for (kind, rights) in [("A", "FR"), ("D", "0x1301bf")] {
        for (flags, file, directory, file_below, directory_below) in FLAGS {
            let parent = descriptor(&format!("O:BAD:({kind};{flags};{rights};;;{{S}})"));
            let expected =
                |flags: &Got| flags.map_or(String::new(), |flags| format!("({kind};{flags};{rights};;;{{S}})"));
            assert_eq!(text(&created(&parent, Node::File)), expected(file), "a file below {flags}");
            let child = created(&parent, Node::Directory);
            assert_eq!(text(&child), expected(directory), "a directory below {flags}");
            assert_eq!(text(&created(&child, Node::File)), expected(file_below), "a file two below {flags}");
            assert_eq!(
                text(&created(&child, Node::Directory)),
                expected(directory_below),
                "a directory two below {flags}"
            );
        }
    }
}

#[test]
fn what_is_general_becomes_specific_where_it_is_effective() {
    let cases = [
        // Entry of the directory, a file, a directory.
        ("(A;OICIIO;FA;;;CO)", "(A;ID;FA;;;{B})", "(A;ID;FA;;;{B})(A;OICIIOID;FA;;;CO)"),
        ("(A;OICIIO;FR;;;CG)", "(A;ID;FR;;;{G})", "(A;ID;FR;;;{G})(A;OICIIOID;FR;;;CG)"),
        ("(A;OICI;GR;;;{S})", "(A;ID;FR;;;{S})", "(A;ID;FR;;;{S})(A;OICIIOID;GR;;;{S})"),
        ("(A;CI;GA;;;CO)", "", "(A;ID;FA;;;{B})(A;CIIOID;GA;;;CO)"),
        ("(A;CINP;FA;;;CO)", "", "(A;ID;FA;;;{B})"),
        ("(A;OIIO;GA;;;CO)", "(A;ID;FA;;;{B})", "(A;OIIOID;GA;;;CO)"),
        ("(D;OICIIO;SD;;;CO)", "(D;ID;SD;;;{B})", "(D;ID;SD;;;{B})(D;OICIIOID;SD;;;CO)"),
        ("(A;OICI;FA;;;OW)", "(A;ID;FA;;;OW)", "(A;OICIID;FA;;;OW)"),
    ];
    for (entry, file, directory) in cases {
        let parent = descriptor(&format!("O:{ALICE}G:{STAFF}D:{entry}"));
        assert_eq!(text(&created(&parent, Node::File)), file, "a file below {entry}");
        let child = created(&parent, Node::Directory);
        assert_eq!(text(&child), directory, "a directory below {entry}");
        // Each generation has its own creator.
        let default = AclState::Null;
        let by_alice = Creation { owner: sid(ALICE), group: sid(STAFF), ..creation(&child, Node::File, &default) };
        if file.contains("{B}") {
            assert_eq!(text(&create(by_alice).expect("one")), file.replace("{B}", "{A}"), "two below {entry}");
        }
    }
}

#[test]
fn nothing_inherited_is_the_default() {
    let parent = descriptor("O:BAD:(A;;FA;;;BA)");
    let default = descriptor("D:(A;;FA;;;{B})(A;;GR;;;CO)").dacl;
    let child = create(creation(&parent, Node::File, &default)).expect("few");
    assert_eq!(text(&child), "(A;;FA;;;{B})(A;;FR;;;{B})");
    assert_eq!((child.owner, child.group), (Some(sid(BOB)), Some(sid(GUESTS))));
    assert_eq!(child.control, Control::empty(), "it may be stored as a mode");
    let child = create(creation(&parent, Node::File, &AclState::Null)).expect("few");
    assert_eq!((child.dacl, child.control), (AclState::Null, Control::empty()));
    assert_eq!(created(&descriptor("O:BA"), Node::File).sacl, AclState::Absent);
}

#[test]
fn what_the_creator_gives_joins_what_is_inherited() {
    let parent = descriptor("O:BAD:AI(A;OICI;FA;;;BA)S:(AU;OICISA;FA;;;WD)");
    let default = AclState::Null;
    let give = |text: &str, auto_inherit| {
        let given = descriptor(text);
        let creation = Creation { given: Some(&given), auto_inherit, ..creation(&parent, Node::File, &default) };
        create(creation).expect("few")
    };
    let child = give("O:{A}D:(A;;GR;;;{S})(A;ID;FA;;;{G})", true);
    assert_eq!(text(&child), "(A;;FR;;;{S})(A;ID;FA;;;BA)", "what is said to be inherited is not believed");
    assert_eq!((child.owner, child.group), (Some(sid(ALICE)), Some(sid(GUESTS))));
    assert_eq!(child.control, Control::DACL_AUTO_INHERITED | Control::SACL_AUTO_INHERITED);
    assert_eq!(child.sacl, descriptor("S:(AU;IDSA;FA;;;WD)").sacl);
    let child = give("D:P(A;;FR;;;{S})(A;ID;FA;;;{G})", true);
    assert_eq!(text(&child), "(A;;FR;;;{S})(A;ID;FA;;;{G})", "a protected list is all there is");
    assert!(child.control.contains(Control::DACL_PROTECTED));
    assert_eq!(text(&give("D:(A;;FR;;;{S})", false)), "(A;;FR;;;{S})");
    assert_eq!(give("D:(A;;FR;;;{S})", false).control, Control::empty());
    assert_eq!(give("D:ARAI(A;;FR;;;{S})", false).control, Control::DACL_AUTO_INHERITED);
    assert_eq!(give("D:AI(A;;FR;;;{S})", false).control, Control::empty(), "it was not asked for");
    assert_eq!(
        text(&give("D:P(A;OICIIO;GA;;;CO)(A;CI;GR;;;CG)", true)),
        "(A;OICIIO;GA;;;CO)(A;;FR;;;{G})(A;CIIO;GR;;;CG)"
    );
    let bare = SecurityDescriptor { control: Control::DACL_PROTECTED, ..SecurityDescriptor::default() };
    let child = create(Creation { given: Some(&bare), ..creation(&parent, Node::File, &default) }).expect("few");
    assert_eq!(text(&child), "(A;ID;FA;;;BA)", "only a list that is there can be protected");
    assert!(!child.control.contains(Control::DACL_PROTECTED));
    assert_eq!(give("D:NO_ACCESS_CONTROL", true).dacl, AclState::Null);
    assert_eq!(text(&give("O:{A}", true)), "(A;ID;FA;;;BA)", "an owner alone is no list");
    let unmarked = create(Creation { auto_inherit: false, ..creation(&parent, Node::File, &default) }).expect("few");
    assert_eq!((text(&unmarked).as_str(), unmarked.control), ("(A;;FA;;;BA)", Control::empty()));
}

#[test]
fn a_change_above_replaces_what_was_inherited_and_nothing_else() {
    let parent = descriptor("O:BAD:AI(A;OICI;FR;;;{S})(D;CI;FW;;;{G})(A;OICIIO;FA;;;CO)");
    let child = descriptor("O:{B}G:{G}D:AI(D;;SD;;;{A})(A;;FA;;;{B})(A;ID;FA;;;BA)(A;OICIID;FX;;;BU)");
    let again = |child: &SecurityDescriptor, node| reinherit(child, &parent, node).expect("few");
    let file = again(&child, Node::File);
    assert_eq!(text(&file), "(D;;SD;;;{A})(A;;FA;;;{B})(A;ID;FR;;;{S})(A;ID;FA;;;{B})");
    let directory = again(&child, Node::Directory);
    let expected = "(D;;SD;;;{A})(A;;FA;;;{B})(A;OICIID;FR;;;{S})(D;CIID;FW;;;{G})(A;ID;FA;;;{B})(A;OICIIOID;FA;;;CO)";
    assert_eq!(text(&directory), expected);
    assert!(is_canonical(entries(&directory)));
    assert_eq!(again(&directory, Node::Directory), directory, "doing it again changes nothing");

    for kept in ["O:{B}D:P(A;;FA;;;{B})(A;ID;FA;;;BA)", "O:{B}D:NO_ACCESS_CONTROL", "O:{B}"] {
        let kept = descriptor(kept);
        assert_eq!(again(&kept, Node::Directory), kept);
    }
    let closed = descriptor("O:BAD:(A;;FA;;;BA)S:(AU;OISA;FA;;;WD)");
    let child = descriptor("O:{B}D:(A;;FA;;;{B})");
    let audited = reinherit(&child, &closed, Node::File).expect("few");
    assert_eq!((audited.dacl, audited.control), (child.dacl.clone(), Control::SACL_AUTO_INHERITED));
    assert_eq!(audited.sacl, descriptor("S:(AU;IDSA;FA;;;WD)").sacl);
    let stripped = reinherit(&descriptor("O:{B}D:AI(A;;FA;;;{B})(A;ID;FA;;;BA)"), &closed, Node::File).expect("few");
    assert_eq!(text(&stripped), "(A;;FA;;;{B})", "what is no longer handed on is gone");
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    let many = |text: &str| descriptor(&format!("O:BAD:{}", text.repeat(2000)));
    let (parent, child) = (many("(A;OICI;FR;;;WD)"), many("(A;;FR;;;WD)"));
    assert!(reinherit(&child, &parent, Node::File).is_err());
    let creation = Creation { given: Some(&child), ..creation(&parent, Node::File, &AclState::Null) };
    assert!(create(creation).is_err() && create(Creation { given: None, ..creation }).is_ok());
}

proptest! {
    #[test]
    fn what_a_new_file_inherits_is_what_it_would_inherit_again(parent in ruled(), is_file in any::<bool>()) {
        let node = if is_file { Node::File } else { Node::Directory };
        let child = create(creation(&parent, node, &AclState::Null)).expect("few");
        prop_assert_eq!(reinherit(&child, &parent, node), Ok(child.clone()));
        if let Some(acl) = child.dacl.acl() {
            for entry in acl.entries() {
                prop_assert!(entry.is_inherited());
                prop_assert!(node == Node::Directory || entry.flags.bits() & 0xf == 0, "files hand nothing on");
                let general = [well_known::CREATOR_OWNER, well_known::CREATOR_GROUP];
                prop_assert!(entry.is_inherit_only() || !general.contains(entry.sid().expect("plain")));
            }
        }
    }

    #[test]
    fn explicit_entries_stay(child in ruled(), parent in ruled()) {
        let explicit = |one: &SecurityDescriptor| {
            entries(one).iter().filter(|entry| !entry.is_inherited()).cloned().collect::<Vec<_>>()
        };
        let new = reinherit(&child, &parent, Node::Directory).expect("few");
        prop_assert_eq!(explicit(&new), explicit(&child));
        let is_protected = child.control.contains(Control::DACL_PROTECTED);
        prop_assert!(!is_protected || new == child);
    }
}
