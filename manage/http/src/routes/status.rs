//! Health, metrics and the API's own document.

use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use holdfast_api::{ErrorBody, Status};

use super::OnEngine;

/// Shows the health of every object, and the daemon.
#[utoipa::path(get, path = "/status", tag = "status", operation_id = "status",
    responses((status = 200, body = Status, description = "Everything at a glance."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn status(engine: OnEngine) -> Json<Status> {
    Json(engine.status())
}

/// Shows this document.
#[utoipa::path(get, path = "/openapi.json", tag = "status", operation_id = "openapi",
    responses((status = 200, content_type = "application/json", description = "OpenAPI 3.1."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], crate::document())
}

/// Shows everything countable, for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "status", operation_id = "metrics",
    responses((status = 200, body = String, content_type = "text/plain", description = "Text exposition format 0.0.4."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn metrics(engine: OnEngine) -> impl IntoResponse {
    ([(CONTENT_TYPE, holdfast_engine::METRICS_CONTENT_TYPE)], engine.metrics())
}
