//! What was written to a band and is not in its place yet: extents that never overlap.
//!
//! Invariant: every extent keeps alive the journal's records that a crash would need to bring back something that was
//! durable in its blocks: its own once it is in the journal, those of what it replaced until then.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_device::IoSlice;

use crate::checksums::sums_of;

use super::geometry::bytes_of;
use super::log_record::Record;

/// What blocks are to hold.
#[derive(Clone, Debug)]
pub enum Content {
    /// These bytes.
    Bytes(IoSlice),
    /// What only the journal has.
    Logged(Logged),
    /// Nothing: they read as zeros.
    Nothing,
}

/// Blocks that only the journal has; the extent holds their record.
#[derive(Clone, Debug)]
pub struct Logged {
    /// Where they begin in the log.
    pub at: u64,
    /// The checksums of blocks, and which of these is the first.
    checksums: Arc<[u32]>,
    first: usize,
}

impl Logged {
    /// These blocks, which begin in the log at `at`.
    pub fn new(at: u64, bytes: &[u8]) -> Self {
        Self { at, checksums: sums_of(bytes).collect(), first: 0 }
    }

    fn after(&self, skip: u32) -> Self {
        Self {
            at: self.at + bytes_of(skip) as u64,
            checksums: self.checksums.clone(),
            first: self.first + skip as usize,
        }
    }

    /// Whether these are the blocks, or the first of them.
    pub fn are(&self, bytes: &[u8]) -> bool {
        sums_of(bytes).zip(&self.checksums[self.first..]).all(|(found, known)| found == *known)
    }
}

impl Content {
    /// That of `len` blocks after the first `skip`.
    pub fn part(&self, skip: u32, len: u32) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes.slice(bytes_of(skip), bytes_of(len))),
            Self::Logged(logged) => Self::Logged(logged.after(skip)),
            Self::Nothing => Self::Nothing,
        }
    }
}

/// Blocks that were written.
#[derive(Clone, Debug)]
pub struct Extent {
    /// How many.
    pub len: u32,
    /// What they are to hold.
    pub content: Content,
    /// When they were written, in the order of all writes to the space.
    pub stamp: u64,
    /// Whether the journal has them, durably.
    pub logged: bool,
    /// Records that must stay until this is durable, with the stamp of what each has for these blocks.
    pub held: Vec<(u64, Arc<Record>)>,
}

/// The extents of a band by their first block, counted from the start of the row.
#[derive(Debug, Default)]
pub struct Dirty {
    extents: BTreeMap<u32, Extent>,
    blocks: u32,
    /// Whether the band waits in the line of those to be destaged.
    pub queued: bool,
    /// Whether a helper is to put it in place, as it was written throughout.
    pub handed: bool,
}

impl Extent {
    fn part(&self, skip: u32, len: u32) -> Self {
        Self { held: self.held.clone(), ..self.piece(skip, len) }
    }

    /// A part of it for those who only look: it keeps nothing in the journal but what it says.
    fn view(&self, skip: u32, len: u32) -> Self {
        if matches!(self.content, Content::Logged(_)) {
            return self.part(skip, len);
        }
        self.piece(skip, len)
    }

    fn piece(&self, skip: u32, len: u32) -> Self {
        Self { len, content: self.content.part(skip, len), stamp: self.stamp, logged: self.logged, held: Vec::new() }
    }

    /// Keeps a record that has an earlier state of its blocks.
    pub fn hold(&mut self, stamp: u64, record: &Arc<Record>) {
        if !self.held.iter().any(|(known, held)| *known == stamp && Arc::ptr_eq(held, record)) {
            self.held.push((stamp, record.clone()));
        }
    }

    /// Whether it holds data.
    pub fn holds(&self) -> bool {
        !matches!(self.content, Content::Nothing)
    }

    /// Bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        match &self.content {
            Content::Bytes(bytes) => bytes.len(),
            Content::Logged(_) | Content::Nothing => 0,
        }
    }
}

impl Dirty {
    /// How many blocks are in.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Whether none is in.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Takes out what lies in a range. What of it lasts elsewhere is up to the caller.
    pub fn take(&mut self, start: u32, end: u32) -> Vec<(u32, Extent)> {
        let mut first = start;
        if let Some((at, extent)) = self.extents.range(..start).next_back()
            && at + extent.len > start
        {
            first = *at;
        }
        let touched: Vec<u32> = self.extents.range(first..end).map(|(at, _)| *at).collect();
        let mut taken = Vec::with_capacity(touched.len());
        for at in touched {
            let extent = self.extents.remove(&at).expect("found just now");
            let (from, to) = (at.max(start), (at + extent.len).min(end));
            if at < from {
                self.extents.insert(at, extent.part(0, from - at));
            }
            if to < at + extent.len {
                self.extents.insert(to, extent.part(to - at, at + extent.len - to));
            }
            let whole = (from, to) == (at, at + extent.len);
            taken.push((from, if whole { extent } else { extent.part(from - at, to - from) }));
            self.blocks -= to - from;
        }
        taken
    }

