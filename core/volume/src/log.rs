//! The log: transactions in order, in a ring of frames of 4 KiB.
//!
//! ```text
//!   frame   | magic, CRC, volume, epoch, sequence, CRC of the frame before, n of m | payload |
//!   batch   m frames, written together, with the transactions that waited
//!   mark    a batch without transactions, with which the log of a root begins
//!
//!   ── root 7 ──▶ mark │ batches ── root 8 ──▶ mark │ batches ── now
//!   └────────── kept as long as root 8 is the newest ──────────┘
//! ```
//!
//! Whoever needs durability first writes for all who wait. Records carry checksums of little data that they name, so
//! that data becomes durable while they are written, not before ([`crate::unsettled`]). A checkpoint writes what waits,
//! too, before it marks where the log of its root begins: if that root is lost, the one before and the log lead to the
//! same trees.
//!
//! Invariants: a batch counts only if all its frames are whole and continue what stands before them, in an epoch that is
//! not before theirs; of its records those count up to the first whose data is not what it says, if no frame says that its
//! data is settled. A frame that one of the two newest durable roots needs is not written over. A transaction that is
//! not in the log before the mark of the next one is followed by a mark that says so before it counts as durable.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join;
use holdfast_device::{Durability, IoBuf};
use holdfast_model::wire::{Reader, WireError, Writer};
use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::error::VolumeError;
use crate::flush::DataFlush;
use crate::media::Media;
use crate::page::crc_of;
use crate::superblock::{LogStart, MOST_COUNTED, Superblock};
use crate::transaction::{BlockSum, MOST_LOGGED, MOST_SUMS, Operation, Transaction};
use crate::unsettled::Unsettled;

const MAGIC: u32 = u32::from_le_bytes(*b"HFvL");
pub(crate) const FRAME: usize = BLOCK_BYTES as usize;
pub(crate) const HEADER: usize = 64;
const PAYLOAD: usize = FRAME - HEADER;
/// Frames of a batch, at most.
pub(crate) const MOST_FRAMES: usize = 128;
/// Frames that are kept for marks.
const MARK_FRAMES: u64 = 8;

/// A transaction that waits to be logged.
struct Waiting {
    record: Vec<u8>,
    /// The data write that must be durable with it.
    after: u64,
    /// Whether it carries the checksums of that data, and need not wait for it.
    is_proven: bool,
}

/// What waits to be logged.
#[derive(Default)]
struct Pending {
    records: VecDeque<Waiting>,
    /// Bytes of all of them.
    bytes: usize,
    /// The number of the first of them.
    first: u64,
    /// Transactions up to this one are durable.
    durable: u64,
}

impl Pending {
    fn last(&self) -> u64 {
        self.first + self.records.len() as u64 - 1
    }
}

/// Where the next batch goes.
pub(crate) struct Lane {
    epoch: u64,
    next: u64,
    previous: u32,
    /// The first frame that the newest durable root needs.
    newest: u64,
    /// The first frame that the root before it needs: what is before it is written over.
    tail: u64,
    /// The data that transactions up to this one name is durable.
    settled: u64,
}

/// Transactions that are written together.
struct Batch {
    payload: Vec<u8>,
    /// The last of them, or the last one before.
    last: u64,
    /// The data write that must be durable with them.
    after: u64,
    /// Whether all of them that need data that is not durable carry its checksums.
    is_proven: bool,
}

/// Whether what was asked for is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Synced {
    Durable,
    /// The log has no room before the next checkpoint.
    Full,
}

/// The log.
pub(crate) struct Log {
    /// Where its frames are, and where the data is that records name.
    pub(super) media: Media,
    pub(super) of_data: Media,
    pub(super) volume: Uuid,
    pub(super) at: u64,
    pub(super) frames: u64,
    data: Arc<DataFlush>,
    lane: tokio::sync::Mutex<Lane>,
    /// Frames that were written since the last cut.
    written: AtomicU64,
    pending: Mutex<Pending>,
    unsettled: Unsettled,
}

