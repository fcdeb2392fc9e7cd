//! One client's way to a target: bytes to whole 4 KiB blocks.
//!
//! ```text
//!   change of whole blocks    lane ─▶ target                          answered at once, or later
//!   parts of blocks           hold the blocks ─▶ read ─▶ change ─▶ write
//!   end()                     what still waits for its turn never begins
//!   dropped                   what has begun goes on, and others wait for it as before
//! ```
//!
//! Invariant: an object is changed in whole blocks only, and while parts of a block are changed no other change of that
//! block is under way, by whatever session of whatever front end.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::{Either, select};
use holdfast_device::{Durability, Io, IoBuf, IoError, IoErrorKind, IoSlice, Signal, reactor};
use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::blocks::blocks_around;
use crate::exclusion::{Held, Lane, Ticket};
use crate::target::Target;

/// A change of a range of bytes.
pub enum Change {
    /// Data in a buffer as long as the blocks around the range, in which it lies as it lies in them.
    Write(IoBuf),
    /// Zeros; with `keep_room` they take as much room as data would.
    Zeroes {
        /// Whether they do.
        keep_room: bool,
    },
    /// Gives back what whole units of the target's granularity the range covers; the rest stays as it is.
    Discard,
}

/// A change of whole blocks.
enum BlockChange {
    Write(IoSlice),
    Zeroes { keep_room: bool },
    Discard,
    Clone { source: Uuid, from: u64 },
}

/// What became of a change at once.
pub enum Started {
    /// It is over.
    Answered(Result<(), IoError>),
    /// It goes on in [`Session::settle`].
    Later(Later),
}

/// A change that was not answered at once.
#[must_use = "a change that is not settled keeps others waiting"]
pub struct Later {
    durability: Durability,
    step: Step,
}

enum Step {
    /// It has begun or waits for its turn.
    UnderWay(UnderWay),
    /// It waits for its blocks.
    Blocked(Range<u64>, BlockChange),
    /// It covers blocks in part.
    WriteParts(u64, u64, IoBuf),
    ZeroParts(u64, u64, bool),
}

/// A change that has begun or waits for its turn, in its lane or holding its blocks.
struct UnderWay {
    /// Until it is over.
    io: Option<Io<()>>,
    ticket: Option<Ticket>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let (io, ticket) = (self.io.take(), self.ticket.take());
        let begun = io.filter(|io| !matches!(io, Io::Ready(_) | Io::Queued(_)));
        if let Some(io) = begun.filter(|_| reactor::current().is_some()) {
            reactor::spawn_local(async move {
                let _ticket = ticket;
                let _ = io.await;
            });
        }
    }
}

/// What a comparison found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// What was expected.
    Same,
    /// Other bytes, from this one of the range on.
    Differs(u64),
}

/// A client's session with a target.
pub struct Session {
    target: Arc<Target>,
    lane: Arc<Lane>,
    ended: Arc<Signal>,
}

impl Session {
    /// A session of a client that just connected.
    pub fn new(target: Arc<Target>) -> Self {
        let lane = target.exclusion().open_lane();
        Self { target, lane, ended: Arc::default() }
    }

    /// What it is a session with.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Nothing more is to begin: the client has left, or is told to.
    pub fn end(&self) {
        self.ended.raise();
    }

    /// Whether nothing more is to begin.
    pub fn is_ended(&self) -> bool {
        self.ended.raised()
    }

    /// The outcome of a request. If it waits for its turn and the session ends before, it never begins.
    pub async fn finish<T: Unpin>(&self, io: Io<T>) -> Result<T, IoError> {
        self.finish_unless(io, &Cell::new(false)).await
    }

    /// The same of a request that may be given up by itself: if it waits for its turn when `flag` is set, and is polled
    /// then, it never begins.
    pub async fn finish_unless<T: Unpin>(&self, io: Io<T>, flag: &Cell<bool>) -> Result<T, IoError> {
        match io {
            Io::Queued(queued) => self.turn(queued, flag).await?.await,
            io => io.await,
        }
    }

