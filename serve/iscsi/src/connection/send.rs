//! PDUs: into the queue, and out of it.
//!
//! Invariant: StatSN is counted in the order in which PDUs leave.

use std::io;
use std::rc::Rc;

use holdfast_listener::Answering;

use super::Connection;
use crate::memory::Share;
use crate::outbound::{Held, Outbound, Pdus};
use crate::protocol::Header;
use crate::protocol::constants::*;

/// PDUs are sent when they carry so many bytes of payload, even in the middle of a batch: the initiator makes its next
/// requests while the rest is served.
const FLUSH_BYTES: usize = 16 << 10;

impl Answering<Held<Share>> for Connection {
    fn left(&self, note: &mut Held<Share>) {
        note.clear();
        self.idle();
    }

    fn failed(&self, error: &io::Error) {
        tracing::debug!(peer = self.tracked.peer(), %error, "an initiator takes no answers");
        self.failed_bell.ring();
        self.room_bell.ring();
    }

    fn idle(&self) {
        self.room_bell.ring();
        self.sent_bell.ring();
    }
}

impl Connection {
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
        self.writer.queue(put);
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
            self.writer.send_soon();
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
        if self.writer.queue(|out| out.note.payload_bytes) >= FLUSH_BYTES {
            self.flush();
        }
    }

    /// Sends what waits, as far as the socket takes it; the writer does the rest.
    pub(super) fn flush(&self) {
        self.writer.flush(self);
    }

    /// Sends what others left, until it is dropped.
    pub(super) async fn write(self: Rc<Self>) {
        self.writer.write(&*self).await;
    }
}
