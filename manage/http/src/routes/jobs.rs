//! Jobs.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{
    ConversionPlan, ConvertSpace, ErrorBody, EvacuateDisk, EvacuationPlan, Job, JobChanged, JobState, RebalancePlan,
    ReplaceDisk, SetPace, UpgradePlan,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{By, OnEngine};
use crate::reach::{may_give_up, may_name};
use crate::refusal::{Answered, Body, InPath, InQuery};

/// Which jobs.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Only jobs in this state.
    state: Option<JobState>,
    /// Only jobs in the pool, or on the space or disk, with this name or id.
    object: Option<String>,
}

/// Lists jobs, oldest first: all that have not ended, and the last 200 that have.
#[utoipa::path(get, path = "/jobs", tag = "jobs", operation_id = "job_list", params(Which),
    responses((status = 200, body = [Job], description = "The jobs."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn list(engine: OnEngine, InQuery(which): InQuery<Which>) -> Answered<Json<Vec<Job>>> {
    Ok(Json(engine.jobs(which.state, which.object.as_deref())))
}

/// Shows a job.
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs", operation_id = "job_show",
    params(("id" = u64, Path, description = "Number of the job.")),
    responses((status = 200, body = Job, description = "The job."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(engine: OnEngine, InPath(id): InPath<u64>) -> Answered<Json<Job>> {
    Ok(Json(engine.job(id)?))
}

/// Changes how much a job makes way for clients, and how fast it may be, at once.
#[utoipa::path(patch, path = "/jobs/{id}", tag = "jobs", operation_id = "job_set", request_body = SetPace,
    params(("id" = u64, Path, description = "Number of the job.")),
    responses((status = 200, body = JobChanged, description = "The job as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(
    engine: OnEngine,
    InPath(id): InPath<u64>,
    Body(request): Body<SetPace>,
) -> Answered<Json<JobChanged>> {
    Ok(Json(engine.set_job(id, request)?))
}

/// Lets a job wait, from the end of its step on, until it is resumed.
#[utoipa::path(post, path = "/jobs/{id}/pause", tag = "jobs", operation_id = "job_pause",
    params(("id" = u64, Path, description = "Number of the job.")),
    responses((status = 200, body = JobChanged, description = "The job as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn pause(engine: OnEngine, InPath(id): InPath<u64>) -> Answered<Json<JobChanged>> {
    Ok(Json(engine.pause_job(id)?))
}

/// Lets a paused job go on as soon as it is its turn.
#[utoipa::path(post, path = "/jobs/{id}/resume", tag = "jobs", operation_id = "job_resume",
    params(("id" = u64, Path, description = "Number of the job.")),
    responses((status = 200, body = JobChanged, description = "The job as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn resume(engine: OnEngine, InPath(id): InPath<u64>) -> Answered<Json<JobChanged>> {
    Ok(Json(engine.resume_job(id)?))
}

/// Ends a job before it is done. What it did stays.
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs", operation_id = "job_cancel",
    params(("id" = u64, Path, description = "Number of the job.")),
    responses((status = 200, body = JobChanged, description = "The job as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn cancel(engine: OnEngine, InPath(id): InPath<u64>) -> Answered<Json<JobChanged>> {
    Ok(Json(engine.cancel_job(id).await?))
}

/// Scrubs a space: reads all its data with their copies or parity, while it is in use. Answers with the job that does
/// it.
#[utoipa::path(post, path = "/spaces/{pool}/{space}/scrub", tag = "jobs", operation_id = "space_scrub", request_body = SetPace,
    params(("pool" = String, Path, description = "Name of the pool."), ("space" = String, Path, description = "Name of the space.")),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn scrub(
    engine: OnEngine,
    InPath((pool, space)): InPath<(String, String)>,
    Body(request): Body<SetPace>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    let answer = engine.scrub_space(format!("{pool}/{space}"), request).await?;
    Ok(taken(answer))
}

/// Gives a space another shape while it is in use. Answers with the job that moves its rows.
#[utoipa::path(post, path = "/spaces/{pool}/{space}/convert", tag = "jobs", operation_id = "space_convert", request_body = ConvertSpace,
    params(("pool" = String, Path, description = "Name of the pool."), ("space" = String, Path, description = "Name of the space.")),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn convert(
    engine: OnEngine,
    by: By,
    InPath((pool, space)): InPath<(String, String)>,
    Body(request): Body<ConvertSpace>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    may_give_up(&by, request.discard_beyond, format!("space {pool}/{space}"), "discard_beyond")?;
    let answer = engine.convert_space(format!("{pool}/{space}"), request).await?;
    Ok(taken(answer))
}

/// Shows what a conversion would move, and the room that it takes. Nothing is changed.
#[utoipa::path(post, path = "/spaces/{pool}/{space}/convert/plan", tag = "jobs", operation_id = "space_convert_plan", request_body = ConvertSpace,
    params(("pool" = String, Path, description = "Name of the pool."), ("space" = String, Path, description = "Name of the space.")),
    responses((status = 200, body = ConversionPlan, description = "What it would do."),
        (status = "default", body = ErrorBody, description = "It could not have that shape.")))]
pub(crate) async fn plan_conversion(
    engine: OnEngine,
    InPath((pool, space)): InPath<(String, String)>,
    Body(request): Body<ConvertSpace>,
) -> Answered<Json<ConversionPlan>> {
    Ok(Json(engine.plan_conversion(&format!("{pool}/{space}"), &request).await?))
}

/// Rebuilds what a space lost with disks on other disks. Answers with the job that does it.
#[utoipa::path(post, path = "/spaces/{pool}/{space}/repair", tag = "jobs", operation_id = "space_repair", request_body = SetPace,
    params(("pool" = String, Path, description = "Name of the pool."), ("space" = String, Path, description = "Name of the space.")),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn repair(
    engine: OnEngine,
    InPath((pool, space)): InPath<(String, String)>,
    Body(request): Body<SetPace>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    let answer = engine.repair_space(format!("{pool}/{space}"), request).await?;
    Ok(taken(answer))
}

/// Retires a disk and moves all data off it. Answers with the job that does it.
#[utoipa::path(post, path = "/disks/{disk}/evacuate", tag = "jobs", operation_id = "disk_evacuate", request_body = EvacuateDisk,
    params(("disk" = String, Path, description = "Path (percent-encoded), serial number or id.")),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn evacuate(
    engine: OnEngine,
    by: By,
    InPath(disk): InPath<String>,
    Body(request): Body<EvacuateDisk>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    may_name(&by, &engine, &[&disk]).await?;
    let answer = engine.evacuate_disk(disk, request).await?;
    Ok(taken(answer))
}

/// Shows what an evacuation would move, whether the other disks have room for it, and how full they would be. Nothing
/// is changed.
#[utoipa::path(post, path = "/disks/{disk}/evacuate/plan", tag = "jobs", operation_id = "disk_evacuate_plan",
    params(("disk" = String, Path, description = "Path (percent-encoded), serial number or id.")),
    responses((status = 200, body = EvacuationPlan, description = "What it would do."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn plan_evacuation(
    engine: OnEngine,
    by: By,
    InPath(disk): InPath<String>,
) -> Answered<Json<EvacuationPlan>> {
    may_name(&by, &engine, &[&disk]).await?;
    Ok(Json(engine.plan_evacuation(&disk).await?))
}

/// Evens out how full the disks of a pool are, medium by medium. Answers with the job that moves its slabs.
#[utoipa::path(post, path = "/pools/{pool}/rebalance", tag = "jobs", operation_id = "pool_rebalance", request_body = SetPace,
    params(("pool" = String, Path, description = "Name.")),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn rebalance(
    engine: OnEngine,
    InPath(pool): InPath<String>,
    Body(request): Body<SetPace>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    Ok(taken(engine.rebalance_pool(pool, request).await?))
}

/// Shows what a rebalancing would move, and how full each disk would be. Nothing is changed.
#[utoipa::path(post, path = "/pools/{pool}/rebalance/plan", tag = "jobs", operation_id = "pool_rebalance_plan",
    params(("pool" = String, Path, description = "Name.")),
    responses((status = 200, body = RebalancePlan, description = "What it would do."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn plan_rebalance(engine: OnEngine, InPath(pool): InPath<String>) -> Answered<Json<RebalancePlan>> {
    Ok(Json(engine.plan_rebalance(&pool).await?))
}

/// Lets a pool use all features of the format that this version knows. Answers with the job that does it. Versions that
/// do not know them cannot import the pool afterwards.
#[utoipa::path(post, path = "/pools/{pool}/upgrade", tag = "jobs", operation_id = "pool_upgrade", request_body = SetPace,
    params(("pool" = String, Path, description = "Name.")),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn upgrade(
    engine: OnEngine,
    InPath(pool): InPath<String>,
    Body(request): Body<SetPace>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    Ok(taken(engine.upgrade_pool(pool, request).await?))
}

/// Shows what an upgrade would change. Nothing is changed.
#[utoipa::path(post, path = "/pools/{pool}/upgrade/plan", tag = "jobs", operation_id = "pool_upgrade_plan",
    params(("pool" = String, Path, description = "Name.")),
    responses((status = 200, body = UpgradePlan, description = "What it would do."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn plan_upgrade(engine: OnEngine, InPath(pool): InPath<String>) -> Answered<Json<UpgradePlan>> {
    Ok(Json(engine.plan_upgrade(&pool)?))
}

/// Empties a disk, or rebuilds elsewhere what it held, and takes it out of its pool for good. Answers with the job that
/// does it.
#[utoipa::path(post, path = "/disks/{disk}/replace", tag = "jobs", operation_id = "disk_replace", request_body = ReplaceDisk,
    params(("disk" = String, Path, description = "Path (percent-encoded), serial number or id.")),
    responses((status = 202, body = JobChanged, description = "The job is queued."),
        (status = 200, body = JobChanged, description = "It already existed."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn replace(
    engine: OnEngine,
    by: By,
    InPath(disk): InPath<String>,
    Body(request): Body<ReplaceDisk>,
) -> Answered<(StatusCode, Json<JobChanged>)> {
    may_give_up(&by, request.force && request.new.is_some(), format!("disk {disk}"), "force")?;
    may_give_up(&by, !request.give_up.is_empty(), format!("disk {disk}"), "give_up")?;
    may_name(&by, &engine, &[&disk, request.new.as_ref().unwrap_or(&disk)]).await?;
    let answer = engine.replace_disk(disk, request).await?;
    Ok(taken(answer))
}

/// Shows what a replacement would move or make anew, what is lost for good with the disk, and how full the others would
/// be. Nothing is changed.
#[utoipa::path(post, path = "/disks/{disk}/replace/plan", tag = "jobs", operation_id = "disk_replace_plan",
    request_body = ReplaceDisk,
    params(("disk" = String, Path, description = "Path (percent-encoded), serial number or id.")),
    responses((status = 200, body = EvacuationPlan, description = "What it would do."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn plan_replacement(
    engine: OnEngine,
    by: By,
    InPath(disk): InPath<String>,
    Body(request): Body<ReplaceDisk>,
) -> Answered<Json<EvacuationPlan>> {
    may_name(&by, &engine, &[&disk, request.new.as_ref().unwrap_or(&disk)]).await?;
    Ok(Json(engine.plan_replacement(&disk, &request).await?))
}

/// A job that was asked for: 202 if it is new, 200 if it was there already.
pub(crate) fn taken(answer: JobChanged) -> (StatusCode, Json<JobChanged>) {
    (if answer.changed { StatusCode::ACCEPTED } else { StatusCode::OK }, Json(answer))
}
