//! A pool of 240 disks and 480 TB, full of two-way mirrors: what it costs in memory, in time to import, and in bytes
//! written for one more row.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::*;
use holdfast_device::{Device, Durability, Geometry, Io, IoBuf, IoSlice};
use holdfast_model::{ByteSize, Provisioning};
use holdfast_pool::frame::{Frame, Kind};
use holdfast_pool::{Area, Candidate, Change, Config, DiskInfo, Pool, Position, RowRecord, SlabPlace, scan};
use peak_alloc::PeakAlloc;

/// Counts what is allocated now and at most.
#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

const DISKS: usize = 240;
const DISK_BYTES: u64 = 2_000_000_000_000 / 4096 * 4096;
const CHUNK_BYTES: u64 = 256 << 20;

/// A disk that keeps what it is handed by reference, so that equal metadata of many disks is in memory once.
struct SharingDisk {
    blocks: Mutex<BTreeMap<u64, (IoSlice, usize)>>,
    written: AtomicU64,
}

impl Device for SharingDisk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: DISK_BYTES,
            logical_sector_bytes: 512,
            physical_sector_bytes: 4096,
            rotational: true,
            discard: false,
        }
    }

    fn read(&self, offset: u64, mut buf: IoBuf) -> Io<IoBuf> {
        let blocks = self.blocks.lock().expect("no panic while held");
        for (at, block) in buf.chunks_mut(4096).enumerate() {
            match blocks.get(&(offset / 4096 + at as u64)) {
                Some((slice, from)) => block.copy_from_slice(&slice[*from..*from + 4096]),
                None => block.fill(0),
            }
        }
        Io::ready(Ok(buf))
    }

    fn write(&self, offset: u64, data: IoSlice, _durability: Durability) -> Io<()> {
        self.written.fetch_add(data.len() as u64, Ordering::Relaxed);
        let mut blocks = self.blocks.lock().expect("no panic while held");
        for from in (0..data.len()).step_by(4096) {
            blocks.insert((offset + from as u64) / 4096, (data.clone(), from));
        }
        Io::ready(Ok(()))
    }

    fn flush(&self) -> Io<()> {
        Io::ready(Ok(()))
    }

    fn discard(&self, _offset: u64, _len: u64) -> Io<()> {
        Io::ready(Ok(()))
    }
}

fn candidates(disks: &[Arc<SharingDisk>]) -> Vec<Candidate> {
    let candidate = |(index, disk): (usize, &Arc<SharingDisk>)| {
        let info = DiskInfo { path: path(index), serial: serial(index), ..DiskInfo::default() };
        Candidate { device: disk.clone(), info }
    };
    disks.iter().enumerate().map(candidate).collect()
}

/// Fills all disks but the last GB of each with mirrors, two disks at a time.
fn fill(config: &mut Config, space: u32, shape: holdfast_model::Shape) -> u32 {
    let units = Area::of_disk("", DISK_BYTES).expect("a good size").units();
    let slab_units = ((CHUNK_BYTES + (64 << 10)) >> 16) as u32;
    let per_disk = units / slab_units - 4;
    let mut chunk = 0;
    for slot in 0..per_disk {
        for pair in 0..DISKS as u16 / 2 {
            let slabs = [2 * pair, 2 * pair + 1].map(|disk| SlabPlace::new(disk, slot * slab_units));
            let row = RowRecord { id: u64::from(chunk) + 1, shape, slab_units, slabs: Box::new(slabs) };
            config.apply(&Change::Row { space, chunk, row }).expect("free units");
            chunk += 1;
        }
    }
    chunk
}

