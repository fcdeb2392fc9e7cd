//! A volume made, and opened: the newest root that can be read, its zones, and what the log has beyond it.
//!
//! ```text
//!   damaged                         opening
//!   superblock, root, log frame     another copy, written anew
//!   newest root in all copies       the one before, and the log from there on
//!   tree of zones, settings         made again (remake.rs)
//!   bitmap                          of what the root uses; nothing is given out where that cannot be known
//!   any other node                  fails what stands in it, also what the log says of that
//!   log, so that changes are lost   read-only, and says so
//! ```
//!
//! Invariants: opening ends with a checkpoint, so that nothing of an earlier opening is needed any more. A volume that
//! takes changes has all that were acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use holdfast_device::{Copies, Device, Durability, IoBuf};
use holdfast_model::{BLOCK_BYTES, ByteSize};

use crate::cache::NodeCache;
use crate::change::Need;
use crate::checkpoint::Checkpoint;
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::flush::DataFlush;
use crate::ground;
use crate::journal::Journal;
use crate::keys;
use crate::log::Log;
use crate::media::Media;
use crate::own_nodes::LetGo;
use crate::page::NodeRef;
use crate::quota::Ledger;
use crate::recount::Recount;
use crate::replay::Replayed;
use crate::rooms::{Rooms, Stored};
use crate::snapshots::{self, Snapshots};
use crate::store::{CLASS_DATA, CLASS_NODES, Format, Settings, Store, held};
use crate::superblock::{self, GROUP_BYTES, LogStart, Root, Superblock};
use crate::transaction::Operation;
use crate::tree::Tree;
use crate::wreck;
use crate::zones::{NODE_BLOCKS, Zones};
use crate::{
    KEY_FILES, QUOTA_TREE, SECURITY_TREE, SECURITY_TWIN, SETTINGS_TREE, SETTINGS_TWIN, SNAPSHOT_TREE, TREES, VERB_TREE,
    ZONE_TREE,
};

/// Bytes in front of each group: what is read of it.
const GROUP_HEAD: usize = 3 * BLOCK_BYTES as usize;
/// Checkpoints that were begun at most behind a root that is found.
const MOST_LOST: u64 = 4;
/// Nodes that are free at least when a wreck is opened.
const NODES_FOR_WRECK: usize = 256;

/// What is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// A volume that is to be used: where changes may be missing, it is read-only.
    Use,
    /// What is left of one, on a device that takes changes for as long as it is looked at, and has room behind the volume:
    /// nothing is refused, and nothing is written where something may be.
    Wreck {
        /// Bytes of the device without that room.
        size_bytes: u64,
    },
}

/// Bytes of the zones of a volume of a size.
pub(crate) fn zone_bytes_for(size_bytes: u64) -> u64 {
    let zone_bytes = (size_bytes / 64).next_power_of_two();
    zone_bytes.clamp(superblock::LEAST_ZONE_BYTES, superblock::MOST_ZONE_BYTES)
}

impl Store {
    /// Makes an empty volume of a device. What it held is lost.
    ///
    /// # Errors
    /// The device is too small, or failed.
    pub async fn format(device: &Arc<dyn Device>, format: Format) -> Result<(), VolumeError> {
        Self::format_on(device, format, false).await
    }

    /// The same where copies of a block can be told apart: where the device has one of each only, metadata is kept twice.
    ///
    /// # Errors
    /// As [`Store::format`].
    pub async fn format_with_copies(device: Arc<dyn Copies>, format: Format) -> Result<(), VolumeError> {
        let has_twins = device.copies(0, device.geometry().size_bytes) < 2;
        let device: Arc<dyn Device> = device;
        Self::format_on(&device, format, has_twins).await
    }

