//! Answers: into the queue, and out of it.
//!
//! ```text
//!   answer ─▶ out ── flush: one system call ──▶ gone
//!                        └─ socket full ─▶ stuck ─▶ writer ─▶ gone
//! ```
//!
//! Invariant: whoever holds the sender sends alone, and a stuck run leaves before any later one.

use std::io::{self, IoSlice};
use std::rc::Rc;

use holdfast_device::IoBuf;

use super::serve::Refusal;
use super::{Connection, OpenRequest};
use crate::outbound::{Outbound, PIECES_AT_ONCE};
use crate::protocol::reply;

/// Replies are sent when they carry, or answer for, so many bytes of payload, even in the middle of a batch: the client
/// makes its next requests while the rest is served.
const FLUSH_BYTES: u64 = 16 << 10;
/// A queue that once held more than this gives its memory back.
const KEPT_HEAD_BYTES: usize = 256 << 10;

impl Connection {
    /// Bytes of replies that wait to be sent, not counting those that the writer has in hand.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.out.borrow().bytes()
    }

    /// Replies that wait to be sent, as above.
    pub(super) fn waiting_replies(&self) -> u32 {
        self.out.borrow().requests
    }

    /// Success without data.
    pub(super) fn done(&self, open: OpenRequest) {
        self.answer(open, |out| out.head(|heads| reply::done(heads, self.style, &open.request)));
    }

    /// `len` bytes of `buf` from `at`, as all that was read.
    pub(super) fn data(&self, open: OpenRequest, buf: IoBuf, at: usize, len: usize) {
        self.tracked.add_bytes(len as u64);
        self.answer(open, |out| {
            out.head(|heads| reply::data(heads, self.style, &open.request, open.request.offset, len as u64, true));
            out.data(buf, at, len);
        });
    }

    /// Failure.
    pub(super) fn refuse(&self, open: OpenRequest, refusal: Refusal) {
        self.answer(open, |out| {
            out.head(|heads| reply::failed(heads, self.style, &open.request, refusal.errno, &refusal.text));
        });
    }

    /// Puts one whole reply into the queue.
    pub(super) fn answer(&self, open: OpenRequest, encode: impl FnOnce(&mut Outbound)) {
        {
            let mut out = self.out.borrow_mut();
            encode(&mut out);
            out.requests += 1;
            out.held_bytes += open.held_bytes;
        }
        let unanswered = self.unanswered.get() - 1;
        self.unanswered.set(unanswered);
        if unanswered == 0 {
            self.answered_bell.ring();
        }
        if self.serving.get() {
            return;
        }
        if unanswered == 0 {
            // Nobody else is about to answer: nothing to wait for.
            self.flush();
        } else {
            self.writer_bell.ring();
        }
    }

    /// Sends what waits where it carries, or answers for, much payload.
    pub(super) fn flush_if_due(&self) {
        let answered_bytes = self.out.borrow().held_bytes;
        if answered_bytes >= FLUSH_BYTES {
            self.flush();
        }
    }

    /// Sends what waits, as far as the socket takes it; the writer does the rest.
    pub(super) fn flush(&self) {
        if self.writer_busy.get() || self.out.borrow().is_empty() {
            return;
        }
        let Some(mut sender) = self.sender.take() else { return };
        let mut run = self.take_run();
        loop {
            let mut slices = [IoSlice::new(&[]); PIECES_AT_ONCE];
            let count = run.slices(&mut slices);
            match sender.try_send_vectored(&slices[..count]) {
                Ok(sent) => run.sent(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stuck.set(Some(run));
                    self.writer_busy.set(true);
                    self.writer_bell.ring();
                    break;
                }
                Err(error) => {
                    self.fail(&error);
                    self.recycle(run);
                    break;
                }
            }
            if run.is_empty() {
                self.recycle(run);
                break;
            }
        }
        self.sender.set(Some(sender));
    }

    fn take_run(&self) -> Outbound {
        self.out.replace(self.spare.take().unwrap_or_default())
    }

    /// A run has left, or will never.
    fn recycle(&self, mut run: Outbound) {
        let (requests, held_bytes) = (run.requests, run.held_bytes);
        run.clear();
        if run.head_capacity() <= KEPT_HEAD_BYTES {
            self.spare.set(Some(run));
        }
        self.release(requests, held_bytes);
    }

    /// The client is gone: nothing will be sent any more.
    fn fail(&self, error: &io::Error) {
        if !self.failed.replace(true) {
            tracing::debug!(peer = self.tracked.peer(), %error, "an NBD client does not read its replies");
            self.tracked.stop.raise();
        }
    }

    /// Sends what others left, until it is dropped.
    pub(super) async fn write(self: Rc<Self>) {
        loop {
            self.writer_bell.wait().await;
            while let Some(mut run) = self.stuck.take().or_else(|| (self.waiting_bytes() > 0).then(|| self.take_run()))
            {
                self.writer_busy.set(true);
                let Some(mut sender) = self.sender.take() else { return };
                while !run.is_empty() && !self.failed.get() {
                    let mut slices = [IoSlice::new(&[]); PIECES_AT_ONCE];
                    let count = run.slices(&mut slices);
                    match sender.send_vectored(&slices[..count]).await {
                        Ok(sent) => run.sent(sent),
                        Err(error) => self.fail(&error),
                    }
                }
                self.sender.set(Some(sender));
                self.recycle(run);
            }
            self.writer_busy.set(false);
        }
    }

    /// Says goodbye, after all is sent.
    pub(super) async fn close(&self) {
        if let Some(mut sender) = self.sender.take() {
            let _ = sender.close().await;
        }
    }
}
