//! A set of numbered blocks. The empty and the full set take no memory, which is what most columns have.

/// A set of blocks below a fixed limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSet {
    limit: u32,
    count: u32,
    /// `None` while the set is empty or full.
    words: Option<Box<[u64]>>,
}

impl BlockSet {
    /// An empty set of blocks below `limit`.
    pub fn new(limit: u32) -> Self {
        Self { limit, count: 0, words: None }
    }

    /// Every block of the set is below this.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// How many blocks are in.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether none is in.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether `block` is in.
    pub fn contains(&self, block: u32) -> bool {
        match &self.words {
            Some(words) => words[block as usize / 64] >> (block % 64) & 1 == 1,
            None => self.count != 0,
        }
    }

    /// How many of the range are in.
    pub fn count_in(&self, start: u32, end: u32) -> u32 {
        match &self.words {
            None if self.count == 0 => 0,
            None => end - start,
            Some(words) => masks(start, end).map(|(word, mask)| (words[word] & mask).count_ones()).sum(),
        }
    }

    /// Whether all of the range are in.
    pub fn contains_all(&self, start: u32, end: u32) -> bool {
        self.count_in(start, end) == end - start
    }

    /// Whether one of the range is in.
    pub fn contains_any(&self, start: u32, end: u32) -> bool {
        self.count_in(start, end) != 0
    }

    /// Puts the range in.
    pub fn insert(&mut self, start: u32, end: u32) {
        if self.count < self.limit && start < end {
            let words = Self::open(&mut self.words, self.limit, 0);
            self.count += masks(start, end)
                .map(|(word, mask)| {
                    let added = (mask & !words[word]).count_ones();
                    words[word] |= mask;
                    added
                })
                .sum::<u32>();
            self.close();
        }
    }

    /// Takes the range out.
    pub fn remove(&mut self, start: u32, end: u32) {
        if self.count > 0 && start < end {
            let words = Self::open(&mut self.words, self.limit, u64::MAX);
            self.count -= masks(start, end)
                .map(|(word, mask)| {
                    let gone = (mask & words[word]).count_ones();
                    words[word] &= !mask;
                    gone
                })
                .sum::<u32>();
            self.close();
        }
    }

    /// Whether every block of the set is in another one.
    pub fn is_within(&self, other: &Self) -> bool {
        let within = |words: &[u64]| words.iter().enumerate().all(|(index, word)| word & !other.word(index) == 0);
        match &self.words {
            None => self.count == 0 || other.count == other.limit,
            Some(words) => within(words),
        }
    }

    /// Puts every block of another set in.
    pub fn insert_all(&mut self, other: &Self) {
        other.runs(0, other.limit).for_each(|(start, end)| self.insert(start, end));
    }

    /// Runs of blocks within the range that are in, in order.
    pub fn runs(&self, start: u32, end: u32) -> impl Iterator<Item = (u32, u32)> {
        self.runs_of(start, end, true)
    }

    /// Runs of blocks within the range that are out, in order.
    pub fn gaps(&self, start: u32, end: u32) -> impl Iterator<Item = (u32, u32)> {
        self.runs_of(start, end, false)
    }

    fn runs_of(&self, start: u32, end: u32, inside: bool) -> impl Iterator<Item = (u32, u32)> {
        let mut at = start;
        std::iter::from_fn(move || {
            let first = self.next(at, end, inside)?;
            at = self.next(first, end, !inside).unwrap_or(end);
            Some((first, at))
        })
    }

    /// The first block from `from` below `end` that is in, or out.
    pub fn next(&self, from: u32, end: u32, inside: bool) -> Option<u32> {
        if from >= end {
            return None;
        }
        let Some(words) = &self.words else {
            return ((self.count != 0) == inside).then_some(from);
        };
        masks(from, end).find_map(|(word, mask)| {
            let bits = if inside { words[word] } else { !words[word] } & mask;
            (bits != 0).then(|| word as u32 * 64 + bits.trailing_zeros())
        })
    }

    /// The bits of the blocks from `start`, which is a multiple of 64, as little-endian words.
    pub fn word(&self, index: usize) -> u64 {
        match &self.words {
            Some(words) => words.get(index).copied().unwrap_or(0),
            None if self.count == 0 => 0,
            None => masks(0, self.limit).find(|(word, _)| *word == index).map_or(0, |(_, mask)| mask),
        }
    }

    /// Puts in every block whose bit in word `index` is set; bits beyond the limit are left out.
    pub fn insert_word(&mut self, index: usize, bits: u64) {
        for (start, end) in runs_of_word(index as u32 * 64, bits) {
            self.insert(start.min(self.limit), end.min(self.limit));
        }
    }

    fn open(words: &mut Option<Box<[u64]>>, limit: u32, fill: u64) -> &mut [u64] {
        words.get_or_insert_with(|| {
            let mut words = vec![0; limit.div_ceil(64) as usize].into_boxed_slice();
            masks(0, limit).for_each(|(word, mask)| words[word] = mask & fill);
            words
        })
    }

    fn close(&mut self) {
        if self.count == 0 || self.count == self.limit {
            self.words = None;
        }
    }
}

/// The runs of set bits of a word whose lowest bit is block `first`.
pub fn runs_of_word(first: u32, bits: u64) -> impl Iterator<Item = (u32, u32)> {
    let (mut at, mut bits) = (first, bits);
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let start = at + bits.trailing_zeros();
        bits >>= bits.trailing_zeros();
        let run = bits.trailing_ones();
        at = start + run;
        bits = bits.checked_shr(run).unwrap_or(0);
        Some((start, at))
    })
}

/// The words that a range touches, with the bits of each.
fn masks(start: u32, end: u32) -> impl Iterator<Item = (usize, u64)> {
    (start / 64..end.div_ceil(64)).filter(move |_| start < end).map(move |word| {
        let first = word * 64;
        let low = start.saturating_sub(first).min(63);
        let high = (end - first).min(64);
        (word as usize, (u64::MAX << low) & (u64::MAX >> (64 - high)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_a_plain_set() {
        for seed in 0..200 {
            let mut random = SmallRng::seed_from_u64(seed);
            let limit = random.random_range(1..300);
            let (mut set, mut plain) = (BlockSet::new(limit), BTreeSet::new());
            for _ in 0..100 {
                let start = random.random_range(0..limit);
                let end = random.random_range(start..=limit);
                if random.random_bool(0.5) {
                    set.insert(start, end);
                    plain.extend(start..end);
                } else {
                    set.remove(start, end);
                    plain.retain(|block| !(start..end).contains(block));
                }
                let from_runs: Vec<u32> = set.runs(0, limit).flat_map(|(start, end)| start..end).collect();
                assert_eq!(from_runs, plain.iter().copied().collect::<Vec<_>>(), "seed {seed}");
                let from_gaps: Vec<u32> = set.gaps(0, limit).flat_map(|(start, end)| start..end).collect();
                assert_eq!(
                    from_gaps,
                    (0..limit).filter(|block| !plain.contains(block)).collect::<Vec<_>>(),
                    "seed {seed}"
                );
                let mut both = BlockSet::new(limit);
                both.insert(start, end);
                both.insert_all(&set);
                assert_eq!(both.count() as usize, plain.union(&(start..end).collect()).count(), "seed {seed}");
                assert_eq!(set.count() as usize, plain.len());
                assert_eq!(set.count_in(start, end) as usize, plain.range(start..end).count());
                let mut copy = BlockSet::new(limit);
                (0..limit.div_ceil(64) as usize).for_each(|word| copy.insert_word(word, set.word(word)));
                assert_eq!(copy, set);
            }
        }
    }
}
