//! The transmission phase of one connection, on one reactor.
//!
//! ```text
//!   socket ─▶ Inbound ─▶ serve ─▶ Target ─▶ answer ─▶ Outbound ─▶ socket
//!               ▲           └─ not ready: a task ──┘       │
//!               └────────── reading waits for room ◀───────┘ sent
//! ```
//!
//! The reader serves every request of a received batch and then sends all replies with one system call. A target that
//! answers at once needs no task. Replies that the socket does not take, or that come later, are sent by the writer.
//!
//! Invariant: a request counts as in flight from its header until its reply has left, and no more is read while the
//! limits of requests and payload bytes are reached. So what a client can make the server hold is bounded even when it
//! never takes a reply. A request that still waits for its turn when the client leaves never begins.

mod send;
mod serve;
mod write_batch;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::{self, IoSliceMut};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};
use holdfast_block::Session;
use holdfast_device::reactor::{clock, spawn_local, yield_now};
use holdfast_device::{Clock, IoBuf};
use holdfast_listener::{LocalNotify, Receiver, Sender, Tracked, Writer};
use holdfast_model::wire::WireError;

use crate::exports::Attachment;
use crate::inbound::{Inbound, Incoming};
use crate::protocol::{Command, ReplyStyle, Request};
use crate::settings::NbdSettings;
use send::Answered;
use serve::Refusal;
use write_batch::WriteBatch;

/// No more requests are taken up while so many bytes wait behind a full socket: a read that is served now would only
/// push others out of the caches before it is sent.
const WAITING_BYTES: usize = 256 << 10;
/// How much is served before what else the reactor has to do gets its turn: a request counts one, and one more for each
/// 64 KiB.
const TURN: u64 = 64;
/// The same where other connections wait for theirs.
const SHARED_TURN: u64 = 4;

thread_local! {
    /// Connections on this reactor.
    static HERE: Cell<usize> = const { Cell::new(0) };
}

/// A connection's presence on its reactor.
struct Here;

impl Here {
    fn new() -> Self {
        HERE.set(HERE.get() + 1);
        Self
    }

    /// How much one connection may serve at once.
    fn turn() -> u64 {
        if HERE.get() > 1 { SHARED_TURN } else { TURN }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        HERE.set(HERE.get() - 1);
    }
}

/// Replies that may wait while the socket evidently holds more requests.
const HELD_BACK_REPLIES: u32 = 8;
/// How long a connection that is told to stop goes on refusing requests, so that its client sees why.
const LINGER: Duration = Duration::from_millis(100);

/// What the handshake settled.
pub(crate) struct Terms {
    pub(crate) attachment: Attachment,
    pub(crate) style: ReplyStyle,
    pub(crate) allocation_context: bool,
}

/// A request that is not answered yet, and the payload bytes that are held for it.
#[derive(Clone, Copy)]
struct OpenRequest {
    request: Request,
    held_bytes: u64,
}

/// How much came in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Received {
    /// Nothing: the client has left.
    End,
    /// All that there was.
    Part,
    /// As much as there was space for.
    Full,
}

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the stream of requests is out of step: {0}")]
    Wire(#[from] WireError),
    #[error("the client announced a payload of {0} bytes")]
    TooLong(u64),
}

pub(crate) struct Connection {
    attachment: Attachment,
    tracked: Arc<Tracked>,
    style: ReplyStyle,
    allocation_context: bool,
    size_bytes: u64,
    read_only: bool,
    /// Whether zeroes can be written by making holes.
    makes_holes: bool,
    /// Whether the target tells holes without waiting.
    tells_holes: Cell<bool>,
    limit_requests: u32,
    limit_bytes: u64,

    in_flight: Cell<u32>,
    held_bytes: Cell<u64>,
    unanswered: Cell<u32>,
    /// The request whose payload is being received, and why it will be refused.
    receiving: Cell<Option<(OpenRequest, Option<Refusal>)>>,
    write_batch: WriteBatch,
    /// The reader is serving a batch, and will send.
    serving: Cell<bool>,

    writer: Writer<Answered>,
    room_bell: LocalNotify,
    answered_bell: LocalNotify,
    sent_bell: LocalNotify,
}