    async fn format_on(device: &Arc<dyn Device>, format: Format, has_twins: bool) -> Result<(), VolumeError> {
        let size_bytes = device.geometry().size_bytes / GROUP_BYTES * GROUP_BYTES;
        if size_bytes < superblock::LEAST_BYTES {
            let text = format!(
                "{} are too few for a volume: {} at least",
                ByteSize(size_bytes),
                ByteSize(superblock::LEAST_BYTES)
            );
            return Err(VolumeError::new(ErrorKind::Invalid, text));
        }
        let log_bytes = format.log_bytes.unwrap_or(size_bytes / 64);
        let least = superblock::LEAST_LOG_BYTES * if has_twins { 2 } else { 1 };
        let log_bytes = log_bytes.clamp(least, superblock::MOST_LOG_BYTES) / GROUP_BYTES * GROUP_BYTES;
        let zone_bytes = zone_bytes_for(size_bytes);
        let features = [0, superblock::SNAPSHOTS, if has_twins { superblock::TWINS } else { 0 }];
        let superblock = Superblock { volume: format.volume, size_bytes, log_bytes, zone_bytes, features };
        for at in superblock.groups() {
            device.write(at, IoBuf::zeroed(GROUP_BYTES as usize).freeze(), Durability::Cached).await?;
        }
        // A volume of the same id may have been made there before.
        ground::clear(&**device, superblock.log_at(), log_bytes).await?;
        device.flush().await?;
        let log = LogStart { sequence: 0, previous: 0, applied: 0 };
        let root = Root { generation: 1, epoch: 1, log, is_marked: false, bitmaps: None, trees: Vec::new() };
        for at in superblock.groups() {
            device.write(at + root.slot(), root.seal(format.volume), Durability::Durable).await?;
        }
        for at in superblock.groups() {
            device.write(at, superblock.seal(), Durability::Durable).await?;
        }
        Ok(())
    }

    /// Opens the volume of a device: the trees of its newest root, and what the log has beyond them. What is damaged
    /// fails by itself; where changes may be missing, the store is read-only and says why.
    ///
    /// # Errors
    /// There is no volume, one of a later version, or one whose superblocks or roots are all damaged.
    pub async fn open(device: Arc<dyn Device>, settings: Settings) -> Result<Self, VolumeError> {
        Ok(Self::open_on(Media::of(device), settings, Opening::Use).await?.0)
    }

