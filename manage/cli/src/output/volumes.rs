//! Volumes.

use holdfast_api::{
    Condition, ModeChange, QuotaState, Volume, VolumeFinding, VolumeQuota, VolumeState, VolumeUsage, word,
};
use holdfast_model::counted;

use super::{Shown, facts, percent, size, table, with_conditions};

fn mount(volume: &Volume) -> String {
    match &volume.mount {
        None => "-".into(),
        Some(mount) if mount.mounted => mount.directory.clone(),
        Some(mount) => format!("{} (not mounted)", mount.directory),
    }
}

/// Its health, and why it cannot be used.
fn health(volume: &Volume) -> String {
    match volume.state {
        VolumeState::Open => word(&volume.health),
        state => format!("{}, {}", word(&volume.health), word(&state)),
    }
}

/// The shrink that is under way.
fn shrink(volume: &Volume) -> Option<String> {
    let shrink = volume.shrink?;
    let done = percent(shrink.done_bytes, shrink.total_bytes);
    let (job, state) = (shrink.job, word(&shrink.state));
    Some(format!("to {}, job {job} is {state}, {done} moved", size(shrink.size_bytes)))
}

/// How the kernel hands requests over.
fn transport(volume: &Volume) -> &'static str {
    match &volume.mount {
        Some(mount) if mount.over_io_uring => "over io_uring",
        Some(mount) if mount.mounted => "over /dev/fuse",
        _ => "-",
    }
}

impl Shown for Vec<Volume> {
    fn text(&self) -> String {
        let some = |bytes: Option<u64>| bytes.map_or_else(|| "-".into(), size);
        let rows = self.iter().map(|volume| {
            vec![
                volume.name.clone(),
                volume.space.clone(),
                health(volume),
                some(volume.size_bytes),
                some(volume.free_bytes),
                volume.files.map_or_else(|| "-".into(), |files| files.to_string()),
                mount(volume),
            ]
        });
        let text = table(&["VOLUME", "SPACE", "HEALTH", "SIZE", "FREE", "FILES", "MOUNTED ON"], rows);
        // What is not to be used has to be seen to; the rest tells of itself when it is shown.
        let away = self.iter().filter(|volume| volume.state != VolumeState::Open);
        let told = away.flat_map(|volume| volume.conditions.iter().map(move |told| (volume, told)));
        let named = |(volume, told): (&Volume, &Condition)| {
            Condition::new(format!("volume {} {}", volume.name, told.cause), &*told.next_action)
        };
        with_conditions(text, &told.map(named).collect::<Vec<_>>())
    }
}

/// What `chmod` does to a file with a security descriptor of its own.
fn chmod(change: ModeChange) -> &'static str {
    match change {
        ModeChange::Mask => "limits what a descriptor grants",
        ModeChange::Discard => "takes a descriptor away",
        ModeChange::Refuse => "is refused where there is a descriptor",
    }
}

impl Shown for Volume {
    fn text(&self) -> String {
        let some = |bytes: Option<u64>| bytes.map_or_else(|| "-".into(), size);
        let case = match self.case_sensitive {
            Some(true) => "different for all clients",
            Some(false) => "as each client wants",
            None => "-",
        };
        let mut lines = vec![
            ("volume", self.name.clone()),
            ("id", self.id.to_string()),
            ("health", health(self)),
            ("space", format!("{}{}", self.space, if self.owns_space { ", created for it" } else { "" })),
            ("size", some(self.size_bytes)),
            ("free", some(self.free_bytes)),
            ("files", self.files.map_or_else(|| "-".into(), |files| files.to_string())),
            ("case of names", case.into()),
            ("chmod", self.mode_change.map_or("-", chmod).into()),
            ("mounted on", mount(self)),
            ("served", transport(self).into()),
        ];
        if let Some(count) = self.snapshots.filter(|count| *count > 0) {
            let kept = size(self.snapshot_bytes.unwrap_or_default());
            lines.push(("snapshots", format!("{count}, which keep {kept}")));
        }
        lines.extend(shrink(self).map(|shrink| ("shrinks", shrink)));
        with_conditions(facts(&lines), &self.conditions)
    }
}

impl Shown for Vec<VolumeFinding> {
    fn text(&self) -> String {
        if self.is_empty() {
            return "nothing was found".into();
        }
        let rows = self.iter().map(|finding| {
            let repair = if finding.online { "in use" } else { "offline" };
            vec![word(&finding.severity), repair.into(), finding.count.to_string(), finding.text.clone()]
        });
        table(&["SEVERITY", "REPAIR", "COUNT", "FINDING"], rows)
    }
}

impl Shown for VolumeUsage {
    fn text(&self) -> String {
        let row = |taken: u64, length: u64, files: u64, name: String| {
            vec![size(taken), size(length), files.to_string(), name]
        };
        let parts = self.largest.iter().map(|part| {
            let name = format!("{}{}", part.name, if part.directory { "/" } else { "" });
            row(part.allocated_bytes, part.size_bytes, part.files, name)
        });
        let all = row(self.allocated_bytes, self.size_bytes, self.files, format!("all of {}", self.path));
        let text = table(&["TAKEN", "LENGTH", "FILES", "NAME"], parts.chain([all]));
        if self.unreadable == 0 {
            return text;
        }
        let lost = counted(self.unreadable, "directory or file", "directories and files");
        format!("{text}\n\n{lost} could not be read and are not counted: scan the volume")
    }
}

impl Shown for Vec<VolumeQuota> {
    fn text(&self) -> String {
        if self.is_empty() {
            return "no quota is set".into();
        }
        let limits =
            |soft: Option<String>, hard: Option<String>| [soft, hard].map(|limit| limit.unwrap_or_else(|| "-".into()));
        let rows = self.iter().map(|quota| {
            let [soft_size, hard_size] = limits(quota.soft_bytes.map(size), quota.hard_bytes.map(size));
            let count = |files: u64| files.to_string();
            let [soft_files, hard_files] = limits(quota.soft_files.map(count), quota.hard_files.map(count));
            let state = if quota.state == QuotaState::Settled { String::new() } else { word(&quota.state) };
            vec![
                word(&quota.kind),
                quota.name.clone(),
                size(quota.used_bytes),
                soft_size,
                hard_size,
                quota.used_files.to_string(),
                soft_files,
                hard_files,
                state,
            ]
        });
        table(&["KIND", "NAME", "TAKEN", "SOFT", "HARD", "FILES", "SOFT", "HARD", "STATE"], rows)
    }
}
