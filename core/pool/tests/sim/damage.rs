//! Labels and logs that are damaged, swapped, of another pool, of another size or of a later version.

use std::sync::Arc;

use crate::common::*;
use holdfast_device::Device;
use holdfast_device::sim::{SimDisk, SimDiskSpec};
use holdfast_model::wire::Writer;
use holdfast_model::{DiskState, PoolState, Uuid};
use holdfast_pool::frame::{Frame, Kind};
use holdfast_pool::{Area, Pool, PoolErrorKind, Position};

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Zero,
    Unreadable,
}

fn harm(disk: &SimDisk, offset: u64, damage: Damage) {
    match damage {
        Damage::Flip => disk.corrupt(offset..offset + 130),
        Damage::Zero => disk.poke(offset, &[0; 4096]),
        Damage::Unreadable => {
            disk.fail_reads(offset..offset + 4096, holdfast_device::sim::ErrorPersistence::UntilRewritten);
        }
    }
}

/// A pool of `count` disks whose logs are in their second half, with a history in both, and what it looked like.
fn aged(seed: u64, count: usize) -> (Lab, Snapshot) {
    let lab = Lab::small(seed, count);
    let pool = lab.created(&lab.all());
    let space = lab.mirror(&pool, "vm");
    for chunk in 0..20 {
        lab.row(&pool, space.id, chunk).expect("room");
    }
    for round in 0..40 {
        let (pool, stale) = (pool.clone(), round % 2 == 0);
        lab.run(async move {
            let row = pool.row(space.id, 3).expect("allotted");
            let disk = pool.disk(row.slabs[1].disk()).expect("a member");
            match stale {
                true => pool.mark_stale(space.id, 3, 1).await.map(|()| true),
                false => pool.mark_in_step(space.id, 3, 1, &disk, disk.outages()).await,
            }
        })
        .expect("all disks are here");
    }
    let before = snapshot(&pool);
    lab.kill(pool);
    (lab, before)
}

/// After an import nothing is damaged any more: each disk alone tells the whole story.
fn check_repaired(lab: &Lab, before: &Snapshot) {
    let found = lab.found(&lab.all());
    assert!(found.stale().is_empty(), "every log is at {}", found.position);
    assert!(found.members.iter().all(|member| member.labels_whole == [true; 2]), "every label is whole");
    for disk in lab.all() {
        let alone = lab.found(&[disk]);
        assert_eq!(alone.position, found.position);
        assert_eq!(alone.config.spaces.len(), before.spaces.len(), "disk {disk}");
    }
}

#[test]
fn any_one_block_is_outvoted_and_repaired() {
    for damage in [Damage::Flip, Damage::Zero, Damage::Unreadable] {
        for disk in 0..3 {
            let blocks = metadata_blocks(&Lab::small(0, 1).disks[0], 5);
            for (at, offset) in blocks.into_iter().enumerate() {
                let (lab, before) = aged(at as u64, 3);
                harm(&lab.disks[disk], offset, damage);
                let found = lab.found(&lab.all());
                let harmed = |member: &holdfast_pool::Member| member.labels_whole != [true; 2] || !member.log_whole;
                let noticed = !found.stale().is_empty() || found.members.iter().any(harmed);
                lab.events.take();
                let pool = lab.imported(&lab.all());
                let events = lab.events.take();
                let place = format!("{damage:?} of disk {disk} at {offset}");
                assert_eq!(snapshot(&pool), before, "{place}");
                assert_eq!(pool.status().state, PoolState::Ok, "{place}");
                assert!(at >= 2 || noticed, "{place} was not noticed");
                assert_eq!(noticed, reported(&events, &serial(disk), "written"), "{place}: {events:?}");
                lab.kill(pool);
                check_repaired(&lab, &before);
            }
        }
    }
}

#[test]
fn a_damaged_minority_is_outvoted_and_repaired() {
    for seed in 0..150 {
        let (lab, before) = aged(seed, 5);
        let random = lab.sim.random();
        let mut disks = lab.all();
        random.shuffle(&mut disks);
        for disk in &disks[..2] {
            let blocks = metadata_blocks(&lab.disks[*disk], 24);
            for _ in 0..random.range(1..12u32) {
                let damage = *random.pick(&[Damage::Flip, Damage::Zero, Damage::Unreadable]).expect("three");
                harm(&lab.disks[*disk], *random.pick(&blocks).expect("not empty"), damage);
            }
        }
        let pool = lab.imported(&lab.all());
        assert_eq!(snapshot(&pool).spaces, before.spaces, "seed {seed}");
        check_allotment(&pool);
    }
}

