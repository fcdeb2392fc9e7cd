//! Snapshots of volumes: made, listed, held against each other, destroyed.
//!
//! Invariant: a snapshot is destroyed only by who confirms it, or by the rule that made it.

mod clock;
mod schedule;
mod side_by_side;

use std::sync::{Arc, Weak};
use std::time::Duration;

use holdfast_api::{
    ApiError, Code, Condition, CreateSnapshot, JobKind, SetPace, Severity, SnapshotChange, SnapshotCreated,
    SnapshotDestroyed, SnapshotDifference, SnapshotDifferences, SnapshotFileKind, VolumeSnapshot,
};
use holdfast_model::counted;
use holdfast_volume::service::{FileKind, Time};
use holdfast_volume::{Difference, DifferencesFrom, ErrorKind, MOST_SNAPSHOTS, Snapshot, Version, Volume, VolumeError};
use jiff::Timestamp;

use super::from_volume;
use super::known::KnownVolume;
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, not_confirmed, not_found};
use crate::events::moment;
use crate::jobs::{JobSpec, Target};
pub(crate) use schedule::{Rule, keep_schedules};
pub(super) use schedule::{ScheduleWatch, conditions};

/// Differences that one answer has, at most, and bytes of their paths, about.
const MOST_DIFFERENCES: usize = 1000;
const MOST_BYTES: usize = 4 << 20;
/// What names begin with of snapshots that are made before files are restored.
pub(crate) const BEFORE: &str = "before-restore-";
/// How often a snapshot that is in use is tried to be destroyed again, and after what time.
const TRIES: u32 = 10;
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// A moment as answers carry it.
pub(crate) fn shown_time(time: Time) -> String {
    Timestamp::new(time.seconds, time.nanos as i32).map_or_else(|_| "?".into(), moment)
}

/// The present as a part of names.
pub(crate) fn stamp(at: Timestamp) -> String {
    at.strftime("%Y%m%dT%H%M%SZ").to_string()
}

fn shown(snapshot: Snapshot) -> VolumeSnapshot {
    let every_seconds = schedule::rule_of(&snapshot.name);
    let Snapshot { name, created, files, kept_bytes, .. } = snapshot;
    VolumeSnapshot { name, created: shown_time(created), files, kept_bytes, every_seconds }
}

/// An error of a volume about a snapshot of it, `POOL/VOLUME@NAME`.
pub(crate) fn from_snapshot(path: &str, name: &str, error: &VolumeError) -> ApiError {
    let object = format!("snapshot {path}@{name}");
    let (code, next) = match error.kind {
        ErrorKind::NotFound | ErrorKind::Stale => {
            (Code::NotFound, format!("'holdfast snapshot list {path}' lists them"))
        }
        ErrorKind::Exists => (Code::Exists, "choose another name".into()),
        ErrorKind::Invalid | ErrorKind::NameTooLong => (Code::Invalid, "choose another name".into()),
        ErrorKind::Busy => {
            (Code::Conflict, "close what programs have open of it, or wait for the job that uses it, and repeat".into())
        }
        ErrorKind::NoSpace => {
            (Code::NoSpace, "destroy snapshots that are not needed, remove files, or let the volume grow".into())
        }
        _ => return from_volume(object, error),
    };
    let told = ApiError::new(code, object, error.to_string(), next);
    if code == Code::Invalid { told.at("name") } else { told }
}

fn kind_of(kind: FileKind) -> SnapshotFileKind {
    match kind {
        FileKind::Regular => SnapshotFileKind::File,
        FileKind::Directory => SnapshotFileKind::Directory,
        FileKind::Symlink => SnapshotFileKind::Symlink,
        FileKind::Fifo | FileKind::Socket | FileKind::CharDevice(_) | FileKind::BlockDevice(_) => {
            SnapshotFileKind::Special
        }
    }
}

