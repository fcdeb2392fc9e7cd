//! What is done of itself about disks that stay away: they are retired, and what they held is made anew, as the policy
//! of their pool says.
//!
//! Invariants: a disk that comes back within the time of grace costs no rebuild and keeps its usage; disks that go out
//! together are retired only where all of them find room; a repair that failed is asked for again no sooner than after
//! as long a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{JobKind, SetPace, Severity};
use holdfast_model::{DiskState, RetirePolicy, Usage, Uuid};
use holdfast_pool::SpaceRecord;

use super::spec::{JobSpec, Target};
use super::{Inner, Jobs};
use crate::engine::{Engine, OpenPool};

/// How soon something that was in vain is tried again, at the soonest.
const LEAST_RETRY: Duration = Duration::from_secs(30);
/// Disks whose time of grace ends within this are given up together, or none.
const TOGETHER: Duration = Duration::from_secs(30);

/// Disks of a pool whose time of grace is over.
struct Lost {
    open: Arc<OpenPool>,
    /// Those that are to be retired.
    disks: Vec<Uuid>,
    /// Those that are to be rebuilt.
    spaces: Vec<Target>,
}

impl Engine {
    /// Gives up the disks whose time has come.
    pub(super) async fn ask_for_repairs(self: &Arc<Self>) {
        let due = self.lost_for_good();
        if due.is_empty() {
            return;
        }
        let asked = self.change(move |engine| async move {
            for Lost { open, disks, spaces } in due {
                for disk in disks {
                    engine.retire_member(&open, disk, &format!("disk {disk}")).await?;
                }
                for space in spaces {
                    engine.note(&space.object(), "is to be rebuilt: its missing disks did not return");
                    engine.add_job(JobSpec::new(JobKind::Repair, space), SetPace::default())?;
                }
            }
            Ok(())
        });
        if let Err(error) = asked.await {
            tracing::warn!("due repairs are delayed: {error}");
        }
    }

    /// Notes which disks are out since when, and says what is due.
    fn lost_for_good(&self) -> Vec<Lost> {
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        let now = Instant::now();
        let mut inner = self.jobs.inner();
        let mut out: BTreeSet<Uuid> = BTreeSet::new();
        let mut due = Vec::new();
        for open in pools {
            let disks: Vec<_> = open.pool.disks().into_iter().map(|disk| disk.record).collect();
            let lost: Vec<_> = disks.into_iter().filter(|disk| disk.state != DiskState::Online).collect();
            out.extend(lost.iter().map(|disk| disk.id));
            for disk in &lost {
                inner.out_since.entry(disk.id).or_insert(now);
            }
            let (policy, grace) = (open.pool.loss_policy(), self.grace_of(&open));
            let Some(grace) = grace.filter(|_| policy.retire != RetirePolicy::Never && open.pool.refusal().is_none())
            else {
                continue;
            };
            let over = |disk: &Uuid, at: Instant| inner.out_since.get(disk).is_some_and(|since| at >= *since + grace);
            let together: BTreeSet<u16> =
                lost.iter().filter(|disk| over(&disk.id, now + TOGETHER)).map(|disk| disk.index).collect();
            let lost: Vec<_> = lost.into_iter().filter(|disk| over(&disk.id, now)).collect();
            if lost.is_empty() {
                continue;
            }
            let disks: Vec<Uuid> =
                lost.iter().filter(|disk| disk.usage != Usage::Retired).map(|disk| disk.id).collect();
            let spaces = inner.spaces_to_rebuild(&open, now, grace.max(LEAST_RETRY));
            if disks.is_empty() && spaces.is_empty() {
                continue;
            }
            if policy.retire == RetirePolicy::Auto && !self.have_room(&mut inner, &open, &together, now) {
                continue;
            }
            due.push(Lost { open, disks, spaces });
        }
        inner.out_since.retain(|disk, _| out.contains(disk));
        due
    }

