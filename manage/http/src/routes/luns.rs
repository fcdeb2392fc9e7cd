//! LUNs of iSCSI targets, and their reservations.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{AddLun, Changed, ErrorBody, GrowLun, Lun, LunChanged, Reservation, SetLun};

use super::{Confirm, OnEngine, made};
use crate::refusal::{Answered, Body, InPath, InQuery};

/// Adds a LUN to a target.
#[utoipa::path(post, path = "/targets/{target}/luns", tag = "targets", operation_id = "lun_add", request_body = AddLun,
    params(("target" = String, Path, description = "Name of the target.")),
    responses((status = 201, body = LunChanged, description = "Added."),
        (status = 200, body = LunChanged, description = "It was there already, with these parameters."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn add(
    engine: OnEngine,
    InPath(target): InPath<String>,
    Body(request): Body<AddLun>,
) -> Answered<(StatusCode, Json<LunChanged>)> {
    let answer = engine.add_lun(target, request).await?;
    Ok(made(answer.changed, answer))
}

/// Shows a LUN.
#[utoipa::path(get, path = "/targets/{target}/luns/{lun}", tag = "targets", operation_id = "lun_show",
    params(("target" = String, Path, description = "Name of the target."), ("lun" = u16, Path, description = "Number of the LUN.")),
    responses((status = 200, body = Lun, description = "The LUN."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(engine: OnEngine, InPath((target, lun)): InPath<(String, u16)>) -> Answered<Json<Lun>> {
    Ok(Json(engine.lun(&target, lun)?))
}

/// Changes a LUN in use.
#[utoipa::path(patch, path = "/targets/{target}/luns/{lun}", tag = "targets", operation_id = "lun_set", request_body = SetLun,
    params(("target" = String, Path, description = "Name of the target."), ("lun" = u16, Path, description = "Number of the LUN.")),
    responses((status = 200, body = LunChanged, description = "The LUN as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(
    engine: OnEngine,
    InPath((target, lun)): InPath<(String, u16)>,
    Body(request): Body<SetLun>,
) -> Answered<Json<LunChanged>> {
    Ok(Json(engine.set_lun(target, lun, request).await?))
}

/// Makes a LUN larger: its space or file. Its initiators are told.
#[utoipa::path(post, path = "/targets/{target}/luns/{lun}/grow", tag = "targets", operation_id = "lun_grow", request_body = GrowLun,
    params(("target" = String, Path, description = "Name of the target."), ("lun" = u16, Path, description = "Number of the LUN.")),
    responses((status = 200, body = LunChanged, description = "The LUN as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn grow(
    engine: OnEngine,
    InPath((target, lun)): InPath<(String, u16)>,
    Body(request): Body<GrowLun>,
) -> Answered<Json<LunChanged>> {
    Ok(Json(engine.grow_lun(target, lun, request).await?))
}

/// Removes a LUN from a target. What it stands for stays.
///
/// Where initiators are logged in to the target, or reservations would be lost, it has to be confirmed.
#[utoipa::path(delete, path = "/targets/{target}/luns/{lun}", tag = "targets", operation_id = "lun_remove",
    params(("target" = String, Path, description = "Name of the target."), ("lun" = u16, Path, description = "Number of the LUN."), Confirm),
    responses((status = 200, body = Changed, description = "Removed, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn remove(
    engine: OnEngine,
    InPath((target, lun)): InPath<(String, u16)>,
    InQuery(query): InQuery<Confirm>,
) -> Answered<Json<Changed>> {
    Ok(Json(engine.remove_lun(target, lun, query.confirm).await?))
}

/// Shows who reserved a LUN, and who is registered for reservations.
#[utoipa::path(get, path = "/targets/{target}/luns/{lun}/reservation", tag = "targets", operation_id = "reservation_show",
    params(("target" = String, Path, description = "Name of the target."), ("lun" = u16, Path, description = "Number of the LUN.")),
    responses((status = 200, body = Reservation, description = "Its reservation."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn reservation(
    engine: OnEngine,
    InPath((target, lun)): InPath<(String, u16)>,
) -> Answered<Json<Reservation>> {
    Ok(Json(engine.reservation(&target, lun)?))
}

/// Ends all reservations and registrations of a LUN.
#[utoipa::path(delete, path = "/targets/{target}/luns/{lun}/reservation", tag = "targets", operation_id = "reservation_clear",
    params(("target" = String, Path, description = "Name of the target."), ("lun" = u16, Path, description = "Number of the LUN."), Confirm),
    responses((status = 200, body = Changed, description = "Cleared, or there was none."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn clear_reservation(
    engine: OnEngine,
    InPath((target, lun)): InPath<(String, u16)>,
    InQuery(query): InQuery<Confirm>,
) -> Answered<Json<Changed>> {
    Ok(Json(engine.clear_reservation(target, lun, query.confirm).await?))
}
