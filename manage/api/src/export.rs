//! Exports: spaces that NBD clients can reach.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What clients did through an export since it was made or the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportCounters {
    /// Reads asked for.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Writes asked for.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Flushes asked for.
    pub flushes: u64,
    /// Discards and write-zeroes asked for.
    pub discards: u64,
    /// Bytes of them.
    pub discarded_bytes: u64,
}

/// An export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Export {
    /// The name that clients ask for.
    pub name: String,
    /// `POOL/SPACE`.
    pub space: String,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether it is served now; its space may be away.
    pub served: bool,
    /// Its size; none while it is not served.
    pub size_bytes: Option<u64>,
    /// Where clients connect.
    pub uris: Vec<String>,
    /// Connections that use it now.
    pub connections: u64,
    /// What clients did through it.
    pub counters: ExportCounters,
}

/// Exports a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateExport {
    /// `POOL/SPACE`.
    pub space: String,
    /// The name that clients ask for; the space's own name if left out.
    #[serde(default)]
    pub name: Option<String>,
    /// Refuses writes.
    #[serde(default)]
    pub read_only: bool,
}

/// The answer to a change of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The export as it is now.
    pub export: Export,
}
