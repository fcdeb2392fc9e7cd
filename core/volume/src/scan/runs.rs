//! Runs of blocks: where each begins, and how many it has.
//!
//! Invariant: runs of a list do not overlap.

use std::collections::BTreeMap;

/// Takes a run out of runs.
pub(crate) fn cut(runs: &mut BTreeMap<u64, u64>, place: u64, blocks: u64) {
    let end = place.saturating_add(blocks);
    while let Some((&start, &len)) = runs.range(..end).next_back().filter(|(start, len)| **start + **len > place) {
        runs.remove(&start);
        if start < place {
            runs.insert(start, place - start);
        }
        if start + len > end {
            runs.insert(end, start + len - end);
        }
    }
}

/// What of runs lies within one.
pub(crate) fn within(runs: &BTreeMap<u64, u64>, place: u64, blocks: u64) -> Vec<(u64, u64)> {
    let end = place.saturating_add(blocks);
    let touching = runs.range(..end).rev().take_while(|(start, len)| **start + **len > place);
    let mut found: Vec<_> = touching
        .map(|(start, len)| ((*start).max(place), (start + len).min(end)))
        .map(|(from, to)| (from, to - from))
        .collect();
    found.reverse();
    found
}

/// What two lists of runs have in common.
pub(crate) fn common(one: &BTreeMap<u64, u64>, other: &BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
    let (mut beyond, mut common) = (one.clone(), one.clone());
    other.iter().for_each(|(place, blocks)| cut(&mut beyond, *place, *blocks));
    beyond.iter().for_each(|(place, blocks)| cut(&mut common, *place, *blocks));
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_and_compared() {
        let one = BTreeMap::from([(10, 10), (30, 5)]);
        let mut cut_out = one.clone();
        cut(&mut cut_out, 12, 3);
        assert_eq!(cut_out, BTreeMap::from([(10, 2), (15, 5), (30, 5)]));
        cut(&mut cut_out, 0, 33);
        assert_eq!(cut_out, BTreeMap::from([(33, 2)]));
        assert_eq!(common(&one, &BTreeMap::from([(15, 17)])), BTreeMap::from([(15, 5), (30, 2)]));
    }
}
