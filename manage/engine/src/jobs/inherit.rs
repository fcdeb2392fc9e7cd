//! Permissions of a directory handed on to what is below, while the volume is in use.
//!
//! Invariant: a walk that ends handed on what the directory had from its beginning to its end. Where other permissions are
//! set meanwhile, or another directory is at the path, it begins again.

use std::sync::Arc;

use holdfast_api::{ApiError, Code};
use holdfast_identity::SecurityDescriptor;
use holdfast_model::counted;
use holdfast_space::Pace;
use holdfast_volume::service::{FileId, FileKind, FileService};
use holdfast_volume::{Reinheriting, Volume};

use super::control::Control;
use super::spec::{Cut, JobSpec, Outcome, Site, Target};
use super::volumes::{failed, volume_of};
use crate::volumes::{administrator, find};

/// Files that are looked at in one step.
const AT_ONCE: usize = 256;
/// What a file counts for, in bytes.
const FILE_BYTES: u64 = 4096;

/// The directory at a path, and the permissions that it has now.
async fn handed_on(volume: &Volume, target: &Target, path: &str) -> Result<(FileId, SecurityDescriptor), Cut> {
    let found = find(volume, path).await.map_err(|error| failed(target, &error))?;
    let Some(directory) = found.filter(|found| found.kind == FileKind::Directory) else {
        let text = format!("{path} is no directory any more");
        return Err(Cut::Failed(ApiError::new(Code::Failed, target.object(), text, "set the permissions anew")));
    };
    let descriptor = volume.security(&administrator(), directory.id).await.map_err(|error| failed(target, &error))?;
    Ok((directory.id, descriptor))
}

/// Hands them on.
pub(super) async fn run(site: &Site, spec: &JobSpec, control: &Control) -> Result<Outcome, Cut> {
    let target = &spec.target;
    let volume: Arc<Volume> = volume_of(site, target)?;
    let path = spec.path.as_deref().unwrap_or("/");
    let mut from = handed_on(&volume, target, path).await?;
    let mut walk = Reinheriting::below(from.0);
    while !walk.is_over() {
        control.step(AT_ONCE as u64 * FILE_BYTES).await.map_err(|_| Cut::Stopped)?;
        volume.reinherit(&administrator(), &mut walk, AT_ONCE).await.map_err(|error| failed(target, &error))?;
        control.done(AT_ONCE as u64 * FILE_BYTES);
        // Taken before the look: who asks after it asks for one more walk.
        let is_asked_anew = control.takes_anew();
        let now = handed_on(&volume, target, path).await?;
        if is_asked_anew || now != from {
            walk = Reinheriting::below(now.0);
            from = now;
        }
    }
    volume.sync().await.map_err(|error| failed(target, &error))?;
    if let Some(notifier) = site.open.notifier_of(target.id) {
        let id = from.0;
        site.outside(async move { drop(tokio::task::spawn_blocking(move || notifier.file_changed(id)).await) }).await?;
    }
    let changed = counted(walk.changed(), "file or directory has", "files and directories have");
    let mut result = format!("{changed} other permissions");
    if walk.refused() > 0 {
        result = format!("{result}; {} could not be changed", walk.refused());
    }
    if walk.protected() > 0 {
        let protected =
            counted(walk.protected(), "is protected and was left as it is", "are protected and were left as they are");
        result = format!("{result}; {protected}");
    }
    Ok(Outcome { result, findings: Vec::new() })
}
