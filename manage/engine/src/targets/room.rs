//! What is looked at each second for initiators: sizes that changed, and ground that fills up.
//!
//! ```text
//!   LUN of a thin space ─▶ what the space takes       what its pool can still give it
//!   LUN of a file ───────▶ what its volume takes      what its volume has free; on a thin space no more of it than the
//!                                                     space has taken already and its pool can still give it
//! ```
//!
//! Invariant: what initiators are told is no more room than there is for all LUNs on the same ground together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_model::{Provisioning, Uuid};
use holdfast_scsi::{Room, Unit};
use holdfast_space::Space;

use super::known::Backing;
use crate::engine::{Engine, OpenPool};
use crate::error::ApiResult;

/// How often the room of a pool is asked for at most, which goes over all of its disks.
const ROOM_EVERY: Duration = Duration::from_secs(15);

/// When initiators were told how full the ground of a LUN is, and at which change of its pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoomTold {
    at: Option<Instant>,
    sequence: u64,
    threshold_percent: u8,
}

impl RoomTold {
    /// A volume fills up without any change of its pool.
    fn is_due(&self, ground: Ground, sequence: u64, threshold_percent: u8) -> bool {
        let may_differ = self.sequence != sequence || matches!(ground, Ground::Volume(_));
        let is_other = self.threshold_percent != threshold_percent;
        self.at.is_none_or(|at| is_other || (at.elapsed() >= ROOM_EVERY && may_differ))
    }
}

/// What LUNs take room of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ground {
    /// A space, by its id.
    Space(Uuid),
    /// A volume, by its id.
    Volume(Uuid),
}

impl Ground {
    fn of(backing: &Backing) -> Self {
        match backing {
            Backing::Space(id) => Self::Space(*id),
            Backing::File { volume, .. } => Self::Volume(*volume),
        }
    }
}

/// What is taken, and what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    used_bytes: u64,
    available_bytes: u64,
}

impl Use {
    /// The same on a thin space: what that has taken already and its pool can still give it is all that there is.
    fn on(self, below: Self) -> Self {
        let has_already = below.used_bytes.saturating_sub(self.used_bytes);
        let most = below.available_bytes.saturating_add(has_already);
        Self { available_bytes: self.available_bytes.min(most), ..self }
    }
}

/// Whose initiators are to be told of a ground.
struct Due {
    open: Arc<OpenPool>,
    /// Each with the percentage at which it warns.
    units: Vec<(Arc<Unit>, u8)>,
}

/// How full a ground is; nothing of one that has all of its room for itself, or is not open.
fn use_of(open: &OpenPool, ground: Ground) -> Option<Use> {
    match ground {
        Ground::Space(id) => use_of_space(open, &*open.space_with(id)?),
        Ground::Volume(id) => use_of_volume(open, id),
    }
}

/// How full a thin space is, in terms of its layout; nothing of a fixed one.
fn use_of_space(open: &OpenPool, space: &Space) -> Option<Use> {
    let record = space.record();
    if record.provisioning != Provisioning::Thin {
        return None;
    }
    let available_bytes = open.pool.capacity(&record.shape, None, record.enclosure_aware);
    // Where not one more row fits there is no room.
    let available_bytes = available_bytes.map_or(0, |capacity| capacity.usable_bytes());
    Some(Use { used_bytes: space.status().allocated_bytes, available_bytes })
}

/// How full a volume is.
fn use_of_volume(open: &OpenPool, id: Uuid) -> Option<Use> {
    let (volume, space) = open.volume_and_space(id)?;
    let room = volume.room();
    let used_bytes = room.total_bytes.saturating_sub(room.free_bytes);
    let own = Use { used_bytes, available_bytes: room.free_bytes };
    let below = space.and_then(|space| use_of_space(open, &space));
    Some(below.map_or(own, |below| own.on(below)))
}

impl Engine {
    /// When initiators are warned of LUNs without a percentage of their own, by pool.
    pub(super) fn usual_alerts(&self) -> BTreeMap<Uuid, u8> {
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        pools.into_iter().map(|open| (open.pool.id(), self.alerts_of(&open).of_luns())).collect()
    }

    /// Tells initiators of LUNs whose size or room changed.
    pub(crate) async fn look_at_luns(&self) -> ApiResult<()> {
        if self.live().targets.is_empty() {
            return Ok(());
        }
        let _one = self.looking_at_luns.lock().await;
        let mut due: BTreeMap<(Uuid, Ground), Due> = BTreeMap::new();
        let usual = self.usual_alerts();
        {
            let mut live = self.live_mut();
            let pools: BTreeMap<Uuid, (Arc<OpenPool>, u64)> = live
                .pools
                .values()
                .map(|open| (open.pool.id(), (open.clone(), open.pool.status().position.sequence)))
                .collect();
            for target in live.targets.values_mut() {
                for (number, lun) in &mut target.luns {
                    let size_bytes = lun.unit.target().info().geometry.size_bytes;
                    if size_bytes < lun.size_bytes {
                        // What copies were promised of the end is gone.
                        lun.unit.target().object().mark_changed(size_bytes..lun.size_bytes);
                    }
                    lun.size_bytes = size_bytes;
                    lun.unit.size_changed();
                    let Some(known) = target.known.luns.get(number) else { continue };
                    let Some((open, sequence)) = pools.get(&known.pool) else { continue };
                    let ground = Ground::of(&known.on);
                    let threshold_percent = known.alert_by(&usual);
                    if lun.unit.settings().thin && lun.room.is_due(ground, *sequence, threshold_percent) {
                        lun.room = RoomTold { at: Some(Instant::now()), sequence: *sequence, threshold_percent };
                        let of_ground = due
                            .entry((known.pool, ground))
                            .or_insert_with(|| Due { open: open.clone(), units: Vec::new() });
                        of_ground.units.push((lun.unit.clone(), threshold_percent));
                    }
                }
            }
        }
        for ((_, ground), Due { open, units }) in due {
            let found = self.blocking(move || use_of(&open, ground)).await?;
            for (unit, threshold_percent) in units {
                let room = found.map(|Use { used_bytes, available_bytes }| Room {
                    used_bytes,
                    available_bytes,
                    threshold_percent,
                });
                unit.set_room(room);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
