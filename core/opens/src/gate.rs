//! Before and after I/O: check, do, check again, break what appeared meanwhile, reply.
//!
//! ```text
//!   poll_begin ─▶ I/O, without any lock ─▶ poll_end ─▶ reply
//!       │ one load of the summary              │ a fence and one load
//!       └─ leases of others: broken, waited for when they hold what the act needs; ranges of NT: checked
//!                                              └─ leases that appeared: broken; breaks of others: sent
//! ```
//!
//! A range that is locked while a request is on its way does not stop it any more.
//!
//! Invariant: when an act's `poll_end` is ready, every lease that may hold what was there before the act was broken, and
//! its break was sent.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::effects::Context;
use crate::error::Error;
use crate::key::FileKey;
use crate::leases::{LeaseKey, Toll};
use crate::range::ByteRange;
use crate::seat::{FileSeat, FileState, Waiting};
use crate::summary::Summary;
use crate::table::{Seat, Table};

/// What is done through an open. Protocols with mandatory locks name the range; for others, locks are advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Data is read.
    Read(Option<ByteRange>),
    /// Data or the length changes.
    Write(Option<ByteRange>),
    /// A program of POSIX reads. Locks of its kind are advice to it; those of NT are not.
    PosixRead(ByteRange),
    /// A program of POSIX writes, likewise.
    PosixWrite(ByteRange),
    /// A name changes, or one is added.
    Rename,
    /// It is marked to be deleted, or a name is taken away.
    Delete,
}

impl Act {
    fn toll(self) -> &'static Toll {
        match self {
            Self::Read(_) | Self::PosixRead(_) => &Toll::READ,
            Self::Write(_) | Self::PosixWrite(_) => &Toll::CHANGE,
            Self::Rename | Self::Delete => &Toll::NAME,
        }
    }

    /// The range to be checked, and whether it is written.
    fn range(self) -> Option<(ByteRange, bool)> {
        match self {
            Self::Read(range) => range.map(|range| (range, false)),
            Self::Write(range) => range.map(|range| (range, true)),
            Self::PosixRead(range) => Some((range, false)),
            Self::PosixWrite(range) => Some((range, true)),
            Self::Rename | Self::Delete => None,
        }
    }

    /// Whether only locks of NT are in its way.
    fn is_posix(self) -> bool {
        matches!(self, Self::PosixRead(_) | Self::PosixWrite(_))
    }

    /// Which locks have the range be checked.
    fn minds(self) -> Summary {
        if self.is_posix() { Summary::MANDATORY } else { Summary::RANGES }
    }

    /// What another's lease must hold to be in the way.
    fn met(self) -> Summary {
        match self {
            Self::Read(_) | Self::PosixRead(_) => Summary::WRITE,
            // A delegation has no handle, and is given back for a name all the same.
            Self::Write(_) | Self::PosixWrite(_) | Self::Rename | Self::Delete => Summary::READ,
        }
    }
}

impl Table {
    /// Before an act: ready once no other's cache holds what the act needs. Leases that it takes from others without
    /// waiting are broken already.
    ///
    /// # Errors
    /// [`Error::Locked`] if the range is locked by somebody else; [`Error::NoOpen`] if the open was closed by somebody
    /// else; [`Error::Limit`] if too many wait.
    pub fn poll_begin(
        &self,
        seat: &Seat,
        act: Act,
        waiting: &mut Waiting,
        now: Duration,
        waker: &Waker,
    ) -> Poll<Result<(), Error>> {
        let summary = seat.file.summary();
        let locked = act.range().is_some() && summary.any(act.minds());
        if !locked && !summary.any(Summary::EVICTED.or(Summary::DEAD)) && !summary.others_hold(act.met(), seat.lease) {
            return Poll::Ready(Ok(()));
        }
        self.act(&seat.file, now, |state, context| {
            let open = state.opens.get(seat.place, seat.open).ok_or_else(|| seat.gone())?;
            let by = open.lease;
            if let Some((range, write)) = act.range()
                && let Some(held) =
                    state.locks.as_ref().and_then(|locks| locks.bars(seat.open, range, write, act.is_posix()))
            {
                return Err(Error::Locked { file: seat.file.key, held: Box::new(held) });
            }
            let must_wait = state.take_toll(act.toll(), by, context);
            if must_wait {
                waiting.register(&seat.file, state, context, waker, false)?;
            }
            Ok(must_wait)
        })
        .map_or_else(|error| Poll::Ready(Err(error)), |waits| if waits { Poll::Pending } else { Poll::Ready(Ok(())) })
    }

