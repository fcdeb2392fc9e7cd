//! Verbs of security descriptors, and descriptors whose trees are damaged.

use std::collections::BTreeSet;

use holdfast_identity::{AccessMask, SecurityDescriptor, sddl};

use super::*;
use crate::page::PAGE_BYTES;
use crate::service::SecurityParts;
use crate::{ErrorKind, SECURITY_TREE, SECURITY_TWIN};

fn descriptor(text: &str) -> SecurityDescriptor {
    sddl::parse(text, None).expect("a descriptor")
}

/// User 7 may read, and nobody else.
fn of_seven() -> SecurityDescriptor {
    descriptor("O:S-1-22-1-7G:S-1-22-2-7D:(A;;FR;;;S-1-22-1-7)(A;;0x1;;;S-1-22-1-8)")
}

fn user(uid: u32) -> Caller {
    Caller { uid, gid: uid, ..Caller::default() }
}

async fn set(volume: &Volume, id: FileId, descriptor: &SecurityDescriptor) {
    let parts = SecurityParts::OWNER | SecurityParts::GROUP | SecurityParts::DACL;
    volume.set_security(&Caller::default(), id, parts, descriptor).await.expect("set");
}

async fn of(volume: &Volume, id: FileId) -> SecurityDescriptor {
    volume.security(&Caller::default(), id).await.expect("user 0 may read it")
}

/// The number that a file names.
async fn number(world: &World, id: FileId) -> u32 {
    let look = world.volume.store.look([], |view| judge::record(view, id.number));
    look.await.expect("looked at").expect("it has one").security
}

fn part(number: u32) -> Vec<u8> {
    [&number.to_be_bytes()[..], &[0]].concat()
}

#[test]
fn a_file_that_names_no_descriptor_is_its_owners_and_administrators() {
    with(async |world| {
        set(&world.volume, world.data, &of_seven()).await;
        world.damage(|view| edit(view, world.data, |record| record.security = 77_777)).await;
        let denied = world.volume.access(&user(8), world.data, 4).await.expect_err("its descriptor is lost");
        assert_eq!(denied.kind, ErrorKind::AccessDenied);
        let verb = Verb::SecurityLost { file: world.data.number };
        world.repaired(verb).await;
        for uid in [7, 8] {
            assert!(world.volume.access(&user(uid), world.data, 4).await.is_err(), "nobody gets at the data");
        }
        let left = world.volume.granted(&user(7), world.data, AccessMask::MAXIMUM_ALLOWED).await.expect("the owner");
        assert!(left.contains(AccessMask::WRITE_DAC) && !left.contains(AccessMask::READ_DATA), "{left:?}");
        let facts = world.volume.stat(world.data).await.expect("it is there");
        assert_eq!((facts.uid, facts.mode), (7, 0));
        set(&world.volume, world.data, &of_seven()).await;
        world.volume.access(&user(8), world.data, 4).await.expect("it was set anew");
    });
}

#[test]
fn a_descriptor_that_one_tree_lacks_or_has_otherwise_is_put_in_again() {
    with(async |world| {
        set(&world.volume, world.data, &of_seven()).await;
        let number = number(world, world.data).await;
        let verb = Verb::SecurityTwin { number: number.into() };
        for tree in [SECURITY_TREE, SECURITY_TWIN] {
            world.damage(|view| view.remove(tree, part(number))).await;
            world.repaired(verb.clone()).await;
            world.damage(|view| view.put(tree, part(number), vec![1, 2, 3])).await;
            world.repaired(verb.clone()).await;
        }
        // One that is nobody's, and none.
        world.damage(|view| view.put(SECURITY_TWIN, part(9999), vec![1, 2, 3])).await;
        world.repaired(Verb::SecurityTwin { number: 9999 }).await;
        assert_eq!(of(&world.volume, world.data).await, of_seven());
    });
}

#[test]
fn descriptors_that_nobody_names_are_taken_out_and_no_other_gets_their_numbers() {
    with(async |world| {
        set(&world.volume, world.data, &of_seven()).await;
        set(&world.volume, world.other, &of_seven()).await;
        let first = number(world, world.data).await;
        assert_eq!(number(world, world.other).await, first, "equal ones are one");
        let other = descriptor("O:S-1-22-1-7G:S-1-22-2-7D:(A;;FA;;;S-1-22-1-9)");
        set(&world.volume, world.data, &other).await;
        world.finds(&[]).await;
        assert!(world.volume.store.descriptors.has(first), "a file names it still");
        set(&world.volume, world.other, &other).await;
        world.finds(&[]).await;
        assert!(!world.volume.store.descriptors.has(first));
        assert_eq!(world.volume.store.get(SECURITY_TREE, &part(first)).await, Ok(None));
        set(&world.volume, world.other, &of_seven()).await;
        let second = number(world, world.other).await;
        assert!(second > first);
        world.volume.checkpoint().await.expect("it lasts");
        let again = open(&world.disk).await;
        assert_eq!((of(&again, world.other).await, of(&again, world.data).await), (of_seven(), other));
        set(&again, world.deep, &descriptor("O:S-1-22-1-7G:S-1-22-2-7D:(A;;FA;;;S-1-22-1-10)")).await;
        let look = again.store.look([], |view| judge::record(view, world.deep.number)).await;
        assert!(look.expect("looked at").expect("it has one").security > second);
    });
}

