//! Quotas: what is counted is what files take, and what limits say holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_device::IoBuf;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_volume::service::{
    Allocate, Attributes, Caller, FileId, FileKind, FileService, NewFile, Remove, Rename, SetAttributes,
};
use holdfast_volume::{ErrorKind, Handle, Limits, Quota, QuotaState, Subject, Volume, VolumeError};

use crate::model::{Files, read_all};
use crate::plain::{WRITING, new_volume, open};

const BLOCK: u64 = 4096;

/// What each takes, in bytes and files.
type Taken = BTreeMap<Subject, (u64, u64)>;

/// Holds what a volume counts against what its files take. No file without a name is open.
pub async fn check(volume: &Volume, files: &Files) {
    let quotas = volume.quotas();
    let mut expected = Taken::new();
    let mut of = BTreeMap::new();
    for node in files.nodes.values() {
        let mut facts = volume.stat(node.id).await.expect("it is there");
        // What a record carries takes no room of its own.
        facts.allocated_bytes = facts.allocated_bytes / BLOCK * BLOCK;
        of.insert(node.id.number, facts);
        let stranger = node.security.as_ref().and_then(|own| own.owner).filter(|_| facts.uid == 65_534);
        let owner = stranger.map_or(Subject::User(facts.uid), Subject::Sid);
        for subject in [owner, Subject::Group(facts.gid)] {
            let (bytes, count) = expected.entry(subject).or_default();
            (*bytes, *count) = (*bytes + facts.allocated_bytes, *count + 1);
        }
    }
    let is_settled = quotas.iter().all(|quota| quota.state == QuotaState::Settled);
    for quota in quotas.iter().filter(|_| is_settled) {
        let Some(directory) = quota.directory else { continue };
        let below = below(files, directory.number);
        let bytes = below.iter().map(|number| of[number].allocated_bytes).sum();
        expected.insert(quota.subject, (bytes, below.len() as u64));
    }
    let is_shown = |quota: &&Quota| is_settled || !matches!(quota.subject, Subject::Tree(_));
    let found: Taken =
        quotas.iter().filter(is_shown).map(|quota| (quota.subject, (quota.used_bytes, quota.used_files))).collect();
    let some = |taken: &Taken| -> Taken {
        taken.iter().filter(|(_, taken)| **taken != (0, 0)).map(|(subject, taken)| (*subject, *taken)).collect()
    };
    assert_eq!(some(&found), some(&expected), "what is counted, and what files take");
}

/// A directory and all that is below it.
fn below(files: &Files, directory: u64) -> BTreeSet<u64> {
    let (mut found, mut waiting) = (BTreeSet::from([directory]), vec![directory]);
    while let Some(at) = waiting.pop() {
        for (_, child) in files.names_in(at) {
            if found.insert(child) {
                waiting.push(child);
            }
        }
    }
    found
}

/// The directories that have quotas, by their numbers. All walks were made.
pub fn roots(volume: &Volume) -> BTreeSet<u64> {
    volume.quotas().iter().filter_map(|quota| quota.directory).map(|directory| directory.number).collect()
}

/// The directory whose quota a directory counts for.
pub fn tree_of(files: &Files, roots: &BTreeSet<u64>, directory: u64, root: u64) -> Option<u64> {
    let mut at = directory;
    loop {
        if roots.contains(&at) {
            return Some(at);
        }
        if at == root {
            return None;
        }
        at = files.entries.iter().find(|(_, child)| **child == at).map_or(root, |((parent, _), _)| *parent);
    }
}

/// Whether a file has names below a directory and elsewhere, so that either may count it.
pub fn is_split(files: &Files, directory: u64) -> bool {
    let below = below(files, directory);
    let is_in = |(parent, _): &(u64, Vec<u8>)| below.contains(parent);
    files.nodes.values().filter(|node| node.kind == FileKind::Regular).any(|node| {
        let mut names =
            files.entries.iter().filter(|(_, child)| **child == node.id.number).map(|(name, _)| is_in(name));
        let first = names.next();
        names.any(|is_in| Some(is_in) != first)
    })
}

struct World {
    disk: Arc<SimDisk>,
    volume: Volume,
}

