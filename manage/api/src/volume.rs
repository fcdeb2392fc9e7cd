//! Volumes: files on spaces.

use holdfast_model::{Condition, Health};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::error::ApiError;
use crate::event::Severity;
use crate::integrity::VolumeChecksums;
use crate::job::{Job, JobState, SetPace};
use crate::schema::{self, ConditionSchema};
use crate::space::CreateSpace;

/// Where a volume is mounted on the server, or is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeMount {
    /// The directory.
    pub directory: String,
    /// Whether it is mounted now. What is not is mounted when the volume is opened next.
    pub mounted: bool,
    /// Whether the kernel hands requests over by io_uring, and not by `/dev/fuse`; never while it is not mounted.
    pub over_io_uring: bool,
}

/// How far a volume can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum VolumeState {
    /// Its files can be used.
    Open,
    /// They cannot: its conditions say why.
    Closed,
    /// It was not created to the end. There never was a file on it.
    Creating,
    /// It was not destroyed to the end. Its files are lost.
    Destroying,
    /// What its pool keeps of it cannot be read.
    Unreadable,
}

/// What `chmod` does to a file that has a security descriptor of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModeChange {
    /// It limits what the descriptor grants (RFC 8881 6.4.1).
    Mask,
    /// It takes the descriptor away: the mode is all that is left.
    Discard,
    /// It is refused.
    Refuse,
}

/// Changes properties of a volume; what is left out stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetVolume {
    /// What `chmod` does to files that have a security descriptor of their own.
    #[serde(default)]
    pub mode_change: Option<ModeChange>,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// `POOL/VOLUME`.
    pub name: String,
    /// Its id.
    pub id: Uuid,
    /// `POOL/SPACE`, the space that it lies on.
    pub space: String,
    /// Whether the space was made for it and goes with it.
    pub owns_space: bool,
    /// Whether names that differ in case only are different ones to every client; none where that is not known.
    pub case_sensitive: Option<bool>,
    /// What `chmod` does to files that have a security descriptor of their own; none while it is not open.
    pub mode_change: Option<ModeChange>,
    /// Whether its files can be used, or why not.
    pub state: VolumeState,
    /// Where it is mounted, or is to be.
    pub mount: Option<VolumeMount>,
    /// How well it is.
    #[schema(schema_with = schema::health)]
    pub health: Health,
    /// Why it is not healthy.
    #[schema(value_type = Vec<ConditionSchema>)]
    pub conditions: Vec<Condition>,
    /// Bytes of its space that it uses; none while it is not open.
    pub size_bytes: Option<u64>,
    /// Bytes that may still be written.
    pub free_bytes: Option<u64>,
    /// Files and directories that it has.
    pub files: Option<u64>,
    /// What the last scan found and nobody repaired since.
    pub findings: Option<u64>,
    /// The shrink that is under way, if one is.
    pub shrink: Option<VolumeShrinking>,
    /// Snapshots that it has; none while it is not open.
    pub snapshots: Option<u32>,
    /// Bytes that only snapshots keep.
    pub snapshot_bytes: Option<u64>,
    /// Blocks with checksums of their own that were read since it was opened.
    pub checksums: Option<VolumeChecksums>,
}

/// Makes a volume, on a new space or one that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateVolume {
    /// `POOL/VOLUME`.
    pub name: String,
    /// The space that is made for it, in the same pool; it goes with the volume.
    #[serde(default)]
    pub space: Option<CreateSpace>,
    /// `POOL/SPACE`: an empty space of the same pool that is there already, instead. It stays when the volume goes.
    #[serde(default)]
    pub on: Option<String>,
    /// Names that differ in case only are different ones to every client, not only to those of POSIX.
    #[serde(default)]
    pub case_sensitive: bool,
}

/// Takes up a volume that lies on a space and that its pool does not know, as after a salvage of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdoptVolume {
    /// `POOL/SPACE`: the space that it lies on. It stays when the volume is destroyed.
    pub on: String,
}

/// Mounts a volume on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MountVolume {
    /// The directory. The volume is mounted on it again whenever it is opened.
    pub directory: String,
    /// The directory may hold files: the mount hides them for as long as it lasts.
    #[serde(default)]
    pub over: bool,
    /// The directory, and those above it, are made where they are missing.
    #[serde(default)]
    pub create_directory: bool,
}

/// Makes a volume larger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrowVolume {
    /// The new size; rounded up to whole blocks of 4 KiB.
    pub size_bytes: u64,
}

/// Makes a volume smaller while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShrinkVolume {
    /// The new size; rounded down to a multiple of 64 KiB.
    pub size_bytes: u64,
    /// How the job is done.
    #[serde(flatten)]
    pub pace: SetPace,
}

/// What a shrink of a volume would do. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeShrinkPlan {
    /// `POOL/VOLUME`.
    pub name: String,
    /// Its size now.
    pub size_bytes: u64,
    /// Its size then.
    pub size_bytes_then: u64,
    /// The smallest size that it can have now.
    pub least_size_bytes: u64,
    /// Bytes of data that would be moved.
    pub move_bytes: u64,
    /// Bytes of metadata that would be moved.
    pub move_metadata_bytes: u64,
    /// Bytes that may still be written then.
    pub free_bytes_then: u64,
    /// Whether the space is made smaller with it.
    pub with_space: bool,
    /// Why it cannot be done now; none if it can.
    pub refusal: Option<ApiError>,
    /// What to think of.
    pub notes: Vec<String>,
}

/// The answer to a shrink of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeShrunk {
    /// False if everything was so already.
    pub changed: bool,
    /// The volume as it is now.
    pub volume: Volume,
    /// The job that does it; none where nothing is to be done.
    pub job: Option<Job>,
}

/// A shrink of a volume that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeShrinking {
    /// The size that it is to have.
    pub size_bytes: u64,
    /// The job that does it.
    pub job: u64,
    /// How far the job is.
    pub state: JobState,
    /// Bytes that it moved.
    pub done_bytes: u64,
    /// Bytes that it is to move; 0 until it begins.
    pub total_bytes: u64,
}

/// What a directory tree of a volume takes. A file with several names counts with its part at each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeUsage {
    /// The path from the volume's root on.
    pub path: String,
    /// Files that are no directories.
    pub files: u64,
    /// Directories, with the one that the path leads to.
    pub directories: u64,
    /// Lengths of all files together.
    pub size_bytes: u64,
    /// Bytes of the volume that their data takes.
    pub allocated_bytes: u64,
    /// Directories and files that could not be read, and are not counted.
    pub unreadable: u64,
    /// What takes most right below the path, at most 100 names.
    pub largest: Vec<VolumeUsagePart>,
}

/// A name in a directory, and what is at it and below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeUsagePart {
    /// The name.
    pub name: String,
    /// Whether it is a directory.
    pub directory: bool,
    /// Files that are no directories.
    pub files: u64,
    /// Lengths of all files together.
    pub size_bytes: u64,
    /// Bytes of the volume that their data takes.
    pub allocated_bytes: u64,
}

/// Something that a scan of a volume found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeFinding {
    /// What kind of thing is wrong, the same in all versions.
    pub number: u8,
    /// How many things are wrong in that way: files that no name leads to are told together.
    pub count: u64,
    /// How much it matters.
    pub severity: Severity,
    /// Whether it can be repaired while the volume is in use.
    pub online: bool,
    /// What is wrong, and where.
    pub text: String,
}

/// The answer to a change of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The volume as it is now.
    pub volume: Volume,
}
