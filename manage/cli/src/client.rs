//! The client side of the API: one request on one connection to the daemon's socket.
//!
//! Invariant: a request either brings an answer of its type, or an error that names object, reason and next step.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use holdfast_api::{BASE_PATH, ErrorBody, Event};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

/// A daemon that is reached through its socket.
pub struct Client {
    socket: PathBuf,
}

/// A segment of a path of the API with everything but letters, digits, `-`, `.`, `_` and `~` encoded.
pub fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

impl Client {
    /// A client of the daemon at `socket`.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.into() }
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| self.unreachable(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(format!("{BASE_PATH}{path}"))
            .header("host", "holdfast")
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        sender.send_request(request).await.context("the daemon broke the connection off; next: see its log")
    }

    fn unreachable(&self, error: &std::io::Error) -> anyhow::Error {
        let socket = self.socket.display();
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                anyhow!("daemon at {socket}: it serves root and its own user only; next: run this as one of them")
            }
            _ => anyhow!(
                "daemon at {socket}: it cannot be reached ({error}); next: start it with 'holdfast serve --state DIR', \
                 or name its socket with --socket or {}",
                holdfast_api::SOCKET_VARIABLE
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
            Err(_) if status == StatusCode::FORBIDDEN => Err(self.unreachable(&std::io::ErrorKind::PermissionDenied.into())),
            Err(_) => Err(anyhow!("daemon at {}: answered {status}; next: see its log", self.socket.display())),
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
        let bytes = response.into_body().collect().await.context("the daemon broke its answer off; next: see its log")?;
        serde_json::from_slice(&bytes.to_bytes()).context("the daemon is of another version than this command")
    }

    /// Calls `each` with every event that is kept, and with each one that comes, until the daemon stops or `each` fails.
    pub async fn follow(&self, mut each: impl FnMut(Event) -> Result<()>) -> Result<()> {
        let mut body = self.checked(Method::GET, "/events/follow", Bytes::new()).await?.into_body();
        let mut text = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.context("the daemon broke the connection off")?.into_data() else { continue };
            text.extend_from_slice(&data);
            while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
                let message: Vec<u8> = text.drain(..end + 2).collect();
                let message = String::from_utf8_lossy(&message);
                if let Some(data) = message.lines().find_map(|line| line.strip_prefix("data: ")) {
                    each(serde_json::from_str(data).context("the daemon is of another version than this command")?)?;
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
