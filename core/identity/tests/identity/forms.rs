//! The binary form: what is read is what was written, and damage is refused.

use holdfast_identity::{
    AccessMask, Ace, AceBody, Acl, AclState, DescriptorError, OpaqueAce, SecurityDescriptor, describe, well_known,
};
use proptest::prelude::*;

use crate::common::{any_descriptor, descriptor, sid};

/// Owner and group Administrators, a DACL that lets Everyone read: a descriptor as Windows writes it, with the lists
/// before the identifiers.
fn by_windows() -> Vec<u8> {
    let mut bytes = vec![1, 0, 0x04, 0x80, 48, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0];
    bytes.extend([2, 0, 28, 0, 1, 0, 0, 0]);
    bytes.extend([0, 0, 20, 0, 0x89, 0, 0x12, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    let administrators = [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0];
    bytes.extend(administrators);
    bytes.extend(administrators);
    bytes
}

#[test]
fn a_descriptor_of_windows_is_read_and_written_in_one_form() {
    let read = SecurityDescriptor::from_bytes(&by_windows()).expect("a descriptor");
    assert_eq!(read, descriptor("O:BAG:BAD:(A;;FR;;;WD)"));
    let written = read.to_bytes().expect("small");
    assert_eq!(&written[..20], &[1, 0, 4, 0x80, 20, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 52, 0, 0, 0]);
    assert_eq!((written.len(), &written[20..36], &written[52..]), (80, &by_windows()[48..64], &by_windows()[20..48]));
    assert_eq!(SecurityDescriptor::from_bytes(&written), Ok(read));
}

#[test]
fn every_cut_of_it_is_refused() {
    let whole = by_windows();
    for len in 0..whole.len() {
        assert!(SecurityDescriptor::from_bytes(&whole[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn damage_is_refused_and_named() {
    let with = |at: usize, value: u8| {
        let mut bytes = by_windows();
        bytes[at] = value;
        SecurityDescriptor::from_bytes(&bytes)
    };
    assert!(matches!(with(0, 2), Err(DescriptorError::Header(_))), "revision");
    assert!(matches!(with(3, 0), Err(DescriptorError::Header(_))), "not self-relative");
    assert_eq!(with(4, 200), Err(DescriptorError::Place("owner")), "the owner is beyond the end");
    assert!(matches!(with(7, 0xff), Err(DescriptorError::Place("owner"))), "far beyond");
    assert_eq!(with(8, 48), Err(DescriptorError::Place("group")), "the group is on the owner");
    assert_eq!(with(8, 56), Err(DescriptorError::Sid(holdfast_identity::SidError::Revision(32))), "within the owner");
    assert!(with(16, 4).is_err() && with(16, 24).is_err(), "the list is on the header, or on an entry");
    assert!(matches!(with(20, 5), Err(DescriptorError::List(_))), "revision of the list");
    assert!(matches!(with(22, 4), Err(DescriptorError::List(_))), "size of the list");
    assert!(matches!(with(22, 255), Err(DescriptorError::List(_))), "the list is longer than all");
    assert!(matches!(
        with(22, 40),
        Err(DescriptorError::Entry(_) | DescriptorError::List(_) | DescriptorError::Place(_))
    ));
    assert!(matches!(with(24, 2), Err(DescriptorError::Entry(_))), "one entry more than there are");
    for size in [0, 3, 4, 8, 12, 19, 24] {
        assert!(with(30, size).is_err(), "an entry of {size} bytes");
    }
    assert!(with(37, 200).is_err(), "subauthorities");
    assert!(SecurityDescriptor::from_bytes(&vec![0; 65537]) == Err(DescriptorError::TooLarge(65537)));
}

#[test]
fn sizes_that_4_does_not_divide_are_refused() {
    // The entry and its list, two bytes longer; then the entry alone, in a list with room behind it.
    for (list, entry) in [(30, 22), (32, 22), (32, 21)] {
        let mut bytes = by_windows();
        bytes.splice(48..48, [0; 4]);
        bytes[4] += 4;
        bytes[8] += 4;
        bytes[22] = list;
        bytes[30] = entry;
        assert!(SecurityDescriptor::from_bytes(&bytes).is_err(), "{list} {entry}");
        bytes[22] = 32;
        bytes[30] = 24;
        let longer = SecurityDescriptor::from_bytes(&bytes);
        assert_eq!(
            longer,
            SecurityDescriptor::from_bytes(&by_windows()),
            "what is behind the identifier means nothing"
        );
    }
}

#[test]
fn a_list_with_object_types_is_of_revision_4() {
    let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0];
    sid("S-1-1-0").write(&mut body);
    for (code, revision) in [(0x05, 4), (0x06, 4), (0x0c, 4), (0x10, 4), (0x09, 2), (0x12, 2)] {
        let opaque = OpaqueAce::new(code, &body).expect("an entry");
        let entry = Ace { flags: holdfast_identity::AceFlags::empty(), body: AceBody::Opaque(opaque) };
        let dacl = AclState::Present(Acl::new(vec![entry]).expect("one"));
        let bytes = SecurityDescriptor { dacl, ..SecurityDescriptor::default() }.to_bytes().expect("small");
        assert_eq!(bytes[20], revision, "0x{code:02x}");
    }
}

#[test]
fn absent_null_and_empty_lists_differ() {
    let forms: Vec<Vec<u8>> =
        ["O:BA", "O:BAD:NO_ACCESS_CONTROL", "O:BAD:"].map(|text| descriptor(text).to_bytes().expect("small")).into();
    let states: Vec<AclState> =
        forms.iter().map(|bytes| SecurityDescriptor::from_bytes(bytes).expect("as written").dacl).collect();
    assert_eq!(states, [AclState::Absent, AclState::Null, AclState::Present(Acl::default())]);
}

#[test]
fn a_list_that_is_said_to_be_absent_is_not_looked_at() {
    let mut bytes = by_windows();
    bytes[2] = 0;
    bytes[20] = 99;
    assert_eq!(SecurityDescriptor::from_bytes(&bytes).map(|read| read.dacl), Ok(AclState::Absent));
}

#[test]
fn lists_are_as_large_as_they_can_be_and_no_larger() {
    let entry = Ace::allow(well_known::EVERYONE, AccessMask::FILE_READ);
    let most = (65532 - 8) / entry.len_bytes();
    let acl = Acl::new(vec![entry.clone(); most]).expect("it fits");
    assert!(matches!(Acl::new(vec![entry; most + 1]), Err(DescriptorError::TooLarge(_))));
    let of = |acl: &Acl| SecurityDescriptor { dacl: AclState::Present(acl.clone()), ..SecurityDescriptor::default() };
    assert_eq!(of(&acl).to_bytes(), Err(DescriptorError::TooLarge(65548)), "with its header it is larger");
    let most = of(&Acl::new(acl.entries()[1..].to_vec()).expect("one fewer"));
    let bytes = most.to_bytes().expect("as large as it can be");
    assert_eq!((SecurityDescriptor::from_bytes(&bytes), bytes.len()), (Ok(most), 65528));
}

#[test]
fn opaque_entries_that_deny_must_say_whom() {
    let mut body = vec![1, 0, 0, 0];
    sid("S-1-1-0").write(&mut body);
    assert!(OpaqueAce::new(0x0a, &body).is_ok() && OpaqueAce::new(0x0a, &body[..12]).is_err());
    let with_class: Vec<u8> = [1, 0, 0, 0, 1, 0, 0, 0].into_iter().chain([7; 16]).chain(body[4..].to_vec()).collect();
    assert!(OpaqueAce::new(0x06, &with_class).is_ok() && OpaqueAce::new(0x06, &body).is_err());
    let with_two: Vec<u8> = [1, 0, 0, 0, 3, 0, 0, 0].into_iter().chain([7; 32]).chain(body[4..].to_vec()).collect();
    assert!(OpaqueAce::new(0x0c, &with_two).is_ok() && OpaqueAce::new(0x0c, &with_two[..40]).is_err());
    assert!(OpaqueAce::new(0x09, &[]).is_ok(), "what grants under a condition is kept as it is");
    assert!(OpaqueAce::new(0x00, &body).is_err() && OpaqueAce::new(0x99, &[0; 3]).is_err());
    assert!(OpaqueAce::new(0x99, &vec![0; 65528]).is_ok() && OpaqueAce::new(0x99, &vec![0; 65532]).is_err());
}

#[test]
fn people_read_a_line_an_entry() {
    let given = descriptor("O:{A}G:BUD:PAI(D;;FW;;;AN)(A;OICIIO;0x1301bf;;;CO)(A;OICIID;FA;;;BA)S:(AU;SAFA;SD;;;WD)");
    let name = |one: &holdfast_identity::Sid| (*one == sid(crate::common::ALICE)).then(|| "alice".to_owned());
    let expected = [
        "owner: alice",
        "group: Users",
        "permissions inherit nothing from above",
        "1. deny  ANONYMOUS LOGON  write  this only",
        "2. allow  CREATOR OWNER  modify  directories and files below",
        "3. allow  Administrators  full control  this directory, directories and files below  inherited",
        "audit 1. audit  Everyone  delete  what is allowed or refused  this only",
    ];
    assert_eq!(describe(&given, name), expected);
    let opaque = OpaqueAce::new(0x09, &[0; 8]).expect("an entry");
    let entry = Ace { flags: holdfast_identity::AceFlags::empty(), body: AceBody::Opaque(opaque) };
    let kept = SecurityDescriptor { dacl: AclState::Present(Acl::new(vec![entry]).expect("one")), ..given };
    assert!(describe(&kept, |_| None).contains(&"1. kept without effect  type 0x09, 8 bytes  this only".to_owned()));
}

proptest! {
    #[test]
    fn any_descriptor_is_read_as_it_was_written(given in any_descriptor()) {
        let bytes = given.to_bytes().expect("small");
        prop_assert_eq!(bytes.len(), given.len_bytes());
        prop_assert_eq!(SecurityDescriptor::from_bytes(&bytes), Ok(given));
    }

    #[test]
    fn equal_bytes_are_equal_descriptors(one in any_descriptor(), other in any_descriptor()) {
        prop_assert_eq!(one == other, one.to_bytes() == other.to_bytes());
    }
}