impl Log {
    /// The log that goes on at `start`. A root needs its frames from `tail` on.
    pub fn new(
        media: Media,
        data: Arc<DataFlush>,
        superblock: &Superblock,
        epoch: u64,
        (start, tail): (LogStart, u64),
    ) -> Self {
        let LogStart { sequence, previous, applied } = start;
        Self {
            media: media.for_metadata(superblock),
            of_data: media,
            volume: superblock.volume,
            at: superblock.log_at(),
            frames: superblock.log_frames(),
            data,
            lane: tokio::sync::Mutex::new(Lane {
                epoch,
                next: sequence,
                previous,
                newest: tail,
                tail,
                settled: applied,
            }),
            written: AtomicU64::new(0),
            pending: Mutex::new(Pending { first: applied + 1, durable: applied, ..Pending::default() }),
            unsettled: Unsettled::default(),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a transaction, in the order in which the trees took it. It must not last longer than the data writes up to
    /// `after`. Answers its number.
    pub fn append(&self, transaction: &Transaction, after: u64) -> u64 {
        let record = encode(transaction);
        let mut pending = self.pending();
        pending.bytes += record.len();
        let is_proven = !transaction.sums.is_empty();
        pending.records.push_back(Waiting { record, after, is_proven });
        let number = pending.last();
        self.unsettled.note(&transaction.sums, number);
        number
    }

    /// Whether one more transaction may carry checksums of its data.
    pub fn may_prove(&self) -> bool {
        self.unsettled.has_room()
    }

    /// The number of the last transaction.
    pub fn last(&self) -> u64 {
        self.pending().last()
    }

    /// Whether so much was logged since the last cut, or waits to be, that a checkpoint pays: the log has room for what
    /// three of them leave.
    pub fn is_due(&self) -> bool {
        let waiting = (self.pending().bytes / PAYLOAD) as u64;
        self.written.load(Ordering::Relaxed) + waiting > self.frames / 4
    }

    /// Makes all transactions up to one durable, with the data that they name.
    pub async fn sync(&self, until: u64) -> Result<Synced, VolumeError> {
        loop {
            if self.pending().durable >= until {
                return Ok(Synced::Durable);
            }
            let mut lane = self.lane.lock().await;
            if self.pending().durable >= until {
                return Ok(Synced::Durable);
            }
            if self.write_batch(&mut lane, u64::MAX, false).await? == Synced::Full {
                return Ok(Synced::Full);
            }
        }
    }

    /// Whether all transactions up to one are durable.
    #[cfg(test)]
    pub fn is_synced(&self, until: u64) -> bool {
        self.pending().durable >= until
    }

    /// Whether no record in the log proves one of these blocks.
    pub fn is_settled(&self, place: u64, blocks: u64) -> bool {
        !self.unsettled.has(place, blocks)
    }

    /// Has the log say that these blocks are settled, so that they may be written over.
    pub async fn settle_blocks(&self, place: u64, blocks: u64) -> Result<Synced, VolumeError> {
        while !self.is_settled(place, blocks) {
            let mut lane = self.lane.lock().await;
            if !self.is_settled(place, blocks) && self.write_batch(&mut lane, u64::MAX, true).await? == Synced::Full {
                return Ok(Synced::Full);
            }
        }
        Ok(Synced::Durable)
    }

    /// Writes what waits up to one transaction, as much as fits into a batch. `settles` has the batch say that all its
    /// data is settled, and writes one also where nothing waits.
    async fn write_batch(&self, lane: &mut Lane, until: u64, settles: bool) -> Result<Synced, VolumeError> {
        let room = (self.frames - (lane.next - lane.tail)).saturating_sub(MARK_FRAMES);
        let Some(batch) = self.batch(room, until, settles) else { return Ok(Synced::Full) };
        if settles || !batch.is_proven {
            self.data.flush(batch.after).await?;
        }
        if self.data.is_flushed(batch.after) {
            lane.settled = batch.last;
        }
        // Both come to their end: what is being written must not be left to itself.
        let (written, flushed) = join(self.write(lane, &batch.payload), self.data.flush(batch.after)).await;
        written.and(flushed)?;
        self.unsettled.settle(lane.settled);
        lane.settled = batch.last;
        self.settle(batch.last);
        Ok(Synced::Durable)
    }

    /// The next batch; `None` where not even one transaction fits, or nothing where that is wanted.
    fn batch(&self, room: u64, until: u64, may_be_empty: bool) -> Option<Batch> {
        let most = PAYLOAD * MOST_FRAMES.min(room as usize);
        let pending = self.pending();
        let mut writer = Writer::new();
        writer.u64(pending.first).u32(0);
        let (mut count, mut after, mut is_proven) = (0, 0, true);
        for waiting in &pending.records {
            if writer.len() + waiting.record.len() > most || pending.first + count > until {
                break;
            }
            writer.raw(&waiting.record);
            count += 1;
            after = after.max(waiting.after);
            is_proven &= waiting.is_proven || self.data.is_flushed(waiting.after);
        }
        let mut payload = writer.into_bytes();
        payload[8..12].copy_from_slice(&(count as u32).to_le_bytes());
        let fits = count > 0 || (may_be_empty && room > 0 && pending.records.is_empty());
        fits.then(|| Batch { payload, last: pending.first + count - 1, after, is_proven })
    }

    /// Writes a batch of this payload.
    async fn write(&self, lane: &mut Lane, payload: &[u8]) -> Result<(), VolumeError> {
        let count = payload.len().div_ceil(PAYLOAD);
        debug_assert!(lane.next + count as u64 - lane.tail <= self.frames, "what roots need is kept");
        let mut buf = IoBuf::zeroed(count * FRAME);
        let mut previous = lane.previous;
        for index in 0..count {
            let part = &payload[index * PAYLOAD..payload.len().min((index + 1) * PAYLOAD)];
            let frame = &mut buf[index * FRAME..(index + 1) * FRAME];
            let numbers = Numbers { epoch: lane.epoch, sequence: lane.next + index as u64, previous };
            previous = seal(frame, self.volume, (numbers, lane.settled), (index as u16, count as u16), part);
        }
        let at = lane.next % self.frames;
        let before_end = ((self.frames - at) as usize * FRAME).min(buf.len());
        let head = buf.split_to(before_end).freeze();
        let device = &self.media.device;
        let first = device.write(self.at + at * BLOCK_BYTES, head, Durability::Durable);
        if buf.is_empty() {
            first.await?;
        } else {
            let second = device.write(self.at, buf.freeze(), Durability::Durable);
            let (first, second) = join(first, second).await;
            first.and(second)?;
        }
        (lane.next, lane.previous) = (lane.next + count as u64, previous);
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        Ok(())
    }

    /// A batch without transactions, of the root of a generation.
    async fn mark(&self, lane: &mut Lane, first: u64, generation: u64) -> Result<(), VolumeError> {
        let mut writer = Writer::new();
        writer.u64(first).u32(0).u64(generation);
        self.write(lane, &writer.into_bytes()).await?;
        self.unsettled.settle(lane.settled);
        Ok(())
    }

    /// Transactions up to this one are durable: in the log, or in the trees of a durable root.
    fn settle(&self, until: u64) {
        let mut pending = self.pending();
        while pending.first <= until
            && let Some(waiting) = pending.records.pop_front()
        {
            pending.bytes -= waiting.record.len();
            pending.first += 1;
        }
        pending.durable = pending.durable.max(until);
    }

    /// Holds back batches while the trees are cut.
    pub async fn hold(&self) -> tokio::sync::MutexGuard<'_, Lane> {
        self.lane.lock().await
    }

    /// Writes what waits up to `applied`, the last transaction in the trees that were cut, as far as there is room, and
    /// the mark with which the log of the root of `generation` begins.
    pub async fn cut(&self, lane: &mut Lane, applied: u64, generation: u64) -> Result<LogStart, VolumeError> {
        while self.pending().first <= applied {
            if self.write_batch(lane, applied, false).await? == Synced::Full {
                break;
            }
        }
        let start = LogStart { sequence: lane.next, previous: lane.previous, applied };
        self.written.store(0, Ordering::Relaxed);
        let first = self.pending().first;
        self.mark(lane, first, generation).await?;
        Ok(start)
    }

    /// The root of `generation`, which needs the log from `start` on, is durable.
    pub async fn release(&self, start: LogStart, generation: u64) -> Result<(), VolumeError> {
        let mut lane = self.lane.lock().await;
        (lane.tail, lane.newest) = (lane.newest, start.sequence);
        if self.pending().first <= start.applied {
            // The log lacks what is in the trees: whoever comes from the root before must see that.
            self.mark(&mut lane, start.applied + 1, generation).await?;
        }
        lane.settled = lane.settled.max(start.applied);
        self.unsettled.settle(start.applied);
        self.settle(start.applied);
        Ok(())
    }
}

/// What tells a frame from those of other times and places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub epoch: u64,
    pub sequence: u64,
    pub previous: u32,
}

