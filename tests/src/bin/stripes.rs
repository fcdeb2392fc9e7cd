//! Whole stripes on disks that are plain memory, in process and on one core: what the layout, its parity and its
//! checksums cost when neither a socket nor a kernel is in the way. Prints Markdown.
//!
//! ```text
//!   ROUNDS=5 QUICK=1 stripes
//! ```
//!
//! In turns with copies of the same data and as much parity from memory to memory, which is the least that any layout
//! does on such disks. SPDK's raid5f of 4+1 on its memory disks was measured at 3.1 GB/s of whole stripes on one such
//! core.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_device::reactor::{self, ReactorSettings};
use holdfast_device::{Durability, IoBuf, IoSlice};
use holdfast_model::{ByteSize, Integrity, Layout, Media, Provisioning, Shape};
use holdfast_pool::{Candidate, DiskInfo, Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings};
use holdfast_tests::in_process::{self, Memory};
use holdfast_tests::rounds::{median, number, text};

const DISK_BYTES: usize = 256 << 20;
const SPACE_BYTES: u64 = 128 << 20;
/// Gigabytes of whole stripes a second.
const SPDK_RAID5F: f64 = 3.1;

/// What is measured.
#[derive(Clone, Copy)]
struct Case {
    parity: u8,
    columns: u16,
    interleave: ByteSize,
    integrity: Integrity,
}

impl Case {
    fn data_columns(&self) -> u64 {
        u64::from(self.columns) - u64::from(self.parity)
    }

    fn stripe_bytes(&self) -> u64 {
        self.data_columns() * self.interleave.bytes()
    }
}

async fn space_of(case: Case) -> Arc<Space> {
    let env = in_process::env(reactor::clock());
    let disk = |index: u16| {
        let serial = format!("S{index}");
        let device = Arc::new(Memory::new(DISK_BYTES));
        Candidate { device, info: DiskInfo { path: serial.clone(), serial, media: Media::Ssd, ..DiskInfo::default() } }
    };
    let pool = Pool::create(env, "tank".parse().expect("a name"), (0..case.columns).map(disk).collect()).await;
    let pool = pool.expect("blank disks");
    let shape = Shape::plain(Layout::Parity { parity: case.parity }, case.columns, case.interleave)
        .with_integrity(case.integrity);
    let spec = SpaceSpec {
        name: "vol".parse().expect("a name"),
        shape,
        provisioning: Provisioning::Fixed,
        size_bytes: SPACE_BYTES,
        journal_bytes: None,
        enclosure_aware: false,
    };
    let record = pool.create_space(spec).await.expect("room is there");
    Space::open(pool, record.id, SpaceSettings::default()).expect("just made")
}

/// Writes whole stripes one after the other, `depth` at a time; answers with gigabytes a second.
async fn stripes(space: &Arc<Space>, case: Case, depth: u64, turn: Duration) -> f64 {
    let stripe = case.stripe_bytes();
    let count = SPACE_BYTES / stripe;
    let data: Rc<Vec<IoSlice>> = Rc::new((0..depth).map(|_| IoBuf::zeroed(stripe as usize).freeze()).collect());
    let (begun, mut written) = (Instant::now(), 0);
    while begun.elapsed() < turn {
        let batch = (0..depth).map(|place| {
            let at = (written + place) % count * stripe;
            space.write(at, data[place as usize].clone(), Durability::Cached)
        });
        for write in batch.collect::<Vec<_>>() {
            write.await.expect("written");
        }
        written += depth;
        reactor::yield_now().await;
    }
    let rate = (written * stripe) as f64 / begun.elapsed().as_secs_f64() / 1e9;
    space.maintain_once().await.expect("comes to rest");
    rate
}

/// Copies as much data and parity to memory as the disks have; answers with gigabytes of data a second.
fn copies(disks: &mut [IoBuf], case: Case, turn: Duration) -> f64 {
    let (column, stripe) = (case.interleave.bytes() as usize, case.stripe_bytes());
    let data = IoBuf::zeroed(stripe as usize);
    let (begun, mut written) = (Instant::now(), 0u64);
    while begun.elapsed() < turn {
        let at = (written * column as u64 % SPACE_BYTES) as usize;
        for (index, disk) in disks.iter_mut().enumerate() {
            let from = index % case.data_columns() as usize * column;
            disk[at..at + column].copy_from_slice(&data[from..from + column]);
        }
        written += 1;
    }
    (written * stripe) as f64 / begun.elapsed().as_secs_f64() / 1e9
}

async fn measure(case: Case, rounds: usize, turn: Duration) {
    let space = space_of(case).await;
    let mut disks: Vec<IoBuf> = (0..case.columns).map(|_| IoBuf::zeroed(DISK_BYTES)).collect();
    let depths = [1, 8];
    let (mut ours, mut least) = (vec![Vec::new(); depths.len()], Vec::new());
    for _ in 0..rounds {
        for (taken, depth) in ours.iter_mut().zip(depths) {
            taken.push(stripes(&space, case, depth, turn).await);
        }
        least.push(copies(&mut disks, case, turn));
    }
    let least = median(least);
    for (taken, depth) in ours.into_iter().zip(depths) {
        let rate = median(taken);
        let published =
            if case.parity == 1 && case.columns == 5 { format!("{:.2}", rate / SPDK_RAID5F) } else { "-".into() };
        println!(
            "| {}+{} | {} | {} | {depth} | {rate:.2} | {:.2} | {published} |",
            case.data_columns(),
            case.parity,
            case.interleave,
            if case.integrity == Integrity::None { "none" } else { "crc32c" },
            rate / least,
        );
    }
}

fn main() {
    let quick = text("QUICK").is_some_and(|text| text != "0");
    let (rounds, turn) =
        (number("ROUNDS", if quick { 1 } else { 5 }), Duration::from_millis(if quick { 100 } else { 300 }));
    println!("Whole stripes in process, on disks of memory, one core: medians of {rounds} rounds.");
    println!();
    println!("| data + parity | interleave | checksums | depth | GB/s | to plain copies | to SPDK's raid5f |");
    println!("| --- | ---: | --- | ---: | ---: | ---: | ---: |");
    let cases = [(1, 5), (2, 8)].into_iter().flat_map(|(parity, columns)| {
        [ByteSize::kib(64), ByteSize::kib(256)].into_iter().flat_map(move |interleave| {
            [Integrity::None, Integrity::Crc32c].map(|integrity| Case { parity, columns, interleave, integrity })
        })
    });
    let settings = ReactorSettings { name: "stripes".into(), ..ReactorSettings::default() };
    let measured = reactor::block_on(settings, async {
        for case in cases {
            measure(case, rounds, turn).await;
        }
    });
    measured.expect("the kernel gives a ring");
}
