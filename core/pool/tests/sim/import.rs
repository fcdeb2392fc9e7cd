//! Pools that are created, lose disks, get them back, and are found again.

use crate::common::*;
use holdfast_device::Device;
use holdfast_device::sim::Disappearance;
use holdfast_model::{DiskState, PoolState, Provisioning};
use holdfast_pool::{DiskChange, Pool, PoolErrorKind, wipe};

#[test]
fn pools_of_one_to_twelve_disks_are_found_in_any_order_under_any_name() {
    for count in 1..=12usize {
        let sizes: Vec<u64> = (0..count as u64).map(|disk| SMALL + disk * 7 * MIB + disk * 4096).collect();
        let lab = Lab::new(count as u64, &sizes);
        let pool = lab.created(&lab.all());
        if count > 1 {
            let space = lab.mirror(&pool, "vm");
            (0..5).for_each(|chunk| drop(lab.row(&pool, space.id, chunk).expect("room")));
        }
        let (id, before) = (pool.id(), snapshot(&pool));
        lab.kill(pool);
        let mut order = lab.all();
        lab.sim.random().shuffle(&mut order);
        let renamed = order.iter().map(|disk| lab.candidate_at(*disk, &format!("/dev/disk/other-{disk}"))).collect();
        let mut scan = lab.run(holdfast_pool::scan(renamed));
        assert_eq!((scan.pools.len(), scan.blank.len(), scan.damaged.len()), (1, 0, 0));
        let found = scan.pools.remove(0);
        assert_eq!(
            (found.id, found.name(), found.missing().len(), found.stale().len()),
            (id, "tank".to_string(), 0, 0)
        );
        let pool = lab.run(Pool::import(lab.env(), found, false)).expect("all disks are here");
        assert_eq!(snapshot(&pool), before);
        assert!(pool.disks().iter().all(|disk| disk.record.path.starts_with("/dev/disk/other-")), "new paths are kept");
        assert_eq!(pool.status().state, PoolState::Ok);
        check_allotment(&pool);
        lab.kill(pool);
        assert_eq!(snapshot(&lab.imported(&lab.all())), before);
    }
}

#[test]
fn missing_disks_are_named() {
    let lab = Lab::small(1, 5);
    let pool = lab.created(&lab.all());
    lab.kill(pool);
    let found = lab.found(&[1, 3]);
    let missing: Vec<(String, String)> =
        found.missing().iter().map(|record| (record.serial.clone(), record.path.clone())).collect();
    assert_eq!(missing, [0, 2, 4].map(|disk| (serial(disk), path(disk))));
    let error = lab.import(&[1, 3]).map(drop).expect_err("two of five disks");
    assert_eq!(error.kind, PoolErrorKind::NoQuorum);
    for disk in [0, 2, 4] {
        assert!(error.context.contains(&serial(disk)) && error.context.contains(&path(disk)), "{error}");
    }
    for disk in [1, 3] {
        assert!(!error.context.contains(&serial(disk)), "{error}");
    }
    assert!(error.context.contains("tank") && error.context.contains("too few"), "{error}");
    let events = lab.events.take();
    let pool = lab.imported(&[1, 3, 4]);
    assert!(at_least(&events, holdfast_pool::Severity::Warning).is_empty());
    let events = lab.events.take();
    assert!(reported(&events, &serial(0), &path(0)) && reported(&events, &serial(2), &path(2)), "{events:?}");
    assert_eq!(pool.status().state, PoolState::Degraded);
}

