//! A device whose data may be kept in memory, and every write of which is seen before it begins.
//!
//! ```text
//!   read    in memory? ─ no ─▶ begun ─▶ device ─▶ nothing written meanwhile? ─▶ kept
//!   write   begun: what is kept of it goes, reads under way keep nothing ─▶ device ─▶ ended
//! ```
//!
//! Whatever a volume writes goes through here: data in place, data that moves, nodes, zeros, blocks that are healed, room
//! that is given back. So what is kept needs to know nothing of files, snapshots and clones: it is what a place of the
//! device holds, for whoever has that place.
//!
//! Reads go to the device unless they ask for what is kept ([`CachedDevice::find`]), so that whoever checks the device
//! sees the device.
//!
//! Invariant: a run is kept only if no write of any of its blocks was under way, or began, between the beginning of its
//! read and the moment that it is kept. A write that nobody waits for any more is under way for ever.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use holdfast_device::{Copies, Device, Durability, Geometry, Io, IoBuf, IoSlice};
use holdfast_model::BLOCK_BYTES;
use smallvec::SmallVec;

use crate::data_cache::{DataCache, Runs, held};

/// Parts of the device by which requests under way are told apart first: 16 MiB each, in turn.
const LANES: usize = 16;
const LANE_BLOCKS: u64 = 4096;
/// Ranges of a lane that hold all its writes that nobody waits for.
const MOST_LEFT: usize = 64;

/// A read under way whose data may be kept.
struct Reading {
    number: u64,
    blocks: Range<u64>,
    /// Whether a write of some of it began meanwhile.
    is_late: bool,
}

/// Requests under way.
#[derive(Default)]
struct Lane {
    next: u64,
    reads: Vec<Reading>,
    writes: Vec<(u64, Range<u64>)>,
    /// Blocks of writes of which it is not known when they end: in order, apart, and a few more rather than many ranges.
    left: Vec<Range<u64>>,
}

fn meet(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Lane {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn is_written(&self, blocks: &Range<u64>) -> bool {
        self.writes.iter().any(|(_, under_way)| meet(under_way, blocks))
            || self.left.iter().any(|left| meet(left, blocks))
    }

    /// Has nothing of these blocks be kept any more. Where there would be too many ranges the two that are nearest to each
    /// other become one, so that a lane stays open but for what lies about its lost writes.
    fn leave(&mut self, blocks: Range<u64>) {
        let touches = |left: &Range<u64>| left.start <= blocks.end && blocks.start <= left.end;
        let from = self.left.partition_point(|left| left.end < blocks.start);
        let count = self.left[from..].iter().take_while(|left| touches(left)).count();
        let met = &self.left[from..from + count];
        let start = met.first().map_or(blocks.start, |first| first.start.min(blocks.start));
        let end = met.last().map_or(blocks.end, |last| last.end.max(blocks.end));
        self.left.splice(from..from + count, std::iter::once(start..end));
        while self.left.len() > MOST_LEFT {
            let gap = |at: &usize| self.left[at + 1].start - self.left[*at].end;
            let nearest = (0..self.left.len() - 1).min_by_key(gap).expect("there are two");
            self.left[nearest].end = self.left.remove(nearest + 1).end;
        }
    }
}

/// The lanes that a range lies in.
fn lanes(blocks: &Range<u64>) -> impl Iterator<Item = usize> + use<> {
    let first = blocks.start / LANE_BLOCKS;
    let count = (blocks.end.saturating_sub(1) / LANE_BLOCKS).saturating_sub(first) + 1;
    (first..first + count.min(LANES as u64)).map(|lane| (lane % LANES as u64) as usize)
}

/// Requests under way, and what is kept of their device.
struct Watched {
    lanes: [Mutex<Lane>; LANES],
    cache: Arc<DataCache>,
    /// What the cache knows the device by.
    number: u32,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.cache.forget(self.number);
    }
}

/// A device with a part in a cache of data.
pub struct CachedDevice {
    device: Arc<dyn Device>,
    copies: Option<Arc<dyn Copies>>,
    watched: Arc<Watched>,
}

impl CachedDevice {
    /// Has data of a device be kept in a cache. Nobody may write to the device but through this.
    pub fn new(device: Arc<dyn Device>, cache: &Arc<DataCache>) -> Arc<Self> {
        Self::on(device, None, cache)
    }

    /// The same where copies of a block can be told apart.
    pub fn with_copies(copies: Arc<dyn Copies>, cache: &Arc<DataCache>) -> Arc<Self> {
        Self::on(copies.clone(), Some(copies), cache)
    }

    fn on(device: Arc<dyn Device>, copies: Option<Arc<dyn Copies>>, cache: &Arc<DataCache>) -> Arc<Self> {
        let watched = Watched { lanes: Default::default(), cache: cache.clone(), number: cache.number() };
        Arc::new(Self { device, copies, watched: Arc::new(watched) })
    }

    /// Whether it has copies.
    pub(crate) fn has_copies(&self) -> bool {
        self.copies.is_some()
    }

