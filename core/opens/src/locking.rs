//! Locks of byte ranges, asked for, waited for and let go of.
//!
//! Invariant: a lock is granted only when nothing is in its way, and after those who cache the file were told.

use std::task::{Poll, Waker};
use std::time::Duration;

use crate::effects::held;
use crate::error::Error;
use crate::key::Owner;
use crate::leases::Toll;
use crate::locks::{Holder, LockInfo, LockKind, LockOwner, Wanted};
use crate::queue::WaitingLock;
use crate::range::ByteRange;
use crate::seat::Waiting;
use crate::table::{Seat, Table};

/// In whose name a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockBy {
    /// The open, by NT's rules.
    Nt,
    /// An owner of POSIX at the open's client.
    Posix(u128),
    /// The open, by the rules of POSIX.
    Ofd,
    /// The open, and the whole file.
    Flock,
}

/// A lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// In whose name.
    pub by: LockBy,
    /// What is locked; of no matter to `flock`.
    pub range: ByteRange,
    /// Whether it excludes readers too.
    pub exclusive: bool,
}

impl Table {
    /// Locks a range; ready when it is locked, or refused. With `blocking` it waits for those who are in the way, in the
    /// order of asking; without, it waits for breaks only. An owner of POSIX that locks what it has locked changes the
    /// mode; so does an open with `flock`, which loses the old lock as soon as it waits for the new one (flock(2)).
    ///
    /// # Errors
    /// [`Error::Locked`] without `blocking`, [`Error::Deadlock`] for POSIX owners with it, [`Error::Range`] for empty
    /// ranges of POSIX, [`Error::NoOpen`], [`Error::Cancelled`] if the open is closed meanwhile, [`Error::Limit`].
    pub fn poll_lock(
        &self,
        seat: &Seat,
        request: &LockRequest,
        blocking: bool,
        waiting: &mut Waiting,
        now: Duration,
        waker: &Waker,
    ) -> Poll<Result<(), Error>> {
        let file = seat.file.key;
        self.act(&seat.file, now, |state, context| {
            if waiting.is_queued {
                let locks = state.locks.as_mut();
                let answer = locks.and_then(|locks| locks.poll_wait(waiting.id(), waker));
                return match answer.unwrap_or(Some(Err(Error::Cancelled { file }))) {
                    None => Poll::Pending,
                    Some(answer) => {
                        waiting.is_queued = false;
                        Poll::Ready(answer)
                    }
                };
            }
            let Some(open) = state.opens.get(seat.place, seat.open) else { return Poll::Ready(Err(seat.gone())) };
            let (by, wanted) = (open.lease, wanted_of(seat, open.client, request)?);
            // Who asks through a cache would not see the lock.
            let must_wait = state.take_toll(&Toll::CHANGE, by, context);
            if must_wait || state.last_unsent().is_some() {
                waiting.register(&seat.file, state, context, waker, !must_wait)?;
                return Poll::Pending;
            }
            let locks = state.locks.get_or_insert_default();
            let (settings, budget) = (&self.common.settings, &self.common.budgets.ranges);
            let Some(conflict) = locks.conflict(&wanted) else {
                context.relocked = true;
                let taken = locks.take(&wanted, now, settings, budget);
                return Poll::Ready(taken.map_err(|limit| Error::Limit { file, limit }));
            };
            if !blocking {
                return Poll::Ready(Err(Error::Locked { file, held: Box::new(conflict) }));
            }
            let id = waiting.begin(&seat.file, context);
            let graph = self.common.graph.clone();
            let queued = WaitingLock { id, open: seat.open, wanted, waker: waker.clone(), graph, answer: None };
            locks.enqueue(queued, context)?;
            waiting.is_queued = true;
            if request.by == LockBy::Flock && locks.unlock_whole(seat.open, budget) {
                context.relocked = true;
            }
            Poll::Pending
        })
    }

