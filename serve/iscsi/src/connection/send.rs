//! PDUs: into the queue, and out of it.
//!
//! ```text
//!   put ─▶ out ── flush: one system call ──▶ gone
//!                    └─ socket full ─▶ stuck ─▶ writer ─▶ gone
//! ```
//!
//! Invariant: whoever holds the sender sends alone, a stuck run leaves before any later one, and StatSN is counted in
//! the order in which PDUs leave.

use std::io::{self, IoSlice};
use std::rc::Rc;

use super::Connection;
use crate::memory::Share;
use crate::outbound::{Outbound, PIECES_AT_ONCE};
use crate::protocol::Header;
use crate::protocol::constants::*;

/// PDUs are sent when they carry so many bytes of payload, even in the middle of a batch: the initiator makes its next
/// requests while the rest is served.
const FLUSH_BYTES: usize = 16 << 10;
/// A queue that once held more than this gives its memory back.
const KEPT_HEAD_BYTES: usize = 256 << 10;

impl Connection {
    /// Bytes that wait to be sent, not counting those that the writer has in hand.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.out.borrow().bytes()
    }

    /// With the numbers that tell the initiator where the session is. The status number is the next, and used up if the
    /// PDU carries a status.
    pub(super) fn numbered(&self, header: Header, status: bool) -> Header {
        let (stat_sn, window) = (self.stat_sn.get(), self.window.get());
        if status {
            self.stat_sn.set(stat_sn.wrapping_add(1));
        }
        header.with_u32(24, stat_sn).with_u32(28, window.expected()).with_u32(32, window.last())
    }

    /// Puts a PDU into the queue; [`leave_soon`](Self::leave_soon) has it leave.
    pub(super) fn queue(&self, put: impl FnOnce(&mut Outbound<Share>)) {
        put(&mut self.out.borrow_mut());
        self.answers.set(self.answers.get() + 1);
    }

    /// What was put into the queue leaves with the batch that is served, or now.
    pub(super) fn leave_soon(&self) {
        if self.serving.get() {
            return;
        }
        if self.tasks.is_empty() {
            // Nobody else is about to answer: nothing to wait for.
            self.flush();
        } else {
            self.writer_bell.ring();
        }
    }

    /// Puts PDUs into the queue, which leave soon.
    pub(super) fn put(&self, put: impl FnOnce(&mut Outbound<Share>)) {
        self.queue(put);
        self.leave_soon();
    }

    /// Puts one PDU that carries a status into the queue, with small data.
    pub(super) fn put_answer(&self, header: Header, data: &[u8]) {
        let header = self.numbered(header.with_data_bytes(data.len()), true);
        self.put(|out| out.pdu(&header, data, self.digests));
    }

    /// Refuses a PDU, of which the header goes back (RFC 7143 11.17).
    pub(super) fn reject(&self, header: &Header, reason: u8) {
        let answer = Header::new(REJECT, FLAG_FINAL).with_u8(2, reason).with_task_tag(NO_TAG);
        self.put_answer(answer, &header.0);
    }

    /// Sends what waits where it carries much payload.
    pub(super) fn flush_if_due(&self) {
        let payload_bytes = self.out.borrow().payload_bytes();
        if payload_bytes >= FLUSH_BYTES {
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
                Ok(sent) => self.note_sent(&mut run, sent),
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

    fn note_sent(&self, run: &mut Outbound<Share>, sent: usize) {
        run.sent(sent);
        self.sent_bytes.set(self.sent_bytes.get() + sent as u64);
    }

    fn take_run(&self) -> Outbound<Share> {
        self.answers.set(0);
        self.out.replace(self.spare.take().unwrap_or_default())
    }

    /// A run has left, or will never.
    fn recycle(&self, mut run: Outbound<Share>) {
        run.clear();
        if run.head_capacity() <= KEPT_HEAD_BYTES {
            self.spare.set(Some(run));
        }
        self.room_bell.ring();
        self.sent_bell.ring();
    }

    /// The initiator is gone: nothing will be sent any more.
    fn fail(&self, error: &io::Error) {
        if !self.failed.replace(true) {
            tracing::debug!(peer = self.tracked.peer(), %error, "an initiator takes no answers");
            self.failed_bell.ring();
            self.room_bell.ring();
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
                        Ok(sent) => self.note_sent(&mut run, sent),
                        Err(error) => self.fail(&error),
                    }
                }
                self.sender.set(Some(sender));
                self.recycle(run);
            }
            self.writer_busy.set(false);
            self.sent_bell.ring();
            self.room_bell.ring();
        }
    }

    /// Says goodbye, after all is sent.
    pub(super) async fn close(&self) {
        if let Some(mut sender) = self.sender.take() {
            let _ = sender.close().await;
        }
    }
}
