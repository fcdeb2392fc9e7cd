//! The free units of a disk, as runs.
//!
//! Invariant: runs neither touch nor overlap, and their sum is the free count.

use std::collections::BTreeMap;

/// Free runs of units by their start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeExtents {
    runs: BTreeMap<u32, u32>,
    free: u32,
}

impl FreeExtents {
    /// All of `units` free.
    pub fn new(units: u32) -> Self {
        let runs = (units > 0).then_some((0, units)).into_iter().collect();
        Self { runs, free: units }
    }

    /// Units that are free.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Whether a run of `len` units is free.
    pub fn fits(&self, len: u32) -> bool {
        self.free >= len && self.runs.values().any(|run| *run >= len)
    }

    /// How many runs of `len` units are free at once.
    pub fn slabs_of(&self, len: u32) -> u32 {
        self.runs.values().map(|run| run / len.max(1)).sum()
    }

    /// Takes the lowest run of `len` units.
    pub fn take(&mut self, len: u32) -> Option<u32> {
        let start = self.runs.iter().find(|(_, run)| **run >= len).map(|(start, _)| *start)?;
        let taken = self.take_at(start, len);
        debug_assert!(taken, "a found run is free");
        Some(start)
    }

    /// Takes exactly these units; false, and nothing taken, where one of them is not free.
    pub fn take_at(&mut self, start: u32, len: u32) -> bool {
        let Some((run_start, run_len)) = self.runs.range(..=start).next_back().map(|(start, len)| (*start, *len))
        else {
            return false;
        };
        let run_end = u64::from(run_start) + u64::from(run_len);
        let end = u64::from(start) + u64::from(len);
        if end > run_end || len == 0 {
            return false;
        }
        self.runs.remove(&run_start);
        if run_start < start {
            self.runs.insert(run_start, start - run_start);
        }
        if end < run_end {
            self.runs.insert(end as u32, (run_end - end) as u32);
        }
        self.free -= len;
        true
    }

    /// Whether none of these units is free: an allotment whose units were taken beforehand.
    pub fn is_taken(&self, start: u32, len: u32) -> bool {
        let end = start.saturating_add(len);
        self.runs.range(..end).next_back().is_none_or(|(run_start, run_len)| run_start + run_len <= start)
    }

    /// Whether the runs are in order, apart from each other, within `units`, and counted right.
    pub(crate) fn is_sound(&self, units: u32) -> bool {
        let mut end = None;
        let in_order = self.runs.iter().all(|(start, len)| {
            let apart = end.is_none_or(|end| *start > end);
            end = Some(start + len);
            apart && *len > 0
        });
        in_order && end.is_none_or(|end| end <= units) && self.runs.values().sum::<u32>() == self.free
    }

    /// Gives units back.
    ///
    /// # Panics
    /// If one of them is free already: an allotment was lost track of.
    pub fn give(&mut self, start: u32, len: u32) {
        assert!(self.is_taken(start, len), "units {start}+{len} are given back twice");
        let (mut start, mut len) = (start, len);
        self.free += len;
        if let Some((before, before_len)) = self.runs.range(..start).next_back().map(|(start, len)| (*start, *len))
            && before + before_len == start
        {
            self.runs.remove(&before);
            start = before;
            len += before_len;
        }
        if let Some(after_len) = self.runs.remove(&(start + len)) {
            len += after_len;
        }
        self.runs.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_split_and_join() {
        let mut free = FreeExtents::new(100);
        assert_eq!((free.take(10), free.take(20), free.take(70), free.take(1)), (Some(0), Some(10), Some(30), None));
        free.give(10, 20);
        free.give(0, 10);
        assert_eq!((free.free(), free.fits(30), free.fits(31)), (30, true, false));
        assert!(!free.take_at(20, 11) && free.take_at(5, 5) && !free.take_at(9, 1));
        free.give(5, 5);
        free.give(30, 70);
        assert_eq!(free, FreeExtents::new(100));
    }

    #[test]
    #[should_panic(expected = "given back twice")]
    fn giving_back_twice_is_noticed() {
        let mut free = FreeExtents::new(10);
        free.take(5);
        free.give(0, 5);
        free.give(4, 1);
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_bitmap(steps in proptest::collection::vec((0u32..64, 1u32..16, proptest::bool::ANY), 1..200)) {
            let mut free = FreeExtents::new(64);
            let mut map = [true; 64];
            for (start, len, take) in steps {
                let end = (start + len).min(64);
                let range = start as usize..end as usize;
                let len = end - start;
                if take {
                    let expected = len > 0 && map[range.clone()].iter().all(|unit| *unit);
                    proptest::prop_assert_eq!(free.take_at(start, len), expected);
                    if expected { map[range].fill(false); }
                } else if map[range.clone()].iter().all(|unit| !*unit) {
                    free.give(start, len);
                    map[range].fill(true);
                }
                proptest::prop_assert_eq!(free.free() as usize, map.iter().filter(|unit| **unit).count());
            }
        }
    }
}
