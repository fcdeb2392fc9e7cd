//! What the log has behind a root, and whether that is all that was acknowledged.
//!
//! ```text
//!   root ─▶ mark │ batch │ batch │ …  nothing more                      all of it
//!           mark │ batch │ ╳ │ batch                                    a gap: later batches prove that one is lost
//!           ╳ │ …                                                       the log of the root is lost
//!           mark │ batch │ mark of a later root that lacks the way      the newest root is lost
//! ```
//!
//! A batch that was being written when the power failed is no gap: nothing behind it was begun. Nor is what that batch
//! says of data that did not become durable: it ends before that, and what an opening logs then begins with the same
//! number in a later epoch.
//!
//! Invariant: what is answered without a reason why it may be too little is what was acknowledged last, or later.

use holdfast_device::{Durability, IoBuf};
use holdfast_model::BLOCK_BYTES;

use crate::log::{self, FRAME, Frame, Log, MOST_FRAMES, Numbers};
use crate::page::crc_of;
use crate::superblock::{LogStart, Root};
use crate::transaction::{BlockSum, Transaction};

/// Frames that are read at once.
const READ_FRAMES: u64 = 256;

/// What was read.
pub(crate) struct Replayed {
    pub transactions: Vec<Transaction>,
    /// Where the log goes on.
    pub end: LogStart,
    /// The last epoch of the frames.
    pub epoch: u64,
    /// Why changes that were acknowledged may be missing.
    pub gap: Option<String>,
    /// Frames that are known to have been written, were damaged in their first copy, and are written anew.
    pub mended: u64,
}

/// A batch that is whole.
struct Whole {
    payload: Vec<u8>,
    /// The transaction up to which it says that data is settled.
    settled: u64,
    behind: Numbers,
}

impl Log {
    /// Reads what stands behind a root.
    pub async fn replay(&self, root: &Root) -> Replayed {
        let mut reading = Reading { log: self, buf: IoBuf::new(0), first: 0, mended: 0 };
        let start = root.log;
        let mut at = Numbers { epoch: root.epoch, sequence: start.sequence, previous: start.previous };
        let (mut transactions, mut applied, mut gap) = (Vec::new(), start.applied, None);
        let mut settled = start.applied;
        let mut is_first = root.is_marked;
        // A batch that was being written when the power failed was not damaged: those count that another one is behind,
        // and the mark, which is durable before its root.
        let (mut mended, mut unsure) = (0, 0);
        while let Some(Whole { payload, settled: says, behind }) = reading.batch(at, start.sequence).await {
            let Ok((first, batch)) = log::decode_batch(&payload) else {
                gap = Some(format!("frame {} of its log is whole and says what cannot be", at.sequence));
                break;
            };
            mended += std::mem::replace(&mut unsure, std::mem::take(&mut reading.mended));
            mended += if is_first { std::mem::take(&mut unsure) } else { 0 };
            if std::mem::take(&mut is_first) && !batch.is_empty() {
                is_first = true;
                break;
            }
            if first > applied + 1 {
                gap = Some(format!(
                    "its newest root is lost, and changes behind number {applied} are in no root and in no log that is left"
                ));
                break;
            }
            if first <= applied && behind.epoch > at.epoch {
                applied = start.applied.max(first.saturating_sub(1));
                transactions.truncate((applied - start.applied) as usize);
            }
            settled = settled.max(says);
            for (number, transaction) in (first..).zip(batch) {
                // What the trees have already may stand in a batch with what they have not.
                if number == applied + 1 {
                    applied = number;
                    transactions.push(transaction);
                }
            }
            at = behind;
        }
        if is_first {
            gap = Some(format!("frame {} of its log, with which that of its root begins, is damaged", start.sequence));
        } else if gap.is_none() && reading.is_gap(at, start.sequence).await {
            gap = Some(format!(
                "frame {} of its log is damaged, and later ones are not: changes behind number {applied} are lost",
                at.sequence
            ));
        }
        let proven = (settled.clamp(start.applied, applied) - start.applied) as usize;
        for index in proven..transactions.len() {
            if !self.has_data(&transactions[index].sums).await {
                transactions.truncate(index);
                applied = start.applied + index as u64;
                break;
            }
        }
        let end = LogStart { sequence: at.sequence, previous: at.previous, applied };
        Replayed { transactions, end, epoch: at.epoch, gap, mended }
    }

