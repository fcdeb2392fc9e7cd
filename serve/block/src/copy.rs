//! Copies between objects inside the server, and inside one.
//!
//! ```text
//!   pieces ─▶ plan ─▶ clone            whole blocks of one domain: no data moves
//!                 ├─▶ zeroes           where the source has a hole
//!                 └─▶ read ─▶ write    chunks, several at once, as memory allows
//! ```
//!
//! Everything goes through the sessions of source and destination, so exclusion, limits, counters and watched ranges
//! see a copy as they see any client.
//!
//! Invariants: all copies together hold no more memory than they are given. What is counted as done is done, from the
//! first byte on without a gap, and is what the source held while it was said to hold.

mod plan;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use holdfast_device::{Durability, IoBuf, IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;
use tokio::sync::Semaphore;

use crate::blocks::blocks_around;
use crate::session::{Change, Session, Started};
use plan::{Plan, Step};

/// How much a copy does at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySettings {
    /// The largest read and write.
    pub chunk_bytes: u64,
    /// Of one copy under way at once.
    pub in_flight_bytes: u64,
    /// Of all copies under way at once.
    pub memory_bytes: u64,
}

impl Default for CopySettings {
    fn default() -> Self {
        Self { chunk_bytes: 1 << 20, in_flight_bytes: 8 << 20, memory_bytes: 64 << 20 }
    }
}

/// Operations of one copy under way at once, at most.
const OPERATIONS: usize = 64;

/// A range of bytes, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it lies in the source.
    pub from: u64,
    /// Where it goes in the destination.
    pub to: u64,
    /// Its length.
    pub len: u64,
}

/// Why a copy ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The source could not be read.
    Source(IoError),
    /// The destination could not be written.
    Destination(IoError),
    /// The source does not hold any more what was to be copied.
    Changed,
    /// Somebody wants it no more.
    Aborted,
}

/// How far a copy is, and whether it is to go on.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    operations: AtomicU64,
    aborted: AtomicBool,
}

impl Progress {
    /// Bytes that are done, from the first on.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Reads and writes that ended.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// So many more bytes are done, by other means than a copy.
    pub fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends the copy as soon as what is under way has ended.
    pub fn abort(&self) {
        self.aborted.store(true, Ordering::Relaxed);
    }

    /// Whether it is to end.
    pub fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Relaxed)
    }
}

/// What a copy is of: nothing but zeros, or the data of an object for as long as it holds.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// Zeros.
    Zeros,
    /// Data, which is right where this says so after it was read.
    Data(&'a Session, &'a dyn Fn() -> bool),
}

/// What is to be copied.
pub struct Order<'a> {
    /// From where.
    pub source: Source<'a>,
    /// To where.
    pub destination: &'a Session,
    /// Which ranges, the first first. No two of them have a byte of the destination in common, and none writes what
    /// another reads; a piece whose own ranges overlap is copied as if through a buffer.
    pub pieces: &'a [Piece],
    /// What is done of it when it ends well.
    pub durability: Durability,
    /// Whether nobody wants it any more; asked between any two steps.
    pub stop: &'a dyn Fn() -> bool,
}

/// Bytes that are done without a gap.
#[derive(Default)]
struct Prefix {
    done: u64,
    beyond: BTreeMap<u64, u64>,
}

impl Prefix {
    fn add(&mut self, at: u64, len: u64) -> u64 {
        self.beyond.insert(at, len);
        while let Some(entry) = self.beyond.first_entry().filter(|entry| *entry.key() == self.done) {
            self.done += entry.remove();
        }
        self.done
    }
}

/// Copies, within one budget of memory.
pub struct Copier {
    settings: CopySettings,
    /// Blocks of memory.
    memory: Semaphore,
}

impl Copier {
    /// A copier with its budget.
    pub fn new(settings: CopySettings) -> Arc<Self> {
        let blocks = settings.memory_bytes.max(2 * settings.chunk_bytes) / BLOCK_BYTES;
        let blocks = usize::try_from(blocks).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Arc::new(Self { settings, memory: Semaphore::new(blocks) })
    }

