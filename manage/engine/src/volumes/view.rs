//! Volumes as the API shows them.

use holdfast_api::{Condition, Volume as VolumeView, VolumeMount};
use holdfast_model::Health;

use super::LiveVolume;
use super::known::Stage;
use crate::engine::OpenPool;

/// A volume as the API shows it.
pub(super) fn view(open: &OpenPool, live: &LiveVolume) -> VolumeView {
    let known = &live.known;
    let name = format!("{}/{}", open.name(), known.name);
    let space = open.pool.spaces().into_iter().find(|record| known.is_on(record));
    let volume = live.open.as_ref().map(|opened| &opened.volume);
    let mut conditions: Vec<Condition> = live.trouble.iter().cloned().collect();
    if let Some(why) = volume.and_then(|volume| volume.failure()) {
        let cause = format!("takes no changes since {why}");
        conditions.push(Condition::new(cause, "check the disks of its pool, then export and import the pool"));
    }
    if live.findings > 0 {
        let cause =
            format!("{} of its last scan", holdfast_model::counted(live.findings as u64, "finding", "findings"));
        let next =
            format!("'holdfast volume findings {name}' lists them; 'holdfast volume spotfix {name}' repairs in use");
        conditions.push(Condition::new(cause, next));
    }
    let is_mounted = live.is_mounted();
    if known.mount.is_some() && !is_mounted && live.trouble.is_none() {
        let directory = known.mount.as_ref().map(|mount| mount.directory.as_str()).unwrap_or_default();
        let next = format!("'holdfast volume mount {name} {directory}', or 'holdfast volume unmount {name}'");
        conditions.push(Condition::new(format!("was unmounted from {directory} by somebody else"), next));
    }
    let health = match (volume, conditions.is_empty()) {
        (Some(volume), true) if volume.failure().is_none() => Health::Healthy,
        (Some(volume), _) if volume.failure().is_none() => Health::Warning,
        _ => Health::Unhealthy,
    };
    let usage = volume.map(|volume| volume.room());
    VolumeView {
        name,
        id: known.id,
        space: space.map_or_else(
            || format!("{}/{}", open.name(), known.on),
            |record| format!("{}/{}", open.name(), record.name),
        ),
        owns_space: known.owns_space,
        case_sensitive: (known.stage != Stage::Unreadable).then_some(known.case_sensitive),
        state: known.state(volume.is_some()),
        mount: known.mount.clone().map(|mount| VolumeMount { directory: mount.directory, mounted: is_mounted }),
        health,
        conditions,
        size_bytes: volume.map(|volume| volume.size_bytes()),
        free_bytes: usage.map(|usage| usage.free_bytes),
        files: usage.map(|usage| usage.files),
        findings: volume.map(|_| live.findings as u64),
    }
}
