//! Exports.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{Changed, Connection, CreateExport, ErrorBody, Export, ExportChanged, SetExport};

use serde::Deserialize;
use utoipa::IntoParams;

use super::{OnEngine, made};
use crate::refusal::{Answered, Body, InPath, InQuery};

/// Lists all exports.
#[utoipa::path(get, path = "/exports", tag = "exports", operation_id = "nbd_list",
    responses((status = 200, body = [Export], description = "All exports."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn list(engine: OnEngine) -> Json<Vec<Export>> {
    Json(engine.exports())
}

/// Exports a space.
#[utoipa::path(post, path = "/exports", tag = "exports", operation_id = "nbd_export", request_body = CreateExport,
    responses((status = 201, body = ExportChanged, description = "Made."),
        (status = 200, body = ExportChanged, description = "It already existed, with these parameters."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn create(
    engine: OnEngine,
    Body(request): Body<CreateExport>,
) -> Answered<(StatusCode, Json<ExportChanged>)> {
    let answer = engine.create_export(request).await?;
    Ok(made(answer.changed, answer))
}

/// Shows an export.
#[utoipa::path(get, path = "/exports/{name}", tag = "exports", operation_id = "nbd_show",
    params(("name" = String, Path, description = "Name of the export.")),
    responses((status = 200, body = Export, description = "The export."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(engine: OnEngine, InPath(name): InPath<String>) -> Answered<Json<Export>> {
    Ok(Json(engine.export(&name)?))
}

/// Changes an export in use.
#[utoipa::path(patch, path = "/exports/{name}", tag = "exports", operation_id = "nbd_set", request_body = SetExport,
    params(("name" = String, Path, description = "Name of the export.")),
    responses((status = 200, body = ExportChanged, description = "The export as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(
    engine: OnEngine,
    InPath(name): InPath<String>,
    Body(request): Body<SetExport>,
) -> Answered<Json<ExportChanged>> {
    Ok(Json(engine.set_export(name, request).await?))
}

/// Lists the clients that are connected to an export, the longest first.
#[utoipa::path(get, path = "/exports/{name}/connections", tag = "exports", operation_id = "nbd_connections",
    params(("name" = String, Path, description = "Name of the export.")),
    responses((status = 200, body = [Connection], description = "Its clients."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn connections(engine: OnEngine, InPath(name): InPath<String>) -> Answered<Json<Vec<Connection>>> {
    Ok(Json(engine.connections(&name)?))
}

/// Which of several exports that have one name on different pools.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfSpace {
    /// Only the export of this space, `POOL/SPACE`, which may wait for a name that another export has.
    space: Option<String>,
}

/// Withdraws an export. Requests in flight are answered, then its clients are disconnected.
#[utoipa::path(delete, path = "/exports/{name}", tag = "exports", operation_id = "nbd_unexport",
    params(("name" = String, Path, description = "Name of the export."), OfSpace),
    responses((status = 200, body = Changed, description = "Withdrawn, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn remove(
    engine: OnEngine,
    InPath(name): InPath<String>,
    InQuery(of): InQuery<OfSpace>,
) -> Answered<Json<Changed>> {
    Ok(Json(engine.remove_export(name, of.space).await?))
}
