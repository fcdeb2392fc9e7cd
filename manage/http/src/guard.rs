//! Who sends a request, and whether they may: settled here for every operation, and nowhere else.
//!
//! ```text
//!   socket ──────────────────────────────────┐
//!   Authorization: Bearer ─▶ token ──────────┼─▶ identity ─▶ role, area ─▶ handler, audit
//!   cookie ─▶ session ─▶ X-CSRF-Token ───────┘
//! ```
//!
//! Invariants: a handler is reached only through a rule of the table; a change that comes by cookie proves that it
//! comes from the console; a request that comes from another site changes nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, COOKIE, EXPECT, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use holdfast_access::{Access, Identity};
use holdfast_api::{ApiError, CSRF_HEADER, Code, Via};
use http_body_util::BodyExt;

use crate::api::{Api, Origin};
use crate::audit;
use crate::permissions::{Effect, Need, Rules};
use crate::refusal::{self, Refusal};
use crate::strangers::Caller;

/// The cookie of a session. Browsers take the prefix as a promise: this host only, over TLS only, all paths.
pub(crate) const COOKIE_NAME: &str = "__Host-holdfast-session";

/// The largest body that is read of somebody who is not known yet.
const STRANGERS_BYTES: usize = 16 << 10;
/// How long a small body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// What the guard needs to decide.
pub(crate) struct Guard {
    pub(crate) api: Api,
    pub(crate) rules: Rules,
    /// The routes without this guard, for looking at objects before and after their change.
    pub(crate) inner: axum::Router,
}

fn forbidden(message: impl Into<String>, next: impl Into<String>) -> ApiError {
    ApiError::new(Code::Forbidden, "request", message, next)
}

fn not_authenticated(message: &str) -> ApiError {
    let next = "log in: in the console, with 'holdfast login URL', or send a token as 'Authorization: Bearer TOKEN'";
    ApiError::new(Code::NotAuthenticated, "request", message, next)
}

fn header(headers: &HeaderMap, name: impl axum::http::header::AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let pairs =
        headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('=')).find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

/// Who sends a request with `headers`; none if they do not say so.
fn identity(access: &Access, origin: Origin, headers: &HeaderMap) -> Result<Option<Identity>, ApiError> {
    if origin == Origin::Socket {
        return Ok(Some(Identity::socket()));
    }
    if headers.contains_key(AUTHORIZATION) {
        let bearer = header(headers, AUTHORIZATION).and_then(|value| {
            let (scheme, secret) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim())
        });
        let found = bearer.and_then(|secret| access.bearer(secret));
        return found.map(Some).ok_or_else(|| not_authenticated("the token is unknown or has expired"));
    }
    Ok(cookie(headers).and_then(|secret| access.session(secret)))
}

