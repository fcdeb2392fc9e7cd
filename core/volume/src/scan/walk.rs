//! All nodes of a durable root read, in the order of keys, and held against what their parents say and what is taken; then
//! those that only snapshots have.
//!
//! Invariant: nothing that is only in memory is believed, but for the bitmaps of zones of nodes, which are all there.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::BLOCK_BYTES;

use crate::bitmap::Bitmap;
use crate::checkpoint::Checkpoint;
use crate::error::VolumeError;
use crate::page::{NodeRef, PAGE_BYTES, Page};
use crate::scan::reading::Reading;
use crate::store::{Store, held};
use crate::verbs::Verb;
use crate::zones::HEAD_BLOCKS;

/// What was read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanProgress {
    /// Nodes that were read.
    pub nodes: u64,
    /// The same in bytes.
    pub bytes: u64,
    /// Nodes that there are, as far as bitmaps say.
    pub of_nodes: u64,
}

/// What is done with the leaves: nothing with those that are left out here.
pub(crate) trait Leaves {
    /// A leaf, each behind the one before it.
    async fn leaf(&mut self, _tree: u8, _page: &Page) -> Result<(), VolumeError> {
        Ok(())
    }
    /// A tree was read to its end.
    async fn end(&mut self, _tree: u8) -> Result<(), VolumeError> {
        Ok(())
    }
    /// A leaf that only snapshots have, with the newest of them.
    async fn past(&mut self, _snapshot: u64, _page: &Page) -> Result<(), VolumeError> {
        Ok(())
    }
}

/// A node that is to be looked at, and what its parent says of it.
struct Expected {
    node: NodeRef,
    tree: u8,
    level: Option<u8>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Walked {
    pub verbs: BTreeSet<Verb>,
    /// Whether there are keys that nobody could read.
    pub is_partial: bool,
    /// The same of snapshots.
    pub is_past_partial: bool,
    /// Blocks for nodes that are taken, and that no node which could be read refers to.
    pub loose: Vec<(u64, u64)>,
    /// Nodes that could not be read, or do not belong there, and are to have others below them.
    pub inner: BTreeSet<u64>,
}

/// Whether nodes that only snapshots have are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Newest,
    Snapshots,
}

struct Walk<'a> {
    store: &'a Store,
    used: BTreeMap<u32, Bitmap>,
    done: Walked,
    progress: ScanProgress,
    tell: &'a mut dyn FnMut(ScanProgress),
}

impl Store {
    /// Reads all nodes of the newest root, and perhaps of snapshots, while checkpoints wait.
    pub(crate) async fn walk_newest(
        &self,
        newest: &Checkpoint,
        reach: Reach,
        leaves: &mut impl Leaves,
    ) -> Result<Walked, VolumeError> {
        self.walk(&self.read_alone(newest), reach, leaves, &mut |_| ()).await
    }

    /// Reads all nodes of a root, and perhaps of its snapshots.
    pub(crate) async fn walk(
        &self,
        of: &Reading<'_>,
        reach: Reach,
        leaves: &mut impl Leaves,
        tell: &mut dyn FnMut(ScanProgress),
    ) -> Result<Walked, VolumeError> {
        let progress = ScanProgress { of_nodes: self.taken_nodes() as u64, ..ScanProgress::default() };
        let mut walk = Walk { store: self, used: BTreeMap::new(), done: Walked::default(), progress, tell };
        for (tree, node) in &of.root.trees {
            let mut waiting = vec![Expected { node: *node, tree: *tree, level: None, low: Vec::new(), high: None }];
            while let Some(expected) = waiting.pop() {
                self.check_interrupted()?;
                of.check()?;
                let children = walk.node(expected, leaves).await?;
                waiting.extend(children.into_iter().rev());
            }
            leaves.end(*tree).await?;
        }
        if reach == Reach::Snapshots {
            for (snapshot, trees) in &of.snapshots {
                for (tree, root) in trees {
                    walk.past(of, *snapshot, (*tree, *root), leaves).await?;
                }
            }
        }
        walk.compare(&of.taken);
        if !(walk.done.is_partial || walk.done.is_past_partial) {
            // Else they may stand below a node that is lost.
            let leaks = walk.done.loose.iter().map(|(address, blocks)| (*address, *blocks));
            walk.done.verbs.extend(leaks.map(|(address, blocks)| Verb::NodeLeak { address, blocks }));
        }
        Ok(walk.done)
    }

    /// Nodes that there are, as far as bitmaps say.
    pub(crate) fn taken_nodes(&self) -> usize {
        let empty = self.empty_zone();
        let taken = held(&self.zones).taken();
        let blocks: usize = taken.values().map(|bits| bits.count_taken(&empty) as usize).sum();
        blocks / (PAGE_BYTES / BLOCK_BYTES as usize)
    }

    /// The bitmap of a zone of nodes that holds nothing.
    fn empty_zone(&self) -> Bitmap {
        Bitmap::zone(self.format.node_blocks())
    }

    /// That of a zone of data.
    pub(crate) fn empty_data_zone(&self) -> Bitmap {
        Bitmap::zone(self.format.data_blocks())
    }

