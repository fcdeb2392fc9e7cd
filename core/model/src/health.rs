//! How well an object is, and what its owner should do about it.

use serde::{Deserialize, Serialize};

use crate::object::ObjectRef;

/// How urgently an object wants its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// Nothing to do.
    #[default]
    Healthy,
    /// Works, with less protection or room than wanted.
    Warning,
    /// Does not do its job.
    Unhealthy,
}

/// One thing that is not as it should be: why, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// What is wrong, naming the object.
    pub cause: String,
    /// What its owner should do.
    pub next_action: String,
    /// Which condition it is, where programs act on it.
    pub reason: Option<Reason>,
    /// The part that it is about, where the condition is one of the whole: a disk or a space of a pool.
    pub about: Option<ObjectRef>,
}

/// Conditions that programs act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// A pool or a volume takes no changes.
    ReadOnly,
    /// A space finds no room for the rows that it has not yet.
    NoRoom,
    /// Slabs of a space are lost or out of step.
    MissingSlabs,
    /// A salvage recovered a space, and nobody accepted it yet.
    Salvaged,
    /// Something else uses a disk now.
    InUse,
    /// Data that a volume accepted waits in memory, because it cannot be written.
    Unwritten,
    /// Data of files is lost: its checksums say that no copy is right.
    LostData,
}

impl Condition {
    /// A condition of this cause and next action.
    pub fn new(cause: impl Into<String>, next_action: impl Into<String>) -> Self {
        Self { cause: cause.into(), next_action: next_action.into(), reason: None, about: None }
    }

    /// The same, for programs to know.
    #[must_use]
    pub fn because(self, reason: Reason) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// The same, about a part of the object.
    #[must_use]
    pub fn about(self, part: ObjectRef) -> Self {
        Self { about: Some(part), ..self }
    }
}

/// What a disk is to the pool that it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskState {
    /// In service.
    #[default]
    Online,
    /// Not there: unplugged, or its path is gone.
    Missing,
    /// There, but answers with errors: out of service until it is brought back.
    Failed,
}

/// What a disk's health comes from; several may hold at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskDetail {
    /// Nothing to tell.
    #[default]
    Ok,
    /// It is not there any more.
    LostCommunication,
    /// It answered requests with errors.
    IoError,
    /// It tells by itself that it is about to fail.
    PredictiveFailure,
    /// Some of its slabs missed writes and are not in step yet.
    Stale,
    /// It is smaller than a pool takes.
    TooSmall,
    /// It answers much later than the others of its kind.
    Slow,
    /// It gets no new slabs.
    Retired,
    /// It is being emptied to leave its pool for good.
    Removing,
}

/// Whether a pool can be read and changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolState {
    /// All disks in service.
    #[default]
    Ok,
    /// Works with disks missing or failed.
    Degraded,
    /// Too few disks to change anything safely: what can be read is read.
    ReadOnly,
}

/// Whether a space serves its data, and how well it is protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpaceState {
    /// All copies and all parity in step.
    #[default]
    Ok,
    /// Copies or parity are being brought back in step.
    Resyncing,
    /// Some rows have fewer copies or less parity than wanted.
    Degraded,
    /// Some rows have too few slabs left: their data cannot be read.
    Failed,
}
