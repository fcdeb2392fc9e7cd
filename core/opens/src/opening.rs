//! Opening a file: what excludes it, whom it takes caches from, and what it may cache itself.
//!
//! Invariant: an open that is seated excludes no other that is, but where it ignores denials; nothing that its data needs
//! is held back by another's write cache.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::access::{Access, exclude};
use crate::caching::{Caching, LeaseKind};
use crate::closing::Deletion;
use crate::effects::{Context, Recall};
use crate::error::{Error, Limit};
use crate::key::{ClientId, FileKey, OpenId};
use crate::leases::{LeaseKey, LeaseName, Toll};
use crate::open::{Link, Open};
use crate::seat::{FileSeat, FileState, Waiting};
use crate::settings::MAX_LINK_BYTES;
use crate::table::{Seat, Table};

/// A lease that is asked for, or only named.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRequest {
    /// The key that the client's opens share; none for an oplock.
    pub key: Option<u128>,
    /// Its kind.
    pub kind: LeaseKind,
    /// What the client wants to cache. With none, the open only belongs to those under the key.
    pub wanted: Caching,
    /// The key of the client's lease of the directory that the file is in (MS-SMB2 2.2.13.2.10).
    pub parent: Option<u128>,
}

/// What is to be opened, and how.
#[derive(Clone)]
pub struct OpenRequest {
    /// The file.
    pub file: FileKey,
    /// Who asks.
    pub client: ClientId,
    /// Its protocol, for people.
    pub protocol: &'static str,
    /// What for.
    pub access: Access,
    /// What others may do beside it.
    pub share: Access,
    /// Whether it is let in although others deny it: programs of POSIX do not expect to be kept out.
    pub ignores_denials: bool,
    /// Whether what it denies is denied also to those who ignore denials, and nobody is to cache the file meanwhile: it is a
    /// disk, whose data only its user understands.
    pub excludes_all: bool,
    /// Whether all data goes (`O_TRUNC`, `FILE_OVERWRITE`, `FILE_SUPERSEDE`).
    pub overwrites: bool,
    /// The file goes when this open is closed, by this name.
    pub delete_on_close: Option<Link>,
    /// What it would cache.
    pub lease: Option<LeaseRequest>,
    /// Whether it waits for clients that may come back, instead of being told.
    pub waits_for_kept: bool,
    /// Whom to tell of breaks.
    pub recall: Arc<dyn Recall>,
}

/// What an open was granted.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Its place in the table.
    pub seat: Seat,
    /// What its lease holds now.
    pub caching: Caching,
    /// The epoch of its lease.
    pub epoch: u16,
    /// Whether its lease is being broken, so that nothing was added to it (`SMB2_LEASE_FLAG_BREAK_IN_PROGRESS`).
    pub is_breaking: bool,
}

/// How asking for an open ended.
#[derive(Debug)]
pub enum Opening {
    /// It is open.
    Opened(Opened),
    /// The last open that stood in the way was ended and leaves the file to be deleted: do that, then ask again.
    DeleteFirst(Deletion),
}

/// How one attempt ended.
enum Attempt {
    Done(Opening),
    Wait,
    Dead,
}

impl Table {
    /// Opens a file: once nothing is in the way, breaks were answered or ran out of time, and the breaks that the open
    /// causes are sent. Pending, it wakes `waker`, and is to be asked again with the same `waiting`. What was granted to others
    /// before the data of an open that overwrites is gone is broken by [`Table::poll_end`] of that act.
    ///
    /// # Errors
    /// [`Error::Sharing`], [`Error::DeletePending`], [`Error::NotYet`], [`Error::Rights`] for a deletion on close by an
    /// open that has no right to delete, [`Error::Limit`].
    pub fn poll_open(
        &self,
        request: &OpenRequest,
        waiting: &mut Waiting,
        now: Duration,
        waker: &Waker,
    ) -> Poll<Result<Opening, Error>> {
        loop {
            let (seat, id) = self.seat_of(request.file)?;
            let attempt = self.act(&seat, now, |state, context| {
                let attempt = state.open(&seat, request, id, context)?;
                if matches!(attempt, Attempt::Wait) {
                    waiting.register(&seat, state, context, waker, false)?;
                }
                Ok(attempt)
            });
            return match attempt? {
                Attempt::Done(opening) => Poll::Ready(Ok(opening)),
                Attempt::Wait => Poll::Pending,
                Attempt::Dead => continue,
            };
        }
    }
}

