//! Answers: into the queue, and out of it.
//!
//! Invariant: a request is answered once, and there is room for another when its answer has left.

use std::io;
use std::rc::Rc;

use holdfast_device::IoBuf;
use holdfast_listener::{Answering, Run};

use super::serve::Refusal;
use super::{Connection, OpenRequest};
use crate::protocol::reply;

/// Replies are sent when they carry, or answer for, so many bytes of payload, even in the middle of a batch: the client
/// makes its next requests while the rest is served.
const FLUSH_BYTES: u64 = 16 << 10;

/// What is known of a run of replies.
#[derive(Default)]
pub(super) struct Answered {
    /// Requests that are answered by it.
    requests: u32,
    /// Payload bytes that were held for those requests.
    held_bytes: u64,
}

/// A run of replies.
pub(super) type Replies = Run<Answered>;

impl Answering<Answered> for Connection {
    fn left(&self, note: &mut Answered) {
        let Answered { requests, held_bytes } = std::mem::take(note);
        self.release(requests, held_bytes);
    }

    fn failed(&self, error: &io::Error) {
        tracing::debug!(peer = self.tracked.peer(), %error, "an NBD client does not read its replies");
        self.tracked.stop.raise();
    }
}

impl Connection {
    /// Bytes of replies that wait to be sent, not counting those that the writer has in hand.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.writer.waiting_bytes()
    }

    /// Replies that wait to be sent, as above.
    pub(super) fn waiting_replies(&self) -> u32 {
        self.writer.queue(|out| out.note.requests)
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
            out.data(buf.freeze(), at, len);
        });
    }

    /// Failure.
    pub(super) fn refuse(&self, open: OpenRequest, refusal: Refusal) {
        self.answer(open, |out| {
            out.head(|heads| reply::failed(heads, self.style, &open.request, refusal.errno, &refusal.text));
        });
    }

    /// Puts one whole reply into the queue.
    pub(super) fn answer(&self, open: OpenRequest, encode: impl FnOnce(&mut Replies)) {
        self.writer.queue(|out| {
            encode(out);
            out.note.requests += 1;
            out.note.held_bytes += open.held_bytes;
        });
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
            self.writer.send_soon();
        }
    }

    /// Sends what waits where it carries, or answers for, much payload.
    pub(super) fn flush_if_due(&self) {
        if self.writer.queue(|out| out.note.held_bytes) >= FLUSH_BYTES {
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
