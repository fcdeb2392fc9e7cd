//! Parity on simulated disks of 10,000 rpm, with and without two simulated solid-state disks for the journal: the load
//! profiles in simulated time. Prints Markdown.
//!
//! The first second shows what memory and journal take; the last five what remains. Figures depend on the disk models
//! and the seed alone, not on the machine.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use holdfast_device::sim::{Latency, Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_device::{Clock, Durability, IoBuf, IoSlice};
use holdfast_model::{ByteSize, Layout, Media, Provisioning, Shape, Usage};
use holdfast_pool::{Candidate, DiskChange, DiskInfo, Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings};
use holdfast_tests::in_process;

const ROTATING_DISKS: usize = 8;
const SOLID_DISKS: usize = 2;
const SPACE: ByteSize = ByteSize::mib(512);
const FIRST: Duration = Duration::from_secs(1);
const SETTLED: Duration = Duration::from_secs(5);
const END: Duration = Duration::from_secs(10);

struct Profile {
    name: &'static str,
    block: u64,
    reads_of_100: u32,
    sequential: bool,
}

const PROFILES: [Profile; 6] = [
    Profile { name: "file copy", block: 64 << 10, reads_of_100: 50, sequential: false },
    Profile { name: "file server", block: 64 << 10, reads_of_100: 67, sequential: false },
    Profile { name: "database", block: 8 << 10, reads_of_100: 67, sequential: false },
    Profile { name: "streaming", block: 64 << 10, reads_of_100: 100, sequential: true },
    Profile { name: "restore", block: 64 << 10, reads_of_100: 0, sequential: true },
    Profile { name: "random writes of 8 KiB", block: 8 << 10, reads_of_100: 0, sequential: false },
];

/// Requests that ended in the first second, and in the settled seconds.
#[derive(Default)]
struct Ended {
    first: Cell<u64>,
    settled: Cell<u64>,
}

struct Machine {
    sim: Sim,
    disks: Vec<Arc<SimDisk>>,
}

impl Machine {
    fn new(solid: bool) -> Self {
        let sim = Sim::new(1);
        let spec = |index: usize, media, latency| SimDiskSpec {
            name: format!("disk{index}"),
            serial: format!("S{index}"),
            size_bytes: 4 << 30,
            media,
            latency,
            ..SimDiskSpec::default()
        };
        let rotating = (0..ROTATING_DISKS).map(|index| spec(index, Media::Hdd, Latency::Hdd10k));
        let solid = (0..if solid { SOLID_DISKS } else { 0 })
            .map(|index| spec(ROTATING_DISKS + index, Media::Ssd, Latency::Ssd));
        let disks = rotating.chain(solid).map(|spec| SimDisk::new(&sim, spec)).collect();
        Self { sim, disks }
    }

    /// A full space of this parity; the solid disks are for the journal.
    fn space(&self, parity: u8) -> Arc<Space> {
        let env = in_process::env(self.sim.clock());
        let candidates: Vec<Candidate> = self
            .disks
            .iter()
            .map(|disk| {
                let (serial, media) = (disk.spec().serial.clone(), disk.spec().media);
                Candidate {
                    device: disk.clone(),
                    info: DiskInfo { path: serial.clone(), serial, media, ..DiskInfo::default() },
                }
            })
            .collect();
        let made = self.sim.run(async move {
            let pool = Pool::create(env, "tank".parse().expect("a name"), candidates).await.expect("blank disks");
            for disk in pool.disks().iter().filter(|disk| disk.record.media == Media::Ssd) {
                let usage = DiskChange { usage: Some(Usage::Journal), ..DiskChange::default() };
                pool.set_disk(disk.record.id, usage).await.expect("a member");
            }
            let shape = Shape::plain(Layout::Parity { parity }, ROTATING_DISKS as u16, ByteSize::kib(256));
            let spec = SpaceSpec {
                name: "vol".parse().expect("a name"),
                shape,
                provisioning: Provisioning::Fixed,
                size_bytes: SPACE.bytes(),
                journal_bytes: None,
                enclosure_aware: false,
            };
            let record = pool.create_space(spec).await.expect("room is there");
            let space = Space::open(pool, record.id, SpaceSettings::default()).expect("just made");
            let chunk = IoBuf::zeroed(4 << 20).freeze();
            for offset in (0..SPACE.bytes()).step_by(chunk.len()) {
                space.write(offset, chunk.clone(), Durability::Cached).await.expect("written");
            }
            space.flush().await.expect("flushed");
            space.maintain_once().await.expect("tidied");
            space
        });
        made.expect("the power stays on")
    }

    fn measure(&self, space: &Arc<Space>, profile: &'static Profile, depth: u32) -> Rc<Ended> {
        let ended = Rc::new(Ended::default());
        let next = Rc::new(Cell::new(0));
        let clock = self.sim.clock();
        let begin = clock.now();
        let mut clients = Vec::new();
        for _ in 0..depth {
            let client = Client {
                space: space.clone(),
                profile,
                random: self.sim.random(),
                clock: clock.clone(),
                begin,
                next: next.clone(),
                ended: ended.clone(),
            };
            clients.push(self.sim.spawn_handle(client.run()));
        }
        let done = self.sim.run(async move {
            for client in clients {
                client.await;
            }
        });
        done.expect("the power stays on");
        ended
    }
}

struct Client {
    space: Arc<Space>,
    profile: &'static Profile,
    random: SimRandom,
    clock: Arc<dyn Clock>,
    begin: Duration,
    next: Rc<Cell<u64>>,
    ended: Rc<Ended>,
}

impl Client {
    async fn run(self) {
        let Profile { block, reads_of_100, sequential, .. } = *self.profile;
        let blocks = SPACE.bytes() / block;
        let data = IoBuf::zeroed(block as usize).freeze();
        loop {
            let offset = block
                * if sequential {
                    let at = self.next.get();
                    self.next.set((at + 1) % blocks);
                    at
                } else {
                    self.random.range(0..blocks)
                };
            if self.random.chance(reads_of_100, 100) {
                self.space.read(offset, IoBuf::new(block as usize)).await.expect("read");
            } else {
                let data: IoSlice = data.clone();
                self.space.write(offset, data, Durability::Cached).await.expect("written");
            }
            let now = self.clock.now() - self.begin;
            let count = |cell: &Cell<u64>| cell.set(cell.get() + 1);
            if now < FIRST {
                count(&self.ended.first);
            }
            if now >= SETTLED {
                count(&self.ended.settled);
            }
            if now >= END {
                return;
            }
            // Memory takes no simulated time, a client does.
            self.clock.sleep(Duration::from_micros(20)).await;
        }
    }
}

fn main() {
    println!("| profile | depth | parity | journal | first second, IOPS | settled, IOPS |");
    println!("| --- | ---: | --- | --- | ---: | ---: |");
    for profile in &PROFILES {
        for depth in [1, 8, 32] {
            for parity in [1, 2] {
                for solid in [false, true] {
                    let machine = Machine::new(solid);
                    let space = machine.space(parity);
                    let ended = machine.measure(&space, profile, depth);
                    let settled = ended.settled.get() as f64 / (END - SETTLED).as_secs_f64();
                    let (name, journal) = (profile.name, if solid { "two SSDs" } else { "the disks" });
                    println!("| {name} | {depth} | {parity} | {journal} | {} | {settled:.0} |", ended.first.get());
                }
            }
        }
    }
}
