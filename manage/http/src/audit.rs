//! A change and its record: the object before, the change, the object afterwards.
//!
//! Invariant: once begun, change and record are done to their end, whether or not the client still waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use holdfast_access::{Change, Identity};
use holdfast_api::{ApiError, BASE_PATH, Code, Severity};
use holdfast_store::AuditShare;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tower::ServiceExt;
use tracing::Instrument;

use crate::api::{Api, Origin};
use crate::guard::Guard;
use crate::middleware::request_id;
use crate::permissions::{Need, Rule};
use crate::refusal::Refusal;

/// The largest answer that is looked at.
const ANSWER_BYTES: usize = 16 << 20;

/// The path of the object that a request to `path` changes: as many segments as its pattern has.
fn object_path(path: &str, pattern: &str) -> String {
    path.split('/').take(pattern.split('/').count()).collect::<Vec<_>>().join("/")
}

fn object_name(path: &str) -> String {
    let name = path.strip_prefix(BASE_PATH).unwrap_or(path).trim_start_matches('/');
    percent_decode_str(name).decode_utf8_lossy().into_owned()
}

/// The object as it is shown now; none where it is not there.
async fn look(guard: &Guard, path: &str, identity: &Identity) -> Option<Value> {
    let request = Request::builder().uri(path.parse::<Uri>().ok()?).extension(identity.clone()).body(Body::empty()).ok()?;
    let response = guard.inner.clone().oneshot(request).await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    serde_json::from_slice(&to_bytes(response.into_body(), ANSWER_BYTES).await.ok()?).ok()
}

/// The object in the answer to a request that made one, and its name.
fn made(answer: &Value) -> Option<(String, Value)> {
    answer.as_object()?.values().find_map(|member| {
        let name = ["name", "path", "id"].iter().find_map(|key| member.get(key)?.as_str())?;
        Some((name.to_owned(), member.clone()))
    })
}

async fn collected(response: Response) -> (Response, Option<Value>) {
    let (parts, body) = response.into_parts();
    match to_bytes(body, ANSWER_BYTES).await {
        Ok(bytes) => {
            let answer = serde_json::from_slice(&bytes).ok();
            (Response::from_parts(parts, Body::from(bytes)), answer)
        }
        Err(_) => (Response::from_parts(parts, Body::from(Bytes::new())), None),
    }
}

/// Writes a change down. Where that cannot be, the daemon's log has it, and whoever looks at events is told.
pub(crate) async fn write(api: &Api, change: Change) {
    let told = change.clone();
    let Err(error) = api.access.record(change).await else {
        api.unaudited.store(false, Ordering::Relaxed);
        return;
    };
    let Change { account, from, operation, object, status, .. } = told;
    tracing::error!(account, from, operation, object, status, "a change could not be recorded in the audit log: {error}");
    if !api.unaudited.swap(true, Ordering::Relaxed) {
        let cause = format!("changes and logins cannot be recorded: {}", error.message);
        let next = "make room on the file system of the state folder; until then they are in the daemon's log";
        api.engine.events().emit(Severity::Error, "audit log", &cause, next);
    }
}

/// Runs the change that `rule` describes and writes it down.
pub(crate) async fn run(
    guard: &Arc<Guard>,
    rule: &Rule,
    identity: Identity,
    origin: Origin,
    request: Request,
    next: Next,
) -> Response {
    let (guard, rule) = (guard.clone(), rule.clone());
    let work = async move {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let request_id = request_id(&request);
        let shown_at = rule.shown_by.as_ref().map(|pattern| object_path(&path, pattern));
        let before = match &shown_at {
            Some(path) => look(&guard, path, &identity).await,
            None => None,
        };
        let (response, answer) = collected(next.run(request).await).await;
        let unchanged = answer.as_ref().is_some_and(|answer| answer["changed"] == Value::Bool(false));
        if response.status().is_success() && unchanged {
            return response;
        }
        let mut object = object_name(shown_at.as_deref().unwrap_or(&path));
        let mut after = None;
        if response.status().is_success() {
            after = match &shown_at {
                Some(path) => look(&guard, path, &identity).await,
                None => answer,
            };
            if let Some((name, new)) = after.as_ref().filter(|_| shown_at.is_none()).and_then(made)
                && method == Method::POST
            {
                object = format!("{object}/{name}");
                after = Some(new);
            }
        }
        if response.status().is_success() && rule.area == "access" {
            guard.api.engine.accounts_changed();
        }
        if response.status().is_success() && rule.area == "notifications" {
            guard.api.engine.notifications_changed();
        }
        let change = Change {
            account: identity.account,
            role: Some(identity.role),
            via: Some(identity.via),
            from: origin.to_string(),
            operation: rule.operation,
            method: method.to_string(),
            path,
            object,
            before,
            after,
            status: response.status().as_u16(),
            request_id,
            share: match (response.status().is_success(), rule.need) {
                (true, Need::Role(_)) => AuditShare::Changes,
                (true, _) => AuditShare::Own,
                (false, _) => AuditShare::Attempts,
            },
        };
        write(&guard.api, change).await;
        response
    };
    let task = tokio::spawn(work.in_current_span());
    task.await.unwrap_or_else(|error| {
        let message = format!("the change was aborted: {error}");
        Refusal(ApiError::new(Code::Failed, "daemon", message, "see the daemon's log")).into_response()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_by_their_paths() {
        let pattern = "/api/v1/spaces/{pool}/{space}";
        assert_eq!(object_path("/api/v1/spaces/tank/vm/grow", pattern), "/api/v1/spaces/tank/vm");
        assert_eq!(object_name("/api/v1/disks/%2Fdev%2Fsda"), "disks//dev/sda");
        assert_eq!(made(&serde_json::json!({ "changed": true, "pool": { "name": "tank" } })).unwrap().0, "tank");
    }
}
