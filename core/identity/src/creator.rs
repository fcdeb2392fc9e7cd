//! What the mode that a program creates a file with adds to the list that the file inherits.
//!
//! ```text
//!   rw-r--r--   allow owner, what the list does not give it of rw-                       + what is inherited
//!   rw-------   allow owner rw-, deny Everyone the rest, if the list gives others any    + what is inherited
//! ```
//!
//! Bits for group and others are habit: 0666 or 0777 less the mask of the process. None at all are meant: keys, mail and
//! temporary files are created so.
//!
//! Invariant: what is inherited stays as it is, marked and unprotected, so that the next change above reaches the file; the
//! owner gets nothing that an entry refuses to the creator.

use crate::ace::{Ace, AceBody, AceKind, Rule};
use crate::acl::{Acl, AclState};
use crate::check::{Access, Cause, decide};
use crate::chmod::GOVERNED_BY_WRITE;
use crate::descriptor::SecurityDescriptor;
use crate::error::DescriptorError;
use crate::inherit::Node;
use crate::mask::AccessMask;
use crate::mode::{granted, rights};
use crate::token::Token;
use crate::well_known::{EVERYONE, OWNER_RIGHTS};

/// The descriptor of a new file that inherits its list, for a creator of POSIX who gives a mode; nine bits of it count.
///
/// # Errors
/// [`DescriptorError::TooLarge`] if the entries do not fit one list.
pub fn for_creator(
    inherited: SecurityDescriptor,
    creator: &Token,
    mode: u32,
    node: Node,
) -> Result<SecurityDescriptor, DescriptorError> {
    let (Some(owner), AclState::Present(list)) = (inherited.owner, &inherited.dacl) else { return Ok(inherited) };
    let entries = list.entries();
    let (mut given, mut denied) = (AccessMask::empty(), AccessMask::empty());
    decide(&inherited, creator, Access::maximum(), |rights, is_granted, cause| match (is_granted, cause) {
        (true, _) => given |= rights,
        (false, Cause::Entry { .. }) => denied |= rights,
        (false, _) => (),
    });
    let all = rights(7, node);
    let asked = rights(mode >> 6 & 7, node);
    let is_effective = |entry: &&Ace| !entry.is_inherit_only();
    // Where the list says what owners may do, that is all.
    let says_owners = entries.iter().filter(is_effective).any(|entry| entry.sid() == Some(&OWNER_RIGHTS));
    let own = if says_owners { asked & given } else { asked - denied };
    let governed = all | GOVERNED_BY_WRITE;
    let is_others = |entry: &&Ace| match entry.rule() {
        Some(Rule::Allow(mask, sid)) => *sid != owner && *sid != OWNER_RIGHTS && mask.intersects(governed),
        _ => false,
    };
    let first = if mode & 0o077 == 0 && entries.iter().any(|entry| is_others(&entry)) {
        let times = if says_owners { AccessMask::empty() } else { AccessMask::WRITE_ATTRIBUTES - denied };
        vec![Ace::allow(owner, own | times | (given - all)), Ace::deny(EVERYONE, governed)]
    } else {
        let is_owners = |sid: &crate::sid::Sid| *sid == owner || *sid == OWNER_RIGHTS || *sid == EVERYONE;
        vec![Ace::allow(owner, own - granted(entries, is_owners))]
    };
    let says_something =
        |ace: &Ace| !matches!(ace.body, AceBody::Plain { kind: AceKind::Allow, mask, .. } if mask.is_empty());
    let own = first.into_iter().filter(says_something);
    let dacl = AclState::Present(Acl::new(own.chain(entries.iter().cloned()).collect())?);
    Ok(SecurityDescriptor { dacl, ..inherited })
}
