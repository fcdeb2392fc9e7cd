//! Jobs: long work that is watched and steered while it runs.

use holdfast_model::{Condition, ObjectKind, ObjectRef};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::schema::{ConditionSchema, ObjectRefSchema};

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// Reads all data of a space with their copies or parity, and mends what can be mended.
    Scrub,
    /// Moves all of a space to another shape.
    Convert,
    /// Rebuilds what a space lost with disks on others.
    Repair,
    /// Moves all data off a disk.
    Evacuate,
    /// Evens out how full the disks of a pool are.
    Rebalance,
    /// Lets a pool use all features of the format that this version knows.
    Upgrade,
    /// Empties a disk, or rebuilds elsewhere what it held, and takes it out of its pool for good.
    Replace,
    /// Reads all metadata of a volume and keeps what does not agree.
    Scan,
    /// Repairs of a volume what can be while it is in use.
    Spotfix,
    /// Takes a volume away from those who use it, repairs all of it, and gives it back.
    SpotfixOffline,
    /// Copies out what can be read of a volume, to a directory of the server.
    Salvage,
    /// Makes a volume smaller while it is in use, with its space.
    Shrink,
    /// Has files of a volume count for the quotas of the directory trees that they are in.
    Quota,
    /// Gives room that files of a volume do not use back to its thin space.
    Trim,
    /// Gives back what destroyed snapshots of a volume kept.
    Reclaim,
    /// Has files of a volume be as a snapshot has them.
    Restore,
    /// Hands permissions of a directory of a volume on to what is below.
    Inherit,
    /// Has files of a volume keep checksums of their data, or none.
    Integrity,
    /// Reads all data of a volume that has checksums of its own, in every copy, and mends what can be mended.
    ScrubFiles,
    /// Brings together what lies scattered of files of a volume.
    Gather,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It waits for its turn, or for what another job moves.
    Queued,
    /// It works.
    Running,
    /// It waits until it is resumed.
    Paused,
    /// It came to its end.
    Done,
    /// It could not go on.
    Failed,
    /// It was cancelled before it was done.
    Cancelled,
}

impl JobState {
    /// Whether nothing more comes of it.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// How much a job makes way for the requests of clients, and which of the queued ones begins first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobPriority {
    /// Takes a fifth of the time while clients work.
    Low,
    /// Takes half of the time while clients work.
    #[default]
    Normal,
    /// Makes no way.
    High,
}

/// How much a job makes way for clients, and how fast it may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobPace {
    /// How much it makes way for clients.
    pub priority: JobPriority,
    /// Bytes that it does in a second at most.
    pub cap_bytes_per_second: Option<u64>,
}

impl JobPace {
    /// The pace after what `set` changes.
    #[must_use]
    pub fn with(self, set: SetPace) -> Self {
        let cap = |cap: u64| (cap > 0).then_some(cap);
        Self {
            priority: set.priority.unwrap_or(self.priority),
            cap_bytes_per_second: set.cap_bytes_per_second.map_or(self.cap_bytes_per_second, cap),
        }
    }
}

/// How a job is to be done, when it is started and at any time after. What is left out is normal priority and no cap
/// for a new job, and stays as it is for one that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPace {
    /// How much it makes way for clients.
    #[serde(default)]
    pub priority: Option<JobPriority>,
    /// Bytes that it does in a second at most; 0 for no cap.
    #[serde(default)]
    pub cap_bytes_per_second: Option<u64>,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its number; no two jobs of a daemon have the same.
    pub id: u64,
    /// What it does.
    pub kind: JobKind,
    /// What it does that to: a pool, or a space or disk of one.
    #[schema(value_type = ObjectRefSchema)]
    pub object: ObjectRef,
    /// The pool that it works in.
    #[schema(value_type = ObjectRefSchema)]
    pub pool: ObjectRef,
    /// How far it is.
    pub state: JobState,
    /// Bytes that are done.
    pub done_bytes: u64,
    /// Bytes that are to be done, with those that are; 0 as long as nobody knows.
    pub total_bytes: u64,
    /// Bytes done in a second, of late; nothing unless it runs.
    pub rate_bytes_per_second: u64,
    /// Time left at that rate; none if unknown.
    pub seconds_left: Option<u64>,
    /// How it is done.
    #[serde(flatten)]
    pub pace: JobPace,
    /// When it was asked for, RFC 3339 in UTC.
    pub created: String,
    /// When it started; after a restart of the daemon, when it started again.
    pub started: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
    /// Which job it waits for, and what to do, where it waits for one.
    #[schema(value_type = Option<ConditionSchema>)]
    pub reason: Option<Condition>,
    /// Why it failed.
    pub error: Option<ApiError>,
    /// What came of it, in a sentence.
    pub result: Option<String>,
}

impl Job {
    /// What it is done to, as texts call it: `tank`, `tank/vm`, `disk /dev/sda`.
    pub fn target(&self) -> String {
        match self.object.kind {
            ObjectKind::Disk => self.object.to_string(),
            _ => self.object.name.clone(),
        }
    }
}

/// The answer to a change of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The job as it is now.
    pub job: Job,
}
