//! The evacuation of a disk: it is retired, and every row that has a slab there gets another one elsewhere.

use std::sync::Arc;

use holdfast_api::{DiskRef, EvacuateDisk, EvacuationPlan, JobChanged, JobKind, SetPace, SpaceEvacuation};
use holdfast_model::Uuid;
use holdfast_pool::{NewDisk, SpaceLeaving};
use holdfast_space::{Ended, Pace};

use super::rebalance::disk_balances;
use super::spec::{Outcome, Site};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, from_pool};
use crate::leaving::NamedMember;

impl Engine {
    /// Retires a disk and moves all data off it: answers with the job that does it, the one that is there already if
    /// there is one.
    ///
    /// # Errors
    /// If it belongs to no pool in service, what it holds has no room elsewhere or cannot be read, spaces get no new
    /// rows then and nobody forces it, or the pool refuses.
    pub async fn evacuate_disk(self: &Arc<Self>, disk: String, request: EvacuateDisk) -> ApiResult<JobChanged> {
        self.change(move |engine| async move {
            let disk = DiskRef::new(&disk);
            let member = engine.named_member(&disk).await?;
            let object = format!("disk {disk}");
            engine.refuse_without_room(&member, &object, &member.job(JobKind::Evacuate), None, &[]).await?;
            engine.refuse_without_new_rows(&member.open, member.id, &object, None, request.force)?;
            engine.retire_member(&member.open, member.id, &object).await?;
            engine.evacuate_member(&member, request.pace)
        })
        .await
    }

    /// What an evacuation would move, whether the other disks have room for it, and how full they would be. Nothing is
    /// changed.
    ///
    /// # Errors
    /// If it belongs to no pool in service.
    pub async fn plan_evacuation(&self, disk: &str) -> ApiResult<EvacuationPlan> {
        let disk = DiskRef::new(disk);
        let member = self.named_member(&disk).await?;
        self.plan_leaving(&member, &format!("disk {disk}"), None).await
    }

    /// What it takes that a disk leaves, with another one in its place if that comes into the pool.
    pub(super) async fn plan_leaving(
        &self,
        member: &NamedMember,
        object: &str,
        new: Option<NewDisk>,
    ) -> ApiResult<EvacuationPlan> {
        let (open, id) = (member.open.clone(), member.id);
        let without = open.pool.spaces_without_new_rows(id, new.as_ref()).map_err(|error| from_pool(object, error))?;
        let planned = self.blocking(move || open.pool.evacuation_with(id, new.as_ref())).await?;
        let mut planned = planned.map_err(|error| from_pool(object, error))?;
        planned.disks.sort_by_key(|used| used.disk != id);
        let pool = member.open.name();
        let space = |space: &SpaceLeaving| SpaceEvacuation {
            name: format!("{pool}/{}", space.name),
            moves: space.slabs,
            slab_bytes: space.slab_bytes,
            move_bytes: space.move_bytes,
            stuck: space.stuck_slabs,
            stuck_bytes: space.stuck_bytes,
            lost_rows: space.lost_rows,
            lost_bytes: space.lost_bytes,
        };
        let spaces: Vec<SpaceEvacuation> = planned.spaces.iter().map(space).collect();
        let sum = |of: fn(&SpaceEvacuation) -> u64| spaces.iter().map(of).sum::<u64>();
        let stuck = sum(|space| space.stuck);
        Ok(EvacuationPlan {
            name: format!("{}/disk {}", member.open.name(), member.path),
            moves: sum(|space| space.moves),
            slab_bytes: sum(|space| space.slab_bytes),
            move_bytes: sum(|space| space.move_bytes),
            stuck,
            stuck_bytes: sum(|space| space.stuck_bytes),
            fits: stuck == 0,
            lost_rows: sum(|space| space.lost_rows),
            lost_bytes: sum(|space| space.lost_bytes),
            give_up: spaces.iter().filter(|space| space.lost_rows > 0).map(|space| space.name.clone()).collect(),
            without_new_rows: without.iter().map(|space| format!("{pool}/{space}")).collect(),
            disks: disk_balances(&member.open, &planned.disks),
            spaces,
        })
    }

    /// Queues the job that moves all data off a disk. No other change may be under way.
    pub(crate) fn evacuate_member(&self, member: &NamedMember, request: SetPace) -> ApiResult<JobChanged> {
        self.add_job(member.job(JobKind::Evacuate), request)
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
    Ok(Outcome { result: "it holds no data any more".into(), findings: Vec::new() })
}
