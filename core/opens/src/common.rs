//! What all files of a table share: limits, time limits, and the graph of waits.
//!
//! Invariant: none of it is locked while a file's lock is asked for; files' locks come first.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::deadlock::WaitGraph;
use crate::effects::held;
use crate::key::{FileKey, OpenId};
use crate::settings::{Budgets, Settings};

/// What files share.
#[derive(Debug)]
pub(crate) struct Common {
    pub settings: Settings,
    pub budgets: Budgets,
    pub graph: Arc<WaitGraph>,
    /// Files with a break or a kept open that ends then; one entry a file.
    deadlines: Mutex<BTreeSet<(Duration, FileKey)>>,
    /// Opens that were put aside, and their files.
    kept: Mutex<BTreeMap<OpenId, FileKey>>,
    waits: AtomicU64,
}

impl Common {
    pub fn new(settings: Settings) -> Self {
        Self {
            budgets: Budgets::new(&settings),
            settings,
            graph: Arc::default(),
            deadlines: Mutex::default(),
            kept: Mutex::default(),
            waits: AtomicU64::new(1),
        }
    }

    /// A number for a wait.
    pub fn next_wait(&self) -> u64 {
        self.waits.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes an open that was put aside; it is while its file is held.
    pub fn keep(&self, open: OpenId, file: FileKey) {
        held(&self.kept).insert(open, file);
    }

    /// It is not aside any more.
    pub fn let_go(&self, open: OpenId) {
        held(&self.kept).remove(&open);
    }

    /// The file of an open that was put aside.
    pub fn kept(&self, open: OpenId) -> Option<FileKey> {
        held(&self.kept).get(&open).copied()
    }

    /// Opens that were put aside.
    pub fn kept_count(&self) -> usize {
        held(&self.kept).len()
    }

    /// Notes when a file is to be looked at, instead of what was noted.
    pub fn schedule(&self, file: FileKey, before: Option<Duration>, at: Option<Duration>) {
        if before != at {
            let mut deadlines = held(&self.deadlines);
            before.map(|before| deadlines.remove(&(before, file)));
            at.map(|at| deadlines.insert((at, file)));
        }
    }

    /// The first file whose time has come, after this one.
    pub fn due(&self, now: Duration, after: Option<(Duration, FileKey)>) -> Option<(Duration, FileKey)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        held(&self.deadlines).range((from, Bound::Unbounded)).next().copied().filter(|(at, _)| *at <= now)
    }

    /// When the next file is to be looked at.
    pub fn next_deadline(&self) -> Option<Duration> {
        held(&self.deadlines).first().map(|(at, _)| *at)
    }

    /// Forgets a note whose file is not there any more.
    pub fn unschedule(&self, note: (Duration, FileKey)) {
        held(&self.deadlines).remove(&note);
    }

    /// Files that are noted.
    pub fn scheduled(&self) -> usize {
        held(&self.deadlines).len()
    }
}
