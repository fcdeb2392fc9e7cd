//! One file a kind of object. A handler takes the request apart and asks the engine; it decides nothing.

pub(crate) mod accounts;
pub(crate) mod acls;
pub(crate) mod audit;
pub(crate) mod disks;
pub(crate) mod events;
pub(crate) mod exports;
pub(crate) mod history;
pub(crate) mod integrity;
pub(crate) mod iscsi;
pub(crate) mod jobs;
pub(crate) mod journals;
pub(crate) mod live;
pub(crate) mod luns;
pub(crate) mod notifications;
pub(crate) mod pools;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod snapshots;
pub(crate) mod spaces;
pub(crate) mod status;
pub(crate) mod targets;
pub(crate) mod tokens;
pub(crate) mod volumes;

use std::pin::Pin;
use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use holdfast_access::{Access, Identity};
use holdfast_engine::Engine;

use crate::api::{Api, Origin};

/// What handlers are handed.
pub(crate) type OnEngine = axum::extract::State<Arc<Engine>>;

/// What handlers of accounts, sessions and tokens are handed.
pub(crate) type OnAccess = axum::extract::State<Arc<Access>>;
/// Who sends the request, as the guard settled it.
pub(crate) type By = axum::Extension<Identity>;
/// Where it comes from.
pub(crate) type From = axum::Extension<Origin>;

/// Ends what is endless.
pub(crate) type Over = Pin<Box<dyn Future<Output = ()> + Send>>;

/// When a stream to `by` ends: the daemon stops, or the session or token with which it was asked for is no more.
pub(crate) fn over(api: &Api, by: &Identity) -> Over {
    let (stopped, access, by) = (api.engine.stopped(), api.access.clone(), by.clone());
    Box::pin(async move {
        tokio::select! {
            () = stopped => {}
            () = access.ended(&by) => {}
        }
    })
}

/// A changed object: 201 if it was made, 200 if it was there already.
pub(crate) fn made<T>(changed: bool, answer: T) -> (StatusCode, Json<T>) {
    (if changed { StatusCode::CREATED } else { StatusCode::OK }, Json(answer))
}

/// Whether programs may lose what they use.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Force {
    /// Also while programs use it: what they have open fails.
    #[serde(default)]
    pub(crate) force: bool,
}

/// Whether a destruction is meant.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Confirm {
    /// Must be true: what is destroyed is lost.
    #[serde(default)]
    pub(crate) confirm: bool,
}
