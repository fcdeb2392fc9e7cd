//! Verbs of names, and of what stands beside the data of a file.

use super::*;
use crate::DEFERRED_TREE;

fn take(view: &mut View<'_>, dir: FileId, slot: u64, is_directory: bool) -> Result<(), Stop> {
    view.remove(keys::shard(dir.number), keys::entry(dir.number, slot))?;
    edit(view, dir, |record| {
        record.size -= 1;
        record.links -= u32::from(is_directory);
    })
}

fn put(view: &mut View<'_>, dir: FileId, slot: u64, entry: &DirectoryEntry) -> Result<(), Stop> {
    view.put(keys::shard(dir.number), keys::entry(dir.number, slot), entry.encode())?;
    edit(view, dir, |record| record.size += 1)
}

fn entry(child: FileId, name: &[u8]) -> DirectoryEntry {
    DirectoryEntry { child, kind: FileKind::Regular, name: name.to_vec() }
}

#[test]
fn an_orphan_goes_where_its_record_says() {
    with(async |world| {
        let slot = world.slot(world.dir, b"other").await;
        world.damage(|view| take(view, world.dir, slot, false)).await;
        world.repaired(Verb::Orphan { file: world.other.number }).await;
        assert_eq!(world.lookup(world.dir, "other").await, Some(world.other.number));
        assert!(world.read(world.other).await.expect("read") == pattern(2));
    });
}

#[test]
fn a_directory_that_is_an_orphan_keeps_what_is_in_it() {
    with(async |world| {
        let slot = world.slot(world.dir, b"below").await;
        world.damage(|view| take(view, world.dir, slot, true)).await;
        world.repaired(Verb::Orphan { file: world.below.number }).await;
        assert_eq!(world.lookup(world.dir, "below").await, Some(world.below.number));
        assert_eq!(world.lookup(world.below, "deep").await, Some(world.deep.number));
    });
}

#[test]
fn an_orphan_whose_name_is_taken_or_unknown_goes_to_lost_and_found() {
    with(async |world| {
        let slot = world.slot(world.dir, b"other").await;
        world.damage(|view| take(view, world.dir, slot, false)).await;
        let taker = world.volume.create(&Caller::default(), world.dir, b"other", &FILE).await.expect("made").id;
        world.repaired(Verb::Orphan { file: world.other.number }).await;
        assert_eq!(world.lookup(world.dir, "other").await, Some(taker.number));
        let lost = world.lookup(world.volume.root(), "lost+found").await.expect("made");
        let lost = FileId { number: lost, generation: 1 };
        let name = format!("file {}", world.other.number);
        assert_eq!(world.lookup(lost, &name).await, Some(world.other.number));
        assert!(world.read(world.other).await.expect("read") == pattern(2));
        // A file that says itself that it has no name, and that is not noted to be removed.
        let slot = world.slot(world.below, b"deep").await;
        let damage = |view: &mut View<'_>| {
            take(view, world.below, slot, false)?;
            edit(view, world.deep, |record| (record.links, record.link) = (0, Default::default()))
        };
        world.damage(damage).await;
        world.repaired(Verb::Orphan { file: world.deep.number }).await;
        assert_eq!(world.read(world.deep).await, Ok(b"small".to_vec()));
    });
}

#[test]
fn names_that_lead_nowhere_are_removed() {
    with(async |world| {
        let name = b"nobody".to_vec();
        let slot = world.volume.names.bucket(&name).start;
        let nobody = FileId { number: 77_777, generation: 1 };
        world.damage(|view| put(view, world.dir, slot, &entry(nobody, &name))).await;
        world.repaired(Verb::Dangling { directory: world.dir.number, slot, name: name.clone() }).await;
        let gone = FileId { generation: 9, ..world.other };
        world.damage(|view| put(view, world.dir, slot, &entry(gone, &name))).await;
        world.repaired(Verb::StaleGeneration { directory: world.dir.number, slot, name }).await;
        assert_eq!(world.lookup(world.dir, "nobody").await, None);
    });
}