    /// Puts an extent in, in place of what was there. Answers the bytes of memory that are free again.
    pub fn insert(&mut self, start: u32, mut extent: Extent) -> usize {
        let mut freed = 0;
        for (_, old) in self.take(start, start + extent.len) {
            freed += old.bytes();
            old.held.into_iter().for_each(|(stamp, record)| extent.hold(stamp, &record));
        }
        self.blocks += extent.len;
        self.extents.insert(start, extent);
        freed
    }

    /// What lies in a range, in order, to look at.
    pub fn parts(&self, start: u32, end: u32) -> impl Iterator<Item = (u32, Extent)> {
        let before = self.extents.range(..start).next_back().filter(|(at, extent)| *at + extent.len > start);
        before.into_iter().chain(self.extents.range(start..end)).map(move |(at, extent)| {
            let (from, to) = ((*at).max(start), (at + extent.len).min(end));
            (from, extent.view(from - at, to - from))
        })
    }

    /// Extents that a change may touch up.
    pub fn extents_mut(&mut self) -> impl Iterator<Item = (u32, &mut Extent)> {
        self.extents.iter_mut().map(|(at, extent)| (*at, extent))
    }

    /// All extents, in order.
    pub fn extents(&self) -> impl Iterator<Item = (u32, &Extent)> {
        self.extents.iter().map(|(at, extent)| (*at, extent))
    }

    /// Asserts that the extents lie between two blocks, in order, and are as many blocks as is said.
    pub fn check(&self, start: u32, end: u32) {
        assert!(!self.is_empty(), "a band without extents does not wait");
        let mut at = start;
        for (first, extent) in &self.extents {
            assert!(*first >= at && extent.len > 0, "extents do not overlap");
            at = first + extent.len;
        }
        assert!(at <= end, "extents are of one band");
        assert_eq!(self.blocks, self.extents.values().map(|extent| extent.len).sum::<u32>(), "blocks of the extents");
    }

    /// Takes out every extent that is not newer than `stamp`.
    pub fn take_until(&mut self, stamp: u64) -> Vec<Extent> {
        let old: Vec<u32> =
            self.extents.iter().filter(|(_, extent)| extent.stamp <= stamp).map(|(at, _)| *at).collect();
        let taken: Vec<Extent> = old.iter().filter_map(|at| self.extents.remove(at)).collect();
        self.blocks -= taken.iter().map(|extent| extent.len).sum::<u32>();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn the_latest_write_of_each_block_is_kept() {
        for seed in 0..300 {
            let mut random = SmallRng::seed_from_u64(seed);
            let (mut dirty, mut plain) = (Dirty::default(), vec![0u64; 64]);
            for stamp in 1..60u64 {
                let start = random.random_range(0..64u32);
                let len = random.random_range(1..=64 - start);
                if random.random_bool(0.8) {
                    let data = IoSlice::padded(&vec![stamp as u8; bytes_of(len)]);
                    dirty.insert(
                        start,
                        Extent { len, content: Content::Bytes(data), stamp, logged: false, held: Vec::new() },
                    );
                    plain[start as usize..(start + len) as usize].fill(stamp);
                } else if random.random_bool(0.5) {
                    dirty.take(start, start + len);
                    plain[start as usize..(start + len) as usize].fill(0);
                } else {
                    let until = random.random_range(0..=stamp);
                    dirty.take_until(until);
                    plain.iter_mut().filter(|known| **known <= until).for_each(|known| *known = 0);
                }
                let mut found = vec![0u64; 64];
                let (from, to) = (random.random_range(0..32u32), random.random_range(32..=64u32));
                for (at, part) in dirty.parts(from, to) {
                    let Content::Bytes(bytes) = &part.content else { panic!("only bytes were written") };
                    assert_eq!((bytes.len(), bytes[0]), (bytes_of(part.len), part.stamp as u8));
                    found[at as usize..(at + part.len) as usize].fill(part.stamp);
                }
                assert_eq!(found[from as usize..to as usize], plain[from as usize..to as usize], "seed {seed}");
                assert_eq!(dirty.blocks() as usize, plain.iter().filter(|known| **known != 0).count());
            }
        }
    }
}
