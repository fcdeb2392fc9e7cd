//! Access control lists as NFSv4 has them (RFC 8881 6.2), made of a descriptor's lists and made into them.
//!
//! ```text
//!   NT                                         NFSv4
//!   the owner's SID, not inheritable           OWNER@
//!   CREATOR OWNER, inherit-only                OWNER@, inherit-only
//!   the owner's SID, inheritable               the user by number
//!   (two entries: the first and the second)  ◀ OWNER@, inheritable
//! ```
//!
//! The group and CREATOR GROUP are likewise GROUP@. Bits of rights are the same in both worlds; generic rights are
//! replaced by what they stand for.
//!
//! Invariant: NT to NFSv4 and back gives the same list; what one of them cannot say is an error that names the entry.

mod convert;

pub use convert::{from_descriptor, into_list};

use std::fmt;

use bitflags::bitflags;

use crate::ace::AceKind;
use crate::error::DescriptorError;
use crate::id_map::Id;
use crate::mask::AccessMask;
use crate::sid::Sid;
use crate::well_known;

bitflags! {
    /// Flags of an entry (RFC 8881 6.2.1.4), without `ACE4_IDENTIFIER_GROUP`, which [`Who`] knows.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Nfs4Flags: u32 {
        /// `ACE4_FILE_INHERIT_ACE`.
        const FILE_INHERIT = 0x01;
        /// `ACE4_DIRECTORY_INHERIT_ACE`.
        const DIRECTORY_INHERIT = 0x02;
        /// `ACE4_NO_PROPAGATE_INHERIT_ACE`.
        const NO_PROPAGATE = 0x04;
        /// `ACE4_INHERIT_ONLY_ACE`.
        const INHERIT_ONLY = 0x08;
        /// `ACE4_SUCCESSFUL_ACCESS_ACE_FLAG`.
        const SUCCESSFUL_ACCESS = 0x10;
        /// `ACE4_FAILED_ACCESS_ACE_FLAG`.
        const FAILED_ACCESS = 0x20;
        /// `ACE4_INHERITED_ACE`.
        const INHERITED = 0x80;
    }

    /// Flags of a list (RFC 8881 6.4.3.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Nfs4ListFlags: u32 {
        /// `ACL4_AUTO_INHERIT`.
        const AUTO_INHERIT = 0x01;
        /// `ACL4_PROTECTED`.
        const PROTECTED = 0x02;
        /// `ACL4_DEFAULTED`.
        const DEFAULTED = 0x04;
    }
}

/// `ACE4_IDENTIFIER_GROUP`.
const IDENTIFIER_GROUP: u32 = 0x40;
/// Rights that NFSv4 and files of NT both have: all of them, but for retention.
const RIGHTS: AccessMask = AccessMask::FILE_ALL;

/// Whom an entry concerns (RFC 8881 6.2.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// `OWNER@`.
    Owner,
    /// `GROUP@`.
    Group,
    /// `EVERYONE@`.
    Everyone,
    /// `INTERACTIVE@`, `NETWORK@`, `DIALUP@`, `BATCH@`, `ANONYMOUS@`, `AUTHENTICATED@` or `SERVICE@`.
    Special(Special),
    /// A user or group.
    Id(Id),
}

/// Special identifiers beside the three of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// At the machine.
    Interactive,
    /// Over the network.
    Network,
    /// By a dial-up line.
    Dialup,
    /// As a batch job.
    Batch,
    /// Without a name.
    Anonymous,
    /// With a name.
    Authenticated,
    /// As a service.
    Service,
}

/// Special identifiers, their words and what NT has for them.
const SPECIAL: [(Special, &str, Sid); 7] = [
    (Special::Interactive, "INTERACTIVE@", well_known::INTERACTIVE),
    (Special::Network, "NETWORK@", well_known::NETWORK),
    (Special::Dialup, "DIALUP@", well_known::DIALUP),
    (Special::Batch, "BATCH@", well_known::BATCH),
    (Special::Anonymous, "ANONYMOUS@", well_known::ANONYMOUS),
    (Special::Authenticated, "AUTHENTICATED@", well_known::AUTHENTICATED_USERS),
    (Special::Service, "SERVICE@", well_known::SERVICE),
];

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nfs4Ace {
    /// Allow, deny, audit or alarm; never [`AceKind::Label`].
    pub kind: AceKind,
    /// How it is inherited, and what is audited.
    pub flags: Nfs4Flags,
    /// The rights, by the bits of RFC 8881 6.2.1.3.1.
    pub mask: AccessMask,
    /// Whom it concerns.
    pub who: Who,
}

