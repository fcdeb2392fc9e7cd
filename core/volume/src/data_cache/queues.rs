//! Which runs are kept: S3-FIFO, two queues and a memory of what left the first of them.
//!
//! Invariant: each run is in one queue, at the place that its turn says; what stands there for one that is gone is passed
//! over. Places of those are no more than those of runs, and a few.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use foldhash::fast::RandomState;
use holdfast_device::IoSlice;
use holdfast_model::BLOCK_BYTES;

/// Uses that count.
const MOST_USES: u8 = 3;
/// Uses that take a run from the first queue to the second. One may be the rest of a read that ended within a block.
const USES_TO_STAY: u8 = 2;
/// The part of the memory that the first queue leaves to the second only if that wants it.
const SMALL_PART: usize = 10;
/// Memory of a run beside its data: what allocating in whole pages costs, its entries in tables and queues.
const BESIDE: usize = BLOCK_BYTES as usize + 192;
/// Places of gone runs that a queue may have whatever else it has.
const FEW: usize = 64;

/// A block of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub device: u32,
    pub block: u64,
}

/// Blocks that were read at once.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The first of them.
    pub key: Key,
    pub data: IoSlice,
    /// Whether they were held against checksums of their own.
    pub is_checked: bool,
}

impl Run {
    pub fn blocks(&self) -> u64 {
        self.data.len() as u64 / BLOCK_BYTES
    }

    fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        let Key { device, block } = self.key;
        (block..block + self.blocks()).map(move |block| Key { device, block })
    }

    /// Bytes of memory: buffers come in powers of two.
    fn weight(&self) -> usize {
        self.data.len().next_power_of_two() + BESIDE
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Small,
    Main,
}

#[derive(Debug)]
struct Kept {
    run: Run,
    queue: Queue,
    uses: u8,
    /// What its place in the queue is known by.
    turn: u64,
}

/// A place in a queue.
type Place = (usize, u64);

/// One shard.
#[derive(Debug)]
pub(super) struct Queues {
    most: usize,
    kept: Vec<Option<Kept>>,
    free: Vec<usize>,
    /// Where each block is.
    index: HashMap<Key, usize, RandomState>,
    small: VecDeque<Place>,
    main: VecDeque<Place>,
    bytes: usize,
    small_bytes: usize,
    /// First blocks of runs that left the first queue, each with the turn of its place in `left`.
    ghosts: HashMap<Key, u64, RandomState>,
    left: VecDeque<(Key, u64, usize)>,
    left_bytes: usize,
    turn: u64,
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    pub invalidations: u64,
}

impl Queues {
    pub fn new(most: usize) -> Self {
        Self {
            most,
            kept: Vec::new(),
            free: Vec::new(),
            index: HashMap::default(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            bytes: 0,
            small_bytes: 0,
            ghosts: HashMap::default(),
            left: VecDeque::new(),
            left_bytes: 0,
            turn: 0,
            hits: 0,
            misses: 0,
            evictions: 0,
            invalidations: 0,
        }
    }

    /// Bytes of memory that all runs take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The run that has a block, and how many others it has before it.
    pub fn find(&mut self, key: Key, is_checked: bool) -> Option<(&Run, u64)> {
        let kept = self.kept[*self.index.get(&key)?].as_mut()?;
        if is_checked && !kept.run.is_checked {
            return None;
        }
        kept.uses = (kept.uses + 1).min(MOST_USES);
        Some((&kept.run, key.block - kept.run.key.block))
    }

    /// Keeps a run, in place of those that have any of its blocks.
    pub fn put(&mut self, run: Run) {
        let weight = run.weight();
        let mut is_known = self.ghosts.remove(&run.key).is_some();
        for key in run.keys() {
            if let Some(at) = self.index.get(&key).copied() {
                is_known |= self.take(at).is_some_and(|kept| kept.queue == Queue::Main);
            }
        }
        if weight > self.most {
            return;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() - 1
        });
        self.index.extend(run.keys().map(|key| (key, at)));
        self.bytes += weight;
        let queue = if is_known { Queue::Main } else { Queue::Small };
        self.kept[at] = Some(Kept { run, queue, uses: 0, turn: 0 });
        self.line_up(at, queue);
        while self.bytes > self.most {
            self.give_one_up();
        }
    }

