//! Pools and spaces on simulated disks: a world with disks that fail, a model of what every read may return, and what is
//! done with them. What threads alone can break is tried on real reactors.

mod background_destage;
mod checksums;
mod enclosures;
mod extents;
mod journal;
mod large;
mod model;
mod parity;
mod plan;
mod proofs;
mod protection;
mod rebalance;
mod resize;
mod salvage;
mod salvage_journal;
mod scenarios;
mod scrub;
mod simulate;
mod spoil;
mod staging;
mod threads;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};

/// Runs a test over seeds on all cores. `HOLDFAST_SEEDS` sets their number, `HOLDFAST_FROM` the first, `HOLDFAST_SEED` the only one.
pub fn over_seeds(seeds: u64, run: fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("HOLDFAST_SEED") {
        return run(seed);
    }
    let from = number("HOLDFAST_FROM").unwrap_or(0);
    let seeds = from + number("HOLDFAST_SEEDS").unwrap_or(seeds);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds) {
                    if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
                        next.store(seeds, Ordering::Relaxed);
                        eprintln!("HOLDFAST_SEED={seed} replays this failure");
                        std::panic::resume_unwind(panic);
                    }
                }
            });
        }
    });
}