    /// Unlocks: NT a range as it was locked, POSIX and OFD any part, `flock` the whole.
    ///
    /// # Errors
    /// [`Error::NotLocked`] where NT has no such lock; [`Error::NoOpen`], [`Error::Range`], [`Error::Limit`] if a range
    /// falls into two and there are as many as there may be.
    pub fn unlock(&self, seat: &Seat, by: LockBy, range: ByteRange, now: Duration) -> Result<(), Error> {
        let file = seat.file.key;
        self.act(&seat.file, now, |state, context| {
            let open = state.opens.get(seat.place, seat.open).ok_or_else(|| seat.gone())?;
            let wanted = wanted_of(seat, open.client, &LockRequest { by, range, exclusive: false })?;
            let budget = &self.common.budgets.ranges;
            let not_locked = Error::NotLocked { file, range: (range.start(), range.len()) };
            let Some(locks) = state.locks.as_mut() else {
                return if by == LockBy::Nt { Err(not_locked) } else { Ok(()) };
            };
            context.relocked = true;
            match by {
                LockBy::Nt if !locks.unlock_exact(wanted.holder, range, budget) => Err(not_locked),
                LockBy::Nt => Ok(()),
                LockBy::Flock => {
                    locks.unlock_whole(seat.open, budget);
                    Ok(())
                }
                LockBy::Posix(_) | LockBy::Ofd => {
                    let freed = locks.replace(wanted.holder, range, None, now, &self.common.settings, budget);
                    freed.map_err(|limit| Error::Limit { file, limit })
                }
            }
        })
    }

    /// Lets go of all that an owner of POSIX has locked in the file, as when a process closes any of its handles of it.
    ///
    /// # Errors
    /// [`Error::NoOpen`].
    pub fn unlock_owner(&self, seat: &Seat, key: u128, now: Duration) -> Result<(), Error> {
        self.act(&seat.file, now, |state, context| {
            let open = state.opens.get(seat.place, seat.open).ok_or_else(|| seat.gone())?;
            let owner = LockOwner::Posix(Owner { client: open.client, key });
            if let Some(locks) = state.locks.as_mut() {
                locks.release(Holder { kind: LockKind::Posix, owner }, &self.common.budgets.ranges);
                context.relocked = true;
            }
            Ok(())
        })
    }

    /// What would be in the way of a lock (`F_GETLK`, NFSv4 `LOCKT`).
    ///
    /// # Errors
    /// [`Error::NoOpen`], [`Error::Range`].
    pub fn test_lock(&self, seat: &Seat, request: &LockRequest) -> Result<Option<LockInfo>, Error> {
        let state = held(&seat.file.state);
        let open = state.opens.get(seat.place, seat.open).ok_or_else(|| seat.gone())?;
        let wanted = wanted_of(seat, open.client, request)?;
        Ok(state.locks.as_ref().and_then(|locks| locks.conflict(&wanted)))
    }

    /// Gives up to wait. Answers what became of the lock: none if it was not granted, else how it was.
    pub fn cancel(&self, seat: &Seat, waiting: &mut Waiting, now: Duration) -> Option<Result<(), Error>> {
        if !std::mem::take(&mut waiting.is_queued) {
            return None;
        }
        let gone = self.act(&seat.file, now, |state, _| state.locks.as_mut()?.forget_wait(waiting.id()));
        gone.and_then(|gone| gone.answer)
    }
}

fn wanted_of(seat: &Seat, client: crate::key::ClientId, request: &LockRequest) -> Result<Wanted, Error> {
    let of_open = LockOwner::Open(seat.open);
    let (kind, owner) = match request.by {
        LockBy::Nt => (LockKind::Nt, of_open),
        LockBy::Ofd => (LockKind::Ofd, of_open),
        LockBy::Flock => (LockKind::Flock, of_open),
        LockBy::Posix(key) => (LockKind::Posix, LockOwner::Posix(Owner { client, key })),
    };
    let range = if kind == LockKind::Flock { ByteRange::WHOLE } else { request.range };
    // POSIX has no empty ranges, and none beyond the largest offset.
    let fits = ByteRange::inclusive(range.start(), range.last()).is_ok();
    if matches!(kind, LockKind::Posix | LockKind::Ofd) && !fits {
        return Err(Error::Range { start: range.start(), len: range.len() });
    }
    Ok(Wanted { holder: Holder { kind, owner }, range, exclusive: request.exclusive })
}
