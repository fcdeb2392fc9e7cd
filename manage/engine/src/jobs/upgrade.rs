//! The upgrade of a pool: it may use all features that this version knows, and says so in the labels of its disks.

use std::sync::Arc;

use holdfast_api::{JobChanged, JobKind, SetPace, UpgradePlan};
use holdfast_device::IoError;
use holdfast_model::BLOCK_BYTES;
use holdfast_pool::Feature;
use holdfast_space::{Ended, Pace};

use super::spec::{Outcome, Site};
use crate::engine::{Engine, OpenPool};
use crate::error::ApiResult;
use crate::view::names;

/// Both labels of a disk.
const LABEL_BYTES: u64 = 2 * BLOCK_BYTES;

impl Engine {
    /// Lets a pool use all features that are known here: answers with the job that does it, the one that is there
    /// already if there is one.
    ///
    /// # Errors
    /// If there is no such pool, or the job cannot be written down.
    pub async fn upgrade_pool(self: &Arc<Self>, pool: String, request: SetPace) -> ApiResult<JobChanged> {
        self.add_pool_job(pool, JobKind::Upgrade, request).await
    }

    /// What an upgrade would change. Nothing is changed.
    ///
    /// # Errors
    /// If there is no such pool.
    pub fn plan_upgrade(&self, pool: &str) -> ApiResult<UpgradePlan> {
        let open = self.pool_named(pool)?;
        let features = open.pool.features();
        Ok(UpgradePlan {
            name: open.name(),
            features: names(&features.names()),
            added: features.missing().into_iter().map(|feature| feature.name().into()).collect(),
            labels: if features.missing().is_empty() { 0 } else { 2 * disks(&open) },
        })
    }
}

/// Disks whose labels are written.
fn disks(open: &OpenPool) -> u64 {
    open.pool.pool_disks().iter().filter(|disk| disk.in_service()).count() as u64
}

/// Bytes that an upgrade writes.
pub(super) fn total_bytes(site: &Site) -> u64 {
    if site.open.pool.features().missing().is_empty() { 0 } else { disks(&site.open) * LABEL_BYTES }
}

/// Upgrades.
pub(super) async fn run(site: &Site, pace: &dyn Pace) -> Result<Outcome, Ended> {
    let (pool, total) = (&site.open.pool, total_bytes(site));
    let added: Vec<&str> = pool.features().missing().into_iter().map(Feature::name).collect();
    pace.step(total).await?;
    pool.upgrade().await.map_err(IoError::from)?;
    pace.done(total);
    let result = match added.is_empty() {
        true => "it already used all features of this version".into(),
        false => format!("it may use now: {}", added.join(", ")),
    };
    Ok(Outcome { result, findings: Vec::new() })
}
