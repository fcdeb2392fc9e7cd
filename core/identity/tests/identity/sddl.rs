//! Text: what is printed is read as the same, and errors name their place.

use holdfast_identity::sddl::{Problem, SddlError, parse, print};
use holdfast_identity::{Ace, AceBody, AceFlags, Acl, AclState, Control, OpaqueAce, SecurityDescriptor};
use proptest::prelude::*;

use crate::common::{any_descriptor, descriptor, sid};

#[test]
fn texts_are_printed_as_windows_has_them() {
    let texts = [
        "",
        "O:BAG:SY",
        "O:BAG:SYD:PAI(A;OICI;FA;;;BA)(A;OICIIO;GA;;;CO)(A;;0x1200a9;;;S-1-5-21-1-2-3-513)",
        "D:(D;NPID;FW;;;AN)(A;;RCSDWDWO;;;OW)(A;;GRGX;;;WD)(A;;0x0;;;AU)",
        "D:NO_ACCESS_CONTROL",
        "D:P",
        "D:ARAIS:PARAI(AU;SAFA;FX;;;WD)(AL;SA;FR;;;BU)(ML;;0x1;;;LW)",
        "O:S-1-22-1-1000G:S-1-22-2-1000D:",
    ];
    for text in texts {
        let read = parse(text, None).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(print(&read).as_deref(), Ok(text));
    }
}

#[test]
fn texts_are_read_in_any_dress() {
    let plain = descriptor("O:BAG:SYD:P(A;OICI;FA;;;BA)");
    let dressed = [
        "o:ba g:sy d:p(a;oici;fa;;;ba)",
        " G:SY\n D: P ( A ; OI CI ; 0x1F01FF ; ; ; S-1-5-32-544 ) O:S-1-5-32-544 ",
        "O:S-1-5-32-544G:S-1-5-18D:P(A;CIOI;2032127;;;BA)",
        "O:BAG:SYD:P(A;OICI;07600777;;;BA)",
        "O:BAG:SYD:P(A;OICI;FRFWFXSDWDWODT;;;BA)",
    ];
    for text in dressed {
        let text = text.replace("OI CI", "OICI");
        assert_eq!(parse(&text, None).as_ref(), Ok(&plain), "{text}");
    }
    // A D behind an identifier begins the DACL, and is no hexadecimal digit.
    assert_eq!(parse("G:S-1-0xAD:", None), parse("G:S-1-10 D:", None));
    assert_eq!(parse("G:S-1-0x1234567890ABD:", None).map(|read| read.dacl), Ok(AclState::Present(Acl::default())));
}

#[test]
fn letters_of_rights_are_bits() {
    let masks = [("CC", 1), ("DC", 2), ("LC", 4), ("SW", 8), ("RP", 0x10), ("WP", 0x20), ("DT", 0x40), ("LO", 0x80)];
    let more = [("CR", 0x100), ("SD", 0x1_0000), ("RC", 0x2_0000), ("WD", 0x4_0000), ("WO", 0x8_0000)];
    let sets = [("FA", 0x1f_01ff), ("FR", 0x12_0089), ("FW", 0x12_0116), ("FX", 0x12_00a0), ("KA", 0xf_003f)];
    let generic = [("GA", 0x1000_0000), ("GX", 0x2000_0000), ("GW", 0x4000_0000), ("GR", 0x8000_0000u32)];
    for (letters, bits) in masks.into_iter().chain(more).chain(sets).chain(generic) {
        let read = descriptor(&format!("D:(A;;{letters};;;WD)"));
        assert_eq!(read, descriptor(&format!("D:(A;;{bits};;;WD)")), "{letters}");
    }
}

#[test]
fn accounts_of_the_domain_need_one() {
    let domain = sid("S-1-5-21-7-8-9");
    let read = parse("O:LAG:DUD:(A;;FA;;;DA)", Some(&domain)).expect("in a domain");
    assert_eq!(read, descriptor("O:S-1-5-21-7-8-9-500G:S-1-5-21-7-8-9-513D:(A;;FA;;;S-1-5-21-7-8-9-512)"));
    let error = parse("O:BAG:DU", None);
    assert_eq!(error, Err(SddlError::Syntax { at: 6, problem: Problem::NoDomain("DU".to_owned()) }));
    let full = sid("S-1-5-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1");
    assert!(matches!(parse("O:DU", Some(&full)), Err(SddlError::Syntax { at: 2, problem: Problem::Sid(_) })));
}

