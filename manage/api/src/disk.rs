//! Disks: those of pools, and those that belong to none yet (the primordial pool).

use holdfast_model::{Condition, DiskDetail, DiskState, Health, Media, Usage};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::job::{Job, SetPace};
use crate::schema::{self, ConditionSchema};

/// How a disk of a pool did since the pool was imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskErrors {
    /// Reads and writes that it answered with errors, or with something else than was written.
    pub failed: u64,
    /// Of these, blocks that were not as their checksums say.
    pub checksum: u64,
    /// Bad ranges that were rewritten from another copy.
    pub repaired: u64,
}

/// What a disk of a pool did since the pool was imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskReliability {
    /// Reads.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Bad ranges that were rewritten from another copy.
    pub repaired: u64,
    /// How long a request took on average; none where none was timed yet.
    pub latency_microseconds: Option<u64>,
}

/// Requests to a disk that took about as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskLatency {
    /// They took less than this, in microseconds, and no less than what stands in the entry before; none where there is
    /// no limit.
    pub up_to_us: Option<u64>,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// What a disk reports by SMART.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskSmart {
    /// The disk's own verdict.
    pub passed: Option<bool>,
    /// Why it is taken to be about to fail; empty if it is not.
    pub warnings: Vec<String>,
    /// Its temperature.
    pub temperature_celsius: Option<i64>,
    /// How long it had power in its life.
    pub power_on_hours: Option<u64>,
    /// Sectors that it replaced by spare ones.
    pub reallocated_sectors: Option<u64>,
    /// Sectors that it could not read and has not replaced yet.
    pub pending_sectors: Option<u64>,
    /// How much of the writes that it bears are done, in percent.
    pub wear_percent: Option<u64>,
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
    #[schema(schema_with = schema::usage_or_none)]
    pub usage: Option<Usage>,
    /// Whether it is in service.
    #[schema(schema_with = schema::disk_state)]
    pub state: DiskState,
    /// How well it is.
    #[schema(schema_with = schema::health)]
    pub health: Health,
    /// Why it is not healthy, or why it cannot be pooled.
    #[schema(value_type = Vec<ConditionSchema>)]
    pub conditions: Vec<Condition>,
    /// Whether a pool would take it as it is: it belongs to none, is not in use and carries nothing.
    pub can_pool: bool,
    /// What its health comes from.
    #[schema(schema_with = schema::disk_details)]
    pub details: Vec<DiskDetail>,
    /// Errors that it answered with.
    pub errors: DiskErrors,
    /// What it did so far; none while it belongs to no pool.
    pub reliability: Option<DiskReliability>,
    /// How long its requests took since the pool was imported, of one in sixteen, up to the longest; none while it
    /// belongs to no pool.
    pub latency_histogram: Option<Vec<DiskLatency>>,
    /// Its last SMART report; none if it was not asked yet or reports nothing.
    pub smart: Option<DiskSmart>,
}

/// Makes a sparse file that serves as a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateFileDisk {
    /// Absolute path of the file.
    pub path: String,
    /// Its size; rounded up to whole blocks of 4 KiB.
    pub size_bytes: u64,
}

/// Sets what the disk itself does not tell, or what the pool may use it for. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetDisk {
    /// What it is made of.
    #[schema(schema_with = schema::media_or_none)]
    #[serde(default)]
    pub media: Option<Media>,
    /// The enclosure that it sits in; goes with `slot`.
    #[serde(default)]
    pub enclosure: Option<String>,
    /// Its slot in the enclosure; goes with `enclosure`.
    #[serde(default)]
    pub slot: Option<u32>,
    /// What the pool may use it for.
    #[schema(schema_with = schema::usage_or_none)]
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Goes ahead although spaces get no new rows then, since too few disks are left for their layout.
    #[serde(default)]
    pub force: bool,
}

/// Makes a disk blank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WipeDisk {
    /// Must be true: what the disk carries is lost.
    #[serde(default)]
    pub force: bool,
}

/// Lets a disk of a pool get no new slabs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetireDisk {
    /// Moves its data away as well, as a job.
    #[serde(default)]
    pub evacuate: bool,
    /// Goes ahead although spaces get no new rows then, since too few disks are left for their layout.
    #[serde(default)]
    pub force: bool,
    /// How the job is done.
    #[serde(flatten)]
    pub pace: SetPace,
}

/// Retires a disk of a pool and moves all data off it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EvacuateDisk {
    /// Goes ahead although spaces get no new rows then, since too few disks are left for their layout.
    #[serde(default)]
    pub force: bool,
    /// How the job is done.
    #[serde(flatten)]
    pub pace: SetPace,
}

/// Takes a disk that holds no data out of its pool for good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveDisk {
    /// Goes ahead although spaces get no new rows then, since too few disks are left for their layout.
    #[serde(default)]
    pub force: bool,
}

/// Empties a disk of a pool, or rebuilds elsewhere what it held, and takes it out of the pool for good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaceDisk {
    /// The replacement, a new disk or one of the pool: path, serial number or id. If left out, the data goes to the
    /// other disks.
    #[serde(default)]
    pub new: Option<String>,
    /// Takes a new disk that carries something else; what it carries is lost, so only administrators may. Without a new
    /// disk: goes ahead although spaces get no new rows then, since too few disks are left for their layout.
    #[serde(default)]
    pub force: bool,
    /// Spaces, `POOL/SPACE`, that are destroyed first because a part of their data is lost with the disk; only
    /// administrators may.
    #[serde(default)]
    pub give_up: Vec<String>,
    /// How the job is done.
    #[serde(flatten)]
    pub pace: SetPace,
}

/// Switches the locating light of a disk's slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LocateDisk {
    /// Whether it shines.
    pub on: bool,
}

/// The answer to the retirement of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskRetired {
    /// False if everything was so already.
    pub changed: bool,
    /// The disk as it is now.
    pub disk: Disk,
    /// The job that moves its data away, where one does.
    pub job: Option<Job>,
}

/// The answer to a change of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The disk as it is now.
    pub disk: Disk,
}
