//! A list of entries, and whether there is one at all ([MS-DTYP] 2.4.5).
//!
//! Invariant: a list never takes more bytes than its size field can say.

use holdfast_model::wire::Reader;

use crate::ace::Ace;
use crate::error::DescriptorError;

/// The most bytes that a list takes: what 16 bits hold, in steps of 4.
pub const MAX_ACL_BYTES: usize = 0xfffc;
/// Revision, size and count, before the entries.
const HEADER_BYTES: usize = 8;

/// A list of entries. The order matters: for each right, the first entry that speaks of it decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Acl {
    entries: Vec<Ace>,
}

/// Whether a descriptor has a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum AclState {
    /// It has none.
    #[default]
    Absent,
    /// It has the one that holds nothing back: everybody may do everything.
    Null,
    /// It has this one. One without entries lets nobody do anything.
    Present(Acl),
}

impl AclState {
    /// The entries, where there is a list.
    pub fn acl(&self) -> Option<&Acl> {
        match self {
            Self::Present(acl) => Some(acl),
            Self::Absent | Self::Null => None,
        }
    }

    /// The entries; none where there is no list.
    pub(crate) fn entries(&self) -> &[Ace] {
        self.acl().map_or(&[], Acl::entries)
    }
}

impl Acl {
    /// A list of these entries.
    ///
    /// # Errors
    /// [`DescriptorError::TooLarge`] beyond [`MAX_ACL_BYTES`].
    pub fn new(entries: Vec<Ace>) -> Result<Self, DescriptorError> {
        let acl = Self { entries };
        match acl.len_bytes() {
            bytes if bytes > MAX_ACL_BYTES => Err(DescriptorError::TooLarge(bytes)),
            _ => Ok(acl),
        }
    }

    /// The entries, in order.
    pub fn entries(&self) -> &[Ace] {
        &self.entries
    }

    /// The entries, to make another list of.
    pub fn into_entries(self) -> Vec<Ace> {
        self.entries
    }

    /// Bytes of the binary form, which 4 divides.
    pub fn len_bytes(&self) -> usize {
        HEADER_BYTES + self.entries.iter().map(Ace::len_bytes).sum::<usize>()
    }

    /// Reads a list from the front of bytes; answers how many are its own. Room behind the last entry is left out.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, usize), DescriptorError> {
        let short = |_| DescriptorError::List("it ends behind the descriptor");
        let mut header = Reader::new(bytes);
        let [revision, _] = header.array().map_err(short)?;
        if !(2..=4).contains(&revision) {
            return Err(DescriptorError::List("its revision is none of 2 to 4"));
        }
        let size = usize::from(header.u16().map_err(short)?);
        let count = header.u16().map_err(short)?;
        if size < HEADER_BYTES || !size.is_multiple_of(4) {
            return Err(DescriptorError::List("its size is not that of a list"));
        }
        let own = bytes.get(HEADER_BYTES..size).ok_or(DescriptorError::List("it ends behind the descriptor"))?;
        let mut reader = Reader::new(own);
        let entries = (0..count).map(|_| Ace::read(&mut reader)).collect::<Result<_, _>>()?;
        Ok((Self { entries }, size))
    }

    /// Appends the binary form: revision 4 if an entry is of an object type, otherwise 2.
    pub(crate) fn write(&self, into: &mut Vec<u8>) {
        let revision = if self.entries.iter().any(Ace::is_of_object) { 4 } else { 2 };
        into.extend_from_slice(&[revision, 0]);
        into.extend_from_slice(&(self.len_bytes() as u16).to_le_bytes());
        into.extend_from_slice(&(self.entries.len() as u16).to_le_bytes());
        into.extend_from_slice(&[0, 0]);
        self.entries.iter().for_each(|entry| entry.write(into));
    }
}
