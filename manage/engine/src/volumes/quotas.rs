//! Quotas of volumes: set, listed, removed, and what is told of them.
//!
//! ```text
//!   volume's counters ─▶ look, every few seconds ─▶ events: a soft limit crossed, requests refused
//!                    └─▶ condition of the volume: a directory tree nearly full
//! ```
//!
//! Invariants: of each quota a refusal is told once in [`QUIET`] at most. Names of users are those of the server at the
//! moment; what is kept are numbers.

mod names;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{
    ApiError, Condition, JobKind, QuotaKind, QuotaState, SetPace, SetVolumeQuota, Severity, VolumeQuota,
    VolumeQuotaChanged,
};
use holdfast_model::{ByteSize, Uuid, counted};
use holdfast_volume::service::FileKind;
use holdfast_volume::{ErrorKind, Limits, Quota, Subject, Volume, VolumeError};

use super::usage::{find, no_path};
use super::{KnownVolume, from_volume};
use crate::engine::{Engine, OpenPool};
use crate::error::ApiResult;
use crate::jobs::{JobSpec, Target};
use crate::view::percent;

/// How long a quota that was told to refuse requests is not told of again.
const QUIET: Duration = Duration::from_secs(600);
/// A directory tree is nearly full from this part of its hard limit on.
const NEARLY_PERCENT: f64 = 90.0;
/// Quotas that one answer lists, at most.
const MOST_LISTED: usize = 10_000;
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
    pub(super) fn name(&self, subject: Subject) -> String {
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
                news.push((Severity::Warning, format!("{name} went beyond its soft limit of {soft}: it takes {used}")));
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

fn in_words(bytes: Option<u64>, files: Option<u64>) -> String {
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

/// Directory trees that are nearly full.
pub(super) fn conditions(name: &str, volume: &Volume, watch: &QuotaWatch) -> Vec<Condition> {
    let is_tree = |quota: &Quota| matches!(quota.subject, Subject::Tree(_));
    let nearly =
        volume.limited_quotas().into_iter().filter(|quota| is_tree(quota) && used_percent(quota) >= NEARLY_PERCENT);
    let nearly: Vec<Quota> = nearly.collect();
    let next = format!("remove files, or 'holdfast volume quota set {name} --path DIR --size SIZE' with more");
    let told = nearly.iter().take(TOLD).map(|quota| {
        let limits = quota.limits.unwrap_or_default();
        let hard = in_words(limits.hard_bytes, limits.hard_files);
        let cause = format!("has {} at {:.0} % of its quota of {hard}", watch.name(quota.subject), used_percent(quota));
        Condition::new(cause, next.clone())
    });
    let mut conditions: Vec<Condition> = told.collect();
    if let Some(more) = nearly.len().checked_sub(TOLD).filter(|more| *more > 0) {
        let cause = format!("has {more} more directory trees that are nearly full");
        conditions.push(Condition::new(cause, format!("'holdfast volume quota list {name}' lists them")));
    }
    conditions
}

/// Whom a request is about.
enum About {
    Path(String),
    Subject(Subject),
}

/// Whom a request is about: one of the three.
async fn about(object: &str, request: &SetVolumeQuota) -> ApiResult<About> {
    let refuse = |message: String, field| {
        let next = "name one directory, user or group";
        Err(ApiError::invalid(object, message, next).at(field))
    };
    match (&request.path, &request.user, &request.group) {
        (Some(path), None, None) if !path.starts_with('/') => {
            let next = "write the path from the volume's root on, as /projects; / is the root itself";
            let message = format!("path {path:?} does not begin at the volume's root");
            Err(ApiError::invalid(object, message, next).at("path"))
        }
        (Some(path), None, None) => Ok(About::Path(path.clone())),
        (None, Some(user), None) => match names::number(names::USERS, user).await {
            Some(number) => Ok(About::Subject(Subject::User(number))),
            None => refuse(format!("the server knows no user {user:?}: give the number"), "user"),
        },
        (None, None, Some(group)) => match names::number(names::GROUPS, group).await {
            Some(number) => Ok(About::Subject(Subject::Group(number))),
            None => refuse(format!("the server knows no group {group:?}: give the number"), "group"),
        },
        _ => refuse("a quota is for a directory, a user or a group".into(), "path"),
    }
}

/// A user or group, by what it is and its number.
fn number_of(subject: Subject) -> Option<(QuotaKind, u32)> {
    match subject {
        Subject::Tree(_) => None,
        Subject::User(uid) => Some((QuotaKind::User, uid)),
        Subject::Group(gid) => Some((QuotaKind::Group, gid)),
    }
}

fn shown(quota: &Quota, name: String) -> VolumeQuota {
    let limits = quota.limits.unwrap_or_default();
    let owner = number_of(quota.subject);
    VolumeQuota {
        kind: owner.map_or(QuotaKind::Tree, |(kind, _)| kind),
        name,
        id: owner.map(|(_, number)| number),
        hard_bytes: limits.hard_bytes,
        soft_bytes: limits.soft_bytes,
        hard_files: limits.hard_files,
        soft_files: limits.soft_files,
        used_bytes: quota.used_bytes,
        used_files: quota.used_files,
        state: match quota.state {
            holdfast_volume::QuotaState::Settled => QuotaState::Settled,
            holdfast_volume::QuotaState::Counting => QuotaState::Counting,
            holdfast_volume::QuotaState::Leaving => QuotaState::Leaving,
        },
        refused: quota.refused,
    }
}

/// Where the directory trees of a volume are.
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
    /// The quotas of a volume; with `all`, also users and groups that have none and take something.
    ///
    /// # Errors
    /// If there is no such volume, or it is not open.
    pub async fn volume_quotas(&self, path: &str, all: bool) -> ApiResult<Vec<VolumeQuota>> {
        let (open, name, object) = self.volume_at(path)?;
        let (_, volume) = open.open_volume_named(&name, &object)?;
        let quotas = if all { volume.quotas() } else { volume.limited_quotas() };
        let quotas: Vec<Quota> = quotas.into_iter().filter(|quota| is_told(quota, all)).take(MOST_LISTED).collect();
        let paths = self.on_reactor(move || async move { paths(&volume).await }).await?;
        let numbers = |kind: QuotaKind| -> Vec<u32> {
            let of = |quota: &Quota| number_of(quota.subject).filter(|(known, _)| *known == kind);
            quotas.iter().filter_map(of).map(|(_, number)| number).collect()
        };
        let users = names::names(names::USERS, numbers(QuotaKind::User));
        let groups = names::names(names::GROUPS, numbers(QuotaKind::Group));
        let (users, groups) = tokio::join!(users, groups);
        let named = |quota: &Quota| {
            let (known, number) = match quota.subject {
                Subject::Tree(tree) => (paths.get(&tree), tree),
                Subject::User(uid) => (users.get(&uid), uid),
                Subject::Group(gid) => (groups.get(&gid), gid),
            };
            shown(quota, known.cloned().unwrap_or_else(|| number.to_string()))
        };
        let mut shown: Vec<VolumeQuota> = quotas.iter().map(named).collect();
        shown.sort_by(|a, b| a.kind.cmp(&b.kind).then_with(|| holdfast_model::natural_order(&a.name, &b.name)));
        Ok(shown)
    }

    /// Sets a quota of a volume. What a directory tree held before is counted by a job.
    ///
    /// # Errors
    /// If there is no such volume, directory, user or group, limits cannot be meant, or another directory tree is still
    /// being counted.
    pub async fn set_volume_quota(
        self: &Arc<Self>,
        path: String,
        request: SetVolumeQuota,
    ) -> ApiResult<VolumeQuotaChanged> {
        self.change(move |engine| async move {
            let (open, name, object) = engine.volume_at(&path)?;
            let (known, volume) = open.open_volume_named(&name, &object)?;
            let limits = Limits {
                hard_bytes: request.hard_bytes,
                soft_bytes: request.soft_bytes,
                hard_files: request.hard_files,
                soft_files: request.soft_files,
            };
            let about = about(&object, &request).await?;
            let (subject, changed) = engine.set_now(&volume, &path, &object, about, limits).await?;
            let job = engine.count_trees(&open, &known, &volume)?;
            engine.look_at_quotas_of(&open, known.id).await;
            if changed {
                let whom = open.quota_name(known.id, subject);
                let soft = in_words(limits.soft_bytes, limits.soft_files);
                let soft = if soft.is_empty() { String::new() } else { format!(", soft limit {soft}") };
                let hard = in_words(limits.hard_bytes, limits.hard_files);
                let hard = if hard.is_empty() { "no hard limit".into() } else { hard };
                engine.note(&open.volume_object(&known), &format!("quota of {whom} set: {hard}{soft}"));
            }
            let label = open.quota_label(known.id, subject);
            let listed = engine.volume_quotas(&path, false).await?;
            let quota = listed.into_iter().find(|quota| is_for(quota, subject, &label));
            Ok(VolumeQuotaChanged { changed, quota, job })
        })
        .await
    }

    async fn set_now(
        &self,
        volume: &Arc<Volume>,
        path: &str,
        object: &str,
        about: About,
        limits: Limits,
    ) -> ApiResult<(Subject, bool)> {
        let volume = volume.clone();
        match about {
            About::Subject(subject) => {
                let set = self.on_reactor(move || async move { volume.set_quota(subject, limits).await }).await?;
                Ok((subject, set.map_err(|error| from_volume(object, &error))?))
            }
            About::Path(below) => {
                let asked = below.clone();
                let set = self.on_reactor(move || async move {
                    match find(&*volume, &asked).await? {
                        Some(top) if top.kind == FileKind::Directory => {
                            volume.set_tree_quota(top.id, limits).await.map(Some)
                        }
                        Some(_) => Err(VolumeError::new(ErrorKind::NotDirectory, "it is no directory")),
                        None => Ok(None),
                    }
                });
                match set.await? {
                    Ok(Some((tree, changed))) => Ok((Subject::Tree(tree), changed)),
                    Ok(None) => Err(no_path(path, &below)),
                    Err(error) if error.kind == ErrorKind::NotDirectory => {
                        let message = "it is no directory, or leads through what is none";
                        let object = format!("path {below} of volume {path}");
                        Err(ApiError::invalid(object, message, "name a directory").at("path"))
                    }
                    Err(error) => Err(from_volume(object, &error)),
                }
            }
        }
    }

    /// Removes a quota of a volume. Files of a directory tree are given back by a job.
    ///
    /// # Errors
    /// If there is no such volume, directory, user or group, or a directory tree is still being counted.
    pub async fn remove_volume_quota(
        self: &Arc<Self>,
        path: String,
        request: SetVolumeQuota,
    ) -> ApiResult<VolumeQuotaChanged> {
        self.change(move |engine| async move {
            let (open, name, object) = engine.volume_at(&path)?;
            let (known, volume) = open.open_volume_named(&name, &object)?;
            let about = about(&object, &request).await?;
            let (removing, whom) = (
                volume.clone(),
                match &about {
                    About::Path(path) => format!("directory tree {path}"),
                    About::Subject(subject) => subject.to_string(),
                },
            );
            let removed = engine.on_reactor(move || async move {
                match about {
                    About::Subject(subject) => removing.remove_quota(subject).await,
                    About::Path(below) => match find(&*removing, &below).await? {
                        Some(top) if top.kind == FileKind::Directory => removing.remove_tree_quota(top.id).await,
                        _ => Ok(false),
                    },
                }
            });
            let changed = removed.await?.map_err(|error| from_volume(&object, &error))?;
            let job = engine.count_trees(&open, &known, &volume)?;
            engine.look_at_quotas_of(&open, known.id).await;
            if changed {
                engine.note(&open.volume_object(&known), &format!("quota of {whom} removed"));
            }
            Ok(VolumeQuotaChanged { changed, quota: None, job })
        })
        .await
    }

    /// Has a job count what directory trees hold, if anything is to be counted.
    pub(super) fn count_trees(&self, open: &OpenPool, known: &KnownVolume, volume: &Volume) -> ApiResult<Option<u64>> {
        if !volume.has_unsettled_quotas() {
            return Ok(None);
        }
        let spec = JobSpec::new(JobKind::Quota, Target::volume(open, known.id, &known.name));
        Ok(Some(self.add_job(spec, SetPace::default())?.job.id))
    }

    /// Looks at the quotas of all volumes of a pool, and tells what is new.
    pub(crate) async fn look_at_quotas(&self, open: &Arc<OpenPool>) {
        let ids: Vec<Uuid> = {
            let volumes = open.volumes();
            let has_quotas = |live: &&super::LiveVolume| {
                live.open.as_ref().is_some_and(|open| !open.volume.limited_quotas().is_empty())
            };
            volumes.values().filter(has_quotas).map(|live| live.known.id).collect()
        };
        for id in ids {
            self.look_at_quotas_of(open, id).await;
        }
    }

    async fn look_at_quotas_of(&self, open: &Arc<OpenPool>, id: Uuid) {
        let Some(volume) = open.volume_of(id) else { return };
        let (looking, quotas) = (volume.clone(), volume.limited_quotas());
        let Ok(paths) = self.on_reactor(move || async move { paths(&looking).await }).await else { return };
        let told = {
            let mut volumes = open.volumes();
            let Some(live) = volumes.values_mut().find(|live| live.known.id == id) else { return };
            live.quotas.paths = paths;
            let object = open.volume_object(&live.known);
            live.quotas.news(&quotas, Instant::now()).into_iter().map(move |news| (object.clone(), news))
        };
        for (object, (severity, cause)) in told {
            let next = format!("'holdfast volume quota list {}' lists what is taken", object.name);
            self.events.emit(severity, &object, &cause, &next);
        }
    }
}

/// Whether a quota is listed: one with limits, or with `all` whoever takes anything.
fn is_told(quota: &Quota, all: bool) -> bool {
    match quota.subject {
        Subject::Tree(_) => quota.limits.is_some() && quota.directory.is_some(),
        _ => quota.limits.is_some() || all,
    }
}

/// Whether a quota as it is shown is that of a subject, whose path is `label` where it is a directory tree.
fn is_for(shown: &VolumeQuota, subject: Subject, label: &str) -> bool {
    match number_of(subject) {
        Some((kind, number)) => (shown.kind, shown.id) == (kind, Some(number)),
        None => shown.kind == QuotaKind::Tree && shown.name == label,
    }
}

impl OpenPool {
    /// The quotas of its volumes that limit anything, each with the volume and what it is for.
    pub(crate) fn limited_quotas(&self) -> Vec<(String, (&'static str, String), Quota)> {
        let pool = self.name();
        let volumes = self.volumes();
        let of_volume = |live: &super::LiveVolume| {
            let volume = format!("{pool}/{}", live.known.name);
            let quotas = live.open.as_ref().map(|open| open.volume.limited_quotas()).unwrap_or_default();
            let told = quotas.into_iter().filter(|quota| quota.limits.is_some() && is_told(quota, false));
            told.map(|quota| (volume.clone(), live.quotas.label(quota.subject), quota)).collect::<Vec<_>>()
        };
        volumes.values().flat_map(of_volume).collect()
    }

    fn quota_name(&self, id: Uuid, subject: Subject) -> String {
        let volumes = self.volumes();
        let live = volumes.values().find(|live| live.known.id == id);
        live.map_or_else(|| subject.to_string(), |live| live.quotas.name(subject))
    }

    fn quota_label(&self, id: Uuid, subject: Subject) -> String {
        let volumes = self.volumes();
        let live = volumes.values().find(|live| live.known.id == id);
        live.map_or_else(String::new, |live| live.quotas.label(subject).1)
    }
}

#[cfg(test)]
mod tests;
