//! Rows spread over enclosures: what the loss of one leaves, and what no pool can bear.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::*;
use holdfast_model::{ByteSize, DiskState, Layout, Media, Place, Provisioning, Shape, Usage};
use holdfast_pool::{Candidate, DiskChange, Pool, PoolErrorKind, RowRecord, SpaceSpec, scan};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A machine with disks of these sizes, in MiB, by enclosure.
fn machine(seed: u64, enclosures: &[&[u64]]) -> (Lab, Arc<Pool>) {
    let sizes: Vec<u64> = enclosures.iter().flat_map(|sizes| sizes.iter()).map(|size| size * MIB).collect();
    let lab = Lab::new(seed, &sizes);
    let places = enclosures.iter().enumerate().flat_map(|(enclosure, sizes)| {
        (0..sizes.len() as u32).map(move |slot| Place { enclosure: format!("shelf{enclosure}"), slot })
    });
    let placed = |(candidate, place): (Candidate, Place)| {
        let info = holdfast_pool::DiskInfo { place: Some(place), ..candidate.info };
        Candidate { info, ..candidate }
    };
    let candidates = lab.candidates(&lab.all()).into_iter().zip(places).map(placed).collect();
    let pool = lab.run(Pool::create(lab.env(), named("tank"), candidates)).expect("a pool of good disks");
    (lab, pool)
}

fn shape(layout: Layout, columns: u16) -> Shape {
    Shape::plain(layout, columns, ByteSize::kib(64))
}

fn aware(shape: Shape, provisioning: Provisioning, size_bytes: u64) -> SpaceSpec {
    SpaceSpec { name: named("vol"), shape, provisioning, size_bytes, journal_bytes: None, enclosure_aware: true }
}

fn enclosures(pool: &Pool) -> BTreeMap<u16, String> {
    let place = |place: Option<Place>| place.map(|place| place.enclosure).unwrap_or_default();
    pool.disks().into_iter().map(|disk| (disk.record.index, place(disk.record.place))).collect()
}

/// The most slabs that back each other on disks of one enclosure.
fn most_together(pool: &Pool, row: &RowRecord) -> usize {
    let enclosures = enclosures(pool);
    let group = |group: &[holdfast_pool::SlabPlace]| {
        let mut count: BTreeMap<&String, usize> = BTreeMap::new();
        group.iter().for_each(|slab| *count.entry(&enclosures[&slab.disk()]).or_default() += 1);
        count.into_values().max().expect("not empty")
    };
    row.slabs.chunks(row.shape.group(0).len()).map(group).max().expect("not empty")
}

fn check_spread(pool: &Pool, context: &str) {
    check_allotment(pool);
    for (chunk, row) in all_rows(pool, pool.spaces()[0].id) {
        let losses = usize::from(row.shape.layout.tolerates());
        assert!(most_together(pool, &row) <= losses, "{context}: chunk {chunk} of {}: {:?}", row.shape, row.slabs);
    }
}

fn out(lab: &Lab, pool: &Arc<Pool>, enclosure: &str) {
    for (disk, _) in enclosures(pool).into_iter().filter(|(_, name)| name == enclosure) {
        let pool = pool.clone();
        lab.run(async move { pool.disk_out(disk, DiskState::Missing, "its enclosure is gone").await })
            .expect("a quorum is left");
    }
}

/// Candidates of all disks, whose enclosure tells that they sit in it.
fn reported(lab: &Lab, enclosure: &str) -> Vec<Candidate> {
    let reported = |(slot, candidate): (usize, Candidate)| {
        let place = Some(Place { enclosure: enclosure.into(), slot: slot as u32 });
        Candidate { info: holdfast_pool::DiskInfo { place, ..candidate.info }, ..candidate }
    };
    lab.candidates(&lab.all()).into_iter().enumerate().map(reported).collect()
}

