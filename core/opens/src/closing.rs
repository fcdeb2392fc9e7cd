//! Closing, by whom it is or by somebody else, and files that go with their last close.
//!
//! Invariant: a file is handed out to be deleted once, by the act that closed its last open; until that is reported done
//! its entry stays and refuses whoever would open it.

use std::sync::Arc;
use std::time::Duration;

use crate::access::Access;
use crate::effects::{Context, Message};
use crate::error::{Error, Limit};
use crate::key::{ClientId, FileKey, OpenId};
use crate::leases::LeaseKey;
use crate::locks::{Holder, LockKind, LockOwner};
use crate::open::{Link, Open};
use crate::seat::{FileSeat, FileState};
use crate::settings::MAX_LINK_BYTES;
use crate::table::{Seat, Table};

/// A file that is to be deleted now. Nobody can open it until [`Table::deleted`] is told that it was tried, with success
/// or without; who drops this instead leaves it refused for good.
#[derive(Debug)]
#[must_use = "the file is refused to everybody until it is reported deleted"]
pub struct Deletion {
    file: Arc<FileSeat>,
    link: Link,
}

impl Deletion {
    /// The file.
    pub fn file(&self) -> FileKey {
        self.file.key
    }

    /// By which name, as whoever asked for it put it.
    pub fn link(&self) -> &Link {
        &self.link
    }
}

impl Table {
    /// Closes an open with its locks and its share of a lease. If it was the last one of a file that is to go, that is
    /// handed out to be deleted.
    ///
    /// # Errors
    /// [`Error::NoOpen`] if it was closed already.
    pub fn close(&self, seat: &Seat, now: Duration) -> Result<Option<Deletion>, Error> {
        self.act(&seat.file, now, |state, context| {
            state.opens.get(seat.place, seat.open).ok_or_else(|| seat.gone())?;
            state.remove_open(seat.place, context);
            Ok(state.last_close(&seat.file))
        })
    }

    /// Has a file go with its last close, by this name, or with none has it stay after all. [`crate::Act::Delete`] comes
    /// before it. What is to go on the close of an open is not changed.
    ///
    /// # Errors
    /// [`Error::NoOpen`]; [`Error::Rights`] if it was not opened to be deleted; [`Error::Limit`] for a long name.
    pub fn set_delete(&self, seat: &Seat, link: Option<Link>, now: Duration) -> Result<(), Error> {
        let file = seat.file.key;
        if link.as_ref().is_some_and(|link| link.len() > MAX_LINK_BYTES) {
            return Err(Error::Limit { file, limit: Limit::Link });
        }
        self.act(&seat.file, now, |state, context| {
            let open = state.opens.get(seat.place, seat.open).ok_or_else(|| seat.gone())?;
            if !open.access.has(Access::DELETE) {
                return Err(Error::Rights { file, open: seat.open });
            }
            // Who waits to open it need not any more: it is refused, or may come in.
            context.released = true;
            state.pending = link;
            Ok(())
        })
    }

    /// A deletion was carried out, or given up.
    pub fn deleted(&self, deletion: Deletion, now: Duration) {
        self.act(&deletion.file, now, |state, context| {
            (state.deleting, state.pending) = (false, None);
            context.released = true;
        });
    }

    /// Closes an open by order of an administrator; its client is told.
    ///
    /// # Errors
    /// [`Error::NoOpen`] if there is none of that number in the file.
    pub fn force_close(&self, file: FileKey, open: OpenId, now: Duration) -> Result<Option<Deletion>, Error> {
        let seat = self.find(file).ok_or(Error::NoOpen { open })?;
        self.act(&seat, now, |state, context| {
            let place = state.opens.find(open).ok_or(Error::NoOpen { open })?;
            state.evict(place, context);
            Ok(state.last_close(&seat))
        })
    }

    /// Closes all opens of a client that is gone, but those that are kept for it. Answers with the files that are to be
    /// deleted. It looks through the whole table.
    pub fn close_client(&self, client: ClientId, now: Duration) -> Vec<Deletion> {
        let close = |seat: Arc<FileSeat>| {
            let is_its = |open: &Open| open.client == client && open.aside.is_none();
            self.act(&seat, now, |state, context| {
                let its = state.opens.iter().filter(|(_, open)| is_its(open)).map(|(place, _)| place);
                let its: Vec<u32> = its.collect();
                its.into_iter().for_each(|place| {
                    state.evicted = true;
                    state.remove_open(place, context);
                });
                state.last_close(&seat)
            })
        };
        self.all_seats().filter_map(close).collect()
    }
}

impl FileState {
    /// Takes an open out with all that is its.
    pub(crate) fn remove_open(&mut self, place: u32, context: &mut Context) {
        let Some(open) = self.opens.remove(place) else { return };
        context.released = true;
        let common = context.common;
        common.budgets.opens.give(1);
        self.shares.remove(open.access, open.share);
        if let Some(key) = open.lease {
            self.leave_lease(key, &open, context);
        }
        if let Some(locks) = self.locks.as_mut() {
            let budget = &common.budgets.ranges;
            let owner = LockOwner::Open(open.id);
            locks.release(Holder { kind: LockKind::Nt, owner }, budget);
            locks.release(Holder { kind: LockKind::Ofd, owner }, budget);
            locks.unlock_whole(open.id, budget);
            locks.cancel_open(open.id, context);
            if !self.opens.iter().any(|(_, other)| other.client == open.client) {
                locks.owners_of(open.client).into_iter().for_each(|holder| _ = locks.release(holder, budget));
            }
            context.relocked = true;
        }
        if open.aside.is_some() {
            common.let_go(open.id);
            context.timed = true;
        }
        if let Some(link) = open.on_close {
            self.pending.get_or_insert(link);
        }
    }

    fn leave_lease(&mut self, key: LeaseKey, open: &Open, context: &mut Context) {
        let is_left = self.leases.change(key, |lease| {
            lease.users.step(open, |count| *count -= 1);
            lease.users.opens == 0
        });
        if is_left == Some(true) {
            self.leases.remove(key);
            context.common.budgets.leases.give(1);
            context.timed = true;
        }
    }

    /// Ends an open of somebody else, and tells them.
    pub(crate) fn evict(&mut self, place: u32, context: &mut Context) {
        let told = self.opens.iter().find(|(at, _)| *at == place).map(|(_, open)| (open.recall.clone(), open.id));
        if let Some((recall, open)) = told {
            self.evicted = true;
            context.messages.push((recall, Message::Closed(context.file, open)));
            self.remove_open(place, context);
        }
    }

    /// Ends all opens of leases. Answers whether there were any.
    pub(crate) fn purge(&mut self, leases: &[LeaseKey], context: &mut Context) -> bool {
        let of = |open: &Open| open.lease.is_some_and(|lease| leases.contains(&lease));
        let places: Vec<u32> = if leases.is_empty() {
            Vec::new()
        } else {
            self.opens.iter().filter(|(_, open)| of(open)).map(|(at, _)| at).collect()
        };
        places.iter().for_each(|place| self.evict(*place, context));
        !places.is_empty()
    }

    /// Hands the file out to be deleted if it is to go and nobody has it open any more.
    pub(crate) fn last_close(&mut self, seat: &Arc<FileSeat>) -> Option<Deletion> {
        let link = self.pending.as_ref().filter(|_| self.opens.is_empty() && !self.deleting)?.clone();
        self.deleting = true;
        Some(Deletion { file: seat.clone(), link })
    }
}
