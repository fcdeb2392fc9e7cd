use std::time::Duration;

use holdfast_model::Histogram;

use super::ring::{SECONDS, SEGMENTS};
use super::*;

/// A history whose clock is the test's, with some spaces in one pool.
struct Scene {
    table: Table,
    reads: Vec<u64>,
    latency: Histogram,
    rows: Vec<store::Row>,
    last: Second,
}

fn space(number: usize) -> Key {
    Key::new(HistoryKind::Space, number)
}

fn pool() -> Key {
    Key::new(HistoryKind::Pool, "p")
}

impl Scene {
    fn new(spaces: usize) -> Self {
        let (table, latency) = (Table::default(), Histogram::default());
        Self { table, reads: vec![0; spaces], latency, rows: Vec::new(), last: Second::default() }
    }

    fn second(&mut self, second: i64) {
        self.rows.extend(self.table.begin(second, 1.0).unwrap_or_default());
        let latencies = || (self.latency.counts(), Latencies::default());
        for (number, reads) in self.reads.iter().enumerate() {
            let totals = Totals { reads: *reads, read_bytes: reads * 4096, ..Totals::default() };
            let name = format!("tank/{number}");
            self.table.take(&Reading {
                key: space(number),
                name: &name,
                within: Some(pool()),
                totals,
                latencies: &latencies,
            });
        }
        self.last = self.table.end();
    }

    fn series(&self, key: Key, seconds: i64, count: i64) -> Series {
        let mut points = Points::new(Window::new(self.table.now(), seconds, count));
        self.table.draw(&key, &mut points);
        points.series(key.kind, String::new())
    }
}

#[test]
fn seconds_are_kept_as_they_were() {
    let mut scene = Scene::new(2);
    for second in 1000..1010 {
        if second % 2 == 0 {
            scene.reads[0] += 100;
            scene.reads[1] += 20;
            (0..120).for_each(|_| scene.latency.add(Duration::from_micros(100)));
        }
        scene.second(second);
    }
    scene.reads[0] += 7;
    scene.second(1010);
    assert_eq!(scene.last.objects.len(), 1, "only what was asked for is told");
    assert_eq!((scene.last.objects[0].1.as_str(), scene.last.objects[0].2.reads), ("tank/0", 7.0));
    let series = scene.series(space(0), 5, 600);
    assert_eq!((series.step_seconds, series.start_ms), (1, 1_006_000));
    assert_eq!(series.reads, [100.0, 0.0, 100.0, 0.0, 7.0].map(Some));
    assert_eq!(series.read_bytes[0], Some(409_600.0));
    assert_eq!(series.read_p99_us[..2], [Some(104), None]);
    for key in [pool(), Key::new(HistoryKind::Server, "")] {
        assert_eq!(scene.series(key, 5, 600).reads, [120.0, 0.0, 120.0, 0.0, 7.0].map(Some));
    }
    let early = scene.series(space(0), 20, 600).reads;
    assert_eq!(
        (early[8], early[9], early[10]),
        (None, Some(100.0), Some(0.0)),
        "before the first sample there is none"
    );
}

#[test]
fn neighbours_are_merged() {
    let mut scene = Scene::new(1);
    for second in 0..600 {
        scene.reads[0] += 10;
        scene.latency.add(Duration::from_micros(if second == 300 { 10_000 } else { 50 }));
        scene.second(60_000 + second);
    }
    let series = scene.series(space(0), 600, 60);
    assert_eq!((series.step_seconds, series.reads.len()), (10, 60));
    assert!(series.reads.iter().all(|reads| *reads == Some(10.0)), "{:?}", series.reads);
    assert_eq!((series.read_p99_us[30], series.read_p99_us[31]), (Some(10_240), Some(52)));
    assert!(scene.series(space(0), 30 * 86_400, 3000).step_seconds.is_multiple_of(60));
    assert_eq!(
        scene.rows.iter().filter(|row| row.mean().reads == 10.0).count(),
        3 * 9,
        "each minute that is over is written"
    );
}

#[test]
fn an_idle_object_takes_no_room_and_a_busy_one_an_hour() {
    let mut scene = Scene::new(2);
    for second in 0..2 * SECONDS {
        scene.reads[0] += 1;
        scene.second(7_200_000 + second);
    }
    assert!(scene.table.segments() <= 3 * (SECONDS as usize / 60 + 2), "{}", scene.table.segments());
    let written = scene.rows.len() as i64;
    assert_eq!(written, 3 * (2 * SECONDS / 60 - 1), "the idle one is not written");
}

#[test]
fn memory_is_bounded_and_the_oldest_goes_first() {
    let spaces = 400;
    let mut scene = Scene::new(spaces);
    for minute in 0..60 {
        scene.reads.iter_mut().for_each(|reads| *reads += 1);
        scene.second(1_200_000 + minute * 60);
        assert!(scene.table.segments() <= SEGMENTS + spaces + 2);
    }
    let mut points = Points::new(Window::new(scene.table.now(), SECONDS, 600));
    let from = scene.table.draw(&space(0), &mut points);
    assert!((1_200_000 + 18 * 60..1_200_000 + 22 * 60).contains(&from), "{from}");
}

#[test]
fn a_clock_that_was_set_begins_a_new_hour() {
    let mut scene = Scene::new(1);
    for second in [5000, 5001, 5002, 5001, 5003] {
        scene.reads[0] += 1;
        scene.second(second);
    }
    assert_eq!(scene.series(space(0), 3, 600).reads[0], Some(1.0), "a hurried tick is none");
    scene.reads[0] += 2;
    scene.second(100);
    assert_eq!(scene.series(space(0), 2, 600).reads, [None, Some(2.0)]);
}

#[test]
fn counters_that_begin_anew_are_no_negative_rate() {
    let mut scene = Scene::new(1);
    scene.reads[0] = 1000;
    scene.second(60);
    scene.reads[0] = 3;
    scene.second(61);
    assert_eq!(scene.series(space(0), 2, 600).reads, [1000.0, 3.0].map(Some));
}
