//! Snapshots made and removed.
//!
//! ```text
//!   create    no data waits any more ─▶ checkpoint, which is the snapshot ─▶ writes that were under way in place are
//!             over ─▶ another, which has its roots, and makes them durable
//!   remove    nodes that only it has (own_nodes.rs) ─▶ checkpoint without it and them ─▶ another
//!             ─▶ later: blocks that no snapshot has any more are freed (reclaim.rs)
//! ```
//!
//! Two checkpoints, because the root before the newest one counts where that is lost. Others go on while what only the
//! snapshot has is looked for, however long that takes.
//!
//! Invariants: a snapshot has all that was answered before it was asked for, and what was asked for after it was answered
//! is not in it. Whenever power fails, one that was being made or removed is there as a whole, or not at all.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;

use crate::TREES;
use crate::change::{Need, View};
use crate::error::{ErrorKind, VolumeError};
use crate::page::Page;
use crate::scan::give_way;
use crate::snapshots::{Coming, MOST_NAME_BYTES, MOST_SNAPSHOTS, Snapshot};
use crate::store::Store;
use crate::volume::Volume;

/// Nodes that a checkpoint may change to have a snapshot, beside those that changed already, and to have one no more.
const NODES_TO_CREATE: usize = 128;
const NODES_TO_REMOVE: usize = 16;
/// Times that data which waits is written back before a snapshot, at most: others may go on writing.
const ROUNDS: usize = 64;

/// What cannot be the name of a snapshot, in words.
fn check_name(name: &str) -> Result<(), VolumeError> {
    let refuse = |kind, text: String| Err(VolumeError::new(kind, text));
    if name.len() > MOST_NAME_BYTES {
        return refuse(ErrorKind::NameTooLong, format!("the name of a snapshot has {MOST_NAME_BYTES} bytes at most"));
    }
    let is_strange = |one: char| one.is_control() || one == '/' || one == '@';
    if name.is_empty() || name == "." || name == ".." || name.chars().any(is_strange) {
        let text = format!(
            "{name:?} is no name for a snapshot: it is not empty, not . or .., and has no /, @ or control character"
        );
        return refuse(ErrorKind::Invalid, text);
    }
    Ok(())
}

/// There is no snapshot of this name.
pub(crate) fn no_snapshot(name: &str) -> VolumeError {
    VolumeError::new(ErrorKind::NotFound, format!("there is no snapshot {name:?}"))
}

impl Volume {
    /// The snapshots that there are, the oldest first.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.store.snapshots.list()
    }

    /// The snapshot of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn snapshot(&self, name: &str) -> Result<Snapshot, VolumeError> {
        let found = self.snapshots().into_iter().find(|known| known.name == name);
        found.ok_or_else(|| no_snapshot(name))
    }

    /// Makes a snapshot: all files as they are now, in the time of two checkpoints, whatever there is of them.
    ///
    /// # Errors
    /// The name is taken or none, there are as many as there can be, the volume is being made smaller, what waits cannot be
    /// written, no room, or the device failed.
    pub async fn create_snapshot(&self, name: &str) -> Result<Snapshot, VolumeError> {
        check_name(name)?;
        let _one = self.snapshotting.lock().await;
        self.store.check_failed()?;
        let known = self.snapshots();
        if known.iter().any(|known| known.name == name) {
            return Err(VolumeError::new(ErrorKind::Exists, format!("there is a snapshot {name:?} already")));
        }
        if known.len() >= MOST_SNAPSHOTS {
            let text =
                format!("the volume has {MOST_SNAPSHOTS} snapshots, which is all that it can have: destroy some");
            return Err(VolumeError::new(ErrorKind::NoSpace, text));
        }
        if self.is_shrinking.load(Ordering::Acquire) || self.unfinished_shrink().is_some() {
            let text = "the volume is being made smaller: let that end, or stop it, first";
            return Err(VolumeError::new(ErrorKind::Busy, text));
        }
        {
            let _at_once = self.write_at_once();
            self.write_all_back().await?;
            self.store.capture(Coming::Create { name: name.to_owned(), created: self.now() }).await?;
        }
        // Whoever looked at where a file lies before the cut may still be writing there.
        join_all(self.open.all().into_iter().map(|file| async move { drop(file.data.write().await) })).await;
        self.store.checkpoint().await?;
        self.snapshot(name)
    }

    /// Removes a snapshot. What only it had of data is given back afterwards, by [`Volume::reclaim`].
    ///
    /// # Errors
    /// There is none of that name, somebody reads it, or the device failed.
    pub async fn destroy_snapshot(&self, name: &str) -> Result<(), VolumeError> {
        let _one = self.snapshotting.lock().await;
        self.store.check_failed()?;
        let Snapshot { generation, .. } = self.snapshot(name)?;
        let _ending = self.end_view(generation)?;
        self.store.remove_snapshot(generation).await
    }

    /// Writes back all that waits, and has records say when files were read and written, so that trees have all that was
    /// answered. Nothing comes to wait meanwhile.
    async fn write_all_back(&self) -> Result<(), VolumeError> {
        for _ in 0..ROUNDS {
            let waiting = self.waiting.all();
            self.write_back_all(&waiting).await?;
            // Whoever was about to have data wait ends that.
            if waiting.is_empty() {
                self.waiting.emptied().await;
            }
            if self.waiting.is_empty() {
                for file in self.open.all() {
                    self.log_times(&file).await?;
                }
                return Ok(());
            }
            give_way().await;
        }
        Err(VolumeError::new(ErrorKind::Busy, "data that waits could not be written: try again"))
    }
}

impl Store {
    /// Makes a checkpoint that is a snapshot. Only with another one it outlives the loss of the newest root.
    async fn capture(&self, coming: Coming) -> Result<(), VolumeError> {
        self.attempt(&[], Need::More, |_, _| self.check_nodes(NODES_TO_CREATE, Need::More)).await?;
        let mut newest = self.checkpoint.lock().await;
        self.snapshots.prepare(coming);
        self.write_checkpoint(&mut newest).await
    }

    /// Makes a checkpoint without a snapshot, and another one. None waits before for the nodes of the snapshot.
    async fn remove_snapshot(&self, generation: u64) -> Result<(), VolumeError> {
        let own = self.find_own_nodes(generation).await?;
        self.attempt(&[], Need::Least, |_, _| self.check_nodes(NODES_TO_REMOVE, Need::Least)).await?;
        let mut newest = self.checkpoint.lock().await;
        let nodes = own.of(&newest).await;
        self.check_failed()?;
        self.snapshots.prepare(Coming::Remove { generation, nodes });
        self.write_checkpoint(&mut newest).await?;
        self.write_checkpoint(&mut newest).await?;
        let all: Vec<u8> = (0..TREES).collect();
        let forget = |_: View<'_>, _: &mut Vec<Arc<Page>>| {
            self.snapshots.forget(generation);
            Ok(())
        };
        self.attempt(&all, Need::Least, forget).await
    }
}

/// While this is there, no data comes to wait in memory.
pub(crate) struct AtOnce<'a>(&'a Volume);

impl Drop for AtOnce<'_> {
    fn drop(&mut self) {
        self.0.waiting.is_closed.store(false, Ordering::SeqCst);
    }
}

impl Volume {
    /// Has all data be written at once until this is dropped.
    fn write_at_once(&self) -> AtOnce<'_> {
        self.waiting.is_closed.store(true, Ordering::SeqCst);
        AtOnce(self)
    }
}
