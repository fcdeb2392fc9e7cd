//! A volume made smaller while it is in use, then its space with it, where that is its own.
//!
//! Invariant: the space becomes smaller only after the volume has. Cut short before that, the volume has its old size;
//! after that, repeating it ends what is left.

use std::sync::Arc;

use holdfast_api::{ApiError, Code, JobKind, ShrinkVolume, VolumeShrunk};
use holdfast_device::Durability;
use holdfast_model::ByteSize;
use holdfast_space::Space;

use super::control::Control;
use super::spec::{Cut, JobSpec, Outcome, Site, Target};
use super::steered::Steered;
use super::volumes::{failed, volume_of};
use crate::engine::Engine;
use crate::error::{ApiResult, from_space};

/// Bytes that are given back to a space at once.
const DISCARD_BYTES: u64 = 1 << 30;

impl Engine {
    /// Makes a volume smaller while it is in use: answers with the job that does it, the one that is there already if
    /// there is one, and with none if it has that size.
    ///
    /// # Errors
    /// If there is no such volume, it cannot become as small, another job goes over it, or the job cannot be written
    /// down; nothing is changed then.
    pub async fn shrink_volume(self: &Arc<Self>, path: String, request: ShrinkVolume) -> ApiResult<VolumeShrunk> {
        self.change(move |engine| async move {
            let (open, known) = engine.open_volume_at(&path)?;
            let target = Target::volume(&open, known.id, &known.name);
            let spec = JobSpec { size_bytes: Some(request.size_bytes), ..JobSpec::new(JobKind::Shrink, target) };
            let unlike = engine.refuse_unlike(format!("volume {path}"), &spec, "shrinks it to another size");
            unlike.map_err(|refused| refused.at("size_bytes"))?;
            engine.refuse_beside(&path, &spec, |_| true)?;
            if engine.jobs.like(&spec).is_none() && !engine.has_to_shrink(&path, request.size_bytes).await? {
                return Ok(VolumeShrunk { changed: false, volume: engine.volume(&path)?, job: None });
            }
            let answer = engine.add_job(spec, request.pace)?;
            Ok(VolumeShrunk { changed: answer.changed, volume: engine.volume(&path)?, job: Some(answer.job) })
        })
        .await
    }
}

/// Shrinks a volume, and what it lies on.
pub(super) async fn run(site: &Site, spec: &JobSpec, control: &Control) -> Result<Outcome, Cut> {
    let (target, size_bytes) = (&spec.target, spec.size_bytes.unwrap_or(u64::MAX));
    let volume = volume_of(site, target)?;
    let plan = volume.plan_shrink(size_bytes).await.map_err(|error| failed(target, &error))?;
    control.progress.expect(plan.data_bytes + plan.metadata_bytes);
    let steps = Steered::new(control);
    match volume.shrink(size_bytes, &steps).await {
        Err(_) if steps.is_stopped() => return Err(Cut::Stopped),
        shrunk => shrunk.map_err(|error| failed(target, &error))?,
    };
    let size_bytes = volume.size_bytes();
    let moved = ByteSize(steps.done_bytes());
    let has = format!("the volume has {}, {moved} moved", ByteSize(size_bytes));
    let Some((space, is_own)) = site.open.space_under(target.id) else {
        return Ok(Outcome { result: has, findings: Vec::new() });
    };
    let name = space.record().name;
    let result = if is_own {
        trim(target, &space, size_bytes, &has).await?;
        format!("{has}; its space {}/{name} has as much", site.open.name())
    } else {
        give_back(target, &space, size_bytes).await?;
        format!(
            "{has}; space {}/{name} keeps {}: what the volume gave up of it is free for the volume to grow again",
            site.open.name(),
            ByteSize(space.record().size_bytes)
        )
    };
    Ok(Outcome { result, findings: Vec::new() })
}

/// Makes the space as small as the volume, which needs nothing beyond.
async fn trim(target: &Target, space: &Space, size_bytes: u64, has: &str) -> Result<(), Cut> {
    if space.record().size_bytes <= size_bytes {
        return Ok(());
    }
    let trimmed = space.shrink(size_bytes, true).await;
    trimmed.map(drop).map_err(|error| {
        let text = format!("{has}, but its space could not be made smaller: {error}");
        Cut::Failed(ApiError::new(Code::Failed, target.object(), text, "repeat the shrink to end it"))
    })
}

/// Tells the space that the volume needs nothing of its end.
async fn give_back(target: &Target, space: &Space, from_bytes: u64) -> Result<(), Cut> {
    let end = space.record().size_bytes;
    let mut at = from_bytes;
    while at < end {
        let some = (end - at).min(DISCARD_BYTES);
        let told = space.discard(at, some, Durability::Cached).await;
        told.map_err(|error| Cut::Failed(from_space(target.object(), error)))?;
        at += some;
    }
    Ok(())
}
