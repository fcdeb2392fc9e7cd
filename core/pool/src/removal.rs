//! Disks that leave the pool for good, and what is done about those that are lost.
//!
//! Invariant: a disk leaves when no slab is on it, by one change that also takes its vote, and its number is never
//! given again. Its labels go last: until then, and if it is away, the configuration tells that it is none of
//! the pool's.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::{DiskState, Usage, Uuid};

use crate::change::Change;
use crate::committer::Guard;
use crate::config::Config;
use crate::ending::wipe;
use crate::event::Severity;
use crate::pool::Pool;
use crate::quorum::Votes;
use crate::record::{DiskRecord, LossPolicy, RowRecord};
use crate::{PoolError, PoolErrorKind};

impl Pool {
    /// Takes a disk out of the pool for good, also one that is away. Answers whether its labels were wiped: if not, it
    /// is away or cannot be written.
    ///
    /// # Errors
    /// No such disk, one that holds slabs, the last one that votes, or no quorum.
    pub async fn remove_disk(&self, id: Uuid) -> Result<bool, PoolError> {
        let _admin = self.admin.lock().await;
        let known = self.retire_for_good(id).await?;
        let label = self.disk_label(known.index);
        let disk = self.disk(known.index);
        let there = disk.as_ref().is_some_and(|disk| disk.in_service()) || known.state == DiskState::Failed;
        let device = disk.as_ref().filter(|_| there).and_then(|disk| disk.device());
        if !self.commit(vec![Change::DiskGone(known.index)], Guard::None).await? {
            return Err(PoolError::new(
                PoolErrorKind::Conflict,
                format!("disk {label} of pool {} got slabs in the meantime: try again", self.name()),
            ));
        }
        self.committer.lock().await.logs.remove(&known.index);
        disk.iter().for_each(|disk| disk.detach());
        let Some(device) = device else { return Ok(false) };
        let wiped = wipe(&device).await;
        if let Err(error) = &wiped {
            let cause = format!("was removed from pool {}, but its labels could not be wiped: {error}", self.name());
            self.emit(Severity::Warning, known.object(), cause, "wipe it before you use it again");
        }
        Ok(wiped.is_ok())
    }

    /// Sees that a disk may leave, and that nothing is allotted on it any more.
    async fn retire_for_good(&self, id: Uuid) -> Result<DiskRecord, PoolError> {
        loop {
            let known = self.disk_record(id).ok_or_else(|| {
                PoolError::new(PoolErrorKind::NotFound, format!("disk {id} is not in pool {}", self.name()))
            })?;
            self.check_removal(&known)?;
            if known.usage == Usage::Retired {
                return Ok(known);
            }
            let retired = DiskRecord { usage: Usage::Retired, ..known.clone() };
            self.commit(vec![Change::Disk(retired)], Guard::Known(Box::new(known))).await?;
        }
    }

    fn check_removal(&self, disk: &DiskRecord) -> Result<(), PoolError> {
        let state = self.state();
        let (config, label) = (&state.config, disk.label());
        let refuse = |why: String| Err(PoolError::new(PoolErrorKind::Conflict, why));
        let held = slabs_by_space(config, disk.index);
        if !held.is_empty() {
            let slabs: usize = held.values().sum();
            let name = |space: &u32| format!("{}/{}", self.name(), config.spaces[space].record.name);
            let spaces = held.keys().map(name).collect::<Vec<_>>().join(", ");
            let next = match disk.state {
                DiskState::Online => format!("move them with 'holdfast disk evacuate {label}'"),
                _ if held.keys().any(|space| has_lost_rows(config, *space, disk.index)) => {
                    "some can only be read from it: attach it again, or give these spaces up with 'holdfast disk replace --give-up'".into()
                }
                _ => "rebuild them elsewhere with 'holdfast space repair', or attach the disk again".into(),
            };
            return refuse(format!(
                "disk {label} of pool {} holds {slabs} slabs of {spaces}: {next} first",
                self.name()
            ));
        }
        let votes = Votes::of(config).after([Change::DiskGone(disk.index)].iter());
        let others: BTreeSet<u16> = (config.disks.values())
            .filter(|other| other.state == DiskState::Online && other.index != disk.index)
            .map(|other| other.index)
            .collect();
        if !votes.carried(&others, true) {
            return refuse(format!(
                "without disk {label} pool {} would have no quorum: add or attach other disks first, or destroy the pool",
                self.name()
            ));
        }
        Ok(())
    }

    /// Slabs that a disk holds.
    pub fn slabs_on(&self, id: Uuid) -> usize {
        let state = self.state();
        let disk = state.config.disks.values().find(|disk| disk.id == id);
        disk.map_or(0, |disk| slabs_by_space(&state.config, disk.index).values().sum())
    }

    /// What is done about lost disks.
    pub fn loss_policy(&self) -> LossPolicy {
        self.state().config.loss_policy
    }

    /// Changes what is done about lost disks; false if it was so already.
    ///
    /// # Errors
    /// No quorum.
    pub async fn set_loss_policy(&self, policy: LossPolicy) -> Result<bool, PoolError> {
        let _admin = self.admin.lock().await;
        if self.loss_policy() == policy {
            return Ok(false);
        }
        self.commit(vec![Change::LossPolicy(policy)], Guard::None).await
    }
}

/// Whether a row of a space that has a slab on a disk cannot be read now.
fn has_lost_rows(config: &Config, space: u32, disk: u16) -> bool {
    let rows = config.spaces.get(&space).into_iter().flat_map(|space| space.rows.values());
    rows.filter(|row| row.slabs.iter().any(|slab| slab.disk() == disk)).any(|row| !config.can_read(row))
}

/// How many slabs of each space a disk holds.
fn slabs_by_space(config: &Config, disk: u16) -> BTreeMap<u32, usize> {
    let count = |rows: &BTreeMap<u32, RowRecord>| {
        rows.values().filter(|row| row.slabs.iter().any(|slab| slab.disk() == disk)).count()
    };
    config.spaces.iter().map(|(id, space)| (*id, count(&space.rows))).filter(|(_, slabs)| *slabs > 0).collect()
}
