//! Many files without a name, and what may have become of the directories that they name.

use super::*;
use crate::ErrorKind;
use crate::keys::RUN;
use crate::quota::Limits;
use crate::record::Link;

/// A directory of files that are to lose their names.
pub(super) struct Many {
    pub dir: FileId,
    pub files: Vec<FileId>,
}

pub(super) fn name(number: usize) -> String {
    format!("file number {number}")
}

impl Many {
    pub async fn new(world: &World, dir: &str, count: usize) -> Self {
        let (caller, root) = (Caller::default(), world.volume.root());
        let dir = world.volume.create(&caller, root, dir.as_bytes(), &DIRECTORY).await.expect("made").id;
        let mut many = Self { dir, files: Vec::new() };
        for number in 0..count {
            let id = world.volume.create(&caller, dir, name(number).as_bytes(), &FILE).await.expect("made").id;
            world.write(id, format!("bytes of {number}").as_bytes()).await;
            many.files.push(id);
        }
        many
    }

    /// Takes all names out, and counts that.
    pub async fn lose(&self, world: &World) {
        let mut slots = Vec::new();
        for number in 0..self.files.len() {
            slots.push(world.slot(self.dir, name(number).as_bytes()).await);
        }
        for some in slots.chunks(50) {
            let take = |view: &mut View<'_>| {
                for slot in some {
                    view.remove(keys::shard(self.dir.number), keys::entry(self.dir.number, *slot))?;
                }
                edit(view, self.dir, |record| record.size -= some.len() as u64)
            };
            world.damage(take).await;
        }
    }

    /// What a scan says of it: one finding for each run of ids.
    pub fn verbs(&self) -> Vec<Verb> {
        let mut runs = std::collections::BTreeMap::<u64, u64>::new();
        for file in &self.files {
            *runs.entry(file.number / RUN).or_default() |= 1 << (file.number % RUN);
        }
        let of = |(run, files): (u64, u64)| match files.count_ones() {
            1 => Verb::Orphan { file: run * RUN + u64::from(files.trailing_zeros()) },
            _ => Verb::Orphans { first: run * RUN, files },
        };
        let mut verbs: Vec<Verb> = runs.into_iter().map(of).collect();
        verbs.sort();
        verbs
    }

    async fn has(&self, world: &World, number: usize, dir: FileId, name: &str) {
        let id = self.files[number];
        assert_eq!(world.lookup(dir, name).await, Some(id.number), "{name}");
        assert_eq!(world.read(id).await, Ok(format!("bytes of {number}").into_bytes()));
    }
}

/// The directory of what was lost.
pub(super) async fn lost_and_found(world: &World) -> FileId {
    let number = world.lookup(world.volume.root(), "lost+found").await.expect("made");
    FileId { number, generation: 1 }
}

/// What was found is repaired without another look, and nothing is left, also as opened again.
pub(super) async fn repaired_as_known(world: &World, fixed: u64) {
    let done = world.volume.spotfix_known().await.expect("repaired").expect("it says all");
    assert_eq!((done.fixed, done.left), (fixed, Vec::new()));
    assert_eq!(world.volume.findings().await, Ok(Vec::new()), "forgotten");
    world.finds(&[]).await;
    let image = world.disk.image();
    assert_eq!(open(&world.disk).await.scan().await, Ok(Vec::new()), "as opened again");
    world.disk.set_back(&image);
}

#[test]
fn files_of_a_directory_get_their_names_back_together() {
    with(async |world| {
        let many = Many::new(world, "many", 200).await;
        many.lose(world).await;
        let verbs = many.verbs();
        assert!((3..8).contains(&verbs.len()), "one finding for many files: {}", verbs.len());
        assert_eq!(verbs.iter().map(Verb::count).sum::<u64>(), 200);
        world.finds(&verbs).await;
        repaired_as_known(world, 200).await;
        for number in 0..200 {
            many.has(world, number, many.dir, &name(number)).await;
        }
        assert_eq!(world.volume.stat(many.dir).await.expect("known").size_bytes, 200);
    });
}

