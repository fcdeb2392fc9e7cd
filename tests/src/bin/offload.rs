//! Offloaded copy through the daemon, as hosts ask for it, on loop devices with direct I/O over files in memory: a file
//! within a volume, and a space to one of another pool, beside a plain copy between two such devices, and one through a
//! client. Prints Markdown.
//!
//! ```text
//!   HOLDFAST_BIN=holdfast ROUNDS=3 QUICK=1 offload
//! ```
//!
//! Invariant: in each round all ways copy the same bytes, one after the other, and each is durable when its time is taken.

use std::time::Instant;

use holdfast_tests::command::run;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::iscsi::cdb;
use holdfast_tests::iscsi::initiator::{Command, Session};
use holdfast_tests::iscsi::tools::Place;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::loops::attach;
use holdfast_tests::ports::free_address;
use holdfast_tests::random::bytes;
use holdfast_tests::rounds::{median, number, text};
use holdfast_tests::scene::Scene;

const TARGET: &str = "iqn.2025-01.org.example:offload";
const MIB: u64 = 1 << 20;
const BLOCK: u64 = 512;
/// Blocks that hosts ask for at once: what VPD page 8Fh calls optimal.
const AT_ONCE: u64 = (1 << 30) / BLOCK;

/// LUNs: two files of a volume, a space, and one of another pool.
const FILES: [u16; 2] = [0, 1];
const SPACES: [u16; 2] = [2, 3];

fn seconds(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64()
}

