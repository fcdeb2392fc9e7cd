//! Requests: checked, and handed to the session with the target.
//!
//! Invariant: a request reaches the session within the size, and changes nothing unless all of it is allowed.

use std::borrow::Cow;
use std::rc::Rc;

use holdfast_block::{Change, Started, blocks_around, clip};
use holdfast_device::reactor::spawn_local;
use holdfast_device::{Durability, Extent, ExtentKind, Io, IoBuf, IoError};
use holdfast_model::BLOCK_BYTES;
use holdfast_model::wire::{Reader, WireError};

use super::{Connection, OpenRequest};
use crate::protocol::constants::*;
use crate::protocol::reply::{self, StatusExtent};
use crate::protocol::{Command, Errno, Request};

/// Reads from this size on are looked at for holes, where that costs no wait.
const HOLE_LOOKUP_BYTES: u64 = 128 << 10;
/// Pieces that such a read is sent in at most.
const READ_EXTENTS: usize = 16;
/// Extents in one answer at most.
const STATUS_EXTENTS: usize = 1024;
/// How long a list of contexts in a request may be: a length and a context at least.
const STATUS_PAYLOAD_BYTES: std::ops::RangeInclusive<u64> = 12..=4096;

/// Why a request is not served.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) errno: Errno,
    pub(super) text: Cow<'static, str>,
}

impl Refusal {
    fn new(errno: Errno, text: &'static str) -> Self {
        Self { errno, text: Cow::Borrowed(text) }
    }
}

impl From<IoError> for Refusal {
    fn from(error: IoError) -> Self {
        Self { errno: error.kind.into(), text: error.to_string().into() }
    }
}

fn durability(request: &Request) -> Durability {
    if request.has(CMD_FLAG_FUA) { Durability::Durable } else { Durability::Cached }
}

fn aligned(request: &Request) -> bool {
    (request.offset | request.length).is_multiple_of(BLOCK_BYTES)
}

impl Connection {
    /// Whether a request may be served, as far as its header tells.
    pub(super) fn check(&self, request: &Request) -> Result<(), Refusal> {
        let when = |condition: bool, flag: u16| if condition { flag } else { 0 };
        let extended = self.style.extended();
        let allowed = CMD_FLAG_FUA
            | match request.command {
                Command::Read => when(self.style.chunked(), CMD_FLAG_DF),
                Command::Write => when(extended, CMD_FLAG_PAYLOAD_LEN),
                Command::WriteZeroes => CMD_FLAG_NO_HOLE | CMD_FLAG_FAST_ZERO,
                Command::BlockStatus => CMD_FLAG_REQ_ONE | when(extended, CMD_FLAG_PAYLOAD_LEN),
                _ => 0,
            };
        if let Command::Unknown(_) = request.command {
            return Err(Refusal::new(Errno::Invalid, "this server does not know the command"));
        }
        if request.flags & !allowed != 0 {
            return Err(Refusal::new(Errno::Invalid, "the command does not take these flags"));
        }
        if self.tracked.stop.raised() {
            return Err(Refusal::new(Errno::Shutdown, "the export is being closed"));
        }
        if self.read_only && request.command.changes() {
            return Err(Refusal::new(Errno::Permission, "the export is read-only"));
        }
        match request.command {
            Command::Flush => Ok(()),
            Command::BlockStatus if request.has(CMD_FLAG_PAYLOAD_LEN) => {
                if !STATUS_PAYLOAD_BYTES.contains(&request.length) {
                    return Err(Refusal::new(Errno::Invalid, "the list of contexts is empty or too long"));
                }
                self.check_contexts()
            }
            _ => self.check_range(request),
        }
    }

    fn check_contexts(&self) -> Result<(), Refusal> {
        if self.allocation_context {
            return Ok(());
        }
        Err(Refusal::new(Errno::Invalid, "no metadata context was agreed on"))
    }

    fn check_range(&self, request: &Request) -> Result<(), Refusal> {
        if request.offset.checked_add(request.length).is_none_or(|end| end > self.size_bytes) {
            let grows = matches!(request.command, Command::Write | Command::WriteZeroes);
            let errno = if grows { Errno::NoSpace } else { Errno::Invalid };
            return Err(Refusal::new(errno, "the range goes beyond the end of the export"));
        }
        match request.command {
            Command::Read | Command::Write if request.length > MAX_PAYLOAD_BYTES.into() => {
                let whole = self.style.extended() || request.has(CMD_FLAG_DF);
                let errno = if whole { Errno::Overflow } else { Errno::Invalid };
                Err(Refusal::new(errno, "a request carries 32 MiB of data at most"))
            }
            Command::WriteZeroes if request.has(CMD_FLAG_FAST_ZERO) => {
                // Zeroes are fast where they make a hole, and only there.
                if self.makes_holes && !request.has(CMD_FLAG_NO_HOLE) {
                    return Ok(());
                }
                Err(Refusal::new(Errno::NotSupported, "these zeroes would be written like data"))
            }
            Command::BlockStatus if request.length == 0 => {
                Err(Refusal::new(Errno::Invalid, "the status of no bytes cannot be told"))
            }
            Command::BlockStatus => self.check_contexts(),
            _ => Ok(()),
        }
    }

