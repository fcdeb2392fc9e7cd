//! What the API stands on: the engine, who may use it, and how it is served.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use axum::extract::FromRef;
use holdfast_access::Access;
use holdfast_engine::Engine;

use crate::certificate::Tls;

/// Where HTTPS is served, and with which certificate.
pub(crate) struct Network {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) tls: Arc<Tls>,
}

/// What handlers and guards are handed.
#[derive(Clone)]
pub struct Api {
    pub(crate) engine: Arc<Engine>,
    pub(crate) access: Arc<Access>,
    pub(crate) network: Arc<OnceLock<Network>>,
    /// Whether the last change could not be written to the audit log.
    pub(crate) unaudited: Arc<AtomicBool>,
}

impl Api {
    /// The API of `engine` for those whom `access` knows.
    pub fn new(engine: Arc<Engine>, access: Arc<Access>) -> Self {
        Self { engine, access, network: Arc::default(), unaudited: Arc::default() }
    }
}

impl FromRef<Api> for Arc<Engine> {
    fn from_ref(api: &Api) -> Self {
        api.engine.clone()
    }
}

impl FromRef<Api> for Arc<Access> {
    fn from_ref(api: &Api) -> Self {
        api.access.clone()
    }
}

/// Where a request comes from; every connection that is served gives it to its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The daemon's socket.
    Socket,
    /// This address.
    Network(SocketAddr),
}

impl Origin {
    /// Its address; the machine itself for the socket.
    pub(crate) fn address(self) -> IpAddr {
        match self {
            Self::Socket => Ipv4Addr::LOCALHOST.into(),
            Self::Network(address) => address.ip().to_canonical(),
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket => f.write_str("socket"),
            Self::Network(address) => write!(f, "{}", address.ip().to_canonical()),
        }
    }
}
