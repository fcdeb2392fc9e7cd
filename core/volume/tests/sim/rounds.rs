//! How many rounds of the device make something durable, by simulated time.

use std::sync::Arc;
use std::time::Duration;

use holdfast_device::sim::{Latency, Sim, SimDisk, SimDiskSpec, SsdModel};
use holdfast_device::{Device, IoSlice};
use holdfast_model::Uuid;
use holdfast_volume::service::{Caller, FileKind, FileService, Flush, NewFile, OpenMode, Time};
use holdfast_volume::{Format, Settings, Volume, VolumeFormat};

/// What a write, and a flush, takes.
const ROUND: Duration = Duration::from_millis(10);
const WRITING: OpenMode = OpenMode { read: true, write: true, truncate: false };
const NEW: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };

async fn volume(disk: Arc<SimDisk>) -> Volume {
    let device: Arc<dyn Device> = disk;
    let store = Format { volume: Uuid::from_u128(7), log_bytes: None };
    let format = VolumeFormat { store, secret: [9; 16], owner: (0, 0), mode: 0o755, is_case_sensitive: false };
    Volume::format(&device, format, Time::default()).await.expect("formatted");
    Volume::open(device, Settings::default(), Arc::new(Time::default)).await.expect("opened")
}

#[test]
fn new_files_become_durable_in_one_round() {
    let sim = Sim::new(1);
    let latency = Latency::Solid(SsdModel { write: ROUND, flush: ROUND, ..SsdModel::NVME });
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, latency, ..SimDiskSpec::default() });
    let clock = sim.clock();
    let done = sim.run(async move {
        let (volume, caller) = (volume(disk).await, Caller::default());
        let mut rounds = Vec::new();
        for number in 0..10u8 {
            let facts = volume.create(&caller, volume.root(), &[b'a' + number], &NEW).await.expect("created");
            let file = volume.open(&caller, facts.id, WRITING).await.expect("opened");
            volume.write(&file, 0, IoSlice::padded(&[number; 4096]), 4096).await.expect("written");
            let begun = clock.now();
            volume.flush(facts.id, Flush::Data).await.expect("durable");
            rounds.push((clock.now() - begun).as_secs_f64() / ROUND.as_secs_f64());
            // An overwrite in place, with its time.
            volume.write(&file, 0, IoSlice::padded(&[!number; 4096]), 4096).await.expect("written");
            let begun = clock.now();
            volume.flush(facts.id, Flush::All).await.expect("durable");
            rounds.push((clock.now() - begun).as_secs_f64() / ROUND.as_secs_f64());
            volume.close(file).await.expect("closed");
        }
        rounds
    });
    let rounds = done.expect("powered");
    assert!(rounds.iter().all(|rounds| (0.9..1.5).contains(rounds)), "{rounds:?}");
}
