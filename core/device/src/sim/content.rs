//! What a simulated disk holds: durable blocks, and the changes of its volatile cache that may still be lost.
//!
//! ```text
//!   durable    block -> content         what survives a power cut for certain
//!   changes    oldest ... newest        each sure (flushed, FUA) or not; applied to `durable` in this order alone
//!   view       block -> content         the blocks that the changes touch, as reads see them
//! ```
//!
//! Invariant: a newer change of a sector is never overwritten by an older one. A power cut drops, keeps or tears each
//! change that is not sure, and what is kept is applied in order; while there are no changes the view is empty.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use holdfast_model::BLOCK_BYTES;

use super::random::{Stream, mix};
use crate::IoSlice;

const BLOCK: usize = BLOCK_BYTES as usize;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

enum Block {
    Unwritten,
    Zero,
    Data(Box<[u8; BLOCK]>),
}

impl Block {
    fn of(bytes: &[u8]) -> Self {
        if bytes == ZEROS { Self::Zero } else { Self::Data(Box::new(bytes.try_into().expect("a whole block"))) }
    }
}

enum Payload {
    Data(IoSlice),
    Discard { len: u64, salt: u64 },
}

struct CachedWrite {
    offset: u64,
    payload: Payload,
    sure: bool,
    /// When it was answered, by the disk's count of answers; a flush covers what was answered before it was asked for.
    answered: u64,
}

/// What becomes of a change that is not sure when the power goes.
enum Fate {
    Lost,
    Kept,
    Torn,
}

/// How a whole cache settles; some cuts take everything, some nothing.
enum Mood {
    AllLost,
    AllKept,
    /// So many of the oldest changes are kept, the rest is lost.
    Oldest(usize),
    EachForItself,
}

impl Mood {
    fn draw(changes: usize, random: &mut Stream) -> Self {
        match random.below(6) {
            0 => Self::AllLost,
            1 => Self::AllKept,
            2 => Self::Oldest(random.below(changes + 1)),
            _ => Self::EachForItself,
        }
    }

    fn fate(&self, index: usize, random: &mut Stream) -> Fate {
        match self {
            Self::AllLost => Fate::Lost,
            Self::AllKept => Fate::Kept,
            Self::Oldest(kept) if index < *kept => Fate::Kept,
            Self::Oldest(kept) if index == *kept => Fate::Torn,
            Self::Oldest(_) => Fate::Lost,
            Self::EachForItself => match random.below(3) {
                0 => Fate::Lost,
                1 => Fate::Kept,
                _ => Fate::Torn,
            },
        }
    }
}

/// A change that was asked for and not carried out yet.
pub(super) enum Unfinished {
    Write { offset: u64, data: IoSlice },
    Discard { offset: u64, len: u64 },
}

pub(super) struct Content {
    durable: BTreeMap<u64, Block>,
    view: BTreeMap<u64, Block>,
    changes: VecDeque<CachedWrite>,
    first_change: u64,
    unsure: usize,
    cached_bytes: u64,
    cache_limit_bytes: u64,
    tear_bytes: usize,
    garbage_salt: Option<u64>,
}

impl Content {
    /// With a `garbage_salt`, blocks that were never written read as a pattern of their own instead of zeros.
    pub(super) fn new(tear_bytes: usize, cache_limit_bytes: u64, garbage_salt: Option<u64>) -> Self {
        Self {
            durable: BTreeMap::new(),
            view: BTreeMap::new(),
            changes: VecDeque::new(),
            first_change: 0,
            unsure: 0,
            cached_bytes: 0,
            cache_limit_bytes,
            tear_bytes,
            garbage_salt,
        }
    }

