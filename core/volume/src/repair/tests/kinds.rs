//! Each kind of block that a volume consists of: damaged in one copy, in all copies, and an older self put back. The
//! volume opens; a scan finds exactly what is lost; after the repair it finds nothing, and files are as they were.

use std::collections::BTreeMap;

use holdfast_device::sim::SimImage;
use holdfast_device::{Copies, Durability, Geometry, Io, IoSlice};

use super::*;
use crate::page::PAGE_BYTES;
use crate::store::held;
use crate::{DEFERRED_TREE, ErrorKind, OWNER_TREE, SETTINGS_TREE, SETTINGS_TWIN, Severity, VERB_TREE, ZONE_TREE};

/// Two disks that hold the same; the first is read.
pub(crate) struct Mirror(pub [Arc<SimDisk>; 2]);

impl Device for Mirror {
    fn geometry(&self) -> Geometry {
        self.0[0].geometry()
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.0[0].read(offset, buf)
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        let writes = self.0.each_ref().map(|disk| disk.write(offset, data.clone(), durability));
        Io::eager(async move {
            for write in writes {
                write.await?;
            }
            Ok(())
        })
    }

    fn flush(&self) -> Io<()> {
        let flushes = self.0.each_ref().map(|disk| disk.flush());
        Io::eager(async move {
            for flush in flushes {
                flush.await?;
            }
            Ok(())
        })
    }

    fn discard(&self, _offset: u64, _len: u64) -> Io<()> {
        Io::ready(Ok(()))
    }
}

impl Copies for Mirror {
    fn copies(&self, _offset: u64, _len: u64) -> usize {
        2
    }

    fn read_copy(&self, n: usize, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.0[n].read(offset, buf)
    }

    fn rewrite(&self, offset: u64, data: IoSlice) -> Io<()> {
        self.write(offset, data, Durability::Durable)
    }
}

/// A kind of block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Superblocks,
    NewestRoot,
    Mark,
    NodeBitmap,
    DataBitmap,
    Node(u8),
}

impl Kind {
    fn all(world: &World) -> Vec<Self> {
        let shard = keys::shard(world.deep.number);
        let trees = [shard, ZONE_TREE, OWNER_TREE, DEFERRED_TREE, SETTINGS_TREE, VERB_TREE, SETTINGS_TWIN];
        let blocks = [Self::Superblocks, Self::NewestRoot, Self::Mark, Self::NodeBitmap, Self::DataBitmap];
        blocks.into_iter().chain(trees.map(Self::Node)).collect()
    }

    /// Where such blocks are: those that count.
    async fn places(self, volume: &Volume) -> Vec<(u64, usize)> {
        let store = &volume.store;
        let superblock = store.superblock();
        let newest = store.checkpoint.lock().await.root.clone();
        match self {
            Self::Superblocks => superblock.groups().iter().map(|at| (*at, BLOCK)).collect(),
            Self::NewestRoot => superblock.groups().iter().map(|at| (at + newest.slot(), BLOCK)).collect(),
            Self::Mark => {
                let frames = superblock.log_bytes / BLOCK as u64;
                vec![(superblock.log_at() + newest.log.sequence % frames * BLOCK as u64, BLOCK)]
            }
            Self::NodeBitmap => {
                let zones = held(&store.zones).numbers();
                zones.iter().map(|zone| (store.address_in(*zone, 0), (2 * 16) << 10)).collect()
            }
            Self::DataBitmap => {
                let stored = held(&store.rooms).all_stored();
                let at = |(zone, stored): &(u32, crate::rooms::Stored)| {
                    (store.address_in(*zone, 4 * u32::from(stored.slot)), BLOCK + (8 << 10))
                };
                stored.iter().map(at).collect()
            }
            Self::Node(tree) => {
                let root = newest.trees.iter().find(|(number, _)| *number == tree).expect("it holds something").1;
                vec![(root.address, PAGE_BYTES)]
            }
        }
    }
}

