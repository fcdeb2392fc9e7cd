//! What a space misses on which disks, and what protection that leaves it.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::{Affected, Protection};
use holdfast_model::{Health, Uuid};
use holdfast_space::Space;

use crate::engine::OpenPool;

/// What a space misses.
pub(super) struct Exposure {
    /// Its id.
    pub(super) id: Uuid,
    /// By disk, its slabs there that are not in step or cannot be reached.
    pub(super) slabs: BTreeMap<u16, u64>,
    /// How many of its conditions, the first ones, say the same.
    pub(super) conditions: usize,
    health: Health,
    effect: String,
}

/// Looks at all rows of a space.
pub(super) fn of(open: &OpenPool, space: &Space, protection: &Protection) -> Exposure {
    let record = space.record();
    let out: BTreeSet<u16> = open.pool.pool_disks().iter().filter(|disk| !disk.in_service()).map(|disk| disk.index).collect();
    let mut slabs: BTreeMap<u16, u64> = BTreeMap::new();
    for (_, row) in open.pool.rows(record.id).into_iter().chain(open.pool.journal_rows(record.id)) {
        for slab in row.slabs.iter().filter(|slab| slab.stale() || out.contains(&slab.disk())) {
            *slabs.entry(slab.disk()).or_default() += 1;
        }
    }
    let is_unreadable = protection.unreadable_rows > 0;
    let is_behind = slabs.keys().any(|disk| !out.contains(disk));
    let is_away = slabs.keys().any(|disk| out.contains(disk)) && protection.unreadable_rows == 0;
    Exposure {
        id: record.uuid,
        slabs,
        conditions: [is_unreadable, is_behind, is_away].into_iter().filter(|told| *told).count(),
        health: if is_unreadable { Health::Unhealthy } else { Health::Warning },
        effect: protection.summary.clone(),
    }
}

impl Exposure {
    /// The space of this name, as a cause shows it.
    pub(super) fn affected(&self, name: &str) -> Affected {
        Affected { object: format!("space {name}"), health: self.health, effect: self.effect.clone() }
    }
}
