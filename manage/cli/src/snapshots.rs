//! Snapshots of volumes.

use anyhow::Result;
use holdfast_api::{
    CreateSnapshot, JobChanged, RestoreSnapshot, SetSnapshotRule, SnapshotCreated, SnapshotDestroyed,
    SnapshotDifferences, SnapshotSchedule, SnapshotScheduleChanged, VolumeSnapshot,
};
use holdfast_model::SpacePath;

use crate::arguments::{ScheduleCommand, SnapshotCommand, SnapshotPath};
use crate::client::{Client, segment};
use crate::jobs;
use crate::output::{harmless, print, with_conditions};
use crate::remote::tell;
use crate::volumes::volume_path;

fn snapshots_path(volume: &SpacePath) -> String {
    format!("{}/snapshots", volume_path(volume))
}

fn snapshot_path(snapshot: &SnapshotPath) -> String {
    format!("{}/{}", snapshots_path(&snapshot.volume), segment(&snapshot.name))
}

/// Does a snapshot command.
pub async fn snapshot_command(client: &Client, json: bool, command: SnapshotCommand) -> Result<()> {
    match command {
        SnapshotCommand::List { volume } => {
            print(json, &client.get::<Vec<VolumeSnapshot>>(&snapshots_path(&volume)).await?)
        }
        SnapshotCommand::Create { snapshot } => {
            let request = CreateSnapshot { name: snapshot.name.clone() };
            let answer: SnapshotCreated = client.post(&snapshots_path(&snapshot.volume), &request).await?;
            let files = answer.snapshot.files;
            let done = format!("snapshot {} has {files} files and directories", harmless(&snapshot.to_string()));
            tell(json, &answer, answer.changed, with_conditions(done, &answer.notes))
        }
        SnapshotCommand::Diff { snapshot, to, path } => diff(client, json, &snapshot, to, path).await,
        SnapshotCommand::Restore { snapshot, path, to, discard, yes, start } => {
            let request = RestoreSnapshot { path, to, keep: !discard, pace: start.pace() };
            let answer: JobChanged =
                client.post(&format!("{}/restore?confirm={yes}", snapshot_path(&snapshot)), &request).await?;
            jobs::told(client, json, (&answer, answer.changed, &answer.job), start.wait).await
        }
        SnapshotCommand::Destroy { snapshot, yes } => {
            let answer: SnapshotDestroyed =
                client.delete(&format!("{}?confirm={yes}", snapshot_path(&snapshot))).await?;
            let job = answer.job.map_or_else(String::new, |job| format!("; job {job} gives back what only it kept"));
            let done = format!("{}{job}", harmless(&answer.message));
            tell(json, &answer, answer.changed, done)
        }
        SnapshotCommand::Schedule(command) => schedule_command(client, json, command).await,
    }
}

/// Everything that differs, asked for piece by piece.
async fn diff(
    client: &Client,
    json: bool,
    snapshot: &SnapshotPath,
    to: Option<String>,
    path: Option<String>,
) -> Result<()> {
    let mut query = Vec::new();
    query.extend(to.map(|to| format!("to={}", segment(&to))));
    query.extend(path.map(|path| format!("path={}", segment(&path))));
    let base = format!("{}/diff?{}", snapshot_path(snapshot), query.join("&"));
    let mut all: SnapshotDifferences = client.get(&base).await?;
    while let Some(next) = all.next.take() {
        let more: SnapshotDifferences = client.get(&format!("{base}&next={}", segment(&next))).await?;
        all.differences.extend(more.differences);
        all.next = more.next;
    }
    let place = |path: &Option<String>, before: &Option<String>| path.clone().or_else(|| before.clone());
    all.differences.sort_by_key(|one| place(&one.path, &one.path_before));
    print(json, &all)
}

async fn schedule_command(client: &Client, json: bool, command: ScheduleCommand) -> Result<()> {
    let path = |volume: &SpacePath| format!("{}/snapshot-schedule", volume_path(volume));
    match command {
        ScheduleCommand::Show { volume } => print(json, &client.get::<SnapshotSchedule>(&path(&volume)).await?),
        ScheduleCommand::Set { volume, every, at, keep, yes } => {
            let request = SetSnapshotRule { every_seconds: every, keep, at_minutes: at };
            let to = format!("{}?confirm={yes}", path(&volume));
            let answer: SnapshotScheduleChanged = client.put(&to, &request).await?;
            tell(json, &answer, answer.changed, format!("the schedule of volume {volume} is set"))
        }
        ScheduleCommand::Remove { volume, every } => {
            let query = every.map_or_else(String::new, |every| format!("?every_seconds={every}"));
            let answer: SnapshotScheduleChanged = client.delete(&format!("{}{query}", path(&volume))).await?;
            let left = answer.schedule.rules.len();
            let done = match left {
                0 => format!("volume {volume} has no schedule"),
                _ => format!("the schedule of volume {volume} has {left} rules left"),
            };
            tell(json, &answer, answer.changed, done)
        }
    }
}
