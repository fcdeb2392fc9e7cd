//! Opens that outlive their connection: put aside, taken back, restored after a restart, ended by time.
//!
//! ```text
//!   open ── put_aside ─▶ aside ── take_back, by who knows the key ─▶ open
//!                          │
//!                          ├── not sticky: ended by the first open or act that it excludes or cannot answer
//!                          ├── sticky: others are told to try again
//!                          └── deadline ─▶ closed
//! ```
//!
//! Invariant: an open that is aside has a deadline, and is in the table's list of those that are kept; nobody gets it
//! without its key, and a wrong one changes nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::caching::Caching;
use crate::closing::Deletion;
use crate::effects::{Context, Recall};
use crate::error::Error;
use crate::key::{ClientId, FileKey, OpenId};
use crate::leases::{Lease, LeaseKey, LeaseName};
use crate::locks::{Holder, LockKind, LockOwner, Wanted};
use crate::open::{Aside, Open};
use crate::opening::{LeaseRequest, OpenRequest, Opened};
use crate::range::ByteRange;
use crate::seat::{FileSeat, FileState};
use crate::table::{Seat, Table};

/// How an open is kept.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// What whoever takes it back must know: a digest of user, client and creation identifier.
    pub key: u128,
    /// When it is closed if nobody came.
    pub deadline: Duration,
    /// Whether conflicting opens wait for it (persistent), or end it (durable).
    pub sticky: bool,
}

/// An open as it was before a restart.
#[derive(Clone)]
pub struct Restored {
    /// What was asked, with the lease that it had.
    pub request: OpenRequest,
    /// Its number.
    pub open: OpenId,
    /// What its lease held.
    pub caching: Caching,
    /// The epoch of that.
    pub epoch: u16,
    /// Its locks of NT, each with whether it is exclusive.
    pub locks: Vec<(ByteRange, bool)>,
    /// How it is kept until its client comes.
    pub keep: Keep,
}

/// What time ended.
#[derive(Debug, Default)]
pub struct Expired {
    /// Leases whose clients did not answer.
    pub revoked: usize,
    /// Opens whose clients did not come back.
    pub closed: Vec<(FileKey, OpenId)>,
    /// Files that are to be deleted now.
    pub deletions: Vec<Deletion>,
}

impl Table {
    /// Keeps an open whose connection is gone. Its place stays as it is.
    ///
    /// # Errors
    /// [`Error::NoOpen`].
    pub fn put_aside(&self, seat: &Seat, keep: Keep, now: Duration) -> Result<(), Error> {
        self.act(&seat.file, now, |state, context| {
            let open = state.opens.get_mut(seat.place, seat.open).ok_or_else(|| seat.gone())?;
            let aside = Aside { key: keep.key, deadline: keep.deadline, sticky: keep.sticky };
            if let Some(lease) = open.lease {
                state.leases.change(lease, |lease| lease.users.step(open, |count| *count -= 1));
                open.aside = Some(aside);
                state.leases.change(lease, |lease| lease.users.step(open, |count| *count += 1));
            }
            open.aside = Some(aside);
            // Who waits for its answer need not any more, or has to try again.
            (context.released, context.timed) = (true, true);
            self.common.keep(seat.open, seat.file.key);
            Ok(())
        })
    }

    /// Gives an open that was put aside back to its client, who tells the key. Breaks from now on go to `recall`.
    ///
    /// # Errors
    /// [`Error::NoOpen`] if there is none of this number, or it is not this client's, or the key is wrong: these are not
    /// told apart, and nothing changes.
    pub fn take_back(
        &self,
        open: OpenId,
        client: ClientId,
        key: u128,
        recall: Arc<dyn Recall>,
        now: Duration,
    ) -> Result<Opened, Error> {
        let gone = Error::NoOpen { open };
        let file = self.common.kept(open).ok_or(gone.clone())?;
        let seat = self.find(file).ok_or(gone.clone())?;
        self.act(&seat, now, |state, context| {
            let place = state.opens.find(open).ok_or(gone.clone())?;
            let found = state.opens.get_mut(place, open).ok_or(gone.clone())?;
            if found.client != client || found.aside.is_none_or(|aside| aside.key != key || aside.deadline <= now) {
                return Err(gone);
            }
            let mut granted = (Caching::NONE, 0, false, 0);
            let back = |lease: &mut Lease, open: &mut Open| {
                lease.users.step(open, |count| *count -= 1);
                open.aside = None;
                lease.users.step(open, |count| *count += 1);
                lease.recall = recall.clone();
                (lease.held, lease.epoch, lease.breaking.is_some(), lease.number)
            };
            if let Some(key) = found.lease {
                granted = state.leases.change(key, |lease| back(lease, found)).unwrap_or(granted);
            }
            (found.aside, found.recall) = (None, recall);
            self.common.let_go(open);
            (context.released, context.timed) = (true, true);
            let (caching, epoch, is_breaking, lease) = granted;
            let seat = Seat { file: seat.clone(), place, open, lease, access: found.access };
            Ok(Opened { seat, caching, epoch, is_breaking })
        })
    }

