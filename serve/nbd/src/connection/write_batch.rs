//! Large writes that are whole and not served yet.
//!
//! A unix socket holds about three requests of 64 KiB, and lets a client that filled it go on when it is three quarters
//! empty. Were each write served before the next is received, the socket would run dry while its client wakes up. So
//! writes are taken from the socket as long as there are any, up to a limit, and then served together: meanwhile the
//! client fills it again.
//!
//! Invariant: requests are served in the order in which they came, and nothing stays here while the reader waits.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use holdfast_device::IoBuf;

use super::{Connection, OpenRequest};
use crate::protocol::{Command, Request};

/// Payload that is taken before it is served.
const WRITE_BATCH_BYTES: u64 = 256 << 10;
/// Of smaller requests the socket holds enough.
const LARGE_BYTES: u64 = 32 << 10;

/// The writes.
#[derive(Default)]
pub(super) struct WriteBatch {
    writes: RefCell<Vec<(OpenRequest, IoBuf)>>,
    bytes: Cell<u64>,
}

impl WriteBatch {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.get() == 0
    }

    /// Whether a request may be received before what is here is served.
    pub(super) fn takes(&self, request: &Request) -> bool {
        let bytes = self.bytes.get().saturating_add(request.length);
        request.command == Command::Write && request.length > 0 && bytes <= WRITE_BATCH_BYTES
    }
}

impl Connection {
    /// Serves a write whose payload is whole, now or together with those that follow.
    pub(super) fn serve_write(self: &Rc<Self>, open: OpenRequest, buf: IoBuf) {
        if open.held_bytes < LARGE_BYTES {
            self.serve_write_batch();
            return self.serve(open, Some(buf));
        }
        self.write_batch.writes.borrow_mut().push((open, buf));
        self.write_batch.bytes.set(self.write_batch.bytes.get() + open.held_bytes);
        if self.write_batch.bytes.get() >= WRITE_BATCH_BYTES {
            self.serve_write_batch();
        }
    }

    /// Serves all writes that were taken ahead.
    pub(super) fn serve_write_batch(self: &Rc<Self>) {
        if self.write_batch.is_empty() {
            return;
        }
        self.write_batch.bytes.set(0);
        let mut writes = self.write_batch.writes.take();
        for (open, buf) in writes.drain(..) {
            self.serve(open, Some(buf));
            self.flush_if_due();
        }
        self.write_batch.writes.replace(writes);
    }
}
