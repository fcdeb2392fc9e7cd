//! What a shrink of a volume would do, before anything is done.

use std::sync::Arc;

use holdfast_api::{ApiError, Code, JobKind, ShrinkVolume, VolumeShrinkPlan};
use holdfast_model::{ByteSize, Uuid};
use holdfast_space::Space;
use holdfast_volume::{ErrorKind, ShrinkPlan};

use super::from_volume;
use super::known::KnownVolume;
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict};
use crate::jobs::{JobSpec, Target};

impl OpenPool {
    /// The space of the volume with this id, and whether it was made for it.
    pub(crate) fn space_under(&self, id: Uuid) -> Option<(Arc<Space>, bool)> {
        let (space, is_own) = {
            let volumes = self.volumes();
            let known = &volumes.values().find(|volume| volume.known.id == id)?.known;
            (known.space, known.owns_space)
        };
        Some((self.space_with(space)?, is_own))
    }
}

impl Engine {
    /// Refuses another change of the size while a job shrinks the volume.
    pub(super) fn refuse_while_shrinking(&self, open: &OpenPool, known: &KnownVolume, object: &str) -> ApiResult<()> {
        let shrink = JobSpec::new(JobKind::Shrink, Target::volume(open, known.id, &known.name));
        let Some(job) = self.jobs.like(&shrink) else { return Ok(()) };
        let next = format!("wait for its end, or 'holdfast job cancel {job}'");
        Err(conflict(object, format!("job {job} shrinks it"), next))
    }

    async fn shrink_of(&self, path: &str, size_bytes: u64) -> ApiResult<(ShrinkPlan, bool)> {
        let (open, name, object) = self.volume_at(path)?;
        let (known, volume) = open.open_volume_named(&name, &object)?;
        let planned = self.on_reactor(move || async move { volume.plan_shrink(size_bytes).await }).await?;
        Ok((planned.map_err(|error| from_volume(object, &error))?, known.owns_space))
    }

    /// What a shrink would move, and what would be left. Nothing is changed.
    ///
    /// # Errors
    /// If there is no such volume, or it is not open.
    pub async fn plan_volume_shrink(&self, path: &str, request: &ShrinkVolume) -> ApiResult<VolumeShrinkPlan> {
        let (plan, with_space) = self.shrink_of(path, request.size_bytes).await?;
        let keeps = "its space keeps its size, as it was not created for the volume";
        Ok(VolumeShrinkPlan {
            name: path.to_owned(),
            size_bytes: plan.size_bytes,
            size_bytes_then: plan.new_size_bytes,
            least_size_bytes: plan.smallest_bytes,
            move_bytes: plan.data_bytes,
            move_metadata_bytes: plan.metadata_bytes,
            free_bytes_then: plan.free_bytes,
            with_space,
            refusal: refused(path, &plan),
            notes: if with_space { Vec::new() } else { vec![keeps.into()] },
        })
    }

    /// Whether there is anything to do for a volume to have this size, with its space.
    ///
    /// # Errors
    /// If it cannot be done.
    pub(crate) async fn has_to_shrink(&self, path: &str, size_bytes: u64) -> ApiResult<bool> {
        let (plan, with_space) = self.shrink_of(path, size_bytes).await?;
        if let Some(refused) = refused(path, &plan) {
            return Err(refused);
        }
        let (open, known) = self.open_volume_at(path)?;
        let space = open.space_under(known.id).filter(|_| with_space);
        let is_below_larger = space.is_some_and(|(space, _)| space.record().size_bytes > plan.size_bytes);
        let is_unfinished = open.volume_of(known.id).is_some_and(|volume| volume.unfinished_shrink().is_some());
        Ok(plan.new_size_bytes < plan.size_bytes || is_below_larger || is_unfinished)
    }
}

/// Why a shrink cannot be done, and what to do about it.
fn refused(path: &str, plan: &ShrinkPlan) -> Option<ApiError> {
    let refusal = plan.refusal.as_ref()?;
    let least = plan.smallest_bytes;
    let (code, next) = match refusal.kind {
        ErrorKind::NoSpace => {
            (Code::NoSpace, format!("choose at least --size {least} ({}), or remove files", ByteSize(least)))
        }
        ErrorKind::Invalid => (Code::Invalid, format!("'holdfast volume grow {path} --size SIZE' makes it larger")),
        ErrorKind::Busy => (
            Code::Conflict,
            format!("'holdfast snapshot list {path}' lists snapshots; 'holdfast job list' what gives back"),
        ),
        _ => {
            let next =
                format!("'holdfast volume findings {path}' lists them, 'holdfast volume spotfix {path}' repairs");
            (Code::Conflict, next)
        }
    };
    let refused = ApiError::new(code, format!("volume {path}"), refusal.to_string(), next);
    Some(if refusal.kind == ErrorKind::Corrupt { refused } else { refused.at("size_bytes") })
}
