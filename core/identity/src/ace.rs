//! An entry of an access control list: whom it concerns, and what it grants, denies or has audited ([MS-DTYP] 2.4.4).
//!
//! Invariant: an entry of a type that is not known keeps its bytes and grants nothing; one that denies under a condition
//! denies whether the condition holds or not.

use bitflags::bitflags;
use holdfast_model::wire::Reader;

use crate::error::DescriptorError;
use crate::mask::AccessMask;
use crate::sid::Sid;

/// Type, flags and size, before the body.
pub(crate) const HEADER_BYTES: usize = 4;
/// The largest body whose entry has a size of 16 bits that 4 divides.
const MAX_BODY_BYTES: usize = 0xfffc - HEADER_BYTES;

bitflags! {
    /// How an entry is inherited, and what an auditing one records ([MS-DTYP] 2.4.4.1).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct AceFlags: u8 {
        /// Files in the directory inherit it.
        const OBJECT_INHERIT = 0x01;
        /// Directories in the directory inherit it.
        const CONTAINER_INHERIT = 0x02;
        /// Those who inherit it do not hand it on.
        const NO_PROPAGATE = 0x04;
        /// It does not concern the directory itself.
        const INHERIT_ONLY = 0x08;
        /// It came from a directory above.
        const INHERITED = 0x10;
        /// Auditing: record what was allowed.
        const SUCCESSFUL_ACCESS = 0x40;
        /// Auditing: record what was refused.
        const FAILED_ACCESS = 0x80;

        const _ = !0;
    }
}

impl AceFlags {
    /// Those that hand an entry on.
    pub const INHERIT: Self = Self::OBJECT_INHERIT.union(Self::CONTAINER_INHERIT);
    /// All that govern inheritance, but for the mark of what was inherited.
    pub const INHERITANCE: Self = Self::INHERIT.union(Self::NO_PROPAGATE).union(Self::INHERIT_ONLY);
}

/// Types of entries that consist of rights and whom they concern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AceKind {
    /// `ACCESS_ALLOWED_ACE`.
    Allow,
    /// `ACCESS_DENIED_ACE`.
    Deny,
    /// `SYSTEM_AUDIT_ACE`, in a SACL.
    Audit,
    /// `SYSTEM_ALARM_ACE`, in a SACL; NT reserves it, NFSv4 has it.
    Alarm,
    /// `SYSTEM_MANDATORY_LABEL_ACE`, in a SACL: the rights are policies.
    Label,
}

impl AceKind {
    const ALL: [(Self, u8); 5] =
        [(Self::Allow, 0), (Self::Deny, 1), (Self::Audit, 2), (Self::Alarm, 3), (Self::Label, 0x11)];

    /// The number of the type ([MS-DTYP] 2.4.4.1).
    pub fn type_code(self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Deny => 1,
            Self::Audit => 2,
            Self::Alarm => 3,
            Self::Label => 0x11,
        }
    }

    fn of_type(code: u8) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == code).map(|(kind, _)| *kind)
    }
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ace {
    /// How it is inherited.
    pub flags: AceFlags,
    /// What it says.
    pub body: AceBody,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AceBody {
    /// Rights of somebody.
    Plain {
        /// What becomes of the rights.
        kind: AceKind,
        /// The rights.
        mask: AccessMask,
        /// Whose.
        sid: Sid,
    },
    /// Something else.
    Opaque(OpaqueAce),
}

/// The entry of an object type, of a condition, or of a type that came later, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpaqueAce {
    type_code: u8,
    bytes: Box<[u8]>,
    /// What it denies, and whom, if its condition holds; read of the bytes.
    denied: Option<Box<(AccessMask, Sid)>>,
}

