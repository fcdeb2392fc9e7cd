//! Repairs from what a scan found, without another look at the volume.

use super::bulk::{Many, lost_and_found, name, repaired_as_known};
use super::*;
use crate::keys::RUN;
use crate::{DEFERRED_TREE, VERB_TREE};

fn unreadable(file: FileId) -> Verb {
    Verb::Unreadable { tree: keys::shard(file.number), key: keys::record(file.number) }
}

async fn spoil(world: &World, tree: u8, key: Vec<u8>) {
    world.damage(move |view| view.put(tree, key.clone(), b"?".to_vec())).await;
}

async fn spoil_record(world: &World, file: FileId) {
    spoil(world, keys::shard(file.number), keys::record(file.number)).await;
}

async fn record_lost(world: &World, dir: FileId, name: &[u8]) -> Verb {
    Verb::RecordLost { directory: dir.number, slot: world.slot(dir, name).await, name: name.to_vec() }
}

#[test]
fn a_record_that_cannot_be_read_is_made_again_of_its_name_and_extents() {
    with(async |world| {
        let verb = record_lost(world, world.dir, b"other").await;
        spoil_record(world, world.other).await;
        world.finds(&[verb.clone(), unreadable(world.other)]).await;
        assert_eq!(world.volume.repair(&verb).await, Ok(Repaired::NeedsOffline));
        repaired_as_known(world, 1).await;
        assert_eq!(world.lookup(world.dir, "other").await, Some(world.other.number));
        assert!(world.read(world.other).await.expect("read") == pattern(2));
    });
}

#[test]
fn a_file_of_several_names_keeps_them() {
    with(async |world| {
        let root = world.volume.root();
        world.volume.link(&Caller::default(), world.data, root, b"third").await.expect("linked");
        let verbs = async || {
            let mut verbs = vec![unreadable(world.data)];
            for (dir, name) in [(root, &b"link"[..]), (root, b"third"), (world.dir, b"data")] {
                verbs.push(record_lost(world, dir, name).await);
            }
            verbs.sort();
            verbs
        };
        let expected = verbs().await;
        spoil_record(world, world.data).await;
        world.finds(&expected).await;
        assert_eq!(world.volume.spotfix_known().await.expect("repaired").expect("it says all").left, Vec::new());
        world.finds(&[]).await;
        // A further name that the file does not know itself, either.
        let expected = verbs().await;
        let slot = world.slot(root, b"third").await;
        spoil_record(world, world.data).await;
        let link = keys::link(world.data.number, root.number, slot);
        world.damage(|view| view.remove(keys::shard(world.data.number), link.clone())).await;
        world.finds(&expected).await;
        let done = world.volume.spotfix_known().await.expect("repaired").expect("it says all");
        assert_eq!(done.left, Vec::new());
        world.finds(&[]).await;
        for (dir, name) in [(root, "link"), (root, "third"), (world.dir, "data")] {
            assert_eq!(world.lookup(dir, name).await, Some(world.data.number), "{name}");
        }
        assert_eq!(world.volume.stat(world.data).await.expect("known").links, 3);
        assert!(world.read(world.data).await.expect("read") == pattern(1));
        let name = [b"user.long".to_vec()];
        assert_eq!(world.volume.list_extended(&Caller::default(), world.data).await.as_deref(), Ok(&name[..]));
    });
}

#[test]
fn files_in_a_directory_whose_record_cannot_be_read_stay_in_it() {
    with(async |world| {
        let many = Many::new(world, "many", 70).await;
        let root = world.volume.root();
        let verbs = [record_lost(world, root, b"many").await, unreadable(many.dir)];
        spoil_record(world, many.dir).await;
        world.finds(&verbs).await;
        // A repair in use leaves them where they are.
        assert_eq!(world.volume.spotfix().await.expect("done").left, verbs);
        assert_eq!(world.lookup(root, "lost+found").await, None);
        repaired_as_known(world, 1).await;
        assert_eq!(world.lookup(many.dir, &name(69)).await, Some(many.files[69].number));
        assert_eq!(world.volume.stat(many.dir).await.expect("known").size_bytes, 70);
    });
}

#[test]
fn a_record_without_a_name_goes_to_lost_and_found() {
    with(async |world| {
        let slot = world.slot(world.dir, b"other").await;
        let take = |view: &mut View<'_>| {
            view.remove(keys::shard(world.dir.number), keys::entry(world.dir.number, slot))?;
            edit(view, world.dir, |record| record.size -= 1)
        };
        world.damage(take).await;
        spoil_record(world, world.other).await;
        world.finds(&[unreadable(world.other)]).await;
        repaired_as_known(world, 1).await;
        let lost = lost_and_found(world).await;
        assert_eq!(world.lookup(lost, &format!("file {}", world.other.number)).await, Some(world.other.number));
        assert!(world.read(world.other).await.expect("read") == pattern(2));
    });
}

