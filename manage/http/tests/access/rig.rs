//! A server on a port of its own, and a client that says exactly what a test wants said.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use holdfast_access::{Access, AccessSettings, ThrottleSettings};
use holdfast_api::{CreateAccount, CreateToken, Role};
use holdfast_engine::{Engine, Settings};
use holdfast_harness::{LIMIT, folder_for_tests};
use holdfast_http::{Api, Https, Limits};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};

pub const PASSWORD: &str = "correct horse battery";
pub const COOKIE: &str = "__Host-holdfast-session";

pub struct Rig {
    pub folder: tempfile::TempDir,
    pub engine: Arc<Engine>,
    pub access: Arc<Access>,
    pub address: SocketAddr,
    /// How far the clock of access is ahead, in milliseconds.
    pub ahead: Arc<AtomicI64>,
    stop: tokio::sync::oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The secret in the cookie that it sets.
    pub fn cookie(&self) -> String {
        let set = self.header("set-cookie");
        let value =
            set.strip_prefix(COOKIE).and_then(|rest| rest.strip_prefix('=')).and_then(|rest| rest.split(';').next());
        value.unwrap_or_default().to_owned()
    }
}

/// A cookie and what changes carry beside it.
pub struct Session {
    pub cookie: String,
    pub csrf: String,
}

impl Session {
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        vec![("cookie", format!("{COOKIE}={}", self.cookie)), ("x-csrf-token", self.csrf.clone())]
    }
}

pub fn bearer(secret: &str) -> Vec<(&'static str, String)> {
    vec![("authorization", format!("Bearer {secret}"))]
}

impl Rig {
    pub async fn start() -> Self {
        Self::start_with(Limits::default(), ThrottleSettings::default()).await
    }

    pub async fn start_with(limits: Limits, throttle: ThrottleSettings) -> Self {
        let folder = tempfile::tempdir_in(folder_for_tests()).unwrap();
        let mut settings = Settings::new(folder.path().join("state"));
        settings.block_devices = false;
        settings.reactors = 1;
        settings.iscsi_addresses = vec!["127.0.0.1:0".parse().unwrap()];
        let engine = Engine::start(settings).await.unwrap();
        let ahead = Arc::new(AtomicI64::new(0));
        let clock = ahead.clone();
        let settings = AccessSettings {
            throttle,
            clock: Arc::new(move || {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64;
                now + clock.load(Ordering::Relaxed)
            }),
            ..AccessSettings::default()
        };
        let access = Access::open(engine.store().clone(), settings).unwrap();
        let https = Https::listen(&["127.0.0.1:0".parse().unwrap()], None, engine.state_folder(), Duration::ZERO)
            .await
            .unwrap();
        let https = https.with_limits(limits);
        let address = https.addresses()[0];
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let api = Api::new(engine.clone(), access.clone());
        let served = tokio::spawn(holdfast_http::serve_https(https, api, async move {
            let _ = stopped.await;
        }));
        Self { folder, engine, access, address, ahead, stop, served }
    }

    /// The same with an administrator `ann`, an operator `oda` and a viewer `vic`.
    pub async fn peopled() -> Self {
        let rig = Self::start().await;
        rig.people().await;
        rig
    }

    pub async fn people(&self) {
        for (name, role) in [("ann", Role::Administrator), ("oda", Role::Operator), ("vic", Role::Viewer)] {
            let request = CreateAccount { name: name.into(), password: PASSWORD.into(), role };
            self.access.create_account(request).await.unwrap();
        }
    }

    /// Lets time pass for sessions, tokens and throttles.
    pub fn pass(&self, time: Duration) {
        self.ahead.fetch_add(time.as_millis() as i64, Ordering::Relaxed);
    }

    /// A TLS connection, with nothing said on it yet.
    pub async fn connect(&self) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        let pem = self.folder.path().join("state/tls/cert.pem");
        roots.add(CertificateDer::from_pem_file(pem).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config =
            builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// Sends a request to a path as it stands, and waits until the server has closed its connection: what one address
    /// may have at once is limited.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, String)], body: impl Into<Bytes>) -> Answer {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(self.connect().await)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", self.address.to_string());
        request = request.header("connection", "close");
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let response = sender.send_request(request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        tokio::time::timeout(LIMIT, connection).await.expect("the server closes it").unwrap().ok();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Asks the API.
    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, String)], body: Value) -> Answer {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        self.send(method, &format!("/api/v1{path}"), headers, body).await
    }

    pub async fn try_login(&self, name: &str, password: &str) -> Answer {
        self.ask("POST", "/session", &[], json!({ "name": name, "password": password })).await
    }

    pub async fn login(&self, name: &str) -> Session {
        let answer = self.try_login(name, PASSWORD).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
        Session { cookie: answer.cookie(), csrf: answer.json()["csrf"].as_str().unwrap().to_owned() }
    }

    /// The secret of a token of `name`'s.
    pub async fn token(&self, name: &str, role: Role, areas: &[&str]) -> String {
        let session = self.login(name).await;
        let request = CreateToken {
            name: "test".into(),
            role,
            areas: areas.iter().map(|area| (*area).to_owned()).collect(),
            expires_in_seconds: 3600,
        };
        let body = serde_json::to_value(request).unwrap();
        let answer = self.ask("POST", "/tokens", &session.headers(), body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
        answer.json()["secret"].as_str().unwrap().to_owned()
    }

    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.engine.shutdown().await;
        tokio::time::timeout(LIMIT, self.served).await.expect("the server ends").unwrap();
    }
}
