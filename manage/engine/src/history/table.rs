//! All objects in memory: each second is taken from their counters, and each minute is handed on to be written.
//!
//! Invariant: seconds come in order. A clock that was set by more than a few seconds begins a new hour; what was
//! written stays.

use std::collections::BTreeMap;

use holdfast_api::HistoryKind;

use super::points::Points;
use super::ring::{SECONDS, SEGMENTS};
use super::store::Row;
use super::tracker::{Delta, Tracker};
use super::{Key, Reading, Second};

/// A step of the clock up to this is a late or hurried tick, and no other time.
const STEP: i64 = 5;

/// The second that is being taken.
#[derive(Default)]
struct Taking {
    second: i64,
    elapsed: f64,
    groups: BTreeMap<Key, Delta>,
    server: Delta,
    sampled: Second,
}

/// The objects and their last hour.
#[derive(Default)]
pub(super) struct Table {
    objects: BTreeMap<Key, Tracker>,
    /// The second that was taken last, and the first one.
    last: i64,
    since: i64,
    segments: usize,
    /// What is older than this was given up for room.
    floor: i64,
    taking: Taking,
}

fn minute_of(second: i64) -> i64 {
    second.div_euclid(60) * 60
}

impl Table {
    /// The end of the last second that was taken.
    pub(super) fn now(&self) -> i64 {
        self.last + 1
    }

    /// Minutes of one object each that are in memory.
    #[cfg(test)]
    pub(super) fn segments(&self) -> usize {
        self.segments
    }

    /// Begins a second. Answers what is to be written, if a minute is over.
    pub(super) fn begin(&mut self, second: i64, elapsed: f64) -> Option<Vec<Row>> {
        let set_back = second < self.last - STEP || second > self.last + SECONDS;
        let second = if set_back { second } else { second.max(self.last) };
        let over = self.last != 0 && minute_of(second) != minute_of(self.last);
        let rows = over.then(|| self.minute_so_far());
        if over {
            self.forget(second);
        }
        if set_back {
            self.objects.values_mut().for_each(|tracker| tracker.begin_anew(second));
            (self.segments, self.since, self.floor) = (0, second, second);
        }
        self.last = second;
        self.taking = Taking { second, elapsed: elapsed.max(0.001), ..Taking::default() };
        rows
    }

    /// Takes the counters of an object.
    pub(super) fn take(&mut self, reading: &Reading<'_>) {
        let Taking { second, .. } = self.taking;
        let tracker = self.objects.entry(reading.key.clone()).or_insert_with(|| Tracker::new(second));
        tracker.seen = second;
        let delta = tracker.advance(reading.totals, reading.latencies);
        if let Some(pool) = &reading.within {
            self.taking.groups.entry(pool.clone()).or_default().merge(&delta);
            self.taking.server.merge(&delta);
        }
        if !delta.is_empty() {
            let rates = self.note(reading.key.clone(), &delta);
            self.taking.sampled.objects.push((reading.key.kind, reading.name.to_owned(), rates));
        }
    }

    /// Ends the second: what objects brought together is theirs that they belong to.
    pub(super) fn end(&mut self) -> Second {
        let (groups, server) = (std::mem::take(&mut self.taking.groups), std::mem::take(&mut self.taking.server));
        for (key, delta) in groups {
            self.note(key, &delta);
        }
        let server = self.note(Key::new(HistoryKind::Server, ""), &server);
        Second { server, ..std::mem::take(&mut self.taking.sampled) }
    }

    fn note(&mut self, key: Key, delta: &Delta) -> holdfast_api::Rates {
        let Taking { second, elapsed, .. } = self.taking;
        let tracker = self.objects.entry(key).or_insert_with(|| Tracker::new(second));
        tracker.seen = second;
        let sample = delta.sample(elapsed);
        if !delta.is_empty() {
            tracker.minute.merge(delta);
            self.segments += tracker.ring.push(second, sample);
        }
        sample.into()
    }

    /// What the minute under way brought so far; it counts as written then.
    pub(super) fn minute_so_far(&mut self) -> Vec<Row> {
        let at = minute_of(self.last);
        let wanted =
            |(key, tracker): &(&Key, &mut Tracker)| key.kind == HistoryKind::Server || !tracker.minute.is_empty();
        let row = |(key, tracker): (&Key, &mut Tracker)| {
            let minute = std::mem::take(&mut tracker.minute);
            Row::new(key.clone(), at, minute.totals, minute.sample(1.0))
        };
        self.objects.iter_mut().filter(wanted).map(row).collect()
    }

    /// Lets go of what is too old, of objects that are gone, and of the oldest minutes while there are too many.
    fn forget(&mut self, second: i64) {
        let oldest = second - SECONDS;
        self.objects.retain(|_, tracker| tracker.seen >= oldest);
        self.floor = self.floor.max(minute_of(oldest));
        loop {
            self.objects.values_mut().for_each(|tracker| _ = tracker.ring.forget_before(self.floor));
            self.segments = self.objects.values().map(|tracker| tracker.ring.len()).sum();
            if self.segments <= SEGMENTS {
                return;
            }
            let first = self.objects.values().filter_map(|tracker| tracker.ring.oldest()).min();
            self.floor = first.unwrap_or(self.floor) + 60;
        }
    }

    /// Draws what is in memory of an object. Answers from which second on that is all there was.
    pub(super) fn draw(&self, key: &Key, points: &mut Points) -> i64 {
        let Some(tracker) = self.objects.get(key) else { return self.now() };
        let from = tracker.since.max(self.since).max(self.floor).max(self.now() - SECONDS);
        let until = if tracker.seen == self.last { self.now() } else { tracker.seen + 1 };
        let mut next = from;
        for (second, sample) in tracker.ring.since(from) {
            points.idle(next, second);
            // The rest of a segment is idle, or has not come yet.
            if second >= until {
                return from;
            }
            points.second(second, sample);
            next = second + 1;
        }
        points.idle(next, until);
        from
    }
}
