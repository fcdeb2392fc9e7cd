//! What is wrong, once each: conditions of many objects are brought together under the one thing that they follow from.
//!
//! ```text
//!   disk S4NX missing ──┬─ pool tank degraded
//!                       ├─ space tank/a: less protected      ──▶  one cause: disk S4NX, affects 2 spaces,
//!                       └─ space tank/b: cannot be read            repair in 4 min, job 7
//! ```
//!
//! Disks of one enclosure that went out together are one cause, and so are all lost disks of a pool that takes no
//! changes for want of them. Invariant: every condition of every object is part of a cause, so that nothing is well
//! here that is not well there.

mod exposure;
mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use holdfast_api::pool::PoolHealth;
use holdfast_api::{
    Affected, Cause, CauseDisk, CauseKind, Condition, Export, ObjectHealth, Pool, Space, Target, Volume,
};
use holdfast_model::{DiskState, Health, ObjectKind, ObjectRef, Reason, SpaceState, Usage, Uuid};
use holdfast_pool::DiskStatus;

use crate::engine::{Engine, OpenPool};
use crate::exports::export_object;
use crate::protection::count;
use crate::status::state_folder;
use crate::volumes::own_health;
use exposure::Exposure;

/// A cause of which nothing but its kind, object, and condition is known yet.
fn cause(kind: CauseKind, id: &str, object: ObjectRef, health: Health, condition: Condition) -> Cause {
    Cause {
        id: format!("{} {id}", holdfast_api::word(&kind)),
        kind,
        health,
        object,
        cause: condition.cause,
        next_action: condition.next_action,
        disks: Vec::new(),
        affects: Vec::new(),
        repair_at: None,
        repair_in_seconds: None,
        no_repair: None,
        resync_slabs: 0,
        resync_percent: None,
        jobs: Vec::new(),
    }
}

fn joined(conditions: &[Condition]) -> Condition {
    let causes: Vec<&str> = conditions.iter().map(|condition| condition.cause.as_str()).collect();
    let next = conditions.first().map(|condition| condition.next_action.clone()).unwrap_or_default();
    Condition::new(causes.join("; "), next)
}

fn enclosure(disk: &DiskStatus) -> Option<&str> {
    disk.record.place.as_ref().map(|place| place.enclosure.as_str())
}

/// Disks of one enclosure together, all others alone.
fn by_enclosure<'a>(disks: &[&'a DiskStatus]) -> Vec<Vec<&'a DiskStatus>> {
    let (mut groups, mut placed): (Vec<Vec<&DiskStatus>>, BTreeMap<&str, Vec<&DiskStatus>>) = Default::default();
    for disk in disks {
        match enclosure(disk) {
            Some(enclosure) => placed.entry(enclosure).or_default().push(disk),
            None => groups.push(vec![disk]),
        }
    }
    groups.extend(placed.into_values());
    groups
}

/// A pool in service, as causes are looked for in it.
struct Site<'a> {
    open: &'a OpenPool,
    view: &'a Pool,
    disks: Vec<DiskStatus>,
    /// The spaces that miss slabs.
    exposed: Vec<Exposure>,
    resyncing: bool,
}