    /// After an act, before its reply: ready once all breaks that it has to cause are sent. Pending, it is to be asked
    /// again with the same `waiting`, which must be one of its own.
    pub fn poll_end(&self, seat: &Seat, act: Act, waiting: &mut Waiting, now: Duration, waker: &Waker) -> Poll<()> {
        if matches!(act, Act::Read(_) | Act::PosixRead(_)) {
            return Poll::Ready(());
        }
        let summary = seat.file.summary_after();
        if summary.any(Summary::DEAD) {
            // Its open was closed by somebody else, and the file may have been opened anew since.
            return self.poll_end_of(seat.file(), act.toll(), None, waiting, now, waker);
        }
        if !summary.others_hold(act.met(), seat.lease) && !summary.any(Summary::UNSENT) {
            waiting.mark = None;
            return Poll::Ready(());
        }
        self.act(&seat.file, now, |state, context| {
            let by = state.opens.get(seat.place, seat.open).and_then(|open| open.lease);
            state.end(act.toll(), by, &seat.file, waiting, context, waker)
        })
    }

    /// After entries of a directory changed, before the reply: breaks leases of the directory but that of the client under
    /// the parent key, and is ready once the breaks are sent (MS-SMB2 3.3.1.4).
    pub fn poll_changed(
        &self,
        directory: FileKey,
        by: Option<LeaseKey>,
        waiting: &mut Waiting,
        now: Duration,
        waker: &Waker,
    ) -> Poll<()> {
        self.poll_end_of(directory, &Toll::ENTRIES, by, waiting, now, waker)
    }

    /// The end of an act on a file that the actor need not have open.
    fn poll_end_of(
        &self,
        file: FileKey,
        toll: &Toll,
        by: Option<LeaseKey>,
        waiting: &mut Waiting,
        now: Duration,
        waker: &Waker,
    ) -> Poll<()> {
        let seat = self.find(file).filter(|seat| seat.summary_after().any(Summary::READ.or(Summary::UNSENT)));
        let Some(seat) = seat else {
            waiting.mark = None;
            return Poll::Ready(());
        };
        self.act(&seat, now, |state, context| state.end(toll, by, &seat, waiting, context, waker))
    }
}

impl FileState {
    /// Takes an act's toll from the leases of others, and ends opens that were put aside and cannot answer. Answers
    /// whether the act has to wait.
    pub(crate) fn take_toll(&mut self, toll: &Toll, by: Option<LeaseKey>, context: &mut Context) -> bool {
        self.leases.expire(context);
        let contended = self.leases.contend(toll, by, context);
        self.purge(&contended.purge, context);
        contended.must_wait || contended.kept.is_some()
    }

    fn end(
        &mut self,
        toll: &Toll,
        by: Option<LeaseKey>,
        seat: &Arc<FileSeat>,
        waiting: &mut Waiting,
        context: &mut Context,
        waker: &Waker,
    ) -> Poll<()> {
        let mark = match waiting.mark {
            Some(mark) => mark,
            None => {
                self.take_toll(toll, by, context);
                let Some(mark) = self.last_unsent() else { return Poll::Ready(()) };
                mark
            }
        };
        if self.is_sent(mark) {
            waiting.mark = None;
            return Poll::Ready(());
        }
        waiting.mark = Some(mark);
        // No reply may be given before its breaks are sent: there is no limit to these waits but that of requests.
        waiting.register_always(seat, self, context, waker, true);
        Poll::Pending
    }
}
