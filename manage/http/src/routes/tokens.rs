//! Tokens.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{Changed, CreateToken, ErrorBody, Token, TokenCreated};

use super::{By, OnAccess};
use crate::refusal::{Answered, Body, InPath};

/// Lists one's own tokens; administrators see all.
#[utoipa::path(get, path = "/tokens", tag = "access", operation_id = "token_list",
    responses((status = 200, body = [Token], description = "The tokens, without their secrets."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn list(access: OnAccess, by: By) -> Json<Vec<Token>> {
    Json(access.tokens(&by))
}

/// Makes a token for one's own account. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/tokens", tag = "access", operation_id = "token_create", request_body = CreateToken,
    responses((status = 201, body = TokenCreated, description = "Made."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn create(
    access: OnAccess,
    by: By,
    Body(request): Body<CreateToken>,
) -> Answered<(StatusCode, Json<TokenCreated>)> {
    Ok((StatusCode::CREATED, Json(access.create_token(&by, request).await?)))
}

/// Removes a token; what shows it is refused from then on.
#[utoipa::path(delete, path = "/tokens/{id}", tag = "access", operation_id = "token_delete",
    params(("id" = String, Path, description = "Id of the token.")),
    responses((status = 200, body = Changed, description = "Removed, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn remove(access: OnAccess, by: By, InPath(id): InPath<String>) -> Answered<Json<Changed>> {
    Ok(Json(access.delete_token(&by, &id).await?))
}
