//! What is planned to make the use of disks even: how much of it, from where to where, and what stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::*;
use holdfast_model::{Layout, Media, Place, Provisioning, Usage};
use holdfast_pool::{Balance, DiskChange, Pool, SlabMove};

fn set(lab: &Lab, pool: &Arc<Pool>, disk: usize, change: DiskChange) {
    let (id, pool) = (pool.disks()[disk].record.id, pool.clone());
    lab.run(async move { pool.set_disk(id, change).await }).expect("a quorum");
}

fn add(lab: &mut Lab, pool: &Arc<Pool>, size_bytes: u64) -> u16 {
    let disk = lab.add_disk(size_bytes);
    let (pool, candidates) = (pool.clone(), lab.candidates(&[disk]));
    lab.run(async move { pool.add_disks(candidates).await }).expect("a good disk");
    disk as u16
}

/// Carries a plan out in the configuration alone. Answers how many slabs moved.
fn carry_out(lab: &Lab, pool: &Arc<Pool>, plan: &Balance) -> usize {
    let (pool, moves) = (pool.clone(), plan.moves.clone());
    lab.run(async move {
        let mut moved = 0;
        for wanted in moves {
            let Some((row, place, units)) = pool.reserve_slab(&wanted) else { continue };
            let disk = pool.disk(wanted.to).expect("a member");
            let left = pool.move_slab(&wanted, &row, place, &disk, disk.outages()).await.expect("a quorum");
            if left.is_some() {
                units.keep();
                moved += 1;
            }
        }
        moved
    })
}

fn parts(pool: &Pool) -> Vec<f64> {
    pool.disks().iter().map(|disk| 1.0 - disk.free_bytes as f64 / disk.data_bytes as f64).collect()
}

fn spread(parts: &[f64]) -> f64 {
    parts.iter().copied().fold(0.0, f64::max) - parts.iter().copied().fold(1.0, f64::min)
}

#[test]
fn a_new_disk_gets_its_share_from_all_and_nothing_else_moves() {
    for (layout, columns) in [(Layout::Simple, 1), (mirror_of(2), 1), (mirror_of(2), 2), (parity_of(1), 4)] {
        let mut lab = Lab::new(1, &[128 * MIB; 4]);
        let pool = lab.created(&lab.all());
        let size = 192 * MIB / u64::from(layout.copies());
        lab.space(&pool, spec("vol", layout, columns, Provisioning::Fixed, size)).expect("it fits");
        assert!(pool.balance().moves.len() <= 4, "{layout}: almost even by itself");
        let before = spread(&parts(&pool));
        let new = add(&mut lab, &pool, 128 * MIB);
        let plan = pool.balance();
        assert!(
            plan.moves.iter().filter(|wanted| wanted.to == new).count() + 4 >= plan.moves.len(),
            "{layout}: to the new one"
        );
        let used = |bytes: fn(&holdfast_pool::DiskUse) -> u64| plan.disks.iter().map(bytes).sum::<u64>();
        assert_eq!(used(|disk| disk.used_bytes), used(|disk| disk.used_bytes_then));
        assert_eq!(carry_out(&lab, &pool, &plan), plan.moves.len(), "{layout}");
        check_allotment(&pool);
        let (parts, data) = (parts(&pool), pool.disks()[0].data_bytes as f64);
        for (disk, part) in plan.disks.iter().zip(&parts) {
            assert!((disk.used_bytes_then as f64 / data - part).abs() < 1e-9, "{layout}: as it was planned");
        }
        assert!(spread(&parts) < 0.05 && before < 0.1, "{layout}: {before} became {parts:?}");
        assert!(pool.balance().moves.is_empty(), "{layout}: it comes to an end");
        let known = snapshot(&pool);
        lab.kill(pool);
        assert_eq!(snapshot(&lab.imported(&lab.all())), known);
    }
}

#[test]
fn disks_are_filled_to_the_same_part_whatever_their_size() {
    let mut lab = Lab::new(2, &[64 * MIB, 128 * MIB, 256 * MIB]);
    let pool = lab.created(&lab.all());
    lab.space(&pool, spec("vol", Layout::Simple, 1, Provisioning::Fixed, 200 * MIB)).expect("it fits");
    add(&mut lab, &pool, 192 * MIB);
    while carry_out(&lab, &pool, &pool.balance()) > 0 {}
    check_allotment(&pool);
    assert!(spread(&parts(&pool)) < 0.04, "{:?}", parts(&pool));
}

#[test]
fn other_media_spares_journals_and_retired_disks_get_nothing() {
    let mut lab = Lab::new(3, &[128 * MIB; 3]);
    let pool = lab.created(&lab.all());
    lab.space(&pool, spec("vol", mirror_of(2), 1, Provisioning::Fixed, 100 * MIB)).expect("it fits");
    for usage in [Usage::HotSpare, Usage::Journal, Usage::Retired, Usage::Manual] {
        let disk = add(&mut lab, &pool, 128 * MIB);
        set(&lab, &pool, disk.into(), DiskChange { usage: Some(usage), ..DiskChange::default() });
    }
    let slow = add(&mut lab, &pool, 128 * MIB);
    set(&lab, &pool, slow.into(), DiskChange { media: Some(Media::Hdd), ..DiskChange::default() });
    assert_eq!(pool.balance().moves, Vec::new());
    let good = add(&mut lab, &pool, 128 * MIB);
    let plan = pool.balance();
    assert!(!plan.moves.is_empty() && plan.moves.iter().all(|wanted| wanted.to == good), "{:?}", plan.moves);
}