/// A frame that is whole and this volume's.
pub(crate) struct Frame<'a> {
    pub numbers: Numbers,
    pub crc: u32,
    /// Which one of its batch it is, and how many these are.
    pub index: u16,
    pub count: u16,
    /// The data that transactions up to this one name is durable.
    pub settled: u64,
    pub payload: &'a [u8],
}

fn seal(
    frame: &mut [u8],
    volume: Uuid,
    (numbers, settled): (Numbers, u64),
    (index, count): (u16, u16),
    payload: &[u8],
) -> u32 {
    frame[..4].copy_from_slice(&MAGIC.to_le_bytes());
    frame[8..24].copy_from_slice(volume.as_bytes());
    frame[24..32].copy_from_slice(&numbers.epoch.to_le_bytes());
    frame[32..40].copy_from_slice(&numbers.sequence.to_le_bytes());
    frame[40..44].copy_from_slice(&numbers.previous.to_le_bytes());
    frame[44..46].copy_from_slice(&index.to_le_bytes());
    frame[46..48].copy_from_slice(&count.to_le_bytes());
    frame[48..50].copy_from_slice(&(payload.len() as u16).to_le_bytes());
    frame[56..64].copy_from_slice(&settled.to_le_bytes());
    frame[HEADER..HEADER + payload.len()].copy_from_slice(payload);
    let crc = crc_of(&frame[8..]);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// Reads a frame; `None` where there is none of this volume, or it is not whole.
pub(crate) fn open(frame: &[u8], volume: Uuid) -> Option<Frame<'_>> {
    let frame = frame.get(..FRAME)?;
    let mut reader = Reader::new(frame);
    let (magic, crc) = (reader.u32().ok()?, reader.u32().ok()?);
    if magic != MAGIC || crc != crc_of(&frame[8..]) || reader.uuid().ok()? != volume {
        return None;
    }
    let numbers = Numbers { epoch: reader.u64().ok()?, sequence: reader.u64().ok()?, previous: reader.u32().ok()? };
    let (index, count, len) = (reader.u16().ok()?, reader.u16().ok()?, reader.u16().ok()?);
    let is_sound = numbers.epoch.max(numbers.sequence) < MOST_COUNTED;
    if index >= count || usize::from(count) > MOST_FRAMES || !is_sound {
        return None;
    }
    let payload = frame.get(HEADER..HEADER + usize::from(len))?;
    reader.take(6).ok()?;
    Some(Frame { numbers, crc, index, count, settled: reader.u64().ok()?, payload })
}

