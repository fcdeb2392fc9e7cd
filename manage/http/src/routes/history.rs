//! What was asked of everything over time.

use axum::Json;
use holdfast_api::{ErrorBody, History, HistoryKind};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{By, OnEngine};
use crate::reach::may_name;
use crate::refusal::{Answered, InQuery};

/// Of what, and how long.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// The kind of object.
    #[param(inline)]
    kind: HistoryKind,
    /// Its name: of a pool or an export, `POOL/SPACE`, `POOL/VOLUME`, or the path or id of a disk; none for the server.
    #[serde(default)]
    name: String,
    /// How far back, up to 30 days.
    #[param(minimum = 1, maximum = 2592000)]
    seconds: u64,
    /// At most so many values, up to 3000; 600 if left out. Neighbours are merged until there are no more.
    #[param(minimum = 1, maximum = 3000)]
    points: Option<u64>,
}

/// Shows what was asked of an object: by the second for an hour, by the minute for 30 days.
#[utoipa::path(get, path = "/history", tag = "status", operation_id = "history", params(Which),
    responses((status = 200, body = History, description = "Rates and latencies."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn history(engine: OnEngine, by: By, InQuery(which): InQuery<Which>) -> Answered<Json<History>> {
    if which.kind == HistoryKind::Disk {
        may_name(&by, &engine, &[&which.name]).await?;
    }
    Ok(Json(engine.history(which.kind, &which.name, which.seconds, which.points).await?))
}
