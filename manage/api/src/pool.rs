//! Pools of disks.

use holdfast_model::{Condition, DiskState, Health, RetirePolicy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema::{self, ConditionSchema};
use crate::space::LayoutKind;

/// Whether a pool can be read and changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
// Generators of clients would give the health of a pool the same name.
#[schema(as = PoolState)]
pub enum PoolHealth {
    /// All disks in service.
    Ok,
    /// Works with disks missing or failed.
    Degraded,
    /// Too few disks to change anything safely.
    ReadOnly,
    /// Known to this daemon, but not imported: its conditions say why.
    Offline,
}

/// A disk of a pool, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolMember {
    /// Its id; none where a pool is offline and it was never read.
    pub id: Option<Uuid>,
    /// Where it is, or was seen last.
    pub path: String,
    /// Its serial number.
    pub serial: String,
    /// Whether it is in service.
    #[schema(schema_with = schema::disk_state)]
    pub state: DiskState,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its id, which tells pools of one name apart.
    pub id: Uuid,
    /// Whether it can be read and changed.
    pub state: PoolHealth,
    /// How well it is.
    #[schema(schema_with = schema::health)]
    pub health: Health,
    /// Why it is not healthy.
    #[schema(value_type = Vec<ConditionSchema>)]
    pub conditions: Vec<Condition>,
    /// Bytes that spaces may use, with every copy counted.
    pub raw_bytes: u64,
    /// Bytes that no space uses yet.
    pub free_bytes: u64,
    /// Counts the times that it was brought into service.
    pub generation: u64,
    /// Counts the changes of its configuration.
    pub sequence: u64,
    /// Its disks.
    pub disks: Vec<PoolMember>,
    /// Names of its spaces.
    pub spaces: Vec<String>,
    /// Features of the format that it uses.
    pub features: Vec<String>,
    /// Features that it does not use yet, and would after an upgrade.
    pub upgrade_available: Vec<String>,
    /// How much of its room is taken, and how much is promised.
    pub room: PoolRoom,
    /// What it could still hold in each layout; only where one pool is asked for.
    pub usable: Vec<LayoutCapacity>,
    /// When it tells that it fills up.
    pub alert: PoolAlert,
    /// What happens automatically with disks that are lost or about to fail.
    #[schema(schema_with = schema::retire_policy)]
    pub retire_policy: RetirePolicy,
    /// For how long a disk may be away before; none leaves it to the daemon.
    pub grace_seconds: Option<u32>,
    /// What the daemon has for pools that leave it to it, in whole seconds, rounded up; none if it leaves their lost
    /// disks alone.
    pub default_grace_seconds: Option<u64>,
}

/// What keeps a layout from holding more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityLimit {
    /// The room of all disks.
    Room,
    /// There are too few disks for the layout.
    Disks,
    /// The columns of each row: with fewer of them more would fit.
    Columns,
    /// Large disks have more room than the others can back.
    LargeDisk,
    /// Large enclosures have more room than the others can back.
    Enclosures,
    /// The room of all disks but for the hot spares, which are kept free.
    Spares,
    /// The room for the map of rows on the smallest disk.
    Map,
}

/// What a pool could still hold in a layout. Single parity is there with its default columns and, where they differ,
/// with those of dual parity, so that the two can be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LayoutCapacity {
    /// The resilience.
    pub layout: LayoutKind,
    /// Disks that hold each block.
    pub copies: u8,
    /// Columns of parity.
    pub parity: u8,
    /// Stripe units side by side, those of parity included; 0 where there are too few disks.
    pub columns: u16,
    /// Whether a space of this layout gets these columns by default.
    pub default: bool,
    /// Bytes of data that could still be allotted.
    pub usable_bytes: u64,
    /// Bytes of disks that they would take.
    pub raw_bytes: u64,
    /// Free bytes of data disks that no more data of this layout could use.
    pub unused_bytes: u64,
    /// Bytes of data that could be allotted so that the loss of an enclosure is survived; nothing where that cannot be.
    pub enclosure_aware_bytes: Option<u64>,
    /// What keeps it from being more.
    pub limited_by: CapacityLimit,
    /// The same in a sentence.
    pub reason: String,
}

/// How much of a pool's room is taken, and how much its spaces would take if they were written throughout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolRoom {
    /// Bytes that slabs may take on disks for data.
    pub data_bytes: u64,
    /// Bytes that they take there: what is allotted.
    pub used_bytes: u64,
    /// How full that is, to one decimal.
    pub used_percent: f64,
    /// Bytes that all spaces would take, with copies, parity and journals.
    pub provisioned_bytes: u64,
    /// What is provisioned for each byte of room, to two decimals; above 1 the pool promises more than it has.
    pub ratio: f64,
}

/// When a pool tells that it fills up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolAlert {
    /// Its thresholds, in percent of its room.
    pub percents: Vec<u8>,
    /// Whether they are the server's, as the pool has none of its own.
    pub default: bool,
    /// The highest of them that is reached; it counts until the use is five percent below it.
    pub reached_percent: Option<u8>,
}

/// Changes what can be changed of a pool; what is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPool {
    /// Thresholds at which it tells that it fills up, in percent, 8 at most; none for an empty list.
    #[serde(default)]
    pub alert_percents: Option<Vec<u8>>,
    /// Leaves them to the server again. Not together with thresholds.
    #[serde(default)]
    pub default_alerts: bool,
    /// What happens automatically with disks that are lost or about to fail.
    #[schema(schema_with = schema::retire_policy_or_none)]
    #[serde(default)]
    pub retire_policy: Option<RetirePolicy>,
    /// For how long a disk may be away before.
    #[serde(default)]
    pub grace_seconds: Option<u32>,
    /// Leaves that to the daemon again. Not together with a time.
    #[serde(default)]
    pub default_grace: bool,
}

/// Makes a pool of disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// Its name: 1 to 63 letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Its disks: absolute paths, serial numbers or ids.
    pub disks: Vec<String>,
    /// Takes disks that carry something else; what they carry is lost.
    #[serde(default)]
    pub force: bool,
}

/// Adds disks to a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddDisks {
    /// Absolute paths, serial numbers or ids.
    pub disks: Vec<String>,
    /// Takes disks that carry something else; what they carry is lost, so only administrators may.
    #[serde(default)]
    pub force: bool,
}

/// Looks for pools on disks and brings them in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportPools {
    /// Name or id of the pool; all that are found if left out.
    #[serde(default)]
    pub pool: Option<String>,
    /// Folders whose files and block devices are looked at, besides the disks that are known. Absolute paths.
    #[serde(default)]
    pub disk_dirs: Vec<String>,
    /// Goes ahead on the administrator's word: with too few disks to be sure that they carry the last state, or with disks
    /// that are known to lack changes.
    #[serde(default)]
    pub force: bool,
}

/// One pool that an import found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImportedPool {
    /// False if it was imported already.
    pub changed: bool,
    /// The pool as it is now.
    pub pool: Pool,
}

/// The answer to an import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolsImported {
    /// False if every pool that was found was imported already.
    pub changed: bool,
    /// The pools that were found and are in now.
    pub pools: Vec<ImportedPool>,
    /// Pools and disks that were found and cannot be brought in, and why.
    #[schema(value_type = Vec<ConditionSchema>)]
    pub refused: Vec<Condition>,
}

/// The answer to a change of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The pool as it is now.
    pub pool: Pool,
}
