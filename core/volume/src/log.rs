//! The log: transactions in order, in a ring of frames of 4 KiB.
//!
//! ```text
//!   frame   | magic, CRC, volume, epoch, sequence, CRC of the frame before, n of m | payload |
//!   batch   m frames, written together, with the transactions that waited
//! ```
//!
//! Whoever needs durability first writes for all who wait.
//!
//! Invariants: a batch counts only if all its frames are whole and continue what stands before them, in the epoch of
//! the root. A frame that a durable root needs is not written over.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_device::{Device, Durability, IoBuf};
use holdfast_model::wire::{Reader, WireError, Writer};
use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::error::VolumeError;
use crate::flush::DataFlush;
use crate::page::crc_of;
use crate::superblock::{LogStart, Superblock};
use crate::transaction::{Operation, Transaction};

const MAGIC: u32 = u32::from_le_bytes(*b"HFvL");
const FRAME: usize = BLOCK_BYTES as usize;
const HEADER: usize = 64;
const PAYLOAD: usize = FRAME - HEADER;
/// Frames of a batch, at most.
const MOST_FRAMES: usize = 128;
/// Frames that are read at once.
const READ_FRAMES: u64 = 64;

/// What waits to be logged.
#[derive(Default)]
struct Pending {
    /// Each with the data write that must be durable before it.
    records: VecDeque<(Vec<u8>, u64)>,
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
    /// The first frame that the durable root needs.
    tail: u64,
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
    device: Arc<dyn Device>,
    volume: Uuid,
    at: u64,
    frames: u64,
    data: Arc<DataFlush>,
    lane: tokio::sync::Mutex<Lane>,
    pending: Mutex<Pending>,
}

impl Log {
    /// The log behind a root, empty.
    pub fn new(
        device: Arc<dyn Device>,
        data: Arc<DataFlush>,
        superblock: &Superblock,
        epoch: u64,
        start: LogStart,
    ) -> Self {
        let LogStart { sequence, previous, applied } = start;
        Self {
            device,
            volume: superblock.volume,
            at: superblock.log_at(),
            frames: superblock.log_bytes / BLOCK_BYTES,
            data,
            lane: tokio::sync::Mutex::new(Lane { epoch, next: sequence, previous, tail: sequence }),
            pending: Mutex::new(Pending { records: VecDeque::new(), first: applied + 1, durable: applied }),
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
        pending.records.push_back((record, after));
        pending.last()
    }

    /// The number of the last transaction.
    pub fn last(&self) -> u64 {
        self.pending().last()
    }

    /// Whether so much of the log is used that a checkpoint pays.
    pub fn is_half_full(&self) -> bool {
        self.lane.try_lock().is_ok_and(|lane| lane.next - lane.tail > self.frames / 2)
    }

    /// Makes all transactions up to one durable.
    pub async fn sync(&self, until: u64) -> Result<Synced, VolumeError> {
        loop {
            if self.pending().durable >= until {
                return Ok(Synced::Durable);
            }
            let mut lane = self.lane.lock().await;
            if self.pending().durable >= until {
                return Ok(Synced::Durable);
            }
            let room = self.frames - (lane.next - lane.tail);
            let Some((payload, last, after)) = self.batch(room) else { return Ok(Synced::Full) };
            self.data.flush(after).await?;
            let count = payload.len().div_ceil(PAYLOAD);
            let mut buf = IoBuf::zeroed(count * FRAME);
            let mut previous = lane.previous;
            for index in 0..count {
                let part = &payload[index * PAYLOAD..payload.len().min((index + 1) * PAYLOAD)];
                let frame = &mut buf[index * FRAME..(index + 1) * FRAME];
                let numbers = Numbers { epoch: lane.epoch, sequence: lane.next + index as u64, previous };
                previous = seal(frame, self.volume, numbers, (index as u16, count as u16), part);
            }
            self.write(lane.next, buf).await?;
            (lane.next, lane.previous) = (lane.next + count as u64, previous);
            self.settle(last);
        }
    }

    /// The payload of the next batch, its last transaction, and the data write that must be durable before it; `None`
    /// where not even one fits.
    fn batch(&self, room: u64) -> Option<(Vec<u8>, u64, u64)> {
        let most = PAYLOAD * MOST_FRAMES.min(room as usize);
        let pending = self.pending();
        let mut writer = Writer::new();
        writer.u64(pending.first).u32(0);
        let (mut count, mut durable) = (0, 0);
        for (record, after) in &pending.records {
            if writer.len() + record.len() > most {
                break;
            }
            writer.raw(record);
            count += 1;
            durable = durable.max(*after);
        }
        let mut payload = writer.into_bytes();
        payload[8..12].copy_from_slice(&(count as u32).to_le_bytes());
        (count > 0).then(|| (payload, pending.first + count - 1, durable))
    }

    async fn write(&self, sequence: u64, mut buf: IoBuf) -> Result<(), VolumeError> {
        let at = sequence % self.frames;
        let before_end = ((self.frames - at) as usize * FRAME).min(buf.len());
        let head = buf.split_to(before_end).freeze();
        let first = self.device.write(self.at + at * BLOCK_BYTES, head, Durability::Durable);
        if buf.is_empty() {
            return Ok(first.await?);
        }
        let second = self.device.write(self.at, buf.freeze(), Durability::Durable);
        let (first, second) = futures_util::future::join(first, second).await;
        Ok(first.and(second)?)
    }

    /// Transactions up to this one are durable: in the log, or in the trees of a durable root.
    fn settle(&self, until: u64) {
        let mut pending = self.pending();
        while pending.first <= until && !pending.records.is_empty() {
            pending.records.pop_front();
            pending.first += 1;
        }
        pending.durable = pending.durable.max(until);
    }

    /// Holds back batches while the trees are cut.
    pub async fn hold(&self) -> tokio::sync::MutexGuard<'_, Lane> {
        self.lane.lock().await
    }

