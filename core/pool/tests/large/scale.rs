//! A pool of 240 disks and 480 TB, full of two-way mirrors: what it costs in memory, in time to import, and in bytes
//! written for one more row.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::COUNTING;
use crate::common::*;
use crate::disks::{candidates, put_checkpoint, sharing_disks};
use holdfast_model::{ByteSize, Provisioning};
use holdfast_pool::{Area, Change, Config, Pool, RowRecord, SlabPlace, scan};

const DISKS: usize = 240;
const DISK_BYTES: u64 = 2_000_000_000_000 / 4096 * 4096;
const CHUNK_BYTES: u64 = 256 << 20;

/// Fills all disks but the last GB of each with mirrors, two disks at a time.
fn fill(config: &mut Config, space: u32, shape: holdfast_model::Shape) -> u32 {
    let units = Area::of_disk("", DISK_BYTES).expect("a good size").units();
    let slab_units = ((CHUNK_BYTES + (64 << 10)) >> 16) as u32;
    let per_disk = units / slab_units - 4;
    let mut chunk = 0;
    for slot in 0..per_disk {
        for pair in 0..DISKS as u16 / 2 {
            let slabs = [2 * pair, 2 * pair + 1].map(|disk| SlabPlace::new(disk, slot * slab_units));
            let row = RowRecord { id: u64::from(chunk) + 1, shape, slab_units, begun: true, slabs: Box::new(slabs) };
            config.apply(&Change::Row { space, chunk, row }).expect("free units");
            chunk += 1;
        }
    }
    chunk
}

#[test]
fn a_full_pool_of_240_disks_stays_cheap() {
    let _alone = crate::alone();
    let lab = Lab::new(1, &[]);
    let disks = sharing_disks(DISKS, DISK_BYTES);
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

    let payload_bytes = put_checkpoint(&found);
    drop(found);

    COUNTING.reset_peak_usage();
    let before = COUNTING.current_usage();
    let start = Instant::now();
    let found = lab.run(scan(candidates(&disks))).pools.remove(0);
    let scanned = start.elapsed();
    let pool = lab.run(Pool::import(lab.env(), found, false)).expect("all disks are here");
    eprintln!(
        "scan {scanned:?}, import {:?}, map of {}, peak memory {}, afterwards {}",
        start.elapsed() - scanned,
        ByteSize(payload_bytes),
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
    let _beside_others = crate::beside_others();
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
    // A record and the block that ends the log, and now and then a checkpoint of a few rows.
    assert!(costs.iter().all(|cost| *cost <= 10_240), "{costs:?}");
}
