//! Verbs of blocks that files share, and what becomes of them through damage of the volume.

use super::*;
use crate::extent::Extent;
use crate::extents::MAIN;
use crate::references::{Reference, Whose};
use crate::snapshots::Span;
use crate::{OWNER_TREE, VolumeError};

const BLOCKS: u64 = BLOCK as u64;

/// Has `other` have all blocks of `data`; answers its extent.
async fn cloned(world: &World) -> Extent {
    let caller = Caller::default();
    let data = world.volume.open(&caller, world.data, OPEN).await.expect("opened");
    let other = world.volume.open(&caller, world.other, OPEN).await.expect("opened");
    world.volume.clone_range((&data, 0), (&other, 0), 8 * BLOCKS).await.expect("cloned");
    world.volume.close(data).await.expect("closed");
    world.volume.close(other).await.expect("closed");
    world.finds(&[]).await;
    extent_of(world, world.other, 8).await
}

async fn extent_of(world: &World, file: FileId, end: u64) -> Extent {
    let key = keys::extent(file.number, MAIN, end);
    let value = world.volume.store.get(keys::shard(file.number), &key).await.expect("read").expect("it has one");
    Extent::decode(&value).expect("it can be read")
}

fn key_of(world: &World, reference: &Reference) -> Vec<u8> {
    world.volume.store.reference_key(reference).expect("in a zone")
}

/// Both files hold what they held, and what is written to one is not seen in the other.
async fn are_apart(world: &World) {
    assert!(world.read(world.data).await.expect("read") == pattern(1));
    assert!(world.read(world.other).await.expect("read") == pattern(1));
    world.write(world.data, &pattern(6)).await;
    assert!(world.read(world.other).await.expect("read") == pattern(1), "it is the other's");
    world.finds(&[]).await;
}

#[test]
fn a_reference_that_is_missing_is_made_again() {
    with(async |world| {
        let extent = cloned(world).await;
        let key = key_of(world, &Reference::of_file(world.other.number, MAIN, 0, &extent));
        world.damage(|view| view.remove(OWNER_TREE, key.clone())).await;
        let verb = Verb::SharerUnknown { file: world.other.number, end: 8, place: extent.place };
        assert_eq!((verb.number(), verb.is_online()), (63, true));
        world.repaired(verb.clone()).await;
        // The last one who has them, of which the bitmap knows nothing either.
        world.volume.remove(&Caller::default(), world.dir, b"data", Remove::File).await.expect("removed");
        let root = world.volume.root();
        world.volume.remove(&Caller::default(), root, b"link", Remove::File).await.expect("removed");
        world.volume.checkpoint().await.expect("it lasts");
        world.damage(|view| view.remove(OWNER_TREE, key.clone())).await;
        crate::store::held(&world.volume.store.rooms).free(extent.place, extent.blocks);
        world.repaired(verb).await;
        assert!(world.read(world.other).await.expect("read") == pattern(1));
    });
}

#[test]
fn a_reference_that_nobody_has_is_taken_out() {
    with(async |world| {
        let extent = cloned(world).await;
        let of = |file: u64, block: u64| key_of(world, &Reference::of_file(file, MAIN, block, &extent));
        let wrong = of(world.other.number, 77);
        world.damage(|view| view.put(OWNER_TREE, wrong.clone(), Vec::new())).await;
        let verb = Verb::SharerAlone { place: extent.place, key: wrong.clone() };
        assert_eq!((verb.number(), verb.is_online()), (64, true));
        world.repaired(verb).await;
        // One of snapshots that there are not.
        let whose = Whose::Snapshots(Span { birth: 1, death: 1 });
        let kept = key_of(world, &Reference { place: extent.place, blocks: 3, whose });
        world.damage(|view| view.put(OWNER_TREE, kept.clone(), Vec::new())).await;
        world.repaired(Verb::SharerAlone { place: extent.place, key: kept }).await;
        assert_eq!(world.volume.kept_bytes(), 0);
        // In place of both right ones: their blocks must not be given back before those are made again.
        let (one, other) = (of(world.data.number, 0), of(world.other.number, 0));
        world
            .damage(|view| {
                view.remove(OWNER_TREE, one.clone())?;
                view.remove(OWNER_TREE, other.clone())?;
                view.put(OWNER_TREE, wrong.clone(), Vec::new())
            })
            .await;
        let unknown = |file: FileId| Verb::SharerUnknown { file: file.number, end: 8, place: extent.place };
        let alone = Verb::SharerAlone { place: extent.place, key: wrong };
        world.finds(&[unknown(world.data), unknown(world.other), alone.clone()]).await;
        assert_eq!(world.volume.repair(&alone).await, Ok(Repaired::Fixed));
        for number in 0..20 {
            let name = format!("new {number}");
            let new = world.volume.create(&Caller::default(), world.dir, name.as_bytes(), &FILE).await.expect("made");
            world.write(new.id, &pattern(9)).await;
        }
        assert_eq!(world.volume.spotfix().await.map(|done| done.left), Ok(Vec::new()));
        are_apart(world).await;
    });
}

#[test]
fn a_file_that_takes_what_is_shared_for_its_own_learns_of_it() {
    with(async |world| {
        let extent = cloned(world).await;
        let (file, key) = (world.data.number, keys::extent(world.data.number, MAIN, 8));
        let own = Extent { is_shared: false, ..extent_of(world, world.data, 8).await };
        world.damage(|view| view.put(keys::shard(file), key.clone(), own.encode())).await;
        let verb = Verb::Unshared { file, end: 8, place: extent.place };
        assert_eq!((verb.number(), verb.is_online()), (65, true));
        world.repaired(verb).await;
        are_apart(world).await;
    });
}

