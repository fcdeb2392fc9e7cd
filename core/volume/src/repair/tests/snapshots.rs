//! Verbs of snapshots, and what a snapshot has through damage of the volume.

use std::cell::Cell;

use futures_util::future::join;

use super::*;
use crate::SNAPSHOT_TREE;
use crate::checked::tests::Goes;
use crate::extent::Extent;
use crate::extents::MAIN;
use crate::service::SetAttributes;
use crate::snapshots::Span;
use crate::store::held;
use crate::{OWNER_TREE, VolumeError};

/// A snapshot in which `data` has its first pattern, and the volume has another one since.
async fn overwritten(world: &World) -> (u64, Extent) {
    let key = keys::extent(world.data.number, MAIN, 8);
    let made = world.volume.create_snapshot("before").await.expect("made");
    let value = world.volume.store.get(keys::shard(world.data.number), &key).await.expect("read").expect("it has one");
    world.write(world.data, &pattern(4)).await;
    world.volume.checkpoint().await.expect("it lasts");
    (made.generation, Extent::decode(&value).expect("it can be read"))
}

async fn read_past(volume: &Volume, id: FileId) -> Result<Vec<u8>, VolumeError> {
    let view = volume.open_snapshot("before").expect("it is there");
    let mode = OpenMode { read: true, write: false, truncate: false };
    let handle = view.open(&Caller::default(), id, mode).await?;
    let data = view.read(&handle, 0, 1 << 30).await.map(|data| data.to_vec());
    view.close(handle).await?;
    data
}

#[test]
fn blocks_that_are_not_kept_are_kept_again() {
    with(async |world| {
        let (snapshot, old) = overwritten(world).await;
        let verb = Verb::Unkept { snapshot, place: old.place, blocks: 8 };
        world.damage(|view| view.remove(OWNER_TREE, keys::owner(old.place))).await;
        // The bitmap has them no more, either.
        world.repaired(verb.clone()).await;
        // It has them, and nothing else says why.
        let value = world.volume.store.get(OWNER_TREE, &keys::owner(old.place)).await.expect("read").expect("kept");
        world.damage(|view| view.remove(OWNER_TREE, keys::owner(old.place))).await;
        held(&world.volume.store.rooms).take(old.place, 8);
        world.repaired(verb.clone()).await;
        // For an earlier one only.
        let span = Span { birth: 1, death: snapshot - 1 };
        let early = keys::kept_value(world.data.number, MAIN, 0, 8, true, span);
        assert_ne!(value, early);
        world.damage(|view| view.put(OWNER_TREE, keys::owner(old.place), early.clone())).await;
        world.finds(&[Verb::OwnerAlone { place: old.place }, verb.clone()]).await;
        assert_eq!(world.volume.repair(&verb).await, Ok(Repaired::Fixed));
        world.finds(&[]).await;
        assert!(read_past(&world.volume, world.data).await.expect("read") == pattern(1));
        assert!(world.read(world.data).await.expect("read") == pattern(4));
    });
}

#[test]
fn what_snapshots_keep_is_counted_anew() {
    with(async |world| {
        let (snapshot, _) = overwritten(world).await;
        let kept = world.volume.kept_bytes();
        assert_eq!(kept, 8 * BLOCK as u64);
        let key = [&[2][..], &snapshot.to_be_bytes()].concat();
        let nobody = [&[2][..], &1_u64.to_be_bytes()].concat();
        world
            .damage(|view| {
                view.put(SNAPSHOT_TREE, key.clone(), 77_u64.to_le_bytes().to_vec())?;
                view.put(SNAPSHOT_TREE, nobody.clone(), 5_u64.to_le_bytes().to_vec())
            })
            .await;
        world.volume.checkpoint().await.expect("it lasts");
        let again = open(&world.disk).await;
        assert_eq!(again.kept_bytes(), 82 * BLOCK as u64);
        let wrong = [Verb::KeptWrong { snapshot: 1 }, Verb::KeptWrong { snapshot }];
        assert_eq!(again.scan().await.as_deref(), Ok(&wrong[..]));
        assert_eq!(again.repair(&wrong[0]).await, Ok(Repaired::Fixed));
        assert_eq!(again.repair(&wrong[1]).await, Ok(Repaired::AlreadyGone));
        assert_eq!((again.scan().await, again.kept_bytes()), (Ok(Vec::new()), kept));
        assert_eq!(open(&world.disk).await.kept_bytes(), kept);
    });
}