#[test]
fn an_entry_that_cannot_be_read_goes_and_its_file_gets_its_name_back_in_use() {
    with(async |world| {
        let (shard, slot) = (keys::shard(world.below.number), world.slot(world.below, b"deep").await);
        let key = keys::entry(world.below.number, slot);
        spoil(world, shard, key.clone()).await;
        world.finds(&[Verb::Unreadable { tree: shard, key }]).await;
        let done = world.volume.spotfix_known().await.expect("repaired").expect("it says all");
        assert_eq!((done.fixed, done.left), (1, Vec::new()));
        world.finds(&[Verb::Orphan { file: world.deep.number }, Verb::Count { file: world.below.number }]).await;
        assert_eq!(world.volume.spotfix().await.expect("repaired").left, Vec::new());
        assert_eq!(world.lookup(world.below, "deep").await, Some(world.deep.number));
        assert_eq!(world.read(world.deep).await, Ok(b"small".to_vec()));
    });
}

#[test]
fn what_is_repaired_by_reading_much_is_left_for_repair_in_use() {
    with(async |world| {
        let many = Many::new(world, "many", 30).await;
        many.lose(world).await;
        world.damage(|view| edit(view, world.data, |record| record.links += 2)).await;
        let count = Verb::Count { file: world.data.number };
        let mut verbs = many.verbs();
        verbs.push(count.clone());
        verbs.sort();
        world.finds(&verbs).await;
        let done = world.volume.spotfix_known().await.expect("repaired").expect("it says all");
        assert_eq!((done.fixed, &done.left[..]), (30, &[count.clone()][..]));
        world.finds(&[count]).await;
        assert_eq!(world.volume.spotfix().await.expect("repaired").left, Vec::new());
    });
}

#[test]
fn findings_that_say_too_little_are_not_begun_with() {
    with(async |world| {
        let volume = &world.volume;
        assert_eq!(volume.spotfix_known().await, Ok(None), "nothing was found");
        let root = Verb::Unreadable { tree: keys::shard(1), key: keys::record(1) };
        let extent = keys::extent(world.data.number, 0, 8);
        let low = Vec::new();
        for verb in [
            Verb::NoRecord { file: 77_777 },
            Verb::NodeLost { tree: 3, address: 4096, low: low.clone(), high: None },
            Verb::NodeShared { tree: 3, address: 4096, low, high: None },
            Verb::Unreadable { tree: keys::shard(world.data.number), key: extent },
            Verb::Unreadable { tree: DEFERRED_TREE, key: b"?".to_vec() },
            root,
        ] {
            volume.keep_verbs(&[verb.clone(), Verb::Orphan { file: world.data.number }]).await.expect("kept");
            assert_eq!(volume.spotfix_known().await, Ok(None), "{verb}");
        }
        volume.keep_verbs(&[Verb::Orphan { file: world.data.number }]).await.expect("kept");
        spoil(world, VERB_TREE, b"key".to_vec()).await;
        assert_eq!(volume.spotfix_known().await, Ok(None), "what was kept cannot be read");
        world.finds(&[]).await;
    });
}

#[test]
fn files_that_are_open_keep_the_volume_from_it() {
    with(async |world| {
        let handle = world.volume.open(&Caller::default(), world.data, OPEN).await.expect("opened");
        world.volume.keep_verbs(&[Verb::Orphan { file: world.data.number }]).await.expect("kept");
        assert_eq!(world.volume.spotfix_known().await.expect_err("busy").kind, crate::ErrorKind::Busy);
        world.volume.close(handle).await.expect("closed");
    });
}

