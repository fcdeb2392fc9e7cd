//! Whose a disk is: the promise in its labels, raised by an import and looked at by every owner.
//!
//! An import raises the promise of a majority first and reads the logs after it. An owner answers a change only when a
//! majority still shows its own promise *after* the record was written there. Any two majorities share a disk: either
//! the import read its log after the record was there, or the owner saw the import's promise and did not count the
//! disk.
//!
//! ```text
//!  owner    append ──▶ read the label: own? ──▶ answer            (a higher promise: the pool is lost, nothing is answered)
//!  import   write the label ──▶ read where the log ends ──▶ append into the other half
//! ```
//!
//! Invariant: nobody writes over the higher promise of another import that he can see, and a disk that shows one holds
//! no change.
//!
//! Disks that only store cannot refuse what an earlier owner sends after it was passed over. Devices that can, raise
//! their own epoch in [`raise`], before the label, and answer the requests of earlier epochs with an error that leads
//! to [`Pool::lose`].

use std::sync::Arc;

use holdfast_device::{Device, Durability, IoBuf, IoError};
use holdfast_model::BLOCK_BYTES;

use crate::area::Area;
use crate::frame::Frame;
use crate::label::Label;
use crate::log::{LogPlace, Tip};

/// Whose promise the labels of a disk show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The owner's.
    Own,
    /// That of a later import.
    Later(u64),
    /// A whole label that the owner did not write: what is wrong with it.
    Strange(String),
    /// No label that can be read.
    Damaged,
}

/// What became of a promise on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raised {
    /// It stands there, durably, and the disk is as it was found.
    Held,
    /// Another import promised as much or more, or an owner added to the log since it was read.
    Overtaken,
    /// The disk does not keep it.
    Failed,
}

/// Whose promise a disk shows to its owner, by the label at the front, or the other one where that is not whole.
pub(crate) async fn shown(device: &Arc<dyn Device>, area: &Area, own: &Label) -> Shown {
    let [front, end] = area.labels();
    match shown_at(device, front, own).await {
        Shown::Damaged => shown_at(device, end, own).await,
        shown => shown,
    }
}

/// The same by one of its labels.
pub(crate) async fn shown_at(device: &Arc<dyn Device>, offset: u64, own: &Label) -> Shown {
    let Ok(block) = device.read(offset, IoBuf::new(BLOCK_BYTES as usize)).await else { return Shown::Damaged };
    match Label::open(&block, offset) {
        Ok(label) => judge(&label, own),
        Err(_) if Frame::is_whole_of_later_version(&block) => Shown::Strange("its label is of a later version".into()),
        Err(_) => Shown::Damaged,
    }
}

/// The generation that the labels of a disk promise; `None` where neither can be read.
pub(crate) async fn promised(place: &LogPlace) -> Option<u64> {
    let mut promised = None;
    for offset in place.area.labels() {
        let Ok(block) = place.device.read(offset, IoBuf::new(BLOCK_BYTES as usize)).await else { continue };
        let label =
            Label::open(&block, offset).ok().filter(|label| (label.pool, label.disk) == (place.pool, place.disk));
        promised = promised.max(label.map(|label| label.promised));
    }
    promised
}

fn judge(label: &Label, own: &Label) -> Shown {
    if (label.pool, label.disk) != (own.pool, own.disk) {
        return Shown::Strange(format!("its label names disk {} of pool {}", label.disk, label.pool));
    }
    match label.promised.cmp(&own.promised) {
        std::cmp::Ordering::Equal => Shown::Own,
        std::cmp::Ordering::Greater => Shown::Later(label.promised),
        std::cmp::Ordering::Less => {
            let promised = label.promised;
            Shown::Strange(format!("its label is of generation {promised}, and it was written under {}", own.promised))
        }
    }
}

/// Writes both labels of a disk.
pub(crate) async fn label_disk(device: &Arc<dyn Device>, area: &Area, label: &Label) -> Result<(), IoError> {
    for offset in area.labels() {
        device.write(offset, label.seal(offset).freeze(), Durability::Durable).await?;
    }
    Ok(())
}

/// Writes the promise of an import into the labels of a disk, unless another one stands there that is not lower, and
/// then sees that its log ends where it was found to end: whatever an earlier owner was answered is on the disk by now.
pub(crate) async fn raise(place: &LogPlace, tip: Option<Tip>, own: &Label) -> Raised {
    let (device, area) = (&place.device, &place.area);
    // What a killed daemon left in the disk's cache must not be served and then lost.
    if device.flush().await.is_err() {
        return Raised::Failed;
    }
    if matches!(shown(device, area, own).await, Shown::Own | Shown::Later(_)) {
        return Raised::Overtaken;
    }
    if label_disk(device, area, own).await.is_err() {
        return Raised::Failed;
    }
    let as_found = match tip {
        Some(tip) => place.ends_at(&tip).await,
        None => place.find_tip().await.is_none(),
    };
    match shown(device, area, own).await {
        Shown::Own if as_found => Raised::Held,
        Shown::Own | Shown::Later(_) => Raised::Overtaken,
        Shown::Strange(_) | Shown::Damaged => Raised::Failed,
    }
}