#[test]
fn a_place_that_an_enclosure_tells_counts_unless_one_was_set() {
    let lab = Lab::small(7, 3);
    let pool = lab.created(&lab.all());
    let id = pool.disks()[0].record.id;
    let by_hand = DiskChange { place: Some(Place { enclosure: "rack".into(), slot: 9 }), ..DiskChange::default() };
    let set = pool.clone();
    assert!(lab.run(async move { set.set_disk(id, by_hand).await }).expect("it can be set"));
    lab.kill(pool);
    let candidates = reported(&lab, "shelf");
    let found = lab.run(scan(candidates)).pools.remove(0);
    let pool = lab.run(Pool::import(lab.env(), found, false)).expect("all disks are there");
    let places: Vec<_> = pool.disks().into_iter().filter_map(|disk| disk.record.place).collect();
    assert_eq!(
        places.iter().map(|place| (place.enclosure.as_str(), place.slot)).collect::<Vec<_>>(),
        [("rack", 9), ("shelf", 1), ("shelf", 2)]
    );
}

#[test]
fn no_enclosure_holds_more_of_a_row_than_may_be_lost() {
    let layouts = [mirror_of(2), mirror_of(3), parity_of(1), parity_of(2)];
    let mut made = BTreeMap::<String, u32>::new();
    for seed in 0..250 {
        let mut random = SmallRng::seed_from_u64(seed);
        let sizes: Vec<Vec<u64>> = (0..random.random_range(1..6))
            .map(|_| (0..random.random_range(1..5)).map(|_| 64 * random.random_range(1..4)).collect())
            .collect();
        let slices: Vec<&[u64]> = sizes.iter().map(Vec::as_slice).collect();
        let (lab, pool) = machine(seed, &slices);
        let layout = layouts[random.random_range(0..4)];
        let columns = layout.least_columns() + random.random_range(0..3);
        let shape = shape(layout, columns);
        let disks: usize = sizes.iter().map(Vec::len).sum();
        if disks < shape.width() {
            continue;
        }
        let groups = shape.width() / shape.group(0).len();
        let most = usize::from(layout.tolerates()) * groups;
        let bears = sizes.iter().map(|sizes| sizes.len().min(most)).sum::<usize>() >= shape.width();
        let context = format!("seed {seed}: {shape} on {sizes:?}");
        let capacity = pool.capacity(&shape, None, true);
        assert_eq!(capacity.is_ok(), bears, "{context}: {capacity:?}");
        let Ok(capacity) = capacity else {
            let refused = lab.space(&pool, aware(shape, Provisioning::Thin, MIB)).expect_err("it cannot be borne");
            assert!(refused.context.contains("the loss of an enclosure"), "{refused}");
            continue;
        };
        let more = aware(shape, Provisioning::Fixed, capacity.usable_bytes() + 4096);
        assert_eq!(lab.space(&pool, more).expect_err("a row more").kind, PoolErrorKind::NoSpace, "{context}");
        // The journal may come to lie on other disks, whose turn it is by now.
        let capacity = pool.capacity(&shape, None, true).expect("as before");
        let all = aware(shape, Provisioning::Fixed, capacity.usable_bytes());
        let record = lab.space(&pool, all).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(record.enclosure_aware);
        check_spread(&pool, &context);
        *made.entry(layout.to_string()).or_default() += 1;
    }
    assert!(made.len() == 4 && made.values().all(|made| *made > 10), "{made:?}");
}

#[test]
fn copies_are_spread_as_evenly_as_enclosures_allow() {
    for (enclosures, most) in [(vec![[64; 3].as_slice(); 3], 1), (vec![[64; 3].as_slice(); 2], 2)] {
        let (lab, pool) = machine(1, &enclosures);
        let id = lab.space(&pool, aware(shape(mirror_of(3), 1), Provisioning::Thin, 16 * MIB)).expect("it is borne").id;
        for chunk in 0..8 {
            assert_eq!(most_together(&pool, &lab.row(&pool, id, chunk).expect("room is there")), most);
        }
    }
}