impl Site<'_> {
    fn disk(&self, disk: &DiskStatus) -> CauseDisk {
        let record = &disk.record;
        CauseDisk {
            id: record.id,
            pool: self.view.name.clone(),
            path: record.path.clone(),
            serial: record.serial.clone(),
            enclosure: record.place.as_ref().map(|place| place.enclosure.clone()),
            slot: record.place.as_ref().map(|place| place.slot),
            size_bytes: record.disk_bytes,
            used_bytes: disk.data_bytes.saturating_sub(disk.free_bytes),
            usage: record.usage,
            state: record.state,
        }
    }

    /// The spaces that miss slabs on these disks.
    fn exposed_by(&self, disks: &[&DiskStatus]) -> impl Iterator<Item = &Exposure> {
        let indexes: BTreeSet<u16> = disks.iter().map(|disk| disk.record.index).collect();
        self.exposed.iter().filter(move |exposure| exposure.slabs.keys().any(|disk| indexes.contains(disk)))
    }

    /// Adds disks and the spaces that miss slabs on them.
    fn about(&self, mut cause: Cause, disks: &[&DiskStatus]) -> Cause {
        cause.disks = disks.iter().map(|disk| self.disk(disk)).collect();
        cause.disks.sort_by(|a, b| (&a.enclosure, a.slot, &a.path).cmp(&(&b.enclosure, b.slot, &b.path)));
        cause.affects.extend(self.exposed_by(disks).map(Exposure::affected));
        cause
            .affects
            .sort_by(|a, b| (b.health, a.object.kind, &a.object.name).cmp(&(a.health, b.object.kind, &b.object.name)));
        cause
    }

    /// One lost disk, or several of one enclosure.
    fn lost(&self, disks: &[&DiskStatus]) -> Cause {
        let Some(first) = disks.first() else { unreachable!("a group has a disk") };
        let health = disks.iter().map(|disk| disk.health).max().unwrap_or_default();
        if disks.len() > 1 {
            let name = enclosure(first).unwrap_or_default();
            let all = self.disks.iter().filter(|disk| enclosure(disk) == Some(name)).count();
            let slots: BTreeSet<u32> = disks.iter().filter_map(|disk| Some(disk.record.place.as_ref()?.slot)).collect();
            let slots: Vec<String> = slots.iter().map(u32::to_string).collect();
            let condition = Condition::new(
                format!(
                    "{} of {all} disks of pool {} in enclosure {name} went out of service together: slots {}",
                    disks.len(),
                    self.view.name,
                    slots.join(", ")
                ),
                "look at power and cables of the enclosure; replace the disks if they do not come back",
            );
            let id = format!("{} {name} {}", self.view.name, first.record.id);
            return self.about(
                cause(CauseKind::EnclosureLost, &id, ObjectRef::named(ObjectKind::Enclosure, name), health, condition),
                disks,
            );
        }
        let mut condition = joined(&first.conditions);
        if let Some(place) = &first.record.place {
            condition.cause += &format!(", slot {} of enclosure {}", place.slot, place.enclosure);
        }
        if first.record.usage == Usage::Retired && first.free_bytes == first.data_bytes {
            condition.next_action = format!(
                "nothing needs it any more: take it out of its pool with 'holdfast disk remove {}'",
                first.record.id
            );
        }
        let object = first.record.object();
        self.about(cause(CauseKind::DiskLost, &first.record.id.to_string(), object, health, condition), disks)
    }

    fn failing(&self, disk: &DiskStatus) -> Cause {
        let (object, condition) = (disk.record.object(), joined(&disk.conditions));
        self.about(cause(CauseKind::DiskFailing, &disk.record.id.to_string(), object, disk.health, condition), &[disk])
    }

    /// Disks in service that are brought in step; `most` is how many slabs were to be at first.
    fn resyncing(&self, disks: &[&DiskStatus], most: impl FnOnce(u64) -> u64) -> Option<Cause> {
        let first = disks.first()?;
        let indexes: BTreeSet<u16> = disks.iter().map(|disk| disk.record.index).collect();
        let missed = self.exposed.iter().flat_map(|exposure| &exposure.slabs);
        let slabs: u64 = missed.filter(|(disk, _)| indexes.contains(disk)).map(|(_, slabs)| slabs).sum();
        let object = match disks {
            [disk] => disk.record.object(),
            _ => ObjectRef::named(ObjectKind::Enclosure, enclosure(first).unwrap_or_default()),
        };
        let are = if slabs == 1 { "is" } else { "are" };
        let (doing, next) = match self.resyncing {
            true => ("being resynced", "wait until the resync is done; until then spaces have less redundancy"),
            false => (
                "not resynced yet",
                "they are resynced automatically once the disks they need are present; see 'holdfast event list'",
            ),
        };
        let who = if disks.len() == 1 {
            object.to_string()
        } else {
            format!("{} of {object}", count(disks.len() as u64, "disk"))
        };
        let condition = Condition::new(format!("{} on {who} {are} {doing}", count(slabs, "slab")), next);
        let id = first.record.id.to_string();
        let mut told = self.about(cause(CauseKind::DiskResyncing, &id, object, Health::Warning, condition), disks);
        let most = most(slabs).max(slabs).max(1);
        told.resync_slabs = slabs;
        told.resync_percent = Some(crate::view::percent(most - slabs, most));
        Some(told)
    }

    /// What is wrong with the pool itself and not with a disk or a space of it: conditions with the same way out are one cause.
    fn of_pool(&self) -> Vec<Cause> {
        let about = |condition: &Condition| condition.about.as_ref().map(|part| part.kind);
        let own = |condition: &&Condition| {
            !matches!(condition.reason, Some(Reason::ReadOnly | Reason::MissingSlabs))
                && about(condition) != Some(ObjectKind::Disk)
        };
        let name = &self.view.name;
        let mut ways: BTreeMap<&str, Vec<&Condition>> = BTreeMap::new();
        for condition in self.view.conditions.iter().filter(own) {
            ways.entry(&condition.next_action).or_default().push(condition);
        }
        let told = |(next, conditions): (&str, Vec<&Condition>)| {
            let (mut affects, mut causes) = (Vec::new(), Vec::new());
            for condition in conditions {
                match condition.about.as_ref().filter(|_| condition.reason == Some(Reason::NoRoom)) {
                    Some(space) => affects.push(Affected {
                        object: space.clone(),
                        health: Health::Warning,
                        effect: "finds no room to grow into".into(),
                    }),
                    None => causes.push(condition.cause.as_str()),
                }
            }
            if causes.is_empty() && !affects.is_empty() {
                causes.push("what needs new room is refused, all else goes on");
            }
            let condition = Condition::new(format_pool(name, &causes.join("; ")), next);
            let mut told =
                cause(CauseKind::Pool, &format!("{name} {next}"), self.open.object(), Health::Warning, condition);
            told.affects = affects;
            told
        };
        ways.into_iter().map(told).collect()
    }
}

