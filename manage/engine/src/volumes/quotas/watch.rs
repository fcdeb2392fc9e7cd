//! What is told of quotas as they fill up.
//!
//! ```text
//!   volume's counters ─▶ look, every few seconds ─▶ events: a soft limit crossed, requests refused
//!                    └─▶ condition of the volume: a directory tree nearly full, or beyond its soft limit
//! ```
//!
//! Invariant: of each quota a refusal is told once in [`QUIET`] at most.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{Condition, Severity};
use holdfast_model::{ByteSize, Uuid, counted};
use holdfast_volume::{Quota, Subject, Volume};

use super::super::LiveVolume;
use crate::engine::{Engine, OpenPool};
use crate::error::ApiResult;
use crate::view::percent;

/// How long a quota that was told to refuse requests is not told of again.
const QUIET: Duration = Duration::from_secs(600);
/// A directory tree is nearly full from this part of its hard limit on.
const NEARLY_PERCENT: f64 = 90.0;
/// Nearly full trees that are told each; the rest is counted.
const TOLD: usize = 5;

/// What was told of a quota.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    crossed: u64,
    refused: u64,
    at: Option<Instant>,
}

/// What is known of a volume's quotas beside the volume itself.
#[derive(Debug, Default)]
pub(crate) struct QuotaWatch {
    /// Where directory trees are, as of the last look.
    paths: BTreeMap<u32, String>,
    told: BTreeMap<Subject, Told>,
}

impl QuotaWatch {
    /// What a quota is for, in words.
    fn name(&self, subject: Subject) -> String {
        match subject {
            Subject::Tree(tree) => match self.paths.get(&tree) {
                Some(path) => format!("directory tree {path}"),
                None => subject.to_string(),
            },
            _ => subject.to_string(),
        }
    }

    /// Where a directory tree is, or the number of a user or group.
    pub(crate) fn label(&self, subject: Subject) -> (&'static str, String) {
        match subject {
            Subject::Tree(tree) => ("tree", self.paths.get(&tree).cloned().unwrap_or_else(|| tree.to_string())),
            Subject::User(uid) => ("user", uid.to_string()),
            Subject::Group(gid) => ("group", gid.to_string()),
            Subject::Sid(sid) => ("owner", sid.to_string()),
        }
    }

    /// What is to be told of quotas as they are now.
    fn news(&mut self, quotas: &[Quota], now: Instant) -> Vec<(Severity, String)> {
        let mut news = Vec::new();
        for quota in quotas {
            let Some(limits) = quota.limits else { continue };
            let name = self.name(quota.subject);
            let told = self.told.entry(quota.subject).or_default();
            if quota.crossed > told.crossed {
                let used = counted(quota.used_files, "file", "files");
                let used = format!("{} and {used}", ByteSize(quota.used_bytes));
                let soft = in_words(limits.soft_bytes, limits.soft_files);
                news.push((Severity::Warning, format!("{name} is beyond its soft limit of {soft}: it takes {used}")));
            }
            told.crossed = quota.crossed;
            let is_quiet = told.at.is_some_and(|at| now.saturating_duration_since(at) < QUIET);
            if quota.refused > told.refused && !is_quiet {
                let count = counted(quota.refused - told.refused, "request", "requests");
                let hard = in_words(limits.hard_bytes, limits.hard_files);
                news.push((Severity::Warning, format!("{name} uses up its quota of {hard}: {count} refused")));
                (told.refused, told.at) = (quota.refused, Some(now));
            }
        }
        self.told.retain(|subject, _| quotas.iter().any(|quota| quota.subject == *subject && quota.limits.is_some()));
        news
    }
}

pub(super) fn in_words(bytes: Option<u64>, files: Option<u64>) -> String {
    let bytes = bytes.map(|bytes| ByteSize(bytes).to_string());
    let files = files.map(|files| counted(files, "file", "files"));
    bytes.into_iter().chain(files).collect::<Vec<_>>().join(" and ")
}

/// How much of its hard limits a quota takes, of that which it takes more of.
fn used_percent(quota: &Quota) -> f64 {
    let limits = quota.limits.unwrap_or_default();
    let of = |used: u64, hard: Option<u64>| hard.map_or(0.0, |hard| percent(used, hard));
    of(quota.used_bytes, limits.hard_bytes).max(of(quota.used_files, limits.hard_files))
}

/// Whether a quota is beyond a soft limit.
fn is_beyond_soft(quota: &Quota) -> bool {
    let limits = quota.limits.unwrap_or_default();
    let is_beyond = |used: u64, soft: Option<u64>| soft.is_some_and(|soft| used > soft);
    is_beyond(quota.used_bytes, limits.soft_bytes) || is_beyond(quota.used_files, limits.soft_files)
}

/// Directory trees that are nearly full, or beyond their soft limits.
pub(in crate::volumes) fn conditions(name: &str, volume: &Volume, watch: &QuotaWatch) -> Vec<Condition> {
    let is_nearly_full = |quota: &Quota| used_percent(quota) >= NEARLY_PERCENT;
    let is_told =
        |quota: &Quota| matches!(quota.subject, Subject::Tree(_)) && (is_nearly_full(quota) || is_beyond_soft(quota));
    let mut nearly: Vec<Quota> = volume.limited_quotas().into_iter().filter(is_told).collect();
    nearly.sort_by(|a, b| used_percent(b).total_cmp(&used_percent(a)));
    let next = format!("remove files, or 'holdfast volume quota set {name} --path DIR --size SIZE' with more");
    let told = nearly.iter().take(TOLD).map(|quota| {
        let (limits, tree) = (quota.limits.unwrap_or_default(), watch.name(quota.subject));
        let cause = if is_nearly_full(quota) {
            let hard = in_words(limits.hard_bytes, limits.hard_files);
            format!("has {tree} at {:.0} % of its quota of {hard}", used_percent(quota))
        } else {
            format!("has {tree} beyond its soft limit of {}", in_words(limits.soft_bytes, limits.soft_files))
        };
        Condition::new(cause, next.clone())
    });
    let mut conditions: Vec<Condition> = told.collect();
    if let Some(more) = nearly.len().checked_sub(TOLD).filter(|more| *more > 0) {
        let cause = format!("has {more} more directory trees that are nearly full or beyond soft limits");
        conditions.push(Condition::new(cause, format!("'holdfast volume quota list {name}' lists them")));
    }
    conditions
}

