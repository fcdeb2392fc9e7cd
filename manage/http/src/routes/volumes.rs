//! Volumes.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{
    AdoptVolume, Changed, CreateVolume, ErrorBody, FileListing, GrowVolume, JobChanged, MountVolume, SetPace,
    SetVolume, SetVolumeQuota, ShrinkVolume, Volume, VolumeChanged, VolumeFinding, VolumeQuota, VolumeQuotaChanged,
    VolumeShrinkPlan, VolumeShrunk, VolumeUsage,
};
use holdfast_engine::ListingAsked;
use serde::Deserialize;
use utoipa::IntoParams;

use super::jobs::taken;
use super::{Confirm, Force, OnEngine, made};
use crate::refusal::{Answered, Body, InPath, InQuery};

/// Lists all volumes.
#[utoipa::path(get, path = "/volumes", tag = "volumes", operation_id = "volume_list",
    responses((status = 200, body = [Volume], description = "All volumes of the pools in service."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn list(engine: OnEngine) -> Json<Vec<Volume>> {
    Json(engine.volumes())
}

/// Makes a volume.
#[utoipa::path(post, path = "/volumes", tag = "volumes", operation_id = "volume_create", request_body = CreateVolume,
    responses((status = 201, body = VolumeChanged, description = "Made."),
        (status = 200, body = VolumeChanged, description = "It already existed, on this space."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn create(
    engine: OnEngine,
    Body(request): Body<CreateVolume>,
) -> Answered<(StatusCode, Json<VolumeChanged>)> {
    let answer = engine.create_volume(request).await?;
    Ok(made(answer.changed, answer))
}

/// Shows a volume.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}", tag = "volumes", operation_id = "volume_show",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = Volume, description = "The volume."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(engine: OnEngine, InPath((pool, volume)): InPath<(String, String)>) -> Answered<Json<Volume>> {
    Ok(Json(engine.volume(&format!("{pool}/{volume}"))?))
}

/// Destroys a volume with its files, and the space that was made for it.
#[utoipa::path(delete, path = "/volumes/{pool}/{volume}", tag = "volumes", operation_id = "volume_destroy",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), Confirm, Force),
    responses((status = 200, body = Changed, description = "Destroyed, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn destroy(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(query): InQuery<Confirm>,
    InQuery(how): InQuery<Force>,
) -> Answered<Json<Changed>> {
    Ok(Json(engine.destroy_volume(format!("{pool}/{volume}"), query.confirm, how.force).await?))
}

/// Mounts a volume on a directory of the server, now and whenever it is opened.
#[utoipa::path(put, path = "/volumes/{pool}/{volume}/mount", tag = "volumes", operation_id = "volume_mount", request_body = MountVolume,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = VolumeChanged, description = "The volume as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn mount(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<MountVolume>,
) -> Answered<Json<VolumeChanged>> {
    Ok(Json(engine.mount_volume(format!("{pool}/{volume}"), request).await?))
}

/// Unmounts a volume, and mounts it no more.
#[utoipa::path(delete, path = "/volumes/{pool}/{volume}/mount", tag = "volumes", operation_id = "volume_unmount",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), Force),
    responses((status = 200, body = VolumeChanged, description = "The volume as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn unmount(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(how): InQuery<Force>,
) -> Answered<Json<VolumeChanged>> {
    Ok(Json(engine.unmount_volume(format!("{pool}/{volume}"), how.force).await?))
}

/// Makes a volume larger while it is in use, with the space that was made for it.
#[utoipa::path(post, path = "/volumes/{pool}/{volume}/grow", tag = "volumes", operation_id = "volume_grow", request_body = GrowVolume,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = VolumeChanged, description = "The volume as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn grow(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<GrowVolume>,
) -> Answered<Json<VolumeChanged>> {
    Ok(Json(engine.grow_volume(format!("{pool}/{volume}"), request).await?))
}

/// Makes a volume smaller while it is in use, with the space that was made for it. Answers with the job that does it,
/// and with none where the volume has that size.
#[utoipa::path(post, path = "/volumes/{pool}/{volume}/shrink", tag = "jobs", operation_id = "volume_shrink", request_body = ShrinkVolume,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 202, body = VolumeShrunk, description = "The job is queued."),
        (status = 200, body = VolumeShrunk, description = "It already existed, or nothing is to be done."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn shrink(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<ShrinkVolume>,
) -> Answered<(StatusCode, Json<VolumeShrunk>)> {
    let answer = engine.shrink_volume(format!("{pool}/{volume}"), request).await?;
    Ok((if answer.changed { StatusCode::ACCEPTED } else { StatusCode::OK }, Json(answer)))
}

/// Shows what a shrink would move, and the smallest size. Nothing is changed.
#[utoipa::path(post, path = "/volumes/{pool}/{volume}/shrink/plan", tag = "jobs", operation_id = "volume_shrink_plan", request_body = ShrinkVolume,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = VolumeShrinkPlan, description = "What it would do."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn plan_shrink(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<ShrinkVolume>,
) -> Answered<Json<VolumeShrinkPlan>> {
    Ok(Json(engine.plan_volume_shrink(&format!("{pool}/{volume}"), &request).await?))
}

/// Takes up a volume that lies on a space and that its pool does not know, as after a salvage of the pool.
#[utoipa::path(post, path = "/volumes/{pool}/{volume}/adopt", tag = "volumes", operation_id = "volume_adopt", request_body = AdoptVolume,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = VolumeChanged, description = "The volume as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn adopt(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<AdoptVolume>,
) -> Answered<Json<VolumeChanged>> {
    Ok(Json(engine.adopt_volume(format!("{pool}/{volume}"), request).await?))
}

/// Reads all metadata of a volume while it is in use, and keeps what does not agree. Answers with the job that does it.
#[utoipa::path(post, path = "/volumes/{pool}/{volume}/scan", tag = "jobs", operation_id = "volume_scan", request_body = SetPace,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn scan(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<SetPace>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    Ok(taken(engine.check_volume(format!("{pool}/{volume}"), false, request).await?))
}

/// Whether a volume is taken away to be repaired.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Offline {
    /// Take it away from those who use it, and repair everything.
    #[serde(default)]
    offline: bool,
    /// Also while programs use it: what they have open fails.
    #[serde(default)]
    force: bool,
}

