//! Snapshots of volumes, and their schedules.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{
    CreateSnapshot, ErrorBody, JobChanged, RestoreSnapshot, SetSnapshotRule, SnapshotCreated, SnapshotDestroyed,
    SnapshotDifferences, SnapshotSchedule, SnapshotScheduleChanged, VolumeSnapshot,
};
use holdfast_engine::DifferencesAsked;
use serde::Deserialize;
use utoipa::IntoParams;

use super::jobs::taken;
use super::{Confirm, OnEngine};
use crate::refusal::{Answered, Body, InPath, InQuery};

/// Lists the snapshots of a volume, the oldest first.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/snapshots", tag = "snapshots", operation_id = "snapshot_list",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = [VolumeSnapshot], description = "The snapshots."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn list(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
) -> Answered<Json<Vec<VolumeSnapshot>>> {
    Ok(Json(engine.snapshots(&format!("{pool}/{volume}"))?))
}

/// Makes a snapshot of a volume: all its files as they are now.
#[utoipa::path(post, path = "/volumes/{pool}/{volume}/snapshots", tag = "snapshots", operation_id = "snapshot_create", request_body = CreateSnapshot,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 201, body = SnapshotCreated, description = "Made."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn create(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<CreateSnapshot>,
) -> Answered<(StatusCode, Json<SnapshotCreated>)> {
    Ok((StatusCode::CREATED, Json(engine.create_snapshot(format!("{pool}/{volume}"), request).await?)))
}

/// Shows a snapshot.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/snapshots/{snapshot}", tag = "snapshots", operation_id = "snapshot_show",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), ("snapshot" = String, Path, description = "Name of the snapshot.")),
    responses((status = 200, body = VolumeSnapshot, description = "The snapshot."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(
    engine: OnEngine,
    InPath((pool, volume, snapshot)): InPath<(String, String, String)>,
) -> Answered<Json<VolumeSnapshot>> {
    Ok(Json(engine.snapshot(&format!("{pool}/{volume}"), &snapshot)?))
}

/// Destroys a snapshot. A job gives back what only it kept.
#[utoipa::path(delete, path = "/volumes/{pool}/{volume}/snapshots/{snapshot}", tag = "snapshots", operation_id = "snapshot_destroy",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), ("snapshot" = String, Path, description = "Name of the snapshot."), Confirm),
    responses((status = 200, body = SnapshotDestroyed, description = "Destroyed, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn destroy(
    engine: OnEngine,
    InPath((pool, volume, snapshot)): InPath<(String, String, String)>,
    InQuery(query): InQuery<Confirm>,
) -> Answered<Json<SnapshotDestroyed>> {
    Ok(Json(engine.destroy_snapshot(format!("{pool}/{volume}"), snapshot, query.confirm).await?))
}

/// What of the differences is asked for.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asked {
    /// The other snapshot; the files as they are if it is left out.
    to: Option<String>,
    /// Only what is or was at this path, or below it.
    path: Option<String>,
    /// What an earlier answer said to go on with.
    next: Option<String>,
    /// Differences, at most; 1000 if left out, which is the most.
    most: Option<usize>,
}

/// Shows which files differ between a snapshot and another one, or now. The cost follows what changed.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/snapshots/{snapshot}/diff", tag = "snapshots", operation_id = "snapshot_diff",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), ("snapshot" = String, Path, description = "Name of the snapshot."), Asked),
    responses((status = 200, body = SnapshotDifferences, description = "Files that differ."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn diff(
    engine: OnEngine,
    InPath((pool, volume, snapshot)): InPath<(String, String, String)>,
    InQuery(Asked { to, path, next, most }): InQuery<Asked>,
) -> Answered<Json<SnapshotDifferences>> {
    let asked = DifferencesAsked { to, path, next, most };
    Ok(Json(engine.snapshot_differences(&format!("{pool}/{volume}"), &snapshot, asked).await?))
}

/// Has files of a volume be as a snapshot has them, while the volume is in use. Answers with the job that does it.
#[utoipa::path(post, path = "/volumes/{pool}/{volume}/snapshots/{snapshot}/restore", tag = "snapshots", operation_id = "snapshot_restore", request_body = RestoreSnapshot,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), ("snapshot" = String, Path, description = "Name of the snapshot."), Confirm),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn restore(
    engine: OnEngine,
    InPath((pool, volume, snapshot)): InPath<(String, String, String)>,
    InQuery(query): InQuery<Confirm>,
    Body(request): Body<RestoreSnapshot>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    Ok(taken(engine.restore_snapshot(format!("{pool}/{volume}"), snapshot, request, query.confirm).await?))
}

/// Shows the rules by which snapshots of a volume are made and destroyed.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/snapshot-schedule", tag = "snapshots", operation_id = "snapshot_schedule_show",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = SnapshotSchedule, description = "The rules."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn schedule(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
) -> Answered<Json<SnapshotSchedule>> {
    Ok(Json(engine.snapshot_schedule(&format!("{pool}/{volume}"))?))
}

/// Adds a rule to the schedule of a volume, or changes the one of the same interval.
///
/// Where more snapshots of that interval are there than it keeps, it has to be confirmed.
#[utoipa::path(put, path = "/volumes/{pool}/{volume}/snapshot-schedule", tag = "snapshots", operation_id = "snapshot_schedule_set", request_body = SetSnapshotRule,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), Confirm),
    responses((status = 200, body = SnapshotScheduleChanged, description = "The schedule as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set_rule(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(query): InQuery<Confirm>,
    Body(request): Body<SetSnapshotRule>,
) -> Answered<Json<SnapshotScheduleChanged>> {
    Ok(Json(engine.set_snapshot_rule(format!("{pool}/{volume}"), request, query.confirm).await?))
}

/// Which rule is removed.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// The one of this interval; all of them if it is left out.
    every_seconds: Option<u64>,
}

/// Removes a rule from the schedule of a volume, or all of them. The snapshots that they made stay.
#[utoipa::path(delete, path = "/volumes/{pool}/{volume}/snapshot-schedule", tag = "snapshots", operation_id = "snapshot_schedule_remove",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), Which),
    responses((status = 200, body = SnapshotScheduleChanged, description = "The schedule as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn remove_rule(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(which): InQuery<Which>,
) -> Answered<Json<SnapshotScheduleChanged>> {
    Ok(Json(engine.remove_snapshot_rule(format!("{pool}/{volume}"), which.every_seconds).await?))
}