#[test]
fn what_stands_between_records_keeps_no_file_from_its_name() {
    // As many keys as are read at once end before a record, with it, and behind it.
    for between in [248, 249, 250, 600] {
        with(async move |world| {
            let many = Many::new(world, "many", 20).await;
            let run = many.files.iter().position(|file| file.number / RUN != many.files[0].number / RUN).unwrap_or(20);
            assert!(run > 10, "{run} files of one run");
            let caller = Caller::default();
            for number in 0..between {
                let name = format!("user.{number}").into_bytes();
                world.volume.set_extended(&caller, many.files[5], &name, b"", SetMode::Any).await.expect("set");
            }
            many.lose(world).await;
            world.finds(&many.verbs()).await;
            repaired_as_known(world, 20).await;
            for number in 0..20 {
                many.has(world, number, many.dir, &name(number)).await;
            }
        });
    }
}

#[test]
fn they_do_so_in_use_as_well() {
    with(async |world| {
        let many = Many::new(world, "many", 100).await;
        many.lose(world).await;
        let done = world.volume.spotfix().await.expect("repaired");
        assert_eq!((done.fixed, done.left), (100, Vec::new()));
        many.has(world, 77, many.dir, &name(77)).await;
        many.lose(world).await;
        for verb in many.verbs() {
            assert_eq!(world.volume.repair(&verb).await, Ok(Repaired::Fixed));
            assert_eq!(world.volume.repair(&verb).await, Ok(Repaired::AlreadyGone));
        }
        world.finds(&[]).await;
    });
}

#[test]
fn files_whose_directory_cannot_take_them_go_to_lost_and_found() {
    with(async |world| {
        let (caller, root) = (Caller::default(), world.volume.root());
        let many = Many::new(world, "many", 60).await;
        let gone = Many::new(world, "gone", 40).await;
        many.lose(world).await;
        gone.lose(world).await;
        world.volume.remove(&caller, root, b"gone", Remove::Directory).await.expect("it is empty");
        let mut takers = Vec::new();
        for number in 0..10 {
            let made = world.volume.create(&caller, many.dir, name(number).as_bytes(), &FILE).await;
            takers.push(made.expect("the name is free").id);
        }
        let mark = |number: usize, link: Link| {
            let file = many.files[number];
            world.damage(move |view| edit(view, file, |record| record.link = link.clone()))
        };
        let link = |parent: FileId, name: &[u8]| Link {
            parent: parent.number,
            parent_generation: parent.generation,
            name: name.to_vec(),
        };
        // Another directory had the number, what has it is a file, and names that are none.
        mark(10, link(FileId { generation: 9, ..many.dir }, b"later")).await;
        mark(11, link(world.other, b"below a file")).await;
        mark(12, link(many.dir, b"no/name")).await;
        mark(13, link(many.dir, b"..")).await;
        // Two that say the same.
        mark(14, link(many.dir, b"the same")).await;
        mark(15, link(many.dir, b"the same")).await;
        let mut verbs = [many.verbs(), gone.verbs()].concat();
        verbs.sort();
        world.finds(&verbs).await;
        repaired_as_known(world, 100).await;
        let lost = lost_and_found(world).await;
        let file = |many: &Many, number: usize| format!("file {}", many.files[number].number);
        for (number, taker) in takers.iter().enumerate() {
            assert_eq!(world.lookup(many.dir, &name(number)).await, Some(taker.number), "it was there first");
        }
        for number in (0..14).chain([15]) {
            many.has(world, number, lost, &file(&many, number)).await;
        }
        many.has(world, 14, many.dir, "the same").await;
        for number in 16..60 {
            many.has(world, number, many.dir, &name(number)).await;
        }
        for number in 0..40 {
            gone.has(world, number, lost, &file(&gone, number)).await;
        }
    });
}