/// The volume on two disks, closed, with something in every tree.
struct Prepared {
    world: World,
    disks: [Arc<SimDisk>; 2],
    images: [SimImage; 2],
    places: BTreeMap<Kind, Vec<(u64, usize)>>,
    /// What stood at these places when a checkpoint before was the newest.
    older: BTreeMap<Kind, Vec<(u64, Vec<u8>)>>,
}

async fn prepare(sim: &Sim) -> Prepared {
    let spec = SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() };
    let world = World::new(SimDisk::new(sim, spec.clone())).await;
    // A file that was removed while it is open, and a finding that is kept.
    let gone = world.volume.create(&Caller::default(), world.dir, b"gone", &FILE).await.expect("made").id;
    let handle = world.volume.open(&Caller::default(), gone, OPEN).await.expect("opened");
    world.volume.remove(&Caller::default(), world.dir, b"gone", Remove::File).await.expect("removed");
    world.volume.keep_verbs(&[Verb::Count { file: 77 }]).await.expect("kept");
    world.volume.checkpoint().await.expect("it lasts");
    let mut earlier = BTreeMap::new();
    for kind in Kind::all(&world) {
        earlier.insert(kind, kind.places(&world.volume).await);
    }
    let before = world.disk.image();
    world.volume.create(&Caller::default(), world.below, b"later", &FILE).await.expect("made");
    world.volume.checkpoint().await.expect("it lasts");
    let mut places = BTreeMap::new();
    for kind in Kind::all(&world) {
        places.insert(kind, kind.places(&world.volume).await);
    }
    let now = world.disk.image();
    // What stood at a place when it was written before; of nodes, what the tree's node was then.
    world.disk.set_back(&before);
    let older = places.iter().map(|(kind, now)| {
        let was = &earlier[kind];
        let old = |((at, len), (was_at, _)): (&(u64, usize), &(u64, usize))| {
            let from = if matches!(kind, Kind::Node(_)) { was_at } else { at };
            (*at, world.disk.peek(*from, *len))
        };
        (*kind, now.iter().zip(was).map(old).collect())
    });
    let older = older.collect();
    world.disk.set_back(&now);
    let other = SimDisk::new(sim, spec);
    other.set_back(&now);
    let disks = [world.disk.clone(), other];
    let images = [disks[0].image(), disks[1].image()];
    drop(handle);
    Prepared { world, disks, images, places, older }
}

impl Prepared {
    async fn open(&self) -> World {
        let settings = Settings { cache_bytes: 1 << 20, ..Settings::default() };
        let mirror: Arc<dyn Copies> = Arc::new(Mirror(self.disks.clone()));
        let volume = Volume::open_with_copies(mirror, settings, clock()).await.expect("it opens");
        let World { disk, dir, below, data, other, deep, .. } = &self.world;
        let (disk, dir, below, data, other, deep) = (disk.clone(), *dir, *below, *data, *other, *deep);
        World { disk, volume, dir, below, data, other, deep }
    }

    fn set_back(&self) {
        self.disks.iter().zip(&self.images).for_each(|(disk, image)| disk.set_back(image));
    }
}

async fn is_as_it_was(world: &World, what: &str) {
    assert_eq!(world.volume.failure(), None, "{what}");
    assert!(world.read(world.data).await.expect("read") == pattern(1), "{what}");
    assert!(world.read(world.other).await.expect("read") == pattern(2), "{what}");
    assert_eq!(world.read(world.deep).await, Ok(b"small".to_vec()), "{what}");
    assert!(world.lookup(world.below, "later").await.is_some(), "{what}");
    assert_eq!(world.lookup(world.dir, "gone").await, None, "{what}");
}

fn over_kinds(test: impl AsyncFn(&Prepared, Kind) + 'static) {
    let sim = Sim::new(1);
    let world = sim.clone();
    let ran = sim.run(async move {
        let prepared = prepare(&world).await;
        for kind in Kind::all(&prepared.world) {
            prepared.set_back();
            test(&prepared, kind).await;
        }
    });
    ran.expect("powered");
}

