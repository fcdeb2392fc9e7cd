//! A volume made, and opened: the newest root, its zones, and what the log has beyond it.
//!
//! Invariant: opening ends with a checkpoint, so that nothing of an earlier opening is needed any more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use holdfast_device::{Device, Durability, IoBuf};
use holdfast_model::{BLOCK_BYTES, ByteSize};

use crate::cache::NodeCache;
use crate::change::Need;
use crate::checkpoint::Checkpoint;
use crate::error::{ErrorKind, VolumeError};
use crate::flush::DataFlush;
use crate::log::Log;
use crate::page::NodeRef;
use crate::rooms::{Rooms, Stored};
use crate::store::{CLASS_DATA, CLASS_NODES, Format, Settings, Store, held};
use crate::superblock::{self, GROUP_BYTES, LogStart, Root, Superblock};
use crate::transaction::Operation;
use crate::tree::Tree;
use crate::zones::{NODE_BLOCKS, Zones};
use crate::{KEY_FILES, SETTINGS_TREE, TREES, ZONE_TREE};

impl Store {
    /// Makes an empty volume of a device. What it held is lost.
    ///
    /// # Errors
    /// The device is too small, or failed.
    pub async fn format(device: &Arc<dyn Device>, format: Format) -> Result<(), VolumeError> {
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
        let log_bytes =
            log_bytes.clamp(superblock::LEAST_LOG_BYTES, superblock::MOST_LOG_BYTES) / GROUP_BYTES * GROUP_BYTES;
        let zone_bytes = (size_bytes / 64).next_power_of_two();
        let zone_bytes = zone_bytes.clamp(superblock::LEAST_ZONE_BYTES, superblock::MOST_ZONE_BYTES);
        let superblock = Superblock { volume: format.volume, size_bytes, log_bytes, zone_bytes, features: [0; 3] };
        for at in superblock.groups() {
            device.write(at, IoBuf::zeroed(GROUP_BYTES as usize).freeze(), Durability::Cached).await?;
        }
        device.flush().await?;
        let log = LogStart { sequence: 0, previous: 0, applied: 0 };
        let root = Root { generation: 1, epoch: 1, log, trees: Vec::new() };
        for at in superblock.groups() {
            device.write(at + root.slot(), root.seal(format.volume), Durability::Durable).await?;
        }
        for at in superblock.groups() {
            device.write(at, superblock.seal(), Durability::Durable).await?;
        }
        Ok(())
    }

    /// Opens the volume of a device: the trees of its newest root, and what the log has beyond them.
    ///
    /// # Errors
    /// There is no volume, one of a later version, or one whose superblocks or roots are all damaged.
    pub async fn open(device: Arc<dyn Device>, settings: Settings) -> Result<Self, VolumeError> {
        let superblock = find_superblock(&*device).await?;
        let root = find_root(&*device, &superblock).await?;
        let epoch = root.epoch + 1;
        let data = Arc::new(DataFlush::new(device.clone()));
        let old = Log::new(device.clone(), data.clone(), &superblock, root.epoch, root.log);
        let (transactions, end) = old.replay(root.epoch, root.log).await?;
        let start = LogStart { applied: root.log.applied, ..end };
        let recovered = end.applied;
        let by_number: BTreeMap<u8, NodeRef> = root.trees.iter().copied().collect();
        let store = Self {
            trees: (0..TREES).map(|number| Mutex::new(Tree::new(number, by_number.get(&number).copied()))).collect(),
            cache: NodeCache::new(settings.cache_bytes),
            log: Log::new(device.clone(), data.clone(), &superblock, epoch, start),
            zones: Mutex::new(Zones::new(&superblock)),
            rooms: Mutex::new(Rooms::new(&superblock)),
            data,
            checkpoint: tokio::sync::Mutex::new(Checkpoint { root: Root { epoch, ..root } }),
            reserved: AtomicUsize::new(0),
            recovered,
            files: AtomicI64::new(0),
            interrupted: AtomicBool::new(false),
            failed: OnceLock::new(),
            device,
            size_bytes: AtomicU64::new(superblock.size_bytes),
            format: superblock,
            settings,
        };
        store.open_zones().await?;
        if let Some(files) = store.get(SETTINGS_TREE, KEY_FILES).await?.and_then(|value| value.try_into().ok()) {
            store.files.store(i64::from_le_bytes(files), Ordering::Relaxed);
        }
        for transaction in transactions {
            for Operation { key, value, .. } in transaction.operations.iter().filter(|done| done.tree == ZONE_TREE) {
                store.open_zone(key, value.as_deref().unwrap_or_default())?;
            }
            store.commit(&transaction, Need::Sure).await?;
        }
        if held(&store.zones).count() == 0 {
            store.add_node_zone(Need::Sure).await?;
        }
        store.checkpoint().await?;
        Ok(store)
    }