/// Types with identifiers of object classes ([MS-DTYP] 2.4.4.3, 2.4.4.4, 2.4.4.11 and following): their list has
/// revision 4.
const OBJECT_TYPES: [u8; 8] = [0x05, 0x06, 0x07, 0x08, 0x0b, 0x0c, 0x0f, 0x10];
/// `ACCESS_DENIED_OBJECT_ACE` and `ACCESS_DENIED_CALLBACK_OBJECT_ACE`.
const DENIED_OBJECT_TYPES: [u8; 2] = [0x06, 0x0c];
/// `ACCESS_DENIED_CALLBACK_ACE`.
const DENIED_CALLBACK: u8 = 0x0a;

impl OpaqueAce {
    /// An entry of a type that consists of more than rights and an identifier; `bytes` are those behind its size.
    ///
    /// # Errors
    /// [`DescriptorError::Entry`] if the type is one of [`AceKind`], 4 does not divide the length, it is longer than an
    /// entry can be, or it denies and does not say whom.
    pub fn new(type_code: u8, bytes: &[u8]) -> Result<Self, DescriptorError> {
        if AceKind::of_type(type_code).is_some() {
            return Err(DescriptorError::Entry("it has the type of a plain entry"));
        }
        if !bytes.len().is_multiple_of(4) || bytes.len() > MAX_BODY_BYTES {
            return Err(DescriptorError::Entry("its size is not that of an entry"));
        }
        let is_denying = type_code == DENIED_CALLBACK || DENIED_OBJECT_TYPES.contains(&type_code);
        let denied = denied(type_code, bytes).filter(|_| is_denying).map(Box::new);
        if is_denying && denied.is_none() {
            return Err(DescriptorError::Entry("it denies, and does not say whom"));
        }
        Ok(Self { type_code, bytes: bytes.into(), denied })
    }

    /// The number of the type.
    pub fn type_code(&self) -> u8 {
        self.type_code
    }

    /// What is behind the size.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it denies, and whom, if its condition holds.
    pub(crate) fn denied(&self) -> Option<(AccessMask, &Sid)> {
        self.denied.as_ref().map(|denied| (denied.0, &denied.1))
    }
}

/// Rights and identifier of a denying type; an object type has up to two classes between them.
fn denied(type_code: u8, bytes: &[u8]) -> Option<(AccessMask, Sid)> {
    let mut reader = Reader::new(bytes);
    let mask = AccessMask::from_bits_retain(reader.u32().ok()?);
    if DENIED_OBJECT_TYPES.contains(&type_code) {
        let present = reader.u32().ok()?;
        reader.take(16 * (present & 3).count_ones() as usize).ok()?;
    }
    Some((mask, Sid::read(&mut reader).ok()?))
}