#[test]
fn a_stale_disk_is_caught_up_and_never_believed() {
    let lab = Lab::small(2, 3);
    let pool = lab.created(&lab.all());
    let space = lab.mirror(&pool, "old");
    lab.disks[2].disappear(Disappearance::PowerLoss);
    let rows = lab.mirror(&pool, "new");
    lab.row(&pool, rows.id, 0).expect("two disks are left");
    lab.run({
        let pool = pool.clone();
        async move { pool.destroy_space(space.id).await }
    })
    .expect("two of three disks agree");
    let before = snapshot(&pool);
    assert_eq!(before.disks[2].state, DiskState::Failed);
    lab.kill(pool);
    lab.disks[2].reappear();

    let error = lab.import(&[2]).map(drop).expect_err("a stale disk alone");
    assert_eq!(error.kind, PoolErrorKind::NoQuorum);
    let found = lab.found(&[2, 0, 1]);
    assert_eq!(found.stale().len(), 1);
    lab.events.take();
    let pool = lab.imported(&[2, 0, 1]);
    assert_eq!(snapshot(&pool).spaces, before.spaces);
    assert!(pool.disks().iter().all(|disk| disk.record.state == DiskState::Online && disk.record.voting));
    assert!(reported(&lab.events.take(), &serial(2), "back in service"));
    lab.kill(pool);
    let found = lab.found(&[2]);
    assert_eq!(found.config.spaces.len(), 1, "the disk was caught up");
    assert_eq!(lab.found(&[0, 1, 2]).stale().len(), 0);
}

#[test]
fn a_pool_of_two_survives_the_loss_of_either() {
    for lost in [0, 1] {
        for restarted in [false, true] {
            let lab = Lab::small(3 + lost as u64, 2);
            let pool = lab.created(&[0, 1]);
            let space = lab.mirror(&pool, "vm");
            lab.row(&pool, space.id, 0).expect("room");
            let kept = 1 - lost;
            let pool = if restarted {
                lab.kill(pool);
                lab.disks[lost].disappear(Disappearance::PowerLoss);
                lab.imported(&[kept])
            } else {
                lab.disks[lost].disappear(Disappearance::PowerLoss);
                pool
            };
            let other = lab.space(&pool, spec("late", holdfast_model::Layout::Simple, 1, Provisioning::Thin, MIB));
            other.expect("one disk and the witness carry on");
            let before = snapshot(&pool);
            assert_eq!(before.spaces.len(), 2);
            lab.kill(pool);
            lab.disks[lost].reappear();
            let error = lab.import(&[lost]).map(drop).expect_err("the other half, witness ahead");
            assert_eq!(error.kind, PoolErrorKind::NoQuorum);
            assert!(error.context.contains(&serial(kept)), "{error}");
            let alone = lab.imported(&[kept]);
            assert_eq!(snapshot(&alone), before);
            lab.kill(alone);
            assert_eq!(snapshot(&lab.imported(&[lost, kept])).spaces, before.spaces);
        }
    }
}

#[test]
fn half_a_pool_without_its_witness_is_refused() {
    let lab = Lab::small(5, 2);
    let pool = lab.created(&[0, 1]);
    let id = pool.id();
    lab.kill(pool);
    let record = lab.witness.record(id);
    lab.witness.forget(id);
    for disk in [0, 1] {
        let error = lab.import(&[disk]).map(drop).expect_err("on a host that never saw the pool");
        assert_eq!(error.kind, PoolErrorKind::NoQuorum);
    }
    lab.witness.remember(id, record.expect("stored at creation"));
    lab.witness.set_reachable(false);
    assert!(lab.import(&[0]).is_err(), "a witness out of reach has no vote");
    lab.witness.set_reachable(true);
    lab.imported(&[0]);
    assert!(lab.import(&[1]).is_err(), "the witness gave its vote to the other half");
}

#[test]
fn half_a_pool_that_was_set_back_does_not_go_on_with_the_witness_alone() {
    let lab = Lab::small(9, 2);
    let pool = lab.created(&[0, 1]);
    lab.mirror(&pool, "first");
    let image = lab.disks[0].image();
    lab.mirror(&pool, "second");
    let stamped = pool.clone();
    lab.run(async move { stamped.stamp(stamped.env().clock.now()).await }).expect("a quorum is there");
    lab.kill(pool);
    let last = lab.disks[0].image();
    lab.disks[0].set_back(&image);
    let error = lab.import(&[0]).map(drop).expect_err("the witness knows of later changes");
    assert!(error.context.contains("without the disks present"), "{error}");
    lab.disks[0].set_back(&last);
    assert_eq!(lab.imported(&[0]).spaces().len(), 2, "half a pool as it was last");
}