/// The sentence, naming its pool.
fn format_pool(name: &str, text: &str) -> String {
    let named = format!("pool {name}");
    if text.contains(&named) { text.into() } else { format!("{named}: {text}") }
}

impl Engine {
    /// Everything that is wrong, the worst first.
    pub(crate) fn causes(
        &self,
        pools: &[Pool],
        spaces: &[Space],
        volumes: &[Volume],
        exports: &[Export],
        targets: &[Target],
    ) -> Vec<Cause> {
        let open: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        let mut causes: Vec<Cause> = pools.iter().filter_map(offline).collect();
        let mut resyncing = BTreeSet::new();
        for open in &open {
            if let Some(view) = pools.iter().find(|pool| pool.id == open.pool.id()) {
                causes.extend(self.causes_of(open, (view, spaces), &mut resyncing));
            }
        }
        self.resyncs.lock().unwrap_or_else(PoisonError::into_inner).retain(|disk, _| resyncing.contains(disk));
        for volume in volumes {
            let object = ObjectRef::new(ObjectKind::Volume, volume.id.to_string(), &volume.name);
            let of_volume = |(place, told): (usize, &Condition)| {
                let condition = Condition { cause: format!("{object}: {}", told.cause), ..told.clone() };
                let id = if place == 0 { volume.name.clone() } else { format!("{} {place}", volume.name) };
                cause(CauseKind::Volume, &id, object.clone(), own_health(volume, told), condition)
            };
            let (below, own): (Vec<&Condition>, Vec<&Condition>) =
                volume.conditions.iter().partition(|condition| condition.about.is_some());
            for told in &mut causes {
                let of_those =
                    |object: &ObjectRef| below.iter().filter_map(|told| told.about.as_ref()).any(|one| one.is(object));
                let health = told.affects.iter().filter(|one| of_those(&one.object)).map(|one| one.health).max();
                let health = health.or_else(|| of_those(&told.object).then_some(told.health));
                let effect = format!("lies on space {}", volume.space);
                told.affects.extend(health.map(|health| Affected { object: object.clone(), health, effect }));
            }
            causes.extend(own.into_iter().enumerate().map(of_volume));
        }
        for export in exports.iter().filter(|export| export.health != Health::Healthy) {
            let object = export_object(&export.name);
            let known = self.live().exports.get(&export.name).map(|export| export.known.clone());
            let Some(known) = known else { continue };
            let (pool, space) = (ObjectRef::pool(known.pool, ""), ObjectRef::space(known.space, &export.space));
            let effect =
                if export.served { "answers with errors where its space cannot be read" } else { "is not served" };
            let affected = Affected { object: object.clone(), health: export.health, effect: effect.into() };
            let explains = |cause: &&mut Cause| {
                (cause.kind == CauseKind::PoolOffline && cause.object.is(&pool))
                    || cause.affects.iter().any(|one| one.object.is(&space) && one.health == Health::Unhealthy)
            };
            let mut explained = false;
            for cause in causes.iter_mut().filter(explains) {
                cause.affects.push(affected.clone());
                explained = true;
            }
            if !explained {
                let condition = export.conditions.first().cloned();
                causes
                    .extend(condition.map(|told| cause(CauseKind::Export, &export.name, object, export.health, told)));
            }
        }
        self.causes_of_targets(targets, &mut causes);
        causes.extend(self.store().trouble().map(|trouble| {
            let condition = self.unwritable(&trouble);
            cause(CauseKind::Daemon, "state folder", state_folder(), Health::Unhealthy, condition)
        }));
        causes.extend(self.notifications.troubles().into_iter().flat_map(|channel| {
            let ObjectHealth { object, health, conditions } = channel;
            conditions
                .into_iter()
                .map(move |told| cause(CauseKind::Daemon, &object.to_string(), object.clone(), health, told))
        }));
        causes.sort_by(|a, b| (b.health, a.kind, &a.object.name).cmp(&(a.health, b.kind, &b.object.name)));
        causes
    }

