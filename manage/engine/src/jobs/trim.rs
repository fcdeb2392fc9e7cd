//! Free room of a volume, given back to the thin space that it lies on.
//!
//! Invariant: what is told as given back is what the space has taken less afterwards, not what it was told.

use std::sync::Arc;

use holdfast_api::{ApiError, JobChanged, JobKind, SetPace};
use holdfast_model::{ByteSize, Provisioning};
use holdfast_space::Pace;

use super::spec::{Cut, Outcome, Site, Target};
use super::volumes::{until_cancelled, volume_of};
use crate::engine::Engine;
use crate::error::{ApiResult, conflict};

impl Engine {
    /// Gives free room of a volume back to its thin space: answers with the job that does it, the one that is there
    /// already if there is one.
    ///
    /// # Errors
    /// If there is no such volume, its space is fixed, or the job cannot be written down.
    pub async fn trim_volume(self: &Arc<Self>, path: String, request: SetPace) -> ApiResult<JobChanged> {
        self.change(move |engine| async move {
            let (open, known) = engine.open_volume_at(&path)?;
            let below = open.space_under(known.id).map(|(space, _)| space.record());
            if let Some(space) = below.filter(|space| space.provisioning == Provisioning::Fixed) {
                let name = format!("{}/{}", open.name(), space.name);
                let message = format!("its space {name} is fixed and keeps all its room");
                let next = format!("'holdfast space convert {name} --thin' makes it thin");
                return Err(ApiError::invalid(format!("volume {path}"), message, next));
            }
            engine.add_job_in_use(&path, JobKind::Trim, request)
        })
        .await
    }
}

/// Gives free room back.
pub(super) async fn run(site: &Site, target: &Target, pace: &dyn Pace) -> Result<Outcome, Cut> {
    let volume = volume_of(site, target)?;
    let gone = || Cut::Failed(conflict(target.object(), "its space is not open", "see the health of its pool"));
    let (space, _) = site.open.space_under(target.id).ok_or_else(gone)?;
    let before = space.status().allocated_bytes;
    until_cancelled(pace, (&volume, target), volume.trim()).await?;
    let after = space.status().allocated_bytes;
    let result = format!(
        "{} given back; space {}/{} takes {} now",
        ByteSize(before.saturating_sub(after)),
        site.open.name(),
        space.record().name,
        ByteSize(after)
    );
    Ok(Outcome { result, findings: Vec::new() })
}
