//! Volumes as the API shows them.
//!
//! Invariant: a volume is never better than its space, nor takes a pool that takes no changes for a good one. What it
//! has from them is about them, so that it is told as one cause with theirs; what it has of itself matters no more for
//! it.

use std::borrow::Cow;

use holdfast_api::{
    Condition, Space as SpaceView, Volume as VolumeView, VolumeChecksums, VolumeMount, VolumeShrinking, VolumeState,
};
use holdfast_model::{ByteSize, Health, PoolState, Reason, counted};

use holdfast_volume::ChecksumCounts;

use super::known::Stage;
use super::properties::mode_change;
use super::{Findings, LiveVolume, quotas, snapshots};
use crate::engine::{Engine, OpenPool};

/// Findings in words, with what is to be done about them.
fn findings(name: &str, found: &Findings) -> Condition {
    let mut cause = found.words();
    if found.fixed > 0 {
        cause = format!("{cause}, {} fixed", found.fixed);
    }
    if found.offline > 0 {
        let need = format!("{} {}", found.offline, if found.offline == 1 { "needs" } else { "need" });
        let took = found.estimate().map(|time| format!("about {:.1} s", time.as_secs_f64().max(0.1)));
        cause = format!("{cause}, {need} {} offline", took.unwrap_or_else(|| "repair".into()));
    }
    let offline = if found.offline > 0 { " --offline" } else { "" };
    let how = if found.offline > 0 { "takes it away and repairs all" } else { "repairs in use" };
    let next = format!("'holdfast volume findings {name}' lists them; 'holdfast volume spotfix {name}{offline}' {how}");
    Condition::new(cause, next)
}

fn checksums(counts: ChecksumCounts) -> VolumeChecksums {
    let ChecksumCounts { checked, wrong, healed, lost } = counts;
    VolumeChecksums { checked, wrong, healed, lost }
}

/// How much a condition that a volume has of itself matters.
pub(crate) fn own_health(volume: &VolumeView, told: &Condition) -> Health {
    let is_bad = |reason| matches!(reason, Reason::ReadOnly | Reason::Unwritten | Reason::LostData);
    let is_down = volume.state != VolumeState::Open || told.reason.is_some_and(is_bad);
    if is_down { Health::Unhealthy } else { Health::Warning }
}

/// A volume as the API shows it, but for what it has from its space and pool; with the shrink of it that is under way.
pub(super) fn view(open: &OpenPool, live: &LiveVolume, shrink: Option<VolumeShrinking>) -> VolumeView {
    let known = &live.known;
    let name = format!("{}/{}", open.name(), known.name);
    let space = open.pool.spaces().into_iter().find(|record| known.is_on(record));
    let volume = live.open.as_ref().map(|opened| &opened.volume);
    let mut conditions: Vec<Condition> = live.trouble.iter().cloned().collect();
    if let Some(why) = volume.and_then(|volume| volume.failure()) {
        let is_damaged = volume.is_some_and(|volume| volume.is_damaged());
        let told = if is_damaged {
            let next = format!("'holdfast volume salvage {name} --to DIRECTORY' copies out what can be read");
            Condition::new(format!("is damaged and takes no changes: {why}"), next)
        } else {
            let next = "check the disks of its pool, then export and import the pool";
            Condition::new(format!("takes no changes since {why}"), next)
        };
        conditions.push(told.because(Reason::ReadOnly));
    }
    if let Some((files, why)) = volume.and_then(|volume| volume.unwritten()) {
        let files = counted(files as u64, "file", "files");
        let cause = format!("keeps data of {files} in memory that cannot be written: {why}");
        let next = "check its space and the disks of its pool; it is written as soon as it can be, and lost if the server \
                    stops before";
        conditions.push(Condition::new(cause, next).because(Reason::Unwritten));
    }
    conditions.extend(live.damage.condition(&name));
    if live.findings.left > 0 {
        conditions.push(findings(&name, &live.findings));
    }
    if let Some(size) = volume.and_then(|volume| volume.unfinished_shrink()).filter(|_| shrink.is_none()) {
        let cause = format!("was being shrunk to {} when the server stopped; its files are whole", ByteSize(size));
        let next =
            format!("'holdfast volume shrink {name} --size {size}' goes on, 'holdfast volume grow' ends the matter");
        conditions.push(Condition::new(cause, next));
    }
    conditions.extend(volume.map(|volume| quotas::conditions(&name, volume, &live.quotas)).unwrap_or_default());
    conditions.extend(snapshots::conditions(&name, &live.schedule));
    let is_mounted = live.is_mounted();
    if live.is_away {
        let next = "see 'holdfast job list'; it is given back by itself";
        conditions.push(Condition::new("cannot be used while a job repairs it offline", next));
    } else if known.mount.is_some() && !is_mounted && live.trouble.is_none() {
        let directory = known.mount.as_ref().map(|mount| mount.directory.as_str()).unwrap_or_default();
        let next = format!("'holdfast volume mount {name} {directory}', or 'holdfast volume unmount {name}'");
        conditions.push(Condition::new(format!("was unmounted from {directory} by somebody else"), next));
    }
    let usage = volume.map(|volume| volume.room());
    let mounted = live.open.as_ref().and_then(|opened| opened.mounted.as_ref()).filter(|_| is_mounted);
    let over_io_uring = mounted.is_some_and(|mounted| mounted.is_over_io_uring());
    let mut shown = VolumeView {
        name,
        id: known.id,
        space: space.map_or_else(
            || format!("{}/{}", open.name(), known.on),
            |record| format!("{}/{}", open.name(), record.name),
        ),
        owns_space: known.owns_space,
        case_sensitive: (known.stage != Stage::Unreadable).then_some(known.case_sensitive),
        mode_change: volume.map(|volume| mode_change(volume.mode_change())),
        state: known.state(volume.is_some()),
        mount: known.mount.clone().map(|mount| VolumeMount {
            directory: mount.directory,
            mounted: is_mounted,
            over_io_uring,
        }),
        health: if volume.is_some() { Health::Healthy } else { Health::Unhealthy },
        conditions,
        size_bytes: volume.map(|volume| volume.size_bytes()),
        free_bytes: usage.map(|usage| usage.free_bytes),
        files: usage.map(|usage| usage.files),
        findings: volume.map(|_| live.findings.left),
        shrink,
        snapshots: volume.map(|volume| volume.snapshots().len() as u32),
        snapshot_bytes: volume.map(|volume| volume.kept_bytes()),
        checksums: volume.map(|volume| checksums(volume.checksum_counts())),
    };
    shown.health = shown.conditions.iter().map(|told| own_health(&shown, told)).fold(shown.health, Health::max);
    shown
}

