//! Parity spaces of a pool: rows that lose disks, and journals made, found again and replaced.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::*;
use holdfast_model::{ByteSize, DiskState, Layout, Media, Provisioning, Shape, Usage, Uuid};
use holdfast_pool::{
    Change, Config, DiskChange, DiskRecord, FreedRow, JOURNAL_CHUNK, Pool, PoolError, PoolErrorKind, Position,
    RowRecord, SlabPlace, SpaceRecord, SpaceSpec, slab,
};
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

fn thin(name: &str, parity: u8, columns: u16) -> SpaceSpec {
    spec(name, parity_of(parity), columns, Provisioning::Thin, 64 * MIB)
}

fn replace(lab: &Lab, pool: &Arc<Pool>, space: u32, bytes: u64) -> Result<Option<Vec<FreedRow>>, PoolError> {
    let pool = pool.clone();
    lab.run(async move { pool.replace_journal(space, Some(bytes)).await })
}

fn set(lab: &Lab, pool: &Arc<Pool>, disk: u16, media: Media, usage: Usage) {
    let id = pool.disk(disk).expect("a member").id;
    let change = DiskChange { media: Some(media), usage: Some(usage), place: None };
    let pool = pool.clone();
    lab.run(async move { pool.set_disk(id, change).await }).expect("a quorum");
}

fn out(lab: &Lab, pool: &Arc<Pool>, disk: u16) {
    let pool = pool.clone();
    lab.run(async move { pool.disk_out(disk, DiskState::Missing, "pulled").await }).expect("a quorum");
}

fn journal_disks(pool: &Pool, space: u32) -> BTreeSet<u16> {
    pool.journal_rows(space)
        .iter()
        .flat_map(|(_, row)| row.slabs.iter().map(|slab| slab.disk()).collect::<Vec<_>>())
        .collect()
}

#[test]
fn a_space_has_its_journal_from_the_first_and_keeps_it_apart() {
    for (disks, parity, columns, journal_columns) in [(3, 1, 3, 1), (5, 1, 4, 2), (4, 2, 4, 1), (7, 2, 7, 2)] {
        let lab = Lab::small(1, disks);
        let pool = lab.created(&lab.all());
        // A sixteenth of what a disk of 64 MiB holds, in whole stripes, or an eighth of the space and 1 MiB at least.
        let kinds =
            [(Provisioning::Thin, 64 * MIB, journal_columns, 14 * (256 << 10)), (Provisioning::Fixed, 8 * MIB, 1, MIB)];
        for (provisioning, size_bytes, journal_columns, slab_bytes) in kinds {
            let name = format!("vol-{}", size_bytes / MIB);
            let space =
                lab.space(&pool, spec(&name, parity_of(parity), columns, provisioning, size_bytes)).expect("it fits");
            let journal = pool.journal_rows(space.id);
            assert_eq!(journal.iter().map(|(chunk, _)| *chunk).collect::<Vec<_>>(), [JOURNAL_CHUNK]);
            let shape = journal[0].1.shape;
            assert_eq!((shape.layout, shape.columns), (mirror_of(parity + 1), journal_columns), "{disks} disks");
            assert_eq!(journal[0].1.slab_data_bytes(), slab_bytes);
            assert_eq!(pool.journal_bytes(space.id), u64::from(journal_columns) * slab_bytes);
            let data = if provisioning == Provisioning::Fixed { space.chunks() as usize } else { 0 };
            assert_eq!((pool.rows(space.id).len(), pool.row_count(space.id)), (data, data));
            assert_eq!(pool.chunks_from(space.id, 0, usize::MAX).len(), data);
            assert_eq!(pool.chunks_from(space.id, u32::MAX, 1), [0u32; 0]);
            assert_eq!(pool.row(space.id, JOURNAL_CHUNK), Some(journal[0].1.clone()));
            let (shared, id) = (pool.clone(), space.id);
            let error =
                lab.run(async move { shared.free_row(id, JOURNAL_CHUNK).await.map(drop) }).expect_err("a journal");
            assert_eq!(error.kind, PoolErrorKind::Invalid);
            let error = lab.row(&pool, id, JOURNAL_CHUNK + 1).expect_err("no chunk of data");
            assert_eq!(error.kind, PoolErrorKind::Invalid);
        }
        check_allotment(&pool);
        let before = snapshot(&pool);
        lab.kill(pool);
        let pool = lab.imported(&lab.all());
        assert_eq!(snapshot(&pool), before);
        for space in pool.spaces() {
            let shared = pool.clone();
            lab.run(async move { shared.destroy_space(space.id).await }).expect("nobody uses it");
        }
        assert_eq!(pool.status().free_bytes, pool.status().data_bytes);
    }
}

