//! What modes of new files add to lists that these inherit.

use holdfast_identity::{
    Access, AccessMask, Control, Creation, Node, SecurityDescriptor, Token, check, create, for_creator, mode_of,
    reinherit, sddl,
};

use crate::common::{ALICE, BOB, GUESTS, STAFF, caller, descriptor, entries, sid};

fn parent(dacl: &str) -> SecurityDescriptor {
    descriptor(&format!("O:BAG:BAD:AI{dacl}"))
}

/// A file that Bob of the group guests creates.
fn inherited(parent: &SecurityDescriptor, node: Node) -> SecurityDescriptor {
    let default = holdfast_identity::computed(sid(BOB), sid(GUESTS), 0o777, node).dacl;
    let (owner, group) = (sid(BOB), sid(GUESTS));
    create(Creation { node, parent, given: None, owner, group, default: &default, auto_inherit: true }).expect("few")
}

fn bob() -> Token {
    caller(BOB, &[STAFF])
}

fn made(dacl: &str, mode: u32, node: Node) -> SecurityDescriptor {
    for_creator(inherited(&parent(dacl), node), &bob(), mode, node).expect("few entries")
}

fn text(descriptor: &SecurityDescriptor) -> String {
    let text = sddl::print(descriptor).expect("plain");
    let text = text.replace(ALICE, "{A}").replace(BOB, "{B}").replace(STAFF, "{S}").replace(GUESTS, "{G}");
    text.trim_start_matches("O:{B}G:{G}D:").to_owned()
}

#[test]
fn the_list_stays_and_the_owner_has_what_the_program_asked_for() {
    for (dacl, mode, node, expected) in [
        ("(A;OICI;FA;;;{S})(A;OICI;FR;;;WD)", 0o644, Node::File, "AI(A;;CCDC;;;{B})(A;ID;FA;;;{S})(A;ID;FR;;;WD)"),
        ("(A;OICI;FA;;;{S})(A;OICI;FR;;;WD)", 0o444, Node::File, "AI(A;ID;FA;;;{S})(A;ID;FR;;;WD)"),
        ("(A;OICI;FA;;;WD)", 0o640, Node::File, "AI(A;ID;FA;;;WD)"),
        ("(A;OICI;FA;;;CO)", 0o755, Node::Directory, "AI(A;ID;FA;;;{B})(A;OICIIOID;FA;;;CO)"),
        // What is denied by name or group stays denied, and owners have what is said of them.
        ("(D;OI;FW;;;{B})(A;OI;FR;;;WD)", 0o755, Node::File, "AI(A;;FX;;;{B})(D;ID;FW;;;{B})(A;ID;FR;;;WD)"),
        ("(D;OI;FW;;;{S})(A;OI;FRFX;;;WD)", 0o755, Node::File, "AI(D;ID;FW;;;{S})(A;ID;FRFX;;;WD)"),
        ("(A;OI;FR;;;OW)(A;OI;FX;;;WD)", 0o644, Node::File, "AI(A;ID;FR;;;OW)(A;ID;FX;;;WD)"),
    ] {
        let made = made(dacl, mode, node);
        let of_inherited = |descriptor: &SecurityDescriptor| {
            let all = entries(descriptor).iter();
            all.filter(|entry| entry.is_inherited()).cloned().collect::<Vec<_>>()
        };
        assert_eq!(of_inherited(&made), entries(&inherited(&parent(dacl), node)), "{dacl}");
        assert!(!made.control.contains(Control::DACL_PROTECTED));
        let own = entries(&made).len() - of_inherited(&made).len();
        assert_eq!(own, expected.matches('(').count() - expected.matches("ID;").count(), "{dacl}: {}", text(&made));
        let may = |rights| check(&made, &bob(), Access::to(rights)).is_ok();
        assert_eq!(may(AccessMask::WRITE_DATA), !dacl.contains("FW") && !dacl.contains("OW"), "{dacl}");
    }
    // The kernel lets owners in by the mode.
    let mode = mode_of(&made("(A;OICI;FA;;;{S})(A;OICI;FR;;;WD)", 0o755, Node::Directory));
    assert_eq!(mode, 0o744);
}

#[test]
fn what_is_made_for_the_owner_alone_is_the_owners_alone_and_stays_within_reach() {
    let top = "(D;OICI;0x20;;;{G})(A;OICI;FA;;;{S})(A;OICI;FR;;;WD)";
    for (mode, node) in [(0o600, Node::File), (0o700, Node::Directory), (0o400, Node::File), (0, Node::File)] {
        let made = made(top, mode, node);
        assert_eq!(mode_of(&made), mode, "{}", text(&made));
        for who in [caller(ALICE, &[STAFF]), caller(ALICE, &[GUESTS])] {
            for rights in [AccessMask::READ_DATA, AccessMask::WRITE_DATA, AccessMask::WRITE_DAC, AccessMask::DELETE] {
                assert!(check(&made, &who, Access::to(rights)).is_err(), "{rights:?}: {}", text(&made));
            }
        }
        assert!(check(&made, &bob(), Access::to(AccessMask::WRITE_DAC | AccessMask::DELETE)).is_ok());
        assert!(!made.control.contains(Control::DACL_PROTECTED));
        let after = reinherit(&made, &parent("(A;OICI;FR;;;{A})"), node).expect("few");
        let left: Vec<_> = entries(&after).iter().filter(|entry| entry.is_inherited()).collect();
        assert_eq!(left.len(), 1, "what is taken back above is taken back here: {}", text(&after));
    }
    // Where the list gives nobody else anything, there is nothing to deny.
    assert_eq!(text(&made("(A;OI;FA;;;CO)", 0o600, Node::File)), "AI(A;ID;FA;;;{B})");
    // The owner gets no more by it than the list gives.
    let limited = made("(D;OI;0x1;;;{B})(A;OI;FR;;;OW)(A;OI;FA;;;WD)", 0o600, Node::File);
    assert!(check(&limited, &bob(), Access::to(AccessMask::READ_DATA)).is_err(), "{}", text(&limited));
    assert!(check(&limited, &caller(ALICE, &[]), Access::to(AccessMask::READ_DATA)).is_err());
}