#[test]
fn a_name_at_a_wrong_slot_is_found_again() {
    with(async |world| {
        for (dir, name, child) in [(world.dir, &b"other"[..], world.other), (world.volume.root(), b"link", world.data)]
        {
            let (slot, wrong) = (world.slot(dir, name).await, 77);
            let damage = |view: &mut View<'_>| {
                let entry = judge::entry(view, dir.number, slot)?.expect("it is there");
                view.remove(keys::shard(dir.number), keys::entry(dir.number, slot))?;
                view.put(keys::shard(dir.number), keys::entry(dir.number, wrong), entry.encode())?;
                let (shard, old) = (keys::shard(child.number), keys::link(child.number, dir.number, slot));
                if let Some(link) = view.get(shard, &old)? {
                    view.remove(shard, old)?;
                    view.put(shard, keys::link(child.number, dir.number, wrong), link)?;
                }
                Ok(())
            };
            world.damage(damage).await;
            let name_text = String::from_utf8_lossy(name).into_owned();
            assert_eq!(world.lookup(dir, &name_text).await, None);
            let verb = Verb::WrongSlot { directory: dir.number, slot: wrong, name: name.to_vec() };
            world.repaired(verb).await;
            assert_eq!(world.lookup(dir, &name_text).await, Some(child.number));
        }
    });
}

#[test]
fn a_circle_of_directories_is_opened() {
    with(async |world| {
        let slot = world.slot(world.volume.root(), b"dir").await;
        let to = world.volume.names.bucket(b"up").start;
        let damage = |view: &mut View<'_>| {
            take(view, world.volume.root(), slot, true)?;
            let up = DirectoryEntry { child: world.dir, kind: FileKind::Directory, name: b"up".to_vec() };
            put(view, world.below, to, &up)?;
            edit(view, world.below, |record| record.links += 1)?;
            edit(view, world.dir, |record| {
                record.link.parent = world.below.number;
                record.link.name = b"up".to_vec();
            })
        };
        world.damage(damage).await;
        let least = world.dir.number.min(world.below.number);
        world.repaired(Verb::Unreachable { directory: least }).await;
        let lost =
            FileId { number: world.lookup(world.volume.root(), "lost+found").await.expect("made"), generation: 1 };
        assert_eq!(world.lookup(lost, &format!("file {least}")).await, Some(least));
        assert!(world.read(world.other).await.expect("read") == pattern(2));
    });
}

#[test]
fn a_name_that_is_there_twice_is_there_once() {
    with(async |world| {
        let slot = world.slot(world.dir, b"other").await + 3;
        world.damage(|view| put(view, world.dir, slot, &entry(world.other, b"other"))).await;
        let verb = Verb::Duplicate { directory: world.dir.number, slot, name: b"other".to_vec() };
        world.repaired(verb).await;
        assert_eq!(world.lookup(world.dir, "other").await, Some(world.other.number));
    });
}

#[test]
fn a_name_that_its_file_does_not_know_is_learned_or_goes() {
    with(async |world| {
        let name = b"more".to_vec();
        let slot = world.volume.names.bucket(&name).start;
        let verb = Verb::EntryUnknown { directory: world.dir.number, slot, name: name.clone() };
        // Its count says that it has no such name.
        world.damage(|view| put(view, world.dir, slot, &entry(world.other, &name))).await;
        world.repaired(verb.clone()).await;
        assert_eq!(world.lookup(world.dir, "more").await, None);
        // The further name of a file is lost, and its count says that there is one.
        let slot = world.slot(world.volume.root(), b"link").await;
        let link = keys::link(world.data.number, world.volume.root().number, slot);
        world.damage(|view| view.remove(keys::shard(world.data.number), link.clone())).await;
        let verb = Verb::EntryUnknown { directory: 1, slot, name: b"link".to_vec() };
        world.finds(&[verb.clone(), Verb::Count { file: world.data.number }]).await;
        assert_eq!(world.volume.repair(&verb).await, Ok(Repaired::Fixed));
        world.finds(&[]).await;
        assert_eq!(world.lookup(world.volume.root(), "link").await, Some(world.data.number));
        // It says another kind.
        let slot = world.slot(world.dir, b"other").await;
        let wrong = DirectoryEntry { kind: FileKind::Fifo, ..entry(world.other, b"other") };
        let key = keys::entry(world.dir.number, slot);
        world.damage(|view| view.put(keys::shard(world.dir.number), key.clone(), wrong.encode())).await;
        world.repaired(Verb::EntryUnknown { directory: world.dir.number, slot, name: b"other".to_vec() }).await;
    });
}