#[test]
fn a_journal_lies_on_the_disks_that_are_meant_for_it() {
    use Media::{Hdd, Ssd};
    use Usage::{Auto, Journal};
    type Case<'a> = (&'a [(Media, Usage)], u8, &'a [u16]);
    let cases: [Case<'_>; 8] = [
        (&[(Hdd, Auto); 3], 1, &[0, 1]),
        (&[(Ssd, Auto); 3], 1, &[0, 1]),
        (&[(Hdd, Auto), (Hdd, Auto), (Hdd, Auto), (Ssd, Auto), (Ssd, Auto)], 1, &[3, 4]),
        (&[(Hdd, Auto), (Hdd, Auto), (Hdd, Auto), (Ssd, Journal), (Ssd, Journal), (Ssd, Auto)], 1, &[3, 4]),
        (&[(Hdd, Auto), (Hdd, Auto), (Hdd, Auto), (Ssd, Journal)], 1, &[0, 1]),
        (&[(Hdd, Auto), (Hdd, Auto), (Hdd, Auto), (Hdd, Auto), (Ssd, Journal), (Ssd, Auto)], 2, &[0, 4, 5]),
        (&[(Hdd, Auto), (Hdd, Auto), (Hdd, Auto), (Hdd, Auto), (Ssd, Auto)], 2, &[0, 1, 2]),
        (&[(Hdd, Auto), (Hdd, Auto), (Hdd, Auto), (Hdd, Auto), (Ssd, Auto), (Ssd, Auto), (Ssd, Auto)], 2, &[4, 5, 6]),
    ];
    for (disks, parity, expected) in cases {
        // The first disks are the largest, so that the choice among equals is known.
        let sizes: Vec<u64> = (0..disks.len() as u64).map(|disk| GIB - disk * 16 * MIB).collect();
        let lab = Lab::new(2, &sizes);
        let pool = lab.created(&lab.all());
        for (disk, (media, usage)) in disks.iter().enumerate() {
            set(&lab, &pool, disk as u16, *media, *usage);
        }
        let columns = parity_of(parity).least_columns();
        let large = SpaceSpec { size_bytes: GIB, ..thin("vol", parity, columns) };
        let space = lab.space(&pool, large).unwrap_or_else(|error| panic!("{disks:?}: {error}"));
        assert_eq!(journal_disks(&pool, space.id), expected.iter().copied().collect(), "{disks:?}");
        let fast = disks.iter().any(|disk| *disk != (Hdd, Auto));
        let journal = pool.journal_bytes(space.id);
        assert!(if fast { journal > 32 * MIB } else { journal == 32 * MIB }, "{disks:?}: {journal}");
        let row = lab.row(&pool, space.id, 0).expect("room");
        for slab in &row.slabs {
            assert_ne!(disks[usize::from(slab.disk())].1, Journal, "data on a journal disk");
        }
    }
}

