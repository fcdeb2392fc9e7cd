//! Files of volumes, as somebody looks through them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileType {
    /// Bytes.
    Regular,
    /// Names of other files.
    Directory,
    /// A path.
    Symlink,
    /// A pipe, a socket or a device.
    Special,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileEntry {
    /// The name; what is no UTF-8 in it is replaced.
    pub name: String,
    /// What it is.
    pub kind: FileType,
    /// Its length; nothing where it cannot be read.
    pub size_bytes: Option<u64>,
    /// When its data last changed, RFC 3339 in UTC.
    pub modified: Option<String>,
}

/// Names in a directory of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileListing {
    /// The directory, from the volume's root on.
    pub path: String,
    /// The snapshot that has it so; nothing for how it is now.
    pub snapshot: Option<String>,
    /// The names, in no order.
    pub entries: Vec<FileEntry>,
    /// From where to go on; nothing at the end.
    pub next: Option<String>,
}