#[test]
fn what_is_damaged_in_one_copy_is_read_from_the_other_and_written_anew() {
    over_kinds(async |prepared, kind| {
        for (at, len) in &prepared.places[&kind] {
            prepared.disks[0].poke(*at, &vec![0x5a; *len]);
        }
        let world = prepared.open().await;
        let what = format!("{kind:?}");
        is_as_it_was(&world, &what).await;
        assert_eq!(world.volume.scan().await, Ok(Vec::new()), "{what}");
        world.volume.checkpoint().await.expect("it lasts");
        assert_eq!(world.volume.scan().await, Ok(Vec::new()), "{what}");
        // The first copy is enough from now on.
        drop(world);
        let image = prepared.disks[0].image();
        prepared.disks[1].poke(0, &vec![0x77; 1 << 20]);
        let again = prepared.open().await;
        is_as_it_was(&again, &what).await;
        assert_eq!(again.volume.scan().await, Ok(Vec::new()), "{what}");
        prepared.disks[0].set_back(&image);
    });
}

/// What a scan finds at first when all copies of a kind are damaged; `None` where the volume is read-only.
fn expected(kind: Kind, found: &[Verb]) -> bool {
    let is_all = |is_it: &dyn Fn(&Verb) -> bool| !found.is_empty() && found.iter().all(is_it);
    match kind {
        Kind::Superblocks | Kind::Mark => false,
        Kind::NewestRoot | Kind::NodeBitmap => found.is_empty(),
        Kind::DataBitmap => is_all(&|verb| matches!(verb, Verb::Bitmap { .. })),
        // What was made again when the volume was opened leaves the place of the old node.
        Kind::Node(ZONE_TREE) => is_all(&|verb| matches!(verb, Verb::NodeLeak { .. } | Verb::Bitmap { .. })),
        Kind::Node(SETTINGS_TREE | SETTINGS_TWIN | VERB_TREE) => is_all(&|verb| matches!(verb, Verb::NodeLeak { .. })),
        Kind::Node(tree) => {
            let is_it = |verb: &Verb| matches!(verb, Verb::NodeLost { tree: of, .. } if *of == tree);
            found.len() == 1 && is_it(&found[0])
        }
    }
}

async fn is_found_and_repaired(prepared: &Prepared, kind: Kind, what: &str) {
    let world = prepared.open().await;
    assert_eq!(world.volume.failure(), None, "{what}");
    // The note is at work already when the volume is opened: what it is about goes.
    let found = world.volume.scan().await.expect("scanned");
    assert!(expected(kind, &found), "{what}: {found:?}");
    let done = world.volume.spotfix_offline().await.expect("repaired");
    assert_eq!(done.left, Vec::new(), "{what}");
    assert_eq!(world.volume.scan().await, Ok(Vec::new()), "{what}");
    assert!(world.read(world.data).await.expect("read") == pattern(1), "{what}");
    assert!(world.read(world.other).await.expect("read") == pattern(2), "{what}");
    if kind != Kind::Node(keys::shard(world.deep.number)) {
        is_as_it_was(&world, what).await;
    }
    drop(world);
    let again = prepared.open().await;
    assert_eq!(again.volume.scan().await, Ok(Vec::new()), "{what}, opened again");
}

#[test]
fn what_is_damaged_in_all_copies_is_found_and_repaired() {
    over_kinds(async |prepared, kind| {
        for (at, len) in &prepared.places[&kind] {
            prepared.disks.iter().for_each(|disk| disk.poke(*at, &vec![0x5a; *len]));
        }
        let what = format!("{kind:?} in all copies");
        match kind {
            Kind::Superblocks => {
                let mirror: Arc<dyn Copies> = Arc::new(Mirror(prepared.disks.clone()));
                let opened = Volume::open_with_copies(mirror, Settings::default(), clock()).await;
                assert_eq!(opened.err().map(|error| error.kind), Some(ErrorKind::Format));
            }
            Kind::Mark => {
                let world = prepared.open().await;
                assert!(world.volume.failure().is_some_and(|why| why.contains("log")));
                assert!(world.read(world.data).await.expect("read") == pattern(1));
                let new = world.volume.create(&Caller::default(), world.dir, b"new", &FILE).await;
                assert_eq!(new.expect_err("read-only").kind, ErrorKind::ReadOnly);
            }
            _ => is_found_and_repaired(prepared, kind, &what).await,
        }
    });
}