impl FileState {
    fn open(
        &mut self,
        seat: &Arc<FileSeat>,
        request: &OpenRequest,
        id: OpenId,
        context: &mut Context,
    ) -> Result<Attempt, Error> {
        if self.dead {
            return Ok(Attempt::Dead);
        }
        let file = seat.key;
        if request.delete_on_close.is_some() && !request.access.has(Access::DELETE) {
            return Err(Error::Rights { file, open: id });
        }
        if request.delete_on_close.as_ref().is_some_and(|link| link.len() > MAX_LINK_BYTES) {
            return Err(Error::Limit { file, limit: Limit::Link });
        }
        self.leases.expire(context);
        let lease = request.lease.map(|lease| {
            let name = lease.key.map_or(LeaseName::Open(id), LeaseName::Key);
            LeaseKey { client: request.client, name }
        });
        // Each turn after the first ends opens that were put aside.
        loop {
            if let Some(deletion) = self.last_close(seat) {
                return Ok(Attempt::Done(Opening::DeleteFirst(deletion)));
            }
            if self.pending.is_some() {
                return Err(Error::DeletePending { file });
            }
            let before = self.opens.len();
            if let Some(attempt) = self.make_way(request, lease, context)? {
                return Ok(attempt);
            }
            if self.opens.len() == before {
                break;
            }
        }
        let seated = self.seat_open(seat, request, id, lease, context)?;
        Ok(Attempt::Done(Opening::Opened(seated)))
    }

    /// Deals with those in the way of an open: ends what is put aside and does not stick, breaks what others cache.
    fn make_way(
        &mut self,
        request: &OpenRequest,
        lease: Option<LeaseKey>,
        context: &mut Context,
    ) -> Result<Option<Attempt>, Error> {
        let (file, mode) = (context.file, (request.access, request.share));
        let not_yet = |by: OpenId| match request.waits_for_kept {
            true => Ok(Some(Attempt::Wait)),
            false => Err(Error::NotYet { file, by }),
        };
        let is_minded = |open: &Open| !request.ignores_denials || open.excludes_all;
        let conflicts = self.shares.conflict(request.access, request.share);
        if conflicts && (!request.ignores_denials || self.opens.excluding() > 0) {
            let rivals = self.opens.iter().filter(|(_, open)| exclude(mode, (open.access, open.share)));
            let rivals = rivals.filter(|(_, open)| is_minded(open));
            let (mut ended, mut kept, mut by) = (Vec::new(), None, None);
            for (place, open) in rivals {
                match open.aside {
                    Some(aside) if !aside.sticky => ended.push(place),
                    Some(_) => kept = Some(open.id),
                    None => by = Some(open.id),
                }
            }
            if !ended.is_empty() {
                ended.into_iter().for_each(|place| self.evict(place, context));
                return Ok(None);
            }
            if let Some(kept) = kept {
                return not_yet(kept);
            }
            if let Some(by) = by {
                let contended = self.leases.contend(&Toll::EXCLUDED, lease, context);
                if self.purge(&contended.purge, context) {
                    return Ok(None);
                }
                return if contended.must_wait { Ok(Some(Attempt::Wait)) } else { Err(Error::Sharing { file, by }) };
            }
            assert!(request.ignores_denials, "the counts are those of the opens");
        }
        let toll = match (request.overwrites, request.access) {
            (true, _) => Toll::OVERWRITE,
            (false, access) if access.is_none() => return Ok(None),
            (false, access) if access.has(Access::WRITE) => Toll::OPEN_TO_WRITE,
            _ => Toll::OPEN,
        };
        let contended = self.leases.contend(&toll, lease, context);
        if self.purge(&contended.purge, context) {
            return Ok(None);
        }
        if let Some(kept) = contended.kept {
            let by = self.opens.iter().find(|(_, open)| open.lease == Some(kept));
            return not_yet(by.expect("a lease has opens").1.id);
        }
        Ok(contended.must_wait.then_some(Attempt::Wait))
    }

