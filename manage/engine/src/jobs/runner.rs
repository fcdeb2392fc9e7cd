//! From queued to working to ended, and how work stops without an end.
//!
//! Invariants: work begins only while no other change is under way, so that a pool or space that is about to close gets
//! no new task; a task's hold on pool and space is gone before its end is told.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use holdfast_api::{ApiError, Code, JobState, Severity};
use holdfast_device::reactor::{self, ReactorGone};
use tokio::sync::watch;

use super::control::{Control, JobGate};
use super::spec::{Cut, JobSpec, Outcome, Site};
use super::table::Record;
use super::{Inner, Jobs, RUNNING_PER_POOL, Task, job_object};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, not_found};
use crate::events::now;

/// How long the end of a step is waited for.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// What a task brought.
type Brought = Result<Result<Outcome, Cut>, ReactorGone>;

/// Where the work of a job can be done now.
enum Whereabouts {
    At(Site),
    /// Not now: its pool is away, or a space is not open.
    Nowhere,
    /// Its space is gone from the pool.
    Gone(ApiError),
}

/// Starts what is due, asks for what the calendar wants, and writes progress down, until `stop` says so or the engine
/// is gone.
pub(crate) async fn run(engine: Weak<Engine>, mut stop: watch::Receiver<bool>) {
    let Some((jobs, interval)) = engine.upgrade().map(|engine| (engine.jobs.clone(), engine.settings.watch_interval))
    else {
        return;
    };
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = jobs.wake.notified() => {}
            () = tokio::time::sleep(interval) => {}
        }
        let Some(engine) = engine.upgrade() else { return };
        engine.start_jobs_unless_changing();
        engine.remember_disks_that_left();
        engine.ask_for_scrubs().await;
        engine.ask_for_repairs().await;
        let noting = jobs.clone();
        if let Err(error) = engine.blocking(move || noting.note_progress()).await {
            tracing::warn!("job progress could not be saved: {error}");
        }
        engine.keep_jobs().await;
    }
}

impl Engine {
    /// Starts the jobs whose turn it is, unless a change is under way; then they are started a little later.
    pub(super) fn start_jobs_unless_changing(&self) {
        if let Ok(_changing) = self.changing.try_lock() {
            self.start_jobs();
        }
    }

    /// Writes down which disks pools have, after jobs took some out of them.
    fn remember_disks_that_left(&self) {
        if let Ok(_changing) = self.changing.try_lock()
            && let Err(error) = self.remember()
        {
            tracing::warn!("{error}");
        }
    }

    /// Starts the jobs whose turn it is: those of higher priority first, else the older ones. No other change may be
    /// under way.
    pub(super) fn start_jobs(&self) {
        let mut inner = self.jobs.inner();
        if inner.stopping {
            return;
        }
        let queued = inner.table.jobs.iter().filter(|record| record.state == JobState::Queued);
        let mut queued: Vec<Record> = queued.cloned().collect();
        queued.sort_by_key(|record| (Reverse(record.pace.priority), record.id));
        let mut changed = false;
        for record in queued {
            match self.place(&record.spec) {
                Whereabouts::At(site) if inner.has_turn(&record) => {
                    self.start_job(&mut inner, &record, site);
                    changed = true;
                }
                Whereabouts::At(_) | Whereabouts::Nowhere => {}
                Whereabouts::Gone(error) => {
                    self.jobs.fail(&mut inner, record.id, error);
                    changed = true;
                }
            }
        }
        if changed {
            self.jobs.save(&mut inner);
        }
    }

    fn start_job(&self, inner: &mut Inner, queued: &Record, site: Site) {
        let resumed = inner.control(queued.id).map(|control| control.set_gate(JobGate::Open)).is_some();
        if !resumed {
            inner.tasks.insert(queued.id, self.spawn_job(queued, site));
        }
        let Some(record) = inner.table.job(queued.id) else { return };
        record.state = JobState::Running;
        if !resumed {
            record.started = Some(now());
            self.note(&job_object(record.id), &format!("{} started", record.spec.title()));
        }
    }

