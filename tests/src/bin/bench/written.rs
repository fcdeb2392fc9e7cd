//! How many bytes reach the disks for each byte that a client writes, by the daemon's own counters.
//!
//! Apart from the turns that are timed: what a space puts in place later belongs to the load that caused it, so all
//! spaces come to rest before and after each load.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_tests::metrics::Metrics;

use crate::measure::turn;
use crate::settings::Settings;
use crate::spaces::Space;
use crate::subjects::Subject;

/// Longer than maintenance of a space waits.
const REST: Duration = Duration::from_millis(5500);
/// The longest that is waited for rest.
const PATIENCE: Duration = Duration::from_secs(40);
/// What a daemon at rest may write all the same, to its pool's log and the like.
const QUIET_BYTES: f64 = 256.0 * 1024.0;

/// Bytes to disks for each byte of clients, by profile and subject.
pub type Written = BTreeMap<(&'static str, &'static str), f64>;

fn spaces(subjects: &[Subject]) -> impl Iterator<Item = (&Subject, &Space)> {
    subjects.iter().filter_map(|subject| Some((subject, subject.whole_space()?)))
}

/// Waits until nobody writes to disks, and reads all counters.
fn rest(subjects: &[Subject]) -> Vec<Metrics> {
    let end = Instant::now() + PATIENCE;
    let read = || spaces(subjects).map(|(_, space)| space.daemon.metrics()).collect::<Vec<_>>();
    let mut before = read();
    loop {
        std::thread::sleep(REST);
        let now = read();
        let quiet = before
            .iter()
            .zip(&now)
            .all(|(before, now)| now.written_to_disks() - before.written_to_disks() <= QUIET_BYTES);
        if quiet || Instant::now() > end {
            return now;
        }
        before = now;
    }
}

/// Counts for every space that is whole, at every profile that writes, at the greatest depth.
pub fn run_all(subjects: &[Subject], settings: &Settings) -> Written {
    let mut written = Written::new();
    let Some(&depth) = settings.depths.iter().max() else { return written };
    if spaces(subjects).next().is_none() {
        return written;
    }
    eprintln!("what reaches the disks");
    let mut before = rest(subjects);
    for &profile in settings.profiles.iter().filter(|profile| profile.key != "streaming") {
        spaces(subjects).for_each(|(subject, _)| _ = turn(subject, profile, depth, settings));
        let after = rest(subjects);
        for ((subject, _), (before, after)) in spaces(subjects).zip(before.iter().zip(&after)) {
            let by_clients = after.written_by_clients() - before.written_by_clients();
            let to_disks = after.written_to_disks() - before.written_to_disks();
            written.insert((profile.key, subject.name), to_disks / by_clients.max(1.0));
        }
        before = after;
    }
    written
}
