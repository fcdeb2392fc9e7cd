//! What the table refuses, and why.

use crate::key::{FileKey, OpenId};
use crate::locks::LockInfo;

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Files that are open.
    Files,
    /// Opens in all.
    Opens,
    /// Opens of one file.
    OpensOfFile,
    /// Byte ranges in all.
    Ranges,
    /// Byte ranges of one open or owner.
    RangesOfOwner,
    /// Leases in all.
    Leases,
    /// Requests that wait at one file.
    Waits,
    /// Bytes of a name that is to be deleted.
    Link,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An open does not share what is asked, or the asker does not share what an open does
    /// (`STATUS_SHARING_VIOLATION`, `NFS4ERR_SHARE_DENIED`, `EBUSY`).
    #[error("{file} is in use by {by} in a way that excludes this: close that first, or have it closed")]
    Sharing {
        /// The file.
        file: FileKey,
        /// One of the opens that exclude it.
        by: OpenId,
    },
    /// The file goes with its last close (`STATUS_DELETE_PENDING`, `ENOENT`).
    #[error("{file} is being deleted: it goes when the last who has it open closes it")]
    DeletePending {
        /// The file.
        file: FileKey,
    },
    /// An open that outlives its connection may still come back (`STATUS_FILE_NOT_AVAILABLE`, `NFS4ERR_DELAY`).
    #[error("{file} is kept for {by}, whose client may come back: try again in a while")]
    NotYet {
        /// The file.
        file: FileKey,
        /// The open that it is kept for.
        by: OpenId,
    },
    /// A range is locked (`STATUS_FILE_LOCK_CONFLICT`, `STATUS_LOCK_NOT_GRANTED`, `EAGAIN`).
    #[error("{file} is locked at {start}, {len} bytes: try again when that is unlocked", start = held.range.start(), len = held.range.len())]
    Locked {
        /// The file.
        file: FileKey,
        /// One of the locks in the way.
        held: Box<LockInfo>,
    },
    /// Waiting would never end, as those who are waited for wait for the asker (`EDEADLK`).
    #[error("waiting for a lock of {file} would never end, as its holder waits for this owner: unlock something first")]
    Deadlock {
        /// The file.
        file: FileKey,
    },
    /// A wait was given up, as its open was closed (`STATUS_RANGE_NOT_LOCKED`, `EINTR`).
    #[error("waiting for a lock of {file} ended, as what it was asked through is closed")]
    Cancelled {
        /// The file.
        file: FileKey,
    },
    /// There is no such lock (`STATUS_RANGE_NOT_LOCKED`).
    #[error("{file} has no lock of exactly {len} bytes at {start}: unlock what was locked", start = range.0, len = range.1)]
    NotLocked {
        /// The file.
        file: FileKey,
        /// First byte, and bytes.
        range: (u64, u64),
    },
    /// No such range exists (`STATUS_INVALID_LOCK_RANGE`, `EINVAL`).
    #[error("there is no range of {len} bytes at {start}: name one that ends in time")]
    Range {
        /// The first byte.
        start: u64,
        /// Bytes.
        len: u64,
    },
    /// The open has not the right for it (`STATUS_ACCESS_DENIED`, `EBADF`).
    #[error("{file} was opened by {open} without the right to delete it: open it with that right")]
    Rights {
        /// The file.
        file: FileKey,
        /// The open.
        open: OpenId,
    },
    /// There is no such open, or none that this caller may have (`STATUS_FILE_CLOSED`, `EBADF`).
    #[error("there is no {open} for this caller: open the file again")]
    NoOpen {
        /// The open.
        open: OpenId,
    },
    /// There is no break that this answers, or it keeps more than it may (`STATUS_INVALID_OPLOCK_PROTOCOL`,
    /// `STATUS_REQUEST_NOT_ACCEPTED`).
    #[error("{file} waits for no such answer to a break: keep no more than the break left")]
    Answer {
        /// The file.
        file: FileKey,
    },
    /// As many as there may be (`STATUS_INSUFFICIENT_RESOURCES`, `NFS4ERR_RESOURCE`, `ENOLCK`, `ENFILE`).
    #[error("{file}: there are as many as there may be ({limit:?}): close or unlock something, or raise the limit")]
    Limit {
        /// The file.
        file: FileKey,
        /// What is limited.
        limit: Limit,
    },
}
