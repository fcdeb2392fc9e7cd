//! Ranges of an object of which somebody wants to know whether they still hold what they held.
//!
//! ```text
//!   watch(range)   no change of the range is under way ─▶ it stands in the table
//!   a change       nothing is watched: one load · else: what it meets is marked ─▶ it begins
//! ```
//!
//! Who looks into the table takes no lock: it is a snapshot, sorted by where the ranges begin, in which each knows how
//! far it and those before it reach. What is of no use any more leaves it when half of it is such.
//!
//! Invariant: who reads a watched range, and finds it unchanged afterwards, has read what it held when the watch began.
//! So a range is marked before the change begins, and is watched only when no change of it is under way.

use std::ops::Range;
use std::sync::atomic::{AtomicIsize, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;

/// A range that is watched until this is dropped.
#[derive(Debug)]
pub struct WatchedRange {
    range: Range<u64>,
    state: Arc<State>,
    table: Weak<Ranges>,
}

/// What became of a range.
#[derive(Debug, Default)]
struct State(AtomicU8);

const CHANGED: u8 = 1;
const DROPPED: u8 = 2;

impl State {
    /// Sets a flag. True: it is the first.
    fn set(&self, flag: u8) -> bool {
        self.0.fetch_or(flag, Ordering::SeqCst) == 0
    }

    fn has(&self, flags: u8) -> bool {
        self.0.load(Ordering::SeqCst) & flags != 0
    }
}

impl WatchedRange {
    /// Where it lies.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Whether a change of some of it has begun since it is watched.
    pub fn is_changed(&self) -> bool {
        self.state.has(CHANGED)
    }
}

impl Drop for WatchedRange {
    fn drop(&mut self) {
        if self.state.set(DROPPED)
            && let Some(table) = self.table.upgrade()
        {
            table.outdate(1);
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    range: Range<u64>,
    /// The furthest end of this range and of all before it.
    reach: u64,
    state: Arc<State>,
}

/// What is watched of an object.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// The length of the table: what every change looks at.
    len: AtomicUsize,
    /// How many of these are changed or not watched any more; less than none while two count at once.
    outdated: AtomicIsize,
    table: ArcSwap<Vec<Entry>>,
    writer: Mutex<()>,
}

impl Ranges {
    /// Watches ranges, of which no change may be under way.
    pub fn add(self: &Arc<Self>, ranges: impl Iterator<Item = Range<u64>>) -> Vec<Arc<WatchedRange>> {
        let watch = |range| WatchedRange { range, state: Arc::default(), table: Arc::downgrade(self) };
        let watched: Vec<_> = ranges.map(|range| Arc::new(watch(range))).collect();
        let entry = |one: &Arc<WatchedRange>| Entry { range: one.range(), reach: 0, state: one.state.clone() };
        self.replace(watched.iter().map(entry));
        watched
    }

    /// A change of a range is about to begin.
    #[inline]
    pub fn mark(&self, range: Range<u64>) {
        if self.len.load(Ordering::Acquire) > 0 {
            self.mark_in_table(&range);
        }
    }

    fn mark_in_table(&self, range: &Range<u64>) {
        let entries = self.table.load();
        let mut at = entries.partition_point(|entry| entry.range.start < range.end);
        let mut met = 0;
        while at > 0 && entries[at - 1].reach > range.start {
            at -= 1;
            if entries[at].range.end > range.start && entries[at].state.set(CHANGED) {
                met += 1;
            }
        }
        drop(entries);
        if met > 0 {
            self.outdate(met);
        }
    }

    /// So many more are of no use.
    fn outdate(&self, count: isize) {
        let outdated = self.outdated.fetch_add(count, Ordering::SeqCst) + count;
        if 2 * outdated >= self.len.load(Ordering::SeqCst) as isize {
            self.replace([].into_iter());
        }
    }

    /// Drops what is changed or not watched any more, and adds entries.
    fn replace(&self, added: impl Iterator<Item = Entry>) {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.table.load_full();
        let kept = old.iter().filter(|entry| !entry.state.has(CHANGED | DROPPED)).cloned();
        let mut entries: Vec<Entry> = kept.collect();
        self.outdated.fetch_sub((old.len() - entries.len()) as isize, Ordering::SeqCst);
        entries.extend(added);
        entries.sort_unstable_by_key(|entry| entry.range.start);
        let mut reach = 0;
        for entry in &mut entries {
            reach = reach.max(entry.range.end);
            entry.reach = reach;
        }
        self.len.store(entries.len(), Ordering::Release);
        self.table.store(Arc::new(entries));
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::once;

    use proptest::prelude::*;

    fn changed(watched: &[Arc<WatchedRange>]) -> Vec<bool> {
        watched.iter().map(|one| one.is_changed()).collect()
    }

    #[test]
    fn what_a_change_meets_is_marked_and_nothing_beside_it() {
        let ranges = Arc::new(Ranges::default());
        let spans = [0..10, 5..100, 20..30, 40..50, 100..110];
        let watched = ranges.add(spans.into_iter());
        ranges.mark(30..40);
        assert_eq!(changed(&watched), [false, true, false, false, false]);
        ranges.mark(9..10);
        assert_eq!(changed(&watched), [true, true, false, false, false]);
        ranges.mark(50..100);
        ranges.mark(110..200);
        ranges.mark(29..41);
        assert_eq!(changed(&watched), [true, true, true, true, false]);
        assert!(ranges.len() <= 2, "what is changed leaves the table");
        drop(watched);
        assert_eq!((ranges.len(), ranges.outdated.load(Ordering::SeqCst)), (0, 0), "nothing costs more than a load");
    }

    #[test]
    fn a_range_outlives_the_object_it_was_of() {
        let ranges = Arc::new(Ranges::default());
        let watched = ranges.add(once(0..10)).remove(0);
        drop(ranges);
        assert!(!watched.is_changed());
        assert_eq!(watched.range(), 0..10);
    }

    proptest! {
        #[test]
        fn marks_are_those_of_a_list_without_order(
            spans in prop::collection::vec((0..200_u64, 1..40_u64), 1..30),
            changes in prop::collection::vec((0..200_u64, 1..20_u64), 1..20),
            dropped in prop::collection::vec(any::<bool>(), 30),
        ) {
            let ranges = Arc::new(Ranges::default());
            let watch = |(start, len): &(u64, u64)| ranges.add(once(*start..start + len)).pop();
            let mut watched: Vec<_> = spans.iter().map(watch).collect();
            for (one, dropped) in watched.iter_mut().zip(dropped) {
                if dropped {
                    one.take();
                }
            }
            let mut model = vec![false; spans.len()];
            for (start, len) in changes {
                let end = start + len;
                ranges.mark(start..end);
                for (changed, span) in model.iter_mut().zip(&spans) {
                    *changed |= span.0 < end && start < span.0 + span.1;
                }
                for (one, changed) in watched.iter().zip(&model) {
                    prop_assert!(one.as_ref().is_none_or(|one| one.is_changed() == *changed));
                }
            }
            let left = watched.iter().flatten().filter(|one| !one.is_changed()).count();
            prop_assert!(left <= ranges.len() && ranges.len() <= (2 * left).max(1));
        }
    }
}