async fn paths(volume: &Volume) -> BTreeMap<u32, String> {
    let mut paths = BTreeMap::new();
    for quota in volume.limited_quotas() {
        let (Subject::Tree(tree), Some(directory)) = (quota.subject, quota.directory) else { continue };
        if let Ok(path) = volume.path_of(directory).await {
            paths.insert(tree, String::from_utf8_lossy(&path).into_owned());
        }
    }
    paths
}

impl Engine {
    /// Looks at the quotas of all volumes of a pool, and tells what is new.
    pub(crate) async fn look_at_quotas(&self, open: &Arc<OpenPool>) {
        let ids: Vec<Uuid> = {
            let volumes = open.volumes();
            let has_quotas =
                |live: &&LiveVolume| live.open.as_ref().is_some_and(|open| !open.volume.limited_quotas().is_empty());
            volumes.values().filter(has_quotas).map(|live| live.known.id).collect()
        };
        for id in ids {
            self.find_trees(open, id).await;
            self.tell_quotas(open, id);
        }
    }

    /// Where the directory trees of a volume are.
    pub(super) async fn tree_paths(&self, volume: &Arc<Volume>) -> ApiResult<BTreeMap<u32, String>> {
        let looking = volume.clone();
        self.on_reactor(move || async move { paths(&looking).await }).await
    }

    /// What is known of a volume's quotas at first.
    pub(in crate::volumes) async fn quota_watch(&self, volume: &Arc<Volume>) -> QuotaWatch {
        QuotaWatch { paths: self.tree_paths(volume).await.unwrap_or_default(), ..QuotaWatch::default() }
    }

    /// Looks where the directory trees of a volume are.
    pub(super) async fn find_trees(&self, open: &OpenPool, id: Uuid) {
        let Some(volume) = open.volume_of(id) else { return };
        let found = self.tree_paths(&volume).await.unwrap_or_default();
        if let Some(live) = open.volumes().values_mut().find(|live| live.known.id == id) {
            live.quotas.paths = found;
        }
    }

    /// Tells what is new of the quotas of a volume.
    pub(super) fn tell_quotas(&self, open: &OpenPool, id: Uuid) {
        let Some(quotas) = open.volume_of(id).map(|volume| volume.limited_quotas()) else { return };
        let told = {
            let mut volumes = open.volumes();
            let Some(live) = volumes.values_mut().find(|live| live.known.id == id) else { return };
            let object = open.volume_object(&live.known);
            live.quotas.news(&quotas, Instant::now()).into_iter().map(move |news| (object.clone(), news))
        };
        for (object, (severity, cause)) in told {
            let next = format!("'holdfast volume quota list {}' lists what is taken", object.name);
            self.events.emit(severity, &object, &cause, &next);
        }
    }
}

impl OpenPool {
    pub(super) fn quota_name(&self, id: Uuid, subject: Subject) -> String {
        let volumes = self.volumes();
        let live = volumes.values().find(|live| live.known.id == id);
        live.map_or_else(|| subject.to_string(), |live| live.quotas.name(subject))
    }

    pub(super) fn quota_label(&self, id: Uuid, subject: Subject) -> String {
        let volumes = self.volumes();
        let live = volumes.values().find(|live| live.known.id == id);
        live.map_or_else(String::new, |live| live.quotas.label(subject).1)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_volume::Limits;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn quota(subject: Subject, limits: Limits, crossed: u64, refused: u64) -> Quota {
        Quota {
            subject,
            limits: Some(limits),
            directory: None,
            state: holdfast_volume::QuotaState::Settled,
            used_bytes: 6 * MIB,
            used_files: 1,
            refused,
            crossed,
        }
    }

    #[test]
    fn crossings_are_told_each_and_refusals_once_in_a_while() {
        let limits = Limits { soft_bytes: Some(5 * MIB), hard_bytes: Some(6 * MIB), ..Limits::default() };
        let mut watch = QuotaWatch { paths: BTreeMap::from([(3, "/projects".into())]), ..QuotaWatch::default() };
        let mut now = Instant::now();
        let mut told = |crossed, refused, later: Duration| {
            now += later;
            let news = watch.news(&[quota(Subject::Tree(3), limits, crossed, refused)], now);
            news.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        let none = Duration::ZERO;
        assert_eq!(told(0, 0, none), Vec::<String>::new());
        let crossed = "directory tree /projects is beyond its soft limit of 5 MiB: it takes 6 MiB and 1 file";
        assert_eq!(told(1, 0, none), [crossed]);
        assert_eq!(told(1, 7, none), ["directory tree /projects uses up its quota of 6 MiB: 7 requests refused"]);
        assert_eq!(told(2, 9, none), [crossed], "the next refusals are told later");
        assert_eq!(told(2, 9, QUIET), ["directory tree /projects uses up its quota of 6 MiB: 2 requests refused"]);
        assert_eq!(told(2, 9, QUIET), Vec::<String>::new());
        watch.news(&[], Instant::now());
        assert!(watch.told.is_empty(), "what has no quota any more is forgotten");
    }
}