#[test]
fn a_disk_without_any_metadata_is_missing() {
    let (lab, before) = aged(1, 3);
    lab.disks[1].poke(0, &vec![0; 4 << 20]);
    lab.disks[1].poke(SMALL - 4096, &[0; 4096]);
    let scan = lab.scan(&lab.all());
    assert_eq!((scan.blank.len(), scan.pools[0].missing().len()), (1, 1));
    let pool = lab.imported(&lab.all());
    assert_eq!(pool.status().state, PoolState::Degraded);
    let names =
        |snap: &Snapshot| snap.spaces.iter().map(|(space, rows)| (space.clone(), rows.len())).collect::<Vec<_>>();
    assert_eq!(names(&snapshot(&pool)), names(&before));
}

#[test]
fn swapped_labels_are_put_right() {
    for (which, fresh) in [(vec![0], true), (vec![1], true), (vec![0, 1], true), (vec![0, 1], false), (vec![0], false)]
    {
        let (lab, before) = match fresh {
            true => {
                let lab = Lab::new(2, &[SMALL, SMALL + 40 * MIB, SMALL + 4096]);
                let pool = lab.created(&lab.all());
                let before = snapshot(&pool);
                lab.kill(pool);
                (lab, before)
            }
            false => aged(2, 3),
        };
        for label in &which {
            let offset =
                |disk: usize| Area::of_disk("", lab.disks[disk].spec().size_bytes).expect("fits").labels()[*label];
            let blocks = [0, 1].map(|disk| lab.disks[disk].peek(offset(disk), 4096));
            lab.disks[0].poke(offset(0), &blocks[1]);
            lab.disks[1].poke(offset(1), &blocks[0]);
        }
        let found = lab.found(&lab.all());
        assert_eq!((found.members.len(), found.duplicates.len()), (3, 0), "labels {which:?}");
        let pool = lab.imported(&lab.all());
        assert_eq!(snapshot(&pool), before, "labels {which:?}");
        lab.kill(pool);
        check_repaired(&lab, &before);
    }
}

#[test]
fn labels_of_another_pool_are_outvoted() {
    let lab = Lab::small(3, 4);
    let other = lab.create("other", &[3]).expect("a good disk");
    drop(other);
    let pool = lab.created(&[0, 1, 2]);
    lab.mirror(&pool, "vm");
    let before = snapshot(&pool);
    lab.kill(pool);
    for offset in [0, SMALL - 4096] {
        let strange = lab.disks[3].peek(offset, 4096);
        lab.disks[0].poke(offset, &strange);
    }
    let scan = lab.scan(&lab.all());
    assert_eq!((scan.pools.len(), scan.damaged.len()), (2, 0));
    let pool = lab.imported(&[0, 1, 2]);
    assert_eq!(snapshot(&pool), before);
    lab.kill(pool);
    check_repaired_of(&lab, &[0, 1, 2]);
}

fn check_repaired_of(lab: &Lab, disks: &[usize]) {
    let found = lab.found(disks);
    assert!(found.stale().is_empty() && found.members.iter().all(|member| member.labels_whole == [true; 2]));
}

/// A disk of another size with the same content at its front.
fn resized(lab: &Lab, disk: usize, size_bytes: u64) -> Arc<SimDisk> {
    let copy = SimDisk::new(&lab.sim, SimDiskSpec { size_bytes, ..lab.disks[disk].spec().clone() });
    copy.poke(0, &lab.disks[disk].peek(0, size_bytes.min(lab.disks[disk].spec().size_bytes) as usize));
    copy
}

#[test]
fn a_shrunk_disk_is_refused_and_said_so() {
    for size in [SMALL - 4096, SMALL / 2, 8192] {
        for front_damaged in [false, true] {
            let (mut lab, before) = aged(4, 3);
            let small = resized(&lab, 1, size);
            if front_damaged {
                small.poke(0, &[0; 4096]);
            }
            lab.disks[1] = small;
            let scan = lab.scan(&lab.all());
            assert_eq!(scan.pools[0].members.len(), 2, "{size}");
            if !front_damaged {
                let (_, why) = &scan.damaged[0];
                assert!(why.contains(&size.to_string()) && why.contains(&SMALL.to_string()), "{why}");
            }
            let pool = lab.imported(&lab.all());
            assert_eq!(snapshot(&pool).spaces.len(), before.spaces.len());
            assert_eq!(pool.status().state, PoolState::Degraded);
        }
    }
}