/// A list (`nfsacl41`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nfs4Acl {
    /// What is said of it beside its entries.
    pub flags: Nfs4ListFlags,
    /// Its entries, in order.
    pub entries: Vec<Nfs4Ace>,
}

/// Which of a descriptor's lists: the attribute `dacl` or `sacl` (RFC 8881 6.2.2, 6.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Who may do what.
    Dacl,
    /// What is audited.
    Sacl,
}

/// What NFSv4 or NT cannot say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nfs4Error {
    /// There is a list that holds nothing back, which is not the same as any with entries.
    #[error("the file has no access control list, so everybody may do everything, and NFSv4 cannot say that: set one")]
    NoList,
    /// The descriptor names no owner or group.
    #[error("the security descriptor names no owner or no group: set both first")]
    Nobody,
    /// An entry cannot be said.
    #[error("entry {} cannot be converted between NT and NFSv4: {problem}", index + 1)]
    Entry {
        /// Its place, from 0.
        index: usize,
        /// Why.
        problem: Problem,
    },
    /// The entries do not fit.
    #[error(transparent)]
    TooLarge(#[from] DescriptorError),
}

/// Why an entry cannot be said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is of another type.
    #[error("type 0x{0:02x} does not exist there, or not in this list")]
    Type(u32),
    /// It has a flag that does not exist.
    #[error("the flags 0x{0:x} do not exist there")]
    Flags(u32),
    /// It has a right that does not exist.
    #[error("the rights 0x{0:x} do not exist there")]
    Rights(u32),
    /// It concerns somebody who has no number.
    #[error("{0} has no user or group number")]
    Unmapped(Sid),
    /// It concerns somebody who is not known.
    #[error("{0:?} is no user or group that is known here")]
    Unknown(String),
}

impl Nfs4Ace {
    /// The entry of the four fields of `nfsace4`. `named` knows users (`false`) and groups (`true`) by `name@domain`;
    /// numbers need nobody (RFC 8881 5.9).
    ///
    /// # Errors
    /// [`Problem`] for what does not exist; the caller knows which entry it is.
    pub fn from_wire(
        kind: u32,
        flags: u32,
        mask: u32,
        who: &str,
        named: impl Fn(&str, bool) -> Option<Id>,
    ) -> Result<Self, Problem> {
        let kinds = [AceKind::Allow, AceKind::Deny, AceKind::Audit, AceKind::Alarm];
        let kind = *usize::try_from(kind).ok().and_then(|at| kinds.get(at)).ok_or(Problem::Type(kind))?;
        let is_group = flags & IDENTIFIER_GROUP != 0;
        let flags = flags & !IDENTIFIER_GROUP;
        let flags = Nfs4Flags::from_bits(flags).ok_or(Problem::Flags(flags))?;
        let mask = AccessMask::from_bits_retain(mask);
        if !RIGHTS.contains(mask) {
            return Err(Problem::Rights((mask - RIGHTS).bits()));
        }
        let unknown = || Problem::Unknown(who.chars().take(80).collect());
        let by_name = || named(who, is_group).map(Who::Id);
        let who = special(who).or_else(|| numbered(who, is_group)).or_else(by_name).ok_or_else(unknown)?;
        Ok(Self { kind, flags, mask, who })
    }

    /// The number of its type.
    pub fn wire_type(&self) -> u32 {
        self.kind.type_code().into()
    }

    /// Its flags, with the mark of a group.
    pub fn wire_flags(&self) -> u32 {
        let group = if matches!(self.who, Who::Id(Id::Group(_))) { IDENTIFIER_GROUP } else { 0 };
        self.flags.bits() | group
    }
}

fn special(text: &str) -> Option<Who> {
    match text {
        "OWNER@" => Some(Who::Owner),
        "GROUP@" => Some(Who::Group),
        "EVERYONE@" => Some(Who::Everyone),
        _ => SPECIAL.iter().find(|(_, word, _)| *word == text).map(|(special, ..)| Who::Special(*special)),
    }
}

/// A number, without leading zeros.
fn numbered(text: &str, is_group: bool) -> Option<Who> {
    let number: u32 = text.parse().ok().filter(|number: &u32| *number != u32::MAX && number.to_string() == text)?;
    Some(Who::Id(if is_group { Id::Group(number) } else { Id::User(number) }))
}

/// The form of the wire: a special identifier, or a number.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str("OWNER@"),
            Self::Group => f.write_str("GROUP@"),
            Self::Everyone => f.write_str("EVERYONE@"),
            Self::Special(special) => {
                let word = SPECIAL.iter().find(|(known, ..)| known == special).map_or("", |(_, word, _)| word);
                f.write_str(word)
            }
            Self::Id(Id::User(number) | Id::Group(number)) => write!(f, "{number}"),
        }
    }
}
