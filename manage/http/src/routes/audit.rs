//! The audit log, and the copy of what management keeps.

use std::io;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;
use futures_util::stream::unfold;
use holdfast_api::{AuditChange, AuditRecord, BASE_PATH, ErrorBody};
use holdfast_model::ObjectRef;
use holdfast_store::{AuditShare, AuditWhich};
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use utoipa::IntoParams;

use super::{By, From, OnAccess};
use crate::api::Api;
use crate::audit;
use crate::middleware::Id;
use crate::refusal::{Answered, InQuery};

/// Records that are given at once where nobody says how many, and at most.
const RECORDS: u32 = 200;
const MOST_RECORDS: u32 = 1000;
const CHUNK_BYTES: usize = 64 << 10;

/// Which records.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Only records with higher ids, those that follow it first; without it the newest.
    after: Option<u64>,
    /// At most so many, 1,000 at most; 200 if left out.
    limit: Option<u32>,
    /// Only changes by this account.
    account: Option<String>,
    /// Only changes of objects of this kind, as in `pool`.
    kind: Option<String>,
    /// Only changes of the object with this name or id, as in `tank` or `tank/vm`.
    object: Option<String>,
}

/// Lists who changed what, oldest first.
#[utoipa::path(get, path = "/audit", tag = "access", operation_id = "audit_list", params(Which),
    responses((status = 200, body = [AuditRecord], description = "The records."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn list(access: OnAccess, InQuery(which): InQuery<Which>) -> Answered<Json<Vec<AuditRecord>>> {
    let which = AuditWhich {
        after: which.after.map(|after| i64::try_from(after).unwrap_or(i64::MAX)),
        limit: which.limit.unwrap_or(RECORDS).min(MOST_RECORDS),
        account: which.account,
        kind: which.kind,
        object: which.object,
    };
    Ok(Json(access.audit(which).await?))
}

/// Gives a copy of the configuration store: one consistent state, as a SQLite file, without sessions.
#[utoipa::path(get, path = "/backup", tag = "access", operation_id = "backup",
    responses((status = 200, body = String, content_type = "application/octet-stream", description = "The file."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn backup(State(api): State<Api>, by: By, from: From, id: Id) -> Answered<impl IntoResponse + use<>> {
    let file = File::from_std(api.access.backup().await?);
    // It changes nothing, but hands out what guards everything.
    let change = AuditChange {
        account: by.account.clone(),
        role: Some(by.role),
        via: Some(by.via),
        from: from.to_string(),
        operation: "backup".into(),
        method: "GET".into(),
        path: format!("{BASE_PATH}/backup"),
        object: ObjectRef::server("backup"),
        before: None,
        after: None,
        status: 200,
        request_id: id.0,
    };
    audit::write(&api, change, AuditShare::Changes).await;
    let chunks = unfold(file, |mut file| async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        match file.read(&mut chunk).await {
            Ok(0) => None,
            Ok(count) => {
                chunk.truncate(count);
                Some((Ok::<_, io::Error>(Bytes::from(chunk)), file))
            }
            Err(error) => Some((Err(error), file)),
        }
    });
    let headers = [
        (CONTENT_TYPE, "application/octet-stream"),
        (CONTENT_DISPOSITION, "attachment; filename=\"holdfast-config.db\""),
    ];
    Ok((headers, Body::from_stream(chunks)))
}
