//! Quality of service as management sees it. The limits themselves are kept by the block service.
//!
//! Invariant: what reaches the block service was checked here.

mod settings;

pub(crate) use settings::describe;

use holdfast_api::{ApiError, ExportCounters, Qos};
use holdfast_block::{Counters, NORMAL_BYTES};
use holdfast_model::ByteSize;

use crate::error::ApiResult;

/// Counters as the API shows them.
pub(crate) fn counters_from_block(counters: &Counters) -> ExportCounters {
    let Counters { totals, flushes, discards, discarded_bytes } = *counters;
    ExportCounters {
        reads: totals.reads,
        read_bytes: totals.read_bytes,
        writes: totals.writes,
        written_bytes: totals.written_bytes,
        flushes,
        discards,
        discarded_bytes,
    }
}

/// Refuses what makes no sense.
pub(crate) fn check(object: &str, qos: &Qos) -> ApiResult<()> {
    let refuse = |field: &str, message: String, next: &str| Err(ApiError::invalid(object, message, next).at(field));
    if let (Some(burst), None) = (qos.burst_iops, qos.max_iops) {
        return refuse(
            "burst_iops",
            format!("a burst of {burst} I/Os needs a maximum, and none is set"),
            "set max_iops as well",
        );
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
