//! One change at a time of what several trees hold: read under their locks, decided, and made under the same locks.
//!
//! ```text
//!   lock trees ─▶ attempt: look, decide ─▶ all in memory? room? ─▶ apply, number in the log ─▶ unlock
//!       ▲                                     │ no
//!       └── read the node, the bitmap, take one more tree ◀┘
//! ```
//!
//! Nothing is waited for under the locks. An attempt that misses something changes nothing and is made anew.
//!
//! Invariants: an attempt sees no change of another half made. Bitmaps of data and the map of owners follow from the
//! extents of files and from which snapshots there are, what quotas are held against from their records, in the same
//! change; none of that is logged, and replay makes it again.

mod derived;

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use smallvec::SmallVec;

use crate::delayed::EXTENTS_OF_NODE;
use crate::descriptors::{Descriptors, Pending};
use crate::error::{ErrorKind, VolumeError};
use crate::journal::{self, Reasons};
use crate::page::{NodeRef, Page};
use crate::quota::Enforce;
use crate::store::{Store, held};
use crate::transaction::{BlockSum, MOST_OPERATIONS, Operation, Transaction};
use crate::tree::{Child, Look, Missing, PlaceCell, Tree};
use crate::zones::NODE_BLOCKS;
use crate::{OWNER_TREE, QUOTA_TREE};

/// Nodes that one operation may change, beside those that are changed already: a way of six nodes, each cut in two.
const NODES_OF_OPERATION: usize = 12;
/// Operations that room is kept for, so that what gives room back always finds some.
const KEPT_OPERATIONS: usize = 16;

/// Nodes that room is kept for, so that snapshots can be destroyed.
const KEPT_FOR_SNAPSHOTS: usize = 40;

/// Why an attempt did not go through.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A node is not in memory.
    Node(NodeRef),
    /// The bitmap of a zone is not in memory.
    Zone(u32),
    /// A tree is needed that is not held.
    Tree(u8),
    /// Nodes that change would have no room.
    Room,
    /// The volume does not say yet that it has a feature of the second kind.
    Feature(u64),
    /// It cannot be done.
    Refused(VolumeError),
}

impl From<Missing> for Stop {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Node(node) => Self::Node(node),
            Missing::Misplaced(node) => Self::Refused(VolumeError::corrupt(format!(
                "node at {} is of another tree, level or range than its parent says",
                node.address
            ))),
        }
    }
}

impl From<VolumeError> for Stop {
    fn from(error: VolumeError) -> Self {
        Self::Refused(error)
    }
}

/// Refuses an attempt.
pub(crate) fn refuse<T>(kind: ErrorKind, text: impl Into<std::borrow::Cow<'static, str>>) -> Result<T, Stop> {
    Err(Stop::Refused(VolumeError::new(kind, text)))
}

/// What a change needs room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It may be refused on a full volume.
    More,
    /// It has a file use room that is the file's already: it may use half of what is kept for giving room back.
    Own,
    /// It gives room back, and may use what is kept for that.
    Less,
    /// It gives back what snapshots have, and may use all that there is.
    Least,
    /// It is part of what finds room.
    Sure,
    /// It was made before, and stands in the log: it is not logged again, and what of it lies in nodes that are lost is
    /// left out.
    Replayed,
}

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);
/// Entries of a leaf in order, and where those behind them begin.
pub(crate) type Entries = (Vec<Pair>, Option<Vec<u8>>);

/// Places of nodes that trees have no more, with the number of the tree.
pub(crate) type GivenUp = Vec<(u8, PlaceCell)>;

/// Trees that are held, and what is to be done to them.
pub(crate) struct View<'a> {
    store: &'a Store,
    numbers: SmallVec<[u8; 8]>,
    trees: SmallVec<[MutexGuard<'a, Tree>; 3]>,
    operations: Vec<Operation>,
    sums: Vec<BlockSum>,
    follows_data: bool,
    enforce: Enforce,
    redeemed: u64,
    /// Security descriptors that this change puts in or takes out.
    pub descriptors: Pending,
    /// What happens to files that no operation shows.
    told: SmallVec<[(u64, Reasons); 1]>,
}

