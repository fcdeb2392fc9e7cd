//! Quotas of volumes: what users, groups and directory trees take, and may take.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whom a quota is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuotaKind {
    /// All files of a directory and below it.
    Tree,
    /// Files that a user owns.
    User,
    /// Files of a group.
    Group,
    /// Files of an owner without a number, by its security identifier.
    Owner,
}

/// How far a quota counts what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuotaState {
    /// It counts all.
    Settled,
    /// A job counts what was in the directory before; what is new counts already.
    Counting,
    /// It was removed, and a job has its files count for it no more.
    Leaving,
}

/// A quota of a volume, with what is taken of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeQuota {
    /// Whom it is for.
    pub kind: QuotaKind,
    /// The directory, from the volume's root on; or the name of the user or group, its number where the server knows
    /// no name; or the security identifier of the owner.
    pub name: String,
    /// The number of the user or group.
    pub id: Option<u32>,
    /// Bytes that may be taken; what goes beyond is refused.
    pub hard_bytes: Option<u64>,
    /// Bytes beyond which an event tells of it.
    pub soft_bytes: Option<u64>,
    /// Files and directories that there may be; what goes beyond is refused.
    pub hard_files: Option<u64>,
    /// Files and directories beyond which an event tells of it.
    pub soft_files: Option<u64>,
    /// Bytes of the volume that the data of its files takes.
    pub used_bytes: u64,
    /// Files and directories that there are.
    pub used_files: u64,
    /// How far it counts.
    pub state: QuotaState,
    /// Requests that it refused since the volume was opened.
    pub refused: u64,
}

/// Sets a quota: for a directory tree, a user, a group or an owner, one of them. What is left out is not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetVolumeQuota {
    /// The directory, from the volume's root on.
    #[serde(default)]
    pub path: Option<String>,
    /// The user, by name as the server knows it, or by number.
    #[serde(default)]
    pub user: Option<String>,
    /// The group, by name as the server knows it, or by number.
    #[serde(default)]
    pub group: Option<String>,
    /// The security identifier of the owner, as `S-1-5-21-1-2-3-1000`. One that stands for a user is that user.
    #[serde(default)]
    pub owner: Option<String>,
    /// Bytes that may be taken; what goes beyond is refused.
    #[serde(default)]
    pub hard_bytes: Option<u64>,
    /// Bytes beyond which an event tells of it.
    #[serde(default)]
    pub soft_bytes: Option<u64>,
    /// Files and directories that there may be; what goes beyond is refused.
    #[serde(default)]
    pub hard_files: Option<u64>,
    /// Files and directories beyond which an event tells of it.
    #[serde(default)]
    pub soft_files: Option<u64>,
}

/// The answer to a change of a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeQuotaChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The quota as it is now; none once it is removed.
    pub quota: Option<VolumeQuota>,
    /// The job that has files of the directory tree count for it, or no more.
    pub job: Option<u64>,
}
