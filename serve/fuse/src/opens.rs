//! The table of opens of the volume that is mounted, and how this mount stands in it: as one client, whose opens share
//! all and cache nothing.
//!
//! ```text
//!   SMB ──┐
//!   NFS ──┼──▶ table ◀── mount      OPEN: a seat    READ, WRITE, …: by the seat    RELEASE: given back
//! ```
//!
//! Invariant: what the kernel caches of a file is no lease. It is told by a [`Notifier`](crate::Notifier) of what others
//! changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_opens::{Access, ClientId, Error, FileKey, Limit, Notice, OpenId, OpenRequest, Recall, Settings, Table};
use holdfast_volume::service::{FileId, OpenMode};

use crate::answer::Errno;
use crate::protocol::constants::*;

/// What all mounts of this process are called, with a number behind it.
const CLIENTS: u128 = u128::from_be_bytes(*b"FUSE mount\0\0\0\0\0\0");

static MOUNTS: AtomicU64 = AtomicU64::new(1);

/// The table that a mount registers its opens in. All front ends of a volume are given the same.
#[derive(Clone)]
pub struct Opens {
    table: Arc<Table>,
    volume: u64,
}

impl Opens {
    /// A table, and the number that the volume has in it.
    pub fn new(table: Arc<Table>, volume: u64) -> Self {
        Self { table, volume }
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What the table calls a file.
    pub fn key(&self, file: FileId) -> FileKey {
        FileKey { volume: self.volume, number: file.number, generation: file.generation, stream: 0 }
    }
}

impl Default for Opens {
    /// A table for a volume that nobody else serves.
    fn default() -> Self {
        Self::new(Arc::new(Table::new(Settings::default())), 0)
    }
}

impl std::fmt::Debug for Opens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Opens(volume {}, {:?})", self.volume, self.table.counts())
    }
}

/// What a file is opened for.
pub(crate) fn access(mode: OpenMode) -> Access {
    let (read, write) = (Access::READ, Access::WRITE);
    match (mode.read, mode.write) {
        (true, true) => read.and(write),
        (true, false) => read,
        (false, true) => write,
        (false, false) => Access::NONE,
    }
}

/// A mount as a client of the table.
pub(crate) struct Client {
    pub(crate) opens: Opens,
    pub(crate) id: ClientId,
    honours_denials: bool,
    recall: Arc<dyn Recall>,
}

impl Client {
    pub(crate) fn new(opens: Opens, honours_denials: bool) -> Self {
        let id = ClientId(CLIENTS | u128::from(MOUNTS.fetch_add(1, Ordering::Relaxed)));
        Self { opens, id, honours_denials, recall: Arc::new(Nothing) }
    }

    /// What is asked for an open.
    pub(crate) fn request(&self, file: FileId, access: Access, overwrites: bool) -> OpenRequest {
        OpenRequest {
            file: self.opens.key(file),
            client: self.id,
            protocol: "fuse",
            access,
            share: Access::ALL,
            ignores_denials: !self.honours_denials,
            excludes_all: false,
            overwrites,
            delete_on_close: None,
            lease: None,
            waits_for_kept: true,
            recall: self.recall.clone(),
        }
    }
}

/// There is nothing to be taken from a mount, and it learns of an open that was closed for it by the next request.
struct Nothing;

impl Recall for Nothing {
    fn broken(&self, _: &Notice) {}

    fn closed(&self, file: FileKey, open: OpenId) {
        tracing::info!("{open} of {file}, which a local program has open, was closed by order");
    }
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        Self(match error {
            Error::Sharing { .. } => EBUSY,
            Error::DeletePending { .. } => ENOENT,
            Error::NotYet { .. } | Error::Locked { .. } => EAGAIN,
            Error::Deadlock { .. } => EDEADLK,
            Error::Cancelled { .. } => EINTR,
            Error::NotLocked { .. } | Error::Range { .. } | Error::Answer { .. } => EINVAL,
            Error::Rights { .. } | Error::NoOpen { .. } => EBADF,
            Error::Limit { limit: Limit::Files | Limit::Opens | Limit::OpensOfFile, .. } => ENFILE,
            Error::Limit { .. } => ENOLCK,
        })
    }
}
