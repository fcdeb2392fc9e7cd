//! Disks: those of pools, and those that belong to none yet (the primordial pool).

use holdfast_model::{DiskState, Health, Media, Usage};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema;
use crate::status::Condition;

/// How a disk of a pool did since the pool was imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskErrors {
    /// Reads and writes that it answered with errors.
    pub failed: u64,
    /// Bad ranges that were rewritten from another copy.
    pub repaired: u64,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// Its id in its pool; none while it belongs to no pool.
    pub id: Option<Uuid>,
    /// Where it is, or was seen last.
    pub path: String,
    /// Its serial number; empty where it tells none.
    pub serial: String,
    /// Its model.
    pub model: String,
    /// What it is made of.
    #[schema(schema_with = schema::media)]
    pub media: Media,
    /// The enclosure that it sits in.
    pub enclosure: Option<String>,
    /// Its slot in the enclosure.
    pub slot: Option<u32>,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes of it that spaces may use; none while it belongs to no pool.
    pub usable_bytes: Option<u64>,
    /// Bytes of it that no space uses yet; none while it belongs to no pool.
    pub free_bytes: Option<u64>,
    /// The pool that it belongs to; none is the primordial pool.
    pub pool: Option<String>,
    /// What the pool may use it for; none while it belongs to no pool.
    #[schema(schema_with = schema::usage)]
    pub usage: Option<Usage>,
    /// Whether it is in service.
    #[schema(schema_with = schema::disk_state)]
    pub state: DiskState,
    /// How well it is.
    #[schema(schema_with = schema::health)]
    pub health: Health,
    /// Why it is not healthy, or why it cannot be pooled.
    pub conditions: Vec<Condition>,
    /// Whether a pool would take it as it is: it belongs to none, is not in use and carries nothing.
    pub can_pool: bool,
    /// Errors that it answered with.
    pub errors: DiskErrors,
}

/// Makes a sparse file that serves as a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateFileDisk {
    /// Absolute path of the file.
    pub path: String,
    /// Its size, a multiple of 4 KiB.
    pub size_bytes: u64,
}

/// Sets what the disk itself does not tell, or what the pool may use it for. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetDisk {
    /// What it is made of.
    #[schema(schema_with = schema::media)]
    #[serde(default)]
    pub media: Option<Media>,
    /// The enclosure that it sits in; goes with `slot`.
    #[serde(default)]
    pub enclosure: Option<String>,
    /// Its slot in the enclosure; goes with `enclosure`.
    #[serde(default)]
    pub slot: Option<u32>,
    /// What the pool may use it for.
    #[schema(schema_with = schema::usage)]
    #[serde(default)]
    pub usage: Option<Usage>,
}

/// Makes a disk blank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WipeDisk {
    /// Must be true: what the disk carries is lost.
    #[serde(default)]
    pub force: bool,
}

/// The answer to a change of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The disk as it is now.
    pub disk: Disk,
}