#[test]
fn no_enclosure_gets_more_of_a_row_than_may_be_lost() {
    let mut lab = Lab::new(4, &[128 * MIB; 4]);
    let pool = lab.created(&lab.all());
    let place = |enclosure: &str| DiskChange {
        place: Some(Place { enclosure: enclosure.into(), slot: 0 }),
        ..DiskChange::default()
    };
    for (disk, enclosure) in ["a", "a", "b", "b"].into_iter().enumerate() {
        set(&lab, &pool, disk, place(enclosure));
    }
    let wanted = holdfast_pool::SpaceSpec {
        enclosure_aware: true,
        ..spec("vol", mirror_of(2), 1, Provisioning::Fixed, 150 * MIB)
    };
    let space = lab.space(&pool, wanted).expect("it fits");
    let new = add(&mut lab, &pool, 128 * MIB);
    set(&lab, &pool, new.into(), place("a"));
    let plan = pool.balance();
    assert!(!plan.moves.is_empty());
    assert_eq!(carry_out(&lab, &pool, &plan), plan.moves.len());
    let enclosures: BTreeMap<u16, String> =
        pool.disks().into_iter().map(|disk| (disk.record.index, disk.record.place.expect("known").enclosure)).collect();
    for (chunk, row) in all_rows(&pool, space.id) {
        assert_ne!(enclosures[&row.slabs[0].disk()], enclosures[&row.slabs[1].disk()], "chunk {chunk}");
    }
}

#[test]
fn a_move_that_does_not_pay_any_more_is_not_made() {
    let mut lab = Lab::new(5, &[128 * MIB; 3]);
    let pool = lab.created(&lab.all());
    let space = lab.space(&pool, spec("vol", mirror_of(2), 1, Provisioning::Fixed, 100 * MIB)).expect("it fits");
    let new = add(&mut lab, &pool, 128 * MIB);
    let plan = pool.balance();
    let first = plan.moves[0];
    let back = SlabMove { from: first.to, to: first.from, ..first };
    assert_eq!(carry_out(&lab, &pool, &plan), plan.moves.len());
    assert!(pool.reserve_slab(&back).is_none() && pool.reserve_slab(&first).is_none());
    let row = pool.row(space.id, first.chunk).expect("a fixed space has all");
    assert!(row.slabs.iter().any(|slab| slab.disk() == new));
    assert!(pool.reserve_slab(&SlabMove { space: 99, ..first }).is_none(), "no such space");
}

#[test]
fn a_pool_of_many_disks_tells_what_fits_and_what_would_move() {
    let mut lab = Lab::new(6, &[64 * MIB; 960]);
    let pool = lab.created(&lab.all());
    for (name, layout) in [("a", mirror_of(2)), ("b", mirror_of(3)), ("c", parity_of(2))] {
        let columns = if layout.parity() > 0 { 7 } else { 8 };
        lab.space(&pool, spec(name, layout, columns, Provisioning::Fixed, 6 << 30)).expect("it fits");
    }
    let disks: Vec<usize> = (0..64).map(|_| lab.add_disk(64 * MIB)).collect();
    let (shared, candidates) = (pool.clone(), lab.candidates(&disks));
    lab.run(async move { shared.add_disks(candidates).await }).expect("good disks");
    let begun = std::time::Instant::now();
    let layouts = [(Layout::Simple, 8), (mirror_of(2), 8), (mirror_of(3), 8), (parity_of(1), 3), (parity_of(2), 7)];
    let reported: Vec<u64> = layouts
        .iter()
        .map(|(layout, columns)| {
            let shape = spec("x", *layout, *columns, Provisioning::Thin, MIB).shape;
            pool.capacity(&shape, None, false).expect("there is room").usable_bytes()
        })
        .collect();
    let counted = begun.elapsed();
    let plan = pool.balance();
    println!(
        "1,024 disks: five capacities in {counted:?}, {} moves planned in {:?}",
        plan.moves.len(),
        begun.elapsed() - counted
    );
    assert!(reported.windows(2).take(2).all(|pair| pair[0] > pair[1]), "fewer with more copies: {reported:?}");
    assert!(
        plan.moves.iter().all(|wanted| wanted.to >= 960) && plan.moves.len() > 64 * 10,
        "{} moves",
        plan.moves.len()
    );
    let all = spec("all", mirror_of(2), 8, Provisioning::Fixed, reported[1]);
    assert!(
        lab.space(&pool, spec("more", mirror_of(2), 8, Provisioning::Fixed, reported[1] + 4096)).is_err(),
        "no more than answered"
    );
    lab.space(&pool, all).expect("as answered");
}
