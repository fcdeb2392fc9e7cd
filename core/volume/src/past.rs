//! A snapshot read as a volume of its own, that takes no changes.
//!
//! ```text
//!   volume ── the same device ── view: trees from the roots of the snapshot, a cache of its own
//! ```
//!
//! Nothing that a snapshot has changes on the device, so a view needs nothing of the volume but that the snapshot stays.
//!
//! Invariant: a view answers by what its snapshot has, or with an error: none is read of whose snapshot is destroyed, and
//! none is destroyed of which a file is open.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::TREES;
use crate::cache::NodeCache;
use crate::checkpoint::Checkpoint;
use crate::error::{ErrorKind, VolumeError};
use crate::flush::DataFlush;
use crate::log::Log;
use crate::page::NodeRef;
use crate::quota::Ledger;
use crate::rooms::Rooms;
use crate::snapshots::{Snapshot, Snapshots};
use crate::store::{Settings, Store, held};
use crate::superblock::{LogStart, Root};
use crate::tree::Tree;
use crate::volume::Volume;
use crate::zones::Zones;

/// Bytes of nodes that a view keeps in memory.
const CACHE_BYTES: usize = 8 << 20;

/// Views that are kept although nobody reads by them, at most.
const MOST_VIEWS: usize = 16;

/// Snapshots that are read, by their checkpoints.
#[derive(Default)]
pub(crate) struct Views {
    known: HashMap<u64, Arc<Volume>>,
    /// Those that are being destroyed.
    ending: HashSet<u64>,
}

impl Volume {
    /// A snapshot as a volume that takes no changes. It is to be asked for again when it answers
    /// [`ErrorKind::Stale`] of its root: the snapshot was destroyed then.
    ///
    /// # Errors
    /// There is no snapshot of that name.
    pub fn open_snapshot(&self, name: &str) -> Result<Arc<Volume>, VolumeError> {
        let known = self.snapshots().into_iter().find(|known| known.name == name);
        let none = || VolumeError::new(ErrorKind::NotFound, format!("there is no snapshot {name:?}"));
        let snapshot = known.ok_or_else(none)?;
        let mut views = held(&self.views);
        if views.ending.contains(&snapshot.generation) {
            return Err(none());
        }
        if let Some(view) = views.known.get(&snapshot.generation) {
            return Ok(view.clone());
        }
        if views.known.len() >= MOST_VIEWS {
            // Whoever still holds one of these has it made again, but for open files.
            views.known.retain(|_, view| view.open.are_used() || Arc::strong_count(view) > 1);
        }
        let roots = self.store.snapshots.roots().into_iter().find(|(of, _)| *of == snapshot.generation);
        let (_, roots) = roots.ok_or_else(none)?;
        let store = self.store.frozen(snapshot.generation, &roots, &snapshot.name)?;
        store.files.store(snapshot.files as i64, Ordering::Relaxed);
        let view = Arc::new(self.view_of(store));
        views.known.insert(snapshot.generation, view.clone());
        Ok(view)
    }

    /// The snapshot that has a number.
    pub(crate) fn snapshot_of_number(&self, number: u16) -> Option<Snapshot> {
        self.store.snapshots.of_number(number)
    }

    /// Grows whenever there are other snapshots than before, but for over a crash.
    pub(crate) fn snapshot_changes(&self) -> u64 {
        self.store.snapshots.changes()
    }

    /// Has nobody read a snapshot any more.
    pub(crate) fn end_view(&self, generation: u64) -> Result<(), VolumeError> {
        let mut views = held(&self.views);
        views.ending.insert(generation);
        let Some(view) = views.known.get(&generation) else { return Ok(()) };
        view.store.ended.store(true, Ordering::SeqCst);
        if view.open.are_used() {
            view.store.ended.store(false, Ordering::SeqCst);
            views.ending.remove(&generation);
            return Err(VolumeError::new(ErrorKind::Busy, "files of the snapshot are open: close them first"));
        }
        views.known.remove(&generation);
        Ok(())
    }

    /// A snapshot was destroyed, or could not be.
    pub(crate) fn forget_view(&self, generation: u64) {
        held(&self.views).ending.remove(&generation);
    }
}

impl Store {
    /// The trees of a snapshot, as a store that takes no changes.
    fn frozen(&self, generation: u64, roots: &[(u8, NodeRef)], name: &str) -> Result<Store, VolumeError> {
        let superblock = self.superblock();
        let mut rooms = Rooms::new(&superblock);
        for (zone, stored) in held(&self.rooms).all_stored() {
            rooms.add(zone, stored)?;
        }
        let data = Arc::new(DataFlush::new(self.media.device.clone()));
        let log = LogStart { sequence: 0, previous: 0, applied: 0 };
        let root = Root { generation, epoch: 0, log, is_marked: false, bitmaps: None, trees: roots.to_vec() };
        let of = |number| roots.iter().find(|(tree, _)| *tree == number).map(|(_, root)| *root);
        Ok(Store {
            trees: (0..TREES).map(|number| Mutex::new(Tree::new(number, of(number)))).collect(),
            cache: NodeCache::new(CACHE_BYTES),
            log: Log::new(self.media.clone(), data.clone(), &superblock, 0, (log, 0)),
            zones: Mutex::new(Zones::new(&superblock)),
            rooms: Mutex::new(rooms),
            data,
            checkpoint: tokio::sync::Mutex::new(Checkpoint { root }),
            reserved: AtomicUsize::new(0),
            promised: AtomicUsize::new(0),
            recovered: 0,
            files: AtomicI64::new(0),
            ledger: Ledger::default(),
            snapshots: Snapshots::default(),
            interrupted: AtomicBool::new(false),
            failed: OnceLock::from(format!("it is snapshot {name:?}")),
            turning: tokio::sync::Mutex::new(()),
            ended: AtomicBool::new(false),
            left_out: Mutex::default(),
            mended: AtomicU64::new(0),
            is_damaged: AtomicBool::new(false),
            first_zone: superblock.zones(),
            device: self.device.clone(),
            media: self.media.clone(),
            size_bytes: AtomicU64::new(superblock.size_bytes),
            line: AtomicU32::new(u32::MAX),
            format: self.format,
            settings: Settings { cache_bytes: CACHE_BYTES, changed_bytes: 0, delayed_bytes: 0 },
        })
    }

    /// Refuses to look at what is there no more.
    pub(crate) fn check_ended(&self) -> Result<(), VolumeError> {
        if self.ended.load(Ordering::SeqCst) {
            return Err(VolumeError::new(ErrorKind::Stale, "the snapshot was destroyed"));
        }
        Ok(())
    }
}
