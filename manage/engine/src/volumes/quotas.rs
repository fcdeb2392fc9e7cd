//! Quotas of volumes: set, listed, removed.
//!
//! Invariant: names of users are those of the server at the moment; what is kept are numbers.

pub(super) mod names;
mod watch;

use std::fmt;
use std::sync::Arc;

use holdfast_api::{
    ApiError, Code, JobKind, QuotaKind, QuotaState, SetPace, SetVolumeQuota, VolumeQuota, VolumeQuotaChanged,
};
use holdfast_identity::Sid;
use holdfast_volume::service::{FileId, FileKind};
use holdfast_volume::{ErrorKind, Limits, Quota, Subject, Volume, VolumeError};

use super::usage::{find, no_path};
use super::{KnownVolume, from_volume};
use crate::engine::{Engine, OpenPool};
use crate::error::ApiResult;
use crate::jobs::{JobSpec, Target};
pub(crate) use watch::QuotaWatch;
pub(super) use watch::conditions;
use watch::in_words;

/// Quotas that one answer lists, at most.
const MOST_LISTED: usize = 10_000;

/// Whom a request names.
enum Whom {
    Path(String),
    Subject(Subject),
}

/// Whom a request is about.
#[derive(Clone)]
enum About {
    /// The directory tree of this path.
    Path(String, FileId),
    Subject(Subject),
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path, _) => write!(f, "directory tree {path}"),
            Self::Subject(subject) => subject.fmt(f),
        }
    }
}

/// A request about a quota.
struct Asked {
    open: Arc<OpenPool>,
    known: KnownVolume,
    volume: Arc<Volume>,
    /// The volume, as errors name it.
    object: String,
    about: About,
}

impl Asked {
    /// The refusal of a change of the quota.
    fn refused(&self, error: &VolumeError) -> ApiError {
        let mut refused = from_volume(&self.object, error);
        if refused.code == Code::Invalid {
            let next = format!("'holdfast volume quota list {}/{}' lists", self.open.name(), self.known.name);
            refused.next_action = format!("{next} quotas and what is taken of them");
        }
        refused
    }
}

/// Whom a request names: one of the four.
async fn about(object: &str, volume: &Volume, request: &SetVolumeQuota) -> ApiResult<Whom> {
    let refuse = |message: String, field| {
        let next = "name one directory, user, group or owner";
        Err(ApiError::invalid(object, message, next).at(field))
    };
    match (&request.path, &request.user, &request.group, &request.owner) {
        (Some(path), None, None, None) if !path.starts_with('/') => {
            let next = "write the path from the volume's root on, as /projects; / is the root itself";
            let message = format!("path {path:?} does not begin at the volume's root");
            Err(ApiError::invalid(object, message, next).at("path"))
        }
        (Some(path), None, None, None) => Ok(Whom::Path(path.clone())),
        (None, Some(user), None, None) => match names::number(names::USERS, user).await {
            Some(number) => Ok(Whom::Subject(Subject::User(number))),
            None => refuse(format!("the server knows no user {user:?}: give the number"), "user"),
        },
        (None, None, Some(group), None) => match names::number(names::GROUPS, group).await {
            Some(number) => Ok(Whom::Subject(Subject::Group(number))),
            None => refuse(format!("the server knows no group {group:?}: give the number"), "group"),
        },
        (None, None, None, Some(owner)) => match owner.parse::<Sid>() {
            Ok(sid) => Ok(Whom::Subject(volume.subject_of(&sid))),
            Err(error) => refuse(format!("{owner:?} is no security identifier: {error}"), "owner"),
        },
        _ => refuse("a quota is for a directory, a user, a group or an owner".into(), "path"),
    }
}

/// A user or group, by what it is and its number.
fn number_of(subject: Subject) -> Option<(QuotaKind, u32)> {
    match subject {
        Subject::Tree(_) | Subject::Sid(_) => None,
        Subject::User(uid) => Some((QuotaKind::User, uid)),
        Subject::Group(gid) => Some((QuotaKind::Group, gid)),
    }
}

