//! Why an I/O failed: a kind that callers act on, and a text that people read.

use std::fmt;

/// What a caller can do about a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoErrorKind {
    /// These blocks cannot be read or written; others may.
    Media,
    /// The device is gone: every request will fail.
    Gone,
    /// No room for a write that needs new space.
    NoSpace,
    /// The request is out of range, misaligned, or not allowed.
    Invalid,
    /// The device may only be read.
    ReadOnly,
    /// The content is known not to be what was written last: no good copy is left.
    Stale,
    /// It was given up before it began.
    GivenUp,
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoError {
    /// What can be done about it.
    pub kind: IoErrorKind,
    /// Which object, and what was tried.
    pub context: String,
}

impl IoError {
    /// An error of `kind` about the object and attempt that `context` names.
    pub fn new(kind: IoErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into() }
    }

    /// A request that must not be made.
    pub fn invalid(context: impl Into<String>) -> Self {
        Self::new(IoErrorKind::Invalid, context)
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            IoErrorKind::Media => "medium error",
            IoErrorKind::Gone => "device is gone",
            IoErrorKind::NoSpace => "no space left",
            IoErrorKind::Invalid => "invalid request",
            IoErrorKind::ReadOnly => "read-only",
            IoErrorKind::Stale => "no good copy left",
            IoErrorKind::GivenUp => "given up before it began",
        };
        write!(f, "{}: {kind}", self.context)
    }
}

impl std::error::Error for IoError {}