    fn causes_of(
        &self,
        open: &Arc<OpenPool>,
        (view, shown): (&Pool, &[Space]),
        resyncing: &mut BTreeSet<Uuid>,
    ) -> Vec<Cause> {
        let mut causes = Vec::new();
        let mut site = Site { open, view, disks: open.pool.disks(), exposed: Vec::new(), resyncing: false };
        for disk in site.disks.iter_mut().filter(|disk| disk.record.state != DiskState::Online) {
            if let Some(job) = self.jobs.replacing(disk.record.id) {
                disk.conditions = crate::protection::replaced(disk, &job, Vec::new());
            }
        }
        let refusal = view.conditions.iter().find(|condition| condition.reason == Some(Reason::ReadOnly));
        let of_pool = site.of_pool();
        let is_told = |space: &ObjectRef, condition: &Condition| {
            let full = of_pool.iter().flat_map(|told| &told.affects).any(|one| one.object.is(space));
            full && condition.reason == Some(Reason::NoRoom)
        };
        let spaces: Vec<_> = open.spaces().values().cloned().collect();
        for space in &spaces {
            let id = space.record().uuid;
            let Some(shown) = shown.iter().find(|shown| shown.id == id) else { continue };
            site.resyncing |= shown.state == SpaceState::Resyncing || space.is_resyncing();
            let mut own = shown.conditions.clone();
            if shown.stale_slabs > 0 {
                // What a space says of its missing slabs is told by the disks that they are on.
                own.retain(|condition| condition.reason != Some(Reason::MissingSlabs));
                site.exposed.push(exposure::of(open, space, &shown.protection));
            }
            let object = ObjectRef::space(shown.id, &shown.name);
            own.retain(|condition| !is_told(&object, condition));
            causes.extend(own.into_iter().map(|condition| {
                let id = format!("{} {}", shown.name, condition.next_action);
                cause(CauseKind::Space, &id, object.clone(), shown.health, condition)
            }));
        }
        let (lost, online): (Vec<&DiskStatus>, Vec<&DiskStatus>) =
            site.disks.iter().partition(|disk| disk.record.state != DiskState::Online);
        let for_want_of_disks = !lost.is_empty() && open.pool.features().unknown_read_only() == 0;
        if let Some(condition) = refusal {
            let mut told =
                cause(CauseKind::PoolReadOnly, &view.name, open.object(), Health::Unhealthy, condition.clone());
            if for_want_of_disks {
                told.cause += &format!("; {} of {} out of service", lost.len(), count(site.disks.len() as u64, "disk"));
                told = site.about(told, &lost);
            }
            causes.push(told);
        }
        if refusal.is_none() || !for_want_of_disks {
            causes.extend(
                self.lost_together(&lost).iter().map(|group| self.with_outlook(&site, site.lost(group), group)),
            );
        }
        let (failing, well): (Vec<&DiskStatus>, Vec<&DiskStatus>) =
            online.iter().partition(|disk| !disk.conditions.is_empty());
        causes.extend(failing.iter().map(|disk| self.with_outlook(&site, site.failing(disk), &[disk])));
        // What a job rebuilds of a lost disk is part of that one's cause, wherever the slabs are now.
        let mut rebuilt: BTreeSet<Uuid> = BTreeSet::new();
        for disk in &lost {
            let spaces: Vec<Uuid> = site.exposed_by(&[disk]).map(|exposure| exposure.id).collect();
            if !self.jobs.mending(&[disk.record.id], &spaces).is_empty() {
                rebuilt.extend(spaces);
            }
        }
        let is_behind = |disk: &&DiskStatus| site.exposed_by(&[disk]).any(|exposure| !rebuilt.contains(&exposure.id));
        let behind: Vec<&DiskStatus> = well.into_iter().filter(is_behind).collect();
        for group in by_enclosure(&behind) {
            let Some(first) = group.first().map(|disk| disk.record.id) else { continue };
            resyncing.insert(first);
            causes.extend(site.resyncing(&group, |slabs| {
                let mut seen = self.resyncs.lock().unwrap_or_else(PoisonError::into_inner);
                let most = seen.entry(first).or_insert(slabs);
                *most = slabs.max(*most);
                *most
            }));
        }
        causes.extend(of_pool);
        causes
    }

