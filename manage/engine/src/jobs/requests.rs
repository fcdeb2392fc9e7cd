//! What is asked of jobs: lists, a pause, an end, another pace.
//!
//! Invariant: a request that is repeated changes nothing more, and nothing is changed about a job that has ended.

use std::sync::Arc;

use holdfast_api::{ApiError, Job, JobChanged, JobKind, JobPace, JobState, SetPace};
use holdfast_model::Uuid;

use super::control::JobGate;
use super::job_object;
use super::spec::{JobSpec, Target};
use super::table::{Record, Table};
use crate::engine::Engine;
use crate::error::{ApiResult, conflict, not_found};
use crate::spaces::parse_path;

fn absent(id: u64) -> ApiError {
    not_found(job_object(id), "'holdfast job list --all' lists the jobs")
}

/// The job of this number, if something can be changed about it.
fn unended(table: &mut Table, id: u64) -> ApiResult<&mut Record> {
    let ended = table.any(id).ok_or_else(|| absent(id))?.state;
    let message = format!("it has ended: {}", holdfast_api::word(&ended));
    table.job(id).ok_or_else(|| conflict(job_object(id), message, "start a new job"))
}

impl Engine {
    /// Jobs, oldest first: all that have not ended and the last that have; of one state, and in one pool or on one
    /// space or disk, by name or id, where these are given.
    pub fn jobs(&self, state: Option<JobState>, object: Option<&str>) -> Vec<Job> {
        let within =
            |job: &Job, named: &str| [&job.object, &job.pool].iter().any(|one| one.name == named || one.id == named);
        let mut jobs = self.jobs.list();
        jobs.retain(|job| {
            state.is_none_or(|state| job.state == state) && object.is_none_or(|object| within(job, object))
        });
        jobs
    }

    /// The job of this number.
    ///
    /// # Errors
    /// If there is none, or it ended long ago.
    pub fn job(&self, id: u64) -> ApiResult<Job> {
        self.jobs.inner().view(id).ok_or_else(|| absent(id))
    }

    /// Queues a job of a space, unless the same has not ended yet.
    pub(super) async fn add_space_job(
        self: &Arc<Self>,
        path: String,
        kind: JobKind,
        request: SetPace,
    ) -> ApiResult<JobChanged> {
        self.change(move |engine| async move {
            let (open, _, space) = engine.space_at(&parse_path(&path)?)?;
            engine.add_job(JobSpec::new(kind, Target::space(&open, &space.record())), request)
        })
        .await
    }

    /// Queues a job of a pool, unless the same has not ended yet.
    pub(super) async fn add_pool_job(
        self: &Arc<Self>,
        pool: String,
        kind: JobKind,
        request: SetPace,
    ) -> ApiResult<JobChanged> {
        self.change(move |engine| async move {
            let open = engine.pool_named(&pool)?;
            engine.add_job(JobSpec::new(kind, Target::pool(&open)), request)
        })
        .await
    }

    /// Queues a job, unless the same has not ended yet. No other change may be under way.
    pub(crate) fn add_job(&self, spec: JobSpec, request: SetPace) -> ApiResult<JobChanged> {
        if let Some(id) = self.jobs.like(&spec) {
            return Ok(JobChanged { changed: false, job: self.job(id)? });
        }
        let pace = JobPace::default().with(request);
        let id = self.jobs.change(&mut self.jobs.inner(), |table| table.add(spec, pace).id)?;
        self.start_jobs();
        Ok(JobChanged { changed: true, job: self.job(id)? })
    }

    /// Changes a job that has not ended. `change` says whether it changed anything.
    fn change_job(&self, id: u64, change: impl FnOnce(&mut Record) -> bool) -> ApiResult<JobChanged> {
        let mut inner = self.jobs.inner();
        let progress = inner.tasks.get(&id).map(|task| task.control.clone());
        let changed = self.jobs.change(&mut inner, |table| {
            let record = unended(table, id)?;
            if let Some(control) = &progress {
                record.note(control);
            }
            Ok(change(record))
        })??;
        let job = inner.view(id).ok_or_else(|| absent(id))?;
        if let Some(control) = &progress {
            control.set_pace(job.pace);
            if inner.table.any(id).is_some_and(|record| record.state != JobState::Running) {
                control.set_gate(JobGate::Held);
            }
        }
        Ok(JobChanged { changed, job })
    }

