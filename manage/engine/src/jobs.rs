//! Jobs: long work that is queued, watched, steered, and taken up again after a restart.
//!
//! ```text
//!   requests.rs   what is asked of jobs          runner.rs     queued ─▶ working ─▶ ended; stopping without an end
//!   table.rs      jobs.json                      schedule.rs   what is asked for by the calendar
//!   lost.rs       what is asked for when disks stay away
//!   kept.rs       the same on the pools, for whoever imports them next
//!   control.rs    gate, share and cap            progress.rs   bytes done, and how fast
//!   spec.rs       the kinds, one file each: scrub.rs, convert.rs, repair.rs, evacuate.rs, replace.rs, rebalance.rs,
//!                 upgrade.rs, volumes.rs, shrink.rs, trim.rs, reclaim.rs, restore.rs,
//!                 inherit.rs
//! ```
//!
//! A job works as a task on a reactor and asks its [`Control`] before each step. A job that is paused keeps its task,
//! and gives its turn to another one.
//!
//! Invariants: what a request was answered about a job is in `jobs.json`, and a job that has ended stays so; in a pool,
//! at most [`RUNNING_PER_POOL`] jobs run; at no time do two tasks do the same work.

mod control;
mod convert;
mod evacuate;
mod gather;
mod inherit;
mod integrity;
mod kept;
mod lost;
mod progress;
mod rebalance;
mod reclaim;
mod repair;
mod replace;
mod requests;
mod restore;
mod runner;
mod schedule;
mod scrub;
mod scrub_files;
mod shrink;
mod spec;
mod steered;
mod table;
mod trim;
mod upgrade;
mod volumes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use holdfast_api::{ApiError, Code, Condition, Job, JobKind, JobState, VolumeShrinking};
use holdfast_model::{ObjectKind, ObjectRef, Uuid};
use tokio::sync::{Notify, watch};

use crate::error::ApiResult;
use crate::events::EventLog;
use crate::state::{StateError, read_versioned, write_json};
use control::Control;
use table::{Record, Table};

pub(crate) use integrity::mode_of;
pub(crate) use runner::run;
pub(crate) use spec::{JobSpec, Target};

/// Jobs of a pool that run at once, at most.
const RUNNING_PER_POOL: usize = 2;
/// How often progress is written down.
const NOTE_EVERY: Duration = Duration::from_secs(5);
const FILE: &str = "jobs.json";

/// A job, as events name it.
fn job_object(id: u64) -> ObjectRef {
    ObjectRef::named(ObjectKind::Job, id.to_string())
}

/// The task that does a job's work.
struct Task {
    control: Arc<Control>,
    over: watch::Receiver<bool>,
}

#[derive(Default)]
struct Inner {
    table: Table,
    /// By the number of the job; also of jobs that have ended, until their last step has.
    tasks: BTreeMap<u64, Task>,
    /// By their ids, spaces with lost slabs, and when the next repair is asked for.
    repair_at: BTreeMap<Uuid, Instant>,
    /// By their ids, disks that are out of service, and since when.
    out_since: BTreeMap<Uuid, Instant>,
    /// By their ids, pools whose lost disks have no room elsewhere, and when that is looked at again.
    no_room: BTreeMap<Uuid, Instant>,
    stopping: bool,
    unsaved: bool,
    /// Whether the documents of pools may be behind the table, and when they are tried again where that failed.
    unkept: bool,
    keep_again: Option<Instant>,
    noted: Option<Instant>,
}

/// All jobs.
pub(crate) struct Jobs {
    path: PathBuf,
    events: Arc<EventLog>,
    inner: Mutex<Inner>,
    /// Held while documents of a pool are brought in line, so that no older state is written over a newer one.
    keeping: tokio::sync::Mutex<()>,
    wake: Notify,
}

impl Inner {
    fn control(&self, id: u64) -> Option<&Control> {
        self.tasks.get(&id).map(|task| &*task.control)
    }

    fn view(&self, id: u64) -> Option<Job> {
        let record = self.table.any(id)?;
        let mut job = record.view(self.control(id).filter(|_| record.ended.is_none()));
        let waits = record.state == JobState::Running && self.control(id).is_some_and(Control::is_waiting);
        if let Some(mover) = waits.then(|| self.mover(&record.spec.target, id)).flatten() {
            (job.state, job.rate_bytes_per_second, job.seconds_left) = (JobState::Queued, 0, None);
            job.reason = Some(Condition::new(format!("it waits for {}", mover.moving()), mover.way_out()));
        }
        Some(job)
    }