    /// The request that waits for its turn, begun.
    async fn turn<T>(&self, queued: Pin<Box<dyn Future<Output = Io<T>>>>, flag: &Cell<bool>) -> Result<Io<T>, IoError> {
        let mut turn = pin!(select(queued, self.ended.wait()));
        poll_fn(|cx| match flag.get() {
            true => Poll::Ready(Err(given_up())),
            false => turn.as_mut().poll(cx).map(|turn| match turn {
                Either::Left((begun, _)) => Ok(begun),
                Either::Right(_) => Err(given_up()),
            }),
        })
        .await
    }

    /// What a change waits for before it begins; it waits no longer when it is polled after it was given up.
    async fn unless<T>(&self, wait: impl Future<Output = T>, flag: &Cell<bool>) -> Result<T, IoError> {
        let mut wait = pin!(wait);
        poll_fn(|cx| match flag.get() || self.ended.raised() {
            true => Poll::Ready(Err(given_up())),
            false => wait.as_mut().poll(cx).map(Ok),
        })
        .await
    }

    /// The outcome of a change, apart from others until it is over.
    async fn finish_change(&self, mut change: UnderWay, flag: &Cell<bool>) -> Result<(), IoError> {
        if let Some(Io::Queued(_)) = change.io
            && let Some(Io::Queued(queued)) = change.io.take()
        {
            change.io = Some(self.turn(queued, flag).await?);
        }
        let outcome = match &mut change.io {
            Some(io) => io.await,
            None => Ok(()),
        };
        change.io = None;
        outcome
    }

    /// Reads the whole blocks around a range, which begins at `offset % 4096` of the answer.
    pub fn read(&self, offset: u64, len: u64) -> Io<IoBuf> {
        let blocks = blocks_around(offset, len);
        self.target.read(blocks.start, IoBuf::new((blocks.end - blocks.start) as usize))
    }

    /// Starts a change of a range of bytes, which must lie within the size that the client was told.
    pub fn change(&self, offset: u64, len: u64, change: Change, durability: Durability) -> Started {
        let range = offset..offset + len;
        if len == 0 {
            return Started::Answered(Ok(()));
        }
        if let Change::Discard = change {
            let Some(units) = whole_units(range, self.target.discard_granularity()) else {
                return Started::Answered(Ok(()));
            };
            return self.change_blocks(units, BlockChange::Discard, durability);
        }
        let aligned = (offset | len).is_multiple_of(BLOCK_BYTES);
        let later = |step| Started::Later(Later { durability, step });
        match change {
            Change::Write(buf) if aligned => self.change_blocks(range, BlockChange::Write(buf.freeze()), durability),
            Change::Zeroes { keep_room } if aligned => {
                self.change_blocks(range, BlockChange::Zeroes { keep_room }, durability)
            }
            Change::Write(buf) => later(Step::WriteParts(offset, len, buf)),
            Change::Zeroes { keep_room } => later(Step::ZeroParts(offset, len, keep_room)),
            Change::Discard => Started::Answered(Ok(())),
        }
    }

    /// Starts to make whole blocks the same as those of another target's object without moving data, where they share a
    /// domain. None where they do not, or the ranges are not whole blocks, or they overlap.
    pub fn clone_range(&self, source: &Target, from: u64, offset: u64, len: u64) -> Option<Started> {
        let aligned = (from | offset | len).is_multiple_of(BLOCK_BYTES);
        let same = source.object().id() == self.target.object().id();
        let overlap = same && from < offset + len && offset < from + len;
        if !aligned || overlap || !self.target.shares_domain(source) {
            return None;
        }
        if len == 0 {
            return Some(Started::Answered(Ok(())));
        }
        let change = BlockChange::Clone { source: source.object().id(), from };
        Some(self.change_blocks(offset..offset + len, change, Durability::Cached))
    }

    /// The outcome of a change.
    pub async fn settle(&self, later: Later) -> Result<(), IoError> {
        self.settle_unless(later, &Cell::new(false)).await
    }

