//! What happens around every request: its id, its line in the log, its time limit.

use std::time::Instant;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use holdfast_api::{ApiError, Code};
use tracing::Instrument;

use crate::REQUEST_TIMEOUT;
use crate::refusal::Refusal;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_ID: usize = 64;

/// The id that a request was given.
pub(crate) fn request_id(request: &Request) -> String {
    request.extensions().get::<RequestId>().map(|id| id.0.to_str().unwrap_or_default().to_owned()).unwrap_or_default()
}

#[derive(Clone)]
struct RequestId(HeaderValue);

/// The request's id, for handlers that write it down.
pub(crate) struct Id(pub(crate) String);

impl<S: Sync> FromRequestParts<S> for Id {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let id = parts.extensions.get::<RequestId>().and_then(|id| id.0.to_str().ok());
        Ok(Self(id.unwrap_or_default().to_owned()))
    }
}

/// Gives the request an id, or keeps the client's, and logs how it ended.
pub(crate) async fn identify(mut request: Request, next: Next) -> Response {
    let given = request.headers().get(&REQUEST_ID).filter(|id| id.len() <= LONGEST_ID && id.to_str().is_ok()).cloned();
    let made = || HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()).unwrap_or(HeaderValue::from_static("none"));
    let id = given.unwrap_or_else(made);
    request.extensions_mut().insert(RequestId(id.clone()));
    let method = request.method().clone();
    let path = request.uri().path().to_string();
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default(), %method, path);
    let started = Instant::now();
    async move {
        let mut response = next.run(request).await;
        let (status, milliseconds) = (response.status().as_u16(), started.elapsed().as_millis() as u64);
        if response.status() == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(status, milliseconds, "answered");
        } else {
            tracing::debug!(status, milliseconds, "answered");
        }
        response.headers_mut().insert(REQUEST_ID.clone(), id);
        response
    }
    .instrument(span)
    .await
}

/// Answers for a handler that takes too long. What it began goes on.
pub(crate) async fn limit_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("no answer within {} s", REQUEST_TIMEOUT.as_secs());
            let next_action = "the change continues: check the object and the events, then repeat it if necessary";
            Refusal(ApiError::new(Code::Timeout, "request", message, next_action)).into_response()
        }
    }
}
