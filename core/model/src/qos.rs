//! How much an object or a target may do at most, and is to get at least.

use serde::{Deserialize, Serialize};

/// Quality of service. I/Os are normalised: one counts for every 8 KiB of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Qos {
    /// I/Os a second at most; none is no limit.
    pub max_iops: Option<u64>,
    /// I/Os beyond the maximum that may be done at once after a rest, which saves them at the rate of the maximum.
    pub burst_iops: Option<u64>,
    /// Bytes a second at most; none is no limit.
    pub max_bytes_per_second: Option<u64>,
    /// Bytes beyond the maximum that may be moved at once after a rest.
    pub burst_bytes_per_second: Option<u64>,
    /// I/Os a second that it gets before others get theirs, as far as the disks can do them.
    pub min_iops: Option<u64>,
}
