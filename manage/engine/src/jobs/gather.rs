//! Files of a volume that lie scattered brought together, while the volume is in use.
//!
//! Invariant: what a job moved stays moved when it ends early, and one that begins again passes over it.

use std::sync::Arc;

use holdfast_api::{JobChanged, JobKind, SetPace};
use holdfast_model::{BLOCK_BYTES, ByteSize, counted};
use holdfast_space::Pace;
use holdfast_volume::GatherFrom;

use super::control::Control;
use super::spec::{Cut, Outcome, Site, Target};
use super::volumes::{failed, volume_of};
use crate::engine::Engine;
use crate::error::ApiResult;

/// Bytes that are moved in one step.
const STEP_BYTES: u64 = 4 << 20;

impl Engine {
    /// Brings together what lies scattered of a volume's files: answers with the job that does it, the one that is there
    /// already if there is one.
    ///
    /// # Errors
    /// If there is no such volume, another job goes over it, or the job cannot be written down.
    pub async fn gather_volume(self: &Arc<Self>, path: String, request: SetPace) -> ApiResult<JobChanged> {
        self.change(move |engine| async move { engine.add_job_in_use(&path, JobKind::Gather, request) }).await
    }
}

/// Gathers.
pub(super) async fn run(site: &Site, target: &Target, control: &Control) -> Result<Outcome, Cut> {
    let volume = volume_of(site, target)?;
    let (mut moved, mut before, mut after, mut left, mut unreadable) = (0, 0, 0, 0, 0);
    let mut next = Some(GatherFrom::default());
    while let Some(from) = next {
        control.step(STEP_BYTES).await.map_err(|_| Cut::Stopped)?;
        let done = volume.gather(from, STEP_BYTES).await.map_err(|error| failed(target, &error))?;
        control.done(done.moved * BLOCK_BYTES);
        (moved, before, after) = (moved + done.moved, before + done.pieces_before, after + done.pieces_after);
        (left, unreadable) = (left + done.left, unreadable + done.unreadable);
        next = done.next;
    }
    // Their old places are free in a root without them.
    volume.checkpoint().await.map_err(|error| failed(target, &error))?;
    let mut result = match moved {
        0 => "nothing lies scattered that could be moved".to_owned(),
        _ => format!(
            "{} that lay in {} {} in {after} now",
            ByteSize(moved * BLOCK_BYTES),
            counted(before, "piece", "pieces"),
            if after == 1 { "lies" } else { "lie" }
        ),
    };
    if left > 0 {
        let places = counted(left, "place stays", "places stay");
        result = format!("{result}; {places} scattered, as no room in one run is left");
    }
    if unreadable > 0 {
        result = format!("{result}; {} could not be read: scan the volume", counted(unreadable, "place", "places"));
    }
    Ok(Outcome { result, findings: Vec::new() })
}