/// Serves a connection until its client leaves or it is told to stop, and lets what is in flight finish.
pub(crate) async fn run(
    terms: Terms,
    tracked: Arc<Tracked>,
    settings: &NbdSettings,
    receiver: Receiver,
    sender: Sender,
    first: &[u8],
) -> Result<(), Broken> {
    let _here = Here::new();
    let info = &terms.attachment.info;
    let (size_bytes, read_only) = (info.geometry.size_bytes, info.read_only);
    let makes_holes = info.discard.is_some_and(|discard| discard.reads_zeros);
    let connection = Rc::new(Connection {
        attachment: terms.attachment,
        tracked,
        style: terms.style,
        allocation_context: terms.allocation_context,
        size_bytes,
        read_only,
        makes_holes,
        tells_holes: Cell::new(terms.style.chunked()),
        limit_requests: settings.requests.max(1),
        limit_bytes: settings.payload_bytes,
        in_flight: Cell::new(0),
        held_bytes: Cell::new(0),
        unanswered: Cell::new(0),
        receiving: Cell::new(None),
        write_batch: WriteBatch::default(),
        serving: Cell::new(false),
        writer: Writer::new(sender),
        room_bell: LocalNotify::default(),
        answered_bell: LocalNotify::default(),
        sent_bell: LocalNotify::default(),
    });
    let clock = clock();
    let writer = spawn_local(connection.clone().write());
    let ended = {
        let mut reader = pin!(connection.read(receiver, first));
        let mut stopped = pin!(connection.told_to_stop(&*clock, settings.drain_timeout));
        poll_fn(|cx| match reader.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(ended),
            Poll::Pending => stopped.as_mut().poll(cx).map(Ok),
        })
        .await
    };
    connection.serve_write_batch();
    connection.session().end();
    connection.serving.set(false);
    if let Some((open, _)) = connection.receiving.take() {
        connection.abandon(open);
    }
    let finish = async {
        connection.all_sent().await;
        connection.writer.close().await
    };
    if let Either::Right(_) = select(pin!(finish), clock.sleep(settings.drain_timeout)).await {
        tracing::warn!(
            peer = connection.tracked.peer(),
            requests = connection.in_flight.get(),
            "an NBD connection was closed with requests in flight, which the target did not answer or the client did not take"
        );
    }
    writer.abort();
    // A request that the target never answers must not keep the socket open.
    connection.writer.let_go();
    ended
}

impl Connection {
    fn session(&self) -> &Session {
        &self.attachment.session
    }

    /// Ends when the connection was told to stop, what was in flight is answered or overdue, and the client had its
    /// moment to see the refusals.
    async fn told_to_stop(&self, clock: &dyn Clock, patience: Duration) {
        self.tracked.stop.wait().await;
        self.session().end();
        select(pin!(self.all_answered()), clock.sleep(patience)).await;
        clock.sleep(LINGER).await;
    }

    /// Reads and serves until the client leaves.
    async fn read(self: &Rc<Self>, mut receiver: Receiver, first: &[u8]) -> Result<(), Broken> {
        let mut inbound = Inbound::new(self.style.extended(), first);
        let mut turn = 0;
        let mut received = Received::Part;
        while received != Received::End && !self.writer.has_failed() {
            self.serving.set(true);
            while let Some(incoming) = inbound.take()? {
                match incoming {
                    Incoming::Header(request) if request.command == Command::Disconnect => return Ok(()),
                    Incoming::Header(request) => {
                        turn += 1 + (request.length >> 16).min(TURN);
                        if !self.write_batch.takes(&request) {
                            self.serve_write_batch();
                        }
                        self.header(request, &mut inbound).await?;
                    }
                    Incoming::Payload(_, buf) => self.payload(Some(buf)),
                    Incoming::Skipped(_) => self.payload(None),
                }
                self.flush_if_due();
                if turn >= Here::turn() {
                    turn = 0;
                    self.serve_write_batch();
                    self.flush();
                    yield_now().await;
                }
            }
            received = self.receive(&mut receiver, &mut inbound, received).await?;
        }
        Ok(())
    }

