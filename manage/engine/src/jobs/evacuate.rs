//! The evacuation of a disk: it is retired, and every row that has a slab there gets another one elsewhere.

use std::sync::Arc;

use holdfast_api::{DiskRef, JobChanged, StartJob};
use holdfast_model::{Usage, Uuid};
use holdfast_pool::DiskChange;
use holdfast_space::{Ended, Pace};

use super::spec::{JobSpec, MemberRef, Outcome, Site};
use crate::engine::{Engine, OpenPool};
use crate::error::{Answer, conflict, from_pool};

impl Engine {
    /// Retires a disk and moves all data off it: answers with the job that does it, the one that is there already if there
    /// is one.
    ///
    /// # Errors
    /// If it belongs to no pool in service, or the pool refuses.
    pub async fn evacuate_disk(self: &Arc<Self>, disk: String, request: StartJob) -> Answer<JobChanged> {
        self.change(move |engine| async move {
            let disk = DiskRef::new(&disk);
            let path = engine.resolve(&disk).await?;
            let object = format!("disk {disk}");
            let Some((open, id)) = engine.member(&disk, &path) else {
                return Err(conflict(object, "it belongs to no pool in service, so nothing of one is on it", ""));
            };
            let (pool, change) = (open.pool.clone(), DiskChange { usage: Some(Usage::Retired), ..DiskChange::default() });
            let retired = engine.on_reactor(move || async move { pool.set_disk(id, change).await }).await?;
            if retired.map_err(|error| from_pool(&object, error))? {
                engine.note(&object, "retired");
            }
            let path = format!("{}/disk {path}", open.name());
            engine.add_job(JobSpec::Evacuate(MemberRef { pool: open.pool.id(), disk: id, path }), request)
        })
        .await
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
