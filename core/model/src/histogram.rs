//! How long requests took: counts in log-linear buckets, which many threads add to without a lock.
//!
//! ```text
//!   microseconds    0 1 2 .. 7 | 8 .. 15 | 16 18 .. 30 | 32 36 .. 60 | ...      up to 2^26 (67 s), and all beyond
//!   width of each       1      |    1    |      2      |      4      |          an eighth of where its octave begins
//! ```
//!
//! Invariant: a latency that is read from here is at most an eighth above the true one, and never below it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of an octave.
const STEPS: usize = 8;
/// Latencies of two to the power of this, in microseconds, share the last bucket with all that are longer.
const LAST_OCTAVE: usize = 26;
/// Number of buckets.
pub const BUCKETS: usize = (LAST_OCTAVE - 2) * STEPS + 1;

/// The bucket of a latency.
fn bucket_of(micros: u64) -> usize {
    if micros < STEPS as u64 {
        return micros as usize;
    }
    let octave = micros.ilog2() as usize;
    let step = (micros >> (octave - 3)) as usize - STEPS;
    ((octave - 2) * STEPS + step).min(BUCKETS - 1)
}

/// The latencies in a bucket are shorter than this, in microseconds.
pub fn bucket_end(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64 + 1;
    }
    let (octave, step) = (bucket / STEPS + 2, bucket % STEPS);
    (STEPS as u64 + step as u64 + 1) << (octave - 3)
}

/// Counts that are added to by one relaxed addition each.
#[derive(Debug)]
pub struct Histogram([AtomicU64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Histogram {
    /// Counts a request that took so long.
    pub fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0[bucket_of(micros)].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn counts(&self) -> Latencies {
        Latencies(std::array::from_fn(|bucket| self.0[bucket].load(Ordering::Relaxed)))
    }
}

/// Counts by latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies([u64; BUCKETS]);

impl Default for Latencies {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Latencies {
    /// What was counted since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|bucket| self.0[bucket].saturating_sub(before.0[bucket])))
    }

    /// Adds the counts of another one.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(count, more)| *count += more);
    }

    /// Requests counted.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The time in microseconds within which so many in a hundred requests were answered; none where none were counted.
    pub fn percentile_us(&self, percent: u64) -> Option<u64> {
        let total = self.total();
        let rank = (total * percent).div_ceil(100).max(1);
        let mut counted = 0;
        let reaches = |count: &u64| {
            counted += count;
            counted >= rank
        };
        self.0.iter().position(reaches).filter(|_| total > 0).map(bucket_end)
    }

    /// All latencies together in microseconds, each taken as the end of its bucket.
    pub fn sum_us(&self) -> u64 {
        self.0.iter().enumerate().map(|(bucket, count)| bucket_end(bucket) * count).sum()
    }

    /// Requests by octave: how many took less than so many microseconds, and at least half of that.
    pub fn octaves(&self) -> impl Iterator<Item = (u64, u64)> {
        let beyond = (u64::MAX, self.0[BUCKETS - 1]);
        let whole = self.0[..BUCKETS - 1].chunks(STEPS).enumerate();
        whole.map(|(octave, counts)| ((STEPS as u64) << octave, counts.iter().sum())).chain([beyond])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(micros: &[u64]) -> Latencies {
        let histogram = Histogram::default();
        micros.iter().for_each(|micros| histogram.add(Duration::from_micros(*micros)));
        histogram.counts()
    }

    #[test]
    fn percentiles_are_those_of_what_was_counted() {
        assert_eq!(of(&[]).percentile_us(50), None);
        let mixed = of(&[3; 98].into_iter().chain([1000, 5000]).collect::<Vec<_>>());
        assert_eq!((mixed.percentile_us(50), mixed.percentile_us(98)), (Some(4), Some(4)));
        assert_eq!((mixed.percentile_us(99), mixed.percentile_us(100)), (Some(1024), Some(5120)));
        assert_eq!(mixed.since(&of(&[3; 98])).total(), 2);
        let mut sum = of(&[3]);
        sum.merge(&of(&[3, u64::MAX]));
        assert_eq!((sum.total(), sum.percentile_us(50)), (3, Some(4)));
        assert_eq!(sum.octaves().filter(|(_, count)| *count > 0).collect::<Vec<_>>(), [(8, 2), (u64::MAX, 1)]);
    }

    #[test]
    fn octaves_hold_all_that_the_buckets_hold() {
        let all = of(&(0..40).map(|power| 1u64 << power).collect::<Vec<_>>());
        assert_eq!(all.octaves().map(|(_, count)| count).sum::<u64>(), all.total());
        assert_eq!(all.octaves().map(|(end, _)| end).take(3).collect::<Vec<_>>(), [8, 16, 32]);
    }

    proptest! {
        #[test]
        fn a_latency_is_at_most_an_eighth_too_long(micros in 0u64..(1 << LAST_OCTAVE)) {
            let read = of(&[micros]).percentile_us(50).unwrap();
            prop_assert!(read > micros && read <= micros + 1 + micros / 8, "{micros} is read as {read}");
        }
    }
}
