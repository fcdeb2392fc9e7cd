//! The rebalancing of a pool: slabs move from full disks to empty ones until all of a medium are filled to the same
//! part.
//!
//! What is to move is planned from what is there, so one that was cut short goes on from where it was.

use std::sync::Arc;

use holdfast_api::{DiskBalance, JobChanged, JobKind, RebalancePlan, SetPace};
use holdfast_device::{IoError, IoErrorKind};
use holdfast_model::counted;
use holdfast_pool::{Balance, DiskUse};
use holdfast_space::Ended;

use super::control::Control;
use super::spec::{Outcome, Site};
use crate::engine::{Engine, OpenPool};
use crate::error::ApiResult;
use crate::view::percent;

impl Engine {
    /// Evens out how full the disks of a pool are: answers with the job that does it, the one that is there already if
    /// there is one.
    ///
    /// # Errors
    /// If there is no such pool, or the job cannot be written down.
    pub async fn rebalance_pool(self: &Arc<Self>, pool: String, request: SetPace) -> ApiResult<JobChanged> {
        self.add_pool_job(pool, JobKind::Rebalance, request).await
    }

    /// What a rebalancing would move, and how full each disk would be. Nothing is changed.
    ///
    /// # Errors
    /// If there is no such pool.
    pub async fn plan_rebalance(&self, pool: &str) -> ApiResult<RebalancePlan> {
        let open = self.pool_named(pool)?;
        let planning = open.pool.clone();
        let balance = self.blocking(move || planning.balance()).await?;
        Ok(RebalancePlan {
            name: open.name(),
            move_bytes: balance.move_bytes(),
            moves: balance.moves.len() as u64,
            disks: disk_balances(&open, &balance.disks),
        })
    }
}

/// How full disks of a pool are and would be, as the API shows it.
pub(super) fn disk_balances(open: &OpenPool, disks: &[DiskUse]) -> Vec<DiskBalance> {
    let statuses = open.pool.disks();
    let balance = |used: &DiskUse| {
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
    };
    disks.iter().filter_map(balance).collect()
}

/// What would make the disks even. That may take seconds, in which the reactor serves others.
async fn plan(site: &Site) -> Result<Balance, Ended> {
    let pool = site.open.pool.clone();
    let planned = site.runtime.spawn_blocking(move || pool.balance()).await;
    planned.map_err(|error| match error.is_cancelled() {
        true => Ended::Stopped,
        false => IoError::new(IoErrorKind::Gone, format!("planning failed: {error}")).into(),
    })
}

/// Rebalances.
pub(super) async fn run(site: &Site, control: &Control) -> Result<Outcome, Ended> {
    let mut moved = 0u64;
    let left = loop {
        let (before, balance) = (moved, plan(site).await?);
        control.progress.expect(balance.move_bytes());
        let moves = balance.moves;
        for planned in &moves {
            let space = site.spaces.iter().find(|space| space.record().id == planned.space);
            if let Some(space) = space {
                moved += u64::from(space.move_slab(planned, control).await?);
            }
        }
        if moved == before {
            break moves.len();
        }
    };
    let slabs = counted(moved, "slab", "slabs");
    let result = match left {
        0 => format!("{slabs} moved; the disks are as even as the rows allow"),
        _ => format!("{slabs} moved; {left} stayed, because they could not be read or written or were in use"),
    };
    Ok(Outcome { result, findings: Vec::new() })
}