    /// Payload bytes that a request needs while it is served.
    pub(super) fn memory_for(&self, request: &Request) -> u64 {
        match request.command {
            Command::Read | Command::Write if request.length > 0 => {
                let blocks = blocks_around(request.offset, request.length);
                blocks.end - blocks.start
            }
            Command::BlockStatus if request.has(CMD_FLAG_PAYLOAD_LEN) => request.length,
            _ => 0,
        }
    }

    /// Serves a request that was checked, with its payload if it has one.
    pub(super) fn serve(self: &Rc<Self>, open: OpenRequest, payload: Option<IoBuf>) {
        let request = open.request;
        match request.command {
            Command::Read => self.tracked.count_read(request.length),
            Command::Write => self.tracked.count_write(request.length),
            _ => {}
        }
        match request.command {
            Command::Flush => self.settle(open, self.session().target().flush()),
            Command::BlockStatus => self.block_status(open, payload),
            Command::Read if request.length == 0 && self.style.chunked() => {
                self.answer(open, |out| out.head(|heads| reply::last_chunk(heads, self.style, &request)));
            }
            _ if request.length == 0 => self.done(open),
            Command::Read => self.read_range(open),
            Command::Write => match payload {
                Some(buf) => self.change(open, Change::Write(buf)),
                None => self.done(open),
            },
            Command::Trim => self.change(open, Change::Discard),
            Command::WriteZeroes => self.change(open, Change::Zeroes { keep_room: request.has(CMD_FLAG_NO_HOLE) }),
            // A hint: there is nothing nearer to bring the range to.
            Command::Cache | Command::Disconnect | Command::Unknown(_) => self.done(open),
        }
    }

    /// Answers with the outcome of `io`, now if it is there.
    fn settle(self: &Rc<Self>, open: OpenRequest, io: Io<()>) {
        match io {
            Io::Ready(Some(outcome)) => self.outcome(open, outcome),
            io => self.spawn(open, async move |connection| connection.session().finish(io).await),
        }
    }

    fn outcome(&self, open: OpenRequest, outcome: Result<(), IoError>) {
        match outcome {
            Ok(()) => self.done(open),
            Err(error) => self.refuse(open, error.into()),
        }
    }

    /// Serves a request in a task of its own.
    fn spawn(self: &Rc<Self>, open: OpenRequest, serve: impl AsyncFnOnce(Rc<Self>) -> Result<(), IoError> + 'static) {
        let connection = self.clone();
        spawn_local(async move {
            let outcome = serve(connection.clone()).await;
            connection.outcome(open, outcome);
        });
    }

    /// Changes the range of a request.
    fn change(self: &Rc<Self>, open: OpenRequest, change: Change) {
        let request = &open.request;
        match self.session().change(request.offset, request.length, change, durability(request)) {
            Started::Answered(outcome) => self.outcome(open, outcome),
            Started::Later(later) => self.spawn(open, async move |connection| connection.session().settle(later).await),
        }
    }

    fn read_range(self: &Rc<Self>, open: OpenRequest) {
        let request = open.request;
        if request.length >= HOLE_LOOKUP_BYTES
            && self.tells_holes.get()
            && !request.has(CMD_FLAG_DF)
            && aligned(&request)
        {
            match self.session().target().extents(request.offset, request.length, READ_EXTENTS) {
                Io::Ready(Some(Ok(extents))) if extents.iter().any(|extent| extent.kind != ExtentKind::Data) => {
                    return self.read_sparse(open, extents);
                }
                Io::Ready(_) => {}
                _ => self.tells_holes.set(false),
            }
        }
        let (at, len) = ((request.offset % BLOCK_BYTES) as usize, request.length as usize);
        match self.session().read(request.offset, request.length) {
            Io::Ready(Some(Ok(buf))) => self.data(open, buf, at, len),
            Io::Ready(Some(Err(error))) => self.refuse(open, error.into()),
            io => {
                let connection = self.clone();
                spawn_local(async move {
                    match connection.session().finish(io).await {
                        Ok(buf) => connection.data(open, buf, at, len),
                        Err(error) => connection.refuse(open, error.into()),
                    }
                });
            }
        }
    }

