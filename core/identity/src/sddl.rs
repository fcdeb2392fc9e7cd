//! Descriptors as text: the Security Descriptor Definition Language ([MS-DTYP] 2.5.1).
//!
//! ```text
//!   O:BAG:SYD:PAI(A;OICI;FA;;;BA)(D;;0x1200a9;;;S-1-5-7)
//!   │    │    │    │  │   │    └ whom
//!   │    │    │    │  │   └ rights
//!   │    │    │    │  └ how it is inherited
//!   │    │    │    └ allow, deny, audit
//!   │    │    └ DACL: protected, auto-inherited
//!   owner group
//! ```
//!
//! Whether owner, group or lists were chosen by nobody has no text and is lost. Entries of conditions, object types and
//! resource attributes have none here.
//!
//! Invariant: text that is printed is read as the same descriptor, and what cannot be written is an error.

mod parse;
mod print;

pub use parse::parse;
pub use print::print;

use crate::ace::{AceFlags, AceKind};
use crate::descriptor::Control;
use crate::error::DescriptorError;
use crate::mask::AccessMask;
use crate::sid::SidError;

/// The longest text that is read. A descriptor of the largest size has less.
pub const MAX_TEXT_BYTES: usize = 0x4_0000;

/// Why a text is no descriptor, or a descriptor has no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SddlError {
    /// The text is wrong at a place.
    #[error("the descriptor is wrong at byte {at}: {problem}")]
    Syntax {
        /// Bytes before it.
        at: usize,
        /// What is wrong or was expected.
        problem: Problem,
    },
    /// More than [`MAX_TEXT_BYTES`].
    #[error("the text of the descriptor has {0} bytes and may have {MAX_TEXT_BYTES}: use groups instead of many users")]
    TooLong(usize),
    /// The entries do not fit.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// An entry cannot be written as text.
    #[error(
        "entry {} of the {list} has no text: it is of type 0x{type_code:02x} with flags 0x{flags:02x}; \
         use the binary form", index + 1
    )]
    NoText {
        /// The list.
        list: &'static str,
        /// Its place, from 0.
        index: usize,
        /// Its type.
        type_code: u8,
        /// Its flags.
        flags: u8,
    },
}

/// What is wrong at a place of a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Something else was expected.
    #[error("write {0} here")]
    Expected(&'static str),
    /// A part is there already.
    #[error("{0}: was given before")]
    Twice(char),
    /// An alias that needs a domain.
    #[error("{0} is of a domain, and this machine is in none: write the identifier itself")]
    NoDomain(String),
    /// An identifier that is none.
    #[error(transparent)]
    Sid(#[from] SidError),
    /// An entry whose type has no text.
    #[error("entries of type {0} cannot be written as text here; the types are A, D, AU, AL and ML")]
    Type(String),
}

/// Types of entries.
const KINDS: &[(&str, AceKind)] = &[
    ("A", AceKind::Allow),
    ("D", AceKind::Deny),
    ("AU", AceKind::Audit),
    ("AL", AceKind::Alarm),
    ("ML", AceKind::Label),
];

/// Flags of entries, in the order in which they are printed.
const FLAGS: &[(&str, AceFlags)] = &[
    ("OI", AceFlags::OBJECT_INHERIT),
    ("CI", AceFlags::CONTAINER_INHERIT),
    ("NP", AceFlags::NO_PROPAGATE),
    ("IO", AceFlags::INHERIT_ONLY),
    ("ID", AceFlags::INHERITED),
    ("SA", AceFlags::SUCCESSFUL_ACCESS),
    ("FA", AceFlags::FAILED_ACCESS),
];

/// The list that has nothing in it and holds nothing back.
const NULL: &str = "NO_ACCESS_CONTROL";

/// Flags of the DACL, then of the SACL.
const LIST_FLAGS: &[(&str, [Control; 2])] = &[
    ("P", [Control::DACL_PROTECTED, Control::SACL_PROTECTED]),
    ("AR", [Control::DACL_AUTO_INHERIT_REQUIRED, Control::SACL_AUTO_INHERIT_REQUIRED]),
    ("AI", [Control::DACL_AUTO_INHERITED, Control::SACL_AUTO_INHERITED]),
];

/// Rights. Those of directory services and registry keys are bits like any; they are read, but not printed.
const RIGHTS: &[(&str, AccessMask)] = &[
    ("GA", AccessMask::GENERIC_ALL),
    ("GR", AccessMask::GENERIC_READ),
    ("GW", AccessMask::GENERIC_WRITE),
    ("GX", AccessMask::GENERIC_EXECUTE),
    ("RC", AccessMask::READ_CONTROL),
    ("SD", AccessMask::DELETE),
    ("WD", AccessMask::WRITE_DAC),
    ("WO", AccessMask::WRITE_OWNER),
    ("FA", AccessMask::FILE_ALL),
    ("FR", AccessMask::FILE_READ),
    ("FW", AccessMask::FILE_WRITE),
    ("FX", AccessMask::FILE_EXECUTE),
    ("CC", AccessMask::from_bits_retain(0x0001)),
    ("DC", AccessMask::from_bits_retain(0x0002)),
    ("LC", AccessMask::from_bits_retain(0x0004)),
    ("SW", AccessMask::from_bits_retain(0x0008)),
    ("RP", AccessMask::from_bits_retain(0x0010)),
    ("WP", AccessMask::from_bits_retain(0x0020)),
    ("DT", AccessMask::from_bits_retain(0x0040)),
    ("LO", AccessMask::from_bits_retain(0x0080)),
    ("CR", AccessMask::from_bits_retain(0x0100)),
    ("KA", AccessMask::from_bits_retain(0x000f_003f)),
    ("KR", AccessMask::from_bits_retain(0x0002_0019)),
    ("KW", AccessMask::from_bits_retain(0x0002_0006)),
    ("KX", AccessMask::from_bits_retain(0x0002_0019)),
    ("NW", AccessMask::from_bits_retain(0x0001)),
    ("NR", AccessMask::from_bits_retain(0x0002)),
    ("NX", AccessMask::from_bits_retain(0x0004)),
];
/// How many of these are printed by their letters where nothing else is in a mask.
const PRINTED_RIGHTS: usize = 8;