#[test]
fn a_directory_that_is_full_of_names_alike_takes_no_more_of_them() {
    with(async |world| {
        let caller = Caller::default();
        let alike =
            |number: usize| -> Vec<u8> { (0..9).map(|bit| if number >> bit & 1 == 1 { b'A' } else { b'a' }).collect() };
        let mut files = Vec::new();
        for number in 0..256 {
            files.push(world.volume.create(&caller, world.dir, &alike(number), &FILE).await.expect("made").id);
        }
        let refused = world.volume.create(&caller, world.dir, &alike(256), &FILE).await.expect_err("all are taken");
        assert_eq!(refused.kind, ErrorKind::NoSpace);
        // Two beside each other, and one by itself.
        let orphans = [0, 1, 200];
        let mut verbs = Vec::new();
        for number in orphans {
            let slot = world.slot(world.dir, &alike(number)).await;
            let take = |view: &mut View<'_>| {
                view.remove(keys::shard(world.dir.number), keys::entry(world.dir.number, slot))?;
                edit(view, world.dir, |record| record.size -= 1)
            };
            world.damage(take).await;
        }
        verbs.extend(Many { dir: world.dir, files: orphans.map(|number| files[number]).to_vec() }.verbs());
        assert_eq!(verbs.len(), 2);
        for number in 256..259 {
            world.volume.create(&caller, world.dir, &alike(number), &FILE).await.expect("there is room again");
        }
        world.finds(&verbs).await;
        repaired_as_known(world, 3).await;
        let lost = lost_and_found(world).await;
        for number in orphans {
            let file = files[number].number;
            assert_eq!(world.lookup(lost, &format!("file {file}")).await, Some(file));
        }
    });
}

#[test]
fn limits_of_directory_trees_keep_no_file_from_its_name() {
    with(async |world| {
        let root = world.volume.root();
        let many = Many::new(world, "many", 100).await;
        let limits = |files| Limits { hard_files: Some(files), ..Limits::default() };
        world.volume.set_tree_quota(many.dir, limits(10)).await.expect("set");
        world.volume.settle_quotas().await.expect("walked");
        // Nothing can be created, not even the directory of what was lost.
        world.volume.set_tree_quota(root, limits(20)).await.expect("set");
        world.volume.settle_quotas().await.expect("walked");
        let refused = world.volume.create(&Caller::default(), root, b"new", &FILE).await.expect_err("over its limit");
        assert_eq!(refused.kind, ErrorKind::Quota);
        many.lose(world).await;
        let file = many.files[99];
        world.damage(|view| edit(view, file, |record| record.link.parent_generation = 9)).await;
        world.finds(&many.verbs()).await;
        repaired_as_known(world, 100).await;
        many.has(world, 0, many.dir, &name(0)).await;
        many.has(world, 99, lost_and_found(world).await, &format!("file {}", file.number)).await;
    });
}

#[test]
fn one_that_something_damaged_keeps_from_its_name_keeps_no_other() {
    with(async |world| {
        let many = Many::new(world, "many", 50).await;
        many.lose(world).await;
        let verbs = many.verbs();
        world.finds(&verbs).await;
        // Where the names of two are to stand, entries cannot be read.
        let bad: Vec<Vec<u8>> = [3, 40]
            .map(|number| keys::entry(many.dir.number, world.volume.names.bucket(name(number).as_bytes()).start))
            .to_vec();
        let shard = keys::shard(many.dir.number);
        world.damage(|view| bad.iter().try_for_each(|key| view.put(shard, key.clone(), b"?".to_vec()))).await;
        let done = world.volume.spotfix_known().await.expect("repaired").expect("it says all");
        assert_eq!(done.fixed, 48);
        assert_eq!(done.left.iter().map(Verb::count).sum::<u64>(), 2, "{:?}", done.left);
        let mut kept = world.volume.findings().await.expect("read");
        kept.sort();
        assert_eq!(kept, done.left);
        many.has(world, 4, many.dir, &name(4)).await;
        // As soon as those are found, they and the names are repaired.
        world.volume.scan().await.expect("scanned");
        assert!(world.volume.spotfix_known().await.expect("repaired").is_some());
        assert_eq!(world.volume.spotfix().await.expect("repaired").left, Vec::new());
        many.has(world, 3, many.dir, &name(3)).await;
        world.finds(&[]).await;
    });
}
