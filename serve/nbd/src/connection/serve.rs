//! Requests: checked, and handed to the target.
//!
//! Invariant: a request reaches the target in whole 4 KiB blocks within the size, and changes nothing unless all of it
//! is allowed.

use std::borrow::Cow;
use std::rc::Rc;

use futures_util::future::{Either, select};
use holdfast_device::reactor::spawn_local;
use holdfast_device::{Durability, Extent, ExtentKind, Io, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::wire::{Reader, WireError};

use super::{Connection, Ticket};
use crate::protocol::constants::*;
use crate::protocol::reply::{self, StatusExtent};
use crate::protocol::{Command, Errno, Request};

const BLOCK: u64 = 4096;
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

/// A change of whole blocks.
enum BlockWrite {
    Write(IoSlice),
    Discard,
    Zero { keep_room: bool },
}

fn durability(request: &Request) -> Durability {
    if request.has(CMD_FLAG_FUA) { Durability::Durable } else { Durability::Cached }
}

/// The range in whole blocks around a request.
fn around(request: &Request) -> (u64, u64) {
    let start = request.offset / BLOCK * BLOCK;
    (start, (request.offset + request.length).next_multiple_of(BLOCK))
}

fn aligned(request: &Request) -> bool {
    (request.offset | request.length).is_multiple_of(BLOCK)
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
                let (start, end) = around(request);
                end - start
            }
            Command::BlockStatus if request.has(CMD_FLAG_PAYLOAD_LEN) => request.length,
            _ => 0,
        }
    }

    /// Serves a request that was checked, with its payload if it has one.
    pub(super) fn serve(self: &Rc<Self>, ticket: Ticket, payload: Option<IoBuf>) {
        let request = ticket.request;
        self.tracked.count(&request);
        match request.command {
            Command::Flush => self.settle(ticket, self.target().flush()),
            Command::BlockStatus => self.block_status(ticket, payload),
            Command::Read if request.length == 0 && self.style.chunked() => {
                self.answer(ticket, |out| out.head(|heads| reply::last_chunk(heads, self.style, &request)));
            }
            _ if request.length == 0 => self.done(ticket),
            Command::Read => self.read_range(ticket),
            Command::Write => match payload {
                Some(buf) if aligned(&request) => {
                    self.change(ticket, request.offset, request.length, BlockWrite::Write(buf.freeze()));
                }
                Some(buf) => self.spawn(ticket, async move |connection| connection.write_parts(&request, buf).await),
                None => self.done(ticket),
            },
            Command::Trim => {
                // Parts of blocks stay as they are: a trim is a hint.
                let start = request.offset.next_multiple_of(BLOCK);
                let end = (request.offset + request.length) / BLOCK * BLOCK;
                match end.checked_sub(start) {
                    Some(len) if len > 0 => self.change(ticket, start, len, BlockWrite::Discard),
                    _ => self.done(ticket),
                }
            }
            Command::WriteZeroes if aligned(&request) => {
                let keep_room = request.has(CMD_FLAG_NO_HOLE);
                self.change(ticket, request.offset, request.length, BlockWrite::Zero { keep_room });
            }
            Command::WriteZeroes => {
                self.spawn(ticket, async move |connection| connection.zero_parts(&request).await);
            }
            Command::Cache => {
                let (start, end) = around(&request);
                self.settle(ticket, self.target().cache(start, end - start));
            }
            Command::Disconnect | Command::Unknown(_) => self.done(ticket),
        }
    }

    fn target(&self) -> &dyn holdfast_device::Target {
        self.attachment.export().target()
    }

    /// Answers with the outcome of `io`, now if it is there.
    fn settle(self: &Rc<Self>, ticket: Ticket, io: Io<()>) {
        match io {
            Io::Ready(Some(outcome)) => self.outcome(ticket, outcome),
            io => self.spawn(ticket, async move |connection| connection.finish(io).await),
        }
    }

    /// The outcome of `io`. If it waits for its turn and the connection ends before, it never begins.
    async fn finish<T: Unpin>(&self, io: Io<T>) -> Result<T, IoError> {
        let Io::Queued(turn) = io else { return io.await };
        match select(turn, self.ending.wait()).await {
            Either::Left((begun, _)) => begun.await,
            Either::Right(_) => Err(IoError::new(IoErrorKind::GivenUp, "the request waited for its turn")),
        }
    }

    fn outcome(&self, ticket: Ticket, outcome: Result<(), IoError>) {
        match outcome {
            Ok(()) => self.done(ticket),
            Err(error) => self.refuse(ticket, error.into()),
        }
    }

    /// Serves a request in a task of its own.
    fn spawn(self: &Rc<Self>, ticket: Ticket, serve: impl AsyncFnOnce(Rc<Self>) -> Result<(), IoError> + 'static) {
        let connection = self.clone();
        spawn_local(async move {
            let outcome = serve(connection.clone()).await;
            connection.outcome(ticket, outcome);
        });
    }

    fn start(&self, request: &Request, start: u64, len: u64, change: BlockWrite) -> Io<()> {
        let durability = durability(request);
        match change {
            BlockWrite::Write(data) => self.target().write(start, data, durability),
            BlockWrite::Discard => self.target().discard(start, len, durability),
            BlockWrite::Zero { keep_room } => self.target().write_zeroes(start, len, durability, keep_room),
        }
    }

    /// Changes whole blocks, next to every other change of whole blocks.
    fn change(self: &Rc<Self>, ticket: Ticket, start: u64, len: u64, change: BlockWrite) {
        let exclusion = self.attachment.export().exclusion();
        if !exclusion.enter(self.attachment.lane()) {
            return self.spawn(ticket, async move |connection| {
                let _held = connection.attachment.export().exclusion().hold(start..start + len).await;
                connection.finish(connection.start(&ticket.request, start, len, change)).await
            });
        }
        match self.start(&ticket.request, start, len, change) {
            Io::Ready(Some(outcome)) => {
                exclusion.leave(self.attachment.lane());
                self.outcome(ticket, outcome);
            }
            io => {
                // What waits for its turn may do so for long: only writes of its own range wait for it.
                let queued = matches!(io, Io::Queued(_));
                let held = queued.then(|| exclusion.move_out(self.attachment.lane(), start..start + len)).flatten();
                self.spawn(ticket, async move |connection| {
                    let outcome = connection.finish(io).await;
                    if held.is_none() {
                        connection.attachment.export().exclusion().leave(connection.attachment.lane());
                    }
                    outcome
                });
            }
        }
    }

    /// Reads the block at `at` into `buf`.
    async fn read_block(&self, at: u64) -> Result<IoBuf, IoError> {
        self.finish(self.target().read(at, IoBuf::new(BLOCK as usize))).await
    }

    /// Writes a payload that lies in `buf` as it lies in its blocks, of which the first and the last are covered in part.
    async fn write_parts(&self, request: &Request, mut buf: IoBuf) -> Result<(), IoError> {
        let (start, end) = around(request);
        let _held = self.attachment.export().exclusion().hold_partial(start..end).await;
        let before = (request.offset - start) as usize;
        let behind = before + request.length as usize;
        let last = end - BLOCK;
        let mut first_block = None;
        if before > 0 {
            let block = self.read_block(start).await?;
            buf[..before].copy_from_slice(&block[..before]);
            first_block = Some(block);
        }
        if behind < buf.len() {
            let block = match first_block {
                Some(block) if last == start => block,
                _ => self.read_block(last).await?,
            };
            let in_block = behind - (last - start) as usize;
            buf[behind..].copy_from_slice(&block[in_block..]);
        }
        self.finish(self.start(request, start, end - start, BlockWrite::Write(buf.freeze()))).await
    }

    /// Zeroes a range of which the first and the last block are covered in part.
    async fn zero_parts(&self, request: &Request) -> Result<(), IoError> {
        let (start, end) = around(request);
        let _held = self.attachment.export().exclusion().hold_partial(start..end).await;
        let (from, to) = (request.offset, request.offset + request.length);
        let whole = from.next_multiple_of(BLOCK)..(to / BLOCK * BLOCK);
        let mut partial = [Some(start), Some(end - BLOCK)];
        if start == end - BLOCK {
            partial[1] = None;
        }
        for block in partial.into_iter().flatten().filter(|block| !whole.contains(block)) {
            let mut buf = self.read_block(block).await?;
            let cut = (from.max(block) - block) as usize..(to.min(block + BLOCK) - block) as usize;
            buf[cut].fill(0);
            self.finish(self.start(request, block, BLOCK, BlockWrite::Write(buf.freeze()))).await?;
        }
        if whole.is_empty() {
            return Ok(());
        }
        let keep_room = request.has(CMD_FLAG_NO_HOLE);
        self.finish(self.start(request, whole.start, whole.end - whole.start, BlockWrite::Zero { keep_room })).await
    }

    fn read_range(self: &Rc<Self>, ticket: Ticket) {
        let request = ticket.request;
        let (start, end) = around(&request);
        if request.length >= HOLE_LOOKUP_BYTES && self.tells_holes.get() && !request.has(CMD_FLAG_DF) && aligned(&request) {
            match self.target().extents(start, end - start, READ_EXTENTS) {
                Io::Ready(Some(Ok(extents))) if extents.iter().any(|extent| extent.kind != ExtentKind::Data) => {
                    return self.read_sparse(ticket, extents);
                }
                Io::Ready(_) => {}
                _ => self.tells_holes.set(false),
            }
        }
        let (at, len) = ((request.offset - start) as usize, request.length as usize);
        match self.target().read(start, IoBuf::new((end - start) as usize)) {
            Io::Ready(Some(Ok(buf))) => self.data(ticket, buf, at, len),
            Io::Ready(Some(Err(error))) => self.refuse(ticket, error.into()),
            io => {
                let connection = self.clone();
                spawn_local(async move {
                    match connection.finish(io).await {
                        Ok(buf) => connection.data(ticket, buf, at, len),
                        Err(error) => connection.refuse(ticket, error.into()),
                    }
                });
            }
        }
    }

    /// Reads what is data, and tells the rest.
    fn read_sparse(self: &Rc<Self>, ticket: Ticket, extents: Vec<Extent>) {
        let request = ticket.request;
        let end = request.offset + request.length;
        let mut at = request.offset;
        let mut parts = Vec::with_capacity(extents.len() + 1);
        // What the target did not tell is read.
        for Extent { len, kind } in extents.into_iter().chain([Extent { len: u64::MAX, kind: ExtentKind::Data }]) {
            let len = len.min(end - at);
            if len > 0 {
                let io = (kind == ExtentKind::Data).then(|| self.target().read(at, IoBuf::new(len as usize)));
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
                    Some(io) => match connection.finish(io).await {
                        Ok(buf) => Some(buf),
                        Err(error) => return connection.refuse(ticket, error.into()),
                    },
                };
                read.push((start, len, buf));
            }
            connection.sparse(ticket, read);
        });
    }

    /// Answers a read with data and holes.
    fn sparse(&self, ticket: Ticket, parts: Vec<(u64, u64, Option<IoBuf>)>) {
        let (style, request) = (self.style, ticket.request);
        self.answer(ticket, |out| {
            let last = parts.len() - 1;
            for (number, (start, len, buf)) in parts.into_iter().enumerate() {
                match buf {
                    None => out.head(|heads| reply::hole(heads, style, &request, start, len as u32, number == last)),
                    Some(buf) => {
                        self.tracked.add_bytes(len);
                        out.head(|heads| reply::data(heads, style, &request, start, len, number == last));
                        out.data(buf, 0, len as usize);
                    }
                }
            }
        });
    }

    fn block_status(self: &Rc<Self>, mut ticket: Ticket, payload: Option<IoBuf>) {
        if let Some(payload) = payload {
            let Ok(length) = filter(&payload) else {
                let text = "the list of contexts is malformed, or names one that was not agreed on";
                return self.refuse(ticket, Refusal::new(Errno::Invalid, text));
            };
            ticket.request.flags &= !CMD_FLAG_PAYLOAD_LEN;
            ticket.request.length = length;
            if let Err(refusal) = self.check_range(&ticket.request) {
                return self.refuse(ticket, refusal);
            }
        }
        let (start, end) = around(&ticket.request);
        let most = if ticket.request.has(CMD_FLAG_REQ_ONE) { 1 } else { STATUS_EXTENTS };
        match self.target().extents(start, end - start, most) {
            Io::Ready(Some(outcome)) => self.status(ticket, outcome),
            io => {
                let connection = self.clone();
                spawn_local(async move {
                    let outcome = io.await;
                    connection.status(ticket, outcome);
                });
            }
        }
    }

    fn status(&self, ticket: Ticket, outcome: Result<Vec<Extent>, IoError>) {
        let request = ticket.request;
        let extents = match outcome {
            Ok(extents) => clip(&request, extents),
            Err(error) => return self.refuse(ticket, error.into()),
        };
        if extents.is_empty() {
            return self.refuse(ticket, Refusal::new(Errno::Io, "the target told no extents"));
        }
        self.answer(ticket, |out| {
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

/// The extents of the blocks around a request, as those of the request.
fn clip(request: &Request, extents: Vec<Extent>) -> Vec<StatusExtent> {
    let mut skip = request.offset % BLOCK;
    let mut left = request.length;
    let mut clipped: Vec<StatusExtent> = Vec::with_capacity(extents.len());
    for extent in extents {
        let len = extent.len.saturating_sub(skip).min(left);
        skip = skip.saturating_sub(extent.len);
        left -= len;
        let state = match extent.kind {
            ExtentKind::Data => 0,
            ExtentKind::Hole => STATE_HOLE | STATE_ZERO,
            ExtentKind::Zero => STATE_ZERO,
        };
        match clipped.last_mut() {
            _ if len == 0 => {}
            Some(last) if last.state == state => last.len += len,
            _ => clipped.push(StatusExtent { len, state }),
        }
    }
    clipped
}