/// Overwrites, makes snapshots and destroys them until that is over; answers how many steps ended before.
async fn churn(volume: &Volume, data: FileId, is_over: &Cell<bool>) -> u64 {
    let handle = volume.open(&Caller::default(), data, OPEN).await.expect("opened");
    let (mut rounds, mut steps) = (0, 0);
    while !is_over.get() {
        let name = |round: u64| format!("round {round}");
        volume.create_snapshot(&name(rounds)).await.expect("made");
        steps += u64::from(!is_over.get());
        volume.write(&handle, 0, IoBuf::zeroed(8 * BLOCK).freeze(), 8 * BLOCK).await.expect("written");
        volume.checkpoint().await.expect("made");
        if rounds % 2 == 1 {
            volume.destroy_snapshot(&name(rounds - 1)).await.expect("destroyed");
            volume.reclaim(&Goes).await.expect("given back");
        }
        steps += u64::from(!is_over.get());
        rounds += 1;
    }
    volume.close(handle).await.expect("closed");
    steps
}

#[test]
fn checkpoints_and_changes_go_on_while_what_snapshots_keep_is_counted_anew() {
    with(async |world| {
        // So many extents that the map of owners has many leaves.
        let handle = world.volume.open(&Caller::default(), world.other, OPEN).await.expect("opened");
        for number in 0..4000 {
            let at = 2 * number * BLOCK as u64;
            world.volume.write(&handle, at, IoBuf::zeroed(BLOCK).freeze(), BLOCK).await.expect("written");
        }
        world.volume.close(handle).await.expect("closed");
        let (snapshot, _) = overwritten(world).await;
        let cut = SetAttributes { size_bytes: Some(0), ..SetAttributes::default() };
        world.volume.set(&Caller::default(), world.other, &cut).await.expect("cut");
        world.volume.checkpoint().await.expect("it lasts");
        let key = [&[2][..], &snapshot.to_be_bytes()].concat();
        // Too few, so that counting down what is kept would end at none.
        world.damage(|view| view.put(SNAPSHOT_TREE, key.clone(), 3_u64.to_le_bytes().to_vec())).await;
        world.volume.shut_down().await.expect("closed");
        let again = open(&world.disk).await;
        assert_eq!(again.kept_bytes(), 3 * BLOCK as u64);
        let is_over = Cell::new(false);
        let counting = async {
            let counted = again.store.recount_kept().await;
            is_over.set(true);
            counted
        };
        let (counted, steps) = join(counting, churn(&again, world.data, &is_over)).await;
        assert_eq!(counted, Ok(Some(true)));
        assert!(steps > 1, "{steps} steps ended before the count did");
        assert_eq!(again.scan().await, Ok(Vec::new()), "it is exact");
        assert_eq!(again.store.recount_kept().await, Ok(Some(false)));
        let kept = again.kept_bytes();
        assert!(kept >= 4000 * BLOCK as u64);
        again.destroy_snapshot("before").await.expect("destroyed");
        again.reclaim(&Goes).await.expect("given back");
        assert!(again.kept_bytes() <= kept - 4000 * BLOCK as u64);
        assert_eq!(again.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn blocks_of_a_snapshot_that_another_file_has_are_told() {
    with(async |world| {
        let (snapshot, old) = overwritten(world).await;
        let (file, key) = (world.other.number, keys::extent(world.other.number, MAIN, 8));
        let wrong = Extent { birth: snapshot + 9, ..old };
        world.damage(|view| view.put(keys::shard(file), key.clone(), wrong.encode())).await;
        let verb = Verb::SnapshotData { snapshot, file: world.data.number, place: old.place };
        // What is kept of the file is not what was counted any more.
        world.finds(&[verb.clone(), Verb::KeptWrong { snapshot }]).await;
        assert_eq!(world.volume.repair(&verb).await, Ok(Repaired::NeedsOffline));
        world.volume.destroy_snapshot("before").await.expect("destroyed");
        assert!(world.read(world.other).await.expect("read") == pattern(1), "they are the file's");
    });
}

#[test]
fn a_node_of_a_snapshot_that_is_lost_is_told_and_the_volume_goes_on() {
    with(async |world| {
        let (snapshot, _) = overwritten(world).await;
        let tree = keys::shard(world.data.number);
        let roots = world.volume.store.snapshots.roots();
        let (_, root) = roots[0].1.iter().find(|(of, _)| *of == tree).expect("it has files");
        world.disk.corrupt(root.address..root.address + BLOCK as u64);
        let verb = Verb::SnapshotNode { snapshot, tree, address: root.address };
        world.finds(std::slice::from_ref(&verb)).await;
        assert_eq!(world.volume.repair(&verb).await, Ok(Repaired::NeedsOffline));
        assert_eq!(read_past(&world.volume, world.data).await.expect_err("lost").kind, crate::ErrorKind::Corrupt);
        assert!(world.read(world.data).await.expect("read") == pattern(4));
        world.volume.destroy_snapshot("before").await.expect("destroyed");
        // What stood below it could not be known, and is found now.
        world.volume.spotfix().await.expect("scanned");
        world.finds(&[]).await;
    });
}

#[test]
fn either_tree_says_which_snapshots_there_are_and_without_both_nothing_changes() {
    with(async |world| {
        let (snapshot, _) = overwritten(world).await;
        let place = async |tree: u8, key: &[u8]| {
            let place = world.volume.store.place_of(tree, key).await.expect("read");
            place.expect("it is there")
        };
        let key = [&[1][..], &snapshot.to_be_bytes()].concat();
        let twin = [crate::snapshots::TWIN_PREFIX, &key].concat();
        let image = world.disk.image();
        let places = [place(SNAPSHOT_TREE, &key).await, place(crate::SETTINGS_TWIN, &twin).await];
        for at in places {
            world.disk.set_back(&image);
            world.disk.corrupt(at..at + BLOCK as u64);
            let volume = open(&world.disk).await;
            assert_eq!(volume.failure(), None);
            assert!(read_past(&volume, world.data).await.expect("read") == pattern(1));
            // The place of the node that was lost is found free.
            volume.spotfix().await.expect("scanned");
            assert_eq!(volume.scan().await, Ok(Vec::new()));
            volume.shut_down().await.expect("closed");
            // The other one is lost some day.
            let other = places.iter().find(|other| **other != at).expect("two");
            world.disk.corrupt(*other..*other + BLOCK as u64);
            let volume = open(&world.disk).await;
            assert!(read_past(&volume, world.data).await.expect("read") == pattern(1));
        }
        world.disk.set_back(&image);
        places.into_iter().for_each(|at| world.disk.corrupt(at..at + BLOCK as u64));
        let volume = open(&world.disk).await;
        assert!(volume.failure().is_some_and(|why| why.contains("snapshots")), "{:?}", volume.failure());
        world.disk.set_back(&image);
    });
}

#[test]
fn owners_that_are_made_again_of_extents_leave_snapshots_what_they_have() {
    with(async |world| {
        overwritten(world).await;
        world.volume.shut_down().await.expect("closed");
        let volume = open(&world.disk).await;
        let first = volume.store.range(OWNER_TREE, b"", 1).await.expect("read").remove(0).0;
        let owners = volume.store.place_of(OWNER_TREE, &first);
        let at = owners.await.expect("read").expect("it is there");
        volume.shut_down().await.expect("closed");
        world.disk.corrupt(at..at + BLOCK as u64);
        let volume = open(&world.disk).await;
        let done = volume.spotfix_offline().await.expect("repaired");
        assert_eq!(done.left, Vec::new());
        assert_eq!(volume.scan().await, Ok(Vec::new()));
        let (caller, root) = (Caller::default(), volume.root());
        for number in 0..300 {
            // Whoever wants room is given none of the snapshot's.
            let file = volume.create(&caller, root, format!("new {number}").as_bytes(), &FILE).await.expect("made");
            let handle = volume.open(&caller, file.id, OPEN).await.expect("opened");
            let data = IoBuf::zeroed(16 * BLOCK).freeze();
            volume.write(&handle, 0, data, 16 * BLOCK).await.expect("written");
            volume.close(handle).await.expect("closed");
        }
        assert!(read_past(&volume, world.data).await.expect("read") == pattern(1));
        assert_eq!(volume.scan().await, Ok(Vec::new()));
    });
}