#[test]
fn errors_name_their_place() {
    let texts = [
        ("X:BA", 0),
        ("O", 0),
        ("O:", 2),
        ("O:ZZ", 2),
        ("O:BA O:SY", 5),
        ("D:D:", 2),
        ("O:S-1-5-x", 2),
        ("O:ä", 2),
        ("O:BAé:", 4),
        ("D:(A;;FA;;;BA", 13),
        ("D:(A;;FA;;;BA)x", 14),
        ("D:(A;OIXX;FA;;;BA)", 7),
        ("D:(A;;FAXX;;;BA)", 8),
        ("D:(A;;0x;;;BA)", 6),
        ("D:(A;;08;;;BA)", 6),
        ("D:(A;;0x1ffffffff;;;BA)", 6),
        ("D:(A;;FA;bf967aba;;BA)", 9),
        ("D:(A;;FA;;;)", 11),
        ("D:(A;;FA;;;BA;x)", 13),
        ("D:(XA;;FX;;;S-1-1-0;(@User.a == 1))", 3),
        ("D:(;;FX;;;BA)", 3),
        ("D:(A", 4),
        ("D:()", 3),
        ("D:NO_ACCESS_CONTROL(A;;FA;;;BA)", 19),
    ];
    for (text, place) in texts {
        match parse(text, None) {
            Err(SddlError::Syntax { at, problem }) => assert!(at == place || text == "D:D:", "{text}: {at}, {problem}"),
            other => assert_eq!(text, "D:D:", "{other:?}"),
        }
    }
    assert!(matches!(parse("D:D:", None), Err(SddlError::Syntax { at: 2, problem: Problem::Twice('D') })));
    assert!(matches!(parse(&" ".repeat(0x4_0001), None), Err(SddlError::TooLong(0x4_0001))));
    let many = format!("D:{}", "(A;;FA;;;WD)".repeat(4000));
    assert!(matches!(parse(&many, None), Err(SddlError::Descriptor(_))));
    let error = parse("D:(A;;FAXX;;;BA)", None).expect_err("no such right").to_string();
    assert_eq!(error, "the descriptor is wrong at byte 8: write rights as FA, FR, 0x1200a9, or ; here");
}

#[test]
fn entries_without_a_text_are_named() {
    let opaque = OpaqueAce::new(0x09, &[0; 8]).expect("an entry");
    let opaque = Ace { flags: AceFlags::INHERITED, body: AceBody::Opaque(opaque) };
    let mut entries = descriptor("D:(A;;FA;;;BA)").dacl.acl().expect("a list").entries().to_vec();
    entries.push(opaque);
    let dacl = AclState::Present(Acl::new(entries).expect("two"));
    let error = print(&SecurityDescriptor { dacl, ..SecurityDescriptor::default() });
    assert_eq!(error, Err(SddlError::NoText { list: "DACL", index: 1, type_code: 9, flags: 0x10 }));
}

const OF_NOBODY: Control = Control::OWNER_DEFAULTED
    .union(Control::GROUP_DEFAULTED)
    .union(Control::DACL_DEFAULTED)
    .union(Control::SACL_DEFAULTED);

proptest! {
    #[test]
    fn what_is_printed_is_read_as_the_same(mut given in any_descriptor()) {
        given.control -= OF_NOBODY;
        if given.dacl == AclState::Absent {
            given.dacl = AclState::Null;
        }
        if given.sacl == AclState::Absent {
            given.sacl = AclState::Present(Acl::default());
        }
        match print(&given) {
            Ok(text) => prop_assert_eq!(parse(&text, None), Ok(given), "{}", text),
            Err(SddlError::NoText { list, index, .. }) => {
                let state = if list == "DACL" { &given.dacl } else { &given.sacl };
                let entry = &state.acl().expect("it has entries").entries()[index];
                prop_assert!(entry.flags.bits() & 0x20 != 0 || matches!(entry.body, AceBody::Opaque(_)));
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[OGDS:(A;)BXWDx0-9-]{0,40}") {
        if let Ok(read) = parse(&text, None) {
            prop_assert_eq!(parse(&print(&read).expect("it had a text"), None), Ok(read));
        }
    }
}
