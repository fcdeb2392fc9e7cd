//! The life of one connection: handshake within its time, then transmission.
//!
//! Invariant: a session holds its place in the registry from before the greeting until after its last byte.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use holdfast_device::reactor::net::Stream;
use holdfast_device::reactor::{ReactorHandle, clock};
use holdfast_listener::{Accepted, Address, Admission, Encryption, Handler, ListenError, Receiver, Sender, Server};

use crate::connection::{self, Broken, Terms};
use crate::exports::{Exports, Offered};
use crate::negotiate::{Negotiation, NegotiationError, Step};
use crate::settings::NbdSettings;

/// Bytes of options that are received at once.
const RECEIVE_BYTES: usize = 16 << 10;
/// Replies to options are sent when so many bytes wait, even where the client asked for more in one breath.
const SEND_BYTES: usize = 64 << 10;

/// What all sessions of a server share.
struct Nbd {
    exports: Arc<Exports>,
    settings: NbdSettings,
}

/// Listens on all `addresses` and serves `exports` on all `reactors`.
///
/// # Errors
/// When an address or a TLS file cannot be used; then nothing listens.
pub fn serve(
    reactors: Vec<ReactorHandle>,
    exports: Arc<Exports>,
    addresses: &[Address],
    settings: NbdSettings,
) -> Result<Server, ListenError> {
    let listen = settings.listen.clone();
    Server::start(reactors, Arc::new(Nbd { exports, settings }), addresses, &listen)
}

#[derive(Debug, thiserror::Error)]
enum HandshakeError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Negotiation(#[from] NegotiationError),
    #[error("the TLS handshake failed: {0}")]
    Tls(io::Error),
    #[error("the handshake took too long")]
    Late,
}

struct Entered {
    terms: Terms,
    receiver: Receiver,
    sender: Sender,
    first: Vec<u8>,
}

impl Handler for Nbd {
    const PROTOCOL: &'static str = "NBD";

    async fn serve(self: Arc<Self>, accepted: Accepted) {
        run(accepted, &self).await;
    }
}

/// Serves one connection to its end.
async fn run(accepted: Accepted, nbd: &Nbd) {
    let Accepted { stream, admission, encryption } = accepted;
    let tracked = admission.tracked().clone();
    let peer = tracked.peer();
    let clock = clock();
    let handshake =
        within(handshake(stream, &admission, &encryption, &nbd.exports), clock.sleep(nbd.settings.handshake_timeout));
    let entered = match select(pin!(handshake), tracked.stop.wait()).await {
        Either::Left((Ok(Some(entered)), _)) => entered,
        Either::Left((Err(error), _)) => return tracing::info!(peer, %error, "an NBD handshake failed"),
        Either::Left((Ok(None), _)) | Either::Right(_) => return,
    };
    tracing::debug!(peer, "an NBD client is connected");
    let Entered { terms, receiver, sender, first } = entered;
    match connection::run(terms, tracked.clone(), &nbd.settings, receiver, sender, &first).await {
        Err(error @ (Broken::Wire(_) | Broken::TooLong(_))) => {
            tracing::info!(peer, %error, "an NBD client was dropped")
        }
        Err(error) => tracing::debug!(peer, %error, "an NBD client was lost"),
        Ok(()) => tracing::debug!(peer, "an NBD client has left"),
    }
}

async fn within<T>(
    handshake: impl Future<Output = Result<T, HandshakeError>>,
    limit: impl Future<Output = ()> + Unpin,
) -> Result<T, HandshakeError> {
    match select(pin!(handshake), limit).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => Err(HandshakeError::Late),
    }
}

/// Comes to terms with a client; `None` when it left without an export.
async fn handshake(
    stream: Stream,
    admission: &Admission,
    encryption: &Encryption,
    exports: &Exports,
) -> Result<Option<Entered>, HandshakeError> {
    let tracked = admission.tracked();
    let (read, write) = stream.split();
    let (mut receiver, mut sender) = (Receiver::Plain(read), Sender::Plain(write));
    let mut negotiation = Negotiation::new(encryption.policy());
    sender.send_all(&negotiation.greeting()).await?;
    let (mut input, mut out) = (Vec::new(), Vec::new());
    loop {
        let (used, step) = negotiation.advance(&input, &mut out, &Offered(exports))?;
        input.drain(..used);
        let wait = matches!(step, Step::More) && used == 0;
        if wait || out.len() >= SEND_BYTES || !matches!(step, Step::More) {
            let terms = match step {
                Step::Enter(agreed) => {
                    if !admission.settle() {
                        return Ok(None);
                    }
                    let Some(attachment) = agreed.export.attach(tracked.clone()) else { return Ok(None) };
                    let allocation_context = agreed.allocation_context;
                    Some(Terms { attachment, style: agreed.style, allocation_context })
                }
                Step::Close => {
                    sender.send_all(&out).await?;
                    sender.close().await?;
                    return Ok(None);
                }
                Step::StartTls => {
                    sender.send_all(&out).await?;
                    out.clear();
                    (receiver, sender) = encryption.start(receiver, sender).await.map_err(HandshakeError::Tls)?;
                    tracked.set_tls();
                    negotiation.tls_started();
                    continue;
                }
                Step::More => None,
            };
            sender.send_all(&out).await?;
            out.clear();
            if let Some(terms) = terms {
                return Ok(Some(Entered { terms, receiver, sender, first: input }));
            }
        }
        if wait {
            let filled = input.len();
            input.resize(filled + RECEIVE_BYTES, 0);
            let count = receiver.recv_vectored(&mut [io::IoSliceMut::new(&mut input[filled..])]).await?;
            input.truncate(filled + count);
            if count == 0 {
                return Ok(None);
            }
        }
    }
}
