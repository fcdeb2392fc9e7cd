//! Files of a volume made as a snapshot has them, while the volume is in use.
//!
//! Invariant: unless that is not wanted, what was there before is in a snapshot of its own before anything is changed.
//! One that is cut short goes on with what is not as it was yet.

use std::pin::Pin;
use std::sync::Arc;

use holdfast_api::{ApiError, Code, JobChanged, JobKind, RestoreSnapshot, Severity};
use holdfast_model::{ByteSize, counted};
use holdfast_volume::service::FileKind;
use holdfast_volume::{ErrorKind, Volume};
use jiff::Timestamp;

use super::control::{Control, ResumePoint};
use super::spec::{Cut, JobSpec, Outcome, Restoring, Site, Target};
use super::steered::Steered;
use super::volumes::volume_of;
use crate::engine::Engine;
use crate::error::{ApiResult, conflict};
use crate::volumes::{
    BEFORE, Notice, Revert, Unreverted, disks_within, find_any, from_snapshot, from_volume, in_use, no_file, stamp,
};

impl Engine {
    /// Has files of a volume be as a snapshot has them: answers with the job that does it, the one that is there already
    /// if there is one.
    ///
    /// # Errors
    /// If it is not confirmed, there is no such volume, snapshot or file, something is where it is to go, another job goes
    /// over the volume, or the job cannot be written down; nothing is changed then.
    pub async fn restore_snapshot(
        self: &Arc<Self>,
        path: String,
        name: String,
        request: RestoreSnapshot,
        confirmed: bool,
    ) -> ApiResult<JobChanged> {
        self.change(move |engine| async move {
            let object = format!("snapshot {path}@{name}");
            engine.snapshot(&path, &name)?;
            for (asked, field) in [(Some(&request.path), "path"), (request.to.as_ref(), "to")] {
                if asked.is_some_and(|asked| !asked.starts_with('/')) {
                    let next = "write the path from the volume's root on, as /projects; / is all of it";
                    let refused = ApiError::invalid(&object, "the path does not begin at the volume's root", next);
                    return Err(refused.at(field));
                }
            }
            if let Some(refused) = request.to.as_deref().and_then(|to| no_place(&object, to)) {
                return Err(refused.at("to"));
            }
            if !confirmed && request.to.is_none() {
                let kept = if request.keep { "; a snapshot keeps it" } else { ", and lost" };
                let what = if request.path == "/" { "the files of the volume" } else { "what is there" };
                let message = format!("{what} would be replaced{kept}");
                return Err(crate::error::not_confirmed(object, message, "repeat with --yes"));
            }
            let (open, known) = engine.open_volume_at(&path)?;
            let target = Target::volume(&open, known.id, &known.name);
            let keep = (request.keep && request.to.is_none()).then(|| engine.free_name(&path)).transpose()?;
            let restoring = Restoring { snapshot: name.clone(), path: request.path, to: request.to, keep };
            let spec = JobSpec { restoring: Some(restoring), ..JobSpec::new(JobKind::Restore, target) };
            engine.refuse_unlike(format!("volume {path}"), &spec, "restores other files of it")?;
            let is_other = |other| {
                matches!(other, JobKind::Spotfix | JobKind::SpotfixOffline | JobKind::Salvage | JobKind::Shrink)
            };
            engine.refuse_beside(&path, &spec, is_other)?;
            if engine.jobs.like(&spec).is_none() {
                engine.check_restore(&path, spec.restoring.as_ref()).await?;
            }
            engine.add_job(spec, request.pace)
        })
        .await
    }

    /// A name for a snapshot of what is there before, which none has. A job that is taken up again finds it made.
    fn free_name(&self, path: &str) -> ApiResult<String> {
        let known = self.snapshots(path)?;
        let name = format!("{BEFORE}{}", stamp(Timestamp::now()));
        let mut names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
        let free = names.find(|name| known.iter().all(|one| one.name != *name));
        Ok(free.expect("there are fewer snapshots than numbers"))
    }

