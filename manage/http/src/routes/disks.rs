//! Disks.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{
    Changed, CreateFileDisk, Disk, DiskChanged, DiskRef, DiskRetired, ErrorBody, LocateDisk, RemoveDisk, RetireDisk,
    SetDisk, WipeDisk,
};

use super::{By, OnEngine, made};
use crate::reach::may_name;
use crate::refusal::{Answered, Body, InPath};

/// Lists all disks: those of pools, and those that belong to none.
#[utoipa::path(get, path = "/disks", tag = "disks", operation_id = "disk_list",
    responses((status = 200, body = [Disk], description = "All disks."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn list(engine: OnEngine) -> Answered<Json<Vec<Disk>>> {
    Ok(Json(engine.disks().await?))
}

/// Makes a sparse file that serves as a disk.
#[utoipa::path(post, path = "/disks", tag = "disks", operation_id = "disk_create_file", request_body = CreateFileDisk,
    responses((status = 201, body = DiskChanged, description = "Made."),
        (status = 200, body = DiskChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn create_file(
    engine: OnEngine,
    Body(request): Body<CreateFileDisk>,
) -> Answered<(StatusCode, Json<DiskChanged>)> {
    let answer = engine.create_file_disk(request).await?;
    Ok(made(answer.changed, answer))
}

/// Shows a disk.
#[utoipa::path(get, path = "/disks/{disk}", tag = "disks", operation_id = "disk_show",
    params(("disk" = String, Path, description = "Path (percent-encoded), serial number or id.")),
    responses((status = 200, body = Disk, description = "The disk."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(engine: OnEngine, by: By, InPath(disk): InPath<String>) -> Answered<Json<Disk>> {
    may_name(&by, &engine, &[&disk]).await?;
    Ok(Json(engine.disk(&DiskRef::new(&disk)).await?))
}

/// Sets what the disk itself does not tell, or what its pool may use it for.
#[utoipa::path(patch, path = "/disks/{disk}", tag = "disks", operation_id = "disk_set", request_body = SetDisk,
    params(("disk" = String, Path, description = "Path (percent-encoded), serial number or id.")),
    responses((status = 200, body = DiskChanged, description = "The disk as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(
    engine: OnEngine,
    by: By,
    InPath(disk): InPath<String>,
    Body(request): Body<SetDisk>,
) -> Answered<Json<DiskChanged>> {
    may_name(&by, &engine, &[&disk]).await?;
    Ok(Json(engine.set_disk(disk, request).await?))
}

/// Makes a disk of no pool blank.
#[utoipa::path(post, path = "/disks/{disk}/wipe", tag = "disks", operation_id = "disk_wipe", request_body = WipeDisk,
    params(("disk" = String, Path, description = "Path (percent-encoded), serial number or id.")),
    responses((status = 200, body = DiskChanged, description = "The disk as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn wipe(
    engine: OnEngine,
    InPath(disk): InPath<String>,
    Body(request): Body<WipeDisk>,
) -> Answered<Json<DiskChanged>> {
    Ok(Json(engine.wipe_disk(disk, request.force).await?))
}

/// Takes a disk that holds no data out of its pool for good, also one that is away.
#[utoipa::path(post, path = "/disks/{disk}/remove", tag = "disks", operation_id = "disk_remove", request_body = RemoveDisk,
    params(("disk" = String, Path, description = "Path (percent-encoded), serial number or id.")),
    responses((status = 200, body = Changed, description = "Removed, or it was in no pool."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn remove(
    engine: OnEngine,
    InPath(disk): InPath<String>,
    Body(request): Body<RemoveDisk>,
) -> Answered<Json<Changed>> {
    Ok(Json(engine.remove_disk(disk, request).await?))
}

/// Lets a disk of a pool get no new slabs, and moves its data away if that is asked for or the pool's policy.
#[utoipa::path(post, path = "/disks/{disk}/retire", tag = "disks", operation_id = "disk_retire", request_body = RetireDisk,
    params(("disk" = String, Path, description = "Path (percent-encoded), serial number or id.")),
    responses((status = 200, body = DiskRetired, description = "The disk as it is now, and the job."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn retire(
    engine: OnEngine,
    by: By,
    InPath(disk): InPath<String>,
    Body(request): Body<RetireDisk>,
) -> Answered<Json<DiskRetired>> {
    may_name(&by, &engine, &[&disk]).await?;
    Ok(Json(engine.retire_disk(disk, request).await?))
}

/// Switches the locating light of a disk's slot.
#[utoipa::path(post, path = "/disks/{disk}/locate", tag = "disks", operation_id = "disk_locate", request_body = LocateDisk,
    params(("disk" = String, Path, description = "Path (percent-encoded), serial number or id.")),
    responses((status = 200, body = Changed, description = "Switched."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn locate(
    engine: OnEngine,
    by: By,
    InPath(disk): InPath<String>,
    Body(request): Body<LocateDisk>,
) -> Answered<Json<Changed>> {
    may_name(&by, &engine, &[&disk]).await?;
    Ok(Json(engine.locate_disk(&disk, request.on).await?))
}
