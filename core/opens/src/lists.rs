//! What the table holds, for people: copies, made file by file, of what was true when each was looked at.
//!
//! Invariant: a list is as long as was asked at most, and no lock is held from one file to the next.

use std::time::Duration;

use crate::access::Access;
use crate::caching::{Caching, LeaseKind};
use crate::effects::held;
use crate::key::{ClientId, FileKey, OpenId};
use crate::leases::LeaseKey;
use crate::locks::LockInfo;
use crate::open::Open;
use crate::table::Table;

/// An open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenInfo {
    /// Its file.
    pub file: FileKey,
    /// Its number.
    pub open: OpenId,
    /// Its client.
    pub client: ClientId,
    /// The client's protocol.
    pub protocol: &'static str,
    /// What it is for.
    pub access: Access,
    /// What it lets others do.
    pub share: Access,
    /// The lease that it belongs to.
    pub lease: Option<LeaseKey>,
    /// When it was opened.
    pub since: Duration,
    /// Whether its file goes when it is closed.
    pub deletes_on_close: bool,
    /// If its client is away: until when it is kept, and whether others wait for it.
    pub kept: Option<(Duration, bool)>,
}

impl OpenInfo {
    fn of(file: FileKey, open: &Open) -> Self {
        Self {
            file,
            open: open.id,
            client: open.client,
            protocol: open.protocol,
            access: open.access,
            share: open.share,
            lease: open.lease,
            since: open.since,
            deletes_on_close: open.on_close.is_some(),
            kept: open.aside.map(|aside| (aside.deadline, aside.sticky)),
        }
    }
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseInfo {
    /// Its file.
    pub file: FileKey,
    /// Whose it is.
    pub lease: LeaseKey,
    /// Its kind.
    pub kind: LeaseKind,
    /// What it holds.
    pub held: Caching,
    /// While it is being broken, what it may keep, and when it loses all.
    pub breaking: Option<(Caching, Duration)>,
    /// Its epoch.
    pub epoch: u16,
    /// The client's key of the directory's lease.
    pub parent: Option<u128>,
    /// How many opens belong to it.
    pub opens: u32,
    /// When it was granted last.
    pub since: Duration,
}

impl Table {
    /// The first `most` opens of a file.
    pub fn opens_of(&self, file: FileKey, most: usize) -> Vec<OpenInfo> {
        let Some(seat) = self.find(file) else { return Vec::new() };
        let state = held(&seat.state);
        state.opens.iter().take(most).map(|(_, open)| OpenInfo::of(file, open)).collect()
    }

    /// The first `most` opens of a client. It looks through the whole table.
    pub fn opens_of_client(&self, client: ClientId, most: usize) -> Vec<OpenInfo> {
        let mut list = Vec::new();
        for seat in self.all_seats() {
            let state = held(&seat.state);
            let its = state.opens.iter().filter(|(_, open)| open.client == client);
            list.extend(its.map(|(_, open)| OpenInfo::of(seat.key, open)).take(most - list.len()));
            if list.len() == most {
                break;
            }
        }
        list
    }

    /// The first `most` files that are open. It looks through the whole table.
    pub fn files(&self, most: usize) -> Vec<FileKey> {
        self.all_seats().take(most).map(|seat| seat.key).collect()
    }

    /// The first `most` locks of a file.
    pub fn locks_of(&self, file: FileKey, most: usize) -> Vec<LockInfo> {
        let Some(seat) = self.find(file) else { return Vec::new() };
        let state = held(&seat.state);
        state.locks.as_ref().map_or_else(Vec::new, |locks| locks.list(most))
    }

    /// The first `most` leases of a file.
    pub fn leases_of(&self, file: FileKey, most: usize) -> Vec<LeaseInfo> {
        let Some(seat) = self.find(file) else { return Vec::new() };
        let state = held(&seat.state);
        let info = |lease: &crate::leases::Lease| LeaseInfo {
            file,
            lease: lease.key,
            kind: lease.kind,
            held: lease.held,
            breaking: lease.breaking.map(|breaking| (breaking.told, breaking.deadline)),
            epoch: lease.epoch,
            parent: lease.parent,
            opens: lease.users.opens,
            since: lease.since,
        };
        state.leases.iter().take(most).map(info).collect()
    }

    /// Whether a file goes with its last close.
    pub fn is_delete_pending(&self, file: FileKey) -> bool {
        self.find(file).is_some_and(|seat| held(&seat.state).pending.is_some())
    }
}