    /// The same of a change that may be given up by itself, as in [`Session::finish_unless`]. Where it has begun it is
    /// carried to its end, so this must be polled to its end, too.
    pub async fn settle_unless(&self, later: Later, flag: &Cell<bool>) -> Result<(), IoError> {
        let Later { durability, step } = later;
        match step {
            Step::UnderWay(change) => self.finish_change(change, flag).await,
            // Boxed, since they are rare: the future of every change that is not answered at once would be as large.
            Step::Blocked(blocks, change) => Box::pin(self.hold_and_begin(blocks, change, durability, flag)).await,
            Step::WriteParts(offset, len, buf) => Box::pin(self.write_parts(offset, len, buf, durability, flag)).await,
            Step::ZeroParts(offset, len, keep_room) => {
                Box::pin(self.zero_parts(offset, len, keep_room, durability, flag)).await
            }
        }
    }

    async fn hold_and_begin(
        &self,
        blocks: Range<u64>,
        change: BlockChange,
        durability: Durability,
        flag: &Cell<bool>,
    ) -> Result<(), IoError> {
        let held = Arc::new(self.unless(self.target.exclusion().hold(blocks.clone()), flag).await?);
        self.begin_unless(&held, &blocks, change, durability, flag).await
    }

    fn begin(&self, blocks: &Range<u64>, change: BlockChange, durability: Durability) -> Io<()> {
        let (start, len) = (blocks.start, blocks.end - blocks.start);
        match change {
            BlockChange::Write(data) => self.target.write(start, data, durability),
            BlockChange::Discard => self.target.discard(start, len, durability),
            BlockChange::Zeroes { keep_room } => self.target.write_zeroes(start, len, durability, keep_room),
            BlockChange::Clone { source, from } => self.target.clone_range(source, from, start, len),
        }
    }

    /// Changes whole blocks, next to every other change of whole blocks.
    fn change_blocks(&self, blocks: Range<u64>, change: BlockChange, durability: Durability) -> Started {
        let exclusion = self.target.exclusion();
        if !exclusion.enter(&self.lane) {
            return Started::Later(Later { durability, step: Step::Blocked(blocks, change) });
        }
        match self.begin(&blocks, change, durability) {
            Io::Ready(Some(outcome)) => {
                exclusion.leave(&self.lane);
                Started::Answered(outcome)
            }
            io => {
                // What waits for its turn may do so for long: only writes of its own range wait for it.
                let queued = matches!(io, Io::Queued(_));
                let held = queued.then(|| exclusion.move_out(&self.lane, blocks)).flatten();
                let ticket = match held {
                    Some(held) => Ticket::Held { _held: Arc::new(held) },
                    None => Ticket::InLane(self.lane.clone()),
                };
                let change = UnderWay { io: Some(io), ticket: Some(ticket) };
                Started::Later(Later { durability, step: Step::UnderWay(change) })
            }
        }
    }

    /// Begins and finishes a change of blocks that are held, unless it is given up already.
    async fn begin_unless(
        &self,
        held: &Arc<Held>,
        blocks: &Range<u64>,
        change: BlockChange,
        durability: Durability,
        flag: &Cell<bool>,
    ) -> Result<(), IoError> {
        if flag.get() || self.ended.raised() {
            return Err(given_up());
        }
        let io = self.begin(blocks, change, durability);
        let ticket = Some(Ticket::Held { _held: held.clone() });
        self.finish_change(UnderWay { io: Some(io), ticket }, flag).await
    }

    /// Compares a range with what is expected and, where it is that, writes as much data; see [`Session::update`].
    pub async fn compare_and_write(
        &self,
        offset: u64,
        expected: &[u8],
        data: &[u8],
        durability: Durability,
        flag: &Cell<bool>,
    ) -> Result<Compared, IoError> {
        let compare = |found: &mut [u8]| {
            if let Some(differs) = found.iter().zip(expected).position(|(one, other)| one != other) {
                return Some(Compared::Differs(differs as u64));
            }
            found.copy_from_slice(data);
            None
        };
        let refused = self.update(offset, expected.len() as u64, durability, flag, compare).await?;
        Ok(refused.unwrap_or(Compared::Same))
    }