    async fn open_zones(&self) -> Result<(), VolumeError> {
        let root = self.checkpoint.lock().await.root.clone();
        let mut are_sure = true;
        for (key, value) in self.range(ZONE_TREE, b"", usize::MAX).await? {
            let zone = self.open_zone(&key, &value)?;
            if value.first() == Some(&CLASS_NODES) {
                let (at, len) = held(&self.zones).slots(zone);
                // What cannot be read is as good as damaged.
                let slots = self.device.read(at, IoBuf::new(len)).await.unwrap_or_else(|_| IoBuf::zeroed(len));
                are_sure &= held(&self.zones).open(zone, &slots, root.generation);
            }
        }
        if !are_sure {
            // A slot that cannot be read may be the one that counts: what the root uses is taken, whatever is left says.
            for address in self.places_of(&root).await {
                held(&self.zones).correct(address, NODE_BLOCKS as u32, true);
            }
        }
        // What a checkpoint that was cut short left in the other slots must not be taken for the next one's.
        held(&self.zones).renew();
        Ok(())
    }

    /// Where all nodes of a root stand, but for those below damaged ones.
    async fn places_of(&self, root: &Root) -> Vec<u64> {
        let mut waiting: Vec<(NodeRef, bool)> = root.trees.iter().map(|(_, node)| (*node, false)).collect();
        let mut places = Vec::new();
        while let Some((node, is_leaf)) = waiting.pop() {
            if self.zone_of(node.address).is_some() {
                places.push(node.address);
            }
            if is_leaf {
                continue;
            }
            if let Ok(page) = self.read_node(node).await.map(|page| (page.level() > 0).then_some(page))
                && let Some(page) = page
            {
                waiting.extend((0..page.count()).map(|index| (page.child(index), page.level() == 1)));
            }
        }
        places
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
}

async fn find_superblock(device: &dyn Device) -> Result<Superblock, VolumeError> {
    let size = device.geometry().size_bytes / GROUP_BYTES * GROUP_BYTES;
    let mut refused = VolumeError::new(ErrorKind::Format, "the device holds no volume: make one on it first");
    for at in [0, size.saturating_sub(GROUP_BYTES)] {
        let block = device.read(at, IoBuf::new(BLOCK_BYTES as usize)).await;
        match block.map_err(VolumeError::from).and_then(|block| Superblock::open(&block)) {
            Ok(Some(found)) if found.size_bytes <= size => return Ok(found),
            Ok(Some(found)) => {
                let text = format!(
                    "volume {} needs {}, and the device has {}",
                    found.volume,
                    ByteSize(found.size_bytes),
                    ByteSize(size)
                );
                refused = VolumeError::new(ErrorKind::Format, text);
            }
            Ok(None) => {}
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

async fn find_root(device: &dyn Device, superblock: &Superblock) -> Result<Root, VolumeError> {
    let mut newest: Option<Root> = None;
    for at in superblock.groups() {
        let Ok(slots) = device.read(at, IoBuf::new(3 * BLOCK_BYTES as usize)).await else { continue };
        for slot in [1, 2] {
            let root = Root::open(superblock.volume, &slots[slot * BLOCK_BYTES as usize..]);
            if let Some(root) = root.filter(|root| newest.as_ref().is_none_or(|best| best.generation < root.generation))
            {
                newest = Some(root);
            }
        }
    }
    newest.ok_or_else(|| VolumeError::corrupt(format!("volume {}: no root is whole", superblock.volume)))
}
