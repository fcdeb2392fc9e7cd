//! Requests pass the table of opens: before they act, and before they are answered.
//!
//! ```text
//!   open file     its seat ── before ──▶ service ── after ──▶ answer
//!   by a name     a seat for as long as the request
//! ```
//!
//! What nobody else has open costs a few loads and locks that nobody else asks for. Only what has to wait takes memory of
//! its own.
//!
//! Invariant: no data and no name changes before those who cache it gave that back, and no change is answered before those
//! who began to cache it meanwhile were told.

use std::task::Poll;
use std::time::Duration;

use holdfast_opens::{Access, Act, ByteRange, Error, OpenRequest, Opening, Seat, Table, Waiting};
use holdfast_volume::service::{FileId, FileService};

use crate::answer::Errno;
use crate::connection::Channel;
use crate::protocol::constants::EINVAL;
use crate::protocol::request::Header;
use crate::waits::first;

/// The bytes that a request is about.
pub(super) fn bytes(offset: u64, len: u64) -> Result<ByteRange, Errno> {
    ByteRange::new(offset, len).map_err(|_| Errno(EINVAL))
}

impl<S: FileService> Channel<S> {
    pub(crate) fn table(&self) -> &Table {
        self.connection.client.opens.table()
    }

    pub(super) fn now(&self) -> Duration {
        self.counters.clock.now()
    }

    /// Registers an open, once nobody is in its way.
    pub(super) async fn seat(
        &self,
        header: &Header,
        file: FileId,
        access: Access,
        overwrites: bool,
    ) -> Result<Seat, Errno> {
        let request = self.connection.client.request(file, access, overwrites);
        let (mut waiting, waker) = first();
        match self.table().poll_open(&request, &mut waiting, self.now(), waker) {
            Poll::Ready(Ok(Opening::Opened(opened))) => Ok(opened.seat),
            Poll::Ready(Err(error)) => Err(error.into()),
            other => Box::pin(self.seat_later(header.unique, request, waiting, other)).await,
        }
    }

    async fn seat_later(
        &self,
        unique: u64,
        request: OpenRequest,
        mut waiting: Waiting,
        mut polled: Poll<Result<Opening, Error>>,
    ) -> Result<Seat, Errno> {
        loop {
            let opening = match polled {
                Poll::Ready(opening) => opening,
                Poll::Pending => {
                    let ask = |now, waker: &_| self.table().poll_open(&request, &mut waiting, now, waker);
                    self.wait(Some(unique), ask).await?
                }
            };
            match opening? {
                Opening::Opened(opened) => return Ok(opened.seat),
                Opening::DeleteFirst(deletion) => self.connection.carry_out(deletion).await,
            }
            polled = Poll::Pending;
        }
    }

    /// Gives a seat back. The last one of a file that goes has it deleted.
    pub(crate) async fn unseat(&self, seat: &Seat) {
        // Somebody else may have closed it, which is no worry of a program that closes it too.
        if let Ok(Some(deletion)) = self.table().close(seat, self.now()) {
            Box::pin(self.connection.carry_out(deletion)).await;
        }
    }

    /// Before an act by a seat. A signal ends the wait for those who cache the file where the number of the request is
    /// given.
    pub(super) async fn before(&self, unique: Option<u64>, seat: &Seat, act: Act, now: Duration) -> Result<(), Errno> {
        let (waiting, waker) = first();
        let mut waiting = waiting;
        match self.table().poll_begin(seat, act, &mut waiting, now, waker) {
            Poll::Ready(answer) => Ok(answer?),
            Poll::Pending => Box::pin(self.before_later(unique, seat, act, waiting)).await,
        }
    }

    async fn before_later(
        &self,
        unique: Option<u64>,
        seat: &Seat,
        act: Act,
        mut waiting: Waiting,
    ) -> Result<(), Errno> {
        let ask = |now, waker: &_| self.table().poll_begin(seat, act, &mut waiting, now, waker);
        Ok(self.wait(unique, ask).await??)
    }

    /// After an act, however it ended.
    pub(super) async fn after(&self, seat: &Seat, act: Act, now: Duration) {
        let (mut waiting, waker) = first();
        if self.table().poll_end(seat, act, &mut waiting, now, waker).is_pending() {
            Box::pin(self.after_later(seat, act, waiting)).await;
        }
    }

    async fn after_later(&self, seat: &Seat, act: Act, mut waiting: Waiting) {
        let ask = |now, waker: &_| self.table().poll_end(seat, act, &mut waiting, now, waker);
        // It ends early with the mount only, and then nobody is answered.
        let _ = self.wait(None, ask).await;
    }

    /// After names in a directory changed.
    pub(super) async fn changed(&self, dir: FileId) {
        let key = self.connection.client.opens.key(dir);
        let (mut waiting, waker) = first();
        if self.table().poll_changed(key, None, &mut waiting, self.now(), waker).is_pending() {
            let ask = move |now, waker: &_| self.table().poll_changed(key, None, &mut waiting, now, waker);
            let _ = Box::pin(self.wait(None, ask)).await;
        }
    }

    /// Before an act on a file that is not open for it: a seat for as long as it takes.
    pub(super) async fn pass(&self, header: &Header, file: FileId, access: Access, act: Act) -> Result<Seat, Errno> {
        let seat = self.seat(header, file, access, false).await?;
        match self.before(Some(header.unique), &seat, act, self.now()).await {
            Ok(()) => Ok(seat),
            Err(refused) => {
                self.unseat(&seat).await;
                Err(refused)
            }
        }
    }

    /// After such an act, however it ended.
    pub(super) async fn passed(&self, seat: &Seat, act: Act) {
        self.after(seat, act, self.now()).await;
        self.unseat(seat).await;
    }
}
