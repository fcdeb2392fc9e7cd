//! What is kept of one object: its last hour, where its counters stood, and what the minute under way brought.

use holdfast_api::Rates;
use holdfast_block::Totals;
use holdfast_model::Latencies;

use super::ring::{Ring, Sample};

/// Reads and writes of a time, by how long they took.
type Both = (Latencies, Latencies);

/// What a time brought.
#[derive(Clone, Default)]
pub(super) struct Delta {
    pub(super) totals: Totals,
    latencies: Option<Box<Both>>,
}

/// The halfway and the 99th percentile, zero where nothing was timed.
fn percentiles(latencies: &Latencies) -> (u32, u32) {
    let at = |percent| latencies.percentile_us(percent).map_or(0, |micros| u32::try_from(micros).unwrap_or(u32::MAX));
    (at(50), at(99))
}

impl Delta {
    pub(super) fn is_empty(&self) -> bool {
        self.totals == Totals::default() && self.latencies.is_none()
    }

    /// Adds what another time, or another object, brought.
    pub(super) fn merge(&mut self, other: &Self) {
        self.totals.reads += other.totals.reads;
        self.totals.read_bytes += other.totals.read_bytes;
        self.totals.writes += other.totals.writes;
        self.totals.written_bytes += other.totals.written_bytes;
        if let Some(more) = &other.latencies {
            let (reads, writes) = &mut **self.latencies.get_or_insert_default();
            reads.merge(&more.0);
            writes.merge(&more.1);
        }
    }

    /// Its rates over so many seconds, and its latencies.
    pub(super) fn sample(&self, seconds: f64) -> Sample {
        let latencies = self.latencies.as_deref().map_or([0; 4], |both| {
            let [(read_p50, read_p99), (write_p50, write_p99)] = [&both.0, &both.1].map(percentiles);
            [read_p50, read_p99, write_p50, write_p99]
        });
        Sample::over(seconds, &self.totals, latencies)
    }
}

impl From<Sample> for Rates {
    fn from(sample: Sample) -> Self {
        let rate = |rate: f32| (f64::from(rate) * 10.0).round() / 10.0;
        let latency = |micros: u32| (micros > 0).then_some(u64::from(micros));
        Self {
            reads: rate(sample.reads),
            writes: rate(sample.writes),
            read_bytes: f64::from(sample.read_bytes).round(),
            written_bytes: f64::from(sample.written_bytes).round(),
            read_p50_us: latency(sample.read_p50),
            read_p99_us: latency(sample.read_p99),
            write_p50_us: latency(sample.write_p50),
            write_p99_us: latency(sample.write_p99),
        }
    }
}

/// What is kept of an object.
pub(super) struct Tracker {
    pub(super) ring: Ring,
    /// The second in which it was seen first.
    pub(super) since: i64,
    /// The second in which it was seen last.
    pub(super) seen: i64,
    pub(super) minute: Delta,
    last: Totals,
    last_latencies: Option<Box<Both>>,
}

impl Tracker {
    /// One of which nothing is known yet: its counters began at zero.
    pub(super) fn new(second: i64) -> Self {
        let (last, last_latencies) = (Totals::default(), None);
        Self { ring: Ring::default(), since: second, seen: second, minute: Delta::default(), last, last_latencies }
    }

    /// Forgets all samples; its counters stand where they stood.
    pub(super) fn begin_anew(&mut self, second: i64) {
        (self.ring, self.minute) = (Ring::default(), Delta::default());
        (self.since, self.seen) = (second, second);
    }

    /// What its counters moved since they were read last.
    pub(super) fn advance(&mut self, totals: Totals, latencies: &dyn Fn() -> Both) -> Delta {
        if totals == self.last {
            // A request that was asked for before may have been answered since; it is timed with the next one.
            return Delta::default();
        }
        let anew = totals.reads < self.last.reads || totals.writes < self.last.writes;
        if anew {
            (self.last, self.last_latencies) = (Totals::default(), None);
        }
        let last = std::mem::replace(&mut self.last, totals);
        let now = Box::new(latencies());
        let before = self.last_latencies.get_or_insert_default();
        let since = Box::new((now.0.since(&before.0), now.1.since(&before.1)));
        self.last_latencies = Some(now);
        let moved = Totals {
            reads: totals.reads - last.reads,
            read_bytes: totals.read_bytes.saturating_sub(last.read_bytes),
            writes: totals.writes - last.writes,
            written_bytes: totals.written_bytes.saturating_sub(last.written_bytes),
        };
        Delta { totals: moved, latencies: Some(since) }
    }
}
