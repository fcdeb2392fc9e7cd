//! Block device range descriptors (SBC-3 5.11.3): which blocks a token is to stand for, or to be written to.
//!
//! Invariant: ranges that were taken from a list lie within the unit, do not overlap, and are no more than allowed.

use std::ops::Range;

use crate::sense::{Sense, code};
use crate::unit::Unit;

use super::codes;
use super::limits::{RANGES, TOKEN_DATA_BYTES};
use super::list::List;

/// Bytes of a descriptor.
pub(super) const DESCRIPTOR: usize = 16;

/// What the ranges are checked against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground {
    pub(super) capacity: u64,
    pub(super) block_bytes: u64,
}

impl Ground {
    pub(super) fn of(unit: &Unit) -> Self {
        Self { capacity: unit.capacity(), block_bytes: unit.block_bytes() }
    }
}

/// The ranges of bytes that whole descriptors from `at` on name, in order; those without blocks are left out.
pub(super) fn parse(list: List<'_>, at: usize, len: usize, ground: Ground) -> Result<Vec<Range<u64>>, Sense> {
    let count = len / DESCRIPTOR;
    if count > RANGES {
        return Err(Sense::illegal(codes::TOO_MANY_SEGMENTS));
    }
    let mut ranges = Vec::with_capacity(count);
    let mut blocks = 0_u64;
    for at in (0..count).map(|number| at + number * DESCRIPTOR) {
        let (lba, number) = (list.u64(at), u64::from(list.u32(at + 8)));
        if lba.checked_add(number).is_none_or(|end| end > ground.capacity) {
            return Err(Sense::illegal(code::LBA_OUT_OF_RANGE).about(lba.max(ground.capacity)));
        }
        blocks += number;
        if blocks > TOKEN_DATA_BYTES / ground.block_bytes {
            return Err(Sense::list(at + 8));
        }
        if number > 0 {
            ranges.push((at, lba * ground.block_bytes..(lba + number) * ground.block_bytes));
        }
    }
    let mut sorted: Vec<_> = ranges.iter().collect();
    sorted.sort_unstable_by_key(|(_, range)| range.start);
    if let Some(pair) = sorted.windows(2).find(|pair| pair[1].1.start < pair[0].1.end) {
        return Err(Sense::list(pair[0].0.max(pair[1].0)));
    }
    Ok(ranges.into_iter().map(|(_, range)| range).collect())
}

/// The bytes of ranges.
pub(super) fn bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GROUND: Ground = Ground { capacity: 1000, block_bytes: 512 };

    fn list(ranges: &[(u64, u32)]) -> Vec<u8> {
        let one = |(lba, blocks): &(u64, u32)| [&lba.to_be_bytes()[..], &blocks.to_be_bytes(), &[0; 4]].concat();
        ranges.iter().flat_map(one).collect()
    }

    fn parsed(ranges: &[(u64, u32)]) -> Result<Vec<Range<u64>>, Sense> {
        let list = list(ranges);
        parse(List(&list), 0, list.len(), GROUND)
    }

    #[test]
    fn ranges_are_taken_in_order() {
        assert_eq!(parsed(&[(10, 2), (0, 0), (4, 1)]), Ok(vec![5120..6144, 2048..2560]));
        let incomplete = [list(&[(1, 1)]), vec![0xff; 15]].concat();
        let range = 512..1024;
        assert_eq!(parse(List(&incomplete), 0, incomplete.len(), GROUND).unwrap()[..], [range]);
        assert_eq!(parsed(&[(0, 1000)]).map(|ranges| bytes(&ranges)), Ok(512_000));
    }

    #[test]
    fn what_is_beyond_overlaps_or_is_too_much_is_refused() {
        let out_of_range = |lba| Err(Sense::illegal(code::LBA_OUT_OF_RANGE).about(lba));
        assert_eq!(parsed(&[(999, 2)]), out_of_range(1000));
        assert_eq!(parsed(&[(u64::MAX, 1)]), out_of_range(u64::MAX));
        assert_eq!(parsed(&[(1001, 0)]), out_of_range(1001));
        assert_eq!(parsed(&[(5, 10), (100, 1), (14, 1)]), Err(Sense::list(32)));
        assert_eq!(parsed(&[(0, 1); RANGES + 1]), Err(Sense::illegal(codes::TOO_MANY_SEGMENTS)));
        let ground = Ground { capacity: u64::MAX / 4096, block_bytes: 4096 };
        let much = list(&[(0, u32::MAX), (1 << 32, 1 << 30)]);
        assert_eq!(parse(List(&much), 0, much.len(), ground), Err(Sense::list(24)));
    }

    proptest! {
        #[test]
        fn any_bytes_come_to_ranges_within_or_to_a_refusal(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(ranges) = parse(List(&bytes), 0, bytes.len(), GROUND) {
                prop_assert!(ranges.iter().all(|range| range.start < range.end && range.end <= 512_000));
            }
        }
    }
}
