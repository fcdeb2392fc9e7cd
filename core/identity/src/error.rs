//! Why bytes or parts make no descriptor.
//!
//! Invariant: a damaged descriptor is refused as a whole, with the part that is damaged.

use crate::sid::SidError;

/// Why bytes or parts make no descriptor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// More bytes than a descriptor may have.
    #[error(
        "the security descriptor or one of its lists would take {0} bytes and may take 64 KiB: \
         use groups instead of many users"
    )]
    TooLarge(usize),
    /// The header is not one.
    #[error("the header of the security descriptor is damaged: {0}")]
    Header(&'static str),
    /// A part lies outside, or on another one.
    #[error("the {0} of the security descriptor lies outside it or on another part")]
    Place(&'static str),
    /// A list is damaged.
    #[error("a list of the security descriptor is damaged: {0}")]
    List(&'static str),
    /// An entry is damaged.
    #[error("an entry of the security descriptor is damaged: {0}")]
    Entry(&'static str),
    /// An identifier is damaged.
    #[error("an identifier of the security descriptor is damaged: {0}")]
    Sid(#[from] SidError),
}
