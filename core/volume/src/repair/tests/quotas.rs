//! Verbs of what quotas are held against, and limits that outlive the node that they stand in.

use super::*;
use crate::QUOTA_TREE;
use crate::quota::{Limits, QuotaState, Subject};

/// The key of what user 0 takes, and of the mark that all was counted.
const TAKEN: [u8; 6] = [2, 1, 0, 0, 0, 0];
const COUNTED: [u8; 1] = [0];
const LIMITS: Limits =
    Limits { hard_bytes: Some(1 << 20), soft_bytes: None, hard_files: Some(50), soft_files: Some(40) };

fn used(volume: &Volume, subject: Subject) -> (u64, u64) {
    let found = volume.quotas().into_iter().find(|quota| quota.subject == subject);
    found.map_or((0, 0), |quota| (quota.used_bytes / BLOCK as u64, quota.used_files))
}

#[test]
fn what_is_taken_is_counted_anew() {
    with(async |world| {
        assert_eq!(used(&world.volume, Subject::User(0)), (16, 7));
        world.damage(|view| view.put(QUOTA_TREE, TAKEN.to_vec(), vec![9; 16])).await;
        world.repaired(Verb::QuotaWrong { subject: Subject::User(0) }).await;
        let nobody = [2, 2, 0, 0, 0, 77];
        world.damage(|view| view.put(QUOTA_TREE, nobody.to_vec(), vec![9; 16])).await;
        world.repaired(Verb::QuotaWrong { subject: Subject::Group(77) }).await;
        let again = open(&world.disk).await;
        assert_eq!((used(&again, Subject::User(0)), used(&again, Subject::Group(77))), ((16, 7), (0, 0)));
    });
}

#[test]
fn a_volume_of_an_earlier_version_is_counted_when_it_gets_its_first_quota() {
    with(async |world| {
        world
            .damage(|view| {
                view.remove(QUOTA_TREE, COUNTED.to_vec())?;
                view.remove(QUOTA_TREE, TAKEN.to_vec())?;
                view.remove(QUOTA_TREE, vec![2, 2, 0, 0, 0, 0])
            })
            .await;
        world.volume.checkpoint().await.expect("it lasts");
        let again = open(&world.disk).await;
        assert!(!again.is_counted());
        again.create(&Caller::default(), world.dir, b"new", &FILE).await.expect("made");
        assert_eq!(again.scan().await, Ok(Vec::new()), "what is not counted is not wrong");
        assert_eq!(again.quotas(), []);
        again.set_quota(Subject::User(1), LIMITS).await.expect("set");
        assert_eq!((again.is_counted(), used(&again, Subject::User(0))), (true, (16, 8)));
        assert_eq!(again.scan().await, Ok(Vec::new()));
        again.checkpoint().await.expect("it lasts");
        let last = open(&world.disk).await;
        assert_eq!((last.is_counted(), used(&last, Subject::User(0))), (true, (16, 8)));
    });
}

#[test]
fn limits_outlive_the_node_that_they_stand_in_as_long_as_the_volume_is_open() {
    with(async |world| {
        world.volume.set_quota(Subject::User(1), LIMITS).await.expect("set");
        world.volume.set_tree_quota(world.dir, LIMITS).await.expect("set");
        world.volume.settle_quotas().await.expect("walked");
        world.volume.checkpoint().await.expect("it lasts");
        let before = world.volume.quotas();
        let place = world.volume.store.place_of(QUOTA_TREE, &COUNTED).await;
        world.disk.poke(place.expect("read").expect("it is there") + 9000, &[0x55; 64]);
        assert_eq!(world.volume.spotfix_offline().await.expect("repaired").left, Vec::new());
        assert_eq!(world.volume.quotas(), before);
        world.finds(&[]).await;
        let again = open(&world.disk).await;
        assert_eq!(again.quotas(), before);
        // Lost while nobody had it in memory, limits are gone; what is taken is counted again.
        again.checkpoint().await.expect("it lasts");
        let place = again.store.place_of(QUOTA_TREE, &COUNTED).await;
        world.disk.poke(place.expect("read").expect("it is there") + 9000, &[0x55; 64]);
        let last = open(&world.disk).await;
        assert!(!last.is_counted());
        last.create(&Caller::default(), world.volume.root(), b"new", &FILE).await.expect("it can be used");
        assert_eq!(last.spotfix_offline().await.expect("repaired").left, Vec::new());
        assert_eq!((last.is_counted(), used(&last, Subject::User(0))), (true, (16, 8)));
        assert!(last.quotas().iter().all(|quota| quota.limits.is_none() && quota.state == QuotaState::Settled));
        assert_eq!(last.scan().await, Ok(Vec::new()));
    });
}
