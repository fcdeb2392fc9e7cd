//! Quality of service: what an object may do at most, and what it is to get at least.
//!
//! I/Os are normalised: a read or write counts one for each 8 KiB or part of it, anything else one.

pub use holdfast_model::Qos;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The quality of service of a space or an export.
///
/// The schema of [`Qos`].
#[derive(ToSchema)]
#[schema(as = Qos, description = "The quality of service of a space or an export.")]
#[allow(dead_code, reason = "read by the derived schema")]
pub struct QosSchema {
    /// Normalised I/Os a second at most; none is no limit.
    #[schema(default = json!(null))]
    max_iops: Option<u64>,
    /// Normalised I/Os beyond the maximum that may be done at once after a rest, which saves them at the rate of the
    /// maximum.
    #[schema(default = json!(null))]
    burst_iops: Option<u64>,
    /// Bytes a second at most; none is no limit.
    #[schema(default = json!(null))]
    max_bytes_per_second: Option<u64>,
    /// Bytes beyond the maximum that may be moved at once after a rest.
    #[schema(default = json!(null))]
    burst_bytes_per_second: Option<u64>,
    /// Normalised I/Os a second that it gets before others get theirs, as far as the disks can do them.
    #[schema(default = json!(null))]
    min_iops: Option<u64>,
}

/// Changes the quality of service. What is left out stays as it is; 0 lifts a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SetQos {
    /// Normalised I/Os a second at most.
    pub max_iops: Option<u64>,
    /// Normalised I/Os beyond the maximum that may be done at once after a rest.
    pub burst_iops: Option<u64>,
    /// Bytes a second at most.
    pub max_bytes_per_second: Option<u64>,
    /// Bytes beyond the maximum that may be moved at once after a rest.
    pub burst_bytes_per_second: Option<u64>,
    /// Normalised I/Os a second that it gets before others get theirs.
    pub min_iops: Option<u64>,
}

impl SetQos {
    /// What settings become by this change. A maximum that is lifted takes its burst with it.
    #[must_use]
    pub fn applied_to(&self, qos: Qos) -> Qos {
        let choose = |is: Option<u64>, set: Option<u64>| set.map_or(is, |value| (value > 0).then_some(value));
        let (max_iops, max_bytes) =
            (choose(qos.max_iops, self.max_iops), choose(qos.max_bytes_per_second, self.max_bytes_per_second));
        let burst = |is: Option<u64>, set: Option<u64>, lifted: bool| choose(is, set.or(lifted.then_some(0)));
        Qos {
            max_iops,
            burst_iops: burst(qos.burst_iops, self.burst_iops, self.max_iops == Some(0)),
            max_bytes_per_second: max_bytes,
            burst_bytes_per_second: burst(
                qos.burst_bytes_per_second,
                self.burst_bytes_per_second,
                self.max_bytes_per_second == Some(0),
            ),
            min_iops: choose(qos.min_iops, self.min_iops),
        }
    }
}
