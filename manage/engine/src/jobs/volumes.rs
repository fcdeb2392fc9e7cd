//! The scan of a volume, its repair, the count of what its directory trees hold, and the salvage of what can be read of
//! it.
//!
//! A scan reads all metadata and changes nothing; what it found stays with the volume until the next one. Scans and
//! repairs go on until they are done or cancelled; a pause holds back what has not begun only. A salvage reads the space
//! of a volume that is taken away from those who use it, and changes nothing on it.
//!
//! Invariant: of what is found, at most [`TOLD`] pieces become events; the result counts all.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use holdfast_api::{ApiError, Code, JobChanged, JobKind, SetPace, Severity, VolumeFinding};
use holdfast_device::reactor;
use holdfast_model::{ByteSize, Uuid, counted};
use holdfast_space::Pace;
use holdfast_volume::salvage::{Missing, Salvaged, salvage_with_copies};
use holdfast_volume::{Spotfixed, Verb, Volume, VolumeError};

use super::spec::{Cut, Finding, JobSpec, Outcome, Site, Target};
use crate::engine::Engine;
use crate::error::{ApiResult, conflict};
use crate::volumes::{Findings, Folder, check_empty, from_volume, give_back, take_away, wall_clock};

/// Findings of one scan that become events, each.
const TOLD: usize = 20;
/// How often a job looks whether it is cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Engine {
    /// Scans a volume, or repairs what scans find: answers with the job that does it, the one that is there already if
    /// there is one.
    ///
    /// # Errors
    /// If there is no such volume, or the job cannot be written down.
    pub async fn check_volume(self: &Arc<Self>, path: String, repair: bool, request: SetPace) -> ApiResult<JobChanged> {
        self.change(move |engine| async move {
            engine.add_job_in_use(&path, if repair { JobKind::Spotfix } else { JobKind::Scan }, request)
        })
        .await
    }

    /// Queues a job of a volume that is in use meanwhile. No other change may be under way.
    pub(super) fn add_job_in_use(&self, path: &str, kind: JobKind, request: SetPace) -> ApiResult<JobChanged> {
        let (open, known) = self.open_volume_at(path)?;
        self.add_in_use(path, JobSpec::new(kind, Target::volume(&open, known.id, &known.name)), request)
    }

    /// Queues work on a volume that is in use meanwhile. No other change may be under way.
    pub(crate) fn add_in_use(&self, path: &str, spec: JobSpec, request: SetPace) -> ApiResult<JobChanged> {
        let is_other = |other| matches!(other, JobKind::SpotfixOffline | JobKind::Salvage | JobKind::Shrink);
        self.refuse_beside(path, &spec, is_other)?;
        self.add_job(spec, request)
    }

    /// Takes a volume away from those who use it, repairs what needs that, gives it back and repairs the rest in use:
    /// answers with the job that does it. Unless `force`, the job fails where programs use the volume.
    ///
    /// # Errors
    /// If there is no such volume, another job goes over it, or the job cannot be written down.
    pub async fn repair_volume(self: &Arc<Self>, path: String, force: bool, request: SetPace) -> ApiResult<JobChanged> {
        self.change(move |engine| async move {
            let (open, known) = engine.open_volume_at(&path)?;
            let target = Target::volume(&open, known.id, &known.name);
            let spec = JobSpec { force, ..JobSpec::new(JobKind::SpotfixOffline, target) };
            engine.refuse_beside(&path, &spec, |_| true)?;
            engine.add_job(spec, request)
        })
        .await
    }

    /// Copies out what can be read of a volume to a directory of this machine, which must be new or empty: answers with
    /// the job that does it. The volume is taken away from those who use it meanwhile; unless `force`, the job fails
    /// where programs use it.
    ///
    /// # Errors
    /// If there is no such volume, the directory is not one to write to, another job goes over the volume, or the job
    /// cannot be written down.
    pub async fn salvage_volume(
        self: &Arc<Self>,
        path: String,
        to: String,
        force: bool,
        request: SetPace,
    ) -> ApiResult<JobChanged> {
        self.change(move |engine| async move {
            let (open, known) = engine.open_volume_at(&path)?;
            let target = Target::volume(&open, known.id, &known.name);
            let spec = JobSpec { force, to: Some(to.clone()), ..JobSpec::new(JobKind::Salvage, target) };
            engine.refuse_beside(&path, &spec, |_| true)?;
            if engine.jobs.like(&spec).is_none() {
                let object = format!("volume {path}");
                // The file system of the directory may not answer.
                let checked = tokio::task::spawn_blocking(move || check_empty(&object, &to)).await;
                checked.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
            }
            engine.add_job(spec, request)
        })
        .await
    }

    /// Refuses work on a volume where a job of its kind does another thing, in words.
    pub(crate) fn refuse_unlike(&self, object: impl Into<String>, spec: &JobSpec, does: &str) -> ApiResult<()> {
        let Some(job) = self.jobs.like(spec).filter(|_| !self.jobs.has(spec)) else { return Ok(()) };
        let next = format!("wait for its end, or 'holdfast job cancel {job}'");
        Err(conflict(object, format!("job {job} {does}"), next))
    }

    /// Refuses work on a volume beside some other.
    pub(super) fn refuse_beside(
        &self,
        path: &str,
        spec: &JobSpec,
        is_other: impl Fn(JobKind) -> bool,
    ) -> ApiResult<()> {
        let Some((job, kind)) = self.jobs.beside(spec).filter(|(_, kind)| is_other(*kind)) else { return Ok(()) };
        let message = format!("job {job} goes over it ({})", holdfast_api::word(&kind));
        let next = format!("wait for its end, or 'holdfast job cancel {job}'");
        Err(conflict(format!("volume {path}"), message, next))
    }

    /// What the last scan of a volume found and nobody repaired since.
    ///
    /// # Errors
    /// If there is no such volume, or it cannot be read.
    pub async fn volume_findings(&self, path: &str) -> ApiResult<Vec<VolumeFinding>> {
        let (open, known) = self.open_volume_at(path)?;
        let object = format!("volume {path}");
        let Some(volume) = open.volume_of(known.id) else {
            return Err(conflict(object, "it is not open", "see the health of its pool"));
        };
        let found = self.on_reactor(move || async move { volume.findings().await }).await?;
        let found = found.map_err(|error| from_volume(object, &error))?;
        Ok(shown_all(&found))
    }
}

