//! Tables: what was measured, its ratios, and what reached the disks.

use holdfast_tests::rounds::median;

use crate::demands;
use crate::measure::{Sample, Samples};
use crate::profiles::Profile;
use crate::settings::Settings;
use crate::spaces::Shape;
use crate::written::Written;

/// The median of `of` for a subject at a profile and depth.
pub fn value(samples: &Samples, key: (&'static str, u32, &'static str), of: impl Fn(&Sample) -> f64) -> Option<f64> {
    samples.get(&key).map(|samples| median(samples.iter().map(of)))
}

/// Stands for whichever of the servers of one disk is faster.
pub const BETTER: &str = "better server";

/// Requests a second of `subject` for each of `peer`.
pub fn ratio(
    samples: &Samples,
    profile: &'static str,
    depth: u32,
    subject: &'static str,
    peer: &'static str,
) -> Option<f64> {
    let iops = |name| value(samples, (profile, depth, name), |sample| sample.iops);
    let iops_of_peer = if peer == BETTER {
        ["nbdkit", "qemu-nbd"].into_iter().filter_map(iops).max_by(f64::total_cmp)
    } else {
        iops(peer)
    };
    Some(iops(subject)? / iops_of_peer?)
}

/// The same space as the older build serves it.
fn before_of(subject: &str) -> Option<&'static str> {
    match subject {
        "simple" => Some("simple-before"),
        "two-way" => Some("two-way-before"),
        _ => None,
    }
}

/// The btrfs that a space of parity is held against.
fn btrfs_of(subject: &str) -> Option<&'static str> {
    match subject {
        "parity1" | "parity1-degraded" => Some("btrfs-raid5"),
        "parity2" | "parity2-degraded" => Some("btrfs-raid6"),
        _ => None,
    }
}

/// Prints all tables.
pub fn print(samples: &Samples, written: &Written, left_out: &[String], awake: bool, held: u64, settings: &Settings) {
    println!(
        "Medians of {} rounds of {} s; {} MiB served.",
        settings.rounds,
        settings.runtime,
        settings.size_bytes >> 20
    );
    println!("Disks are loop devices with direct I/O over files in memory.");
    println!(
        "Processors {}.",
        if awake { "are kept awake for all subjects" } else { "sleep: the kernel cannot be asked not to" }
    );
    if settings.shared {
        println!("All that serves a request goes ahead of other work on the machine.");
    }
    println!("Servers {}.", if settings.pin { "on core 0, client on core 1" } else { "and client share all cores" });
    if held > 0 {
        println!("{} MiB of memory held, so that the machine does not give them back.", held >> 20);
    }
    left_out.iter().for_each(|reason| println!("{reason}."));
    println!();
    if samples.is_empty() {
        println!("Nothing was measured.");
        return;
    }
    figures(samples, settings);
    if !written.is_empty() {
        println!();
        to_disks(written, settings);
    }
    println!();
    demands::print(samples, written, settings);
}

fn known(number: f64, digits: usize) -> String {
    if number.is_nan() { "-".to_owned() } else { format!("{number:.digits$}") }
}

fn figures(samples: &Samples, settings: &Settings) {
    println!(
        "| profile | depth | subject | IOPS | MB/s | CPU s/GiB | to nbdkit | to qemu-nbd | to the disk | to simple | to btrfs | to before |"
    );
    println!("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for profile in &settings.profiles {
        for &depth in &settings.depths {
            for &subject in &settings.subjects {
                let Some(taken) = samples.get(&(profile.key, depth, subject)) else { continue };
                let to = |peer| known(ratio(samples, profile.key, depth, subject, peer).unwrap_or(f64::NAN), 2);
                println!(
                    "| {} | {depth} | {subject} | {:.0} | {:.0} | {} | {} | {} | {} | {} | {} | {} |",
                    profile.name,
                    median(taken.iter().map(|sample| sample.iops)),
                    median(taken.iter().map(|sample| sample.bytes)) / 1e6,
                    known(median(taken.iter().map(|sample| sample.seconds_per_gib)), 3),
                    to("nbdkit"),
                    to("qemu-nbd"),
                    to("disk"),
                    to("simple"),
                    btrfs_of(subject).map_or("-".to_owned(), to),
                    before_of(subject).map_or("-".to_owned(), to),
                );
            }
        }
    }
}

/// Bytes to disks, at the least, for each byte that a client writes at `profile`.
pub fn least_written(profile: &Profile, shape: &Shape) -> f64 {
    if profile.key == "restore" { shape.full_write() } else { shape.small_write() }
}

fn to_disks(written: &Written, settings: &Settings) {
    let depth = settings.depths.iter().max().copied().unwrap_or_default();
    println!("| profile at {depth} | subject | bytes to disks for each written | at the least |");
    println!("| --- | --- | ---: | ---: |");
    for profile in &settings.profiles {
        for &subject in &settings.subjects {
            let (Some(ratio), Some(shape)) = (written.get(&(profile.key, subject)), Shape::named(subject)) else {
                continue;
            };
            println!("| {} | {subject} | {ratio:.3} | {:.3} |", profile.name, least_written(profile, shape));
        }
    }
}