#[test]
fn the_witness_of_an_earlier_host_has_no_vote() {
    let lab = Lab::small(6, 2);
    let pool = lab.created(&[0, 1]);
    let id = pool.id();
    let first_host = lab.witness.record(id).expect("stored at creation");
    lab.kill(pool);
    lab.witness.forget(id);
    let pool = lab.imported(&[0, 1]);
    lab.mirror(&pool, "vm");
    lab.disks[1].disappear(Disappearance::PowerLoss);
    lab.mirror(&pool, "more");
    lab.kill(pool);
    lab.disks[1].reappear();
    lab.witness.remember(id, first_host);
    let error = lab.import(&[1]).map(drop).expect_err("the pool moved on to another host");
    assert_eq!(error.kind, PoolErrorKind::NoQuorum);
}

#[test]
fn a_forced_half_is_not_overruled_by_the_other() {
    let lab = Lab::small(7, 4);
    let pool = lab.created(&lab.all());
    lab.mirror(&pool, "both");
    lab.kill(pool);
    assert!(lab.import(&[0]).is_err());
    let forced = lab.force(&[0]).expect("the administrator's word");
    lab.space(&forced, spec("forced", holdfast_model::Layout::Simple, 1, Provisioning::Thin, MIB)).expect("one voter");
    let before = snapshot(&forced);
    lab.kill(forced);
    assert_eq!(snapshot(&lab.imported(&[0])), before, "the forced half needs no force again");
    lab.sim.kill();
    let all = lab.imported(&[3, 2, 1, 0]);
    assert_eq!(snapshot(&all).spaces, before.spaces);
    assert!(all.disks().iter().all(|disk| disk.record.state == DiskState::Online));
}

#[test]
fn two_forced_halves_are_told_apart() {
    let lab = Lab::small(8, 2);
    let pool = lab.created(&[0, 1]);
    let id = pool.id();
    lab.kill(pool);
    let mut names = Vec::new();
    for disk in [0, 1] {
        lab.witness.forget(id);
        let half = lab.force(&[disk]).expect("the administrator's word");
        let name = format!("half{disk}");
        lab.space(&half, spec(&name, holdfast_model::Layout::Simple, 1, Provisioning::Thin, MIB)).expect("one voter");
        names.push(name);
        lab.kill(half);
    }
    lab.witness.forget(id);
    let error = lab.import(&[0, 1]).map(drop).expect_err("two histories");
    assert_eq!(error.kind, PoolErrorKind::Damaged, "{error}");
    assert!(error.context.contains(&serial(0)) && error.context.contains(&serial(1)), "{error}");
    for disk in [0usize, 1] {
        lab.witness.forget(id);
        let half = lab.imported(&[disk]);
        assert_eq!(half.spaces()[0].name.to_string(), names[disk], "nothing was written over either half");
        lab.kill(half);
    }
}

#[test]
fn pools_of_one_name_are_told_apart() {
    let lab = Lab::small(9, 4);
    let first = lab.create("tank", &[0, 1]).expect("good disks");
    let second = lab.create("tank", &[2, 3]).expect("good disks");
    let ids = [first.id(), second.id()];
    assert_ne!(ids[0], ids[1]);
    lab.mirror(&second, "only-here");
    drop(first);
    lab.kill(second);
    let scan = lab.scan(&[3, 0, 2, 1]);
    assert_eq!(scan.pools.len(), 2);
    for found in scan.pools {
        let expected = usize::from(found.id == ids[1]);
        assert_eq!((found.name().as_str(), found.members.len()), ("tank", 2));
        assert!(ids.contains(&found.id));
        let pool = lab.run(Pool::import(lab.env(), found, false)).expect("whole");
        assert_eq!(pool.spaces().len(), expected);
    }
}