    /// Gives an open that nothing is in the way of its place.
    pub(crate) fn seat_open(
        &mut self,
        seat: &Arc<FileSeat>,
        request: &OpenRequest,
        id: OpenId,
        lease: Option<LeaseKey>,
        context: &Context,
    ) -> Result<Opened, Error> {
        let (common, now) = (context.common, context.now);
        let limited = |limit| Error::Limit { file: seat.key, limit };
        if self.opens.len() >= common.settings.opens_of_file {
            return Err(limited(Limit::OpensOfFile));
        }
        common.budgets.opens.take(1).map_err(limited)?;
        // Where there are as many leases as there may be, the open goes without.
        let lease = lease.zip(request.lease).filter(|(key, wanted)| {
            let is_known = self.leases.get(*key).is_some();
            let has_room = is_known || common.budgets.leases.take(1).is_ok();
            if has_room && !is_known {
                self.leases.add(*key, wanted.kind, wanted.parent, request.recall.clone(), now);
            }
            has_room
        });
        let open = Open {
            id,
            client: request.client,
            protocol: request.protocol,
            access: request.access,
            share: request.share,
            excludes_all: request.excludes_all,
            lease: lease.map(|(key, _)| key),
            on_close: request.delete_on_close.clone(),
            recall: request.recall.clone(),
            since: now,
            aside: None,
        };
        self.shares.add(open.access, open.share);
        let granted = lease.and_then(|(key, wanted)| {
            self.leases.change(key, |lease| {
                lease.users.step(&open, |count| *count += 1);
                // Its newest open knows the way to the client.
                lease.recall = request.recall.clone();
            });
            self.grant(key, &wanted, now)
        });
        let place = self.opens.add(open);
        let (caching, epoch, is_breaking, lease) = granted.unwrap_or_default();
        let seat = Seat { file: seat.clone(), place, open: id, lease, access: request.access };
        Ok(Opened { seat, caching, epoch, is_breaking })
    }

    /// Grants a lease as much of what is wanted as goes beside others (MS-FSA 2.1.5.18). Answers with what it holds, its
    /// epoch, whether it is being broken, and its number.
    fn grant(&mut self, key: LeaseKey, request: &LeaseRequest, now: Duration) -> Option<(Caching, u16, bool, u32)> {
        let lease = self.leases.get(key)?;
        let (kind, held, users) = (lease.kind, lease.held, lease.users);
        let wanted = kind.most(request.wanted);
        let is_alone = self.shares.data_opens == users.data && self.leases.held_by_others(key) == 0;
        let granted = match kind {
            _ if is_alone => wanted,
            LeaseKind::Lease | LeaseKind::DirectoryLease => wanted.without(Caching::WRITE),
            LeaseKind::Oplock | LeaseKind::Delegation => wanted.common(Caching::READ),
        };
        let others_write = kind == LeaseKind::Delegation && self.shares.writers() > users.writing;
        // Who reads from its cache does not ask whether a range is locked.
        let is_locked = self.locks.as_ref().is_some_and(|locks| locks.is_asked_for());
        let is_refused = self.leases.written_by_others(key)
            || others_write
            || (is_locked && !granted.has(Caching::WRITE))
            || self.pending.is_some();
        let granted = if is_refused { Caching::NONE } else { granted };
        let rises = lease.breaking.is_none() && granted.has(held) && granted != held;
        self.leases.change(key, |lease| {
            if rises {
                lease.held = granted;
                lease.epoch = lease.epoch.wrapping_add(1);
                lease.since = now;
            }
            (lease.held, lease.epoch, lease.breaking.is_some(), lease.number)
        })
    }
}
