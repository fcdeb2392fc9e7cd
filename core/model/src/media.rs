//! What a disk is made of, what the administrator wants it for, and where it sits.

use serde::{Deserialize, Serialize};

/// What a disk is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Media {
    /// Rotating: near reads are cheap, far ones cost a seek.
    Hdd,
    /// Solid state.
    Ssd,
    /// Neither reported by the disk nor set by hand.
    #[default]
    Unknown,
}

/// What a disk in a pool may be used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Usage {
    /// The pool allots slabs here as it sees fit.
    #[default]
    Auto,
    /// Slabs are allotted here only to spaces that name the disk.
    Manual,
    /// Kept free until another disk fails.
    HotSpare,
    /// For journals and write-back caches only.
    Journal,
    /// Being emptied: no new slabs.
    Retired,
}

impl Usage {
    /// Whether ordinary slabs may be allotted on a disk of this usage.
    pub fn takes_slabs(self) -> bool {
        self == Self::Auto
    }
}

/// What is done of itself about disks that are lost, or that tell of their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetirePolicy {
    /// Such a disk is retired and what it held made anew, if all of that has room on the others.
    #[default]
    Auto,
    /// The same, as far as there is room.
    Always,
    /// Nothing, until the administrator says so.
    Never,
}

/// Where a disk sits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The enclosure's name or serial.
    pub enclosure: String,
    /// The slot within it.
    pub slot: u32,
}
