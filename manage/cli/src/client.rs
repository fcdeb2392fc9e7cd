//! The client side of the API: one request on one connection to the daemon's socket, or to a server over TLS.
//!
//! Invariant: a request either brings an answer of its type, or an error that names object, reason and next step.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use holdfast_api::{BASE_PATH, CSRF_HEADER, ErrorBody, Event};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use crate::servers::ServerAddress;
use crate::trust;

/// How a daemon is reached.
enum Reach {
    Socket(PathBuf),
    Server { place: ServerAddress, fingerprint: Option<String>, proof: Proof },
}

/// How a client proves who it is.
pub enum Proof {
    /// Not at all.
    None,
    /// By a token.
    Token(String),
    /// By a session's cookie, and what its changes carry.
    Session {
        /// The cookie, with its name.
        cookie: String,
        /// What changes carry.
        csrf: String,
    },
}

/// A daemon that can be asked.
pub struct Client {
    reach: Reach,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A segment of a path of the API with everything but letters, digits, `-`, `.`, `_` and `~` encoded.
pub fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

impl Client {
    /// A client of the daemon at `socket`.
    pub fn new(socket: &Path) -> Self {
        Self { reach: Reach::Socket(socket.into()) }
    }

    /// A client of the server at `place`, with the certificate of this SHA-256.
    pub fn of_server(place: ServerAddress, fingerprint: Option<String>, proof: Proof) -> Self {
        Self { reach: Reach::Server { place, fingerprint, proof } }
    }

    /// What messages call it.
    fn name(&self) -> String {
        match &self.reach {
            Reach::Socket(socket) => format!("daemon at {}", socket.display()),
            Reach::Server { place, .. } => format!("server {}", place.url()),
        }
    }

    async fn connect(&self) -> Result<Box<dyn Stream>> {
        match &self.reach {
            Reach::Socket(socket) => {
                Ok(Box::new(UnixStream::connect(socket).await.map_err(|error| self.unreachable(socket, &error))?))
            }
            Reach::Server { place, fingerprint, .. } => {
                Ok(Box::new(trust::connect(place, fingerprint.as_deref()).await?))
            }
        }
    }

    /// Sends a request and gives whatever is answered.
    pub async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        let stream = self.connect().await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{BASE_PATH}{path}"))
            .header("content-type", "application/json");
        request = match &self.reach {
            Reach::Socket(_) => request.header("host", "holdfast"),
            Reach::Server { place, proof, .. } => {
                let request = request.header("host", place.authority());
                match proof {
                    Proof::None => request,
                    Proof::Token(token) => request.header("authorization", format!("Bearer {token}")),
                    Proof::Session { cookie, csrf } => request.header("cookie", cookie).header(CSRF_HEADER, csrf),
                }
            }
        };
        let sent = sender.send_request(request.body(Full::new(body))?).await;
        sent.with_context(|| format!("{}: it closed the connection; next: see its log", self.name()))
    }

    fn unreachable(&self, socket: &Path, error: &std::io::Error) -> anyhow::Error {
        let socket = socket.display();
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => anyhow!(
                "daemon at {socket}: it serves only root and its own user; next: run this as one of them, or 'holdfast login URL'"
            ),
            _ => anyhow!(
                "daemon at {socket}: it cannot be reached ({error}); next: start it with 'holdfast serve --state DIR', \
                 name its socket with --socket or {}, or a server with --server or {}",
                holdfast_api::SOCKET_VARIABLE,
                holdfast_api::SERVER_VARIABLE
            ),
        }
    }

    async fn checked(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        let response = self.send(method, path, body).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let bytes = response.into_body().collect().await?.to_bytes();
        match serde_json::from_slice::<ErrorBody>(&bytes) {
            Ok(body) => Err(body.error.into()),
            Err(_) => Err(anyhow!("{}: it answered {status}; next: see its log", self.name())),
        }
    }

    /// Asks for `path`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.request(Method::GET, path, Bytes::new()).await
    }

    /// Sends `body` to `path`.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        self.request(Method::POST, path, serde_json::to_vec(body)?.into()).await
    }

    /// Puts `body` in place of what is at `path`.
    pub async fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        self.request(Method::PUT, path, serde_json::to_vec(body)?.into()).await
    }

    /// Sends changes to the object at `path`.
    pub async fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        self.request(Method::PATCH, path, serde_json::to_vec(body)?.into()).await
    }

    /// Removes the object at `path`.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.request(Method::DELETE, path, Bytes::new()).await
    }

    async fn request<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T> {
        let response = self.checked(method, path, body).await?;
        let bytes = response.into_body().collect().await.context("the daemon aborted its answer; next: see its log")?;
        serde_json::from_slice(&bytes.to_bytes()).context("the daemon has another version than this command")
    }

    /// Writes what is at `path` to `file`.
    pub async fn download(&self, path: &str, file: &mut std::fs::File) -> Result<u64> {
        let mut body = self.checked(Method::GET, path, Bytes::new()).await?.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.context("the daemon aborted its answer; next: see its log")?.into_data() else {
                continue;
            };
            file.write_all(&data)?;
            bytes += data.len() as u64;
        }
        Ok(bytes)
    }

    /// Calls `each` with every event that is kept, and with each one that comes, until the daemon stops or `each`
    /// fails.
    pub async fn follow(&self, mut each: impl FnMut(Event) -> Result<()>) -> Result<()> {
        let mut body = self.checked(Method::GET, "/events/follow", Bytes::new()).await?.into_body();
        let mut text = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.context("the daemon closed the connection")?.into_data() else { continue };
            text.extend_from_slice(&data);
            while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
                let message: Vec<u8> = text.drain(..end + 2).collect();
                let message = String::from_utf8_lossy(&message);
                if let Some(data) = message.lines().find_map(|line| line.strip_prefix("data: ")) {
                    each(serde_json::from_str(data).context("the daemon has another version than this command")?)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_one_segment() {
        assert_eq!(segment("/dev/sd a?"), "%2Fdev%2Fsd%20a%3F");
        assert_eq!(segment("tank-1.x_~"), "tank-1.x_~");
    }

    #[tokio::test]
    async fn a_daemon_that_is_not_there_is_named_with_the_next_step() {
        let error = Client::new(Path::new("/nonexistent/x.sock")).get::<()>("/pools").await.unwrap_err().to_string();
        assert!(error.contains("/nonexistent/x.sock") && error.contains("holdfast serve"), "{error}");
    }
}