    /// Receives some bytes. Writes so far are served and replies sent before the wait; only where the last receive
    /// filled its space, so that the socket likely holds more, a few replies are held back to go out with the next.
    async fn receive(
        self: &Rc<Self>,
        receiver: &mut Receiver,
        inbound: &mut Inbound,
        last: Received,
    ) -> Result<Received, Broken> {
        if last != Received::Full || self.waiting_replies() > HELD_BACK_REPLIES {
            self.flush();
        }
        let mut spaces = inbound.spaces().map(IoSliceMut::new);
        let room: usize = spaces.iter().map(|space| space.len()).sum();
        let meanwhile = self.waiting_bytes() > 0 || !self.write_batch.is_empty();
        let count = match meanwhile.then(|| receiver.try_recv_vectored(usable(&mut spaces))) {
            Some(Ok(count)) => count,
            Some(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
            _ => {
                self.serve_write_batch();
                self.flush();
                self.serving.set(false);
                receiver.recv_vectored(usable(&mut spaces)).await?
            }
        };
        inbound.filled(count);
        Ok(match count {
            0 => Received::End,
            count if count == room => Received::Full,
            _ => Received::Part,
        })
    }

    /// Takes up a request: waits for room, then serves it, or prepares for its payload.
    async fn header(self: &Rc<Self>, request: Request, inbound: &mut Inbound) -> Result<(), Broken> {
        let payload_bytes = request.payload_bytes(self.style.extended());
        let refusal = self.check(&request).err();
        let held_bytes = if refusal.is_some() { 0 } else { self.memory_for(&request) };
        if !self.has_room(held_bytes) {
            self.serve_write_batch();
            self.room(held_bytes).await;
        }
        let open = self.begin(request, held_bytes);
        match refusal {
            _ if payload_bytes > u64::from(u32::MAX) => {
                self.abandon(open);
                return Err(Broken::TooLong(payload_bytes));
            }
            Some(refusal) if payload_bytes == 0 => self.refuse(open, refusal),
            Some(_) => {
                self.receiving.set(Some((open, refusal)));
                inbound.begin_skip(request);
            }
            None if payload_bytes == 0 => self.serve(open, None),
            None => {
                self.receiving.set(Some((open, None)));
                let at = if request.command == Command::Write { (request.offset % 4096) as usize } else { 0 };
                inbound.begin_payload(request, IoBuf::new(held_bytes as usize), at);
            }
        }
        Ok(())
    }

    /// The payload of the request that was being received is whole, or has passed.
    fn payload(self: &Rc<Self>, buf: Option<IoBuf>) {
        let Some((open, refusal)) = self.receiving.take() else { return };
        self.tracked.add_bytes(open.request.payload_bytes(self.style.extended()));
        match (refusal, buf) {
            (Some(refusal), _) => self.refuse(open, refusal),
            (None, Some(buf)) if open.request.command == Command::Write => self.serve_write(open, buf),
            (None, buf) => self.serve(open, buf),
        }
    }

    fn has_room(&self, held_bytes: u64) -> bool {
        let held = self.held_bytes.get();
        let crowded = self.writer.is_busy() && self.waiting_bytes() >= WAITING_BYTES;
        self.in_flight.get() < self.limit_requests && (held == 0 || held + held_bytes <= self.limit_bytes) && !crowded
    }

    /// Ends when there is room for one more request, or nobody is there to answer any more.
    async fn room(&self, held_bytes: u64) {
        loop {
            self.flush();
            if self.has_room(held_bytes) || self.writer.has_failed() {
                return;
            }
            self.serving.set(false);
            self.room_bell.wait().await;
            self.serving.set(true);
        }
    }

    fn begin(&self, request: Request, held_bytes: u64) -> OpenRequest {
        self.in_flight.set(self.in_flight.get() + 1);
        self.unanswered.set(self.unanswered.get() + 1);
        self.held_bytes.set(self.held_bytes.get() + held_bytes);
        self.tracked.set_in_flight(self.in_flight.get());
        OpenRequest { request, held_bytes }
    }

    /// Lets go of a request that will never be answered.
    fn abandon(&self, open: OpenRequest) {
        self.unanswered.set(self.unanswered.get() - 1);
        self.release(1, open.held_bytes);
    }

    /// Requests have left: there is room for others.
    fn release(&self, requests: u32, held_bytes: u64) {
        self.in_flight.set(self.in_flight.get() - requests);
        self.held_bytes.set(self.held_bytes.get() - held_bytes);
        self.tracked.set_in_flight(self.in_flight.get());
        self.room_bell.ring();
        if self.in_flight.get() == 0 {
            self.sent_bell.ring();
        }
    }

    async fn all_answered(&self) {
        while self.unanswered.get() > 0 {
            self.answered_bell.wait().await;
        }
    }

    async fn all_sent(&self) {
        self.flush();
        while self.in_flight.get() > 0 {
            self.sent_bell.wait().await;
        }
    }
}

/// The spaces without an empty first one.
fn usable<'a, 'b>(spaces: &'a mut [IoSliceMut<'b>; 2]) -> &'a mut [IoSliceMut<'b>] {
    let from = usize::from(spaces[0].is_empty());
    &mut spaces[from..]
}
