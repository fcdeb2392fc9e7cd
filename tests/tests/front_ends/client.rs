//! A client of one session: what it asks for, and what the model says of the answers.
//!
//! Invariant: a change that was given up has not begun, so that no read ever shows it.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use holdfast_block::{Change, Session, Started, blocks_around};
use holdfast_device::sim::SimRandom;
use holdfast_device::{Durability, ExtentKind, IoBuf, IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;

use crate::{GIVEN_UP, PARTS, Run, SIZE_BYTES, count};

/// Blocks in which most requests lie, so that they meet.
const HOT_BLOCKS: u64 = 12;

/// Whether a request was answered as done. The end of its session and a target that is read-only are the only reasons
/// to refuse one.
fn is_done<T>(what: &str, session: &Session, result: &Result<T, IoError>) -> bool {
    let Err(error) = result else { return true };
    match error.kind {
        IoErrorKind::GivenUp => count(&GIVEN_UP),
        IoErrorKind::ReadOnly => assert!(session.target().info().read_only, "{what} was refused: {error}"),
        _ => panic!("{what} failed: {error}"),
    }
    false
}

impl Run {
    /// A range of units: of parts of blocks, or of whole ones.
    fn draw_range(&self, random: &SimRandom) -> Range<u64> {
        let blocks = SIZE_BYTES / BLOCK_BYTES;
        let first = random.range(0..if random.chance(5, 6) { HOT_BLOCKS } else { blocks });
        let most = if random.chance(1, 10) { 40 } else { 3 };
        let count = random.range(1..=most.min(blocks - first));
        let (start, end) = (first * BLOCK_BYTES, (first + count) * BLOCK_BYTES);
        if random.chance(1, 2) {
            return start..end;
        }
        let units = BLOCK_BYTES / self.unit;
        let start = start + random.range(0..units) * self.unit;
        let end = end - random.range(0..units) * self.unit;
        if start < end { start..end } else { start..start + self.unit }
    }

    /// Asks until it is done, or its session has ended.
    pub(crate) async fn client(self: Rc<Self>, session: Rc<Session>, left: Rc<Cell<bool>>) {
        let random = self.world.sim.random();
        for _ in 0..random.range(5..40u32) {
            if left.get() {
                return;
            }
            let range = self.draw_range(&random);
            match random.range(0..16u32) {
                0..=6 => self.write(&session, range, &random).await,
                7 => self.zero(&session, range, &random).await,
                8 => self.discard(&session, range, &random).await,
                9..=10 => self.flush(&session).await,
                11 => self.extents(&session, blocks_around(range.start, range.end - range.start)).await,
                _ => self.read(&session, range).await,
            }
        }
    }

    async fn change(
        &self,
        session: &Session,
        range: &Range<u64>,
        change: Change,
        durable: bool,
    ) -> Result<(), IoError> {
        let durability = if durable { Durability::Durable } else { Durability::Cached };
        let started = session.change(range.start, range.end - range.start, change, durability);
        match started {
            Started::Answered(outcome) => outcome,
            Started::Later(later) => session.settle(later).await,
        }
    }

    async fn write(&self, session: &Session, range: Range<u64>, random: &SimRandom) {
        let (len, durable) = ((range.end - range.start) as usize, random.chance(1, 4));
        let begun = self.model.begin(range.start, len, false);
        let blocks = blocks_around(range.start, len as u64);
        let mut buf = IoBuf::new((blocks.end - blocks.start) as usize);
        buf[(range.start - blocks.start) as usize..][..len].copy_from_slice(&self.model.payload(&begun));
        if blocks != range {
            count(&PARTS);
        }
        let result = self.change(session, &range, Change::Write(buf), durable).await;
        match is_done("write", session, &result) {
            true => self.model.end(&begun, true, durable),
            false => self.model.withdraw(&begun),
        }
    }

    async fn zero(&self, session: &Session, range: Range<u64>, random: &SimRandom) {
        let (len, durable) = ((range.end - range.start) as usize, random.chance(1, 4));
        let begun = self.model.begin(range.start, len, true);
        let change = Change::Zeroes { keep_room: random.chance(1, 4) };
        let result = self.change(session, &range, change, durable).await;
        if is_done("zero", session, &result) {
            return self.model.end(&begun, true, durable);
        }
        // Parts of blocks are zeroed one after the other, so the first may be before the session ends.
        match blocks_around(range.start, len as u64) == range {
            true => self.model.withdraw(&begun),
            false => self.model.end(&begun, false, false),
        }
    }

    /// Only the whole blocks of a range are given back.
    async fn discard(&self, session: &Session, range: Range<u64>, random: &SimRandom) {
        let (start, end) = (range.start.next_multiple_of(BLOCK_BYTES), range.end / BLOCK_BYTES * BLOCK_BYTES);
        let durable = random.chance(1, 4);
        let begun = (start < end).then(|| self.model.begin(start, (end - start) as usize, true));
        let result = self.change(session, &range, Change::Discard, durable).await;
        let done = is_done("discard", session, &result);
        assert!(done || begun.is_some(), "nothing is to be given back, and that was refused");
        match begun {
            Some(begun) if done => self.model.end(&begun, true, durable),
            Some(begun) => self.model.withdraw(&begun),
            None => {}
        }
    }

    /// What any front end was answered before is durable then.
    async fn flush(&self, session: &Session) {
        let flush = self.model.begin_flush();
        let result = session.finish(session.target().flush()).await;
        if is_done("flush", session, &result) {
            self.model.end_flush(flush);
        }
    }

    async fn read(&self, session: &Session, range: Range<u64>) {
        let len = (range.end - range.start) as usize;
        let reading = self.model.begin_read(range.start, len);
        let result = session.finish(session.read(range.start, len as u64)).await;
        if !is_done("read", session, &result) {
            return self.model.abandon(reading);
        }
        let data = &result.expect("it is done")[(range.start % BLOCK_BYTES) as usize..][..len];
        self.model.check_read(&reading, data).unwrap_or_else(|why| panic!("{why}"));
    }

    /// What is said to hold nothing reads as zeros.
    async fn extents(&self, session: &Session, blocks: Range<u64>) {
        let len = (blocks.end - blocks.start) as usize;
        let reading = self.model.begin_read(blocks.start, len);
        let result = session.finish(session.target().extents(blocks.start, len as u64, 1)).await;
        assert!(is_done("extents", session, &result), "they wait for no turn");
        match result.expect("it is done").first() {
            Some(extent) if extent.kind != ExtentKind::Data => {
                let zeros = vec![0; extent.len as usize];
                self.model.check_read(&reading, &zeros).unwrap_or_else(|why| panic!("{:?}: {why}", extent.kind));
            }
            Some(_) => self.model.abandon(reading),
            None => panic!("a range has extents"),
        }
    }
}
