//! Quality of service: maximum and burst for each space and export, and a balancer between the spaces of a pool.
//!
//! ```text
//!   request ─▶ limit of the export ─▶ limit of the space ─▶ balancer of the pool ─▶ space
//!              bucket.rs, limiter.rs                         balancer.rs
//! ```
//!
//! Invariants: where nothing is limited and one space alone is used, a request pays a few loads. What waits is bounded by what front ends
//! take up, waits on its own reactor, and leaves nothing behind when it is given up.

mod balancer;
mod bucket;
mod limiter;
mod settings;

use holdfast_api::{ApiError, Qos};
use holdfast_model::ByteSize;

use crate::error::ApiResult;
use crate::traffic::Kind;

pub(crate) use balancer::{Balancer, Entry, FlowId, QueuedEntry};
pub(crate) use limiter::Limiter;

/// What a request counts as one I/O for.
pub(crate) const NORMAL_BYTES: u64 = 8192;

/// What a request takes of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) ios: u64,
    pub(crate) bytes: u64,
}

impl Cost {
    /// That of a request; what carries no data is one I/O, whatever its range.
    pub(crate) fn of(kind: Kind, bytes: u64) -> Self {
        match kind {
            Kind::Read | Kind::Write => Self { ios: bytes.div_ceil(NORMAL_BYTES).max(1), bytes },
            Kind::Discard | Kind::Flush => Self { ios: 1, bytes: 0 },
        }
    }
}

/// Refuses what makes no sense.
pub(crate) fn check(object: &str, qos: &Qos) -> ApiResult<()> {
    let refuse = |field: &str, message: String, next: &str| Err(ApiError::invalid(object, message, next).at(field));
    if let (Some(burst), None) = (qos.burst_iops, qos.max_iops) {
        return refuse("burst_iops", format!("a burst of {burst} I/Os needs a maximum, and none is set"), "set max_iops as well");
    }
    if let (Some(burst), None) = (qos.burst_bytes_per_second, qos.max_bytes_per_second) {
        let message = format!("a burst of {} needs a maximum, and none is set", ByteSize(burst));
        return refuse("burst_bytes_per_second", message, "set max_bytes_per_second as well");
    }
    if let Some(bytes) = qos.max_bytes_per_second.filter(|bytes| *bytes < NORMAL_BYTES) {
        let message = format!("{} per second is less than one I/O of 8 KiB", ByteSize(bytes));
        return refuse("max_bytes_per_second", message, "allow 8 KiB or more");
    }
    if let (Some(min), Some(max)) = (qos.min_iops, qos.max_iops)
        && min > max
    {
        let message = format!("the minimum of {min} IOPS is above the maximum of {max}");
        return refuse("min_iops", message, "choose a minimum no higher than the maximum");
    }
    Ok(())
}
