//! Turns: one subject under one load for a while.

use std::collections::BTreeMap;

use holdfast_tests::command::run;
use holdfast_tests::fio::rates;

use crate::ahead;
use crate::ballast::Ballast;
use crate::profiles::Profile;
use crate::settings::Settings;
use crate::subjects::Subject;

/// What one turn gave.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes: f64,
    /// Processor seconds of the server for each GiB; not a number if nobody knows them.
    pub seconds_per_gib: f64,
}

/// Samples by profile, depth and subject.
pub type Samples = BTreeMap<(&'static str, u32, &'static str), Vec<Sample>>;

/// One turn.
pub fn turn(subject: &Subject, profile: &Profile, depth: u32, settings: &Settings) -> Sample {
    let mut arguments = subject.fio_line(profile);
    arguments.extend(profile.options.iter().map(|&option| option.to_owned()));
    arguments.extend([
        format!("--iodepth={depth}"),
        format!("--size={}", settings.size_bytes),
        "--time_based".to_owned(),
        format!("--runtime={}ms", (settings.runtime * 1000.0) as u64),
        "--norandommap".to_owned(),
        "--randrepeat=0".to_owned(),
        "--output-format=json".to_owned(),
    ]);
    let mut line = vec!["fio"];
    line.extend(arguments.iter().map(String::as_str));
    if settings.pin {
        line.splice(0..0, ["taskset", "--cpu-list", "1"]);
    }
    if settings.shared {
        ahead::put(subject.pid());
        line.splice(0..0, ahead::STARTER);
    }
    let before = subject.processor_seconds();
    let printed = run(line[0], &line[1..]).succeeded();
    let spent = subject.processor_seconds() - before;
    let (read, write) = rates(&printed);
    let gib = (read.total_bytes + write.total_bytes) / f64::from(1u32 << 30);
    Sample { iops: read.iops + write.iops, bytes: read.bytes + write.bytes, seconds_per_gib: spent / gib.max(1e-9) }
}

/// Measures every subject at every profile and depth, in turns.
pub fn run_all(subjects: &[Subject], settings: &Settings, ballast: &mut Ballast) -> Samples {
    let mut samples = Samples::new();
    for round in 0..settings.rounds {
        eprintln!("round {} of {}", round + 1, settings.rounds);
        for &profile in &settings.profiles {
            for &depth in &settings.depths {
                ballast.trim();
                for place in 0..subjects.len() {
                    // Each round begins with another subject.
                    let subject = &subjects[(place + round) % subjects.len()];
                    if !subject.takes_part(profile) {
                        continue;
                    }
                    let sample = turn(subject, profile, depth, settings);
                    samples.entry((profile.key, depth, subject.name)).or_default().push(sample);
                }
            }
        }
    }
    samples
}
