//! Pools put together again from the heads of their slabs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::space::LayoutKind;

/// Looks for what is left of a pool whose metadata is lost, and writes new metadata where that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SalvagePool {
    /// All disks that the pool had and that are left: absolute paths, serial numbers or ids.
    pub disks: Vec<String>,
    /// The id of the pool, where slabs of several are on these disks.
    #[serde(default)]
    pub pool: Option<Uuid>,
    /// Writes new metadata, so that the pool can be imported; else nothing is changed.
    #[serde(default)]
    pub write: bool,
    /// What the pool is to be called; as before if left out.
    #[serde(default)]
    pub name: Option<String>,
}

/// What was found of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Salvaged {
    /// Whether new metadata was written.
    pub changed: bool,
    /// The pool's name, as it is now or was before.
    pub name: String,
    /// Its id, which it keeps.
    pub id: Uuid,
    /// Ids of other pools of which slabs are on these disks.
    pub other_pools: Vec<Uuid>,
    /// Its disks.
    pub disks: Vec<SalvagedDisk>,
    /// Its spaces.
    pub spaces: Vec<SalvagedSpace>,
    /// What is doubtful about the pool.
    pub doubts: Vec<String>,
    /// Why no metadata can be written, if so.
    pub obstacle: Option<String>,
}

/// A disk on which slabs of the pool were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SalvagedDisk {
    /// Where it is.
    pub path: String,
    /// Its id in the pool.
    pub id: Uuid,
    /// Headers of slabs that were found.
    pub slabs: u64,
    /// Of these, slabs that count.
    pub counting: u64,
    /// Reads that failed.
    pub unreadable: u64,
}

/// A space of which slabs were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SalvagedSpace {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: Uuid,
    /// Its size.
    pub size_bytes: u64,
    /// Its resilience.
    pub layout: LayoutKind,
    /// Disks that hold each block.
    pub copies: u8,
    /// Columns of parity.
    pub parity: u8,
    /// Stripe units side by side, those of parity included.
    pub columns: u16,
    /// How many of its chunks are how.
    pub chunks: SalvagedChunks,
    /// Its journal, where it keeps parity.
    pub journal: Option<SalvagedJournal>,
    /// What is doubtful about it.
    pub doubts: Vec<String>,
}

/// How many chunks are how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SalvagedChunks {
    /// All that the space has.
    pub total: u64,
    /// All slabs found and in step.
    pub complete: u64,
    /// Fewer, and all data can be read.
    pub degraded: u64,
    /// So few that they cannot be read.
    pub missing: u64,
    /// Of those above, chunks of which several rows were found, or in whose slabs others lie.
    pub conflicting: u64,
    /// No slab found: never written to, or all of them lost. They read as zeros.
    pub absent: u64,
}

/// What was found of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SalvagedJournal {
    /// All of it.
    Complete,
    /// All its data.
    Degraded,
    /// Too little: writes that were in it alone are lost.
    Lost,
}