#[test]
fn a_disk_seen_twice_is_reported_and_used_once() {
    let lab = Lab::small(10, 2);
    let pool = lab.created(&[0, 1]);
    lab.kill(pool);
    let candidates = vec![lab.candidate(0), lab.candidate(1), lab.candidate_at(0, "/dev/mirror-path")];
    let mut scan = lab.run(holdfast_pool::scan(candidates));
    let found = scan.pools.remove(0);
    assert_eq!((found.members.len(), found.duplicates.len()), (2, 1));
    let pool = lab.run(Pool::import(lab.env(), found, false)).expect("both disks are here");
    assert_eq!(pool.disks().len(), 2);
}

#[test]
fn disks_may_be_lost_one_after_another_down_to_one() {
    for count in [2, 3, 4, 5, 8] {
        let lab = Lab::small(11, count);
        let mut pool = lab.created(&lab.all());
        lab.space(&pool, spec("simple", holdfast_model::Layout::Simple, 1, Provisioning::Thin, MIB)).expect("room");
        for lost in 0..count - 1 {
            lab.disks[lost].disappear(Disappearance::PowerLoss);
            let name = format!("after{lost}");
            lab.space(&pool, spec(&name, holdfast_model::Layout::Simple, 1, Provisioning::Thin, MIB))
                .unwrap_or_else(|error| panic!("{lost} of {count} lost: {error}"));
            let before = snapshot(&pool);
            let left: Vec<usize> = (lost + 1..count).collect();
            lab.kill(pool);
            pool = lab.imported(&left);
            assert_eq!(snapshot(&pool), before);
        }
        lab.kill(pool);
        (0..count).for_each(|disk| lab.disks[disk].reappear());
        let stale: Vec<usize> = (0..count - 1).collect();
        assert!(lab.import(&stale).is_err(), "all but the one that knows");
        let pool = lab.imported(&lab.all());
        assert_eq!(pool.spaces().len(), count);
        assert_eq!(pool.status().state, PoolState::Ok);
    }
}

#[test]
fn losing_too_many_at_once_turns_the_pool_read_only() {
    let lab = Lab::small(12, 5);
    let pool = lab.created(&lab.all());
    lab.mirror(&pool, "vm");
    let before = snapshot(&pool);
    (0..3).for_each(|disk| lab.disks[disk].disappear(Disappearance::PowerLoss));
    let name = spec("lost", mirror_of(2), 1, Provisioning::Thin, MIB);
    let error = lab.space(&pool, name.clone()).expect_err("three of five disks are gone");
    assert_eq!(error.kind, PoolErrorKind::NoQuorum);
    assert!(error.context.contains("tank") && error.context.contains("attach"), "{error}");
    assert_eq!(pool.status().state, PoolState::ReadOnly);
    assert_eq!(lab.space(&pool, name).expect_err("read-only now").kind, PoolErrorKind::ReadOnly);
    assert_eq!(snapshot(&pool).spaces, before.spaces);
    lab.kill(pool);
    assert!(lab.import(&[3, 4]).is_err(), "what two of five hold was never agreed upon");
    (0..3).for_each(|disk| lab.disks[disk].reappear());
    let pool = lab.imported(&[0, 1, 2]);
    assert_eq!(snapshot(&pool).spaces, before.spaces);
}

#[test]
fn a_loss_that_could_not_be_agreed_upon_gives_nobody_a_quorum() {
    for count in [2usize, 3, 4, 5] {
        let lab = Lab::small(13, count);
        let pool = lab.created(&lab.all());
        lab.witness.set_reachable(false);
        let lost: Vec<usize> = (1..count).collect();
        lab.run({
            let pool = pool.clone();
            async move {
                // While another change is being written the losses gather, and go into one record.
                let busy = pool.create_space(spec("busy", mirror_of(2), 1, Provisioning::Thin, MIB));
                let outs = (1..count as u16).map(|index| pool.disk_out(index, DiskState::Missing, "pulled"));
                let (_, outs) = futures_util::future::join(busy, futures_util::future::join_all(outs)).await;
                assert!(outs.iter().all(Result::is_err), "{outs:?}");
            }
        });
        lab.kill(pool);
        let alone = lab.import(&[0]).map(drop).expect_err("it decided alone that it is alone");
        assert_eq!(alone.kind, PoolErrorKind::NoQuorum, "{count} disks");
        lab.witness.set_reachable(true);
        lab.imported(&lost);
        lab.sim.kill();
        assert!(lab.import(&[0]).is_err(), "{count} disks: the others went on");
    }
}