fn shown(quota: &Quota, name: String) -> VolumeQuota {
    let limits = quota.limits.unwrap_or_default();
    let owner = number_of(quota.subject);
    VolumeQuota {
        kind: match quota.subject {
            Subject::Tree(_) => QuotaKind::Tree,
            Subject::User(_) => QuotaKind::User,
            Subject::Group(_) => QuotaKind::Group,
            Subject::Sid(_) => QuotaKind::Owner,
        },
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
        let paths = self.tree_paths(&volume).await?;
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
                Subject::Sid(sid) => return shown(quota, sid.to_string()),
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
            let asked = engine.asked(&path, &request).await?;
            let limits = Limits {
                hard_bytes: request.hard_bytes,
                soft_bytes: request.soft_bytes,
                hard_files: request.hard_files,
                soft_files: request.soft_files,
            };
            let (subject, changed) = match &asked.about {
                About::Subject(subject) => {
                    let (volume, subject) = (asked.volume.clone(), *subject);
                    let set = engine.on_reactor(move || async move { volume.set_quota(subject, limits).await }).await?;
                    (subject, set.map_err(|error| asked.refused(&error))?)
                }
                About::Path(_, directory) => {
                    let (volume, directory) = (asked.volume.clone(), *directory);
                    let set = engine.on_reactor(move || async move { volume.set_tree_quota(directory, limits).await });
                    let (tree, changed) = set.await?.map_err(|error| asked.refused(&error))?;
                    (Subject::Tree(tree), changed)
                }
            };
            let Asked { open, known, volume, .. } = &asked;
            // A job that counts another directory tree is none of this one.
            let is_counted = volume
                .limited_quotas()
                .iter()
                .any(|quota| quota.subject == subject && quota.state == holdfast_volume::QuotaState::Counting);
            let job = engine.count_trees(open, known, volume)?.filter(|_| is_counted);
            engine.find_trees(open, known.id).await;
            if changed {
                let whom = open.quota_name(known.id, subject);
                let soft = in_words(limits.soft_bytes, limits.soft_files);
                let soft = if soft.is_empty() { String::new() } else { format!(", soft limit {soft}") };
                let hard = in_words(limits.hard_bytes, limits.hard_files);
                let hard = if hard.is_empty() { "no hard limit".into() } else { hard };
                engine.note(&open.volume_object(known), &format!("quota of {whom} set: {hard}{soft}"));
            }
            engine.tell_quotas(open, known.id);
            let label = open.quota_label(known.id, subject);
            let listed = engine.volume_quotas(&path, false).await?;
            let quota = listed.into_iter().find(|quota| is_for(quota, subject, &label));
            Ok(VolumeQuotaChanged { changed, quota, job })
        })
        .await
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
            let asked = engine.asked(&path, &request).await?;
            let (removing, about) = (asked.volume.clone(), asked.about.clone());
            let removed = engine.on_reactor(move || async move {
                match about {
                    About::Subject(subject) => removing.remove_quota(subject).await,
                    About::Path(_, directory) => removing.remove_tree_quota(directory).await,
                }
            });
            let changed = removed.await?.map_err(|error| asked.refused(&error))?;
            let Asked { open, known, volume, about, .. } = &asked;
            let is_counted = changed && matches!(about, About::Path(..));
            let job = engine.count_trees(open, known, volume)?.filter(|_| is_counted);
            engine.find_trees(open, known.id).await;
            engine.tell_quotas(open, known.id);
            if changed {
                engine.note(&open.volume_object(known), &format!("quota of {about} removed"));
            }
            Ok(VolumeQuotaChanged { changed, quota: None, job })
        })
        .await
    }

    /// The volume of a request about a quota, and whom the request is about.
    async fn asked(&self, path: &str, request: &SetVolumeQuota) -> ApiResult<Asked> {
        let (open, name, object) = self.volume_at(path)?;
        let (known, volume) = open.open_volume_named(&name, &object)?;
        let about = match about(&object, &volume, request).await? {
            Whom::Subject(subject) => About::Subject(subject),
            Whom::Path(below) => {
                let (looking, asked) = (volume.clone(), below.clone());
                let found = self.on_reactor(move || async move { find(&*looking, &asked).await }).await?;
                let no_directory = || {
                    let message = "it is no directory, or leads through what is none";
                    ApiError::invalid(format!("path {below} of volume {path}"), message, "name a directory").at("path")
                };
                match found {
                    Ok(Some(top)) if top.kind == FileKind::Directory => About::Path(below, top.id),
                    Ok(Some(_)) => return Err(no_directory()),
                    Ok(None) => return Err(no_path(path, &below)),
                    Err(error) => {
                        return Err(match error.kind {
                            ErrorKind::NotDirectory => no_directory(),
                            ErrorKind::NameTooLong => no_path(path, &below),
                            _ => from_volume(object, &error),
                        });
                    }
                }
            }
        };
        Ok(Asked { open, known, volume, object, about })
    }

    /// Has a job count what directory trees hold, if anything is to be counted.
    pub(super) fn count_trees(&self, open: &OpenPool, known: &KnownVolume, volume: &Volume) -> ApiResult<Option<u64>> {
        if !volume.has_unsettled_quotas() {
            return Ok(None);
        }
        let spec = JobSpec::new(JobKind::Quota, Target::volume(open, known.id, &known.name));
        Ok(Some(self.add_job(spec, SetPace::default())?.job.id))
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
    match (number_of(subject), subject) {
        (Some((kind, number)), _) => (shown.kind, shown.id) == (kind, Some(number)),
        (None, Subject::Sid(sid)) => shown.kind == QuotaKind::Owner && shown.name == sid.to_string(),
        (None, _) => shown.kind == QuotaKind::Tree && shown.name == label,
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
}

#[cfg(test)]
mod tests;