    fn place(&self, spec: &JobSpec) -> Whereabouts {
        let live = self.live();
        let Some(open) = live.pools.values().find(|open| open.pool.id() == spec.target.pool) else {
            return Whereabouts::Nowhere;
        };
        let wanted =
            |record: &holdfast_pool::SpaceRecord| spec.target.as_space().is_none_or(|space| space == record.uuid);
        let spaces: Vec<_> = open.spaces().values().filter(|space| wanted(&space.record())).cloned().collect();
        let there = open.pool.spaces().iter().filter(|record| wanted(record)).count();
        if there == 0 && spec.target.as_space().is_some() {
            return Whereabouts::Gone(not_found(spec.target.object(), "ask for the work on what is there"));
        }
        if spaces.len() < there {
            Whereabouts::Nowhere
        } else {
            let (runtime, reactors) = (tokio::runtime::Handle::current(), self.reactors.clone());
            let luns = live.luns_on_volume(spec.target.id).into_iter().map(|(.., file)| file).collect();
            let events = self.events.clone();
            Whereabouts::At(Site { open: open.clone(), spaces, runtime, reactors, luns, events })
        }
    }

    fn spawn_job(&self, record: &Record, site: Site) -> Task {
        let (id, spec) = (record.id, record.spec.clone());
        let pool = Arc::downgrade(&site.open);
        let requests = move || pool.upgrade().map_or(0, |open| requests(&open));
        let total_bytes = spec.total_bytes(&site);
        let control = Arc::new(Control::new(reactor::clock(), requests, total_bytes, record.pace));
        control.set_resume_point(record.resume);
        let pace = control.clone();
        let call = self.next_reactor().call(move || async move {
            let brought = spec.run(&site, &pace).await;
            drop(site);
            brought
        });
        let (over, ended) = watch::channel(false);
        let jobs = self.jobs.clone();
        tokio::spawn(async move {
            jobs.finish(id, call.await);
            over.send_replace(true);
            jobs.wake.notify_one();
        });
        Task { control, over: ended }
    }

    /// Stops the work on a pool that closes, without ending its jobs: they go on when it is back.
    pub(crate) async fn halt_jobs_of(&self, pool: holdfast_model::Uuid) {
        if let Err(error) = self.jobs.stop_tasks(|record| record.spec.target.pool == pool).await {
            tracing::error!("{error}");
        }
    }

    /// Stops the work of jobs that are about all spaces of a pool, without ending these: they go on with the spaces
    /// that are there then.
    pub(crate) async fn interrupt_wide_jobs_of(&self, pool: holdfast_model::Uuid) -> ApiResult<()> {
        self.jobs.stop_tasks(|record| record.spec.target.pool == pool && record.spec.target.as_space().is_none()).await
    }

    /// Stops all work for good, without ending the jobs: they go on after the next start.
    pub(crate) async fn halt_jobs(&self) {
        self.jobs.inner().stopping = true;
        if let Err(error) = self.jobs.stop_tasks(|_| true).await {
            tracing::error!("{error}");
        }
        self.keep_all_jobs().await;
    }
}

/// Requests that clients sent to the spaces of a pool.
fn requests(open: &OpenPool) -> u64 {
    let count = |space: &Arc<holdfast_space::Space>| {
        let counters = space.counters();
        [&counters.reads, &counters.writes, &counters.discards]
            .map(|count| count.requests.load(Ordering::Relaxed))
            .iter()
            .sum::<u64>()
    };
    open.spaces().values().map(count).sum()
}