    /// What is kept of these blocks, if all of them are; only what was held against its checksums if that is asked for.
    pub(crate) fn find(&self, place: u64, blocks: u64, is_checked: bool) -> Option<Runs> {
        self.watched.cache.find(self.watched.number, place..place + blocks, is_checked)
    }

    /// Begins a read of the device whose data is to be kept; `None` where some of it is being written.
    pub(crate) fn begin_read(&self, place: u64, blocks: u64) -> Option<Ticket<'_>> {
        let blocks = place..place + blocks;
        let all = lanes(&blocks);
        // All of its lanes are held at once, in order, so that a write finds it in all or in none.
        let mut known = self.watched.hold(all);
        if known.iter().any(|(_, lane)| lane.is_written(&blocks)) {
            return None;
        }
        let numbers = known.iter_mut().map(|(_, lane)| {
            let number = lane.number();
            lane.reads.push(Reading { number, blocks: blocks.clone(), is_late: false });
            number
        });
        let numbers = numbers.collect();
        Some(Ticket { watched: &self.watched, blocks, numbers })
    }

    fn changed(&self, offset: u64, len: u64, begin: impl FnOnce() -> Io<()>) -> Io<()> {
        let blocks = offset / BLOCK_BYTES..offset.saturating_add(len).div_ceil(BLOCK_BYTES);
        let write = Write::begin(&self.watched, blocks);
        match begin() {
            Io::Ready(result) => {
                write.end();
                Io::Ready(result)
            }
            answer => Io::pending(async move {
                let result = answer.await;
                write.end();
                result
            }),
        }
    }
}

type HeldLanes<'a> = SmallVec<[(usize, MutexGuard<'a, Lane>); 2]>;

impl Watched {
    /// Holds lanes, in their order.
    fn hold(&self, lanes: impl Iterator<Item = usize>) -> HeldLanes<'_> {
        let mut numbers: SmallVec<[usize; LANES]> = lanes.collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|lane| (lane, held(&self.lanes[lane]))).collect()
    }
}

/// A read under way.
pub(crate) struct Ticket<'a> {
    watched: &'a Watched,
    blocks: Range<u64>,
    numbers: SmallVec<[u64; 2]>,
}

impl Ticket<'_> {
    /// Keeps what the device answered, unless some of it was written meanwhile. Its buffer holds nothing else.
    pub fn keep(self, data: &IoSlice, is_checked: bool) {
        let known = self.watched.hold(lanes(&self.blocks));
        let is_late = |(number, (_, lane)): (&u64, &(usize, MutexGuard<'_, Lane>))| {
            lane.reads.iter().any(|read| read.number == *number && read.is_late)
        };
        if self.numbers.iter().zip(&known).any(is_late) {
            return;
        }
        // While the lanes are held no write begins.
        self.watched.cache.put(self.watched.number, self.blocks.start, data, is_checked);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut known = self.watched.hold(lanes(&self.blocks));
        for (number, (_, lane)) in self.numbers.iter().zip(known.iter_mut()) {
            lane.reads.retain(|read| read.number != *number);
        }
    }
}

/// A change under way.
struct Write {
    watched: Arc<Watched>,
    blocks: Range<u64>,
    numbers: SmallVec<[u64; 2]>,
    is_ended: bool,
}

impl Write {
    fn begin(watched: &Arc<Watched>, blocks: Range<u64>) -> Self {
        let mut known = watched.hold(lanes(&blocks));
        let mut numbers = SmallVec::new();
        for (_, lane) in &mut known {
            lane.reads.iter_mut().for_each(|read| read.is_late |= meet(&read.blocks, &blocks));
            let number = lane.number();
            lane.writes.push((number, blocks.clone()));
            numbers.push(number);
        }
        watched.cache.remove(watched.number, blocks.clone());
        drop(known);
        Self { watched: watched.clone(), blocks, numbers, is_ended: false }
    }

    fn end(mut self) {
        self.is_ended = true;
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        let mut known = self.watched.hold(lanes(&self.blocks));
        for (number, (_, lane)) in self.numbers.iter().zip(known.iter_mut()) {
            lane.writes.retain(|(under_way, _)| under_way != number);
            if !self.is_ended {
                // It goes on, and nobody hears of its end.
                lane.leave(self.blocks.clone());
            }
        }
    }
}

impl Device for CachedDevice {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.device.read(offset, buf)
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        self.changed(offset, data.len() as u64, || self.device.write(offset, data, durability))
    }

    fn flush(&self) -> Io<()> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        self.changed(offset, len, || self.device.discard(offset, len))
    }
}

impl Copies for CachedDevice {
    fn copies(&self, offset: u64, len: u64) -> usize {
        self.copies.as_ref().map_or(1, |copies| copies.copies(offset, len))
    }

    fn read_copy(&self, n: usize, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        match &self.copies {
            Some(copies) => copies.read_copy(n, offset, buf),
            None => self.device.read(offset, buf),
        }
    }

    fn rewrite(&self, offset: u64, data: IoSlice) -> Io<()> {
        let len = data.len() as u64;
        self.changed(offset, len, || match &self.copies {
            Some(copies) => copies.rewrite(offset, data),
            None => self.device.write(offset, data, Durability::Durable),
        })
    }
}

#[cfg(test)]
mod tests;
