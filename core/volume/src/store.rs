//! The store of trees: transactions over them, lookups and ranges.
//!
//! A transaction is applied to the trees in memory, under the locks of those that it touches, and gets its number in the
//! log under the same locks. Those locks are held for work in memory only; a node that is missing is read without them,
//! and the operation is tried again.
//!
//! Order of locks: trees in ascending order, then zones, cache or pending; the log's lane is taken before any of them.
//!
//! Invariant: a transaction is in all its trees or in none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use holdfast_device::{Device, Durability, IoBuf, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, Uuid};

use crate::cache::NodeCache;
use crate::checkpoint::Checkpoint;
use crate::error::{ErrorKind, VolumeError};
use crate::log::{Log, Synced};
use crate::page::{NodeRef, PAGE_BYTES, Page};
use crate::superblock::{self, GROUP_BYTES, LogStart, Root, Superblock};
use crate::tree::{Missing, Tree};
use crate::zones::Zones;
use crate::{MAX_KEY_BYTES, MAX_VALUE_BYTES, TREES, ZONE_TREE};

/// Operations of a transaction, at most.
const MOST_OPERATIONS: usize = 64;
/// Nodes that one operation may change, beside those that are changed already: a way of six nodes, each cut in two.
const NODES_OF_OPERATION: usize = 12;
/// Operations that room is kept for, so that what gives room back always finds some.
const KEPT_OPERATIONS: usize = 8;
/// Classes of zones, as the tree of zones has them.
const CLASS_NODES: u8 = 1;

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
}

impl Default for Settings {
    fn default() -> Self {
        Self { cache_bytes: 128 << 20, changed_bytes: 128 << 20 }
    }
}

/// One change of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub tree: u8,
    pub key: Vec<u8>,
    /// `None` takes the key out.
    pub value: Option<Vec<u8>>,
}

impl Operation {
    pub fn check(&self) -> Result<(), VolumeError> {
        let refuse = |why: String| Err(VolumeError::new(ErrorKind::Invalid, why));
        let value = self.value.as_ref().map_or(0, Vec::len);
        if self.tree >= TREES {
            return refuse(format!("there is no tree {}", self.tree));
        }
        if self.key.is_empty() || self.key.len() > MAX_KEY_BYTES || value > MAX_VALUE_BYTES {
            return refuse(format!("an entry of {} and {value} bytes is too large, or has no key", self.key.len()));
        }
        Ok(())
    }
}

/// Changes that are made together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub(crate) operations: Vec<Operation>,
}

impl Transaction {
    /// One without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a value in, in place of the one that the key has.
    pub fn put(&mut self, tree: u8, key: &[u8], value: &[u8]) -> &mut Self {
        self.operations.push(Operation { tree, key: key.into(), value: Some(value.into()) });
        self
    }

    /// Takes a key out, if it is there.
    pub fn remove(&mut self, tree: u8, key: &[u8]) -> &mut Self {
        self.operations.push(Operation { tree, key: key.into(), value: None });
        self
    }

    fn check(&self) -> Result<(), VolumeError> {
        if self.operations.len() > MOST_OPERATIONS {
            let text = format!("a transaction of {} operations; {MOST_OPERATIONS} at most", self.operations.len());
            return Err(VolumeError::new(ErrorKind::Invalid, text));
        }
        self.operations.iter().try_for_each(Operation::check)
    }
}