    /// Whether blocks hold what a transaction says. They are written once more: copies may differ after a crash, and the
    /// one that was read is to stay.
    async fn has_data(&self, sums: &[BlockSum]) -> bool {
        for sum in sums {
            let at = sum.place.saturating_mul(BLOCK_BYTES);
            if !self.of_data.has(at, FRAME) {
                return false;
            }
            // Whoever reads it will be told; it says nothing of what comes behind.
            let Ok(first) = self.of_data.device.read(at, IoBuf::new(FRAME)).await else { continue };
            let is_right = |block: &IoBuf| (crc_of(block) == sum.crc).then_some(());
            let block = match is_right(&first) {
                Some(()) => first,
                None => match self.of_data.other(at, FRAME, is_right).await {
                    Some((_, block)) => block,
                    None => return false,
                },
            };
            // Where it cannot be written, it still reads as it does.
            let _ = self.of_data.device.write(at, block.freeze(), Durability::Cached).await;
        }
        true
    }
}

/// A frame that continues the log.
struct Found {
    crc: u32,
    epoch: u64,
    /// Which one of its batch it is, and how many these are.
    place: (u16, u16),
    settled: u64,
    payload: Vec<u8>,
}

/// Frames read in runs.
struct Reading<'a> {
    log: &'a Log,
    buf: IoBuf,
    first: u64,
    /// Frames that were written anew.
    mended: u64,
}

impl Reading<'_> {
    /// The bytes of a frame, as the first copy has them; of one that cannot be read, zeros.
    async fn bytes(&mut self, sequence: u64) -> &[u8] {
        let held = (self.buf.len() / FRAME) as u64;
        if held == 0 || !(self.first..self.first + held).contains(&sequence) {
            let at = sequence % self.log.frames;
            let count = READ_FRAMES.min(self.log.frames - at);
            let start = self.log.at + at * BLOCK_BYTES;
            self.first = sequence;
            self.buf = self.log.media.read_what_can_be(start, count as usize * FRAME).await;
        }
        let inside = (sequence - self.first) as usize * FRAME;
        &self.buf[inside..inside + FRAME]
    }

    /// The frame that continues what stands before it.
    async fn frame(&mut self, expected: Numbers) -> Option<Found> {
        let volume = self.log.volume;
        let accept = |bytes: &[u8]| {
            let Frame { numbers, crc, index, count, settled, payload } = log::open(bytes, volume)?;
            let continues = (numbers.sequence, numbers.previous) == (expected.sequence, expected.previous);
            (continues && numbers.epoch >= expected.epoch).then(|| Found {
                crc,
                epoch: numbers.epoch,
                place: (index, count),
                settled,
                payload: payload.to_vec(),
            })
        };
        if let Some(found) = accept(self.bytes(expected.sequence).await) {
            return Some(found);
        }
        // Nothing else is written to the log while it is read.
        let at = self.log.at + expected.sequence % self.log.frames * BLOCK_BYTES;
        let (found, _) = self.log.media.other(at, FRAME, |buf| accept(buf)).await?;
        let is_mended = self.log.media.mend(at, FRAME, |buf| accept(buf).map(drop)).await;
        self.mended += u64::from(is_mended);
        Some(found)
    }

    /// The next batch, if there is one.
    async fn batch(&mut self, from: Numbers, start: u64) -> Option<Whole> {
        let (mut payload, mut behind, mut count) = (Vec::new(), from, 1);
        let (mut index, mut settled) = (0, 0);
        while index < count {
            if behind.sequence - start >= self.log.frames {
                return None;
            }
            let Found { crc, epoch, place: (found, of), settled: says, payload: part } = self.frame(behind).await?;
            settled = says;
            if found != index || (index > 0 && (of != count || epoch != behind.epoch)) {
                return None;
            }
            payload.extend_from_slice(&part);
            behind = Numbers { epoch, sequence: behind.sequence + 1, previous: crc };
            (index, count) = (index + 1, of);
        }
        Some(Whole { payload, settled, behind })
    }

    /// Whether batches behind the one that would begin at `end` prove that it was written.
    async fn is_gap(&mut self, end: Numbers, start: u64) -> bool {
        let log = self.log;
        let known = end.sequence - start;
        for position in 0..log.frames.saturating_sub(known) {
            let bytes = self.bytes(end.sequence + position).await;
            let Some(Frame { numbers, index, count, .. }) = log::open(bytes, log.volume) else { continue };
            debug_assert!(usize::from(count) <= MOST_FRAMES);
            let begins_behind = numbers.sequence.checked_sub(index.into()).is_some_and(|first| first > end.sequence);
            if numbers.epoch >= end.epoch && begins_behind {
                return true;
            }
        }
        false
    }
}
