//! The full feature phase of one session, on one reactor. A session has one connection.
//!
//! ```text
//!   socket ─▶ Inbound ─▶ requests ─▶ Nexus (serve/scsi) ─▶ respond ─▶ Outbound ─▶ socket
//!               ▲           ├─ tasks: gathering data, or running           │
//!               │           └─ early: what came before its turn            │
//!               └───────────── reading waits for room ◀────────────────────┘ sent
//! ```
//!
//! The reader serves every PDU of a received batch and then sends all answers with one system call. A command that is
//! answered at once needs no task. Answers that the socket does not take, or that come later, are sent by the writer.
//!
//! Invariant: the window of commands bounds what is in flight, the memory of all sessions what it holds, and nothing more
//! is read while many bytes wait behind a full socket. So what an initiator can make the server hold is bounded even when
//! it never takes an answer, and it is dropped when it does not for long.

mod commands;
mod data;
mod manage;
mod requests;
mod respond;
mod send;
mod tasks;
mod text;
mod watch;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io::{self, IoSliceMut};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::select;
use holdfast_device::Clock;
use holdfast_device::reactor::{clock, spawn_local, yield_now};
use holdfast_listener::{LocalNotify, Receiver, Sender, Tracked, Writer};
use holdfast_scsi::Nexus;

use crate::inbound::{Inbound, Incoming, Lost};
use crate::memory::{Memory, Purse, Share};
use crate::outbound::{Digests, Held};
use crate::parameters::Parameters;
use crate::protocol::Header;
use crate::settings::IscsiSettings;
use crate::targets::{SessionEntry, Targets};
use crate::window::Window;
use requests::{Arrival, Early};
use tasks::Tasks;
use text::Exchange;

/// No more PDUs are taken up while so many bytes wait behind a full socket.
const WAITING_BYTES: usize = 256 << 10;
/// How much is served before what else the reactor has to do gets its turn: a PDU counts one, and one more for each
/// 64 KiB.
const TURN: u64 = 64;
/// The same where other sessions wait for theirs.
const SHARED_TURN: u64 = 4;
/// PDUs that may wait while the socket evidently holds more requests.
const HELD_BACK_ANSWERS: u32 = 8;

thread_local! {
    /// Sessions on this reactor.
    static HERE: Cell<usize> = const { Cell::new(0) };
}

/// A session's presence on its reactor.
struct Here;

impl Here {
    fn new() -> Self {
        HERE.set(HERE.get() + 1);
        Self
    }

    /// How much one session may serve at once.
    fn turn() -> u64 {
        if HERE.get() > 1 { SHARED_TURN } else { TURN }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        HERE.set(HERE.get() - 1);
    }
}

/// What the login settled.
pub(crate) struct Terms {
    pub(crate) entry: Arc<SessionEntry>,
    /// None in discovery.
    pub(crate) nexus: Option<Nexus>,
    pub(crate) parameters: Parameters,
    pub(crate) cid: u16,
    pub(crate) window: Window,
    pub(crate) stat_sn: u32,
}