/// Findings as they are told: files without a name together, all others by themselves.
fn shown_all(verbs: &[Verb]) -> Vec<VolumeFinding> {
    let mut told: Vec<VolumeFinding> = Vec::new();
    let (orphans, others): (Vec<&Verb>, Vec<&Verb>) = verbs.iter().partition(|verb| verb.is_orphan());
    if let Some(first) = orphans.first() {
        let count = orphans.iter().map(|verb| verb.count()).sum();
        let text = if count == 1 { first.to_string() } else { format!("no name leads to {count} files") };
        told.push(VolumeFinding { count, text, ..shown(first) });
    }
    told.extend(others.into_iter().map(shown));
    told
}

fn shown(verb: &Verb) -> VolumeFinding {
    VolumeFinding {
        number: verb.number(),
        count: verb.count(),
        severity: match verb.severity() {
            holdfast_volume::Severity::Minor => Severity::Info,
            holdfast_volume::Severity::Degraded => Severity::Warning,
            holdfast_volume::Severity::Severe => Severity::Error,
        },
        online: verb.is_online(),
        text: verb.to_string(),
    }
}

pub(super) fn failed(target: &Target, error: &VolumeError) -> Cut {
    Cut::Failed(from_volume(target.object(), error))
}

/// Ends when the job is cancelled.
async fn cancelled(pace: &dyn Pace) {
    while pace.step(0).await.is_ok() {
        reactor::clock().sleep(LOOK_EVERY).await;
    }
}

/// Does work on a volume until it is done or the job is cancelled. It is asked to end rather than dropped: what it
/// writes must be whole.
pub(super) async fn until_cancelled<T>(
    pace: &dyn Pace,
    (volume, target): (&Volume, &Target),
    work: impl Future<Output = Result<T, VolumeError>>,
) -> Result<T, Cut> {
    let (work, end) = (std::pin::pin!(work), std::pin::pin!(cancelled(pace)));
    match select(work, end).await {
        Either::Left((done, _)) => done.map_err(|error| failed(target, &error)),
        Either::Right(((), work)) => {
            volume.interrupt(true);
            let _ = work.await;
            volume.interrupt(false);
            Err(Cut::Stopped)
        }
    }
}