#[test]
fn export_is_remembered() {
    let lab = Lab::small(14, 3);
    let pool = lab.created(&lab.all());
    assert!(!pool.was_closed());
    lab.mirror(&pool, "vm");
    let before = snapshot(&pool);
    lab.run({
        let pool = pool.clone();
        async move { pool.export().await }
    })
    .expect("all disks are here");
    let refused = lab.space(&pool, spec("late", mirror_of(2), 1, Provisioning::Thin, MIB)).expect_err("exported");
    assert_eq!(refused.kind, PoolErrorKind::ReadOnly);
    assert!(refused.context.contains("import"), "{refused}");
    lab.kill(pool);
    let pool = lab.imported(&lab.all());
    assert!(pool.was_closed());
    assert_eq!(snapshot(&pool), before);
    lab.kill(pool);
    assert!(!lab.imported(&lab.all()).was_closed(), "it was not closed since");
}

#[test]
fn a_destroyed_pool_leaves_no_trace() {
    let lab = Lab::small(15, 3);
    let pool = lab.created(&lab.all());
    lab.mirror(&pool, "vm");
    lab.run({
        let pool = pool.clone();
        async move { pool.destroy().await }
    })
    .expect("all disks are here");
    assert!(lab.space(&pool, spec("late", mirror_of(2), 1, Provisioning::Thin, MIB)).is_err());
    lab.kill(pool);
    let scan = lab.scan(&lab.all());
    assert_eq!((scan.pools.len(), scan.blank.len(), scan.damaged.len()), (0, 3, 0));
}

#[test]
fn a_wiped_disk_is_blank_and_missing_from_its_pool() {
    let lab = Lab::small(16, 3);
    let pool = lab.created(&lab.all());
    lab.kill(pool);
    let device: std::sync::Arc<dyn Device> = lab.disks[1].clone();
    lab.run(async move { wipe(&device).await }).expect("a good disk");
    let scan = lab.scan(&lab.all());
    assert_eq!((scan.pools.len(), scan.blank.len()), (1, 1));
    assert_eq!(scan.pools[0].missing()[0].serial, serial(1));
    let pool = lab.imported(&[0, 2]);
    assert_eq!(pool.status().state, PoolState::Degraded);
}

#[test]
fn disks_are_added_smaller_and_larger() {
    let mut lab = Lab::new(17, &[96 * MIB, 80 * MIB]);
    let pool = lab.created(&[0, 1]);
    let space = lab.mirror(&pool, "vm");
    lab.row(&pool, space.id, 0).expect("room");
    let small = lab.add_disk(SMALL);
    let large = lab.add_disk(1 << 30);
    let before = pool.status().data_bytes;
    let add = |disks: Vec<usize>| {
        let (pool, candidates) = (pool.clone(), lab.candidates(&disks));
        lab.run(async move { pool.add_disks(candidates).await })
    };
    add(vec![small, large]).expect("good disks");
    assert!(pool.status().data_bytes > before + 900 * MIB);
    for chunk in 1..20 {
        lab.row(&pool, space.id, chunk).expect("room");
    }
    check_allotment(&pool);
    let snap = snapshot(&pool);
    assert_eq!(snap.disks.len(), 4);
    lab.kill(pool);
    assert_eq!(snapshot(&lab.imported(&[3, 2, 1, 0])), snap);
}

