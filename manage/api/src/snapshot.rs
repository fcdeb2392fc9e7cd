//! Snapshots of volumes: their files as they were at a moment.

use holdfast_model::Condition;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::SetPace;
use crate::schema::ConditionSchema;

/// A snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeSnapshot {
    /// Its name, which no other snapshot of the volume has. Its files are below `.snapshots/NAME` of the mounted volume.
    pub name: String,
    /// When it was made, RFC 3339 in UTC.
    pub created: String,
    /// Files and directories that it has.
    pub files: u64,
    /// Bytes that files let go of between this snapshot and the next one, or until now, and that only snapshots keep.
    pub kept_bytes: u64,
    /// Of one that the schedule made, the seconds of the rule that it was made by.
    pub every_seconds: Option<u64>,
}

/// Makes a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSnapshot {
    /// Its name: up to 200 bytes without /, @ and control characters. Those that begin with `auto-` are the schedule's.
    pub name: String,
}

/// The answer to a snapshot that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotCreated {
    /// True: a name that is taken is refused.
    pub changed: bool,
    /// The snapshot.
    pub snapshot: VolumeSnapshot,
    /// Why it lacks something that programs wrote to mapped memory, and what to do.
    #[serde(default)]
    #[schema(value_type = Vec<ConditionSchema>)]
    pub notes: Vec<Condition>,
}

/// The answer to a snapshot that was destroyed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotDestroyed {
    /// False if there was none of that name.
    pub changed: bool,
    /// What was done, or why there was nothing to do.
    pub message: String,
    /// The job that gives back what only it kept.
    pub job: Option<u64>,
}

/// What became of a file between two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotChange {
    /// It is there for the first time.
    Created,
    /// It is there no more.
    Removed,
    /// It is another one in some way.
    Changed,
}

/// What kind a file is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotFileKind {
    /// Bytes.
    File,
    /// Names of other files.
    Directory,
    /// A path.
    Symlink,
    /// A pipe, a socket or a device.
    Special,
}

/// A file that differs between two states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotDifference {
    /// What became of it.
    pub change: SnapshotChange,
    /// What it is.
    pub kind: SnapshotFileKind,
    /// Where it was, from the volume's root on; nothing if it was not there, or that cannot be told.
    pub path_before: Option<String>,
    /// Where it is.
    pub path: Option<String>,
    /// Bytes that it had.
    pub size_bytes_before: Option<u64>,
    /// Bytes that it has.
    pub size_bytes: Option<u64>,
    /// When its data last changed, as it is, or was where it is no more; RFC 3339 in UTC.
    pub modified: String,
    /// Whether its bytes, or where it leads to, differ.
    pub data: bool,
    /// Whether its names differ.
    pub names: bool,
    /// Whether its owner, permissions, times or extended attributes differ.
    pub attributes: bool,
}

/// Files that differ between a snapshot and another one, or now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotDifferences {
    /// The snapshot.
    pub from: String,
    /// The other one; nothing for the files as they are.
    pub to: Option<String>,
    /// The files, in no order that means anything.
    pub differences: Vec<SnapshotDifference>,
    /// What to ask for the rest with; nothing if this is all.
    pub next: Option<String>,
}

/// So many seconds in the largest unit that they are whole in: `1h`, `90m`, `7d`.
pub fn interval(seconds: u64) -> String {
    let units = [(24 * 3600, "d"), (3600, "h"), (60, "m")];
    let (each, unit) = units.into_iter().find(|(each, _)| seconds.is_multiple_of(*each)).unwrap_or((1, "s"));
    format!("{}{unit}", seconds / each)
}

fn yes() -> bool {
    true
}

/// Has files of a volume be as a snapshot has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreSnapshot {
    /// The file or directory, from the volume's root on; / for all of it.
    pub path: String,
    /// Put it there instead, where nothing may be yet; what is at `path` stays as it is.
    #[serde(default)]
    pub to: Option<String>,
    /// Make a snapshot of what is there now first.
    #[serde(default = "yes")]
    pub keep: bool,
    /// How the job is done.
    #[serde(flatten)]
    pub pace: SetPace,
}

/// How often a snapshot is made, and how many of them are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotRule {
    /// Seconds from one snapshot to the next; without a time of day they are made at multiples of that since 1970 in UTC.
    pub every_seconds: u64,
    /// The time of day at which they are made, in minutes after midnight in the server's time zone.
    pub at_minutes: Option<u16>,
    /// The newest ones of this rule that are kept.
    pub keep: u32,
    /// Those that there are.
    pub snapshots: u32,
    /// When the last one was made, RFC 3339 in UTC.
    pub last_at: Option<String>,
    /// When the next one is due.
    pub next_at: String,
}

/// The rules by which snapshots of a volume are made and destroyed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotSchedule {
    /// By how often.
    pub rules: Vec<SnapshotRule>,
    /// The time zone of the server, as `Europe/Berlin`, in which times of day are meant.
    pub zone: String,
}

/// Adds a rule to a schedule, or changes the one of the same interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSnapshotRule {
    /// Seconds from one snapshot to the next: whole minutes.
    pub every_seconds: u64,
    /// The time of day at which they are made, in minutes after midnight in the server's time zone; only where they are
    /// whole days apart.
    #[serde(default)]
    pub at_minutes: Option<u16>,
    /// The newest ones of this rule that are kept; those beyond are destroyed.
    pub keep: u32,
}

/// The answer to a change of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotScheduleChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The schedule as it is now.
    pub schedule: SnapshotSchedule,
}