    /// The same where copies can be told apart: what is damaged in one is read from another, and written anew.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open_with_copies(device: Arc<dyn Copies>, settings: Settings) -> Result<Self, VolumeError> {
        Ok(Self::open_on(Media::with_copies(device), settings, Opening::Use).await?.0)
    }

    /// The trees of a root, and nothing known of zones yet.
    pub(crate) fn on(
        media: Media,
        superblock: &Superblock,
        root: Root,
        (log, data): (Log, Arc<DataFlush>),
        settings: Settings,
    ) -> Self {
        let by_number: BTreeMap<u8, NodeRef> = root.trees.iter().copied().collect();
        Self {
            trees: (0..TREES).map(|number| Mutex::new(Tree::new(number, by_number.get(&number).copied()))).collect(),
            cache: NodeCache::new(settings.cache_bytes),
            log,
            zones: Mutex::new(Zones::new(superblock)),
            rooms: Mutex::new(Rooms::new(superblock)),
            data,
            checkpoint: tokio::sync::Mutex::new(Checkpoint { root }),
            reading: tokio::sync::Mutex::default(),
            reserved: AtomicUsize::new(0),
            promised: AtomicUsize::new(0),
            recovered: 0,
            files: AtomicI64::new(0),
            ledger: Ledger::default(),
            snapshots: Snapshots::default(),
            let_go: LetGo::default(),
            recount: Recount::default(),
            descriptors: Arc::default(),
            journal: Journal::default(),
            watches: Arc::default(),
            interrupted: AtomicBool::new(false),
            failed: OnceLock::new(),
            turning: tokio::sync::Mutex::new(()),
            ended: AtomicBool::new(false),
            left_out: Mutex::default(),
            mended: AtomicU64::new(0),
            checks: Arc::default(),
            snapshot: None,
            is_damaged: AtomicBool::new(false),
            first_zone: 0,
            device: media.device.clone(),
            metadata: media.for_metadata(superblock),
            media,
            size_bytes: AtomicU64::new(superblock.size_bytes),
            features: AtomicU64::new(superblock.features[1]),
            line: AtomicU32::new(u32::MAX),
            format: *superblock,
            settings,
        }
    }

    /// Opens it; answers also why changes may be missing.
    pub(crate) async fn open_on(
        media: Media,
        settings: Settings,
        opening: Opening,
    ) -> Result<(Self, Option<String>), VolumeError> {
        let is_wreck = opening != Opening::Use;
        let superblock = match (find_superblock(&media).await?, opening) {
            (None, Opening::Wreck { size_bytes }) => wreck::guess_superblock(&media, size_bytes).await,
            (found, _) => found,
        };
        let none = || VolumeError::new(ErrorKind::Format, "the device holds no volume: make one on it first");
        let superblock = with_all_features(&media, superblock.ok_or_else(none)?).await;
        let root = match find_root(&media, &superblock).await {
            Err(_) if is_wreck => wreck::guess_root(&media, &superblock).await?,
            found => found?,
        };
        let data = Arc::new(DataFlush::new(media.device.clone()));
        let log = |epoch, from| Log::new(media.clone(), data.clone(), &superblock, epoch, from);
        let Replayed { transactions, end, epoch, gap, mended } =
            log(root.epoch, (root.log, root.log.sequence)).replay(&root).await;
        let epoch = epoch + 1;
        let root_generation = root.generation;
        let log = log(epoch, (end, root.log.sequence));
        let store = Self {
            recovered: end.applied,
            mended: AtomicU64::new(mended),
            is_damaged: AtomicBool::new(gap.is_some()),
            first_zone: if is_wreck { superblock.zones() } else { 0 },
            features: AtomicU64::new(features_of(&superblock)),
            ..Self::on(media, &superblock, Root { epoch, ..root }, (log, data), settings)
        };
        if superblock.is_read_only() && !is_wreck {
            store.refuse_changes("it has features that this version only reads: use a newer release to write");
        }
        if let Some(gap) = gap.as_ref().filter(|_| !is_wreck) {
            store.refuse_changes(format!("{gap}: copy out what is left of it"));
        }
        for tree in [SETTINGS_TREE, VERB_TREE, SECURITY_TREE, SECURITY_TWIN] {
            store.prune(tree).await?;
        }
        store.open_snapshots(is_wreck).await?;
        if !is_wreck {
            store.open_journal().await?;
        }
        store.open_zones(opening).await?;
        if let Some(files) = store.get(SETTINGS_TREE, KEY_FILES).await?.and_then(|value| value.try_into().ok()) {
            store.files.store(i64::from_le_bytes(files), Ordering::Relaxed);
        }
        // Where a part of them cannot be read, nothing is counted until that is repaired.
        if let Some(quotas) = crate::scan::readable(store.range(QUOTA_TREE, b"", usize::MAX).await)? {
            quotas.iter().for_each(|(key, value)| store.ledger.load(key, value));
        }
        if store.has_feature(superblock::DESCRIPTORS) {
            store.open_descriptors().await?;
        }
        store.ledger.loaded(&store.descriptors.owners());
        let mut youngest = 0;
        for transaction in transactions {
            for Operation { tree, key, value } in &transaction.operations {
                if let (Some(_), Some(value)) = (keys::read_extent(*tree, key), value) {
                    youngest = Extent::decode(value).map_or(0, |extent| extent.birth).max(youngest);
                }
            }
            for Operation { key, value, .. } in transaction.operations.iter().filter(|done| done.tree == ZONE_TREE) {
                match value {
                    Some(value) => _ = store.open_zone(key, value)?,
                    None => store.close_zone(key),
                }
            }
            store.commit(&transaction, Need::Replayed).await?;
        }
        store.open_descriptors().await?;
        store.ledger.followed(store.descriptors.owners());
        if is_wreck {
            store.make_room_behind().await?;
        }
        if store.check_failed().is_ok() {
            store.settle_feature();
            store.mend_superblocks().await?;
            if held(&store.zones).count() == 0 {
                store.add_node_zone(Need::Sure).await?;
            }
            store.checkpoint().await?;
            // Where a newer root was lost, what is found is not to be younger than a snapshot that is made next.
            while store.checkpoint.lock().await.root.generation < youngest.min(root_generation + MOST_LOST) {
                store.checkpoint().await?;
            }
        }
        Ok((store, gap))
    }

    /// Takes over the snapshots that the root has, from either of the trees that have them.
    async fn open_snapshots(&self, is_wreck: bool) -> Result<(), VolumeError> {
        let root = self.checkpoint.lock().await.root.clone();
        let (own, twin) = (self.prune(SNAPSHOT_TREE).await?, self.prune(SETTINGS_TWIN).await?);
        let mut entries: BTreeMap<Vec<u8>, Vec<u8>> =
            self.range(SNAPSHOT_TREE, b"", usize::MAX).await?.into_iter().collect();
        let mut twins = BTreeMap::new();
        for (key, value) in self.range(SETTINGS_TWIN, snapshots::TWIN_PREFIX, usize::MAX).await? {
            if let Some(key) = key.strip_prefix(snapshots::TWIN_PREFIX) {
                twins.insert(key.to_vec(), value);
            }
        }
        let do_differ = entries != twins;
        for (key, value) in twins {
            entries.entry(key).or_insert(value);
        }
        let entries: Vec<_> = entries.into_iter().collect();
        let loaded = self.snapshots.load(&entries, root.generation, &root.trees);
        if own || twin || do_differ {
            self.snapshots.store_again();
        }
        let is_unsure = own && twin || loaded.is_err();
        if is_unsure && !is_wreck {
            let why = "what says which snapshots it has cannot be read: copy out what is left of it";
            self.refuse_changes(loaded.err().map_or(why.into(), |error| format!("{error}: {why}")));
            self.is_damaged.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A zone that nobody had anything of is nobody's.
    fn close_zone(&self, key: &[u8]) {
        if let Ok(zone) = key.try_into().map(u32::from_be_bytes) {
            self.retire_zone(zone);
        }
    }

    /// Has nodes be written behind the volume only.
    async fn make_room_behind(&self) -> Result<(), VolumeError> {
        let size = self.device.geometry().size_bytes / GROUP_BYTES * GROUP_BYTES;
        self.size_bytes.store(size, Ordering::Release);
        let before = held(&self.zones).numbers();
        before.iter().for_each(|zone| held(&self.zones).shut(*zone));
        while held(&self.zones).free_nodes() < self.cache.changed() + NODES_FOR_WRECK {
            if !self.add_node_zone(Need::Sure).await? {
                return Err(VolumeError::new(ErrorKind::NoSpace, "the repair needs more memory than it may take"));
            }
        }
        Ok(())
    }

    async fn open_zones(&self, opening: Opening) -> Result<(), VolumeError> {
        let root = self.checkpoint.lock().await.root.clone();
        let are_lost = self.prune(ZONE_TREE).await?;
        let mut unsure = BTreeSet::new();
        for (key, value) in self.range(ZONE_TREE, b"", usize::MAX).await? {
            let zone = self.open_zone(&key, &value)?;
            if value.first() == Some(&CLASS_NODES) && !self.open_bitmap(zone, root.generation).await {
                unsure.insert(zone);
            }
        }
        let proof = held(&self.zones).proof();
        if root.bitmaps.is_some_and(|right| right != proof) {
            // One that was not written may look right by itself.
            unsure.extend(held(&self.zones).numbers());
        }
        if are_lost {
            unsure.extend(self.find_zones(&root, opening).await?);
        }
        if !unsure.is_empty() {
            // A slot that cannot be read may be the one that counts: what the root uses is taken, whatever is left says.
            let used = self.used_by(&root, false).await;
            if !used.is_partial {
                unsure.iter().for_each(|zone| held(&self.zones).clear(*zone));
            }
            for address in used.nodes {
                held(&self.zones).correct(address, NODE_BLOCKS as u32, true);
            }
            if used.is_partial {
                // What stands below a node that is lost may be anywhere.
                unsure.iter().for_each(|zone| held(&self.zones).shut(*zone));
            }
        }
        // What a checkpoint that was cut short left in the other slots must not be taken for the next one's.
        held(&self.zones).renew();
        Ok(())
    }

    /// Takes over the bitmap of a zone of nodes; false if the one that counts may not be among what can be read.
    pub(crate) async fn open_bitmap(&self, zone: u32, generation: u64) -> bool {
        let (at, len) = held(&self.zones).slots(zone);
        // What cannot be read is as good as damaged.
        let slots = self.metadata.read_what_can_be(at, len).await;
        if held(&self.zones).open(zone, &slots, generation) {
            return true;
        }
        let whole = |slots: &IoBuf| held(&self.zones).open(zone, slots, generation).then_some(());
        if self.metadata.other(at, len, whole).await.is_some() {
            // The slot that does not count may have been being written; both are written anew.
            let is_damaged = !held(&self.zones).is_among(zone, &slots);
            self.mended.fetch_add(is_damaged.into(), Ordering::Relaxed);
            return true;
        }
        // The last copy that was looked at is not better than the first.
        held(&self.zones).open(zone, &slots, generation)
    }

    /// Takes over a zone as the tree of zones has it; answers its number.
    fn open_zone(&self, key: &[u8], value: &[u8]) -> Result<u32, VolumeError> {
        let wrong = |why: &str| VolumeError::corrupt(format!("volume {}: the tree of zones {why}", self.volume()));
        let zone = key.try_into().map(u32::from_be_bytes).map_err(|_| wrong("has a key that names none"))?;
        if zone >= self.superblock().zones() {
            return Err(wrong("names one beyond the volume"));
        }
        let (mut zones, mut rooms) = (held(&self.zones), held(&self.rooms));
        if zones.has(zone) || rooms.has(zone) {
            return Ok(zone);
        }
        match value.split_first() {
            Some((&CLASS_NODES, _)) => zones.add(zone),
            Some((&CLASS_DATA, stored)) => rooms.add(zone, Stored::decode(stored)?)?,
            _ => return Err(wrong("has a class that this version does not know")),
        }
        Ok(zone)
    }

    /// Has all superblocks be the one that counts.
    async fn mend_superblocks(&self) -> Result<(), VolumeError> {
        let right = self.superblock().seal();
        for at in self.superblock().groups() {
            let found = self.device.read(at, IoBuf::new(BLOCK_BYTES as usize)).await;
            if found.as_ref().is_ok_and(|found| found[..] == right[..]) {
                continue;
            }
            self.device.write(at, right.clone(), Durability::Durable).await?;
            // One of an earlier version is none that was damaged.
            let features = self.superblock().features;
            let earlier = |found: Superblock| Superblock { features, ..found } == self.superblock();
            let was_earlier =
                found.is_ok_and(|found| Superblock::open(&found).is_ok_and(|found| found.is_some_and(earlier)));
            self.mended.fetch_add(u64::from(!was_earlier), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Ends all changes because of what opening found.
    fn refuse_changes(&self, why: impl Into<String>) {
        let _ = self.failed.set(why.into());
    }
}

/// The features of the second kind of a volume that this version takes into use.
fn features_of(superblock: &Superblock) -> u64 {
    let [_, read_only, _] = superblock.features;
    if superblock.is_read_only() { read_only } else { read_only | superblock::SNAPSHOTS }
}

/// The superblock that counts, if there is one.
async fn find_superblock(media: &Media) -> Result<Option<Superblock>, VolumeError> {
    let size = media.device.geometry().size_bytes / GROUP_BYTES * GROUP_BYTES;
    let mut refused = None;
    // The second group is behind the log, whose length only a superblock says.
    let behind = (superblock::LEAST_LOG_BYTES..=superblock::MOST_LOG_BYTES).step_by(GROUP_BYTES as usize);
    let second = behind.map(|log| (log + GROUP_BYTES, Some(log)));
    let first = [(0, None), (size.saturating_sub(GROUP_BYTES), None)];
    for (at, log) in first.into_iter().chain(second) {
        let mut later = None;
        let found = media.read(at, BLOCK_BYTES as usize, |block| match Superblock::open(block) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err("there is none"),
            Err(error) => {
                later = Some(error);
                Err("it is refused")
            }
        });
        match found.await {
            Ok((found, _)) if log.is_some_and(|log| log != found.log_bytes) => {}
            Ok((found, _)) if found.size_bytes <= size => {
                // At another size the second is written before the first, and the one at the end of an earlier size may
                // still be there.
                let second = if at == 0 { None } else { superblock_at(media, found.groups()[1]).await };
                let second = second.filter(|second| second.volume == found.volume && second.size_bytes <= size);
                return Ok(Some(second.unwrap_or(found)));
            }
            Ok((found, _)) => {
                let text = format!(
                    "volume {} needs {}, and the device has {}",
                    found.volume,
                    ByteSize(found.size_bytes),
                    ByteSize(size)
                );
                refused = Some(VolumeError::new(ErrorKind::Format, text));
            }
            Err(_) => refused = later.or(refused),
        }
    }
    refused.map_or(Ok(None), Err)
}

/// Adds to a superblock the features of all three: one of them may be as it was before a feature came, where its disk
/// lost a write that it answered.
async fn with_all_features(media: &Media, found: Superblock) -> Superblock {
    let mut all = found;
    for at in found.groups() {
        let is_same = |other: &Superblock| Superblock { features: found.features, ..*other } == found;
        if let Some(other) = superblock_at(media, at).await.filter(is_same) {
            all.features[1] |= other.features[1];
        }
    }
    all
}

async fn superblock_at(media: &Media, at: u64) -> Option<Superblock> {
    let open = |block: &IoBuf| Superblock::open(block).ok().flatten().ok_or("there is none");
    media.read(at, BLOCK_BYTES as usize, open).await.ok().map(|(found, _)| found)
}

async fn find_root(media: &Media, superblock: &Superblock) -> Result<Root, VolumeError> {
    let mut newest: Option<Root> = None;
    for at in superblock.groups() {
        // Each copy has its say: what is right in none of them counts nowhere.
        let consider = |slots: &IoBuf| {
            for slot in [1, 2] {
                let root = Root::open(superblock.volume, &slots[slot * BLOCK_BYTES as usize..]);
                let is_newer = |root: &Root| newest.as_ref().is_none_or(|best| best.generation < root.generation);
                if let Some(root) = root.filter(is_newer) {
                    newest = Some(root);
                }
            }
            Err::<(), _>("all copies are looked at")
        };
        let _ = media.read(at, GROUP_HEAD, consider).await;
    }
    newest.ok_or_else(|| {
        let text = format!("volume {}: no root is whole: copy out what is left of it", superblock.volume);
        VolumeError::corrupt(text)
    })
}
