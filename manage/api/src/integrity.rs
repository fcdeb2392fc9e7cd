//! What files keep to prove their data, and blocks that are not as they were written.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::{Job, SetPace};

/// What a file keeps to prove its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IntegrityMode {
    /// Nothing of its own: the space below has checksums. Data is written over where it lies.
    PassThrough,
    /// A checksum of each block, held against it by every read. Data is written to new places.
    Strict,
    /// Nothing of its own, and scrubs of volumes leave it alone.
    None,
}

/// What a file or directory of a volume keeps to prove its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileIntegrity {
    /// The file, from the volume's root on.
    pub path: String,
    /// Whether it is a directory, whose new files and directories begin with its mode.
    pub directory: bool,
    /// What it keeps.
    pub mode: IntegrityMode,
}

/// Has a file or directory keep something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetFileIntegrity {
    /// The file, from the volume's root on.
    pub path: String,
    /// What it is to keep.
    pub mode: IntegrityMode,
    /// Of a directory, also have what is below keep it, as a job.
    #[serde(default)]
    pub below: bool,
    /// How the job is done.
    #[serde(flatten)]
    pub pace: SetPace,
}

/// The answer to a change of what a file keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileIntegrityChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// What it keeps now, or did when the job began.
    pub integrity: FileIntegrity,
    /// The job that has the file, or what is below the directory, keep it.
    pub job: Option<Job>,
}

/// A block of a file that has a checksum of its own, and is right in no copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DamagedBlock {
    /// The number of the file, which `ls -i` shows and `find -inum` finds.
    pub file: u64,
    /// Where it is in the file, in bytes.
    pub offset: u64,
    /// Whether only a snapshot has the block.
    pub snapshot: bool,
}

/// Blocks with checksums of their own that were read since a volume was opened. A block counts each time that it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeChecksums {
    /// Blocks that were held against their checksums.
    pub checked: u64,
    /// Those that were not right in a copy.
    pub wrong: u64,
    /// Those that were written anew from another copy.
    pub healed: u64,
    /// Those that are right in no copy.
    pub lost: u64,
}