/// Whether a browser says that the request comes from a page of another site.
fn from_elsewhere(headers: &HeaderMap, authority: Option<&str>) -> bool {
    let site = header(headers, "sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let host = header(headers, HOST).or(authority).unwrap_or_default();
    let origin = headers.get(ORIGIN).is_some_and(|origin| origin.to_str().ok() != Some(&format!("https://{host}")));
    site || origin
}

/// Whether `identity` may do what `need` says with operations of `area`.
fn permitted(identity: Option<&Identity>, need: Need, area: &str) -> Result<(), ApiError> {
    let Some(identity) = identity else {
        return if need == Need::Public { Ok(()) } else { Err(not_authenticated("you are not logged in")) };
    };
    if need == Need::Person && identity.via == Via::Token && !identity.is_unlimited() {
        return Err(forbidden("tokens cannot do this", "log in with name and password"));
    }
    let Need::Role(role) = need else { return Ok(()) };
    if identity.role < role {
        let message = format!("account {} is {} here, and this needs {role}", identity.account, identity.role);
        return Err(forbidden(message, format!("ask an account with role {role}, or ask for that role")));
    }
    if !identity.covers(area) {
        let message = format!("this token is limited to {}, and this needs {area}", identity.areas.join(", "));
        return Err(forbidden(message, format!("use a token with the area {area}")));
    }
    Ok(())
}

/// Whether a change that came over the network is meant by who seems to send it.
fn meant(request: &Request, identity: Option<&Identity>) -> Result<(), ApiError> {
    let headers = request.headers();
    if header(headers, AUTHORIZATION).is_some() {
        return Ok(());
    }
    if from_elsewhere(headers, request.uri().authority().map(|authority| authority.as_str())) {
        return Err(forbidden("the request comes from a page of another site", "use the console of this server"));
    }
    match identity.and_then(|identity| identity.csrf.as_deref()) {
        Some(csrf) if header(headers, CSRF_HEADER).is_none_or(|given| !same(given, csrf)) => {
            let next = "send the csrf value of GET /api/v1/session";
            Err(forbidden(format!("the header {CSRF_HEADER} is missing or wrong"), next))
        }
        Some(_) => Ok(()),
        None if header(headers, CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json")) => Ok(()),
        None => Err(forbidden("its Content-Type is not JSON", "send Content-Type: application/json")),
    }
}

/// Compares without telling by its time how much agrees.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// Lets a request through to its handler, or answers why not.
pub(crate) async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    // What is no operation is the console's, or nothing.
    let Some(pattern) = request.extensions().get::<MatchedPath>().cloned() else { return next.run(request).await };
    let mut request = match whole(request).await {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let Some(rule) = guard.rules.of(request.method(), pattern.as_str()) else {
        let answer = refusal::no_such_method(request.method().clone(), request.uri().clone()).await;
        return ends(&request, answer);
    };
    let Some(origin) = request.extensions().get::<Origin>().copied() else {
        return Refusal(not_authenticated("it comes from nowhere")).into_response();
    };
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let settled = identity(&guard.api.access, origin, request.headers())
        .or_else(|error| if rule.need == Need::Public { Ok(None) } else { Err(error) })
        .and_then(|identity| {
            permitted(identity.as_ref(), rule.need, &rule.area)?;
            if !reads && origin != Origin::Socket {
                meant(&request, identity.as_ref().filter(|_| rule.need != Need::Public))?;
            }
            Ok(identity)
        });
    let identity = match settled {
        Ok(identity) => identity,
        Err(error) => {
            tracing::info!(from = %origin, operation = rule.operation, "refused: {}", error.message);
            return ends(&request, Refusal(error).into_response());
        }
    };
    if let (Some(_), Some(caller)) = (&identity, request.extensions().get::<Arc<Caller>>()) {
        caller.is_known();
    }
    if identity.is_none() {
        DefaultBodyLimit::max(STRANGERS_BYTES).apply(&mut request);
    }
    let identity = identity.unwrap_or_else(Identity::nobody);
    request.extensions_mut().insert(identity.clone());
    if rule.effect != Effect::Changes {
        return next.run(request).await;
    }
    audit::run(&guard, rule, identity, origin, request, next).await
}

/// Whether a body is small enough to be read before anything else is known of its request. A client that waits to be
/// asked for it is not asked for nothing.
fn is_small(request: &Request) -> bool {
    let len = request.body().size_hint().exact();
    !request.headers().contains_key(EXPECT) && len.is_some_and(|len| len <= STRANGERS_BYTES as u64)
}

/// Reads a small body whole: a connection on which a body stays unread ends, and takes the client's next request along.
async fn whole(request: Request) -> Result<Request, Response> {
    if !is_small(&request) {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(BODY_TIMEOUT, body.collect()).await {
        Ok(Ok(bytes)) => Ok(Request::from_parts(parts, Body::from(bytes.to_bytes()))),
        Ok(Err(_)) | Err(_) => {
            let next = "send as many bytes as the header says";
            Err(Refusal(ApiError::new(Code::Invalid, "request", "its body did not arrive", next)).into_response())
        }
    }
}

/// Says in a refusal that the connection ends, where it does since a body stays unread.
fn ends(request: &Request, mut answer: Response) -> Response {
    if request.version() < Version::HTTP_2 && !is_small(request) {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}
