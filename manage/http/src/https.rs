//! HTTPS: connections from the network, each with its limits.
//!
//! ```text
//!   accept ─▶ a place free? ─▶ TLS handshake ─▶ HTTP/2 or HTTP/1.1, as agreed ─▶ router
//! ```
//!
//! Invariants: connections are bounded, in all and for each address, and strangers make room for others; handshake,
//! header, request and every wait for a peer end after a time; the socket's own clients share nothing with these.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use holdfast_api::Severity;
use holdfast_model::ObjectRef;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use crate::api::{Api, Network, Origin};
use crate::certificate::{CertificateError, CertificateFiles, Tls, host_name};
use crate::headers;
use crate::stall::Stalling;
use crate::strangers::Strangers;

/// The part of all connections that may come from one address, or one network of IPv6, whose owner chooses from all its
/// addresses.
const SHARE_OF_ONE: usize = 2;
const HEADER_BYTES: usize = 32 << 10;
const STREAMS: u32 = 32;
/// How often a client of HTTP/2 is asked whether it is still there, and how long its answer may take.
const PING: Duration = Duration::from_secs(20);
const RENEW: Duration = Duration::from_secs(60 * 60);

/// How many peers there may be, and how long they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// For the header of a request, also the next one on a connection.
    pub header: Duration,
    /// For taking anything of what they are sent.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(30),
            stall: Duration::from_secs(60),
        }
    }
}

/// Why HTTPS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum HttpsError {
    /// The certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// An address.
    #[error("HTTPS: {0} cannot be listened on: {1}; next: name another address with --https")]
    Address(SocketAddr, io::Error),
}

/// Addresses that are listened on, and a certificate.
pub struct Https {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    tls: Arc<Tls>,
    limits: Limits,
}

async fn bind(address: SocketAddr, patience: Duration) -> io::Result<TcpListener> {
    let deadline = tokio::time::Instant::now() + patience;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            bound => return bound,
        }
    }
}

impl Https {
    /// Listens on `addresses` with the certificate of `given`, or one of its own in `state_dir`. Waits, `patience` at
    /// most, for a server that was killed there to be gone.
    ///
    /// # Errors
    /// If an address is taken, or the certificate cannot be used.
    pub async fn listen(
        addresses: &[SocketAddr],
        given: Option<CertificateFiles>,
        state_dir: &Path,
        patience: Duration,
    ) -> Result<Self, HttpsError> {
        let tls = Arc::new(Tls::open(given, state_dir, addresses)?);
        let mut listeners = Vec::new();
        for address in addresses {
            listeners.push(bind(*address, patience).await.map_err(|error| HttpsError::Address(*address, error))?);
        }
        let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        Ok(Self { listeners, addresses, tls, limits: Limits::default() })
    }

    /// The same with other limits.
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Where it listens, with the ports that were given.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The SHA-256 of the certificate.
    pub fn fingerprint(&self) -> String {
        self.tls.shown().sha256_fingerprint
    }

    /// What browsers are told to visit.
    pub fn url(&self) -> Option<String> {
        let address = self.addresses.first()?;
        let host = match address.ip() {
            ip if ip.is_unspecified() => host_name(),
            IpAddr::V6(ip) => format!("[{ip}]"),
            ip => ip.to_string(),
        };
        Some(format!("https://{host}:{}", address.port()))
    }
}

/// Counts connections by address.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<HashMap<IpAddr, usize>>>);

struct Counted(Counts, IpAddr);

impl Counts {
    /// Counts one more, unless there are `most`.
    fn count(&self, address: IpAddr, most: usize) -> Option<Counted> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Counted(self.clone(), address))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

