//! Speed over iSCSI: Holdfast's target against Debian's `tgt`, on the same kind of disks, which are loop devices with direct
//! I/O over files in memory, and beside Holdfast's own NBD. The client is one of our own, with the same connections and
//! requests for all. Prints Markdown.
//!
//! ```text
//!   HOLDFAST_BIN=holdfast ROUNDS=5 RUNTIME=2 QUICK=1 PROFILES=database DEPTHS=32 iscsi
//! ```
//!
//! Invariant: subjects take turns within each round; what is printed is the median over rounds. `tgt` is measured with each
//! way that it has to reach a device, and counts with the faster one. The line `disk` is fio on such a device itself, with
//! no server or network between: what no server of it can pass by much.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use holdfast_tests::command::run;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::fio::{direct_line, rates};
use holdfast_tests::flow::{Load, Pipe, connections, drive};
use holdfast_tests::flow_iscsi::Unit;
use holdfast_tests::flow_nbd::Export;
use holdfast_tests::iscsi::login::Login;
use holdfast_tests::iscsi::tgt::{self, Tgt};
use holdfast_tests::janitor::Janitor;
use holdfast_tests::loops;
use holdfast_tests::ports::free_address;
use holdfast_tests::process::{keep_awake, processor_ticks};
use holdfast_tests::rounds::{median, number, text};
use holdfast_tests::scene::Scene;

/// Profiles: a name, bytes of a request, reads of a hundred, and whether requests go anywhere.
const PROFILES: &[(&str, usize, u64, bool)] = &[
    ("file copy", 64 << 10, 50, true),
    ("file server", 64 << 10, 67, true),
    ("database", 8 << 10, 67, true),
    ("streaming", 64 << 10, 100, false),
    ("restore", 64 << 10, 0, false),
];
const DEPTHS: &[u32] = &[1, 8, 32];
/// Disks of the pool, as in the benchmark over NBD.
const DISKS: usize = 8;
const DISK_BYTES: u64 = 1 << 30;
const TARGET: &str = "iqn.2025-01.org.example:bench";
/// Ways of `tgt` to a device.
const WAYS: &[(&str, &[&str])] = &[("tgt aio", &["--bstype", "aio"]), ("tgt rdwr", &["--bsoflags", "direct"])];

/// What is measured.
struct Subject {
    name: &'static str,
    way: Way,
}

/// How a load gets there.
enum Way {
    /// Over connections, one for each call, to the process of this number.
    Served { pid: u32, connect: Box<dyn Fn(u32) -> Box<dyn Pipe>> },
    /// To the device itself.
    Device(String),
}

struct Sample {
    iops: f64,
    seconds_per_gib: f64,
}

