//! Listeners, and the spreading of connections over reactors.
//!
//! ```text
//!   listener (on one reactor) ─ accept ─▶ limit ─▶ next reactor ─▶ session
//! ```
//!
//! Invariant: a server that was shut down listens nowhere and has no connection left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use holdfast_device::Signal;
use holdfast_device::reactor::net::{Listener, LocalAddress, Stream};
use holdfast_device::reactor::{ReactorHandle, clock};

use crate::exports::Exports;
use crate::negotiate::TlsPolicy;
use crate::session::{self, Rules};
use crate::settings::{Address, NbdSettings, TlsRequired, TlsSettings};
use crate::status::{ConnectionStatus, Registry};
use crate::{NbdError, tls};

/// After a failed accept: out of descriptors, most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running NBD server. It stops listening when this is dropped; [`shutdown`](Self::shutdown) also waits for the
/// connections.
pub struct Server {
    addresses: Vec<Address>,
    registry: Arc<Registry>,
    listening: Vec<Listening>,
}

struct Listening {
    stop: Arc<Signal>,
    closed: Arc<Signal>,
}

struct Acceptor {
    reactors: Vec<ReactorHandle>,
    next: AtomicUsize,
    registry: Arc<Registry>,
}

impl Server {
    /// Listens on all `addresses` and serves `exports` on all `reactors`.
    ///
    /// # Errors
    /// When an address or a TLS file cannot be used; then nothing listens.
    pub fn start(
        reactors: Vec<ReactorHandle>,
        exports: Arc<Exports>,
        addresses: &[Address],
        settings: NbdSettings,
    ) -> Result<Self, NbdError> {
        if reactors.is_empty() {
            return Err(NbdError::Nothing("reactor"));
        }
        if addresses.is_empty() {
            return Err(NbdError::Nothing("address"));
        }
        let config = settings.tls.as_ref().map(tls::configuration).transpose()?;
        let settings = Arc::new(settings);
        let bound: Vec<Listener> = addresses.iter().map(|address| bind(address, &settings)).collect::<Result<_, _>>()?;
        let registry = Arc::new(Registry::default());
        let acceptor = Arc::new(Acceptor { reactors: reactors.clone(), next: AtomicUsize::new(0), registry: registry.clone() });
        let mut server = Self { addresses: Vec::new(), registry, listening: Vec::new() };
        for (number, listener) in bound.into_iter().enumerate() {
            let local = listener.local_address().clone();
            let policy = policy(settings.tls.as_ref(), &local);
            server.addresses.push(match local {
                LocalAddress::Unix(path) => Address::Unix(path),
                LocalAddress::Tcp(address) => Address::Tcp(address),
            });
            let rules = Rules { exports: exports.clone(), settings: settings.clone(), tls: config.clone(), policy };
            let listening = Listening { stop: Arc::default(), closed: Arc::default() };
            let (stop, closed) = (listening.stop.clone(), Closed(listening.closed.clone()));
            let (acceptor, rules) = (acceptor.clone(), Arc::new(rules));
            server.listening.push(listening);
            reactors[number % reactors.len()].spawn(move || async move {
                accept(listener, &acceptor, rules, &stop).await;
                drop(closed);
            });
        }
        Ok(server)
    }

    /// Where it listens, with the ports that it was given.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Who is connected, the longest first.
    pub fn connections(&self) -> Vec<ConnectionStatus> {
        self.registry.list()
    }

    /// Stops listening, answers what is in flight, refuses with `ESHUTDOWN` what still comes, and closes. Ends when the
    /// last connection is gone, at most a little after the drain timeout.
    pub async fn shutdown(self) {
        for listening in &self.listening {
            listening.stop.raise();
            listening.closed.wait().await;
        }
        self.registry.close();
        self.registry.emptied().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.listening.iter().for_each(|listening| listening.stop.raise());
        self.registry.close();
    }
}

/// Says that a listener is closed, also where its reactor stopped.
struct Closed(Arc<Signal>);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.raise();
    }
}

fn bind(address: &Address, settings: &NbdSettings) -> Result<Listener, NbdError> {
    let bound = match address {
        Address::Unix(path) => Listener::bind_unix(path, settings.unix_mode),
        Address::Tcp(address) => Listener::bind_tcp(*address),
    };
    bound.map_err(|source| NbdError::Listen { address: address.to_string(), source })
}

fn policy(settings: Option<&TlsSettings>, address: &LocalAddress) -> TlsPolicy {
    match (settings.map(|settings| settings.required), address) {
        (None, _) => TlsPolicy::Absent,
        (Some(TlsRequired::Everywhere), _) | (Some(TlsRequired::OverTcp), LocalAddress::Tcp(_)) => TlsPolicy::Required,
        _ => TlsPolicy::Optional,
    }
}

async fn accept(listener: Listener, acceptor: &Acceptor, rules: Arc<Rules>, stop: &Arc<Signal>) {
    let clock = clock();
    loop {
        let accepted = match select(Box::pin(listener.accept()), stop.wait()).await {
            Either::Left((accepted, _)) => accepted,
            Either::Right(_) => return,
        };
        match accepted {
            Ok(stream) => acceptor.place(stream, rules.clone()),
            Err(error) => {
                tracing::warn!(address = %listener.local_address(), %error, "an NBD connection could not be accepted");
                clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Acceptor {
    /// Gives a connection to the next reactor.
    fn place(&self, stream: Stream, rules: Arc<Rules>) {
        let Ok(peer) = stream.peer() else { return };
        let limit = rules.settings.connections;
        let Some(admission) = self.registry.admit(peer.to_string(), limit) else {
            tracing::warn!(%peer, limit, "an NBD connection was refused: the maximum number of connections is reached");
            return;
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let fd = stream.into_raw();
        self.reactors[number % self.reactors.len()].spawn(move || async move {
            match Stream::from_raw(fd) {
                Ok(stream) => session::run(stream, admission, rules).await,
                Err(error) => tracing::warn!(%error, "an NBD connection could not be moved to its reactor"),
            }
        });
    }
}
