//! Verbs of extents, and of the room that they lie in.

use super::*;
use crate::extent::Extent;
use crate::extents::MAIN;
use crate::store::held;
use crate::{ErrorKind, OWNER_TREE};

/// The one extent of a file.
async fn extent(world: &World, file: FileId) -> Extent {
    let key = keys::extent(file.number, MAIN, 8);
    let value = world.volume.store.get(keys::shard(file.number), &key).await.expect("read").expect("it has one");
    Extent::decode(&value).expect("it can be read")
}

fn extent_key(file: FileId) -> Vec<u8> {
    keys::extent(file.number, MAIN, 8)
}

#[test]
fn an_extent_without_an_owner_gets_it_back() {
    with(async |world| {
        let place = extent(world, world.data).await.place;
        let verb = Verb::Unowned { file: world.data.number, end: 8, place };
        world.damage(|view| view.remove(OWNER_TREE, keys::owner(place))).await;
        world.repaired(verb.clone()).await;
        let wrong = keys::owner_value(world.data.number, MAIN, 0, 7, true);
        world.damage(|view| view.put(OWNER_TREE, keys::owner(place), wrong.clone())).await;
        world.repaired(verb).await;
        assert!(world.read(world.data).await.expect("read") == pattern(1));
    });
}

#[test]
fn an_owner_without_an_extent_goes() {
    with(async |world| {
        let place = extent(world, world.other).await.end() + 40;
        let value = keys::owner_value(world.data.number, MAIN, 100, 4, true);
        held(&world.volume.store.rooms).take(place, 4);
        world.damage(|view| view.put(OWNER_TREE, keys::owner(place), value.clone())).await;
        world.repaired(Verb::OwnerAlone { place }).await;
    });
}

#[test]
fn blocks_of_two_files_stay_with_one_and_are_an_error_in_the_other() {
    with(async |world| {
        let (mine, shared) = (extent(world, world.data).await, extent(world, world.other).await);
        // The extent of one file comes to name the blocks of the other, whose owner stays.
        let owner = keys::owner_value(world.other.number, MAIN, 0, 8, true);
        world.damage(|view| view.put(keys::shard(world.data.number), extent_key(world.data), shared.encode())).await;
        world.damage(|view| view.put(OWNER_TREE, keys::owner(shared.place), owner.clone())).await;
        assert!(mine.place != shared.place);
        world.repaired(Verb::Overlap { file: world.data.number, end: 8, place: shared.place }).await;
        assert_eq!(world.read(world.data).await.expect_err("lost").kind, ErrorKind::Corrupt);
        assert!(world.read(world.other).await.expect("read") == pattern(2));
        // What is written anew can be read.
        world.write(world.data, &pattern(4)).await;
        assert!(world.read(world.data).await.expect("read") == pattern(4));
        assert!(world.read(world.other).await.expect("read") == pattern(2));
        world.finds(&[]).await;
    });
}

#[test]
fn of_extents_that_share_a_part_the_later_one_stays() {
    with(async |world| {
        let shared = extent(world, world.other).await;
        let part = Extent { place: shared.place + 5, birth: shared.birth + 1, ..shared };
        world.damage(|view| view.put(keys::shard(world.data.number), extent_key(world.data), part.encode())).await;
        world.repaired(Verb::Overlap { file: world.other.number, end: 8, place: shared.place }).await;
        assert_eq!(world.read(world.other).await.expect_err("lost").kind, ErrorKind::Corrupt);
    });
}

#[test]
fn an_extent_beyond_all_zones_of_data_is_an_error_to_read() {
    with(async |world| {
        let there = extent(world, world.data).await;
        for place in [1 << 40, 3] {
            let beyond = Extent { place, ..there.clone() };
            world
                .damage(|view| view.put(keys::shard(world.data.number), extent_key(world.data), beyond.encode()))
                .await;
            world.repaired(Verb::Beyond { file: world.data.number, end: 8, place }).await;
            assert_eq!(world.read(world.data).await.expect_err("lost").kind, ErrorKind::Corrupt);
        }
        assert!(world.read(world.other).await.expect("read") == pattern(2));
    });
}

#[test]
fn blocks_that_are_nobodys_are_free_again() {
    with(async |world| {
        let place = extent(world, world.other).await.end() + 100;
        let free = held(&world.volume.store.rooms).free_blocks();
        held(&world.volume.store.rooms).take(place, 30);
        world.repaired(Verb::Leak { place, blocks: 30 }).await;
        assert_eq!(held(&world.volume.store.rooms).free_blocks(), free);
    });
}

#[test]
fn blocks_of_a_file_that_has_no_owner_are_not_given_away() {
    with(async |world| {
        let place = extent(world, world.data).await.place;
        world.damage(|view| view.remove(OWNER_TREE, keys::owner(place))).await;
        let leak = Verb::Leak { place, blocks: 8 };
        assert_eq!(world.volume.repair(&leak).await, Ok(Repaired::AlreadyGone), "a file says that it has them");
        assert!(world.volume.spotfix().await.is_ok_and(|done| done.fixed == 1 && done.left.is_empty()));
        assert!(world.read(world.data).await.expect("read") == pattern(1));
    });
}

#[test]
fn blocks_of_a_file_that_are_free_are_taken() {
    with(async |world| {
        let place = extent(world, world.data).await.place;
        held(&world.volume.store.rooms).free(place + 2, 3);
        // Only once a root without them is durable can they be told from those that are being freed.
        world.volume.checkpoint().await.expect("it lasts");
        world.repaired(Verb::Double { place: place + 2, blocks: 3 }).await;
    });
}

#[test]
fn a_bitmap_that_is_damaged_is_made_of_extents() {
    with(async |world| {
        let place = extent(world, world.data).await.place;
        let damage = |volume: &Volume| {
            let (zone, _) = volume.store.zone_of(place * 4096).expect("a zone");
            let stored = held(&volume.store.rooms).stored(zone).expect("of data");
            world.disk.poke(volume.store.address_in(zone, 4 * u32::from(stored.slot)) + 4100, &[0x55]);
            zone
        };
        // While it is in memory.
        let zone = damage(&world.volume);
        world.repaired(Verb::Bitmap { zone: zone.into() }).await;
        // And when it is not, with an extent beside that the map of owners does not have.
        world.damage(|view| view.remove(OWNER_TREE, keys::owner(place))).await;
        world.volume.checkpoint().await.expect("it lasts");
        damage(&world.volume);
        let again = open(&world.disk).await;
        let unowned = Verb::Unowned { file: world.data.number, end: 8, place };
        assert_eq!(again.scan().await, Ok(vec![unowned, Verb::Bitmap { zone: zone.into() }]));
        let fixed = again.spotfix().await.expect("repaired");
        assert_eq!((fixed.left, again.scan().await), (Vec::new(), Ok(Vec::new())));
    });
}