    /// Lost disks of one enclosure that went out together, all others alone.
    fn lost_together<'a>(&self, lost: &[&'a DiskStatus]) -> Vec<Vec<&'a DiskStatus>> {
        let mut groups = Vec::new();
        for group in by_enclosure(lost) {
            groups.extend(self.jobs.out_together(group, |disk| disk.record.id));
        }
        groups
    }

    /// Adds the jobs that mend it, and when lost disks are repaired by themselves.
    fn with_outlook(&self, site: &Site<'_>, mut cause: Cause, disks: &[&DiskStatus]) -> Cause {
        let ids: Vec<Uuid> = disks.iter().map(|disk| disk.record.id).collect();
        let spaces: Vec<Uuid> = site.exposed_by(disks).map(|exposure| exposure.id).collect();
        cause.jobs = self.jobs.mending(&ids, &spaces);
        let is_lost = matches!(cause.kind, CauseKind::DiskLost | CauseKind::EnclosureLost);
        let waits = is_lost && cause.jobs.is_empty() && cause.disks.iter().any(|disk| disk.used_bytes > 0);
        if waits {
            match self.repair_outlook(site.open, &ids) {
                Ok(Some(left)) => {
                    let now = jiff::Timestamp::now();
                    cause.repair_in_seconds = Some(left.as_secs());
                    cause.repair_at = now.checked_add(left).ok().map(|at| format!("{at:.0}"));
                }
                Ok(None) => {}
                Err(why) => cause.no_repair = Some(why),
            }
        }
        cause
    }
}

fn offline(pool: &Pool) -> Option<Cause> {
    let condition = pool.conditions.first().filter(|_| pool.state == PoolHealth::Offline)?.clone();
    Some(cause(CauseKind::PoolOffline, &pool.name, ObjectRef::pool(pool.id, &pool.name), Health::Unhealthy, condition))
}
