//! What is asked for by the calendar: a scrub of each space, now and then; and when that was and will be.
//!
//! Invariant: a space is scrubbed again so long after its last scrub ended, however it ended; a space that was never
//! scrubbed, so long after it was first seen. Where that is in the future, as the clock was ahead then, it counts from now
//! on. Spaces of pools that nobody knows any more are forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{JobKind, JobPriority, SetPace, Severity, SpaceScrub};
use holdfast_model::Uuid;
use jiff::Timestamp;

use super::spec::{JobSpec, Target};
use super::table::Scrubbed;
use crate::engine::Engine;
use crate::events::moment;
use crate::view::row;

/// How far ahead a time may be that counts as it is: clocks are set back a little now and then.
const AHEAD: Duration = Duration::from_secs(3600);

/// How long ago that was; no time where the clock was set back.
fn since(at: Timestamp) -> Duration {
    Duration::try_from(Timestamp::now().duration_since(at)).unwrap_or_default()
}

/// Whether it is a time of a clock that was ahead.
fn is_ahead(at: Timestamp) -> bool {
    at.duration_since(Timestamp::now()) > jiff::SignedDuration::try_from(AHEAD).unwrap_or_default()
}

impl Engine {
    /// When a space was scrubbed, and when it is next.
    pub(crate) fn scrub_of(&self, space: Uuid) -> SpaceScrub {
        let every = self.scrub_every();
        let inner = self.jobs.inner();
        let job = inner.table.jobs.iter().find(|record| record.spec.is(JobKind::Scrub, space)).map(|record| record.id);
        let Some(known) = inner.table.scrubbed.get(&space) else { return SpaceScrub { job, ..SpaceScrub::default() } };
        SpaceScrub {
            last_at: known.last.as_ref().map(|_| moment(known.at)),
            last_state: known.last.as_ref().map(|last| last.state),
            last_result: known.last.as_ref().and_then(|last| last.result.clone()),
            next_at: every.filter(|_| job.is_none()).and_then(|every| known.at.checked_add(every).ok()).map(moment),
            job,
        }
    }

    /// Asks for the scrubs that are due.
    pub(super) async fn ask_for_scrubs(self: &Arc<Self>) {
        let Some(every) = self.scrub_every() else { return };
        let due = self.note_spaces(every);
        if due.is_empty() {
            return;
        }
        let asked = self.change(move |engine| async move {
            for space in due {
                let request = SetPace { priority: Some(JobPriority::Low), ..SetPace::default() };
                engine.add_job(JobSpec::new(JobKind::Scrub, space), request)?;
            }
            Ok(())
        });
        if let Err(error) = asked.await {
            tracing::warn!("due scrubs are delayed: {error}");
        }
    }

    /// Tells that the clock was ahead when spaces of a pool were scrubbed.
    fn tell_of_clock(&self, of: &Target, names: &[String], latest: Timestamp) {
        let named = row(names);
        let cause = format!(
            "the last scrub of {named} was at {}, which has not come yet: the clock was ahead; the next one counts from now \
             on",
            moment(latest)
        );
        let next = "check the clock of this machine; 'holdfast space scrub POOL/SPACE' scrubs a space now";
        self.events.emit(Severity::Warning, &of.pool_object(), &cause, next);
    }

    /// Notes spaces that are new, forgets those that are gone, and says which are due.
    fn note_spaces(&self, every: Duration) -> Vec<Target> {
        let (open, offline): (Vec<_>, BTreeSet<Uuid>) = {
            let live = self.live();
            (live.pools.values().cloned().collect(), live.offline.keys().copied().collect())
        };
        let spaces = open.iter().flat_map(|open| {
            let space = |record| Target::space(open, &record);
            open.pool.spaces().into_iter().map(space)
        });
        let spaces: Vec<Target> = spaces.collect();
        let mut inner = self.jobs.inner();
        let known = inner.table.scrubbed.len();
        let there: BTreeSet<Uuid> = spaces.iter().map(|space| space.id).collect();
        inner.table.scrubbed.retain(|space, scrubbed| there.contains(space) || offline.contains(&scrubbed.pool));
        inner.unsaved |= inner.table.scrubbed.len() != known;
        let mut due = Vec::new();
        let mut ahead: BTreeMap<Uuid, (Target, Vec<String>, Timestamp)> = BTreeMap::new();
        for space in spaces {
            match inner.table.scrubbed.get_mut(&space.id) {
                Some(scrubbed) if is_ahead(scrubbed.at) => {
                    let told = std::mem::replace(&mut scrubbed.at, Timestamp::now());
                    let (_, names, latest) = ahead.entry(space.pool).or_insert_with(|| (space.clone(), vec![], told));
                    names.push(space.name);
                    *latest = told.max(*latest);
                    inner.unsaved = true;
                }
                None => {
                    inner
                        .table
                        .scrubbed
                        .insert(space.id, Scrubbed { pool: space.pool, at: Timestamp::now(), last: None });
                    inner.unsaved = true;
                }
                Some(scrubbed) if since(scrubbed.at) >= every => due.push(space),
                Some(_) => {}
            }
        }
        let under_way = |space: &Target| inner.table.jobs.iter().any(|record| record.spec.is(JobKind::Scrub, space.id));
        due.retain(|space| !under_way(space));
        drop(inner);
        for (space, names, latest) in ahead.into_values() {
            self.tell_of_clock(&space, &names, latest);
        }
        due
    }
}