fn shown_difference(one: &Difference) -> Option<SnapshotDifference> {
    let version = one.after.as_ref().or(one.before.as_ref())?;
    let path = |version: &Option<Version>| {
        let path = version.as_ref()?.path.as_ref()?;
        Some(String::from_utf8_lossy(path).into_owned())
    };
    let size = |version: &Option<Version>| version.as_ref().map(|version| version.attributes.size_bytes);
    Some(SnapshotDifference {
        change: match (&one.before, &one.after) {
            (None, _) => SnapshotChange::Created,
            (_, None) => SnapshotChange::Removed,
            _ => SnapshotChange::Changed,
        },
        kind: kind_of(version.attributes.kind),
        path_before: path(&one.before),
        path: path(&one.after),
        size_bytes_before: size(&one.before),
        size_bytes: size(&one.after),
        modified: shown_time(version.attributes.modified),
        data: one.data,
        names: one.names,
        attributes: one.attributes,
    })
}

/// Whether a path is another one, or below it.
fn is_within(path: &[u8], below: &str) -> bool {
    let rest = path.strip_prefix(below.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Has a file be told by a name below a path, if it has or had one there; within the whole volume also where its place cannot
/// be told.
fn told_within(mut one: Difference, below: &str) -> Option<Difference> {
    let has_no_place = |version: &Version| version.path.is_none() && version.others.is_empty();
    if below.is_empty() && [&one.before, &one.after].into_iter().flatten().all(has_no_place) {
        return Some(one);
    }
    let mut is_told = false;
    for version in [&mut one.before, &mut one.after].into_iter().flatten() {
        let mut names = version.path.iter().chain(&version.others);
        if let Some(path) = names.find(|path| is_within(path, below)).cloned() {
            (version.path, is_told) = (Some(path), true);
        }
    }
    is_told.then_some(one)
}

/// A place that an answer named.
fn place_of(token: &str) -> Option<DifferencesFrom> {
    let (tree, file) = token.split_once('.')?;
    Some(DifferencesFrom { tree: tree.parse().ok()?, file: file.parse().ok()? })
}

/// What of it is asked for.
#[derive(Clone, Debug, Default)]
pub struct DifferencesAsked {
    /// The other snapshot; nothing for the files as they are.
    pub to: Option<String>,
    /// Only what is or was at this path, or below it.
    pub path: Option<String>,
    /// Where an earlier answer ended.
    pub next: Option<String>,
    /// Differences, at most.
    pub most: Option<usize>,
}

async fn differences(
    volume: Arc<Volume>,
    from: String,
    asked: DifferencesAsked,
    at: DifferencesFrom,
    wanted: Weak<()>,
) -> Result<(Vec<SnapshotDifference>, Option<DifferencesFrom>), VolumeError> {
    let below = asked.path.as_deref().unwrap_or_default().trim_end_matches('/');
    let most = asked.most.unwrap_or(MOST_DIFFERENCES).clamp(1, MOST_DIFFERENCES);
    let (mut found, mut next, mut bytes) = (Vec::new(), Some(at), 0);
    while let Some(at) = next.filter(|_| found.len() < most && bytes < MOST_BYTES) {
        if wanted.strong_count() == 0 {
            return Err(VolumeError::new(ErrorKind::Busy, "nobody waits for the answer any more"));
        }
        let (some, then) = volume.differences(&from, asked.to.as_deref(), at, most - found.len()).await?;
        let some = some.into_iter().filter_map(|one| told_within(one, below));
        for one in some.filter_map(|one| shown_difference(&one)) {
            bytes += [&one.path, &one.path_before].into_iter().flatten().map(String::len).sum::<usize>();
            found.push(one);
        }
        next = then;
    }
    Ok((found, next))
}

impl Engine {
    /// The snapshots of a volume, the oldest first.
    ///
    /// # Errors
    /// If there is no such volume, or it is not open.
    pub fn snapshots(&self, path: &str) -> ApiResult<Vec<VolumeSnapshot>> {
        let (open, name, object) = self.volume_at(path)?;
        let (_, volume) = open.open_volume_named(&name, &object)?;
        Ok(volume.snapshots().into_iter().map(shown).collect())
    }

    /// A snapshot of a volume.
    ///
    /// # Errors
    /// If there is no such volume or snapshot, or the volume is not open.
    pub fn snapshot(&self, path: &str, name: &str) -> ApiResult<VolumeSnapshot> {
        let (open, volume, object) = self.volume_at(path)?;
        let (_, volume) = open.open_volume_named(&volume, &object)?;
        volume.snapshot(name).map(shown).map_err(|error| from_snapshot(path, name, &error))
    }

    /// Makes a snapshot of a volume.
    ///
    /// # Errors
    /// If there is no such volume, the name is taken, none, or one of the schedule's, or there is no room.
    pub async fn create_snapshot(
        self: &Arc<Self>,
        path: String,
        request: CreateSnapshot,
    ) -> ApiResult<SnapshotCreated> {
        let CreateSnapshot { name } = request;
        for (prefix, whose) in [(schedule::PREFIX, "the schedule"), (BEFORE, "what restores keep")] {
            if name.starts_with(prefix) {
                let message = format!("names that begin with {prefix} are those of {whose}");
                let object = format!("snapshot {path}@{name}");
                return Err(ApiError::invalid(object, message, "choose another name").at("name"));
            }
        }
        let lacks = self.hand_over_mapped(&path).await?;
        self.change(move |engine| async move {
            let snapshot = engine.make_snapshot(&path, &name).await?;
            if let Some(lacks) = &lacks {
                let (open, known) = engine.open_volume_at(&path)?;
                let cause = format!("snapshot {name}: {}", lacks.cause);
                engine.events.emit(Severity::Warning, &open.volume_object(&known), &cause, &lacks.next_action);
            }
            Ok(SnapshotCreated { changed: true, snapshot, notes: lacks.into_iter().collect() })
        })
        .await
    }

    /// Has what programs wrote to mapped memory be in the next snapshot of a volume. Others may change things meanwhile:
    /// the kernel may take its time. Answers why that snapshot lacks some of it, if that is so.
    pub(crate) async fn hand_over_mapped(&self, path: &str) -> ApiResult<Option<Condition>> {
        let (open, known) = self.open_volume_at(path)?;
        open.hand_over_mapped(known.id).await
    }

    /// Makes a snapshot of any name. No other change may be under way.
    pub(crate) async fn make_snapshot(&self, path: &str, name: &str) -> ApiResult<VolumeSnapshot> {
        let (open, volume_name, object) = self.volume_at(path)?;
        let (known, volume) = open.open_volume_named(&volume_name, &object)?;
        if volume.snapshots().len() >= MOST_SNAPSHOTS {
            let message = format!("the volume has {MOST_SNAPSHOTS} snapshots, which is all that it can have");
            return Err(conflict(format!("snapshot {path}@{name}"), message, "destroy some that are not needed"));
        }
        let asked = name.to_owned();
        let made = self.on_reactor(move || async move { volume.create_snapshot(&asked).await }).await?;
        let made = made.map_err(|error| from_snapshot(path, name, &error))?;
        self.note(&open.volume_object(&known), &format!("snapshot {name} made"));
        Ok(shown(made))
    }

    /// Destroys a snapshot of a volume; a job gives back what only it kept.
    ///
    /// # Errors
    /// If it is not confirmed, there is no such volume, or files of the snapshot are open.
    pub async fn destroy_snapshot(
        self: &Arc<Self>,
        path: String,
        name: String,
        confirmed: bool,
    ) -> ApiResult<SnapshotDestroyed> {
        self.change(move |engine| async move {
            let object = format!("snapshot {path}@{name}");
            let known = match engine.snapshot(&path, &name) {
                Err(error) if error.code == Code::NotFound && error.object == object => {
                    let message = format!("there is no {object}");
                    return Ok(SnapshotDestroyed { changed: false, message, job: None });
                }
                known => known?,
            };
            if !confirmed {
                let files = counted(known.files, "file", "files");
                let message = format!("the state of {files} at {} would be lost", known.created);
                return Err(not_confirmed(object, message, "repeat with --yes"));
            }
            let job = engine.end_snapshot(&path, &name).await?;
            Ok(SnapshotDestroyed { changed: true, message: format!("{object} is destroyed"), job })
        })
        .await
    }

    /// Destroys a snapshot; answers with the job that gives back what it kept. No other change may be under way.
    pub(crate) async fn end_snapshot(&self, path: &str, name: &str) -> ApiResult<Option<u64>> {
        let (open, volume_name, object) = self.volume_at(path)?;
        let (known, volume) = open.open_volume_named(&volume_name, &object)?;
        if let Some((job, need)) = self.jobs.needs_snapshot(known.id, name) {
            let next = format!("wait for its end, or 'holdfast job cancel {job}'");
            return Err(conflict(format!("snapshot {path}@{name}"), format!("job {job} {need}"), next));
        }
        let mut tries = 0;
        loop {
            let (ending, asked) = (volume.clone(), name.to_owned());
            let ended = self.on_reactor(move || async move { ending.destroy_snapshot(&asked).await }).await?;
            match ended {
                // The kernel tells of a close a little later.
                Err(error) if error.kind == ErrorKind::Busy && tries < TRIES => tries += 1,
                ended => break ended.map_err(|error| from_snapshot(path, name, &error))?,
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
        self.note(&open.volume_object(&known), &format!("snapshot {name} destroyed"));
        self.reclaim_left(&open, &known, &volume)
    }

    /// Has a job give back what destroyed snapshots kept, if that is to be done.
    pub(super) fn reclaim_left(&self, open: &OpenPool, known: &KnownVolume, volume: &Volume) -> ApiResult<Option<u64>> {
        if !volume.is_to_be_reclaimed() {
            return Ok(None);
        }
        let spec = JobSpec::new(JobKind::Reclaim, Target::volume(open, known.id, &known.name));
        // One that is at its end does not see what is destroyed by now.
        self.jobs.begin_anew(&spec);
        Ok(Some(self.add_job(spec, SetPace::default())?.job.id))
    }

    /// What differs between a snapshot of a volume and another one, or the files as they are. It goes on only while
    /// somebody waits for it.
    ///
    /// # Errors
    /// If there is no such volume or snapshot, or it cannot be read.
    pub async fn snapshot_differences(
        &self,
        path: &str,
        from: &str,
        asked: DifferencesAsked,
    ) -> ApiResult<SnapshotDifferences> {
        let (open, name, object) = self.volume_at(path)?;
        let (_, volume) = open.open_volume_named(&name, &object)?;
        for known in [Some(from), asked.to.as_deref()].into_iter().flatten() {
            volume.snapshot(known).map_err(|error| from_snapshot(path, known, &error))?;
        }
        let at = match &asked.next {
            None => DifferencesFrom::default(),
            Some(token) => place_of(token).ok_or_else(|| {
                ApiError::invalid(&object, format!("{token:?} is no place to go on from"), "begin without it")
                    .at("next")
            })?,
        };
        if asked.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            let next = "write the path from the volume's root on, as /projects";
            return Err(ApiError::invalid(&object, "the path does not begin at the volume's root", next).at("path"));
        }
        let (to, waits, volume_then) = (asked.to.clone(), Arc::new(()), volume.clone());
        let (wanted, begun) = (Arc::downgrade(&waits), from.to_owned());
        let found = self.on_reactor(move || differences(volume, begun, asked, at, wanted)).await?;
        drop(waits);
        let (differences, next) = found.map_err(|error| {
            let is_gone = |known: &&str| volume_then.snapshot(known).is_err();
            let gone = [Some(from), to.as_deref()].into_iter().flatten().find(is_gone);
            from_snapshot(path, gone.unwrap_or(from), &error)
        })?;
        let next = next.map(|at| format!("{}.{}", at.tree, at.file));
        Ok(SnapshotDifferences { from: from.into(), to, differences, next })
    }
}

/// There is no such file in a snapshot.
pub(crate) fn no_file(path: &str, name: &str, below: &str) -> ApiError {
    let object = format!("path {below} of snapshot {path}@{name}");
    not_found(object, "write the path from the volume's root on, as the snapshot has it").at("path")
}