async fn converse(
    stream: TcpStream,
    from: SocketAddr,
    router: axum::Router,
    tls: Arc<Tls>,
    limits: Limits,
    watcher: Watcher,
) {
    let _ = stream.set_nodelay(true);
    let accepted = tokio::time::timeout(limits.handshake, TlsAcceptor::from(tls.config()).accept(stream)).await;
    let stream = match accepted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%from, "no TLS: {error}"),
        Err(_) => return tracing::debug!(%from, "no TLS in time"),
    };
    let newer = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = TowerToHyperService::new(router.layer(Extension(Origin::Network(from))));
    let served = if newer {
        // An idle client answers pings, so silence means that it is gone or never meant to speak.
        let io = TokioIo::new(Stalling::new(stream, Some(PING * 3), Some(limits.stall)));
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(PING).keep_alive_timeout(PING);
        builder.max_concurrent_streams(STREAMS).max_header_list_size(HEADER_BYTES as u32);
        watcher.watch(builder.serve_connection(io, service)).await
    } else {
        let io = TokioIo::new(Stalling::new(stream, None, Some(limits.stall)));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(limits.header).max_header_size(HEADER_BYTES);
        watcher.watch(builder.serve_connection(io, service)).await
    };
    if let Err(error) = served {
        tracing::debug!(%from, "a connection failed: {error}");
    }
}

/// What the connections of all listeners share.
#[derive(Clone)]
struct Room {
    limits: Limits,
    places: Arc<Semaphore>,
    counts: Counts,
    strangers: Strangers,
}

impl Room {
    fn new(limits: Limits) -> Self {
        let places = Arc::new(Semaphore::new(limits.connections));
        Self { limits, places, counts: Counts::default(), strangers: Strangers::default() }
    }

    /// A place for one more, which a stranger leaves if there is none.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        match self.places.clone().try_acquire_owned() {
            Ok(place) => Some(place),
            Err(_) => {
                self.strangers.send_one_away();
                self.places.clone().acquire_owned().await.ok()
            }
        }
    }
}

async fn accept(listener: TcpListener, router: axum::Router, tls: Arc<Tls>, watcher: impl Fn() -> Watcher, room: Room) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let most = (room.limits.connections / SHARE_OF_ONE).max(1);
                let Some(counted) = room.counts.count(holdfast_access::network(from.ip()), most) else {
                    tracing::debug!(%from, "refused: too many connections from this address");
                    continue;
                };
                let Some(place) = room.place().await else { return };
                let caller = Arc::new(room.strangers.enter());
                let router = router.clone().layer(Extension(caller.clone()));
                let talk = converse(stream, from, router, tls.clone(), room.limits, watcher());
                tokio::spawn(async move {
                    tokio::select! {
                        () = talk => {}
                        () = caller.sent_away() => tracing::debug!(%from, "closed to make room for new connections"),
                    }
                    drop((place, counted));
                });
            }
            Err(error) => {
                tracing::error!("accepting an HTTPS client: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn renew(tls: Arc<Tls>, api: Api) {
    loop {
        tokio::time::sleep(RENEW).await;
        let renewing = tls.clone();
        match tokio::task::spawn_blocking(move || renewing.renew()).await {
            Ok(Ok(true)) => {
                let cause =
                    format!("HTTPS is served with another certificate, SHA-256 {}", tls.shown().sha256_fingerprint);
                api.engine.events().emit(
                    Severity::Info,
                    &ObjectRef::server("certificate"),
                    &cause,
                    "compare it when a client asks for it",
                );
            }
            Ok(Err(error)) => tracing::error!("{error}"),
            Ok(Ok(false)) | Err(_) => {}
        }
    }
}

/// Answers HTTPS requests until `stop` ends and those under way are answered.
pub async fn serve_https(https: Https, api: Api, stop: impl Future<Output = ()> + Send) {
    let Https { listeners, addresses, tls, limits } = https;
    let trusted = !tls.shown().self_signed;
    let _ = api.network.set(Network { addresses, tls: tls.clone() });
    let router = crate::router(&api).layer(axum::middleware::from_fn_with_state(trusted, headers::secure));
    let graceful = Arc::new(GracefulShutdown::new());
    let room = Room::new(limits);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(renew(tls.clone(), api));
    for listener in listeners {
        let graceful = graceful.clone();
        let watcher = move || graceful.watcher();
        tasks.spawn(accept(listener, router.clone(), tls.clone(), watcher, room.clone()));
    }
    stop.await;
    tasks.shutdown().await;
    if let Some(graceful) = Arc::into_inner(graceful) {
        graceful.shutdown().await;
    }
}
