//! Verbs of nodes: what stands in one that is lost fails, all else is served.

use super::*;
use crate::ErrorKind;
use crate::store::held;

/// Destroys the node that has a key, and opens the volume anew.
async fn lose(world: &World, tree: u8, key: &[u8]) -> (World, u64) {
    world.volume.checkpoint().await.expect("it lasts");
    let address = world.volume.store.place_of(tree, key).await.expect("read").expect("it is there");
    world.disk.poke(address + 9000, &[0x55; 64]);
    (again(world).await, address)
}

async fn again(world: &World) -> World {
    let World { disk, dir, below, data, other, deep, .. } = world;
    let (disk, dir, below, data, other, deep) = (disk.clone(), *dir, *below, *data, *other, *deep);
    World { volume: open(&disk).await, disk, dir, below, data, other, deep }
}

/// Where lost files are.
async fn lost_file(world: &World, file: FileId) -> Option<u64> {
    let lost = world.lookup(world.volume.root(), "lost+found").await?;
    world.lookup(FileId { number: lost, generation: 1 }, &format!("file {}", file.number)).await
}

#[test]
fn only_what_stands_in_a_lost_node_fails() {
    with(async |world| {
        let shard = keys::shard(world.deep.number);
        let (again, address) = lose(world, shard, &keys::record(world.deep.number)).await;
        let verb = Verb::NodeLost { tree: shard, address, low: Vec::new(), high: None };
        again.finds(std::slice::from_ref(&verb)).await;
        assert_eq!(again.volume.repair(&verb).await, Ok(Repaired::NeedsOffline));
        assert_eq!(again.read(again.deep).await.expect_err("lost").kind, ErrorKind::Corrupt);
        assert!(keys::shard(again.data.number) != shard);
        assert!(again.read(again.data).await.expect("read") == pattern(1));
        assert!(again.read(again.other).await.expect("read") == pattern(2));
        assert_eq!(again.lookup(again.volume.root(), "dir").await, Some(again.dir.number));
        // What goes on beside it lasts.
        again.volume.create(&Caller::default(), again.volume.root(), b"new", &FILE).await.expect("made");
        again.finds(&[verb]).await;
    });
}

#[test]
fn a_node_that_is_still_in_memory_is_written_anew() {
    with(async |world| {
        let shard = keys::shard(world.deep.number);
        let place = world.volume.store.place_of(shard, &keys::record(world.deep.number)).await;
        let address = place.expect("read").expect("it is there");
        world.volume.stat(world.deep).await.expect("it is in memory now");
        world.disk.poke(address + 9000, &[0x55; 64]);
        let verb = Verb::NodeLost { tree: shard, address, low: Vec::new(), high: None };
        world.finds(std::slice::from_ref(&verb)).await;
        assert_eq!(world.volume.repair(&verb).await, Ok(Repaired::Fixed));
        world.finds(&[]).await;
        assert_eq!(again(world).await.read(world.deep).await, Ok(b"small".to_vec()));
    });
}

#[test]
fn records_and_names_are_made_again_from_each_other() {
    with(async |world| {
        let (caller, root) = (Caller::default(), world.volume.root());
        let make = async |dir: FileId, name: &[u8], new: &NewFile<'_>| {
            world.volume.create(&caller, dir, name, new).await.expect("made").id
        };
        let sub = make(root, b"sub", &DIRECTORY).await;
        let (one, two) = (make(sub, b"one", &FILE).await, make(sub, b"two", &FILE).await);
        let deeper = make(sub, b"deeper", &DIRECTORY).await;
        world.volume.link(&caller, one, root, b"also one").await.expect("linked");
        world.volume.link(&caller, world.data, sub, b"data of dir").await.expect("linked");
        world.write(one, &pattern(5)).await;
        world.write(two, &pattern(6)).await;
        // The leaf has the record and the entries of `sub`, and the records and extents of `one` and `two`.
        let shard = keys::shard(sub.number);
        assert!([root, world.dir, deeper].iter().all(|other| keys::shard(other.number) != shard));
        let (again, _) = lose(world, shard, &keys::record(sub.number)).await;
        let done = again.volume.spotfix_offline().await.expect("repaired");
        assert_eq!(done.left, Vec::new());
        again.finds(&[]).await;
        assert_eq!(again.lookup(root, "sub").await, Some(sub.number), "by its entry in the root");
        assert_eq!(again.lookup(sub, "deeper").await, Some(deeper.number), "by the record of `deeper`");
        assert_eq!(again.lookup(sub, "data of dir").await, Some(world.data.number), "by a further link of `data`");
        assert_eq!(again.lookup(root, "also one").await, Some(one.number), "by its entry in the root");
        assert!(again.read(one).await.expect("read") == pattern(5), "by the map of owners");
        assert_eq!(lost_file(&again, two).await, Some(two.number), "nothing else knew its name");
        assert!(again.read(two).await.expect("read") == pattern(6));
        let files = again.volume.usage(again.volume.root()).await.expect("counted").files;
        assert_eq!(files, 12, "root, dir, below, data, other, deep, symlink, sub, one, two, deeper, lost+found");
    });
}