#[test]
fn rows_go_on_with_an_enclosure_out_and_are_spread_when_it_is_back() {
    let shapes = [
        shape(mirror_of(2), 2),
        shape(mirror_of(3), 1),
        shape(mirror_of(3), 2),
        shape(parity_of(1), 3),
        shape(parity_of(2), 6),
    ];
    for (seed, shape) in shapes.into_iter().enumerate() {
        let (lab, pool) = machine(seed as u64, &[[96; 4].as_slice(); 3]);
        let id = lab.space(&pool, aware(shape, Provisioning::Thin, 64 * MIB)).expect("it is borne").id;
        lab.row(&pool, id, 0).expect("room is there");
        out(&lab, &pool, "shelf1");
        for chunk in 1..6 {
            let row = lab.row(&pool, id, chunk).unwrap_or_else(|error| panic!("{shape}: {error}"));
            assert!(most_together(&pool, &row) <= usize::from(shape.layout.tolerates()), "{shape}: {:?}", row.slabs);
        }
        check_spread(&pool, &shape.to_string());
        let (all, kept) = (lab.all(), pool.spaces());
        lab.kill(pool);
        assert_eq!(lab.imported(&all).spaces(), kept, "that it is spread is remembered");
    }
}

#[test]
fn a_refusal_says_what_is_there_and_what_is_needed() {
    let (lab, pool) = machine(2, &[&[64, 64], &[64, 64, 64]]);
    for (shape, needed) in [
        (shape(Layout::Simple, 2), "choose a mirror or parity"),
        (
            shape(parity_of(1), 4),
            "needs 4 disks in at least 4 enclosures, at most 1 of each; the pool has 2 in enclosure shelf0, 3 in enclosure shelf1",
        ),
        (shape(parity_of(2), 5), "needs 5 disks in at least 3 enclosures, at most 2 of each"),
    ] {
        let error = lab.space(&pool, aware(shape, Provisioning::Thin, MIB)).expect_err("it cannot be borne");
        assert!(error.context.contains(needed) && error.kind == PoolErrorKind::Invalid, "{error}");
        assert!(pool.capacity(&shape, None, true).is_err());
    }
    // Where disks are is not known: they count as one enclosure.
    let blind = Lab::small(3, 6);
    let pool = blind.created(&blind.all());
    let error = blind.space(&pool, aware(shape(mirror_of(2), 1), Provisioning::Thin, MIB)).expect_err("one enclosure");
    assert!(error.context.contains("the pool has 6 in no known enclosure"), "{error}");
}

#[test]
fn a_journal_is_spread_even_if_fast_disks_are_in_one_enclosure() {
    let (lab, pool) = machine(4, &[&[96, 96, 96], &[96, 96, 96], &[96, 96, 96]]);
    let shelves = enclosures(&pool);
    for disk in pool.disks() {
        let media = if shelves[&disk.record.index] == "shelf0" { Media::Ssd } else { Media::Hdd };
        let change = DiskChange { media: Some(media), usage: Some(Usage::Auto), place: None };
        let pool = pool.clone();
        lab.run(async move { pool.set_disk(disk.record.id, change).await }).expect("a member");
    }
    for (parity, columns) in [(1, 3), (2, 6)] {
        let id = lab
            .space(&pool, aware(shape(parity_of(parity), columns), Provisioning::Thin, 16 * MIB))
            .expect("it is borne")
            .id;
        check_spread(&pool, "journal");
        let resized = pool.clone();
        let freed = lab.run(async move { resized.replace_journal(id, Some(40 * MIB)).await }).expect("it fits");
        assert!(freed.is_some());
        drop(freed);
        check_spread(&pool, "another journal");
        let destroyed = pool.clone();
        lab.run(async move { destroyed.destroy_space(id).await }).expect("nobody uses it");
    }
}
