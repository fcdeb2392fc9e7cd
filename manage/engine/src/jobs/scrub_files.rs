//! All data of a volume that has checksums of its own read, in every copy, while the volume is in use.
//!
//! Invariant: what a scrub found when it came to its end is known to be lost, and so is what was known before unless it is
//! right now; that is durable when the job says so.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::{ApiError, Code, JobChanged, JobKind, SetPace, Severity};
use holdfast_model::{BLOCK_BYTES, ByteSize, counted};
use holdfast_space::Pace;
use holdfast_volume::ScrubFrom;

use super::control::Control;
use super::spec::{Cut, Finding, Outcome, Site, Target};
use super::volumes::{failed, volume_of};
use crate::engine::Engine;
use crate::error::ApiResult;
use crate::volumes::LostBlock;

/// Bytes that are read in one step.
const STEP_BYTES: u64 = 4 << 20;

impl Engine {
    /// Reads all data of a volume that has checksums of its own: answers with the job that does it, the one that is there
    /// already if there is one.
    ///
    /// # Errors
    /// If there is no such volume, another job goes over it, or the job cannot be written down.
    pub async fn scrub_volume(self: &Arc<Self>, path: String, request: SetPace) -> ApiResult<JobChanged> {
        self.change(move |engine| async move { engine.add_job_in_use(&path, JobKind::ScrubFiles, request) }).await
    }
}

/// Puts strict files right that lie on spaces without checksums whose rows are about to be moved: of copies that differ these
/// would take any. A volume that cannot be scrubbed keeps no row where it is; what is found goes the way of what reads find.
pub(super) async fn before_moving(site: &Site, kind: JobKind, control: &Control) -> Result<(), Cut> {
    for id in site.open.volumes_on_bare(&site.spaces, kind == JobKind::Convert) {
        let mut next = Some(ScrubFrom::default());
        while let Some(from) = next {
            control.step(STEP_BYTES).await.map_err(|_| Cut::Stopped)?;
            let Some(volume) = site.open.volume_in_use(id) else { break };
            next = match volume.scrub(from, STEP_BYTES).await {
                Ok(done) => done.next,
                Err(error) => {
                    tracing::warn!("volume {id} is not scrubbed before rows of its space move: {error}");
                    None
                }
            };
        }
    }
    Ok(())
}

/// Scrubs.
pub(super) async fn run(site: &Site, target: &Target, control: &Control) -> Result<Outcome, Cut> {
    let volume = volume_of(site, target)?;
    let (mut checked, mut healed, mut unsummed, mut unreadable) = (0, 0, 0, 0);
    let mut lost: BTreeSet<LostBlock> = BTreeSet::new();
    let mut next = Some(ScrubFrom::default());
    while let Some(from) = next {
        control.step(STEP_BYTES).await.map_err(|_| Cut::Stopped)?;
        let done = volume.scrub(from, STEP_BYTES).await.map_err(|error| failed(target, &error))?;
        control.done(done.checked * BLOCK_BYTES);
        (checked, healed) = (checked + done.checked, healed + done.healed);
        (unsummed, unreadable) = (unsummed + done.unsummed, unreadable + done.unreadable);
        lost.extend(done.damaged.iter().filter_map(LostBlock::of));
        next = done.next;
    }
    // Those that it did not come by: of files that it leaves alone, and under metadata that cannot be read.
    let (mut elsewhere, mut whole) = (0, BTreeSet::new());
    for block in site.open.known_lost(target.id).difference(&lost) {
        if block.is_still(&volume).await.map_err(|error| failed(target, &error))? {
            elsewhere += 1;
        } else {
            whole.insert(*block);
        }
    }
    site.open.note_scrubbed(target.id, &lost, &whole).await.map_err(|error| {
        let next = "see the health of its pool, and scrub again";
        Cut::Failed(ApiError::new(Code::Failed, target.object(), format!("what was found is not kept: {error}"), next))
    })?;
    let mut result = format!("{} of data with checksums read", ByteSize(checked * BLOCK_BYTES));
    if healed > 0 {
        result = format!("{result}; {} written anew from another copy", counted(healed, "block", "blocks"));
    }
    if !lost.is_empty() {
        result = format!("{result}; {} right in no copy", counted(lost.len() as u64, "block is", "blocks are"));
    }
    if elsewhere > 0 {
        result = format!("{result}; {elsewhere} known before, which it left out, may still be lost");
    }
    if unsummed > 0 {
        result = format!("{result}; {} of strict files have no checksums", counted(unsummed, "block", "blocks"));
    }
    if unreadable > 0 {
        result = format!("{result}; metadata is damaged, scan the volume");
    }
    if healed == 0 && lost.is_empty() && elsewhere == 0 && unreadable == 0 {
        result.push_str("; all of it is right");
    }
    let name = site.open.volume_name(target.id);
    let told = (!lost.is_empty()).then(|| Finding {
        severity: Severity::Error,
        cause: format!("scrub: {} right in no copy", counted(lost.len() as u64, "block is", "blocks are")),
        next_action: format!(
            "'holdfast volume damage {name}' lists them; restore these files from a snapshot or backup"
        ),
    });
    Ok(Outcome { result, findings: told.into_iter().collect() })
}
