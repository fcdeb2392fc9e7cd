//! Descriptors for people: a line for the owner, one for the group, and one an entry.
//!
//! ```text
//!   owner: alice
//!   1. allow  Administrators  full control  this directory, directories and files below  inherited
//! ```
//!
//! Invariant: every entry has a line, whatever its type.

use crate::ace::{Ace, AceBody, AceFlags, AceKind};
use crate::acl::AclState;
use crate::descriptor::{Control, SecurityDescriptor};
use crate::mask::AccessMask;
use crate::sid::Sid;
use crate::token::Privileges;
use crate::well_known;

/// Sets of rights that have a name.
const SETS: &[(AccessMask, &str)] = &[
    (AccessMask::FILE_ALL, "full control"),
    (AccessMask::from_bits_retain(0x0013_01bf), "modify"),
    (AccessMask::from_bits_retain(0x0012_00a9), "read and execute"),
    (AccessMask::FILE_READ, "read"),
    (AccessMask::FILE_WRITE, "write"),
];

const RIGHTS: &[(AccessMask, &str)] = &[
    (AccessMask::READ_DATA, "read data"),
    (AccessMask::WRITE_DATA, "write data"),
    (AccessMask::APPEND_DATA, "append data"),
    (AccessMask::READ_EA, "read extended attributes"),
    (AccessMask::WRITE_EA, "write extended attributes"),
    (AccessMask::EXECUTE, "execute or pass through"),
    (AccessMask::DELETE_CHILD, "delete what is inside"),
    (AccessMask::READ_ATTRIBUTES, "read attributes"),
    (AccessMask::WRITE_ATTRIBUTES, "write attributes"),
    (AccessMask::DELETE, "delete"),
    (AccessMask::READ_CONTROL, "read permissions"),
    (AccessMask::WRITE_DAC, "change permissions"),
    (AccessMask::WRITE_OWNER, "take ownership"),
    (AccessMask::SYNCHRONIZE, "synchronize"),
    (AccessMask::ACCESS_SYSTEM_SECURITY, "audit"),
    (AccessMask::MAXIMUM_ALLOWED, "anything at all"),
];

/// Rights in words.
pub(crate) fn rights(mask: AccessMask) -> String {
    let mask = mask.mapped();
    if let Some((_, name)) = SETS.iter().find(|(set, _)| *set == mask) {
        return (*name).to_owned();
    }
    let named = RIGHTS.iter().filter(|(right, _)| mask.contains(*right));
    let mut words: Vec<String> = named.map(|(_, name)| (*name).to_owned()).collect();
    let unknown = RIGHTS.iter().fold(mask, |left, (right, _)| left - *right);
    if !unknown.is_empty() {
        words.push(format!("unknown rights 0x{:x}", unknown.bits()));
    }
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

/// A privilege in words.
pub(crate) fn privilege(privilege: Privileges) -> &'static str {
    match privilege {
        Privileges::BACKUP => "backup",
        Privileges::RESTORE => "restoring",
        Privileges::TAKE_OWNERSHIP => "taking ownership",
        Privileges::SECURITY => "auditing",
        Privileges::CHANGE_NOTIFY => "passing through",
        _ => "several kinds",
    }
}

/// Where an entry applies.
fn reach(flags: AceFlags) -> String {
    let below = match (flags.contains(AceFlags::CONTAINER_INHERIT), flags.contains(AceFlags::OBJECT_INHERIT)) {
        (true, true) => "directories and files",
        (true, false) => "directories",
        (false, true) => "files",
        (false, false) if flags.contains(AceFlags::INHERIT_ONLY) => return "nowhere".to_owned(),
        (false, false) => return "this only".to_owned(),
    };
    let depth = if flags.contains(AceFlags::NO_PROPAGATE) { "directly below" } else { "below" };
    let this = if flags.contains(AceFlags::INHERIT_ONLY) { "" } else { "this directory, " };
    format!("{this}{below} {depth}")
}

fn entry(entry: &Ace, name: &impl Fn(&Sid) -> String) -> String {
    let said = match &entry.body {
        AceBody::Plain { kind: AceKind::Label, mask, sid } => format!("label  {}  0x{:x}", name(sid), mask.bits()),
        AceBody::Plain { kind, mask, sid } => {
            let verb = match kind {
                AceKind::Allow => "allow",
                AceKind::Deny => "deny",
                AceKind::Alarm => "alarm",
                AceKind::Audit | AceKind::Label => "audit",
            };
            format!("{verb}  {}  {}", name(sid), rights(*mask))
        }
        AceBody::Opaque(opaque) => match opaque.denied() {
            Some((mask, sid)) => format!("deny under a condition  {}  {}", name(sid), rights(mask)),
            None => format!("kept without effect  type 0x{:02x}, {} bytes", opaque.type_code(), opaque.bytes().len()),
        },
    };
    let audited =
        match (entry.flags.contains(AceFlags::SUCCESSFUL_ACCESS), entry.flags.contains(AceFlags::FAILED_ACCESS)) {
            (true, true) => "  what is allowed or refused",
            (true, false) => "  what is allowed",
            (false, true) => "  what is refused",
            (false, false) => "",
        };
    let origin = if entry.is_inherited() { "  inherited" } else { "" };
    format!("{said}{audited}  {}{origin}", reach(entry.flags))
}

/// The lines of a descriptor. `name` knows accounts; well-known identifiers have their names, others their text.
/// Entries count from 1, as in explanations.
pub fn describe(descriptor: &SecurityDescriptor, name: impl Fn(&Sid) -> Option<String>) -> Vec<String> {
    let known = |sid: &Sid| well_known::name(sid).map(str::to_owned);
    let name = |sid: &Sid| name(sid).or_else(|| known(sid)).unwrap_or_else(|| sid.to_string());
    let who = |sid: &Option<Sid>| sid.as_ref().map_or_else(|| "nobody".to_owned(), &name);
    let mut lines = vec![format!("owner: {}", who(&descriptor.owner)), format!("group: {}", who(&descriptor.group))];
    if descriptor.control.contains(Control::DACL_PROTECTED) {
        lines.push("permissions inherit nothing from above".to_owned());
    }
    match &descriptor.dacl {
        AclState::Absent | AclState::Null => lines.push("everybody may do everything: there is no list".to_owned()),
        AclState::Present(acl) if acl.entries().is_empty() => {
            lines.push("nobody may do anything: the list is empty".to_owned());
        }
        AclState::Present(_) => (),
    }
    let numbered = |(at, one): (usize, &Ace)| format!("{}. {}", at + 1, entry(one, &name));
    lines.extend(descriptor.dacl.entries().iter().enumerate().map(numbered));
    lines.extend(descriptor.sacl.entries().iter().enumerate().map(|one| format!("audit {}", numbered(one))));
    lines
}
