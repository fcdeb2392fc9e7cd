//! What is asked for when disks stay away: the repair of each space that misses slabs on them.
//!
//! Invariant: a disk that comes back within the time of grace costs no rebuild, and a repair that failed is asked for again
//! no sooner than after as long a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::StartJob;
use holdfast_model::Uuid;

use super::spec::{JobSpec, SpaceRef};
use crate::engine::Engine;

impl Engine {
    /// Asks for the repairs whose time has come.
    pub(super) async fn ask_for_repairs(self: &Arc<Self>) {
        let Some(grace) = self.settings.repair_after else { return };
        let due = self.note_lost(grace);
        if due.is_empty() {
            return;
        }
        let asked = self.change(move |engine| async move {
            for space in due {
                engine.note(&format!("space {}", space.path), "is to be rebuilt: disks that it misses stayed away");
                engine.add_job(JobSpec::Repair(space), StartJob::default())?;
            }
            Ok(())
        });
        if let Err(error) = asked.await {
            tracing::warn!("repairs that are due wait: {error}");
        }
    }

    /// Notes which spaces miss slabs on lost disks since when, and says for which the time of grace is over.
    fn note_lost(&self, grace: Duration) -> Vec<SpaceRef> {
        let pools: Vec<_> = self.live().pools.values().cloned().collect();
        let lost: Vec<SpaceRef> = pools
            .iter()
            .flat_map(|open| {
                let missed = |record: &holdfast_pool::SpaceRecord| !open.pool.lost_slabs(record.id).is_empty();
                let space = |record: holdfast_pool::SpaceRecord| SpaceRef {
                    pool: open.pool.id(),
                    space: record.uuid,
                    path: format!("{}/{}", open.name(), record.name),
                };
                open.pool.spaces().into_iter().filter(missed).map(space).collect::<Vec<_>>()
            })
            .collect();
        let (now, there) = (Instant::now(), lost.iter().map(|space| space.space).collect::<BTreeSet<Uuid>>());
        let mut inner = self.jobs.inner();
        inner.repair_at.retain(|space, _| there.contains(space));
        let due = |space: &SpaceRef| {
            let at = inner.repair_at.entry(space.space).or_insert(now + grace);
            let due = *at <= now;
            if due {
                *at = now + grace;
            }
            due
        };
        lost.into_iter().filter(due).collect()
    }
}
