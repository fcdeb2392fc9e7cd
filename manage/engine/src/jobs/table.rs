//! The content of `jobs.json`: jobs that have not ended, the last that have, and when spaces were scrubbed.
//!
//! Invariant: a job is in the table once; of jobs that have ended, the last [`HISTORY`] are kept.

use std::collections::{BTreeMap, VecDeque};

use holdfast_api::{ApiError, Job, JobKind, JobPace, JobState};
use holdfast_model::Uuid;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::control::{Control, ResumePoint};
use super::spec::JobSpec;
use crate::events::now;

/// The version of `jobs.json` that this program writes.
pub(super) const VERSION: u32 = 1;
/// Jobs that are kept after their end.
pub(super) const HISTORY: usize = 200;

/// A job as it is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: u64,
    /// Names it wherever its pool is; the number is that of this table.
    #[serde(default = "Uuid::new_v4")]
    pub(super) key: Uuid,
    pub(super) spec: JobSpec,
    pub(super) state: JobState,
    #[serde(flatten)]
    pub(super) pace: JobPace,
    pub(super) created: String,
    pub(super) started: Option<String>,
    pub(super) ended: Option<String>,
    pub(super) done_bytes: u64,
    pub(super) total_bytes: u64,
    pub(super) error: Option<ApiError>,
    pub(super) result: Option<String>,
    /// Where its work goes on if it is begun anew; none where what is there tells that, or it is at its beginning.
    #[serde(default)]
    pub(super) resume: Option<ResumePoint>,
}

impl Record {
    /// Notes how far the work is.
    pub(super) fn note(&mut self, control: &Control) {
        (self.done_bytes, self.total_bytes) = (control.progress.done_bytes(), control.progress.total_bytes());
        self.resume = control.resume_point();
    }

    /// What is said of it to who waits until it has moved a row.
    pub(super) fn moving(&self) -> String {
        let paused = if self.state == JobState::Paused { ", which is paused" } else { "" };
        format!("a row that is being moved by job {}, {}{paused}", self.id, self.spec.title())
    }

    /// What to do about that.
    pub(super) fn way_out(&self) -> String {
        match self.state {
            JobState::Paused => format!("'holdfast job resume {0}', or 'holdfast job cancel {0}'", self.id),
            _ => format!("wait for it, or run 'holdfast job cancel {}'", self.id),
        }
    }

    /// The job as the API shows it; `control` steers its work, where there is any.
    pub(super) fn view(&self, control: Option<&Control>) -> Job {
        let mut record = self.clone();
        if let Some(control) = control {
            record.note(control);
        }
        let running = control.filter(|_| record.state == JobState::Running);
        let rate = running.map_or(0, Control::rate);
        let left_bytes = record.total_bytes.saturating_sub(record.done_bytes);
        Job {
            id: record.id,
            kind: record.spec.kind,
            object: record.spec.target.object(),
            pool: record.spec.target.pool_object(),
            state: record.state,
            done_bytes: record.done_bytes,
            total_bytes: record.total_bytes,
            rate_bytes_per_second: rate,
            seconds_left: (rate > 0 && record.total_bytes > 0).then(|| left_bytes.div_ceil(rate)),
            pace: record.pace,
            created: record.created,
            started: record.started,
            ended: record.ended,
            reason: None,
            error: record.error,
            result: record.result,
        }
    }
}

/// When a space of a pool was scrubbed last; for one that never was, since when it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Scrubbed {
    pub(super) pool: Uuid,
    pub(super) at: Timestamp,
    /// How the last scrub ended; none where there was none.
    #[serde(default)]
    pub(super) last: Option<LastScrub>,
}

/// How a scrub ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LastScrub {
    pub(super) state: JobState,
    /// What it found, where it came to its end.
    pub(super) result: Option<String>,
}

/// The content of `jobs.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Table {
    version: u32,
    next_id: u64,
    /// Names this table on pools.
    #[serde(default = "Uuid::new_v4")]
    pub(super) node: Uuid,
    /// Those that have not ended, oldest first.
    #[serde(default)]
    pub(super) jobs: Vec<Record>,
    /// Those that have, in the order in which they did.
    #[serde(default)]
    pub(super) ended: VecDeque<Record>,
    /// By the id of the space.
    #[serde(default)]
    pub(super) scrubbed: BTreeMap<Uuid, Scrubbed>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            version: VERSION,
            next_id: 1,
            node: Uuid::new_v4(),
            jobs: vec![],
            ended: VecDeque::new(),
            scrubbed: BTreeMap::new(),
        }
    }
}

impl Table {
    /// Adds a queued job.
    pub(super) fn add(&mut self, spec: JobSpec, pace: JobPace) -> &Record {
        self.jobs.push(Record {
            id: self.next_id,
            key: Uuid::new_v4(),
            spec,
            state: JobState::Queued,
            pace,
            created: now(),
            started: None,
            ended: None,
            done_bytes: 0,
            total_bytes: 0,
            error: None,
            result: None,
            resume: None,
        });
        self.next_id += 1;
        &self.jobs[self.jobs.len() - 1]
    }

    /// Gives a job of another table its own number, if that is free here, or else the next one.
    pub(super) fn number(&mut self, record: &mut Record) {
        if record.id == 0 || self.any(record.id).is_some() {
            record.id = self.next_id;
        }
        self.next_id = self.next_id.max(record.id.saturating_add(1));
    }

    /// The job of this number that has not ended.
    pub(super) fn job(&mut self, id: u64) -> Option<&mut Record> {
        self.jobs.iter_mut().find(|record| record.id == id)
    }

    /// The job of this number, ended or not.
    pub(super) fn any(&self, id: u64) -> Option<&Record> {
        self.jobs.iter().chain(&self.ended).find(|record| record.id == id)
    }

    /// Ends a job, with what it brought where it came to its end; `None` if it has ended already.
    pub(super) fn end(&mut self, id: u64, state: JobState, result: Option<String>) -> Option<&mut Record> {
        let at = self.jobs.iter().position(|record| record.id == id)?;
        let mut record = self.jobs.remove(at);
        record.state = state;
        record.ended = Some(now());
        record.result = result.clone();
        let JobSpec { kind, target, .. } = &record.spec;
        if *kind == JobKind::Scrub {
            let last = Some(LastScrub { state, result: result.clone() });
            self.scrubbed.insert(target.id, Scrubbed { pool: target.pool, at: Timestamp::now(), last });
        }
        self.ended.push_back(record);
        let excess = self.ended.len().saturating_sub(HISTORY);
        self.ended.drain(..excess);
        self.ended.back_mut()
    }
}