#[test]
fn disks_that_cannot_be_added_change_nothing() {
    let mut lab = Lab::small(18, 2);
    let pool = lab.created(&[0, 1]);
    let (good, tiny) = (lab.add_disk(SMALL), lab.add_disk(SMALL - 4096));
    let before = snapshot(&pool);
    let add = |candidates| {
        let pool = pool.clone();
        lab.run(async move { pool.add_disks(candidates).await })
    };
    let too_small = add(lab.candidates(&[good, tiny])).expect_err("64 MiB are the least");
    assert_eq!(too_small.kind, PoolErrorKind::Invalid);
    assert!(too_small.context.contains(&path(tiny)), "{too_small}");
    let twice = add(lab.candidates(&[good, good])).expect_err("the same disk twice");
    assert_eq!(twice.kind, PoolErrorKind::Invalid);
    let alias = vec![lab.candidate(good), lab.candidate_at(good, "/dev/alias")];
    assert_eq!(add(alias).expect_err("the same disk under two names").kind, PoolErrorKind::Invalid);
    let member = add(vec![lab.candidate_at(0, "/dev/alias")]).expect_err("a disk of the pool");
    assert_eq!(member.kind, PoolErrorKind::Invalid);
    assert!(member.context.contains("tank"), "{member}");
    assert_eq!(snapshot(&pool), before);
    add(lab.candidates(&[good])).expect("a good disk");
    lab.kill(pool);
    assert_eq!(lab.imported(&[0, 1, good]).disks().len(), 3);
}

#[test]
fn creating_refuses_what_cannot_be_a_pool() {
    let lab = Lab::new(19, &[SMALL, SMALL - 4096]);
    let of = |candidates| lab.run(Pool::create(lab.env(), named("tank"), candidates)).map(drop);
    assert_eq!(of(Vec::new()).expect_err("no disk").kind, PoolErrorKind::Invalid);
    assert_eq!(of(lab.candidates(&[0, 1])).expect_err("too small").kind, PoolErrorKind::Invalid);
    assert_eq!(of(lab.candidates(&[0, 0])).expect_err("twice").kind, PoolErrorKind::Invalid);
    let alias = vec![lab.candidate(0), lab.candidate_at(0, "/dev/alias")];
    assert_eq!(of(alias).expect_err("twice, under two names").kind, PoolErrorKind::Invalid);
    assert_eq!(lab.disks[0].counters().writes, 0, "nothing was written");
}

#[test]
fn ids_differ_though_the_seed_is_the_same_after_a_restart() {
    let mut lab = Lab::small(20, 2);
    let env = || holdfast_pool::Env { seed: 42, ..lab.env() };
    let pool = lab.run(Pool::create(env(), named("tank"), lab.candidates(&[0, 1]))).expect("good disks");
    let first = lab.mirror(&pool, "first");
    lab.kill(pool);
    let found = lab.found(&[0, 1]);
    let pool = lab.run(Pool::import(env(), found, false)).expect("both disks");
    let second = lab.mirror(&pool, "second");
    assert_ne!(first.uuid, second.uuid);
    lab.add_disk(SMALL);
}

#[test]
fn what_is_known_of_a_disk_can_be_set() {
    let lab = Lab::small(21, 2);
    let pool = lab.created(&[0, 1]);
    let id = pool.disks()[0].record.id;
    let set = |usage| {
        let pool = pool.clone();
        lab.run(async move { pool.set_disk(id, DiskChange { usage: Some(usage), ..DiskChange::default() }).await })
    };
    assert_eq!(set(holdfast_model::Usage::Retired), Ok(true));
    assert_eq!(set(holdfast_model::Usage::Retired), Ok(false));
    assert!(lab.space(&pool, spec("vm", mirror_of(2), 1, Provisioning::Thin, MIB)).is_err(), "one disk takes slabs");
    lab.kill(pool);
    assert_eq!(lab.imported(&[0, 1]).disks()[0].record.usage, holdfast_model::Usage::Retired);
}

