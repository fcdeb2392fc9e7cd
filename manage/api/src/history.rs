//! What was asked of the server, its pools, spaces, exports, volumes and disks over time, and what is asked of them now.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::Job;

/// What a history is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryKind {
    /// All spaces together, as clients use them.
    Server,
    /// The spaces of a pool together, as clients use them.
    Pool,
    /// A space, as clients of all its exports use it.
    Space,
    /// An export.
    Export,
    /// A LUN of a target, `TARGET/NUMBER`.
    Lun,
    /// A volume, as programs use it through its mount.
    Volume,
    /// A disk of a pool, as its pool uses it. Of its requests one in sixteen is timed.
    Disk,
}

/// Rates and latencies over time. All lists are equally long; a value is null where nothing was sampled, and a latency
/// also where there was no request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// What it is of.
    pub kind: HistoryKind,
    /// Its name, as it was asked for.
    pub name: String,
    /// The time that each value stands for.
    pub step_seconds: u64,
    /// When the first of these times began, in milliseconds since 1970 (UTC).
    pub start_ms: i64,
    /// Reads a second.
    pub reads: Vec<Option<f64>>,
    /// Writes a second.
    pub writes: Vec<Option<f64>>,
    /// Bytes read a second.
    pub read_bytes: Vec<Option<f64>>,
    /// Bytes written a second.
    pub written_bytes: Vec<Option<f64>>,
    /// Half of the reads were answered within so many microseconds; where samples were merged, their mean weighted by
    /// requests.
    pub read_p50_us: Vec<Option<u64>>,
    /// 99 in 100 of the reads were answered within so many microseconds; where samples were merged, the highest of
    /// them.
    pub read_p99_us: Vec<Option<u64>>,
    /// Half of the writes were answered within so many microseconds.
    pub write_p50_us: Vec<Option<u64>>,
    /// 99 in 100 of the writes were answered within so many microseconds.
    pub write_p99_us: Vec<Option<u64>>,
}

/// What was asked for in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rates {
    /// Reads a second.
    pub reads: f64,
    /// Writes a second.
    pub writes: f64,
    /// Bytes read a second.
    pub read_bytes: f64,
    /// Bytes written a second.
    pub written_bytes: f64,
    /// Half of the reads were answered within so many microseconds; none where there was no read.
    pub read_p50_us: Option<u64>,
    /// 99 in 100 of the reads were answered within so many microseconds.
    pub read_p99_us: Option<u64>,
    /// Half of the writes were answered within so many microseconds; none where there was no write.
    pub write_p50_us: Option<u64>,
    /// 99 in 100 of the writes were answered within so many microseconds.
    pub write_p99_us: Option<u64>,
}

/// What happens now; sent each second as the event `sample`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveSample {
    /// When it was taken, in milliseconds since 1970 (UTC).
    pub time_ms: i64,
    /// All spaces together.
    pub server: Rates,
    /// By name, the spaces of which something was asked.
    pub spaces: BTreeMap<String, Rates>,
    /// By name, the exports of which something was asked.
    pub exports: BTreeMap<String, Rates>,
    /// By name, the LUNs of which something was asked.
    pub luns: BTreeMap<String, Rates>,
    /// By name, the volumes of which something was asked.
    pub volumes: BTreeMap<String, Rates>,
    /// The jobs that have not ended.
    pub jobs: Vec<Job>,
}

/// A list of which the console shows a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ListKind {
    /// All disks.
    Disks,
    /// All pools.
    Pools,
    /// All spaces.
    Spaces,
    /// All volumes.
    Volumes,
    /// All exports.
    Exports,
    /// All targets, their LUNs and sessions.
    Targets,
    /// All jobs.
    Jobs,
    /// The health of everything.
    Status,
    /// All accounts and tokens.
    Accounts,
    /// Channels, rules and deliveries of notifications.
    Notifications,
}

impl ListKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Disks,
        Self::Pools,
        Self::Spaces,
        Self::Volumes,
        Self::Exports,
        Self::Targets,
        Self::Jobs,
        Self::Status,
        Self::Accounts,
        Self::Notifications,
    ];
}

/// Lists that are not as they were; sent as the event `changed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListsChanged {
    /// Which.
    pub kinds: Vec<ListKind>,
}
