//! What can go wrong, as a kind for callers and a sentence for people.

use std::borrow::Cow;

use holdfast_device::{IoError, IoErrorKind};

/// Kinds that callers tell apart; each is one error of POSIX, of NT ([MS-ERREF] 2.3.1) and of NFSv4 (RFC 8881 15.1).
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
    /// The user or tree has used all that it may.
    Quota,
    /// The request cannot be carried out by anybody.
    Invalid,
    /// An earlier failure ended all changes; reads go on.
    ReadOnly,
    /// There is no file of that name.
    NotFound,
    /// The file does not exist any more.
    Stale,
    /// The name is taken.
    Exists,
    /// A directory is needed.
    NotDirectory,
    /// Anything but a directory is needed.
    IsDirectory,
    /// The directory has names in it.
    NotEmpty,
    /// Permissions do not allow it.
    AccessDenied,
    /// Only the owner or an administrator may do it.
    NotPermitted,
    /// A name or path is too long.
    NameTooLong,
    /// A name has bytes that the volume does not take.
    BadName,
    /// The file has as many names as it can have.
    TooManyLinks,
    /// The file would be larger than files can be.
    TooLarge,
    /// The file has no reparse point.
    NoReparse,
    /// The file has a reparse point of another tag.
    OtherReparse,
    /// There is no such extended attribute, data or hole.
    NoData,
    /// The file counts for another directory tree's quota than the directory does.
    OtherTree,
    /// Somebody else uses it in a way that does not allow this.
    Busy,
    /// The file was not opened for that.
    BadHandle,
    /// The volume cannot do that.
    NotSupported,
}

impl ErrorKind {
    /// The number of the error on Linux (`errno.h`).
    pub fn errno(self) -> i32 {
        match self {
            Self::Io | Self::Corrupt | Self::Format => 5,
            Self::NoSpace => 28,
            Self::Quota => 122,
            Self::Invalid | Self::NoReparse | Self::OtherReparse => 22,
            Self::ReadOnly => 30,
            Self::NotFound => 2,
            Self::Stale => 116,
            Self::Exists => 17,
            Self::NotDirectory => 20,
            Self::IsDirectory => 21,
            Self::NotEmpty => 39,
            Self::AccessDenied => 13,
            Self::NotPermitted => 1,
            Self::NameTooLong => 36,
            Self::BadName => 84,
            Self::TooManyLinks => 31,
            Self::TooLarge => 27,
            Self::NoData => 61,
            Self::OtherTree => 18,
            Self::Busy => 16,
            Self::BadHandle => 9,
            Self::NotSupported => 95,
        }
    }

    /// The status of NT.
    pub fn nt_status(self) -> u32 {
        match self {
            Self::Io => 0xC000_0185,
            Self::Corrupt => 0xC000_0102,
            Self::Format => 0xC000_014F,
            Self::NoSpace => 0xC000_007F,
            Self::Quota => 0xC000_0044,
            Self::Invalid => 0xC000_000D,
            Self::NoReparse => 0xC000_0275,
            Self::OtherReparse => 0xC000_0277,
            Self::ReadOnly => 0xC000_00A2,
            Self::NotFound => 0xC000_0034,
            Self::Stale => 0xC000_0128,
            Self::Exists => 0xC000_0035,
            Self::NotDirectory => 0xC000_0103,
            Self::IsDirectory => 0xC000_00BA,
            Self::NotEmpty => 0xC000_0101,
            Self::AccessDenied => 0xC000_0022,
            Self::NotPermitted => 0xC000_0061,
            Self::NameTooLong => 0xC000_0106,
            Self::BadName => 0xC000_0033,
            Self::TooManyLinks => 0xC000_0265,
            Self::TooLarge => 0xC000_0904,
            Self::NoData => 0xC000_0052,
            Self::OtherTree => 0xC000_00D4,
            Self::Busy => 0xC000_0043,
            Self::BadHandle => 0xC000_0022,
            Self::NotSupported => 0xC000_00BB,
        }
    }

    /// The status of NFSv4.
    pub fn nfs_status(self) -> u32 {
        match self {
            Self::Io | Self::Corrupt | Self::Format => 5,
            Self::NoSpace => 28,
            Self::Quota => 69,
            Self::Invalid | Self::NoReparse | Self::OtherReparse => 22,
            Self::ReadOnly => 30,
            Self::NotFound | Self::NoData => 2,
            Self::Stale => 70,
            Self::Exists => 17,
            Self::NotDirectory => 20,
            Self::IsDirectory => 21,
            Self::NotEmpty => 66,
            Self::AccessDenied => 13,
            Self::NotPermitted => 1,
            Self::NameTooLong => 63,
            Self::BadName => 10041,
            Self::TooManyLinks => 31,
            Self::TooLarge => 27,
            Self::OtherTree => 18,
            Self::Busy => 10015,
            Self::BadHandle => 10038,
            Self::NotSupported => 10004,
        }
    }
}

/// A failure, with the object it befell and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct VolumeError {
    /// Its kind.
    pub kind: ErrorKind,
    text: Cow<'static, str>,
}

impl VolumeError {
    /// A failure of this kind. What requests meet every day comes with a fixed text, which costs nothing.
    pub fn new(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(crate) fn corrupt(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, text)
    }
}

impl From<IoError> for VolumeError {
    fn from(error: IoError) -> Self {
        let kind = if error.kind == IoErrorKind::NoSpace { ErrorKind::NoSpace } else { ErrorKind::Io };
        Self::new(kind, error.to_string())
    }
}