/// Runs a test on an empty volume, which all may write to.
fn with(test: impl AsyncFnOnce(&mut World) + 'static) {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let volume = new_volume(disk.clone()).await;
        let mut world = World { disk, volume };
        test(&mut world).await;
        check(&world.volume, &read_all(&world.volume).await).await;
        assert_eq!(world.volume.scan().await, Ok(Vec::new()));
        assert_eq!(world.volume.recount().await, Ok(false), "nothing was counted wrong");
    });
    ran.expect("powered");
}

fn user(uid: u32) -> Caller {
    Caller { uid, gid: uid, ..Caller::default() }
}

fn kind<T>(result: Result<T, VolumeError>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

fn bytes(hard: u64) -> Limits {
    Limits { hard_bytes: Some(hard), ..Limits::default() }
}

impl World {
    async fn make(&self, caller: &Caller, dir: FileId, name: &str, kind: FileKind) -> Result<Attributes, VolumeError> {
        let new = NewFile { kind, mode: 0o777, target: if kind == FileKind::Symlink { b"there" } else { b"" } };
        self.volume.create(caller, dir, name.as_bytes(), &new).await
    }

    async fn file(&self, caller: &Caller, dir: FileId, name: &str) -> FileId {
        self.make(caller, dir, name, FileKind::Regular).await.expect("made").id
    }

    async fn directory(&self, dir: FileId, name: &str) -> FileId {
        self.make(&user(0), dir, name, FileKind::Directory).await.expect("made").id
    }

    async fn open(&self, id: FileId) -> Handle {
        self.volume.open(&user(0), id, WRITING).await.expect("opened")
    }

    async fn write(&self, id: FileId, blocks: std::ops::Range<u64>) -> Result<(), VolumeError> {
        let handle = self.open(id).await;
        let len = ((blocks.end - blocks.start) * BLOCK) as usize;
        let (mut done, mut written) = (0, Ok(()));
        while done < len && written.is_ok() {
            let rest = len - done;
            let at = blocks.start * BLOCK + done as u64;
            let some = self.volume.write(&handle, at, IoBuf::zeroed(rest).freeze(), rest).await;
            written = some.map(|some| done += some);
        }
        self.volume.close(handle).await.expect("closed");
        written
    }

    async fn allocate(&self, id: FileId, blocks: std::ops::Range<u64>, how: Allocate) -> Result<(), VolumeError> {
        let handle = self.open(id).await;
        let (from, len) = (blocks.start * BLOCK, (blocks.end - blocks.start) * BLOCK);
        let done = self.volume.allocate(&handle, from, len, how).await;
        self.volume.close(handle).await.expect("closed");
        done
    }

    async fn rename(&self, from: (FileId, &str), to: (FileId, &str)) -> Result<(), VolumeError> {
        let (from, to) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
        self.volume.rename(&user(0), from, to, Rename::Replace).await
    }

    async fn limit(&self, dir: FileId, limits: Limits) -> Subject {
        let (tree, is_new) = self.volume.set_tree_quota(dir, limits).await.expect("set");
        assert!(is_new);
        self.volume.settle_quotas().await.expect("walked");
        Subject::Tree(tree)
    }

    fn quota(&self, subject: Subject) -> Quota {
        self.volume.quotas().into_iter().find(|quota| quota.subject == subject).expect("it is counted")
    }

    /// Blocks and files that are taken.
    fn used(&self, subject: Subject) -> (u64, u64) {
        let found = self.volume.quotas().into_iter().find(|quota| quota.subject == subject);
        found.map_or((0, 0), |quota| (quota.used_bytes / BLOCK, quota.used_files))
    }
}

#[test]
fn what_users_take_is_counted_as_it_changes() {
    with(async |world| {
        let (volume, root, one) = (&world.volume, world.volume.root(), Subject::User(1));
        let file = world.file(&user(1), root, "file").await;
        assert_eq!(world.used(one), (0, 1));
        let handle = world.open(file).await;
        volume.write(&handle, 0, IoBuf::zeroed(4096).freeze(), 100).await.expect("written");
        assert_eq!(world.used(one), (0, 1), "what stands in its record takes no blocks");
        volume.close(handle).await.expect("closed");
        world.write(file, 0..10).await.expect("written");
        world.write(file, 5..10).await.expect("written over");
        assert_eq!((world.used(one), world.used(Subject::Group(1))), ((10, 1), (10, 1)));
        world.allocate(file, 20..30, Allocate::Reserve { keep_size: true }).await.expect("set aside");
        assert_eq!(world.used(one), (20, 1));
        world.write(file, 20..25).await.expect("written");
        assert_eq!(world.used(one), (20, 1), "room that was set aside counted already");
        world.allocate(file, 2..8, Allocate::Punch).await.expect("given back");
        assert_eq!(world.used(one), (14, 1));
        let cut = SetAttributes { size_bytes: Some(BLOCK), ..SetAttributes::default() };
        volume.set(&user(1), file, &cut).await.expect("cut");
        assert_eq!(world.used(one), (1, 1));
        volume.link(&user(0), file, root, b"more").await.expect("linked");
        assert_eq!(world.used(one), (1, 1), "a further name is no further file");
        let owner = SetAttributes { uid: Some(2), gid: Some(3), ..SetAttributes::default() };
        volume.set(&user(0), file, &owner).await.expect("given away");
        assert_eq!((world.used(one), world.used(Subject::User(2))), ((0, 0), (1, 1)));
        assert_eq!((world.used(Subject::Group(1)), world.used(Subject::Group(3))), ((0, 0), (1, 1)));
        volume.remove(&user(0), root, b"file", Remove::File).await.expect("removed");
        let handle = world.open(file).await;
        volume.remove(&user(0), root, b"more", Remove::File).await.expect("removed");
        assert_eq!(world.used(Subject::User(2)), (1, 1), "it is open");
        volume.close(handle).await.expect("closed");
        assert_eq!(world.used(Subject::User(2)), (0, 0));
        world.make(&user(2), root, "link", FileKind::Symlink).await.expect("made");
        world.make(&user(2), root, "dir", FileKind::Directory).await.expect("made");
        assert_eq!(world.used(Subject::User(2)), (0, 2));
    });
}

#[test]
fn a_user_gets_no_more_than_the_limit_and_the_system_does() {
    with(async |world| {
        let (volume, root, one) = (&world.volume, world.volume.root(), Subject::User(1));
        let limits = Limits { hard_bytes: Some(10 * BLOCK), hard_files: Some(3), ..Limits::default() };
        assert_eq!(volume.set_quota(one, limits).await, Ok(true));
        assert_eq!(volume.set_quota(one, limits).await, Ok(false), "it is so already");
        assert_eq!(kind(volume.set_quota(Subject::User(0), limits).await), Some(ErrorKind::Invalid));
        let file = world.file(&user(1), root, "file").await;
        assert_eq!(kind(world.write(file, 0..11).await), Some(ErrorKind::Quota));
        assert_eq!(world.used(one), (10, 1), "what there is room for is written");
        world.write(file, 0..10).await.expect("it takes no more");
        assert_eq!(kind(world.write(file, 10..11).await), Some(ErrorKind::Quota));
        let handle = world.open(file).await;
        let read = volume.read(&handle, 0, 1 << 20).await.expect("read");
        assert_eq!(read.len() as u64, 10 * BLOCK);
        volume.close(handle).await.expect("closed");
        world.allocate(file, 0..8, Allocate::Punch).await.expect("given back");
        let reserve = Allocate::Reserve { keep_size: true };
        assert_eq!(kind(world.allocate(file, 0..12, reserve).await), Some(ErrorKind::Quota));
        assert_eq!(world.used(one), (2, 1), "nothing of it is set aside");
        world.allocate(file, 0..8, reserve).await.expect("it fits");
        let small = world.file(&user(1), root, "small").await;
        let handle = world.open(small).await;
        volume.write(&handle, 0, IoBuf::zeroed(4096).freeze(), 2000).await.expect("it stands in the record");
        let grown = volume.write(&handle, 2000, IoBuf::zeroed(4096).freeze(), 1000).await;
        assert_eq!(kind(grown), Some(ErrorKind::Quota), "it would need a block");
        assert_eq!(volume.read(&handle, 0, 9999).await.expect("read").len(), 2000);
        volume.close(handle).await.expect("closed");
        world.make(&user(1), root, "dir", FileKind::Directory).await.expect("the third");
        assert_eq!(kind(world.make(&user(1), root, "fourth", FileKind::Fifo).await), Some(ErrorKind::Quota));
        assert!(volume.lookup(&user(0), root, b"fourth").await.expect("looked up").is_none());
        // Others and the system are free to do what they did.
        let other = world.file(&user(2), root, "other").await;
        world.write(other, 0..50).await.expect("it has no limit");
        let given = SetAttributes { uid: Some(1), ..SetAttributes::default() };
        volume.set(&user(0), other, &given).await.expect("user 0 may give away what it likes");
        assert_eq!((world.used(one), world.quota(one).limits), ((60, 4), Some(limits)));
        assert!(world.quota(one).refused >= 5);
        volume.remove(&user(1), root, b"other", Remove::File).await.expect("removal is never refused");
        volume.remove(&user(1), root, b"small", Remove::File).await.expect("removal is never refused");
        world.file(&user(1), root, "again").await;
        assert_eq!(volume.remove_quota(one).await, Ok(true));
        assert_eq!(volume.remove_quota(one).await, Ok(false));
        world.write(file, 10..30).await.expect("nothing limits it any more");
    });
}

#[test]
fn a_tree_holds_what_is_created_in_it_and_what_was_there() {
    with(async |world| {
        let (volume, root) = (&world.volume, world.volume.root());
        let dir = world.directory(root, "dir").await;
        let mut at = dir;
        for depth in 0..5 {
            for number in 0..20 {
                let file = world.file(&user(1), at, &format!("file {number}")).await;
                if number == 0 {
                    world.write(file, 0..3).await.expect("written");
                }
            }
            at = world.directory(at, &format!("depth {depth}")).await;
        }
        let beside = world.file(&user(1), root, "beside").await;
        let tree = world.limit(dir, bytes(20 * BLOCK)).await;
        assert_eq!(world.used(tree), (15, 1 + 5 * 21));
        assert_eq!(world.quota(tree).directory, Some(dir));
        assert_eq!(volume.path_of(at).await, Ok(b"/dir/depth 0/depth 1/depth 2/depth 3/depth 4".to_vec()));
        let new = world.file(&user(0), at, "new").await;
        assert_eq!(kind(world.write(new, 0..6).await), Some(ErrorKind::Quota), "also for user 0");
        assert_eq!(world.used(tree), (20, 107));
        world.write(beside, 0..50).await.expect("it is not in the tree");
        let shown = volume.usage(at).await.expect("known");
        assert_eq!((shown.total_bytes, shown.free_bytes), (20 * BLOCK, 0));
        assert!(volume.usage(root).await.expect("known").free_bytes > 20 * BLOCK);

        // Names stay in their trees, and within one they go where they like.
        assert_eq!(kind(world.rename((root, "beside"), (dir, "in")).await), Some(ErrorKind::OtherTree));
        assert_eq!(kind(world.rename((at, "new"), (root, "out")).await), Some(ErrorKind::OtherTree));
        assert_eq!(kind(volume.link(&user(0), beside, dir, b"in").await), Some(ErrorKind::OtherTree));
        assert_eq!(kind(volume.link(&user(0), new, root, b"out").await), Some(ErrorKind::OtherTree));
        let exchange = volume.rename(&user(0), (root, b"beside"), (at, b"new"), Rename::Exchange).await;
        assert_eq!(kind(exchange), Some(ErrorKind::OtherTree));
        world.rename((at, "new"), (dir, "up")).await.expect("within the tree");
        let home = world.directory(root, "home").await;
        world.rename((root, "dir"), (home, "moved")).await.expect("the tree itself moves with its quota");
        assert_eq!(kind(world.rename((home, "moved"), (at, "x")).await), Some(ErrorKind::Invalid));
        assert_eq!((world.used(tree), volume.path_of(dir).await), ((20, 107), Ok(b"/home/moved".to_vec())));

        // Without its quota, it is like any other.
        assert_eq!(volume.remove_tree_quota(dir).await, Ok(true));
        assert!(volume.has_unsettled_quotas());
        volume.settle_quotas().await.expect("walked");
        assert_eq!(volume.remove_tree_quota(dir).await, Ok(false));
        assert!(volume.quotas().iter().all(|quota| quota.directory.is_none()));
        world.rename((dir, "up"), (root, "out")).await.expect("there is no tree any more");
    });
}

#[test]
fn a_tree_within_another_counts_for_both() {
    with(async |world| {
        let (volume, root) = (&world.volume, world.volume.root());
        let outer = world.directory(root, "outer").await;
        let inner = world.directory(outer, "inner").await;
        let deep = world.file(&user(1), inner, "deep").await;
        world.write(deep, 0..4).await.expect("written");
        let of_inner = world.limit(inner, bytes(100 * BLOCK)).await;
        let of_outer = world.limit(outer, bytes(10 * BLOCK)).await;
        assert_eq!((world.used(of_inner), world.used(of_outer)), ((4, 2), (4, 3)));
        assert_eq!(kind(world.write(deep, 4..11).await), Some(ErrorKind::Quota), "the outer one is full");
        assert_eq!((world.used(of_inner), world.used(of_outer)), ((10, 2), (10, 3)));
        let of_middle = {
            let middle = world.directory(outer, "middle").await;
            let tree = world.limit(middle, bytes(1 << 20)).await;
            assert_eq!(kind(world.rename((outer, "inner"), (middle, "inner")).await), Some(ErrorKind::OtherTree));
            tree
        };
        assert_eq!(world.used(of_middle), (0, 1));
        // The one between goes: what is within counts for the one above.
        assert_eq!(volume.remove_tree_quota(outer).await, Ok(true));
        volume.settle_quotas().await.expect("walked");
        assert_eq!((world.used(of_inner), world.used(of_outer)), ((10, 2), (0, 0)));
        world.write(deep, 10..20).await.expect("only the inner one holds");
        // A directory that is removed takes its quota with it.
        volume.remove(&user(0), inner, b"deep", Remove::File).await.expect("removed");
        volume.remove(&user(0), outer, b"inner", Remove::Directory).await.expect("removed");
        assert!(volume.quotas().iter().all(|quota| quota.subject != of_inner));
        let whole = world.limit(root, bytes(1 << 30)).await;
        assert_eq!(world.used(whole), (0, 3));
        assert_eq!(volume.remove_tree_quota(root).await, Ok(true));
        volume.settle_quotas().await.expect("walked");
    });
}

#[test]
fn a_file_with_names_in_two_trees_counts_where_it_has_some() {
    with(async |world| {
        let (volume, root) = (&world.volume, world.volume.root());
        let (one, other) = (world.directory(root, "one").await, world.directory(root, "other").await);
        let below = world.directory(one, "below").await;
        let link = async |file, dir, name: &str| volume.link(&user(0), file, dir, name.as_bytes()).await;
        let remove = async |dir, name: &str| {
            volume.remove(&user(0), dir, name.as_bytes(), Remove::File).await.expect("a removal is never refused");
        };
        let file = world.file(&user(1), one, "file").await;
        world.write(file, 0..3).await.expect("written");
        for (dir, name) in [(below, "further"), (below, "more"), (other, "elsewhere"), (root, "outside")] {
            link(file, dir, name).await.expect("no tree has a quota yet");
        }
        let (of_one, of_other) = (world.limit(one, bytes(99 * BLOCK)).await, world.limit(other, bytes(BLOCK)).await);
        let used = || (world.used(of_one), world.used(of_other));
        assert_eq!(used(), ((3, 3), (0, 1)), "for the tree that was counted first");
        remove(one, "file").await;
        remove(below, "more").await;
        remove(root, "outside").await;
        assert_eq!(used(), ((3, 3), (0, 1)), "that still has a name of it");
        remove(below, "further").await;
        assert_eq!(used(), ((0, 2), (3, 2)), "although the limit is lower than that");
        assert_eq!(kind(link(file, below, "again").await), Some(ErrorKind::OtherTree));

        // A name is also lost to a file that takes its place; and one outside of all trees is left last.
        assert_eq!(volume.remove_tree_quota(other).await, Ok(true));
        volume.settle_quotas().await.expect("walked");
        link(file, root, "outside").await.expect("neither has a quota");
        let of_other = world.limit(other, bytes(99 * BLOCK)).await;
        assert_eq!(world.used(of_other), (3, 2));
        world.file(&user(1), other, "new").await;
        world.rename((other, "new"), (other, "elsewhere")).await.expect("within the tree");
        assert_eq!(world.used(of_other), (0, 2), "the new one, and the directory");
        assert_eq!(link(file, root, "beside").await.map(|facts| facts.links), Ok(2));
    });
}

#[test]
fn a_walk_that_was_cut_short_goes_on_after_the_next_opening() {
    with(async |world| {
        let root = world.volume.root();
        let dir = world.directory(root, "dir").await;
        let below = world.directory(dir, "below").await;
        for number in 0..100 {
            world.file(&user(1), below, &format!("file {number}")).await;
        }
        let (tree, _) = world.volume.set_tree_quota(dir, bytes(1 << 20)).await.expect("set");
        let tree = Subject::Tree(tree);
        assert_eq!(world.used(tree), (0, 1));
        assert_eq!(kind(world.volume.set_tree_quota(below, bytes(9)).await), Some(ErrorKind::Busy), "one at a time");
        world.volume.interrupt(true);
        assert_eq!(kind(world.volume.settle_quotas().await), Some(ErrorKind::Busy));
        world.volume.interrupt(false);
        // What moves within the tree is taken along.
        world.rename((below, "file 7"), (below, "file 700")).await.expect("within the tree");
        world.rename((below, "file 8"), (root, "out")).await.expect("it was not met yet, and leaves");
        world.rename((dir, "below"), (dir, "under")).await.expect("within the tree");
        world.rename((below, "file 9"), (root, "out too")).await.expect("it was not met yet, and leaves");
        world.volume.checkpoint().await.expect("it lasts");
        world.volume = open(world.disk.clone()).await.expect("opened");
        assert_eq!(world.quota(tree).state, QuotaState::Counting);
        let seen = world.volume.settle_quotas().await.expect("walked");
        assert!(seen >= 99, "{seen}");
        assert_eq!((world.used(tree), world.quota(tree).state), ((0, 100), QuotaState::Settled));
    });
}

#[test]
fn soft_limits_are_told_and_refuse_nothing() {
    with(async |world| {
        let root = world.volume.root();
        let limits = Limits { soft_bytes: Some(5 * BLOCK), hard_bytes: Some(100 * BLOCK), ..Limits::default() };
        world.volume.set_quota(Subject::Group(1), limits).await.expect("set");
        let file = world.file(&user(1), root, "file").await;
        world.write(file, 0..5).await.expect("written");
        assert_eq!(world.quota(Subject::Group(1)).crossed, 0);
        world.write(file, 5..6).await.expect("written");
        assert_eq!((world.quota(Subject::Group(1)).crossed, world.quota(Subject::Group(1)).refused), (1, 0));
        let crossed = async |subject, limits| {
            world.volume.set_quota(subject, limits).await.expect("set");
            world.quota(subject).crossed
        };
        assert_eq!(crossed(Subject::Group(1), Limits { hard_bytes: None, ..limits }).await, 1, "it is the same one");
        let below = Limits { soft_bytes: Some(2 * BLOCK), ..limits };
        assert_eq!(crossed(Subject::Group(1), below).await, 2, "it is set below what is taken");
        assert_eq!(crossed(Subject::Group(1), Limits { soft_bytes: Some(9 * BLOCK), ..limits }).await, 2);
        assert_eq!(crossed(Subject::User(1), below).await, 1, "it is new");
        let dir = world.directory(root, "dir").await;
        world.file(&user(1), dir, "in it").await;
        let tree = world.limit(dir, Limits { soft_files: Some(1), ..Limits::default() }).await;
        assert_eq!(world.quota(tree).crossed, 1, "by what was there");
        let outer = world.limit(root, Limits { soft_files: Some(1), ..Limits::default() }).await;
        assert_eq!(world.quota(outer).crossed, 1, "by what lies in trees within it");
    });
}
