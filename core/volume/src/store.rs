//! The store of trees: transactions over them, lookups and ranges.
//!
//! A transaction is applied to the trees in memory, under the locks of those that it touches, and gets its number in
//! the log under the same locks. Those locks are held for work in memory only; a node that is missing is read without
//! them, and the operation is tried again.
//!
//! Order of locks: trees in ascending order, then zones, cache or pending, then the ledger and snapshots; the log's lane is
//! taken before any of them.
//!
//! Invariant: a transaction is in all its trees or in none.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use holdfast_device::{Device, Durability, IoBuf, IoSlice};
use holdfast_model::Uuid;

use crate::ZONE_TREE;
use crate::cache::NodeCache;
use crate::change::Need;
use crate::checked::Checks;
use crate::checkpoint::Checkpoint;
use crate::descriptors::Descriptors;
use crate::error::{ErrorKind, VolumeError};
use crate::flush::DataFlush;
use crate::journal::Journal;
use crate::log::{Log, Synced};
use crate::media::Media;
use crate::own_nodes::LetGo;
use crate::page::{NodeRef, PAGE_BYTES, Page};
use crate::quota::Ledger;
use crate::recount::Recount;
use crate::rooms::Rooms;
use crate::snapshots::Snapshots;
use crate::superblock::Superblock;
use crate::transaction::Transaction;
use crate::tree::Tree;
use crate::turnover::Holder;
use crate::watch::Watches;
use crate::zones::Zones;

/// The class of a zone of nodes, as the tree of zones has it.
pub(crate) const CLASS_NODES: u8 = 1;
/// That of a zone of data.
pub(crate) const CLASS_DATA: u8 = 2;

/// What a volume is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its id, drawn by the caller.
    pub volume: Uuid,
    /// Bytes of the log; a 64th of the device otherwise, within bounds.
    pub log_bytes: Option<u64>,
}

/// What an open store may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of memory for nodes that stand on the device.
    pub cache_bytes: usize,
    /// Bytes of nodes that changed since the last checkpoint, beyond which a transaction waits for the next one.
    pub changed_bytes: usize,
    /// Bytes of data that wait in memory for their place on the device; 0 has all data written at once.
    pub delayed_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cache_bytes: 128 << 20, changed_bytes: 128 << 20, delayed_bytes: 64 << 20 }
    }
}

/// An open store.
pub struct Store {
    pub(crate) device: Arc<dyn Device>,
    /// The same, with its copies.
    pub(crate) media: Media,
    /// The same for metadata but superblocks and roots: where the volume has twins, they are copies.
    pub(crate) metadata: Media,
    /// What the format fixed, but for the size.
    pub(crate) format: Superblock,
    /// Bytes of the device that the volume uses. It changes while nothing is checkpointed.
    pub(crate) size_bytes: AtomicU64,
    /// Features of the second kind that are in use.
    pub(crate) features: AtomicU64,
    /// While the volume becomes smaller, the first zone that is given out no more.
    pub(crate) line: AtomicU32,
    pub(crate) trees: Vec<Mutex<Tree>>,
    pub(crate) cache: NodeCache,
    pub(crate) log: Log,
    pub(crate) zones: Mutex<Zones>,
    pub(crate) rooms: Mutex<Rooms>,
    /// When data became durable.
    pub(crate) data: Arc<DataFlush>,
    /// No zone before this one is taken for anything new.
    pub(crate) first_zone: u32,
    /// Held by the one checkpoint that is under way.
    pub(crate) checkpoint: tokio::sync::Mutex<Checkpoint>,
    /// Held by the one who reads a root beside checkpoints.
    pub(crate) reading: tokio::sync::Mutex<()>,
    /// Nodes of a checkpoint under way that have no room yet.
    pub(crate) reserved: AtomicUsize,
    /// Extents that nodes are promised to, of data that has no place yet.
    pub(crate) promised: AtomicUsize,
    /// The last change that opening found.
    pub(crate) recovered: u64,
    /// Files that exist.
    pub(crate) files: AtomicI64,
    /// What users, groups and directory trees take.
    pub(crate) ledger: Ledger,
    /// Which snapshots there are, and what they keep.
    pub(crate) snapshots: Snapshots,
    /// What newer roots let go of, while the nodes of one that is to be removed are looked for.
    pub(crate) let_go: LetGo,
    /// What snapshots keep, while it is counted anew.
    pub(crate) recount: Recount,
    /// The security descriptors that files name; what snapshots have of files names the same.
    pub(crate) descriptors: Arc<Descriptors>,
    /// The change journal.
    pub(crate) journal: Journal,
    /// Who is told what happens.
    pub(crate) watches: Arc<Watches>,
    /// Whether scans and repairs that are under way are to end early.
    pub(crate) interrupted: AtomicBool,
    /// What the log says of nodes that are lost: tree and key.
    pub(crate) left_out: Mutex<BTreeSet<(u8, Vec<u8>)>>,
    /// Blocks that were damaged in one copy and written anew from another.
    pub(crate) mended: AtomicU64,
    /// Blocks that were held against checksums of their own; what snapshots have of files counts here, too.
    pub(crate) checks: Arc<Checks>,
    /// The checkpoint of the snapshot that it is, if it is one.
    pub(crate) snapshot: Option<u64>,
    /// Whether the opening found that changes are missing.
    pub(crate) is_damaged: AtomicBool,
    /// Held while nodes of a zone are written elsewhere so that data may have it.
    pub(crate) turning: tokio::sync::Mutex<()>,
    /// Whether it was a snapshot's, which was destroyed.
    pub(crate) ended: AtomicBool,
    /// Why nothing is changed any more.
    pub(crate) failed: OnceLock<String>,
    pub(crate) settings: Settings,
}