#[test]
fn a_grown_disk_is_still_a_member() {
    let (mut lab, before) = aged(5, 3);
    lab.disks[1].grow(1 << 30);
    let pool = lab.imported(&lab.all());
    assert_eq!(snapshot(&pool), before);
    lab.kill(pool);
    let device: Arc<dyn Device> = lab.disks[1].clone();
    lab.run(async move { holdfast_pool::wipe(&device).await }).expect("a good disk");
    assert_eq!(lab.scan(&[1]).blank.len(), 1);
    lab.add_disk(SMALL);
}

#[test]
fn without_a_majority_of_logs_nothing_is_believed_and_nothing_written() {
    let (lab, before) = aged(6, 5);
    let area = Area::of_disk("", SMALL).expect("a member's size");
    let kept: Vec<Vec<u8>> = (0..3).map(|disk| lab.disks[disk].peek(0, 4 << 20)).collect();
    for disk in 0..3 {
        area.log_heads().into_iter().for_each(|head| lab.disks[disk].poke(head, &[0; 4096]));
    }
    let writes: Vec<u64> = lab.disks.iter().map(|disk| disk.counters().writes).collect();
    let error = lab.import(&lab.all()).map(drop).expect_err("two of five logs");
    assert_eq!(error.kind, PoolErrorKind::NoQuorum);
    assert!(error.context.contains("damaged") && error.context.contains(&serial(0)), "{error}");
    assert!(!error.context.contains("attach the missing disks"), "{error}");
    assert_eq!(lab.disks.iter().map(|disk| disk.counters().writes).collect::<Vec<_>>(), writes);
    (0..3).for_each(|disk| lab.disks[disk].poke(0, &kept[disk]));
    assert_eq!(snapshot(&lab.imported(&lab.all())), before);
}

#[test]
fn no_log_at_all_is_said_clearly() {
    let (lab, _) = aged(7, 2);
    let area = Area::of_disk("", SMALL).expect("a member's size");
    for disk in &lab.disks {
        area.log_heads().into_iter().for_each(|head| disk.poke(head, &[0; 4096]));
    }
    let scan = lab.scan(&lab.all());
    assert_eq!((scan.pools.len(), scan.damaged.len(), scan.strays.len()), (0, 0, 2));
    let unusable: Vec<_> = scan.unusable().collect();
    assert!(unusable[0].1.contains("metadata log is damaged"), "{}", unusable[0].1);
}

fn relabel(disk: &SimDisk, pool: Uuid, id: Uuid, features: [u64; 3]) {
    for offset in Area::of_disk("", SMALL).expect("a member's size").labels() {
        let mut writer = Writer::new();
        writer.u64(SMALL).u64(9);
        features.iter().for_each(|flags| {
            writer.u64(*flags);
        });
        let position = Position { generation: 9, sequence: 0 };
        let frame = Frame { kind: Kind::Label, pool, disk: id, offset, position, previous: 0 };
        disk.poke(offset, &frame.seal(&writer.into_bytes()));
    }
}

#[test]
fn features_of_a_later_version_are_refused() {
    for (features, refused) in [([1, 0, 0], false), ([0, 4, 0], false), ([0, 0, 1 << 63], true)] {
        let lab = Lab::small(8, 2);
        let pool = lab.created(&[0, 1]);
        let (id, first) = (pool.id(), pool.disks()[0].record.id);
        lab.kill(pool);
        relabel(&lab.disks[0], id, first, features);
        let scan = lab.scan(&[0]);
        assert_eq!(
            (scan.pools.len(), scan.damaged.len()),
            (usize::from(!refused), usize::from(refused)),
            "{features:?}"
        );
        if refused {
            let (why, flags) = (&scan.damaged[0].1, format!("{:#x}", features[2]));
            assert!(why.contains("later version") && why.contains(&flags), "{why}");
        }
    }
}

