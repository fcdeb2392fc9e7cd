//! What a space misses on which disks, and what protection that leaves it.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::{Affected, Protection};
use holdfast_model::{Health, ObjectRef, Uuid};
use holdfast_space::Space;

use crate::engine::OpenPool;

/// What a space misses.
pub(super) struct Exposure {
    /// Its id.
    pub(super) id: Uuid,
    /// By disk, its slabs there that are not in step or cannot be reached.
    pub(super) slabs: BTreeMap<u16, u64>,
    object: ObjectRef,
    health: Health,
    effect: String,
}

/// Looks at all rows of a space.
pub(super) fn of(open: &OpenPool, space: &Space, protection: &Protection) -> Exposure {
    let record = space.record();
    let out: BTreeSet<u16> =
        open.pool.pool_disks().iter().filter(|disk| !disk.in_service()).map(|disk| disk.index).collect();
    let mut slabs: BTreeMap<u16, u64> = BTreeMap::new();
    for (_, row) in open.pool.rows(record.id).into_iter().chain(open.pool.journal_rows(record.id)) {
        for slab in row.slabs.iter().filter(|slab| slab.stale() || out.contains(&slab.disk())) {
            *slabs.entry(slab.disk()).or_default() += 1;
        }
    }
    let is_unreadable = protection.unreadable_rows > 0;
    Exposure {
        id: record.uuid,
        slabs,
        object: open.space_object(&record),
        health: if is_unreadable { Health::Unhealthy } else { Health::Warning },
        effect: protection.summary.clone(),
    }
}

impl Exposure {
    /// The space, as a cause shows it.
    pub(super) fn affected(&self) -> Affected {
        Affected { object: self.object.clone(), health: self.health, effect: self.effect.clone() }
    }
}