/// Bytes that went over the loopback interface so far, by whomever.
fn wire() -> u64 {
    let text = std::fs::read_to_string("/sys/class/net/lo/statistics/tx_bytes").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn fill(session: &mut Session, lun: u16, size: u64) {
    for at in (0..size).step_by(MIB as usize) {
        let data = bytes(at / MIB + 1, MIB as usize);
        let command = Command::new(lun, &cdb::write(at / BLOCK, (MIB / BLOCK) as u32), data, 0);
        session.execute(command).expect("a session").good();
    }
    session.run(lun, &cdb::synchronize()).expect("a session").good();
}

/// Copies a whole unit by tokens, and makes the copy durable.
fn by_token(session: &mut Session, [from, to]: [u16; 2], size: u64) {
    let blocks = size / BLOCK;
    for at in (0..blocks).step_by(AT_ONCE as usize) {
        let range = [(at, AT_ONCE.min(blocks - at) as u32)];
        let token = session.token_of(from, &range);
        session.write_by(to, &token, &range);
    }
    session.run(to, &cdb::synchronize()).expect("a session").good();
}

fn check(session: &mut Session, lun: u16, size: u64) {
    for at in [0, size / 2 / MIB * MIB, size - MIB] {
        let read = session.read(lun, &cdb::read(at / BLOCK, (MIB / BLOCK) as u32), MIB as usize);
        assert!(read.expect("a session").good() == bytes(at / MIB + 1, MIB as usize), "what lies at {at} differs");
    }
}

fn main() {
    let quick = text("QUICK").is_some_and(|text| text != "0");
    let rounds = number("ROUNDS", 3);
    let (file, space) = if quick { (1 << 30, 512 * MIB) } else { (10 << 30, 2 << 30) };
    let scene = Scene::new();
    let mut janitor = Janitor::of(&scene);
    println!("\n## Offloaded copy\n");
    let disks = |janitor: &mut Janitor, name: &str, bytes: u64| attach(&scene, janitor, name, 1, bytes);
    let prepared = (|| {
        let pools = [
            disks(&mut janitor, "files", file + (3 << 30))?,
            disks(&mut janitor, "one", space + (1 << 30))?,
            disks(&mut janitor, "two", space + (1 << 30))?,
        ];
        Ok::<_, String>((pools, disks(&mut janitor, "plain", space)?, disks(&mut janitor, "copy", space)?))
    })();
    let ([files, one, two], plain, copy) = match prepared {
        Ok(prepared) => prepared,
        Err(reason) => return println!("Nothing was measured: {reason}."),
    };
    let address = free_address();
    let daemon = Daemon::start_tcp(&scene, &["--iscsi", &address.to_string()]);
    for (pool, disk) in [("files", &files), ("one", &one), ("two", &two)] {
        daemon.please(&["pool", "create", pool, "--disk", &disk[0]]);
    }
    let (volume_size, file_size, space_size) = ((file + (2 << 30)).to_string(), file.to_string(), space.to_string());
    daemon.please(&["volume", "create", "files/volume", "--size", &volume_size, "--layout", "simple"]);
    daemon.please(&["target", "create", "offload", "--iqn", TARGET, "--open"]);
    for (lun, name) in FILES.iter().zip(["from", "to"]) {
        let backing = format!("files/volume:/{name}");
        daemon.please(&["lun", "add", "offload", &backing, "--lun", &lun.to_string(), "--size", &file_size]);
    }
    for (lun, pool) in SPACES.iter().zip(["one", "two"]) {
        let backing = format!("{pool}/space");
        daemon.please(&["space", "create", &backing, "--layout", "simple", "--size", &space_size]);
        daemon.please(&["lun", "add", "offload", &backing, "--lun", &lun.to_string()]);
    }
    let mut session = Session::to(address, TARGET, &[0, 1, 2, 3]);
    fill(&mut session, FILES[0], file);
    fill(&mut session, SPACES[0], space);
    let count = format!("count={}", space / MIB);
    let dd = |from: &str, to: &str, flags: &[&str]| {
        let ends = [format!("if={from}"), format!("of={to}")];
        let fixed = ["bs=1M", &count, "conv=fsync", "status=none"];
        let arguments: Vec<&str> = ends.iter().map(String::as_str).chain(fixed).chain(flags.iter().copied()).collect();
        run("dd", &arguments).succeeded();
    };
    dd("/dev/urandom", &plain[0], &["oflag=direct", "iflag=fullblock"]);
    let [place, target] = SPACES.map(|lun| Place::new(address, TARGET, lun).image());
    let mut took: [Vec<f64>; 4] = Default::default();
    let mut sent = Vec::new();
    for _ in 0..rounds {
        let before = wire();
        took[0].push(1000.0 * seconds(|| by_token(&mut session, FILES, file)));
        sent.push((wire() - before) as f64 / 1000.0);
        took[1].push(seconds(|| by_token(&mut session, SPACES, space)));
        took[2].push(seconds(|| dd(&plain[0], &copy[0], &["iflag=direct", "oflag=direct"])));
        let client = ["convert", "-n", "-m", "16", "-W", "-t", "none", "-T", "none", "--image-opts"];
        let arguments: Vec<&str> = client.into_iter().chain(["--target-image-opts", &place, &target]).collect();
        took[3].push(seconds(|| drop(run("qemu-img", &arguments).succeeded())));
    }
    check(&mut session, FILES[1], file);
    check(&mut session, SPACES[1], space);
    let [within, across, plain, client] = took.map(median);
    let rate = |seconds: f64| space as f64 / seconds / 1e6;
    println!("Medians of {rounds} rounds.\n");
    println!("| copy | | |");
    println!("| --- | ---: | --- |");
    println!(
        "| a file of {} GiB within a volume, by token | {within:.1} ms | {:.1} kB on the wire |",
        file >> 30,
        median(sent)
    );
    println!("| a space of {} MiB to another pool, by token | {:.0} MB/s | |", space / MIB, rate(across));
    println!(
        "| plain, with dd, between two such devices | {:.0} MB/s | by token {:.2} of it |",
        rate(plain),
        plain / across
    );
    println!(
        "| through a client, with qemu-img | {:.0} MB/s | by token {:.1} times as fast |",
        rate(client),
        client / across
    );
}