#[test]
fn a_full_pool_of_240_disks_stays_cheap() {
    let lab = Lab::new(1, &[]);
    let fresh = || SharingDisk { blocks: Mutex::default(), written: AtomicU64::new(0) };
    let disks: Vec<Arc<SharingDisk>> = (0..DISKS).map(|_| Arc::new(fresh())).collect();
    let pool = lab.run(Pool::create(lab.env(), named("large"), candidates(&disks))).expect("good disks");
    let space = lab.space(&pool, spec("vm", mirror_of(2), 1, Provisioning::Thin, 300 << 40)).expect("thin");
    assert_eq!(space.chunk_bytes, CHUNK_BYTES);
    drop(pool);

    let mut found = lab.run(scan(candidates(&disks))).pools.remove(0);
    let before = COUNTING.current_usage();
    let rows = fill(&mut found.config, space.id, space.shape);
    let held = COUNTING.current_usage() - before;
    eprintln!("{rows} rows of {}: {} of memory", ByteSize(CHUNK_BYTES), ByteSize(held as u64));
    assert!(u64::from(rows) * 2 * CHUNK_BYTES > 470_000_000_000_000, "480 TB, nearly full");
    assert!(held < 200 << 20, "the slab map takes {held} bytes");

    let payload = found.config.checkpoint();
    let pieces: Vec<IoSlice> = payload.chunks(1 << 20).map(IoSlice::padded).collect();
    let position = Position { sequence: found.position.sequence + 1, ..found.position };
    for member in &found.members {
        let start = member.area.log_half(1);
        let frame = Frame { kind: Kind::Checkpoint, pool: found.id, disk: member.id, offset: start, position, previous: 0 };
        let header = frame.seal_detached(payload.len(), holdfast_model::wire::crc32c(&payload)).freeze();
        let mut at = start;
        for piece in std::iter::once(&header).chain(&pieces) {
            drop(member.candidate.device.write(at, piece.clone(), Durability::Durable));
            at += piece.len() as u64;
        }
    }
    drop((found, pieces));

    COUNTING.reset_peak_usage();
    let before = COUNTING.current_usage();
    let start = Instant::now();
    let found = lab.run(scan(candidates(&disks))).pools.remove(0);
    let scanned = start.elapsed();
    let pool = lab.run(Pool::import(lab.env(), found, false)).expect("all disks are here");
    eprintln!(
        "scan {scanned:?}, import {:?}, map of {}, peak memory {}, afterwards {}",
        start.elapsed() - scanned,
        ByteSize(payload.len() as u64),
        ByteSize((COUNTING.peak_usage() - before) as u64),
        ByteSize((COUNTING.current_usage() - before) as u64)
    );
    assert_eq!(pool.row_count(space.id), rows as usize);

    let written = || disks.iter().map(|disk| disk.written.load(Ordering::Relaxed)).max().unwrap_or(0);
    let (start, first) = (Instant::now(), written());
    for more in 0..100 {
        let row = lab.row(&pool, space.id, rows + more).expect("some room is left");
        assert_ne!(row.slabs[0].disk(), row.slabs[1].disk());
    }
    let each = (written() - first) / 100;
    eprintln!("{each} bytes on each disk and {:?} for one row", start.elapsed() / 100);
    assert!(each <= 8192, "{each} bytes for one row");
}

#[test]
fn what_a_row_costs_does_not_grow_with_the_map() {
    let lab = Lab::new(2, &[8 << 30; 4]);
    let pool = lab.created(&lab.all());
    let space = lab.space(&pool, spec("vm", mirror_of(2), 1, Provisioning::Thin, 8 << 30)).expect("thin");
    let (disks, mut next) = (lab.disks.clone(), 0);
    let mut cost = |rows: u32| {
        let written = || disks.iter().map(|disk| disk.counters().bytes_written).max().unwrap_or(0);
        let before = written();
        (next..next + rows).for_each(|chunk| drop(lab.row(&pool, space.id, chunk).expect("room")));
        next += rows;
        (written() - before) / u64::from(rows)
    };
    let costs = [cost(20), cost(20), cost(20), cost(20)];
    eprintln!("bytes on each disk for one row, with 0, 20, 40 and 60 rows before: {costs:?}");
    assert!(costs.iter().all(|cost| *cost <= 8192), "{costs:?}");
}