#[test]
fn what_is_named_while_a_scan_is_under_way_stays() {
    with(async |world| {
        set(&world.volume, world.data, &of_seven()).await;
        let first = number(world, world.data).await;
        let other = descriptor("O:S-1-22-1-7G:S-1-22-2-7D:(A;;FA;;;S-1-22-1-9)");
        set(&world.volume, world.data, &other).await;
        let second = number(world, world.data).await;
        let (store, none) = (&world.volume.store, BTreeSet::new());
        let sweep = store.descriptors.begin_sweep();
        // The scan met none of them; one is named again, and one is new.
        set(&world.volume, world.other, &of_seven()).await;
        set(&world.volume, world.deep, &descriptor("O:S-1-22-1-7G:S-1-22-2-7D:(A;;FA;;;S-1-22-1-3)")).await;
        let third = number(world, world.deep).await;
        assert_eq!(store.sweep_descriptors(sweep, &none).await, Ok(1), "what no file names");
        assert!(store.descriptors.has(first) && !store.descriptors.has(second) && store.descriptors.has(third));
        // `data` names what is gone, as the scan did not say that it does.
        let verb = Verb::SecurityLost { file: world.data.number };
        world.repaired(verb).await;
    });
}

#[test]
fn what_snapshots_have_keeps_its_descriptors() {
    with(async |world| {
        set(&world.volume, world.data, &of_seven()).await;
        let first = number(world, world.data).await;
        world.volume.create_snapshot("before").await.expect("made");
        let opened = descriptor("O:S-1-22-1-7G:S-1-22-2-7D:(A;;FA;;;WD)(A;;FA;;;S-1-22-1-9)");
        set(&world.volume, world.data, &opened).await;
        world.finds(&[]).await;
        assert!(world.volume.store.descriptors.has(first));
        let view = world.volume.open_snapshot("before").expect("it is there");
        assert_eq!(of(&view, world.data).await, of_seven());
        let mode = OpenMode { read: true, write: false, truncate: false };
        assert_eq!(view.open(&user(9), world.data, mode).await.expect_err("denied then").kind, ErrorKind::AccessDenied);
        view.close(view.open(&user(8), world.data, mode).await.expect("granted then")).await.expect("closed");
        drop(view);
        world.volume.destroy_snapshot("before").await.expect("destroyed");
        world.finds(&[]).await;
        assert!(!world.volume.store.descriptors.has(first), "nobody names it any more");
    });
}

/// Destroys the node that a tree has at its root.
async fn destroy(world: &World, tree: u8) {
    let address = {
        let newest = world.volume.store.checkpoint.lock().await;
        newest.root.trees.iter().find(|(of, _)| *of == tree).expect("it holds something").1.address
    };
    world.disk.poke(address, &vec![0x5a; PAGE_BYTES]);
}

#[test]
fn a_lost_tree_of_descriptors_costs_nothing_and_both_cost_all_access_but_the_owners() {
    with(async |world| {
        set(&world.volume, world.data, &of_seven()).await;
        let first = number(world, world.data).await;
        world.volume.checkpoint().await.expect("it lasts");
        let image = world.disk.image();
        for lost in [SECURITY_TREE, SECURITY_TWIN] {
            world.disk.set_back(&image);
            destroy(world, lost).await;
            let again = open(&world.disk).await;
            assert_eq!(again.failure(), None);
            assert_eq!(of(&again, world.data).await, of_seven());
            let left = again.spotfix_offline().await.expect("repaired").left;
            assert_eq!((left, again.scan().await), (Vec::new(), Ok(Vec::new())), "without tree {lost}");
            again.access(&user(8), world.data, 4).await.expect("as before");
        }
        world.disk.set_back(&image);
        destroy(world, SECURITY_TREE).await;
        destroy(world, SECURITY_TWIN).await;
        let again = open(&world.disk).await;
        assert_eq!(again.failure(), None);
        assert!(again.access(&user(8), world.data, 4).await.is_err());
        // No new one gets the number that the file names.
        set(&again, world.other, &descriptor("O:S-1-22-1-7G:S-1-22-2-7D:(A;;FA;;;WD)(A;;FA;;;S-1-22-1-9)")).await;
        assert!(again.access(&user(8), world.data, 4).await.is_err());
        let found = again.scan().await.expect("scanned");
        assert!(found.contains(&Verb::SecurityLost { file: world.data.number }), "{found:?}");
        again.spotfix().await.expect("repaired");
        assert_eq!(again.scan().await, Ok(Vec::new()));
        assert!(again.access(&user(8), world.data, 4).await.is_err());
        let look = again.store.look([], |view| judge::record(view, world.data.number)).await;
        assert_ne!(look.expect("looked at").expect("it has one").security, first);
    });
}

