//! Logins: the first one by the setup link, and all others.
//!
//! Invariant: the cookie is for this host, over TLS, out of reach of scripts and of other sites.

use axum::Json;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderName, StatusCode};
use axum::response::IntoResponse;
use holdfast_access::{Denied, LoggedIn};
use holdfast_api::{
    AuditChange, ChangePassword, Changed, Code, ErrorBody, Login, Session, Setup, SetupState, Via, word,
};
use holdfast_model::{ObjectKind, ObjectRef};
use holdfast_store::AuditShare;
use serde_json::json;

use super::{By, From, OnAccess};
use crate::api::Api;
use crate::audit;
use crate::guard::COOKIE_NAME;
use crate::middleware::Id;
use crate::refusal::{Answered, Body, Later};

fn cookie(secret: &str, seconds: u64) -> [(HeaderName, String); 1] {
    [(SET_COOKIE, format!("{COOKIE_NAME}={secret}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict"))]
}

/// What a login is written down as.
struct Attempt {
    operation: &'static str,
    account: String,
    via: Via,
    from: From,
    id: Id,
}

impl Attempt {
    /// Writes down how it ended; one that was not looked at is none.
    async fn ended<T>(self, api: &Api, outcome: Result<T, &Denied>) {
        let status = match outcome {
            Ok(_) => 201,
            Err(denied) if denied.retry_after.is_some() || denied.error.code == Code::Conflict => return,
            Err(denied) => denied.error.code.status(),
        };
        let share = if self.via == Via::Setup && status == 201 { AuditShare::Changes } else { AuditShare::Attempts };
        let change = AuditChange {
            object: ObjectRef::named(ObjectKind::Account, &self.account),
            account: self.account,
            role: None,
            via: Some(self.via),
            from: self.from.to_string(),
            operation: self.operation.into(),
            method: "POST".into(),
            path: format!("{}/{}", holdfast_api::BASE_PATH, if self.via == Via::Setup { "setup" } else { "session" }),
            before: None,
            after: (status == 201).then(|| json!({ "via": word(&self.via) })),
            status,
            request_id: self.id.0,
        };
        audit::write(api, change, share).await;
    }
}

fn logged_in(status: StatusCode, done: LoggedIn) -> impl IntoResponse {
    (status, cookie(&done.secret, done.seconds), Json(done.session))
}

/// Shows whether the first administrator is still to be made.
#[utoipa::path(get, path = "/setup", tag = "access", operation_id = "setup_show",
    responses((status = 200, body = SetupState, description = "Whether it is."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn setup_state(access: OnAccess) -> Json<SetupState> {
    Json(SetupState { needed: access.needs_setup() })
}

/// Makes the first administrator, by the token of the link that the daemon printed, and logs it in.
#[utoipa::path(post, path = "/setup", tag = "access", operation_id = "setup", request_body = Setup,
    responses((status = 201, body = Session, description = "Made and logged in; the cookie comes with it.", headers(("set-cookie" = String, description = "The session."))),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set_up(
    State(api): State<Api>,
    from: From,
    id: Id,
    Body(request): Body<Setup>,
) -> Result<impl IntoResponse + use<>, Later> {
    let address = from.address();
    let attempt = Attempt { operation: "setup", account: request.name.clone(), via: Via::Setup, from, id };
    let outcome = api.access.set_up(request, address).await;
    attempt.ended(&api, outcome.as_ref()).await;
    Ok(logged_in(StatusCode::CREATED, outcome?))
}

/// Logs in by name and password.
#[utoipa::path(post, path = "/session", tag = "access", operation_id = "session_create", request_body = Login,
    responses((status = 201, body = Session, description = "Logged in; the cookie comes with it.", headers(("set-cookie" = String, description = "The session."))),
        (status = 429, body = ErrorBody, description = "Too many tries.", headers(("retry-after" = u64, description = "Seconds to wait."))),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn log_in(
    State(api): State<Api>,
    from: From,
    id: Id,
    Body(request): Body<Login>,
) -> Result<impl IntoResponse + use<>, Later> {
    let address = from.address();
    let attempt = Attempt { operation: "session_create", account: request.name.clone(), via: Via::Session, from, id };
    let outcome = api.access.login(request, address).await;
    attempt.ended(&api, outcome.as_ref()).await;
    Ok(logged_in(StatusCode::CREATED, outcome?))
}

/// Shows who asks, and what they may do.
#[utoipa::path(get, path = "/session", tag = "access", operation_id = "session_show",
    responses((status = 200, body = Session, description = "Who asks."),
        (status = "default", body = ErrorBody, description = "Nobody is logged in.")))]
pub(crate) async fn show(access: OnAccess, by: By) -> Json<Session> {
    Json(access.show_session(&by))
}

/// Logs out.
#[utoipa::path(delete, path = "/session", tag = "access", operation_id = "session_delete",
    responses((status = 200, body = Changed, description = "Logged out, or there was no session."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn log_out(access: OnAccess, by: By) -> Answered<impl IntoResponse + use<>> {
    let changed = access.logout(&by).await?;
    let message = if changed { "logged out" } else { "there was no session" }.into();
    Ok((cookie("", 0), Json(Changed { changed, message })))
}

/// Changes one's own password. All other sessions of the account end.
#[utoipa::path(post, path = "/session/password", tag = "access", operation_id = "session_password", request_body = ChangePassword,
    responses((status = 200, body = Changed, description = "Changed."),
        (status = 429, body = ErrorBody, description = "Too many tries.", headers(("retry-after" = u64, description = "Seconds to wait."))),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn change_password(
    access: OnAccess,
    by: By,
    from: From,
    Body(request): Body<ChangePassword>,
) -> Result<Json<Changed>, Later> {
    access.change_password(&by, request, from.address()).await?;
    Ok(Json(Changed { changed: true, message: format!("account {} has a new password", by.account) }))
}