#[test]
fn default_journals_leave_room_for_data_and_more_spaces() {
    for (media, size_bytes) in [(Media::Hdd, 4 * MIB), (Media::Ssd, 4 * MIB), (Media::Ssd, 1 << 40)] {
        let lab = Lab::new(9, &[256 * MIB; 64]);
        let pool = lab.created(&lab.all());
        for disk in 0..64 {
            set(&lab, &pool, disk, media, Usage::Auto);
        }
        for number in 0..285 {
            let small = SpaceSpec { size_bytes, ..thin(&format!("s{number}"), 1, 3) };
            let space = lab.space(&pool, small).unwrap_or_else(|error| panic!("{media:?}, {size_bytes}: {error}"));
            let journal = pool.journal_bytes(space.id);
            assert!(journal >= MIB && journal <= (size_bytes / 8).max(MIB), "{number}: {journal}");
        }
        let room = pool.room_use();
        let most = if size_bytes == 4 * MIB { room.data_bytes / 16 } else { room.data_bytes / 3 };
        assert!(room.used_bytes <= most, "{media:?}, {size_bytes}: {} of {}", room.used_bytes, room.data_bytes);
        let more = lab.space(&pool, SpaceSpec { size_bytes: GIB, ..thin("more", 2, 7) }).expect("room for one more").id;
        for chunk in 0..4 {
            lab.row(&pool, more, chunk).expect("room for its data");
        }
        check_allotment(&pool);
    }
}

#[test]
fn a_journal_that_does_not_fit_is_refused_with_what_it_takes() {
    let lab = Lab::small(10, 3);
    let pool = lab.created(&lab.all());
    let error = lab.space(&pool, SpaceSpec { journal_bytes: Some(GIB), ..thin("vol", 1, 3) }).expect_err("no room");
    assert!(error.kind == PoolErrorKind::NoSpace && error.parameter == Some("journal_bytes"), "{error}");
    assert!(error.context.contains("a journal of 1 GiB in 2 copies, each on other disks, does not fit"), "{error}");
    for disk in 0..3 {
        set(&lab, &pool, disk, Media::Ssd, Usage::Auto);
    }
    // Nothing is free but parts of a disk too small for a slab.
    let simple = lab.space(&pool, spec("all", Layout::Simple, 1, Provisioning::Thin, GIB)).expect("thin").id;
    assert!((0..1000).any(|chunk| lab.row(&pool, simple, chunk).is_err()), "the pool is full");
    let error = lab.space(&pool, thin("vol", 1, 3)).expect_err("no room");
    assert!(error.kind == PoolErrorKind::NoSpace && error.parameter.is_none(), "{error}");
    assert!(error.context.contains("even the smallest takes 1 MiB on each of 2 disks"), "{error}");
}