    /// Reads a range, has it changed and writes it, unless `change` answers why not. No other change of its blocks is
    /// under way meanwhile, by whatever session of whatever front end. It may be given up by itself, as in
    /// [`Session::finish_unless`].
    pub async fn update<R>(
        &self,
        offset: u64,
        len: u64,
        durability: Durability,
        flag: &Cell<bool>,
        change: impl FnOnce(&mut [u8]) -> Option<R>,
    ) -> Result<Option<R>, IoError> {
        let blocks = blocks_around(offset, len);
        let held = Arc::new(self.unless(self.target.exclusion().hold_partial(blocks.clone()), flag).await?);
        let buf = IoBuf::new((blocks.end - blocks.start) as usize);
        let mut buf = self.finish_unless(self.target.read(blocks.start, buf), flag).await?;
        let before = (offset - blocks.start) as usize;
        if let Some(refused) = change(&mut buf[before..before + len as usize]) {
            return Ok(Some(refused));
        }
        self.begin_unless(&held, &blocks, BlockChange::Write(buf.freeze()), durability, flag).await?;
        Ok(None)
    }

    async fn read_block(&self, at: u64) -> Result<IoBuf, IoError> {
        self.finish(self.target.read(at, IoBuf::new(BLOCK_BYTES as usize))).await
    }

    /// Writes a payload that lies in `buf` as it lies in its blocks, of which the first and the last are covered in
    /// part.
    async fn write_parts(
        &self,
        offset: u64,
        len: u64,
        mut buf: IoBuf,
        durability: Durability,
        flag: &Cell<bool>,
    ) -> Result<(), IoError> {
        let blocks = blocks_around(offset, len);
        let held = Arc::new(self.unless(self.target.exclusion().hold_partial(blocks.clone()), flag).await?);
        let before = (offset - blocks.start) as usize;
        let behind = before + len as usize;
        let last = blocks.end - BLOCK_BYTES;
        let mut first_block = None;
        if before > 0 {
            let block = self.read_block(blocks.start).await?;
            buf[..before].copy_from_slice(&block[..before]);
            first_block = Some(block);
        }
        if behind < buf.len() {
            let block = match first_block {
                Some(block) if last == blocks.start => block,
                _ => self.read_block(last).await?,
            };
            let in_block = behind - (last - blocks.start) as usize;
            buf[behind..].copy_from_slice(&block[in_block..]);
        }
        self.begin_unless(&held, &blocks, BlockChange::Write(buf.freeze()), durability, flag).await
    }

    /// Zeroes a range of which the first and the last block are covered in part.
    async fn zero_parts(
        &self,
        offset: u64,
        len: u64,
        keep_room: bool,
        durability: Durability,
        flag: &Cell<bool>,
    ) -> Result<(), IoError> {
        let blocks = blocks_around(offset, len);
        let held = Arc::new(self.unless(self.target.exclusion().hold_partial(blocks.clone()), flag).await?);
        let (from, to) = (offset, offset + len);
        let whole = whole_units(from..to, BLOCK_BYTES);
        let (first, last) = (blocks.start, blocks.end - BLOCK_BYTES);
        let is_whole = |block: &u64| whole.as_ref().is_some_and(|whole| whole.contains(block));
        let parts = [Some(first), (last != first).then_some(last)];
        for block in parts.into_iter().flatten().filter(|block| !is_whole(block)) {
            let mut buf = self.read_block(block).await?;
            let cut = (from.max(block) - block) as usize..(to.min(block + BLOCK_BYTES) - block) as usize;
            buf[cut].fill(0);
            let change = BlockChange::Write(buf.freeze());
            self.begin_unless(&held, &(block..block + BLOCK_BYTES), change, durability, flag).await?;
        }
        let Some(whole) = whole else { return Ok(()) };
        self.begin_unless(&held, &whole, BlockChange::Zeroes { keep_room }, durability, flag).await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.target.exclusion().close_lane(&self.lane);
    }
}

fn given_up() -> IoError {
    IoError::new(IoErrorKind::GivenUp, "the request waited for its turn")
}

/// The whole units of this size within a range, if there are any.
fn whole_units(range: Range<u64>, unit: u64) -> Option<Range<u64>> {
    let start = range.start.checked_next_multiple_of(unit)?;
    let end = range.end / unit * unit;
    (start < end).then_some(start..end)
}
