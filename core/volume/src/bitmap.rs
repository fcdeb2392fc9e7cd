//! The bitmap of a zone: a bit for each of its blocks.
//!
//! Invariant: blocks beyond the zone, and those of its head, are never free.

use crate::zones::HEAD_BLOCKS;

/// Bytes of a bitmap: of the largest zone there is.
pub(crate) const BITMAP_BYTES: usize = 8 << 10;
const WORDS: usize = BITMAP_BYTES / 8;
/// Bits of one.
pub(crate) const BITS: u32 = (BITMAP_BYTES * 8) as u32;

/// Bits of blocks; one means that it is not free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bitmap {
    words: Box<[u64; WORDS]>,
}

impl Bitmap {
    /// That of a zone of so many blocks that holds nothing.
    pub fn zone(blocks: u32) -> Self {
        let mut bitmap = Self { words: Box::new([0; WORDS]) };
        bitmap.set(0, HEAD_BLOCKS as u32, true);
        bitmap.set(blocks, (BITMAP_BYTES * 8) as u32 - blocks, true);
        bitmap
    }

    /// From its bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut words = Box::new([0; WORDS]);
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        Self { words }
    }

    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Sets or clears a run.
    pub fn set(&mut self, from: u32, len: u32, value: bool) {
        masks(from, len, |word, mask| if value { self.words[word] |= mask } else { self.words[word] &= !mask });
    }

    /// How many bits of a run are set.
    pub fn count(&self, from: u32, len: u32) -> u32 {
        let mut count = 0;
        masks(from, len, |word, mask| count += (self.words[word] & mask).count_ones());
        count
    }

    /// How many are not.
    pub fn free(&self) -> u32 {
        self.words.iter().map(|word| word.count_zeros()).sum()
    }

    /// Whether all bits of another are set here, too.
    pub fn covers(&self, other: &Self) -> bool {
        self.words.iter().zip(other.words.iter()).all(|(own, other)| own & other == *other)
    }

    /// Bits that are set here and not in another.
    pub fn count_taken(&self, other: &Self) -> u32 {
        self.words.iter().zip(other.words.iter()).map(|(own, other)| (own & !other).count_ones()).sum()
    }

    /// Runs of bits that are set within a run.
    pub fn runs_within(&self, from: u32, len: u32) -> Vec<(u32, u32)> {
        let mut rest = self.clone();
        rest.set(from, len, false);
        self.runs_beyond(&rest)
    }

    /// Runs of bits that are set here and not in another, in order.
    pub fn runs_beyond(&self, other: &Self) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for (word, (own, other)) in self.words.iter().zip(other.words.iter()).enumerate() {
            let mut left = own & !other;
            while left != 0 {
                let block = word as u32 * 64 + left.trailing_zeros();
                left &= left - 1;
                match runs.last_mut() {
                    Some((from, len)) if *from + *len == block => *len += 1,
                    _ => runs.push((block, 1)),
                }
            }
        }
        runs
    }

    /// The end of the run of equal bits that begins at `from`.
    fn end_of_run(&self, from: u32) -> u32 {
        let value = self.words[from as usize / 64] >> (from % 64) & 1;
        let flip = if value == 1 { 0 } else { u64::MAX };
        // Bits that differ are zeros now.
        let mut word = from as usize / 64;
        let mut bits = (self.words[word] ^ flip) | ((1u64 << (from % 64)) - 1);
        while bits == u64::MAX {
            word += 1;
            if word == WORDS {
                return (WORDS * 64) as u32;
            }
            bits = self.words[word] ^ flip;
        }
        word as u32 * 64 + bits.trailing_ones()
    }

    fn is_set(&self, block: u32) -> bool {
        self.words[block as usize / 64] >> (block % 64) & 1 == 1
    }

    /// A free run of up to `want` blocks: the one at `from` if that is `exact` and free; else the first that is long
    /// enough, searched from `from` on and round; else the longest.
    pub fn find(&self, from: u32, exact: bool, want: u32) -> Option<(u32, u32)> {
        let all = (WORDS * 64) as u32;
        let from = from.min(all - 1);
        if exact && !self.is_set(from) {
            return Some((from, (self.end_of_run(from) - from).min(want)));
        }
        let mut longest: Option<(u32, u32)> = None;
        for (mut at, end) in [(from, all), (0, from)] {
            while at < end {
                let next = self.end_of_run(at);
                if !self.is_set(at) {
                    let len = next - at;
                    if len >= want {
                        return Some((at, want));
                    }
                    if longest.is_none_or(|(_, best)| best < len) {
                        longest = Some((at, len));
                    }
                }
                at = next;
            }
        }
        longest
    }
}

/// The words of a run, with the bits of each.
fn masks(from: u32, len: u32, mut each: impl FnMut(usize, u64)) {
    let (mut at, end) = (from, from + len);
    while at < end {
        let in_word = (64 - at % 64).min(end - at);
        let ones = if in_word == 64 { u64::MAX } else { (1 << in_word) - 1 };
        each(at as usize / 64, ones << (at % 64));
        at += in_word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_where_they_are() {
        let mut bitmap = Bitmap::zone(1000);
        assert_eq!((bitmap.free(), bitmap.find(0, false, 10)), (992, Some((8, 10))));
        bitmap.set(8, 100, true);
        bitmap.set(150, 1, true);
        assert_eq!(bitmap.find(120, true, 50), Some((120, 30)), "what is free at the place itself");
        assert_eq!(bitmap.find(120, false, 31), Some((151, 31)));
        assert_eq!(bitmap.find(990, false, 20), Some((108, 20)), "round the end");
        assert_eq!(bitmap.find(0, false, 5000), Some((151, 849)), "the longest");
        assert_eq!((bitmap.count(100, 60), bitmap.count(0, 1000)), (9, 109));
        assert_eq!(bitmap.runs_beyond(&Bitmap::zone(1000)), [(8, 100), (150, 1)]);
        assert_eq!(bitmap.runs_within(100, 51), [(100, 8), (150, 1)]);
        assert_eq!(bitmap.count_taken(&Bitmap::zone(1000)), 101);
        bitmap.set(0, 1000, true);
        assert_eq!((bitmap.find(3, true, 1), bitmap.free()), (None, 0));
        assert_eq!(Bitmap::from_bytes(&bitmap.to_bytes()), bitmap);
    }
}
