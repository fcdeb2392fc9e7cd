//! Speed of long work, against the same machine's plain copies and reads in one run: rebuild, scrub, conversion, and
//! what clients feel of a rebuild. Prints Markdown.
//!
//! ```text
//!   HOLDFAST_BIN=holdfast ROUNDS=3 SIZE_MIB=1024 jobs
//! ```
//!
//! Invariant: in each round the peer is measured beside the job; what is printed is the median of each round's ratio.

use std::time::Instant;

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::fio;
use holdfast_tests::losses::{give, take, wait_in_step, wait_missing};
use holdfast_tests::random::bytes;
use holdfast_tests::rounds::{median, number};
use holdfast_tests::scene::Scene;
use serde_json::Value;

const DISKS: usize = 8;
const MIB: u64 = 1 << 20;
/// The database profile: 8 KiB at random, two reads for each write.
const DATABASE: &[&str] =
    &["--rw=randrw", "--rwmixread=67", "--bs=8k", "--iodepth=8", "--time_based", "--output-format=json"];

/// Milliseconds of a day, of a time as the API writes it.
fn millis(time: &Value) -> f64 {
    let text = time.as_str().expect("a time");
    let part = |from: usize, to: usize| text[from..to].parse::<f64>().expect("digits");
    ((part(11, 13) * 60.0 + part(14, 16)) * 60.0 + part(17, 23)) * 1000.0
}

/// How long a job took, in seconds.
fn seconds(job: &Value) -> f64 {
    let took = millis(&job["ended"]) - millis(&job["started"]);
    (if took < 0.0 { took + 86_400_000.0 } else { took }) / 1000.0
}

fn timed(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64()
}

fn main() {
    let (rounds, size) = (number("ROUNDS", 3), number("SIZE_MIB", 1024) * MIB);
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let disks = daemon.pool(&scene, "tank", DISKS, "1GiB");
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--columns", "3", "--size", &size.to_string()]);
    let (image, out) = (scene.path("image"), scene.path("out"));
    std::fs::write(&image, bytes(3, size as usize)).expect("an image can be written");
    run("nbdcopy", &["--flush", &image, &uri]).succeeded();
    let rest =
        || wait_until("nothing is dirty", 120, || daemon.json(&["space", "show", "tank/vm"])["dirty_bytes"] == 0);
    let copy_rate = |bytes: u64| {
        let blocks = (bytes / MIB).to_string();
        let (from, to) = (format!("if={image}"), format!("of={out}"));
        let count = format!("count={blocks}");
        let taken = timed(|| drop(run("dd", &[&from, &to, "bs=1M", &count, "conv=fsync", "status=none"]).succeeded()));
        std::fs::remove_file(&out).expect("it was written");
        bytes as f64 / taken
    };
    let mut ratios: [Vec<f64>; 4] = Default::default();
    for round in 0..rounds as usize {
        rest();
        let read = size as f64 / timed(|| drop(run("nbdcopy", &[&uri, "null:"]).succeeded()));
        let scrub = daemon.json(&["space", "scrub", "tank/vm", "--wait"]);
        ratios[0].push(scrub["done_bytes"].as_f64().expect("bytes") / seconds(&scrub) / read);

        let disk = &disks[round % DISKS];
        take(disk);
        wait_missing(&daemon, "tank", 1);
        let load: Vec<&str> = DATABASE.iter().copied().chain(["--runtime=3"]).collect();
        let idle = fio::p99(&fio::start(&uri, &load).finish(), "read");
        let rebuild = daemon.json(&["space", "repair", "tank/vm", "--wait"]);
        let bytes = rebuild["done_bytes"].as_u64().expect("bytes");
        ratios[1].push(bytes as f64 / seconds(&rebuild) / copy_rate(bytes.min(size)));
        give(disk);
        wait_in_step(&daemon, "tank/vm");

        let disk = &disks[(round + 3) % DISKS];
        take(disk);
        wait_missing(&daemon, "tank", 1);
        daemon.please(&["space", "repair", "tank/vm"]);
        let busy = fio::p99(&fio::start(&uri, &load).finish(), "read");
        ratios[3].push(busy / idle);
        wait_until("it is rebuilt", 120, || daemon.json(&["space", "show", "tank/vm"])["stale_slabs"] == 0);
        give(disk);
        wait_in_step(&daemon, "tank/vm");

        let convert = |options: &[&str]| daemon.json(&[&["space", "convert", "tank/vm", "--wait"], options].concat());
        let to = convert(&["--layout", "parity", "--parity", "2", "--columns", "6"]);
        ratios[2].push(size as f64 / seconds(&to) / copy_rate(size));
        convert(&["--layout", "mirror", "--columns", "3"]);
    }
    println!("## Long work\n");
    println!("| what | peer in the same run | bound | ratio |");
    println!("| --- | --- | ---: | ---: |");
    let [scrub, rebuild, convert, busy] = ratios.map(median);
    println!("| scrub of a two-way mirror, bytes compared | sequential read of it over NBD | ≥ 0.8 | {scrub:.2} |");
    println!("| rebuild of a lost disk, bytes made | plain copy of as many bytes | ≥ 0.7 | {rebuild:.2} |");
    println!("| conversion to dual parity, bytes of data | plain copy of as many bytes | | {convert:.2} |");
    println!(
        "| database at 8, p99 of reads while a disk is rebuilt | the same without, the disk out as well | ≤ 2 | {busy:.2} |"
    );
}