    /// Refuses what cannot be restored.
    async fn check_restore(&self, path: &str, restoring: Option<&Restoring>) -> ApiResult<()> {
        let Some(Restoring { snapshot, path: below, to, .. }) = restoring.cloned() else { return Ok(()) };
        let (open, known) = self.open_volume_at(path)?;
        let object = format!("volume {path}");
        let gone = || conflict(&object, "it is not open", "see the health of its pool");
        let volume = open.volume_of(known.id).ok_or_else(gone)?;
        let serving = volume.clone();
        let (asked, from, towards) = (snapshot.clone(), below.clone(), to.clone());
        let found = self.on_reactor(move || async move {
            let view = volume.open_snapshot(&asked)?;
            let file = find_any(&*view, &from).await?;
            let Some(to) = towards else { return Ok((file.is_some(), None)) };
            let parent = to.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
            let directory = find_any(&*volume, &parent).await?;
            let there = find_any(&*volume, &to).await?;
            let is_directory = directory.is_some_and(|facts| facts.kind == FileKind::Directory);
            Ok((file.is_some(), Some((is_directory, there.is_some()))))
        });
        let (is_there, goes) = found.await?.map_err(|error| from_snapshot(path, &snapshot, &error))?;
        if !is_there {
            return Err(no_file(path, &snapshot, &below));
        }
        if to.is_none() {
            self.refuse_restored_disks(serving, &below, &object).await?;
        }
        let to = to.unwrap_or_default();
        match goes {
            Some((_, true)) => Err(in_the_way(&object, &to).at("to")),
            Some((false, _)) => {
                let message = format!("{to} is in no directory that is there");
                Err(ApiError::invalid(object, message, "make the directory first").at("to"))
            }
            _ => Ok(()),
        }
    }
}

/// Why nothing is made at a path, if that is so.
fn no_place(object: &str, to: &str) -> Option<ApiError> {
    let names: Vec<&str> = to.split('/').filter(|name| !name.is_empty()).collect();
    let refuse = |message: String| Some(ApiError::invalid(object, message, "choose another place"));
    if names.first().is_some_and(|name| name.as_bytes() == holdfast_volume::SNAPSHOTS) {
        return refuse(format!("{to} leads to the snapshots of the volume"));
    }
    match names.iter().find(|name| matches!(**name, "." | "..") || name.len() > holdfast_volume::MAX_NAME_BYTES) {
        Some(name) if name.len() > 2 => {
            refuse(format!("a name of {} bytes is too long: {} at most", name.len(), holdfast_volume::MAX_NAME_BYTES))
        }
        Some(name) => refuse(format!("{name:?} is no name")),
        None if names.is_empty() => refuse("the root is there already".into()),
        None => None,
    }
}

fn in_the_way(object: &str, path: &str) -> ApiError {
    conflict(object, format!("{path} is there already, and is in the way"), "rename it, or choose another place")
}

/// Has a snapshot keep what is there before anything is changed. One that is taken up again holds on to the snapshot that
/// it made: another would have what it changed already.
async fn keep_before(
    site: &Site,
    target: &Target,
    control: &Control,
    (volume, name, keep): (&Volume, &str, &str),
) -> Result<(), Cut> {
    let about = |error: &holdfast_volume::VolumeError| Cut::Failed(from_snapshot(name, keep, error));
    let known = volume.snapshots().into_iter().find(|known| known.name == *keep).map(|known| known.generation);
    let kept = match (control.resume_point().and_then(|point| point.kept), known) {
        (Some(made), known) if known != Some(made) => {
            let message = "it had what was there before files were restored, and is gone; a part of them is restored";
            let next = "restore the rest with --discard, which keeps nothing of what is there now";
            return Err(Cut::Failed(conflict(format!("snapshot {name}@{keep}"), message, next)));
        }
        // Made just before it was cut short.
        (_, Some(known)) => known,
        (_, None) => {
            let (open, id) = (site.open.clone(), target.id);
            let lacks = site.outside(async move { open.hand_over_mapped(id).await }).await?.map_err(Cut::Failed)?;
            if let Some(lacks) = lacks {
                // At once: its end may be far, and behind a restart.
                let cause = format!("snapshot {keep}, which keeps what was there before a restore: {}", lacks.cause);
                site.events.emit(Severity::Warning, &target.object(), &cause, &lacks.next_action);
            }
            volume.create_snapshot(keep).await.map_err(|error| about(&error))?.generation
        }
    };
    control.set_resume_point(Some(ResumePoint { kept: Some(kept), ..ResumePoint::default() }));
    Ok(())
}

