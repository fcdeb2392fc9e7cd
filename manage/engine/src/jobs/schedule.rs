//! What is asked for by the calendar: a scrub of each space, now and then.
//!
//! Invariant: a space is scrubbed again so long after its last scrub ended, however it ended; a space that was never
//! scrubbed, so long after it was first seen. Spaces of pools that nobody knows any more are forgotten.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{JobPriority, StartJob};
use holdfast_model::Uuid;
use jiff::Timestamp;

use super::spec::{JobSpec, SpaceRef};
use super::table::Scrubbed;
use crate::engine::Engine;

/// How long ago that was; no time where the clock was set back.
fn since(at: Timestamp) -> Duration {
    Duration::try_from(Timestamp::now().duration_since(at)).unwrap_or_default()
}

impl Engine {
    /// Asks for the scrubs that are due.
    pub(super) async fn ask_for_scrubs(self: &Arc<Self>) {
        let Some(every) = self.settings.scrub_every else { return };
        let due = self.note_spaces(every);
        if due.is_empty() {
            return;
        }
        let asked = self.change(move |engine| async move {
            for space in due {
                let request = StartJob { priority: Some(JobPriority::Low), ..StartJob::default() };
                engine.add_job(JobSpec::Scrub(space), request)?;
            }
            Ok(())
        });
        if let Err(error) = asked.await {
            tracing::warn!("scrubs that are due wait: {error}");
        }
    }

    /// Notes spaces that are new, forgets those that are gone, and says which are due.
    fn note_spaces(&self, every: Duration) -> Vec<SpaceRef> {
        let (open, offline): (Vec<_>, BTreeSet<Uuid>) = {
            let live = self.live();
            (live.pools.values().cloned().collect(), live.offline.keys().copied().collect())
        };
        let spaces = open.iter().flat_map(|open| {
            let space = |record| SpaceRef::of(open, &record);
            open.pool.spaces().into_iter().map(space)
        });
        let spaces: Vec<SpaceRef> = spaces.collect();
        let mut inner = self.jobs.inner();
        let known = inner.table.scrubbed.len();
        let there: BTreeSet<Uuid> = spaces.iter().map(|space| space.space).collect();
        inner.table.scrubbed.retain(|space, scrubbed| there.contains(space) || offline.contains(&scrubbed.pool));
        inner.unsaved |= inner.table.scrubbed.len() != known;
        let mut due = Vec::new();
        for space in spaces {
            match inner.table.scrubbed.get(&space.space) {
                None => {
                    inner.table.scrubbed.insert(space.space, Scrubbed { pool: space.pool, at: Timestamp::now() });
                    inner.unsaved = true;
                }
                Some(scrubbed) if since(scrubbed.at) >= every => due.push(space),
                Some(_) => {}
            }
        }
        let under_way = |space: &SpaceRef| {
            let scrub = JobSpec::Scrub(space.clone());
            inner.table.jobs.iter().any(|record| record.spec.is_like(&scrub))
        };
        due.retain(|space| !under_way(space));
        due
    }
}
