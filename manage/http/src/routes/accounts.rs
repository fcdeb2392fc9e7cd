//! Accounts.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{Account, AccountChanged, Changed, CreateAccount, ErrorBody, SetAccount};

use super::{OnAccess, made};
use crate::refusal::{Answered, Body, InPath};

/// Lists all accounts.
#[utoipa::path(get, path = "/accounts", tag = "access", operation_id = "account_list",
    responses((status = 200, body = [Account], description = "All accounts."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn list(access: OnAccess) -> Json<Vec<Account>> {
    Json(access.accounts())
}

/// Makes an account.
#[utoipa::path(post, path = "/accounts", tag = "access", operation_id = "account_create", request_body = CreateAccount,
    responses((status = 201, body = AccountChanged, description = "Made."),
        (status = 200, body = AccountChanged, description = "It already existed, with this role and password."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn create(
    access: OnAccess,
    Body(request): Body<CreateAccount>,
) -> Answered<(StatusCode, Json<AccountChanged>)> {
    let answer = access.create_account(request).await?;
    Ok(made(answer.changed, answer))
}

/// Shows an account.
#[utoipa::path(get, path = "/accounts/{name}", tag = "access", operation_id = "account_show",
    params(("name" = String, Path, description = "Name of the account.")),
    responses((status = 200, body = Account, description = "The account."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(access: OnAccess, InPath(name): InPath<String>) -> Answered<Json<Account>> {
    Ok(Json(access.account(&name)?))
}

/// Changes password, role, or whether an account counts.
#[utoipa::path(patch, path = "/accounts/{name}", tag = "access", operation_id = "account_set", request_body = SetAccount,
    params(("name" = String, Path, description = "Name of the account.")),
    responses((status = 200, body = AccountChanged, description = "The account as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(
    access: OnAccess,
    InPath(name): InPath<String>,
    Body(request): Body<SetAccount>,
) -> Answered<Json<AccountChanged>> {
    Ok(Json(access.set_account(&name, request).await?))
}

/// Removes an account with its tokens and sessions.
#[utoipa::path(delete, path = "/accounts/{name}", tag = "access", operation_id = "account_delete",
    params(("name" = String, Path, description = "Name of the account.")),
    responses((status = 200, body = Changed, description = "Removed, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn remove(access: OnAccess, InPath(name): InPath<String>) -> Answered<Json<Changed>> {
    Ok(Json(access.delete_account(&name).await?))
}
