//! Jobs: long work that is watched and steered while it runs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::status::Condition;

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

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its number; no two jobs of a daemon have the same.
    pub id: u64,
    /// What it does.
    pub kind: JobKind,
    /// What it does that to: `POOL`, `POOL/SPACE`, or `POOL/disk PATH`.
    pub object: String,
    /// How far it is.
    pub state: JobState,
    /// Bytes that are done.
    pub done_bytes: u64,
    /// Bytes that are to be done, with those that are.
    pub total_bytes: u64,
    /// Bytes done in a second, of late; nothing unless it runs.
    pub rate_bytes_per_second: u64,
    /// Time left at that rate; none if unknown.
    pub seconds_left: Option<u64>,
    /// How much it makes way for clients.
    pub priority: JobPriority,
    /// Bytes that it does in a second at most.
    pub cap_bytes_per_second: Option<u64>,
    /// When it was asked for, RFC 3339 in UTC.
    pub created: String,
    /// When it started; after a restart of the daemon, when it started again.
    pub started: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
    /// Which job it waits for, and what to do, where it waits for one.
    pub reason: Option<Condition>,
    /// Why it failed.
    pub error: Option<ApiError>,
    /// What came of it, in a sentence.
    pub result: Option<String>,
}

/// How a job is to be done. What is left out is as usual: normal priority and no cap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartJob {
    /// How much it makes way for clients.
    #[serde(default)]
    pub priority: Option<JobPriority>,
    /// Bytes that it does in a second at most; 0 for no cap.
    #[serde(default)]
    pub cap_bytes_per_second: Option<u64>,
}

/// Changes how a job is done, at once. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetJob {
    /// How much it makes way for clients.
    #[serde(default)]
    pub priority: Option<JobPriority>,
    /// Bytes that it does in a second at most; 0 for no cap.
    #[serde(default)]
    pub cap_bytes_per_second: Option<u64>,
}

/// The answer to a change of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The job as it is now.
    pub job: Job,
}
