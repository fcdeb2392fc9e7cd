//! A pool of 1,024 disks and 16 PB with 4,096 spaces that is made, imported, and loses a disk. `HOLDFAST_SCALE_ROWS`
//! says how many rows it has.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::COUNTING;
use crate::common::*;
use crate::disks::{candidates, put_checkpoint, sharing_disks};
use holdfast_model::{ByteSize, DiskState, Integrity, Layout, Provisioning, Shape, Uuid};
use holdfast_pool::{Change, Config, Limit, Pool, RowRecord, SlabPlace, SpaceRecord, SpaceSpec, UNIT_BYTES, scan};

const MANY_DISKS: usize = 1024;
const LARGE_DISK_BYTES: u64 = 16_000_000_000_000 / 4096 * 4096;
const CHUNK_BYTES: u64 = 256 << 20;
const SPACES: u32 = 4096;
const ROWS: u32 = 64 * SPACES;

/// Spaces besides the first, and rows of all of them in turns, on two disks each that are different ones every time.
fn populate(config: &mut Config, first: &SpaceRecord, rows: u32) {
    let first = SpaceRecord { chunk_bytes: CHUNK_BYTES, ..first.clone() };
    config.apply(&Change::Space(first.clone())).expect("it has no rows yet");
    // The number after the first was used.
    let numbers = |at: u32| if at == 0 { first.id } else { first.id + 1 + at };
    for id in (1..SPACES).map(numbers) {
        let name = named(&format!("vm{id}"));
        let space = SpaceRecord { id, uuid: Uuid::from_u128(id.into()), name, ..first.clone() };
        config.apply(&Change::Space(space)).expect("a new space");
    }
    let slab_units = ((CHUNK_BYTES + (64 << 10)) >> 16) as u32;
    // The log of what is there already gave units away and took them back: all are free.
    let mut next_unit = vec![0; MANY_DISKS];
    for row in 0..rows {
        let disks = [row as usize % MANY_DISKS, (row as usize * 7 + row as usize / MANY_DISKS * 13 + 1) % MANY_DISKS];
        let disks = if disks[0] == disks[1] { [disks[0], (disks[0] + 1) % MANY_DISKS] } else { disks };
        let slabs = disks.map(|disk| {
            let unit = next_unit[disk];
            next_unit[disk] += slab_units;
            SlabPlace::new(disk as u16, unit)
        });
        let record =
            RowRecord { id: u64::from(row) + 1, shape: first.shape, slab_units, begun: true, slabs: Box::new(slabs) };
        let change = Change::Row { space: numbers(row % SPACES), chunk: row / SPACES, row: record };
        config.apply(&change).expect("free units");
    }
}

#[test]
fn a_disk_of_1024_is_lost_and_its_rebuild_is_planned() {
    let _alone = crate::alone();
    let rows = std::env::var("HOLDFAST_SCALE_ROWS").map_or(ROWS, |text| text.parse().expect("a number of rows"));
    let lab = Lab::new(3, &[]);
    let disks = sharing_disks(MANY_DISKS, LARGE_DISK_BYTES);
    let start = Instant::now();
    let pool = lab.run(Pool::create(lab.env(), named("vast"), candidates(&disks))).expect("good disks");
    eprintln!("create: {:?}", start.elapsed());
    let start = Instant::now();
    let space = lab.space(&pool, spec("vm", mirror_of(2), 1, Provisioning::Thin, 1 << 40)).expect("thin");
    eprintln!("a thin space: {:?}", start.elapsed());
    let start = Instant::now();
    let fixed = lab.space(&pool, spec("fixed", parity_of(2), 18, Provisioning::Fixed, 1 << 40)).expect("room");
    eprintln!("a fixed space of {} rows of 18: {:?}", pool.row_count(fixed.id), start.elapsed());
    let start = Instant::now();
    let gone = pool.clone();
    lab.run(async move { gone.destroy_space(fixed.id).await }).expect("it is there");
    eprintln!("destroyed: {:?}", start.elapsed());
    drop(pool);

    let mut found = lab.run(scan(candidates(&disks))).pools.remove(0);
    populate(&mut found.config, &space, rows);
    let payload_bytes = put_checkpoint(&found);
    drop(found);
    COUNTING.reset_peak_usage();
    let before = COUNTING.current_usage();
    let start = Instant::now();
    let found = lab.run(scan(candidates(&disks))).pools.remove(0);
    let scanned = start.elapsed();
    let pool = lab.run(Pool::import(lab.env(), found, false)).expect("all disks are here");
    let used = COUNTING.current_usage().saturating_sub(before);
    eprintln!(
        "{rows} rows, map of {}: scan {scanned:?}, import {:?}, peak memory {}, afterwards {}",
        ByteSize(payload_bytes),
        start.elapsed() - scanned,
        ByteSize((COUNTING.peak_usage() - before) as u64),
        ByteSize(used as u64)
    );
    assert_eq!(pool.spaces().len(), SPACES as usize);
    // The disks keep the checkpoint that the import wrote, in memory once for all of them.
    assert!(used as u64 <= (96 << 20) + payload_bytes + 400 * u64::from(rows), "{used} bytes for {rows} rows");

    let lost = 17u16;
    let start = Instant::now();
    let out = pool.clone();
    lab.run(async move { out.disk_out(lost, DiskState::Missing, "pulled").await }).expect("a quorum is there");
    let noted = start.elapsed();
    let start = Instant::now();
    let mut slabs = 0;
    let mut by_disk: BTreeMap<u16, u64> = BTreeMap::new();
    for space in pool.spaces() {
        for (chunk, index) in pool.lost_slabs(space.id) {
            let row = pool.row(space.id, chunk).expect("a row of the plan");
            slabs += 1;
            for other in row.shape.group(index).filter(|other| *other != index) {
                *by_disk.entry(row.slabs[other].disk()).or_default() += u64::from(row.slab_units) * UNIT_BYTES;
            }
        }
    }
    let bytes: u64 = by_disk.values().sum();
    let most = by_disk.values().max().copied().unwrap_or(0);
    eprintln!(
        "disk lost: noted in {noted:?}; {slabs} slabs, {} to be read from {} disks, at most {} from one: planned in {:?}",
        ByteSize(bytes),
        by_disk.len(),
        ByteSize(most),
        start.elapsed()
    );
    assert!(slabs >= u64::from(rows) / MANY_DISKS as u64, "{slabs} slabs of {rows} rows");
    let start = Instant::now();
    let status = pool.status();
    eprintln!("its state is shown in {:?}", start.elapsed());
    assert_eq!(status.conditions.len(), 1, "{:?}", status.conditions);
    let (start, more) = (Instant::now(), 100);
    for chunk in 0..more {
        lab.row(&pool, space.id, 3000 + chunk).expect("room");
    }
    eprintln!("{:?} for one more row", start.elapsed() / more);
}

