//! Errors as answers, and extractors whose failures are such answers.

use std::error::Error as _;

use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{CONTENT_LENGTH, RETRY_AFTER};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use holdfast_access::Denied;
use holdfast_api::{ApiError, Code, ErrorBody};
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;

/// An error as an answer.
pub(crate) struct Refusal(pub(crate) ApiError);

/// What a handler answers.
pub(crate) type Answered<T> = Result<T, Refusal>;

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, axum::Json(ErrorBody { error: self.0 })).into_response()
    }
}

/// A refusal that says when to try again.
pub(crate) struct Later(pub(crate) Denied);

impl IntoResponse for Later {
    fn into_response(self) -> Response {
        let seconds = self.0.retry_after.map(|wait| wait.as_secs_f64().ceil() as u64);
        let mut response = Refusal(self.0.error).into_response();
        if let Some(seconds) = seconds {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }
}

impl From<Denied> for Later {
    fn from(denied: Denied) -> Self {
        Self(denied)
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        malformed("path", rejection.body_text())
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        let Refusal(refused) = malformed("query", rejection.body_text());
        let (mut cause, mut field) = (rejection.source(), String::new());
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<serde_path_to_error::Error<serde::de::value::Error>>() {
                field = field_of(error.path(), &error.inner().to_string());
            }
            cause = error.source();
        }
        Self(if field.is_empty() { refused } else { refused.at(&field) })
    }
}

impl From<BytesRejection> for Refusal {
    fn from(rejection: BytesRejection) -> Self {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return too_large();
        }
        Self(ApiError::invalid("body", rejection.body_text(), "send it again"))
    }
}

fn too_large() -> Refusal {
    let message =
        format!("the body is larger than {} bytes, or than what is accepted without a login", crate::BODY_BYTES);
    Refusal(ApiError::new(Code::TooLarge, "body", message, "send less"))
}

/// A JSON body of type `T`.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let announced =
            request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|bytes| bytes > crate::BODY_BYTES) {
            return Err(too_large());
        }
        let bytes = axum::body::Bytes::from_request(request, state).await?;
        let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let read = serde_path_to_error::deserialize(&mut json).map_err(|error| wrong_field(&error))?;
        json.end().map_err(|error| malformed("body", error.to_string()))?;
        Ok(Self(read))
    }
}

/// Refuses what is no request of its kind: where one field of it is to blame, at that field.
fn wrong_field(error: &serde_path_to_error::Error<serde_json::Error>) -> Refusal {
    let message = error.inner().to_string();
    let field = if error.inner().is_data() { field_of(error.path(), &message) } else { String::new() };
    let Refusal(refused) = malformed("body", message);
    Refusal(if field.is_empty() { refused } else { refused.at(&field) })
}

/// The field at a path, with dots for those around it. One that is missing has no place of its own: the message names
/// it, and the path the object that lacks it.
fn field_of(path: &serde_path_to_error::Path, message: &str) -> String {
    let around = path.iter().filter(|part| matches!(part, Segment::Map { .. })).map(Segment::to_string);
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()).map(str::to_owned);
    around.chain(missing).collect::<Vec<_>>().join(".")
}

fn malformed(object: &str, message: String) -> Refusal {
    Refusal(ApiError::invalid(object, message, "see the API's document at /api/v1/openapi.json"))
}

/// Parameters in the path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Refusal))]
pub(crate) struct InPath<T>(pub(crate) T);

/// Parameters in the query.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Refusal))]
pub(crate) struct InQuery<T>(pub(crate) T);

pub(crate) async fn no_such_path(uri: Uri) -> Refusal {
    let next_action = "see the API's document at /api/v1/openapi.json";
    Refusal(ApiError::new(Code::NotFound, format!("path {}", uri.path()), "nothing is there", next_action))
}

pub(crate) async fn no_such_method(method: Method, uri: Uri) -> Response {
    let next_action = "see the API's document at /api/v1/openapi.json";
    let error =
        ApiError::invalid(format!("path {}", uri.path()), format!("method {method} is not supported"), next_action);
    (StatusCode::METHOD_NOT_ALLOWED, axum::Json(ErrorBody { error })).into_response()
}
