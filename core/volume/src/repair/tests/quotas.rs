//! Verbs of what quotas are held against, and limits that outlive the node that they stand in.

use holdfast_identity::sddl;

use super::*;
use crate::QUOTA_TREE;
use crate::quota::{Limits, QuotaState, Subject};
use crate::service::SecurityParts;

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

const SID: &str = "S-1-5-21-1-2-3-1000";

/// The key of what the files of a descriptor take.
const OF_DESCRIPTOR: [u8; 6] = [2, 4, 0, 0, 0, 1];

async fn give(volume: &Volume, file: FileId, owner: &str) {
    let given = sddl::parse(&format!("O:{owner}G:WDD:(A;;FA;;;WD)"), None).expect("a descriptor");
    let parts = SecurityParts::OWNER | SecurityParts::GROUP | SecurityParts::DACL;
    volume.set_security(&Caller::default(), file, parts, &given).await.expect("set");
}

#[test]
fn what_owners_without_a_number_take_is_counted_anew() {
    with(async |world| {
        let whose = Subject::Sid(SID.parse().expect("a SID"));
        give(&world.volume, world.data, SID).await;
        world.volume.checkpoint().await.expect("it lasts");
        assert_eq!(used(&world.volume, whose), (8, 1));
        world.damage(|view| view.put(QUOTA_TREE, OF_DESCRIPTOR.to_vec(), vec![9; 16])).await;
        world.repaired(Verb::QuotaWrong { subject: whose }).await;
        let kept = Verb::QuotaWrong { subject: whose };
        assert_eq!(Verb::decode(&kept.encode()), Ok(kept));
        // Of no descriptor that there is.
        world.damage(|view| view.put(QUOTA_TREE, vec![2, 4, 0, 0, 9, 9], vec![9; 16])).await;
        world.repaired(Verb::QuotaWrong { subject: Subject::User(65_534) }).await;
        let again = open(&world.disk).await;
        assert_eq!(used(&again, whose), (8, 1));
    });
}

#[test]
fn owners_that_an_earlier_version_counted_as_one_user_are_told_apart_from_the_first_limit_on() {
    for by_limit in [true, false] {
        with(async move |world| {
            let whose = Subject::Sid(SID.parse().expect("a SID"));
            give(&world.volume, world.data, SID).await;
            give(&world.volume, world.deep, "S-1-22-1-65534").await;
            world.volume.checkpoint().await.expect("it lasts");
            // As it would have counted them, in memory and in the tree.
            let nobody = [2, 1, 0, 0, 0xff, 0xfe];
            let (some, nothing) = ([8u64.to_le_bytes(), 2u64.to_le_bytes()].concat(), vec![0; 16]);
            let of_other = [2, 4, 0, 0, 0, 2];
            let store = &world.volume.store;
            for (key, value) in
                [(&COUNTED[..], &[1][..]), (&nobody, &some), (&OF_DESCRIPTOR, &nothing), (&of_other, &nothing)]
            {
                store.ledger.load(key, value);
            }
            store.ledger.loaded(&store.descriptors.owners());
            world
                .damage(|view| {
                    view.put(QUOTA_TREE, COUNTED.to_vec(), vec![1])?;
                    view.remove(QUOTA_TREE, OF_DESCRIPTOR.to_vec())?;
                    view.remove(QUOTA_TREE, of_other.to_vec())?;
                    view.put(QUOTA_TREE, nobody.to_vec(), some.clone())
                })
                .await;
            world.volume.checkpoint().await.expect("it lasts");
            let image = world.disk.image();
            drop(open(&world.disk).await);
            let again = open(&world.disk).await;
            assert!(again.is_counted() && !again.are_owners_counted());
            assert_eq!(again.scan().await, Ok(Vec::new()), "it is right by the rules of then");
            assert_eq!((used(&again, whose), used(&again, Subject::User(65_534))), ((0, 0), (8, 2)));
            again.set_quota(Subject::User(1), LIMITS).await.expect("set");
            assert!(!again.are_owners_counted(), "that needs no other count");
            if by_limit {
                again.set_quota(whose, LIMITS).await.expect("set");
            } else {
                assert_eq!(again.recount().await, Ok(true));
            }
            assert!(again.are_owners_counted());
            assert_eq!((used(&again, whose), used(&again, Subject::User(65_534))), ((8, 1), (0, 1)));
            again.create(&Caller::default(), world.dir, b"new", &FILE).await.expect("made");
            assert_eq!(again.scan().await, Ok(Vec::new()));
            again.sync().await.expect("it lasts");
            let last = open(&world.disk).await;
            assert_eq!((last.are_owners_counted(), used(&last, whose)), (true, (8, 1)));
            assert_eq!((last.scan().await, last.recount().await), (Ok(Vec::new()), Ok(false)));
            world.disk.set_back(&image);
        });
    }
}

#[test]
fn a_first_count_is_whole_or_not_there_after_a_crash() {
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
        again.set_quota(Subject::User(1), LIMITS).await.expect("set");
        // Power fails before the next checkpoint.
        let last = open(&world.disk).await;
        assert_eq!((last.is_counted(), used(&last, Subject::User(0))), (true, (16, 7)));
        assert_eq!(last.scan().await, Ok(Vec::new()));
    });
}