#[test]
fn a_journal_is_replaced_as_a_whole() {
    let lab = Lab::new(3, &[4 * GIB; 4]);
    let pool = lab.created(&lab.all());
    let space = lab.space(&pool, SpaceSpec { journal_bytes: Some(32 * MIB), ..thin("vol", 1, 3) }).expect("it fits").id;
    assert_eq!(pool.journal_bytes(space), 32 * MIB);
    assert!(replace(&lab, &pool, space, 32 * MIB).expect("allowed").is_none());
    assert!(pool.has_journal_of(space, Some(32 * MIB)) && pool.has_journal_of(space, Some(32 * MIB - 1)));
    assert!(
        !pool.has_journal_of(space, Some(32 * MIB + 1))
            && !pool.has_journal_of(space, Some(32 * MIB - 2 * (256 << 10)))
    );
    let old = pool.journal_rows(space);
    let freed = replace(&lab, &pool, space, 3 * GIB).expect("room").expect("another size");
    assert_eq!((freed.len(), pool.journal_bytes(space)), (1, 3 * GIB));
    let new = pool.journal_rows(space);
    assert_eq!(new.iter().map(|(chunk, _)| chunk - JOURNAL_CHUNK).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert!(new.iter().all(|(_, row)| (row.shape, row.slab_units) == (new[0].1.shape, new[0].1.slab_units)));
    let held = pool.status().free_bytes;
    drop(freed);
    let slabs = u64::from(old[0].1.slab_units) * holdfast_pool::UNIT_BYTES * old[0].1.slabs.len() as u64;
    assert_eq!(pool.status().free_bytes, held + slabs);
    for bytes in [2 * GIB, 5 * GIB] {
        drop(replace(&lab, &pool, space, bytes).expect("room").expect("another size"));
        check_allotment(&pool);
        assert_eq!((pool.journal_bytes(space), pool.journal_rows(space)[0].1.shape.columns), (bytes, 2));
    }
    let before = snapshot(&pool);
    for bytes in [0, 32 * MIB - 4096, 101 * GIB, u64::MAX] {
        let error = replace(&lab, &pool, space, bytes).map(drop).expect_err("no such journal");
        assert_eq!(error.kind, PoolErrorKind::Invalid, "{error}");
        assert!(error.context.contains("from 32 MiB to 100 GiB"), "{error}");
    }
    let error = replace(&lab, &pool, space, 20 * GIB).map(drop).expect_err("the disks are full");
    assert_eq!(error.kind, PoolErrorKind::NoSpace, "{error}");
    let mirror = lab.mirror(&pool, "vm").id;
    let error = replace(&lab, &pool, mirror, 32 * MIB).map(drop).expect_err("a mirror");
    assert!(error.context.contains("two-way mirror and has no journal"), "{error}");
    let error = lab.space(&pool, SpaceSpec { journal_bytes: Some(MIB), ..thin("small", 1, 3) }).expect_err("too small");
    assert_eq!(error.kind, PoolErrorKind::Invalid, "{error}");
    assert_eq!(replace(&lab, &pool, 99, GIB).map(drop).expect_err("no space").kind, PoolErrorKind::NotFound);
    let shared = pool.clone();
    lab.run(async move { shared.destroy_space(mirror).await }).expect("nobody uses it");
    assert_eq!(snapshot(&pool), before);
    lab.kill(pool);
    assert_eq!(snapshot(&lab.imported(&lab.all())), before);
}

#[test]
fn a_power_cut_leaves_one_journal_or_the_other() {
    let mut found = BTreeSet::new();
    for (seed, writes) in (0..100).map(|seed| (seed, seed % 10)) {
        let lab = Lab::new(seed, &[GIB; 3]);
        let pool = lab.created(&lab.all());
        let space =
            lab.space(&pool, SpaceSpec { journal_bytes: Some(32 * MIB), ..thin("vol", 1, 3) }).expect("it fits").id;
        lab.sim.cut_power_after(writes);
        let shared = pool.clone();
        let answered =
            lab.sim.run(async move { shared.replace_journal(space, Some(300 * MIB)).await.map(drop) }).is_ok();
        drop(pool);
        lab.sim.cut_power();
        lab.sim.restart();
        let pool = lab.imported(&lab.all());
        check_allotment(&pool);
        let journal = pool.journal_bytes(space);
        assert!(journal == 300 * MIB || (!answered && journal == 32 * MIB), "{journal} after {writes} writes");
        found.insert(answered);
    }
    assert_eq!(found.len(), 2, "the cuts lay on both sides of the answer");
}

#[test]
fn a_journal_that_nothing_needs_any_more_is_not_renewed() {
    let lab = Lab::small(9, 4);
    let pool = lab.created(&lab.all());
    let space = lab.space(&pool, thin("p", 1, 3)).expect("room").id;
    let shaping = pool.clone();
    let mirror = Shape::plain(mirror_of(2), 1, ByteSize::kib(64));
    let shaped = lab.run(async move { shaping.set_shape(space, mirror, Provisioning::Thin, None).await });
    assert_eq!(shaped, Ok(true));
    let used = journal_disks(&pool, space);
    let retired = *used.first().expect("it has one still");
    set(&lab, &pool, retired, Media::Ssd, Usage::Retired);
    let renewing = pool.clone();
    let renewed = lab.run(async move { renewing.replace_journal(space, None).await.map(|freed| freed.is_some()) });
    assert_eq!(renewed, Ok(false));
    assert_eq!(journal_disks(&pool, space), used, "it waits for the end of the conversion");
}

#[test]
fn a_journal_needs_disks_in_service() {
    let lab = Lab::new(4, &[GIB; 4]);
    let pool = lab.created(&lab.all());
    let space = lab.space(&pool, thin("vol", 2, 4)).expect("it fits").id;
    let before = pool.journal_rows(space);
    [0, 1].into_iter().for_each(|disk| out(&lab, &pool, disk));
    let error = replace(&lab, &pool, space, 40 * MIB).map(drop).expect_err("two disks for three copies");
    assert_eq!(error.kind, PoolErrorKind::NoSpace, "{error}");
    assert!(error.context.contains("40 MiB in 3 copies"), "{error}");
    assert_eq!(pool.journal_rows(space).len(), before.len());
    check_allotment(&pool);
}

#[test]
fn rows_go_on_without_as_many_disks_as_the_parity_covers() {
    for parity in 1..=2u8 {
        let columns = parity_of(parity).least_columns() + 1;
        let lab = Lab::small(5, columns.into());
        let pool = lab.created(&lab.all());
        let space = lab.space(&pool, thin("vol", parity, columns)).expect("it fits").id;
        let first = lab.row(&pool, space, 0).expect("room");
        for lost in 0..u16::from(parity) {
            out(&lab, &pool, lost);
            let row = lab.row(&pool, space, 1 + u32::from(lost)).expect("enough disks for the data");
            let stale: BTreeSet<u16> = row.slabs.iter().filter(|slab| slab.stale()).map(|slab| slab.disk()).collect();
            assert_eq!(stale, (0..=lost).collect(), "{row:?}");
        }
        out(&lab, &pool, parity.into());
        let error = lab.row(&pool, space, 7).expect_err("too few disks");
        assert_eq!(error.kind, PoolErrorKind::NoSpace, "{error}");
        for (_, row) in pool.rows(space) {
            let stale = row.slabs.iter().filter(|slab| slab.stale()).count();
            assert_eq!(stale, usize::from(parity), "the disk that went last is needed: {row:?}");
        }
        assert!(pool.row(space, 0).is_some_and(|row| row.id == first.id));
        check_allotment(&pool);
        let before = snapshot(&pool);
        lab.kill(pool);
        let pool = lab.force(&(0..usize::from(columns)).collect::<Vec<_>>()).expect("all disks are there");
        let rows = |spaces: &[(SpaceRecord, Vec<(u32, RowRecord)>)]| spaces[0].1.clone();
        assert_eq!(rows(&snapshot(&pool).spaces), rows(&before.spaces), "what is stale stays so until it is in step");
    }
}

#[test]
fn creating_says_what_is_missing() {
    let lab = Lab::small(6, 3);
    let pool = lab.created(&lab.all());
    let error = lab.space(&pool, thin("vol", 2, 4)).expect_err("three disks");
    assert!(error.context.contains("dual parity of 4 columns needs 4 disks"), "{error}");
    let error = lab.space(&pool, thin("vol", 1, 2)).expect_err("two columns");
    assert!(error.context.contains("single parity has 3 to 32 columns"), "{error}");
    let whole = spec("vol", parity_of(1), 3, Provisioning::Fixed, GIB);
    let error = lab.space(&pool, whole).expect_err("a full pool");
    assert_eq!(error.kind, PoolErrorKind::NoSpace, "{error}");
    assert!(error.context.contains("as single parity of 3 columns the pool has room for"), "{error}");
    let roomy = SpaceSpec { journal_bytes: Some(GIB), ..thin("vol", 1, 3) };
    let error = lab.space(&pool, roomy).expect_err("a journal larger than the disks");
    assert!(error.context.contains("a journal of 1 GiB in 2 copies, each on other disks, does not fit"), "{error}");
    assert!(pool.spaces().is_empty());
    assert_eq!(pool.status().free_bytes, pool.status().data_bytes);
}

/// Disks and a parity space with one row over all of them.
fn config(parity: u8, columns: u16) -> Config {
    let shape = Shape::plain(Layout::Parity { parity }, columns, ByteSize::kib(64));
    let chunk_bytes = 4 * u64::from(shape.data_columns()) * shape.band_bytes();
    let space = SpaceRecord {
        id: 1,
        uuid: Uuid::from_u128(7),
        name: named("vol"),
        shape,
        provisioning: Provisioning::Thin,
        size_bytes: 4 * chunk_bytes,
        chunk_bytes,
        enclosure_aware: false,
        read_only: false,
        complete: true,
    };
    let places = slab::bands_of_chunk(&shape, chunk_bytes);
    let slabs = (0..columns).map(|disk| SlabPlace::new(disk, 0)).collect();
    let row = RowRecord { id: 1, shape, slab_units: (1 + places.data + places.spare) as u32, begun: false, slabs };
    let disk = |index: u16| DiskRecord {
        index,
        id: Uuid::from_u128(100 + u128::from(index)),
        serial: serial(index.into()),
        model: String::new(),
        path: path(index.into()),
        media: Media::Hdd,
        usage: Usage::Auto,
        place: None,
        disk_bytes: SMALL,
        state: DiskState::Online,
        voting: true,
        holds: Position::default(),
    };
    let mut config = Config::default();
    let mut changes = vec![Change::Pool(named("tank"))];
    changes.extend((0..columns).map(disk).map(Change::Disk));
    changes.extend([Change::Space(space), Change::Row { space: 1, chunk: 0, row }]);
    changes.iter().for_each(|change| config.apply(change).expect("a sound change"));
    config
}

fn journal_row(copies: u8, slab_units: u32) -> Change {
    let shape = Shape::plain(mirror_of(copies), 1, ByteSize::kib(256));
    let slabs = (0..copies.into()).map(|disk| SlabPlace::new(disk, 200)).collect();
    Change::Row { space: 1, chunk: JOURNAL_CHUNK + 5, row: RowRecord { id: 2, shape, slab_units, begun: false, slabs } }
}

#[test]
fn journals_that_cannot_be_are_refused() {
    assert!(config(1, 3).apply(&journal_row(2, 17)).is_ok());
    assert!(config(2, 4).apply(&journal_row(3, 17)).is_ok());
    // While a space changes its shape, its journal has the copies of the other one.
    assert!(config(1, 4).apply(&journal_row(3, 17)).is_ok() && config(2, 4).apply(&journal_row(2, 17)).is_ok());
    for journal in [journal_row(2, 18), journal_row(2, 1)] {
        assert!(config(1, 4).apply(&journal).is_err(), "{journal:?}");
    }
}

proptest! {
    #[test]
    fn a_parity_row_is_never_stale_beyond_its_parity(
        parity in 1u8..=2, columns in 0u16..=6, steps in proptest::collection::vec((0u16..9, 0u8..4), 1..60)
    ) {
        let columns = parity_of(parity).least_columns() + columns;
        let mut config = config(parity, columns);
        for (slab, what) in steps {
            let slab = slab % columns;
            let change = match what {
                0 => Change::DiskOut { disk: slab, state: DiskState::Failed, holds: Position::default() },
                1 => Change::Stale { space: 1, chunk: 0, slab, stale: false },
                _ => Change::Stale { space: 1, chunk: 0, slab, stale: true },
            };
            let stale = |config: &Config| config.spaces[&1].rows[&0].slabs.iter().filter(|slab| slab.stale()).count();
            let (before, was) = (stale(&config), config.spaces[&1].rows[&0].slabs[usize::from(slab)].stale());
            config.apply(&change).expect("a sound change");
            let now = stale(&config);
            let expected = match what {
                1 => before - usize::from(was),
                _ => (before + usize::from(!was)).min(parity.into()),
            };
            prop_assert_eq!(now, expected, "after {:?}", change);
            let mut copy = Config::default();
            for change in Change::read_all(&config.checkpoint()) {
                copy.apply(&change.expect("as written")).expect("a sound change");
            }
            prop_assert_eq!(&copy, &config);
        }
    }
}

#[test]
fn a_space_of_the_answered_capacity_is_made_and_none_that_is_larger() {
    let sizes: [&[u64]; 4] = [&[1, 1, 1], &[4, 1, 1, 2, 3], &[1, 1, 1, 1, 1, 1, 1, 1], &[8, 1, 1, 1, 3, 7, 2]];
    for (seed, sizes) in sizes.iter().enumerate() {
        let sizes: Vec<u64> = sizes.iter().map(|size| size * 96 * MIB + seed as u64 * 4096).collect();
        let lab = Lab::new(seed as u64, &sizes);
        let pool = lab.created(&lab.all());
        lab.mirror(&pool, "other");
        for layout in [Layout::Simple, mirror_of(2), mirror_of(3), parity_of(1), parity_of(2)] {
            for columns in [None, Some(layout.least_columns()), Some(layout.least_columns() + 1)] {
                let Ok(shape) = Shape::choose(layout, columns, Some(ByteSize::kib(64)), sizes.len()) else { continue };
                let before = snapshot(&pool);
                let capacity = pool.capacity(&shape, None, false).expect("it fits");
                assert_eq!((snapshot(&pool), pool.capacity(&shape, None, false)), (before, Ok(capacity)));
                let whole = |size_bytes| SpaceSpec {
                    name: named("whole"),
                    shape,
                    provisioning: Provisioning::Fixed,
                    size_bytes,
                    journal_bytes: None,
                    enclosure_aware: false,
                };
                let error = lab.space(&pool, whole(capacity.usable_bytes() + 4096)).expect_err("a row more");
                assert_eq!(error.kind, PoolErrorKind::NoSpace, "{error}");
                let free = pool.status().free_bytes;
                let made =
                    lab.space(&pool, whole(capacity.usable_bytes())).unwrap_or_else(|error| panic!("{shape}: {error}"));
                assert_eq!(made.chunk_bytes, capacity.chunk_bytes);
                assert_eq!(pool.journal_bytes(made.id), capacity.journal_bytes);
                assert_eq!(free - pool.status().free_bytes, capacity.raw_bytes);
                assert_eq!(pool.status().free_bytes, capacity.unused_bytes);
                let shared = pool.clone();
                lab.run(async move { shared.destroy_space(made.id).await }).expect("nobody uses it");
            }
        }
    }
}

#[test]
fn capacity_says_what_is_missing() {
    let lab = Lab::small(8, 3);
    let pool = lab.created(&lab.all());
    let shape = Shape::plain(parity_of(2), 4, ByteSize::kib(64));
    let error = pool.capacity(&shape, None, false).expect_err("three disks");
    assert!(error.context.contains("needs 4 disks for data, and the pool has 3"), "{error}");
    let shape = Shape::plain(parity_of(1), 3, ByteSize::kib(64));
    assert_eq!(pool.capacity(&shape, Some(MIB), false).expect_err("too small").kind, PoolErrorKind::Invalid);
    assert_eq!(pool.capacity(&shape, Some(40 * MIB), false).map(|capacity| capacity.journal_bytes), Ok(40 * MIB));
    assert_eq!(pool.capacity(&shape, Some(GIB), false).expect_err("too large").kind, PoolErrorKind::NoSpace);
    let wide = Shape { interleave: ByteSize::mib(16), ..shape };
    assert_eq!(
        pool.capacity(&wide, Some(32 * MIB), false).expect_err("no room for a row").kind,
        PoolErrorKind::NoSpace
    );
    assert_eq!(pool.status().free_bytes, pool.status().data_bytes);
}