#[test]
fn a_name_that_only_its_file_knows_is_given_back() {
    with(async |world| {
        let root = world.volume.root();
        let slot = world.slot(root, b"link").await;
        world.damage(|view| take(view, root, slot, false)).await;
        let verb = Verb::LinkUnknown { file: world.data.number, directory: 1, name: b"link".to_vec() };
        world.repaired(verb).await;
        assert_eq!(world.lookup(root, "link").await, Some(world.data.number));
        let slot = world.slot(world.dir, b"data").await;
        world.damage(|view| take(view, world.dir, slot, false)).await;
        let file = world.data.number;
        world.repaired(Verb::LinkUnknown { file, directory: world.dir.number, name: b"data".to_vec() }).await;
        assert_eq!(world.lookup(world.dir, "data").await, Some(file));
    });
}

#[test]
fn counts_are_made_anew() {
    with(async |world| {
        for file in [world.dir, world.data] {
            world.damage(|view| edit(view, file, |record| record.links += 2)).await;
            world.repaired(Verb::Count { file: file.number }).await;
            world.damage(|view| edit(view, file, |record| record.blocks += 2)).await;
            world.repaired(Verb::Count { file: file.number }).await;
        }
        world.damage(|view| edit(view, world.dir, |record| record.size = 0)).await;
        world.repaired(Verb::Count { file: world.dir.number }).await;
    });
}

#[test]
fn what_stands_beside_data_is_whole_or_goes() {
    with(async |world| {
        let (file, name) = (world.data.number, b"user.long".to_vec());
        let part = keys::extended(file, &name, 1);
        world.damage(|view| view.remove(keys::shard(file), part.clone())).await;
        world.repaired(Verb::Attribute { file, name }).await;
        assert_eq!(world.volume.list_extended(&Caller::default(), world.data).await, Ok(Vec::new()));

        world.damage(|view| view.put(keys::shard(file), keys::reparse(file), b"nowhere".to_vec())).await;
        world.repaired(Verb::SymbolicLink { file }).await;
        let link = world.lookup(world.volume.root(), "symlink").await.expect("it is there");
        world.damage(|view| view.remove(keys::shard(link), keys::reparse(link))).await;
        world.finds(&[Verb::SymbolicLink { file: link }]).await;
        assert_eq!(world.volume.repair(&Verb::SymbolicLink { file: link }).await, Ok(Repaired::NeedsOffline));
        world.finds(&[Verb::SymbolicLink { file: link }]).await;
    });
}

#[test]
fn a_note_removes_nothing_that_has_names() {
    with(async |world| {
        let (file, key) = (world.other.number, world.other.number.to_be_bytes().to_vec());
        world.damage(|view| view.put(DEFERRED_TREE, key.clone(), vec![1])).await;
        world.repaired(Verb::Note { file }).await;
        world.damage(|view| view.put(DEFERRED_TREE, key.clone(), vec![1])).await;
        world.volume.checkpoint().await.expect("it lasts");
        let again = open(&world.disk).await;
        assert_eq!(again.scan().await, Ok(Vec::new()), "opening forgot the note");
        assert!(world.read(world.other).await.expect("read") == pattern(2));
    });
}

#[test]
fn what_cannot_be_read_or_has_no_record_is_told() {
    with(async |world| {
        let file = world.deep.number;
        let key = [&keys::prefix(file, kind::LINK)[..], b"short"].concat();
        world.damage(|view| view.put(keys::shard(file), key.clone(), b"?".to_vec())).await;
        let verb = Verb::Unreadable { tree: keys::shard(file), key: key.clone() };
        world.finds(std::slice::from_ref(&verb)).await;
        assert_eq!(world.volume.repair(&verb).await, Ok(Repaired::NeedsOffline));
        let nobody = 64 * 32 * 9 + 5;
        let part = keys::extended(nobody, b"user.x", 0);
        world
            .damage(|view| {
                view.remove(keys::shard(file), key.clone())?;
                view.put(keys::shard(nobody), part.clone(), b"value".to_vec())
            })
            .await;
        world.finds(&[Verb::NoRecord { file: nobody }]).await;
    });
}
