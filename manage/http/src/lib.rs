//! The management API over HTTP: on a unix socket, and with TLS on a network, where the console is served as well.
//!
//! ```text
//!   listener.rs    who may connect to the socket     https.rs, certificate.rs, stall.rs, strangers.rs   connections from the network
//!   guard.rs       who asks, and whether they may    permissions.rs   the role that each operation needs
//!   reach.rs       what that role is not enough for
//!   audit.rs       every change and its record       headers.rs       what browsers are told
//!   routes/        one file a kind of object         refusal.rs       errors as bodies
//!   console.rs     the console's files               middleware.rs    request ids, logs, the time limit
//!   document.rs    the OpenAPI document, made from the routes themselves
//! ```
//!
//! Invariants: on the socket nobody but root and the daemon's own user is answered, on the network nobody without a
//! login or token; every answer that is no success carries the one error body; every route is in the document, since
//! both come from one place.

mod api;
mod audit;
mod certificate;
mod console;
mod document;
mod guard;
mod headers;
mod https;
mod listener;
mod middleware;
mod permissions;
mod reach;
mod refusal;
mod routes;
mod stall;
mod strangers;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::{Extension, Router};

pub use api::Api;
use api::Origin;
pub use certificate::{CertificateError, CertificateFiles};
pub use document::document;
pub use https::{Https, HttpsError, Limits, serve_https};
pub use listener::{ListenError, Listener};

/// The largest request body that is read.
pub const BODY_BYTES: usize = 1 << 20;
/// How long a client waits for an answer at most; a change goes on after that.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// The whole API.
pub(crate) fn router(api: &Api) -> Router {
    let (routes, document) = document::routes().split_for_parts();
    let inner = routes.clone().with_state(api.clone());
    let guard = Arc::new(guard::Guard { api: api.clone(), rules: permissions::Rules::new(&document), inner });
    routes
        .fallback(console::answer)
        .method_not_allowed_fallback(refusal::no_such_method)
        .layer(axum::middleware::from_fn_with_state(guard, guard::guard))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(axum::middleware::from_fn(middleware::limit_time))
        .layer(axum::middleware::from_fn(middleware::identify))
        .with_state(api.clone())
}

/// Listens at `path`; waits, `patience` at most, for a server that was killed there to be gone.
///
/// # Errors
/// If another server answers there, or the operating system refuses.
pub fn listen(path: &Path, patience: Duration) -> Result<Listener, ListenError> {
    Listener::bind(path, patience)
}

/// Answers requests until `stop` ends and those under way are answered.
///
/// # Errors
/// If the operating system refuses.
pub async fn serve(
    listener: Listener,
    api: Api,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let path = listener.path().to_path_buf();
    let router = router(&api).layer(Extension(Origin::Socket));
    let served = axum::serve(listener, router).with_graceful_shutdown(stop).await;
    let _ = std::fs::remove_file(path);
    served
}