impl Engine {
    /// Adds what its space and its pool say of themselves. The space is asked unless it is among `spaces`.
    pub(super) fn with_what_is_below(&self, open: &OpenPool, mut view: VolumeView, spaces: &[SpaceView]) -> VolumeView {
        let pool = open.pool.status();
        if pool.state == PoolState::ReadOnly {
            let refusals = pool.conditions.into_iter().filter(|told| told.reason == Some(Reason::ReadOnly));
            view.conditions.extend(refusals.map(|told| told.about(open.object())));
            view.health = view.health.max(pool.health);
        }
        let name = view.space.rsplit('/').next().unwrap_or_default();
        if let Some((_, space)) = open.space(name) {
            let object = open.space_object(&space.record());
            let known = spaces.iter().find(|shown| shown.id == space.record().uuid);
            let shown = known.map_or_else(|| Cow::Owned(self.space_view(open, &space)), Cow::Borrowed);
            view.conditions.extend(shown.conditions.iter().map(|told| told.clone().about(object.clone())));
            view.health = view.health.max(shown.health);
        }
        view
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn findings_tell_what_is_fixed_and_what_the_rest_needs() {
        let mut found = Findings { left: 2, ..Findings::default() };
        let told = findings("tank/files", &found);
        assert_eq!(told.cause, "2 findings");
        assert!(told.next_action.contains("'holdfast volume spotfix tank/files' repairs in use"), "{told:?}");
        found = Findings { left: 1, things: 1, offline: 1, needs_all: true, fixed: 2, scan: None };
        assert_eq!(findings("tank/files", &found).cause, "1 finding, 2 fixed, 1 needs repair offline");
        found = Findings { left: 3, things: 3, offline: 2, fixed: 1, scan: Some(Duration::from_millis(100)), ..found };
        let told = findings("tank/files", &found);
        assert_eq!(told.cause, "3 findings, 1 fixed, 2 need about 0.4 s offline");
        assert!(told.next_action.contains("'holdfast volume spotfix tank/files --offline' takes it away"), "{told:?}");
        found = Findings { left: 2, things: 1_000_001, offline: 1, needs_all: false, fixed: 0, ..found };
        assert_eq!(findings("tank/files", &found).cause, "2 findings in 1000001 places, 1 needs about 2.5 s offline");
    }

    #[test]
    fn files_without_a_name_are_one_finding() {
        use holdfast_volume::Verb;
        let verbs = [
            Verb::Orphan { file: 70 },
            Verb::Orphans { first: 128, files: u64::MAX },
            Verb::RecordLost { directory: 1, slot: 2, name: Vec::new() },
        ];
        let found = Findings::of(&verbs);
        assert_eq!((found.left, found.things, found.offline, found.needs_all), (2, 66, 1, false));
        assert!(Findings::of(&[Verb::NoRecord { file: 3 }]).needs_all);
    }
}
