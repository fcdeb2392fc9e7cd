//! Jobs and times of scrubs on the pool that they are about, so that they go on wherever it is imported.
//!
//! ```text
//!   document job/KEY         a job that has not ended, with how far it is
//!   document scrubbed/SPACE  when the space with this id was scrubbed last, and how that ended
//!   document jobs            the table that wrote these
//! ```
//!
//! `jobs.json` is written before a request is answered; documents follow it within moments, progress every few seconds.
//! A pool that no other table wrote to since has nothing newer than `jobs.json`; what another one left counts as a
//! whole.
//!
//! Invariant: no document is written that is so already.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use holdfast_api::JobState;
use holdfast_model::Uuid;
use serde::Serialize;

use super::table::{Record, Scrubbed, Table};
use super::{Inner, NOTE_EVERY};
use crate::engine::{Engine, OpenPool};
use crate::error::ApiResult;
use crate::kept::kept;

const JOBS: &str = "job/";
const SCRUBBED: &str = "scrubbed/";
/// The document that names the table.
const TABLE: &str = "jobs";

impl Table {
    /// The documents of a pool, by name.
    fn documents(&self, pool: Uuid) -> BTreeMap<String, Vec<u8>> {
        let jobs = self.jobs.iter().filter(|record| record.spec.target.pool == pool);
        let jobs = jobs.map(|record| (format!("{JOBS}{}", record.key), text(record)));
        let scrubbed = self.scrubbed.iter().filter(|(_, scrubbed)| scrubbed.pool == pool);
        jobs.chain(scrubbed.map(|(space, scrubbed)| (format!("{SCRUBBED}{space}"), text(scrubbed)))).collect()
    }

    /// Takes a job over that another table had.
    fn take(&mut self, mut record: Record) {
        if record.state == JobState::Running {
            record.state = JobState::Queued;
        }
        self.number(&mut record);
        self.jobs.push(record);
        self.jobs.sort_by_key(|record| record.id);
    }

    /// Forgets what is about a pool that is not here any more.
    fn forget(&mut self, pool: Uuid) {
        self.jobs.retain(|record| record.spec.target.pool != pool);
        self.scrubbed.retain(|_, scrubbed| scrubbed.pool != pool);
    }
}

fn text<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("a record is made of texts and numbers")
}

impl Inner {
    /// Whether documents are to be brought in line now.
    fn takes_keeping(&mut self) -> bool {
        let due = self.unkept && self.keep_again.is_none_or(|at| at <= Instant::now());
        self.unkept &= !due;
        due
    }
}

impl Engine {
    /// Takes over what a pool that was just imported has of jobs and scrubs, unless this table wrote it.
    pub(crate) async fn adopt_jobs(&self, open: &OpenPool) {
        let id = open.pool.id();
        let own = {
            let mut inner = self.jobs.inner();
            inner.unkept = true;
            inner.table.node
        };
        if kept::<Uuid>(&open.pool, TABLE) == Some(own) {
            return;
        }
        let read = |prefix| open.pool.documents(prefix).into_iter();
        let jobs: Vec<Record> = read(JOBS).filter_map(|(_, text)| serde_json::from_slice(&text).ok()).collect();
        let scrubbed = read(SCRUBBED).filter_map(|(key, text)| {
            let space = key.strip_prefix(SCRUBBED)?.parse().ok()?;
            Some((space, serde_json::from_slice::<Scrubbed>(&text).ok()?))
        });
        let scrubbed: Vec<(Uuid, Scrubbed)> = scrubbed.collect();
        {
            let mut inner = self.jobs.inner();
            inner.table.forget(id);
            jobs.into_iter().filter(|record| record.spec.target.pool == id).for_each(|record| inner.table.take(record));
            inner
                .table
                .scrubbed
                .extend(scrubbed.into_iter().map(|(space, known)| (space, Scrubbed { pool: id, ..known })));
            self.jobs.save(&mut inner);
        }
        // Only now this table may count for more than what the pool has.
        if let Err(error) = self.keep(&open.pool, TABLE.into(), Some(&own)).await {
            tracing::warn!("{error}");
        }
    }

    /// Brings the documents of all pools in line with the table, where something changed and it is time.
    pub(super) async fn keep_jobs(&self) {
        if self.jobs.inner().takes_keeping() {
            self.keep_all_jobs().await;
        }
    }

    /// The same at once, behind whoever is at it.
    pub(super) async fn keep_all_jobs(&self) {
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        for open in pools.iter().filter(|open| open.pool.refusal().is_none()) {
            if let Err(error) = self.keep_jobs_of(open).await {
                tracing::warn!("jobs of pool {} are not kept on it: {error}", open.name());
                let mut inner = self.jobs.inner();
                inner.unkept = true;
                inner.keep_again = Some(Instant::now() + NOTE_EVERY);
            }
        }
    }

    /// The same of one pool. What another table left there is not touched before it was taken over.
    pub(super) async fn keep_jobs_of(&self, open: &OpenPool) -> ApiResult<()> {
        let _keeping = self.jobs.keeping.lock().await;
        if kept::<Uuid>(&open.pool, TABLE) != Some(self.jobs.inner().table.node) {
            return Ok(());
        }
        let wanted = self.jobs.inner().table.documents(open.pool.id());
        let there = [JOBS, SCRUBBED].into_iter().flat_map(|prefix| open.pool.documents(prefix));
        let there: BTreeMap<String, Vec<u8>> = there.collect();
        for (key, text) in there.iter().filter(|(key, _)| !wanted.contains_key(*key)) {
            // What this version cannot read stays.
            if serde_json::from_slice::<Record>(text).is_ok() || serde_json::from_slice::<Scrubbed>(text).is_ok() {
                self.keep_text(&open.pool, key.clone(), None).await?;
            }
        }
        for (key, text) in wanted.into_iter().filter(|(key, text)| there.get(key) != Some(text)) {
            self.keep_text(&open.pool, key, Some(text)).await?;
        }
        Ok(())
    }

    /// Lets the jobs of a pool go with it: their work stops, and whoever imports it next goes on.
    pub(crate) async fn let_jobs_go(&self, open: &OpenPool) {
        self.halt_jobs_of(open.pool.id()).await;
        let written = match self.keep_jobs_of(open).await {
            Ok(()) => self.keep::<Uuid>(&open.pool, TABLE.into(), None).await,
            refused => refused,
        };
        if let Err(error) = written {
            tracing::warn!("jobs of pool {} stay as it knew them before: {error}", open.name());
        }
    }

    /// Forgets the jobs of a pool that is not here any more.
    pub(crate) fn forget_jobs_of(&self, pool: Uuid) {
        let mut inner = self.jobs.inner();
        inner.table.forget(pool);
        self.jobs.save(&mut inner);
    }
}