#[test]
fn spaces_are_kept_grown_and_removed() {
    let lab = Lab::small(22, 4);
    let pool = lab.created(&lab.all());
    let fixed = lab.space(&pool, spec("fixed", mirror_of(2), 2, Provisioning::Fixed, 10 * MIB)).expect("room");
    assert_eq!(pool.row_count(fixed.id), fixed.chunks() as usize);
    let grow = |size| {
        let pool = pool.clone();
        lab.run(async move { pool.grow_space(fixed.id, size).await })
    };
    assert_eq!(grow(10 * MIB), Ok(false));
    assert_eq!(grow(10 * MIB + 4096), Ok(true));
    assert_eq!(grow(20 * MIB), Ok(true));
    assert_eq!(grow(5 * MIB).expect_err("smaller").kind, PoolErrorKind::Invalid);
    assert_eq!(grow(5 * MIB + 1).expect_err("odd").kind, PoolErrorKind::Invalid);
    let full = grow(1 << 30).expect_err("larger than the disks");
    assert_eq!(full.kind, PoolErrorKind::NoSpace);
    assert!(full.context.contains("tank/fixed"), "{full}");
    check_allotment(&pool);
    let taken = lab.space(&pool, spec("fixed", mirror_of(2), 1, Provisioning::Thin, MIB)).expect_err("taken");
    assert_eq!(taken.kind, PoolErrorKind::Exists);
    let wide = lab.space(&pool, spec("wide", mirror_of(3), 2, Provisioning::Thin, MIB)).expect_err("six disks");
    assert_eq!(wide.kind, PoolErrorKind::Invalid);
    for size in [0, 4095, u64::MAX / 4096 * 4096] {
        let odd = lab.space(&pool, spec("odd", mirror_of(2), 1, Provisioning::Thin, size)).expect_err("odd size");
        assert_eq!(odd.kind, PoolErrorKind::Invalid);
    }
    let before = snapshot(&pool);
    lab.kill(pool);
    let pool = lab.imported(&lab.all());
    assert_eq!(snapshot(&pool), before);
    let all = pool.status().data_bytes;
    lab.run({
        let pool = pool.clone();
        async move { pool.destroy_space(fixed.id).await }
    })
    .expect("not in use");
    assert_eq!(pool.status().free_bytes, all);
}

#[test]
fn a_freed_row_is_free_when_its_last_user_is_gone() {
    let lab = Lab::small(23, 2);
    let pool = lab.created(&[0, 1]);
    let space = lab.mirror(&pool, "vm");
    lab.row(&pool, space.id, 3).expect("room");
    let all = pool.status().data_bytes;
    let freed = lab.run({
        let pool = pool.clone();
        async move { pool.free_row(space.id, 3).await }
    });
    let freed = freed.expect("both disks").expect("it has a row");
    assert!(pool.status().free_bytes < all, "still in use");
    assert_eq!(pool.row(space.id, 3), None);
    drop(freed);
    assert_eq!(pool.status().free_bytes, all);
    let again = lab.run({
        let pool = pool.clone();
        async move { pool.free_row(space.id, 3).await.map(|freed| freed.is_some()) }
    });
    assert_eq!(again, Ok(false));
}

#[test]
fn a_return_that_was_answered_needs_none_of_the_earlier_voters() {
    for failing in [false, true] {
        let lab = Lab::small(24, 2);
        let pool = lab.created(&[0, 1]);
        lab.disks[0].disappear(Disappearance::PowerLoss);
        lab.mirror(&pool, "vm");
        lab.disks[0].reappear();
        let (candidate, back) = (lab.candidate(0), pool.clone());
        lab.run(async move { back.disk_back(candidate).await }).expect("a member that was away");
        let before = snapshot(&pool).spaces;
        lab.kill(pool);
        let disks: &[usize] = if failing { &[0, 1] } else { &[0] };
        if failing {
            lab.disks[1].fail_next_flushes(1);
        }
        assert_eq!(snapshot(&lab.imported(disks)).spaces, before, "the disk that returned is a full member");
    }
}