impl Inner {
    /// Whether there is room for one more job in its pool beside those that work, and nothing that was cancelled still
    /// does the same.
    fn has_turn(&self, queued: &Record) -> bool {
        let waits = |record: &Record| self.control(record.id).is_some_and(Control::is_waiting);
        let beside = |record: &Record| record.spec.target.pool == queued.spec.target.pool;
        let runs = |record: &&Record| record.state == JobState::Running && beside(record) && !waits(record);
        let lingers = |id: &u64| {
            let record = self.table.any(*id);
            record.is_some_and(|record| record.state.has_ended() && record.spec.is_like(&queued.spec))
        };
        self.table.jobs.iter().filter(runs).count() < RUNNING_PER_POOL && !self.tasks.keys().any(lingers)
    }
}

impl Jobs {
    /// Notes what became of a task. A job whose work was stopped, and that was not cancelled, waits.
    pub(super) fn finish(&self, id: u64, brought: Brought) {
        let mut inner = self.inner();
        let stopping = inner.stopping;
        let Some(task) = inner.tasks.remove(&id) else { return };
        let Some(record) = inner.table.job(id) else { return };
        record.note(&task.control);
        let subject = record.spec.target.object();
        match brought {
            // Whoever asked for it once more was answered with this job.
            Ok(Ok(_) | Err(Cut::Failed(_))) if task.control.takes_anew() => {
                record.resume = None;
                if record.state == JobState::Running {
                    record.state = JobState::Queued;
                }
            }
            Ok(Ok(outcome)) => {
                for found in &outcome.findings {
                    self.events.emit(found.severity, &subject, &found.cause, &found.next_action);
                }
                self.succeed(&mut inner, id, outcome.result);
            }
            Ok(Err(Cut::Failed(error))) => self.fail(&mut inner, id, error),
            Err(ReactorGone) if stopping => return,
            Err(ReactorGone) => {
                let error =
                    ApiError::new(Code::Failed, subject, "its I/O thread stopped unexpectedly", "see the daemon's log");
                self.fail(&mut inner, id, error);
            }
            Ok(Err(Cut::Stopped)) if record.state == JobState::Running => record.state = JobState::Queued,
            Ok(Err(Cut::Stopped)) => {}
        }
        self.save(&mut inner);
    }

    fn succeed(&self, inner: &mut Inner, id: u64, result: String) {
        let Some(record) = inner.table.end(id, JobState::Done, Some(result.clone())) else { return };
        record.total_bytes = record.total_bytes.max(record.done_bytes);
        record.done_bytes = record.total_bytes;
        self.events.emit(Severity::Info, &job_object(id), &format!("{} done: {result}", record.spec.title()), "");
    }

    fn fail(&self, inner: &mut Inner, id: u64, error: ApiError) {
        let Some(record) = inner.table.end(id, JobState::Failed, None) else { return };
        let cause = format!("{} failed: {}", record.spec.title(), error.message);
        self.events.emit(Severity::Error, &job_object(id), &cause, &error.next_action);
        record.error = Some(error);
    }

    /// Shuts the gates of the tasks whose jobs `which` names, and waits for their ends.
    pub(super) async fn stop_tasks(&self, which: impl Fn(&Record) -> bool) -> ApiResult<()> {
        let mut waiting = Vec::new();
        {
            let inner = self.inner();
            for (id, task) in &inner.tasks {
                if let Some(record) = inner.table.any(*id).filter(|record| which(record)) {
                    task.control.set_gate(JobGate::Shut);
                    waiting.push((format!("job {id}: {}", record.spec.title()), task.over.clone()));
                }
            }
        }
        let deadline = tokio::time::Instant::now() + STOP_TIMEOUT;
        for (object, mut over) in waiting {
            if tokio::time::timeout_at(deadline, over.wait_for(|over| *over)).await.is_err() {
                let message = format!("its step did not end within {} s", STOP_TIMEOUT.as_secs());
                return Err(ApiError::new(Code::Timeout, object, message, "check the pool's disks"));
            }
        }
        Ok(())
    }
}
