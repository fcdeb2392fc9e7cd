//! What the daemon takes: idle, next to no memory and no processor; under load, no more memory than its limits say.

use std::time::Duration;

use holdfast_tests::command::{run, wait_until};
use holdfast_tests::daemon::Daemon;
use holdfast_tests::fio;
use holdfast_tests::process::{allocated_bytes, processor_ticks};
use holdfast_tests::scene::Scene;

/// Processor time of an idle daemon in two seconds, in ticks, at most.
const MOST_TICKS: u64 = 1;

/// What a daemon takes that is left alone.
struct Idle {
    allocated_bytes: u64,
    /// Processor time in the quietest of some times of two seconds: what was begun for a client goes on for a while.
    ticks: u64,
}

/// A daemon with a thin space of a size in which something is written and read, which is then left alone.
fn idle_with(size: &str, near_the_end: &str) -> Idle {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 8, "512MiB");
    let uri = daemon.space("tank/thin", &["--layout", "mirror", "--size", size, "--thin"]);
    let (write, read) = (format!("write -P 1 {near_the_end} 1M"), format!("read -P 1 {near_the_end} 1M"));
    run("qemu-io", &["-f", "raw", "-c", &write, "-c", &read, "-c", "read -P 0 3M 1M", &uri]).succeeded();
    let idle = Idle { ticks: idle_ticks(daemon.pid()), allocated_bytes: allocated_bytes(daemon.pid()) };
    println!("{size}: {} KiB, {} ticks in 2 s", idle.allocated_bytes >> 10, idle.ticks);
    idle
}

fn idle_ticks(pid: u32) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..20 {
        let before = processor_ticks(pid);
        std::thread::sleep(Duration::from_secs(2));
        least = least.min(processor_ticks(pid) - before);
        if least <= MOST_TICKS {
            break;
        }
    }
    least
}

#[test]
fn an_idle_daemon_with_a_thin_space_of_a_tebibyte_takes_next_to_nothing() {
    let (small, large) = (idle_with("64MiB", "48M"), idle_with("1TiB", "700G"));
    assert!(small.allocated_bytes > 0, "nothing is measured");
    // A byte for each block of it would take 256 MiB.
    let grown = large.allocated_bytes.saturating_sub(small.allocated_bytes);
    assert!(grown < 8 << 20, "{} KiB for its size", grown >> 10);
    assert!(large.ticks <= MOST_TICKS, "{} ticks of processor time in 2 s", large.ticks);
}

/// Payload is bounded by connection, however much clients ask for at once.
#[test]
fn memory_stays_bounded_when_clients_ask_for_more() {
    const CONNECTIONS: u64 = 8;
    const PAYLOAD: u64 = 8 << 20;
    const BUFFERS: u64 = 32 << 20;
    let scene = Scene::new();
    let daemon = Daemon::start_with(&scene, "a", &["--reactors", "2", "--nbd-payload", &PAYLOAD.to_string()]);
    daemon.pool(&scene, "tank", 4, "256MiB");
    let uri = daemon.space("tank/vm", &["--layout", "mirror", "--size", "128MiB"]);
    let before = allocated_bytes(daemon.pid());
    let jobs = format!("--numjobs={CONNECTIONS}");
    let job = ["--rw=randrw", "--bs=1m", "--iodepth=64", "--size=128m", "--norandommap", "--time_based"];
    let mut load = fio::start(&uri, &[&job[..], &[&jobs, "--runtime=3600"]].concat());
    let written = || daemon.metrics().written_by_clients();
    let mut most = 0;
    wait_until("clients wrote a lot", 60, || {
        assert!(load.runs(), "the load goes on");
        most = allocated_bytes(daemon.pid()).max(most);
        written() > f64::from(1 << 30)
    });
    load.stop();
    let bound = CONNECTIONS * PAYLOAD + 2 * BUFFERS;
    let grown = most.saturating_sub(before);
    println!("under load: {} MiB more at most, {} MiB allowed", grown >> 20, bound >> 20);
    assert!(grown <= bound, "{} MiB more, {} MiB allowed", grown >> 20, bound >> 20);
}
