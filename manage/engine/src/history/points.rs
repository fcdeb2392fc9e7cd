//! Samples merged into the values of a series.
//!
//! Invariant: rates are means over the time of a value that was sampled. A merged p50 is the mean weighted by requests,
//! a merged p99 the highest.

use holdfast_api::{History, HistoryKind};

use super::ring::Sample;
use super::store::Row;

/// The times that a series is of, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: i64,
    step: i64,
    count: usize,
}

impl Window {
    /// The last `seconds` before `end` in at most `points` steps, of whole minutes where they are longer than one.
    pub(super) fn new(end: i64, seconds: i64, points: i64) -> Self {
        let step = (seconds + points - 1) / points;
        let step = if step > 60 { (step + 59) / 60 * 60 } else { step };
        let last = (end + step - 1).div_euclid(step) * step;
        let count = ((seconds + step - 1) / step).clamp(1, points);
        Self { start: last - count * step, step, count: count as usize }
    }
}

#[derive(Clone, Copy, Default)]
struct Latency {
    p50_sum: f64,
    requests: f64,
    p99: u32,
}

impl Latency {
    fn add(&mut self, requests: f64, p50: u32, p99: u32) {
        if p50 > 0 {
            // Requests that were answered now may have been asked for earlier.
            let requests = requests.max(1.0);
            self.p50_sum += requests * f64::from(p50);
            self.requests += requests;
            self.p99 = self.p99.max(p99);
        }
    }

    fn p50(&self) -> Option<u64> {
        (self.requests > 0.0).then(|| (self.p50_sum / self.requests).round() as u64)
    }

    fn p99(&self) -> Option<u64> {
        (self.p99 > 0).then_some(u64::from(self.p99))
    }
}

#[derive(Clone, Copy, Default)]
struct Point {
    seconds: f64,
    reads: f64,
    writes: f64,
    read_bytes: f64,
    written_bytes: f64,
    read: Latency,
    write: Latency,
}

/// The values of a series.
pub(super) struct Points {
    window: Window,
    points: Vec<Point>,
}

impl Points {
    /// None sampled yet.
    pub(super) fn new(window: Window) -> Self {
        Self { window, points: vec![Point::default(); window.count] }
    }

    /// The parts of `from..to` by the value that they belong to.
    fn each(&mut self, from: i64, to: i64, mut add: impl FnMut(&mut Point, f64)) {
        let Window { start, step, .. } = self.window;
        let first = ((from - start).max(0) / step) as usize;
        for (index, point) in self.points.iter_mut().enumerate().skip(first) {
            let begins = start + index as i64 * step;
            let (part_from, part_to) = (from.max(begins), to.min(begins + step));
            if begins >= to {
                return;
            }
            if part_from < part_to {
                add(point, (part_to - part_from) as f64);
            }
        }
    }

    /// In these seconds nothing was asked.
    pub(super) fn idle(&mut self, from: i64, to: i64) {
        self.each(from, to, |point, seconds| point.seconds += seconds);
    }

    /// What a second brought.
    pub(super) fn second(&mut self, second: i64, sample: &Sample) {
        self.span(second, second + 1, sample);
    }

    /// What a minute brought, as far as it lies before `end`.
    pub(super) fn minute(&mut self, row: &Row, end: i64) {
        self.span(row.at, (row.at + 60).min(end), &row.mean());
    }

    fn span(&mut self, from: i64, to: i64, sample: &Sample) {
        self.each(from, to, |point, seconds| {
            point.seconds += seconds;
            point.reads += f64::from(sample.reads) * seconds;
            point.writes += f64::from(sample.writes) * seconds;
            point.read_bytes += f64::from(sample.read_bytes) * seconds;
            point.written_bytes += f64::from(sample.written_bytes) * seconds;
            point.read.add(f64::from(sample.reads) * seconds, sample.read_p50, sample.read_p99);
            point.write.add(f64::from(sample.writes) * seconds, sample.write_p50, sample.write_p99);
        });
    }

    /// The series as the API shows it.
    pub(super) fn series(self, kind: HistoryKind, name: String) -> History {
        let rate = |of: fn(&Point) -> f64| {
            let mean = |point: &Point| (point.seconds > 0.0).then(|| (of(point) / point.seconds * 10.0).round() / 10.0);
            self.points.iter().map(mean).collect()
        };
        let latency = |of: fn(&Point) -> Option<u64>| self.points.iter().map(of).collect();
        History {
            kind,
            name,
            step_seconds: self.window.step as u64,
            start_ms: self.window.start * 1000,
            reads: rate(|point| point.reads),
            writes: rate(|point| point.writes),
            read_bytes: rate(|point| point.read_bytes),
            written_bytes: rate(|point| point.written_bytes),
            read_p50_us: latency(|point| point.read.p50()),
            read_p99_us: latency(|point| point.read.p99()),
            write_p50_us: latency(|point| point.write.p50()),
            write_p99_us: latency(|point| point.write.p99()),
        }
    }
}