/// An open store.
pub struct Store {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) superblock: Superblock,
    pub(crate) trees: Vec<Mutex<Tree>>,
    pub(crate) cache: NodeCache,
    pub(crate) log: Log,
    pub(crate) zones: Mutex<Zones>,
    /// Held by the one checkpoint that is under way.
    pub(crate) checkpoint: tokio::sync::Mutex<Checkpoint>,
    /// Nodes of a checkpoint under way that have no room yet.
    pub(crate) reserved: AtomicUsize,
    /// Why nothing is changed any more.
    pub(crate) failed: OnceLock<String>,
    settings: Settings,
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
        let Superblock { volume, log_bytes, .. } = superblock;
        let epoch = root.epoch + 1;
        let old = Log::new(device.clone(), volume, superblock.log_at(), log_bytes, root.epoch, root.log);
        let (transactions, end) = old.replay(root.epoch, root.log).await?;
        let start = LogStart { applied: root.log.applied, ..end };
        let by_number: BTreeMap<u8, NodeRef> = root.trees.iter().copied().collect();
        let store = Self {
            trees: (0..TREES).map(|number| Mutex::new(Tree::new(number, by_number.get(&number).copied()))).collect(),
            cache: NodeCache::new(settings.cache_bytes),
            log: Log::new(device.clone(), volume, superblock.log_at(), log_bytes, epoch, start),
            zones: Mutex::new(Zones::new(&superblock)),
            checkpoint: tokio::sync::Mutex::new(Checkpoint { root: Root { epoch, ..root } }),
            reserved: AtomicUsize::new(0),
            failed: OnceLock::new(),
            device,
            superblock,
            settings,
        };
        store.open_zones().await?;
        for transaction in transactions {
            for Operation { tree, key, .. } in transaction.operations.iter().filter(|change| change.tree == ZONE_TREE) {
                debug_assert_eq!(*tree, ZONE_TREE);
                let zone = zone_of(key)?;
                if !held(&store.zones).has(zone) {
                    held(&store.zones).add(zone);
                }
            }
            store.apply_now(&transaction).await?;
        }
        store.checkpoint().await?;
        Ok(store)
    }

    async fn open_zones(&self) -> Result<(), VolumeError> {
        let generation = self.checkpoint.lock().await.root.generation;
        for (key, _) in self.range(ZONE_TREE, b"", usize::MAX).await? {
            let zone = zone_of(&key)?;
            if zone >= self.superblock.zones() {
                return Err(VolumeError::corrupt(format!("zone {zone} of volume {} lies beyond it", self.volume())));
            }
            let (at, len) = held(&self.zones).slots(zone);
            let slots = self.device.read(at, IoBuf::new(len)).await?;
            held(&self.zones).open(zone, &slots, generation)?;
        }
        // What a checkpoint that was cut short left in the other slots must not be taken for the next one's.
        held(&self.zones).renew();
        Ok(())
    }

    /// The volume's id.
    pub fn volume(&self) -> Uuid {
        self.superblock.volume
    }

    /// The value of a key.
    ///
    /// # Errors
    /// A node on the way is damaged, or the device failed.
    pub async fn get(&self, tree: u8, key: &[u8]) -> Result<Option<Vec<u8>>, VolumeError> {
        let tree = &self.trees[usize::from(tree)];
        self.with_nodes(|_| held(tree).get(key, &self.cache)).await
    }

    /// Entries from a key on, in ascending order, `most` of them at most.
    ///
    /// # Errors
    /// A node on the way is damaged, or the device failed.
    pub async fn range(&self, tree: u8, from: &[u8], most: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, VolumeError> {
        let tree = &self.trees[usize::from(tree)];
        let (mut found, mut next) = (Vec::new(), Some(from.to_vec()));
        while let Some(from) = next.take().filter(|_| found.len() < most) {
            let (entries, then) = self.with_nodes(|_| held(tree).entries_from(&from, &self.cache)).await?;
            let room = most - found.len();
            found.extend(entries.into_iter().take(room));
            next = then;
        }
        Ok(found)
    }

    /// Makes changes. They are in the trees, and in the log's order, when this is answered; durable after [`Store::sync`].
    ///
    /// # Errors
    /// The changes are not valid, there is no room, a node is damaged, or an earlier failure ended all changes. Nothing
    /// was changed then.
    pub async fn apply(&self, transaction: &Transaction) -> Result<u64, VolumeError> {
        transaction.check()?;
        self.check_failed()?;
        if self.cache.changed() * PAGE_BYTES > self.settings.changed_bytes || self.log.is_half_full() {
            self.checkpoint().await?;
        }
        self.make_room(transaction).await?;
        self.apply_now(transaction).await
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
        let mut node = *root;
        loop {
            let page = self.read_node(node).await?;
            if page.level() == 0 {
                return Ok(page.find(key).is_ok().then_some(node.address));
            }
            node = page.child(page.child_of(key));
        }
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
                Ok(Synced::Full) => self.checkpoint().await?,
                Err(error) => return Err(self.fail(error)),
            }
        }
    }

    async fn apply_now(&self, transaction: &Transaction) -> Result<u64, VolumeError> {
        let numbers: Vec<u8> = {
            let mut numbers: Vec<u8> = transaction.operations.iter().map(|operation| operation.tree).collect();
            numbers.sort_unstable();
            numbers.dedup();
            numbers
        };
        self.with_nodes(|pins| {
            let mut trees: Vec<_> = numbers.iter().map(|number| held(&self.trees[usize::from(*number)])).collect();
            let tree = |number: u8| numbers.binary_search(&number).expect("it is among them");
            for Operation { tree: number, key, .. } in &transaction.operations {
                trees[tree(*number)].ready(key, &self.cache, pins)?;
            }
            for Operation { tree: number, key, value } in &transaction.operations {
                let tree = &mut trees[tree(*number)];
                let done = match value {
                    Some(value) => tree.put(key, value, &self.cache),
                    None => tree.remove(key, &self.cache).map(drop),
                };
                done.expect("all that it needs is in memory, and kept there");
            }
            Ok(self.log.append(transaction))
        })
        .await
    }

    /// Does something with nodes, which are read as it misses them.
    async fn with_nodes<T>(
        &self,
        mut attempt: impl FnMut(&mut Vec<Arc<Page>>) -> Result<T, Missing>,
    ) -> Result<T, VolumeError> {
        let mut pins = Vec::new();
        let mut wrong: Option<(NodeRef, VolumeError)> = None;
        loop {
            let missing = match attempt(&mut pins) {
                Ok(done) => return Ok(done),
                Err(Missing(node)) => node,
            };
            if let Some((node, error)) = wrong.take()
                && node == missing
            {
                return Err(error);
            }
            match self.load(missing).await {
                Ok(page) => pins.push(page),
                // Its place may have been given to another node meanwhile: then it is not asked for again.
                Err(error) => wrong = Some((missing, error)),
            }
        }
    }

    /// Reads a node.
    pub(crate) async fn load(&self, node: NodeRef) -> Result<Arc<Page>, VolumeError> {
        let page = Arc::new(self.read_node(node).await?);
        self.cache.keep(node, page.clone());
        Ok(page)
    }

    /// Reads a node past the cache.
    pub(crate) async fn read_node(&self, node: NodeRef) -> Result<Page, VolumeError> {
        let NodeRef { address, generation, crc } = node;
        let buf = self.device.read(address, IoBuf::new(PAGE_BYTES)).await?;
        let why = match Page::open(self.volume(), address, &buf) {
            Ok((page, found)) if (page.generation(), found) == (generation, crc) => return Ok(page),
            Ok(_) => "it is another version than its parent names",
            Err(why) => why,
        };
        Err(VolumeError::corrupt(format!("node at {address} of volume {}: {why}", self.volume())))
    }

    /// Sees to it that a checkpoint finds room for what a transaction changes.
    async fn make_room(&self, transaction: &Transaction) -> Result<(), VolumeError> {
        let grows = transaction.operations.iter().any(|operation| operation.value.is_some());
        let mut tried = false;
        loop {
            let (free, zones) = {
                let zones = held(&self.zones);
                (zones.free_nodes(), zones.count())
            };
            let nodes_of_zone = (self.superblock.zone_bytes as usize) / PAGE_BYTES;
            // Whoever gives room back may use what others may not.
            let kept = if grows { KEPT_OPERATIONS * NODES_OF_OPERATION + zones * nodes_of_zone / 100 } else { 0 };
            let own = transaction.operations.len() * NODES_OF_OPERATION;
            let needed = self.cache.changed() + self.reserved.load(Ordering::Acquire) + own + kept;
            if free >= needed || self.add_zone().await? {
                if free >= needed {
                    return Ok(());
                }
                continue;
            }
            if tried {
                let text = format!("volume {} is full: remove files, or let it grow", self.volume());
                return Err(VolumeError::new(ErrorKind::NoSpace, text));
            }
            tried = true;
            self.checkpoint().await?;
        }
    }

    /// Takes one more zone for nodes; false where none is left.
    async fn add_zone(&self) -> Result<bool, VolumeError> {
        // A cut between the two would know the zone by one of them only.
        let _no_cut = self.checkpoint.lock().await;
        let zone = {
            let mut zones = held(&self.zones);
            let Some(zone) = (0..self.superblock.zones()).find(|zone| !zones.has(*zone)) else { return Ok(false) };
            zones.add(zone);
            zone
        };
        let mut transaction = Transaction::new();
        transaction.put(ZONE_TREE, &zone.to_be_bytes(), &[CLASS_NODES]);
        self.apply_now(&transaction).await?;
        Ok(true)
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

    pub(crate) async fn write(&self, at: u64, data: IoSlice) -> Result<(), VolumeError> {
        Ok(self.device.write(at, data, Durability::Cached).await?)
    }
}

fn zone_of(key: &[u8]) -> Result<u32, VolumeError> {
    let wrong = |_| VolumeError::corrupt("the tree of zones has a key that names none");
    key.try_into().map(u32::from_be_bytes).map_err(wrong)
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
