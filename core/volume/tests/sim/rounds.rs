//! How many rounds of the device make something durable, by simulated time.

use std::time::Duration;

use holdfast_device::IoSlice;
use holdfast_device::sim::{Latency, Sim, SimDisk, SimDiskSpec, SsdModel};
use holdfast_volume::service::{Caller, FileService, Flush};

use crate::plain::{NEW, WRITING, new_volume};

/// What a write, and a flush, takes.
const ROUND: Duration = Duration::from_millis(10);

#[test]
fn new_files_become_durable_in_one_round() {
    let sim = Sim::new(1);
    let latency = Latency::Solid(SsdModel { write: ROUND, flush: ROUND, ..SsdModel::NVME });
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, latency, ..SimDiskSpec::default() });
    let clock = sim.clock();
    let done = sim.run(async move {
        let (volume, caller) = (new_volume(disk).await, Caller::default());
        let mut rounds = Vec::new();
        for number in 0..11u8 {
            let facts = volume.create(&caller, volume.root(), &[b'a' + number], &NEW).await.expect("created");
            let file = volume.open(&caller, facts.id, WRITING).await.expect("opened");
            let begun = clock.now();
            volume.write(&file, 0, IoSlice::padded(&[number; 4096]), 4096).await.expect("written");
            volume.flush(facts.id, Flush::Data).await.expect("durable");
            rounds.push((clock.now() - begun).as_secs_f64() / ROUND.as_secs_f64());
            // An overwrite in place, with its time.
            volume.write(&file, 0, IoSlice::padded(&[!number; 4096]), 4096).await.expect("written");
            let begun = clock.now();
            volume.flush(facts.id, Flush::All).await.expect("durable");
            rounds.push((clock.now() - begun).as_secs_f64() / ROUND.as_secs_f64());
            volume.close(file).await.expect("closed");
        }
        // With the first file the volume takes a zone for data.
        rounds.split_off(2)
    });
    let rounds = done.expect("powered");
    // A new file with its data, which is one more.
    let expected = |at: usize| if at.is_multiple_of(2) { 1.9..2.5 } else { 0.9..1.5 };
    assert!(rounds.iter().enumerate().all(|(at, rounds)| expected(at).contains(rounds)), "{rounds:?}");
}