    /// Fills `out` with what a read sees.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) {
        for (block, within, part) in blocks_of(offset, out.len()) {
            let seen = self.view.get(&block).or_else(|| self.durable.get(&block));
            let out = &mut out[part];
            match seen {
                Some(Block::Data(data)) => out.copy_from_slice(&data[within]),
                Some(Block::Zero) => out.fill(0),
                Some(Block::Unwritten) | None => self.fill_unwritten(block, within, out),
            }
        }
    }

    fn fill_unwritten(&self, block: u64, within: Range<usize>, out: &mut [u8]) {
        let Some(salt) = self.garbage_salt else { return out.fill(0) };
        let mut state = mix(salt, block) | 1;
        let mut pattern = [0; BLOCK];
        for word in pattern.chunks_exact_mut(8) {
            state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
            word.copy_from_slice(&(state ^ (state >> 32) | 1).to_le_bytes());
        }
        out.copy_from_slice(&pattern[within]);
    }

    /// Carries out a write; `sure` makes it durable, at once or as soon as the changes before it are.
    pub(super) fn write(&mut self, offset: u64, data: IoSlice, sure: bool, answered: u64) {
        if sure && self.changes.is_empty() {
            self.write_durable(offset, &data);
        } else {
            self.push(CachedWrite { offset, payload: Payload::Data(data), sure, answered });
        }
    }

    /// Carries out a discard: some of the blocks keep what they hold, the others read as if never written.
    pub(super) fn discard(&mut self, offset: u64, len: u64, sure: bool, answered: u64, random: &mut Stream) {
        self.push(CachedWrite { offset, payload: Payload::Discard { len, salt: random.next() }, sure, answered });
        self.retire();
    }

    /// Carries out a part of a write ahead of its end, and gives the numbers of the changes that this made.
    pub(super) fn write_part(&mut self, offset: u64, data: &IoSlice, random: &mut Stream) -> Range<u64> {
        let first = self.first_change + self.changes.len() as u64;
        for run in torn_runs(data.len(), self.tear_bytes, random) {
            let payload = Payload::Data(data.slice(run.start, run.len()));
            self.push(CachedWrite { offset: offset + run.start as u64, payload, sure: false, answered: u64::MAX });
        }
        first..self.first_change + self.changes.len() as u64
    }

    /// The write that made the changes `parts` was answered.
    pub(super) fn answer_parts(&mut self, parts: Range<u64>, sure: bool, answered: u64) {
        for number in parts {
            let Some(change) = number.checked_sub(self.first_change).and_then(|at| self.changes.get_mut(at as usize))
            else {
                continue;
            };
            change.answered = answered;
            if sure && !change.sure {
                change.sure = true;
                self.unsure -= 1;
            }
        }
        self.retire();
    }

    /// Makes durable what was answered before `mark`, and perhaps more.
    pub(super) fn flush(&mut self, mark: u64, random: &mut Stream) {
        for change in self.changes.iter_mut().filter(|change| !change.sure) {
            if change.answered < mark || random.chance(1, 2) {
                change.sure = true;
                self.unsure -= 1;
            }
        }
        self.retire();
    }

    /// The power is gone: settles the cache and the `unfinished` changes.
    pub(super) fn lose_power(&mut self, unfinished: Vec<Unfinished>, random: &mut Stream) {
        let mood = Mood::draw(self.changes.len() + unfinished.len(), random);
        self.view.clear();
        let mut index = 0;
        while let Some(change) = self.changes.pop_front() {
            self.first_change += 1;
            let fate = if change.sure { Fate::Kept } else { mood.fate(index, random) };
            index += 1;
            match (fate, &change.payload) {
                (Fate::Lost, _) => {}
                (Fate::Torn, Payload::Data(data)) => {
                    for run in torn_runs(data.len(), self.tear_bytes, random) {
                        self.write_durable(change.offset + run.start as u64, &data[run]);
                    }
                }
                _ => self.apply_durable(&change),
            }
        }
        (self.unsure, self.cached_bytes) = (0, 0);
        for change in unfinished {
            let fate = mood.fate(index, random);
            index += 1;
            self.end_badly(change, fate, u64::MAX, random);
        }
        self.changes.iter_mut().for_each(|change| change.sure = true);
        self.unsure = 0;
        self.retire();
    }

    /// A change ends without an answer, or with a failure: it may have been carried out, in part, or not at all.
    pub(super) fn abandon(&mut self, change: Unfinished, answered: u64, random: &mut Stream) {
        let fate = Mood::EachForItself.fate(0, random);
        self.end_badly(change, fate, answered, random);
    }

    fn end_badly(&mut self, change: Unfinished, fate: Fate, answered: u64, random: &mut Stream) {
        match (fate, change) {
            (Fate::Lost, _) => {}
            (Fate::Torn, Unfinished::Write { offset, data }) => {
                let parts = self.write_part(offset, &data, random);
                self.answer_parts(parts, false, answered);
            }
            (Fate::Kept, Unfinished::Write { offset, data }) => self.write(offset, data, false, answered),
            (_, Unfinished::Discard { offset, len }) => self.discard(offset, len, false, answered, random),
        }
    }

    /// Flips a few bits in each block of the range, and never none.
    pub(super) fn corrupt(&mut self, range: Range<u64>, random: &mut Stream) {
        self.bring_down(&range);
        for (block, within, _) in blocks_of(range.start, (range.end - range.start) as usize) {
            let mut bytes = [0; BLOCK];
            self.read(block * BLOCK_BYTES, &mut bytes);
            let first = within.start + random.below(within.len());
            bytes[first] ^= 1 << random.below(8);
            for _ in 0..random.below(8) {
                let other = within.start + random.below(within.len());
                if other != first {
                    bytes[other] ^= 1 << random.below(8);
                }
            }
            self.view.remove(&block);
            self.durable.insert(block, Block::of(&bytes));
        }
    }

    /// Changes the medium behind everybody's back.
    pub(super) fn poke(&mut self, offset: u64, data: &[u8]) {
        let range = offset..offset + data.len() as u64;
        self.bring_down(&range);
        for (block, ..) in blocks_of(offset, data.len()) {
            self.view.remove(&block);
        }
        self.write_durable(offset, data);
    }

    /// What a read sees of every block that was ever written.
    pub(super) fn image(&self) -> BTreeMap<u64, Vec<u8>> {
        let written = |(block, content): (&u64, &Block)| (!matches!(content, Block::Unwritten)).then_some(*block);
        let blocks: BTreeSet<u64> = self.durable.iter().chain(&self.view).filter_map(written).collect();
        let read = |block: u64| {
            let mut bytes = vec![0; BLOCK];
            self.read(block * BLOCK_BYTES, &mut bytes);
            (block, bytes)
        };
        blocks.into_iter().map(read).collect()
    }

    /// Makes the medium what an image says, behind everybody's back.
    pub(super) fn set_back(&mut self, image: &BTreeMap<u64, Vec<u8>>) {
        self.changes.clear();
        self.view.clear();
        (self.unsure, self.cached_bytes) = (0, 0);
        self.durable = image.iter().map(|(block, bytes)| (*block, Block::of(bytes))).collect();
    }

    /// Makes whole blocks what an image says, behind everybody's back.
    pub(super) fn set_back_range(&mut self, image: &BTreeMap<u64, Vec<u8>>, range: Range<u64>) {
        self.bring_down(&range);
        for (block, ..) in blocks_of(range.start, (range.end - range.start) as usize) {
            self.view.remove(&block);
            match image.get(&block) {
                Some(bytes) => self.durable.insert(block, Block::of(bytes)),
                None => self.durable.remove(&block),
            };
        }
    }

    /// Bytes that are not durable yet.
    pub(super) fn cached_bytes(&self) -> u64 {
        self.cached_bytes
    }

    /// Memory that the blocks and the cached changes take, roughly.
    pub(super) fn allocated_bytes(&self) -> u64 {
        let entry = (size_of::<u64>() + size_of::<Block>()) as u64;
        let blocks = self.durable.values().chain(self.view.values());
        let taken: u64 =
            blocks.map(|block| entry + if matches!(block, Block::Data(_)) { BLOCK_BYTES } else { 0 }).sum();
        taken + self.cached_bytes
    }

    fn push(&mut self, change: CachedWrite) {
        match &change.payload {
            Payload::Data(data) => {
                for (block, within, part) in blocks_of(change.offset, data.len()) {
                    let content = if within.len() == BLOCK {
                        Block::of(&data[part])
                    } else {
                        let mut bytes = [0; BLOCK];
                        self.read(block * BLOCK_BYTES, &mut bytes);
                        bytes[within].copy_from_slice(&data[part]);
                        Block::of(&bytes)
                    };
                    self.view.insert(block, content);
                }
                self.cached_bytes += data.len() as u64;
            }
            Payload::Discard { len, salt } => {
                let blocks = change.offset / BLOCK_BYTES..(change.offset + len) / BLOCK_BYTES;
                let held = self.durable.range(blocks.clone()).chain(self.view.range(blocks));
                let gone: Vec<u64> =
                    held.map(|(block, _)| *block).filter(|block| is_discarded(*salt, *block)).collect();
                for block in gone {
                    self.view.insert(block, Block::Unwritten);
                }
            }
        }
        self.unsure += usize::from(!change.sure);
        self.changes.push_back(change);
        if self.cached_bytes > self.cache_limit_bytes {
            self.write_back(self.cache_limit_bytes / 2);
        } else if self.unsure == 0 {
            self.retire();
        }
    }

    /// Applies the oldest changes for good until at most `limit_bytes` are left, as a disk does when it has time.
    fn write_back(&mut self, limit_bytes: u64) {
        while self.cached_bytes > limit_bytes {
            let Some(change) = self.changes.front_mut() else { break };
            if !change.sure {
                change.sure = true;
                self.unsure -= 1;
            }
            self.retire_first();
        }
        self.retire();
    }

    /// Writes the whole cache back where a change touches `range`.
    fn bring_down(&mut self, range: &Range<u64>) {
        let touches = self.changes.iter().any(|change| {
            let len = match &change.payload {
                Payload::Data(data) => data.len() as u64,
                Payload::Discard { len, .. } => *len,
            };
            change.offset < range.end.next_multiple_of(BLOCK_BYTES)
                && range.start / BLOCK_BYTES * BLOCK_BYTES < change.offset + len
        });
        if touches {
            for change in &mut self.changes {
                change.sure = true;
            }
            self.unsure = 0;
            self.retire();
        }
    }

    /// Applies the changes that are sure, as far as none that is not stands before them.
    fn retire(&mut self) {
        if self.unsure > 0 {
            while self.changes.front().is_some_and(|change| change.sure) {
                self.retire_first();
            }
            return;
        }
        for (block, content) in std::mem::take(&mut self.view) {
            match content {
                Block::Unwritten => self.durable.remove(&block),
                content => self.durable.insert(block, content),
            };
        }
        self.first_change += self.changes.len() as u64;
        self.changes.clear();
        self.cached_bytes = 0;
    }

    fn retire_first(&mut self) {
        if let Some(change) = self.changes.pop_front() {
            self.first_change += 1;
            if let Payload::Data(data) = &change.payload {
                self.cached_bytes -= data.len() as u64;
            }
            self.apply_durable(&change);
        }
    }

    fn apply_durable(&mut self, change: &CachedWrite) {
        match &change.payload {
            Payload::Data(data) => self.write_durable(change.offset, data),
            Payload::Discard { len, salt } => {
                let held = self.durable.range(change.offset / BLOCK_BYTES..(change.offset + len) / BLOCK_BYTES);
                let gone: Vec<u64> =
                    held.map(|(block, _)| *block).filter(|block| is_discarded(*salt, *block)).collect();
                for block in gone {
                    self.durable.remove(&block);
                }
            }
        }
    }

    fn write_durable(&mut self, offset: u64, data: &[u8]) {
        for (block, within, part) in blocks_of(offset, data.len()) {
            let data = &data[part];
            if within.len() == BLOCK {
                self.durable.insert(block, Block::of(data));
                continue;
            }
            let mut bytes = [0; BLOCK];
            match self.durable.get(&block) {
                Some(Block::Data(held)) => bytes = **held,
                Some(Block::Zero) => {}
                Some(Block::Unwritten) | None => self.fill_unwritten(block, 0..BLOCK, &mut bytes),
            }
            bytes[within].copy_from_slice(data);
            self.durable.insert(block, Block::of(&bytes));
        }
    }
}