/// Repairs of a volume what can be while it is in use; offline, takes it away from those who use it, repairs what needs
/// that, gives it back and repairs the rest in use. Answers with the job that does it.
#[utoipa::path(post, path = "/volumes/{pool}/{volume}/spotfix", tag = "jobs", operation_id = "volume_spotfix", request_body = SetPace,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), Offline),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn spotfix(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(how): InQuery<Offline>,
    Body(request): Body<SetPace>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    let path = format!("{pool}/{volume}");
    let answer = if how.offline {
        engine.repair_volume(path, how.force, request).await?
    } else {
        engine.check_volume(path, true, request).await?
    };
    Ok(taken(answer))
}

/// Gives room that files of a volume do not use back to its thin space, while the volume is in use. Answers with the
/// job that does it.
#[utoipa::path(post, path = "/volumes/{pool}/{volume}/trim", tag = "jobs", operation_id = "volume_trim", request_body = SetPace,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn trim(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<SetPace>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    Ok(taken(engine.trim_volume(format!("{pool}/{volume}"), request).await?))
}

/// Brings together what lies scattered of the files of a volume since snapshots or clones had it, while the volume is in use.
/// Answers with the job that does it.
#[utoipa::path(post, path = "/volumes/{pool}/{volume}/gather", tag = "jobs", operation_id = "volume_gather", request_body = SetPace,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn gather(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<SetPace>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    Ok(taken(engine.gather_volume(format!("{pool}/{volume}"), request).await?))
}

/// Where a salvage goes to.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct To {
    /// A directory of the server, new or empty, from the root on.
    to: String,
    /// Also while programs use the volume: what they have open fails.
    #[serde(default)]
    force: bool,
}

/// Copies out what can be read of a volume to a directory of the server, and changes nothing on the volume, which nobody
/// else uses meanwhile. Answers with the job that does it.
#[utoipa::path(post, path = "/volumes/{pool}/{volume}/salvage", tag = "jobs", operation_id = "volume_salvage", request_body = SetPace,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), To),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn salvage(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(how): InQuery<To>,
    Body(request): Body<SetPace>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    Ok(taken(engine.salvage_volume(format!("{pool}/{volume}"), how.to, how.force, request).await?))
}

