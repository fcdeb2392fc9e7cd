//! What a volume cannot go on without, made again where no copy of it can be read.
//!
//! ```text
//!   tree of zones     in use: what is in memory; at the opening: what all other trees refer to
//!   settings          the twin of them
//!   bitmap of data    the map of owners
//!   copy of a node    another copy
//! ```
//!
//! Invariant: a block of which nobody can say whether it is used is not given out.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::Ordering;

use holdfast_model::BLOCK_BYTES;

use crate::bitmap::BITS;
use crate::change::Need;
use crate::checkpoint::Checkpoint;
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::graft::Graft;
use crate::open::Opening;
use crate::page::PAGE_BYTES;
use crate::rooms::Stored;
use crate::store::{CLASS_DATA, CLASS_NODES, Store, held};
use crate::superblock::Root;
use crate::transaction::Transaction;
use crate::{OWNER_TREE, SETTINGS_TREE, SETTINGS_TWIN, SHARED_TREES, SNAPSHOT_TREE, ZONE_TREE, keys};

/// What the trees of a root refer to.
#[derive(Default)]
pub(crate) struct Used {
    /// Where its nodes stand.
    pub nodes: Vec<u64>,
    /// Zones in which extents lie.
    pub data: BTreeSet<u32>,
    /// Whether there are nodes that cannot be read, and may refer to more.
    pub is_partial: bool,
}

impl Store {
    /// What a root and all snapshots refer to; with extents, also by their leaves.
    pub(crate) async fn used_by(&self, root: &Root, with_extents: bool) -> Used {
        let (mut used, mut seen) = (Used::default(), HashSet::new());
        let snapshots = self.snapshots.roots();
        let of_snapshots = snapshots.iter().flat_map(|(_, trees)| trees);
        for (tree, node) in root.trees.iter().chain(of_snapshots) {
            let mut waiting = vec![(*node, None::<u8>)];
            while let Some((node, level)) = waiting.pop() {
                // What snapshots share is looked at once.
                if !snapshots.is_empty() && !seen.insert(node.address) {
                    continue;
                }
                if self.zone_of(node.address).is_some() {
                    used.nodes.push(node.address);
                }
                let reads_leaves = with_extents && *tree < SHARED_TREES;
                if level == Some(0) && !reads_leaves {
                    continue;
                }
                let page = self.read_node(node).await.ok();
                let page = page.filter(|page| page.tree() == *tree && level.is_none_or(|level| level == page.level()));
                let Some(page) = page else {
                    // That of zones itself is made again of the others.
                    used.is_partial |= *tree != ZONE_TREE;
                    continue;
                };
                for index in 0..page.count() {
                    if page.level() > 0 {
                        waiting.push((page.child(index), Some(page.level() - 1)));
                    } else if reads_leaves
                        && keys::read_extent(*tree, page.key(index)).is_some()
                        && let Ok(extent) = Extent::decode(page.entry(index).1)
                        && !extent.is_lost()
                    {
                        used.data.extend(self.zone_of(extent.place * BLOCK_BYTES).map(|(zone, _)| zone));
                    }
                }
            }
        }
        used
    }

    /// Puts empty nodes in place of those of a tree that are lost; says whether there were any.
    pub(crate) async fn prune(&self, tree: u8) -> Result<bool, VolumeError> {
        let lost = self.attempt(&[tree], Need::Less, |mut view, _| Ok(view.tree(tree).lost(&self.cache)?)).await?;
        for (address, low) in &lost {
            let graft =
                |mut view: crate::change::View<'_>| view.tree(tree).graft(*address, low, Graft::Empty, &self.cache);
            self.attempt(&[tree], Need::Less, |view, _| Ok(graft(view)?)).await?;
        }
        Ok(!lost.is_empty())
    }

