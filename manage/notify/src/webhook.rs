//! A message as an HTTP request.
//!
//! ```text
//!   X-Holdfast-Timestamp: SECONDS
//!   X-Holdfast-Signature: sha256=HEX     HMAC-SHA256 by the secret over `SECONDS.BODY`
//!   X-Holdfast-Delivery: ID              the same each time that a message is sent again
//! ```
//!
//! Invariants: no redirect is followed; of an answer the header is read, which is bounded, and nothing else.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use ring::hmac;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Position, Url};

use crate::channel::Webhook;
use crate::message::Message;
use crate::send::{Failure, Identity};
use crate::{template, tls};

/// Bytes of an answer's header at most.
const HEADER_BYTES: usize = 16 << 10;

/// The signature of `body` at `seconds`, as its header has it.
fn signature(secret: &str, seconds: i64, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()));
    context.update(format!("{seconds}.").as_bytes());
    context.update(body);
    let tag = context.sign();
    format!("sha256={}", tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn request(
    webhook: &Webhook,
    url: &Url,
    body: Vec<u8>,
    identity: &Identity,
    now_ms: i64,
) -> Result<Request<Full<Bytes>>, Failure> {
    let seconds = now_ms.div_euclid(1000);
    let mut request = Request::post(&url[Position::BeforePath..Position::AfterQuery])
        .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("holdfast/", env!("CARGO_PKG_VERSION")))
        .header("x-holdfast-delivery", format!("{}-{}", identity.id, identity.created_ms))
        .header("x-holdfast-timestamp", seconds);
    if let Some(secret) = &webhook.secret {
        request = request.header("x-holdfast-signature", signature(secret.reveal(), seconds, &body));
    }
    if let Some(token) = &webhook.token {
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
            .map_err(|_| Failure::refused("its token cannot be sent: enter it again"))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    request.body(Full::new(body.into())).map_err(|_| Failure::refused("its URL cannot be used: enter it again"))
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let broken = |error: hyper::Error| Failure::passing(format!("the server broke the request off: {error}"));
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(HEADER_BYTES);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let mut sent = std::pin::pin!(sender.send_request(request));
    // The connection ends with this function, and with it whatever else the server would send.
    tokio::select! {
        answer = &mut sent => answer.map_err(broken),
        _ = connection => sent.await.map_err(broken),
    }
}

/// Sends it.
pub(crate) async fn send(
    webhook: &Webhook,
    message: &Message,
    identity: &Identity,
    now_ms: i64,
) -> Result<String, Failure> {
    let unusable = || Failure::refused("its URL cannot be used: enter it again");
    let url = webhook.parsed().ok_or_else(unusable)?;
    let (url, body) = template::request(webhook.template, url, message);
    let port = url.port_or_known_default().ok_or_else(unusable)?;
    let (host, name) = match url.host().ok_or_else(unusable)? {
        Host::Domain(name) => (name.to_owned(), ServerName::try_from(name.to_owned()).map_err(|_| unusable())?),
        Host::Ipv4(address) => (address.to_string(), ServerName::from(std::net::IpAddr::from(address))),
        Host::Ipv6(address) => (address.to_string(), ServerName::from(std::net::IpAddr::from(address))),
    };
    let request = request(webhook, &url, body, identity, now_ms)?;
    let stream = TcpStream::connect((host.as_str(), port))
        .await
        .map_err(|error| Failure::passing(format!("the server {host}:{port} cannot be reached: {error}")))?;
    let answer = if url.scheme() == "https" {
        let pem = webhook.ca_certificate.clone();
        let config = tokio::task::spawn_blocking(move || tls::client(pem.as_deref()));
        let config = config.await.map_err(|error| Failure::passing(error.to_string()))?.map_err(Failure::passing)?;
        let stream = TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|error| Failure::passing(format!("no TLS with {host}:{port}: {error}")))?;
        exchange(stream, request).await?
    } else {
        exchange(stream, request).await?
    };
    let status = answer.status();
    let said = format!("the server answered {status}");
    match status.as_u16() {
        200..=299 => Ok(said),
        300..=399 => Err(Failure::refused(format!("{said}; redirects are not followed: set the URL that it leads to"))),
        408 | 425 | 429 | 500..=599 => Err(Failure::passing(said)),
        _ => Err(Failure::refused(said)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_what_openssl_makes() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key
        let made = signature("key", 1_700_000_000, b"{\"a\":1}");
        assert_eq!(made, "sha256=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03");
    }
}
