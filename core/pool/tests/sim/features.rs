//! Features that a pool uses: in labels and configuration, of new and of older pools, and through power cuts.

use std::sync::Arc;

use crate::common::*;
use holdfast_model::PoolState;
use holdfast_pool::frame::Frame;
use holdfast_pool::{Area, Feature, Features, Pool, PoolErrorKind};

/// Where the incompatible flags stand in a label.
const INCOMPATIBLE_AT: u64 = 96 + 32;

fn flags(lab: &Lab, disk: usize) -> [u64; 2] {
    Area::of_disk("", SMALL).expect("a member's size").labels().map(|label| {
        let bytes = lab.disks[disk].peek(label + INCOMPATIBLE_AT, 8);
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    })
}

fn older(lab: &Lab, disks: &[usize]) -> Arc<Pool> {
    let made = Pool::create_with(lab.env(), named("tank"), lab.candidates(disks), Features::NONE);
    lab.run(made).expect("a pool of good disks")
}

fn upgrade(lab: &Lab, pool: &Arc<Pool>) -> Result<bool, holdfast_pool::PoolError> {
    let pool = pool.clone();
    lab.run(async move { pool.upgrade().await })
}

fn note(lab: &Lab, pool: &Arc<Pool>) -> Result<bool, holdfast_pool::PoolError> {
    let pool = pool.clone();
    lab.run(async move { pool.set_document("note", Some(b"kept".to_vec())).await })
}

#[test]
fn a_new_pool_uses_all_that_is_known() {
    let mut lab = Lab::small(1, 2);
    let pool = lab.created(&[0, 1]);
    assert_eq!((pool.features(), pool.features().missing()), (Features::known(), Vec::new()));
    assert_eq!(upgrade(&lab, &pool), Ok(false));
    let added = lab.add_disk(SMALL);
    let (shared, candidates) = (pool.clone(), lab.candidates(&[added]));
    lab.run(async move { shared.add_disks(candidates).await }).expect("a good disk");
    lab.kill(pool);
    assert!((0..3).all(|disk| flags(&lab, disk) == [Features::known().incompatible; 2]), "every label says so");
    assert_eq!(lab.imported(&lab.all()).features(), Features::known());
}

#[test]
fn an_older_pool_is_asked_to_be_upgraded_first() {
    let lab = Lab::small(2, 2);
    let pool = older(&lab, &[0, 1]);
    let refused = note(&lab, &pool).expect_err("an old reader would not know the change");
    assert!(
        refused.kind == PoolErrorKind::Invalid && refused.context.contains("holdfast pool upgrade tank"),
        "{refused}"
    );
    lab.kill(pool);
    let pool = lab.imported(&[0, 1]);
    assert_eq!((pool.features(), flags(&lab, 0)), (Features::NONE, [0; 2]));
    assert_eq!(pool.features().missing(), Feature::ALL);
    assert_eq!((upgrade(&lab, &pool), upgrade(&lab, &pool)), (Ok(true), Ok(false)));
    assert_eq!(note(&lab, &pool), Ok(true));
    let before = snapshot(&pool);
    lab.kill(pool);
    let pool = lab.imported(&[0, 1]);
    assert_eq!((snapshot(&pool), pool.features()), (before, Features::known()));
}

#[test]
fn the_labels_say_so_before_the_configuration_does() {
    for writes in 0.. {
        let lab = Lab::small(writes, 3);
        let pool = older(&lab, &lab.all());
        lab.sim.cut_power_after(writes);
        let upgrading = pool.clone();
        let over = lab.sim.run(async move { upgrading.upgrade().await }).is_ok();
        drop(pool);
        lab.sim.restart();
        let labelled = (0..3).filter(|disk| flags(&lab, *disk).contains(&Features::known().incompatible)).count();
        let found = lab.found(&lab.all());
        assert!(found.config.features == Features::NONE || labelled == 3, "after {writes} writes: {labelled} labels");
        let pool = lab.imported(&lab.all());
        let flag = pool.features().incompatible;
        assert!(
            (0..3).all(|disk| flags(&lab, disk) == [flag; 2]),
            "after {writes} writes: labels and configuration agree again"
        );
        if over {
            assert_eq!(pool.features(), Features::known());
            assert!(writes > 6, "both labels of three disks were written");
            return;
        }
    }
}

