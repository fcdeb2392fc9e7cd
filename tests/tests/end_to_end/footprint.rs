//! What the daemon takes: idle, next to no memory and no processor; under load, no more memory than its limits say.

use std::time::Duration;

use holdfast_tests::command::run;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::fio;
use holdfast_tests::process::{processor_ticks, resident_bytes};
use holdfast_tests::scene::Scene;

#[test]
fn an_idle_daemon_with_a_thin_space_of_a_tebibyte_takes_next_to_nothing() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 8, "512MiB");
    let uri = daemon.space("tank/big", &["--layout", "mirror", "--size", "1TiB", "--thin"]);
    run(
        "qemu-io",
        &["-f", "raw", "-c", "write -P 1 700G 1M", "-c", "read -P 1 700G 1M", "-c", "read -P 0 3G 1M", &uri],
    )
    .succeeded();
    std::thread::sleep(Duration::from_secs(4));
    let resident = resident_bytes(daemon.pid());
    let ticks = idle_ticks(daemon.pid());
    println!("idle: {} KiB resident, {ticks} ticks in 2 s", resident >> 10);
    assert!(resident > 0 && resident < 64 << 20, "{} MiB resident", resident >> 20);
    assert!(ticks <= 1, "{ticks} ticks of processor time in 2 s");
}

/// Processor time in the quietest of some 2 s: a tick counts for whom it finds running, and other tests beside this one
/// make it find the daemon more often than its work is worth.
fn idle_ticks(pid: u32) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..10 {
        let before = processor_ticks(pid);
        std::thread::sleep(Duration::from_secs(2));
        least = least.min(processor_ticks(pid) - before);
        if least <= 1 {
            break;
        }
    }
    least
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
    let jobs = format!("--numjobs={CONNECTIONS}");
    let job = ["--rw=randrw", "--bs=1m", "--iodepth=64", "--size=128m", "--norandommap", "--time_based", "--runtime=4"];
    let mut load = fio::start(&uri, &[&job[..], &[&jobs]].concat());
    let mut most = 0;
    while load.runs() {
        most = resident_bytes(daemon.pid()).max(most);
        std::thread::sleep(Duration::from_millis(20));
    }
    load.finish();
    let bound = (64 << 20) + CONNECTIONS * PAYLOAD + 2 * BUFFERS;
    println!("under load: {} MiB resident at most, {} MiB allowed", most >> 20, bound >> 20);
    assert!(most <= bound, "{} MiB resident, {} MiB allowed", most >> 20, bound >> 20);
}