    /// The job that moves rows where other work wants to; one that is paused before one that runs.
    fn mover(&self, target: &Target, except: u64) -> Option<&Record> {
        let moves = |record: &&Record| {
            let works = self.control(record.id).is_some_and(|control| !control.is_waiting());
            works && record.id != except && record.spec.moves_rows() && record.spec.meets(target)
        };
        self.table.jobs.iter().filter(moves).min_by_key(|record| record.state != JobState::Paused)
    }
}

impl Jobs {
    /// Reads the jobs of a state folder. Those that ran are queued.
    ///
    /// # Errors
    /// If `jobs.json` is damaged or from a later version.
    pub(crate) fn load(folder: &Path, events: Arc<EventLog>) -> Result<Self, StateError> {
        let path = folder.join(FILE);
        let next_action = "move it away; its jobs are lost and can be started again";
        let mut table: Table = read_versioned(&path, table::VERSION, next_action)?.unwrap_or_default();
        for record in table.jobs.iter_mut().filter(|record| record.state == JobState::Running) {
            record.state = JobState::Queued;
        }
        let inner = Mutex::new(Inner { table, unkept: true, ..Inner::default() });
        Ok(Self { path, events, inner, keeping: tokio::sync::Mutex::default(), wake: Notify::new() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the table and writes it down; where that fails, nothing is changed.
    fn change<T>(&self, inner: &mut Inner, change: impl FnOnce(&mut Table) -> T) -> ApiResult<T> {
        let mut next = inner.table.clone();
        let answer = change(&mut next);
        if next != inner.table {
            let failed = |error: std::io::Error| {
                let folder = self.path.parent().unwrap_or(&self.path).display();
                let next_action = format!("make room on the file system of {folder}, or check its owner, then repeat");
                ApiError::new(
                    Code::Failed,
                    format!("file {}", self.path.display()),
                    format!("writing it: {error}"),
                    next_action,
                )
            };
            write_json(&self.path, &next).map_err(failed)?;
            inner.table = next;
            inner.unsaved = false;
            inner.unkept = true;
        }
        Ok(answer)
    }

    /// Writes down what happened of itself. If that fails it is tried again with the next progress.
    fn save(&self, inner: &mut Inner) {
        inner.unkept = true;
        match write_json(&self.path, &inner.table) {
            Ok(()) => inner.unsaved = false,
            Err(error) => {
                inner.unsaved = true;
                tracing::error!("{} cannot be written: {error}", self.path.display());
            }
        }
    }

    /// Writes progress down, now and then.
    fn note_progress(&self) {
        let mut inner = self.inner();
        if inner.noted.is_some_and(|noted| noted.elapsed() < NOTE_EVERY) {
            return;
        }
        let Inner { table, tasks, unsaved, noted, .. } = &mut *inner;
        *noted = Some(Instant::now());
        for record in &mut table.jobs {
            if let Some(task) = tasks.get(&record.id) {
                let before = record.done_bytes;
                record.note(&task.control);
                *unsaved |= before != record.done_bytes;
            }
        }
        if inner.unsaved {
            self.save(&mut inner);
        }
    }

    /// The number of the job that does this already.
    pub(crate) fn like(&self, spec: &JobSpec) -> Option<u64> {
        self.inner().table.jobs.iter().find(|record| record.spec.is_like(spec)).map(|record| record.id)
    }

    /// Has the job that does this already begin again, if its work has begun: what it goes by has changed. One that has not
    /// begun, or is taken up again after a restart, begins at the beginning anyhow.
    pub(crate) fn begin_anew(&self, spec: &JobSpec) {
        let inner = self.inner();
        let mut jobs = inner.table.jobs.iter();
        let same = jobs.find(|record| record.spec.is_like(spec) && record.spec.path == spec.path);
        if let Some(control) = same.and_then(|record| inner.control(record.id)) {
            control.ask_anew();
        }
    }

    /// Shrinks that are under way or queued, by the volume.
    pub(crate) fn shrinks(&self) -> BTreeMap<Uuid, VolumeShrinking> {
        let inner = self.inner();
        let shrinks = inner.table.jobs.iter().filter(|record| record.spec.kind == JobKind::Shrink);
        let shown = |record: &Record| {
            let Job { id: job, state, done_bytes, total_bytes, .. } = inner.view(record.id)?;
            let size_bytes = record.spec.size_bytes?;
            Some((record.spec.target.id, VolumeShrinking { size_bytes, job, state, done_bytes, total_bytes }))
        };
        shrinks.filter_map(shown).collect()
    }

    /// Jobs that restore files of a volume where they are, and which.
    pub(crate) fn restores(&self, volume: Uuid) -> Vec<(u64, String)> {
        let inner = self.inner();
        let of_volume = inner.table.jobs.iter().filter(|record| record.spec.target.id == volume);
        let path = |record: &Record| {
            let restoring = record.spec.restoring.as_ref().filter(|restoring| restoring.to.is_none())?;
            Some((record.id, restoring.path.clone()))
        };
        of_volume.filter_map(path).collect()
    }

    /// A job that goes over the same volume, and is of another kind.
    pub(crate) fn beside(&self, spec: &JobSpec) -> Option<(u64, JobKind)> {
        let inner = self.inner();
        let mut jobs = inner.table.jobs.iter();
        let other = jobs.find(|record| record.spec.target.id == spec.target.id && !record.spec.is_like(spec));
        other.map(|record| (record.id, record.spec.kind))
    }

    /// The numbers of the jobs that empty, replace or repair what is on these disks or missing in these spaces.
    pub(crate) fn mending(&self, disks: &[Uuid], spaces: &[Uuid]) -> Vec<u64> {
        let mends = |record: &&Record| match record.spec.kind {
            JobKind::Evacuate | JobKind::Replace => disks.contains(&record.spec.target.id),
            JobKind::Repair => spaces.contains(&record.spec.target.id),
            JobKind::Scrub | JobKind::Convert | JobKind::Rebalance | JobKind::Upgrade => false,
            JobKind::Scan
            | JobKind::Spotfix
            | JobKind::SpotfixOffline
            | JobKind::Salvage
            | JobKind::Shrink
            | JobKind::Quota
            | JobKind::Trim
            | JobKind::Reclaim
            | JobKind::Restore
            | JobKind::Inherit
            | JobKind::Integrity
            | JobKind::ScrubFiles
            | JobKind::Gather => false,
        };
        self.inner().table.jobs.iter().filter(mends).map(|record| record.id).collect()
    }

    /// Why rows of a space do not stay where they are now, and what to do, where a job moves them.
    pub(crate) fn why_rows_move(&self, space: &Target) -> Option<(String, String)> {
        let inner = self.inner();
        inner.mover(space, 0).map(|mover| (mover.moving(), mover.way_out()))
    }

    /// The jobs that have not ended and work on a space, alone or with all others of its pool.
    pub(crate) fn on_space(&self, space: &Target) -> Vec<Job> {
        let inner = self.inner();
        let works = inner.table.jobs.iter().filter(|record| record.spec.meets(space));
        works.filter_map(|record| inner.view(record.id)).collect()
    }

    /// The job that has not ended and needs a snapshot of a volume, and what for.
    pub(crate) fn needs_snapshot(&self, volume: Uuid, snapshot: &str) -> Option<(u64, &'static str)> {
        let inner = self.inner();
        let need = |record: &Record| {
            let restoring = record.spec.restoring.as_ref().filter(|_| record.spec.target.id == volume)?;
            if restoring.snapshot == snapshot {
                return Some((record.id, "restores files from it"));
            }
            let keeps = restoring.keep.as_deref() == Some(snapshot);
            keeps.then_some((record.id, "restores files, and keeps in it what was there before"))
        };
        inner.table.jobs.iter().find_map(need)
    }

    /// Whether just this is to be done already.
    fn has(&self, spec: &JobSpec) -> bool {
        let what = |spec: &JobSpec| (spec.provisioning, spec.size_bytes, spec.path.clone(), spec.integrity);
        let restores = |other: &JobSpec| match (&other.restoring, &spec.restoring) {
            (Some(one), Some(other)) => one.is_alike(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let same = |other: &JobSpec| other.is_like(spec) && what(other) == what(spec) && restores(other);
        self.inner().table.jobs.iter().any(|record| same(&record.spec))
    }

    /// Jobs in the order of their numbers: all that have not ended, and the last that have.
    pub(crate) fn list(&self) -> Vec<Job> {
        let inner = self.inner();
        let records = inner.table.jobs.iter().chain(&inner.table.ended);
        let mut jobs: Vec<Job> = records.filter_map(|record| inner.view(record.id)).collect();
        jobs.sort_by_key(|job| job.id);
        jobs
    }
}

#[cfg(test)]
pub(crate) mod tests;