/// Findings of all kinds about things that are there, and about numbers at the ends.
async fn made_up(world: &World) -> Vec<Verb> {
    let (dir, slot, name) = (world.dir.number, world.slot(world.dir, b"other").await, b"other".to_vec());
    let mut verbs = Vec::new();
    for file in [0, 1, dir, world.below.number, world.data.number, world.other.number, u64::MAX] {
        verbs.extend([
            Verb::Orphan { file },
            Verb::Orphans { first: file / RUN * RUN, files: u64::MAX },
            Verb::Unreachable { directory: file },
            Verb::Count { file },
            Verb::SymbolicLink { file },
            Verb::Note { file },
            Verb::Attribute { file, name: b"user.long".to_vec() },
            Verb::LinkUnknown { file, directory: dir, name: name.clone() },
            Verb::Overlap { file, end: 8, place: 0 },
            Verb::Unowned { file, end: 8, place: u64::MAX },
            Verb::Beyond { file, end: u64::MAX, place: 0 },
            Verb::OwnerAlone { place: file },
            Verb::Double { place: file, blocks: 0 },
            Verb::Leak { place: file, blocks: 0 },
            Verb::Bitmap { zone: file },
            Verb::Unreadable { tree: keys::shard(file), key: keys::record(file) },
            Verb::Unreadable { tree: keys::shard(file), key: keys::entry(file, slot) },
        ]);
        for slot in [0, slot, u64::MAX] {
            let (directory, name) = (file, name.clone());
            verbs.extend([
                Verb::Dangling { directory, slot, name: name.clone() },
                Verb::StaleGeneration { directory, slot, name: name.clone() },
                Verb::WrongSlot { directory, slot, name: name.clone() },
                Verb::Duplicate { directory, slot, name: name.clone() },
                Verb::EntryUnknown { directory, slot, name: name.clone() },
                Verb::RecordLost { directory, slot, name },
            ]);
        }
    }
    verbs.retain(|verb| !verb.needs_all());
    verbs
}

#[test]
fn findings_that_are_not_so_change_nothing() {
    with(async |world| {
        let verbs = made_up(world).await;
        world.volume.keep_verbs(&verbs).await.expect("kept");
        let last = async || {
            let kept = world.volume.findings().await.expect("read").len();
            let mut all = Vec::new();
            for tree in (0..crate::SHARED_TREES).chain([crate::OWNER_TREE, DEFERRED_TREE]) {
                all.push(world.volume.store.range(tree, b"", usize::MAX).await.expect("read"));
            }
            (kept, all)
        };
        let before = last().await;
        assert!(before.0 > 150, "{} are kept", before.0);
        let done = world.volume.spotfix_known().await.expect("repaired").expect("none needs more");
        assert_eq!(done.fixed, 0);
        let is_later = |verb: &Verb| {
            matches!(verb, Verb::Count { .. } | Verb::OwnerAlone { .. } | Verb::Leak { .. } | Verb::Bitmap { .. })
        };
        assert!(done.left.iter().all(is_later), "{:?}", done.left);
        assert!(last().await.1 == before.1, "not one entry changed");
        // The same, each for itself and in use.
        for verb in &verbs {
            let done = world.volume.repair(verb).await.expect("looked at");
            assert!(done == Repaired::AlreadyGone || done == Repaired::NeedsOffline && !verb.is_online(), "{verb:?}");
        }
        assert!(last().await.1 == before.1, "not one entry changed");
        world.finds(&[]).await;
    });
}

#[test]
fn findings_that_were_repaired_or_changed_meanwhile_change_nothing_more() {
    with(async |world| {
        let many = Many::new(world, "many", 100).await;
        many.lose(world).await;
        let old = many.verbs();
        world.finds(&old).await;
        assert_eq!(world.volume.spotfix().await.expect("repaired").left, Vec::new());
        let (caller, dir) = (Caller::default(), many.dir);
        // Since then: renamed, removed, with a further name, and open without a name.
        let to = (world.dir, &b"moved"[..]);
        world
            .volume
            .rename(&caller, (dir, name(1).as_bytes()), to, crate::service::Rename::Replace)
            .await
            .expect("moved");
        world.volume.remove(&caller, dir, name(2).as_bytes(), Remove::File).await.expect("removed");
        world.volume.link(&caller, many.files[3], world.dir, b"further").await.expect("linked");
        world.volume.keep_verbs(&old).await.expect("kept");
        repaired_as_known(world, 0).await;
        assert_eq!(world.lookup(world.dir, "moved").await, Some(many.files[1].number));
        assert_eq!(world.lookup(dir, &name(1)).await, None);
        assert_eq!(world.lookup(dir, &name(2)).await, None);
        let handle = world.volume.open(&caller, many.files[4], OPEN).await.expect("opened");
        world.volume.remove(&caller, dir, name(4).as_bytes(), Remove::File).await.expect("removed");
        for verb in &old {
            assert_eq!(world.volume.repair(verb).await, Ok(Repaired::AlreadyGone));
        }
        assert_eq!(world.lookup(dir, &name(4)).await, None, "it is to go when it is closed");
        world.volume.close(handle).await.expect("closed");
        world.finds(&[]).await;
    });
}
