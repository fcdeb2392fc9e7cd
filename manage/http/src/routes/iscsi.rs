//! Sessions of iSCSI initiators, and who may ask for targets.

use axum::Json;
use holdfast_api::{Changed, ChapAccount, ErrorBody, IscsiDiscovery, IscsiDiscoveryChanged, IscsiSession};

use super::OnEngine;
use crate::refusal::{Answered, Body, InPath};

/// Lists the sessions of initiators, the longest first.
#[utoipa::path(get, path = "/iscsi/sessions", tag = "targets", operation_id = "iscsi_session_list",
    responses((status = 200, body = [IscsiSession], description = "All sessions."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn sessions(engine: OnEngine) -> Json<Vec<IscsiSession>> {
    Json(engine.iscsi_sessions())
}

/// Ends a session. Its initiator may log in again.
#[utoipa::path(delete, path = "/iscsi/sessions/{id}", tag = "targets", operation_id = "iscsi_session_drop",
    params(("id" = u16, Path, description = "Number of the session.")),
    responses((status = 200, body = Changed, description = "Ended, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn drop_session(engine: OnEngine, InPath(id): InPath<u16>) -> Answered<Json<Changed>> {
    Ok(Json(engine.drop_session(id).await?))
}

/// Shows whether initiators need an account to ask which targets there are.
#[utoipa::path(get, path = "/iscsi/discovery", tag = "targets", operation_id = "iscsi_discovery_show",
    responses((status = 200, body = IscsiDiscovery, description = "Who may ask."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn discovery(engine: OnEngine) -> Json<IscsiDiscovery> {
    Json(engine.discovery())
}

/// Has initiators prove who they are before they see which targets there are.
#[utoipa::path(put, path = "/iscsi/discovery", tag = "targets", operation_id = "iscsi_discovery_set", request_body = ChapAccount,
    responses((status = 200, body = IscsiDiscoveryChanged, description = "As it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set_discovery(
    engine: OnEngine,
    Body(account): Body<ChapAccount>,
) -> Answered<Json<IscsiDiscoveryChanged>> {
    Ok(Json(engine.set_discovery(Some(account)).await?))
}

/// Has initiators prove nothing before they see which targets there are.
#[utoipa::path(delete, path = "/iscsi/discovery", tag = "targets", operation_id = "iscsi_discovery_clear",
    responses((status = 200, body = IscsiDiscoveryChanged, description = "As it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn clear_discovery(engine: OnEngine) -> Answered<Json<IscsiDiscoveryChanged>> {
    Ok(Json(engine.set_discovery(None).await?))
}
