//! The evacuation of a disk: it is retired, and every row that has a slab there gets another one elsewhere.

use std::sync::Arc;

use holdfast_api::{DiskRef, JobChanged, StartJob};
use holdfast_model::Uuid;
use holdfast_space::{Ended, Pace};

use super::spec::{JobSpec, Outcome, Site};
use crate::engine::{Engine, OpenPool};
use crate::error::Answer;
use crate::leaving::NamedMember;

impl Engine {
    /// Retires a disk and moves all data off it: answers with the job that does it, the one that is there already if there
    /// is one.
    ///
    /// # Errors
    /// If it belongs to no pool in service, or the pool refuses.
    pub async fn evacuate_disk(self: &Arc<Self>, disk: String, request: StartJob) -> Answer<JobChanged> {
        self.change(move |engine| async move {
            let disk = DiskRef::new(&disk);
            let member = engine.named_member(&disk).await?;
            engine.retire_member(&member.open, member.id, &format!("disk {disk}")).await?;
            engine.evacuate_member(&member, request)
        })
        .await
    }

    /// Queues the job that moves all data off a disk. No other change may be under way.
    pub(crate) fn evacuate_member(&self, member: &NamedMember, request: StartJob) -> Answer<JobChanged> {
        self.add_job(JobSpec::Evacuate(member.job_object()), request)
    }
}

/// The number of a member in its pool.
pub(super) fn index(open: &OpenPool, disk: Uuid) -> Option<u16> {
    open.pool.pool_disks().iter().find(|member| member.id == disk).map(|member| member.index)
}

/// Bytes that an evacuation moves.
pub(super) fn total_bytes(site: &Site, disk: Uuid) -> u64 {
    let index = index(&site.open, disk);
    index.map_or(0, |index| site.spaces.iter().map(|space| space.bytes_on(index)).sum())
}

/// Evacuates.
pub(super) async fn run(site: &Site, disk: Uuid, pace: &dyn Pace) -> Result<Outcome, Ended> {
    if let Some(index) = index(&site.open, disk) {
        for space in &site.spaces {
            space.leave(index, pace).await?;
        }
    }
    Ok(Outcome { result: "no data is on it any more".into(), findings: Vec::new() })
}
