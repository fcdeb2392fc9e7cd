//! What the table speaks of: files, clients, owners and opens, all by number.
//!
//! Invariant: nothing here has a meaning beyond equality and order; front ends choose the numbers.

use std::fmt;

/// A file, or one of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// The number of its volume.
    pub volume: u64,
    /// Its number in the volume.
    pub number: u64,
    /// What tells it from earlier files of that number.
    pub generation: u32,
    /// 0 for the file itself; a named stream has share modes, locks and leases of its own.
    pub stream: u32,
}

impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}.{} of volume {}", self.number, self.generation, self.volume)?;
        if self.stream > 0 { write!(f, ", stream {}", self.stream) } else { Ok(()) }
    }
}

/// A client, as its front end knows it: an SMB `ClientGuid`, an NFS client, a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u128);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {:x}", self.0)
    }
}

/// Somebody at a client: who owns locks of POSIX, or a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The client.
    pub client: ClientId,
    /// Whom the client means by it.
    pub key: u128,
}

/// An open, by a number that no other open of the table has, nor had since the number that it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpenId(pub u64);

impl fmt::Display for OpenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "open {}", self.0)
    }
}
