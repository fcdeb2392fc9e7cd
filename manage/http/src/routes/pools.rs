//! Pools.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{
    AddDisks, Changed, CreatePool, ErrorBody, ImportPools, Pool, PoolChanged, PoolsImported, SalvagePool, Salvaged,
    SetPool,
};

use super::{By, Confirm, OnEngine, made};
use crate::reach::{may_give_up, may_name};
use crate::refusal::{Answered, Body, InPath, InQuery};

/// Lists all pools, those that could not be imported included.
#[utoipa::path(get, path = "/pools", tag = "pools", operation_id = "pool_list",
    responses((status = 200, body = [Pool], description = "All pools."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn list(engine: OnEngine) -> Json<Vec<Pool>> {
    Json(engine.pools())
}

/// Makes a pool of disks.
#[utoipa::path(post, path = "/pools", tag = "pools", operation_id = "pool_create", request_body = CreatePool,
    responses((status = 201, body = PoolChanged, description = "Made."),
        (status = 200, body = PoolChanged, description = "It already existed, with these disks."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn create(
    engine: OnEngine,
    Body(request): Body<CreatePool>,
) -> Answered<(StatusCode, Json<PoolChanged>)> {
    let answer = engine.create_pool(request).await?;
    Ok(made(answer.changed, answer))
}

/// Shows a pool.
#[utoipa::path(get, path = "/pools/{pool}", tag = "pools", operation_id = "pool_show",
    params(("pool" = String, Path, description = "Name or id.")),
    responses((status = 200, body = Pool, description = "The pool."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(engine: OnEngine, InPath(pool): InPath<String>) -> Answered<Json<Pool>> {
    Ok(Json(engine.pool(&pool)?))
}

/// Changes what can be changed of a pool.
#[utoipa::path(patch, path = "/pools/{pool}", tag = "pools", operation_id = "pool_set", request_body = SetPool,
    params(("pool" = String, Path, description = "Name.")),
    responses((status = 200, body = PoolChanged, description = "The pool as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(
    engine: OnEngine,
    InPath(pool): InPath<String>,
    Body(request): Body<SetPool>,
) -> Answered<Json<PoolChanged>> {
    Ok(Json(engine.set_pool(pool, request).await?))
}

/// Destroys a pool with everything in it.
#[utoipa::path(delete, path = "/pools/{pool}", tag = "pools", operation_id = "pool_destroy",
    params(("pool" = String, Path, description = "Name."), Confirm),
    responses((status = 200, body = Changed, description = "Destroyed, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn destroy(
    engine: OnEngine,
    InPath(pool): InPath<String>,
    InQuery(query): InQuery<Confirm>,
) -> Answered<Json<Changed>> {
    Ok(Json(engine.destroy_pool(pool, query.confirm).await?))
}

/// Adds disks to a pool.
#[utoipa::path(post, path = "/pools/{pool}/disks", tag = "pools", operation_id = "pool_add", request_body = AddDisks,
    params(("pool" = String, Path, description = "Name.")),
    responses((status = 200, body = PoolChanged, description = "The pool as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn add_disks(
    engine: OnEngine,
    by: By,
    InPath(pool): InPath<String>,
    Body(request): Body<AddDisks>,
) -> Answered<Json<PoolChanged>> {
    may_give_up(&by, request.force, format!("pool {pool}"), "force")?;
    may_name(&by, &engine, &request.disks.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    Ok(Json(engine.add_disks(pool, request).await?))
}

/// Takes a pool out of service, so that another machine may import it.
#[utoipa::path(post, path = "/pools/{pool}/export", tag = "pools", operation_id = "pool_export",
    params(("pool" = String, Path, description = "Name.")),
    responses((status = 200, body = Changed, description = "Exported, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn export(engine: OnEngine, InPath(pool): InPath<String>) -> Answered<Json<Changed>> {
    Ok(Json(engine.export_pool(pool).await?))
}

/// Looks for pools on disks and brings them in, and disks of pools that are out of service back.
#[utoipa::path(post, path = "/import", tag = "pools", operation_id = "pool_import", request_body = ImportPools,
    responses((status = 200, body = PoolsImported, description = "What was found."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn import(engine: OnEngine, Body(request): Body<ImportPools>) -> Answered<Json<PoolsImported>> {
    Ok(Json(engine.import_pools(request).await?))
}

/// Looks for what slabs tell of a pool whose metadata is lost, and writes new metadata where that is asked for.
#[utoipa::path(post, path = "/salvage", tag = "pools", operation_id = "pool_salvage", request_body = SalvagePool,
    responses((status = 200, body = Salvaged, description = "What was found."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn salvage(engine: OnEngine, Body(request): Body<SalvagePool>) -> Answered<Json<Salvaged>> {
    Ok(Json(engine.salvage_pool(request).await?))
}
