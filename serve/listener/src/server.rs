//! Listeners, and the spreading of connections over reactors.
//!
//! ```text
//!   listener (on one reactor) ─ accept ─▶ limit ─▶ next reactor ─▶ handler
//!                                           └─ full: the oldest without a login leaves
//! ```
//!
//! Invariant: a server that was shut down listens nowhere and has no connection left.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use holdfast_device::Signal;
use holdfast_device::reactor::net::{Listener, Stream};
use holdfast_device::reactor::{ReactorHandle, clock, yield_now};

use crate::registry::{Admission, ConnectionStatus, Crowding, Registry};
use crate::settings::{ListenSettings, TlsPolicy};
use crate::tls::{self, Encryption};
use crate::waiting::Crowd;
use crate::{Address, ListenError};

/// After a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a connection waits for those that were told to leave, and how often.
const CLEARING_PAUSE: Duration = Duration::from_millis(1);
const CLEARING_PAUSES: u32 = 1000;

/// A connection that was let in.
pub struct Accepted {
    /// Its stream, plain so far.
    pub stream: Stream,
    /// Its place in the registry, to be kept until its last byte is sent, and to be [settled](Admission::settle) when
    /// its client logs in.
    pub admission: Admission,
    /// Whether it is to be encrypted.
    pub encryption: Encryption,
}

/// What speaks a protocol.
pub trait Handler: Send + Sync + 'static {
    /// The protocol's name in messages.
    const PROTOCOL: &'static str;

    /// Serves one connection to its end, on the reactor that this is called on. It ends soon after `stop` of what is
    /// [`Tracked`](crate::Tracked) of it is raised.
    fn serve(self: Arc<Self>, accepted: Accepted) -> impl Future<Output = ()> + 'static;
}

/// A running server. It stops listening when this is dropped; [`shutdown`](Self::shutdown) also waits for the
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

/// What all listeners of a server share.
struct Acceptor<H> {
    handler: Arc<H>,
    reactors: Vec<ReactorHandle>,
    next: AtomicUsize,
    registry: Arc<Registry>,
    limit: usize,
}

impl Server {
    /// Listens on all `addresses` and has `handler` serve what comes, on all `reactors`.
    ///
    /// # Errors
    /// When an address or a TLS file cannot be used; then nothing listens.
    pub fn start<H: Handler>(
        reactors: Vec<ReactorHandle>,
        handler: Arc<H>,
        addresses: &[Address],
        settings: &ListenSettings,
    ) -> Result<Self, ListenError> {
        let protocol = H::PROTOCOL;
        if reactors.is_empty() {
            return Err(ListenError::Nothing { protocol, what: "reactor" });
        }
        if addresses.is_empty() {
            return Err(ListenError::Nothing { protocol, what: "address" });
        }
        let config = settings.tls.as_ref().map(tls::configuration).transpose();
        let config = config.map_err(|reason| ListenError::Tls { protocol, reason })?;
        let bind = |address: &Address| {
            let bound = match address {
                Address::Unix(path) => Listener::bind_unix(path, settings.unix_mode),
                Address::Tcp(address) => Listener::bind_tcp(*address),
            };
            bound.map_err(|source| ListenError::Listen { protocol, source })
        };
        let bound: Vec<Listener> = addresses.iter().map(bind).collect::<Result<_, _>>()?;
        let registry = Arc::new(Registry::default());
        let acceptor = Arc::new(Acceptor {
            handler,
            reactors: reactors.clone(),
            next: AtomicUsize::new(0),
            registry: registry.clone(),
            limit: settings.connections,
        });
        let mut server = Self { addresses: Vec::new(), registry, listening: Vec::new() };
        for (number, listener) in bound.into_iter().enumerate() {
            let address = Address::from(listener.local_address().clone());
            let policy = TlsPolicy::of(settings.tls.as_ref(), &address);
            let encryption = Encryption { policy, config: config.clone() };
            server.addresses.push(address);
            let listening = Listening { stop: Arc::default(), closed: Arc::default() };
            let (stop, closed) = (listening.stop.clone(), Closed(listening.closed.clone()));
            let acceptor = acceptor.clone();
            server.listening.push(listening);
            reactors[number % reactors.len()].spawn(move || async move {
                acceptor.accept(listener, encryption, &stop).await;
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

    /// How many connections there are, with and without a login.
    pub fn crowding(&self) -> Crowding {
        self.registry.crowding()
    }

    /// Who has many connections without a login.
    pub fn crowds(&self) -> Vec<Crowd> {
        self.registry.crowds()
    }

    /// Stops listening and tells all connections to stop. Ends when the last one is gone, which is up to the protocol.
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

impl<H: Handler> Acceptor<H> {
    /// Lets clients in until `stop` is raised.
    async fn accept(&self, listener: Listener, encryption: Encryption, stop: &Arc<Signal>) {
        let clock = clock();
        loop {
            let accepted = match select(Box::pin(listener.accept()), stop.wait()).await {
                Either::Left((accepted, _)) => accepted,
                Either::Right(_) => return,
            };
            match accepted {
                Ok(stream) => {
                    let mut pauses = 0;
                    while self.registry.is_clearing(self.limit) && pauses < CLEARING_PAUSES {
                        pauses += 1;
                        clock.sleep(CLEARING_PAUSE).await;
                    }
                    self.place(stream, encryption.clone());
                    // Those that leave on this reactor do so before the next one comes.
                    yield_now().await;
                }
                Err(error) => {
                    let address = listener.local_address();
                    tracing::warn!(%address, %error, "a connection over {} could not be accepted", H::PROTOCOL);
                    // Out of descriptors, most likely, which those without a login hold as well.
                    self.registry.make_room();
                    clock.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Gives a connection to the next reactor.
    fn place(&self, stream: Stream, encryption: Encryption) {
        let Ok(peer) = stream.peer() else { return };
        let limit = self.limit;
        let Some(admission) = self.registry.admit(&peer, limit) else {
            let protocol = H::PROTOCOL;
            tracing::warn!(%peer, limit, "a connection over {protocol} was refused: the maximum number of connections is reached");
            return;
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let fd = stream.into_raw();
        let handler = self.handler.clone();
        self.reactors[number % self.reactors.len()].spawn(move || async move {
            match Stream::from_raw(fd) {
                Ok(stream) => handler.serve(Accepted { stream, admission, encryption }).await,
                Err(error) => {
                    tracing::warn!(%error, "a connection over {} could not be moved to its reactor", H::PROTOCOL)
                }
            }
        });
    }
}
