//! Exports: spaces that clients can reach, each by one protocol.

use holdfast_model::{Condition, Health};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::qos::{Qos, QosSchema, SetQos};
use crate::schema::{self, ConditionSchema};

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

/// What an export is served by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Network block device.
    #[default]
    Nbd,
}

/// An export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Export {
    /// The name that clients ask for.
    pub name: String,
    /// `POOL/SPACE`.
    pub space: String,
    /// What it is served by.
    pub protocol: Protocol,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether it is served now; its space may be away.
    pub served: bool,
    /// How well it is: what clients cannot read or write makes it unhealthy, although it is served.
    #[schema(schema_with = schema::health)]
    pub health: Health,
    /// Why it is not healthy.
    #[schema(value_type = Vec<ConditionSchema>)]
    pub conditions: Vec<Condition>,
    /// Its size; none while it is not served.
    pub size_bytes: Option<u64>,
    /// Where clients connect.
    pub uris: Vec<String>,
    /// Connections that use it now.
    pub connections: u64,
    /// What clients did through it.
    pub counters: ExportCounters,
    /// What it may do at most, and is to get at least.
    #[schema(value_type = QosSchema)]
    pub qos: Qos,
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
    /// What it is served by; NBD if left out.
    #[serde(default)]
    pub protocol: Protocol,
    /// Refuses writes.
    #[serde(default)]
    pub read_only: bool,
}

/// Changes an export in use. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetExport {
    /// What it may do at most, and is to get at least.
    #[serde(default)]
    pub qos: Option<SetQos>,
    /// Refuses writes, or accepts them. Its clients are disconnected and see the change when they reconnect.
    #[serde(default)]
    pub read_only: Option<bool>,
}

/// The answer to a change of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The export as it is now.
    pub export: Export,
}

/// A client that is connected to an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Connection {
    /// Who is at the other end.
    pub client: String,
    /// Whether it is encrypted.
    pub tls: bool,
    /// Since when, RFC 3339.
    pub since: String,
    /// Reads asked for.
    pub reads: u64,
    /// Writes asked for.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests in flight.
    pub in_flight: u32,
}