/// Lists what the last scan of a volume found and nobody repaired since.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/findings", tag = "volumes", operation_id = "volume_findings",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = [VolumeFinding], description = "What was found."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn findings(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
) -> Answered<Json<Vec<VolumeFinding>>> {
    Ok(Json(engine.volume_findings(&format!("{pool}/{volume}")).await?))
}

/// Below which directory.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Below {
    /// The path from the volume's root on; all of the volume if left out.
    #[serde(default)]
    path: String,
}

/// Shows what a directory tree of a volume takes. The larger the tree, the later the answer.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/usage", tag = "volumes", operation_id = "volume_usage",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), Below),
    responses((status = 200, body = VolumeUsage, description = "What it takes."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn usage(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(below): InQuery<Below>,
) -> Answered<Json<VolumeUsage>> {
    Ok(Json(engine.volume_usage(&format!("{pool}/{volume}"), &below.path).await?))
}

/// Which directory is listed, and from where on.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// The directory, from the volume's root on; the root if left out.
    #[serde(default)]
    path: String,
    /// The name of a snapshot to list it in; as it is now if left out.
    snapshot: Option<String>,
    /// The `next` of the answer before.
    after: Option<String>,
}

/// Lists names in a directory of a volume, as it is or as a snapshot has it, up to a thousand at a time.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/files", tag = "volumes", operation_id = "volume_files",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), Listed),
    responses((status = 200, body = FileListing, description = "The names."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn files(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(Listed { path, snapshot, after }): InQuery<Listed>,
) -> Answered<Json<FileListing>> {
    Ok(Json(engine.list_files(&format!("{pool}/{volume}"), ListingAsked { path, snapshot, after }).await?))
}

/// Which quotas are listed.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AllQuotas {
    /// Also users and groups that have none and own files.
    #[serde(default)]
    all: bool,
}

/// Lists the quotas of a volume, with what is taken of them.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/quotas", tag = "volumes", operation_id = "volume_quota_list",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), AllQuotas),
    responses((status = 200, body = [VolumeQuota], description = "The quotas: of directory trees, users, groups, owners."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn quotas(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(which): InQuery<AllQuotas>,
) -> Answered<Json<Vec<VolumeQuota>>> {
    Ok(Json(engine.volume_quotas(&format!("{pool}/{volume}"), which.all).await?))
}

/// Sets a quota of a volume. What a directory held before is counted by a job, while the volume is in use.
#[utoipa::path(put, path = "/volumes/{pool}/{volume}/quotas", tag = "volumes", operation_id = "volume_quota_set", request_body = SetVolumeQuota,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = VolumeQuotaChanged, description = "The quota as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set_quota(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<SetVolumeQuota>,
) -> Answered<Json<VolumeQuotaChanged>> {
    Ok(Json(engine.set_volume_quota(format!("{pool}/{volume}"), request).await?))
}

/// Changes properties of a volume while it is in use.
#[utoipa::path(patch, path = "/volumes/{pool}/{volume}", tag = "volumes", operation_id = "volume_set", request_body = SetVolume,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = VolumeChanged, description = "The volume as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<SetVolume>,
) -> Answered<Json<VolumeChanged>> {
    Ok(Json(engine.set_volume(format!("{pool}/{volume}"), request).await?))
}

/// Whose quota is removed: one of them.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Whose {
    /// The directory, from the volume's root on.
    path: Option<String>,
    /// The user, by name or number.
    user: Option<String>,
    /// The group, by name or number.
    group: Option<String>,
    /// The security identifier of the owner.
    owner: Option<String>,
}

/// Removes a quota of a volume. A job has the files of a directory tree count for it no more.
#[utoipa::path(delete, path = "/volumes/{pool}/{volume}/quotas", tag = "volumes", operation_id = "volume_quota_remove",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), Whose),
    responses((status = 200, body = VolumeQuotaChanged, description = "Removed, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn remove_quota(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(Whose { path, user, group, owner }): InQuery<Whose>,
) -> Answered<Json<VolumeQuotaChanged>> {
    let request = SetVolumeQuota { path, user, group, owner, ..SetVolumeQuota::default() };
    Ok(Json(engine.remove_volume_quota(format!("{pool}/{volume}"), request).await?))
}
