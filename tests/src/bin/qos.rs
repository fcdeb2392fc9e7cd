//! Quality of service with two real clients: a cap of 2,000 IOPS beside a client that takes what it gets, and a polite
//! client beside a greedy one. Prints Markdown.
//!
//! ```text
//!   HOLDFAST_BIN=holdfast ROUNDS=3 qos
//! ```
//!
//! Invariant: in each round what a client gets alone is measured beside what it gets with the other; medians are
//! printed.

use holdfast_tests::qos::Two;
use holdfast_tests::rounds::{median, number};

const CAP: f64 = 2000.0;
const CAP_SECONDS: u32 = 10;
const SECONDS: u32 = 5;

fn main() {
    let rounds: usize = number("ROUNDS", 3);
    let two = Two::default();
    println!("\n## Quality of service\n");
    two.daemon.please(&["space", "set", "tank/polite", "--max-iops", &CAP.to_string()]);
    let capped: Vec<(f64, f64)> = (0..rounds).map(|_| two.capped(CAP_SECONDS)).collect();
    two.daemon.please(&["space", "set", "tank/polite", "--max-iops", "0"]);
    let (got, free) = (median(capped.iter().map(|round| round.0)), median(capped.iter().map(|round| round.1)));
    println!("| capped at | it did | off by | the other one did |\n| --- | --- | --- | --- |");
    println!("| {CAP} IOPS | {got:.0} IOPS | {:+.1} % | {free:.0} IOPS |\n", (got / CAP - 1.0) * 100.0);
    println!(
        "| requests | polite one alone, p99 | beside a greedy one, p99 | ratio | the greedy one did |\n| --- | --- | --- | --- | --- |"
    );
    for kind in ["randread", "randwrite"] {
        let rounds: Vec<(f64, f64, f64)> = (0..rounds).map(|_| two.neighbours(kind, SECONDS)).collect();
        let (alone, beside) = (median(rounds.iter().map(|round| round.0)), median(rounds.iter().map(|round| round.1)));
        let (ratio, greedy) =
            (median(rounds.iter().map(|round| round.1 / round.0)), median(rounds.iter().map(|round| round.2)));
        println!("| {kind} | {alone:.0} us | {beside:.0} us | {ratio:.1} | {greedy:.0} IOPS |");
    }
}
