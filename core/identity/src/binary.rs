//! The self-relative binary form of a descriptor: what SMB carries and what is stored ([MS-DTYP] 2.4.6).
//!
//! ```text
//!   0  revision 1 · 0 · control (2) · offsets of owner, group, SACL, DACL (4 each)
//!   20 owner · group · SACL · DACL, those that there are, without gaps
//! ```
//!
//! Invariant: equal descriptors are equal bytes, whatever form they came in, and reading what was written gives the same.

use holdfast_model::wire::Reader;

use crate::acl::{Acl, AclState};
use crate::descriptor::{Control, SecurityDescriptor};
use crate::error::DescriptorError;
use crate::sid::Sid;

/// The most bytes that a descriptor takes.
pub const MAX_DESCRIPTOR_BYTES: usize = 0x1_0000;

const HEADER_BYTES: usize = 20;
const DACL_PRESENT: u16 = 0x0004;
const SACL_PRESENT: u16 = 0x0010;
const SELF_RELATIVE: u16 = 0x8000;

/// What is taken already of a descriptor's bytes.
struct Parts<'a> {
    bytes: &'a [u8],
    taken: [(usize, usize); 5],
    count: usize,
}

impl<'a> Parts<'a> {
    /// The bytes from a part's offset on.
    fn from(&self, offset: usize, what: &'static str) -> Result<&'a [u8], DescriptorError> {
        self.bytes.get(offset..).ok_or(DescriptorError::Place(what))
    }

    /// Takes the part's bytes, which nobody else may have.
    fn take(&mut self, offset: usize, len: usize, what: &'static str) -> Result<(), DescriptorError> {
        let end = offset + len;
        if self.taken[..self.count].iter().any(|(from, to)| offset < *to && *from < end) {
            return Err(DescriptorError::Place(what));
        }
        self.taken[self.count] = (offset, end);
        self.count += 1;
        Ok(())
    }

    fn sid(&mut self, offset: usize, what: &'static str) -> Result<Option<Sid>, DescriptorError> {
        if offset == 0 {
            return Ok(None);
        }
        let sid = Sid::read(&mut Reader::new(self.from(offset, what)?))?;
        self.take(offset, sid.len_bytes(), what)?;
        Ok(Some(sid))
    }

    fn acl(&mut self, offset: usize, is_present: bool, what: &'static str) -> Result<AclState, DescriptorError> {
        if !is_present {
            return Ok(AclState::Absent);
        }
        if offset == 0 {
            return Ok(AclState::Null);
        }
        let (acl, len) = Acl::read(self.from(offset, what)?)?;
        self.take(offset, len, what)?;
        Ok(AclState::Present(acl))
    }
}

impl SecurityDescriptor {
    /// The descriptor that these bytes are. Bytes that no part has, an offset to a list that is said to be absent, and
    /// control bits without a meaning here are left out.
    ///
    /// # Errors
    /// [`DescriptorError`] if it is larger than [`MAX_DESCRIPTOR_BYTES`], not self-relative, or a part is damaged, lies
    /// outside or on another one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DescriptorError> {
        if bytes.len() > MAX_DESCRIPTOR_BYTES {
            return Err(DescriptorError::TooLarge(bytes.len()));
        }
        let short = |_| DescriptorError::Header("it ends early");
        let mut reader = Reader::new(bytes);
        let [revision, _] = reader.array().map_err(short)?;
        let control = reader.u16().map_err(short)?;
        let mut offsets = [0; 4];
        for offset in &mut offsets {
            *offset = reader.u32().map_err(short)? as usize;
        }
        if revision != 1 {
            return Err(DescriptorError::Header("its revision is not 1"));
        }
        if control & SELF_RELATIVE == 0 {
            return Err(DescriptorError::Header("it is not self-relative"));
        }
        let [owner, group, sacl, dacl] = offsets;
        let mut parts = Parts { bytes, taken: [(0, HEADER_BYTES); 5], count: 1 };
        Ok(Self {
            control: Control::from_bits_truncate(control),
            owner: parts.sid(owner, "owner")?,
            group: parts.sid(group, "group")?,
            sacl: parts.acl(sacl, control & SACL_PRESENT != 0, "SACL")?,
            dacl: parts.acl(dacl, control & DACL_PRESENT != 0, "DACL")?,
        })
    }

    /// Bytes of the binary form.
    pub fn len_bytes(&self) -> usize {
        let sids = [&self.owner, &self.group].into_iter().flatten().map(Sid::len_bytes);
        let acls = [&self.sacl, &self.dacl].into_iter().filter_map(AclState::acl).map(Acl::len_bytes);
        HEADER_BYTES + sids.chain(acls).sum::<usize>()
    }

    /// The binary form.
    ///
    /// # Errors
    /// [`DescriptorError::TooLarge`] beyond [`MAX_DESCRIPTOR_BYTES`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, DescriptorError> {
        let len = self.len_bytes();
        if len > MAX_DESCRIPTOR_BYTES {
            return Err(DescriptorError::TooLarge(len));
        }
        let mut bytes = Vec::with_capacity(len);
        let present = |state: &AclState, bit| if *state == AclState::Absent { 0 } else { bit };
        let lists = present(&self.dacl, DACL_PRESENT) | present(&self.sacl, SACL_PRESENT);
        bytes.extend_from_slice(&[1, 0]);
        bytes.extend_from_slice(&(self.control.bits() | lists | SELF_RELATIVE).to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        for (field, sid) in [(4, &self.owner), (8, &self.group)] {
            if let Some(sid) = sid {
                point(&mut bytes, field);
                sid.write(&mut bytes);
            }
        }
        for (field, state) in [(12, &self.sacl), (16, &self.dacl)] {
            if let Some(acl) = state.acl() {
                point(&mut bytes, field);
                acl.write(&mut bytes);
            }
        }
        debug_assert_eq!(bytes.len(), len);
        Ok(bytes)
    }
}

/// Has a field of the header point at the end of the bytes so far.
fn point(bytes: &mut [u8], field: usize) {
    let offset = bytes.len() as u32;
    bytes[field..field + 4].copy_from_slice(&offset.to_le_bytes());
}
