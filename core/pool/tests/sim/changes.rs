//! Changes that meet: of one object at once, with a disk that fails meanwhile, given up in the middle, or too large.

use std::sync::Arc;

use crate::common::*;
use futures_util::future::{join, join_all, join3};
use holdfast_model::{DiskState, PoolState, Provisioning};
use holdfast_pool::{DiskChange, Pool, PoolErrorKind};

fn import_agrees(lab: &Lab, pool: Arc<Pool>) {
    check_allotment(&pool);
    let before = snapshot(&pool);
    lab.kill(pool);
    assert_eq!(snapshot(&lab.imported(&lab.all())), before);
}

#[test]
fn a_row_freed_twice_at_once_is_freed_once() {
    for seed in 0..50 {
        let lab = Lab::small(seed, 3);
        let pool = lab.created(&lab.all());
        let space = lab.mirror(&pool, "vm").id;
        lab.row(&pool, space, 0).expect("room");
        let shared = pool.clone();
        let freed = lab.run(async move {
            let free = || shared.free_row(space, 0);
            let (first, second, marked) = join3(free(), free(), shared.mark_stale(space, 0, 1)).await;
            marked.expect("nothing to mark is no error");
            u32::from(first.expect("a quorum").is_some()) + u32::from(second.expect("a quorum").is_some())
        });
        assert_eq!(freed, 1, "seed {seed}");
        import_agrees(&lab, pool);
    }
}

#[test]
fn marks_of_what_is_gone_are_harmless() {
    let lab = Lab::small(1, 2);
    let pool = lab.created(&lab.all());
    let space = lab.mirror(&pool, "vm").id;
    lab.row(&pool, space, 0).expect("room");
    let shared = pool.clone();
    lab.run(async move {
        let disk = shared.disk(0).expect("a member");
        shared.mark_stale(space, 7, 0).await.expect("no row");
        shared.mark_stale(9, 0, 0).await.expect("no space");
        shared.mark_stale(space, 0, 9).await.expect("no slab");
        assert_eq!(shared.mark_in_step(space, 7, 0, &disk, 0).await, Ok(false));
        shared.disk_out(77, DiskState::Failed, "who?").await.expect("no disk");
        assert!(shared.free_row(space, 7).await.expect("no row").is_none());
        assert_eq!(shared.allot_row(space, 9999).await.expect_err("beyond the end").kind, PoolErrorKind::Invalid);
        assert_eq!(shared.allot_row(9, 0).await.expect_err("no space").kind, PoolErrorKind::NotFound);
        assert_eq!(shared.destroy_space(9).await.expect_err("no space").kind, PoolErrorKind::NotFound);
        assert_eq!(shared.grow_space(9, MIB).await.expect_err("no space").kind, PoolErrorKind::NotFound);
    });
    import_agrees(&lab, pool);
}

#[test]
fn a_space_destroyed_under_its_writers_takes_nothing_with_it() {
    for seed in 0..50 {
        let lab = Lab::small(seed, 3);
        let pool = lab.created(&lab.all());
        let space = lab.mirror(&pool, "vm").id;
        let shared = pool.clone();
        lab.run(async move {
            let rows = join_all((0..8).map(|chunk| shared.allot_row(space, chunk)));
            let (rows, gone) = join(rows, shared.destroy_space(space)).await;
            gone.expect("a quorum");
            for row in rows.into_iter().filter_map(Result::err) {
                assert_eq!(row.kind, PoolErrorKind::NotFound, "{row}");
            }
        });
        assert_eq!(pool.status().free_bytes, pool.status().data_bytes, "seed {seed}");
        import_agrees(&lab, pool);
    }
}

#[test]
fn one_chunk_asked_for_twice_at_once_has_one_row() {
    for seed in 0..50 {
        let lab = Lab::small(seed, 3);
        let pool = lab.created(&lab.all());
        let space = lab.mirror(&pool, "vm").id;
        let shared = pool.clone();
        let rows = lab.run(async move { join_all((0..4).map(|_| shared.allot_row(space, 5))).await });
        let ids: Vec<u64> = rows.into_iter().map(|row| row.expect("room").id).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "seed {seed}: {ids:?}");
        import_agrees(&lab, pool);
    }
}

#[test]
fn a_row_allotted_while_its_disk_goes_out_is_stale_there() {
    for seed in 0..100 {
        let lab = Lab::small(seed, 3);
        let pool = lab.created(&lab.all());
        let space = lab.mirror(&pool, "vm").id;
        let shared = pool.clone();
        lab.run(async move {
            let rows = join_all((0..6).map(|chunk| shared.allot_row(space, chunk)));
            let (rows, out) = join(rows, shared.disk_out(1, DiskState::Failed, "pulled")).await;
            out.expect("a quorum");
            for row in rows {
                let row = row.expect("room");
                let now = shared.rows(space).into_iter().find(|(_, now)| now.id == row.id).expect("allotted").1;
                assert!(now.slabs.iter().all(|slab| slab.disk() != 1 || slab.stale()), "seed {seed}: {now:?}");
            }
        });
    }
}

#[test]
fn what_is_set_of_a_disk_does_not_bring_it_back() {
    for seed in 0..100 {
        let lab = Lab::small(seed, 3);
        let pool = lab.created(&lab.all());
        let id = pool.disks()[1].record.id;
        let shared = pool.clone();
        lab.run(async move {
            let retired = DiskChange { usage: Some(holdfast_model::Usage::Retired), ..DiskChange::default() };
            let (set, out) = join(shared.set_disk(id, retired), shared.disk_out(1, DiskState::Failed, "pulled")).await;
            assert_eq!(set, Ok(true));
            out.expect("a quorum");
        });
        let record = pool.disk_record(id).expect("a member");
        assert_eq!((record.state, record.usage), (DiskState::Failed, holdfast_model::Usage::Retired), "seed {seed}");
        assert!(!record.voting);
    }
}