    /// Carries out an order.
    ///
    /// # Errors
    /// Why it ended early. [`Progress`] says how far it came.
    pub async fn copy(&self, order: &Order<'_>, progress: &Progress) -> Result<(), CopyError> {
        let Order { source, destination, pieces, durability, stop } = *order;
        let mut plan = Plan::new(source, destination, pieces, self.settings.chunk_bytes);
        let mut running = FuturesUnordered::new();
        let (mut prefix, mut in_flight) = (Prefix { done: progress.done(), ..Prefix::default() }, 0);
        let mut at = prefix.done;
        let (mut failed, mut ended) = (None, Vec::new());
        let before = progress.done();
        loop {
            while failed.is_none() && in_flight < self.settings.in_flight_bytes && running.len() < OPERATIONS {
                if progress.is_aborted() || stop() || destination.is_ended() {
                    failed = Some(CopyError::Aborted);
                    break;
                }
                // What is under way goes on meanwhile: it may hold what the plan waits for.
                let next = {
                    let mut planning = pin!(plan.next());
                    loop {
                        if running.is_empty() {
                            break planning.await;
                        }
                        match select(planning.as_mut(), running.next()).await {
                            Either::Left((next, _)) => break next,
                            Either::Right((step, _)) => ended.extend(step),
                        }
                    }
                };
                match next {
                    Ok(None) => break,
                    Ok(Some((step, len))) => {
                        let (first, memory) = (at, step.memory());
                        at += len;
                        in_flight += memory;
                        running.push(async move {
                            (first, len, memory, self.step(source, destination, step, progress).await)
                        });
                    }
                    Err(error) => failed = Some(error),
                }
            }
            let step = match ended.pop() {
                Some(step) => Some(step),
                None => running.next().await,
            };
            let Some((first, len, memory, outcome)) = step else { break };
            in_flight -= memory;
            match outcome {
                Ok(()) => progress.done.store(prefix.add(first, len), Ordering::Relaxed),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        // What is told to be done is done, also where the rest is not.
        if durability == Durability::Durable && (failed.is_none() || progress.done() > before) {
            let flushed = destination.finish(destination.target().flush()).await.map_err(CopyError::Destination);
            return failed.map_or(flushed, Err);
        }
        failed.map_or(Ok(()), Err)
    }

    async fn step(
        &self,
        source: Source<'_>,
        destination: &Session,
        step: Step,
        progress: &Progress,
    ) -> Result<(), CopyError> {
        match step {
            Step::Zeroes { to, len, keep_room } => {
                change(destination, to, len, Change::Zeroes { keep_room }, progress).await
            }
            Step::Data(piece) => self.data(source, destination, piece, progress).await,
            Step::Slide(piece) => self.slide(source, destination, piece, progress).await,
            Step::Clone(piece) => {
                let Source::Data(from, holds) = source else { return Ok(()) };
                let started = destination.clone_range(from.target(), piece.from, piece.to, piece.len);
                let cloned = match started {
                    Some(started) => settle(destination, started, progress).await,
                    None => Err(IoError::invalid("clone between objects that share no domain")),
                };
                match cloned {
                    Ok(()) if holds() => Ok(()),
                    Ok(()) => Err(CopyError::Changed),
                    // They are of one domain, but cannot be cloned now.
                    Err(error) if error.kind == IoErrorKind::Invalid => {
                        self.slide(source, destination, piece, progress).await
                    }
                    Err(error) => Err(CopyError::Destination(error)),
                }
            }
        }
    }

    async fn data(
        &self,
        source: Source<'_>,
        destination: &Session,
        piece: Piece,
        progress: &Progress,
    ) -> Result<(), CopyError> {
        let Source::Data(from, holds) = source else { return Ok(()) };
        let span = blocks_around(piece.from, piece.len);
        let blocks = u32::try_from((span.end - span.start) / BLOCK_BYTES).unwrap_or(u32::MAX);
        let _memory = self.memory.acquire_many(blocks).await.map_err(|_| CopyError::Aborted)?;
        let buf = from.finish(from.read(piece.from, piece.len)).await.map_err(CopyError::Source)?;
        progress.operations.fetch_add(1, Ordering::Relaxed);
        if !holds() {
            return Err(CopyError::Changed);
        }
        change(destination, piece.to, piece.len, Change::Write(shifted(buf, piece)), progress).await
    }

    /// Copies a piece whose ranges overlap, from the end that no write of it touches before it is read.
    async fn slide(
        &self,
        source: Source<'_>,
        destination: &Session,
        piece: Piece,
        progress: &Progress,
    ) -> Result<(), CopyError> {
        let mut done = 0;
        while done < piece.len {
            if progress.is_aborted() {
                return Err(CopyError::Aborted);
            }
            let len = self.settings.chunk_bytes.min(piece.len - done);
            let skip = if piece.to > piece.from { piece.len - done - len } else { done };
            let chunk = Piece { from: piece.from + skip, to: piece.to + skip, len };
            self.data(source, destination, chunk, progress).await?;
            done += len;
        }
        Ok(())
    }
}

async fn settle(session: &Session, started: Started, progress: &Progress) -> Result<(), IoError> {
    let outcome = match started {
        Started::Answered(outcome) => outcome,
        Started::Later(later) => session.settle(later).await,
    };
    progress.operations.fetch_add(1, Ordering::Relaxed);
    outcome
}

async fn change(session: &Session, to: u64, len: u64, change: Change, progress: &Progress) -> Result<(), CopyError> {
    let started = session.change(to, len, change, Durability::Cached);
    settle(session, started, progress).await.map_err(CopyError::Destination)
}

/// A buffer with blocks of the source, as one with blocks of the destination. The same where the piece lies in both
/// alike.
fn shifted(buf: IoBuf, piece: Piece) -> IoBuf {
    let (from, to) = ((piece.from % BLOCK_BYTES) as usize, (piece.to % BLOCK_BYTES) as usize);
    if from == to {
        return buf;
    }
    let span = blocks_around(piece.to, piece.len);
    let len = piece.len as usize;
    let mut shifted = IoBuf::new((span.end - span.start) as usize);
    shifted[to..to + len].copy_from_slice(&buf[from..from + len]);
    shifted
}