/// The blocks of `len` bytes from `offset`: number, range within the block, range within the bytes.
fn blocks_of(offset: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let within = ((offset + done as u64) % BLOCK_BYTES) as usize;
        let part = (BLOCK - within).min(len - done);
        let block = (offset + done as u64) / BLOCK_BYTES;
        done += part;
        (part > 0).then(|| (block, within..within + part, done - part..done))
    })
}

fn is_discarded(salt: u64, block: u64) -> bool {
    !mix(salt, block).is_multiple_of(4)
}

/// The parts of a torn write that reach the medium, in whole units: a front part, or units here and there.
fn torn_runs(len: usize, unit: usize, random: &mut Stream) -> Vec<Range<usize>> {
    let units = len.div_ceil(unit);
    let mut runs: Vec<Range<usize>> = Vec::new();
    if units == 0 {
        return runs;
    }
    if random.chance(1, 2) {
        let front = random.below(units + 1) * unit;
        runs.extend((front > 0).then(|| 0..front.min(len)));
        return runs;
    }
    let mut coins = 0;
    for index in 0..units {
        if index % 64 == 0 {
            coins = random.next();
        }
        if coins >> (index % 64) & 1 == 0 {
            continue;
        }
        let (start, end) = (index * unit, ((index + 1) * unit).min(len));
        match runs.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => runs.push(start..end),
        }
    }
    runs
}
