//! The repair of a space: what it lost with disks is made anew on others.

use std::sync::Arc;

use holdfast_api::{JobChanged, JobKind, SetPace};
use holdfast_model::counted;
use holdfast_space::{Ended, Pace};

use super::spec::{Outcome, Site};
use crate::engine::Engine;
use crate::error::ApiResult;

impl Engine {
    /// Rebuilds what a space lost: answers with the job that does it, the one that is there already if there is one.
    ///
    /// # Errors
    /// If there is no such space, or the job cannot be written down.
    pub async fn repair_space(self: &Arc<Self>, path: String, request: SetPace) -> ApiResult<JobChanged> {
        self.add_space_job(path, JobKind::Repair, request).await
    }
}

/// Bytes that a repair writes.
pub(super) fn total_bytes(site: &Site) -> u64 {
    site.spaces.iter().map(|space| space.bytes_to_rebuild()).sum()
}

/// Repairs.
pub(super) async fn run(site: &Site, pace: &dyn Pace) -> Result<Outcome, Ended> {
    for space in &site.spaces {
        space.rebuild(pace).await?;
    }
    let left: u64 = site.spaces.iter().map(|space| space.status().stale_slabs).sum();
    let result = match left {
        0 => "all data is protected again".into(),
        _ => format!("the lost data is rebuilt; {} being resynced", counted(left, "slab is still", "slabs are still")),
    };
    Ok(Outcome { result, findings: Vec::new() })
}
