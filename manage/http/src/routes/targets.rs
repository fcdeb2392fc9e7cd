//! iSCSI targets, who may log in to them, and by which addresses.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{
    AddPortal, AllowInitiator, Changed, CreateTarget, ErrorBody, SetPortal, SetTarget, Target, TargetChanged,
};

use super::{By, Confirm, OnEngine, made};
use crate::reach::may_give_up;
use crate::refusal::{Answered, Body, InPath, InQuery};

/// Lists all targets with their LUNs.
#[utoipa::path(get, path = "/targets", tag = "targets", operation_id = "target_list",
    responses((status = 200, body = [Target], description = "All targets."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn list(engine: OnEngine) -> Json<Vec<Target>> {
    Json(engine.targets())
}

/// Makes a target.
#[utoipa::path(post, path = "/targets", tag = "targets", operation_id = "target_create", request_body = CreateTarget,
    responses((status = 201, body = TargetChanged, description = "Made."),
        (status = 200, body = TargetChanged, description = "It already existed, with these parameters."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn create(
    engine: OnEngine,
    by: By,
    Body(request): Body<CreateTarget>,
) -> Answered<(StatusCode, Json<TargetChanged>)> {
    may_give_up(&by, request.open, format!("target {}", request.name), "opening it to any initiator")?;
    let answer = engine.create_target(request).await?;
    Ok(made(answer.changed, answer))
}

/// Shows a target, with how initiators connect to it.
#[utoipa::path(get, path = "/targets/{target}", tag = "targets", operation_id = "target_show",
    params(("target" = String, Path, description = "Name of the target.")),
    responses((status = 200, body = Target, description = "The target."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(engine: OnEngine, InPath(target): InPath<String>) -> Answered<Json<Target>> {
    Ok(Json(engine.target(&target)?))
}

/// Changes a target in use.
#[utoipa::path(patch, path = "/targets/{target}", tag = "targets", operation_id = "target_set", request_body = SetTarget,
    params(("target" = String, Path, description = "Name of the target.")),
    responses((status = 200, body = TargetChanged, description = "The target as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(
    engine: OnEngine,
    by: By,
    InPath(target): InPath<String>,
    Body(request): Body<SetTarget>,
) -> Answered<Json<TargetChanged>> {
    may_give_up(&by, request.open == Some(true), format!("target {target}"), "opening it to any initiator")?;
    Ok(Json(engine.set_target(target, request).await?))
}

/// Destroys a target. Its initiators are logged out; what its LUNs stood for stays.
///
/// Where initiators are logged in, or reservations would be lost, it has to be confirmed.
#[utoipa::path(delete, path = "/targets/{target}", tag = "targets", operation_id = "target_destroy",
    params(("target" = String, Path, description = "Name of the target."), Confirm),
    responses((status = 200, body = Changed, description = "Destroyed, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn destroy(
    engine: OnEngine,
    InPath(target): InPath<String>,
    InQuery(query): InQuery<Confirm>,
) -> Answered<Json<Changed>> {
    Ok(Json(engine.destroy_target(target, query.confirm).await?))
}

/// Lets an initiator log in, by its name alone or with an account.
#[utoipa::path(post, path = "/targets/{target}/initiators", tag = "targets", operation_id = "initiator_allow",
    request_body = AllowInitiator, params(("target" = String, Path, description = "Name of the target.")),
    responses((status = 200, body = TargetChanged, description = "The target as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn allow(
    engine: OnEngine,
    InPath(target): InPath<String>,
    Body(request): Body<AllowInitiator>,
) -> Answered<Json<TargetChanged>> {
    Ok(Json(engine.allow_initiator(target, request).await?))
}

/// Lets an initiator log in no more, and ends its sessions.
#[utoipa::path(delete, path = "/targets/{target}/initiators/{iqn}", tag = "targets", operation_id = "initiator_deny",
    params(("target" = String, Path, description = "Name of the target."), ("iqn" = String, Path, description = "iSCSI name of the initiator.")),
    responses((status = 200, body = TargetChanged, description = "The target as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn deny(
    engine: OnEngine,
    InPath((target, iqn)): InPath<(String, String)>,
) -> Answered<Json<TargetChanged>> {
    Ok(Json(engine.deny_initiator(target, iqn).await?))
}

/// Adds an address by which a target is reached.
#[utoipa::path(post, path = "/targets/{target}/portals", tag = "targets", operation_id = "portal_add",
    request_body = AddPortal, params(("target" = String, Path, description = "Name of the target.")),
    responses((status = 200, body = TargetChanged, description = "The target as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn add_portal(
    engine: OnEngine,
    InPath(target): InPath<String>,
    Body(request): Body<AddPortal>,
) -> Answered<Json<TargetChanged>> {
    Ok(Json(engine.add_portal(target, request).await?))
}

/// Changes the group of a portal, or what initiators find at all portals of its group.
#[utoipa::path(patch, path = "/targets/{target}/portals/{address}", tag = "targets", operation_id = "portal_set",
    request_body = SetPortal,
    params(("target" = String, Path, description = "Name of the target."), ("address" = String, Path, description = "`HOST:PORT`.")),
    responses((status = 200, body = TargetChanged, description = "The target as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set_portal(
    engine: OnEngine,
    InPath((target, address)): InPath<(String, String)>,
    Body(request): Body<SetPortal>,
) -> Answered<Json<TargetChanged>> {
    Ok(Json(engine.set_portal(target, address, request).await?))
}

/// Removes an address by which a target is reached, and ends the sessions over it.
#[utoipa::path(delete, path = "/targets/{target}/portals/{address}", tag = "targets", operation_id = "portal_remove",
    params(("target" = String, Path, description = "Name of the target."), ("address" = String, Path, description = "`HOST:PORT`.")),
    responses((status = 200, body = TargetChanged, description = "The target as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn remove_portal(
    engine: OnEngine,
    InPath((target, address)): InPath<(String, String)>,
) -> Answered<Json<TargetChanged>> {
    Ok(Json(engine.remove_portal(target, address).await?))
}
