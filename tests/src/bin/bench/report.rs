//! Tables: what was measured, its ratios, and whether it is what it must be.

use crate::measure::{Sample, Samples, median};
use crate::settings::Settings;
use crate::subjects::PEERS;

/// A demand: at this profile and these depths the ratio of this subject to nbdkit is at least this.
struct Demand {
    word: &'static str,
    text: &'static str,
    subject: &'static str,
    profiles: &'static [&'static str],
    depths: &'static [u32],
    least: f64,
}

const ALL: &[&str] = &["file-copy", "file-server", "database", "streaming", "restore"];

const DEMANDS: &[Demand] = &[
    Demand {
        word: "must",
        text: "simple, every profile at 8 and 32",
        subject: "simple",
        profiles: ALL,
        depths: &[8, 32],
        least: 1.0,
    },
    Demand { word: "must", text: "simple, every profile at 1", subject: "simple", profiles: ALL, depths: &[1], least: 0.9 },
    Demand {
        word: "must",
        text: "two-way mirror, streaming",
        subject: "two-way",
        profiles: &["streaming"],
        depths: &[1, 8, 32],
        least: 1.0,
    },
    Demand {
        word: "must",
        text: "two-way mirror, database",
        subject: "two-way",
        profiles: &["database"],
        depths: &[1, 8, 32],
        least: 0.9,
    },
    Demand {
        word: "must",
        text: "two-way mirror, restore",
        subject: "two-way",
        profiles: &["restore"],
        depths: &[1, 8, 32],
        least: 0.7,
    },
    Demand {
        word: "aim",
        text: "two-way mirror ahead everywhere",
        subject: "two-way",
        profiles: ALL,
        depths: &[1, 8, 32],
        least: 1.0,
    },
    Demand {
        word: "aim",
        text: "two-way mirror, database at 32",
        subject: "two-way",
        profiles: &["database"],
        depths: &[32],
        least: 1.7,
    },
];

fn value(samples: &Samples, key: (&'static str, u32, &'static str), of: impl Fn(&Sample) -> f64) -> Option<f64> {
    samples.get(&key).map(|samples| median(samples, of))
}

fn ratio(samples: &Samples, profile: &'static str, depth: u32, subject: &'static str, peer: &'static str) -> Option<f64> {
    let iops = |name| value(samples, (profile, depth, name), |sample| sample.iops);
    Some(iops(subject)? / iops(peer)?)
}

/// Prints all tables.
pub fn print(samples: &Samples, settings: &Settings) {
    println!("Medians of {} rounds of {} s; {} MiB served.", settings.rounds, settings.runtime, settings.size_bytes >> 20);
    println!("Servers {}.\n", if settings.pin { "on core 0, client on core 1" } else { "and client share all cores" });
    figures(samples, settings);
    println!();
    verdicts(samples, settings);
}

fn figures(samples: &Samples, settings: &Settings) {
    println!("| profile | depth | subject | IOPS | MB/s | CPU s/GiB | to nbdkit | to qemu-nbd |");
    println!("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |");
    for profile in &settings.profiles {
        for &depth in &settings.depths {
            for &subject in &settings.subjects {
                let Some(taken) = samples.get(&(profile.key, depth, subject)) else { continue };
                let to = |peer| {
                    ratio(samples, profile.key, depth, subject, peer).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
                };
                println!(
                    "| {} | {depth} | {subject} | {:.0} | {:.0} | {:.3} | {} | {} |",
                    profile.name,
                    median(taken, |sample| sample.iops),
                    median(taken, |sample| sample.bytes) / 1e6,
                    median(taken, |sample| sample.seconds_per_gib),
                    to(PEERS[0]),
                    to(PEERS[1]),
                );
            }
        }
    }
}

fn verdicts(samples: &Samples, settings: &Settings) {
    println!("| | ratio to nbdkit | at least | lowest | verdict |");
    println!("| --- | --- | ---: | --- | --- |");
    for demand in DEMANDS {
        let mut lowest: Option<(f64, String)> = None;
        let mut misses = Vec::new();
        for profile in settings.profiles.iter().filter(|profile| demand.profiles.contains(&profile.key)) {
            for &depth in settings.depths.iter().filter(|depth| demand.depths.contains(depth)) {
                let Some(ratio) = ratio(samples, profile.key, depth, demand.subject, PEERS[0]) else { continue };
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
        let verdict = if misses.is_empty() { "met".to_owned() } else { format!("not met: {}", misses.join(", ")) };
        println!("| {} | {} | {:.1} | {least:.2} ({place}) | {verdict} |", demand.word, demand.text, demand.least);
    }
    processor(samples, settings);
}

/// Reads take no more of the processor than nbdkit's.
fn processor(samples: &Samples, settings: &Settings) {
    let mut misses = Vec::new();
    let mut most = 0.0f64;
    for &depth in &settings.depths {
        for subject in ["simple", "two-way"] {
            let seconds = |name| value(samples, ("streaming", depth, name), |sample| sample.seconds_per_gib);
            let (Some(ours), Some(theirs)) = (seconds(subject), seconds(PEERS[0])) else { continue };
            most = most.max(ours / theirs);
            if ours > theirs {
                misses.push(format!("{subject} at {depth} {ours:.3} to {theirs:.3}"));
            }
        }
    }
    if most > 0.0 {
        let verdict = if misses.is_empty() { "met".to_owned() } else { format!("not met: {}", misses.join(", ")) };
        println!("| aim | CPU per GiB of reads, at most nbdkit's | 1.0 | {most:.2} (highest) | {verdict} |");
    }
}