#[test]
fn a_disk_that_was_away_learns_of_it() {
    let lab = Lab::small(5, 3);
    let pool = older(&lab, &lab.all());
    lab.kill(pool);
    let pool = lab.imported(&[0, 1]);
    assert_eq!(upgrade(&lab, &pool), Ok(true));
    assert_eq!(flags(&lab, 2), [0; 2]);
    let (shared, candidate) = (pool.clone(), lab.candidate(2));
    lab.run(async move { shared.disk_back(candidate).await }).expect("a member");
    assert_eq!(flags(&lab, 2), [Features::known().incompatible; 2]);
}

#[test]
fn a_label_that_cannot_be_written_leaves_the_pool_as_it_was() {
    let lab = Lab::small(6, 2);
    let pool = older(&lab, &[0, 1]);
    lab.disks[1].fail_next_writes(1);
    let refused = upgrade(&lab, &pool).expect_err("one label is not written");
    assert!(refused.context.contains("SERIAL001") && pool.features() == Features::NONE, "{refused}");
    assert_eq!(upgrade(&lab, &pool), Ok(true));
}

/// Writes read-only flags of a later version into both labels of a disk.
fn mark_for_reading(lab: &Lab, disk: usize, flags: u64) {
    for at in Area::of_disk("", SMALL).expect("a member's size").labels() {
        let block = lab.disks[disk].peek(at, 4096);
        let (header, payload) = Frame::open_inline(&block).expect("a whole label");
        let mut payload = payload.to_vec();
        payload[24..32].copy_from_slice(&flags.to_le_bytes());
        lab.disks[disk].poke(at, &header.frame.seal(&payload));
    }
}

#[test]
fn a_pool_that_a_later_version_writes_is_only_read() {
    let lab = Lab::small(7, 2);
    let pool = lab.created(&[0, 1]);
    let space = lab.mirror(&pool, "vm").id;
    lab.row(&pool, space, 0).expect("room");
    let before = snapshot(&pool);
    let closing = pool.clone();
    lab.run(async move { closing.export().await }).expect("a quorum");
    lab.kill(pool);
    (0..2).for_each(|disk| mark_for_reading(&lab, disk, 8));
    let pool = lab.imported(&[0, 1]);
    assert_eq!(snapshot(&pool), before);
    let status = pool.status();
    let condition = status.conditions.first().expect("a reason");
    assert!(status.state == PoolState::ReadOnly && condition.cause.contains("read-only flags 0x8"), "{condition:?}");
    assert!(condition.next_action.contains("later version"), "{condition:?}");
    let refused = lab.row(&pool, space, 1).expect_err("nothing is changed");
    assert_eq!(refused.kind, PoolErrorKind::ReadOnly);
    assert_eq!(upgrade(&lab, &pool).map_err(|error| error.kind), Ok(false));
    lab.kill(pool);
    assert_eq!(
        lab.sim.device_writes(),
        {
            lab.imported(&[0, 1]);
            lab.sim.device_writes()
        },
        "an import writes nothing"
    );
}

#[test]
fn a_pool_that_needs_repair_is_left_to_the_later_version() {
    let lab = Lab::small(8, 2);
    let pool = lab.created(&[0, 1]);
    lab.kill(pool);
    mark_for_reading(&lab, 0, 1 << 40);
    let refused = lab.import(&[0, 1]).err().expect("it was not closed");
    let says = |part: &str| refused.context.contains(part);
    assert!(says("0x10000000000") && says("was not exported") && says("use that version"), "{refused}");
}