type Samples = BTreeMap<(usize, u32, &'static str), Vec<Sample>>;

fn main() {
    let quick = text("QUICK").is_some_and(|text| text != "0");
    let rounds: usize = number("ROUNDS", if quick { 1 } else { 5 });
    let seconds: f64 = number("RUNTIME", if quick { 0.5 } else { 1.0 });
    let size: u64 = number("SIZE_MIB", 1024u64) << 20;
    let awake = keep_awake();
    let scene = Scene::new();
    let mut janitor = Janitor::of(&scene);
    println!("\n## iSCSI\n");
    println!("Medians of {rounds} rounds of {seconds} s; up to 4 connections; {} MiB served.", size >> 20);
    println!(
        "Processors {}.\n",
        if awake.is_ok() { "are kept awake for all" } else { "sleep: the kernel cannot be asked not to" }
    );
    let peers = start_peers(&scene, &mut janitor, size);
    let ours = start_holdfast(&scene, &mut janitor, size);
    let (peers, ours) = match (peers, ours) {
        (Ok(peers), Ok(ours)) => (peers, ours),
        (Err(reason), _) | (_, Err(reason)) => {
            println!("Nothing was measured: {reason}.");
            return;
        }
    };
    let disk = loops::attach(&scene, &mut janitor, "disk", 1, size).map(|mut disks| disks.remove(0));
    let disk = disk.map(|disk| Subject { name: "disk", way: Way::Device(disk) });
    let subjects: Vec<&Subject> = peers.iter().map(|(_, subject)| subject).chain(&ours.1).chain(&disk).collect();
    let samples = measure(&subjects, rounds, Duration::from_secs_f64(seconds), size);
    print(&samples, &subjects);
}

fn session(address: SocketAddr, target: &str, lun: u16) -> Box<dyn Fn(u32) -> Box<dyn Pipe>> {
    let login = Login::new(address, target);
    Box::new(move |number| Box::new(Unit::new(&login.clone().port(number as u16 + 1), lun)))
}

fn start_peers(scene: &Scene, janitor: &mut Janitor, size: u64) -> Result<Vec<(Tgt, Subject)>, String> {
    let start = |(name, options): &(&'static str, &[&str])| {
        let folder = name.replace(' ', "-");
        let disk = loops::attach(scene, janitor, &folder, 1, size)?.remove(0);
        let mut peer = Tgt::start_in(scene, &folder, 1);
        let lun = peer.add(&disk, options);
        let way = Way::Served { pid: peer.pid(), connect: session(peer.address(), tgt::TARGET, lun) };
        let subject = Subject { name, way };
        Ok((peer, subject))
    };
    WAYS.iter().map(start).collect()
}

fn start_holdfast(scene: &Scene, janitor: &mut Janitor, size: u64) -> Result<(Daemon, Vec<Subject>), String> {
    let address = free_address();
    let daemon = Daemon::start_tcp(scene, &["--iscsi", &address.to_string()]);
    let size = size.to_string();
    let disks = loops::attach(scene, janitor, "holdfast", DISKS, DISK_BYTES)?;
    let disks: Vec<&str> = disks.iter().map(String::as_str).collect();
    daemon.please(&[&["pool", "create", "tank", "--disk"], &disks[..]].concat());
    for space in ["tank/unit", "tank/export"] {
        daemon.please(&["space", "create", space, "--layout", "simple", "--columns", "8", "--size", &size]);
    }
    daemon.please(&["nbd", "export", "tank/export"]);
    daemon.please(&["target", "create", "bench", "--iqn", TARGET, "--open"]);
    daemon.please(&["lun", "add", "bench", "tank/unit", "--lun", "0"]);
    let port = daemon.port();
    let nbd = SocketAddr::from(([127, 0, 0, 1], port));
    let connect: Box<dyn Fn(u32) -> Box<dyn Pipe>> = Box::new(move |_| Box::new(Export::new(nbd, "export")));
    let pid = daemon.pid();
    let subjects = vec![
        Subject { name: "holdfast", way: Way::Served { pid, connect: session(address, TARGET, 0) } },
        Subject { name: "holdfast NBD", way: Way::Served { pid, connect } },
    ];
    Ok((daemon, subjects))
}

/// Profiles and depths that were asked for.
fn chosen() -> (Vec<usize>, Vec<u32>) {
    let named = |name: &str, one: String| text(name).is_none_or(|all| all.split(',').any(|word| word == one));
    let profiles = (0..PROFILES.len()).filter(|&at| named("PROFILES", PROFILES[at].0.replace(' ', "-"))).collect();
    (profiles, DEPTHS.iter().copied().filter(|depth| named("DEPTHS", depth.to_string())).collect())
}

/// Writes all of it once.
fn fill(subject: &Subject, size: u64) {
    let load = Load { block: 256 << 10, reads: 0, random: false, size };
    match &subject.way {
        Way::Served { connect, .. } => {
            let speed = drive(vec![connect(0)], load, 8, Duration::from_millis(1), 1).max(1.0);
            let all = size as f64 / load.block as f64;
            drive(vec![connect(0)], load, 8, Duration::from_secs_f64((all / speed).clamp(0.5, 10.0)), 1);
        }
        Way::Device(disk) => {
            let mut line = direct_line("io_uring", disk);
            line.extend(["--rw=write", "--bs=1m", "--iodepth=8"].map(str::to_owned));
            run("fio", &line.iter().map(String::as_str).collect::<Vec<_>>()).succeeded();
        }
    }
}

/// fio on the device itself.
fn drive_device(disk: &str, load: Load, depth: u32, time: Duration) -> f64 {
    let mut line = direct_line("io_uring", disk);
    let pattern = if load.random { "--rw=randrw" } else { "--rw=rw" };
    line.extend(
        [pattern, "--time_based", "--norandommap", "--randrepeat=0", "--output-format=json"].map(str::to_owned),
    );
    line.push(format!("--rwmixread={}", load.reads));
    line.push(format!("--bs={}", load.block));
    line.push(format!("--iodepth={depth}"));
    line.push(format!("--size={}", load.size));
    line.push(format!("--runtime={}ms", time.as_millis()));
    let printed = run("fio", &line.iter().map(String::as_str).collect::<Vec<_>>()).succeeded();
    let (read, write) = rates(&printed);
    read.iops + write.iops
}

fn turn(subject: &Subject, load: Load, depth: u32, time: Duration, seed: u64) -> Sample {
    let (pid, connect) = match &subject.way {
        Way::Served { pid, connect } => (*pid, connect),
        Way::Device(disk) => {
            return Sample { iops: drive_device(disk, load, depth, time), seconds_per_gib: f64::NAN };
        }
    };
    let pipes = (0..connections(depth)).map(connect).collect();
    let before = processor_ticks(pid);
    let iops = drive(pipes, load, depth, time, seed);
    let spent = (processor_ticks(pid) - before) as f64 / 100.0;
    let gib = iops * time.as_secs_f64() * load.block as f64 / f64::from(1u32 << 30);
    Sample { iops, seconds_per_gib: spent / gib.max(1e-9) }
}

fn measure(subjects: &[&Subject], rounds: usize, time: Duration, size: u64) -> Samples {
    subjects.iter().for_each(|subject| fill(subject, size));
    let (profiles, depths) = chosen();
    let mut samples = Samples::new();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for &at in &profiles {
            let (_, block, reads, random) = PROFILES[at];
            for &depth in &depths {
                for place in 0..subjects.len() {
                    let subject = subjects[(place + round) % subjects.len()];
                    let sample = turn(subject, Load { block, reads, random, size }, depth, time, round as u64 + 2);
                    samples.entry((at, depth, subject.name)).or_default().push(sample);
                }
            }
        }
    }
    samples
}