#[test]
fn a_node_of_descriptors_that_is_lost_while_they_are_in_use_is_made_again() {
    with(async |world| {
        // So many that their trees have several nodes.
        let entries: String = (0..400).map(|rid| format!("(A;;FR;;;S-1-22-1-{rid})")).collect();
        for one in 0..8 {
            let text = format!("O:S-1-22-1-7G:S-1-22-2-7D:(A;;FA;;;S-1-22-1-{})", 1000 + one) + &entries;
            set(&world.volume, world.data, &descriptor(&text)).await;
            set(&world.volume, world.other, &descriptor(&text)).await;
            let new = NewFile { kind: FileKind::Regular, mode: 0o600, target: b"" };
            let id = world.volume.create(&Caller::default(), world.dir, format!("f{one}").as_bytes(), &new).await;
            set(&world.volume, id.expect("made").id, &descriptor(&text)).await;
        }
        world.volume.checkpoint().await.expect("it lasts");
        let number = number(world, world.data).await;
        let address = world.volume.store.place_of(SECURITY_TREE, &part(number)).await.expect("found").expect("there");
        world.disk.poke(address, &vec![0x5a; PAGE_BYTES]);
        let found = world.volume.scan().await.expect("scanned");
        assert!(matches!(&found[..], [Verb::NodeLost { tree: SECURITY_TREE, .. }]), "{found:?}");
        let left = world.volume.spotfix_offline().await.expect("repaired").left;
        assert_eq!((left, world.volume.scan().await), (Vec::new(), Ok(Vec::new())));
        let before = of(&world.volume, world.data).await;
        assert_eq!(of(&open(&world.disk).await, world.data).await, before);
    });
}

#[test]
fn what_is_set_of_modes_outlives_either_copy() {
    with(async |world| {
        world.volume.set_mode_change(holdfast_identity::ModeChange::Refuse).await.expect("set");
        for tree in [crate::SETTINGS_TREE, crate::SETTINGS_TWIN] {
            world.damage(|view| view.remove(tree, b"mode change".to_vec())).await;
            world.volume.sync().await.expect("it lasts");
            let image = world.disk.image();
            let again = open(&world.disk).await;
            assert_eq!(again.mode_change(), holdfast_identity::ModeChange::Refuse, "tree {tree}");
            for tree in [crate::SETTINGS_TREE, crate::SETTINGS_TWIN] {
                assert_eq!(again.store.get(tree, b"mode change").await, Ok(Some(vec![2])), "both have it again");
            }
            world.disk.set_back(&image);
            world.damage(|view| view.put(tree, b"mode change".to_vec(), vec![2])).await;
        }
    });
}

#[test]
fn what_a_file_of_a_lost_descriptor_takes_is_not_lost() {
    with(async |world| {
        let taken = |volume: &Volume, subject: crate::Subject| {
            let found = volume.owner_quotas().into_iter().find(|quota| quota.subject == subject);
            found.map_or(0, |quota| quota.used_bytes / BLOCK as u64)
        };
        let nobody = crate::Subject::User(65_534);
        let whose = "S-1-5-21-1-2-3-1000".parse().map(crate::Subject::Sid).expect("a SID");
        set(&world.volume, world.data, &descriptor("O:S-1-5-21-1-2-3-1000G:S-1-22-2-7D:(A;;FR;;;WD)")).await;
        assert_eq!((taken(&world.volume, whose), taken(&world.volume, nobody)), (8, 0));
        world.damage(|view| edit(view, world.data, |record| record.security = 77_777)).await;
        assert_eq!((taken(&world.volume, whose), taken(&world.volume, nobody)), (0, 8), "nobody knows whose");
        // That is all that is wrong.
        world.repaired(Verb::SecurityLost { file: world.data.number }).await;
        assert_eq!((taken(&world.volume, whose), taken(&world.volume, nobody)), (0, 8));
        assert_eq!(world.volume.recount().await, Ok(false));
    });
}
