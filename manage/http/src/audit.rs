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
use holdfast_access::Identity;
use holdfast_api::{ApiError, AuditChange, BASE_PATH, Code, Severity};
use holdfast_model::{ObjectKind, ObjectRef};
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

/// The object that a path of the API names: its kind and its name, which is empty for what is to be made. What is none
/// of these is a part of the server.
fn named(path: &str) -> ObjectRef {
    let below = path.strip_prefix(BASE_PATH).unwrap_or(path).trim_start_matches('/');
    let parts: Vec<String> =
        below.split('/').map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (kind, rest) = match parts[..] {
        ["spaces", pool, space, ..] => return ObjectRef::named(ObjectKind::Space, format!("{pool}/{space}")),
        ["volumes", pool, volume, ..] => return ObjectRef::named(ObjectKind::Volume, format!("{pool}/{volume}")),
        ["pools", ref rest @ ..] => (ObjectKind::Pool, rest),
        ["spaces", ..] => (ObjectKind::Space, &[][..]),
        ["volumes", ..] => (ObjectKind::Volume, &[][..]),
        ["disks", ref rest @ ..] => (ObjectKind::Disk, rest),
        ["targets", target, "luns", lun, ..] => return ObjectRef::named(ObjectKind::Lun, format!("{target}/{lun}")),
        ["targets", ref rest @ ..] => (ObjectKind::Target, rest),
        ["exports", ref rest @ ..] => (ObjectKind::Export, rest),
        ["jobs", ref rest @ ..] => (ObjectKind::Job, rest),
        ["accounts", ref rest @ ..] => (ObjectKind::Account, rest),
        ["tokens", ref rest @ ..] => (ObjectKind::Token, rest),
        ["session", ..] => (ObjectKind::Session, &[][..]),
        ["notifications", "channels", ref rest @ ..] => (ObjectKind::Channel, rest),
        ["notifications", "rules", ref rest @ ..] => (ObjectKind::Rule, rest),
        _ => return ObjectRef::server(parts.join("/")),
    };
    ObjectRef::named(kind, rest.first().copied().unwrap_or_default())
}

/// The object at a path with the id and the name that it is shown with, where it is.
fn known(named: ObjectRef, shown: Option<&Value>) -> ObjectRef {
    if named.kind == ObjectKind::Server {
        return named;
    }
    let text = |key: &str| match shown?.get(key)? {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let name = match named.kind {
        ObjectKind::Disk => text("serial").or_else(|| text("path")),
        _ => text("name"),
    };
    let id = text("id");
    let name =
        name.or_else(|| Some(named.name).filter(|name| !name.is_empty())).or_else(|| id.clone()).unwrap_or_default();
    ObjectRef { kind: named.kind, id: id.unwrap_or_else(|| name.clone()), name }
}

/// The object as it is shown now; none where it is not there.
async fn look(guard: &Guard, path: &str, identity: &Identity) -> Option<Value> {
    let request =
        Request::builder().uri(path.parse::<Uri>().ok()?).extension(identity.clone()).body(Body::empty()).ok()?;
    let response = guard.inner.clone().oneshot(request).await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    serde_json::from_slice(&to_bytes(response.into_body(), ANSWER_BYTES).await.ok()?).ok()
}

/// The object in the answer to a request that made one.
fn made(answer: &Value) -> Option<Value> {
    let is_object =
        |member: &&Value| ["name", "path", "id"].iter().any(|key| member.get(key).is_some_and(Value::is_string));
    answer.as_object()?.values().find(is_object).cloned()
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
pub(crate) async fn write(api: &Api, change: AuditChange, share: AuditShare) {
    let told = change.clone();
    let Err(error) = api.access.record(change, share).await else {
        api.unaudited.store(false, Ordering::Relaxed);
        return;
    };
    let AuditChange { account, from, operation, object, status, .. } = told;
    tracing::error!(account, from, operation, %object, status, "a change could not be recorded in the audit log: {error}");
    if !api.unaudited.swap(true, Ordering::Relaxed) {
        let cause = format!("changes and logins cannot be recorded: {}", error.message);
        let next = "make room on the file system of the state folder; until then they are in the daemon's log";
        api.engine.events().emit(Severity::Error, &ObjectRef::server("audit log"), &cause, next);
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
        let mut after = None;
        if response.status().is_success() {
            after = match &shown_at {
                Some(path) => look(&guard, path, &identity).await,
                None => answer,
            };
            if let Some(new) = after.as_ref().filter(|_| shown_at.is_none() && method == Method::POST).and_then(made) {
                after = Some(new);
            }
        }
        if response.status().is_success() && rule.area == "access" {
            guard.api.engine.accounts_changed();
        }
        if response.status().is_success() && rule.area == "notifications" {
            guard.api.engine.notifications_changed();
        }
        let share = match (response.status().is_success(), rule.need) {
            (true, Need::Role(_)) => AuditShare::Changes,
            (true, _) => AuditShare::Own,
            (false, _) => AuditShare::Attempts,
        };
        let object = known(named(shown_at.as_deref().unwrap_or(&path)), after.as_ref().or(before.as_ref()));
        let change = AuditChange {
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
        };
        write(&guard.api, change, share).await;
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
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_named_by_their_paths_and_known_by_their_ids() {
        let pattern = "/api/v1/spaces/{pool}/{space}";
        assert_eq!(object_path("/api/v1/spaces/tank/vm/grow", pattern), "/api/v1/spaces/tank/vm");
        let text = |path: &str| named(path).to_string();
        assert_eq!(text("/api/v1/spaces/tank/vm"), "space tank/vm");
        assert_eq!(text("/api/v1/disks/%2Fdev%2Fsda"), "disk /dev/sda");
        assert_eq!(text("/api/v1/notifications/rules/night"), "rule night");
        assert_eq!([text("/api/v1/targets/vm/portals"), text("/api/v1/targets/vm/luns/3")], ["target vm", "lun vm/3"]);
        assert_eq!([text("/api/v1/pools"), text("/api/v1/settings")], ["pool", "settings"]);
        let answer = json!({ "changed": true, "disk": { "id": "7", "path": "/dev/sda", "serial": "S4NX" } });
        let disk = known(named("/api/v1/disks"), made(&answer).as_ref());
        assert_eq!(disk, ObjectRef::new(ObjectKind::Disk, "7", "S4NX"));
        assert_eq!(
            known(named("/api/v1/jobs/7/pause"), Some(&json!({ "id": 7 }))),
            ObjectRef::named(ObjectKind::Job, "7")
        );
        assert_eq!(known(named("/api/v1/exports/vm"), None), ObjectRef::named(ObjectKind::Export, "vm"));
    }
}