#[test]
fn an_older_self_of_a_block_is_not_taken_for_the_right_one() {
    let counted = std::rc::Rc::new(std::cell::Cell::new(0));
    let aged = counted.clone();
    over_kinds(async move |prepared, kind| {
        let mut is_same = true;
        for (at, bytes) in &prepared.older[&kind] {
            let mut bytes = bytes.clone();
            if matches!(kind, Kind::Node(_)) {
                // As it would be if it had stood here: whole, and of an earlier checkpoint.
                bytes[24..32].copy_from_slice(&at.to_le_bytes());
                let crc = crate::page::crc_of(&bytes[8..]);
                bytes[4..8].copy_from_slice(&crc.to_le_bytes());
            }
            is_same &= prepared.disks[0].peek(*at, bytes.len()) == bytes;
            prepared.disks.iter().for_each(|disk| disk.poke(*at, &bytes));
        }
        let what = format!("an older {kind:?}");
        match kind {
            // What did not change since is its own older self.
            _ if is_same => is_as_it_was(&prepared.open().await, &what).await,
            Kind::Mark => assert!(prepared.open().await.volume.failure().is_some(), "{what}"),
            _ => {
                aged.set(aged.get() + 1);
                is_found_and_repaired(prepared, kind, &what).await;
            }
        }
    });
    assert!(counted.get() >= 4, "roots, bitmaps and nodes have older selves");
}

#[test]
fn what_the_log_says_of_a_lost_node_is_left_out_and_told_and_all_else_is_replayed() {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let world = World::new(disk.clone()).await;
        world.volume.checkpoint().await.expect("it lasts");
        let shard = keys::shard(world.deep.number);
        assert!(shard != keys::shard(world.data.number));
        let address = {
            let newest = world.volume.store.checkpoint.lock().await;
            newest.root.trees.iter().find(|(tree, _)| *tree == shard).expect("it holds something").1.address
        };
        // Both are in the log only when the node is lost.
        world.write(world.deep, &pattern(7)).await;
        world.write(world.data, &pattern(8)).await;
        world.volume.sync().await.expect("it lasts");
        disk.poke(address + 9000, &[0x55; 64]);
        let World { dir, below, data, other, deep, volume, .. } = world;
        drop(volume);
        let world = World { volume: open(&disk).await, disk, dir, below, data, other, deep };
        assert_eq!(world.volume.failure(), None);
        assert!(world.read(world.data).await.expect("read") == pattern(8), "what lies elsewhere is replayed");
        assert_eq!(world.read(world.deep).await.expect_err("lost").kind, ErrorKind::Corrupt);
        let kept = world.volume.findings().await.expect("kept");
        assert!(
            !kept.is_empty() && kept.iter().all(|verb| matches!(verb, Verb::LeftOut { tree, .. } if *tree == shard))
        );
        assert!(kept.iter().all(|verb| verb.severity() == Severity::Severe && !verb.is_online()));
        let found = world.volume.scan().await.expect("scanned");
        assert!(matches!(&found[..], [Verb::NodeLost { tree, .. }] if *tree == shard), "{found:?}");
        assert!(world.volume.findings().await.expect("kept").len() > kept.len(), "a scan does not forget them");
        let done = world.volume.spotfix_offline().await.expect("repaired");
        assert_eq!((done.left, world.volume.findings().await), (Vec::new(), Ok(Vec::new())));
        // What it held is in the map of owners although its own extent is lost.
        let lost = world.lookup(world.volume.root(), "lost+found").await;
        assert!(lost.is_some() || world.lookup(world.below, "deep").await.is_some());
    });
    ran.expect("powered");
}
