//! What freed room comes to.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use holdfast_device::IoSlice;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_volume::service::{Caller, FileService, Remove};

use crate::plain::{NEW, WRITING, new_volume};

#[test]
fn freed_room_goes_back_at_once_when_that_is_asked_for() {
    let sim = Sim::new(2);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 128 << 20, garbage: false, ..SimDiskSpec::default() });
    let done = sim.run(async move {
        let (volume, caller) = (new_volume(disk.clone()).await, Caller::default());
        let facts = volume.create(&caller, volume.root(), b"large", &NEW).await.expect("created");
        let file = volume.open(&caller, facts.id, WRITING).await.expect("opened");
        for part in 0..32u64 {
            volume.write(&file, part << 20, IoSlice::padded(&vec![7; 1 << 20]), 1 << 20).await.expect("written");
        }
        volume.close(file).await.expect("closed");
        volume.sync().await.expect("durable");
        let full = disk.allocated_bytes();
        volume.remove(&caller, volume.root(), b"large", Remove::File).await.expect("removed");
        volume.trim().await.expect("given back");
        volume.shut_down().await.expect("closed");
        (full, disk.allocated_bytes())
    });
    let (full, trimmed) = done.expect("powered");
    assert!(trimmed + (20 << 20) <= full, "{full}, then {trimmed}");
}

#[test]
fn freed_room_goes_back_to_the_device_after_a_rest() {
    let sim = Sim::new(2);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 128 << 20, garbage: false, ..SimDiskSpec::default() });
    let (clock, device) = (sim.clock(), disk.clone());
    let done = sim.run(async move {
        let (volume, caller) = (Arc::new(new_volume(device.clone()).await), Caller::default());
        let work = async {
            let facts = volume.create(&caller, volume.root(), b"large", &NEW).await.expect("created");
            let file = volume.open(&caller, facts.id, WRITING).await.expect("opened");
            let data = IoSlice::padded(&vec![7; 1 << 20]);
            for part in 0..32u64 {
                volume.write(&file, part << 20, data.clone(), 1 << 20).await.expect("written");
            }
            volume.close(file).await.expect("closed");
            volume.sync().await.expect("durable");
            let full = device.allocated_bytes();
            volume.remove(&caller, volume.root(), b"large", Remove::File).await.expect("removed");
            clock.sleep(Duration::from_secs(30)).await;
            let resting = device.allocated_bytes();
            clock.sleep(Duration::from_secs(150)).await;
            // What the disk keeps in its cache is done.
            volume.checkpoint().await.expect("durable");
            let rested = device.allocated_bytes();
            let again = volume.trim().await.expect("given back");
            volume.shut_down().await.expect("closed");
            (full, resting, rested, again)
        };
        join(volume.clone().maintain(clock.clone()), work).await.1
    });
    let (full, resting, rested, again) = done.expect("powered");
    assert!(resting + (1 << 20) > full, "{resting} of {full} are kept for what is written next");
    assert!(rested + (20 << 20) <= full, "{full}, and {rested} after a rest");
    assert!(again > 0, "what was never written is free, too");
}
