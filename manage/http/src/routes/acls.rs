//! Permissions of files of volumes.

use axum::Json;
use holdfast_api::{EffectiveAccess, ErrorBody, FileAcl, FileAclChanged, KnownPrincipal, SetFileAcl};
use serde::Deserialize;
use utoipa::IntoParams;

use super::OnEngine;
use crate::refusal::{Answered, Body, InPath, InQuery};

/// Which file it is about.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfFile {
    /// The file, from the volume's root on.
    pub(super) path: String,
}

/// Shows the permissions of a file of a volume: its security descriptor, as text and for people.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/acl", tag = "volumes", operation_id = "volume_acl_show",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), OfFile),
    responses((status = 200, body = FileAcl, description = "The permissions."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(OfFile { path }): InQuery<OfFile>,
) -> Answered<Json<FileAcl>> {
    Ok(Json(engine.file_acl(&format!("{pool}/{volume}"), &path).await?))
}

/// Sets permissions of a file of a volume. A job hands those of a directory on to what is below, if that is asked for.
#[utoipa::path(put, path = "/volumes/{pool}/{volume}/acl", tag = "volumes", operation_id = "volume_acl_set", request_body = SetFileAcl,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = FileAclChanged, description = "The permissions as they are now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<SetFileAcl>,
) -> Answered<Json<FileAclChanged>> {
    Ok(Json(engine.set_file_acl(format!("{pool}/{volume}"), request).await?))
}

/// Whose access to which file it is about.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfUser {
    /// The file, from the volume's root on.
    path: String,
    /// The user, by name as the server knows it, or by number.
    user: String,
}

/// Shows what a user may do with a file of a volume, and why.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/acl/access", tag = "volumes", operation_id = "volume_acl_access",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), OfUser),
    responses((status = 200, body = EffectiveAccess, description = "What the user may do."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn access(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(OfUser { path, user }): InQuery<OfUser>,
) -> Answered<Json<EffectiveAccess>> {
    Ok(Json(engine.file_access(&format!("{pool}/{volume}"), &path, &user).await?))
}

/// Who is looked for.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Named {
    /// The name or number of a user or group; all that the server lists where it is left out.
    name: Option<String>,
}

/// Lists users and groups whom permissions can name; whom a directory service does not list is found by name.
#[utoipa::path(get, path = "/principals", tag = "volumes", operation_id = "principal_list", params(Named),
    responses((status = 200, body = Vec<KnownPrincipal>, description = "Those found."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn principals(engine: OnEngine, InQuery(Named { name }): InQuery<Named>) -> Json<Vec<KnownPrincipal>> {
    Json(engine.principals(name.as_deref()).await)
}
