//! Why a pool refused: a kind that callers act on, and a text that names object, reason and next step.

use std::fmt;

use holdfast_device::{IoError, IoErrorKind};

/// What a caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolErrorKind {
    /// An argument cannot be: nothing was changed.
    Invalid,
    /// The named object is not there.
    NotFound,
    /// An object of this name is there already.
    Exists,
    /// The object is in use, or in a state so that this must not be done now.
    Conflict,
    /// Not enough room on enough disks.
    NoSpace,
    /// Too few disks agree to change anything safely.
    NoQuorum,
    /// The disks agree, but are known to lack changes that were answered.
    Incomplete,
    /// The pool was exported or is read-only.
    ReadOnly,
    /// What is on the disks contradicts itself.
    Damaged,
    /// A disk failed.
    Io,
}

/// A refused or failed operation on a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolError {
    /// What can be done about it.
    pub kind: PoolErrorKind,
    /// Object, reason and next step.
    pub context: String,
    /// The parameter of the request that it is about, where it is about one: `size_bytes`.
    pub parameter: Option<&'static str>,
}

impl PoolError {
    /// An error of `kind` with its text.
    pub fn new(kind: PoolErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into(), parameter: None }
    }

    pub(crate) fn invalid(context: impl Into<String>) -> Self {
        Self::new(PoolErrorKind::Invalid, context)
    }

    /// The same error, about a parameter of the request.
    pub(crate) fn about(self, parameter: &'static str) -> Self {
        Self { parameter: Some(parameter), ..self }
    }

    pub(crate) fn damaged(context: impl Into<String>) -> Self {
        Self::new(PoolErrorKind::Damaged, context)
    }
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for PoolError {}

impl From<IoError> for PoolError {
    fn from(error: IoError) -> Self {
        let kind = match error.kind {
            IoErrorKind::NoSpace => PoolErrorKind::NoSpace,
            IoErrorKind::ReadOnly => PoolErrorKind::ReadOnly,
            IoErrorKind::Invalid => PoolErrorKind::Invalid,
            _ => PoolErrorKind::Io,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<PoolError> for IoError {
    fn from(error: PoolError) -> Self {
        let kind = match error.kind {
            PoolErrorKind::NoSpace => IoErrorKind::NoSpace,
            PoolErrorKind::Invalid | PoolErrorKind::NotFound | PoolErrorKind::Exists | PoolErrorKind::Conflict => {
                IoErrorKind::Invalid
            }
            PoolErrorKind::NoQuorum | PoolErrorKind::ReadOnly => IoErrorKind::ReadOnly,
            PoolErrorKind::Damaged | PoolErrorKind::Incomplete | PoolErrorKind::Io => IoErrorKind::Media,
        };
        Self::new(kind, error.context)
    }
}
