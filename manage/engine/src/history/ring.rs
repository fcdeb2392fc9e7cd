//! The last hour of one object, a sample a second, in segments of a minute.
//!
//! Invariant: a minute in which nothing was asked has no segment.

use std::collections::VecDeque;

use holdfast_block::Totals;

/// Seconds that are kept.
pub(super) const SECONDS: i64 = 3600;
/// Segments of all objects together, at most; beyond, the oldest minutes go. A segment takes 1,920 bytes.
pub(crate) const SEGMENTS: usize = 16_384;
const MINUTE: i64 = 60;

/// What a second brought; a latency of 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) reads: f32,
    pub(super) writes: f32,
    pub(super) read_bytes: f32,
    pub(super) written_bytes: f32,
    pub(super) read_p50: u32,
    pub(super) read_p99: u32,
    pub(super) write_p50: u32,
    pub(super) write_p99: u32,
}

impl Sample {
    /// What so many seconds brought, with halfway and 99th percentile of reads, then of writes.
    pub(super) fn over(seconds: f64, totals: &Totals, latencies: [u32; 4]) -> Self {
        let rate = |count: u64| (count as f64 / seconds) as f32;
        let [read_p50, read_p99, write_p50, write_p99] = latencies;
        Self {
            reads: rate(totals.reads),
            writes: rate(totals.writes),
            read_bytes: rate(totals.read_bytes),
            written_bytes: rate(totals.written_bytes),
            read_p50,
            read_p99,
            write_p50,
            write_p99,
        }
    }
}

struct Segment {
    minute: i64,
    samples: Box<[Sample; MINUTE as usize]>,
}

/// The samples of one object.
#[derive(Default)]
pub(super) struct Ring(VecDeque<Segment>);

impl Ring {
    /// Notes what `second` brought; seconds come in order. Answers how many segments more there are.
    pub(super) fn push(&mut self, second: i64, sample: Sample) -> usize {
        let minute = second.div_euclid(MINUTE);
        let new = self.0.back().is_none_or(|last| last.minute != minute);
        if new {
            self.0.push_back(Segment { minute, samples: Box::new([Sample::default(); MINUTE as usize]) });
        }
        if let Some(last) = self.0.back_mut() {
            last.samples[second.rem_euclid(MINUTE) as usize] = sample;
        }
        usize::from(new)
    }

    /// Forgets the minutes before that of `second`. Answers how many segments went.
    pub(super) fn forget_before(&mut self, second: i64) -> usize {
        let before = self.0.len();
        while self.0.front().is_some_and(|first| first.minute < second.div_euclid(MINUTE)) {
            self.0.pop_front();
        }
        before - self.0.len()
    }

    /// The minute, in seconds, of the oldest segment.
    pub(super) fn oldest(&self) -> Option<i64> {
        self.0.front().map(|first| first.minute * MINUTE)
    }

    /// Segments held.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The seconds from `from` on of which something is held, with what they brought.
    pub(super) fn since(&self, from: i64) -> impl Iterator<Item = (i64, &Sample)> {
        let seconds = self.0.iter().flat_map(|segment| (segment.minute * MINUTE..).zip(segment.samples.iter()));
        seconds.filter(move |(second, _)| *second >= from)
    }
}