    /// Reads what is data, and tells the rest.
    fn read_sparse(self: &Rc<Self>, open: OpenRequest, extents: Vec<Extent>) {
        let request = open.request;
        let end = request.offset + request.length;
        let mut at = request.offset;
        let mut parts = Vec::with_capacity(extents.len() + 1);
        // What the target did not tell is read.
        for Extent { len, kind } in extents.into_iter().chain([Extent { len: u64::MAX, kind: ExtentKind::Data }]) {
            let len = len.min(end - at);
            if len > 0 {
                let io = (kind == ExtentKind::Data).then(|| self.session().target().read(at, IoBuf::new(len as usize)));
                parts.push((at, len, io));
            }
            at += len;
        }
        let connection = self.clone();
        spawn_local(async move {
            let mut read = Vec::with_capacity(parts.len());
            for (start, len, io) in parts {
                let buf = match io {
                    None => None,
                    Some(io) => match connection.session().finish(io).await {
                        Ok(buf) => Some(buf),
                        Err(error) => return connection.refuse(open, error.into()),
                    },
                };
                read.push((start, len, buf));
            }
            connection.sparse(open, read);
        });
    }

    /// Answers a read with data and holes.
    fn sparse(&self, open: OpenRequest, parts: Vec<(u64, u64, Option<IoBuf>)>) {
        let (style, request) = (self.style, open.request);
        self.answer(open, |out| {
            let last = parts.len() - 1;
            for (number, (start, len, buf)) in parts.into_iter().enumerate() {
                match buf {
                    None => out.head(|heads| reply::hole(heads, style, &request, start, len as u32, number == last)),
                    Some(buf) => {
                        self.tracked.add_bytes(len);
                        out.head(|heads| reply::data(heads, style, &request, start, len, number == last));
                        out.data(buf.freeze(), 0, len as usize);
                    }
                }
            }
        });
    }

    fn block_status(self: &Rc<Self>, mut open: OpenRequest, payload: Option<IoBuf>) {
        if let Some(payload) = payload {
            let Ok(length) = filter(&payload) else {
                let text = "the list of contexts is malformed, or names one that was not agreed on";
                return self.refuse(open, Refusal::new(Errno::Invalid, text));
            };
            open.request.flags &= !CMD_FLAG_PAYLOAD_LEN;
            open.request.length = length;
            if let Err(refusal) = self.check_range(&open.request) {
                return self.refuse(open, refusal);
            }
        }
        let blocks = blocks_around(open.request.offset, open.request.length);
        let most = if open.request.has(CMD_FLAG_REQ_ONE) { 1 } else { STATUS_EXTENTS };
        match self.session().target().extents(blocks.start, blocks.end - blocks.start, most) {
            Io::Ready(Some(outcome)) => self.status(open, outcome),
            io => {
                let connection = self.clone();
                spawn_local(async move {
                    let outcome = io.await;
                    connection.status(open, outcome);
                });
            }
        }
    }

    fn status(&self, open: OpenRequest, outcome: Result<Vec<Extent>, IoError>) {
        let request = open.request;
        let extents = match outcome {
            Ok(extents) => clip(request.offset, request.length, extents),
            Err(error) => return self.refuse(open, error.into()),
        };
        let extents: Vec<StatusExtent> = extents.into_iter().map(status_extent).collect();
        if extents.is_empty() {
            return self.refuse(open, Refusal::new(Errno::Io, "the target returned no extents"));
        }
        self.answer(open, |out| {
            out.head(|heads| reply::block_status(heads, self.style, &request, BASE_ALLOCATION_ID, &extents));
        });
    }
}

/// Parses the payload of a block status request: the length of the range, and contexts of which only one is known.
fn filter(payload: &[u8]) -> Result<u64, WireError> {
    let mut reader = Reader::new(payload);
    let length = reader.u64_be()?;
    let mut found = false;
    while reader.remaining() > 0 {
        if reader.u32_be()? != BASE_ALLOCATION_ID || std::mem::replace(&mut found, true) {
            return Err(WireError::Value("metadata context"));
        }
    }
    if found { Ok(length) } else { Err(WireError::Short) }
}

/// An extent as the protocol writes it.
fn status_extent(extent: Extent) -> StatusExtent {
    let state = match extent.kind {
        ExtentKind::Data => 0,
        ExtentKind::Hole => STATE_HOLE | STATE_ZERO,
        ExtentKind::Zero => STATE_ZERO,
    };
    StatusExtent { len: extent.len, state }
}
