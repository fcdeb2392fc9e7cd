//! How long the rebuild of a lost disk takes, by simulation and by a model: into the free room of the whole pool, and
//! onto one hot spare. Prints Markdown.
//!
//! Simulated two-way mirrors on half-full disks of 7,200 rpm and 4 GiB lose one of theirs; what is measured is the rate
//! at which its slabs come back with no load, and the table says how long 2 TB take at that rate: a disk of 4 TB that
//! is half full. The model has each byte read once and written once at the disks' streaming rate, by as many pairs of
//! disks as there are, or as work at a time.

use holdfast_device::sim::{Latency, Sim, SimDisk, SimDiskSpec};
use holdfast_device::{Durability, IoBuf};
use holdfast_model::{ByteSize, DiskState, Layout, Media, Provisioning, Shape, Usage, Uuid};
use holdfast_pool::{Candidate, DiskChange, DiskInfo, Env, Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings, Unlimited};
use holdfast_tests::in_process;

const DISK: ByteSize = ByteSize::gib(4);
/// The disk that is lost, and the one that is spared where one is.
const LOST: u16 = 3;
const SPARE: u16 = 0;
const LOST_BYTES: f64 = 2e12;
/// The streaming rate of a disk.
const RATE: f64 = 200e6;
/// Slabs that are rebuilt at a time, at most.
const AT_ONCE: f64 = 64.0;

fn candidate(sim: &Sim, index: usize) -> Candidate {
    let spec = SimDiskSpec {
        name: format!("disk{index}"),
        serial: format!("S{index}"),
        size_bytes: DISK.bytes(),
        media: Media::Hdd,
        latency: Latency::Hdd7200,
        ..SimDiskSpec::default()
    };
    let info = DiskInfo {
        path: format!("disk{index}"),
        serial: format!("S{index}"),
        media: Media::Hdd,
        ..DiskInfo::default()
    };
    Candidate { device: SimDisk::new(sim, spec), info }
}

async fn set_usage(pool: &Pool, disk: Uuid, usage: Usage) {
    pool.set_disk(disk, DiskChange { usage: Some(usage), ..DiskChange::default() }).await.expect("a member");
}

/// Makes a half-full pool, loses a disk, and answers at how many bytes a second its slabs come back.
async fn rebuild(env: Env, disks: Vec<Candidate>, shape: Shape, onto_spare: bool) -> f64 {
    let clock = env.clock.clone();
    let count = disks.len() as u64;
    let pool = Pool::create(env, "tank".parse().expect("a name"), disks).await.expect("blank disks");
    if onto_spare {
        let spare = pool.disks()[usize::from(SPARE)].record.id;
        set_usage(&pool, spare, Usage::HotSpare).await;
    }
    let count = if onto_spare { count - 1 } else { count };
    let spec = SpaceSpec {
        name: "vol".parse().expect("a name"),
        shape,
        provisioning: Provisioning::Fixed,
        size_bytes: count * DISK.bytes() / 2 * u64::from(shape.data_columns()) / shape.width() as u64 / 4096 * 4096,
        journal_bytes: None,
        enclosure_aware: false,
    };
    let record = pool.create_space(spec).await.expect("room is there");
    let space = Space::open(pool.clone(), record.id, SpaceSettings::default()).expect("just made");
    let chunk = IoBuf::zeroed(4 << 20).freeze();
    for number in pool.chunks_on(record.id, LOST) {
        let start = u64::from(number) * record.chunk_bytes;
        let end = (start + record.chunk_bytes).min(record.size_bytes);
        for offset in (start..end).step_by(chunk.len()) {
            let part = chunk.slice(0, chunk.len().min((end - offset) as usize));
            space.write(offset, part, Durability::Cached).await.expect("written");
        }
    }
    space.close().await.expect("closed");
    let space = Space::open(pool.clone(), record.id, SpaceSettings::default()).expect("it is there");
    if onto_spare {
        for disk in pool.disks().iter().filter(|disk| disk.record.index != SPARE) {
            set_usage(&pool, disk.record.id, Usage::Retired).await;
        }
    }
    pool.disk_out(LOST, DiskState::Missing, "pulled").await.expect("a quorum is there");
    let bytes = space.bytes_to_rebuild();
    let before = clock.now();
    space.rebuild(&Unlimited).await.expect("there is room");
    bytes as f64 / (clock.now() - before).as_secs_f64()
}

fn simulated(disks: usize, shape: Shape, onto_spare: bool) -> f64 {
    let sim = Sim::new(1);
    let candidates = (0..disks).map(|index| candidate(&sim, index)).collect();
    let env = in_process::env(sim.clock());
    sim.run(rebuild(env, candidates, shape, onto_spare)).expect("the power stays on")
}

fn hours(rate: f64) -> String {
    let hours = LOST_BYTES / rate / 3600.0;
    if hours < 1.0 { format!("{:.0} min", hours * 60.0) } else { format!("{hours:.1} h") }
}

fn main() {
    let shape = Shape::plain(Layout::Mirror { copies: 2 }, 1, ByteSize::kib(256));
    println!("| disks | whole pool, simulated | 2 TB | model | one hot spare, simulated | 2 TB | model |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for disks in [12, 60, 240] {
        let (pool, spare) = (simulated(disks, shape, false), simulated(disks, shape, true));
        // Each disk reads for one half of its time and writes for the other.
        let model = RATE * ((disks - 1) as f64 / 2.0).min(AT_ONCE);
        println!(
            "| {disks} | {:.0} MB/s | {} | {} | {:.0} MB/s | {} | {} |",
            pool / 1e6,
            hours(pool),
            hours(model),
            spare / 1e6,
            hours(spare),
            hours(RATE)
        );
    }
}