    /// The zone of a byte of the device, and its block in it.
    pub(crate) fn zone_of(&self, address: u64) -> Option<(u32, u32)> {
        let inside = address.checked_sub(self.superblock().zones_at())?;
        let zone = u32::try_from(inside / self.superblock().zone_bytes).ok()?;
        let block = (inside % self.superblock().zone_bytes / BLOCK_BYTES) as u32;
        (zone < self.superblock().zones()).then_some((zone, block))
    }

    /// Where a block of a zone is.
    pub(crate) fn address_in(&self, zone: u32, block: u32) -> u64 {
        self.superblock().zones_at() + u64::from(zone) * self.superblock().zone_bytes + u64::from(block) * BLOCK_BYTES
    }
}

impl Walk<'_> {
    /// Notes the blocks of a node; false if another one has them, too.
    fn claim(&mut self, address: u64) -> bool {
        let Some((zone, block)) = self.store.zone_of(address) else { return true };
        let empty = self.store.empty_zone();
        let bits = self.used.entry(zone).or_insert(empty);
        let blocks = ((PAGE_BYTES as u64 / BLOCK_BYTES) as u32).min(crate::bitmap::BITS - block);
        let is_new = bits.count(block, blocks) == 0;
        bits.set(block, blocks, true);
        is_new
    }

    /// Whether a node has these blocks.
    fn is_claimed(&self, address: u64) -> bool {
        let Some((zone, block)) = self.store.zone_of(address) else { return false };
        block >= HEAD_BLOCKS as u32 && self.used.get(&zone).is_some_and(|bits| bits.count(block, 1) > 0)
    }

    /// Looks at one node; answers its children.
    async fn node(&mut self, expected: Expected, leaves: &mut impl Leaves) -> Result<Vec<Expected>, VolumeError> {
        let Expected { node, tree, level, low, high } = expected;
        let address = node.address;
        self.progress.nodes += 1;
        self.progress.bytes += PAGE_BYTES as u64;
        (self.tell)(self.progress);
        let Ok(page) = self.store.read_node(node).await else {
            self.claim(address);
            if level != Some(0) {
                self.done.inner.insert(address);
            }
            self.done.verbs.insert(Verb::NodeLost { tree, address, low, high });
            self.done.is_partial = true;
            return Ok(Vec::new());
        };
        self.store.look_at_twin(node).await;
        let fits = page.tree() == tree
            && level.is_none_or(|level| page.level() == level)
            && page.low() == low
            && page.high() == high.as_deref();
        if !fits || !self.claim(address) {
            let is_shared = fits || self.is_claimed(address);
            if level != Some(0) {
                self.done.inner.insert(address);
            }
            self.done.verbs.insert(match is_shared {
                true => Verb::NodeShared { tree, address, low, high },
                false => Verb::NodeMisplaced { tree, address, low, high },
            });
            self.done.is_partial = true;
            return Ok(Vec::new());
        }
        if page.level() == 0 {
            leaves.leaf(tree, &page).await?;
            return Ok(Vec::new());
        }
        let child = |index: usize| Expected {
            node: page.child(index),
            tree,
            level: Some(page.level() - 1),
            low: page.key(index).to_vec(),
            high: if index + 1 < page.count() { Some(page.key(index + 1).to_vec()) } else { high.clone() },
        };
        Ok((0..page.count()).map(child).collect())
    }

    /// Reads a tree of a snapshot but for what later ones, or the newest root, have of it.
    async fn past(
        &mut self,
        of: &Reading<'_>,
        snapshot: u64,
        (tree, root): (u8, NodeRef),
        leaves: &mut impl Leaves,
    ) -> Result<(), VolumeError> {
        let mut waiting = vec![(root, None::<u8>)];
        while let Some((node, level)) = waiting.pop() {
            self.store.check_interrupted()?;
            of.check()?;
            let address = node.address;
            if !self.claim(address) {
                // It was read before, with all below it.
                continue;
            }
            let page = self.store.read_node(node).await.ok();
            let page = page.filter(|page| page.tree() == tree && level.is_none_or(|level| page.level() == level));
            let Some(page) = page else {
                self.done.verbs.insert(Verb::SnapshotNode { snapshot, tree, address });
                self.done.is_past_partial = true;
                continue;
            };
            self.store.look_at_twin(node).await;
            self.progress.nodes += 1;
            self.progress.bytes += PAGE_BYTES as u64;
            (self.tell)(self.progress);
            if page.level() == 0 {
                leaves.past(snapshot, &page).await?;
                continue;
            }
            let children = (0..page.count()).rev().map(|index| (page.child(index), Some(page.level() - 1)));
            waiting.extend(children);
        }
        Ok(())
    }

    /// Blocks of nodes against those that are taken.
    fn compare(&mut self, taken: &BTreeMap<u32, Bitmap>) {
        let empty = self.store.empty_zone();
        for zone in self.used.keys().chain(taken.keys()).copied().collect::<BTreeSet<u32>>() {
            let (used, taken) = (self.used.get(&zone).unwrap_or(&empty), taken.get(&zone).unwrap_or(&empty));
            for (block, blocks) in used.runs_beyond(taken) {
                let address = self.store.address_in(zone, block);
                self.done.verbs.insert(Verb::NodeFree { address, blocks: blocks.into() });
            }
            for (block, blocks) in taken.runs_beyond(used) {
                self.done.loose.push((self.store.address_in(zone, block), blocks.into()));
            }
        }
    }
}