impl<'a> View<'a> {
    fn new(store: &'a Store, numbers: &[u8]) -> Self {
        debug_assert!(numbers.is_sorted_by(|a, b| a < b), "trees are locked in ascending order");
        let trees = numbers.iter().map(|number| held(&store.trees[usize::from(*number)])).collect();
        Self {
            store,
            numbers: SmallVec::from_slice(numbers),
            trees,
            operations: Vec::new(),
            sums: Vec::new(),
            follows_data: false,
            enforce: Enforce::All,
            redeemed: 0,
            descriptors: Pending::default(),
            told: SmallVec::new(),
        }
    }

    fn index(&self, tree: u8) -> Result<usize, Stop> {
        self.numbers.binary_search(&tree).map_err(|_| Stop::Tree(tree))
    }

    /// The value of a key, as this change has left it so far.
    pub fn get(&self, tree: u8, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        if let Some(operation) = self.operations.iter().rfind(|done| done.tree == tree && done.key == key) {
            return Ok(operation.value.clone());
        }
        Ok(self.trees[self.index(tree)?].get(key, &self.store.cache)?)
    }

    /// Shows entries of one leaf from a key on, without what this change did so far, until one is enough; answers where
    /// those behind the leaf begin.
    pub fn visit(
        &self,
        tree: u8,
        from: &[u8],
        each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<Option<Vec<u8>>, Stop> {
        Ok(self.trees[self.index(tree)?].visit(from, &self.store.cache, each)?)
    }

    /// Shows the leaf that has a key, or would have it, without what this change did so far.
    pub fn leaf<T>(&self, tree: u8, key: &[u8], show: impl FnOnce(&Page) -> T) -> Result<Option<T>, Stop> {
        Ok(self.trees[self.index(tree)?].show_leaf(key, &self.store.cache, show)?)
    }

    /// Entries of one leaf from a key on, without what this change did so far.
    pub fn entries_from(&self, tree: u8, from: &[u8]) -> Result<Entries, Stop> {
        let mut found = Vec::new();
        let next = self.visit(tree, from, |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok((found, next))
    }

    /// Entries from a key on whose keys begin with `prefix`, `most` at most, without what this change did so far.
    pub fn range(&self, tree: u8, from: &[u8], prefix: &[u8], most: usize) -> Result<Vec<Pair>, Stop> {
        let mut found = Vec::new();
        self.each(tree, from, prefix, most, |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            Ok(())
        })?;
        Ok(found)
    }

    /// Hands out the same where they stand.
    pub fn each(
        &self,
        tree: u8,
        from: &[u8],
        prefix: &[u8],
        most: usize,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let (mut left, mut next, mut done) = (most, None::<Vec<u8>>, Ok(()));
        while left > 0 {
            let from = next.as_deref().unwrap_or(from);
            if !from.starts_with(prefix) && from > prefix {
                break;
            }
            next = self.visit(tree, from, |key, value| {
                if left == 0 || !key.starts_with(prefix) {
                    return ControlFlow::Break(());
                }
                left -= 1;
                done = each(key, value);
                if done.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            if next.is_none() {
                break;
            }
        }
        done
    }

    /// Puts a value in.
    pub fn put(&mut self, tree: u8, key: Vec<u8>, value: Vec<u8>) -> Result<(), Stop> {
        self.index(tree)?;
        match self.operations.iter_mut().find(|done| done.tree == tree && done.key == key) {
            Some(operation) => operation.value = Some(value),
            None => self.operations.push(Operation { tree, key, value: Some(value) }),
        }
        Ok(())
    }

    /// The same of a key that this change has not touched.
    pub fn add(&mut self, tree: u8, key: Vec<u8>, value: Vec<u8>) -> Result<(), Stop> {
        debug_assert!(self.operations.iter().all(|done| done.tree != tree || done.key != key), "it was touched");
        self.index(tree)?;
        self.operations.push(Operation { tree, key, value: Some(value) });
        Ok(())
    }

    /// Takes a key out.
    pub fn remove(&mut self, tree: u8, key: Vec<u8>) -> Result<(), Stop> {
        self.index(tree)?;
        match self.operations.iter_mut().find(|done| done.tree == tree && done.key == key) {
            Some(operation) => operation.value = None,
            None => self.operations.push(Operation { tree, key, value: None }),
        }
        Ok(())
    }

    /// Has a tree be held.
    pub fn hold(&self, tree: u8) -> Result<(), Stop> {
        self.index(tree).map(drop)
    }

    /// The security descriptors of the volume.
    pub fn known_descriptors(&self) -> &'a Descriptors {
        &self.store.descriptors
    }

    /// Has the volume say that it has a feature of the second kind.
    pub fn need_feature(&self, feature: u64) -> Result<(), Stop> {
        if self.store.has_feature(feature) { Ok(()) } else { Err(Stop::Feature(feature)) }
    }

    /// Whether the same snapshots have what was born with the one and with the other checkpoint.
    pub fn are_alike(&self, one: u64, other: u64) -> bool {
        self.store.snapshots.are_alike(one, other)
    }

    /// The change must not last longer than the data that was written so far.
    pub fn follow_data(&mut self) {
        self.follows_data = true;
    }

    /// The change counts only if these blocks hold what they are to hold; it follows no other data.
    pub fn prove_data(&mut self, sums: &[BlockSum]) {
        self.sums = sums.to_vec();
    }

    /// Which quotas hold for the change.
    pub fn enforce(&mut self, enforce: Enforce) {
        self.enforce = enforce;
    }

    /// So many of the blocks that the one file takes were held for it.
    pub fn redeem(&mut self, blocks: u64) {
        self.redeemed = blocks;
    }

    /// Something happens to a file that no operation shows, for those who follow the volume.
    pub fn tell(&mut self, file: u64, reasons: Reasons) {
        self.told.push((file, reasons));
    }

    /// The store whose trees these are.
    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// A tree that is held.
    pub fn tree(&mut self, tree: u8) -> &mut Tree {
        let at = self.index(tree).expect("the tree is held");
        &mut self.trees[at]
    }

    /// The roots of all trees that are held, and the nodes that they gave up.
    pub fn cut(&mut self) -> (Vec<(u8, Child)>, GivenUp) {
        let roots = self.trees.iter().filter_map(|tree| Some((tree.number, tree.root.clone()?))).collect();
        let dropped = |tree: &mut MutexGuard<'a, Tree>| {
            let number = tree.number;
            std::mem::take(&mut tree.dropped).into_iter().map(move |place| (number, place))
        };
        let dropped = self.trees.iter_mut().flat_map(dropped).collect();
        (roots, dropped)
    }

    /// Makes the changes; answers their number in the log, or that of the last one if there are none.
    pub fn commit(mut self, need: Need, pins: &mut Vec<Arc<Page>>) -> Result<u64, Stop> {
        let store = self.store;
        if self.operations.is_empty() && self.told.is_empty() {
            return Ok(store.log.last());
        }
        if self.operations.len() > MOST_OPERATIONS {
            let text = format!("a change of {} operations; {MOST_OPERATIONS} at most", self.operations.len());
            return refuse(ErrorKind::Invalid, text);
        }
        let (operations, sums) = (std::mem::take(&mut self.operations), std::mem::take(&mut self.sums));
        let mut transaction = Transaction { operations, sums };
        let mut changes = Vec::new();
        if need != Need::Replayed {
            changes = journal::follow(&self, &self.told, &mut transaction.operations)?;
        }
        if transaction.operations.is_empty() {
            return Ok(store.log.last());
        }
        let mut derived = self.derive(&transaction.operations, need)?;
        while !self.ready(transaction.operations.iter().chain(&derived.owners), need, pins)? {
            self.leave_out(&mut transaction.operations)?;
            self.leave_out(&mut derived.owners)?;
        }
        let all = || transaction.operations.iter().chain(&derived.owners);
        if matches!(need, Need::More | Need::Own | Need::Less | Need::Least) {
            store.check_room(all().count() - journal::beside(&transaction.operations), need)?;
        }
        {
            let mut rooms = held(&store.rooms);
            for extent in derived.taken.iter().chain(&derived.freed) {
                rooms.require(extent.place).map_err(Stop::Zone)?;
            }
            let is_given = matches!(need, Need::Sure | Need::Replayed);
            let enforce = if is_given { Enforce::Nothing } else { self.enforce };
            self.descriptors.added().for_each(|(number, owner)| store.ledger.know(number, &owner));
            store.ledger.book(&derived.shifts, enforce, self.redeemed)?;
            derived.freed.iter().for_each(|extent| rooms.free(extent.place, extent.blocks));
            derived.kept.iter().for_each(|(death, kept, dropped)| store.snapshots.count(*death, *kept, *dropped));
            derived.taken.iter().for_each(|extent| rooms.take(extent.place, extent.blocks));
        }
        if store.recount.is_on() {
            let of_owners = all().filter(|operation| operation.tree == OWNER_TREE);
            store.recount.follow(of_owners, |key| self.before(OWNER_TREE, key, need));
        }
        let mut left = all();
        while let Some(Operation { tree, key, value }) = left.next() {
            let at = self.index(*tree)?;
            let done = match value {
                Some(value) => {
                    let more = left.clone().map_while(|next| next.value_of(*tree));
                    self.trees[at].put_some((key, value), more, &store.cache)
                }
                None => self.trees[at].remove(key, &store.cache).map(|_| 1),
            };
            let done = done.expect("all that it needs is in memory, and kept there");
            (1..done).for_each(|_| _ = left.next());
        }
        for Operation { key, value, .. } in transaction.operations.iter().filter(|done| done.tree == QUOTA_TREE) {
            store.ledger.define(key, value.as_deref());
        }
        self.descriptors.gone().for_each(|number| store.ledger.forget(number));
        store.descriptors.settle(std::mem::take(&mut self.descriptors));
        store.files.fetch_add(derived.files, Ordering::Relaxed);
        store.journal.follow(&transaction.operations);
        if need == Need::Replayed {
            return Ok(store.log.last());
        }
        let after = if derived.names_data || self.follows_data { store.data.written() } else { 0 };
        let number = store.log.append(&transaction, after);
        store.watches.tell(&changes);
        Ok(number)
    }

    /// Whether all that operations may touch is in memory, which is pinned then; false where some of what is replayed goes
    /// to nodes that are lost.
    fn ready<'b>(
        &self,
        operations: impl Iterator<Item = &'b Operation>,
        need: Need,
        pins: &mut Vec<Arc<Page>>,
    ) -> Result<bool, Stop> {
        let mut last: Option<(usize, Look<'_>)> = None;
        for Operation { tree, key, .. } in operations {
            let at = self.index(*tree)?;
            if last.as_ref().is_some_and(|(of, leaf)| *of == at && leaf.page().covers(key)) {
                continue;
            }
            match self.trees[at].ready(key, &self.store.cache, pins) {
                Ok(leaf) => last = leaf.map(|leaf| (at, leaf)),
                Err(missing) if need == Need::Replayed && self.store.is_lost(missing) => return Ok(false),
                Err(missing) => return Err(missing.into()),
            }
        }
        Ok(true)
    }

    /// Takes out operations whose nodes are lost, and notes them.
    fn leave_out(&self, operations: &mut Vec<Operation>) -> Result<(), Stop> {
        let mut left = Vec::with_capacity(operations.len());
        for operation in operations.drain(..) {
            let at = self.index(operation.tree)?;
            match self.trees[at].ready(&operation.key, &self.store.cache, &mut Vec::new()) {
                Err(missing) if self.store.is_lost(missing) => {
                    held(&self.store.left_out).insert((operation.tree, operation.key));
                }
                // What is not in memory is asked for by whoever makes what is left.
                _ => left.push(operation),
            }
        }
        *operations = left;
        Ok(())
    }

    /// The value of a key before this change. One in a node that is lost is not there for what is replayed.
    fn before(&self, tree: u8, key: &[u8], need: Need) -> Result<Option<Vec<u8>>, Stop> {
        match self.trees[self.index(tree)?].get(key, &self.store.cache) {
            Err(missing) if need == Need::Replayed && self.store.is_lost(missing) => Ok(None),
            value => Ok(value?),
        }
    }
}

impl Store {
    /// Looks at trees, as they are at one moment.
    pub(crate) async fn look<T>(
        &self,
        trees: impl AsRef<[u8]>,
        mut attempt: impl FnMut(&View<'_>) -> Result<T, Stop>,
    ) -> Result<T, VolumeError> {
        self.attempt(trees.as_ref(), Need::Less, |view, _| attempt(&view)).await
    }

    /// Changes trees; answers the number of the change in the log with what the attempt answered.
    pub(crate) async fn change<T>(
        &self,
        trees: impl AsRef<[u8]>,
        need: Need,
        mut attempt: impl FnMut(&mut View<'_>) -> Result<T, Stop>,
    ) -> Result<(T, u64), VolumeError> {
        self.check_failed()?;
        if self.is_checkpoint_due() {
            Box::pin(self.checkpoint()).await?;
        }
        if self.journal.is_on() {
            return Box::pin(self.change_recorded(trees.as_ref(), need, attempt)).await;
        }
        self.attempt(trees.as_ref(), need, |mut view, pins| {
            let answer = attempt(&mut view)?;
            Ok((answer, view.commit(need, pins)?))
        })
        .await
    }

    /// What a change answered, once the change is durable.
    pub(crate) async fn lasting<T>(
        &self,
        change: impl Future<Output = Result<(T, u64), VolumeError>>,
    ) -> Result<T, VolumeError> {
        let (answer, logged) = change.await?;
        self.sync(logged).await?;
        Ok(answer)
    }

    /// Makes changes that were decided before.
    pub(crate) async fn commit(&self, transaction: &Transaction, need: Need) -> Result<u64, VolumeError> {
        let mut trees: Vec<u8> = transaction.operations.iter().map(|operation| operation.tree).collect();
        trees.sort_unstable();
        trees.dedup();
        self.attempt(&trees, need, |mut view, pins| {
            view.operations = transaction.operations.clone();
            view.commit(need, pins)
        })
        .await
    }

    /// Looks and changes until nothing is missing.
    pub(crate) async fn attempt<T>(
        &self,
        trees: &[u8],
        need: Need,
        mut attempt: impl FnMut(View<'_>, &mut Vec<Arc<Page>>) -> Result<T, Stop>,
    ) -> Result<T, VolumeError> {
        self.check_ended()?;
        let mut numbers = SmallVec::<[u8; 8]>::from_slice(trees);
        numbers.sort_unstable();
        numbers.dedup();
        let mut pins = Vec::new();
        let mut wrong: Option<(NodeRef, VolumeError)> = None;
        let mut checkpoints = 0;
        loop {
            let stop = match attempt(View::new(self, &numbers), &mut pins) {
                Ok(done) => return Ok(done),
                Err(stop) => stop,
            };
            match stop {
                Stop::Refused(error) => return Err(error),
                Stop::Tree(tree) => {
                    numbers.push(tree);
                    numbers.sort_unstable();
                    numbers.dedup();
                }
                Stop::Zone(zone) => Box::pin(self.need_zone(zone)).await?,
                Stop::Feature(feature) => Box::pin(self.use_feature(feature)).await?,
                Stop::Node(missing) => {
                    if let Some((node, error)) = wrong.take()
                        && node == missing
                    {
                        return Err(error);
                    }
                    match Box::pin(self.load(missing)).await {
                        Ok(page) => pins.push(page),
                        // Its place may have been given to another node meanwhile: then it is not asked for again. One
                        // that is only a neighbour is done without.
                        Err(error) => {
                            self.cache.note_lost(missing);
                            wrong = Some((missing, error));
                        }
                    }
                }
                Stop::Room => {
                    pins.clear();
                    Box::pin(self.more_room(need, &mut checkpoints)).await?;
                }
            }
        }
    }

    /// Whether a checkpoint finds room for what so many operations change, beside what is changed already.
    pub(crate) fn check_room(&self, operations: usize, need: Need) -> Result<(), Stop> {
        self.check_nodes(operations * NODES_OF_OPERATION, need)
    }

    /// The same for so many nodes.
    pub(crate) fn check_nodes(&self, nodes: usize, need: Need) -> Result<(), Stop> {
        let needed = self.needed(nodes, need);
        if held(&self.zones).free_nodes() >= needed { Ok(()) } else { Err(Stop::Room) }
    }

    /// Nodes that there must be room for before so many more change.
    pub(crate) fn needed(&self, nodes: usize, need: Need) -> usize {
        let zones = held(&self.zones).count();
        let bitmaps = held(&self.rooms).changed();
        let nodes_of_zone = self.format.node_blocks() as usize / NODE_BLOCKS;
        let kept = match need {
            Need::More => {
                let promised = self.promised.load(Ordering::Acquire).div_ceil(EXTENTS_OF_NODE);
                KEPT_OPERATIONS * NODES_OF_OPERATION
                    + zones * nodes_of_zone / 100
                    + promised
                    + self.journal.nodes_to_come()
            }
            Need::Own => KEPT_OPERATIONS * NODES_OF_OPERATION / 2,
            // What snapshots have of nodes stays taken, whatever is removed: so do those that destroy one.
            Need::Less if self.snapshots.are_any() => KEPT_FOR_SNAPSHOTS,
            Need::Less | Need::Least | Need::Sure | Need::Replayed => 0,
        };
        let beside = self.ledger.changed() + self.snapshots.nodes_to_come() + self.journal.nodes_of_header();
        let own = nodes + bitmaps.min(self.superblock().zones() as usize / 100) + beside + 4;
        self.cache.changed() + self.reserved.load(Ordering::Acquire) + own + kept
    }

    /// Finds room for nodes: further room, or what two checkpoints give back, as the first only lets go of it.
    async fn more_room(&self, need: Need, checkpoints: &mut u32) -> Result<(), VolumeError> {
        if self.add_node_zone(need).await? {
            return Ok(());
        }
        if *checkpoints == 2 {
            let what = if self.snapshots.are_any() { "destroy snapshots" } else { "remove files" };
            let text = format!("volume {} is full: {what}, or let it grow", self.volume());
            return Err(VolumeError::new(ErrorKind::NoSpace, text));
        }
        *checkpoints += 1;
        self.checkpoint().await
    }

    /// Whether a node is known not to be there.
    pub(crate) fn is_lost(&self, missing: Missing) -> bool {
        match missing {
            Missing::Node(node) => self.cache.is_lost(node),
            Missing::Misplaced(_) => true,
        }
    }

    /// Reads the bitmap of a zone of data.
    pub(crate) async fn load_zone(&self, zone: u32) -> Result<(), VolumeError> {
        let Some((at, len)) = held(&self.rooms).slot(zone) else { return Ok(()) };
        let wrong = |why| VolumeError::corrupt(format!("bitmap of zone {zone} of volume {}: {why}", self.volume()));
        let read = self.metadata.read(at, len, |slot| held(&self.rooms).load(zone, at, slot)).await;
        read.map(drop).map_err(wrong)
    }
}
