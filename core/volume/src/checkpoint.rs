//! A checkpoint: all trees as they are at one moment, made durable while changes go on.
//!
//! ```text
//!   cut (all locks, an instant) ─▶ log, up to the cut, and its mark ─▶ nodes, leaves first ─▶ bitmaps ─▶ flush
//!       ─▶ root slots ─▶ settle
//! ```
//!
//! A cut also makes a snapshot, or ends one: which there are changes at no other time.
//!
//! Invariants: whatever a crash cuts short, the root before is whole with all that it refers to, and so is the log from it
//! on: where the newest root is lost, they lead to the same trees. A write or flush that fails ends all changes of the
//! volume.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::try_join_all;
use holdfast_device::Durability;

use crate::change::{GivenUp, Need};
use crate::error::{ErrorKind, VolumeError};
use crate::page::NodeRef;
use crate::rooms::Sealed;
use crate::snapshots::{self, Settled};
use crate::store::{CLASS_DATA, Store, held};
use crate::superblock::{LogStart, NT_RULES, Root};
use crate::tree::{Changed, Child, PlaceCell};
use crate::{KEY_FILES, QUOTA_TREE, SETTINGS_TREE, SETTINGS_TWIN, SHARED_TREES, SNAPSHOT_TREE, TREES, ZONE_TREE};

/// Nodes that are written at once.
const AT_ONCE: usize = 32;

/// The newest durable root.
pub(crate) struct Checkpoint {
    pub root: Root,
}

/// All trees at one moment.
struct Cut {
    roots: Vec<(u8, Child)>,
    dropped: GivenUp,
    snapshots: Settled,
    bitmaps: Vec<Sealed>,
    /// The last transaction that is in them.
    applied: u64,
}

impl Store {
    /// Makes everything that was applied so far durable in the trees, so that the log may begin anew behind it.
    ///
    /// # Errors
    /// No room, or the device failed: nothing is changed any more then.
    pub async fn checkpoint(&self) -> Result<(), VolumeError> {
        let mut newest = self.checkpoint.lock().await;
        self.write_checkpoint(&mut newest).await
    }

    /// The same, for whoever has others wait.
    pub(crate) async fn write_checkpoint(&self, newest: &mut Checkpoint) -> Result<(), VolumeError> {
        self.check_failed()?;
        self.mend_nodes(newest).await;
        let made = async {
            let (cut, log) = self.cut(newest.root.generation + 1).await?;
            let root = self.write_root(&newest.root, cut, log).await?;
            self.snapshots.learn(root.generation, &root.trees);
            held(&self.zones).settle();
            held(&self.rooms).settle();
            for tree in &self.trees {
                held(tree).settle();
            }
            self.log.release(root.log, root.generation).await?;
            Ok(root)
        };
        newest.root = made.await.map_err(|error| self.fail(error))?;
        Ok(())
    }

    /// Takes all trees as they are. What they lack in memory and cannot be read is made again first, if it can be.
    async fn cut(&self, generation: u64) -> Result<(Cut, LogStart), VolumeError> {
        let mut lane = self.log.hold().await;
        let cut = match self.cut_trees(generation).await {
            Err(error) if error.kind == ErrorKind::Corrupt => {
                self.remake_fixed().await?;
                self.cut_trees(generation).await?
            }
            cut => cut?,
        };
        let log = self.log.cut(&mut lane, cut.applied, generation).await?;
        Ok((cut, log))
    }

    /// All trees at one moment, with the bitmaps of data that belong to them.
    async fn cut_trees(&self, generation: u64) -> Result<Cut, VolumeError> {
        let all: Vec<u8> = (0..TREES).collect();
        self.attempt(&all, Need::Less, |mut view, pins| {
            let changed = held(&self.rooms).changed_zones();
            let zones = view.tree(ZONE_TREE);
            for zone in &changed {
                zones.ready(&zone.to_be_bytes(), &self.cache, pins)?;
            }
            let count = self.files.load(Ordering::Relaxed);
            let snapshots = self.snapshots.entries(generation, count.max(0) as u64);
            let quotas = self
                .ledger
                .entries(self.has_feature(NT_RULES))
                .into_iter()
                .map(|(key, value)| (QUOTA_TREE, key, value));
            let beside = quotas.chain(snapshots.into_iter().flat_map(twice));
            let beside: Vec<_> = beside.chain(self.journal.entries()).collect();
            for (tree, key, _) in &beside {
                view.tree(*tree).ready(key, &self.cache, pins)?;
            }
            let files = count.to_le_bytes();
            let known = view.get(SETTINGS_TREE, KEY_FILES)?;
            if known.as_deref().unwrap_or(&[0; 8]) != files {
                view.tree(SETTINGS_TREE).ready(KEY_FILES, &self.cache, pins)?;
                view.tree(SETTINGS_TREE).put(KEY_FILES, &files, &self.cache).expect("it was made ready");
            }
            for (tree, key, value) in beside {
                let done = match value {
                    Some(value) => view.tree(tree).put(&key, &value, &self.cache),
                    None => view.tree(tree).remove(&key, &self.cache).map(drop),
                };
                done.expect("it was made ready");
            }
            self.ledger.settle();
            self.journal.settle();
            let snapshots = self.snapshots.settle(generation, count.max(0) as u64);
            let zones = view.tree(ZONE_TREE);
            let bitmaps = held(&self.rooms).cut(generation);
            for sealed in &bitmaps {
                let value = [&[CLASS_DATA][..], &sealed.stored.encode()].concat();
                zones.put(&sealed.zone.to_be_bytes(), &value, &self.cache).expect("it was made ready");
            }
            self.reserved.store(self.cache.take_changed(), Ordering::Release);
            let (roots, dropped) = view.cut();
            Ok(Cut { roots, dropped, snapshots, bitmaps, applied: self.log.last() })
        })
        .await
    }

