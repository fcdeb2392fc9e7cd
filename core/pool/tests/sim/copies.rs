//! Blocks of the reserved area that go bad one at a time, and disks that were all set back together: what is opened is
//! the newest configuration, or it is said that it is not.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::*;
use holdfast_device::sim::{ErrorPersistence, SimDisk};
use holdfast_model::PoolState;
use holdfast_pool::frame::Frame;
use holdfast_pool::{Area, Feature, Features, Pool, PoolErrorKind, Severity};

const BLOCK: u64 = 4096;

fn area() -> Area {
    Area::of_disk("", SMALL).expect("a member's size")
}

/// Every block that is no slab's.
fn reserved() -> Vec<u64> {
    (0..area().reserved_bytes).step_by(BLOCK as usize).chain([SMALL - BLOCK]).collect()
}

fn bad(disk: &SimDisk, offset: u64, how: u64) {
    match how % 3 {
        0 => disk.poke(offset, &[0; BLOCK as usize]),
        1 => disk.poke(offset, &[0xa5; BLOCK as usize]),
        _ => disk.fail_reads(offset..offset + BLOCK, ErrorPersistence::UntilRewritten),
    }
}

/// A pool that was closed in good order, and what it looked like.
fn closed(seed: u64, count: usize, features: Features) -> (Lab, Snapshot) {
    let lab = Lab::small(seed, count);
    let made = Pool::create_with(lab.env(), named("tank"), lab.candidates(&lab.all()), features);
    let pool = lab.run(made).expect("a pool of good disks");
    let space =
        lab.space(&pool, spec("vm", holdfast_model::Layout::Simple, 1, holdfast_model::Provisioning::Thin, MIB));
    let space = space.expect("room").id;
    for chunk in 0..pool.space(space).expect("made").chunks().min(4) {
        lab.row(&pool, space, chunk).expect("room");
    }
    let closing = pool.clone();
    lab.run(async move {
        if closing.features().has(Feature::Documents) {
            closing.set_document("volume/v", Some(vec![7; 9000])).await.expect("room");
            closing.set_document("mount", Some(b"/srv".to_vec())).await.expect("room");
        }
        closing.export().await
    })
    .expect("a quorum");
    let before = snapshot(&pool);
    lab.kill(pool);
    lab.events.take();
    (lab, before)
}

fn documents(pool: &Pool) -> usize {
    pool.documents("").len()
}

/// The blocks that are in use of the reserved area of a disk: both labels, and what is in each copy of the log.
fn in_use(disk: &SimDisk) -> BTreeSet<u64> {
    let mut used = BTreeSet::from(area().labels());
    for head in area().log_heads() {
        let mut at = head;
        while let Ok(header) = Frame::open(&disk.peek(at, BLOCK as usize)) {
            let end = at + ((header.payload_at + header.payload_len) as u64).next_multiple_of(BLOCK);
            used.extend((at..end).step_by(BLOCK as usize));
            at = end;
        }
    }
    used
}

#[test]
fn any_block_of_the_reserved_area_may_go_bad() {
    for count in 1..=3usize {
        let used_blocks = in_use(&closed(1, count, Features::known()).0.disks[0]);
        assert!(used_blocks.len() > 20, "two labels, and two copies of the log: {used_blocks:?}");
        for (at, offset) in reserved().into_iter().enumerate() {
            let used = used_blocks.contains(&offset);
            for how in if used { 0..3 } else { at as u64..at as u64 + 1 } {
                let (lab, before) = closed(1, count, Features::known());
                bad(&lab.disks[at % count], offset, how);
                let place = format!("{count} disks, block at {offset}, in way {}", how % 3);
                let pool = lab.import(&lab.all()).unwrap_or_else(|error| panic!("{place}: {error}"));
                assert_eq!((snapshot(&pool), documents(&pool)), (before, 2), "{place}");
                assert_eq!(pool.status().state, PoolState::Ok, "{place}");
                let events = lab.events.take();
                let told = !at_least(&events, Severity::Warning).is_empty();
                assert!(told || !used, "{place} was not told");
                lab.kill(pool);
                let again = lab.found(&lab.all());
                assert!(again.members.iter().all(|member| member.log_whole && member.labels_whole == [true; 2]));
            }
        }
    }
}

