//! What can go wrong, as a kind for callers and a sentence for people.

use holdfast_device::IoError;

/// Kinds that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The device failed.
    Io,
    /// A block is not what it must be, in all its copies.
    Corrupt,
    /// There is no volume here, or one that this version does not know.
    Format,
    /// No room is left.
    NoSpace,
    /// The request cannot be carried out by anybody.
    Invalid,
    /// An earlier failure ended all changes; reads go on.
    ReadOnly,
}

/// A failure, with the object it befell and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct VolumeError {
    /// Its kind.
    pub kind: ErrorKind,
    text: String,
}

impl VolumeError {
    /// A failure of this kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(crate) fn corrupt(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, text)
    }
}

impl From<IoError> for VolumeError {
    fn from(error: IoError) -> Self {
        Self::new(ErrorKind::Io, error.to_string())
    }
}