/// What an entry means for a check of access.
pub(crate) enum Rule<'a> {
    Allow(AccessMask, &'a Sid),
    Deny(AccessMask, &'a Sid),
}

impl Ace {
    /// An entry that grants, and is not inherited.
    pub fn allow(sid: Sid, mask: AccessMask) -> Self {
        Self::plain(AceKind::Allow, sid, mask)
    }

    /// An entry that denies, and is not inherited.
    pub fn deny(sid: Sid, mask: AccessMask) -> Self {
        Self::plain(AceKind::Deny, sid, mask)
    }

    /// An entry that is not inherited.
    pub fn plain(kind: AceKind, sid: Sid, mask: AccessMask) -> Self {
        Self { flags: AceFlags::empty(), body: AceBody::Plain { kind, mask, sid } }
    }

    /// The same with other flags.
    #[must_use]
    pub fn with_flags(self, flags: AceFlags) -> Self {
        Self { flags, ..self }
    }

    /// Whether it came from a directory above.
    pub fn is_inherited(&self) -> bool {
        self.flags.contains(AceFlags::INHERITED)
    }

    /// Whether it concerns only what is below.
    pub fn is_inherit_only(&self) -> bool {
        self.flags.contains(AceFlags::INHERIT_ONLY)
    }

    /// Whom a plain entry concerns.
    pub fn sid(&self) -> Option<&Sid> {
        match &self.body {
            AceBody::Plain { sid, .. } => Some(sid),
            AceBody::Opaque(_) => None,
        }
    }

    /// Whom it allows or denies something, under a condition or without one, if that is understood.
    pub fn trustee(&self) -> Option<&Sid> {
        match &self.body {
            AceBody::Plain { sid, .. } => Some(sid),
            AceBody::Opaque(opaque) => opaque.denied().map(|(_, sid)| sid),
        }
    }

    /// Whether it denies, under a condition or without one.
    pub(crate) fn is_denying(&self) -> bool {
        match &self.body {
            AceBody::Plain { kind, .. } => *kind == AceKind::Deny,
            AceBody::Opaque(opaque) => opaque.denied.is_some(),
        }
    }

    /// What it means for access to the file that has it, generic rights mapped; nothing if it concerns others only.
    pub(crate) fn rule(&self) -> Option<Rule<'_>> {
        if self.is_inherit_only() {
            return None;
        }
        match &self.body {
            AceBody::Plain { kind: AceKind::Allow, mask, sid } => Some(Rule::Allow(mask.mapped(), sid)),
            AceBody::Plain { kind: AceKind::Deny, mask, sid } => Some(Rule::Deny(mask.mapped(), sid)),
            AceBody::Plain { .. } => None,
            AceBody::Opaque(opaque) => opaque.denied().map(|(mask, sid)| Rule::Deny(mask.mapped(), sid)),
        }
    }

    /// Whether a list that has it is of revision 4.
    pub(crate) fn is_of_object(&self) -> bool {
        matches!(&self.body, AceBody::Opaque(opaque) if OBJECT_TYPES.contains(&opaque.type_code))
    }

    /// Bytes of the binary form, which 4 divides.
    pub fn len_bytes(&self) -> usize {
        match &self.body {
            AceBody::Plain { sid, .. } => HEADER_BYTES + 4 + sid.len_bytes(),
            AceBody::Opaque(opaque) => HEADER_BYTES + opaque.bytes.len(),
        }
    }

    /// Reads an entry off the front. Bytes behind the identifier of a plain one mean nothing and are left out.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DescriptorError> {
        let short = |_| DescriptorError::Entry("it ends behind the list");
        let type_code = reader.u8().map_err(short)?;
        let flags = AceFlags::from_bits_retain(reader.u8().map_err(short)?);
        let size = usize::from(reader.u16().map_err(short)?);
        if size < HEADER_BYTES || !size.is_multiple_of(4) {
            return Err(DescriptorError::Entry("its size is not that of an entry"));
        }
        let bytes = reader.take(size - HEADER_BYTES).map_err(short)?;
        let Some(kind) = AceKind::of_type(type_code) else {
            return Ok(Self { flags, body: AceBody::Opaque(OpaqueAce::new(type_code, bytes)?) });
        };
        let mut reader = Reader::new(bytes);
        let mask = reader.u32().map_err(|_| DescriptorError::Entry("it is too short for rights"))?;
        let sid = Sid::read(&mut reader)?;
        Ok(Self { flags, body: AceBody::Plain { kind, mask: AccessMask::from_bits_retain(mask), sid } })
    }

    /// Appends the binary form.
    pub(crate) fn write(&self, into: &mut Vec<u8>) {
        let size = self.len_bytes() as u16;
        let mut header = |type_code: u8| {
            into.extend_from_slice(&[type_code, self.flags.bits()]);
            into.extend_from_slice(&size.to_le_bytes());
        };
        match &self.body {
            AceBody::Plain { kind, mask, sid } => {
                header(kind.type_code());
                into.extend_from_slice(&mask.bits().to_le_bytes());
                sid.write(into);
            }
            AceBody::Opaque(opaque) => {
                header(opaque.type_code);
                into.extend_from_slice(&opaque.bytes);
            }
        }
    }
}