/// Pools of earlier versions have one copy: what a bad block takes away is missed, and never silently.
#[test]
fn an_older_pool_says_what_it_lacks() {
    let older = Feature::Documents.flag();
    let (sample, _) = closed(2, 1, older);
    let (mut refused, mut lost, mut whole) = (0, 0, 0);
    for offset in in_use(&sample.disks[0]) {
        for how in 0..3 {
            let (lab, before) = closed(2, 1, older);
            bad(&lab.disks[0], offset, how);
            let place = format!("block at {offset}, in way {how}");
            let mut scan = lab.scan(&[0]);
            let Some(found) = scan.pools.pop() else {
                let (_, why) = scan.unusable().next().expect("it is not blank");
                assert!(why.contains("metadata log is damaged") && !why.contains("wipe"), "{place}: {why}");
                lost += 1;
                continue;
            };
            match lab.run(Pool::import(lab.env(), found, false)) {
                Ok(pool) => {
                    assert_eq!((snapshot(&pool), documents(&pool)), (before, 2), "{place}");
                    whole += 1;
                }
                Err(error) => {
                    assert!(error.kind == PoolErrorKind::Incomplete && error.context.contains("damage"), "{error}");
                    assert!(!error.context.contains("wipe"), "{error}");
                    let pool = lab.force(&[0]).unwrap_or_else(|error| panic!("{place}, with force: {error}"));
                    let events = lab.events.take();
                    assert!(reported(&events, "tank", "imported with force"), "{place}: {events:?}");
                    assert_eq!(lab.witness.record(pool.id()).map(|record| record.tip), Some(pool.status().position));
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 6 && lost >= 3 && whole >= 6, "{refused} refused, {lost} lost, {whole} whole");
}

#[test]
fn an_upgrade_makes_the_second_copy() {
    let (lab, _) = closed(3, 1, Feature::Documents.flag());
    let pool = lab.imported(&[0]);
    let upgraded = pool.clone();
    assert_eq!(lab.run(async move { upgraded.upgrade().await }), Ok(true));
    let before = snapshot(&pool);
    lab.kill(pool);
    assert!(lab.found(&[0]).members[0].log_whole);
    let heads = area().log_heads().map(|at| lab.disks[0].peek(at, 8) == *b"HOLDFAST");
    assert!(heads == [true, true, false, false] || heads == [false, false, true, true], "{heads:?}");
    for head in area().log_heads() {
        bad(&lab.disks[0], head, 1);
        let pool = lab.imported(&[0]);
        assert_eq!(snapshot(&pool), before);
        lab.kill(pool);
    }
}

fn image(lab: &Lab) -> Vec<Vec<u8>> {
    lab.disks.iter().map(|disk| disk.peek(0, SMALL as usize)).collect()
}

fn restore(lab: &Lab, images: &[Vec<u8>]) {
    lab.disks.iter().zip(images).for_each(|(disk, image)| disk.poke(0, image));
}

#[test]
fn disks_that_were_all_set_back_are_not_believed_against_the_witness() {
    for count in 1..=4 {
        let lab = Lab::small(4, count);
        let pool = lab.created(&lab.all());
        let older = image(&lab);
        let made =
            lab.space(&pool, spec("vm", holdfast_model::Layout::Simple, 1, holdfast_model::Provisioning::Thin, MIB));
        made.expect("room");
        let (closing, id) = (pool.clone(), pool.id());
        lab.run(async move { closing.export().await }).expect("a quorum");
        let latest = pool.status().position;
        lab.kill(pool);
        let newer = image(&lab);
        restore(&lab, &older);
        let known = lab.witness.record(id);
        let end = lab.found(&lab.all()).position;
        let error = lab.import(&lab.all()).map(drop).expect_err("the witness knows better");
        let says = |text: String| error.context.contains(&text);
        assert!(
            error.kind == PoolErrorKind::Incomplete && says(end.to_string()) && says(latest.to_string()),
            "{error}"
        );
        assert_eq!(lab.witness.record(id), known, "the witness keeps what it knows");
        // The disks as they were last are taken again.
        restore(&lab, &newer);
        let pool = lab.imported(&lab.all());
        assert_eq!(pool.spaces().len(), 1);
        lab.kill(pool);
        restore(&lab, &older);
        let pool = lab.force(&lab.all()).expect("forced");
        assert!(reported(&lab.events.take(), "tank", "imported with force"));
        let position = pool.status().position;
        assert_eq!((pool.spaces().len(), lab.witness.record(id).map(|record| record.tip)), (0, Some(position)));
        lab.kill(pool);
        lab.imported(&lab.all());
    }
}

/// While data is written the witness hears at least as often as the disks of how far the pool is.
#[test]
fn a_stamp_tells_the_witness_whatever_the_number_of_disks() {
    for count in 1..=3 {
        let lab = Lab::small(5, count);
        let pool = lab.created(&lab.all());
        let older = image(&lab);
        let (stamped, now): (Arc<Pool>, _) = (pool.clone(), lab.sim.clock());
        lab.run(async move {
            now.sleep(std::time::Duration::from_secs(11)).await;
            stamped.stamp(now.now()).await
        })
        .expect("a quorum");
        lab.kill(pool);
        restore(&lab, &older);
        assert_eq!(lab.import(&lab.all()).map(drop).expect_err("set back").kind, PoolErrorKind::Incomplete);
    }
}