#[test]
fn a_small_file_whose_record_is_lost_is_an_error_not_empty() {
    with(async |world| {
        let shard = keys::shard(world.deep.number);
        let (again, _) = lose(world, shard, &keys::record(world.deep.number)).await;
        assert_eq!(again.volume.spotfix_offline().await.expect("repaired").left, Vec::new());
        assert_eq!(again.lookup(again.dir, "below").await, Some(again.below.number));
        assert_eq!(lost_file(&again, again.deep).await, None, "nothing at all is left of it");
        assert_eq!(again.read(again.deep).await.expect_err("gone").kind, ErrorKind::Stale);
    });
}

#[test]
fn the_root_and_its_names_are_made_again() {
    with(async |world| {
        // `dir` and its files stand in the same leaf: only what is below it knows that it was there.
        assert_eq!(keys::shard(world.dir.number), keys::shard(1));
        let (again, _) = lose(world, keys::shard(1), &keys::record(1)).await;
        assert_eq!(again.volume.spotfix_offline().await.expect("repaired").left, Vec::new());
        again.finds(&[]).await;
        assert_eq!(lost_file(&again, again.dir).await, Some(again.dir.number));
        assert_eq!(again.lookup(again.dir, "below").await, Some(again.below.number));
        assert_eq!(again.read(again.deep).await, Ok(b"small".to_vec()));
        for (file, seed) in [(again.data, 1), (again.other, 2)] {
            assert_eq!(lost_file(&again, file).await, Some(file.number));
            assert!(again.read(file).await.expect("read") == pattern(seed));
        }
    });
}

#[test]
fn the_map_of_owners_is_made_again_of_extents() {
    with(async |world| {
        let value = world.volume.store.range(crate::OWNER_TREE, b"", 1).await.expect("read");
        let (again, _) = lose(world, crate::OWNER_TREE, &value[0].0).await;
        assert_eq!(again.volume.spotfix_offline().await.expect("repaired").left, Vec::new());
        again.finds(&[]).await;
        assert!(again.read(again.data).await.expect("read") == pattern(1));
        assert!(again.read(again.other).await.expect("read") == pattern(2));
    });
}

#[test]
fn notes_are_made_again_of_files_without_names() {
    with(async |world| {
        let handle = world.volume.open(&Caller::default(), world.other, OPEN).await.expect("opened");
        world.volume.remove(&Caller::default(), world.dir, b"other", Remove::File).await.expect("removed");
        let (again, _) = lose(world, crate::DEFERRED_TREE, &world.other.number.to_be_bytes()).await;
        drop(handle);
        assert_eq!(again.volume.spotfix_offline().await.expect("repaired").left, Vec::new());
        again.finds(&[]).await;
        assert_eq!(again.volume.usage(again.volume.root()).await.expect("counted").files, 7, "it is still there");
        let last = self::again(&again).await;
        assert_eq!(last.volume.usage(last.volume.root()).await.expect("counted").files, 6, "opening removed it");
        last.finds(&[]).await;
    });
}

#[test]
fn leaves_below_an_inner_node_that_is_lost_are_found() {
    with(async |world| {
        let caller = Caller::default();
        for number in 0..600 {
            let name = format!("{number} {}", "n".repeat(150));
            world.volume.create(&caller, world.dir, name.as_bytes(), &FILE).await.expect("made");
        }
        world.volume.checkpoint().await.expect("it lasts");
        let shard = keys::shard(world.dir.number);
        let root = {
            let newest = world.volume.store.checkpoint.lock().await;
            newest.root.trees.iter().find(|(tree, _)| *tree == shard).expect("it is there").1
        };
        let page = world.volume.store.read_node(root).await.expect("read");
        assert!(page.level() > 0, "the tree has inner nodes");
        world.disk.poke(root.address + 9000, &[0x55; 64]);
        let again = again(world).await;
        let done = again.volume.spotfix_offline().await.expect("repaired");
        assert_eq!(done.left, Vec::new());
        again.finds(&[]).await;
        assert_eq!(again.volume.stat(again.dir).await.expect("there").size_bytes, 603, "names of the directory");
        assert!(again.read(again.other).await.expect("read") == pattern(2));
        assert_eq!(again.lookup(again.dir, "other").await, Some(again.other.number));
    });
}

