//! Verdicts: whether what was measured is what it must be.

use crate::measure::Samples;
use crate::profiles::PROFILES;
use crate::report::{BETTER, least_written, ratio, value};
use crate::settings::Settings;
use crate::spaces::Shape;
use crate::written::Written;

/// A demand: at these profiles and depths the ratio of a subject to a peer is at least this.
struct Demand {
    word: &'static str,
    text: &'static str,
    subject: &'static str,
    peer: &'static str,
    profiles: &'static [&'static str],
    depths: &'static [u32],
    least: f64,
}

const ALL: &[&str] = &["file-copy", "file-server", "database", "streaming", "restore"];
const DEPTHS: &[u32] = &[1, 8, 32];
/// By how much more than it must a large write may cost.
const RESTORE_SLACK: f64 = 1.05;

const fn must(
    text: &'static str,
    subject: &'static str,
    peer: &'static str,
    profiles: &'static [&'static str],
    least: f64,
) -> Demand {
    Demand { word: "must", text, subject, peer, profiles, depths: DEPTHS, least }
}

const fn aim(
    text: &'static str,
    subject: &'static str,
    peer: &'static str,
    profiles: &'static [&'static str],
    depths: &'static [u32],
    least: f64,
) -> Demand {
    Demand { word: "aim", text, subject, peer, profiles, depths, least }
}

const DEMANDS: &[Demand] = &[
    must("simple, as before", "simple", "simple-before", ALL, 0.97),
    must("two-way mirror, as before", "two-way", "two-way-before", ALL, 0.97),
    Demand { depths: &[8, 32], ..must("simple, every profile at 8 and 32", "simple", BETTER, ALL, 1.0) },
    Demand { depths: &[1], ..must("simple, every profile at 1", "simple", BETTER, ALL, 0.9) },
    must("two-way mirror, streaming", "two-way", BETTER, &["streaming"], 1.0),
    must("two-way mirror, database", "two-way", BETTER, &["database"], 0.9),
    must("two-way mirror, restore", "two-way", BETTER, &["restore"], 0.7),
    aim("two-way mirror ahead everywhere", "two-way", BETTER, ALL, DEPTHS, 1.0),
    aim("two-way mirror, database at 32", "two-way", BETTER, &["database"], &[32], 1.7),
    must("single parity, database and file copy", "parity1", "btrfs-raid5", &["database", "file-copy"], 3.0),
    must("dual parity, database and file copy", "parity2", "btrfs-raid6", &["database", "file-copy"], 3.0),
    must("single parity, restore", "parity1", "btrfs-raid5", &["restore"], 5.0),
    must("dual parity, restore", "parity2", "btrfs-raid6", &["restore"], 5.0),
    must("single parity, restore", "parity1", "simple", &["restore"], 0.6),
    must("dual parity, restore", "parity2", "simple", &["restore"], 0.5),
    must("single parity, streaming", "parity1", "simple", &["streaming"], 0.95),
    must("dual parity, streaming", "parity2", "simple", &["streaming"], 0.95),
    must("simple, cost of checksums", "simple", "simple-plain", ALL, 0.9),
    must("two-way mirror, cost of checksums", "two-way", "two-way-plain", ALL, 0.9),
    must("dual parity, cost of checksums", "parity2", "parity2-plain", ALL, 0.9),
    must("single parity, one disk out, streaming", "parity1-degraded", "parity1", &["streaming"], 0.5),
    must("dual parity, two disks out, streaming", "parity2-degraded", "parity2", &["streaming"], 0.5),
];

fn verdict(misses: &[String]) -> String {
    if misses.is_empty() { "met".to_owned() } else { format!("not met: {}", misses.join(", ")) }
}

/// Prints a line for each demand that was measured.
pub fn print(samples: &Samples, written: &Written, settings: &Settings) {
    println!("| | what | ratio to | bound | worst | verdict |");
    println!("| --- | --- | --- | ---: | --- | --- |");
    for demand in DEMANDS {
        let mut lowest: Option<(f64, String)> = None;
        let mut misses = Vec::new();
        for profile in settings.profiles.iter().filter(|profile| demand.profiles.contains(&profile.key)) {
            for &depth in settings.depths.iter().filter(|depth| demand.depths.contains(depth)) {
                let Some(ratio) = ratio(samples, profile.key, depth, demand.subject, demand.peer) else { continue };
                let place = format!("{} at {depth}", profile.name);
                if ratio < demand.least {
                    misses.push(format!("{place} {ratio:.2}"));
                }
                if lowest.as_ref().is_none_or(|(least, _)| ratio < *least) {
                    lowest = Some((ratio, place));
                }
            }
        }
        let Some((least, place)) = lowest else { continue };
        let (word, text, peer, bound) = (demand.word, demand.text, demand.peer, demand.least);
        println!("| {word} | {text} | {peer} | ≥ {bound} | {least:.2} ({place}) | {} |", verdict(&misses));
    }
    processor(samples, settings);
    restore(written);
}

/// Reads take no more of the processor than nbdkit's.
fn processor(samples: &Samples, settings: &Settings) {
    let mut misses = Vec::new();
    let mut most = 0.0f64;
    for &depth in &settings.depths {
        for subject in ["simple", "two-way"] {
            let seconds = |name| value(samples, ("streaming", depth, name), |sample| sample.seconds_per_gib);
            let (Some(ours), Some(theirs)) = (seconds(subject), seconds("nbdkit")) else { continue };
            most = most.max(ours / theirs);
            if ours > theirs {
                misses.push(format!("{subject} at {depth} {ours:.3} to {theirs:.3}"));
            }
        }
    }
    if most > 0.0 {
        println!("| aim | CPU per GiB of reads | nbdkit | ≤ 1 | {most:.2} | {} |", verdict(&misses));
    }
}

/// Large writes to parity go round the journal: next to nothing but data and parity reaches the disks.
fn restore(written: &Written) {
    let Some(profile) = PROFILES.iter().find(|profile| profile.key == "restore") else { return };
    for ((_, subject), ratio) in written.iter().filter(|((key, _), _)| *key == profile.key) {
        let Some(shape) = Shape::named(subject).filter(|shape| shape.has_parity()) else { continue };
        let least = least_written(profile, shape);
        let misses = if ratio / least <= RESTORE_SLACK { vec![] } else { vec![format!("{ratio:.3}")] };
        println!(
            "| must | {subject}, restore, bytes to disks | {least:.3} | ≤ {RESTORE_SLACK} | {:.3} | {} |",
            ratio / least,
            verdict(&misses)
        );
    }
}
