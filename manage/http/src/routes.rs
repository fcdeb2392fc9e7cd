//! One file a kind of object. A handler takes the request apart and asks the engine; it decides nothing.

pub(crate) mod disks;
pub(crate) mod events;
pub(crate) mod exports;
pub(crate) mod jobs;
pub(crate) mod pools;
pub(crate) mod spaces;
pub(crate) mod status;

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use holdfast_engine::Engine;

/// What handlers are handed.
pub(crate) type OnEngine = axum::extract::State<Arc<Engine>>;

/// A changed object: 201 if it was made, 200 if it was there already.
pub(crate) fn made<T>(changed: bool, answer: T) -> (StatusCode, Json<T>) {
    (if changed { StatusCode::CREATED } else { StatusCode::OK }, Json(answer))
}

/// Whether a destruction is meant.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Confirm {
    /// Must be true: what is destroyed is lost.
    #[serde(default)]
    pub(crate) confirm: bool,
}
