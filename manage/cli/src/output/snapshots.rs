//! Snapshots.

use holdfast_api::{
    SnapshotChange, SnapshotDifference, SnapshotDifferences, SnapshotSchedule, VolumeSnapshot, interval, word,
};
use holdfast_model::counted;

use super::{Shown, harmless, size, table};

impl Shown for Vec<VolumeSnapshot> {
    fn text(&self) -> String {
        if self.is_empty() {
            return "there are no snapshots".into();
        }
        let rows = self.iter().map(|one| {
            let by =
                one.every_seconds.map_or_else(|| "hand".into(), |every| format!("schedule, each {}", interval(every)));
            vec![harmless(&one.name), one.created.clone(), one.files.to_string(), size(one.kept_bytes), by]
        });
        table(&["SNAPSHOT", "MADE", "FILES", "KEEPS", "BY"], rows)
    }
}

/// What of a file differs.
fn parts(one: &SnapshotDifference) -> String {
    if one.change != SnapshotChange::Changed {
        return String::new();
    }
    let parts = [(one.data, "data"), (one.names, "name"), (one.attributes, "attributes")];
    let parts: Vec<&str> = parts.into_iter().filter(|(differs, _)| *differs).map(|(_, part)| part).collect();
    parts.join(", ")
}

fn place(one: &SnapshotDifference) -> String {
    let shown = |path: &Option<String>| path.as_deref().map_or_else(|| "?".into(), harmless);
    match one.change {
        SnapshotChange::Created => shown(&one.path),
        SnapshotChange::Removed => shown(&one.path_before),
        SnapshotChange::Changed if one.path == one.path_before => shown(&one.path),
        SnapshotChange::Changed => format!("{} (was {})", shown(&one.path), shown(&one.path_before)),
    }
}

impl Shown for SnapshotDifferences {
    fn text(&self) -> String {
        let to = self.to.as_ref().map_or_else(|| "now".into(), |to| format!("@{}", harmless(to)));
        if self.differences.is_empty() {
            return format!("nothing differs between @{} and {to}", harmless(&self.from));
        }
        let rows = self.differences.iter().map(|one| {
            let length = one.size_bytes.or(one.size_bytes_before).map_or_else(String::new, size);
            vec![word(&one.change), word(&one.kind), length, parts(one), place(one)]
        });
        let text = table(&["CHANGE", "KIND", "LENGTH", "DIFFERS IN", "PATH"], rows);
        let count = counted(self.differences.len() as u64, "file or directory differs", "files and directories differ");
        format!("{text}\n\n{count} between @{} and {to}", harmless(&self.from))
    }
}

impl Shown for SnapshotSchedule {
    fn text(&self) -> String {
        if self.rules.is_empty() {
            return "no snapshots are made by the clock".into();
        }
        let rows = self.rules.iter().map(|rule| {
            vec![
                interval(rule.every_seconds),
                rule.at_minutes.map_or_else(|| "-".into(), |at| format!("{:02}:{:02}", at / 60, at % 60)),
                rule.keep.to_string(),
                rule.snapshots.to_string(),
                rule.last_at.clone().unwrap_or_else(|| "-".into()),
                rule.next_at.clone(),
            ]
        });
        table(&["EVERY", "AT", "KEEP", "SNAPSHOTS", "LAST", "NEXT"], rows)
    }
}