#[test]
fn a_disk_whose_log_fails_in_a_commit_goes_out_and_the_commit_counts() {
    for (failing, count) in [(1, 2), (1, 3), (2, 4), (2, 5), (3, 7)] {
        let lab = Lab::small(3, count);
        let pool = lab.created(&lab.all());
        (0..failing).for_each(|disk| lab.disks[disk].fail_next_writes(1));
        lab.mirror(&pool, "vm");
        let out =
            pool.disks().iter().filter(|disk| disk.record.state == DiskState::Failed && !disk.record.voting).count();
        assert_eq!(out, failing, "{failing} of {count}");
        assert_eq!(pool.status().state, PoolState::Degraded);
        let before = snapshot(&pool);
        lab.kill(pool);
        let whole: Vec<usize> = (failing..count).collect();
        assert_eq!(snapshot(&lab.imported(&whole)), before);
    }
}

#[test]
fn a_change_given_up_in_the_middle_is_never_built_upon() {
    for steps in 1..12 {
        let lab = Lab::small(steps, 3);
        let pool = lab.created(&lab.all());
        let space = lab.mirror(&pool, "vm").id;
        let (shared, clock) = (pool.clone(), lab.sim.clock());
        let task = lab.sim.spawn_handle(async move { shared.allot_row(space, 0).await });
        lab.run(async move { clock.sleep(std::time::Duration::from_micros(steps * 4)).await });
        task.cancel();
        let after = lab.row(&pool, space, 1);
        match &after {
            Ok(_) => assert_eq!(pool.refusal(), None),
            Err(error) => {
                assert_eq!(error.kind, PoolErrorKind::ReadOnly, "{error}");
                assert!(error.context.contains("import it again"), "{error}");
            }
        }
        lab.kill(pool);
        let pool = lab.imported(&lab.all());
        check_allotment(&pool);
        assert_eq!(pool.row(space, 1).is_some(), after.is_ok());
    }
}

#[test]
fn a_waiter_that_gives_up_does_no_harm() {
    let lab = Lab::small(4, 3);
    let pool = lab.created(&lab.all());
    let space = lab.mirror(&pool, "vm").id;
    let shared = pool.clone();
    lab.run(async move {
        let writing = shared.allot_row(space, 0);
        let mut waiting = Box::pin(shared.allot_row(space, 1));
        let given_up = async {
            assert!(futures_util::future::FutureExt::now_or_never(&mut waiting).is_none(), "the log is busy");
            drop(waiting);
            shared.allot_row(space, 1).await
        };
        let (first, second) = join(writing, given_up).await;
        first.expect("room");
        second.expect("room");
    });
    assert_eq!((pool.refusal(), pool.row_count(space)), (None, 2));
    import_agrees(&lab, pool);
}

#[test]
fn logs_switch_halves_on_the_smallest_disks() {
    let lab = Lab::small(5, 3);
    let pool = lab.created(&lab.all());
    let space = lab.mirror(&pool, "vm").id;
    let shared = pool.clone();
    lab.run(async move {
        shared.allot_row(space, 0).await.expect("room");
        let row = shared.row(space, 0).expect("allotted");
        let disk = shared.disk(row.slabs[0].disk()).expect("a member");
        for _ in 0..200 {
            shared.mark_stale(space, 0, 0).await.expect("a quorum");
            assert_eq!(shared.mark_in_step(space, 0, 0, &disk, disk.outages()).await, Ok(true));
        }
        let many = join_all((0..300).map(|_| shared.mark_stale(space, 0, 0))).await;
        assert!(many.iter().all(Result::is_ok));
    });
    assert_eq!(pool.status().state, PoolState::Ok);
    import_agrees(&lab, pool);
}

#[test]
fn a_configuration_too_large_for_a_disk_is_refused_not_the_disk() {
    let lab = Lab::new(6, &[SMALL, 4 << 40, 4 << 40]);
    let pool = lab.created(&lab.all());
    let whole = spec("whole", mirror_of(2), 1, Provisioning::Fixed, 3 << 40);
    let error = lab.space(&pool, whole).expect_err("three million rows on a disk of 64 MiB");
    assert_eq!(error.kind, PoolErrorKind::NoSpace, "{error}");
    assert!(error.context.contains(&serial(0)), "{error}");
    assert_eq!(pool.status().state, PoolState::Ok);
    assert!(pool.spaces().is_empty());
    assert_eq!(pool.status().free_bytes, pool.status().data_bytes);
    lab.mirror(&pool, "small");
    import_agrees(&lab, pool);
}

/// What is lost with a disk is read from all others.
#[test]
fn every_disk_shares_rows_with_every_other() {
    let lab = Lab::small(21, 12);
    let pool = lab.created(&lab.all());
    let space = lab.space(&pool, spec("vm", mirror_of(2), 1, Provisioning::Fixed, 200 * MIB)).expect("room");
    let mut partners = std::collections::BTreeSet::new();
    for (_, row) in pool.rows(space.id) {
        let disks: Vec<u16> = row.slabs.iter().map(|slab| slab.disk()).collect();
        if disks.contains(&3) {
            partners.extend(disks);
        }
    }
    assert!(partners.len() > 7, "disk 3 shares rows with {partners:?} alone");
}