    async fn write_root(&self, before: &Root, cut: Cut, log: LogStart) -> Result<Root, VolumeError> {
        let generation = before.generation + 1;
        let mut levels: Vec<Vec<Arc<Changed>>> = Vec::new();
        cut.roots.iter().for_each(|(_, root)| collect(root, &mut levels));
        for nodes in levels {
            for some in nodes.chunks(AT_ONCE) {
                try_join_all(some.iter().map(|node| self.write_node(node, generation, cut.snapshots.pinned))).await?;
            }
        }
        self.reserved.store(0, Ordering::Release);
        for (tree, place) in cut.dropped {
            self.give_up_node(tree, &place, cut.snapshots.pinned);
        }
        cut.snapshots.given_up.iter().for_each(|address| held(&self.zones).free(*address));
        let (mut bitmaps, proof) = held(&self.zones).seal(generation);
        bitmaps.extend(cut.bitmaps.into_iter().map(|sealed| (sealed.at, sealed.data)));
        for some in bitmaps.chunks(AT_ONCE) {
            try_join_all(some.iter().map(|(at, data)| self.write(*at, data.clone()))).await?;
        }
        self.data.flush_device().await?;
        let trees = cut.roots.iter().map(|(number, root)| (*number, stored(root))).collect();
        let root = Root { generation, epoch: before.epoch, log, is_marked: true, bitmaps: Some(proof), trees };
        let slot = root.seal(self.volume());
        let writes = self.superblock().groups().map(|at| {
            let slot = slot.clone();
            self.device.write(at + root.slot(), slot, Durability::Durable)
        });
        try_join_all(writes).await?;
        Ok(root)
    }

    /// The root to come does not have a node. It is free then, unless a snapshot has it.
    fn give_up_node(&self, tree: u8, place: &PlaceCell, pinned: u64) {
        let node = place.get().expect("what an earlier checkpoint held was written by it");
        if tree >= SHARED_TREES || node.generation > pinned {
            held(&self.zones).free(node.address);
        } else {
            self.let_go.note(*node);
        }
    }

    async fn write_node(&self, node: &Changed, generation: u64, pinned: u64) -> Result<(), VolumeError> {
        let mut page = node.page.clone();
        for (index, child) in node.children.iter().enumerate() {
            page.set_child(index, stored(child));
        }
        let address = held(&self.zones).take()?;
        self.cache.forget_worn(address);
        let (place, data) = page.seal(self.volume(), address, generation);
        self.write(address, data).await?;
        if let Some(before) = &node.before {
            self.give_up_node(page.tree(), before, pinned);
        }
        self.cache.keep(place, Arc::new(page));
        node.place.set(place).expect("a node is written once");
        Ok(())
    }
}

/// An entry of the tree of snapshots, and of the tree that has it once more.
fn twice((key, value): (Vec<u8>, Option<Vec<u8>>)) -> [(u8, Vec<u8>, Option<Vec<u8>>); 2] {
    let twin = [snapshots::TWIN_PREFIX, &key].concat();
    [(SNAPSHOT_TREE, key, value.clone()), (SETTINGS_TWIN, twin, value)]
}

/// The nodes that are to be written, by their level.
fn collect(child: &Child, levels: &mut Vec<Vec<Arc<Changed>>>) {
    let Child::Changed(node) = child else { return };
    if node.place.get().is_some() {
        return;
    }
    node.children.iter().for_each(|child| collect(child, levels));
    let level = usize::from(node.page.level());
    levels.resize_with(levels.len().max(level + 1), Vec::new);
    levels[level].push(node.clone());
}

/// Where a child stands that was written.
fn stored(child: &Child) -> NodeRef {
    match child {
        Child::Stored(node) => *node,
        Child::Changed(node) => *node.place.get().expect("children are written before their parents"),
    }
}