/// The first transaction behind a mark, and the generation of its root.
pub(crate) fn read_mark(frame: &Frame<'_>) -> Option<(u64, u64)> {
    let mut reader = Reader::new(frame.payload);
    let (first, count, generation) = (reader.u64().ok()?, reader.u32().ok()?, reader.u64().ok()?);
    ((frame.index, frame.count, count) == (0, 1, 0)).then_some((first, generation))
}

fn encode(transaction: &Transaction) -> Vec<u8> {
    let bytes_of = |done: &Operation| 6 + done.key.len() + done.value.as_ref().map_or(0, Vec::len);
    let bytes = 4 + transaction.operations.iter().map(bytes_of).sum::<usize>() + 12 * transaction.sums.len();
    let mut writer = Writer::with_capacity(bytes);
    writer.u16(transaction.operations.len() as u16);
    for Operation { tree, key, value } in &transaction.operations {
        writer.u8(*tree).u8(value.is_some().into()).u16(key.len() as u16).raw(key);
        if let Some(value) = value {
            writer.u16(value.len() as u16).raw(value);
        }
    }
    writer.u16(transaction.sums.len() as u16);
    for BlockSum { place, crc } in &transaction.sums {
        writer.u64(*place).u32(*crc);
    }
    writer.into_bytes()
}

/// The number of the first transaction of a batch, and all of them.
pub(crate) fn decode_batch(payload: &[u8]) -> Result<(u64, Vec<Transaction>), WireError> {
    let mut reader = Reader::new(payload);
    let (first, count) = (reader.u64()?, reader.u32()?);
    if first >= MOST_COUNTED {
        return Err(WireError::Value("number"));
    }
    let mut transactions = Vec::new();
    for _ in 0..count {
        let mut operations = Vec::new();
        let count = reader.u16()?;
        if usize::from(count) > MOST_LOGGED {
            return Err(WireError::Value("operations"));
        }
        for _ in 0..count {
            let (tree, puts, len) = (reader.u8()?, reader.u8()?, reader.u16()?);
            let key = reader.take(len.into())?.to_vec();
            let value = match puts {
                0 => None,
                1 => {
                    let len = reader.u16()?;
                    Some(reader.take(len.into())?.to_vec())
                }
                _ => return Err(WireError::Value("operation")),
            };
            let operation = Operation { tree, key, value };
            operation.check().map_err(|_| WireError::Value("operation"))?;
            operations.push(operation);
        }
        let count = usize::from(reader.u16()?);
        if count > MOST_SUMS {
            return Err(WireError::Value("checksums of data"));
        }
        let sums = (0..count).map(|_| Ok(BlockSum { place: reader.u64()?, crc: reader.u32()? }));
        let sums = sums.collect::<Result<Vec<_>, WireError>>()?;
        transactions.push(Transaction { operations, sums });
    }
    Ok((first, transactions))
}