/// Fills `dir` so that its tree has inner nodes, has its root refer to other children, and opens the volume anew; answers
/// the children as they were.
async fn rewired(world: &World, rewire: impl FnOnce(&mut crate::page::Page)) -> (World, crate::page::Page) {
    for number in 0..600 {
        let name = format!("{number} {}", "n".repeat(150));
        world.volume.create(&Caller::default(), world.dir, name.as_bytes(), &FILE).await.expect("made");
    }
    world.volume.checkpoint().await.expect("it lasts");
    let shard = keys::shard(world.dir.number);
    let mut root = world.volume.store.checkpoint.lock().await.root.clone();
    let node = &mut root.trees.iter_mut().find(|(tree, _)| *tree == shard).expect("it is there").1;
    let before = world.volume.store.read_node(*node).await.expect("read");
    assert!(before.level() == 1 && before.count() > 2, "the tree has inner nodes");
    let mut page = before.clone();
    rewire(&mut page);
    let (changed, data) = page.seal(world.volume.id(), node.address, node.generation);
    world.disk.poke(node.address, &data);
    *node = changed;
    for at in world.volume.store.superblock().groups() {
        world.disk.poke(at + root.slot(), &root.seal(world.volume.id()));
    }
    (again(world).await, before)
}

fn range(page: &crate::page::Page, index: usize) -> (Vec<u8>, Option<Vec<u8>>) {
    let (low, high) = page.bounds_of(index);
    (low.to_vec(), high.map(<[u8]>::to_vec))
}

async fn is_repaired(again: &World) {
    assert_eq!(again.volume.spotfix_offline().await.expect("repaired").left, Vec::new());
    again.finds(&[]).await;
    assert_eq!(again.volume.stat(again.dir).await.expect("there").size_bytes, 603, "names of the directory");
    assert!(again.read(again.data).await.expect("read") == pattern(1));
    assert!(again.read(again.other).await.expect("read") == pattern(2));
}

#[test]
fn nodes_that_stand_for_each_other_are_no_part_of_the_tree_and_put_right() {
    with(async |world| {
        let swap = |page: &mut crate::page::Page| {
            let (one, other) = (page.child(0), page.child(1));
            page.set_child(0, other);
            page.set_child(1, one);
        };
        let (again, before) = rewired(world, swap).await;
        let shard = keys::shard(world.dir.number);
        assert_eq!(again.volume.stat(again.dir).await.expect_err("not there").kind, ErrorKind::Corrupt);
        assert_eq!(again.read(again.deep).await, Ok(b"small".to_vec()), "all else is served");
        let mut verbs: Vec<Verb> = [(0, 1), (1, 0)]
            .map(|(index, stands)| {
                let (low, high) = range(&before, index);
                Verb::NodeMisplaced { tree: shard, address: before.child(stands).address, low, high }
            })
            .into();
        verbs.sort();
        again.finds(&verbs).await;
        assert_eq!(again.volume.repair(&verbs[0]).await, Ok(Repaired::NeedsOffline));
        is_repaired(&again).await;
    });
}

#[test]
fn a_node_that_two_parents_name_stays_with_the_one_that_it_belongs_to() {
    with(async |world| {
        let (again, before) = rewired(world, |page| page.set_child(1, page.child(0))).await;
        let (low, high) = range(&before, 1);
        let tree = keys::shard(world.dir.number);
        let verb = Verb::NodeShared { tree, address: before.child(0).address, low, high };
        again.finds(std::slice::from_ref(&verb)).await;
        assert_eq!(again.volume.repair(&verb).await, Ok(Repaired::NeedsOffline));
        is_repaired(&again).await;
    });
}

#[test]
fn room_of_nodes_is_made_right_by_what_trees_refer_to() {
    with(async |world| {
        let shard = keys::shard(world.deep.number);
        let place = world.volume.store.place_of(shard, &keys::record(world.deep.number)).await;
        let address = place.expect("read").expect("it is there");
        held(&world.volume.store.zones).correct(address, 4, false);
        world.repaired(Verb::NodeFree { address, blocks: 4 }).await;
        let address = held(&world.volume.store.zones).take().expect("room");
        world.repaired(Verb::NodeLeak { address, blocks: 4 }).await;
    });
}
