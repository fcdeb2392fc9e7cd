//! What is wrong, for people: a line for each cause, then what it affects, what comes by itself, and what to do.
//!
//! Invariant: the text is as long as there are causes, not as there are objects, unless all of them are asked for.

use std::collections::BTreeMap;

use holdfast_api::{Affected, Cause, Daemon, Status, word};
use holdfast_model::ObjectKind;

use super::{facts, harmless, or_dash, size, table};

/// Names of a kind that are shown unless all are asked for.
const SHOWN_NAMES: usize = 3;

/// `1 space`, `3 spaces`.
fn counted(count: usize, kind: &str) -> String {
    if count == 1 { format!("1 {kind}") } else { format!("{count} {kind}s") }
}

/// `3 spaces: tank/a, tank/b, tank/c`, for each kind of object.
fn affected(affects: &[Affected], all: bool) -> String {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in affects {
        kinds.entry(one.object.kind.word()).or_default().push(&one.object.name);
    }
    let kind = |(kind, names): (&str, Vec<&str>)| {
        let shown = if all { names.len() } else { SHOWN_NAMES.min(names.len()) };
        let more = if shown < names.len() { format!(" and {} more", names.len() - shown) } else { String::new() };
        format!("{}: {}{more}", counted(names.len(), kind), names[..shown].join(", "))
    };
    kinds.into_iter().map(kind).collect::<Vec<_>>().join("; ")
}

fn in_words(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

fn cause(cause: &Cause, all: bool) -> String {
    let mut lines = vec![format!("! {}: {}", word(&cause.health), cause.cause)];
    if !cause.affects.is_empty() {
        lines.push(format!("  affects: {}", affected(&cause.affects, all)));
        let worst = cause.affects.first().map(|one| one.effect.clone()).unwrap_or_default();
        match all {
            true => lines.extend(cause.affects.iter().map(|one| format!("    {}: {}", one.object, one.effect))),
            false => lines.push(format!("  at worst: {worst}")),
        }
    }
    if let Some(percent) = cause.resync_percent {
        lines.push(format!("  resync: {percent} %, {} to go", counted(cause.resync_slabs as usize, "slab")));
    }
    if let Some(seconds) = cause.repair_in_seconds {
        lines.push(format!("  repair: starts automatically in {}", in_words(seconds)));
    }
    if let Some(why) = &cause.no_repair {
        lines.push(format!("  repair: does not start automatically: {why}"));
    }
    for job in &cause.jobs {
        lines.push(format!("  under way: job {job}, see 'holdfast job show {job}'"));
    }
    if !cause.next_action.is_empty() {
        lines.push(format!("  next: {}", cause.next_action));
    }
    lines.iter().map(|line| harmless(line)).collect::<Vec<_>>().join("\n")
}

/// Where initiators connect, and how many are.
fn iscsi_text(daemon: &Daemon) -> String {
    if daemon.iscsi_addresses.is_empty() {
        return "-".into();
    }
    let sessions = counted(daemon.iscsi_sessions as usize, "session");
    format!("{}, {}, {sessions}", daemon.iscsi_addresses.join(" "), counted(daemon.targets as usize, "target"))
}

/// The health of everything as a text; with `all`, every object and every name.
pub fn status_text(status: &Status, all: bool) -> String {
    let daemon = &status.daemon;
    let mut kinds: BTreeMap<ObjectKind, usize> = BTreeMap::new();
    for object in &status.objects {
        *kinds.entry(object.object.kind).or_default() += 1;
    }
    let shown = [
        ObjectKind::Pool,
        ObjectKind::Disk,
        ObjectKind::Space,
        ObjectKind::Volume,
        ObjectKind::Export,
        ObjectKind::Target,
        ObjectKind::Lun,
    ];
    let objects: Vec<String> =
        shown.into_iter().filter_map(|kind| Some(counted(*kinds.get(&kind)?, kind.word()))).collect();
    let head = facts(&[
        ("health", word(&status.health)),
        ("objects", or_dash(&objects.join(", "))),
        ("version", daemon.version.clone()),
        ("process", format!("{}, since {}", daemon.pid, daemon.started)),
        ("state folder", daemon.state_dir.clone()),
        ("reactors", daemon.reactors.to_string()),
        ("memory", size(daemon.resident_bytes)),
        ("NBD", or_dash(&daemon.nbd_addresses.join(" "))),
        ("iSCSI", iscsi_text(daemon)),
    ]);
    let rows = status.objects.iter().map(|object| vec![object.object.to_string(), word(&object.health)]);
    let objects = all.then(|| table(&["OBJECT", "HEALTH"], rows));
    let causes = status.causes.iter().map(|one| cause(one, all));
    std::iter::once(head).chain(objects).chain(causes).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_model::{Health, ObjectRef};

    #[test]
    fn names_are_counted_and_cut_unless_all_are_asked_for() {
        let space = |name: &str| Affected {
            object: ObjectRef::named(ObjectKind::Space, format!("tank/{name}")),
            health: Health::Warning,
            effect: "".into(),
        };
        let affects: Vec<Affected> = ["a", "b", "c", "d", "e"].into_iter().map(space).collect();
        assert_eq!(affected(&affects[..1], false), "1 space: tank/a");
        assert_eq!(affected(&affects, false), "5 spaces: tank/a, tank/b, tank/c and 2 more");
        assert_eq!(affected(&affects, true), "5 spaces: tank/a, tank/b, tank/c, tank/d, tank/e");
    }

    #[test]
    fn times_are_told_in_the_units_that_matter() {
        assert_eq!([in_words(9), in_words(250), in_words(7260)], ["9 s", "4 min 10 s", "2 h 1 min"]);
    }
}