/// The volume of a job.
pub(super) fn volume_of(site: &Site, target: &Target) -> Result<Arc<Volume>, Cut> {
    let gone = || Cut::Failed(conflict(target.object(), "it is not open", "see the health of its pool"));
    site.open.volume_of(target.id).ok_or_else(gone)
}

/// Scans.
pub(super) async fn scan(site: &Site, target: &Target, pace: &dyn Pace) -> Result<Outcome, Cut> {
    let volume = volume_of(site, target)?;
    let begun = reactor::clock().now();
    let verbs = until_cancelled(pace, (&volume, target), volume.scan()).await?;
    site.open.note_findings(target.id, &verbs, 0, Some(reactor::clock().now().saturating_sub(begun)));
    let found = Findings::of(&verbs);
    let result = match found.left {
        0 => "all metadata agrees".into(),
        left => format!("{}; {} can be repaired in use, {} cannot", found.words(), left - found.offline, found.offline),
    };
    Ok(Outcome { result, findings: told_all(site, target.id, &verbs) })
}

/// Repairs what can be while the volume is in use.
pub(super) async fn spotfix(site: &Site, target: &Target, pace: &dyn Pace) -> Result<Outcome, Cut> {
    let volume = volume_of(site, target)?;
    let done = until_cancelled(pace, (&volume, target), volume.spotfix()).await?;
    Ok(repaired(site, target.id, &done, 0))
}

/// Has files count for the directory trees that they are in.
pub(super) async fn count(site: &Site, target: &Target, pace: &dyn Pace) -> Result<Outcome, Cut> {
    let volume = volume_of(site, target)?;
    let seen = until_cancelled(pace, (&volume, target), volume.settle_quotas()).await?;
    let result =
        format!("{} looked at; quotas of directory trees count what is in them", counted(seen, "file", "files"));
    Ok(Outcome { result, findings: Vec::new() })
}

/// What a repair brought, after an earlier part of it that was noted already.
fn repaired(site: &Site, id: Uuid, done: &Spotfixed, before: u64) -> Outcome {
    site.open.note_findings(id, &done.left, done.fixed, None);
    let fixed = counted(before + done.fixed, "finding", "findings");
    let result = match Findings::of(&done.left).left {
        0 => format!("{fixed} repaired; all metadata agrees"),
        left => format!("{fixed} repaired, {left} left"),
    };
    Outcome { result, findings: told_all(site, id, &done.left) }
}

/// Repairs a volume that nobody uses: what the last scan found alone, where that says enough; else all of it. Answers
/// whether it was all.
async fn repair_offline(volume: &Volume) -> Result<(Spotfixed, bool), VolumeError> {
    match volume.spotfix_known().await? {
        Some(done) => Ok((done, false)),
        None => Ok((volume.spotfix_offline().await?, true)),
    }
}

/// Takes the volume away from those who use it, repairs what needs that, and gives it back whatever came of that. What
/// is left is scanned for and repaired in use.
pub(super) async fn spotfix_offline(site: &Site, spec: &JobSpec, pace: &dyn Pace) -> Result<Outcome, Cut> {
    let (target, id, force) = (&spec.target, spec.target.id, spec.force);
    let volume = volume_of(site, target)?;
    let begun = reactor::clock().now();
    let open = site.open.clone();
    site.outside(async move { take_away(&open, id, force).await }).await?.map_err(Cut::Failed)?;
    let done = until_cancelled(pace, (&volume, target), repair_offline(&volume)).await;
    let (open, reactors) = (site.open.clone(), site.reactors.clone());
    let trouble = site.outside(async move { give_back(&open, id, &reactors).await }).await?;
    let away = reactor::clock().now().saturating_sub(begun);
    let mut outcome = match done? {
        (done, true) => repaired(site, id, &done, 0),
        (done, false) => {
            site.open.note_findings(id, &done.left, done.fixed, None);
            let rest = until_cancelled(pace, (&volume, target), volume.spotfix()).await?;
            repaired(site, id, &rest, done.fixed)
        }
    };
    outcome.result = format!("{}; the volume was away for {:.1} s", outcome.result, away.as_secs_f64());
    outcome.findings.extend(trouble.map(|trouble| Finding {
        severity: Severity::Error,
        cause: trouble.cause,
        next_action: trouble.next_action,
    }));
    Ok(outcome)
}

