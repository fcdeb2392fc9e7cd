//! What files of volumes keep to prove their data.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{
    DamagedBlock, ErrorBody, FileIntegrity, FileIntegrityChanged, JobChanged, SetFileIntegrity, SetPace,
};

use super::OnEngine;
use super::acls::OfFile;
use super::jobs::taken;
use crate::refusal::{Answered, Body, InPath, InQuery};

/// Shows what a file of a volume keeps to prove its data.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/integrity", tag = "volumes", operation_id = "volume_integrity_show",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), OfFile),
    responses((status = 200, body = FileIntegrity, description = "What it keeps."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(OfFile { path }): InQuery<OfFile>,
) -> Answered<Json<FileIntegrity>> {
    Ok(Json(engine.file_integrity(&format!("{pool}/{volume}"), &path).await?))
}

/// Has a file of a volume keep checksums of its data, or none, or a directory hand that on to new files. A job does it for a
/// file, and for what is below a directory, if that is asked for.
#[utoipa::path(put, path = "/volumes/{pool}/{volume}/integrity", tag = "volumes", operation_id = "volume_integrity_set", request_body = SetFileIntegrity,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = FileIntegrityChanged, description = "What it keeps now, or the job that has it keep it."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<SetFileIntegrity>,
) -> Answered<Json<FileIntegrityChanged>> {
    Ok(Json(engine.set_file_integrity(format!("{pool}/{volume}"), request).await?))
}

/// Reads all data of a volume that has checksums of its own, in every copy, and mends what can be mended, while the volume
/// is in use. Answers with the job that does it.
#[utoipa::path(post, path = "/volumes/{pool}/{volume}/scrub", tag = "jobs", operation_id = "volume_scrub", request_body = SetPace,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn scrub(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<SetPace>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    Ok(taken(engine.scrub_volume(format!("{pool}/{volume}"), request).await?))
}

/// Lists blocks of strict files that are right in no copy, the first 256 of them.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/damage", tag = "volumes", operation_id = "volume_damage",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = [DamagedBlock], description = "The blocks."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn damage(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
) -> Answered<Json<Vec<DamagedBlock>>> {
    Ok(Json(engine.volume_damage(&format!("{pool}/{volume}"))?))
}