    /// Takes out all runs that have any of these blocks of a device.
    pub fn remove(&mut self, device: u32, blocks: Range<u64>) {
        if blocks.end - blocks.start <= self.index.len() as u64 {
            for block in blocks {
                if let Some(at) = self.index.get(&Key { device, block }).copied() {
                    self.take(at);
                    self.invalidations += 1;
                }
            }
            return;
        }
        for at in 0..self.kept.len() {
            let is_one = |kept: &Kept| {
                let Key { device: of, block } = kept.run.key;
                of == device && block < blocks.end && block + kept.run.blocks() > blocks.start
            };
            if self.kept[at].as_ref().is_some_and(is_one) {
                self.take(at);
                self.invalidations += 1;
            }
        }
    }

    /// Puts a run at the end of a queue.
    fn line_up(&mut self, at: usize, queue: Queue) {
        let Some(kept) = self.kept[at].as_mut() else { return };
        self.turn += 1;
        (kept.queue, kept.turn) = (queue, self.turn);
        let line = match queue {
            Queue::Small => {
                self.small_bytes += kept.run.weight();
                &mut self.small
            }
            Queue::Main => &mut self.main,
        };
        line.push_back((at, self.turn));
        let runs = self.kept.len() - self.free.len();
        if line.len() > 2 * runs + FEW {
            let kept = &self.kept;
            line.retain(|(at, turn)| kept[*at].as_ref().is_some_and(|kept| kept.turn == *turn));
        }
    }

    /// Takes a run out; its place in the queue stays, and is nobody's.
    fn take(&mut self, at: usize) -> Option<Kept> {
        let kept = self.kept[at].take()?;
        for key in kept.run.keys() {
            self.index.remove(&key);
        }
        self.bytes -= kept.run.weight();
        if kept.queue == Queue::Small {
            self.small_bytes -= kept.run.weight();
        }
        self.free.push(at);
        Some(kept)
    }

    /// Takes one step towards less memory.
    fn give_one_up(&mut self) {
        let is_small = self.small_bytes > self.most / SMALL_PART || self.main.is_empty();
        let line = if is_small { &mut self.small } else { &mut self.main };
        let Some((at, turn)) = line.pop_front() else { return };
        let Some(kept) = self.kept[at].as_mut().filter(|kept| kept.turn == turn) else { return };
        if is_small {
            if kept.uses >= USES_TO_STAY {
                kept.uses = 0;
                self.small_bytes -= kept.run.weight();
                return self.line_up(at, Queue::Main);
            }
            let (key, weight) = (kept.run.key, kept.run.weight());
            self.remember(key, weight);
        } else if kept.uses > 0 {
            kept.uses -= 1;
            return self.line_up(at, Queue::Main);
        }
        self.take(at);
        self.evictions += 1;
    }

    /// Remembers a run that left, in place of those that left long ago.
    fn remember(&mut self, key: Key, weight: usize) {
        self.turn += 1;
        self.ghosts.insert(key, self.turn);
        self.left.push_back((key, self.turn, weight));
        self.left_bytes += weight;
        while self.left_bytes > self.most {
            let Some((key, turn, weight)) = self.left.pop_front() else { return };
            self.left_bytes -= weight;
            if self.ghosts.get(&key) == Some(&turn) {
                self.ghosts.remove(&key);
            }
        }
    }
}

#[cfg(test)]
impl Queues {
    /// Whether it is as it says.
    pub fn check(&self) {
        let all: Vec<(usize, &Kept)> =
            self.kept.iter().enumerate().filter_map(|(at, kept)| Some((at, kept.as_ref()?))).collect();
        let weights = |queue: Option<Queue>| -> usize {
            let those = all.iter().filter(|(_, kept)| queue.is_none_or(|queue| kept.queue == queue));
            those.map(|(_, kept)| kept.run.weight()).sum()
        };
        assert_eq!((self.bytes, self.small_bytes), (weights(None), weights(Some(Queue::Small))));
        assert_eq!(self.index.len(), all.iter().map(|(_, kept)| kept.run.keys().count()).sum::<usize>());
        for (at, kept) in &all {
            assert!(kept.run.keys().all(|key| self.index.get(&key) == Some(at)));
            let line = if kept.queue == Queue::Small { &self.small } else { &self.main };
            assert_eq!(line.iter().filter(|place| **place == (*at, kept.turn)).count(), 1);
        }
        for line in [&self.small, &self.main] {
            assert!(line.len() <= 2 * self.kept.len() + FEW + 1, "{} places of {}", line.len(), all.len());
        }
        assert!(self.left_bytes <= self.most && self.ghosts.len() <= self.left.len());
    }
}
