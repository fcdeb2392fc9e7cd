//! The console: files that were built into the binary.
//!
//! Invariants: nothing outside of what was built in can be had, since files are looked up by name in a table and
//! nowhere else; a file whose name carries a hash is kept by browsers for good, every other one is asked for each time.

use std::collections::HashMap;
use std::io::Write;
use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::RustEmbed;

use crate::refusal;

#[derive(RustEmbed)]
#[folder = "../web/dist"]
struct Files;

struct Asset {
    plain: Bytes,
    compressed: Option<Bytes>,
    media_type: HeaderValue,
    tag: HeaderValue,
}

const INDEX: &str = "index.html";
/// The folder of the files whose names carry hashes of their contents.
const HASHED: &str = "assets/";
/// Below these, the last part of a path is the name of an object.
const OBJECTS: [&str; 4] = ["disks/", "pools/", "spaces/", "volumes/"];
const NO_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

static ASSETS: LazyLock<HashMap<String, Asset>> =
    LazyLock::new(|| Files::iter().filter_map(|name| load(&name)).collect());

fn load(name: &str) -> Option<(String, Asset)> {
    let file = Files::get(name)?;
    let plain = match file.data {
        std::borrow::Cow::Borrowed(data) => Bytes::from_static(data),
        std::borrow::Cow::Owned(data) => data.into(),
    };
    let compressed = compress(&plain).filter(|compressed| compressed.len() < plain.len());
    let kind = file.metadata.mimetype();
    let kind = if kind.starts_with("text/") { format!("{kind}; charset=utf-8") } else { kind.to_owned() };
    let tag = format!("\"{}\"", holdfast_access::hex(&file.metadata.sha256_hash()[..16]));
    let media_type = HeaderValue::from_str(&kind).unwrap_or(NO_TYPE);
    Some((name.to_owned(), Asset { plain, compressed, media_type, tag: HeaderValue::from_str(&tag).ok()? }))
}

fn compress(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).ok()?;
    Some(encoder.finish().ok()?.into())
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|one| {
        let mut parts = one.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|weight| matches!(weight, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

/// Whether the console draws a page itself at this path. What looks like a file and is none is missing, but names of
/// objects may hold dots.
fn is_page(name: &str) -> bool {
    let named = OBJECTS.iter().any(|folder| name.starts_with(folder));
    named || !name.starts_with(HASHED) && !name.rsplit('/').next().is_some_and(|last| last.contains('.'))
}

/// Answers what is no operation: a file of the console, its page for every path of its own, or that nothing is there.
pub(crate) async fn answer(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    if path == holdfast_api::BASE_PATH || path.starts_with("/api/") {
        return refusal::no_such_path(uri).await.into_response();
    }
    if method != Method::GET && method != Method::HEAD {
        return refusal::no_such_method(method, uri).await;
    }
    let name = path.trim_start_matches('/');
    let found = ASSETS.get(name).map(|asset| (asset, name.starts_with(HASHED)));
    let is_page = is_page(name);
    let Some((asset, hashed)) = found.or_else(|| ASSETS.get(INDEX).filter(|_| is_page).map(|asset| (asset, false)))
    else {
        return refusal::no_such_path(uri).await.into_response();
    };
    let caching = if hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
    let basic = [
        (CACHE_CONTROL, HeaderValue::from_static(caching)),
        (ETAG, asset.tag.clone()),
        (VARY, HeaderValue::from_static("accept-encoding")),
    ];
    if headers.get(IF_NONE_MATCH).is_some_and(|tag| *tag == asset.tag) {
        return (StatusCode::NOT_MODIFIED, basic).into_response();
    }
    let media_type = [(CONTENT_TYPE, asset.media_type.clone())];
    match &asset.compressed {
        Some(compressed) if takes_gzip(&headers) => {
            let encoding = [(CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
            (basic, media_type, encoding, compressed.clone()).into_response()
        }
        _ => (basic, media_type, asset.plain.clone()).into_response(),
    }
}
