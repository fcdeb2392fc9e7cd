//! The sending side of one connection: answers are put into a run, and leave together.
//!
//! ```text
//!   queue ─▶ out ── flush: one system call ──▶ gone
//!                      └─ socket full ─▶ stuck ─▶ write ─▶ gone
//! ```
//!
//! Invariant: whoever holds the sender sends alone, and a stuck run leaves before any later one.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};

use crate::local_notify::LocalNotify;
use crate::run::{PIECES_AT_ONCE, Run};
use crate::transport::Sender;

/// A queue that once held more than this gives its memory back.
const KEPT_HEAD_BYTES: usize = 256 << 10;

/// Whose answers are sent.
pub trait Answering<N> {
    /// A run has left, or will never: lets go of what was noted of it, so that the note is as a new one.
    fn left(&self, note: &mut N);

    /// The other end takes nothing any more, which is told once.
    fn failed(&self, error: &io::Error);

    /// Nothing waits any more for a socket that was full.
    fn idle(&self) {}
}

/// See the module. It stays on its reactor.
pub struct Writer<N> {
    out: RefCell<Run<N>>,
    spare: Cell<Option<Run<N>>>,
    stuck: Cell<Option<Run<N>>>,
    sender: Cell<Option<Sender>>,
    busy: Cell<bool>,
    failed: Cell<bool>,
    sent_bytes: Cell<u64>,
    bell: LocalNotify,
}

impl<N: Default> Writer<N> {
    /// One that sends by this half of a stream.
    pub fn new(sender: Sender) -> Self {
        Self {
            out: RefCell::default(),
            spare: Cell::default(),
            stuck: Cell::default(),
            sender: Cell::new(Some(sender)),
            busy: Cell::new(false),
            failed: Cell::new(false),
            sent_bytes: Cell::new(0),
            bell: LocalNotify::default(),
        }
    }

    /// Puts something into the run that leaves next.
    #[inline]
    pub fn queue<R>(&self, put: impl FnOnce(&mut Run<N>) -> R) -> R {
        put(&mut self.out.borrow_mut())
    }

    /// Bytes that wait to be sent, not counting those of a run that is being sent.
    #[inline]
    pub fn waiting_bytes(&self) -> usize {
        self.out.borrow().bytes()
    }

    /// Whether the socket was full, and what waited for it has not left yet.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.busy.get()
    }

    /// Whether the other end takes nothing any more.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// Bytes that the socket took so far.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.get()
    }

    /// Has [`write`](Self::write) send what waits, after what else has its turn now.
    #[inline]
    pub fn send_soon(&self) {
        self.bell.ring();
    }

    /// Sends what waits, as far as the socket takes it; [`write`](Self::write) does the rest.
    pub fn flush(&self, owner: &impl Answering<N>) {
        if self.busy.get() || self.out.borrow().is_empty() {
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
                    self.busy.set(true);
                    self.bell.ring();
                    break;
                }
                Err(error) => {
                    self.fail(owner, &error);
                    self.recycle(owner, run);
                    break;
                }
            }
            if run.is_empty() {
                self.recycle(owner, run);
                break;
            }
        }
        self.sender.set(Some(sender));
    }

    fn note_sent(&self, run: &mut Run<N>, sent: usize) {
        run.sent(sent);
        self.sent_bytes.set(self.sent_bytes.get() + sent as u64);
    }

    fn take_run(&self) -> Run<N> {
        self.out.replace(self.spare.take().unwrap_or_default())
    }

    /// A run has left, or will never.
    fn recycle(&self, owner: &impl Answering<N>, mut run: Run<N>) {
        run.clear();
        let mut note = std::mem::take(&mut run.note);
        owner.left(&mut note);
        run.note = note;
        if run.head_capacity() <= KEPT_HEAD_BYTES {
            self.spare.set(Some(run));
        }
    }

    fn fail(&self, owner: &impl Answering<N>, error: &io::Error) {
        if !self.failed.replace(true) {
            owner.failed(error);
        }
    }

    /// Sends what others left, until it is dropped.
    pub async fn write(&self, owner: &impl Answering<N>) {
        loop {
            self.bell.wait().await;
            while let Some(mut run) = self.stuck.take().or_else(|| (self.waiting_bytes() > 0).then(|| self.take_run()))
            {
                self.busy.set(true);
                let Some(mut sender) = self.sender.take() else { return };
                while !run.is_empty() && !self.failed.get() {
                    let mut slices = [IoSlice::new(&[]); PIECES_AT_ONCE];
                    let count = run.slices(&mut slices);
                    match sender.send_vectored(&slices[..count]).await {
                        Ok(sent) => self.note_sent(&mut run, sent),
                        Err(error) => self.fail(owner, &error),
                    }
                }
                self.sender.set(Some(sender));
                self.recycle(owner, run);
            }
            self.busy.set(false);
            owner.idle();
        }
    }

    /// Says goodbye, after all is sent.
    pub async fn close(&self) {
        if let Some(mut sender) = self.sender.take() {
            let _ = sender.close().await;
        }
    }

    /// Lets go of its half of the stream: nothing is sent any more.
    pub fn let_go(&self) {
        drop(self.sender.take());
    }
}
