//! Writes whose checksums come with them, beside the same writes without, on disks that are plain memory, in process
//! and on one core. The user has a checksum of each block in any case, as a file system has that keeps its own. Prints
//! Markdown.
//!
//! ```text
//!   ROUNDS=9 QUICK=1 summed
//! ```

use std::sync::Arc;
use std::time::Duration;

use holdfast_device::reactor::{self, ReactorSettings};
use holdfast_device::{Durability, Integrity as _, IoBuf, IoSlice};
use holdfast_model::wire::crc32c;
use holdfast_model::{BLOCK_BYTES, ByteSize, Integrity, Layout, Media, Provisioning, Shape};
use holdfast_pool::{Candidate, DiskInfo, Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings};
use holdfast_tests::in_process::{self, Memory};
use holdfast_tests::rounds::{median, number, text};
use rustix::time::{ClockId, clock_gettime};

const DISK_BYTES: usize = 256 << 20;
const SPACE_BYTES: u64 = 64 << 20;
/// Turns of each kind in a round.
const TURNS: usize = 10;
/// Buffers that take turns.
const BUFFERS: u64 = 4;

async fn space_of(layout: Layout, columns: u16) -> Arc<Space> {
    let disk = |index: u16| {
        let serial = format!("S{index}");
        let device = Arc::new(Memory::new(DISK_BYTES));
        Candidate { device, info: DiskInfo { path: serial.clone(), serial, media: Media::Ssd, ..DiskInfo::default() } }
    };
    let disks = (0..columns * u16::from(layout.copies())).map(disk).collect();
    let pool = Pool::create(in_process::env(reactor::clock()), "tank".parse().expect("a name"), disks).await;
    let pool = pool.expect("blank disks");
    let spec = SpaceSpec {
        name: "vol".parse().expect("a name"),
        shape: Shape::plain(layout, columns, ByteSize::kib(256)).with_integrity(Integrity::Crc32c),
        provisioning: Provisioning::Fixed,
        size_bytes: SPACE_BYTES,
        journal_bytes: None,
        enclosure_aware: false,
    };
    let record = pool.create_space(spec).await.expect("room is there");
    Space::open(pool, record.id, SpaceSettings::default()).expect("just made")
}

/// Time of the processor that this thread took: what else the machine does does not count.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().expect("it began at zero")
}

/// Writes of one size in a scattered order, each with the checksums of its blocks computed before; answers with
/// nanoseconds a write.
async fn writes(space: &Arc<Space>, bytes: u64, given: bool, turn: Duration) -> f64 {
    let count = SPACE_BYTES / bytes;
    let data: Vec<IoSlice> = (0..BUFFERS).map(|_| IoBuf::zeroed(bytes as usize).freeze()).collect();
    let (begun, mut written) = (processor_time(), 0u64);
    while processor_time() - begun < turn {
        for data in &data {
            let at = written.wrapping_mul(0x9E37_79B9_7F4A_7C15) % count * bytes;
            let crcs: Vec<u32> = data.chunks(BLOCK_BYTES as usize).map(crc32c).collect();
            let write = match given {
                true => space.write_summed(at, data.clone(), &crcs, Durability::Cached),
                false => space.write(at, std::hint::black_box((data.clone(), &crcs)).0, Durability::Cached),
            };
            write.await.expect("written");
            written += 1;
        }
        reactor::yield_now().await;
    }
    let each = (processor_time() - begun).as_nanos() as f64 / written as f64;
    space.maintain_once().await.expect("comes to rest");
    each
}

fn main() {
    let quick = text("QUICK").is_some_and(|text| text != "0");
    // Short turns, so that what else the machine does meets both alike.
    let (rounds, turn) = (number("ROUNDS", if quick { 3 } else { 5 }) * TURNS, Duration::from_millis(10));
    println!(
        "Writes whose user has the checksums of their blocks, on disks of memory, one core: medians of {rounds} turns each."
    );
    println!();
    println!("| layout | bytes | ns, computed again | ns, handed down | ratio |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    let settings = ReactorSettings { name: "summed".into(), ..ReactorSettings::default() };
    let layouts = [
        ("simple", Layout::Simple, 1),
        ("two-way mirror", Layout::Mirror { copies: 2 }, 1),
        ("parity 4+1", Layout::Parity { parity: 1 }, 5),
    ];
    let measured = reactor::block_on(settings, async {
        for (name, layout, columns) in layouts {
            let space = space_of(layout, columns).await;
            for bytes in [4 << 10, 16 << 10, 64 << 10] {
                let (mut again, mut given) = (Vec::new(), Vec::new());
                for _ in 0..rounds {
                    again.push(writes(&space, bytes, false, turn).await);
                    given.push(writes(&space, bytes, true, turn).await);
                }
                let (again, given) = (median(again), median(given));
                println!("| {name} | {bytes} | {again:.0} | {given:.0} | {:.2} |", given / again);
            }
        }
    });
    measured.expect("the kernel gives a ring");
}
