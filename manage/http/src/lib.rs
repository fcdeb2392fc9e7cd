//! The management API over HTTP on a unix socket.
//!
//! ```text
//!   listener.rs    who may connect                   middleware.rs   request ids, logs, the time limit
//!   routes/        one file a kind of object         refusal.rs      errors as bodies
//!   document.rs    the OpenAPI document, made from the routes themselves
//! ```
//!
//! Invariants: nobody but root and the daemon's own user is answered; every answer that is no success carries the one
//! error body; every route is in the document, since both come from one place.

mod document;
mod listener;
mod middleware;
mod refusal;
mod routes;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use holdfast_engine::Engine;

pub use document::document;
pub use listener::{ListenError, Listener};

/// The largest request body that is read.
pub const BODY_BYTES: usize = 1 << 20;
/// How long a client waits for an answer at most; a change goes on after that.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// The whole API on `engine`.
pub fn router(engine: Arc<Engine>) -> Router {
    let (router, _) = document::routes().split_for_parts();
    router
        .fallback(refusal::no_such_path)
        .method_not_allowed_fallback(refusal::no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(axum::middleware::from_fn(middleware::limit_time))
        .layer(axum::middleware::from_fn(middleware::identify))
        .with_state(engine)
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
    engine: Arc<Engine>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let path = listener.path().to_path_buf();
    let served = axum::serve(listener, router(engine)).with_graceful_shutdown(stop).await;
    let _ = std::fs::remove_file(path);
    served
}