/// Zones of so many that data leaves to nodes, of which each zone holds half as many where they have twins.
pub(crate) fn kept_of(zones: u32, has_twins: bool) -> u32 {
    (zones / 50).max(2) * if has_twins { 2 } else { 1 }
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Zones below a line that are nobody's.
pub(crate) fn zones_left(line: u32, zones: &Zones, rooms: &Rooms) -> u32 {
    line.saturating_sub((zones.count_below(line) + rooms.count_below(line)) as u32)
}

impl Store {
    /// The volume's id.
    pub fn volume(&self) -> Uuid {
        self.format.volume
    }

    /// Where everything is, as of now.
    pub(crate) fn superblock(&self) -> Superblock {
        let [compatible, _, incompatible] = self.format.features;
        let features = [compatible, self.features.load(Ordering::Acquire), incompatible];
        Superblock { size_bytes: self.size_bytes.load(Ordering::Acquire), features, ..self.format }
    }

    /// Whether the volume says that it has a feature of the second kind.
    pub(crate) fn has_feature(&self, feature: u64) -> bool {
        self.features.load(Ordering::Acquire) & feature == feature
    }

    /// Has the volume say so, before anything is stored that needs it.
    pub(crate) async fn use_feature(&self, feature: u64) -> Result<(), VolumeError> {
        self.say_feature(feature, true).await
    }

    /// Has the volume say so no more, after nothing needs it any more.
    pub(crate) async fn end_feature(&self, feature: u64) -> Result<(), VolumeError> {
        self.say_feature(feature, false).await
    }

    async fn say_feature(&self, feature: u64, is_used: bool) -> Result<(), VolumeError> {
        self.check_failed()?;
        // The size does not change meanwhile.
        let _no_cut = self.checkpoint.lock().await;
        let before = self.superblock();
        let [compatible, known, incompatible] = before.features;
        let said = if is_used { known | feature } else { known & !feature };
        if said == known {
            return Ok(());
        }
        let after = Superblock { features: [compatible, said, incompatible], ..before };
        let [first, second, third] = after.groups();
        // Where power fails in between, the first one counts.
        for at in [third, second, first] {
            let written = self.device.write(at, after.seal(), Durability::Durable).await;
            written.map_err(|error| self.fail(error.into()))?;
        }
        self.features.store(said, Ordering::Release);
        Ok(())
    }

    /// The value of a key.
    ///
    /// # Errors
    /// A node on the way is damaged, or the device failed.
    pub async fn get(&self, tree: u8, key: &[u8]) -> Result<Option<Vec<u8>>, VolumeError> {
        self.look([tree], |view| view.get(tree, key)).await
    }

    /// Entries from a key on, in ascending order, `most` of them at most.
    ///
    /// # Errors
    /// A node on the way is damaged, or the device failed.
    pub async fn range(&self, tree: u8, from: &[u8], most: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, VolumeError> {
        let (mut found, mut next) = (Vec::new(), Some(from.to_vec()));
        while let Some(from) = next.take().filter(|_| found.len() < most) {
            let (entries, then) = self.look([tree], |view| view.entries_from(tree, &from)).await?;
            let room = most - found.len();
            found.extend(entries.into_iter().take(room));
            next = then;
        }
        Ok(found)
    }

    /// Makes changes. They are in the trees, and in the log's order, when this is answered; durable after
    /// [`Store::sync`].
    ///
    /// # Errors
    /// The changes are not valid, there is no room, a node is damaged, or an earlier failure ended all changes. Nothing
    /// was changed then.
    pub async fn apply(&self, transaction: &Transaction) -> Result<u64, VolumeError> {
        transaction.check()?;
        self.check_failed()?;
        if self.is_checkpoint_due() {
            self.checkpoint().await?;
        }
        let grows = transaction.operations.iter().any(|operation| operation.value.is_some());
        self.commit(transaction, if grows { Need::More } else { Need::Less }).await
    }

    /// Whether so much changed, or so much of the log is used, that a checkpoint pays.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.cache.changed() * PAGE_BYTES > self.settings.changed_bytes || self.log.is_due()
    }

    /// The number of the last transaction.
    pub fn last(&self) -> u64 {
        self.log.last()
    }

    /// Where the leaf stands that has a key, as the newest durable root has it.
    ///
    /// # Errors
    /// A node on the way is damaged, or the device failed.
    pub async fn place_of(&self, tree: u8, key: &[u8]) -> Result<Option<u64>, VolumeError> {
        let newest = self.checkpoint.lock().await;
        let Some((_, root)) = newest.root.trees.iter().find(|(number, _)| *number == tree) else { return Ok(None) };
        let (mut node, mut page) = (*root, self.read_node(*root).await?);
        while page.level() > 0 {
            let index = page.child_of(key);
            node = page.child(index);
            let below = self.read_node(node).await?;
            if !page.is_parent_of(index, &below) {
                return Err(VolumeError::corrupt(format!("node at {} is misplaced", node.address)));
            }
            page = below;
        }
        Ok(page.find(key).is_ok().then_some(node.address))
    }

    /// Makes all transactions up to one durable, and whatever came with them.
    ///
    /// # Errors
    /// The device failed: nothing is changed any more.
    pub async fn sync(&self, until: u64) -> Result<(), VolumeError> {
        loop {
            self.check_failed()?;
            match self.log.sync(until).await {
                Ok(Synced::Durable) => return Ok(()),
                Ok(Synced::Full) => Box::pin(self.checkpoint()).await?,
                Err(error) => return Err(self.fail(error)),
            }
        }
    }

    /// Has these blocks be settled before they are written over.
    pub(crate) async fn settle_blocks(&self, place: u64, blocks: u64) -> Result<(), VolumeError> {
        if self.log.is_settled(place, blocks) {
            return Ok(());
        }
        Box::pin(self.wait_for_blocks(place, blocks)).await
    }

    async fn wait_for_blocks(&self, place: u64, blocks: u64) -> Result<(), VolumeError> {
        loop {
            match self.log.settle_blocks(place, blocks).await {
                Ok(Synced::Durable) => return Ok(()),
                Ok(Synced::Full) => Box::pin(self.checkpoint()).await?,
                Err(error) => return Err(self.fail(error)),
            }
        }
    }

    /// Reads a node.
    pub(crate) async fn load(&self, node: NodeRef) -> Result<Arc<Page>, VolumeError> {
        let page = Arc::new(self.read_node(node).await?);
        self.cache.keep(node, page.clone());
        Ok(page)
    }

    /// Reads a node past the cache, from whichever copy has it.
    pub(crate) async fn read_node(&self, node: NodeRef) -> Result<Page, VolumeError> {
        let read = self.metadata.read(node.address, PAGE_BYTES, |buf| self.open_node(node, buf)).await;
        let wrong = |why| VolumeError::corrupt(format!("node at {} of volume {}: {why}", node.address, self.volume()));
        let (page, is_worn) = read.map_err(wrong)?;
        if is_worn {
            self.cache.note_worn(node);
        }
        Ok(page)
    }

    /// Notes a node whose twin is not right, so that it is written anew. The node itself was read.
    pub(crate) async fn look_at_twin(&self, node: NodeRef) {
        let accept = |buf: &IoBuf| self.open_node(node, buf).is_ok();
        if self.is_twin_wrong(node.address, PAGE_BYTES, accept).await {
            self.cache.note_worn(node);
        }
    }

    /// Whether metadata has a twin, and that is not as it should be in one of its copies.
    pub(crate) async fn is_twin_wrong(&self, at: u64, len: usize, accept: impl Fn(&IoBuf) -> bool) -> bool {
        let Some(copies) = self.metadata.copies.as_ref().filter(|_| self.format.twin_of(at).is_some()) else {
            return false;
        };
        for number in 1..copies.copies(at, len as u64) {
            if !copies.read_copy(number, at, IoBuf::new(len)).await.is_ok_and(|buf| accept(&buf)) {
                return true;
            }
        }
        false
    }

    /// The node that a parent names, as it stands in these bytes.
    pub(crate) fn open_node(&self, node: NodeRef, buf: &IoBuf) -> Result<Page, &'static str> {
        let (page, crc) = Page::open(self.volume(), node.address, buf)?;
        if (page.generation(), crc) != (node.generation, node.crc) {
            return Err("it is another version than its parent names");
        }
        Ok(page)
    }

    /// Finds further room for nodes: one more zone, or what is kept for who reads; false where there is none.
    pub(crate) async fn add_node_zone(&self, need: Need) -> Result<bool, VolumeError> {
        loop {
            {
                // A cut between the two would know the zone by one of them only.
                let _no_cut = self.checkpoint.lock().await;
                if let Some(zone) = self.unclaimed(if need == Need::More { 1 } else { 0 }) {
                    if !self.take_ground(zone, true).await? {
                        return Ok(self.end_reading());
                    }
                    self.name_zone(zone, vec![CLASS_NODES]).await?;
                    held(&self.zones).add(zone);
                    return Ok(true);
                }
            }
            if !Box::pin(self.turn_over(Holder::Data)).await? {
                return Ok(self.end_reading());
            }
        }
    }

    /// Takes one more zone for data; false where none is left but what is kept for nodes.
    pub(crate) async fn add_data_zone(&self) -> Result<bool, VolumeError> {
        loop {
            {
                let _no_cut = self.checkpoint.lock().await;
                if let Some(zone) = self.unclaimed(self.kept_zones()) {
                    if !self.take_ground(zone, false).await? {
                        return Ok(false);
                    }
                    let stored = held(&self.rooms).empty();
                    let mut value = vec![CLASS_DATA];
                    value.extend_from_slice(&stored.encode());
                    self.name_zone(zone, value).await?;
                    held(&self.rooms).add(zone, stored)?;
                    return Ok(true);
                }
            }
            // One that would have to be left to nodes is not taken from them: they would take it back, without end.
            let is_spared = self.may_spare_nodes() && Box::pin(self.turn_over(Holder::Nodes)).await?;
            if !is_spared && !self.end_reading() {
                return Ok(false);
            }
        }
    }

    /// Whether there are more zones than are left to nodes once those give up what they can.
    fn may_spare_nodes(&self) -> bool {
        let (margin, in_use) = (self.needed(0, Need::More), self.zones_in_use());
        let (zones, rooms) = (held(&self.zones), held(&self.rooms));
        zones_left(in_use, &zones, &rooms) + zones.spare(margin) + zones.closed() > self.kept_zones()
    }

    async fn name_zone(&self, zone: u32, value: Vec<u8>) -> Result<(), VolumeError> {
        let mut transaction = Transaction::new();
        transaction.put(ZONE_TREE, &zone.to_be_bytes(), &value);
        self.commit(&transaction, Need::Sure).await.map(drop)
    }

    /// Takes zones out of the tree of zones that nobody has anything of. No cut may be made meanwhile, as it would know them
    /// by one of both places only.
    pub(crate) async fn disown_zones(&self, zones: &[u32]) -> Result<(), VolumeError> {
        let mut gone = Transaction::new();
        zones.iter().for_each(|zone| _ = gone.remove(ZONE_TREE, &zone.to_be_bytes()));
        self.commit(&gone, Need::Sure).await?;
        zones.iter().for_each(|zone| self.retire_zone(*zone));
        Ok(())
    }

    /// A zone that nobody has anything of is nobody's.
    pub(crate) fn retire_zone(&self, zone: u32) {
        held(&self.zones).retire(zone);
        held(&self.rooms).retire(zone);
    }

    /// A zone that is nobody's, if there are more than `kept` of them.
    fn unclaimed(&self, kept: u32) -> Option<u32> {
        let all = self.zones_in_use();
        let (zones, rooms) = (held(&self.zones), held(&self.rooms));
        if zones_left(all, &zones, &rooms) <= kept {
            return None;
        }
        (self.first_zone..all).find(|zone| !zones.has(*zone) && !rooms.has(*zone))
    }

    /// Zones that may be given out.
    pub(crate) fn zones_in_use(&self) -> u32 {
        self.superblock().zones().min(self.line.load(Ordering::Acquire))
    }

    /// Zones that data leaves to nodes.
    pub(crate) fn kept_zones(&self) -> u32 {
        kept_of(self.zones_in_use(), self.format.has_twins())
    }

    /// Ends a scan or repair that is to end early.
    pub(crate) fn check_interrupted(&self) -> Result<(), VolumeError> {
        if self.interrupted.load(Ordering::Acquire) {
            return Err(VolumeError::new(ErrorKind::Busy, "it was stopped"));
        }
        Ok(())
    }

    pub(crate) fn check_failed(&self) -> Result<(), VolumeError> {
        match self.failed.get() {
            Some(why) => {
                Err(VolumeError::new(ErrorKind::ReadOnly, format!("volume {} takes no changes: {why}", self.volume())))
            }
            None => Ok(()),
        }
    }

    /// Ends all changes: what is in memory and what is on the device may differ in more than is known.
    pub(crate) fn fail(&self, error: VolumeError) -> VolumeError {
        let _ = self.failed.set(error.to_string());
        error
    }

    /// Writes metadata of a zone.
    pub(crate) async fn write(&self, at: u64, data: IoSlice) -> Result<(), VolumeError> {
        Ok(self.metadata.device.write(at, data, Durability::Cached).await?)
    }
}
