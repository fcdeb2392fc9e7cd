//! Causes: what is wrong, once each, with all that it affects. A lost disk is one cause, however many spaces miss it.

use holdfast_model::{DiskState, Health, ObjectRef, Usage};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema::{self, ObjectRefSchema};

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// A pool is not imported.
    PoolOffline,
    /// A pool takes no changes.
    PoolReadOnly,
    /// Several disks of one enclosure went out of service together.
    EnclosureLost,
    /// A disk is out of service.
    DiskLost,
    /// A disk in service answers with errors, answers late, or predicts its failure.
    DiskFailing,
    /// A disk is in service again, and what it missed is being copied to it.
    DiskResyncing,
    /// Something else about a pool, such as too little room.
    Pool,
    /// Something else about a space.
    Space,
    /// A volume is not open, not mounted, or takes no changes.
    Volume,
    /// An export is not served.
    Export,
    /// A target is not served, or lets nobody in.
    Target,
    /// A LUN of a target is not served, or answers with errors.
    Lun,
    /// The daemon itself, such as a state folder that cannot be written or a notification channel that does not
    /// deliver.
    Daemon,
}

/// A disk that a cause is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CauseDisk {
    /// Its id in its pool.
    pub id: Uuid,
    /// Its pool.
    pub pool: String,
    /// Where it is, or was seen last.
    pub path: String,
    /// Its serial number; empty where it tells none.
    pub serial: String,
    /// The enclosure that it sits in.
    pub enclosure: Option<String>,
    /// Its slot in the enclosure.
    pub slot: Option<u32>,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes of it that spaces use.
    pub used_bytes: u64,
    /// What the pool may use it for.
    #[schema(schema_with = schema::usage)]
    pub usage: Usage,
    /// Whether it is in service.
    #[schema(schema_with = schema::disk_state)]
    pub state: DiskState,
}

/// An object that is not well because of a cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Affected {
    /// The object.
    #[schema(value_type = ObjectRefSchema)]
    pub object: ObjectRef,
    /// How well it is.
    #[schema(schema_with = schema::health)]
    pub health: Health,
    /// What that means for it, such as what protection is left.
    pub effect: String,
}

/// One thing that is wrong, and everything that follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cause {
    /// Names it for as long as it lasts: its kind, then its object.
    pub id: String,
    /// What kind it is.
    pub kind: CauseKind,
    /// How urgent it is.
    #[schema(schema_with = schema::health)]
    pub health: Health,
    /// What it is about.
    #[schema(value_type = ObjectRefSchema)]
    pub object: ObjectRef,
    /// What is wrong, naming the object.
    pub cause: String,
    /// What its owner should do.
    pub next_action: String,
    /// The disks that it is about.
    pub disks: Vec<CauseDisk>,
    /// What it affects, the worst first.
    pub affects: Vec<Affected>,
    /// When repair starts automatically, RFC 3339 in UTC; none if it does not, or has started.
    pub repair_at: Option<String>,
    /// Seconds until then.
    pub repair_in_seconds: Option<u64>,
    /// Why repair does not start automatically, if lost disks wait for an administrator.
    pub no_repair: Option<String>,
    /// Slabs that are still to be brought in step by copying what they missed; 0 where none is.
    pub resync_slabs: u64,
    /// Of the slabs that were to be brought in step at first, how many are, in percent; none where none is to be.
    pub resync_percent: Option<f64>,
    /// Numbers of the jobs under way that mend it.
    pub jobs: Vec<u64>,
}