#[test]
fn a_later_version_is_not_taken_for_blank() {
    let lab = Lab::small(9, 1);
    drop(lab.created(&[0]));
    for offset in metadata_blocks(&lab.disks[0], 1) {
        lab.disks[0].poke(offset + 10, &[2, 0]);
    }
    let scan = lab.scan(&[0]);
    assert_eq!((scan.blank.len(), scan.damaged.len()), (0, 1));
    assert!(scan.damaged[0].1.contains("later version"));
}

#[test]
fn a_disk_that_cannot_be_read_is_not_taken_for_blank() {
    let lab = Lab::small(10, 3);
    let pool = lab.created(&[0, 1, 2]);
    lab.kill(pool);
    lab.disks[2].fail_everything();
    let scan = lab.scan(&lab.all());
    assert_eq!((scan.blank.len(), scan.damaged.len(), scan.pools.len()), (0, 1, 1));
    assert!(scan.damaged[0].1.contains("cannot be read"), "{}", scan.damaged[0].1);
    lab.imported(&lab.all());
}

#[test]
fn a_flush_that_fails_at_import_costs_that_disk_only() {
    let (lab, before) = aged(11, 3);
    lab.disks[0].fail_next_flushes(1);
    let pool = lab.imported(&lab.all());
    assert_eq!(pool.status().state, PoolState::Degraded);
    assert_eq!(snapshot(&pool).spaces.len(), before.spaces.len());
}

#[test]
fn a_small_disk_is_blank() {
    let lab = Lab::new(12, &[4096, 1 << 20]);
    assert_eq!(lab.scan(&[0, 1]).blank.len(), 2);
    let created = lab.run(Pool::create(lab.env(), named("tank"), lab.candidates(&[1]))).map(drop);
    assert_eq!(created.expect_err("too small").kind, PoolErrorKind::Invalid);
}

/// A disk whose log tells nothing any more and that one label alone names is taken back, its log and labels made anew,
/// and nothing that it missed is believed.
#[test]
fn a_disk_that_only_a_label_names_is_taken_back() {
    for label in 0..2 {
        let (lab, _) = aged(7, 3);
        let pool = lab.imported(&lab.all());
        let record = pool
            .disks()
            .into_iter()
            .map(|disk| disk.record)
            .find(|record| record.serial == serial(1))
            .expect("a member");
        let outed = pool.clone();
        lab.run(async move { outed.disk_out(record.index, DiskState::Failed, "pulled").await })
            .expect("a quorum is left");
        let missed = all_rows(&pool, 1);
        let blocks = metadata_blocks(&lab.disks[1], 1);
        blocks[2..].iter().for_each(|block| harm(&lab.disks[1], *block, Damage::Zero));
        harm(&lab.disks[1], blocks[1 - label], Damage::Unreadable);
        let refused = {
            let (pool, candidate) = (pool.clone(), lab.candidate(1));
            lab.run(async move { pool.add_disks(vec![candidate]).await }).expect_err("it is a member")
        };
        assert!(refused.context.contains("is in pool tank already"), "{refused}");
        let (back, candidate) = (pool.clone(), lab.candidate(1));
        lab.run(async move { back.disk_back(candidate).await }).expect("its label names it");
        assert_eq!(all_rows(&pool, 1), missed, "what it missed stays stale");
        assert_eq!(pool.status().state, PoolState::Ok);
        lab.kill(pool);
        assert!(lab.found(&lab.all()).stale().is_empty() && lab.found(&[1]).members[0].labels_whole == [true; 2]);
    }
}

/// A disk whose log cannot be read but whose label promised more than this pool ever asked for was with another one.
#[test]
fn a_disk_that_promised_itself_elsewhere_is_not_taken_back() {
    let (lab, _) = aged(8, 3);
    lab.disks[1].disappear(holdfast_device::sim::Disappearance::Cable);
    let pool = lab.imported(&[0, 2]);
    lab.kill(pool);
    lab.disks[1].reappear();
    lab.witness.set_reachable(false);
    let elsewhere = lab.force(&[1]).expect("forced");
    lab.kill(elsewhere);
    for block in &metadata_blocks(&lab.disks[1], 1)[2..] {
        harm(&lab.disks[1], *block, Damage::Zero);
    }
    let pool = lab.imported(&[0, 2]);
    let candidate = lab.candidate(1);
    let error = lab.run(async move { pool.disk_back(candidate).await }).expect_err("it was elsewhere");
    assert!(error.kind == PoolErrorKind::Damaged && error.context.contains("promise of generation"), "{error}");
}
