//! What a walk reads: a durable root, all of whose nodes stay as they are meanwhile.
//!
//! ```text
//!   newest root ──pinned──▶ walk, beside changes and checkpoints ──▶ all of it was of one moment
//!                             └──▶ room ran out, and what was kept for it was given away: read again, checkpoints wait
//! ```
//!
//! Invariant: who reads a root that is whole after the last of its nodes was read has read nothing that was written since.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::MutexGuard;

use crate::bitmap::Bitmap;
use crate::checkpoint::Checkpoint;
use crate::error::{ErrorKind, VolumeError};
use crate::page::NodeRef;
use crate::store::{Store, held};
use crate::superblock::Root;

/// A durable root, and what belonged to it.
pub(crate) struct Reading<'a> {
    pub root: Root,
    /// The blocks of each zone of nodes that it has.
    pub taken: BTreeMap<u32, Bitmap>,
    /// The roots of its snapshots, the newest first.
    pub snapshots: Vec<(u64, Vec<(u8, NodeRef)>)>,
    /// All for which something is kept.
    pub kept_for: BTreeSet<u64>,
    pin: Option<Pin<'a>>,
    _one: Option<MutexGuard<'a, ()>>,
}

/// Nodes of a root are kept until this is dropped, or others have no room without them.
pub(crate) struct Pin<'a> {
    store: &'a Store,
    number: u64,
}

impl Pin<'_> {
    /// Whether nothing of the root was given away so far.
    pub fn is_whole(&self) -> bool {
        held(&self.store.zones).is_pinned(self.number)
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        held(&self.store.zones).unpin(self.number);
    }
}

impl Reading<'_> {
    /// Whether nothing of it was given away so far.
    pub fn is_whole(&self) -> bool {
        self.pin.as_ref().is_none_or(Pin::is_whole)
    }

    /// Ends a walk that is in vain.
    pub fn check(&self) -> Result<(), VolumeError> {
        let text = "what was being read was given away, as there was no room without it";
        if self.is_whole() { Ok(()) } else { Err(VolumeError::new(ErrorKind::Busy, text)) }
    }
}

impl Store {
    /// The newest durable root, pinned: checkpoints go on. One is read in this way at a time, another one waits.
    pub(crate) async fn read_beside(&self) -> Reading<'_> {
        let one = self.reading.lock().await;
        let newest = self.checkpoint.lock().await;
        let of = self.read_alone(&newest);
        Reading { pin: Some(self.pin(&newest, &of.taken)), _one: Some(one), ..of }
    }

    /// Has the nodes of the newest durable root, which are `taken`, stay as they are.
    pub(crate) fn pin(&self, _newest: &Checkpoint, taken: &BTreeMap<u32, Bitmap>) -> Pin<'_> {
        Pin { store: self, number: held(&self.zones).pin(taken) }
    }

    /// The newest durable root, for whoever has checkpoints wait until all of it was read.
    pub(crate) fn read_alone(&self, newest: &Checkpoint) -> Reading<'static> {
        Reading {
            root: newest.root.clone(),
            taken: held(&self.zones).taken(),
            snapshots: self.snapshots.roots(),
            kept_for: self.snapshots.kept_for(),
            pin: None,
            _one: None,
        }
    }

    /// Gives away what is kept for all who read; false if nothing is.
    pub(crate) fn end_reading(&self) -> bool {
        held(&self.zones).unpin_all()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdfast_device::Device;
    use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
    use holdfast_model::Uuid;

    use crate::scan::{ScanProgress, ScanSettings};
    use crate::service::{Caller, FileKind, FileService, NewFile, Time};
    use crate::store::{Format, Settings, held};
    use crate::volume::{Volume, VolumeFormat};

    #[test]
    fn what_was_given_away_is_read_again_while_checkpoints_wait() {
        let sim = Sim::new(1);
        let disk: Arc<dyn Device> = SimDisk::new(&sim, SimDiskSpec { size_bytes: 32 << 20, ..SimDiskSpec::default() });
        let ran = sim.run(async move {
            let store = Format { volume: Uuid::from_u128(6), log_bytes: None };
            let format = VolumeFormat { store, secret: [3; 16], owner: (0, 0), is_case_sensitive: false, mode: 0o755 };
            Volume::format(&disk, format, Time::default()).await.expect("formatted");
            let opened = Volume::open(disk, Settings::default(), Arc::new(Time::default)).await;
            let (volume, caller) = (opened.expect("opened"), Caller::default());
            for number in 0..500 {
                let new = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
                let name = format!("file {number}");
                volume.create(&caller, volume.root(), name.as_bytes(), &new).await.expect("there is room");
            }
            let (mut begun, mut is_beside, mut has_waited) = (0, true, false);
            let mut look = |progress: ScanProgress| {
                begun += u32::from(progress.nodes == 1);
                is_beside &= begun > 1 || volume.store.checkpoint.try_lock().is_ok();
                has_waited |= begun > 1 && volume.store.checkpoint.try_lock().is_err();
                if progress.nodes == 5 {
                    volume.store.end_reading();
                }
            };
            let scanned = volume.scan_with(&ScanSettings::default(), &mut look).await.expect("scanned");
            assert_eq!((scanned.verbs, begun, is_beside, has_waited), (Vec::new(), 2, true, true));
            assert!(scanned.nodes > 5 && !held(&volume.store.zones).has_pins());
        });
        ran.expect("powered");
    }
}