    /// Lets a job wait, from the end of its step on, until it is resumed.
    ///
    /// # Errors
    /// If there is none, or it has ended.
    pub fn pause_job(&self, id: u64) -> ApiResult<JobChanged> {
        let answer =
            self.change_job(id, |record| std::mem::replace(&mut record.state, JobState::Paused) != JobState::Paused)?;
        if answer.changed {
            self.note(&job_object(id), "paused");
            self.jobs.wake.notify_one();
        }
        Ok(answer)
    }

    /// Lets a paused job go on as soon as it is its turn.
    ///
    /// # Errors
    /// If there is none, or it has ended.
    pub fn resume_job(&self, id: u64) -> ApiResult<JobChanged> {
        let resume = |record: &mut Record| {
            let paused = record.state == JobState::Paused;
            if paused {
                record.state = JobState::Queued;
            }
            paused
        };
        let JobChanged { changed, .. } = self.change_job(id, resume)?;
        if changed {
            self.note(&job_object(id), "resumed");
            self.start_jobs_unless_changing();
        }
        Ok(JobChanged { changed, job: self.job(id)? })
    }

    /// Changes how much a job makes way and how fast it may be, at once.
    ///
    /// # Errors
    /// If there is none, or it has ended.
    pub fn set_job(&self, id: u64, request: SetPace) -> ApiResult<JobChanged> {
        let set = |record: &mut Record| {
            let before = record.pace;
            record.pace = before.with(request);
            before != record.pace
        };
        let answer = self.change_job(id, set)?;
        if answer.changed {
            let JobPace { priority, cap_bytes_per_second } = answer.job.pace;
            let cap = cap_bytes_per_second
                .map_or_else(|| "no cap".into(), |cap| format!("at most {}/s", holdfast_model::ByteSize(cap)));
            self.note(&job_object(id), &format!("set to {} priority, {cap}", holdfast_api::word(&priority)));
        }
        Ok(answer)
    }

    /// Ends a job before it is done, and waits for the end of its step. What it did stays.
    ///
    /// # Errors
    /// If there is none, it came to another end, or its step does not end.
    pub async fn cancel_job(&self, id: u64) -> ApiResult<JobChanged> {
        let before = self.job(id)?;
        if before.state == JobState::Cancelled {
            return Ok(JobChanged { changed: false, job: before });
        }
        self.cancel_jobs(|record| record.id == id).await?;
        answer_to_cancel(self.job(id)?)
    }

    /// Cancels all jobs of a pool, or those of one space of it.
    pub(crate) async fn cancel_jobs_of(&self, pool: Uuid, space: Option<Uuid>) -> ApiResult<()> {
        let of = |spec: &JobSpec| spec.target.pool == pool && space.is_none_or(|space| spec.target.id == space);
        self.cancel_jobs(|record| of(&record.spec)).await
    }

    /// Cancels jobs, and waits until nothing works on them any more.
    async fn cancel_jobs(&self, which: impl Fn(&Record) -> bool) -> ApiResult<()> {
        let mut cancelled = Vec::new();
        {
            let mut inner = self.jobs.inner();
            let ids: Vec<u64> =
                inner.table.jobs.iter().filter(|record| which(record)).map(|record| record.id).collect();
            let controls: Vec<_> = ids.iter().map(|id| inner.tasks.get(id).map(|task| task.control.clone())).collect();
            self.jobs.change(&mut inner, |table| {
                for (id, control) in ids.iter().zip(&controls) {
                    let Some(record) = table.end(*id, JobState::Cancelled, None) else { continue };
                    if let Some(control) = control {
                        record.note(control);
                    }
                    cancelled.push((*id, record.spec.title()));
                }
            })?;
        }
        for (id, title) in &cancelled {
            self.note(&job_object(*id), &format!("{title} cancelled"));
        }
        self.jobs.stop_tasks(|record| which(record) && record.state == JobState::Cancelled).await
    }
}

/// What a cancel is answered, by how the job is afterwards: it may have come to its end before, or just now.
pub(super) fn answer_to_cancel(job: Job) -> ApiResult<JobChanged> {
    if job.state != JobState::Cancelled {
        let message = format!("it has ended: {}", holdfast_api::word(&job.state));
        return Err(conflict(job_object(job.id), message, "start a new job"));
    }
    Ok(JobChanged { changed: true, job })
}