/// The shapes that spaces have whose creator leaves all open.
fn default_shapes(disks: usize) -> Vec<Shape> {
    let layouts = [Layout::Simple, mirror_of(2), mirror_of(3), parity_of(1), parity_of(2)];
    let shape =
        |layout| Shape::choose(layout, None, None, disks).expect("enough disks").with_integrity(Integrity::Crc32c);
    layouts.into_iter().map(shape).collect()
}

#[test]
fn a_pool_of_16_pb_can_be_filled() {
    let _beside_others = crate::beside_others();
    let lab = Lab::new(4, &[]);
    let disks = sharing_disks(MANY_DISKS, LARGE_DISK_BYTES);
    let pool = lab.run(Pool::create(lab.env(), named("vast"), candidates(&disks))).expect("good disks");
    let free = pool.status().free_bytes;
    for shape in default_shapes(MANY_DISKS) {
        let capacity = pool.capacity(&shape, None, false).expect("room");
        eprintln!(
            "{shape}: {} in {} rows of {}, {} left over",
            ByteSize(capacity.usable_bytes()),
            capacity.rows,
            ByteSize(capacity.chunk_bytes),
            ByteSize(capacity.unused_bytes)
        );
        assert_eq!(capacity.limit, Limit::Room, "{shape}");
        assert_eq!(capacity.raw_bytes + capacity.unused_bytes, free, "{shape}");
        assert!(capacity.unused_bytes <= free / 50, "{shape}: {} cannot be used", ByteSize(capacity.unused_bytes));
        let heads_and_sums =
            capacity.raw_bytes - capacity.usable_bytes() * shape.width() as u64 / u64::from(shape.data_columns());
        assert!(heads_and_sums <= free / 20, "{shape}: {} are no data", ByteSize(heads_and_sums));
    }
    // A small space has small rows nevertheless.
    for shape in default_shapes(MANY_DISKS) {
        let small = SpaceSpec { shape, ..spec("small", shape.layout, 1, Provisioning::Thin, 64 << 30) };
        let space = lab.space(&pool, small).expect("thin");
        assert!(space.chunk_bytes <= 64 << 30, "{shape}: chunks of {}", ByteSize(space.chunk_bytes));
        let (pool, id) = (pool.clone(), space.id);
        lab.run(async move { pool.destroy_space(id).await }).expect("it is there");
    }
}

/// On small disks the map is as scarce for rows of many slabs as it is on large ones, and they can be filled
/// throughout.
#[test]
fn a_pool_whose_map_is_scarce_is_filled_to_its_last_rows() {
    let _beside_others = crate::beside_others();
    const DISKS: usize = 256;
    for layout in [Layout::Simple, mirror_of(2), mirror_of(3), parity_of(2)] {
        let lab = Lab::new(5, &[]);
        let disks = sharing_disks(DISKS, 2 << 30);
        let pool = lab.run(Pool::create(lab.env(), named("scarce"), candidates(&disks))).expect("good disks");
        let shape = Shape::choose(layout, None, None, DISKS).expect("enough disks");
        let (mut made, all) = (0, pool.status().free_bytes);
        while let Ok(capacity) = pool.capacity(&shape, None, false) {
            assert_ne!(capacity.limit, Limit::Map, "{shape}: {capacity:?}");
            // Half of what is left each time, and at last all of it.
            let rows = if made < 6 { capacity.rows.div_ceil(2) } else { capacity.rows };
            let name = format!("vol{made}");
            let sized = SpaceSpec { shape, ..spec(&name, layout, 1, Provisioning::Fixed, rows * capacity.chunk_bytes) };
            lab.space(&pool, sized).unwrap_or_else(|error| panic!("{shape}: {capacity:?}: {error}"));
            made += 1;
        }
        let left = pool.status().free_bytes;
        assert!(made > 6 && left <= all / 20, "{shape}: {} of {} are left", ByteSize(left), ByteSize(all));
        check_allotment(&pool);
    }
}
