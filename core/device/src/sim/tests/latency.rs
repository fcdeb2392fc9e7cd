//! The documented figures of the latency models, in simulated time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::super::{Latency, Sim, SimDisk, SimDiskSpec};
use super::filled;
use crate::{Clock, Device, Durability, IoBuf};

const COUNT: u64 = 2000;

/// Requests a second of `depth` streams, each of which asks `request` for its next future.
fn rate(latency: Latency, depth: usize, request: impl Fn(Arc<SimDisk>, u64) -> crate::Io<()> + Clone + 'static) -> f64 {
    let sim = Sim::new(17);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 1 << 40, latency, ..SimDiskSpec::default() });
    let clock = sim.clock();
    let streams = (0..depth).map(|_| {
        let (disk, request, random) = (disk.clone(), request.clone(), sim.random());
        async move {
            for _ in 0..COUNT / depth as u64 {
                request(disk.clone(), random.range(0..(1 << 28) - 1024_u64) * 4096).await.unwrap();
            }
        }
    });
    sim.run(join_all(streams)).unwrap();
    COUNT as f64 / clock.now().as_secs_f64()
}

fn random_read(disk: Arc<SimDisk>, offset: u64) -> crate::Io<()> {
    crate::Io::pending(async move { disk.read(offset, IoBuf::new(4096)).await.map(drop) })
}

fn assert_near(measured: f64, expected: f64, tolerance: f64) {
    assert!((measured / expected - 1.0).abs() < tolerance, "{measured:.0}, documented {expected:.0}");
}

#[test]
fn rotating_disks_seek_as_documented() {
    assert_near(rate(Latency::Hdd10k, 1, random_read), 130.0, 0.05);
    assert_near(rate(Latency::Hdd7200, 1, random_read), 79.0, 0.05);
    let sorted = rate(Latency::Hdd10k, 32, random_read);
    assert!((190.0..300.0).contains(&sorted), "the elevator gives {sorted:.0} a second");
}

#[test]
fn a_sequential_stream_runs_at_the_transfer_rate() {
    for (latency, bytes_per_second) in [(Latency::Hdd10k, 150e6), (Latency::Hdd7200, 200e6)] {
        let sim = Sim::new(1);
        let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 1 << 40, latency, ..SimDiskSpec::default() });
        let clock = sim.clock();
        sim.run(async move {
            for block in 0..500 {
                disk.read(block << 18, IoBuf::new(1 << 18)).await.unwrap();
            }
        })
        .unwrap();
        assert_near(500.0 * (1 << 18) as f64 / clock.now().as_secs_f64(), bytes_per_second, 0.01);
    }
}

#[test]
fn solid_state_disks_serve_their_channels_at_once() {
    assert_near(rate(Latency::Ssd, 1, random_read), 1e6 / 82.0, 0.01);
    assert_near(rate(Latency::Ssd, 16, random_read), 16e6 / 82.0, 0.05);
    assert_near(rate(Latency::Ssd, 64, random_read), 16e6 / 82.0, 0.05);
    let write = |disk: Arc<SimDisk>, offset| disk.write(offset, filled(1, 4096), Durability::Cached);
    assert_near(rate(Latency::Ssd, 1, write), 1e6 / 22.0, 0.01);
    let large = |disk: Arc<SimDisk>, offset| disk.write(offset, filled(1, 1 << 18), Durability::Cached);
    assert_near(rate(Latency::Ssd, 16, large) * (1 << 18) as f64, 2e9, 0.02);
}

#[test]
fn a_flush_takes_its_time_and_a_disk_that_comes_back_works() {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec { latency: Latency::Hdd10k, ..SimDiskSpec::default() });
    let clock: Arc<dyn Clock> = sim.clock();
    let device = disk.clone();
    sim.run(async move { device.flush().await.unwrap() }).unwrap();
    assert_eq!(clock.now(), Duration::from_millis(6));
    let waiting: Vec<_> = (0..40).map(|block| disk.read(block * 8192, IoBuf::new(4096))).collect();
    disk.disappear(super::super::Disappearance::Cable);
    disk.reappear();
    let device = disk.clone();
    let (gone, there) =
        sim.run(async move { (join_all(waiting).await, device.read(4096, IoBuf::new(4096)).await.is_ok()) }).unwrap();
    assert!(gone.iter().all(Result::is_err) && there);
}