fn print(samples: &Samples, subjects: &[&Subject]) {
    let iops = |at: usize, depth: u32, name: &'static str| {
        let taken = samples.get(&(at, depth, name)).into_iter().flatten();
        median(taken.map(|sample| sample.iops))
    };
    println!("| profile | depth | subject | IOPS | MB/s | CPU s/GiB |\n| --- | ---: | --- | ---: | ---: | ---: |");
    let (profiles, depths) = chosen();
    for &at in &profiles {
        let (profile, block, ..) = PROFILES[at];
        for &depth in &depths {
            for subject in subjects {
                let rate = iops(at, depth, subject.name);
                let taken = samples.get(&(at, depth, subject.name)).into_iter().flatten();
                let cost = median(taken.map(|sample| sample.seconds_per_gib));
                let bytes = rate * block as f64 / 1e6;
                let cost = if cost.is_nan() { "-".to_owned() } else { format!("{cost:.2}") };
                println!("| {profile} | {depth} | {} | {rate:.0} | {bytes:.0} | {cost} |", subject.name);
            }
        }
    }
    println!(
        "\n| profile | depth | to tgt | must | to our NBD | must | to the disk |\n| --- | ---: | ---: | --- | ---: | --- | ---: |"
    );
    for &at in &profiles {
        let profile = PROFILES[at].0;
        for &depth in &depths {
            let ours = iops(at, depth, "holdfast");
            let peer = WAYS.iter().map(|(name, _)| iops(at, depth, name)).fold(f64::MIN, f64::max);
            let least = if profile == "database" && depth == 32 { 3.0 } else { 1.5 };
            let (to_peer, to_nbd) = (ours / peer, ours / iops(at, depth, "holdfast NBD"));
            let verdict = |ratio: f64, least: f64| format!("{least} {}", if ratio >= least { "met" } else { "MISSED" });
            println!(
                "| {profile} | {depth} | {to_peer:.2} | {} | {to_nbd:.2} | {} | {:.2} |",
                verdict(to_peer, least),
                verdict(to_nbd, 0.8),
                ours / iops(at, depth, "disk"),
            );
        }
    }
}