    /// How long disks of a pool may be away before they are given up.
    fn grace_of(&self, open: &OpenPool) -> Option<Duration> {
        let own = open.pool.loss_policy().grace_seconds;
        own.map(|seconds| Duration::from_secs(seconds.into())).or_else(|| self.repair_after())
    }

    /// How long it takes until what lost disks held is repaired without being asked for; nothing where it is due.
    ///
    /// # Errors
    /// Why it is not.
    pub(crate) fn repair_outlook(&self, open: &OpenPool, lost: &[Uuid]) -> Result<Option<Duration>, String> {
        if open.pool.refusal().is_some() {
            return Err("its pool takes no changes".into());
        }
        if open.pool.loss_policy().retire == RetirePolicy::Never {
            return Err(format!("pool {} never repairs automatically (retire policy never)", open.name()));
        }
        let Some(grace) = self.grace_of(open) else {
            return Err("automatic repair is off on this server".into());
        };
        let inner = self.jobs.inner();
        if inner.no_room.contains_key(&open.pool.id()) {
            return Err("the other disks have no room for all of it".into());
        }
        let since = lost.iter().filter_map(|disk| inner.out_since.get(disk)).min();
        let left = since.map_or(grace, |since| grace.saturating_sub(since.elapsed()));
        Ok((!left.is_zero()).then_some(left))
    }

    /// Whether what lost disks held has room on the others; tells it where it has not.
    fn have_room(&self, inner: &mut Inner, open: &OpenPool, lost: &BTreeSet<u16>, now: Instant) -> bool {
        let pool = open.pool.id();
        let known = inner.no_room.get(&pool).copied();
        if known.is_some_and(|again| now < again) {
            return false;
        }
        if open.pool.has_room_without(lost) {
            inner.no_room.remove(&pool);
            return true;
        }
        if inner.no_room.insert(pool, now + LEAST_RETRY).is_none() {
            let cause = "the data of its lost disks was not rebuilt: not all of it fits on the other disks";
            let next = "attach the disks again or add others; 'holdfast pool set --retire-policy always' rebuilds as much as fits";
            self.events.emit(Severity::Warning, &open.object(), cause, next);
        }
        false
    }
}

impl Jobs {
    /// Parts disks that are out of service by when they went out.
    pub(crate) fn out_together<D>(&self, mut disks: Vec<D>, id: impl Fn(&D) -> Uuid) -> Vec<Vec<D>> {
        let now = Instant::now();
        let inner = self.inner();
        let since = |disk: &D| inner.out_since.get(&id(disk)).copied().unwrap_or(now);
        disks.sort_by_key(since);
        let mut groups: Vec<Vec<D>> = Vec::new();
        let mut last = None;
        for disk in disks {
            let at = since(&disk);
            match groups.last_mut().filter(|_| last.is_some_and(|last| at - last <= TOGETHER)) {
                Some(group) => group.push(disk),
                None => groups.push(vec![disk]),
            }
            last = Some(at);
        }
        groups
    }

    /// What is to become of lost disks without being asked for, as far as it shows.
    pub(crate) fn outlooks(&self) -> (Vec<Uuid>, Vec<Uuid>) {
        let inner = self.inner();
        (inner.out_since.keys().copied().collect(), inner.no_room.keys().copied().collect())
    }
}

impl Inner {
    /// The spaces of a pool that miss slabs on lost disks and for which no repair was asked of late.
    fn spaces_to_rebuild(&mut self, open: &OpenPool, now: Instant, retry: Duration) -> Vec<Target> {
        let space = |record: SpaceRecord| Target::space(open, &record);
        let (mut lost, mut whole) = (Vec::new(), Vec::new());
        for record in open.pool.spaces() {
            match open.pool.lost_slabs(record.id).is_empty() {
                true => whole.push(record.uuid),
                false => lost.push(record),
            }
        }
        self.repair_at.retain(|space, _| !whole.contains(space));
        let due = |record: &SpaceRecord| {
            let at = self.repair_at.entry(record.uuid).or_insert(now);
            let due = *at <= now;
            if due {
                *at = now + retry;
            }
            due
        };
        lost.into_iter().filter(due).map(space).collect()
    }
}
