//! Writes SDDL.
//!
//! Invariant: identifiers of a domain are written out, so that the text means the same on every machine.

use std::fmt::Write;

use super::{FLAGS, KINDS, LIST_FLAGS, NULL, PRINTED_RIGHTS, RIGHTS, SddlError};
use crate::ace::{Ace, AceBody, AceFlags};
use crate::acl::AclState;
use crate::descriptor::SecurityDescriptor;
use crate::mask::AccessMask;
use crate::sid::Sid;
use crate::well_known;

/// The text of a descriptor.
///
/// # Errors
/// [`SddlError::NoText`] for an entry that has none.
pub fn print(descriptor: &SecurityDescriptor) -> Result<String, SddlError> {
    let mut text = String::new();
    for (part, sid) in [("O:", &descriptor.owner), ("G:", &descriptor.group)] {
        if let Some(sid) = sid {
            text.push_str(part);
            put_sid(&mut text, sid);
        }
    }
    for (which, name, state) in [(0, "DACL", &descriptor.dacl), (1, "SACL", &descriptor.sacl)] {
        if *state == AclState::Absent {
            continue;
        }
        text.push_str(["D:", "S:"][which]);
        let flags = LIST_FLAGS.iter().filter(|(_, bits)| descriptor.control.contains(bits[which]));
        flags.for_each(|(word, _)| text.push_str(word));
        if *state == AclState::Null {
            text.push_str(NULL);
        }
        for (index, entry) in state.entries().iter().enumerate() {
            put_entry(&mut text, entry).map_err(|(type_code, flags)| SddlError::NoText {
                list: name,
                index,
                type_code,
                flags,
            })?;
        }
    }
    Ok(text)
}

fn put_sid(text: &mut String, sid: &Sid) {
    match well_known::alias(sid) {
        Some(alias) => text.push_str(alias),
        None => write!(text, "{sid}").expect("a string takes text"),
    }
}

/// Answers type and flags of an entry that has no text.
fn put_entry(text: &mut String, entry: &Ace) -> Result<(), (u8, u8)> {
    let without = |type_code| Err((type_code, entry.flags.bits()));
    let (kind, mask, sid) = match &entry.body {
        AceBody::Plain { kind, mask, sid } => (*kind, *mask, sid),
        AceBody::Opaque(opaque) => return without(opaque.type_code()),
    };
    let known = FLAGS.iter().fold(AceFlags::empty(), |all, (_, flag)| all | *flag);
    if !known.contains(entry.flags) {
        return without(kind.type_code());
    }
    let word = KINDS.iter().find(|(_, known)| *known == kind).map_or("", |(word, _)| word);
    text.push('(');
    text.push_str(word);
    text.push(';');
    FLAGS.iter().filter(|(_, flag)| entry.flags.contains(*flag)).for_each(|(word, _)| text.push_str(word));
    text.push(';');
    put_rights(text, mask);
    text.push_str(";;;");
    put_sid(text, sid);
    text.push(')');
    Ok(())
}

/// Letters where they say it all, as Windows has them; otherwise a number.
fn put_rights(text: &mut String, mask: AccessMask) {
    let files = [AccessMask::FILE_ALL, AccessMask::FILE_READ, AccessMask::FILE_WRITE, AccessMask::FILE_EXECUTE];
    let letters = &RIGHTS[..PRINTED_RIGHTS];
    let all = letters.iter().fold(AccessMask::empty(), |all, (_, right)| all | *right);
    if files.contains(&mask) {
        let word = RIGHTS.iter().find(|(_, right)| *right == mask).map_or("", |(word, _)| word);
        text.push_str(word);
    } else if !mask.is_empty() && all.contains(mask) {
        letters.iter().filter(|(_, right)| mask.contains(*right)).for_each(|(word, _)| text.push_str(word));
    } else {
        write!(text, "0x{:x}", mask.bits()).expect("a string takes text");
    }
}