    /// Seats an open that was kept before a restart, aside. All of a volume are seated before its first request.
    ///
    /// # Errors
    /// [`Error::Sharing`] or [`Error::Locked`] if it excludes another one, so that one of the records is wrong;
    /// [`Error::Limit`].
    pub fn restore(&self, restored: &Restored, now: Duration) -> Result<Seat, Error> {
        let file = restored.request.file;
        let seat = loop {
            let (entry, _) = self.seat_of(file)?;
            let seated = self.act(&entry, now, |state, context| match state.dead {
                true => Ok(None),
                false => state.restore(&entry, restored, context).map(Some),
            })?;
            if let Some(seat) = seated {
                break seat;
            }
        };
        self.put_aside(&seat, restored.keep, now)?;
        Ok(seat)
    }

    /// Ends what ran out of time: breaks without an answer, kept opens without a client. Whoever waited for them is woken.
    /// It is called when [`Table::next_deadline`] says, or every second.
    pub fn expire(&self, now: Duration) -> Expired {
        let mut expired = Expired::default();
        let mut last = None;
        while let Some(note) = self.common.due(now, last) {
            let file = note.1;
            last = Some(note);
            let Some(seat) = self.find(file) else {
                self.common.unschedule(note);
                continue;
            };
            self.act(&seat, now, |state, context| {
                expired.revoked += state.leases.expire(context);
                let over = state.opens.iter().filter(|(_, open)| open.aside.is_some_and(|aside| aside.deadline <= now));
                let over: Vec<(u32, OpenId)> = over.map(|(place, open)| (place, open.id)).collect();
                for (place, open) in over {
                    state.evict(place, context);
                    expired.closed.push((file, open));
                }
                expired.deletions.extend(state.last_close(&seat));
                context.timed = true;
            });
        }
        expired
    }

    /// When [`Table::expire`] has something to do next.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.common.next_deadline()
    }
}

impl FileState {
    fn restore(&mut self, entry: &Arc<FileSeat>, restored: &Restored, context: &mut Context) -> Result<Seat, Error> {
        let (request, id, file) = (&restored.request, restored.open, context.file);
        if self.shares.conflict(request.access, request.share) || context.common.kept(id).is_some() {
            return Err(Error::Sharing { file, by: id });
        }
        let lease = request.lease.map(|lease| LeaseKey {
            client: request.client,
            name: lease.key.map_or(LeaseName::Open(id), LeaseName::Key),
        });
        // What it holds is what the record says, instead of what it would be granted.
        let named = request.lease.map(|lease| LeaseRequest { wanted: Caching::NONE, ..lease });
        let opened = self.seat_open(entry, &OpenRequest { lease: named, ..request.clone() }, id, lease, context)?;
        if let Some(key) = lease {
            let is_alone = self.leases.held_by_others(key) == 0;
            let fits = (is_alone || !restored.caching.has(Caching::WRITE)) && !self.leases.written_by_others(key);
            // All records of a lease say the same of it, so the first one counts.
            self.leases.change(key, |lease| {
                if lease.users.opens == 1 {
                    lease.held = if fits { lease.kind.most(restored.caching) } else { Caching::NONE };
                    lease.epoch = restored.epoch;
                }
            });
        }
        if let Err(error) = self.restore_locks(restored, context) {
            // A record that is refused deletes nothing.
            if let Some(open) = self.opens.get_mut(opened.seat.place, id) {
                open.on_close = None;
            }
            self.remove_open(opened.seat.place, context);
            return Err(error);
        }
        Ok(opened.seat)
    }

    fn restore_locks(&mut self, restored: &Restored, context: &Context) -> Result<(), Error> {
        let (common, file) = (context.common, context.file);
        let holder = Holder { kind: LockKind::Nt, owner: LockOwner::Open(restored.open) };
        for (range, exclusive) in &restored.locks {
            let wanted = Wanted { holder, range: *range, exclusive: *exclusive };
            let locks = self.locks.get_or_insert_default();
            if let Some(held) = locks.conflict(&wanted) {
                return Err(Error::Locked { file, held: Box::new(held) });
            }
            let taken = locks.take(&wanted, context.now, &common.settings, &common.budgets.ranges);
            taken.map_err(|limit| Error::Limit { file, limit })?;
        }
        Ok(())
    }
}
