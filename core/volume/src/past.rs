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
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crate::capture::no_snapshot;
use crate::error::{ErrorKind, VolumeError};
use crate::flush::DataFlush;
use crate::log::Log;
use crate::open_files::{Handle, Use};
use crate::page::NodeRef;
use crate::service::{FileId, OpenMode};
use crate::snapshots::Snapshot;
use crate::store::{Settings, Store, held};
use crate::superblock::{LogStart, Root};
use crate::volume::Volume;

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
        self.view(&self.snapshot(name)?)
    }

    /// The same of one that is known.
    pub(crate) fn view(&self, snapshot: &Snapshot) -> Result<Arc<Volume>, VolumeError> {
        let none = || no_snapshot(&snapshot.name);
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

    /// Keeps a snapshot, whose view this is, from being destroyed until the answer is closed.
    pub(crate) fn hold(&self, id: FileId) -> Result<Handle, VolumeError> {
        let file = self.open.enter(id, Use::Handle);
        // Whoever destroys it looks for uses behind that.
        if let Err(ended) = self.store.check_ended() {
            self.open.leave(&file, Use::Handle);
            return Err(ended);
        }
        let mode = OpenMode { read: false, write: false, truncate: false };
        Ok(Handle { file, mode, is_unbuffered: false })
    }

    /// Has nobody read a snapshot any more, until what is answered is dropped: it was destroyed then, or could not be.
    pub(crate) fn end_view(&self, generation: u64) -> Result<Ending<'_>, VolumeError> {
        let mut views = held(&self.views);
        let Some(view) = views.known.get(&generation) else {
            views.ending.insert(generation);
            return Ok(Ending { volume: self, generation });
        };
        view.store.ended.store(true, Ordering::SeqCst);
        if view.open.are_used() {
            view.store.ended.store(false, Ordering::SeqCst);
            return Err(VolumeError::new(
                ErrorKind::Busy,
                "files or directories of the snapshot are open: close them first",
            ));
        }
        views.known.remove(&generation);
        views.ending.insert(generation);
        Ok(Ending { volume: self, generation })
    }
}

/// While this is there, a snapshot is being destroyed.
pub(crate) struct Ending<'a> {
    volume: &'a Volume,
    generation: u64,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        held(&self.volume.views).ending.remove(&self.generation);
    }
}

impl Store {
    /// The trees of a snapshot, as a store that takes no changes.
    fn frozen(&self, generation: u64, roots: &[(u8, NodeRef)], name: &str) -> Result<Store, VolumeError> {
        let superblock = self.superblock();
        let data = Arc::new(DataFlush::new(self.media.device.clone()));
        let start = LogStart { sequence: 0, previous: 0, applied: 0 };
        let log = Log::new(self.media.clone(), data.clone(), &superblock, 0, (start, 0));
        let root = Root { generation, epoch: 0, log: start, is_marked: false, bitmaps: None, trees: roots.to_vec() };
        let settings = Settings { cache_bytes: CACHE_BYTES, changed_bytes: 0, delayed_bytes: 0 };
        let store = Store {
            failed: OnceLock::from(format!("it is snapshot {name:?}")),
            first_zone: superblock.zones(),
            format: self.format,
            descriptors: self.descriptors.clone(),
            checks: self.checks.clone(),
            snapshot: Some(generation),
            ..Store::on(self.media.clone(), &superblock, root, (log, data), settings)
        };
        for (zone, stored) in held(&self.rooms).all_stored() {
            held(&store.rooms).add(zone, stored)?;
        }
        Ok(store)
    }

    /// Refuses to look at what is there no more.
    pub(crate) fn check_ended(&self) -> Result<(), VolumeError> {
        if self.ended.load(Ordering::SeqCst) {
            return Err(VolumeError::new(ErrorKind::Stale, "the snapshot was destroyed"));
        }
        Ok(())
    }
}