/// Restores.
pub(super) async fn run(site: &Site, spec: &JobSpec, control: &Control) -> Result<Outcome, Cut> {
    let target = &spec.target;
    let Some(Restoring { snapshot, path, to, keep }) = &spec.restoring else {
        let text = "it does not say what is to be restored";
        return Err(Cut::Failed(ApiError::new(Code::Failed, target.object(), text, "start a new job")));
    };
    let volume = volume_of(site, target)?;
    let name = site.open.volume_name(target.id);
    let about = |named: &str, error: &holdfast_volume::VolumeError| Cut::Failed(from_snapshot(&name, named, error));
    if to.is_none() {
        // A file may have become one since the job was asked for.
        let disks = disks_within(&volume, &site.luns, path).await.map_err(|error| about(snapshot, &error))?;
        if !disks.is_empty() {
            return Err(Cut::Failed(in_use(&target.object().to_string(), &disks)));
        }
    }
    if let Some(keep) = keep {
        keep_before(site, target, control, (&volume, &name, keep)).await?;
    }
    let view = volume.open_snapshot(snapshot).map_err(|error| about(snapshot, &error))?;
    let steps = Steered::new(control);
    let notifier = site.open.notifier_of(target.id);
    let tell = |notices: Vec<Notice>| -> Pin<Box<dyn Future<Output = ()>>> {
        let Some(notifier) = notifier.clone().filter(|_| !notices.is_empty()) else { return Box::pin(async {}) };
        // The kernel may wait for what a reactor serves.
        let told = site.runtime.spawn_blocking(move || {
            notices.into_iter().for_each(|notice| match notice {
                Notice::File(id) => notifier.file_changed(id),
                Notice::Name(dir, name) => notifier.name_changed(dir, &name),
            });
        });
        Box::pin(async move {
            if let Err(error) = told.await {
                tracing::warn!("the kernel was not told of restored files: {error}");
            }
        })
    };
    let done = Revert::new((snapshot, &view), &volume, &steps, &tell).run(path, to.as_deref()).await;
    let object = target.object().to_string();
    let done = match done {
        Ok(done) => done,
        Err(Unreverted::Stopped) => return Err(Cut::Stopped),
        Err(Unreverted::NoFile) => return Err(Cut::Failed(no_file(&name, snapshot, path))),
        Err(Unreverted::InTheWay(path)) => return Err(Cut::Failed(in_the_way(&object, &path))),
        Err(Unreverted::Failed(failed)) => {
            let mut told = from_volume(object, &failed.error);
            told.message = format!("{}: {}; {}", failed.at, told.message, failed.extent());
            if failed.error.kind == ErrorKind::Busy {
                told.next_action = "'holdfast lun remove' first".into();
            }
            if told.code == Code::NoSpace {
                told.next_action = "destroy snapshots that are not needed, or let the volume grow".into();
            }
            told.next_action = format!("{}; repeat the restore, which goes on where it was", told.next_action);
            if let Some(keep) = keep {
                let undo = format!("snapshot {keep} has all that was there before, to go back to that");
                told.next_action = format!("{}; {undo}", told.next_action);
            }
            return Err(Cut::Failed(told));
        }
    };
    let restored = counted(done.restored, "file or directory", "files and directories");
    let mut result = format!("{restored} restored, {} written, {} removed", ByteSize(done.bytes), done.removed);
    if let Some(keep) = keep {
        result = format!("{result}; snapshot {keep} has what was there before");
    }
    Ok(Outcome { result, findings: Vec::new() })
}
