//! The rebalancing of a pool: slabs move from full disks to empty ones until all of a medium are filled to the same part.
//!
//! What is to move is planned from what is there, so one that was cut short goes on from where it was.

use std::sync::Arc;

use holdfast_api::{DiskBalance, JobChanged, RebalancePlan, StartJob};
use holdfast_pool::Pool;
use holdfast_space::{Ended, Pace};

use super::spec::{JobSpec, Outcome, Site};
use crate::engine::Engine;
use crate::error::Answer;
use crate::view::percent;

impl Engine {
    /// Evens out how full the disks of a pool are: answers with the job that does it, the one that is there already if there is one.
    ///
    /// # Errors
    /// If there is no such pool, or the job cannot be written down.
    pub async fn rebalance_pool(self: &Arc<Self>, pool: String, request: StartJob) -> Answer<JobChanged> {
        self.add_pool_job(pool, JobSpec::Rebalance, request).await
    }

    /// What a rebalancing would move, and how full each disk would be. Nothing is changed.
    ///
    /// # Errors
    /// If there is no such pool.
    pub async fn plan_rebalance(&self, pool: &str) -> Answer<RebalancePlan> {
        let open = self.pool_named(pool)?;
        let planning = open.pool.clone();
        let balance = self.blocking(move || planning.balance()).await?;
        let statuses = open.disk_statuses();
        let disks = balance.disks.iter().filter_map(|used| {
            let record = &statuses.iter().find(|status| status.record.id == used.disk)?.record;
            Some(DiskBalance {
                id: used.disk,
                path: record.path.clone(),
                serial: record.serial.clone(),
                media: used.media,
                data_bytes: used.data_bytes,
                used_bytes: used.used_bytes,
                used_bytes_then: used.used_bytes_then,
                used_percent: percent(used.used_bytes, used.data_bytes),
                used_percent_then: percent(used.used_bytes_then, used.data_bytes),
            })
        });
        Ok(RebalancePlan {
            name: open.name(),
            move_bytes: balance.move_bytes(),
            moves: balance.moves.len() as u64,
            disks: disks.collect(),
        })
    }
}

/// Bytes that a rebalancing moves.
pub(super) fn total_bytes(site: &Site) -> u64 {
    site.open.pool.balance().move_bytes()
}

/// Rebalances.
pub(super) async fn run(site: &Site, pace: &dyn Pace) -> Result<Outcome, Ended> {
    let pool: &Arc<Pool> = &site.open.pool;
    let mut moved = 0u64;
    let left = loop {
        let (before, moves) = (moved, pool.balance().moves);
        for planned in &moves {
            let space = site.spaces.iter().find(|space| space.record().id == planned.space);
            if let Some(space) = space {
                moved += u64::from(space.move_slab(planned, pace).await?);
            }
        }
        if moved == before {
            break moves.len();
        }
    };
    let result = match left {
        0 => format!("{moved} slabs moved; its disks are as even as its rows allow"),
        _ => format!("{moved} slabs moved; {left} stay where they are, since they could not be read, written or spared from use"),
    };
    Ok(Outcome { result, findings: Vec::new() })
}