#[test]
fn an_extent_of_what_others_share_is_lost_and_they_keep_it() {
    with(async |world| {
        let extent = cloned(world).await;
        let file = world.deep.number;
        let part = Extent { place: extent.place + 2, blocks: 3, is_shared: false, ..extent };
        world.damage(|view| view.put(keys::shard(file), keys::extent(file, MAIN, 9), part.encode())).await;
        world.damage(|view| view.remove(OWNER_TREE, keys::owner(part.place))).await;
        let overlap = Verb::Overlap { file, end: 9, place: part.place };
        assert!(world.volume.scan().await.expect("scanned").contains(&overlap));
        assert_eq!(world.volume.repair(&overlap).await, Ok(Repaired::Fixed));
        world.volume.spotfix().await.expect("repaired");
        world.finds(&[]).await;
        are_apart(world).await;
    });
}

async fn past(volume: &Volume, id: FileId) -> Result<Vec<u8>, VolumeError> {
    let view = volume.open_snapshot("past").expect("it is there");
    let mode = OpenMode { read: true, write: false, truncate: false };
    let handle = view.open(&Caller::default(), id, mode).await?;
    let data = view.read(&handle, 0, 1 << 30).await.map(|data| data.to_vec());
    view.close(handle).await?;
    data
}

/// A snapshot in which `data` has its first pattern, which `other` has from there since; `data` has another one. Answers
/// the snapshot and the reference that keeps it.
async fn restored(world: &World) -> (u64, Reference) {
    let made = world.volume.create_snapshot("past").await.expect("made");
    let old = extent_of(world, world.data, 8).await;
    world.write(world.data, &pattern(4)).await;
    let other = world.volume.open(&Caller::default(), world.other, OPEN).await.expect("opened");
    let from = ("past", world.data, 0);
    world.volume.clone_from_snapshot(&Caller::default(), from, (&other, 0), 8 * BLOCKS).await.expect("restored");
    world.volume.close(other).await.expect("closed");
    world.finds(&[]).await;
    let whose = Whose::Snapshots(Span { birth: old.birth, death: made.generation });
    (made.generation, Reference { place: old.place, blocks: 8, whose })
}

#[test]
fn what_is_kept_apart_of_what_is_shared_becomes_a_reference() {
    with(async |world| {
        let (_, reference) = restored(world).await;
        let Whose::Snapshots(span) = reference.whose else { unreachable!("it is kept") };
        let (place, key) = (reference.place, key_of(world, &reference));
        let value = keys::kept_value(world.data.number, MAIN, 0, 8, true, span);
        world
            .damage(|view| {
                view.remove(OWNER_TREE, key.clone())?;
                view.put(OWNER_TREE, keys::owner(place), value.clone())
            })
            .await;
        let verb = Verb::KeptApart { place };
        assert_eq!((verb.number(), verb.is_online()), (66, true));
        let before = world.volume.kept_bytes();
        world.repaired(verb).await;
        assert_eq!(world.volume.kept_bytes(), before);
        assert!(world.volume.store.get(OWNER_TREE, &key).await.expect("read").is_some());
    });
}

#[test]
fn shared_blocks_that_are_not_kept_for_a_snapshot_are_kept_again() {
    with(async |world| {
        let (snapshot, reference) = restored(world).await;
        let key = key_of(world, &reference);
        world.damage(|view| view.remove(OWNER_TREE, key.clone())).await;
        world.repaired(Verb::Unkept { snapshot, place: reference.place, blocks: 8 }).await;
        // The file lets go of them, and the snapshot has them still.
        world.write(world.other, &pattern(5)).await;
        assert!(past(&world.volume, world.data).await.expect("read") == pattern(1));
        world.finds(&[]).await;
    });
}

#[test]
fn references_that_are_lost_are_made_again_of_extents_and_the_other_way_round() {
    with(async |world| {
        let extent = cloned(world).await;
        world.volume.create_snapshot("past").await.expect("made");
        let key = key_of(world, &Reference::of_file(world.other.number, MAIN, 0, &extent));
        let (file, end) = (world.other.number, keys::extent(world.other.number, MAIN, 8));
        world.volume.shut_down().await.expect("closed");
        let image = world.disk.image();
        for (tree, key) in [(OWNER_TREE, key), (keys::shard(file), end)] {
            world.disk.set_back(&image);
            let volume = open(&world.disk).await;
            let at = volume.store.place_of(tree, &key).await.expect("read").expect("it is there");
            volume.shut_down().await.expect("closed");
            world.disk.corrupt(at..at + BLOCKS);
            let volume = open(&world.disk).await;
            let done = volume.spotfix_offline().await.expect("repaired");
            let left: Vec<_> = done.left.into_iter().filter(|verb| verb.number() < 60).collect();
            assert_eq!(left, Vec::new(), "tree {tree}");
            let value = volume.store.get(keys::shard(file), &keys::extent(file, MAIN, 8)).await.expect("read");
            let again = Extent::decode(&value.expect("it has one")).expect("it can be read");
            assert_eq!((again.place, again.blocks, again.is_shared), (extent.place, 8, true));
            let handle = volume.open(&Caller::default(), world.other, OPEN).await.expect("opened");
            assert!(volume.read(&handle, 0, 8 * BLOCKS as usize).await.expect("read").to_vec() == pattern(1));
            volume.write(&handle, 0, IoBuf::zeroed(BLOCK).freeze(), BLOCK).await.expect("written");
            volume.close(handle).await.expect("closed");
            let handle = volume.open(&Caller::default(), world.data, OPEN).await.expect("opened");
            assert!(volume.read(&handle, 0, 8 * BLOCKS as usize).await.expect("read").to_vec() == pattern(1));
            volume.close(handle).await.expect("closed");
        }
        world.disk.set_back(&image);
    });
}
