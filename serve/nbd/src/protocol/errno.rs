//! The errors that the wire can carry. Invariant: nothing but these numbers is ever sent as an error.

use holdfast_device::IoErrorKind;

/// An error number of the protocol (`proto.md`, "Error values").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Errno {
    /// The export may only be read.
    Permission = 1,
    /// The blocks could not be read or written.
    Io = 5,
    /// No memory for the request.
    NoMemory = 12,
    /// The request makes no sense.
    Invalid = 22,
    /// No room, or a write beyond the end.
    NoSpace = 28,
    /// Too long to be served in one piece.
    Overflow = 75,
    /// It could not be done fast.
    NotSupported = 95,
    /// The server is going down, or the export is being taken away.
    Shutdown = 108,
}

impl Errno {
    /// The number on the wire.
    pub fn code(self) -> u32 {
        self as u32
    }
}

impl From<IoErrorKind> for Errno {
    fn from(kind: IoErrorKind) -> Self {
        match kind {
            IoErrorKind::Media | IoErrorKind::Gone | IoErrorKind::Stale => Self::Io,
            IoErrorKind::NoSpace => Self::NoSpace,
            IoErrorKind::Invalid => Self::Invalid,
            IoErrorKind::ReadOnly => Self::Permission,
            IoErrorKind::GivenUp => Self::Shutdown,
        }
    }
}
