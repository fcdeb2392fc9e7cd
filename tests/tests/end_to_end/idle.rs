//! An idle daemon: little memory, no processor.

use std::time::Duration;

use holdfast_tests::command::run;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::process::{processor_ticks, resident_bytes};
use holdfast_tests::scene::Scene;

#[test]
fn an_idle_daemon_with_a_thin_space_of_a_tebibyte_takes_next_to_nothing() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 8, "512MiB");
    let uri = daemon.space("tank/big", &["--layout", "mirror", "--size", "1TiB", "--thin"]);
    run("qemu-io", &["-f", "raw", "-c", "write -P 1 700G 1M", "-c", "read -P 1 700G 1M", "-c", "read -P 0 3G 1M", &uri])
        .succeeded();
    std::thread::sleep(Duration::from_secs(4));
    let resident = resident_bytes(daemon.pid());
    let before = processor_ticks(daemon.pid());
    std::thread::sleep(Duration::from_secs(2));
    let ticks = processor_ticks(daemon.pid()) - before;
    println!("idle: {} KiB resident, {ticks} ticks in 2 s", resident >> 10);
    assert!(resident > 0 && resident < 64 << 20, "{} MiB resident", resident >> 20);
    assert!(ticks <= 1, "{ticks} ticks of processor time in 2 s");
}