    /// Where the log goes on after a cut that is made now.
    pub fn cut(&self, lane: &Lane) -> LogStart {
        LogStart { sequence: lane.next, previous: lane.previous, applied: self.last() }
    }

    /// A root that needs the log from `start` on is durable.
    pub async fn release(&self, start: LogStart) {
        self.settle(start.applied);
        self.lane.lock().await.tail = start.sequence;
    }

    /// Reads what stands behind a root: its transactions, and where the log goes on behind them.
    pub async fn replay(&self, epoch: u64, start: LogStart) -> Result<(Vec<Transaction>, LogStart), VolumeError> {
        let mut reading = Reading { log: self, buf: IoBuf::new(0), first: 0 };
        let (mut transactions, mut at) = (Vec::new(), start);
        'batches: loop {
            let (mut payload, mut numbers, mut count) = (Vec::new(), at, 1);
            let mut index = 0;
            while index < count {
                if numbers.sequence - start.sequence >= self.frames {
                    break 'batches;
                }
                let frame = reading.frame(numbers.sequence).await?;
                let expected = Numbers { epoch, sequence: numbers.sequence, previous: numbers.previous };
                let Some((crc, (found, of), part)) = open(frame, self.volume, expected) else { break 'batches };
                if found != index || (index > 0 && of != count) || usize::from(of) > MOST_FRAMES {
                    break 'batches;
                }
                payload.extend_from_slice(part);
                (numbers.sequence, numbers.previous, count) = (numbers.sequence + 1, crc, of);
                index += 1;
            }
            let Ok((first, batch)) = decode_batch(&payload) else { break };
            for (number, transaction) in (first..).zip(batch) {
                // What the trees have already may stand in a batch with what they have not.
                if number == numbers.applied + 1 {
                    numbers.applied = number;
                    transactions.push(transaction);
                }
            }
            at = numbers;
        }
        Ok((transactions, at))
    }
}

/// Frames read in runs.
struct Reading<'a> {
    log: &'a Log,
    buf: IoBuf,
    first: u64,
}

impl Reading<'_> {
    async fn frame(&mut self, sequence: u64) -> Result<&[u8], VolumeError> {
        let held = (self.buf.len() / FRAME) as u64;
        if held == 0 || !(self.first..self.first + held).contains(&sequence) {
            let at = sequence % self.log.frames;
            let count = READ_FRAMES.min(self.log.frames - at);
            let buf = IoBuf::new(count as usize * FRAME);
            self.buf = self.log.device.read(self.log.at + at * BLOCK_BYTES, buf).await?;
            self.first = sequence;
        }
        let inside = (sequence - self.first) as usize * FRAME;
        Ok(&self.buf[inside..inside + FRAME])
    }
}

#[derive(Clone, Copy)]
struct Numbers {
    epoch: u64,
    sequence: u64,
    previous: u32,
}

fn seal(frame: &mut [u8], volume: Uuid, numbers: Numbers, (index, count): (u16, u16), payload: &[u8]) -> u32 {
    frame[..4].copy_from_slice(&MAGIC.to_le_bytes());
    frame[8..24].copy_from_slice(volume.as_bytes());
    frame[24..32].copy_from_slice(&numbers.epoch.to_le_bytes());
    frame[32..40].copy_from_slice(&numbers.sequence.to_le_bytes());
    frame[40..44].copy_from_slice(&numbers.previous.to_le_bytes());
    frame[44..46].copy_from_slice(&index.to_le_bytes());
    frame[46..48].copy_from_slice(&count.to_le_bytes());
    frame[48..50].copy_from_slice(&(payload.len() as u16).to_le_bytes());
    frame[HEADER..HEADER + payload.len()].copy_from_slice(payload);
    let crc = crc_of(&frame[8..]);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// The CRC of a frame that is whole and stands where it must, which one of its batch it is, and its payload.
fn open(frame: &[u8], volume: Uuid, expected: Numbers) -> Option<(u32, (u16, u16), &[u8])> {
    let mut reader = Reader::new(frame);
    let (magic, crc) = (reader.u32().ok()?, reader.u32().ok()?);
    if magic != MAGIC || crc != crc_of(&frame[8..]) || reader.uuid().ok()? != volume {
        return None;
    }
    let (epoch, sequence, previous) = (reader.u64().ok()?, reader.u64().ok()?, reader.u32().ok()?);
    if (epoch, sequence, previous) != (expected.epoch, expected.sequence, expected.previous) {
        return None;
    }
    let (index, count, len) = (reader.u16().ok()?, reader.u16().ok()?, reader.u16().ok()?);
    let payload = frame.get(HEADER..HEADER + usize::from(len))?;
    Some((crc, (index, count), payload))
}

fn encode(transaction: &Transaction) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u16(transaction.operations.len() as u16);
    for Operation { tree, key, value } in &transaction.operations {
        writer.u8(*tree).u8(value.is_some().into()).u16(key.len() as u16).raw(key);
        if let Some(value) = value {
            writer.u16(value.len() as u16).raw(value);
        }
    }
    writer.into_bytes()
}

/// The number of the first transaction of a batch, and all of them.
fn decode_batch(payload: &[u8]) -> Result<(u64, Vec<Transaction>), WireError> {
    let mut reader = Reader::new(payload);
    let (first, count) = (reader.u64()?, reader.u32()?);
    let mut transactions = Vec::new();
    for _ in 0..count {
        let mut operations = Vec::new();
        for _ in 0..reader.u16()? {
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
        transactions.push(Transaction { operations });
    }
    Ok((first, transactions))
}
