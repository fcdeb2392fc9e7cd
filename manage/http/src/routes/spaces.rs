//! Spaces.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{
    Changed, CreateSpace, ErrorBody, GrowSpace, SetSpace, Space, SpaceChanged, SpacePlan, SpaceRow, SpaceVerified,
};

use super::{Confirm, OnEngine, made};
use crate::refusal::{Answered, Body, InPath, InQuery};

/// Lists all spaces.
#[utoipa::path(get, path = "/spaces", tag = "spaces", operation_id = "space_list",
    responses((status = 200, body = [Space], description = "All spaces."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn list(engine: OnEngine) -> Json<Vec<Space>> {
    Json(engine.spaces())
}

/// Makes a space.
#[utoipa::path(post, path = "/spaces", tag = "spaces", operation_id = "space_create", request_body = CreateSpace,
    responses((status = 201, body = SpaceChanged, description = "Made."),
        (status = 200, body = SpaceChanged, description = "It already existed, with these parameters."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn create(
    engine: OnEngine,
    Body(request): Body<CreateSpace>,
) -> Answered<(StatusCode, Json<SpaceChanged>)> {
    let answer = engine.create_space(request).await?;
    Ok(made(answer.changed, answer))
}

/// Shows what a space would be if it were made, and what else it could be. Nothing is made.
#[utoipa::path(post, path = "/spaces/plan", tag = "spaces", operation_id = "space_plan", request_body = CreateSpace,
    responses((status = 200, body = SpacePlan, description = "What would be made, and its alternatives."),
        (status = "default", body = ErrorBody, description = "It could not be made.")))]
pub(crate) async fn plan(engine: OnEngine, Body(request): Body<CreateSpace>) -> Answered<Json<SpacePlan>> {
    Ok(Json(engine.plan_space(&request)?))
}

/// Shows a space.
#[utoipa::path(get, path = "/spaces/{pool}/{space}", tag = "spaces", operation_id = "space_show",
    params(("pool" = String, Path, description = "Name of the pool."), ("space" = String, Path, description = "Name of the space.")),
    responses((status = 200, body = Space, description = "The space."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(engine: OnEngine, InPath((pool, space)): InPath<(String, String)>) -> Answered<Json<Space>> {
    Ok(Json(engine.space(&format!("{pool}/{space}"))?))
}

/// Destroys a space with its data.
#[utoipa::path(delete, path = "/spaces/{pool}/{space}", tag = "spaces", operation_id = "space_destroy",
    params(("pool" = String, Path, description = "Name of the pool."), ("space" = String, Path, description = "Name of the space."), Confirm),
    responses((status = 200, body = Changed, description = "Destroyed, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn destroy(
    engine: OnEngine,
    InPath((pool, space)): InPath<(String, String)>,
    InQuery(query): InQuery<Confirm>,
) -> Answered<Json<Changed>> {
    Ok(Json(engine.destroy_space(format!("{pool}/{space}"), query.confirm).await?))
}

/// Changes what can be changed of a space in use.
#[utoipa::path(patch, path = "/spaces/{pool}/{space}", tag = "spaces", operation_id = "space_set", request_body = SetSpace,
    params(("pool" = String, Path, description = "Name of the pool."), ("space" = String, Path, description = "Name of the space.")),
    responses((status = 200, body = SpaceChanged, description = "The space as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(
    engine: OnEngine,
    InPath((pool, space)): InPath<(String, String)>,
    Body(request): Body<SetSpace>,
) -> Answered<Json<SpaceChanged>> {
    Ok(Json(engine.set_space(format!("{pool}/{space}"), request).await?))
}

/// Makes a space larger. Clients see the new size when they connect anew.
#[utoipa::path(post, path = "/spaces/{pool}/{space}/grow", tag = "spaces", operation_id = "space_grow", request_body = GrowSpace,
    params(("pool" = String, Path, description = "Name of the pool."), ("space" = String, Path, description = "Name of the space.")),
    responses((status = 200, body = SpaceChanged, description = "The space as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn grow(
    engine: OnEngine,
    InPath((pool, space)): InPath<(String, String)>,
    Body(request): Body<GrowSpace>,
) -> Answered<Json<SpaceChanged>> {
    Ok(Json(engine.grow_space(format!("{pool}/{space}"), request).await?))
}

/// Lets clients write to a space that a salvage put together. Clients see that when they connect anew.
#[utoipa::path(post, path = "/spaces/{pool}/{space}/accept", tag = "spaces", operation_id = "space_accept",
    params(("pool" = String, Path, description = "Name of the pool."), ("space" = String, Path, description = "Name of the space.")),
    responses((status = 200, body = SpaceChanged, description = "The space as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn accept(
    engine: OnEngine,
    InPath((pool, space)): InPath<(String, String)>,
) -> Answered<Json<SpaceChanged>> {
    Ok(Json(engine.accept_space(format!("{pool}/{space}")).await?))
}

/// Compares all data of a space with their copies or parity, while it is in use. Answers when that is done; mends
/// nothing.
#[utoipa::path(post, path = "/spaces/{pool}/{space}/verify", tag = "spaces", operation_id = "space_verify",
    params(("pool" = String, Path, description = "Name of the pool."), ("space" = String, Path, description = "Name of the space.")),
    responses((status = 200, body = SpaceVerified, description = "What was found."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn verify(
    engine: OnEngine,
    InPath((pool, space)): InPath<(String, String)>,
) -> Answered<Json<SpaceVerified>> {
    Ok(Json(engine.verify_space(&format!("{pool}/{space}")).await?))
}

/// Shows where every slab of a space lies.
#[utoipa::path(get, path = "/spaces/{pool}/{space}/map", tag = "spaces", operation_id = "space_map",
    params(("pool" = String, Path, description = "Name of the pool."), ("space" = String, Path, description = "Name of the space.")),
    responses((status = 200, body = [SpaceRow], description = "The chunks that take room."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn map(
    engine: OnEngine,
    InPath((pool, space)): InPath<(String, String)>,
) -> Answered<Json<Vec<SpaceRow>>> {
    Ok(Json(engine.space_map(&format!("{pool}/{space}")).await?))
}