/// Copies out what can be read of a volume that nobody uses meanwhile.
pub(super) async fn salvage(site: &Site, spec: &JobSpec, pace: &dyn Pace) -> Result<Outcome, Cut> {
    let (target, id, to) = (&spec.target, spec.target.id, spec.to.clone().unwrap_or_default());
    let unwritten = |text: String| {
        let next = format!("see to {to}, and name another directory");
        Cut::Failed(ApiError::new(Code::Failed, target.object(), text, next))
    };
    let volume = site.open.volume_of(id);
    let (space, _claim) = site.open.space_of_volume(id).map_err(Cut::Failed)?;
    let (open, force) = (site.open.clone(), spec.force);
    let mut in_memory = None;
    if let Some(volume) = &volume {
        site.outside(async move { take_away(&open, id, force).await }).await?.map_err(Cut::Failed)?;
        // What only memory has is to be read, too.
        let _ = volume.checkpoint().await;
        in_memory = volume.unwritten();
    }
    let copied = async {
        let mut folder = Folder::begin(&to, pace).await.map_err(unwritten)?;
        let done = salvage_with_copies(space, wall_clock(), &mut folder).await;
        let done = done.map_err(|error| failed(target, &error))?;
        folder.end(&done).await.map_err(unwritten)?;
        if done.is_cut { Err(Cut::Stopped) } else { Ok(done) }
    };
    let copied = copied.await;
    let mut trouble = None;
    if volume.is_some() {
        let (open, reactors) = (site.open.clone(), site.reactors.clone());
        trouble = site.outside(async move { give_back(&open, id, &reactors).await }).await?;
    }
    let mut outcome = salvaged(&to, &copied?);
    outcome.findings.extend(in_memory.map(|(files, why)| Finding {
        severity: Severity::Error,
        cause: format!(
            "salvage: the newest data of {} is in memory only, and not in the copy: {why}",
            counted(files as u64, "file", "files")
        ),
        next_action: "copy what changed last from the mounted volume before the server stops".into(),
    }));
    outcome.findings.extend(trouble.map(|trouble| Finding {
        severity: Severity::Error,
        cause: trouble.cause,
        next_action: trouble.next_action,
    }));
    Ok(outcome)
}

/// What a salvage brought.
fn salvaged(to: &str, done: &Salvaged) -> Outcome {
    let mut result = format!(
        "{} and {} with {} copied to {to}/files",
        counted(done.files, "file", "files"),
        counted(done.directories.saturating_sub(1), "directory", "directories"),
        ByteSize(done.bytes),
    );
    if done.missing_count == 0 {
        result.push_str("; nothing is missing");
    } else {
        let missing = counted(done.missing_count, "thing is", "things are");
        result = format!("{result}; {missing} missing, {} of data: see {to}/report.json", ByteSize(done.lost_bytes));
    }
    let told = |missing: &Missing| Finding {
        severity: Severity::Warning,
        cause: format!(
            "salvage: {}: {}",
            if missing.path.is_empty() { "the volume" } else { &missing.path },
            missing.what
        ),
        next_action: format!("restore it from a backup; {to}/report.json lists all that is missing"),
    };
    Outcome { result, findings: done.missing.iter().take(TOLD).map(told).collect() }
}

/// The first of what was found, as events.
fn told_all(site: &Site, id: Uuid, verbs: &[Verb]) -> Vec<Finding> {
    let name = site.open.volume_name(id);
    shown_all(verbs).into_iter().take(TOLD).map(|shown| told(&name, shown)).collect()
}

fn told(name: &str, shown: VolumeFinding) -> Finding {
    let next_action = if shown.online {
        format!("'holdfast volume spotfix {name}' repairs it in use")
    } else {
        format!("'holdfast volume spotfix {name} --offline' takes the volume away and repairs it")
    };
    Finding { severity: shown.severity, cause: format!("scan: {}", shown.text), next_action }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_name_are_told_as_one_finding() {
        let unreadable = Verb::NoRecord { file: 9 };
        let verbs = [
            unreadable.clone(),
            Verb::Orphan { file: 70 },
            Verb::Orphans { first: 128, files: u64::MAX },
            Verb::Orphans { first: 192, files: 3 },
        ];
        let told = shown_all(&verbs);
        assert_eq!(told.len(), 2);
        assert_eq!((told[0].count, &told[0].text[..]), (67, "no name leads to 67 files"));
        assert_eq!((told[1].count, told[1].number, told[1].online), (1, 55, false));
        assert_eq!(shown_all(&verbs[1..2])[0].text, "no name leads to file 70");
    }
}