    /// Zones that the tree of zones lacks, by what other trees refer to. Those of nodes are answered.
    pub(crate) async fn find_zones(&self, root: &Root, opening: Opening) -> Result<Vec<u32>, VolumeError> {
        let used = self.used_by(root, true).await;
        if used.is_partial && opening == Opening::Use {
            let why = "its tree of zones is lost, and with other nodes what could say which zones are in use: copy out \
                       what is left of it";
            let _ = self.failed.set(why.into());
            self.is_damaged.store(true, Ordering::Relaxed);
        }
        let mut found = Vec::new();
        let mut named = Transaction::new();
        let nodes: BTreeSet<u32> =
            used.nodes.iter().filter_map(|address| self.zone_of(*address)).map(|(zone, _)| zone).collect();
        for zone in nodes {
            if !held(&self.zones).has(zone) && !held(&self.rooms).has(zone) {
                self.open_bitmap(zone, root.generation).await;
                named.put(ZONE_TREE, &zone.to_be_bytes(), &[CLASS_NODES]);
                found.push(zone);
            }
        }
        for zone in used.data {
            if !held(&self.zones).has(zone) && !held(&self.rooms).has(zone) {
                // No bitmap is this one: it is made of the map of owners before anything changes there.
                let unknown = Stored { slot: 0, generation: 0, crc: 0, free: 0 };
                held(&self.rooms).add(zone, unknown)?;
                named.put(ZONE_TREE, &zone.to_be_bytes(), &[&[CLASS_DATA][..], &unknown.encode()].concat());
            }
        }
        self.put_apart(named).await?;
        Ok(found)
    }

    /// Makes again what a checkpoint writes to, and could not read.
    pub(crate) async fn remake_fixed(&self) -> Result<(), VolumeError> {
        self.prune(SETTINGS_TREE).await?;
        // What snapshots there are is in memory.
        self.journal.store_again();
        if self.prune(SNAPSHOT_TREE).await? | self.prune(SETTINGS_TWIN).await? {
            self.snapshots.store_again();
        }
        if !self.prune(ZONE_TREE).await? {
            return Ok(());
        }
        let mut named = Transaction::new();
        for zone in held(&self.zones).numbers() {
            named.put(ZONE_TREE, &zone.to_be_bytes(), &[CLASS_NODES]);
        }
        for (zone, stored) in held(&self.rooms).all_stored() {
            named.put(ZONE_TREE, &zone.to_be_bytes(), &[&[CLASS_DATA][..], &stored.encode()].concat());
        }
        self.put_apart(named).await
    }

    /// Changes a tree beside the log: what was known before is there again.
    async fn put_apart(&self, named: Transaction) -> Result<(), VolumeError> {
        for some in named.operations.chunks(crate::transaction::MOST_OPERATIONS) {
            self.commit(&Transaction { operations: some.to_vec(), ..Transaction::default() }, Need::Replayed).await?;
        }
        Ok(())
    }

    /// Has the bitmap of a zone of data in memory: as it was written, or of the map of owners.
    pub(crate) async fn need_zone(&self, zone: u32) -> Result<(), VolumeError> {
        match self.load_zone(zone).await {
            Err(error) if matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Io) => {}
            loaded => return loaded,
        }
        let made = self.look([OWNER_TREE], |view| {
            let owned = self.owned_blocks(view, zone)?;
            held(&self.rooms).restore_shut(zone, owned);
            Ok(())
        });
        if crate::scan::readable(made.await)?.is_none() {
            let mut all = self.empty_data_zone();
            all.set(0, BITS, true);
            held(&self.rooms).restore_shut(zone, all);
        }
        Ok(())
    }

    /// Writes nodes anew whose first copy was not right, where the newest root has them still: other places may be of data
    /// by now. No place of a node is given to another one while the newest root is held.
    pub(crate) async fn mend_nodes(&self, _newest: &Checkpoint) {
        for node in self.cache.take_worn() {
            if !held(&self.zones).has_node(node.address) {
                continue;
            }
            if self.metadata.mend(node.address, PAGE_BYTES, |buf| self.open_node(node, buf).ok().map(drop)).await {
                self.mended.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