/// How much came in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Received {
    /// Nothing: the initiator has left.
    End,
    /// All that there was.
    Part,
    /// As much as there was space for.
    Full,
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error("its initiator logged out")]
    Logout,
    #[error("its initiator closed the connection")]
    Closed,
    #[error("{0}")]
    Told(&'static str),
    #[error("its connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("its initiator sent what cannot be followed: {0}")]
    Lost(#[from] Lost),
    #[error("its initiator broke the protocol: {0}")]
    Protocol(&'static str),
}

pub(crate) struct Connection {
    targets: Arc<Targets>,
    entry: Arc<SessionEntry>,
    nexus: Option<Nexus>,
    tracked: Arc<Tracked>,
    memory: Rc<Purse>,
    settings: IscsiSettings,
    cid: u16,
    digests: Digests,
    initiator_segment_bytes: Cell<u32>,
    parameters: Parameters,

    window: Cell<Window>,
    stat_sn: Cell<u32>,
    transfer_tag: Cell<u32>,
    tasks: Tasks,
    early: RefCell<BTreeMap<u32, Early>>,
    exchange: RefCell<Exchange>,
    /// The initiator has logged out: nothing more is read, and this answer is the last.
    logout: Cell<Option<Header>>,
    /// Something came in since the last look.
    heard: Cell<bool>,
    /// Commands that were aborted and still hold their buffers.
    carried: Cell<u32>,
    /// Task management functions that are not answered yet.
    managing: Cell<u32>,
    /// Data of commands came since the last look.
    data_came: Cell<bool>,
    /// The command whose data is being received: since when it is there, and how much of its data is missing.
    arriving: Cell<Option<(Duration, u64)>>,
    /// The time of the last look.
    now: Cell<Duration>,
    /// The tag of the question whether the initiator is there.
    ping: Cell<Option<u32>>,

    /// The reader is serving a batch, and will send.
    serving: Cell<bool>,
    writer: Writer<Held<Share>>,
    failed_bell: LocalNotify,
    room_bell: LocalNotify,
    sent_bell: LocalNotify,
}

/// Serves a session until it ends, and says why.
pub(crate) async fn run(
    terms: Terms,
    targets: Arc<Targets>,
    memory: Arc<Memory>,
    settings: &IscsiSettings,
    receiver: Receiver,
    sender: Sender,
    first: &[u8],
) -> End {
    let _here = Here::new();
    let Terms { entry, nexus, parameters, cid, window, stat_sn } = terms;
    let (tracked, clock) = (entry.tracked.clone(), clock());
    let connection = Rc::new(Connection {
        targets,
        entry,
        nexus,
        tracked,
        memory: Purse::new(memory),
        settings: settings.clone(),
        cid,
        digests: Digests { header: parameters.header_digest, data: parameters.data_digest },
        initiator_segment_bytes: Cell::new(parameters.initiator_segment_bytes),
        parameters,
        window: Cell::new(window),
        stat_sn: Cell::new(stat_sn),
        transfer_tag: Cell::new(0),
        tasks: Tasks::default(),
        early: RefCell::default(),
        exchange: RefCell::default(),
        logout: Cell::new(None),
        heard: Cell::new(true),
        carried: Cell::new(0),
        managing: Cell::new(0),
        data_came: Cell::new(false),
        arriving: Cell::new(None),
        now: Cell::new(clock.now()),
        ping: Cell::new(None),
        serving: Cell::new(false),
        writer: Writer::new(sender),
        failed_bell: LocalNotify::default(),
        room_bell: LocalNotify::default(),
        sent_bell: LocalNotify::default(),
    });
    let writer = spawn_local(connection.clone().write());
    let end = connection.serve(&*clock, receiver, first).await;
    connection.serving.set(false);
    connection.abort_all();
    if matches!(end, End::Logout | End::Told(_) | End::Protocol(_)) {
        let finish = async {
            connection.all_sent().await;
            connection.writer.close().await;
        };
        select(pin!(finish), clock.sleep(connection.settings.drain_timeout)).await;
    }
    writer.abort();
    // A peer that takes nothing must not keep the socket open.
    connection.writer.let_go();
    // Whoever logs in in its place must not find writes of before still landing.
    if let Some(nexus) = &connection.nexus {
        nexus.quiesce().await;
    }
    end
}

impl Connection {
    /// Reads and serves until something ends it.
    async fn serve(self: &Rc<Self>, clock: &dyn Clock, receiver: Receiver, first: &[u8]) -> End {
        let mut reader = pin!(self.read(receiver, first));
        let mut orders = pin!(self.follow_orders(clock));
        let mut watch = pin!(self.watch(clock));
        let mut events = pin!(self.tell_events());
        poll_fn(|cx| {
            if let Poll::Ready(end) = reader.as_mut().poll(cx) {
                return Poll::Ready(end.unwrap_or_else(|end| end));
            }
            if let Poll::Ready(end) = orders.as_mut().poll(cx) {
                return Poll::Ready(end);
            }
            if let Poll::Ready(end) = watch.as_mut().poll(cx) {
                return Poll::Ready(end);
            }
            let _ = events.as_mut().poll(cx);
            Poll::Pending
        })
        .await
    }

    /// Reads and serves until the initiator leaves.
    async fn read(self: &Rc<Self>, mut receiver: Receiver, first: &[u8]) -> Result<End, End> {
        let limit = self.parameters.target_segment_bytes as usize;
        let mut inbound = Inbound::<Arrival>::new(limit, first);
        inbound.agree(self.digests.header, self.digests.data, limit);
        let mut turn = 0;
        let mut received = Received::Part;
        loop {
            self.serving.set(true);
            while let Some(incoming) = inbound.take()? {
                match incoming {
                    Incoming::Header(header, additional) => {
                        turn += 1 + (header.data_bytes() as u64 >> 16);
                        self.header(header, &additional, &mut inbound)?;
                    }
                    Incoming::Data(arrival) => self.arrived(arrival)?,
                    Incoming::Damaged(arrival) => self.damaged(arrival)?,
                    Incoming::Skipped => {}
                }
                if let Some(answer) = self.logout.take() {
                    self.flush();
                    self.finish_logout(answer).await;
                    return Ok(End::Logout);
                }
                self.flush_if_due();
                if turn >= Here::turn() {
                    turn = 0;
                    self.flush();
                    yield_now().await;
                }
                if self.is_crowded() {
                    self.room().await;
                }
            }
            if received == Received::End {
                return Ok(End::Closed);
            }
            received = self.receive(&mut receiver, &mut inbound, received).await?;
            self.heard.set(true);
            if self.arriving.get().is_some() {
                self.data_came.set(true);
            }
        }
    }

    /// Receives some bytes. Answers are sent before the wait; only where the last receive filled its space, so that the
    /// socket likely holds more, a few are held back to go out with the next.
    async fn receive(
        self: &Rc<Self>,
        receiver: &mut Receiver,
        inbound: &mut Inbound<Arrival>,
        last: Received,
    ) -> io::Result<Received> {
        if last != Received::Full || self.writer.queue(|out| out.note.pdus) > HELD_BACK_ANSWERS {
            self.flush();
        }
        let mut spaces = inbound.spaces().map(IoSliceMut::new);
        let room: usize = spaces.iter().map(|space| space.len()).sum();
        let waiting = self.writer.waiting_bytes() > 0;
        let count = match waiting.then(|| receiver.try_recv_vectored(usable(&mut spaces))) {
            Some(Ok(count)) => count,
            Some(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {
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

    /// Whether much waits behind a full socket.
    fn is_crowded(&self) -> bool {
        self.writer.is_busy() && self.writer.waiting_bytes() >= WAITING_BYTES
    }

    /// Ends when there is room for more answers, or nobody takes any.
    async fn room(&self) {
        while self.is_crowded() && !self.writer.has_failed() {
            self.serving.set(false);
            self.room_bell.wait().await;
            self.serving.set(true);
        }
    }

    async fn all_sent(&self) {
        self.flush();
        while (self.writer.is_busy() || self.writer.waiting_bytes() > 0) && !self.writer.has_failed() {
            self.sent_bell.wait().await;
        }
    }

    /// A tag for a request of the target.
    fn new_transfer_tag(&self) -> u32 {
        let tag = self.transfer_tag.get();
        self.transfer_tag.set(if tag >= 0xffff_fffe { 0 } else { tag + 1 });
        tag
    }

    /// What the initiator takes changed.
    fn note_parameters(&self, change: impl FnOnce(&mut Parameters)) {
        let mut parameters = self.entry.parameters.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut parameters);
        self.initiator_segment_bytes.set(parameters.initiator_segment_bytes);
    }
}

/// The spaces without an empty first one.
fn usable<'a, 'b>(spaces: &'a mut [IoSliceMut<'b>; 2]) -> &'a mut [IoSliceMut<'b>] {
    let from = usize::from(spaces[0].is_empty());
    &mut spaces[from..]
}
